//! Which event opens or clears what.

use std::time::Duration;

use super::super::counters::{Outcome, Set};
use super::super::log;
use super::super::{Counter, Join, Model};
use super::limits::{Excess, Sample, Watched};
use super::{Due, Key, Kind, LASTS, Measure, Opening};
use crate::event::Severity;
use crate::fabric::{NodeId, NodeKind, PortKey};
use crate::mad::{PhysState, PortState, SmState};
use crate::model::state::Slot;
use crate::port::{LocalPort, Stamp};

/// The most that is looked at in a tick.
const DUE_AT_ONCE: usize = 2_000;
/// Two SMs that both said so within this time are two masters.
const MASTERS_WITHIN: Duration = Duration::from_secs(60);

/// What both ends of a link have in common.
struct Agreement {
    /// They have the same NeighborMTU.
    mtu: bool,
    /// Which is no smaller than both could do, if it is the same.
    best_mtu: bool,
    /// They have the same virtual lanes in use.
    vls: bool,
}

impl Model {
    /// Opens an alert, or sees it again. What of it is news goes into the log, unless that was
    /// said there already by `logged`.
    pub(super) fn alert(
        &mut self,
        at: Stamp,
        key: Key,
        severity: Severity,
        measure: Option<Measure>,
        logged: bool,
    ) {
        let (about, kind) = key;
        let node = about.map(|k| k.node);
        let port = about.map(|k| k.port);
        let unwanted = &self.settings.thresholds.suppress;
        if !unwanted.is_empty()
            && self
                .settings
                .thresholds
                .is_suppressed(kind.name(), node, port)
        {
            return;
        }
        let opening = self.alerts.open(at, key, severity, measure, "");
        if opening == Opening::New
            && let Some(node) = node
        {
            let name = self.name(node).to_owned();
            self.alerts.name(&key, &name);
        }
        if opening != Opening::Known && !logged && self.join == Join::Current {
            let text = format!("alert: {}", self.alert_cause(&key, measure.as_ref()));
            self.log.add(
                at,
                log::Kind::Alert,
                severity,
                about,
                self.placed(about, text),
            );
        }
    }

    /// Clears an alert, if it is open.
    pub(super) fn clear_alert(&mut self, at: Stamp, key: Key, logged: bool) {
        if !self.alerts.is_open(&key) {
            return;
        }
        let text = self.alert_text(&key);
        self.alerts.clear(at, &key, &text);
        if !logged && self.join == Join::Current {
            let text = format!("alert cleared: {}", self.alert_title(&key));
            let text = self.placed(key.0, text);
            self.log
                .add(at, log::Kind::Alert, Severity::Info, key.0, text);
        }
    }

    fn placed(&self, about: Option<PortKey>, text: String) -> String {
        match about {
            Some(key) if key.port != 0 => format!("{}: {text}", self.port_name(key)),
            Some(key) => format!("{}: {text}", self.name(key.node)),
            None => text,
        }
    }

    fn set_alert(&mut self, at: Stamp, key: Key, holds: bool, severity: Severity, logged: bool) {
        if holds {
            self.alert(at, key, severity, None, logged);
        } else {
            self.clear_alert(at, key, logged);
        }
    }

    /// A port's counters were read. `news`: those that rose, were reset, or were read for the
    /// first time.
    pub(in crate::model) fn judge_counters(&mut self, at: Stamp, key: PortKey, outcome: &Outcome) {
        self.alerts.limits.ensure();
        let seen = outcome.pegged | outcome.unpegged;
        if seen != 0 {
            self.judge_pegged(at, key, outcome.pegged, outcome.unpegged, outcome.rose);
        }
        let mut news = outcome.rose;
        if self.alerts.limits.whole_values {
            news |= outcome.first | outcome.resets;
        }
        let news = news & self.alerts.limits.watched;
        if news == 0 {
            return;
        }
        for counter in Counter::ALL {
            if news & counter.bit() != 0 {
                self.judge_counter(at, key, Watched::Of(counter), true);
            }
        }
    }

    fn judge_pegged(&mut self, at: Stamp, key: PortKey, pegged: Set, unpegged: Set, rose: Set) {
        for counter in Counter::ALL {
            let alert = (Some(key), Kind::Pegged(Watched::Of(counter)));
            if pegged & counter.bit() != 0 {
                // One that was pegged before anybody looked is no news.
                let severity = match rose & counter.bit() {
                    0 => Severity::Info,
                    _ => Severity::Warning,
                };
                self.alert(at, alert, severity, None, false);
            } else if unpegged & counter.bit() != 0 {
                self.clear_alert(at, alert, false);
            }
        }
    }

    /// FEC counters reached their maximum, or left it. What was only repaired is no fault, and
    /// fills its counter in time on every link; what was lost is one.
    fn judge_pegged_fec(&mut self, at: Stamp, key: PortKey) {
        let port = self.data(key.node).and_then(|n| n.port(key.port));
        let Some(fec) = port.and_then(|p| p.fec.as_deref()) else {
            return;
        };
        let (turned, pegged, rose) = fec.turned();
        if turned == 0 {
            return;
        }
        for watched in Watched::OTHERS {
            let alert = (Some(key), Kind::Pegged(watched));
            let lost = matches!(watched, Watched::FecUncorrectable | Watched::EffectiveBer);
            if turned & watched.bit() == 0 {
                continue;
            }
            if pegged & watched.bit() == 0 {
                self.clear_alert(at, alert, false);
                continue;
            }
            let severity = match lost && rose & watched.bit() != 0 {
                true => Severity::Warning,
                false => Severity::Info,
            };
            self.alert(at, alert, severity, None, false);
        }
    }

    /// A port's FEC counters were read.
    pub(in crate::model) fn judge_fec(&mut self, at: Stamp, key: PortKey) {
        self.alerts.limits.ensure();
        let whole = self.alerts.limits.whole_values;
        self.judge_pegged_fec(at, key);
        for watched in Watched::OTHERS {
            let told = self.alerts.limits.watched & watched.bit() != 0;
            let new = || {
                self.measured(key, watched)
                    .is_some_and(|(_, sample)| sample.gain > 0)
            };
            let value = whole && !watched.is_rate();
            if told && (value || new()) {
                self.judge_counter(at, key, watched, true);
            }
        }
    }

    /// What a limit is compared with, and what is new; nothing if it was never read.
    fn measured(&self, key: PortKey, watched: Watched) -> Option<(u64, Sample)> {
        let whole = self.alerts.limits.whole_values;
        let node = self.data(key.node)?;
        let port = node.port(key.port)?;
        let counter = match watched {
            Watched::Of(counter) => counter,
            other => {
                let counted = port.fec.as_deref()?.counted(other)?;
                let sample = Sample {
                    gain: counted.gain,
                    span_ns: counted.span_ns,
                    pegged: counted.pegged,
                    ..Sample::default()
                };
                let value = match (other.is_rate(), whole) {
                    (true, _) => self.signalling(key).0 as u64,
                    (false, true) => counted.value,
                    (false, false) => counted.since,
                };
                return Some((value, sample));
            }
        };
        let counters = port.counters.as_deref()?;
        let (value, since) = counters.raw(counter);
        let (gain, span_ns) = counters.gain(counter);
        let mut sample = Sample {
            gain,
            ..Sample::default()
        };
        if counter == Counter::XmitWait {
            let device = self
                .topology
                .node(key.node)
                .map_or(0, |n| n.info.device_id());
            let tick = super::super::perf::tick_seconds(
                node.tick,
                device,
                port.lane_bps,
                port.capacity_bps,
            );
            if let Some(tick) = tick.filter(|_| span_ns > 0) {
                let span = span_ns as f64 / 1e9;
                let waited = (gain as f64 * tick).min(span);
                sample.waited_ms = (waited * 1e3).round() as u64;
                sample.share = waited / span * 100.0;
            }
        }
        Some((if whole { value } else { since }, sample))
    }

    /// Compares a counter with its limits: with a new sample, or since time has passed.
    fn judge_counter(&mut self, at: Stamp, key: PortKey, counter: Watched, sampled: bool) {
        let Some((value, sample)) = self.measured(key, counter) else {
            return;
        };
        let sample = sampled.then_some(sample);
        let trusted = match counter {
            Watched::RawBer => self.trusted_ber(key),
            _ => None,
        };
        let excess = self.alerts.weigh(at, key, counter, sample, value, trusted);
        let alert = (Some(key), Kind::Counter(counter));
        match excess {
            Some(Excess {
                severity,
                value,
                limit,
                over,
            }) => {
                let measure = Measure { value, limit, over };
                if sampled {
                    self.alert(at, alert, severity, Some(measure), false);
                } else if self.alerts.is_open(&alert) {
                    self.alerts.ease(&alert, severity);
                }
            }
            None => self.clear_alert(at, alert, false),
        }
    }

    /// Time has passed: looks at what is due. Where very much is at once, the rest waits for the
    /// next second, so that no tick holds up the screen.
    pub(in crate::model) fn judge_due(&mut self, at: Stamp) {
        for _ in 0..DUE_AT_ONCE {
            let Some(due) = self.alerts.next_due(at) else {
                return;
            };
            match due {
                Due::Window(window) => {
                    if let Some((port, counter)) = self.alerts.window_is_due(at, window) {
                        self.judge_counter(at, port, counter, false);
                    }
                }
                Due::Alert(key @ (_, Kind::TwoMasters(a, b))) => {
                    let newer = [a, b]
                        .iter()
                        .filter_map(|guid| self.sms.get(guid))
                        .map(|sm| sm.at)
                        .min();
                    match newer.filter(|n| at.since(*n) < MASTERS_WITHIN) {
                        Some(n) => self.alerts.plan(n + MASTERS_WITHIN, key),
                        None => self.clear_alert(at, key, false),
                    }
                }
                Due::Alert(key) => {
                    // Seen again meanwhile: it lasts from then on.
                    match self.alerts.seen(&key).map(|seen| seen + LASTS) {
                        Some(until) if until > at => self.alerts.plan(until, key),
                        Some(_) => self.clear_alert(at, key, false),
                        None => {}
                    }
                }
            }
        }
    }

    /// What is known of a port or its link has changed, or was read again.
    pub(in crate::model) fn judge_link(&mut self, at: Stamp, key: PortKey) {
        if key.port == 0 {
            return;
        }
        let Some(node) = self.topology.node(key.node) else {
            return;
        };
        let Some(port) = node.port(key.port) else {
            return;
        };
        let Some(info) = &port.info else {
            return;
        };
        let kind = node.kind;
        let (up, peer, last) = (port.is_up(), port.peer, port.last_peer);
        let down = info.port_state() == PortState::Down;
        let disabled = info.phys_state() == PhysState::Disabled;
        let own = self.data(key.node).and_then(|n| n.port(key.port));
        let had_link = own.is_some_and(|p| p.had_link) || last.is_some();

        if down {
            self.judge_peer(at, Some(key), true);
        }
        let alert = (Some(key), Kind::LinkDown);
        if down && had_link {
            let other = peer.or(last);
            // Told of once, at the end that was found to be down first.
            let told = other.is_some_and(|o| self.alerts.is_open(&(Some(o), Kind::LinkDown)));
            let between = other
                .and_then(|o| self.topology.node(o.node))
                .is_some_and(|n| n.kind == NodeKind::Switch && kind == NodeKind::Switch);
            let severity = match (disabled, between) {
                (true, _) => Severity::Info,
                (false, true) => Severity::Critical,
                (false, false) => Severity::Warning,
            };
            if !told {
                self.alert(at, alert, severity, None, true);
            }
        } else if !down {
            self.clear_alert(at, alert, true);
            if let Some(peer) = peer {
                self.clear_alert(at, (Some(peer), Kind::LinkDown), true);
            }
        }

        // About both ends: told of at the lower one.
        let first = peer.map_or(key, |p| p.min(key));
        let link = peer.filter(|_| up);
        let kinds = [
            Kind::BelowBest,
            Kind::MtuMismatch,
            Kind::MtuBelowBest,
            Kind::VlMismatch,
        ];
        if first != key || link.is_none() {
            for kind in kinds {
                self.clear_alert(at, (Some(key), kind), false);
            }
        }
        let Some(peer) = link else {
            for kind in kinds {
                if let Some(last) = last {
                    self.clear_alert(at, (Some(last.min(key)), kind), false);
                }
            }
            return;
        };
        self.judge_best(at, first);
        if let Some(agreement) = self.agreement(key, peer) {
            use Severity::{Info, Warning};
            let all = [
                (Kind::MtuMismatch, agreement.mtu, Warning),
                (Kind::MtuBelowBest, agreement.best_mtu, Info),
                (Kind::VlMismatch, agreement.vls, Warning),
            ];
            for (kind, agree, severity) in all {
                let alert = (Some(first), kind);
                if agree {
                    self.alerts.suspect(&alert, None);
                    self.clear_alert(at, alert, false);
                } else if self.is_confirmed(at, &alert, [key, peer]) {
                    self.alert(at, alert, severity, None, false);
                }
            }
        }
    }

    /// The ends of a port's link do not agree on MTU or virtual lanes, and that is sure.
    pub(in crate::model) fn ends_disagree(&self, key: PortKey) -> bool {
        // Asked of every row, and of most fabrics no.
        if !self.alerts.any_ends_disagree() {
            return false;
        }
        let peer = self.topology.port(key).and_then(|p| p.peer);
        let first = peer.map_or(key, |p| p.min(key));
        [Kind::MtuMismatch, Kind::VlMismatch]
            .iter()
            .any(|kind| self.alerts.is_open(&(Some(first), *kind)))
    }

    /// Whether both ends of a link agree on MTU and virtual lanes: those that the SM set are in
    /// force once both are Active. `None` before both were read.
    fn agreement(&self, a: PortKey, b: PortKey) -> Option<Agreement> {
        let info = |key: PortKey| self.topology.port(key)?.info.as_ref();
        let (a, b) = (info(a)?, info(b)?);
        if a.port_state() != PortState::Active || b.port_state() != PortState::Active {
            return None;
        }
        let same = |a: u8, b: u8| a == b || a == 0 || b == 0;
        let mtu = a.neighbor_mtu().code();
        let agreed = mtu == b.neighbor_mtu().code();
        // 0 is reserved: not told.
        let best = a.mtu_cap().code().min(b.mtu_cap().code());
        Some(Agreement {
            mtu: same(mtu, b.neighbor_mtu().code()),
            best_mtu: !agreed || mtu == 0 || mtu >= best,
            vls: same(a.operational_vls().code(), b.operational_vls().code()),
        })
    }

    /// The SM sets one end after the other: a difference counts once both ends were read again.
    /// In the first discovery nothing is expected to change.
    fn is_confirmed(&mut self, at: Stamp, alert: &Key, ends: [PortKey; 2]) -> bool {
        if !self.discovered || self.alerts.is_open(alert) {
            return true;
        }
        let since = self.alerts.suspect(alert, Some(at));
        ends.iter().all(|key| {
            self.data(key.node)
                .and_then(|n| n.port(key.port)?.info_at)
                .is_some_and(|read| read > since)
        })
    }

    /// A node cannot be reached, or can be again.
    pub(in crate::model) fn judge_presence(&mut self, at: Stamp, id: NodeId, present: bool) {
        let switch = self
            .topology
            .node(id)
            .is_some_and(|n| n.kind == NodeKind::Switch);
        let severity = if switch {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let alert = (Some(id.port(0)), Kind::NodeVanished);
        self.set_alert(at, alert, !present, severity, true);
        self.judge_twin(at, id, present);
    }

    /// A node answers, or not.
    pub(in crate::model) fn judge_answering(&mut self, at: Stamp, id: NodeId, answers: bool) {
        let alert = (Some(id.port(0)), Kind::NodeSilent);
        self.set_alert(at, alert, !answers, Severity::Warning, true);
    }

    /// Whoever is at the other end of a port's link says who it is, or not.
    pub(in crate::model) fn judge_peer(&mut self, at: Stamp, via: Option<PortKey>, answers: bool) {
        if let Some(via) = via {
            let alert = (Some(via), Kind::PeerSilent);
            self.set_alert(at, alert, !answers, Severity::Warning, true);
        }
    }

    /// Whoever is there is silent because an M_Key protects it: no fault, and no alert.
    pub(in crate::model) fn withdraw_peer(&mut self, via: PortKey) {
        self.alerts.discard(&(Some(via), Kind::PeerSilent));
    }

    /// A node whose GUID another one has was found, or is gone.
    pub(in crate::model) fn judge_twin(&mut self, at: Stamp, id: NodeId, present: bool) {
        if id.twin != 0 {
            let alert = (Some(id.port(0)), Kind::DuplicateGuid);
            self.set_alert(at, alert, present, Severity::Critical, true);
        }
    }

    /// A node is forgotten, and what was open about it closed.
    pub(in crate::model) fn judge_forgotten(&mut self, at: Stamp, id: NodeId) {
        for key in self.alerts.about(id) {
            self.clear_alert(at, key, true);
        }
        self.alerts.forget_windows(id);
    }

    /// An SM's SMInfo was read.
    pub(in crate::model) fn judge_sm(&mut self, at: Stamp, guid: u64) {
        let Some(sm) = self.sms.get(&guid).copied() else {
            return;
        };
        if self.local.as_ref().is_none_or(|l| l.sm_lid == sm.lid) {
            self.clear_alert(at, (None, Kind::SmSilent), true);
        }
        let is_master = sm.state == SmState::Master.code();
        // The count of an SM in standby may well stand still.
        let stalled = is_master && sm.told;
        let alert = (None, Kind::SmStalled(guid));
        self.set_alert(at, alert, stalled, Severity::Critical, true);

        let Some(since) = self.alerts.master_since(at, guid, is_master) else {
            for key in self.alerts.pairs_of(guid) {
                self.clear_alert(at, key, false);
            }
            return;
        };
        // Both said so after both had begun to: a failover looks like that for one only.
        let rivals: Vec<u64> = self
            .alerts
            .masters()
            .filter(|(other, their_since)| {
                *other != guid
                    && self.sms.get(other).is_some_and(|o| {
                        o.at.min(sm.at) >= since.max(*their_since)
                            && at.since(o.at) < MASTERS_WITHIN
                    })
            })
            .map(|(other, _)| other)
            .collect();
        for other in rivals {
            let key = (None, Kind::TwoMasters(guid.min(other), guid.max(other)));
            let known = self.alerts.is_open(&key);
            self.alert(at, key, Severity::Critical, None, true);
            if !known && self.alerts.is_open(&key) {
                self.alerts.plan(at + MASTERS_WITHIN, key);
            }
        }
    }

    /// Another SM became master.
    pub(in crate::model) fn judge_failover(&mut self, at: Stamp) {
        let key = (None, Kind::SmFailover);
        let known = self.alerts.is_open(&key);
        self.alert(at, key, Severity::Critical, None, true);
        if !known && self.alerts.is_open(&key) {
            self.alerts.plan(at + LASTS, key);
        }
    }

    /// A request to somebody who is no node was not answered.
    pub(in crate::model) fn judge_silence(&mut self, at: Stamp, slot: Slot) {
        let kind = match slot {
            Slot::Sa => Kind::SaSilent,
            Slot::Sm => Kind::SmSilent,
            _ => return,
        };
        self.alert(at, (None, kind), Severity::Critical, None, true);
    }

    /// The SA answered.
    pub(in crate::model) fn judge_sa_answer(&mut self, at: Stamp) {
        self.clear_alert(at, (None, Kind::SaSilent), true);
    }

    /// The local port was read.
    pub(in crate::model) fn judge_local(&mut self, at: Stamp, port: &LocalPort) {
        let none = port.sm_lid == 0 && port.state != PortState::Down.code();
        self.set_alert(at, (None, Kind::NoSm), none, Severity::Critical, true);
    }

    /// The device is gone, or back.
    pub(in crate::model) fn judge_device(&mut self, at: Stamp, gone: bool) {
        let key = (None, Kind::DeviceGone);
        self.set_alert(at, key, gone, Severity::Critical, true);
    }

    /// The recording stopped. Nothing clears it.
    pub(in crate::model) fn judge_recording(&mut self, at: Stamp, why: &str) {
        let key = (None, Kind::RecordingStopped);
        if !self
            .settings
            .thresholds
            .is_suppressed(key.1.name(), None, None)
        {
            self.alerts.open(at, key, Severity::Critical, None, why);
        }
    }

    /// Something was said that a person has to know of. Nothing clears it.
    pub(in crate::model) fn judge_note(
        &mut self,
        at: Stamp,
        severity: Severity,
        node: Option<NodeId>,
        text: &str,
    ) {
        if severity < Severity::Critical {
            return;
        }
        let key = (node.map(|n| n.port(0)), Kind::Note(log::hash_of(text)));
        let thresholds = &self.settings.thresholds;
        if !thresholds.is_suppressed("note", node, node.map(|_| 0)) {
            self.alerts.open(at, key, severity, None, text);
        }
    }
}
