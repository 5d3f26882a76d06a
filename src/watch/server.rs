//! The collector's side of the socket: one thread that serves every viewer.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::hub::{Bounds, Hub, Next};
use super::socket::{self, Bound};
use super::{Hello, MAX_LINE, PROTOCOL, VERSION, WatchError};
use crate::port::Stamp;
use crate::record::{Audience, Bytes};

/// What peers may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Viewers and their queues.
    pub bounds: Bounds,
    /// Connections in all: viewers and those that did not say hello yet.
    pub connections: usize,
    /// Connections taken in a second; the others wait in the kernel's queue.
    pub accepts_per_s: u32,
    /// How long a peer may take to say hello.
    pub hello: Duration,
    /// How long a viewer may take nothing before its connection is closed.
    pub stall: Duration,
    /// How long viewers may take to fetch what is left when the collector ends.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bounds: Bounds::default(),
            connections: 96,
            accepts_per_s: 100,
            hello: Duration::from_secs(5),
            stall: Duration::from_secs(15 * 60),
            farewell: Duration::from_secs(1),
        }
    }
}

/// Where and for whom to listen.
#[derive(Clone, Debug)]
pub struct Config {
    /// The socket.
    pub path: PathBuf,
    /// Members of this group may watch, too.
    pub group: Option<String>,
    /// Name of the collecting host, for the viewers' header.
    pub host: String,
    /// What peers may cost.
    pub limits: Limits,
}

impl Config {
    /// Listens on `path` for the own user only.
    pub fn new(path: PathBuf, host: impl Into<String>) -> Config {
        Config {
            path,
            group: None,
            host: host.into(),
            limits: Limits::default(),
        }
    }
}

struct Shared {
    hub: Mutex<Queues>,
    stop: Notify,
}

struct Queues {
    hub: Hub,
    wakes: HashMap<u64, Arc<Notify>>,
}

impl Queues {
    fn wake_all(&self) {
        for wake in self.wakes.values() {
            wake.notify_one();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // Nothing that holds it can leave it half changed.
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the encoder puts its bytes. No call waits for a viewer.
#[derive(Clone)]
pub struct Publisher(Arc<Shared>);

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Publisher({} viewers)", self.viewers())
    }
}

impl Publisher {
    /// How many watch.
    pub fn viewers(&self) -> usize {
        self.0.lock().hub.len()
    }
}

impl Audience for Publisher {
    fn is_empty(&self) -> bool {
        self.viewers() == 0
    }

    fn wants_beginning(&self) -> bool {
        self.0.lock().hub.wants_keyframe()
    }

    fn begin(&mut self, pieces: &[Bytes], next: u64) {
        let mut queues = self.0.lock();
        queues.hub.keyframe(pieces, next);
        queues.wake_all();
    }

    fn publish(&mut self, bytes: &Bytes, events: u64) {
        let mut queues = self.0.lock();
        queues.hub.publish(bytes, events);
        queues.wake_all();
    }

    fn pass(&mut self, at: Stamp) {
        self.0.lock().hub.pass(at);
    }

    fn end(&mut self) {
        let mut queues = self.0.lock();
        queues.hub.end();
        queues.wake_all();
    }
}

/// A listening socket and the thread that serves it. Dropping it ends both.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    publisher: Publisher,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Makes the socket and serves it.
    ///
    /// # Errors
    /// The socket cannot be made there; see [`WatchError`].
    pub fn start(config: Config) -> Result<Server, WatchError> {
        let bound = socket::bind(&config.path, config.group.as_deref())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(WatchError::Thread)?;
        let shared = Arc::new(Shared {
            hub: Mutex::new(Queues {
                hub: Hub::new(config.limits.bounds),
                wakes: HashMap::new(),
            }),
            stop: Notify::new(),
        });
        let publisher = Publisher(Arc::clone(&shared));
        let path = config.path.clone();
        let listener = bound
            .listener
            .set_nonblocking(true)
            .and_then(|()| bound.listener.try_clone())
            .and_then(|listener| {
                let _inside = runtime.enter();
                UnixListener::from_std(listener)
            })
            .map_err(WatchError::Thread)?;
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || {
                runtime.block_on(serve(listener, bound, shared, config));
            })
            .map_err(WatchError::Thread)?;
        Ok(Server {
            path,
            publisher,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the encoder puts its bytes.
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }

    /// How many watch.
    pub fn viewers(&self) -> usize {
        self.publisher.viewers()
    }

    /// Stops listening, lets viewers fetch what waits for them for a short while, and ends.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.publisher.end();
        self.publisher.0.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve(listener: UnixListener, bound: Bound, shared: Arc<Shared>, config: Config) {
    let limits = config.limits;
    let hello: Arc<str> = Hello::ours(&config.host).line().into();
    let mut peers = JoinSet::new();
    let mut taken = 0;
    let mut second = Instant::now();
    loop {
        let accepted = tokio::select! {
            () = shared.stop.notified() => break,
            Some(_) = peers.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if peers.len() < limits.connections => {
                let (shared, hello) = (Arc::clone(&shared), Arc::clone(&hello));
                peers.spawn(async move {
                    // Whatever went wrong with one peer is that peer's affair.
                    let _ = peer(stream, &shared, &hello, limits).await;
                });
            }
            Ok((stream, _)) => {
                // Fits into any socket's buffer, or is not said.
                let _ = stream.try_write(refusal("too many connections").as_bytes());
            }
            // Out of descriptors, or the peer went before it was taken.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
        taken += 1;
        if taken >= limits.accepts_per_s {
            tokio::select! {
                () = shared.stop.notified() => break,
                () = sleep_until(second + Duration::from_secs(1)) => {}
            }
        }
        if second.elapsed() >= Duration::from_secs(1) {
            (taken, second) = (0, Instant::now());
        }
    }
    drop((listener, bound));
    let rest = async { while peers.join_next().await.is_some() {} };
    let _ = timeout(limits.farewell, rest).await;
}

fn refusal(why: &str) -> String {
    format!("error: {why}\n")
}

/// A viewer's place among the queues, given up when dropped.
struct Place<'a> {
    shared: &'a Shared,
    id: u64,
    wake: Arc<Notify>,
}

impl<'a> Place<'a> {
    fn take(shared: &'a Shared) -> Option<Place<'a>> {
        let mut queues = shared.lock();
        let id = queues.hub.join()?;
        let wake = Arc::new(Notify::new());
        queues.wakes.insert(id, Arc::clone(&wake));
        Some(Place { shared, id, wake })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.shared.lock();
        queues.hub.leave(self.id);
        queues.wakes.remove(&self.id);
    }
}

async fn peer(stream: UnixStream, shared: &Shared, hello: &str, limits: Limits) -> io::Result<()> {
    let (mut from, mut to) = stream.into_split();
    let greeted = timeout(limits.hello, greet(&mut from, &mut to, hello)).await;
    let Ok(Ok(true)) = greeted else { return Ok(()) };
    let Some(place) = Place::take(shared) else {
        let why = refusal("too many viewers are connected: try again later");
        return timeout(limits.hello, to.write_all(why.as_bytes())).await?;
    };
    timeout(limits.hello, to.write_all(b"ok\n")).await??;
    // After its hello a viewer has nothing to say: a byte, its end or an error end it.
    let mut byte = [0; 1];
    tokio::select! {
        _ = from.read(&mut byte) => Ok(()),
        sent = feed(&place, &mut to, limits.stall) => sent,
    }
}

/// Says hello and hears one; says whether both speak the same protocol.
async fn greet(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, hello: &str) -> io::Result<bool> {
    to.write_all(hello.as_bytes()).await?;
    let mut line = [0; MAX_LINE];
    let mut len = 0;
    let end = loop {
        let n = from.read(line.get_mut(len..).unwrap_or_default()).await?;
        len += n;
        let heard = line.get(..len).unwrap_or_default();
        if let Some(end) = heard.iter().position(|b| *b == b'\n') {
            break end;
        }
        if n == 0 || len == MAX_LINE {
            return Ok(false);
        }
    };
    let heard = line.get(..end).and_then(Hello::parse);
    let Some(theirs) = heard.filter(|_| end + 1 == len) else {
        return Ok(false);
    };
    if theirs.protocol == PROTOCOL {
        return Ok(true);
    }
    let why = format!(
        "the viewer is fabtop {} (watch protocol {}), the collector fabtop {VERSION} (protocol \
         {PROTOCOL}): use the same version on both sides",
        theirs.version, theirs.protocol
    );
    to.write_all(refusal(&why).as_bytes()).await?;
    Ok(false)
}

/// Gives a viewer what waits for it, at the pace at which it takes it.
async fn feed(place: &Place<'_>, to: &mut OwnedWriteHalf, stall: Duration) -> io::Result<()> {
    loop {
        let next = place.shared.lock().hub.next(place.id);
        match next {
            Next::Bytes(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let n = timeout(stall, to.write(rest)).await??;
                    if n == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    rest = rest.get(n..).unwrap_or_default();
                }
            }
            Next::Wait => place.wake.notified().await,
            Next::End => return to.shutdown().await,
        }
    }
}
