//! What more than one table has: columns of ports and of what happened, and how these are
//! filtered.

use std::cmp::Ordering;
use std::time::Duration;

use super::cut;
use crate::event::Severity;
use crate::fabric::PortKey;
use crate::model::view::{PeerView, PortRow, TrafficRow};
use crate::tui::filter::{Filter, Subject};
use crate::tui::table::{Cell, Column, natural};
use crate::tui::text::{age, count, width};
use crate::tui::theme::{Look, Role};

/// In place of a peer that is not in this subnet.
pub const ELSEWHERE: &str = "none in this subnet";

/// A row about a port.
pub trait OfPort {
    /// The port.
    fn key(&self) -> PortKey;
    /// Its node's name.
    fn name(&self) -> &str;
    /// How the name is drawn.
    fn name_role(&self) -> Role {
        Role::Text
    }
    /// The other end.
    fn peer(&self) -> Option<&PeerView<'_>>;
    /// Who the SA says the silent other end is.
    fn told(&self) -> Option<&str> {
        None
    }
    /// Its link leads to nobody in this subnet.
    fn elsewhere(&self) -> bool {
        false
    }
    /// How old its newest reply is.
    fn age(&self) -> Option<Duration>;
    /// Too old to be taken for now.
    fn stale(&self) -> bool;
}

impl OfPort for PortRow<'_> {
    fn key(&self) -> PortKey {
        self.key
    }
    fn name(&self) -> &str {
        self.name
    }
    fn name_role(&self) -> Role {
        if self.flags.unreachable || self.flags.no_answer || self.flags.down {
            Role::Bad
        } else {
            Role::Text
        }
    }
    fn peer(&self) -> Option<&PeerView<'_>> {
        self.peer.as_ref()
    }
    fn told(&self) -> Option<&str> {
        self.told.as_deref()
    }
    fn elsewhere(&self) -> bool {
        self.elsewhere
    }
    fn age(&self) -> Option<Duration> {
        self.age
    }
    fn stale(&self) -> bool {
        self.stale
    }
}

impl OfPort for TrafficRow<'_> {
    fn key(&self) -> PortKey {
        self.key
    }
    fn name(&self) -> &str {
        self.name
    }
    fn peer(&self) -> Option<&PeerView<'_>> {
        self.peer.as_ref()
    }
    fn age(&self) -> Option<Duration> {
        self.age
    }
    fn stale(&self) -> bool {
        self.stale
    }
}

/// A row about something that happened.
pub trait OfEvent {
    /// How grave it is.
    fn severity(&self) -> Severity;
    /// How often it happened.
    fn times(&self) -> u64;
    /// What is over stands back.
    fn role(&self, role: Role) -> Role {
        role
    }
}

/// A severity's word and role.
pub fn severity_word(s: Severity) -> (&'static str, Role) {
    match s {
        Severity::Info => ("info", Role::Label),
        Severity::Warning => ("warning", Role::Warn),
        Severity::Critical => ("CRITICAL", Role::Bad),
    }
}

/// How grave.
pub fn severity<R: OfEvent>(rank: u8) -> Column<R> {
    Column {
        title: "Severity",
        min: 9,
        max: 9,
        right: false,
        rank,
        descending: true,
        cmp: |a, b| a.severity().cmp(&b.severity()),
        draw: |r, c| {
            let (word, role) = severity_word(r.severity());
            c.text(word, r.role(role));
        },
        want: None,
    }
}

/// How often; once is not worth a number.
pub fn times<R: OfEvent>(rank: u8) -> Column<R> {
    Column {
        title: "Times",
        min: 5,
        max: 5,
        right: true,
        rank,
        descending: true,
        cmp: |a, b| a.times().cmp(&b.times()),
        draw: |r, c| {
            if r.times() > 1 {
                c.number((count(r.times()), r.role(Role::Text)));
            }
        },
        want: None,
    }
}

/// A wall time, to the second: what it is of, its column adds.
pub fn moment<R>(title: &'static str, rank: u8) -> Column<R> {
    Column {
        title,
        min: 8,
        max: 8,
        right: false,
        rank,
        descending: true,
        cmp: |_, _| Ordering::Equal,
        draw: |_, _| {},
        want: None,
    }
}

/// A node or a port in words.
pub fn place(name: Option<&str>, about: Option<PortKey>) -> String {
    match (name, about) {
        (Some(name), Some(key)) if key.port != 0 => format!("{name}[{}]", key.port),
        (Some(name), _) => name.to_owned(),
        _ => String::new(),
    }
}

/// True if what happened passes the filter, by its texts, its severity, and what it is about.
pub fn matches<R: OfEvent>(
    row: &R,
    texts: &[&str],
    name: Option<&str>,
    about: Option<PortKey>,
    filter: &Filter,
) -> bool {
    let (word, _) = severity_word(row.severity());
    let texts: Vec<&str> = texts.iter().copied().chain([word]).chain(name).collect();
    let guids: Vec<u64> = about.iter().map(|k| k.node.guid.0).collect();
    let numbers: Vec<u32> = about.iter().map(|k| u32::from(k.port)).collect();
    filter.matches(&Subject {
        texts: &texts,
        numbers: &numbers,
        guids: &guids,
    })
}

/// The node's name, in at least `min` columns.
pub fn node<R: OfPort>(min: u16) -> Column<R> {
    Column {
        title: "Node",
        min,
        max: 64,
        right: false,
        rank: 0,
        descending: false,
        cmp: |a, b| by_place((a.name(), a.key().port), (b.name(), b.key().port)),
        draw: |r, c| c.text(r.name(), r.name_role()),
        want: Some(|r, look| width(r.name(), look)),
    }
}

/// The port's number.
pub fn port<R: OfPort>() -> Column<R> {
    Column {
        title: "Port",
        min: 4,
        max: 4,
        right: true,
        rank: 10,
        descending: false,
        cmp: |a, b| a.key().port.cmp(&b.key().port),
        draw: |r, c| c.number((r.key().port.to_string(), Role::Text)),
        want: None,
    }
}

/// The other end, in at least `min` columns.
pub fn peer<R: OfPort>(min: u16, rank: u8) -> Column<R> {
    Column {
        title: "Peer[port]",
        min,
        max: 64,
        right: false,
        rank,
        descending: false,
        cmp: |a, b| by_peer(a.peer(), b.peer()),
        draw: |r, c| match r.elsewhere() {
            true => c.text(ELSEWHERE, Role::Label),
            false => draw_peer(r.peer(), r.told(), c),
        },
        want: Some(|r, look| match r.elsewhere() {
            true => width(ELSEWHERE, look),
            false => want_peer(r.peer(), r.told(), look),
        }),
    }
}

/// The age, shown only when it is above two intervals: below, the datum is as new as can be.
pub fn aged<R: OfPort>(rank: u8) -> Column<R> {
    Column {
        title: "Age",
        min: 6,
        max: 6,
        right: true,
        rank,
        descending: true,
        cmp: |a, b| a.age().cmp(&b.age()),
        draw: |r, c| match r.age() {
            None => c.text(c.look.glyphs.unknown, Role::Label),
            Some(d) if r.stale() => c.number((age(d), Role::Warn)),
            Some(_) => {}
        },
        want: None,
    }
}

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
fn draw_peer(peer: Option<&PeerView<'_>>, told: Option<&str>, cell: &mut Cell<'_>) {
    let Some(peer) = peer else {
        if let Some(name) = told {
            cell.spans(&[("SA: ", Role::Label), (name, Role::Label)]);
        }
        return;
    };
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
pub fn draw_place(name: &str, port: u8, cell: &mut Cell<'_>) {
    let port = format!("[{port}]");
    let room = cell.width.saturating_sub(width(&port, cell.look));
    let name = cut(name, room, cell.look);
    cell.spans(&[(&name, Role::Text), (&port, Role::Label)]);
}

fn want_peer(peer: Option<&PeerView<'_>>, told: Option<&str>, look: &Look) -> u16 {
    let told = told.map_or(0, |name| 4 + width(name, look));
    peer.map_or(told, |p| {
        let port = match p.key.port {
            0..=9 => 3,
            10..=99 => 4,
            _ => 5,
        };
        width(p.name, look) + port + if p.former { 4 } else { 0 }
    })
}
