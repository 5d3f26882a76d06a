//! What replies of performance management change: counters, and what is known of them.

use super::counters::{Caps, Counter};
use super::history::{History, Sample};
use super::log::Kind;
use super::state::Pending;
use super::{Model, Num};
use crate::event::Severity;
use crate::mad::{
    Attribute, ClassPortInfo, Mad, PortCounters, PortCountersExtended, PortSamplesControl,
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
            }
            return;
        }
        if pending.port_select == ALL_PORTS || pending.port_select != key.port {
            return;
        }
        // Half-way between question and answer: see `counters`.
        let middle = Stamp(pending.at.0 + at.since(pending.at).as_nanos() as u64 / 2);
        let interval = self.interval();
        let lean = self.lean;
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
                    .read_narrow(&read, caps, middle),
                Err(_) => return,
            },
            PortCountersExtended::ID => match PortCountersExtended::parse(&view) {
                Ok(read) => port
                    .counters
                    .get_or_insert_default()
                    .read_wide(&read, caps, middle),
                Err(_) => return,
            },
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
