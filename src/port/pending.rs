//! Requests that wait for an answer, for ports that do not time them out by themselves.

use std::collections::HashMap;

use super::{Arrival, Stamp};
use crate::mad::{Mad, MgmtClass};

/// Linux's number of ETIMEDOUT.
const ETIMEDOUT: i32 = 110;

/// The requests in flight of one port.
#[derive(Debug)]
pub struct Pending {
    limit: usize,
    requests: HashMap<u32, Request>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    class: u8,
    deadline: Stamp,
}

impl Pending {
    /// What ibsim bears, natively or through its shim: its sockets hold about 166 datagrams each
    /// way, and its one thread stands still on a full one.
    pub const IBSIM_LIMIT: usize = 256;

    /// Whether ibsim may be asked this. It answers some attributes of performance management and
    /// hands the others to the subnet manager at that port, whose preloaded library crashes on a
    /// class that its program has not registered, as opensm has not. Elsewhere such a request
    /// comes back at once, and so it shall here.
    pub fn ibsim_bears(mad: &Mad) -> bool {
        let known = matches!(mad.attr_id(), 0x01 | 0x12 | 0x15..=0x1D);
        mad.class() != MgmtClass::Perf || mad.is_response() || known
    }

    /// At most `limit` requests.
    pub fn new(limit: usize) -> Pending {
        Pending {
            limit,
            requests: HashMap::new(),
        }
    }

    /// Whether no further request may be sent.
    pub fn is_full(&self) -> bool {
        self.requests.len() >= self.limit
    }

    /// A request was sent.
    pub fn sent(&mut self, tid: u32, class: u8, deadline: Stamp) {
        self.requests.insert(tid, Request { class, deadline });
    }

    /// A request came to its end: it was answered, or given back.
    pub fn settled(&mut self, tid: u32) {
        self.requests.remove(&tid);
    }

    /// Takes out a request whose time is over.
    pub fn expired(&mut self, now: Stamp) -> Option<Arrival> {
        let first = self.requests.iter().min_by_key(|(_, r)| r.deadline);
        let (&tid, &Request { class, deadline }) = first?;
        if deadline > now {
            return None;
        }
        self.requests.remove(&tid);
        Some(Arrival::Unanswered {
            tid,
            class,
            errno: ETIMEDOUT,
        })
    }

    /// When the next request's time is over.
    pub fn due(&self) -> Option<Stamp> {
        self.requests.values().map(|r| r.deadline).min()
    }

    /// Forgets all requests.
    pub fn clear(&mut self) {
        self.requests.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::Method;

    /// PortSamplesControl, which kills opensm under ibsim, and its neighbours.
    #[test]
    fn what_ibsim_bears() {
        let perf = |id| Pending::ibsim_bears(&Mad::perf_port(id, 1, 0));
        assert!(perf(0x12) && perf(0x1D) && perf(0x01));
        assert!(!perf(0x10) && !perf(0x1F) && !perf(0x36));
        assert!(Pending::ibsim_bears(&Mad::smp_lid(Method::Get, 0x33, 1, 0)));
    }

    #[test]
    fn expires_in_order() {
        let mut pending = Pending::new(2);
        pending.sent(7, 4, Stamp(20));
        assert!(!pending.is_full());
        pending.sent(8, 1, Stamp(10));
        assert!(pending.is_full());
        assert_eq!(pending.due(), Some(Stamp(10)));
        assert!(pending.expired(Stamp(9)).is_none());
        let first = pending.expired(Stamp(20));
        assert!(matches!(
            first,
            Some(Arrival::Unanswered {
                tid: 8,
                class: 1,
                errno: 110
            })
        ));
        pending.settled(7);
        assert!(pending.expired(Stamp(99)).is_none());
        assert_eq!(pending.due(), None);
    }
}
