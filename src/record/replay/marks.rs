//! What a recording holds and where: its extent and the moments worth going to.
//!
//! Filled while a second reader scans the files beside the one that plays. Bounded: a file of
//! any length leaves at most [`MAX_MARKS`] marks.

use std::time::Duration;

use super::clock::Moment;
use crate::event::{Event, Severity, What};
use crate::mad::Method;

/// The most marks that are kept; beyond that, the least of them are thinned out.
pub const MAX_MARKS: usize = 1 << 16;
/// The same mark again within this time is not another one.
const REPEAT: Duration = Duration::from_secs(1);
/// Longest text of a mark, in characters.
const MAX_TEXT: usize = 120;
/// A stretch without a mark that is longer than this is idle.
const IDLE: Duration = Duration::from_secs(10);
/// Playing at its own pace begins this long before the mark that ends an idle stretch.
const LEAD: Duration = Duration::from_secs(2);

/// Why a moment is worth going to. Ordered: each kind counts among those before it, but for
/// bookmarks, which are nobody's alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkKind {
    /// Something for the event log.
    Event,
    /// Something that asks for a look.
    Alert,
    /// Somebody set a bookmark.
    Bookmark,
}

impl MarkKind {
    /// Whether who looks for `wanted` stops here.
    pub fn is_a(self, wanted: MarkKind) -> bool {
        wanted == MarkKind::Event || self == wanted
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<MarkKind> {
        [MarkKind::Event, MarkKind::Alert, MarkKind::Bookmark]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// In words, for "no later …".
    pub const fn name(self) -> &'static str {
        match self {
            MarkKind::Event => "event",
            MarkKind::Alert => "alert",
            MarkKind::Bookmark => "bookmark",
        }
    }
}

/// A moment worth going to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Moment,
    /// Why.
    pub kind: MarkKind,
    /// In words. Part of it may come from the fabric: not fit for a terminal as it is.
    pub text: Box<str>,
}

/// Says of each event, in order, whether it is worth a mark.
pub trait Observer: Send {
    /// Takes the next event.
    fn observe(&mut self, event: &Event) -> Option<(MarkKind, String)>;

    /// What follows belongs to another session.
    fn reset(&mut self) {}
}

/// Judges each event by itself: sees what the stream says in so many words, but no changes
/// that only a comparison with earlier replies shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByEvent;

impl Observer for ByEvent {
    fn observe(&mut self, event: &Event) -> Option<(MarkKind, String)> {
        use MarkKind::{Alert, Bookmark, Event};
        Some(match &event.what {
            What::Opened(o) => (Event, format!("session opened on {}", o.host)),
            What::Closed { why } => (Event, format!("session closed: {why}")),
            What::Agent(a) => (Alert, format!("agent refused: {}", a.refused.as_ref()?)),
            What::SendFailed(f) if f.last => (Event, format!("send failed: {}", f.why)),
            What::Malformed(m) => (Event, format!("malformed: {}", m.why)),
            What::LocalPort(_) => (Event, "local port changed".into()),
            What::DeviceGone { why } => (Alert, format!("device gone: {why}")),
            What::DeviceBack => (Event, "device back".into()),
            What::BackOff(b) if b.failures == 0 => (Event, "a node answers again".into()),
            What::BackOff(b) if b.failures == 1 => (Alert, "a node does not answer".into()),
            What::Settings(_) => (Event, "settings changed".into()),
            What::ClockStep { .. } => (Event, "wall clock was set".into()),
            What::Mark { text } => (Bookmark, text.to_string()),
            What::Act { text } => (Event, text.to_string()),
            What::RecordingStopped { why } => (Alert, why.to_string()),
            What::Dropped { count } => (Alert, format!("{count} events lost")),
            What::Note { severity, text, .. } => {
                let kind = if *severity > Severity::Info {
                    Alert
                } else {
                    Event
                };
                (kind, text.to_string())
            }
            What::Received(r) if matches!(r.mad.method(), Method::Trap | Method::Report) => {
                (Event, "notice".into())
            }
            _ => return None,
        })
    }
}

/// Extent and marks, as far as they are known.
#[derive(Debug, Default)]
pub struct Index {
    start: Option<Moment>,
    end: Moment,
    /// `end` is the end.
    extent: bool,
    /// All marks were found.
    complete: bool,
    /// All before this was seen.
    scanned: Moment,
    /// In order of time.
    marks: Vec<Mark>,
    thinned: bool,
    revision: u64,
}

impl Index {
    /// Nothing is known but the beginning.
    pub fn new(start: Option<Moment>) -> Index {
        Index {
            start,
            end: start.unwrap_or_default(),
            ..Index::default()
        }
    }

    /// When the first event was.
    pub fn start(&self) -> Option<Moment> {
        self.start
    }

    /// The latest moment known to be part of the recording.
    pub fn end(&self) -> Moment {
        self.end
    }

    /// Whether [`Index::end`] is the end.
    pub fn is_extent_known(&self) -> bool {
        self.extent
    }

    /// Whether all of it was seen.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether marks were left out, since there are too many.
    pub fn is_thinned(&self) -> bool {
        self.thinned
    }

    /// Grows when marks come.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The marks in order of time.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Marks before `at` are all there.
    pub fn scanned_to(&mut self, at: Moment) {
        self.reach(at);
        self.scanned = self.scanned.max(at);
    }

    /// The recording goes at least to `at`.
    pub fn reach(&mut self, at: Moment) {
        self.start.get_or_insert(at);
        self.end = self.end.max(at);
    }

    /// It goes no further than to what was reached.
    pub fn know_extent(&mut self) {
        self.extent = true;
    }

    /// All of it was seen.
    pub fn finish(&mut self) {
        self.extent = true;
        self.complete = true;
    }

    /// Adds a mark.
    pub fn add(&mut self, at: Moment, kind: MarkKind, text: &str) {
        let text: Box<str> = match text.char_indices().nth(MAX_TEXT) {
            Some((end, _)) => text.get(..end).unwrap_or_default().into(),
            None => text.into(),
        };
        let place = self.marks.partition_point(|m| m.at <= at);
        let repeats = self.marks.get(..place).is_some_and(|before| {
            before
                .iter()
                .rev()
                .take(8)
                .any(|m| m.kind == kind && m.text == text && at.since(m.at) < REPEAT)
        });
        if repeats && kind != MarkKind::Bookmark {
            return;
        }
        if self.marks.len() >= MAX_MARKS && !self.thin(kind) {
            return;
        }
        // Thinning moved things.
        let place = self.marks.partition_point(|m| m.at <= at);
        self.marks.insert(place, Mark { at, kind, text });
        self.revision += 1;
    }

    /// Makes room for a mark of `kind` among the least of them; says whether there is some now.
    fn thin(&mut self, kind: MarkKind) -> bool {
        self.thinned = true;
        for least in [MarkKind::Event, MarkKind::Alert] {
            if least > kind {
                break;
            }
            let mut odd = false;
            self.marks.retain(|m| {
                odd ^= m.kind == least;
                m.kind != least || odd
            });
            if self.marks.len() < MAX_MARKS {
                return true;
            }
        }
        false
    }

    /// The first mark of a kind after `at`.
    pub fn next(&self, at: Moment, kind: MarkKind) -> Option<&Mark> {
        let from = self.marks.partition_point(|m| m.at <= at);
        self.marks.get(from..)?.iter().find(|m| m.kind.is_a(kind))
    }

    /// The last mark of a kind before `at`.
    pub fn previous(&self, at: Moment, kind: MarkKind) -> Option<&Mark> {
        let to = self.marks.partition_point(|m| m.at < at);
        self.marks.get(..to)?.iter().rfind(|m| m.kind.is_a(kind))
    }

    /// If nothing worth a mark happens for a while after `at`: where it becomes worth watching
    /// again, as far as is known.
    pub fn idle_until(&self, at: Moment) -> Option<Moment> {
        let to = match self.next(at, MarkKind::Event) {
            Some(mark) => mark.at.before(LEAD),
            None if self.complete => self.end,
            None => self.scanned.before(LEAD),
        };
        (to > at.after(IDLE)).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m(secs: u64) -> Moment {
        Moment(secs * 1_000_000_000)
    }

    #[test]
    fn marks_are_found_by_kind_and_direction() {
        let mut index = Index::new(Some(m(0)));
        index.add(m(30), MarkKind::Alert, "b");
        index.add(m(10), MarkKind::Event, "a");
        index.add(m(50), MarkKind::Bookmark, "c");
        let next = |at, kind| index.next(m(at), kind).map(|m| &*m.text);
        assert_eq!(next(0, MarkKind::Event), Some("a"));
        assert_eq!(next(10, MarkKind::Event), Some("b"));
        assert_eq!(next(0, MarkKind::Alert), Some("b"));
        assert_eq!(next(30, MarkKind::Alert), None);
        assert_eq!(next(0, MarkKind::Bookmark), Some("c"));
        let previous = |at, kind| index.previous(m(at), kind).map(|m| &*m.text);
        assert_eq!(previous(30, MarkKind::Event), Some("a"));
        assert_eq!(previous(31, MarkKind::Event), Some("b"));
        assert_eq!(previous(30, MarkKind::Alert), None);
    }

    #[test]
    fn floods_neither_grow_without_bound_nor_push_bookmarks_out() {
        let mut index = Index::new(Some(m(0)));
        index.add(m(3), MarkKind::Bookmark, "mine");
        for n in 0..200_000u64 {
            index.add(Moment(n * 1_000_000_000), MarkKind::Event, "notice");
            // The same again within the second.
            index.add(Moment(n * 1_000_000_000 + 5), MarkKind::Event, "notice");
        }
        assert!(index.marks().len() <= MAX_MARKS);
        assert!(index.is_thinned());
        assert_eq!(index.next(m(0), MarkKind::Bookmark).unwrap().at, m(3));
        assert!(index.marks().is_sorted_by_key(|m| m.at));
        // Old and new times are both still there.
        assert!(index.next(m(199_000), MarkKind::Event).is_some());
        assert!(index.previous(m(10_000), MarkKind::Event).is_some());
    }

    #[test]
    fn idle_stretches_end_shortly_before_the_next_mark() {
        let mut index = Index::new(Some(m(0)));
        index.reach(m(200));
        index.scanned_to(m(100));
        index.add(m(60), MarkKind::Event, "x");
        assert_eq!(index.idle_until(m(5)), Some(m(58)));
        assert_eq!(index.idle_until(m(55)), None);
        // Not all is known yet: no farther than what is.
        assert_eq!(index.idle_until(m(61)), Some(m(98)));
        index.finish();
        assert_eq!(index.idle_until(m(61)), Some(m(200)));
        assert_eq!(index.idle_until(m(195)), None);
    }
}
