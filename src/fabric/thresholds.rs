//! How much of an error counter is too much: the classic thresholds file, and more than it says.
//!
//! A line of the classic file (`/etc/infiniband-diags/error_thresholds`, read by ibqueryerrors)
//! is `Name=value`, the value in C's notation; `#` begins a comment. It is exceeded by a counter
//! **above** it. Two things may follow the value here:
//!
//! ```text
//! SymbolErrorCounter=10              more than 10, as the node reports it
//! SymbolErrorCounter=10/h            more than 10 within any hour
//! LinkDownedCounter=2/15min          more than 2 within any 15 minutes: a flapping link
//! PortXmitWait=30%/10min:warning     more than 30 % of the last 10 minutes, and how grave that is
//! RawBER=1e-5/10min                  more than 1 error in 100,000 bits, within any 10 minutes
//! RawBER=50%/10min                   more than half of what the link's FEC is trusted with
//! ```
//!
//! A counter may have several lines, of different severities. What a file says of a counter takes
//! the place of all that the program would say of it by itself ([`Thresholds::default`]).
//!
//! Every file that ibqueryerrors reads as it was meant names the same ports here
//! (`tests/foreign_counters.rs`); `=0` means "any" to both, names are compared letter by letter,
//! and the last of two lines counts. Otherwise it is read with more care:
//!
//! - A counter that the file does not name has our own limits, over time. There its limit is 0, so
//!   that a file about one counter reports every other one that is not zero.
//! - Blanks around name and value do not count. There `Name = 10` is another name, which nobody
//!   knows, and so no limit for `Name`.
//! - A line that is not understood is told of, and its counter keeps our own limits. There a
//!   text that is no number is 0, what follows a number is dropped (`10/h` is 10), an unknown name
//!   is passed over without a word, and a line without `=` ends the program.
//!
//! This file only knows values; what is measured against them is the model's business.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::names::clean_str;
use super::{Guid, NodeId, Severity};

/// What a limit is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The counter's value: see [`Thresholds::whole_values`].
    Value,
    /// Its increments within a time of this length, in ns.
    Window(u64),
    /// The share in per cent of a time of this length (ns) in which a port wanted to send and
    /// could not: of PortXmitWait only.
    Share(u64),
    /// Errors by bits that the link carried within a time of this length (ns): of [`RATES`] only.
    /// The limit is written as errors in [`RATE_UNIT`] bits.
    Rate(u64),
    /// The same, with a limit in per cent of what the link's forward error correction is trusted
    /// with ([`super::trusted_ber`]): of RawBER only.
    Trust(u64),
}

/// Bit error rates of a link, before and after forward error correction.
pub const RATES: [&str; 2] = ["RawBER", "EffectiveBER"];

/// Limits of rates are errors in so many bits: 1e-18 is the least that can be told.
pub const RATE_UNIT: f64 = 1e18;

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The counter's classic name.
    pub counter: String,
    /// What is above it exceeds it.
    pub limit: u64,
    /// What is compared with it.
    pub over: Over,
    /// How grave that is.
    pub severity: Severity,
}

/// Alerts that nobody wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suppress {
    /// A counter's or an alert's name; `*` = all.
    pub name: String,
    /// Only about this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Only about this port of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
}

/// All limits, and what is not wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// The limits.
    pub rules: Vec<Rule>,
    /// [`Over::Value`] means the value that the node reports, which counts since its last reset
    /// (ibqueryerrors' reading). Otherwise it means what was counted since the session began, so
    /// that errors of long ago raise no alert today.
    #[serde(default)]
    pub whole_values: bool,
    /// What is not wanted.
    #[serde(default)]
    pub suppress: Vec<Suppress>,
}

const MINUTE: u64 = 60_000_000_000;
const HOUR: u64 = 60 * MINUTE;
/// Over which time a rate is taken where a file names none.
const RATE_WINDOW: u64 = 10 * MINUTE;

impl Default for Thresholds {
    /// What holds without any configuration: the classic file's numbers, but within an hour
    /// instead of since the counters were last reset. PortRcvSwitchRelayErrors has no limit: a
    /// switch counts its own multicast there. The commented file in `assets/` says the same.
    ///
    /// EffectiveBER: 1e-12 is what the specification wants of a link (NVIDIA, "Cabling Data
    /// Centers", which tests its cables to 1e-15) and the limit of ibdiagnet's BER test (NVIDIA,
    /// ibdiagnet user manual, "Bit Error Rate", `--ber_thresh`). RawBER: what the link's FEC is
    /// trusted with, 9.6e-6 with RS(528,514) and 1.4e-4 with RS(544,514); where these come from
    /// says [`super::trusted_ber`]. A healthy link stays orders of magnitude below both.
    fn default() -> Thresholds {
        use Severity::{Critical, Info, Warning};
        let rule = |counter: &str, limit, over, severity| Rule {
            counter: counter.to_owned(),
            limit,
            over,
            severity,
        };
        let hour = Over::Window(HOUR);
        let rate = Over::Rate(RATE_WINDOW);
        Thresholds {
            rules: vec![
                rule("SymbolErrorCounter", 10, hour, Warning),
                rule("SymbolErrorCounter", 1_000, hour, Critical),
                rule("LinkErrorRecoveryCounter", 2, hour, Warning),
                rule("LinkErrorRecoveryCounter", 20, hour, Critical),
                rule("LinkDownedCounter", 2, Over::Window(15 * MINUTE), Warning),
                rule("LinkDownedCounter", 10, Over::Window(15 * MINUTE), Critical),
                rule("PortRcvErrors", 10, hour, Warning),
                rule("PortRcvErrors", 1_000, hour, Critical),
                rule("PortRcvRemotePhysicalErrors", 100, hour, Info),
                rule("PortFECUncorrectableBlockCtr", 0, hour, Warning),
                rule("PortFECUncorrectableBlockCtr", 100, hour, Critical),
                rule("RawBER", 100, Over::Trust(RATE_WINDOW), Warning),
                rule("EffectiveBER", 1_000_000, rate, Warning),
                rule("PortXmitDiscards", 100, hour, Warning),
                rule("PortXmitConstraintErrors", 100, hour, Warning),
                rule("PortRcvConstraintErrors", 100, hour, Warning),
                rule("LocalLinkIntegrityErrors", 2, hour, Warning),
                rule("ExcessiveBufferOverrunErrors", 2, hour, Warning),
                rule("VL15Dropped", 100, hour, Info),
                rule("QP1Dropped", 100, hour, Info),
                rule("PortXmitWait", 30, Over::Share(MINUTE), Info),
                rule("PortXmitWait", 30, Over::Share(10 * MINUTE), Warning),
            ],
            whole_values: false,
            suppress: Vec::new(),
        }
    }
}

/// Where a file came from decides what its plain numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user named it: plain numbers are compared with whole values, as ibqueryerrors does.
    Named,
    /// It lay at its usual place: plain numbers are compared with what the session counted, and
    /// one of PortXmitWait is left out, since ticks without a time say nothing.
    Found,
}

/// A line that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong, in words.
    pub what: String,
}

const WAIT: &str = "PortXmitWait";
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl Thresholds {
    /// Reads a thresholds file: good lines count, bad ones are listed. `is_counter` knows the
    /// counters' names.
    pub fn parse(
        text: &[u8],
        origin: Origin,
        is_counter: impl Fn(&str) -> bool,
    ) -> (Thresholds, Vec<Problem>) {
        let mut rules: Vec<Rule> = Vec::new();
        let mut problems = Vec::new();
        for (index, raw) in text.split(|b| *b == b'\n').enumerate() {
            let line = String::from_utf8_lossy(raw);
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            match parse_rule(line, &is_counter) {
                Ok(rule)
                    if origin == Origin::Found
                        && rule.counter == WAIT
                        && rule.over == Over::Value => {}
                Ok(rule) => {
                    // The last word on the same question counts.
                    let same = |r: &Rule| {
                        (&r.counter, r.over, r.severity)
                            == (&rule.counter, rule.over, rule.severity)
                    };
                    rules.retain(|r| !same(r));
                    rules.push(rule);
                }
                Err(what) => problems.push(Problem {
                    line: index + 1,
                    what,
                }),
            }
        }
        let own = Thresholds::default().rules;
        let mut all: Vec<Rule> = own
            .into_iter()
            .filter(|own| !rules.iter().any(|r| r.counter == own.counter))
            .collect();
        all.append(&mut rules);
        let thresholds = Thresholds {
            rules: all,
            whole_values: origin == Origin::Named,
            suppress: Vec::new(),
        };
        (thresholds, problems)
    }

    /// True if alerts of this name about this port (0: about the node) are not wanted.
    pub fn is_suppressed(&self, name: &str, node: Option<NodeId>, port: Option<u8>) -> bool {
        self.suppress.iter().any(|s| {
            (s.name == "*" || s.name == name)
                && (s.node.is_none() || s.node == node)
                && (s.port.is_none() || s.port == port)
        })
    }
}

fn parse_rule(line: &str, is_counter: &impl Fn(&str) -> bool) -> Result<Rule, String> {
    let (name, rest) = line
        .split_once('=')
        .ok_or_else(|| format!("{:?} is not of the form Name=value", short(line)))?;
    let name = name.trim();
    if !is_counter(name) {
        return Err(format!("{:?} is no counter's name", short(name)));
    }
    let (rest, severity) = match rest.split_once(':') {
        None => (rest, None),
        Some((rest, word)) => (rest, Some(parse_severity(word.trim())?)),
    };
    let (number, window) = match rest.split_once('/') {
        None => (rest.trim(), None),
        Some((number, window)) => (number.trim(), Some(parse_window(window.trim())?)),
    };
    let (digits, percent) = match number.strip_suffix('%') {
        None => (number, false),
        Some(digits) => (digits.trim(), true),
    };
    let is_rate = RATES.contains(&name);
    let limit = if is_rate && !percent {
        rate(digits)
            .ok_or_else(|| format!("{:?} is no bit error rate such as 1e-12", short(number)))?
    } else {
        base0(digits).ok_or_else(|| format!("{:?} is no number", short(number)))?
    };
    let over = match (percent, window) {
        (false, window) if is_rate => Over::Rate(window.unwrap_or(RATE_WINDOW)),
        (false, None) => Over::Value,
        (false, Some(window)) => Over::Window(window),
        (true, _) if name == RATES[0] && limit > 1000 => {
            return Err(format!(
                "{limit}% of what FEC is trusted with: nothing of it is left"
            ));
        }
        (true, window) if name == RATES[0] => Over::Trust(window.unwrap_or(RATE_WINDOW)),
        (true, _) if name != WAIT => {
            return Err(format!(
                "only {WAIT} and {} have a limit in per cent, {name} has not",
                RATES[0]
            ));
        }
        (true, _) if limit > 100 => return Err(format!("{limit}% of a time cannot be")),
        (true, None) => return Err("a share needs a time, such as 30%/10min".to_owned()),
        (true, Some(window)) => Over::Share(window),
    };
    // Many healthy fabrics have some of these.
    let mild = matches!(name, WAIT | "PortRcvSwitchRelayErrors");
    Ok(Rule {
        counter: name.to_owned(),
        limit,
        over,
        severity: severity.unwrap_or(if mild {
            Severity::Info
        } else {
            Severity::Warning
        }),
    })
}

fn short(text: &str) -> String {
    clean_str(&text.chars().take(40).collect::<String>())
}

fn parse_severity(word: &str) -> Result<Severity, String> {
    Severity::ALL
        .into_iter()
        .find(|s| s.word() == word)
        .ok_or_else(|| format!("{:?} is none of info, warning, critical", short(word)))
}

/// A time such as `h`, `15min` or `1h30m`, in ns.
fn parse_window(text: &str) -> Result<u64, String> {
    let one = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let whole = if one {
        format!("1{text}")
    } else {
        text.to_owned()
    };
    let time = humantime::parse_duration(&whole)
        .map_err(|_| format!("{:?} is no time such as h, 15min or 1day", short(text)))?;
    if !(SHORTEST..=LONGEST).contains(&time) {
        return Err(format!("{:?} is not between 10s and 7days", short(text)));
    }
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// A number in C's notation: 0x hexadecimal, 0 octal, else decimal.
fn base0(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hex, text.strip_prefix('0')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// A bit error rate below 1, in errors per [`RATE_UNIT`] bits.
fn rate(text: &str) -> Option<u64> {
    let rate: f64 = text.parse().ok()?;
    // Of what is left the product fits 64 bits.
    (0.0..1.0)
        .contains(&rate)
        .then(|| (rate * RATE_UNIT).round() as u64)
}

impl std::str::FromStr for Suppress {
    type Err = String;

    /// `NAME`, `NAME@GUID` or `NAME@GUID/PORT`.
    fn from_str(text: &str) -> Result<Suppress, String> {
        let (name, place) = match text.split_once('@') {
            None => (text, None),
            Some((name, place)) => (name, Some(place)),
        };
        if name.is_empty() {
            return Err(format!("{:?} names no alert; * means all", short(text)));
        }
        let (node, port) = match place {
            None => (None, None),
            Some(place) => {
                let (node, port) = match place.split_once('/') {
                    None => (place, None),
                    Some((node, port)) => (node, Some(port)),
                };
                let port = port
                    .map(str::parse::<u8>)
                    .transpose()
                    .map_err(|_| format!("{:?} ends in no port number", short(text)))?;
                let guid: Guid = node
                    .parse()
                    .map_err(|_| format!("{:?} is no GUID such as 0x2c90300fb0021", short(node)))?;
                (Some(NodeId::new(guid.0)), port)
            }
        };
        Ok(Suppress {
            name: name.to_owned(),
            node,
            port,
        })
    }
}

/// A time of whole units, for sentences: `15min`, `1h`.
pub fn window_words(ns: u64) -> String {
    let secs = ns / 1_000_000_000;
    match secs {
        s if s != 0 && s.is_multiple_of(86_400) => format!("{} d", s / 86_400),
        s if s != 0 && s.is_multiple_of(3_600) => format!("{} h", s / 3_600),
        s if s != 0 && s.is_multiple_of(60) => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

#[cfg(test)]
mod tests;
