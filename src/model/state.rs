//! What the model keeps of each node, port and destination.

use std::borrow::Cow;

use super::counters::{Caps, Counters};
use super::fec::Fec;
use super::history::History;
use super::latency::Latency;
use super::view::FailureKind;
use crate::fabric::best::Shortfall;
use crate::fabric::{NodeId, PortKey, Request};
use crate::mad::{ErrorCounts, FecMode};
use crate::port::Stamp;

/// How a link is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counted {
    /// It is none, or is down, or is counted at its other end.
    #[default]
    No,
    /// It could be no better.
    Best,
    /// It is below its best.
    Below(Shortfall),
}

/// A port, beside what the topology knows of it.
#[derive(Clone, Debug, Default)]
pub(super) struct PortData {
    pub counters: Option<Box<Counters>>,
    pub history: Option<Box<History>>,
    pub fec: Option<Box<Fec>>,
    /// `PortInfoExtended.FECModeActive`, if it was read.
    pub fec_mode: Option<FecMode>,
    /// When its PortInfo was last read.
    pub info_at: Option<Stamp>,
    /// Effective rate of the link, bit/s; 0 while down or unknown.
    pub capacity_bps: f64,
    /// The same of one lane.
    pub lane_bps: f64,
    /// Width or speed is below what both ends can do, as this end says.
    pub below: Option<Shortfall>,
    /// How its link is counted, if this is its lower end.
    pub counted: Counted,
    /// It had a link in this session.
    pub had_link: bool,
}

/// A node, beside what the topology knows of it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeData {
    pub id: NodeId,
    /// As shown: with the end of the GUID where names repeat.
    pub name: String,
    /// Without it.
    pub base: String,
    pub ports: Vec<PortData>,
    /// What its performance management can do; nothing before ClassPortInfo was read.
    pub caps: Caps,
    /// ClassPortInfo was answered, or refused.
    pub caps_read: bool,
    /// `PortSamplesControl.Tick`, if it was read.
    pub tick: Option<u8>,
    /// The sum of its ports' error counters, and since when it is the same.
    pub sum: Option<(ErrorCounts, Stamp)>,
    pub dest: Destination,
    /// The model's revision when a row of its ports changed last.
    pub changed: u64,
    /// The same, but for what counters and requests changed.
    pub shape: u64,
}

impl NodeData {
    pub fn port(&self, number: u8) -> Option<&PortData> {
        self.ports.get(usize::from(number))
    }
}

/// The last failure of a destination.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub kind: FailureKind,
    pub detail: Cow<'static, str>,
    pub class: u8,
    pub attribute: u16,
    pub at: Stamp,
}

/// Statistics of one destination.
#[derive(Clone, Debug, Default)]
pub(super) struct Destination {
    pub lid: u16,
    pub sent: u64,
    pub answered: u64,
    pub retried: u64,
    pub timed_out: u64,
    pub latency: Option<Box<Latency>>,
    pub failure: Option<Failure>,
    /// Requests in a row that failed for good: to its SMA, to its other agents.
    pub failing: [u32; 2],
    /// Since when one of them is not 0.
    pub silent: Option<Stamp>,
    /// Since when the node cannot be reached, or is not asked since an M_Key protects it.
    pub away: Option<Stamp>,
    pub back_off: Option<(u32, Stamp)>,
}

impl Destination {
    /// Which of `failing` a class counts in.
    pub const fn side(class: u8) -> usize {
        !matches!(class, 0x01 | 0x81) as usize
    }

    pub fn does_not_answer(&self) -> bool {
        self.failing.iter().any(|n| *n > 0)
    }

    pub fn count_sent(&mut self, attempt: u8, lid: u16) {
        self.sent += 1;
        self.retried += u64::from(attempt > 1);
        self.lid = lid;
    }

    pub fn count_answer(&mut self, class: u8, took: Option<std::time::Duration>) {
        self.answered += 1;
        if let Some(failing) = self.failing.get_mut(Self::side(class)) {
            *failing = 0;
        }
        if !self.does_not_answer() {
            self.silent = None;
        }
        if let Some(took) = took {
            self.latency.get_or_insert_default().record(took);
        }
    }

    pub fn count_failure(&mut self, failure: Failure, last: bool) {
        if failure.kind == FailureKind::NoAnswer {
            self.timed_out += 1;
        }
        if last && let Some(failing) = self.failing.get_mut(Self::side(failure.class)) {
            *failing = failing.saturating_add(1);
            self.silent.get_or_insert(failure.at);
        }
        self.failure = Some(failure);
    }

    /// Takes over the statistics of what turned out to be the same destination.
    pub fn merge(&mut self, other: Destination) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.retried += other.retried;
        self.timed_out += other.timed_out;
        if let Some(latency) = other.latency {
            self.latency.get_or_insert_default().merge(&latency);
        }
        let later = |f: &Failure| self.failure.as_ref().is_none_or(|own| own.at <= f.at);
        if other.failure.as_ref().is_some_and(later) {
            self.failure = other.failure;
        }
    }
}

/// Which destination a request went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A node, by its index.
    Node(u32),
    /// Subnet administration.
    Sa,
    /// The subnet manager, asked for its SMInfo by the LID that the local port names.
    Sm,
    /// Whoever is at the other end of this port; of none: the local node.
    Unexplored(Option<PortKey>),
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub request: Request,
    pub slot: Slot,
    pub at: Stamp,
    pub attempt: u8,
    pub timeout_ms: u32,
    /// A later attempt is being made; the answer to this one still counts.
    pub overdue: bool,
    /// Byte 1 of a PerfMgt attribute: the port that was selected.
    pub port_select: u8,
    /// Whom an unexplored target is named by.
    pub who: Option<Box<str>>,
}

/// A subnet manager that answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sm {
    pub lid: u16,
    pub priority: u8,
    pub state: u8,
    pub activity: u32,
    pub at: Stamp,
    /// Since when its activity count stands still, and whether that was said.
    pub still_since: Stamp,
    pub told: bool,
    /// When another one was found to be master instead.
    pub displaced: Option<Stamp>,
    /// When it was first heard of.
    pub first: Stamp,
    /// When its state, priority or LID last changed; when it was first heard of, if never.
    pub changed: Stamp,
    /// Since when it does not answer.
    pub silent: Option<Stamp>,
    /// Activity counts a second between its last two answers.
    pub rate: Option<f32>,
}

/// One loop's sweeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sweep {
    pub began: Option<(Stamp, u32, u32)>,
    pub running: bool,
    /// Requests resolved since it began.
    pub done: u32,
    pub ended: Option<(Stamp, u32)>,
    pub took_ns: Option<u64>,
    pub failed: u32,
}
