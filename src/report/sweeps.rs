//! How long the sweeps take and what they cost: each loop's last sweep, and the MADs sent.

use std::fmt::Write as _;
use std::time::Duration;

use super::Format;
use super::table::Table;
use crate::model::Model;
use crate::model::view::SweepView;
use crate::port::Stamp;

/// Each loop's last sweep, and all MADs sent so far.
pub fn sweeps(model: &Model, now: Stamp, format: Format) -> String {
    let sweeps = model.header(now).sweeps;
    let sent: u64 = model.destinations(now).iter().map(|d| d.sent).sum();
    match format {
        Format::Text => text(model, now, &sweeps, sent),
        Format::Json => json(model, now, &sweeps, sent),
    }
}

/// `1.234 s`: to the microsecond, since a small fabric's sweep takes few of them.
fn seconds(d: Option<Duration>) -> String {
    d.map_or_else(|| "—".to_owned(), |d| format!("{:.6}", d.as_secs_f64()))
}

fn text(model: &Model, now: Stamp, sweeps: &[SweepView], sent: u64) -> String {
    let mut out = String::new();
    super::text::head(model, now, &mut out);
    let _ = writeln!(out, "# {sent} MADs sent");
    let mut table = Table::new(&["SWEEP", ">NUMBER", ">REQUESTS", ">FAILED", ">TOOK s", "NOW"]);
    for s in sweeps {
        table.row(vec![
            s.kind.to_string(),
            s.number.to_string(),
            s.done.to_string(),
            s.failed.to_string(),
            seconds(s.took),
            if s.running { "running" } else { "" }.to_owned(),
        ]);
    }
    table.write(&mut out);
    out
}

fn json(model: &Model, now: Stamp, sweeps: &[SweepView], sent: u64) -> String {
    let mut head = super::json::head(model, now);
    let _ = write!(head, ",\n\"mads_sent\":{sent}");
    let rows = sweeps.iter().map(|s| {
        super::json::text(&serde_json::json!({
            "kind": s.kind,
            "number": s.number,
            "running": s.running,
            "requests": s.done,
            "failed": s.failed,
            "took_s": s.took.map(|d| d.as_secs_f64()),
        }))
    });
    super::json::finish(super::json::rows(head, "sweeps", rows))
}
