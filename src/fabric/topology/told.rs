//! What the SA tells of nodes that cannot be asked: those behind a link whose other end is
//! silent, and those that an M_Key protects.
//!
//! The SA is believed only where a node itself says nothing: whoever answers stands for himself.

use std::collections::BTreeMap;

use super::{Change, Changes, DrPath, Node, NodeKind, Topology};
use crate::fabric::{Lid, NodeId, PortKey, Request};
use crate::mad::{
    Attribute, LinkRecord, Mad, Method, NodeDescription, NodeInfo, NodeRecord, PortInfo,
    PortInfoRecord, SwitchInfoRecord, records,
};

/// M_KeyProtectBits from which a Get without the key is not answered (spec 14.2.4).
pub const GET_PROTECTED: u8 = 2;

/// Who is at the other end of a port, as the SA tells it.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// LID of that end.
    pub lid: Lid,
    /// Its port number there.
    pub port: u8,
    /// Who it is.
    pub node: Option<(NodeInfo, NodeDescription)>,
    /// M_KeyProtectBits of that port.
    pub protect: Option<u8>,
}

impl Told {
    /// Its identity.
    pub fn id(&self) -> Option<NodeId> {
        self.node.map(|(info, _)| NodeId::new(info.node_guid()))
    }
}

/// All that was told, by the port whose other end is silent.
pub(super) type AllTold = BTreeMap<PortKey, Told>;

impl Topology {
    /// Who the SA says is at the other end of this port, if its own words are missing.
    pub fn told(&self, via: PortKey) -> Option<&Told> {
        self.told.get(&via)
    }

    /// All that the SA told of who is at the other end of ports at which nobody answers.
    pub fn all_told(&self) -> impl Iterator<Item = (PortKey, &Told)> {
        self.told.iter().map(|(via, told)| (*via, told))
    }

    /// Learns from a single record that was asked for where a node is silent.
    pub(super) fn learn_record(&mut self, request: &Request, reply: &Mad, changes: &mut Changes) {
        if request.method != Method::Get.code() || !request.is_answered_by(reply) {
            return;
        }
        let view = reply.view();
        let ok = view.status().is_ok();
        let target = request.target;
        match (request.attribute, target.node, target.via) {
            (LinkRecord::ID, None, Some(via)) => {
                match records::<LinkRecord>(&view).next().filter(|_| ok) {
                    Some(record) => {
                        let told = self.told.entry(via).or_default();
                        if (told.lid, told.port) != (record.to_lid(), record.to_port()) {
                            *told = Told {
                                lid: record.to_lid(),
                                port: record.to_port(),
                                ..Told::default()
                            };
                        }
                    }
                    None => {
                        self.told.remove(&via);
                    }
                }
            }
            (NodeRecord::ID, None, Some(via)) if ok => {
                if let (Some(record), Some(told)) =
                    (records::<NodeRecord>(&view).next(), self.told.get_mut(&via))
                {
                    told.node = Some((record.node_info(), record.description()));
                }
            }
            (PortInfoRecord::ID, None, Some(via)) if ok => {
                if let Some(record) = records::<PortInfoRecord>(&view).next() {
                    self.told_port(via, record.port_info(), changes);
                }
            }
            (SwitchInfoRecord::ID, Some(id), _) if ok => {
                if let Some(record) = records::<SwitchInfoRecord>(&view).next()
                    && let Some(node) = self.nodes.get_mut(&id)
                    && node.guarded
                {
                    node.switch = Some(record.switch_info());
                }
            }
            (PortInfoRecord::ID, Some(id), _) if ok => {
                let known = self.nodes.contains_key(&id);
                if let Some(record) = records::<PortInfoRecord>(&view).next().filter(|_| known) {
                    changes.who = Some(id);
                    self.saw(id, changes);
                    self.learn_port_info(id.port(target.port), record.port_info(), changes);
                }
            }
            _ => {}
        }
    }

    /// PortInfo of the silent end came. If it says that the node is protected, what the SA tells
    /// stands in for it.
    fn told_port(&mut self, via: PortKey, info: PortInfo, changes: &mut Changes) {
        let Some(told) = self.told.get_mut(&via) else {
            return;
        };
        told.protect = Some(info.m_key_protect());
        let (Some((node_info, description)), port) = (told.node, told.port) else {
            return;
        };
        let id = NodeId::new(node_info.node_guid());
        changes.who = Some(id);
        let protected = info.m_key_protect() >= GET_PROTECTED;
        let guarded = self.nodes.get(&id).map(|n| n.guarded);
        if guarded == Some(true) && !protected {
            // It may be asked again.
            changes.list.extend(self.guard(id, false).list);
            return;
        }
        if !protected && guarded != Some(true) {
            return;
        }
        self.stand_in(via, port, node_info, description, changes);
        let kind = NodeKind::from_code(node_info.node_type().code());
        let slot = if kind == NodeKind::Switch { 0 } else { port };
        self.learn_port_info(id.port(slot), info, changes);
    }

    fn stand_in(
        &mut self,
        via: PortKey,
        entry: u8,
        info: NodeInfo,
        description: NodeDescription,
        changes: &mut Changes,
    ) {
        let id = NodeId::new(info.node_guid());
        let generation = self.generation;
        let route = self.node(via.node).and_then(|n| n.route.then(via.port));
        let way = (route.unwrap_or(DrPath::LOCAL), entry);
        self.nodes.entry(id).or_insert_with(|| {
            changes.list.push(Change::NodeAppeared(id));
            Node::found(id, info, way, generation)
        });
        changes.list.extend(self.guard(id, true).list);
        self.saw(id, changes);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.informed(info, entry);
            if let Some(route) = route
                && node.proven < generation
            {
                node.route = route;
                node.entry = entry;
                node.proven = generation;
            }
        }
        self.learn_description(id, description, changes);
        self.link(via, id.port(entry), changes);
    }

    /// A node is protected by an M_Key that is not ours, so that it is not asked any more; or it
    /// may be asked again.
    pub fn guard(&mut self, id: NodeId, guarded: bool) -> Changes {
        let mut changes = Changes::default();
        if let Some(node) = self.nodes.get_mut(&id)
            && node.guarded != guarded
        {
            node.guarded = guarded;
            changes.list.push(Change::Guarded(id, guarded));
        }
        changes
    }
}
