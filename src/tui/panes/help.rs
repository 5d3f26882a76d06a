//! The help: every key that works in this kind of session, and what the marks mean.

use super::{Page, pad};
use crate::tui::keys::{BESIDE, BINDINGS, Binding, Cmd, Kind};
use crate::tui::theme::{Look, Role};

/// The help for sessions of this kind: nothing that cannot be done in them.
pub fn page(kind: Kind, can_suspend: bool, room: u16, look: &Look) -> Page {
    let mut page = Page::default();
    page.heading("Keys");
    let works =
        |b: &&Binding| b.is_for(kind) && b.help != BESIDE && (can_suspend || b.cmd != Cmd::Suspend);
    for b in BINDINGS.iter().filter(works) {
        entry(&mut page, b.shown, b.help, room, look, Role::Accent);
    }
    page.gap();
    page.heading("Numbers");
    let g = look.glyphs;
    for (mark, meaning) in [
        (
            g.unknown,
            "not known: never read, or the node does not have it",
        ),
        (g.at_least, "the counter is at its maximum: this or more"),
        (
            "reset",
            "somebody reset the counter: no change can be told until the next sample",
        ),
        (
            "Age",
            "of the older of state and counters; shown from two intervals on, the numbers italic",
        ),
        (
            "k M G T",
            "1,000 times as much each; rates are in bit/s, not bytes",
        ),
        (
            "Errors",
            "sum of the error counters' increments since fabtop began",
        ),
        (
            "In Out",
            "what all adapters together send into the fabric, and get from it",
        ),
        (
            "Used",
            "share of the link's effective rate, in the fuller direction",
        ),
        (
            "Wait",
            "share of time that the port had data and could not send",
        ),
        (
            "B/pkt, Mcast",
            "bytes of an average packet and share of multicast, in the fuller direction",
        ),
    ] {
        entry(&mut page, mark, meaning, room, look, Role::Text);
    }
    page.gap();
    page.heading("Flags, the gravest first");
    for (flag, meaning) in [
        ("unreachable", "no way leads to the node now"),
        ("no answer", "the node does not answer"),
        ("down", "the port had a link and has none now"),
        ("errors", "error counters rose since fabtop began"),
        (
            "below best",
            "width or speed is below what both ends can do",
        ),
        ("pegged", "a counter is at its maximum"),
        (
            "not active",
            "the link is up, but the subnet manager has not made it active",
        ),
        ("+1", "so many more flags: the port's detail has them all"),
    ] {
        entry(&mut page, flag, meaning, room, look, Role::Warn);
    }
    page
}

/// A mark and its meaning, wrapped at words.
fn entry(page: &mut Page, mark: &str, meaning: &str, room: u16, look: &Look, role: Role) {
    const MARK: u16 = 13;
    let room = usize::from(room.saturating_sub(MARK).max(10));
    let mut first = true;
    let mut line = String::new();
    let mut flush = |line: &mut String| {
        let mark = if first { mark } else { "" };
        first = false;
        page.line(vec![
            (pad(mark, MARK, look), role),
            (std::mem::take(line), Role::Text),
        ]);
    };
    for word in meaning.split(' ') {
        if !line.is_empty() && line.len() + 1 + word.len() > room {
            flush(&mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    flush(&mut line);
}
