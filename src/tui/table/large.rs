//! Tables of very many ports: no row is made that is not in sight or did not change.
//!
//! Each row has a number by which it is sorted, and whether it passes the filter. Both are
//! worked out again for the ports of nodes that changed since the last frame, and besides for a
//! part of the others, in turn: that a row is stale is told by no change. Rows that changed are
//! sorted among themselves and merged with the rest, which still is in order.

use super::{Column, RowKey, TableState};
use crate::fabric::{NodeId, PortKey};
use crate::model::Part;
use crate::tui::theme::Look;

/// Above so many ports a table is a large one.
pub const LARGE: usize = 8_192;
/// Each node is looked at again once in so many frames, changed or not.
const ROUND: usize = 16;

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
    /// A node's rows in order of port, as far as sorting by the column of this title, and
    /// filtering, needs them.
    fn each(&self, node: NodeId, title: &str, each: &mut dyn FnMut(PortKey, R));
    /// What a row is sorted by in the column of this title.
    fn rank(&self, title: &str, row: &R) -> Rank;
    /// It passes the filter.
    fn keeps(&self, row: &R) -> bool;
    /// A node's part of the totals, where they are shown.
    fn part(&self, node: NodeId) -> Option<Part>;
}

/// The ports of a node, as a part of the list.
#[derive(Clone, Debug)]
struct Span {
    node: NodeId,
    rows: std::ops::Range<usize>,
    changed: u64,
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
    dirty: Vec<bool>,
    /// Rows that there are, kept or hidden.
    rows: usize,
    turn: usize,
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
        self.dirty = vec![false; self.list.len()];
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

    /// Looks at the rows again that may have changed; says which they are.
    fn look<R>(&mut self, source: &impl Source<R>, title: &str, all: bool) -> Vec<u32> {
        let mut spans = std::mem::take(&mut self.spans);
        let mut changed = Vec::new();
        self.turn = (self.turn + 1) % ROUND;
        for (at, span) in spans.iter_mut().enumerate() {
            let now = source.changed(span.node);
            if !all && now == span.changed && at % ROUND != self.turn {
                continue;
            }
            span.changed = now;
            span.part = source.part(span.node);
            let mut at = span.rows.start;
            source.each(span.node, title, &mut |key, made| {
                while at < span.rows.end && self.list.get(at).is_some_and(|k| *k < key) {
                    self.note(at, (State::Absent, 0), all, &mut changed);
                    at += 1;
                }
                if at < span.rows.end && self.list.get(at) == Some(&key) {
                    let now = match source.keeps(&made) {
                        true => (State::Kept, self.number(source.rank(title, &made))),
                        false => (State::Hidden, 0),
                    };
                    self.note(at, now, all, &mut changed);
                    at += 1;
                }
            });
            for at in at..span.rows.end {
                self.note(at, (State::Absent, 0), all, &mut changed);
            }
        }
        self.spans = spans;
        changed
    }

    /// What a row is now.
    fn note(&mut self, row: usize, now: (State, u64), all: bool, changed: &mut Vec<u32>) {
        let slots = (self.state.get_mut(row), self.value.get_mut(row));
        let (Some(state), Some(value)) = slots else {
            return;
        };
        if !all && (*state, *value) == now {
            return;
        }
        self.rows += usize::from(now.0 != State::Absent);
        self.rows -= usize::from(*state != State::Absent);
        (*state, *value) = now;
        if let Some(dirty) = self.dirty.get_mut(row) {
            *dirty = true;
        }
        changed.extend(u32::try_from(row));
    }

    fn is_kept(&self, row: u32) -> bool {
        self.state.get(row as usize) == Some(&State::Kept)
    }

    fn key(&self, row: u32, descending: bool) -> (u64, u32) {
        let row = row as usize;
        let value = self.value.get(row).copied().unwrap_or(0);
        let place = self.place.get(row).copied().unwrap_or(0);
        (if descending { !value } else { value }, place)
    }

    /// Brings `order` up to date after these rows changed.
    fn reorder(&mut self, order: &mut Vec<u32>, changed: Vec<u32>, descending: bool) {
        let mut fresh: Vec<((u64, u32), u32)> = changed
            .iter()
            .filter(|row| self.is_kept(**row))
            .map(|row| (self.key(*row, descending), *row))
            .collect();
        fresh.sort_unstable();
        let mut fresh = fresh.into_iter().peekable();
        let mut merged = Vec::with_capacity(order.len() + fresh.len());
        for row in order.drain(..) {
            if self.dirty.get(row as usize) != Some(&false) {
                continue;
            }
            let key = self.key(row, descending);
            while let Some((_, new)) = fresh.next_if(|(k, _)| *k < key) {
                merged.push(new);
            }
            merged.push(row);
        }
        merged.extend(fresh.map(|(_, row)| row));
        *order = merged;
        for row in changed {
            if let Some(dirty) = self.dirty.get_mut(row as usize) {
                *dirty = false;
            }
        }
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
            self.keys = large.list.iter().map(|key| RowKey::Port(*key)).collect();
        }
        let all = laid_out || large.sorted.as_ref() != Some(&sorted);
        if all || large.revision != Some(revision) {
            large.revision = Some(revision);
            large.sorted = Some(sorted);
            let title = columns.get(self.sort).map_or("", |c| c.title);
            let changed = large.look(source, title, all);
            if all {
                self.shown.clear();
                // Another filter or another order: as wide as what is in sight needs.
                self.wants = columns.iter().map(|c| c.min).collect();
            }
            let descending = self.is_descending(columns);
            large.reorder(&mut self.shown, changed, descending);
        }
        self.large = Some(large);
        // Large and small tables are never looked at by one state at once.
        self.cache = None;
        self.follow();
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
        let rows: Vec<(u32, R)> = self
            .shown
            .iter()
            .skip(self.top)
            .take(self.page)
            .filter_map(|&row| match self.keys.get(row as usize) {
                Some(RowKey::Port(key)) => Some((row, source.row(*key)?)),
                _ => None,
            })
            .collect();
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
