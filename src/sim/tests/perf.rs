//! Performance management: counters of one truth.

use super::*;
use crate::fabric::PortKey;
use crate::mad::{
    ClassCaps, ClassPortInfo, PortCounters, PortCountersExtended, PortExtendedSpeeds,
    PortExtendedSpeedsRsFec, Status,
};

fn key(name: &str, port: u8) -> PortKey {
    default_fabric().key(name, port).unwrap()
}

fn errors(port: PortKey, counter: Counter, by: u64) -> Action {
    Action::Count { port, counter, by }
}

#[test]
fn counters_stop_at_the_width_of_their_field() {
    let mut client = Client::healthy(default_fabric());
    let lid = client.lid_of("leaf01", 0);
    let port = key("leaf01", 3);
    for (counter, by) in [
        (Counter::SymbolError, 70_000),
        (Counter::LinkErrorRecovery, 254),
        (Counter::LinkDowned, 256),
        (Counter::LocalLinkIntegrityErrors, 16),
        (Counter::ExcessiveBufferOverrunErrors, 14),
    ] {
        client.port.act(client.now, errors(port, counter, by));
    }
    let narrow: PortCounters = client.count(lid, 3);
    assert_eq!(narrow.symbol_error(), 0xFFFF);
    assert_eq!(narrow.link_error_recovery(), 254);
    assert_eq!(narrow.link_downed(), 0xFF);
    assert_eq!(narrow.local_link_integrity(), 0xF);
    assert_eq!(narrow.excessive_buffer_overrun(), 14);
    // An HDR switch has wide ones too, of the same events.
    let wide: PortCountersExtended = client.count(lid, 3);
    assert_eq!((wide.symbol_error(), wide.link_downed()), (70_000, 256));
}

#[test]
fn what_one_end_sends_the_other_receives_and_a_switch_passes_on_what_it_gets() {
    let mut client = Client::healthy(default_fabric());
    // All ports of one leaf at one moment: nothing else takes time in between.
    let lid = client.lid_of("leaf02", 0);
    let sum = |client: &mut Client| {
        let (mut inward, mut outward) = (0, 0);
        for port in (1..=8).chain(33..=36) {
            let c: PortCountersExtended = client.count(lid, port);
            inward += c.rcv_data();
            outward += c.xmit_data();
        }
        (inward, outward)
    };
    let before = sum(&mut client);
    client.wait(Stamp::from_secs(100));
    let after = sum(&mut client);
    let (inward, outward) = (after.0 - before.0, after.1 - before.1);
    assert!(inward > 100_000_000, "no traffic to speak of: {inward}");
    // The reads of twelve ports are some µs apart.
    let apart = inward.abs_diff(outward) as f64 / inward as f64;
    assert!(apart < 1e-3, "{inward} in, {outward} out");
}

#[test]
fn a_hosts_packets_are_its_leaf_ports_packets() {
    let mut client = Client::healthy(default_fabric());
    let (host, leaf) = (client.lid_of("cn007", 1), client.lid_of("leaf02", 0));
    let read = |client: &mut Client| {
        let host: PortCountersExtended = client.count(host, 1);
        let leaf: PortCountersExtended = client.count(leaf, 2);
        [
            host.xmit_pkts(),
            leaf.rcv_pkts(),
            host.rcv_pkts(),
            leaf.xmit_pkts(),
        ]
    };
    let before = read(&mut client);
    client.wait(Stamp::from_secs(100));
    let after = read(&mut client);
    let moved: Vec<f64> = after
        .iter()
        .zip(before)
        .map(|(a, b)| (a - b) as f64)
        .collect();
    assert!(moved[0] > 1000.0 && moved[2] > 1000.0, "{moved:?}");
    assert!((moved[0] / moved[1] - 1.0).abs() < 1e-3, "{moved:?}");
    assert!((moved[2] / moved[3] - 1.0).abs() < 1e-3, "{moved:?}");
}

#[test]
fn counters_never_fall_and_unicast_and_multicast_make_up_all_packets() {
    let mut client = Client::healthy(default_fabric());
    let lid = client.lid_of("gpu03", 1);
    let mut last: PortCountersExtended = client.count(lid, 1);
    for step in 1..=200u64 {
        client.wait(Stamp(step * 777_777_777));
        let c: PortCountersExtended = client.count(lid, 1);
        assert!(c.xmit_data() > last.xmit_data() && c.rcv_pkts() > last.rcv_pkts());
        assert_eq!(
            c.xmit_pkts(),
            c.unicast_xmit_pkts() + c.multicast_xmit_pkts()
        );
        // A 4x NDR link carries 400 Gbit/s: 12.5e9 words a second.
        assert!(c.xmit_data() - last.xmit_data() < 10_000_000_000);
        last = c;
    }
}

#[test]
fn each_generation_has_its_own_optional_counters() {
    let mut client = Client::healthy(default_fabric());
    let old = client.lid_of("leaf08", 0);
    let new = client.lid_of("leaf05", 0);
    let caps: ClassPortInfo = client.count(old, 0);
    assert!(caps.cap_mask().has(ClassCaps::EXT_WIDTH_NO_IETF));
    assert!(!caps.cap_mask().has(ClassCaps::EXT_WIDTH));
    // A QDR switch has no multicast counters and no 64-bit errors.
    client.port.act(
        client.now,
        errors(key("leaf08", 1), Counter::SymbolError, 5),
    );
    let wide: PortCountersExtended = client.count(old, 1);
    assert_eq!((wide.multicast_rcv_pkts(), wide.symbol_error()), (0, 0));
    assert!(wide.rcv_data() > 0);
    let narrow: PortCounters = client.count(old, 1);
    assert_eq!(narrow.symbol_error(), 5);
    let tid = client.tid();
    let speeds = Mad::perf_port(PortExtendedSpeeds::ID, 1, tid);
    let reply = client.ask(Address::gmp(old, 0, 0), speeds).unwrap();
    assert_eq!(reply.status(), Status::UNSUPPORTED_ATTRIBUTE);
    let caps: ClassPortInfo = client.count(new, 0);
    assert!(caps.cap_mask().has(ClassCaps::RS_FEC));
    let speeds: PortExtendedSpeeds = client.count(new, 1);
    assert!(speeds.correctable_blocks() > 0);
}

#[test]
fn rs_fec_counts_blocks_symbols_and_lanes() {
    let mut client = Client::healthy(default_fabric());
    // An HDR leaf with 4x links.
    let lid = client.lid_of("leaf05", 0);
    let read = |client: &mut Client| -> PortExtendedSpeedsRsFec { client.count(lid, 1) };
    let before = read(&mut client);
    for (counter, by) in [
        (Counter::FecCorrectable, 1_600),
        (Counter::FecUncorrectable, 3),
    ] {
        client
            .port
            .act(client.now, errors(key("leaf05", 1), counter, by));
    }
    let after = read(&mut client);
    // Both reads are some µs apart: nothing else was repaired.
    assert_eq!(
        after.correctable_blocks() - before.correctable_blocks(),
        1_600
    );
    assert_eq!(
        after.uncorrectable_blocks() - before.uncorrectable_blocks(),
        3
    );
    // One symbol a block, and in one of 16 another one.
    let symbols = after.corrected_symbols() - before.corrected_symbols();
    assert!(symbols.abs_diff(1_700) <= 1, "{symbols}");
    let lanes = after.fec_correctable_symbols();
    assert_eq!(lanes.iter().sum::<u32>(), after.corrected_symbols());
    assert!(lanes[3] > 0 && lanes[4] == 0, "{lanes:?}");
}

#[test]
fn port_select_means_one_port_or_the_sum_of_all() {
    let mut client = Client::healthy(default_fabric());
    let lid = client.lid_of("leaf03", 0);
    for port in [1, 2, 40] {
        let action = errors(key("leaf03", port), Counter::RcvErrors, 0x6000);
        client.port.act(client.now, action);
    }
    let all: PortCounters = client.count(lid, 255);
    // 3 * 0x6000 is more than 16 bits hold.
    assert_eq!((all.rcv_errors(), all.port_select()), (0xFFFF, 255));
    let one: PortCounters = client.count(lid, 40);
    assert_eq!(one.rcv_errors(), 0x6000);
    let tid = client.tid();
    let beyond = Mad::perf_port(PortCounters::ID, 41, tid);
    let reply = client.ask(Address::gmp(lid, 0, 0), beyond).unwrap();
    assert_eq!(reply.status(), Status::BAD_VALUE);
    // A base port 0 has no counters: leaf08 is too old for an enhanced one.
    let lid = client.lid_of("leaf08", 0);
    let tid = client.tid();
    let zero = Mad::perf_port(PortCounters::ID, 0, tid);
    let reply = client.ask(Address::gmp(lid, 0, 0), zero).unwrap();
    assert_eq!(reply.status(), Status::BAD_VALUE);
}

#[test]
fn a_set_resets_the_selected_counters_and_no_others() {
    let mut client = Client::healthy(default_fabric());
    let lid = client.lid_of("leaf01", 0);
    for counter in [Counter::SymbolError, Counter::RcvErrors] {
        client
            .port
            .act(client.now, errors(key("leaf01", 2), counter, 9));
    }
    let tid = client.tid();
    let mut mad = Mad::perf(Method::Set, PortCounters::ID, 0, tid);
    let mut wish = PortCounters::new();
    // Bit 0 of CounterSelect is SymbolErrorCounter (specification 16.1.3.5).
    wish.set_port_select(2).set_counter_select(1);
    mad.set_data(&wish);
    let reply = client.ask(Address::gmp(lid, 0, 0), mad).unwrap();
    assert!(reply.status().is_ok());
    let now: PortCounters = client.count(lid, 2);
    assert_eq!((now.symbol_error(), now.rcv_errors()), (0, 9));
    // Somebody else resets everything.
    client
        .port
        .act(client.now, Action::ResetCounters(key("leaf01", 2)));
    let now: PortCounters = client.count(lid, 2);
    assert_eq!(now.rcv_errors(), 0);
    let wide: PortCountersExtended = client.count(lid, 2);
    assert!(wide.xmit_data() < 1_000_000_000, "{wide:?}");
}

#[test]
fn a_redirected_agent_answers_where_it_sends_to() {
    let mut client = Client::healthy(default_fabric());
    let lid = client.lid_of("mds1", 1);
    let other = client.lid_of("mds1", 2);
    let node = key("mds1", 1).node;
    client.port.act(
        client.now,
        Action::Redirect {
            node,
            to: Some((other, 0xFFFF)),
        },
    );
    let tid = client.tid();
    let mad = Mad::perf_port(PortCounters::ID, 1, tid);
    let reply = client.ask(Address::gmp(lid, 0, 0), mad).unwrap();
    assert_eq!(reply.status(), Status::REDIRECT);
    let info = ClassPortInfo::from_bytes(reply.data()).unwrap();
    assert_eq!((info.redirect_lid(), info.redirect_qp()), (other, 1));
    let _: PortCounters = client.count(other, 1);
}

#[test]
fn limited_members_of_a_partition_do_not_answer_each_other() {
    let options = SimOptions {
        limited_pkey: true,
        ..SimOptions::healthy()
    };
    let mut client = Client::new(default_fabric(), options);
    assert!(client.port.local(Stamp::ZERO).unwrap().pkey_limited);
    let host = client.lid_of("cn001", 1);
    let tid = client.tid();
    let mad = Mad::perf_port(PortCounters::ID, 1, tid);
    assert!(client.ask(Address::gmp(host, 0, 0), mad).is_none());
    let leaf = client.lid_of("leaf01", 0);
    let _: PortCounters = client.count(leaf, 1);
}
