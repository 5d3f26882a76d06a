//! What leaves: which job is next, and the MAD that it becomes.

use std::time::Duration;

use super::answer::is_sa;
use super::budget::MAX_IN_FLIGHT;
use super::core::{Core, Reply};
use super::guard::Step;
use super::job::{Ask, By, Done, Job, Lane, Who};
use super::rtt::{Rtt, waits};
use super::table::{Pending, Stage, Times};
use crate::event::{SendFailed, What};
use crate::fabric::sa::SaTable;
use crate::fabric::{DrPath, NodeId, NodeKind, Request, Target};
use crate::mad::{
    Attribute, ClassPortInfo, Gid, InformInfo, LftRecord, LinearForwardingTable, LinkRecord, Mad,
    Method, MlnxExtPortInfo, NodeDescription, NodeInfo, NodeRecord, NodeType, PathRecord, PortCaps,
    PortCounters, PortCountersExtended, PortExtendedSpeeds, PortInfo, PortInfoExtended,
    PortInfoRecord, PortSamplesControl, SmInfo, SwitchInfo, SwitchInfoRecord, component,
};
use crate::port::{Address, Agent, Outgoing, PortError};

/// How much longer than the port we wait: several failures are never reported.
const SLACK: Duration = Duration::from_millis(250);
/// How long a full send queue of the port is left alone.
const QUEUE_FULL: Duration = Duration::from_millis(1);
/// The top bit of PortInfo's modifier: the asker knows extended speeds.
const KNOWS_EXTENDED_SPEEDS: u32 = 1 << 31;
/// PortSelect for the sum over all ports.
const ALL_PORTS: u8 = 255;

/// A job made into a MAD.
struct Made {
    addr: Address,
    mad: Mad,
    target: Target,
}

/// Why a job becomes no MAD.
enum Unmade {
    /// It is not needed any more.
    Moot,
    /// There is no way to ask it.
    NoWay,
}

/// The question for the PortInfo of one port.
fn port_record(lid: u16, port: u8, tid: u64) -> Mad {
    let mut record = PortInfoRecord::new();
    record.set_lid(lid).set_port(port);
    let mask = component::PORT_LID | component::PORT_NUM;
    let mut mad = Mad::sa(Method::Get, PortInfoRecord::ID, 0, mask, tid);
    mad.set_data(&record);
    mad
}

/// The question for what a switch does not tell itself: a block of its table, or SwitchInfo.
fn switch_record(ask: Ask, lid: u16, tid: u64) -> Mad {
    if let Ask::ToldLft(_, block) = ask {
        let mut record = LftRecord::new();
        record.set_lid(lid).set_block(block);
        let mask = component::LFT_LID | component::LFT_BLOCK;
        let mut mad = Mad::sa(Method::Get, LftRecord::ID, 0, mask, tid);
        mad.set_data(&record);
        return mad;
    }
    let mut record = SwitchInfoRecord::new();
    record.set_lid(lid);
    let mask = component::SWITCH_LID;
    let mut mad = Mad::sa(Method::Get, SwitchInfoRecord::ID, 0, mask, tid);
    mad.set_data(&record);
    mad
}

impl Core {
    /// New requests of this lane may leave, rate apart.
    pub(super) fn can_ask(&self, lane: Lane) -> bool {
        !self.is_gone()
            && (!self.is_held() || self.is_closing())
            && self.share_ref(lane).has_room()
            && self.table.len() < usize::from(self.most_known())
            && self.in_flight() < MAX_IN_FLIGHT
    }

    fn in_flight(&self) -> u16 {
        Lane::ALL
            .iter()
            .map(|lane| self.share_ref(*lane).in_flight)
            .sum()
    }

    pub(super) fn has_work(&self, lane: Lane) -> bool {
        self.share_ref(lane).waiting() > 0 || (!self.is_closing() && self.loops.has_plan(lane))
    }

    /// Sends one MAD, if one may leave. False if none may.
    pub(super) fn pump(&mut self) -> bool {
        if self.is_gone() {
            return false;
        }
        for lane in Lane::ALL {
            if self.share_ref(lane).free_at() > self.now {
                continue;
            }
            if let Some(reply) = self.next_reply(lane) {
                let now = self.now;
                self.share(lane).sent(now);
                let sent = reply.record.then_some((reply.target, 0));
                self.output(reply.out, sent);
                return true;
            }
            while self.can_ask(lane) {
                let Some(job) = self.next_job(lane) else {
                    break;
                };
                if self.send(job) {
                    return true;
                }
            }
        }
        false
    }

    fn next_reply(&mut self, lane: Lane) -> Option<Reply> {
        self.replies.get_mut(lane as usize)?.pop_front()
    }

    fn next_job(&mut self, lane: Lane) -> Option<Job> {
        loop {
            if let Some(job) = self.share(lane).pop() {
                return Some(job);
            }
            if self.is_closing() || !self.pull(lane) {
                return self.share(lane).pop_again();
            }
        }
    }

    /// Makes a MAD of a job and sends it. False if it came to nothing.
    fn send(&mut self, job: Job) -> bool {
        if self.table.take_forgone(job.id) {
            return false;
        }
        let tid = self.table.fresh();
        let made = match self.make(&job, tid) {
            Ok(made) => made,
            Err(why) => {
                if let (true, Some(id)) = (job.probe, job.node()) {
                    // Nothing would ask it again: it starts anew.
                    self.forget_back_off(id);
                }
                let done = match why {
                    Unmade::Moot => Done::Dropped,
                    Unmade::NoWay => Done::Failed,
                };
                self.finish(job, done);
                return false;
            }
        };
        let Made {
            addr,
            mut mad,
            target,
        } = made;
        self.sign(job.ask, &mut mad);
        let timeout = self.timeout_of(job.ask);
        let now = self.now;
        let times = self.times(&job, timeout);
        let share = self.share(job.lane());
        share.departs(&job);
        share.sent(now);
        let attempt = job.attempt;
        let request = Request::of(&mad, addr.lid, target);
        self.table
            .insert(tid, Pending::new(job, request, now, times));
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        self.output(
            Outgoing {
                addr,
                mad,
                timeout_ms,
            },
            Some((target, attempt)),
        );
        true
    }

    /// When a request that leaves now is overdue, asked again, and over.
    fn times(&self, job: &Job, timeout: Duration) -> Times {
        let now = self.now;
        let mut times = Times {
            overdue: None,
            again: now + timeout,
            late: now + timeout,
            calm: now + timeout,
            resend: false,
            timeout: now + timeout,
            deadline: now + timeout + SLACK,
        };
        if is_sa(job.ask) {
            return times;
        }
        let share = self.share_ref(job.lane());
        let none = Rtt::default();
        let seat = self
            .whom(job)
            .and_then(|id| self.nodes.get(&id))
            .map(|node| node.seat_ref(job.lane()));
        let (node, patience) =
            seat.map_or((&none, Duration::ZERO), |seat| (&seat.rtt, seat.patience));
        let waits = waits(&share.rtt, &share.floor, node, patience, job.attempt);
        times.overdue = waits.overdue.map(|wait| now + wait.min(timeout));
        times.again = now + waits.again.min(timeout);
        times.late = now + waits.late.min(timeout);
        times.calm = now + waits.calm.min(timeout);
        times.resend = true;
        if job.ask.optional() && job.attempt >= self.attempts_of(job) {
            // Silence is an answer here, and not worth holding up the node's other questions.
            times.deadline = times.calm;
        }
        times
    }

    /// The node that will answer, as far as that is known.
    fn whom(&self, job: &Job) -> Option<NodeId> {
        match job.who {
            Who::Beyond(via) => self.topology.port(via)?.peer.map(|peer| peer.node),
            _ => job.node(),
        }
    }

    fn timeout_of(&self, ask: Ask) -> Duration {
        match ask {
            Ask::Table(table) => self.table_timeout(table),
            _ => self.timeout(),
        }
    }

    fn make(&self, job: &Job, tid: u32) -> Result<Made, Unmade> {
        match job.ask {
            Ask::SmInfo => {
                let lid = self.sm_lid().ok_or(Unmade::Moot)?;
                Ok(self.by_lid(job, lid, Target::default(), tid))
            }
            ask if ask.lane() == Lane::Smp => self.make_smp(job, tid),
            ask if is_sa(ask) => self.make_sa(job, tid),
            _ => self.make_perf(job, tid),
        }
    }

    fn generation(&self) -> u32 {
        self.topology.generation()
    }

    fn by_lid(&self, job: &Job, lid: u16, target: Target, tid: u32) -> Made {
        let (attribute, modifier) = self.smp_attribute(job);
        Made {
            addr: Address::smp(lid),
            mad: Mad::smp_lid(Method::Get, attribute, modifier, u64::from(tid)),
            target: if job.who == Who::Sm {
                self.sm_target()
            } else {
                target
            },
        }
    }

    fn make_smp(&self, job: &Job, tid: u32) -> Result<Made, Unmade> {
        let generation = self.generation();
        let (target, path) = match job.who {
            Who::Local => (Target::local(generation), DrPath::LOCAL),
            Who::Beyond(key) => {
                let node = self.topology.node(key.node).ok_or(Unmade::Moot)?;
                let guarded = node
                    .port(key.port)
                    .and_then(|p| self.topology.node(p.peer?.node))
                    .is_some_and(|peer| peer.guarded);
                if !node.present || guarded || self.is_link_verified(key, job) {
                    return Err(Unmade::Moot);
                }
                let path = node.route.then(key.port).ok_or(Unmade::NoWay)?;
                (Target::beyond(key, generation), path)
            }
            Who::Node(id) => {
                let node = self.topology.node(id).ok_or(Unmade::Moot)?;
                if node.guarded {
                    return Err(Unmade::Moot);
                }
                if matches!(job.ask, Ask::Fdr10(_) | Ask::Fec(_))
                    && self.nodes.get(&id).is_some_and(|n| n.no_link_details)
                {
                    return Err(Unmade::Moot);
                }
                // Whether a missing node is back is what discovery finds out.
                if !node.present && !job.probe {
                    return Err(Unmade::Moot);
                }
                let target = match job.ask {
                    Ask::PortInfo(port) | Ask::Fdr10(port) | Ask::Fec(port) => {
                        Target::port(id.port(port), generation)
                    }
                    Ask::SmInfoAt(port) => Target::port(id.port(port), generation),
                    _ => Target::node(id, generation),
                };
                let lid = match job.ask {
                    Ask::SmInfoAt(port) => node.lid(port),
                    _ => node.any_lid(),
                };
                // Silence may mean that the LID is another by now: further attempts go by route.
                if job.by == By::Lid
                    && job.attempt == 1
                    && self.can_route_by_lid()
                    && let Some(lid) = lid
                    && self.topology.local().is_none_or(|local| local.node != id)
                {
                    return Ok(self.by_lid(job, lid, target, tid));
                }
                if matches!(job.ask, Ask::SmInfoAt(port) if port != 0 && port != node.entry) {
                    // The route enters the node by another port, where another SM may run.
                    return Err(Unmade::NoWay);
                }
                (target, node.route)
            }
            Who::Sm => return Err(Unmade::NoWay),
        };
        if !self.has_agent(Agent::SmpDirected) {
            return Err(Unmade::NoWay);
        }
        let (attribute, modifier) = self.smp_attribute(job);
        let mad = Mad::smp_dr(
            Method::Get,
            attribute,
            modifier,
            path.hops(),
            u64::from(tid),
        )
        .map_err(|_| Unmade::NoWay)?;
        Ok(Made {
            addr: Address::directed(),
            mad,
            target,
        })
    }

    /// SMPs by LID reach others: there is an SM that set up the tables, and this port may send
    /// them.
    pub(super) fn can_route_by_lid(&self) -> bool {
        self.has_agent(Agent::SmpLid)
            && self.local.as_ref().is_some_and(|l| {
                l.lid != 0
                    && l.sm_lid != 0
                    && l.state == 4
                    && !PortCaps(l.cap_mask).has(PortCaps::SM_DISABLED)
            })
    }

    fn smp_attribute(&self, job: &Job) -> (u16, u32) {
        match job.ask {
            Ask::NodeDescription => (NodeDescription::ID, 0),
            Ask::SwitchInfo => (SwitchInfo::ID, 0),
            Ask::SmInfo | Ask::SmInfoAt(_) => (SmInfo::ID, 0),
            Ask::Lft(block) => (LinearForwardingTable::ID, u32::from(block)),
            Ask::PortInfo(port) => {
                let extended = job
                    .node()
                    .and_then(|id| self.topology.node(id))
                    .and_then(|node| node.capability_masks(port))
                    .is_some_and(|(caps, _)| caps.has(PortCaps::EXT_SPEEDS));
                let flag = if extended { KNOWS_EXTENDED_SPEEDS } else { 0 };
                (PortInfo::ID, u32::from(port) | flag)
            }
            Ask::Fdr10(port) => (MlnxExtPortInfo::ID, u32::from(port)),
            Ask::Fec(port) => (PortInfoExtended::ID, u32::from(port)),
            _ => (NodeInfo::ID, 0),
        }
    }

    fn make_perf(&self, job: &Job, tid: u32) -> Result<Made, Unmade> {
        let id = job.node().ok_or(Unmade::NoWay)?;
        let node = self.topology.node(id).ok_or(Unmade::Moot)?;
        if !node.present {
            return Err(Unmade::Moot);
        }
        if !self.has_agent(Agent::Perf) {
            return Err(Unmade::NoWay);
        }
        let local = self.local.as_ref().ok_or(Unmade::NoWay)?;
        let (attribute, port) = match job.ask {
            Ask::Counters(port) => (PortCounters::ID, Some(port)),
            Ask::CountersExt(port) => (PortCountersExtended::ID, Some(port)),
            Ask::Tick(port) => (PortSamplesControl::ID, Some(port)),
            Ask::AllPorts => (PortCounters::ID, Some(ALL_PORTS)),
            Ask::Speeds(port) => (PortExtendedSpeeds::ID, Some(port)),
            Ask::Detail(attribute, port) => (attribute, Some(port)),
            _ => (ClassPortInfo::ID, None),
        };
        if let Some(port) = port
            && port != 0
            && !matches!(job.ask, Ask::Tick(_) | Ask::AllPorts | Ask::Detail(..))
            && node.port(port).is_none_or(|p| !p.is_up())
        {
            return Err(Unmade::Moot);
        }
        let lid = match port {
            Some(port) if node.kind != NodeKind::Switch && port != ALL_PORTS => {
                node.asking_lid(port)
            }
            _ => node.any_lid(),
        }
        .ok_or(Unmade::NoWay)?;
        let state = self.nodes.get(&id);
        let sl = state.and_then(|n| n.sl).unwrap_or(0);
        let mut addr = Address::gmp(lid, sl, local.pkey_index.unwrap_or(0));
        if let Some(to) = state.and_then(|n| n.redirect) {
            addr.lid = to.lid;
            addr.qpn = to.qpn;
            addr.qkey = to.qkey;
            addr.sl = to.sl;
            addr.pkey_index = self.pkey_index_for(to.pkey).ok_or(Unmade::NoWay)?;
        }
        let generation = self.generation();
        Ok(match port {
            Some(port) => Made {
                addr,
                mad: Mad::perf_port(attribute, port, u64::from(tid)),
                target: Target::port(id.port(port), generation),
            },
            None => Made {
                addr,
                mad: Mad::perf(Method::Get, attribute, 0, u64::from(tid)),
                target: Target::node(id, generation),
            },
        })
    }

    fn make_sa(&self, job: &Job, tid: u32) -> Result<Made, Unmade> {
        let local = self.local.as_ref().ok_or(Unmade::NoWay)?;
        let sm_lid = self.sa_lid().ok_or(Unmade::Moot)?;
        let tid = u64::from(tid);
        let mad = match job.ask {
            Ask::Inform(subscribe) => {
                let mut mad = Mad::sa(Method::Set, InformInfo::ID, 0, 0, tid);
                mad.set_data(&InformInfo::all_generic(subscribe));
                mad
            }
            Ask::Path(id) => {
                let to = self
                    .topology
                    .node(id)
                    .and_then(|node| node.any_lid())
                    .ok_or(Unmade::Moot)?;
                let mut record = PathRecord::new();
                record.set_dlid(to).set_slid(local.lid);
                record.set_reversible(true).set_numb_path(1);
                let mask = component::PATH_DLID
                    | component::PATH_SLID
                    | component::PATH_REVERSIBLE
                    | component::PATH_NUMB_PATH;
                let mut mad = Mad::sa(Method::Get, PathRecord::ID, 0, mask, tid);
                mad.set_data(&record);
                mad
            }
            Ask::PathGid(id) => {
                let (gid, .., pkey) = self
                    .nodes
                    .get(&id)
                    .and_then(|n| n.redirect_gid)
                    .ok_or(Unmade::Moot)?;
                let mut record = PathRecord::new();
                record
                    .set_dgid(gid)
                    .set_sgid(Gid::new(local.gid_prefix, local.port_guid));
                record.set_reversible(true).set_numb_path(1);
                let mut mask = component::PATH_DGID
                    | component::PATH_SGID
                    | component::PATH_REVERSIBLE
                    | component::PATH_NUMB_PATH;
                if !matches!(pkey & 0x7FFF, 0 | 0x7FFF) {
                    record.set_pkey(pkey);
                    mask |= component::PATH_PKEY;
                }
                let mut mad = Mad::sa(Method::Get, PathRecord::ID, 0, mask, tid);
                mad.set_data(&record);
                mad
            }
            // Every path from here, one to each port: what the SLs are taken from.
            Ask::Table(SaTable::Paths) => {
                let mut record = PathRecord::new();
                record
                    .set_slid(local.lid)
                    .set_reversible(true)
                    .set_numb_path(1);
                let mask =
                    component::PATH_SLID | component::PATH_REVERSIBLE | component::PATH_NUMB_PATH;
                let mut mad = Mad::sa(Method::GetTable, PathRecord::ID, 0, mask, tid);
                mad.set_data(&record);
                mad
            }
            Ask::Table(table) => Mad::sa(Method::GetTable, table.id(), 0, 0, tid),
            Ask::ToldLft(id, _) | Ask::ToldSwitch(id) => {
                let lid = self.topology.node(id).and_then(|node| node.any_lid());
                let lid = lid.ok_or(Unmade::NoWay)?;
                return Ok(Made {
                    addr: Address::gmp(sm_lid, local.sm_sl, local.pkey_index.unwrap_or(0)),
                    mad: switch_record(job.ask, lid, tid),
                    target: Target::node(id, self.generation()),
                });
            }
            Ask::Told(step) => {
                let (mad, target) = self.make_told(step, tid).ok_or(Unmade::Moot)?;
                return Ok(Made {
                    addr: Address::gmp(sm_lid, local.sm_sl, local.pkey_index.unwrap_or(0)),
                    mad,
                    target,
                });
            }
            _ => return Err(Unmade::NoWay),
        };
        Ok(Made {
            addr: Address::gmp(sm_lid, local.sm_sl, local.pkey_index.unwrap_or(0)),
            mad,
            target: self.sm_target(),
        })
    }

    /// The question for one record about somebody who does not answer, and whom it is about.
    fn make_told(&self, step: Step, tid: u64) -> Option<(Mad, Target)> {
        let generation = self.generation();
        Some(match step {
            Step::Link(via) => {
                let mut record = LinkRecord::new();
                let from = self.topology.node(via.node)?.lid(via.port)?;
                record.set_from_lid(from).set_from_port(via.port);
                let mask = component::LINK_FROM_LID | component::LINK_FROM_PORT;
                let mut mad = Mad::sa(Method::Get, LinkRecord::ID, 0, mask, tid);
                mad.set_data(&record);
                (mad, Target::beyond(via, generation))
            }
            Step::Node(via) => {
                let mut record = NodeRecord::new();
                record.set_lid(self.topology.told(via)?.lid);
                let mut mad = Mad::sa(Method::Get, NodeRecord::ID, 0, component::NODE_LID, tid);
                mad.set_data(&record);
                (mad, Target::beyond(via, generation))
            }
            Step::Guard(via) => {
                let told = self.topology.told(via)?;
                let switch = told.node?.0.node_type() == NodeType::Switch;
                let port = if switch { 0 } else { told.port };
                let mad = port_record(told.lid, port, tid);
                (mad, Target::beyond(via, generation))
            }
            Step::Port(key) => {
                let lid = self.topology.node(key.node)?.any_lid()?;
                let mad = port_record(lid, key.port, tid);
                (mad, Target::port(key, generation))
            }
        })
    }

    /// The SM's port, as far as the topology knows it.
    pub(super) fn sm_target(&self) -> Target {
        let generation = self.generation();
        self.local
            .as_ref()
            .and_then(|l| self.topology.by_lid(l.sm_lid))
            .map_or(
                Target {
                    generation,
                    ..Target::default()
                },
                |key| Target::port(key, generation),
            )
    }

    /// The port refused a MAD.
    pub(super) fn send_failed(&mut self, tid: u32, class: u8, error: PortError) {
        if let PortError::Gone { .. } = error {
            self.handle(self.now, super::Input::Gone(error.to_string()));
            return;
        }
        let Some(pending) = self.table.unanswered(tid, class) else {
            return;
        };
        let mut job = pending.job;
        let now = self.now;
        let share = self.share(job.lane());
        if pending.stage == Stage::Window {
            share.over(&job);
        }
        share.unsent();
        if error == PortError::WouldBlock {
            share.blocked = now + QUEUE_FULL;
            share.push_front(job);
            return;
        }
        let last = job.attempt >= self.attempts_of(&job);
        self.emit(What::SendFailed(Box::new(SendFailed {
            tid,
            target: pending.request.target,
            class,
            attribute: pending.request.attribute,
            modifier: pending.request.modifier,
            attempt: job.attempt,
            last,
            why: error.to_string(),
        })));
        if last {
            self.give_up(job, pending.request.target);
        } else {
            // As if it had taken its timeout: a device that refuses at once is not asked faster
            // than one that is silent.
            job.attempt += 1;
            self.delay(job, pending.timeout);
        }
    }

    pub(super) fn attempts_of(&self, job: &Job) -> u8 {
        if self.is_closing() {
            return job.attempt;
        }
        match job.attempts {
            0 => self.settings().attempts.max(1),
            some => some,
        }
    }

    /// Sends a job again, not before `at`; it keeps its place at its node until then.
    pub(super) fn delay(&mut self, job: Job, at: crate::port::Stamp) {
        if at <= self.now {
            self.share(job.lane()).push(job);
        } else {
            self.serial += 1;
            self.delayed.insert((at, self.serial), job);
        }
    }

    /// A discovery's question about a link that was answered from its other end meanwhile.
    fn is_link_verified(&self, key: crate::fabric::PortKey, job: &Job) -> bool {
        job.run
            .is_some_and(|run| run.kind == crate::event::SweepKind::Discovery)
            && self.is_verified(key)
    }

    pub(super) fn is_verified(&self, key: crate::fabric::PortKey) -> bool {
        let generation = self.generation();
        self.nodes
            .get(&key.node)
            .is_some_and(|n| n.is_verified(key.port, generation))
    }

    /// A node is in the topology and there.
    pub(super) fn is_present(&self, id: NodeId) -> bool {
        self.topology.node(id).is_some_and(|node| node.present)
    }
}
