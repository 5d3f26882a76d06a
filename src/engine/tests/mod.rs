//! The engine in virtual time over a made-up fabric.

mod bound;
mod counters;
mod fabric;
mod faults;
mod guard;
mod kinds;
mod late;
mod manners;
mod notices;
mod sweeps;
mod thread;
mod twins;

use std::collections::BTreeMap;
use std::time::Duration;

use self::fabric::Shared;
use super::{Config, Virtual};
use crate::event::{Event, HowLate, SweepEnded, SweepKind, TimedOut, What};
use crate::fabric::{Request, Topology};
use crate::port::Stamp;

/// An engine, its fabric, and everything that it said.
struct Bench {
    fabric: Shared,
    engine: Virtual,
    events: Vec<Event>,
}

impl Bench {
    fn new(fabric: Shared) -> Bench {
        Bench::with(fabric, Config::default())
    }

    fn with(fabric: Shared, config: Config) -> Bench {
        let engine = Virtual::new(fabric.port(), config);
        Bench {
            fabric,
            engine,
            events: Vec::new(),
        }
    }

    fn run_ms(&mut self, until: u64) {
        let events = &mut self.events;
        self.engine
            .run_until(Stamp::from_millis(until), &mut |batch| {
                assert!(
                    batch.events.len() <= 256,
                    "a batch holds at most 256 events"
                );
                events.extend(batch.events.iter().cloned());
            });
    }

    fn ended(&self, kind: SweepKind) -> Vec<(Stamp, SweepEnded)> {
        self.events
            .iter()
            .filter_map(|e| match e.what {
                What::SweepEnded(s) if s.kind == kind => Some((e.at, s)),
                _ => None,
            })
            .collect()
    }

    /// Attempts that ended without an answer.
    fn timeouts(&self) -> Vec<(Stamp, TimedOut)> {
        self.events
            .iter()
            .filter_map(|e| match e.what {
                What::TimedOut(t) if t.how != HowLate::Overdue => Some((e.at, t)),
                _ => None,
            })
            .collect()
    }

    fn notes(&self) -> Vec<String> {
        self.events
            .iter()
            .filter_map(|e| match &e.what {
                What::Note { text, .. } => Some(text.to_string()),
                _ => None,
            })
            .collect()
    }

    /// What holds for every stream, whatever happened in it.
    fn check_stream(&self) {
        let mut topology = Topology::new();
        let mut pending: BTreeMap<u32, Request> = BTreeMap::new();
        let mut used = std::collections::BTreeSet::new();
        let mut last = Stamp::ZERO;
        for (i, event) in self.events.iter().enumerate() {
            assert_eq!(event.seq, i as u64, "numbered without gaps");
            assert!(event.at >= last, "time does not run backwards");
            last = event.at;
            match &event.what {
                What::Sent(s) if s.attempt > 0 => {
                    let tid = s.mad.tid_low();
                    assert!(used.insert(tid), "transaction id {tid:#x} used twice");
                    pending.insert(tid, Request::of(&s.mad, s.addr.lid, s.target));
                }
                What::TimedOut(t) if t.how == HowLate::Overdue => {
                    assert!(pending.contains_key(&t.tid), "overdue, but not sent");
                }
                What::TimedOut(t) => {
                    assert!(pending.remove(&t.tid).is_some(), "timed out, but not sent");
                }
                What::SendFailed(f) => {
                    assert!(!pending.contains_key(&f.tid), "failed, but sent");
                }
                What::Received(r) => {
                    let tid = r.mad.tid_low();
                    if pending.get(&tid).is_some_and(|p| p.is_answered_by(&r.mad)) {
                        topology.learn(&pending.remove(&tid).unwrap(), &r.mad);
                    }
                }
                What::SweepBegan(s) if s.kind == SweepKind::Discovery => {
                    topology.discovery_began(s.generation);
                }
                What::SweepEnded(s) => {
                    if s.kind == SweepKind::Discovery {
                        topology.discovery_ended();
                    }
                    assert_eq!(
                        topology.digest(),
                        s.digest,
                        "whoever folds the stream knows the same topology ({s:?})"
                    );
                }
                What::DeviceGone { .. } => pending.clear(),
                _ => {}
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check_stream();
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
