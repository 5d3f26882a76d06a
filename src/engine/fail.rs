//! What does not answer: timeouts, further attempts, back-off, and the way back.

use std::time::Duration;

use super::budget::{MAX_IN_FLIGHT, MAX_KNOWN};
use super::core::Core;
use super::job::{Ask, By, Done, Job, Lane, Who};
use super::nodes::Back;
use super::table::{Pending, Stage};
use crate::event::{BackOff, HowLate, TimedOut, What};
use crate::fabric::{NodeId, PortKey, Target};
use crate::port::{Source, Stamp};

/// The longest back-off.
const BACK_OFF_MOST: Duration = Duration::from_secs(300);

impl Core {
    fn say_timed_out(&mut self, tid: u32, pending: &Pending, last: bool, how: HowLate) {
        let waited = self.now.since(pending.sent);
        let request = pending.request;
        self.emit(What::TimedOut(TimedOut {
            tid,
            target: request.target,
            class: request.class,
            attribute: request.attribute,
            modifier: request.modifier,
            attempt: pending.job.attempt,
            last,
            waited_ns: u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX),
            how,
        }));
    }

    /// A request is over with this attempt.
    pub(super) fn say_over(&mut self, tid: u32, pending: &Pending) {
        self.say_timed_out(tid, pending, true, HowLate::Over);
    }

    /// An attempt's time to be looked at has come: it is overdue, or asked again, or over.
    pub(super) fn waited_for(&mut self, tid: u32) {
        let Some(pending) = self.table.get(tid) else {
            return;
        };
        let (job, stage, now) = (pending.job, pending.stage, self.now);
        if now >= pending.deadline {
            if let Some(pending) = self.table.remove(tid) {
                self.unanswered(tid, pending);
            }
            return;
        }
        if pending.overdue.is_some() {
            // Whoever waits longer than usual is slow, dead or lost: others need not wait for
            // that. As long as others answer, that is, and no more than the port can take.
            let room = self.table.len() + self.window_limits() <= usize::from(self.most_known());
            let parked = room && self.share(job.lane()).take_credit();
            if parked {
                self.share(job.lane()).over(&job);
            }
            self.table.overdue(tid, parked);
            return;
        }
        if job.attempt >= self.attempts_of(&job) || stage == Stage::Superseded {
            self.table.wait_for_port(tid);
            return;
        }
        let (late, calm) = (pending.late, pending.calm);
        if now < late && !self.share(job.lane()).floor.is_lossy() {
            self.table.wait_until(tid, late);
            return;
        }
        // The silence of a protected node ends all questions to it: it is no short one.
        if now < calm && self.is_protected(&job) {
            self.table.wait_until(tid, calm);
            return;
        }
        if stage == Stage::Window {
            self.share(job.lane()).over(&job);
        }
        if let Some(pending) = self.table.remove(tid) {
            if self.leave_protected(tid, &pending) {
                return;
            }
            self.table.insert(tid, pending);
        }
        self.serial += 1;
        self.table.supersede(tid, self.serial);
        let Some(pending) = self.table.remove(tid) else {
            return;
        };
        self.say_timed_out(tid, &pending, false, HowLate::Overdue);
        let mut job = pending.job;
        self.table.insert(tid, pending);
        // One lost MAD is no sign of trouble yet.
        if let Some(id) = job.node()
            && !job.ask.optional()
            && job.attempt > 1
        {
            self.nodes.of(id).seat(job.lane()).troubled = true;
        }
        job.attempt += 1;
        self.share(job.lane()).push(job);
    }

    /// What both budgets allow in flight.
    fn window_limits(&self) -> usize {
        Lane::ALL
            .iter()
            .map(|lane| usize::from(self.share_ref(*lane).limit()))
            .sum()
    }

    /// Attempts that may be known at all. A simulator's sockets hold few, and block beyond.
    pub(super) fn most_known(&self) -> u16 {
        match self.source {
            Source::Ibsim { .. } | Source::Umad { shim: true, .. } => MAX_IN_FLIGHT,
            _ => MAX_KNOWN,
        }
    }

    /// A request was answered: its other attempts are over too. `stage` was that of the attempt
    /// that was answered. True if a later one had left already: needlessly.
    pub(super) fn end_other_attempts(&mut self, job: &Job, stage: Stage) -> bool {
        let mut needless = false;
        if job.id == 0 {
            return needless;
        }
        let mut queued = stage == Stage::Superseded;
        for (tid, other) in self.table.take_attempts(job.id) {
            if other.stage == Stage::Window {
                self.share(other.job.lane()).over(&other.job);
            }
            queued &= other.stage == Stage::Superseded;
            needless |= other.job.attempt > job.attempt;
            self.say_timed_out(tid, &other, false, HowLate::Moot);
        }
        if queued {
            self.table.forgo(job.id);
        }
        needless
    }

    /// A request is over, answered or not: so are the attempts of it that still count.
    pub(super) fn end_earlier_attempts(&mut self, job: &Job) {
        if job.id == 0 {
            return;
        }
        for (tid, other) in self.table.take_attempts(job.id) {
            self.say_timed_out(tid, &other, false, HowLate::Over);
        }
    }

    /// Nothing is asked again any more: attempts whose successor was not sent are over.
    pub(super) fn end_superseded(&mut self) {
        for (tid, pending) in self.table.take_superseded() {
            self.say_timed_out(tid, &pending, false, HowLate::Moot);
        }
    }

    /// An attempt was not answered: its time is over, or the port gave it back.
    pub(super) fn unanswered(&mut self, tid: u32, pending: Pending) {
        let mut job = pending.job;
        match pending.stage {
            Stage::Window => self.share(job.lane()).over(&job),
            Stage::Overdue => {}
            Stage::Superseded => {
                self.say_timed_out(tid, &pending, false, HowLate::Over);
                return;
            }
        }
        if self.leave_protected(tid, &pending) {
            return;
        }
        let last = job.attempt >= self.attempts_of(&job);
        if last {
            self.end_earlier_attempts(&job);
        }
        self.say_timed_out(tid, &pending, last, HowLate::Over);
        if let Some(id) = job.node()
            && !job.ask.optional()
        {
            self.nodes.of(id).seat(job.lane()).troubled = true;
        }
        if last {
            self.give_up(job, pending.request.target);
        } else {
            job.attempt += 1;
            // A failure that returns at once is paced like one that was waited for.
            self.delay(job, pending.calm);
        }
    }

    /// A request failed for good.
    pub(super) fn give_up(&mut self, job: Job, _target: Target) {
        if job.ask.optional() {
            if let Some(id) = job.node() {
                // Some agents stay silent instead of saying so.
                self.refused(id, job.ask);
                if matches!(job.ask, Ask::Fdr10(_) | Ask::Fec(_)) {
                    self.nodes.of(id).no_link_details = true;
                }
            }
            self.finish(job, Done::Dropped);
            return;
        }
        match job.who {
            Who::Node(id) => self.back_off(id, job.lane(), job.probe),
            Who::Beyond(key) => {
                self.left_alone(key);
                self.ask_about(key, job.run);
            }
            Who::Sm => self.sa_failed(job.ask),
            Who::Local => {}
        }
        self.finish(job, Done::Failed);
    }

    /// Nobody answers behind this port: it is asked less and less often.
    pub(super) fn left_alone(&mut self, key: PortKey) {
        let back = self.beyond.get(&key).copied().unwrap_or_default();
        let back = self.longer(back);
        self.beyond.insert(key, back);
    }

    fn longer(&self, back: Back) -> Back {
        let failures = back.failures.saturating_add(1);
        let base = self.settings().interval().min(BACK_OFF_MOST);
        let wait = base
            .saturating_mul(1 << (failures - 1).min(16))
            .min(BACK_OFF_MOST);
        Back {
            failures,
            until: self.now + wait,
        }
    }

    /// A node is left alone for a while: all that waits for it fails with it.
    fn back_off(&mut self, id: NodeId, lane: Lane, probe: bool) {
        if self.is_closing() {
            return;
        }
        let node = self.nodes.of(id);
        let old = node.seat(lane).back;
        if old.is_some() && !probe {
            // The other one of two requests in flight: counted already.
            return;
        }
        let back = self.longer(old.unwrap_or_default());
        if let Some(old) = old {
            self.probes.remove(&(old.until, id, lane));
        }
        self.probes.insert((back.until, id, lane));
        let seat = self.nodes.of(id).seat(lane);
        seat.back = Some(back);
        let waiting = std::mem::take(&mut seat.waiting);
        self.say_back_off(id);
        for job in waiting {
            self.parked = self.parked.saturating_sub(1);
            self.account(job, Done::Failed);
        }
    }

    fn say_back_off(&mut self, id: NodeId) {
        let back = self.nodes.get(&id).and_then(|node| node.back());
        self.emit(What::BackOff(BackOff {
            node: id,
            failures: back.map_or(0, |b| b.failures),
            until: back.map(|b| b.until),
        }));
    }

    /// A node answered on a lane: it is well there. True if it had been backing off.
    pub(super) fn is_well(&mut self, id: NodeId, lane: Lane) -> bool {
        let node = self.nodes.of(id);
        let seat = node.seat(lane);
        seat.troubled = false;
        let Some(back) = seat.back.take() else {
            return false;
        };
        // What it was silent on meanwhile it may have all the same.
        node.refused.clear();
        self.probes.remove(&(back.until, id, lane));
        self.say_back_off(id);
        true
    }

    /// A node's back-off ends without its doing, since it is gone or new.
    pub(super) fn forget_back_off(&mut self, id: NodeId) {
        for lane in Lane::ALL {
            if self
                .nodes
                .get(&id)
                .is_some_and(|n| n.seat_ref(lane).back.is_some())
            {
                self.is_well(id, lane);
            }
        }
    }

    /// A node that is missing for long is forgotten, with all that was kept of it.
    pub(super) fn forget(&mut self, id: NodeId) {
        self.forget_back_off(id);
        // Jobs of it that are on their way find no place to give back.
        if let Some(node) = self.nodes.remove(&id) {
            for lane in Lane::ALL {
                let waiting = node.seat_ref(lane).waiting.clone();
                for job in waiting {
                    self.parked = self.parked.saturating_sub(1);
                    self.account(job, Done::Failed);
                }
            }
        }
        self.beyond.retain(|key, _| key.node != id);
        self.rereads.retain(|(_, node)| *node != id);
        self.rechecks.retain(|(_, key), _| key.node != id);
    }

    /// Asks nodes whose back-off ends, one cheap question each.
    pub(super) fn run_probes(&mut self) {
        while let Some(&(at, id, lane)) = self.probes.first() {
            if at > self.now {
                return;
            }
            self.probes.pop_first();
            if !self.is_present(id) {
                self.forget_back_off(id);
                continue;
            }
            let ask = match lane {
                Lane::Smp => Ask::NodeInfo,
                Lane::Gmp => Ask::PerfCaps,
            };
            self.enqueue(Job::new(ask, Who::Node(id)).by(By::Lid).probe());
        }
    }

    /// Nobody answered beyond this port lately: leave it alone.
    pub(super) fn is_left_alone(&self, key: crate::fabric::PortKey) -> bool {
        self.beyond.get(&key).is_some_and(|b| b.until > self.now)
    }

    /// When a job that was answered "busy" is asked again.
    pub(super) fn busy_until(&self, resp_time_value: Option<u8>) -> Stamp {
        // 4.096 µs · 2^n (spec 13.4.8.1); at least 10 ms, at most a timeout.
        let wait = resp_time_value.map_or(Duration::from_millis(100), |n| {
            Duration::from_nanos(4096u64.saturating_mul(1 << n.min(31)))
        });
        let least = Duration::from_millis(10);
        self.now + wait.max(least).min(self.timeout().max(least))
    }
}
