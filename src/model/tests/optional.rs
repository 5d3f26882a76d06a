//! FEC and bit error rates, optional counters, average packets, an operator's baseline.

use super::super::Num;
use super::*;
use crate::mad::{
    FecMode, PortExtendedSpeeds, PortExtendedSpeedsRsFec, PortFlowCtlCounters, PortInfoExtended,
    PortRcvErrorDetails, PortVlXmitWait, PortXmitDiscardDetails,
};
use crate::model::Ber;
use crate::model::view::{DetailGroup, FecView};

pub(super) fn host() -> PortKey {
    key(HOST, 1)
}

/// The host's port runs 4x HDR, with this FEC.
pub(super) fn hdr(s: &mut Session, mode: FecMode) {
    let mut info = edr(3);
    info.set_link_speed_ext_active(LinkSpeedExt::Hdr);
    s.port_info(host(), &info);
    fec_mode(s, mode);
}

pub(super) fn fec_mode(s: &mut Session, mode: FecMode) {
    let mut info = PortInfoExtended::new();
    info.set_cap_mask(1).set_fec_mode_active(mode);
    let ask = Mad::smp_lid(Method::Get, PortInfoExtended::ID, 1, 0);
    s.exchange(Target::port(host(), 1), ask, &info);
}

pub(super) fn speeds(s: &mut Session, c: &PortExtendedSpeeds) {
    let ask = Mad::perf_port(PortExtendedSpeeds::ID, 1, 0);
    s.exchange(Target::port(host(), 1), ask, c);
}

pub(super) fn rs(symbols: u32, lost: u32) -> PortExtendedSpeeds {
    let mut c = PortExtendedSpeeds::new();
    c.set_correctable_blocks(symbols)
        .set_uncorrectable_blocks(lost)
        .set_corrected_symbols(symbols);
    c
}

pub(super) fn fec(s: &Session) -> FecView {
    s.model.fec(host(), s.now).unwrap()
}

#[test]
fn bit_error_rates_are_errors_by_the_bits_that_the_wire_carried() {
    let mut s = Session::fabric();
    assert_eq!(s.model.fec(host(), s.now), None);
    hdr(&mut s, FecMode::Rs);
    assert_eq!(fec(&s).mode, Some(FecMode::Rs));
    s.at(10.0);
    speeds(&mut s, &rs(1_000, 7));
    // The first reading is the baseline.
    assert_eq!(
        (fec(&s).raw, fec(&s).raw_since),
        (Ber::Unknown, Ber::Unknown)
    );
    s.at(40.0);
    speeds(&mut s, &rs(1_255, 7));
    // 4 lanes of 53.125 Gb/s for 30 s: 6.375e12 bits. 255 of them: 4.0e-11. One in all of them
    // would be 1.57e-13: none is below 2e-13.
    let now = fec(&s);
    assert_eq!(now.raw.to_string(), "4.0e-11");
    assert_eq!(now.effective.to_string(), "<2e-13");
    assert_eq!(now.span, Duration::from_secs(30));
    s.at(70.0);
    speeds(&mut s, &rs(1_306, 9));
    // 51 and 2 in 6.375e12 bits; 306 and 2 in twice as many.
    let now = fec(&s);
    let words = [now.raw, now.effective, now.raw_since, now.effective_since].map(|b| b.to_string());
    // A lost block has more than one wrong bit.
    assert_eq!(words, ["8.0e-12", ">=3.1e-13", "2.4e-11", ">=1.6e-13"]);
    let lost = now.counters[1];
    assert_eq!(lost.name, "PortFECUncorrectableBlockCtr");
    assert_eq!((lost.value, lost.since), (Num::Is(9), Num::Is(2)));
    assert_eq!(lost.rate, Num::Is(2.0 / 30.0));
    // Each port is asked in one of six sweeps of 5 s: old after 60 s.
    assert!(!s.model.fec(host(), Stamp::from_secs(130)).unwrap().stale);
    assert!(s.model.fec(host(), Stamp::from_secs(131)).unwrap().stale);
}

#[test]
fn resets_and_pegged_counters_give_no_false_rate() {
    let mut s = Session::fabric();
    hdr(&mut s, FecMode::Rs);
    for (secs, symbols) in [(10.0, 500), (40.0, 600), (70.0, 4)] {
        s.at(secs);
        speeds(&mut s, &rs(symbols, 0));
    }
    assert_eq!(fec(&s).raw, Ber::Unknown);
    assert_eq!(fec(&s).counters[2].rate, Num::Reset);
    // 100 before and 4 after the reset, in 60 s (1.275e13 bits): 8.2e-12 or more.
    assert_eq!(fec(&s).raw_since.to_string(), ">=8.2e-12");
    s.at(100.0);
    speeds(&mut s, &rs(u32::MAX, 0));
    assert!(matches!(fec(&s).raw, Ber::AtLeast(_)));
    s.at(130.0);
    speeds(&mut s, &rs(u32::MAX, 0));
    assert_eq!(fec(&s).raw, Ber::Unknown, "pegged is not quiet");
}

#[test]
fn what_counts_as_an_error_goes_by_the_fec_mode() {
    // RS-FEC of a device that counts symbols on its lanes only.
    let mut s = Session::fabric();
    hdr(&mut s, FecMode::Rs);
    let mut lanes = PortExtendedSpeedsRsFec::new();
    for (secs, n) in [(10.0, 0), (20.0, 100)] {
        let mut values = [0; 12];
        values[..4].copy_from_slice(&[n, 2 * n, 0, n]);
        lanes.set_fec_correctable_symbols(values);
        s.at(secs);
        speeds(
            &mut s,
            &PortExtendedSpeeds::from_bytes(lanes.bytes()).unwrap(),
        );
    }
    // 400 in 2.125e12 bits.
    assert_eq!(fec(&s).raw.to_string(), "1.9e-10");
    // FireCode: blocks, those not repaired too.
    let mut s = Session::fabric();
    fec_mode(&mut s, FecMode::FireCode);
    for (secs, n) in [(10.0, 0u32), (20.0, 1)] {
        let mut c = PortExtendedSpeeds::new();
        let of = |v| std::array::from_fn(|i| if i < 4 { v } else { 0 });
        c.set_fec_correctable(of(10 * n))
            .set_fec_uncorrectable(of(n));
        s.at(secs);
        speeds(&mut s, &c);
    }
    // 4x EDR: 4 * 25.78125 Gb/s for 10 s are 1.03125e12 bits; 44 and 4 of them.
    assert_eq!(fec(&s).raw.to_string(), "4.3e-11");
    assert_eq!(fec(&s).effective.to_string(), ">=3.9e-12");
    // Without FEC, what the lanes detect is what there is.
    let mut s = Session::fabric();
    fec_mode(&mut s, FecMode::None);
    for (secs, n) in [(10.0, 0u16), (20.0, 25)] {
        let mut c = PortExtendedSpeeds::new();
        c.set_error_detection(std::array::from_fn(|i| if i < 4 { n } else { 0 }));
        s.at(secs);
        speeds(&mut s, &c);
    }
    assert_eq!(fec(&s).raw.to_string(), "9.7e-11");
    assert_eq!(fec(&s).raw, fec(&s).effective);
    // EDR with a mode that was not told: counters, but no rate made up.
    let mut s = Session::fabric();
    for (secs, n) in [(10.0, 0), (20.0, 5)] {
        s.at(secs);
        speeds(&mut s, &rs(n, 0));
    }
    assert_eq!((fec(&s).raw, fec(&s).mode), (Ber::Unknown, None));
    assert_eq!(fec(&s).counters[2].since, Num::Is(5));
}

fn group(s: &Session, name: &str) -> DetailGroup {
    let groups = s.model.details(host(), s.now);
    groups.into_iter().find(|g| g.attribute == name).unwrap()
}

#[test]
fn optional_counters_are_kept_with_their_rates_or_the_reason_why_not() {
    let mut s = Session::fabric();
    assert!(s.model.details(host(), s.now).is_empty());
    let target = Target::port(host(), 1);
    for (secs, n) in [(10.0, 3), (15.0, 13)] {
        let mut c = PortRcvErrorDetails::new();
        c.set_port_select(1)
            .set_malformed_pkt(n)
            .set_looping(0xFFFF);
        s.at(secs);
        s.exchange(target, Mad::perf_port(PortRcvErrorDetails::ID, 1, 0), &c);
        let mut wait = PortVlXmitWait::new();
        wait.set_wait(std::array::from_fn(|vl| if vl == 5 { n } else { 0 }));
        s.exchange(target, Mad::perf_port(PortVlXmitWait::ID, 1, 0), &wait);
    }
    let causes = group(&s, "PortRcvErrorDetails");
    // PortSelect and CounterSelect are no counters.
    assert_eq!(causes.rows.len(), 6);
    let row = &causes.rows[1];
    assert_eq!(
        (row.label.as_str(), row.value, row.rate),
        ("malformed packets", Num::Is(13), Num::Is(2.0))
    );
    // Pegged at 16 bits: no rate of 0.
    assert_eq!(
        (causes.rows[5].value, causes.rows[5].rate),
        (Num::AtLeast(0xFFFF), Num::Unknown)
    );
    let vls = group(&s, "PortVLXmitWaitCounters");
    assert_eq!(vls.rows.len(), 16);
    assert_eq!(
        (vls.rows[5].name.as_str(), vls.rows[5].label.as_str()),
        ("PortVLXmitWait5", "VL5")
    );
    assert_eq!(vls.rows[5].rate, Num::Is(2.0));
    // Refused, and silence.
    s.refuse(
        target,
        Mad::perf_port(PortFlowCtlCounters::ID, 1, 0),
        Status::UNSUPPORTED_ATTRIBUTE,
    );
    let flow = group(&s, "PortFlowCtlCounters");
    assert!(flow.rows.is_empty());
    assert_eq!(
        flow.missing.as_deref(),
        Some("method and attribute not supported")
    );
    s.silence(target, Mad::perf_port(0x37, 1, 0), 2, true);
    assert_eq!(
        group(&s, "PortRcvDataSL").missing.as_deref(),
        Some("no answer")
    );
    // A reset by others.
    s.at(20.0);
    s.exchange(
        target,
        Mad::perf_port(PortRcvErrorDetails::ID, 1, 0),
        &PortRcvErrorDetails::new(),
    );
    assert_eq!(group(&s, "PortRcvErrorDetails").rows[1].rate, Num::Reset);
    // Two intervals later they are old.
    let later = s.model.details(host(), Stamp::from_secs(31));
    assert!(later[0].stale && later[0].rows[0].value == Num::Stale(0));
    // None of this is a port's error counter.
    assert_eq!(s.model.port(host(), s.now).unwrap().errors, Num::Unknown);
}

#[test]
fn only_so_many_ports_are_remembered() {
    let mut s = Session::fabric();
    s.discovery(2, |s| {
        for guid in 0x1000..0x1050 {
            s.appear(Some(key(SWITCH, 2)), guid, NodeType::Ca, 1, 1, "n");
            s.now = s.now + Duration::from_secs(1);
            let ask = Mad::perf_port(PortRcvErrorDetails::ID, 1, 0);
            s.exchange(
                Target::port(key(guid, 1), 2),
                ask,
                &PortRcvErrorDetails::new(),
            );
        }
    });
    let known = |guid| !s.model.details(key(guid, 1), s.now).is_empty();
    // 80 were looked at; the last 64 are known.
    assert!(!known(0x1000) && !known(0x100F) && known(0x1010) && known(0x104F));
}

#[test]
fn packets_have_a_size_and_some_are_multicast() {
    let mut s = Session::fabric();
    s.caps(host(), ClassCaps::EXT_WIDTH, ClassCaps2(0));
    let mut c = PortCountersExtended::new();
    s.at(10.0).wide(host(), &c);
    // 2048 words in 4 packets: 2048 octets each. One of four is multicast.
    c.set_xmit_data(2_048)
        .set_xmit_pkts(4)
        .set_unicast_xmit_pkts(3)
        .set_multicast_xmit_pkts(1);
    s.at(15.0).wide(host(), &c);
    let rows = s.model.traffic(s.now);
    let row = rows.iter().find(|r| r.key == host()).unwrap();
    assert_eq!(
        (row.tx_packet, row.tx_multicast),
        (Num::Is(2_048.0), Num::Is(0.25))
    );
    // No packet has no size, and no share of anything.
    assert_eq!(
        (row.rx_packet, row.rx_multicast),
        (Num::Unknown, Num::Unknown)
    );
}

#[test]
fn errors_can_be_counted_from_a_chosen_moment_on() {
    let mut s = Session::fabric();
    let mut c = PortCounters::new();
    s.at(5.0).narrow(host(), &c);
    c.set_symbol_error(10);
    s.at(10.0).narrow(host(), &c);
    let zero = s.model.baseline(s.now);
    let row = |s: &Session| {
        let rows = s.model.ports_since(Some(&zero), s.now);
        let row = rows.into_iter().find(|r| r.key == host()).unwrap();
        (row.errors, row.flags.errors)
    };
    assert_eq!(row(&s), (Num::Is(0), false));
    c.set_symbol_error(12);
    s.at(15.0).narrow(host(), &c);
    assert_eq!(row(&s), (Num::Is(2), true));
    let detail = s.model.detail_since(host(), Some(&zero), s.now).unwrap();
    assert_eq!(detail.near.counters[0].since, Num::Is(2));
    assert_eq!(detail.near.counters[0].value, Num::Is(12));
    // The model counts on from the beginning, whoever looks how.
    assert_eq!(s.model.port(host(), s.now).unwrap().errors, Num::Is(12));
    // A port that was not read before: all it counts is new.
    let local = key(LOCAL, 1);
    s.narrow(local, &PortCounters::new());
    c.set_symbol_error(3);
    s.at(20.0).narrow(local, &c);
    let rows = s.model.ports_since(Some(&zero), s.now);
    assert_eq!(
        rows.iter().find(|r| r.key == local).unwrap().errors,
        Num::Is(3)
    );
}

#[test]
fn a_baseline_after_a_reset_is_exact_again() {
    let mut s = Session::fabric();
    for (secs, n) in [(5.0, 100), (10.0, 4)] {
        let mut c = PortCounters::new();
        c.set_symbol_error(n);
        s.at(secs).narrow(host(), &c);
    }
    assert_eq!(s.model.port(host(), s.now).unwrap().errors, Num::AtLeast(4));
    let zero = s.model.baseline(s.now);
    let errors = |s: &Session| {
        let rows = s.model.ports_since(Some(&zero), s.now);
        rows.iter().find(|r| r.key == host()).unwrap().errors
    };
    let mut c = PortCounters::new();
    c.set_symbol_error(7);
    s.at(15.0).narrow(host(), &c);
    assert_eq!(errors(&s), Num::Is(3));
    // And another reset makes it a lower bound again.
    s.at(20.0).narrow(host(), &PortCounters::new());
    assert_eq!(errors(&s), Num::AtLeast(3));
}

#[test]
fn an_unchanged_sum_says_that_ports_are_as_they_were() {
    let mut s = Session::fabric();
    let sum = |s: &mut Session, n: u16| {
        let mut c = PortCounters::new();
        c.set_port_select(255).set_symbol_error(n);
        let ask = Mad::perf_port(PortCounters::ID, 255, 0);
        s.exchange(Target::port(key(SWITCH, 255), 1), ask, &c);
    };
    s.caps(key(SWITCH, 0), ClassCaps::EXT_WIDTH, ClassCaps2(0));
    let data = |s: &mut Session| {
        for port in [1, 2] {
            s.wide(key(SWITCH, port), &PortCountersExtended::new());
        }
    };
    let mut c = PortCounters::new();
    c.set_symbol_error(5);
    // Port 2 was read before the sum: nobody knows what it counted in between.
    s.at(5.0).narrow(key(SWITCH, 2), &c);
    s.at(5.1);
    sum(&mut s, 9);
    s.at(5.2).narrow(key(SWITCH, 1), &c);
    s.at(25.0);
    data(&mut s);
    sum(&mut s, 9);
    let of = |s: &Session, port| {
        let row = s.model.port(key(SWITCH, port), s.now).unwrap();
        (row.errors, row.errors_per_s, row.stale)
    };
    assert_eq!(of(&s, 1), (Num::Is(0), Num::Is(0.0), false));
    assert_eq!(of(&s, 2), (Num::Stale(0), Num::Unknown, true));
    // Relay errors are no part of the comparison: they are as old as their reading.
    let relay = counter(&s, key(SWITCH, 1), "PortRcvSwitchRelayErrors");
    assert_eq!(relay.value, Num::Stale(0));
    // Another sum says nothing of the ports.
    s.at(45.0);
    data(&mut s);
    sum(&mut s, 10);
    assert!(of(&s, 1).2);
    // Nor does one that is pegged.
    for secs in [50.0, 55.0] {
        s.at(secs);
        data(&mut s);
        sum(&mut s, 0xFFFF);
    }
    assert!(of(&s, 1).2);
}

#[test]
fn causes_that_were_read_decide_whom_a_diagnosis_blames() {
    let mut s = Session::fabric();
    let leaf = key(SWITCH, 2);
    let sentences = |s: &Session| -> Vec<String> {
        let all = s.model.diagnosis(leaf, s.now);
        all.iter().map(|f| f.sentence()).collect()
    };
    let mut counters = PortCounters::new();
    s.at(10.0).narrow(leaf, &counters);
    counters.set_xmit_discards(50);
    s.at(20.0).narrow(leaf, &counters);
    let told = "Suspect node7 mlx5_0[1]: it takes packets too slowly: leaf[2] discarded 50 packets \
                (PortXmitDiscards)";
    assert_eq!(sentences(&s), [format!("{told}.")]);
    let discards = |s: &mut Session, hoq: u16, mtu: u16| {
        let mut c = PortXmitDiscardDetails::new();
        c.set_sw_hoq_lifetime_limit(hoq).set_neighbor_mtu(mtu);
        let ask = Mad::perf_port(PortXmitDiscardDetails::ID, 2, 0);
        s.exchange(Target::port(leaf, 1), ask, &c);
    };
    s.at(30.0);
    discards(&mut s, 40, 10);
    assert_eq!(
        sentences(&s),
        [format!(
            "{told}; most of them, as far as their causes were read: 40 \
             PortSwHOQLifetimeLimitDiscards."
        )]
    );
    // What is new counts more than what was there before.
    s.at(40.0);
    discards(&mut s, 40, 15);
    assert_eq!(
        sentences(&s),
        [
            "Suspect the MTU of the senders: their packets are longer than node7 mlx5_0[1] takes: \
             leaf[2] discarded 50 packets (PortXmitDiscards); most of them, as far as their causes \
             were read: 5 PortNeighborMTUDiscards."
        ]
    );
    // Receive errors: the wire, or who builds the packets.
    let mut counters = PortCounters::new();
    counters.set_xmit_discards(50).set_rcv_errors(12);
    s.at(50.0).narrow(leaf, &counters);
    let receive = |s: &mut Session, physical: u16, malformed: u16| {
        let mut c = PortRcvErrorDetails::new();
        c.set_local_physical(physical).set_malformed_pkt(malformed);
        let ask = Mad::perf_port(PortRcvErrorDetails::ID, 2, 0);
        s.exchange(Target::port(leaf, 1), ask, &c);
    };
    receive(&mut s, 12, 0);
    assert!(
        sentences(&s)[0].starts_with(
            "Suspect the cable or node7 mlx5_0[1]'s transmitter, then leaf[2]'s receiver: leaf[2] \
             counts 12 PortRcvErrors"
        ),
        "{:?}",
        sentences(&s)
    );
    s.at(60.0);
    receive(&mut s, 12, 7);
    assert_eq!(
        sentences(&s)[0],
        "Suspect node7 mlx5_0[1] itself: it builds packets wrongly, and the wire is well: leaf[2] \
         counts 12 PortRcvErrors, node7 mlx5_0[1] counts none; most of them, as far as their \
         causes were read: 7 PortMalformedPktErrors."
    );
}

#[test]
fn a_baseline_counts_fec_anew() {
    let mut s = Session::fabric();
    hdr(&mut s, FecMode::Rs);
    for (secs, symbols) in [(10.0, 100), (40.0, 355), (70.0, u32::MAX), (100.0, 50)] {
        s.at(secs);
        speeds(&mut s, &rs(symbols, 0));
    }
    let from = s.model.baseline(s.now);
    s.at(130.0);
    speeds(&mut s, &rs(305, 3));
    let whole = s.model.fec(host(), s.now).unwrap();
    let new = s.model.fec_since(host(), Some(&from), s.now).unwrap();
    // What was pegged and reset before is no matter any more.
    assert!(matches!(whole.counters[2].since, Num::AtLeast(_)));
    assert_eq!(new.counters[2].since, Num::Is(255));
    assert_eq!(new.counters[1].since, Num::Is(3));
    // 255 and 3 in the 6.375e12 bits of 30 s.
    assert_eq!(new.raw_since.to_string(), "4.0e-11");
    assert_eq!(new.effective_since.to_string(), ">=4.7e-13");
    assert_eq!(new.observed, Duration::from_secs(30));
    // A port that was not read by then: all is new.
    let before = crate::model::Baseline::nothing_at(Stamp::ZERO);
    let all = s.model.fec_since(host(), Some(&before), s.now).unwrap();
    assert_eq!(all.raw_since, whole.raw_since);
}
