//! What does not answer, answers late, answers nonsense, or goes away.

use proptest::prelude::*;

use super::fabric::{Fate, star, tree};
use super::*;
use crate::fabric::NodeId;
use crate::mad::{Attribute, ClassPortInfo, Mad, MgmtClass, NodeInfo, PathRecord, PortCounters};
use crate::port::{Address, Outgoing};

fn is_perf(out: &Outgoing, lid: u16) -> bool {
    out.mad.class() == MgmtClass::Perf && out.addr.lid == lid
}

#[test]
fn field_report_13_a_lost_first_reply_costs_one_retry() {
    let fabric = star(3);
    let mut lost = false;
    fabric.get().script = Some(Box::new(move |_, out| {
        if is_perf(out, 3) && out.mad.attr_id() == PortCounters::ID && !lost {
            lost = true;
            return Fate::Timeout;
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(4_000);
    let timeouts = bench.timeouts();
    assert_eq!(timeouts.len(), 1);
    assert!(!timeouts[0].1.last);
    // Replies take 0.1 ms here: the next attempt is made after the least time for it, 50 ms,
    // and its reply ends both.
    assert_eq!(timeouts[0].1.waited_ns, 50_100_000);
    let attempts: Vec<u8> = bench
        .events
        .iter()
        .filter_map(|e| match &e.what {
            What::Sent(s) if s.addr.lid == 3 && s.mad.attr_id() == PortCounters::ID => {
                Some(s.attempt)
            }
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [1, 2]);
    assert!(
        !bench
            .events
            .iter()
            .any(|e| matches!(e.what, What::BackOff(_)))
    );
}

#[test]
fn field_report_01_one_dead_host_of_five_hundred_delays_nobody() {
    let fabric = tree(2, 25, 20);
    let mut config = Config::default();
    config.settings.interval_ns = 1_000_000_000;
    let mut bench = Bench::with(fabric, config);
    bench.run_ms(4_000);
    let dead = NodeId::new(0x1_0a05);
    let lid = bench
        .engine
        .topology()
        .node(dead)
        .unwrap()
        .any_lid()
        .unwrap();
    bench.fabric.get().node(dead.guid.0).dead = true;
    bench.run_ms(30_000);
    let mut times: BTreeMap<(u16, u8), Vec<Stamp>> = BTreeMap::new();
    for event in &bench.events {
        if let What::Received(r) = &event.what
            && r.mad.class() == MgmtClass::Perf
            && r.mad.attr_id() == PortCounters::ID
        {
            let sent = r.addr.lid;
            times
                .entry((sent, r.mad.data()[1]))
                .or_default()
                .push(event.at);
        }
    }
    times.remove(&(lid, 1));
    // Each of 25 leaves has 22 ports, each of 2 spines 25, each of 499 hosts one.
    assert_eq!(times.len(), 25 * 22 + 2 * 25 + 499);
    for (port, list) in times {
        let worst = list.windows(2).map(|w| w[1].since(w[0])).max().unwrap();
        assert!(worst <= 2 * SECOND, "{port:?} was not read for {worst:?}");
        assert!(Stamp::from_secs(30).since(*list.last().unwrap()) <= 2 * SECOND);
    }
}

#[test]
fn a_dead_host_is_asked_less_and_less_and_comes_back_by_itself() {
    let fabric = star(3);
    let mut bench = Bench::new(fabric);
    bench.run_ms(1_000);
    bench.fabric.get().node(0x1002).dead = true;
    bench.run_ms(120_000);
    let backs: Vec<(u32, Duration)> = bench
        .events
        .iter()
        .filter_map(|e| match e.what {
            What::BackOff(b) => Some((b.failures, b.until.unwrap().since(e.at))),
            _ => None,
        })
        .collect();
    // Counters fail first: 5 s, then twice as long each time. The port states follow.
    let secs: Vec<u64> = backs.iter().map(|(_, d)| d.as_secs()).collect();
    assert!(
        secs.contains(&5) && secs.contains(&10) && secs.contains(&20),
        "{secs:?}"
    );
    let before = bench.fabric.get().sent.len();
    bench.fabric.get().node(0x1002).dead = false;
    bench.run_ms(400_000);
    let cleared = bench
        .events
        .iter()
        .rev()
        .find_map(|e| match e.what {
            What::BackOff(b) => Some(b),
            _ => None,
        })
        .unwrap();
    assert_eq!((cleared.failures, cleared.until), (0, None));
    let fabric = bench.fabric.get();
    let counted = fabric.sent[before..]
        .iter()
        .filter(|(_, o)| is_perf(o, 3) && o.mad.attr_id() == PortCounters::ID);
    assert!(counted.count() > 10);
}

#[test]
fn a_failure_that_returns_at_once_is_paced_like_a_timeout() {
    let fabric = star(3);
    fabric.get().node(0x1002).dead = true;
    fabric.get().dead_fate = Fate::Returned;
    let mut bench = Bench::new(fabric);
    bench.run_ms(10_000);
    let times: Vec<Stamp> = bench.timeouts().iter().map(|(at, _)| *at).collect();
    // Discovery's question to the dead host: three attempts, 50 and 100 ms apart, as for one
    // that is silent.
    assert!(times.len() >= 3);
    assert!(times[1].since(times[0]) >= Duration::from_millis(50));
    assert!(times[2].since(times[1]) >= Duration::from_millis(100));
    assert!(bench.timeouts()[0].1.waited_ns < 1_000_000);
    // And the rest of the fabric is there, and its counters did not wait.
    let first = bench.ended(SweepKind::Counters)[0].0;
    assert!(first < Stamp::from_millis(1_500), "{first:?}");
}

#[test]
fn a_port_that_never_reports_a_timeout_is_not_waited_for() {
    let fabric = star(2);
    fabric.get().node(0x1002).dead = true;
    fabric.get().dead_fate = Fate::Silence;
    let mut bench = Bench::new(fabric);
    bench.run_ms(6_000);
    assert_eq!(bench.ended(SweepKind::Discovery).len(), 1);
    assert_eq!(bench.ended(SweepKind::Discovery)[0].1.failed, 1);
    assert_eq!(bench.timeouts().len(), 3);
}

#[test]
fn a_late_reply_is_ignored() {
    let fabric = star(2);
    let log = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (keep, mut once) = (log.clone(), false);
    fabric.get().script = Some(Box::new(move |_, out| {
        if is_perf(out, 3) && out.mad.attr_id() == PortCounters::ID && !once {
            once = true;
            *keep.lock().unwrap() = Some(out.clone());
            return Fate::Timeout;
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(2_000);
    let late: Outgoing = log.lock().unwrap().take().unwrap();
    let mad = Mad::response_to(&late.mad.view(), crate::mad::Status::OK);
    bench
        .fabric
        .get()
        .inject(Stamp::from_millis(2_100), late.addr, mad.clone());
    let answered = bench.ended(SweepKind::Counters).len();
    bench.run_ms(2_200);
    // It is in the stream, and nothing came of it.
    assert!(bench.events.iter().any(|e| matches!(
        &e.what, What::Received(r) if r.mad == mad && e.at == Stamp::from_millis(2_100)
    )));
    assert_eq!(bench.ended(SweepKind::Counters).len(), answered);
}

#[test]
fn busy_is_an_answer_and_asked_again_without_a_timeout() {
    let fabric = star(2);
    let mut busy = 3;
    fabric.get().script = Some(Box::new(move |_, out| {
        if is_perf(out, 3) && out.mad.attr_id() == ClassPortInfo::ID && busy > 0 {
            busy -= 1;
            return Fate::Status(1);
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(2_000);
    assert!(bench.timeouts().is_empty());
    let fabric = bench.fabric.get();
    let asked: Vec<Stamp> = fabric
        .sent
        .iter()
        .filter(|(_, o)| is_perf(o, 3) && o.mad.attr_id() == ClassPortInfo::ID)
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(asked.len(), 4);
    for pair in asked.windows(2) {
        assert!(pair[1].since(pair[0]) >= Duration::from_millis(10));
    }
    let counted = fabric
        .sent
        .iter()
        .filter(|(_, o)| is_perf(o, 3) && o.mad.attr_id() == PortCounters::ID);
    assert_eq!(counted.count(), 1);
}

#[test]
fn a_busy_agent_is_asked_again_after_the_time_that_it_takes() {
    let fabric = star(2);
    // 4.096 µs · 2^15 = 134.2 ms (specification 13.4.8.1).
    fabric.get().node(0x1002).resp_time = 15;
    let mut busy = 1;
    fabric.get().script = Some(Box::new(move |_, out| {
        if is_perf(out, 3) && out.mad.attr_id() == PortCounters::ID && busy > 0 {
            busy -= 1;
            return Fate::Status(1);
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(2_000);
    let asked: Vec<Stamp> = bench
        .fabric
        .get()
        .sent
        .iter()
        .filter(|(_, o)| is_perf(o, 3) && o.mad.attr_id() == PortCounters::ID)
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(asked.len(), 2);
    let gap = asked[1].since(asked[0]);
    assert!(gap >= Duration::from_micros(134_217), "{gap:?}");
    assert!(gap < Duration::from_millis(140), "{gap:?}");
    assert!(bench.timeouts().is_empty());
}

#[test]
fn an_enhanced_port_0_has_counters_and_a_base_one_has_none() {
    for (enhanced, want) in [(true, 1), (false, 0)] {
        let fabric = star(2);
        fabric.get().node(0x100).enhanced0 = enhanced;
        // The sum over all ports, where it is used, says nothing of port 0.
        fabric.get().node(0x100).caps = 0x0300;
        let mut bench = Bench::new(fabric);
        bench.run_ms(12_000);
        let fabric = bench.fabric.get();
        let of_port_0 = fabric
            .sent
            .iter()
            .filter(|(_, o)| is_perf(o, 1) && o.mad.attr_id() == PortCounters::ID)
            .filter(|(_, o)| o.mad.data()[1] == 0);
        // Three sweeps.
        assert_eq!(of_port_0.count(), 3 * want, "enhanced: {enhanced}");
    }
}

#[test]
fn a_redirection_is_followed_once() {
    let fabric = star(2);
    fabric.get().script = Some(Box::new(|_, out| {
        if is_perf(out, 3) {
            Fate::Silence
        } else {
            Fate::Answer
        }
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(20);
    let asked = bench
        .fabric
        .get()
        .sent
        .iter()
        .find(|(_, o)| is_perf(o, 3))
        .unwrap()
        .1
        .clone();
    let mut info = ClassPortInfo::new();
    info.set_redirect_lid(77)
        .set_redirect_qp(5)
        .set_redirect_qkey(0x8001_5678);
    let mut mad = Mad::reply(&asked.mad.view(), &info);
    mad.set_status(crate::mad::Status::REDIRECT);
    bench
        .fabric
        .get()
        .inject(Stamp::from_millis(21), asked.addr, mad);
    bench.run_ms(22);
    let fabric = bench.fabric.get();
    let (_, out) = fabric.sent.iter().find(|(_, o)| o.addr.lid == 77).unwrap();
    assert_eq!((out.addr.qpn, out.addr.qkey), (5, 0x8001_5678));
    assert_eq!(out.mad.attr_id(), ClassPortInfo::ID);
}

/// The performance agent of the host at LID 3 redirects like this.
fn redirected(info: &ClassPortInfo, secs: u64) -> Bench {
    let fabric = star(3);
    fabric.get().nodes[3].sl = 2;
    let mut bench = Bench::new(fabric);
    let mut answered = std::collections::BTreeSet::new();
    for ms in 1..secs * 1_000 {
        // What is asked of it is answered like that at once.
        let asked: Vec<Outgoing> = {
            let mut fabric = bench.fabric.get();
            if fabric.script.is_none() {
                fabric.script = Some(Box::new(|_, out| match is_perf(out, 3) {
                    true if out.addr.qpn == 1 => Fate::Silence,
                    _ => Fate::Answer,
                }));
            }
            let sent = fabric.sent.iter().map(|(_, o)| o);
            let to_it = sent.filter(|o| is_perf(o, 3) && o.addr.qpn == 1);
            to_it.cloned().collect()
        };
        for out in asked {
            if answered.insert(out.mad.tid_low()) {
                let mut mad = Mad::reply(&out.mad.view(), info);
                mad.set_status(crate::mad::Status::REDIRECT);
                let at = Stamp::from_millis(ms);
                bench.fabric.get().inject(at, out.addr, mad);
            }
        }
        bench.run_ms(ms);
    }
    bench
}

fn to_gid(guid: u64) -> ClassPortInfo {
    let mut info = ClassPortInfo::new();
    info.set_redirect_gid(crate::mad::Gid::new(0xfe80_0000_0000_0000, guid))
        .set_redirect_qp(5)
        .set_redirect_pkey(0xFFFF)
        .set_redirect_qkey(0x8001_5678);
    info
}

#[test]
fn a_redirection_to_a_gid_goes_where_the_sa_says_that_it_is() {
    // Port GUID of the host with LID 4, at service level 2.
    let bench = redirected(&to_gid(0x1003 + 1), 12);
    let fabric = bench.fabric.get();
    let asked: Vec<_> = fabric
        .sent
        .iter()
        .filter(|(_, o)| o.mad.class() == MgmtClass::SubnAdm && o.mad.attr_id() == PathRecord::ID)
        .filter(|(_, o)| o.mad.view().component_mask() & 1 << 2 != 0)
        .collect();
    // One question, though each sweep is redirected until it is answered.
    assert_eq!(asked.len(), 1);
    let there: Vec<_> = fabric
        .sent
        .iter()
        .filter(|(_, o)| o.addr.qpn == 5)
        .collect();
    assert!(
        there
            .iter()
            .any(|(_, o)| o.mad.attr_id() == PortCounters::ID)
    );
    for (_, out) in there {
        assert_eq!(
            (out.addr.lid, out.addr.qkey, out.addr.sl),
            (fabric.nodes[3].ports[1].lid, 0x8001_5678, 2)
        );
    }
}

#[test]
fn a_redirection_to_a_gid_without_a_path_is_said_once() {
    let bench = redirected(&to_gid(0xdead), 12);
    let told = bench.notes();
    let told = told.iter().filter(|n| n.contains("the SA tells no path"));
    assert_eq!(told.count(), 1);
    assert!(bench.fabric.get().sent.iter().all(|(_, o)| o.addr.qpn != 5));
}

#[test]
fn a_redirection_to_another_partition_is_not_followed_and_said_once() {
    let mut info = to_gid(0x1003 + 1);
    info.set_redirect_pkey(0x8001);
    let bench = redirected(&info, 12);
    let told = bench.notes();
    let told: Vec<_> = told.iter().filter(|n| n.contains("partition")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("0x8001"));
    assert!(bench.fabric.get().sent.iter().all(|(_, o)| o.addr.qpn != 5));
}

#[test]
fn an_optional_attribute_that_fails_does_not_take_the_node_with_it() {
    let fabric = star(2);
    // ExtendedWidth and XmitWait: the tick is asked for, and nobody answers that.
    fabric.get().node(0x1002).caps = 0x1200;
    fabric.get().script = Some(Box::new(|_, out| {
        if out.mad.class() == MgmtClass::Perf && out.mad.attr_id() == 0x10 {
            return Fate::Timeout;
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(21_000);
    assert_eq!(bench.timeouts().len(), 1);
    assert!(
        !bench
            .events
            .iter()
            .any(|e| matches!(e.what, What::BackOff(_)))
    );
    let fabric = bench.fabric.get();
    let counted = fabric
        .sent
        .iter()
        .filter(|(_, o)| is_perf(o, 3) && o.mad.attr_id() == PortCounters::ID);
    assert_eq!(counted.count(), 5);
}

#[test]
fn a_node_that_will_not_tell_its_capabilities_is_read_narrow() {
    let fabric = star(2);
    fabric.get().script = Some(Box::new(|_, out| {
        if is_perf(out, 3) && out.mad.attr_id() == ClassPortInfo::ID {
            return Fate::Status(0x0C);
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(500);
    let fabric = bench.fabric.get();
    let asked: Vec<u16> = fabric
        .sent
        .iter()
        .filter(|(_, o)| is_perf(o, 3))
        .map(|(_, o)| o.mad.attr_id())
        .collect();
    assert_eq!(asked, [ClassPortInfo::ID, PortCounters::ID]);
}

#[test]
fn a_removed_device_is_waited_for_and_the_fabric_discovered_again() {
    let fabric = tree(2, 3, 3);
    let mut bench = Bench::new(fabric);
    bench.run_ms(4_999);
    bench.fabric.get().gone = true;
    bench.run_ms(9_500);
    let gone = |b: &Bench| {
        b.events
            .iter()
            .filter(|e| matches!(e.what, What::DeviceGone { .. }))
            .count()
    };
    assert_eq!(gone(&bench), 1);
    let before = bench.fabric.get().sent.len();
    bench.run_ms(9_800);
    assert_eq!(bench.fabric.get().sent.len(), before);
    bench.fabric.get().gone = false;
    bench.run_ms(12_000);
    assert_eq!(gone(&bench), 1);
    assert!(
        bench
            .events
            .iter()
            .any(|e| matches!(e.what, What::DeviceBack))
    );
    assert_eq!(bench.ended(SweepKind::Discovery).len(), 2);
    let counted = bench.ended(SweepKind::Counters).len();
    bench.run_ms(20_000);
    assert!(bench.ended(SweepKind::Counters).len() > counted);
}

#[test]
fn another_local_lid_is_an_event_and_a_reason_to_discover() {
    let mut bench = Bench::new(star(3));
    bench.run_ms(2_500);
    bench.fabric.get().nodes[1].ports[1].lid = 40;
    bench.fabric.get().sm_lid = 40;
    bench.run_ms(4_500);
    let lids: Vec<u16> = bench
        .events
        .iter()
        .filter_map(|e| match &e.what {
            What::LocalPort(p) => Some(p.lid),
            _ => None,
        })
        .collect();
    assert_eq!(lids, [2, 40]);
    assert_eq!(bench.ended(SweepKind::Discovery).len(), 2);
}

#[test]
fn field_report_19_a_discovery_that_loses_a_node_half_way_keeps_what_it_has() {
    let fabric = tree(2, 3, 3);
    // One leaf tells who it is and then says nothing more.
    fabric.get().script = Some(Box::new(|_, out| {
        let path = out.mad.initial_path();
        let leaf1 = path.len() == 3 && path[1] >= 4 && path[2] == 2;
        if leaf1 && out.mad.attr_id() != NodeInfo::ID {
            return Fate::Timeout;
        }
        Fate::Answer
    }));
    let mut bench = Bench::new(fabric);
    bench.run_ms(8_000);
    let topology = bench.engine.topology();
    // The leaf itself is known, its hosts are not; everything else is.
    assert!(topology.node(NodeId::new(0x101)).is_some());
    assert_eq!(topology.len(), 2 + 3 + 6);
    assert!(bench.ended(SweepKind::Discovery)[0].1.failed > 0);
    assert!(!bench.ended(SweepKind::Counters).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Arbitrary bytes as received MADs, alone or as answers to real requests.
    #[test]
    fn arbitrary_bytes_never_panic(
        mads in prop::collection::vec(prop::collection::vec(any::<u8>(), 24..300), 1..40),
        classes in prop::collection::vec(prop_oneof![
            Just(0x01u8), Just(0x81), Just(0x03), Just(0x04), any::<u8>()], 40),
        methods in prop::collection::vec(prop_oneof![
            Just(0x81u8), Just(0x92), Just(0x06), Just(0x05), Just(0x01), any::<u8>()], 40),
    ) {
        let fabric = star(4);
        let mut bench = Bench::new(fabric);
        bench.run_ms(1);
        for (i, mut bytes) in mads.into_iter().enumerate() {
            bytes[1] = classes[i % classes.len()];
            bytes[3] = methods[i % methods.len()];
            // Half of them answer the last request, as far as the transaction says.
            let sent = bench.fabric.get().sent.last().map(|(_, o)| o.mad.clone());
            if let Some(sent) = sent.filter(|_| i % 2 == 0) {
                bytes[1] = sent.class().code();
                bytes[3] = sent.method().response().code();
                bytes[4..6].fill(0);
                bytes[12..16].copy_from_slice(&sent.tid_low().to_be_bytes());
                bytes[16..18].copy_from_slice(&sent.attr_id().to_be_bytes());
            }
            let mad = Mad::from_bytes(&bytes).unwrap();
            let at = bench.engine.now();
            bench.fabric.get().inject(at, Address::smp(9), mad);
            bench.run_ms(2 + i as u64);
        }
        bench.run_ms(40_000);
    }
}
