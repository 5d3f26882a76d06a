//! Recordings of whole sessions: the engine over the built-in simulator, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use fabtop::engine::{Config, Virtual};
use fabtop::event::*;
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::record::replay::{ByModel, Observer};
use fabtop::record::*;
use fabtop::report::{self, Format};
use fabtop::sim::{SimOptions, SimPort, default_fabric};

fn session(options: SimOptions, secs: u64) -> Vec<SharedBatch> {
    let port = SimPort::new(default_fabric(), options).unwrap();
    let mut engine = Virtual::new(Box::new(port), Config::default());
    let mut batches = Vec::new();
    engine.run_until(Stamp::from_secs(secs), &mut |batch| {
        batches.push(batch.clone())
    });
    batches
}

fn record(path: &Path, batches: &[SharedBatch]) -> Progress {
    let (tx, rx) = crossbeam_channel::unbounded();
    for batch in batches {
        tx.send(batch.clone()).unwrap();
    }
    drop(tx);
    let to = Destination::File(path.to_owned());
    let handle = start(&to, Existing::Keep, Options { keep_keys: true }, rx).unwrap();
    let progress = handle.finish();
    assert_eq!(progress.error, None);
    progress
}

fn fold(events: impl IntoIterator<Item = Event>) -> Model {
    let mut model = Model::new();
    for event in events {
        model.apply(&event);
    }
    model
}

fn everything(model: &Model) -> String {
    let now = model.last();
    let mut all = String::new();
    for format in [Format::Text, Format::Json] {
        for report in [
            report::ports,
            report::nodes,
            report::timeouts,
            report::events,
        ] {
            all += &report(model, now, format);
        }
    }
    all + &report::topology(model, now)
}

fn events(batches: &[SharedBatch]) -> Vec<Event> {
    batches
        .iter()
        .flat_map(|b| b.events.iter().cloned())
        .collect()
}

#[test]
fn a_session_with_faults_replays_to_the_same_reports() {
    let batches = session(SimOptions::default(), 120);
    let live = events(&batches);
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.pcapng", "a.pcapng.zst"] {
        let path = dir.path().join(name);
        record(&path, &batches);
        let mut reader = Reader::new(std::fs::File::open(&path).unwrap());
        let back: Vec<Event> = reader.by_ref().collect();
        assert_eq!(reader.problems().list(), &[]);
        assert_eq!(reader.stats().guessed, 0);
        assert!(
            back == live,
            "{name}: {} of {} events",
            back.len(),
            live.len()
        );
        assert_eq!(everything(&fold(back)), everything(&fold(live.clone())));
    }
}

#[test]
fn a_replay_from_a_keyframe_shows_the_same_fabric() {
    let batches = session(SimOptions::default(), 1300);
    let live = fold(events(&batches));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng.zst");
    record(&path, &batches);
    let seeker = Seeker::open(&path).unwrap();
    assert!(seeker.points().len() >= 2, "{:?}", seeker.points());
    for point in seeker.points() {
        let model = fold(seeker.resume(point.wall).unwrap());
        // Discoveries at 600 and 1200 s compared their digests with the engine's.
        assert_eq!(model.digests_differ(), 0);
        assert_eq!(model.topology().digest(), live.topology().digest());
        assert_eq!(
            report::topology(&model, model.last()),
            report::topology(&live, live.last())
        );
    }
}

#[test]
fn the_index_of_a_compressed_recording_has_the_marks_that_reading_finds() {
    let batches = session(SimOptions::default(), 400);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng.zst");
    record(&path, &batches);
    let mut observer = ByModel::new();
    let found: Vec<(u64, String, String)> = events(&batches)
        .iter()
        .filter_map(|event| {
            let (kind, text) = observer.observe(event)?;
            let text = text.chars().take(80).collect();
            Some((event.at.0, kind.name().to_owned(), text))
        })
        .collect();
    let alerts = found.iter().filter(|(_, kind, _)| kind == "alert").count();
    assert!(alerts > 3, "{found:?}");
    let marks = |path: &Path| -> (Vec<(u64, String, String)>, bool) {
        let seeker = Seeker::open(path).unwrap();
        let (marks, all) = seeker.marks();
        let mark = |m: &IndexMark| (m.wall, m.kind.clone(), m.text.clone());
        (marks.iter().map(mark).collect(), all)
    };
    assert_eq!(marks(&path), (found, true));

    // Torn, as after a crash: all but the marks of the last frame.
    let bytes = std::fs::read(&path).unwrap();
    let (whole, _) = marks(&path);
    std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let (torn, all) = marks(&path);
    assert!(all && whole.starts_with(&torn));
    // Compressed by another program: nothing is known before it is read.
    let plain = zstd::decode_all(&bytes[..]).unwrap();
    std::fs::write(&path, zstd::encode_all(&plain[..], 1).unwrap()).unwrap();
    assert_eq!(marks(&path), (Vec::new(), false));
}

/// Bytes a MAD of a recording in frames of a second each, as in real time; without the
/// discovery and the first rounds, which tell the targets.
fn bytes_a_mad(load: f64) -> f64 {
    let at = |secs| {
        let options = SimOptions {
            load,
            ..SimOptions::healthy()
        };
        let (mut bytes, mut mads, mut second) = (0, 0, 0);
        let mut encoder = Encoder::new(Options::default());
        let mut pending = Vec::new();
        for batch in session(options, secs) {
            encoder.encode(&batch.events, &mut pending);
            let now = batch.events.last().map_or(0, |e| e.at.0 / 1_000_000_000);
            if now != second {
                second = now;
                bytes += zstd::bulk::compress(&pending, 9).unwrap().len() as u64;
                pending.clear();
                mads = encoder.mads();
            }
        }
        (bytes, mads)
    };
    let (early, late) = (at(30), at(150));
    (late.0 - early.0) as f64 / (late.1 - early.1) as f64
}

#[test]
fn recordings_are_small() {
    // Measured: 14 and 26. What a busy fabric has beyond a quiet one are its counters: some 40
    // bytes of each reply that nothing foretells.
    let (quiet, busy) = (bytes_a_mad(0.0), bytes_a_mad(0.35));
    assert!(quiet < 15.0, "{quiet:.1} bytes a MAD");
    assert!(busy < 30.0, "{busy:.1} bytes a MAD");
}
