//! What adapters send into the fabric and receive from it.
//!
//! Node by node, so that who keeps the parts need not add up what did not change.

use super::counters::Counter;
use super::view::TotalsView;
use super::{Model, Num};
use crate::fabric::{NodeId, NodeKind, PortKey};
use crate::port::Stamp;

/// One node's part of the totals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Words sent and received, packets sent and received, a second.
    sums: [f64; 4],
    /// Adapter ports whose rates are known, and all that have a link.
    counted: (usize, usize),
    /// The fullest direction: its share, and who sends.
    busiest: Option<(f64, PortKey)>,
}

impl Model {
    /// One node's part of the totals.
    pub fn totals_of(&self, node: NodeId, now: Stamp) -> Part {
        let limit = self.interval().saturating_mul(2);
        let mut part = Part::default();
        let Some(node) = self.topology.node(node) else {
            return part;
        };
        let linked = |s: &super::views::Seen<'_>| s.port.is_up() && s.port.peer.is_some();
        let is_adapter = self.topology.shown_kind(node) == NodeKind::Ca;
        for s in self.seen_of(node).filter(linked) {
            let counters = s.own.and_then(|p| p.counters.as_deref());
            let rate = |c| counters.and_then(|n| n.rate(c, now, limit).current());
            let capacity = s.own.map_or(0.0, |p| p.capacity_bps);
            if let Some(words) = rate(Counter::XmitData).filter(|_| capacity > 0.0) {
                let share = words * 32.0 / capacity;
                if part.busiest.is_none_or(|(most, _)| share > most) {
                    part.busiest = Some((share, s.key));
                }
            }
            if !is_adapter {
                continue;
            }
            part.counted.1 += 1;
            let rates = [
                rate(Counter::XmitData),
                rate(Counter::RcvData),
                rate(Counter::XmitPkts),
                rate(Counter::RcvPkts),
            ];
            part.counted.0 += usize::from(rates.iter().any(Option::is_some));
            for (sum, rate) in part.sums.iter_mut().zip(rates) {
                *sum += rate.unwrap_or(0.0);
            }
        }
        part
    }

    /// Totals of the fabric: what adapters send and receive.
    pub fn totals(&self, now: Stamp) -> TotalsView {
        TotalsView::of(self.topology.nodes().map(|n| self.totals_of(n.id, now)))
    }
}

impl TotalsView {
    /// The totals of all parts, in order of GUID.
    pub fn of(parts: impl Iterator<Item = Part>) -> TotalsView {
        let mut all = Part::default();
        for part in parts {
            for (sum, more) in all.sums.iter_mut().zip(part.sums) {
                *sum += more;
            }
            all.counted.0 += part.counted.0;
            all.counted.1 += part.counted.1;
            if let Some((share, _)) = part.busiest
                && all.busiest.is_none_or(|(most, _)| share > most)
            {
                all.busiest = part.busiest;
            }
        }
        let total = |sum: f64| match all.counted {
            (0, _) => Num::Unknown,
            (n, of) if n < of => Num::AtLeast(sum),
            _ => Num::Is(sum),
        };
        let [tx, rx, tx_pkts, rx_pkts] = all.sums;
        TotalsView {
            injected_bps: total(tx * 32.0),
            delivered_bps: total(rx * 32.0),
            injected_pps: total(tx_pkts),
            delivered_pps: total(rx_pkts),
            busiest: all
                .busiest
                .map_or(Num::Unknown, |(share, _)| Num::Is(share)),
            busiest_port: all.busiest.map(|(_, key)| key),
            counted: all.counted,
        }
    }
}
