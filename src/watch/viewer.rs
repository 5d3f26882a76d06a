//! The viewer's side: bytes from a socket or a pipe, back to events, for a screen.
//!
//! It says hello and nothing else. A collector that goes away is waited for.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::{Hello, MAX_LINE, PROTOCOL, WatchError};
use crate::event::{Batch, Event, What};
use crate::record::Reader;
use crate::record::replay::Feed;

/// Batches on the way to the screen. Beyond that the collector notices, and drops.
const QUEUE: usize = 64;
/// How long each side of the handshake may take.
const HELLO: Duration = Duration::from_secs(5);
/// How soon a lost collector is looked for, and how rarely at last.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// How the connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Events come in.
    Connected,
    /// The collector went away; it is looked for.
    Reconnecting {
        /// What became of it, or of the last attempt, in one sentence.
        why: String,
    },
    /// Nothing more will come.
    Ended {
        /// Why, in one sentence.
        why: String,
    },
}

/// What a screen says of a watched session beside its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How the connection is.
    pub state: State,
    /// The collecting host's name; empty before it is known.
    pub host: String,
    /// The collector's version; empty before it is known.
    pub version: String,
    /// Wall time of the newest event, nanoseconds since the Unix epoch by the collector's clock.
    pub newest: Option<i64>,
    /// Events that the collector dropped since this viewer is too slow for them.
    pub lost: u64,
    /// Times the collector was lost and found again.
    pub reconnects: u32,
    /// Parts of the stream that could not be read.
    pub problems: u64,
}

impl Status {
    /// How old the newest event is. Both clocks must agree, as on one host they do. A quiet
    /// session has an event a second.
    pub fn lag(&self, wall: i64) -> Option<Duration> {
        let nanos = wall.saturating_sub(self.newest?);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }
}

/// A watched session: its events come through a channel, on a thread of their own.
#[derive(Debug)]
pub struct Viewer {
    status: Arc<Mutex<Status>>,
    /// Closing it ends the waiting for a lost collector.
    stop: Option<Sender<()>>,
    socket: Arc<Mutex<Option<UnixStream>>>,
}

impl Viewer {
    /// Connects to a collector, and again whenever it was lost.
    ///
    /// # Errors
    /// Nobody listens there, or not for us, or in another version.
    pub fn connect(path: &Path) -> Result<(Viewer, Receiver<Feed>), WatchError> {
        let (stream, hello) = dial(path)?;
        let (feed, fed) = bounded(QUEUE);
        let (stop, stopped) = bounded(0);
        let viewer = Viewer::new(Some(stop));
        viewer.status().meet(&hello);
        let link = Link {
            status: Arc::clone(&viewer.status),
            socket: Arc::clone(&viewer.socket),
            feed,
            stopped,
        };
        link.hold(&stream);
        let path = path.to_owned();
        thread::Builder::new()
            .name("viewer".into())
            .spawn(move || link.follow(&path, stream))
            .map_err(WatchError::Thread)?;
        Ok((viewer, fed))
    }

    /// Reads a stream that comes through a pipe, such as from `ssh HOST fabtop stream`.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn read(input: impl Read + Send + 'static) -> Result<(Viewer, Receiver<Feed>), WatchError> {
        let (feed, fed) = bounded(QUEUE);
        let viewer = Viewer::new(None);
        let status = Arc::clone(&viewer.status);
        thread::Builder::new()
            .name("viewer".into())
            .spawn(move || {
                if decode(input, &feed, &status).is_err() {
                    return;
                }
                let why = "the stream ended";
                lock(&status).state = State::Ended { why: why.into() };
                let _ = feed.send(Feed::End { why: why.into() });
            })
            .map_err(WatchError::Thread)?;
        Ok((viewer, fed))
    }

    fn new(stop: Option<Sender<()>>) -> Viewer {
        Viewer {
            status: Arc::new(Mutex::new(Status {
                state: State::Connected,
                host: String::new(),
                version: String::new(),
                newest: None,
                lost: 0,
                reconnects: 0,
                problems: 0,
            })),
            stop,
            socket: Arc::default(),
        }
    }

    /// How it stands.
    pub fn status(&self) -> MutexGuard<'_, Status> {
        lock(&self.status)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(socket) = lock(&self.socket).take() {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Status {
    fn meet(&mut self, hello: &Hello) {
        self.state = State::Connected;
        self.host.clone_from(&hello.host);
        self.version.clone_from(&hello.version);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The screen is gone.
struct Gone;

struct Link {
    status: Arc<Mutex<Status>>,
    socket: Arc<Mutex<Option<UnixStream>>>,
    feed: Sender<Feed>,
    stopped: Receiver<()>,
}

impl Link {
    /// Keeps a handle by which the viewer ends a read.
    fn hold(&self, stream: &UnixStream) {
        *lock(&self.socket) = stream.try_clone().ok();
    }

    fn follow(&self, path: &Path, mut stream: UnixStream) {
        loop {
            if decode(stream, &self.feed, &self.status).is_err() {
                return;
            }
            lock(&self.socket).take();
            stream = match self.find(path) {
                Some(stream) => stream,
                None => return,
            };
            // Another session, or the same one after a gap that nobody counted.
            if self.feed.send(Feed::Reset).is_err() {
                return;
            }
        }
    }

    /// Waits until the collector is back; `None` if it never will be, or nobody waits any more.
    fn find(&self, path: &Path) -> Option<UnixStream> {
        let mut why = "the collector closed the connection".to_owned();
        let mut wait = RETRY.0;
        loop {
            lock(&self.status).state = State::Reconnecting { why };
            match self.stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return None,
            }
            wait = (wait * 2).min(RETRY.1);
            match dial(path) {
                Ok((stream, hello)) => {
                    self.hold(&stream);
                    let mut status = lock(&self.status);
                    status.meet(&hello);
                    status.reconnects += 1;
                    return Some(stream);
                }
                Err(error @ WatchError::Version { .. }) => {
                    let why = error.to_string();
                    lock(&self.status).state = State::Ended { why: why.clone() };
                    let _ = self.feed.send(Feed::End { why: why.into() });
                    return None;
                }
                Err(error) => why = error.to_string(),
            }
        }
    }
}

/// Connects and says hello. What comes next is pcapng.
fn dial(path: &Path) -> Result<(UnixStream, Hello), WatchError> {
    let io = |cause| WatchError::Io {
        path: path.to_owned(),
        cause,
    };
    let mut stream = UnixStream::connect(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::PermissionDenied => WatchError::Denied {
            path: path.to_owned(),
        },
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => WatchError::Nobody {
            path: path.to_owned(),
            cause,
        },
        _ => io(cause),
    })?;
    stream.set_read_timeout(Some(HELLO)).map_err(io)?;
    stream.set_write_timeout(Some(HELLO)).map_err(io)?;
    let line = read_line(&mut stream).map_err(io)?;
    if let Some(why) = told(&line) {
        return Err(WatchError::Told(why));
    }
    let hello = Hello::parse(&line).ok_or_else(|| WatchError::Stranger(path.to_owned()))?;
    if hello.protocol != PROTOCOL {
        return Err(WatchError::Version {
            host: hello.host,
            theirs: hello.version,
            protocol: hello.protocol,
        });
    }
    let ours = Hello::ours("").line();
    stream.write_all(ours.as_bytes()).map_err(io)?;
    let line = read_line(&mut stream).map_err(io)?;
    if let Some(why) = told(&line) {
        return Err(WatchError::Told(why));
    }
    if line != b"ok" {
        return Err(WatchError::Stranger(path.to_owned()));
    }
    stream.set_read_timeout(None).map_err(io)?;
    Ok((stream, hello))
}

/// The server's reason, fit to be shown.
fn told(line: &[u8]) -> Option<String> {
    let why = line.strip_prefix(b"error: ")?;
    let why = String::from_utf8_lossy(why);
    Some(crate::mad::clean_str(&why))
}

/// A line without its end. Byte by byte: what follows belongs to another reader.
fn read_line(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < MAX_LINE {
        from.read_exact(&mut byte).map_err(|e| match e.kind() {
            // What a read that waited too long says means nothing to anybody.
            io::ErrorKind::WouldBlock => {
                let why = "the other side says no hello in time";
                io::Error::new(io::ErrorKind::TimedOut, why)
            }
            _ => e,
        })?;
        if byte[0] == b'\n' {
            return Ok(line);
        }
        line.push(byte[0]);
    }
    let why = "the other side says no hello";
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Events decoded and not yet handed on, shared between the loop and the bytes' source.
struct Waiting {
    events: Vec<Event>,
    gone: bool,
}

/// Hands on what was decoded before it waits for more bytes: a screen must not be kept waiting
/// until a batch is full.
struct Flushing<'a, R> {
    input: R,
    waiting: &'a Mutex<Waiting>,
    feed: &'a Sender<Feed>,
}

impl<R: Read> Read for Flushing<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        flush(self.waiting, self.feed);
        if lock(self.waiting).gone {
            return Ok(0);
        }
        self.input.read(buf)
    }
}

fn flush(waiting: &Mutex<Waiting>, feed: &Sender<Feed>) {
    let mut waiting = lock(waiting);
    if waiting.events.is_empty() {
        return;
    }
    let events = std::mem::take(&mut waiting.events);
    if feed.send(Feed::Batch(Arc::new(Batch { events }))).is_err() {
        waiting.gone = true;
    }
}

/// Feeds the events of a byte stream until it ends, or nobody takes them.
fn decode(input: impl Read, feed: &Sender<Feed>, status: &Mutex<Status>) -> Result<(), Gone> {
    let waiting = Mutex::new(Waiting {
        events: Vec::new(),
        gone: false,
    });
    let mut reader = Reader::new(Flushing {
        input,
        waiting: &waiting,
        feed,
    });
    let mut wall = None;
    for event in reader.by_ref() {
        follow(&event, &mut wall, &mut lock(status));
        let full = {
            let mut waiting = lock(&waiting);
            waiting.events.push(event);
            waiting.events.len() >= Batch::MAX
        };
        if full {
            flush(&waiting, feed);
        }
        if lock(&waiting).gone {
            return Err(Gone);
        }
    }
    flush(&waiting, feed);
    lock(status).problems += reader.problems().count();
    if lock(&waiting).gone {
        Err(Gone)
    } else {
        Ok(())
    }
}

/// Keeps the status up to date. `wall` is the wall time of the session's time 0.
fn follow(event: &Event, wall: &mut Option<i64>, status: &mut Status) {
    let at = i64::try_from(event.at.0).unwrap_or(i64::MAX);
    match &event.what {
        What::Opened(opened) => *wall = Some(opened.wall),
        What::ClockStep { wall: now } => *wall = Some(now.saturating_sub(at)),
        What::Dropped { count } => status.lost += count,
        // Older than it comes.
        What::Known(_) => return,
        _ => {}
    }
    status.newest = wall.map(|w| w.saturating_add(at)).max(status.newest);
}

/// Copies a collector's recording to `out`, until either ends. A reader that goes away is no
/// error.
///
/// # Errors
/// Nobody listens there, or not for us, or in another version; writing failed.
pub fn stream(path: &Path, out: &mut impl Write) -> Result<(), WatchError> {
    let (mut stream, _) = dial(path)?;
    let copied = io::copy(&mut stream, out).and_then(|_| out.flush());
    match copied {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(WatchError::Io {
            path: PathBuf::from(path),
            cause,
        }),
        _ => Ok(()),
    }
}
