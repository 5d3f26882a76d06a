//! An operator's baseline: what had been counted at a moment of his choosing, so that a screen
//! shows what came since. View state: it changes no model, no counter and no fabric.

use super::Model;
use super::counters::Mark;
use super::fixed::FixedMap;
use crate::fabric::PortKey;
use crate::port::Stamp;

/// What every port had counted at one moment.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    at: Stamp,
    marks: FixedMap<PortKey, Box<Mark>>,
}

impl Baseline {
    /// A moment at which nothing had been counted.
    pub fn nothing_at(at: Stamp) -> Baseline {
        Baseline {
            at,
            ..Baseline::default()
        }
    }

    /// The moment.
    pub const fn at(&self) -> Stamp {
        self.at
    }

    /// What a port had counted; `None` for one that was not read before: all it counts is new.
    pub(super) fn mark(&self, key: PortKey) -> Option<&Mark> {
        self.marks.get(&key).map(|m| &**m)
    }
}

impl Model {
    /// What every port has counted by now.
    pub fn baseline(&self, now: Stamp) -> Baseline {
        let mut marks = FixedMap::default();
        for node in &self.nodes {
            for (number, port) in node.ports.iter().enumerate() {
                if let (Some(counters), Ok(number)) = (&port.counters, u8::try_from(number)) {
                    marks.insert(node.id.port(number), Box::new(counters.mark()));
                }
            }
        }
        Baseline { at: now, marks }
    }
}
