//! One-shot reports of a model: aligned text for people, JSON for scripts, and the topology text
//! that other tools parse.
//!
//! The same model gives the same bytes, live or replayed, if `now` is the time of its last event
//! ([`Model::last`]). Rows are in order of name, then GUID, then port.
//!
//! # JSON
//!
//! One object, rows one a line. A number that is exact and current is a plain number; `null` is
//! unknown (never read, or the node does not have it); anything else says what it is:
//!
//! ```json
//! {"value": 65535, "state": "saturated"}   the truth is this or more
//! {"value": null,  "state": "reset"}       somebody reset it: nothing can be said of the change
//! {"value": 12,    "state": "stale"}       older than two intervals
//! ```
//!
//! GUIDs are strings of the form `"0x%016x"`. Counters have perfquery's names and units, so
//! `PortXmitData` and `PortRcvData` count words of four octets; every other key that has a unit
//! names it (`tx_bits_per_s`, `age_s`). Rates and increments under `per_s` and `increments` are
//! per counter, in the counter's own unit; increments count from the session's first sample.
//!
//! Bit error rates are numbers too (see [`crate::model::ber`] for the formula), or
//! `{"value": 2e-13, "state": "below"}` where no error was seen in as many bits as make that the
//! limit, or `at_least` where a counter was pegged. `fec` is null for a port that was never asked;
//! `details` holds the optional counters by attribute, as far as somebody looked at the port, and
//! under `missing` why there are none.
//!
//! This room must never hold state of its own, and never print: it returns text.

mod alerts;
mod json;
mod missing;
mod routing;
mod sa;
mod sweeps;
mod table;
mod text;
mod topology;

pub use alerts::{alerts, any_grave};
pub use missing::missing;
pub use routing::{path, routes, uses};
pub use sa::{sa, sms};
pub use sweeps::sweeps;
pub use topology::topology;

use crate::fabric::Guid;
use crate::model::Model;
use crate::model::view::{Absence, Flags, PortRow};
use crate::port::Stamp;

/// Ports with a link behind which nobody is known: who is there cannot be among the nodes that
/// are missing.
fn unknown_ends(model: &Model, now: Stamp) -> usize {
    let unknown = |why| matches!(why, Absence::SilentBehind | Absence::NotAsked);
    let rows = model.missing(now);
    rows.iter()
        .filter(|row| row.behind.is_some() && unknown(row.why))
        .count()
}

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned plain text.
    #[default]
    Text,
    /// JSON.
    Json,
}

/// Every port: state, link, peer, errors, traffic, counters.
pub fn ports(model: &Model, now: Stamp, format: Format) -> String {
    match format {
        Format::Text => text::ports(model, now),
        Format::Json => json::ports(model, now),
    }
}

/// Every node: what it is, its ports, whether it answers.
pub fn nodes(model: &Model, now: Stamp, format: Format) -> String {
    match format {
        Format::Text => text::nodes(model, now),
        Format::Json => json::nodes(model, now),
    }
}

/// Every destination: sent, answered, retried, timed out, latency, last failure.
pub fn timeouts(model: &Model, now: Stamp, format: Format) -> String {
    match format {
        Format::Text => text::timeouts(model, now),
        Format::Json => json::timeouts(model, now),
    }
}

/// The event log.
pub fn events(model: &Model, now: Stamp, format: Format) -> String {
    match format {
        Format::Text => text::events(model, now),
        Format::Json => json::events(model, now),
    }
}

/// Flags in words, gravest first.
fn flag_words(flags: Flags) -> impl Iterator<Item = &'static str> {
    [
        (flags.unreachable, "unreachable"),
        (flags.no_answer, "no_answer"),
        (flags.down, "down"),
        (flags.errors, "errors"),
        (flags.below_best, "below_best"),
        (flags.disagree, "ends_differ"),
        (flags.saturated, "saturated"),
        (flags.not_active, "not_active"),
    ]
    .into_iter()
    .filter_map(|(set, word)| set.then_some(word))
}

/// The rows of a port report, in its order.
fn port_rows<'m>(model: &'m Model, now: Stamp) -> Vec<PortRow<'m>> {
    let mut rows = model.ports(now);
    rows.sort_by(|a, b| (a.name, a.key).cmp(&(b.name, b.key)));
    rows
}

fn hex_guid(guid: u64) -> String {
    Guid(guid).to_string()
}

/// Seconds since the epoch as a civil date and time in UTC: year, month, day, hour, minute,
/// second, weekday (0 = Sunday).
fn civil(wall_ns: i64) -> (i64, u32, u32, u32, u32, u32, u32) {
    let secs = wall_ns.div_euclid(1_000_000_000);
    let (days, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    // Days are counted in 400-year eras from 1 March of year 0, so that leap days come last.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (
        year,
        month as u32,
        day as u32,
        (second / 3600) as u32,
        (second / 60 % 60) as u32,
        (second % 60) as u32,
        (days + 4).rem_euclid(7) as u32,
    )
}

/// Wall time as `2026-11-29T22:16:46.123Z`.
fn iso(wall_ns: i64) -> String {
    let (y, mo, d, h, mi, s, _) = civil(wall_ns);
    let ms = wall_ns.rem_euclid(1_000_000_000) / 1_000_000;
    format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests;
