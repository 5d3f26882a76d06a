//! From events to the bytes that viewers get: encoded once, for all of them.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use super::hub::Bytes;
use super::server::Publisher;
use crate::event::{Batch, Event, SharedBatch, What};
use crate::port::Stamp;
use crate::record::{Encoder, Ledger, Options};

/// Encodes a session for its viewers, and makes keyframes for those who come.
pub struct Caster {
    publisher: Publisher,
    encoder: Encoder,
    ledger: Ledger,
    /// The encoder's table is known to all viewers.
    running: bool,
    next: u64,
}

impl Caster {
    /// A caster at the beginning of a session.
    pub fn new(publisher: Publisher, options: Options) -> Caster {
        Caster {
            publisher,
            encoder: Encoder::new(options),
            ledger: Ledger::new(),
            running: false,
            next: 0,
        }
    }

    /// Takes the session's next events. Waits for nobody.
    pub fn cast(&mut self, batch: &Batch) {
        let Some(last) = batch.events.last() else {
            return;
        };
        if self.publisher.viewers() == 0 {
            // Whoever comes next gets a keyframe.
            self.running = false;
        } else {
            if self.publisher.wants_keyframe() {
                self.keyframe();
            }
            if !self.running {
                self.encoder.begin_section();
                self.running = true;
            }
            let mut bytes = Vec::new();
            self.encoder.encode(&batch.events, &mut bytes);
            self.publisher
                .publish(&bytes.into(), batch.events.len() as u64);
        }
        for event in &batch.events {
            self.ledger.observe(event);
        }
        self.next = last.seq.wrapping_add(1);
        self.publisher.pass(last.at);
    }

    /// A section of its own; the live bytes go on with another one, so that neither refers to
    /// what the other's readers do not have.
    fn keyframe(&mut self) {
        self.running = false;
        let mut pieces: Vec<Bytes> = Vec::new();
        let encoder = &mut self.encoder;
        encoder.begin_section();
        self.ledger.keyframe(self.next, &mut |events| {
            let mut bytes = Vec::new();
            encoder.encode(events, &mut bytes);
            if !bytes.is_empty() {
                pieces.push(bytes.into());
            }
        });
        self.publisher.keyframe(&pieces, self.next);
    }

    /// Casts what comes through a channel, until it closes; then viewers are told the end.
    ///
    /// What came is handed on to `recorder`, if there is one: its queue may be full, and then it
    /// finds a gap in the numbers, as it would if it were fed by the engine itself.
    pub fn run(mut self, batches: &Receiver<SharedBatch>, recorder: Option<&Sender<SharedBatch>>) {
        for batch in batches {
            self.cast(&batch);
            if let Some(recorder) = recorder {
                let _ = recorder.try_send(batch);
            }
        }
        self.publisher.end();
    }
}

/// A section that says how many events are missing before event `next`.
pub fn gap(count: u64, next: u64, at: Stamp) -> Bytes {
    let lost = Event {
        // The one that comes has this number too: the difference to the last one seen is then
        // exactly what is missing.
        seq: next,
        at,
        what: What::Dropped { count },
    };
    let mut bytes = Vec::new();
    Encoder::new(Options::default()).encode(&[lost], &mut bytes);
    Arc::from(bytes)
}
