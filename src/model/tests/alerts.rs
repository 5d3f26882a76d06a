//! Alerts: what opens one, what keeps it open, what clears it, and what is none.

use super::*;
use crate::event::{BackOff, Severity};
use crate::fabric::thresholds::{Origin, Thresholds};
use crate::mad::{Mtu, PortSamplesControl, SmInfo, SmState, Vls};
use crate::model::alerts::CLEARED;

/// Name, severity and whether it is open, of every alert.
fn list(s: &Session) -> Vec<(&'static str, Severity, bool)> {
    let rows = s.model.alerts();
    rows.iter()
        .map(|a| (a.kind, a.severity, a.cleared.is_none()))
        .collect()
}

fn open(s: &Session) -> Vec<&'static str> {
    let rows = s.model.alerts();
    rows.iter()
        .filter(|a| a.cleared.is_none())
        .map(|a| a.kind)
        .collect()
}

fn text(s: &Session, kind: &str) -> String {
    let rows = s.model.alerts();
    let row = rows.iter().find(|a| a.kind == kind).unwrap();
    row.text.clone()
}

fn with_thresholds(s: &mut Session, file: &str, origin: Origin) {
    let (thresholds, problems) =
        Thresholds::parse(file.as_bytes(), origin, crate::model::alerts::is_counter);
    assert_eq!(problems, []);
    s.event(What::Settings(Box::new(Settings {
        thresholds,
        ..Settings::default()
    })));
}

fn symbols(n: u16) -> PortCounters {
    let mut c = PortCounters::new();
    c.set_symbol_error(n);
    c
}

fn downs(n: u8) -> PortCounters {
    let mut c = PortCounters::new();
    c.set_link_downed(n);
    c
}

fn ticks(s: &mut Session, from: u64, to: u64) {
    for sec in from..=to {
        s.at(sec as f64).tick();
    }
}

#[test]
fn a_quiet_fabric_has_no_alert_whatever_its_counters_showed_before() {
    let mut s = Session::fabric();
    let mut old = PortCounters::new();
    old.set_symbol_error(40_000)
        .set_link_downed(200)
        .set_rcv_errors(9_000)
        .set_xmit_discards(60_000)
        .set_xmit_wait(4_000_000_000);
    for sec in (5..=3_600).step_by(5) {
        s.at(f64::from(sec)).tick();
        for port in [key(LOCAL, 1), key(SWITCH, 1), key(SWITCH, 2), key(HOST, 1)] {
            s.narrow(port, &old);
        }
    }
    assert_eq!(list(&s), []);
    assert_eq!(s.model.alert_counts().all(), 0);
}

#[test]
fn a_rate_above_its_limit_opens_and_clears_with_times() {
    let mut s = Session::fabric();
    let port = key(SWITCH, 2);
    s.at(10.0).narrow(port, &symbols(100));
    // Ten more are not above ten an hour; eleven are.
    s.at(20.0).narrow(port, &symbols(110));
    assert_eq!(list(&s), []);
    s.at(30.0).narrow(port, &symbols(111));
    let rows = s.model.alerts();
    let a = &rows[0];
    assert_eq!(
        (a.kind, a.severity),
        ("SymbolErrorCounter", Severity::Warning)
    );
    assert_eq!((a.about, a.name), (Some(port), Some("leaf")));
    assert_eq!(a.text, "SymbolErrorCounter rose by 11 within 1 h, limit 10");
    assert_eq!((a.opened, a.seen), (s.now, s.now));
    // Whom it blames is said where it is shown.
    assert_eq!(
        s.model.suspicion(a).unwrap(),
        "suspect the cable or node7 mlx5_0[1]'s transmitter, then leaf[2]'s receiver"
    );
    drop(rows);
    assert_eq!(s.model.alert_counts().warning, 1);
    // Seen again later; no sample is needed to clear it, only time.
    s.at(40.0).narrow(port, &symbols(112));
    ticks(&mut s, 41, 3_900);
    let rows = s.model.alerts();
    let a = &rows[0];
    assert_eq!(a.opened, Stamp::from_secs(30));
    assert_eq!(a.seen, Stamp::from_secs(40));
    // All twelve fell into the first of the hour's twelve parts, which left it at 3,600 s.
    assert_eq!(a.cleared, Some(Stamp::from_secs(3_600)));
    assert!(
        a.text
            .starts_with("SymbolErrorCounter rose by 12 within 1 h, limit 10; suspect")
    );
    assert_eq!(s.model.alert_counts().all(), 0);
    let told: Vec<_> = s
        .texts()
        .into_iter()
        .filter(|t| t.contains("alert"))
        .collect();
    assert_eq!(
        told,
        [
            "leaf[2]: alert: SymbolErrorCounter rose by 11 within 1 h, limit 10",
            "leaf[2]: alert cleared: SymbolErrorCounter",
        ]
    );
}

#[test]
fn an_alert_grows_graver_and_opens_again_as_the_same() {
    let mut s = Session::fabric();
    let port = key(SWITCH, 2);
    with_thresholds(
        &mut s,
        "SymbolErrorCounter=10/1min\nSymbolErrorCounter=100/1min:critical",
        Origin::Named,
    );
    s.at(10.0).narrow(port, &symbols(0));
    s.at(12.0).narrow(port, &symbols(50));
    assert_eq!(list(&s), [("SymbolErrorCounter", Severity::Warning, true)]);
    s.at(14.0).narrow(port, &symbols(120));
    assert_eq!(list(&s), [("SymbolErrorCounter", Severity::Critical, true)]);
    ticks(&mut s, 15, 90);
    assert_eq!(
        list(&s),
        [("SymbolErrorCounter", Severity::Critical, false)]
    );
    s.at(100.0).narrow(port, &symbols(140));
    let rows = s.model.alerts();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].times, rows[0].opened), (2, Stamp::from_secs(12)));
    assert_eq!(rows[0].severity, Severity::Warning);
}

#[test]
fn a_limit_of_the_users_own_file_judges_the_value_as_the_node_reports_it() {
    let mut s = Session::fabric();
    with_thresholds(&mut s, "SymbolErrorCounter=10\n", Origin::Named);
    s.at(10.0).narrow(key(SWITCH, 1), &symbols(10));
    s.at(10.0).narrow(key(SWITCH, 2), &symbols(11));
    assert_eq!(list(&s), [("SymbolErrorCounter", Severity::Warning, true)]);
    assert_eq!(
        text(&s, "SymbolErrorCounter"),
        "SymbolErrorCounter is 11, limit 10"
    );
    // Somebody resets it.
    s.at(20.0).narrow(key(SWITCH, 2), &symbols(0));
    assert_eq!(open(&s), Vec::<&str>::new());

    // The same file where nobody named it: what the session counts.
    let mut s = Session::fabric();
    with_thresholds(&mut s, "SymbolErrorCounter=10\n", Origin::Found);
    s.at(10.0).narrow(key(SWITCH, 2), &symbols(500));
    s.at(20.0).narrow(key(SWITCH, 2), &symbols(510));
    assert_eq!(list(&s), []);
    s.at(30.0).narrow(key(SWITCH, 2), &symbols(511));
    assert_eq!(open(&s), ["SymbolErrorCounter"]);
}

#[test]
fn field_report_27_waiting_is_a_share_of_time_and_mild_unless_it_lasts() {
    // PortXmitWait alone says nothing: 4 billion ticks may be a year's.
    let mut s = Session::fabric();
    let port = key(HOST, 1);
    s.caps(port, ClassCaps::XMIT_WAIT, ClassCaps2(0));
    let mut control = PortSamplesControl::new();
    control.set_tick(0);
    let target = Target::port(port, 1);
    s.exchange(
        target,
        Mad::perf_port(PortSamplesControl::ID, 1, 0),
        &control,
    );
    // A tick of code 0 is one byte on one lane: at EDR's 25 Gbit/s 0.32 ns, so half of every
    // ten seconds are 15,625,000,000 ticks; more than 32 bits count, hence one second's half.
    let half_a_second = 1_562_500_000u32;
    let mut value = 0u32;
    let mut sample = |s: &mut Session, at: f64, ticks: u32| {
        value = value.wrapping_add(ticks);
        let mut c = PortCounters::new();
        c.set_xmit_wait(value);
        s.at(at).tick();
        s.narrow(port, &c);
        // Reset by somebody before it saturates.
        value = 0;
        s.at(at + 0.01).narrow(port, &PortCounters::new());
    };
    sample(&mut s, 1.0, 0);
    // Five seconds of waiting for half of the time are far less than 30 % of a minute.
    for sec in 2..=6 {
        sample(&mut s, f64::from(sec), half_a_second);
    }
    assert_eq!(list(&s), []);
    // After a minute of it: good to know, no more.
    for sec in 7..=62 {
        sample(&mut s, f64::from(sec), half_a_second);
    }
    assert_eq!(list(&s), [("PortXmitWait", Severity::Info, true)]);
    let said = text(&s, "PortXmitWait");
    assert!(
        said.starts_with("PortXmitWait: waited ") && said.contains(" % of 1 min"),
        "{said}"
    );
    // It lasts: worth a look.
    for sec in 63..=620 {
        sample(&mut s, f64::from(sec), half_a_second);
    }
    assert_eq!(list(&s), [("PortXmitWait", Severity::Warning, true)]);
    let said = text(&s, "PortXmitWait");
    assert!(said.contains(" % of 10 min to send, limit 30 %"), "{said}");
    // It ends, and so does the alert; none of it was ever red.
    ticks(&mut s, 621, 1_300);
    assert_eq!(open(&s), Vec::<&str>::new());
}

#[test]
fn field_report_28_a_flap_is_counted_within_a_time_from_the_sessions_beginning() {
    let mut s = Session::fabric();
    let port = key(SWITCH, 2);
    // 200 since the switch was switched on, a year ago: no flap.
    s.at(5.0).narrow(port, &downs(200));
    s.at(10.0).narrow(port, &downs(202));
    assert_eq!(list(&s), []);
    // Three within a quarter of an hour are more than two.
    s.at(15.0).narrow(port, &downs(203));
    assert_eq!(list(&s), [("LinkDownedCounter", Severity::Warning, true)]);
    assert_eq!(
        text(&s, "LinkDownedCounter"),
        "link flaps: LinkDownedCounter rose by 3 within 15 min, limit 2"
    );
    // Quiet for a quarter of an hour: over.
    ticks(&mut s, 16, 920);
    assert_eq!(open(&s), Vec::<&str>::new());
    // Once a day is no flap, however often that was.
    for day in 1..=20u8 {
        let at = f64::from(day) * 86_400.0;
        s.at(at).tick();
        s.narrow(port, &downs(203 + day));
    }
    assert_eq!(open(&s), Vec::<&str>::new());

    // How many and within what time are the user's.
    let mut s = Session::fabric();
    with_thresholds(&mut s, "LinkDownedCounter=1/1min:critical", Origin::Named);
    s.at(5.0).narrow(port, &downs(200));
    s.at(10.0).narrow(port, &downs(202));
    assert_eq!(list(&s), [("LinkDownedCounter", Severity::Critical, true)]);
}

#[test]
fn a_link_that_was_up_is_told_of_once_and_clears_when_it_is_up_again() {
    let mut s = Session::fabric();
    // Down since before anybody looked: nothing to tell.
    assert_eq!(list(&s), []);
    s.at(60.0).port_info(key(SWITCH, 2), &down());
    s.at(60.1).port_info(key(HOST, 1), &down());
    // Told of at one end; the other one answers, so it did not vanish.
    assert_eq!(open(&s), ["link_down"]);
    assert_eq!(text(&s, "link_down"), "link to node7 mlx5_0[1] is down");
    s.at(90.0).port_info(key(SWITCH, 2), &edr(0));
    let left = open(&s);
    assert!(!left.contains(&"link_down"), "{left:?}");
}

#[test]
fn a_link_below_its_best_is_one_alert_for_both_ends() {
    let mut s = Session::fabric();
    let mut narrow = edr(0);
    narrow.set_link_width_active(LinkWidth::X1);
    s.at(60.0).port_info(key(SWITCH, 2), &narrow);
    s.at(60.1).port_info(key(HOST, 1), &narrow);
    assert_eq!(list(&s), [("below_best", Severity::Warning, true)]);
    assert_eq!(
        text(&s, "below_best"),
        "link runs at 1x EDR, both ends can do 4x EDR"
    );
    s.at(90.0).port_info(key(HOST, 1), &edr(3));
    s.at(90.1).port_info(key(SWITCH, 2), &edr(0));
    assert_eq!(open(&s), Vec::<&str>::new());
}

fn with_mtu(lid: u16, mtu: Mtu, vls: Vls) -> PortInfo {
    let mut info = edr(lid);
    info.set_neighbor_mtu(mtu).set_operational_vls(vls);
    info
}

#[test]
fn ends_that_disagree_about_mtu_or_lanes_are_told_once_that_is_sure() {
    let mut s = Session::fabric();
    let (near, far) = (key(SWITCH, 2), key(HOST, 1));
    let good = |lid| with_mtu(lid, Mtu::B4096, Vls::Vl0To3);
    s.at(30.0).port_info(near, &good(0));
    s.port_info(far, &good(3));
    assert_eq!(list(&s), []);
    // The SM sets one end, then the other: for a moment they differ.
    s.at(60.0)
        .port_info(near, &with_mtu(0, Mtu::B2048, Vls::Vl0To3));
    s.at(60.1)
        .port_info(far, &with_mtu(3, Mtu::B2048, Vls::Vl0To3));
    s.at(90.0)
        .port_info(near, &with_mtu(0, Mtu::B2048, Vls::Vl0To3));
    assert_eq!(list(&s), []);
    // Both read again, and still different.
    s.at(120.0)
        .port_info(near, &with_mtu(0, Mtu::B2048, Vls::Vl0To7));
    s.at(120.1)
        .port_info(far, &with_mtu(3, Mtu::B4096, Vls::Vl0));
    assert_eq!(list(&s), []);
    s.at(150.0)
        .port_info(near, &with_mtu(0, Mtu::B2048, Vls::Vl0To7));
    s.at(150.1)
        .port_info(far, &with_mtu(3, Mtu::B4096, Vls::Vl0));
    assert_eq!(open(&s), ["mtu_mismatch", "vl_mismatch"]);
    assert_eq!(
        text(&s, "mtu_mismatch"),
        "the ends of the link do not agree on MTU: 4096 here, 2048 at leaf[2]"
    );
    assert_eq!(
        text(&s, "vl_mismatch"),
        "the ends of the link do not agree on virtual lanes: VL0 here, VL0-7 at leaf[2]"
    );
    s.at(180.0).port_info(near, &good(0));
    s.port_info(far, &good(3));
    assert_eq!(open(&s), Vec::<&str>::new());
}

#[test]
fn an_mtu_below_what_both_ends_can_do_is_worth_a_word_and_no_more() {
    let mut s = Session::fabric();
    let (near, far) = (key(SWITCH, 2), key(HOST, 1));
    let with = |lid, mtu, cap| {
        let mut info = with_mtu(lid, mtu, Vls::Vl0To3);
        info.set_mtu_cap(cap);
        info
    };
    // 2048 is the best that both can do.
    for sec in [30.0, 60.0, 90.0] {
        s.at(sec).port_info(near, &with(0, Mtu::B2048, Mtu::B4096));
        s.port_info(far, &with(3, Mtu::B2048, Mtu::B2048));
    }
    assert_eq!(list(&s), []);
    for sec in [120.0, 150.0] {
        assert_eq!(list(&s), []);
        s.at(sec).port_info(near, &with(0, Mtu::B2048, Mtu::B4096));
        s.at(sec + 0.1)
            .port_info(far, &with(3, Mtu::B2048, Mtu::B4096));
    }
    assert_eq!(list(&s), [("mtu_below_best", Severity::Info, true)]);
    assert_eq!(
        text(&s, "mtu_below_best"),
        "link has an MTU of 2048, below its best: both ends can do 4096"
    );
    s.at(180.0)
        .port_info(near, &with(0, Mtu::B4096, Mtu::B4096));
    s.port_info(far, &with(3, Mtu::B4096, Mtu::B4096));
    assert_eq!(open(&s), Vec::<&str>::new());
}

#[test]
fn a_difference_that_the_first_discovery_finds_is_told_at_once() {
    let mut s = Session::new();
    s.discovery(1, |s| {
        s.appear(None, LOCAL, NodeType::Ca, 1, 1, "login1 mlx5_0");
        s.port_info(key(LOCAL, 1), &with_mtu(1, Mtu::B2048, Vls::Vl0To3));
        s.appear(Some(key(LOCAL, 1)), SWITCH, NodeType::Switch, 3, 1, "leaf");
        s.port_info(key(SWITCH, 0), &edr(2));
        s.port_info(key(SWITCH, 1), &with_mtu(0, Mtu::B4096, Vls::Vl0To3));
    });
    assert_eq!(open(&s), ["mtu_mismatch"]);
}

#[test]
fn whoever_never_said_who_it_is_is_an_alert_of_the_port_until_it_does() {
    let mut s = Session::fabric();
    let via = key(SWITCH, 3);
    s.at(20.0).port_info(via, &edr(0));
    let who = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1, 3], 0).unwrap();
    let beyond = Target::beyond(via, 1);
    s.silence(beyond, who.clone(), 1, false);
    assert_eq!(open(&s), Vec::<&str>::new());
    s.silence(beyond, who, 2, true);
    assert_eq!(open(&s), ["peer_silent"]);
    let row = s.model.alerts().remove(0);
    assert_eq!(row.about, Some(via));
    assert_eq!(row.text, "whoever is at the other end does not answer");
    s.appear(Some(via), 0x77, NodeType::Ca, 1, 1, "late riser");
    assert_eq!(open(&s), Vec::<&str>::new());
}

#[test]
fn a_node_that_does_not_answer_or_vanishes_is_an_alert_until_it_is_back() {
    let mut s = Session::fabric();
    let node = NodeId::new(HOST);
    let back_off = |failures, until| {
        What::BackOff(BackOff {
            node,
            failures,
            until,
        })
    };
    s.at(20.0).event(back_off(1, Some(Stamp::from_secs(25))));
    assert_eq!(list(&s), [("node_silent", Severity::Warning, true)]);
    s.at(26.0).event(back_off(2, Some(Stamp::from_secs(36))));
    s.at(30.0).event(back_off(0, None));
    assert_eq!(list(&s), [("node_silent", Severity::Warning, false)]);
    // Its cable is pulled.
    s.at(60.0).port_info(key(SWITCH, 2), &down());
    assert_eq!(open(&s), ["node_vanished", "link_down"]);
    s.at(90.0).port_info(key(SWITCH, 2), &edr(0));
    let mut info = NodeInfo::new();
    info.set_node_type(NodeType::Ca)
        .set_num_ports(1)
        .set_node_guid(HOST)
        .set_port_guid(HOST << 8 | 1)
        .set_local_port(1);
    s.node_info(Some(key(SWITCH, 2)), &info);
    assert_eq!(open(&s), Vec::<&str>::new());
}

#[test]
fn a_pegged_error_counter_is_told_and_is_no_news_if_it_was_so_before() {
    let mut s = Session::fabric();
    s.at(5.0).narrow(key(SWITCH, 1), &symbols(0xFFFF));
    assert_eq!(list(&s), [("pegged", Severity::Info, true)]);
    assert_eq!(
        text(&s, "pegged"),
        "SymbolErrorCounter is at its maximum: new errors cannot be seen"
    );
    s.at(10.0).narrow(key(SWITCH, 1), &symbols(0));
    assert_eq!(list(&s), [("pegged", Severity::Info, false)]);
    // One that saturates before our eyes.
    s.at(10.0).narrow(key(SWITCH, 2), &symbols(0xFFFE));
    s.at(15.0).narrow(key(SWITCH, 2), &symbols(0xFFFF));
    assert_eq!(open(&s), ["pegged"]);
    assert_eq!(s.model.alerts()[0].severity, Severity::Warning);
}

fn local(sm_lid: u16) -> What {
    What::LocalPort(Box::new(super::log::local(sm_lid)))
}

fn sm(s: &mut Session, at: f64, guid: u64, activity: u32, state: SmState) {
    let mut info = SmInfo::new();
    info.set_guid(guid).set_act_count(activity).set_state(state);
    let ask = Mad::smp_lid(Method::Get, SmInfo::ID, 0, 0);
    s.at(at).exchange(Target::port(key(HOST, 1), 1), ask, &info);
}

const SM_A: u64 = HOST << 8 | 1;
const SM_B: u64 = LOCAL << 8 | 1;

#[test]
fn an_sm_that_stands_still_is_an_alert_only_if_it_is_master() {
    let mut s = Session::fabric();
    for sec in 1..=8 {
        let at = f64::from(sec * 10);
        sm(&mut s, at, SM_A, 5, SmState::Master);
        sm(&mut s, at + 1.0, SM_B, 0, SmState::Standby);
    }
    assert_eq!(list(&s), [("sm_stalled", Severity::Critical, true)]);
    assert_eq!(
        text(&s, "sm_stalled"),
        "SM node7 mlx5_0: its activity count stands still at 5"
    );
    sm(&mut s, 90.0, SM_A, 6, SmState::Master);
    assert_eq!(open(&s), Vec::<&str>::new());
}

#[test]
fn a_failover_is_an_alert_for_a_while_and_not_two_masters() {
    let mut s = Session::fabric();
    sm(&mut s, 10.0, SM_A, 5, SmState::Master);
    sm(&mut s, 11.0, SM_B, 1, SmState::Standby);
    sm(&mut s, 20.0, SM_A, 6, SmState::Master);
    // SM A dies; B takes over.
    for sec in (25..=100).step_by(5) {
        sm(&mut s, f64::from(sec), SM_B, sec as u32, SmState::Master);
    }
    assert_eq!(list(&s), [("sm_failover", Severity::Critical, true)]);
    assert_eq!(
        text(&s, "sm_failover"),
        "the subnet manager changed: login1 mlx5_0 is master now"
    );
    // A comes back and finds B in office.
    sm(&mut s, 110.0, SM_A, 1, SmState::Standby);
    sm(&mut s, 115.0, SM_B, 200, SmState::Master);
    assert_eq!(open(&s), ["sm_failover"]);
    // A quarter of an hour later it is history.
    ticks(&mut s, 116, 960);
    assert_eq!(open(&s), Vec::<&str>::new());
}

#[test]
fn two_sms_that_both_stay_master_are_an_alert_until_one_gives_way() {
    let mut s = Session::fabric();
    sm(&mut s, 10.0, SM_A, 5, SmState::Master);
    sm(&mut s, 12.0, SM_B, 1, SmState::Master);
    sm(&mut s, 15.0, SM_A, 6, SmState::Master);
    assert!(open(&s).contains(&"two_masters"));
    let said = text(&s, "two_masters");
    assert!(said.contains("node7 mlx5_0") && said.contains("login1 mlx5_0"));
    sm(&mut s, 20.0, SM_B, 2, SmState::Standby);
    assert!(!open(&s).contains(&"two_masters"));
    // Or falls silent.
    sm(&mut s, 30.0, SM_B, 3, SmState::Master);
    sm(&mut s, 31.0, SM_A, 7, SmState::Master);
    sm(&mut s, 32.0, SM_B, 4, SmState::Master);
    assert!(open(&s).contains(&"two_masters"));
    for sec in 33..=100 {
        s.at(f64::from(sec)).tick();
        sm(
            &mut s,
            f64::from(sec) + 0.5,
            SM_A,
            7 + sec as u32,
            SmState::Master,
        );
    }
    assert!(!open(&s).contains(&"two_masters"));
}

#[test]
fn no_sm_a_device_that_is_gone_and_grave_notes_are_critical() {
    let mut s = Session::fabric();
    s.at(1.0).event(local(0));
    assert_eq!(list(&s), [("no_sm", Severity::Critical, true)]);
    s.at(2.0).event(local(3));
    assert_eq!(open(&s), Vec::<&str>::new());
    s.at(3.0).event(What::DeviceGone {
        why: "unplugged".into(),
    });
    assert_eq!(open(&s), ["device_gone"]);
    assert_eq!(
        text(&s, "device_gone"),
        "the local device is gone: unplugged"
    );
    s.at(4.0).event(What::DeviceBack);
    assert_eq!(open(&s), Vec::<&str>::new());
    let note = |severity, text: &str| What::Note {
        severity,
        node: None,
        text: text.into(),
    };
    s.event(note(Severity::Warning, "an SA difference"));
    s.event(note(
        Severity::Critical,
        "recording stopped: \u{1b}[2Jdisk full",
    ));
    assert_eq!(open(&s), ["note"]);
    assert_eq!(text(&s, "note"), "recording stopped: \\x1b[2Jdisk full");
    // However many of them: bounded.
    for n in 0..5_000 {
        s.event(note(Severity::Critical, &format!("note {n}")));
    }
    assert_eq!(s.model.alert_counts().all(), 100);
    assert!(s.model.alerts().len() <= 100 + CLEARED);
}

#[test]
fn what_is_suppressed_is_no_alert() {
    let mut s = Session::fabric();
    let mut settings = Settings::default();
    settings.thresholds.suppress = [
        "SymbolErrorCounter@0x20/2".parse().unwrap(),
        "no_sm".parse().unwrap(),
    ]
    .to_vec();
    s.event(What::Settings(Box::new(settings)));
    s.event(local(0));
    for port in [key(SWITCH, 1), key(SWITCH, 2)] {
        s.at(5.0).narrow(port, &symbols(0));
        s.at(10.0).narrow(port, &symbols(50));
    }
    let rows = s.model.alerts();
    let about: Vec<_> = rows.iter().map(|a| (a.kind, a.about)).collect();
    assert_eq!(about, [("SymbolErrorCounter", Some(key(SWITCH, 1)))]);
}

#[test]
fn cleared_alerts_are_remembered_up_to_a_bound() {
    let mut s = Session::fabric();
    for n in 0..3_000u64 {
        let id = NodeId::new(0x1000 + n);
        s.at(n as f64);
        for until in [Some(s.now), None] {
            s.event(What::BackOff(BackOff {
                node: id,
                failures: u32::from(until.is_some()),
                until,
            }));
        }
    }
    let rows = s.model.alerts();
    assert_eq!(rows.len(), CLEARED);
    // The last one first.
    assert_eq!(rows[0].about, Some(key(0x1000 + 2_999, 0)));
}

#[test]
fn the_same_events_give_the_same_alerts() {
    let mut s = Session::fabric();
    for sec in 1..200u32 {
        s.at(f64::from(sec * 7)).tick();
        s.narrow(key(SWITCH, 2), &symbols((sec * sec % 900) as u16));
        if sec % 20 == 0 {
            s.port_info(key(SWITCH, 1), &down());
            s.port_info(key(SWITCH, 1), &edr(0));
        }
    }
    let again = s.replayed();
    assert!(!s.model.alerts().is_empty());
    assert_eq!(s.model.alerts(), again.alerts());
    assert_eq!(s.model.alert_counts(), again.alert_counts());
}
