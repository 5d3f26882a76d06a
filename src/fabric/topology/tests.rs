use super::*;
use crate::fabric::Target;
use crate::mad::{Method, NodeType, PortState};

const HOST: NodeId = NodeId::new(0xA);
const LEAF: NodeId = NodeId::new(0xB);
const SPINE: NodeId = NodeId::new(0xC);
const FAR: NodeId = NodeId::new(0xD);

/// What a node is, and how many ports it has.
const SWITCH: (NodeType, u8) = (NodeType::Switch, 3);
const ADAPTER: (NodeType, u8) = (NodeType::Ca, 1);

/// Asks and answers NodeInfo along `path`, as discovery does: `at` is who answers, and the port
/// by which the question came in.
fn node_info(
    t: &mut Topology,
    at: PortKey,
    (kind, ports): (NodeType, u8),
    path: &[u8],
    via: Option<PortKey>,
) -> Changes {
    let (id, entry) = (at.node, at.port);
    let request = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, path, 1).unwrap();
    let mut info = NodeInfo::new();
    info.set_node_guid(id.guid.0)
        .set_port_guid(id.guid.0 + 0x100)
        .set_node_type(kind)
        .set_num_ports(ports)
        .set_local_port(entry);
    let reply = Mad::reply(&request.view(), &info);
    let target = Target {
        via,
        generation: t.generation(),
        ..Target::default()
    };
    t.learn(&Request::of(&request, 0xFFFF, target), &reply)
}

fn port_info(t: &mut Topology, key: PortKey, state: PortState, lid: u16) -> Changes {
    let request = Mad::smp_lid(Method::Get, PortInfo::ID, u32::from(key.port), 1);
    let mut info = PortInfo::new();
    info.set_port_state(state).set_lid(lid);
    let reply = Mad::reply(&request.view(), &info);
    let target = Target::port(key, t.generation());
    t.learn(&Request::of(&request, 1, target), &reply)
}

/// HOST[1] - LEAF[1], LEAF[2] - SPINE[1], as each discovery meets them.
fn near(t: &mut Topology) {
    node_info(t, HOST.port(1), ADAPTER, &[], None);
    node_info(t, LEAF.port(1), SWITCH, &[1], Some(HOST.port(1)));
    node_info(t, SPINE.port(1), SWITCH, &[1, 2], Some(LEAF.port(2)));
}

/// FAR[1] behind SPINE[3].
fn far(t: &mut Topology) -> Changes {
    let via = Some(SPINE.port(3));
    node_info(t, FAR.port(1), ADAPTER, &[1, 2, 3], via)
}

/// HOST[1] - LEAF[1], LEAF[2] - SPINE[1], LEAF[3] - SPINE[2], SPINE[3] - FAR[1].
fn small() -> Topology {
    let mut t = Topology::new();
    t.discovery_began(1);
    near(&mut t);
    let via = Some(LEAF.port(3));
    node_info(&mut t, SPINE.port(2), SWITCH, &[1, 3], via);
    far(&mut t);
    t
}

#[test]
fn both_ends_of_a_link_come_from_one_answer() {
    let t = small();
    assert_eq!(t.local(), Some(HOST.port(1)));
    assert_eq!(t.port(SPINE.port(2)).unwrap().peer, Some(LEAF.port(3)));
    assert_eq!(t.port(LEAF.port(3)).unwrap().peer, Some(SPINE.port(2)));
    assert_eq!(t.node(FAR).unwrap().route.to_string(), "0,1,2,3");
}

#[test]
fn a_link_that_goes_down_is_rerouted_around_and_remembered() {
    let mut t = small();
    port_info(&mut t, LEAF.port(2), PortState::Active, 0);
    let changes = port_info(&mut t, LEAF.port(2), PortState::Down, 0);
    assert_eq!(
        changes.list,
        [
            Change::PortState {
                port: LEAF.port(2),
                from: Some(4),
                to: 1
            },
            Change::LinkLost(LEAF.port(2), SPINE.port(1)),
        ]
    );
    assert_eq!(t.port(LEAF.port(2)).unwrap().last_peer, Some(SPINE.port(1)));
    assert!(t.node(FAR).unwrap().present);
    assert_eq!(t.node(FAR).unwrap().route.to_string(), "0,1,3,3");
    assert_eq!(t.node(SPINE).unwrap().entry, 2);
}

#[test]
fn nodes_behind_the_last_link_are_missing_until_they_answer() {
    let mut t = small();
    let changes = port_info(&mut t, SPINE.port(3), PortState::Down, 0);
    assert_eq!(changes.list.last(), Some(&Change::NodeMissing(FAR)));
    assert!(!t.node(FAR).unwrap().present);
    let changes = far(&mut t);
    assert_eq!(
        changes.list,
        [
            Change::NodeReturned(FAR),
            Change::LinkFound(SPINE.port(3), FAR.port(1)),
        ]
    );
}

#[test]
fn the_garbage_of_a_port_that_is_down_sets_no_lid() {
    let mut t = small();
    port_info(&mut t, FAR.port(1), PortState::Active, 9);
    assert_eq!(t.by_lid(9), Some(FAR.port(1)));
    port_info(&mut t, FAR.port(1), PortState::Down, 0x1234);
    assert_eq!(t.by_lid(0x1234), None);
    assert_eq!(t.node(FAR).unwrap().port(1).unwrap().width(), None);
}

#[test]
fn a_lid_that_moves_to_another_node_names_that_one() {
    let mut t = small();
    port_info(&mut t, FAR.port(1), PortState::Active, 9);
    let changes = port_info(&mut t, FAR.port(1), PortState::Active, 12);
    assert_eq!(
        changes.list,
        [Change::Lid {
            port: FAR.port(1),
            from: 9,
            to: 12
        }]
    );
    port_info(&mut t, HOST.port(1), PortState::Active, 9);
    assert_eq!(t.by_lid(9), Some(HOST.port(1)));
    assert_eq!(t.by_lid(10), None);
}

#[test]
fn a_discovery_that_does_not_see_a_node_marks_it_and_at_last_forgets_it() {
    let mut t = small();
    let mut forgotten = None;
    for generation in 2..20 {
        t.discovery_began(generation);
        near(&mut t);
        let changes = t.discovery_ended();
        if generation == 2 {
            assert_eq!(changes.list, [Change::NodeMissing(FAR)]);
        }
        if changes.list.contains(&Change::NodeForgotten(FAR)) {
            forgotten = Some(generation);
        }
    }
    // Seen in generation 1, kept for 6 more, gone with the next.
    assert_eq!(forgotten, Some(8));
    assert_eq!(t.port(SPINE.port(3)).unwrap().last_peer, Some(FAR.port(1)));
}

#[test]
fn digests_tell_different_topologies_apart() {
    let mut a = small();
    let b = small();
    assert_eq!(a.digest(), b.digest());
    port_info(&mut a, FAR.port(1), PortState::Active, 9);
    assert_ne!(a.digest(), b.digest());
}

#[test]
fn a_reply_without_its_request_teaches_nothing() {
    let mut t = small();
    let before = t.digest();
    let request = Mad::smp_lid(Method::Get, PortInfo::ID, 1, 1);
    let reply = Mad::reply(
        &request.view(),
        PortInfo::new().set_port_state(PortState::Down),
    );
    let nobody = Request::of(&request, 1, Target::default());
    assert_eq!(t.learn(&nobody, &reply), Changes::default());
    assert_eq!(t.digest(), before);
}

#[test]
fn an_answer_to_a_lid_that_is_not_the_ports_own_is_not_believed() {
    let mut t = small();
    port_info(&mut t, FAR.port(1), PortState::Active, 9);
    // Asked at LID 9, the port says that its LID is 12.
    let request = Mad::smp_lid(Method::Get, PortInfo::ID, 1, 1);
    let mut info = PortInfo::new();
    info.set_port_state(PortState::Init).set_lid(12);
    let reply = Mad::reply(&request.view(), &info);
    let target = Target::port(FAR.port(1), 1);
    let changes = t.learn(&Request::of(&request, 9, target), &reply);
    assert_eq!(changes.list, [Change::Elsewhere(FAR.port(1))]);
    assert_eq!(changes.who, None);
    assert_eq!(t.port(FAR.port(1)).unwrap().state(), Some(4));
    // Nor is one that came in by another port than the one whose LID it is.
    info.set_lid(9).set_local_port(2);
    let reply = Mad::reply(&request.view(), &info);
    let changes = t.learn(&Request::of(&request, 9, target), &reply);
    assert_eq!(changes.list, [Change::Elsewhere(FAR.port(1))]);
    info.set_local_port(1);
    // With LMC 2, 9 is one of the four LIDs from 8.
    info.set_lid(8).set_lmc(2);
    let reply = Mad::reply(&request.view(), &info);
    let changes = t.learn(&Request::of(&request, 9, target), &reply);
    assert_eq!(changes.who, Some(FAR));
    assert_eq!(t.port(FAR.port(1)).unwrap().state(), Some(2));
    // Whoever takes a LID over has it, and the other one is asked for its own.
    let changes = port_info(&mut t, HOST.port(1), PortState::Active, 8);
    assert!(changes.list.contains(&Change::Elsewhere(FAR.port(1))));
}

/// NodeInfo of FAR behind a port of SPINE, with this many ports and by this entry.
fn far_again(t: &mut Topology, via: u8, ports: u8, entry: u8) -> Changes {
    let (kind, path) = ((NodeType::Ca, ports), [1, 2, via]);
    node_info(t, FAR.port(entry), kind, &path, Some(SPINE.port(via)))
}

#[test]
fn changed_firmware_is_no_twin() {
    // FAR is known with one port behind SPINE[3].
    let mut t = small();
    // Behind SPINE[1] somebody with its GUID has two ports: a twin, or FAR after an update.
    let changes = far_again(&mut t, 1, 2, 2);
    let doubt = Doubt::Behind(SPINE.port(3));
    assert_eq!(changes.list, [Change::Doubt(doubt)]);
    assert_eq!(changes.who, None);
    // Asked again by its old link, it has two ports as well: it is the same one, with two links.
    let changes = far_again(&mut t, 3, 2, 1);
    assert_eq!(changes.who, Some(FAR));
    assert!(
        !changes
            .list
            .iter()
            .any(|c| matches!(c, Change::Duplicate { .. })),
        "{changes:?}"
    );
    assert_eq!(t.twins(FAR.guid).count(), 1);
    assert_eq!(t.port(SPINE.port(1)).unwrap().peer, Some(FAR.port(2)));
    assert_eq!(t.port(SPINE.port(3)).unwrap().peer, Some(FAR.port(1)));
    // Had it been as before, there would be two.
    let mut t = small();
    far_again(&mut t, 1, 2, 2);
    far_again(&mut t, 3, 1, 1);
    assert_eq!(t.twins(FAR.guid).count(), 2);
}

#[test]
fn whoever_claims_a_port_that_is_down_is_a_twin_if_it_stays_down() {
    let known = |state| {
        let mut t = small();
        // The one way to FAR is its second port now, and its first has no link.
        far_again(&mut t, 3, 2, 2);
        port_info(&mut t, FAR.port(1), PortState::Down, 0);
        // Behind SPINE[1] somebody with its GUID answers by that very port.
        let changes = far_again(&mut t, 1, 2, 1);
        assert!(
            changes
                .list
                .contains(&Change::Doubt(Doubt::Port(FAR.port(1)))),
            "{changes:?}"
        );
        port_info(&mut t, FAR.port(1), state, 7);
        t
    };
    assert_eq!(known(PortState::Down).twins(FAR.guid).count(), 2);
    // It came up meanwhile: its second link.
    let t = known(PortState::Init);
    assert_eq!(t.twins(FAR.guid).count(), 1);
    assert_eq!(t.port(SPINE.port(1)).unwrap().peer, Some(FAR.port(1)));
}

/// Whoever answers for nodes that are not there, each behind the one before, fills no memory.
#[test]
fn no_more_nodes_and_ports_are_taken_in_than_a_subnet_has() {
    for (ports, most) in [(254, MOST_PORTS / 255), (1, MOST_NODES)] {
        let mut t = Topology::new();
        t.discovery_began(1);
        let mut told = 0;
        let switch = |t: &mut Topology, guid| {
            let at = NodeId::new(guid).port(1);
            node_info(t, at, (NodeType::Switch, ports), &[1], None)
        };
        for guid in 1..=most as u64 + 100 {
            let changes = switch(&mut t, guid);
            told += changes.list.iter().filter(|c| **c == Change::Full).count();
            assert_eq!(changes.who.is_some(), guid <= most as u64);
        }
        assert_eq!((t.len(), told), (most, 1));
        // Those that are known still answer, and their places are free once they are forgotten.
        let again = switch(&mut t, 1);
        assert!(again.who.is_some());
        t.discovery_began(20);
        switch(&mut t, 1);
        t.discovery_ended();
        assert_eq!(t.len(), 1);
        let fresh = switch(&mut t, 9);
        assert!(fresh.who.is_some());
    }
}
