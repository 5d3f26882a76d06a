//! Answers that come late, and what does not come at all: the window is not held by either.

use super::fabric::{Fate, star, tree};
use super::*;
use crate::fabric::NodeId;
use crate::mad::{Attribute, MgmtClass, NodeInfo};

fn node_info_of(bench: &Bench, via_port: u8) -> Vec<(Stamp, String)> {
    // The switch's port by which the host is reached is the route's second hop.
    let mut tids = std::collections::BTreeSet::new();
    let mut seen = Vec::new();
    for event in &bench.events {
        match &event.what {
            What::Sent(s)
                if s.mad.attr_id() == NodeInfo::ID
                    && s.mad.initial_path().get(1) == Some(&via_port) =>
            {
                tids.insert(s.mad.tid_low());
                seen.push((event.at, format!("sent {}", s.attempt)));
            }
            What::TimedOut(t) if tids.contains(&t.tid) => {
                let how = format!("{:?} {}", t.how, t.attempt).to_lowercase();
                seen.push((event.at, how));
            }
            What::Received(r) if tids.contains(&r.mad.tid_low()) => {
                seen.push((event.at, "received".into()));
            }
            _ => {}
        }
    }
    seen
}

#[test]
fn a_late_answer_to_an_earlier_attempt_counts() {
    let fabric = star(3);
    fabric.get().script = Some(Box::new(|_, out| {
        if out.mad.attr_id() == NodeInfo::ID && out.mad.initial_path() == [1, 3] {
            return Fate::Late(Duration::from_millis(120));
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(2_000);
    let seen = node_info_of(&bench, 3);
    let from = seen[0].0;
    let told: Vec<(u64, &str)> = seen
        .iter()
        .map(|(at, what)| (at.since(from).as_micros() as u64, what.as_str()))
        .collect();
    // Asked again after 50 ms; the answer to the first attempt comes after 120.1 and ends both,
    // before the third is made at 150.
    assert_eq!(
        told,
        [
            (0, "sent 1"),
            (50_000, "overdue 1"),
            (50_000, "sent 2"),
            (120_100, "moot 2"),
            (120_100, "received"),
            (170_100, "received"),
        ]
    );
    assert!(bench.engine.topology().node(NodeId::new(0x1003)).is_some());
    // The answer to the second comes later still and changes nothing.
    assert_eq!(bench.ended(SweepKind::Discovery).len(), 1);
}

#[test]
fn a_node_that_was_slow_once_is_given_its_time() {
    let fabric = star(3);
    fabric.get().script = Some(Box::new(|at, out| {
        let slow = at >= Stamp::from_secs(7);
        if slow && out.mad.class() == MgmtClass::Perf && out.addr.lid == 3 {
            return Fate::Late(Duration::from_millis(80));
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(31_000);
    let attempts: Vec<u8> = bench
        .events
        .iter()
        .filter_map(|e| match &e.what {
            What::Sent(s)
                if s.addr.lid == 3
                    && s.mad.class() == MgmtClass::Perf
                    && e.at >= Stamp::from_secs(7) =>
            {
                Some(s.attempt)
            }
            _ => None,
        })
        .collect();
    // Both questions of a sweep are asked twice at first; from then on its 80 ms are known.
    assert_eq!(attempts.iter().filter(|a| **a == 2).count(), 2);
    assert!(attempts.len() > 10 && attempts[4..].iter().all(|a| *a == 1));
}

#[test]
fn a_fabric_that_falls_silent_is_not_piled_up_with_requests() {
    let fabric = tree(4, 40, 10);
    let mut config = Config::default();
    config.settings.smp.rate = 0;
    config.counters = false;
    config.subscribe = false;
    config.sa = false;
    let mut sent = 0u32;
    fabric.get().script = Some(Box::new(move |_, out| {
        sent += u32::from(out.mad.class().is_smp());
        if sent > 600 {
            Fate::Timeout
        } else {
            Fate::Answer
        }
    }));
    let mut bench = Bench::with(fabric, config);
    bench.run_ms(20);
    let silent = bench.fabric.get().sent.len();
    assert!(silent > 600);
    bench.run_ms(49);
    // 8 have places, and 600 answers have allowed at most 8 times as many to be overdue.
    let more = bench.fabric.get().sent.len() - 600;
    assert!(more <= 8 + 64, "{more} requests into the silence");
}

#[test]
fn a_discovery_that_waits_only_for_strangers_ends_and_a_rediscovery_hears_them() {
    let fabric = star(4);
    fabric.get().script = Some(Box::new(|_, out| {
        // One host takes 600 ms for its first answer: longer than silence is waited for, and
        // shorter than a timeout.
        if out.mad.attr_id() == NodeInfo::ID && out.mad.initial_path() == [1, 4] {
            return Fate::Late(Duration::from_millis(600));
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(3_000);
    let ended = bench.ended(SweepKind::Discovery);
    assert!(ended[0].0 < Stamp::from_millis(450), "{ended:?}");
    assert_eq!(ended[0].1.failed, 1, "shown as partial meanwhile");
    let followed = bench.ended(SweepKind::Rediscovery);
    assert_eq!(followed[0].1.failed, 0);
    let node = bench.engine.topology().node(NodeId::new(0x1004)).unwrap();
    assert!(node.present && node.description.is_some());
}

#[test]
fn a_node_that_is_known_is_waited_for_before_it_is_called_missing() {
    let mut bench = Bench::new(star(4));
    bench.run_ms(1_000);
    bench.fabric.get().script = Some(Box::new(|_, out| {
        if out.mad.attr_id() == NodeInfo::ID && out.mad.initial_path() == [1, 4] {
            return Fate::Late(Duration::from_millis(600));
        }
        Fate::Answer
    }));
    bench.engine.command(crate::command::Command::Rediscover);
    bench.run_ms(3_000);
    let ended = bench.ended(SweepKind::Discovery);
    assert!(ended[1].0 >= Stamp::from_millis(1_600), "{ended:?}");
    assert_eq!(ended[1].1.failed, 0);
    assert!(bench.engine.topology().nodes().all(|n| n.present));
}
