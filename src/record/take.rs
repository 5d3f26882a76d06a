//! The recording that is being written: what waits for the disk, when it goes there, and what
//! is repeated so that a reader can begin anywhere.

use std::io;
use std::time::{Duration, Instant};

use super::encode::Encoder;
use super::ledger::Ledger;
use super::replay::{MarkKind, Observer, by_model};
use super::sink::{Files, Sink};
use super::zst::{Entry, IndexMark, Packer};
use crate::event::Event;
use crate::port::Stamp;

/// How much a crash may cost.
const SYNC: Duration = Duration::from_secs(1);
/// How long a reader of a pipe waits for what happened.
const FLUSH: Duration = Duration::from_millis(100);
/// Bytes that are written at once.
const WRITE: usize = 256 << 10;
/// Bytes that are compressed at once, if they come within a second.
const PACK: usize = 4 << 20;

/// Why a recording ends before its session.
#[derive(Debug)]
pub enum Stop {
    /// The reader of standard output went away.
    ReaderGone,
    /// It is as large as it may be.
    Full,
    /// Something is wrong; in one sentence.
    Failed(String),
}

/// When a keyframe is due: after so many events or so long, but never so often that keyframes
/// are more than a fifth of the recording.
#[derive(Debug, Default)]
struct Due {
    events: u64,
    since: Option<Stamp>,
    bytes: u64,
    last_size: u64,
    /// Something was lost.
    wanted: bool,
}

impl Due {
    const EVENTS: u64 = 500_000;
    const TIME: Duration = Duration::from_secs(300);
    const TIMES_ITS_SIZE: u64 = 4;

    fn is_due(&self, at: Stamp) -> bool {
        let long = self.since.is_some_and(|s| at.since(s) >= Due::TIME);
        (long || self.wanted || self.events >= Due::EVENTS)
            && self.bytes >= Due::TIMES_ITS_SIZE * self.last_size
    }
}

/// A recording in progress.
pub struct Take {
    sink: Box<dyn Sink>,
    packer: Option<Packer>,
    /// `None` for a pipe, whose reader begins at the beginning.
    files: Option<Files>,
    /// Finds what is worth a mark in the index of a compressed file.
    observer: Option<Box<dyn Observer>>,
    keyframes: Due,
    pending: Vec<u8>,
    /// What `pending` holds.
    frame: Entry,
    flush_at: Instant,
    bytes: u64,
    /// Events and MADs that came, and those of them that were written.
    taken: (u64, u64),
    written: (u64, u64),
}

impl Take {
    pub fn new(sink: Box<dyn Sink>, packer: Option<Packer>, files: Option<Files>) -> Take {
        let mut take = Take {
            observer: packer.is_some().then(by_model),
            sink,
            packer,
            files,
            keyframes: Due::default(),
            pending: Vec::with_capacity(2 * WRITE),
            frame: Entry::default(),
            flush_at: Instant::now(),
            bytes: 0,
            taken: (0, 0),
            written: (0, 0),
        };
        take.wait();
        take
    }

    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Events written, and MADs among them.
    pub fn written(&self) -> (u64, u64) {
        self.written
    }

    /// Keyframes are repeated in it.
    pub fn has_keyframes(&self) -> bool {
        self.files.is_some()
    }

    /// Something was lost: a keyframe is to follow soon.
    pub fn want_keyframe(&mut self) {
        self.keyframes.wanted = true;
    }

    /// When something must be written.
    pub fn due(&self) -> Instant {
        self.flush_at
    }

    fn wait(&mut self) {
        let every = if self.sink.is_live() { FLUSH } else { SYNC };
        self.flush_at = Instant::now() + every;
    }

    /// Begins another file, or writes a keyframe, before event `next` if that is due.
    pub fn prepare(
        &mut self,
        encoder: &mut Encoder,
        ledger: &Ledger,
        next: &Event,
    ) -> Result<(), Stop> {
        if !self.has_keyframes() {
            return Ok(());
        }
        if self.is_full() {
            self.flush()?;
            self.next_file()?;
            encoder.next_file(next.seq, next.at, ledger, &mut self.pending);
        } else if self.keyframes.is_due(next.at) && !ledger.is_empty() {
            self.flush()?;
            encoder.keyframe(next.seq, next.at, ledger, &mut self.pending);
        } else {
            return Ok(());
        }
        self.frame.key = true;
        self.frame.from = encoder.wall(next.at);
        self.keyframes = Due {
            since: Some(next.at),
            last_size: self.pending.len() as u64,
            ..Due::default()
        };
        Ok(())
    }

    /// Encodes events into it; returns their bytes.
    pub fn encode(&mut self, encoder: &mut Encoder, events: &[Event]) -> &[u8] {
        let before = self.pending.len();
        encoder.encode(events, &mut self.pending);
        self.keyframes.bytes += (self.pending.len() - before) as u64;
        self.keyframes.events += events.len() as u64;
        for event in events {
            let wall = encoder.wall(event.at);
            self.keyframes.since.get_or_insert(event.at);
            if self.frame.from == 0 {
                self.frame.from = wall;
            }
            self.frame.to = self.frame.to.max(wall);
            if let Some((kind, text)) = self.observer.as_mut().and_then(|o| o.observe(event)) {
                self.frame.mark(IndexMark::new(wall, kind, &text));
            }
        }
        self.taken = (encoder.events(), encoder.mads());
        self.pending.get(before..).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        let limit = self.files.as_ref().and_then(|f| f.limits.max_size);
        // Compressed, what waits hardly counts.
        let waits = if self.packer.is_some() {
            self.pending.len() / 16
        } else {
            self.pending.len()
        };
        // A file that cannot hold much more than what each one begins with still holds as much
        // again: else every batch would begin another.
        limit.is_some_and(|limit| self.sink.len() + waits as u64 >= limit)
            && self.keyframes.bytes >= self.keyframes.last_size
    }

    fn next_file(&mut self) -> Result<(), Stop> {
        self.sync()?;
        let Some(files) = &mut self.files else {
            return Ok(());
        };
        if files.limits.keep.is_none() {
            return Err(Stop::Full);
        }
        let next = files.next();
        let (sink, _) = next.map_err(|e| Stop::Failed(format!("recording stopped: {e}")))?;
        self.sink = Box::new(sink);
        if let Some(packer) = &mut self.packer {
            packer.restart();
        }
        Ok(())
    }

    /// Writes what there is if it is much, or waits long enough.
    pub fn flush_if_due(&mut self) -> Result<(), Stop> {
        let most = if self.packer.is_some() { PACK } else { WRITE };
        if self.pending.len() >= most {
            self.flush()?;
        }
        if Instant::now() >= self.flush_at {
            self.flush()?;
            self.sync()?;
            // A sync that took long does not make the next one come sooner.
            self.wait();
        }
        Ok(())
    }

    /// Writes all of it.
    pub fn finish(&mut self) -> Result<(), Stop> {
        self.flush()?;
        self.sync()
    }

    fn sync(&mut self) -> Result<(), Stop> {
        self.sink.sync().map_err(|e| self.stop(&e))
    }

    fn flush(&mut self) -> Result<(), Stop> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let len = match self.write() {
            Ok(len) => len,
            Err(e) => return Err(self.stop(&e)),
        };
        self.bytes += len as u64;
        self.written = self.taken;
        self.pending.clear();
        Ok(())
    }

    fn write(&mut self) -> io::Result<usize> {
        let frame = std::mem::take(&mut self.frame);
        let Some(packer) = &mut self.packer else {
            self.sink.write(&self.pending)?;
            return Ok(self.pending.len());
        };
        let mut packed = Vec::new();
        packer.pack(&self.pending, frame, &mut packed)?;
        self.sink.write(&packed)?;
        Ok(packed.len())
    }

    fn stop(&self, error: &io::Error) -> Stop {
        if error.kind() == io::ErrorKind::BrokenPipe && self.sink.is_live() {
            return Stop::ReaderGone;
        }
        let why = match error.kind() {
            io::ErrorKind::StorageFull => "disk full (ENOSPC)".to_owned(),
            io::ErrorKind::QuotaExceeded => "disk quota exceeded (EDQUOT)".to_owned(),
            io::ErrorKind::FileTooLarge => "the file may not grow further (EFBIG)".to_owned(),
            _ => error.to_string(),
        };
        let lost = self.pending.len();
        Stop::Failed(format!(
            "recording stopped: {why}; the last {lost} bytes were not written"
        ))
    }
}

impl IndexMark {
    /// A mark, with as much of its text as an index holds.
    fn new(wall: u64, kind: MarkKind, text: &str) -> IndexMark {
        IndexMark {
            wall,
            kind: kind.name().to_owned(),
            text: text
                .chars()
                .filter(|c| !c.is_control())
                .take(IndexMark::TEXT)
                .collect(),
        }
    }
}
