//! The state of everything, folded from the one stream.
//!
//! [`Model::apply`] is a pure fold over events: the same events give the same model, live,
//! replayed or watched. Alerts and staleness change only there; ages come from the `now` given
//! to a view. Pause, filter, sort and baselines are view state and live with the screen.
//!
//! This room must never do I/O, read a clock, take a lock, or hold a randomly ordered map.

mod num;
pub mod view;

pub use num::Num;

use crate::event::Event;
use crate::fabric::Topology;

/// The state of a session.
#[derive(Debug, Default)]
pub struct Model {
    topology: Topology,
}

impl Model {
    /// An empty model: nothing is known yet.
    pub fn new() -> Model {
        Model::default()
    }

    /// The subnet, as far as it is known.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Folds one event in.
    pub fn apply(&mut self, event: &Event) {
        let _ = event;
    }
}
