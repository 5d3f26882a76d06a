//! What a pane is handed to draw itself: its part of the screen, the facts, its table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::alerts::Acknowledged;
use super::{Page, wrap};
use crate::model::Baseline;
use crate::model::view::TotalsView;
use crate::port::Stamp;
use crate::tui::facts::Facts;
use crate::tui::filter::Filter;
use crate::tui::table::{Column, RowKey, Source, TableState};
use crate::tui::text::Clock;
use crate::tui::theme::{Look, Role};

/// A screen that is handed out line by line.
#[derive(Clone, Copy, Debug)]
pub struct Rows(pub Rect);

impl Rows {
    /// The next lines from the top.
    pub fn top(&mut self, lines: u16) -> Rect {
        let lines = lines.min(self.0.height);
        let part = Rect {
            height: lines,
            ..self.0
        };
        self.0.y += lines;
        self.0.height -= lines;
        part
    }

    /// The next lines from the bottom.
    pub fn bottom(&mut self, lines: u16) -> Rect {
        let lines = lines.min(self.0.height);
        self.0.height -= lines;
        Rect {
            y: self.0.y + self.0.height,
            height: lines,
            ..self.0
        }
    }
}

/// Without the first column, as all but tables are drawn.
pub fn inset(area: Rect) -> Rect {
    let by = area.width.min(1);
    Rect {
        x: area.x + by,
        width: area.width - by,
        ..area
    }
}

/// A pane's part of the screen, and all it may draw from.
#[derive(Debug)]
pub struct Sheet<'a, F> {
    /// Where it goes.
    pub buf: &'a mut Buffer,
    /// What is known.
    pub facts: &'a F,
    /// The time shown.
    pub at: Stamp,
    /// From when on errors are counted, if not from the session's beginning.
    pub baseline: Option<&'a Baseline>,
    /// Alerts that the operator knows of.
    pub acknowledged: &'a Acknowledged,
    /// The operator's time zone.
    pub clock: &'a Clock,
    /// How to draw.
    pub look: &'a Look,
    pub(in crate::tui) rows: Rows,
    pub(in crate::tui) table: &'a mut TableState,
    pub(in crate::tui) filter: (&'a Filter, &'a str),
    pub(in crate::tui) revision: u64,
    pub(in crate::tui) empty: &'static str,
    /// How often the facts were replaced by others.
    pub(in crate::tui) renewals: u64,
    pub(in crate::tui) large_above: usize,
}

impl<F: Facts> Sheet<'_, F> {
    /// Lines that are left.
    pub fn height(&self) -> u16 {
        self.rows.0.height
    }

    /// Takes lines above the table for something else.
    pub fn top(&mut self, lines: u16) -> Rect {
        inset(self.rows.top(lines))
    }

    /// Takes lines below the table for something else.
    pub fn bottom(&mut self, lines: u16) -> Rect {
        inset(self.rows.bottom(lines))
    }

    /// The row that was highlighted at the last frame.
    pub fn selected(&self) -> Option<&RowKey> {
        self.table.current()
    }

    /// The selected row without cuts, below the table; a low screen has no room for that.
    pub fn in_full(&mut self, text: &str) {
        let lines = match self.height() {
            0..=9 => return,
            10..=19 => 3,
            _ => 4,
        };
        let area = self.bottom(lines);
        let rule = self.look.glyphs.rule.repeat(usize::from(area.width));
        let mut page = Page::default();
        page.line(vec![(rule, Role::Track)]);
        for line in wrap(text, area.width.saturating_sub(1), self.look) {
            page.line(vec![(line, Role::Text)]);
        }
        page.draw(area, 0, self.buf, self.look);
    }

    /// Samples that the table's sparklines span.
    pub fn window(&mut self, samples: usize) {
        self.table.window = samples;
    }

    /// Says what it means that there is no row.
    pub fn empty(&mut self, text: &'static str) {
        self.empty = text;
    }

    /// There are so many ports that no row is made without need.
    pub fn is_large(&self) -> bool {
        self.facts.port_count() > self.large_above
    }

    /// What was typed to filter by.
    pub fn filter(&self) -> &Filter {
        self.filter.0
    }

    /// Brings the pane's large table up to date; [`Sheet::large_table`] draws it.
    pub fn update_large<R>(&mut self, source: &impl Source<R>, columns: &[Column<R>]) {
        let revision = self.facts.revision();
        self.table
            .update_large(source, columns, revision, self.renewals, self.filter.1);
    }

    /// The totals, from the parts that the large table keeps.
    pub fn large_totals(&self) -> TotalsView {
        TotalsView::of(self.table.parts())
    }

    /// Fills what is left with the pane's large table.
    pub fn large_table<R>(&mut self, source: &impl Source<R>, columns: &[Column<R>]) {
        let empty = match self.filter.1.is_empty() {
            true => "Nothing known yet.",
            false => "No row passes the filter.",
        };
        let area = self.rows.0;
        self.table
            .draw_large(area, self.buf, source, columns, self.look, empty);
    }

    /// Fills what is left with the pane's table.
    pub fn table<R>(
        &mut self,
        rows: &[R],
        columns: &[Column<R>],
        key: fn(&R) -> RowKey,
        matches: fn(&R, &Filter) -> bool,
    ) {
        let (filter, text) = self.filter;
        let empty = match rows.is_empty() {
            true => self.empty,
            false => "No row passes the filter.",
        };
        let keep = |row: &R| matches(row, filter);
        let area = self.rows.0;
        self.table
            .update(rows, columns, self.revision, text, key, keep, self.look);
        self.table
            .draw(area, self.buf, rows, columns, self.look, empty);
    }
}
