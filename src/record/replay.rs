//! Playing recordings: paced, paused, stepped through and searched.
//!
//! [`play`] reads files on a thread of its own and feeds a screen through a channel; a
//! [`Transport`] controls it. The scheduling itself is a state machine that is told the time.
//! [`Files`] yields the same events without any pace, for reports.
//!
//! Memory is bounded by what a tape and its index hold, not by the length of the files. This
//! room must never write to what it plays, and has nothing to send a MAD with.

mod clock;
mod folding;
mod marks;
mod places;
mod player;
mod tape;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};

pub use clock::{Moment, PlayClock, Speed};
pub use folding::{ByModel, by_model, fold};
pub use marks::{ByEvent, Index, MAX_MARKS, Mark, MarkKind, Observer};
pub use player::{Player, Wait};
pub use tape::{Files, Look, Played, ReplayError, Tape};

use crate::event::SharedBatch;
use crate::port::Stamp;
use player::lock;

/// What a screen is fed: by a replay, or by a collector that it watches.
#[derive(Clone, Debug)]
pub enum Feed {
    /// Events to fold, in order.
    Batch(SharedBatch),
    /// What was folded no longer holds: begin with a new model.
    Reset,
    /// Where the replay is, told after the events up to there.
    Position(Box<Position>),
    /// Nothing more comes, unless a replay is told to go elsewhere.
    End {
        /// Why.
        why: Box<str>,
    },
}

/// What a replay is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayState {
    /// Time passes.
    Playing,
    /// Time stands still.
    Paused,
    /// Events are folded without pace, on the way to where it was told to go.
    Seeking,
    /// Everything was shown.
    Ended,
}

/// Where a replay is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The moment shown.
    pub moment: Moment,
    /// The same as the session's own time: the `now` of views.
    pub at: Stamp,
    /// The recording's first moment.
    pub start: Moment,
    /// Its last one, as far as is known.
    pub end: Moment,
    /// Whether `end` is the end: the files were read to it.
    pub end_known: bool,
    /// Revision of the marks: they changed if this did.
    pub marks: u64,
    /// What it is doing.
    pub state: PlayState,
    /// How fast.
    pub speed: Speed,
    /// Whether stretches in which nothing happens are passed over.
    pub skip_idle: bool,
    /// Whether it can go back: a pipe cannot.
    pub can_rewind: bool,
    /// What came of the last command, if it could not be done.
    pub message: Option<String>,
}

impl Position {
    /// How far a moment is into the recording, from 0 to 1.
    pub fn fraction(&self, moment: Moment) -> f64 {
        let all = self.end.since(self.start).as_secs_f64();
        let part = moment.since(self.start).as_secs_f64();
        if all > 0.0 {
            (part / all).min(1.0)
        } else {
            0.0
        }
    }
}

/// Where to go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeekTo {
    /// This long after the beginning.
    Start(Duration),
    /// This long before the end.
    End(Duration),
    /// This part of the whole, from 0 to 100.
    Percent(f64),
    /// Wall time, nanoseconds since the Unix epoch.
    Wall(i64),
    /// A place on the timeline, such as a mark's.
    Moment(Moment),
    /// Nanoseconds from here.
    By(i64),
}

impl std::str::FromStr for SeekTo {
    type Err = String;

    /// `50%`, `90s` or `+90s` after the beginning, `-5m` before the end, or a date and time in
    /// UTC such as `2026-11-29T22:13:57Z`.
    fn from_str(text: &str) -> Result<SeekTo, String> {
        let wrong = || {
            format!(
                "`{text}` is no place in a recording: give a part (50%), a time from the \
                 beginning (1h30m), a time before the end (-5m), or a date and time in UTC \
                 (2026-11-29T22:13:57Z)"
            )
        };
        if let Some(part) = text.strip_suffix('%') {
            let part = part.trim().parse::<f64>().map_err(|_| wrong())?;
            return if (0.0..=100.0).contains(&part) {
                Ok(SeekTo::Percent(part))
            } else {
                Err(wrong())
            };
        }
        if let Ok(wall) = humantime::parse_rfc3339_weak(text) {
            let since = wall.duration_since(std::time::UNIX_EPOCH).ok();
            let nanos = since.and_then(|d| i64::try_from(d.as_nanos()).ok());
            return nanos.map(SeekTo::Wall).ok_or_else(wrong);
        }
        if let Some(before) = text.strip_prefix('-') {
            let before = humantime::parse_duration(before).map_err(|_| wrong())?;
            return Ok(SeekTo::End(before));
        }
        let after = text.strip_prefix('+').unwrap_or(text);
        humantime::parse_duration(after)
            .map(SeekTo::Start)
            .map_err(|_| wrong())
    }
}

/// What a replay can be told. Nothing of it reaches a fabric.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Stop time, or let it run.
    Pause(bool),
    /// Stop time if it runs, and the other way round.
    Toggle,
    /// Change the speed.
    Speed(Speed),
    /// One step up.
    Faster,
    /// One step down.
    Slower,
    /// Show one more event, then stop time.
    StepEvent,
    /// Show everything up to the end of the next sweep, then stop time.
    StepSweep,
    /// Go there.
    Seek(SeekTo),
    /// Go to the next mark of this kind.
    Next(MarkKind),
    /// Go to the one before.
    Previous(MarkKind),
    /// Pass over stretches in which nothing happens, or not.
    SkipIdle(bool),
    /// Remember this moment, until the replay ends.
    Bookmark(String),
}

/// Controls a replay. Dropping all of them changes nothing.
#[derive(Clone, Debug)]
pub struct Transport {
    commands: Sender<Command>,
    index: Arc<Mutex<Index>>,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    position: Option<Position>,
    problems: Vec<String>,
}

impl Transport {
    /// Tells the replay to do something. Returns at once.
    pub fn send(&self, command: Command) {
        // Full only if nobody takes what is fed: then nobody sees the effect either.
        let _ = self.commands.try_send(command);
    }

    /// Where it is; `None` before the first event was read.
    pub fn position(&self) -> Option<Position> {
        self.told().position.clone()
    }

    /// The marks in order of time, as far as the files were scanned: grows with
    /// [`Position::marks`].
    pub fn marks(&self) -> Vec<Mark> {
        lock(&self.index).marks().to_vec()
    }

    /// What of the files could not be read, one sentence each.
    pub fn problems(&self) -> Vec<String> {
        self.told().problems.clone()
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How to begin.
#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// Begin here.
    pub at: Option<SeekTo>,
    /// Play no further than to here.
    pub until: Option<SeekTo>,
    /// How fast.
    pub speed: Speed,
    /// Begin with time standing still.
    pub paused: bool,
    /// Pass over stretches in which nothing happens.
    pub skip_idle: bool,
}

impl Default for PlayOptions {
    fn default() -> PlayOptions {
        PlayOptions {
            at: None,
            until: None,
            speed: Speed::REAL,
            paused: false,
            skip_idle: false,
        }
    }
}

/// Batches on the way to the screen: few, so that a pause is soon seen.
const QUEUE: usize = 16;
/// Commands on their way.
const COMMANDS: usize = 64;

/// Plays recordings, in order of time, on a thread that ends when nobody takes what it feeds, or
/// waits for a command that nobody can give any more.
/// `-` alone plays standard input. `observers` makes what finds the marks: one for the scan of
/// the files, one for the play.
///
/// # Errors
/// A file cannot be opened or holds nothing.
pub fn play(
    paths: &[PathBuf],
    options: PlayOptions,
    observers: impl Fn() -> Box<dyn Observer>,
) -> Result<(Transport, Receiver<Feed>), ReplayError> {
    let files = Files::open(paths)?;
    let index = Arc::new(Mutex::new(Index::new(files.start())));
    let told = Arc::new(Mutex::new(Told::default()));
    let (commands, commanded) = bounded(COMMANDS);
    let (feed, fed) = bounded(QUEUE);
    let stop = Arc::new(AtomicBool::new(false));

    if let Some(files) = files.again() {
        let (index, stop, observer) = (Arc::clone(&index), Arc::clone(&stop), observers());
        thread::Builder::new()
            .name("scan".into())
            .spawn(move || {
                let look = files.look_through();
                if look.end.is_some() {
                    let mut index = lock(&index);
                    look.end.into_iter().for_each(|end| index.reach(end));
                    index.know_extent();
                    if look.marked {
                        for (at, kind, text) in look.marks {
                            index.add(at, kind, &text);
                        }
                        index.finish();
                        return;
                    }
                }
                scan(files, observer, &index, &stop);
            })
            .map_err(ReplayError::Thread)?;
    }
    let mut player = Player::new(
        Box::new(files),
        observers(),
        Arc::clone(&index),
        Duration::ZERO,
        options.speed,
    );
    player.set_until(options.until);
    let mut out = VecDeque::new();
    if options.paused && options.at.is_none() {
        player.begin_paused(Duration::ZERO);
    }
    for command in [
        (options.paused && options.at.is_some()).then_some(Command::Pause(true)),
        options.skip_idle.then_some(Command::SkipIdle(true)),
        options.at.map(Command::Seek),
    ]
    .into_iter()
    .flatten()
    {
        player.command(Duration::ZERO, command, &mut out);
    }
    let transport = Transport {
        commands,
        index,
        told: Arc::clone(&told),
    };
    thread::Builder::new()
        .name("replay".into())
        .spawn(move || {
            drive(player, out, commanded, &feed, &told);
            stop.store(true, Ordering::Relaxed);
        })
        .map_err(ReplayError::Thread)?;
    Ok((transport, fed))
}

/// Reads everything once, for its extent and marks.
fn scan(
    mut tape: impl Tape,
    mut observer: Box<dyn Observer>,
    index: &Mutex<Index>,
    stop: &AtomicBool,
) {
    /// Events between two looks at the lock and the flag.
    const STRIDE: usize = 4096;
    let mut found = Vec::new();
    loop {
        let mut last = None;
        let mut read = 0;
        while read < STRIDE {
            let Some(played) = tape.next() else { break };
            read += 1;
            if played.fresh {
                observer.reset();
            }
            if let Some((kind, text)) = observer.observe(&played.event) {
                found.push((played.moment, kind, text));
            }
            last = last.max(Some(played.moment));
        }
        let mut index = lock(index);
        for (at, kind, text) in found.drain(..) {
            index.add(at, kind, &text);
        }
        if let Some(last) = last {
            index.scanned_to(last);
        }
        if read < STRIDE {
            index.finish();
            return;
        }
        drop(index);
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Gives the player the time and its commands, and what it emits to the screen.
fn drive(
    mut player: Player,
    mut out: VecDeque<Feed>,
    mut commands: Receiver<Command>,
    feed: &Sender<Feed>,
    told: &Mutex<Told>,
) {
    let begun = Instant::now();
    let mut wait = Wait::Now;
    let mut alone = false;
    loop {
        if out.is_empty() {
            wait = player.advance(begun.elapsed(), &mut out);
            for item in &out {
                if let Feed::Position(position) = item {
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.position = Some((**position).clone());
                    if matches!(position.state, PlayState::Ended) {
                        told.problems = player.problems();
                    }
                }
            }
        }
        let command = if let Some(next) = out.front().cloned() {
            select! {
                send(feed, next) -> sent => {
                    if sent.is_err() {
                        return;
                    }
                    out.pop_front();
                    continue;
                }
                recv(commands) -> command => command,
            }
        } else {
            let time = match wait {
                Wait::Now => continue,
                Wait::Until(at) => after(at.saturating_sub(begun.elapsed())),
                Wait::Command if alone => return,
                Wait::Command => never(),
            };
            select! {
                recv(commands) -> command => command,
                recv(time) -> _ => continue,
            }
        };
        match command {
            Ok(command) => player.command(begun.elapsed(), command, &mut out),
            // Nobody is left who could tell it to go on.
            Err(_) if wait == Wait::Command && out.is_empty() => return,
            Err(_) => {
                commands = never();
                alone = true;
            }
        }
    }
}
