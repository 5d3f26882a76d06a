//! Alerts in words.

use super::super::Model;
use super::super::view::AlertRow;
use super::Watched;
use super::{Alert, AlertCounts, Key, Kind, Measure};
use crate::fabric::best::below_best;
use crate::fabric::thresholds::{Over, RATE_UNIT, window_words};
use crate::fabric::{Guid, PortKey};
use crate::mad::Attribute;
use crate::model::{Ber, Counter};

impl Model {
    /// How many alerts are open.
    pub fn alert_counts(&self) -> AlertCounts {
        self.alerts.counts()
    }

    /// Every alert: open ones first, the gravest and then the newest on top; then those that
    /// were cleared, the last first.
    pub fn alerts(&self) -> Vec<AlertRow<'_>> {
        let mut open: Vec<_> = self.alerts.open.values().collect();
        open.sort_by(|a, b| {
            (b.severity, b.opened)
                .cmp(&(a.severity, a.opened))
                .then_with(|| a.key.cmp(&b.key))
        });
        let cleared = self.alerts.cleared.iter().rev();
        open.into_iter()
            .chain(cleared)
            .map(|a| self.alert_row(a))
            .collect()
    }

    fn alert_row<'m>(&'m self, alert: &'m Alert) -> AlertRow<'m> {
        let (about, kind) = alert.key;
        // An SM's alerts are about its port, if that is known.
        let about = about.or(match kind {
            Kind::SmStalled(guid) => self.port_guids.get(&guid).copied(),
            _ => None,
        });
        AlertRow {
            id: number_of(&alert.key),
            kind: kind.name(),
            severity: alert.severity,
            about,
            name: about.map(|k| match self.name(k.node) {
                "" => &*alert.name,
                name => name,
            }),
            opened: alert.opened,
            seen: alert.seen,
            cleared: alert.cleared,
            times: alert.times,
            text: match alert.cleared {
                Some(_) => alert.text.to_string(),
                None => self.open_cause(&alert.key),
            },
        }
    }

    /// What an open alert says: its cause with numbers, and whom to suspect.
    pub(super) fn alert_text(&self, key: &Key) -> String {
        let mut text = self.open_cause(key);
        if let Some(suspect) = key.0.and_then(|port| self.suspect(port, key.1.name())) {
            text += "; ";
            text += &suspect;
        }
        text
    }

    fn open_cause(&self, key: &Key) -> String {
        match self.alerts.open.get(key) {
            Some(alert) if !alert.text.is_empty() => alert.text.to_string(),
            Some(alert) => self.alert_cause(key, alert.measure.as_ref()),
            None => String::new(),
        }
    }

    /// What it is about, without numbers that change.
    pub(super) fn alert_title(&self, key: &Key) -> String {
        match key.1 {
            Kind::Counter(Watched::Of(Counter::LinkDowned)) => "link flapping".to_owned(),
            Kind::Counter(Watched::Of(Counter::XmitWait)) => {
                "waiting for credits (PortXmitWait)".to_owned()
            }
            Kind::Counter(c) => c.name().to_owned(),
            Kind::BelowBest => "link below its best".to_owned(),
            Kind::MostBelowBest(_) => "most links below their best".to_owned(),
            Kind::RecordingStopped | Kind::Note(_) => self.open_cause(key),
            kind => self.alert_cause(&(key.0, kind), None),
        }
    }

    /// Its cause, with numbers.
    pub(super) fn alert_cause(&self, key: &Key, measure: Option<&Measure>) -> String {
        let (about, kind) = *key;
        let sm = |guid: u64| match self.port_guids.get(&guid) {
            Some(key) => self.name(key.node).to_owned(),
            None => Guid(guid).to_string(),
        };
        match kind {
            Kind::Counter(c) => {
                // What counts errors stopped counting.
                let stopped = about.is_some_and(|port| {
                    let own = self.data(port.node).and_then(|n| n.port(port.port));
                    let counted = own.and_then(|p| p.fec.as_deref()?.counted(c));
                    counted.is_some_and(|counted| counted.pegged)
                });
                counter_words(c, measure, stopped)
            }
            Kind::Pegged(c) if c.is_rate() => format!(
                "the lane counters behind {} are at their maximum: new errors cannot be seen",
                c.name()
            ),
            Kind::Pegged(c) => {
                format!("{} is at its maximum: new errors cannot be seen", c.name())
            }
            Kind::LinkDown => {
                let port = about.and_then(|k| self.topology.port(k));
                let other = port.and_then(|p| p.peer.or(p.last_peer));
                let to = other.map_or_else(String::new, |o| format!(" to {}", self.port_name(o)));
                let disabled = port
                    .and_then(|p| p.info.as_ref())
                    .is_some_and(|i| i.phys_state() == crate::mad::PhysState::Disabled);
                let why = if disabled {
                    ": the port is disabled"
                } else {
                    ""
                };
                format!("link{to} is down{why}")
            }
            Kind::BelowBest => about.map_or_else(String::new, |k| self.below_words(k)),
            Kind::MostBelowBest(cause) => self.most_words(cause),
            Kind::MtuMismatch => self.ends_words(about, "MTU", |i| i.neighbor_mtu().to_string()),
            Kind::MtuBelowBest => self.mtu_words(about),
            Kind::VlMismatch => {
                self.ends_words(about, "virtual lanes", |i| i.operational_vls().to_string())
            }
            Kind::NodeSilent => "does not answer".to_owned(),
            Kind::PeerSilent => {
                let told = about.and_then(|k| self.topology.told(k)?.node);
                let who = told.map_or_else(
                    || "whoever is at the other end".to_owned(),
                    |(_, description)| {
                        let name = crate::fabric::names::clean(description.bytes());
                        format!("the other end, {name} as the SA has it,")
                    },
                );
                format!("{who} does not answer")
            }
            Kind::NodeVanished => "cannot be reached any more".to_owned(),
            Kind::DuplicateGuid => match about {
                Some(k) => format!("another node has the same GUID {}", k.node.guid),
                None => "several nodes have the same GUID".to_owned(),
            },
            Kind::SmStalled(guid) => {
                let activity = self.sms.get(&guid).map_or(0, |s| s.activity);
                let name = sm(guid);
                format!("SM {name}: its activity count stands still at {activity}")
            }
            Kind::SmFailover => {
                let name = self.master.map_or_else(|| "another SM".to_owned(), sm);
                format!("the subnet manager changed: {name} is master now")
            }
            Kind::TwoMasters(a, b) => format!("two master SMs: {} and {}", sm(a), sm(b)),
            Kind::NoSm => "the local port knows no subnet manager".to_owned(),
            Kind::SmSilent => "the subnet manager does not answer".to_owned(),
            Kind::SaSilent => "the subnet administration (SA) does not answer".to_owned(),
            Kind::DeviceGone => match &self.gone {
                Some((_, why)) => format!("the local device is gone: {why}"),
                None => "the local device is gone".to_owned(),
            },
            Kind::RecordingStopped | Kind::Note(_) => String::new(),
        }
    }

    /// In words, what the link runs at and could run at. The ends are read one after the other,
    /// and one that was not read again yet still shows what was: the end that is below speaks.
    fn below_words(&self, key: PortKey) -> String {
        let peer = self.topology.port(key).and_then(|p| p.peer);
        let words = |key: PortKey| {
            let below = below_best(&self.topology, key);
            let node = self.topology.node(key.node)?;
            let (width, speed) = (node.port(key.port)?.width()?, node.speed(key.port)?);
            let best_width = below.width.unwrap_or(width);
            let best_speed = below.speed.unwrap_or(speed);
            below.any().then(|| {
                format!("link runs at {width} {speed}, both ends can do {best_width} {best_speed}")
            })
        };
        words(key)
            .or_else(|| words(peer?))
            .unwrap_or_else(|| "link is below its best".to_owned())
    }

    fn mtu_words(&self, about: Option<PortKey>) -> String {
        let info = |key: PortKey| self.topology.port(key)?.info.as_ref();
        let ends = about.and_then(|near| {
            let far = self.topology.port(near)?.peer?;
            Some((info(near)?, info(far)?))
        });
        let Some((near, far)) = ends else {
            return "link's MTU is below its best".to_owned();
        };
        let best = match near.mtu_cap().code() <= far.mtu_cap().code() {
            true => near.mtu_cap(),
            false => far.mtu_cap(),
        };
        let used = near.neighbor_mtu();
        format!("link has an MTU of {used}, below its best: both ends can do {best}")
    }

    fn ends_words(
        &self,
        about: Option<PortKey>,
        what: &str,
        of: impl Fn(&crate::mad::PortInfo) -> String,
    ) -> String {
        let value = |key: PortKey| self.topology.port(key)?.info.as_ref().map(&of);
        let ends = about.and_then(|near| {
            let far = self.topology.port(near)?.peer?;
            Some((value(near)?, far, value(far)?))
        });
        match ends {
            Some((here, far, there)) => format!(
                "the ends of the link do not agree on {what}: {here} here, {there} at {}",
                self.port_name(far)
            ),
            None => format!("the ends of the link do not agree on {what}"),
        }
    }
}

/// The same alert has the same number, in every session.
fn number_of(key: &Key) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hash = super::super::fixed::Mix::default();
    key.hash(&mut hash);
    hash.finish()
}

fn counter_words(c: Watched, measure: Option<&Measure>, stopped: bool) -> String {
    let name = c.name();
    let Some(&Measure { value, limit, over }) = measure else {
        return format!("{name} is above its limit");
    };
    match over {
        Over::Window(ns) if c == Watched::Of(Counter::LinkDowned) => format!(
            "link flaps: {name} rose by {value} within {}, limit {limit}",
            window_words(ns)
        ),
        Over::Window(ns) => format!(
            "{name} rose by {value} within {}, limit {limit}",
            window_words(ns)
        ),
        Over::Share(ns) => format!(
            "{name}: waited {value} % of {} to send, limit {limit} %",
            window_words(ns)
        ),
        Over::Rate(ns) => {
            let rate = |n: u64| n as f64 / RATE_UNIT;
            // A block beyond repair has more than one wrong bit, and counts as one.
            let least = match stopped || c == Watched::EffectiveBer {
                true => "at least ",
                false => "",
            };
            format!(
                "{name} is {least}{} within {}, limit {:e}",
                Ber::Is(rate(value)),
                window_words(ns),
                rate(limit)
            )
        }
        Over::Value => format!("{name} is {value}, limit {limit}"),
        // Weighed as a rate.
        Over::Trust(_) => format!("{name} is above its limit"),
    }
}
