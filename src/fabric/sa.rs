//! What the subnet administration says, and where it differs from what discovery saw.
//!
//! The comparison is a function of one table and of the topology at the moment the table came:
//! engine and model make it alike. Neither is right by itself (a link may have come or gone
//! between the two), so a difference counts only once a second reading, made after the ports
//! concerned were asked again, shows it too.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Guid, Lid, NodeId, NodeKind, PortKey, Topology};
use crate::mad::{
    self, Attribute, AttributeInfo, Field, InformInfoRecord, LftRecord, LinkRecord, Mad,
    McMemberRecord, NodeRecord, PKeyTableRecord, PathRecord, PortInfoRecord, ServiceRecord,
    SmInfoRecord, SwitchInfoRecord,
};

/// The tables of the SA that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaTable {
    /// NodeRecord.
    Nodes,
    /// LinkRecord.
    Links,
    /// SwitchInfoRecord.
    Switches,
    /// SMInfoRecord.
    Sms,
    /// PortInfoRecord.
    Ports,
    /// PathRecord, from the local port.
    Paths,
    /// MCMemberRecord.
    Groups,
    /// ServiceRecord.
    Services,
    /// InformInfoRecord.
    Subscriptions,
    /// P_KeyTableRecord.
    Pkeys,
    /// LinearForwardingTableRecord.
    Lft,
}

impl SaTable {
    /// All of them: first those that are compared.
    pub const ALL: [SaTable; 11] = [
        SaTable::Nodes,
        SaTable::Links,
        SaTable::Switches,
        SaTable::Sms,
        SaTable::Ports,
        SaTable::Paths,
        SaTable::Groups,
        SaTable::Services,
        SaTable::Subscriptions,
        SaTable::Pkeys,
        SaTable::Lft,
    ];

    /// Those that are compared with what discovery saw.
    pub const COMPARED: [SaTable; 5] = [
        SaTable::Nodes,
        SaTable::Links,
        SaTable::Switches,
        SaTable::Sms,
        SaTable::Ports,
    ];

    /// The declaration of its records.
    pub const fn info(self) -> AttributeInfo {
        match self {
            SaTable::Nodes => NodeRecord::INFO,
            SaTable::Links => LinkRecord::INFO,
            SaTable::Switches => SwitchInfoRecord::INFO,
            SaTable::Sms => SmInfoRecord::INFO,
            SaTable::Ports => PortInfoRecord::INFO,
            SaTable::Paths => PathRecord::INFO,
            SaTable::Groups => McMemberRecord::INFO,
            SaTable::Services => ServiceRecord::INFO,
            SaTable::Subscriptions => InformInfoRecord::INFO,
            SaTable::Pkeys => PKeyTableRecord::INFO,
            SaTable::Lft => LftRecord::INFO,
        }
    }

    /// The attribute's ID.
    pub const fn id(self) -> u16 {
        self.info().id
    }

    /// The attribute's name.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The fields of a record.
    pub const fn fields(self) -> &'static [Field] {
        self.info().fields
    }

    /// A short name, as the command line takes it.
    pub const fn word(self) -> &'static str {
        match self {
            SaTable::Nodes => "nodes",
            SaTable::Links => "links",
            SaTable::Switches => "switches",
            SaTable::Sms => "sms",
            SaTable::Ports => "ports",
            SaTable::Paths => "paths",
            SaTable::Groups => "groups",
            SaTable::Services => "services",
            SaTable::Subscriptions => "subscriptions",
            SaTable::Pkeys => "pkeys",
            SaTable::Lft => "lft",
        }
    }

    /// The table of records of this attribute.
    pub fn of(id: u16) -> Option<SaTable> {
        SaTable::ALL.into_iter().find(|t| t.id() == id)
    }

    /// By its short name or its attribute's name.
    pub fn by_name(name: &str) -> Option<SaTable> {
        SaTable::ALL
            .into_iter()
            .find(|t| t.word() == name || t.name().eq_ignore_ascii_case(name))
    }
}

/// A subnet manager as it answered for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSm {
    /// Its port GUID.
    pub guid: u64,
    /// SMInfo state code.
    pub state: u8,
}

/// Where the SA and discovery differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The SA has a node that discovery did not find.
    NodeUnseen {
        /// Its GUID.
        node: NodeId,
        /// The LID that the SA gives it.
        lid: Lid,
    },
    /// Discovery found a node that the SA does not have.
    NodeUnknown {
        /// The node.
        node: NodeId,
    },
    /// A port's LID.
    PortLid {
        /// The port.
        port: PortKey,
        /// As the SA has it.
        sa: Lid,
        /// As the port says.
        seen: Lid,
    },
    /// The SA has a link that discovery did not find.
    LinkUnseen {
        /// One end.
        from: PortKey,
        /// The other end, as far as its LID is known.
        to: Option<PortKey>,
        /// The other end's LID.
        to_lid: Lid,
        /// The other end's port.
        to_port: u8,
    },
    /// Discovery found a link that the SA does not have.
    LinkUnknown {
        /// One end.
        from: PortKey,
        /// The other.
        to: PortKey,
    },
    /// A port's state.
    PortState {
        /// The port.
        port: PortKey,
        /// PortState code that the SA has.
        sa: u8,
        /// As the port says.
        seen: u8,
    },
    /// The highest LID of a switch's linear table.
    LinearTop {
        /// The switch.
        node: NodeId,
        /// As the SA has it.
        sa: Lid,
        /// As the switch says.
        seen: Lid,
    },
    /// The SA has a subnet manager that does not answer for itself.
    SmUnseen {
        /// Its port GUID.
        guid: Guid,
    },
    /// A subnet manager answers that the SA does not have.
    SmUnknown {
        /// Its port GUID.
        guid: Guid,
    },
    /// A subnet manager's state.
    SmState {
        /// Its port GUID.
        guid: Guid,
        /// SMInfo state code that the SA has.
        sa: u8,
        /// As the SM says.
        seen: u8,
    },
}

impl Difference {
    /// The table that shows it.
    pub const fn table(&self) -> SaTable {
        match self {
            Difference::NodeUnseen { .. }
            | Difference::NodeUnknown { .. }
            | Difference::PortLid { .. } => SaTable::Nodes,
            Difference::LinkUnseen { .. } | Difference::LinkUnknown { .. } => SaTable::Links,
            Difference::PortState { .. } => SaTable::Ports,
            Difference::LinearTop { .. } => SaTable::Switches,
            Difference::SmUnseen { .. }
            | Difference::SmUnknown { .. }
            | Difference::SmState { .. } => SaTable::Sms,
        }
    }

    /// The port to ask again; port 0 of a node that is asked as a whole.
    pub const fn port(&self) -> Option<PortKey> {
        match *self {
            Difference::NodeUnseen { .. }
            | Difference::SmUnseen { .. }
            | Difference::SmUnknown { .. }
            | Difference::SmState { .. } => None,
            Difference::NodeUnknown { node } | Difference::LinearTop { node, .. } => {
                Some(node.port(0))
            }
            Difference::PortLid { port, .. } | Difference::PortState { port, .. } => Some(port),
            Difference::LinkUnseen { from, .. } | Difference::LinkUnknown { from, .. } => {
                Some(from)
            }
        }
    }
}

/// Where a whole table of the SA and the topology differ. Tables that are not compared differ in
/// nothing; nor does an empty one, which no SA that swept its subnet has.
pub fn differences(
    topology: &Topology,
    sms: &[SeenSm],
    table: SaTable,
    reply: &Mad,
) -> BTreeSet<Difference> {
    let mut found = BTreeSet::new();
    match table {
        SaTable::Nodes => nodes(topology, reply, &mut found),
        SaTable::Links => links(topology, reply, &mut found),
        SaTable::Switches => switches(topology, reply, &mut found),
        SaTable::Ports => ports(topology, reply, &mut found),
        SaTable::Sms => subnet_managers(sms, reply, &mut found),
        _ => {}
    }
    found
}

fn records<R: Attribute>(reply: &Mad) -> Vec<R> {
    mad::records::<R>(&reply.view()).collect()
}

fn nodes(topology: &Topology, reply: &Mad, found: &mut BTreeSet<Difference>) {
    let told = records::<NodeRecord>(reply);
    if told.is_empty() {
        return;
    }
    let mut known: BTreeSet<Guid> = BTreeSet::new();
    for record in &told {
        let info = record.node_info();
        let guid = Guid(info.node_guid());
        known.insert(guid);
        let mut twins = topology.twins(guid).filter(|n| n.present).peekable();
        if twins.peek().is_none() {
            found.insert(Difference::NodeUnseen {
                node: NodeId::new(guid.0),
                lid: record.lid(),
            });
            continue;
        }
        // The port that the record is about: a switch has one LID, at port 0.
        let number = match NodeKind::from_code(info.node_type().code()) {
            NodeKind::Switch => 0,
            _ => info.local_port(),
        };
        let seen: Vec<(PortKey, Lid)> = twins
            .filter_map(|n| Some((n.id.port(number), n.lid(number)?)))
            .collect();
        if let [(port, lid)] = seen.as_slice()
            && *lid != record.lid()
        {
            found.insert(Difference::PortLid {
                port: *port,
                sa: record.lid(),
                seen: *lid,
            });
        }
    }
    for node in topology.nodes().filter(|n| n.present) {
        if !known.contains(&node.id.guid) {
            found.insert(Difference::NodeUnknown { node: node.id });
        }
    }
}

/// The end of a link that a LID and a port name: an adapter's LID names its port by itself.
fn end_of(topology: &Topology, lid: Lid, port: u8) -> Option<PortKey> {
    let key = topology.by_lid(lid)?;
    let switch = topology.node(key.node)?.kind == NodeKind::Switch;
    if switch {
        Some(key.node.port(port))
    } else {
        Some(key)
    }
}

fn links(topology: &Topology, reply: &Mad, found: &mut BTreeSet<Difference>) {
    let told = records::<LinkRecord>(reply);
    if told.is_empty() {
        return;
    }
    let pair = |a: PortKey, b: PortKey| if a <= b { (a, b) } else { (b, a) };
    let mut known = BTreeSet::new();
    for record in &told {
        let from = end_of(topology, record.from_lid(), record.from_port());
        let to = end_of(topology, record.to_lid(), record.to_port());
        // Of a node that was not found the other end tells.
        let Some(from) = from else { continue };
        if let Some(to) = to {
            known.insert(pair(from, to));
            let (from, to) = pair(from, to);
            if topology.port(from).and_then(|p| p.peer) == Some(to) {
                continue;
            }
            found.insert(Difference::LinkUnseen {
                from,
                to: Some(to),
                to_lid: 0,
                to_port: to.port,
            });
        } else {
            found.insert(Difference::LinkUnseen {
                from,
                to: None,
                to_lid: record.to_lid(),
                to_port: record.to_port(),
            });
        }
    }
    for node in topology.nodes().filter(|n| n.present) {
        for number in node.external_ports() {
            let from = node.id.port(number);
            let Some(to) = node
                .port(number)
                .and_then(|p| p.peer)
                .filter(|to| from < *to)
            else {
                continue;
            };
            // A link whose end has no LID cannot be in the table.
            let has_lid = |key: PortKey| {
                topology
                    .node(key.node)
                    .is_some_and(|n| n.lid(key.port).is_some() && n.present)
            };
            if has_lid(from) && has_lid(to) && !known.contains(&(from, to)) {
                found.insert(Difference::LinkUnknown { from, to });
            }
        }
    }
}

fn switches(topology: &Topology, reply: &Mad, found: &mut BTreeSet<Difference>) {
    for record in records::<SwitchInfoRecord>(reply) {
        let node = topology
            .by_lid(record.lid())
            .and_then(|key| topology.node(key.node));
        if let Some((node, info)) = node.and_then(|n| Some((n, n.switch.as_ref()?)))
            && node.present
            && info.linear_fdb_top() != record.switch_info().linear_fdb_top()
        {
            found.insert(Difference::LinearTop {
                node: node.id,
                sa: record.switch_info().linear_fdb_top(),
                seen: info.linear_fdb_top(),
            });
        }
    }
}

fn ports(topology: &Topology, reply: &Mad, found: &mut BTreeSet<Difference>) {
    for record in records::<PortInfoRecord>(reply) {
        let Some(key) = end_of(topology, record.lid(), record.port()) else {
            continue;
        };
        let present = topology.node(key.node).is_some_and(|n| n.present);
        let Some(seen) = topology
            .port(key)
            .and_then(|p| p.state())
            .filter(|_| present)
        else {
            continue;
        };
        let sa = record.port_info().port_state().code();
        // A basic port 0 has no link and, in some switches, no state.
        if sa != seen && sa != 0 && seen != 0 && key.port != 0 {
            found.insert(Difference::PortState {
                port: key,
                sa,
                seen,
            });
        }
    }
}

fn subnet_managers(sms: &[SeenSm], reply: &Mad, found: &mut BTreeSet<Difference>) {
    let told: BTreeMap<u64, u8> = records::<SmInfoRecord>(reply)
        .iter()
        .map(|r| (r.sm_info().guid(), r.sm_info().state().code()))
        .collect();
    if told.is_empty() {
        return;
    }
    let seen: BTreeMap<u64, u8> = sms.iter().map(|sm| (sm.guid, sm.state)).collect();
    for (guid, sa) in &told {
        match seen.get(guid) {
            // One that is not active need not answer.
            None if *sa == 0 => {}
            None => {
                found.insert(Difference::SmUnseen { guid: Guid(*guid) });
            }
            Some(state) if state != sa => {
                found.insert(Difference::SmState {
                    guid: Guid(*guid),
                    sa: *sa,
                    seen: *state,
                });
            }
            Some(_) => {}
        }
    }
    for (guid, state) in seen {
        if state != 0 && !told.contains_key(&guid) {
            found.insert(Difference::SmUnknown { guid: Guid(guid) });
        }
    }
}
