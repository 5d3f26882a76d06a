//! Latency histogram: a fixed array of buckets on a logarithmic scale.
//!
//! Eight buckets an octave, from 1 µs up: a percentile is at most 12.5 % above the truth, for
//! 800 bytes a destination and no allocation after the first sample. The maximum is exact.

use std::time::Duration;

/// Buckets to an octave, as a power of two.
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
/// Octaves above the linear start: up to 2^28 µs, 268 s.
const OCTAVES: usize = 25;
const BUCKETS: usize = SUB * (OCTAVES + 1);

/// A latency histogram.
#[derive(Clone, Debug)]
pub struct Latency {
    counts: [u32; BUCKETS],
    total: u64,
    max_ns: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            counts: [0; BUCKETS],
            total: 0,
            max_ns: 0,
        }
    }
}

/// The bucket of a time in microseconds: itself up to 7, then eight to each doubling.
fn bucket(micros: u64) -> usize {
    if micros < SUB as u64 {
        return micros as usize;
    }
    let octave = 63 - micros.leading_zeros() - SUB_BITS;
    let within = (micros >> octave) as usize - SUB;
    (SUB * (octave as usize + 1) + within).min(BUCKETS - 1)
}

/// The end of a bucket in microseconds: what it holds is below this.
fn end(bucket: usize) -> u64 {
    let (octave, within) = (bucket / SUB, bucket % SUB);
    match octave.checked_sub(1) {
        None => within as u64 + 1,
        Some(shift) => ((SUB + within + 1) as u64) << shift,
    }
}

impl Latency {
    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(ns / 1000)) {
            *count = count.saturating_add(1);
        }
        self.total += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all samples of another one.
    pub fn merge(&mut self, other: &Latency) {
        for (to, from) in self.counts.iter_mut().zip(&other.counts) {
            *to = to.saturating_add(*from);
        }
        self.total += other.total;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The time that `percent` of the samples did not exceed; `None` without samples.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        if self.total == 0 {
            return None;
        }
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut below = 0u64;
        for (i, count) in self.counts.iter().enumerate() {
            below += u64::from(*count);
            if below >= rank {
                let ns = end(i).saturating_mul(1000).min(self.max_ns);
                return Some(Duration::from_nanos(ns));
            }
        }
        self.max()
    }

    /// The longest time; `None` without samples.
    pub fn max(&self) -> Option<Duration> {
        (self.total > 0).then(|| Duration::from_nanos(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_end_of_their_bucket_and_the_maximum_is_exact() {
        let mut l = Latency::default();
        assert_eq!(l.percentile(50), None);
        for _ in 0..98 {
            l.record(Duration::from_nanos(5_400)); // bucket [5, 6) µs
        }
        l.record(Duration::from_micros(100)); // [96, 104) µs
        l.record(Duration::from_micros(1_000_000));
        assert_eq!(l.percentile(50), Some(Duration::from_micros(6)));
        assert_eq!(l.percentile(99), Some(Duration::from_micros(104)));
        assert_eq!(l.max(), Some(Duration::from_secs(1)));
        // A bucket's end above the maximum says no more than the maximum.
        assert_eq!(l.percentile(100), Some(Duration::from_secs(1)));
    }

    #[test]
    fn buckets_are_contiguous_and_hold_what_is_below_their_end() {
        let mut last = 0;
        for b in 0..BUCKETS - 1 {
            let end = end(b);
            assert!(end > last);
            assert_eq!(bucket(last), b, "{last}");
            assert_eq!(bucket(end - 1), b, "{end}");
            last = end;
        }
        assert_eq!(bucket(u64::MAX / 1000), BUCKETS - 1);
    }
}
