//! An operator's baseline: what had been counted at a moment of his choosing, so that a screen
//! shows what came since. View state: it changes no model, no counter and no fabric.

use super::Model;
use super::counters::Mark;
use super::fec::FecMark;
use super::fixed::FixedMap;
use crate::fabric::PortKey;
use crate::port::Stamp;

/// What every port had counted at one moment.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    at: Stamp,
    marks: FixedMap<PortKey, Box<Mark>>,
    fec: FixedMap<PortKey, Box<FecMark>>,
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

    /// The same of its forward error correction.
    pub(super) fn fec_mark(&self, key: PortKey) -> Option<&FecMark> {
        self.fec.get(&key).map(|m| &**m)
    }
}

impl Model {
    /// What every port has counted by now.
    pub fn baseline(&self, now: Stamp) -> Baseline {
        let (mut marks, mut fec) = (FixedMap::default(), FixedMap::default());
        for node in &self.nodes {
            for (number, port) in node.ports.iter().enumerate() {
                let Ok(number) = u8::try_from(number) else {
                    continue;
                };
                if let Some(counters) = &port.counters {
                    marks.insert(node.id.port(number), Box::new(counters.mark()));
                }
                if let Some(of_port) = &port.fec {
                    fec.insert(node.id.port(number), Box::new(of_port.mark()));
                }
            }
        }
        Baseline {
            at: now,
            marks,
            fec,
        }
    }
}
