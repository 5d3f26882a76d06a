//! The subnet as its own answers describe it: nodes, ports, links.
//!
//! [`Topology::learn`] takes one request and its reply and says what changed. The engine (which
//! must know whom to ask) and the model (which must show it) each hold an instance and feed it
//! the same exchanges in the same order, so their [`Topology::digest`]s agree.

mod told;
mod twins;

use std::collections::{BTreeMap, VecDeque};

use super::{DrPath, Guid, Lid, LinkSpeed, LinkWidth, NodeId, NodeKind, PortKey, Request};
use crate::mad::{
    Attribute, Mad, MgmtClass, MlnxExtPortInfo, MlnxSpeeds, NodeDescription, NodeInfo, PortCaps,
    PortCaps2, PortInfo, PortInfoExtended, SwitchInfo,
};

pub use told::{GET_PROTECTED, Told};
pub use twins::Doubt;

/// Full discoveries that a node may miss before it is forgotten.
pub const KEEP_MISSING: u32 = 6;

/// Vendor id of Mellanox, and device id of its aggregation nodes.
const MELLANOX: u32 = 0x2c9;
const AGGREGATION_NODE: u16 = 0xcf09;

/// PortState code of a port without a link.
const DOWN: u8 = 1;

/// A switch, adapter or router.
#[derive(Clone, Debug)]
pub struct Node {
    /// Identity.
    pub id: NodeId,
    /// CA, switch, router.
    pub kind: NodeKind,
    /// NodeInfo, as last answered.
    pub info: NodeInfo,
    /// Description, once read.
    pub description: Option<NodeDescription>,
    /// SwitchInfo of a switch, once read.
    pub switch: Option<SwitchInfo>,
    /// Ports by number. Slot 0 is a switch's management port and unused on other nodes.
    pub ports: Vec<Port>,
    /// The shortest known directed route to it.
    pub route: DrPath,
    /// The port by which that route enters it.
    pub entry: u8,
    /// Generation in which that route was last proven by an answer.
    pub proven: u32,
    /// Generation in which it last answered.
    pub seen: u32,
    /// It can be reached, as far as known: false once its last link went down or a full
    /// discovery did not find it.
    pub present: bool,
    /// An M_Key protects it: it is not asked, and what is known of it is what the SA tells.
    pub guarded: bool,
}

/// A port of a node.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// PortInfo, as last answered.
    pub info: Option<PortInfo>,
    /// Mellanox ExtendedPortInfo (FDR10), where asked.
    pub vendor: Option<MlnxExtPortInfo>,
    /// PortInfoExtended (FEC), where asked.
    pub extended: Option<PortInfoExtended>,
    /// Port GUID, where NodeInfo told it.
    pub guid: Option<Guid>,
    /// The other end of the link.
    pub peer: Option<PortKey>,
    /// The other end before the link went.
    pub last_peer: Option<PortKey>,
}

impl Port {
    /// PortState code; `None` if the port was never read.
    pub fn state(&self) -> Option<u8> {
        self.info.as_ref().map(|i| i.port_state().code())
    }

    /// True if the port has a link (Init, Armed or Active).
    pub fn is_up(&self) -> bool {
        matches!(self.state(), Some(2..=4))
    }

    /// Active width; `None` while the port is down or unread: its fields are garbage then.
    pub fn width(&self) -> Option<LinkWidth> {
        self.is_up().then_some(())?;
        Some(self.info.as_ref()?.link_width_active())
    }

    /// FDR10 bit of the vendor's attribute.
    fn fdr10(&self) -> bool {
        self.vendor
            .as_ref()
            .is_some_and(|v| v.speed_active().has(MlnxSpeeds::FDR10))
    }
}

impl Node {
    /// A port of this node.
    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.get(usize::from(number))
    }

    /// The numbers of its external ports: 1 to NumPorts.
    pub fn external_ports(&self) -> impl Iterator<Item = u8> + use<> {
        1..=u8::try_from(self.ports.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    /// The port whose capability masks speak for `port`: port 0 of a switch, else itself.
    fn mask_port(&self, port: u8) -> Option<&Port> {
        self.port(if self.kind == NodeKind::Switch {
            0
        } else {
            port
        })
    }

    /// CapabilityMask and CapabilityMask2 that hold for `port`: a switch keeps both at port 0.
    pub fn capability_masks(&self, port: u8) -> Option<(PortCaps, PortCaps2)> {
        let info = self.mask_port(port)?.info.as_ref()?;
        let mask = info.cap_mask();
        let mask2 = if mask.has(PortCaps::CAP_MASK2) {
            info.cap_mask2()
        } else {
            PortCaps2(0)
        };
        Some((mask, mask2))
    }

    /// Active speed of a port; `None` while it is down or unread.
    pub fn speed(&self, port: u8) -> Option<LinkSpeed> {
        let p = self.port(port)?;
        p.is_up().then_some(())?;
        let info = p.info.as_ref()?;
        let (mask, mask2) = self
            .capability_masks(port)
            .unwrap_or((PortCaps(0), PortCaps2(0)));
        let ext = if mask.has(PortCaps::EXT_SPEEDS) {
            info.link_speed_ext_active().code()
        } else {
            0
        };
        let ext2 = if mask2.has(PortCaps2::EXT_SPEEDS2) {
            info.link_speed_ext_active2().code()
        } else {
            0
        };
        Some(LinkSpeed::from_codes(
            info.link_speed_active().code(),
            ext,
            ext2,
            p.fdr10(),
        ))
    }

    /// The LID by which `port` is reached: a switch has one, at port 0. `None` if none is set.
    pub fn lid(&self, port: u8) -> Option<Lid> {
        let lid = self.mask_port(port)?.info.as_ref()?.lid();
        (lid != 0 && lid < 0xC000).then_some(lid)
    }

    /// A LID by which the node can be asked anything: port 0's, or that of an active port, first
    /// the one by which it was found.
    pub fn any_lid(&self) -> Option<Lid> {
        if self.kind == NodeKind::Switch {
            return self.lid(0);
        }
        std::iter::once(self.entry)
            .chain(self.external_ports())
            .filter(|p| self.is_in_subnet(*p))
            .filter(|p| self.port(*p).is_some_and(|p| p.state() == Some(4)))
            .find_map(|p| self.lid(p))
    }

    /// The port belongs to the subnet that was discovered: it is the one by which the node was
    /// found, or its link's other end is known. Other ports of an adapter may be plugged into
    /// another subnet, where other nodes have the same LIDs.
    pub fn is_in_subnet(&self, port: u8) -> bool {
        self.kind == NodeKind::Switch
            || port == self.entry
            || self.port(port).is_some_and(|p| p.peer.is_some())
    }

    /// The LID by which the counters of `port` are asked: its own, or if that is of another
    /// subnet, one by which the node is reached.
    pub fn asking_lid(&self, port: u8) -> Option<Lid> {
        if self.is_in_subnet(port) {
            self.lid(port)
        } else {
            self.any_lid()
        }
    }

    /// The switch has an enhanced port 0, which has counters of its own.
    pub fn has_enhanced_port0(&self) -> bool {
        self.switch.as_ref().is_some_and(|s| s.enhanced_port0())
    }
}

/// One thing that a reply changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node was seen for the first time.
    NodeAppeared(NodeId),
    /// A node that was missing answers again.
    NodeReturned(NodeId),
    /// A node cannot be reached any more.
    NodeMissing(NodeId),
    /// A node was forgotten after a long absence.
    NodeForgotten(NodeId),
    /// A node's description changed.
    Described(NodeId),
    /// Another node answers where this one was expected.
    Replaced {
        /// Who was expected.
        expected: NodeId,
        /// Who answered.
        found: NodeId,
    },
    /// A port's state changed; `from` is `None` when it was read for the first time.
    PortState {
        /// The port.
        port: PortKey,
        /// Code before.
        from: Option<u8>,
        /// Code now.
        to: u8,
    },
    /// Width or speed of a port that stayed up changed.
    LinkRate {
        /// The port.
        port: PortKey,
    },
    /// A port's LID changed, from one that was set.
    Lid {
        /// The port.
        port: PortKey,
        /// Before.
        from: Lid,
        /// Now.
        to: Lid,
    },
    /// A link was found.
    LinkFound(PortKey, PortKey),
    /// A link is gone.
    LinkLost(PortKey, PortKey),
    /// What is sent to this port's LID reaches another: its LID is another one by now.
    Elsewhere(PortKey),
    /// Somebody answers with a GUID that seems to be another's: this tells whether it is so.
    Doubt(Doubt),
    /// Two nodes share a GUID.
    Duplicate {
        /// The one that was known.
        first: NodeId,
        /// The one that was found.
        second: NodeId,
    },
    /// A node is protected by an M_Key and not asked any more; or it may be asked again.
    Guarded(NodeId, bool),
}

/// What a reply changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In the order in which they follow from one another.
    pub list: Vec<Change>,
    /// The node that answered, where the exchange tells.
    pub who: Option<NodeId>,
}

/// All nodes and links that were seen.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    generation: u32,
    local: Option<PortKey>,
    nodes: BTreeMap<NodeId, Node>,
    lids: BTreeMap<Lid, PortKey>,
    told: told::AllTold,
    claims: twins::Claims,
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

    fn forget(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.remove(&id) {
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
                            port.vendor = Some(info);
                        }
                    }
                    PortInfoExtended::ID => {
                        if let (Ok(info), Some(port)) = (
                            PortInfoExtended::from_bytes(view.data()),
                            self.port_mut(id.port((request.modifier & 0xFF) as u8)),
                        ) {
                            port.extended = Some(info);
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
        (!down && info.lid() != 0 && !fits).then_some(key)
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
        changes.who = Some(id);
        let entry = info.local_port();
        self.add_node(id, &info, request.path, changes);
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

    /// A node is there, by this route.
    fn add_node(
        &mut self,
        id: NodeId,
        info: &NodeInfo,
        route: Option<DrPath>,
        changes: &mut Changes,
    ) {
        let info = *info;
        let entry = info.local_port();
        let ports = usize::from(info.num_ports()) + 1;
        let kind = NodeKind::from_code(info.node_type().code());
        let present = self.nodes.get(&id).is_some_and(|n| n.present);
        if self.nodes.contains_key(&id) {
            self.saw(id, changes);
        } else {
            changes.list.push(Change::NodeAppeared(id));
        }
        let generation = self.generation;
        let node = self.nodes.entry(id).or_insert_with(|| Node {
            id,
            kind,
            info,
            description: None,
            switch: None,
            ports: Vec::new(),
            route: route.unwrap_or(DrPath::LOCAL),
            entry,
            proven: generation,
            seen: generation,
            present: true,
            guarded: false,
        });
        if std::mem::take(&mut node.guarded) {
            changes.list.push(Change::Guarded(id, false));
        }
        node.kind = kind;
        node.info = info;
        node.ports.resize_with(ports, Port::default);
        // The answer proves its route now; an older one may lead through a link that is gone.
        if let Some(route) = route
            && (route.len() <= node.route.len() || node.proven < generation || !present)
        {
            node.route = route;
            node.entry = entry;
            node.proven = generation;
        }
        let slot = if kind == NodeKind::Switch { 0 } else { entry };
        if let Some(port) = node.ports.get_mut(usize::from(slot)) {
            port.guid = Some(Guid(info.port_guid()));
        }
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

    fn link(&mut self, a: PortKey, b: PortKey, changes: &mut Changes) {
        let mut lost = false;
        for (end, other) in [(a, b), (b, a)] {
            if let Some(old) = self.port(end).and_then(|p| p.peer)
                && old != other
            {
                self.part(end, old, changes);
                lost = true;
            }
        }
        let mut fresh = false;
        for (end, other) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(end) {
                fresh |= port.peer != Some(other);
                port.peer = Some(other);
            }
        }
        if fresh {
            changes.list.push(Change::LinkFound(a, b));
        }
        // Only now: the new link may be the only one that leads to the node that answered.
        if lost {
            self.settle(changes);
        }
    }

    fn unlink(&mut self, a: PortKey, b: PortKey, changes: &mut Changes) {
        self.part(a, b, changes);
        self.settle(changes);
    }

    fn part(&mut self, a: PortKey, b: PortKey, changes: &mut Changes) {
        for (end, other) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(end)
                && port.peer == Some(other)
            {
                port.peer = None;
                port.last_peer = Some(other);
            }
        }
        changes.list.push(Change::LinkLost(a, b));
    }

    /// After a link went: finds nodes that no link leads to any more, and new routes to nodes
    /// whose old one is broken.
    fn settle(&mut self, changes: &mut Changes) {
        let Some(local) = self.local else {
            return;
        };
        let mut routes: BTreeMap<NodeId, (DrPath, u8)> = BTreeMap::new();
        let mut queue = VecDeque::from([local.node]);
        routes.insert(local.node, (DrPath::LOCAL, local.port));
        while let Some(id) = queue.pop_front() {
            let (Some(node), Some(&(route, _))) = (self.nodes.get(&id), routes.get(&id)) else {
                continue;
            };
            // Only switches pass a directed route on; the local node sends by its own port.
            if node.kind != NodeKind::Switch && id != local.node {
                continue;
            }
            for number in node.external_ports() {
                if id == local.node && node.kind != NodeKind::Switch && number != local.port {
                    continue;
                }
                let Some(peer) = node.port(number).and_then(|p| p.peer) else {
                    continue;
                };
                if let (false, Some(further)) =
                    (routes.contains_key(&peer.node), route.then(number))
                {
                    routes.insert(peer.node, (further, peer.port));
                    queue.push_back(peer.node);
                }
            }
        }
        let broken: Vec<NodeId> = self
            .nodes
            .values()
            .filter(|n| self.walk(&n.route) != Some(n.id))
            .map(|n| n.id)
            .collect();
        for id in broken {
            let Some(node) = self.nodes.get_mut(&id) else {
                continue;
            };
            match routes.get(&id) {
                Some(&(route, entry)) => {
                    node.route = route;
                    node.entry = entry;
                }
                None if node.present => {
                    node.present = false;
                    changes.list.push(Change::NodeMissing(id));
                }
                None => {}
            }
        }
    }

    /// The node that a directed route leads to over the links that are known.
    fn walk(&self, route: &DrPath) -> Option<NodeId> {
        route.hops().iter().try_fold(self.local?.node, |id, hop| {
            Some(self.port(id.port(*hop))?.peer?.node)
        })
    }

    /// The ports by which a directed route enters the nodes on its way, its last one excepted.
    /// `None` if it leads over a link that is not known.
    pub fn entries(&self, route: &DrPath) -> Option<Vec<u8>> {
        let mut at = self.local?.node;
        let (_, way) = route.hops().split_last()?;
        way.iter()
            .map(|hop| {
                let peer = self.port(at.port(*hop))?.peer?;
                at = peer.node;
                Some(peer.port)
            })
            .collect()
    }

    /// Where a port's link led, as somebody tells who saw it; nothing if more is known.
    pub fn recall(&mut self, port: PortKey, former: PortKey) {
        if let Some(own) = self.port_mut(port)
            && own.peer.is_none()
        {
            own.last_peer.get_or_insert(former);
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
