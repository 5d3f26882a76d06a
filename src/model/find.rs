//! Whom an operator means: a name, a GUID or a LID, with a port or without.

use super::Model;
use crate::fabric::{Guid, Lid, NodeId, NodeKind, PortKey};

/// A place that an operator named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The port, if one was named.
    pub port: Option<u8>,
    /// The LID, if one was named.
    pub lid: Option<Lid>,
}

/// `text` without a port at its end (`[3]` or `:3`), and that port.
fn split_port(text: &str) -> Option<(&str, u8)> {
    let (head, port) = match text.strip_suffix(']') {
        Some(inner) => inner.rsplit_once('[')?,
        None => text.rsplit_once(':')?,
    };
    Some((head, port.parse().ok()?))
}

impl Model {
    /// The node (and port, and LID) that a text names: a node's name or the first word of it, a
    /// node's or port's GUID, or a LID; `[port]` or `:port` may follow a name or GUID.
    ///
    /// # Errors
    /// A sentence for the user: nobody is called that, or several are.
    pub fn find(&self, text: &str) -> Result<Place, String> {
        let text = text.trim();
        if let Some(node) = self.find_node(text)? {
            return Ok(node);
        }
        if let Some((head, port)) = split_port(text)
            && let Some(place) = self.find_node(head)?
        {
            if place.lid.is_some() || place.port.is_some_and(|p| p != port) {
                return Err(format!(
                    "{text:?} names a port twice: give a LID or port GUID alone, or a node with \
                     its port"
                ));
            }
            let node = self.topology.node(place.node);
            if node.and_then(|n| n.port(port)).is_none() {
                return Err(format!("{} has no port {port}", self.name(place.node)));
            }
            return Ok(Place {
                port: Some(port),
                ..place
            });
        }
        Err(format!(
            "no node is called {text:?}: give a name, 0xGUID or LID as `fabtop report nodes` \
             lists them"
        ))
    }

    /// Nobody that discovery found is called so.
    pub fn is_unseen(&self, text: &str) -> bool {
        let text = text.trim();
        let by_lid = text
            .parse::<u16>()
            .is_ok_and(|lid| self.topology.by_lid(lid).is_none());
        by_lid || self.find_node(text) == Ok(None) && split_port(text).is_none()
    }

    fn find_node(&self, text: &str) -> Result<Option<Place>, String> {
        let place = |node| Place {
            node,
            port: None,
            lid: None,
        };
        if text.starts_with("0x") || text.starts_with("0X") {
            let Ok(guid) = text.parse::<Guid>() else {
                return Ok(None);
            };
            let twins: Vec<NodeId> = self.topology.twins(guid).map(|n| n.id).collect();
            return match twins.as_slice() {
                [] => Ok(self.port_guids.get(&guid.0).map(|key| Place {
                    port: Some(key.port),
                    ..place(key.node)
                })),
                [one] => Ok(Some(place(*one))),
                several => Err(self.ambiguous(text, several)),
            };
        }
        if let Ok(lid) = text.parse::<u16>() {
            let Some(key) = self.topology.by_lid(lid) else {
                return Err(format!(
                    "no port that answered has LID {lid}: `fabtop report sa` tells whether the SA \
                     has it"
                ));
            };
            return Ok(Some(Place {
                node: key.node,
                port: Some(key.port),
                lid: Some(lid),
            }));
        }
        let first = |name: &str| name.split(' ').next().unwrap_or_default() == text;
        for fits in [
            &(|id| self.name(id) == text) as &dyn Fn(NodeId) -> bool,
            &|id| self.base_name(id) == text,
            &|id| first(self.base_name(id)),
        ] {
            let found: Vec<NodeId> = self
                .topology
                .nodes()
                .map(|n| n.id)
                .filter(|id| fits(*id))
                .collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(Some(place(*one))),
                several => return Err(self.ambiguous(text, several)),
            }
        }
        Ok(None)
    }

    fn ambiguous(&self, text: &str, several: &[NodeId]) -> String {
        let list: Vec<String> = several.iter().take(4).map(ToString::to_string).collect();
        let more = if several.len() > 4 { ", …" } else { "" };
        format!(
            "{} nodes are called {text:?}: name one by its GUID: {}{more}",
            several.len(),
            list.join(", ")
        )
    }

    /// The port at which a path begins or ends: a switch's port 0, an adapter's port with a LID.
    ///
    /// # Errors
    /// A sentence for the user: the node has no such port, or several.
    pub fn end_port(&self, place: Place) -> Result<PortKey, String> {
        let name = self.name(place.node);
        let Some(node) = self.topology.node(place.node) else {
            return Err(format!("{} is not known any more", place.node));
        };
        if node.kind == NodeKind::Switch {
            return match place.port {
                None | Some(0) => Ok(place.node.port(0)),
                Some(port) => Err(format!(
                    "{name} is a switch: a path begins or ends at its port 0, not at port {port}"
                )),
            };
        }
        if let Some(port) = place.port {
            return match node.lid(port) {
                Some(_) => Ok(place.node.port(port)),
                None => Err(format!(
                    "{name} port {port} has no LID: no path leads there"
                )),
            };
        }
        let ports: Vec<u8> = node
            .external_ports()
            .filter(|p| node.lid(*p).is_some() && node.port(*p).is_some_and(|p| p.is_up()))
            .collect();
        match ports.as_slice() {
            [] => Err(format!(
                "{name} has no port with a LID: no path leads there"
            )),
            [one] => Ok(place.node.port(*one)),
            several => Err(format!(
                "{name} has {} ports: name one, as in {:?}",
                several.len(),
                format!("{name}[{}]", several.first().copied().unwrap_or(1))
            )),
        }
    }

    /// The LID by which a path leads to a port: the one that was named, or its base LID with
    /// `bits` added where its LMC allows.
    ///
    /// # Errors
    /// A sentence for the user: the port's LMC has no such path bits.
    pub fn path_lid(&self, place: Place, key: PortKey, bits: Option<u8>) -> Result<Lid, String> {
        let node = self.topology.node(key.node);
        let Some(base) = node.and_then(|n| n.lid(key.port)) else {
            return Err(format!(
                "{} has no LID: no path leads there",
                self.port_name(key)
            ));
        };
        let lmc = node
            .and_then(|n| n.port(key.port)?.info.as_ref())
            .map_or(0, |i| i.lmc());
        match bits {
            None => Ok(place.lid.unwrap_or(base)),
            Some(bits) if u32::from(bits) < 1 << lmc => Ok(base + u16::from(bits)),
            Some(bits) => Err(format!(
                "{} has {} (LMC {lmc}): there are no path bits {bits}",
                self.port_name(key),
                super::so_many(1 << lmc, "LID", "LIDs")
            )),
        }
    }
}
