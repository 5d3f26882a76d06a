//! The simulated fabric as it is now: nodes, ports, and the clockwork of what is due.
//!
//! Time is what callers say it is. Everything that will happen by itself stands in one heap,
//! ordered by time and then by the order in which it was scheduled.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::fabric::Fabric;
use super::flight::Flights;
use super::options::SimOptions;
use super::rng::{Rng, mix};
use super::route::{NO_ROUTE, Routes};
use super::script::{Action, Counter};
use super::sm::Manager;
use super::traffic::Traffic;
use crate::fabric::{LinkSpeed, LinkWidth, NodeId, NodeKind};
use crate::mad::{Mtu, Vls};

/// No port, no node, no switch.
pub const NONE: u32 = u32::MAX;
/// PortState codes.
pub const DOWN: u8 = 1;
pub const INIT: u8 = 2;
pub const ACTIVE: u8 = 4;
/// PortPhysicalState codes.
pub const POLLING: u8 = 2;
pub const DISABLED: u8 = 3;
pub const LINK_UP: u8 = 5;
/// No route has more switches.
const MAX_HOPS: u32 = 64;

/// A node at run time.
pub struct Node {
    pub kind: NodeKind,
    pub guid: u64,
    pub system_guid: u64,
    pub description: [u8; 64],
    pub vendor: u32,
    pub device: u16,
    pub generation: super::device::Generation,
    pub enhanced_port0: bool,
    /// Flat index of its slot 0.
    pub first: u32,
    pub num_ports: u8,
    /// Its number among the switches.
    pub switch: u32,
    /// SwitchInfo.PortStateChange.
    pub port_state_change: bool,
    /// Its management processor is busy until then.
    pub busy_until: u64,
    pub dead: bool,
    pub off: bool,
    pub extra: u64,
    pub busy: f64,
    pub drop: f64,
    pub m_key: u64,
    pub protect: u8,
    /// M_KeyLeasePeriod, and when the lease that runs ends.
    pub lease: u16,
    pub lease_ends: Option<u64>,
    /// LID and P_Key of where its PMA answers instead.
    pub redirect: Option<(u16, u16)>,
    pub led: bool,
    /// Nanoseconds since its counters were zero, at the start of the session.
    pub uptime: u64,
}

/// A port at run time.
pub struct Port {
    pub node: u32,
    pub number: u8,
    pub guid: u64,
    /// Flat index of the other end of its cable.
    pub peer: u32,
    pub state: u8,
    pub phys: u8,
    pub width: LinkWidth,
    pub widths: u8,
    pub speed: LinkSpeed,
    pub best: LinkSpeed,
    pub lid: u16,
    pub lmc: u8,
    /// NeighborMTU and OperationalVLs.
    pub mtu: Mtu,
    pub vls: Vls,
    pub m_key_violations: u16,
    pub p_key_violations: u16,
    pub traffic: super::traffic::PortTraffic,
    pub counters: super::counters::Counters,
}

impl Port {
    /// Its link has trained.
    pub fn is_up(&self) -> bool {
        self.phys == LINK_UP
    }
}

/// Something due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A node has worked on a MAD.
    Process(u32),
    /// A MAD arrives at our port.
    Deliver(u32),
    /// The kernel gives a MAD up.
    Unanswered(u32),
    /// A step of the script.
    Act(u32),
    /// A flapping link changes.
    Flap(u32),
    /// The next trap of a flood.
    Flood(u32),
    /// A trap arrives at the SM.
    Trap(u32),
    /// The SM's sweep ends.
    Sweep,
    /// A report was not acknowledged.
    Resend(u32),
    /// The lease of a node's M_Key ends.
    Lease(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    at: u64,
    order: u64,
    due: Due,
}

/// A flapping link.
pub struct Flapping {
    pub port: u32,
    pub down: u64,
    pub up: u64,
    /// Changes left; `None` for ever.
    pub left: Option<u32>,
    pub is_down: bool,
}

/// A flood of traps.
pub struct Flooding {
    pub port: u32,
    pub trap: u16,
    pub every: u64,
    pub left: u32,
}

/// Where a MAD ends up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    pub node: u32,
    /// Port by which it comes in (0 for a switch that asks itself).
    pub port: u8,
    /// Links crossed.
    pub hops: u32,
}

/// The whole simulated fabric.
pub struct World {
    pub options: SimOptions,
    pub name: String,
    pub nodes: Vec<Node>,
    pub ports: Vec<Port>,
    pub by_id: HashMap<NodeId, u32>,
    /// Flat port (a switch's port 0) by LID.
    pub by_lid: Vec<u32>,
    /// Ports, by flat index, that the SM could reach at its last sweep: no way leads on through
    /// an adapter, whose further ports may be in another subnet.
    pub subnet: Vec<bool>,
    pub switches: usize,
    pub routes: Routes,
    pub traffic: Traffic,
    pub sm: Manager,
    pub rng: Rng,
    pub now: u64,
    /// Our node, and the flat index of our port.
    pub local: (u32, u32),
    pub flights: Flights,
    /// Our device was removed.
    pub gone: bool,
    /// It may be opened again.
    pub back: bool,
    pub actions: Vec<Option<Action>>,
    pub flapping: Vec<Flapping>,
    pub flooding: Vec<Flooding>,
    heap: BinaryHeap<Reverse<Item>>,
    order: u64,
}

/// Why a fabric cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// Nothing there.
    #[error("the fabric has no nodes")]
    Empty,
    /// The local node or port is not in the fabric.
    #[error("the fabric has no node {0:?} with a port {1} to be attached at")]
    NoSuchPort(String, u8),
}

impl World {
    pub fn new(mut fabric: Fabric, options: SimOptions) -> Result<World, SimError> {
        if fabric.nodes.is_empty() {
            return Err(SimError::Empty);
        }
        let local = attachment(&fabric, &options)?;
        let managed = options.sm != super::options::SmAt::Nowhere;
        if managed {
            fabric.assign_lids(options.lmc);
        } else {
            for port in fabric.nodes.iter_mut().flat_map(|n| &mut n.ports) {
                port.lid = 0;
            }
        }
        let (nodes, ports, by_id) = populate(&fabric, &options, managed);
        let switches = nodes.iter().filter(|n| n.switch != NONE).count();
        let local_port = nodes
            .get(local.0)
            .map_or(0, |n| n.first + u32::from(local.1));
        let mut world = World {
            sm: Manager::new(&fabric, &options, local.0),
            name: fabric.name.clone(),
            rng: Rng::new(options.seed),
            options,
            nodes,
            ports,
            by_id,
            by_lid: Vec::new(),
            subnet: Vec::new(),
            switches,
            routes: Routes::default(),
            traffic: Traffic::default(),
            now: 0,
            local: (local.0 as u32, local_port),
            flights: Flights::default(),
            gone: false,
            back: false,
            actions: Vec::new(),
            flapping: Vec::new(),
            flooding: Vec::new(),
            heap: BinaryHeap::new(),
            order: 0,
        };
        world.index_lids();
        world.reroute();
        world.start_traffic();
        world.sm.note_present(&world.ports, &world.subnet);
        Ok(world)
    }

    // What is due.

    pub fn schedule(&mut self, at: u64, due: Due) {
        self.order += 1;
        self.heap.push(Reverse(Item {
            at,
            order: self.order,
            due,
        }));
    }

    pub fn next_due(&self) -> Option<u64> {
        self.heap.peek().map(|i| i.0.at)
    }

    /// Takes the next thing that is due by `until`; its time becomes now.
    pub fn take_due(&mut self, until: u64) -> Option<Due> {
        if self.next_due()? > until {
            return None;
        }
        let item = self.heap.pop()?.0;
        self.now = self.now.max(item.at);
        Some(item.due)
    }

    /// Forgets all MADs on their way.
    pub fn drop_flights(&mut self) {
        let heap = std::mem::take(&mut self.heap);
        self.heap = heap
            .into_iter()
            .filter(|i| {
                !matches!(
                    i.0.due,
                    Due::Process(_) | Due::Deliver(_) | Due::Unanswered(_)
                )
            })
            .collect();
        self.flights = Flights::default();
    }

    // Who is where.

    pub fn port_index(&self, node: u32, port: u8) -> Option<u32> {
        let n = self.nodes.get(node as usize)?;
        (port <= n.num_ports).then_some(n.first + u32::from(port))
    }

    pub fn port(&self, node: u32, port: u8) -> Option<&Port> {
        self.ports.get(self.port_index(node, port)? as usize)
    }

    /// The flat index of a port by identity.
    pub fn find_port(&self, key: crate::fabric::PortKey) -> Option<u32> {
        self.port_index(*self.by_id.get(&key.node)?, key.port)
    }

    /// The port whose LID and masks speak for a port of a node.
    pub fn end_port(&self, node: u32, port: u8) -> Option<&Port> {
        let n = self.nodes.get(node as usize)?;
        self.port(node, if n.kind == NodeKind::Switch { 0 } else { port })
    }

    pub fn index_lids(&mut self) {
        self.by_lid.clear();
        for (index, port) in self.ports.iter().enumerate() {
            if port.lid == 0 {
                continue;
            }
            let end = usize::from(port.lid) + (1 << port.lmc);
            if self.by_lid.len() < end {
                self.by_lid.resize(end, NONE);
            }
            if let Some(lids) = self.by_lid.get_mut(usize::from(port.lid)..end) {
                lids.fill(index as u32);
            }
        }
    }

    /// The forwarding tables follow the links as they are.
    pub fn reroute(&mut self) {
        self.routes.rebuild(&self.nodes, &self.ports, self.switches);
        self.survey();
    }

    /// Which ports the SM reaches over the links as they are; those that we do if there is none.
    fn survey(&mut self) {
        let start = self.sm.master_port().unwrap_or(self.local.1);
        let mut subnet = vec![false; self.ports.len()];
        let mut found = Vec::new();
        let mut reach = |index: u32, found: &mut Vec<u32>| {
            let (Some(port), Some(seen)) = (
                self.ports.get(index as usize),
                subnet.get_mut(index as usize),
            ) else {
                return;
            };
            let Some(node) = self.nodes.get(port.node as usize) else {
                return;
            };
            let new = !std::mem::replace(seen, true);
            if node.kind != NodeKind::Switch {
                return;
            }
            // All ports of a switch, once: port 0 stands for it.
            if let Some(zero) = subnet.get_mut(node.first as usize)
                && (!std::mem::replace(zero, true) || new && port.number == 0)
            {
                found.push(port.node);
            }
        };
        reach(start, &mut found);
        let up = |index: u32| self.ports.get(index as usize).filter(|p| p.is_up());
        if let Some(port) = up(start) {
            reach(port.peer, &mut found);
        }
        while let Some(node) = found.pop() {
            let Some(node) = self.nodes.get(node as usize) else {
                continue;
            };
            for index in node.first + 1..=node.first + u32::from(node.num_ports) {
                if let Some(port) = up(index) {
                    reach(index, &mut found);
                    reach(port.peer, &mut found);
                }
            }
        }
        self.subnet = subnet;
    }

    // Ways through the fabric.

    /// Follows a directed route from our node; calls `entered` with each port by which it comes
    /// in. `None` if it leads nowhere.
    pub fn walk(&self, path: &[u8], mut entered: impl FnMut(usize, u8)) -> Option<Landing> {
        let (mut at, local_port) = self.local;
        let mut port_in = self.ports.get(local_port as usize)?.number;
        for (hop, &out) in path.iter().enumerate() {
            let node = self.nodes.get(at as usize)?;
            // Only a switch passes on what came in.
            if node.kind != NodeKind::Switch && hop > 0 || out == 0 {
                return None;
            }
            if node.dead && hop > 0 {
                return None; // its management processor had to pass it on
            }
            let port = self.port(at, out)?;
            if !port.is_up() {
                return None;
            }
            let peer = self.ports.get(port.peer as usize)?;
            at = peer.node;
            port_in = peer.number;
            entered(hop, port_in);
        }
        Some(Landing {
            node: at,
            port: port_in,
            hops: path.len() as u32,
        })
    }

    /// Follows the forwarding tables from a port to a LID; calls `leaves` with each port that
    /// the way leaves by. Data needs Active links, SMPs only trained ones.
    pub fn route(
        &mut self,
        from: u32,
        lid: u16,
        data: bool,
        mut leaves: impl FnMut(u32),
    ) -> Option<Landing> {
        let target = *self.by_lid.get(usize::from(lid)).filter(|t| **t != NONE)?;
        let start = self.ports.get(from as usize)?;
        let mut at = start.node;
        let mut port_in = start.number;
        let mut hops = 0;
        let mut out = if self.nodes.get(at as usize)?.kind == NodeKind::Switch {
            NONE
        } else {
            if target == from {
                return Some(Landing {
                    node: at,
                    port: port_in,
                    hops: 0,
                });
            }
            from
        };
        let target_port = self.ports.get(target as usize)?;
        let (target_node, target_number) = (target_port.node, target_port.number);
        loop {
            if out == NONE {
                let node = self.nodes.get(at as usize)?;
                if at == target_node {
                    return Some(Landing {
                        node: at,
                        port: port_in,
                        hops,
                    });
                }
                let first = node.first;
                let next = self.routes.next(node.switch, lid);
                if next == NO_ROUTE || next == 0 {
                    return None;
                }
                out = first + u32::from(next);
            }
            let port = self.ports.get(out as usize)?;
            if !port.is_up() || data && port.state != ACTIVE {
                return None;
            }
            leaves(out);
            let peer = self.ports.get(port.peer as usize)?;
            hops += 1;
            if hops > MAX_HOPS {
                return None;
            }
            at = peer.node;
            port_in = peer.number;
            out = NONE;
            if self.nodes.get(at as usize)?.kind != NodeKind::Switch {
                return (at == target_node && port_in == target_number).then_some(Landing {
                    node: at,
                    port: port_in,
                    hops,
                });
            }
        }
    }

    // What happens to links.

    /// Both ends of a link train or lose it; the SM hears of it from switches.
    pub fn set_link(&mut self, port: u32, up: bool) {
        let Some(peer) = self.ports.get(port as usize).map(|p| p.peer) else {
            return;
        };
        if self.ports.get(peer as usize).is_none() {
            return;
        }
        let mut changed = false;
        for end in [port, peer] {
            let at = self.now;
            let Some(p) = self.ports.get_mut(end as usize) else {
                continue;
            };
            if up && !p.is_up() {
                p.phys = LINK_UP;
                p.state = INIT;
                changed = true;
            } else if !up && p.is_up() {
                p.phys = POLLING;
                p.state = DOWN;
                p.counters.add(Counter::LinkDowned, 1, at);
                changed = true;
            }
        }
        if !changed {
            return;
        }
        self.replan_traffic();
        for end in [port, peer] {
            let Some(node) = self.ports.get(end as usize).map(|p| p.node) else {
                continue;
            };
            if let Some(n) = self
                .nodes
                .get_mut(node as usize)
                .filter(|n| n.kind == NodeKind::Switch)
            {
                n.port_state_change = true;
                self.send_trap(node, 0, 128);
            }
        }
    }

    /// Width or speed of a link changes at both ends.
    pub fn set_rate(&mut self, port: u32, width: Option<LinkWidth>, speed: Option<LinkSpeed>) {
        let Some(peer) = self.ports.get(port as usize).map(|p| p.peer) else {
            return;
        };
        for end in [port, peer] {
            if let Some(p) = self.ports.get_mut(end as usize) {
                p.width = width.unwrap_or(p.width);
                p.speed = speed.unwrap_or(p.speed);
            }
        }
        self.replan_traffic();
    }
}

/// Where we are attached: as asked, else where the file was made, else at the first adapter
/// with a link, else at the first node.
fn attachment(fabric: &Fabric, options: &SimOptions) -> Result<(usize, u8), SimError> {
    if let Some((name, port)) = &options.local {
        return fabric
            .find(name)
            .map(|node| (node, *port))
            .filter(|at| {
                let switch = fabric
                    .nodes
                    .get(at.0)
                    .is_some_and(|n| n.kind == NodeKind::Switch);
                fabric.port(*at).is_some() && (at.1 == 0) == switch
            })
            .ok_or_else(|| SimError::NoSuchPort(name.clone(), *port));
    }
    if let Some(at) = fabric.origin.filter(|at| fabric.port(*at).is_some()) {
        return Ok(at);
    }
    let first_linked = |node: usize| {
        let ports = &fabric.nodes.get(node)?.ports;
        let port = ports.iter().position(|p| p.peer.is_some())?;
        Some((node, u8::try_from(port).ok()?))
    };
    let port_of_first = |n: &super::fabric::NodeSpec| u8::from(n.kind != NodeKind::Switch);
    Ok(fabric
        .hosts()
        .find_map(first_linked)
        .unwrap_or((0, fabric.nodes.first().map_or(0, port_of_first))))
}

type Population = (Vec<Node>, Vec<Port>, HashMap<NodeId, u32>);

fn populate(fabric: &Fabric, options: &SimOptions, managed: bool) -> Population {
    let mut nodes = Vec::with_capacity(fabric.nodes.len());
    let mut ports: Vec<Port> = Vec::new();
    let mut by_id = HashMap::new();
    let mut switches = 0;
    let firsts: Vec<u32> = fabric
        .nodes
        .iter()
        .scan(0u32, |next, n| {
            let first = *next;
            *next += n.ports.len() as u32;
            Some(first)
        })
        .collect();
    for (index, spec) in fabric.nodes.iter().enumerate() {
        let mut id = NodeId::new(spec.guid);
        while by_id.contains_key(&id) && id.twin < u8::MAX {
            id.twin += 1;
        }
        by_id.insert(id, index as u32);
        let switch = spec.kind == NodeKind::Switch;
        for (number, port) in (0u8..).zip(&spec.ports) {
            let peer = port
                .peer
                .and_then(|(node, number)| Some(firsts.get(node)? + u32::from(number)));
            let inner = switch && number == 0;
            let up = peer.is_some() || inner;
            ports.push(Port {
                node: index as u32,
                number,
                guid: port.guid,
                peer: peer.unwrap_or(NONE),
                state: match (up, managed || inner) {
                    (true, true) => ACTIVE,
                    (true, false) => INIT,
                    _ => DOWN,
                },
                phys: if up { LINK_UP } else { POLLING },
                width: port.width,
                widths: port.widths,
                speed: port.speed,
                best: port.best,
                lid: port.lid,
                lmc: port.lmc,
                mtu: Mtu::B4096,
                vls: Vls::Vl0To3,
                m_key_violations: 0,
                p_key_violations: 0,
                traffic: super::traffic::PortTraffic::default(),
                counters: super::counters::Counters::default(),
            });
        }
        let mut description = [0; 64];
        for (to, from) in description.iter_mut().zip(&spec.description) {
            *to = *from;
        }
        // Between one and forty days.
        let uptime = (86_400 + mix(options.seed ^ spec.guid) % (39 * 86_400)) * 1_000_000_000;
        nodes.push(Node {
            kind: spec.kind,
            guid: spec.guid,
            system_guid: spec.system_guid,
            description,
            vendor: spec.vendor,
            device: spec.device,
            generation: spec.generation,
            enhanced_port0: spec.enhanced_port0,
            first: firsts.get(index).copied().unwrap_or(0),
            num_ports: spec.num_ports(),
            switch: if switch { switches } else { NONE },
            port_state_change: false,
            busy_until: 0,
            dead: false,
            off: false,
            extra: 0,
            busy: 0.0,
            drop: 0.0,
            m_key: spec.m_key,
            protect: if spec.m_key == 0 { 0 } else { spec.protect & 3 },
            lease: spec.lease,
            lease_ends: None,
            redirect: None,
            led: false,
            uptime,
        });
        switches += u32::from(switch);
    }
    (nodes, ports, by_id)
}
