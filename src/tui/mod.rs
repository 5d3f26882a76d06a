//! The console: what the model knows, drawn in a terminal.
//!
//! [`run`] owns the model and the terminal: it folds batches, handles keys through one table,
//! and draws. Pause, filter, sort and selection are the screen's own state and never reach the
//! model. The same code shows live, replayed and watched sessions; only a live one has a way to
//! send anything.
//!
//! | file | is |
//! |--|--|
//! | `run` | the loop and every way to end |
//! | `guard`, `input`, `output` | the terminal: taking it and giving it back, keys and signals, frames |
//! | `app`, `keys` | the screen's state, and the one table of commands |
//! | `facts` | the views that screens read |
//! | `told` | what is said of a session beside its events: a replay's position, a viewer's link |
//! | `panes` | the one table of panes, one file a screen, the columns they share |
//! | `table`, `filter`, `pack`, `text`, `theme` | what panes draw with |
//!
//! This room must never touch a port, or compute what the model should.

mod app;
mod facts;
mod filter;
mod guard;
mod input;
mod keys;
mod output;
mod pack;
mod panes;
mod run;
mod table;
mod text;
mod theme;
mod told;

use std::fmt;
use std::time::Duration;

use crossbeam_channel::Receiver;

pub use app::{Act, App};
pub use facts::Facts;
pub use keys::{Cmd, Kind};
pub use panes::Pane;
pub use run::run;
pub use text::Clock;
pub use theme::{Depth, Glyphs, Look, Role};
pub use told::{Link, Replay, Told, Watched};

use crate::command::Command;
use crate::event::SharedBatch;
use crate::port::Stamp;
use crate::record::replay::{Feed, Transport};

/// Where the session comes from.
pub enum Source {
    /// From an engine.
    Live {
        /// Its events.
        batches: Receiver<SharedBatch>,
        /// What time it is in the session.
        clock: Box<dyn Fn() -> Stamp>,
    },
    /// From a recording or another program: the time comes with the events.
    Fed(Receiver<Feed>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// What kind of session it is, and what may be asked of whom.
pub enum Mode {
    /// A fabric behind this program's own port: commands go to the engine.
    Live(Box<dyn Fn(Command)>),
    /// A recording: commands go to its player.
    Replay {
        /// Its player.
        transport: Transport,
        /// What is played, for the header.
        name: String,
    },
    /// Another program's session: nobody can be asked anything. Says how it stands.
    Watch(Box<dyn Fn() -> Watched>),
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.kind(), f)
    }
}

impl Mode {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Mode::Live(_) => Kind::Live,
            Mode::Replay { .. } => Kind::Replay,
            Mode::Watch(_) => Kind::Watch,
        }
    }
}

/// How the console looks and behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Colours and glyphs.
    pub look: Look,
    /// The operator's time zone.
    pub clock: Clock,
    /// The least time between two frames that new data asked for.
    pub refresh: Duration,
    /// Ctrl-Z and SIGTSTP stop the program; not so where no shell could bring it back.
    pub can_suspend: bool,
}

impl Options {
    /// What the environment says of the terminal and the time zone.
    pub fn from_env() -> Options {
        Options {
            look: Look::from_env(|name| std::env::var(name).ok()),
            clock: Clock::system(),
            refresh: Duration::from_millis(500),
            can_suspend: true,
        }
    }
}

/// How the console was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By a key.
    Quit,
}

/// Why the console ended otherwise. The terminal is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A user's mistake.
    #[error("standard output is not a terminal: use `fabtop report` for text")]
    NotATerminal,
    /// The other side of the terminal is gone.
    #[error("the terminal is gone (hung up)")]
    HungUp,
    /// A signal ended the program.
    #[error("ended by {}", signal_hook::low_level::signal_name(*.0).unwrap_or("a signal"))]
    Signal(i32),
    /// A thread panicked.
    #[error("internal error, please report it: {0}")]
    Panicked(String),
    /// The session ended by itself.
    #[error("the session ended: {0}")]
    Ended(String),
    /// The terminal or a signal handler could not be set up.
    #[error("terminal: {0}")]
    Io(#[source] io::Error),
}

use std::io;
