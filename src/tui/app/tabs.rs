//! The line of tabs: which pane is open, and beside it what the table holds back and why.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{App, Over};
use crate::tui::facts::Facts;
use crate::tui::pack::{Fact, length, pack};
use crate::tui::panes::sheet::inset;
use crate::tui::panes::{self, Pane};
use crate::tui::text::{age, grouped};
use crate::tui::theme::{Look, Role};

/// What ranks like this must not give way to the names of panes that are not open: that a
/// filter hides rows.
const MUST: u8 = 0;

impl<F: Facts> App<F> {
    pub(super) fn tabs(&mut self, area: Rect, buf: &mut Buffer, paused: Option<Duration>) {
        if area.is_empty() {
            return;
        }
        let look = self.look;
        let right = self.beside_the_tabs(paused);
        let must: Vec<Fact> = right.iter().filter(|f| f.0 == MUST).cloned().collect();
        let left = match self.over.last() {
            Some(Over::Help { .. }) => one_tab(" Help "),
            Some(Over::Detail { .. }) => one_tab(" Port detail "),
            Some(Over::Page { about, .. }) => one_tab(about.title()),
            Some(Over::Log) => one_tab(" Event log "),
            None => {
                let room = match length(&must, &look) {
                    0 => area.width.saturating_sub(1),
                    n => area.width.saturating_sub(n + 4),
                };
                pane_tabs(self.pane, room, &look)
            }
        };
        let used = pack(buf, inset(area), Style::new(), &look, left);
        let free = Rect {
            x: area.x + 1 + used + 2,
            width: area.width.saturating_sub(used + 4),
            ..area
        };
        // Right-aligned: measured by drawing into nothing.
        let nowhere = Rect { x: 0, y: 0, ..free };
        let mut scratch = Buffer::empty(nowhere);
        let len = pack(&mut scratch, nowhere, Style::new(), &look, right.clone());
        let at = Rect {
            x: free.right().saturating_sub(len),
            width: len,
            ..free
        };
        pack(buf, at, Style::new(), &look, right);
    }

    /// What stands at the other end of the line.
    fn beside_the_tabs(&mut self, paused: Option<Duration>) -> Vec<Fact> {
        let look = self.look;
        let mut facts = Vec::new();
        if let Some(d) = paused {
            let text = format!("as of {} ago", age(d));
            facts.push((1, vec![(text, Role::Warn)]));
        }
        if let Some(Over::Help { top } | Over::Detail { top, .. } | Over::Page { top, .. }) =
            self.over.last()
        {
            let (lines, sight) = self.page;
            if lines > sight {
                let last = (top + sight).min(lines);
                let text = format!("lines {}-{last} of {lines}", top + 1);
                facts.push((2, vec![(text, Role::Label)]));
            }
            return facts;
        }
        let (shown, all) = self.table().counts();
        let (shown, all) = (grouped(shown as u64), grouped(all as u64));
        if self.filter.is_empty() {
            facts.push((3, vec![(format!("{all} rows"), Role::Label)]));
        } else {
            let filter = panes::cut(&self.filter_text, 24, &look);
            facts.push((
                0,
                vec![
                    (format!("/{filter}"), Role::Warn),
                    (format!(" {shown} of {all}"), Role::Warn),
                ],
            ));
        }
        let title = self.table().sort_title(&look);
        facts.push((2, vec![("sort ".into(), Role::Label), (title, Role::Text)]));
        facts
    }
}

fn one_tab(title: &str) -> Vec<Fact> {
    vec![(0, vec![(title.to_owned(), Role::TabOn)])]
}

/// The panes' tabs in the widest form that has room: apart, close together, or with the names
/// of those that are not open left out.
fn pane_tabs(open: Pane, room: u16, look: &Look) -> Vec<Fact> {
    let tab = |(i, pane): (usize, &Pane), named: bool| {
        let is_open = *pane == open;
        let text = match named || is_open {
            true => format!(" {} {} ", i + 1, pane.title()),
            false => format!(" {} ", i + 1),
        };
        (text, if is_open { Role::TabOn } else { Role::TabOff })
    };
    let tabs = |named: bool| Pane::ALL.iter().enumerate().map(move |t| tab(t, named));
    let rank = |role: &Role| if *role == Role::TabOn { 0 } else { 5 };
    let apart: Vec<Fact> = tabs(true).map(|t| (rank(&t.1), vec![t])).collect();
    if length(&apart, look) <= room {
        return apart;
    }
    let close: Vec<Fact> = vec![(0, tabs(true).collect())];
    if length(&close, look) <= room {
        return close;
    }
    let numbers: Vec<Fact> = vec![(0, tabs(false).collect())];
    if length(&numbers, look) <= room {
        return numbers;
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Depth;

    /// However narrow: the open pane is named while its name has room, every other one has at
    /// least its number while the numbers have room, and nothing is wider than the line.
    #[test]
    fn narrow_tabs_name_the_open_pane_and_number_the_others() {
        let look = Look::new(Depth::Mono);
        for &open in Pane::ALL {
            let numbers = 3 * (Pane::ALL.len() - 1) + open.title().len() + 4;
            for room in 0..120 {
                let area = Rect::new(0, 0, room, 1);
                let mut buf = Buffer::empty(area);
                let tabs = pane_tabs(open, room, &look);
                pack(&mut buf, area, Style::new(), &look, tabs);
                let text: String = buf.content().iter().map(|c| c.symbol()).collect();
                if usize::from(room) >= open.title().len() + 4 {
                    assert!(text.contains(open.title()), "{room}: {text}");
                }
                if usize::from(room) >= numbers {
                    for number in 1..=Pane::ALL.len() {
                        assert!(text.contains(&format!("{number} ")), "{room}: {text}");
                    }
                }
            }
        }
    }
}
