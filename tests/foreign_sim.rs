//! The built-in simulator judged by ibsim: both simulate the fabric that `ibnetdiscover` printed,
//! both are asked the same, and the replies are compared bit by bit, header and return path
//! included. What differs has a name here; nothing else may differ, and a difference that is
//! gone must leave the list.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use common::client::{Client, get_dr};
use common::fabric::{FatTree, UNEVEN};
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options};
use fabtop::fabric::NodeId;
use fabtop::mad::{
    Attribute, Field, MAD_LEN, Mad, NodeDescription, NodeInfo, NodeType, PKeyTable, PortCounters,
    PortCountersExtended, PortInfo, PortState, SwitchInfo,
};
use fabtop::port::Address;
use fabtop::sim::ibsim::IbsimPort;
use fabtop::sim::{SimOptions, SimPort, SmAt, netfile};

fn main() -> ExitCode {
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![trial(
        "replies_are_ibsims_but_for_what_has_a_name",
        &all,
        replies,
    )])
}

/// Why, and in which fields, the two may differ.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "ibsim writes the return path's hop 0, which is reserved",
        &[
            "NodeDescription: hop 0 of the return path",
            "NodeInfo: hop 0 of the return path",
            "P_KeyTable: hop 0 of the return path",
            "PortInfo: hop 0 of the return path",
            "SwitchInfo: hop 0 of the return path",
        ],
    ),
    (
        "ibsim's nodes are all of one make, ours are what their device id says",
        &[
            "NodeInfo: PartitionCap",
            "NodeInfo: Revision",
            "PortInfo: CapabilityMask",
            "PortInfo: CapabilityMask2",
            "PortInfo: GUIDCap",
            "PortInfo: LinkSpeedExtSupported",
            "PortInfo: LinkSpeedSupported",
            "PortInfo: LinkWidthSupported",
            "PortInfo: MTUCap",
            "PortInfo: VLCap",
            "SwitchInfo: FilterRawInboundCap",
            "SwitchInfo: FilterRawOutboundCap",
            "SwitchInfo: LinearFDBCap",
            "SwitchInfo: MulticastFDBCap",
            "SwitchInfo: PartitionEnforcementCap",
        ],
    ),
    (
        "an old device has no 64-bit counters; ibsim gives every port some",
        &["PortCountersExtended: status"],
    ),
    (
        "what is enabled is in ibsim's net file, but not in ibnetdiscover's text",
        &[
            "PortInfo: LinkSpeedEnabled",
            "PortInfo: LinkSpeedExtEnabled",
            "PortInfo: LinkWidthEnabled",
        ],
    ),
    (
        "set up by opensm and by our subnet manager in different ways",
        &[
            "PortInfo: HOQLife",
            "PortInfo: LocalPhyErrors",
            "PortInfo: M_KeyLeasePeriod",
            "PortInfo: NeighborMTU",
            "PortInfo: OperationalVLs",
            "PortInfo: OverrunErrors",
            "PortInfo: RespTimeValue",
            "PortInfo: SubnetTimeOut",
            "PortInfo: VLStallCount",
            "SwitchInfo: MulticastFDBTop",
        ],
    ),
    (
        "a switch's management port: the same again, and a link that it does not have",
        &[
            "PortInfo of port 0: CapabilityMask",
            "PortInfo of port 0: CapabilityMask2",
            "PortInfo of port 0: HOQLife",
            "PortInfo of port 0: LinkSpeedActive",
            "PortInfo of port 0: LinkSpeedEnabled",
            "PortInfo of port 0: LinkSpeedExtActive",
            "PortInfo of port 0: LinkSpeedExtEnabled",
            "PortInfo of port 0: LinkSpeedExtSupported",
            "PortInfo of port 0: LinkSpeedSupported",
            "PortInfo of port 0: LinkWidthEnabled",
            "PortInfo of port 0: LinkWidthSupported",
            "PortInfo of port 0: LocalPhyErrors",
            "PortInfo of port 0: MTUCap",
            "PortInfo of port 0: M_KeyLeasePeriod",
            "PortInfo of port 0: NeighborMTU",
            "PortInfo of port 0: OperationalVLs",
            "PortInfo of port 0: OverrunErrors",
            "PortInfo of port 0: RespTimeValue",
            "PortInfo of port 0: SubnetTimeOut",
            "PortInfo of port 0: VLCap",
        ],
    ),
    (
        "ibsim counts the MADs that pass, ours a fabric's multicast since it was built",
        &[
            "PortCounters: PortRcvData",
            "PortCounters: PortRcvPkts",
            "PortCounters: PortXmitData",
            "PortCounters: PortXmitPkts",
            "PortCountersExtended: PortMulticastRcvPkts",
            "PortCountersExtended: PortMulticastXmitPkts",
            "PortCountersExtended: PortRcvData",
            "PortCountersExtended: PortRcvPkts",
            "PortCountersExtended: PortXmitData",
            "PortCountersExtended: PortXmitPkts",
        ],
    ),
];

/// Both simulators, attached at the same node of the same fabric.
struct Pair {
    ibsim: Client<IbsimPort>,
    ours: Client<SimPort>,
    /// Fields that differed, and the first example of each.
    differences: BTreeMap<String, String>,
    asked: usize,
}

/// Bytes of a MAD before the attribute, but for the TID, which each client chooses.
const HEADER: &[(&str, usize, usize)] = &[
    ("versions, class, method", 0, 4),
    ("status", 4, 6),
    ("hop pointer and count", 6, 8),
    ("attribute", 16, 18),
    ("modifier", 20, 24),
    ("header after the modifier", 24, 64),
];

fn bit(bytes: &[u8], at: usize) -> u8 {
    bytes[at / 8] >> (7 - at % 8) & 1
}

impl Pair {
    /// Asks both; returns our reply.
    fn ask<A: Attribute>(&mut self, addr: Address, mad: &Mad) -> Mad {
        self.ask_of::<A>(addr, mad, false)
    }

    fn ask_of<A: Attribute>(&mut self, addr: Address, mad: &Mad, inner: bool) -> Mad {
        let what = format!("{mad} to LID {}", addr.lid);
        let theirs = self.ibsim.ask(addr, mad.clone());
        let ours = self.ours.ask(addr, mad.clone());
        self.asked += 1;
        self.compare::<A>(&what, &ours, &theirs, inner);
        ours
    }

    fn differs(&mut self, field: String, what: &str, ours: &[u8], theirs: &[u8]) {
        let example = format!("{what}: ours {ours:02x?}, ibsim's {theirs:02x?}");
        self.differences.entry(field).or_insert(example);
    }

    fn compare<A: Attribute>(&mut self, what: &str, ours: &Mad, theirs: &Mad, inner: bool) {
        let (a, b) = (ours.bytes(), theirs.bytes());
        assert_eq!((a.len(), b.len()), (MAD_LEN, MAD_LEN), "{what}");
        // A directed route: hop 0 of both paths is reserved.
        let hops = 1 + usize::from(ours.hop_count());
        let route = [
            ("initial path", 128, 192),
            ("hop 0 of the return path", 192, 193),
            ("return path", 193, 192 + hops),
            ("return path beyond its hops", 192 + hops, 256),
        ];
        let route = route.iter().filter(|_| ours.class().is_smp());
        for &(name, from, to) in HEADER.iter().chain(route) {
            if a[from..to] != b[from..to] {
                let name = format!("{}: {name}", A::INFO.name);
                self.differs(name, what, &a[from..to], &b[from..to]);
            }
        }
        if ours.status() != theirs.status() {
            return;
        }
        // A switch's management port has no link.
        let own = match A::ID == PortInfo::ID && inner {
            true => " of port 0",
            false => "",
        };
        // Every bit of the payload: of a field, or of what the specification reserves.
        let end = if ours.class().is_smp() { 128 } else { MAD_LEN };
        let (a, b) = (&a[64..end], &b[64..end]);
        for at in 0..a.len() * 8 {
            if bit(a, at) != bit(b, at) {
                let of = |f: &&Field| (f.bit..f.bit + f.width).contains(&at);
                let (field, from, to) = match A::FIELDS.iter().find(of) {
                    Some(f) => (f.name, f.bit / 8, (f.bit + f.width).div_ceil(8)),
                    None => ("reserved bits", at / 8, at / 8 + 1),
                };
                let name = format!("{}{own}: {field}", A::INFO.name);
                self.differs(name, what, &a[from..to], &b[from..to]);
            }
        }
    }
}

fn compare(net: &str, host: &str, sm: u64) -> Pair {
    let fabric = IbsimFabric::start(net, Options { sm: true });
    let text = fabric.tool(host, "ibnetdiscover", &[]);
    let (same, problems) = netfile::parse(&text);
    assert!(problems.is_empty(), "{problems:?}");
    let mut options = SimOptions::healthy();
    // As ibsim: no traffic moves the counters.
    options.load = 0.0;
    options.local = Some((host.to_owned(), 1));
    // Where opensm runs.
    options.sm = SmAt::Node(NodeId::new(sm));
    let mut pair = Pair {
        ibsim: Client::new(fabric.attach(host, false)),
        ours: Client::new(SimPort::new(same, options).unwrap()),
        differences: BTreeMap::new(),
        asked: 0,
    };
    pair.walk();
    pair
}

impl Pair {
    /// Goes through the fabric by directed route and asks everything everywhere.
    fn walk(&mut self) {
        let mut seen = BTreeSet::new();
        let mut todo = vec![Vec::new()];
        let key = self.ours.local().pkey_index.unwrap();
        while let Some(path) = todo.pop() {
            let dr = Address::directed();
            let reply = self.ask::<NodeInfo>(dr, &get_dr(NodeInfo::ID, 0, &path));
            let node = NodeInfo::parse(&reply.view()).unwrap();
            if !seen.insert(node.node_guid()) {
                continue;
            }
            self.ask::<NodeDescription>(dr, &get_dr(NodeDescription::ID, 0, &path));
            self.ask::<PKeyTable>(dr, &get_dr(PKeyTable::ID, 0, &path));
            let switch = node.node_type() == NodeType::Switch;
            if switch {
                self.ask::<SwitchInfo>(dr, &get_dr(SwitchInfo::ID, 0, &path));
            }
            let mut lid = 0;
            for port in u8::from(!switch)..=node.num_ports() {
                let mad = get_dr(PortInfo::ID, u32::from(port), &path);
                let reply = self.ask_of::<PortInfo>(dr, &mad, switch && port == 0);
                let info = PortInfo::parse(&reply.view()).unwrap();
                lid = lid.max(info.lid());
                if info.port_state() != PortState::Active {
                    continue;
                }
                if switch && port > 0 && path.len() < 4 {
                    todo.push([&path[..], &[port]].concat());
                } else if !switch && path.is_empty() {
                    todo.push(vec![port]);
                }
                if port > 0 {
                    let to = Address::gmp(lid, 0, key);
                    self.ask::<PortCounters>(to, &Mad::perf_port(PortCounters::ID, port, 0));
                    let wide = Mad::perf_port(PortCountersExtended::ID, port, 0);
                    self.ask::<PortCountersExtended>(to, &wide);
                }
            }
        }
    }
}

/// A tree of hosts at 4x SDR, and a small fabric of many widths and speeds.
fn replies() {
    // ibsim counts GUIDs: adapters from 0x100000, switches from 0x200000.
    let tree = compare(&FatTree::SMALL.net(), &FatTree::host(5), 0x10_0000);
    let uneven = compare(UNEVEN, "h3", 0x20_0000);
    assert!(
        tree.asked > 150 && uneven.asked > 60,
        "{} {}",
        tree.asked,
        uneven.asked
    );
    let mut differences = tree.differences;
    differences.extend(uneven.differences);
    let known: BTreeSet<&str> = KNOWN
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .collect();
    let news: Vec<_> = differences
        .iter()
        .filter(|(f, _)| !known.contains(f.as_str()))
        .collect();
    assert!(news.is_empty(), "not known: {news:#?}");
    let gone: Vec<_> = known
        .iter()
        .filter(|f| !differences.contains_key(**f))
        .collect();
    assert!(gone.is_empty(), "no difference any more: {gone:?}");
}
