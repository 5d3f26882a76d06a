//! Subnet management: bytes, directed routes, statuses, keys.

use super::*;
use crate::fabric::{LinkSpeed, NodeId, NodeKind};
use crate::mad::{
    LinearForwardingTable, LinkSpeedExt, LinkWidth, MgmtClass, MlnxExtPortInfo, MlnxSpeeds,
    NodeDescription, NodeInfo, PortCaps, PortInfo, PortInfoExtended, PortState, SmInfo, Status,
    SwitchInfo,
};
use crate::sim::device::Generation;
use std::time::Duration;

/// A switch with two hosts, written by hand; the second link is FDR10.
fn small() -> Fabric {
    let mut fabric = Fabric::new("small");
    let sw = fabric.add(NodeSpec::new(
        NodeKind::Switch,
        0x0002_c903_0000_00a0,
        "sw",
        Generation::Fdr,
        4,
    ));
    let a = fabric.add(NodeSpec::new(
        NodeKind::Ca,
        0x0002_c903_0000_00b0,
        "a HCA-1",
        Generation::Fdr,
        2,
    ));
    let b = fabric.add(NodeSpec::new(
        NodeKind::Ca,
        0x0002_c903_0000_00c0,
        "b HCA-1",
        Generation::Fdr,
        1,
    ));
    fabric.connect((a, 1), (sw, 1)).unwrap();
    fabric.connect((b, 1), (sw, 3)).unwrap();
    fabric.set_link((b, 1), crate::mad::LinkWidth::X4, LinkSpeed::Fdr10);
    fabric.origin = Some((a, 1));
    fabric
}

#[test]
fn node_info_has_the_bytes_of_the_specification() {
    let mut client = Client::healthy(small());
    let reply = client.get(&[1], NodeInfo::ID, 0).unwrap();
    // Laid out by hand after the specification's table 14.2.5.3: a ConnectX-era switch with 4
    // ports, entered by port 1.
    let want: [u8; 40] = [
        1, 1, 2, 4, // versions, switch, ports
        0x00, 0x02, 0xc9, 0x03, 0x00, 0x00, 0x00, 0xa0, // system image GUID
        0x00, 0x02, 0xc9, 0x03, 0x00, 0x00, 0x00, 0xa0, // node GUID
        0x00, 0x02, 0xc9, 0x03, 0x00, 0x00, 0x00, 0xa0, // port GUID
        0x00, 0x20, 0xc7, 0x38, // partitions, device
        0x00, 0x00, 0x00, 0x00, // revision
        0x01, 0x00, 0x02, 0xc9, // local port, vendor
    ];
    assert_eq!(&reply.data()[..40], &want);
    let own: NodeInfo = client.read(&[], 0);
    assert_eq!(
        (own.port_guid(), own.local_port()),
        (0x0002_c903_0000_00b1, 1)
    );
}

#[test]
fn a_directed_reply_is_what_the_kernel_hands_up() {
    let mut client = Client::healthy(small());
    let reply = client.get(&[1, 3], NodeDescription::ID, 0).unwrap();
    let bytes = reply.bytes();
    // Method GetResp, status with the D bit alone, hop pointer 0, hop count 2.
    assert_eq!(&bytes[..8], &[1, 0x81, 1, 0x81, 0x80, 0, 0, 2]);
    // The return path holds the ports by which the way came in: the switch by 1, b by 1.
    assert_eq!(&bytes[128..131], &[0, 1, 3]);
    assert_eq!(&bytes[192..196], &[0, 1, 1, 0]);
    assert_eq!(&bytes[64..71], b"b HCA-1");
}

#[test]
fn a_route_that_leads_nowhere_gives_silence_until_the_timeout() {
    let mut client = Client::healthy(small());
    for path in [&[1, 2][..], &[1, 9], &[1, 3, 1], &[1, 0]] {
        let sent = client.now;
        assert!(client.get(path, NodeInfo::ID, 0).is_none(), "{path:?}");
        assert_eq!(client.now.since(sent), Duration::from_secs(1));
    }
    assert_eq!(client.port.in_flight(), 0);
}

#[test]
fn what_ibsim_would_return_at_once_can_be_had() {
    let options = SimOptions {
        undeliverable: Undeliverable::Returned,
        ..SimOptions::healthy()
    };
    let mut client = Client::new(small(), options);
    assert!(client.get(&[1, 2], NodeInfo::ID, 0).is_none());
    assert!(client.now < Stamp::from_millis(1));
}

#[test]
fn errors_are_those_of_the_specification() {
    let mut client = Client::healthy(small());
    let tid = client.tid();
    let unknown = Mad::smp_dr(Method::Get, 0x7777, 0, &[1], tid).unwrap();
    let reply = client.ask(Address::directed(), unknown).unwrap();
    assert_eq!(reply.status(), Status(0x000c));
    let tid = client.tid();
    let method = Mad::smp_dr(Method::new(0x04), NodeInfo::ID, 0, &[1], tid).unwrap();
    let reply = client.ask(Address::directed(), method).unwrap();
    assert_eq!(reply.status(), Status(0x0008));
    // Port 5 of a switch with 4.
    let reply = client.get(&[1], PortInfo::ID, 5).unwrap();
    assert_eq!(reply.status(), Status(0x001c));
    let tid = client.tid();
    let mut version = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], tid).unwrap();
    version.set_class_version(2);
    let reply = client.ask(Address::directed(), version).unwrap();
    assert_eq!(reply.status(), Status(0x0004));
    // No SM runs on b.
    let reply = client.get(&[1, 3], SwitchInfo::ID, 0).unwrap();
    assert_eq!(reply.status(), Status(0x000c));
}

#[test]
fn sends_that_the_kernel_refuses_are_refused() {
    let mut client = Client::healthy(small());
    let refused = |client: &mut Client, change: &dyn Fn(&mut Mad)| {
        let tid = client.tid();
        let mut mad = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], tid).unwrap();
        change(&mut mad);
        client.send(Address::directed(), mad).unwrap_err()
    };
    for change in [
        &(|m: &mut Mad| {
            m.set_hop_pointer(1);
        }) as &dyn Fn(&mut Mad),
        &|m| {
            m.set_hop_count(64);
        },
        // The first port of the route is not ours.
        &|m| m.bytes_mut()[129] = 2,
    ] {
        let error = refused(&mut client, change);
        assert!(error.to_string().contains("EINVAL"), "{error}");
    }
    let error = refused(&mut client, &|m| {
        m.set_class(MgmtClass::ComMgt);
    });
    assert!(matches!(error, PortError::NoAgent { class: 7, .. }));
    // The same transaction twice while the first is outstanding.
    let mad = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], 77).unwrap();
    client.send(Address::directed(), mad.clone()).unwrap();
    assert!(client.send(Address::directed(), mad.clone()).is_err());
    assert!(client.next().is_some());
    client.send(Address::directed(), mad).unwrap();
}

#[test]
fn port_info_says_width_and_speed_as_ports_do() {
    let mut client = Client::healthy(small());
    // Port 0 of a switch has the masks and the LID, the others have the links.
    let zero: PortInfo = client.read(&[1], 0);
    assert!(zero.cap_mask().has(PortCaps::EXT_SPEEDS));
    assert_ne!(zero.lid(), 0);
    let one: PortInfo = client.read(&[1], 1);
    assert_eq!((one.cap_mask(), one.lid()), (PortCaps(0), 0));
    assert_eq!(one.port_state(), PortState::Active);
    assert_eq!(one.link_speed_ext_active(), LinkSpeedExt::Fdr);
    assert_eq!(one.link_width_active(), LinkWidth::X4);
    assert_eq!(one.local_port(), 1);
    // An FDR10 link looks like QDR there; the vendor's attribute tells.
    let three: PortInfo = client.read(&[1], 3);
    assert_eq!(three.link_speed_ext_active(), LinkSpeedExt::None);
    assert_eq!(three.link_speed_active(), crate::mad::LinkSpeed::Qdr);
    let vendor: MlnxExtPortInfo = client.read(&[1], 3);
    assert_eq!(vendor.speed_active(), MlnxSpeeds::FDR10);
    // A port without a cable.
    let two: PortInfo = client.read(&[1], 2);
    assert_eq!((two.port_state().code(), two.phys_state().code()), (1, 2));
    // Asked by its own number, an adapter's port 0 is the port the MAD came in by.
    let own: PortInfo = client.read(&[], 0);
    assert_eq!(own.lid(), client.port.local(client.now).unwrap().lid);
    // An FDR switch has no PortInfoExtended.
    let reply = client.get(&[1], PortInfoExtended::ID, 1).unwrap();
    assert_eq!(reply.status(), Status(0x000c));
}

#[test]
fn forwarding_tables_lead_to_the_lids_they_are_asked_for() {
    let mut client = Client::healthy(small());
    let table: LinearForwardingTable = client.read(&[1], 0);
    let zero: PortInfo = client.read(&[1], 0);
    let a: PortInfo = client.read(&[], 1);
    let b: PortInfo = client.read(&[1, 3], 1);
    let ports = table.ports();
    assert_eq!(ports[usize::from(zero.lid())], 0);
    assert_eq!(ports[usize::from(a.lid())], 1);
    assert_eq!(ports[usize::from(b.lid())], 3);
    assert_eq!(ports[0], 255);
    let info: SwitchInfo = client.read(&[1], 0);
    assert_eq!(info.linear_fdb_top(), zero.lid().max(a.lid()).max(b.lid()));
    // No table beyond the last unicast LID.
    let reply = client.get(&[1], LinearForwardingTable::ID, 768).unwrap();
    assert_eq!(reply.status(), Status(0x001c));
}

#[test]
fn a_protected_node_answers_only_with_its_key() {
    let mut client = Client::healthy(small());
    let b = NodeId::new(0x0002_c903_0000_00c0);
    let protect = |bits| Action::Protect {
        node: b,
        m_key: 0x1234,
        bits,
    };
    client.port.act(client.now, protect(1));
    let info: PortInfo = client.read(&[1, 3], 1);
    assert_eq!((info.m_key(), info.m_key_protect()), (0, 1));
    client.port.act(client.now, protect(2));
    assert!(client.get(&[1, 3], NodeInfo::ID, 0).is_none());
    let tid = client.tid();
    let mut mad = Mad::smp_dr(Method::Get, PortInfo::ID, 1, &[1, 3], tid).unwrap();
    mad.set_m_key(0x1234);
    let reply = client.ask(Address::directed(), mad).unwrap();
    let info = PortInfo::parse(&reply.view()).unwrap();
    assert_eq!((info.m_key(), info.m_key_violations()), (0x1234, 1));
}

/// Spec 14.2.4: what each level protects, the violations counter, trap 256 and the lease.
#[test]
fn m_keys_protect_by_level_count_violations_and_end_with_their_lease() {
    use crate::mad::notice::{self, Trap};
    let mut client = Client::healthy(small());
    let b = NodeId::new(0x0002_c903_0000_00c0);
    client.subscribe(true);
    let set = |client: &mut Client, bits| {
        let action = Action::Protect {
            node: b,
            m_key: 0x1234,
            bits,
        };
        client.port.act(client.now, action);
    };
    let ask = |client: &mut Client, method, key| {
        let tid = client.tid();
        let mut mad = Mad::smp_dr(method, PortInfo::ID, 1, &[1, 3], tid).unwrap();
        mad.set_m_key(key);
        let reply = client.ask(Address::directed(), mad);
        reply.map(|r| PortInfo::parse(&r.view()).unwrap())
    };
    // Level 0: a Get succeeds and shows the key; 1: it succeeds and hides it; a Set without the
    // key fails at both. 2 and 3: nothing succeeds without it.
    for (bits, shown) in [(0, Some(0x1234)), (1, Some(0)), (2, None), (3, None)] {
        set(&mut client, bits);
        let got = ask(&mut client, Method::Get, 0);
        assert_eq!(got.map(|info| info.m_key()), shown, "level {bits}");
        let before = ask(&mut client, Method::Get, 0x1234).unwrap();
        assert!(ask(&mut client, Method::Set, 0).is_none(), "level {bits}");
        let after = ask(&mut client, Method::Get, 0x1234).unwrap();
        assert_eq!(
            after.m_key_violations(),
            before.m_key_violations() + 1,
            "level {bits}"
        );
        assert_eq!((after.m_key(), after.m_key_protect()), (0x1234, bits));
    }
    // Each violation was told to the SM: what was asked, and by which way.
    let traps: Vec<Trap> = client
        .unasked
        .iter()
        .filter_map(|mad| notice::Received::parse(&mad.view()).ok())
        .map(|got| got.trap())
        .collect();
    assert!(
        traps.iter().any(|trap| matches!(trap,
        Trap::BadMKey { attr_id: PortInfo::ID, attr_mod: 1, hops: 2, truncated: false,
            dr_slid: 0xFFFF, method: Method::Get, return_path, .. }
            if return_path[..2] == [1, 1])),
        "{traps:?}"
    );
    // The lease runs from a wrong key to its end, unless the right one comes.
    let lease = Action::Lease {
        node: b,
        seconds: 10,
    };
    client.port.act(client.now, lease);
    let wait = |client: &mut Client, secs| {
        client.wait(client.now + std::time::Duration::from_secs(secs));
    };
    assert!(ask(&mut client, Method::Get, 7).is_none());
    wait(&mut client, 5);
    assert!(ask(&mut client, Method::Get, 0x1234).is_some());
    wait(&mut client, 20);
    let still = ask(&mut client, Method::Get, 0);
    assert!(still.is_none(), "the right key stopped the countdown");
    wait(&mut client, 11);
    let info = ask(&mut client, Method::Get, 0).unwrap();
    assert_eq!((info.m_key_protect(), info.m_key_lease_period()), (0, 10));
}

#[test]
fn the_sm_says_that_it_lives() {
    let mut client = Client::healthy(default_fabric());
    let local = client.port.local(Stamp::ZERO).unwrap();
    assert_eq!(local.sm_lid, client.lid_of("mgmt1", 1));
    let read = |client: &mut Client, lid| {
        let tid = client.tid();
        let mad = Mad::smp_lid(Method::Get, SmInfo::ID, 0, tid);
        let reply = client.ask(Address::smp(lid), mad).unwrap();
        SmInfo::parse(&reply.view()).unwrap()
    };
    let first = read(&mut client, local.sm_lid);
    assert_eq!(first.state().code(), 3);
    client.wait(Stamp::from_secs(10));
    assert!(read(&mut client, local.sm_lid).act_count() > first.act_count());
    let lid = client.lid_of("mgmt2", 1);
    assert_eq!(read(&mut client, lid).state().code(), 2);
}

#[test]
fn without_an_sm_there_are_no_lids_and_directed_routes_still_work() {
    let options = SimOptions {
        sm: SmAt::Nowhere,
        ..SimOptions::healthy()
    };
    let mut client = Client::new(small(), options);
    let local = client.port.local(Stamp::ZERO).unwrap();
    assert_eq!((local.lid, local.sm_lid, local.state), (0, 0, 2));
    let info: PortInfo = client.read(&[1, 3], 1);
    assert_eq!((info.lid(), info.port_state()), (0, PortState::Init));
}

#[test]
fn latency_is_the_way_and_the_work_and_one_processor_does_one_thing_at_a_time() {
    let options = SimOptions {
        hop: Duration::from_micros(50),
        node: Duration::from_micros(10),
        jitter: 0.0,
        ..SimOptions::healthy()
    };
    let mut client = Client::new(small(), options);
    let _: NodeInfo = client.read(&[1, 3], 0);
    // Two links there, two back, 10 µs at the node.
    assert_eq!(client.now, Stamp(210_000));
    for tid in 100..103 {
        let mad = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], tid).unwrap();
        client.send(Address::directed(), mad).unwrap();
    }
    let start = client.now;
    let mut times = Vec::new();
    while let Some(Arrival::Mad { .. }) = client.next() {
        times.push(client.now.since(start).as_micros());
    }
    assert_eq!(times, [110, 120, 130]);
}

#[test]
fn the_same_seed_gives_the_same_arrivals_and_another_one_others() {
    let run = |seed| {
        let options = SimOptions {
            seed,
            loss: 0.1,
            ..SimOptions::default()
        };
        let mut client = Client::new(default_fabric(), options);
        let mut log = Vec::new();
        for tid in 0..200u64 {
            let lid = 1 + (tid % 70) as u16;
            let mad = Mad::smp_lid(Method::Get, NodeInfo::ID, 0, tid);
            client.send(Address::smp(lid), mad).unwrap();
        }
        while client.port.in_flight() > 0 {
            let arrival = client.next().unwrap();
            log.push((client.now, format!("{arrival:?}")));
        }
        log
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn an_xdr_link_shows_in_the_second_extended_fields_alone() {
    let mut fabric = Fabric::new("xdr");
    let host = NodeSpec::new(NodeKind::Ca, 0x10, "x", Generation::Xdr, 1);
    let a = fabric.add(host);
    let switch = NodeSpec::new(NodeKind::Switch, 0x100, "y", Generation::Xdr, 2);
    let b = fabric.add(switch);
    fabric.connect((a, 1), (b, 2)).unwrap();
    let mut client = Client::healthy(fabric);
    let info: PortInfo = client.read(&[], 1);
    // CapabilityMask2 bits 0x800 and 0x1000; LinkSpeedExtActive2 is bits 5 and 6 of byte 56.
    assert_eq!(info.cap_mask2().0 & 0x1800, 0x1800);
    assert_eq!(info.bytes()[56] >> 5 & 3, 1);
    assert_eq!(info.link_speed_ext_active(), LinkSpeedExt::None);
    let far: PortInfo = client.read(&[1], 2);
    assert_eq!(far.bytes()[56] >> 5 & 3, 1);
}

#[test]
fn a_subnet_of_twelve_thousand_nodes_is_routed_from_end_to_end() {
    // 240 leaves of 50 hosts, 160 spines: 12,400 nodes, 2 * (12,000 + 38,400) port ends.
    let fabric = fat_tree(240, 50, 160, 1);
    assert_eq!(fabric.connected_ends(), 100_800);
    let last = fabric.id(11_999).unwrap().port(1);
    let mut client = Client::healthy(fabric);
    let lid = client.port.lid(last);
    let tid = client.tid();
    let mad = Mad::smp_lid(Method::Get, NodeDescription::ID, 0, tid);
    let reply = client.ask(Address::smp(lid), mad).unwrap();
    assert_eq!(&reply.data()[..16], b"node11999 mlx5_0");
}
