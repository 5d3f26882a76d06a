//! The thread that writes a recording.
//!
//! It alone waits for the disk. Whoever feeds it may find its queue full and leave batches out:
//! the gap in their numbers is written into the file, as an event and as the packet's
//! epb_dropcount. It never stops the monitor: what goes wrong with the file is told through the
//! [`Handle`], and the file stays sound.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::encode::{Encoder, Options};
use super::file::{Existing, OpenError};
use super::ledger::Ledger;
use super::sink::{Files, Limits, PipeSink, Sink};
use super::zst::{Entry, IndexMark, Packer};
use crate::event::{Event, Severity, SharedBatch, What};
use crate::port::Stamp;

/// How much a crash may cost.
const SYNC: Duration = Duration::from_secs(1);
/// How long a reader of a pipe waits for what happened.
const FLUSH: Duration = Duration::from_millis(100);
/// Bytes that are written at once.
const WRITE: usize = 256 << 10;
/// Bytes that are compressed at once, if they come within a second.
const PACK: usize = 4 << 20;

/// Where a recording goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

impl Destination {
    /// As given on a command line: `-` is standard output.
    pub fn from_arg(arg: &Path) -> Destination {
        if arg.as_os_str() == "-" {
            Destination::Stdout
        } else {
            Destination::File(arg.to_owned())
        }
    }
}

/// What became of a recording so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written.
    pub bytes: u64,
    /// Events written.
    pub events: u64,
    /// MADs among them.
    pub mads: u64,
    /// Events that were left out before they came here.
    pub dropped: u64,
    /// Bytes of a torn tail that were cut off before appending.
    pub trimmed: u64,
    /// Recording goes on.
    pub running: bool,
    /// Why it stopped early, in one sentence. A reader of standard output that went away is no
    /// error.
    pub error: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicU64,
    events: AtomicU64,
    mads: AtomicU64,
    dropped: AtomicU64,
    trimmed: u64,
    stopped: AtomicBool,
    error: Mutex<Option<String>>,
}

/// A recording in progress. It ends when the senders of its batches are gone.
#[derive(Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// How it is going.
    pub fn progress(&self) -> Progress {
        let s = &self.shared;
        let error = s.error.lock().unwrap_or_else(PoisonError::into_inner);
        Progress {
            bytes: s.bytes.load(Ordering::Relaxed),
            events: s.events.load(Ordering::Relaxed),
            mads: s.mads.load(Ordering::Relaxed),
            dropped: s.dropped.load(Ordering::Relaxed),
            trimmed: s.trimmed,
            running: !s.stopped.load(Ordering::Acquire),
            error: error.clone(),
        }
    }

    /// Waits until everything is written; the senders must be gone.
    pub fn finish(mut self) -> Progress {
        let failed = self.thread.take().is_some_and(|t| t.join().is_err());
        if failed {
            let mut error = self
                .shared
                .error
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            error.get_or_insert_with(|| "the recording thread failed".to_owned());
        }
        self.progress()
    }
}

/// Begins a recording of what comes through `batches`. A file whose name ends in `.zst` is
/// compressed.
///
/// # Errors
/// What keeps the file from being made; later trouble is told by [`Handle::progress`].
pub fn start(
    destination: &Destination,
    existing: Existing,
    options: Options,
    batches: Receiver<SharedBatch>,
) -> Result<Handle, OpenError> {
    start_limited(destination, existing, options, Limits::default(), batches)
}

/// [`start`], with limits; standard output has none.
///
/// # Errors
/// As [`start`].
pub fn start_limited(
    destination: &Destination,
    existing: Existing,
    options: Options,
    limits: Limits,
    batches: Receiver<SharedBatch>,
) -> Result<Handle, OpenError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| OpenError::Io { path, error }
    };
    let thread = Path::new("the recording thread");
    match destination {
        Destination::File(path) => {
            let compressed = path.extension().is_some_and(|e| e == "zst");
            let mut files = Files::new(path, existing, compressed, limits);
            let (sink, trimmed) = files.next()?;
            let packer = compressed
                .then(Packer::new)
                .transpose()
                .map_err(failed(path))?;
            start_sink(
                Box::new(sink),
                trimmed,
                options,
                packer,
                Some(files),
                batches,
            )
        }
        Destination::Stdout => {
            // A descriptor of its own: the standard library's handle flushes at every line.
            let fd = io::stdout().as_fd().try_clone_to_owned();
            let fd = fd.map_err(failed(Path::new("standard output")))?;
            let sink = Box::new(PipeSink(File::from(fd)));
            start_sink(sink, 0, options, None, None, batches)
        }
    }
    .map_err(failed(thread))
}

fn start_sink(
    sink: Box<dyn Sink>,
    trimmed: u64,
    options: Options,
    packer: Option<Packer>,
    files: Option<Files>,
    batches: Receiver<SharedBatch>,
) -> io::Result<Handle> {
    let shared = Arc::new(Shared {
        trimmed,
        ..Shared::default()
    });
    let writer = Writer {
        encoder: Encoder::new(options),
        ledger: Ledger::new(),
        keyframes: Due::default(),
        sink,
        packer,
        files,
        pending: Vec::with_capacity(2 * WRITE),
        frame: Entry::default(),
        expected: None,
        shared: Arc::clone(&shared),
    };
    let thread = std::thread::Builder::new()
        .name("recorder".to_owned())
        .spawn(move || writer.run(&batches))?;
    Ok(Handle {
        shared,
        thread: Some(thread),
    })
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

struct Writer {
    encoder: Encoder,
    ledger: Ledger,
    keyframes: Due,
    sink: Box<dyn Sink>,
    packer: Option<Packer>,
    files: Option<Files>,
    pending: Vec<u8>,
    /// What `pending` holds.
    frame: Entry,
    expected: Option<u64>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self, batches: &Receiver<SharedBatch>) {
        if let Err(e) = self.record(batches) {
            self.stop(&e);
            self.shared.stopped.store(true, Ordering::Release);
            // Whoever sends must not find a closed door.
            while batches.recv().is_ok() {}
        }
        self.shared.stopped.store(true, Ordering::Release);
    }

    fn record(&mut self, batches: &Receiver<SharedBatch>) -> io::Result<()> {
        let flush_every = if self.sink.is_live() { FLUSH } else { SYNC };
        let most = if self.packer.is_some() { PACK } else { WRITE };
        let mut flush_at = Instant::now() + flush_every;
        loop {
            match batches.recv_deadline(flush_at) {
                Ok(batch) => self.take(&batch.events)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.flush()?;
                    return self.sink.sync();
                }
            }
            if self.pending.len() >= most {
                self.flush()?;
            }
            let now = Instant::now();
            if now >= flush_at {
                self.flush()?;
                self.sink.sync()?;
                // A sync that took long does not make the next one come sooner.
                flush_at = Instant::now() + flush_every;
            }
        }
    }

    fn take(&mut self, events: &[Event]) -> io::Result<()> {
        let Some((first, last)) = events.first().zip(events.last()) else {
            return Ok(());
        };
        let gap = self.expected.map_or(0, |e| first.seq.saturating_sub(e));
        if gap != 0 {
            // The last one lost lends its number.
            let lost = Event {
                seq: first.seq - 1,
                at: first.at,
                what: What::Dropped { count: gap },
            };
            self.encode(std::slice::from_ref(&lost));
            self.shared.dropped.fetch_add(gap, Ordering::Relaxed);
        }
        // A pipe's reader begins at the beginning.
        let full = self.is_full();
        self.keyframes.wanted |= gap != 0 && self.files.is_some();
        if full || self.keyframes.is_due(first.at) {
            self.flush()?;
            if full {
                self.next_file()?;
            }
            self.keyframe(first);
        }
        self.encode(events);
        if self.files.is_some() {
            for event in events {
                self.ledger.observe(event);
            }
        }
        self.expected = Some(last.seq.wrapping_add(1));
        Ok(())
    }

    fn encode(&mut self, events: &[Event]) {
        let before = self.pending.len();
        self.encoder.encode(events, &mut self.pending);
        self.keyframes.bytes += (self.pending.len() - before) as u64;
        self.keyframes.events += events.len() as u64;
        for event in events {
            let wall = self.encoder.wall(event.at);
            self.keyframes.since.get_or_insert(event.at);
            if self.frame.from == 0 {
                self.frame.from = wall;
            }
            self.frame.to = self.frame.to.max(wall);
            if let Some(kind) = mark(&event.what) {
                self.frame.marks.push(IndexMark {
                    wall,
                    kind: kind.to_owned(),
                });
            }
        }
    }

    /// A keyframe, at the beginning of a frame.
    fn keyframe(&mut self, next: &Event) {
        let (seq, at) = (next.seq, next.at);
        if self.ledger.is_empty() {
            self.keyframes = Due {
                since: Some(at),
                ..Due::default()
            };
            return;
        }
        self.encoder
            .keyframe(seq, at, &self.ledger, &mut self.pending);
        self.frame.key = true;
        self.frame.from = self.encoder.wall(at);
        self.keyframes = Due {
            since: Some(at),
            last_size: self.pending.len() as u64,
            ..Due::default()
        };
    }

    fn is_full(&self) -> bool {
        let limit = self.files.as_ref().and_then(|f| f.limits.max_size);
        // Compressed, what waits hardly counts.
        let waits = if self.packer.is_some() {
            self.pending.len() / 16
        } else {
            self.pending.len()
        };
        limit.is_some_and(|limit| self.sink.len() + waits as u64 >= limit)
    }

    fn next_file(&mut self) -> io::Result<()> {
        self.sink.sync()?;
        let Some(files) = &mut self.files else {
            return Ok(());
        };
        if files.limits.keep.is_none() {
            return Err(io::Error::other("the file reached the size it may have"));
        }
        let (sink, _) = files.next().map_err(io::Error::other)?;
        self.sink = Box::new(sink);
        self.encoder.begin_section();
        if let Some(packer) = &mut self.packer {
            packer.restart();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let frame = std::mem::take(&mut self.frame);
        let written = match &mut self.packer {
            Some(packer) => {
                let mut packed = Vec::new();
                packer.pack(&self.pending, frame, &mut packed)?;
                self.sink.write(&packed)?;
                packed.len()
            }
            None => {
                self.sink.write(&self.pending)?;
                self.pending.len()
            }
        };
        let s = &self.shared;
        s.bytes.fetch_add(written as u64, Ordering::Relaxed);
        s.events.store(self.encoder.events(), Ordering::Relaxed);
        s.mads.store(self.encoder.mads(), Ordering::Relaxed);
        self.pending.clear();
        Ok(())
    }

    fn stop(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::BrokenPipe && self.sink.is_live() {
            return;
        }
        let why = match error.kind() {
            io::ErrorKind::StorageFull => "disk full (ENOSPC)".to_owned(),
            io::ErrorKind::QuotaExceeded => "disk quota exceeded (EDQUOT)".to_owned(),
            io::ErrorKind::FileTooLarge => "the file may not grow further (EFBIG)".to_owned(),
            _ => error.to_string(),
        };
        let lost = self.pending.len();
        let text = format!("recording stopped: {why}; the last {lost} bytes were not written");
        *self
            .shared
            .error
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(text);
    }
}

/// Events that a timeline marks.
fn mark(what: &What) -> Option<&'static str> {
    Some(match what {
        What::Mark { .. } => "mark",
        What::Act { .. } => "act",
        What::DeviceGone { .. } => "device gone",
        What::DeviceBack => "device back",
        What::Dropped { .. } => "dropped",
        What::ClockStep { .. } => "clock step",
        What::Closed { .. } => "closed",
        What::Note { severity, .. } => match severity {
            Severity::Info => return None,
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Batch;
    use crate::record::Reader;
    use crossbeam_channel::unbounded;
    use std::io::Write;

    fn ticks(from: u64, count: u64) -> SharedBatch {
        let tick = |seq| Event {
            seq,
            at: Stamp::from_secs(seq),
            what: What::Tick,
        };
        Arc::new(Batch {
            events: (from..from + count).map(tick).collect(),
        })
    }

    /// A disk of `room` bytes.
    struct Small {
        data: Arc<Mutex<Vec<u8>>>,
        room: usize,
        kind: io::ErrorKind,
        live: bool,
    }

    impl Sink for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            let mut data = self.data.lock().unwrap();
            if data.len() + bytes.len() > self.room {
                return Err(self.kind.into());
            }
            data.extend(bytes);
            Ok(())
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn is_live(&self) -> bool {
            self.live
        }
        fn len(&self) -> u64 {
            self.data.lock().unwrap().len() as u64
        }
    }

    fn record(
        room: usize,
        kind: io::ErrorKind,
        live: bool,
        batches: Vec<SharedBatch>,
    ) -> (Progress, Vec<u8>) {
        let data = Arc::new(Mutex::new(Vec::new()));
        let sink = Small {
            data: Arc::clone(&data),
            room,
            kind,
            live,
        };
        let (tx, rx) = unbounded();
        for batch in batches {
            tx.send(batch).unwrap();
        }
        drop(tx);
        let handle = start_sink(Box::new(sink), 0, Options::default(), None, None, rx).unwrap();
        let progress = handle.finish();
        let data = data.lock().unwrap().clone();
        (progress, data)
    }

    #[test]
    fn lost_batches_leave_an_event_in_the_gap() {
        // 10 to 14 never came.
        let batches = vec![ticks(5, 5), ticks(15, 2)];
        let (progress, bytes) = record(usize::MAX, io::ErrorKind::Other, false, batches);
        assert_eq!((progress.dropped, progress.error), (5, None));
        let back: Vec<Event> = Reader::new(&bytes[..]).collect();
        let seqs: Vec<u64> = back.iter().map(|e| e.seq).collect();
        assert_eq!(seqs, [5, 6, 7, 8, 9, 14, 15, 16]);
        assert_eq!(back[5].what, What::Dropped { count: 5 });
        // The packet's epb_dropcount: option 4, 8 bytes, 5 (pcapng specification, 4.3).
        let option = [4, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes.windows(12).filter(|w| *w == option).count(), 1);
    }

    #[test]
    fn a_full_disk_stops_the_recording_and_says_so() {
        // Each batch is more than is written at once, so the first goes out before the second.
        let batches = vec![ticks(0, 4000), ticks(4000, 4000)];
        let (progress, bytes) = record(500_000, io::ErrorKind::StorageFull, false, batches);
        let error = progress.error.unwrap();
        assert!(
            error.starts_with("recording stopped: disk full (ENOSPC)"),
            "{error}"
        );
        assert!(!progress.running);
        let mut reader = Reader::new(&bytes[..]);
        assert_eq!(reader.by_ref().count(), 4000);
        assert_eq!(reader.problems().count(), 0);
        assert_eq!(progress.events, 4000);
        assert_eq!(progress.bytes, bytes.len() as u64);
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        let (progress, _) = record(0, io::ErrorKind::BrokenPipe, true, vec![ticks(0, 1)]);
        assert_eq!(progress.error, None);
    }

    #[test]
    fn a_continued_file_holds_both_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcapng");
        let to = Destination::File(path.clone());
        for (existing, torn) in [(Existing::Keep, 0), (Existing::Append, 7)] {
            if torn != 0 {
                let mut file = File::options().append(true).open(&path).unwrap();
                file.write_all(&[6, 0, 0, 0, 60, 0, 0]).unwrap();
            }
            let (tx, rx) = unbounded();
            tx.send(ticks(0, 3)).unwrap();
            drop(tx);
            let progress = start(&to, existing, Options::default(), rx)
                .unwrap()
                .finish();
            assert_eq!((progress.trimmed, progress.error), (torn, None));
        }
        let mut reader = Reader::new(File::open(&path).unwrap());
        let seqs: Vec<u64> = reader.by_ref().map(|e| e.seq).collect();
        assert_eq!(seqs, [0, 1, 2, 0, 1, 2]);
        assert_eq!(reader.problems().list(), &[]);
    }
}
