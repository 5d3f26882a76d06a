//! What a keyframe tells: a session's last word on everything.
//!
//! The ledger remembers the last good reply to each question about a node that is known, and
//! the last event of each kind that holds until the next one. Bounded by the fabric: replies
//! are kept without the zeros at their end.
//!
//! What no reply says (baselines, open alerts, totals, requests on their way) comes from a model
//! of its own, without histories: the same fold as everybody's, so that one who joins cannot
//! see anything else than one who was there. It costs the encoder's thread one fold, and holds
//! the topology that the ledger needs anyway.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::event::{Batch, Event, Known, Sent, SweepKind, What};
use crate::fabric::{Guid, Node, NodeId, PortKey, Request, Target, Topology};
use crate::mad::{
    Attribute, ErrorCounts, LftRecord, LinkRecord, Mad, Method, MgmtClass, NodeInfo, NodeRecord,
    PortCounters, PortInfoRecord, SwitchInfoRecord,
};
use crate::model::Model;
use crate::port::{Address, Agent, Stamp};

/// Requests on their way that are remembered; what is beyond was never answered.
const MAX_PENDING: usize = 1 << 16;

/// The question that a reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    node: Option<NodeId>,
    port: u8,
    via: Option<PortKey>,
    class: u8,
    attribute: u16,
    modifier: u32,
}

impl Key {
    fn of(request: &Request) -> Key {
        Key {
            node: request.target.node,
            port: request.target.port,
            via: request.target.via,
            class: request.class,
            attribute: request.attribute,
            modifier: request.modifier,
        }
    }
}

#[derive(Debug)]
struct Entry {
    key: Key,
    at: Stamp,
    target: Target,
    addr: Address,
    request: Box<[u8]>,
    reply: Box<[u8]>,
}

impl Entry {
    /// The GUID of the node that it is about, if it is a node's NodeInfo.
    fn tells_of(&self) -> Option<Guid> {
        let asked = MgmtClass::new(self.key.class).is_smp() && self.key.attribute == NodeInfo::ID;
        let reply = asked.then(|| lengthen(&self.reply).ok())??;
        let info = NodeInfo::from_bytes(reply.data()).ok()?;
        Some(Guid(info.node_guid()))
    }

    /// Tells of this node, and of no link that would lead to it.
    fn detach(&mut self, id: NodeId) {
        self.key = Key {
            node: Some(id),
            port: 0,
            via: None,
            ..self.key
        };
        self.target = detached(self.target, id);
    }
}

/// The question as if it had been put to the node itself, wherever it is.
fn detached(target: Target, id: NodeId) -> Target {
    Target {
        node: Some(id),
        port: 0,
        via: None,
        ..target
    }
}

/// The node that a NodeInfo told of and that is not behind that port any more, but still known:
/// it is missing, or was moved.
fn left(topology: &Topology, entry: &Entry) -> Option<NodeId> {
    let via = entry.key.via.filter(|_| entry.key.node.is_none())?;
    let guid = entry.tells_of()?;
    let peer = topology.port(via).and_then(|p| p.peer);
    if peer.is_some_and(|peer| peer.node.guid == guid) {
        return None;
    }
    let was_here = |n: &&Node| n.ports.iter().any(|p| p.last_peer == Some(via));
    // A present one that was never here is somebody else, of whom it is not yet clear who.
    let left = topology.twins(guid).find(was_here);
    left.or_else(|| topology.twins(guid).find(|n| !n.present))
        .map(|n| n.id)
}

/// A node's sum over all ports: when it first was what it is, and when it last was. What is known
/// of the ports since is told by both.
#[derive(Debug)]
struct Sum {
    counts: ErrorCounts,
    first: Entry,
    last: Option<Entry>,
}

/// A question to the SA about somebody who does not answer.
fn stands_in(sent: &Sent) -> bool {
    sent.mad.method() == Method::Get
        && match sent.mad.attr_id() {
            LinkRecord::ID | NodeRecord::ID => sent.target.via.is_some(),
            PortInfoRecord::ID => true,
            SwitchInfoRecord::ID | LftRecord::ID => sent.target.node.is_some(),
            _ => false,
        }
}

/// Sets blocks that the SA told apart from its whole table.
const TOLD: u32 = 1 << 31;

/// The block of a forwarding table that the SA told in a switch's stead.
fn told_block(request: &Request, reply: &Mad) -> Option<u16> {
    let asked = request.class == MgmtClass::SubnAdm.code()
        && request.method == Method::Get.code()
        && request.attribute == LftRecord::ID;
    let record = asked.then(|| LftRecord::from_bytes(reply.data()).ok())??;
    Some(record.block())
}

/// The error counters of a sum over all ports, if that is what was asked for.
fn all_ports(request: &Request, bytes: &[u8], reply: &Mad) -> Option<ErrorCounts> {
    let asked = request.attribute == PortCounters::ID && request.class == MgmtClass::Perf.code();
    // PortSelect is the second byte of the attribute, which begins at byte 64.
    if !asked || bytes.get(65) != Some(&0xFF) {
        return None;
    }
    let sum = PortCounters::from_bytes(reply.data()).ok()?;
    Some(ErrorCounts::of(&sum))
}

#[derive(Debug)]
struct Pending {
    target: Target,
    addr: Address,
    request: Request,
    bytes: Box<[u8]>,
}

/// The last word on everything.
#[derive(Debug)]
pub struct Ledger {
    opened: Option<Event>,
    clock: Option<Event>,
    settings: Option<Event>,
    agents: BTreeMap<Agent, Event>,
    local: Option<Event>,
    gone: Option<Event>,
    stopped: Option<Event>,
    pace: Option<Event>,
    back_offs: BTreeMap<NodeId, Event>,
    guarded: BTreeMap<NodeId, Event>,
    sweeps: BTreeMap<SweepKind, (Event, Option<Event>)>,
    model: Model,
    pending: HashMap<u32, Pending>,
    /// In the order in which the questions were first answered: nobody is told of a node's
    /// ports before he is told of the node.
    entries: Vec<Entry>,
    places: HashMap<Key, usize>,
    sums: BTreeMap<NodeId, Sum>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            opened: None,
            clock: None,
            settings: None,
            agents: BTreeMap::new(),
            local: None,
            gone: None,
            stopped: None,
            pace: None,
            back_offs: BTreeMap::new(),
            guarded: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            model: Model::lean(),
            pending: HashMap::new(),
            entries: Vec::new(),
            places: HashMap::new(),
            sums: BTreeMap::new(),
        }
    }
}

impl Ledger {
    /// Nothing is known.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// Replies that are remembered.
    pub fn len(&self) -> usize {
        let sums = self
            .sums
            .values()
            .map(|s| 1 + usize::from(s.last.is_some()));
        self.entries.len() + sums.sum::<usize>()
    }

    /// Whether no reply is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.sums.is_empty()
    }

    fn answered(&mut self, event: &Event, reply: &Mad) {
        if !reply.is_response() {
            return;
        }
        let tid = reply.tid_low();
        if !self
            .pending
            .get(&tid)
            .is_some_and(|p| p.request.is_answered_by(reply))
        {
            return;
        }
        let Some(pending) = self.pending.remove(&tid) else {
            return;
        };
        // A table that the SA refuses is known to be refused.
        if !reply.status().is_ok() && reply.class() != MgmtClass::SubnAdm {
            return;
        }
        let mut key = Key::of(&pending.request);
        if let Some(block) = told_block(&pending.request, reply) {
            // Its number is in the record, and not in the modifier.
            key.modifier = TOLD | u32::from(block);
        }
        let sum = all_ports(&pending.request, &pending.bytes, reply);
        let mut entry = Entry {
            key,
            at: event.at,
            target: pending.target,
            addr: pending.addr,
            request: pending.bytes,
            reply: shorten(reply),
        };
        if let (Some(counts), Some(node)) = (sum, key.node) {
            match self.sums.get_mut(&node) {
                Some(sum) if sum.counts == counts => sum.last = Some(entry),
                _ => {
                    let (first, last) = (entry, None);
                    let sum = Sum {
                        counts,
                        first,
                        last,
                    };
                    self.sums.insert(node, sum);
                }
            }
            return;
        }
        if let (Some(asked), None, Some(guid)) = (key.node, key.via, entry.tells_of())
            && asked.guid != guid
        {
            // Another one has its address: this is no news of the one who was asked.
            entry.detach(NodeId::new(guid.0));
        }
        self.keep_predecessor(&entry);
        let key = entry.key;
        match self
            .places
            .get(&key)
            .and_then(|at| self.entries.get_mut(*at))
        {
            Some(old) => *old = entry,
            None => {
                self.places.insert(key, self.entries.len());
                self.entries.push(entry);
            }
        }
    }

    /// Somebody else answers behind a port: what was told of his predecessor there stays in its
    /// place, before all that is about him, as long as he is known.
    fn keep_predecessor(&mut self, successor: &Entry) {
        let Some(guid) = successor.tells_of() else {
            return;
        };
        let Some(&at) = self.places.get(&successor.key) else {
            return;
        };
        let Some(old) = self.entries.get_mut(at) else {
            return;
        };
        if old.tells_of() == Some(guid) {
            return;
        }
        let Some(id) = left(self.model.topology(), old) else {
            return;
        };
        let via = old.key;
        old.detach(id);
        let own = old.key;
        match self.places.get(&own) {
            // He was told of before; the place is the successor's.
            Some(&told) if told < at => {
                if let Some(old) = self.entries.get_mut(at) {
                    old.key = via;
                }
            }
            // What was told later comes first now, and its place is the successor's.
            Some(&told) => {
                self.entries.swap(at, told);
                if let Some(old) = self.entries.get_mut(told) {
                    old.key = via;
                }
                self.places.insert(via, told);
                self.places.insert(own, at);
            }
            None => {
                self.places.remove(&via);
                self.places.insert(own, at);
            }
        }
    }

    /// Forgets what was answered about nodes that are no more.
    fn sweep(&mut self) {
        let topology = self.model.topology();
        let is_there = |node: NodeId| topology.node(node).is_some();
        // Nodes that are missing, and those that were moved, are known without their link.
        let mut told = HashSet::new();
        for entry in &mut self.entries {
            if let Some(id) = left(topology, entry) {
                entry.detach(id);
            }
        }
        // Behind a port that is up there is somebody, if only the SA says who.
        self.entries
            .retain(|entry| match (entry.key.node, entry.key.via) {
                (Some(node), _) => is_there(node),
                (None, Some(via)) => {
                    is_there(via.node)
                        && topology
                            .port(via)
                            .is_some_and(|p| p.peer.is_some() || p.is_up())
                }
                (None, None) => true,
            });
        // Of several that came to be the same, the first, since others build on it.
        self.entries.retain(|entry| told.insert(entry.key));
        self.sums.retain(|node, _| is_there(*node));
        self.places = (0..)
            .zip(&self.entries)
            .map(|(at, e)| (e.key, at))
            .collect();
    }

    /// Takes the next event of the session.
    pub fn observe(&mut self, event: &Event) {
        if matches!(event.what, What::Opened(_)) {
            *self = Ledger::default();
        }
        self.model.apply(event);
        match &event.what {
            What::Sent(sent) if sent.attempt > 0 => {
                // Of the SA only whole tables are worth remembering, and what stands in for a
                // silent node: one answer each.
                if sent.mad.class() == MgmtClass::SubnAdm
                    && sent.mad.method() != Method::GetTable
                    && !stands_in(sent)
                {
                    return;
                }
                if self.pending.len() >= MAX_PENDING {
                    self.pending.clear();
                }
                let pending = Pending {
                    target: sent.target,
                    addr: sent.addr,
                    request: Request::of(&sent.mad, sent.addr.lid, sent.target),
                    bytes: shorten(&sent.mad),
                };
                self.pending.insert(sent.mad.tid_low(), pending);
            }
            What::Received(received) => self.answered(event, &received.mad),
            // The answer to an overdue one still counts.
            What::TimedOut(t) if t.how == crate::event::HowLate::Overdue => {}
            What::TimedOut(t) => {
                self.pending.remove(&t.tid);
            }
            What::SendFailed(f) => {
                self.pending.remove(&f.tid);
            }
            What::Opened(_) => {
                self.opened = Some(event.clone());
            }
            What::ClockStep { .. } => self.clock = Some(event.clone()),
            What::Settings(_) => self.settings = Some(event.clone()),
            What::Agent(report) => {
                self.agents.insert(report.agent, event.clone());
            }
            What::LocalPort(_) => self.local = Some(event.clone()),
            What::DeviceGone { .. } => self.gone = Some(event.clone()),
            What::DeviceBack => self.gone = None,
            What::RecordingStopped { .. } => self.stopped = Some(event.clone()),
            What::Pace(_) => self.pace = Some(event.clone()),
            What::Guarded(g) => {
                match g.guarded {
                    true => self.guarded.insert(g.node, event.clone()),
                    false => self.guarded.remove(&g.node),
                };
            }
            What::BackOff(b) if b.failures == 0 => {
                self.back_offs.remove(&b.node);
            }
            What::BackOff(b) => {
                self.back_offs.insert(b.node, event.clone());
            }
            What::SweepBegan(sweep) => {
                self.sweeps.insert(sweep.kind, (event.clone(), None));
            }
            What::SweepEnded(sweep) => {
                if sweep.kind == SweepKind::Discovery {
                    self.sweep();
                }
                if let Some((_, ended)) = self.sweeps.get_mut(&sweep.kind) {
                    *ended = Some(event.clone());
                }
            }
            _ => {}
        }
    }

    /// Hands out, in portions, the events that bring a new model to the present; the session's
    /// next event will be number `next`.
    pub fn keyframe(&self, next: u64, emit: &mut dyn FnMut(&[Event])) {
        // All have the next event's number: none of them is counted as missing, nor is it. A
        // session that nobody saw opening keeps its number 0 for the opening alone.
        let number = |event: &Event| Event {
            seq: next,
            ..event.clone()
        };
        let mut events: Vec<Event> = [&self.opened, &self.clock, &self.settings]
            .into_iter()
            .flatten()
            .chain(self.agents.values())
            .chain(
                [&self.local, &self.gone, &self.stopped]
                    .into_iter()
                    .flatten(),
            )
            .chain(self.sweeps.values().map(|(began, _)| began))
            .map(number)
            .collect();
        emit(&events);
        events.clear();
        // Sums come after the ports that they tell of.
        let sums = self.sums.values();
        let sums = sums.flat_map(|sum| std::iter::once(&sum.first).chain(&sum.last));
        // What the SA says is compared with the fabric: it comes when that is known.
        let of_sa = |entry: &&Entry| entry.key.class == MgmtClass::SubnAdm.code();
        let (sa, fabric): (Vec<&Entry>, Vec<&Entry>) = self.entries.iter().partition(of_sa);
        for entry in fabric.into_iter().chain(sums).chain(sa) {
            let (Ok(request), Ok(reply)) = (lengthen(&entry.request), lengthen(&entry.reply))
            else {
                continue;
            };
            let mut target = entry.target;
            if MgmtClass::new(entry.key.class).is_smp()
                && let (NodeInfo::ID, Some(via)) = (entry.key.attribute, target.via)
            {
                // Which of two that share a GUID it is, the answer alone does not tell.
                let peer = self.model.topology().port(via).and_then(|p| p.peer);
                target.node = peer.map(|p| p.node).filter(|id| id.twin != 0);
                if let Some(id) = left(self.model.topology(), entry) {
                    target = detached(target, id);
                }
            }
            events.push(Event {
                seq: next,
                at: entry.at,
                what: What::Known(Box::new(Known {
                    at: entry.at,
                    target,
                    request,
                    addr: entry.addr,
                    reply,
                })),
            });
            if events.len() == Batch::MAX {
                emit(&events);
                events.clear();
            }
        }
        let ended = self.sweeps.values().filter_map(|(_, ended)| ended.as_ref());
        // Nodes that answered meanwhile are not guarded any more.
        let guarded = self.guarded.iter();
        let guarded = guarded.filter(|(id, _)| {
            let node = self.model.topology().node(**id);
            node.is_some_and(|n| n.guarded)
        });
        events.extend(
            ended
                .chain(self.back_offs.values())
                .chain(guarded.map(|(_, event)| event))
                .map(number),
        );
        events.extend(self.pace.as_ref().map(number));
        emit(&events);
        let at = self.model.last();
        self.model.ledger(&mut |part| {
            emit(&[Event {
                seq: next,
                at,
                what: What::Ledger(Box::new(part)),
            }]);
        });
    }
}

/// The bytes up to the last one that is not zero, and at least the common header. A message of
/// several segments is kept as it is: its length is part of what it says.
fn shorten(mad: &Mad) -> Box<[u8]> {
    let bytes = mad.bytes();
    if bytes.len() > crate::mad::MAD_LEN {
        return bytes.into();
    }
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    let end = end.max(24).min(bytes.len());
    bytes.get(..end).unwrap_or(bytes).into()
}

fn lengthen(bytes: &[u8]) -> Result<Mad, crate::mad::Malformed> {
    let mut whole = [0; crate::mad::MAD_LEN];
    match whole.get_mut(..bytes.len()) {
        Some(front) => {
            front.copy_from_slice(bytes);
            Mad::from_bytes(&whole)
        }
        None => Mad::from_bytes(bytes),
    }
}
