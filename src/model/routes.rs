//! Views of the forwarding tables: a path hop by hop, a switch's table, who uses a port.
//!
//! All of it is of static tables: with adaptive routing a switch may choose another port.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Model;
use super::view::{PortRow, TrafficRow};
use crate::event::Topic;
use crate::fabric::routes::{End, NO_ROUTE, Path, walk};
use crate::fabric::{Lid, Node, NodeId, NodeKind, PortKey};
use crate::port::Stamp;

/// What must stand beside tables that the SA told.
pub const TOLD: &str = "table from the SA: the switch itself is protected or does not answer";

/// What must stand beside every path.
pub const LABEL: &str = "static forwarding tables; adaptive routing may differ";

/// A path by the tables.
#[derive(Clone, Debug)]
pub struct PathView<'m> {
    /// Where it begins: port and node name.
    pub from: (PortKey, &'m str),
    /// The LID that it leads to.
    pub lid: Lid,
    /// The port that has that LID, if one is known, with its node's name.
    pub to: Option<(PortKey, &'m str)>,
    /// Who has it as the SA tells, where discovery found nobody who has.
    pub to_in_sa: Option<String>,
    /// Every node on it, the first and the last included, as far as discovery saw them.
    pub hops: Vec<HopView<'m>>,
    /// Who follows the last of them, where the way goes on and was not seen.
    pub beyond: Option<Beyond>,
    /// It arrives.
    pub arrives: bool,
    /// Whether it arrives is known: every table that it needs was read.
    pub known: bool,
    /// Why it does not, or that it does, in words.
    pub end: String,
    /// Age of the oldest block that it follows; `None` if no table decides.
    pub age: Option<Duration>,
    /// A link came or went, or a LID changed, since a block that it follows was read.
    pub outdated: bool,
    /// Its tables are being read.
    pub reading: bool,
}

/// Who is beyond the part of a path that discovery saw, as the SA tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The port behind which it is.
    pub via: PortKey,
    /// Its LID.
    pub lid: Lid,
    /// The port by which the path enters it.
    pub port: u8,
    /// Its name; empty if the SA did not tell it.
    pub name: String,
    /// The path's LID is its own.
    pub is_end: bool,
}

/// A node on a path.
#[derive(Clone, Debug)]
pub struct HopView<'m> {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: &'m str,
    /// What it is.
    pub kind: NodeKind,
    /// Its LID, of an adapter that of the port.
    pub lid: Option<Lid>,
    /// The port by which the path enters it.
    pub enters: Option<u8>,
    /// The port by which it leaves it.
    pub leaves: Option<u8>,
    /// The port by which it leaves: state, errors, and the load that it sends.
    pub out: Option<(PortRow<'m>, TrafficRow<'m>)>,
    /// The port by which it enters: state and errors.
    pub into: Option<PortRow<'m>>,
    /// Age of the block that decides here.
    pub age: Option<Duration>,
    /// The SA told that block: the switch itself does not.
    pub told: bool,
}

/// A switch's table.
#[derive(Clone, Debug)]
pub struct RoutesView<'m> {
    /// The switch.
    pub node: NodeId,
    /// Its name.
    pub name: &'m str,
    /// Its LID.
    pub lid: Option<Lid>,
    /// The highest LID of the table; `None` if the switch did not say.
    pub top: Option<Lid>,
    /// Every LID with a route, in order.
    pub rows: Vec<RouteRow<'m>>,
    /// The SA told some of it: the switch itself does not.
    pub told: bool,
    /// Blocks that were read, of how many.
    pub read: (usize, usize),
    /// Why there is none to show.
    pub note: Option<String>,
    /// Age of the oldest block.
    pub age: Option<Duration>,
    /// A link came or went, or a LID changed, since then.
    pub outdated: bool,
    /// It is being read.
    pub reading: bool,
}

/// An entry of a table.
#[derive(Clone, Debug)]
pub struct RouteRow<'m> {
    /// The LID.
    pub lid: Lid,
    /// The port by which it leaves; 0 the switch itself.
    pub port: u8,
    /// Who has the LID, if that is known, with the node's name.
    pub to: Option<(PortKey, &'m str)>,
}

/// Who is reached by a port.
#[derive(Clone, Debug)]
pub struct UsesView<'m> {
    /// The port, and its node's name.
    pub port: (PortKey, &'m str),
    /// Who is at the other end of its link.
    pub peer: Option<(PortKey, &'m str)>,
    /// Destinations, in order of name.
    pub destinations: Vec<Destination<'m>>,
    /// LIDs in all, those of nobody known included.
    pub lids: usize,
    /// LIDs of the table that have a route at all.
    pub routed: usize,
    /// What there is to say: an adapter's port, a table that was not read as a whole.
    pub note: Option<String>,
    /// The SA told some of the table: the switch itself does not.
    pub told: bool,
    /// Blocks of the table that were read, of how many.
    pub read: (usize, usize),
    /// Age of the oldest block.
    pub age: Option<Duration>,
    /// A link came or went, or a LID changed, since then.
    pub outdated: bool,
    /// The table is being read.
    pub reading: bool,
}

/// A destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination<'m> {
    /// The port; `None` for LIDs that no known port has.
    pub key: Option<PortKey>,
    /// Its node's name; empty for nobody known.
    pub name: &'m str,
    /// Its LIDs that leave by the port.
    pub lids: Vec<Lid>,
}

impl Beyond {
    /// Its name, port and LID.
    pub fn words(&self) -> String {
        match self.name.as_str() {
            "" => format!("LID {} port {}", self.lid, self.port),
            name => format!("{name}[{}] LID {}", self.port, self.lid),
        }
    }
}

impl Model {
    fn named(&self, key: PortKey) -> (PortKey, &str) {
        (key, self.name(key.node))
    }

    fn is_read(&self, wanted: impl Fn(&Topic) -> bool) -> bool {
        self.readings.iter().any(wanted)
    }

    /// The path from a port to a LID by the tables as far as they were read.
    pub fn path(&self, from: PortKey, lid: Lid, now: Stamp) -> PathView<'_> {
        let path = walk(&self.topology, from, lid, |node, lid| {
            self.tables.entry(node, lid)
        });
        let topic = Topic::Path { from, lid };
        let hops = path
            .hops
            .iter()
            .map(|hop| {
                let node = self.topology.node(hop.node);
                let port = hop.leaves.or(hop.enters).unwrap_or(0);
                let row = |port: Option<u8>| self.seen_port(hop.node.port(port?), None, now);
                HopView {
                    node: hop.node,
                    name: self.name(hop.node),
                    kind: node.map_or(NodeKind::Unknown, |n| n.kind),
                    lid: node.and_then(|n| n.lid(port)),
                    enters: hop.enters,
                    leaves: hop.leaves,
                    out: row(hop.leaves),
                    into: row(hop.enters).map(|(row, _)| row),
                    age: hop.read.map(|at| now.since(at)),
                    told: hop.told,
                }
            })
            .collect();
        let beyond = self.beyond(&path);
        let ends = beyond.as_ref().is_some_and(|b| b.is_end);
        let in_sa = || self.only_in_sa().find(|n| n.lid == lid).map(|n| n.name);
        PathView {
            from: self.named(from),
            lid,
            to: path.to.map(|to| self.named(to)),
            to_in_sa: path.to.map_or_else(in_sa, |_| None),
            hops,
            arrives: path.end == End::Arrived || ends,
            known: ends || !matches!(path.end, End::Unread | End::Unseen(_)),
            end: self.end_words(&path, beyond.as_ref()),
            beyond,
            age: path.oldest().map(|at| now.since(at)),
            outdated: path.oldest().is_some_and(|at| at < self.tables.changed()),
            reading: self.is_read(|t| *t == topic),
        }
    }

    /// Who is at the end of what was seen of a path.
    fn beyond(&self, path: &Path) -> Option<Beyond> {
        let End::Unseen(port) = path.end else {
            return None;
        };
        let via = path.last()?.node.port(port);
        let (lid, port) = self.other_end_in_sa(via)?;
        let name = self.only_in_sa().find(|n| n.lid == lid).map(|n| n.name);
        Some(Beyond {
            via,
            lid,
            port,
            name: name.unwrap_or_default(),
            is_end: lid == path.lid,
        })
    }

    fn end_words(&self, path: &Path, beyond: Option<&Beyond>) -> String {
        let last = path.last();
        let name = last.map_or("", |hop| self.name(hop.node));
        let lid = path.lid;
        match path.end {
            End::Arrived => "arrives".to_owned(),
            End::Astray(at) => format!(
                "goes astray: it ends at {}[{}], which does not have LID {lid}",
                self.name(at.node),
                at.port
            ),
            End::NoRoute => format!("black hole: {name} has no route to LID {lid} (port 255)"),
            End::AboveTop(top) => {
                format!("black hole: the table of {name} ends at LID {top}, below LID {lid}")
            }
            End::NoSuchPort(port) => {
                format!("black hole: {name} forwards LID {lid} to port {port}, which it has not")
            }
            End::NoLink(port) => format!("black hole: {name} port {port} has no link"),
            End::KeptBySwitch => {
                format!("black hole: {name} takes LID {lid} for its own, which it is not")
            }
            End::Loop => format!("loop: it comes to {name} again"),
            End::Unseen(port) => match beyond {
                Some(to) if to.is_end => format!(
                    "arrives as the SA tells it: {} is behind {name}[{port}], where discovery \
                     found nobody",
                    to.words()
                ),
                Some(to) => format!(
                    "behind {name}[{port}] it goes on unseen, to {} as the SA tells it",
                    to.words()
                ),
                None => format!(
                    "behind {name}[{port}] it goes on unseen: the link is up, and nobody answers \
                     there"
                ),
            },
            End::Unread => {
                let node = last.and_then(|hop| self.topology.node(hop.node));
                let answers = last.is_none_or(|hop| self.answers(hop.node));
                let why = match (node.is_some_and(|n| n.guarded), answers) {
                    (true, _) => "; it is protected by an M_Key, and the SA did not tell it",
                    (false, false) => "; it does not answer, and the SA did not tell it",
                    (false, true) => "",
                };
                format!("the table of {name} was not read{why}")
            }
            End::NoLinearTable => last
                .and_then(|hop| self.no_linear_table(hop.node))
                .unwrap_or_default(),
            End::DeadEnd => format!("nobody known has LID {lid}; it ends at {name}"),
            End::TooLong => "too long: more than 64 switches".to_owned(),
        }
    }

    /// Why a switch's table is not shown, where it is no linear one (spec 14.2.5.4: such a switch
    /// says that its linear table holds 0 entries).
    fn no_linear_table(&self, switch: NodeId) -> Option<String> {
        let info = self.topology.node(switch)?.switch.as_ref()?;
        let name = self.name(switch);
        match (info.linear_fdb_cap(), info.random_fdb_cap()) {
            (0, 0) => Some(format!("{name} has no linear forwarding table")),
            (0, entries) => Some(format!(
                "{name} uses a random forwarding table (of {entries} entries): it is not shown"
            )),
            _ => None,
        }
    }

    fn top_of(node: &Node) -> Option<Lid> {
        Some(node.switch.as_ref()?.linear_fdb_top())
    }

    /// A switch's table; `None` if it is no switch that is known.
    pub fn routes(&self, switch: NodeId, now: Stamp) -> Option<RoutesView<'_>> {
        let node = self.topology.node(switch)?;
        if node.kind != NodeKind::Switch {
            return None;
        }
        let top = Self::top_of(node);
        let up_to = top.unwrap_or(crate::fabric::routes::UNICAST_END - 1);
        let rows = self
            .tables
            .entries(switch, up_to)
            .filter(|(_, port)| *port != NO_ROUTE)
            .map(|(lid, port)| RouteRow {
                lid,
                port,
                to: self.topology.by_lid(lid).map(|key| self.named(key)),
            })
            .collect();
        let oldest = self.tables.oldest(switch, up_to);
        Some(RoutesView {
            node: switch,
            name: self.name(switch),
            lid: node.lid(0),
            top,
            rows,
            told: self.tables.is_told(switch, up_to),
            read: self.tables.extent(switch, up_to),
            note: self.no_linear_table(switch),
            age: oldest.map(|at| now.since(at)),
            outdated: oldest.is_some_and(|at| at < self.tables.changed()),
            reading: self.is_read(|t| *t == Topic::Table { switch }),
        })
    }

    /// The destinations that are reached by a port; `None` if the port is not known.
    pub fn uses(&self, port: PortKey, now: Stamp) -> Option<UsesView<'_>> {
        let node = self.topology.node(port.node)?;
        let at = node.port(port.port)?;
        let mut view = UsesView {
            port: self.named(port),
            peer: at.peer.map(|peer| self.named(peer)),
            destinations: Vec::new(),
            lids: 0,
            routed: 0,
            note: None,
            told: false,
            read: (0, 0),
            age: None,
            outdated: false,
            reading: false,
        };
        let Some(table) = self.routes(port.node, now) else {
            view.note = Some(format!(
                "{} is no switch: all that it sends by this port goes through it; for who is \
                 reached by the link towards it, ask the other end",
                self.name(port.node)
            ));
            return Some(view);
        };
        let mut found: BTreeMap<Option<PortKey>, Vec<Lid>> = BTreeMap::new();
        for row in &table.rows {
            view.routed += 1;
            if row.port == port.port {
                view.lids += 1;
                found
                    .entry(row.to.map(|(key, _)| key))
                    .or_default()
                    .push(row.lid);
            }
        }
        view.destinations = found
            .into_iter()
            .map(|(key, lids)| Destination {
                key,
                name: key.map_or("", |key| self.name(key.node)),
                lids,
            })
            .collect();
        view.destinations
            .sort_by(|a, b| (a.name, a.key).cmp(&(b.name, b.key)));
        let (have, all) = table.read;
        view.note = match table.top {
            _ if table.note.is_some() => table.note,
            None => Some(format!("{} did not say how large its table is", table.name)),
            Some(_) if have < all => Some(format!(
                "{have} of {all} blocks of the table of {} were read: there may be more",
                table.name
            )),
            Some(_) => None,
        };
        view.told = table.told;
        view.read = table.read;
        view.age = table.age;
        view.outdated = table.outdated;
        view.reading = table.reading;
        Some(view)
    }
}
