//! Pages of routing and of subnet management: a path between two marked ports, who is reached by
//! a port, the SMs and the SA.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Act, App, Over};
use crate::command::Command;
use crate::event::Topic;
use crate::fabric::PortKey;
use crate::fabric::sa::SaTable;
use crate::port::Stamp;
use crate::tui::facts::Facts;
use crate::tui::keys::{Cmd, Kind};
use crate::tui::panes::sheet::inset;
use crate::tui::panes::{Page, path, sa, uses};
use crate::tui::theme::Role;

/// Tables that are older are read again while they are in sight.
const OLD: Duration = Duration::from_secs(30);
/// But not more often than this.
const AGAIN: Duration = Duration::from_secs(5);

/// What lies over a pane and is about more than a port's own facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A path between two ports, to one of the LIDs of the second.
    Path {
        from: PortKey,
        to: PortKey,
        bits: u8,
    },
    /// Who is reached by a port.
    Uses(PortKey),
    /// SMs and SA.
    Sa,
}

impl About {
    /// The tab's title.
    pub(super) const fn title(self) -> &'static str {
        match self {
            About::Path { .. } => " Path ",
            About::Uses(_) => " Reached by ",
            About::Sa => " SM and SA ",
        }
    }

    /// What must be read for it.
    fn topic<F: Facts>(self, facts: &F) -> Option<Topic> {
        match self {
            About::Path { from, to, bits } => {
                let (base, lmc) = facts.lids(to)?;
                let lid = base + u16::from(bits) % (1 << lmc.min(7));
                Some(Topic::Path { from, lid })
            }
            About::Uses(port) => Some(Topic::Table { switch: port.node }),
            About::Sa => Some(Topic::Sa {
                tables: SaTable::ALL.to_vec(),
            }),
        }
    }
}

impl<F: Facts> App<F> {
    /// The port that a key of a path means: the selected row's, or the one in detail.
    fn port_meant(&self) -> Option<PortKey> {
        match self.over.last() {
            Some(Over::Detail { key, .. }) => Some(*key),
            _ => match self.current() {
                Some(crate::tui::table::RowKey::Port(key)) => Some(*key),
                _ => None,
            },
        }
    }

    /// Handles a key of these pages. `None` if it is none.
    pub(super) fn page_key(&mut self, cmd: Cmd, live: &F, now: Stamp) -> Option<Option<Act>> {
        match cmd {
            Cmd::PathFrom | Cmd::PathTo => {
                let Some(end) = self.port_meant().and_then(|key| live.end_port(key)) else {
                    self.say("No path begins or ends here: select a port that has a LID.");
                    return Some(None);
                };
                let name = format!("{} port {}", live.name(end.node), end.port);
                let (mark, other) = match cmd {
                    Cmd::PathFrom => (&mut self.marked.0, self.marked.1),
                    _ => (&mut self.marked.1, self.marked.0),
                };
                *mark = Some(end);
                if other.is_none() {
                    let (word, next) = match cmd {
                        Cmd::PathFrom => ("from", "t on the port that it leads to"),
                        _ => ("to", "f on the port where it begins"),
                    };
                    self.say(format!("Path {word} {name}; press {next}."));
                    return Some(None);
                }
                let (Some(from), Some(to)) = self.marked else {
                    return Some(None);
                };
                Some(self.open_page(About::Path { from, to, bits: 0 }, live, now))
            }
            Cmd::Uses => match self.port_meant() {
                Some(key) => Some(self.open_page(About::Uses(key), live, now)),
                None => {
                    self.say("No port belongs to this row.");
                    Some(None)
                }
            },
            Cmd::Sa => {
                if matches!(
                    self.over.last(),
                    Some(Over::Page {
                        about: About::Sa,
                        ..
                    })
                ) {
                    self.over.pop();
                    return Some(None);
                }
                Some(self.open_page(About::Sa, live, now))
            }
            Cmd::PathBits => {
                let Some(Over::Page {
                    about: About::Path { to, bits, .. },
                    ..
                }) = self.over.last_mut()
                else {
                    return Some(None);
                };
                let many = live.lids(*to).map_or(1, |(_, lmc)| 1u8 << lmc.min(7));
                *bits = (*bits + 1) % many;
                if many == 1 {
                    self.say("The port has one LID only (LMC 0).");
                }
                Some(self.read_page(live, now))
            }
            Cmd::ReadAgain => {
                self.say("Reading it again, within the budget.");
                Some(self.read_page(live, now))
            }
            _ => None,
        }
    }

    fn open_page(&mut self, about: About, live: &F, now: Stamp) -> Option<Act> {
        self.over.retain(|over| {
            !matches!(over, Over::Page { about: old, .. }
            if std::mem::discriminant(old) == std::mem::discriminant(&about))
        });
        self.over.push(Over::Page { about, top: 0 });
        match about {
            // What the SA's tables say of itself is read after each discovery.
            About::Sa => None,
            _ => self.read_page(live, now),
        }
    }

    /// Has the page in sight read, in a live session.
    fn read_page(&mut self, live: &F, now: Stamp) -> Option<Act> {
        let Some(Over::Page { about, .. }) = self.over.last() else {
            return None;
        };
        if self.kind != Kind::Live {
            return None;
        }
        let topic = about.topic(live)?;
        self.asked = Some(now);
        Some(Act::Send(Command::Read(topic)))
    }

    /// What the page in sight needs to be read again, if it is old.
    pub fn refresh(&mut self, live: &F, now: Stamp) -> Option<Command> {
        let Some(Over::Page { about, .. }) = self.over.last() else {
            return None;
        };
        let lately = self.asked.is_some_and(|at| now.since(at) < AGAIN);
        if self.kind != Kind::Live || self.frozen.is_some() || lately {
            return None;
        }
        let old = |age: Option<Duration>| age.is_some_and(|age| age > OLD);
        let wanted = match *about {
            About::Path { from, .. } => match about.topic(live)? {
                Topic::Path { lid, .. } => live
                    .path(from, lid, now)
                    .is_some_and(|p| !p.reading && (old(p.age) || p.outdated)),
                _ => false,
            },
            About::Uses(key) => live
                .uses(key, now)
                .is_some_and(|u| !u.reading && (old(u.age) || u.outdated)),
            About::Sa => false,
        };
        if !wanted {
            return None;
        }
        match self.read_page(live, now)? {
            Act::Send(command) => Some(command),
            _ => None,
        }
    }

    /// Draws the page.
    pub(super) fn draw_page(
        &mut self,
        about: About,
        area: Rect,
        buf: &mut Buffer,
        facts: &F,
        at: Stamp,
    ) {
        let look = self.look;
        let area_in = inset(area);
        let room = area_in.width;
        let unknown = |text: &str| {
            let mut page = Page::default();
            page.wrapped(text, Role::Warn, room, &look);
            page
        };
        let page = match about {
            About::Path { from, .. } => match about.topic(facts) {
                Some(Topic::Path { lid, .. }) => match facts.path(from, lid, at) {
                    Some(view) => path::page(&view, room, &look),
                    None => unknown("Paths are not known here."),
                },
                _ => unknown("The port has no LID any more: no path leads there."),
            },
            About::Uses(key) => match facts.uses(key, at) {
                Some(view) => uses::page(&view, room, &look),
                None => unknown("This port is not known any more."),
            },
            About::Sa => {
                let (list, more, doubtful) = facts.sa_differences(at);
                let differences = (list.as_slice(), more, doubtful);
                let (sms, tables) = (facts.subnet_managers(at), facts.sa_tables(at));
                sa::page(&sms, &tables, differences, room, &look)
            }
        };
        let last = page.len().saturating_sub(usize::from(area.height));
        if let Some(Over::Page { top, .. }) = self.over.last_mut() {
            *top = (*top).min(last);
            page.draw(area_in, *top, buf, &look);
        }
        self.page = (page.len(), usize::from(area.height));
    }
}
