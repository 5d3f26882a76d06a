//! `fabtop record` and `--record` as people run them: files that are rotated, limited, continued,
//! overwritten, and killed in the midst of it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

#[path = "common/program.rs"]
#[allow(dead_code)] // each test program uses a part
mod program;

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fabtop::event::{Event, SweepKind, What};
use fabtop::record::Reader;
use program::*;
use rustix::process::Signal;

/// Two minutes of the simulated fabric in virtual time: some 5 MB, or 400 kB compressed.
const FAST: [&str; 5] = ["--sim", "--sim-time", "fast", "--for", "2min"];

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

fn names(dir: &Path) -> Vec<String> {
    let name = |f: &PathBuf| f.file_name().unwrap().to_string_lossy().into_owned();
    files(dir).iter().map(name).collect()
}

fn size(file: &Path) -> u64 {
    file.metadata().unwrap().len()
}

/// Reads a recording in which nothing may be wrong.
fn sound(file: &Path) -> Vec<Event> {
    let mut reader = Reader::new(std::fs::File::open(file).unwrap());
    let events: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[], "{}", file.display());
    events
}

fn sessions(events: &[Event]) -> usize {
    let opens = |e: &&Event| matches!(e.what, What::Opened(_)) && e.seq == 0;
    events.iter().filter(opens).count()
}

#[test]
fn a_size_limit_ends_a_recording_well() {
    for (name, limit) in [("a.pcapng", 2_000_000), ("a.pcapng.zst", 150_000)] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        let limit_text = limit.to_string();
        let output = fabtop(&["record", text(&file), "--max-size", &limit_text])
            .args(FAST)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // It was asked for: no failure.
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said, "fabtop: the recording reached its --max-size\n");
        // Give or take what is written at once.
        let len = size(&file);
        assert!((limit / 2..limit + 500_000).contains(&len), "{name}: {len}");
        assert!(sound(&file).len() > 1000);
    }
}

#[test]
fn a_rotated_recording_keeps_the_newest_files_and_each_replays_alone() {
    for (suffix, limit) in [("pcapng", "500k"), ("pcapng.zst", "100k")] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(format!("a.{suffix}"));
        let mut args = vec!["record", text(&file), "--max-size", limit, "--rotate", "3"];
        args.extend(FAST);
        out(&args);
        let names = names(dir.path());
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(!names.contains(&format!("a-0001.{suffix}")), "{names:?}");
        let mut next = None;
        for file in files(dir.path()) {
            let events = sound(&file);
            assert!(matches!(events[0].what, What::Opened(_)));
            let nodes = out(&["report", "nodes", "--from", text(&file)]);
            assert!(String::from_utf8(nodes).unwrap().contains("leaf01"));
            // One goes on where the one before ended.
            let first = events[0].seq;
            assert!(next.is_none_or(|next| next == first), "{next:?} {first}");
            next = Some(events.last().unwrap().seq + 1);
        }
        let last = sound(files(dir.path()).last().unwrap());
        assert!(matches!(last.last().unwrap().what, What::Closed { .. }));
    }
}

#[test]
fn a_recording_is_continued_behind_its_last_whole_block() {
    for name in ["a.pcapng", "a.pcapng.zst"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        let mut args = vec!["record", text(&file), "--append"];
        args.extend(["--sim", "--sim-time", "fast", "--for", "20s"]);
        // There is none yet.
        out(&args);
        let once = sound(&file).len();
        let whole = size(&file);
        // A block, or a frame, that a crash cut off.
        let bytes = std::fs::read(&file).unwrap();
        let mut append = std::fs::File::options().append(true).open(&file).unwrap();
        append.write_all(&bytes[..70]).unwrap();
        assert_eq!(size(&file), whole + 70);
        out(&args);
        let twice = sound(&file);
        assert_eq!((twice.len(), sessions(&twice)), (2 * once, 2));
        let nodes = out(&["report", "nodes", "--from", text(&file)]);
        assert!(String::from_utf8(nodes).unwrap().contains("leaf01"));
        // What is no recording stays as it is.
        let other = dir.path().join(format!("b{name}"));
        std::fs::write(&other, "precious").unwrap();
        args[1] = text(&other);
        fails(&args, 2, "cannot be continued");
        assert_eq!(std::fs::read(&other).unwrap(), b"precious");
    }
}

#[test]
fn only_force_overwrites_and_nobody_else_reads_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let file = at("a.pcapng");
    std::fs::write(&file, "precious").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let fast = ["--sim", "--sim-time", "fast", "--for", "5s"];
    let record = |file: &Path, more: &[&str]| {
        let mut args = vec!["record".to_owned(), text(file).to_owned()];
        args.extend(fast.iter().chain(more).map(|s| (*s).to_owned()));
        args
    };
    let refused = |args: Vec<String>, says: &str| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fails(&args, 2, says);
    };
    refused(record(&file, &[]), "use --force to overwrite it");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let args = record(&file, &["--force"]);
    out(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(sound(&file).len() > 100);
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);

    // A copy without names cannot continue a file, and offers no such thing.
    let copy = at("copy.pcapng");
    std::fs::write(&copy, "precious").unwrap();
    let anonymize = ["anonymize", text(&file), text(&copy)];
    fails(
        &anonymize,
        2,
        "use --force to overwrite it, or another name",
    );
    assert_eq!(std::fs::read(&copy).unwrap(), b"precious");
    out(&[&anonymize[..], &["--force"]].concat());
    assert!(sound(&copy).len() > 100);
    std::fs::remove_file(&copy).unwrap();

    // Whatever the umask, and for every file of a rotation.
    let output = std::process::Command::new("sh")
        .args(["-c", "umask 0; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_fabtop"))
        .args(["record", text(&at("r.pcapng"))])
        .args(["--max-size", "500k", "--rotate", "3"])
        .args(FAST)
        .output()
        .unwrap();
    assert!(output.status.success());
    let rotated: Vec<PathBuf> = files(dir.path())
        .into_iter()
        .filter(|f| text(f).contains("r-0"))
        .collect();
    assert_eq!(rotated.len(), 3);
    for file in rotated {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    }

    // Never through a symbolic link, wherever it leads.
    for target in [at("nowhere"), file.clone()] {
        let link = at("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let before = std::fs::read(&target).ok();
        for how in [&[][..], &["--force"], &["--append"]] {
            refused(record(&link, how), "symbolic link");
        }
        assert_eq!(std::fs::read(&target).ok(), before);
    }
}

#[test]
fn a_killed_recording_loses_no_more_than_its_last_second() {
    for name in ["a.pcapng", "a.pcapng.zst"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        for round in 1..=3 {
            let args = [
                "record",
                text(&file),
                "--append",
                "--sim",
                "--interval",
                "100ms",
            ];
            let before = file.metadata().map_or(0, |m| m.len());
            let child = fabtop(&args)
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let mut child = Running(child);
            // Two writes at least; then in the midst of it.
            let mut sizes = Vec::new();
            until("writes", || {
                let now = file.metadata().map_or(0, |m| m.len());
                if now > before && sizes.last() != Some(&now) {
                    sizes.push(now);
                }
                sizes.len() >= 2
            });
            child.signal(Signal::KILL);
            assert_eq!(child.end(), None);
            let mut reader = Reader::new(std::fs::File::open(&file).unwrap());
            let events: Vec<Event> = reader.by_ref().collect();
            // Only the newest session may be torn, and only at its end: the frame, and the block
            // in it.
            assert!(reader.problems().count() <= 2, "{:?}", reader.problems());
            assert_eq!(sessions(&events), round, "{name}");
            let last = events.iter().rposition(|e| e.seq == 0).unwrap();
            let numbers = events[last..].iter().map(|e| e.seq);
            assert!(numbers.eq(0..(events.len() - last) as u64));
        }
    }
}

#[test]
fn with_keys_or_without_names_a_file_differs_from_what_viewers_get() {
    for how in ["--keep-keys", "--anonymize"] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (socket, file, stream_to) = (at("s.sock"), at("r.pcapng"), at("stream"));
        let more = ["--interval", "1s", how, "--record", text(&file)];
        let mut collector = serve(&socket, &more);
        let mut viewer = stream(&socket, &stream_to);
        let discovered =
            |e: &Event| matches!(&e.what, What::SweepEnded(s) if s.kind == SweepKind::Discovery);
        until("the end of the discovery", || {
            events(&stream_to).iter().any(discovered)
        });
        collector.signal(Signal::TERM);
        assert_eq!(collector.end(), Some(0));
        assert_eq!(viewer.end(), Some(0));
        let nodes = |file: &Path| {
            String::from_utf8(out(&["report", "nodes", "--from", text(file)])).unwrap()
        };
        // Each is whole; only the file was changed.
        assert!(nodes(&stream_to).contains("leaf01"));
        assert_eq!(nodes(&file).contains("leaf01"), how == "--keep-keys");
        let (filed, streamed) = (nodes(&file), nodes(&stream_to));
        assert!(
            filed.lines().count() == streamed.lines().count(),
            "{how}:\n{filed}\n{streamed}"
        );
        assert!(matches!(
            sound(&file).last().unwrap().what,
            What::Closed { .. }
        ));
    }
}
