//! A table of any rows: columns by priority, a sorted and filtered order kept between frames,
//! a selection that follows its row.
//!
//! Only the rows in sight are drawn. The order is computed when the model's revision, the
//! filter or the sorting changed, and starts from the last one, which is nearly right.

use std::cmp::Ordering;
use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

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

/// One cell of a table while it is drawn.
pub struct Cell<'b> {
    buf: &'b mut Buffer,
    x: u16,
    y: u16,
    /// Columns it has.
    pub width: u16,
    right: bool,
    /// How to draw.
    pub look: &'b Look,
    /// Samples that a sparkline spans.
    pub window: usize,
    /// The row is selected: keep the background.
    base: Style,
}

impl<'b> Cell<'b> {
    /// A cell outside a table.
    #[cfg(test)]
    pub fn at(buf: &'b mut Buffer, area: Rect, look: &'b Look) -> Cell<'b> {
        Cell {
            buf,
            x: area.x,
            y: area.y,
            width: area.width,
            right: false,
            look,
            window: 0,
            base: Style::new(),
        }
    }

    /// The part of this cell from column `offset` on, left-aligned.
    pub fn from(&mut self, offset: u16) -> Cell<'_> {
        let offset = offset.min(self.width);
        Cell {
            buf: self.buf,
            x: self.x + offset,
            y: self.y,
            width: self.width - offset,
            right: false,
            look: self.look,
            window: self.window,
            base: self.base,
        }
    }

    fn style(&self, role: Role) -> Style {
        self.look.style(role).patch(self.base)
    }

    /// Text, cut if it does not fit.
    pub fn text(&mut self, text: &str, role: Role) {
        self.spans(&[(text, role)]);
    }

    /// Several pieces of text.
    pub fn spans(&mut self, spans: &[(&str, Role)]) {
        let total: u16 = spans
            .iter()
            .map(|(t, _)| width(t, self.look))
            .fold(0, u16::saturating_add);
        let mut x = self.x;
        if self.right {
            x += self.width.saturating_sub(total);
        }
        let end = self.x + self.width;
        for (text, role) in spans {
            let style = self.style(*role);
            x += put(self.buf, (x, self.y), end - x, text, style, self.look);
        }
    }

    /// A number: never cut, `###` if it does not fit.
    pub fn number(&mut self, (text, role): (String, Role)) {
        if width(&text, self.look) > self.width {
            self.text(&"#".repeat(usize::from(self.width)), role);
        } else {
            self.text(&text, role);
        }
    }

    /// A bar of `share` (0–1) over `room` columns from `offset` on.
    pub fn bar(&mut self, offset: u16, room: u16, share: f64, role: Role) {
        let glyphs = self.look.glyphs;
        let eighths = (share.clamp(0.0, 1.0) * f64::from(room) * 8.0).round() as u32;
        // What is not nothing shows.
        let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
        for i in 0..room.min(self.width.saturating_sub(offset)) {
            let part = eighths.saturating_sub(u32::from(i) * 8).min(8) as usize;
            let (symbol, role) = match part.checked_sub(1).and_then(|p| glyphs.bar.get(p)) {
                Some(&" ") | None => (glyphs.track, Role::Track),
                Some(full) => (*full, role),
            };
            let style = self.style(role);
            if let Some(cell) = self.buf.cell_mut((self.x + offset + i, self.y)) {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }

    /// A sparkline of values 0–1, the newest at the right; NaN leaves a gap.
    pub fn spark(&mut self, values: &[f32], role: Role) {
        let glyphs = self.look.glyphs;
        let shown = values.len().min(usize::from(self.width));
        let style = self.style(role);
        let start = self.x + self.width - u16::try_from(shown).unwrap_or(self.width);
        for (x, value) in (start..).zip(values.iter().skip(values.len() - shown)) {
            if value.is_nan() {
                continue;
            }
            let level = (value.clamp(0.0, 1.0) * 7.0).round() as usize;
            if let (Some(cell), Some(symbol)) =
                (self.buf.cell_mut((x, self.y)), glyphs.spark.get(level))
            {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }
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
    keys: Vec<RowKey>,
    order: Vec<u32>,
    shown: Vec<u32>,
    wants: Vec<u16>,
    cache: Option<CacheKey>,
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
        (self.shown.len(), self.keys.len())
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
            _ => self
                .shown
                .get(to)
                .and_then(|&i| self.keys.get(i as usize))
                .cloned(),
        };
        // So that several moves between two frames add up.
        self.current.clone_from(&self.selected);
    }

    /// Sorts by the next (or previous) column.
    pub fn sort_next(&mut self, columns: usize, forward: bool) {
        if columns == 0 {
            return;
        }
        let step = if forward { 1 } else { columns - 1 };
        self.sort = (self.sort + step) % columns;
        self.reverse = false;
    }

    /// True if the greatest come first.
    pub fn is_descending<R>(&self, columns: &[Column<R>]) -> bool {
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
        let now = CacheKey {
            revision,
            filter: filter.to_owned(),
            sort: self.sort,
            reverse: self.reverse,
        };
        if self.cache.as_ref() != Some(&now) || rows.len() != self.keys.len() {
            self.reorder(rows, columns, &key, &keep, look);
            self.cache = Some(now);
        }
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
        self.page = usize::from(area.height - 1);
        let last_top = self.shown.len().saturating_sub(self.page);
        self.top = self
            .top
            .min(self.at)
            .max((self.at + 1).saturating_sub(self.page))
            .min(last_top);
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
            let Some(row) = rows.get(i as usize) else {
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

/// Where each column stands in `room` columns, one apart: (offset, width) or nowhere.
fn place<R>(columns: &[Column<R>], wants: &[u16], room: u16) -> Vec<Option<(u16, u16)>> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    let rank = |i: &usize| columns.get(*i).map(|c| c.rank);
    by_rank.sort_by_key(rank);
    let mut widths: Vec<Option<u16>> = vec![None; columns.len()];
    let mut used = 0u16;
    // Columns of one rank belong together: all of them are shown, or none.
    for group in by_rank.chunk_by(|a, b| rank(a) == rank(b)) {
        let mut next = used;
        for &i in group {
            let gap = u16::from(next > 0);
            let min = columns.get(i).map_or(0, |c| c.min);
            next = next.saturating_add(gap).saturating_add(min);
        }
        if next > room {
            // What ranks behind does not jump the queue: the room is better used by names.
            if used == 0
                && let Some(slot) = group.first().and_then(|&i| widths.get_mut(i))
            {
                *slot = Some(room);
                used = room;
            }
            break;
        }
        used = next;
        for &i in group {
            if let (Some(c), Some(slot)) = (columns.get(i), widths.get_mut(i)) {
                *slot = Some(c.min);
            }
        }
    }
    // What is left goes one by one to those that want more, the important ones first.
    let mut left = room.saturating_sub(used);
    while left > 0 {
        let before = left;
        for &i in &by_rank {
            let want = wants.get(i).copied().unwrap_or(0);
            if let Some(Some(w)) = widths.get_mut(i)
                && *w < want
                && left > 0
            {
                *w += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    let mut x = 0;
    widths
        .into_iter()
        .map(|w| {
            let w = w?;
            let at = x;
            x += w + 1;
            Some((at, w))
        })
        .collect()
}

/// Compares texts as people count: `node2` before `node10`. Case decides only between equals.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        match (x.split_first(), y.split_first()) {
            (None, None) => return a.cmp(b),
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some((p, xs)), Some((q, ys))) => {
                if p.is_ascii_digit() && q.is_ascii_digit() {
                    let (m, xrest) = digits(x);
                    let (n, yrest) = digits(y);
                    let order = m.len().cmp(&n.len()).then_with(|| m.cmp(n));
                    if order != Ordering::Equal {
                        return order;
                    }
                    (x, y) = (xrest, yrest);
                    continue;
                }
                let order = p.to_ascii_lowercase().cmp(&q.to_ascii_lowercase());
                if order != Ordering::Equal {
                    return order;
                }
                (x, y) = (xs, ys);
            }
        }
    }
}

/// The leading digits without leading zeros, and the rest.
fn digits(s: &[u8]) -> (&[u8], &[u8]) {
    let end = s
        .iter()
        .position(|c| !c.is_ascii_digit())
        .unwrap_or(s.len());
    let (number, rest) = s.split_at(end);
    let start = number.iter().position(|&c| c != b'0').unwrap_or(end);
    (number.get(start..).unwrap_or_default(), rest)
}

/// Order of two numbers of which either may be missing: missing ones are the least.
pub fn by_f64(a: Option<f64>, b: Option<f64>) -> Ordering {
    let key = |v: Option<f64>| v.unwrap_or(f64::NEG_INFINITY);
    key(a).total_cmp(&key(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Depth;

    const LOOK: Look = Look::new(Depth::Mono);

    struct R(u8, &'static str);

    fn columns() -> Vec<Column<R>> {
        vec![
            Column {
                title: "Name",
                min: 4,
                max: 20,
                right: false,
                rank: 0,
                descending: false,
                cmp: |a, b| natural(a.1, b.1),
                draw: |r, c| c.text(r.1, Role::Text),
                want: Some(|r, l| width(r.1, l)),
            },
            Column {
                title: "N",
                min: 3,
                max: 3,
                right: true,
                rank: 1,
                descending: true,
                cmp: |a, b| a.0.cmp(&b.0),
                draw: |r, c| c.number((r.0.to_string(), Role::Text)),
                want: None,
            },
        ]
    }

    fn key(r: &R) -> RowKey {
        RowKey::Named(r.1.to_owned())
    }

    fn show(state: &mut TableState, rows: &[R], revision: u64, h: u16) -> Vec<String> {
        let columns = columns();
        state.update(rows, &columns, revision, "", key, |_| true, &LOOK);
        let mut buf = Buffer::empty(Rect::new(0, 0, 11, h));
        state.draw(buf.area, &mut buf, rows, &columns, &LOOK, "none");
        (0..h)
            .map(|y| (1..11).map(|x| buf[(x, y)].symbol()).collect::<String>())
            .map(|l| l.trim_end().to_owned())
            .collect()
    }

    #[test]
    fn the_selection_follows_its_row_when_rows_move() {
        let mut state = TableState::sorted_by(0);
        let rows = [R(1, "n1"), R(2, "n2"), R(3, "n10")];
        assert_eq!(
            show(&mut state, &rows, 1, 4),
            ["Name▲   N", "n1     1", "n2     2", "n10    3"].map(|l| l.replace("   N", "  N"))
        );
        state.go(Move::Down);
        show(&mut state, &rows, 1, 4);
        assert_eq!(state.current(), Some(&RowKey::Named("n2".into())));
        // A row comes in before it.
        let rows = [R(1, "n1"), R(9, "n1b"), R(2, "n2"), R(3, "n10")];
        show(&mut state, &rows, 2, 4);
        assert_eq!(state.current(), Some(&RowKey::Named("n2".into())));
        // Another order: it is still the one.
        state.sort = 1;
        show(&mut state, &rows, 2, 4);
        assert_eq!(state.current(), Some(&RowKey::Named("n2".into())));
        // It goes: what stands at its place is selected.
        let rows = [R(1, "n1"), R(9, "n1b"), R(3, "n10")];
        show(&mut state, &rows, 3, 4);
        assert_eq!(state.current(), Some(&RowKey::Named("n1".into())));
    }

    #[test]
    fn home_stays_on_top_and_the_selected_row_stays_in_sight() {
        let mut state = TableState::sorted_by(1);
        let rows: Vec<R> = ["a", "b", "c", "d", "e"]
            .into_iter()
            .enumerate()
            .map(|(i, n)| R(i as u8, n))
            .collect();
        assert_eq!(show(&mut state, &rows, 1, 3)[1], "e      4");
        state.go(Move::End);
        assert_eq!(show(&mut state, &rows, 1, 3)[2], "a      0");
        state.go(Move::Home);
        // A new greatest row comes on top and is what is selected.
        let rows: Vec<R> = ["a", "b", "z"]
            .into_iter()
            .enumerate()
            .map(|(i, n)| R(i as u8, n))
            .collect();
        show(&mut state, &rows, 2, 3);
        assert_eq!(state.current(), Some(&RowKey::Named("z".into())));
    }

    #[test]
    fn numbers_are_never_cut() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 4, 1));
        Cell::at(&mut buf, Rect::new(0, 0, 3, 1), &LOOK).number(("1234".into(), Role::Text));
        let text: String = buf.content().iter().map(|c| c.symbol()).collect();
        assert_eq!(text, "### ");
    }

    #[test]
    fn narrow_tables_keep_what_ranks_first() {
        let wants = [20, 3];
        assert_eq!(place(&columns(), &wants, 3), [Some((0, 3)), None]);
        assert_eq!(place(&columns(), &wants, 7), [Some((0, 7)), None]);
        assert_eq!(place(&columns(), &wants, 8), [Some((0, 4)), Some((5, 3))]);
        assert_eq!(place(&columns(), &wants, 12), [Some((0, 8)), Some((9, 3))]);
        assert_eq!(
            place(&columns(), &wants, 80),
            [Some((0, 20)), Some((21, 3))]
        );
    }

    #[test]
    fn names_sort_as_people_count() {
        assert_eq!(natural("node2", "node10"), Ordering::Less);
        assert_eq!(natural("node02", "node2"), Ordering::Less);
        assert_eq!(natural("Leaf1", "leaf1"), Ordering::Less);
        assert_eq!(natural("leaf1", "Leaf2"), Ordering::Less);
        assert_eq!(natural("a", "a1"), Ordering::Less);
        assert_eq!(natural("", ""), Ordering::Equal);
    }
}
