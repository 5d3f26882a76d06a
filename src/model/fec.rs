//! What forward error correction repaired at a port, and what it could not.
//!
//! The three counters of a port are read as they are; what counts as an error before and after
//! correction depends on the mode of the FEC, see [`super::ber`]. They saturate at 32 bits, and
//! others reset them: the rules are those of [`super::counters`].
//!
//! 32 bits are few: a 4x NDR link that has one raw error in 1e7 bits fills its
//! PortFECCorrectedSymbolCtr within 28 hours of a reset. From then on its raw rate is not known,
//! which is an alert of its own (`pegged`).

use std::time::Duration;

use super::Num;
use super::alerts::Watched;
use super::ber::Ber;
use super::view::{CounterView, FecView};
use crate::event::ledger::FecLedger;
use crate::mad::{FecMode, PortExtendedSpeeds, PortExtendedSpeedsRsFec};
use crate::port::Stamp;

const MOST: u64 = u32::MAX as u64;

/// The counters that are kept.
const NAMES: [&str; 3] = [
    "PortFECCorrectableBlockCtr",
    "PortFECUncorrectableBlockCtr",
    "PortFECCorrectedSymbolCtr",
];
const BLOCKS: usize = 0;
const LOST: usize = 1;
const SYMBOLS: usize = 2;
const RAW: usize = 3;
const EFFECTIVE: usize = 4;
const COUNTS: usize = 5;

/// Which of the counts that is.
const fn index_of(watched: Watched) -> Option<usize> {
    match watched {
        Watched::FecCorrectable => Some(BLOCKS),
        Watched::FecUncorrectable => Some(LOST),
        Watched::FecSymbols => Some(SYMBOLS),
        Watched::RawBer => Some(RAW),
        Watched::EffectiveBer => Some(EFFECTIVE),
        Watched::Of(_) => None,
    }
}

/// What a count came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// The value read.
    pub value: u64,
    /// Increments since the first reading.
    pub since: u64,
    /// The last increment …
    pub gain: u64,
    /// … and the time that it took, in ns (0: not known).
    pub span_ns: u64,
    /// It stands at its maximum.
    pub pegged: bool,
}

/// One counter.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    value: u64,
    delta: u64,
    since: u64,
    pegged: bool,
    reset: bool,
    /// `since` is a lower bound.
    bound: bool,
    /// Readings that made it one.
    losses: u32,
}

/// What had been counted at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct CountMark {
    since: u64,
    losses: u32,
}

/// What a port's FEC had counted at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct FecMark {
    counts: [CountMark; COUNTS],
    bits: f64,
    observed_ns: u64,
}

impl Count {
    /// A reading; the first one is the baseline.
    fn take(&mut self, new: u64, most: u64, first: bool) {
        let old = std::mem::replace(&mut self.value, new);
        self.pegged = new >= most;
        self.bound |= self.pegged;
        self.losses += u32::from(self.pegged);
        self.delta = 0;
        self.reset = false;
        if first {
            return;
        }
        if new < old {
            self.reset = true;
            self.bound = true;
            self.losses += 1;
            self.since = self.since.saturating_add(new);
        } else {
            self.delta = new - old;
            self.since = self.since.saturating_add(self.delta);
        }
    }

    fn change(&self) -> Num<u64> {
        match (self.reset, self.pegged) {
            (true, _) => Num::Reset,
            (false, true) => Num::AtLeast(self.delta),
            (false, false) => Num::Is(self.delta),
        }
    }

    /// Increments since a mark, or since the first reading.
    fn total(&self, mark: Option<CountMark>) -> Num<u64> {
        let bound = match mark {
            Some(mark) if mark.losses == self.losses => self.pegged,
            _ => self.bound,
        };
        let since = self.since.saturating_sub(mark.map_or(0, |m| m.since));
        match bound {
            true => Num::AtLeast(since),
            false => Num::Is(since),
        }
    }
}

/// What is known of a port's FEC.
#[derive(Clone, Debug, Default)]
pub(super) struct Fec {
    counts: [Count; COUNTS],
    last: Option<Stamp>,
    span_ns: u64,
    /// Bits that the link carried between the last two samples, and in all samples.
    bits: f64,
    all_bits: f64,
    observed_ns: u64,
    /// Counted by these rules; others begin anew.
    rules: Option<FecMode>,
    /// Counts that reached their maximum or left it with the last reading, by
    /// [`Watched::bit`].
    turned: u32,
}

/// Which rules count: the mode, and where it was not told, what the speed demands.
fn rules(mode: Option<FecMode>, must_be_rs: bool) -> Option<FecMode> {
    match mode {
        Some(FecMode::Rs | FecMode::LlRs | FecMode::Rs2) => Some(FecMode::Rs),
        Some(FecMode::FireCode) => Some(FecMode::FireCode),
        Some(FecMode::None) => Some(FecMode::None),
        _ => must_be_rs.then_some(FecMode::Rs),
    }
}

fn sum<T: Into<u64> + Copy>(lanes: &[T]) -> u64 {
    lanes.iter().map(|n| (*n).into()).sum()
}

/// What one reading says: the value of each count, and where it pegs.
fn read(c: &PortExtendedSpeeds, rules: Option<FecMode>) -> [(u64, u64); COUNTS] {
    let (blocks, lost) = (c.correctable_blocks(), c.uncorrectable_blocks());
    let symbols = u64::from(c.corrected_symbols());
    // A pegged lane pegs the sum: it is at least what it shows.
    let pegs = |lanes: &[u32]| match lanes.contains(&u32::MAX) {
        true => 0,
        false => u64::MAX,
    };
    let (raw, effective) = match rules {
        Some(FecMode::Rs) => {
            use crate::mad::Attribute;
            let rs = PortExtendedSpeedsRsFec::from_bytes(c.bytes()).unwrap_or_default();
            let lanes = rs.fec_correctable_symbols();
            let raw = match symbols {
                0 => (sum(&lanes), pegs(&lanes)),
                n => (n, MOST),
            };
            (raw, (u64::from(lost), MOST))
        }
        Some(FecMode::FireCode) => {
            let (ok, bad) = (c.fec_correctable(), c.fec_uncorrectable());
            let raw = (sum(&ok) + sum(&bad), pegs(&ok).min(pegs(&bad)));
            (raw, (sum(&bad), pegs(&bad)))
        }
        _ => {
            let lanes = c.error_detection();
            let most = match lanes.contains(&u16::MAX) {
                true => 0,
                false => u64::MAX,
            };
            ((sum(&lanes), most), (sum(&lanes), most))
        }
    };
    [
        (blocks.into(), MOST),
        (lost.into(), MOST),
        (symbols, MOST),
        raw,
        effective,
    ]
}

impl Fec {
    /// Takes a reading of a port whose link signals at `bps` in all.
    pub(super) fn take(
        &mut self,
        c: &PortExtendedSpeeds,
        mode: Option<FecMode>,
        must_be_rs: bool,
        bps: f64,
        at: Stamp,
    ) {
        if self.last.is_some_and(|last| at <= last) {
            return;
        }
        let rules = rules(mode, must_be_rs);
        let before = self.pegged();
        if self.rules != rules {
            *self = Fec {
                rules,
                ..Fec::default()
            };
        }
        let first = self.last.is_none();
        for (count, (value, most)) in self.counts.iter_mut().zip(read(c, rules)) {
            count.take(value, most, first);
        }
        self.turned = before ^ self.pegged();
        self.span_ns = self.last.map_or(0, |last| at.0 - last.0);
        self.last = Some(at);
        self.bits = bps * self.span_ns as f64 / 1e9;
        self.all_bits += self.bits;
        self.observed_ns += self.span_ns;
    }

    /// What one of the counts came to; nothing if it is none of these.
    pub(super) fn counted(&self, watched: Watched) -> Option<Counted> {
        let count = self.counts.get(index_of(watched)?)?;
        Some(Counted {
            value: count.value,
            since: count.since,
            gain: count.delta,
            span_ns: self.span_ns,
            pegged: count.pegged,
        })
    }

    /// Counts that stand at their maximum, by [`Watched::bit`]. A bit error rate is one of them
    /// only if no counter with a name of its own says so already.
    fn pegged(&self) -> u32 {
        let set = |at: usize, watched: Watched| match self.counts.get(at) {
            Some(count) if count.pegged => watched.bit(),
            _ => 0,
        };
        let mut all = set(BLOCKS, Watched::FecCorrectable);
        for (own, own_name, rate, rate_name) in [
            (SYMBOLS, Watched::FecSymbols, RAW, Watched::RawBer),
            (
                LOST,
                Watched::FecUncorrectable,
                EFFECTIVE,
                Watched::EffectiveBer,
            ),
        ] {
            all |= match set(own, own_name) {
                0 if self.rules.is_some() => set(rate, rate_name),
                named => named,
            };
        }
        all
    }

    /// Counts that reached their maximum or left it with the last reading, those that stand at
    /// it, and those that rose, by [`Watched::bit`].
    pub(super) fn turned(&self) -> (u32, u32, u32) {
        let mut rose = 0;
        for watched in Watched::OTHERS {
            let gain = self.counted(watched).map_or(0, |c| c.gain);
            rose |= if gain > 0 { watched.bit() } else { 0 };
        }
        (self.turned, self.pegged(), rose)
    }

    /// What was counted so far, to count from here on.
    pub(super) fn mark(&self) -> FecMark {
        FecMark {
            counts: self.counts.map(|c| CountMark {
                since: c.since,
                losses: c.losses,
            }),
            bits: self.all_bits,
            observed_ns: self.observed_ns,
        }
    }

    /// What a keyframe tells of it; nothing if it was never read.
    pub(super) fn told(&self) -> Option<FecLedger> {
        self.last?;
        let rules = self.rules.map_or(0, |mode| mode.code() as u8 + 1);
        let mut bound = 0;
        for (bit, _) in (0..).zip(&self.counts).filter(|(_, c)| c.bound) {
            bound |= 1u8 << bit;
        }
        Some(FecLedger {
            since: self.counts.map(|c| c.since),
            bound,
            kbits: (self.all_bits / 1e3).round() as u64,
            observed_ns: self.observed_ns,
            rules,
        })
    }

    /// Takes over what a keyframe tells, after the last reading was taken.
    pub(super) fn restore(&mut self, told: &FecLedger) {
        for (bit, (count, since)) in self.counts.iter_mut().zip(told.since).enumerate() {
            count.since = since;
            count.bound |= told.bound & 1 << bit != 0;
        }
        self.all_bits = told.kbits as f64 * 1e3;
        self.observed_ns = told.observed_ns;
        // Who joins knows the mode already, while these counted by what was known of it then: the
        // next reading begins anew.
        self.rules = told
            .rules
            .checked_sub(1)
            .map(|code| FecMode::new(code.into()));
    }

    /// What there is to show, since the mark or since the first reading; numbers older than
    /// `limit` are stale.
    pub(super) fn view(
        &self,
        mode: Option<FecMode>,
        mark: Option<&FecMark>,
        now: Stamp,
        limit: Duration,
    ) -> FecView {
        let counted = |at: usize| mark.and_then(|m| m.counts.get(at)).copied();
        let bits = self.all_bits - mark.map_or(0.0, |m| m.bits);
        let observed_ns = mark.map_or(0, |m| m.observed_ns);
        let age = self.last.map(|last| now.since(last));
        let old = age.is_none_or(|age| age > limit);
        let known = |at: usize| self.counts.get(at).filter(|_| self.rules.is_some());
        // A block beyond repair has more than one wrong bit, and counts as one.
        let blocks = matches!(self.rules, Some(FecMode::Rs | FecMode::FireCode));
        let rate = |at: usize, errors: Num<u64>, bits: f64| match Ber::of(errors, bits) {
            Ber::Is(rate) if blocks && at == EFFECTIVE => Ber::AtLeast(rate),
            rate => rate,
        };
        let last =
            |at: usize| known(at).map_or(Ber::Unknown, |count| rate(at, count.change(), self.bits));
        let since = |at: usize| {
            known(at).map_or(Ber::Unknown, |count| {
                rate(at, count.total(counted(at)), bits)
            })
        };
        let counter = |(at, (count, name)): (usize, (&Count, &'static str))| {
            let value = match (self.last, count.pegged) {
                (None, _) => Num::Unknown,
                (_, true) => Num::AtLeast(count.value),
                (_, false) => Num::Is(count.value),
            };
            let per_s = match (self.span_ns, count.change()) {
                (0, _) | (_, Num::AtLeast(_)) => Num::Unknown,
                (span, change) => change.map(|n| n as f64 * 1e9 / span as f64),
            };
            CounterView {
                name,
                value: value.aged(old),
                since: match self.last {
                    None => Num::Unknown,
                    Some(_) => count.total(counted(at)).aged(old),
                },
                rate: per_s.aged(old),
                unit: "",
                error: name == NAMES[LOST],
            }
        };
        FecView {
            mode,
            counters: self
                .counts
                .iter()
                .zip(NAMES)
                .enumerate()
                .map(counter)
                .collect(),
            raw: last(RAW),
            effective: last(EFFECTIVE),
            raw_since: since(RAW),
            effective_since: since(EFFECTIVE),
            span: Duration::from_nanos(self.span_ns),
            observed: Duration::from_nanos(self.observed_ns.saturating_sub(observed_ns)),
            age,
            stale: old,
        }
    }
}
