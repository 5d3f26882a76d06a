//! The event log, the newest on top, and the event line of the panes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Sheet;
use crate::event::Severity;
use crate::model::view::LogLine;
use crate::tui::facts::Facts;
use crate::tui::filter::{Filter, Subject};
use crate::tui::pack::pack;
use crate::tui::table::{Column, RowKey, natural};
use crate::tui::text::{Clock, count, width};
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
        match (self.name, self.line.about) {
            (Some(name), Some(key)) if key.port != 0 => format!("{name}[{}]", key.port),
            (Some(name), _) => name.to_owned(),
            _ => String::new(),
        }
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
        let (word, _) = severity(row.line.severity);
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

/// A severity's word and role.
pub fn severity(s: Severity) -> (&'static str, Role) {
    match s {
        Severity::Info => ("info", Role::Label),
        Severity::Warning => ("warning", Role::Warn),
        Severity::Critical => ("CRITICAL", Role::Bad),
    }
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
            title: "Last",
            min: 8,
            max: 8,
            right: false,
            rank: 0,
            descending: true,
            cmp: |a, b| a.line.last.cmp(&b.line.last),
            draw: |r, c| c.text(&r.clock.seconds(r.wall.1), Role::Label),
            want: None,
        },
        Column {
            title: "First",
            min: 8,
            max: 8,
            right: false,
            rank: 6,
            descending: true,
            cmp: |a, b| a.line.first.cmp(&b.line.first),
            draw: |r, c| {
                if r.line.count > 1 {
                    c.text(&r.clock.seconds(r.wall.0), Role::Label);
                }
            },
            want: None,
        },
        Column {
            title: "Severity",
            min: 8,
            max: 8,
            right: false,
            rank: 2,
            descending: true,
            cmp: |a, b| a.line.severity.cmp(&b.line.severity),
            draw: |r, c| {
                let (word, role) = severity(r.line.severity);
                c.text(word, role);
            },
            want: None,
        },
        Column {
            title: "Times",
            min: 5,
            max: 5,
            right: true,
            rank: 4,
            descending: true,
            cmp: |a, b| a.line.count.cmp(&b.line.count),
            draw: |r, c| {
                if r.line.count > 1 {
                    c.number((count(r.line.count), Role::Text));
                }
            },
            want: None,
        },
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
    let (word, _) = severity(row.line.severity);
    let mut texts = vec![row.line.text.as_str(), word];
    texts.extend(row.name);
    let about = row.line.about;
    let guids: Vec<u64> = about.iter().map(|k| k.node.guid.0).collect();
    let numbers: Vec<u32> = about.iter().map(|k| u32::from(k.port)).collect();
    filter.matches(&Subject {
        texts: &texts,
        numbers: &numbers,
        guids: &guids,
    })
}

/// Draws one event in one line.
pub fn draw_line(area: Rect, buf: &mut Buffer, row: &Row<'_>, look: &Look) {
    let (word, role) = severity(row.line.severity);
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
