//! The fold over whole sessions: engine and simulated fabric in virtual time.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use fabtop::engine::{Config, Virtual};
use fabtop::event::{Event, HowLate, Settings, Severity, What};
use fabtop::fabric::{NodeId, PortKey};
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::report::{self, Format};
use fabtop::sim::{Action, Counter, Faults, Script, SimOptions, SimPort, default_fabric};

struct Run {
    model: Model,
    events: Vec<Event>,
}

fn run(options: SimOptions, settings: Settings, end: Stamp) -> Run {
    let port = SimPort::new(default_fabric(), options).unwrap();
    let config = Config {
        settings,
        ..Config::default()
    };
    let mut engine = Virtual::new(Box::new(port), config);
    let mut run = Run {
        model: Model::new(),
        events: Vec::new(),
    };
    engine.run_until(end, &mut |batch| {
        for event in &batch.events {
            run.model.apply(event);
            run.events.push(event.clone());
        }
    });
    run
}

fn script(steps: impl IntoIterator<Item = (u64, Action)>) -> SimOptions {
    let mut script = Script::new();
    for (secs, action) in steps {
        script = script.at(Stamp::from_secs(secs), action);
    }
    SimOptions {
        faults: Faults::Script(script),
        ..SimOptions::default()
    }
}

fn node(name: &str) -> NodeId {
    let fabric = default_fabric();
    let index = fabric.find(name).unwrap();
    fabric.id(index).unwrap()
}

fn everything(model: &Model) -> String {
    let now = model.last();
    let mut all = String::new();
    for format in [Format::Text, Format::Json] {
        for report in [
            report::ports,
            report::nodes,
            report::timeouts,
            report::events,
        ] {
            all += &report(model, now, format);
        }
    }
    all + &report::topology(model, now)
}

impl Run {
    fn flagged(&self, which: impl Fn(&fabtop::model::view::Flags) -> bool) -> Vec<PortKey> {
        let rows = self.model.ports(self.model.last());
        let picked = rows.iter().filter(|r| which(&r.flags)).map(|r| r.key);
        picked.collect()
    }

    fn texts(&self) -> Vec<&str> {
        self.model.log().iter().map(|l| l.text.as_str()).collect()
    }
}

#[test]
fn a_session_folded_twice_gives_the_same_bytes() {
    let run = run(
        SimOptions::default(),
        Settings::default(),
        Stamp::from_secs(120),
    );
    let mut again = Model::new();
    for event in &run.events {
        again.apply(event);
    }
    assert_eq!(everything(&run.model), everything(&again));
    assert_eq!(run.model.revision(), again.revision());
}

#[test]
fn the_models_fabric_is_the_engines_at_every_discoverys_end() {
    let settings = Settings {
        discovery_interval_ns: 30_000_000_000,
        ..Settings::default()
    };
    let run = run(SimOptions::default(), settings, Stamp::from_secs(200));
    let discoveries = run
        .events
        .iter()
        .filter(|e| matches!(&e.what, What::SweepEnded(s) if s.digest != 0))
        .count();
    assert!(discoveries >= 5, "{discoveries}");
    assert_eq!(run.model.digests_differ(), 0, "{:?}", run.texts());
}

/// "A quiet healthy fabric shows nothing red."
#[test]
fn a_healthy_fabric_is_quiet() {
    let run = run(
        SimOptions::healthy(),
        Settings::default(),
        Stamp::from_secs(300),
    );
    assert_eq!(run.flagged(|f| f.any()), []);
    let loud: Vec<_> = run
        .model
        .log()
        .iter()
        .filter(|l| l.severity != Severity::Info)
        .collect();
    assert!(loud.is_empty(), "{loud:?}");
    let now = run.model.last();
    let rows = run.model.ports(now);
    assert!(rows.iter().all(|r| !r.stale), "all are fresh");
    let up = rows.iter().filter(|r| r.width.is_some());
    assert!(up.clone().count() > 100);
    for row in up {
        assert!(
            row.errors.current() == Some(0),
            "{}[{}]",
            row.name,
            row.key.port
        );
    }
    for row in run.model.traffic(now) {
        let share = row.tx_share().current().unwrap();
        assert!((0.0..=1.0).contains(&share), "{}: {share}", row.name);
        assert!(row.history.len() >= 20);
    }
}

#[test]
fn what_was_sent_is_accounted_for_to_the_last_mad() {
    let run = run(
        SimOptions::default(),
        Settings::default(),
        Stamp::from_secs(90),
    );
    let sent = run
        .events
        .iter()
        .filter(|e| matches!(&e.what, What::Sent(s) if s.attempt > 0))
        .count() as u64;
    // An answer that is overdue and comes after all is an answer.
    let mut unanswered = std::collections::BTreeSet::new();
    let mut over = std::collections::BTreeSet::new();
    for event in &run.events {
        match &event.what {
            What::TimedOut(t) => {
                unanswered.insert(t.tid);
                if t.how != HowLate::Overdue {
                    over.insert(t.tid);
                }
            }
            What::Received(r) if !over.contains(&r.mad.tid_low()) => {
                unanswered.remove(&r.mad.tid_low());
            }
            _ => {}
        }
    }
    let timed_out = unanswered.len() as u64;
    let rows = run.model.destinations(run.model.last());
    let sum =
        |of: fn(&fabtop::model::view::DestinationRow<'_>) -> u64| rows.iter().map(of).sum::<u64>();
    let flying = run.model.in_flight(run.model.last());
    let flying = flying.iter().filter(|r| !r.overdue).count() as u64;
    assert_eq!(sum(|r| r.timed_out), timed_out);
    assert!(timed_out > 0, "the default fabric has a dead host");
    assert_eq!(sum(|r| r.answered) + timed_out + flying, sent);
}

#[test]
fn each_default_fault_is_found_and_nothing_else() {
    let port = SimPort::new(default_fabric(), SimOptions::default()).unwrap();
    let faults = port.default_faults().clone();
    drop(port);
    let run = run(
        SimOptions::default(),
        Settings::default(),
        Stamp::from_secs(60),
    );
    let (narrow, noisy) = (faults.narrow.unwrap(), faults.noisy.unwrap());
    let peer = run.model.topology().port(narrow).unwrap().peer.unwrap();
    let mut want = vec![narrow, peer];
    want.sort();
    assert_eq!(run.flagged(|f| f.below_best), want);
    // The dead host is seen by its link only: nobody answers beyond it.
    let rows = run.model.destinations(run.model.last());
    let silent: Vec<_> = rows
        .iter()
        .filter(|r| r.timed_out > 0 && r.answered == 0)
        .collect();
    assert_eq!(silent.len(), 1, "{silent:?}");
    assert!(run.flagged(|f| f.errors).contains(&noisy));
    let counters = run.model.counters(noisy, run.model.last());
    let symbols = counters.iter().find(|c| c.name == "SymbolErrorCounter");
    let rate = symbols.unwrap().rate.current().unwrap();
    // 25 a second by the script; a counter holds whole errors, about five seconds of them.
    assert!((24.0..=26.0).contains(&rate), "{rate}");
    // The slow one takes 150 ms longer for each answer.
    let slow = faults.slow.unwrap();
    let row = rows.iter().find(|r| r.node == Some(slow)).unwrap();
    assert!(row.p50.unwrap() >= Duration::from_millis(150), "{row:?}");
    let flapping = faults.flapping.unwrap();
    let flaps = |texts: &[&str], what: &str| {
        let name = run.model.name(flapping.node);
        texts.iter().any(|t| t.contains(name) && t.contains(what))
    };
    assert!(flaps(&run.texts(), "link lost"), "{:?}", run.texts());
}

/// Field reports 16 and 29, end to end: counters reset by somebody else.
#[test]
fn a_reset_by_others_makes_no_spike() {
    let host = node("cn001").port(1);
    let options = script([
        (
            0,
            Action::Errors {
                port: host,
                counter: Counter::SymbolError,
                per_second: 10.0,
            },
        ),
        (32, Action::ResetCounters(host)),
    ]);
    let port = SimPort::new(default_fabric(), options).unwrap();
    let mut engine = Virtual::new(Box::new(port), Config::default());
    let mut model = Model::new();
    let mut highest: f64 = 0.0;
    let mut resets = 0;
    for second in 1..=60 {
        engine.run_until(Stamp::from_secs(second), &mut |batch| {
            for event in &batch.events {
                model.apply(event);
            }
        });
        let Some(row) = model.port(host, model.last()) else {
            continue;
        };
        if let Some(rate) = row.errors_per_s.get() {
            assert!(rate >= 0.0);
            highest = highest.max(rate);
        }
        resets += u32::from(row.errors_per_s == fabtop::model::Num::Reset);
    }
    assert!(resets > 0);
    assert!(highest <= 11.0, "{highest}");
    let name = model.name(host.node).to_owned();
    let told = model
        .log()
        .iter()
        .filter(|l| {
            l.text
                .starts_with(&format!("{name}[1]: counters were reset"))
        })
        .count();
    assert_eq!(told, 1);
}

#[test]
fn an_unplugged_host_is_told_of_and_comes_back() {
    let host = node("cn002");
    let options = script([
        (40, Action::LinkDown(host.port(1))),
        (140, Action::LinkUp(host.port(1))),
    ]);
    let run = run(options, Settings::default(), Stamp::from_secs(240));
    let name = run.model.name(host);
    let at = |what: &str| {
        let found = run.model.log().iter().find(|l| l.text.contains(what));
        let line = found.unwrap_or_else(|| panic!("{what}: {:?}", run.texts()));
        line.first.0 / 1_000_000_000
    };
    // A notice makes the switch be read again at once.
    assert!((40..=42).contains(&at(&format!("{name} cannot be reached"))));
    assert!((140..=172).contains(&at(&format!("{name} is back"))));
    assert!(run.flagged(|f| f.unreachable || f.down).is_empty());
}

#[test]
fn an_sm_that_fails_over_is_told_of() {
    let run = run(
        script([(60, Action::SmFailover)]),
        Settings::default(),
        Stamp::from_secs(200),
    );
    let moved = run
        .texts()
        .iter()
        .any(|t| t.starts_with("SM moved from mgmt"));
    assert!(moved, "{:?}", run.texts());
    let sm = run.model.header(run.model.last()).sm.unwrap();
    assert_eq!(sm.state_name(), "Master");
}
