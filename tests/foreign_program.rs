//! The program itself on ibsim's fabric, attached natively and through the preloaded umad
//! device: its reports against what ibnetdiscover and perfquery print.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::collections::BTreeSet;
use std::process::{Command, ExitCode, Output};

use common::client::number;
use common::fabric::FatTree;
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options, dotted, text_of};
use serde_json::Value;

fn main() -> ExitCode {
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![
        trial("large_topology_is_ibnetdiscovers", &all, topology),
        trial(
            "topology_over_umad_is_ibnetdiscovers",
            &all,
            topology_over_umad,
        ),
        trial("error_counters_are_perfquerys", &all, counters),
        trial(
            "error_counters_over_umad_are_perfquerys",
            &all,
            counters_over_umad,
        ),
        trial("a_silent_host_is_in_timeouts", &all, timeouts),
        trial("a_recorded_report_reads_back_equal", &all, replay),
        trial("mistakes_are_told", &[IBSIM], mistakes),
    ])
}

/// Where the program runs, and ibnetdiscover with it.
const HOST: usize = 9;

/// How the program reaches the fabric.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    Native,
    Umad,
}

fn fabtop(fabric: &IbsimFabric, door: Door, args: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_fabtop");
    let host = FatTree::host(HOST);
    let mut command = match door {
        Door::Native => fabric.native(program),
        Door::Umad => fabric.shimmed(program, &host),
    };
    command.args(args);
    if door == Door::Native {
        command.args(["--ibsim", &host]);
    }
    command
}

fn report(fabric: &IbsimFabric, door: Door, args: &[&str]) -> String {
    let output = fabtop(fabric, door, args).output().unwrap();
    text_of("fabtop", &output)
}

fn json(fabric: &IbsimFabric, door: Door, args: &[&str]) -> Value {
    serde_json::from_str(&report(fabric, door, args)).unwrap()
}

/// All but the line that tells the time.
fn undated(text: &str) -> Vec<&str> {
    let dated = |line: &&str| !line.starts_with("# Topology file");
    text.lines().filter(dated).collect()
}

fn same_topology(fabric: &IbsimFabric, door: Door) {
    let theirs = fabric.tool(&FatTree::host(HOST), "ibnetdiscover", &[]);
    let ours = report(fabric, door, &["report", "topology", "--once"]);
    let (ours, theirs) = (undated(&ours), undated(&theirs));
    for (n, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(a, b, "line {}", n + 1);
    }
    assert_eq!(ours.len(), theirs.len());
}

/// Line by line: nodes, ports, peers, LIDs, widths, speeds, and even their order.
fn topology() {
    let fabric = IbsimFabric::start(&FatTree::LARGE.net(), Options { sm: true });
    same_topology(&fabric, Door::Native);
    let ports = json(
        &fabric,
        Door::Native,
        &["report", "ports", "--json", "--once"],
    );
    let rows = ports["ports"].as_array().unwrap();
    let linked = rows.iter().filter(|r| r["peer"].is_object());
    let nodes: BTreeSet<&str> = rows.iter().map(|r| r["guid"].as_str().unwrap()).collect();
    assert_eq!((nodes.len(), linked.count()), (702, 2_592));
}

fn topology_over_umad() {
    let fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true });
    same_topology(&fabric, Door::Umad);
}

const SET: &[(&str, u8, &str, u64)] = &[
    ("leaf002", 2, "SymbolErrorCounter", 65_535),
    ("leaf002", 6, "PortRcvErrors", 31),
    ("spine000", 1, "LinkErrorRecoveryCounter", 200),
    ("node00008 mlx5_0", 1, "PortXmitDiscards", 7),
    ("node00008 mlx5_0", 1, "ExcessiveBufferOverrunErrors", 15),
];

/// A number that is perhaps said to be pegged.
fn value(number: &Value) -> Option<u64> {
    number.as_u64().or_else(|| number["value"].as_u64())
}

fn same_counters(door: Door) {
    let mut fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true });
    for (node, port, name, value) in SET {
        let line = format!("PerformanceSet \"{node}\"[{port}] PortCounters.{name}={value}");
        fabric.console(&line);
    }
    let ports = json(&fabric, door, &["report", "ports", "--json", "--once"]);
    let rows = ports["ports"].as_array().unwrap();
    // 16 hosts and 6 switches: 16 + 4 · 6 + 2 · 4 ports.
    assert_eq!(rows.len(), 48);
    let mut set = 0;
    for row in rows {
        let (lid, port) = (row["lid"].to_string(), row["port"].to_string());
        let text = fabric.tool(&FatTree::host(HOST), "perfquery", &[&lid, &port]);
        for name in [
            "SymbolErrorCounter",
            "LinkErrorRecoveryCounter",
            "LinkDownedCounter",
            "PortRcvErrors",
            "PortXmitDiscards",
            "ExcessiveBufferOverrunErrors",
        ] {
            let theirs = number(&dotted(&text, name));
            let ours = value(&row["counters"][name]);
            assert_eq!(ours, Some(theirs), "{} {port} {name}", row["name"]);
            set += usize::from(theirs > 0);
        }
    }
    assert_eq!(set, SET.len(), "what was set was seen");
}

fn counters() {
    same_counters(Door::Native);
}

fn counters_over_umad() {
    same_counters(Door::Umad);
}

/// A host that is silent from the start has no name: it is what lies beyond its switch's port.
fn timeouts() {
    let mut fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true });
    fabric.console("Error \"node00005 mlx5_0\"[1] 100");
    let args = ["report", "timeouts", "--json", "--for", "3s"];
    let report = json(&fabric, Door::Native, &args);
    let rows = report["destinations"].as_array().unwrap();
    let failed: Vec<&Value> = rows.iter().filter(|r| r["timed_out"] != 0).collect();
    assert_eq!(failed.len(), 1, "{failed:#?}");
    let row = failed[0];
    // The switch's port 2 in the net file.
    assert!(
        row["name"].as_str().unwrap().contains("leaf001[2]"),
        "{row}"
    );
    assert_eq!(row["answered"], 0);
    assert_eq!(row["last_failure"]["kind"], "no answer");
    // All others answer everything.
    assert!(rows.len() > 22);
}

/// The fold is pure: a recording gives the same report, byte for byte.
fn replay() {
    let fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true });
    let args = [
        "report",
        "ports",
        "--json",
        "--for",
        "3s",
        "--interval",
        "1s",
    ];
    let record = [&args[..], &["--record", "session.pcapng"]].concat();
    let live = report(&fabric, Door::Native, &record);
    let read = ["report", "ports", "--json", "--from", "session.pcapng"];
    let output = fabric
        .native(env!("CARGO_BIN_EXE_fabtop"))
        .args(read)
        .output()
        .unwrap();
    let replayed = text_of("fabtop", &output);
    assert!(live.contains("leaf003"));
    assert!(live == replayed, "the replayed report differs");
}

fn said(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

fn mistakes() {
    let fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: false });
    let run = |name: &str, node: &str| {
        let output = fabric
            .native(env!("CARGO_BIN_EXE_fabtop"))
            .env("IBSIM_SOCKNAME", name)
            .args(["report", "nodes", "--once", "--ibsim", node])
            .output()
            .unwrap();
        said(&output)
    };
    let (code, text) = run("fabtop-test-nobody", "leaf000");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("start ibsim first"), "{text}");
    let (code, text) = run(fabric.name(), "nowhere");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("no node \"nowhere\""), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
