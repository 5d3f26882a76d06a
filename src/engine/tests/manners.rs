//! Budgets, pacing, holding back, and the end of a session.

use proptest::prelude::*;

use super::fabric::{Fate, star, tree};
use super::*;
use crate::command::Command;
use crate::event::{Budget, Settings};
use crate::mad::{Attribute, InformInfo, Method, MgmtClass};
use crate::port::PortError;

/// The most sends that any window of 100 ms holds.
fn densest(times: &[Stamp]) -> usize {
    let window = Duration::from_millis(100);
    (0..times.len())
        .map(|i| {
            times[i..]
                .iter()
                .take_while(|t| t.since(times[i]) < window)
                .count()
        })
        .max()
        .unwrap_or(0)
}

/// The check below must convict what would pass for a limit: a token bucket that holds 100 ms'
/// worth of sends lets an idle client send that much at once and the refill on top.
#[test]
fn a_token_bucket_exceeds_the_budget_of_a_window() {
    let rate = 500;
    let (hold, refill) = (rate / 10, Duration::from_secs(1) / rate);
    let mut times = Vec::new();
    let (mut tokens, mut now) = (hold, Stamp::ZERO);
    while times.len() < 200 {
        if tokens == 0 {
            now = now + refill;
            tokens += 1;
        }
        times.push(now);
        tokens -= 1;
    }
    // 50 at once, then one every 2 ms: 49 more before 100 ms are over.
    assert_eq!(densest(&times), 99);
    // Without a store it is no more than the rate.
    let even: Vec<Stamp> = (0..200).map(|i| Stamp::ZERO + refill * i).collect();
    assert_eq!(densest(&even), 50);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever the fabric's latency and losses: no window of 100 ms holds more than a tenth of
    /// the rate, and no more is in flight than allowed.
    #[test]
    fn no_window_of_100_ms_exceeds_the_budget(
        smp_rate in prop_oneof![Just(50u32), Just(500), Just(3_000)],
        gmp_rate in prop_oneof![Just(70u32), Just(900), Just(20_000)],
        flight in 1u16..20,
        latency_us in 10u64..20_000,
        seed: u64,
    ) {
        let fabric = tree(2, 4, 4);
        {
            let mut f = fabric.get();
            f.latency = Duration::from_micros(latency_us);
            let mut state = seed | 1;
            f.script = Some(Box::new(move |_, _| {
                // xorshift64: one in eight is lost one way or the other.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                match state % 24 {
                    0 => Fate::Returned,
                    1 => Fate::Timeout,
                    2 => Fate::Status(1),
                    _ => Fate::Answer,
                }
            }));
        }
        let mut config = Config::default();
        config.settings.smp = Budget { in_flight: flight, per_node: 1, rate: smp_rate };
        config.settings.gmp = Budget { in_flight: flight, per_node: 2, rate: gmp_rate };
        config.settings.interval_ns = 1_000_000_000;
        config.settings.timeout_ms = 300;
        let mut bench = Bench::with(fabric, config);
        bench.run_ms(6_000);
        let f = bench.fabric.get();
        let times = |smp: bool| -> Vec<Stamp> {
            let mine = f.sent.iter().filter(|(_, o)| o.mad.class().is_smp() == smp);
            mine.map(|(at, _)| *at).collect()
        };
        prop_assert!(densest(&times(true)) <= smp_rate as usize / 10);
        prop_assert!(densest(&times(false)) <= gmp_rate as usize / 10);
        prop_assert!(f.most_in_flight.iter().all(|most| *most <= usize::from(flight)));
        prop_assert!(!times(true).is_empty() && !times(false).is_empty());
    }
}

#[test]
fn in_flight_never_passes_256_whatever_is_asked_for() {
    let fabric = tree(4, 40, 10);
    fabric.get().latency = Duration::from_millis(50);
    let mut config = Config::default();
    config.settings.smp = Budget {
        in_flight: 1_000,
        per_node: 50,
        rate: 0,
    };
    config.settings.gmp = Budget {
        in_flight: 1_000,
        per_node: 50,
        rate: 0,
    };
    let mut bench = Bench::with(fabric, config);
    bench.run_ms(12_000);
    let most = bench.fabric.get().most_in_flight;
    assert!(most.iter().all(|m| *m <= 256), "{most:?}");
    assert!(most.iter().any(|m| *m > 200), "{most:?}");
}

#[test]
fn one_node_has_one_smp_and_two_gmps_in_flight() {
    let fabric = tree(2, 3, 4);
    fabric.get().latency = Duration::from_millis(2);
    let mut bench = Bench::new(fabric);
    bench.run_ms(35_000);
    // By what the engine says that it meant.
    let mut flight: BTreeMap<u32, (crate::fabric::NodeId, bool)> = BTreeMap::new();
    for event in &bench.events {
        match &event.what {
            What::Sent(s) if s.attempt > 0 => {
                if let Some(node) = s.target.node {
                    let smp = s.mad.class().is_smp();
                    flight.insert(s.mad.tid_low(), (node, smp));
                    let same = flight.values().filter(|v| **v == (node, smp)).count();
                    assert!(
                        same <= if smp { 1 } else { 2 },
                        "{same} in flight to {node}"
                    );
                }
            }
            What::Received(r) => {
                flight.remove(&r.mad.tid_low());
            }
            _ => {}
        }
    }
}

#[test]
fn a_consumer_that_is_behind_stops_new_requests() {
    let mut bench = Bench::new(star(8));
    bench.run_ms(1_000);
    bench.engine.pressure(true);
    let before = bench.fabric.get().sent.len();
    bench.run_ms(20_000);
    assert_eq!(bench.fabric.get().sent.len(), before);
    assert!(
        bench
            .events
            .iter()
            .any(|e| matches!(&e.what, What::Pace(p) if p.held))
    );
    bench.engine.pressure(false);
    bench.run_ms(21_000);
    assert!(bench.fabric.get().sent.len() > before);
}

#[test]
fn field_report_11_quit_withdraws_the_subscription_and_then_nothing_leaves() {
    let mut bench = Bench::new(tree(2, 4, 4));
    bench.fabric.get().latency = Duration::from_millis(20);
    bench.run_ms(3_000);
    bench.engine.command(Command::Rediscover);
    bench.run_ms(3_050);
    bench.engine.command(Command::Quit);
    let before = bench.fabric.get().sent.len();
    bench.run_ms(20_000);
    assert!(bench.engine.is_finished());
    let fabric = bench.fabric.get();
    let after: Vec<_> = fabric.sent[before..].iter().map(|(_, o)| &o.mad).collect();
    assert_eq!(after.len(), 1, "{after:?}");
    let mad = after[0];
    assert_eq!(
        (mad.class(), mad.method()),
        (MgmtClass::SubnAdm, Method::Set)
    );
    assert_eq!(InformInfo::from_bytes(mad.data()).unwrap().subscribe(), 0);
    let last = bench.events.last().unwrap();
    assert!(matches!(last.what, What::Closed { .. }));
    // In flight fell to nothing well before the longest wait.
    assert!(last.at < Stamp::from_millis(3_200));
}

/// When the end was asked for and when it came, of a fabric with a host that died meanwhile.
fn end_with_a_dead_host(timeout_ms: u32, sa_is_silent: bool) -> (Bench, Duration) {
    let settings = Settings {
        timeout_ms,
        ..Settings::default()
    };
    let mut bench = Bench::with(
        tree(2, 4, 4),
        Config {
            settings,
            ..Config::default()
        },
    );
    bench.run_ms(3_000);
    {
        let mut fabric = bench.fabric.get();
        fabric.nodes[9].dead = true;
        fabric.dead_fate = Fate::Silence;
        fabric.latency = Duration::from_millis(50);
        if sa_is_silent {
            fabric.script = Some(Box::new(|_, out| match out.mad.class() {
                MgmtClass::SubnAdm => Fate::Silence,
                _ => Fate::Answer,
            }));
        }
    }
    bench.engine.command(Command::ReadCounters);
    bench.run_ms(3_200);
    let asked = bench.engine.now();
    bench.engine.command(Command::Quit);
    bench.run_ms(200_000);
    assert!(bench.engine.is_finished());
    let took = bench.events.last().unwrap().at.since(asked);
    (bench, took)
}

#[test]
fn a_dead_host_does_not_hold_up_the_end() {
    for timeout_ms in [1_000, 60_000] {
        let (bench, took) = end_with_a_dead_host(timeout_ms, false);
        let fabric = bench.fabric.get();
        let (_, last) = fabric.sent.last().unwrap();
        assert_eq!(
            (last.mad.class(), last.mad.method()),
            (MgmtClass::SubnAdm, Method::Set),
            "the subscription was withdrawn"
        );
        assert!(took <= Duration::from_millis(250), "{timeout_ms}: {took:?}");
        drop(fabric);
    }
}

#[test]
fn a_silent_sa_holds_up_the_end_for_a_second_at_most() {
    let (_, took) = end_with_a_dead_host(60_000, true);
    assert_eq!(took, Duration::from_secs(1));
}

#[test]
fn a_subscription_is_withdrawn_although_nobody_reads_any_more() {
    let mut bench = Bench::new(tree(2, 4, 4));
    bench.run_ms(3_000);
    bench.engine.pressure(true);
    bench.engine.command(Command::Quit);
    bench.run_ms(5_000);
    let fabric = bench.fabric.get();
    let (_, last) = fabric.sent.last().unwrap();
    assert_eq!(last.mad.method(), Method::Set);
}

#[test]
fn who_gets_no_reports_neither_subscribes_nor_withdraws() {
    let fabric = star(3);
    fabric.get().reports = false;
    let mut bench = Bench::new(fabric);
    bench.run_ms(2_000);
    bench.engine.command(Command::Quit);
    bench.run_ms(5_000);
    let fabric = bench.fabric.get();
    assert!(
        fabric
            .sent
            .iter()
            .all(|(_, o)| o.mad.method() != Method::Set)
    );
}

#[test]
fn nothing_is_set_but_the_subscription() {
    let mut bench = Bench::new(tree(2, 3, 3));
    bench.run_ms(700_000);
    let fabric = bench.fabric.get();
    let mut renewals = 0;
    for (_, out) in &fabric.sent {
        match out.mad.method() {
            Method::Get | Method::GetTable => {}
            Method::Set => {
                assert_eq!(out.mad.attr_id(), InformInfo::ID);
                renewals += 1;
            }
            other => panic!("{other} sent"),
        }
    }
    // Once at the start and then every minute for 700 s.
    assert_eq!(renewals, 12);
}

#[test]
fn a_refused_send_is_told_and_paced_like_a_timeout() {
    let fabric = star(2);
    fabric.get().refuse_send = Some(PortError::Call {
        device: "fake".into(),
        call: "write",
        class: 0x81,
        errno: "EINVAL".into(),
    });
    let mut bench = Bench::new(fabric);
    bench.run_ms(2_900);
    let failed: Vec<_> = bench
        .events
        .iter()
        .filter_map(|e| match &e.what {
            What::SendFailed(f) if f.class == 0x81 => Some((e.at, f.attempt, f.last)),
            _ => None,
        })
        .collect();
    assert_eq!(
        failed,
        [
            (Stamp::ZERO, 1, false),
            (Stamp::from_secs(1), 2, false),
            (Stamp::from_secs(2), 3, true)
        ]
    );
    assert!(!bench.events.iter().any(|e| matches!(e.what, What::Sent(_))));
}

#[test]
fn a_full_send_queue_costs_nothing_but_time() {
    let fabric = star(3);
    fabric.get().refuse_send = Some(PortError::WouldBlock);
    let mut bench = Bench::new(fabric);
    bench.run_ms(50);
    assert!(
        bench
            .events
            .iter()
            .all(|e| !matches!(e.what, What::Sent(_) | What::SendFailed(_)))
    );
    bench.fabric.get().refuse_send = None;
    bench.run_ms(200);
    assert_eq!(bench.engine.topology().len(), 4);
}

#[test]
fn a_sweep_that_takes_longer_than_its_interval_stretches_it() {
    let fabric = tree(2, 6, 8);
    let mut config = Config::default();
    config.settings.interval_ns = 100_000_000;
    // 62 nodes' worth of ports at 500 requests a second take longer than 100 ms.
    config.settings.gmp.rate = 500;
    let mut bench = Bench::with(fabric, config);
    bench.run_ms(10_000);
    let stretched = bench
        .events
        .iter()
        .any(|e| matches!(&e.what, What::Pace(p) if p.interval_ns > 200_000_000));
    assert!(stretched);
    assert!(bench.ended(SweepKind::Counters).len() < 60);
}
