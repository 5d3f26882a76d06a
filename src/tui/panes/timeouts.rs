//! The Timeouts pane: requests in flight now, and who answers how well.

use std::cmp::Reverse;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Sheet;
use crate::mad::{MgmtClass, names};
use crate::model::view::{Absence, DestinationRow, FailureKind, HeaderView, InFlightRow};
use crate::tui::facts::Facts;
use crate::tui::filter::{Filter, Subject};
use crate::tui::pack::pack;
use crate::tui::table::{Cell, Column, RowKey, natural};
use crate::tui::text::{age, coarse_age, count, latency, put, seconds, width};
use crate::tui::theme::{Look, Role};

/// Column that sorts at first: most timeouts on top.
pub const FIRST_SORT: usize = 6;

/// Draws the pane.
pub fn draw<F: Facts>(sheet: &mut Sheet<'_, F>) {
    let room = match sheet.height() {
        0..=5 => 0,
        6..=9 => 1,
        h => (h / 4).clamp(3, 10),
    };
    let mut flying = sheet.facts.in_flight(sheet.at);
    let header = sheet.facts.header(sheet.at);
    let top = sheet.top(room);
    draw_in_flight(top, sheet.buf, &header, &mut flying, sheet.look);
    let rows = sheet.facts.destinations(sheet.at);
    let selected = match sheet.selected() {
        Some(selected) => rows.iter().find(|r| key(r) == *selected),
        None => rows.first(),
    };
    if let Some(row) = selected {
        let failure = match failure_words(row) {
            none if none.is_empty() => "no request failed".to_owned(),
            words => words,
        };
        sheet.in_full(&format!("{}: {failure}", row.name));
    }
    sheet.table(&rows, &columns(), key, matches);
}

/// Which row it is.
fn key(row: &DestinationRow<'_>) -> RowKey {
    match row.node {
        Some(node) => RowKey::Node(node),
        None => RowKey::Named(row.name.to_owned()),
    }
}

fn number(v: u64, role: Role, cell: &mut Cell<'_>) {
    cell.number((count(v), if v == 0 { Role::Label } else { role }));
}

fn time(v: Option<Duration>, cell: &mut Cell<'_>) {
    match v {
        Some(d) => cell.number((latency(d), Role::Text)),
        None => cell.text(cell.look.glyphs.unknown, Role::Label),
    }
}

/// Why it is missing and since when, if it is, and the last failure in words.
pub fn failure_words(row: &DestinationRow<'_>) -> String {
    let mut out = match row.missing {
        Some((why, Some(since))) => {
            let why = match why {
                Absence::Protected => "protected by an M_Key",
                Absence::Unreachable => "cannot be reached",
                _ => "silent",
            };
            format!("{why} for {}", coarse_age(since))
        }
        _ => String::new(),
    };
    let Some(f) = &row.failure else {
        return out;
    };
    if !out.is_empty() {
        out.push_str(": ");
    }
    out.push_str(&format!("{} to {}", f.kind, f.attribute));
    if !f.detail.is_empty() {
        out.push_str(": ");
        out.push_str(f.detail);
    }
    out.push_str(&format!(" ({} ago)", coarse_age(f.age)));
    out
}

fn failure_role(kind: FailureKind) -> Role {
    match kind {
        FailureKind::NoAnswer | FailureKind::SendError => Role::Bad,
        FailureKind::Busy | FailureKind::BadStatus => Role::Warn,
        FailureKind::Unsupported => Role::Label,
    }
}

fn back_off_words(row: &DestinationRow<'_>) -> String {
    match row.back_off {
        None => String::new(),
        Some((failures, next)) if next.is_zero() => format!("{failures} failed, due"),
        Some((failures, next)) => format!("{failures} failed, {}", age(next)),
    }
}

fn name_role(row: &DestinationRow<'_>) -> Role {
    if row.back_off.is_some() {
        Role::Bad
    } else {
        Role::Text
    }
}

/// The columns of the destinations.
fn columns<'m>() -> Vec<Column<DestinationRow<'m>>> {
    vec![
        Column {
            title: "Destination",
            min: 13,
            max: 64,
            right: false,
            rank: 0,
            descending: false,
            cmp: |a, b| natural(a.name, b.name),
            draw: |r, c| c.text(r.name, name_role(r)),
            want: Some(|r, look| width(r.name, look)),
        },
        Column {
            title: "LID",
            min: 5,
            max: 5,
            right: true,
            rank: 11,
            descending: false,
            cmp: |a, b| a.lid.cmp(&b.lid),
            draw: |r, c| match r.lid {
                // Directed route: no LID was used.
                0 | 0xFFFF => c.text("DR", Role::Label),
                lid => c.number((lid.to_string(), Role::Text)),
            },
            want: None,
        },
        Column {
            title: "In flight",
            min: 9,
            max: 9,
            right: true,
            rank: 10,
            descending: true,
            cmp: |a, b| a.in_flight.cmp(&b.in_flight),
            draw: |r, c| number(u64::from(r.in_flight), Role::Text, c),
            want: None,
        },
        Column {
            title: "Sent",
            min: 6,
            max: 6,
            right: true,
            rank: 6,
            descending: true,
            cmp: |a, b| a.sent.cmp(&b.sent),
            draw: |r, c| number(r.sent, Role::Text, c),
            want: None,
        },
        Column {
            title: "Answered",
            min: 8,
            max: 8,
            right: true,
            rank: 9,
            descending: true,
            cmp: |a, b| a.answered.cmp(&b.answered),
            draw: |r, c| number(r.answered, Role::Text, c),
            want: None,
        },
        Column {
            title: "Retried",
            min: 7,
            max: 7,
            right: true,
            rank: 7,
            descending: true,
            cmp: |a, b| a.retried.cmp(&b.retried),
            draw: |r, c| number(r.retried, Role::Warn, c),
            want: None,
        },
        Column {
            title: "Timeouts",
            min: 8,
            max: 8,
            right: true,
            rank: 1,
            descending: true,
            cmp: |a, b| a.timed_out.cmp(&b.timed_out),
            draw: |r, c| number(r.timed_out, Role::Bad, c),
            want: None,
        },
        Column {
            title: "p50",
            min: 6,
            max: 6,
            right: true,
            rank: 4,
            descending: true,
            cmp: |a, b| a.p50.cmp(&b.p50),
            draw: |r, c| time(r.p50, c),
            want: None,
        },
        Column {
            title: "p99",
            min: 6,
            max: 6,
            right: true,
            rank: 3,
            descending: true,
            cmp: |a, b| a.p99.cmp(&b.p99),
            draw: |r, c| time(r.p99, c),
            want: None,
        },
        Column {
            title: "Max",
            min: 6,
            max: 6,
            right: true,
            rank: 8,
            descending: true,
            cmp: |a, b| a.max.cmp(&b.max),
            draw: |r, c| time(r.max, c),
            want: None,
        },
        Column {
            title: "Back-off",
            min: 8,
            max: 18,
            right: false,
            rank: 5,
            descending: true,
            cmp: |a, b| a.back_off.cmp(&b.back_off),
            draw: |r, c| {
                // Narrow: when it is asked again is what counts.
                let text = match r.back_off {
                    Some((_, next)) if c.width < 14 => age(next),
                    _ => back_off_words(r),
                };
                c.text(&text, Role::Bad);
            },
            want: Some(|r, look| width(&back_off_words(r), look)),
        },
        Column {
            title: "Last failure",
            min: 14,
            max: 70,
            right: false,
            rank: 2,
            descending: true,
            // The latest is the greatest; whoever is missing without one comes next.
            cmp: |a, b| {
                let latest = |r: &DestinationRow<'_>| {
                    let failed = r.failure.as_ref().map(|f| f.age);
                    (failed.map(Reverse), r.missing.map(|(_, since)| since))
                };
                latest(a).cmp(&latest(b))
            },
            draw: |r, c| {
                let role = match (r.missing, &r.failure) {
                    (Some((Absence::Unreachable, _)), _) => Role::Bad,
                    (Some((Absence::Protected, _)), _) => Role::Warn,
                    (_, Some(f)) => failure_role(f.kind),
                    (_, None) => Role::Bad,
                };
                c.text(&failure_words(r), role);
            },
            want: Some(|r, look| width(&failure_words(r), look)),
        },
    ]
}

/// True if the row passes the filter.
fn matches(row: &DestinationRow<'_>, filter: &Filter) -> bool {
    if filter.is_empty() {
        return true;
    }
    let failure = row.failure.as_ref().map(|f| f.kind.to_string());
    let mut texts = vec![row.name];
    texts.extend(failure.as_deref());
    if row.back_off.is_some() {
        texts.push("back-off");
    }
    let guids: Vec<u64> = row.node.iter().map(|n| n.guid.0).collect();
    filter.matches(&Subject {
        texts: &texts,
        numbers: &[u32::from(row.lid)],
        guids: &guids,
    })
}

/// What a request asks for, in words.
fn what(row: &InFlightRow<'_>) -> String {
    let class = match row.class {
        0x81 => "SMP DR",
        0x01 => "SMP LID",
        0x03 => "SA",
        0x04 => "Perf",
        _ => "class",
    };
    let name = names::attribute(MgmtClass::new(row.class), row.attribute);
    let mut out = format!("{class} {name}");
    if name == "unknown" {
        out.push_str(&format!(" {:#06x}", row.attribute));
    }
    if row.port != 0 {
        out.push_str(&format!(" port {}", row.port));
    } else if row.modifier != 0 {
        out.push_str(&format!(" modifier {:#x}", row.modifier));
    }
    out
}

/// Draws the requests in flight, the oldest first. Young ones come and go within a frame, so
/// ages are in tenths of a second.
fn draw_in_flight(
    area: Rect,
    buf: &mut Buffer,
    header: &HeaderView<'_>,
    rows: &mut [InFlightRow<'_>],
    look: &Look,
) {
    if area.is_empty() {
        return;
    }
    rows.sort_by_key(|r| (Reverse(r.age), r.tid));
    let use_of = |(used, budget): (usize, u16)| format!("{used} of {budget}");
    let label = |t: &str| (t.to_owned(), Role::Label);
    let text = |t: String| (t, Role::Text);
    let oldest = rows.first().map_or(Duration::ZERO, |r| r.age);
    let mut facts = vec![
        (
            0,
            vec![
                ("In flight ".to_owned(), Role::Accent),
                text((header.smp_in_flight.0 + header.gmp_in_flight.0).to_string()),
            ],
        ),
        (2, vec![label("SMPs "), text(use_of(header.smp_in_flight))]),
        (3, vec![label("GMPs "), text(use_of(header.gmp_in_flight))]),
    ];
    if header.overdue > 0 {
        facts.push((4, vec![label("overdue "), text(header.overdue.to_string())]));
    }
    if !rows.is_empty() {
        facts.push((1, vec![label("oldest "), text(seconds(oldest))]));
    }
    pack(buf, area, Style::new(), look, facts);
    let lines = usize::from(area.height - 1);
    let shown = if rows.len() > lines {
        lines.saturating_sub(1)
    } else {
        lines
    };
    let mut y = area.y + 1;
    for row in rows.iter().take(shown) {
        let attempt = if row.attempt > 1 || row.overdue {
            Role::Warn
        } else {
            Role::Label
        };
        let line = Rect {
            y,
            height: 1,
            ..area
        };
        pack(
            buf,
            line,
            Style::new(),
            look,
            vec![
                (0, vec![text(super::pad_left(&seconds(row.age), 6, look))]),
                (
                    1,
                    vec![text(super::pad(
                        row.who,
                        (area.width / 3).clamp(10, 40),
                        look,
                    ))],
                ),
                (
                    2,
                    vec![text(super::pad(
                        &what(row),
                        (area.width / 3).clamp(10, 40),
                        look,
                    ))],
                ),
                (
                    3,
                    vec![(
                        format!(
                            "attempt {}{}",
                            row.attempt,
                            if row.overdue { " overdue" } else { "" }
                        ),
                        attempt,
                    )],
                ),
                (4, vec![label(&format!("TID {:08x}", row.tid))]),
            ],
        );
        y += 1;
    }
    if rows.len() > shown && y < area.bottom() {
        let more = format!("       and {} more", rows.len() - shown);
        put(
            buf,
            (area.x, y),
            area.width,
            &more,
            look.style(Role::Label),
            look,
        );
    }
}
