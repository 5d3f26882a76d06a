//! What replies of performance management change: counters, and what is known of them.

use super::counters::{Caps, Counter};
use super::history::{History, Sample};
use super::log::Kind;
use super::state::Pending;
use super::{Model, Num};
use crate::event::Severity;
use crate::fabric::{LinkSpeed, PortKey, trusted_ber};
use crate::mad::details::optional;
use crate::mad::{
    Attribute, ClassPortInfo, ErrorCounts, Mad, MgmtClass, PortCounters, PortCountersExtended,
    PortExtendedSpeeds, PortSamplesControl,
};
use crate::port::Stamp;

/// PortSelect for "all ports": its sums are no port's counters.
const ALL_PORTS: u8 = 0xFF;

fn caps_of(info: &ClassPortInfo) -> Caps {
    Caps {
        mask: info.cap_mask(),
        mask2: info.cap_mask2(),
    }
}

impl Model {
    /// A PerfMgt reply: attributed by its request, since it names no node.
    pub(super) fn perf_reply(&mut self, at: Stamp, pending: &Pending, mad: &Mad) {
        let Some(key) = pending.request.target.key() else {
            return;
        };
        let Some(&slot) = self.index.get(&key.node) else {
            return;
        };
        let revision = self.revision + 1;
        if let Some(node) = self.nodes.get_mut(slot as usize) {
            node.changed = revision;
        }
        let status = mad.status();
        let view = mad.view();
        let attribute = pending.request.attribute;
        if attribute == ClassPortInfo::ID {
            // A node that fails it is taken to have no capability.
            let caps = match ClassPortInfo::parse(&view) {
                Ok(info) if status.is_ok() => caps_of(&info),
                _ if status.is_busy() || status.is_redirect() => return,
                _ => Caps::default(),
            };
            if let Some(node) = self.nodes.get_mut(slot as usize) {
                node.caps = caps;
                node.caps_read = true;
            }
            return;
        }
        if pending.port_select == ALL_PORTS {
            if attribute == PortCounters::ID
                && status.is_ok()
                && let Ok(sum) = PortCounters::parse(&view)
            {
                self.sum_read(slot, at, pending, &sum);
            }
            return;
        }
        if pending.port_select != key.port {
            return;
        }
        // Half-way between question and answer: see `counters`.
        let middle = Stamp(pending.at.0 + at.since(pending.at).as_nanos() as u64 / 2);
        let interval = self.interval();
        let lean = self.lean;
        if optional(attribute).is_some() {
            if status.is_ok() {
                self.details.read(key, attribute, middle, mad.data());
            } else if !status.is_busy() && !status.is_redirect() {
                let why = status.words(MgmtClass::Perf).to_string();
                self.detail_missing(at, pending, &why);
            }
            return;
        }
        let (bps, must_be_rs) = match attribute {
            PortExtendedSpeeds::ID => self.signalling(key),
            _ => (0.0, false),
        };
        let Some(node) = self.nodes.get_mut(slot as usize) else {
            return;
        };
        let (caps, tick) = (node.caps, &mut node.tick);
        let Some(port) = node.ports.get_mut(usize::from(key.port)) else {
            return;
        };
        if !status.is_ok() {
            let refused = !status.is_busy() && !status.is_redirect();
            if refused
                && attribute == PortCountersExtended::ID
                && let Some(c) = &mut port.counters
            {
                c.wide_refused();
            }
            return;
        }
        let outcome = match attribute {
            PortCounters::ID => match PortCounters::parse(&view) {
                Ok(read) => port
                    .counters
                    .get_or_insert_default()
                    .read_narrow(&read, caps, middle, pending.at),
                Err(_) => return,
            },
            PortCountersExtended::ID => match PortCountersExtended::parse(&view) {
                Ok(read) => port
                    .counters
                    .get_or_insert_default()
                    .read_wide(&read, caps, middle),
                Err(_) => return,
            },
            PortExtendedSpeeds::ID => {
                if let Ok(read) = PortExtendedSpeeds::parse(&view) {
                    let mode = port.fec_mode;
                    let fec = port.fec.get_or_insert_default();
                    fec.take(&read, mode, must_be_rs, bps, middle);
                    self.judge_fec(at, key);
                }
                return;
            }
            PortSamplesControl::ID => {
                if let Ok(read) = PortSamplesControl::parse(&view) {
                    *tick = Some(read.tick());
                }
                return;
            }
            _ => return,
        };
        if outcome.data
            && outcome.taken
            && !lean
            && let Some(counters) = &port.counters
        {
            let limit = interval.saturating_mul(2);
            let capacity = port.capacity_bps;
            let share = |c| match counters.rate(c, middle, limit) {
                Num::Is(words) if capacity > 0.0 => (words * 32.0 / capacity) as f32,
                _ => f32::NAN,
            };
            let errors = counters.errors_per_s(middle, limit).get();
            let sample = Sample {
                tx: share(Counter::XmitData),
                rx: share(Counter::RcvData),
                errors: errors.map_or(f32::NAN, |e| e as f32),
            };
            if !sample.tx.is_nan() || !sample.rx.is_nan() || port.history.is_some() {
                let history = port
                    .history
                    .get_or_insert_with(|| Box::new(History::new(interval)));
                if !history.fits(interval) {
                    **history = History::new(interval);
                }
                history.push(middle, sample);
            }
        }
        self.judge_counters(at, key, &outcome);
        if let Some((counter, from, to)) = outcome.reset {
            let text = format!(
                "{}: counters were reset ({} {from} -> {to})",
                self.port_name(key),
                counter.name()
            );
            self.log
                .add(at, Kind::Reset, Severity::Info, Some(key), text);
        }
    }
}

impl Model {
    /// The sum over all ports of a node came: as long as it is the same, its ports' error
    /// counters are too, those apart that were read before it first was.
    fn sum_read(&mut self, slot: u32, at: Stamp, pending: &Pending, sum: &PortCounters) {
        let Some(node) = self.nodes.get_mut(slot as usize) else {
            return;
        };
        let counts = ErrorCounts::of(sum);
        let middle = Stamp(pending.at.0 + at.since(pending.at).as_nanos() as u64 / 2);
        match &node.sum {
            Some((same, since)) if *same == counts && !counts.is_pegged() => {
                let since = *since;
                // Port 0 is no part of the sum.
                for port in node.ports.iter_mut().skip(1) {
                    if let Some(counters) = &mut port.counters {
                        counters.confirm(middle, since);
                    }
                }
            }
            _ => node.sum = Some((counts, at)),
        }
    }

    /// What a port's link carries on the wire, bit/s, and whether its speed demands RS-FEC.
    pub(super) fn signalling(&self, key: PortKey) -> (f64, bool) {
        let Some(node) = self.topology.node(key.node) else {
            return (0.0, false);
        };
        let speed = node.speed(key.port);
        let lanes = node
            .port(key.port)
            .and_then(|p| p.width())
            .and_then(|w| w.lanes())
            .unwrap_or(0);
        let lane = speed.and_then(|s| s.signalling_gbps()).unwrap_or(0.0);
        let must_be_rs = speed.is_some_and(|s| s >= LinkSpeed::Hdr);
        (lane * 1e9 * f64::from(lanes), must_be_rs)
    }

    /// The bit error rate before correction that a port's FEC is trusted with.
    pub(super) fn trusted_ber(&self, key: PortKey) -> Option<f64> {
        let mode = self.data(key.node)?.port(key.port)?.fec_mode;
        trusted_ber(mode, self.topology.node(key.node)?.speed(key.port))
    }

    /// An optional attribute was not told, and why.
    pub(super) fn detail_missing(&mut self, at: Stamp, pending: &Pending, why: &str) {
        let attribute = pending.request.attribute;
        if pending.request.class == MgmtClass::Perf.code()
            && optional(attribute).is_some()
            && let Some(key) = pending.request.target.key()
        {
            self.details.missing(key, attribute, at, why.to_owned());
        }
    }
}

/// The time that one tick of PortXmitWait takes, in seconds; `None` if it is not known.
///
/// A tick is `Tick + 1` symbol times, a symbol time being that of one byte on one lane (4 ns at
/// SDR): PortSamplesControl.Tick, specification 16.1.3.2, 0x00 = 1x to 0xFF = 256x. NVIDIA's
/// Quantum switches count bytes of the whole port instead, whatever its width; Switch-IB and
/// older count by lane. (NVIDIA, ibdiagnet user manual, "Congestion Assessment on InfiniBand
/// Links".)
pub(super) fn tick_seconds(
    tick: Option<u8>,
    device_id: u16,
    lane_bps: f64,
    port_bps: f64,
) -> Option<f64> {
    let bytes = f64::from(tick?) + 1.0;
    // Quantum, Quantum-2, Quantum-3.
    let by_port = matches!(device_id, 0xD2F0 | 0xD2F2 | 0xD2F4);
    let bps = if by_port { port_bps } else { lane_bps };
    (bps > 0.0).then(|| bytes * 8.0 / bps)
}
