//! MADs on their way, and what the kernel does at our end of it: it follows each request until
//! its reply or its timeout, and refuses what it would refuse.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::options::Undeliverable;
use super::rng::mix;
use super::world::{Due, Landing, World};
use crate::fabric::NodeKind;
use crate::mad::{Mad, MgmtClass, Status};
use crate::port::{
    Address, Agent, Arrival, NO_LID_ROUTED_SMPS, Outgoing, PERMISSIVE_LID, PortError,
};

/// One MAD on its way, there or back.
pub struct Flight {
    pub mad: Mad,
    /// Whom it was sent to, and so who a reply is from.
    pub addr: Address,
    pub landing: Landing,
    /// When the kernel gives it up; `None` if nothing is expected.
    deadline: Option<u64>,
    tid: u32,
    class: u8,
}

/// Hashes what is already well mixed, or mixes it once.
#[derive(Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        mix(self.0)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 ^ self.0 >> 56 ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 ^= value;
    }
}

/// All MADs on their way, by number.
#[derive(Default)]
pub struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// Requests that the kernel waits for: transaction and class.
    pending: HashSet<u64, BuildHasherDefault<Mixer>>,
}

impl Flights {
    fn add(&mut self, flight: Flight) -> u32 {
        if let Some(index) = self.free.pop() {
            if let Some(slot) = self.slots.get_mut(index as usize) {
                *slot = Some(flight);
            }
            return index;
        }
        self.slots.push(Some(flight));
        (self.slots.len() - 1) as u32
    }

    pub fn get(&self, index: u32) -> Option<&Flight> {
        self.slots.get(index as usize)?.as_ref()
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Flight> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Takes a flight out of its slot, to be put back.
    fn lift(&mut self, index: u32) -> Option<Flight> {
        self.slots.get_mut(index as usize)?.take()
    }

    fn put(&mut self, index: u32, flight: Flight) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Some(flight);
        }
    }

    pub fn take(&mut self, index: u32) -> Option<Flight> {
        let flight = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        if flight.deadline.is_some() {
            self.pending.remove(&pending_key(flight.tid, flight.class));
        }
        Some(flight)
    }

    /// Requests that the kernel waits for.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

fn pending_key(tid: u32, class: u8) -> u64 {
    u64::from(class) << 32 | u64::from(tid)
}

/// What a node does with a MAD.
pub enum Verdict {
    /// The MAD in the slot has become the reply; it takes this much longer to come over.
    Reply(u64),
    /// Nothing comes back.
    Silence,
}

impl World {
    /// A MAD leaves our port.
    pub fn launch(&mut self, out: &Outgoing) -> Result<(), PortError> {
        if self.gone {
            return Err(PortError::Gone {
                device: self.device(),
            });
        }
        let view = out.mad.view();
        let class = view.class();
        let code = class.code();
        if Agent::for_class(code).is_none() {
            return Err(PortError::NoAgent {
                class: code,
                why: "not registered".into(),
            });
        }
        if self.options.planarized && class == MgmtClass::SubnLid {
            return Err(PortError::NoAgent {
                class: code,
                why: NO_LID_ROUTED_SMPS.into(),
            });
        }
        let local_number = self.local_number();
        let refuse = |why: &str| {
            Err(PortError::Call {
                device: device_name(local_number),
                call: "write",
                class: code,
                errno: format!("EINVAL: invalid argument ({why})"),
            })
        };
        let length = view.bytes().len();
        if !(36..=256).contains(&length) {
            return refuse("a MAD has 256 bytes");
        }
        let directed = class == MgmtClass::SubnDirected;
        let path = view.initial_path();
        if directed {
            if view.hop_pointer() != 0 || usize::from(view.hop_count()) != path.len() {
                return refuse("hop pointer not 0, or more than 63 hops");
            }
            if local_number != 0 && path.first().is_some_and(|p| *p != local_number) {
                return refuse("the directed route does not start at the local port");
            }
        }
        let tid = view.tid_low();
        let expects = !view.is_response() && out.timeout_ms != 0;
        let deadline = expects.then(|| self.now + u64::from(out.timeout_ms) * 1_000_000);
        if expects && !self.flights.pending.insert(pending_key(tid, code)) {
            return refuse("a MAD with this transaction id is outstanding");
        }

        let well_addressed = (out.addr.qpn == 0) == class.is_smp();
        let landing = if !well_addressed {
            None
        } else if directed {
            let whole = out.addr.lid == PERMISSIVE_LID
                && view.dr_slid() == PERMISSIVE_LID
                && view.dr_dlid() == PERMISSIVE_LID;
            whole.then(|| self.walk(path, |_, _| {})).flatten()
        } else {
            let from = self.local.1;
            self.route(from, out.addr.lid, !class.is_smp(), |_| {})
        };
        let flight = |landing| Flight {
            mad: out.mad.clone(),
            addr: out.addr,
            landing,
            deadline,
            tid,
            class: code,
        };
        let Some(landing) = landing else {
            let nowhere = Landing {
                node: self.local.0,
                port: 0,
                hops: 0,
            };
            let slot = self.flights.add(flight(nowhere));
            self.give_up(slot, true);
            return Ok(());
        };
        let slot = self.flights.add(flight(landing));
        let lost = landing.hops > 0 && self.rng.chance(self.options.loss);
        let drop = self
            .nodes
            .get(landing.node as usize)
            .map_or(0.0, |n| n.drop);
        if lost || self.rng.chance(drop) {
            self.give_up(slot, true);
            return Ok(());
        }
        let hop = nanos(self.options.hop);
        let arrival = self.now + u64::from(landing.hops) * hop;
        let mut work = nanos(self.options.node);
        if self.options.jitter > 0.0 {
            work += (work as f64 * self.options.jitter * self.rng.unit()) as u64;
        }
        let Some(node) = self.nodes.get_mut(landing.node as usize) else {
            return Ok(());
        };
        let done = arrival.max(node.busy_until) + work + node.extra;
        node.busy_until = done;
        self.schedule(done, Due::Process(slot));
        Ok(())
    }

    /// A node has worked on a MAD: its reply sets out, or nothing does.
    pub fn process(&mut self, slot: u32) {
        let Some(mut flight) = self.flights.lift(slot) else {
            return;
        };
        let dead = self
            .nodes
            .get(flight.landing.node as usize)
            .is_none_or(|n| n.dead);
        let verdict = if dead {
            Verdict::Silence
        } else {
            self.answer(&mut flight)
        };
        let landing = flight.landing;
        let expected = flight.deadline;
        self.flights.put(slot, flight);
        // What ibsim does not know it returns as it returns what it cannot deliver.
        if self.options.undeliverable == Undeliverable::Returned
            && self
                .flights
                .get(slot)
                .is_some_and(|f| f.mad.status() == Status::UNSUPPORTED_ATTRIBUTE)
        {
            return self.give_up(slot, true);
        }
        let extra = match verdict {
            Verdict::Reply(extra) => extra,
            Verdict::Silence => return self.give_up(slot, false),
        };
        let lost = landing.hops > 0 && self.rng.chance(self.options.loss);
        if lost || expected.is_none() || !self.comes_back(slot) {
            return self.give_up(slot, lost);
        }
        let back = self.now + u64::from(landing.hops) * nanos(self.options.hop) + extra;
        if expected.is_some_and(|deadline| back > deadline) {
            return self.give_up(slot, false);
        }
        self.schedule(back, Due::Deliver(slot));
    }

    /// Whether a reply finds its way to us; fills the return path of a directed route.
    fn comes_back(&mut self, slot: u32) -> bool {
        let Some(flight) = self.flights.get(slot) else {
            return false;
        };
        let landing = flight.landing;
        if flight.class == MgmtClass::SubnDirected.code() {
            let mut entries = [0u8; 64];
            let path = flight.mad.initial_path();
            let found = self.walk(path, |hop, port| {
                if let Some(entry) = entries.get_mut(hop) {
                    *entry = port;
                }
            });
            let length = path.len();
            if found != Some(landing) {
                return false;
            }
            if let (Some(flight), Some(path)) = (self.flights.get_mut(slot), entries.get(..length))
            {
                flight.mad.set_return_path(path);
            }
            return true;
        }
        if landing.hops == 0 {
            return true;
        }
        let data = flight.class != MgmtClass::SubnLid.code();
        let switch = self
            .nodes
            .get(landing.node as usize)
            .is_some_and(|n| n.kind == NodeKind::Switch);
        let port = if switch { 0 } else { landing.port };
        let (Some(from), Some(lid)) = (
            self.port_index(landing.node, port),
            self.end_port(self.local.0, self.local_number())
                .map(|p| p.lid),
        ) else {
            return false;
        };
        lid != 0 && self.route(from, lid, data, |_| {}).is_some()
    }

    /// No reply comes: the kernel waits until its deadline, unless `returned` and ibsim is
    /// mimicked.
    fn give_up(&mut self, slot: u32, returned: bool) {
        let Some(flight) = self.flights.get(slot) else {
            return;
        };
        // The local SMA's silence has no timer in the kernel.
        let local_route = flight.class == MgmtClass::SubnDirected.code()
            && flight.landing.hops == 0
            && flight.mad.view().hop_count() == 0;
        match flight.deadline {
            Some(deadline) if !local_route => {
                let at = if returned && self.options.undeliverable == Undeliverable::Returned {
                    self.now
                } else {
                    deadline.max(self.now)
                };
                self.schedule(at, Due::Unanswered(slot));
            }
            _ => {
                self.flights.take(slot);
            }
        }
    }

    /// A MAD that nobody asked for sets out for us from the SM.
    pub fn send_to_us(&mut self, mad: Mad, from_lid: u16, after: u64) {
        let flight = Flight {
            class: mad.class().code(),
            tid: mad.tid_low(),
            mad,
            addr: Address {
                qkey: 0,
                ..Address::gmp(from_lid, 0, 0)
            },
            landing: Landing {
                node: self.local.0,
                port: 0,
                hops: 0,
            },
            deadline: None,
        };
        let slot = self.flights.add(flight);
        self.schedule(self.now + after, Due::Deliver(slot));
    }

    /// What our port hands up for a MAD that arrives or is given up.
    pub fn arrival(&mut self, slot: u32, answered: bool) -> Option<Arrival> {
        let flight = self.flights.take(slot)?;
        Some(if answered {
            Arrival::Mad {
                addr: Address {
                    qkey: 0,
                    ..flight.addr
                },
                mad: flight.mad,
            }
        } else {
            Arrival::Unanswered {
                tid: flight.tid,
                class: flight.class,
                errno: 110,
            }
        })
    }

    /// The number of our port.
    pub fn local_number(&self) -> u8 {
        self.ports
            .get(self.local.1 as usize)
            .map_or(0, |p| p.number)
    }

    /// The name of our device.
    pub fn device(&self) -> String {
        device_name(self.local_number())
    }

    fn answer(&mut self, flight: &mut Flight) -> Verdict {
        let landing = flight.landing;
        let class = flight.mad.class();
        let busy = self
            .nodes
            .get(landing.node as usize)
            .map_or(0.0, |n| n.busy);
        let view = flight.mad.view();
        if view.base_version() != 1 || view.class_version() != class.version() {
            return finish(&mut flight.mad, Status::BAD_VERSION);
        }
        if !view.is_response() && self.rng.chance(busy) {
            return finish(&mut flight.mad, Status::BUSY);
        }
        match class {
            MgmtClass::SubnDirected | MgmtClass::SubnLid => {
                self.answer_smp(landing, &mut flight.mad)
            }
            MgmtClass::Perf => {
                let addr = flight.addr;
                self.answer_perf(landing, addr.lid, addr.pkey_index, &mut flight.mad)
            }
            MgmtClass::SubnAdm => self.answer_sa(landing, &mut flight.mad),
            _ => Verdict::Silence,
        }
    }
}

fn device_name(port: u8) -> String {
    format!("simulated port {port}")
}

/// Makes a request its own reply.
pub fn finish(mad: &mut Mad, status: Status) -> Verdict {
    let method = mad.method().response();
    if mad.class() == MgmtClass::SubnDirected {
        mad.set_returning(true).set_hop_pointer(0);
    }
    mad.set_method(method).set_status(status);
    Verdict::Reply(0)
}

/// Makes a request its own reply, with an attribute in it.
pub fn finish_with<A: crate::mad::Attribute>(mad: &mut Mad, attribute: &A) -> Verdict {
    mad.set_data(attribute);
    finish(mad, Status::OK)
}

pub fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
