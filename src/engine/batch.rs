//! Events on their way into batches, and batches on their way to those who read them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError};

use crate::event::{Batch, Event, SharedBatch, What};
use crate::port::Stamp;

/// The longest that an event waits for others.
const AGE: Duration = Duration::from_millis(10);

/// Collects events into batches.
#[derive(Debug, Default)]
pub(super) struct Batcher {
    events: Vec<Event>,
    last: usize,
}

impl Batcher {
    /// Adds an event; returns a batch if that makes one full, or if somebody may wait for this
    /// event: a report begins when the sweep has ended.
    pub(super) fn push(&mut self, event: Event) -> Option<SharedBatch> {
        if self.events.capacity() == 0 {
            // Busy times stay busy: as much room as the last batch needed.
            self.events.reserve(self.last.clamp(4, Batch::MAX));
        }
        let awaited = matches!(event.what, What::SweepEnded(_) | What::Closed { .. });
        self.events.push(event);
        (awaited || self.events.len() >= Batch::MAX).then(|| self.take())?
    }

    /// When the batch must leave, however few events it has.
    pub(super) fn due(&self) -> Option<Stamp> {
        self.events.first().map(|event| event.at + AGE)
    }

    /// What there is.
    pub(super) fn take(&mut self) -> Option<SharedBatch> {
        if self.events.is_empty() {
            return None;
        }
        self.last = self.events.len();
        let events = std::mem::take(&mut self.events);
        Some(Arc::new(Batch { events }))
    }
}

/// Where batches go.
#[derive(Debug)]
pub struct Sinks {
    /// The model's queue, bounded. It never loses a batch: while it is more than half full, the
    /// engine makes no new requests.
    pub model: Option<Sender<SharedBatch>>,
    /// The encoder's queue. It may lose whole batches; a `Dropped` event then says how many
    /// events, and the gap in `seq` says which.
    pub encoder: Option<Sender<SharedBatch>>,
}

/// Sinks, with what they could not take yet.
#[derive(Debug)]
pub(super) struct Outlet {
    sinks: Sinks,
    backlog: VecDeque<SharedBatch>,
    /// Events that the encoder did not get: how many, and the first one's time.
    lost: Option<(u64, Stamp)>,
}

impl Outlet {
    pub(super) fn new(sinks: Sinks) -> Outlet {
        Outlet {
            sinks,
            backlog: VecDeque::new(),
            lost: None,
        }
    }

    pub(super) fn put(&mut self, batch: SharedBatch) {
        self.encode(&batch);
        if self.sinks.model.is_some() {
            self.backlog.push_back(batch);
        }
        self.drain();
    }

    /// Hands the model what it has room for.
    pub(super) fn drain(&mut self) {
        while let (Some(model), Some(batch)) = (&self.sinks.model, self.backlog.pop_front()) {
            match model.try_send(batch) {
                Ok(()) => {}
                Err(TrySendError::Full(batch)) => {
                    self.backlog.push_front(batch);
                    return;
                }
                Err(TrySendError::Disconnected(_)) => {
                    self.sinks.model = None;
                    self.backlog.clear();
                }
            }
        }
    }

    fn encode(&mut self, batch: &SharedBatch) {
        let Some(encoder) = &self.sinks.encoder else {
            return;
        };
        if let (Some((count, at)), Some(first)) = (self.lost, batch.events.first()) {
            let what = What::Dropped { count };
            // It has the number of the one that comes.
            let seq = first.seq;
            let events = vec![Event { seq, at, what }];
            if encoder.try_send(Arc::new(Batch { events })).is_ok() {
                self.lost = None;
            }
        }
        let sent = if self.lost.is_some() {
            Err(TrySendError::Full(()))
        } else {
            encoder.try_send(Arc::clone(batch)).map_err(|e| match e {
                TrySendError::Full(_) => TrySendError::Full(()),
                TrySendError::Disconnected(_) => TrySendError::Disconnected(()),
            })
        };
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(())) => {
                let first = batch.events.first().map_or(Stamp::ZERO, |e| e.at);
                let (count, _) = self.lost.get_or_insert((0, first));
                *count += batch.events.len() as u64;
            }
            Err(TrySendError::Disconnected(())) => self.sinks.encoder = None,
        }
    }

    /// Whether the model is behind; `None` while it is neither behind nor well below.
    pub(super) fn pressure(&self) -> Option<bool> {
        let Some(model) = &self.sinks.model else {
            return Some(false);
        };
        let room = model.capacity().unwrap_or(usize::MAX);
        let used = model.len();
        if !self.backlog.is_empty() || used > room / 2 {
            Some(true)
        } else if used <= room / 4 {
            Some(false)
        } else {
            None
        }
    }

    /// Nobody reads any more.
    pub(super) fn is_closed(&self) -> bool {
        self.sinks.model.is_none() && self.sinks.encoder.is_none()
    }

    /// Hands the model the rest, waiting for room. Only at the very end.
    pub(super) fn finish(&mut self) {
        if let Some(model) = &self.sinks.model {
            for batch in self.backlog.drain(..) {
                if model.send(batch).is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;
    use crate::event::{SweepEnded, SweepKind};

    fn event(seq: u64) -> Event {
        let at = Stamp::from_millis(seq);
        let what = What::Tick;
        Event { seq, at, what }
    }

    fn batch(seqs: std::ops::Range<u64>) -> SharedBatch {
        Arc::new(Batch {
            events: seqs.map(event).collect(),
        })
    }

    #[test]
    fn a_batch_leaves_when_it_is_full_or_ten_milliseconds_old() {
        let mut batcher = Batcher::default();
        for seq in 0..255 {
            assert!(batcher.push(event(seq)).is_none());
        }
        assert_eq!(batcher.push(event(255)).unwrap().events.len(), 256);
        assert!(batcher.push(event(300)).is_none());
        assert_eq!(batcher.due(), Some(Stamp::from_millis(310)));
        assert_eq!(batcher.take().unwrap().events.len(), 1);
        assert!(batcher.take().is_none());
    }

    #[test]
    fn the_end_of_a_sweep_does_not_wait() {
        let mut batcher = Batcher::default();
        assert!(batcher.push(event(0)).is_none());
        let ended = Event {
            seq: 1,
            at: Stamp::from_millis(1),
            what: What::SweepEnded(SweepEnded {
                kind: SweepKind::Discovery,
                number: 1,
                answered: 1,
                failed: 0,
                skipped: 0,
                digest: 0,
            }),
        };
        assert_eq!(batcher.push(ended).unwrap().events.len(), 2);
        assert!(batcher.take().is_none());
    }

    #[test]
    fn the_encoder_is_told_what_it_did_not_get() {
        let (tx, rx) = bounded(2);
        let mut outlet = Outlet::new(Sinks {
            model: None,
            encoder: Some(tx),
        });
        for i in 0..5 {
            outlet.put(batch(i * 10..i * 10 + 10));
        }
        // Two batches fit; three were lost.
        assert_eq!(rx.recv().unwrap().events[0].seq, 0);
        assert_eq!(rx.recv().unwrap().events[0].seq, 10);
        outlet.put(batch(50..60));
        let gap = rx.recv().unwrap();
        assert!(matches!(gap.events[0].what, What::Dropped { count: 30 }));
        assert_eq!(gap.events[0].seq, 50);
        assert_eq!(rx.recv().unwrap().events[0].seq, 50);
    }

    #[test]
    fn the_model_loses_nothing_and_is_said_to_be_behind() {
        let (tx, rx) = bounded(4);
        let mut outlet = Outlet::new(Sinks {
            model: Some(tx),
            encoder: None,
        });
        assert_eq!(outlet.pressure(), Some(false));
        for i in 0..10 {
            outlet.put(batch(i..i + 1));
        }
        assert_eq!(outlet.pressure(), Some(true));
        let mut seqs = Vec::new();
        while seqs.len() < 10 {
            seqs.extend(rx.try_iter().map(|b| b.events[0].seq));
            outlet.drain();
        }
        assert_eq!(seqs, (0..10).collect::<Vec<_>>());
        assert_eq!(outlet.pressure(), Some(false));
        drop(rx);
        outlet.put(batch(10..11));
        assert!(outlet.is_closed());
    }
}
