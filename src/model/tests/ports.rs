//! Ports, links and flags.

use super::*;
use crate::fabric::LinkSpeed as Speed;
use crate::mad::{MlnxExtPortInfo, MlnxSpeeds};

/// Field report 3: a switch's last ports were lost.
#[test]
fn field_report_03_there_are_as_many_rows_as_ports_the_last_included() {
    let s = Session::fabric();
    let rows = s.model.ports(s.now);
    let got: Vec<_> = rows.iter().map(|r| r.key).collect();
    let want = [
        key(LOCAL, 1),
        key(HOST, 1),
        key(SWITCH, 1),
        key(SWITCH, 2),
        key(SWITCH, 3),
    ];
    assert_eq!(got, want);
    assert_eq!(rows[4].state, Some(1));
}

#[test]
fn enhanced_port_0_is_a_row_and_base_port_0_is_none() {
    let mut s = Session::fabric();
    assert!(!s.model.ports(s.now).iter().any(|r| r.key == key(SWITCH, 0)));
    let mut info = SwitchInfo::new();
    info.set_enhanced_port0(true);
    let ask = Mad::smp_lid(Method::Get, SwitchInfo::ID, 0, 0);
    s.exchange(Target::node(NodeId::new(SWITCH), 1), ask, &info);
    assert!(s.model.ports(s.now).iter().any(|r| r.key == key(SWITCH, 0)));
}

/// Field report 6: "(FDR10)" broke a parser.
#[test]
fn an_fdr10_link_is_decoded() {
    let mut s = Session::fabric();
    let mut info = edr(3);
    info.set_cap_mask(PortCaps(0))
        .set_link_speed_active(LinkSpeed::Qdr);
    s.port_info(key(HOST, 1), &info);
    let row = s.model.port(key(HOST, 1), s.now).unwrap();
    assert_eq!(row.speed, Some(Speed::Qdr));
    let mut vendor = MlnxExtPortInfo::new();
    vendor.set_speed_active(MlnxSpeeds::FDR10);
    let ask = Mad::smp_lid(Method::Get, MlnxExtPortInfo::ID, 1, 0);
    s.exchange(Target::port(key(HOST, 1), 1), ask, &vendor);
    let row = s.model.port(key(HOST, 1), s.now).unwrap();
    assert_eq!(row.speed, Some(Speed::Fdr10));
    assert_eq!(row.speed.unwrap().to_string(), "FDR10");
}

/// Field report 10: a pulled cable made the port's row vanish.
#[test]
fn field_report_10_a_pulled_cable_leaves_the_row_down_and_an_event_says_when() {
    let mut s = Session::fabric();
    s.at(12.5).port_info(key(SWITCH, 2), &down());
    let row = s.model.port(key(SWITCH, 2), s.now).unwrap();
    assert_eq!((row.state, row.width, row.speed), (Some(1), None, None));
    assert!(row.flags.down);
    let peer = row.peer.unwrap();
    assert_eq!(
        (peer.key, peer.name, peer.former),
        (key(HOST, 1), "node7 mlx5_0", true)
    );
    // A port that never had a link is down without being worth a look.
    assert!(!s.model.port(key(SWITCH, 3), s.now).unwrap().flags.any());
    // The host behind it cannot be reached; its row stays too.
    let host = s.model.port(key(HOST, 1), s.now).unwrap();
    assert!(host.flags.unreachable);
    let lines: Vec<_> = s
        .model
        .log()
        .iter()
        .skip(1)
        .map(|l| (l.first, l.text.as_str()))
        .collect();
    let at = Stamp::from_millis(12_500);
    assert_eq!(
        lines,
        [
            (at, "leaf[2]: Active -> Down"),
            (at, "link lost: leaf[2] - node7 mlx5_0[1]"),
            (at, "node7 mlx5_0 cannot be reached any more"),
        ]
    );
    assert_eq!(s.model.header(s.now).size.missing, 1);
}

#[test]
fn garbage_of_a_port_that_is_down_is_not_shown() {
    let s = Session::fabric();
    let row = s.model.port(key(SWITCH, 3), s.now).unwrap();
    assert_eq!((row.width, row.speed), (None, None));
    let detail = s.model.detail(key(SWITCH, 3), s.now).unwrap();
    let names: Vec<_> = detail.near.port_info.iter().map(|f| f.0).collect();
    assert_eq!(
        names,
        ["PortState", "PortPhysicalState", "LinkDownDefaultState"]
    );
    assert!(detail.far.is_none());
}

/// Field report 21: "could be faster" was flagged by the port's own capability mask.
#[test]
fn field_report_21_the_masks_of_port_0_decide_what_a_switch_port_could_do() {
    let mut s = Session::fabric();
    // External ports carry no masks of their own. Both ends do EDR, the link runs FDR.
    for port in 1..=2 {
        let mut info = edr(0);
        info.set_cap_mask(PortCaps(0));
        s.port_info(key(SWITCH, port), &info);
    }
    let below = |s: &Session, k| s.model.port(k, s.now).unwrap().flags.below_best;
    assert!(!below(&s, key(SWITCH, 2)));
    assert_eq!(
        s.model.port(key(SWITCH, 2), s.now).unwrap().speed,
        Some(Speed::Edr)
    );
    let mut fdr = edr(0);
    fdr.set_cap_mask(PortCaps(0))
        .set_link_speed_ext_active(LinkSpeedExt::Fdr);
    s.port_info(key(SWITCH, 2), &fdr);
    assert!(below(&s, key(SWITCH, 2)));
    // Port 0 says that this switch knows no extended speeds: QDR is its best.
    let mut old = edr(2);
    old.set_cap_mask(PortCaps(0));
    s.port_info(key(SWITCH, 0), &old);
    assert!(!below(&s, key(SWITCH, 2)));
    assert!(!below(&s, key(SWITCH, 1)));
}

#[test]
fn a_link_narrower_than_both_ends_is_below_its_best() {
    let mut s = Session::fabric();
    let mut narrow = edr(3);
    narrow.set_link_width_active(LinkWidth::X1);
    s.port_info(key(HOST, 1), &narrow);
    assert!(s.model.port(key(HOST, 1), s.now).unwrap().flags.below_best);
    // An adapter that can do no more is at its best.
    narrow.set_link_width_supported(LinkWidths(1));
    s.port_info(key(HOST, 1), &narrow);
    assert!(!s.model.port(key(HOST, 1), s.now).unwrap().flags.below_best);
}

/// Field report 19: a timeout in mid-discovery crashed the tool.
#[test]
fn field_report_19_a_partial_fabric_is_shown_as_partial() {
    let mut s = Session::new();
    s.discovery(1, |s| {
        s.appear(None, LOCAL, NodeType::Ca, 1, 1, "login1 mlx5_0");
        s.port_info(key(LOCAL, 1), &edr(1));
        s.appear(Some(key(LOCAL, 1)), SWITCH, NodeType::Switch, 3, 1, "leaf");
        let ask = Mad::smp_lid(Method::Get, PortInfo::ID, 2, 0);
        s.silence(Target::port(key(SWITCH, 2), 1), ask, 3, true);
    });
    let row = s.model.port(key(SWITCH, 2), s.now).unwrap();
    assert_eq!((row.state, row.age), (None, None));
    assert!(row.flags.no_answer);
    for report in [
        crate::report::ports,
        crate::report::nodes,
        crate::report::timeouts,
    ] {
        let text = report(&s.model, s.now, crate::report::Format::Text);
        assert!(text.contains("leaf"), "{text}");
    }
}

#[test]
fn a_port_in_init_is_up_and_not_active() {
    let mut s = Session::fabric();
    let mut info = edr(3);
    info.set_port_state(PortState::Init);
    s.port_info(key(HOST, 1), &info);
    let flags = s.model.port(key(HOST, 1), s.now).unwrap().flags;
    assert!(flags.not_active && !flags.down);
}

#[test]
fn size_counts_each_link_once() {
    let s = Session::fabric();
    let size = s.model.header(s.now).size;
    assert_eq!((size.switches, size.cas, size.links), (1, 2, 2));
    assert_eq!((size.ports, size.connected, size.missing), (5, 4, 0));
}

/// A switch with a random forwarding table says so by LinearFDBCap 0 (bytes 0 and 1 of
/// SwitchInfo) and RandomFDBCap above 0 (2 and 3).
#[test]
fn a_switch_with_a_random_forwarding_table_says_that_it_is_not_shown() {
    let mut s = Session::fabric();
    let mut bytes = [0; SwitchInfo::LEN];
    bytes[2..4].copy_from_slice(&[0x0c, 0x00]);
    let info = SwitchInfo::from_bytes(&bytes).unwrap();
    let ask = Mad::smp_lid(Method::Get, SwitchInfo::ID, 0, 0);
    s.exchange(Target::node(NodeId::new(SWITCH), 1), ask, &info);
    let name = s.model.name(NodeId::new(SWITCH)).to_owned();
    let told = format!("{name} uses a random forwarding table (of 3072 entries): it is not shown");
    let routes = s.model.routes(NodeId::new(SWITCH), s.now).unwrap();
    assert_eq!(routes.note.as_ref(), Some(&told));
    let uses = s.model.uses(key(SWITCH, 2), s.now).unwrap();
    assert_eq!(uses.note.as_ref(), Some(&told));
    let path = s.model.path(key(HOST, 1), 0x77, s.now);
    assert_eq!((path.arrives, path.end), (false, told));
}
