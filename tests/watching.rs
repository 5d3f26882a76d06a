//! The program itself, recorded, replayed and watched: each test runs it as people do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)] // a test may fail by panicking

#[path = "common/program.rs"]
#[allow(dead_code)] // each test program uses a part
mod program;
#[allow(dead_code)] // shared with another test program
mod pty;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fabtop::event::{Event, What};
use fabtop::record::Reader;
use program::*;
use pty::Console;
use rustix::process::Signal;

/// A minute of the simulated fabric with its faults.
fn recording(dir: &Path) -> PathBuf {
    let path = dir.join("minute.pcapng");
    let args = [
        "report",
        "ports",
        "--sim",
        "--sim-time",
        "fast",
        "--for",
        "60s",
        "--record",
    ];
    assert!(fabtop(&args).arg(&path).output().unwrap().status.success());
    path
}

#[test]
fn streams_hold_the_events_that_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (socket, file) = (at("s.sock"), at("r.pcapng"));
    let mut collector = serve(&socket, &["--interval", "1s", "--record", text(&file)]);
    let (first, second) = (at("first"), at("second"));
    let mut viewers = vec![stream(&socket, &first)];
    until("events in the first stream", || live(&first).len() > 300);
    viewers.push(stream(&socket, &second));
    until("events in the second stream", || live(&second).len() > 300);
    collector.signal(Signal::TERM);
    assert_eq!(collector.end(), Some(0));
    for viewer in &mut viewers {
        assert_eq!(viewer.end(), Some(0));
    }
    let recorded: BTreeMap<u64, Event> = events(&file).into_iter().map(|e| (e.seq, e)).collect();
    assert!(!socket.exists());
    for path in [first, second] {
        let live = live(&path);
        let (from, to) = (live.keys().next().unwrap(), live.keys().last().unwrap());
        let same: BTreeMap<_, _> = recorded
            .range(from..=to)
            .map(|(k, v)| (*k, v.clone()))
            .collect();
        assert!(live == same, "{} of {} events", live.len(), same.len());
        assert!(
            matches!(live[to].what, What::Closed { .. }),
            "{:?}",
            live[to]
        );
    }
}

#[test]
fn a_stopped_viewer_slows_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let socket = at("s.sock");
    let mut collector = serve(&socket, &["--interval", "100ms"]);
    let (stopped, other) = (at("stopped"), at("other"));
    let mut asleep = stream(&socket, &stopped);
    until("the first viewer's events", || live(&stopped).len() > 10);
    asleep.signal(Signal::STOP);
    let mut awake = stream(&socket, &other);
    until("the second viewer's events", || live(&other).len() > 20_000);
    collector.signal(Signal::TERM);
    // Neither the collector nor the other waits for the one that takes nothing.
    assert_eq!(collector.end(), Some(0));
    assert_eq!(awake.end(), Some(0));
    let live = live(&other);
    assert!(
        live.values()
            .all(|e| !matches!(e.what, What::Dropped { .. }))
    );
    asleep.signal(Signal::CONT);
    assert_eq!(asleep.end(), Some(0));
}

#[test]
fn a_watched_session_survives_its_collectors_restart() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s.sock");
    let mut collector = serve(&socket, &[]);
    let mut viewer = Console::program(&["watch", "--restricted", text(&socket)], 80, 24);
    viewer.wait_for("WATCHING");
    viewer.wait_for("lag <2s");
    viewer.wait_for("Active");
    // Nobody gets a shell by it.
    viewer.keys("\x1a");
    viewer.wait_for("There is no shell to go back to.");
    viewer.keys("2");
    viewer.wait_for("TX bit/s");
    collector.signal(Signal::TERM);
    assert_eq!(collector.end(), Some(0));
    viewer.wait_for("reconnecting");
    viewer.wait_for("Reconnecting to the collector");
    let collector = serve(&socket, &[]);
    viewer.wait_for("lag <2s");
    // The pane that was open still is, and shows the new session.
    viewer.wait_for("leaf01");
    viewer.wait_for("TX bit/s");
    viewer.keys("q");
    let end = viewer.wait();
    end.expect_code(0).unwrap();
    end.expect_restored().unwrap();
    end.expect_stderr("").unwrap();
    drop(collector);
}

#[test]
fn a_replay_goes_where_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = recording(dir.path());
    let mut replay = Console::program(&["replay", "--paused", text(&file)], 80, 24);
    replay.wait_for("REPLAY");
    // Paused, but not empty: it stands where the first discovery has ended.
    replay.wait_for("paused   1×   0:0");
    replay.wait_for("of  1:00");
    replay.wait_for("cn001 mlx5_0");
    replay.wait_for("minute.pcapng");
    replay.keys("g50%\r");
    replay.wait_for("paused   1×   0:30 of  1:00   50%  2026-01-01  00:00:30");
    replay.wait_for("SIMULATED");
    replay.wait_for("cn025");
    replay.keys("\x1b[C");
    replay.wait_for(" 0:40 of");
    replay.keys("\x1b[D\x1b[D");
    replay.wait_for(" 0:20 of");
    replay.keys("g00:00:45\r");
    replay.wait_for(" 0:45 of");
    replay.keys("g-15s\r");
    replay.wait_for(" 0:30 of");
    replay.keys("2");
    replay.wait_for("TX bit/s");
    // To a bookmark and back, with the pane kept.
    replay.keys("b");
    replay.wait_for("Bookmark set");
    replay.keys("g0%\r");
    replay.wait_for(" 0:00 of");
    replay.keys("m");
    replay.wait_for(" 0:30 of");
    replay.wait_for("TX bit/s");
    replay.keys("+++ ");
    replay.wait_for("ended    10×   1:00 of  1:00  100%");
    replay.keys("q");
    let end = replay.wait();
    end.expect_code(0).unwrap();
    end.expect_restored().unwrap();
    end.expect_stderr("").unwrap();
}

#[test]
fn every_report_of_a_recording_is_that_of_the_session() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["ports", "nodes", "timeouts", "topology"] {
        for suffix in ["pcapng", "pcapng.zst"] {
            let file = dir.path().join(format!("{kind}.{suffix}"));
            let file = text(&file);
            for format in [&[][..], &["--json"]] {
                if kind == "topology" && !format.is_empty() {
                    continue;
                }
                let mut session = vec!["report", kind, "--sim", "--sim-time", "fast"];
                session.extend(["--for", "60s", "--force", "--record", file]);
                session.extend(format);
                let mut read = vec!["report", kind, "--from", file];
                read.extend(format);
                let (live, replayed) = (out(&session), out(&read));
                assert!(live.len() > 1000);
                assert!(live == replayed, "{kind} {suffix} {format:?}");
            }
        }
    }
}

#[test]
fn a_report_as_of_then_is_the_one_that_was_made_then() {
    let dir = tempfile::tempdir().unwrap();
    let file = recording(dir.path());
    let session = |time| {
        out(&[
            "report",
            "nodes",
            "--sim",
            "--sim-time",
            "fast",
            "--for",
            time,
        ])
    };
    let then = |at| out(&["report", "nodes", "--from", text(&file), "--at", at]);
    assert!(then("20s") == session("20s"));
    assert!(then("2026-01-01T00:00:20Z") == session("20s"));
    fails(
        &["report", "nodes", "--from", text(&file), "--at", "120%"],
        2,
        "no place in a recording",
    );
}

#[test]
fn record_records_without_a_screen() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let fast = ["--sim", "--sim-time", "fast", "--for", "30s"];
    let file = at("a.pcapng.zst");
    let mut args = vec!["record", text(&file)];
    args.extend(fast);
    out(&args);
    fails(&args, 2, "--force");
    let nodes =
        |file: &Path| String::from_utf8(out(&["report", "nodes", "--from", text(file)])).unwrap();
    assert!(nodes(&file).contains("leaf01"));

    // Standard output: pcapng from its first byte, a Section Header Block.
    let mut args = vec!["record", "-"];
    args.extend(fast);
    let bytes = out(&args);
    assert_eq!(bytes.get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]));
    let piped: Vec<Event> = Reader::new(&bytes[..]).collect();
    assert!(piped == events(&file));

    // Without what tells whose it is, by either way.
    let (first, second) = (at("first.pcapng"), at("second.pcapng"));
    let mut args = vec!["record", text(&first), "--anonymize"];
    args.extend(fast);
    out(&args);
    out(&["anonymize", text(&file), text(&second)]);
    for path in [first, second] {
        let shown = nodes(&path);
        assert!(
            shown.contains("host-0001") && !shown.contains("leaf01"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), nodes(&file).lines().count());
    }
    fails(&["anonymize", text(&file), text(&file)], 2, "same file");
}

#[test]
fn mistakes_are_told_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    let missing = text(&missing);
    let file = recording(dir.path());
    let file = text(&file);
    fails(&["watch", missing], 1, "no collector listens on");
    fails(&["stream", missing], 1, "no collector listens on");
    fails(&["replay", missing], 2, "cannot read");
    fails(&["replay", file, "-"], 2, "together with other files");
    fails(&["replay", file], 2, "not a terminal");
    fails(&["replay", file, "--sim"], 2, "talks to no fabric");
    fails(
        &["replay", "--follow", file, file],
        2,
        "--follow takes one file",
    );
    fails(&["serve", "--sim", "--socket", file], 2, "no socket");
    fails(&["record", file, "--sim", "--sim-time", "fast"], 2, "--for");
    fails(
        &["serve", "--sim", "--sim-time", "fast", "--for", "1s"],
        2,
        "nobody could watch",
    );
    fails(&["report", "nodes", "--sim", "--append"], 2, "--record");
    fails(
        &["report", "nodes", "--sim", "--socket-group", "root"],
        2,
        "--socket",
    );
}

#[test]
fn the_end_waits_for_no_host_that_does_not_answer() {
    // One host of the simulated fabric is dead: a request to it is on its way for a minute, and
    // again for 19 more. The patience of the test is half a minute.
    let args = ["--sim", "--timeout", "1min", "--attempts", "20"];
    let mut console = Console::program(&args, 80, 24);
    console.wait_for("Active");
    console.signal(Signal::TERM);
    let code = console.wait_for_exit();
    assert_eq!(code, 143, "128 and the signal's number");
    console.wait().expect_restored().unwrap();
    let mut console = Console::program(&args, 80, 24);
    console.wait_for("Active");
    console.keys("q");
    console.wait().expect_code(0).unwrap();
}
