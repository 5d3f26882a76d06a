//! From wall time to recording time: a state machine that is told the time.

use std::fmt;
use std::time::Duration;

/// A moment on the timeline of what is played: nanoseconds since the Unix epoch as the
/// recording host's clock showed them when its session opened, run on monotonically.
///
/// Sessions of several files share one timeline. Recordings that do not tell when they were
/// made count from their own beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Later by `by`.
    pub fn after(self, by: Duration) -> Moment {
        Moment(
            self.0
                .saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// Earlier by `by`.
    pub fn before(self, by: Duration) -> Moment {
        Moment(
            self.0
                .saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// Time from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// How fast recording time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speed {
    /// Thousandths of real time, 100 to 1,000,000.
    Times(u32),
    /// As fast as events can be read and folded.
    Max,
}

impl Speed {
    /// Real time.
    pub const REAL: Speed = Speed::Times(1_000);

    /// The speeds that keys step through. As fast as can be read is no step of it: nobody who
    /// presses a key once too often should find the recording at its end.
    const LADDER: [Speed; 13] = [
        Speed::Times(100),
        Speed::Times(200),
        Speed::Times(500),
        Speed::Times(1_000),
        Speed::Times(2_000),
        Speed::Times(5_000),
        Speed::Times(10_000),
        Speed::Times(20_000),
        Speed::Times(50_000),
        Speed::Times(100_000),
        Speed::Times(200_000),
        Speed::Times(500_000),
        Speed::Times(1_000_000),
    ];

    /// `factor` times real time, held between 0.1 and 1000.
    pub fn times(factor: f64) -> Speed {
        if !factor.is_finite() {
            return Speed::REAL;
        }
        Speed::Times((factor * 1e3).round().clamp(1e2, 1e6) as u32)
    }

    /// The next step up.
    pub fn faster(self) -> Speed {
        let up = Self::LADDER.into_iter().find(|s| *s > self);
        up.unwrap_or(self)
    }

    /// The next step down.
    pub fn slower(self) -> Speed {
        let down = Self::LADDER.into_iter().rev().find(|s| *s < self);
        down.unwrap_or(Speed::Times(100))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Times(milli) => f.pad(&format!("{}×", f64::from(*milli) / 1e3)),
            Speed::Max => f.pad("max"),
        }
    }
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        if text == "max" {
            return Ok(Speed::Max);
        }
        let number = text.trim_end_matches(['x', '×']);
        match number.parse::<f64>() {
            Ok(factor) if (0.1..=1000.0).contains(&factor) => Ok(Speed::times(factor)),
            _ => Err(format!(
                "`{text}` is no speed: give 0.1 to 1000, or `max` for as fast as it can be read"
            )),
        }
    }
}

/// Tells which moment it is in the recording. `now` is any monotonic time.
#[derive(Clone, Copy, Debug)]
pub struct PlayClock {
    speed: Speed,
    paused: bool,
    /// At this time …
    since: Duration,
    /// … it was this moment.
    base: Moment,
}

impl PlayClock {
    /// A running clock that shows `base` at `now`.
    pub fn new(now: Duration, base: Moment, speed: Speed) -> PlayClock {
        PlayClock {
            speed,
            paused: false,
            since: now,
            base,
        }
    }

    /// The moment at `now`. At [`Speed::Max`] moments are where [`PlayClock::jump`] put them.
    pub fn position(&self, now: Duration) -> Moment {
        match self.speed {
            Speed::Times(milli) if !self.paused => {
                let passed = now.saturating_sub(self.since).as_nanos();
                let passed = passed.saturating_mul(u128::from(milli)) / 1_000;
                Moment(
                    self.base
                        .0
                        .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)),
                )
            }
            _ => self.base,
        }
    }

    /// How long after `now` `moment` comes; `None` while paused.
    pub fn due_in(&self, now: Duration, moment: Moment) -> Option<Duration> {
        if self.paused {
            return None;
        }
        let Speed::Times(milli) = self.speed else {
            return Some(Duration::ZERO);
        };
        // Rounded up, so that who waits this long does not come too early.
        let ahead = u128::from(moment.0.saturating_sub(self.base.0)) * 1_000;
        let ahead = ahead.div_ceil(u128::from(milli.max(1)));
        let ahead = Duration::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX));
        Some(ahead.saturating_sub(now.saturating_sub(self.since)))
    }

    /// From `now` on it is `moment`.
    pub fn jump(&mut self, now: Duration, moment: Moment) {
        self.since = now;
        self.base = moment;
    }

    /// Stops or runs on.
    pub fn set_paused(&mut self, now: Duration, paused: bool) {
        self.jump(now, self.position(now));
        self.paused = paused;
    }

    /// Changes the speed from `now` on.
    pub fn set_speed(&mut self, now: Duration, speed: Speed) {
        self.jump(now, self.position(now));
        self.speed = speed;
    }

    /// Whether it stands still.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// How fast it runs.
    pub fn speed(&self) -> Speed {
        self.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn m(secs: u64) -> Moment {
        Moment(secs * 1_000_000_000)
    }

    #[test]
    fn speed_pause_and_jump_move_the_moment() {
        let mut clock = PlayClock::new(s(100), m(1000), Speed::REAL);
        assert_eq!(clock.position(s(107)), m(1007));
        // 10× from here: 3 s are 30 s.
        clock.set_speed(s(107), Speed::times(10.0));
        assert_eq!(clock.position(s(110)), m(1037));
        assert_eq!(clock.due_in(s(110), m(1087)), Some(s(5)));
        clock.set_paused(s(110), true);
        assert_eq!(clock.position(s(500)), m(1037));
        assert_eq!(clock.due_in(s(500), m(1037)), None);
        clock.set_paused(s(500), false);
        assert_eq!(clock.position(s(501)), m(1047));
        clock.jump(s(501), m(2000));
        clock.set_speed(s(501), Speed::times(0.1));
        // A tenth: the next second of the recording comes in ten.
        assert_eq!(clock.due_in(s(501), m(2001)), Some(s(10)));
        assert_eq!(clock.due_in(s(505), m(2001)), Some(s(6)));
        assert_eq!(clock.due_in(s(505), m(1900)), Some(s(0)));
    }

    #[test]
    fn waiting_as_told_is_never_too_early() {
        let mut clock = PlayClock::new(s(0), m(0), Speed::times(0.3));
        for (speed, target) in [(300, 1), (700, 999_999_999), (1_000_000, 1_234_567)] {
            clock.set_speed(s(0), Speed::Times(speed));
            let wait = clock.due_in(s(0), Moment(target)).unwrap();
            assert!(clock.position(wait) >= Moment(target), "{speed} {target}");
        }
    }

    #[test]
    fn at_full_speed_everything_is_due() {
        let clock = PlayClock::new(s(0), m(5), Speed::Max);
        assert_eq!(clock.due_in(s(0), m(1_000_000)), Some(s(0)));
        assert_eq!(clock.position(s(9)), m(5));
    }

    #[test]
    fn speeds_step_and_parse() {
        assert_eq!(Speed::REAL.faster(), Speed::Times(2_000));
        assert_eq!(Speed::times(3.0).faster(), Speed::Times(5_000));
        assert_eq!(Speed::times(3.0).slower(), Speed::Times(2_000));
        assert_eq!(Speed::Times(100).slower(), Speed::Times(100));
        assert_eq!(Speed::Times(1_000_000).faster(), Speed::Times(1_000_000));
        assert_eq!(Speed::Max.faster(), Speed::Max);
        assert_eq!(Speed::Max.slower(), Speed::Times(1_000_000));
        assert_eq!("2.5x".parse(), Ok(Speed::Times(2_500)));
        assert_eq!("max".parse(), Ok(Speed::Max));
        for wrong in ["0", "1001", "-1", "fast", "", "NaN", "inf"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
        assert_eq!(Speed::times(0.1).to_string(), "0.1×");
        assert_eq!(Speed::times(f64::NAN), Speed::REAL);
    }
}
