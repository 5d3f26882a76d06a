//! Linear forwarding tables, and the paths that they make.
//!
//! A switch forwards a packet by the destination LID alone: one octet a LID, in blocks of 64
//! (spec 14.2.5.10, 18.2.4.3.3). [`Tables`] keeps the blocks that were read; [`walk`] follows
//! them hop by hop. Both are of static tables: a switch with adaptive routing may choose
//! another port, and no MAD of the specification says so.

use std::collections::BTreeMap;

use super::topology::Port;
use super::{Change, Changes, Lid, NodeId, NodeKind, PortKey, Request, Topology};
use crate::mad::{Attribute, LftRecord, LinearForwardingTable, Mad, Method, records};
use crate::port::Stamp;

/// LIDs in a block.
pub const BLOCK: u16 = 64;
/// The entry of a LID that is not routed.
pub const NO_ROUTE: u8 = 255;
/// The first LID that is no unicast one.
pub const UNICAST_END: Lid = 0xC000;
/// A path has no more switches: nothing that is meant does.
const LONGEST: usize = 64;

/// A block of a table: when it was read, by whose word, and its entries.
#[derive(Clone, Debug)]
struct Block {
    read: Stamp,
    told: bool,
    ports: Box<[u8; 64]>,
}

/// Blocks of one switch's table, by number.
type Blocks = BTreeMap<u16, Block>;

/// The forwarding tables as far as they were read.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    switches: BTreeMap<NodeId, Blocks>,
    /// When a link was last seen to come or go, or a LID to change: tables that are older may
    /// have been changed since.
    changed: Stamp,
}

/// An entry of a table: the port, and when its block was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The port by which the LID leaves; 0 the switch itself, 255 none.
    pub port: u8,
    /// When the block was read.
    pub read: Stamp,
    /// The SA told it: the switch itself does not.
    pub told: bool,
}

impl Tables {
    /// No table was read.
    pub fn new() -> Tables {
        Tables::default()
    }

    /// Takes a block from an exchange: a switch's own, or one that the SA tells in its stead.
    /// False if it holds none.
    pub fn learn(&mut self, at: Stamp, request: &Request, reply: &Mad) -> bool {
        let Some(node) = request.target.node.filter(|_| reply.status().is_ok()) else {
            return false;
        };
        let view = reply.view();
        let own = LinearForwardingTable::ID;
        let (table, block, told) = match (request.class, request.attribute) {
            (0x01 | 0x81, id) if id == own => {
                let Ok(table) = LinearForwardingTable::from_bytes(view.data()) else {
                    return false;
                };
                (table, request.modifier, false)
            }
            // A whole table of the SA is about all switches, whoever its target is.
            (0x03, LftRecord::ID) if request.method == Method::Get.code() => {
                let Some(record) = records::<LftRecord>(&view).next() else {
                    return false;
                };
                (record.table(), u32::from(record.block()), true)
            }
            _ => return false,
        };
        let Ok(number) = u16::try_from(block) else {
            return false;
        };
        if number >= UNICAST_END / BLOCK {
            return false;
        }
        let block = Block {
            read: at,
            told,
            ports: Box::new(table.ports()),
        };
        self.switches.entry(node).or_default().insert(number, block);
        true
    }

    /// Notes what makes older tables doubtful, and forgets nodes that are forgotten.
    pub fn note(&mut self, at: Stamp, changes: &Changes) {
        for change in &changes.list {
            match change {
                Change::LinkFound(..) | Change::LinkLost(..) | Change::Lid { .. } => {
                    self.changed = self.changed.max(at);
                }
                Change::NodeForgotten(id) => {
                    self.switches.remove(id);
                }
                _ => {}
            }
        }
    }

    /// When a link was last seen to come or go, or a LID to change.
    pub fn changed(&self) -> Stamp {
        self.changed
    }

    /// The entry of a LID, if its block was read.
    pub fn entry(&self, switch: NodeId, lid: Lid) -> Option<Entry> {
        let block = self.switches.get(&switch)?.get(&(lid / BLOCK))?;
        Some(Entry {
            port: *block.ports.get(usize::from(lid % BLOCK))?,
            read: block.read,
            told: block.told,
        })
    }

    /// When a block was read.
    pub fn read(&self, switch: NodeId, block: u16) -> Option<Stamp> {
        Some(self.switches.get(&switch)?.get(&block)?.read)
    }

    /// The blocks of a table that were read up to LID `top`, and how many it has.
    pub fn extent(&self, switch: NodeId, top: Lid) -> (usize, usize) {
        let have = self
            .switches
            .get(&switch)
            .map_or(0, |blocks| blocks.range(..=top / BLOCK).count());
        (have, usize::from(top / BLOCK) + 1)
    }

    /// When the oldest block up to LID `top` was read.
    pub fn oldest(&self, switch: NodeId, top: Lid) -> Option<Stamp> {
        let blocks = self.switches.get(&switch)?;
        blocks.range(..=top / BLOCK).map(|(_, b)| b.read).min()
    }

    /// The SA told some of a table up to LID `top`.
    pub fn is_told(&self, switch: NodeId, top: Lid) -> bool {
        let blocks = self.switches.get(&switch);
        blocks.is_some_and(|blocks| blocks.range(..=top / BLOCK).any(|(_, b)| b.told))
    }

    /// All entries up to LID `top` that were read, in order of LID; LID 0 is none.
    pub fn entries(&self, switch: NodeId, top: Lid) -> impl Iterator<Item = (Lid, u8)> + '_ {
        self.switches
            .get(&switch)
            .into_iter()
            .flat_map(|blocks| blocks.iter())
            .flat_map(|(number, block)| (number * BLOCK..).zip(block.ports.iter().copied()))
            .filter(move |(lid, _)| *lid != 0 && *lid <= top)
    }
}

/// One node on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node.
    pub node: NodeId,
    /// The port by which the path enters it; `None` where it begins.
    pub enters: Option<u8>,
    /// The port by which it leaves; `None` where it ends.
    pub leaves: Option<u8>,
    /// When the block of the table that says so was read; `None` where no table decides.
    pub read: Option<Stamp>,
    /// The SA told that block: the switch itself does not.
    pub told: bool,
}

/// How a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the port that has the LID.
    Arrived,
    /// At another port than the one that has the LID.
    Astray(PortKey),
    /// The table has no route to the LID: a black hole.
    NoRoute,
    /// The LID is above the highest one of the table, which is this: a black hole.
    AboveTop(Lid),
    /// The table names a port that the switch does not have.
    NoSuchPort(u8),
    /// The table names a port without a link.
    NoLink(u8),
    /// The table names a port whose link is up, and at whose other end nobody is known.
    Unseen(u8),
    /// The table keeps the LID at the switch, which does not have it.
    KeptBySwitch,
    /// The path comes to a switch for the second time.
    Loop,
    /// The block of the table that decides was not read.
    Unread,
    /// The switch has no linear table (but a random one).
    NoLinearTable,
    /// It leads through a node that passes nothing on, or that is not known.
    DeadEnd,
    /// More switches than any path that is meant.
    TooLong,
}

/// A path by the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where it begins.
    pub from: PortKey,
    /// The LID that it leads to.
    pub lid: Lid,
    /// The port that has the LID, if one is known.
    pub to: Option<PortKey>,
    /// Every node on it, the first and the last included. How it ends is said of the last.
    pub hops: Vec<Hop>,
    /// How it ends.
    pub end: End,
}

impl Path {
    /// The last node.
    pub fn last(&self) -> Option<&Hop> {
        self.hops.last()
    }

    /// When the oldest block of a table that it follows was read.
    pub fn oldest(&self) -> Option<Stamp> {
        self.hops.iter().filter_map(|hop| hop.read).min()
    }
}

/// Where a path ends that leaves by a port at whose other end nobody is known.
fn no_peer(port: Option<&Port>, number: u8) -> End {
    match port.is_some_and(Port::is_up) {
        true => End::Unseen(number),
        false => End::NoLink(number),
    }
}

/// Follows the tables from a port to a LID. `entry` gives a table's entry, `None` where it was
/// not read.
pub fn walk(
    topology: &Topology,
    from: PortKey,
    lid: Lid,
    entry: impl Fn(NodeId, Lid) -> Option<Entry>,
) -> Path {
    let to = topology.by_lid(lid);
    let mut hops: Vec<Hop> = Vec::new();
    let mut at = from;
    let mut enters = None;
    let end = loop {
        let mut hop = Hop {
            node: at.node,
            enters,
            leaves: None,
            read: None,
            told: false,
        };
        let Some(node) = topology.node(at.node) else {
            hops.push(hop);
            break End::DeadEnd;
        };
        if node.kind != NodeKind::Switch {
            if to == Some(at) {
                hops.push(hop);
                break End::Arrived;
            }
            if enters.is_some() {
                hops.push(hop);
                break if to.is_some() {
                    End::Astray(at)
                } else {
                    End::DeadEnd
                };
            }
            let port = node.port(at.port);
            hop.leaves = Some(at.port);
            hops.push(hop);
            let Some(peer) = port.and_then(|p| p.peer) else {
                break no_peer(port, at.port);
            };
            (at, enters) = (peer, Some(peer.port));
            continue;
        }
        if to.is_some_and(|to| to.node == at.node) {
            hops.push(hop);
            break End::Arrived;
        }
        if hops.iter().any(|h| h.node == at.node) {
            hops.push(hop);
            break End::Loop;
        }
        let top = node
            .switch
            .as_ref()
            .map(|s| (s.linear_fdb_cap(), s.linear_fdb_top()));
        let found = entry(at.node, lid);
        hop.read = found.map(|f| f.read);
        hop.told = found.is_some_and(|f| f.told);
        let next = match (top, found) {
            (Some((0, _)), None) => Err(End::NoLinearTable),
            (Some((_, top)), _) if lid > top => Err(End::AboveTop(top)),
            (_, None) => Err(End::Unread),
            (_, Some(found)) => match found.port {
                NO_ROUTE => Err(End::NoRoute),
                0 => Err(End::KeptBySwitch),
                port => match node.port(port) {
                    None => Err(End::NoSuchPort(port)),
                    Some(p) => {
                        hop.leaves = Some(port);
                        p.peer.ok_or_else(|| no_peer(Some(p), port))
                    }
                },
            },
        };
        hops.push(hop);
        match next {
            Err(end) => break end,
            Ok(_) if hops.len() > LONGEST => break End::TooLong,
            Ok(peer) => (at, enters) = (peer, Some(peer.port)),
        }
    };
    Path {
        from,
        lid,
        to,
        hops,
        end,
    }
}

#[cfg(test)]
mod tests;
