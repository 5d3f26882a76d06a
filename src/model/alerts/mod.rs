//! Alerts: what needs a look, since when, and until when.
//!
//! An alert is open while its cause holds, is seen again with every new sign of it, and is
//! cleared once the cause is gone for good: a limit that was exceeded must be undercut by half,
//! so that nothing opens and clears with every sample. One that opens again soon is the same
//! alert, counted up.
//!
//! | file | is |
//! |--|--|
//! | here | the open alerts, the cleared ones, and what is due |
//! | `limits` | compiled thresholds, and increments within a time |
//! | `judge` | which event opens or clears what |
//! | `links` | links below their best, and what most of them have in common |
//! | `words` | alerts in words, for screens and reports |
//! | `keep` | alerts as a keyframe tells them |
//!
//! All of it is part of the fold: it moves with events and ticks alone. An event costs what it
//! costs, however large the fabric: nothing is searched, and a tick looks only at what is due.

mod judge;
mod keep;
mod limits;
mod links;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Counter;
use crate::event::Severity;
use crate::fabric::best::Shortfall;
use crate::fabric::thresholds::{Over, Thresholds};
use crate::fabric::{Guid, NodeId, PortKey};
use crate::port::Stamp;
pub use limits::Watched;
use limits::{Limits, WindowKey};
pub(super) use links::Links;

/// The most cleared alerts that are remembered.
pub const CLEARED: usize = 1_000;
/// The most open alerts of the kind that nothing clears.
const NOTES: usize = 100;
/// An alert that opens again within this time after it was cleared is the same one.
const REOPENS_WITHIN: Duration = Duration::from_secs(900);
/// What happened once and is over is shown as open for this long.
const LASTS: Duration = Duration::from_secs(900);

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A counter is above its threshold.
    Counter(Watched),
    /// A counter, or one behind a bit error rate, is at the maximum of its field: new errors
    /// cannot be seen.
    Pegged(Watched),
    /// A link that was up is down.
    LinkDown,
    /// A link runs below the width or speed that both ends can do.
    BelowBest,
    /// Most links of the fabric run below the width or speed that both ends can do, in this way.
    MostBelowBest(Shortfall),
    /// The two ends of a link do not agree on its MTU.
    MtuMismatch,
    /// Both ends of a link use an MTU below the one that both can do.
    MtuBelowBest,
    /// The two ends of a link do not agree on its virtual lanes.
    VlMismatch,
    /// A node does not answer.
    NodeSilent,
    /// Whoever is at the other end of a port's link has never said who it is.
    PeerSilent,
    /// A node cannot be reached any more.
    NodeVanished,
    /// Several nodes have the same GUID.
    DuplicateGuid,
    /// A master SM (port GUID) whose activity count stands still.
    SmStalled(u64),
    /// Another SM became master.
    SmFailover,
    /// Two SMs (port GUIDs) say that they are master.
    TwoMasters(u64, u64),
    /// The local port knows no SM.
    NoSm,
    /// The SM does not answer.
    SmSilent,
    /// The SA does not answer.
    SaSilent,
    /// The local device is gone.
    DeviceGone,
    /// The recording of this session stopped before its end. Nothing clears it.
    RecordingStopped,
    /// Something else that somebody has to know of: a text, by its hash.
    Note(u64),
}

/// Names of alerts that are not about one counter.
pub const NAMES: [&str; 19] = [
    "pegged",
    "link_down",
    "below_best",
    "mtu_mismatch",
    "mtu_below_best",
    "vl_mismatch",
    "node_silent",
    "peer_silent",
    "node_vanished",
    "duplicate_guid",
    "sm_stalled",
    "sm_failover",
    "two_masters",
    "no_sm",
    "sm_silent",
    "sa_silent",
    "device_gone",
    "recording_stopped",
    "note",
];

/// True if there are alerts of this name: a counter's, one of [`NAMES`], or `*` for all.
pub fn is_name(name: &str) -> bool {
    name == "*" || NAMES.contains(&name) || is_counter(name)
}

/// True if a limit can be set on what has this name.
pub fn is_counter(name: &str) -> bool {
    Watched::from_name(name).is_some()
}

impl Kind {
    /// The first in order.
    const FIRST: Kind = Kind::Counter(Watched::Of(Counter::SymbolError));

    /// Its name; that of the counter, if it is about the threshold of one.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter(c) => c.name(),
            Kind::Pegged(_) => "pegged",
            Kind::LinkDown => "link_down",
            Kind::BelowBest | Kind::MostBelowBest(_) => "below_best",
            Kind::MtuMismatch => "mtu_mismatch",
            Kind::MtuBelowBest => "mtu_below_best",
            Kind::VlMismatch => "vl_mismatch",
            Kind::NodeSilent => "node_silent",
            Kind::PeerSilent => "peer_silent",
            Kind::NodeVanished => "node_vanished",
            Kind::DuplicateGuid => "duplicate_guid",
            Kind::SmStalled(_) => "sm_stalled",
            Kind::SmFailover => "sm_failover",
            Kind::TwoMasters(..) => "two_masters",
            Kind::NoSm => "no_sm",
            Kind::SmSilent => "sm_silent",
            Kind::SaSilent => "sa_silent",
            Kind::DeviceGone => "device_gone",
            Kind::RecordingStopped => "recording_stopped",
            Kind::Note(_) => "note",
        }
    }
}

/// As a keyframe has it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Kind::Pegged(c) => write!(f, "/{}", c.name()),
            Kind::MostBelowBest(cause) => write!(f, "/{cause}"),
            Kind::SmStalled(guid) | Kind::Note(guid) => write!(f, "/{}", Guid(*guid)),
            Kind::TwoMasters(a, b) => write!(f, "/{}/{}", Guid(*a), Guid(*b)),
            _ => Ok(()),
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Kind, ()> {
        if let Some(cause) = text.strip_prefix("below_best/") {
            return cause.parse().map(Kind::MostBelowBest);
        }
        let mut parts = text.split('/');
        let name = parts.next().ok_or(())?;
        let mut guid = || -> Result<u64, ()> {
            let part = parts.next().ok_or(())?;
            part.parse::<Guid>().map(|g| g.0).map_err(|_| ())
        };
        Ok(match name {
            "link_down" => Kind::LinkDown,
            "below_best" => Kind::BelowBest,
            "mtu_mismatch" => Kind::MtuMismatch,
            "mtu_below_best" => Kind::MtuBelowBest,
            "vl_mismatch" => Kind::VlMismatch,
            "node_silent" => Kind::NodeSilent,
            "peer_silent" => Kind::PeerSilent,
            "node_vanished" => Kind::NodeVanished,
            "duplicate_guid" => Kind::DuplicateGuid,
            "sm_stalled" => Kind::SmStalled(guid()?),
            "sm_failover" => Kind::SmFailover,
            "two_masters" => Kind::TwoMasters(guid()?, guid()?),
            "no_sm" => Kind::NoSm,
            "sm_silent" => Kind::SmSilent,
            "sa_silent" => Kind::SaSilent,
            "device_gone" => Kind::DeviceGone,
            "recording_stopped" => Kind::RecordingStopped,
            "note" => Kind::Note(guid()?),
            "pegged" => Kind::Pegged(parts.next().and_then(Watched::from_name).ok_or(())?),
            _ => Kind::Counter(Watched::from_name(name).ok_or(())?),
        })
    }
}

/// Which alert: there is at most one of a kind about a port; port 0 stands for its node.
pub(super) type Key = (Option<PortKey>, Kind);

/// What was measured, and what it was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measure {
    /// The greatest since the alert opened.
    pub value: u64,
    pub limit: u64,
    pub over: Over,
}

/// An alert.
#[derive(Clone, Debug)]
pub(super) struct Alert {
    pub key: Key,
    /// Name of the node it is about, for when that is gone.
    pub name: Box<str>,
    pub severity: Severity,
    pub opened: Stamp,
    /// The last sign of it.
    pub seen: Stamp,
    pub cleared: Option<Stamp>,
    /// How often it opened.
    pub times: u32,
    pub measure: Option<Measure>,
    /// Of an open one only where it cannot be made anew from what is known.
    pub text: Box<str>,
}

/// What is to be looked at at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Alert(Key),
    Window(WindowKey),
}

/// How many alerts are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlertCounts {
    /// Of severity critical.
    pub critical: usize,
    /// Of severity warning.
    pub warning: usize,
    /// Of severity info.
    pub info: usize,
}

impl AlertCounts {
    /// All of them.
    pub const fn all(&self) -> usize {
        self.critical + self.warning + self.info
    }

    fn of(&mut self, severity: Severity) -> &mut usize {
        match severity {
            Severity::Info => &mut self.info,
            Severity::Warning => &mut self.warning,
            Severity::Critical => &mut self.critical,
        }
    }
}

/// All alerts of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Alerts {
    open: BTreeMap<Key, Alert>,
    cleared: VecDeque<Alert>,
    counts: AlertCounts,
    due: BTreeSet<(Stamp, Due)>,
    pub limits: Limits,
    /// Since when two ends of a link seem to disagree.
    suspects: BTreeMap<Key, Stamp>,
    /// Since when which SM says that it is master.
    masters: BTreeMap<u64, Stamp>,
    /// The open alert about most links.
    most_below: Option<Shortfall>,
    /// Open alerts about ends that do not agree.
    disagreements: usize,
    /// Something that a view shows has changed.
    changed: bool,
}

/// What opening an alert came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// It was not open.
    New,
    /// It was open, and is graver now.
    Graver,
    /// It was open.
    Known,
}

impl Alerts {
    pub fn is_open(&self, key: &Key) -> bool {
        self.open.contains_key(key)
    }

    pub fn counts(&self) -> AlertCounts {
        self.counts
    }

    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Opens an alert, or sees it again.
    pub fn open(
        &mut self,
        at: Stamp,
        key: Key,
        severity: Severity,
        measure: Option<Measure>,
        text: &str,
    ) -> Opening {
        self.changed = true;
        if let Some(alert) = self.open.get_mut(&key) {
            alert.seen = alert.seen.max(at);
            let before = alert.severity;
            if before != severity {
                *self.counts.of(before) -= 1;
                *self.counts.of(severity) += 1;
                alert.severity = severity;
            }
            if let Some(new) = measure {
                // The greatest value counts as long as it is compared with the same.
                let peak = match alert.measure {
                    Some(old) if old.over == new.over => old.value.max(new.value),
                    _ => new.value,
                };
                alert.measure = Some(Measure { value: peak, ..new });
            }
            return if severity > before {
                Opening::Graver
            } else {
                Opening::Known
            };
        }
        let soon =
            |a: &Alert| a.key == key && a.cleared.is_some_and(|c| at.since(c) <= REOPENS_WITHIN);
        let before = self.cleared.iter().rposition(soon);
        let mut alert = match before.and_then(|at| self.cleared.remove(at)) {
            Some(old) => old,
            None => Alert {
                key,
                name: "".into(),
                severity,
                opened: at,
                seen: at,
                cleared: None,
                times: 0,
                measure: None,
                text: "".into(),
            },
        };
        alert.severity = severity;
        alert.seen = at;
        alert.cleared = None;
        alert.times = alert.times.saturating_add(1);
        alert.measure = measure;
        alert.text = text.into();
        *self.counts.of(severity) += 1;
        self.open.insert(key, alert);
        self.follow(&key, true);
        if matches!(key.1, Kind::Note(_)) {
            self.bound_notes(at);
        }
        Opening::New
    }

    /// Tells the name of the node that an open alert is about.
    pub fn name(&mut self, key: &Key, name: &str) {
        if let Some(alert) = self.open.get_mut(key) {
            alert.name = name.into();
        }
    }

    /// Nothing clears a note: the oldest give way.
    fn bound_notes(&mut self, at: Stamp) {
        let is_note = |k: &Key| matches!(k.1, Kind::Note(_));
        if self.open.keys().filter(|k| is_note(k)).count() <= NOTES {
            return;
        }
        let oldest = self
            .open
            .values()
            .filter(|a| is_note(&a.key))
            .min_by_key(|a| (a.opened, a.key))
            .map(|a| (a.key, a.text.clone()));
        if let Some((key, text)) = oldest {
            self.clear(at, &key, &text);
        }
    }

    /// Clears an open alert; `text` is what it said.
    pub fn clear(&mut self, at: Stamp, key: &Key, text: &str) {
        let Some(mut alert) = self.open.remove(key) else {
            return;
        };
        self.changed = true;
        self.follow(key, false);
        *self.counts.of(alert.severity) -= 1;
        alert.cleared = Some(at);
        alert.text = text.into();
        if self.cleared.len() >= CLEARED {
            self.cleared.pop_front();
        }
        self.cleared.push_back(alert);
    }

    /// Forgets an open alert that is told of elsewhere.
    pub fn discard(&mut self, key: &Key) {
        if let Some(alert) = self.open.remove(key) {
            self.changed = true;
            self.follow(key, false);
            *self.counts.of(alert.severity) -= 1;
        }
    }

    /// How grave an open alert is.
    pub fn severity(&self, key: &Key) -> Option<Severity> {
        self.open.get(key).map(|a| a.severity)
    }

    /// When an open alert was last seen.
    pub fn seen(&self, key: &Key) -> Option<Stamp> {
        self.open.get(key).map(|a| a.seen)
    }

    /// An open alert is less grave than it was.
    pub fn ease(&mut self, key: &Key, severity: Severity) {
        if let Some(alert) = self.open.get_mut(key)
            && alert.severity > severity
        {
            *self.counts.of(alert.severity) -= 1;
            *self.counts.of(severity) += 1;
            alert.severity = severity;
            self.changed = true;
        }
    }

    /// Keys of the open alerts about a node and its ports.
    pub fn about(&self, node: NodeId) -> Vec<Key> {
        let first = (Some(node.port(0)), Kind::FIRST);
        let of_node = |k: &&Key| k.0.is_some_and(|p| p.node == node);
        let after = self.open.range(first..).map(|(k, _)| k);
        after.take_while(of_node).copied().collect()
    }

    /// Notes since when something is suspected (`Some`: unless it already is; `None`: no more).
    pub fn suspect(&mut self, key: &Key, at: Option<Stamp>) -> Stamp {
        match at {
            Some(at) => *self.suspects.entry(*key).or_insert(at),
            None => self.suspects.remove(key).unwrap_or_default(),
        }
    }

    /// Notes whether an SM says that it is master; since when, if it does.
    pub fn master_since(&mut self, at: Stamp, guid: u64, is_master: bool) -> Option<Stamp> {
        if is_master {
            Some(*self.masters.entry(guid).or_insert(at))
        } else {
            self.masters.remove(&guid);
            None
        }
    }

    /// SMs that said at last that they are master, and since when.
    pub fn masters(&self) -> impl Iterator<Item = (u64, Stamp)> + '_ {
        self.masters.iter().map(|(guid, since)| (*guid, *since))
    }

    /// The open alerts of two masters of which this is one.
    pub fn pairs_of(&self, guid: u64) -> Vec<Key> {
        let first = (None, Kind::FIRST);
        let of_fabric = self.open.range(first..).map(|(k, _)| *k);
        of_fabric
            .take_while(|k| k.0.is_none())
            .filter(|k| matches!(k.1, Kind::TwoMasters(a, b) if a == guid || b == guid))
            .collect()
    }

    /// What is due at `at` is handed out once, one after the other.
    pub fn next_due(&mut self, at: Stamp) -> Option<Due> {
        let (when, due) = *self.due.first()?;
        if when > at {
            return None;
        }
        self.due.pop_first();
        Some(due)
    }

    /// Looks at an alert again at `when`.
    pub fn plan(&mut self, when: Stamp, key: Key) {
        self.due.insert((when, Due::Alert(key)));
    }

    /// Forgets everything but the limits.
    pub fn forget(&mut self) {
        let limits = std::mem::take(&mut self.limits);
        *self = Alerts {
            changed: true,
            ..Alerts::default()
        };
        self.limits = limits;
        self.limits.forget();
    }

    /// Takes other thresholds over. What was measured against the old ones is forgotten.
    pub fn use_thresholds(&mut self, thresholds: &Thresholds) {
        self.limits.compile(thresholds);
        self.due.retain(|(_, due)| matches!(due, Due::Alert(_)));
        let gone: Vec<Key> = self
            .open
            .keys()
            .filter(|(about, kind)| {
                matches!(kind, Kind::Counter(_))
                    || thresholds.is_suppressed(
                        kind.name(),
                        about.map(|k| k.node),
                        about.map(|k| k.port),
                    )
            })
            .copied()
            .collect();
        for key in gone {
            self.discard(&key);
        }
    }
}
