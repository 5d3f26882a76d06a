//! What comes in besides the model's batches: keys, signals, and the terminal's end.
//!
//! Each has a thread that blocks; the loop reads channels. The terminal's end has a thread of
//! its own, since crossterm's reader spins on a terminal that hung up and never says so.

use std::io;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;

/// What the loop must act upon at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A signal came in.
    Signal(i32),
    /// The terminal is gone.
    HungUp,
    /// A thread panicked; the terminal was given back already.
    Panicked,
}

/// Everything that comes in.
#[derive(Debug)]
pub struct Inputs {
    /// Signals and ends.
    pub control: Receiver<Control>,
    /// For those who tell of them.
    pub alarm: Sender<Control>,
    /// Keys, pastes.
    pub events: Receiver<Event>,
}

/// Keys that may wait; a held key must not grow without bound while the screen is busy.
const KEYS: usize = 256;

/// Starts to listen for signals. Comes before the terminal is taken over, so that no signal
/// finds it taken and nobody listening.
///
/// # Errors
/// The signal handlers or a thread could not be set up.
pub fn listen() -> io::Result<Inputs> {
    let (alarm, control) = unbounded();
    let (keys, events) = bounded(KEYS);
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH])?;
    let tell = alarm.clone();
    spawn("signals", move || {
        for signal in signals.forever() {
            if tell.send(Control::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    let tell = alarm.clone();
    spawn("hang-up", move || {
        wait_for_hang_up();
        let _ = tell.send(Control::HungUp);
    })?;
    let tell = alarm.clone();
    spawn("keys", move || {
        loop {
            match event::read() {
                Ok(event) => {
                    if keys.send(event).is_err() {
                        return;
                    }
                }
                Err(_) => {
                    let _ = tell.send(Control::HungUp);
                    return;
                }
            }
        }
    })?;
    Ok(Inputs {
        control,
        alarm,
        events,
    })
}

/// Returns once the other side of the terminal is gone. Costs nothing until then: with no
/// event asked for, poll(2) reports hang-ups and errors only.
fn wait_for_hang_up() {
    let out = rustix::stdio::stdout();
    loop {
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(n) if n > 0 => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(256 * 1024)
        .spawn(body)
        .map(drop)
}
