//! Links: how they are found and lost, and the ways that they make.

use std::collections::{BTreeMap, VecDeque};

use super::{Change, Changes, Topology};
use crate::fabric::{DrPath, NodeId, NodeKind, PortKey};

impl Topology {
    pub(super) fn link(&mut self, a: PortKey, b: PortKey, changes: &mut Changes) {
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

    pub(super) fn unlink(&mut self, a: PortKey, b: PortKey, changes: &mut Changes) {
        self.part(a, b, changes);
        self.settle(changes);
    }

    pub(super) fn part(&mut self, a: PortKey, b: PortKey, changes: &mut Changes) {
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
    pub(super) fn settle(&mut self, changes: &mut Changes) {
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
    pub(super) fn walk(&self, route: &DrPath) -> Option<NodeId> {
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
}
