//! The subnet as its own answers describe it: nodes, ports, links.
//!
//! [`Topology::learn`] takes one request and its reply and says what changed. The engine (which
//! must know whom to ask) and the model (which must show it) each hold an instance and feed it
//! the same exchanges in the same order, so their [`Topology::digest`]s agree.

mod change;
mod links;
mod node;
mod told;
mod twins;

use std::collections::BTreeMap;

use super::{DrPath, Guid, Lid, NodeId, NodeKind, PortKey, Request};
use crate::mad::{
    Attribute, Mad, MgmtClass, MlnxExtPortInfo, NodeDescription, NodeInfo, PortInfo, SwitchInfo,
};

pub use change::{Change, Changes};
pub use node::{Node, Port};
pub use told::{GET_PROTECTED, Told};
pub use twins::Doubt;

/// Full discoveries that a node may miss before it is forgotten.
pub const KEEP_MISSING: u32 = 6;
/// The most nodes that are known: as many as a subnet has unicast LIDs, of which each needs one.
/// Whoever makes up nodes behind nodes must not fill the memory.
pub const MOST_NODES: usize = 0xBFFF;
/// The most ports that they have together.
pub const MOST_PORTS: usize = 400_000;

/// Vendor id of Mellanox, and device id of its aggregation nodes.
const MELLANOX: u32 = 0x2c9;
const AGGREGATION_NODE: u16 = 0xcf09;

/// PortState code of a port without a link.
const DOWN: u8 = 1;

/// All nodes and links that were seen.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    generation: u32,
    local: Option<PortKey>,
    nodes: BTreeMap<NodeId, Node>,
    lids: BTreeMap<Lid, PortKey>,
    told: told::AllTold,
    claims: twins::Claims,
    /// Ports of all nodes.
    ports: usize,
    /// In which generation somebody was not taken in.
    full: Option<u32>,
}

impl Topology {
    /// An empty topology.
    pub fn new() -> Topology {
        Topology::default()
    }

    /// The current generation: the number of the last full discovery that began.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The local node and port, once NodeInfo answered locally.
    pub fn local(&self) -> Option<PortKey> {
        self.local
    }

    /// All nodes, in order of GUID.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The nodes that have this GUID: more than one only where adapters were badly flashed.
    pub fn twins(&self, guid: Guid) -> impl Iterator<Item = &Node> {
        let all = NodeId { guid, twin: 0 }..=NodeId {
            guid,
            twin: u8::MAX,
        };
        self.nodes.range(all).map(|(_, node)| node)
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// One port.
    pub fn port(&self, key: PortKey) -> Option<&Port> {
        self.node(key.node)?.port(key.port)
    }

    /// The port that a unicast LID belongs to (base LID and LMC respected).
    pub fn by_lid(&self, lid: Lid) -> Option<PortKey> {
        let (&base, &key) = self.lids.range(..=lid).next_back()?;
        let lmc = self
            .port(key)
            .and_then(|p| p.info.as_ref())
            .map_or(0, |i| i.lmc());
        (u32::from(lid - base) < (1u32 << lmc)).then_some(key)
    }

    /// What a node is shown as: an aggregation node of SHARP is told from a host by what it is.
    ///
    /// It is a channel adapter of Mellanox with the device id of such (53001), or with the
    /// SystemImageGUID of the very switch that it is plugged into, whose part it is.
    pub fn shown_kind(&self, node: &Node) -> NodeKind {
        if node.kind != NodeKind::Ca || node.info.vendor_id() != MELLANOX {
            return node.kind;
        }
        let system = node.info.system_image_guid();
        let part = system != 0
            && node.ports.iter().filter_map(|p| p.peer).any(|peer| {
                self.node(peer.node).is_some_and(|n| {
                    n.kind == NodeKind::Switch && n.info.system_image_guid() == system
                })
            });
        if node.info.device_id() == AGGREGATION_NODE || part {
            NodeKind::Aggregation
        } else {
            node.kind
        }
    }

    /// Number of nodes known, present or not.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if no node is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A full discovery begins.
    pub fn discovery_began(&mut self, generation: u32) {
        self.generation = generation;
    }

    /// A full discovery ended: nodes that it did not see are missing, those that were missing
    /// for [`KEEP_MISSING`] discoveries are forgotten.
    pub fn discovery_ended(&mut self) -> Changes {
        let mut changes = Changes::default();
        // The local node itself was silent: that says nothing of the others.
        let deaf = |local: PortKey| {
            self.node(local.node)
                .is_some_and(|n| n.seen < self.generation)
        };
        if self.local.is_some_and(deaf) {
            return changes;
        }
        self.settle_claims(true, &mut changes);
        let now = self.generation;
        let missing: Vec<NodeId> = self
            .nodes
            .values()
            .filter(|n| n.seen < now)
            .map(|n| n.id)
            .collect();
        for id in missing {
            let Some(node) = self.nodes.get_mut(&id) else {
                continue;
            };
            if node.present {
                node.present = false;
                changes.list.push(Change::NodeMissing(id));
            }
            if now.saturating_sub(node.seen) > KEEP_MISSING {
                self.forget(id);
                changes.list.push(Change::NodeForgotten(id));
            }
        }
        changes
    }

    /// A keyframe tells that a node is missing, which its last answers cannot say.
    pub fn miss(&mut self, id: NodeId, seen: u32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.present = false;
            node.seen = seen;
        }
    }

    fn forget(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.remove(&id) {
            self.ports -= node.ports.len();
            for port in &node.ports {
                if let Some(peer) = port.peer
                    && let Some(p) = self.port_mut(peer)
                {
                    p.last_peer = p.peer.take();
                }
            }
        }
        self.lids.retain(|_, key| key.node != id);
        self.told.retain(|via, _| via.node != id);
        self.claims
            .retain(|via, claim| via.node != id && claim.is_not_of(id));
    }

    fn port_mut(&mut self, key: PortKey) -> Option<&mut Port> {
        self.nodes
            .get_mut(&key.node)?
            .ports
            .get_mut(usize::from(key.port))
    }

    /// Learns from one exchange. Replies with an error status teach nothing.
    pub fn learn(&mut self, request: &Request, reply: &Mad) -> Changes {
        let view = reply.view();
        let mut changes = Changes::default();
        if request.class == MgmtClass::SubnAdm.code() {
            self.learn_record(request, reply, &mut changes);
            return changes;
        }
        let smp = matches!(request.class, 0x01 | 0x81);
        if !smp || !request.is_answered_by(reply) || !view.status().is_ok() {
            return changes;
        }
        match request.attribute {
            NodeInfo::ID => {
                if let Ok(info) = NodeInfo::from_bytes(view.data()) {
                    self.learn_node_info(request, info, &mut changes);
                    self.settle_claims(false, &mut changes);
                }
                return changes;
            }
            _ => {
                let Some(id) = request.target.node else {
                    return changes;
                };
                if !self.nodes.contains_key(&id) {
                    return changes;
                }
                if let Some(port) = self.answered_elsewhere(request, reply) {
                    changes.list.push(Change::Elsewhere(port));
                    return changes;
                }
                changes.who = Some(id);
                self.saw(id, &mut changes);
                match request.attribute {
                    NodeDescription::ID => {
                        if let Ok(desc) = NodeDescription::from_bytes(view.data()) {
                            self.learn_description(id, desc, &mut changes);
                        }
                    }
                    SwitchInfo::ID => {
                        if let Ok(info) = SwitchInfo::from_bytes(view.data())
                            && let Some(node) = self.nodes.get_mut(&id)
                        {
                            node.switch = Some(info);
                        }
                    }
                    PortInfo::ID => {
                        if let Ok(info) = PortInfo::from_bytes(view.data()) {
                            // The modifier's top bit only says that we know extended speeds.
                            let number = (request.modifier & 0xFF) as u8;
                            self.learn_port_info(id.port(number), info, &mut changes);
                        }
                    }
                    MlnxExtPortInfo::ID => {
                        if let (Ok(info), Some(port)) = (
                            MlnxExtPortInfo::from_bytes(view.data()),
                            self.port_mut(id.port((request.modifier & 0xFF) as u8)),
                        ) {
                            port.vendor = Some(Box::new(info));
                        }
                    }
                    _ => {}
                }
            }
        }
        changes
    }

    /// A cheap cross-check of LID-routed questions: the PortInfo of the port that the LID was
    /// thought to be of must show that LID. Else the LID names another by now, or the port has
    /// another one: a directed route tells.
    fn answered_elsewhere(&self, request: &Request, reply: &Mad) -> Option<PortKey> {
        if request.path.is_some() || request.attribute != PortInfo::ID {
            return None;
        }
        let key = request.target.node?.port((request.modifier & 0xFF) as u8);
        if self.by_lid(request.lid) != Some(key) {
            return None;
        }
        let info = PortInfo::from_bytes(reply.view().data()).ok()?;
        let down = info.port_state().code() == DOWN && key.port != 0;
        let span = 1u32 << info.lmc();
        let offset = u32::from(request.lid).checked_sub(u32::from(info.lid()));
        let fits = offset.is_some_and(|offset| offset < span);
        // A LID of an adapter is that of one port, by which the question came in. 0 is no port.
        let adapter = self
            .node(key.node)
            .is_some_and(|n| n.kind != NodeKind::Switch);
        let entered = info.local_port();
        let by_another = adapter && entered != 0 && entered != key.port;
        (by_another || !down && info.lid() != 0 && !fits).then_some(key)
    }

    fn saw(&mut self, id: NodeId, changes: &mut Changes) {
        let generation = self.generation;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.seen = generation;
            if !node.present {
                node.present = true;
                changes.list.push(Change::NodeReturned(id));
            }
        }
    }

    fn learn_node_info(&mut self, request: &Request, info: NodeInfo, changes: &mut Changes) {
        let Some(id) = self.identify(request, &info, changes) else {
            return;
        };
        if !self.add_node(id, &info, request.path, changes) {
            return;
        }
        changes.who = Some(id);
        let entry = info.local_port();
        if let Some(expected) = request.target.node
            && request.target.via.is_none()
        {
            if expected != id {
                changes.list.push(Change::Replaced {
                    expected,
                    found: id,
                });
            }
            return;
        }
        match request.target.via {
            Some(via) => {
                self.told.remove(&via);
                self.link(via, id.port(entry), changes);
            }
            None => self.local = Some(id.port(entry)),
        }
    }

    /// Whether so many ports of this node can be taken in.
    fn has_room(&mut self, id: NodeId, ports: usize, changes: &mut Changes) -> bool {
        let known = self.nodes.get(&id).map(|n| n.ports.len());
        let all = self.ports - known.unwrap_or(0) + ports;
        let nodes = self.nodes.len() + usize::from(known.is_none());
        let room = all <= MOST_PORTS && nodes <= MOST_NODES;
        if !room && self.full.replace(self.generation) != Some(self.generation) {
            changes.list.push(Change::Full);
        }
        if room {
            self.ports = all;
        }
        room
    }

    /// A node is there, by this route. False if it has no place any more.
    fn add_node(
        &mut self,
        id: NodeId,
        info: &NodeInfo,
        route: Option<DrPath>,
        changes: &mut Changes,
    ) -> bool {
        let info = *info;
        let entry = info.local_port();
        let ports = usize::from(info.num_ports()) + 1;
        if !self.has_room(id, ports, changes) {
            return false;
        }
        let present = self.nodes.get(&id).is_some_and(|n| n.present);
        if self.nodes.contains_key(&id) {
            self.saw(id, changes);
        } else {
            changes.list.push(Change::NodeAppeared(id));
        }
        let generation = self.generation;
        let way = (route.unwrap_or(DrPath::LOCAL), entry);
        let node = self
            .nodes
            .entry(id)
            .or_insert_with(|| Node::found(id, info, way, generation));
        if std::mem::take(&mut node.guarded) {
            changes.list.push(Change::Guarded(id, false));
        }
        node.informed(info, entry);
        // The answer proves its route now; an older one may lead through a link that is gone.
        if let Some(route) = route
            && (route.len() <= node.route.len() || node.proven < generation || !present)
        {
            node.route = route;
            node.entry = entry;
            node.proven = generation;
        }
        true
    }

    fn learn_description(&mut self, id: NodeId, desc: NodeDescription, changes: &mut Changes) {
        if let Some(node) = self.nodes.get_mut(&id)
            && node.description.as_ref() != Some(&desc)
        {
            node.description = Some(desc);
            changes.list.push(Change::Described(id));
        }
    }

    fn learn_port_info(&mut self, key: PortKey, info: PortInfo, changes: &mut Changes) {
        let Some(node) = self.nodes.get(&key.node) else {
            return;
        };
        let holds_lid = (node.kind == NodeKind::Switch) == (key.port == 0);
        let speed_before = node.speed(key.port);
        let Some(port) = self.port_mut(key) else {
            return;
        };
        let state_before = port.state();
        let width_before = port.width();
        let lid_before = port.info.as_ref().map_or(0, |i| i.lid());
        let state = info.port_state().code();
        port.info = Some(info);
        let width = port.width();
        let peer = port.peer;
        let lid = info.lid();
        if state_before != Some(state) {
            changes.list.push(Change::PortState {
                port: key,
                from: state_before,
                to: state,
            });
        }
        let speed = self.nodes.get(&key.node).and_then(|n| n.speed(key.port));
        if width_before.is_some()
            && width.is_some()
            && (width_before != width || speed_before != speed)
        {
            changes.list.push(Change::LinkRate { port: key });
        }
        // A port that is down reports garbage beside its states.
        if holds_lid && (state != DOWN || key.port == 0) {
            self.set_lid(key, lid_before, lid, changes);
        }
        if state == DOWN
            && key.port != 0
            && let Some(peer) = peer
        {
            self.unlink(key, peer, changes);
        }
        self.port_heard(key, state, changes);
        self.settle_claims(false, changes);
    }

    fn set_lid(&mut self, key: PortKey, from: Lid, to: Lid, changes: &mut Changes) {
        if from != to && self.lids.get(&from) == Some(&key) {
            self.lids.remove(&from);
        }
        // A port of which no link is known may be in another subnet, with another's LID.
        let mine = |topology: &Topology, key: PortKey| {
            topology.node(key.node).is_some_and(|n| {
                n.present && n.is_in_subnet(key.port) && n.lid(key.port) == Some(to)
            })
        };
        let taken = self
            .lids
            .get(&to)
            .is_some_and(|other| *other != key && mine(self, *other));
        if to != 0 && to < 0xC000 && (!taken || mine(self, key)) {
            // Whoever had it has another one by now.
            if let Some(other) = self.lids.insert(to, key)
                && other != key
                && self.node(other.node).is_some_and(|n| n.present)
            {
                changes.list.push(Change::Elsewhere(other));
            }
        }
        if from != 0 && from != to {
            changes.list.push(Change::Lid {
                port: key,
                from,
                to,
            });
        }
    }

    /// A digest of all that is known of structure and states; equal topologies have equal ones.
    pub fn digest(&self) -> u64 {
        let mut h = Fnv::default();
        for node in self.nodes.values() {
            h.write(node.id.guid.0);
            h.write(
                u64::from(node.id.twin) << 16
                    | u64::from(node.guarded) << 1
                    | u64::from(node.present),
            );
            for (number, port) in node.ports.iter().enumerate() {
                let peer = port.peer.unwrap_or_default();
                h.write(peer.node.guid.0);
                h.write(
                    (number as u64) << 40
                        | u64::from(peer.port) << 32
                        | u64::from(port.state().unwrap_or(0)) << 24
                        | u64::from(port.info.as_ref().map_or(0, |i| i.lid())),
                );
            }
        }
        h.0
    }
}

/// FNV-1a over 64-bit words: small, stable across versions and platforms.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, word: u64) {
        for byte in word.to_be_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests;
