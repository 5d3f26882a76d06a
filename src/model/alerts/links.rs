//! Links below their best, counted by what they run at and what they could.
//!
//! Where most links of a fabric are below their best in one and the same way, that is how the
//! fabric was built: cables of one generation between ports of the next. One alert says so for
//! all of them, and only links that differ from the most have alerts of their own. Which way
//! that is, is decided when a sweep over the ports ends: in the middle of one, half of the links
//! would be news.
//!
//! Each link is counted at its lower end, and counted anew when an end was read: an event costs
//! the same in every fabric. Ports are gone through after a discovery, and when what the most
//! links have in common has changed.

use std::collections::BTreeMap;

use super::super::Model;
use super::super::state::Counted;
use super::{Alerts, Key, Kind};
use crate::event::{Severity, SweepKind};
use crate::fabric::PortKey;
use crate::fabric::best::Shortfall;
use crate::port::Stamp;

/// The fewest links that are told of as one.
const FEWEST: usize = 16;

/// How many links there are, and how many of them are below their best.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Links {
    all: usize,
    below: BTreeMap<Shortfall, usize>,
}

impl Links {
    fn replace(&mut self, old: Counted, new: Counted) {
        if let Counted::Below(cause) = old
            && let Some(n) = self.below.get_mut(&cause)
        {
            *n -= 1;
            if *n == 0 {
                self.below.remove(&cause);
            }
        }
        if let Counted::Below(cause) = new {
            *self.below.entry(cause).or_default() += 1;
        }
        self.all += usize::from(new != Counted::No);
        self.all -= usize::from(old != Counted::No);
    }

    /// How many links are below their best in this way, and how many there are in all.
    pub fn of(&self, cause: Shortfall) -> (usize, usize) {
        (self.below.get(&cause).copied().unwrap_or(0), self.all)
    }

    /// In which way more than half of the links are below their best; one that was is so still
    /// while it holds for more than a third.
    fn most(&self, before: Option<Shortfall>) -> Option<Shortfall> {
        let holds = |cause: &Shortfall, parts: usize, fewest: usize| {
            let (n, all) = self.of(*cause);
            n * parts > all && n >= fewest
        };
        self.below
            .keys()
            .copied()
            .find(|cause| holds(cause, 2, FEWEST))
            .or(before.filter(|cause| holds(cause, 3, FEWEST / 2)))
    }
}

impl Alerts {
    /// In which way most links are below their best, if that is told as one alert.
    pub fn most_below(&self) -> Option<Shortfall> {
        self.most_below
    }

    /// Some link's ends do not agree.
    pub(super) fn any_ends_disagree(&self) -> bool {
        self.disagreements > 0
    }

    /// An alert is open from now on, and was not; or it is not any more.
    pub(super) fn follow(&mut self, key: &Key, open: bool) {
        match key.1 {
            Kind::MostBelowBest(cause) => self.most_below = open.then_some(cause),
            Kind::MtuMismatch | Kind::VlMismatch if open => self.disagreements += 1,
            Kind::MtuMismatch | Kind::VlMismatch => self.disagreements -= 1,
            _ => {}
        }
    }

    /// Links that have one alert in common have none of their own: these are dropped, not
    /// cleared, since their cause stays.
    fn drop_singles(&mut self, is_told: impl Fn(PortKey) -> bool) {
        let told: Vec<Key> = self
            .open
            .keys()
            .filter(|key| key.1 == Kind::BelowBest && key.0.is_some_and(&is_told))
            .copied()
            .collect();
        for key in told {
            self.discard(&key);
        }
    }
}

impl Model {
    fn counted(&self, key: PortKey) -> Counted {
        let own = self.data(key.node).and_then(|n| n.port(key.port));
        own.map_or(Counted::No, |p| p.counted)
    }

    /// What a link is below, if anything, by the end that was read last. The ends are read one
    /// after the other, and one that was not read again yet still shows what was.
    fn link_below(&self, a: PortKey, b: PortKey) -> Option<Shortfall> {
        let own = |key: PortKey| {
            let own = self.data(key.node).and_then(|n| n.port(key.port));
            own.map_or((None, None), |p| (p.info_at, p.below))
        };
        let ((a_at, a), (b_at, b)) = (own(a), own(b));
        match a_at.cmp(&b_at) {
            std::cmp::Ordering::Less => b,
            std::cmp::Ordering::Greater => a,
            std::cmp::Ordering::Equal => a.or(b),
        }
    }

    /// Counts the link at a port: `peer` is its other end, if both ends are up.
    pub(in crate::model) fn count_link(&mut self, key: PortKey, peer: Option<PortKey>) {
        let lower = peer.map_or(key, |peer| peer.min(key));
        if lower != key {
            self.count(key, Counted::No);
        }
        let counted = match peer {
            None => Counted::No,
            Some(peer) => match self.link_below(lower, peer.max(key)) {
                Some(cause) => Counted::Below(cause),
                None => Counted::Best,
            },
        };
        self.count(lower, counted);
    }

    fn count(&mut self, key: PortKey, counted: Counted) {
        let node = self.data_mut(key.node);
        if let Some(port) = node.and_then(|n| n.ports.get_mut(usize::from(key.port))) {
            let old = std::mem::replace(&mut port.counted, counted);
            if old != counted {
                self.links.replace(old, counted);
            }
        }
    }

    /// A node is forgotten, and the links with it that are counted at its ports.
    pub(in crate::model) fn uncount(&mut self, node: crate::fabric::NodeId) {
        let ports = self.data(node).map_or(0, |n| n.ports.len());
        for port in (0..=u8::MAX).take(ports) {
            self.count(node.port(port), Counted::No);
        }
    }

    /// A link below its best was read, or one that is not: `lower` is its lower end. Before the
    /// first discovery has ended nobody knows yet what most links are like.
    pub(super) fn judge_best(&mut self, at: Stamp, lower: PortKey) {
        let key = (Some(lower), Kind::BelowBest);
        match self.counted(lower) {
            Counted::Below(cause) if Some(cause) == self.alerts.most_below() => {
                // It differed before.
                self.alerts.discard(&key);
            }
            Counted::Below(_) if self.discovered => {
                self.alert(at, key, Severity::Warning, None, false);
            }
            Counted::Below(_) => {}
            Counted::Best | Counted::No => self.clear_alert(at, key, false),
        }
    }

    /// A sweep has ended: decides whether most links are below their best in one way. `first`:
    /// it was the first discovery.
    pub(in crate::model) fn judge_links(&mut self, at: Stamp, kind: SweepKind, first: bool) {
        if kind == SweepKind::Counters || !self.discovered {
            return;
        }
        let before = self.alerts.most_below();
        let most = self.links.most(before);
        let key = |cause| (None, Kind::MostBelowBest(cause));
        if let Some(cause) = most {
            // What was so when somebody first looked is no news.
            let severity = match self.alerts.severity(&key(cause)) {
                Some(severity) => severity,
                None if first => Severity::Info,
                None => Severity::Warning,
            };
            if before != most {
                self.clear_most(at, before);
                let mut alerts = std::mem::take(&mut self.alerts);
                alerts.drop_singles(|lower| self.counted(lower) == Counted::Below(cause));
                self.alerts = alerts;
            }
            self.alert(at, key(cause), severity, None, false);
        } else {
            self.clear_most(at, before);
        }
        if before != most && before.is_some() || kind == SweepKind::Discovery {
            self.open_singles(at, !first);
        }
    }

    fn clear_most(&mut self, at: Stamp, before: Option<Shortfall>) {
        if let Some(cause) = before {
            self.clear_alert(at, (None, Kind::MostBelowBest(cause)), false);
        }
    }

    /// Opens an alert at each link that is below its best and is not told of.
    fn open_singles(&mut self, at: Stamp, logged: bool) {
        let most = self.alerts.most_below();
        let mut ports = Vec::new();
        for node in &self.nodes {
            for (number, port) in (0..=u8::MAX).zip(&node.ports) {
                let key = (Some(node.id.port(number)), Kind::BelowBest);
                if let Counted::Below(cause) = port.counted
                    && Some(cause) != most
                    && !self.alerts.is_open(&key)
                {
                    ports.push(key);
                }
            }
        }
        ports.sort_unstable();
        for key in ports {
            self.alert(at, key, Severity::Warning, None, logged);
        }
    }

    /// What most links have in common, in words.
    pub(super) fn most_words(&self, cause: Shortfall) -> String {
        let (below, all) = self.links.of(cause);
        let Shortfall {
            width,
            speed,
            best_width,
            best_speed,
        } = cause;
        format!(
            "{below} of {all} links run at {width} {speed}, where both ends can do {best_width} \
             {best_speed}"
        )
    }
}
