//! The driver on a thread: the core over a real port, in real time.

use std::any::Any;
use std::io;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

use super::batch::{Batcher, Outlet, Sinks};
use super::core::{Core, Input, Output};
use super::{Config, feed};
use crate::command::Command;
use crate::port::{MadPort, PortError, Stamp, Waker};

/// Arrivals taken in before something is sent again. Few, so that the fabric has something to do
/// while they are worked on: who takes in a whole window first finds nothing under way after it.
const ARRIVALS: usize = 8;
/// Outputs done before the port is looked at again.
const OUTPUTS: usize = 512;
/// The longest sleep: a clock that was wrong about the next deadline costs no more.
const SLEEP: Duration = Duration::from_secs(1);
/// How often a consumer that is behind is looked at.
const BEHIND: Duration = Duration::from_millis(5);

/// Sends commands to a running engine. Only the engine makes one, so whoever has none cannot
/// change anything.
#[derive(Clone, Debug)]
pub struct Commander {
    commands: Sender<Command>,
    waker: Waker,
    /// The engine's thread holds the other end.
    alive: Weak<()>,
}

impl Commander {
    /// Hands the engine a command. False if it has ended.
    pub fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).is_ok();
        self.waker.wake();
        sent
    }

    /// Tells the engine that the recording stopped, and why, whenever it is called.
    pub fn on_recording_stopped(&self) -> impl Fn(String) + Send + 'static {
        let commander = self.clone();
        move |why| {
            commander.send(Command::RecordingStopped(why));
        }
    }

    /// False once the engine has ended.
    pub fn is_running(&self) -> bool {
        self.alive.strong_count() > 0
    }

    /// Asks the engine to end. False if it has ended.
    pub fn quit(&self) -> bool {
        self.send(Command::Quit)
    }
}

/// A running engine.
#[derive(Debug)]
pub struct Handle {
    /// What commands it.
    pub commander: Commander,
    thread: JoinHandle<()>,
}

impl Handle {
    /// True once the engine's thread has ended, by itself or by a panic.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the engine's end, but no longer than `patience`: a driver that blocks must not
    /// hold up the program. `None` if it has not ended by then.
    pub fn join_within(self, patience: Duration) -> Option<Result<(), String>> {
        let until = Instant::now() + patience;
        // It mostly ends at once.
        let mut pause = Duration::from_micros(50);
        while !self.thread.is_finished() {
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(BEHIND);
        }
        Some(self.join())
    }

    /// Waits for the engine's end.
    ///
    /// # Errors
    /// The text of the panic that ended it.
    pub fn join(self) -> Result<(), String> {
        self.thread.join().map_err(|panic| words(&*panic))
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("engine: panic: {}", text.unwrap_or("without a message"))
}

/// Runs an engine over `port` on a thread of its own.
///
/// It ends after [`Command::Quit`], when nobody reads its events any more, or by a panic, which
/// [`Handle::join`] tells. The sinks are closed when it ends, in each of these cases.
///
/// # Errors
/// The system gives no thread or no wake-up descriptor.
pub fn start(port: Box<dyn MadPort>, config: Config, sinks: Sinks) -> io::Result<Handle> {
    let waker = Waker::new().map_err(io::Error::other)?;
    let (commands, inbox) = unbounded();
    let alive = Arc::new(());
    let commander = Commander {
        commands,
        waker: waker.clone(),
        alive: Arc::downgrade(&alive),
    };
    let thread = std::thread::Builder::new()
        .name("engine".to_owned())
        .spawn(move || {
            let _alive = alive;
            let core = Core::new(config, port.source());
            Driver {
                core,
                port,
                inbox,
                waker,
                batch: Batcher::default(),
                outlet: Outlet::new(sinks),
                zero: Instant::now(),
                wall: WallClock::new(wall_now()),
                held: false,
                finished: false,
            }
            .run();
        })?;
    Ok(Handle { commander, thread })
}

/// Wall time, nanoseconds since the Unix epoch.
fn wall_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// What the wall clock should show, to notice that somebody set it.
#[derive(Debug)]
struct WallClock {
    /// Wall time at the session's time 0.
    zero: i64,
}

impl WallClock {
    /// A difference below this is a clock that is slewed, or a thread that was late.
    const STEP: u64 = 1_000_000_000;

    fn new(zero: i64) -> WallClock {
        WallClock { zero }
    }

    /// The wall time if it is another than it should be at `now`.
    fn step(&mut self, now: Stamp, wall: i64) -> Option<i64> {
        let passed = i64::try_from(now.0).unwrap_or(i64::MAX);
        let should = self.zero.saturating_add(passed);
        if wall.abs_diff(should) < WallClock::STEP {
            return None;
        }
        self.zero = wall.saturating_sub(passed);
        Some(wall)
    }
}

struct Driver {
    core: Core,
    port: Box<dyn MadPort>,
    inbox: Receiver<Command>,
    waker: Waker,
    batch: Batcher,
    outlet: Outlet,
    zero: Instant,
    wall: WallClock,
    held: bool,
    finished: bool,
}

impl Driver {
    fn now(&self) -> Stamp {
        Stamp(u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn run(mut self) {
        let now = self.now();
        feed::open(&mut self.core, &mut *self.port, now);
        while !self.finished {
            self.commands();
            let now = self.now();
            let arrived = feed::receive(&mut self.core, &mut *self.port, now, ARRIVALS);
            let done = self.outputs();
            self.flush();
            if self.finished {
                break;
            }
            if arrived < ARRIVALS && done < OUTPUTS {
                self.sleep();
            }
        }
        if let Some(batch) = self.batch.take() {
            self.outlet.put(batch);
        }
        self.outlet.finish();
    }

    fn commands(&mut self) {
        loop {
            let now = self.now();
            match self.inbox.try_recv() {
                Ok(command) => self.core.handle(now, Input::Command(command)),
                Err(TryRecvError::Empty) => return,
                // Nobody can command it any more; those who read may still want it.
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Does what the core wants, up to [`OUTPUTS`] things.
    fn outputs(&mut self) -> usize {
        let mut done = 0;
        while done < OUTPUTS {
            let now = self.now();
            let Some(output) = self.core.poll(now) else {
                break;
            };
            done += 1;
            match output {
                Output::Events => {
                    for event in self.core.events() {
                        if let Some(batch) = self.batch.push(event) {
                            self.outlet.put(batch);
                        }
                    }
                }
                Output::Finished => {
                    self.finished = true;
                    break;
                }
                other => {
                    // Once a second, with everything else that is local.
                    if matches!(other, Output::ReadLocal)
                        && let Some(wall) = self.wall.step(now, wall_now())
                    {
                        self.core.handle(now, Input::Wall(wall));
                    }
                    feed::act(&mut self.core, &mut *self.port, now, other);
                }
            }
        }
        done
    }

    /// Lets old batches go, and tells the core how the consumers are.
    fn flush(&mut self) {
        let now = self.now();
        if self.batch.due().is_some_and(|due| due <= now)
            && let Some(batch) = self.batch.take()
        {
            self.outlet.put(batch);
        }
        self.outlet.drain();
        if let Some(held) = self.outlet.pressure()
            && held != self.held
        {
            self.held = held;
            self.core.handle(now, Input::Pressure(held));
        }
        if self.outlet.is_closed() {
            self.core.handle(now, Input::Command(Command::Quit));
        }
    }

    fn sleep(&mut self) {
        let now = self.now();
        let next = [self.core.deadline(), self.port.due(), self.batch.due()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now + SLEEP);
        let mut time = next.since(now).min(SLEEP);
        if self.held {
            time = time.min(BEHIND);
        }
        if let Some(most) = self.port.poll_limit() {
            time = time.min(most);
        }
        if time.is_zero() {
            return;
        }
        match self.port.wait(&self.waker, time) {
            Ok(()) => {}
            Err(error @ PortError::Gone { .. }) => {
                self.core.handle(now, Input::Gone(error.to_string()));
            }
            Err(error) => {
                // A wait that fails must not make the thread spin.
                tracing::warn!(%error, "wait failed");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_set_is_noticed_once() {
        const SECOND: i64 = 1_000_000_000;
        let mut clock = WallClock::new(100 * SECOND);
        let mut at = |secs: u64, wall: i64| clock.step(Stamp::from_secs(secs), wall);
        assert_eq!(at(5, 105 * SECOND), None);
        // Half a second off: slewed, or read late.
        assert_eq!(at(6, 106 * SECOND + SECOND / 2), None);
        // An hour back, and on from there.
        assert_eq!(at(7, 107 * SECOND - 3600 * SECOND), Some(-3493 * SECOND));
        assert_eq!(at(8, 108 * SECOND - 3600 * SECOND), None);
        // A day ahead, as after a suspend in which the session's time stood still.
        assert_eq!(at(9, 86_509 * SECOND), Some(86_509 * SECOND));
        assert_eq!(at(10, 86_510 * SECOND), None);
        // Slewed away second by second, it is told once it is a second.
        let mut clock = WallClock::new(0);
        let drift = |s: u64| (s as i64) * SECOND + (s as i64) * SECOND / 10;
        let told: Vec<u64> = (1..=25)
            .filter(|s| clock.step(Stamp::from_secs(*s), drift(*s)).is_some())
            .collect();
        assert_eq!(told, [10, 20]);
    }
}
