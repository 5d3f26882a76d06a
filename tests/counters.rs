//! Counters end to end: the built-in simulator's agents, the engine that reads them in virtual
//! time, the model that shows them.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

use fabtop::command::Command;
use fabtop::engine::{Config, Virtual};
use fabtop::event::{Event, What};
use fabtop::fabric::{LinkSpeed, NodeKind};
use fabtop::mad::{FecMode, Method, MgmtClass};
use fabtop::model::{Ber, Model, Num};
use fabtop::port::Stamp;
use fabtop::sim::{SimOptions, SimPort, default_fabric};

fn engine() -> Virtual {
    let port = SimPort::new(default_fabric(), SimOptions::healthy()).unwrap();
    Virtual::new(Box::new(port), Config::default())
}

fn run(engine: &mut Virtual, model: &mut Model, events: &mut Vec<Event>, until: u64) {
    engine.run_until(Stamp::from_secs(until), &mut |batch| {
        for event in &batch.events {
            model.apply(event);
            events.push(event.clone());
        }
    });
}

#[test]
fn every_link_with_rs_fec_has_bit_error_rates_and_no_other_has() {
    let (mut engine, mut model, mut events) = (engine(), Model::new(), Vec::new());
    run(&mut engine, &mut model, &mut events, 90);
    let now = model.last();
    let mut with = 0;
    for row in model.ports(now).iter().filter(|r| r.peer.is_some()) {
        let fec = model.fec(row.key, now);
        // The simulator's PMA has RS-FEC counters from HDR devices on.
        let Some(fec) = fec.filter(|f| f.age.is_some()) else {
            continue;
        };
        if row.speed.unwrap() < LinkSpeed::Hdr {
            continue;
        }
        with += 1;
        assert_eq!(fec.mode, Some(FecMode::Rs), "{}", row.name);
        assert!(!fec.stale);
        // A healthy link repairs something or nothing, and loses nothing.
        assert!(matches!(fec.raw_since, Ber::Is(_) | Ber::Below(_)));
        assert!(matches!(fec.effective_since, Ber::Below(_)));
    }
    assert!(with > 100, "{with}");
}

/// Field report 16: a monitor reset counters that others rely on.
#[test]
fn field_report_16_nothing_of_performance_management_is_ever_set() {
    let (mut engine, mut model, mut events) = (engine(), Model::new(), Vec::new());
    run(&mut engine, &mut model, &mut events, 10);
    let rows = model.ports(model.last());
    let key = rows
        .iter()
        .find(|r| r.kind == NodeKind::Switch)
        .unwrap()
        .key;
    engine.command(Command::Focus(Some(key)));
    engine.command(Command::ReadCounters);
    run(&mut engine, &mut model, &mut events, 40);
    let mut asked = 0;
    for event in &events {
        if let What::Sent(sent) = &event.what
            && sent.mad.class() == MgmtClass::Perf
        {
            assert_eq!(sent.mad.method(), Method::Get);
            asked += 1;
        }
    }
    assert!(asked > 1_000);
}

#[test]
fn the_port_that_is_looked_at_shows_its_optional_counters_live_and_in_a_replay() {
    let (mut engine, mut model, mut events) = (engine(), Model::new(), Vec::new());
    run(&mut engine, &mut model, &mut events, 10);
    let rows = model.ports(model.last());
    let leaf = rows
        .iter()
        .find(|r| r.name.starts_with("leaf05") && r.key.port == 1)
        .unwrap();
    let (near, far) = (leaf.key, leaf.peer.unwrap().key);
    assert!(model.details(near, model.last()).is_empty());
    engine.command(Command::Focus(Some(near)));
    run(&mut engine, &mut model, &mut events, 22);
    let now = model.last();
    for key in [near, far] {
        let detail = model.detail(key, now).unwrap().near;
        let group = |name| detail.details.iter().find(|g| g.attribute == name).unwrap();
        // What this simulated device has, and what it has not.
        let flow = group("PortFlowCtlCounters");
        assert!(flow.missing.is_none() && !flow.stale);
        assert!(matches!(flow.rows[0].rate, Num::Is(_)), "{flow:?}");
        let refused = group("PortVLOpPackets").missing.as_deref();
        assert_eq!(refused, Some("method and attribute not supported"));
    }
    // The stream holds it all.
    let mut again = Model::new();
    for event in &events {
        again.apply(event);
    }
    assert_eq!(again.details(near, now), model.details(near, now));
    assert!(!again.details(far, now).is_empty());
}
