//! What a screen says of a session beside its events: where a replay is, whom a viewer watches.

use std::time::Duration;

use super::text::Clock;
use crate::record::replay::{Mark, PlayState, Position, SeekTo};

/// What kind of session it is, and how it stands.
#[derive(Clone, Debug, Default)]
pub enum Told {
    /// This program's own.
    #[default]
    Live,
    /// A recording.
    Replay(Box<Replay>),
    /// Another program's.
    Watch(Watched),
}

/// Where a replay is.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What is played: a file's name, or how many.
    pub name: String,
    /// Where it is; `None` before its first event was read.
    pub position: Option<Position>,
    /// Moments worth going to, in order of time.
    pub marks: Vec<Mark>,
    /// Parts of the files that could not be read.
    pub problems: usize,
}

/// Whose session is watched, and how the connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The collecting host, or how its session comes here.
    pub whose: String,
    /// How the connection is.
    pub link: Link,
    /// How old the newest event is, if that can be told.
    pub lag: Option<Duration>,
}

/// How the connection to a collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Events come in.
    Connected,
    /// The collector is gone and looked for; why, in one sentence.
    Reconnecting(String),
    /// Nothing more comes; why, in one sentence.
    Ended(String),
}

/// Below this a moment cannot be wall time: the recording does not say when it was made.
const EPOCH: u64 = 100_000_000_000_000_000;

impl Told {
    /// What the key that halts and plays a recording does now.
    pub fn play_word(&self) -> &'static str {
        let position = match self {
            Told::Replay(replay) => replay.position.as_ref(),
            _ => None,
        };
        match position.map(|p| (p.state, p.can_rewind)) {
            Some((PlayState::Playing, _)) => "pause",
            Some((PlayState::Ended, true)) => "play again",
            _ => "play",
        }
    }
}

impl Replay {
    /// Wall time of what is shown, nanoseconds since the Unix epoch, if the recording tells it.
    pub fn wall(&self) -> Option<i64> {
        let moment = self.position.as_ref()?.moment.0;
        i64::try_from(moment).ok().filter(|_| moment >= EPOCH)
    }
}

/// Where `text` says to go: `+5m` and `-30s` from here, `40%`, `12:30` or `12:30:00` on the
/// operator's clock, `1h30m` after the beginning, or a date and time in UTC.
///
/// # Errors
/// A sentence for the operator.
pub fn place(text: &str, position: Option<&Position>, clock: &Clock) -> Result<SeekTo, String> {
    let text = text.trim();
    let wrong = || {
        format!("`{text}` is no place here: try +5m, -30s, 40%, 12:30:00, or 1h30m from the start")
    };
    let signed = text
        .strip_prefix('+')
        .map(|rest| (rest, 1))
        .or_else(|| text.strip_prefix('-').map(|rest| (rest, -1)));
    if let Some((rest, sign)) = signed {
        let by = humantime::parse_duration(rest).map_err(|_| wrong())?;
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        return Ok(SeekTo::By(nanos.saturating_mul(sign)));
    }
    if let Some(time) = time_of_day(text) {
        let start = position.map_or(0, |p| p.start.0);
        if start < EPOCH {
            return Err("this recording does not say when it was made: try 40% or +5m".into());
        }
        let start = i64::try_from(start).unwrap_or(i64::MAX);
        return clock
            .next_time(start, time)
            .map(SeekTo::Wall)
            .ok_or_else(wrong);
    }
    text.parse().map_err(|_| wrong())
}

/// Hours, minutes and seconds of `12:30` or `12:30:05`.
fn time_of_day(text: &str) -> Option<(i8, i8, i8)> {
    let mut parts = text.split(':');
    let mut next = |below: i8| {
        let part = parts.next()?;
        let digits = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        part.parse().ok().filter(|n| digits && *n < below)
    };
    let (hour, minute) = (next(24)?, next(60)?);
    let second = next(60).unwrap_or(0);
    (text.matches(':').count() <= 2 && parts.next().is_none()).then_some((hour, minute, second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Stamp;
    use crate::record::replay::{Moment, PlayState, Speed};

    /// 2024-05-17 14:03:07 UTC.
    const WALL: u64 = 1_715_954_587_000_000_000;
    const SECOND: i64 = 1_000_000_000;

    fn at(start: u64) -> Position {
        Position {
            moment: Moment(start),
            at: Stamp::ZERO,
            start: Moment(start),
            end: Moment(start),
            end_known: true,
            marks: 0,
            state: PlayState::Paused,
            speed: Speed::REAL,
            skip_idle: false,
            can_rewind: true,
            message: None,
        }
    }

    #[test]
    fn places_are_read_as_people_write_them() {
        let position = at(WALL);
        let place = |text: &str| place(text, Some(&position), &Clock::utc());
        let wall = i64::try_from(WALL).unwrap();
        for (text, to) in [
            ("+5m", SeekTo::By(300 * SECOND)),
            (" -30s ", SeekTo::By(-30 * SECOND)),
            ("40%", SeekTo::Percent(40.0)),
            ("1h30m", SeekTo::Start(Duration::from_secs(5400))),
            // 53 s after the start; and before it in the day, so a day later.
            ("14:04", SeekTo::Wall(wall + 53 * SECOND)),
            ("14:03:06", SeekTo::Wall(wall + 86_399 * SECOND)),
            ("2024-05-17T14:03:07Z", SeekTo::Wall(wall)),
        ] {
            assert_eq!(place(text), Ok(to), "{text}");
        }
        for text in [
            "", "soon", "120%", "24:00", "1:2:3:4", "12:61", "+", "12:3x",
        ] {
            assert!(place(text).unwrap_err().contains("no place"), "{text}");
        }
    }

    #[test]
    fn a_recording_without_wall_time_has_no_time_of_day() {
        let error = place("12:30", Some(&at(0)), &Clock::utc()).unwrap_err();
        assert!(error.contains("does not say when"), "{error}");
    }
}
