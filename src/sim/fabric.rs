//! The description of a fabric: what is plugged into what. It does not change while the
//! simulator runs; what happens to it is the world's business.

use std::collections::HashMap;

use super::device::{Generation, VENDOR};
use crate::fabric::{LinkSpeed, LinkWidth, NodeId, NodeKind, PortKey};

/// The most external ports a node can have: numbers 1 to 254.
pub const MAX_PORTS: u8 = 254;

/// Nodes and cables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fabric {
    /// What it is called: a file's name or "built-in".
    pub name: String,
    /// All nodes, in the order of the file.
    pub nodes: Vec<NodeSpec>,
    /// Where a file says it was seen from: node and port.
    pub origin: Option<(usize, u8)>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpec {
    /// Switch, CA or router.
    pub kind: NodeKind,
    /// Node GUID.
    pub guid: u64,
    /// System image GUID.
    pub system_guid: u64,
    /// NodeDescription: any bytes, of which the first 64 count.
    pub description: Vec<u8>,
    /// Vendor id.
    pub vendor: u32,
    /// Device id.
    pub device: u16,
    /// What it can do.
    pub generation: Generation,
    /// A switch's port 0 is an enhanced one.
    pub enhanced_port0: bool,
    /// M_Key; 0 = none.
    pub m_key: u64,
    /// M_KeyProtectBits, 0 to 3.
    pub protect: u8,
    /// M_KeyLeasePeriod in seconds; 0 = for ever.
    pub lease: u16,
    /// Slot 0 is a switch's management port and unused on other nodes.
    pub ports: Vec<PortSpec>,
}

/// A port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// Port GUID.
    pub guid: u64,
    /// The other end of the cable: node index and port number.
    pub peer: Option<(usize, u8)>,
    /// Width at which the link runs.
    pub width: LinkWidth,
    /// Speed at which the link runs.
    pub speed: LinkSpeed,
    /// LinkWidthSupported mask.
    pub widths: u8,
    /// The fastest speed supported.
    pub best: LinkSpeed,
    /// LID, where the description gives one.
    pub lid: u16,
    /// LID mask control.
    pub lmc: u8,
}

/// Why two ports cannot be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CableError {
    /// No such node or port.
    #[error("no port {1} at node {0}")]
    NoPort(usize, u8),
    /// One of the ports has another cable already.
    #[error("port {1} of node {0} is already connected elsewhere")]
    Taken(usize, u8),
}

impl NodeSpec {
    /// A node of a generation with ports 1 to `ports`, GUIDs counted from `guid` as adapters
    /// have them: node, then one for each port.
    pub fn new(
        kind: NodeKind,
        guid: u64,
        description: &str,
        generation: Generation,
        ports: u8,
    ) -> NodeSpec {
        let widths = if generation >= Generation::Hdr {
            0x13
        } else {
            0x03
        };
        let port = |number: u8| PortSpec {
            guid: if kind == NodeKind::Switch {
                guid
            } else {
                guid.wrapping_add(u64::from(number))
            },
            peer: None,
            width: LinkWidth::X4,
            speed: generation.speed(),
            widths,
            best: generation.speed(),
            lid: 0,
            lmc: 0,
        };
        NodeSpec {
            kind,
            guid,
            system_guid: guid,
            description: description.as_bytes().to_vec(),
            vendor: VENDOR,
            device: generation.device(kind),
            generation,
            enhanced_port0: false,
            m_key: 0,
            protect: 0,
            lease: 0,
            ports: (0..=ports.min(MAX_PORTS)).map(port).collect(),
        }
    }

    /// Number of external ports.
    pub fn num_ports(&self) -> u8 {
        u8::try_from(self.ports.len().saturating_sub(1)).unwrap_or(MAX_PORTS)
    }

    /// The description as text, broken UTF-8 replaced.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.description)
    }
}

impl Fabric {
    /// An empty fabric.
    pub fn new(name: impl Into<String>) -> Fabric {
        Fabric {
            name: name.into(),
            ..Fabric::default()
        }
    }

    /// Adds a node and gives its index.
    pub fn add(&mut self, node: NodeSpec) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Plugs a cable in. The link runs at 4x and the faster speed both ends can do.
    ///
    /// # Errors
    /// A port is missing or taken.
    pub fn connect(&mut self, a: (usize, u8), b: (usize, u8)) -> Result<(), CableError> {
        for end in [a, b] {
            let port = self.port(end).ok_or(CableError::NoPort(end.0, end.1))?;
            if port.peer.is_some() || end.1 == 0 || a == b {
                return Err(CableError::Taken(end.0, end.1));
            }
        }
        let speed = [a, b]
            .iter()
            .filter_map(|end| self.port(*end))
            .map(|p| p.best)
            .min()
            .unwrap_or(LinkSpeed::Unknown);
        for (end, other) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(end) {
                port.peer = Some(other);
                port.speed = speed;
            }
        }
        Ok(())
    }

    /// Lets the link at `end` run at this width and speed.
    pub fn set_link(&mut self, end: (usize, u8), width: LinkWidth, speed: LinkSpeed) {
        let peer = self.port(end).and_then(|p| p.peer);
        for end in [Some(end), peer].into_iter().flatten() {
            if let Some(port) = self.port_mut(end) {
                port.width = width;
                port.speed = speed;
            }
        }
    }

    /// A port by node index and number.
    pub fn port(&self, (node, port): (usize, u8)) -> Option<&PortSpec> {
        self.nodes.get(node)?.ports.get(usize::from(port))
    }

    pub(super) fn port_mut(&mut self, (node, port): (usize, u8)) -> Option<&mut PortSpec> {
        self.nodes.get_mut(node)?.ports.get_mut(usize::from(port))
    }

    /// The node with this description, GUID (`0x…`) or the first part of a description
    /// ("cn013" for "cn013 mlx5_0").
    pub fn find(&self, name: &str) -> Option<usize> {
        let exact = self
            .nodes
            .iter()
            .position(|n| n.description == name.as_bytes());
        let guid = name.parse::<crate::fabric::Guid>().ok();
        exact
            .or_else(|| {
                self.nodes
                    .iter()
                    .position(|n| Some(n.guid) == guid.map(|g| g.0))
            })
            .or_else(|| {
                self.nodes
                    .iter()
                    .position(|n| n.name().split(' ').next() == Some(name))
            })
    }

    /// A node's identity: of those that share a GUID, the first one's is plain.
    pub fn id(&self, node: usize) -> Option<NodeId> {
        let guid = self.nodes.get(node)?.guid;
        let before = self.nodes.iter().take(node).filter(|n| n.guid == guid);
        Some(NodeId {
            twin: u8::try_from(before.count()).unwrap_or(u8::MAX),
            ..NodeId::new(guid)
        })
    }

    /// A port's identity, by the node's name.
    pub fn key(&self, name: &str, port: u8) -> Option<PortKey> {
        Some(self.id(self.find(name)?)?.port(port))
    }

    /// Port ends with a cable.
    pub fn connected_ends(&self) -> usize {
        self.nodes
            .iter()
            .flat_map(|n| &n.ports)
            .filter(|p| p.peer.is_some())
            .count()
    }

    /// Nodes that are no switches and have a cable, in order.
    pub fn hosts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|i| {
            self.nodes.get(*i).is_some_and(|n| {
                n.kind != NodeKind::Switch && n.ports.iter().any(|p| p.peer.is_some())
            })
        })
    }

    /// Gives every port that needs a LID one: those that have a valid one keep it unless
    /// another has it too.
    pub fn assign_lids(&mut self, lmc: u8) {
        let lmc = lmc.min(7);
        let mut taken: HashMap<u16, ()> = HashMap::new();
        let mut want = Vec::new();
        for (i, node) in self.nodes.iter_mut().enumerate() {
            let switch = node.kind == NodeKind::Switch;
            for (number, port) in node.ports.iter_mut().enumerate() {
                let has_lid = if switch {
                    number == 0
                } else {
                    number != 0 && port.peer.is_some()
                };
                let lmc = if switch { 0 } else { lmc.max(port.lmc) };
                port.lmc = lmc;
                if !has_lid {
                    port.lid = 0;
                    continue;
                }
                let block = port.lid..=port.lid.saturating_add((1 << lmc) - 1);
                let valid = port.lid != 0
                    && *block.end() < 0xC000
                    && port.lid.trailing_zeros() >= u32::from(lmc)
                    && block.clone().all(|l| !taken.contains_key(&l));
                if valid {
                    taken.extend(block.map(|l| (l, ())));
                } else {
                    port.lid = 0;
                    want.push((i, number, lmc));
                }
            }
        }
        let mut next: u32 = 1;
        for (node, number, lmc) in want {
            let size = 1u32 << lmc;
            loop {
                next = next.div_ceil(size) * size;
                if next + size > 0xC000 {
                    return; // the subnet is full: the rest stays without a LID
                }
                if (next..next + size).all(|l| !taken.contains_key(&(l as u16))) {
                    break;
                }
                next += size;
            }
            if let Some(port) = self
                .nodes
                .get_mut(node)
                .and_then(|n| n.ports.get_mut(number))
            {
                port.lid = next as u16;
            }
            next += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Fabric {
        let mut fabric = Fabric::new("pair");
        let a = fabric.add(NodeSpec::new(NodeKind::Ca, 0x10, "a", Generation::Ndr, 1));
        let b = fabric.add(NodeSpec::new(
            NodeKind::Switch,
            0x20,
            "b",
            Generation::Hdr,
            4,
        ));
        fabric.connect((a, 1), (b, 3)).unwrap();
        fabric
    }

    #[test]
    fn a_link_runs_at_the_best_both_ends_can_do() {
        let fabric = pair();
        assert_eq!(fabric.port((0, 1)).unwrap().speed, LinkSpeed::Hdr);
        assert_eq!(fabric.port((1, 3)).unwrap().peer, Some((0, 1)));
        assert_eq!(fabric.connected_ends(), 2);
        assert!(pair().connect((0, 1), (1, 2)).is_err());
        assert!(pair().connect((1, 0), (1, 2)).is_err());
    }

    #[test]
    fn lids_of_the_file_stay_and_others_do_not_collide() {
        let mut fabric = pair();
        fabric.nodes[1].ports[0].lid = 2;
        fabric.assign_lids(1);
        assert_eq!(fabric.nodes[1].ports[0].lid, 2);
        // LMC 1 needs an even base LID; 2 is the switch's, so 4.
        assert_eq!(fabric.nodes[0].ports[1].lid, 4);
    }
}
