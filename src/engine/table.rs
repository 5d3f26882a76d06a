//! The transaction table: requests that wait for their reply.
//!
//! A transaction is named by the low 32 bits of its TID, since the kernel rewrites the others.
//! They are unique in the session, over all classes, and fresh for every attempt, so that a
//! late reply is never taken for another's.

use std::collections::{BTreeMap, BTreeSet};

use super::job::Job;
use crate::fabric::Request;
use crate::mad::Mad;
use crate::port::Stamp;

/// A request on its way.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) job: Job,
    pub(super) request: Request,
    pub(super) sent: Stamp,
    /// When the port should have reported a timeout.
    pub(super) timeout: Stamp,
    /// When we give up on the port as well.
    pub(super) deadline: Stamp,
}

/// All requests on their way.
#[derive(Debug)]
pub(super) struct Table {
    next: u32,
    pending: BTreeMap<u32, Pending>,
    deadlines: BTreeSet<(Stamp, u32)>,
}

impl Table {
    pub(super) fn new(seed: u32) -> Table {
        Table {
            next: seed,
            pending: BTreeMap::new(),
            deadlines: BTreeSet::new(),
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
        self.deadlines.insert((pending.deadline, tid));
        self.pending.insert(tid, pending);
    }

    pub(super) fn remove(&mut self, tid: u32) -> Option<Pending> {
        let pending = self.pending.remove(&tid)?;
        self.deadlines.remove(&(pending.deadline, tid));
        Some(pending)
    }

    /// Takes the request that this MAD answers.
    pub(super) fn answered(&mut self, mad: &Mad) -> Option<Pending> {
        let tid = mad.tid_low();
        self.pending
            .get(&tid)?
            .request
            .is_answered_by(mad)
            .then_some(())?;
        self.remove(tid)
    }

    /// Takes the request that came back without an answer.
    pub(super) fn unanswered(&mut self, tid: u32, class: u8) -> Option<Pending> {
        (self.pending.get(&tid)?.request.class == class).then_some(())?;
        self.remove(tid)
    }

    pub(super) fn deadline(&self) -> Option<Stamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes a request whose deadline has passed.
    pub(super) fn expired(&mut self, now: Stamp) -> Option<(u32, Pending)> {
        let &(at, tid) = self.deadlines.first()?;
        (at <= now).then_some(())?;
        Some((tid, self.remove(tid)?))
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Pending> + use<> {
        self.deadlines.clear();
        std::mem::take(&mut self.pending).into_values()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }
}
