//! The sum over all ports of a node (PortSelect 255): while it stands still, no port counted an
//! error, and none need be read for its errors.
//!
//! - The sum is read once a sweep, before any port: what a port counts after that changes the
//!   next sum.
//! - It saturates. While a field of it is pegged it tells nothing, and each port is read.
//! - A reset by others changes it too, and so leads to each port's reading.
//! - Port 0 is no part of it, and is always read.
//! - Once in [`FULL_EVERY`] sweeps each port is read all the same. A port that changed while the
//!   sum did not, before nor after, shows that this node's sum cannot be relied on: it is never
//!   asked for again.
//! - A node whose sum changes in every sweep is left alone with it for a while.
//! - PortXmitWait is part of it. Where only PortCounters has that one, as in switches before the
//!   64-bit error counters, a congested switch's sum changes in every sweep, and each port is
//!   read: nothing is saved there, and nothing can be. A sum says that somewhere a port waits, not
//!   which; a port that sends nothing is no port that does not wait (one that gets no credits at
//!   all is the gravest case); and PortXmitWait comes in the same reply as the errors, so asking
//!   for one without the other costs as much. Leaving it out of the comparison would spare the
//!   reads by showing a share of waiting that is old, when it matters most.

use std::collections::BTreeMap;

use super::core::Core;
use super::job::{Ask, Done, Job, RunId, Who};
use super::nodes::PortSet;
use super::sweep::counted_ports;
use crate::event::Severity;
use crate::fabric::NodeId;
use crate::mad::{Attribute, ErrorCounts, Mad, PortCounters};

/// Each port is read once in so many sweeps, whatever the sum says.
const FULL_EVERY: u8 = 12;
/// A sum that changed so often in a row …
const RESTLESS: u8 = 3;
/// … is not asked for in so many sweeps.
const PAUSE: u8 = 12;
/// Failures in a row after which it is taken for unsupported.
const FAILURES: u8 = 2;

/// What is known of a port's errors without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: read them.
    Read,
    /// The sum is being read: the port waits for that.
    Wait,
    /// They are as they were.
    Clean,
}

/// What the sum told in a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    /// Nothing: each port is read.
    #[default]
    Nothing,
    /// It is on its way.
    Asked,
    /// Nothing changed.
    Unchanged,
}

/// The sum over all ports of one node.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// The counter sweep that `told` is of.
    run: u32,
    told: Told,
    deferred: Vec<(u8, RunId)>,
    /// The sum, as read before the ports in `read` were.
    reference: Option<ErrorCounts>,
    read: PortSet,
    /// What each port had counted at its last reading.
    ports: BTreeMap<u8, ErrorCounts>,
    /// Sweeps since each port was read.
    since_full: u8,
    /// Each port is read though the sum did not change.
    checking: bool,
    /// A port told something that the sum did not: the next sum must have changed.
    suspect: bool,
    changes: u8,
    pause: u8,
    failures: u8,
    /// Not supported, or found to be wrong.
    useless: bool,
}

impl Sums {
    /// The last sweep had no port to read.
    pub(super) fn was_clean(&self) -> bool {
        self.told == Told::Unchanged
    }

    pub(super) fn deferred_of(&self, run: RunId) -> usize {
        self.deferred.iter().filter(|(_, r)| *r == run).count()
    }

    /// Nothing that was asked comes back.
    pub(super) fn drop_requests(&mut self) {
        self.deferred.clear();
        self.told = Told::Nothing;
        self.reference = None;
    }

    /// Takes in a sum. True if it was found to be wrong.
    fn take(&mut self, sum: ErrorCounts) -> bool {
        self.failures = 0;
        let same = self.reference == Some(sum);
        if std::mem::take(&mut self.suspect) && same {
            self.useless = true;
            self.told = Told::Nothing;
            return true;
        }
        let pegged = sum.is_pegged();
        if same && !pegged && self.since_full + 1 < FULL_EVERY {
            self.since_full += 1;
            self.changes = 0;
            self.checking = false;
            self.told = Told::Unchanged;
            return false;
        }
        self.told = Told::Nothing;
        self.since_full = 0;
        self.checking = same && !pegged;
        if self.checking {
            return false;
        }
        if self.reference.is_some() || pegged {
            self.changes += 1;
            if self.changes >= RESTLESS {
                self.changes = 0;
                self.pause = PAUSE;
            }
        }
        self.reference = (!pegged).then_some(sum);
        self.read = PortSet::default();
        false
    }

    /// Takes in a port's own counters, read after the sum of the same sweep.
    fn port(&mut self, port: u8, own: ErrorCounts) {
        let before = self.ports.insert(port, own);
        let Some(sum) = &self.reference else {
            return;
        };
        self.read.insert(port);
        let changed = self.checking && before.is_some_and(|before| before != own);
        self.suspect |= changed || own.exceeds(sum);
    }
}

impl Core {
    /// What the sum says of a port's errors in this sweep; asks for it if nobody did yet.
    pub(super) fn sum_says(&mut self, id: NodeId, port: u8, run: RunId) -> Verdict {
        let count = |core: &Core| core.topology.node(id).map_or(0, |n| counted_ports(n).len());
        let node = self.nodes.of(id);
        let usable = node.pma.all_ports() && node.pma.wide() && !node.sums.useless;
        if port == 0 || !usable {
            return Verdict::Read;
        }
        if node.sums.run != run.number {
            let sums = &mut node.sums;
            sums.run = run.number;
            sums.told = Told::Nothing;
            if sums.pause > 0 {
                sums.pause -= 1;
                sums.reference = None;
            } else if count(self) > 1 {
                self.nodes.of(id).sums.told = Told::Asked;
                let job = Job::new(Ask::AllPorts, Who::Node(id)).run(Some(run));
                self.enqueue(job.attempts(1));
            }
        }
        let sums = &mut self.nodes.of(id).sums;
        match sums.told {
            Told::Asked => {
                sums.deferred.push((port, run));
                self.loops.opened(Some(run));
                Verdict::Wait
            }
            Told::Unchanged if sums.read.contains(port) => Verdict::Clean,
            Told::Unchanged | Told::Nothing => Verdict::Read,
        }
    }

    /// The sum came.
    pub(super) fn sum_read(&mut self, id: NodeId, mad: &Mad) {
        let sums = &mut self.nodes.of(id).sums;
        if sums.told != Told::Asked || !mad.status().is_ok() {
            return;
        }
        let Ok(sum) = PortCounters::from_bytes(mad.data()) else {
            return;
        };
        if sums.take(ErrorCounts::of(&sum)) {
            self.note(
                Severity::Info,
                Some(id),
                "the sum over its ports does not follow its ports: each is read from here on"
                    .into(),
            );
        }
    }

    /// The question for the sum is over: the ports that waited for it are read, or need not be.
    pub(super) fn sums_over(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let sums = &mut node.sums;
        if sums.told == Told::Asked {
            sums.told = Told::Nothing;
            sums.reference = None;
            sums.failures += 1;
            sums.useless |= sums.failures >= FAILURES;
        }
        for (port, run) in std::mem::take(&mut sums.deferred) {
            if self.loops.is_current(run)
                && !self.is_closing()
                && self.sum_says(id, port, run) == Verdict::Read
            {
                let job = Job::new(Ask::Counters(port), Who::Node(id));
                self.enqueue(job.run(Some(run)));
            }
            self.count(Some(run), Done::Dropped);
        }
    }

    /// A port's own counters came.
    pub(super) fn errors_read(&mut self, job: &Job, id: NodeId, port: u8, mad: &Mad) {
        let Some(run) = job.run else {
            return;
        };
        let sums = &mut self.nodes.of(id).sums;
        if run.number != sums.run || port == 0 || !mad.status().is_ok() {
            return;
        }
        if let Ok(own) = PortCounters::from_bytes(mad.data()) {
            sums.port(port, ErrorCounts::of(&own));
        }
    }
}
