//! A small fabric behind a port, for tests: it answers as the specification says a node should,
//! and misbehaves as a test tells it to. It shares no code with the engine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::mad::*;
use crate::port::*;

/// What becomes of a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Answer,
    /// Nothing ever comes back, not even a timeout record.
    Silence,
    /// The port reports a timeout when the time is over.
    Timeout,
    /// The port gives it back at once.
    Returned,
    /// It is answered, this much later than usual.
    Late(Duration),
    /// The answer has this status.
    Status(u16),
}

type Script = Box<dyn FnMut(Stamp, &Outgoing) -> Fate + Send>;

pub struct Node {
    pub guid: u64,
    pub switch: bool,
    pub name: String,
    /// Peer, PortState and LID by port number; port 0 of a switch holds its LID.
    pub ports: Vec<Port>,
    pub dead: bool,
    pub caps: u16,
    pub sl: u8,
    /// ClassPortInfo.RespTimeValue of its performance agent.
    pub resp_time: u8,
    /// SwitchInfo.EnhancedPort0.
    pub enhanced0: bool,
    /// SymbolErrorCounter by port.
    pub errors: BTreeMap<u8, u16>,
    /// What it says the sum over its ports is, whatever it is.
    pub told_sum: Option<u32>,
    /// Optional attributes of performance management that it has.
    pub optional: Vec<u16>,
}

#[derive(Clone, Default)]
pub struct Port {
    pub peer: Option<(usize, u8)>,
    pub state: u8,
    pub lid: u16,
}

pub struct Fabric {
    pub nodes: Vec<Node>,
    pub local: (usize, u8),
    pub sm_lid: u16,
    pub sm_guid: u64,
    pub act_count: u32,
    pub latency: Duration,
    /// What becomes of a MAD to a dead node.
    pub dead_fate: Fate,
    pub script: Option<Script>,
    pub gone: bool,
    pub reports: bool,
    /// Where the local table holds the default P_Key.
    pub pkey_index: u16,
    /// IsSMdisabled: a planarized device.
    pub sm_disabled: bool,
    pub refused: Vec<Agent>,
    /// All that was sent.
    pub sent: Vec<(Stamp, Outgoing)>,
    /// Requests on their way at most: not answered or given back yet, nor lost.
    pub most_in_flight: [usize; 2],
    in_flight: [usize; 2],
    pub refuse_send: Option<PortError>,
    arrivals: BinaryHeap<Reverse<(Stamp, u64)>>,
    waiting: BTreeMap<u64, (Option<usize>, Arrival)>,
    serial: u64,
}

#[derive(Clone)]
pub struct Shared(Arc<Mutex<Fabric>>);

impl Shared {
    pub fn get(&self) -> MutexGuard<'_, Fabric> {
        self.0.lock().unwrap()
    }
    pub fn port(&self) -> Box<dyn MadPort> {
        Box::new(FakePort(self.clone()))
    }
}

/// One switch with `hosts` hosts at its ports 1.., the first of them local and home of the SM.
pub fn star(hosts: u8) -> Shared {
    let mut f = Fabric::empty();
    let switch = f.switch(0x100, hosts);
    for i in 1..=hosts {
        let host = f.host(0x1000 + u64::from(i));
        f.link((switch, i), (host, 1));
    }
    f.local = (1, 1);
    f.sm_lid = f.nodes[1].ports[1].lid;
    f.shared()
}

/// `leaves` switches with `hosts` hosts each, all of them linked to each of `spines` switches.
pub fn tree(spines: u8, leaves: u8, hosts: u8) -> Shared {
    let mut f = Fabric::empty();
    let tops: Vec<usize> = (0..spines)
        .map(|i| f.switch(0x200 + u64::from(i), leaves))
        .collect();
    let mut first = None;
    for l in 0..leaves {
        let leaf = f.switch(0x100 + u64::from(l), hosts + spines);
        for (s, top) in tops.iter().enumerate() {
            f.link((leaf, hosts + 1 + s as u8), (*top, l + 1));
        }
        for h in 1..=hosts {
            let host = f.host(0x1_0000 + u64::from(l) * 0x100 + u64::from(h));
            f.link((leaf, h), (host, 1));
            first.get_or_insert(host);
        }
    }
    f.local = (first.unwrap(), 1);
    f.sm_lid = f.nodes[f.local.0].ports[1].lid;
    f.shared()
}

impl Fabric {
    /// The management classes of all that was sent.
    pub fn classes(&self) -> BTreeSet<u8> {
        let classes = self.sent.iter().map(|(_, out)| out.mad.class().code());
        classes.collect()
    }

    fn empty() -> Fabric {
        Fabric {
            nodes: Vec::new(),
            local: (0, 1),
            sm_lid: 1,
            sm_guid: 0xabc,
            act_count: 1,
            latency: Duration::from_micros(100),
            dead_fate: Fate::Timeout,
            script: None,
            gone: false,
            reports: true,
            pkey_index: 0,
            sm_disabled: false,
            refused: Vec::new(),
            sent: Vec::new(),
            most_in_flight: [0; 2],
            in_flight: [0; 2],
            refuse_send: None,
            arrivals: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            serial: 0,
        }
    }

    fn shared(self) -> Shared {
        Shared(Arc::new(Mutex::new(self)))
    }

    fn add(&mut self, guid: u64, switch: bool, ports: u8) -> usize {
        let lid = self.nodes.len() as u16 + 1;
        let mut list = vec![
            Port {
                state: 1,
                ..Port::default()
            };
            usize::from(ports) + 1
        ];
        list[usize::from(!switch)].lid = lid;
        self.nodes.push(Node {
            guid,
            switch,
            name: format!("node{guid:x}"),
            ports: list,
            dead: false,
            caps: 0x0200,
            sl: 0,
            resp_time: 0,
            enhanced0: false,
            errors: BTreeMap::new(),
            told_sum: None,
            optional: Vec::new(),
        });
        self.nodes.len() - 1
    }

    pub fn switch(&mut self, guid: u64, ports: u8) -> usize {
        self.add(guid, true, ports)
    }

    pub fn host(&mut self, guid: u64) -> usize {
        self.add(guid, false, 1)
    }

    pub fn link(&mut self, a: (usize, u8), b: (usize, u8)) {
        for (end, other) in [(a, b), (b, a)] {
            let port = &mut self.nodes[end.0].ports[usize::from(end.1)];
            port.peer = Some(other);
            port.state = 4;
        }
    }

    pub fn unlink(&mut self, a: (usize, u8)) {
        let b = self.nodes[a.0].ports[usize::from(a.1)].peer.unwrap();
        for end in [a, b] {
            let port = &mut self.nodes[end.0].ports[usize::from(end.1)];
            port.peer = None;
            port.state = 1;
        }
    }

    pub fn node(&mut self, guid: u64) -> &mut Node {
        self.nodes.iter_mut().find(|n| n.guid == guid).unwrap()
    }

    fn push(&mut self, at: Stamp, lane: Option<usize>, arrival: Arrival) {
        self.serial += 1;
        self.arrivals.push(Reverse((at, self.serial)));
        self.waiting.insert(self.serial, (lane, arrival));
    }

    /// Something comes in at `at` that nobody asked for.
    pub fn inject(&mut self, at: Stamp, addr: Address, mad: Mad) {
        self.push(at, None, Arrival::Mad { addr, mad });
    }

    /// The SA reports a notice.
    pub fn report(&mut self, at: Stamp, trap: &notice::Trap, tid: u64) {
        let notice = Notice::from_trap(trap, self.sm_lid).unwrap();
        let mut reported = ReportedNotice::new();
        reported.set_notice(notice);
        let mut mad = Mad::sa(Method::Report, Notice::ID, 0, 0, tid);
        mad.set_data(&reported);
        let addr = Address::gmp(self.sm_lid, 0, 0);
        self.inject(at, addr, mad);
    }

    fn by_lid(&self, lid: u16) -> Option<(usize, u8)> {
        self.nodes.iter().enumerate().find_map(|(i, n)| {
            let port = n.ports.iter().position(|p| p.lid == lid)?;
            Some((i, port as u8))
        })
    }

    /// Where a directed route ends: node and the port by which it is entered.
    fn walk(&self, path: &[u8]) -> Option<(usize, u8)> {
        let mut at = self.local;
        for (i, hop) in path.iter().enumerate() {
            let node = &self.nodes[at.0];
            if !node.switch && (i > 0 || *hop != self.local.1) {
                return None;
            }
            at = node.ports.get(usize::from(*hop))?.peer?;
        }
        Some(at)
    }

    fn answer(&mut self, out: &Outgoing, at: (usize, u8)) -> Option<Mad> {
        let view = out.mad.view();
        let node = &self.nodes[at.0];
        let modifier = out.mad.attr_mod() & 0xFF;
        match (view.class(), view.attr_id()) {
            (MgmtClass::SubnAdm, InformInfo::ID) => Some(Mad::response_to(&view, Status::OK)),
            (MgmtClass::SubnAdm, PathRecord::ID) => {
                let mut record = PathRecord::from_bytes(view.data()).ok()?;
                // By GID, if the component mask says so (spec 15.2.5.16: bit 2 is the DGID).
                if view.component_mask() & 1 << 2 != 0 {
                    let guid = record.dgid().guid();
                    let lid = |n: &Node| n.ports.iter().map(|p| p.lid).find(|lid| *lid != 0);
                    let of = self.nodes.iter().find(|n| n.guid + 1 == guid);
                    let Some(lid) = of.and_then(lid) else {
                        let none = Status::sa(SaStatus::NoRecords);
                        return Some(Mad::response_to(&view, none));
                    };
                    record.set_dlid(lid);
                }
                let (to, _) = self.by_lid(record.dlid())?;
                record.set_sl(self.nodes[to].sl);
                Some(Mad::reply(&view, &record))
            }
            (MgmtClass::SubnAdm, _) => {
                Some(Mad::response_to(&view, Status::sa(SaStatus::NoResources)))
            }
            (MgmtClass::Perf, ClassPortInfo::ID) => {
                let mut info = ClassPortInfo::new();
                info.set_cap_mask(ClassCaps(node.caps))
                    .set_resp_time_value(node.resp_time);
                Some(Mad::reply(&view, &info))
            }
            (MgmtClass::Perf, PortCounters::ID) => {
                let select = view.data()[1];
                let of = |port: u8| u32::from(*node.errors.get(&port).unwrap_or(&0));
                let sum = (1..node.ports.len() as u8).map(of).sum();
                let count = match select {
                    255 => node.told_sum.unwrap_or(sum),
                    port => of(port),
                };
                let mut counters = PortCounters::new();
                counters
                    .set_port_select(select)
                    .set_symbol_error(count.min(0xFFFF) as u16);
                Some(Mad::reply(&view, &counters))
            }
            (MgmtClass::Perf, PortCountersExtended::ID) => {
                Some(Mad::response_to(&view, Status::OK))
            }
            (MgmtClass::Perf, id) if node.optional.contains(&id) => {
                Some(Mad::response_to(&view, Status::OK))
            }
            (MgmtClass::Perf, _) => Some(Mad::response_to(&view, Status::UNSUPPORTED_ATTRIBUTE)),
            (_, NodeInfo::ID) => {
                let mut info = NodeInfo::new();
                info.set_node_type(if node.switch {
                    NodeType::Switch
                } else {
                    NodeType::Ca
                })
                .set_num_ports(node.ports.len() as u8 - 1)
                .set_node_guid(node.guid)
                .set_port_guid(node.guid + u64::from(!node.switch))
                .set_local_port(at.1);
                Some(Mad::reply(&view, &info))
            }
            (_, NodeDescription::ID) => {
                Some(Mad::reply(&view, &NodeDescription::from_text(&node.name)))
            }
            (_, SwitchInfo::ID) if node.switch => {
                let mut info = SwitchInfo::new();
                info.set_enhanced_port0(node.enhanced0);
                Some(Mad::reply(&view, &info))
            }
            (_, SmInfo::ID) => {
                let mut info = SmInfo::new();
                info.set_guid(self.sm_guid)
                    .set_act_count(self.act_count)
                    .set_state(SmState::Master);
                Some(Mad::reply(&view, &info))
            }
            (_, PortInfo::ID) => {
                let port = node.ports.get(modifier as usize)?;
                let mut info = PortInfo::new();
                let up = port.state > 1;
                info.set_lid(port.lid)
                    .set_sm_lid(self.sm_lid)
                    .set_port_state(PortState::new(port.state))
                    .set_phys_state(if up {
                        PhysState::LinkUp
                    } else {
                        PhysState::Polling
                    })
                    .set_local_port(at.1);
                if node.switch && modifier == 0 {
                    info.set_port_state(PortState::Active);
                }
                Some(Mad::reply(&view, &info))
            }
            _ => Some(Mad::response_to(&view, Status::UNSUPPORTED_ATTRIBUTE)),
        }
    }

    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError> {
        if self.gone {
            return Err(PortError::Gone {
                device: "fake".into(),
            });
        }
        if let Some(error) = self.refuse_send.clone() {
            return Err(error);
        }
        self.sent.push((now, out.clone()));
        if out.timeout_ms == 0 {
            return Ok(());
        }
        let class = out.mad.class();
        let lane = usize::from(!class.is_smp());
        self.in_flight[lane] += 1;
        self.most_in_flight[lane] = self.most_in_flight[lane].max(self.in_flight[lane]);
        let at = if class == MgmtClass::SubnDirected {
            assert_eq!(out.mad.hop_pointer(), 0, "the kernel starts at hop 0");
            assert_eq!((out.mad.dr_slid(), out.mad.dr_dlid()), (0xFFFF, 0xFFFF));
            self.walk(out.mad.initial_path())
        } else {
            self.by_lid(out.addr.lid)
        };
        let mut fate = match &mut self.script {
            Some(script) => script(now, out),
            None => Fate::Answer,
        };
        let dead = at.is_none_or(|(node, _)| self.nodes[node].dead);
        if fate == Fate::Answer && dead {
            fate = self.dead_fate;
        }
        let soon = now + self.latency;
        let unanswered = Arrival::Unanswered {
            tid: out.mad.tid_low(),
            class: class.code(),
            errno: 110,
        };
        match (fate, at) {
            (Fate::Silence, _) => self.in_flight[lane] -= 1,
            (Fate::Timeout, _) | (Fate::Answer | Fate::Late(_) | Fate::Status(_), None) => {
                self.in_flight[lane] -= 1;
                let late = now + Duration::from_millis(u64::from(out.timeout_ms));
                self.push(late, None, unanswered);
            }
            (Fate::Returned, _) => self.push(soon, Some(lane), unanswered),
            (Fate::Answer | Fate::Late(_), Some(at)) => match self.answer(out, at) {
                Some(mad) => self.push(
                    match fate {
                        Fate::Late(by) => soon + by,
                        _ => soon,
                    },
                    Some(lane),
                    Arrival::Mad {
                        addr: out.addr,
                        mad,
                    },
                ),
                None => self.push(soon, Some(lane), unanswered),
            },
            (Fate::Status(status), Some(_)) => {
                let mad = Mad::response_to(&out.mad.view(), Status(status));
                self.push(
                    soon,
                    Some(lane),
                    Arrival::Mad {
                        addr: out.addr,
                        mad,
                    },
                );
            }
        }
        Ok(())
    }

    fn local_port(&self) -> LocalPort {
        let (node, port) = self.local;
        let node = &self.nodes[node];
        let at = &node.ports[usize::from(port)];
        LocalPort {
            ca: "fake0".into(),
            port,
            node_guid: node.guid,
            port_guid: node.guid + 1,
            gid_prefix: 0xfe80_0000_0000_0000,
            lid: at.lid,
            lmc: 0,
            sm_lid: self.sm_lid,
            sm_sl: 0,
            state: at.state,
            cap_mask: if self.sm_disabled { 0x400 } else { 0 },
            pkey_index: Some(self.pkey_index),
            pkey_limited: false,
            pkeys: vec![0xFFFF],
        }
    }
}

struct FakePort(Shared);

impl MadPort for FakePort {
    fn source(&self) -> Source {
        Source::Simulated {
            fabric: "fake".into(),
        }
    }
    fn agents(&self) -> Vec<AgentReport> {
        let fabric = self.0.get();
        Agent::ALL
            .into_iter()
            .map(|agent| AgentReport {
                agent,
                refused: fabric.refused.contains(&agent).then(|| "EINVAL".to_owned()),
                reports: fabric.reports && agent == Agent::SubnAdm,
            })
            .collect()
    }
    fn local(&mut self, _: Stamp) -> Result<LocalPort, PortError> {
        let fabric = self.0.get();
        if fabric.gone {
            return Err(PortError::Gone {
                device: "fake".into(),
            });
        }
        Ok(fabric.local_port())
    }
    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError> {
        self.0.get().send(now, out)
    }
    fn recv(&mut self, now: Stamp) -> Result<Option<Arrival>, PortError> {
        let mut fabric = self.0.get();
        if fabric.gone {
            return Err(PortError::Gone {
                device: "fake".into(),
            });
        }
        let Some(Reverse((at, serial))) = fabric.arrivals.peek().copied() else {
            return Ok(None);
        };
        if at > now {
            return Ok(None);
        }
        fabric.arrivals.pop();
        let (lane, arrival) = fabric.waiting.remove(&serial).unwrap();
        if let Some(lane) = lane {
            fabric.in_flight[lane] -= 1;
        }
        Ok(Some(arrival))
    }
    fn due(&self) -> Option<Stamp> {
        self.0.get().arrivals.peek().map(|Reverse((at, _))| *at)
    }
    fn reopen(&mut self) -> Result<(), PortError> {
        let mut fabric = self.0.get();
        if fabric.gone {
            return Err(PortError::Gone {
                device: "fake".into(),
            });
        }
        fabric.arrivals.clear();
        fabric.waiting.clear();
        fabric.in_flight = [0; 2];
        Ok(())
    }
}
