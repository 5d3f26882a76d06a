//! Alerts, baselines and totals as a keyframe tells them: out of one model and into another.

use super::super::fec::Fec;
use super::super::state::{Destination, Failure, Pending, Slot};
use super::super::{Counter, Join, Model};
use super::limits::{Limits, Window};
use super::{Alert, Alerts, Key, Kind, LASTS, Measure};
use crate::event::ledger::{
    AlertLedger, FailureLedger, Ledger, PendingLedger, PortLedger, SmLedger, SuspectLedger,
    TotalsLedger, Whom, WindowLedger,
};
use crate::fabric::names::clean_str;
use crate::fabric::{PortKey, Request};
use crate::mad::MgmtClass;
use crate::port::Stamp;

/// Entries of one part.
const PART: usize = 500;

fn alert_out(alert: &Alert) -> AlertLedger {
    AlertLedger {
        kind: alert.key.1.to_string(),
        about: alert.key.0,
        name: alert.name.to_string(),
        severity: alert.severity,
        opened: alert.opened,
        seen: alert.seen,
        cleared: alert.cleared,
        times: alert.times,
        measure: alert.measure.map(|m| (m.value, m.limit, m.over)),
        text: alert.text.to_string(),
    }
}

fn totals(whom: Whom, dest: &Destination) -> Option<TotalsLedger> {
    (dest.sent > 0 || dest.away.is_some()).then_some(TotalsLedger {
        whom,
        lid: dest.lid,
        sent: dest.sent,
        answered: dest.answered,
        retried: dest.retried,
        timed_out: dest.timed_out,
        failing: dest.failing,
        silent: dest.silent,
        away: dest.away,
        failure: dest.failure.as_ref().map(|f| FailureLedger {
            kind: f.kind.to_string(),
            detail: f.detail.to_string(),
            class: f.class,
            attribute: f.attribute,
            at: f.at,
        }),
    })
}

fn failure_back(told: Option<&FailureLedger>) -> Option<Failure> {
    let told = told?;
    Some(Failure {
        kind: told.kind.parse().ok()?,
        detail: clean_str(&told.detail).into(),
        class: told.class,
        attribute: told.attribute,
        at: told.at,
    })
}

fn in_parts<T>(list: Vec<T>, mut emit: impl FnMut(Vec<T>)) {
    let mut list = list.into_iter().peekable();
    while list.peek().is_some() {
        emit(list.by_ref().take(PART).collect());
    }
}

impl Alerts {
    fn windows_out(&self) -> Vec<WindowLedger> {
        let mut keys: Vec<_> = self.limits.windows.keys().copied().collect();
        keys.sort_unstable();
        keys.iter()
            .filter_map(|key| {
                let window = self.limits.windows.get(key)?;
                Some(WindowLedger {
                    port: key.0,
                    counter: Limits::counter_of(key)?.to_owned(),
                    rule: key.2,
                    head: window.head,
                    sums: window.sums,
                    spans: window.spans.to_vec(),
                    pegged: window.pegged,
                    last: window.last,
                    held: window.held,
                })
            })
            .collect()
    }

    /// Puts an alert back.
    fn put_back(&mut self, a: &AlertLedger) {
        let Ok(kind) = a.kind.parse::<Kind>() else {
            return;
        };
        let key: Key = (a.about, kind);
        let alert = Alert {
            key,
            name: clean_str(&a.name).into(),
            severity: a.severity,
            opened: a.opened,
            seen: a.seen,
            cleared: a.cleared,
            times: a.times,
            measure: a
                .measure
                .map(|(value, limit, over)| Measure { value, limit, over }),
            text: clean_str(&a.text).into(),
        };
        self.changed = true;
        if alert.cleared.is_some() {
            if self.cleared.len() < super::CLEARED {
                self.cleared.push_back(alert);
            }
            return;
        }
        match kind {
            Kind::SmFailover => self.plan(a.seen + LASTS, key),
            // Looked at with the next tick.
            Kind::TwoMasters(..) => self.plan(Stamp::ZERO, key),
            _ => {}
        }
        if !self.is_open(&key) {
            self.follow(&key, true);
        }
        if let Some(old) = self.open.insert(key, alert) {
            *self.counts.of(old.severity) -= 1;
        }
        *self.counts.of(a.severity) += 1;
    }
}

impl Model {
    /// What a viewer that joins now cannot learn from the last replies, in parts.
    pub fn ledger(&self, emit: &mut dyn FnMut(Ledger)) {
        let open = self.alerts.open.values();
        let alerts = open.chain(&self.alerts.cleared).map(alert_out).collect();
        let suspects = self
            .alerts
            .suspects
            .iter()
            .filter_map(|((about, kind), at)| {
                Some(SuspectLedger {
                    kind: kind.to_string(),
                    about: (*about)?,
                    since: *at,
                })
            });
        let sms = self.sms.iter().map(|(guid, sm)| SmLedger {
            guid: *guid,
            still_since: sm.still_since,
            told: sm.told,
            displaced: sm.displaced,
            first: sm.first,
            changed: sm.changed,
            silent: sm.silent,
            master_since: self.alerts.masters.get(guid).copied(),
        });
        let first = Ledger {
            first: true,
            suspects: suspects.collect(),
            sms: sms.collect(),
            master: self.master,
            ..Ledger::default()
        };
        let nothing = Ledger {
            first: true,
            ..Ledger::default()
        };
        // Of a session in which nothing was asked there is nothing to tell.
        if first == nothing && self.topology.is_empty() && self.pending.is_empty() {
            return;
        }
        emit(first);
        let missing = self.topology.nodes().filter(|n| !n.present);
        let missing = missing.map(|n| (n.id, n.seen)).collect();
        in_parts(missing, |missing| {
            emit(Ledger {
                missing,
                ..Ledger::default()
            });
        });
        in_parts(alerts, |alerts| {
            emit(Ledger {
                alerts,
                ..Ledger::default()
            });
        });
        in_parts(self.alerts.windows_out(), |windows| {
            emit(Ledger {
                windows,
                ..Ledger::default()
            });
        });
        in_parts(self.pending_out(), |pending| {
            emit(Ledger {
                pending,
                ..Ledger::default()
            });
        });
        in_parts(self.totals_out(), |totals| {
            emit(Ledger {
                totals,
                ..Ledger::default()
            });
        });
        let names: Vec<String> = Counter::ALL.iter().map(|c| c.name().to_owned()).collect();
        in_parts(self.ports_out(), |ports| {
            emit(Ledger {
                counters: names.clone(),
                ports,
                ..Ledger::default()
            });
        });
    }

    fn ports_out(&self) -> Vec<PortLedger> {
        let mut out = Vec::new();
        for node in self.topology.nodes() {
            let Some(data) = self.data(node.id) else {
                continue;
            };
            for (number, port) in (0u8..=u8::MAX).zip(&data.ports) {
                let mut one = PortLedger {
                    port: node.id.port(number),
                    former: node.port(number).and_then(|p| p.last_peer),
                    ..PortLedger::default()
                };
                let up = node.port(number).is_some_and(|p| p.is_up());
                one.had_link = port.had_link && !up;
                one.fec = port.fec.as_deref().and_then(Fec::told);
                if let Some(counters) = port.counters.as_deref() {
                    for (index, counter) in (0u8..).zip(Counter::ALL) {
                        let (_, since) = counters.raw(counter);
                        if since > 0 {
                            one.since.push((index, since));
                        }
                        if counters.is_bound(counter) {
                            one.bound.push(index);
                        }
                    }
                }
                let bare = PortLedger {
                    port: one.port,
                    ..PortLedger::default()
                };
                if one != bare {
                    out.push(one);
                }
            }
        }
        out
    }

    fn totals_out(&self) -> Vec<TotalsLedger> {
        let mut out: Vec<TotalsLedger> = [(Whom::Sa, &self.sa), (Whom::Sm, &self.sm)]
            .into_iter()
            .filter_map(|(whom, dest)| totals(whom, dest))
            .collect();
        for node in self.topology.nodes() {
            let dest = self.data(node.id).map(|n| &n.dest);
            out.extend(dest.and_then(|d| totals(Whom::Node(node.id), d)));
        }
        for (via, (_, dest)) in &self.unexplored {
            out.extend(totals(Whom::Beyond(*via), dest));
        }
        out
    }

    fn pending_out(&self) -> Vec<PendingLedger> {
        let mut out: Vec<PendingLedger> = self
            .pending
            .iter()
            .map(|(tid, p)| PendingLedger {
                tid: *tid,
                at: p.at,
                target: p.request.target,
                class: p.request.class,
                method: p.request.method,
                attribute: p.request.attribute,
                modifier: p.request.modifier,
                path: p.request.path,
                lid: p.request.lid,
                port_select: p.port_select,
                attempt: p.attempt,
                timeout_ms: p.timeout_ms,
                overdue: p.overdue,
            })
            .collect();
        out.sort_unstable_by_key(|p| (p.at, p.tid));
        out
    }

    /// Takes over what a keyframe tells; true if it was needed.
    pub(in crate::model) fn take_ledger(&mut self, at: Stamp, ledger: &Ledger) -> bool {
        if self.join == Join::Current {
            return false;
        }
        if ledger.first {
            self.alerts.forget();
            self.pending.clear();
            (self.smps_out, self.gmps_out) = (0, 0);
        }
        for sm in &ledger.sms {
            if let Some(own) = self.sms.get_mut(&sm.guid) {
                own.still_since = sm.still_since;
                own.told = sm.told;
                own.displaced = sm.displaced;
                own.first = sm.first;
                own.changed = sm.changed;
                own.silent = sm.silent;
            }
            if let Some(since) = sm.master_since {
                self.alerts.masters.insert(sm.guid, since);
            }
        }
        self.master = ledger.master.or(self.master);
        for suspect in &ledger.suspects {
            if let Ok(kind) = suspect.kind.parse::<Kind>() {
                let key = (Some(suspect.about), kind);
                self.alerts.suspect(&key, Some(suspect.since));
            }
        }
        for alert in &ledger.alerts {
            self.alerts.put_back(alert);
        }
        for w in &ledger.windows {
            if let Some(key) = self.alerts.limits.place(w.port, &w.counter, w.rule) {
                let mut window = Window::told(w.head, w.sums, w.last, w.held);
                window.pegged = w.pegged;
                for (own, told) in window.spans.iter_mut().zip(&w.spans) {
                    *own = *told;
                }
                self.alerts.restore(at, key, window);
            }
        }
        for p in &ledger.pending {
            self.put_back_pending(p);
        }
        for (node, seen) in &ledger.missing {
            self.topology.miss(*node, *seen);
            self.touch(*node);
            self.size = None;
        }
        for t in &ledger.totals {
            self.put_back_totals(t);
        }
        let counters: Vec<Option<Counter>> = ledger
            .counters
            .iter()
            .map(|name| Counter::from_name(name))
            .collect();
        for port in &ledger.ports {
            self.put_back_port(port, &counters);
        }
        true
    }

    fn put_back_pending(&mut self, p: &PendingLedger) {
        let request = Request {
            target: p.target,
            class: p.class,
            method: p.method,
            attribute: p.attribute,
            modifier: p.modifier,
            path: p.path,
            lid: p.lid,
        };
        let (slot, who) = self.slot_for(&request);
        let pending = Pending {
            request,
            slot,
            at: p.at,
            attempt: p.attempt,
            timeout_ms: p.timeout_ms,
            port_select: p.port_select,
            who,
            overdue: p.overdue,
        };
        self.put_pending(p.tid, pending);
    }

    fn put_back_totals(&mut self, t: &TotalsLedger) {
        let dest = match t.whom {
            Whom::Sa => Some(&mut self.sa),
            Whom::Sm => Some(&mut self.sm),
            Whom::Node(id) => self.data_mut(id).map(|n| &mut n.dest),
            Whom::Beyond(via) => {
                let name = self.unexplored_name(via);
                let entry = self.unexplored.entry(via);
                Some(&mut entry.or_insert_with(|| (name, Destination::default())).1)
            }
        };
        if let Some(dest) = dest {
            dest.lid = t.lid;
            dest.sent = t.sent;
            dest.answered = t.answered;
            dest.retried = t.retried;
            dest.timed_out = t.timed_out;
            dest.failing = t.failing;
            dest.silent = t.silent;
            dest.away = t.away;
            dest.failure = failure_back(t.failure.as_ref()).or_else(|| dest.failure.take());
        }
    }

    fn put_back_port(&mut self, told: &PortLedger, counters: &[Option<Counter>]) {
        if let Some(former) = told.former {
            self.topology.recall(told.port, former);
        }
        let Some(port) = self.port_data(told.port) else {
            return;
        };
        port.had_link |= told.had_link;
        if let (Some(fec), Some(told)) = (&mut port.fec, &told.fec) {
            fec.restore(told);
        }
        let Some(own) = &mut port.counters else {
            return;
        };
        let named = |index: u8| counters.get(usize::from(index)).copied().flatten();
        for (index, since) in &told.since {
            if let Some(counter) = named(*index) {
                own.restore(counter, *since);
            }
        }
        for counter in told.bound.iter().filter_map(|i| named(*i)) {
            own.restore_bound(counter);
        }
    }

    fn port_data(&mut self, key: PortKey) -> Option<&mut super::super::state::PortData> {
        self.data_mut(key.node)?
            .ports
            .get_mut(usize::from(key.port))
    }

    fn put_pending(&mut self, tid: u32, pending: Pending) {
        if !pending.overdue {
            *self.out(MgmtClass::new(pending.request.class)) += 1;
        }
        if let Some(old) = self.pending.insert(tid, pending) {
            self.no_longer_out(&old);
        }
    }

    /// Whom a request counts for; a target that is not known yet has a name as well.
    pub(in crate::model) fn slot_for(&mut self, request: &Request) -> (Slot, Option<Box<str>>) {
        if MgmtClass::new(request.class) == MgmtClass::SubnAdm {
            (Slot::Sa, None)
        } else if super::super::requests::is_sm_question(request) {
            (Slot::Sm, None)
        } else if let Some(node) = request.target.node {
            (Slot::Node(self.slot_of(node)), None)
        } else {
            let who = self.unexplored_name(request.target.via);
            (Slot::Unexplored(request.target.via), Some(who.into()))
        }
    }
}
