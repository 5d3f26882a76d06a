//! A recorder that is killed loses at most its last second. This program is its own victim: run
//! with `RECORD_TO` set it records without end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test; its harness is not the standard one"
)]

#[path = "common/foreign.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod foreign;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use fabtop::event::{Batch, Event, What};
use fabtop::port::Stamp;
use fabtop::record::{Destination, Existing, Options, Reader, start};

const RECORD_TO: &str = "FABTOP_TEST_RECORD_TO";

fn main() -> ExitCode {
    if let Some(path) = std::env::var_os(RECORD_TO) {
        record(Path::new(&path));
    }
    foreign::main(vec![
        foreign::trial("what_was_acknowledged_survives_kill_9", &[], kill_loop),
        foreign::trial("a_file_that_may_not_grow_stops_soundly", &[], file_limit),
    ])
}

/// Records ticks and says on standard output how many are safe.
#[allow(clippy::print_stdout, reason = "the killer reads it")]
fn record(path: &Path) -> ! {
    // At most a few batches wait, so what is acknowledged is not far from what was sent.
    let (tx, rx) = crossbeam_channel::bounded(4);
    let to = Destination::File(path.to_owned());
    let handle = start(&to, Existing::Append, Options::default(), rx).expect("started");
    let mut told = 0;
    for first in (0u64..).step_by(100) {
        let tick = |seq| Event {
            seq,
            at: Stamp(seq * 1_000_000),
            what: What::Tick,
        };
        let batch = Batch {
            events: (first..first + 100).map(tick).collect(),
        };
        tx.send(Arc::new(batch)).expect("the recorder takes");
        let progress = handle.progress();
        if let Some(error) = progress.error {
            println!("stopped {} {error}", progress.events);
            std::process::exit(0);
        }
        if progress.events != told {
            told = progress.events;
            println!("{told}");
        }
    }
    unreachable!("it ends by force")
}

fn victim(path: &Path, shell: &str) -> std::process::Child {
    let me = std::env::current_exe().expect("own path");
    Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\"")])
        .arg(me)
        .env(RECORD_TO, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("victim runs")
}

fn kill_loop() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("a.pcapng");
    let mut sessions = Vec::new();
    for round in 1..=8 {
        let mut child = victim(&path, "");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        // In the midst of writing, each time at another place.
        let line = out.lines().nth(round).expect("lines").expect("text");
        child.kill().expect("killed");
        child.wait().expect("ended");
        sessions.push(line.parse::<usize>().expect("a number"));
    }
    let mut reader = Reader::new(std::fs::File::open(&path).expect("file"));
    let mut found = Vec::new();
    let mut next = 0;
    for event in reader.by_ref() {
        if event.seq == 0 {
            found.push(0);
            next = 0;
        }
        assert_eq!(event.seq, next, "no event is missing before the end");
        next += 1;
        *found.last_mut().expect("a first event") += 1;
    }
    assert_eq!(found.len(), sessions.len());
    for (found, told) in found.iter().zip(&sessions) {
        assert!(found >= told, "{found} events of the {told} acknowledged");
    }
    // Each appending run cut the tail that the one before left torn; only the last may be.
    assert!(reader.problems().count() <= 1, "{:?}", reader.problems());
}

/// RLIMIT_FSIZE gives EFBIG where a full disk gives ENOSPC, half a block included.
fn file_limit() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("a.pcapng");
    // In units of 512 or 1024 bytes, by shell; without SIGXFSZ the write fails instead.
    let child = victim(&path, "trap '' XFSZ; ulimit -f 1500;");
    let out = child.wait_with_output().expect("ended");
    let text = String::from_utf8_lossy(&out.stdout);
    let last = text.lines().last().expect("a last line");
    let events = last.strip_prefix("stopped ").expect("a stop");
    let (events, error) = events.split_once(' ').expect("a number");
    assert!(error.contains("EFBIG"), "{error}");
    let mut reader = Reader::new(std::fs::File::open(&path).expect("file"));
    assert_eq!(reader.by_ref().count().to_string(), events);
    assert_eq!(reader.problems().list(), &[]);
}
