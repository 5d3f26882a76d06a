//! The demo recording: what is committed is what the simulator makes of the incident below.
//!
//! `FABTOP_WRITE_DEMO=1 cargo test --test demo` makes it anew.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fabtop::command::Command;
use fabtop::engine::{Config, Virtual};
use fabtop::event::{Event, SharedBatch};
use fabtop::fabric::{LinkSpeed, LinkWidth, PortKey};
use fabtop::port::Stamp;
use fabtop::record::replay::{ByModel, MarkKind, Observer};
use fabtop::record::{Destination, Existing, Options, Reader, start};
use fabtop::sim::{Action, Counter, Fabric, Faults, Script, SimOptions, SimPort, fat_tree};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/incident.pcapng.zst")
}

/// Four leaves of eight hosts and two spines; hosts 0 and 8 run subnet managers.
fn fabric() -> Fabric {
    let mut fabric = fat_tree(4, 8, 2, 1);
    for (node, name) in [
        (0, "mgmt1 mlx5_0"),
        (8, "mgmt2 mlx5_0"),
        (31, "login1 mlx5_0"),
    ] {
        fabric.nodes[node].description = name.into();
    }
    for (i, node) in fabric.nodes.iter_mut().enumerate() {
        let text = String::from_utf8(node.description.clone()).unwrap();
        if let Some(rest) = text.strip_prefix("node000") {
            node.description = format!("cn{rest}").into();
        } else if let Some(rest) = text.strip_prefix("leaf0").or(text.strip_prefix("spine0")) {
            let kind = if text.starts_with("leaf") {
                "leaf"
            } else {
                "spine"
            };
            node.description = format!("{kind}{rest}").into();
        }
        assert!(i < 38);
    }
    fabric
}

/// The second leaf's uplink to the first spine.
fn uplink(fabric: &Fabric) -> PortKey {
    let leaf = fabric.find("leaf01").unwrap();
    fabric.id(leaf).unwrap().port(9)
}

/// What goes wrong.
fn incident(fabric: &Fabric) -> Script {
    let port = uplink(fabric);
    let at = Stamp::from_secs;
    let errors = |per_second| Action::Errors {
        port,
        counter: Counter::SymbolError,
        per_second,
    };
    Script::new()
        .at(at(60), errors(40.0))
        .at(
            at(80),
            Action::Width {
                port,
                width: LinkWidth::X1,
            },
        )
        .at(
            at(80),
            Action::Speed {
                port,
                speed: LinkSpeed::Edr,
            },
        )
        .at(
            at(110),
            Action::Flap {
                port,
                down: Duration::from_secs(4),
                up: Duration::from_secs(9),
                times: 3,
            },
        )
        .at(at(165), Action::SmFailover)
        .at(at(200), errors(0.0))
        .at(
            at(200),
            Action::Width {
                port,
                width: LinkWidth::X4,
            },
        )
        .at(
            at(200),
            Action::Speed {
                port,
                speed: LinkSpeed::Hdr,
            },
        )
}

fn session() -> Vec<SharedBatch> {
    let fabric = fabric();
    let options = SimOptions {
        faults: Faults::Script(incident(&fabric)),
        local: Some(("login1".into(), 1)),
        ..SimOptions::healthy()
    };
    let mut config = Config {
        // 2026-01-01 02:00:00 UTC; a fixed version, so that a release changes nothing here.
        wall: 1_767_232_800_000_000_000,
        version: "demo".into(),
        host: "login1".into(),
        ..Config::default()
    };
    config.settings.sweep_interval_ns = 15_000_000_000;
    let port = SimPort::new(fabric, options).unwrap();
    let mut engine = Virtual::new(Box::new(port), config);
    let mut batches = Vec::new();
    let mut sink = |batch: SharedBatch| batches.push(batch);
    engine.run_until(Stamp::from_secs(125), &mut sink);
    engine.command(Command::Mark("users report slow jobs".into()));
    engine.run_until(Stamp::from_secs(240), &mut sink);
    engine.command(Command::Quit);
    engine.run_until(Stamp::from_secs(245), &mut sink);
    batches
}

fn write(batches: &[SharedBatch]) {
    let (tx, rx) = crossbeam_channel::unbounded();
    for batch in batches {
        tx.send(batch.clone()).unwrap();
    }
    drop(tx);
    let to = Destination::File(path());
    let handle = start(&to, Existing::Overwrite, Options::default(), rx).unwrap();
    assert_eq!(handle.finish().error, None);
}

#[test]
fn the_demo_recording_is_what_the_simulator_makes_of_the_incident() {
    let batches = session();
    if std::env::var_os("FABTOP_WRITE_DEMO").is_some() {
        write(&batches);
    }
    let length = std::fs::metadata(path()).unwrap().len();
    assert!(length < 500_000, "{length} bytes");
    let mut reader = Reader::new(File::open(path()).unwrap());
    let recorded: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    let made: Vec<Event> = batches
        .iter()
        .flat_map(|b| b.events.iter().cloned())
        .collect();
    assert!(recorded == made, "make it anew, see above");
}

#[test]
fn the_incident_is_on_the_timeline() {
    let mut observer = ByModel::new();
    let mut marks = Vec::new();
    for event in Reader::new(File::open(path()).unwrap()) {
        if let Some((kind, text)) = observer.observe(&event) {
            marks.push((event.at, kind, text));
        }
    }
    let told: Vec<String> = marks
        .iter()
        .map(|(at, kind, text)| format!("{:6.1} {} {text}", at.0 as f64 / 1e9, kind.name()))
        .collect();
    let told = told.join("\n");
    let within = |from, to, kind, word: &str| {
        let (from, to) = (Stamp::from_secs(from), Stamp::from_secs(to));
        let found = marks.iter().any(|(at, k, text)| {
            (from..=to).contains(at) && *k == kind && text.to_lowercase().contains(word)
        });
        assert!(found, "no {word} from {from:?} to {to:?}:\n{told}");
    };
    let early = |(at, kind, _): &(Stamp, MarkKind, String)| {
        *at < Stamp::from_secs(60) && *kind == MarkKind::Alert
    };
    assert!(!marks.iter().any(early), "{told}");
    within(
        85,
        105,
        MarkKind::Alert,
        "link runs at 1x edr, both ends can do 4x hdr",
    );
    within(110, 125, MarkKind::Alert, "active -> down");
    within(125, 165, MarkKind::Alert, "link flaps");
    within(125, 125, MarkKind::Bookmark, "users report slow jobs");
    within(165, 200, MarkKind::Alert, "sm");
}
