//! Reports, traps, the subscription, and the SM.

use super::fabric::{star, tree};
use super::*;
use crate::mad::notice::Trap;
use crate::mad::{
    Attribute, InformInfo, Mad, Method, MgmtClass, PathRecord, PortInfo, ProducerType, SmInfo,
    SmState,
};
use crate::port::Address;

#[test]
fn the_subscription_asks_for_every_generic_notice() {
    let mut bench = Bench::new(star(2));
    bench.run_ms(100);
    let fabric = bench.fabric.get();
    let (_, out) = fabric
        .sent
        .iter()
        .find(|(_, o)| o.mad.attr_id() == InformInfo::ID)
        .unwrap();
    let info = InformInfo::from_bytes(out.mad.data()).unwrap();
    // What opensm accepts: every LID, generic, subscribe, every type, every trap.
    assert_eq!(
        (info.lid_range_begin(), info.is_generic(), info.subscribe()),
        (0xFFFF, 1, 1)
    );
    assert_eq!((info.notice_type(), info.trap_number()), (0xFFFF, 0xFFFF));
    assert_eq!((info.qpn(), info.producer_type()), (1, ProducerType::All));
    assert_eq!(
        (out.addr.lid, out.addr.qpn, out.mad.class_version()),
        (2, 1, 2)
    );
}

#[test]
fn trap_128_reads_that_switch_again_and_no_other() {
    let mut bench = Bench::new(tree(2, 3, 3));
    bench.run_ms(2_000);
    // Leaf 0x101 is the fourth node made: LID 7 (2 spines, leaf, 3 hosts before it).
    let lid = bench
        .engine
        .topology()
        .node(crate::fabric::NodeId::new(0x101))
        .unwrap()
        .any_lid()
        .unwrap();
    let at = Stamp::from_millis(2_100);
    let before = bench.fabric.get().sent.len();
    bench
        .fabric
        .get()
        .report(at, &Trap::LinkStateChanged { lid }, 0x77_0000_0001);
    bench.run_ms(2_500);
    let fabric = bench.fabric.get();
    let after: Vec<_> = fabric.sent[before..].iter().map(|(_, o)| o).collect();
    let (acks, reads): (Vec<_>, Vec<_>) = after
        .into_iter()
        .partition(|o| o.mad.class() == MgmtClass::SubnAdm);
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].mad.method(), Method::ReportResp);
    assert_eq!(acks[0].mad.tid(), 0x77_0000_0001);
    assert_eq!(acks[0].timeout_ms, 0);
    // Its 5 ports, by LID, within milliseconds.
    assert_eq!(reads.len(), 5);
    for out in reads {
        assert_eq!((out.addr.lid, out.mad.attr_id()), (lid, PortInfo::ID));
    }
}

#[test]
fn a_flood_of_notices_is_folded_acknowledged_and_delays_nothing() {
    let mut bench = Bench::new(tree(2, 3, 3));
    bench.run_ms(2_000);
    {
        let mut fabric = bench.fabric.get();
        for i in 0..30_000u64 {
            // 10,000 a second for three seconds, of an unknown and of a known switch.
            let at = Stamp(2_000_000_000 + i * 100_000);
            let lid = if i % 2 == 0 { 1 } else { 4_000 };
            fabric.report(at, &Trap::LinkStateChanged { lid }, i << 32 | i);
        }
    }
    let counted = bench.ended(SweepKind::Counters).len();
    bench.run_ms(11_000);
    let recorded = bench
        .events
        .iter()
        .filter(|e| matches!(&e.what, What::Received(r) if r.mad.method() == Method::Report))
        .count();
    // At most 1,000 in each of the seconds that the flood touches.
    assert!((1_000..=5_000).contains(&recorded), "{recorded}");
    assert!(
        bench
            .notes()
            .iter()
            .any(|n| n.contains("not recorded singly"))
    );
    let fabric = bench.fabric.get();
    let acks = fabric
        .sent
        .iter()
        .filter(|(_, o)| o.mad.method() == Method::ReportResp)
        .count();
    assert_eq!(acks, 30_000);
    // The switch with LID 1 is read about once a second, not ten thousand times.
    let reads = fabric
        .sent
        .iter()
        .filter(|(at, o)| {
            *at > Stamp::from_secs(2) && o.addr.lid == 1 && o.mad.attr_id() == PortInfo::ID
        })
        .count();
    assert!(reads <= 5 * 3, "{reads}");
    drop(fabric);
    assert!(bench.ended(SweepKind::Counters).len() > counted);
}

#[test]
fn an_sm_that_forgot_us_is_subscribed_to_again() {
    let informs = |bench: &Bench| {
        let fabric = bench.fabric.get();
        fabric
            .sent
            .iter()
            .filter(|(_, o)| {
                o.mad.attr_id() == InformInfo::ID && o.mad.class() == MgmtClass::SubnAdm
            })
            .count()
    };
    let mut bench = Bench::new(star(3));
    bench.fabric.get().act_count = 50;
    bench.run_ms(12_000);
    assert_eq!(informs(&bench), 1);
    // Restarted on the same LID: its activity count begins anew.
    bench.fabric.get().act_count = 1;
    bench.run_ms(18_000);
    assert_eq!(informs(&bench), 2);
    // Another SM took over on another LID.
    {
        let mut fabric = bench.fabric.get();
        fabric.sm_lid = 3;
        fabric.sm_guid = 0xdef;
    }
    bench.run_ms(20_000);
    assert_eq!(informs(&bench), 3);
    let fabric = bench.fabric.get();
    let last = fabric
        .sent
        .iter()
        .rev()
        .find(|(_, o)| o.mad.attr_id() == InformInfo::ID)
        .unwrap();
    assert_eq!(last.1.addr.lid, 3);
}

#[test]
fn without_tables_service_levels_follow_the_sa_once_one_differs() {
    let fabric = tree(2, 3, 4);
    for node in &mut fabric.get().nodes {
        node.sl = 3;
    }
    let mut bench = Bench::new(fabric);
    bench.run_ms(12_000);
    let fabric = bench.fabric.get();
    let paths = fabric
        .sent
        .iter()
        .filter(|(_, o)| o.mad.method() == Method::Get && o.mad.attr_id() == PathRecord::ID)
        .filter(|(_, o)| o.mad.class() == MgmtClass::SubnAdm)
        .count();
    // 2 spines, 3 leaves, 12 hosts: every one.
    assert_eq!(paths, 17);
    let late: Vec<u8> = fabric
        .sent
        .iter()
        .filter(|(at, o)| *at > Stamp::from_secs(9) && o.mad.class() == MgmtClass::Perf)
        .map(|(_, o)| o.addr.sl)
        .collect();
    assert!(!late.is_empty() && late.iter().all(|sl| *sl == 3));
}

#[test]
fn without_tables_service_levels_are_only_sampled_while_they_are_zero() {
    let mut bench = Bench::new(tree(2, 5, 10));
    bench.run_ms(12_000);
    let fabric = bench.fabric.get();
    let paths = fabric
        .sent
        .iter()
        .filter(|(_, o)| o.mad.method() == Method::Get && o.mad.attr_id() == PathRecord::ID)
        .filter(|(_, o)| o.mad.class() == MgmtClass::SubnAdm)
        .count();
    assert!((1..=16).contains(&paths), "{paths}");
}

#[test]
fn get_sminfo_is_answered_as_not_active_where_the_issm_role_is_held() {
    for answer in [true, false] {
        let config = Config {
            answer_sminfo: answer,
            ..Config::default()
        };
        let mut bench = Bench::with(star(2), config);
        bench.run_ms(100);
        let mad = Mad::smp_lid(Method::Get, SmInfo::ID, 0, 0x1234_0000_5678);
        let at = Stamp::from_millis(150);
        bench.fabric.get().inject(at, Address::smp(2), mad);
        bench.run_ms(200);
        let fabric = bench.fabric.get();
        let reply = fabric
            .sent
            .iter()
            .find(|(_, o)| o.mad.attr_id() == SmInfo::ID && o.mad.method() == Method::GetResp);
        assert_eq!(reply.is_some(), answer);
        if let Some((_, out)) = reply {
            assert_eq!(out.mad.tid(), 0x1234_0000_5678);
            let info = SmInfo::from_bytes(out.mad.data()).unwrap();
            assert_eq!(info.state(), SmState::NotActive);
            assert_eq!((out.addr.lid, out.timeout_ms), (2, 0));
        }
    }
}

#[test]
fn a_trap_that_arrives_directly_is_acted_on_too() {
    let mut bench = Bench::new(star(3));
    bench.run_ms(1_000);
    let trap = Trap::LinkStateChanged { lid: 1 };
    let notice = crate::mad::Notice::from_trap(&trap, 1).unwrap();
    let mut mad = Mad::smp_lid(Method::Trap, crate::mad::Notice::ID, 0, 0);
    mad.set_data(&notice);
    let before = bench.fabric.get().sent.len();
    bench
        .fabric
        .get()
        .inject(Stamp::from_millis(1_100), Address::smp(1), mad);
    bench.run_ms(1_200);
    let fabric = bench.fabric.get();
    let after = &fabric.sent[before..];
    assert_eq!(after.len(), 3);
    assert!(after.iter().all(|(_, o)| o.mad.attr_id() == PortInfo::ID));
}
