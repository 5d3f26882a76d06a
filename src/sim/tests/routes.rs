//! The forwarding tables that switches give, walked over the fabric's cables by other means than
//! those that made them: every LID is reached from every switch, by a shortest way.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::fabric::NodeKind;
use crate::mad::{LftRecord, LinearForwardingTable, SwitchInfo, records};

/// Switches between two switches, counted over the cables alone.
fn distances(fabric: &Fabric, from: usize) -> BTreeMap<usize, usize> {
    let mut seen = BTreeMap::from([(from, 0)]);
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        let steps = seen[&at] + 1;
        for port in &fabric.nodes[at].ports {
            let Some((next, _)) = port.peer else { continue };
            if fabric.nodes[next].kind == NodeKind::Switch && !seen.contains_key(&next) {
                seen.insert(next, steps);
                queue.push_back(next);
            }
        }
    }
    seen
}

/// A directed route to every node, over the cables alone.
fn ways(fabric: &Fabric, from: (usize, u8)) -> BTreeMap<usize, Vec<u8>> {
    let mut seen = BTreeMap::from([(from.0, Vec::new())]);
    let mut queue = VecDeque::from([from.0]);
    while let Some(at) = queue.pop_front() {
        for (number, port) in fabric.nodes[at].ports.iter().enumerate() {
            let passes = match at == from.0 {
                true => number == usize::from(from.1),
                false => fabric.nodes[at].kind == NodeKind::Switch,
            };
            let Some((next, _)) = port.peer.filter(|_| passes) else {
                continue;
            };
            if !seen.contains_key(&next) {
                let mut way = seen[&at].clone();
                way.push(number as u8);
                seen.insert(next, way);
                queue.push_back(next);
            }
        }
    }
    seen
}

fn check(fabric: Fabric, lmc: u8) {
    let options = SimOptions {
        lmc,
        ..SimOptions::healthy()
    };
    let mut client = Client::new(fabric.clone(), options);
    let local = client.port.local(client.now).unwrap();
    let origin = (0..fabric.nodes.len())
        .find(|n| fabric.nodes[*n].guid == local.node_guid)
        .unwrap();
    let ways = ways(&fabric, (origin, local.port));
    let switches: Vec<usize> = (0..fabric.nodes.len())
        .filter(|n| fabric.nodes[*n].kind == NodeKind::Switch)
        .collect();
    // Every block of every switch, by SMP.
    let mut tables: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let mut lids = BTreeMap::new();
    for node in &switches {
        let way = &ways[node];
        let info: SwitchInfo = client.read(way, 0);
        let port: crate::mad::PortInfo = client.read(way, 0);
        lids.insert(*node, port.lid());
        let blocks = info.linear_fdb_top() / 64 + 1;
        let table = tables.entry(*node).or_default();
        for block in 0..blocks {
            let read: LinearForwardingTable = client.read(way, u32::from(block));
            table.extend(read.ports());
        }
        // The SA tells the same.
        let mut query = LftRecord::new();
        query.set_lid(port.lid());
        let tid = client.tid();
        let mut mad = Mad::sa(Method::GetTable, LftRecord::ID, 0, 1, tid);
        mad.set_data(&query);
        let reply = client.ask(Address::gmp(local.sm_lid, 0, 0), mad).unwrap();
        let told: Vec<u8> = records::<LftRecord>(&reply.view())
            .flat_map(|r| r.table().ports())
            .collect();
        assert_eq!(&told, table, "{}", fabric.nodes[*node].name());
    }
    // Each end port's base LID, as its own PortInfo says; LMC more LIDs lead there too.
    let mut ends: Vec<((usize, u8), u16)> = Vec::new();
    for (index, node) in fabric.nodes.iter().enumerate() {
        if node.kind == NodeKind::Switch {
            ends.push(((index, 0), lids[&index]));
            continue;
        }
        for number in 1..node.ports.len() {
            if node.ports[number].peer.is_some() {
                let key = fabric.id(index).unwrap().port(number as u8);
                ends.push(((index, number as u8), client.port.lid(key)));
            }
        }
    }
    for source in &switches {
        let far = distances(&fabric, *source);
        for (end, base) in &ends {
            let adapter = fabric.nodes[end.0].kind != NodeKind::Switch;
            let count = if adapter { 1u16 << lmc } else { 1 };
            for lid in *base..*base + count {
                let mut at = *source;
                let mut steps = 0;
                let arrived = loop {
                    let port = tables[&at][usize::from(lid)];
                    if port == 0 {
                        break (at, 0);
                    }
                    let (next, enters) = fabric.nodes[at].ports[usize::from(port)].peer.unwrap();
                    if fabric.nodes[next].kind != NodeKind::Switch {
                        break (next, enters);
                    }
                    at = next;
                    steps += 1;
                    assert!(steps <= switches.len(), "LID {lid} loops from {source}");
                };
                assert_eq!(arrived, *end, "LID {lid} from {source}");
                let home = match adapter {
                    true => {
                        fabric.nodes[end.0].ports[usize::from(end.1)]
                            .peer
                            .unwrap()
                            .0
                    }
                    false => end.0,
                };
                assert_eq!(
                    steps, far[&home],
                    "LID {lid} from {source}: no shortest way"
                );
            }
        }
    }
}

#[test]
fn tables_lead_every_lid_from_every_switch_to_its_port_by_a_shortest_way() {
    check(default_fabric(), 0);
    // 144 LIDs of the adapters alone: three blocks.
    check(fat_tree(6, 6, 3, 1), 2);
}
