//! The one stream: everything that happened in a session, in one order.
//!
//! The engine emits events, the recorder stores them, the model folds them, watchers receive
//! them. What a screen shows and MADs do not say is an event. Events are sequenced once, before
//! they fan out, so live, replayed and watched sessions fold the same sequence.
//!
//! This room is vocabulary only: it must never do anything.

pub mod ledger;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::fabric::Severity;
use crate::fabric::sa::SaTable;
use crate::fabric::thresholds::Thresholds;
use crate::fabric::{Lid, NodeId, PortKey, Target};
use crate::mad::Mad;
use crate::port::{Address, AgentReport, LocalPort, Source, Stamp};

/// In one of so many counter sweeps a port is asked what its FEC repaired.
pub const FEC_EVERY: u32 = 6;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number in the session's order, from 0 and without gaps unless events were dropped.
    pub seq: u64,
    /// When.
    pub at: Stamp,
    /// What.
    pub what: What,
}

/// Events as they travel: up to [`Batch::MAX`] of them, or 10 ms worth.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In order of `seq`.
    pub events: Vec<Event>,
}

impl Batch {
    /// The most events in one batch.
    pub const MAX: usize = 256;
}

/// A batch, shared by all who read it.
pub type SharedBatch = Arc<Batch>;

/// What happened.
///
/// The two MAD variants hold their 256 bytes inline, since they are nearly all of a stream and
/// a batch is one allocation; everything large and rare is boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // MADs are the common case and live inline on purpose
pub enum What {
    /// The session began.
    Opened(Box<Opened>),
    /// An agent was registered, or refused.
    Agent(Box<AgentReport>),
    /// A MAD was sent.
    Sent(Sent),
    /// A MAD came in.
    Received(Received),
    /// The port would not send a MAD: nothing went out, nothing will come back.
    SendFailed(Box<SendFailed>),
    /// A sent MAD was not answered in time, or its answer is overdue.
    TimedOut(TimedOut),
    /// Bytes came in that are no MAD.
    Malformed(Box<Malformed>),
    /// The local port changed (LID, SM LID, state, keys), or was read for the first time.
    LocalPort(Box<LocalPort>),
    /// The device was removed, or its reopening failed; the engine waits for it.
    DeviceGone {
        /// The cause, in words.
        why: Box<str>,
    },
    /// The device is back.
    DeviceBack,
    /// A node's back-off changed.
    BackOff(BackOff),
    /// A node is protected by an M_Key and gets no SMP any more; or it may be asked again.
    Guarded(Guarded),
    /// The pace in force and its use.
    Pace(Box<Pace>),
    /// A sweep began.
    SweepBegan(SweepBegan),
    /// A sweep ended.
    SweepEnded(SweepEnded),
    /// One second passed.
    Tick,
    /// A MAD exchange known from before: a keyframe's content, applied only when joining.
    Known(Box<Known>),
    /// What else was known from before: a keyframe's content, applied only when joining.
    Ledger(Box<ledger::Ledger>),
    /// Wall time was set: it is now `wall` at this event's time.
    ClockStep {
        /// Nanoseconds since the Unix epoch.
        wall: i64,
    },
    /// Settings changed.
    Settings(Box<Settings>),
    /// A bookmark.
    Mark {
        /// The operator's text.
        text: Box<str>,
    },
    /// The operator did something worth recording.
    Act {
        /// What, in words.
        text: Box<str>,
    },
    /// The recording of the session stopped before its end: the disk is full, or its like.
    RecordingStopped {
        /// Why, in one sentence.
        why: Box<str>,
    },
    /// Events were lost on their way here: those before the one whose number this has, too.
    Dropped {
        /// How many.
        count: u64,
    },
    /// Something that is read on demand: its reading begins or ends.
    Reading(Box<Reading>),
    /// Something the engine has to say, in words: an SA difference, a lost subscription.
    Note {
        /// How grave it is.
        severity: Severity,
        /// Whom it is about.
        node: Option<NodeId>,
        /// The sentence.
        text: Box<str>,
    },
    /// The session ended.
    Closed {
        /// Why, in words.
        why: Box<str>,
    },
}

/// The session's opening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// fabtop's version.
    pub version: String,
    /// What stands behind the port.
    pub source: Source,
    /// Wall time at `Stamp::ZERO`: nanoseconds since the Unix epoch.
    pub wall: i64,
    /// Name of the collecting host.
    pub host: String,
    /// Everything that the fold uses.
    pub settings: Settings,
}

/// Every setting that the fold uses, so that a replay shows what the session showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Interval of the counter loop, ns.
    pub interval_ns: u64,
    /// Interval of the port-state loop, ns.
    pub sweep_interval_ns: u64,
    /// Interval of full rediscovery, ns.
    pub discovery_interval_ns: u64,
    /// SMP budget.
    pub smp: Budget,
    /// GMP budget.
    pub gmp: Budget,
    /// How long an answer is waited for after the last attempt, ms; the attempts before it
    /// follow one another by measured latency.
    pub timeout_ms: u32,
    /// Attempts in all.
    pub attempts: u8,
    /// Names that override node descriptions, by GUID.
    #[serde(default)]
    pub names: std::collections::BTreeMap<crate::fabric::Guid, String>,
    /// How much of an error counter is too much, and which alerts are not wanted.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// An SM_Key was given, so that the SA shows its trusted records if it is the right one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sm_key: bool,
}

impl Settings {
    /// The counter interval.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns)
    }
    /// The port-state interval.
    pub fn sweep_interval(&self) -> Duration {
        Duration::from_nanos(self.sweep_interval_ns)
    }
    /// The full rediscovery interval.
    pub fn discovery_interval(&self) -> Duration {
        Duration::from_nanos(self.discovery_interval_ns)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            interval_ns: 5_000_000_000,
            sweep_interval_ns: 30_000_000_000,
            discovery_interval_ns: 600_000_000_000,
            smp: Budget {
                in_flight: 8,
                per_node: 1,
                rate: 5_000,
            },
            gmp: Budget {
                in_flight: 64,
                per_node: 2,
                rate: 20_000,
            },
            timeout_ms: 1_000,
            attempts: 3,
            names: std::collections::BTreeMap::new(),
            thresholds: Thresholds::default(),
            sm_key: false,
        }
    }
}

/// How many MADs may be on the way, and how fast they may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// In flight in all.
    pub in_flight: u16,
    /// In flight to one node.
    pub per_node: u16,
    /// MADs a second over any 100 ms window; 0 = no limit.
    pub rate: u32,
}

/// A MAD that went out. Its transaction is named by the low 32 bits of its TID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Where to.
    pub addr: Address,
    /// Whom it was meant for.
    pub target: Target,
    /// 1 for the first attempt; 0 for a MAD that expects no answer.
    pub attempt: u8,
    /// How long the answer is waited for, ms; 0 if none is expected.
    pub timeout_ms: u32,
    /// The MAD as handed to the port.
    pub mad: Mad,
}

/// A MAD that came in: an answer if the low half of its TID is that of a pending request of
/// the same class and attribute, else unsolicited or late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who from.
    pub addr: Address,
    /// The MAD.
    pub mad: Mad,
}

/// A send that the port refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendFailed {
    /// Low half of the transaction id.
    pub tid: u32,
    /// Whom it was meant for.
    pub target: Target,
    /// Management class.
    pub class: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// Which attempt, from 1.
    pub attempt: u8,
    /// No further attempt follows.
    pub last: bool,
    /// Cause, with the errno's name.
    pub why: String,
}

/// A request that nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedOut {
    /// Low half of the transaction id.
    pub tid: u32,
    /// Whom it was meant for.
    pub target: Target,
    /// Management class.
    pub class: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// Which attempt, from 1.
    pub attempt: u8,
    /// No further attempt follows.
    pub last: bool,
    /// How long it was waited for, ns. Far below the timeout when the fabric returned it.
    pub waited_ns: u64,
    /// What it means for the attempt.
    #[serde(default)]
    pub how: HowLate,
}

/// What it means for an attempt that it was not answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HowLate {
    /// Its time is over, or the port gave it back.
    #[default]
    Over,
    /// Its answer is overdue and the question is being put again; it still counts if it comes
    /// before the request ends. Another event of the transaction says when it does.
    Overdue,
    /// Its request was answered through another attempt.
    Moot,
}

/// Bytes that are no MAD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Malformed {
    /// How many bytes.
    pub len: usize,
    /// What is wrong.
    pub why: String,
    /// The first bytes, at most 64.
    pub head: Vec<u8>,
}

/// A node that does not answer is asked less and less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackOff {
    /// Which node.
    pub node: NodeId,
    /// Requests in a row that failed for good; 0 = it answers again.
    pub failures: u32,
    /// When it is asked again; `None` when it answers again.
    pub until: Option<Stamp>,
}

/// A node that an M_Key protects is left alone after its first silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    /// Which node.
    pub node: NodeId,
    /// False: it is asked again.
    pub guarded: bool,
}

/// The pace in force and what is used of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// SMPs in flight.
    pub smp_in_flight: u16,
    /// GMPs in flight.
    pub gmp_in_flight: u16,
    /// SMP window in force: below its budget when the engine slowed itself down.
    pub smp_window: u16,
    /// GMP window in force.
    pub gmp_window: u16,
    /// Requests that wait for their turn.
    pub waiting: u32,
    /// The counter interval in force, ns: above the setting if a sweep could not keep it.
    pub interval_ns: u64,
    /// The port-state interval in force, ns.
    pub sweep_interval_ns: u64,
    /// The engine sends nothing new because the model's queue is more than half full.
    pub held: bool,
}

/// The three loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SweepKind {
    /// Full discovery by directed route.
    Discovery,
    /// Rediscovery of what changed.
    Rediscovery,
    /// Port states.
    States,
    /// Counters.
    Counters,
}

impl std::fmt::Display for SweepKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            SweepKind::Discovery => "discovery",
            SweepKind::Rediscovery => "rediscovery",
            SweepKind::States => "states",
            SweepKind::Counters => "counters",
        })
    }
}

/// A sweep's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepBegan {
    /// Which loop.
    pub kind: SweepKind,
    /// Number of this sweep in its loop, from 1.
    pub number: u32,
    /// Requests that it will make, as far as known; 0 if not.
    pub expected: u32,
    /// The topology's generation from here on.
    pub generation: u32,
}

/// A sweep's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepEnded {
    /// Which loop.
    pub kind: SweepKind,
    /// Number of this sweep in its loop.
    pub number: u32,
    /// Requests answered.
    pub answered: u32,
    /// Requests that failed for good.
    pub failed: u32,
    /// Nodes that were skipped since they back off.
    pub skipped: u32,
    /// Digest of the engine's topology; the model's must be the same.
    pub digest: u64,
}

/// What can be read on demand: what no sweep asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// The blocks of forwarding tables that decide on the path from a port to a LID.
    Path {
        /// Where it begins.
        from: PortKey,
        /// Where it leads to.
        lid: Lid,
    },
    /// The whole forwarding table of a switch.
    Table {
        /// The switch.
        switch: NodeId,
    },
    /// Tables of the SA, one after the other.
    Sa {
        /// Which.
        tables: Vec<SaTable>,
    },
    /// SMInfo of every port that says that an SM runs there.
    Sms,
}

/// The reading of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What is read.
    pub topic: Topic,
    /// How it ended; `None` when it begins.
    pub ended: Option<ReadingEnded>,
}

/// How a reading ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingEnded {
    /// Requests answered.
    pub answered: u32,
    /// Requests that failed, or were refused.
    pub failed: u32,
}

/// A request and its reply as they were before the viewer joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// When the reply came.
    pub at: Stamp,
    /// The request's target.
    pub target: Target,
    /// The request as sent.
    pub request: Mad,
    /// Where it was sent.
    pub addr: Address,
    /// The reply.
    pub reply: Mad,
}
