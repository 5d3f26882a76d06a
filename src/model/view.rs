//! What a screen or a report reads from the model: plain rows, borrowed, computed on demand.
//!
//! Views must never change the model, and never read a clock: ages come from the `now` given.

use std::time::Duration;

use crate::event::{Severity, SweepKind};
use crate::fabric::{LinkSpeed, LinkWidth, NodeId, NodeKind, PortKey};
use crate::port::{AgentReport, LocalPort, Stamp};

use super::{Ber, Num};
use crate::mad::FecMode;

pub use super::alerts::AlertCounts;
pub use super::diagnosis::Finding;
pub use super::routes::{Beyond, Destination, HopView, PathView, RouteRow, RoutesView, UsesView};
pub use super::routes::{LABEL as PATH_LABEL, TOLD as TABLE_TOLD};
pub use super::sa::{SaDifference, SaOutcome, SaTableView};
pub use super::sms::SmRow;

/// The header's facts.
#[derive(Clone, Debug)]
pub struct HeaderView<'m> {
    /// What stands behind the port, in words: `umad0`, `ibsim sim`, `SIMULATED default`.
    pub source: String,
    /// The built-in simulator: must be said so that it cannot be overlooked.
    pub simulated: bool,
    /// Name of the collecting host.
    pub host: &'m str,
    /// The local port; `None` before it was read.
    pub local: Option<&'m LocalPort>,
    /// The device is gone: since when, and why.
    pub gone: Option<(Duration, &'m str)>,
    /// The subnet manager, once its SMInfo was read.
    pub sm: Option<SmView>,
    /// Counts of what was found.
    pub size: SubnetSize,
    /// The sweeps under way or last done, in order of `SweepKind`.
    pub sweeps: Vec<SweepView>,
    /// MADs sent in the last second.
    pub mads_per_s: Num<f64>,
    /// SMPs in flight, and the budget.
    pub smp_in_flight: (usize, u16),
    /// GMPs in flight, and the budget.
    pub gmp_in_flight: (usize, u16),
    /// Attempts that are overdue and still count: they have no place in the budgets.
    pub overdue: usize,
    /// SMP rate in the last second and its limit (0 = none).
    pub smp_rate: (Num<f64>, u32),
    /// GMP rate in the last second and its limit (0 = none).
    pub gmp_rate: (Num<f64>, u32),
    /// The recording of this session stopped before its end: why.
    pub unrecorded: Option<&'m str>,
    /// Open alerts.
    pub alerts: AlertCounts,
    /// Events lost on the way here.
    pub dropped: u64,
    /// Bytes that came in and were no MAD.
    pub malformed: u64,
    /// Agents that could not be registered.
    pub refused: Vec<&'m AgentReport>,
    /// The interval in force is above the one that was set, by this much.
    pub stretched: Option<(SweepKind, Duration)>,
    /// Time since the session opened.
    pub uptime: Duration,
    /// Wall time of `now`, nanoseconds since the Unix epoch.
    pub wall: i64,
}

/// The subnet manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmView {
    /// Its LID.
    pub lid: u16,
    /// Its port GUID.
    pub guid: u64,
    /// 0–15.
    pub priority: u8,
    /// SMInfo state code: 0 NotActive, 1 Discovering, 2 Standby, 3 Master.
    pub state: u8,
    /// Its activity counter.
    pub activity: u32,
    /// How old this is.
    pub age: Duration,
    /// It does not answer now: the state is what it was.
    pub silent: bool,
}

impl SmView {
    /// The state in the specification's words.
    pub const fn state_name(&self) -> &'static str {
        match self.state {
            0 => "NotActive",
            1 => "Discovering",
            2 => "Standby",
            3 => "Master",
            _ => "unknown",
        }
    }
}

/// How large the subnet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubnetSize {
    /// Switches present.
    pub switches: usize,
    /// Channel adapters present.
    pub cas: usize,
    /// Routers present.
    pub routers: usize,
    /// Aggregation nodes of SHARP present: no hosts, and not counted as such.
    pub aggregators: usize,
    /// Links (each counted once).
    pub links: usize,
    /// External ports of all nodes, with a link or not.
    pub ports: usize,
    /// Port ends that have a link.
    pub connected: usize,
    /// Nodes that were seen and cannot be reached now.
    pub missing: usize,
    /// Nodes present that an M_Key protects, so that they are not asked.
    pub protected: usize,
}

/// A sweep under way, or the last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepView {
    /// Which loop.
    pub kind: SweepKind,
    /// Its number in the loop.
    pub number: u32,
    /// It is under way.
    pub running: bool,
    /// Requests done, and expected (0 = unknown).
    pub done: u32,
    /// Requests expected.
    pub expected: u32,
    /// Since it ended; since it began while it runs.
    pub age: Duration,
    /// How long the last finished one took.
    pub took: Option<Duration>,
    /// Requests that failed in the last finished one.
    pub failed: u32,
}

/// Reasons to look at a port. Order is of gravity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flags {
    /// The node cannot be reached.
    pub unreachable: bool,
    /// The node does not answer, or whoever is at the other end of its link does not.
    pub no_answer: bool,
    /// The port had a link in this session and is down now, or is down with a link on its cable.
    pub down: bool,
    /// Error counters rose since start.
    pub errors: bool,
    /// Width or speed is below what both ends can do.
    pub below_best: bool,
    /// The ends of the link do not agree on MTU or virtual lanes.
    pub disagree: bool,
    /// An error counter is pegged: new errors cannot be seen.
    pub saturated: bool,
    /// Not Active though the link is up (Init, Armed).
    pub not_active: bool,
}

impl Flags {
    /// True if there is any.
    pub fn any(&self) -> bool {
        *self != Flags::default()
    }
}

/// What of many rows is made: what is not wanted is left at nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The names of both ends.
    pub names: bool,
    /// Type, LID, width and speed, the other end, and who is told to be there.
    pub link: bool,
    /// Errors.
    pub errors: bool,
    /// Errors a second.
    pub error_rate: bool,
    /// Packets, their sizes and kinds, and waiting.
    pub packets: bool,
    /// The last two minutes.
    pub history: bool,
    /// The age, and whether it is stale.
    pub age: bool,
}

impl Wanted {
    /// Everything.
    pub const ALL: Wanted = Wanted {
        names: true,
        link: true,
        errors: true,
        error_rate: true,
        packets: true,
        history: true,
        age: true,
    };
    /// What is always made, alone: states and flags; bits a second.
    pub const LEAST: Wanted = Wanted {
        names: false,
        link: false,
        errors: false,
        error_rate: false,
        packets: false,
        history: false,
        age: false,
    };
}

/// The other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerView<'m> {
    /// The port there.
    pub key: PortKey,
    /// That node's name.
    pub name: &'m str,
    /// The link is gone: this is who it led to.
    pub former: bool,
}

/// A row of the Ports pane.
#[derive(Clone, Debug)]
pub struct PortRow<'m> {
    /// Which port.
    pub key: PortKey,
    /// The node's name, cleaned of control characters.
    pub name: &'m str,
    /// What the node is.
    pub kind: NodeKind,
    /// PortState code; `None` if never read.
    pub state: Option<u8>,
    /// Physical state code; `None` if never read.
    pub phys: Option<u8>,
    /// Active width; `None` while down.
    pub width: Option<LinkWidth>,
    /// Active speed; `None` while down.
    pub speed: Option<LinkSpeed>,
    /// The other end.
    pub peer: Option<PeerView<'m>>,
    /// Who the SA says is at the other end, where that end is silent and nobody else knows.
    pub told: Option<String>,
    /// An adapter's further port with a link whose other end is not in this subnet: it may be
    /// plugged into another one.
    pub elsewhere: bool,
    /// LID by which it is reached.
    pub lid: Option<u16>,
    /// Sum of the error counters' increments since the session began (or the baseline).
    pub errors: Num<u64>,
    /// The same, per second, over the last interval.
    pub errors_per_s: Num<f64>,
    /// Reasons to look at it.
    pub flags: Flags,
    /// An M_Key protects the node: what is shown is what the SA tells.
    pub protected: bool,
    /// Age of the oldest datum in the row: of state or counters. `None` if nothing was ever read.
    pub age: Option<Duration>,
    /// Age of its state, width, speed and LID (PortInfo).
    pub state_age: Option<Duration>,
    /// Age of its counters, while the link is up.
    pub counters_age: Option<Duration>,
    /// The age is above two intervals of its loop.
    pub stale: bool,
}

/// A row of the Traffic pane.
#[derive(Clone, Debug)]
pub struct TrafficRow<'m> {
    /// Which port.
    pub key: PortKey,
    /// The node's name.
    pub name: &'m str,
    /// What the node is.
    pub kind: NodeKind,
    /// The other end.
    pub peer: Option<PeerView<'m>>,
    /// Transmitted, bit/s.
    pub tx_bps: Num<f64>,
    /// Received, bit/s.
    pub rx_bps: Num<f64>,
    /// Effective rate of the link, bit/s; `None` while down or unknown.
    pub capacity_bps: Option<f64>,
    /// Transmitted packets/s.
    pub tx_pps: Num<f64>,
    /// Received packets/s.
    pub rx_pps: Num<f64>,
    /// Octets a transmitted packet had on average; unknown while none was.
    pub tx_packet: Num<f64>,
    /// Octets a received packet had on average; unknown while none was.
    pub rx_packet: Num<f64>,
    /// Share of the transmitted packets that are multicast, 0–1; unknown while none was, and
    /// where the node does not tell them apart.
    pub tx_multicast: Num<f64>,
    /// The same of the received packets.
    pub rx_multicast: Num<f64>,
    /// Share of time that the port wanted to send and could not, 0–1; `Unknown` where the
    /// node does not count it.
    pub wait: Num<f64>,
    /// The greater of both directions' utilisation in the last two minutes, oldest first, one
    /// value a sample, NaN where nothing is known.
    pub history: Vec<f32>,
    /// Age of the last sample.
    pub age: Option<Duration>,
    /// The age is above two intervals.
    pub stale: bool,
}

impl TrafficRow<'_> {
    /// Share of the link's effective rate that is transmitted, 0–1.
    pub fn tx_share(&self) -> Num<f64> {
        self.share(self.tx_bps)
    }
    /// Share of the link's effective rate that is received, 0–1.
    pub fn rx_share(&self) -> Num<f64> {
        self.share(self.rx_bps)
    }
    fn share(&self, bps: Num<f64>) -> Num<f64> {
        match self.capacity_bps {
            Some(c) if c > 0.0 => bps.map(|v| v / c),
            _ => Num::Unknown,
        }
    }
}

/// Totals of the fabric. Only CA ports are summed, so that transit is not counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TotalsView {
    /// Sent into the fabric by adapters, bit/s.
    pub injected_bps: Num<f64>,
    /// Delivered to adapters, bit/s.
    pub delivered_bps: Num<f64>,
    /// Packets sent into the fabric a second.
    pub injected_pps: Num<f64>,
    /// Packets delivered a second.
    pub delivered_pps: Num<f64>,
    /// Utilisation of the busiest link direction, 0–1.
    pub busiest: Num<f64>,
    /// Which port sends it.
    pub busiest_port: Option<PortKey>,
    /// Ports in the sums, and adapter ports with a link in all.
    pub counted: (usize, usize),
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct InFlightRow<'m> {
    /// Low half of its transaction id.
    pub tid: u32,
    /// Whom it is meant for, in words.
    pub who: &'m str,
    /// The node, where known.
    pub node: Option<NodeId>,
    /// Port asked about.
    pub port: u8,
    /// Management class.
    pub class: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// Which attempt.
    pub attempt: u8,
    /// A later attempt is being made; the answer to this one still counts.
    pub overdue: bool,
    /// How long it has been out.
    pub age: Duration,
}

/// Who answers, and how well.
#[derive(Clone, Debug)]
pub struct DestinationRow<'m> {
    /// The node; `None` for a destination that is no node: the SA, an unexplored port.
    pub node: Option<NodeId>,
    /// Its name.
    pub name: &'m str,
    /// The LID last used, 0 for directed route.
    pub lid: u16,
    /// Requests sent, attempts included.
    pub sent: u64,
    /// Answered.
    pub answered: u64,
    /// Attempts after the first.
    pub retried: u64,
    /// Attempts that nobody answered.
    pub timed_out: u64,
    /// Requests in flight now.
    pub in_flight: u32,
    /// Median latency.
    pub p50: Option<Duration>,
    /// 99th percentile.
    pub p99: Option<Duration>,
    /// Greatest.
    pub max: Option<Duration>,
    /// The last failure.
    pub failure: Option<FailureView<'m>>,
    /// Back-off: failed requests in a row, and how long until it is asked again.
    pub back_off: Option<(u32, Duration)>,
    /// It is a node that is missing, or a port behind which somebody is: why, and how long.
    pub missing: Option<(Absence, Option<Duration>)>,
}

/// Why somebody who is known of is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absence {
    /// A node that was seen cannot be reached now.
    Unreachable,
    /// A node does not answer.
    Silent,
    /// A node is protected by an M_Key and not asked by SMP.
    Protected,
    /// Whoever is behind a port does not answer.
    SilentBehind,
    /// Nobody was asked yet who is behind a port.
    NotAsked,
}

impl std::fmt::Display for Absence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Absence::Unreachable => "cannot be reached",
            Absence::Silent => "does not answer",
            Absence::Protected => "protected by an M_Key, not asked",
            Absence::SilentBehind => "somebody does not answer",
            Absence::NotAsked => "not asked yet",
        })
    }
}

/// Somebody who is known of and missing.
#[derive(Clone, Debug)]
pub struct MissingRow<'m> {
    /// Its identity, as it told, or as the SA tells.
    pub node: Option<NodeId>,
    /// Its name, of the same source; `None` if nobody told one.
    pub who: Option<std::borrow::Cow<'m, str>>,
    /// The port behind which it is, or was when it was last seen.
    pub behind: Option<PortKey>,
    /// That port in words.
    pub behind_name: Option<String>,
    /// Why it is missing.
    pub why: Absence,
    /// The last failure of a request to it.
    pub failure: Option<FailureView<'m>>,
    /// How long it has been missing.
    pub since: Option<Duration>,
    /// What the SA says of it: name, GUID, LID, protection.
    pub sa_says: Option<String>,
}

/// A failure in words.
#[derive(Clone, Debug)]
pub struct FailureView<'m> {
    /// no answer, busy, unsupported attribute, bad status, send error.
    pub kind: FailureKind,
    /// More: the status' words, the errno.
    pub detail: &'m str,
    /// Attribute asked for.
    pub attribute: &'static str,
    /// How long ago.
    pub age: Duration,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// Nobody answered in time.
    NoAnswer,
    /// Busy status.
    Busy,
    /// Method or attribute not supported.
    Unsupported,
    /// Any other status.
    BadStatus,
    /// The port would not send.
    SendError,
}

impl FailureKind {
    const ALL: [FailureKind; 5] = [
        FailureKind::NoAnswer,
        FailureKind::Busy,
        FailureKind::Unsupported,
        FailureKind::BadStatus,
        FailureKind::SendError,
    ];
}

impl std::str::FromStr for FailureKind {
    type Err = ();

    /// From its words.
    fn from_str(words: &str) -> Result<FailureKind, ()> {
        let kind = |k: &FailureKind| k.to_string() == words;
        FailureKind::ALL.into_iter().find(kind).ok_or(())
    }
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            FailureKind::NoAnswer => "no answer",
            FailureKind::Busy => "busy",
            FailureKind::Unsupported => "unsupported attribute",
            FailureKind::BadStatus => "bad status",
            FailureKind::SendError => "send error",
        })
    }
}

/// A line of the event log. Repeats are folded into one line.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// First time.
    pub first: Stamp,
    /// Last time.
    pub last: Stamp,
    /// How often.
    pub count: u64,
    /// How grave.
    pub severity: Severity,
    /// Whom it is about.
    pub about: Option<PortKey>,
    /// The sentence, cleaned of control characters.
    pub text: String,
}

/// An alert.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRow<'m> {
    /// Tells alerts about the same port or node apart.
    pub id: u64,
    /// Its name: that of a counter, or one of `model::alerts::NAMES`.
    pub kind: &'static str,
    /// How grave.
    pub severity: Severity,
    /// Whom it is about; port 0 stands for the node.
    pub about: Option<PortKey>,
    /// Name of the node it is about.
    pub name: Option<&'m str>,
    /// When it opened first.
    pub opened: Stamp,
    /// The last sign of it.
    pub seen: Stamp,
    /// When it was cleared; `None` while it is open.
    pub cleared: Option<Stamp>,
    /// How often it opened, where it did so again soon.
    pub times: u32,
    /// The sentence, cleaned of control characters.
    pub text: String,
}

/// Everything of one port.
#[derive(Clone, Debug)]
pub struct PortDetail<'m> {
    /// This end.
    pub near: EndDetail<'m>,
    /// The other end, if it is known.
    pub far: Option<EndDetail<'m>>,
    /// What both ends' counters say of the link, the gravest first.
    pub findings: Vec<Finding>,
}

/// One end of a link in full.
#[derive(Clone, Debug)]
pub struct EndDetail<'m> {
    /// Its rows of both panes.
    pub row: PortRow<'m>,
    /// What both ends of the link could do, where that is more.
    pub best: Option<(LinkWidth, LinkSpeed)>,
    /// Traffic.
    pub traffic: TrafficRow<'m>,
    /// Node facts: label and value (GUIDs, device, route, LID).
    pub node: Vec<(&'static str, String)>,
    /// All PortInfo fields, keys hidden: name and value.
    pub port_info: Vec<(&'static str, String)>,
    /// All counters.
    pub counters: Vec<CounterView>,
    /// Forward error correction and bit error rates; `None` if never read.
    pub fec: Option<FecView>,
    /// Optional counters, as far as somebody looked at this port.
    pub details: Vec<DetailGroup>,
    /// Age of the PortInfo.
    pub port_info_age: Option<Duration>,
    /// Age of the counters.
    pub counters_age: Option<Duration>,
}

/// What forward error correction does at a port.
#[derive(Clone, Debug, PartialEq)]
pub struct FecView {
    /// `FECModeActive`; `None` if it was not told.
    pub mode: Option<FecMode>,
    /// Corrected blocks, uncorrectable blocks, corrected symbols.
    pub counters: Vec<CounterView>,
    /// Bit error rate before correction, between the last two samples.
    pub raw: Ber,
    /// The same after correction.
    pub effective: Ber,
    /// Bit error rate before correction, since the first sample.
    pub raw_since: Ber,
    /// The same after correction.
    pub effective_since: Ber,
    /// Time between the last two samples; zero before the second.
    pub span: Duration,
    /// Time since the first sample.
    pub observed: Duration,
    /// Age of the last sample.
    pub age: Option<Duration>,
    /// It is above two intervals.
    pub stale: bool,
}

/// An optional attribute of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailGroup {
    /// Its name.
    pub attribute: &'static str,
    /// What it tells, in words.
    pub title: &'static str,
    /// Why there are no numbers, or no newer ones.
    pub missing: Option<String>,
    /// Age of the numbers.
    pub age: Option<Duration>,
    /// It is above two intervals.
    pub stale: bool,
    /// Its counters.
    pub rows: Vec<DetailRow>,
}

/// A counter of an optional attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailRow {
    /// The attribute's name for it.
    pub name: String,
    /// In words.
    pub label: String,
    /// As the node reports it.
    pub value: Num<u64>,
    /// Per second between the last two readings.
    pub rate: Num<f64>,
    /// Unit of `value`: `words` (4 octets), `packets`, `ticks`, or empty for events.
    pub unit: &'static str,
}

/// A counter of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterView {
    /// perfquery's name.
    pub name: &'static str,
    /// As the node reports it: words, packets, ticks or events, see `unit`.
    pub value: Num<u64>,
    /// Since the session began, or the baseline.
    pub since: Num<u64>,
    /// Per second over the last interval.
    pub rate: Num<f64>,
    /// Unit of `value`: `words` (4 octets), `packets`, `ticks`, or empty for events.
    pub unit: &'static str,
    /// It counts errors.
    pub error: bool,
}
