//! Where reading may begin, and which of these places is the best one.

use super::clock::Moment;

/// So much is read sooner than begun anew from a keyframe: histories reach back that far. Some
/// 300,000 MADs, less than half a second.
const BUDGET: u64 = 6 << 20;
/// Bytes that hold as much as one byte of a compressed recording.
const RATIO: u64 = 20;

/// A place where reading may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In which file.
    pub part: usize,
    /// The state of this moment is what it begins with.
    pub moment: Moment,
    /// Bytes from the beginning of the first file, as if all were compressed.
    pub bytes: u64,
    /// A session begins here: what came before does not matter.
    pub opens: bool,
    /// A keyframe in the midst of the file, else its beginning.
    pub keyframe: bool,
}

impl Place {
    /// Bytes of a file in the terms of [`Place::bytes`].
    pub const fn weigh(bytes: u64, compressed: bool) -> u64 {
        if compressed { bytes } else { bytes / RATIO }
    }
}

/// All of them, in order of time.
#[derive(Debug)]
pub struct Places {
    all: Vec<Place>,
    budget: u64,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            all: Vec::new(),
            budget: BUDGET,
        }
    }
}

impl Places {
    /// Adds one.
    pub fn add(&mut self, place: Place) {
        let at = self.all.partition_point(|p| p.moment <= place.moment);
        self.all.insert(at, place);
    }

    /// Reads no more than needed, however little that is.
    #[cfg(test)]
    pub fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
    }

    /// Those from the opening of the session that `to` is in up to `to`.
    fn until(&self, to: Moment) -> &[Place] {
        let end = self.all.partition_point(|p| p.moment <= to);
        let all = self.all.get(..end).unwrap_or_default();
        let opening = all.iter().rposition(|p| p.opens).unwrap_or(0);
        all.get(opening..).unwrap_or_default()
    }

    /// Where to begin so as to show `to`: the earliest place that is not too far before it.
    pub fn best(&self, to: Moment) -> Option<Place> {
        let places = self.until(to);
        let near = places.last()?.bytes;
        places
            .iter()
            .find(|p| near - p.bytes.min(near) <= self.budget)
            .copied()
    }

    /// Whether reading on from `from` takes longer than beginning anew for `to`.
    pub fn is_far(&self, from: Moment, to: Moment) -> bool {
        let (Some(here), Some(best)) = (self.until(from).last(), self.best(to)) else {
            return false;
        };
        best.moment > from && (best.opens || best.bytes > here.bytes.saturating_add(self.budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(secs: u64, mb: u64, opens: bool) -> Place {
        Place {
            part: 0,
            moment: Moment(secs),
            bytes: mb << 20,
            opens,
            keyframe: !opens,
        }
    }

    #[test]
    fn the_best_place_leaves_some_history_and_not_too_much_to_read() {
        let mut places = Places::default();
        assert_eq!(places.best(Moment(5)), None);
        // Added as they are found: openings first.
        for p in [place(0, 0, true), place(1000, 40, true)] {
            places.add(p);
        }
        for n in 1..10 {
            places.add(place(n * 100, n * 2, false));
        }
        let best = |to| places.best(Moment(to)).unwrap().moment.0;
        // Little was written by then: all of it is read.
        assert_eq!(best(50), 0);
        assert_eq!(best(399), 0);
        // 8 MiB: from the place 6 MiB before the last keyframe on.
        assert_eq!(best(410), 100);
        assert_eq!(best(950), 600);
        // Another session.
        assert_eq!(best(5000), 1000);
        assert!(!places.is_far(Moment(50), Moment(650)));
        assert!(places.is_far(Moment(50), Moment(950)));
        assert!(!places.is_far(Moment(940), Moment(950)));
        assert!(places.is_far(Moment(940), Moment(2000)));
        assert!(!places.is_far(Moment(1500), Moment(2000)));
    }
}
