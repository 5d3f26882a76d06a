//! Fabrics made to order: fat trees of any size, and the built-in one.

use super::device::Generation;
use super::fabric::{Fabric, NodeSpec};
use crate::fabric::NodeKind;

/// First GUID of made-up switches.
const SWITCH_GUID: u64 = 0x0002_c903_00a0_0000;
/// First GUID of made-up adapters: these are 16 apart.
const CA_GUID: u64 = 0x0002_c903_00b0_0000;

/// Adds switches and adapters with GUIDs of their own.
struct Builder {
    fabric: Fabric,
    switches: u64,
    adapters: u64,
}

impl Builder {
    fn new(name: &str) -> Builder {
        Builder {
            fabric: Fabric::new(name),
            switches: 0,
            adapters: 0,
        }
    }

    fn switch(&mut self, name: &str, generation: Generation, ports: u8) -> usize {
        self.switches += 1;
        let guid = SWITCH_GUID + self.switches * 0x40;
        let mut node = NodeSpec::new(NodeKind::Switch, guid, name, generation, ports);
        node.enhanced_port0 = generation >= Generation::Edr;
        self.fabric.add(node)
    }

    fn adapter(&mut self, name: &str, generation: Generation, ports: u8) -> usize {
        self.adapters += 1;
        let guid = CA_GUID + self.adapters * 0x10;
        self.fabric
            .add(NodeSpec::new(NodeKind::Ca, guid, name, generation, ports))
    }

    /// The generators number their ports so that none is missing or taken.
    fn cable(&mut self, a: (usize, u8), b: (usize, u8)) {
        let done = self.fabric.connect(a, b);
        debug_assert_eq!(done, Ok(()));
    }
}

/// A two-level fat tree of HDR devices: `leaves` leaf switches with `hosts` hosts each, and
/// `links` links from each leaf to each of `spines` spine switches.
///
/// Names and port numbers follow a common pattern: hosts `node00000 mlx5_0`, switches `leaf000`
/// and `spine000`; a leaf's hosts come first. Sizes are cut where a switch would need more than
/// 254 ports.
pub fn fat_tree(leaves: usize, hosts: usize, spines: usize, links: usize) -> Fabric {
    let links = links.clamp(1, 254);
    let spines = spines.min(253 / links);
    let leaves = leaves.clamp(1, 254 / links);
    let hosts = hosts.min(254 - spines * links);
    let mut b = Builder::new(&format!("fat tree {leaves} {hosts} {spines} {links}"));
    for i in 0..leaves * hosts {
        b.adapter(&format!("node{i:05} mlx5_0"), Generation::Hdr, 1);
    }
    let first_leaf = leaves * hosts;
    for i in 0..leaves {
        b.switch(
            &format!("leaf{i:03}"),
            Generation::Hdr,
            (hosts + spines * links) as u8,
        );
    }
    for i in 0..spines {
        b.switch(
            &format!("spine{i:03}"),
            Generation::Hdr,
            (leaves * links) as u8,
        );
    }
    for leaf in 0..leaves {
        for host in 0..hosts {
            b.cable(
                (leaf * hosts + host, 1),
                (first_leaf + leaf, host as u8 + 1),
            );
        }
        for spine in 0..spines {
            for link in 0..links {
                let up = (hosts + spine * links + link + 1) as u8;
                let down = (leaf * links + link + 1) as u8;
                b.cable((first_leaf + leaf, up), (first_leaf + leaves + spine, down));
            }
        }
    }
    b.fabric
}

/// The built-in fabric: small, but with something of everything.
///
/// Four HDR spines (`spine01` to `spine04`, each with an aggregation node behind port 41) and
/// eight leaves: `leaf01` to `leaf04` HDR, `leaf05` and `leaf06` NDR, `leaf07` EDR, `leaf08` an
/// old QDR switch with few counters. Each leaf has eight hosts on ports 1 to 8 and one link to
/// each spine, the QDR one two in all. `login1` is where we are, `mgmt1` and `mgmt2` run subnet
/// managers, `mds1` has
/// both ports of its adapter in use, the second one at `leaf01`.
pub fn default_fabric() -> Fabric {
    use Generation::{Edr, Fdr, Hdr, Ndr, Qdr};
    let mut b = Builder::new("built-in");
    let spines: Vec<usize> = (1..=4)
        .map(|i| b.switch(&format!("spine{i:02}"), Hdr, 41))
        .collect();
    for &spine in &spines {
        let node = b.adapter("Mellanox Technologies Aggregation Node", Hdr, 1);
        if let Some(spec) = b.fabric.nodes.get_mut(node) {
            spec.device = 0xcf09;
        }
        b.cable((node, 1), (spine, 41));
    }
    let mut compute = 0;
    let mut leaves = Vec::new();
    for i in 1..=8u8 {
        let (generation, ports, first_up, ups) = match i {
            1..=4 => (Hdr, 40, 33, 4),
            5 | 6 => (Ndr, 64, 61, 4),
            7 => (Edr, 36, 33, 4),
            _ => (Qdr, 36, 35, 2),
        };
        let leaf = b.switch(&format!("leaf{i:02}"), generation, ports);
        leaves.push(leaf);
        for (up, &spine) in (0..ups).zip(&spines) {
            b.cable((leaf, first_up + up), (spine, i));
        }
        for port in 1..=8u8 {
            let (name, host) = match (i, port) {
                (1, 1) => ("login1 mlx5_0".to_owned(), Hdr),
                (1, 2) => ("mgmt1 mlx5_0".to_owned(), Hdr),
                (2, 1) => ("mgmt2 mlx5_0".to_owned(), Hdr),
                (3, 1) => ("mds1 mlx5_0".to_owned(), Hdr),
                (4, 8) => ("viz1 \"lab #2\"  mlx5_0".to_owned(), Hdr),
                (5 | 6, p) => (format!("gpu{:02} mlx5_0", (i - 5) * 8 + p), Ndr),
                (7, p @ 1..=4) => (format!("oss{p} mlx5_0"), Edr),
                (8, p @ 7..=8) => (format!("old{} HCA-1", p - 6), Qdr),
                (_, p) => {
                    compute += 1;
                    let generation = match i {
                        7 => Edr,
                        8 if p > 3 => Fdr,
                        8 => Edr,
                        _ => Hdr,
                    };
                    (format!("cn{compute:03} mlx5_0"), generation)
                }
            };
            let ports = if name.starts_with("mds1") { 2 } else { 1 };
            let node = b.adapter(&name, host, ports);
            b.cable((node, 1), (leaf, port));
            if ports == 2 {
                // Its second port goes to the next leaf.
                if let Some(next) = leaves.first() {
                    b.cable((node, 2), (*next, 9));
                }
            }
        }
    }
    b.fabric.origin = b.fabric.find("login1").map(|n| (n, 1));
    b.fabric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fat_tree_has_the_nodes_and_links_of_its_arithmetic() {
        // 36 leaves with 18 hosts and 18 spines: 648 hosts, 702 nodes; 648 + 36 * 18 links.
        let fabric = fat_tree(36, 18, 18, 1);
        assert_eq!(fabric.nodes.len(), 702);
        assert_eq!(fabric.connected_ends(), 2592);
        let leaf = fabric.find("leaf035").unwrap();
        assert_eq!(fabric.nodes[leaf].num_ports(), 36);
        assert_eq!(fabric.find("node00647"), Some(647));
        // Far too large a request is cut to what port numbers allow.
        assert_eq!(fat_tree(1000, 300, 300, 1).nodes.len(), 254 + 254 + 253);
    }

    #[test]
    fn the_built_in_fabric_has_what_its_description_says() {
        let fabric = default_fabric();
        // 4 spines, 8 leaves, 4 aggregation nodes, 64 hosts.
        assert_eq!(fabric.nodes.len(), 80);
        // 30 leaf-spine links, 4 aggregation nodes, 64 hosts, one second port.
        assert_eq!(fabric.connected_ends(), 2 * (30 + 4 + 64 + 1));
        let mds = fabric.find("mds1").unwrap();
        assert!(
            fabric.nodes[mds].ports[1..]
                .iter()
                .all(|p| p.peer.is_some())
        );
        let mut guids: Vec<u64> = fabric.nodes.iter().map(|n| n.guid).collect();
        guids.sort_unstable();
        guids.dedup();
        assert_eq!(guids.len(), 80);
    }
}
