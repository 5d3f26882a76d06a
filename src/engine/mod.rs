//! The engine: asks the fabric, and turns all that happens into one stream of events.
//!
//! [`Core`] is a state machine without I/O and without a clock: a driver hands it what
//! happened ([`Input`]) and the time, and does what it says ([`Output`]). Two drivers stand
//! beside it: [`start`] runs it on a thread over a real port, [`Virtual`] in virtual time, where
//! a day of a simulated fabric takes as long as its MADs take to compute.
//!
//! This room must never draw, decode for display, or block on a slow consumer.
//!
//! # What a reader of the stream can rely on
//!
//! - The first event is `Opened`, then one `Agent` per agent, then `LocalPort`.
//! - A reply teaches the topology if, and only if, its `Received` event matches a request whose
//!   `Sent` event came before and which no `Received`, `TimedOut`, `SendFailed` or `DeviceGone`
//!   has ended: low 32 bits of the TID, class and attribute. A `TimedOut` that is only `overdue`
//!   ends nothing: another attempt is made, and the first reply to any of them ends them all,
//!   each with an event of its own. The engine's own
//!   [`Topology`](crate::fabric::Topology) learns from exactly these, in the order of events.
//! - `SweepBegan` of a discovery begins a generation; at its `SweepEnded` the topology's
//!   `discovery_ended` is applied *first*, then the digest is taken.
//! - A MAD that the port refused has a `SendFailed` and no `Sent`.
//! - `DeviceGone` ends everything in flight without further events.

mod admit;
mod answer;
mod batch;
mod budget;
mod core;
mod count;
mod fail;
mod feed;
mod focus;
mod guard;
mod job;
mod keys;
mod nodes;
mod notice;
mod read;
mod real;
mod records;
mod routes;
mod rtt;
mod sa;
mod send;
mod sms;
mod sums;
mod sweep;
mod table;
mod virt;
mod walk;

#[cfg(test)]
mod tests;

pub use self::batch::Sinks;
pub use self::core::{Core, Input, Output};
pub use self::keys::Key;
pub use self::real::{Commander, Handle, start};
pub use self::virt::Virtual;

use crate::event::Settings;

/// What a session needs to know at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Intervals, budgets, timeouts, names.
    pub settings: Settings,
    /// Subscribe to notices at the SA.
    pub subscribe: bool,
    /// fabtop's version.
    pub version: String,
    /// Name of this host.
    pub host: String,
    /// Wall time at `Stamp::ZERO`, nanoseconds since the Unix epoch.
    pub wall: i64,
    /// The M_Key to put into SMPs. No event tells it.
    pub m_key: Option<Key>,
    /// The SM_Key to put into questions for the SA's tables. No event tells it.
    pub sm_key: Option<Key>,
    /// Where transaction ids begin.
    pub tid_seed: u32,
    /// Read counters.
    pub counters: bool,
    /// Read port states between discoveries.
    pub states: bool,
    /// Ask the SM and the SA anything but the subscription.
    pub sa: bool,
    /// Answer Get(SMInfo) as a subnet manager that is not active: needed by the one who holds
    /// the IsSM role of a port without being an SM.
    pub answer_sminfo: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            settings: Settings::default(),
            subscribe: true,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: String::new(),
            wall: 0,
            m_key: None,
            sm_key: None,
            tid_seed: 0,
            counters: true,
            states: true,
            sa: true,
            answer_sminfo: false,
        }
    }
}
