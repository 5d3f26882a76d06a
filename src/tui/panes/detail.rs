//! A port in full: both ends of its link, all counters, all PortInfo fields.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::ports::flag_words;
use super::{Page, pad, pad_left, phys_word, state_word};
use crate::model::Num;
use crate::model::view::{CounterView, EndDetail, PortDetail};
use crate::tui::text::{age, count, num, percent, si, width};
use crate::tui::theme::{Look, Role};

/// From this width on both ends stand side by side.
const SIDE_BY_SIDE: u16 = 118;

/// Draws from line `top` on; says how many lines there are.
pub fn draw(
    area: Rect,
    buf: &mut Buffer,
    detail: &PortDetail<'_>,
    top: usize,
    look: &Look,
) -> usize {
    match &detail.far {
        Some(far) if area.width >= SIDE_BY_SIDE => {
            let half = area.width / 2 - 1;
            let near = end("This end", &detail.near, half, look);
            let far = end("Other end", far, half, look);
            let len = near.len().max(far.len());
            let top = clamp(top, len, area);
            near.draw(
                Rect {
                    width: half,
                    ..area
                },
                top,
                buf,
                look,
            );
            let right = Rect {
                x: area.x + half + 2,
                width: area.width - half - 2,
                ..area
            };
            far.draw(right, top, buf, look);
            len
        }
        far => {
            let mut page = end("This end", &detail.near, area.width, look);
            page.gap();
            match far {
                Some(far) => page.append(end("Other end", far, area.width, look)),
                None => page.line(vec![("No other end is known.".into(), Role::Label)]),
            }
            page.draw(area, clamp(top, page.len(), area), buf, look);
            page.len()
        }
    }
}

fn clamp(top: usize, len: usize, area: Rect) -> usize {
    top.min(len.saturating_sub(usize::from(area.height)))
}

fn old(age_of: Option<Duration>, stale: bool) -> (String, Role) {
    match age_of {
        None => (" (never read)".into(), Role::Warn),
        Some(d) if stale => (format!(" (read {} ago)", age(d)), Role::Warn),
        Some(_) => (String::new(), Role::Label),
    }
}

fn fact(page: &mut Page, name: &str, value: String, role: Role, room: u16, look: &Look) {
    let name = pad(name, label_room(room), look);
    page.line(vec![
        (name, Role::Label),
        (" ".into(), Role::Label),
        (value, role),
    ]);
}

fn label_room(room: u16) -> u16 {
    (room / 2).clamp(8, 28)
}

fn end(title: &str, e: &EndDetail<'_>, room: u16, look: &Look) -> Page {
    let mut page = Page::default();
    let row = &e.row;
    page.heading(format!("{title}: {} port {}", row.name, row.key.port));
    let mut flags: Vec<(String, Role)> = Vec::new();
    for (word, role) in flag_words(row.flags) {
        if !flags.is_empty() {
            flags.push((", ".into(), Role::Label));
        }
        flags.push((word.into(), role));
    }
    if flags.is_empty() {
        flags.push(("none".into(), Role::Label));
    }
    let unknown = || look.glyphs.unknown.to_owned();
    let state = row.state.map_or_else(unknown, |s| state_word(s).into());
    let phys = row.phys.map_or_else(unknown, |p| phys_word(p).into());
    fact(
        &mut page,
        "State",
        format!("{state} / {phys}"),
        Role::Text,
        room,
        look,
    );
    if let (Some(w), Some(s)) = (row.width, row.speed) {
        fact(
            &mut page,
            "Link",
            format!("{w} {s}"),
            Role::Text,
            room,
            look,
        );
    }
    let name = pad("Flags", label_room(room), look);
    let mut line = vec![(name, Role::Label), (" ".into(), Role::Label)];
    line.append(&mut flags);
    page.line(line);
    if let Some(peer) = &row.peer {
        let was = if peer.former { "was " } else { "" };
        let value = format!("{was}{} port {}", peer.name, peer.key.port);
        fact(&mut page, "Peer", value, Role::Text, room, look);
    }
    for (name, value) in &e.node {
        fact(&mut page, name, value.clone(), Role::Text, room, look);
    }
    let t = &e.traffic;
    for (name, bps, share) in [
        ("Transmits", t.tx_bps, t.tx_share()),
        ("Receives", t.rx_bps, t.rx_share()),
    ] {
        let (rate, role) = num(bps, look, Role::Text, si);
        let (share, _) = num(share, look, Role::Text, percent);
        fact(
            &mut page,
            name,
            format!("{rate} bit/s, {share} of the link"),
            role,
            room,
            look,
        );
    }

    page.gap();
    page.line(vec![
        ("Counters".into(), Role::Accent),
        old(e.counters_age, t.stale || row.stale),
    ]);
    counters(&mut page, &e.counters, room, look);
    page.gap();
    page.line(vec![
        ("PortInfo".into(), Role::Accent),
        old(e.port_info_age, row.stale),
    ]);
    for (name, value) in &e.port_info {
        fact(&mut page, name, value.clone(), Role::Text, room, look);
    }
    page
}

const VALUE: u16 = 15;
const SINCE: u16 = 7;
const RATE: u16 = 6;

fn counters(page: &mut Page, counters: &[CounterView], room: u16, look: &Look) {
    let name_room = room.saturating_sub(VALUE + SINCE + RATE + 3).clamp(8, 28);
    let cells = |name: &str, value: &str, since: &str, rate: &str| {
        [
            pad(name, name_room, look),
            pad_left(value, VALUE + 1, look),
            pad_left(since, SINCE + 1, look),
            pad_left(rate, RATE + 1, look),
        ]
    };
    let head = cells("", "value", "since", "per s");
    page.line(head.map(|t| (t, Role::Label)).to_vec());
    for c in counters {
        let name = if c.unit.is_empty() {
            c.name.to_owned()
        } else {
            format!("{} ({})", c.name, c.unit)
        };
        // Exact while it fits: people compare it with perfquery's.
        let (value, value_role) = num(c.value, look, Role::Text, |v| v.to_string());
        let value = if width(&value, look) > VALUE {
            num(c.value, look, Role::Text, |v| si(v as f64)).0
        } else {
            value
        };
        let rose = matches!(c.since.get(), Some(v) if v > 0) && c.error;
        let quiet = |n: Option<f64>| n == Some(0.0);
        let role = |zero: bool| match (rose, zero) {
            (true, false) => Role::Warn,
            (_, true) => Role::Label,
            (false, false) => Role::Text,
        };
        let since_role = role(quiet(c.since.get().map(|v| v as f64)));
        let (since, since_role) = num(c.since, look, since_role, |v| format!("+{}", count(v)));
        let (rate, rate_role) = num(c.rate, look, role(quiet(c.rate.get())), si);
        let value_role = match c.value {
            Num::Is(0) => Role::Label,
            _ => value_role,
        };
        let [name, value, since, rate] = cells(&name, &value, &since, &rate);
        page.line(vec![
            (name, if rose { Role::Warn } else { Role::Text }),
            (value, value_role),
            (since, since_role),
            (rate, rate_role),
        ]);
    }
}
