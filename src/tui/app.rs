//! The screen's state: which pane, which filter, which row; and what a key does to it.
//!
//! All of it is view state: nothing here changes the model. Keys come in as commands of the
//! one table in [`super::keys`]; what must be done outside the screen goes out as an [`Act`].

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::facts::Facts;
use super::filter::Filter;
use super::keys::{self, Cmd, Kind, Scope};
use super::pack::pack;
use super::panes::{self, detail, footer, header, help, log, ports, timeline, timeouts, traffic};
use super::table::{Column, Move, RowKey, TableState};
use super::text::{Clock, age, grouped};
use super::theme::{Look, Role};
use super::told::{self, Told};
use crate::command::Command;
use crate::fabric::PortKey;
use crate::model::view::LogLine;
use crate::port::Stamp;
use crate::record::replay::{Command as Playing, MarkKind, SeekTo};

/// The panes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// Every port.
    #[default]
    Ports,
    /// Every link's traffic.
    Traffic,
    /// In flight, and who answers.
    Timeouts,
}

impl Pane {
    /// All, in the order of their keys.
    pub const ALL: [Pane; 3] = [Pane::Ports, Pane::Traffic, Pane::Timeouts];

    const fn name(self) -> &'static str {
        match self {
            Pane::Ports => "Ports",
            Pane::Traffic => "Traffic",
            Pane::Timeouts => "Timeouts",
        }
    }

    fn step(self, by: usize) -> Pane {
        let at = Pane::ALL.iter().position(|p| *p == self).unwrap_or(0);
        Pane::ALL
            .get((at + by) % Pane::ALL.len())
            .copied()
            .unwrap_or_default()
    }
}

/// What lies over a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Over {
    Log,
    Help { top: usize },
    Detail { key: PortKey, top: usize },
}

/// What a key asks of the world outside the screen.
#[derive(Clone, Debug)]
pub enum Act {
    /// End the program.
    Quit,
    /// Stop until the shell brings it back.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Put the selected row on the clipboard.
    Copy,
    /// Ask the engine.
    Send(Command),
    /// Tell the player of a recording.
    Play(Playing),
}

/// A view held still.
#[derive(Debug)]
struct Frozen<F> {
    facts: F,
    at: Stamp,
}

#[derive(Debug)]
struct Tables {
    ports: TableState,
    traffic: TableState,
    timeouts: TableState,
    log: TableState,
}

/// The screen's state.
#[derive(Debug)]
pub struct App<F> {
    /// Colours and glyphs.
    pub look: Look,
    /// The operator's time zone.
    pub clock: Clock,
    /// What is said of the session beside its events.
    pub told: Told,
    kind: Kind,
    pane: Pane,
    over: Vec<Over>,
    filter: Filter,
    filter_text: String,
    editing: bool,
    /// Where to go in a recording, while it is typed.
    goto: Option<String>,
    /// How often the model was replaced by another.
    renewals: u64,
    tables: Tables,
    frozen: Option<Frozen<F>>,
    message: Option<String>,
    /// Lines of the page over the pane, and lines in sight, at the last frame.
    page: (usize, usize),
    /// The line of the selected row at the last frame.
    selected_line: Option<Rect>,
}

impl<F: Facts> App<F> {
    /// The first screen.
    pub fn new(kind: Kind, look: Look, clock: Clock) -> App<F> {
        App {
            look,
            clock,
            told: Told::Live,
            kind,
            pane: Pane::Ports,
            over: Vec::new(),
            filter: Filter::default(),
            filter_text: String::new(),
            editing: false,
            goto: None,
            renewals: 0,
            tables: Tables {
                ports: TableState::sorted_by(ports::FIRST_SORT),
                traffic: TableState::sorted_by(traffic::FIRST_SORT),
                timeouts: TableState::sorted_by(timeouts::FIRST_SORT),
                log: TableState::default(),
            },
            frozen: None,
            message: None,
            page: (0, 0),
            selected_line: None,
        }
    }

    /// What is on top.
    pub fn scope(&self) -> Scope {
        match self.over.last() {
            None => Scope::Pane,
            Some(Over::Log) => Scope::Log,
            Some(Over::Help { .. }) => Scope::Help,
            Some(Over::Detail { .. }) => Scope::Detail,
        }
    }

    /// Shows a sentence in the last line until the next key.
    pub fn say(&mut self, text: impl Into<String>) {
        self.message = Some(text.into());
    }

    /// The model is another one: nothing computed from the old one holds.
    pub fn renewed(&mut self) {
        self.renewals += 1;
    }

    /// True while the view is held still.
    pub fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Shows this pane.
    pub fn show(&mut self, pane: Pane) {
        self.pane = pane;
        self.over.clear();
    }

    /// Pasted text: it can be a filter, but never commands.
    pub fn paste(&mut self, text: &str) {
        if let Some(goto) = &mut self.goto {
            goto.extend(text.chars().filter(|c| !c.is_control()));
        } else if self.editing {
            self.filter_text
                .extend(text.chars().filter(|c| !c.is_control()));
            self.filter = Filter::parse(&self.filter_text);
        }
    }

    /// Handles a key.
    pub fn key(&mut self, event: &KeyEvent, live: &F, now: Stamp) -> Option<Act> {
        self.message = None;
        if self.goto.is_some() {
            return self.type_place(event);
        }
        if self.editing && self.edit(event) {
            return None;
        }
        let cmd = keys::command(event, self.scope(), self.kind)?;
        match cmd {
            Cmd::QuitNow => return Some(Act::Quit),
            Cmd::Quit => {
                if self.over.pop().is_none() {
                    return Some(Act::Quit);
                }
            }
            Cmd::Back => {
                if self.over.pop().is_none() {
                    self.clear_filter();
                }
            }
            Cmd::Ports => self.show(Pane::Ports),
            Cmd::Traffic => self.show(Pane::Traffic),
            Cmd::Timeouts => self.show(Pane::Timeouts),
            Cmd::NextPane => self.pane = self.pane.step(1),
            Cmd::PreviousPane => self.pane = self.pane.step(Pane::ALL.len() - 1),
            Cmd::Up => self.go(Move::Up),
            Cmd::Down => self.go(Move::Down),
            Cmd::PageUp => self.go(Move::PageUp),
            Cmd::PageDown => self.go(Move::PageDown),
            Cmd::Home => self.go(Move::Home),
            Cmd::End => self.go(Move::End),
            Cmd::Open => self.open(live, now),
            Cmd::Filter => self.editing = true,
            Cmd::SortLeft => self.sort(false),
            Cmd::SortRight => self.sort(true),
            Cmd::Reverse => {
                let table = self.table();
                table.reverse = !table.reverse;
            }
            Cmd::Pause => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(Frozen {
                        facts: live.clone(),
                        at: now,
                    }),
                };
            }
            Cmd::Log => self.toggle(Over::Log),
            Cmd::Help => self.toggle(Over::Help { top: 0 }),
            Cmd::Copy => return Some(Act::Copy),
            Cmd::Redraw => return Some(Act::Redraw),
            Cmd::Suspend => return Some(Act::Suspend),
            Cmd::ReadCounters => {
                self.say("Reading all counters.");
                return Some(Act::Send(Command::ReadCounters));
            }
            Cmd::Rediscover => {
                self.say("Discovering the subnet again.");
                return Some(Act::Send(Command::Rediscover));
            }
            Cmd::Mark => {
                self.say("Bookmark set.");
                return Some(Act::Send(Command::Mark("bookmark".into())));
            }
            Cmd::Goto => self.goto = Some(String::new()),
            cmd => return self.play(cmd).map(Act::Play),
        }
        None
    }

    /// What a key asks of the player.
    fn play(&mut self, cmd: Cmd) -> Option<Playing> {
        const SECOND: i64 = 1_000_000_000;
        let by = |seconds: i64| Playing::Seek(SeekTo::By(seconds * SECOND));
        Some(match cmd {
            Cmd::Play => Playing::Toggle,
            Cmd::Slower => Playing::Slower,
            Cmd::Faster => Playing::Faster,
            Cmd::StepEvent => Playing::StepEvent,
            Cmd::StepSweep => Playing::StepSweep,
            Cmd::SeekBack => by(-10),
            Cmd::SeekForward => by(10),
            Cmd::LeapBack => by(-60),
            Cmd::LeapForward => by(60),
            Cmd::NextEvent => Playing::Next(MarkKind::Event),
            Cmd::PreviousEvent => Playing::Previous(MarkKind::Event),
            Cmd::NextAlert => Playing::Next(MarkKind::Alert),
            Cmd::PreviousAlert => Playing::Previous(MarkKind::Alert),
            Cmd::NextBookmark => Playing::Next(MarkKind::Bookmark),
            Cmd::PreviousBookmark => Playing::Previous(MarkKind::Bookmark),
            Cmd::SkipIdle => {
                let on = match &self.told {
                    Told::Replay(replay) => replay.position.as_ref().is_some_and(|p| p.skip_idle),
                    _ => false,
                };
                Playing::SkipIdle(!on)
            }
            Cmd::Bookmark => {
                self.say("Bookmark set, until the replay ends.");
                Playing::Bookmark("bookmark".into())
            }
            _ => return None,
        })
    }

    /// A key while a place in the recording is typed.
    fn type_place(&mut self, event: &KeyEvent) -> Option<Act> {
        let text = self.goto.as_mut()?;
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Char('c') if ctrl => return Some(Act::Quit),
            KeyCode::Esc => self.goto = None,
            KeyCode::Backspace if text.is_empty() => self.goto = None,
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char('u') if ctrl => text.clear(),
            KeyCode::Char(c) if !ctrl && !event.modifiers.contains(KeyModifiers::ALT) => {
                text.push(c);
            }
            KeyCode::Enter => {
                let text = self.goto.take()?;
                let position = match &self.told {
                    Told::Replay(replay) => replay.position.as_ref(),
                    _ => None,
                };
                match told::place(&text, position, &self.clock) {
                    Ok(to) => return Some(Act::Play(Playing::Seek(to))),
                    Err(why) => self.say(why),
                }
            }
            _ => {}
        }
        None
    }

    /// A key while the filter is typed; false if it is none of its business.
    fn edit(&mut self, event: &KeyEvent) -> bool {
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.editing = false;
                self.clear_filter();
            }
            KeyCode::Backspace => {
                // Backspace over nothing leaves.
                self.editing = self.filter_text.pop().is_some();
            }
            KeyCode::Char('u') if ctrl => self.filter_text.clear(),
            KeyCode::Char('w') if ctrl => {
                let kept = self.filter_text.trim_end();
                let kept = kept.rfind(' ').map_or(0, |i| i + 1);
                self.filter_text.truncate(kept);
            }
            KeyCode::Char('h') if ctrl => {
                self.filter_text.pop();
            }
            KeyCode::Char(c) if !ctrl && !event.modifiers.contains(KeyModifiers::ALT) => {
                self.filter_text.push(c);
            }
            _ => return false,
        }
        self.filter = Filter::parse(&self.filter_text);
        true
    }

    fn clear_filter(&mut self) {
        self.filter_text.clear();
        self.filter = Filter::default();
    }

    fn toggle(&mut self, over: Over) {
        let same = |a: &Over, b: &Over| std::mem::discriminant(a) == std::mem::discriminant(b);
        if self.over.last().is_some_and(|top| same(top, &over)) {
            self.over.pop();
        } else {
            self.over.retain(|o| !same(o, &over));
            self.over.push(over);
        }
    }

    fn table(&mut self) -> &mut TableState {
        if self.over.last() == Some(&Over::Log) {
            return &mut self.tables.log;
        }
        match self.pane {
            Pane::Ports => &mut self.tables.ports,
            Pane::Traffic => &mut self.tables.traffic,
            Pane::Timeouts => &mut self.tables.timeouts,
        }
    }

    fn go(&mut self, by: Move) {
        let (lines, sight) = self.page;
        match self.over.last_mut() {
            Some(Over::Help { top } | Over::Detail { top, .. }) => {
                let last = lines.saturating_sub(sight);
                let page = sight.saturating_sub(1).max(1);
                *top = match by {
                    Move::Up => top.saturating_sub(1),
                    Move::Down => *top + 1,
                    Move::PageUp => top.saturating_sub(page),
                    Move::PageDown => *top + page,
                    Move::Home => 0,
                    Move::End => last,
                }
                .min(last);
            }
            _ => self.table().go(by),
        }
    }

    fn sort(&mut self, forward: bool) {
        let columns = match self.pane {
            Pane::Ports => ports::columns(false).len(),
            Pane::Traffic => traffic::columns(false).len(),
            Pane::Timeouts => timeouts::columns().len(),
        };
        self.table().sort_next(columns, forward);
    }

    fn open(&mut self, live: &F, now: Stamp) {
        let (facts, now) = match &self.frozen {
            Some(f) => (&f.facts, f.at),
            None => (live, now),
        };
        let in_log = self.over.last() == Some(&Over::Log);
        let table = match (in_log, self.pane) {
            (true, _) => &self.tables.log,
            (_, Pane::Ports) => &self.tables.ports,
            (_, Pane::Traffic) => &self.tables.traffic,
            (_, Pane::Timeouts) => &self.tables.timeouts,
        };
        let key = match table.current() {
            Some(RowKey::Port(key)) => Some(*key),
            Some(RowKey::Node(node)) => {
                // A node's first port: 0 of a switch, 1 of an adapter.
                (0..=u8::MAX)
                    .map(|p| node.port(p))
                    .find(|k| facts.detail(*k, now).is_some())
            }
            Some(line @ RowKey::Line(..)) => facts
                .log()
                .find(|l| log::key_of(l) == *line)
                .and_then(|l| l.about)
                .filter(|k| facts.detail(*k, now).is_some()),
            Some(RowKey::Named(_)) | None => None,
        };
        match key {
            Some(key) => self.over.push(Over::Detail { key, top: 0 }),
            None => self.say("No port belongs to this row."),
        }
    }

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

    fn current(&self) -> Option<&RowKey> {
        match (self.over.last(), self.pane) {
            (Some(Over::Log), _) => self.tables.log.current(),
            (Some(_), _) => None,
            (None, Pane::Ports) => self.tables.ports.current(),
            (None, Pane::Traffic) => self.tables.traffic.current(),
            (None, Pane::Timeouts) => self.tables.timeouts.current(),
        }
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
        let alerts = header::alerts(&head, &around);
        let room = match h {
            0..=7 => 0,
            8..=29 => 1,
            _ => 3,
        };
        let room = room.min(u16::try_from(alerts.len()).unwrap_or(room));
        header::draw_alerts(rest.top(room), buf, &alerts, &look);
        let tabs = rest.top(u16::from(h >= 7));
        let keys = rest.bottom(u16::from(
            h >= 9 || ((self.editing || self.goto.is_some()) && h >= 2),
        ));
        let event = rest.bottom(u16::from(h >= 11 && self.over.last() != Some(&Over::Log)));

        let clock = self.clock.clone();
        if let Some(line) = live.latest() {
            log::draw_line(inset(event), buf, &log_row(line, live, &clock), &look);
        }
        self.selected_line = None;
        self.body(rest.0, buf, facts, at, &clock);
        self.tabs(tabs, buf, paused);
        self.last_line(keys, buf);
        self.frozen = frozen;
        self.told = told;
    }

    fn body(&mut self, area: Rect, buf: &mut Buffer, facts: &F, at: Stamp, clock: &Clock) {
        let look = self.look;
        let mut rest = Rows(area);
        match self.over.last_mut() {
            Some(Over::Help { top }) => {
                let page = help::page(self.kind, area.width.saturating_sub(1), &look);
                *top = (*top).min(page.len().saturating_sub(usize::from(area.height)));
                page.draw(inset(area), *top, buf, &look);
                self.page = (page.len(), usize::from(area.height));
                return;
            }
            Some(Over::Detail { key, top }) => {
                let lines = match facts.detail(*key, at) {
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
                return;
            }
            Some(Over::Log) => {
                let rows: Vec<_> = facts.log().map(|l| log_row(l, facts, clock)).collect();
                let columns = log::columns();
                self.rows(area, buf, facts, &rows, &columns, log::key, log::matches);
                return;
            }
            None => {}
        }
        match self.pane {
            Pane::Ports => {
                let rows = facts.ports(at);
                let columns = ports::columns(rows.iter().any(|r| r.stale));
                self.rows(
                    rest.0,
                    buf,
                    facts,
                    &rows,
                    &columns,
                    ports::key,
                    ports::matches,
                );
            }
            Pane::Traffic => {
                let totals = facts.totals(at);
                let busiest = totals.busiest_port.map(|k| facts.name(k.node));
                let line = rest.top(u16::from(area.height >= 6));
                traffic::draw_totals(inset(line), buf, &totals, busiest, &look);
                let rows = facts.traffic(at);
                self.tables.traffic.window = samples(facts.interval());
                let columns = traffic::columns(rows.iter().any(|r| r.stale));
                self.rows(
                    rest.0,
                    buf,
                    facts,
                    &rows,
                    &columns,
                    traffic::key,
                    traffic::matches,
                );
            }
            Pane::Timeouts => {
                let room = match area.height {
                    0..=5 => 0,
                    6..=9 => 1,
                    h => (h / 4).clamp(3, 10),
                };
                let mut flying = facts.in_flight(at);
                let top = inset(rest.top(room));
                timeouts::draw_in_flight(top, buf, &facts.header(at), &mut flying, &look);
                let rows = facts.destinations(at);
                let columns = timeouts::columns();
                self.rows(
                    rest.0,
                    buf,
                    facts,
                    &rows,
                    &columns,
                    timeouts::key,
                    timeouts::matches,
                );
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // one call a table, all of them its own
    fn rows<R>(
        &mut self,
        area: Rect,
        buf: &mut Buffer,
        facts: &F,
        rows: &[R],
        columns: &[Column<R>],
        key: fn(&R) -> RowKey,
        matches: fn(&R, &Filter) -> bool,
    ) {
        let look = self.look;
        let filter = std::mem::take(&mut self.filter);
        let text = std::mem::take(&mut self.filter_text);
        let empty = match rows.is_empty() {
            true => "Nothing known yet.",
            false => "No row passes the filter.",
        };
        // Another model counts its own changes anew.
        let revision = facts.revision().wrapping_add(self.renewals << 40);
        let table = self.table();
        let keep = |row: &R| matches(row, &filter);
        table.update(rows, columns, revision, &text, key, keep, &look);
        table.draw(area, buf, rows, columns, &look, empty);
        self.selected_line = table.selected_line();
        self.filter = filter;
        self.filter_text = text;
    }

    fn tabs(&mut self, area: Rect, buf: &mut Buffer, paused: Option<Duration>) {
        if area.is_empty() {
            return;
        }
        let look = self.look;
        let mut left = Vec::new();
        let mut right = Vec::new();
        let scope = self.scope();
        match self.over.last() {
            Some(Over::Help { .. }) => left.push((0, vec![(" Help ".into(), Role::TabOn)])),
            Some(Over::Detail { .. }) => {
                left.push((0, vec![(" Port detail ".into(), Role::TabOn)]));
            }
            Some(Over::Log) => left.push((0, vec![(" Event log ".into(), Role::TabOn)])),
            None => {
                for (i, pane) in Pane::ALL.into_iter().enumerate() {
                    let (rank, role) = match pane == self.pane {
                        true => (0, Role::TabOn),
                        false => (5, Role::TabOff),
                    };
                    left.push((rank, vec![(format!(" {} {} ", i + 1, pane.name()), role)]));
                }
            }
        }
        if let Some(d) = paused {
            let text = format!("as of {} ago", age(d));
            right.push((1, vec![(text, Role::Warn)]));
        }
        if matches!(scope, Scope::Pane | Scope::Log) {
            let filtered = !self.filter.is_empty();
            let text = self.filter_text.clone();
            let (shown, all) = self.table().counts();
            let (shown, all) = (grouped(shown as u64), grouped(all as u64));
            if filtered {
                right.push((
                    0,
                    vec![
                        (format!("/{}", panes::cut(&text, 24, &look)), Role::Warn),
                        (format!(" {shown} of {all}"), Role::Warn),
                    ],
                ));
            } else {
                right.push((3, vec![(format!("{all} rows"), Role::Label)]));
            }
            right.push((
                2,
                vec![
                    ("sort ".into(), Role::Label),
                    (self.sort_title(), Role::Text),
                ],
            ));
        } else {
            let (lines, sight) = self.page;
            if lines > sight {
                let top = match self.over.last() {
                    Some(Over::Help { top } | Over::Detail { top, .. }) => *top,
                    _ => 0,
                };
                let text = format!("lines {}-{} of {lines}", top + 1, (top + sight).min(lines));
                right.push((2, vec![(text, Role::Label)]));
            }
        }
        let used = pack(buf, inset(area), Style::new(), &look, left);
        let free = Rect {
            x: area.x + 1 + used + 2,
            width: area.width.saturating_sub(used + 4),
            ..area
        };
        // Right-aligned: measured by drawing into nothing.
        let mut scratch = Buffer::empty(Rect { x: 0, y: 0, ..free });
        let len = pack(
            &mut scratch,
            Rect { x: 0, y: 0, ..free },
            Style::new(),
            &look,
            right.clone(),
        );
        let at = Rect {
            x: free.right().saturating_sub(len),
            width: len,
            ..free
        };
        pack(buf, at, Style::new(), &look, right);
    }

    fn sort_title(&mut self) -> String {
        fn title<R>(t: &TableState, columns: &[Column<R>], look: &Look) -> String {
            let arrow = match t.is_descending(columns) {
                true => look.glyphs.down,
                false => look.glyphs.up,
            };
            let title = columns.get(t.sort).map_or("", |c| c.title);
            format!("{title}{arrow}")
        }
        let look = &self.look;
        if self.over.last() == Some(&Over::Log) {
            return title(&self.tables.log, &log::columns(), look);
        }
        match self.pane {
            Pane::Ports => title(&self.tables.ports, &ports::columns(false), look),
            Pane::Traffic => title(&self.tables.traffic, &traffic::columns(false), look),
            Pane::Timeouts => title(&self.tables.timeouts, &timeouts::columns(), look),
        }
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
            footer::draw_keys(area, buf, self.scope(), self.kind, look);
        }
    }
}

fn log_row<'m, F: Facts>(line: &'m LogLine, facts: &'m F, clock: &'m Clock) -> log::Row<'m> {
    log::Row {
        line,
        name: line.about.map(|k| facts.name(k.node)),
        wall: (facts.wall(line.first), facts.wall(line.last)),
        clock,
    }
}

/// Samples in the two minutes that sparklines show.
fn samples(interval: Duration) -> usize {
    let n = Duration::from_secs(120).as_millis() / interval.as_millis().max(1);
    usize::try_from(n).unwrap_or(usize::MAX).clamp(1, 240)
}

/// A screen that is handed out line by line.
struct Rows(Rect);

impl Rows {
    fn top(&mut self, lines: u16) -> Rect {
        let lines = lines.min(self.0.height);
        let part = Rect {
            height: lines,
            ..self.0
        };
        self.0.y += lines;
        self.0.height -= lines;
        part
    }

    fn bottom(&mut self, lines: u16) -> Rect {
        let lines = lines.min(self.0.height);
        self.0.height -= lines;
        Rect {
            y: self.0.y + self.0.height,
            height: lines,
            ..self.0
        }
    }
}

/// Without the first column, as all but tables are drawn.
fn inset(area: Rect) -> Rect {
    let by = area.width.min(1);
    Rect {
        x: area.x + by,
        width: area.width - by,
        ..area
    }
}
