//! Alerts as text and JSON, and whether there is one that a script should act on.

use std::fmt::Write as _;

use super::{Format, iso, json, text};
use crate::event::Severity;
use crate::model::view::{AlertRow, Finding};
use crate::model::{Model, so_many};
use crate::port::Stamp;

/// Every alert: the open ones, the gravest and then the newest first; then those cleared, the
/// last first.
pub fn alerts(model: &Model, now: Stamp, format: Format) -> String {
    match format {
        Format::Text => as_text(model, now),
        Format::Json => as_json(model, now),
    }
}

/// True if an alert of severity warning or critical is open.
pub fn any_grave(model: &Model) -> bool {
    let counts = model.alert_counts();
    counts.warning + counts.critical > 0
}

fn place(alert: &AlertRow<'_>) -> String {
    match (alert.name, alert.about) {
        (Some(name), Some(key)) if key.port != 0 => format!("{name}[{}]", key.port),
        (Some(name), _) => name.to_owned(),
        _ => "-".to_owned(),
    }
}

fn as_text(model: &Model, now: Stamp) -> String {
    let mut out = String::new();
    text::head(model, now, &mut out);
    let rows = model.alerts();
    let places: Vec<String> = rows.iter().map(place).collect();
    let room = places.iter().map(|p| p.chars().count()).max().unwrap_or(0);
    for (alert, place) in rows.iter().zip(&places) {
        let severity = match alert.severity {
            Severity::Info => "info",
            Severity::Warning => "WARNING",
            Severity::Critical => "CRITICAL",
        };
        let state = match alert.cleared {
            None => "open",
            Some(_) => "cleared",
        };
        let opened = iso(model.wall(alert.opened));
        let _ = write!(
            out,
            "{severity:8} {state:7} {opened} {place:room$} {}",
            alert.text
        );
        if let Some(suspect) = model.suspicion(alert) {
            let _ = write!(out, "; {suspect}");
        }
        if alert.times > 1 {
            let _ = write!(out, " ({} times)", alert.times);
        }
        if let Some(at) = alert.cleared {
            let _ = write!(out, " (cleared {})", iso(model.wall(at)));
        }
        out.push('\n');
    }
    let n = model.alert_counts();
    let _ = writeln!(
        out,
        "## Summary: {} open ({} critical, {} warning, {} info), {} cleared",
        so_many(n.all(), "alert", "alerts"),
        n.critical,
        n.warning,
        n.info,
        rows.len() - n.all()
    );
    out
}

fn as_json(model: &Model, now: Stamp) -> String {
    let rows = model.alerts();
    let lines = rows.iter().map(|alert| {
        let findings = match (alert.about, alert.cleared) {
            (Some(key), None) if key.port != 0 => model.diagnosis(key, now),
            _ => Vec::new(),
        };
        let sentences: Vec<String> = findings.iter().map(Finding::sentence).collect();
        json::text(&serde_json::json!({
            "alert": alert.kind,
            "severity": alert.severity.word(),
            "state": if alert.cleared.is_none() { "open" } else { "cleared" },
            "guid": alert.about.map(|k| k.node.to_string()),
            "port": alert.about.map(|k| k.port),
            "name": alert.name,
            "opened": iso(model.wall(alert.opened)),
            "seen": iso(model.wall(alert.seen)),
            "cleared": alert.cleared.map(|at| iso(model.wall(at))),
            "times": alert.times,
            "text": alert.text,
            "suspect": model.suspicion(alert),
            "diagnosis": sentences,
        }))
    });
    json::finish(json::rows(json::head(model, now), "alerts", lines))
}
