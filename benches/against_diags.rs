//! fabtop against infiniband-diags on one simulated fabric, in turns: how long a discovery and a
//! counter sweep take, what CPU they cost, how many MADs they send.
//!
//! `cargo bench --bench against_diags [-- --rounds N] [--nodes small]` starts ibsim with a fat
//! tree of 1,700 nodes (80 leaves with 20 hosts each below 20 spines: 6,400 linked ports) and
//! opensm, and runs each program N times, one after the other, so that a slow moment of the
//! machine hits all of them. Medians are printed. Where ibsim, opensm, infiniband-diags or the
//! preloadable umad library are missing it says so and ends.
//!
//! MADs are counted by the fabric itself: what the packets counter of the asking host's port,
//! read by `perfquery`, rose by. CPU is user and system time of the whole process.

#![allow(clippy::unwrap_used)] // a bench has nobody to report to
#![allow(clippy::print_stdout, missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::client::number;
use common::fabric::FatTree;
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, find_program};
use common::ibsim::{IbsimFabric, Options, dotted};
use nix::sys::resource::{UsageWho, getrusage};

/// Where both run: not where opensm does.
const HOST: usize = 777;

/// What a run of a program took.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
    mads: f64,
}

/// All runs of one program.
struct Racer {
    name: &'static str,
    run: fn(&IbsimFabric, &str) -> Command,
    /// The part of it that counts, in seconds, by what it printed.
    part: Option<fn(&str) -> f64>,
    costs: Vec<Cost>,
}

fn fabtop(fabric: &IbsimFabric, host: &str, native: bool, report: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_fabtop");
    let mut command = match native {
        true => fabric.native(program),
        false => fabric.shimmed(program, host),
    };
    command.args([
        "--smp-in-flight",
        "64",
        "--smp-rate",
        "0",
        "--gmp-rate",
        "0",
    ]);
    command.arg("report").args(report).arg("--once");
    if native {
        command.args(["--ibsim", host]);
    }
    command
}

fn tool(fabric: &IbsimFabric, host: &str, name: &str, args: &[&str]) -> Command {
    let mut command = fabric.shimmed(find_program(name).unwrap(), host);
    command.args(args);
    command
}

const TOPOLOGY: &[&str] = &["topology", "--format", "ibnetdiscover"];
const SWEEPS: &[&str] = &["sweeps", "--json"];

/// How long the counter sweep took, from `report sweeps --json`.
fn sweep(json: &str) -> f64 {
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    let sweeps = report["sweeps"].as_array().unwrap();
    let counters = sweeps.iter().find(|s| s["kind"] == "counters").unwrap();
    assert_eq!(counters["failed"], 0, "{counters}");
    counters["took_s"].as_f64().unwrap()
}

fn racers() -> Vec<Racer> {
    let racer = |name, run, part| Racer {
        name,
        run,
        part,
        costs: Vec::new(),
    };
    vec![
        racer(
            "ibnetdiscover -o 64",
            |f, h| tool(f, h, "ibnetdiscover", &["-o", "64"]),
            None,
        ),
        racer(
            "fabtop topology, native",
            |f, h| fabtop(f, h, true, TOPOLOGY),
            None,
        ),
        racer(
            "fabtop topology, over umad",
            |f, h| fabtop(f, h, false, TOPOLOGY),
            None,
        ),
        racer(
            "ibqueryerrors",
            |f, h| tool(f, h, "ibqueryerrors", &[]),
            None,
        ),
        racer(
            "fabtop sweep, native",
            |f, h| fabtop(f, h, true, SWEEPS),
            Some(sweep),
        ),
        racer(
            "fabtop sweep, over umad",
            |f, h| fabtop(f, h, false, SWEEPS),
            Some(sweep),
        ),
    ]
}

/// CPU of all children that have ended.
fn children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6)
        .sum()
}

/// MADs that the host has sent.
fn sent(fabric: &IbsimFabric, host: &str) -> f64 {
    let text = fabric.tool(host, "perfquery", &[]);
    number(&dotted(&text, "PortXmitPkts")) as f64
}

impl Racer {
    fn lap(&mut self, fabric: &IbsimFabric, host: &str) {
        let before = sent(fabric, host);
        let cpu = children();
        let began = Instant::now();
        let output = (self.run)(fabric, host)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let wall = began.elapsed().as_secs_f64();
        let cpu = children() - cpu;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.name);
        let text = String::from_utf8_lossy(&output.stdout);
        let wall = self.part.map_or(wall, |part| part(&text));
        let mads = sent(fabric, host) - before;
        self.costs.push(Cost { wall, cpu, mads });
    }

    fn median(&self, of: fn(&Cost) -> f64) -> f64 {
        let mut all: Vec<f64> = self.costs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn medians(&self) -> Cost {
        Cost {
            wall: self.median(|c| c.wall),
            cpu: self.median(|c| c.cpu),
            mads: self.median(|c| c.mads),
        }
    }
}

fn missing() -> Vec<String> {
    [IBSIM, OPENSM, DIAGS, Need::Shim]
        .into_iter()
        .filter_map(Need::missing)
        .collect()
}

/// The value that follows a word of the command line.
fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != name).nth(1)
}

fn main() {
    // `cargo test --benches` starts benches too, to see that they start.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let missing = missing();
    if !missing.is_empty() {
        println!("nothing to compare with: {}", missing.join(", "));
        return;
    }
    let rounds = argument("--rounds").map_or(9, |n| n.parse().unwrap());
    let tree = match argument("--nodes").as_deref() {
        Some("small") => FatTree::LARGE,
        _ => FatTree::HUGE,
    };
    let began = Instant::now();
    let fabric = IbsimFabric::start(&tree.net(), Options { sm: true });
    // What opensm does at its start is over.
    std::thread::sleep(Duration::from_secs(2));
    println!(
        "{tree:?} is up after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let host = FatTree::host(HOST.min(tree.leaves * tree.hosts_per_leaf - 1));
    let mut racers = racers();
    for _ in 0..rounds {
        for racer in &mut racers {
            racer.lap(&fabric, &host);
        }
    }
    println!("{rounds} rounds, medians      wall s    CPU s    MADs");
    for racer in &racers {
        let Cost { wall, cpu, mads } = racer.medians();
        println!("{:27} {wall:8.3} {cpu:8.3} {mads:7.0}", racer.name);
    }
    let [
        netdiscover,
        topology,
        umad,
        queryerrors,
        native_sweep,
        umad_sweep,
    ] = &racers.iter().map(Racer::medians).collect::<Vec<_>>()[..]
    else {
        return;
    };
    for (door, ours) in [("native", topology), ("over umad", umad)] {
        println!(
            "discovery, {door}: {:.2} of ibnetdiscover's time, {:.2} of its CPU, {:.2} of its MADs",
            ours.wall / netdiscover.wall,
            ours.cpu / netdiscover.cpu,
            ours.mads / netdiscover.mads,
        );
    }
    for (door, ours, discovery) in [
        ("native", native_sweep, topology),
        ("over umad", umad_sweep, umad),
    ] {
        println!(
            "sweep after discovery, {door}: {:.2} of ibqueryerrors' time, {:.2} of its CPU \
             ({:.2} with our discovery's), {:.2} of its MADs",
            ours.wall / queryerrors.wall,
            (ours.cpu - discovery.cpu) / queryerrors.cpu,
            ours.cpu / queryerrors.cpu,
            (ours.mads - discovery.mads) / queryerrors.mads,
        );
    }
}
