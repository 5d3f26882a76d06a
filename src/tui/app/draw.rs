//! The screen's frame: header, timeline, alerts, tabs, what is open, the last event, the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{App, Over};
use crate::port::Stamp;
use crate::tui::facts::Facts;
use crate::tui::keys::Cmd;
use crate::tui::panes::sheet::{Rows, Sheet, inset};
use crate::tui::panes::{self, alerts, detail, footer, header, help, log, timeline};
use crate::tui::table::RowKey;
use crate::tui::theme::Role;
use crate::tui::told::Told;

impl<F: Facts> App<F> {
    /// The selected row as text, from the last frame.
    pub fn selected_text(&self, frame: &Buffer) -> Option<String> {
        let line = self.selected_line?.intersection(frame.area);
        let text: String = (line.left()..line.right())
            .filter_map(|x| frame.cell((x, line.y)))
            .map(ratatui::buffer::Cell::symbol)
            .collect();
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let key = match self.current() {
            Some(RowKey::Port(key)) => key.to_string(),
            Some(RowKey::Node(node)) => node.to_string(),
            _ => String::new(),
        };
        words.push(&key);
        Some(words.join(" ").trim_end().to_owned())
    }

    /// Draws the whole screen into `buf`, which must be blank.
    pub fn draw(&mut self, live: &F, now: Stamp, buf: &mut Buffer) {
        let area = buf.area;
        if area.is_empty() {
            return;
        }
        let look = self.look;
        let frozen = self.frozen.take();
        let (facts, at) = match &frozen {
            Some(f) => (&f.facts, f.at),
            None => (live, now),
        };
        let head = live.header(now);
        let paused = frozen.as_ref().map(|f| now.since(f.at));
        let told = std::mem::take(&mut self.told);
        let around = header::Around {
            told: &told,
            paused,
            since: self.baseline.as_ref().map(|b| live.wall(b.at())),
            known_alerts: alerts::known(live, &self.acknowledged),
            closed: live.closed(),
            clock: &self.clock,
        };
        let mut rest = Rows(area);
        let h = area.height;
        header::draw(rest.top(header::lines(h)), buf, &head, &around, &look);
        if let Told::Replay(replay) = &told {
            let lines = rest.top(timeline::lines(h));
            timeline::draw(lines, buf, replay, &self.clock, &look);
        }
        let warnings = header::alerts(&head, &around);
        let room = match h {
            0..=7 => 0,
            8..=29 => 1,
            _ => 3,
        };
        let room = room.min(u16::try_from(warnings.len()).unwrap_or(room));
        header::draw_alerts(rest.top(room), buf, &warnings, &look);
        let tabs = rest.top(u16::from(h >= 7));
        let keys = rest.bottom(u16::from(
            h >= 9 || ((self.editing || self.goto.is_some()) && h >= 2),
        ));
        let event = rest.bottom(u16::from(h >= 11 && self.over.last() != Some(&Over::Log)));

        if let Some(line) = live.latest() {
            let row = log::row(line, live, &self.clock);
            log::draw_line(inset(event), buf, &row, &look);
        }
        self.selected_line = None;
        self.body(rest.0, buf, facts, at);
        self.tabs(tabs, buf, paused);
        self.frozen = frozen;
        self.told = told;
        self.last_line(keys, buf);
    }

    fn body(&mut self, area: Rect, buf: &mut Buffer, facts: &F, at: Stamp) {
        let look = self.look;
        match self.over.last_mut() {
            Some(Over::Help { top }) => {
                let room = area.width.saturating_sub(1);
                let page = help::page(self.kind, self.can_suspend, room, &look);
                *top = (*top).min(page.len().saturating_sub(usize::from(area.height)));
                page.draw(inset(area), *top, buf, &look);
                self.page = (page.len(), usize::from(area.height));
            }
            Some(Over::Detail { key, top }) => {
                let lines = match facts.detail(*key, self.baseline.as_ref(), at) {
                    Some(d) => detail::draw(inset(area), buf, &d, *top, &look),
                    None => {
                        let mut page = panes::Page::default();
                        page.line(vec![(
                            format!("Port {key} is not known any more."),
                            Role::Warn,
                        )]);
                        page.draw(inset(area), 0, buf, &look);
                        1
                    }
                };
                *top = (*top).min(lines.saturating_sub(usize::from(area.height)));
                self.page = (lines, usize::from(area.height));
            }
            Some(Over::Page { about, .. }) => {
                let about = *about;
                self.draw_page(about, area, buf, facts, at);
            }
            Some(Over::Log) | None => self.table_body(area, buf, facts, at),
        }
    }

    /// What is a table: a pane, or the event log.
    fn table_body(&mut self, area: Rect, buf: &mut Buffer, facts: &F, at: Stamp) {
        let look = self.look;
        let pane = match self.over.last() {
            None => Some(self.pane),
            Some(_) => None,
        };
        // Out of the screen's state while it is drawn, so that the rest of it can be read.
        let mut table = std::mem::take(self.table());
        let mut sheet = Sheet {
            buf,
            facts,
            at,
            baseline: self.baseline.as_ref(),
            acknowledged: &self.acknowledged,
            clock: &self.clock,
            look: &look,
            rows: Rows(area),
            table: &mut table,
            filter: (&self.filter, &self.filter_text),
            // Another model counts its own changes anew.
            revision: facts.revision().wrapping_add(self.renewals << 40),
            empty: "Nothing known yet.",
            renewals: self.renewals,
            large_above: self.large_above,
        };
        match pane {
            Some(pane) => pane.draw(&mut sheet),
            None => log::draw(&mut sheet),
        }
        self.selected_line = table.selected_line();
        *self.table() = table;
    }

    fn last_line(&self, area: Rect, buf: &mut Buffer) {
        let look = &self.look;
        if let Some(text) = &self.goto {
            footer::draw_goto(area, buf, text, look);
        } else if self.editing {
            footer::draw_filter(area, buf, &self.filter_text, look);
        } else if let Some(text) = &self.message {
            footer::draw_message(area, buf, text, look);
        } else {
            // One key both ways: the word is what it does now.
            let now = [
                (Cmd::Play, self.told.play_word()),
                (
                    Cmd::Pause,
                    if self.is_paused() { "resume" } else { "pause" },
                ),
            ];
            footer::draw_keys(area, buf, (self.scope(), self.kind), &now, look);
        }
    }
}
