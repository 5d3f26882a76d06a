//! Which counters are asked for, and which need not be.

use std::collections::BTreeSet;

use super::fabric::{Shared, star};
use super::*;
use crate::command::Command;
use crate::fabric::NodeId;
use crate::mad::{
    Attribute, MgmtClass, PortCounters, PortCountersExtended, PortExtendedSpeeds,
    PortFlowCtlCounters, PortRcvConCtrl, PortRcvErrorDetails,
};
use crate::model::{Model, Num};

/// The switch of `star` has LID 1; ExtWidth and AllPortSelect.
const SWITCH: NodeId = NodeId::new(0x100);
const CAPS: u16 = 0x0300;

/// PerfMgt requests to the switch from `from` on: attribute and PortSelect.
fn asked(fabric: &Shared, from: usize) -> Vec<(u16, u8)> {
    fabric.get().sent[from..]
        .iter()
        .filter(|(_, o)| o.mad.class() == MgmtClass::Perf && o.addr.lid == 1)
        .map(|(_, o)| (o.mad.attr_id(), o.mad.data()[1]))
        .collect()
}

fn count(asked: &[(u16, u8)], id: u16, wanted: impl Fn(u8) -> bool) -> usize {
    asked.iter().filter(|(a, p)| *a == id && wanted(*p)).count()
}

fn summing(hosts: u8) -> Bench {
    let fabric = star(hosts);
    fabric.get().nodes[0].caps = CAPS;
    Bench::new(fabric)
}

fn model(bench: &Bench) -> Model {
    let mut model = Model::new();
    for event in &bench.events {
        model.apply(event);
    }
    model
}

#[test]
fn clean_ports_are_not_read_for_their_errors_while_the_sum_stands_still() {
    let mut bench = summing(16);
    // Sweeps at 0, 5, ... 45 s: the first reads each port, nine need only the sum.
    bench.run_ms(48_000);
    assert_eq!(bench.ended(SweepKind::Counters).len(), 10);
    let all = asked(&bench.fabric, 0);
    // 10 sums, 16 ports' errors once, 16 ports' traffic each time: 186 MADs instead of 320.
    assert_eq!(count(&all, PortCounters::ID, |p| p == 255), 10);
    assert_eq!(count(&all, PortCounters::ID, |p| p != 255), 16);
    assert_eq!(count(&all, PortCountersExtended::ID, |_| true), 160);
    // What was not read is known as of the last sum: no row is older than a sweep.
    let model = model(&bench);
    for port in 1..=16 {
        let row = model.port(SWITCH.port(port), model.last()).unwrap();
        assert_eq!((row.errors, row.errors_per_s), (Num::Is(0), Num::Is(0.0)));
        assert!(!row.stale, "{row:?}");
        let c = model.counters(SWITCH.port(port), model.last());
        assert_eq!((c[0].value, c[0].rate), (Num::Is(0), Num::Is(0.0)));
    }
}

#[test]
fn an_error_changes_the_sum_and_so_is_seen_in_the_next_sweep() {
    let mut bench = summing(4);
    bench.run_ms(12_000);
    bench.fabric.get().nodes[0].errors.insert(3, 7);
    let before = bench.fabric.get().sent.len();
    bench.run_ms(16_000);
    let sweep = asked(&bench.fabric, before);
    assert_eq!(count(&sweep, PortCounters::ID, |p| p != 255), 4);
    let seen = model(&bench);
    let row = seen.port(SWITCH.port(3), seen.last()).unwrap();
    // 7 errors since the sum of 5 s before said that there were none.
    assert_eq!(row.errors, Num::Is(7));
    let rate = row.errors_per_s.get().unwrap();
    assert!((rate - 1.4).abs() < 0.001, "{rate}");
    // Quiet again: the port's errors are as they were, and the rate is nothing.
    let before = bench.fabric.get().sent.len();
    bench.run_ms(21_000);
    let sweep = asked(&bench.fabric, before);
    assert_eq!(count(&sweep, PortCounters::ID, |p| p != 255), 0);
    let seen = model(&bench);
    let row = seen.port(SWITCH.port(3), seen.last()).unwrap();
    assert_eq!((row.errors, row.errors_per_s), (Num::Is(7), Num::Is(0.0)));
}

#[test]
fn a_reset_by_others_changes_the_sum_too() {
    let mut bench = summing(4);
    bench.fabric.get().nodes[0].errors.extend([(1, 5), (2, 9)]);
    bench.run_ms(12_000);
    bench.fabric.get().nodes[0].errors.insert(2, 0);
    bench.run_ms(17_000);
    let seen = model(&bench);
    let of = |port| seen.counters(SWITCH.port(port), seen.last())[0];
    assert_eq!((of(1).value, of(1).rate), (Num::Is(5), Num::Is(0.0)));
    assert_eq!((of(2).value, of(2).rate), (Num::Is(0), Num::Reset));
}

#[test]
fn a_pegged_sum_says_nothing() {
    let mut bench = summing(3);
    // Neither port is pegged; their sum is: 2 * 40,000 is more than 16 bits hold.
    bench.fabric.get().nodes[0]
        .errors
        .extend([(1, 40_000), (2, 40_000)]);
    bench.run_ms(12_000);
    let all = asked(&bench.fabric, 0);
    assert_eq!(count(&all, PortCounters::ID, |p| p != 255), 3 * 3);
    bench.fabric.get().nodes[0].errors.insert(1, 40_001);
    bench.run_ms(17_000);
    let seen = model(&bench);
    let c = seen.counters(SWITCH.port(1), seen.last())[0];
    assert_eq!(c.since, Num::Is(1));
}

#[test]
fn a_sum_that_does_not_follow_its_ports_is_found_out() {
    let mut bench = summing(4);
    bench.fabric.get().nodes[0].told_sum = Some(9);
    bench.run_ms(12_000);
    // Two sweeps trusted it.
    let all = asked(&bench.fabric, 0);
    assert_eq!(count(&all, PortCounters::ID, |p| p != 255), 4);
    bench.fabric.get().nodes[0].errors.insert(2, 6);
    // The check comes with the 12th sweep after the first, 60 s; the sum after it is unchanged.
    bench.run_ms(63_000);
    let seen = model(&bench);
    let row = seen.port(SWITCH.port(2), seen.last()).unwrap();
    assert_eq!(row.errors, Num::Is(6));
    bench.run_ms(66_000);
    let told = bench.notes();
    assert!(
        told.iter().any(|n| n.contains("does not follow its ports")),
        "{told:?}"
    );
    // From then on each port is read, and the sum is not.
    let before = bench.fabric.get().sent.len();
    bench.run_ms(81_000);
    let later = asked(&bench.fabric, before);
    assert_eq!(count(&later, PortCounters::ID, |p| p == 255), 0);
    assert_eq!(count(&later, PortCounters::ID, |_| true), 3 * 4);
}

#[test]
fn a_sum_below_one_of_its_ports_is_found_out_at_once() {
    let mut bench = summing(4);
    bench.fabric.get().nodes[0].told_sum = Some(0);
    bench.fabric.get().nodes[0].errors.insert(2, 6);
    bench.run_ms(7_000);
    assert!(bench.notes().iter().any(|n| n.contains("does not follow")));
}

#[test]
fn a_sum_that_never_stands_still_is_left_alone_for_a_while() {
    let mut bench = summing(4);
    for i in 0..8u16 {
        bench.fabric.get().nodes[0].errors.insert(1, i);
        bench.run_ms(u64::from(i) * 5_000 + 2_000);
    }
    let all = asked(&bench.fabric, 0);
    // The first one, and three that had changed; 8 sweeps read each port.
    assert_eq!(count(&all, PortCounters::ID, |p| p == 255), 4);
    assert_eq!(count(&all, PortCounters::ID, |p| p != 255), 8 * 4);
}

#[test]
fn a_node_that_refuses_the_sum_keeps_its_counters() {
    let mut bench = summing(3);
    bench.fabric.get().script = Some(Box::new(|_, out| {
        let sum = out.mad.class() == MgmtClass::Perf && out.mad.data()[1] == 255;
        match sum {
            // 7: bad value.
            true => super::fabric::Fate::Status(0x1C),
            false => super::fabric::Fate::Answer,
        }
    }));
    bench.run_ms(22_000);
    let all = asked(&bench.fabric, 0);
    assert_eq!(count(&all, PortCounters::ID, |p| p == 255), 2);
    assert_eq!(count(&all, PortCounters::ID, |p| p != 255), 5 * 3);
}

#[test]
fn a_port_whose_reading_was_lost_is_read_again_though_the_sum_stands_still() {
    let mut bench = summing(3);
    bench.fabric.get().script = Some(Box::new(|at, out| {
        let port = out.mad.class() == MgmtClass::Perf
            && out.mad.attr_id() == PortCounters::ID
            && out.mad.data()[1] == 2;
        match port && at < Stamp::from_secs(4) {
            true => super::fabric::Fate::Status(0x1C),
            false => super::fabric::Fate::Answer,
        }
    }));
    bench.run_ms(12_000);
    let all = asked(&bench.fabric, 0);
    for port in [1, 3] {
        assert_eq!(count(&all, PortCounters::ID, |p| p == port), 1);
    }
    assert_eq!(count(&all, PortCounters::ID, |p| p == 2), 2);
}

#[test]
fn fec_is_asked_for_where_the_node_has_it_and_not_in_every_sweep() {
    let fabric = star(3);
    // 0x4000: RS-FEC.
    fabric.get().nodes[0].caps = 0x4200;
    fabric.get().nodes[0].optional = vec![PortExtendedSpeeds::ID];
    fabric.get().nodes[2].caps = 0x4200;
    let mut bench = Bench::new(fabric);
    bench.run_ms(58_000);
    let all = asked(&bench.fabric, 0);
    // 12 sweeps: the first two, and then each port once in six, in sweeps of its own.
    for port in 1..=3 {
        let n = count(&all, PortExtendedSpeeds::ID, |p| p == port);
        assert!((3..=4).contains(&n), "port {port}: {n}");
    }
    // A node that refuses it is asked once, and keeps everything else.
    let fabric = bench.fabric.get();
    let of_host: Vec<_> = fabric
        .sent
        .iter()
        .filter(|(_, o)| o.mad.class() == MgmtClass::Perf && o.addr.lid == 3)
        .map(|(_, o)| o.mad.attr_id())
        .collect();
    let n = |id| of_host.iter().filter(|a| **a == id).count();
    assert_eq!(n(PortExtendedSpeeds::ID), 1);
    assert_eq!((n(PortCountersExtended::ID), n(PortCounters::ID)), (12, 12));
}

#[test]
fn the_port_that_is_looked_at_and_its_other_end_are_asked_for_their_optional_counters() {
    let fabric = star(3);
    let has = [PortRcvErrorDetails::ID, PortFlowCtlCounters::ID];
    fabric.get().nodes[0].optional = has.into();
    let mut bench = Bench::new(fabric);
    bench.run_ms(7_000);
    let optional = |bench: &Bench, from: usize| -> Vec<(u16, u16, u8)> {
        bench.fabric.get().sent[from..]
            .iter()
            .filter(|(_, o)| o.mad.class() == MgmtClass::Perf)
            .filter(|(_, o)| o.mad.attr_id() > 0x12 && o.mad.attr_id() != 0x1D)
            .map(|(_, o)| (o.addr.lid, o.mad.attr_id(), o.mad.data()[1]))
            .collect()
    };
    assert!(optional(&bench, 0).is_empty(), "nobody looks at a port");
    bench.engine.command(Command::Focus(Some(SWITCH.port(2))));
    bench.run_ms(7_500);
    let first = optional(&bench, 0);
    // 16 optional attributes of the switch; the host has no SwPortVLCongestion.
    let of = |lid, port| -> BTreeSet<u16> {
        let mine = first.iter().filter(|(l, _, p)| (*l, *p) == (lid, port));
        mine.map(|(_, id, _)| *id).collect()
    };
    assert_eq!((of(1, 2).len(), of(3, 1).len()), (16, 15));
    assert_eq!(first.len(), 31);
    // From then on only what there is, each interval.
    let before = bench.fabric.get().sent.len();
    bench.run_ms(18_000);
    let later = optional(&bench, before);
    let wanted: Vec<_> = has.iter().map(|id| (1, *id, 2)).collect();
    assert_eq!(later, [wanted.clone(), wanted].concat());
    // The model shows what there is, and why the rest is not.
    let seen = model(&bench);
    let groups = seen.details(SWITCH.port(2), seen.last());
    assert_eq!(groups.len(), 16);
    let of = |name| groups.iter().find(|g| g.attribute == name).unwrap();
    assert_eq!(of("PortFlowCtlCounters").rows[0].value, Num::Is(0));
    assert_eq!(of("PortFlowCtlCounters").rows[0].rate, Num::Is(0.0));
    assert!(of("PortRcvConCtrl").missing.is_some());
    assert_eq!(PortRcvConCtrl::INFO.name, "PortRcvConCtrl");
    // Nobody looks any more.
    bench.engine.command(Command::Focus(None));
    let before = bench.fabric.get().sent.len();
    bench.run_ms(28_000);
    assert!(optional(&bench, before).is_empty());
}
