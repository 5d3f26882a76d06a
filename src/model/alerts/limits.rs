//! Thresholds as the fold uses them, and increments within a time.
//!
//! A window keeps its increments in twelve buckets, so it covers between eleven twelfths and
//! all of its time, and never more. Only ports whose counters rise have windows, and a window
//! that holds nothing is dropped: a clean fabric costs nothing.

use super::super::counters::{COUNTERS, Counter};
use super::super::fixed::FixedMap;
use super::{Alerts, Due};
use crate::event::Severity;
use crate::fabric::PortKey;
use crate::fabric::thresholds::{Over, RATE_UNIT, RATES, Thresholds};
use crate::port::Stamp;

const BUCKETS: usize = 12;

/// What can have a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// A counter of PortCounters or PortCountersExtended.
    Of(Counter),
    /// Blocks that forward error correction could not repair.
    FecUncorrectable,
    /// The bit error rate before correction.
    RawBer,
    /// The bit error rate after correction.
    EffectiveBer,
    /// Blocks that forward error correction repaired.
    FecCorrectable,
    /// Symbols in them that were wrong.
    FecSymbols,
}

impl Watched {
    const COUNT: usize = COUNTERS + Watched::OTHERS.len();
    /// All that is no counter of PortCounters, in the order of their numbers.
    pub const OTHERS: [Watched; 5] = [
        Watched::FecUncorrectable,
        Watched::RawBer,
        Watched::EffectiveBer,
        Watched::FecCorrectable,
        Watched::FecSymbols,
    ];

    /// The classic name.
    pub const fn name(self) -> &'static str {
        match self {
            Watched::Of(c) => c.name(),
            Watched::FecUncorrectable => "PortFECUncorrectableBlockCtr",
            Watched::RawBer => RATES[0],
            Watched::EffectiveBer => RATES[1],
            Watched::FecCorrectable => "PortFECCorrectableBlockCtr",
            Watched::FecSymbols => "PortFECCorrectedSymbolCtr",
        }
    }

    /// What has this name.
    pub fn from_name(name: &str) -> Option<Watched> {
        let other = Watched::OTHERS.into_iter().find(|w| w.name() == name);
        other.or_else(|| Counter::from_name(name).map(Watched::Of))
    }

    const fn index(self) -> u8 {
        match self {
            Watched::Of(c) => c as u8,
            Watched::FecUncorrectable => COUNTERS as u8,
            Watched::RawBer => COUNTERS as u8 + 1,
            Watched::EffectiveBer => COUNTERS as u8 + 2,
            Watched::FecCorrectable => COUNTERS as u8 + 3,
            Watched::FecSymbols => COUNTERS as u8 + 4,
        }
    }

    fn from_index(index: u8) -> Option<Watched> {
        let index = usize::from(index);
        match index.checked_sub(COUNTERS) {
            Some(other) => Watched::OTHERS.get(other).copied(),
            None => Counter::ALL.get(index).copied().map(Watched::Of),
        }
    }

    /// It is a bit error rate, not a counter.
    pub const fn is_rate(self) -> bool {
        matches!(self, Watched::RawBer | Watched::EffectiveBer)
    }

    /// The set of this one alone.
    pub const fn bit(self) -> u32 {
        1 << self.index()
    }
}

/// A rule, compiled.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// What is above it exceeds it: increments, or milliseconds of waiting. Of a rate as it was
    /// written: how many errors that are goes by the link.
    pub limit: u64,
    pub over: Over,
    pub severity: Severity,
    /// As it was written.
    pub shown: u64,
}

/// Which window: of which port, counter, and rule of that counter.
pub type WindowKey = (PortKey, u8, u8);

/// Increments within a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Number of the newest bucket.
    pub head: u64,
    pub sums: [u32; BUCKETS],
    /// Of a bit error rate: how long was counted, ms.
    pub spans: [u32; BUCKETS],
    /// Of a bit error rate: its counter reached its maximum, and counted no further.
    pub pegged: bool,
    /// When it was last added to.
    pub last: Stamp,
    /// Its limit was exceeded, and was not undercut by half since.
    pub held: bool,
    /// When it is looked at next.
    due: Stamp,
}

const fn step(length: u64) -> u64 {
    let step = length / BUCKETS as u64;
    if step == 0 { 1 } else { step }
}

impl Window {
    /// A window as a keyframe tells it.
    pub fn told(head: u64, sums: [u32; BUCKETS], last: Stamp, held: bool) -> Window {
        Window {
            head,
            sums,
            last,
            held,
            ..Window::default()
        }
    }

    fn advance(&mut self, at: Stamp, length: u64) {
        let now = at.0 / step(length);
        if now <= self.head {
            return;
        }
        if now - self.head >= BUCKETS as u64 {
            self.sums = [0; BUCKETS];
            self.spans = [0; BUCKETS];
        } else {
            for bucket in self.head + 1..=now {
                let at = (bucket % BUCKETS as u64) as usize;
                for all in [&mut self.sums, &mut self.spans] {
                    if let Some(one) = all.get_mut(at) {
                        *one = 0;
                    }
                }
            }
        }
        self.head = now;
    }

    fn add(&mut self, at: Stamp, n: u64) {
        if let Some(sum) = self.sums.get_mut((self.head % BUCKETS as u64) as usize) {
            *sum = sum.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        }
        self.last = self.last.max(at);
    }

    /// When no more than this is left in it, if nothing is added.
    fn falls_to(&self, few: u64, length: u64) -> Stamp {
        const ALL: u64 = BUCKETS as u64;
        let mut left = self.sum();
        let mut oldest = (self.head + 1).saturating_sub(ALL);
        while left > few && oldest < self.head {
            let sum = self.sums.get((oldest % ALL) as usize).copied();
            left -= u64::from(sum.unwrap_or(0));
            if left > few {
                oldest += 1;
            }
        }
        Stamp((oldest + ALL).saturating_mul(step(length)))
    }

    fn sum(&self) -> u64 {
        self.sums.iter().map(|n| u64::from(*n)).sum()
    }

    /// Counted for so long, as far as a rate's sample tells.
    fn count_time(&mut self, sample: &Sample) {
        self.pegged = sample.pegged;
        if let Some(span) = self.spans.get_mut((self.head % BUCKETS as u64) as usize) {
            let ms = u32::try_from(sample.span_ns / 1_000_000).unwrap_or(u32::MAX);
            *span = span.saturating_add(ms);
        }
    }

    /// The time that a rate is taken over, of a window of `length` ns: all of it, or what was
    /// counted before the counter reached its maximum.
    fn time(&self, length: u64) -> u64 {
        let counted: u64 = self.spans.iter().map(|ms| u64::from(*ms) * 1_000_000).sum();
        match self.pegged {
            true if counted > 0 => counted.min(length),
            _ => length,
        }
    }
}

/// A counter's sample, as far as limits need it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// New since the last look.
    pub gain: u64,
    /// The same as milliseconds of waiting, where it is that.
    pub waited_ms: u64,
    /// The sample's share of waiting, in per cent.
    pub share: f64,
    /// The time since the sample before, ns; 0 if that is not known.
    pub span_ns: u64,
    /// The counter is at its maximum.
    pub pegged: bool,
}

/// What exceeds which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    pub severity: Severity,
    pub value: u64,
    pub limit: u64,
    pub over: Over,
}

/// All limits, and what is measured against them.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    rules: Vec<Vec<Limit>>,
    /// Counters that have a limit.
    pub watched: u32,
    /// Whole values are compared, not what the session counted.
    pub whole_values: bool,
    /// Not the default ones: they were compiled.
    compiled: bool,
    pub windows: FixedMap<WindowKey, Window>,
}

fn length(over: Over) -> Option<u64> {
    match over {
        Over::Value => None,
        Over::Window(ns) | Over::Share(ns) | Over::Rate(ns) | Over::Trust(ns) => Some(ns),
    }
}

impl Limits {
    /// Takes thresholds over.
    pub fn compile(&mut self, thresholds: &Thresholds) {
        self.rules = vec![Vec::new(); Watched::COUNT];
        self.watched = 0;
        self.whole_values = thresholds.whole_values;
        self.compiled = true;
        self.windows.clear();
        for rule in &thresholds.rules {
            let Some(counter) = Watched::from_name(&rule.counter) else {
                continue;
            };
            let limit = match rule.over {
                // Per cent of a time, in milliseconds.
                Over::Share(ns) => (ns / 1_000_000).saturating_mul(rule.limit) / 100,
                _ => rule.limit,
            };
            if let Some(rules) = self.rules.get_mut(usize::from(counter.index()))
                && rules.len() < usize::from(u8::MAX)
            {
                rules.push(Limit {
                    limit,
                    over: rule.over,
                    severity: rule.severity,
                    shown: rule.limit,
                });
                self.watched |= counter.bit();
            }
        }
    }

    /// Compiles the default thresholds, if no others were.
    pub fn ensure(&mut self) {
        if !self.compiled {
            self.compile(&Thresholds::default());
        }
    }

    /// Forgets what was measured.
    pub fn forget(&mut self) {
        self.windows.clear();
    }

    fn rule(&self, counter: u8, index: u8) -> Option<Limit> {
        self.rules
            .get(usize::from(counter))?
            .get(usize::from(index))
            .copied()
    }

    /// Where a window of a keyframe belongs; nothing if no limit here has one.
    pub fn place(&self, port: PortKey, counter: &str, rule: u8) -> Option<WindowKey> {
        let index = Watched::from_name(counter)?.index();
        length(self.rule(index, rule)?.over)?;
        Some((port, index, rule))
    }

    /// What a window counts.
    pub fn counter_of(key: &WindowKey) -> Option<&'static str> {
        Watched::from_index(key.1).map(Watched::name)
    }
}

impl Alerts {
    /// Takes a counter's sample (or none: time has passed), and says what it exceeds: the
    /// gravest, and of those the first. `value`: what it counted; of a bit error rate what the
    /// link carries, bit/s. `trusted`: the bit error rate that its FEC is trusted with.
    pub fn weigh(
        &mut self,
        at: Stamp,
        port: PortKey,
        counter: Watched,
        sample: Option<Sample>,
        value: u64,
        trusted: Option<f64>,
    ) -> Option<Excess> {
        let c = counter.index();
        let mut worst: Option<Excess> = None;
        let count = self.limits.rules.get(usize::from(c)).map_or(0, Vec::len);
        for index in 0..u8::try_from(count).unwrap_or(u8::MAX) {
            let Some(rule) = self.limits.rule(c, index) else {
                continue;
            };
            // Of a rate: errors by bits that are at the limit.
            let per_bit = match (rule.over, trusted) {
                (Over::Rate(_), _) => rule.limit as f64 / RATE_UNIT,
                (Over::Trust(_), Some(trusted)) => rule.limit as f64 / 100.0 * trusted,
                (Over::Trust(_), None) => continue,
                _ => 0.0,
            };
            let (over, shown) = match rule.over {
                Over::Trust(ns) => (Over::Rate(ns), (per_bit * RATE_UNIT).round() as u64),
                over => (over, rule.shown),
            };
            let (measured, held) = match (over, length(over)) {
                (Over::Value, _) | (_, None) => (value, value > rule.limit),
                (over, Some(length)) => {
                    let key = (port, c, index);
                    let share = matches!(over, Over::Share(_));
                    let rate = matches!(over, Over::Rate(_));
                    // Bits that the link carries within this time.
                    let bits = |ns: u64| value as f64 * (ns as f64 / 1e9);
                    let gain = sample.map_or(0, |s| if share { s.waited_ms } else { s.gain });
                    // What stays below the limit needs no window: it cannot exceed it. Links
                    // have errors that are corrected all the time.
                    let begins = gain > 0
                        && sample.is_some_and(|s| match over {
                            Over::Share(_) => s.share > rule.shown as f64,
                            Over::Rate(_) => s.gain as f64 > per_bit * bits(s.span_ns),
                            _ => true,
                        });
                    let known = self.limits.windows.get_mut(&key);
                    let window = match known {
                        Some(window) => window,
                        None if begins => self.limits.windows.entry(key).or_default(),
                        None => continue,
                    };
                    window.advance(at, length);
                    if gain > 0 {
                        window.add(at, gain);
                    }
                    if let (true, Some(sample)) = (rate, &sample) {
                        window.count_time(sample);
                    }
                    let sum = window.sum();
                    // So many errors within the whole time are at the limit. One that was seen
                    // for a part of it has at least the rate that this makes; a counter that
                    // reached its maximum had the rate that it shows until then.
                    let limit = match (rate, value) {
                        (false, _) => rule.limit,
                        // A link that is down carries nothing.
                        (true, 0) => u64::MAX,
                        (true, _) => (per_bit * bits(window.time(length))) as u64,
                    };
                    window.held = sum > limit || window.held && sum > limit / 2;
                    let shown = if share {
                        let whole = (length / 1_000_000).max(1);
                        (sum.saturating_mul(100) / whole).min(100)
                    } else if rate {
                        (sum as f64 / bits(window.time(length)).max(1.0) * RATE_UNIT) as u64
                    } else {
                        sum
                    };
                    (shown, window.held)
                }
            };
            if held && worst.is_none_or(|w| rule.severity > w.severity) {
                worst = Some(Excess {
                    severity: rule.severity,
                    value: measured,
                    limit: shown,
                    over,
                });
            }
        }
        for index in 0..u8::try_from(count).unwrap_or(u8::MAX) {
            self.look_again(at, (port, c, index), worst.is_some());
        }
        worst
    }

    /// Plans when a window is looked at next: once it may undercut its limit by half while an
    /// alert depends on it, else when nothing is left in it. A rate's limit moves with the time
    /// that it was seen for: such a window is looked at with the next bucket.
    fn look_again(&mut self, at: Stamp, key: WindowKey, alerts: bool) {
        let Some(rule) = self.limits.rule(key.1, key.2) else {
            return;
        };
        let (Some(length), Some(window)) = (length(rule.over), self.limits.windows.get_mut(&key))
        else {
            return;
        };
        let wanted = match rule.over {
            Over::Rate(_) | Over::Trust(_) if alerts => {
                Stamp((at.0 / step(length) + 1).saturating_mul(step(length)))
            }
            _ if alerts && window.held => window.falls_to(rule.limit / 2, length),
            _ => Stamp(window.last.0.saturating_add(length)),
        };
        let planned = window.due != Stamp::ZERO && window.due > at;
        if planned && window.due <= wanted {
            return;
        }
        let old = std::mem::replace(&mut window.due, wanted);
        if planned {
            self.due.remove(&(old, Due::Window(key)));
        }
        self.due.insert((wanted, Due::Window(key)));
    }

    /// A window's time has come; drops it if it is empty. Says which counter is to be judged.
    pub fn window_is_due(&mut self, at: Stamp, key: WindowKey) -> Option<(PortKey, Watched)> {
        let (port, c, index) = key;
        let counter = Watched::from_index(c)?;
        let length = self.limits.rule(c, index).and_then(|r| length(r.over))?;
        let window = self.limits.windows.get_mut(&key)?;
        window.due = Stamp::ZERO;
        window.advance(at, length);
        if window.sum() == 0 {
            self.limits.windows.remove(&key);
            let known = self.is_open(&(Some(port), super::Kind::Counter(counter)));
            return known.then_some((port, counter));
        }
        self.look_again(at, key, false);
        Some((port, counter))
    }

    /// Puts a window back as a keyframe told it.
    pub fn restore(&mut self, at: Stamp, key: WindowKey, window: Window) {
        self.limits.windows.insert(
            key,
            Window {
                due: Stamp::ZERO,
                ..window
            },
        );
        self.look_again(at, key, window.held);
    }

    /// Forgets the windows of a node.
    pub fn forget_windows(&mut self, node: crate::fabric::NodeId) {
        self.limits
            .windows
            .retain(|(port, ..), _| port.node != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::NodeId;

    fn secs(s: u64) -> Stamp {
        Stamp::from_secs(s)
    }

    fn alerts(rule: &str) -> Alerts {
        let is_counter = |n: &str| Watched::from_name(n).is_some();
        let (t, problems) = Thresholds::parse(
            rule.as_bytes(),
            crate::fabric::thresholds::Origin::Named,
            is_counter,
        );
        assert_eq!(problems, []);
        let mut alerts = Alerts::default();
        alerts.use_thresholds(&t);
        alerts
    }

    fn gain(n: u64) -> Option<Sample> {
        Some(Sample {
            gain: n,
            ..Sample::default()
        })
    }

    const SYMBOL: Watched = Watched::Of(Counter::SymbolError);

    #[test]
    fn a_window_counts_what_is_within_its_time_and_no_more() {
        let mut a = alerts("SymbolErrorCounter=10/h");
        let port = NodeId::new(1).port(1);
        // Ten within an hour are not above ten; the eleventh is.
        assert_eq!(a.weigh(secs(100), port, SYMBOL, gain(10), 0, None), None);
        let e = a
            .weigh(secs(1_000), port, SYMBOL, gain(1), 0, None)
            .unwrap();
        assert_eq!((e.value, e.limit), (11, 10));
        // Of those ten nothing is left an hour later, and one is not above half of ten.
        assert_eq!(a.weigh(secs(3_900), port, SYMBOL, None, 0, None), None);
        // Ten a day never exceed ten an hour.
        for hour in 2..50 {
            let at = secs(hour * 7_200);
            assert_eq!(a.weigh(at, port, SYMBOL, gain(8), 0, None), None);
        }
    }

    #[test]
    fn it_holds_until_half_of_the_limit_is_undercut() {
        let mut a = alerts("SymbolErrorCounter=10/h");
        let port = NodeId::new(1).port(1);
        a.weigh(secs(0), port, SYMBOL, gain(5), 0, None);
        assert!(
            a.weigh(secs(1_800), port, SYMBOL, gain(6), 0, None)
                .is_some()
        );
        // The first five are gone: six are left, above half of ten.
        assert!(a.weigh(secs(3_700), port, SYMBOL, None, 0, None).is_some());
        assert!(a.weigh(secs(5_500), port, SYMBOL, None, 0, None).is_none());
    }

    #[test]
    fn a_window_is_looked_at_when_it_may_be_over_and_not_before() {
        let mut a = alerts("SymbolErrorCounter=10/h");
        let port = NodeId::new(1).port(1);
        let looks = |a: &mut Alerts, until: u64| {
            let mut all = Vec::new();
            while let Some(&(when, _)) = a.due.first().filter(|(when, _)| when.0 <= secs(until).0) {
                let Some(Due::Window(key)) = a.next_due(when) else {
                    continue;
                };
                if a.window_is_due(when, key).is_some() {
                    a.weigh(when, port, SYMBOL, None, 0, None);
                }
                all.push(when.0 / 1_000_000_000);
            }
            all
        };
        // Buckets of 300 s: 4 errors in the one from 0 s on, 6 from 300 s on, 3 from 900 s on.
        a.weigh(secs(10), port, SYMBOL, gain(4), 0, None);
        a.weigh(secs(310), port, SYMBOL, gain(6), 0, None);
        a.weigh(secs(910), port, SYMBOL, gain(3), 0, None);
        // At 3,600 s 9 are left and at 3,900 s 3, which is half of ten or less; nothing is left
        // an hour after the last one.
        assert_eq!(looks(&mut a, 10_000), [3_610, 3_900, 4_510]);
        assert_eq!((a.limits.windows.len(), a.due.len()), (0, 0));
    }

    #[test]
    fn nothing_is_kept_of_a_port_that_is_quiet_again() {
        let mut a = alerts("SymbolErrorCounter=10/h");
        for number in 1..=200 {
            a.weigh(
                secs(5),
                NodeId::new(1).port(number),
                SYMBOL,
                gain(1),
                0,
                None,
            );
        }
        assert_eq!((a.limits.windows.len(), a.due.len()), (200, 200));
        let at = secs(2 * 3_600);
        while let Some(Due::Window(key)) = a.next_due(at) {
            assert_eq!(a.window_is_due(at, key), None);
        }
        assert_eq!((a.limits.windows.len(), a.due.len()), (0, 0));
    }

    #[test]
    fn the_gravest_limit_counts() {
        let mut a = alerts("SymbolErrorCounter=10/h:info\nSymbolErrorCounter=100/h:critical");
        let port = NodeId::new(1).port(1);
        let e = a.weigh(secs(1), port, SYMBOL, gain(50), 0, None).unwrap();
        assert_eq!((e.severity, e.limit), (Severity::Info, 10));
        let e = a.weigh(secs(2), port, SYMBOL, gain(51), 0, None).unwrap();
        assert_eq!(
            (e.severity, e.value, e.limit),
            (Severity::Critical, 101, 100)
        );
    }
}
