//! Whoever joins a session late sees the fabric as one who was there from the beginning.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

use fabtop::engine::{Config, Virtual};
use fabtop::event::{Event, What};
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::record::{Encoder, Ledger, Options, Reader};
use fabtop::sim::{SimOptions, SimPort, default_fabric};

fn session(until: Stamp) -> Vec<Event> {
    let sim = SimPort::new(default_fabric(), SimOptions::default()).unwrap();
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
