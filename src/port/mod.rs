//! What a room needs to know of a port that carries MADs: plain types and one trait.
//!
//! [`MadPort`] is the only door between the engine and a fabric. Three things stand behind
//! it: the kernel's umad device, an ibsim server, and the built-in simulator. The engine's
//! core knows none of them; a driver moves MADs between the core and a `MadPort`.
//!
//! This room must never decode an attribute or read a clock: the time is an argument
//! ([`Stamp`]) everywhere. Its one part that does I/O is the adapter to the umad device.

mod pending;
mod umad;

use std::fmt;
use std::ops::{Add, Sub};
use std::os::fd::RawFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use ::umad::Waker;

use crate::mad::Mad;

pub use pending::Pending;
pub use umad::UmadPort;

/// Why the agent for LID-routed SMPs is refused at an XDR adapter of several planes.
pub const NO_LID_ROUTED_SMPS: &str =
    "a planarized adapter has no LID-routed SMPs: directed routes are used";

/// A moment of the session: nanoseconds on the monotonic clock since the session opened.
///
/// Wall time is `Opened::wall + at`, corrected by later clock-step events.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The moment the session opened.
    pub const ZERO: Stamp = Stamp(0);

    /// `secs` seconds after the session opened.
    pub const fn from_secs(secs: u64) -> Stamp {
        Stamp(secs * 1_000_000_000)
    }

    /// `millis` milliseconds after the session opened.
    pub const fn from_millis(millis: u64) -> Stamp {
        Stamp(millis * 1_000_000)
    }

    /// Time from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Stamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the session opened.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Duration> for Stamp {
    type Output = Stamp;
    fn add(self, rhs: Duration) -> Stamp {
        Stamp(
            self.0
                .saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub<Duration> for Stamp {
    type Output = Stamp;
    fn sub(self, rhs: Duration) -> Stamp {
        Stamp(
            self.0
                .saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// The LID that stands for "permissive": directed route, both ends.
pub const PERMISSIVE_LID: u16 = 0xFFFF;

/// The well-known Q_Key of QP1.
pub const QP1_QKEY: u32 = 0x8001_0000;

/// The part of a global route header that a sender may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grh {
    /// Remote GID.
    pub gid: [u8; 16],
    /// Index of the local GID used as source.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

/// The remote end of a MAD, as the umad header names it: all in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// Remote LID; [`PERMISSIVE_LID`] for a directed route.
    pub lid: u16,
    /// Remote queue pair: 0 or 1, or what a redirection named.
    pub qpn: u32,
    /// Q_Key of the remote queue pair: 0 for QP0.
    pub qkey: u32,
    /// Service level.
    pub sl: u8,
    /// Source path bits (LMC).
    pub path_bits: u8,
    /// Index into the local P_Key table.
    pub pkey_index: u16,
    /// Present if the MAD has a global route header.
    pub grh: Option<Grh>,
}

impl Address {
    /// A directed-route SMP: LID 0xFFFF, QP0, P_Key index 0.
    pub const fn directed() -> Address {
        Address::smp(PERMISSIVE_LID)
    }

    /// A LID-routed SMP: QP0, SL 0, P_Key index 0.
    pub const fn smp(lid: u16) -> Address {
        Address {
            lid,
            qpn: 0,
            qkey: 0,
            sl: 0,
            path_bits: 0,
            pkey_index: 0,
            grh: None,
        }
    }

    /// A general MAD (GMP): QP1 with the well-known Q_Key.
    pub const fn gmp(lid: u16, sl: u8, pkey_index: u16) -> Address {
        Address {
            lid,
            qpn: 1,
            qkey: QP1_QKEY,
            sl,
            path_bits: 0,
            pkey_index,
            grh: None,
        }
    }
}

/// The agents that fabtop registers; the management class of a MAD decides which one sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Agent {
    /// Class 0x81, QP0.
    SmpDirected,
    /// Class 0x01, QP0.
    SmpLid,
    /// Class 0x03, QP1, RMPP; the one agent that also owns a method (Report).
    SubnAdm,
    /// Class 0x04, QP1.
    Perf,
}

impl Agent {
    /// Every agent, in registration order.
    pub const ALL: [Agent; 4] = [
        Agent::SmpDirected,
        Agent::SmpLid,
        Agent::SubnAdm,
        Agent::Perf,
    ];

    /// The management class.
    pub const fn class(self) -> u8 {
        match self {
            Agent::SmpDirected => 0x81,
            Agent::SmpLid => 0x01,
            Agent::SubnAdm => 0x03,
            Agent::Perf => 0x04,
        }
    }

    /// The agent that sends MADs of management class `class`.
    pub fn for_class(class: u8) -> Option<Agent> {
        Agent::ALL.into_iter().find(|a| a.class() == class)
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Agent::SmpDirected => "SubnDirected 0x81",
            Agent::SmpLid => "SubnLID 0x01",
            Agent::SubnAdm => "SubnAdm 0x03",
            Agent::Perf => "Perf 0x04",
        })
    }
}

/// What became of registering one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Which agent.
    pub agent: Agent,
    /// `None` if it is registered; else why not, in words with the errno's name.
    pub refused: Option<String>,
    /// Whether Reports of the SA reach us: false if another process owns that method.
    pub reports: bool,
}

impl AgentReport {
    /// It is refused as a planarized adapter has it, which is no fault.
    pub fn is_planarized(&self) -> bool {
        self.refused.as_deref() == Some(NO_LID_ROUTED_SMPS)
    }
}

/// The local port, as its device describes it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPort {
    /// Channel adapter's name, such as `mlx5_0`.
    pub ca: String,
    /// Port number on it (0 on a switch).
    pub port: u8,
    /// Node GUID.
    pub node_guid: u64,
    /// Port GUID.
    pub port_guid: u64,
    /// GID prefix.
    pub gid_prefix: u64,
    /// Base LID; 0 if none was assigned.
    pub lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// LID of the subnet manager; 0 if none.
    pub sm_lid: u16,
    /// Service level towards the SM.
    pub sm_sl: u8,
    /// PortState code, 4 = Active.
    pub state: u8,
    /// Capability mask.
    pub cap_mask: u32,
    /// Index of the default partition's key (0xFFFF, else 0x7FFF); `None` if neither is there.
    pub pkey_index: Option<u16>,
    /// The default partition's key is the limited one (0x7FFF).
    pub pkey_limited: bool,
    /// The P_Key table, by index; 0 is no key. Its empty end is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pkeys: Vec<u16>,
}

impl LocalPort {
    /// A P_Key table as it is kept here.
    pub fn pkeys(keys: impl IntoIterator<Item = u16>) -> Vec<u16> {
        let mut keys: Vec<u16> = keys.into_iter().collect();
        let used = keys
            .iter()
            .rposition(|key| *key != 0)
            .map_or(0, |at| at + 1);
        keys.truncate(used);
        keys
    }

    /// Index of the key by which this port talks to a member of a partition whose own key is
    /// `pkey`. Two limited members (top bit 0) may not talk to each other.
    pub fn pkey_index_for(&self, pkey: u16) -> Option<u16> {
        const FULL: u16 = 0x8000;
        let at = |key: u16| {
            let at = self.pkeys.iter().position(|own| *own == key)?;
            u16::try_from(at).ok()
        };
        let full = at(pkey | FULL);
        full.or_else(|| (pkey & FULL != 0).then(|| at(pkey & !FULL))?)
    }
}

/// One MAD to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where to.
    pub addr: Address,
    /// The MAD; its class decides the agent. The low 32 bits of its TID are the sender's.
    pub mad: Mad,
    /// How long the port may wait for the reply before it reports a timeout, in milliseconds;
    /// 0 for a MAD that expects none.
    pub timeout_ms: u32,
}

/// What a port hands up.
///
/// MADs are the common case and live inline, so that receiving one allocates nothing.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Arrival {
    /// A MAD, solicited or not.
    Mad {
        /// Who sent it.
        addr: Address,
        /// The MAD.
        mad: Mad,
    },
    /// A sent MAD came back without an answer: the kernel's timeout record, or ibsim's
    /// immediate return of a MAD that it cannot deliver.
    Unanswered {
        /// Low half of the transaction id.
        tid: u32,
        /// Management class.
        class: u8,
        /// errno, 110 (ETIMEDOUT) as a rule.
        errno: i32,
    },
    /// Bytes that are no MAD.
    Malformed {
        /// How many bytes came.
        len: usize,
        /// What is wrong with them.
        why: String,
        /// The first bytes, at most 64.
        head: Vec<u8>,
    },
}

/// Why a port could not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The device is gone: hot-removed, driver unloaded, simulator ended.
    #[error("{device}: device removed")]
    Gone {
        /// Which device.
        device: String,
    },
    /// The port's queue is full: try again after receiving.
    #[error("send queue full")]
    WouldBlock,
    /// No agent for this management class.
    #[error("no agent for management class {class:#04x}: {why}")]
    NoAgent {
        /// The class.
        class: u8,
        /// Why its registration was refused.
        why: String,
    },
    /// A system call failed.
    #[error("{device}: {call} (class {class:#04x}): {errno}")]
    Call {
        /// Which device.
        device: String,
        /// Which call.
        call: &'static str,
        /// The management class, 0 if none is meant.
        class: u8,
        /// The errno's name and words.
        errno: String,
    },
    /// What was asked for is not there: the user's mistake, in one sentence.
    #[error("{0}")]
    Mistake(String),
    /// Anything else, in one sentence.
    #[error("{0}")]
    Other(String),
}

/// What kind of fabric stands behind a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A kernel umad device, e.g. `/dev/infiniband/umad0`.
    Umad {
        /// The device's path.
        device: String,
        /// The preloaded ibsim shim stands in for the kernel.
        shim: bool,
    },
    /// An ibsim server, attached natively.
    Ibsim {
        /// The server's socket name.
        server: String,
    },
    /// The built-in simulator.
    Simulated {
        /// What it simulates: a file's name or the built-in fabric's.
        fabric: String,
    },
}

impl Source {
    /// True for the built-in simulator: screens must say SIMULATED.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Source::Simulated { .. })
    }
}

/// A port that carries MADs.
///
/// All calls return at once; waiting is the driver's business, with [`MadPort::fd`] or
/// [`MadPort::due`].
pub trait MadPort: Send {
    /// What stands behind this port.
    fn source(&self) -> Source;

    /// What became of each agent's registration.
    fn agents(&self) -> Vec<AgentReport>;

    /// The local port as it is now (re-reads sysfs, or asks the simulator).
    ///
    /// # Errors
    /// [`PortError::Gone`] if the device was removed.
    fn local(&mut self, now: Stamp) -> Result<LocalPort, PortError>;

    /// Sends one MAD.
    ///
    /// # Errors
    /// Whatever the device said; nothing will be reported for this MAD later.
    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError>;

    /// The next arrival, `None` if there is none now.
    ///
    /// # Errors
    /// [`PortError::Gone`] if the device was removed.
    fn recv(&mut self, now: Stamp) -> Result<Option<Arrival>, PortError>;

    /// For ports without a descriptor: when the next arrival is due.
    fn due(&self) -> Option<Stamp> {
        None
    }

    /// Descriptor that polls readable when `recv` has something.
    fn fd(&self) -> Option<RawFd> {
        None
    }

    /// The longest a driver may block in poll: the ibsim shim serves one descriptor a call, so
    /// a wake-up through another one is not seen.
    fn poll_limit(&self) -> Option<Duration> {
        None
    }

    /// Waits until `recv` may have something, `waker` is woken, or `timeout` passes. Returns
    /// early without cause now and then. A port that is gone waits for the other two.
    ///
    /// # Errors
    /// [`PortError::Gone`] if the device was removed meanwhile.
    fn wait(&mut self, waker: &Waker, timeout: Duration) -> Result<(), PortError> {
        // A port without a descriptor has nothing to wait for but its due time.
        let waited = ::umad::wait(&[], Some(waker), Some(timeout));
        waited.map_err(|e| PortError::Other(e.to_string()))?;
        Ok(())
    }

    /// Tries to open the device again after [`PortError::Gone`].
    ///
    /// # Errors
    /// Still gone, or what opening said.
    fn reopen(&mut self) -> Result<(), PortError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field report 23: SMPs were sent on the agent of general services. The class of a MAD
    /// decides: the two subnet management classes are QP0's, the others QP1's.
    #[test]
    fn field_report_23_the_class_decides_the_agent() {
        let agents = [0x01, 0x81, 0x03, 0x04].map(Agent::for_class);
        assert_eq!(
            agents,
            [
                Some(Agent::SmpLid),
                Some(Agent::SmpDirected),
                Some(Agent::SubnAdm),
                Some(Agent::Perf)
            ]
        );
        // Communication management and vendor classes are not ours.
        assert_eq!([0x07, 0x0a, 0x30].map(Agent::for_class), [None; 3]);
        assert_eq!((Address::smp(7).qpn, Address::directed().qpn), (0, 0));
        assert_eq!(Address::gmp(7, 0, 0).qpn, 1);
    }
}
