//! One file a screen, the one table of panes, and what several screens share.
//!
//! A pane turns rows into cells. It must never compute what the model should, and never draw a
//! number without its state.

pub mod alerts;
pub mod detail;
pub mod footer;
pub mod header;
pub mod help;
pub mod log;
pub mod path;
pub mod ports;
pub mod sa;
pub mod shared;
pub mod sheet;
pub mod timeline;
pub mod timeouts;
pub mod traffic;
pub mod uses;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use path::tables_read;

pub use self::sheet::Sheet;
use super::facts::Facts;
use super::keys::Cmd;
use super::text::{put, width};
use super::theme::{Look, Role};
use crate::mad::{PhysState, PortState};

macro_rules! panes {
    ($(#[doc = $doc:literal] $pane:ident $title:literal $room:ident;)*) => {
        /// The panes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Pane {
            $(#[doc = $doc] $pane),*
        }

        impl Pane {
            /// All, in the order of their keys.
            pub const ALL: &[Pane] = &[$(Pane::$pane),*];

            /// The word on its tab.
            pub const fn title(self) -> &'static str {
                match self {
                    $(Pane::$pane => $title),*
                }
            }

            /// The pane that a command shows.
            pub const fn shown_by(cmd: Cmd) -> Option<Pane> {
                match cmd {
                    $(Cmd::$pane => Some(Pane::$pane),)*
                    _ => None,
                }
            }

            /// The column that sorts its table at first.
            pub const fn first_sort(self) -> usize {
                match self {
                    $(Pane::$pane => $room::FIRST_SORT),*
                }
            }

            /// Draws it.
            pub fn draw<F: Facts>(self, sheet: &mut Sheet<'_, F>) {
                match self {
                    $(Pane::$pane => $room::draw(sheet)),*
                }
            }
        }
    };
}

// The one table of panes: the command that shows it (by the same name), its title, its file,
// which has `FIRST_SORT` and `draw`. Its key stands in `super::keys`.
panes! {
    /// Every port.
    Ports "Ports" ports;
    /// Every link's traffic.
    Traffic "Traffic" traffic;
    /// In flight, and who answers.
    Timeouts "Timeouts" timeouts;
    /// What needs a look.
    Alerts "Alerts" alerts;
}

impl Pane {
    /// The pane `by` places further, round and round.
    pub fn step(self, by: usize) -> Pane {
        let at = Pane::ALL.iter().position(|p| *p == self).unwrap_or(0);
        Pane::ALL
            .get((at + by) % Pane::ALL.len())
            .copied()
            .unwrap_or(self)
    }
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

    /// Adds a sentence, wrapped at words.
    pub fn wrapped(&mut self, text: &str, role: Role, room: u16, look: &Look) {
        let mut line = String::new();
        for word in text.split(' ') {
            let full = width(&line, look) + 1 + width(word, look) > room;
            if full && !line.trim().is_empty() {
                self.line(vec![(std::mem::take(&mut line), role)]);
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
            if line.is_empty() {
                // A blank at the beginning is an indent.
                line.push(' ');
            }
        }
        self.line(vec![(line, role)]);
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

/// `text` in lines of at most `room` columns, broken at blanks.
fn wrap(text: &str, room: u16, look: &Look) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let used = lines.last().map_or(0, |l| width(l, look));
        if used > 0 && used.saturating_add(1 + width(word, look)) > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// `text` with blanks before it, up to `room` columns.
fn pad_left(text: &str, room: u16, look: &Look) -> String {
    let used = width(text, look);
    let mut out = " ".repeat(usize::from(room.saturating_sub(used)));
    out.push_str(text);
    out
}
