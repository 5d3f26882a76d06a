//! Whoever joins a session late sees the fabric as one who was there from the beginning.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

use fabtop::engine::{Config, Virtual};
use fabtop::event::{Event, What};
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::record::{Encoder, Ledger, Options, Reader};
use fabtop::report::{self, Format};
use fabtop::sim::{Fabric, SimOptions, SimPort, default_fabric, netfile};

fn session(until: Stamp) -> Vec<Event> {
    session_over(default_fabric(), SimOptions::default(), until)
}

fn session_over(fabric: Fabric, options: SimOptions, until: Stamp) -> Vec<Event> {
    let sim = SimPort::new(fabric, options).unwrap();
    let mut engine = Virtual::new(Box::new(sim), Config::default());
    let mut events = Vec::new();
    engine.run_until(until, &mut |batch| {
        events.extend(batch.events.iter().cloned())
    });
    events
}

/// What a keyframe and a model must agree on: all but histories.
fn fabric_as_shown(model: &Model, now: Stamp) -> Vec<String> {
    let header = model.header(now);
    let mut lines = vec![
        format!("{} {} {:?}", header.source, header.host, header.local),
        format!(
            "{:?} {:?}",
            header.size,
            header.sm.map(|sm| (sm.lid, sm.guid))
        ),
        format!("digest {:x}", model.topology().digest()),
    ];
    lines.extend(model.ports(now).iter().map(|row| {
        // A sample's time lies between request and reply; a keyframe has only the reply's.
        let age = row.age.map(|age| age.as_secs_f64().round());
        let peer = row.peer.as_ref().map(|p| (p.key, p.name));
        format!(
            "{:?} {} {:?} {:?} {:?} {:?} {:?} {peer:?} {age:?}",
            row.key, row.name, row.kind, row.state, row.width, row.speed, row.lid
        )
    }));
    // Baselines: what was counted since the session began.
    for row in model.ports(now) {
        for c in model.counters(row.key, now) {
            let since = (c.value.get().is_some()).then_some(c.since);
            lines.push(format!("{:?} {} {since:?}", row.key, c.name));
        }
        lines.push(format!("{:?} {:?}", row.errors, row.flags));
        if let Some(fec) = model.fec(row.key, now) {
            let counts = fec.counters.iter().map(|c| (c.name, c.value, c.since));
            let (raw, effective) = (fec.raw_since, fec.effective_since);
            let counts: Vec<_> = counts.collect();
            lines.push(format!("{:?} {counts:?} {raw} {effective}", row.key));
        }
    }
    lines.extend(model.alerts().iter().map(|a| format!("{a:?}")));
    lines.push(format!("{:?}", model.alert_counts()));
    lines.extend(model.destinations(now).iter().map(|d| {
        format!(
            "{} {:?} sent {} answered {} retried {} timed out {} in flight {} {:?} {:?}",
            d.name,
            d.node,
            d.sent,
            d.answered,
            d.retried,
            d.timed_out,
            d.in_flight,
            d.back_off,
            d.failure.as_ref()
        )
    }));
    lines.extend(model.in_flight(now).iter().map(|f| format!("{f:?}")));
    lines
}

/// Lines of `b` that differ from `a`'s, for a failure that can be read.
fn differences(a: &[String], b: &[String]) -> Vec<String> {
    let pairs = a.iter().zip(b).filter(|(a, b)| a != b);
    let mut all: Vec<_> = pairs.map(|(a, b)| format!("{a}\n  joined: {b}")).collect();
    if a.len() != b.len() {
        all.push(format!("{} lines, joined: {}", a.len(), b.len()));
    }
    all
}

#[test]
fn a_joined_model_shows_the_same_fabric() {
    let end = Stamp::from_secs(200);
    let (mut opened, mut failed, mut corrected) = (0, 0, 0);
    let events = session(end);
    // In the middle of a counter sweep, after one, after port states were read again, and after
    // a fault changed something.
    for join in [7_300, 12_900, 33_000, 64_500, 100_100].map(Stamp::from_millis) {
        let split = events.partition_point(|e| e.at <= join);
        let (before, after) = events.split_at(split);
        let mut whole = Model::new();
        let mut ledger = Ledger::new();
        for event in before {
            whole.apply(event);
            ledger.observe(event);
        }
        let mut encoder = Encoder::new(Options::default());
        let mut bytes = Vec::new();
        ledger.keyframe(after[0].seq, &mut |events| {
            encoder.encode(events, &mut bytes);
        });
        let mut reader = Reader::new(&bytes[..]);
        let mut joined = Model::new();
        let mut known = 0;
        for event in reader.by_ref() {
            assert_eq!(event.seq, after[0].seq);
            known += u32::from(matches!(event.what, What::Known(_)));
            joined.apply(&event);
        }
        assert_eq!(reader.problems().list(), &[]);
        assert!(known > 100, "{known}");
        assert_eq!(known as usize, ledger.len());

        let now = before.last().unwrap().at;
        opened += whole.alert_counts().all();
        failed += whole
            .destinations(now)
            .iter()
            .filter(|d| d.failure.is_some())
            .count();
        corrected += whole
            .ports(now)
            .iter()
            .filter_map(|row| whole.fec(row.key, now))
            .filter(|fec| fec.counters.iter().any(|c| c.since.get() > Some(0)))
            .count();
        let (a, b) = (fabric_as_shown(&whole, now), fabric_as_shown(&joined, now));
        let differ = differences(&a, &b);
        assert!(differ.is_empty(), "at {join:?}:\n{}", differ.join("\n"));
        for event in after {
            whole.apply(event);
            joined.apply(event);
        }
        let (a, b) = (fabric_as_shown(&whole, end), fabric_as_shown(&joined, end));
        let differ = differences(&a, &b);
        assert!(
            differ.is_empty(),
            "from {join:?} on:\n{}",
            differ.join("\n")
        );
        assert_eq!(joined.header(end).dropped, 0);
        assert_eq!(joined.digests_differ(), 0);
    }
    assert!(opened > 0, "no alert was open at any of these moments");
    assert!(failed > 0, "nobody had failed at any of these moments");
    assert!(
        corrected > 0,
        "no FEC counter had risen at any of these moments"
    );
}

/// The model of one who joins before number `next`.
fn join(ledger: &Ledger, next: u64) -> Model {
    let mut encoder = Encoder::new(Options::default());
    let mut bytes = Vec::new();
    ledger.keyframe(next, &mut |events| {
        encoder.encode(events, &mut bytes);
    });
    let mut joined = Model::new();
    for event in Reader::new(&bytes[..]) {
        joined.apply(&event);
    }
    joined
}

/// Nodes with their states and ports, and who is missing.
fn nodes_as_shown(model: &Model, now: Stamp) -> Vec<String> {
    let mut all = report::nodes(model, now, Format::Text);
    all += &report::missing(model, now, Format::Text);
    all += &report::topology(model, now);
    all += &format!("{:?}\n", model.header(now).size);
    all += &format!("digest {:x}\n", model.topology().digest());
    for node in model.topology().nodes() {
        let read: Vec<bool> = node.ports.iter().map(|p| p.info.is_some()).collect();
        all += &format!("{} {} {read:?}\n", node.id, node.present);
    }
    all.lines().map(str::to_owned).collect()
}

/// The museum's own script: a node is replaced behind its port, one moves, a switch is split off
/// with its hosts and comes back.
#[test]
fn a_node_that_was_replaced_behind_its_port_is_missing_for_one_who_joins_too() {
    const MUSEUM: &str = include_str!("../assets/fabrics/museum.net");
    const REPLACED: u64 = 0xe0;
    // And a host is switched off, which is missing at the discovery after that.
    let text = format!("# sim at 300s down \"narrow\"[1]\n{MUSEUM}");
    let (fabric, problems) = netfile::parse(&text);
    assert_eq!(problems, []);
    let mut options = SimOptions::default();
    assert_eq!(netfile::scenario(&text, &fabric, &mut options), []);
    // Discoveries are 600 s apart, and a node is forgotten after it missed more than six.
    let end = Stamp::from_secs(5_200);
    let events = session_over(fabric, options, end);
    let is_it = |n: &fabtop::fabric::Node| n.id.guid.0 & 0xFFFF == REPLACED;
    let moments = [20, 61, 75, 90, 121, 150, 200, 610, 1_300, 5_190];
    let (mut whole, mut ledger) = (Model::new(), Ledger::new());
    let (mut missed, mut off, mut most, mut at) = (0, 0, 0, 0);
    for (n, secs) in moments.iter().enumerate() {
        let split = events.partition_point(|e| e.at <= Stamp::from_secs(*secs));
        for event in &events[at..split] {
            whole.apply(event);
            ledger.observe(event);
        }
        at = split;
        let joined = join(&ledger, events[split].seq);
        let now = events[split - 1].at;
        let (a, b) = (nodes_as_shown(&whole, now), nodes_as_shown(&joined, now));
        let differ = differences(&a, &b);
        assert!(differ.is_empty(), "at {secs} s:\n{}", differ.join("\n"));
        let it = joined.topology().nodes().find(|n| is_it(n));
        missed += u32::from(it.is_some_and(|n| !n.present));
        let missing = report::missing(&joined, now, Format::Text);
        off += u32::from(missing.lines().any(|line| line.starts_with("narrow")));
        let last = n + 1 == moments.len();
        assert_eq!(it.is_none(), last, "at {secs} s");
        match last {
            // What was told of the forgotten one has left.
            true => assert!(ledger.len() < most, "{} of {most}", ledger.len()),
            false => most = ledger.len(),
        }
    }
    // After 610 and 1,300 s.
    assert_eq!(off, 2);
    assert!(missed >= 3, "it was missing at {missed} of these moments");
}
