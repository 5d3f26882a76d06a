//! Reports as JSON: see the room's docs for how numbers are written.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{flag_words, hex_guid, iso, port_rows};
use crate::event::Severity;
use crate::fabric::{Node, NodeKind, PortKey, effective_gbps};
use crate::mad::{PhysState, PortState};
use crate::model::diagnosis::Finding;
use crate::model::view::{CounterView, DestinationRow, DetailGroup, FecView, PortRow, TrafficRow};
use crate::model::{Ber, Model, Num};
use crate::port::Stamp;

/// A number with its state.
pub(super) struct N<T>(pub(super) Num<T>);

impl<T: Serialize + Copy> Serialize for N<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let (value, state) = match self.0 {
            Num::Unknown => return s.serialize_none(),
            Num::Is(v) => return v.serialize(s),
            Num::AtLeast(v) => (Some(v), "saturated"),
            Num::Stale(v) => (Some(v), "stale"),
            Num::Reset => (None, "reset"),
        };
        let mut map = s.serialize_map(Some(2))?;
        map.serialize_entry("value", &value)?;
        map.serialize_entry("state", state)?;
        map.end()
    }
}

/// Counters by name, in perfquery's order.
struct PerCounter<'a, T>(&'a [CounterView], fn(&CounterView) -> Num<T>);

impl<T: Serialize + Copy> Serialize for PerCounter<'_, T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0.iter().map(|c| (c.name, N((self.1)(c)))))
    }
}

#[derive(Serialize)]
struct PeerRow<'a> {
    guid: String,
    port: u8,
    name: &'a str,
    /// The link is gone; this is where it led.
    former: bool,
}

/// A bit error rate: a number, or a limit that says so.
struct B(Ber);

impl Serialize for B {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.get() {
            None => s.serialize_none(),
            Some((v, "")) => v.serialize(s),
            Some((v, state)) => {
                let mut map = s.serialize_map(Some(2))?;
                map.serialize_entry("value", &v)?;
                map.serialize_entry("state", state)?;
                map.end()
            }
        }
    }
}

#[derive(Serialize)]
struct FecReport<'a> {
    mode: Option<String>,
    counters: PerCounter<'a, u64>,
    increments: PerCounter<'a, u64>,
    raw_ber: B,
    effective_ber: B,
    /// The time that both are of.
    interval_s: f64,
    raw_ber_since: B,
    effective_ber_since: B,
    /// The time that both are of.
    since_s: f64,
    age_s: Option<f64>,
}

fn fec_report(fec: &FecView) -> FecReport<'_> {
    FecReport {
        mode: fec.mode.map(|m| m.to_string()),
        counters: PerCounter(&fec.counters, |c| c.value),
        increments: PerCounter(&fec.counters, |c| c.since),
        raw_ber: B(fec.raw),
        effective_ber: B(fec.effective),
        interval_s: secs(fec.span),
        raw_ber_since: B(fec.raw_since),
        effective_ber_since: B(fec.effective_since),
        since_s: secs(fec.observed),
        age_s: fec.age.map(secs),
    }
}

/// Optional counters by attribute and name; an attribute that is missing says why.
fn details<S: Serializer>(groups: &[DetailGroup], s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(groups.iter().map(|g| {
        let mut fields = serde_json::Map::new();
        for row in &g.rows {
            let value = serde_json::to_value(N(row.value)).unwrap_or_default();
            fields.insert(row.name.clone(), value);
        }
        if let Some(why) = &g.missing {
            fields.insert("missing".to_owned(), why.as_str().into());
        }
        (g.attribute, fields)
    }))
}

#[derive(Serialize)]
struct Port<'a> {
    guid: String,
    port: u8,
    name: &'a str,
    r#type: &'static str,
    lid: Option<u16>,
    state: Option<String>,
    phys_state: Option<String>,
    width: Option<String>,
    speed: Option<String>,
    rate_gbit_per_s: Option<f64>,
    peer: Option<PeerRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_in_sa: Option<String>,
    /// Its link leads to nobody in this subnet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    elsewhere: bool,
    flags: Vec<&'static str>,
    age_s: Option<f64>,
    state_age_s: Option<f64>,
    counters_age_s: Option<f64>,
    stale: bool,
    errors: N<u64>,
    errors_per_s: N<f64>,
    tx_bits_per_s: N<f64>,
    rx_bits_per_s: N<f64>,
    tx_share: N<f64>,
    rx_share: N<f64>,
    wait_share: N<f64>,
    tx_packet_bytes: N<f64>,
    rx_packet_bytes: N<f64>,
    tx_multicast_share: N<f64>,
    rx_multicast_share: N<f64>,
    fec: Option<FecReport<'a>>,
    /// What both ends' counters say of the link, the gravest first.
    diagnosis: Vec<String>,
    #[serde(skip_serializing_if = "<[DetailGroup]>::is_empty")]
    #[serde(serialize_with = "details")]
    details: &'a [DetailGroup],
    counters: PerCounter<'a, u64>,
    increments: PerCounter<'a, u64>,
    per_s: PerCounter<'a, f64>,
}

pub(super) fn secs(d: Duration) -> f64 {
    d.as_secs_f64()
}

pub(super) fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Unknown => "unknown",
        NodeKind::Ca => "CA",
        NodeKind::Switch => "switch",
        NodeKind::Router => "router",
        NodeKind::Aggregation => "aggregation node",
    }
}

/// Whether a node is there and answers, in a word.
pub(super) fn node_status(model: &Model, node: &Node) -> &'static str {
    if !node.present {
        return "unreachable";
    }
    if node.guarded {
        "protected"
    } else if model.answers(node.id) {
        "ok"
    } else {
        "no_answer"
    }
}

/// One JSON text a line, joined into the object that `head` began.
pub(super) fn rows(mut out: String, name: &str, rows: impl Iterator<Item = String>) -> String {
    out.push_str(&format!(",\n\"{name}\":["));
    for (i, row) in rows.enumerate() {
        out.push_str(if i == 0 { "\n" } else { ",\n" });
        out.push_str(&row);
    }
    out.push_str("\n]");
    out
}

pub(super) fn finish(mut out: String) -> String {
    out.push_str("\n}\n");
    out
}

/// The text of a value. These values cannot fail: all keys are strings.
pub(super) fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

pub(super) fn head(model: &Model, now: Stamp) -> String {
    let h = model.header(now);
    let mut out = String::from("{");
    let mut entry = |key: &str, value: String| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&format!("\n\"{key}\":{value}"));
    };
    entry("source", text(&h.source));
    entry("simulated", text(&h.simulated));
    entry("host", text(&h.host));
    entry("time", text(&iso(h.wall)));
    entry("uptime_s", text(&secs(h.uptime)));
    entry("complete", text(&model.is_discovered()));
    entry(
        "local",
        match h.local {
            None => "null".to_owned(),
            Some(l) => text(&serde_json::json!({
                "ca": l.ca,
                "port": l.port,
                "node_guid": hex_guid(l.node_guid),
                "port_guid": hex_guid(l.port_guid),
                "lid": l.lid,
                "sm_lid": l.sm_lid,
                "pkey_limited": l.pkey_limited,
                "state": PortState::new(l.state).to_string(),
            })),
        },
    );
    entry(
        "sm",
        match h.sm {
            None => "null".to_owned(),
            Some(sm) => text(&serde_json::json!({
                "lid": sm.lid,
                "guid": hex_guid(sm.guid),
                "priority": sm.priority,
                "state": sm.state_name(),
                "activity": sm.activity,
                "age_s": secs(sm.age),
            })),
        },
    );
    let s = h.size;
    let size = serde_json::json!({
        "switches": s.switches, "cas": s.cas, "aggregation_nodes": s.aggregators,
        "routers": s.routers, "links": s.links,
        "ports": s.ports, "connected": s.connected, "missing": s.missing, "protected": s.protected,
        "unknown_ends": super::unknown_ends(model, now),
    });
    entry("size", text(&size));
    entry("events_lost", text(&h.dropped));
    entry("malformed", text(&h.malformed));
    let refused: BTreeMap<_, _> = h
        .refused
        .iter()
        .map(|a| {
            (
                a.agent.to_string(),
                a.refused.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    entry("refused_agents", text(&refused));
    out
}

fn port_text(
    row: &PortRow<'_>,
    t: Option<&TrafficRow<'_>>,
    counters: &[CounterView],
    fec: Option<&FecView>,
    groups: &[DetailGroup],
    findings: &[Finding],
) -> String {
    let of = |f: fn(&TrafficRow<'_>) -> Num<f64>| N(t.map_or(Num::Unknown, f));
    text(&Port {
        guid: row.key.node.to_string(),
        port: row.key.port,
        name: row.name,
        r#type: kind(row.kind),
        lid: row.lid,
        state: row.state.map(|s| PortState::new(s).to_string()),
        phys_state: row.phys.map(|s| PhysState::new(s).to_string()),
        width: row.width.map(|w| w.to_string()),
        speed: row.speed.map(|s| s.to_string()),
        rate_gbit_per_s: row
            .width
            .zip(row.speed)
            .and_then(|(w, s)| effective_gbps(w, s)),
        peer_in_sa: row.told.clone(),
        elsewhere: row.elsewhere,
        peer: row.peer.map(|p| PeerRow {
            guid: p.key.node.to_string(),
            port: p.key.port,
            name: p.name,
            former: p.former,
        }),
        flags: flag_words(row.flags)
            .chain(row.protected.then_some("protected"))
            .collect(),
        age_s: row.age.map(secs),
        state_age_s: row.state_age.map(secs),
        counters_age_s: row.counters_age.map(secs),
        stale: row.stale,
        errors: N(row.errors),
        errors_per_s: N(row.errors_per_s),
        tx_bits_per_s: of(|t| t.tx_bps),
        rx_bits_per_s: of(|t| t.rx_bps),
        tx_share: of(|t| t.tx_share()),
        rx_share: of(|t| t.rx_share()),
        wait_share: of(|t| t.wait),
        tx_packet_bytes: of(|t| t.tx_packet),
        rx_packet_bytes: of(|t| t.rx_packet),
        tx_multicast_share: of(|t| t.tx_multicast),
        rx_multicast_share: of(|t| t.rx_multicast),
        fec: fec.map(fec_report),
        diagnosis: findings.iter().map(Finding::sentence).collect(),
        details: groups,
        counters: PerCounter(counters, |c| c.value),
        increments: PerCounter(counters, |c| c.since),
        per_s: PerCounter(counters, |c| c.rate),
    })
}

pub(super) fn ports(model: &Model, now: Stamp) -> String {
    let traffic: BTreeMap<PortKey, TrafficRow<'_>> =
        model.traffic(now).into_iter().map(|t| (t.key, t)).collect();
    let all = port_rows(model, now);
    let lines = all.iter().map(|row| {
        let key = row.key;
        port_text(
            row,
            traffic.get(&key),
            &model.counters(key, now),
            model.fec(key, now).as_ref(),
            &model.details(key, now),
            &model.diagnosis(key, now),
        )
    });
    finish(rows(head(model, now), "ports", lines))
}

pub(super) fn nodes(model: &Model, now: Stamp) -> String {
    let mut nodes: Vec<_> = model.topology().nodes().collect();
    nodes.sort_by_key(|n| (model.name(n.id), n.id));
    let lines = nodes.into_iter().map(|node| {
        let up = node
            .external_ports()
            .filter(|p| node.port(*p).is_some_and(|p| p.is_up()))
            .count();
        text(&serde_json::json!({
            "guid": node.id.to_string(),
            "name": model.name(node.id),
            "type": kind(model.topology().shown_kind(node)),
            "system_image_guid": hex_guid(node.info.system_image_guid()),
            "lid": node.any_lid(),
            "lids": node.lids().collect::<Vec<_>>(),
            "ports": node.external_ports().count(),
            "ports_up": up,
            "vendor_id": format!("{:#08x}", node.info.vendor_id()),
            "device_id": format!("{:#06x}", node.info.device_id()),
            "route": node.route.to_string(),
            "status": node_status(model, node),
        }))
    });
    finish(rows(head(model, now), "nodes", lines))
}

fn destination_text(row: &DestinationRow<'_>) -> String {
    let micros = |d: Option<Duration>| d.map(|d| d.as_nanos() as f64 / 1000.0);
    text(&serde_json::json!({
        "name": row.name,
        "guid": row.node.map(|n| n.to_string()),
        "lid": (row.lid != 0).then_some(row.lid),
        "sent": row.sent,
        "answered": row.answered,
        "retried": row.retried,
        "timed_out": row.timed_out,
        "in_flight": row.in_flight,
        "latency_p50_us": micros(row.p50),
        "latency_p99_us": micros(row.p99),
        "latency_max_us": micros(row.max),
        "back_off": row.back_off.map(|(failures, wait)| serde_json::json!({
            "failures": failures, "asked_again_in_s": secs(wait),
        })),
        "last_failure": row.failure.as_ref().map(|f| serde_json::json!({
            "kind": f.kind.to_string(), "detail": f.detail, "attribute": f.attribute,
            "age_s": secs(f.age),
        })),
        "missing": row.missing.map(|(why, since)| serde_json::json!({
            "why": why.to_string(), "since_s": since.map(secs),
        })),
    }))
}

pub(super) fn timeouts(model: &Model, now: Stamp) -> String {
    let mut dests = model.destinations(now);
    dests.sort_by_key(|r| (r.name, r.node));
    let out = rows(
        head(model, now),
        "destinations",
        dests.iter().map(destination_text),
    );
    let flying = model.in_flight(now);
    let lines = flying.iter().map(|f| {
        text(&serde_json::json!({
            "name": f.who,
            "guid": f.node.map(|n| n.to_string()),
            "port": f.port,
            "class": f.class,
            "attribute": crate::mad::names::attribute(
                crate::mad::MgmtClass::new(f.class), f.attribute),
            "modifier": f.modifier,
            "attempt": f.attempt,
            "age_s": secs(f.age),
        }))
    });
    finish(rows(out, "in_flight", lines))
}

pub(super) fn events(model: &Model, now: Stamp) -> String {
    let lines = model.log().iter().map(|line| {
        text(&serde_json::json!({
            "first": iso(model.wall(line.first)),
            "last": iso(model.wall(line.last)),
            "count": line.count,
            "severity": match line.severity {
                Severity::Info => "info",
                Severity::Warning => "warning",
                Severity::Critical => "critical",
            },
            "guid": line.about.map(|k| k.node.to_string()),
            "port": line.about.map(|k| k.port),
            "text": line.text,
        }))
    });
    finish(rows(head(model, now), "events", lines))
}
