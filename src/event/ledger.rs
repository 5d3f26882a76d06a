//! What a keyframe tells beside the last replies: what the fold of a whole session knows and no
//! reply says.
//!
//! A viewer that joins late reads it once, after the replies. Nobody who saw the session from
//! its beginning needs it, and none is part of the stream itself.

use serde::{Deserialize, Serialize};

use super::Severity;
use crate::fabric::thresholds::Over;
use crate::fabric::{DrPath, NodeId, PortKey, Target};
use crate::port::Stamp;

/// A part of the ledger: large ones come in several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The first part: what was told of alerts before is void.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// Names of the counters that `ports` numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortLedger>,
    /// Nodes that are missing, and the discovery that saw each of them last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<(NodeId, u32)>,
    /// Totals of everybody who was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<TotalsLedger>,
    /// Requests on their way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingLedger>,
    /// Open alerts and those that were cleared, the latter in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<AlertLedger>,
    /// Increments within the times of thresholds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowLedger>,
    /// Differences that wait for their confirmation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<SuspectLedger>,
    /// Subnet managers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sms: Vec<SmLedger>,
    /// Port GUID of the SM that is master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<u64>,
}

/// A port's baseline and past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortLedger {
    /// Which port.
    pub port: PortKey,
    /// Increments since the session began, those of zero left out: number of the counter, how
    /// many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since: Vec<(u8, u64)>,
    /// Counters of which this is but a lower bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<u8>,
    /// Forward error correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec: Option<FecLedger>,
    /// It had a link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub had_link: bool,
    /// The other end of the link that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<PortKey>,
}

/// What forward error correction counted at a port since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FecLedger {
    /// Correctable and uncorrectable blocks, corrected symbols, errors before and after
    /// correction.
    pub since: [u64; 5],
    /// Bit n: number n is but a lower bound.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bound: u8,
    /// What the link carried meanwhile, kbit.
    pub kbits: u64,
    /// How long that took, ns.
    pub observed_ns: u64,
    /// FEC mode by whose rules they count: 0 while it was not known, else its code plus 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rules: u8,
}

fn is_zero(n: &u8) -> bool {
    *n == 0
}

/// The last failure of somebody who was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureLedger {
    /// Its kind, in words.
    pub kind: String,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Management class.
    pub class: u8,
    /// Attribute.
    pub attribute: u16,
    /// When.
    pub at: Stamp,
}

/// Somebody who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whom {
    /// A node.
    Node(NodeId),
    /// The SA.
    Sa,
    /// The SM.
    Sm,
    /// Whoever is at the other end of this port; of none: the local node.
    Beyond(Option<PortKey>),
}

/// What was asked of somebody, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotalsLedger {
    /// Of whom.
    pub whom: Whom,
    /// LID last used.
    pub lid: u16,
    /// Requests sent, attempts included.
    pub sent: u64,
    /// Answered.
    pub answered: u64,
    /// Attempts after the first.
    pub retried: u64,
    /// Attempts that nobody answered.
    pub timed_out: u64,
    /// Requests in a row that failed for good: to the SMA, to other agents.
    pub failing: [u32; 2],
    /// Since when that is so.
    #[serde(default)]
    pub silent: Option<Stamp>,
    /// Since when it cannot be reached, or is not asked.
    #[serde(default)]
    pub away: Option<Stamp>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureLedger>,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingLedger {
    /// Low half of its transaction id.
    pub tid: u32,
    /// When it was sent.
    pub at: Stamp,
    /// Whom it was meant for.
    pub target: Target,
    /// Management class.
    pub class: u8,
    /// Method.
    pub method: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// Directed route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<DrPath>,
    /// LID it went to.
    pub lid: u16,
    /// Port selected, of performance management.
    pub port_select: u8,
    /// Which attempt.
    pub attempt: u8,
    /// How long the answer is waited for, ms.
    pub timeout_ms: u32,
    /// It timed out, and its answer would still count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertLedger {
    /// Its kind, by name; what else tells it apart follows after slashes.
    pub kind: String,
    /// Whom it is about; port 0 stands for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<PortKey>,
    /// Name of that node, which may be gone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How grave.
    pub severity: Severity,
    /// When it opened first.
    pub opened: Stamp,
    /// The last sign of it.
    pub seen: Stamp,
    /// When it was cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared: Option<Stamp>,
    /// How often it opened.
    pub times: u32,
    /// The greatest that was measured, the limit, and what was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<(u64, u64, Over)>,
    /// What it said, if that cannot be made anew.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Increments of a counter within a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowLedger {
    /// Which port.
    pub port: PortKey,
    /// Which counter.
    pub counter: String,
    /// Which of that counter's limits, in the order of the settings.
    pub rule: u8,
    /// Number of the newest bucket.
    pub head: u64,
    /// The buckets.
    pub sums: [u32; 12],
    /// Of a bit error rate: how long was counted in each, ms.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub spans: Vec<u32>,
    /// Of a bit error rate: its counter reached its maximum.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pegged: bool,
    /// When it was last added to.
    pub last: Stamp,
    /// Its limit is exceeded.
    pub held: bool,
}

/// A difference that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectLedger {
    /// Kind of the alert that it may become.
    pub kind: String,
    /// About which port.
    pub about: PortKey,
    /// Since when.
    pub since: Stamp,
}

/// A subnet manager's past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmLedger {
    /// Its port GUID.
    pub guid: u64,
    /// Since when its activity count stands still.
    pub still_since: Stamp,
    /// Whether that was said.
    pub told: bool,
    /// When another one was found to be master instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaced: Option<Stamp>,
    /// When it was first heard of.
    #[serde(default)]
    pub first: Stamp,
    /// When its state, priority or LID last changed.
    #[serde(default)]
    pub changed: Stamp,
    /// Since when it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<Stamp>,
    /// Since when it says that it is master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master_since: Option<Stamp>,
}

fn is_nothing(spans: &[u32]) -> bool {
    spans.iter().all(|ms| *ms == 0)
}
