//! The state machine: its state, its inputs and outputs, and its timers.

mod local;
mod orders;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Config;
use super::budget::Share;
use super::focus::Focus;
use super::guard::Strangers;
use super::job::{Job, Lane};
use super::nodes::{Back, Nodes};
use super::records::Records;
use super::routes::Routes;
use super::rtt::{CALM, SMP_AGAIN};
use super::sa::Sa;
use super::sms::Sms;
use super::sweep::Loops;
use super::table::Table;
use crate::command::Command;
use crate::event::{Event, Opened, Pace, Sent, Settings, Severity, SweepKind, What};
use crate::fabric::topology::Doubt;
use crate::fabric::{NodeId, PortKey, Target, Topology};
use crate::port::{Agent, AgentReport, Arrival, LocalPort, Outgoing, PortError, Source, Stamp};

/// Unsolicited MADs and malformed bytes that are recorded one by one, a second.
const UNSOLICITED: u32 = 1_000;
/// The same while the consumer is behind.
const UNSOLICITED_HELD: u32 = 10;

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
///
/// MADs and events stay in the core until they are where they go: they are large, and each hand
/// that they pass through would copy them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send the MAD of [`Core::outgoing`] now.
    Send,
    /// Things happened: take [`Core::events`].
    Events,
    /// Read the local port and answer with [`Input::Local`] or [`Input::Gone`].
    ReadLocal,
    /// Try to open the device and answer with [`Input::Back`] (then `Agents` and `Local`) or
    /// [`Input::Gone`].
    Reopen,
    /// The session is over.
    Finished,
}

/// Events that wait to be taken while MADs leave: no more, or the first of them grow old.
const EVENTS: usize = 64;

/// A MAD that is handed to the driver, and sent unless the next input says otherwise.
#[derive(Debug)]
struct Departure {
    at: Stamp,
    out: Outgoing,
    /// What its event will say: whom it is meant for, which attempt it is. `None` if no event
    /// tells of it.
    sent: Option<(Target, u8)>,
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
    /// What happened and was not taken yet.
    events: Vec<Event>,
    /// What else a driver is to do.
    orders: VecDeque<Output>,
    departure: Option<Departure>,

    pub(super) topology: Topology,
    pub(super) nodes: Nodes,
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
    /// Ports whose PortInfoExtended is to be read once discovery is over.
    pub(super) fec_later: BTreeSet<PortKey>,
    /// Ports seen in a passing state, to be looked at again, and how often they were.
    pub(super) rechecks: BTreeMap<(Stamp, PortKey), u8>,
    /// What was asked again since it was in doubt: since when, and how often.
    pub(super) doubted: BTreeMap<Doubt, (Stamp, u8)>,
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
    pub fn new(mut config: Config, source: Source) -> Core {
        config.settings.sm_key = config.sm_key.is_some();
        let settings = &config.settings;
        let shares = [
            Share::new(settings.smp, SMP_AGAIN),
            Share::new(settings.gmp, CALM),
        ];
        let mut core = Core {
            now: Stamp::ZERO,
            seq: 0,
            events: Vec::new(),
            orders: VecDeque::new(),
            departure: None,
            topology: Topology::new(),
            nodes: Nodes::default(),
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
            doubted: BTreeMap::new(),
            rechecks: BTreeMap::new(),
            fec_later: BTreeSet::new(),
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
                let it = self.departure.as_ref();
                if it.is_some_and(|it| it.out.mad.tid_low() == tid) {
                    self.departure = None;
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
        if self.orders.is_empty() && !self.finished && self.events.len() < EVENTS {
            self.timers();
            if self.orders.is_empty() && self.pump() {
                return Some(Output::Send);
            }
        }
        if !self.events.is_empty() {
            return Some(Output::Events);
        }
        self.orders.pop_front()
    }

    /// The MAD that [`Output::Send`] is about.
    pub fn outgoing(&self) -> Option<&Outgoing> {
        self.departure.as_ref().map(|it| &it.out)
    }

    /// Takes what happened, in order.
    pub fn events(&mut self) -> impl Iterator<Item = Event> {
        self.events.drain(..)
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
            sooner(self.loops.deadline(self.quiet()));
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
        self.events.push(Event { seq, at, what });
    }

    fn push(&mut self, output: Output) {
        self.orders.push_back(output);
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
        let at = self.now;
        self.departure = Some(Departure { at, out, sent });
    }

    fn confirm(&mut self) {
        let Some(Departure { at, out, sent }) = self.departure.take() else {
            return;
        };
        let Some((target, attempt)) = sent else {
            return;
        };
        let mut mad = out.mad;
        self.hide_key(&mut mad);
        self.emit_at(
            at,
            What::Sent(Sent {
                addr: out.addr,
                target,
                attempt,
                timeout_ms: out.timeout_ms,
                mad,
            }),
        );
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
