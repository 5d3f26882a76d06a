//! Notices from the wire to the model: a flood of them costs bounded memory, and delays nothing.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

use std::time::Duration;

use fabtop::engine::{Config, Virtual};
use fabtop::event::{SweepKind, What};
use fabtop::fabric::{NodeId, NodeKind};
use fabtop::mad::{Method, MgmtClass};
use fabtop::model::Model;
use fabtop::model::log::LINES;
use fabtop::port::Stamp;
use fabtop::sim::{Action, Fabric, Faults, Script, SimOptions, SimPort, default_fabric};

/// What a session came to.
struct Outcome {
    model: Model,
    /// How long each sweep after the first discovery took, ms of virtual time.
    counters: Vec<u128>,
    states: Vec<u128>,
    /// Notices in the stream.
    recorded: usize,
    /// Reports that were acknowledged, among those in the stream.
    acknowledged: usize,
}

fn session(script: Script) -> Outcome {
    let options = SimOptions {
        faults: Faults::Script(script),
        ..SimOptions::default()
    };
    let sim = SimPort::new(default_fabric(), options).unwrap();
    let mut engine = Virtual::new(Box::new(sim), Config::default());
    let mut outcome = Outcome {
        model: Model::new(),
        counters: Vec::new(),
        states: Vec::new(),
        recorded: 0,
        acknowledged: 0,
    };
    let mut began = [None; 4];
    engine.run_until(Stamp::from_secs(70), &mut |batch| {
        for event in &batch.events {
            outcome.model.apply(event);
            match &event.what {
                What::SweepBegan(s) => began[s.kind as usize] = Some(event.at),
                What::SweepEnded(s) => {
                    let took = event.at.since(began[s.kind as usize].unwrap()).as_millis();
                    match s.kind {
                        SweepKind::Counters => outcome.counters.push(took),
                        SweepKind::States => outcome.states.push(took),
                        _ => {}
                    }
                }
                What::Received(r) if r.mad.method() == Method::Report => outcome.recorded += 1,
                What::Sent(s)
                    if s.mad.method() == Method::ReportResp
                        && s.mad.class() == MgmtClass::SubnAdm =>
                {
                    outcome.acknowledged += 1;
                }
                _ => {}
            }
        }
    });
    outcome
}

fn a_switch(fabric: &Fabric) -> NodeId {
    let node = fabric
        .nodes
        .iter()
        .find(|n| n.kind == NodeKind::Switch)
        .unwrap();
    NodeId::new(node.guid)
}

#[test]
fn a_flood_of_ten_thousand_notices_a_second_delays_no_sweep_and_stays_bounded() {
    let switch = a_switch(&default_fabric());
    let quiet = session(Script::new());
    // For half a minute: link state changes (each a reason to read that switch again) and link
    // integrity errors, 10,000 a second together.
    let flood = |trap| Action::TrapFlood {
        port: switch.port(1),
        trap,
        per_second: 5_000,
        count: 150_000,
    };
    let script = Script::new()
        .at(Stamp::from_secs(20), flood(128))
        .at(Stamp::from_secs(20), flood(129));
    let flooded = session(script);

    // As many sweeps, and none takes longer than the slowest quiet one and a tenth of a second.
    assert_eq!(flooded.counters.len(), quiet.counters.len());
    assert_eq!(flooded.states.len(), quiet.states.len());
    for (with, without) in [
        (&flooded.counters, &quiet.counters),
        (&flooded.states, &quiet.states),
    ] {
        let slowest = without.iter().max().unwrap() + 100;
        assert!(with.iter().all(|t| *t <= slowest), "{with:?} {without:?}");
    }
    // 300,000 came; at most 1,000 a second are in the stream, and all of those acknowledged.
    assert!(
        (10_000..=35_000).contains(&flooded.recorded),
        "{}",
        flooded.recorded
    );
    assert_eq!(flooded.acknowledged, flooded.recorded);
    // They are a few lines: what, where, how often, when first and last.
    let log = flooded.model.log();
    assert!(log.len() < 100 && log.len() < LINES, "{}", log.len());
    let repeated = log
        .iter()
        .filter(|l| l.text.starts_with("notice 12") && l.count > 1_000);
    for line in repeated.clone() {
        assert!(line.last.since(line.first) >= Duration::from_secs(20));
        assert!(line.about.is_some());
    }
    assert_eq!(repeated.count(), 2);
    // Nothing is asked that waits for ever, nobody counts as silent.
    assert_eq!(flooded.model.alert_counts(), quiet.model.alert_counts());
}
