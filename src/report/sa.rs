//! Reports of subnet management: the SMs, and what the SA says.

use std::fmt::Write as _;

use super::json::{self, secs};
use super::table::Table;
use super::text::{NONE, head, num, or_none, seconds, si};
use super::{Format, hex_guid};
use crate::fabric::sa::SaTable;
use crate::mad::{Fields, SmState, Value};
use crate::model::view::{SaOutcome, SmRow};
use crate::model::{Model, so_many};
use crate::port::Stamp;

/// Every subnet manager that was found.
pub fn sms(model: &Model, now: Stamp, format: Format) -> String {
    let rows = model.subnet_managers(now);
    match format {
        Format::Text => sms_text(model, now, &rows),
        Format::Json => sms_json(model, now, &rows),
    }
}

/// The SA's tables, where they differ from what discovery saw, and the records of one of them
/// if that is wanted.
pub fn sa(model: &Model, now: Stamp, table: Option<SaTable>, format: Format) -> String {
    match format {
        Format::Text => sa_text(model, now, table),
        Format::Json => sa_json(model, now, table),
    }
}

fn remarks(row: &SmRow<'_>) -> Vec<&'static str> {
    let listed = row.listed.is_some();
    [
        (row.ours, "ours"),
        (row.silent.is_some(), "no answer"),
        (row.still.is_some(), "stalled"),
        (
            row.listed.is_some() && row.listed != row.state && row.state.is_some(),
            "SA differs",
        ),
        (listed && row.state.is_none(), "only the SA knows it"),
    ]
    .into_iter()
    .filter_map(|(on, word)| on.then_some(word))
    .collect()
}

fn sms_text(model: &Model, now: Stamp, rows: &[SmRow<'_>]) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    let masters = rows.iter().filter(|r| r.is_master()).count();
    match masters {
        1 => {}
        0 => out.push_str("# NO MASTER: no SM says that it is master\n"),
        n => {
            let _ = writeln!(out, "# {n} MASTERS: a subnet must have one");
        }
    }
    let mut table = Table::new(&[
        "NODE",
        ">PORT",
        "GUID",
        ">LID",
        ">PRIORITY",
        "STATE",
        "IN SA",
        ">ACTIVITY",
        ">PER s",
        ">IN STATE",
        ">AGE",
        "REMARKS",
    ]);
    for row in rows {
        table.row(vec![
            if row.key.is_some() {
                row.name
            } else {
                "(unknown)"
            }
            .to_owned(),
            or_none(row.key.map(|k| k.port)),
            hex_guid(row.guid),
            or_none((row.lid != 0).then_some(row.lid)),
            row.priority.to_string(),
            row.state_name(),
            or_none(row.listed.map(SmState::new)),
            or_none(row.activity),
            num(row.activity_per_s, si),
            row.changed.map_or_else(|| NONE.to_owned(), seconds),
            row.age.map_or_else(|| NONE.to_owned(), seconds),
            remarks(row).join(", "),
        ]);
    }
    table.write(&mut out);
    out
}

fn sms_json(model: &Model, now: Stamp, rows: &[SmRow<'_>]) -> String {
    let lines = rows.iter().map(|row| {
        json::text(&serde_json::json!({
            "guid": hex_guid(row.guid),
            "node_guid": row.key.map(|k| k.node.to_string()),
            "port": row.key.map(|k| k.port),
            "name": row.key.map(|_| row.name),
            "lid": (row.lid != 0).then_some(row.lid),
            "priority": row.priority,
            "state": row.state.map(|_| row.state_name()),
            "state_in_sa": row.listed.map(|s| SmState::new(s).to_string()),
            "activity": row.activity,
            "activity_per_s": json::N(row.activity_per_s),
            "stalled_s": row.still.map(secs),
            "silent_s": row.silent.map(secs),
            "in_state_s": row.changed.map(secs),
            "age_s": row.age.map(secs),
            "ours": row.ours,
        }))
    });
    json::finish(json::rows(json::head(model, now), "sms", lines))
}

fn sa_text(model: &Model, now: Stamp, table: Option<SaTable>) -> String {
    let mut out = String::new();
    head(model, now, &mut out);
    let (differences, more, doubtful) = model.sa_differences(now);
    let mut summary = Table::new(&["TABLE", "RECORDS OF", ">RECORDS", ">AGE", "STATUS"]);
    for view in model.sa_tables(now) {
        summary.row(vec![
            view.table.word().to_owned(),
            view.table.name().to_owned(),
            or_none(view.count),
            view.age.map_or_else(|| NONE.to_owned(), seconds),
            view.status(),
        ]);
    }
    summary.write(&mut out);
    let compared = model
        .sa_tables(now)
        .iter()
        .any(|v| SaTable::COMPARED.contains(&v.table) && v.outcome == Some(SaOutcome::Whole));
    out.push('\n');
    match differences.len() {
        0 if !compared => {
            out.push_str("Nothing was compared with discovery: no table came whole.\n")
        }
        0 if doubtful > 0 => {
            out.push_str("No confirmed difference between the SA and discovery.\n")
        }
        0 => out.push_str("No difference between the SA and discovery.\n"),
        n => {
            let _ = writeln!(
                out,
                "{} between the SA and discovery:",
                so_many(n + more, "difference", "differences")
            );
            for difference in &differences {
                let _ = writeln!(out, "  {}", difference.text);
            }
            if more > 0 {
                let _ = writeln!(out, "  and {more} more");
            }
        }
    }
    if doubtful > 0 {
        let _ = writeln!(
            out,
            "{} seen in one reading only, and to be confirmed by a second one.",
            so_many(doubtful, "difference was", "differences were")
        );
    }
    if let Some(table) = table {
        let _ = writeln!(out, "\n{}, as the SA has them:", table.name());
        let mut none = true;
        for record in model.sa_records(table) {
            none = false;
            out.push('\n');
            for field in Fields::new(table.fields(), record) {
                let _ = writeln!(out, "  {} {}", field.name(), field.value());
            }
        }
        if none {
            let view = model.sa_tables(now).into_iter().find(|v| v.table == table);
            let why = view.map_or_else(String::new, |v| match v.outcome {
                Some(SaOutcome::Whole) => "none".to_owned(),
                _ => v.status(),
            });
            let _ = writeln!(out, "  {why}");
        }
    }
    out
}

/// The fields of a record by name.
fn record_json(table: SaTable, record: &[u8]) -> serde_json::Value {
    let mut map = serde_json::Map::new();
    for field in Fields::new(table.fields(), record) {
        let value = match field.value() {
            Value::Hidden => serde_json::Value::Null,
            value => serde_json::to_value(value).unwrap_or_default(),
        };
        map.insert(field.name().into_owned(), value);
    }
    map.into()
}

fn sa_json(model: &Model, now: Stamp, table: Option<SaTable>) -> String {
    let tables = model.sa_tables(now);
    let lines = tables.iter().map(|view| {
        json::text(&serde_json::json!({
            "table": view.table.word(),
            "attribute": view.table.name(),
            "records": view.count,
            "age_s": view.age.map(secs),
            "status": view.status(),
        }))
    });
    let mut out = json::rows(json::head(model, now), "tables", lines);
    let (differences, more, doubtful) = model.sa_differences(now);
    let lines = differences.iter().map(|d| {
        let port = d.difference.port();
        json::text(&serde_json::json!({
            "table": d.difference.table().word(),
            "guid": port.map(|k| k.node.to_string()),
            "port": port.map(|k| k.port),
            "text": d.text,
            "known_s": secs(d.age),
        }))
    });
    out = json::rows(out, "differences", lines);
    let _ = write!(
        out,
        ",\n\"more_differences\":{more},\n\"unconfirmed_differences\":{doubtful}"
    );
    if let Some(table) = table {
        let lines = model
            .sa_records(table)
            .map(|record| json::text(&record_json(table, record)));
        out = json::rows(out, "records", lines);
    }
    json::finish(out)
}
