//! The event log, the newest on top, and the event line of the panes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Sheet;
use super::shared::{self, OfEvent, severity_word};
use crate::event::Severity;
use crate::model::view::LogLine;
use crate::tui::facts::Facts;
use crate::tui::filter::Filter;
use crate::tui::pack::pack;
use crate::tui::table::{Column, RowKey, natural};
use crate::tui::text::{Clock, width};
use crate::tui::theme::{Look, Role};

/// A line of the log, ready to be shown.
#[derive(Clone, Debug)]
pub struct Row<'m> {
    /// The line.
    pub line: &'m LogLine,
    /// Name of the node it is about.
    pub name: Option<&'m str>,
    /// Wall time of its first and last occurrence, ns since the Unix epoch.
    pub wall: (i64, i64),
    /// How wall times are shown.
    pub clock: &'m Clock,
}

impl Row<'_> {
    fn about(&self) -> String {
        shared::place(self.name, self.line.about)
    }

    /// The event, with what it is about.
    fn text(&self) -> String {
        self.told_place() + &self.line.text
    }

    /// What it is about, unless its text says so.
    fn told_place(&self) -> String {
        match self.about() {
            about if about.is_empty() || self.line.text.contains(&about) => String::new(),
            about => format!("{about}: "),
        }
    }
}

impl OfEvent for Row<'_> {
    fn severity(&self) -> Severity {
        self.line.severity
    }
    fn times(&self) -> u64 {
        self.line.count
    }
}

/// A line of the log as a row.
pub fn row<'m, F: Facts>(line: &'m LogLine, facts: &'m F, clock: &'m Clock) -> Row<'m> {
    Row {
        line,
        name: line.about.map(|k| facts.name(k.node)),
        wall: (facts.wall(line.first), facts.wall(line.last)),
        clock,
    }
}

/// Draws the log.
pub fn draw<F: Facts>(sheet: &mut Sheet<'_, F>) {
    let (facts, clock) = (sheet.facts, sheet.clock);
    let rows: Vec<_> = facts.log().map(|l| row(l, facts, clock)).collect();
    let selected = match sheet.selected() {
        Some(selected) => rows.iter().find(|r| key(r) == *selected),
        None => rows.first(),
    };
    if let Some(row) = selected {
        let (word, _) = severity_word(row.line.severity);
        sheet.in_full(&format!("{word}: {}", row.text()));
    }
    sheet.table(&rows, &columns(), key, matches);
}

/// Which row it is.
fn key(row: &Row<'_>) -> RowKey {
    key_of(row.line)
}

/// Which row a line is.
pub fn key_of(line: &LogLine) -> RowKey {
    let mut hash = DefaultHasher::new();
    (&line.text, line.about).hash(&mut hash);
    RowKey::Line(line.first.0, hash.finish() as u32)
}

fn text_role(s: Severity) -> Role {
    match s {
        Severity::Critical => Role::Bad,
        _ => Role::Text,
    }
}

/// The columns.
fn columns<'m>() -> Vec<Column<Row<'m>>> {
    vec![
        Column {
            cmp: |a, b| a.line.last.cmp(&b.line.last),
            draw: |r, c| c.text(&r.clock.seconds(r.wall.1), Role::Label),
            ..shared::moment("Last", 0)
        },
        Column {
            cmp: |a, b| a.line.first.cmp(&b.line.first),
            draw: |r, c| {
                if r.line.count > 1 {
                    c.text(&r.clock.seconds(r.wall.0), Role::Label);
                }
            },
            ..shared::moment("First", 6)
        },
        // Nobody sorts by it here: no room for the mark.
        Column {
            min: 8,
            max: 8,
            ..shared::severity(2)
        },
        shared::times(4),
        Column {
            title: "Event",
            min: 30,
            max: 200,
            right: false,
            rank: 1,
            descending: false,
            cmp: |a, b| natural(&a.text(), &b.text()),
            draw: |r, c| c.text(&r.text(), text_role(r.line.severity)),
            want: Some(|r, look| width(&r.text(), look)),
        },
    ]
}

/// True if the row passes the filter.
fn matches(row: &Row<'_>, filter: &Filter) -> bool {
    if filter.is_empty() {
        return true;
    }
    let texts = [row.line.text.as_str()];
    shared::matches(row, &texts, row.name, row.line.about, filter)
}

/// Draws one event in one line.
pub fn draw_line(area: Rect, buf: &mut Buffer, row: &Row<'_>, look: &Look) {
    let (word, role) = severity_word(row.line.severity);
    let times = if row.line.count > 1 {
        format!(" {}{}", look.glyphs.times, row.line.count)
    } else {
        String::new()
    };
    let word = match row.line.severity {
        Severity::Info => String::new(),
        _ => format!("{word} "),
    };
    let about = row.told_place();
    pack(
        buf,
        area,
        Style::new(),
        look,
        vec![(
            0,
            vec![
                (format!("{} ", row.clock.seconds(row.wall.1)), Role::Label),
                (word, role),
                (about, Role::Text),
                (row.line.text.clone(), text_role(row.line.severity)),
                (times, Role::Label),
            ],
        )],
    );
}
