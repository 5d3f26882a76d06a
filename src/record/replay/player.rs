//! What is shown when: the state machine between a tape and a screen. It is told the time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::clock::{Moment, PlayClock, Speed};
use super::marks::{Index, MarkKind, Observer};
use super::tape::{Played, Tape};
use super::{Command, Feed, PlayState, Position, SeekTo};
use crate::event::{Batch, SweepKind, What};
use crate::port::Stamp;

/// How often the position is told while nothing happens.
const TELL: Duration = Duration::from_millis(100);
/// While it plays, "previous" goes to what is at least this far back: pressed twice, it moves
/// on although the first mark is just behind.
const STEP_BACK: Duration = Duration::from_secs(1);
/// How far into a recording without a discovery a paused replay begins.
const OVERVIEW: Duration = Duration::from_secs(10);

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// There is more at once.
    Now,
    /// Nothing before this time.
    Until(Duration),
    /// Nothing before the next command.
    Command,
}

/// Where an interlude without pace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// At the last event of this moment.
    Moment(Moment),
    /// After one event.
    Event,
    /// After the end of a sweep.
    Sweep,
    /// After an event of this kind.
    Mark(MarkKind),
    /// Where there is something to see: after the first discovery, or soon without one.
    Overview,
}

/// Plays a tape.
pub struct Player {
    tape: Box<dyn Tape>,
    observer: Box<dyn Observer>,
    index: Arc<Mutex<Index>>,
    clock: PlayClock,
    /// `None`: at the clock's pace.
    goal: Option<Goal>,
    look: Option<Played>,
    /// An event was shown since the last reset.
    begun: bool,
    ended: bool,
    skip_idle: bool,
    until: Option<SeekTo>,
    /// A seek that must wait until the recording's extent is known.
    deferred: Option<SeekTo>,
    /// Moment of the last event shown, or of the last seek.
    reached: Moment,
    /// Moment of the session's time 0.
    anchor: u64,
    message: Option<String>,
    told: Option<Position>,
}

impl Player {
    /// A player at the beginning of `tape`.
    pub fn new(
        tape: Box<dyn Tape>,
        observer: Box<dyn Observer>,
        index: Arc<Mutex<Index>>,
        now: Duration,
        speed: Speed,
    ) -> Player {
        let start = lock(&index).start().unwrap_or_default();
        Player {
            tape,
            observer,
            index,
            clock: PlayClock::new(now, start, speed),
            goal: None,
            look: None,
            begun: false,
            ended: false,
            skip_idle: false,
            until: None,
            deferred: None,
            reached: start,
            anchor: 0,
            message: None,
            told: None,
        }
    }

    /// Plays no further than to here.
    pub fn set_until(&mut self, until: Option<SeekTo>) {
        self.until = until;
    }

    /// Stands still where there is something to see, instead of before the first event.
    pub fn begin_paused(&mut self, now: Duration) {
        self.clock.set_paused(now, true);
        self.goal = Some(Goal::Overview);
    }

    /// Emits what is due at `now`: at most one batch, and the position if it changed.
    pub fn advance(&mut self, now: Duration, out: &mut VecDeque<Feed>) -> Wait {
        if let Some(to) = self.deferred.take() {
            // If it is still not known, that is said again.
            self.message = None;
            self.seek(now, to, out);
        }
        let mut events = Vec::new();
        let wait = self.collect(now, &mut events, out);
        if !events.is_empty() {
            out.push_back(Feed::Batch(Arc::new(Batch { events })));
        }
        self.tell(now, out);
        let soon = now + TELL;
        match wait {
            Wait::Until(at) => Wait::Until(at.min(soon)),
            Wait::Command if self.deferred.is_some() || self.is_scanned_still() => {
                Wait::Until(soon)
            }
            wait => wait,
        }
    }

    /// The end and the marks are still being looked for: a replay that stands still must tell
    /// them, too, once they are found.
    fn is_scanned_still(&self) -> bool {
        self.tape.can_rewind() && !lock(&self.index).is_complete()
    }

    fn collect(
        &mut self,
        now: Duration,
        events: &mut Vec<crate::event::Event>,
        out: &mut VecDeque<Feed>,
    ) -> Wait {
        if self.ended {
            return Wait::Command;
        }
        let until = self.until.and_then(|to| self.resolve(now, to));
        while events.len() < Batch::MAX {
            if self.look.is_none() {
                self.look = self.tape.next();
            }
            let Some(next) = &mut self.look else {
                self.end(now, "end of the recording", events, out);
                return Wait::Command;
            };
            let moment = next.moment;
            if let Some(until) = until.filter(|until| moment > *until) {
                self.reached = until;
                self.end(now, "end of what was asked for", events, out);
                return Wait::Command;
            }
            if next.fresh && self.begun && !events.is_empty() {
                return Wait::Now;
            }
            if next.fresh || !self.begun {
                // Nobody waits for what lies between two sessions.
                if self.begun {
                    out.push_back(Feed::Reset);
                    self.observer.reset();
                }
                if self.goal.is_none() {
                    self.clock.jump(now, moment);
                }
                next.fresh = false;
                self.begun = true;
                self.anchor = moment.0.saturating_sub(next.event.at.0);
                lock(&self.index).reach(moment);
            }
            match self.goal {
                Some(Goal::Moment(to)) if moment > to => {
                    self.arrive(now, to);
                    continue;
                }
                Some(Goal::Overview) if self.is_past_overview(moment) => {
                    self.arrive(now, self.reached);
                    continue;
                }
                Some(_) => {}
                None => match self.clock.due_in(now, moment) {
                    None => return Wait::Command,
                    Some(wait) if wait > Duration::ZERO => {
                        if self.skip_idle && self.skip(now, moment) {
                            continue;
                        }
                        return Wait::Until(now + wait);
                    }
                    Some(_) if self.clock.speed() == Speed::Max => self.clock.jump(now, moment),
                    Some(_) => {}
                },
            }
            let Some(played) = self.look.take() else {
                return Wait::Now;
            };
            self.reached = self.reached.max(moment);
            let arrived = match self.goal {
                Some(Goal::Event) => true,
                Some(Goal::Sweep) => matches!(played.event.what, What::SweepEnded(_)),
                Some(Goal::Overview) => matches!(
                    &played.event.what,
                    What::SweepEnded(sweep) if sweep.kind == SweepKind::Discovery
                ),
                Some(Goal::Mark(kind)) => {
                    let seen = self.observer.observe(&played.event);
                    seen.is_some_and(|(found, _)| found.is_a(kind))
                }
                Some(Goal::Moment(_)) | None => false,
            };
            events.push(played.event);
            if arrived {
                self.arrive(now, self.reached);
            }
        }
        Wait::Now
    }

    fn is_past_overview(&self, moment: Moment) -> bool {
        let start = lock(&self.index).start();
        start.is_some_and(|start| moment > start.after(OVERVIEW))
    }

    /// The goal is reached: from here on at the clock's pace.
    fn arrive(&mut self, now: Duration, at: Moment) {
        self.goal = None;
        self.reached = at;
        self.clock.jump(now, at);
    }

    fn end(
        &mut self,
        now: Duration,
        why: &str,
        events: &mut Vec<crate::event::Event>,
        out: &mut VecDeque<Feed>,
    ) {
        if let Some(Goal::Mark(kind)) = self.goal {
            self.message = Some(format!("no later {}", kind.name()));
        }
        self.goal = None;
        self.ended = true;
        self.clock.jump(now, self.reached);
        if !events.is_empty() {
            let events = std::mem::take(events);
            out.push_back(Feed::Batch(Arc::new(Batch { events })));
        }
        out.push_back(Feed::End { why: why.into() });
    }

    /// Passes over an idle stretch; says whether there is one. Its events are folded, too, only
    /// without pace.
    fn skip(&mut self, now: Duration, next: Moment) -> bool {
        let at = self.clock.position(now);
        let mut to = lock(&self.index).idle_until(at);
        if !self.tape.can_rewind() {
            // Nothing ahead is known, but that nothing comes before `next`.
            to = Some(next).filter(|next| next.since(at) > Duration::from_secs(10));
        }
        let Some(to) = to else { return false };
        self.goal = Some(Goal::Moment(to));
        true
    }

    /// Does as told.
    pub fn command(&mut self, now: Duration, command: Command, out: &mut VecDeque<Feed>) {
        self.message = None;
        match command {
            Command::Pause(paused) => self.pause(now, paused, out),
            Command::Toggle => self.pause(now, !(self.clock.is_paused() || self.ended), out),
            Command::Speed(speed) => self.clock.set_speed(now, speed),
            Command::Faster => self.clock.set_speed(now, self.clock.speed().faster()),
            Command::Slower => self.clock.set_speed(now, self.clock.speed().slower()),
            Command::StepEvent => self.step(now, Goal::Event),
            Command::StepSweep => self.step(now, Goal::Sweep),
            Command::Seek(to) => self.seek(now, to, out),
            Command::Next(kind) => self.next_mark(now, kind, out),
            Command::Previous(kind) => self.previous_mark(now, kind, out),
            Command::SkipIdle(on) => self.skip_idle = on,
            Command::Bookmark(text) => {
                let at = self.position(now);
                lock(&self.index).add(at, MarkKind::Bookmark, &text);
            }
        }
    }

    fn pause(&mut self, now: Duration, paused: bool, out: &mut VecDeque<Feed>) {
        if !paused && self.ended {
            // Played again from the beginning, if that can be.
            let start = lock(&self.index).start().unwrap_or_default();
            self.go(start, out);
        }
        self.clock.set_paused(now, paused);
        if paused && self.goal.take().is_some() {
            // On the way somewhere: it stays where it got to.
            self.clock.jump(now, self.reached);
        }
    }

    fn step(&mut self, now: Duration, goal: Goal) {
        if self.ended {
            self.message = Some("this is the end".into());
            return;
        }
        self.clock.set_paused(now, true);
        self.goal = Some(goal);
    }

    fn next_mark(&mut self, now: Duration, kind: MarkKind, out: &mut VecDeque<Feed>) {
        let at = self.aim(now);
        let (found, complete) = {
            let index = lock(&self.index);
            let known = index.next(at, kind).map(|m| m.at);
            (known, index.is_complete())
        };
        match found {
            Some(to) => self.go(to, out),
            None if complete || self.ended => {
                self.message = Some(format!("no later {}", kind.name()));
            }
            // Nobody looked that far yet: play on until there is one.
            None => self.goal = Some(Goal::Mark(kind)),
        }
    }

    fn previous_mark(&mut self, now: Duration, kind: MarkKind, out: &mut VecDeque<Feed>) {
        let mut at = self.aim(now);
        if !self.clock.is_paused() && !self.ended {
            at = at.before(STEP_BACK);
        }
        let found = lock(&self.index).previous(at, kind).map(|m| m.at);
        match found {
            Some(to) => self.go(to, out),
            None => self.message = Some(format!("no earlier {}", kind.name())),
        }
    }

    fn seek(&mut self, now: Duration, to: SeekTo, out: &mut VecDeque<Feed>) {
        if let Some(to) = self.resolve(now, to) {
            self.go(to, out);
            return;
        }
        if self.tape.can_rewind() || !self.begun {
            self.message = Some("the end of the recording is not known yet".into());
            self.deferred = Some(to);
        } else {
            self.message = Some("what comes through a pipe has no known end".into());
        }
    }

    /// The moment that `to` means, if that is known yet.
    fn resolve(&self, now: Duration, to: SeekTo) -> Option<Moment> {
        let index = lock(&self.index);
        let start = index.start()?;
        let end = Some(index.end()).filter(|_| index.is_extent_known());
        let moment = match to {
            SeekTo::Start(after) => start.after(after),
            SeekTo::Wall(wall) => Moment(u64::try_from(wall).unwrap_or(0)),
            SeekTo::Moment(moment) => moment,
            SeekTo::End(before) => end?.before(before),
            SeekTo::Percent(percent) => {
                let part = (percent / 100.0).clamp(0.0, 1.0);
                start.after(end?.since(start).mul_f64(part))
            }
            SeekTo::By(nanos) => {
                let by = Duration::from_nanos(nanos.unsigned_abs());
                drop(index);
                let at = self.aim(now);
                return Some(if nanos < 0 {
                    at.before(by)
                } else {
                    at.after(by)
                });
            }
        };
        Some(moment)
    }

    /// Shows the state at `to`.
    fn go(&mut self, to: Moment, out: &mut VecDeque<Feed>) {
        let to = {
            let index = lock(&self.index);
            let to = to.max(index.start().unwrap_or_default());
            if index.is_extent_known() {
                to.min(index.end())
            } else {
                to
            }
        };
        let back = self.ended || to < self.reached;
        if back || self.tape.is_behind(to) {
            if !self.tape.rewind(to) {
                self.message = Some("what comes through a pipe cannot be played again".into());
                return;
            }
            out.push_back(Feed::Reset);
            self.observer.reset();
            self.look = None;
            self.begun = false;
            self.ended = false;
            self.reached = Moment::default();
        }
        self.goal = Some(Goal::Moment(to));
    }

    /// Where the operator is, or is already going: two steps in a row are twice as far, however
    /// soon the second one comes.
    fn aim(&self, now: Duration) -> Moment {
        match self.goal {
            Some(Goal::Moment(to)) => to,
            _ => self.position(now),
        }
    }

    /// The moment that is shown at `now`.
    pub fn position(&self, now: Duration) -> Moment {
        if self.goal.is_some() || self.ended {
            return self.reached;
        }
        let at = self.clock.position(now).max(self.reached);
        // Time does not pass beyond the next event before it is shown.
        match &self.look {
            Some(next) => at.min(next.moment.max(self.reached)),
            None => at,
        }
    }

    fn tell(&mut self, now: Duration, out: &mut VecDeque<Feed>) {
        let moment = self.position(now);
        let state = if self.ended {
            PlayState::Ended
        } else if self.goal.is_some() || self.deferred.is_some() {
            PlayState::Seeking
        } else if self.clock.is_paused() {
            PlayState::Paused
        } else {
            PlayState::Playing
        };
        let index = lock(&self.index);
        let position = Position {
            moment,
            at: Stamp(moment.0.saturating_sub(self.anchor)),
            start: index.start().unwrap_or(moment),
            end: index.end().max(moment),
            end_known: index.is_extent_known(),
            marks: index.revision(),
            state,
            speed: self.clock.speed(),
            skip_idle: self.skip_idle,
            can_rewind: self.tape.can_rewind(),
            message: self.message.clone(),
        };
        drop(index);
        if self.told.as_ref() != Some(&position) {
            self.told = Some(position.clone());
            out.push_back(Feed::Position(Box::new(position)));
        }
    }

    /// What could not be read, so far.
    pub fn problems(&self) -> Vec<String> {
        self.tape.problems()
    }
}

/// Nothing that holds this lock can leave it half changed.
pub fn lock(index: &Mutex<Index>) -> std::sync::MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}
