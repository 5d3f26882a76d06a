//! The transaction table: requests that wait for their reply.
//!
//! A transaction is named by the low 32 bits of its TID, since the kernel rewrites the others.
//! They are unique in the session, over all classes, and fresh for every attempt, so that a
//! late reply is never taken for another's. All attempts of one request stay known until it
//! ends: whichever is answered first, answers it.

use std::collections::{BTreeMap, BTreeSet};

use super::job::Job;
use crate::fabric::Request;
use crate::mad::Mad;
use crate::port::Stamp;

/// How an attempt is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has a place in the window.
    Window,
    /// It takes longer than usual: its place went to another.
    Overdue,
    /// A later attempt is being made; its own reply still counts.
    Superseded,
}

/// One attempt on its way.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) job: Job,
    pub(super) request: Request,
    pub(super) sent: Stamp,
    /// When it gives its place in the window up.
    pub(super) overdue: Option<Stamp>,
    /// When the next attempt may be made.
    pub(super) again: Stamp,
    /// The next attempt does not wait for the port's word that this one timed out.
    pub(super) resend: bool,
    /// When the port should have reported a timeout.
    pub(super) timeout: Stamp,
    /// When we give up on the port as well.
    pub(super) deadline: Stamp,
    pub(super) stage: Stage,
    /// When it is looked at next.
    alarm: Stamp,
}

impl Pending {
    /// An attempt that leaves now, with a place in the window.
    pub(super) fn new(job: Job, request: Request, sent: Stamp, times: Times) -> Pending {
        let mut pending = Pending {
            job,
            request,
            sent,
            overdue: times.overdue,
            again: times.again,
            resend: times.resend,
            timeout: times.timeout,
            deadline: times.deadline,
            stage: Stage::Window,
            alarm: times.deadline,
        };
        pending.alarm = pending.overdue.unwrap_or(pending.after_overdue());
        pending
    }

    fn after_overdue(&self) -> Stamp {
        if self.resend {
            self.again.min(self.deadline)
        } else {
            self.deadline
        }
    }
}

/// When what becomes of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) overdue: Option<Stamp>,
    pub(super) again: Stamp,
    pub(super) resend: bool,
    pub(super) timeout: Stamp,
    pub(super) deadline: Stamp,
}

/// All requests on their way.
#[derive(Debug)]
pub(super) struct Table {
    next: u32,
    pending: BTreeMap<u32, Pending>,
    alarms: BTreeSet<(Stamp, u32)>,
    /// All attempts that are known of requests that were sent more than once.
    attempts: BTreeMap<u64, Vec<u32>>,
    /// Requests that were answered while their next attempt waited to be sent.
    answered: BTreeSet<u64>,
}

impl Table {
    pub(super) fn new(seed: u32) -> Table {
        Table {
            next: seed,
            pending: BTreeMap::new(),
            alarms: BTreeSet::new(),
            attempts: BTreeMap::new(),
            answered: BTreeSet::new(),
        }
    }

    /// A fresh transaction id.
    pub(super) fn fresh(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            // 0 is what unsolicited MADs of simulators carry.
            if self.next != 0 && !self.pending.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn insert(&mut self, tid: u32, pending: Pending) {
        if pending.job.id != 0 {
            self.attempts.entry(pending.job.id).or_default().push(tid);
        }
        self.alarms.insert((pending.alarm, tid));
        self.pending.insert(tid, pending);
    }

    pub(super) fn get(&self, tid: u32) -> Option<&Pending> {
        self.pending.get(&tid)
    }

    pub(super) fn remove(&mut self, tid: u32) -> Option<Pending> {
        let pending = self.pending.remove(&tid)?;
        self.alarms.remove(&(pending.alarm, tid));
        let id = pending.job.id;
        if let Some(list) = self.attempts.get_mut(&id) {
            list.retain(|other| *other != tid);
            if list.is_empty() {
                self.attempts.remove(&id);
            }
        }
        Some(pending)
    }

    /// Takes the attempt that this MAD answers.
    pub(super) fn answered(&mut self, mad: &Mad) -> Option<Pending> {
        let tid = mad.tid_low();
        self.pending
            .get(&tid)?
            .request
            .is_answered_by(mad)
            .then_some(())?;
        self.remove(tid)
    }

    /// Takes the attempt that came back without an answer.
    pub(super) fn unanswered(&mut self, tid: u32, class: u8) -> Option<Pending> {
        (self.pending.get(&tid)?.request.class == class).then_some(())?;
        self.remove(tid)
    }

    pub(super) fn deadline(&self) -> Option<Stamp> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// An attempt whose time to be looked at has come.
    pub(super) fn due(&self, now: Stamp) -> Option<u32> {
        let &(at, tid) = self.alarms.first()?;
        (at <= now).then_some(tid)
    }

    fn set_alarm(&mut self, tid: u32, at: Stamp) {
        if let Some(pending) = self.pending.get_mut(&tid) {
            self.alarms.remove(&(pending.alarm, tid));
            pending.alarm = at;
            self.alarms.insert((at, tid));
        }
    }

    /// An attempt takes longer than usual; `parked` if its place went to another.
    pub(super) fn overdue(&mut self, tid: u32, parked: bool) {
        let Some(pending) = self.pending.get_mut(&tid) else {
            return;
        };
        pending.overdue = None;
        if parked {
            pending.stage = Stage::Overdue;
        }
        let at = pending.after_overdue();
        self.set_alarm(tid, at);
    }

    /// No further attempt follows: the port's word is waited for.
    pub(super) fn wait_for_port(&mut self, tid: u32) {
        let Some(pending) = self.pending.get_mut(&tid) else {
            return;
        };
        pending.resend = false;
        let at = pending.deadline;
        self.set_alarm(tid, at);
    }

    /// A later attempt follows under the same request id.
    pub(super) fn supersede(&mut self, tid: u32, id: u64) {
        let Some(pending) = self.pending.get_mut(&tid) else {
            return;
        };
        pending.stage = Stage::Superseded;
        let at = pending.deadline;
        if pending.job.id == 0 {
            pending.job.id = id;
            self.attempts.entry(id).or_default().push(tid);
        }
        self.set_alarm(tid, at);
    }

    /// Takes all attempts of a request that are still known.
    pub(super) fn take_attempts(&mut self, id: u64) -> Vec<(u32, Pending)> {
        let tids = self.attempts.remove(&id).unwrap_or_default();
        tids.into_iter()
            .filter_map(|tid| Some((tid, self.remove(tid)?)))
            .collect()
    }

    /// A request was answered while its next attempt waits to be sent.
    pub(super) fn forgo(&mut self, id: u64) {
        self.answered.insert(id);
    }

    /// Whether a request that waits to be sent again was answered meanwhile.
    pub(super) fn is_forgone(&self, id: u64) -> bool {
        id != 0 && self.answered.contains(&id)
    }

    /// The same, and the attempt that asks is dropped.
    pub(super) fn take_forgone(&mut self, id: u64) -> bool {
        id != 0 && self.answered.remove(&id)
    }

    /// Takes every attempt that a later one has superseded.
    pub(super) fn take_superseded(&mut self) -> Vec<(u32, Pending)> {
        let tids: Vec<u32> = self
            .pending
            .iter()
            .filter(|(_, p)| p.stage == Stage::Superseded)
            .map(|(tid, _)| *tid)
            .collect();
        tids.into_iter()
            .filter_map(|tid| Some((tid, self.remove(tid)?)))
            .collect()
    }

    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.alarms.clear();
        self.attempts.clear();
        self.answered.clear();
    }

    /// The latest attempt of each request that is on its way.
    pub(super) fn latest(&self) -> impl Iterator<Item = &Pending> {
        self.pending
            .values()
            .filter(|p| p.stage != Stage::Superseded)
    }

    /// Lets the job of every attempt be changed.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (&mut Job, Stage)> {
        self.pending.values_mut().map(|p| (&mut p.job, p.stage))
    }
}
