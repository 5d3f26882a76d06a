//! What a live console may ask of the engine. Replays and watchers have no way to send one.
//!
//! This room is vocabulary only: it must never do anything.

use std::collections::BTreeMap;

use crate::event::{Settings, Topic};
use crate::fabric::{Guid, PortKey};

/// A request to the engine.
#[derive(Clone, Debug)]
pub enum Command {
    /// Discover the whole subnet again, now.
    Rediscover,
    /// Read all counters now.
    ReadCounters,
    /// Read what no sweep asks for.
    Read(Topic),
    /// Somebody looks at this port: read its optional counters and its other end's, as far as
    /// they have any, each interval. `None`: nobody looks at one any more.
    Focus(Option<PortKey>),
    /// Use other settings from here on.
    Settings(Box<Settings>),
    /// The node name map was read again: the names, and the lines of it that are of no use.
    Names {
        /// Names by GUID; `None` if the file cannot be read any more.
        names: Option<BTreeMap<Guid, String>>,
        /// What is wrong with it, a line each.
        problems: Vec<String>,
    },
    /// Put a bookmark into the stream.
    Mark(String),
    /// Put an operator's act into the stream.
    Act(String),
    /// Say in the stream that the recording stopped early, and why.
    RecordingStopped(String),
    /// Withdraw the subscription, let what is in flight come in, and stop.
    Quit,
}
