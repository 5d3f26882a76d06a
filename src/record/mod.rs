//! Recordings: pcapng files that Wireshark opens and that replay as they were.
//!
//! The [`Encoder`] turns events into bytes, [`start`] writes them on a thread of its own, the
//! [`Reader`] gives the events back. Each MAD is one packet of link type 252 (or, beyond 256
//! bytes, its RMPP segments); everything else is a JSON frame on a second interface.
//!
//! This room must never lose what it was given without saying so.

mod block;
mod encode;
mod file;
mod frame;
mod reader;
pub mod replay;
mod wire;
mod writer;

pub use encode::{Encoder, Options};
pub use file::{Existing, OpenError};
pub use reader::{Problem, Problems, Reader, Stats};
pub use wire::FORMAT;
pub use writer::{Destination, Handle, Progress, start};
