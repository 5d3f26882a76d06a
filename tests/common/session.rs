//! A whole session inside the test: engine over a port, model over its events.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use fabtop::command::Command;
use fabtop::engine::{Config, Handle, Sinks, start};
use fabtop::event::{ReadingEnded, SharedBatch, SweepKind, Topic, What};
use fabtop::fabric::PortKey;
use fabtop::model::view::{DestinationRow, PortRow};
use fabtop::model::{Model, Num};
use fabtop::port::{MadPort, Stamp};

use super::ibsim::PATIENCE;

/// A running session.
pub struct Session {
    handle: Option<Handle>,
    batches: Receiver<SharedBatch>,
    pub model: Model,
    /// Sweeps that ended so far, by kind and, for each, the digest.
    pub ended: Vec<SweepKind>,
}

/// Settings for tests: quick loops.
pub fn config(interval: Duration, sweep: Duration) -> Config {
    let mut config = Config::default();
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap();
    config.settings.interval_ns = nanos(interval);
    config.settings.sweep_interval_ns = nanos(sweep);
    config.settings.timeout_ms = 200;
    config
}

impl Session {
    /// Starts a session over a port.
    pub fn start(port: impl MadPort + 'static, config: Config) -> Session {
        let (model, batches) = bounded(1024);
        let sinks = Sinks {
            model: Some(model),
            encoder: None,
        };
        let handle = start(Box::new(port), config, sinks).unwrap();
        Session {
            handle: Some(handle),
            batches,
            model: Model::new(),
            ended: Vec::new(),
        }
    }

    /// Asks the engine.
    pub fn command(&self, command: Command) {
        let handle = self.handle.as_ref().unwrap();
        assert!(handle.commander.send(command));
    }

    /// Has something read, and folds events until that is done.
    pub fn read(&mut self, topic: Topic) -> ReadingEnded {
        let commander = &self.handle.as_ref().unwrap().commander;
        assert!(commander.send(Command::Read(topic.clone())));
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(
                Instant::now() < end,
                "{topic:?} is not read:\n{}",
                self.log()
            );
            let Ok(batch) = self.batches.recv_timeout(Duration::from_millis(200)) else {
                continue;
            };
            let mut ended = None;
            for event in &batch.events {
                if let What::SweepEnded(sweep) = &event.what {
                    self.ended.push(sweep.kind);
                }
                if let What::Reading(r) = &event.what
                    && r.topic == topic
                {
                    ended = r.ended.or(ended);
                }
                self.model.apply(event);
            }
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// The model's own time.
    pub fn now(&self) -> Stamp {
        self.model.last()
    }

    /// Folds events until the model is as wanted.
    pub fn until(&mut self, what: &str, mut wanted: impl FnMut(&Session) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !wanted(self) {
            assert!(
                Instant::now() < end,
                "waited in vain for {what}; the log says:\n{}",
                self.log()
            );
            self.step();
        }
    }

    /// Folds the next batch, if one comes soon.
    pub fn step(&mut self) {
        match self.batches.recv_timeout(Duration::from_millis(200)) {
            Ok(batch) => {
                for event in &batch.events {
                    if let What::SweepEnded(ended) = &event.what {
                        self.ended.push(ended.kind);
                    }
                    self.model.apply(event);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the engine ended:\n{}", self.log()),
        }
    }

    /// How many sweeps of this kind have ended.
    pub fn sweeps(&self, kind: SweepKind) -> usize {
        self.ended.iter().filter(|k| **k == kind).count()
    }

    /// Folds until one more sweep of this kind has begun and ended.
    pub fn whole_sweep(&mut self, kind: SweepKind) {
        // The one that ends next may have begun before now.
        let wanted = self.sweeps(kind) + 2;
        self.until("a sweep", |s| s.sweeps(kind) >= wanted);
    }

    /// The event log, a line each.
    pub fn log(&self) -> String {
        let lines = self.model.log().iter();
        lines
            .map(|l| format!("{:?} {}\n", l.severity, l.text))
            .collect()
    }

    /// Whether the log has a line with this text.
    pub fn logged(&self, text: &str) -> bool {
        self.model.log().iter().any(|l| l.text.contains(text))
    }

    /// The port of the node of this name.
    pub fn key(&self, name: &str, port: u8) -> PortKey {
        let rows = self.model.ports(self.now());
        let mut keys = rows.iter().filter(|r| r.name == name && r.key.port == port);
        keys.next()
            .unwrap_or_else(|| panic!("no row {name} {port}"))
            .key
    }

    /// The row of a port.
    pub fn row(&self, key: PortKey) -> PortRow<'_> {
        self.model.port(key, self.now()).unwrap()
    }

    /// The row of a destination.
    pub fn destination(&self, key: PortKey) -> Option<DestinationRow<'_>> {
        let mut rows = self.model.destinations(self.now()).into_iter();
        rows.find(|d| d.node == Some(key.node))
    }

    /// A counter's current value by perfquery's name.
    pub fn counter(&self, key: PortKey, name: &str) -> Num<u64> {
        let counters = self.model.counters(key, self.now());
        let found = counters.iter().find(|c| c.name == name);
        found.map_or(Num::Unknown, |c| c.value)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.commander.quit();
            // It must be able to hand over its last events.
            while self.batches.recv().is_ok() {}
            let ended = handle.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}
