//! A session that tells the shape of a fabric and what went wrong, but not whose it is.
//!
//! GUIDs, GIDs, LIDs and descriptions are replaced, each always by the same; what is not known
//! to be harmless (vendor attributes, operators' texts) is emptied. The result replays.

use std::collections::HashMap;

use crate::event::ledger::{Ledger, Whom};
use crate::event::{Event, Settings, Topic, What};
use crate::fabric::{Guid, NodeId, PortKey, Target};
use crate::mad::attr::{get_bits, put_bits};
use crate::mad::{
    Attribute, Field, LinearForwardingTable, Mad, MgmtClass, NodeInfo, NodeRecord, NodeType,
    Notice, Show, data_offset, registry, secrets,
};
use crate::port::{Address, Source};

/// Lowest multicast LID.
const MULTICAST: u16 = 0xC000;
/// Prefix of link-local GIDs, the same on every default subnet.
const LINK_LOCAL: u64 = 0xFE80_0000_0000_0000;
/// New GUIDs: locally administered ones (EUI-64, U/L bit), numbered.
const NEW_GUID: u64 = 0x02FA_B000_0000_0000;
/// Most that is remembered; a hostile file has no end of GUIDs.
const MAX_KNOWN: usize = 1 << 22;

/// Replaces what identifies a site.
#[derive(Debug)]
pub struct Anonymizer {
    /// LIDs are turned within their block of 64, so that forwarding tables, which have 64
    /// entries a MAD, can follow. Multiples of 8 keep base LIDs aligned up to LMC 3.
    lid: u16,
    guids: HashMap<u64, u64>,
    prefixes: HashMap<u64, u64>,
    labels: HashMap<u64, String>,
    /// Old descriptions, to be found in texts.
    names: HashMap<String, String>,
    kinds: HashMap<u64, NodeType>,
    counts: [u32; 4],
    /// Whom requests that wait for a reply were meant for.
    owners: HashMap<u32, u64>,
}

impl Anonymizer {
    /// `secret` (any number) decides how LIDs are changed.
    pub fn new(secret: u64) -> Anonymizer {
        let folded = (secret ^ secret >> 32) as u16;
        Anonymizer {
            lid: (folded ^ folded >> 8) % 7 * 8 + 8,
            guids: HashMap::new(),
            prefixes: HashMap::new(),
            labels: HashMap::new(),
            names: HashMap::new(),
            kinds: HashMap::new(),
            counts: [0; 4],
            owners: HashMap::new(),
        }
    }

    /// Replaces what identifies a site in an event; keys go.
    pub fn event(&mut self, event: &mut Event) {
        match &mut event.what {
            What::Opened(opened) => {
                opened.host = "collector".to_owned();
                match &mut opened.source {
                    Source::Umad { device, .. } => *device = "umad".to_owned(),
                    Source::Ibsim { server } => *server = "ibsim".to_owned(),
                    Source::Simulated { fabric } => *fabric = "fabric".to_owned(),
                }
                self.settings(&mut opened.settings);
            }
            What::Settings(settings) => self.settings(settings),
            What::Sent(sent) => {
                self.remember(&sent.mad, &sent.target);
                self.target(&mut sent.target);
                self.address(&mut sent.addr);
                self.mad(&mut sent.mad, None);
            }
            What::Received(received) => {
                let owner = self.owners.remove(&received.mad.tid_low());
                self.address(&mut received.addr);
                self.mad(&mut received.mad, owner);
            }
            What::Known(known) => {
                let owner = known.target.node.map(|n| n.guid.0);
                self.target(&mut known.target);
                self.address(&mut known.addr);
                self.mad(&mut known.request, None);
                self.mad(&mut known.reply, owner);
            }
            What::SendFailed(failed) => {
                self.target(&mut failed.target);
                failed.why = self.text(&failed.why);
            }
            What::TimedOut(timed_out) => {
                if timed_out.how != crate::event::HowLate::Overdue {
                    self.owners.remove(&timed_out.tid);
                }
                self.target(&mut timed_out.target);
            }
            What::Ledger(ledger) => self.ledger(ledger),
            What::Malformed(malformed) => malformed.head.fill(0),
            What::LocalPort(port) => {
                port.node_guid = self.guid(port.node_guid);
                port.port_guid = self.guid(port.port_guid);
                port.gid_prefix = self.prefix(port.gid_prefix);
                port.lid = self.lid(port.lid);
                port.sm_lid = self.lid(port.sm_lid);
            }
            What::BackOff(back_off) => self.node(&mut back_off.node),
            What::Guarded(guarded) => self.node(&mut guarded.node),
            // Of other GUIDs and LIDs; 0 is compared with nothing.
            What::SweepEnded(sweep) => sweep.digest = 0,
            What::Mark { text } | What::Act { text } => *text = "(text removed)".into(),
            What::Note { node, text, .. } => {
                if let Some(node) = node {
                    self.node(node);
                }
                *text = self.text(text).into();
            }
            What::Reading(reading) => match &mut reading.topic {
                Topic::Path { from, lid } => {
                    self.node(&mut from.node);
                    *lid = self.lid(*lid);
                }
                Topic::Table { switch } => self.node(switch),
                Topic::Sa { .. } | Topic::Sms => {}
            },
            What::DeviceGone { why } | What::RecordingStopped { why } | What::Closed { why } => {
                *why = self.text(why).into()
            }
            What::Agent(_)
            | What::DeviceBack
            | What::Pace(_)
            | What::SweepBegan(_)
            | What::Tick
            | What::ClockStep { .. }
            | What::Dropped { .. } => {}
        }
    }

    fn ledger(&mut self, ledger: &mut Ledger) {
        for port in &mut ledger.ports {
            self.node(&mut port.port.node);
            if let Some(former) = &mut port.former {
                self.node(&mut former.node);
            }
        }
        for (node, _) in &mut ledger.missing {
            self.node(node);
        }
        for totals in &mut ledger.totals {
            totals.lid = self.lid(totals.lid);
            match &mut totals.whom {
                Whom::Node(node) => self.node(node),
                Whom::Beyond(Some(via)) => self.node(&mut via.node),
                Whom::Beyond(None) | Whom::Sa | Whom::Sm => {}
            }
        }
        for pending in &mut ledger.pending {
            self.target(&mut pending.target);
            pending.lid = self.lid(pending.lid);
        }
        for alert in &mut ledger.alerts {
            alert.kind = self.guids_in(&alert.kind);
            if let Some(about) = &mut alert.about {
                if !alert.name.is_empty() {
                    alert.name = self.label(about.node.guid.0);
                }
                self.node(&mut about.node);
            }
            alert.text = self.text(&alert.text);
        }
        for window in &mut ledger.windows {
            self.node(&mut window.port.node);
        }
        for suspect in &mut ledger.suspects {
            self.node(&mut suspect.about.node);
        }
        for sm in &mut ledger.sms {
            sm.guid = self.guid(sm.guid);
        }
        if let Some(master) = &mut ledger.master {
            *master = self.guid(*master);
        }
    }

    /// The GUIDs behind an alert's kind; a note's hash looks like one and tells nothing.
    fn guids_in(&mut self, kind: &str) -> String {
        let parts: Vec<String> = kind
            .split('/')
            .map(|part| match part.parse::<Guid>() {
                Ok(guid) => Guid(self.guid(guid.0)).to_string(),
                Err(_) => part.to_owned(),
            })
            .collect();
        parts.join("/")
    }

    fn settings(&mut self, settings: &mut Settings) {
        for suppress in &mut settings.thresholds.suppress {
            if let Some(node) = &mut suppress.node {
                self.node(node);
            }
        }
        let names = std::mem::take(&mut settings.names);
        settings.names = names
            .into_keys()
            .map(|guid| (Guid(self.guid(guid.0)), self.label(guid.0)))
            .collect();
    }

    fn remember(&mut self, mad: &Mad, target: &Target) {
        if let Some(node) = target.node {
            if self.owners.len() >= MAX_KNOWN {
                self.owners.clear();
            }
            self.owners.insert(mad.tid_low(), node.guid.0);
        }
    }

    fn guid(&mut self, guid: u64) -> u64 {
        if guid == 0 {
            return 0;
        }
        let next = NEW_GUID + self.guids.len() as u64 + 1;
        if self.guids.len() >= MAX_KNOWN {
            return NEW_GUID;
        }
        *self.guids.entry(guid).or_insert(next)
    }

    fn prefix(&mut self, prefix: u64) -> u64 {
        // A multicast GID's upper half holds flags, scope and P_Key, and says nothing.
        if prefix == 0 || prefix == LINK_LOCAL || prefix >> 56 == 0xFF {
            return prefix;
        }
        let next = 0xFEC0_0000_0000_0000 + self.prefixes.len() as u64 + 1;
        if self.prefixes.len() >= MAX_KNOWN {
            return LINK_LOCAL;
        }
        *self.prefixes.entry(prefix).or_insert(next)
    }

    fn lid(&self, lid: u16) -> u16 {
        // 0 is none; its partner must not become none either.
        if lid == 0 || lid == self.lid || lid >= MULTICAST {
            lid
        } else {
            lid ^ self.lid
        }
    }

    fn node(&mut self, node: &mut NodeId) {
        node.guid = Guid(self.guid(node.guid.0));
    }

    fn target(&mut self, target: &mut Target) {
        if let Some(node) = &mut target.node {
            self.node(node);
        }
        if let Some(PortKey { node, .. }) = &mut target.via {
            self.node(node);
        }
    }

    fn address(&mut self, addr: &mut Address) {
        addr.lid = self.lid(addr.lid);
        if let Some(grh) = &mut addr.grh {
            self.bits(&mut grh.gid, 0, 128, Kind::Gid);
        }
    }

    /// `host-0001`, counted by kind in the order of appearance.
    fn label(&mut self, guid: u64) -> String {
        if let Some(label) = self.labels.get(&guid) {
            return label.clone();
        }
        let (slot, word) = match self.kinds.get(&guid) {
            Some(NodeType::Ca) => (0, "host"),
            Some(NodeType::Switch) => (1, "switch"),
            Some(NodeType::Router) => (2, "router"),
            _ => (3, "node"),
        };
        self.counts[slot] += 1;
        let label = format!("{word}-{:04}", self.counts[slot]);
        if self.labels.len() < MAX_KNOWN {
            self.labels.insert(guid, label.clone());
        }
        label
    }

    fn mad(&mut self, mad: &mut Mad, owner: Option<u64>) {
        secrets::blank(mad);
        let class = mad.class();
        if class == MgmtClass::SubnDirected {
            let (slid, dlid) = (self.lid(mad.dr_slid()), self.lid(mad.dr_dlid()));
            mad.set_dr_slid(slid).set_dr_dlid(dlid);
        }
        let (id, head) = (mad.attr_id(), data_offset(class));
        let step = if class == MgmtClass::SubnAdm {
            usize::from(mad.attribute_offset()) * 8
        } else {
            0
        };
        let end = if class.is_smp() {
            head + 64
        } else {
            usize::MAX
        };
        let bytes = mad.bytes_mut();
        let end = end.min(bytes.len());
        let Some(data) = bytes.get_mut(head..end) else {
            return;
        };
        let Some(info) = registry::find(class, id) else {
            data.fill(0);
            return;
        };
        let step = if step == 0 { data.len() } else { step };
        for record in data.chunks_mut(step.max(1)) {
            let owner = self.owner(id, class, record, owner);
            if id == Notice::ID {
                self.notice(record);
            }
            self.fields(record, info.fields, 0, owner);
        }
        if id == LinearForwardingTable::ID && class.is_smp() {
            // The entry of each LID goes where that LID went, but for block 0's special two.
            let old = data.to_vec();
            let block = (mad.attr_mod() as u16).wrapping_mul(64);
            for (i, port) in (0u16..64).zip(old) {
                let to = self.lid(block.wrapping_add(i)).wrapping_sub(block);
                let data = mad.bytes_mut().get_mut(head..end).unwrap_or_default();
                if let Some(to) = data.get_mut(usize::from(to)) {
                    *to = port;
                }
            }
        }
    }

    /// Whom a record describes, and what kind of node that is.
    fn owner(
        &mut self,
        id: u16,
        class: MgmtClass,
        record: &[u8],
        asked: Option<u64>,
    ) -> Option<u64> {
        let info = match (id, class) {
            (NodeInfo::ID, c) if c.is_smp() => record,
            // NodeInfo follows four bytes of LID.
            (NodeRecord::ID, MgmtClass::SubnAdm) => record.get(4..)?,
            _ => return asked,
        };
        let info = NodeInfo::from_bytes(info).ok()?;
        let guid = info.node_guid();
        if guid != 0 && self.kinds.len() < MAX_KNOWN {
            self.kinds.insert(guid, info.node_type());
        }
        Some(guid)
    }

    fn fields(&mut self, record: &mut [u8], fields: &[Field], base: usize, owner: Option<u64>) {
        for field in fields {
            let bit = base + field.bit;
            let each = field.width / field.count.max(1);
            let kind = match field.show {
                Show::Nested(inner) => {
                    self.fields(record, inner, bit, owner);
                    continue;
                }
                // What [`Anonymizer::notice`] made of them.
                _ if field.secret => continue,
                Show::Gid => Kind::Gid,
                Show::Text if field.name == "NodeDescription" => {
                    self.description(record, bit / 8, owner);
                    continue;
                }
                Show::Text | Show::Bytes => {
                    let range = bit / 8..(bit + field.width) / 8;
                    record.get_mut(range).unwrap_or_default().fill(0);
                    continue;
                }
                _ if field.name == "GidPrefix" => Kind::Prefix,
                _ if field.name.ends_with("GUID") && each == 64 => Kind::Guid,
                _ if is_lid(field.name) && each == 16 => Kind::Lid,
                _ => continue,
            };
            for index in 0..field.count.max(1) {
                self.bits(record, bit + index * each, each, kind);
            }
        }
    }

    fn bits(&mut self, bytes: &mut [u8], bit: usize, width: usize, kind: Kind) {
        if bytes.len() * 8 < bit + width {
            return;
        }
        let old = get_bits(bytes, bit, width.min(64));
        let new = match kind {
            Kind::Guid => self.guid(old),
            Kind::Prefix => self.prefix(old),
            Kind::Lid => u64::from(self.lid(old as u16)),
            Kind::Gid => {
                let low = get_bits(bytes, bit + 64, 64);
                // Well-known multicast groups have small numbers.
                let known = old >> 56 == 0xFF && low >> 32 == 0;
                let low = if known { low } else { self.guid(low) };
                put_bits(bytes, bit + 64, 64, low);
                self.prefix(old)
            }
        };
        put_bits(bytes, bit, width.min(64), new);
    }

    fn description(&mut self, record: &mut [u8], at: usize, owner: Option<u64>) {
        let Some(bytes) = record.get_mut(at..at + 64) else {
            return;
        };
        // A request has none.
        if bytes.iter().all(|b| *b == 0) {
            return;
        }
        let label = match owner {
            Some(guid) => self.label(guid),
            None => "node".to_owned(),
        };
        let old = String::from_utf8_lossy(bytes);
        let old = old.trim_end_matches('\0').to_owned();
        if self.names.len() < MAX_KNOWN && old.len() > 2 {
            self.names.insert(old, label.clone());
        }
        bytes.fill(0);
        for (to, from) in bytes.iter_mut().zip(label.bytes()) {
            *to = from;
        }
    }

    /// The details of a notice (specification 13.4.8.2 and 14.2.5.1), from byte 10 on.
    fn notice(&mut self, record: &mut [u8]) {
        let Some(head) = record.first_chunk::<6>() else {
            return;
        };
        let generic = head[0] & 0x80 != 0;
        let trap = u16::from_be_bytes([head[4], head[5]]);
        let mut kept = record.to_vec();
        if let Some(details) = record.get_mut(10..64) {
            details.fill(0);
        }
        if !generic {
            return;
        }
        // Where in the notice, how long, what; the rest of the details is emptied.
        let parts: &[(usize, usize, Option<Kind>)] = match trap {
            64..=67 => &[(16, 16, Some(Kind::Gid))],
            128 => &[(10, 2, Some(Kind::Lid))],
            129..=131 => &[(12, 2, Some(Kind::Lid)), (14, 1, None)],
            144 => &[(12, 2, Some(Kind::Lid)), (15, 7, None)],
            145 => &[(12, 2, Some(Kind::Lid)), (16, 8, Some(Kind::Guid))],
            256 => &[
                (12, 2, Some(Kind::Lid)),
                (14, 2, Some(Kind::Lid)),
                (16, 8, None),
            ],
            257 | 258 => &[
                (12, 2, Some(Kind::Lid)),
                (14, 2, Some(Kind::Lid)),
                (16, 8, None),
            ],
            259 => &[
                (12, 2, Some(Kind::Lid)),
                (14, 2, Some(Kind::Lid)),
                (16, 3, None),
            ],
            _ => &[],
        };
        for (at, len, kind) in parts {
            if let Some(kind) = kind {
                self.bits(&mut kept, at * 8, len * 8, *kind);
            }
            for (to, from) in record.iter_mut().zip(&kept).skip(*at).take(*len) {
                *to = *from;
            }
        }
    }

    /// A text that this program wrote: GUIDs, LIDs and names in it are replaced.
    fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some((guid, tail)) = leading_guid(rest) {
                out.push_str(&Guid(self.guid(guid)).to_string());
                rest = tail;
            } else if let Some((lid, tail)) = leading_lid(rest) {
                out.push_str(&format!("LID {}", self.lid(lid)));
                rest = tail;
            } else if let Some((name, label)) = self.leading_name(rest) {
                out.push_str(label);
                rest = rest.get(name..).unwrap_or_default();
            } else {
                out.push(c);
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
            }
        }
        out
    }
}

impl Anonymizer {
    /// The longest known description that a text begins with: its length, and its label.
    fn leading_name(&self, text: &str) -> Option<(usize, &str)> {
        self.names
            .iter()
            .filter(|(name, _)| text.starts_with(name.as_str()))
            .max_by_key(|(name, _)| name.len())
            .map(|(name, label)| (name.len(), label.as_str()))
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Guid,
    Gid,
    Prefix,
    Lid,
}

fn is_lid(name: &str) -> bool {
    name.ends_with("LID") || matches!(name, "LIDRangeBegin" | "LIDRangeEnd")
}

/// `0x` and sixteen digits at the beginning.
fn leading_guid(text: &str) -> Option<(u64, &str)> {
    let digits = text.strip_prefix("0x")?.get(..16)?;
    let guid = u64::from_str_radix(digits, 16).ok()?;
    Some((guid, text.get(18..)?))
}

/// `LID` and a number at the beginning.
fn leading_lid(text: &str) -> Option<(u16, &str)> {
    let rest = text.strip_prefix("LID ")?;
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(len);
    Some((number.parse().ok()?, rest))
}
