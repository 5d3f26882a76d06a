//! The fold: what each event changes.

use std::collections::BTreeMap;

use super::log::Kind;
use super::state::{Pending, Slot};
use super::{Join, Model, Num};
use crate::event::{
    BackOff, Event, Known, Malformed, Opened, Settings, Severity, SweepBegan, SweepEnded,
    SweepKind, What,
};
use crate::fabric::Request;
use crate::mad::{Attribute, MgmtClass, SmInfo};
use crate::port::{LocalPort, Stamp};

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
                    let severity = match report.is_planarized() {
                        true => Severity::Info,
                        false => Severity::Warning,
                    };
                    self.say(at, Kind::Agent, severity, text);
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
                        format!(
                            "node name map read again: {}",
                            super::so_many(settings.names.len(), "name", "names")
                        )
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
        let first = !self.discovered;
        if s.kind == SweepKind::Discovery {
            let changes = self.topology.discovery_ended();
            self.apply_changes(at, &changes);
            self.compare_digest(at, s);
            if !self.discovered {
                self.discovered = true;
                self.touch_elsewhere();
                self.announce.clear();
                self.summarise(at, took, s.failed);
            }
        }
        self.judge_links(at, s.kind, first);
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
