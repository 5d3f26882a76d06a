//! What the SA's tables and the topology tell apart.

use std::collections::{BTreeMap, BTreeSet};

use super::SaTable;
use crate::fabric::names::clean;
use crate::fabric::topology::Node;
use crate::fabric::{Guid, Lid, NodeId, NodeKind, PortKey, Request, Topology};
use crate::mad::{
    self, Attribute, LinkRecord, Mad, NodeDescription, NodeInfo, NodeRecord, PortInfo,
    PortInfoRecord, SmInfoRecord, SwitchInfo, SwitchInfoRecord,
};

/// A subnet manager as it answered for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSm {
    /// Its port GUID.
    pub guid: u64,
    /// SMInfo state code.
    pub state: u8,
    /// 0–15.
    pub priority: u8,
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
    /// A field of a node's, port's or switch's own attribute.
    Field {
        /// The table that shows it.
        table: SaTable,
        /// The port; 0 where it is the node's.
        port: PortKey,
        /// The field's name.
        field: &'static str,
        /// As the SA has it.
        sa: u64,
        /// As the node says.
        seen: u64,
    },
    /// A node's description.
    Description {
        /// The node.
        node: NodeId,
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
    /// A subnet manager's priority.
    SmPriority {
        /// Its port GUID.
        guid: Guid,
        /// As the SA has it.
        sa: u8,
        /// As the SM says.
        seen: u8,
    },
}

/// What of a node is to be asked again before a difference counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reread {
    /// NodeInfo.
    Node(NodeId),
    /// NodeDescription.
    Description(NodeId),
    /// SwitchInfo.
    Switch(NodeId),
    /// PortInfo.
    Port(PortKey),
}

impl Reread {
    /// What an answered request read again.
    pub fn of(request: &Request) -> Option<Reread> {
        let node = request.target.node?;
        match (request.class, request.attribute) {
            (0x01 | 0x81, NodeInfo::ID) => Some(Reread::Node(node)),
            (0x01 | 0x81, NodeDescription::ID) => Some(Reread::Description(node)),
            (0x01 | 0x81, SwitchInfo::ID) => Some(Reread::Switch(node)),
            (0x01 | 0x81, PortInfo::ID) => Some(Reread::Port(node.port(request.target.port))),
            _ => None,
        }
    }
}

impl Difference {
    /// The table that shows it.
    pub const fn table(&self) -> SaTable {
        match self {
            Difference::NodeUnseen { .. }
            | Difference::NodeUnknown { .. }
            | Difference::PortLid { .. }
            | Difference::Description { .. } => SaTable::Nodes,
            Difference::LinkUnseen { .. } | Difference::LinkUnknown { .. } => SaTable::Links,
            Difference::PortState { .. } => SaTable::Ports,
            Difference::Field { table, .. } => *table,
            Difference::SmUnseen { .. }
            | Difference::SmUnknown { .. }
            | Difference::SmState { .. }
            | Difference::SmPriority { .. } => SaTable::Sms,
        }
    }

    /// The port that it is about; port 0 of a node that is meant as a whole.
    pub const fn port(&self) -> Option<PortKey> {
        match *self {
            Difference::NodeUnseen { .. }
            | Difference::SmUnseen { .. }
            | Difference::SmUnknown { .. }
            | Difference::SmState { .. }
            | Difference::SmPriority { .. } => None,
            Difference::NodeUnknown { node } | Difference::Description { node } => {
                Some(node.port(0))
            }
            Difference::PortLid { port, .. }
            | Difference::PortState { port, .. }
            | Difference::Field { port, .. } => Some(port),
            Difference::LinkUnseen { from, .. } | Difference::LinkUnknown { from, .. } => {
                Some(from)
            }
        }
    }

    /// What is asked again. Of a field, a state or a description the second reading counts only
    /// once that was answered.
    pub fn reread(&self) -> Option<Reread> {
        match *self {
            Difference::Description { node } => Some(Reread::Description(node)),
            Difference::Field {
                table: SaTable::Switches,
                port,
                ..
            } => Some(Reread::Switch(port.node)),
            Difference::Field {
                table: SaTable::Nodes,
                port,
                ..
            } => Some(Reread::Node(port.node)),
            _ => self.port().map(Reread::Port),
        }
    }

    /// It is of something that a node said itself, and not of who is there.
    pub const fn is_of_attribute(&self) -> bool {
        matches!(
            self,
            Difference::Field { .. }
                | Difference::Description { .. }
                | Difference::PortState { .. }
        )
    }
}

/// Where a whole table of the SA and the topology differ. An empty one differs in nothing: no SA
/// that swept its subnet has one.
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
        // Discovery reads no tables of P_Keys, and forwarding tables only on demand. Members,
        // services and subscribers are named by GIDs, among them those of virtual functions,
        // which are no port's own; a path's LIDs are in the other tables.
        SaTable::Paths
        | SaTable::Groups
        | SaTable::Services
        | SaTable::Subscriptions
        | SaTable::Pkeys
        | SaTable::Lft => {}
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
        let twins: Vec<&Node> = topology.twins(guid).filter(|n| n.present).collect();
        if twins.is_empty() {
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
        if let [node] = twins.as_slice() {
            node_fields(node, number, record, found);
        }
        let seen: Vec<(PortKey, Lid)> = twins
            .into_iter()
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

/// Compares the fields of an attribute as both have it, but for those that are left out.
fn fields<A: Attribute>(
    table: SaTable,
    port: PortKey,
    (sa, seen): (&A, &A),
    left_out: &[&str],
    found: &mut BTreeSet<Difference>,
) {
    for (theirs, ours) in sa.fields().zip(seen.fields()) {
        let field = theirs.field.name;
        let (Some(sa), Some(seen)) = (theirs.value().number(), ours.value().number()) else {
            continue;
        };
        if sa != seen && !left_out.contains(&field) {
            found.insert(Difference::Field {
                table,
                port,
                field,
                sa,
                seen,
            });
        }
    }
}

/// Of NodeInfo: what differs from port to port of a node.
const OF_NODE_PORT: &[&str] = &["PortGUID", "LocalPortNum"];

fn node_fields(node: &Node, number: u8, record: &NodeRecord, found: &mut BTreeSet<Difference>) {
    // What stands in for a protected node is the SA's own word.
    if node.guarded {
        return;
    }
    let sa = record.node_info();
    let all = node.id.port(0);
    fields(SaTable::Nodes, all, (&sa, &node.info), OF_NODE_PORT, found);
    if let Some(guid) = node.port(number).and_then(|p| p.guid)
        && guid.0 != sa.port_guid()
    {
        found.insert(Difference::Field {
            table: SaTable::Nodes,
            port: node.id.port(number),
            field: "PortGUID",
            sa: sa.port_guid(),
            seen: guid.0,
        });
    }
    if let Some(seen) = &node.description
        && clean(seen.bytes()) != clean(record.description().bytes())
    {
        found.insert(Difference::Description { node: node.id });
    }
}

/// Of SwitchInfo: what the switch sets and the SM clears.
const OF_MOMENT: &[&str] = &["PortStateChange"];

fn switches(topology: &Topology, reply: &Mad, found: &mut BTreeSet<Difference>) {
    for record in records::<SwitchInfoRecord>(reply) {
        let node = topology
            .by_lid(record.lid())
            .and_then(|key| topology.node(key.node));
        if let Some((node, seen)) = node.and_then(|n| Some((n, n.switch.as_ref()?)))
            && node.present
            && !node.guarded
        {
            let sa = record.switch_info();
            let port = node.id.port(0);
            fields(SaTable::Switches, port, (&sa, seen), OF_MOMENT, found);
        }
    }
}

/// Of PortInfo: keys; what counts or changes by itself, without the SM's hearing of it; what
/// depends on the way that the question took; and the state, which is told by itself.
const OF_PORT_MOMENT: &[&str] = &[
    "M_Key",
    "DiagCode",
    "LocalPortNum",
    "PortState",
    "M_KeyViolations",
    "P_KeyViolations",
    "Q_KeyViolations",
    "ClientReregister",
    "MaxCreditHint",
    "LinkRoundTripLatency",
];

/// Of a switch's external ports these are port 0's (spec 14.2.5.6): what stands in their place
/// is not defined.
const OF_PORT_0: &[&str] = &[
    "GidPrefix",
    "LID",
    "MasterSMLID",
    "CapabilityMask",
    "M_KeyLeasePeriod",
    "M_KeyProtectBits",
    "LMC",
    "MasterSMSL",
    "InitType",
    "InitTypeReply",
    "GUIDCap",
    "McastPkeyTrapSuppressionEnabled",
    "SubnetTimeOut",
    "RespTimeValue",
    "CapabilityMask2",
];

/// Of a port 0 these have no meaning: it has no link. Switches put there what they like, and
/// some another thing each time.
const OF_LINK: &[&str] = &[
    "LinkWidthEnabled",
    "LinkWidthSupported",
    "LinkWidthActive",
    "LinkSpeedSupported",
    "PortPhysicalState",
    "LinkDownDefaultState",
    "LinkSpeedActive",
    "LinkSpeedEnabled",
    "VLStallCount",
    "HOQLife",
    "PartitionEnforcementInbound",
    "PartitionEnforcementOutbound",
    "FilterRawInbound",
    "FilterRawOutbound",
    "LocalPhyErrors",
    "OverrunErrors",
    "LinkSpeedExtActive2",
    "LinkSpeedExtSupported2",
    "LinkSpeedExtEnabled2",
    "LinkSpeedExtActive",
    "LinkSpeedExtSupported",
    "LinkSpeedExtEnabled",
];

fn ports(topology: &Topology, reply: &Mad, found: &mut BTreeSet<Difference>) {
    for record in records::<PortInfoRecord>(reply) {
        let Some(port) = end_of(topology, record.lid(), record.port()) else {
            continue;
        };
        let Some(node) = topology.node(port.node).filter(|n| n.present && !n.guarded) else {
            continue;
        };
        let Some(ours) = node.port(port.port).and_then(|p| p.info.as_ref()) else {
            continue;
        };
        let theirs = record.port_info();
        let (sa, seen) = (theirs.port_state().code(), ours.port_state().code());
        let inner = port.port == 0;
        // A basic port 0 has no link and, in some switches, no state.
        if sa != seen && sa != 0 && seen != 0 && !inner {
            found.insert(Difference::PortState { port, sa, seen });
        }
        // While a port is down everything but its states may be garbage.
        let up = |state| matches!(state, 2..=4);
        let is_told = inner || up(sa) && up(seen);
        if !is_told {
            continue;
        }
        let mut left_out = OF_PORT_MOMENT.to_vec();
        match (node.kind, inner) {
            (NodeKind::Switch, true) => left_out.extend(OF_LINK),
            (NodeKind::Switch, false) => left_out.extend(OF_PORT_0),
            _ => {}
        }
        fields(SaTable::Ports, port, (&theirs, ours), &left_out, found);
    }
}

fn subnet_managers(sms: &[SeenSm], reply: &Mad, found: &mut BTreeSet<Difference>) {
    let told: BTreeMap<u64, (u8, u8)> = records::<SmInfoRecord>(reply)
        .iter()
        .map(|r| r.sm_info())
        .map(|sm| (sm.guid(), (sm.state().code(), sm.priority())))
        .collect();
    if told.is_empty() {
        return;
    }
    let seen: BTreeMap<u64, (u8, u8)> = sms
        .iter()
        .map(|sm| (sm.guid, (sm.state, sm.priority)))
        .collect();
    for (guid, (sa, priority)) in &told {
        if let Some((_, seen)) = seen.get(guid)
            && seen != priority
        {
            found.insert(Difference::SmPriority {
                guid: Guid(*guid),
                sa: *priority,
                seen: *seen,
            });
        }
        match seen.get(guid) {
            // One that is not active need not answer.
            None if *sa == 0 => {}
            None => {
                found.insert(Difference::SmUnseen { guid: Guid(*guid) });
            }
            Some((state, _)) if state != sa => {
                found.insert(Difference::SmState {
                    guid: Guid(*guid),
                    sa: *sa,
                    seen: *state,
                });
            }
            Some(_) => {}
        }
    }
    for (guid, (state, _)) in seen {
        if state != 0 && !told.contains_key(&guid) {
            found.insert(Difference::SmUnknown { guid: Guid(guid) });
        }
    }
}
