//! The driver in virtual time: for the simulator, and for tests.
//!
//! There is no clock and no waiting. Time jumps to the next thing that happens: the core's
//! deadline or the port's next arrival. The same port and settings give the same events.

use super::batch::Batcher;
use super::core::{Core, Input, Output};
use super::{Config, feed};
use crate::command::Command;
use crate::event::SharedBatch;
use crate::fabric::Topology;
use crate::port::{MadPort, Stamp};

/// How often the same moment may be looked at before time is moved on: a port that is always
/// due must not stop the clock.
const ROUNDS: u32 = 100_000;

/// An engine in virtual time.
pub struct Virtual {
    core: Core,
    port: Box<dyn MadPort>,
    batch: Batcher,
    now: Stamp,
    finished: bool,
    opened: bool,
}

impl Virtual {
    /// An engine over a port, at `Stamp::ZERO`.
    pub fn new(port: Box<dyn MadPort>, config: Config) -> Virtual {
        let core = Core::new(config, port.source());
        Virtual {
            core,
            port,
            batch: Batcher::default(),
            now: Stamp::ZERO,
            finished: false,
            opened: false,
        }
    }

    /// The time.
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// The session is over.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The subnet as far as the engine knows it.
    pub fn topology(&self) -> &Topology {
        self.core.topology()
    }

    /// The port, to change what it simulates.
    pub fn port(&mut self) -> &mut dyn MadPort {
        &mut *self.port
    }

    /// Hands the engine a command, now.
    pub fn command(&mut self, command: Command) {
        self.core.handle(self.now, Input::Command(command));
    }

    /// Says whether the consumer is behind.
    pub fn pressure(&mut self, held: bool) {
        self.core.handle(self.now, Input::Pressure(held));
    }

    /// Runs until `end`, or until the session is over. Batches leave as they fill, every 10 ms
    /// of virtual time, and at the end.
    pub fn run_until(&mut self, end: Stamp, sink: &mut impl FnMut(SharedBatch)) {
        if !self.opened {
            self.opened = true;
            feed::open(&mut self.core, &mut *self.port, self.now);
        }
        let mut rounds = 0;
        while !self.finished {
            feed::receive(&mut self.core, &mut *self.port, self.now, usize::MAX);
            while let Some(output) = self.core.poll(self.now) {
                match output {
                    Output::Events => {
                        for event in self.core.events() {
                            if let Some(batch) = self.batch.push(event) {
                                sink(batch);
                            }
                        }
                    }
                    Output::Finished => self.finished = true,
                    other => feed::act(&mut self.core, &mut *self.port, self.now, other),
                }
            }
            let next = [self.core.deadline(), self.port.due()]
                .into_iter()
                .flatten()
                .min();
            let Some(next) = next.filter(|at| *at <= end && !self.finished) else {
                break;
            };
            if next > self.now {
                self.now = next;
                rounds = 0;
            } else {
                rounds += 1;
                if rounds > ROUNDS {
                    self.now = Stamp(self.now.0 + 1_000);
                    rounds = 0;
                }
            }
            if self.batch.due().is_some_and(|due| due <= self.now)
                && let Some(batch) = self.batch.take()
            {
                sink(batch);
            }
        }
        if !self.finished {
            self.now = self.now.max(end);
        }
        if let Some(batch) = self.batch.take() {
            sink(batch);
        }
    }
}
