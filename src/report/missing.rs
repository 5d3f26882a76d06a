//! What of the fabric is missing, and why.

use std::fmt::Write as _;

use super::Format;
use super::table::Table;
use crate::model::Model;
use crate::model::view::MissingRow;
use crate::port::Stamp;

/// Everybody who is known of and missing, behind which port, why, and since when.
///
/// The length of the silence is counted from the request that failed for good.
pub fn missing(model: &Model, now: Stamp, format: Format) -> String {
    let mut rows = model.missing(now);
    rows.sort_by(|a, b| (&a.behind_name, &a.who, a.node).cmp(&(&b.behind_name, &b.who, b.node)));
    match format {
        Format::Text => text(model, now, &rows),
        Format::Json => json(model, now, &rows),
    }
}

fn why(row: &MissingRow<'_>) -> String {
    let mut words = row.why.to_string();
    if let Some(f) = &row.failure {
        let _ = write!(words, ": {} to {}", f.kind, f.attribute);
        if !f.detail.is_empty() && f.detail != f.kind.to_string() {
            let _ = write!(words, " ({})", f.detail);
        }
    }
    words
}

fn text(model: &Model, now: Stamp, rows: &[MissingRow<'_>]) -> String {
    let mut out = String::new();
    super::text::head(model, now, &mut out);
    if rows.is_empty() {
        out.push_str("# nothing is missing: every node that is known of answers\n");
        return out;
    }
    let mut table = Table::new(&["WHO", "GUID", "BEHIND", "WHY", ">SINCE s", "SA SAYS"]);
    for row in rows {
        table.row(vec![
            row.who.as_deref().unwrap_or("unknown").to_owned(),
            row.node.map_or_else(|| "—".to_owned(), |n| n.to_string()),
            row.behind_name.clone().unwrap_or_else(|| "—".to_owned()),
            why(row),
            row.since
                .map_or_else(|| "—".to_owned(), |d| format!("{:.1}", d.as_secs_f64())),
            row.sa_says.clone().unwrap_or_default(),
        ]);
    }
    table.write(&mut out);
    out
}

fn json(model: &Model, now: Stamp, rows: &[MissingRow<'_>]) -> String {
    let lines = rows.iter().map(|row| {
        super::json::text(&serde_json::json!({
            "name": row.who,
            "guid": row.node.map(|n| n.to_string()),
            "behind": row.behind.map(|via| serde_json::json!({
                "guid": via.node.to_string(), "port": via.port, "name": model.name(via.node),
            })),
            "why": row.why.to_string(),
            "failure": row.failure.as_ref().map(|f| serde_json::json!({
                "kind": f.kind.to_string(), "detail": f.detail, "attribute": f.attribute,
                "age_s": f.age.as_secs_f64(),
            })),
            "since_s": row.since.map(|d| d.as_secs_f64()),
            "sa_says": row.sa_says,
        }))
    });
    super::json::finish(super::json::rows(
        super::json::head(model, now),
        "missing",
        lines,
    ))
}
