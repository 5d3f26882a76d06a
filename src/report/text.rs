//! Reports as aligned text.

use std::fmt::Write as _;
use std::time::Duration;

use super::table::Table;
use super::{flag_words, iso, port_rows};
use crate::event::Severity;
use crate::fabric::Node;
use crate::model::view::{DestinationRow, PortRow, TrafficRow};
use crate::model::{Model, Num, so_many};
use crate::port::Stamp;

/// Unknown, or not there.
pub(super) const NONE: &str = "—";

/// A number with its state: `≥` pegged, `~` stale, `reset`, `—` unknown.
pub(super) fn num<T: Copy>(n: Num<T>, show: impl Fn(T) -> String) -> String {
    match n {
        Num::Unknown => NONE.to_owned(),
        Num::Reset => "reset".to_owned(),
        Num::Is(v) => show(v),
        Num::AtLeast(v) => format!("≥{}", show(v)),
        Num::Stale(v) => format!("~{}", show(v)),
    }
}

pub(super) fn count(n: Num<u64>) -> String {
    num(n, |v| v.to_string())
}

/// Three significant digits and a prefix of 1000.
pub(super) fn si(value: f64) -> String {
    let prefixes = ["", "k", "M", "G", "T", "P"];
    let mut value = value;
    let mut prefix = "";
    for p in prefixes {
        prefix = p;
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
    }
    let digits = match value {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{prefix}")
}

pub(super) fn seconds(d: Duration) -> String {
    format!("{:.1}s", d.as_secs_f64())
}

fn micros(d: Option<Duration>) -> String {
    d.map_or_else(
        || NONE.to_owned(),
        |d| format!("{:.0}", d.as_secs_f64() * 1e6),
    )
}

pub(super) fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NONE.to_owned(), |v| v.to_string())
}

/// What the report is about: source, size, what is missing.
pub(super) fn head(model: &Model, now: Stamp, out: &mut String) {
    let h = model.header(now);
    let _ = writeln!(out, "# {} on {} at {}", h.source, h.host, iso(h.wall));
    if h.simulated {
        out.push_str("# SIMULATED: no real fabric was read\n");
    }
    let s = h.size;
    let protected = match s.protected {
        0 => String::new(),
        n => format!(", {n} protected by an M_Key"),
    };
    // Of these no node is known that could be called missing.
    let unknown = match super::unknown_ends(model, now) {
        0 => String::new(),
        n => format!(
            ", nobody known behind {} with a link",
            so_many(n, "port", "ports")
        ),
    };
    let aggregators = match s.aggregators {
        0 => String::new(),
        n => format!(", {}", so_many(n, "aggregation node", "aggregation nodes")),
    };
    let _ = writeln!(
        out,
        "# {}, {}{aggregators}, {}, {}, {} of {} ports connected, {} missing{protected}{unknown}",
        so_many(s.switches, "switch", "switches"),
        so_many(s.cas, "adapter", "adapters"),
        so_many(s.routers, "router", "routers"),
        so_many(s.links, "link", "links"),
        s.connected,
        s.ports,
        so_many(s.missing, "node", "nodes")
    );
    if let Some(sm) = h.sm {
        let silent = if sm.silent { ", does not answer" } else { "" };
        let _ = writeln!(
            out,
            "# SM LID {} {} priority {} {}{silent}",
            sm.lid,
            super::hex_guid(sm.guid),
            sm.priority,
            sm.state_name()
        );
    }
    if let Some(local) = h.local {
        if local.sm_lid == 0 {
            out.push_str("# no subnet manager: directed routes only, and no counters\n");
        }
        if local.pkey_limited {
            out.push_str("# limited P_Key: counters of switches only\n");
        }
    }
    for agent in &h.refused {
        let why = agent.refused.as_deref().unwrap_or_default();
        let why = crate::fabric::names::clean_str(why);
        let _ = writeln!(out, "# agent {} refused: {why}", agent.agent);
    }
    if let Some((_, why)) = h.gone {
        let _ = writeln!(out, "# device gone: {why}");
    }
    if h.dropped > 0 || h.malformed > 0 {
        let _ = writeln!(
            out,
            "# {} events lost, {} malformed",
            h.dropped, h.malformed
        );
    }
}

pub(super) fn link(row: &PortRow<'_>) -> String {
    match (row.width, row.speed) {
        (Some(width), Some(speed)) => format!("{width} {speed}"),
        _ => NONE.to_owned(),
    }
}

fn state(row: &PortRow<'_>) -> (String, String) {
    let state = row.state.map(crate::mad::PortState::new);
    let phys = row.phys.map(crate::mad::PhysState::new);
    (or_none(state), or_none(phys))
}

fn peer(row: &PortRow<'_>) -> String {
    match row.peer {
        None => match &row.told {
            Some(name) => format!("SA: {name}"),
            None if row.elsewhere => "none in this subnet".to_owned(),
            None => NONE.to_owned(),
        },
        Some(p) if p.former => format!("was {}[{}]", p.name, p.key.port),
        Some(p) => format!("{}[{}]", p.name, p.key.port),
    }
}

pub(super) fn ports(model: &Model, now: Stamp) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    let mut table = Table::new(&[
        "NODE",
        ">PORT",
        "STATE",
        "PHYS",
        ">LID",
        "LINK",
        "PEER",
        ">ERRORS",
        ">ERR/S",
        ">TX bit/s",
        ">RX bit/s",
        ">WAIT",
        ">AGE",
        "FLAGS",
    ]);
    let traffic: std::collections::BTreeMap<_, TrafficRow<'_>> =
        model.traffic(now).into_iter().map(|t| (t.key, t)).collect();
    for row in port_rows(model, now) {
        let (state, phys) = state(&row);
        let t = traffic.get(&row.key);
        let bps = |of: fn(&TrafficRow<'_>) -> Num<f64>| t.map_or(Num::Unknown, of);
        let flags: Vec<_> = flag_words(row.flags)
            .chain(row.protected.then_some("protected"))
            .collect();
        table.row(vec![
            row.name.to_owned(),
            row.key.port.to_string(),
            state,
            phys,
            or_none(row.lid),
            link(&row),
            peer(&row),
            count(row.errors),
            num(row.errors_per_s, si),
            num(bps(|t| t.tx_bps), si),
            num(bps(|t| t.rx_bps), si),
            num(bps(|t| t.wait), |v| format!("{:.1}%", v * 100.0)),
            row.age.map_or_else(|| NONE.to_owned(), seconds),
            flags.join(","),
        ]);
    }
    table.write(&mut out);
    out
}

/// The LIDs of a node's ports in this subnet; a port with several has a range.
fn lids(node: &Node) -> String {
    let words: Vec<String> = node
        .lids()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    match words.is_empty() {
        true => NONE.to_owned(),
        false => words.join(","),
    }
}

pub(super) fn nodes(model: &Model, now: Stamp) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    let mut table = Table::new(&[
        "NODE", "TYPE", "GUID", ">LID", ">PORTS", ">UP", "VENDOR", "DEVICE", "ROUTE", "STATUS",
    ]);
    let mut nodes: Vec<_> = model.topology().nodes().collect();
    nodes.sort_by_key(|n| (model.name(n.id), n.id));
    for node in nodes {
        let up = node
            .external_ports()
            .filter(|p| node.port(*p).is_some_and(|p| p.is_up()))
            .count();
        table.row(vec![
            model.name(node.id).to_owned(),
            model.topology().shown_kind(node).to_string(),
            node.id.to_string(),
            lids(node),
            node.external_ports().count().to_string(),
            up.to_string(),
            format!("{:#08x}", node.info.vendor_id()),
            format!("{:#06x}", node.info.device_id()),
            node.route.to_string(),
            super::json::node_status(model, node).to_owned(),
        ]);
    }
    table.write(&mut out);
    out
}

/// The last failure in words: what failed, of which attribute, and more where there is more.
fn failure(row: &DestinationRow<'_>) -> String {
    let Some(f) = &row.failure else {
        return String::new();
    };
    let mut text = format!("{} ({}) {} ago", f.kind, f.attribute, seconds(f.age));
    if !f.detail.is_empty() && f.detail != f.kind.to_string() {
        let _ = write!(text, ": {}", f.detail);
    }
    text
}

pub(super) fn timeouts(model: &Model, now: Stamp) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    let mut table = Table::new(&[
        "DESTINATION",
        ">LID",
        ">SENT",
        ">ANSWERED",
        ">RETRIED",
        ">TIMED OUT",
        ">IN FLIGHT",
        ">P50 µs",
        ">P99 µs",
        ">MAX µs",
        ">BACK-OFF",
        "LAST FAILURE",
    ]);
    let mut rows = model.destinations(now);
    rows.sort_by_key(|r| (r.name, r.node));
    for row in rows {
        table.row(vec![
            row.name.to_owned(),
            if row.lid == 0 {
                NONE.to_owned()
            } else {
                row.lid.to_string()
            },
            row.sent.to_string(),
            row.answered.to_string(),
            row.retried.to_string(),
            row.timed_out.to_string(),
            row.in_flight.to_string(),
            micros(row.p50),
            micros(row.p99),
            micros(row.max),
            row.back_off
                .map_or_else(String::new, |(n, wait)| format!("{n} x, {}", seconds(wait))),
            failure(&row),
        ]);
    }
    table.write(&mut out);
    out
}

pub(super) fn events(model: &Model, now: Stamp) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    for line in model.log() {
        let severity = match line.severity {
            Severity::Info => "info",
            Severity::Warning => "WARNING",
            Severity::Critical => "CRITICAL",
        };
        let _ = write!(
            out,
            "{} {severity:8} {}",
            iso(model.wall(line.first)),
            line.text
        );
        if line.count > 1 {
            let last = iso(model.wall(line.last));
            let _ = write!(out, " ({} times, last {last})", line.count);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_and_a_prefix() {
        let shown: Vec<_> = [0.0, 1.0, 999.4, 999.6, 12_345.0, 123_456_789.0, 2e11]
            .into_iter()
            .map(si)
            .collect();
        assert_eq!(
            shown,
            ["0", "1.00", "999", "1.00k", "12.3k", "123M", "200G"]
        );
    }

    #[test]
    fn a_number_never_passes_for_what_it_is_not() {
        let all = [
            Num::Unknown,
            Num::Reset,
            Num::Is(7),
            Num::AtLeast(7),
            Num::Stale(7),
        ];
        assert_eq!(all.map(count), ["—", "reset", "7", "≥7", "~7"]);
    }
}
