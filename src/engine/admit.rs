//! Admission: a job waits for a place at its node, then for one in its budget, and gives both
//! back at its end.

use super::core::Core;
use super::job::{Ask, Done, Job, Who};

impl Core {
    /// Lets a job in: it waits for a place at its node, then for one in its budget.
    pub(super) fn enqueue(&mut self, mut job: Job) {
        self.loops.opened(job.run);
        job.seat = match job.who {
            Who::Node(id) => Some(id),
            Who::Sm => self
                .local
                .as_ref()
                .and_then(|l| self.topology.by_lid(l.sm_lid))
                .map(|key| key.node),
            Who::Local => self.topology.local().map(|key| key.node),
            // Where it is known who is there, the question counts as one to that node.
            Who::Beyond(via) => {
                let peer = self.topology.port(via).and_then(|p| p.peer);
                peer.map(|peer| peer.node)
            }
        };
        let lane = job.lane();
        if let Some(id) = job.seat {
            let per_node = self.share_ref(lane).per_node();
            let seat = self.nodes.of(id).seat(lane);
            if seat.back.is_some() && !job.probe && job.node().is_some() {
                self.account(job, Done::Failed);
                return;
            }
            if seat.active >= per_node {
                if job.urgent {
                    seat.waiting.push_front(job);
                } else {
                    seat.waiting.push_back(job);
                }
                self.parked += 1;
                return;
            }
            seat.active += 1;
        }
        self.share(lane).push(job);
    }

    /// A job is over: its place goes to the next one, its sweep counts it.
    pub(super) fn finish(&mut self, job: Job, done: Done) {
        self.end_earlier_attempts(&job);
        if job.ask == Ask::Inform(false) {
            self.sa.withdrawing = false;
        }
        let lane = job.lane();
        if let Some(id) = job.seat
            && let Some(node) = self.nodes.get_mut(&id)
        {
            let seat = node.seat(lane);
            seat.active = seat.active.saturating_sub(1);
            if let Some(next) = seat.waiting.pop_front() {
                seat.active += 1;
                self.parked = self.parked.saturating_sub(1);
                self.share(lane).push(next);
            }
        }
        self.account(job, done);
    }

    /// What a job's end means beyond its place.
    pub(super) fn account(&mut self, job: Job, done: Done) {
        match job.who {
            Who::Beyond(key) => {
                self.probing.remove(&key);
            }
            Who::Sm if matches!(job.ask, Ask::Told(_)) => self.told_over(done),
            Who::Sm => self.sa.over(job.ask),
            _ => {}
        }
        match job.ask {
            Ask::Table(table) => self.table_over(table, done),
            Ask::Lft(_) | Ask::SwitchInfo | Ask::ToldLft(..) | Ask::ToldSwitch(_) => {
                self.route_answered(job.node(), job.ask, done);
            }
            Ask::SmInfoAt(port) => self.sm_answered(job.node().map(|id| id.port(port)), done),
            _ => {}
        }
        if job.ask == Ask::PerfCaps
            && let Some(id) = job.node()
        {
            self.perf_caps_over(id, done);
        }
        match (job.ask, job.node()) {
            (Ask::AllPorts, Some(id)) => self.sums_over(id),
            (Ask::Detail(..), _) => self.focus_answered(),
            _ => {}
        }
        self.count(job.run, done);
    }
}
