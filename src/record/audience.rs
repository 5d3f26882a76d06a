//! Those who get a recording's bytes as they come, beside the file.

use std::sync::Arc;

use crate::port::Stamp;

/// Bytes of whole pcapng blocks, shared by all who wait for them.
pub type Bytes = Arc<[u8]>;

/// Viewers, as the encoder sees them. No call may wait for any of them.
pub trait Audience: Send {
    /// Nobody is there.
    fn is_empty(&self) -> bool;

    /// Somebody came, or fell behind, and waits for a beginning.
    fn wants_beginning(&self) -> bool;

    /// What those who wait are told before the bytes that follow, in pieces of whole blocks; the
    /// first event that follows is number `next`.
    fn begin(&mut self, pieces: &[Bytes], next: u64);

    /// The next bytes, with so many events.
    fn publish(&mut self, bytes: &Bytes, events: u64);

    /// The newest event is of this time.
    fn pass(&mut self, at: Stamp);

    /// Nothing more comes.
    fn end(&mut self);
}
