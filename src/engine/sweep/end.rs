//! When a sweep ends: after the last of its answers, or when only silence is left of it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{RECHECK, lane_of};
use crate::engine::core::Core;
use crate::engine::job::{Done, Job, Lane, RunId, Who};
use crate::engine::table::{Pending, Stage};
use crate::event::{SweepEnded, SweepKind, What};
use crate::fabric::Change;

/// A request that is on its way longer than this does not hold up the next sweep.
const STRAGGLER: Duration = Duration::from_millis(200);
/// A discovery that takes longer than this does not hold up the counters.
const LONG: Duration = Duration::from_millis(900);
/// A discovery that hears nothing for a while, and waits only for neighbours that never answered
/// to any of their attempts, is over. The while follows the measured latency; it is at least the
/// first of these, and the second before anything was measured.
const QUIET_LEAST: Duration = Duration::from_millis(10);
const QUIET_UNKNOWN: Duration = Duration::from_millis(250);
/// A first discovery that found nothing is repeated after this.
const NOTHING_FOUND: Duration = Duration::from_secs(5);

impl Core {
    /// Counts the end of a job in its sweep, and ends the sweep after the last.
    pub(in crate::engine) fn count(&mut self, run: Option<RunId>, done: Done) {
        let now = self.now;
        let Some(it) = self.loops.of(run) else {
            return;
        };
        it.heard = now;
        it.open = it.open.saturating_sub(1);
        match done {
            Done::Answered => it.answered += 1,
            Done::Failed => it.failed += 1,
            Done::Dropped => {}
        }
        if it.open == 0
            && let Some(run) = run
        {
            self.check_end(run.kind);
        }
    }

    pub(super) fn check_end(&mut self, kind: SweepKind) {
        let over = self
            .loops
            .get(kind)
            .run
            .as_ref()
            .is_some_and(|run| run.open == 0 && run.planned() == 0);
        if over {
            self.end(kind);
        }
    }

    /// If nothing but silent nodes holds up a sweep, ends it. True if it is over.
    pub(super) fn settle(&mut self, kind: SweepKind) -> bool {
        let Some(run) = &self.loops.get(kind).run else {
            return true;
        };
        if run.planned() > 0 {
            return false;
        }
        let id = RunId {
            kind,
            number: run.number,
        };
        let open = run.open as usize;
        let mine = |job: &Job| job.run == Some(id);
        let [.., again] = &self.share_ref(lane_of(kind)).ready;
        let late: Vec<Job> = self
            .table
            .latest()
            .filter(|p| p.job.attempt > 1 || self.now.since(p.sent) > STRAGGLER)
            .map(|p| p.job)
            .chain(self.delayed.values().copied())
            .chain(again.iter().copied())
            .filter(|job| !self.table.is_forgone(job.id))
            .collect();
        let mut seats = BTreeSet::new();
        let mut stragglers = 0;
        for job in late {
            stragglers += usize::from(mine(&job));
            if let Some(node) = job.seat.filter(|_| job.lane() == lane_of(kind)) {
                seats.insert(node);
            }
        }
        for node in &seats {
            if let Some(node) = self.nodes.get(node) {
                let waiting = &node.seat_ref(lane_of(kind)).waiting;
                stragglers += waiting.iter().filter(|job| mine(job)).count();
                stragglers += node.deferred_of(id);
            }
        }
        if stragglers < open {
            return false;
        }
        for node in seats {
            if let Some(node) = self.nodes.get_mut(&node) {
                node.seat(lane_of(kind)).troubled = true;
            }
        }
        if let Some(run) = self.loops.of(Some(id)) {
            run.failed += run.open;
        }
        self.end(kind);
        true
    }

    /// How long a discovery must hear nothing to be quiet: eight mean latencies and their
    /// variation, so that whoever answers at all has answered by then.
    pub(in crate::engine) fn quiet(&self) -> Duration {
        self.share_ref(Lane::Smp)
            .rtt
            .eightfold()
            .map_or(QUIET_UNKNOWN, |most| most.clamp(QUIET_LEAST, QUIET_UNKNOWN))
    }

    /// A discovery waits for nodes that are known, since they would be taken for missing. Where
    /// nobody ever answered, all attempts were made and all else is quiet, it is over, and a
    /// rediscovery waits for the rest.
    pub(in crate::engine) fn end_quiet_discovery(&mut self) {
        let now = self.now;
        if self.loops.quiet_at(self.quiet()).is_none_or(|at| at > now) {
            return;
        }
        let Some(run) = &self.loops.get(SweepKind::Discovery).run else {
            return;
        };
        let id = RunId {
            kind: SweepKind::Discovery,
            number: run.number,
        };
        let open = run.open as usize;
        let unknown = |who: Who| match who {
            Who::Beyond(key) => self.topology.port(key).is_some_and(|p| p.peer.is_none()),
            _ => false,
        };
        let quiet = self.quiet();
        // Whose next attempt does not come soon has been asked as often as what is lost needs.
        let asked = |p: &Pending| {
            let attempts = self.attempts_of(&p.job);
            p.job.attempt >= attempts || p.job.attempt > 1 && p.again.since(p.sent) > quiet * 2
        };
        let mut silent = 0;
        let mut check = now;
        for p in self.table.latest() {
            if p.job.run == Some(id) && unknown(p.job.who) {
                silent += 1;
                // If it is asked again, that will be looked at again as well.
                let at = if asked(p) { p.sent + quiet } else { p.again };
                check = check.max(at);
            }
        }
        if silent < open || check > now {
            if let Some(run) = self.loops.of(Some(id)) {
                // What is known of it may be another in a moment.
                let soon = now + RECHECK;
                run.check = if silent < open { soon } else { check.min(soon) };
            }
            return;
        }
        let rest = self.open_rediscovery();
        for (job, stage) in self.table.all_mut() {
            if job.run == Some(id) {
                job.run = Some(rest);
                if stage != Stage::Superseded {
                    self.loops.opened(Some(rest));
                }
            }
        }
        if let Some(run) = self.loops.of(Some(id)) {
            run.failed += run.open;
        }
        self.end(SweepKind::Discovery);
        self.count(Some(rest), Done::Dropped);
    }

    /// The first discovery takes its time, since the subnet is large or nodes are silent:
    /// counters of what is known need not wait for it.
    pub(in crate::engine) fn is_discovery_long(&self) -> bool {
        let discovery = self.loops.get(SweepKind::Discovery);
        self.loops.get(SweepKind::Counters).next.is_none()
            && discovery.run.is_some()
            && discovery
                .began
                .is_some_and(|began| self.now.since(began) >= LONG)
    }

    pub(super) fn end(&mut self, kind: SweepKind) {
        let now = self.now;
        let it = self.loops.get_mut(kind);
        let Some(run) = it.run.take() else {
            return;
        };
        it.check = None;
        if kind == SweepKind::Discovery {
            let changes = self.topology.discovery_ended();
            for change in changes.list {
                match change {
                    Change::NodeMissing(id) => self.forget_back_off(id),
                    Change::NodeForgotten(id) => self.forget(id),
                    _ => {}
                }
            }
        }
        let digest = self.topology.digest();
        self.emit(What::SweepEnded(SweepEnded {
            kind,
            number: run.number,
            answered: run.answered,
            failed: run.failed,
            skipped: run.skipped,
            digest,
        }));
        if kind == SweepKind::Discovery {
            let interval = self.settings().sweep_interval();
            let deaf = self
                .topology
                .local()
                .and_then(|local| self.topology.node(local.node))
                .is_some_and(|node| node.seen < self.topology.generation());
            if self.topology.is_empty() || deaf {
                self.loops.discover_at(now + NOTHING_FOUND);
                return;
            }
            let states = self.loops.get_mut(SweepKind::States);
            if states.next.is_none() {
                states.next = Some(now + interval);
            }
            self.start_counting();
            self.ask_fec();
            self.discovery_over();
        }
    }

    /// Counters begin once there is something to count.
    pub(in crate::engine) fn start_counting(&mut self) {
        let now = self.now;
        let it = self.loops.get_mut(SweepKind::Counters);
        if it.next.is_none() {
            it.next = Some(now);
        }
    }
}
