//! Which counters of a port are asked for: what its node's performance agent can do decides.
//!
//! A node that does not tell (ClassPortInfo fails) has PortCounters alone. 64-bit counters are
//! read where they are, 32-bit ones only for what is missing in them. An optional attribute that
//! a node refuses is not asked again, and costs it nothing else.

use super::core::Core;
use super::job::{Ask, Done, Job, RunId, Who};
use super::nodes::Pma;
use super::sums::Verdict;
use crate::event::FEC_EVERY;
use crate::fabric::NodeId;
use crate::mad::{Attribute, PortExtendedSpeeds};
use crate::port::Source;

impl Core {
    /// ibsim claims more than it has, and hands what it does not know to the port's SM, which
    /// may die of it.
    pub(super) fn is_ibsim(&self) -> bool {
        matches!(
            self.source,
            Source::Ibsim { .. } | Source::Umad { shim: true, .. }
        )
    }

    /// Requests that a port of this node will cost in a sweep, as far as is known.
    pub(super) fn requests_per_port(&self, id: NodeId) -> usize {
        let Some(node) = self.nodes.get(&id) else {
            return 1;
        };
        let pma = node.pma;
        if pma.wide() && !pma.wide_errors() && !node.sums.was_clean() {
            2
        } else {
            1
        }
    }

    /// Asks for a port's counters, once it is known which ones it has.
    pub(super) fn count_port(&mut self, id: NodeId, port: u8, run: RunId) {
        let node = self.nodes.of(id);
        match node.pma {
            Pma::Known { .. } => self.ask_counters(id, port, run),
            Pma::Asked => {
                node.deferred.push((port, run));
                self.loops.opened(Some(run));
            }
            Pma::Unknown => {
                node.pma = Pma::Asked;
                node.deferred.push((port, run));
                self.loops.opened(Some(run));
                self.enqueue(Job::new(Ask::PerfCaps, Who::Node(id)).run(Some(run)));
            }
        }
    }

    fn ask_counters(&mut self, id: NodeId, port: u8, run: RunId) {
        let ibsim = self.is_ibsim();
        let node = self.nodes.of(id);
        let pma = node.pma;
        let tick = pma.xmit_wait() && !ibsim && !std::mem::replace(&mut node.tick, true);
        // What FEC repairs changes slowly: twice at the beginning, for a first rate, then each
        // port in its turn.
        let turn = run.number <= 2
            || run
                .number
                .wrapping_add(u32::from(port))
                .is_multiple_of(FEC_EVERY);
        let fec = pma.fec()
            && turn
            && port != 0
            && !ibsim
            && !node.refused.contains(&PortExtendedSpeeds::ID);
        let who = Who::Node(id);
        if pma.wide() {
            self.enqueue(Job::new(Ask::CountersExt(port), who).run(Some(run)));
        }
        if !pma.wide_errors() {
            match self.sum_says(id, port, run) {
                Verdict::Read => {
                    self.enqueue(Job::new(Ask::Counters(port), who).run(Some(run)));
                }
                Verdict::Wait | Verdict::Clean => {}
            }
        }
        if fec {
            let job = Job::new(Ask::Speeds(port), who).run(Some(run));
            self.enqueue(job.attempts(2));
        }
        if tick {
            self.enqueue(Job::new(Ask::Tick(port), who).attempts(1));
        }
    }

    /// The question what a node's performance agent can do is over: its ports are asked now, or
    /// not at all.
    pub(super) fn perf_caps_over(&mut self, id: NodeId, done: Done) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        if node.pma == Pma::Asked {
            node.pma = Pma::Unknown;
        }
        let known = node.pma != Pma::Unknown;
        for (port, run) in std::mem::take(&mut node.deferred) {
            if known && self.loops.is_current(run) && !self.is_closing() {
                self.ask_counters(id, port, run);
            }
            let done = if known { Done::Dropped } else { done };
            self.count(Some(run), done);
        }
    }

    /// A node does not have what it was asked for: it is not asked again.
    pub(super) fn refused(&mut self, id: NodeId, ask: Ask) {
        let attribute = match ask {
            Ask::Speeds(_) => PortExtendedSpeeds::ID,
            Ask::Detail(attribute, _) => attribute,
            _ => return,
        };
        self.nodes.of(id).refused.insert(attribute);
    }
}
