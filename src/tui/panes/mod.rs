//! One file a screen, and what several of them share.
//!
//! A pane turns rows into cells. It must never compute what the model should, and never draw a
//! number without its state.

pub mod detail;
pub mod footer;
pub mod header;
pub mod help;
pub mod log;
pub mod ports;
pub mod timeline;
pub mod timeouts;
pub mod traffic;

use std::cmp::Ordering;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::table::{Cell, natural};
use super::text::{age, put, width};
use super::theme::{Look, Role};
use crate::mad::{PhysState, PortState};
use crate::model::view::PeerView;

/// Order by node name, then port.
fn by_place(a: (&str, u8), b: (&str, u8)) -> Ordering {
    natural(a.0, b.0).then(a.1.cmp(&b.1))
}

/// Order by the other end; ports without one come last.
fn by_peer(a: Option<&PeerView<'_>>, b: Option<&PeerView<'_>>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => by_place((a.name, a.key.port), (b.name, b.key.port)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// The other end as `name[port]`: the name is cut before the port is.
fn draw_peer(peer: Option<&PeerView<'_>>, cell: &mut Cell<'_>) {
    let Some(peer) = peer else { return };
    let role = if peer.former { Role::Label } else { Role::Text };
    let was = if peer.former { "was " } else { "" };
    let port = format!("[{}]", peer.key.port);
    let room = cell
        .width
        .saturating_sub(width(&port, cell.look) + width(was, cell.look));
    let name = cut(peer.name, room, cell.look);
    cell.spans(&[(was, Role::Label), (&name, role), (&port, Role::Label)]);
}

/// A port as `name[port]`: the name is cut before the port is.
fn draw_place(name: &str, port: u8, cell: &mut Cell<'_>) {
    let port = format!("[{port}]");
    let room = cell.width.saturating_sub(width(&port, cell.look));
    let name = cut(name, room, cell.look);
    cell.spans(&[(&name, Role::Text), (&port, Role::Label)]);
}

fn want_peer(peer: Option<&PeerView<'_>>, look: &Look) -> u16 {
    peer.map_or(0, |p| {
        let port = match p.key.port {
            0..=9 => 3,
            10..=99 => 4,
            _ => 5,
        };
        width(p.name, look) + port + if p.former { 4 } else { 0 }
    })
}

/// `text` cut to `room` columns.
pub fn cut(text: &str, room: u16, look: &Look) -> String {
    if width(text, look) <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = width(c.encode_utf8(&mut [0; 4]), look);
        if used + w + 1 > room {
            break;
        }
        used += w;
        out.push(c);
    }
    if room > 0 {
        out.push_str(look.glyphs.cut);
    }
    out
}

/// An age, shown only when it is above two intervals: below, the datum is as new as can be.
fn draw_age(when: Option<Duration>, stale: bool, cell: &mut Cell<'_>) {
    match when {
        None => cell.text(cell.look.glyphs.unknown, Role::Label),
        Some(d) if stale => cell.number((age(d), Role::Warn)),
        Some(_) => {}
    }
}

/// PortState in the specification's word.
pub(super) fn state_word(code: u8) -> &'static str {
    PortState::new(code).word().unwrap_or("???")
}

/// Physical state in the specification's word.
pub(super) fn phys_word(code: u8) -> &'static str {
    PhysState::new(code).word().unwrap_or("???")
}

/// Text in lines of coloured pieces, for screens that scroll.
#[derive(Debug, Default)]
pub struct Page {
    lines: Vec<Vec<(String, Role)>>,
}

impl Page {
    /// Adds a line.
    pub fn line(&mut self, pieces: Vec<(String, Role)>) {
        self.lines.push(pieces);
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.lines.push(Vec::new());
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.line(vec![(text.into(), Role::Accent)]);
    }

    /// Adds another page's lines.
    pub fn append(&mut self, mut other: Page) {
        self.lines.append(&mut other.lines);
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Draws it from line `top` on.
    pub fn draw(&self, area: Rect, top: usize, buf: &mut Buffer, look: &Look) {
        for (line, y) in self.lines.iter().skip(top).zip(area.top()..area.bottom()) {
            let mut x = area.x;
            for (text, role) in line {
                let room = area.right().saturating_sub(x);
                x += put(buf, (x, y), room, text, look.style(*role), look);
            }
        }
    }
}

/// `text` filled up with blanks to `room` columns, or cut to it.
fn pad(text: &str, room: u16, look: &Look) -> String {
    let mut out = cut(text, room, look);
    let used = width(&out, look);
    out.extend(std::iter::repeat_n(
        ' ',
        usize::from(room.saturating_sub(used)),
    ));
    out
}

/// `text` with blanks before it, up to `room` columns.
fn pad_left(text: &str, room: u16, look: &Look) -> String {
    let used = width(text, look);
    let mut out = " ".repeat(usize::from(room.saturating_sub(used)));
    out.push_str(text);
    out
}
