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
    // Asked again after 5 ms; the answer to the first attempt comes after 120.1 and ends both,
    // long before a third would be made where nothing is lost.
    assert_eq!(
        told,
        [
            (0, "sent 1"),
            (5_000, "overdue 1"),
            (5_000, "sent 2"),
            (120_100, "moot 2"),
            (120_100, "received"),
            (125_100, "received"),
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

/// SMPs to the host at port 4 of a star whose management agent takes that long for each answer,
/// within a minute: how many of them were further attempts, and when the last of these left.
fn further_attempts_at_a_slow_host(took_ms: u64) -> (usize, Stamp) {
    let fabric = star(4);
    // LIDs follow the order of nodes: the switch, then the hosts.
    let mine = |out: &crate::port::Outgoing| {
        let smp = out.mad.class().is_smp();
        smp && (out.addr.lid == 5 || out.mad.initial_path() == [1, 4])
    };
    fabric.get().script = Some(Box::new(move |_, out| {
        if mine(out) {
            return Fate::Late(Duration::from_millis(took_ms));
        }
        Fate::Answer
    }));
    let mut config = Config::default();
    config.settings.sweep_interval_ns = 2_000_000_000;
    config.settings.discovery_interval_ns = 20_000_000_000;
    let mut bench = Bench::with(fabric, config);
    bench.run_ms(60_000);
    let node = bench.engine.topology().node(NodeId::new(0x1004)).unwrap();
    assert!(node.present && node.description.is_some());
    assert!(bench.ended(SweepKind::Discovery).len() >= 3);
    let mut seen = Vec::new();
    for event in &bench.events {
        match &event.what {
            What::Sent(s)
                if mine(&crate::port::Outgoing {
                    addr: s.addr,
                    mad: s.mad.clone(),
                    timeout_ms: 0,
                }) =>
            {
                seen.push((event.at, s.attempt));
            }
            What::TimedOut(t) => assert!(!t.last, "called dead: {t:?}"),
            What::BackOff(b) => panic!("called dead: {b:?}"),
            _ => {}
        }
    }
    // Every two seconds at least it was asked for its port's state.
    assert!(seen.len() >= 30, "{}", seen.len());
    seen.retain(|(_, attempt)| *attempt > 1);
    let last = seen.last().map_or(Stamp::ZERO, |(at, _)| *at);
    (seen.len(), last)
}

#[test]
fn a_slow_management_agent_is_not_called_dead_and_gets_one_question_too_many_in_its_life() {
    // 8 ms are less than the 10 after which a third would come were SMPs being lost; 30 ms more
    // than a discovery waits for a stranger; 300 ms less than the 400 of a third attempt.
    for took_ms in [8, 30, 300] {
        let (further, last) = further_attempts_at_a_slow_host(took_ms);
        assert_eq!(further, 1, "{took_ms} ms");
        assert!(last < Stamp::from_millis(100), "{took_ms} ms: {last:?}");
    }
    // Within 5 ms nobody is asked again at all.
    assert_eq!(further_attempts_at_a_slow_host(4).0, 0);
}

/// A switch is met over each of its links, before anybody knows that it is one and the same.
#[test]
fn a_slow_switch_gets_one_question_too_many_a_link() {
    let fabric = tree(2, 6, 2);
    // Spines come first: the second of them has LID 2. It is behind port 4 of each leaf, and
    // whatever passes through it to another leaf goes on from there.
    let slow = |out: &crate::port::Outgoing| {
        let smp = out.mad.class().is_smp();
        let path = out.mad.initial_path();
        smp && (out.addr.lid == 2 || path == [1, 4] || path.len() == 4 && path[3] == 4)
    };
    let asked = std::sync::Arc::new(std::sync::Mutex::new(0));
    let log = std::sync::Arc::clone(&asked);
    fabric.get().script = Some(Box::new(move |_, out| {
        if slow(out) {
            *log.lock().unwrap() += 1;
            return Fate::Late(Duration::from_millis(30));
        }
        Fate::Answer
    }));
    let mut config = Config::default();
    config.settings.sweep_interval_ns = 2_000_000_000;
    let mut bench = Bench::with(fabric, config);
    bench.run_ms(30_000);
    let node = bench.engine.topology().node(NodeId::new(0x201)).unwrap();
    assert!(node.present && node.description.is_some());
    let mut further = Vec::new();
    for event in &bench.events {
        match &event.what {
            What::Sent(s) if s.attempt > 1 && s.mad.class().is_smp() => further.push(event.at),
            What::BackOff(b) => panic!("called dead: {b:?}"),
            _ => {}
        }
    }
    assert!(*asked.lock().unwrap() > 100);
    assert!(further.len() <= 6, "{}", further.len());
    assert!(
        further.iter().all(|at| *at < Stamp::from_millis(200)),
        "{further:?}"
    );
}

/// A discovery without a limit of rate, in which this becomes of every SMP after the 600th.
fn changed_after_600(fate: Fate) -> Bench {
    let fabric = tree(4, 40, 10);
    let mut config = Config::default();
    config.settings.smp.rate = 0;
    config.counters = false;
    config.subscribe = false;
    config.sa = false;
    let mut sent = 0u32;
    fabric.get().script = Some(Box::new(move |_, out| {
        sent += u32::from(out.mad.class().is_smp());
        if sent > 600 { fate } else { Fate::Answer }
    }));
    Bench::with(fabric, config)
}

#[test]
fn a_fabric_that_falls_silent_is_not_piled_up_with_requests() {
    let mut bench = changed_after_600(Fate::Timeout);
    bench.run_ms(20);
    let silent = bench.fabric.get().sent.len();
    assert!(silent > 600);
    bench.run_ms(49);
    // 8 have places, and 600 answers have allowed at most 8 times as many to be overdue.
    let more = bench.fabric.get().sent.len() - 600;
    assert!(more <= 8 + 64, "{more} requests into the silence");
}

/// What is overdue gives its place up, although it may be slow and not lost. Nobody can tell at
/// first; from the first late answers on it is no longer done.
#[test]
fn a_fabric_that_becomes_slow_has_more_in_flight_for_one_latency_only() {
    let mut bench = changed_after_600(Fate::Late(Duration::from_millis(50)));
    bench.run_ms(100);
    // 8 have places, and no more than 8 times as many have given theirs up.
    let most = std::mem::take(&mut bench.fabric.get().most_in_flight)[0];
    assert!(most > 8 && most <= 8 + 64, "{most}");
    bench.run_ms(150);
    bench.fabric.get().most_in_flight = [0; 2];
    bench.run_ms(2_000);
    let most = bench.fabric.get().most_in_flight[0];
    assert!(most <= 10, "{most}");
    // 8 in each 50 ms.
    assert!(bench.fabric.get().sent.len() > 600 + 250);
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
