//! The transaction table: requests that wait for their reply.
//!
//! A transaction is named by the low 32 bits of its TID, since the kernel rewrites the others.
//! They are unique in the session, over all classes, and fresh for every attempt, so that a
//! late reply is never taken for another's. All attempts of one request stay known until it
//! ends: whichever is answered first, answers it.
//!
//! Transaction ids follow one another, so that the low bits of one say where its attempt is.
//! Attempts stay where they were put, and what waits for a time is a heap of times: an attempt
//! that is answered before, as nearly all are, leaves its time behind there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

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
    /// When it may be made where hardly anything is lost.
    pub(super) late: Stamp,
    /// When it may be made if the port gives this one back.
    pub(super) calm: Stamp,
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
            late: times.late,
            calm: times.calm,
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
    pub(super) late: Stamp,
    pub(super) calm: Stamp,
    pub(super) resend: bool,
    pub(super) timeout: Stamp,
    pub(super) deadline: Stamp,
}

/// Attempts that the table has places for, more than are ever known at once: an id whose place
/// is taken is not given.
const PLACES: usize = 4096;

/// All requests on their way.
#[derive(Debug)]
pub(super) struct Table {
    next: u32,
    /// Where in `slots` the attempt is whose id ends in these bits: one more than its index, or 0.
    places: Vec<u16>,
    slots: Vec<Option<(u32, Pending)>>,
    free: Vec<u16>,
    /// The first of them is an attempt's alarm; others may be of attempts that are over.
    alarms: BinaryHeap<Reverse<(Stamp, u32)>>,
    /// All attempts that are known of requests that were sent more than once.
    attempts: BTreeMap<u64, Vec<u32>>,
    /// Requests that were answered while their next attempt waited to be sent.
    answered: BTreeSet<u64>,
}

impl Table {
    pub(super) fn new(seed: u32) -> Table {
        Table {
            next: seed,
            places: vec![0; PLACES],
            slots: Vec::new(),
            free: Vec::new(),
            alarms: BinaryHeap::new(),
            attempts: BTreeMap::new(),
            answered: BTreeSet::new(),
        }
    }

    /// A fresh transaction id.
    pub(super) fn fresh(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            // 0 is what unsolicited MADs of simulators carry.
            if self.next != 0 && self.places.get(place(self.next)) == Some(&0) {
                return self.next;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, tid: u32) -> Option<usize> {
        let at = *self.places.get(place(tid))?;
        usize::from(at).checked_sub(1)
    }

    fn get_mut(&mut self, tid: u32) -> Option<&mut Pending> {
        let slot = self.slot(tid)?;
        let (own, pending) = self.slots.get_mut(slot)?.as_mut()?;
        (*own == tid).then_some(pending)
    }

    /// Takes an attempt in. Its id is one that [`Table::fresh`] gave.
    pub(super) fn insert(&mut self, tid: u32, pending: Pending) {
        if pending.job.id != 0 {
            self.attempts.entry(pending.job.id).or_default().push(tid);
        }
        self.alarms.push(Reverse((pending.alarm, tid)));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u16::try_from(self.slots.len() - 1).unwrap_or(u16::MAX)
        });
        if let Some(at) = self.slots.get_mut(usize::from(slot)) {
            *at = Some((tid, pending));
        }
        if let Some(at) = self.places.get_mut(place(tid)) {
            *at = slot + 1;
        }
    }

    pub(super) fn get(&self, tid: u32) -> Option<&Pending> {
        let (own, pending) = self.slots.get(self.slot(tid)?)?.as_ref()?;
        (*own == tid).then_some(pending)
    }

    pub(super) fn remove(&mut self, tid: u32) -> Option<Pending> {
        let slot = self.slot(tid)?;
        let (_, pending) = self.slots.get_mut(slot)?.take_if(|(own, _)| *own == tid)?;
        if let Some(at) = self.places.get_mut(place(tid)) {
            *at = 0;
        }
        self.free.push(u16::try_from(slot).unwrap_or(u16::MAX));
        self.skip_alarms();
        let id = pending.job.id;
        if id != 0
            && let Some(list) = self.attempts.get_mut(&id)
        {
            list.retain(|other| *other != tid);
            if list.is_empty() {
                self.attempts.remove(&id);
            }
        }
        Some(pending)
    }

    /// Forgets alarms of attempts that are over or are looked at at another time, as far as they
    /// come first.
    fn skip_alarms(&mut self) {
        while let Some(&Reverse((at, tid))) = self.alarms.peek() {
            if self.get(tid).is_some_and(|p| p.alarm == at) {
                return;
            }
            self.alarms.pop();
        }
    }

    /// Takes the attempt that this MAD answers.
    pub(super) fn answered(&mut self, mad: &Mad) -> Option<Pending> {
        let tid = mad.tid_low();
        self.get(tid)?.request.is_answered_by(mad).then_some(())?;
        self.remove(tid)
    }

    /// Takes the attempt that came back without an answer.
    pub(super) fn unanswered(&mut self, tid: u32, class: u8) -> Option<Pending> {
        (self.get(tid)?.request.class == class).then_some(())?;
        self.remove(tid)
    }

    pub(super) fn deadline(&self) -> Option<Stamp> {
        self.alarms.peek().map(|Reverse((at, _))| *at)
    }

    /// An attempt whose time to be looked at has come.
    pub(super) fn due(&self, now: Stamp) -> Option<u32> {
        let &Reverse((at, tid)) = self.alarms.peek()?;
        (at <= now).then_some(tid)
    }

    fn set_alarm(&mut self, tid: u32, at: Stamp) {
        if let Some(pending) = self.get_mut(tid)
            && pending.alarm != at
        {
            pending.alarm = at;
            self.alarms.push(Reverse((at, tid)));
            self.skip_alarms();
        }
    }

    /// An attempt takes longer than usual; `parked` if its place went to another.
    pub(super) fn overdue(&mut self, tid: u32, parked: bool) {
        let Some(pending) = self.get_mut(tid) else {
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
        let Some(pending) = self.get_mut(tid) else {
            return;
        };
        pending.resend = false;
        let at = pending.deadline;
        self.set_alarm(tid, at);
    }

    /// No further attempt follows before this time.
    pub(super) fn wait_until(&mut self, tid: u32, at: Stamp) {
        if let Some(pending) = self.get_mut(tid) {
            pending.again = at;
            let at = pending.after_overdue();
            self.set_alarm(tid, at);
        }
    }

    /// A later attempt follows under the same request id.
    pub(super) fn supersede(&mut self, tid: u32, id: u64) {
        let Some(pending) = self.get_mut(tid) else {
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
        let all = self.slots.iter().flatten();
        let mut tids: Vec<u32> = all
            .filter(|(_, p)| p.stage == Stage::Superseded)
            .map(|(tid, _)| *tid)
            .collect();
        tids.sort_unstable();
        tids.into_iter()
            .filter_map(|tid| Some((tid, self.remove(tid)?)))
            .collect()
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(0);
        self.slots.clear();
        self.free.clear();
        self.alarms.clear();
        self.attempts.clear();
        self.answered.clear();
    }

    /// The latest attempt of each request that is on its way.
    pub(super) fn latest(&self) -> impl Iterator<Item = &Pending> {
        let all = self.slots.iter().flatten().map(|(_, pending)| pending);
        all.filter(|p| p.stage != Stage::Superseded)
    }

    /// Lets the job of every attempt be changed.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (&mut Job, Stage)> {
        let all = self.slots.iter_mut().flatten();
        all.map(|(_, p)| (&mut p.job, p.stage))
    }
}

/// Where the attempt with this id is noted.
const fn place(tid: u32) -> usize {
    tid as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::job::{Ask, Who};
    use crate::fabric::Target;
    use crate::mad::{Attribute, Method, NodeInfo};

    fn pending(sent: u64, overdue: u64, deadline: u64) -> Pending {
        let at = Stamp::from_millis;
        let mad = Mad::smp_lid(Method::Get, NodeInfo::ID, 0, 1);
        Pending::new(
            Job::new(Ask::NodeInfo, Who::Local),
            Request::of(&mad, 1, Target::default()),
            at(sent),
            Times {
                overdue: Some(at(overdue)),
                again: at(deadline),
                late: at(deadline),
                calm: at(deadline),
                resend: true,
                timeout: at(deadline),
                deadline: at(deadline),
            },
        )
    }

    #[test]
    fn the_next_alarm_is_that_of_an_attempt_that_is_still_known() {
        let at = Stamp::from_millis;
        let mut table = Table::new(7);
        let tids = [(1, 9), (2, 5), (3, 7)].map(|(sent, overdue)| {
            let tid = table.fresh();
            table.insert(tid, pending(sent, overdue, 100));
            tid
        });
        assert_eq!(tids, [8, 9, 10]);
        assert_eq!(table.deadline(), Some(at(5)));
        assert_eq!(table.due(at(4)), None);
        // The first to be overdue is answered; of the others one is looked at later.
        assert!(table.remove(9).is_some() && table.remove(9).is_none());
        assert_eq!(
            (table.deadline(), table.due(at(7))),
            (Some(at(7)), Some(10))
        );
        table.overdue(10, true);
        assert_eq!(table.deadline(), Some(at(9)));
        assert!(table.remove(8).is_some());
        assert_eq!((table.deadline(), table.len()), (Some(at(100)), 1));
        assert!(table.remove(10).is_some() && table.is_empty());
        assert_eq!(table.deadline(), None);
    }

    #[test]
    fn an_id_is_not_given_while_its_place_is_taken() {
        let mut table = Table::new(u32::MAX - 1);
        let first = table.fresh();
        table.insert(first, pending(0, 1, 2));
        // All others come round, but not 0 and none that ends like the first.
        for _ in 0..2 * PLACES {
            let tid = table.fresh();
            assert!(tid != 0 && tid % 4096 != first % 4096, "{tid:#x}");
            assert!(table.get(tid).is_none());
        }
        assert!(table.get(first).is_some());
    }
}
