//! The screen's state: which pane, which filter, which row; and what a key does to it.
//!
//! All of it is view state: nothing here changes the model. Keys come in as commands of the
//! one table in [`super::keys`]; what must be done outside the screen goes out as an [`Act`].

mod draw;
mod pages;
mod tabs;
mod typed;

use std::collections::BTreeMap;

use crossterm::event::KeyEvent;
use ratatui::layout::Rect;

use self::pages::About;
use super::facts::Facts;
use super::filter::Filter;
use super::keys::{self, Cmd, Kind, Scope};
use super::panes::alerts::{self, Acknowledged};
use super::panes::{Pane, log};
use super::table::{LARGE, Move, RowKey, TableState};
use super::text::Clock;
use super::theme::Look;
use super::told::Told;
use crate::command::Command;
use crate::fabric::PortKey;
use crate::model::Baseline;
use crate::port::Stamp;
use crate::record::replay::{Command as Playing, MarkKind, SeekTo};

/// What lies over a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Over {
    Log,
    Help { top: usize },
    Detail { key: PortKey, top: usize },
    Page { about: About, top: usize },
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

/// The screen's state.
#[derive(Debug)]
pub struct App<F> {
    /// Colours and glyphs.
    pub look: Look,
    /// The operator's time zone.
    pub clock: Clock,
    /// What is said of the session beside its events.
    pub told: Told,
    /// Above so many ports their tables make no row without need.
    pub large_above: usize,
    /// There is a shell to go back to.
    pub can_suspend: bool,
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
    /// Each pane's table, once it was shown.
    tables: BTreeMap<Pane, TableState>,
    log: TableState,
    frozen: Option<Frozen<F>>,
    /// From when on errors are counted, if not from the session's beginning.
    baseline: Option<Baseline>,
    /// Alerts that the operator knows of.
    acknowledged: Acknowledged,
    message: Option<String>,
    /// Lines of the page over the pane, and lines in sight, at the last frame.
    page: (usize, usize),
    /// The line of the selected row at the last frame.
    selected_line: Option<Rect>,
    /// The ends that were marked for a path.
    marked: (Option<PortKey>, Option<PortKey>),
    /// When the page in sight was last asked for.
    asked: Option<Stamp>,
}

impl<F: Facts> App<F> {
    /// The first screen.
    pub fn new(kind: Kind, look: Look, clock: Clock) -> App<F> {
        App {
            look,
            clock,
            told: Told::Live,
            large_above: LARGE,
            can_suspend: true,
            kind,
            pane: Pane::Ports,
            over: Vec::new(),
            filter: Filter::default(),
            filter_text: String::new(),
            editing: false,
            goto: None,
            renewals: 0,
            tables: BTreeMap::new(),
            log: TableState::default(),
            frozen: None,
            baseline: None,
            acknowledged: Acknowledged::new(),
            message: None,
            page: (0, 0),
            selected_line: None,
            marked: (None, None),
            asked: None,
        }
    }

    /// The port that is looked at in full; none while the view is held still.
    pub fn looked_at(&self) -> Option<PortKey> {
        let top = self
            .over
            .iter()
            .rev()
            .find(|o| !matches!(o, Over::Help { .. }));
        match top {
            Some(Over::Detail { key, .. }) if self.frozen.is_none() => Some(*key),
            _ => None,
        }
    }

    /// What is on top.
    pub fn scope(&self) -> Scope {
        match self.over.last() {
            None => Scope::Pane,
            Some(Over::Log) => Scope::Log,
            Some(Over::Help { .. }) => Scope::Help,
            Some(Over::Detail { .. }) => Scope::Detail,
            Some(Over::Page { .. }) => Scope::Page,
        }
    }

    /// Shows a sentence in the last line until the next key.
    pub fn say(&mut self, text: impl Into<String>) {
        self.message = Some(text.into());
    }

    /// The model is another one: nothing computed from the old one holds.
    pub fn renewed(&mut self) {
        self.renewals += 1;
        if self.baseline.take().is_some() {
            self.say("Errors are counted from the beginning: another moment is shown.");
        }
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
        if let Some(pane) = Pane::shown_by(cmd) {
            self.show(pane);
            return None;
        }
        if let Some(act) = self.page_key(cmd, live, now) {
            return act;
        }
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
            Cmd::SortLeft => self.table().sort_next(false),
            Cmd::SortRight => self.table().sort_next(true),
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
            Cmd::Acknowledge => self.acknowledge(live),
            Cmd::Zero => return self.zero(live, now),
            Cmd::Unzero => {
                let had_one = self.baseline.take().is_some();
                self.say(match had_one {
                    true => "Errors are counted from the beginning of the session.",
                    false => "Errors are counted from the beginning already.",
                });
                self.renewals += 1;
            }
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

    /// Counts errors from what is shown now on. In a live session the stream is told of it.
    fn zero(&mut self, live: &F, now: Stamp) -> Option<Act> {
        let (facts, at) = match &self.frozen {
            Some(f) => (&f.facts, f.at),
            None => (live, now),
        };
        self.baseline = Some(facts.baseline(at));
        // What was sorted by another count is not sorted any more.
        self.renewals += 1;
        self.say("Errors are counted from now on; Z: from the beginning again.");
        let text = "errors counted from here on".to_owned();
        (self.kind == Kind::Live).then_some(Act::Send(Command::Act(text)))
    }

    /// The selected alert is known from now on, or is not any more.
    fn acknowledge(&mut self, live: &F) {
        let facts = self.frozen.as_ref().map_or(live, |f| &f.facts);
        let selected = match self.current() {
            Some(key @ RowKey::Alert(..)) => facts
                .alerts()
                .iter()
                .find(|a| alerts::key(a) == *key)
                .map(|a| {
                    let known = alerts::is_known(a, &self.acknowledged);
                    (alerts::mark(a), a.severity, known, a.cleared.is_some())
                }),
            _ => None,
        };
        match selected {
            None => self.say("Select an alert in the Alerts pane (4)."),
            Some((.., true)) => self.say("This alert is cleared already."),
            Some((mark, severity, known, false)) => {
                if known {
                    self.acknowledged.remove(&mark);
                } else {
                    self.acknowledged.insert(mark, severity);
                }
                // Known ones stand below the others.
                self.renewals += 1;
            }
        }
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

    /// The table in sight.
    fn table(&mut self) -> &mut TableState {
        if self.over.last() == Some(&Over::Log) {
            return &mut self.log;
        }
        let pane = self.pane;
        self.tables
            .entry(pane)
            .or_insert_with(|| TableState::sorted_by(pane.first_sort()))
    }

    fn go(&mut self, by: Move) {
        let (lines, sight) = self.page;
        match self.over.last_mut() {
            Some(Over::Help { top } | Over::Detail { top, .. } | Over::Page { top, .. }) => {
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

    fn open(&mut self, live: &F, now: Stamp) {
        let (facts, now) = match &self.frozen {
            Some(f) => (&f.facts, f.at),
            None => (live, now),
        };
        let key = match self.current() {
            Some(RowKey::Port(key)) => Some(*key),
            Some(RowKey::Node(node)) => {
                // A node's first port: 0 of a switch, 1 of an adapter.
                (0..=u8::MAX)
                    .map(|p| node.port(p))
                    .find(|k| facts.detail(*k, None, now).is_some())
            }
            Some(line @ RowKey::Line(..)) => facts
                .log()
                .find(|l| log::key_of(l) == *line)
                .and_then(|l| l.about)
                .filter(|k| facts.detail(*k, None, now).is_some()),
            Some(alert @ RowKey::Alert(..)) => {
                let rows = facts.alerts();
                let about = rows.iter().find(|a| alerts::key(a) == *alert);
                about.and_then(|a| a.about).and_then(|key| {
                    // Port 0 stands for the node: then its first port.
                    (key.port..=if key.port == 0 { u8::MAX } else { key.port })
                        .map(|p| key.node.port(p))
                        .find(|k| facts.detail(*k, None, now).is_some())
                })
            }
            Some(RowKey::Named(_)) | None => None,
        };
        match key {
            Some(key) => self.over.push(Over::Detail { key, top: 0 }),
            None => self.say("No port belongs to this row."),
        }
    }

    fn current(&self) -> Option<&RowKey> {
        match self.over.last() {
            Some(Over::Log) => self.log.current(),
            Some(_) => None,
            None => self.tables.get(&self.pane)?.current(),
        }
    }
}
