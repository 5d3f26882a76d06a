//! Requests that wait for an answer, for ports that do not time them out by themselves.

use std::collections::HashMap;

use super::{Arrival, Stamp};

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
