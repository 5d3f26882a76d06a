//! The last line: what keys do here, or the filter being typed, or what was just done.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::keys::{BINDINGS, Cmd, Kind, Scope};
use crate::tui::pack::{Fact, pack};
use crate::tui::text::{put, width};
use crate::tui::theme::{Look, Role};

/// Draws the keys that work here; `now` says what some of them do at this moment.
pub fn draw_keys(
    area: Rect,
    buf: &mut Buffer,
    (scope, kind): (Scope, Kind),
    now: &[(Cmd, &str)],
    look: &Look,
) {
    let mut facts: Vec<Fact> = BINDINGS
        .iter()
        .filter(|b| b.works(scope, kind))
        .filter_map(|b| {
            let rank = b.footer?;
            let name = match now.iter().find(|(cmd, _)| *cmd == b.cmd) {
                Some((_, word)) => word,
                None if b.cmd == Cmd::Quit && scope != Scope::Pane => "back",
                None => b.name,
            };
            Some((
                rank,
                vec![
                    (b.shown.to_owned(), Role::Accent),
                    (format!(" {name}"), Role::Label),
                ],
            ))
        })
        .collect();
    // In the table the way out stands first; on the screen it stands last, and stays longest.
    facts.sort_by_key(|f| f.0);
    for fact in &mut facts {
        if fact.0 >= 8 {
            fact.0 = 0;
        }
    }
    pack(buf, inner(area), Style::new(), look, facts);
}

/// Draws the filter while it is typed: the end of the text stays in sight.
pub fn draw_filter(area: Rect, buf: &mut Buffer, text: &str, look: &Look) {
    draw_typed(area, buf, "/", text, "  Enter keep  Esc clear", look);
}

/// Draws a place in a recording while it is typed.
pub fn draw_goto(area: Rect, buf: &mut Buffer, text: &str, look: &Look) {
    let hint = "  +5m -30s 40% 12:30:00 1h30m  Enter go";
    draw_typed(area, buf, "go to ", text, hint, look);
}

fn draw_typed(area: Rect, buf: &mut Buffer, mark: &str, text: &str, hint: &str, look: &Look) {
    let area = inner(area);
    let hint = if area.width > 50 { hint } else { "" };
    let room = area
        .width
        .saturating_sub(width(hint, look) + width(mark, look) + 1);
    let mut tail = text;
    while width(tail, look) > room {
        let mut chars = tail.chars();
        chars.next();
        tail = chars.as_str();
    }
    let pieces = vec![
        (mark.to_owned(), Role::Accent),
        (tail.to_owned(), Role::Text),
        (look.glyphs.caret.to_owned(), Role::Accent),
        (hint.to_owned(), Role::Label),
    ];
    pack(buf, area, Style::new(), look, vec![(0, pieces)]);
}

/// Draws a message.
pub fn draw_message(area: Rect, buf: &mut Buffer, text: &str, look: &Look) {
    let area = inner(area);
    put(
        buf,
        (area.x, area.y),
        area.width,
        text,
        look.style(Role::Accent),
        look,
    );
}

fn inner(area: Rect) -> Rect {
    Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(1),
        ..area
    }
}
