//! The engine over the built-in simulator in virtual time, folded by a model as it goes.

use fabtop::command::Command;
use fabtop::engine::{Config, Virtual};
use fabtop::event::{Event, ReadingEnded, Topic, What};
use fabtop::fabric::PortKey;
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::sim::{Fabric, Faults, Script, SimOptions, SimPort};

/// A session.
pub struct Bench {
    pub engine: Virtual,
    pub model: Model,
    pub events: Vec<Event>,
    pub fabric: Fabric,
}

impl Bench {
    /// A session at its beginning.
    pub fn new(fabric: Fabric, options: SimOptions) -> Bench {
        Bench::with(fabric, options, Config::default())
    }

    /// A session with settings of its own.
    pub fn with(fabric: Fabric, options: SimOptions, config: Config) -> Bench {
        let port = SimPort::new(fabric.clone(), options).unwrap();
        Bench {
            engine: Virtual::new(Box::new(port), config),
            model: Model::new(),
            events: Vec::new(),
            fabric,
        }
    }

    /// A session in which this happens, and nothing else.
    pub fn scripted(fabric: Fabric, script: Script) -> Bench {
        let options = SimOptions {
            faults: Faults::Script(script),
            ..SimOptions::healthy()
        };
        Bench::new(fabric, options)
    }

    /// Lets it go on.
    pub fn run(&mut self, until: Stamp) {
        let (model, events) = (&mut self.model, &mut self.events);
        self.engine.run_until(until, &mut |batch| {
            for event in &batch.events {
                model.apply(event);
            }
            events.extend(batch.events.iter().cloned());
        });
    }

    /// Has something read, and gives the events of that and how it ended.
    pub fn read(&mut self, topic: Topic) -> (Vec<Event>, ReadingEnded) {
        let from = self.events.len();
        let by = self.engine.now().0 / 1_000_000 + 120_000;
        self.engine.command(Command::Read(topic.clone()));
        loop {
            let next = Stamp::from_millis(self.engine.now().0 / 1_000_000 + 10);
            assert!(next < Stamp::from_millis(by), "{topic:?} is not read");
            self.run(next);
            let ended = self.events[from..].iter().find_map(|e| match &e.what {
                What::Reading(r) if r.topic == topic => r.ended,
                _ => None,
            });
            if let Some(ended) = ended {
                return (self.events[from..].to_vec(), ended);
            }
        }
    }

    /// A port, by its node's name.
    pub fn key(&self, name: &str, port: u8) -> PortKey {
        self.fabric.key(name, port).unwrap()
    }

    /// The base LID of a port.
    pub fn lid(&self, key: PortKey) -> u16 {
        let node = self.model.topology().node(key.node).unwrap();
        node.lid(key.port).unwrap()
    }

    /// Lines of the log that hold this text.
    pub fn log(&self, text: &str) -> Vec<String> {
        let lines = self.model.log().iter();
        lines
            .filter(|l| l.text.contains(text))
            .map(|l| l.text.clone())
            .collect()
    }
}

/// What was sent: class, method, attribute and modifier of each MAD.
pub fn sent(events: &[Event]) -> Vec<(u8, u8, u16, u32)> {
    events
        .iter()
        .filter_map(|e| match &e.what {
            What::Sent(s) => Some((
                s.mad.class().code(),
                s.mad.method().code(),
                s.mad.attr_id(),
                s.mad.attr_mod(),
            )),
            _ => None,
        })
        .collect()
}
