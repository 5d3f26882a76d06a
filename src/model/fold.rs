//! The fold: what each event changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::log::Kind;
use super::state::{Destination, Failure, Pending, Slot};
use super::view::FailureKind;
use super::{Join, Model, Num};
use crate::event::{
    BackOff, Event, HowLate, Known, Malformed, Opened, Received, SendFailed, Sent, Settings,
    Severity, SweepBegan, SweepEnded, SweepKind, TimedOut, What,
};
use crate::fabric::Request;
use crate::mad::{Attribute, Mad, MgmtClass, SmInfo, Status, StatusCode};
use crate::port::{LocalPort, Stamp};

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
    /// Folds one event in.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        self.follow_sequence(event);
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
        self.follow_join(&event.what);
        let shown = match &event.what {
            What::Received(received) => self.received(at, received),
            What::Sent(sent) => self.sent(at, sent),
            What::TimedOut(t) => self.timed_out(at, t),
            What::SendFailed(f) => self.send_failed(at, f),
            What::Tick => self.tick(at),
            What::Pace(pace) => {
                let changed = self.pace != **pace;
                self.pace = **pace;
                changed
            }
            What::SweepBegan(s) => self.sweep_began(at, s),
            What::SweepEnded(s) => self.sweep_ended(at, s),
            What::BackOff(b) => self.back_off(at, b),
            What::Guarded(g) => {
                let changes = self.topology.guard(g.node, g.guarded);
                self.apply_changes(at, &changes);
                true
            }
            What::Opened(opened) => self.open(opened),
            What::Agent(report) => {
                self.agents.retain(|a| a.agent != report.agent);
                self.agents.push((**report).clone());
                if let Some(why) = &report.refused {
                    let text = format!("agent {} refused: {}", report.agent, clean(why));
                    self.say(at, Kind::Agent, Severity::Warning, text);
                }
                true
            }
            What::Reading(reading) => {
                match reading.ended {
                    None => self.readings.insert(reading.topic.clone()),
                    Some(_) => self.readings.remove(&reading.topic),
                };
                true
            }
            What::Malformed(m) => self.malformed(at, m),
            What::LocalPort(port) => self.local_port(at, port),
            What::DeviceGone { why } => {
                let why = clean(why);
                self.say(
                    at,
                    Kind::Device,
                    Severity::Critical,
                    format!("device gone: {why}"),
                );
                let since = self.gone.take().map_or(at, |(since, _)| since);
                self.gone = Some((since, why.into()));
                self.pending.clear();
                self.smps_out = 0;
                self.gmps_out = 0;
                self.judge_device(at, true);
                self.readings.clear();
                true
            }
            What::DeviceBack => {
                self.judge_device(at, false);
                self.gone = None;
                self.say(at, Kind::Device, Severity::Info, "device back");
                true
            }
            What::Known(known) => self.known(known),
            What::Ledger(ledger) => self.take_ledger(at, ledger),
            What::ClockStep { wall } => {
                self.wall = (at, *wall);
                self.say(at, Kind::Session, Severity::Info, "wall clock was set");
                true
            }
            What::Settings(settings) => {
                let before = std::mem::take(&mut self.settings.names);
                let only_names = self.settings
                    == (Settings {
                        names: BTreeMap::new(),
                        ..(**settings).clone()
                    });
                self.settings.names = before;
                let text = match (self.settings.names != settings.names, only_names) {
                    (true, true) => {
                        format!("node name map read again: {} names", settings.names.len())
                    }
                    _ => "settings changed".to_owned(),
                };
                self.use_settings(settings);
                self.say(at, Kind::Session, Severity::Info, text);
                true
            }
            What::Mark { text } => {
                let text = format!("mark: {}", clean(text));
                self.say(at, Kind::Operator, Severity::Info, text);
                true
            }
            What::Act { text } => {
                let text = format!("operator: {}", clean(text));
                self.say(at, Kind::Operator, Severity::Warning, text);
                true
            }
            What::RecordingStopped { why } => {
                self.judge_recording(at, &clean(why));
                let why = clean(why);
                self.say(at, Kind::Recording, Severity::Critical, why.clone());
                self.unrecorded = Some(why.into());
                true
            }
            What::Dropped { count } => {
                let text = format!("{count} events were lost on their way here");
                self.say(at, Kind::Dropped, Severity::Warning, text);
                true
            }
            What::Note {
                severity,
                node,
                text,
            } => {
                let about = node.map(|n| n.port(0));
                let text = match node.and_then(|n| self.data(n)) {
                    Some(n) => format!("{}: {}", n.name, clean(text)),
                    None => clean(text),
                };
                self.judge_note(at, *severity, *node, &text);
                self.log.add(at, Kind::Note, *severity, about, text);
                true
            }
            What::Closed { why } => {
                self.announce_all();
                self.closed = Some(clean(why).into());
                true
            }
        };
        self.revision += u64::from(shown | self.alerts.take_changed());
    }

    pub(super) fn say(
        &mut self,
        at: Stamp,
        kind: Kind,
        severity: Severity,
        text: impl Into<String>,
    ) {
        self.log.add(at, kind, severity, None, text);
    }

    /// Counts what a gap in the numbers, or a word about one, says is missing.
    fn follow_sequence(&mut self, event: &Event) {
        let gap = self
            .next_seq
            .map_or(0, |next| event.seq.saturating_sub(next));
        let told = match event.what {
            What::Dropped { count } if gap == 0 => count,
            _ => 0,
        };
        if gap + told > 0 {
            self.dropped += gap + told;
            self.join = Join::Joining;
        }
        self.next_seq = Some(event.seq.saturating_add(1));
    }

    /// A session that was read from its first event needs no keyframes.
    fn follow_join(&mut self, what: &What) {
        match (what, self.join) {
            (What::Known(_) | What::Ledger(_), Join::Joining) => self.join = Join::Reading,
            (What::Opened(_), Join::Joining) if self.next_seq == Some(1) => {
                self.join = Join::Current;
            }
            (What::Sent(_) | What::Received(_) | What::Tick, Join::Reading) => {
                self.join = Join::Current;
                // What a keyframe told is old: changes from here on are news.
                self.discovered = true;
            }
            _ => {}
        }
    }

    fn open(&mut self, opened: &Opened) -> bool {
        self.wall = (Stamp::ZERO, opened.wall);
        self.use_settings(&opened.settings);
        self.opened = Some(Box::new(opened.clone()));
        true
    }

    fn use_settings(&mut self, settings: &Settings) {
        let renamed = self.settings.names != settings.names;
        let limits = self.settings.thresholds != settings.thresholds;
        self.settings = settings.clone();
        if limits {
            self.alerts.use_thresholds(&settings.thresholds);
        } else {
            self.alerts.limits.ensure();
        }
        if renamed {
            self.names.set_map(&settings.names);
            let all: Vec<_> = self.topology.nodes().map(|n| n.id).collect();
            for id in all {
                self.rename(id);
            }
        }
    }

    fn sent(&mut self, at: Stamp, sent: &Sent) -> bool {
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

    fn received(&mut self, at: Stamp, received: &Received) -> bool {
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

    fn timed_out(&mut self, at: Stamp, t: &TimedOut) -> bool {
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
            }
            Slot::Sm => self.sm_silent(at, pending),
            Slot::Node(_) => {}
        }
    }

    fn send_failed(&mut self, at: Stamp, f: &SendFailed) -> bool {
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

    fn sweep_began(&mut self, at: Stamp, s: &SweepBegan) -> bool {
        if s.kind == SweepKind::Discovery {
            self.topology.discovery_began(s.generation);
        }
        if let Some(sweep) = self.sweeps.get_mut(s.kind as usize) {
            sweep.began = Some((at, s.number, s.expected));
            sweep.running = true;
            sweep.done = 0;
        }
        true
    }

    fn sweep_ended(&mut self, at: Stamp, s: &SweepEnded) -> bool {
        let mut took = None;
        if let Some(sweep) = self.sweeps.get_mut(s.kind as usize) {
            took = sweep.began.map(|(began, ..)| at.since(began));
            sweep.running = false;
            sweep.ended = Some((at, s.number));
            sweep.took_ns = took.and_then(|t| u64::try_from(t.as_nanos()).ok());
            sweep.failed = s.failed;
        }
        if s.kind == SweepKind::Discovery {
            let changes = self.topology.discovery_ended();
            self.apply_changes(at, &changes);
            self.compare_digest(at, s);
            if !self.discovered {
                self.discovered = true;
                self.announce.clear();
                self.summarise(at, took, s.failed);
            }
        }
        self.announce_all();
        self.size = Some(self.count_size());
        true
    }

    fn compare_digest(&mut self, at: Stamp, s: &SweepEnded) {
        // After a gap the two need not agree.
        if s.digest == 0 || self.dropped > 0 || self.join != Join::Current {
            return;
        }
        if self.topology.digest() != s.digest {
            self.digests_differ += 1;
            let text = format!(
                "after discovery {} the fabric shown differs from the engine's",
                s.number
            );
            self.say(at, Kind::Digest, Severity::Warning, text);
        }
    }

    fn back_off(&mut self, at: Stamp, b: &BackOff) -> bool {
        let slot = self.slot_of(b.node);
        self.touch(b.node);
        let Some(node) = self.nodes.get_mut(slot as usize) else {
            return false;
        };
        let before = node.dest.back_off;
        node.dest.back_off = b.until.map(|until| (b.failures, until));
        let (severity, text) = match (before, b.until) {
            (None, Some(_)) => (Severity::Warning, format!("{} does not answer", node.name)),
            (Some(_), None) => {
                node.dest.failing = [0; 2];
                (Severity::Info, format!("{} answers again", node.name))
            }
            _ => return true,
        };
        self.judge_answering(at, b.node, b.until.is_none());
        let about = Some(b.node.port(0));
        self.log.add(at, Kind::Timeout, severity, about, text);
        true
    }

    fn malformed(&mut self, at: Stamp, m: &Malformed) -> bool {
        self.malformed += 1;
        let text = format!("malformed: {} bytes: {}", m.len, clean(&m.why));
        self.say(at, Kind::Malformed, Severity::Warning, text);
        true
    }

    fn local_port(&mut self, at: Stamp, port: &LocalPort) -> bool {
        if let Some(old) = self.local.take() {
            let name = format!("local port {}/{}", clean(&port.ca), port.port);
            let mut tell = |what: &str, from: String, to: String| {
                if from != to {
                    let text = format!("{name}: {what} {from} -> {to}");
                    self.say(at, Kind::Address, Severity::Warning, text);
                }
            };
            let state = |code| crate::mad::PortState::new(code).to_string();
            tell("state", state(old.state), state(port.state));
            tell("LID", old.lid.to_string(), port.lid.to_string());
            tell("SM LID", old.sm_lid.to_string(), port.sm_lid.to_string());
        }
        self.judge_local(at, port);
        self.local = Some(Box::new(port.clone()));
        true
    }

    fn tick(&mut self, at: Stamp) -> bool {
        let before = self.beat;
        let from = if before.at == Stamp::ZERO {
            self.first.unwrap_or(Stamp::ZERO)
        } else {
            before.at
        };
        let secs = at.since(from).as_secs_f64();
        if secs > 0.0 {
            self.beat = super::Beat {
                smps: 0,
                gmps: 0,
                at,
                smp_rate: Num::Is(before.smps as f64 / secs),
                gmp_rate: Num::Is(before.gmps as f64 / secs),
            };
        }
        self.forget_lost(at);
        self.judge_due(at);
        self.announce_all();
        if self.size.is_none() {
            self.size = Some(self.count_size());
        }
        (before.smp_rate, before.gmp_rate) != (self.beat.smp_rate, self.beat.gmp_rate)
    }

    /// Requests whose end was lost in a gap of the stream.
    fn forget_lost(&mut self, at: Stamp) {
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

    /// A keyframe's content: applied only where something is missing.
    fn known(&mut self, known: &Known) -> bool {
        if self.join != Join::Reading {
            return false;
        }
        let request = Request::of(&known.request, known.addr.lid, known.target);
        if !request.is_answered_by(&known.reply) {
            return false;
        }
        let slot = match known.target.node {
            _ if request.class == MgmtClass::SubnAdm.code() => Slot::Sa,
            Some(node) => Slot::Node(self.slot_of(node)),
            None => Slot::Unexplored(known.target.via),
        };
        let pending = Pending {
            slot,
            at: known.at,
            attempt: 1,
            timeout_ms: 0,
            overdue: false,
            port_select: known.request.data().get(1).copied().unwrap_or(0),
            who: None,
            request,
        };
        let class = known.reply.class();
        if class.is_smp() {
            self.learn(known.at, &request, &known.reply);
            if request.attribute == SmInfo::ID {
                self.sm_info(known.at, &pending, &known.reply);
            }
        } else if class == MgmtClass::SubnAdm {
            self.learn(known.at, &request, &known.reply);
            self.sa_reply(known.at, &pending, &known.reply);
        } else if class == MgmtClass::Perf {
            self.perf_reply(known.at, &pending, &known.reply);
        }
        true
    }
}

fn clean(text: &str) -> String {
    crate::fabric::names::clean_str(text)
}
