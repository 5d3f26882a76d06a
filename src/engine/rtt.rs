//! Measured latency, and what it says of how long to wait.
//!
//! As RFC 6298 does it, without its one weakness: each attempt has a transaction id of its own,
//! so that it is always known which attempt a reply answers, and every reply is a sample.

use std::time::Duration;

/// The soonest that a question is put again. An idle management processor answers within tens
/// of microseconds; a busy one may take milliseconds and is not helped by further questions.
pub(super) const AGAIN_LEAST: Duration = Duration::from_millis(50);
/// The same before anything was measured.
const AGAIN_UNKNOWN: Duration = Duration::from_millis(200);
/// Nothing is overdue sooner.
const OVERDUE_LEAST: Duration = Duration::from_millis(1);

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

/// When an attempt is overdue, and after which time the next one is made, counted from its
/// sending. `lane` is what was measured of all, `node` of the one that is asked.
pub(super) fn waits(lane: &Rtt, node: &Rtt, attempt: u8) -> (Option<Duration>, Duration) {
    let usual = lane.usual().max(node.usual());
    let overdue = usual.map(|usual| usual.max(OVERDUE_LEAST));
    let again = usual.map_or(AGAIN_UNKNOWN, |usual| usual.max(AGAIN_LEAST));
    let doubled = u32::from(attempt.saturating_sub(1)).min(10);
    (overdue, again.saturating_mul(1 << doubled))
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

    #[test]
    fn a_slow_node_is_given_its_time_and_each_further_attempt_twice_as_much() {
        let (mut lane, mut slow) = (Rtt::default(), Rtt::default());
        assert_eq!(waits(&lane, &slow, 1), (None, ms(200)));
        for _ in 0..50 {
            lane.sample(Duration::from_micros(300));
        }
        // Overdue after a millisecond, asked again after no less than 50.
        assert_eq!(waits(&lane, &slow, 1), (Some(ms(1)), ms(50)));
        assert_eq!(waits(&lane, &slow, 3), (Some(ms(1)), ms(200)));
        slow.sample(ms(150));
        assert_eq!(waits(&lane, &slow, 1), (Some(ms(450)), ms(450)));
    }
}
