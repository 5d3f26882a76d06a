//! Which end of a link to suspect, in words, from both ends' counters.
//!
//! What a counter means decides whom it blames (specification 16.1.3.5):
//!
//! - A receiver counts what arrives damaged: SymbolErrorCounter, LinkErrorRecoveryCounter,
//!   LocalLinkIntegrityErrors, PortRcvErrors, PortFECUncorrectableBlockCtr. So the damage was done on the way to it: by the
//!   other end's transmitter or by the cable, and by the receiver itself only then. If both
//!   ends count as much, what they have in common is the cable.
//! - PortRcvRemotePhysicalErrors counts packets that arrived already marked as bad by an
//!   earlier switch: the damage was done before this link, never on it.
//! - PortXmitDiscards counts packets that could not leave in time: the trouble is behind the
//!   other end, which takes nothing, or does not take it fast enough.
//! - PortXmitWait counts time without credits from the other end.
//! - The constraint counters count packets that a switch port's partition table refused.
//! - ExcessiveBufferOverrunErrors counts packets for which the receiver had given no credits.
//!
//! Where somebody looked at a port, its PortRcvErrorDetails and PortXmitDiscardDetails (16.1.4.1
//! and 16.1.4.2) say why packets were counted, and that decides: a malformed packet blames whoever
//! built it, one too old at the head of the queue the congestion behind the other end.
//!
//! Counted is what the session saw. Nothing here is proof: it says where to look first.

use super::alerts::Watched;
use super::counters::{COUNTERS, Counter};
use super::view::AlertRow;
use super::views::wait_share;
use super::{Model, Num};
use crate::fabric::{NodeKind, PortKey};
use crate::port::Stamp;

/// Above this share of time a port waits for credits.
const WAITS: f64 = 0.1;
/// Above this share of the link's rate it is full.
const FULL: f64 = 0.8;
/// Below this share it could carry much more.
const IDLE: f64 = 0.5;
/// One end that counts this many times what the other does is the one that matters.
const MUCH_MORE: u64 = 10;

/// What the counters of a link say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whom or what to suspect first, as an order: "suspect the cable, ...".
    pub suspect: String,
    /// The counts behind it.
    pub why: String,
}

impl Finding {
    /// Both in one sentence.
    pub fn sentence(&self) -> String {
        let mut chars = self.suspect.chars();
        let first = chars.next().map(|c| c.to_uppercase().to_string());
        format!(
            "{}{}: {}.",
            first.unwrap_or_default(),
            chars.as_str(),
            self.why
        )
    }
}

/// One end of a link, as far as its counters are concerned.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// `name[port]`.
    pub name: String,
    /// What the node is.
    pub kind: NodeKind,
    /// Counted in this session, by [`Counter`].
    pub counts: [u64; COUNTERS],
    /// Blocks that forward error correction could not repair.
    pub uncorrectable: u64,
    /// Why packets were counted as receive errors, and as discarded: what was read of it.
    pub receive_causes: Vec<(&'static str, u64)>,
    /// The same of PortXmitDiscards.
    pub discard_causes: Vec<(&'static str, u64)>,
    /// Share of time in which it waits to send, 0-1.
    pub wait: Option<f64>,
    /// Share of the link's rate that it sends, 0-1.
    pub sends: Option<f64>,
    /// Other ports of its node that receive damaged packets.
    pub damaged: Vec<String>,
    /// Other ports of its node that wait, too.
    pub waiting: Vec<String>,
}

impl End {
    fn count(&self, c: Counter) -> u64 {
        self.counts.get(c as usize).copied().unwrap_or(0)
    }

    /// What arrived damaged at this end.
    fn physical(&self) -> u64 {
        [
            Counter::SymbolError,
            Counter::LinkErrorRecovery,
            Counter::LocalLinkIntegrity,
            Counter::RcvErrors,
        ]
        .into_iter()
        .fold(self.uncorrectable, |sum, c| {
            sum.saturating_add(self.count(c))
        })
    }

    /// The counts of these, as "3 SymbolErrorCounter, 1 PortRcvErrors".
    fn list(&self, counters: &[Counter]) -> String {
        let some: Vec<String> = counters
            .iter()
            .filter(|c| self.count(**c) > 0)
            .map(|c| format!("{} {}", self.count(*c), c.name()))
            .collect();
        some.join(", ")
    }

    fn physical_words(&self) -> String {
        let mut list = self.list(&[
            Counter::SymbolError,
            Counter::LinkErrorRecovery,
            Counter::LocalLinkIntegrity,
            Counter::RcvErrors,
        ]);
        if self.uncorrectable > 0 {
            let comma = if list.is_empty() { "" } else { ", " };
            let name = Watched::FecUncorrectable.name();
            list += &format!("{comma}{} {name}", self.uncorrectable);
        }
        if list.is_empty() {
            format!("{} counts none", self.name)
        } else {
            format!("{} counts {list}", self.name)
        }
    }
}

/// The most frequent of some causes.
fn main_cause(causes: &[(&'static str, u64)]) -> Option<(&'static str, u64)> {
    let some = causes.iter().copied().filter(|(_, n)| *n > 0);
    // Of equal ones the first.
    some.rev().max_by_key(|(_, n)| *n)
}

fn cause_words(cause: Option<(&'static str, u64)>) -> String {
    cause.map_or_else(String::new, |(name, n)| {
        format!("; most of them, as far as their causes were read: {n} {name}")
    })
}

fn listed(names: &[String]) -> String {
    match names {
        [a, b, c, rest @ ..] if !rest.is_empty() => {
            format!("{a}, {b}, {c} and {} more", rest.len())
        }
        names => names.join(", "),
    }
}

/// What both ends' counters say of their link, the gravest first.
pub fn diagnose(near: &End, far: &End) -> Vec<Finding> {
    let mut all = Vec::new();
    physical(near, far, &mut all);
    for (here, there) in [(near, far), (far, near)] {
        remote(here, there, &mut all);
    }
    downs(near, far, &mut all);
    for (here, there) in [(near, far), (far, near)] {
        overruns(here, there, &mut all);
        constraints(here, there, &mut all);
        discards(here, there, &mut all);
        waits(here, there, &mut all);
        dropped(here, &mut all);
    }
    all
}

fn physical(near: &End, far: &End, all: &mut Vec<Finding>) {
    let (n, f) = (near.physical(), far.physical());
    if n == 0 && f == 0 {
        return;
    }
    let (more, less) = if n >= f { (near, far) } else { (far, near) };
    let received = more.count(Counter::RcvErrors);
    let cause = main_cause(&more.receive_causes).filter(|_| received > 0);
    let why = format!(
        "{}, {}{}",
        more.physical_words(),
        less.physical_words(),
        cause_words(cause)
    );
    let both = less.physical().saturating_mul(MUCH_MORE) > more.physical();
    let malformed = more.physical() == received;
    let cause = cause.map(|(name, _)| name).filter(|_| malformed);
    let suspect = if cause == Some("PortMalformedPktErrors") && less.kind == NodeKind::Switch {
        format!(
            "not the wire: suspect a sender beyond {} that builds packets wrongly",
            less.name
        )
    } else if cause == Some("PortMalformedPktErrors") {
        format!(
            "suspect {} itself: it builds packets wrongly, and the wire is well",
            less.name
        )
    } else if cause == Some("PortBufferOverrunErrors") {
        format!(
            "suspect {}: it sends without credits; compare both ends' OperVLs and MTU",
            less.name
        )
    } else if let Some("PortDLIDMappingErrors" | "PortLoopingErrors") = cause {
        format!(
            "not the wire: suspect the forwarding tables, {} has no way on for some packets",
            more.name
        )
    } else if cause == Some("PortVLMappingErrors") {
        format!(
            "not the wire: suspect the SL to VL tables, {} has no such lane in use",
            more.name
        )
    } else if cause == Some("PortLocalPhysicalErrors") && !both {
        format!(
            "suspect the cable or {}'s transmitter, then {}'s receiver",
            less.name, more.name
        )
    } else if both {
        "suspect the cable or its connectors: both directions are damaged".to_owned()
    } else if malformed {
        format!(
            "suspect {}'s transmitter or the cable, or packets that {} builds wrongly",
            less.name, less.name
        )
    } else {
        format!(
            "suspect the cable or {}'s transmitter, then {}'s receiver",
            less.name, more.name
        )
    };
    all.push(Finding { suspect, why });
}

/// Packets that were bad before they came to this link.
fn remote(here: &End, there: &End, all: &mut Vec<Finding>) {
    let count = here.count(Counter::RcvRemotePhysicalErrors);
    if count == 0 {
        return;
    }
    let why = format!(
        "{} received {count} packets that were already marked as bad \
         (PortRcvRemotePhysicalErrors)",
        here.name
    );
    let suspect = if there.kind != NodeKind::Switch {
        format!(
            "suspect {} itself: it sends packets marked as bad",
            there.name
        )
    } else if there.damaged.is_empty() {
        format!("not this link: suspect one on the way to {}", there.name)
    } else {
        format!(
            "not this link: suspect the one at {}, where packets arrive damaged",
            listed(&there.damaged)
        )
    };
    all.push(Finding { suspect, why });
}

fn downs(near: &End, far: &End, all: &mut Vec<Finding>) {
    let downs = near
        .count(Counter::LinkDowned)
        .max(far.count(Counter::LinkDowned));
    if downs == 0 {
        return;
    }
    let quiet = near.physical() == 0 && far.physical() == 0;
    let host = [near, far].into_iter().find(|e| e.kind == NodeKind::Ca);
    let suspect = match (quiet, host) {
        (true, Some(host)) => format!(
            "suspect a restart of {}, or a cable that was pulled or is loose",
            host.name
        ),
        (true, None) => "suspect a restart of either end, or a loose cable".to_owned(),
        (false, _) => "suspect the cable or its connectors first".to_owned(),
    };
    let with = if quiet {
        "without a damaged packet"
    } else {
        "and packets were damaged"
    };
    all.push(Finding {
        suspect,
        why: format!(
            "the link went down {} (LinkDownedCounter) {with}",
            super::so_many(
                usize::try_from(downs).unwrap_or(usize::MAX),
                "time",
                "times"
            )
        ),
    });
}

fn overruns(here: &End, there: &End, all: &mut Vec<Finding>) {
    let count = here.count(Counter::ExcessiveBufferOverrun);
    if count > 0 {
        all.push(Finding {
            suspect: format!(
                "suspect {}: it sends without credits; compare both ends' OperVLs and MTU",
                there.name
            ),
            why: format!("{} counts {count} ExcessiveBufferOverrunErrors", here.name),
        });
    }
}

fn constraints(here: &End, there: &End, all: &mut Vec<Finding>) {
    let received = here.count(Counter::RcvConstraintErrors);
    if received > 0 {
        all.push(Finding {
            suspect: format!(
                "suspect the partition configuration: {} sends with a P_Key that this port \
                 does not admit",
                there.name
            ),
            why: format!(
                "{} refused {received} packets (PortRcvConstraintErrors)",
                here.name
            ),
        });
    }
    let sent = here.count(Counter::XmitConstraintErrors);
    if sent > 0 {
        all.push(Finding {
            suspect: format!(
                "suspect the partition configuration: somebody sends to {} with a P_Key that \
                 it is not a member of",
                there.name
            ),
            why: format!(
                "{} held back {sent} packets (PortXmitConstraintErrors)",
                here.name
            ),
        });
    }
}

/// Whom a port blames that cannot get rid of its packets.
fn beyond(there: &End) -> String {
    if there.kind != NodeKind::Switch {
        format!("suspect {}: it takes packets too slowly", there.name)
    } else if there.waiting.is_empty() {
        format!("suspect congestion behind {}", there.name)
    } else {
        format!(
            "suspect congestion behind {}: {} cannot send either",
            there.name,
            listed(&there.waiting)
        )
    }
}

const GOING_DOWN: &str = "suspect the link's going down: packets had no way out then";

fn discards(here: &End, there: &End, all: &mut Vec<Finding>) {
    let count = here.count(Counter::XmitDiscards);
    if count == 0 {
        return;
    }
    let downs = here.count(Counter::LinkDowned);
    let cause = main_cause(&here.discard_causes);
    let suspect = match cause.map(|(name, _)| name) {
        Some("PortSwHOQLifetimeLimitDiscards") => beyond(there),
        Some("PortSwLifetimeLimitDiscards") => format!(
            "suspect congestion in {}'s switch: packets grew too old in it",
            here.name
        ),
        Some("PortNeighborMTUDiscards") => format!(
            "suspect the MTU of the senders: their packets are longer than {} takes",
            there.name
        ),
        Some("PortInactiveDiscards") => GOING_DOWN.to_owned(),
        _ if downs > 0 => GOING_DOWN.to_owned(),
        _ => beyond(there),
    };
    all.push(Finding {
        suspect,
        why: format!(
            "{} discarded {count} packets (PortXmitDiscards){}",
            here.name,
            cause_words(cause)
        ),
    });
}

fn waits(here: &End, there: &End, all: &mut Vec<Finding>) {
    let Some(wait) = here.wait.filter(|w| *w >= WAITS) else {
        return;
    };
    let percent = |share: f64| (share * 100.0).round();
    let Some(sends) = here.sends else {
        return;
    };
    let why = format!(
        "{} waits {} % of the time (PortXmitWait) while it sends at {} % of the link's rate",
        here.name,
        percent(wait),
        percent(sends)
    );
    let suspect = if sends >= FULL {
        "no fault: the link is full".to_owned()
    } else if sends < IDLE {
        format!("{}: no credits come from there", beyond(there))
    } else {
        format!("{}, or load that comes in bursts", beyond(there))
    };
    all.push(Finding { suspect, why });
}

fn dropped(here: &End, all: &mut Vec<Finding>) {
    let count = here.count(Counter::Vl15Dropped);
    if count > 0 {
        all.push(Finding {
            suspect: format!(
                "suspect too much management traffic for {}: several monitors or a busy SM",
                here.name
            ),
            why: format!("{} dropped {count} SMPs (VL15Dropped)", here.name),
        });
    }
}

impl Model {
    /// What both ends' counters say of the link at `key`, the gravest first. Empty if there is
    /// nothing to say, or the other end is not known.
    pub fn diagnosis(&self, key: PortKey, now: Stamp) -> Vec<Finding> {
        let port = self.topology.port(key);
        let Some(peer) = port.and_then(|p| p.peer.or(p.last_peer)) else {
            return Vec::new();
        };
        match (self.link_end(key, now), self.link_end(peer, now)) {
            (Some(near), Some(far)) => diagnose(&near, &far),
            _ => Vec::new(),
        }
    }

    /// Whom an alert's own counter blames, as an order: "suspect the cable ...". Looks at every
    /// port of the switches at both ends: meant for rows in sight and for reports.
    pub fn suspicion(&self, alert: &AlertRow<'_>) -> Option<String> {
        let port = alert.about.filter(|_| alert.cleared.is_none())?;
        self.suspect(port, alert.kind)
    }

    /// The same for an alert of this name.
    pub(super) fn suspect(&self, port: PortKey, kind: &str) -> Option<String> {
        let sign = match kind {
            "below_best" => Counter::SymbolError.name(),
            // Nothing is counted as lost: correction still copes.
            name if name == Watched::RawBer.name() => {
                let peer = self.topology.port(port)?.peer?;
                return Some(format!(
                    "suspect the cable, its connectors or {}'s transmitter",
                    self.port_name(peer)
                ));
            }
            name if name == Watched::EffectiveBer.name() => Watched::FecUncorrectable.name(),
            name => Watched::from_name(name)?.name(),
        };
        let findings = self.diagnosis(port, self.last);
        let found = findings.into_iter().find(|f| f.why.contains(sign));
        found.map(|f| f.suspect)
    }

    fn link_end(&self, key: PortKey, now: Stamp) -> Option<End> {
        let seen = self.look(key)?;
        let counters = seen.own.and_then(|p| p.counters.as_deref());
        let mut end = End {
            name: self.port_name(key),
            kind: seen.node.kind,
            ..End::default()
        };
        if let Some(counters) = counters {
            for (count, c) in end.counts.iter_mut().zip(Counter::ALL) {
                if counters.has(c) {
                    let (value, since) = counters.raw(c);
                    *count = if self.alerts.limits.whole_values {
                        value
                    } else {
                        since
                    };
                }
            }
        }
        if let Some(fec) = seen.own.and_then(|p| p.fec.as_deref()) {
            let lost = fec.counted(Watched::FecUncorrectable);
            end.uncorrectable = lost.map_or(0, |lost| {
                if self.alerts.limits.whole_values {
                    lost.value
                } else {
                    lost.since
                }
            });
        }
        use crate::mad::{Attribute, PortRcvErrorDetails, PortXmitDiscardDetails};
        end.receive_causes = self.details.counts(key, PortRcvErrorDetails::ID);
        end.discard_causes = self.details.counts(key, PortXmitDiscardDetails::ID);
        end.wait = self.waits(key, now);
        let limit = self.interval().saturating_mul(2);
        let capacity = seen.own.map_or(0.0, |p| p.capacity_bps);
        end.sends = counters
            .and_then(|c| c.rate(Counter::XmitData, now, limit).current())
            .filter(|_| capacity > 0.0)
            .map(|words| words * 32.0 / capacity);
        if seen.node.kind == NodeKind::Switch {
            self.look_around(key, now, &mut end);
        }
        Some(end)
    }

    /// What goes on at the other ports of a switch.
    fn look_around(&self, key: PortKey, now: Stamp, end: &mut End) {
        let Some(data) = self.data(key.node) else {
            return;
        };
        for (number, port) in (0u8..=u8::MAX).zip(&data.ports) {
            let Some(counters) = port.counters.as_deref().filter(|_| number != key.port) else {
                continue;
            };
            let other = key.node.port(number);
            let damaged = [Counter::SymbolError, Counter::RcvErrors]
                .into_iter()
                .any(|c| counters.raw(c).1 > 0);
            if damaged {
                end.damaged.push(self.port_name(other));
            }
            if self.waits(other, now).is_some_and(|w| w >= WAITS) {
                end.waiting.push(self.port_name(other));
            }
        }
    }

    fn waits(&self, key: PortKey, now: Stamp) -> Option<f64> {
        let seen = self.look(key)?;
        let counters = seen.own.and_then(|p| p.counters.as_deref())?;
        let limit = self.interval().saturating_mul(2);
        let ticks: Num<f64> = counters.rate(Counter::XmitWait, now, limit);
        wait_share(&seen, ticks).current()
    }
}

#[cfg(test)]
mod tests;
