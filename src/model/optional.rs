//! Optional counters of the ports that somebody looked at: the last two readings of each
//! attribute, or why there is none.
//!
//! Bounded: of more than [`PORTS`] ports, the one looked at longest ago is forgotten.
//!
//! A counter at its maximum is shown as "at least" and has no rate. It raises no alert, unlike
//! those that each sweep reads: nobody would clear it once nobody looks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Num;
use super::view::{DetailGroup, DetailRow};
use crate::fabric::PortKey;
use crate::mad::details::{OPTIONAL, is_selector, label, optional};
use crate::mad::{Field, Fields};
use crate::port::Stamp;

/// Ports that are remembered.
const PORTS: usize = 64;

#[derive(Clone, Debug, Default)]
struct Reading {
    at: Stamp,
    bytes: Box<[u8]>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// The first one that somebody looked at.
    first: Option<Reading>,
    last: Option<Reading>,
    before: Option<Reading>,
    /// Why the last question got no numbers, and when.
    missing: Option<(Stamp, String)>,
}

#[derive(Clone, Debug, Default)]
struct Port {
    at: Stamp,
    entries: BTreeMap<u16, Entry>,
}

/// The optional counters of all ports that were looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    ports: BTreeMap<PortKey, Port>,
}

impl Details {
    fn entry(&mut self, key: PortKey, id: u16, at: Stamp) -> Option<&mut Entry> {
        optional(id)?;
        if !self.ports.contains_key(&key)
            && self.ports.len() >= PORTS
            && let Some(oldest) = self
                .ports
                .iter()
                .min_by_key(|(_, port)| port.at)
                .map(|(key, _)| *key)
        {
            self.ports.remove(&oldest);
        }
        let port = self.ports.entry(key).or_default();
        port.at = port.at.max(at);
        Some(port.entries.entry(id).or_default())
    }

    /// An attribute's data came.
    pub(super) fn read(&mut self, key: PortKey, id: u16, at: Stamp, data: &[u8]) {
        let Some(len) = optional(id).map(|o| o.info.len) else {
            return;
        };
        let Some(bytes) = data.get(..len) else {
            return;
        };
        let Some(entry) = self.entry(key, id, at) else {
            return;
        };
        if entry.last.as_ref().is_some_and(|last| at <= last.at) {
            return;
        }
        let bytes: Box<[u8]> = bytes.into();
        if entry.first.is_none() {
            let bytes = bytes.clone();
            entry.first = Some(Reading { at, bytes });
        }
        entry.before = entry.last.replace(Reading { at, bytes });
        entry.missing = None;
    }

    /// There was no data, and why.
    pub(super) fn missing(&mut self, key: PortKey, id: u16, at: Stamp, why: String) {
        if let Some(entry) = self.entry(key, id, at) {
            entry.missing = Some((at, why));
        }
    }

    /// An attribute's counters, by name: what they counted since somebody looked first, or, if
    /// that is nothing, since the device was reset. Nothing if it was not read.
    pub(super) fn counts(&self, key: PortKey, id: u16) -> Vec<(&'static str, u64)> {
        let known = || {
            let fields = optional(id)?.info.fields;
            let entry = self.ports.get(&key)?.entries.get(&id)?;
            Some((fields, entry.first.as_ref()?, entry.last.as_ref()?))
        };
        let Some((fields, first, last)) = known() else {
            return Vec::new();
        };
        let of = |reading: &Reading| -> Vec<(&'static str, u64)> {
            Fields::new(fields, &reading.bytes)
                .filter(|f| !is_selector(f.field))
                .map(|f| (f.field.name, f.value().number().unwrap_or(0)))
                .collect()
        };
        let whole = of(last);
        let new: Vec<(&'static str, u64)> = whole
            .iter()
            .zip(of(first))
            .map(|((name, now), (_, before))| (*name, now.saturating_sub(before)))
            .collect();
        match new.iter().any(|(_, n)| *n > 0) {
            true => new,
            false => whole,
        }
    }

    /// A node is forgotten.
    pub(super) fn forget(&mut self, node: crate::fabric::NodeId) {
        self.ports.retain(|key, _| key.node != node);
    }

    /// All that is known of a port's optional counters; nothing if nobody looked at it.
    pub(super) fn view(&self, key: PortKey, now: Stamp, limit: Duration) -> Vec<DetailGroup> {
        let Some(port) = self.ports.get(&key) else {
            return Vec::new();
        };
        OPTIONAL
            .iter()
            .filter_map(|o| Some((o, port.entries.get(&o.id)?)))
            .map(|(o, entry)| {
                let age = entry.last.as_ref().map(|last| now.since(last.at));
                let stale = age.is_some_and(|age| age > limit);
                DetailGroup {
                    attribute: o.info.name,
                    title: o.title,
                    missing: entry.missing.as_ref().map(|(_, why)| why.clone()),
                    age,
                    stale,
                    rows: rows(o.info.fields, entry, stale),
                }
            })
            .collect()
    }
}

fn rows(fields: &'static [Field], entry: &Entry, stale: bool) -> Vec<DetailRow> {
    let Some(last) = &entry.last else {
        return Vec::new();
    };
    let before: Vec<u64> = entry.before.as_ref().map_or_else(Vec::new, |before| {
        Fields::new(fields, &before.bytes)
            .map(|f| f.value().number().unwrap_or(0))
            .collect()
    });
    let span = entry
        .before
        .as_ref()
        .map_or(0, |before| last.at.0.saturating_sub(before.at.0));
    Fields::new(fields, &last.bytes)
        .enumerate()
        .filter(|(_, f)| !is_selector(f.field))
        .map(|(i, f)| {
            let new = f.value().number().unwrap_or(0);
            let width = f.field.width / f.field.count.max(1);
            let pegged = new == u64::MAX >> (64 - width.clamp(1, 64));
            let value = match pegged {
                true => Num::AtLeast(new),
                false => Num::Is(new),
            };
            let rate = match before.get(i) {
                Some(old) if span > 0 => match new.checked_sub(*old) {
                    None => Num::Reset,
                    Some(_) if pegged => Num::Unknown,
                    Some(more) => Num::Is(more as f64 * 1e9 / span as f64),
                },
                _ => Num::Unknown,
            };
            DetailRow {
                name: f.name().into_owned(),
                label: match f.index {
                    Some(i) => format!("{}{i}", label(f.field.name)),
                    None => label(f.field.name).to_owned(),
                },
                value: value.aged(stale),
                rate: rate.aged(stale),
                unit: f.field.unit,
            }
        })
        .collect()
}
