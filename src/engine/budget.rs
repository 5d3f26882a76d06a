//! Budgets: how many MADs may be on the way, and how fast they may leave.
//!
//! The rate holds over any 100 ms: send *n* waits until send *n* − rate/10 is 100 ms old. A
//! token bucket would allow a burst on top, which is what hurts slow management processors.
//!
//! The window is of requests that are not overdue. Nobody can tell at first whether one that is
//! overdue is lost, its node dead, or only slow; if slow, more than a window is truly on its way:
//! two windows more at the beginning, eight after a while in which all answered. Each late answer
//! halves what is left of that ([`Share::late`]).

use std::collections::VecDeque;
use std::time::Duration;

use super::job::Job;
use super::rtt::{Floor, Rtt};
use crate::event::Budget;
use crate::port::Stamp;

/// The most MADs in flight in all, whatever the settings: the ibsim shim hangs beyond 300.
pub(super) const MAX_IN_FLIGHT: u16 = 256;
/// The most attempts that are known at all, overdue ones included, where the port can take them.
pub(super) const MAX_KNOWN: u16 = 1024;

/// Answers that allow one request more to be overdue without a place in the window.
const ANSWERS_PER_CREDIT: u16 = 4;

/// The window over which a rate holds.
const WINDOW: Duration = Duration::from_millis(100);

/// One budget, what uses it, and what waits for it.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) budget: Budget,
    /// In flight now.
    pub(super) in_flight: u16,
    /// The window in force: within the budget, less while replies are lost or slow.
    pub(super) window: u16,
    /// Times of the last sends, as many as fit the window.
    sends: VecDeque<Stamp>,
    /// Urgent jobs, the others, and those whose earlier attempt failed.
    pub(super) ready: [VecDeque<Job>; 3],
    /// Of those in flight: further attempts.
    pub(super) retrying: u16,
    /// Nothing is sent before: the port's queue was full.
    pub(super) blocked: Stamp,
    epoch: Epoch,
    /// Latency of all that answered.
    pub(super) rtt: Rtt,
    /// How soon anybody is asked again.
    pub(super) floor: Floor,
    /// Requests that may give up their place in the window once they are overdue, and answers
    /// towards the next one. Where nothing answers any more, nothing more is piled up.
    credit: u16,
    towards: u16,
}

/// What became of the requests since the window was last judged.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    answered: u32,
    lost: u32,
}

impl Share {
    /// A budget that nothing uses; `again` is the soonest that a question is put again.
    pub(super) fn new(budget: Budget, again: Duration) -> Share {
        let mut share = Share {
            budget,
            in_flight: 0,
            window: 0,
            sends: VecDeque::new(),
            ready: Default::default(),
            retrying: 0,
            blocked: Stamp::ZERO,
            epoch: Epoch::default(),
            rtt: Rtt::default(),
            floor: Floor::new(again),
            credit: 0,
            towards: 0,
        };
        share.set(budget);
        share.credit = share.limit().saturating_mul(2);
        share
    }

    /// Puts another budget in force. What is in flight beyond it stays; nothing new leaves.
    pub(super) fn set(&mut self, budget: Budget) {
        self.budget = budget;
        self.window = self.limit();
    }

    pub(super) fn limit(&self) -> u16 {
        self.budget.in_flight.clamp(1, MAX_IN_FLIGHT)
    }

    /// In flight to one node.
    pub(super) fn per_node(&self) -> u16 {
        self.budget.per_node.max(1)
    }

    /// Sends that one window may hold; `None` without a limit.
    fn burst(&self) -> Option<usize> {
        (self.budget.rate != 0).then(|| (self.budget.rate as usize / 10).max(1))
    }

    /// How old send n − burst must be. Rates below 10/s need a window longer than 100 ms.
    fn span(&self) -> Duration {
        match self.budget.rate {
            0 => Duration::ZERO,
            rate @ 1..=9 => Duration::from_nanos(1_000_000_000u64.div_ceil(u64::from(rate))),
            _ => WINDOW,
        }
    }

    /// When the rate and the port allow the next send.
    pub(super) fn free_at(&self) -> Stamp {
        let rate = match self.burst() {
            Some(burst) if self.sends.len() >= burst => self
                .sends
                .get(self.sends.len() - burst)
                .map_or(Stamp::ZERO, |at| *at + self.span()),
            _ => Stamp::ZERO,
        };
        rate.max(self.blocked)
    }

    /// A MAD leaves now.
    pub(super) fn sent(&mut self, now: Stamp) {
        let Some(burst) = self.burst() else {
            self.sends.clear();
            return;
        };
        self.sends.push_back(now);
        while self.sends.len() > burst {
            self.sends.pop_front();
        }
    }

    /// The last MAD did not leave after all.
    pub(super) fn unsent(&mut self) {
        self.sends.pop_back();
    }

    /// True while the window has room.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.window
    }

    /// A reply came; `retried` if only a further attempt brought it, so that one was lost.
    pub(super) fn answered(&mut self, rtt: Duration, retried: bool, timeout: Duration) {
        self.rtt.sample(rtt);
        self.floor.answered(retried);
        self.towards += 1;
        if self.towards >= ANSWERS_PER_CREDIT {
            self.towards = 0;
            self.credit = (self.credit + 1).min(self.limit().saturating_mul(8));
        }
        self.epoch.answered += 1;
        self.epoch.lost += u32::from(retried);
        let Epoch { answered, lost } = self.epoch;
        if answered < u32::from(self.window).max(32) {
            return;
        }
        self.epoch = Epoch::default();
        // Dead nodes say nothing about the fabric's load; requests answered on a later attempt
        // do. One in ten, or replies that come near their timeout, and we ask less at a time.
        let slow = self.rtt.smooth().is_some_and(|rtt| rtt > timeout / 4);
        self.window = if slow {
            self.window / 2
        } else if lost * 10 > answered {
            self.window - self.window.div_ceil(4)
        } else {
            self.window + (self.window / 8).max(1)
        }
        .clamp(1, self.limit());
    }

    fn queue(&mut self, job: &Job) -> &mut VecDeque<Job> {
        let [urgent, normal, again] = &mut self.ready;
        match job {
            job if job.urgent => urgent,
            job if job.attempt > 1 => again,
            _ => normal,
        }
    }

    pub(super) fn push(&mut self, job: Job) {
        self.queue(&job).push_back(job);
    }

    pub(super) fn push_front(&mut self, job: Job) {
        self.queue(&job).push_front(job);
    }

    /// The next job that was not tried before, but for the share that further attempts always
    /// have: nodes that do not answer must not fill the window, nor be starved by the others.
    pub(super) fn pop(&mut self) -> Option<Job> {
        if self.retrying < (self.window / 4).max(1)
            && let Some(job) = self.pop_again()
        {
            return Some(job);
        }
        let [urgent, normal, _] = &mut self.ready;
        urgent.pop_front().or_else(|| normal.pop_front())
    }

    /// The next job that was tried before.
    pub(super) fn pop_again(&mut self) -> Option<Job> {
        let [_, _, again] = &mut self.ready;
        again.pop_front()
    }

    /// A request leaves.
    pub(super) fn departs(&mut self, job: &Job) {
        self.in_flight += 1;
        self.retrying += u16::from(job.attempt > 1);
    }

    /// An answer came to a request that had given its place in the window up: it was in flight
    /// beyond the window all the same. Where that is usual, no more do.
    pub(super) fn late(&mut self) {
        self.credit /= 2;
    }

    /// An overdue request may give its place in the window up.
    pub(super) fn take_credit(&mut self) -> bool {
        let some = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        some
    }

    /// A request is no longer in flight.
    pub(super) fn over(&mut self, job: &Job) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.retrying = self.retrying.saturating_sub(u16::from(job.attempt > 1));
    }

    pub(super) fn waiting(&self) -> usize {
        self.ready.iter().map(VecDeque::len).sum()
    }
}
