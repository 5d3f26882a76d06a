//! The encoder's thread: events become bytes once, for a recording and for all who watch.
//!
//! It alone waits for the disk. Whoever feeds it may find its queue full and leave batches out:
//! the gap in their numbers is written into the bytes, as an event and as the packet's
//! epb_dropcount. It never stops the monitor: what goes wrong with the file is told through the
//! [`Handle`] and to whoever asked for it, the file stays sound, and viewers go on.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select};

use super::audience::{Audience, Bytes};
use super::encode::{Encoder, Options};
use super::file::{Existing, OpenError};
use super::ledger::Ledger;
use super::sink::{Files, Limits, PipeSink, Sink};
use super::take::{Stop, Take};
use super::zst::Packer;
use crate::event::{Event, SharedBatch, What};

/// How often the end of a thread that takes its time is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// How long the disk may take for what came before it was told to end.
const LAST: Duration = Duration::from_secs(1);

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

/// A recording that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where it goes; compressed if the name ends in `.zst`.
    pub to: Destination,
    /// What to do with a file that is there.
    pub existing: Existing,
    /// How large it may grow; standard output has no limit.
    pub limits: Limits,
}

/// Is told, in one sentence and at once, why a recording stopped early. It must not wait.
pub type Alarm = Box<dyn FnMut(&str) + Send>;

/// Who gets the encoder's bytes.
#[derive(Default)]
pub struct Outputs {
    /// A recording.
    pub recording: Option<Wanted>,
    /// Viewers.
    pub audience: Option<Box<dyn Audience>>,
    /// Whom to tell that the recording stopped.
    pub alarm: Option<Alarm>,
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outputs")
            .field("recording", &self.recording)
            .field("audience", &self.audience.is_some())
            .finish_non_exhaustive()
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
    /// It ended since it is as large as it may be.
    pub full: bool,
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
    /// Grows whenever something came along.
    done: AtomicU64,
    trimmed: u64,
    stopped: AtomicBool,
    full: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Shared {
    fn error(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An encoder at work. It ends when the senders of its batches are gone.
#[derive(Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Closing it ends the encoder although somebody could still send.
    stop: Option<Sender<()>>,
}

impl Handle {
    /// How it is going.
    pub fn progress(&self) -> Progress {
        let s = &self.shared;
        Progress {
            bytes: s.bytes.load(Ordering::Relaxed),
            events: s.events.load(Ordering::Relaxed),
            mads: s.mads.load(Ordering::Relaxed),
            dropped: s.dropped.load(Ordering::Relaxed),
            trimmed: s.trimmed,
            running: !s.stopped.load(Ordering::Acquire),
            full: s.full.load(Ordering::Relaxed),
            error: s.error().clone(),
        }
    }

    /// Waits until everything is written; the senders must be gone.
    pub fn finish(mut self) -> Progress {
        self.join();
        self.progress()
    }

    /// Waits until everything is written, but no longer than `patience` while nothing happens:
    /// an engine that sends no more may hang, and so may a disk.
    pub fn finish_within(mut self, patience: Duration) -> Progress {
        let mut until = Instant::now() + patience;
        let mut done = 0;
        while self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            let now_done = self.shared.done.load(Ordering::Relaxed);
            if now_done != done {
                done = now_done;
                until = until.max(Instant::now() + patience.max(LAST));
            }
            if Instant::now() >= until {
                if self.stop.take().is_none() {
                    let why = "the disk does not answer: the recording's end may be missing";
                    self.shared.error().get_or_insert_with(|| why.to_owned());
                    return self.progress();
                }
                until = Instant::now() + LAST;
            }
            std::thread::sleep(LOOK);
        }
        self.join();
        self.progress()
    }

    fn join(&mut self) {
        if self.thread.take().is_some_and(|t| t.join().is_err()) {
            let mut error = self.shared.error();
            error.get_or_insert_with(|| "the recording thread failed".to_owned());
        }
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
    let wanted = Wanted {
        to: destination.clone(),
        existing,
        limits,
    };
    let outputs = Outputs {
        recording: Some(wanted),
        ..Outputs::default()
    };
    start_outputs(outputs, options, batches)
}

/// Begins to encode what comes through `batches`, for all of `outputs`.
///
/// # Errors
/// As [`start`].
pub fn start_outputs(
    outputs: Outputs,
    options: Options,
    batches: Receiver<SharedBatch>,
) -> Result<Handle, OpenError> {
    let Outputs {
        recording,
        audience,
        alarm,
    } = outputs;
    let (take, trimmed) = match recording {
        Some(wanted) => {
            let (take, trimmed) = open(&wanted)?;
            (Some(take), trimmed)
        }
        None => (None, 0),
    };
    spawn(take, trimmed, audience, alarm, options, batches).map_err(|error| OpenError::Io {
        path: PathBuf::from("the recording thread"),
        error,
    })
}

fn open(wanted: &Wanted) -> Result<(Take, u64), OpenError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| OpenError::Io { path, error }
    };
    match &wanted.to {
        Destination::File(path) => {
            let compressed = path.extension().is_some_and(|e| e == "zst");
            let mut files = Files::new(path, wanted.existing, compressed, wanted.limits);
            let (sink, trimmed) = files.next()?;
            let packer = compressed.then(Packer::new).transpose();
            let packer = packer.map_err(failed(path))?;
            Ok((Take::new(Box::new(sink), packer, Some(files)), trimmed))
        }
        Destination::Stdout => {
            // A descriptor of its own: the standard library's handle flushes at every line.
            let fd = io::stdout().as_fd().try_clone_to_owned();
            let fd = fd.map_err(failed(Path::new("standard output")))?;
            let sink: Box<dyn Sink> = Box::new(PipeSink(File::from(fd)));
            Ok((Take::new(sink, None, None), 0))
        }
    }
}

fn spawn(
    take: Option<Take>,
    trimmed: u64,
    audience: Option<Box<dyn Audience>>,
    alarm: Option<Alarm>,
    options: Options,
    batches: Receiver<SharedBatch>,
) -> io::Result<Handle> {
    let shared = Arc::new(Shared {
        trimmed,
        ..Shared::default()
    });
    let (stop, stopped) = bounded(0);
    let stream = Stream {
        encoder: Encoder::new(options),
        ledger: Ledger::new(),
        expected: None,
        take,
        audience,
        alarm,
        shared: Arc::clone(&shared),
    };
    let thread = std::thread::Builder::new()
        .name("encoder".to_owned())
        .spawn(move || stream.run(&batches, &stopped))?;
    Ok(Handle {
        shared,
        thread: Some(thread),
        stop: Some(stop),
    })
}

/// One session on its way into bytes.
struct Stream {
    encoder: Encoder,
    ledger: Ledger,
    /// Number of the next event, unless some are lost.
    expected: Option<u64>,
    take: Option<Take>,
    audience: Option<Box<dyn Audience>>,
    alarm: Option<Alarm>,
    shared: Arc<Shared>,
}

impl Stream {
    fn run(mut self, batches: &Receiver<SharedBatch>, stopped: &Receiver<()>) {
        while self.take.is_some() || self.audience.is_some() {
            let due = self.take.as_ref().map(Take::due);
            let timeout = due.map_or_else(never, crossbeam_channel::at);
            let batch = select! {
                recv(batches) -> batch => match batch {
                    Ok(batch) => Some(batch),
                    Err(_) => break,
                },
                recv(stopped) -> _ => {
                    // What came until now is still taken.
                    for batch in batches.try_iter() {
                        self.batch(&batch.events);
                    }
                    break;
                }
                recv(timeout) -> _ => None,
            };
            if let Some(batch) = batch {
                self.batch(&batch.events);
            }
            self.with_take(|take, _, _| take.flush_if_due());
        }
        self.with_take(|take, _, _| take.finish());
        if let Some(audience) = &mut self.audience {
            audience.end();
        }
        self.shared.stopped.store(true, Ordering::Release);
        if self.take.is_none() && self.audience.is_none() {
            // Whoever sends must not find a closed door.
            while batches.recv().is_ok() {}
        }
    }

    /// Does something with the recording, if there is one; an error ends it.
    fn with_take(
        &mut self,
        act: impl FnOnce(&mut Take, &mut Encoder, &Ledger) -> Result<(), Stop>,
    ) {
        let Some(mut take) = self.take.take() else {
            return;
        };
        let done = act(&mut take, &mut self.encoder, &self.ledger);
        let s = &self.shared;
        let (events, mads) = take.written();
        s.bytes.store(take.bytes(), Ordering::Relaxed);
        s.events.store(events, Ordering::Relaxed);
        s.mads.store(mads, Ordering::Relaxed);
        let stop = match done {
            Ok(()) => {
                self.take = Some(take);
                return;
            }
            Err(stop) => stop,
        };
        match stop {
            Stop::ReaderGone => {}
            Stop::Full => s.full.store(true, Ordering::Relaxed),
            Stop::Failed(text) => {
                *s.error() = Some(text.clone());
                if let Some(alarm) = &mut self.alarm {
                    alarm(&text);
                }
            }
        }
        s.stopped.store(true, Ordering::Release);
    }

    fn batch(&mut self, events: &[Event]) {
        self.shared.done.fetch_add(1, Ordering::Relaxed);
        let Some((first, last)) = events.first().zip(events.last()) else {
            return;
        };
        let gap = self.expected.map_or(0, |e| first.seq.saturating_sub(e));
        match first.what {
            // Whoever feeds us counted them.
            What::Dropped { count } => self.lost(count),
            _ if gap > 0 => {
                let lost = Event {
                    seq: first.seq,
                    at: first.at,
                    what: What::Dropped { count: gap },
                };
                self.lost(gap);
                self.events(std::slice::from_ref(&lost));
            }
            _ => {}
        }
        self.events(events);
        self.expected = Some(match last.what {
            // It has the number of the event that comes next.
            What::Dropped { .. } => last.seq,
            _ => last.seq.wrapping_add(1),
        });
    }

    fn lost(&mut self, count: u64) {
        self.shared.dropped.fetch_add(count, Ordering::Relaxed);
        if let Some(take) = &mut self.take {
            take.want_keyframe();
        }
    }

    /// Encodes events, once, for whoever is there.
    fn events(&mut self, events: &[Event]) {
        let Some((first, last)) = events.first().zip(events.last()) else {
            return;
        };
        self.with_take(|take, encoder, ledger| take.prepare(encoder, ledger, first));
        if let Some(audience) = &mut self.audience
            && audience.wants_beginning()
        {
            let mut pieces: Vec<Bytes> = Vec::new();
            let mut emit = |bytes: Vec<u8>| {
                if !bytes.is_empty() {
                    pieces.push(bytes.into());
                }
            };
            self.encoder
                .beginning(first.seq, first.at, &self.ledger, &mut emit);
            audience.begin(&pieces, first.seq);
        }
        let viewers = self.audience.as_mut().filter(|a| !a.is_empty());
        let count = events.len() as u64;
        match (&mut self.take, viewers) {
            (Some(take), viewers) => {
                let bytes = take.encode(&mut self.encoder, events);
                if let Some(audience) = viewers {
                    audience.publish(&bytes.into(), count);
                }
            }
            (None, Some(audience)) => {
                let mut bytes = Vec::new();
                self.encoder.encode(events, &mut bytes);
                audience.publish(&bytes.into(), count);
            }
            (None, None) => self.encoder.skip(events),
        }
        let is_repeated = self.take.as_ref().is_some_and(Take::has_keyframes);
        if is_repeated || self.audience.is_some() {
            for event in events {
                self.ledger.observe(event);
            }
        }
        if let Some(audience) = &mut self.audience {
            audience.pass(last.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Batch;
    use crate::port::Stamp;
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
        let take = Take::new(Box::new(sink), None, None);
        let handle = spawn(Some(take), 0, None, None, Options::default(), rx).unwrap();
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
        // It has the number of the one that comes next.
        assert_eq!(seqs, [5, 6, 7, 8, 9, 15, 15, 16]);
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
