//! Discovery through the port finds the fabric that was described.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::fabric::{DrPath, NodeId, NodeKind, PortKey, Request, Target, Topology};
use crate::mad::{NodeInfo, PortInfo};

/// Breadth first, one MAD at a time.
fn discover(client: &mut Client) -> (Topology, BTreeMap<NodeId, DrPath>) {
    let mut topology = Topology::new();
    let mut routes = BTreeMap::new();
    let mut queue = VecDeque::from([(DrPath::LOCAL, Target::local(0))]);
    while let Some((path, target)) = queue.pop_front() {
        let mut learn = |client: &mut Client, target: Target, id, modifier| {
            let tid = client.tid();
            let mad = Mad::smp_dr(Method::Get, id, modifier, path.hops(), tid).unwrap();
            let request = Request::of(&mad, 0xFFFF, target);
            let reply = client.ask(Address::directed(), mad)?;
            let changes = topology.learn(&request, &reply);
            Some((changes, reply))
        };
        let Some((changes, reply)) = learn(client, target, NodeInfo::ID, 0) else {
            continue;
        };
        let node = changes.who.unwrap();
        if routes.contains_key(&node) {
            continue;
        }
        routes.insert(node, path);
        let info = NodeInfo::parse(&reply.view()).unwrap();
        let kind = NodeKind::from_code(info.node_type().code());
        let first = u8::from(kind != NodeKind::Switch);
        for port in first..=info.num_ports() {
            let key = node.port(port);
            let (_, reply) =
                learn(client, Target::port(key, 0), PortInfo::ID, port.into()).unwrap();
            let up = PortInfo::parse(&reply.view()).unwrap().phys_state().code() == 5;
            let leads_on = kind == NodeKind::Switch || path.is_empty();
            if up && port != 0 && leads_on {
                queue.push_back((path.then(port).unwrap(), Target::beyond(key, 0)));
            }
        }
    }
    (topology, routes)
}

fn links(fabric: &Fabric) -> BTreeMap<PortKey, PortKey> {
    let mut links = BTreeMap::new();
    for (index, node) in fabric.nodes.iter().enumerate() {
        for (number, port) in (0u8..).zip(&node.ports) {
            if let Some((peer, other)) = port.peer {
                links.insert(
                    fabric.id(index).unwrap().port(number),
                    fabric.id(peer).unwrap().port(other),
                );
            }
        }
    }
    links
}

fn found(topology: &Topology) -> BTreeMap<PortKey, PortKey> {
    topology
        .nodes()
        .flat_map(|n| (0u8..).zip(&n.ports).map(|(i, p)| (n.id.port(i), p.peer)))
        .filter_map(|(key, peer)| Some((key, peer?)))
        .collect()
}

#[test]
fn discovery_finds_every_node_and_link_of_the_description() {
    for fabric in [default_fabric(), fat_tree(6, 5, 3, 2)] {
        let mut client = Client::healthy(fabric.clone());
        let (topology, _) = discover(&mut client);
        assert_eq!(topology.len(), fabric.nodes.len());
        assert_eq!(found(&topology), links(&fabric));
    }
}

#[test]
fn every_node_with_a_lid_answers_by_it_what_it_answers_by_directed_route() {
    let mut client = Client::healthy(default_fabric());
    let (topology, routes) = discover(&mut client);
    for node in topology.nodes() {
        let lid = node.any_lid().expect("a LID");
        let tid = client.tid();
        let mad = Mad::smp_lid(Method::Get, NodeInfo::ID, 0, tid);
        let reply = client.ask(Address::smp(lid), mad).unwrap();
        let mut by_lid = NodeInfo::parse(&reply.view()).unwrap();
        let mut directed: NodeInfo = client.read(routes[&node.id].hops(), 0);
        // The two ways may enter a switch by different ports.
        if node.kind == NodeKind::Switch {
            by_lid.set_local_port(0);
            directed.set_local_port(0);
        }
        assert_eq!(by_lid.node_guid(), directed.node_guid());
        if node.external_ports().count() == 1 {
            assert_eq!(by_lid, directed);
        }
    }
}

/// A net file in ibsim's short form: 4 leaves with 4 hosts each, 2 spines.
fn short_net_file() -> String {
    let mut text = String::new();
    for i in 0..16 {
        text += &format!(
            "Hca 1 \"node{i:05} mlx5_0\"\n[1] \"leaf{:03}\"[{}]\n\n",
            i / 4,
            i % 4 + 1
        );
    }
    for leaf in 0..4 {
        text += &format!("Switch 6 \"leaf{leaf:03}\"\n");
        for i in 0..4 {
            text += &format!("[{}] \"node{:05} mlx5_0\"[1]\n", i + 1, leaf * 4 + i);
        }
        for spine in 0..2 {
            text += &format!("[{}] \"spine{spine:03}\"[{}]\n", spine + 5, leaf + 1);
        }
        text += "\n";
    }
    for spine in 0..2 {
        text += &format!("Switch 4 \"spine{spine:03}\"\n");
        for leaf in 0..4 {
            text += &format!("[{}] \"leaf{leaf:03}\"[{}]\n", leaf + 1, spine + 5);
        }
        text += "\n";
    }
    text
}

#[test]
fn a_net_file_gives_the_fabric_that_ibsim_makes_of_it() {
    let (fabric, problems) = netfile::parse(&short_net_file());
    assert_eq!(problems, []);
    let mut client = Client::healthy(fabric);
    let (topology, _) = discover(&mut client);
    let found = found(&topology);
    let peer = |guid, port| found[&NodeId::new(guid).port(port)];
    // `ibnetdiscover` under ibsim 0.10 with this file: 22 nodes; leaf003 is S-0000000000200003
    // with [4] "H-000000000010001e"[1](10001f) and [6] "S-0000000000200005"[4].
    assert_eq!(topology.len(), 22);
    assert_eq!(found.len(), 48);
    assert_eq!(peer(0x20_0003, 4), NodeId::new(0x10_001e).port(1));
    assert_eq!(peer(0x20_0003, 6), NodeId::new(0x20_0005).port(4));
    assert_eq!(peer(0x10_0000, 1), NodeId::new(0x20_0000).port(1));
    let first = topology.node(NodeId::new(0x10_0000)).unwrap();
    assert_eq!(first.info.port_guid(), 0x10_0001);
}
