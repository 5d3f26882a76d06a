//! Measured latency, and what it says of how long to wait.
//!
//! As RFC 6298 does it, without its one weakness: each attempt has a transaction id of its own,
//! so that it is always known which attempt a reply answers, and every reply is a sample.
//!
//! The same tells, without the guesses that TCP needs (RFC 3522, RFC 5682), whether a further
//! attempt was needless: an earlier one is answered after it left. Who shows that is given twice
//! that time from then on, for good. Where many do, everybody is given more ([`Floor`]).
//!
//! The second attempt is there for what was lost, and comes soon. Where hardly anything is lost,
//! nearly nobody who stays silent on two of them lost both: he is slow or dead, and further
//! questions help neither. So the third comes late there, and whoever is slow gets one question
//! too many in his life.

use std::time::Duration;

/// The soonest that an SMP is put again. An idle management processor answers within tens of
/// microseconds.
pub(super) const SMP_AGAIN: Duration = Duration::from_millis(5);
/// The same for GMPs, which share their lanes with data, and whose losses hold nothing up; also
/// before a node is taken for protected, or for one that does not have what it was asked.
pub(super) const CALM: Duration = Duration::from_millis(50);
/// The most that others' slowness makes a node wait.
const FLOOR_MOST: Duration = Duration::from_millis(100);
/// The soonest that a question is put again before anything was measured.
const AGAIN_UNKNOWN: Duration = Duration::from_millis(200);
/// The soonest that it is put a third time where hardly anything is lost.
const LATE: Duration = Duration::from_millis(400);
/// Nothing is overdue sooner.
const OVERDUE_LEAST: Duration = Duration::from_millis(1);
/// Needless attempts that raise the floor, and needed ones that lower it again.
const NEEDLESS: u32 = 4;
const NEEDED: u32 = 16;
/// One loss in so many answers, and the third attempt comes soon too.
const RARE: u32 = 500;
/// Answers after which the older ones count half.
const REMEMBERED: u32 = 4_096;

/// Smoothed latency and its variation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rtt {
    measured: bool,
    smooth: Duration,
    variation: Duration,
}

impl Rtt {
    /// A reply took this long.
    pub(super) fn sample(&mut self, took: Duration) {
        if !self.measured {
            *self = Rtt {
                measured: true,
                smooth: took,
                variation: took / 2,
            };
            return;
        }
        let off = self.smooth.abs_diff(took);
        self.variation = (self.variation * 3 + off) / 4;
        self.smooth = (self.smooth * 7 + took) / 8;
    }

    pub(super) fn smooth(&self) -> Option<Duration> {
        self.measured.then_some(self.smooth)
    }

    /// Eight mean latencies and four variations: hardly any reply takes as long. `None` before
    /// anything was measured.
    pub(super) fn eightfold(&self) -> Option<Duration> {
        self.measured.then(|| self.smooth * 8 + self.variation * 4)
    }

    /// Replies usually come within this; `None` before anything was measured. Twice the mean
    /// at least: variation says nothing where all replies took the same time so far.
    pub(super) fn usual(&self) -> Option<Duration> {
        let most = self.smooth + (self.variation * 4).max(self.smooth);
        self.measured.then_some(most)
    }
}

/// The soonest that anybody is asked again: it follows what became of further attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Floor {
    least: Duration,
    now: Duration,
    needless: u32,
    needed: u32,
    answered: u32,
    lost: u32,
}

impl Floor {
    pub(super) const fn new(least: Duration) -> Floor {
        Floor {
            least,
            now: least,
            needless: 0,
            needed: 0,
            answered: 0,
            lost: 0,
        }
    }

    /// An earlier attempt was answered after a further one had left.
    pub(super) fn needless(&mut self) {
        self.needless += 1;
        if self.needless >= NEEDLESS && self.needless >= self.needed {
            self.now = (self.now * 2).min(FLOOR_MOST.max(self.least));
            (self.needless, self.needed) = (0, 0);
        }
    }

    /// A request was answered; `lost` if by a further attempt only.
    pub(super) fn answered(&mut self, lost: bool) {
        self.answered += 1;
        if self.answered >= REMEMBERED {
            self.answered /= 2;
            self.lost /= 2;
        }
        if !lost {
            return;
        }
        self.lost += 1;
        self.needed += 1;
        if self.needed >= NEEDED {
            if self.needless * 4 <= self.needed {
                self.now = (self.now / 2).max(self.least);
            }
            (self.needless, self.needed) = (0, 0);
        }
    }

    /// Enough is lost for two losses in a row to happen.
    pub(super) fn is_lossy(&self) -> bool {
        self.lost > 0 && self.lost.saturating_mul(RARE) >= self.answered
    }
}

/// How long an attempt is waited for, from its sending on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// Until it is overdue; `None` before anything was measured.
    pub(super) overdue: Option<Duration>,
    /// Until the next attempt.
    pub(super) again: Duration,
    /// Until the next attempt where hardly anything is lost.
    pub(super) late: Duration,
    /// The same where silence is not the reason for it: the port gave the attempt back, or the
    /// node may not have what it is asked for.
    pub(super) calm: Duration,
}

/// How long attempt `attempt` is waited for. `lane` is what was measured of all, `node` of the one
/// that is asked, who once took `patience` for an answer that was not waited for.
pub(super) fn waits(
    lane: &Rtt,
    floor: &Floor,
    node: &Rtt,
    patience: Duration,
    attempt: u8,
) -> Waits {
    let usual = lane.usual().max(node.usual());
    let least = patience * 2;
    let times = |wait: Duration, doubled: u8| wait.saturating_mul(1 << doubled.min(10));
    let before = attempt.saturating_sub(1);
    let again = usual.map_or(AGAIN_UNKNOWN, |usual| usual.max(floor.now).max(least));
    Waits {
        overdue: usual.map(|usual| usual.max(OVERDUE_LEAST)),
        again: times(again, before),
        late: match before {
            0 => again,
            _ => times(again.max(LATE / 2), before),
        },
        calm: times(
            usual.map_or(AGAIN_UNKNOWN, |usual| usual.max(CALM).max(least)),
            before,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_wait_follows_rfc_6298() {
        // RFC 6298 2.2 and 2.3 by hand: first sample 100 ms: SRTT 100, RTTVAR 50, so 100 + 200.
        let mut rtt = Rtt::default();
        rtt.sample(ms(100));
        assert_eq!(rtt.usual(), Some(ms(300)));
        // 180 ms: RTTVAR 3/4 * 50 + 1/4 * 80 = 57.5, SRTT 7/8 * 100 + 1/8 * 180 = 110.
        rtt.sample(ms(180));
        assert_eq!(rtt.usual(), Some(ms(340)));
        // 8 * 110 + 4 * 57.5.
        assert_eq!(rtt.eightfold(), Some(ms(1_110)));
    }

    /// Times until the attempt after this one, ms: where much is lost, and where little is.
    fn next(lane: &Rtt, floor: &Floor, node: &Rtt, patience: u64) -> [(u128, u128); 3] {
        [1, 2, 3].map(|n| {
            let waits = waits(lane, floor, node, ms(patience), n);
            (waits.again.as_millis(), waits.late.as_millis())
        })
    }

    #[test]
    fn a_slow_node_is_given_its_time_and_a_third_attempt_comes_late_where_little_is_lost() {
        let (mut lane, mut slow) = (Rtt::default(), Rtt::default());
        let floor = Floor::new(ms(10));
        assert_eq!(waits(&lane, &floor, &slow, ms(0), 1).overdue, None);
        let unknown = [(200, 200), (400, 400), (800, 800)];
        assert_eq!(next(&lane, &floor, &slow, 0), unknown);
        for _ in 0..50 {
            lane.sample(Duration::from_micros(300));
        }
        // Overdue after a millisecond, asked again after 10, then after 20 or 400.
        let first = waits(&lane, &floor, &slow, ms(0), 1);
        assert_eq!((first.overdue, first.calm), (Some(ms(1)), ms(50)));
        let usual = [(10, 10), (20, 400), (40, 800)];
        assert_eq!(next(&lane, &floor, &slow, 0), usual);
        // Who answered after 30 ms, asked twice by then, has twice that.
        let patient = [(60, 60), (120, 400), (240, 800)];
        assert_eq!(next(&lane, &floor, &slow, 30), patient);
        slow.sample(ms(150));
        let slow = next(&lane, &floor, &slow, 0);
        assert_eq!(slow, [(450, 450), (900, 900), (1_800, 1_800)]);
    }

    #[test]
    fn one_loss_in_500_answers_is_much() {
        let mut floor = Floor::new(ms(10));
        assert!(!floor.is_lossy());
        for n in 0..1_000 {
            floor.answered(n % 500 == 499);
        }
        assert!(floor.is_lossy());
        floor.answered(false);
        assert!(!floor.is_lossy());
        floor.answered(true);
        assert!(floor.is_lossy());
    }

    #[test]
    fn needless_attempts_raise_the_floor_and_needed_ones_lower_it() {
        let mut floor = Floor::new(ms(10));
        for (times, then) in [(3, 10), (1, 20), (4, 40), (4, 80), (4, 100), (4, 100)] {
            (0..times).for_each(|_| floor.needless());
            assert_eq!(floor.now, ms(then));
        }
        for (times, then) in [(15, 100), (1, 50), (16, 25), (32, 10), (64, 10)] {
            (0..times).for_each(|_| floor.answered(true));
            assert_eq!(floor.now.as_millis(), then);
        }
        // Fewer than were needed do not raise it.
        (0..8).for_each(|_| floor.answered(true));
        (0..7).for_each(|_| floor.needless());
        assert_eq!(floor.now, ms(10));
    }
}
