//! Columns that more than one table has: which port, what is at its other end, how old.

use std::cmp::Ordering;
use std::time::Duration;

use super::cut;
use crate::fabric::PortKey;
use crate::model::view::{PeerView, PortRow, TrafficRow};
use crate::tui::table::{Cell, Column, natural};
use crate::tui::text::{age, width};
use crate::tui::theme::{Look, Role};

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
        draw: |r, c| draw_peer(r.peer(), r.told(), c),
        want: Some(|r, look| want_peer(r.peer(), r.told(), look)),
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
