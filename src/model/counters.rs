//! The counters of one port: values, increments, rates, and what is known of each.
//!
//! Rules (specification 16.1.3.5 and what people ran into):
//! - Counters saturate and never wrap. A pegged counter's value is "at least", its rate unknown.
//! - Others reset counters behind our back. A value below the last one is a reset: that interval
//!   has no rate, and what the counter shows now counts from the reset's zero. What was counted
//!   between the last sample and the reset is lost, so the sum is "at least" from then on.
//! - The first sample is the baseline; a change of the field's width is a new one.
//! - Where a node sums up its ports (PortSelect 255), an unchanged sum says that no port counted
//!   an error: its error counters are as they were, as of then. PortRcvSwitchRelayErrors and
//!   32-bit data counters are not compared, and are as old as their last reading.
//! - A sample's time is the middle between its request's sending and its reply's arrival, so a
//!   reply that takes long does not bend the rate. Rates come from two samples' own times, so a
//!   missing sample in between makes a longer interval, not a gap or a spike.

use std::time::Duration;

use super::Num;
pub use super::counter::{COUNTERS, Counter, Set};
use crate::mad::{ClassCaps, ClassCaps2, PortCounters, PortCountersExtended};
use crate::port::Stamp;

const fn set_of(list: &[Counter]) -> Set {
    let mut set = 0;
    let mut i = 0;
    while i < list.len() {
        set |= list[i].bit();
        i += 1;
    }
    set
}

const DATA: Set = set_of(&[
    Counter::XmitData,
    Counter::RcvData,
    Counter::XmitPkts,
    Counter::RcvPkts,
]);
const CASTS: Set = set_of(&[
    Counter::UnicastXmitPkts,
    Counter::UnicastRcvPkts,
    Counter::MulticastXmitPkts,
    Counter::MulticastRcvPkts,
]);
const ERRORS: Set = {
    let mut set = 0;
    let mut i = 0;
    while i < COUNTERS {
        if Counter::ALL[i].is_error() {
            set |= Counter::ALL[i].bit();
        }
        i += 1;
    }
    set
};
const SUMMED: Set = ERRORS & !Counter::RcvSwitchRelayErrors.bit();
/// What an unchanged sum over all ports says nothing of, as far as it is read as 32 bits.
const UNCOMPARED: Set = DATA | Counter::RcvSwitchRelayErrors.bit();

/// What a node's performance management says it can do. All zero if ClassPortInfo failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// CapabilityMask.
    pub mask: ClassCaps,
    /// CapabilityMask2.
    pub mask2: ClassCaps2,
}

impl Caps {
    /// The fields of PortCounters that are real.
    fn narrow(self) -> Set {
        let mut set = (ERRORS & !Counter::Qp1Dropped.bit()) | DATA;
        if self.mask.has(ClassCaps::XMIT_WAIT) {
            set |= Counter::XmitWait.bit();
        }
        if self.mask.has(ClassCaps::QP1_DROPPED) {
            set |= Counter::Qp1Dropped.bit();
        }
        set
    }

    /// The fields of PortCountersExtended that are real. A node that answers it has at least the
    /// first four, whether or not its ClassPortInfo was read.
    fn wide(self) -> Set {
        let mut set = DATA;
        if self.mask.has(ClassCaps::EXT_WIDTH) {
            set |= CASTS;
        }
        if self.mask2.has(ClassCaps2::ADDITIONAL_EXT) {
            set |= (ERRORS & !Counter::Qp1Dropped.bit()) | Counter::XmitWait.bit();
            if self.mask.has(ClassCaps::QP1_DROPPED) {
                set |= Counter::Qp1Dropped.bit();
            }
        }
        set
    }
}

/// One reading of an attribute.
struct Reading {
    values: [u64; COUNTERS],
    /// Which of them are real.
    real: Set,
    /// The fields are 64 bits wide.
    wide: bool,
}

const fn narrow_max(c: usize) -> u64 {
    match c {
        1 | 2 | 7 | 8 => 0xFF,
        9 | 10 => 0xF,
        0 | 3..=6 | 11 | 12 => 0xFFFF,
        _ => 0xFFFF_FFFF,
    }
}

const NARROW_MAX: [u64; COUNTERS] = {
    let mut max = [0; COUNTERS];
    let mut i = 0;
    while i < COUNTERS {
        max[i] = narrow_max(i);
        i += 1;
    }
    max
};

/// When an attribute was read, and the time before.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    last: Option<Stamp>,
    /// Between the two last samples.
    span_ns: u64,
    /// Sum of `delta` over the counters of the error sum.
    errors: u64,
}

impl Times {
    /// Moves on to a sample at `at`; false if it is not later than the last one.
    fn step(&mut self, at: Stamp) -> bool {
        match self.last {
            Some(last) if at <= last => return false,
            Some(last) => self.span_ns = at.0 - last.0,
            None => self.span_ns = 0,
        }
        self.last = Some(at);
        true
    }
}

/// What a sample told besides its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The sample counts (it was not a late duplicate).
    pub taken: bool,
    /// The data counters came with it.
    pub data: bool,
    /// Somebody reset this counter (the first of those that were): from and to these values.
    pub reset: Option<(Counter, u64, u64)>,
    /// Those that rose.
    pub rose: Set,
    /// Those of the error sum that reached the maximum of their field, and those that left it.
    pub pegged: Set,
    pub unpegged: Set,
    /// Those that were not known before, and those that were reset.
    pub first: Set,
    pub resets: Set,
}

/// What a port had counted at one moment.
#[derive(Clone, Debug)]
pub struct Mark {
    since: [u64; COUNTERS],
    errors: u64,
    losses: u32,
}

/// All counters of a port.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    // What every row asks for stands first, so that it shares few cache lines.
    narrow_times: Times,
    wide_times: Times,
    /// When the counters were read that the sum over all ports says nothing of.
    uncompared_times: Times,
    /// When the last answered question for the 32-bit counters was put.
    narrow_asked: Stamp,
    /// Sum of `since` over the counters of the error sum.
    errors: u64,
    /// Read at least once.
    known: Set,
    /// Read as 64 bits.
    wide: Set,
    /// At the maximum of its field.
    pegged: Set,
    /// `since` is a lower bound.
    bound: Set,
    /// `delta` holds the change between the two last samples.
    fresh: Set,
    /// Reset between the two last samples.
    reset: Set,
    /// Readings that made some `since` a lower bound.
    losses: u32,
    /// What comes after the errors: every sample moves it.
    moved: [Cell; COUNTERS - FIRST_MOVED],
    /// The errors, once one of them is not 0: most ports have none.
    failed: Option<Box<[Cell; FIRST_MOVED]>>,
}

/// The first counter that is no error.
const FIRST_MOVED: usize = Counter::XmitData as usize;
/// All before it.
const FAILED: Set = (1 << FIRST_MOVED) - 1;

/// One counter: as it was read, its increments since the first sample, and those since the last.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    value: u64,
    since: u64,
    delta: u64,
}

/// What a sample changes, gathered counter by counter.
#[derive(Default)]
struct Gathered {
    pegged: Set,
    fresh: Set,
    reset: Set,
    bound: Set,
    rose: Set,
    errors: u64,
    error_delta: u64,
    first_reset: Option<(Counter, u64, u64)>,
}

impl Gathered {
    /// Takes a counter's new value. `running`: it is compared with the one before.
    fn take(&mut self, i: usize, cell: &mut Cell, new: u64, max: u64, running: bool) {
        let bit = 1 << i;
        let old = std::mem::replace(&mut cell.value, new);
        cell.delta = 0;
        if new == max {
            self.pegged |= bit;
            self.bound |= bit;
        }
        if !running {
            return;
        }
        // What is known to be new; no rate follows from it unless it is marked as fresh.
        let delta = if new < old { new } else { new - old };
        cell.delta = delta;
        cell.since = cell.since.saturating_add(delta);
        self.rose |= if delta != 0 { bit } else { 0 };
        let summed = SUMMED & bit != 0;
        if summed {
            self.errors = self.errors.saturating_add(delta);
        }
        if new < old {
            self.reset |= bit;
            self.bound |= bit;
            if self.first_reset.is_none() {
                self.first_reset = Counter::ALL.get(i).map(|c| (*c, old, new));
            }
        } else if new < max {
            self.fresh |= bit;
            if summed {
                self.error_delta = self.error_delta.saturating_add(delta);
            }
        }
    }
}

impl Counters {
    fn cell(&self, c: Counter) -> Cell {
        let i = c as usize;
        let cell = match i.checked_sub(FIRST_MOVED) {
            Some(i) => self.moved.get(i),
            None => self.failed.as_ref().and_then(|f| f.get(i)),
        };
        cell.copied().unwrap_or_default()
    }

    fn cell_mut(&mut self, c: Counter) -> Option<&mut Cell> {
        let i = c as usize;
        match i.checked_sub(FIRST_MOVED) {
            Some(i) => self.moved.get_mut(i),
            None => self.failed.get_or_insert_default().get_mut(i),
        }
    }

    /// Takes a reading of PortCounters, sampled at `at`; the question was put at `asked`.
    pub fn read_narrow(
        &mut self,
        c: &PortCounters,
        caps: Caps,
        at: Stamp,
        asked: Stamp,
    ) -> Outcome {
        let reading = Reading {
            values: [
                u64::from(c.symbol_error()),
                u64::from(c.link_error_recovery()),
                u64::from(c.link_downed()),
                u64::from(c.rcv_errors()),
                u64::from(c.rcv_remote_physical_errors()),
                u64::from(c.rcv_switch_relay_errors()),
                u64::from(c.xmit_discards()),
                u64::from(c.xmit_constraint_errors()),
                u64::from(c.rcv_constraint_errors()),
                u64::from(c.local_link_integrity()),
                u64::from(c.excessive_buffer_overrun()),
                u64::from(c.qp1_dropped()),
                u64::from(c.vl15_dropped()),
                u64::from(c.xmit_data()),
                u64::from(c.rcv_data()),
                u64::from(c.xmit_pkts()),
                u64::from(c.rcv_pkts()),
                u64::from(c.xmit_wait()),
                0,
                0,
                0,
                0,
            ],
            // What comes as 64 bits is not taken from here.
            real: caps.narrow() & !self.wide,
            wide: false,
        };
        if !self.narrow_times.step(at) {
            return Outcome::default();
        }
        self.uncompared_times.step(at);
        self.narrow_asked = asked;
        self.take(&reading)
    }

    /// The node's sum over all ports says at `at` that no error was counted since `since`: the
    /// 32-bit error counters are as they were, if they were asked for after that. False if they
    /// were not.
    pub fn confirm(&mut self, at: Stamp, since: Stamp) -> bool {
        let same = self.known & !self.wide & !UNCOMPARED;
        if same == 0 || self.narrow_asked < since || !self.narrow_times.step(at) {
            return false;
        }
        let failed = self.failed.iter_mut().flat_map(|f| f.iter_mut());
        let moved = (FIRST_MOVED..).zip(&mut self.moved);
        for (i, cell) in (0..).zip(failed).chain(moved) {
            if same & 1 << i != 0 {
                cell.delta = 0;
            }
        }
        self.narrow_times.errors = 0;
        self.fresh |= same & !self.pegged;
        self.reset &= !same;
        true
    }

    /// Takes a reading of PortCountersExtended.
    pub fn read_wide(&mut self, c: &PortCountersExtended, caps: Caps, at: Stamp) -> Outcome {
        let reading = Reading {
            values: [
                c.symbol_error(),
                c.link_error_recovery(),
                c.link_downed(),
                c.rcv_errors(),
                c.rcv_remote_physical_errors(),
                c.rcv_switch_relay_errors(),
                c.xmit_discards(),
                c.xmit_constraint_errors(),
                c.rcv_constraint_errors(),
                c.local_link_integrity(),
                c.excessive_buffer_overrun(),
                c.qp1_dropped(),
                c.vl15_dropped(),
                c.xmit_data(),
                c.rcv_data(),
                c.xmit_pkts(),
                c.rcv_pkts(),
                c.xmit_wait(),
                c.unicast_xmit_pkts(),
                c.unicast_rcv_pkts(),
                c.multicast_xmit_pkts(),
                c.multicast_rcv_pkts(),
            ],
            real: caps.wide(),
            wide: true,
        };
        if !self.wide_times.step(at) {
            return Outcome::default();
        }
        self.take(&reading)
    }

    /// The node refused PortCountersExtended: its counters come from PortCounters from here on.
    /// Until then they are stale, and their next reading is a new baseline.
    pub fn wide_refused(&mut self) {
        self.known &= !self.wide;
        self.wide = 0;
        self.wide_times = Times::default();
    }

    fn take(&mut self, r: &Reading) -> Outcome {
        let mut outcome = Outcome {
            taken: true,
            data: r.real & Counter::XmitData.bit() != 0,
            ..Outcome::default()
        };
        // A counter that changes its width starts anew.
        let same_width = if r.wide { self.wide } else { !self.wide };
        let running = self.known & same_width;
        let mut all = Gathered::default();
        let each = || (0..).zip(r.values.iter().zip(&NARROW_MAX));
        let read = |i: usize| r.real & 1 << i != 0;
        if self.failed.is_none()
            && !each()
                .take(FIRST_MOVED)
                .any(|(i, (v, _))| read(i) && *v != 0)
        {
            // No error then, and none now.
            all.fresh = r.real & running & FAILED;
        } else {
            let failed = self.failed.get_or_insert_default();
            for (cell, (i, (&new, &max))) in failed.iter_mut().zip(each()) {
                if read(i) {
                    let max = if r.wide { u64::MAX } else { max };
                    all.take(i, cell, new, max, running & 1 << i != 0);
                }
            }
        }
        for (cell, (i, (&new, &max))) in self.moved.iter_mut().zip(each().skip(FIRST_MOVED)) {
            if read(i) {
                let max = if r.wide { u64::MAX } else { max };
                all.take(i, cell, new, max, running & 1 << i != 0);
            }
        }
        let Gathered {
            pegged,
            fresh,
            reset,
            bound,
            rose,
            errors,
            error_delta,
            first_reset,
        } = all;
        outcome.reset = first_reset;
        let before = self.pegged & r.real & SUMMED;
        outcome.rose = rose;
        outcome.first = r.real & !running;
        outcome.resets = reset;
        outcome.pegged = pegged & SUMMED & !before;
        outcome.unpegged = before & !pegged;
        self.pegged = self.pegged & !r.real | pegged;
        self.fresh = self.fresh & !r.real | fresh;
        self.reset = self.reset & !r.real | reset;
        self.bound |= bound;
        self.losses = self.losses.wrapping_add(u32::from(bound != 0));
        self.errors = self.errors.saturating_add(errors);
        if r.wide {
            self.wide_times.errors = error_delta;
        } else {
            self.narrow_times.errors = error_delta;
        }
        self.known |= r.real;
        if r.wide {
            self.wide |= r.real;
        } else {
            self.wide &= !r.real;
        }
        outcome
    }

    fn times(&self, c: Counter) -> &Times {
        if self.wide & c.bit() != 0 {
            &self.wide_times
        } else if UNCOMPARED & c.bit() != 0 {
            &self.uncompared_times
        } else {
            &self.narrow_times
        }
    }

    /// As of when the oldest of the counters in use is known. PortRcvSwitchRelayErrors, which
    /// are no errors as a rule, do not count.
    pub fn read_at(&self) -> Option<Stamp> {
        let narrow = self.known & !self.wide;
        [
            (narrow & !UNCOMPARED, &self.narrow_times),
            (narrow & DATA, &self.uncompared_times),
            (self.wide, &self.wide_times),
        ]
        .into_iter()
        .filter(|(set, _)| *set != 0)
        .filter_map(|(_, times)| times.last)
        .min()
    }

    /// When the data counters were last read.
    pub fn data_at(&self) -> Option<Stamp> {
        (self.known & Counter::XmitData.bit() != 0)
            .then_some(self.times(Counter::XmitData).last)
            .flatten()
    }

    fn is_old(&self, c: Counter, now: Stamp, limit: Duration) -> bool {
        self.times(c).last.is_none_or(|at| now.since(at) > limit)
    }

    /// What the node reports, stale if older than `limit`.
    pub fn value(&self, c: Counter, now: Stamp, limit: Duration) -> Num<u64> {
        self.number(c, self.cell(c).value, self.pegged)
            .aged(self.is_old(c, now, limit))
    }

    /// What was counted so far, to count from here on.
    pub fn mark(&self) -> Mark {
        Mark {
            since: Counter::ALL.map(|c| self.cell(c).since),
            errors: self.errors,
            losses: self.losses,
        }
    }

    /// Counters whose increments since a mark are a lower bound: those that are one at all, as
    /// long as nothing more was lost.
    fn bound_since(&self, mark: Option<&Mark>) -> Set {
        match mark {
            Some(mark) if mark.losses == self.losses => self.pegged,
            _ => self.bound,
        }
    }

    /// Increments since the mark, or since the first sample of the session.
    pub fn since(&self, c: Counter, mark: Option<&Mark>, now: Stamp, limit: Duration) -> Num<u64> {
        let before = mark.and_then(|m| m.since.get(c as usize)).copied();
        self.number(c, self.cell(c).since, self.bound_since(mark))
            .map(|n| n.saturating_sub(before.unwrap_or(0)))
            .aged(self.is_old(c, now, limit))
    }

    fn number(&self, c: Counter, v: u64, at_least: Set) -> Num<u64> {
        if self.known & c.bit() == 0 {
            Num::Unknown
        } else if at_least & c.bit() != 0 {
            Num::AtLeast(v)
        } else {
            Num::Is(v)
        }
    }

    /// Change per second between the two last samples.
    pub fn rate(&self, c: Counter, now: Stamp, limit: Duration) -> Num<f64> {
        if self.known & self.reset & c.bit() != 0 {
            return Num::Reset;
        }
        if self.known & self.fresh & c.bit() == 0 {
            return Num::Unknown;
        }
        let delta = self.cell(c).delta;
        let span = self.times(c).span_ns;
        if span == 0 {
            return Num::Unknown;
        }
        Num::Is(delta as f64 * 1e9 / span as f64).aged(self.is_old(c, now, limit))
    }

    /// The last increment and the time it took, in ns (0 if that is not known).
    pub fn gain(&self, c: Counter) -> (u64, u64) {
        let delta = self.cell(c).delta;
        (delta, self.times(c).span_ns)
    }

    /// Value and increments since the first sample, whatever their age.
    pub fn raw(&self, c: Counter) -> (u64, u64) {
        let cell = self.cell(c);
        (cell.value, cell.since)
    }

    /// What it shows since the first sample is a lower bound.
    pub fn is_bound(&self, c: Counter) -> bool {
        self.bound & c.bit() != 0
    }

    /// Increments since a first sample that others saw.
    pub fn restore(&mut self, c: Counter, counted: u64) {
        if let Some(cell) = self.cell_mut(c) {
            let before = std::mem::replace(&mut cell.since, counted);
            if SUMMED & c.bit() != 0 {
                self.errors = self.errors.saturating_sub(before).saturating_add(counted);
            }
        }
    }

    /// The same is a lower bound.
    pub fn restore_bound(&mut self, c: Counter) {
        self.bound |= c.bit();
    }

    /// It was read.
    pub fn has(&self, c: Counter) -> bool {
        self.known & c.bit() != 0
    }

    /// The attributes that the error sum's counters come from, those known.
    fn error_sources(&self) -> impl Iterator<Item = &Times> {
        let known = SUMMED & self.known;
        let narrow = (known & !self.wide != 0).then_some(&self.narrow_times);
        let wide = (known & self.wide != 0).then_some(&self.wide_times);
        narrow.into_iter().chain(wide)
    }

    fn errors_are_old(&self, now: Stamp, limit: Duration) -> bool {
        self.error_sources()
            .any(|t| t.last.is_none_or(|at| now.since(at) > limit))
    }

    fn errors_since(&self, mark: Option<&Mark>) -> u64 {
        self.errors.saturating_sub(mark.map_or(0, |m| m.errors))
    }

    /// Sum of the error counters' increments since the mark, or since the first sample.
    pub fn errors(&self, mark: Option<&Mark>, now: Stamp, limit: Duration) -> Num<u64> {
        let known = SUMMED & self.known;
        let sum = self.errors_since(mark);
        if known == 0 {
            Num::Unknown
        } else if self.bound_since(mark) & known != 0 {
            Num::AtLeast(sum)
        } else {
            Num::Is(sum).aged(self.errors_are_old(now, limit))
        }
    }

    /// True if an error counter of the sum rose since the mark, or since the first sample.
    pub fn has_errors(&self, mark: Option<&Mark>) -> bool {
        self.errors_since(mark) > 0
    }

    /// Errors per second: unknown before two samples, at least the sum of what is known while a
    /// counter is pegged.
    pub fn errors_per_s(&self, now: Stamp, limit: Duration) -> Num<f64> {
        let known = SUMMED & self.known;
        if self.reset & known != 0 {
            return Num::Reset;
        }
        if self.fresh & known == 0 {
            return Num::Unknown;
        }
        let sum = self
            .error_sources()
            .filter(|t| t.span_ns > 0)
            .map(|t| t.errors as f64 * 1e9 / t.span_ns as f64)
            .sum();
        if self.fresh & known != known {
            Num::AtLeast(sum)
        } else {
            Num::Is(sum).aged(self.errors_are_old(now, limit))
        }
    }

    /// True if an error counter of the sum is pegged, so that new errors cannot be seen. Pegged
    /// data counters are usual on devices that have no 64-bit ones; their rates are unknown.
    pub fn is_saturated(&self) -> bool {
        self.pegged & self.known & SUMMED != 0
    }
}
