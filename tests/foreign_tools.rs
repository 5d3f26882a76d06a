//! What `smpquery`, `iblinkinfo` and `ibqueryerrors` say of ibsim's fabric is what the model
//! knows: every field of every port, every link and what it could be, every error counter.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use common::client::number;
use common::fabric::{FatTree, UNEVEN};
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options};
use common::session::{Session, config};
use fabtop::event::SweepKind;
use fabtop::fabric::best::below_best;
use fabtop::fabric::{LinkSpeed, LinkWidth, NodeKind, PortKey};
use fabtop::mad::{Attribute, FieldValue, Value};

/// Longer than any test: that loop does not come round again.
const NEVER: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![
        trial("every_field_of_a_port_is_smpquerys", &all, port_fields),
        trial("every_field_of_a_node_is_smpquerys", &all, node_fields),
        trial("links_and_remarks_are_iblinkinfos", &all, links),
        trial("links_of_a_fat_tree_are_iblinkinfos", &all, tree_links),
        trial("ports_with_errors_are_ibqueryerrors", &all, errors),
    ])
}

fn discovered(fabric: &IbsimFabric, host: &str) -> Session {
    let mut session = Session::start(fabric.attach(host, false), config(NEVER, NEVER));
    session.until("the first discovery", |s| s.model.is_discovered());
    session
}

/// A tool's lines `Name:....value`. Lines without a value, such as the names of bits, are left
/// out; of names that come twice the first counts.
fn dotted(text: &str) -> BTreeMap<&str, &str> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        if let Some((name, value)) = line.split_once(':') {
            all.entry(name)
                .or_insert(value.trim_start_matches('.').trim());
        }
    }
    all
}

/// The bits of a text such as `1X or 4X`, by the name of each.
fn mask(text: &str, bits: &[(&str, u64)]) -> u64 {
    text.split(" or ")
        .filter_map(|word| bits.iter().find(|(name, _)| *name == word))
        .map(|(_, bit)| bit)
        .sum()
}

/// The code of a name in a list of all, in order, of which `0` is the first's.
fn code(text: &str, names: &[&str]) -> u64 {
    let at = names.iter().position(|n| *n == text);
    at.unwrap_or_else(|| panic!("{text:?} is none of {names:?}")) as u64
}

// Tables 145 to 147 of the InfiniBand specification, volume 1, release 1.6, in libibmad's words.
const WIDTHS: &[(&str, u64)] = &[("1X", 1), ("4X", 2), ("8X", 4), ("12X", 8), ("2X", 16)];
const SPEEDS: &[(&str, u64)] = &[("2.5 Gbps", 1), ("5.0 Gbps", 2), ("10.0 Gbps", 4)];
const EXTENDED: &[(&str, u64)] = &[
    ("14.0625 Gbps", 1),
    ("25.78125 Gbps", 2),
    ("53.125 Gbps", 4),
    ("106.25 Gbps", 8),
];
const STATES: &[&str] = &["NoChange", "Down", "Initialize", "Armed", "Active"];
const PHYSICAL: &[&str] = &[
    "NoChange",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
];
const MTUS: &[&str] = &["", "256", "512", "1024", "2048", "4096"];
const VLS: &[&str] = &["", "VL0", "VL0-1", "VL0-3", "VL0-7", "VL0-14"];

/// Their text as the field's number.
fn as_number(name: &str, text: &str) -> u64 {
    match name {
        "LinkWidthEnabled" | "LinkWidthSupported" | "LinkWidthActive" => mask(text, WIDTHS),
        "LinkSpeedSupported" | "LinkSpeedEnabled" | "LinkSpeedActive" => mask(text, SPEEDS),
        // "No Extended Speed" and "0" have no bits.
        "LinkSpeedExtActive" | "LinkSpeedExtSupported" | "LinkSpeedExtEnabled" => {
            mask(text, EXTENDED)
        }
        "LinkState" => code(text, STATES),
        "PhysLinkState" | "LinkDownDefState" => code(text, PHYSICAL),
        "NeighborMTU" | "MtuCap" => code(text, MTUS),
        "VLCap" | "OperVLs" => code(text, VLS),
        "NodeType" => code(text, &["", "Channel Adapter", "Switch", "Router"]),
        _ => number(text),
    }
}

/// libibmad's names of PortInfo's fields beside the specification's. The M_Key is not shown, and
/// LocalPort is the port that the request came in by, so that it depends on the way taken.
const PORT: &[(&str, &str)] = &[
    ("GidPrefix", "GidPrefix"),
    ("Lid", "LID"),
    ("SMLid", "MasterSMLID"),
    ("CapMask", "CapabilityMask"),
    ("DiagCode", "DiagCode"),
    ("MkeyLeasePeriod", "M_KeyLeasePeriod"),
    ("LinkWidthEnabled", "LinkWidthEnabled"),
    ("LinkWidthSupported", "LinkWidthSupported"),
    ("LinkWidthActive", "LinkWidthActive"),
    ("LinkSpeedSupported", "LinkSpeedSupported"),
    ("LinkState", "PortState"),
    ("PhysLinkState", "PortPhysicalState"),
    ("LinkDownDefState", "LinkDownDefaultState"),
    ("ProtectBits", "M_KeyProtectBits"),
    ("LMC", "LMC"),
    ("LinkSpeedActive", "LinkSpeedActive"),
    ("LinkSpeedEnabled", "LinkSpeedEnabled"),
    ("NeighborMTU", "NeighborMTU"),
    ("SMSL", "MasterSMSL"),
    ("VLCap", "VLCap"),
    ("InitType", "InitType"),
    ("VLHighLimit", "VLHighLimit"),
    ("VLArbHighCap", "VLArbitrationHighCap"),
    ("VLArbLowCap", "VLArbitrationLowCap"),
    ("InitReply", "InitTypeReply"),
    ("MtuCap", "MTUCap"),
    ("VLStallCount", "VLStallCount"),
    ("HoqLife", "HOQLife"),
    ("OperVLs", "OperationalVLs"),
    ("PartEnforceInb", "PartitionEnforcementInbound"),
    ("PartEnforceOutb", "PartitionEnforcementOutbound"),
    ("FilterRawInb", "FilterRawInbound"),
    ("FilterRawOutb", "FilterRawOutbound"),
    ("MkeyViolations", "M_KeyViolations"),
    ("PkeyViolations", "P_KeyViolations"),
    ("QkeyViolations", "Q_KeyViolations"),
    ("GuidCap", "GUIDCap"),
    ("ClientReregister", "ClientReregister"),
    (
        "McastPkeyTrapSuppressionEnabled",
        "McastPkeyTrapSuppressionEnabled",
    ),
    ("SubnetTimeout", "SubnetTimeOut"),
    ("RespTimeVal", "RespTimeValue"),
    ("LocalPhysErr", "LocalPhyErrors"),
    ("OverrunErr", "OverrunErrors"),
    ("MaxCreditHint", "MaxCreditHint"),
    ("RoundTrip", "LinkRoundTripLatency"),
    ("CapabilityMask2", "CapabilityMask2"),
    ("LinkSpeedExtActive", "LinkSpeedExtActive"),
    ("LinkSpeedExtSupported", "LinkSpeedExtSupported"),
    ("LinkSpeedExtEnabled", "LinkSpeedExtEnabled"),
];

const NODE: &[(&str, &str)] = &[
    ("BaseVers", "BaseVersion"),
    ("ClassVers", "ClassVersion"),
    ("NodeType", "NodeType"),
    ("NumPorts", "NumPorts"),
    ("SystemGuid", "SystemImageGUID"),
    ("Guid", "NodeGUID"),
    ("PortGuid", "PortGUID"),
    ("PartCap", "PartitionCap"),
    ("DevId", "DeviceID"),
    ("Revision", "Revision"),
    ("LocalPort", "LocalPortNum"),
    ("VendorId", "VendorID"),
];

const SWITCH: &[(&str, &str)] = &[
    ("OptSLtoVLMapping", "OptimizedSLtoVLMappingProgramming"),
    ("LinearFdbCap", "LinearFDBCap"),
    ("RandomFdbCap", "RandomFDBCap"),
    ("McastFdbCap", "MulticastFDBCap"),
    ("LinearFdbTop", "LinearFDBTop"),
    ("DefPort", "DefaultPort"),
    ("DefMcastPrimPort", "DefaultMulticastPrimaryPort"),
    ("DefMcastNotPrimPort", "DefaultMulticastNotPrimaryPort"),
    ("LifeTime", "LifeTimeValue"),
    ("StateChange", "PortStateChange"),
    ("LidsPerPort", "LIDsPerPort"),
    ("PartEnforceCap", "PartitionEnforcementCap"),
    ("InboundPartEnf", "InboundEnforcementCap"),
    ("OutboundPartEnf", "OutboundEnforcementCap"),
    ("FilterRawInbound", "FilterRawInboundCap"),
    ("FilterRawOutbound", "FilterRawOutboundCap"),
    ("EnhancedPort0", "EnhancedPort0"),
    ("MulticastFDBTop", "MulticastFDBTop"),
];

/// Compares all of an attribute's fields that both know; says how many are not zero.
fn same_fields(what: &str, ours: &impl Attribute, text: &str, names: &[(&str, &str)]) -> usize {
    let theirs = dotted(text);
    let numbers: BTreeMap<String, u64> = ours
        .fields()
        .filter_map(|f: FieldValue<'_>| Some((f.name().into_owned(), value(f.value())?)))
        .collect();
    let mut set = 0;
    for (their_name, our_name) in names {
        let theirs = theirs
            .get(their_name)
            .unwrap_or_else(|| panic!("{what}: no {their_name} in:\n{text}"));
        let theirs = as_number(their_name, theirs);
        assert_eq!(numbers.get(*our_name), Some(&theirs), "{what}: {our_name}");
        set += usize::from(theirs != 0);
    }
    set
}

fn value(v: Value<'_>) -> Option<u64> {
    v.number()
}

/// All ports of a fabric with links of many kinds, down ones included, and a switch's port 0.
fn port_fields() {
    let fabric = IbsimFabric::start(UNEVEN, Options { sm: true });
    let host = "h3";
    let session = discovered(&fabric, host);
    let (mut ports, mut set) = (0, 0);
    for node in session.model.topology().nodes() {
        for (number, port) in (0u8..).zip(&node.ports) {
            let Some(info) = &port.info else { continue };
            let lid = node.any_lid().unwrap().to_string();
            let text = fabric.tool(host, "smpquery", &["portinfo", &lid, &number.to_string()]);
            let what = format!("{} port {number}", session.model.name(node.id));
            set += same_fields(&what, info, &text, PORT);
            ports += 1;
        }
    }
    // 5 hosts; 8 + 1 and 4 + 1 ports of the switches.
    assert_eq!(ports, 19);
    assert!(set > ports * 20, "most fields hold something: {set}");
}

fn node_fields() {
    let fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true });
    let host = FatTree::host(6);
    let session = discovered(&fabric, &host);
    let mut nodes = 0;
    for node in session.model.topology().nodes() {
        // By the route that discovery found: LocalPort is the port that a request came in by.
        let route = node.route.to_string();
        let ask = |what: &str| fabric.tool(&host, "smpquery", &["-D", what, &route]);
        same_fields(&route, &node.info, &ask("nodeinfo"), NODE);
        let name = session.model.name(node.id);
        assert_eq!(dotted(&ask("nodedesc"))["Node Description"], name);
        assert_eq!(node.switch.is_some(), node.kind == NodeKind::Switch);
        if let Some(switch) = &node.switch {
            same_fields(&route, switch, &ask("switchinfo"), SWITCH);
        }
        nodes += 1;
    }
    assert_eq!(nodes, 22);
}

/// A link's end as iblinkinfo tells it.
#[derive(Debug, PartialEq, Eq)]
struct End {
    name: String,
    lid: u64,
    /// Width, speed a lane, logical and physical state; of a port that is down the states only.
    link: Vec<String>,
    /// GUID, LID, port and name of the other end.
    peer: Option<(u64, u64, u64, String)>,
    /// What the link could be, as `12X` and `53.125`.
    could: BTreeSet<String>,
}

/// Reads a line of `iblinkinfo -l`, such as
/// `0x…100001 "  h3"  2  1[  ] ==( 4X  10.0 Gbps Active/  LinkUp)==> 0x…200001  3  1[  ] "sw2" (Could be 12X )`
fn end(line: &str) -> ((u64, u64), End) {
    let (near, rest) = line.split_once("==(").unwrap();
    let (link, far) = rest.split_once(")==>").unwrap();
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| c.is_whitespace() || matches!(c, '/' | '[' | ']' | '(' | ')'))
            .filter(|w| !w.is_empty() && *w != "Gbps")
            .map(str::to_owned)
            .collect()
    };
    let quoted = |text: &str| text.split('"').nth(1).unwrap().trim_start().to_owned();
    let guid = number(near.split_whitespace().next().unwrap());
    let ids = words(near.rsplit('"').next().unwrap());
    // A switch's own port that is down has no LID before its number in front of it.
    let port = number(&ids[1]);
    let peer_ids = words(far.split('"').next().unwrap());
    let peer = match &peer_ids[..] {
        [guid, lid, port] => Some((number(guid), number(lid), number(port), quoted(far))),
        [] => None,
        other => panic!("{other:?} in {line}"),
    };
    let remark = far.rsplit('"').next().unwrap();
    let could = words(remark)
        .into_iter()
        .filter(|w| w != "Could" && w != "be")
        .collect();
    let end = End {
        name: quoted(near),
        lid: number(&ids[0]),
        link: words(link),
        peer,
        could,
    };
    ((guid, port), end)
}

fn gbps(speed: LinkSpeed) -> &'static str {
    match speed {
        LinkSpeed::Sdr => "2.5",
        LinkSpeed::Ddr => "5.0",
        LinkSpeed::Qdr => "10.0",
        LinkSpeed::Fdr => "14.0625",
        LinkSpeed::Edr => "25.78125",
        LinkSpeed::Hdr => "53.125",
        LinkSpeed::Ndr => "106.25",
        other => panic!("ibsim has no {other}"),
    }
}

fn lanes(width: LinkWidth) -> String {
    width.to_string().to_uppercase()
}

/// The GUID that the tools print: of a switch, the node's; of an adapter, the port's.
fn port_guid(session: &Session, key: PortKey) -> u64 {
    let node = session.model.topology().node(key.node).unwrap();
    let own = match node.kind {
        NodeKind::Switch => None,
        _ => node.port(key.port).unwrap().guid,
    };
    own.unwrap_or(key.node.guid).0
}

/// What the model shows, as iblinkinfo would.
fn ends(session: &Session) -> BTreeMap<(u64, u64), End> {
    let model = &session.model;
    let rows = model.ports(session.now());
    let ends = rows.iter().filter_map(|row| {
        let mut link = Vec::new();
        link.extend(row.width.map(lanes));
        link.extend(row.speed.map(|s| gbps(s).to_owned()));
        link.push(fabtop::mad::PortState::new(row.state?).to_string());
        link.push(fabtop::mad::PhysState::new(row.phys?).to_string());
        let below = below_best(model.topology(), row.key);
        assert_eq!(below.any(), row.flags.below_best, "{:?}", row.key);
        let mut could = BTreeSet::new();
        could.extend(below.width.map(lanes));
        could.extend(below.speed.map(|s| gbps(s).to_owned()));
        let lid = |node| u64::from(model.topology().node(node).unwrap().any_lid().unwrap());
        let end = End {
            name: row.name.to_owned(),
            lid: lid(row.key.node),
            link,
            peer: row.peer.map(|p| {
                let (node, port) = (p.key.node, u64::from(p.key.port));
                (
                    port_guid(session, p.key),
                    lid(node),
                    port,
                    p.name.to_owned(),
                )
            }),
            could,
        };
        Some(((port_guid(session, row.key), u64::from(row.key.port)), end))
    });
    ends.collect()
}

fn same_links(net: &str, host: &str) -> BTreeMap<(u64, u64), End> {
    let fabric = IbsimFabric::start(net, Options { sm: true });
    let session = discovered(&fabric, host);
    let text = fabric.tool(host, "iblinkinfo", &["-l"]);
    let theirs: BTreeMap<_, _> = text.lines().map(end).collect();
    let ours = ends(&session);
    for (key, end) in &theirs {
        assert_eq!(ours.get(key), Some(end), "{key:x?}");
    }
    assert_eq!(ours.len(), theirs.len());
    theirs
}

/// Widths from 1x to 4x, speeds from SDR to EDR, extended speeds on one end only; ibsim's ports
/// could all be 12x and most of them HDR.
fn links() {
    let theirs = same_links(UNEVEN, "h3");
    assert_eq!(theirs.len(), 17);
    let kinds: BTreeSet<String> = theirs.values().map(|e| e.link.join(" ")).collect();
    for kind in ["1X 25.78125", "4X 2.5", "4X 14.0625", "4X 25.78125", "Down"] {
        assert!(kinds.iter().any(|k| k.starts_with(kind)), "{kinds:?}");
    }
    let remarks: BTreeSet<String> = theirs
        .values()
        .map(|e| {
            e.could
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(
        remarks.iter().map(String::as_str).collect::<Vec<_>>(),
        ["", "10.0 12X", "12X 53.125"]
    );
}

fn tree_links() {
    let theirs = same_links(&FatTree::LARGE.net(), &FatTree::host(300));
    assert_eq!(theirs.len(), 2_592);
}

const SET: &[(&str, u8, &str, u64)] = &[
    ("leaf000", 1, "SymbolErrorCounter", 65_535),
    ("leaf001", 5, "PortXmitDiscards", 12),
    ("spine001", 3, "LinkDownedCounter", 255),
    ("node00007 mlx5_0", 1, "PortRcvErrors", 999),
    ("node00007 mlx5_0", 1, "VL15Dropped", 4),
];

/// A line: GUID, port, and each counter beyond its threshold of 0 with its value.
type Errors = BTreeMap<(u64, u64), BTreeMap<String, u64>>;

/// Reads `   GUID 0x10000f port 1: [PortRcvErrors == 999] [VL15Dropped == 4]`; sums over a
/// switch's ports (`port ALL`) are left out.
fn error_lines(text: &str) -> Errors {
    let mut all = Errors::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix("GUID ") else {
            continue;
        };
        let (place, counters) = rest.split_once(": ").unwrap();
        let (guid, port) = place.split_once(" port ").unwrap();
        if port == "ALL" {
            continue;
        }
        let counters = counters
            .split(['[', ']'])
            .filter_map(|c| c.split_once(" == "))
            .map(|(name, value)| (name.to_owned(), number(value)))
            .collect();
        all.insert((number(guid), number(port)), counters);
    }
    all
}

/// The classic threshold is 0: every error counter that is not zero, and nothing else.
fn errors() {
    let mut fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true });
    for (node, port, name, value) in SET {
        fabric.console(&format!(
            "PerformanceSet \"{node}\"[{port}] PortCounters.{name}={value}"
        ));
    }
    let host = FatTree::host(3);
    let mut session = discovered(&fabric, &host);
    session.until("counters", |s| s.sweeps(SweepKind::Counters) > 0);
    // With errors found it ends with 1.
    let program = common::foreign::find_program("ibqueryerrors").unwrap();
    let output = fabric.shimmed(program, &host).output().unwrap();
    let theirs = error_lines(&String::from_utf8_lossy(&output.stdout));
    assert_eq!((output.status.code(), theirs.len()), (Some(1), 4));
    let mut ours = Errors::new();
    for row in session.model.ports(session.now()) {
        let counters = session.model.counters(row.key, session.now());
        let found: BTreeMap<String, u64> = counters
            .iter()
            .filter(|c| c.error)
            .filter_map(|c| Some((c.name.to_owned(), c.value.get()?)))
            .filter(|(_, value)| *value > 0)
            .collect();
        if !found.is_empty() {
            ours.insert(
                (port_guid(&session, row.key), u64::from(row.key.port)),
                found,
            );
        }
    }
    assert_eq!(ours, theirs);
}
