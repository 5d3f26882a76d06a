//! Every kind of damage: what is readable is read, the rest is named with its offset, nothing
//! panics, and memory stays bounded. Each kind for a plain and for a compressed recording.

#![allow(clippy::unwrap_used, reason = "a test")]

mod events;

use std::sync::Arc;

use events::{HOST, SWITCH, Script};
use fabtop::event::*;
use fabtop::record::*;
use proptest::prelude::*;

/// A small session; each second becomes some blocks.
fn session() -> Vec<Event> {
    let mut s = Script::new();
    s.discover();
    for round in 0..12u64 {
        s.now = (round + 1) * 1_000_000_000;
        s.push(What::Tick);
        s.counters(SWITCH, 2, 7, round * 1_000_000);
        s.counters(HOST, 1, 9, round * 500_000);
    }
    s.events
}

/// The session as a file: plain, or in several zstd frames (appended one after the other).
fn file(compressed: bool) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(if compressed { "a.zst" } else { "a" });
    let events = session();
    for part in events.chunks(if compressed { 12 } else { 1000 }) {
        let (tx, rx) = crossbeam_channel::unbounded();
        let events = part.to_vec();
        tx.send(Arc::new(Batch { events })).unwrap();
        drop(tx);
        let to = Destination::File(path.clone());
        let options = Options { keep_keys: true };
        let handle = start(&to, Existing::Append, options, rx).unwrap();
        assert_eq!(handle.finish().error, None);
    }
    std::fs::read(&path).unwrap()
}

struct Read {
    events: Vec<Event>,
    problems: Vec<Problem>,
}

fn read(bytes: &[u8]) -> Read {
    let mut reader = Reader::new(bytes);
    let events = reader.by_ref().collect();
    let problems = reader.problems();
    assert_eq!(problems.count() as usize, problems.list().len());
    Read {
        events,
        problems: problems.list().to_vec(),
    }
}

/// Also looked through for an index, as a replay does it.
fn look(bytes: &[u8]) -> Seeker {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, bytes).unwrap();
    Seeker::open(&path).unwrap()
}

/// Where the plain content ends that `bytes` of a compressed file hold, and what it is.
fn content(bytes: &[u8], compressed: bool) -> Vec<u8> {
    match compressed {
        true => zstd::decode_all(bytes).unwrap(),
        false => bytes.to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn torn_or_truncated(compressed: bool, at in any::<prop::sample::Index>()) {
        let whole = file(compressed);
        let cut = at.index(whole.len());
        let Read { events, problems } = read(&whole[..cut]);
        prop_assert!(session().starts_with(&events));
        // Nothing that is missing in the midst of a block goes unsaid; the frame and the block in
        // it are two things.
        prop_assert!(problems.len() <= 2, "{problems:?}");
        let plain = content(&whole, compressed).len() as u64;
        for problem in &problems {
            prop_assert!(problem.offset <= plain, "{problem}");
        }
        if cut > 0 && !compressed && events.len() < session().len() {
            // Cut between two blocks, nothing can be known to be missing.
            let told: u64 = problems.iter().map(|p| p.offset).sum();
            prop_assert!(problems.is_empty() || told < cut as u64);
        }
        look(&whole[..cut]);
    }

    #[test]
    fn bit_flipped(
        compressed: bool,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
    ) {
        let whole = file(compressed);
        let mut bytes = whole.clone();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let Read { problems, .. } = read(&bytes);
        let most = content(&whole, compressed).len().max(bytes.len()) as u64;
        for problem in problems {
            prop_assert!(problem.offset <= most && !problem.what.is_empty(), "{problem}");
        }
        look(&bytes);
    }

    #[test]
    fn concatenated(compressed: bool, torn in any::<prop::sample::Index>(), other: bool) {
        // A torn recording, then a whole one, of the same kind or not.
        let first = file(compressed);
        let cut = match torn.index(first.len()) {
            // Less than a magic number does not say that the file is compressed.
            1..4 if compressed => 0,
            cut => cut,
        };
        let second = file(compressed && !other);
        let Read { events, .. } = read(&[&first[..cut], &second].concat());
        let session = session();
        if cut == 0 {
            prop_assert_eq!(events, session);
        } else if !compressed {
            prop_assert!(events.ends_with(&session), "{} of {}", events.len(), session.len());
        } else if !other {
            // A frame that is torn may take the beginning of the next one with it.
            prop_assert!(events.ends_with(&session[session.len() - 12..]));
        }
    }

    #[test]
    fn gigantic_lengths(compressed: bool, length in 0x0100_0000u32.., kind in 0u32..7) {
        // A block that claims up to 4 GB, before a whole recording.
        let mut bytes = Vec::new();
        for word in [kind, length, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        let good = content(&file(compressed), compressed);
        let skipped = bytes.len();
        bytes.extend(good);
        if compressed {
            bytes = zstd::encode_all(&bytes[..], 1).unwrap();
        }
        let Read { events, problems } = read(&bytes);
        prop_assert_eq!(events, session());
        prop_assert_eq!(problems.len(), 1);
        prop_assert_eq!(problems[0].offset, 0);
        let says = format!("{skipped} bytes are no block");
        prop_assert_eq!(&problems[0].what, &says);
    }

    #[test]
    fn blocks_without_an_end(compressed: bool, filler in any::<[u8; 4]>(), megabytes in 1usize..5) {
        // A block of which only its beginning and its contents come, again and again.
        let mut bytes = content(&file(compressed), compressed);
        let good = bytes.len() as u64;
        bytes.extend([6, 0, 0, 0, 0, 0, 0, 1]);
        for _ in 0..megabytes << 18 {
            bytes.extend(filler);
        }
        if compressed {
            bytes = zstd::encode_all(&bytes[..], 1).unwrap();
        }
        let Read { events, problems } = read(&bytes);
        prop_assert_eq!(events, session());
        prop_assert_eq!(problems.len(), 1);
        prop_assert_eq!(problems[0].offset, good);
    }

    #[test]
    fn wrong_endian(at in any::<prop::sample::Index>(), big: bool) {
        // A section header of the other byte order than what follows it: all of that is skipped,
        // up to the next section that is right.
        let good = file(false);
        let mut wrong = good.clone();
        let magic: [u8; 4] = wrong[8..12].try_into().unwrap();
        wrong[8..12].copy_from_slice(&[magic[3], magic[2], magic[1], magic[0]]);
        if big {
            wrong[4..8].reverse();
        }
        let cut = 28 + at.index(wrong.len() - 28);
        let Read { events, problems } = read(&[&wrong[..cut], &good].concat());
        prop_assert!(events.ends_with(&session()), "{}", events.len());
        prop_assert!(problems[0].offset < cut as u64);
    }
}

/// Bytes without an end, counted.
struct Endless {
    pattern: Vec<u8>,
    at: usize,
    left: u64,
}

impl std::io::Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = buf.len().min(self.left as usize);
        for byte in &mut buf[..n] {
            *byte = self.pattern[self.at % self.pattern.len()];
            self.at += 1;
        }
        self.left -= n as u64;
        Ok(n)
    }
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_block_that_never_ends_takes_no_memory() {
    // 160 MiB of one block's contents; a block that is taken for one has at most 16 MiB, and the
    // resident size says whether more was kept.
    let mut pattern = vec![6, 0, 0, 0, 0xF0, 0xFF, 0xFF, 0x7F];
    pattern.resize(64 << 10, 0x41);
    let before = resident();
    let mut reader = Reader::new(Endless {
        pattern,
        at: 0,
        left: 160 << 20,
    });
    assert_eq!(reader.by_ref().count(), 0);
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes more");
    assert!(reader.problems().count() >= 1);
}

#[test]
fn a_zstd_bomb_takes_no_memory() {
    // Zeros, 128 MiB of them in some 10 kB.
    let zeros = Endless {
        pattern: vec![0],
        at: 0,
        left: 128 << 20,
    };
    let bomb = zstd::encode_all(zeros, 1).unwrap();
    assert!(bomb.len() < 1 << 17);
    let before = resident();
    let mut reader = Reader::new(&bomb[..]);
    assert_eq!(reader.by_ref().count(), 0);
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes more");
}

#[test]
fn a_wall_clock_that_is_set_turns_no_time_back() {
    // An hour back and a day ahead, in the midst of a session.
    let mut s = Script::new();
    s.discover();
    let wall = events::opened().wall;
    for (second, step) in [
        (1, None),
        (2, Some(-3600)),
        (3, None),
        (4, Some(86_400)),
        (5, None),
    ] {
        s.now = second * 1_000_000_000;
        if let Some(by) = step {
            let wall = wall + s.now as i64 + by * 1_000_000_000;
            s.push(What::ClockStep { wall });
        }
        s.push(What::Tick);
    }
    let mut bytes = Vec::new();
    Encoder::new(Options::default()).encode(&s.events, &mut bytes);
    let Read { events, problems } = read(&bytes);
    assert_eq!((events, problems), (s.events.clone(), Vec::new()));
    // On the timeline five seconds, one after the other.
    let seeker = look(&bytes);
    let (from, to) = seeker.range().unwrap();
    assert_eq!(to - from, 5_000_000_000);
    // The screen's clock shows the wall's: a day ahead at the end.
    let mut model = fabtop::model::Model::new();
    for event in &s.events {
        model.apply(event);
    }
    let shown = model.header(model.last()).wall;
    assert_eq!(shown, wall + 5_000_000_000 + 86_400_000_000_000);
}
