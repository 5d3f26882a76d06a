//! The simulator asked as the engine asks it: through the port, in virtual time.

mod captured;
mod fabric_walk;
mod faults;
mod fuzz;
mod perf;
mod routes;
mod sa;
mod smp;

use super::*;
use crate::mad::{Attribute, Mad, Method};
use crate::port::{Address, Arrival, MadPort, Outgoing, PortError, Stamp};

/// A client that sends one MAD after the other and waits for what becomes of each.
pub struct Client {
    pub port: SimPort,
    pub now: Stamp,
    tid: u64,
    /// What came unasked.
    pub unasked: Vec<Mad>,
}

impl Client {
    pub fn new(fabric: Fabric, options: SimOptions) -> Client {
        Client {
            port: SimPort::new(fabric, options).unwrap(),
            now: Stamp::ZERO,
            tid: 0,
            unasked: Vec::new(),
        }
    }

    pub fn healthy(fabric: Fabric) -> Client {
        Client::new(fabric, SimOptions::healthy())
    }

    pub fn tid(&mut self) -> u64 {
        self.tid += 1;
        self.tid
    }

    pub fn send(&mut self, addr: Address, mad: Mad) -> Result<(), PortError> {
        let out = Outgoing {
            addr,
            mad,
            timeout_ms: 1000,
        };
        self.port.send(self.now, &out)
    }

    /// Jumps to what is due next and takes it.
    pub fn next(&mut self) -> Option<Arrival> {
        loop {
            if let Some(arrival) = self.port.recv(self.now).unwrap() {
                return Some(arrival);
            }
            self.now = self.now.max(self.port.due()?);
        }
    }

    /// Lets time pass; MADs that come unasked are kept.
    pub fn wait(&mut self, until: Stamp) {
        loop {
            match self.port.recv(self.now).unwrap() {
                Some(Arrival::Mad { mad, .. }) => self.unasked.push(mad),
                Some(other) => panic!("{other:?}"),
                None => match self.port.due().filter(|d| *d <= until) {
                    Some(due) => self.now = self.now.max(due),
                    None => break,
                },
            }
        }
        self.now = until;
        assert!(self.port.recv(until).unwrap().is_none());
    }

    /// Sends, and gives the reply; `None` if it timed out.
    pub fn ask(&mut self, addr: Address, mad: Mad) -> Option<Mad> {
        let tid = mad.tid_low();
        self.send(addr, mad).unwrap();
        loop {
            match self.next().expect("neither reply nor timeout") {
                Arrival::Mad { mad, .. } if mad.tid_low() == tid && mad.is_response() => {
                    return Some(mad);
                }
                Arrival::Mad { mad, .. } => self.unasked.push(mad),
                Arrival::Unanswered { tid: t, errno, .. } => {
                    assert_eq!((t, errno), (tid, 110));
                    return None;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Get by directed route.
    pub fn get(&mut self, path: &[u8], id: u16, modifier: u32) -> Option<Mad> {
        let tid = self.tid();
        let mad = Mad::smp_dr(Method::Get, id, modifier, path, tid).unwrap();
        self.ask(Address::directed(), mad)
    }

    /// Get by directed route, decoded.
    pub fn read<A: Attribute>(&mut self, path: &[u8], modifier: u32) -> A {
        let reply = self.get(path, A::ID, modifier).expect("no answer");
        assert!(reply.status().is_ok(), "{reply}");
        A::parse(&reply.view()).unwrap()
    }

    /// Get of a port's counters.
    pub fn count<A: Attribute>(&mut self, lid: u16, port: u8) -> A {
        let tid = self.tid();
        let mad = Mad::perf_port(A::ID, port, tid);
        let reply = self.ask(Address::gmp(lid, 0, 0), mad).expect("no answer");
        assert!(reply.status().is_ok(), "{reply}");
        A::parse(&reply.view()).unwrap()
    }

    pub fn lid_of(&self, name: &str, port: u8) -> u16 {
        let fabric = default_fabric();
        let key = fabric.key(name, port).unwrap();
        self.port.lid(key)
    }
}
