//! What replies of subnet management change: nodes, links, names, subnet managers.

use std::time::Duration;

use super::Model;
use super::log::Kind;
use super::state::{NodeData, PortData};
use super::view::SubnetSize;
use crate::event::Severity;
use crate::fabric::best::link_of;
use crate::fabric::{Change, Changes, NodeId, NodeKind, PortKey, Request};
use crate::mad::{
    Attribute, Mad, MgmtClass, MlnxExtPortInfo, NodeInfo, PortInfo, PortInfoExtended, PortState,
    SwitchInfo,
};
use crate::port::Stamp;

const DOWN: u8 = 1;
const ACTIVE: u8 = 4;

/// The nodes whose rows a change is seen in.
fn nodes_of(change: &Change) -> [Option<NodeId>; 2] {
    match *change {
        Change::NodeAppeared(id)
        | Change::NodeReturned(id)
        | Change::NodeMissing(id)
        | Change::NodeForgotten(id)
        | Change::Described(id)
        | Change::Guarded(id, _) => [Some(id), None],
        Change::Replaced { expected, found } => [Some(expected), Some(found)],
        Change::PortState { port, .. } | Change::LinkRate { port } | Change::Lid { port, .. } => {
            [Some(port.node), None]
        }
        Change::Duplicate { first, second } => [Some(first), Some(second)],
        Change::Doubt(_) | Change::Elsewhere(_) | Change::Full => [None, None],
        Change::LinkFound(a, b) | Change::LinkLost(a, b) => [Some(a.node), Some(b.node)],
    }
}

impl Model {
    /// The index of a node's data; made if there is none.
    pub(super) fn slot_of(&mut self, id: NodeId) -> u32 {
        if let Some(slot) = self.index.get(&id) {
            return *slot;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.nodes.push(NodeData::default());
                (self.nodes.len() - 1) as u32
            }
        };
        if let Some(data) = self.nodes.get_mut(slot as usize) {
            *data = NodeData {
                id,
                ..NodeData::default()
            };
        }
        self.index.insert(id, slot);
        self.lay_out();
        self.rename(id);
        slot
    }

    /// Works a node's name out again.
    pub(super) fn rename(&mut self, id: NodeId) {
        let description = self.topology.node(id).and_then(|n| n.description.as_ref());
        let base = self.names.base(id, description.map(Attribute::bytes));
        let Some(data) = self.data_mut(id) else {
            return;
        };
        let old = std::mem::replace(&mut data.base, base.clone());
        let old = (!old.is_empty()).then_some(old);
        let renamed = self.names.assign(id, old.as_deref(), &base);
        self.take_names(renamed);
    }

    fn take_names(&mut self, renamed: super::names::Renamed) {
        if !renamed.is_empty() {
            self.lay_out();
        }
        for (id, name) in renamed {
            if let Some(data) = self.data_mut(id) {
                data.name = name;
            }
            let vias: Vec<_> = self
                .unexplored
                .range(Some(id.port(0))..=Some(id.port(u8::MAX)))
                .map(|(via, _)| *via)
                .collect();
            for via in vias {
                let name = self.unexplored_name(via);
                if let Some((old, _)) = self.unexplored.get_mut(&via) {
                    *old = name;
                }
            }
        }
    }

    /// What whoever stands at the other end of a port is called.
    pub(super) fn unexplored_name(&self, via: Option<PortKey>) -> String {
        match via {
            Some(via) => match self.topology.told(via).and_then(|told| told.node) {
                Some((_, description)) => format!(
                    "beyond {} (SA: {})",
                    self.port_name(via),
                    crate::fabric::names::clean(description.bytes())
                ),
                None => format!("beyond {}", self.port_name(via)),
            },
            None => "local node".to_owned(),
        }
    }

    fn forget(&mut self, id: NodeId) {
        self.uncount(id);
        let Some(slot) = self.index.remove(&id) else {
            return;
        };
        let base = self
            .nodes
            .get_mut(slot as usize)
            .map(|data| std::mem::take(data).base)
            .unwrap_or_default();
        self.free.push(slot);
        self.details.forget(id);
        self.port_guids.retain(|_, key| key.node != id);
        let renamed = self.names.remove(id, &base);
        self.take_names(renamed);
    }

    /// Learns from an answered SMP; says which node answered, where that can be told.
    pub(super) fn learn(&mut self, at: Stamp, request: &Request, reply: &Mad) -> Option<NodeId> {
        let changes = self.topology.learn(request, reply);
        self.tables.learn(at, request, reply);
        self.apply_changes(at, &changes);
        let via = request.target.via;
        if request.class == MgmtClass::SubnAdm.code() && self.unexplored.contains_key(&via) {
            let name = self.unexplored_name(via);
            if let Some((old, _)) = self.unexplored.get_mut(&via) {
                *old = name;
            }
            // A row says who the SA has there.
            if let Some(via) = via {
                self.touch(via.node);
            }
        }
        let id = changes.who?;
        let slot = self.slot_of(id);
        let ports = self.topology.node(id).map_or(0, |n| n.ports.len());
        if let Some(data) = self.nodes.get_mut(slot as usize)
            && data.ports.len() != ports
        {
            data.ports.resize_with(ports, PortData::default);
            self.lay_out();
        }
        if request.class == MgmtClass::SubnAdm.code() {
            // What the SA tells of a node that is not asked: of one port, or of its first.
            let numbers = match request.target.node {
                Some(_) => request.target.port..=request.target.port,
                None => 0..=u8::try_from(ports.saturating_sub(1)).unwrap_or(u8::MAX),
            };
            for number in numbers {
                let told = self
                    .topology
                    .port(id.port(number))
                    .is_some_and(|p| p.info.is_some());
                if let (true, Some(port)) = (
                    told,
                    self.data_mut(id)
                        .and_then(|n| n.ports.get_mut(usize::from(number))),
                ) {
                    port.info_at = Some(at);
                }
                self.refresh(id, number);
            }
            self.learn_port_guids(id);
            return Some(id);
        }
        // The modifier's top bit only says that we know extended speeds.
        let number = (request.modifier & 0xFF) as u8;
        match request.attribute {
            NodeInfo::ID => self.learn_port_guids(id),
            PortInfo::ID => {
                if let Some(port) = self
                    .nodes
                    .get_mut(slot as usize)
                    .and_then(|n| n.ports.get_mut(usize::from(number)))
                {
                    port.info_at = Some(at);
                }
                self.refresh(id, number);
                self.judge_link(at, id.port(number));
            }
            MlnxExtPortInfo::ID => {
                self.refresh(id, number);
                self.judge_link(at, id.port(number));
            }
            PortInfoExtended::ID => self.learn_fec(id, number, reply),
            SwitchInfo::ID => self.refresh(id, 0),
            _ => {}
        }
        Some(id)
    }

    fn learn_fec(&mut self, id: NodeId, number: u8, reply: &Mad) {
        let mode = match PortInfoExtended::parse(&reply.view()) {
            // Bit 0: the modes are valid.
            Ok(info) if reply.status().is_ok() && info.cap_mask() & 1 != 0 => {
                Some(info.fec_mode_active())
            }
            _ => return,
        };
        if let Some(port) = self
            .data_mut(id)
            .and_then(|n| n.ports.get_mut(usize::from(number)))
        {
            port.fec_mode = mode;
        }
    }

    fn learn_port_guids(&mut self, id: NodeId) {
        let Some(node) = self.topology.node(id) else {
            return;
        };
        for (number, port) in node.ports.iter().enumerate() {
            if let (Some(guid), Ok(number)) = (port.guid, u8::try_from(number)) {
                self.port_guids.insert(guid.0, id.port(number));
            }
        }
    }

    /// Works out again what a port's PortInfo decides; that of a switch's port 0 decides for all
    /// its ports, since the capability masks are there.
    fn refresh(&mut self, id: NodeId, number: u8) {
        let Some(node) = self.topology.node(id) else {
            return;
        };
        let all = number == 0 && node.kind == NodeKind::Switch;
        let numbers = if all {
            0..=u8::try_from(node.ports.len().saturating_sub(1)).unwrap_or(u8::MAX)
        } else {
            number..=number
        };
        for number in numbers {
            self.refresh_port(id.port(number));
            if let Some(peer) = self.topology.port(id.port(number)).and_then(|p| p.peer) {
                self.refresh_port(peer);
            }
        }
    }

    fn refresh_port(&mut self, key: PortKey) {
        let Some(node) = self.topology.node(key.node) else {
            return;
        };
        // Before its PortInfo was read there is nothing to work out: most of a discovery's calls.
        let Some(port) = node.port(key.port).filter(|p| p.info.is_some()) else {
            return;
        };
        let lane = node
            .speed(key.port)
            .and_then(|s| s.lane_gbps())
            .map_or(0.0, |gbps| gbps * 1e9);
        let lanes = port.width().and_then(|w| w.lanes()).unwrap_or(0);
        let link = link_of(&self.topology, node, key.port);
        let up = port.is_up();
        self.touch(key.node);
        if let Some(data) = self
            .data_mut(key.node)
            .and_then(|n| n.ports.get_mut(usize::from(key.port)))
        {
            data.lane_bps = lane;
            data.capacity_bps = lane * f64::from(lanes);
            data.below = link.below;
            data.had_link |= up;
        }
        self.count_link(key, link.peer);
    }

    /// Takes in what the topology says has changed, and puts it into words where it is news.
    pub(super) fn apply_changes(&mut self, at: Stamp, changes: &Changes) {
        if !changes.list.is_empty() {
            self.size = None;
            self.tables.note(at, changes);
        }
        for change in &changes.list {
            for node in nodes_of(change).into_iter().flatten() {
                self.touch(node);
            }
            match *change {
                Change::NodeAppeared(id) => {
                    self.slot_of(id);
                    if self.discovered {
                        self.announce.push((at, id, None));
                    }
                }
                Change::NodeReturned(id) => {
                    let guarded = self.topology.node(id).is_some_and(|n| n.guarded);
                    if let Some(data) = self.data_mut(id).filter(|_| !guarded) {
                        data.dest.away = None;
                    }
                    self.judge_presence(at, id, true);
                    let text = format!("{} is back", self.name(id));
                    self.about(at, Kind::Node, Severity::Info, id.port(0), text);
                }
                Change::NodeMissing(id) => {
                    if let Some(data) = self.data_mut(id) {
                        data.dest.away.get_or_insert(at);
                    }
                    self.judge_presence(at, id, false);
                    let text = format!("{} cannot be reached any more", self.name(id));
                    self.about(at, Kind::Node, Severity::Warning, id.port(0), text);
                }
                Change::NodeForgotten(id) => {
                    let text = format!("{} was gone for long and is forgotten", self.name(id));
                    self.about(at, Kind::Node, Severity::Info, id.port(0), text);
                    self.judge_forgotten(at, id);
                    self.forget(id);
                }
                Change::Described(id) => self.described(at, id),
                Change::Replaced { expected, found } => {
                    let text = format!("{found} answers in place of {}", self.name(expected));
                    self.about(at, Kind::Node, Severity::Warning, expected.port(0), text);
                }
                // Questions, no news yet.
                Change::Doubt(_) | Change::Elsewhere(_) | Change::Full => {}
                Change::Duplicate { first, second } => {
                    let text = format!(
                        "two nodes have the GUID {}: {} and {}, behind {} and {}",
                        first.guid,
                        self.name(first),
                        self.name(second),
                        self.behind(first),
                        self.behind(second),
                    );
                    self.about(at, Kind::Node, Severity::Critical, second.port(0), text);
                    self.judge_twin(at, second, true);
                }
                Change::Guarded(id, guarded) => {
                    // That it does not answer is as it should be.
                    let slot = self.slot_of(id);
                    let present = self.topology.node(id).is_some_and(|n| n.present);
                    let via = self.topology.node(id).and_then(|n| n.port(n.entry)?.peer);
                    // What was asked of somebody unknown there, was asked of it.
                    let before = via.filter(|_| guarded).and_then(|via| {
                        self.withdraw_peer(via);
                        self.unexplored.remove(&Some(via))
                    });
                    if let Some(data) = self.nodes.get_mut(slot as usize) {
                        if let Some((_, before)) = before {
                            data.dest.merge(before);
                        }
                        if guarded {
                            data.dest.failing = [0; 2];
                            data.dest.silent = None;
                            data.dest.away.get_or_insert(at);
                        } else if present {
                            data.dest.away = None;
                        }
                    }
                    let text = match guarded {
                        true => format!(
                            "{} is protected by an M_Key: it gets no SMP any more, and what the \
                             SA tells stands in",
                            self.name(id)
                        ),
                        false => format!("{} is asked by SMP again", self.name(id)),
                    };
                    self.about(at, Kind::Node, Severity::Info, id.port(0), text);
                }
                Change::PortState { port, from, to } => self.port_state(at, port, from, to),
                Change::LinkRate { port } => self.link_rate(at, port),
                Change::Lid { port, from, to } => {
                    let text = format!("{}: LID {from} -> {to}", self.port_name(port));
                    self.about(at, Kind::Address, Severity::Info, port, text);
                }
                Change::LinkFound(a, b) => {
                    self.refresh_port(a);
                    self.refresh_port(b);
                    self.judge_link(at, a);
                    self.judge_link(at, b);
                    if self.discovered {
                        self.link_found(at, a, b);
                    }
                }
                Change::LinkLost(a, b) => {
                    self.refresh_port(a);
                    self.refresh_port(b);
                    let (a_name, b_name) = (self.port_name(a), self.port_name(b));
                    let text = format!("link lost: {a_name} - {b_name}");
                    self.about(at, Kind::Link, Severity::Warning, a, text);
                    self.judge_link(at, a);
                    self.judge_link(at, b);
                }
            }
        }
    }

    /// The port that a node is reached through, in words.
    pub(super) fn behind(&self, id: NodeId) -> String {
        let via = self
            .topology
            .node(id)
            .and_then(|n| n.port(n.entry)?.peer)
            .map(|via| self.port_name(via));
        via.unwrap_or_else(|| "—".to_owned())
    }

    fn about(&mut self, at: Stamp, kind: Kind, severity: Severity, key: PortKey, text: String) {
        self.log.add(at, kind, severity, Some(key), text);
    }

    fn is_described(&self, id: NodeId) -> bool {
        self.topology
            .node(id)
            .is_some_and(|n| n.description.is_some())
    }

    fn described(&mut self, at: Stamp, id: NodeId) {
        let before = self.data(id).map(|n| n.base.clone()).unwrap_or_default();
        self.rename(id);
        let news = self.announce.iter().any(|(_, node, _)| *node == id);
        if self.discovered && !news && !before.starts_with("0x") {
            let (now, kind) = (self.base_name(id).to_owned(), Kind::Node);
            if now != before {
                let text = format!("{before} is called {now} now");
                self.about(at, kind, Severity::Info, id.port(0), text);
            }
        }
        if news {
            self.announce_of(Some(id));
        }
    }

    fn link_found(&mut self, at: Stamp, a: PortKey, b: PortKey) {
        match [a, b].into_iter().find(|k| !self.is_described(k.node)) {
            // It is told once the node has a name.
            Some(new) => {
                let other = if new == a { b } else { a };
                self.announce.push((at, new.node, Some(other)));
            }
            None => self.tell_link_found(at, a, b),
        }
    }

    fn tell_link_found(&mut self, at: Stamp, a: PortKey, b: PortKey) {
        let text = format!("link found: {} - {}", self.port_name(a), self.port_name(b));
        self.about(at, Kind::Link, Severity::Info, a, text);
    }

    pub(super) fn announce_all(&mut self) {
        self.announce_of(None);
    }

    /// Tells of what appeared: of one node, or of all that wait for a name.
    fn announce_of(&mut self, node: Option<NodeId>) {
        if self.announce.is_empty() {
            return;
        }
        let (now, later) = std::mem::take(&mut self.announce)
            .into_iter()
            .partition(|(_, id, _)| node.is_none_or(|n| n == *id));
        self.announce = later;
        let now: Vec<(Stamp, NodeId, Option<PortKey>)> = now;
        for (at, id, link) in now {
            match link {
                None => {
                    let text = format!("{} appeared", self.name(id));
                    self.about(at, Kind::Node, Severity::Info, id.port(0), text);
                }
                Some(other) => {
                    // The link may be gone again, or lead elsewhere by now.
                    let back = self.topology.port(other).and_then(|p| p.peer);
                    if let Some(end) = back.filter(|b| b.node == id) {
                        self.tell_link_found(at, other, end);
                    }
                }
            }
        }
    }

    fn port_state(&mut self, at: Stamp, port: PortKey, from: Option<u8>, to: u8) {
        let Some(from) = from else {
            return;
        };
        let severity = match (from, to) {
            (_, DOWN) => Severity::Warning,
            (ACTIVE, _) => Severity::Warning,
            _ => Severity::Info,
        };
        let text = format!(
            "{}: {} -> {}",
            self.port_name(port),
            PortState::new(from),
            PortState::new(to)
        );
        self.about(at, Kind::PortState, severity, port, text);
    }

    fn link_rate(&mut self, at: Stamp, port: PortKey) {
        let Some((width, speed)) = self
            .topology
            .node(port.node)
            .and_then(|n| Some((n.port(port.port)?.width()?, n.speed(port.port)?)))
        else {
            return;
        };
        let text = format!("{}: now {width} {speed}", self.port_name(port));
        self.about(at, Kind::PortState, Severity::Info, port, text);
    }

    /// One line for all that the first discovery found.
    pub(super) fn summarise(&mut self, at: Stamp, took: Option<Duration>, failed: u32) {
        let size = self.count_size();
        let count =
            |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let mut text = format!(
            "discovery found {}, {}, {}",
            count(size.switches, "switch", "switches"),
            count(size.cas, "adapter", "adapters"),
            count(size.links, "link", "links"),
        );
        if size.routers > 0 {
            text += &format!(", {}", count(size.routers, "router", "routers"));
        }
        if let Some(took) = took {
            text += &format!(" in {:.1} s", took.as_secs_f64());
        }
        let mut severity = Severity::Info;
        if failed > 0 {
            severity = Severity::Warning;
            text += &format!(
                "; {} unanswered: the fabric is shown in part",
                count(failed as usize, "request", "requests")
            );
        }
        self.say(at, Kind::Session, severity, text);
    }

    pub(super) fn count_size(&self) -> SubnetSize {
        let mut size = SubnetSize::default();
        for node in self.topology.nodes() {
            if !node.present {
                size.missing += 1;
                continue;
            }
            size.protected += usize::from(node.guarded);
            match self.topology.shown_kind(node) {
                NodeKind::Aggregation => size.aggregators += 1,
                NodeKind::Switch => size.switches += 1,
                NodeKind::Ca => size.cas += 1,
                NodeKind::Router => size.routers += 1,
                NodeKind::Unknown => {}
            }
            for number in node.external_ports() {
                size.ports += 1;
                let peer = node.port(number).and_then(|p| p.peer);
                size.connected += usize::from(peer.is_some());
                // Each link once: at its lower end.
                size.links += usize::from(peer.is_some_and(|p| node.id.port(number) < p));
            }
        }
        size
    }
}
