//! Watching: the recording's own bytes on a Unix socket, for any number of viewers.
//!
//! A collector's [`Server`] listens; its [`Publisher`] is the audience of the one encoder, whose
//! bytes also go to the file. Each viewer gets a hello, a beginning that brings it to the
//! present, and what follows. A [`Viewer`] reads them back into events, from a
//! socket or a pipe; [`stream`] only copies them, for a viewer on another host.
//!
//! This room must never accept anything from a viewer but a hello: there is no command to send,
//! and no code that would read one. It knows neither the engine nor a port.
//!
//! The protocol: the server says `fabtop watch PROTOCOL VERSION HOST`, the viewer
//! `fabtop watch PROTOCOL VERSION`, the server `ok` or `error: SENTENCE`, one line each, at most
//! [`MAX_LINE`] bytes. Then comes pcapng until either side closes. Whatever else a viewer sends
//! closes its connection.

mod hub;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod viewer;

use std::io;
use std::path::PathBuf;

pub use hub::Bounds;
pub use server::{Config, Limits, Publisher, Server};
pub use socket::{default_path, find};
pub use viewer::{State, Status, Viewer, stream};

/// Version of the protocol and of what is sent with it: both sides must have the same.
pub const PROTOCOL: u32 = 1;
/// Longest line of the handshake, with its end.
pub const MAX_LINE: usize = 256;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAGIC: &str = "fabtop watch";

/// Why there is nothing to watch, or nobody can.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The socket cannot be made where it should be.
    #[error("cannot listen on {}: {why}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why, and what to do.
        why: &'static str,
    },
    /// The system did not let us.
    #[error("cannot listen on {}: {what}: {cause}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// At which step.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// The group is not known.
    #[error("there is no group `{0}`: --socket-group takes a name or a number")]
    NoGroup(String),
    /// A thread or its runtime could not be started.
    #[error("cannot start the watch thread: {0}")]
    Thread(io::Error),
    /// Nobody is there.
    #[error(
        "no collector listens on {}: start one with `fabtop serve`, or a console with --socket \
         ({cause})",
        path.display()
    )]
    Nobody {
        /// Where.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It is there, and not for us.
    #[error(
        "no permission to watch {}: it belongs to another user or group (see --socket-group)",
        path.display()
    )]
    Denied {
        /// Where.
        path: PathBuf,
    },
    /// Another version.
    #[error(
        "the collector on {host} is fabtop {theirs} (watch protocol {protocol}), this is fabtop \
         {VERSION} (protocol {PROTOCOL}): use the same version on both sides"
    )]
    Version {
        /// The collector's host.
        host: String,
        /// Its fabtop.
        theirs: String,
        /// Its protocol.
        protocol: u32,
    },
    /// The server said why not.
    #[error("the collector refused: {0}")]
    Told(String),
    /// Something else listens there.
    #[error("{} is no fabtop collector", .0.display())]
    Stranger(PathBuf),
    /// Reading or writing failed.
    #[error("watching {}: {cause}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

impl WatchError {
    /// A mistake of the user's, who can mend it.
    pub const fn is_usage(&self) -> bool {
        matches!(self, WatchError::Refused { .. } | WatchError::NoGroup(_))
    }
}

/// The first line of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hello {
    protocol: u32,
    version: String,
    /// The collector's; empty from a viewer.
    host: String,
}

impl Hello {
    fn ours(host: &str) -> Hello {
        Hello {
            protocol: PROTOCOL,
            version: VERSION.into(),
            host: word(host),
        }
    }

    fn line(&self) -> String {
        let Hello {
            protocol,
            version,
            host,
        } = self;
        let line = format!("{MAGIC} {protocol} {version} {host}");
        format!("{}\n", line.trim_end())
    }

    /// Reads a line without its end; `None` if it is no hello.
    fn parse(line: &[u8]) -> Option<Hello> {
        let text = std::str::from_utf8(line).ok()?;
        let mut words = text.strip_prefix(MAGIC)?.strip_prefix(' ')?.split(' ');
        let protocol = words.next()?.parse().ok()?;
        let version = word(words.next()?);
        let host = word(words.next().unwrap_or_default());
        (words.next().is_none() && !version.is_empty()).then_some(Hello {
            protocol,
            version,
            host,
        })
    }
}

/// What of a text may be a word of a hello, and be shown: no blanks, nothing that a terminal
/// would take for a command.
fn word(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_ascii_graphic())
        .take(64)
        .collect()
}
