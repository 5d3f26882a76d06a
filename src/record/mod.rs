//! Recordings: pcapng files that Wireshark opens and that replay as they were.
//!
//! The [`Encoder`] turns events into bytes, [`start`] writes them on a thread of its own, the
//! [`Reader`] gives the events back. Each MAD is one packet of link type 252 (or, beyond 256
//! bytes, its RMPP segments); everything else is a JSON frame on a second interface.
//!
//! Every five minutes a keyframe repeats the last word on everything, on a third interface, so
//! that a [`Seeker`] finds places to begin reading at and each rotated file replays alone.
//! Compressed recordings are independent zstd frames with an index between them.
//!
//! This room must never lose what it was given without saying so.

mod anonymize;
mod audience;
mod block;
mod encode;
mod file;
mod frame;
mod ledger;
mod reader;
pub mod replay;
mod seek;
mod sink;
mod take;
mod wire;
mod writer;
mod zst;

pub use anonymize::Anonymizer;
pub use audience::{Audience, Bytes};
pub use encode::{Encoder, Options};
pub use file::{Existing, OpenError};
pub use ledger::Ledger;
pub use reader::{Problem, Problems, Reader, Stats};
pub use seek::{SeekPoint, Seeker};
pub use sink::Limits;
pub use wire::FORMAT;
pub use writer::{
    Alarm, Destination, Handle, Outputs, Progress, Wanted, start, start_limited, start_outputs,
};
pub use zst::IndexMark;
