//! Tables of very many ports: no row is made that is not in sight or did not change.
//!
//! Each row has a number by which it is sorted, and whether it passes the filter. Both are
//! worked out again for the ports of nodes that changed since the last frame, and besides for a
//! part of the others, in turn: that a row is stale is told by no change. Only the rows in sight,
//! and some around them, are sorted: the others need but stand on their side of these. A filter
//! looks at a row again when what it can find there is another.

use std::ops::Range;

use super::{Column, RowKey, TableState};
use crate::fabric::{NodeId, PortKey};
use crate::model::Part;
use crate::tui::theme::Look;

/// Above so many ports a table is a large one.
pub const LARGE: usize = 8_192;
/// Each node is looked at again once in so many frames, changed or not.
const ROUND: usize = 16;
/// So many rows above and below those in sight are in order, so that scrolling sorts seldom.
const REACH: usize = 500;

/// What a row is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// A number; the least comes first.
    Number(u64),
    /// The place of a port among all in order of name and number; none comes last.
    Place(Option<PortKey>),
}

impl Rank {
    /// A number with a fraction; a missing one is the least.
    pub fn float(v: Option<f64>) -> Rank {
        let Some(v) = v else {
            return Rank::Number(0);
        };
        // Bits of floating-point numbers, made to ascend as the numbers do.
        let bits = v.to_bits();
        let ordered = match bits >> 63 {
            0 => bits | 1 << 63,
            _ => !bits,
        };
        Rank::Number(ordered.max(1))
    }
}

/// Where a large table's rows come from.
pub trait Source<R> {
    /// Which ports there are, in ascending order.
    fn list(&self) -> Vec<PortKey>;
    /// Grows whenever the list or a name is another one.
    fn layout(&self) -> u64;
    /// Grows whenever a row of this node's ports is another one.
    fn changed(&self, node: NodeId) -> u64;
    /// A node's name.
    fn name(&self, node: NodeId) -> &str;
    /// A port's row, if it has one.
    fn row(&self, key: PortKey) -> Option<R>;
    /// A node's rows in order of port, as far as sorting by the column of this title, and what
    /// a filter finds there, needs them; with all that [`Source::keeps`] needs if `filtered`.
    fn each(&self, node: NodeId, title: &str, filtered: bool, each: &mut dyn FnMut(PortKey, R));
    /// What a row is sorted by in the column of this title.
    fn rank(&self, title: &str, row: &R) -> Rank;
    /// Grows whenever a node or one of its links is another one: what a filter could look at
    /// besides [`Source::sight`] and names.
    fn shape(&self, node: NodeId) -> u64;
    /// A number for what else a filter could look at: while it is the same, the row passes or
    /// does not as before. `None` where there is no filter.
    fn sight(&self, row: &R) -> Option<u64>;
    /// It passes the filter.
    fn keeps(&self, row: &R) -> bool;
    /// A node's part of the totals, where they are shown.
    fn part(&self, node: NodeId) -> Option<Part>;
}

/// The ports of a node, as a part of the list.
#[derive(Clone, Debug)]
struct Span {
    node: NodeId,
    rows: Range<usize>,
    changed: u64,
    shape: u64,
    part: Option<Part>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The port has no row here.
    #[default]
    Absent,
    /// It has one that does not pass the filter.
    Hidden,
    Kept,
}

/// What is kept of a large table between frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Large {
    layout: Option<u64>,
    revision: Option<u64>,
    sorted: Option<(usize, bool, String)>,
    list: Vec<PortKey>,
    spans: Vec<Span>,
    /// Place of each row in order of name and number.
    place: Vec<u32>,
    value: Vec<u64>,
    state: Vec<State>,
    /// What a filter sees of each row.
    sight: Vec<u64>,
    /// Rows that there are, kept or hidden.
    rows: usize,
    turn: usize,
    descending: bool,
    /// The rows that pass the filter: what they are sorted by, and in the lowest bits their
    /// numbers.
    kept: Vec<u128>,
    /// The part of them that is in order: what comes before is less, what comes after is more.
    exact: Range<usize>,
}

impl Large {
    fn lay_out<R>(&mut self, source: &impl Source<R>) {
        self.list = source.list();
        self.spans.clear();
        let mut from = 0;
        for ports in self.list.chunk_by(|a, b| a.node == b.node) {
            let Some(first) = ports.first() else { continue };
            self.spans.push(Span {
                node: first.node,
                rows: from..from + ports.len(),
                changed: 0,
                shape: 0,
                part: None,
            });
            from += ports.len();
        }
        let mut named: Vec<&Span> = self.spans.iter().collect();
        named.sort_by(|a, b| super::natural(source.name(a.node), source.name(b.node)));
        self.place = vec![0; self.list.len()];
        let rows = named.iter().flat_map(|span| span.rows.clone());
        for (place, row) in (0..).zip(rows) {
            if let Some(at) = self.place.get_mut(row) {
                *at = place;
            }
        }
        self.value = vec![0; self.list.len()];
        self.state = vec![State::Absent; self.list.len()];
        self.sight = vec![0; self.list.len()];
        self.kept.clear();
        self.exact = 0..0;
        self.rows = 0;
    }

    fn number(&self, rank: Rank) -> u64 {
        match rank {
            Rank::Number(n) => n,
            Rank::Place(key) => key
                .and_then(|key| self.list.binary_search(&key).ok())
                .and_then(|at| self.place.get(at))
                .map_or(u64::MAX, |place| u64::from(*place)),
        }
    }

    /// Looks at the rows again that may have changed; says whether any did.
    fn look<R>(&mut self, source: &impl Source<R>, title: &str, all: bool) -> bool {
        let mut spans = std::mem::take(&mut self.spans);
        let mut changed = false;
        self.turn = (self.turn + 1) % ROUND;
        for (at, span) in spans.iter_mut().enumerate() {
            let now = source.changed(span.node);
            if !all && now == span.changed && at % ROUND != self.turn {
                continue;
            }
            span.changed = now;
            span.part = source.part(span.node);
            let shape = source.shape(span.node);
            let same = std::mem::replace(&mut span.shape, shape) == shape && !all;
            let mut at = span.rows.start;
            source.each(span.node, title, all, &mut |key, made| {
                while at < span.rows.end && self.list.get(at).is_some_and(|k| *k < key) {
                    changed |= self.note(at, (State::Absent, 0));
                    at += 1;
                }
                if at < span.rows.end && self.list.get(at) == Some(&key) {
                    let now = match self.keeps(source, at, &made, (same, all)) {
                        true => (State::Kept, self.number(source.rank(title, &made))),
                        false => (State::Hidden, 0),
                    };
                    changed |= self.note(at, now);
                    at += 1;
                }
            });
            for at in at..span.rows.end {
                changed |= self.note(at, (State::Absent, 0));
            }
        }
        self.spans = spans;
        changed
    }

    /// Whether a row passes the filter. As long as what the filter looks at is the same, it does
    /// or does not as before.
    fn keeps<R>(
        &mut self,
        source: &impl Source<R>,
        row: usize,
        made: &R,
        (same, all): (bool, bool),
    ) -> bool {
        let Some(sight) = source.sight(made) else {
            return true;
        };
        let (Some(before), Some(state)) = (self.sight.get_mut(row), self.state.get(row)) else {
            return false;
        };
        let same = std::mem::replace(before, sight) == sight && same;
        match state {
            _ if all => source.keeps(made),
            State::Kept if same => true,
            State::Hidden if same => false,
            // It was made without names.
            _ => self
                .list
                .get(row)
                .and_then(|key| source.row(*key))
                .is_some_and(|row| source.keeps(&row)),
        }
    }

    /// What a row is now; says whether it was something else.
    fn note(&mut self, row: usize, now: (State, u64)) -> bool {
        let slots = (self.state.get_mut(row), self.value.get_mut(row));
        let (Some(state), Some(value)) = slots else {
            return false;
        };
        if (*state, *value) == now {
            return false;
        }
        self.rows += usize::from(now.0 != State::Absent);
        self.rows -= usize::from(*state != State::Absent);
        (*state, *value) = now;
        true
    }

    /// What a row is sorted by: its value, then its place in order of name and number.
    fn key(&self, number: u32) -> u128 {
        let row = number as usize;
        let value = self.value.get(row).copied().unwrap_or(0);
        let place = self.place.get(row).copied().unwrap_or(0);
        let value = if self.descending { !value } else { value };
        u128::from(value) << 64 | u128::from(place) << 32 | u128::from(number)
    }

    /// Collects the rows that pass the filter, in any order.
    fn collect(&mut self, descending: bool) {
        self.descending = descending;
        let mut kept = std::mem::take(&mut self.kept);
        kept.clear();
        let rows = (0..).zip(&self.state);
        kept.extend(
            rows.filter(|(_, state)| **state == State::Kept)
                .map(|(row, _)| self.key(row)),
        );
        self.kept = kept;
        self.exact = 0..0;
    }

    /// Which of the rows that pass the filter a port's is, in order.
    fn rank(&self, port: PortKey) -> Option<usize> {
        let row = self.list.binary_search(&port).ok()?;
        if self.state.get(row) != Some(&State::Kept) {
            return None;
        }
        let key = self.key(u32::try_from(row).ok()?);
        Some(self.kept.iter().filter(|other| **other < key).count())
    }

    /// Makes sure that these places of `shown`, and some around them, hold their rows. All other
    /// places hold none in particular.
    fn expose(&mut self, shown: &mut Vec<u32>, places: Range<usize>) {
        let all = self.kept.len();
        let wanted = places.start.min(all)..places.end.min(all);
        shown.resize(all, 0);
        if self.exact.start <= wanted.start && wanted.end <= self.exact.end {
            return;
        }
        let reach = REACH.max(2 * wanted.len());
        let from = wanted.start.saturating_sub(reach);
        let to = wanted.end.saturating_add(reach).min(all);
        let mut rows = self.kept.as_mut_slice();
        if to < all {
            (rows, ..) = rows.select_nth_unstable(to);
        }
        if 0 < from && from < to {
            rows.select_nth_unstable(from);
        }
        let Some(rows) = rows.get_mut(from..) else {
            return;
        };
        rows.sort_unstable();
        for (slot, key) in shown.iter_mut().skip(from).zip(rows) {
            *slot = *key as u32;
        }
        self.exact = from..to;
    }

    /// The port of a row.
    fn port(&self, row: u32) -> Option<PortKey> {
        self.list.get(row as usize).copied()
    }
}

impl TableState {
    /// Brings order and selection of a large table up to date.
    pub fn update_large<R>(
        &mut self,
        source: &impl Source<R>,
        columns: &[Column<R>],
        revision: u64,
        renewals: u64,
        filter: &str,
    ) {
        self.heads.clear();
        self.heads
            .extend(columns.iter().map(|c| (c.title, c.descending)));
        let mut large = self.large.take().unwrap_or_default();
        let layout = source.layout().wrapping_add(renewals << 40);
        let sorted = (self.sort, self.reverse, filter.to_owned());
        let laid_out = large.layout != Some(layout);
        if laid_out {
            large.layout = Some(layout);
            large.lay_out(source);
        }
        let all = laid_out || large.sorted.as_ref() != Some(&sorted);
        if all || large.revision != Some(revision) {
            large.revision = Some(revision);
            large.sorted = Some(sorted);
            let title = columns.get(self.sort).map_or("", |c| c.title);
            let changed = large.look(source, title, all);
            if all {
                // Another filter or another order: as wide as what is in sight needs.
                self.wants = columns.iter().map(|c| c.min).collect();
            }
            if all || changed {
                large.collect(self.is_descending(columns));
            }
        }
        // Large and small tables are never looked at by one state at once.
        self.cache = None;
        self.keys.clear();
        self.follow_large(&mut large);
        self.large = Some(large);
    }

    /// Finds the selected row of a large table again.
    fn follow_large(&mut self, large: &mut Large) {
        let found = match &self.selected {
            Some(RowKey::Port(port)) => large.rank(*port),
            _ => None,
        };
        self.at = match found {
            Some(at) => at,
            None if self.selected.is_none() => 0,
            // The selected row is gone: stay at its place.
            None => self.at.min(large.kept.len().saturating_sub(1)),
        };
        large.expose(&mut self.shown, self.at..self.at + 1);
        self.current = self.row_of_large(large, self.at);
    }

    fn row_of_large(&self, large: &Large, at: usize) -> Option<RowKey> {
        let row = self.shown.get(at)?;
        large.port(*row).map(RowKey::Port)
    }

    /// The row at a place, if this is a large table: its outer `None` says that it is none.
    pub(super) fn large_row_at(&mut self, at: usize) -> Option<Option<RowKey>> {
        let mut large = self.large.take()?;
        large.expose(&mut self.shown, at..at + 1);
        let row = self.row_of_large(&large, at);
        self.large = Some(large);
        Some(row)
    }

    /// Rows that there are in a large table, whether they pass the filter or not.
    pub(super) fn large_rows(&self) -> Option<usize> {
        self.large.as_ref().map(|large| large.rows)
    }

    /// Each node's part of the totals, in order of GUID.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let spans = self.large.iter().flat_map(|l| &l.spans);
        spans.filter_map(|span| span.part)
    }

    /// The rows in sight of a large table with `height` lines, made now.
    pub(super) fn in_sight<R>(
        &mut self,
        source: &impl Source<R>,
        columns: &[Column<R>],
        look: &Look,
        height: u16,
    ) -> Vec<(u32, R)> {
        self.scroll(height);
        let mut rows = Vec::new();
        if let Some(mut large) = self.large.take() {
            large.expose(&mut self.shown, self.top..self.top + self.page);
            let shown = self.shown.iter().skip(self.top).take(self.page);
            rows.extend(shown.filter_map(|&row| Some((row, source.row(large.port(row)?)?))));
            self.large = Some(large);
        }
        // Columns only grow while the order is the same: nothing jumps about while scrolling.
        self.wants = columns
            .iter()
            .enumerate()
            .map(|(i, c)| {
                let Some(want) = c.want else { return c.max };
                let before = self.wants.get(i).copied().unwrap_or(0);
                rows.iter()
                    .map(|(_, row)| want(row, look))
                    .fold(before, u16::max)
                    .clamp(c.min, c.max)
            })
            .collect();
        rows
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever part of a table was looked at before, a part of it holds the rows that it
        /// holds where all of them are sorted, and each row knows its place.
        #[test]
        fn every_part_of_a_table_is_as_if_all_of_it_were_sorted(
            values in prop::collection::vec(0u64..50, 1..4_000),
            looks in prop::collection::vec((0usize..4_100, 0usize..60), 1..8),
            descending: bool,
        ) {
            let ports = |row: usize| NodeId::new(row as u64 / 40).port((row % 40) as u8);
            let mut large = Large {
                list: (0..values.len()).map(ports).collect(),
                // Every ninth is hidden; names are in the opposite order of GUIDs.
                state: (0..values.len())
                    .map(|row| if row % 9 == 4 { State::Hidden } else { State::Kept })
                    .collect(),
                place: (0..values.len() as u32).rev().collect(),
                value: values.clone(),
                ..Large::default()
            };
            large.collect(descending);
            let mut want: Vec<usize> = (0..values.len()).filter(|row| row % 9 != 4).collect();
            want.sort_by(|a, b| {
                let by_value = values[*a].cmp(&values[*b]);
                let by_value = if descending { by_value.reverse() } else { by_value };
                by_value.then(b.cmp(a))
            });
            let mut shown = Vec::new();
            for (from, len) in looks {
                large.expose(&mut shown, from..from + len);
                prop_assert_eq!(shown.len(), want.len());
                for at in from.min(want.len())..(from + len).min(want.len()) {
                    prop_assert_eq!(shown[at] as usize, want[at]);
                    prop_assert_eq!(large.rank(ports(want[at])), Some(at));
                }
            }
            prop_assert_eq!(large.rank(ports(4)), None);
        }
    }
}
