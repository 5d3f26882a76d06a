//! One encoder feeds the recording and those who watch: the same bytes, made once.

#![allow(clippy::unwrap_used, reason = "a test")]

mod events;

use std::path::Path;
use std::sync::{Arc, Mutex};

use events::{HOST, SWITCH, Script};
use fabtop::event::*;
use fabtop::port::Stamp;
use fabtop::record::*;

/// What came to one viewer after another: all of them join when the test says so.
#[derive(Default)]
struct Room {
    wanting: usize,
    viewers: Vec<Vec<u8>>,
    /// Bytes of their beginnings.
    beginnings: Vec<usize>,
    published: u64,
    ended: bool,
}

/// Viewers that take everything at once.
#[derive(Clone, Default)]
struct Seats(Arc<Mutex<Room>>);

impl Audience for Seats {
    fn is_empty(&self) -> bool {
        let room = self.0.lock().unwrap();
        room.wanting + room.viewers.len() == 0
    }
    fn wants_beginning(&self) -> bool {
        self.0.lock().unwrap().wanting > 0
    }
    fn begin(&mut self, pieces: &[Bytes], _: u64) {
        let mut room = self.0.lock().unwrap();
        for _ in 0..std::mem::take(&mut room.wanting) {
            let bytes = pieces.concat();
            room.beginnings.push(bytes.len());
            room.viewers.push(bytes);
        }
    }
    fn publish(&mut self, bytes: &Bytes, events: u64) {
        let mut room = self.0.lock().unwrap();
        room.published += events;
        for viewer in &mut room.viewers {
            viewer.extend_from_slice(bytes);
        }
    }
    fn pass(&mut self, _: Stamp) {}
    fn end(&mut self) {
        self.0.lock().unwrap().ended = true;
    }
}

/// Five minutes and more of a small fabric, in batches of 20.
fn session() -> Vec<Vec<Event>> {
    let mut s = Script::new();
    s.discover();
    for round in 0..80u64 {
        s.now = (round + 1) * 5_000_000_000;
        s.push(What::Tick);
        for port in 1..=20 {
            s.counters(SWITCH, port, 7, round * 1_000_000);
        }
        s.counters(HOST, 1, 9, round * 500_000);
    }
    s.push(What::Closed { why: "end".into() });
    s.events.chunks(20).map(<[Event]>::to_vec).collect()
}

/// Records `batches` to `path` while a viewer joins before each of `joins`.
fn run(
    path: Option<&Path>,
    limits: Limits,
    batches: &[Vec<Event>],
    joins: &[usize],
) -> (Seats, Progress) {
    let seats = Seats::default();
    let outputs = Outputs {
        recording: path.map(|path| Wanted {
            to: Destination::File(path.to_owned()),
            existing: Existing::Keep,
            limits,
        }),
        audience: Some(Box::new(seats.clone())),
        alarm: None,
    };
    // No room: each batch is taken before the next one is handed over.
    let (tx, rx) = crossbeam_channel::bounded(0);
    let handle = start_outputs(outputs, Options::default(), rx).unwrap();
    for (n, events) in batches.iter().enumerate() {
        if joins.contains(&n) {
            // The batch before is done once an empty one is taken.
            let events = Vec::new();
            tx.send(Arc::new(Batch { events })).unwrap();
            seats.0.lock().unwrap().wanting += 1;
        }
        let events = events.clone();
        tx.send(Arc::new(Batch { events })).unwrap();
    }
    drop(tx);
    let progress = handle.finish();
    (seats, progress)
}

fn read(bytes: &[u8]) -> Vec<Event> {
    let mut reader = Reader::new(bytes);
    let events = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    events
}

/// The events of a viewer after its beginning, whose own all have the number of the next one.
fn after_beginning(all: &[Event]) -> &[Event] {
    let next = all[0].seq;
    let known = all.iter().rposition(|e| {
        e.seq == next
            && matches!(
                e.what,
                What::Known(_) | What::Opened(_) | What::SweepEnded(_) | What::Ledger(_)
            )
    });
    &all[known.map_or(0, |k| k + 1)..]
}

#[test]
fn a_file_and_its_viewers_get_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let batches = session();
    // From the first event on, from the midst, and shortly before a keyframe at 300 s.
    let joins = [0, 40, 120];
    let (seats, progress) = run(Some(&path), Limits::default(), &batches, &joins);
    assert_eq!((progress.error, progress.dropped), (None, 0));
    let file = std::fs::read(&path).unwrap();
    let all: Vec<Event> = batches.concat();
    assert_eq!(read(&file), all);
    let room = seats.0.lock().unwrap();
    assert!(room.ended);
    assert_eq!(room.viewers.len(), 3);
    for ((join, bytes), beginning) in joins.iter().zip(&room.viewers).zip(&room.beginnings) {
        let expected: Vec<Event> = batches[*join..].concat();
        let got = read(bytes);
        if *join > 0 {
            assert!(after_beginning(&got) == expected, "from batch {join} on");
        } else {
            assert_eq!(got, expected);
        }
        // The file alone repeats keyframes; up to the first one its bytes are the viewer's.
        let live = &bytes[*beginning..];
        let some = &live[..live.len().min(50_000)];
        let found = file.windows(some.len()).any(|w| w == some);
        assert!(found, "from batch {join} on");
    }
}

#[test]
fn another_file_begins_without_a_word_to_the_viewers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let batches = session();
    let limits = Limits {
        max_size: Some(300_000),
        keep: Some(100),
    };
    let (seats, progress) = run(Some(&path), limits, &batches, &[10]);
    assert_eq!(progress.error, None);
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(files > 3, "{files} files");
    let room = seats.0.lock().unwrap();
    let bytes = &room.viewers[0];
    let mut reader = Reader::new(&bytes[..]);
    let got: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    // One section: its beginning. No file's header came in between.
    assert_eq!((reader.stats().sections, reader.stats().guessed), (1, 0));
    assert!(after_beginning(&got) == batches[10..].concat());
    assert_eq!(room.published, batches[10..].concat().len() as u64);
    // Each file replays alone, with every target known.
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let mut reader = Reader::new(&bytes[..]);
        assert!(matches!(reader.next().unwrap().what, What::Opened(_)));
        assert!(reader.by_ref().count() > 100);
        assert_eq!((reader.stats().guessed, reader.problems().count()), (0, 0));
    }
}

#[test]
fn who_comes_while_nobody_records_is_told_all_that_holds() {
    let batches = session();
    let (seats, _) = run(None, Limits::default(), &batches, &[30, 60]);
    let room = seats.0.lock().unwrap();
    for (join, bytes) in [30, 60].iter().zip(&room.viewers) {
        let mut reader = Reader::new(&bytes[..]);
        let got: Vec<Event> = reader.by_ref().collect();
        assert_eq!((reader.stats().guessed, reader.problems().count()), (0, 0));
        assert!(after_beginning(&got) == batches[*join..].concat());
        // Times are the session's, although its opening was never encoded for anybody.
        assert_eq!(got[0].at, Stamp::ZERO);
    }
}

#[test]
fn what_is_lost_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let mut batches = session();
    // Twice: once nobody says so, once the one who feeds does.
    let silent: usize = batches.drain(50..53).map(|b| b.len()).sum();
    let told: usize = batches.drain(70..72).map(|b| b.len()).sum();
    let next = batches[70][0].clone();
    let count = told as u64;
    batches.insert(
        70,
        vec![Event {
            what: What::Dropped { count },
            ..next
        }],
    );
    let (seats, progress) = run(Some(&path), Limits::default(), &batches, &[45]);
    assert_eq!(progress.dropped, (silent + told) as u64);
    let counts = |events: &[Event]| -> Vec<u64> {
        let count = |e: &Event| match e.what {
            What::Dropped { count } => Some(count),
            _ => None,
        };
        events.iter().filter_map(count).collect()
    };
    let file = read(&std::fs::read(&path).unwrap());
    let viewer = read(&seats.0.lock().unwrap().viewers[0]);
    let expected = [silent as u64, count];
    assert_eq!(counts(&file), expected);
    assert_eq!(counts(&viewer), expected);
    // And so does a model that folds either.
    for events in [&file[..], &viewer[..]] {
        let mut model = fabtop::model::Model::new();
        for event in events {
            model.apply(event);
        }
        assert_eq!(
            model.header(model.last()).dropped,
            expected.iter().sum::<u64>()
        );
    }
}
