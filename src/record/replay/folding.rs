//! Finds the moments worth going to by folding: what the event log would say of each event.

use super::marks::{MarkKind, Observer};
use crate::event::{Event, Severity, What};
use crate::model::Model;
use crate::port::Stamp;

/// Makes a mark of each line that the event log gets, and of each bookmark.
///
/// Sees what only a comparison with earlier replies shows: links that go down, nodes that come
/// and go, another master SM. The first look at the fabric is one long list of such changes and
/// makes no marks.
#[derive(Debug, Default)]
pub struct ByModel {
    model: Model,
    /// First time, last time and count of the log's newest line.
    last: Option<(Stamp, Stamp, u64)>,
    /// The first discovery is over.
    settled: bool,
}

impl ByModel {
    /// An observer at a session's beginning.
    pub fn new() -> ByModel {
        ByModel::default()
    }
}

impl Observer for ByModel {
    fn observe(&mut self, event: &Event) -> Option<(MarkKind, String)> {
        self.model.apply(event);
        let line = self.model.latest()?;
        let now = (line.first, line.last, line.count);
        let is_new = self.last.replace(now) != Some(now);
        if let What::Mark { text } = &event.what {
            return Some((MarkKind::Bookmark, text.to_string()));
        }
        let first = matches!(event.what, What::SweepEnded(_)) && !self.settled;
        if !is_new || first {
            self.settled |= first;
            return None;
        }
        let kind = match line.severity {
            Severity::Info if !self.settled => return None,
            Severity::Info => MarkKind::Event,
            Severity::Warning | Severity::Critical => MarkKind::Alert,
        };
        Some((kind, line.text.clone()))
    }

    fn reset(&mut self) {
        *self = ByModel::new();
    }
}

/// An observer for each of a replay's two readers.
pub fn by_model() -> Box<dyn Observer> {
    Box::new(ByModel::new())
}

/// Reads everything that a tape yields up to `until` (all of it if that is `None`), and gives
/// the model and the session's time there.
pub fn fold(tape: &mut impl super::Tape, until: Option<super::Moment>) -> Option<(Model, Stamp)> {
    let mut model = Model::new();
    let mut anchor = None;
    while let Some(played) = tape.next() {
        if until.is_some_and(|until| played.moment > until) {
            break;
        }
        if played.fresh {
            model = Model::new();
        }
        anchor = Some(played.moment.0.saturating_sub(played.event.at.0));
        model.apply(&played.event);
    }
    let now = until.map_or(Stamp::ZERO, |until| {
        Stamp(until.0.saturating_sub(anchor.unwrap_or(until.0)))
    });
    let now = now.max(model.last());
    anchor.map(|_| (model, now))
}
