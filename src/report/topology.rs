//! The topology in the text form that `ibnetdiscover` made the common one.
//!
//! Parsers of it exist everywhere, so its bytes are kept to: tabs, double spaces, lower-case
//! GUIDs without leading zeros here and with them there. Nodes come in the order in which that
//! tool lists them: the reverse of the order in which a breadth-first walk that asks one question
//! at a time meets them. Only the date differs (it is in UTC).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use super::civil;
use crate::fabric::{LinkSpeed, Node, NodeId, NodeKind, PortKey, Topology};
use crate::mad::{Attribute, PhysState};
use crate::model::Model;
use crate::port::Stamp;

/// The whole fabric in `ibnetdiscover`'s format.
pub fn topology(model: &Model, now: Stamp) -> String {
    let topo = model.topology();
    let mut out = format!(
        "#\n# Topology file: generated on {}\n#\n",
        ctime(model.wall(now))
    );
    if let Some(local) = topo.local().and_then(|l| topo.node(l.node)) {
        let (node, port) = (local.id.guid.0, local.info.port_guid());
        let _ = writeln!(out, "# Initiated from node {node:016x} port {port:016x}");
    }
    let nodes = listed(topo);
    for kind in [NodeKind::Switch, NodeKind::Ca, NodeKind::Router] {
        for node in nodes.iter().filter(|n| n.kind == kind) {
            if kind == NodeKind::Switch {
                switch(model, node, &mut out);
            } else {
                adapter(model, node, &mut out);
            }
        }
    }
    out
}

/// `Sun Nov 29 22:16:46 2026`
fn ctime(wall: i64) -> String {
    let (year, month, day, h, m, s, weekday) = civil(wall);
    let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let weekday = days.get(weekday as usize).unwrap_or(&"???");
    let month = months.get(month as usize - 1).unwrap_or(&"???");
    format!("{weekday} {month} {day:2} {h:02}:{m:02}:{s:02} {year}")
}

/// A question of the walk.
enum Ask {
    /// Who is behind this port?
    Beyond(PortKey),
    Port(PortKey),
    /// The question about FDR10 that comes between a port's and the one beyond it.
    Vendor(PortKey),
}

/// The breadth-first walk whose order of arrival the tool's lists reverse.
struct Walk<'m> {
    topo: &'m Topology,
    local: PortKey,
    queue: VecDeque<Ask>,
    met: Vec<NodeId>,
    /// The port by which each node was entered first: no question leads back through it.
    entries: BTreeMap<NodeId, u8>,
}

impl Walk<'_> {
    fn is_switch(&self, id: NodeId) -> bool {
        self.topo
            .node(id)
            .is_some_and(|n| n.kind == NodeKind::Switch)
    }

    fn arrive(&mut self, key: PortKey) {
        let is_switch = self.is_switch(key.node);
        if let Entry::Vacant(entry) = self.entries.entry(key.node) {
            entry.insert(key.port);
            self.met.push(key.node);
            if is_switch {
                self.queue.push_back(Ask::Port(key.node.port(0)));
            }
        }
        if !is_switch {
            self.queue.push_back(Ask::Port(key));
        }
    }

    /// Whether there is a question to ask beyond a port.
    fn leads_on(&self, key: PortKey) -> bool {
        let up = self
            .topo
            .port(key)
            .and_then(|p| p.info.as_ref())
            .is_some_and(|i| i.phys_state() == PhysState::LinkUp);
        let further = self.is_switch(key.node) && self.entries.get(&key.node) != Some(&key.port);
        up && (further || key == self.local)
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Beyond(key) => {
                let peer = self.topo.port(key).and_then(|p| p.peer);
                // The local node is met again from its switch; that leads nowhere new.
                if let Some(peer) = peer.filter(|p| p.node != self.local.node) {
                    self.arrive(peer);
                }
            }
            Ask::Port(key) if key.port == 0 => {
                let ports = self.topo.node(key.node).map_or(0, |n| n.ports.len());
                let numbers = (1..ports).filter_map(|n| u8::try_from(n).ok());
                self.queue
                    .extend(numbers.map(|n| Ask::Port(key.node.port(n))));
            }
            Ask::Port(key) if self.topo.port(key).is_some_and(|p| p.vendor.is_some()) => {
                self.queue.push_back(Ask::Vendor(key));
            }
            Ask::Port(key) | Ask::Vendor(key) => {
                if self.leads_on(key) {
                    self.queue.push_back(Ask::Beyond(key));
                }
            }
        }
    }
}

/// Present nodes in the tool's order; what the walk does not reach follows in order of GUID.
fn listed(topo: &Topology) -> Vec<&Node> {
    let Some(local) = topo.local() else {
        return topo.nodes().filter(|n| n.present).collect();
    };
    let mut walk = Walk {
        topo,
        local,
        queue: VecDeque::new(),
        met: Vec::new(),
        entries: BTreeMap::new(),
    };
    walk.arrive(local);
    while let Some(ask) = walk.queue.pop_front() {
        walk.answer(ask);
    }
    let Walk { met, entries, .. } = walk;
    met.into_iter()
        .rev()
        .filter_map(|id| topo.node(id))
        .chain(topo.nodes().filter(|n| !entries.contains_key(&n.id)))
        .filter(|n| n.present)
        .collect()
}

/// A description as that tool shows it: 63 bytes, everything that is not printable ASCII a space.
fn plain(node: &Node) -> String {
    let bytes = node.description.as_ref().map_or(&[][..], Attribute::bytes);
    bytes
        .iter()
        .take(63)
        .take_while(|b| **b != 0)
        .map(|b| {
            if matches!(b, 0x20..=0x7E) {
                char::from(*b)
            } else {
                ' '
            }
        })
        .collect()
}

/// The mapped name where there is one, else the description.
fn name(model: &Model, node: &Node) -> String {
    match model.settings().names.get(&node.id.guid) {
        Some(_) => model.base_name(node.id).to_owned(),
        None => plain(node),
    }
}

fn quoted(node: &Node) -> String {
    let letter = match node.kind {
        NodeKind::Switch => 'S',
        NodeKind::Ca | NodeKind::Aggregation => 'H',
        NodeKind::Router => 'R',
        NodeKind::Unknown => '?',
    };
    format!("\"{letter}-{:016x}\"", node.id.guid.0)
}

fn ids(node: &Node, out: &mut String) {
    let info = &node.info;
    let _ = write!(
        out,
        "\nvendid={:#x}\ndevid={:#x}\n",
        info.vendor_id(),
        info.device_id()
    );
    if info.system_image_guid() != 0 {
        let _ = writeln!(out, "sysimgguid={:#x}", info.system_image_guid());
    }
}

fn port_lid_lmc(node: &Node, port: u8) -> (u16, u8) {
    let own = if node.kind == NodeKind::Switch {
        0
    } else {
        port
    };
    let info = node.port(own).and_then(|p| p.info.as_ref());
    info.map_or((0, 0), |i| (i.lid(), i.lmc()))
}

fn port_guid(node: &Node, port: u8) -> u64 {
    let guid = node.port(port).and_then(|p| p.guid);
    guid.map_or(node.info.port_guid(), |g| g.0)
}

/// Width and speed.
fn rate(node: &Node, port: u8) -> String {
    let info = node.port(port).and_then(|p| p.info.as_ref());
    let width = info.map(|i| i.link_width_active());
    let width = match width {
        Some(w) if w.lanes().is_some() => w.to_string(),
        _ => "??".to_owned(),
    };
    let speed = node.speed(port).unwrap_or(LinkSpeed::Unknown);
    format!("{width}{speed}")
}

fn switch(model: &Model, node: &Node, out: &mut String) {
    ids(node, out);
    let guid = node.id.guid.0;
    let _ = writeln!(out, "switchguid={guid:#x}({:x})", node.info.port_guid());
    let (lid, lmc) = port_lid_lmc(node, 0);
    let base = if node.has_enhanced_port0() {
        "enhanced"
    } else {
        "base"
    };
    let _ = writeln!(
        out,
        "Switch\t{} {}\t\t# \"{}\" {base} port 0 lid {lid} lmc {lmc}",
        node.info.num_ports(),
        quoted(node),
        name(model, node),
    );
    for port in node.external_ports() {
        let Some((peer, far)) = peer(model, node, port) else {
            continue;
        };
        let _ = write!(out, "[{port}]\t{}[{far}]", quoted(peer));
        if peer.kind != NodeKind::Switch {
            let _ = write!(out, "({:x}) ", port_guid(peer, far));
        }
        let (lid, _) = port_lid_lmc(peer, far);
        let _ = writeln!(
            out,
            "\t\t# \"{}\" lid {lid} {}",
            name(model, peer),
            rate(node, port)
        );
    }
}

fn adapter(model: &Model, node: &Node, out: &mut String) {
    ids(node, out);
    let (id, kind) = match node.kind {
        NodeKind::Router => ("rt", "Rt"),
        _ => ("ca", "Ca"),
    };
    let _ = writeln!(out, "{id}guid={:#x}", node.id.guid.0);
    let _ = writeln!(
        out,
        "{kind}\t{} {}\t\t# \"{}\"",
        node.info.num_ports(),
        quoted(node),
        plain(node)
    );
    for port in node.external_ports() {
        let Some((peer, far)) = peer(model, node, port) else {
            continue;
        };
        let own = port_guid(node, port);
        let _ = write!(out, "[{port}]({own:x}) \t{}[{far}]", quoted(peer));
        if peer.kind != NodeKind::Switch {
            let _ = write!(out, " ({:x}) ", port_guid(peer, far));
        }
        let (lid, lmc) = port_lid_lmc(node, port);
        let (far_lid, _) = port_lid_lmc(peer, far);
        let _ = writeln!(
            out,
            "\t\t# lid {lid} lmc {lmc} \"{}\" lid {far_lid} {}",
            name(model, peer),
            rate(node, port)
        );
    }
}

fn peer<'m>(model: &'m Model, node: &Node, port: u8) -> Option<(&'m Node, u8)> {
    let key = node.port(port)?.peer?;
    Some((model.topology().node(key.node)?, key.port))
}
