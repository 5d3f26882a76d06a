//! Counters on ibsim's fabric, by the native client: perfquery is the judge, attribute by
//! attribute, port by port and in sums.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::process::ExitCode;
use std::time::Duration;

use common::client::number;
use common::fabric::FatTree;
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options, dotted};
use common::session::{Session, config};
use fabtop::command::Command;
use fabtop::event::SweepKind;
use fabtop::fabric::{NodeKind, PortKey};
use fabtop::model::Num;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any test: that loop does not come round again.
const NEVER: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![
        trial("data_counters_equal_perfquerys", &all, data),
        trial("sums_and_loops_equal_perfquerys", &all, sums_and_loops),
        trial("optional_counters_equal_perfquerys", &all, optional),
        trial("errors_are_seen_though_sums_save_reads", &all, news),
    ])
}

const ERRORS: [(&str, u64); 12] = [
    ("SymbolErrorCounter", 0xFFFF),
    ("LinkErrorRecoveryCounter", 0xFF),
    ("LinkDownedCounter", 0xFF),
    ("PortRcvErrors", 0xFFFF),
    ("PortRcvRemotePhysicalErrors", 0xFFFF),
    ("PortRcvSwitchRelayErrors", 0xFFFF),
    ("PortXmitDiscards", 0xFFFF),
    ("PortXmitConstraintErrors", 0xFF),
    ("PortRcvConstraintErrors", 0xFF),
    ("LocalLinkIntegrityErrors", 0xF),
    ("ExcessiveBufferOverrunErrors", 0xF),
    ("VL15Dropped", 0xFFFF),
];

fn start(fabric: &IbsimFabric) -> Session {
    let port = fabric.attach(&FatTree::host(3), false);
    let mut session = Session::start(port, config(SECOND, NEVER));
    session.until("counters", |s| s.sweeps(SweepKind::Counters) > 0);
    session
}

fn small() -> IbsimFabric {
    IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true })
}

fn set(fabric: &mut IbsimFabric, node: &str, port: u8, field: &str, value: u64) {
    fabric.console(&format!(
        "PerformanceSet \"{node}\"[{port}] {field}={value}"
    ));
}

/// The LID and the port number that perfquery is asked with.
fn address(session: &Session, key: PortKey) -> [String; 2] {
    let lid = session.row(key).lid.unwrap();
    [lid.to_string(), key.port.to_string()]
}

/// Every MAD counts here, perfquery's own too: ours lies between what it says before and after.
fn data() {
    let fabric = small();
    let mut session = start(&fabric);
    let host = FatTree::host(3);
    let names = ["PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts"];
    let mut moved = 0;
    for (node, port) in [("leaf000", 1), ("spine001", 1), ("node00007 mlx5_0", 1)] {
        let key = session.key(node, port);
        let [lid, port] = address(&session, key);
        let before = fabric.tool(&host, "perfquery", &["-x", &lid, &port]);
        session.whole_sweep(SweepKind::Counters);
        let ours = names.map(|name| session.counter(key, name).get().unwrap());
        let after = fabric.tool(&host, "perfquery", &["-x", &lid, &port]);
        for (name, ours) in names.into_iter().zip(ours) {
            let (least, most) = (
                number(&dotted(&before, name)),
                number(&dotted(&after, name)),
            );
            assert!(
                (least..=most).contains(&ours),
                "{node} {name}: {least} {ours} {most}"
            );
            moved += u64::from(most > least);
        }
    }
    assert!(moved > 0, "nothing was counted at all");
}

fn sums_and_loops() {
    let mut fabric = small();
    for (node, port, name, value) in [
        ("leaf000", 1, "SymbolErrorCounter", 40_000),
        ("leaf000", 2, "SymbolErrorCounter", 30_000),
        ("leaf000", 3, "LinkDownedCounter", 7),
        ("leaf000", 4, "LinkDownedCounter", 250),
        ("leaf001", 1, "PortXmitDiscards", 3),
        ("leaf001", 2, "PortXmitDiscards", 4),
    ] {
        set(
            &mut fabric,
            node,
            port,
            &format!("PortCounters.{name}"),
            value,
        );
    }
    let session = start(&fabric);
    let host = FatTree::host(3);
    let rows = session.model.ports(session.now());
    for switch in ["leaf000", "leaf001", "spine000"] {
        let ports: Vec<PortKey> = rows
            .iter()
            .filter(|r| r.name == switch && r.peer.is_some() && r.kind == NodeKind::Switch)
            .map(|r| r.key)
            .collect();
        assert!(ports.len() > 3, "{switch}");
        let [lid, _] = address(&session, ports[0]);
        let aggregated = fabric.tool(&host, "perfquery", &["-a", &lid]);
        let ours = |key, name| session.counter(key, name).get().unwrap();
        for (name, most) in ERRORS {
            // The sum saturates like every counter.
            let sum: u64 = ports.iter().map(|key| ours(*key, name)).sum();
            let theirs = number(&dotted(&aggregated, name));
            assert_eq!(sum.min(most), theirs, "{switch} {name}");
        }
        let list: Vec<String> = ports.iter().map(|k| k.port.to_string()).collect();
        let looped = fabric.tool(&host, "perfquery", &["-l", &lid, &list.join(",")]);
        let blocks: Vec<&str> = looped.split("# Port counters:").skip(1).collect();
        assert_eq!(blocks.len(), ports.len(), "{looped}");
        for (key, block) in ports.iter().zip(blocks) {
            assert_eq!(number(&dotted(block, "PortSelect")), u64::from(key.port));
            for (name, _) in ERRORS {
                let theirs = number(&dotted(block, name));
                assert_eq!(ours(*key, name), theirs, "{switch} {} {name}", key.port);
            }
        }
    }
}

/// What is asked with, the attribute's name with us, and a counter to set with a value.
const OPTIONAL: [(&str, &str, &str, u64); 8] = [
    (
        "-E",
        "PortRcvErrorDetails",
        "PortRcvErrorDetails.PortLoopingErrors",
        5,
    ),
    (
        "-D",
        "PortXmitDiscardDetails",
        "PortXmitDiscardDetails.PortInactiveDiscards",
        7,
    ),
    (
        "--oprcvcounters",
        "PortOpRcvCounters",
        "PortOpRcvCounters.PortOpRcvPkts",
        70_000,
    ),
    (
        "--flowctlcounters",
        "PortFlowCtlCounters",
        "PortFlowCtlCounters.PortXmitFlowPkts",
        123_456,
    ),
    ("--vloppackets", "PortVLOpPackets", "", 0),
    ("--vlopdata", "PortVLOpData", "", 0),
    (
        "--vlxmitflowctlerrors",
        "PortVLXmitFlowCtlUpdateErrors",
        "",
        0,
    ),
    ("--vlxmitcounters", "PortVLXmitWaitCounters", "", 0),
];

/// PortRcvErrorDetails and PortXmitDiscardDetails, which ibqueryerrors confuses, and all else of
/// the optional counters that ibsim has.
fn optional() {
    let mut fabric = small();
    for (_, _, field, value) in OPTIONAL.iter().filter(|o| !o.2.is_empty()) {
        set(&mut fabric, "leaf000", 1, field, *value);
    }
    let mut session = start(&fabric);
    let key = session.key("leaf000", 1);
    assert!(session.model.details(key, session.now()).is_empty());
    session.command(Command::Focus(Some(key)));
    session.until("all optional counters", |s| {
        let groups = s.model.details(key, s.now());
        groups.len() == OPTIONAL.len() && groups.iter().all(|g| !g.rows.is_empty())
    });
    let [lid, port] = address(&session, key);
    let groups = session.model.details(key, session.now());
    for (flag, attribute, field, value) in OPTIONAL {
        let text = fabric.tool(&FatTree::host(3), "perfquery", &[flag, &lid, &port]);
        let group = groups.iter().find(|g| g.attribute == attribute).unwrap();
        for row in &group.rows {
            let theirs = number(&dotted(&text, &row.name));
            assert_eq!(row.value.get(), Some(theirs), "{attribute} {}", row.name);
            if field.ends_with(&format!(".{}", row.name)) {
                assert_eq!(theirs, value, "what was set is seen");
            }
        }
    }
    // Its other end is read too, and nobody else's.
    let peer = session.row(key).peer.unwrap().key;
    assert!(!session.model.details(peer, session.now()).is_empty());
    let other = session.key("leaf001", 1);
    assert!(session.model.details(other, session.now()).is_empty());
}

/// ibsim's switches sum up their ports: clean ones are not read, and news is seen all the same.
fn news() {
    let mut fabric = small();
    let mut session = start(&fabric);
    session.whole_sweep(SweepKind::Counters);
    let key = session.key("leaf001", 2);
    assert_eq!(session.counter(key, "PortRcvErrors"), Num::Is(0));
    set(&mut fabric, "leaf001", 2, "PortCounters.PortRcvErrors", 11);
    session.until("the errors", |s| {
        s.counter(key, "PortRcvErrors") == Num::Is(11)
    });
    // Somebody else resets them.
    let [lid, port] = address(&session, key);
    fabric.tool(&FatTree::host(3), "perfquery", &["-R", &lid, &port]);
    session.until("the reset", |s| {
        s.counter(key, "PortRcvErrors") == Num::Is(0)
    });
    assert!(session.logged("counters were reset"), "{}", session.log());
    assert!(!session.row(key).stale);
}
