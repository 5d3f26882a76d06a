use super::*;
use crate::fabric::Target;
use crate::mad::{Method, NodeInfo, NodeType, PortInfo, PortState, SwitchInfo};

const HOST: NodeId = NodeId::new(0xA);
const LEAF: NodeId = NodeId::new(0xB);
const SPINE: NodeId = NodeId::new(0xC);
const FAR: NodeId = NodeId::new(0xD);
const HOST_LID: Lid = 1;
const LEAF_LID: Lid = 2;
const SPINE_LID: Lid = 3;
/// LMC 1: 70 and 71, in the second block.
const FAR_LID: Lid = 70;

struct Bench {
    topology: Topology,
    tables: Tables,
}

impl Bench {
    fn met(&mut self, id: NodeId, kind: NodeType, ports: u8, entry: u8, via: Option<PortKey>) {
        let request = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[], 1).unwrap();
        let mut info = NodeInfo::new();
        info.set_node_guid(id.guid.0)
            .set_node_type(kind)
            .set_num_ports(ports)
            .set_local_port(entry);
        let target = Target {
            via,
            ..Target::default()
        };
        let reply = Mad::reply(&request.view(), &info);
        self.topology
            .learn(&Request::of(&request, 0xFFFF, target), &reply);
    }

    fn read<A: Attribute>(&mut self, at: u64, key: PortKey, modifier: u32, attribute: &A) {
        let request = Mad::smp_lid(Method::Get, A::ID, modifier, 1);
        let reply = Mad::reply(&request.view(), attribute);
        let request = Request::of(&request, 1, Target::port(key, 1));
        let changes = self.topology.learn(&request, &reply);
        self.tables.learn(Stamp::from_secs(at), &request, &reply);
        self.tables.note(Stamp::from_secs(at), &changes);
    }

    fn port(&mut self, key: PortKey, lid: Lid, lmc: u8) {
        let mut info = PortInfo::new();
        info.set_port_state(PortState::Active)
            .set_lid(lid)
            .set_lmc(lmc);
        self.read(0, key, u32::from(key.port), &info);
    }

    fn top(&mut self, switch: NodeId, top: Lid) {
        let mut info = SwitchInfo::new();
        info.set_linear_fdb_cap(0xC000).set_linear_fdb_top(top);
        self.read(0, switch.port(0), 0, &info);
    }

    /// Block 1 of a table: FAR's LIDs leave by these ports.
    fn forward(&mut self, switch: NodeId, by: [u8; 2]) {
        let mut ports = [NO_ROUTE; 64];
        ports[6] = by[0];
        ports[7] = by[1];
        let mut table = LinearForwardingTable::new();
        table.set_ports(ports);
        self.read(10, switch.port(0), 1, &table);
    }

    fn path(&self, from: PortKey, lid: Lid) -> Path {
        walk(&self.topology, from, lid, |n, l| self.tables.entry(n, l))
    }

    fn end(&self, lid: Lid) -> End {
        self.path(HOST.port(1), lid).end
    }
}

/// HOST[1] - LEAF[1], LEAF[2] - SPINE[1], SPINE[3] - FAR[1]; LEAF[3] is empty.
fn bench() -> Bench {
    let mut b = Bench {
        topology: Topology::new(),
        tables: Tables::new(),
    };
    b.topology.discovery_began(1);
    b.met(HOST, NodeType::Ca, 1, 1, None);
    b.met(LEAF, NodeType::Switch, 3, 1, Some(HOST.port(1)));
    b.met(SPINE, NodeType::Switch, 3, 1, Some(LEAF.port(2)));
    b.met(FAR, NodeType::Ca, 1, 1, Some(SPINE.port(3)));
    b.port(HOST.port(1), HOST_LID, 0);
    b.port(LEAF.port(0), LEAF_LID, 0);
    b.port(SPINE.port(0), SPINE_LID, 0);
    b.port(FAR.port(1), FAR_LID, 1);
    b.top(LEAF, 71);
    b.top(SPINE, 71);
    b.forward(LEAF, [2, 2]);
    b.forward(SPINE, [3, 3]);
    b
}

#[test]
fn a_path_follows_the_tables_hop_by_hop() {
    let b = bench();
    let path = b.path(HOST.port(1), FAR_LID);
    assert_eq!(path.end, End::Arrived);
    assert_eq!(path.to, Some(FAR.port(1)));
    let hops: Vec<_> = path
        .hops
        .iter()
        .map(|h| (h.node, h.enters, h.leaves))
        .collect();
    assert_eq!(
        hops,
        [
            (HOST, None, Some(1)),
            (LEAF, Some(1), Some(2)),
            (SPINE, Some(1), Some(3)),
            (FAR, Some(1), None),
        ]
    );
    assert_eq!(path.oldest(), Some(Stamp::from_secs(10)));
    // A switch begins at its own table and ends without one.
    let path = b.path(LEAF.port(0), FAR_LID);
    assert_eq!((path.end, path.hops.len()), (End::Arrived, 3));
    let path = b.path(HOST.port(1), LEAF_LID);
    assert_eq!((path.end, path.hops.len()), (End::Arrived, 2));
    assert_eq!(path.oldest(), None);
    let path = b.path(HOST.port(1), HOST_LID);
    assert_eq!((path.end, path.hops.len()), (End::Arrived, 1));
}

#[test]
fn the_second_lid_of_a_port_may_take_another_way() {
    let mut b = bench();
    b.forward(LEAF, [2, NO_ROUTE]);
    assert_eq!(b.end(FAR_LID), End::Arrived);
    assert_eq!(b.path(HOST.port(1), FAR_LID + 1).to, Some(FAR.port(1)));
    assert_eq!(b.end(FAR_LID + 1), End::NoRoute);
}

#[test]
fn loops_black_holes_and_what_was_not_read_are_told_apart() {
    let mut b = bench();
    b.forward(SPINE, [1, 1]);
    assert_eq!(b.end(FAR_LID), End::Loop);
    assert_eq!(b.path(HOST.port(1), FAR_LID).last().unwrap().node, LEAF);
    b.forward(SPINE, [NO_ROUTE, 0]);
    assert_eq!(b.end(FAR_LID), End::NoRoute);
    assert_eq!(b.end(FAR_LID + 1), End::KeptBySwitch);
    b.forward(LEAF, [3, 9]);
    assert_eq!(b.end(FAR_LID), End::NoLink(3));
    assert_eq!(b.end(FAR_LID + 1), End::NoSuchPort(9));
    b.forward(LEAF, [1, 2]);
    // Back to the host, which does not have it.
    assert_eq!(b.end(FAR_LID), End::Astray(HOST.port(1)));
    // Block 0 was read nowhere: FAR's LID is above, SPINE's in it.
    assert_eq!(b.end(SPINE_LID), End::Unread);
    // The table ends before it, whatever the block holds.
    b.top(LEAF, 69);
    assert_eq!(b.end(FAR_LID), End::AboveTop(69));
    // Nobody has this one, and nobody routes it.
    b.top(LEAF, 127);
    assert_eq!(b.end(100), End::NoRoute);
    // Unplugged.
    b.topology = Topology::new();
    b.met(HOST, NodeType::Ca, 1, 1, None);
    assert_eq!(b.end(FAR_LID), End::NoLink(1));
    let path = b.path(FAR.port(1), HOST_LID);
    assert_eq!((path.end, path.hops.len()), (End::DeadEnd, 1));
}

#[test]
fn a_switch_with_a_random_table_says_so() {
    let mut b = bench();
    let info = SwitchInfo::new();
    b.read(0, LEAF.port(0), 0, &info);
    b.tables = Tables::new();
    assert_eq!(b.end(FAR_LID), End::NoLinearTable);
}

#[test]
fn tables_know_their_age_their_extent_and_what_came_after_them() {
    let mut b = bench();
    assert_eq!(b.tables.extent(LEAF, 71), (1, 2));
    assert_eq!(b.tables.oldest(LEAF, 71), Some(Stamp::from_secs(10)));
    let entries: Vec<_> = b
        .tables
        .entries(LEAF, 71)
        .filter(|(_, port)| *port != NO_ROUTE)
        .collect();
    assert_eq!(entries, [(70, 2), (71, 2)]);
    assert!(b.tables.changed() < Stamp::from_secs(10));
    let mut down = PortInfo::new();
    down.set_port_state(PortState::Down);
    b.read(20, LEAF.port(2), 2, &down);
    assert_eq!(b.tables.changed(), Stamp::from_secs(20));
}

proptest::proptest! {
    #[test]
    fn a_walk_ends_whatever_the_tables_say(
        leaf: [u8; 2], spine: [u8; 2], lid: u16, from in 0u8..4, top: u16,
    ) {
        let mut b = bench();
        b.forward(LEAF, leaf);
        b.forward(SPINE, spine);
        b.top(SPINE, top);
        let from = [HOST.port(1), LEAF.port(0), SPINE.port(0), FAR.port(9)][usize::from(from)];
        for lid in [lid, FAR_LID, FAR_LID + 1] {
            let path = b.path(from, lid);
            assert!(!path.hops.is_empty() && path.hops.len() <= 4, "{path:?}");
        }
    }
}

#[test]
fn a_block_that_the_sa_told_counts_as_told_and_a_table_of_all_switches_as_nobodys() {
    let mut bench = bench();
    let mut ports = [NO_ROUTE; 64];
    ports[6] = 2;
    let mut table = LinearForwardingTable::new();
    table.set_ports(ports);
    let mut record = LftRecord::new();
    record.set_lid(LEAF_LID).set_block(1).set_table(table);
    let mut told = |method: Method| {
        let request = Mad::sa(method, LftRecord::ID, 0, 0b11, 1);
        let reply = match method {
            Method::GetTable => Mad::reply_table(&request.view(), &[record]),
            _ => Mad::reply(&request.view(), &record),
        };
        let request = Request::of(&request, 1, Target::node(LEAF, 1));
        let tables = &mut bench.tables;
        tables.learn(Stamp::from_secs(20), &request, &reply)
    };
    assert!(!told(Method::GetTable));
    assert!(told(Method::Get));
    let entry = bench.tables.entry(LEAF, FAR_LID).unwrap();
    let expected = Entry {
        port: 2,
        read: Stamp::from_secs(20),
        told: true,
    };
    assert_eq!(entry, expected);
    assert!(bench.tables.is_told(LEAF, FAR_LID) && !bench.tables.is_told(LEAF, 63));
    assert!(bench.path(HOST.port(1), FAR_LID).hops[1].told);
    // The switch's own word stands for itself.
    bench.forward(LEAF, [2, NO_ROUTE]);
    assert!(!bench.tables.entry(LEAF, FAR_LID).unwrap().told);
}

#[test]
fn a_link_that_is_up_to_nobody_known_is_no_black_hole() {
    let mut bench = bench();
    bench.port(LEAF.port(3), 0, 0);
    bench.forward(LEAF, [3, 3]);
    assert_eq!(bench.end(FAR_LID), End::Unseen(3));
}
