//! A path by the forwarding tables: every node on it, and what its links carry.

use super::{Page, pad, pad_left, state_word};
use crate::fabric::NodeKind;
use crate::model::view::{HopView, PATH_LABEL, PathView};
use crate::model::{Num, so_many};
use crate::tui::panes::ports::flag_words;
use crate::tui::text::{age, count, num, percent, si, width};
use crate::tui::theme::{Look, Role};

/// From this width on a hop's load stands beside it.
const WIDE: u16 = 76;

/// The page.
pub fn page(view: &PathView<'_>, room: u16, look: &Look) -> Page {
    let mut page = Page::default();
    let (from, name) = view.from;
    page.line(vec![
        ("From ".into(), Role::Label),
        (format!("{name} port {}", from.port), Role::Accent),
    ]);
    let to = match (view.to, &view.to_in_sa) {
        (Some((to, name)), _) => format!("{name} port {}", to.port),
        (None, Some(name)) => format!("{name} (only the SA knows it)"),
        (None, None) => "nobody known".to_owned(),
    };
    page.line(vec![
        ("To   ".into(), Role::Label),
        (to, Role::Accent),
        (format!("  LID {}", view.lid), Role::Label),
    ]);
    page.wrapped(PATH_LABEL, Role::Warn, room, look);
    let verdict = match (view.arrives, view.reading) {
        (true, _) => {
            let over = view
                .hops
                .iter()
                .filter(|h| h.kind == NodeKind::Switch)
                .count();
            let over = so_many(over, "switch", "switches");
            match view.beyond {
                Some(_) => (format!("Over {over} it {}", view.end), Role::Warn),
                None => (format!("Arrives, over {over}"), Role::Good),
            }
        }
        (false, true) => ("Reading the tables on its way".to_owned(), Role::Label),
        (false, false) if !view.known => {
            let text = format!("Not known whether it arrives: {}", view.end);
            (text, Role::Warn)
        }
        (false, false) => (format!("Does not arrive: {}", view.end), Role::Bad),
    };
    page.wrapped(&verdict.0, verdict.1, room, look);
    super::tables_read(&mut page, view.age, view.outdated, view.reading);
    page.gap();
    let wide = room >= WIDE;
    let names = name_room(room, wide);
    if wide {
        page.line(vec![(
            format!(
                " {} {} {} {} {} {} {} ",
                pad("Node", names, look),
                pad_left("In", 3, look),
                pad_left("Out", 3, look),
                pad("State", 6, look),
                pad_left("Sends", 7, look),
                pad_left("Used", 5, look),
                pad_left("Errors", 7, look),
            ) + "Flags",
            Role::Label,
        )]);
    }
    for hop in &view.hops {
        if wide {
            wide_hop(&mut page, hop, names, look);
        } else {
            narrow_hop(&mut page, hop, room, look);
        }
    }
    if let Some(beyond) = &view.beyond {
        let text = format!(" not seen, as the SA tells it: {}", beyond.words());
        page.wrapped(&text, Role::Warn, room, look);
    }
    page
}

fn name_room(room: u16, wide: bool) -> u16 {
    if wide {
        room.saturating_sub(54).clamp(14, 48)
    } else {
        room.saturating_sub(12).max(8)
    }
}

fn port(number: Option<u8>, look: &Look) -> String {
    number.map_or_else(|| look.glyphs.unknown.to_owned(), |n| n.to_string())
}

/// Flags of both ports that the path uses, each once.
fn flags(hop: &HopView<'_>) -> Vec<(&'static str, Role)> {
    let mut words: Vec<(&'static str, Role)> = Vec::new();
    words.extend(hop.told.then_some(("table from the SA", Role::Warn)));
    let rows = [hop.into.as_ref(), hop.out.as_ref().map(|(row, _)| row)];
    for word in rows.into_iter().flatten().flat_map(|r| flag_words(r.flags)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// State, load, share and errors of the port by which the path leaves; state and errors of the
/// one by which it enters the last node.
fn facts(hop: &HopView<'_>, look: &Look) -> [(String, Role); 4] {
    let row = hop.out.as_ref().map(|(row, _)| row).or(hop.into.as_ref());
    let load = hop.out.as_ref().map(|(_, t)| t);
    let unknown = || (look.glyphs.unknown.to_owned(), Role::Label);
    let state = match row.and_then(|r| r.state) {
        Some(4) => (state_word(4).to_owned(), Role::Good),
        Some(code) => (state_word(code).to_owned(), Role::Warn),
        None => unknown(),
    };
    let (sends, used) = match load {
        Some(t) => (
            num(t.tx_bps, look, Role::Text, si),
            num(t.tx_share(), look, Role::Text, percent),
        ),
        None => ((String::new(), Role::Label), (String::new(), Role::Label)),
    };
    let errors = row.map_or(Num::Unknown, |r| r.errors);
    let role = match errors.get() {
        Some(0) | None => Role::Label,
        _ => Role::Warn,
    };
    [state, sends, used, num(errors, look, role, count)]
}

fn wide_hop(page: &mut Page, hop: &HopView<'_>, names: u16, look: &Look) {
    let [state, sends, used, errors] = facts(hop, look);
    let right = |(text, role): (String, Role), room| (pad_left(&text, room, look) + " ", role);
    let mut line = vec![
        (format!(" {} ", pad(hop.name, names, look)), Role::Text),
        right((port(hop.enters, look), Role::Text), 3),
        right((port(hop.leaves, look), Role::Text), 3),
        (pad(&state.0, 6, look) + " ", state.1),
        right(sends, 7),
        right(used, 5),
        right(errors, 7),
    ];
    for (n, (word, role)) in flags(hop).into_iter().enumerate() {
        if n > 0 {
            line.push((", ".into(), Role::Label));
        }
        line.push((word.into(), role));
    }
    page.line(line);
}

fn narrow_hop(page: &mut Page, hop: &HopView<'_>, room: u16, look: &Look) {
    let ends = match (hop.enters, hop.leaves) {
        (Some(enters), Some(leaves)) => format!("[{enters}]>[{leaves}]"),
        (Some(enters), None) => format!("[{enters}]"),
        (None, Some(leaves)) => format!(">[{leaves}]"),
        (None, None) => String::new(),
    };
    let names = room.saturating_sub(width(&ends, look));
    page.line(vec![
        (super::cut(hop.name, names, look), Role::Text),
        (ends, Role::Label),
    ]);
    let [state, sends, used, errors] = facts(hop, look);
    let mut line = vec![("  ".to_owned(), Role::Label), state];
    if hop.out.is_some() {
        line.extend([
            ("  ".to_owned(), Role::Label),
            sends,
            (" ".into(), Role::Label),
            used,
        ]);
    }
    line.extend([("  err ".to_owned(), Role::Label), errors]);
    page.line(line);
    let words: Vec<&str> = flags(hop).iter().map(|(word, _)| *word).collect();
    if !words.is_empty() {
        page.wrapped(&format!("  {}", words.join(", ")), Role::Warn, room, look);
    }
}

/// How old tables are, for pages about them.
pub(super) fn tables_read(
    page: &mut Page,
    read: Option<std::time::Duration>,
    outdated: bool,
    reading: bool,
) {
    let mut line = match read {
        Some(d) => vec![(format!("Tables read {} ago", age(d)), Role::Label)],
        None => Vec::new(),
    };
    if outdated {
        line.push(("; the fabric changed since".into(), Role::Warn));
    }
    if reading {
        line.push(("  reading".into(), Role::Accent));
    }
    if !line.is_empty() {
        page.line(line);
    }
}
