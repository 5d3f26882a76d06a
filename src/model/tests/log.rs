//! The event log: what is told, when, and in which words.

use super::*;
use crate::event::Severity;
use crate::mad::notice::Trap;
use crate::mad::{MgmtClass, Notice, SmInfo, SmState};
use crate::port::LocalPort;

/// The local port, under the SM of this LID.
pub(super) fn local(sm_lid: u16) -> LocalPort {
    LocalPort {
        ca: "mlx5_0".to_owned(),
        port: 1,
        node_guid: LOCAL,
        port_guid: LOCAL << 8 | 1,
        gid_prefix: 0xfe80_0000_0000_0000,
        lid: 1,
        lmc: 0,
        sm_lid,
        sm_sl: 0,
        state: 4,
        cap_mask: 0,
        pkey_index: Some(0),
        pkey_limited: false,
        pkeys: vec![0xFFFF],
    }
}

fn sm(s: &mut Session, guid: u64, activity: u32, state: SmState, priority: u8) {
    let mut info = SmInfo::new();
    info.set_guid(guid)
        .set_act_count(activity)
        .set_priority(priority)
        .set_state(state);
    let ask = Mad::smp_lid(Method::Get, SmInfo::ID, 0, 0);
    s.exchange(Target::port(key(HOST, 1), 1), ask, &info);
}

#[test]
fn the_first_discovery_is_one_line() {
    let mut s = Session::new();
    s.at(0.5).discovery(1, |s| {
        s.appear(None, LOCAL, NodeType::Ca, 1, 1, "login1 mlx5_0");
        s.appear(Some(key(LOCAL, 1)), SWITCH, NodeType::Switch, 3, 1, "leaf");
        s.at(2.0);
    });
    assert_eq!(
        s.texts(),
        ["discovery found 1 switch, 1 adapter, 1 link in 1.5 s"]
    );
}

#[test]
fn what_appears_later_is_told_by_its_name() {
    let mut s = Session::fabric();
    s.at(60.0).port_info(key(SWITCH, 3), &edr(0));
    s.appear(
        Some(key(SWITCH, 3)),
        0x12,
        NodeType::Ca,
        1,
        1,
        "node8 mlx5_0",
    );
    assert_eq!(
        s.texts()[1..],
        [
            "leaf[3]: Down -> Active",
            "node8 mlx5_0 appeared",
            "link found: leaf[3] - node8 mlx5_0[1]",
        ]
    );
    // A node that stays without a description is told at the next tick.
    s.at(61.0).port_info(key(SWITCH, 2), &down());
    let mut info = NodeInfo::new();
    info.set_node_type(NodeType::Ca)
        .set_num_ports(1)
        .set_node_guid(0x99)
        .set_local_port(1);
    s.node_info(Some(key(SWITCH, 2)), &info);
    assert!(
        !s.texts()
            .iter()
            .any(|t| t.contains("0x0000000000000099 appeared"))
    );
    s.at(62.0).tick();
    assert!(s.texts().contains(&"0x0000000000000099 appeared"));
}

#[test]
fn lids_rates_and_descriptions_that_change_are_told() {
    let mut s = Session::fabric();
    s.port_info(key(HOST, 1), &edr(9));
    let mut fdr = edr(9);
    fdr.set_link_speed_ext_active(LinkSpeedExt::Fdr);
    s.port_info(key(HOST, 1), &fdr);
    s.describe(HOST, "node7 mlx5_1\x1b[31m");
    assert_eq!(
        s.texts()[1..],
        [
            "node7 mlx5_0[1]: LID 3 -> 9",
            "node7 mlx5_0[1]: now 4x FDR",
            "node7 mlx5_0[1]: alert: link runs at 4x FDR, both ends can do 4x EDR",
            "node7 mlx5_0 is called node7 mlx5_1\\x1b[31m now",
        ]
    );
}

#[test]
fn a_node_that_a_discovery_does_not_find_is_missing_and_comes_back() {
    let mut s = Session::fabric();
    s.at(600.0).discovery(2, |s| {
        s.appear(None, LOCAL, NodeType::Ca, 1, 1, "login1 mlx5_0");
        s.appear(Some(key(LOCAL, 1)), SWITCH, NodeType::Switch, 3, 1, "leaf");
    });
    assert!(
        s.texts()
            .contains(&"node7 mlx5_0 cannot be reached any more")
    );
    assert!(s.model.port(key(HOST, 1), s.now).unwrap().flags.unreachable);
    s.at(700.0).appear(
        Some(key(SWITCH, 2)),
        HOST,
        NodeType::Ca,
        1,
        1,
        "node7 mlx5_0",
    );
    assert!(s.texts().contains(&"node7 mlx5_0 is back"));
    assert!(!s.model.port(key(HOST, 1), s.now).unwrap().flags.unreachable);
}

/// Field report 15: the cache of a replaced switch lived forever.
#[test]
fn field_report_15_a_node_that_stays_away_is_forgotten() {
    let mut s = Session::fabric();
    for number in 2..=8 {
        s.discovery(number, |s| {
            s.appear(None, LOCAL, NodeType::Ca, 1, 1, "login1 mlx5_0");
            s.appear(Some(key(LOCAL, 1)), SWITCH, NodeType::Switch, 3, 1, "leaf");
        });
    }
    assert!(s.model.port(key(HOST, 1), s.now).is_none());
    assert_eq!(s.model.name(NodeId::new(HOST)), "");
    assert!(
        !s.model
            .destinations(s.now)
            .iter()
            .any(|r| r.node == Some(NodeId::new(HOST)))
    );
    assert!(
        s.texts()
            .contains(&"node7 mlx5_0 was gone for long and is forgotten")
    );
    // Its place is taken by the next node without inheriting anything.
    s.appear(
        Some(key(SWITCH, 3)),
        0x12,
        NodeType::Ca,
        1,
        1,
        "node8 mlx5_0",
    );
    let rows = s.model.destinations(s.now);
    let new = rows.iter().find(|r| r.name == "node8 mlx5_0").unwrap();
    assert_eq!((new.sent, new.timed_out), (2, 0));
}

#[test]
fn twin_names_are_told_apart_everywhere() {
    let mut s = Session::fabric();
    s.appear(
        Some(key(SWITCH, 3)),
        0x12,
        NodeType::Ca,
        1,
        1,
        "node7 mlx5_0",
    );
    assert_eq!(s.model.name(NodeId::new(HOST)), "node7 mlx5_0 (..0011)");
    assert_eq!(s.model.name(NodeId::new(0x12)), "node7 mlx5_0 (..0012)");
}

#[test]
fn the_name_map_applies_at_once_and_is_cleaned() {
    let mut s = Session::fabric();
    let mut settings = Settings::default();
    settings
        .names
        .insert(crate::fabric::Guid(HOST), "rack 3\x07".to_owned());
    s.event(What::Settings(Box::new(settings)));
    assert_eq!(s.model.name(NodeId::new(HOST)), "rack 3\\x07");
    s.event(What::Settings(Box::default()));
    assert_eq!(s.model.name(NodeId::new(HOST)), "node7 mlx5_0");
}

#[test]
fn an_sm_that_moves_restarts_or_stalls_is_told() {
    let mut s = Session::fabric();
    s.event(What::LocalPort(Box::new(local(7))));
    let (a, b) = (HOST << 8 | 1, SWITCH << 8 | 1);
    s.at(1.0);
    sm(&mut s, a, 100, SmState::Master, 5);
    let view = s.model.header(s.now).sm.unwrap();
    assert_eq!(
        (view.lid, view.guid, view.priority, view.state_name()),
        (7, a, 5, "Master")
    );
    s.at(11.0);
    sm(&mut s, a, 100, SmState::Master, 5);
    s.at(30.0);
    sm(&mut s, a, 100, SmState::Master, 5);
    assert_eq!(
        s.texts().len(),
        1,
        "a count that stands still for 29 s may be chance"
    );
    s.at(31.0);
    sm(&mut s, a, 100, SmState::Master, 5);
    s.at(61.0);
    sm(&mut s, a, 100, SmState::Master, 5);
    s.at(62.0);
    sm(&mut s, a, 101, SmState::Master, 5);
    s.at(70.0);
    sm(&mut s, a, 3, SmState::Master, 14);
    s.at(80.0);
    sm(&mut s, b, 1, SmState::Master, 15);
    s.at(85.0);
    sm(&mut s, a, 9, SmState::Master, 14);
    assert_eq!(
        s.texts()[1..],
        [
            "SM node7 mlx5_0: its activity count stands still at 100",
            "SM node7 mlx5_0 is active again",
            "SM node7 mlx5_0: priority 5 -> 14",
            "SM node7 mlx5_0 restarted",
            "SM moved from node7 mlx5_0 to leaf (LID 7)",
            "two master SMs: leaf and node7 mlx5_0",
        ]
    );
}

#[test]
fn notices_name_the_ports_they_are_about_and_repeats_fold() {
    let mut s = Session::fabric();
    let report = |s: &mut Session, trap: &Trap| {
        let notice = Notice::from_trap(trap, 2).unwrap();
        let mut mad = Mad::sa(Method::Report, Notice::ID, 0, 0, 0x77);
        mad.set_data(&notice);
        s.receive(mad);
    };
    for _ in 0..300 {
        report(&mut s, &Trap::LinkStateChanged { lid: 2 });
    }
    report(&mut s, &Trap::LocalLinkIntegrity { lid: 2, port: 2 });
    report(&mut s, &Trap::LinkStateChanged { lid: 0x99 });
    let mut vendor = Notice::new();
    vendor.set_trap_number(0x1234);
    let mut mad = Mad::smp_lid(Method::Trap, Notice::ID, 0, 1);
    mad.set_data(&vendor);
    s.receive(mad);
    let lines: Vec<_> = s
        .model
        .log()
        .iter()
        .skip(1)
        .map(|l| (l.count, l.text.as_str()))
        .collect();
    assert_eq!(
        lines[0],
        (300, "notice 128: link state changed at leaf (LID 2)")
    );
    assert_eq!(
        lines[1],
        (
            1,
            "notice 129: local link integrity errors at leaf[2] (LID 2)"
        )
    );
    assert_eq!(lines[2], (1, "notice 128: link state changed at LID 153"));
    assert!(
        lines[3]
            .1
            .starts_with("vendor notice 0x000000/0x1234 from LID 0: 0000")
    );
    assert_eq!(s.model.log()[2].about, Some(key(SWITCH, 2)));
}

/// Every generic trap of the specification (14.2.5.1, 13.4.8.2) in words: with names where LIDs
/// and GIDs are known, with the port where the trap tells one.
#[test]
fn every_generic_trap_is_told_with_names_and_ports() {
    let mut s = Session::fabric();
    // A notice of this number from the switch (LID 2), its details by their offsets in the
    // notice, of which the first 10 bytes are its head.
    let report = |s: &mut Session, number: u16, details: &[(usize, &str)]| {
        let mut bytes = [0; 80];
        bytes[0] = 0x81;
        bytes[4..6].copy_from_slice(&number.to_be_bytes());
        bytes[7] = 2;
        for (at, hex) in details {
            let hex = hex.replace(' ', "");
            for (i, pair) in hex.as_bytes().chunks(2).enumerate() {
                let digits = std::str::from_utf8(pair).unwrap();
                bytes[at + i] = u8::from_str_radix(digits, 16).unwrap();
            }
        }
        let mut mad = Mad::sa(Method::Report, Notice::ID, 0, 0, 0x77);
        mad.set_data(&Notice::from_bytes(&bytes).unwrap());
        s.receive(mad);
        s.texts().last().copied().unwrap_or_default().to_owned()
    };
    let port_gid = "fe80000000000000 0000000000001101";
    let group = "ff12401bffff0000 0000000000000001";
    let keys = [(12, "0003 0001"), (16, "00008001 00 000048 00 000052")];
    let keys_259 = [(12, "0003 0001 8001 00 000048 00 000052"), (58, "0002 02")];
    type Details<'a> = &'a [(usize, &'a str)];
    let cases: [(u16, Details<'_>, &str); 22] = [
        (
            64,
            &[(16, port_gid)],
            "node7 mlx5_0[1] (fe80::1101) is in service",
        ),
        (
            65,
            &[(16, port_gid)],
            "node7 mlx5_0[1] (fe80::1101) is out of service",
        ),
        (
            66,
            &[(16, group)],
            "multicast group ff12:401b:ffff::1 created from leaf (LID 2)",
        ),
        (
            67,
            &[(16, group)],
            "multicast group ff12:401b:ffff::1 deleted from leaf (LID 2)",
        ),
        (68, &[], "paths no longer valid from leaf (LID 2)"),
        (69, &[], "paths recomputed from leaf (LID 2)"),
        (128, &[(10, "0002")], "link state changed at leaf (LID 2)"),
        (
            129,
            &[(12, "0002 02")],
            "local link integrity errors at leaf[2] (LID 2)",
        ),
        (
            130,
            &[(12, "0002 01")],
            "excessive buffer overruns at leaf[1] (LID 2)",
        ),
        (
            131,
            &[(12, "0003 01")],
            "flow control watchdog expired at node7 mlx5_0[1] (LID 3)",
        ),
        (
            144,
            &[(12, "0003"), (16, "00000002")],
            "local change at node7 mlx5_0[1] (LID 3): CapabilityMask 0x00000002, now IsSM, \
             no longer IsExtendedSpeedsSupported",
        ),
        (
            144,
            &[(12, "0003 0001"), (20, "0001")],
            "local change at node7 mlx5_0[1] (LID 3): NodeDescription",
        ),
        // Each of the flags at byte 20, and several.
        (
            144,
            &[(12, "0003 0001"), (20, "0002")],
            "local change at node7 mlx5_0[1] (LID 3): LinkWidthEnabled",
        ),
        (
            144,
            &[(12, "0003 0001"), (20, "0004")],
            "local change at node7 mlx5_0[1] (LID 3): LinkSpeedEnabled",
        ),
        (
            144,
            &[(12, "0003 0001"), (20, "0008")],
            "local change at node7 mlx5_0[1] (LID 3): SM priority",
        ),
        (
            144,
            &[(12, "0003 0001"), (20, "0016")],
            "local change at node7 mlx5_0[1] (LID 3): LinkWidthEnabled, LinkSpeedEnabled, \
             HierarchyInfo",
        ),
        (
            144,
            &[(12, "0003 0001"), (20, "0020 0c02")],
            "local change at node7 mlx5_0[1] (LID 3): CapabilityMask2 is now 0x0c02",
        ),
        (
            145,
            &[(12, "0003"), (16, "0000000000000077")],
            "SystemImageGUID of node7 mlx5_0[1] (LID 3) is now 0x0000000000000077",
        ),
        (
            256,
            &[(12, "0003 0000 01 00 0015 00000001 1122334455667788")],
            "bad M_Key at leaf (LID 2) from node7 mlx5_0[1] (LID 3): Get(PortInfo) modifier 0x1",
        ),
        (
            257,
            &keys,
            "bad P_Key 0x8001 from node7 mlx5_0[1] (LID 3) QP 0x48 to login1 mlx5_0[1] (LID 1) QP 0x52 seen by leaf (LID 2)",
        ),
        (
            258,
            &keys,
            "bad Q_Key 0x8001 from node7 mlx5_0[1] (LID 3) QP 0x48 to login1 mlx5_0[1] (LID 1) QP 0x52 seen by leaf (LID 2)",
        ),
        (
            259,
            &keys_259,
            "bad P_Key 0x8001 from node7 mlx5_0[1] (LID 3) QP 0x48 to login1 mlx5_0[1] (LID 1) QP 0x52 at leaf[2] (LID 2)",
        ),
    ];
    for (number, details, words) in cases {
        let said = report(&mut s, number, details);
        assert_eq!(said, format!("notice {number}: {words}"));
    }
    // No key is ever told.
    assert!(!s.texts().iter().any(|t| t.contains("1122334455667788")));
}

/// Behind the notice (10 bytes of head, 54 of details) and IssuerGID follows a PathRecord, whose
/// DGID is at 8, SGID at 24, DLID at 40, SLID at 42, P_Key at 50. Components 2 to 5 and 13.
#[test]
fn notices_about_paths_name_their_ends() {
    let mut s = Session::fabric();
    let told = |s: &mut Session, trap: u8, mask: u16, flag: u8| {
        let mut data = [0u8; 200];
        data[..8].copy_from_slice(&[0x83, 0, 0, 4, 0, trap, 0, 2]);
        data[16..18].copy_from_slice(&mask.to_be_bytes());
        data[18] = flag;
        let path = &mut data[80..];
        path[8..10].copy_from_slice(&[0xfe, 0x80]);
        path[22..24].copy_from_slice(&[0x11, 0x01]);
        path[40..44].copy_from_slice(&[0, 0x99, 0, 2]);
        path[50..52].copy_from_slice(&[0x80, 0x01]);
        let mut mad = Mad::sa(Method::Report, Notice::ID, 0, 0, 0x77);
        mad.set_data_bytes(&data);
        s.receive(mad);
        s.texts().last().copied().unwrap_or_default().to_owned()
    };
    assert_eq!(
        told(&mut s, 68, 1 << 2 | 1 << 5 | 1 << 13, 0x80),
        "notice 68: paths from leaf (LID 2) to node7 mlx5_0[1] (fe80::1101) of partition 0x8001 are no \
         longer valid: new ones will be told"
    );
    let line = s.model.log().back().unwrap();
    assert_eq!(line.about, Some(key(HOST, 1)));
    assert_eq!(
        told(&mut s, 69, 1 << 4, 0),
        "notice 69: paths to LID 153 were computed anew"
    );
    assert_eq!(
        told(&mut s, 69, 0, 0),
        "notice 69: paths recomputed from leaf (LID 2)"
    );
}

/// Field report 26: a kernel refuses one class's registration; the rest works.
#[test]
fn field_report_26_a_refused_agent_is_listed_and_told() {
    let mut s = Session::fabric();
    s.event(What::Agent(Box::new(crate::port::AgentReport {
        agent: crate::port::Agent::Perf,
        refused: Some("EINVAL, invalid argument".to_owned()),
        reports: false,
    })));
    assert_eq!(s.model.header(s.now).refused.len(), 1);
    assert!(
        s.texts()
            .contains(&"agent Perf 0x04 refused: EINVAL, invalid argument")
    );
}

#[test]
fn words_from_outside_are_cleaned() {
    let mut s = Session::fabric();
    let evil = "a\x1b]0;title\x07b";
    s.event(What::Mark { text: evil.into() });
    s.event(What::Act { text: evil.into() });
    s.event(What::Note {
        severity: Severity::Info,
        node: Some(NodeId::new(HOST)),
        text: evil.into(),
    });
    s.event(What::Malformed(Box::new(crate::event::Malformed {
        len: 3,
        why: evil.to_owned(),
        head: vec![1, 2, 3],
    })));
    s.event(What::Closed { why: evil.into() });
    assert!(s.texts().iter().all(|t| !t.chars().any(char::is_control)));
    assert_eq!(s.model.closed(), Some("a\\x1b]0;title\\x07b"));
    assert_eq!(s.model.header(s.now).malformed, 1);
}

/// Traps of board management (260 is BMTrap) and congestion control: offsets as in `mad::notice`.
#[test]
fn traps_of_other_classes_name_who_asked_and_what_the_board_says() {
    let mut s = Session::fabric();
    let mut told = |class: MgmtClass, number: u16, details: &[u8]| {
        let mut bytes = [0; 64];
        bytes[0] = 0x82;
        bytes[4..6].copy_from_slice(&number.to_be_bytes());
        bytes[7] = 2;
        bytes[10..10 + details.len()].copy_from_slice(details);
        let mut mad = Mad::perf(Method::Trap, Notice::ID, 0, 1);
        mad.set_class(class);
        mad.set_data(&Notice::from_bytes(&bytes).unwrap());
        s.receive(mad);
        let text = s.texts().last().copied().unwrap_or_default().to_owned();
        (text, s.model.log().back().and_then(|l| l.about))
    };
    let leaf = Some(key(SWITCH, 0));
    // LID 3, Get, attribute 0x11, modifier 7, QP 0x48, the key.
    let key = [0x5e; 8];
    let asked = [0, 3, 1, 0, 0, 0x11, 0, 0, 0, 7, 0, 0, 0, 0x48];
    let (text, about) = told(MgmtClass::BoardMgt, 259, &[&asked[..], &key].concat());
    assert_eq!(
        text,
        "notice 259: bad B_Key at leaf (LID 2) from node7 mlx5_0[1] (LID 3) QP 0x48: Get(attribute \
         0x0011) \
         modifier 0x7"
    );
    assert_eq!(about, leaf);
    // Two more bytes before the modifier.
    let asked = [0, 3, 2, 0, 0, 0x17, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0x48];
    let (text, _) = told(MgmtClass::CongCtrl, 0, &[&asked[..], &key].concat());
    assert_eq!(
        text,
        "notice 0: bad CC_Key at leaf (LID 2) from node7 mlx5_0[1] (LID 3) QP 0x48: Set(attribute \
         0x0017) \
         modifier 0x7"
    );
    // BMTrap: three bytes of data of a chassis.
    let (text, about) = told(
        MgmtClass::BoardMgt,
        260,
        &[3, 4, 0, 1, 2, 0xde, 0xad, 0xbe, 0xff],
    );
    assert_eq!(
        text,
        "notice 260: board management of leaf (LID 2): CME (chassis) modifier 0x102: deadbe"
    );
    assert_eq!(about, leaf);
    // 259 of subnet management is something else, and 128 of board management nothing known.
    let (text, _) = told(MgmtClass::BoardMgt, 128, &[0, 2]);
    assert_eq!(text, "notice 128: trap 128 from leaf (LID 2)");
    assert!(!s.texts().iter().any(|t| t.contains("5e5e")));
}

#[test]
fn traps_of_classes_that_are_not_ours_are_left_alone() {
    let mut s = Session::fabric();
    let mut mad = Mad::perf(Method::Trap, Notice::ID, 0, 1);
    mad.set_class(MgmtClass::new(0x0A));
    s.receive(mad);
    assert_eq!(s.texts().len(), 1);
}
