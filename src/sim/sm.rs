//! The subnet manager: sees what switches tell it, brings links up, makes routes, and tells its
//! subscribers.

use std::collections::{BTreeMap, HashSet};

use super::fabric::Fabric;
use super::flight::nanos;
use super::options::{SimOptions, SmAt};
use super::sma::GID_PREFIX;
use super::world::{ACTIVE, Due, INIT, Landing, NONE, Port, World};
use crate::fabric::NodeKind;
use crate::mad::{
    Attribute, Gid, InformInfo, Mad, Method, MgmtClass, Notice, NoticeType, PortCaps, ProducerType,
    ReportedNotice, SmInfo, SmState,
};

/// A report is sent again this often until it is acknowledged.
const RESENDS: u8 = 3;
/// Time between these, ns.
const RESEND_AFTER: u64 = 800_000_000;
/// Activity counts a second.
const ACTIVITY: u64 = 10;
/// Reports that may wait for their acknowledgement; what comes on top is sent once.
const UNACKNOWLEDGED: usize = 4096;

/// One subnet manager.
pub struct Instance {
    pub node: u32,
    /// Flat index of its port.
    pub port: u32,
    pub guid: u64,
    pub priority: u8,
    pub state: SmState,
    /// When its activity count was zero.
    born: u64,
    /// When it hung.
    hung: Option<u64>,
}

/// A subscriber to notices.
pub struct Subscription {
    pub lid: u16,
    pub gid: Gid,
    pub inform: InformInfo,
}

struct Outstanding {
    mad: Mad,
    left: u8,
}

/// All subnet managers, and what the master keeps.
#[derive(Default)]
pub struct Manager {
    pub instances: Vec<Instance>,
    pub master: Option<usize>,
    master_lid: u16,
    pub subscriptions: Vec<Subscription>,
    sweeping: bool,
    traps: Vec<Option<Notice>>,
    outstanding: BTreeMap<u32, Outstanding>,
    report_tid: u32,
    /// Ports that could be reached at the last sweep.
    present: HashSet<u32>,
}

impl Manager {
    pub fn new(fabric: &Fabric, options: &SimOptions, local: usize) -> Manager {
        let chosen: Vec<usize> = match options.sm {
            SmAt::Nowhere => Vec::new(),
            SmAt::Node(id) => fabric
                .nodes
                .iter()
                .position(|n| n.guid == id.guid.0)
                .into_iter()
                .collect(),
            SmAt::Auto => sm_nodes(fabric, local),
        };
        let mut first = 0u32;
        let firsts: Vec<u32> = fabric
            .nodes
            .iter()
            .map(|n| {
                let at = first;
                first += n.ports.len() as u32;
                at
            })
            .collect();
        let mut instances = Vec::new();
        for node in chosen {
            let Some(spec) = fabric.nodes.get(node) else {
                continue;
            };
            let number = match spec.kind {
                NodeKind::Switch => 0,
                _ => spec
                    .ports
                    .iter()
                    .position(|p| p.peer.is_some())
                    .unwrap_or(1),
            };
            let (Some(first), Some(port)) = (firsts.get(node), spec.ports.get(number)) else {
                continue;
            };
            instances.push(Instance {
                node: node as u32,
                port: first + number as u32,
                guid: port.guid,
                priority: if instances.is_empty() { 14 } else { 8 },
                state: if instances.is_empty() {
                    SmState::Master
                } else {
                    SmState::Standby
                },
                born: 0,
                hung: None,
            });
        }
        let master_lid = instances
            .first()
            .and_then(|i| fabric.nodes.get(i.node as usize))
            .and_then(|n| n.ports.iter().find(|p| p.lid != 0))
            .map_or(0, |p| p.lid);
        Manager {
            master: (!instances.is_empty()).then_some(0),
            instances,
            master_lid,
            report_tid: 0x0100,
            ..Manager::default()
        }
    }

    /// LID of the master; 0 if there is none.
    pub fn lid(&self) -> u16 {
        self.master_lid
    }

    /// Flat index of the port that the master is at.
    pub fn master_port(&self) -> Option<u32> {
        Some(self.instances.get(self.master?)?.port)
    }

    pub fn master_node(&self) -> Option<u32> {
        Some(self.instances.get(self.master?)?.node)
    }

    /// An SM runs on this node.
    pub fn runs_at(&self, node: u32) -> bool {
        self.instances
            .iter()
            .any(|i| i.node == node && i.state != SmState::NotActive)
    }

    /// SMInfo as the SM on a node gives it.
    pub fn info_at(&self, node: u32, now: u64) -> Option<SmInfo> {
        let instance = self.instances.iter().find(|i| i.node == node)?;
        let mut info = SmInfo::new();
        let until = instance.hung.unwrap_or(now);
        let count = until.saturating_sub(instance.born) / (1_000_000_000 / ACTIVITY);
        info.set_guid(instance.guid)
            .set_act_count(count as u32)
            .set_priority(instance.priority)
            .set_state(instance.state);
        Some(info)
    }

    /// Remembers which ports can be reached.
    pub fn note_present(&mut self, ports: &[Port], subnet: &[bool]) {
        self.present = (0u32..)
            .zip(ports.iter().zip(subnet))
            .filter(|(_, (p, reached))| p.lid != 0 && p.state == ACTIVE && **reached)
            .map(|(i, _)| i)
            .collect();
    }
}

/// `mgmt1` and `mgmt2` where there are such nodes, else the first two adapters but our own;
/// where there is none, our own.
pub fn sm_nodes(fabric: &Fabric, local: usize) -> Vec<usize> {
    let named: Vec<usize> = ["mgmt1", "mgmt2"]
        .iter()
        .filter_map(|n| fabric.find(n))
        .collect();
    if !named.is_empty() {
        return named;
    }
    let others: Vec<usize> = fabric.hosts().filter(|n| *n != local).take(2).collect();
    if others.is_empty() {
        vec![local]
    } else {
        others
    }
}

impl World {
    /// There is a master, it does not hang, and its node lives.
    pub fn sm_awake(&self) -> bool {
        self.sm
            .master
            .and_then(|m| self.sm.instances.get(m))
            .is_some_and(|i| {
                let node = self.nodes.get(i.node as usize);
                i.hung.is_none() && node.is_some_and(|n| !n.dead)
            })
    }

    /// A node tells the SM what happened at one of its ports.
    pub fn send_trap(&mut self, node: u32, port: u8, number: u16) {
        if let Some(notice) = self.notice(node, port, number) {
            self.send_notice(node, port, notice);
        }
    }

    /// A node tells the SM of a request with a wrong M_Key: who asked what, and by which way
    /// (spec 14.2.5.1, trap 256).
    pub fn send_key_trap(&mut self, landing: Landing, mad: &Mad) {
        let switch = self.nodes.get(landing.node as usize);
        let switch = switch.is_some_and(|n| n.kind == NodeKind::Switch);
        let port = if switch { 0 } else { landing.port };
        let Some(mut notice) = self.notice(landing.node, port, 256) else {
            return;
        };
        let directed = mad.class() == MgmtClass::SubnDirected;
        let asker = self
            .end_port(self.local.0, self.local_number())
            .map_or(0, |p| p.lid);
        let mut details = [0u8; 54];
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in details.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        // Offsets from the details' beginning: byte 10 of the notice.
        put(2, &asker.to_be_bytes());
        put(6, &[mad.method().code()]);
        put(8, &mad.attr_id().to_be_bytes());
        put(10, &mad.attr_mod().to_be_bytes());
        put(14, &mad.m_key().to_be_bytes());
        if directed {
            put(4, &crate::port::PERMISSIVE_LID.to_be_bytes());
            let path = mad.initial_path().to_vec();
            let mut entered = [0u8; 30];
            self.walk(&path, |hop, port| {
                if let Some(entry) = entered.get_mut(hop) {
                    *entry = port;
                }
            });
            let truncated = u8::from(path.len() > entered.len()) << 6;
            let hops = path.len().min(entered.len()) as u8;
            put(23, &[0x80 | truncated | hops]);
            put(24, &entered);
        }
        notice.set_details(details);
        self.send_notice(landing.node, port, notice);
    }

    fn send_notice(&mut self, node: u32, port: u8, notice: Notice) {
        let sm_lid = self.sm.lid();
        let Some(n) = self.nodes.get(node as usize) else {
            return;
        };
        let switch = n.kind == NodeKind::Switch;
        if n.dead || sm_lid == 0 {
            return;
        }
        let from = n.first + if switch { 0 } else { u32::from(port.max(1)) };
        let hops = match self.route(from, sm_lid, false, |_| {}) {
            Some(way) => u64::from(way.hops),
            None => return,
        };
        let at = self.now + hops * nanos(self.options.hop) + nanos(self.options.node);
        let slot = self.sm.traps.iter().position(Option::is_none);
        let slot = slot.unwrap_or_else(|| {
            self.sm.traps.push(None);
            self.sm.traps.len() - 1
        });
        if let Some(place) = self.sm.traps.get_mut(slot) {
            *place = Some(notice);
        }
        self.schedule(at, Due::Trap(slot as u32));
    }

    fn notice(&self, node: u32, port: u8, number: u16) -> Option<Notice> {
        let n = self.nodes.get(node as usize)?;
        let lid = self.end_port(node, port.max(1)).map_or(0, |p| p.lid);
        let mut notice = Notice::new();
        let kind = match number {
            128..=131 => NoticeType::Urgent,
            256..=259 => NoticeType::Security,
            144 | 145 => NoticeType::Info,
            _ => NoticeType::SubnMgmt,
        };
        notice
            .set_is_generic(true)
            .set_notice_type(kind)
            .set_producer_type(match n.kind {
                NodeKind::Switch => ProducerType::Switch,
                NodeKind::Router => ProducerType::Router,
                _ => ProducerType::Ca,
            })
            .set_trap_number(number)
            .set_issuer_lid(lid);
        // Where traps hold what: specification tables of 14.2.5.1.
        let mut details = [0u8; 54];
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in details.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        let lid = lid.to_be_bytes();
        match number {
            128 => put(0, &lid),
            129..=131 => {
                put(2, &lid);
                put(4, &[port]);
            }
            144 => {
                put(2, &lid);
                let (caps, _) = n.generation.port_caps(n.kind);
                put(6, &(caps | PortCaps(0)).0.to_be_bytes());
                put(10, &1u16.to_be_bytes());
            }
            145 => {
                put(2, &lid);
                put(6, &n.system_guid.to_be_bytes());
            }
            // Its details are those of the request.
            256 => {}
            257..=259 => {
                put(2, &lid);
                put(6, &0x7FFFu32.to_be_bytes());
            }
            _ => {}
        }
        notice.set_details(details);
        Some(notice)
    }

    /// A trap arrives at the SM.
    pub fn trap_arrived(&mut self, slot: u32) {
        let notice = self.sm.traps.get_mut(slot as usize).and_then(Option::take);
        let Some(notice) = notice else { return };
        if !self.sm_awake() {
            return;
        }
        if notice.trap_number() == 128 {
            self.plan_sweep();
        }
        self.report(notice);
    }

    pub fn plan_sweep(&mut self) {
        if self.sm.master.is_some() && !self.sm.sweeping {
            self.sm.sweeping = true;
            self.schedule(self.now + nanos(self.options.sweep), Due::Sweep);
        }
    }

    /// The SM has swept: links that trained become Active, ports without a LID get one, routes
    /// follow the links, subscribers learn who came and went.
    pub fn sweep(&mut self) {
        self.sm.sweeping = false;
        if !self.sm_awake() {
            return;
        }
        let mut activated = Vec::new();
        let mut need_lid = Vec::new();
        for (index, port) in (0u32..).zip(&self.ports) {
            let Some(node) = self.nodes.get(port.node as usize) else {
                continue;
            };
            let peer = self.ports.get(port.peer as usize);
            let peer_node = peer.and_then(|p| self.nodes.get(p.node as usize));
            let answering = |n: Option<&super::world::Node>| n.is_some_and(|n| !n.dead);
            if port.is_up() && port.state == INIT && answering(Some(node)) && answering(peer_node) {
                activated.push(index);
            }
            let has_lid = match node.kind {
                NodeKind::Switch => port.number == 0,
                _ => port.is_up() && port.number != 0,
            };
            if has_lid && port.lid == 0 {
                need_lid.push(index);
            }
        }
        for index in activated {
            if let Some(port) = self.ports.get_mut(index as usize) {
                port.state = ACTIVE;
            }
        }
        for index in need_lid {
            let lid = self.free_lid();
            if let Some(port) = self.ports.get_mut(index as usize) {
                port.lid = lid;
            }
            self.index_lids();
        }
        for node in &mut self.nodes {
            if !node.dead {
                node.port_state_change = false;
            }
        }
        self.reroute();
        self.reroute_traffic();
        self.tell_who_came_and_went();
    }

    fn free_lid(&self) -> u16 {
        let taken = |lid: usize| self.by_lid.get(lid).is_some_and(|p| *p != NONE);
        (1..0xC000usize)
            .find(|lid| !taken(*lid))
            .map_or(0, |lid| lid as u16)
    }

    fn tell_who_came_and_went(&mut self) {
        let before = std::mem::take(&mut self.sm.present);
        self.sm.note_present(&self.ports, &self.subnet);
        let mut changed: Vec<(u32, u16)> = before
            .difference(&self.sm.present)
            .map(|p| (*p, 65))
            .chain(self.sm.present.difference(&before).map(|p| (*p, 64)))
            .collect();
        changed.sort_unstable();
        for (port, trap) in changed {
            let Some(guid) = self.ports.get(port as usize).map(|p| p.guid) else {
                continue;
            };
            let mut notice = Notice::new();
            let mut details = [0u8; 54];
            let gid = Gid::new(GID_PREFIX, guid);
            for (to, from) in details.iter_mut().skip(6).zip(gid.0) {
                *to = from;
            }
            notice
                .set_is_generic(true)
                .set_notice_type(NoticeType::SubnMgmt)
                .set_producer_type(ProducerType::ClassMgr)
                .set_trap_number(trap)
                .set_issuer_lid(self.sm.lid())
                .set_details(details);
            self.report(notice);
        }
    }

    /// Forwards a notice to all who subscribed to it.
    pub fn report(&mut self, notice: Notice) {
        let sm_lid = self.sm.lid();
        let issuer = self
            .by_lid
            .get(usize::from(notice.issuer_lid()))
            .and_then(|p| self.ports.get(*p as usize))
            .map_or(0, |p| p.guid);
        let own_lid = self
            .end_port(self.local.0, self.local_number())
            .map_or(0, |p| p.lid);
        let wanted = self
            .sm
            .subscriptions
            .iter()
            .any(|s| s.lid == own_lid && matches(&s.inform, &notice));
        if !wanted || self.options.reports_taken {
            return;
        }
        let mut reported = ReportedNotice::new();
        reported
            .set_notice(notice)
            .set_issuer_gid(Gid::new(GID_PREFIX, issuer));
        self.sm.report_tid = self.sm.report_tid.wrapping_add(1);
        let tid = self.sm.report_tid;
        let mut mad = Mad::sa(Method::Report, Notice::ID, 0, 0, u64::from(tid));
        mad.set_data(&reported);
        self.send_report(&mad, sm_lid);
        if self.sm.outstanding.len() < UNACKNOWLEDGED {
            let left = RESENDS;
            self.sm.outstanding.insert(tid, Outstanding { mad, left });
            self.schedule(self.now + RESEND_AFTER, Due::Resend(tid));
        }
    }

    fn send_report(&mut self, mad: &Mad, sm_lid: u16) {
        let Some(from) = self
            .sm
            .master
            .and_then(|m| self.sm.instances.get(m))
            .map(|i| i.port)
        else {
            return;
        };
        let lid = self
            .end_port(self.local.0, self.local_number())
            .map_or(0, |p| p.lid);
        let Some(way) = self.route(from, lid, true, |_| {}) else {
            return;
        };
        if way.hops > 0 && self.rng.chance(self.options.loss) {
            return;
        }
        let after = u64::from(way.hops) * nanos(self.options.hop);
        if !self.gone {
            self.send_to_us(mad.clone(), sm_lid, after);
        }
    }

    /// A report was not acknowledged in time.
    pub fn resend(&mut self, tid: u32) {
        let Some(report) = self.sm.outstanding.get_mut(&tid) else {
            return;
        };
        report.left -= 1;
        let (mad, left) = (report.mad.clone(), report.left);
        if left == 0 {
            self.sm.outstanding.remove(&tid);
        } else {
            self.schedule(self.now + RESEND_AFTER, Due::Resend(tid));
        }
        let sm_lid = self.sm.lid();
        self.send_report(&mad, sm_lid);
    }

    /// A subscriber acknowledged a report.
    pub fn acknowledged(&mut self, tid: u32) {
        self.sm.outstanding.remove(&tid);
    }

    /// The master dies; the best standby becomes master.
    pub fn fail_over(&mut self) {
        if let Some(old) = self.sm.master.and_then(|m| self.sm.instances.get_mut(m)) {
            old.state = SmState::NotActive;
        }
        self.sm.subscriptions.clear();
        self.sm.outstanding.clear();
        self.sm.sweeping = false;
        let next = (0..self.sm.instances.len())
            .filter(|i| {
                self.sm
                    .instances
                    .get(*i)
                    .is_some_and(|i| i.state == SmState::Standby)
            })
            .max_by_key(|i| self.sm.instances.get(*i).map(|i| i.priority));
        self.sm.master = next;
        if let Some(new) = next.and_then(|n| self.sm.instances.get_mut(n)) {
            new.state = SmState::Master;
        }
        self.find_master_lid();
        self.plan_sweep();
    }

    /// The master starts again at the same place.
    pub fn restart_sm(&mut self) {
        let now = self.now;
        if let Some(sm) = self.sm.master.and_then(|m| self.sm.instances.get_mut(m)) {
            sm.born = now;
            sm.hung = None;
        }
        self.sm.subscriptions.clear();
        self.sm.outstanding.clear();
        self.sm.sweeping = false;
        self.plan_sweep();
    }

    /// A standby takes itself for the master, as after a partition that healed.
    pub fn usurp(&mut self) {
        let standby = self
            .sm
            .instances
            .iter_mut()
            .filter(|i| i.state == SmState::Standby)
            .max_by_key(|i| i.priority);
        if let Some(instance) = standby {
            instance.state = SmState::Master;
        }
    }

    /// The master stops, or goes on.
    pub fn hang_sm(&mut self, hang: bool) {
        let now = self.now;
        if let Some(sm) = self.sm.master.and_then(|m| self.sm.instances.get_mut(m)) {
            if hang {
                sm.hung.get_or_insert(now);
            } else if let Some(since) = sm.hung.take() {
                sm.born += now - since;
            }
        }
        if !hang {
            self.sm.sweeping = false;
            self.plan_sweep();
        }
    }

    pub fn find_master_lid(&mut self) {
        self.sm.master_lid = self
            .sm
            .master
            .and_then(|m| self.sm.instances.get(m))
            .and_then(|i| self.ports.get(i.port as usize))
            .map_or(0, |p| p.lid);
    }
}

/// Whether a subscription wants a notice (spec 13.4.8.3).
pub fn matches(inform: &InformInfo, notice: &Notice) -> bool {
    let any = |wanted: u16, has: u16| wanted == 0xFFFF || wanted == has;
    let (begin, end) = (inform.lid_range_begin(), inform.lid_range_end());
    let issuer = notice.issuer_lid();
    let in_range = begin == 0xFFFF || (begin..=end.max(begin)).contains(&issuer);
    let producer = inform.producer_type() == ProducerType::All
        || inform.producer_type() == notice.producer_type();
    (inform.is_generic() != 0) == notice.is_generic()
        && in_range
        && producer
        && any(inform.notice_type(), u16::from(notice.notice_type().code()))
        && any(inform.trap_number(), notice.trap_number())
}
