//! What is no MAD: the JSON frames of a recording, one text a frame.
//!
//! Each holds one object: `seq`, where it is an event, and one further member that names what
//! it is. Members that a reader does not know are ignored; a whole frame that it does not know
//! is counted and skipped.

use serde::{Deserialize, Serialize};

use crate::event::ledger::Ledger;
use crate::event::{
    BackOff, Guarded, Malformed, Opened, Pace, Reading, SendFailed, Settings, Severity, SweepBegan,
    SweepEnded, TimedOut, What,
};
use crate::fabric::{NodeId, PortKey};
use crate::port::{Address, AgentReport, LocalPort};

/// Version of the format. A reader takes any; a change that older readers would misunderstand
/// raises it.
pub const FORMAT: u32 = 1;

/// One frame.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Number in the stream, of events only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// What it says.
    #[serde(flatten)]
    pub body: Body,
}

/// What a frame says: first what the recording needs for itself, then the events.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The first frame of each section.
    Section(Section),
    /// Whom later packets' ids mean.
    Targets(Targets),
    /// The next packet is event `seq` of the stream; without it, numbers follow one another.
    Next(u64),
    /// What the next MAD's frame cannot say.
    Mad(MadMeta),
    /// The next two MADs of the keyframe interface are one event of the stream.
    Known(KnownMeta),
    /// A text too long for a frame, in parts.
    Part(Part),
    /// What follows, up to the end, repeats what was: no part of the stream.
    Keyframe(Box<Keyframe>),
    /// The end of a keyframe.
    KeyframeEnd {
        /// Events in it.
        events: u64,
    },

    Opened(Box<Opened>),
    Agent(Box<AgentReport>),
    SendFailed(Box<SendFailed>),
    TimedOut(Box<TimedOut>),
    Malformed(Box<Malformed>),
    LocalPort(Box<LocalPort>),
    DeviceGone {
        why: String,
    },
    DeviceBack {},
    BackOff(BackOff),
    Guarded(Guarded),
    Pace(Box<Pace>),
    SweepBegan(SweepBegan),
    SweepEnded(Box<SweepEnded>),
    Tick {},
    Ledger(Box<Ledger>),
    ClockStep {
        wall: i64,
    },
    Settings(Box<Settings>),
    Mark {
        text: String,
    },
    Act {
        text: String,
    },
    RecordingStopped {
        why: String,
    },
    Dropped {
        count: u64,
    },
    Note(Box<Note>),
    Reading(Box<Reading>),
    Closed {
        why: String,
    },
}

/// What holds for a section: a file, or what was appended to one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// [`FORMAT`].
    pub format: u32,
    /// Who wrote it.
    pub version: String,
    /// High half of this session's packet ids, so that merged recordings keep theirs apart.
    pub session: u32,
    /// Nanoseconds since the Unix epoch at the session's time 0: a packet's time is this plus
    /// the event's.
    pub anchor: i64,
    /// Number of the section's first event.
    pub seq: u64,
    /// Topology generation that targets mean unless they say another one.
    pub generation: u32,
    /// Whether keys were kept.
    #[serde(default)]
    pub keys: bool,
}

/// A piece of the table that packet ids refer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    /// Whose table.
    pub session: u32,
    /// New entries; they replace those with the same number.
    pub entries: Vec<Entry>,
}

/// Whom a MAD was meant for, and what of its address and send its frame cannot say.
///
/// A packet's epb_packetid is `session << 32 | attempt << 24 | id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its number; numbers are given anew.
    pub id: u32,
    /// Of a sent MAD: the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Of a sent MAD: the port asked about.
    #[serde(skip_serializing_if = "is_zero")]
    pub port: u8,
    /// Of a sent MAD: the known end of the link whose other end is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<PortKey>,
    /// Generation, if not the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Of a sent MAD: how long the answer is waited for, ms.
    #[serde(skip_serializing_if = "is_zero32")]
    pub timeout: u32,
    /// Q_Key, if not the one in the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qkey: Option<u32>,
    /// Path bits.
    #[serde(skip_serializing_if = "is_zero")]
    pub path_bits: u8,
    /// P_Key index.
    #[serde(skip_serializing_if = "is_zero16")]
    pub pkey_index: u16,
    /// GID index.
    #[serde(skip_serializing_if = "is_zero")]
    pub gid_index: u8,
    /// The whole address, if its fields do not fit a frame's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Box<Address>>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants a reference
fn is_zero(n: &u8) -> bool {
    *n == 0
}
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero16(n: &u16) -> bool {
    *n == 0
}
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero32(n: &u32) -> bool {
    *n == 0
}

/// What a MAD's frame cannot say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadMeta {
    /// Low half of its transaction id: it must be the next MAD's.
    pub tid: u32,
    /// Its length.
    pub len: usize,
    /// Bytes 24 to 35 of a message that is recorded as RMPP segments, in hex: its own RMPP header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmpp: Option<String>,
    /// What is beyond 256 bytes of a MAD of another class, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
}

/// Number and time of a known exchange as an event of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownMeta {
    pub seq: u64,
    pub at: u64,
}

/// The beginning of a keyframe: reading may begin with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Keyframe {
    /// What the section's first frame said, as of now.
    pub section: Section,
    /// Time of the session.
    pub at: u64,
}

/// Part `index` of `of`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub index: u32,
    pub of: u32,
    pub text: String,
}

/// [`What::Note`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    severity: Severity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<NodeId>,
    text: String,
}

impl Body {
    /// The frame of an event; `None` for those that are MADs.
    pub fn of(what: &What) -> Option<Body> {
        Some(match what {
            What::Sent(_) | What::Received(_) | What::Known(_) => return None,
            What::Opened(v) => Body::Opened(v.clone()),
            What::Agent(v) => Body::Agent(v.clone()),
            What::SendFailed(v) => Body::SendFailed(v.clone()),
            What::TimedOut(v) => Body::TimedOut(Box::new(*v)),
            What::Malformed(v) => Body::Malformed(v.clone()),
            What::LocalPort(v) => Body::LocalPort(v.clone()),
            What::DeviceGone { why } => Body::DeviceGone {
                why: why.to_string(),
            },
            What::DeviceBack => Body::DeviceBack {},
            What::BackOff(v) => Body::BackOff(*v),
            What::Guarded(v) => Body::Guarded(*v),
            What::Pace(v) => Body::Pace(v.clone()),
            What::SweepBegan(v) => Body::SweepBegan(*v),
            What::SweepEnded(v) => Body::SweepEnded(Box::new(*v)),
            What::Tick => Body::Tick {},
            What::Ledger(v) => Body::Ledger(v.clone()),
            What::ClockStep { wall } => Body::ClockStep { wall: *wall },
            What::Settings(v) => Body::Settings(v.clone()),
            What::Mark { text } => Body::Mark {
                text: text.to_string(),
            },
            What::Act { text } => Body::Act {
                text: text.to_string(),
            },
            What::RecordingStopped { why } => Body::RecordingStopped {
                why: why.to_string(),
            },
            What::Dropped { count } => Body::Dropped { count: *count },
            What::Note {
                severity,
                node,
                text,
            } => Body::Note(Box::new(Note {
                severity: *severity,
                node: *node,
                text: text.to_string(),
            })),
            What::Reading(v) => Body::Reading(v.clone()),
            What::Closed { why } => Body::Closed {
                why: why.to_string(),
            },
        })
    }

    /// The event; gives the body back if it is the recording's own.
    pub fn into_what(self) -> Result<What, Body> {
        Ok(match self {
            Body::Section(_)
            | Body::Targets(_)
            | Body::Next(_)
            | Body::Mad(_)
            | Body::Known(_)
            | Body::Part(_)
            | Body::Keyframe(_)
            | Body::KeyframeEnd { .. } => return Err(self),
            Body::Opened(v) => What::Opened(v),
            Body::Agent(v) => What::Agent(v),
            Body::SendFailed(v) => What::SendFailed(v),
            Body::TimedOut(v) => What::TimedOut(*v),
            Body::Malformed(v) => What::Malformed(v),
            Body::LocalPort(v) => What::LocalPort(v),
            Body::DeviceGone { why } => What::DeviceGone { why: why.into() },
            Body::DeviceBack {} => What::DeviceBack,
            Body::BackOff(v) => What::BackOff(v),
            Body::Guarded(v) => What::Guarded(v),
            Body::Pace(v) => What::Pace(v),
            Body::SweepBegan(v) => What::SweepBegan(v),
            Body::SweepEnded(v) => What::SweepEnded(*v),
            Body::Tick {} => What::Tick,
            Body::Ledger(v) => What::Ledger(v),
            Body::ClockStep { wall } => What::ClockStep { wall },
            Body::Settings(v) => What::Settings(v),
            Body::Mark { text } => What::Mark { text: text.into() },
            Body::Act { text } => What::Act { text: text.into() },
            Body::RecordingStopped { why } => What::RecordingStopped { why: why.into() },
            Body::Dropped { count } => What::Dropped { count },
            Body::Note(v) => What::Note {
                severity: v.severity,
                node: v.node,
                text: v.text.into(),
            },
            Body::Reading(v) => What::Reading(v),
            Body::Closed { why } => What::Closed { why: why.into() },
        })
    }
}

/// Bytes as hex digits.
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

/// Hex digits as bytes.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    if !digits.remainder().is_empty() {
        return None;
    }
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
