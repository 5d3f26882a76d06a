//! Requests, and what became of them: answered, failed, or not heard of again.
//!
//! A reply is attributed through its request, by the low half of its transaction id.

use std::borrow::Cow;

use super::Model;
use super::log::Kind;
use super::state::{Destination, Failure, Pending, Slot};
use super::view::FailureKind;
use crate::event::{HowLate, Received, SendFailed, Sent, Severity, SweepKind, TimedOut};
use crate::fabric::Request;
use crate::fabric::names::clean_str as clean;
use crate::mad::{Attribute, Mad, MgmtClass, SmInfo, Status, StatusCode};
use crate::port::Stamp;

/// A request without an end after this long had its end in a gap of the stream.
const LOST_AFTER_NS: u64 = 600_000_000_000;

/// A status in words; the usual ones without a new string.
fn status_words(status: Status, class: MgmtClass) -> Cow<'static, str> {
    match status.0 {
        0x1 => Cow::Borrowed("busy"),
        0xC => Cow::Borrowed("method and attribute not supported"),
        0x8 => Cow::Borrowed("method not supported"),
        0x1C => Cow::Borrowed("bad value"),
        _ => Cow::Owned(status.words(class).to_string()),
    }
}

/// SMInfo is asked of an SM, not of the node where it runs: the node's agent may be well while
/// the SM is silent.
pub(super) fn is_sm_question(request: &Request) -> bool {
    request.attribute == SmInfo::ID && MgmtClass::new(request.class).is_smp()
}

/// The SA's "no records" is an answer, not a failure.
const SA_NO_RECORDS: u16 = 0x0300;

fn failure_of(status: Status, class: MgmtClass) -> Option<(FailureKind, Cow<'static, str>)> {
    if status.is_ok() || (class == MgmtClass::SubnAdm && status.0 == SA_NO_RECORDS) {
        return None;
    }
    let kind = match status.code() {
        _ if status.is_busy() => FailureKind::Busy,
        StatusCode::UnsupportedMethod | StatusCode::UnsupportedAttribute => {
            FailureKind::Unsupported
        }
        _ => FailureKind::BadStatus,
    };
    Some((kind, status_words(status, class)))
}

impl Model {
    pub(super) fn sent(&mut self, at: Stamp, sent: &Sent) -> bool {
        let class = sent.mad.class();
        if class.is_smp() {
            self.beat.smps += 1;
        } else {
            self.beat.gmps += 1;
        }
        if sent.attempt == 0 {
            return true;
        }
        let request = Request::of(&sent.mad, sent.addr.lid, sent.target);
        let (slot, who) = self.slot_for(&request);
        // Whom an unexplored target's requests count for is known when it answers, or does not.
        if let Some(dest) = self.destination(slot) {
            dest.count_sent(sent.attempt, sent.addr.lid);
        }
        let port_select = sent.mad.data().get(1).copied().unwrap_or(0);
        let pending = Pending {
            request,
            slot,
            at,
            attempt: sent.attempt,
            timeout_ms: sent.timeout_ms,
            overdue: false,
            port_select,
            who,
        };
        *self.out(class) += 1;
        if let Some(old) = self.pending.insert(sent.mad.tid_low(), pending) {
            self.no_longer_out(&old);
        }
        true
    }

    pub(super) fn out(&mut self, class: MgmtClass) -> &mut usize {
        if class.is_smp() {
            &mut self.smps_out
        } else {
            &mut self.gmps_out
        }
    }

    pub(super) fn no_longer_out(&mut self, pending: &Pending) {
        if !pending.overdue {
            let out = self.out(MgmtClass::new(pending.request.class));
            *out = out.saturating_sub(1);
        }
    }

    fn take_pending(&mut self, tid: u32) -> Option<Pending> {
        let pending = self.pending.remove(&tid)?;
        self.no_longer_out(&pending);
        Some(pending)
    }

    /// The statistics of a slot; none for an unexplored target that did not fail before, or a
    /// node that was forgotten since.
    fn destination(&mut self, slot: Slot) -> Option<&mut Destination> {
        match slot {
            Slot::Node(i) => self.nodes.get_mut(i as usize).map(|n| &mut n.dest),
            Slot::Sa => Some(&mut self.sa),
            Slot::Sm => Some(&mut self.sm),
            Slot::Unexplored(_) => None,
        }
    }

    pub(super) fn received(&mut self, at: Stamp, received: &Received) -> bool {
        let mad = &received.mad;
        if !mad.is_response() {
            return self.unsolicited(at, received);
        }
        let tid = mad.tid_low();
        if !self
            .pending
            .get(&tid)
            .is_some_and(|p| p.request.is_answered_by(mad))
        {
            // Late, or meant for somebody else: it cannot be attributed.
            return false;
        }
        let Some(pending) = self.take_pending(tid) else {
            return false;
        };
        self.answered(at, &pending, mad);
        true
    }

    fn answered(&mut self, at: Stamp, pending: &Pending, mad: &Mad) {
        let class = mad.class();
        let failure = failure_of(mad.status(), class);
        let who = if class.is_smp() || class == MgmtClass::SubnAdm {
            self.learn(at, &pending.request, mad)
        } else {
            None
        };
        let slot = match (pending.slot, who) {
            (Slot::Unexplored(via), Some(node)) => {
                let slot = Slot::Node(self.slot_of(node));
                let before = self.unexplored.remove(&via).map(|(_, dest)| dest);
                self.judge_peer(at, via, true);
                if let Some(dest) = self.destination(slot) {
                    if let Some(before) = before {
                        dest.merge(before);
                    }
                    if !pending.overdue {
                        dest.count_sent(pending.attempt, pending.request.lid);
                    }
                }
                slot
            }
            (slot, _) => slot,
        };
        let (code, attribute) = (class.code(), pending.request.attribute);
        let took = (!self.lean).then(|| at.since(pending.at));
        let failure = failure.map(|(kind, detail)| Failure {
            kind,
            detail,
            class: code,
            attribute,
            at,
        });
        self.with_destination(slot, pending, |dest| {
            if pending.overdue {
                // It came after all.
                dest.timed_out = dest.timed_out.saturating_sub(1);
            }
            dest.count_answer(code, took);
            if let Some(failure) = failure {
                dest.count_failure(failure, false);
            }
        });
        self.count_done(class.is_smp());
        match class {
            MgmtClass::Perf => self.perf_reply(at, pending, mad),
            MgmtClass::SubnAdm => {
                self.judge_sa_answer(at);
                self.sa_reply(at, pending, mad);
            }
            _ if class.is_smp() && attribute == SmInfo::ID => {
                self.sm_info(at, pending, mad);
            }
            _ if class.is_smp() && mad.status().is_ok() => self.sa_reread(pending),
            _ => {}
        }
    }

    /// Does something to a destination's statistics; an unexplored target gets an entry.
    fn with_destination(
        &mut self,
        slot: Slot,
        pending: &Pending,
        act: impl FnOnce(&mut Destination),
    ) {
        let revision = self.revision + 1;
        match slot {
            Slot::Unexplored(Some(via)) => self.touch(via.node),
            Slot::Node(i) => {
                if let Some(node) = self.nodes.get_mut(i as usize) {
                    node.changed = revision;
                }
            }
            _ => {}
        }
        match slot {
            Slot::Unexplored(via) => {
                let name = || pending.who.as_deref().unwrap_or_default().to_owned();
                let entry = self.unexplored.entry(via);
                let (_, dest) = entry.or_insert_with(|| (name(), Destination::default()));
                if !pending.overdue {
                    dest.count_sent(pending.attempt, pending.request.lid);
                }
                act(dest);
            }
            _ => {
                if let Some(dest) = self.destination(slot) {
                    act(dest);
                }
            }
        }
    }

    pub(super) fn timed_out(&mut self, at: Stamp, t: &TimedOut) -> bool {
        let Some(mut pending) = self.take_pending(t.tid) else {
            return false;
        };
        if std::mem::take(&mut pending.overdue) {
            // It was counted when it was overdue.
            return true;
        }
        let waited = std::time::Duration::from_nanos(t.waited_ns);
        // A fabric that returns a MAD at once knows that nobody is there.
        let returned =
            t.how == HowLate::Over && waited.as_millis() < u128::from(pending.timeout_ms) / 2;
        let failure = Failure {
            kind: FailureKind::NoAnswer,
            detail: Cow::Borrowed(if returned { "returned at once" } else { "" }),
            class: t.class,
            attribute: t.attribute,
            at,
        };
        self.with_destination(pending.slot, &pending, |dest| match t.how {
            // The node answered, if not this attempt.
            HowLate::Moot => dest.timed_out += 1,
            HowLate::Over | HowLate::Overdue => dest.count_failure(failure, t.last),
        });
        if t.how == HowLate::Overdue {
            pending.overdue = true;
            self.pending.insert(t.tid, pending);
        } else if t.last {
            self.detail_missing(at, &pending, "no answer");
            self.count_done(MgmtClass::new(t.class).is_smp());
            self.gave_up(at, &pending);
        }
        true
    }

    /// A request failed for good. A node is told of by its back-off; the SA and whoever is at
    /// the end of a link here.
    fn gave_up(&mut self, at: Stamp, pending: &Pending) {
        match pending.slot {
            Slot::Sa => {
                self.judge_silence(at, Slot::Sa);
                self.sa_silent(pending);
                let what =
                    crate::mad::names::attribute(MgmtClass::SubnAdm, pending.request.attribute);
                let text = format!("SA does not answer a query for {what}");
                self.say(at, Kind::Timeout, Severity::Warning, text);
            }
            Slot::Unexplored(via) => {
                let text = format!(
                    "no answer from {}",
                    pending.who.as_deref().unwrap_or_default()
                );
                self.log
                    .add(at, Kind::Timeout, Severity::Warning, via, text);
                let guarded = via.is_some_and(|via| self.is_guarded_behind(via));
                self.judge_peer(at, via, guarded);
            }
            Slot::Sm => self.sm_silent(at, pending),
            Slot::Node(_) => {}
        }
    }

    pub(super) fn send_failed(&mut self, at: Stamp, f: &SendFailed) -> bool {
        let slot = match (f.class, f.target.node) {
            (0x03, _) => Slot::Sa,
            (_, Some(node)) => Slot::Node(self.slot_of(node)),
            (_, None) => Slot::Unexplored(f.target.via),
        };
        let pending = self.take_pending(f.tid).unwrap_or_else(|| Pending {
            request: Request {
                target: f.target,
                class: f.class,
                method: 0,
                attribute: f.attribute,
                modifier: f.modifier,
                path: None,
                lid: 0,
            },
            slot,
            at,
            attempt: f.attempt,
            timeout_ms: 0,
            overdue: false,
            port_select: 0,
            who: Some(self.unexplored_name(f.target.via).into()),
        });
        let failure = Failure {
            kind: FailureKind::SendError,
            detail: Cow::Owned(clean(&f.why)),
            class: f.class,
            attribute: f.attribute,
            at,
        };
        self.with_destination(slot, &pending, |dest| dest.count_failure(failure, f.last));
        if f.last {
            self.count_done(MgmtClass::new(f.class).is_smp());
            let text = format!("send failed: {}", clean(&f.why));
            self.say(at, Kind::Device, Severity::Warning, text);
        }
        true
    }

    /// A request that belongs to a running sweep is resolved. Which sweep it was for, events do
    /// not say: counters are GMPs, and an SMP is taken for the largest running sweep's, since a
    /// rediscovery that waits for a silent neighbour asks next to nothing meanwhile.
    fn count_done(&mut self, smp: bool) {
        let kinds: &[SweepKind] = if smp {
            &[
                SweepKind::Discovery,
                SweepKind::States,
                SweepKind::Rediscovery,
            ]
        } else {
            &[SweepKind::Counters]
        };
        for kind in kinds {
            if let Some(sweep) = self.sweeps.get_mut(*kind as usize)
                && sweep.running
            {
                sweep.done = sweep.done.saturating_add(1);
                return;
            }
        }
    }

    /// Requests whose end was lost in a gap of the stream.
    pub(super) fn forget_lost(&mut self, at: Stamp) {
        let lost = |p: &Pending| at.since(p.at).as_nanos() > u128::from(LOST_AFTER_NS);
        if !self.pending.values().any(lost) {
            return;
        }
        self.pending.retain(|_, p| !lost(p));
        let out = |smp: bool| {
            self.pending
                .values()
                .filter(|p| !p.overdue && MgmtClass::new(p.request.class).is_smp() == smp)
                .count()
        };
        (self.smps_out, self.gmps_out) = (out(true), out(false));
    }
}
