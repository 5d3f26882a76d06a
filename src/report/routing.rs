//! Reports of forwarding: a path hop by hop, a switch's table, who is reached by a port.

use std::fmt::Write as _;

use super::json::{self, secs};
use super::table::Table;
use super::text::{NONE, count, head, num, or_none, seconds, si};
use super::{Format, flag_words};
use crate::fabric::{Lid, NodeId, NodeKind, PortKey};
use crate::mad::PortState;
use crate::model::view::{
    HopView, PATH_LABEL, PathView, RouteRow, RoutesView, TABLE_TOLD, UsesView,
};
use crate::model::{Model, Num, so_many};
use crate::port::Stamp;

/// The path from a port to a LID by the forwarding tables.
pub fn path(model: &Model, now: Stamp, from: PortKey, lid: Lid, format: Format) -> String {
    let view = model.path(from, lid, now);
    match format {
        Format::Text => path_text(model, now, &view),
        Format::Json => path_json(model, now, &view),
    }
}

/// A switch's table; `None` if it is no switch that is known.
pub fn routes(model: &Model, now: Stamp, switch: NodeId, format: Format) -> Option<String> {
    let view = model.routes(switch, now)?;
    Some(match format {
        Format::Text => routes_text(model, now, &view),
        Format::Json => routes_json(model, now, &view),
    })
}

/// The destinations that are reached by a port; `None` if the port is not known.
pub fn uses(model: &Model, now: Stamp, port: PortKey, format: Format) -> Option<String> {
    let view = model.uses(port, now)?;
    Some(match format {
        Format::Text => uses_text(model, now, &view),
        Format::Json => uses_json(model, now, &view),
    })
}

/// `name[port]`; the bare LID of nobody known.
fn end(at: Option<(PortKey, &str)>, lid: Lid) -> String {
    match at {
        Some((key, name)) => format!("{name}[{}] LID {lid}", key.port),
        None => format!("LID {lid}, which nobody known has"),
    }
}

/// How old the tables are, and whether that matters.
fn tables_line(age: Option<std::time::Duration>, outdated: bool, out: &mut String) {
    if let Some(age) = age {
        let _ = write!(out, "# tables read {} ago", seconds(age));
        if outdated {
            out.push_str("; the fabric changed since: they may be outdated");
        }
        out.push('\n');
    }
}

fn path_text(model: &Model, now: Stamp, view: &PathView<'_>) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    let (from, name) = view.from;
    let to = match &view.to_in_sa {
        Some(name) => format!("{name} LID {}, which only the SA knows", view.lid),
        None => end(view.to, view.lid),
    };
    let _ = writeln!(out, "# path from {name}[{}] to {to}", from.port);
    let _ = writeln!(out, "# {PATH_LABEL}");
    tables_line(view.age, view.outdated, &mut out);
    for hop in view.hops.iter().filter(|hop| hop.told) {
        let _ = writeln!(out, "# {}: {TABLE_TOLD}", hop.name);
    }
    let mut table = Table::new(&[
        ">HOP",
        "NODE",
        "TYPE",
        ">LID",
        ">IN",
        ">OUT",
        "STATE",
        "LINK",
        ">SENDS bit/s",
        ">USED",
        ">ERRORS",
        ">ERR/S",
        "FLAGS",
    ]);
    for (number, hop) in view.hops.iter().enumerate() {
        let out = hop.out.as_ref();
        let row = out.map(|(row, _)| row).or(hop.into.as_ref());
        let load = out.map(|(_, traffic)| traffic);
        table.row(vec![
            number.to_string(),
            hop.name.to_owned(),
            hop.kind.to_string(),
            or_none(hop.lid),
            or_none(hop.enters),
            or_none(hop.leaves),
            or_none(row.and_then(|r| r.state).map(PortState::new)),
            row.map_or_else(String::new, super::text::link),
            num(load.map_or(Num::Unknown, |t| t.tx_bps), si),
            num(load.map_or(Num::Unknown, |t| t.tx_share()), |v| {
                format!("{:.1}%", v * 100.0)
            }),
            count(errors(hop)),
            num(row.map_or(Num::Unknown, |r| r.errors_per_s), si),
            flags(hop).join(","),
        ]);
    }
    if let Some(beyond) = &view.beyond {
        let mut row = vec![String::new(); 13];
        let name = match beyond.name.as_str() {
            "" => "(unknown)",
            name => name,
        };
        for (cell, text) in row.iter_mut().zip([
            view.hops.len().to_string(),
            name.to_owned(),
            "not seen".to_owned(),
            beyond.lid.to_string(),
            beyond.port.to_string(),
        ]) {
            *cell = text;
        }
        if let Some(last) = row.last_mut() {
            "as the SA tells it".clone_into(last);
        }
        table.row(row);
    }
    table.write(&mut out);
    let switches = view
        .hops
        .iter()
        .filter(|h| h.kind == NodeKind::Switch)
        .count();
    if view.arrives {
        let _ = writeln!(
            out,
            "# arrives, over {}",
            so_many(switches, "switch", "switches")
        );
        if view.beyond.is_some() {
            let _ = writeln!(out, "# {}", view.end);
        }
    } else if !view.known {
        let _ = writeln!(out, "# NOT KNOWN whether it arrives: {}", view.end);
    } else {
        let _ = writeln!(out, "# DOES NOT ARRIVE: {}", view.end);
    }
    out
}

/// Errors of the port by which the path leaves; of the last node, by which it enters.
fn errors(hop: &HopView<'_>) -> Num<u64> {
    let row = hop.out.as_ref().map(|(row, _)| row).or(hop.into.as_ref());
    row.map_or(Num::Unknown, |r| r.errors)
}

/// Flags of both ports that the path uses, each once.
fn flags(hop: &HopView<'_>) -> Vec<&'static str> {
    let mut words = Vec::new();
    words.extend(hop.told.then_some("table from the SA"));
    let rows = [hop.into.as_ref(), hop.out.as_ref().map(|(row, _)| row)];
    for word in rows.into_iter().flatten().flat_map(|r| flag_words(r.flags)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

fn path_json(model: &Model, now: Stamp, view: &PathView<'_>) -> String {
    let mut head = json::head(model, now);
    let (from, name) = view.from;
    let value = serde_json::json!({
        "from": {"guid": from.node.to_string(), "port": from.port, "name": name},
        "lid": view.lid,
        "to": view.to.map(|(to, name)| serde_json::json!({
            "guid": to.node.to_string(), "port": to.port, "name": name,
        })),
        "to_in_sa": view.to_in_sa,
        "beyond": view.beyond.as_ref().map(|b| serde_json::json!({
            "name": b.name, "lid": b.lid, "in": b.port, "from": "sa",
        })),
        "basis": PATH_LABEL,
        "arrives": view.arrives,
        "end": view.end,
        "tables_age_s": view.age.map(secs),
        "tables_outdated": view.outdated,
    });
    let _ = write!(head, ",\n\"path\":{}", json::text(&value));
    let lines = view.hops.iter().map(|hop| {
        let row = hop.out.as_ref().map(|(row, _)| row).or(hop.into.as_ref());
        let load = hop.out.as_ref().map(|(_, traffic)| traffic);
        json::text(&serde_json::json!({
            "guid": hop.node.to_string(),
            "name": hop.name,
            "type": json::kind(hop.kind),
            "lid": hop.lid,
            "in": hop.enters,
            "out": hop.leaves,
            "state": row.and_then(|r| r.state).map(|s| PortState::new(s).to_string()),
            "tx_bits_per_s": json::N(load.map_or(Num::Unknown, |t| t.tx_bps)),
            "tx_share": json::N(load.map_or(Num::Unknown, |t| t.tx_share())),
            "errors": json::N(errors(hop)),
            "errors_per_s": json::N(row.map_or(Num::Unknown, |r| r.errors_per_s)),
            "flags": flags(hop),
            "table_age_s": hop.age.map(secs),
            "table_from": hop.age.map(|_| table_from(hop.told)),
        }))
    });
    json::finish(json::rows(head, "hops", lines))
}

/// Whose word a table is, for JSON.
fn table_from(told: bool) -> &'static str {
    if told { "sa" } else { "switch" }
}

/// What has a LID, in the words of the classic dumps.
fn info(model: &Model, row: &RouteRow<'_>) -> String {
    let Some((key, name)) = row.to else {
        return "(unknown node and type)".to_owned();
    };
    let node = model.topology().node(key.node);
    let kind = match node.map(|n| n.kind) {
        Some(NodeKind::Switch) => "Switch",
        Some(NodeKind::Ca) => "Channel Adapter",
        Some(NodeKind::Router) => "Router",
        _ => "Node",
    };
    let guid = node.and_then(|n| n.port(key.port)?.guid);
    let guid = guid.map_or_else(|| NONE.to_owned(), |g| g.to_string());
    format!("({kind} portguid {guid}: '{name}')")
}

fn routes_text(model: &Model, now: Stamp, view: &RoutesView<'_>) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    tables_line(view.age, view.outdated, &mut out);
    if view.told {
        let _ = writeln!(out, "# {TABLE_TOLD}");
    }
    let lid = |lid: Option<Lid>| lid.map_or_else(|| NONE.to_owned(), |l| format!("{l:#x}"));
    let _ = writeln!(
        out,
        "Unicast lids [0x0-{}] of switch Lid {} guid {} ({}):",
        lid(view.top),
        or_none(view.lid),
        view.node,
        view.name
    );
    out.push_str("  Lid  Out   Destination\n       Port     Info\n");
    for row in &view.rows {
        let info = info(model, row);
        let _ = writeln!(out, "{:#06x} {:03} : {info}", row.lid, row.port);
    }
    let _ = writeln!(out, "{} valid lids dumped", view.rows.len());
    unread(view, &mut out);
    out
}

fn unread(view: &RoutesView<'_>, out: &mut String) {
    let (have, all) = view.read;
    if let Some(note) = &view.note {
        let _ = writeln!(out, "# {note}");
    } else if view.top.is_none() {
        let _ = writeln!(out, "# {} did not say how large its table is", view.name);
    } else if have < all {
        let _ = writeln!(
            out,
            "# NOT COMPLETE: {have} of {all} blocks of the table were read"
        );
    }
}

fn routes_json(model: &Model, now: Stamp, view: &RoutesView<'_>) -> String {
    let mut head = json::head(model, now);
    let value = serde_json::json!({
        "guid": view.node.to_string(),
        "name": view.name,
        "lid": view.lid,
        "top": view.top,
        "table_from": table_from(view.told),
        "note": view.note,
        "blocks_read": view.read.0,
        "blocks": view.read.1,
        "age_s": view.age.map(secs),
        "outdated": view.outdated,
    });
    let _ = write!(head, ",\n\"switch\":{}", json::text(&value));
    let lines = view.rows.iter().map(|row| {
        json::text(&serde_json::json!({
            "lid": row.lid,
            "out": row.port,
            "guid": row.to.map(|(key, _)| key.node.to_string()),
            "port": row.to.map(|(key, _)| key.port),
            "name": row.to.map(|(_, name)| name),
        }))
    });
    json::finish(json::rows(head, "routes", lines))
}

/// LIDs as ranges: `4-7 12`.
pub(super) fn ranges(lids: &[Lid]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while let Some(&first) = lids.get(at) {
        let mut last = first;
        at += 1;
        while lids.get(at).is_some_and(|l| *l == last.saturating_add(1)) {
            last = last.saturating_add(1);
            at += 1;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        let _ = match first == last {
            true => write!(out, "{first}"),
            false => write!(out, "{first}-{last}"),
        };
    }
    out
}

fn uses_text(model: &Model, now: Stamp, view: &UsesView<'_>) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    let (port, name) = view.port;
    let peer = match view.peer {
        Some((key, name)) => format!("{name}[{}]", key.port),
        None if port.port == 0 => "the switch itself".to_owned(),
        None => "nobody".to_owned(),
    };
    let _ = writeln!(
        out,
        "# reached by {name}[{}] (to {peer}): {}, {} of {} LIDs that have a route",
        port.port,
        so_many(view.destinations.len(), "destination", "destinations"),
        view.lids,
        view.routed
    );
    let _ = writeln!(out, "# {PATH_LABEL}");
    tables_line(view.age, view.outdated, &mut out);
    if view.told {
        let _ = writeln!(out, "# {TABLE_TOLD}");
    }
    if let Some(note) = &view.note {
        let _ = writeln!(out, "# {note}");
    }
    let mut table = Table::new(&["DESTINATION", ">PORT", "GUID", "LIDS"]);
    for to in &view.destinations {
        table.row(vec![
            if to.key.is_some() {
                to.name
            } else {
                "(unknown)"
            }
            .to_owned(),
            or_none(to.key.map(|k| k.port)),
            or_none(to.key.map(|k| k.node)),
            ranges(&to.lids),
        ]);
    }
    table.write(&mut out);
    out
}

fn uses_json(model: &Model, now: Stamp, view: &UsesView<'_>) -> String {
    let mut head = json::head(model, now);
    let (port, name) = view.port;
    let value = serde_json::json!({
        "guid": port.node.to_string(),
        "port": port.port,
        "name": name,
        "peer": view.peer.map(|(key, name)| serde_json::json!({
            "guid": key.node.to_string(), "port": key.port, "name": name,
        })),
        "lids": view.lids,
        "lids_routed": view.routed,
        "basis": PATH_LABEL,
        "note": view.note,
        "table_from": table_from(view.told),
        "note": view.note,
        "blocks_read": view.read.0,
        "blocks": view.read.1,
        "age_s": view.age.map(secs),
        "outdated": view.outdated,
    });
    let _ = write!(head, ",\n\"uses\":{}", json::text(&value));
    let lines = view.destinations.iter().map(|to| {
        json::text(&serde_json::json!({
            "guid": to.key.map(|k| k.node.to_string()),
            "port": to.key.map(|k| k.port),
            "name": to.key.map(|_| to.name),
            "lids": to.lids,
        }))
    });
    json::finish(json::rows(head, "destinations", lines))
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn lids_are_listed_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[7]), "7");
        assert_eq!(ranges(&[4, 5, 6, 7, 12, 14, 15]), "4-7 12 14-15");
        assert_eq!(ranges(&[0xFFFE, 0xFFFF]), "65534-65535");
    }
}
