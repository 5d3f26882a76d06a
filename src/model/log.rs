//! The event log: bounded, with repeats folded into one line.
//!
//! A line that says the same about the same port as an earlier one counts that one up instead.
//! Floods (one trap a hundred times a second, a whole fabric's counters reset) cost a bounded
//! number of lines, so that they cannot push everything else out.

use std::collections::VecDeque;
use std::time::Duration;

use super::fixed::FixedMap;
use super::view::LogLine;
use crate::event::Severity;
use crate::fabric::PortKey;
use crate::port::Stamp;

/// The most lines kept.
pub const LINES: usize = 10_000;
/// A repeat later than this begins a new line.
const FOLD_WITHIN: Duration = Duration::from_secs(300);
/// Lines of one kind within [`STORM_WINDOW`] after which the rest is only counted.
const STORM_LINES: u32 = 256;
const STORM_WINDOW: Duration = Duration::from_secs(10);

/// What a line is about, for folding and for holding back floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    Session,
    Device,
    Agent,
    Node,
    Link,
    PortState,
    Address,
    Sm,
    Sa,
    Notice,
    Timeout,
    Reset,
    Malformed,
    Digest,
    Note,
    Alert,
    Operator,
    Recording,
    Dropped,
}

impl Kind {
    const COUNT: usize = Kind::Dropped as usize + 1;

    const fn words(self) -> &'static str {
        match self {
            Kind::Session => "session events",
            Kind::Device => "device events",
            Kind::Agent => "agents refused",
            Kind::Node => "nodes that came or went",
            Kind::Link => "links that came or went",
            Kind::PortState => "port state changes",
            Kind::Address => "LID changes",
            Kind::Sm => "subnet manager events",
            Kind::Sa => "differences from the SA",
            Kind::Notice => "notices",
            Kind::Timeout => "nodes that do not answer",
            Kind::Reset => "counters reset by others",
            Kind::Malformed => "malformed MADs",
            Kind::Digest => "differences from the engine",
            Kind::Note => "notes",
            Kind::Alert => "alerts",
            Kind::Operator => "operator's acts",
            Kind::Recording => "recording events",
            Kind::Dropped => "gaps",
        }
    }
}

type Key = (Kind, Option<PortKey>, u64);

#[derive(Clone, Copy, Debug, Default)]
struct Storm {
    since: Stamp,
    lines: u32,
}

/// The log.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    lines: VecDeque<LogLine>,
    keys: VecDeque<Key>,
    /// Number of the oldest line kept, counted from the first ever.
    first: u64,
    index: FixedMap<Key, u64>,
    latest: Option<u64>,
    storms: [Storm; Kind::COUNT],
}

/// The same text has the same hash, in every session.
pub(super) fn hash_of(text: &str) -> u64 {
    use std::hash::Hasher;
    let mut h = super::fixed::Mix::default();
    h.write(text.as_bytes());
    h.finish()
}

impl EventLog {
    /// Adds a line, or counts its like up. `text` must be clean.
    pub fn add(
        &mut self,
        at: Stamp,
        kind: Kind,
        severity: Severity,
        about: Option<PortKey>,
        text: impl Into<String>,
    ) {
        let text = text.into();
        if self.fold(at, (kind, about, hash_of(&text)), &text) {
            return;
        }
        if self.in_storm(at, kind) {
            let text = format!("more {} than are listed", kind.words());
            if !self.fold(at, (kind, None, hash_of(&text)), &text) {
                self.push(at, kind, severity, None, text);
            }
            return;
        }
        self.push(at, kind, severity, about, text);
    }

    fn fold(&mut self, at: Stamp, key: Key, text: &str) -> bool {
        let Some(&number) = self.index.get(&key) else {
            return false;
        };
        let Some(line) = number
            .checked_sub(self.first)
            .and_then(|i| self.lines.get_mut(i as usize))
        else {
            return false;
        };
        if line.text != text || at.since(line.last) > FOLD_WITHIN {
            return false;
        }
        line.count += 1;
        line.last = line.last.max(at);
        self.latest = Some(number);
        true
    }

    fn in_storm(&mut self, at: Stamp, kind: Kind) -> bool {
        let Some(storm) = self.storms.get_mut(kind as usize) else {
            return false;
        };
        if at.since(storm.since) > STORM_WINDOW {
            *storm = Storm {
                since: at,
                lines: 0,
            };
        }
        storm.lines += 1;
        storm.lines > STORM_LINES
    }

    fn push(
        &mut self,
        at: Stamp,
        kind: Kind,
        severity: Severity,
        about: Option<PortKey>,
        text: String,
    ) {
        if self.lines.len() >= LINES {
            self.lines.pop_front();
            if let Some(key) = self.keys.pop_front()
                && self.index.get(&key) == Some(&self.first)
            {
                self.index.remove(&key);
            }
            self.first += 1;
        }
        let key = (kind, about, hash_of(&text));
        let number = self.first + self.lines.len() as u64;
        self.index.insert(key, number);
        self.keys.push_back(key);
        self.lines.push_back(LogLine {
            first: at,
            last: at,
            count: 1,
            severity,
            about,
            text,
        });
        self.latest = Some(number);
    }

    /// The lines in order of their first time, oldest first.
    pub fn lines(&self) -> &VecDeque<LogLine> {
        &self.lines
    }

    /// The line that was added or counted up last.
    pub fn latest(&self) -> Option<&LogLine> {
        let at = self.latest?.checked_sub(self.first)?;
        self.lines.get(at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::NodeId;

    fn add(log: &mut EventLog, secs: u64, port: u8, text: &str) {
        log.add(
            Stamp::from_secs(secs),
            Kind::Notice,
            Severity::Info,
            Some(NodeId::new(1).port(port)),
            text,
        );
    }

    #[test]
    fn repeats_fold_with_count_first_and_last() {
        let mut log = EventLog::default();
        add(&mut log, 1, 1, "link state changed");
        add(&mut log, 2, 2, "link state changed");
        add(&mut log, 3, 1, "link state changed");
        let got: Vec<_> = log
            .lines()
            .iter()
            .map(|l| (l.first.0 / 1_000_000_000, l.last.0 / 1_000_000_000, l.count))
            .collect();
        assert_eq!(got, [(1, 3, 2), (2, 2, 1)]);
        assert_eq!(log.latest().unwrap().count, 2);
        // Five minutes later it is news again.
        add(&mut log, 304, 1, "link state changed");
        assert_eq!(log.lines().len(), 3);
    }

    #[test]
    fn a_flood_costs_a_bounded_number_of_lines() {
        let mut log = EventLog::default();
        log.add(Stamp::ZERO, Kind::Sm, Severity::Warning, None, "SM moved");
        for i in 0..100_000 {
            add(&mut log, 1, 0, &format!("notice {i}"));
        }
        // One before, 256 of the flood, one that counts the rest.
        assert_eq!(log.lines().len(), 258);
        assert_eq!(log.latest().unwrap().count, 100_000 - 256);
        assert_eq!(log.latest().unwrap().text, "more notices than are listed");
    }

    #[test]
    fn the_oldest_lines_go_first() {
        let mut log = EventLog::default();
        for i in 0..LINES as u64 + 5 {
            add(&mut log, i, 0, &format!("line {i}"));
        }
        assert_eq!(log.lines().len(), LINES);
        assert_eq!(log.lines()[0].text, "line 5");
        // A forgotten line does not fold.
        add(&mut log, LINES as u64 + 5, 0, "line 0");
        assert_eq!(log.latest().unwrap().count, 1);
    }
}
