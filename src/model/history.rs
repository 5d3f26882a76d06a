//! Two minutes of samples a port: what a sparkline draws.
//!
//! A ring of single-precision triples: transmit share, receive share, errors per second. At most
//! 120 samples (one a second), fewer at longer intervals: 24 at five seconds, so 100,000 ports
//! take 29 MB then and 144 MB at worst. Allocated with a port's first rate.

use std::time::Duration;

use crate::port::Stamp;

/// How far back a history reaches.
const SPAN: Duration = Duration::from_secs(120);
/// The most samples.
const MAX_SAMPLES: u64 = 120;

/// The closest that two samples of a history come.
const CLOSEST: Duration = Duration::from_secs(1);

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// One sample; NaN where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Transmitted share of the link's effective rate.
    pub tx: f32,
    /// Received share.
    pub rx: f32,
    /// Errors a second.
    pub errors: f32,
}

impl Sample {
    const NOTHING: Sample = Sample {
        tx: f32::NAN,
        rx: f32::NAN,
        errors: f32::NAN,
    };

    /// The greater of both directions.
    fn greater(self) -> f32 {
        // `max` passes over a NaN on one side only.
        self.tx.max(self.rx)
    }
}

/// A port's history.
#[derive(Clone, Debug)]
pub struct History {
    interval_ns: u64,
    spacing_ns: u64,
    last: Stamp,
    /// Index of the oldest sample once the ring is full.
    head: u32,
    len: u32,
    ring: Box<[Sample]>,
}

impl History {
    /// An empty history for counters that are read every `interval`.
    pub fn new(interval: Duration) -> History {
        let spacing_ns = nanos(interval.max(CLOSEST));
        let samples = (SPAN.as_nanos() as u64 / spacing_ns).clamp(2, MAX_SAMPLES);
        History {
            interval_ns: nanos(interval),
            spacing_ns,
            last: Stamp::ZERO,
            head: 0,
            len: 0,
            ring: vec![Sample::NOTHING; samples as usize].into(),
        }
    }

    /// True if it was made for this interval.
    pub fn fits(&self, interval: Duration) -> bool {
        self.interval_ns == nanos(interval)
    }

    /// What two samples must be apart: jitter is let through, a faster beat is thinned.
    fn least_gap(&self) -> u64 {
        (self.spacing_ns / 2).max(self.spacing_ns.saturating_sub(self.interval_ns))
    }

    /// Adds a sample. Samples that come faster than the spacing are passed over; for those that
    /// are missing since the last one, gaps are put in.
    pub fn push(&mut self, at: Stamp, sample: Sample) {
        if self.len > 0 {
            if at.0.saturating_sub(self.last.0) < self.least_gap() {
                return;
            }
            let steps = self.steps(at);
            for _ in 1..steps.min(self.ring.len() as u64) {
                self.put(Sample::NOTHING);
            }
        }
        self.put(sample);
        self.last = at;
    }

    /// Spacings since the last sample, rounded.
    fn steps(&self, at: Stamp) -> u64 {
        (at.0.saturating_sub(self.last.0) + self.spacing_ns / 2) / self.spacing_ns
    }

    fn put(&mut self, sample: Sample) {
        let cap = self.ring.len() as u32;
        let at = (self.head + self.len) % cap;
        if let Some(slot) = self.ring.get_mut(at as usize) {
            *slot = sample;
        }
        if self.len < cap {
            self.len += 1;
        } else {
            self.head = (self.head + 1) % cap;
        }
    }

    /// The samples, oldest first.
    pub fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
        let (old, new) = self
            .ring
            .split_at((self.head as usize).min(self.ring.len()));
        new.iter().chain(old).copied().take(self.len as usize)
    }

    /// The greater of both directions, oldest first; gaps up to `now` included.
    pub fn utilisation(&self, now: Stamp) -> Vec<f32> {
        let gaps = self
            .steps(now)
            .saturating_sub(1)
            .min(self.ring.len() as u64) as usize;
        let mut all: Vec<f32> = self.samples().map(Sample::greater).collect();
        all.resize(all.len() + gaps, f32::NAN);
        let over = all.len().saturating_sub(self.ring.len());
        all.drain(..over);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tx: f32) -> Sample {
        Sample {
            tx,
            rx: 0.0,
            errors: 0.0,
        }
    }

    #[test]
    fn two_minutes_at_five_seconds_are_24_samples() {
        let mut h = History::new(Duration::from_secs(5));
        for i in 0..30 {
            h.push(Stamp::from_secs(5 * i), sample(i as f32));
        }
        let got = h.utilisation(Stamp::from_secs(145));
        assert_eq!(got.len(), 24);
        assert_eq!((got[0], got[23]), (6.0, 29.0));
    }

    #[test]
    fn missing_samples_are_gaps_and_jitter_is_none() {
        let mut h = History::new(Duration::from_secs(5));
        h.push(Stamp::from_millis(0), sample(1.0));
        h.push(Stamp::from_millis(5_900), sample(2.0));
        h.push(Stamp::from_millis(9_800), sample(3.0));
        h.push(Stamp::from_millis(20_000), sample(4.0)); // one missing at 15 s
        let got = h.utilisation(Stamp::from_secs(26));
        assert_eq!(got[..3], [1.0, 2.0, 3.0]);
        assert!(got[3].is_nan());
        assert_eq!(got[4], 4.0);
        assert_eq!(got.len(), 5);
        // Three intervals without a sample: two gaps, the third may still come.
        let late = h.utilisation(Stamp::from_secs(35));
        assert_eq!(late.len(), 7);
        assert!(late[5].is_nan() && late[6].is_nan());
    }

    #[test]
    fn ten_samples_a_second_are_thinned_to_one() {
        let mut h = History::new(Duration::from_millis(100));
        for i in 0..100 {
            h.push(Stamp::from_millis(100 * i), sample(1.0));
        }
        // 0, 0.9, 1.8 .. 9.9 s: the first that comes 0.9 s (a second less one beat) later.
        assert_eq!(h.samples().count(), 12);
    }

    #[test]
    fn a_long_silence_fills_the_ring_once() {
        let mut h = History::new(Duration::from_secs(1));
        h.push(Stamp::ZERO, sample(1.0));
        h.push(Stamp::from_secs(1_000_000), sample(2.0));
        let got = h.utilisation(Stamp(u64::MAX));
        assert_eq!(got.len(), 120);
        assert!(got.iter().all(|v| v.is_nan()));
    }
}
