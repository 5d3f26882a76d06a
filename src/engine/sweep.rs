//! The loops: when a sweep begins and what it asks; when it ends is in a room beside.
//!
//! Counters, port states and full discovery have intervals of their own; rediscovery runs when
//! something changed. A sweep that cannot keep its interval stretches it. One that only waits
//! for nodes which do not answer is not held up by them: it ends, and they count as failed.
//!
//! With a share of nodes dead and of MADs lost, a discovery of 1,700 nodes takes no more than
//! twice the sum of latencies divided by the window, up to 64 in flight (`tests/bound.rs`). What
//! it cannot go below are the attempts at the dead neighbour that it meets last: 5 ms, 10 ms and a
//! silence of 10 ms, or of eight latencies where that is more. A fabric that is read in less than
//! that, since it is small or the window larger, ends 25 ms after that neighbour was met.

mod end;

use std::time::Duration;

use super::core::Core;
use super::job::{Ask, By, Job, Lane, RunId, Who};
use crate::event::{Settings, SweepBegan, SweepKind, What};
use crate::fabric::{Node, NodeId, NodeKind};
use crate::port::{Agent, Stamp};

/// How often a sweep that is late is looked at.
const RECHECK: Duration = Duration::from_millis(10);

/// A sweep under way.
#[derive(Debug, Default)]
pub(super) struct Run {
    number: u32,
    /// Jobs that are not over.
    open: u32,
    /// When something of it was answered or asked last.
    heard: Stamp,
    /// It was quiet and not over: when to look again.
    check: Stamp,
    answered: u32,
    failed: u32,
    skipped: u32,
    /// What is still to be asked: node and port, in order.
    plan: Vec<(NodeId, u8)>,
    at: usize,
}

impl Run {
    fn planned(&self) -> usize {
        self.plan.len().saturating_sub(self.at)
    }
}

/// One loop.
#[derive(Debug, Default)]
struct Loop {
    number: u32,
    run: Option<Run>,
    /// When the next sweep is due; `None` while nothing schedules it.
    next: Option<Stamp>,
    /// It is due but cannot begin: when to look again.
    check: Option<Stamp>,
    began: Option<Stamp>,
    interval: Duration,
    /// The interval in force.
    in_force: Duration,
}

/// All loops.
#[derive(Debug)]
pub(super) struct Loops {
    loops: [Loop; 4],
}

impl Loops {
    pub(super) fn new(settings: &Settings) -> Loops {
        let mut loops = Loops {
            loops: Default::default(),
        };
        loops.set_intervals(settings);
        loops
    }

    fn get(&self, kind: SweepKind) -> &Loop {
        let [discovery, rediscovery, states, counters] = &self.loops;
        match kind {
            SweepKind::Discovery => discovery,
            SweepKind::Rediscovery => rediscovery,
            SweepKind::States => states,
            SweepKind::Counters => counters,
        }
    }

    fn get_mut(&mut self, kind: SweepKind) -> &mut Loop {
        let [discovery, rediscovery, states, counters] = &mut self.loops;
        match kind {
            SweepKind::Discovery => discovery,
            SweepKind::Rediscovery => rediscovery,
            SweepKind::States => states,
            SweepKind::Counters => counters,
        }
    }

    fn set_intervals(&mut self, settings: &Settings) {
        for (kind, interval) in [
            (SweepKind::Discovery, settings.discovery_interval()),
            (SweepKind::States, settings.sweep_interval()),
            (SweepKind::Counters, settings.interval()),
        ] {
            let it = self.get_mut(kind);
            it.interval = interval.max(RECHECK);
            it.in_force = it.interval;
        }
    }

    /// Other settings are in force: each loop goes on in its new interval.
    pub(super) fn set(&mut self, settings: &Settings, now: Stamp) {
        self.set_intervals(settings);
        for it in &mut self.loops {
            if it.next.is_some() {
                let next = it.began.map_or(now, |began| began + it.interval);
                it.next = Some(next.max(now));
            }
        }
    }

    /// A full discovery is due at `at`, if not sooner.
    pub(super) fn discover_at(&mut self, at: Stamp) {
        let it = self.get_mut(SweepKind::Discovery);
        it.next = Some(it.next.map_or(at, |next| next.min(at)));
        it.check = None;
    }

    /// Counters are due at `at`, if not sooner.
    pub(super) fn count_at(&mut self, at: Stamp) {
        let it = self.get_mut(SweepKind::Counters);
        it.next = Some(it.next.map_or(at, |next| next.min(at)));
        it.check = None;
    }

    pub(super) fn in_force(&self, kind: SweepKind) -> Duration {
        self.get(kind).in_force
    }

    /// Places in the plans that were not asked yet.
    pub(super) fn planned(&self) -> usize {
        self.loops
            .iter()
            .filter_map(|l| l.run.as_ref())
            .map(Run::planned)
            .sum()
    }

    /// A plan of this lane has something left.
    pub(super) fn has_plan(&self, lane: Lane) -> bool {
        self.get(plan_of(lane))
            .run
            .as_ref()
            .is_some_and(|run| run.planned() > 0)
    }

    pub(super) fn deadline(&self, quiet: Duration) -> Option<Stamp> {
        self.loops
            .iter()
            .filter_map(|l| l.next.map(|next| l.check.map_or(next, |c| c.max(next))))
            .chain(self.quiet_at(quiet))
            .min()
    }

    /// When a discovery that hears nothing any more is looked at.
    fn quiet_at(&self, quiet: Duration) -> Option<Stamp> {
        let run = self.get(SweepKind::Discovery).run.as_ref()?;
        (run.open > 0).then(|| (run.heard + quiet).max(run.check))
    }

    /// Sweeps end without a word: the device is gone or the session ends.
    pub(super) fn abort(&mut self) {
        for it in &mut self.loops {
            it.run = None;
            it.next = None;
            it.check = None;
        }
    }

    /// When a loop's last sweep began.
    pub(super) fn began(&self, kind: SweepKind) -> Option<Stamp> {
        self.get(kind).began
    }

    pub(super) fn is_running(&self, kind: SweepKind) -> bool {
        self.get(kind).run.is_some()
    }

    fn of(&mut self, run: Option<RunId>) -> Option<&mut Run> {
        let id = run?;
        self.get_mut(id.kind)
            .run
            .as_mut()
            .filter(|run| run.number == id.number)
    }

    /// The sweep of a loop that runs.
    pub(super) fn current(&self, kind: SweepKind) -> Option<RunId> {
        let number = self.get(kind).run.as_ref()?.number;
        Some(RunId { kind, number })
    }

    /// The sweep goes on.
    pub(super) fn is_current(&self, id: RunId) -> bool {
        self.get(id.kind)
            .run
            .as_ref()
            .is_some_and(|run| run.number == id.number)
    }

    /// A job was opened for a sweep.
    pub(super) fn opened(&mut self, run: Option<RunId>) {
        if let Some(run) = self.of(run) {
            run.open += 1;
        }
    }

    fn skipped(&mut self, run: RunId) {
        if let Some(run) = self.of(Some(run)) {
            run.skipped += 1;
        }
    }
}

/// The loop whose plan feeds a lane.
const fn plan_of(lane: Lane) -> SweepKind {
    match lane {
        Lane::Smp => SweepKind::States,
        Lane::Gmp => SweepKind::Counters,
    }
}

/// Puts ports in an order in which neighbours in it are on different nodes, the same each time:
/// first one port of every node, then the second of each, and so on.
fn interleave(ports: impl Iterator<Item = (NodeId, Vec<u8>)>) -> Vec<(NodeId, u8)> {
    let mut ranks: Vec<Vec<(NodeId, u8)>> = Vec::new();
    for (id, list) in ports {
        for (rank, port) in list.into_iter().enumerate() {
            if ranks.len() <= rank {
                ranks.push(Vec::new());
            }
            if let Some(at) = ranks.get_mut(rank) {
                at.push((id, port));
            }
        }
    }
    ranks.concat()
}

/// Ports whose counters are worth asking for.
pub(super) fn counted_ports(node: &Node) -> Vec<u8> {
    let mut ports: Vec<u8> = Vec::new();
    if node.kind == NodeKind::Switch && node.has_enhanced_port0() {
        ports.push(0);
    }
    ports.extend(
        node.external_ports()
            .filter(|p| node.port(*p).is_some_and(|p| p.is_up()) && node.asking_lid(*p).is_some()),
    );
    ports
}

/// Ports whose state is worth asking for.
fn state_ports(node: &Node) -> Vec<u8> {
    if node.kind == NodeKind::Switch {
        return (0..=u8::try_from(node.ports.len().saturating_sub(1)).unwrap_or(u8::MAX)).collect();
    }
    node.external_ports()
        .filter(|p| *p == node.entry || node.port(*p).is_some_and(|p| p.info.is_some()))
        .collect()
}

impl Core {
    /// Begins the sweeps that are due.
    pub(super) fn run_loops(&mut self) {
        if self.is_due(SweepKind::Discovery) {
            if self.loops.is_running(SweepKind::Discovery) {
                self.loops.get_mut(SweepKind::Discovery).check = Some(self.now + RECHECK);
            } else {
                self.begin_discovery();
            }
        }
        for kind in [SweepKind::States, SweepKind::Counters] {
            if self.is_due(kind) && self.loops.get(kind).check.is_none_or(|c| c <= self.now) {
                self.begin_planned(kind);
            }
        }
    }

    fn is_due(&self, kind: SweepKind) -> bool {
        self.loops.get(kind).next.is_some_and(|at| at <= self.now)
    }

    fn begin(&mut self, kind: SweepKind, expected: u32) -> RunId {
        let it = self.loops.get_mut(kind);
        it.number += 1;
        it.began = Some(self.now);
        it.check = None;
        it.run = Some(Run {
            number: it.number,
            heard: self.now,
            ..Run::default()
        });
        let number = it.number;
        if kind == SweepKind::Discovery {
            self.topology
                .discovery_began(self.topology.generation().saturating_add(1));
        }
        self.emit(What::SweepBegan(SweepBegan {
            kind,
            number,
            expected,
            generation: self.topology.generation(),
        }));
        RunId { kind, number }
    }

    fn begin_discovery(&mut self) {
        let run = self.begin(SweepKind::Discovery, 0);
        let it = self.loops.get_mut(SweepKind::Discovery);
        it.next = Some(self.now + it.interval);
        self.enqueue(Job::new(Ask::NodeInfo, Who::Local).run(Some(run)));
    }

    /// The current rediscovery, or a new one. It stays open until [`Core::count`] is called once
    /// for this call.
    pub(super) fn open_rediscovery(&mut self) -> RunId {
        let run = match &self.loops.get(SweepKind::Rediscovery).run {
            Some(run) => RunId {
                kind: SweepKind::Rediscovery,
                number: run.number,
            },
            None => self.begin(SweepKind::Rediscovery, 0),
        };
        self.loops.opened(Some(run));
        run
    }

    /// Begins a sweep of a loop with a plan, or postpones it while the last one is busy.
    fn begin_planned(&mut self, kind: SweepKind) {
        if self.loops.is_running(kind) && !self.settle(kind) {
            self.loops.get_mut(kind).check = Some(self.now + RECHECK);
            return;
        }
        let (plan, skipped) = match kind {
            SweepKind::Counters => self.plan_counters(),
            _ => self.plan_states(),
        };
        let expected = match kind {
            SweepKind::Counters => plan.iter().map(|(id, _)| self.requests_per_port(*id)).sum(),
            _ => plan.len(),
        };
        let now = self.now;
        let it = self.loops.get_mut(kind);
        let due = it.next.unwrap_or(now);
        let late = now.since(due) > it.interval / 20;
        it.in_force = match it.began {
            Some(began) if late => now.since(began),
            _ => it.interval,
        };
        it.next = Some(if late { now } else { due } + it.interval);
        let run = self.begin(kind, u32::try_from(expected).unwrap_or(u32::MAX));
        if let Some(it) = self.loops.of(Some(run)) {
            it.plan = plan;
            it.skipped = skipped;
        }
        self.pace_changed();
        self.check_end(kind);
        if kind == SweepKind::Counters {
            self.learn_service_levels();
        }
    }

    fn is_skipped(&self, id: NodeId, lane: Lane) -> bool {
        self.nodes.get(&id).is_some_and(|node| {
            let seat = node.seat_ref(lane);
            seat.back.is_some() || seat.troubled
        })
    }

    fn plan_counters(&self) -> (Vec<(NodeId, u8)>, u32) {
        let limited = self.local.as_ref().is_some_and(|l| l.pkey_limited);
        let usable = self.has_agent(Agent::Perf) && self.config.counters;
        let mut skipped = 0;
        let nodes = self
            .topology
            .nodes()
            .filter(|node| usable && node.present && (!limited || node.kind == NodeKind::Switch));
        let plan = interleave(nodes.filter_map(|node| {
            if self.is_skipped(node.id, Lane::Gmp) {
                skipped += 1;
                return None;
            }
            Some((node.id, counted_ports(node)))
        }));
        (plan, skipped)
    }

    fn plan_states(&self) -> (Vec<(NodeId, u8)>, u32) {
        let mut skipped = 0;
        let plan = interleave(
            self.topology
                .nodes()
                .filter(|node| node.present && !node.guarded && self.config.states)
                .filter_map(|node| {
                    if self.is_skipped(node.id, Lane::Smp) {
                        skipped += 1;
                        return None;
                    }
                    Some((node.id, state_ports(node)))
                }),
        );
        (plan, skipped)
    }

    /// Takes the next port of a lane's plan and asks about it. False if there is none.
    pub(super) fn pull(&mut self, lane: Lane) -> bool {
        let kind = plan_of(lane);
        let Some(run) = self.loops.get_mut(kind).run.as_mut() else {
            return false;
        };
        let Some(&(id, port)) = run.plan.get(run.at) else {
            return false;
        };
        run.at += 1;
        let last = run.planned() == 0;
        if last {
            run.plan = Vec::new();
            run.at = 0;
        }
        let run = RunId {
            kind,
            number: run.number,
        };
        let gone = self.topology.node(id).is_none_or(|node| !node.present);
        if !gone && self.is_skipped(id, lane) {
            let slot = lane as usize;
            let mark = self
                .nodes
                .of(id)
                .skipped_in
                .get_mut(slot)
                .map(|mark| std::mem::replace(mark, run.number));
            if mark != Some(run.number) {
                self.loops.skipped(run);
            }
        } else if !gone {
            match lane {
                Lane::Smp => {
                    let job = Job::new(Ask::PortInfo(port), Who::Node(id));
                    self.enqueue(job.by(By::Lid).run(Some(run)));
                }
                Lane::Gmp => self.count_port(id, port, run),
            }
        }
        if last {
            self.check_end(kind);
        }
        true
    }
}

/// The lane on which a loop asks.
const fn lane_of(kind: SweepKind) -> Lane {
    match kind {
        SweepKind::Counters => Lane::Gmp,
        _ => Lane::Smp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_a_plan_are_on_different_nodes() {
        let (a, b) = (NodeId::new(1), NodeId::new(2));
        let plan = interleave([(a, vec![1, 2, 3]), (b, vec![1])].into_iter());
        assert_eq!(plan, [(a, 1), (b, 1), (a, 2), (a, 3)]);
    }
}
