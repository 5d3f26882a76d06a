//! Things that go wrong on purpose.

use super::*;
use crate::fabric::{LinkSpeed, NodeId, PortKey};
use crate::mad::{
    InformInfoRecord, LinkWidth, NodeDescription, NodeInfo, PortCounters, PortInfo, SmInfo, Status,
    SwitchInfo,
};
use std::time::Duration;

fn key(name: &str, port: u8) -> PortKey {
    default_fabric().key(name, port).unwrap()
}

fn ask_smp(client: &mut Client, lid: u16, id: u16, modifier: u32) -> Option<Mad> {
    let tid = client.tid();
    client.ask(
        Address::smp(lid),
        Mad::smp_lid(Method::Get, id, modifier, tid),
    )
}

#[test]
fn the_default_faults_are_where_they_are_documented() {
    let client = Client::new(default_fabric(), SimOptions::default());
    let faults = client.port.default_faults();
    assert_eq!(faults.dead, Some(key("cn013", 1).node));
    assert_eq!(faults.narrow, Some(key("cn025", 1)));
    assert_eq!(faults.flapping, Some(key("gpu09", 1)));
    assert_eq!(faults.slow, Some(key("cn028", 1).node));
    assert_eq!(faults.noisy, Some(key("leaf01", 34)));
}

#[test]
fn the_default_faults_show() {
    let mut client = Client::new(default_fabric(), SimOptions::default());
    let dead = client.lid_of("cn013", 1);
    assert!(ask_smp(&mut client, dead, NodeInfo::ID, 0).is_none());
    let narrow = client.lid_of("cn025", 1);
    let reply = ask_smp(&mut client, narrow, PortInfo::ID, 1).unwrap();
    let info = PortInfo::parse(&reply.view()).unwrap();
    assert_eq!(info.link_width_active(), LinkWidth::X1);
    assert!(info.link_width_supported().0 & 2 != 0);
    let slow = client.lid_of("cn028", 1);
    let before = client.now;
    ask_smp(&mut client, slow, NodeInfo::ID, 0).unwrap();
    assert!(client.now.since(before) > Duration::from_millis(150));
    let leaf = client.lid_of("leaf01", 0);
    let first: PortCounters = client.count(leaf, 34);
    client.wait(client.now + Duration::from_secs(10));
    let then: PortCounters = client.count(leaf, 34);
    // 25 a second for 10 seconds.
    assert!((249..=251).contains(&(then.symbol_error() - first.symbol_error())));
    // The flapping host: its leaf port goes down at 20 s and comes back 5 s later.
    let leaf = client.lid_of("leaf06", 0);
    let state = |client: &mut Client, at| {
        client.wait(Stamp::from_secs(at));
        let reply = ask_smp(client, leaf, PortInfo::ID, 1).unwrap();
        PortInfo::parse(&reply.view()).unwrap().port_state().code()
    };
    assert_eq!(
        [19, 21, 26, 66].map(|at| state(&mut client, at)),
        [4, 1, 4, 1]
    );
    let counters: PortCounters = client.count(leaf, 1);
    assert_eq!(counters.link_downed(), 2);
}

#[test]
fn a_lost_link_is_down_at_both_ends_and_the_switch_says_that_something_changed() {
    let mut client = Client::healthy(default_fabric());
    let leaf = client.lid_of("leaf01", 0);
    client
        .port
        .act(client.now, Action::LinkDown(key("leaf01", 33)));
    let changed = |client: &mut Client| {
        let reply = ask_smp(client, leaf, SwitchInfo::ID, 0).unwrap();
        SwitchInfo::parse(&reply.view())
            .unwrap()
            .port_state_change()
    };
    assert!(changed(&mut client));
    client.wait(Stamp::from_millis(200));
    // The SM has swept and routes around it.
    assert!(!changed(&mut client));
    for name in ["leaf02", "cn020", "old1", "spine01"] {
        let port = u8::from(!name.starts_with(['l', 's']));
        let lid = client.lid_of(name, port);
        assert!(
            ask_smp(&mut client, lid, NodeInfo::ID, 0).is_some(),
            "{name}"
        );
    }
    let spine = client.lid_of("spine01", 0);
    let reply = ask_smp(&mut client, spine, PortInfo::ID, 1).unwrap();
    let info = PortInfo::parse(&reply.view()).unwrap();
    assert_eq!((info.port_state().code(), info.phys_state().code()), (1, 2));
}

#[test]
fn busy_and_dropping_nodes_do_so_at_their_share() {
    let mut client = Client::healthy(default_fabric());
    let node = key("cn001", 1).node;
    let lid = client.lid_of("cn001", 1);
    client
        .port
        .act(client.now, Action::Busy { node, share: 1.0 });
    let reply = ask_smp(&mut client, lid, NodeInfo::ID, 0).unwrap();
    assert_eq!(reply.status(), Status::BUSY);
    client
        .port
        .act(client.now, Action::Busy { node, share: 0.0 });
    client
        .port
        .act(client.now, Action::Drop { node, share: 0.5 });
    let lost = (0..200)
        .filter(|_| ask_smp(&mut client, lid, NodeInfo::ID, 0).is_none())
        .count();
    assert!((60..140).contains(&lost), "{lost} of 200 lost at one half");
}

#[test]
fn width_speed_description_and_lid_change_as_told() {
    let mut client = Client::healthy(default_fabric());
    let port = key("cn003", 1);
    let lid = client.lid_of("cn003", 1);
    for action in [
        Action::Width {
            port,
            width: LinkWidth::X2,
        },
        Action::Speed {
            port,
            speed: LinkSpeed::Edr,
        },
        Action::Describe {
            node: port.node,
            description: b"\x1b[31mred".to_vec(),
        },
        Action::SetLid { port, lid: 4711 },
    ] {
        client.port.act(client.now, action);
    }
    assert!(ask_smp(&mut client, lid, NodeInfo::ID, 0).is_none());
    let reply = ask_smp(&mut client, 4711, PortInfo::ID, 1).unwrap();
    let info = PortInfo::parse(&reply.view()).unwrap();
    assert_eq!(info.link_width_active(), LinkWidth::X2);
    assert_eq!((info.link_speed_ext_active().code(), info.lid()), (2, 4711));
    let reply = ask_smp(&mut client, 4711, NodeDescription::ID, 0).unwrap();
    assert_eq!(&reply.data()[..9], b"\x1b[31mred\0");
}

#[test]
fn a_replaced_node_has_other_guids_and_counters_from_zero() {
    let mut client = Client::healthy(default_fabric());
    let old = key("cn004", 1);
    client.port.act(
        client.now,
        Action::Replace {
            node: old.node,
            guid: 0x77_0000,
        },
    );
    client.wait(Stamp::from_millis(200));
    // Still at port 6 of leaf01, which is ours too.
    let info: NodeInfo = client.read(&[1, 6], 0);
    assert_eq!((info.node_guid(), info.port_guid()), (0x77_0000, 0x77_0001));
    let port: PortInfo = client.read(&[1, 6], 1);
    assert_eq!(port.port_state().code(), 4);
    assert!(client.port.lid(NodeId::new(0x77_0000).port(1)) == port.lid());
    let counters: crate::mad::PortCountersExtended = client.count(port.lid(), 1);
    // A fifth of a second's traffic at most, not weeks of it: 4x HDR carries 6.25e9 words/s.
    assert!(counters.rcv_data() < 1_250_000_000, "{counters:?}");
}

#[test]
fn after_a_failover_the_standby_is_master_and_knows_no_subscription() {
    let mut client = Client::healthy(default_fabric());
    client.subscribe(true);
    client.port.act(client.now, Action::SmFailover);
    let standby = client.lid_of("mgmt2", 1);
    assert_eq!(client.port.local(client.now).unwrap().sm_lid, standby);
    let reply = ask_smp(&mut client, standby, SmInfo::ID, 0).unwrap();
    assert_eq!(SmInfo::parse(&reply.view()).unwrap().state().code(), 3);
    let tid = client.tid();
    let query = Mad::sa(Method::GetTable, InformInfoRecord::ID, 0, 0, tid);
    let reply = client.ask(Address::gmp(standby, 0, 0), query).unwrap();
    assert_eq!(reply.len(), 56);
}

#[test]
fn a_restarted_sm_counts_again_and_a_hung_one_stands_still() {
    let mut client = Client::healthy(default_fabric());
    let lid = client.lid_of("mgmt1", 1);
    let count = |client: &mut Client| {
        let reply = ask_smp(client, lid, SmInfo::ID, 0).unwrap();
        SmInfo::parse(&reply.view()).unwrap().act_count()
    };
    client.wait(Stamp::from_secs(100));
    let before = count(&mut client);
    client.port.act(client.now, Action::SmRestart);
    assert!(count(&mut client) < before);
    client.port.act(client.now, Action::SmHang);
    let hung = count(&mut client);
    client.wait(Stamp::from_secs(200));
    assert_eq!(count(&mut client), hung);
    let tid = client.tid();
    let query = Mad::sa(Method::GetTable, InformInfoRecord::ID, 0, 0, tid);
    assert!(client.ask(Address::gmp(lid, 0, 0), query).is_none());
}

#[test]
fn a_flood_of_traps_arrives_at_its_rate() {
    let mut client = Client::healthy(default_fabric());
    client.subscribe(true);
    let before = client.now;
    client.port.act(
        client.now,
        Action::TrapFlood {
            port: key("leaf02", 5),
            trap: 129,
            per_second: 10_000,
            count: 5_000,
        },
    );
    client.wait(before + Duration::from_millis(400));
    let notices = client.notices();
    assert!((3990..=4010).contains(&notices.len()), "{}", notices.len());
    let leaf = client.lid_of("leaf02", 0).to_be_bytes();
    // LID and port of trap 129 stand at bytes 12 and 14 of the notice.
    assert_eq!(notices[0].details()[2..5], [leaf[0], leaf[1], 5]);
}

#[test]
fn a_removed_device_is_gone_until_it_is_back() {
    let mut client = Client::healthy(default_fabric());
    let mad = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], 5).unwrap();
    client.send(Address::directed(), mad.clone()).unwrap();
    client.port.act(client.now, Action::DeviceGone);
    client
        .port
        .run_script(Script::new().at(Stamp::from_secs(5), Action::DeviceBack));
    assert!(matches!(
        client.port.recv(Stamp::from_secs(1)),
        Err(PortError::Gone { .. })
    ));
    assert!(client.send(Address::directed(), mad.clone()).is_err());
    assert!(client.port.reopen().is_err());
    assert!(client.port.local(Stamp::from_secs(6)).is_err());
    client.port.reopen().unwrap();
    client.now = Stamp::from_secs(6);
    assert_eq!(client.port.in_flight(), 0);
    assert!(client.ask(Address::directed(), mad).is_some());
}

#[test]
fn a_powered_off_host_leaves_its_leaf_port_down() {
    let mut client = Client::healthy(default_fabric());
    let node = key("mds1", 1).node;
    client.port.act(client.now, Action::PowerOff(node));
    for (leaf, port) in [("leaf03", 1), ("leaf01", 9)] {
        let lid = client.lid_of(leaf, 0);
        let reply = ask_smp(&mut client, lid, PortInfo::ID, port).unwrap();
        let info = PortInfo::parse(&reply.view()).unwrap();
        assert_eq!(info.port_state().code(), 1);
    }
    client.port.act(client.now, Action::PowerOn(node));
    client.wait(client.now + Duration::from_secs(1));
    let lid = client.lid_of("mds1", 2);
    assert!(ask_smp(&mut client, lid, NodeInfo::ID, 0).is_some());
}

#[test]
fn a_handle_acts_while_another_holds_the_port() {
    let mut client = Client::healthy(default_fabric());
    let control = client.port.control();
    let lid = client.lid_of("cn001", 1);
    assert!(ask_smp(&mut client, lid, NodeInfo::ID, 0).is_some());
    std::thread::spawn(move || control.act(Action::Kill(key("cn001", 1).node)))
        .join()
        .unwrap();
    assert!(ask_smp(&mut client, lid, NodeInfo::ID, 0).is_none());
}
