//! Nodes that share a GUID, which badly flashed adapters and switches do: told apart without
//! taking a node that is reached by two ways, was moved, or was changed, for two.
//!
//! What no single node can do is evidence: a port has one cable, so two links that lead to the
//! same port of the same GUID lead to two nodes, if both still do when asked again; and a port
//! that its node says is down has nobody at its other end. Other facts of NodeInfo that differ
//! raise the same question. Until the second answer nothing is concluded; a link that turns out
//! to be gone was moved. The question is put to whoever of the known link's ends passes a
//! directed route on: the switch at its other end, or, where a host is there, the node itself.
//!
//! Once a switch has a twin, which of them a further link leads to is found from the switches'
//! own side, since a directed route tells them apart and a GUID does not.

use std::collections::BTreeMap;

use super::{Change, Changes, DOWN, DrPath, Node, NodeKind, Topology};
use crate::fabric::{NodeId, PortKey, Request};
use crate::mad::NodeInfo;

/// Nodes beyond the first that are told apart by one GUID.
const MOST_TWINS: u8 = 16;

/// What decides whether a claim is a twin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Who answers behind this port now.
    Behind(PortKey),
    /// Whether this port is still down.
    Port(PortKey),
}

/// Somebody answered with a GUID that is another's, as far as is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    node: NodeId,
    info: NodeInfo,
    route: Option<DrPath>,
    doubt: Doubt,
}

impl Claim {
    pub(super) fn is_not_of(&self, id: NodeId) -> bool {
        self.node != id
    }
}

/// All claims, by the port behind which they were made.
pub(super) type Claims = BTreeMap<PortKey, Claim>;

/// How a known node stands to an answer with its GUID.
enum Fit {
    /// It can be this one.
    Free,
    /// It cannot, unless the doubt says so.
    Doubtful(Doubt),
}

/// What stays the same while a node is the same.
fn facts(info: &NodeInfo) -> (u8, u8, u64, u16, u32) {
    (
        info.node_type().code(),
        info.num_ports(),
        info.system_image_guid(),
        info.device_id(),
        info.vendor_id(),
    )
}

impl Topology {
    /// All nodes with a GUID.
    pub(super) fn namesakes(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        let first = NodeId { twin: 0, ..id };
        let last = NodeId {
            twin: u8::MAX,
            ..id
        };
        self.nodes.range(first..=last).map(|(_, node)| node)
    }

    /// Whose answer this is; `None` while that is in doubt.
    pub(super) fn identify(
        &mut self,
        request: &Request,
        info: &NodeInfo,
        changes: &mut Changes,
    ) -> Option<NodeId> {
        let plain = NodeId::new(info.node_guid());
        let same = |id: NodeId| id.guid == plain.guid;
        if let Some(id) = request.target.node.filter(|id| same(*id)) {
            return Some(id);
        }
        let Some(via) = request.target.via else {
            return Some(
                self.local
                    .map(|l| l.node)
                    .filter(|l| same(*l))
                    .unwrap_or(plain),
            );
        };
        let peer = self.port(via).and_then(|p| p.peer);
        if let Some(peer) = peer.filter(|p| same(p.node)) {
            self.heard_again(via, peer, info, changes);
            return Some(peer.node);
        }
        let entry = info.local_port();
        let fits: Vec<(NodeId, Fit)> = self
            .namesakes(plain)
            .map(|node| (node.id, self.fit(node, entry, info)))
            .collect();
        let alone = fits.len() == 1;
        let free = fits
            .iter()
            .find(|(_, fit)| matches!(fit, Fit::Free))
            .map(|(id, _)| *id);
        let switch = NodeKind::from_code(info.node_type().code()) == NodeKind::Switch;
        match (free, fits.into_iter().next()) {
            (_, None) => Some(plain),
            (Some(id), _) if alone || !switch => Some(id),
            // One of several, or a further one: found from their own side.
            (Some(_), _) => None,
            (None, Some((node, Fit::Doubtful(doubt)))) => {
                let claim = Claim {
                    node,
                    info: *info,
                    route: request.path,
                    doubt,
                };
                self.claims.insert(via, claim);
                changes.list.push(Change::Doubt(doubt));
                None
            }
            (None, Some((id, Fit::Free))) => Some(id),
        }
    }

    /// A directed route can lead on through this port.
    fn passes_on(&self, key: PortKey) -> bool {
        let switch = |n: &Node| n.kind == NodeKind::Switch;
        self.local == Some(key) || self.node(key.node).is_some_and(switch)
    }

    fn fit(&self, node: &Node, entry: u8, info: &NodeInfo) -> Fit {
        if !node.present {
            return Fit::Free;
        }
        if facts(&node.info) != facts(info) {
            // Its own link tells whether it is still what it was.
            let own = node.port(node.entry).and_then(|p| p.peer);
            return own.map_or(Fit::Free, |own| Fit::Doubtful(Doubt::Behind(own)));
        }
        match node.port(entry) {
            Some(port) => match (port.peer, port.state()) {
                (Some(peer), _) if self.passes_on(peer) => Fit::Doubtful(Doubt::Behind(peer)),
                // No route leads back through a host: whether it is still there, its own port
                // tells.
                (Some(_), _) => Fit::Doubtful(Doubt::Behind(node.id.port(entry))),
                (None, Some(DOWN)) => Fit::Doubtful(Doubt::Port(node.id.port(entry))),
                (None, _) => Fit::Free,
            },
            None => Fit::Free,
        }
    }

    /// A known link's other end answered: claims that contradict it are a twin's.
    fn heard_again(&mut self, via: PortKey, peer: PortKey, info: &NodeInfo, changes: &mut Changes) {
        let doubted: Vec<PortKey> = self
            .claims
            .iter()
            .filter(|(_, c)| {
                c.doubt == Doubt::Behind(via) && (c.node == peer.node || c.node == via.node)
            })
            .map(|(at, _)| *at)
            .collect();
        for at in doubted {
            let Some(claim) = self.claims.remove(&at) else {
                continue;
            };
            let changed = claim.node == peer.node
                && self
                    .node(peer.node)
                    .is_some_and(|n| facts(&n.info) != facts(info));
            let taken = claim.info.local_port() == peer.port;
            if changed && !taken {
                // The node itself is another than it was, by both its links.
                self.link(at, peer.node.port(claim.info.local_port()), changes);
            } else {
                self.make_twin(at, &claim, changes);
            }
        }
    }

    /// A port was read: whoever claims to be at its end while it is down is a twin.
    pub(super) fn port_heard(&mut self, key: PortKey, state: u8, changes: &mut Changes) {
        let doubted: Vec<PortKey> = self
            .claims
            .iter()
            .filter(|(_, c)| c.doubt == Doubt::Port(key))
            .map(|(at, _)| *at)
            .collect();
        for at in doubted {
            let Some(claim) = self.claims.remove(&at) else {
                continue;
            };
            if state == DOWN {
                self.make_twin(at, &claim, changes);
            } else {
                self.link(at, key, changes);
            }
        }
    }

    /// Links that claims were doubted for are gone: the node was moved. At a discovery's end, so
    /// it is for all that were not contradicted.
    pub(super) fn settle_claims(&mut self, all: bool, changes: &mut Changes) {
        if self.claims.is_empty() {
            return;
        }
        let settled: Vec<PortKey> = self
            .claims
            .iter()
            .filter(|(_, claim)| match claim.doubt {
                Doubt::Behind(other) => {
                    let leads = self.port(other).and_then(|p| p.peer);
                    let own = other.node == claim.node;
                    all || leads.is_none_or(|peer| !own && peer.node != claim.node)
                }
                Doubt::Port(_) => all,
            })
            .map(|(at, _)| *at)
            .collect();
        for at in settled {
            let Some(claim) = self.claims.remove(&at) else {
                continue;
            };
            // A host that is silent neither confirms its link nor gives it up.
            let silent = matches!(claim.doubt, Doubt::Behind(own)
                if own.node == claim.node && self.port(own).is_some_and(|p| p.peer.is_some()));
            if !silent && self.nodes.contains_key(&claim.node) {
                self.link(at, claim.node.port(claim.info.local_port()), changes);
            }
        }
    }

    fn make_twin(&mut self, via: PortKey, claim: &Claim, changes: &mut Changes) {
        let settled = self.port(via).and_then(|p| p.peer);
        if settled.is_some_and(|peer| peer.node.guid == claim.node.guid) {
            return;
        }
        // Another one may have been found meanwhile, to which this link can lead as well.
        let entry = claim.info.local_port();
        let other = self
            .namesakes(claim.node)
            .filter(|n| n.id != claim.node)
            .find(|n| matches!(self.fit(n, entry, &claim.info), Fit::Free))
            .map(|n| (n.id, n.kind));
        match other {
            Some((_, NodeKind::Switch)) => return,
            Some((id, _)) => return self.link(via, id.port(entry), changes),
            None => {}
        }
        let taken: Vec<u8> = self.namesakes(claim.node).map(|n| n.id.twin).collect();
        let Some(twin) = (1..=MOST_TWINS).find(|twin| !taken.contains(twin)) else {
            return;
        };
        let id = NodeId { twin, ..claim.node };
        if !self.add_node(id, &claim.info, claim.route, changes) {
            return;
        }
        changes.list.push(Change::Duplicate {
            first: claim.node,
            second: id,
        });
        self.link(via, id.port(claim.info.local_port()), changes);
    }
}
