//! The Ports pane: every port, its state, its link, its errors.

use super::{Sheet, phys_word, shared, state_word};
use crate::fabric::{NodeId, PortKey, effective_gbps};
use crate::model::view::{Flags, PortRow, Wanted};
use crate::model::{Baseline, Part};
use crate::port::Stamp;
use crate::tui::facts::Facts;
use crate::tui::filter::{Filter, Subject};
use crate::tui::table::{Cell, Column, Rank, RowKey, Source, by_f64};
use crate::tui::text::{count, num, si, width};
use crate::tui::theme::{Look, Role};

/// Column that sorts at first: the gravest on top.
pub const FIRST_SORT: usize = 9;

/// Draws the pane.
pub fn draw<F: Facts>(sheet: &mut Sheet<'_, F>) {
    if sheet.is_large() {
        let source = Many {
            facts: sheet.facts,
            from: sheet.baseline,
            at: sheet.at,
            filter: &sheet.filter().clone(),
        };
        let columns = columns(false);
        sheet.update_large(&source, &columns);
        return sheet.large_table(&source, &columns);
    }
    let rows = sheet.facts.ports(sheet.baseline, sheet.at);
    let columns = columns(rows.iter().any(|r| r.stale));
    sheet.table(&rows, &columns, key, matches);
}

/// The rows of very many ports.
struct Many<'a, F> {
    facts: &'a F,
    from: Option<&'a Baseline>,
    at: Stamp,
    filter: &'a Filter,
}

impl<'a, F: Facts> Source<PortRow<'a>> for Many<'a, F> {
    fn list(&self) -> Vec<PortKey> {
        self.facts.port_list()
    }
    fn layout(&self) -> u64 {
        self.facts.layout()
    }
    fn changed(&self, node: NodeId) -> u64 {
        self.facts.changed(node)
    }
    fn shape(&self, node: NodeId) -> u64 {
        self.facts.shape(node)
    }
    fn name(&self, node: NodeId) -> &str {
        self.facts.name(node)
    }
    fn row(&self, key: PortKey) -> Option<PortRow<'a>> {
        self.facts.port(key, self.from, self.at)
    }
    fn each(
        &self,
        node: NodeId,
        title: &str,
        filtered: bool,
        each: &mut dyn FnMut(PortKey, PortRow<'a>),
    ) {
        let filter = !self.filter.is_empty();
        let want = Wanted {
            names: filter && filtered,
            link: filter && filtered || matches!(title, "Type" | "LID" | "Link" | "Peer[port]"),
            errors: title == "Errors",
            error_rate: title == "Err/s",
            age: filter || title == "Age",
            ..Wanted::LEAST
        };
        let mut each = |row: PortRow<'a>| each(row.key, row);
        self.facts
            .each_port(node, self.from, self.at, want, &mut each);
    }
    fn sight(&self, row: &PortRow<'a>) -> Option<u64> {
        (!self.filter.is_empty()).then(|| sight(row))
    }
    fn rank(&self, title: &str, row: &PortRow<'a>) -> Rank {
        rank(title, row)
    }
    fn keeps(&self, row: &PortRow<'a>) -> bool {
        matches(row, self.filter)
    }
    fn part(&self, _: NodeId) -> Option<Part> {
        None
    }
}

/// What a row is sorted by; in the order of the column's `cmp`.
fn rank(title: &str, r: &PortRow<'_>) -> Rank {
    let flag = |on: bool, place: u32| u64::from(on) << (7 - place);
    Rank::Number(match title {
        "Type" => r.kind as u64,
        "Port" => r.key.port.into(),
        "LID" => r.lid.map_or(0, |lid| 1 + u64::from(lid)),
        "State" => r.state.map_or(0, |s| 1 + u64::from(s)),
        "Physical" => r.phys.map_or(0, |p| 1 + u64::from(p)),
        "Link" => return Rank::float(link_rate(r)),
        "Peer[port]" => return Rank::Place(r.peer.as_ref().map(|p| p.key)),
        "Errors" => r.errors.get().map_or(0, |n| n.saturating_add(1)),
        "Err/s" => return Rank::float(r.errors_per_s.get()),
        "Flags" => {
            let f = r.flags;
            flag(f.unreachable, 0)
                | flag(f.no_answer, 1)
                | flag(f.down, 2)
                | flag(f.errors, 3)
                | flag(f.below_best, 4)
                | flag(f.disagree, 5)
                | flag(f.saturated, 6)
                | flag(f.not_active, 7)
        }
        "Age" => r.age.map_or(0, |d| 1 + d.as_nanos() as u64),
        _ => return Rank::Place(Some(r.key)),
    })
}

/// Which row it is.
fn key(row: &PortRow<'_>) -> RowKey {
    RowKey::Port(row.key)
}

/// Flags in words, the gravest first.
pub fn flag_words(f: Flags) -> impl Iterator<Item = (&'static str, Role)> {
    [
        (f.unreachable, "unreachable", Role::Bad),
        (f.no_answer, "no answer", Role::Bad),
        (f.down, "down", Role::Bad),
        (f.errors, "errors", Role::Warn),
        (f.below_best, "below best", Role::Warn),
        (f.disagree, "ends differ", Role::Warn),
        (f.saturated, "pegged", Role::Warn),
        (f.not_active, "not active", Role::Warn),
    ]
    .into_iter()
    .filter(|(on, ..)| *on)
    .map(|(_, word, role)| (word, role))
}

/// A row's flags in words; "stale" where nothing else says why its numbers are old.
fn words(row: &PortRow<'_>) -> impl Iterator<Item = (&'static str, Role)> {
    let explained = row.flags.unreachable || row.flags.no_answer || row.protected;
    flag_words(row.flags)
        .chain(row.protected.then_some(("protected", Role::Label)))
        .chain((row.stale && !explained).then_some(("stale", Role::Warn)))
}

fn draw_flags(row: &PortRow<'_>, cell: &mut Cell<'_>) {
    let words: Vec<_> = words(row).collect();
    let Some(((first, role), rest)) = words.split_first() else {
        return;
    };
    let all: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
    let all = all.join(", ");
    if width(&all, cell.look) <= cell.width {
        cell.text(&all, *role);
    } else {
        // What does not fit is counted, never dropped without a trace.
        let more = match rest.len() {
            n if width(first, cell.look) + 2 <= cell.width => format!("+{n}"),
            _ => "+".to_owned(),
        };
        let room = cell.width.saturating_sub(width(&more, cell.look));
        let first = super::pad(first, room, cell.look);
        cell.spans(&[(&first, *role), (&more, *role)]);
    }
}

fn want_flags(row: &PortRow<'_>, look: &Look) -> u16 {
    words(row)
        .map(|(w, _)| width(w, look) + 2)
        .sum::<u16>()
        .saturating_sub(2)
}

fn draw_state(row: &PortRow<'_>, cell: &mut Cell<'_>) {
    // What a node said before it went out of reach is not how it is: its detail tells that, and
    // when it was read.
    let Some(code) = row.state.filter(|_| !row.flags.unreachable) else {
        return cell.text(cell.look.glyphs.unknown, Role::Label);
    };
    let role = match code {
        _ if row.stale => Role::Stale,
        4 => Role::Good,
        2 | 3 => Role::Warn,
        _ if row.flags.down => Role::Bad,
        _ => Role::Label,
    };
    cell.text(state_word(code), role);
}

fn link_rate(row: &PortRow<'_>) -> Option<f64> {
    effective_gbps(row.width?, row.speed?)
}

/// The columns.
fn columns<'m>(stale: bool) -> Vec<Column<PortRow<'m>>> {
    vec![
        shared::node(14),
        Column {
            title: "Type",
            min: 4,
            max: 4,
            right: false,
            rank: 100,
            descending: false,
            cmp: |a, b| a.kind.cmp(&b.kind),
            draw: |r, c| c.text(&r.kind.to_string(), Role::Label),
            want: None,
        },
        shared::port(),
        Column {
            title: "LID",
            min: 5,
            max: 5,
            right: true,
            rank: 90,
            descending: false,
            cmp: |a, b| a.lid.cmp(&b.lid),
            draw: |r, c| match r.lid {
                Some(lid) => c.number((lid.to_string(), Role::Text)),
                None => c.text(c.look.glyphs.unknown, Role::Label),
            },
            want: None,
        },
        Column {
            title: "State",
            min: 6,
            max: 6,
            right: false,
            rank: 30,
            descending: false,
            cmp: |a, b| a.state.cmp(&b.state),
            draw: draw_state,
            want: None,
        },
        Column {
            title: "Physical",
            min: 9,
            max: 12,
            right: false,
            rank: 110,
            descending: false,
            cmp: |a, b| a.phys.cmp(&b.phys),
            draw: |r, c| match r.phys.filter(|_| !r.flags.unreachable) {
                Some(code) => c.text(
                    phys_word(code),
                    if r.stale { Role::Stale } else { Role::Label },
                ),
                None => c.text(c.look.glyphs.unknown, Role::Label),
            },
            want: Some(|r, look| r.phys.map_or(0, |p| width(phys_word(p), look))),
        },
        Column {
            title: "Link",
            min: 8,
            max: 9,
            right: false,
            rank: 60,
            descending: true,
            cmp: |a, b| by_f64(link_rate(a), link_rate(b)),
            draw: |r, c| {
                let (Some(w), Some(s), false) = (r.width, r.speed, r.flags.unreachable) else {
                    return;
                };
                let role = match r.flags.below_best {
                    true => Role::Warn,
                    false => Role::Text,
                };
                c.text(&format!("{w} {s}"), role);
            },
            want: None,
        },
        shared::peer(14, 50),
        Column {
            title: "Errors",
            min: 7,
            max: 7,
            right: true,
            rank: 40,
            descending: true,
            cmp: |a, b| a.errors.get().cmp(&b.errors.get()),
            draw: |r, c| {
                let role = match r.errors.get() {
                    Some(0) => Role::Label,
                    _ => Role::Warn,
                };
                c.number(num(r.errors, c.look, role, count));
            },
            want: None,
        },
        Column {
            title: "Flags",
            min: 12,
            max: 44,
            right: false,
            rank: 20,
            descending: true,
            cmp: |a, b| a.flags.cmp(&b.flags),
            draw: draw_flags,
            want: Some(want_flags),
        },
        Column {
            title: "Err/s",
            min: 6,
            max: 6,
            right: true,
            rank: 70,
            descending: true,
            cmp: |a, b| by_f64(a.errors_per_s.get(), b.errors_per_s.get()),
            draw: |r, c| {
                let role = match r.errors_per_s.get() {
                    Some(v) if v > 0.0 => Role::Warn,
                    _ => Role::Label,
                };
                c.number(num(r.errors_per_s, c.look, role, si));
            },
            want: None,
        },
        // While something is stale, that is worth more than most.
        shared::aged(if stale { 35 } else { 120 }),
    ]
}

/// True if the row passes the filter.
fn matches(row: &PortRow<'_>, filter: &Filter) -> bool {
    if filter.is_empty() {
        return true;
    }
    // No word holds a blank: width and speed are matched each by itself. Nothing is found in
    // what is left empty.
    let (width, speed) = match row.width.zip(row.speed) {
        Some((width, speed)) => (width.word().unwrap_or("???"), speed.name()),
        None => ("", ""),
    };
    let peer = row.peer.as_ref();
    let mut texts = [""; 19];
    let all = [
        row.name,
        kind_word(row),
        row.state.map_or("", state_word),
        row.phys.map_or("", phys_word),
        if row.protected { "protected" } else { "" },
        if row.stale { "stale" } else { "" },
        width,
        speed,
        row.told.as_deref().unwrap_or_default(),
        if row.elsewhere { shared::ELSEWHERE } else { "" },
        peer.map_or("", |p| p.name),
    ];
    let flags = flag_words(row.flags).map(|(word, _)| word);
    for (slot, text) in texts.iter_mut().zip(all.into_iter().chain(flags)) {
        *slot = text;
    }
    let port = u32::from(row.key.port);
    let guid = row.key.node.guid.0;
    filter.matches(&Subject {
        texts: &texts,
        numbers: &[port, row.lid.map_or(port, u32::from)],
        guids: &[guid, peer.map_or(guid, |p| p.key.node.guid.0)],
    })
}

/// A number for all that [`matches`] looks at, but for what the node and its links are.
fn sight(row: &PortRow<'_>) -> u64 {
    let f = row.flags;
    let bits = [
        f.unreachable,
        f.no_answer,
        f.down,
        f.errors,
        f.below_best,
        f.disagree,
        f.saturated,
        f.not_active,
        row.protected,
        row.stale,
        row.elsewhere,
    ];
    bits.iter().fold(0, |all, on| all << 1 | u64::from(*on))
}

fn kind_word(row: &PortRow<'_>) -> &'static str {
    use crate::fabric::NodeKind;
    match row.kind {
        NodeKind::Unknown => "unknown",
        NodeKind::Ca => "CA adapter",
        NodeKind::Switch => "SW switch",
        NodeKind::Router => "RT router",
        NodeKind::Aggregation => "AN aggregation node",
    }
}
