//! Signals that end a command without a screen: they are noticed between two batches, so that
//! the subscription is withdrawn and the recording closed before the program ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Watches for signals that ask the program to end.
#[derive(Debug)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Starts watching. A second signal of the same kind ends the program at once.
    ///
    /// # Errors
    /// What the system says.
    pub fn watch() -> io::Result<Signals> {
        let seen = Arc::new(AtomicUsize::new(0));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or(0);
            let again = Arc::new(std::sync::atomic::AtomicBool::new(false));
            // The order matters: the conditional one must see the flag of an earlier signal.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&again))?;
            signal_hook::flag::register(signal, again)?;
            signal_hook::flag::register_usize(signal, Arc::clone(&seen), number)?;
        }
        Ok(Signals(seen))
    }

    /// The signal that came, if one did.
    pub fn seen(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}
