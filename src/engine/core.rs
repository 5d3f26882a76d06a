//! The state machine: its state, its inputs and outputs, and its timers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Config;
use super::budget::Share;
use super::focus::Focus;
use super::guard::Strangers;
use super::job::{Ask, Job, Lane, Who};
use super::nodes::{Back, NodeState};
use super::records::Records;
use super::routes::Routes;
use super::sa::Sa;
use super::sms::Sms;
use super::sweep::Loops;
use super::table::Table;
use crate::command::Command;
use crate::event::{Event, Opened, Pace, Sent, Settings, Severity, SweepKind, What};
use crate::fabric::{Guid, NodeId, PortKey, Target, Topology};
use crate::port::{Agent, AgentReport, Arrival, LocalPort, Outgoing, PortError, Source, Stamp};

/// Bad lines of a node name map that are told one by one.
const NAME_PROBLEMS: usize = 5;
/// How often a removed device is looked for.
const REOPEN: Duration = Duration::from_secs(1);
/// Unsolicited MADs and malformed bytes that are recorded one by one, a second.
const UNSOLICITED: u32 = 1_000;
/// The same while the consumer is behind.
const UNSOLICITED_HELD: u32 = 10;

/// How long what is on its way may still come in once the end was asked for.
const LINGER: Duration = Duration::from_millis(200);
/// How long the SA may take to withdraw the subscription then.
const WITHDRAW: Duration = Duration::from_secs(1);

/// What a driver tells the core.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // MADs are the common case and live inline on purpose
pub enum Input {
    /// Something came in.
    Arrival(Arrival),
    /// The port refused the MAD of the last [`Output::Send`]. Must be told before anything else
    /// is.
    SendFailed {
        /// Low half of its transaction id.
        tid: u32,
        /// Management class.
        class: u8,
        /// Why.
        error: PortError,
    },
    /// What became of each agent's registration.
    Agents(Vec<AgentReport>),
    /// The local port as it is now.
    Local(LocalPort),
    /// The device is gone, or still gone: why.
    Gone(String),
    /// The device is open again.
    Back,
    /// The operator wants something.
    Command(Command),
    /// The model's queue is above half full, or no longer.
    Pressure(bool),
    /// Somebody set the wall clock: nanoseconds since the Unix epoch now.
    Wall(i64),
}

/// What the core wants of a driver.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // MADs are the common case and live inline on purpose
pub enum Output {
    /// Send this MAD now.
    Send(Outgoing),
    /// This happened.
    Event(Event),
    /// Read the local port and answer with [`Input::Local`] or [`Input::Gone`].
    ReadLocal,
    /// Try to open the device and answer with [`Input::Back`] (then `Agents` and `Local`) or
    /// [`Input::Gone`].
    Reopen,
    /// The session is over.
    Finished,
}

/// An output, and for a MAD what its event will say: whom it is meant for, which attempt it is.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // as above
enum Queued {
    Output(Output),
    Send(Outgoing, Option<(Target, u8)>),
}

/// A MAD that waits to be sent and expects no answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) out: Outgoing,
    pub(super) target: Target,
    /// Its sending is an event.
    pub(super) record: bool,
}

/// The engine's state machine.
#[derive(Debug)]
pub struct Core {
    pub(super) config: Config,
    pub(super) source: Source,
    pub(super) now: Stamp,
    seq: u64,
    out: VecDeque<Queued>,
    /// Handed to the driver, and sent unless the next input says otherwise.
    unconfirmed: Option<(Stamp, u32, Sent)>,

    pub(super) topology: Topology,
    pub(super) nodes: BTreeMap<NodeId, NodeState>,
    /// Ports beyond which nobody answers.
    pub(super) beyond: BTreeMap<PortKey, Back>,
    /// Ports beyond which somebody is being asked.
    pub(super) probing: BTreeSet<PortKey>,

    pub(super) shares: [Share; 2],
    pub(super) table: Table,
    /// Jobs that wait for their next attempt, by time.
    pub(super) delayed: BTreeMap<(Stamp, u64), Job>,
    pub(super) serial: u64,
    pub(super) replies: [VecDeque<Reply>; 2],
    /// Jobs that wait for a place at their node.
    pub(super) parked: u32,

    pub(super) loops: Loops,
    /// When a node that backs off is asked again.
    pub(super) probes: BTreeSet<(Stamp, NodeId, Lane)>,
    /// Nodes to read again after a notice.
    pub(super) rereads: BTreeSet<(Stamp, NodeId)>,
    /// Ports seen in a passing state, to be looked at again, and how often they were.
    pub(super) rechecks: BTreeMap<(Stamp, PortKey), u8>,
    pub(super) sa: Sa,
    pub(super) records: Records,
    pub(super) routes: Routes,
    pub(super) sms: Sms,
    pub(super) strangers: Strangers,
    /// The port that somebody looks at.
    pub(super) focus: Option<Focus>,

    agents: BTreeMap<Agent, AgentReport>,
    /// The local port as last read, and as an event said it is.
    pub(super) read: Option<LocalPort>,
    pub(super) local: Option<LocalPort>,
    gone: Option<String>,
    next_reopen: Option<Stamp>,
    next_tick: Stamp,
    held: bool,
    pace: Pace,
    /// Unsolicited arrivals in this second, and those of them that no event tells of.
    unsolicited: u32,
    folded: u32,
    closing: Option<Stamp>,
    /// Until then the end waits for whatever is on its way; after it, only for the subscription.
    lingers: Stamp,
    finished: bool,
}

impl Core {
    /// A core at the session's beginning.
    pub fn new(config: Config, source: Source) -> Core {
        let settings = &config.settings;
        let shares = [Share::new(settings.smp), Share::new(settings.gmp)];
        let mut core = Core {
            now: Stamp::ZERO,
            seq: 0,
            out: VecDeque::new(),
            unconfirmed: None,
            topology: Topology::new(),
            nodes: BTreeMap::new(),
            beyond: BTreeMap::new(),
            probing: BTreeSet::new(),
            shares,
            table: Table::new(config.tid_seed),
            delayed: BTreeMap::new(),
            serial: 0,
            replies: [VecDeque::new(), VecDeque::new()],
            parked: 0,
            loops: Loops::new(settings),
            probes: BTreeSet::new(),
            rereads: BTreeSet::new(),
            rechecks: BTreeMap::new(),
            sa: Sa::default(),
            records: Records::default(),
            routes: Routes::default(),
            sms: Sms::default(),
            strangers: Strangers::default(),
            focus: None,
            agents: BTreeMap::new(),
            read: None,
            local: None,
            gone: None,
            next_reopen: None,
            next_tick: Stamp::from_secs(1),
            held: false,
            pace: Pace::default(),
            unsolicited: 0,
            folded: 0,
            closing: None,
            lingers: Stamp::ZERO,
            finished: false,
            config,
            source,
        };
        core.emit(What::Opened(Box::new(Opened {
            version: core.config.version.clone(),
            source: core.source.clone(),
            wall: core.config.wall,
            host: core.config.host.clone(),
            settings: core.config.settings.clone(),
        })));
        core
    }

    /// The subnet as far as it is known.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Stamp, input: Input) {
        self.now = self.now.max(now);
        if !matches!(input, Input::SendFailed { .. }) {
            self.confirm();
        }
        if self.finished {
            return;
        }
        match input {
            Input::Arrival(arrival) => self.arrival(arrival),
            Input::SendFailed { tid, class, error } => {
                if self.unconfirmed.as_ref().is_some_and(|(_, t, _)| *t == tid) {
                    self.unconfirmed = None;
                } else {
                    self.confirm();
                }
                self.send_failed(tid, class, error);
            }
            Input::Agents(reports) => self.registered(reports),
            Input::Local(port) => self.local_read(port),
            Input::Gone(why) => self.device_gone(why),
            Input::Back => self.device_back(),
            Input::Command(command) => self.command(command),
            Input::Wall(wall) => self.emit(What::ClockStep { wall }),
            Input::Pressure(held) => {
                if self.held != held {
                    self.held = held;
                    self.emit_pace();
                }
            }
        }
    }

    /// The next thing to do at `now`; `None` until [`Core::deadline`] or the next input.
    pub fn poll(&mut self, now: Stamp) -> Option<Output> {
        self.now = self.now.max(now);
        self.confirm();
        loop {
            match self.out.pop_front() {
                Some(Queued::Output(output)) => return Some(output),
                Some(Queued::Send(out, sent)) => {
                    self.unconfirmed = sent.map(|(target, attempt)| {
                        let mut mad = out.mad.clone();
                        self.hide_key(&mut mad);
                        let sent = Sent {
                            addr: out.addr,
                            target,
                            attempt,
                            timeout_ms: out.timeout_ms,
                            mad,
                        };
                        (self.now, out.mad.tid_low(), sent)
                    });
                    return Some(Output::Send(out));
                }
                None => {}
            }
            if self.finished {
                return None;
            }
            self.timers();
            if self.out.is_empty() && !self.pump() {
                return None;
            }
        }
    }

    /// When [`Core::poll`] has something to do next, once it returned `None`.
    pub fn deadline(&self) -> Option<Stamp> {
        if self.finished {
            return None;
        }
        let mut at = self.next_tick;
        let mut sooner = |t: Option<Stamp>| {
            if let Some(t) = t {
                at = at.min(t);
            }
        };
        sooner(self.table.deadline());
        sooner(self.closing);
        sooner(
            self.closing
                .and(Some(self.lingers))
                .filter(|at| *at > self.now),
        );
        if self.gone.is_some() {
            sooner(self.next_reopen);
            return Some(at);
        }
        sooner(self.delayed.first_key_value().map(|((at, _), _)| *at));
        for lane in Lane::ALL {
            let share = self.share_ref(lane);
            let reply = self
                .replies
                .get(lane as usize)
                .is_some_and(|r| !r.is_empty());
            if reply || (self.can_ask(lane) && self.has_work(lane)) {
                sooner(Some(share.free_at()));
            }
        }
        if self.is_live() {
            sooner(self.loops.deadline());
            sooner(self.probes.first().map(|(at, ..)| *at));
            sooner(self.rereads.first().map(|(at, _)| *at));
            sooner(self.rechecks.first_key_value().map(|((at, _), _)| *at));
            sooner(self.sa_deadline());
            sooner(self.records_deadline());
            sooner(self.sms_deadline());
            sooner(self.focus.as_ref().map(|f| f.next));
        }
        Some(at)
    }

    pub(super) fn emit(&mut self, what: What) {
        self.emit_at(self.now, what);
    }

    fn emit_at(&mut self, at: Stamp, what: What) {
        let seq = self.seq;
        self.seq += 1;
        self.push(Output::Event(Event { seq, at, what }));
    }

    fn push(&mut self, output: Output) {
        self.out.push_back(Queued::Output(output));
    }

    pub(super) fn note(&mut self, severity: Severity, node: Option<NodeId>, text: String) {
        self.emit(What::Note {
            severity,
            node,
            text: text.into(),
        });
    }

    /// A MAD goes out; its event follows unless the port refuses it.
    pub(super) fn output(&mut self, out: Outgoing, sent: Option<(Target, u8)>) {
        self.out.push_back(Queued::Send(out, sent));
    }

    fn confirm(&mut self) {
        if let Some((at, _, sent)) = self.unconfirmed.take() {
            self.emit_at(at, What::Sent(sent));
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.config.settings
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.config.settings.timeout_ms.max(1)))
    }

    pub(super) fn share(&mut self, lane: Lane) -> &mut Share {
        let [smp, gmp] = &mut self.shares;
        match lane {
            Lane::Smp => smp,
            Lane::Gmp => gmp,
        }
    }

    pub(super) fn share_ref(&self, lane: Lane) -> &Share {
        let [smp, gmp] = &self.shares;
        match lane {
            Lane::Smp => smp,
            Lane::Gmp => gmp,
        }
    }

    /// The agent of a class is registered.
    pub(super) fn has_agent(&self, agent: Agent) -> bool {
        self.agents
            .get(&agent)
            .is_some_and(|report| report.refused.is_none())
    }

    /// Reports of the SA reach us and nobody else on this host.
    pub(super) fn gets_reports(&self) -> bool {
        self.agents
            .get(&Agent::SubnAdm)
            .is_some_and(|report| report.refused.is_none() && report.reports)
    }

    /// Requests may be made: the port is known and there, and the session goes on.
    pub(super) fn is_live(&self) -> bool {
        self.gone.is_none() && self.closing.is_none() && self.local.is_some()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    /// The device is gone: there is nothing to receive.
    pub(super) fn is_waiting_for_device(&self) -> bool {
        self.gone.is_some()
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// One more unsolicited arrival: whether an event tells of it.
    pub(super) fn admit_unsolicited(&mut self) -> bool {
        let limit = if self.held {
            UNSOLICITED_HELD
        } else {
            UNSOLICITED
        };
        self.unsolicited += 1;
        let admitted = self.unsolicited <= limit;
        self.folded += u32::from(!admitted);
        admitted
    }

    fn registered(&mut self, reports: Vec<AgentReport>) {
        for report in reports {
            if self.agents.get(&report.agent) != Some(&report) {
                self.agents.insert(report.agent, report.clone());
                self.emit(What::Agent(Box::new(report)));
            }
        }
    }

    fn local_read(&mut self, port: LocalPort) {
        if self.read.as_ref() == Some(&port) {
            return;
        }
        self.read = Some(port.clone());
        self.set_local(port);
    }

    /// The local port is known to be like this.
    pub(super) fn set_local(&mut self, port: LocalPort) {
        if self.local.as_ref() == Some(&port) {
            return;
        }
        let old = self.local.replace(port.clone());
        self.emit(What::LocalPort(Box::new(port.clone())));
        if self.gone.is_some() || self.closing.is_some() {
            return;
        }
        if port.pkey_limited && old.as_ref().is_none_or(|old| !old.pkey_limited) {
            self.note(
                Severity::Warning,
                None,
                "this port has only the limited key of the default partition: counters are \
                 read from switches only, since hosts would count a P_Key violation"
                    .into(),
            );
        }
        let unmanaged = |p: &LocalPort| p.lid == 0 || p.sm_lid == 0;
        if unmanaged(&port) && old.as_ref().is_none_or(|old| !unmanaged(old)) {
            self.note(
                Severity::Warning,
                None,
                "no subnet manager has given this port a LID: the subnet is read by directed \
                 route only, and counters, which need LIDs, cannot be read"
                    .into(),
            );
        }
        let Some(old) = old else {
            if self.has_agent(Agent::SmpDirected) {
                self.loops.discover_at(self.now);
            } else {
                self.note(
                    Severity::Critical,
                    None,
                    "no agent for directed-route SMPs: the subnet cannot be discovered".into(),
                );
            }
            return;
        };
        if (old.sm_lid, old.sm_sl) != (port.sm_lid, port.sm_sl) {
            self.sm_changed();
        }
        if (old.lid, old.lmc, old.gid_prefix, old.pkey_index)
            != (port.lid, port.lmc, port.gid_prefix, port.pkey_index)
        {
            self.sm_changed();
        }
        if (old.state, old.lid, old.gid_prefix) != (port.state, port.lid, port.gid_prefix) {
            // Another subnet may be behind the cable now.
            self.loops.discover_at(self.now);
        }
    }

    fn device_gone(&mut self, why: String) {
        self.next_reopen = Some(self.now + REOPEN);
        if self.gone.as_ref() == Some(&why) {
            return;
        }
        let first = self.gone.is_none();
        self.gone = Some(why.clone());
        self.emit(What::DeviceGone { why: why.into() });
        if first {
            self.drop_all();
        }
    }

    fn device_back(&mut self) {
        if self.gone.take().is_none() {
            return;
        }
        self.next_reopen = None;
        self.emit(What::DeviceBack);
        self.read = None;
        self.loops.discover_at(self.now);
        self.sm_changed();
        self.push(Output::ReadLocal);
    }

    /// Ends everything that waits or is on its way, without a word on each.
    pub(super) fn drop_all(&mut self) {
        self.table.clear();
        for share in &mut self.shares {
            share.in_flight = 0;
            share.retrying = 0;
            share.ready.iter_mut().for_each(VecDeque::clear);
        }
        self.replies.iter_mut().for_each(VecDeque::clear);
        self.delayed.clear();
        self.probes.clear();
        self.rereads.clear();
        self.rechecks.clear();
        self.probing.clear();
        self.beyond.clear();
        self.parked = 0;
        self.loops.abort();
        self.sa.drop_requests();
        self.drop_records();
        self.drop_routes();
        self.drop_sms();
        self.drop_strangers();
        if let Some(focus) = &mut self.focus {
            focus.open = 0;
        }
        for node in self.nodes.values_mut() {
            node.drop_requests();
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Rediscover => {
                self.trust_again();
                self.loops.discover_at(self.now);
            }
            Command::ReadCounters => self.loops.count_at(self.now),
            Command::Read(topic) => self.read(topic),
            Command::Focus(port) => self.focus_on(port),
            Command::Settings(settings) => {
                self.loops.set(&settings, self.now);
                self.share(Lane::Smp).set(settings.smp);
                self.share(Lane::Gmp).set(settings.gmp);
                self.config.settings = (*settings).clone();
                self.emit(What::Settings(settings));
                self.emit_pace();
            }
            Command::Names { names, problems } => self.names_read(names, problems),
            Command::Mark(text) => self.emit(What::Mark { text: text.into() }),
            Command::Act(text) => self.emit(What::Act { text: text.into() }),
            Command::RecordingStopped(why) => {
                self.emit(What::RecordingStopped { why: why.into() });
            }
            Command::Quit => self.quit(),
        }
    }

    /// The node name map changed. Names of lines that are of no use any more are gone; where
    /// the file is, all of them stay.
    fn names_read(&mut self, names: Option<BTreeMap<Guid, String>>, problems: Vec<String>) {
        let count = problems.len();
        for text in problems.into_iter().take(NAME_PROBLEMS) {
            self.note(Severity::Warning, None, text);
        }
        if let Some(more) = count.checked_sub(NAME_PROBLEMS + 1) {
            let text = format!("node name map: {} more lines are of no use", more + 1);
            self.note(Severity::Warning, None, text);
        }
        if let Some(names) = names.filter(|names| *names != self.config.settings.names) {
            self.config.settings.names = names;
            let settings = Box::new(self.config.settings.clone());
            self.emit(What::Settings(settings));
        }
    }

    fn quit(&mut self) {
        if self.closing.is_some() {
            return;
        }
        // What is on its way may still come in; what waits is forgotten.
        for share in &mut self.shares {
            share.ready.iter_mut().for_each(VecDeque::clear);
        }
        self.replies.iter_mut().for_each(VecDeque::clear);
        self.delayed.clear();
        self.end_superseded();
        self.loops.abort();
        for node in self.nodes.values_mut() {
            node.forget_waiting();
        }
        self.parked = 0;
        self.lingers = self.now + LINGER;
        self.closing = Some(self.now + WITHDRAW);
        if self.gone.is_none() && self.sa.subscribed {
            self.sa.withdrawing = true;
            let job = Job::new(Ask::Inform(false), Who::Sm).attempts(1).urgent();
            self.share(Lane::Gmp).push(job);
        }
    }

    /// Ends the session once nothing is on its way any more, or at the latest now.
    fn close(&mut self, by: Stamp) {
        let idle = self.table.is_empty()
            && self.unconfirmed.is_none()
            && self.shares.iter().all(|share| share.waiting() == 0);
        // Hosts that are dead must not hold up the end.
        let lingered = self.now >= self.lingers && !self.sa.withdrawing;
        if idle || lingered || self.now >= by || self.gone.is_some() {
            self.emit(What::Closed {
                why: "asked to quit".into(),
            });
            self.push(Output::Finished);
            self.finished = true;
        }
    }

    /// Does all that is due.
    fn timers(&mut self) {
        while let Some(tid) = self.table.due(self.now) {
            self.waited_for(tid);
        }
        let ticked = self.next_tick <= self.now;
        if ticked {
            self.tick();
        }
        if let Some(by) = self.closing {
            self.close(by);
            return;
        }
        if self.gone.is_some() {
            if self.next_reopen.is_some_and(|at| at <= self.now) {
                self.next_reopen = None;
                self.push(Output::Reopen);
            }
            return;
        }
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let job = entry.remove();
            self.share(job.lane()).push(job);
        }
        if self.is_live() {
            if ticked && self.is_discovery_long() {
                self.start_counting();
            }
            self.end_quiet_discovery();
            self.run_loops();
            self.run_probes();
            self.run_rereads();
            self.run_focus();
            self.run_sa();
            self.run_strangers();
            self.run_sms();
            self.run_records();
            self.run_routes();
        }
    }

    fn tick(&mut self) {
        // A driver that slept does not owe the seconds that it missed.
        while self.next_tick <= self.now {
            self.next_tick = self.next_tick + Duration::from_secs(1);
        }
        self.unsolicited = 0;
        let folded = std::mem::take(&mut self.folded);
        if folded > 0 {
            self.note(
                Severity::Warning,
                None,
                format!("{folded} further unsolicited MADs within a second, not recorded singly"),
            );
        }
        self.emit(What::Tick);
        self.emit_pace();
        if self.gone.is_none() && self.closing.is_none() {
            self.push(Output::ReadLocal);
        }
    }

    pub(super) fn emit_pace(&mut self) {
        let pace = self.current_pace();
        self.pace = pace;
        self.emit(What::Pace(Box::new(pace)));
    }

    /// Says the pace if what is in force changed.
    pub(super) fn pace_changed(&mut self) {
        let pace = self.current_pace();
        let force = |p: &Pace| {
            (
                p.smp_window,
                p.gmp_window,
                p.interval_ns,
                p.sweep_interval_ns,
            )
        };
        if force(&pace) != force(&self.pace) {
            self.emit_pace();
        }
    }

    fn current_pace(&self) -> Pace {
        let [smp, gmp] = &self.shares;
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let waiting = smp.waiting() + gmp.waiting() + self.delayed.len() + self.loops.planned();
        Pace {
            smp_in_flight: smp.in_flight,
            gmp_in_flight: gmp.in_flight,
            smp_window: smp.window,
            gmp_window: gmp.window,
            waiting: u32::try_from(waiting)
                .unwrap_or(u32::MAX)
                .saturating_add(self.parked),
            interval_ns: nanos(self.loops.in_force(SweepKind::Counters)),
            sweep_interval_ns: nanos(self.loops.in_force(SweepKind::States)),
            held: self.held,
        }
    }
}
