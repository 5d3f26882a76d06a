//! The state of everything, folded from the one stream.
//!
//! [`Model::apply`] is a pure fold over events: the same events give the same model, live,
//! replayed or watched. Alerts and staleness change only there; ages come from the `now` given
//! to a view. Pause, filter, sort and baselines are view state and live with the screen.
//!
//! A reply is attributed through its request: the model keeps its own table of requests in
//! flight, by the low half of their transaction ids, and its own [`Topology`], which must agree
//! with the engine's at the end of every discovery.
//!
//! This room must never do I/O, read a clock, take a lock, or hold a randomly ordered map.

pub mod alerts;
mod baseline;
pub mod ber;
mod counter;
pub mod counters;
mod detail;
pub mod diagnosis;
mod fec;
mod find;
mod fixed;
mod fold;
mod history;
mod latency;
pub mod log;
mod missing;
mod names;
mod notices;
mod num;
mod optional;
mod perf;
mod requests;
mod routes;
mod sa;
mod sms;
mod state;
mod subnet;
mod totals;
mod unseen;
pub mod view;
mod views;

#[cfg(test)]
pub(crate) mod tests;

pub use baseline::Baseline;
pub use ber::Ber;
pub use counters::Counter;
pub use find::Place;
pub use num::{Num, so_many};
pub use totals::Part;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::event::{Opened, Pace, Settings, Topic};
use crate::fabric::routes::Tables;
use crate::fabric::{NodeId, NodeKind, PortKey, Topology};
use crate::port::{AgentReport, LocalPort, Stamp};
use fixed::FixedMap;
use log::EventLog;
use state::{Destination, NodeData, Pending, Sm, Sweep};
use view::{LogLine, SubnetSize};

/// Whether keyframes are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Join {
    /// Nothing was folded yet, or events were lost: what a keyframe says is news.
    #[default]
    Joining,
    /// A keyframe is being read.
    Reading,
    /// Everything was folded as it happened: a keyframe repeats what is known.
    Current,
}

/// MADs sent, and their rate in the last second.
#[derive(Clone, Copy, Debug, Default)]
struct Beat {
    smps: u64,
    gmps: u64,
    at: Stamp,
    smp_rate: Num<f64>,
    gmp_rate: Num<f64>,
}

/// The state of a session.
#[derive(Clone, Debug, Default)]
pub struct Model {
    opened: Option<Box<Opened>>,
    settings: Settings,
    /// The wall clock's last setting: at this moment it was this.
    wall: (Stamp, i64),
    closed: Option<Box<str>>,
    first: Option<Stamp>,
    last: Stamp,
    next_seq: Option<u64>,
    join: Join,
    revision: u64,
    /// The revision at which ports, names or the nodes themselves were others last.
    layout: u64,
    /// Histories and latencies are not kept.
    lean: bool,

    topology: Topology,
    /// A full discovery ended: what comes now is news.
    discovered: bool,
    nodes: Vec<NodeData>,
    free: Vec<u32>,
    index: FixedMap<NodeId, u32>,
    port_guids: FixedMap<u64, PortKey>,
    names: names::Names,
    /// Nodes and links to be announced once the node was described.
    announce: Vec<(Stamp, NodeId, Option<PortKey>)>,
    size: Option<SubnetSize>,

    local: Option<Box<LocalPort>>,
    gone: Option<(Stamp, Box<str>)>,
    unrecorded: Option<Box<str>>,
    agents: Vec<AgentReport>,
    sms: BTreeMap<u64, Sm>,
    master: Option<u64>,
    tables: Tables,
    records: sa::Records,
    /// What is being read on demand.
    readings: BTreeSet<Topic>,

    /// Optional counters of ports that somebody looked at.
    details: optional::Details,

    pending: FixedMap<u32, Pending>,
    smps_out: usize,
    gmps_out: usize,
    sa: Destination,
    sm: Destination,
    unexplored: BTreeMap<Option<PortKey>, (String, Destination)>,

    sweeps: [Sweep; 4],
    pace: Pace,
    beat: Beat,
    malformed: u64,
    dropped: u64,
    digests_differ: u64,
    log: EventLog,
    alerts: alerts::Alerts,
    /// Links, and those below their best.
    links: alerts::Links,
}

impl Model {
    /// An empty model: nothing is known yet.
    pub fn new() -> Model {
        Model::default()
    }

    /// An empty model that keeps no histories and latencies: for whoever wants but its ledger.
    pub fn lean() -> Model {
        Model {
            lean: true,
            ..Model::default()
        }
    }

    /// Grows whenever something changed that a view could show.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Grows whenever there are other ports, or nodes are called otherwise.
    pub fn layout(&self) -> u64 {
        self.layout
    }

    /// The revision at which something about this node's ports changed last, as far as a row
    /// shows it. Ages and staleness change without.
    pub fn changed(&self, node: NodeId) -> u64 {
        self.data(node).map_or(0, |n| n.changed)
    }

    /// The same, but for counters and for who answers: what the node and its links are.
    pub fn shape(&self, node: NodeId) -> u64 {
        self.data(node).map_or(0, |n| n.shape)
    }

    /// Something that a row of this node's ports shows changes in this event.
    fn touch(&mut self, node: NodeId) {
        let revision = self.revision + 1;
        if let Some(data) = self.data_mut(node) {
            data.changed = revision;
            data.shape = revision;
        }
    }

    /// Discovery is over: which adapters have ports on another subnet is known now.
    fn touch_elsewhere(&mut self) {
        let nodes = self.topology.nodes();
        let several = nodes.filter(|n| n.kind != NodeKind::Switch && n.ports.len() > 2);
        for id in several.map(|n| n.id).collect::<Vec<_>>() {
            self.touch(id);
        }
    }

    /// There are other ports, or names, from this event on.
    fn lay_out(&mut self) {
        self.layout = self.revision + 1;
    }

    /// Time of the newest event.
    pub fn last(&self) -> Stamp {
        self.last
    }

    /// The session ended: why.
    pub fn closed(&self) -> Option<&str> {
        self.closed.as_deref()
    }

    /// How the session began; `None` before that is known.
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_deref()
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What was discovered.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A full discovery has ended at least once.
    pub fn is_discovered(&self) -> bool {
        self.discovered
    }

    /// How often the model's topology differed from the engine's at a discovery's end.
    pub fn digests_differ(&self) -> u64 {
        self.digests_differ
    }

    /// A node's name, clean; empty if the node is not known.
    pub fn name(&self, node: NodeId) -> &str {
        self.data(node).map_or("", |n| n.name.as_str())
    }

    /// A node's name without what tells twins apart, clean; empty if the node is not known.
    pub fn base_name(&self, node: NodeId) -> &str {
        self.data(node).map_or("", |n| n.base.as_str())
    }

    /// The event log, in order of each line's first time, oldest first.
    pub fn log(&self) -> &VecDeque<LogLine> {
        self.log.lines()
    }

    /// The line of the log that was added or counted up last.
    pub fn latest(&self) -> Option<&LogLine> {
        self.log.latest()
    }

    /// Wall time at `now`, nanoseconds since the Unix epoch.
    pub fn wall(&self, now: Stamp) -> i64 {
        let (at, wall) = self.wall;
        let ahead = i128::from(now.0) - i128::from(at.0);
        i64::try_from(i128::from(wall) + ahead).unwrap_or(wall)
    }

    /// The counter interval in force: the setting's, or a longer one if a sweep cannot keep it.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.settings.interval_ns.max(self.pace.interval_ns))
    }

    /// The port-state interval in force.
    pub fn sweep_interval(&self) -> Duration {
        let set = self.settings.sweep_interval_ns;
        Duration::from_nanos(set.max(self.pace.sweep_interval_ns))
    }

    fn data(&self, node: NodeId) -> Option<&NodeData> {
        self.nodes.get(*self.index.get(&node)? as usize)
    }

    fn data_mut(&mut self, node: NodeId) -> Option<&mut NodeData> {
        self.nodes.get_mut(*self.index.get(&node)? as usize)
    }

    /// `name[port]`, for sentences.
    fn port_name(&self, key: PortKey) -> String {
        match self.data(key.node) {
            Some(node) => format!("{}[{}]", node.name, key.port),
            None => key.to_string(),
        }
    }
}
