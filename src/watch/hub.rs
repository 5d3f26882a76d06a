//! Who gets which bytes: the queues between the encoder and the viewers. No I/O, no clock.
//!
//! Every queue is bounded, and what lies in them is shared, so that all together hold hardly
//! more than the slowest one may. A viewer that falls behind loses its queue, is told how many
//! events that were, and begins anew with a keyframe once it has taken what is already on its
//! way. Keyframes are made for those who wait for one, and less and less often for one viewer
//! that falls behind again and again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::event::{Event, What};
use crate::port::Stamp;
use crate::record::{Bytes, Encoder, Options};

/// How much is kept for a viewer, and how often it may begin anew.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most viewers.
    pub viewers: usize,
    /// Most chunks that wait for one viewer.
    pub chunks: usize,
    /// Most bytes that wait for one viewer, beyond its keyframe.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            viewers: 64,
            chunks: 4096,
            bytes: 16 << 20,
        }
    }
}

/// A viewer that fell behind twice within this time waits longer for its next keyframe.
const CALM: Duration = Duration::from_secs(60);
/// The longest that it waits.
const LONGEST: Duration = Duration::from_secs(64);

/// What a viewer gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// These bytes.
    Bytes(Bytes),
    /// Nothing yet.
    Wait,
    /// Nothing more: the collector ended.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a keyframe, not before this time.
    Wanting(Stamp),
    /// Gets all that comes.
    Live { since: Stamp },
    /// Its queue was dropped, and it has not yet taken what was already on its way.
    Behind,
}

struct Chunk {
    bytes: Bytes,
    /// Events that are lost if it is dropped: its own, or those of the gap that it tells.
    events: u64,
    live: bool,
}

struct Viewer {
    state: State,
    queue: VecDeque<Chunk>,
    /// Bytes of the live stream in the queue.
    waiting: usize,
    /// Events that it did not get since it last had a keyframe.
    lost: u64,
    /// Times it fell behind without a calm stretch between.
    falls: u32,
}

/// The queues of all viewers.
pub struct Hub {
    bounds: Bounds,
    viewers: BTreeMap<u64, Viewer>,
    next_id: u64,
    /// Time of the newest event.
    now: Stamp,
    ended: bool,
}

impl Hub {
    pub fn new(bounds: Bounds) -> Hub {
        Hub {
            bounds,
            viewers: BTreeMap::new(),
            next_id: 0,
            now: Stamp::ZERO,
            ended: false,
        }
    }

    /// How many viewers there are.
    pub fn len(&self) -> usize {
        self.viewers.len()
    }

    /// A viewer comes; `None` if there are too many.
    pub fn join(&mut self) -> Option<u64> {
        if self.viewers.len() >= self.bounds.viewers {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        let viewer = Viewer {
            state: State::Wanting(Stamp::ZERO),
            queue: VecDeque::new(),
            waiting: 0,
            lost: 0,
            falls: 0,
        };
        self.viewers.insert(id, viewer);
        Some(id)
    }

    /// A viewer went.
    pub fn leave(&mut self, id: u64) {
        self.viewers.remove(&id);
    }

    /// The newest event is of this time: known even while nobody watches.
    pub fn pass(&mut self, now: Stamp) {
        self.now = self.now.max(now);
    }

    /// New bytes of the live stream, with so many events.
    pub fn publish(&mut self, bytes: &Bytes, events: u64) {
        let (now, bounds) = (self.now, self.bounds);
        for viewer in self.viewers.values_mut() {
            match viewer.state {
                State::Live { since } => {
                    let full = viewer.queue.len() >= bounds.chunks
                        || viewer.waiting + bytes.len() > bounds.bytes && viewer.waiting > 0;
                    if full {
                        viewer.fall(now, since);
                        viewer.lost += events;
                    } else {
                        viewer.waiting += bytes.len();
                        viewer.queue.push_back(Chunk {
                            bytes: Arc::clone(bytes),
                            events,
                            live: true,
                        });
                    }
                }
                // Who never had a keyframe lost nothing.
                State::Wanting(_) if viewer.falls == 0 => {}
                State::Wanting(_) | State::Behind => viewer.lost += events,
            }
        }
    }

    /// Whether somebody waits for a keyframe now.
    pub fn wants_keyframe(&self) -> bool {
        let due = |v: &Viewer| matches!(v.state, State::Wanting(from) if from <= self.now);
        self.viewers.values().any(due)
    }

    /// A keyframe of the state before the next live bytes, in pieces that can be dropped; the
    /// first live event will be number `next`.
    pub fn keyframe(&mut self, pieces: &[Bytes], next: u64) {
        let now = self.now;
        for viewer in self.viewers.values_mut() {
            if !matches!(viewer.state, State::Wanting(from) if from <= now) {
                continue;
            }
            if viewer.lost > 0 {
                viewer.queue.push_back(Chunk {
                    bytes: gap(viewer.lost, next, now),
                    events: viewer.lost,
                    live: false,
                });
            }
            viewer.queue.extend(pieces.iter().map(|bytes| Chunk {
                bytes: Arc::clone(bytes),
                events: 0,
                live: false,
            }));
            viewer.lost = 0;
            viewer.state = State::Live { since: now };
        }
    }

    /// What viewer `id` gets next. Asking means that it took what it got before.
    pub fn next(&mut self, id: u64) -> Next {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return Next::End;
        };
        if let Some(chunk) = viewer.queue.pop_front() {
            if chunk.live {
                viewer.waiting -= chunk.bytes.len();
            }
            return Next::Bytes(chunk.bytes);
        }
        if self.ended {
            return Next::End;
        }
        if viewer.state == State::Behind {
            // At once the first time, then after 2, 4, 8 … seconds.
            let wait = match viewer.falls {
                0 | 1 => Duration::ZERO,
                n => Duration::from_secs(1 << (n - 1).min(6)).min(LONGEST),
            };
            viewer.state = State::Wanting(self.now + wait);
        }
        Next::Wait
    }

    /// The collector ends: viewers get what waits for them, and then the end.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Bytes held, each chunk counted once for each viewer.
    #[cfg(test)]
    pub fn held(&self, id: u64) -> usize {
        let bytes = |v: &Viewer| v.queue.iter().map(|c| c.bytes.len()).sum();
        self.viewers.get(&id).map_or(0, bytes)
    }
}

/// A section that says how many events are missing before event `next`.
fn gap(count: u64, next: u64, at: Stamp) -> Bytes {
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

impl Viewer {
    fn fall(&mut self, now: Stamp, since: Stamp) {
        if now.since(since) > CALM {
            self.falls = 0;
        }
        self.falls += 1;
        self.lost += self.queue.drain(..).map(|c| c.events).sum::<u64>();
        self.waiting = 0;
        self.state = State::Behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reader;
    use proptest::prelude::*;

    fn hub(chunks: usize, bytes: usize) -> Hub {
        Hub::new(Bounds {
            viewers: 2,
            chunks,
            bytes,
        })
    }

    fn bytes(text: &str) -> Bytes {
        text.as_bytes().into()
    }

    fn take(hub: &mut Hub, id: u64) -> String {
        match hub.next(id) {
            Next::Bytes(b) => String::from_utf8_lossy(&b).into_owned(),
            Next::Wait => "wait".into(),
            Next::End => "end".into(),
        }
    }

    #[test]
    fn a_viewer_begins_with_a_keyframe_and_gets_what_follows() {
        let mut hub = hub(8, 100);
        hub.publish(&bytes("before"), 1);
        let id = hub.join().unwrap();
        hub.publish(&bytes("still before"), 1);
        assert_eq!(take(&mut hub, id), "wait");
        assert!(hub.wants_keyframe());
        hub.keyframe(&[bytes("k1"), bytes("k2")], 2);
        assert!(!hub.wants_keyframe());
        hub.publish(&bytes("live"), 1);
        for expected in ["k1", "k2", "live", "wait"] {
            assert_eq!(take(&mut hub, id), expected);
        }
        hub.end();
        assert_eq!(take(&mut hub, id), "end");
    }

    #[test]
    fn only_so_many_may_watch() {
        let mut hub = hub(8, 100);
        let first = hub.join().unwrap();
        assert!(hub.join().is_some());
        assert!(hub.join().is_none());
        hub.leave(first);
        assert!(hub.join().is_some());
    }

    #[test]
    fn who_falls_behind_is_told_what_it_lost_and_others_notice_nothing() {
        let mut hub = hub(3, 100);
        let (slow, quick) = (hub.join().unwrap(), hub.join().unwrap());
        hub.keyframe(&[bytes("k")], 10);
        assert_eq!(take(&mut hub, slow), "k");
        assert_eq!(take(&mut hub, quick), "k");
        for n in 0..5u64 {
            hub.pass(Stamp::from_secs(n));
            hub.publish(&bytes(&n.to_string()), 10);
            assert_eq!(take(&mut hub, quick), n.to_string());
        }
        // It did not ask yet: nobody makes a keyframe for one who takes nothing.
        assert!(!hub.wants_keyframe());
        assert_eq!(hub.held(slow), 0);
        assert_eq!(take(&mut hub, slow), "wait");
        assert!(hub.wants_keyframe());
        hub.publish(&bytes("5"), 10);
        hub.keyframe(&[bytes("again")], 70);
        hub.publish(&bytes("6"), 10);
        let Next::Bytes(gap) = hub.next(slow) else {
            panic!("no gap")
        };
        let told: Vec<_> = Reader::new(&gap[..]).collect();
        // All six chunks of ten events; the number is that of the event that comes next.
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].what, What::Dropped { count: 60 });
        assert_eq!((told[0].seq, told[0].at), (70, Stamp::from_secs(4)));
        assert_eq!(take(&mut hub, slow), "again");
        assert_eq!(take(&mut hub, slow), "6");
        assert_eq!(take(&mut hub, quick), "5");
        assert_eq!(take(&mut hub, quick), "6");
    }

    #[test]
    fn who_falls_behind_again_and_again_waits_longer() {
        let mut hub = hub(1, 100);
        let id = hub.join().unwrap();
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..9 {
            hub.keyframe(&[], 0);
            hub.publish(&bytes("a"), 1);
            hub.publish(&bytes("b"), 1);
            assert_eq!(take(&mut hub, id), "wait");
            let begun = now;
            while !hub.wants_keyframe() {
                now += 1;
                hub.pass(Stamp::from_secs(now));
            }
            waits.push(now - begun);
        }
        assert_eq!(waits, [0, 2, 4, 8, 16, 32, 64, 64, 64]);
        // After a calm stretch it is helped at once again.
        hub.keyframe(&[], 0);
        let Next::Bytes(_) = hub.next(id) else {
            panic!("the gap is told")
        };
        hub.pass(Stamp::from_secs(now + 61));
        hub.publish(&bytes("a"), 1);
        hub.publish(&bytes("b"), 1);
        assert_eq!(take(&mut hub, id), "wait");
        assert!(hub.wants_keyframe());
    }

    #[test]
    fn a_chunk_beyond_all_bounds_still_passes_alone() {
        let mut hub = hub(8, 4);
        let id = hub.join().unwrap();
        hub.keyframe(&[], 0);
        hub.publish(&bytes("much too long"), 1);
        assert_eq!(take(&mut hub, id), "much too long");
    }

    proptest! {
        /// Whatever happens in which order, no queue holds more than its bounds, and every
        /// event is either taken or counted as lost.
        #[test]
        fn queues_stay_within_bounds_and_nothing_goes_uncounted(
            acts in proptest::collection::vec(0u8..4, 1..200),
        ) {
            let mut hub = hub(4, 40);
            let id = hub.join().unwrap();
            hub.keyframe(&[bytes("k")], 0);
            let mut published = 0;
            let mut accounted = 0;
            let mut seq = 0;
            let drain = |hub: &mut Hub, accounted: &mut u64| {
                let next = hub.next(id);
                if let Next::Bytes(b) = &next {
                    if b[0] == b'l' {
                        *accounted += 3;
                    } else if b.len() > 1 {
                        for event in Reader::new(&b[..]) {
                            if let What::Dropped { count } = event.what {
                                *accounted += count;
                            }
                        }
                    }
                }
                next
            };
            for act in acts {
                match act {
                    0 | 1 => {
                        hub.publish(&bytes("live12345"), 3);
                        published += 3;
                        seq += 3;
                    }
                    2 => { drain(&mut hub, &mut accounted); }
                    _ => {
                        hub.pass(Stamp(hub.now.0 + 100_000_000_000));
                        if hub.wants_keyframe() {
                            hub.keyframe(&[bytes("k")], seq);
                        }
                    }
                }
                prop_assert!(hub.viewers[&id].waiting <= 40);
                prop_assert!(hub.viewers[&id].queue.len() <= 4 + 2);
            }
            for _ in 0..20 {
                while drain(&mut hub, &mut accounted) != Next::Wait {}
                hub.pass(Stamp(hub.now.0 + 100_000_000_000));
                if hub.wants_keyframe() {
                    hub.keyframe(&[bytes("k")], seq);
                }
            }
            prop_assert_eq!(accounted, published);
        }
    }
}
