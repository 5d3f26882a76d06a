//! Discovery: by directed route from the local node, pipelined, each link asked from one end.
//!
//! SwitchInfo.PortStateChange is of no use here: the bit stays set until somebody clears it by a
//! Set, which is the subnet manager's business and not ours, and it clears it within the moment
//! in which we might look. What changed is found by the reports of trap 128 and by the port
//! states of known switches, which are asked first; only what changed there is walked.
//!
//! A node is asked for its details once in a discovery; a second link to it costs one NodeInfo,
//! and nothing where the other end of that link was confirmed already.

use std::time::Duration;

use super::core::Core;
use super::job::{Ask, By, Done, Job, Lane, RunId, Who};
use crate::event::{Severity, SweepKind};
use crate::fabric::topology::{Doubt, MOST_NODES, MOST_PORTS};
use crate::fabric::{Change, Changes, NodeId, NodeKind, PortKey};
use crate::mad::{LinkSpeed, PhysState, PortCaps, PortCaps2};
use crate::port::Stamp;

/// A switch is not read again after a notice sooner than this after the last time.
const REREAD: Duration = Duration::from_secs(1);
/// How long notices of one event are collected before the switch is read.
const COALESCE: Duration = Duration::from_millis(2);
/// A port in a passing state is looked at again after this, then after twice as long, ….
const RECHECK: Duration = Duration::from_millis(500);
/// How often.
const RECHECKS: u8 = 5;
/// What is in doubt is asked again no more than this often...
const DOUBTS: u8 = 8;
/// ...in this time: two nodes with one LID contradict each other whenever one is read.
const DOUBTED: Duration = Duration::from_secs(10);
/// A full discovery that a surprise asks for waits this long after the last one.
const SURPRISE: Duration = Duration::from_secs(30);

/// Device ids whose ports may run FDR10 (`reference`: what the usual tools ask).
fn may_run_fdr10(device: u16) -> bool {
    matches!(device, 0xc738..=0xc73b | 0xc839 | 0xcb20 | 0xcf08 | 0xcf09 | 0xd2f0
        | 0x1003..=0x101b | 0xa2d2)
}

impl Core {
    /// Asks for a node's details.
    fn walk(&mut self, id: NodeId, run: RunId) {
        let generation = self.topology.generation();
        self.nodes.of(id).walked = generation;
        let Some(node) = self.topology.node(id) else {
            return;
        };
        let (kind, entry) = (node.kind, node.entry);
        let ports: Vec<u8> = node.external_ports().collect();
        let job = |ask| Job::new(ask, Who::Node(id)).run(Some(run)).walking();
        self.enqueue(job(Ask::NodeDescription));
        if kind == NodeKind::Switch {
            self.enqueue(job(Ask::SwitchInfo));
            // Its other ports follow once port 0 told the capabilities.
            self.enqueue(job(Ask::PortInfo(0)));
            return;
        }
        self.enqueue(job(Ask::PortInfo(entry)));
        for port in ports {
            if port != entry {
                self.enqueue(job(Ask::PortInfo(port)));
            }
        }
    }

    /// A node that was silent answers again: whatever was missed is asked now, unless that is
    /// being done already.
    pub(super) fn walk_again(&mut self, id: Option<NodeId>) {
        if let Some(id) = id
            && self.is_present(id)
            && self
                .nodes
                .get(&id)
                .is_some_and(|n| n.seat_ref(Lane::Smp).waiting.is_empty())
        {
            let run = self.open_rediscovery();
            self.walk(id, run);
            self.count(Some(run), Done::Dropped);
        }
    }

    /// NodeInfo came: from a link's other end, from the local node, or from one that is known.
    pub(super) fn met(&mut self, job: &Job, changes: &Changes) {
        let Some(id) = changes.who else {
            return;
        };
        let generation = self.topology.generation();
        if let Who::Beyond(via) = job.who {
            self.beyond.remove(&via);
            self.answers_behind(via);
            if let Some(peer) = self.topology.port(via).and_then(|p| p.peer) {
                for key in [via, peer] {
                    self.nodes.of(key.node).verify(key.port, generation);
                }
            }
        }
        let fresh = changes
            .list
            .iter()
            .any(|c| matches!(c, Change::NodeAppeared(n) | Change::NodeReturned(n) if *n == id));
        if fresh {
            self.forget_back_off(id);
            // It may have other firmware now, or be another machine with the same adapter.
            self.nodes.of(id).forget_pma();
            self.nodes.of(id).no_link_details = false;
        }
        let walked = self.nodes.get(&id).is_some_and(|n| n.walked == generation);
        match job.run {
            Some(run) if run.kind == SweepKind::Discovery => {
                if !walked {
                    self.walk(id, run);
                }
            }
            run => {
                if fresh || !walked && matches!(job.who, Who::Beyond(_)) {
                    let own = self.open_rediscovery();
                    self.walk(id, run.filter(|r| self.loops.is_current(*r)).unwrap_or(own));
                    self.count(Some(own), Done::Dropped);
                }
            }
        }
    }

    /// PortInfo came.
    pub(super) fn port_read(
        &mut self,
        job: &Job,
        id: NodeId,
        port: u8,
        ok: bool,
        changes: &Changes,
    ) {
        let key = id.port(port);
        let Some(node) = self.topology.node(id) else {
            return;
        };
        if job.walk && port == 0 && node.kind == NodeKind::Switch {
            let ports = node.external_ports();
            for port in ports {
                let next = Job::new(Ask::PortInfo(port), Who::Node(id));
                self.enqueue(next.run(job.run).walking());
            }
        }
        if !ok {
            return;
        }
        if self.topology.local() == Some(key) || port == 0 && self.is_local(id) {
            self.local_port_read(key);
        }
        let Some(node) = self.topology.node(id) else {
            return;
        };
        let Some(at) = node.port(port) else {
            return;
        };
        let Some(info) = at.info.as_ref() else {
            return;
        };
        let changed = changes.list.iter().any(|c| match c {
            Change::PortState { port, from, .. } => *port == key && from.is_some(),
            Change::LinkRate { port } => *port == key,
            _ => false,
        });
        let linked = port != 0 && (info.phys_state() == PhysState::LinkUp || at.is_up());
        let passing = linked && matches!(at.state(), Some(2 | 3));
        let peer = at.peer.is_some_and(|peer| self.is_present(peer.node));
        if !linked {
            self.beyond.remove(&key);
            return;
        }
        if self.passes_on(key) {
            let discovery = job.run.filter(|run| run.kind == SweepKind::Discovery);
            let wanted = match discovery {
                Some(_) => !self.is_verified(key),
                // A port that came up again may have another neighbour.
                None => !peer && !self.is_left_alone(key) || changed && passing,
            };
            let wanted = wanted && !self.is_guarded_behind(key, discovery);
            if wanted && self.probing.insert(key) {
                self.ask_beyond(key, discovery);
            }
        }
        if job.walk || changed {
            self.ask_link_details(key, job.run);
        }
        if passing
            && job
                .run
                .is_none_or(|run| run.kind != SweepKind::Discovery || changed)
        {
            self.recheck(key, 0);
        }
    }

    fn ask_beyond(&mut self, key: PortKey, discovery: Option<RunId>) {
        let job = Job::new(Ask::NodeInfo, Who::Beyond(key));
        match discovery {
            Some(run) => self.enqueue(job.run(Some(run))),
            None => {
                let run = self.open_rediscovery();
                self.enqueue(job.run(Some(run)).urgent());
                self.count(Some(run), Done::Dropped);
            }
        }
    }

    fn is_local(&self, id: NodeId) -> bool {
        self.topology.local().is_some_and(|local| local.node == id)
    }

    /// A directed route can lead on through this port.
    fn passes_on(&self, key: PortKey) -> bool {
        let Some(node) = self.topology.node(key.node) else {
            return false;
        };
        node.kind == NodeKind::Switch || self.topology.local() == Some(key)
    }

    /// FDR10 and FEC, where the port may have them.
    fn ask_link_details(&mut self, key: PortKey, run: Option<RunId>) {
        let Some(node) = self.topology.node(key.node) else {
            return;
        };
        let (caps, caps2) = node
            .capability_masks(key.port)
            .unwrap_or((PortCaps(0), PortCaps2(0)));
        let Some(at) = node.port(key.port) else {
            return;
        };
        let Some(info) = at.info.as_ref() else {
            return;
        };
        let extended = caps.has(PortCaps::EXT_SPEEDS) && info.link_speed_ext_active().code() != 0;
        let fdr10 = info.phys_state() == PhysState::LinkUp
            && info.link_speed_active() == LinkSpeed::Qdr
            && !extended
            && may_run_fdr10(node.info.device_id());
        if self.nodes.get(&key.node).is_some_and(|n| n.no_link_details) {
            return;
        }
        let fec = at.is_up() && caps2.has(PortCaps2::PORT_INFO_EXTENDED);
        let who = Who::Node(key.node);
        if fdr10 {
            self.enqueue(Job::new(Ask::Fdr10(key.port), who).run(run));
        }
        if fec {
            if run.is_some_and(|run| run.kind == SweepKind::Discovery) {
                // Nothing that discovery looks for hangs on it, and it is a question for each
                // port of the fabric: it waits until the fabric is known.
                self.fec_later.insert(key);
            } else {
                self.enqueue(Job::new(Ask::Fec(key.port), who).run(run));
            }
        }
    }

    /// Discovery is over: ports that may tell their FEC are asked for it, behind all else.
    pub(super) fn ask_fec(&mut self) {
        let ports = std::mem::take(&mut self.fec_later);
        if ports.is_empty() {
            return;
        }
        let run = self.open_rediscovery();
        for key in ports {
            let silent = self.nodes.get(&key.node).is_some_and(|n| n.no_link_details);
            let up = self.topology.port(key).is_some_and(|p| p.is_up());
            if up && !silent && self.is_present(key.node) {
                let job = Job::new(Ask::Fec(key.port), Who::Node(key.node));
                self.enqueue(job.run(Some(run)));
            }
        }
        self.count(Some(run), Done::Dropped);
    }

    /// What changes mean for what is kept here.
    pub(super) fn note_changes(&mut self, changes: &Changes) {
        for change in &changes.list {
            match *change {
                Change::NodeMissing(id) => self.forget_back_off(id),
                Change::Doubt(doubt) => self.ask_in_doubt(doubt),
                Change::Elsewhere(port) => self.ask_in_doubt(Doubt::Port(port)),
                Change::Duplicate { second, .. } => self.walk_twin(second),
                Change::Full => self.note(
                    Severity::Critical,
                    None,
                    format!(
                        "more than {MOST_NODES} nodes or {MOST_PORTS} ports answer, as no subnet \
                         has: those beyond are left out"
                    ),
                ),
                Change::Lid { port, .. } => {
                    let node = self.nodes.of(port.node);
                    node.sl = None;
                    node.redirect = None;
                    node.redirect_gid = None;
                }
                Change::Replaced { expected, found } => {
                    self.note(
                        Severity::Warning,
                        Some(expected),
                        format!("{found} answers where {expected} was expected"),
                    );
                    self.surprised();
                }
                _ => {}
            }
        }
    }

    /// Two answers contradict each other: what the first was about is asked again.
    fn ask_in_doubt(&mut self, doubt: Doubt) {
        if !self.may_doubt(doubt) {
            return;
        }
        let run = self.open_rediscovery();
        match doubt {
            Doubt::Behind(via) => {
                if self.probing.insert(via) {
                    let job = Job::new(Ask::NodeInfo, Who::Beyond(via));
                    self.enqueue(job.run(Some(run)).urgent());
                }
            }
            Doubt::Port(key) => {
                let job = Job::new(Ask::PortInfo(key.port), Who::Node(key.node));
                self.enqueue(job.run(Some(run)).urgent());
            }
        }
        self.count(Some(run), Done::Dropped);
    }

    /// Answers that never stop contradicting each other are left to the sweeps.
    fn may_doubt(&mut self, doubt: Doubt) -> bool {
        let now = self.now;
        self.doubted
            .retain(|_, (from, _)| now.since(*from) < DOUBTED);
        let (_, times) = self.doubted.entry(doubt).or_insert((now, 0));
        *times = times.saturating_add(1);
        *times <= DOUBTS
    }

    /// A node turned out to be two: the second is asked for its details.
    fn walk_twin(&mut self, id: NodeId) {
        let own = self.open_rediscovery();
        let run = self.loops.current(SweepKind::Discovery).unwrap_or(own);
        self.walk(id, run);
        self.count(Some(own), Done::Dropped);
        let generation = self.topology.generation();
        let Some(entry) = self.topology.node(id).map(|n| id.port(n.entry)) else {
            return;
        };
        if let Some(via) = self.topology.port(entry).and_then(|p| p.peer) {
            self.beyond.remove(&via);
            for key in [via, entry] {
                let node = self.nodes.of(key.node);
                node.verify(key.port, generation);
            }
        }
    }

    /// Something is not as it was thought to be: a full discovery, but not one after another.
    fn surprised(&mut self) {
        let at = self
            .loops
            .began(SweepKind::Discovery)
            .map_or(self.now, |began| (began + SURPRISE).max(self.now));
        self.loops.discover_at(at);
    }

    /// A notice says that something at this node changed: read it again, soon and once.
    pub(super) fn reread(&mut self, id: NodeId) {
        let now = self.now;
        let reread = &mut self.nodes.of(id).reread;
        if reread.due {
            return;
        }
        let at = (now + COALESCE).max(reread.not_before);
        reread.due = true;
        reread.not_before = at + REREAD;
        self.rereads.insert((at, id));
    }

    /// Looks at a port again until its state is no passing one.
    fn recheck(&mut self, key: PortKey, times: u8) {
        let sm = self.local.as_ref().is_some_and(|l| l.sm_lid != 0);
        if !sm || times >= RECHECKS {
            return;
        }
        let known = self.rechecks.iter().any(|((_, k), _)| *k == key);
        if known || self.rechecks.len() >= 256 {
            return;
        }
        let at: Stamp = self.now + RECHECK * (1 << times);
        self.rechecks.insert((at, key), times + 1);
    }

    pub(super) fn run_rereads(&mut self) {
        while let Some(&(at, id)) = self.rereads.first() {
            if at > self.now {
                break;
            }
            self.rereads.pop_first();
            self.nodes.of(id).reread.due = false;
            self.read_again(id);
        }
        while let Some(entry) = self.rechecks.first_entry() {
            let ((at, key), times) = (*entry.key(), *entry.get());
            if at > self.now {
                break;
            }
            entry.remove();
            let passing = self
                .topology
                .port(key)
                .is_some_and(|p| matches!(p.state(), Some(2 | 3)));
            if passing && self.is_present(key.node) {
                let run = self.open_rediscovery();
                let job = Job::new(Ask::PortInfo(key.port), Who::Node(key.node));
                self.enqueue(job.by(By::Lid).run(Some(run)).urgent());
                self.count(Some(run), Done::Dropped);
                self.recheck(key, times);
            }
        }
    }

    fn read_again(&mut self, id: NodeId) {
        let Some(node) = self.topology.node(id) else {
            return;
        };
        if !node.present {
            return;
        }
        let switch = node.kind == NodeKind::Switch;
        let ports: Vec<u8> = if switch {
            node.external_ports().collect()
        } else {
            vec![node.entry]
        };
        let run = self.open_rediscovery();
        let job = |ask| Job::new(ask, Who::Node(id)).by(By::Lid).run(Some(run));
        if !switch {
            self.enqueue(job(Ask::NodeDescription).urgent());
        }
        // The first of them must be the first to leave: urgent jobs go to the front of their
        // node's queue, so the last is put there first.
        for port in ports.into_iter().rev() {
            self.enqueue(job(Ask::PortInfo(port)).urgent());
        }
        self.count(Some(run), Done::Dropped);
    }

    /// A node's port changed its capabilities.
    pub(super) fn local_change(&mut self, id: NodeId) {
        if self
            .topology
            .node(id)
            .is_some_and(|n| n.kind != NodeKind::Switch)
        {
            self.reread(id);
        }
    }

    /// A node's description changed.
    pub(super) fn describe_again(&mut self, id: NodeId) {
        if self.is_present(id) {
            let run = self.open_rediscovery();
            let job = Job::new(Ask::NodeDescription, Who::Node(id));
            self.enqueue(job.by(By::Lid).run(Some(run)).urgent());
            self.count(Some(run), Done::Dropped);
        }
    }
}
