//! Counters on ibsim's fabric, by the native client: perfquery is the judge, attribute by
//! attribute, port by port and in sums.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
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
use fabtop::model::alerts::is_counter;

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
        trial("a_thresholds_file_names_ibqueryerrors_ports", &all, limits),
        trial(
            "a_thresholds_file_differs_only_where_it_is_documented",
            &all,
            liberties,
        ),
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

/// What each counter is set to where: at, just above and far above the limits below, and pegged.
const SET: &[(&str, u8, &str, u64)] = &[
    ("leaf000", 1, "SymbolErrorCounter", 10),
    ("leaf000", 2, "SymbolErrorCounter", 11),
    ("leaf000", 3, "SymbolErrorCounter", 65_535),
    ("leaf000", 3, "PortRcvErrors", 1),
    ("leaf000", 4, "PortRcvErrors", 2),
    ("leaf001", 1, "LinkDownedCounter", 16),
    ("leaf001", 2, "LinkDownedCounter", 17),
    ("leaf001", 2, "LinkErrorRecoveryCounter", 255),
    ("leaf001", 3, "PortRcvRemotePhysicalErrors", 100),
    ("leaf001", 4, "PortRcvRemotePhysicalErrors", 101),
    ("leaf002", 1, "PortRcvSwitchRelayErrors", 500),
    ("leaf002", 2, "PortXmitDiscards", 8),
    ("leaf002", 3, "PortXmitDiscards", 9),
    ("leaf002", 4, "PortXmitConstraintErrors", 3),
    ("spine000", 1, "PortRcvConstraintErrors", 1),
    ("spine000", 2, "LocalLinkIntegrityErrors", 15),
    ("spine001", 1, "ExcessiveBufferOverrunErrors", 4),
    ("node00005 mlx5_0", 1, "VL15Dropped", 7),
    ("node00006 mlx5_0", 1, "PortXmitWait", 1_000),
    ("node00007 mlx5_0", 1, "PortXmitWait", 1_001),
];

/// Of each port, by its node's name: the counters above their limits.
type Named = BTreeMap<(String, u64), BTreeSet<String>>;

fn tool_names(fabric: &IbsimFabric, args: &[&str]) -> Named {
    let program = common::foreign::find_program("ibqueryerrors").unwrap();
    let mut command = fabric.shimmed(program, &FatTree::host(3));
    let output = command.args(args).output().unwrap();
    // 1: there are errors beyond the thresholds.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let mut node = String::new();
    let mut all = Named::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if line.starts_with("Errors for ") {
            node = line.split('"').nth(1).unwrap().to_owned();
        } else if let Some((place, counters)) = line.split_once(": [")
            && let Some((_, port)) = place.split_once(" port ")
            && port != "ALL"
        {
            let names = format!("[{counters}");
            let names = names.split('[').filter_map(|c| c.split_once(" == "));
            let names = names.map(|(name, _)| name.to_owned()).collect();
            all.insert((node.clone(), number(port)), names);
        }
    }
    all
}

/// The same of the program's own report, of whose alerts only those about limits count here: not
/// those about links, nor that a counter is at its maximum.
fn own_names(fabric: &IbsimFabric, args: &[&str]) -> Named {
    let mut command = fabric.native(env!("CARGO_BIN_EXE_fabtop"));
    let host = FatTree::host(3);
    command.args(["report", "alerts", "--json", "--once", "--ibsim", &host]);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut all = Named::new();
    for alert in report["alerts"].as_array().unwrap() {
        let kind = alert["alert"].as_str().unwrap();
        if !is_counter(kind) {
            continue;
        }
        let name = alert["name"].as_str().unwrap().to_owned();
        let at = (name, alert["port"].as_u64().unwrap());
        all.entry(at).or_default().insert(kind.to_owned());
    }
    all
}

/// The fabric with its counters set, and a file of this name and text.
fn set_fabric() -> IbsimFabric {
    let mut fabric = small();
    for (node, port, name, value) in SET {
        let field = format!("PortCounters.{name}");
        set(&mut fabric, node, *port, &field, *value);
    }
    fabric
}

fn file(fabric: &IbsimFabric, name: &str, text: &str) -> String {
    let path = fabric.dir().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Every name that ibqueryerrors knows, with comments, blank lines, C's notations of numbers,
/// names that nobody knows, and the last of two lines about the same counter.
const LIMITS: &str = "# limits of a test\n\
    SymbolErrorCounter=10\n\
    \n\
    LinkErrorRecoveryCounter=255\n\
    LinkDownedCounter=0x10\n\
    PortRcvErrors=1\n\
    #PortRcvErrors=9\n\
    PortRcvRemotePhysicalErrors=0144\n\
    PortRcvSwitchRelayErrors=100\n\
    PortXmitDiscards=2\n\
    PortXmitDiscards=8\n\
    PortXmitConstraintErrors=2 # two\n\
    PortRcvConstraintErrors=0\n\
    LocalLinkIntegrityErrors=10\n\
    ExcessiveBufferOverrunErrors=10\n\
    VL15Dropped=0\n\
    NoSuchCounter=3\n\
    PortXmitWait=1000\n";

fn limits() {
    let fabric = set_fabric();
    let limits = file(&fabric, "limits", LIMITS);
    // 0 is a limit like others: whatever is not zero is above it.
    let zeros: String = LIMITS
        .lines()
        .filter_map(|l| Some(format!("{}=0\n", l.split_once('=')?.0)))
        .collect();
    let zeros = file(&fabric, "zeros", &zeros);
    let relay = "PortRcvSwitchRelayErrors";
    let both = format!("{relay},VL15Dropped");
    for (path, theirs, ours, ports) in [
        (&limits, &[][..], &[][..], 12),
        (&zeros, &[], &[], 18),
        (&limits, &["--suppress-common"], &["--suppress", relay], 11),
        (&limits, &["--suppress", &both], &["--suppress", &both], 10),
        (
            &zeros,
            &["-s", "SymbolErrorCounter"],
            &["--suppress", "SymbolErrorCounter"],
            16,
        ),
    ] {
        let theirs = tool_names(&fabric, &[&["--threshold-file", path], theirs].concat());
        let ours = own_names(&fabric, &[&["--thresholds", path], ours].concat());
        assert_eq!(ours, theirs, "{path}");
        assert_eq!(theirs.len(), ports, "{theirs:?}");
    }
}

/// Where we read a file otherwise, which `fabric::thresholds` says: what it does not name has our
/// own limits, over time, instead of 0; blanks around a name are no part of it; a text that is no
/// number is told of, instead of being 0.
fn liberties() {
    let fabric = set_fabric();
    let some = file(
        &fabric,
        "some",
        "SymbolErrorCounter=10\n\
         LinkDownedCounter = 16\n\
         symbolerrorcounter=70000\n\
         PortXmitDiscards=none\n\
         PortRcvErrors=1/h\n",
    );
    let theirs = tool_names(&fabric, &["--threshold-file", &some]);
    let ours = own_names(&fabric, &["--thresholds", &some]);
    let at = |node: &str, port: u64, name: &str| {
        let names = BTreeSet::from([name.to_owned()]);
        ((node.to_owned(), port), names)
    };
    // Of SymbolErrorCounter both say the same, of LinkDownedCounter they read 0.
    let symbol = [
        at("leaf000", 2, "SymbolErrorCounter"),
        at("leaf000", 3, "SymbolErrorCounter"),
    ];
    let flap = at("leaf001", 2, "LinkDownedCounter");
    assert_eq!(ours, symbol.into_iter().chain([flap]).collect());
    let name = |node: &str, port: u64, name: &str| {
        let names = theirs.get(&(node.to_owned(), port));
        names.is_some_and(|names| names.contains(name))
    };
    assert!(!name("leaf000", 1, "SymbolErrorCounter"));
    assert!(name("leaf000", 2, "SymbolErrorCounter"));
    for (node, port, counter) in [
        ("leaf001", 1, "LinkDownedCounter"),
        ("leaf002", 2, "PortXmitDiscards"),
        ("node00005 mlx5_0", 1, "VL15Dropped"),
    ] {
        assert!(name(node, port, counter), "{theirs:?}");
    }
    // A time behind a number is no matter to them: more than 1 at all.
    assert!(!name("leaf000", 3, "PortRcvErrors"));
    assert!(name("leaf000", 4, "PortRcvErrors"));
}
