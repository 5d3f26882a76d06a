//! Where a replay is: its position in words, and the recording as one line with its marks.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::record::replay::{MarkKind, PlayState, Position, Speed};
use crate::tui::pack::{Fact, pack};
use crate::tui::text::{Clock, put, width};
use crate::tui::theme::{Look, Role};
use crate::tui::told::Replay;

/// Lines for a screen of this height: position and timeline, or only the position.
pub fn lines(height: u16) -> u16 {
    match height {
        0..=8 => 0,
        9..=15 => 1,
        _ => 2,
    }
}

/// Draws position and timeline into `area`, one or two lines.
pub fn draw(area: Rect, buf: &mut Buffer, replay: &Replay, clock: &Clock, look: &Look) {
    if area.is_empty() {
        return;
    }
    let line = |y: u16| Rect {
        x: area.x + 1,
        y: area.y + y,
        width: area.width.saturating_sub(1),
        height: 1,
    };
    pack(buf, line(0), Style::new(), look, facts(replay, clock, look));
    if area.height > 1
        && let Some(position) = &replay.position
    {
        bar(line(1), buf, replay, position, look);
    }
}

fn facts(replay: &Replay, clock: &Clock, look: &Look) -> Vec<Fact> {
    let text = |text: String| (text, Role::Text);
    let label = |text: &str| (text.to_owned(), Role::Label);
    let Some(p) = &replay.position else {
        return vec![
            (0, vec![("opening".into(), Role::Warn)]),
            (1, vec![text(replay.name.clone())]),
        ];
    };
    let (state, role) = match p.state {
        PlayState::Playing => ("playing", Role::Good),
        PlayState::Paused => ("paused ", Role::Warn),
        PlayState::Seeking => ("seeking", Role::Warn),
        PlayState::Ended => ("ended  ", Role::Warn),
    };
    let speed = match p.speed {
        Speed::Max => "max".to_owned(),
        Speed::Times(milli) => format!("{}{}", f64::from(milli) / 1e3, look.glyphs.times),
    };
    let all = p.end.since(p.start);
    let more = if p.end_known { "" } else { "+" };
    let mut facts = vec![
        (0, vec![(state.to_owned(), role)]),
        (2, vec![text(speed)]),
        (
            1,
            vec![
                text(length(p.moment.since(p.start), all)),
                label(" of "),
                text(format!("{}{more}", length(all, all))),
            ],
        ),
    ];
    if p.end_known {
        // Who went to 50% is not to read 49%.
        let percent = (p.fraction(p.moment) * 100.0 + 1e-6).floor();
        facts.push((3, vec![text(format!("{percent:3.0}%"))]));
    }
    if let Some(wall) = replay.wall() {
        // With the day and the zone where there is room.
        let date = clock.date(wall);
        let mut parts = date.split(' ');
        let (day, zone) = (parts.next(), parts.nth(1));
        facts.push((8, vec![text(day.unwrap_or_default().to_owned())]));
        facts.push((4, vec![text(clock.seconds(wall))]));
        facts.push((9, vec![label(zone.unwrap_or_default())]));
    }
    if p.skip_idle {
        facts.push((6, vec![label("skip idle")]));
    }
    facts.push((5, vec![text(replay.name.clone())]));
    if replay.problems > 0 {
        let many = format!("{} unreadable", replay.problems);
        facts.push((2, vec![(many, Role::Bad)]));
    }
    if let Some(message) = &p.message {
        facts.push((1, vec![(message.clone(), Role::Warn)]));
    }
    facts
}

/// `1:02:03`, with as many places as `all` needs, so that nothing moves.
fn length(time: Duration, all: Duration) -> String {
    let s = time.as_secs();
    let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
    if all.as_secs() >= 3600 {
        format!("{h}:{m:02}:{s:02}")
    } else {
        format!("{m:2}:{s:02}")
    }
}

/// The recording from its start to its end: the gravest mark of each column, and the cursor.
fn bar(area: Rect, buf: &mut Buffer, replay: &Replay, position: &Position, look: &Look) {
    let room = usize::from(area.width.saturating_sub(1));
    if room == 0 {
        return;
    }
    let column = |moment| {
        let at = position.fraction(moment) * (room - 1) as f64;
        (at.round() as usize).min(room - 1)
    };
    let mut marks: Vec<Option<MarkKind>> = vec![None; room];
    for mark in &replay.marks {
        if let Some(cell) = marks.get_mut(column(mark.at)) {
            *cell = (*cell).max(Some(mark.kind));
        }
    }
    let here = column(position.moment);
    let g = look.glyphs;
    for ((at, mark), x) in marks.iter().enumerate().zip(area.left()..) {
        let (glyph, role) = match mark {
            _ if at == here => (g.cursor, Role::Select),
            Some(MarkKind::Bookmark) => (g.bookmark, Role::Accent),
            Some(MarkKind::Alert) => ("!", Role::Bad),
            Some(MarkKind::Event) => (g.event, Role::Text),
            None if at < here => (g.rule, Role::Good),
            None => (g.rule, Role::Track),
        };
        debug_assert_eq!(width(glyph, look), 1);
        put(buf, (x, area.y), 1, glyph, look.style(role), look);
    }
}
