//! Who is reached by a port: the destinations whose entry in the switch's table names it.

use super::{Page, pad, pad_left};
use crate::model::so_many;
use crate::model::view::{PATH_LABEL, TABLE_TOLD, UsesView};
use crate::tui::theme::{Look, Role};

/// The page.
pub fn page(view: &UsesView<'_>, room: u16, look: &Look) -> Page {
    let mut page = Page::default();
    let (port, name) = view.port;
    page.line(vec![
        ("Reached by ".into(), Role::Label),
        (format!("{name} port {}", port.port), Role::Accent),
    ]);
    let peer = match view.peer {
        Some((peer, name)) => format!("{name} port {}", peer.port),
        None if port.port == 0 => "the switch itself".to_owned(),
        None => "nobody".to_owned(),
    };
    page.line(vec![("Leads to ".into(), Role::Label), (peer, Role::Text)]);
    page.wrapped(PATH_LABEL, Role::Warn, room, look);
    if view.read.1 > 0 {
        page.line(vec![
            (
                so_many(view.destinations.len(), "destination", "destinations"),
                Role::Text,
            ),
            (", ".into(), Role::Label),
            (view.lids.to_string(), Role::Text),
            (format!(" of {} routed LIDs", view.routed), Role::Label),
        ]);
    }
    super::tables_read(&mut page, view.age, view.outdated, view.reading);
    if view.told {
        page.wrapped(TABLE_TOLD, Role::Warn, room, look);
    }
    if let Some(note) = &view.note {
        page.wrapped(note, Role::Warn, room, look);
    }
    page.gap();
    let names = room.saturating_sub(20).clamp(8, 48);
    for to in &view.destinations {
        let name = if to.key.is_some() {
            to.name
        } else {
            "(unknown)"
        };
        let lids = match to.lids.as_slice() {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        };
        let port = to.key.map_or_else(String::new, |k| k.port.to_string());
        page.line(vec![
            (pad(name, names, look), Role::Text),
            (pad_left(&port, 4, look), Role::Label),
            ("  LID ".into(), Role::Label),
            (lids, Role::Text),
        ]);
    }
    page
}
