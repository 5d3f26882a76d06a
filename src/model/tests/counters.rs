//! Counters: rates, resets, saturation, capabilities.

use super::super::Num;
use super::*;
use crate::mad::PortSamplesControl;

const WIDE: ClassCaps = ClassCaps::EXT_WIDTH;
const HOST_PORT: fn() -> PortKey = || key(HOST, 1);

fn narrow(symbol_error: u16) -> PortCounters {
    let mut c = PortCounters::new();
    c.set_symbol_error(symbol_error);
    c
}

fn wide(xmit: u64, rcv: u64) -> PortCountersExtended {
    let mut c = PortCountersExtended::new();
    c.set_xmit_data(xmit).set_rcv_data(rcv);
    c
}

/// Field report 2: nodes without errors vanished from the output.
#[test]
fn field_report_02_a_clean_node_shows_zeros() {
    let mut s = Session::fabric();
    s.narrow(HOST_PORT(), &PortCounters::new());
    let row = s.model.port(HOST_PORT(), s.now).unwrap();
    assert_eq!(row.errors, Num::Is(0));
    assert_eq!(
        counter(&s, HOST_PORT(), "SymbolErrorCounter").value,
        Num::Is(0)
    );
    assert!(!row.flags.any());
}

/// Field report 8: words were taken as bytes, or multiplied by lanes.
#[test]
fn field_report_08_a_thousand_words_are_four_thousand_bytes_at_every_width() {
    for (width, gbps) in [
        (LinkWidth::X1, 25.0),
        (LinkWidth::X2, 50.0),
        (LinkWidth::X4, 100.0),
        (LinkWidth::X12, 300.0),
    ] {
        let mut s = Session::fabric();
        let mut info = edr(3);
        info.set_link_width_active(width);
        s.port_info(HOST_PORT(), &info);
        s.caps(HOST_PORT(), WIDE, ClassCaps2(0));
        s.at(10.0).wide(HOST_PORT(), &wide(5_000, 0));
        s.at(14.0).wide(HOST_PORT(), &wide(6_000, 0));
        let rows = s.model.traffic(s.now);
        let row = rows.iter().find(|r| r.key == HOST_PORT()).unwrap();
        // 1000 words are 4000 bytes are 32,000 bits, in 4 seconds.
        assert_eq!(row.tx_bps, Num::Is(8_000.0), "{width}");
        assert_eq!(row.rx_bps, Num::Is(0.0));
        assert_eq!(row.capacity_bps, Some(gbps * 1e9));
        assert_eq!(row.tx_share(), Num::Is(8_000.0 / (gbps * 1e9)));
    }
}

/// Field report 9: the rate was attached to the switch, not to the port.
#[test]
fn field_report_09_two_ports_of_one_switch_have_their_own_speeds_and_rates() {
    let mut s = Session::fabric();
    let mut slow = edr(0);
    slow.set_link_speed_ext_active(LinkSpeedExt::Fdr);
    s.port_info(key(SWITCH, 2), &slow);
    s.caps(key(SWITCH, 0), WIDE, ClassCaps2(0));
    for (secs, words) in [(10.0, 0), (15.0, 1)] {
        s.at(secs).wide(key(SWITCH, 1), &wide(5_000 * words, 0));
        s.wide(key(SWITCH, 2), &wide(10_000 * words, 0));
    }
    let rows = s.model.traffic(s.now);
    let of = |port| rows.iter().find(|r| r.key == key(SWITCH, port)).unwrap();
    // EDR 4x 25 Gb/s and FDR 4x 13.64 Gb/s a lane; 1,000 and 2,000 words/s of 32 bits.
    assert_eq!(of(1).capacity_bps, Some(100e9));
    assert_eq!(of(2).capacity_bps, Some(4.0 * 13.64e9));
    assert_eq!(
        (of(1).tx_bps, of(2).tx_bps),
        (Num::Is(32_000.0), Num::Is(64_000.0))
    );
}

/// Field report 4: an optional attribute failed and took the base counters with it.
#[test]
fn field_report_04_a_refused_optional_attribute_leaves_the_base_counters() {
    let mut s = Session::fabric();
    let target = Target::port(HOST_PORT(), 1);
    s.refuse(
        target,
        Mad::perf(Method::Get, ClassPortInfo::ID, 0, 0),
        Status::UNSUPPORTED_ATTRIBUTE,
    );
    s.narrow(HOST_PORT(), &narrow(3));
    let ask = Mad::perf_port(PortCountersExtended::ID, 1, 0);
    s.refuse(target, ask, Status::UNSUPPORTED_ATTRIBUTE);
    let ask = Mad::perf_port(PortSamplesControl::ID, 1, 0);
    s.refuse(target, ask, Status::BAD_VALUE);
    assert_eq!(
        counter(&s, HOST_PORT(), "SymbolErrorCounter").value,
        Num::Is(3)
    );
    assert_eq!(counter(&s, HOST_PORT(), "PortXmitData").value, Num::Is(0));
    // What the node does not have is unknown, not zero.
    assert_eq!(counter(&s, HOST_PORT(), "PortXmitWait").value, Num::Unknown);
    assert_eq!(
        counter(&s, HOST_PORT(), "PortUnicastXmitPkts").value,
        Num::Unknown
    );
    assert_eq!(counter(&s, HOST_PORT(), "QP1Dropped").value, Num::Unknown);
}

/// Field report 4, the other way round: it worked, and a firmware update took it away.
#[test]
fn field_report_04_base_counters_take_over_when_the_wide_ones_are_refused_later() {
    let mut s = Session::fabric();
    s.caps(HOST_PORT(), WIDE, ClassCaps2(0));
    s.at(5.0).wide(HOST_PORT(), &wide(1 << 40, 0));
    s.at(10.0).wide(HOST_PORT(), &wide((1 << 40) + 500, 0));
    let target = Target::port(HOST_PORT(), 1);
    let ask = Mad::perf_port(PortCountersExtended::ID, 1, 0);
    s.at(15.0)
        .refuse(target, ask, Status::UNSUPPORTED_ATTRIBUTE);
    let mut c = PortCounters::new();
    c.set_xmit_data(100);
    s.narrow(HOST_PORT(), &c);
    c.set_xmit_data(350);
    s.at(20.0).narrow(HOST_PORT(), &c);
    let data = counter(&s, HOST_PORT(), "PortXmitData");
    // The narrow counter's first reading is a baseline, not a reset: 500 + 250, 250 in 5 s.
    assert_eq!(
        (data.value, data.since, data.rate),
        (Num::Is(350), Num::Is(750), Num::Is(50.0))
    );
    assert!(!s.texts().iter().any(|t| t.contains("reset")));
}

/// Field report 5: what is not known is shown as unknown, and everything else as ever.
#[test]
fn field_report_05_codes_without_a_meaning_are_shown_as_unknown() {
    use crate::report::{self, Format};
    let mut s = Session::fabric();
    // Node type 9, port state 7 and physical state 14, a width and a speed of no name.
    s.appear(Some(key(SWITCH, 3)), 0x90, NodeType::new(9), 1, 1, "odd");
    let mut info = PortInfo::new();
    info.set_port_state(PortState::new(7))
        .set_phys_state(PhysState::new(14))
        .set_lid(9);
    s.port_info(key(0x90, 1), &info);
    info.set_port_state(PortState::Active)
        .set_link_width_active(LinkWidth::new(0x40))
        .set_link_speed_active(LinkSpeed::new(8));
    s.port_info(key(SWITCH, 3), &info);
    let nodes = report::nodes(&s.model, s.now, Format::Text);
    let line = |report: &str, start: &str| {
        let line = report.lines().find(|l| l.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {report}"))
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(line(&nodes, "odd")[1], "??");
    let ports = report::ports(&s.model, s.now, Format::Text);
    let odd = line(&ports, "odd").join(" ");
    assert!(odd.contains("unknown (0x7) unknown (0xe)"), "{odd}");
    assert!(ports.contains("  ??? ???  "), "{ports}");
    // The others are there, with what they are.
    assert_eq!(line(&nodes, "leaf")[1], "SW");
}

/// Field report 5: a counter or attribute that the tool does not know broke it.
#[test]
fn field_report_05_an_unknown_attribute_changes_no_counter() {
    let mut s = Session::fabric();
    s.narrow(HOST_PORT(), &narrow(3));
    let before = s.model.counters(HOST_PORT(), s.now);
    let target = Target::port(HOST_PORT(), 1);
    let sent = s.ask(target, Mad::perf_port(0x00EE, 1, 0), 1);
    let mut reply = Mad::response_to(&sent.view(), Status::OK);
    reply.set_data_bytes(&[0xFF; 192]);
    s.receive(reply);
    assert_eq!(s.model.counters(HOST_PORT(), s.now), before);
}

/// Field report 16: others reset counters.
#[test]
fn field_report_16_a_reset_by_others_is_no_rate_and_no_spike_and_is_told() {
    let mut s = Session::fabric();
    s.at(5.0).narrow(HOST_PORT(), &narrow(40_000));
    s.at(10.0).narrow(HOST_PORT(), &narrow(40_010));
    assert_eq!(
        counter(&s, HOST_PORT(), "SymbolErrorCounter").rate,
        Num::Is(2.0)
    );
    s.at(15.0).narrow(HOST_PORT(), &narrow(4));
    let c = counter(&s, HOST_PORT(), "SymbolErrorCounter");
    // 10 before; 4 since the reset. What came between is lost: at least 14.
    assert_eq!(
        (c.value, c.since, c.rate),
        (Num::Is(4), Num::AtLeast(14), Num::Reset)
    );
    assert_eq!(
        s.model.port(HOST_PORT(), s.now).unwrap().errors_per_s,
        Num::Reset
    );
    s.at(20.0).narrow(HOST_PORT(), &narrow(9));
    let c = counter(&s, HOST_PORT(), "SymbolErrorCounter");
    assert_eq!((c.since, c.rate), (Num::AtLeast(19), Num::Is(1.0)));
    let told = "node7 mlx5_0[1]: counters were reset (SymbolErrorCounter 40010 -> 4)";
    assert_eq!(s.texts().iter().filter(|t| **t == told).count(), 1);
}

/// Field report 29: a negative delta was guessed as zero.
#[test]
fn field_report_29_a_value_below_the_last_is_a_reset_and_no_zero() {
    let mut s = Session::fabric();
    s.at(5.0).narrow(HOST_PORT(), &narrow(100));
    // To a value above zero, and below: in both the interval has no rate, not one of 0.
    s.at(10.0).narrow(HOST_PORT(), &narrow(99));
    let c = counter(&s, HOST_PORT(), "SymbolErrorCounter");
    assert_eq!((c.rate, c.since), (Num::Reset, Num::AtLeast(99)));
    s.at(15.0).narrow(HOST_PORT(), &narrow(0));
    let c = counter(&s, HOST_PORT(), "SymbolErrorCounter");
    assert_eq!((c.rate, c.since), (Num::Reset, Num::AtLeast(99)));
    // Other counters of the same reading keep their rates.
    assert_eq!(counter(&s, HOST_PORT(), "PortRcvErrors").rate, Num::Is(0.0));
}

/// Field report 17: 32-bit counters saturate and look like silence.
#[test]
fn field_report_17_a_pegged_counter_is_at_least_and_its_rate_unknown() {
    let mut s = Session::fabric();
    let mut c = PortCounters::new();
    c.set_xmit_data(0xFFFF_FF00).set_local_link_integrity(3);
    s.at(5.0).narrow(HOST_PORT(), &c);
    c.set_xmit_data(0xFFFF_FFFF).set_local_link_integrity(0xF);
    s.at(10.0).narrow(HOST_PORT(), &c);
    let data = counter(&s, HOST_PORT(), "PortXmitData");
    assert_eq!(data.value, Num::AtLeast(0xFFFF_FFFF));
    assert_eq!((data.since, data.rate), (Num::AtLeast(0xFF), Num::Unknown));
    // The four-bit counter pegs at 15.
    let lli = counter(&s, HOST_PORT(), "LocalLinkIntegrityErrors");
    assert_eq!((lli.value, lli.since), (Num::AtLeast(15), Num::AtLeast(12)));
    let row = s.model.port(HOST_PORT(), s.now).unwrap();
    assert!(row.flags.saturated);
    // One of twelve error counters says nothing more: the sum is a lower bound.
    assert_eq!(row.errors, Num::AtLeast(12));
    assert_eq!(row.errors_per_s, Num::AtLeast(0.0));
    // It stays pegged: still no rate of zero.
    s.at(15.0).narrow(HOST_PORT(), &c);
    assert_eq!(counter(&s, HOST_PORT(), "PortXmitData").rate, Num::Unknown);
}

/// Field report 17: 64-bit counters are preferred where the node has them.
#[test]
fn field_report_17_wide_data_is_preferred_and_narrow_data_passed_over() {
    let mut s = Session::fabric();
    s.caps(HOST_PORT(), WIDE, ClassCaps2(0));
    let mut pegged = narrow(0);
    pegged.set_xmit_data(0xFFFF_FFFF);
    for (secs, words) in [(5.0, 1u64 << 33), (10.0, (1 << 33) + 1_000)] {
        s.at(secs).wide(HOST_PORT(), &wide(words, 0));
        s.narrow(HOST_PORT(), &pegged);
    }
    let data = counter(&s, HOST_PORT(), "PortXmitData");
    assert_eq!(
        (data.value, data.rate),
        (Num::Is((1 << 33) + 1_000), Num::Is(200.0))
    );
    assert!(!s.model.port(HOST_PORT(), s.now).unwrap().flags.saturated);
}

/// Field report 18: 64-bit error counters of a node without them read as 0.
#[test]
fn field_report_18_capability_bits_decide_where_errors_come_from() {
    let mut zeros = wide(0, 0);
    zeros.set_symbol_error(0);
    // Without the bit, PortCounters counts.
    let mut s = Session::fabric();
    s.caps(HOST_PORT(), WIDE, ClassCaps2(0));
    s.wide(HOST_PORT(), &zeros);
    s.narrow(HOST_PORT(), &narrow(77));
    assert_eq!(
        counter(&s, HOST_PORT(), "SymbolErrorCounter").value,
        Num::Is(77)
    );
    // With it, PortCountersExtended does, beyond 16 bits.
    let mut s = Session::fabric();
    s.caps(HOST_PORT(), WIDE, ClassCaps2::ADDITIONAL_EXT);
    let mut many = wide(0, 0);
    many.set_symbol_error(100_000);
    s.wide(HOST_PORT(), &many);
    s.narrow(HOST_PORT(), &narrow(0xFFFF));
    assert_eq!(
        counter(&s, HOST_PORT(), "SymbolErrorCounter").value,
        Num::Is(100_000)
    );
    assert!(!s.model.port(HOST_PORT(), s.now).unwrap().flags.saturated);
}

#[test]
fn unicast_and_multicast_need_the_full_extended_width() {
    for (mask, want) in [
        (ClassCaps::EXT_WIDTH, Num::Is(9)),
        (ClassCaps::EXT_WIDTH_NO_IETF, Num::Unknown),
    ] {
        let mut s = Session::fabric();
        s.caps(HOST_PORT(), mask, ClassCaps2(0));
        let mut c = wide(1, 1);
        c.set_unicast_xmit_pkts(9);
        s.wide(HOST_PORT(), &c);
        assert_eq!(counter(&s, HOST_PORT(), "PortUnicastXmitPkts").value, want);
        assert_eq!(counter(&s, HOST_PORT(), "PortXmitData").value, Num::Is(1));
    }
}

/// Field report 28: errors counted since boot were taken for news.
#[test]
fn field_report_28_what_was_there_at_the_start_is_no_error_of_this_session() {
    let mut s = Session::fabric();
    let mut c = PortCounters::new();
    c.set_link_downed(200);
    s.at(5.0).narrow(HOST_PORT(), &c);
    let row = s.model.port(HOST_PORT(), s.now).unwrap();
    assert_eq!((row.errors, row.flags.errors), (Num::Is(0), false));
    c.set_link_downed(201);
    s.at(10.0).narrow(HOST_PORT(), &c);
    let row = s.model.port(HOST_PORT(), s.now).unwrap();
    assert_eq!((row.errors, row.flags.errors), (Num::Is(1), true));
}

/// Field report 27: PortXmitWait is shown as a share of time.
#[test]
fn field_report_27_waiting_is_a_share_of_time_by_the_tick() {
    let mut s = Session::fabric();
    s.caps(HOST_PORT(), ClassCaps::XMIT_WAIT, ClassCaps2(0));
    let mut c = PortCounters::new();
    s.at(10.0).narrow(HOST_PORT(), &c);
    c.set_xmit_wait(312_500_000);
    s.at(11.0).narrow(HOST_PORT(), &c);
    let wait = |s: &Session| {
        let rows = s.model.traffic(s.now);
        rows.iter().find(|r| r.key == HOST_PORT()).unwrap().wait
    };
    // The length of a tick is not known yet.
    assert_eq!(wait(&s), Num::Unknown);
    let mut control = PortSamplesControl::new();
    control.set_tick(4);
    let ask = Mad::perf_port(PortSamplesControl::ID, 1, 0);
    s.exchange(Target::port(HOST_PORT(), 1), ask, &control);
    // Tick 4 is five bytes at 25 Gb/s a lane: 1.6 ns; 312.5 million of them are half a second.
    assert_eq!(wait(&s), Num::Is(0.5));
    // It is no error.
    assert!(!s.model.port(HOST_PORT(), s.now).unwrap().flags.any());
}

#[test]
fn relay_errors_are_counted_and_not_summed() {
    let mut s = Session::fabric();
    let mut c = PortCounters::new();
    s.at(5.0).narrow(key(SWITCH, 1), &c);
    c.set_rcv_switch_relay_errors(12);
    s.at(10.0).narrow(key(SWITCH, 1), &c);
    let row = s.model.port(key(SWITCH, 1), s.now).unwrap();
    assert_eq!((row.errors, row.flags.errors), (Num::Is(0), false));
    assert_eq!(
        counter(&s, key(SWITCH, 1), "PortRcvSwitchRelayErrors").since,
        Num::Is(12)
    );
}

#[test]
fn rates_come_from_the_samples_own_times() {
    let mut s = Session::fabric();
    // A reply that takes two seconds was sampled half-way: at 11 and at 16 s.
    s.latency = Duration::from_secs(2);
    s.at(10.0).narrow(HOST_PORT(), &narrow(0));
    s.at(15.0).narrow(HOST_PORT(), &narrow(50));
    assert_eq!(
        counter(&s, HOST_PORT(), "SymbolErrorCounter").rate,
        Num::Is(10.0)
    );
    // A missed interval makes a longer one, not a spike.
    s.at(25.0).narrow(HOST_PORT(), &narrow(150));
    assert_eq!(
        counter(&s, HOST_PORT(), "SymbolErrorCounter").rate,
        Num::Is(10.0)
    );
}

#[test]
fn numbers_grow_stale_after_two_intervals() {
    let mut s = Session::fabric();
    s.at(5.0).narrow(HOST_PORT(), &narrow(1));
    s.at(10.0).narrow(HOST_PORT(), &narrow(2));
    let errors = |at| s.model.port(HOST_PORT(), Stamp::from_secs(at)).unwrap();
    assert_eq!(errors(20).errors, Num::Is(1));
    assert!(!errors(20).stale);
    assert_eq!(errors(21).errors, Num::Stale(1));
    assert!(errors(21).stale);
    assert_eq!(errors(21).errors_per_s, Num::Stale(0.2));
}

#[test]
fn the_sum_over_all_ports_is_no_ports_counter() {
    let mut s = Session::fabric();
    let ask = Mad::perf_port(PortCounters::ID, 255, 0);
    s.exchange(Target::port(key(SWITCH, 1), 1), ask, &narrow(9));
    assert_eq!(
        counter(&s, key(SWITCH, 1), "SymbolErrorCounter").value,
        Num::Unknown
    );
}

#[test]
fn a_late_duplicate_does_not_turn_time_back() {
    let mut s = Session::fabric();
    s.latency = Duration::ZERO;
    s.at(5.0).narrow(HOST_PORT(), &narrow(1));
    s.at(10.0);
    let old = s.ask(
        Target::port(HOST_PORT(), 1),
        Mad::perf_port(PortCounters::ID, 1, 0),
        1,
    );
    s.at(30.0).narrow(HOST_PORT(), &narrow(26));
    // Asked at 10 s, answered at 34 s: its middle is before the last sample's.
    s.at(34.0).receive(Mad::reply(&old.view(), &narrow(3)));
    let c = counter(&s, HOST_PORT(), "SymbolErrorCounter");
    assert_eq!((c.value, c.rate), (Num::Is(26), Num::Is(1.0)));
}

#[test]
fn totals_count_adapters_only() {
    let mut s = Session::fabric();
    for id in [LOCAL, SWITCH, HOST] {
        s.caps(key(id, 1), WIDE, ClassCaps2(0));
    }
    for (secs, n) in [(10.0, 0), (20.0, 1)] {
        s.at(secs)
            .wide(key(HOST, 1), &wide(100_000 * n, 300_000 * n));
        s.wide(key(SWITCH, 2), &wide(300_000 * n, 100_000 * n));
    }
    let t = s.model.totals(s.now);
    // 10,000 words/s sent by the host are 320 kbit/s; the local host was not read.
    assert_eq!(t.injected_bps, Num::AtLeast(320_000.0));
    assert_eq!(t.delivered_bps, Num::AtLeast(960_000.0));
    assert_eq!(t.counted, (1, 2));
    assert_eq!(t.busiest_port, Some(key(SWITCH, 2)));
    assert_eq!(t.busiest, Num::Is(960_000.0 / 100e9));
}

#[test]
fn the_history_holds_shares_of_the_links_rate() {
    let mut s = Session::fabric();
    s.caps(HOST_PORT(), WIDE, ClassCaps2(0));
    // A quarter, then half of 100 Gb/s: 3.90625e9 words in 5 s are 25 Gb/s.
    let quarter = 3_906_250_000u64;
    for (i, words) in [0, quarter, 3 * quarter].into_iter().enumerate() {
        s.at(10.0 + 5.0 * i as f64)
            .wide(HOST_PORT(), &wide(words, 0));
    }
    let rows = s.model.traffic(s.now);
    let row = rows.iter().find(|r| r.key == HOST_PORT()).unwrap();
    assert_eq!(row.history, [0.25, 0.5]);
}
