//! Keyframes, compressed recordings, rotation: reading from anywhere gives the present, and the
//! stream that follows is the one that was recorded.

#![allow(clippy::unwrap_used, reason = "a test")]

mod events;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use events::{HOST, SWITCH, Script};
use fabtop::event::*;
use fabtop::model::Model;
use fabtop::record::*;

/// Ten minutes of a small fabric: a discovery, then counters each five seconds.
fn session() -> Vec<Event> {
    let mut s = Script::new();
    s.discover();
    for round in 0..120u64 {
        s.now = (round + 1) * 5_000_000_000;
        s.push(What::Tick);
        for port in 1..=36 {
            s.counters(SWITCH, port, 7, round * 1_000_000);
        }
        s.counters(HOST, 1, 9, round * 500_000);
        if round == 100 {
            s.push(What::Mark {
                text: "look here".into(),
            });
        }
    }
    s.push(What::Closed { why: "end".into() });
    s.events
}

fn record(path: &Path, limits: Limits, events: &[Event]) -> Progress {
    let (tx, rx) = crossbeam_channel::unbounded();
    for batch in events.chunks(50) {
        let events = batch.to_vec();
        tx.send(Arc::new(Batch { events })).unwrap();
    }
    drop(tx);
    let to = Destination::File(path.to_owned());
    let options = Options { keep_keys: true };
    let handle = start_limited(&to, Existing::Keep, options, limits, rx).unwrap();
    handle.finish()
}

fn read(path: &Path) -> Vec<Event> {
    let mut reader = Reader::new(File::open(path).unwrap());
    let events = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    events
}

/// The events that a keyframe yields before the stream goes on.
fn keyframe_of(events: &[Event]) -> usize {
    let next = events[0].seq;
    events
        .iter()
        .rposition(|e| {
            let told = matches!(e.what, What::Known(_) | What::Opened(_) | What::Ledger(_));
            e.seq == next && told
        })
        .unwrap()
        + 1
}

fn seeks(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let events = session();
    let progress = record(&path, Limits::default(), &events);
    assert_eq!(progress.error, None);
    assert_eq!(progress.events, events.len() as u64);
    // Sequential reading sees no keyframe.
    assert_eq!(read(&path), events);

    let seeker = Seeker::open(&path).unwrap();
    let wall = events::opened().wall as u64;
    assert_eq!(
        seeker.range(),
        Some((wall, wall + events.last().unwrap().at.0))
    );
    // One after 300 s; the next would be due at the very end.
    let point = seeker.points()[0];
    assert!(
        (300..=310).contains(&((point.wall - wall) / 1_000_000_000)),
        "{point:?}"
    );

    // Before it, reading begins with the file.
    let early: Vec<Event> = seeker.resume(point.wall - 1).unwrap().collect();
    assert_eq!(early, events);

    let mut reader = seeker.resume(point.wall).unwrap();
    let late: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    let known = keyframe_of(&late);
    let stream = &late[known..];
    assert_eq!(stream, &events[events.len() - stream.len()..]);
    // The last reply to each question, with its own time: three NodeInfos, 37 counters.
    let replies: Vec<&Known> = late[..known]
        .iter()
        .filter_map(|e| match &e.what {
            What::Known(k) => Some(&**k),
            _ => None,
        })
        .collect();
    assert_eq!(replies.len(), 3 + 37);
    for known in replies {
        let told = events.iter().rev().find(|e| {
            e.at.0 < stream[0].at.0 && matches!(&e.what, What::Received(r) if r.mad == known.reply)
        });
        assert_eq!(told.unwrap().at, known.at);
    }

    // A model that begins there knows the nodes and what the counters were.
    let mut model = Model::new();
    for event in &late {
        model.apply(event);
    }
    assert_eq!(model.topology().len(), 3);
}

#[test]
fn an_uncompressed_recording_is_read_from_a_keyframe() {
    seeks("a.pcapng");
}

#[test]
fn a_compressed_recording_is_read_from_a_keyframe() {
    seeks("a.pcapng.zst");
}

#[test]
fn the_index_names_the_marks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng.zst");
    let events = session();
    record(&path, Limits::default(), &events);
    let seeker = Seeker::open(&path).unwrap();
    let (marks, all) = seeker.marks();
    assert!(all);
    let told: Vec<(&str, &str)> = marks
        .iter()
        .map(|m| (m.kind.as_str(), m.text.as_str()))
        .collect();
    assert_eq!(told, [("bookmark", "look here")]);
}

#[test]
fn rotated_files_each_replay_alone_and_together() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let events = session();
    let limits = Limits {
        max_size: Some(1 << 20),
        keep: Some(20),
    };
    let progress = record(&path, limits, &events);
    assert_eq!(progress.error, None);
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 2, "{files:?}");
    assert_eq!(files[0].file_name().unwrap(), "a-0001.pcapng");
    let mut all = Vec::new();
    for (number, file) in files.iter().enumerate() {
        assert!(file.metadata().unwrap().len() < 3 << 19);
        let part = read(file);
        let known = if number == 0 { 0 } else { keyframe_of(&part) };
        assert!(matches!(part[0].what, What::Opened(_)), "{:?}", part[0]);
        all.extend_from_slice(&part[known..]);
    }
    assert_eq!(all, events);
    // One after the other through one reader, nothing is told twice.
    let bytes: Vec<u8> = files
        .iter()
        .flat_map(|f| std::fs::read(f).unwrap())
        .collect();
    let together: Vec<Event> = Reader::new(&bytes[..]).collect();
    assert_eq!(together, events);
}

#[test]
fn only_as_many_files_are_kept_as_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let limits = Limits {
        max_size: Some(1 << 20),
        keep: Some(2),
    };
    record(&path, limits, &session());
    let count = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(count, 2);
    assert!(!dir.path().join("a-0001.pcapng").exists());
}

#[test]
fn a_size_limit_without_rotation_stops_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let limits = Limits {
        max_size: Some(1 << 20),
        keep: None,
    };
    let progress = record(&path, limits, &session());
    assert_eq!((progress.full, progress.error), (true, None));
    assert_eq!(read(&path).len() as u64, progress.events);
}

#[test]
fn damage_to_a_compressed_recording_costs_one_frame() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng.zst");
    let events = session();
    // Several sessions appended are several frames.
    for n in 0..3 {
        let (tx, rx) = crossbeam_channel::unbounded();
        tx.send(Arc::new(Batch {
            events: events[..200].to_vec(),
        }))
        .unwrap();
        drop(tx);
        let existing = if n == 0 {
            Existing::Keep
        } else {
            Existing::Append
        };
        let to = Destination::File(path.clone());
        let progress = start(&to, existing, Options { keep_keys: true }, rx)
            .unwrap()
            .finish();
        assert_eq!((progress.error, progress.trimmed), (None, 0));
    }
    let good = std::fs::read(&path).unwrap();
    assert_eq!(read(&path).len(), 600);
    let middle = good.len() / 2;
    let mut bad = good.clone();
    bad[middle..middle + 40].fill(0x55);
    let mut reader = Reader::new(&bad[..]);
    let back: Vec<Event> = reader.by_ref().collect();
    assert!(back.len() >= 400, "{}", back.len());
    assert_eq!(back[..200], events[..200]);
    assert_eq!(back[back.len() - 200..], events[..200]);
    let first = &reader.problems().list()[0];
    assert!(first.what.contains("zstd frame"), "{first}");
    // A torn last frame.
    let mut reader = Reader::new(&good[..good.len() - 300]);
    assert!(reader.by_ref().count() >= 400);
    assert_eq!(reader.problems().list().len(), 1, "{:?}", reader.problems());
}

#[test]
fn a_torn_compressed_recording_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng.zst");
    let events = session();
    record(&path, Limits::default(), &events);
    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn.extend(&whole[..100]);
    std::fs::write(&path, &torn).unwrap();
    let (tx, rx) = crossbeam_channel::unbounded();
    tx.send(Arc::new(Batch {
        events: events[..10].to_vec(),
    }))
    .unwrap();
    drop(tx);
    let to = Destination::File(path.clone());
    let handle = start(&to, Existing::Append, Options { keep_keys: true }, rx).unwrap();
    assert_eq!(handle.finish().trimmed, 100);
    assert_eq!(read(&path), [&events[..], &events[..10]].concat());
}
