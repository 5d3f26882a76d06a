//! A table of any rows: columns by priority, a sorted and filtered order kept between frames,
//! a selection that follows its row.
//!
//! Only the rows in sight are drawn. The order is computed when the model's revision, the
//! filter or the sorting changed, and starts from the last one, which is nearly right.

mod cell;
mod large;
mod order;
mod place;

use std::cmp::Ordering;
use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub use self::cell::Cell;
pub use self::large::{LARGE, Rank, Source};
pub use self::order::{by_f64, natural};
use self::place::place;
use super::text::{put, width};
use super::theme::{Look, Role};
use crate::fabric::{NodeId, PortKey};

/// Which row: what a selection holds on to while rows come, go and move.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RowKey {
    /// A port.
    Port(PortKey),
    /// A node.
    Node(NodeId),
    /// Something that has but a name.
    Named(String),
    /// An alert: its number, and when it opened.
    Alert(u64, u64),
    /// A line of the log: its first time and its number among those.
    Line(u64, u32),
}

/// A column of rows of type `R`.
pub struct Column<R> {
    /// Heading, with the unit.
    pub title: &'static str,
    /// The least columns it is worth showing in.
    pub min: u16,
    /// The most columns it can use.
    pub max: u16,
    /// Numbers stand to the right.
    pub right: bool,
    /// Which columns stay when the screen is narrow: the lowest.
    pub rank: u8,
    /// The greatest first when it is chosen for sorting.
    pub descending: bool,
    /// Order of two rows.
    pub cmp: fn(&R, &R) -> Ordering,
    /// Draws a row's cell.
    pub draw: fn(&R, &mut Cell<'_>),
    /// The columns that a row's cell would like; for columns that share what is left.
    pub want: Option<fn(&R, &Look) -> u16>,
}

/// How a table is sorted and where it is looked at.
#[derive(Clone, Debug, Default)]
pub struct TableState {
    /// The column that sorts.
    pub sort: usize,
    /// Against that column's usual direction.
    pub reverse: bool,
    /// Samples that a sparkline spans.
    pub window: usize,
    /// The row held on to; `None` = whatever is on top.
    pub selected: Option<RowKey>,
    /// Index of the selected row among the shown ones, at the last frame.
    at: usize,
    /// Index of the first row in sight.
    top: usize,
    /// Rows in sight at the last frame.
    page: usize,
    /// The row that was highlighted at the last frame: what Enter and copying mean.
    current: Option<RowKey>,
    /// Heading and usual direction of each column, at the last frame.
    heads: Vec<(&'static str, bool)>,
    keys: Vec<RowKey>,
    order: Vec<u32>,
    shown: Vec<u32>,
    wants: Vec<u16>,
    cache: Option<CacheKey>,
    large: Option<large::Large>,
    line: Option<Rect>,
}

#[derive(Clone, Debug, PartialEq)]
struct CacheKey {
    revision: u64,
    filter: String,
    sort: usize,
    reverse: bool,
}

/// A move of the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One screen up.
    PageUp,
    /// One screen down.
    PageDown,
    /// To the top, and stay there whatever comes.
    Home,
    /// To the last row.
    End,
}

impl TableState {
    /// Sorted by this column in its usual direction.
    pub fn sorted_by(sort: usize) -> TableState {
        TableState {
            sort,
            ..TableState::default()
        }
    }

    /// The row highlighted at the last frame.
    pub const fn current(&self) -> Option<&RowKey> {
        self.current.as_ref()
    }

    /// Where the selected row stood at the last frame.
    pub const fn selected_line(&self) -> Option<Rect> {
        self.line
    }

    /// Rows that pass the filter, and all rows, at the last frame.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.large_rows().unwrap_or(self.keys.len());
        (self.shown.len(), all)
    }

    /// Moves the selection, by what the last frame showed.
    pub fn go(&mut self, by: Move) {
        let last = self.shown.len().saturating_sub(1);
        let page = self.page.saturating_sub(1).max(1);
        let to = match by {
            Move::Up => self.at.saturating_sub(1),
            Move::Down => self.at.saturating_add(1),
            Move::PageUp => self.at.saturating_sub(page),
            Move::PageDown => self.at.saturating_add(page),
            Move::Home => 0,
            Move::End => last,
        }
        .min(last);
        self.at = to;
        self.selected = match by {
            Move::Home => None,
            _ => match self.large_row_at(to) {
                Some(row) => row,
                None => self
                    .shown
                    .get(to)
                    .and_then(|&i| self.keys.get(i as usize))
                    .cloned(),
            },
        };
        // So that several moves between two frames add up.
        self.current.clone_from(&self.selected);
    }

    /// Sorts by the next (or previous) column of the last frame.
    pub fn sort_next(&mut self, forward: bool) {
        let columns = self.heads.len();
        if columns == 0 {
            return;
        }
        let step = if forward { 1 } else { columns - 1 };
        self.sort = (self.sort + step) % columns;
        self.reverse = false;
    }

    /// The heading of the column that sorts, with its direction, at the last frame.
    pub fn sort_title(&self, look: &Look) -> String {
        let (title, descending) = self.heads.get(self.sort).copied().unwrap_or_default();
        let arrow = match descending != self.reverse {
            true => look.glyphs.down,
            false => look.glyphs.up,
        };
        format!("{title}{arrow}")
    }

    /// True if the greatest come first.
    fn is_descending<R>(&self, columns: &[Column<R>]) -> bool {
        columns
            .get(self.sort)
            .is_some_and(|c| c.descending != self.reverse)
    }

    /// Brings order and selection up to date.
    #[allow(clippy::too_many_arguments)] // a table's whole input, given once a frame
    pub fn update<R>(
        &mut self,
        rows: &[R],
        columns: &[Column<R>],
        revision: u64,
        filter: &str,
        key: impl Fn(&R) -> RowKey,
        keep: impl Fn(&R) -> bool,
        look: &Look,
    ) {
        self.heads.clear();
        self.heads
            .extend(columns.iter().map(|c| (c.title, c.descending)));
        let now = CacheKey {
            revision,
            filter: filter.to_owned(),
            sort: self.sort,
            reverse: self.reverse,
        };
        let was_large = self.large.take().is_some();
        if was_large || self.cache.as_ref() != Some(&now) || rows.len() != self.keys.len() {
            self.reorder(rows, columns, &key, &keep, look);
            self.cache = Some(now);
        }
        self.follow();
    }

    /// Finds the selected row again.
    fn follow(&mut self) {
        let found = self.selected.as_ref().and_then(|sel| {
            // Where it was, as a rule.
            let is = |i: &u32| self.keys.get(*i as usize) == Some(sel);
            match self.shown.get(self.at) {
                Some(i) if is(i) => Some(self.at),
                _ => self.shown.iter().position(is),
            }
        });
        self.at = match found {
            Some(at) => at,
            None if self.selected.is_none() => 0,
            // The selected row is gone: stay at its place.
            None => self.at.min(self.shown.len().saturating_sub(1)),
        };
        self.current = self
            .shown
            .get(self.at)
            .and_then(|&i| self.keys.get(i as usize))
            .cloned();
    }

    fn reorder<R>(
        &mut self,
        rows: &[R],
        columns: &[Column<R>],
        key: &impl Fn(&R) -> RowKey,
        keep: &impl Fn(&R) -> bool,
        look: &Look,
    ) {
        let same = rows.len() == self.keys.len()
            && rows.iter().zip(&self.keys).all(|(row, k)| key(row) == *k);
        if !same {
            self.keys = rows.iter().map(key).collect();
            self.order = (0..u32::try_from(rows.len()).unwrap_or(u32::MAX)).collect();
        }
        if let Some(column) = columns.get(self.sort) {
            let descending = column.descending != self.reverse;
            // Ties go by the first column (the name) and then by the rows' own order.
            let by_name = columns.first().map(|c| c.cmp);
            let at = |i: &u32| rows.get(*i as usize);
            self.order.sort_by(|a, b| {
                let (Some(ra), Some(rb)) = (at(a), at(b)) else {
                    return Ordering::Equal;
                };
                let first = (column.cmp)(ra, rb);
                let first = if descending { first.reverse() } else { first };
                first
                    .then_with(|| by_name.map_or(Ordering::Equal, |cmp| cmp(ra, rb)))
                    .then_with(|| a.cmp(b))
            });
        }
        self.shown.clear();
        self.shown.extend(
            self.order
                .iter()
                .filter(|&&i| rows.get(i as usize).is_some_and(keep)),
        );
        self.wants = columns
            .iter()
            .map(|c| {
                let Some(want) = c.want else { return c.max };
                self.shown
                    .iter()
                    .filter_map(|&i| rows.get(i as usize))
                    .map(|row| want(row, look))
                    .max()
                    .unwrap_or(0)
                    .clamp(c.min, c.max)
            })
            .collect();
    }

    /// Works out which rows are in sight in `height` lines, the heading among them.
    fn scroll(&mut self, height: u16) {
        self.page = usize::from(height.saturating_sub(1));
        let last_top = self.shown.len().saturating_sub(self.page);
        self.top = self
            .top
            .min(self.at)
            .max((self.at + 1).saturating_sub(self.page))
            .min(last_top);
    }

    /// Draws a large table. [`TableState::update_large`] comes first.
    pub fn draw_large<R>(
        &mut self,
        area: Rect,
        buf: &mut Buffer,
        source: &impl Source<R>,
        columns: &[Column<R>],
        look: &Look,
        empty: &str,
    ) {
        let height = area.intersection(buf.area).height;
        let rows = self.in_sight(source, columns, look, height);
        let row = |i: u32| rows.iter().find(|(at, _)| *at == i).map(|(_, row)| row);
        self.draw_rows(area, buf, row, columns, look, empty);
    }

    /// Draws heading and rows. [`TableState::update`] comes first.
    pub fn draw<R>(
        &mut self,
        area: Rect,
        buf: &mut Buffer,
        rows: &[R],
        columns: &[Column<R>],
        look: &Look,
        empty: &str,
    ) {
        let row = |i: u32| rows.get(i as usize);
        self.draw_rows(area, buf, row, columns, look, empty);
    }

    fn draw_rows<'r, R: 'r>(
        &mut self,
        area: Rect,
        buf: &mut Buffer,
        row: impl Fn(u32) -> Option<&'r R>,
        columns: &[Column<R>],
        look: &Look,
        empty: &str,
    ) {
        let area = area.intersection(buf.area);
        self.line = None;
        if area.is_empty() {
            return;
        }
        // The first column is left blank, in line with everything around the table.
        let inner = Rect {
            x: area.x + 1,
            width: area.width - 1,
            ..area
        };
        let places = place(columns, &self.wants, inner.width);
        buf.set_style(Rect { height: 1, ..area }, look.style(Role::Head));
        self.heading(inner, buf, columns, &places, look);
        self.scroll(area.height);
        if self.shown.is_empty() && self.page > 0 {
            let style = look.style(Role::Label);
            put(
                buf,
                (area.x + 1, area.y + 1),
                area.width - 1,
                empty,
                style,
                look,
            );
            return;
        }
        let lines = self.shown.iter().enumerate().skip(self.top).take(self.page);
        for ((at, &i), y) in lines.zip(area.y + 1..) {
            let Some(row) = row(i) else {
                continue;
            };
            let base = if at == self.at {
                let style = look.style(Role::Select);
                let line = Rect::new(area.x, y, area.width, 1);
                buf.set_style(line, style);
                self.line = Some(line);
                style
            } else {
                Style::new()
            };
            for (column, place) in columns.iter().zip(&places) {
                let Some((x, w)) = *place else { continue };
                (column.draw)(
                    row,
                    &mut Cell {
                        buf,
                        x: inner.x + x,
                        y,
                        width: w,
                        right: column.right,
                        look,
                        window: self.window,
                        base,
                    },
                );
            }
        }
    }

    fn heading<R>(
        &self,
        area: Rect,
        buf: &mut Buffer,
        columns: &[Column<R>],
        places: &[Option<(u16, u16)>],
        look: &Look,
    ) {
        let mut arrowed = String::new();
        for (i, (column, place)) in columns.iter().zip(places).enumerate() {
            let Some((x, w)) = *place else { continue };
            let sorts = i == self.sort;
            let style = look.style(if sorts { Role::HeadSort } else { Role::Head });
            let arrow = match (sorts, self.is_descending(columns)) {
                (false, _) => "",
                (true, true) => look.glyphs.down,
                (true, false) => look.glyphs.up,
            };
            arrowed.clear();
            let _ = if column.right {
                write!(arrowed, "{arrow}{}", column.title)
            } else {
                write!(arrowed, "{}{arrow}", column.title)
            };
            let len = width(&arrowed, look);
            // The gap between columns has room for the arrow.
            let end = x + w;
            let (x, room) = if column.right {
                let start = end.saturating_sub(len).max(x.saturating_sub(1));
                (start, end - start)
            } else {
                (x, w + 1)
            };
            put(buf, (area.x + x, area.y), room, &arrowed, style, look);
        }
    }
}

#[cfg(test)]
mod tests;
