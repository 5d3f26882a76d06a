//! The terminal's state, and giving it back.
//!
//! Raw mode, alternate screen and hidden cursor are entered in one place and left in one place,
//! whatever ends the program: a quit, an error, a signal, a panic in any thread. This file must
//! never ask the terminal anything: one that does not answer would hold the program up.

use std::io;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::input::Control;

/// Alternate screen, hidden cursor, bracketed paste (so that a paste is no row of commands).
/// The mouse stays the terminal's, so that text can be selected and copied.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[0m\x1b[2J";

/// The way back, from the middle of a frame too: end of a synchronized update first.
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[0m\x1b[?2004l\x1b[?25h\x1b[?1049l";

/// The terminal is ours.
static UP: AtomicBool = AtomicBool::new(false);
/// Held while bytes go to the terminal.
static WRITING: Mutex<()> = Mutex::new(());
/// What a thread said when it panicked.
static PANIC: Mutex<Option<String>> = Mutex::new(None);
/// Where to say that one did.
static ALARM: Mutex<Option<Sender<Control>>> = Mutex::new(None);
static HOOK: Once = Once::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the terminal back when it is dropped.
#[derive(Debug)]
pub struct Guard(());

impl Guard {
    /// Takes the terminal over. Panics of any thread are told to `alarm`.
    ///
    /// # Errors
    /// What the terminal's settings said.
    pub fn new(alarm: Sender<Control>) -> io::Result<Guard> {
        *lock(&ALARM) = Some(alarm);
        HOOK.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                // Only while the screen is up is a panic anywhere the end of the program.
                if leave() {
                    let message = match info.payload().downcast_ref::<&str>() {
                        Some(text) => (*text).to_owned(),
                        None => info
                            .payload()
                            .downcast_ref::<String>()
                            .cloned()
                            .unwrap_or_default(),
                    };
                    let at = info.location().map(ToString::to_string);
                    let at = at.unwrap_or_default();
                    *lock(&PANIC) = Some(format!("{message} ({at})"));
                    if let Some(alarm) = &*lock(&ALARM) {
                        let _ = alarm.send(Control::Panicked);
                    }
                }
                previous(info);
            }));
        });
        let guard = Guard(());
        guard.enter()?;
        Ok(guard)
    }

    /// Takes the terminal over (again).
    ///
    /// # Errors
    /// What the terminal's settings said.
    pub fn enter(&self) -> io::Result<()> {
        enable_raw_mode()?;
        let _held = lock(&WRITING);
        UP.store(true, Ordering::SeqCst);
        write_all(ENTER)
    }

    /// Gives the terminal back; it can be taken over again.
    pub fn leave(&self) {
        leave();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave();
        *lock(&ALARM) = None;
    }
}

/// What a thread said when it panicked, if one did.
pub fn panicked() -> Option<String> {
    lock(&PANIC).take()
}

/// Gives the terminal back; false if it was not ours.
fn leave() -> bool {
    if !UP.swap(false, Ordering::SeqCst) {
        return false;
    }
    // Let a frame under way end, but never wait for a terminal that takes nothing more.
    let patience = Instant::now() + Duration::from_millis(200);
    let held = loop {
        match WRITING.try_lock() {
            Ok(held) => break Some(held),
            Err(TryLockError::Poisoned(held)) => break Some(held.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => break None,
        }
    };
    if held.is_some() && is_writable() {
        let _ = write_all(LEAVE);
    }
    let _ = disable_raw_mode();
    true
}

/// True if the terminal takes bytes now.
fn is_writable() -> bool {
    let out = rustix::stdio::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::OUT)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(n) if n > 0)
}

/// Writes a frame if the terminal is ours; blocks for as long as the terminal takes nothing.
///
/// # Errors
/// What the terminal said; EIO once it hung up.
pub fn write(frame: &[u8]) -> io::Result<()> {
    let _held = lock(&WRITING);
    if UP.load(Ordering::SeqCst) {
        write_all(frame)?;
    }
    Ok(())
}

/// One write(2), if the terminal takes it whole.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let out = rustix::stdio::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(out, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Somebody who shares the terminal made it non-blocking.
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(&out, PollFlags::OUT)];
                let _ = poll(&mut fds, None);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
