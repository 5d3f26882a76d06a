//! Everything of one port, for its detail view.

use super::counters::Counter;
use super::fec::Fec;
use super::view::{CounterView, DetailGroup, EndDetail, FecView, PortDetail};
use super::{Baseline, Model};
use crate::event::FEC_EVERY;
use crate::fabric::best::below_best;
use crate::fabric::{LinkSpeed, LinkWidth, Node, NodeId, NodeKind, PortKey};
use crate::mad::{Attribute, ClassCaps, ClassCaps2, PortInfo, PortState};
use crate::port::Stamp;

impl Model {
    /// A port in full, with the other end of its link; `None` if it is not known.
    pub fn detail(&self, key: PortKey, now: Stamp) -> Option<PortDetail<'_>> {
        self.detail_since(key, None, now)
    }

    /// The same, counted from a baseline on.
    pub fn detail_since(
        &self,
        key: PortKey,
        from: Option<&Baseline>,
        now: Stamp,
    ) -> Option<PortDetail<'_>> {
        let near = self.end_detail(key, from, now)?;
        let far = near
            .row
            .peer
            .filter(|peer| !peer.former)
            .and_then(|peer| self.end_detail(peer.key, from, now));
        let findings = self.diagnosis(key, now);
        Some(PortDetail {
            near,
            far,
            findings,
        })
    }

    /// All counters of a port, in perfquery's order.
    pub fn counters(&self, key: PortKey, now: Stamp) -> Vec<CounterView> {
        self.counters_since(key, None, now)
    }

    fn counters_since(
        &self,
        key: PortKey,
        from: Option<&Baseline>,
        now: Stamp,
    ) -> Vec<CounterView> {
        let mark = from.and_then(|b| b.mark(key));
        let limit = self.interval().saturating_mul(2);
        let counters = self
            .data(key.node)
            .and_then(|n| n.port(key.port)?.counters.as_deref());
        let view = |c: Counter| CounterView {
            name: c.name(),
            value: counters.map_or(super::Num::Unknown, |n| n.value(c, now, limit)),
            since: counters.map_or(super::Num::Unknown, |n| n.since(c, mark, now, limit)),
            rate: counters.map_or(super::Num::Unknown, |n| n.rate(c, now, limit)),
            unit: c.unit(),
            error: c.is_error(),
        };
        Counter::ALL.into_iter().map(view).collect()
    }

    /// What a port's forward error correction does; `None` if it was never asked.
    pub fn fec(&self, key: PortKey, now: Stamp) -> Option<FecView> {
        self.fec_since(key, None, now)
    }

    /// The same, counted from a baseline on.
    pub fn fec_since(&self, key: PortKey, from: Option<&Baseline>, now: Stamp) -> Option<FecView> {
        let mark = from.and_then(|b| b.fec_mark(key));
        let port = self.data(key.node)?.port(key.port)?;
        // Each port is asked in its turn.
        let limit = self.interval().saturating_mul(2 * FEC_EVERY);
        match &port.fec {
            Some(fec) => Some(fec.view(port.fec_mode, mark, now, limit)),
            None => port
                .fec_mode
                .map(|mode| Fec::default().view(Some(mode), None, now, limit)),
        }
    }

    /// A port's optional counters; none if nobody looked at it.
    pub fn details(&self, key: PortKey, now: Stamp) -> Vec<DetailGroup> {
        let limit = self.interval().saturating_mul(2);
        self.details.view(key, now, limit)
    }

    fn end_detail(
        &self,
        key: PortKey,
        from: Option<&Baseline>,
        now: Stamp,
    ) -> Option<EndDetail<'_>> {
        let (row, traffic) = self.seen_port(key, from, now)?;
        let node = self.topology.node(key.node)?;
        let own = self.data(key.node)?.port(key.port);
        let info = node.port(key.port).and_then(|p| p.info.as_ref());
        Some(EndDetail {
            row,
            traffic,
            best: self.best_of_link(key),
            node: self.node_facts(node, key),
            port_info: info.map_or_else(Vec::new, |i| port_info_fields(i, key.port)),
            counters: self.counters_since(key, from, now),
            fec: self.fec_since(key, from, now),
            details: self.details(key, now),
            port_info_age: own.and_then(|p| p.info_at).map(|at| now.since(at)),
            counters_age: own
                .and_then(|p| p.counters.as_deref()?.read_at())
                .map(|at| now.since(at)),
        })
    }

    /// What both ends of a link can do, where the link does less.
    fn best_of_link(&self, key: PortKey) -> Option<(LinkWidth, LinkSpeed)> {
        let below = below_best(&self.topology, key);
        let node = self.topology.node(key.node)?;
        let width = below.width.or(node.port(key.port)?.width())?;
        let speed = below.speed.or(node.speed(key.port))?;
        below.any().then_some((width, speed))
    }

    fn node_facts(&self, node: &Node, key: PortKey) -> Vec<(&'static str, String)> {
        let info = &node.info;
        let guid = |g: u64| crate::fabric::Guid(g).to_string();
        let description = node.description.as_ref().map_or_else(
            || "—".to_owned(),
            |d| crate::fabric::names::clean(d.bytes()),
        );
        let port_guid = node
            .port(if node.kind == NodeKind::Switch {
                0
            } else {
                key.port
            })
            .and_then(|p| p.guid);
        let mut facts = vec![
            ("Name", self.name(node.id).to_owned()),
            ("NodeDescription", description),
            ("NodeType", info.node_type().to_string()),
            ("NodeGUID", node.id.to_string()),
            (
                "PortGUID",
                port_guid.map_or_else(|| "—".to_owned(), |g| g.to_string()),
            ),
            ("SystemImageGUID", guid(info.system_image_guid())),
            ("NumPorts", info.num_ports().to_string()),
            ("VendorID", format!("{:#08x}", info.vendor_id())),
            ("DeviceID", format!("{:#06x}", info.device_id())),
            ("Revision", format!("{:#x}", info.revision())),
            ("LID", lid_words(node, key.port)),
            ("Directed route", node.route.to_string()),
            ("Counters", self.counters_had(node.id)),
        ];
        if self.topology.shown_kind(node) == NodeKind::Aggregation {
            facts.push(("Is a", "aggregation node (SHARP), no host".to_owned()));
        }
        let namesakes = self.topology.twins(node.id.guid);
        for other in namesakes.filter(|other| other.id != node.id) {
            let words = format!("{}, behind {}", self.name(other.id), self.behind(other.id));
            facts.push(("Same GUID", words));
        }
        if node.guarded {
            let words = "protected by an M_Key: told by the SA, not asked by SMP";
            facts.push(("Protection", words.to_owned()));
        }
        facts
    }

    /// What a node's performance management can do, in words.
    fn counters_had(&self, id: NodeId) -> String {
        let Some(caps) = self.data(id).and_then(|n| n.caps_read.then_some(n.caps)) else {
            return "—".to_owned();
        };
        let (mask, mask2) = (caps.mask, caps.mask2);
        let data = mask.has(ClassCaps::EXT_WIDTH) || mask.has(ClassCaps::EXT_WIDTH_NO_IETF);
        let words: Vec<&str> = [
            (data, "64-bit"),
            (!data, "32-bit"),
            (mask2.has(ClassCaps2::ADDITIONAL_EXT), "64-bit errors"),
            (mask.has(ClassCaps::EXT_WIDTH), "multicast"),
            (mask.has(ClassCaps::XMIT_WAIT), "XmitWait"),
            (mask.has(ClassCaps::QP1_DROPPED), "QP1Dropped"),
            (mask.has(ClassCaps::RS_FEC), "RS-FEC"),
            (mask.has(ClassCaps::ALL_PORT_SELECT), "sum over ports"),
            (mask2.has(ClassCaps2::PM_KEY), "PM_Key"),
        ]
        .into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, word)| word)
        .collect();
        words.join(", ")
    }
}

/// A port's LID; all of them where its LMC gives it several.
fn lid_words(node: &Node, port: u8) -> String {
    match node.lids_of(port) {
        None => "—".to_owned(),
        Some((lid, last)) if lid == last => lid.to_string(),
        Some((lid, last)) => format!("{lid} to {last}"),
    }
}

/// All fields, keys hidden. While a port is down only its states mean anything.
fn port_info_fields(info: &PortInfo, port: u8) -> Vec<(&'static str, String)> {
    let down = port != 0 && info.port_state() == PortState::Down;
    info.fields()
        .filter(|f| {
            !down
                || matches!(
                    f.field.name,
                    "PortState" | "PortPhysicalState" | "LinkDownDefaultState"
                )
        })
        .map(|f| (f.field.name, f.value().to_string()))
        .collect()
}
