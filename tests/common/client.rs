//! Any port as a client that asks and waits for the answer.

use std::thread;
use std::time::{Duration, Instant};

use fabtop::mad::{Mad, Method};
use fabtop::port::{Address, Arrival, LocalPort, MadPort, Outgoing, Stamp};

use super::ibsim::PATIENCE;

/// A client that asks and waits.
pub struct Client<P> {
    pub port: P,
    start: Instant,
    tid: u32,
}

impl<P: MadPort> Client<P> {
    /// Its time begins now.
    pub fn new(port: P) -> Client<P> {
        Client {
            port,
            start: Instant::now(),
            tid: 0x1000,
        }
    }

    /// The time of the client's calls.
    pub fn now(&self) -> Stamp {
        Stamp::ZERO + self.start.elapsed()
    }

    /// Sends a MAD under a new TID, which is returned.
    pub fn send(&mut self, addr: Address, mut mad: Mad, timeout_ms: u32) -> u32 {
        self.tid += 1;
        mad.set_tid(u64::from(self.tid));
        let out = Outgoing {
            addr,
            mad,
            timeout_ms,
        };
        self.port.send(self.now(), &out).unwrap();
        self.tid
    }

    /// The next arrival that `wanted` accepts.
    pub fn await_arrival(&mut self, what: &str, wanted: impl Fn(&Arrival) -> bool) -> Arrival {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.port.recv(self.now()).unwrap() {
                Some(arrival) if wanted(&arrival) => return arrival,
                Some(_) => {}
                None => {
                    assert!(Instant::now() < until, "waited in vain for {what}");
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, addr: Address, mad: Mad) -> Mad {
        let what = mad.to_string();
        let tid = self.send(addr, mad, 5_000);
        let mine = |a: &Arrival| match a {
            Arrival::Mad { mad, .. } => mad.is_response() && mad.tid_low() == tid,
            Arrival::Unanswered { tid: t, .. } => *t == tid,
            Arrival::Malformed { .. } => true,
        };
        match self.await_arrival(&what, mine) {
            Arrival::Mad { mad, .. } => mad,
            other => panic!("{what}: {other:?}"),
        }
    }

    /// The local port.
    pub fn local(&mut self) -> LocalPort {
        let now = self.now();
        self.port.local(now).unwrap()
    }

    /// The SA, as the local port knows it.
    pub fn sa(&mut self) -> Address {
        let local = self.local();
        Address::gmp(local.sm_lid, local.sm_sl, local.pkey_index.unwrap())
    }
}

/// Get by directed route.
pub fn get_dr(attribute: u16, modifier: u32, path: &[u8]) -> Mad {
    Mad::smp_dr(Method::Get, attribute, modifier, path, 0).unwrap()
}

/// A number as infiniband-diags print it.
pub fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}
