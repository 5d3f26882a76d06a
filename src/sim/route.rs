//! Linear forwarding tables: minimal hops, spread over equal paths by destination LID.
//!
//! They are the subnet manager's view: made from the links it saw at its last sweep, so that a
//! link that went down meanwhile swallows what is sent over it. Entries are computed when first
//! used; 100,000 ports cost nothing until somebody routes to them.

use super::world::{NONE, Node, Port};

/// LFT entry: no route.
pub const NO_ROUTE: u8 = 255;
/// Cache entry: not computed. Port 0 is only the entry of a switch's own LID, which is not
/// cached.
const UNKNOWN: u8 = 0;
/// More switches in a row than any minimal path has.
const FAR: u8 = 255;

/// Forwarding tables of all switches.
#[derive(Default)]
pub struct Routes {
    /// Links to other switches, by switch: own port, the other switch.
    adjacent: Vec<Vec<(u8, u32)>>,
    /// For each LID the switch where it leaves the network of switches, and the port there.
    home: Vec<(u32, u8)>,
    /// Distances of all switches to one, by that one.
    distance: Vec<Option<Box<[u8]>>>,
    /// Entries by switch and LID.
    cache: Vec<Vec<u8>>,
    top: u16,
}

impl Routes {
    /// Looks at the fabric as it is now and forgets all older routes.
    pub fn rebuild(&mut self, nodes: &[Node], ports: &[Port], switches: usize) {
        self.adjacent = vec![Vec::new(); switches];
        self.distance = (0..switches).map(|_| None).collect();
        self.cache = vec![Vec::new(); switches];
        self.home.clear();
        let switch_of = |port: &Port| nodes.get(port.node as usize).map_or(NONE, |n| n.switch);
        let mut top = 0;
        for port in ports {
            let own = switch_of(port);
            let peer = ports.get(port.peer as usize).filter(|_| port.is_up());
            if let (Some(list), Some(peer)) = (self.adjacent.get_mut(own as usize), peer) {
                let other = switch_of(peer);
                if other != NONE {
                    list.push((port.number, other));
                }
            }
            if port.lid == 0 {
                continue;
            }
            let home = if own != NONE {
                (own, 0)
            } else {
                peer.map_or((NONE, 0), |p| (switch_of(p), p.number))
            };
            let end = usize::from(port.lid) + (1 << port.lmc);
            if self.home.len() < end {
                self.home.resize(end, (NONE, 0));
            }
            if let Some(lids) = self.home.get_mut(usize::from(port.lid)..end) {
                lids.fill(home);
            }
            top = top.max(end as u16 - 1);
        }
        self.top = top;
    }

    /// The highest LID with an entry.
    pub fn top(&self) -> u16 {
        self.top
    }

    /// The port by which `switch` forwards to `lid`.
    pub fn next(&mut self, switch: u32, lid: u16) -> u8 {
        let Some(&(home, port)) = self.home.get(usize::from(lid)) else {
            return NO_ROUTE;
        };
        if home == switch {
            return port;
        }
        if home == NONE {
            return NO_ROUTE;
        }
        let cached = self
            .cache
            .get(switch as usize)
            .and_then(|t| t.get(usize::from(lid)))
            .copied()
            .unwrap_or(UNKNOWN);
        if cached != UNKNOWN {
            return cached;
        }
        let found = self.compute(switch, home, lid);
        let top = usize::from(self.top) + 1;
        if let Some(table) = self.cache.get_mut(switch as usize) {
            table.resize(top, UNKNOWN);
            if let Some(entry) = table.get_mut(usize::from(lid)) {
                *entry = found;
            }
        }
        found
    }

    fn compute(&mut self, switch: u32, home: u32, lid: u16) -> u8 {
        if !matches!(self.distance.get(home as usize), Some(Some(_))) {
            let distances = self.distances_to(home);
            if let Some(slot) = self.distance.get_mut(home as usize) {
                *slot = Some(distances);
            }
        }
        let Some(Some(distance)) = self.distance.get(home as usize) else {
            return NO_ROUTE;
        };
        let far = |s: u32| distance.get(s as usize).copied().unwrap_or(FAR);
        let own = far(switch);
        if own == FAR {
            return NO_ROUTE;
        }
        let links = self.adjacent.get(switch as usize).map_or(&[][..], |l| l);
        let nearer = || links.iter().filter(|(_, s)| far(*s) < own);
        let count = nearer().count();
        if count == 0 {
            return NO_ROUTE;
        }
        nearer()
            .nth(usize::from(lid) % count)
            .map_or(NO_ROUTE, |(port, _)| *port)
    }

    fn distances_to(&self, home: u32) -> Box<[u8]> {
        let mut distance = vec![FAR; self.adjacent.len()].into_boxed_slice();
        if let Some(d) = distance.get_mut(home as usize) {
            *d = 0;
        }
        let mut queue = std::collections::VecDeque::from([home]);
        while let Some(at) = queue.pop_front() {
            let next = distance
                .get(at as usize)
                .map_or(FAR, |d| d.saturating_add(1));
            if next == FAR {
                break;
            }
            for (_, to) in self.adjacent.get(at as usize).map_or(&[][..], |l| l) {
                if let Some(d) = distance.get_mut(*to as usize).filter(|d| **d == FAR) {
                    *d = next;
                    queue.push_back(*to);
                }
            }
        }
        distance
    }
}
