//! What the engine keeps of each node beside the topology: its share of the budgets, its
//! back-off, and what its performance agent can do.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::job::{Job, Lane, RunId};
use super::rtt::Rtt;
use super::sums::Sums;
use crate::fabric::NodeId;
use crate::mad::{ClassCaps, ClassCaps2, Gid};
use crate::port::Stamp;

/// A node that does not answer is asked less and less often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Back {
    /// Requests in a row that failed for good.
    pub(super) failures: u32,
    /// When it is asked again.
    pub(super) until: Stamp,
}

/// One node's share of one budget.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// Jobs that hold a place: ready, in flight, or waiting for their next attempt.
    pub(super) active: u16,
    /// Jobs that wait for a place.
    pub(super) waiting: VecDeque<Job>,
    pub(super) back: Option<Back>,
    /// An attempt failed and no answer came since.
    pub(super) troubled: bool,
    /// Latency of its answers.
    pub(super) rtt: Rtt,
    /// The longest that it took for an answer when it had been asked again already.
    pub(super) patience: Duration,
}

/// What the performance agent of a node can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pma {
    /// Not asked yet.
    #[default]
    Unknown,
    /// The question is on its way.
    Asked,
    /// The capability masks; zero if it would not tell.
    Known { caps: ClassCaps, caps2: ClassCaps2 },
}

impl Pma {
    /// PortCountersExtended, at least its first four counters.
    pub(super) fn wide(self) -> bool {
        matches!(self, Pma::Known { caps, .. }
            if caps.has(ClassCaps::EXT_WIDTH) || caps.has(ClassCaps::EXT_WIDTH_NO_IETF))
    }

    /// PortCountersExtended holds the errors too, so that PortCounters need not be read.
    pub(super) fn wide_errors(self) -> bool {
        self.wide()
            && matches!(self, Pma::Known { caps2, .. } if caps2.has(ClassCaps2::ADDITIONAL_EXT))
    }

    /// PortSelect 255 gives the sum over all ports.
    pub(super) fn all_ports(self) -> bool {
        matches!(self, Pma::Known { caps, .. } if caps.has(ClassCaps::ALL_PORT_SELECT))
    }

    /// PortExtendedSpeedsCounters, with the counters of RS-FEC.
    pub(super) fn fec(self) -> bool {
        matches!(self, Pma::Known { caps, .. } if caps.has(ClassCaps::RS_FEC))
    }

    pub(super) fn xmit_wait(self) -> bool {
        matches!(self, Pma::Known { caps, .. } if caps.has(ClassCaps::XMIT_WAIT))
    }
}

/// Where a node's performance agent wants to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) lid: u16,
    pub(super) qpn: u32,
    pub(super) qkey: u32,
    pub(super) sl: u8,
    /// Its partition's key; 0 if it named none.
    pub(super) pkey: u16,
}

/// A set of port numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortSet([u64; 4]);

impl PortSet {
    pub(super) fn insert(&mut self, port: u8) {
        if let Some(word) = self.0.get_mut(usize::from(port / 64)) {
            *word |= 1 << (port % 64);
        }
    }

    pub(super) fn contains(&self, port: u8) -> bool {
        self.0
            .get(usize::from(port / 64))
            .is_some_and(|word| word >> (port % 64) & 1 != 0)
    }
}

/// Re-reading a switch after a notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reread {
    /// Not again before: notices come in floods.
    pub(super) not_before: Stamp,
    /// It is already due.
    pub(super) due: bool,
}

/// What the engine keeps of a node.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    seats: [Seat; 2],
    /// Generation in which discovery asked for its details.
    pub(super) walked: u32,
    /// Generation that `verified` is of.
    generation: u32,
    /// Ports whose link was confirmed in that generation, from either end.
    verified: PortSet,
    pub(super) pma: Pma,
    /// Ports whose counters wait for the answer on capabilities.
    pub(super) deferred: Vec<(u8, RunId)>,
    /// RespTimeValue of its performance agent.
    pub(super) resp_time: Option<u8>,
    /// It is silent when asked for FDR10 or FEC: not asked again until it is met anew.
    pub(super) no_link_details: bool,
    /// The tick was asked for.
    pub(super) tick: bool,
    /// Optional attributes of performance management that it does not have.
    pub(super) refused: BTreeSet<u16>,
    /// What the sum over all its ports tells of them.
    pub(super) sums: Sums,
    /// Service level towards it, once the SA told.
    pub(super) sl: Option<u8>,
    pub(super) redirect: Option<Redirect>,
    /// A redirection to a GID: to where, the queue pair, its key and the partition's, until the
    /// SA resolves it.
    pub(super) redirect_gid: Option<(Gid, u32, u32, u16)>,
    /// It redirects to a partition that this port is not in, which was said.
    pub(super) foreign_pkey: bool,
    pub(super) reread: Reread,
    /// Counter sweep in which it was last counted as skipped.
    pub(super) skipped_in: [u32; 2],
}

impl NodeState {
    pub(super) fn seat(&mut self, lane: Lane) -> &mut Seat {
        let [smp, gmp] = &mut self.seats;
        match lane {
            Lane::Smp => smp,
            Lane::Gmp => gmp,
        }
    }

    pub(super) fn seat_ref(&self, lane: Lane) -> &Seat {
        let [smp, gmp] = &self.seats;
        match lane {
            Lane::Smp => smp,
            Lane::Gmp => gmp,
        }
    }

    /// The back-off to show: of the lane that waits longer.
    pub(super) fn back(&self) -> Option<Back> {
        self.seats
            .iter()
            .filter_map(|seat| seat.back)
            .max_by_key(|back| back.until)
    }

    /// The link at `port` was confirmed in `generation`.
    pub(super) fn verify(&mut self, port: u8, generation: u32) {
        if self.generation != generation {
            self.generation = generation;
            self.verified = PortSet::default();
        }
        self.verified.insert(port);
    }

    pub(super) fn is_verified(&self, port: u8, generation: u32) -> bool {
        self.generation == generation && self.verified.contains(port)
    }
}

impl NodeState {
    /// Nothing that was on its way to it comes back.
    pub(super) fn drop_requests(&mut self) {
        for seat in &mut self.seats {
            *seat = Seat::default();
        }
        self.deferred.clear();
        self.sums.drop_requests();
        self.reread = Reread::default();
        if self.pma == Pma::Asked {
            self.pma = Pma::Unknown;
        }
    }

    /// What waits for a place is not asked any more.
    pub(super) fn forget_waiting(&mut self) {
        for seat in &mut self.seats {
            seat.waiting.clear();
        }
        self.deferred.clear();
        self.sums.drop_requests();
    }

    /// Ports of a sweep that wait for the answer to another question.
    pub(super) fn deferred_of(&self, run: RunId) -> usize {
        let caps = self.deferred.iter().filter(|(_, r)| *r == run).count();
        caps + self.sums.deferred_of(run)
    }

    /// It may have other firmware now: what its performance agent can do is asked again.
    pub(super) fn forget_pma(&mut self) {
        self.pma = Pma::Unknown;
        self.redirect = None;
        self.tick = false;
        self.refused.clear();
        self.sums = Sums::default();
    }
}

/// All nodes of which something is kept, by identity.
///
/// Whatever happens happens to one node at a time, and asks for it several times in a row: the
/// last one is found without a search.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    index: BTreeMap<NodeId, usize>,
    slots: Vec<NodeState>,
    free: Vec<usize>,
    last: Cell<Option<(NodeId, usize)>>,
}

impl Nodes {
    fn slot(&self, id: &NodeId) -> Option<usize> {
        match self.last.get() {
            Some((last, slot)) if last == *id => Some(slot),
            _ => {
                let slot = *self.index.get(id)?;
                self.last.set(Some((*id, slot)));
                Some(slot)
            }
        }
    }

    pub(super) fn get(&self, id: &NodeId) -> Option<&NodeState> {
        self.slots.get(self.slot(id)?)
    }

    pub(super) fn get_mut(&mut self, id: &NodeId) -> Option<&mut NodeState> {
        let slot = self.slot(id)?;
        self.slots.get_mut(slot)
    }

    /// What is kept of a node, from here on if nothing was.
    pub(super) fn of(&mut self, id: NodeId) -> &mut NodeState {
        let slot = self.slot(&id).unwrap_or_else(|| {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(NodeState::default());
                self.slots.len() - 1
            });
            self.index.insert(id, slot);
            self.last.set(Some((id, slot)));
            slot
        });
        &mut self.slots[slot]
    }

    /// Forgets a node, and gives what was kept of it.
    pub(super) fn remove(&mut self, id: &NodeId) -> Option<NodeState> {
        let slot = self.index.remove(id)?;
        self.last.set(None);
        self.free.push(slot);
        self.slots.get_mut(slot).map(std::mem::take)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut NodeState> {
        self.slots.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_node_is_its_own_until_it_is_forgotten() {
        let (a, b, c) = (NodeId::new(1), NodeId::new(2), NodeId::new(3));
        let mut nodes = Nodes::default();
        nodes.of(a).sl = Some(1);
        nodes.of(b).sl = Some(2);
        let sl = |nodes: &Nodes, id| nodes.get(&id).and_then(|n| n.sl);
        // The one that was looked for last, another, and one that is not there.
        assert_eq!(
            [a, a, b, c].map(|id| sl(&nodes, id)),
            [Some(1), Some(1), Some(2), None]
        );
        assert_eq!(nodes.remove(&b).and_then(|n| n.sl), Some(2));
        assert!(nodes.get(&b).is_none() && nodes.remove(&b).is_none());
        // Its place is another's, which begins with nothing.
        assert_eq!(nodes.of(c).sl, None);
        nodes.of(c).sl = Some(3);
        assert_eq!([a, b, c].map(|id| sl(&nodes, id)), [Some(1), None, Some(3)]);
    }
}
