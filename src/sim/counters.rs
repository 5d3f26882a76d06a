//! The counters of a port: one truth, from which every attribute is filled.

use super::rng::{mix, unit};
use super::script::Counter;
use super::world::{NONE, World};

/// A count that rises steadily.
#[derive(Clone, Copy, Default)]
struct Ramp {
    base: f64,
    per_second: f64,
    since: u64,
}

impl Ramp {
    fn at(&self, now: u64) -> f64 {
        self.base + self.per_second * now.saturating_sub(self.since) as f64 / 1e9
    }
}

/// Values at the last reset, by counter.
pub type Baseline = Box<[u64; Counter::COUNT]>;

/// What a port counts besides its traffic. Most ports have nothing here.
#[derive(Default)]
pub struct Counters {
    ramps: Option<Box<[Ramp; Counter::COUNT]>>,
    /// What was reset through attributes with narrow counters, and with wide ones: devices
    /// keep two sets.
    pub narrow: Option<Baseline>,
    pub wide: Option<Baseline>,
}

impl Counters {
    fn ramp(&mut self, counter: Counter) -> &mut Ramp {
        let ramps = self
            .ramps
            .get_or_insert_with(|| Box::new([Ramp::default(); Counter::COUNT]));
        &mut ramps[counter as usize]
    }

    /// Adds to a counter at once.
    pub fn add(&mut self, counter: Counter, by: u64, now: u64) {
        let ramp = self.ramp(counter);
        *ramp = Ramp {
            base: ramp.at(now) + by as f64,
            per_second: ramp.per_second,
            since: now,
        };
    }

    /// Lets a counter rise from now on.
    pub fn rise(&mut self, counter: Counter, per_second: f64, now: u64) {
        let ramp = self.ramp(counter);
        *ramp = Ramp {
            base: ramp.at(now),
            per_second: if per_second.is_finite() {
                per_second.max(0.0)
            } else {
                0.0
            },
            since: now,
        };
    }

    fn extra(&self, counter: Counter, now: u64) -> f64 {
        self.ramps
            .as_ref()
            .map_or(0.0, |r| r[counter as usize].at(now))
    }
}

/// Which set of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Narrow,
    Wide,
}

impl World {
    /// The whole count of a port since it was made.
    pub fn total(&self, port: u32, counter: Counter) -> u64 {
        let Some(p) = self.ports.get(port as usize) else {
            return 0;
        };
        let extra = p.counters.extra(counter, self.now);
        let count = match counter {
            Counter::FecCorrectable => extra + self.fec_corrected(port),
            other => extra + self.traffic_total(port, other),
        };
        count as u64
    }

    /// What an attribute shows: the count since the last reset.
    pub fn count(&self, port: u32, counter: Counter, set: Set) -> u64 {
        let base = self.ports.get(port as usize).and_then(|p| match set {
            Set::Narrow => p.counters.narrow.as_ref(),
            Set::Wide => p.counters.wide.as_ref(),
        });
        let base = base.map_or(0, |b| b[counter as usize]);
        self.total(port, counter).wrapping_sub(base)
    }

    /// Writes a counter, as a Set of an attribute does.
    pub fn write_counter(&mut self, port: u32, counter: Counter, set: Set, value: u64) {
        let total = self.total(port, counter);
        if let Some(p) = self.ports.get_mut(port as usize) {
            let base = match set {
                Set::Narrow => &mut p.counters.narrow,
                Set::Wide => &mut p.counters.wide,
            };
            base.get_or_insert_with(|| Box::new([0; Counter::COUNT]))[counter as usize] =
                total.wrapping_sub(value);
        }
    }

    /// Blocks that forward error correction repaired: some, on every link from HDR on.
    fn fec_corrected(&self, port: u32) -> f64 {
        let Some(p) = self.ports.get(port as usize).filter(|p| p.peer != NONE) else {
            return 0.0;
        };
        let Some(node) = self.nodes.get(p.node as usize) else {
            return 0.0;
        };
        if p.speed < crate::fabric::LinkSpeed::Hdr {
            return 0.0;
        }
        // From one in ten seconds to a thousand a second, by the cable's nature.
        let nature = unit(mix(p.guid ^ u64::from(p.number) << 48 ^ self.options.seed));
        let mut per_second = 0.1;
        for step in 0..4 {
            per_second *= if nature > f64::from(step) * 0.3 {
                10.0
            } else {
                1.0
            };
        }
        per_second * nature * (self.now + node.uptime) as f64 / 1e9
            + 1e4 * p.counters.extra(Counter::SymbolError, self.now)
    }
}

/// The counters in the order of [`Counter`]'s codes.
pub const ALL: [Counter; Counter::COUNT] = [
    Counter::SymbolError,
    Counter::LinkErrorRecovery,
    Counter::LinkDowned,
    Counter::RcvErrors,
    Counter::RcvRemotePhysicalErrors,
    Counter::RcvSwitchRelayErrors,
    Counter::XmitDiscards,
    Counter::XmitConstraintErrors,
    Counter::RcvConstraintErrors,
    Counter::LocalLinkIntegrityErrors,
    Counter::ExcessiveBufferOverrunErrors,
    Counter::Qp1Dropped,
    Counter::Vl15Dropped,
    Counter::XmitWait,
    Counter::XmitData,
    Counter::RcvData,
    Counter::XmitPkts,
    Counter::RcvPkts,
    Counter::MulticastXmitPkts,
    Counter::MulticastRcvPkts,
    Counter::FecCorrectable,
    Counter::FecUncorrectable,
];
