//! Nodes that an M_Key protects, and others that do not say who they are: the SA is asked.
//!
//! Each Get without the right key counts a violation at such a node, may start its lease, and
//! has it send a trap (spec 14.2.4). So after the first silence of a node that PortInfo or a
//! trap says is protected, it gets no SMP any more, and what the SA tells stands in. Its
//! performance agent has no such key and is asked as ever.
//!
//! Where the operator gives a key, every SMP carries it. To send it only to those who need it
//! would be no gentler: who needs it is not known before the first question, a node of level 2
//! hides the very PortInfo that tells, and each first question without the key would count a
//! violation, start the lease and raise a trap at every protected node. Nodes that have no key do
//! not look at it. It is in clear in each SMP, as it is in those of the subnet manager: whoever
//! controls a node's management agent can read the key of those who ask it. So a key that only
//! some nodes have is better not given.

use std::collections::{BTreeSet, VecDeque};

use super::core::Core;
use super::job::{Ask, Done, Job, Lane, RunId, Who};
use super::table::Pending;
use crate::event::{Guarded, What};
use crate::fabric::topology::GET_PROTECTED;
use crate::fabric::{NodeId, NodeKind, PortKey};
use crate::mad::notice;

/// Questions to the SA that wait: no more than a fabric in trouble has silent ports.
const MOST_WAITING: usize = 4096;

/// What the SA is asked about somebody who does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Who is at the other end of this port: a LID and a port.
    Link(PortKey),
    /// The node with that LID.
    Node(PortKey),
    /// Its port, and whether it is protected.
    Guard(PortKey),
    /// A port of a node that is protected.
    Port(PortKey),
}

/// Who is protected or silent, and what the SA is still to be asked of them.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    queue: VecDeque<(Step, Option<RunId>)>,
    asking: bool,
    /// A trap named these as protected: nodes, and ports that such a one is behind.
    named: BTreeSet<NodeId>,
    named_behind: BTreeSet<PortKey>,
    /// The SA was asked who is behind these.
    told: BTreeSet<PortKey>,
}

impl Core {
    /// Somebody raised trap 256. Whom it names is left alone after its first silence.
    pub(super) fn bad_key(&mut self, received: &notice::Received) {
        let notice::Trap::BadMKey {
            hops,
            truncated,
            return_path,
            ..
        } = received.trap()
        else {
            return;
        };
        let lid = received.notice.issuer_lid();
        if let Some(key) = self.topology.by_lid(lid) {
            self.strangers.named.insert(key.node);
            return;
        }
        // A stranger: it is behind the port at which a question of ours took that way.
        if hops == 0 || truncated {
            return;
        }
        let hops = usize::from(hops);
        let behind: Vec<PortKey> = self
            .table
            .latest()
            .filter_map(|p| match (p.job.who, p.request.path) {
                (Who::Beyond(via), Some(path)) if path.len() == hops => {
                    // Entry 0 of a return path is not used; some leave it out of the notice.
                    let way = self.topology.entries(&path)?;
                    let known = way.len();
                    let same = |skip: usize| {
                        return_path
                            .get(skip..skip + known)
                            .is_some_and(|told| told == way)
                    };
                    (same(0) || same(1)).then_some(via)
                }
                _ => None,
            })
            .collect();
        // Neighbours of it took the same way but for the last link. They answer, or the SA tells
        // that they are not protected.
        self.strangers.named_behind.extend(behind);
    }

    /// The silence of this request is that of a protected node.
    pub(super) fn is_protected(&self, job: &Job) -> bool {
        if job.lane() != Lane::Smp {
            return false;
        }
        let by_port = |id: NodeId| {
            let node = self.topology.node(id);
            let named = self.strangers.named.contains(&id);
            named
                || node.is_some_and(|node| {
                    let slot = if node.kind == NodeKind::Switch {
                        0
                    } else {
                        node.entry
                    };
                    node.port(slot)
                        .and_then(|p| p.info.as_ref())
                        .is_some_and(|info| info.m_key_protect() >= GET_PROTECTED)
                })
        };
        match job.who {
            Who::Node(id) => by_port(id),
            Who::Beyond(via) => {
                self.strangers.named_behind.contains(&via)
                    || self
                        .topology
                        .port(via)
                        .and_then(|p| p.peer)
                        .is_some_and(|peer| by_port(peer.node))
            }
            Who::Local | Who::Sm => false,
        }
    }

    /// An attempt was not answered: if that is a protected node's silence, the request ends
    /// here. `pending` was taken from the table.
    pub(super) fn leave_protected(&mut self, tid: u32, pending: &Pending) -> bool {
        let job = pending.job;
        if !self.is_protected(&job) {
            return false;
        }
        self.end_earlier_attempts(&job);
        self.say_over(tid, pending);
        match job.who {
            Who::Node(id) => self.guard(id, job.run),
            Who::Beyond(via) => match self.topology.port(via).and_then(|p| p.peer) {
                Some(peer) => self.guard(peer.node, job.run),
                None => {
                    self.left_alone(via);
                    self.ask_about(via, job.run);
                }
            },
            Who::Local | Who::Sm => {}
        }
        self.finish(job, Done::Failed);
        true
    }

    fn guard(&mut self, id: NodeId, run: Option<RunId>) {
        let changes = self.topology.guard(id, true);
        if changes.list.is_empty() {
            return;
        }
        self.emit(What::Guarded(Guarded {
            node: id,
            guarded: true,
        }));
        self.forget_back_off(id);
        if let Some(via) = self.way_to(id) {
            self.ask_about(via, run);
        }
    }

    /// The port behind which a node is.
    fn way_to(&self, id: NodeId) -> Option<PortKey> {
        let node = self.topology.node(id)?;
        node.port(node.entry)?.peer
    }

    /// Protected nodes may be asked again: the operator wants to know.
    pub(super) fn trust_again(&mut self) {
        self.strangers.named.clear();
        self.strangers.named_behind.clear();
        self.strangers.told.clear();
        let guarded: Vec<NodeId> = self
            .topology
            .nodes()
            .filter(|n| n.guarded)
            .map(|n| n.id)
            .collect();
        for node in guarded {
            self.topology.guard(node, false);
            self.emit(What::Guarded(Guarded {
                node,
                guarded: false,
            }));
        }
    }

    /// The other end of this link is a protected node: the SA is asked instead. True if so.
    pub(super) fn is_guarded_behind(&mut self, via: PortKey, run: Option<RunId>) -> bool {
        let peer = self.topology.port(via).and_then(|p| p.peer);
        let guarded = peer
            .and_then(|peer| self.topology.node(peer.node))
            .is_some_and(|node| node.guarded);
        if guarded {
            self.strangers.told.remove(&via);
            self.ask_about(via, run);
        }
        guarded
    }

    /// Asks the SA who is at the other end of a port that says nothing.
    pub(super) fn ask_about(&mut self, via: PortKey, run: Option<RunId>) {
        if self.strangers.told.insert(via) {
            self.ask_sa(Step::Link(via), run);
        }
    }

    /// Whoever is behind this port answers: the SA need not be asked, until he falls silent.
    pub(super) fn answers_behind(&mut self, via: PortKey) {
        self.strangers.told.remove(&via);
        self.strangers.named_behind.remove(&via);
    }

    fn ask_sa(&mut self, step: Step, run: Option<RunId>) {
        let usable = self.config.sa && self.sa_lid().is_some() && !self.is_closing();
        if usable && self.strangers.queue.len() < MOST_WAITING {
            self.loops.opened(run);
            self.strangers.queue.push_back((step, run));
        }
    }

    /// Puts the next question, one at a time.
    pub(super) fn run_strangers(&mut self) {
        if self.strangers.asking || self.sa_lid().is_none() {
            return;
        }
        if let Some((step, run)) = self.strangers.queue.pop_front() {
            self.strangers.asking = true;
            self.enqueue(Job::new(Ask::Told(step), Who::Sm).run(run));
            self.count(run, Done::Dropped);
        }
    }

    /// A question to the SA is over.
    pub(super) fn told_over(&mut self, done: Done) {
        self.strangers.asking = false;
        if done == Done::Failed {
            // A silent SA is not asked one thing after another.
            self.drop_strangers();
        }
    }

    /// Nothing more is asked.
    pub(super) fn drop_strangers(&mut self) {
        self.strangers.asking = false;
        self.strangers.told.clear();
        for (_, run) in std::mem::take(&mut self.strangers.queue) {
            self.count(run, Done::Failed);
        }
    }

    /// The SA answered.
    pub(super) fn told(&mut self, job: &Job, step: Step, ok: bool, who: Option<NodeId>) {
        if !ok {
            return;
        }
        match step {
            Step::Link(via) => {
                if self.topology.told(via).is_some_and(|told| told.lid != 0) {
                    self.ask_sa(Step::Node(via), job.run);
                }
            }
            Step::Node(via) => {
                if self.topology.told(via).is_some_and(|t| t.node.is_some()) {
                    self.ask_sa(Step::Guard(via), job.run);
                }
            }
            Step::Guard(via) => {
                let protected = self
                    .topology
                    .told(via)
                    .is_some_and(|told| told.protect >= Some(GET_PROTECTED));
                if !protected
                    && self.strangers.named_behind.remove(&via)
                    && self.probing.insert(via)
                {
                    // It was a neighbour of the protected one, and its MAD was lost.
                    self.enqueue(Job::new(Ask::NodeInfo, Who::Beyond(via)).run(job.run));
                }
                let Some(node) = who.and_then(|id| self.topology.node(id)) else {
                    return;
                };
                if node.guarded {
                    let (id, entry, switch) = (node.id, node.entry, node.kind == NodeKind::Switch);
                    for port in node.external_ports() {
                        if switch || port != entry {
                            self.ask_sa(Step::Port(id.port(port)), job.run);
                        }
                    }
                }
            }
            Step::Port(key) => {
                let up = self.topology.port(key).is_some_and(|p| p.is_up());
                let switch = self
                    .topology
                    .node(key.node)
                    .is_some_and(|n| n.kind == NodeKind::Switch);
                // A protected switch passes directed routes on like any other.
                if up && switch && !self.is_verified(key) && self.probing.insert(key) {
                    self.enqueue(Job::new(Ask::NodeInfo, Who::Beyond(key)).run(job.run));
                }
            }
        }
    }
}
