//! The Traffic pane: rates of every link against what it can carry, and the fabric's totals.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Sheet, shared};
use crate::fabric::{NodeId, PortKey};
use crate::model::view::{TotalsView, TrafficRow, Wanted};
use crate::model::{Num, Part};
use crate::port::Stamp;
use crate::tui::facts::Facts;
use crate::tui::filter::{Filter, Subject};
use crate::tui::pack::pack;
use crate::tui::table::{Cell, Column, Rank, RowKey, Source, by_f64};
use crate::tui::text::{grouped, num, percent, si};
use crate::tui::theme::{Look, Role};

/// Column that sorts at first: the fullest on top.
pub const FIRST_SORT: usize = 5;

/// The column of sparklines.
const HISTORY: &str = "Last 2 min";

/// Draws the pane.
pub fn draw<F: Facts>(sheet: &mut Sheet<'_, F>) {
    if sheet.is_large() {
        return draw_large(sheet);
    }
    let totals = sheet.facts.totals(sheet.at);
    let busiest = totals.busiest_port.map(|k| sheet.facts.name(k.node));
    let line = sheet.top(u16::from(sheet.height() >= 6));
    draw_totals(line, sheet.buf, &totals, busiest, sheet.look);
    let rows = sheet.facts.traffic(sheet.at);
    sheet.window(samples(sheet.facts.interval()));
    let columns = columns(rows.iter().any(|r| r.stale));
    sheet.table(&rows, &columns, key, matches);
}

fn draw_large<F: Facts>(sheet: &mut Sheet<'_, F>) {
    let source = Many {
        facts: sheet.facts,
        at: sheet.at,
        filter: &sheet.filter().clone(),
    };
    let columns = columns(false);
    sheet.update_large(&source, &columns);
    let totals = sheet.large_totals();
    let busiest = totals.busiest_port.map(|k| sheet.facts.name(k.node));
    let line = sheet.top(u16::from(sheet.height() >= 6));
    draw_totals(line, sheet.buf, &totals, busiest, sheet.look);
    sheet.window(samples(sheet.facts.interval()));
    sheet.large_table(&source, &columns);
}

/// The rows of very many ports.
struct Many<'a, F> {
    facts: &'a F,
    at: Stamp,
    filter: &'a Filter,
}

impl<'a, F: Facts> Source<TrafficRow<'a>> for Many<'a, F> {
    fn list(&self) -> Vec<PortKey> {
        self.facts.port_list()
    }
    fn layout(&self) -> u64 {
        self.facts.layout()
    }
    fn changed(&self, node: NodeId) -> u64 {
        self.facts.changed(node)
    }
    fn shape(&self, node: NodeId) -> u64 {
        self.facts.shape(node)
    }
    fn name(&self, node: NodeId) -> &str {
        self.facts.name(node)
    }
    fn row(&self, key: PortKey) -> Option<TrafficRow<'a>> {
        self.facts.traffic_of(key, self.at)
    }
    fn each(
        &self,
        node: NodeId,
        title: &str,
        filtered: bool,
        each: &mut dyn FnMut(PortKey, TrafficRow<'a>),
    ) {
        let filter = !self.filter.is_empty();
        let want = Wanted {
            names: filter && filtered,
            link: filter && filtered || title == "Peer[port]",
            packets: matches!(title, "TX pkt/s" | "RX pkt/s" | "B/pkt" | "Mcast" | "Wait"),
            history: title == HISTORY,
            age: filter || title == "Age",
            ..Wanted::LEAST
        };
        let mut each = |row: TrafficRow<'a>| each(row.key, row);
        self.facts.each_traffic(node, self.at, want, &mut each);
    }
    fn sight(&self, row: &TrafficRow<'a>) -> Option<u64> {
        (!self.filter.is_empty()).then(|| row.stale.into())
    }
    fn rank(&self, title: &str, row: &TrafficRow<'a>) -> Rank {
        rank(title, row)
    }
    fn keeps(&self, row: &TrafficRow<'a>) -> bool {
        matches(row, self.filter)
    }
    fn part(&self, node: NodeId) -> Option<Part> {
        Some(self.facts.totals_of(node, self.at))
    }
}

/// The highest of a row's last two minutes.
fn peak(row: &TrafficRow<'_>) -> f64 {
    f64::from(row.history.iter().copied().fold(f32::NAN, f32::max))
}

/// What a row is sorted by; in the order of the column's `cmp`.
fn rank(title: &str, r: &TrafficRow<'_>) -> Rank {
    Rank::float(match title {
        "Port" => return Rank::Number(r.key.port.into()),
        "Peer[port]" => return Rank::Place(r.peer.as_ref().map(|p| p.key)),
        "TX bit/s" => r.tx_bps.get(),
        "RX bit/s" => r.rx_bps.get(),
        "Used" => fuller(r).0.get(),
        "TX used" => r.tx_share().get(),
        "RX used" => r.rx_share().get(),
        "TX pkt/s" => r.tx_pps.get(),
        "RX pkt/s" => r.rx_pps.get(),
        "B/pkt" => packets(r).0.get(),
        "Mcast" => packets(r).1.get(),
        "Wait" => r.wait.get(),
        "Link bit/s" => r.capacity_bps,
        HISTORY => Some(peak(r)),
        "Age" => return Rank::Number(r.age.map_or(0, |d| 1 + d.as_nanos() as u64)),
        _ => return Rank::Place(Some(r.key)),
    })
}

/// Samples in the two minutes that sparklines show.
fn samples(interval: Duration) -> usize {
    let n = Duration::from_secs(120).as_millis() / interval.as_millis().max(1);
    usize::try_from(n).unwrap_or(usize::MAX).clamp(1, 240)
}

/// Which row it is.
fn key(row: &TrafficRow<'_>) -> RowKey {
    RowKey::Port(row.key)
}

/// The fuller direction: its share, its name and role.
fn fuller(row: &TrafficRow<'_>) -> (Num<f64>, &'static str, Role) {
    let (tx, rx) = (row.tx_share(), row.rx_share());
    if by_f64(rx.get(), tx.get()).is_gt() {
        (rx, "rx", Role::Rx)
    } else {
        (tx, "tx", Role::Tx)
    }
}

/// Of the same direction: bytes of an average packet, and the packets' share of multicast.
fn packets(row: &TrafficRow<'_>) -> (Num<f64>, Num<f64>) {
    match fuller(row).1 {
        "rx" => (row.rx_packet, row.rx_multicast),
        _ => (row.tx_packet, row.tx_multicast),
    }
}

/// Full is worth a look: a link at its limit makes others wait.
fn share_role(share: f64) -> Role {
    if share >= 0.9 { Role::Warn } else { Role::Text }
}

fn draw_share(share: Num<f64>, direction: &str, bar: Role, cell: &mut Cell<'_>) {
    let tail = if direction.is_empty() { 5 } else { 8 };
    let room = cell.width.saturating_sub(tail);
    if let Some(v) = share.get() {
        cell.bar(0, room, v, bar);
    }
    let (text, role) = num(share, cell.look, Role::Text, percent);
    let role = match share {
        Num::Is(v) => share_role(v),
        _ => role,
    };
    let text = super::pad_left(&text, 5, cell.look);
    let direction = match share.get() {
        Some(v) if v > 0.0 && !direction.is_empty() => format!(" {direction}"),
        _ => String::new(),
    };
    cell.from(room)
        .spans(&[(&text, role), (&direction, Role::Label)]);
}

fn rate(n: Num<f64>, cell: &mut Cell<'_>) {
    let role = match n.get() {
        Some(0.0) => Role::Label,
        _ => Role::Text,
    };
    cell.number(num(n, cell.look, role, si));
}

/// A share that is neither good nor bad.
fn part(n: Num<f64>, cell: &mut Cell<'_>) {
    let role = match n.get() {
        Some(0.0) => Role::Label,
        _ => Role::Text,
    };
    cell.number(num(n, cell.look, role, percent));
}

/// The newest `window` of `values` in at most `room` bins, each the greatest of its samples.
/// Time from before the first sample is a gap: a short history is not stretched.
fn binned(values: &[f32], window: usize, room: usize) -> Vec<f32> {
    let window = window.max(1);
    let missing = window.saturating_sub(values.len());
    let known = values.get(values.len().saturating_sub(window)..);
    let at = |i: usize| {
        i.checked_sub(missing)
            .and_then(|i| known?.get(i).copied())
            .unwrap_or(f32::NAN)
    };
    let bins = room.min(window);
    (0..bins)
        .map(|i| {
            let (from, to) = (i * window / bins, (i + 1) * window / bins);
            // f32::max ignores NaN, as it should.
            (from..to).map(at).fold(f32::NAN, f32::max)
        })
        .collect()
}

/// The columns.
fn columns<'m>(stale: bool) -> Vec<Column<TrafficRow<'m>>> {
    vec![
        shared::node(12),
        shared::port(),
        shared::peer(12, 60),
        Column {
            title: "TX bit/s",
            min: 8,
            max: 8,
            right: true,
            rank: 30,
            descending: true,
            cmp: |a, b| by_f64(a.tx_bps.get(), b.tx_bps.get()),
            draw: |r, c| rate(r.tx_bps, c),
            want: None,
        },
        Column {
            title: "RX bit/s",
            min: 8,
            max: 8,
            right: true,
            rank: 30,
            descending: true,
            cmp: |a, b| by_f64(a.rx_bps.get(), b.rx_bps.get()),
            draw: |r, c| rate(r.rx_bps, c),
            want: None,
        },
        Column {
            title: "Used",
            min: 13,
            max: 18,
            right: false,
            rank: 20,
            descending: true,
            cmp: |a, b| by_f64(fuller(a).0.get(), fuller(b).0.get()),
            draw: |r, c| {
                let (share, direction, role) = fuller(r);
                draw_share(share, direction, role, c);
            },
            want: None,
        },
        Column {
            title: "TX used",
            min: 11,
            max: 21,
            right: false,
            rank: 100,
            descending: true,
            cmp: |a, b| by_f64(a.tx_share().get(), b.tx_share().get()),
            draw: |r, c| draw_share(r.tx_share(), "", Role::Tx, c),
            want: None,
        },
        Column {
            title: "RX used",
            min: 11,
            max: 21,
            right: false,
            rank: 100,
            descending: true,
            cmp: |a, b| by_f64(a.rx_share().get(), b.rx_share().get()),
            draw: |r, c| draw_share(r.rx_share(), "", Role::Rx, c),
            want: None,
        },
        Column {
            title: "TX pkt/s",
            min: 8,
            max: 8,
            right: true,
            rank: 80,
            descending: true,
            cmp: |a, b| by_f64(a.tx_pps.get(), b.tx_pps.get()),
            draw: |r, c| rate(r.tx_pps, c),
            want: None,
        },
        Column {
            title: "RX pkt/s",
            min: 8,
            max: 8,
            right: true,
            rank: 80,
            descending: true,
            cmp: |a, b| by_f64(a.rx_pps.get(), b.rx_pps.get()),
            draw: |r, c| rate(r.rx_pps, c),
            want: None,
        },
        Column {
            title: "B/pkt",
            min: 6,
            max: 6,
            right: true,
            rank: 140,
            descending: true,
            cmp: |a, b| by_f64(packets(a).0.get(), packets(b).0.get()),
            draw: |r, c| rate(packets(r).0, c),
            want: None,
        },
        Column {
            title: "Mcast",
            min: 6,
            max: 6,
            right: true,
            rank: 140,
            descending: true,
            cmp: |a, b| by_f64(packets(a).1.get(), packets(b).1.get()),
            draw: |r, c| part(packets(r).1, c),
            want: None,
        },
        Column {
            title: "Wait",
            min: 5,
            max: 5,
            right: true,
            rank: 50,
            descending: true,
            cmp: |a, b| by_f64(a.wait.get(), b.wait.get()),
            draw: |r, c| {
                let role = match r.wait.get() {
                    Some(v) if v >= 0.1 => Role::Warn,
                    Some(0.0) => Role::Label,
                    _ => Role::Text,
                };
                c.number(num(r.wait, c.look, role, percent));
            },
            want: None,
        },
        Column {
            title: "Link bit/s",
            min: 10,
            max: 10,
            right: true,
            rank: 120,
            descending: true,
            cmp: |a, b| by_f64(a.capacity_bps, b.capacity_bps),
            draw: |r, c| match r.capacity_bps {
                Some(v) => c.number((si(v), Role::Label)),
                None => c.text(c.look.glyphs.unknown, Role::Label),
            },
            want: None,
        },
        Column {
            title: HISTORY,
            min: 10,
            max: 24,
            right: false,
            rank: 70,
            descending: true,
            cmp: |a, b| by_f64(Some(peak(a)), Some(peak(b))),
            draw: |r, c| {
                let values = binned(&r.history, c.window, usize::from(c.width));
                c.spark(&values, Role::Spark);
            },
            want: None,
        },
        shared::aged(if stale { 25 } else { 130 }),
    ]
}

/// True if the row passes the filter.
fn matches(row: &TrafficRow<'_>, filter: &Filter) -> bool {
    if filter.is_empty() {
        return true;
    }
    let peer = row.peer.as_ref();
    let guid = row.key.node.guid.0;
    filter.matches(&Subject {
        texts: &[
            row.name,
            if row.stale { "stale" } else { "" },
            peer.map_or("", |p| p.name),
        ],
        numbers: &[u32::from(row.key.port)],
        guids: &[guid, peer.map_or(guid, |p| p.key.node.guid.0)],
    })
}

/// Draws the fabric's totals in one line.
fn draw_totals(
    area: Rect,
    buf: &mut Buffer,
    totals: &TotalsView,
    busiest_name: Option<&str>,
    look: &Look,
) {
    let rate = |n: Num<f64>, unit: &str| {
        let (text, role) = num(n, look, Role::Text, si);
        (format!("{text}{unit}"), role)
    };
    let busiest = match (totals.busiest_port, busiest_name) {
        (Some(key), Some(name)) => format!(" {name}[{}]", key.port),
        _ => String::new(),
    };
    let (share, share_role) = num(totals.busiest, look, Role::Text, percent);
    let (counted, of) = totals.counted;
    let label = |t: &str| (t.to_owned(), Role::Label);
    pack(
        buf,
        area,
        Style::new(),
        look,
        vec![
            (0, vec![label("In "), rate(totals.injected_bps, "bit/s")]),
            (1, vec![label("Out "), rate(totals.delivered_bps, "bit/s")]),
            (3, vec![rate(totals.injected_pps, "pkt/s"), label(" in")]),
            (5, vec![rate(totals.delivered_pps, "pkt/s"), label(" out")]),
            (
                2,
                vec![
                    label("Busiest "),
                    (share, share_role),
                    (busiest, Role::Text),
                ],
            ),
            (
                // A sum over a part of the fabric must say so.
                if counted < of { 1 } else { 4 },
                vec![(
                    format!(
                        "{} of {} adapter ports",
                        grouped(counted as u64),
                        grouped(of as u64)
                    ),
                    if counted < of {
                        Role::Warn
                    } else {
                        Role::Label
                    },
                )],
            ),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_keep_the_peaks_and_the_gaps() {
        let nan = f32::NAN;
        let got = binned(&[0.1, 0.9, nan, nan, 0.3, nan], 6, 3);
        assert_eq!(got.first(), Some(&0.9));
        assert!(got.get(1).is_some_and(|v| v.is_nan()));
        assert_eq!(got.get(2), Some(&0.3));
        // Two minutes of which half are known fill half of the room.
        let got = binned(&[0.5, 0.6], 4, 10);
        assert_eq!(got.len(), 4);
        assert!(got.iter().take(2).all(|v| v.is_nan()));
        assert_eq!(got.get(2..), Some(&[0.5, 0.6][..]));
        // More than two minutes: the newest.
        assert_eq!(binned(&[0.1, 0.2, 0.3], 2, 10), [0.2, 0.3]);
        assert!(binned(&[0.1], 24, 0).is_empty());
    }
}
