//! The tables of the SA as they came, and where they differ from what discovery saw.
//!
//! A difference is told once two readings of its table show it: the engine makes the second
//! after it asked the ports concerned again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Model;
use super::log::Kind;
use super::state::Pending;
use crate::event::{Severity, Topic};
use crate::fabric::sa::{Difference, Reread, SaTable, differences};
use crate::fabric::{Guid, NodeId, PortKey};
use crate::mad::{
    self, Attribute, Mad, Method, MgmtClass, NodeRecord, PortState, SmInfoRecord, SmState,
};
use crate::port::Stamp;

/// How the last question for a table ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaOutcome {
    /// It came as a whole.
    Whole,
    /// It came cut: there is no RMPP between the SA and us.
    Cut,
    /// The SA refused it: the status in words.
    Refused(String),
    /// The SA was busy.
    Busy,
    /// The SA did not answer.
    NoAnswer,
}

impl std::fmt::Display for SaOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SaOutcome::Whole => f.write_str("whole"),
            SaOutcome::Cut => f.write_str("cut (no RMPP)"),
            SaOutcome::Refused(why) => write!(f, "refused: {why}"),
            SaOutcome::Busy => f.write_str("busy"),
            SaOutcome::NoAnswer => f.write_str("no answer"),
        }
    }
}

/// A table of the SA.
#[derive(Clone, Debug)]
pub struct SaTableView {
    /// Which.
    pub table: SaTable,
    /// Records when it was last read; `None` if it never was.
    pub count: Option<usize>,
    /// How long ago that was.
    pub age: Option<Duration>,
    /// How the last question for it ended.
    pub outcome: Option<SaOutcome>,
    /// What may help if that was no whole table.
    pub advice: Option<&'static str>,
    /// It is being read.
    pub reading: bool,
}

impl SaTableView {
    /// How the last question for it ended, and what may help.
    pub fn status(&self) -> String {
        match (&self.outcome, self.reading, self.advice) {
            (_, true, _) => "being read".to_owned(),
            (None, ..) => "not read".to_owned(),
            (Some(outcome), _, None) => outcome.to_string(),
            (Some(outcome), _, Some(advice)) => format!("{outcome} ({advice})"),
        }
    }
}

/// Where the SA and discovery differ.
#[derive(Clone, Debug)]
pub struct SaDifference {
    /// What differs.
    pub difference: Difference,
    /// The same as a sentence.
    pub text: String,
    /// How long it has been known.
    pub age: Duration,
}

/// SA statuses: no records; and how it answers those whom it does not trust (opensm, and the
/// specification's word for it).
const SA_NO_RECORDS: u16 = 0x0300;
const SA_DISTRUST: [u16; 2] = [0x0200, 0x0700];

/// Differences that are kept and told one by one.
const DIFFERENCES: usize = 1_000;

/// A table as it was last read.
#[derive(Clone, Debug, Default)]
struct Table {
    /// The records, one after the other; those of the last whole reading.
    bytes: Box<[u8]>,
    count: usize,
    read: Option<Stamp>,
    /// How the last question ended, and when.
    outcome: Option<(Stamp, SaOutcome)>,
    /// That was such as befalls those whom the SA does not trust.
    distrust: bool,
    /// What the last reading showed.
    doubtful: BTreeSet<Difference>,
    /// What of that was not asked again since.
    awaited: BTreeSet<Reread>,
}

/// All tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    tables: BTreeMap<SaTable, Table>,
    /// What two readings showed, and since when.
    differences: BTreeMap<Difference, Stamp>,
    /// Differences beyond those that are kept.
    more: usize,
}

fn table_of(pending: &Pending) -> Option<SaTable> {
    let request = &pending.request;
    let table =
        request.class == MgmtClass::SubnAdm.code() && request.method == Method::GetTable.code();
    table.then(|| SaTable::of(request.attribute)).flatten()
}

impl Model {
    /// The SA answered.
    pub(super) fn sa_reply(&mut self, at: Stamp, pending: &Pending, mad: &Mad) {
        let Some(table) = table_of(pending) else {
            return;
        };
        let status = mad.status();
        let entry = self.records.tables.entry(table).or_default();
        // Some SAs answer a question for a table that is empty like this.
        let empty = status.0 == SA_NO_RECORDS;
        entry.distrust = SA_DISTRUST.contains(&status.0);
        if !status.is_ok() && !empty {
            let words = status.words(MgmtClass::SubnAdm).to_string();
            let outcome = match status.is_busy() {
                true => SaOutcome::Busy,
                false => SaOutcome::Refused(words),
            };
            entry.outcome = Some((at, outcome));
            return;
        }
        let view = mad.view();
        let (len, mut bytes, mut count) = (table.info().len, Vec::new(), 0);
        for record in mad::raw_records(&view).take_while(|_| !empty) {
            if let Some(record) = record.get(..len) {
                bytes.extend_from_slice(record);
                count += 1;
            }
        }
        let whole = empty || mad::is_whole_table(mad);
        let outcome = match whole {
            true => SaOutcome::Whole,
            false => SaOutcome::Cut,
        };
        entry.outcome = Some((at, outcome));
        if whole || entry.read.is_none() {
            entry.bytes = bytes.into();
            entry.count = count;
            entry.read = Some(at);
        }
        if whole && !empty {
            self.compare(at, table, mad);
        }
    }

    fn compare(&mut self, at: Stamp, table: SaTable, mad: &Mad) {
        // A keyframe's table was compared when it came; of a half-known fabric nothing can be
        // said.
        let joining = self.join == super::Join::Reading;
        if !self.discovered && !joining {
            return;
        }
        let found = differences(&self.topology, &self.seen_sms(at), table, mad);
        let Some(entry) = self.records.tables.get_mut(&table) else {
            return;
        };
        let before = std::mem::replace(&mut entry.doubtful, found.clone());
        let awaited = found
            .iter()
            .filter(|d| d.is_of_attribute())
            .filter_map(Difference::reread)
            .collect();
        let awaited = std::mem::replace(&mut entry.awaited, awaited);
        // What a node said of itself before the SA's word came may be older than that.
        let checked = |difference: &Difference| {
            let open = difference
                .reread()
                .is_some_and(|what| awaited.contains(&what));
            before.contains(difference) && !(open && difference.is_of_attribute())
        };
        let old = std::mem::take(&mut self.records.differences);
        let (mine, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            old.into_iter().partition(|(d, _)| d.table() == table);
        self.records.differences = others;
        let mut news = Vec::new();
        for difference in found {
            let since = match mine.get(&difference) {
                Some(since) => *since,
                None if checked(&difference) || joining => {
                    news.push(difference);
                    at
                }
                None => continue,
            };
            if self.records.differences.len() < DIFFERENCES {
                self.records.differences.insert(difference, since);
            } else {
                self.records.more += 1;
            }
        }
        if self.records.differences.len() < DIFFERENCES {
            self.records.more = 0;
        }
        if joining {
            return;
        }
        for difference in news {
            let text = self.difference_words(&difference);
            let about = difference.port();
            self.log.add(at, Kind::Sa, Severity::Warning, about, text);
        }
    }

    /// A node answered for itself, perhaps since the SA told something else of it.
    pub(super) fn sa_reread(&mut self, pending: &Pending) {
        let Some(what) = Reread::of(&pending.request) else {
            return;
        };
        for table in self.records.tables.values_mut() {
            table.awaited.remove(&what);
        }
    }

    /// The SA did not answer.
    pub(super) fn sa_silent(&mut self, pending: &Pending) {
        if let Some(table) = table_of(pending) {
            let at = self.last;
            let entry = self.records.tables.entry(table).or_default();
            entry.outcome = Some((at, SaOutcome::NoAnswer));
            entry.distrust = false;
        }
    }

    /// SMs in the SA's list: state, LID, priority.
    pub(super) fn listed_sms(&self) -> BTreeMap<u64, (u8, u16, u8)> {
        self.sa_records(SaTable::Sms)
            .filter_map(|bytes| SmInfoRecord::from_bytes(bytes).ok())
            .map(|r| {
                let info = r.sm_info();
                (info.guid(), (info.state().code(), r.lid(), info.priority()))
            })
            .collect()
    }

    /// The records of a table as they were last read.
    pub fn sa_records(&self, table: SaTable) -> impl Iterator<Item = &[u8]> {
        let bytes = self
            .records
            .tables
            .get(&table)
            .map_or(&[][..], |t| &t.bytes);
        bytes.chunks_exact(table.info().len)
    }

    /// Every table that can be asked for, read or not.
    pub fn sa_tables(&self, now: Stamp) -> Vec<SaTableView> {
        SaTable::ALL
            .into_iter()
            .map(|table| {
                let entry = self.records.tables.get(&table);
                let read = entry.and_then(|t| t.read);
                SaTableView {
                    table,
                    count: read.and(entry).map(|t| t.count),
                    age: read.map(|at| now.since(at)),
                    outcome: entry
                        .and_then(|t| t.outcome.as_ref())
                        .map(|(_, o)| o.clone()),
                    advice: entry.and_then(|t| self.advice(t)),
                    reading: self.readings.iter().any(
                        |topic| matches!(topic, Topic::Sa { tables } if tables.contains(&table)),
                    ),
                }
            })
            .collect()
    }

    fn advice(&self, table: &Table) -> Option<&'static str> {
        match (&table.outcome.as_ref()?.1, self.settings.sm_key) {
            (SaOutcome::Refused(_), false) if table.distrust => {
                Some("it may want its SM_Key: see --sm-key-file")
            }
            (SaOutcome::Refused(_), true) if table.distrust => {
                Some("the SM_Key given may not be its own")
            }
            _ => None,
        }
    }

    /// Where the SA and discovery differ, how many more differences there are than are kept, and
    /// how many were seen once and not yet a second time.
    pub fn sa_differences(&self, now: Stamp) -> (Vec<SaDifference>, usize, usize) {
        let rows = self
            .records
            .differences
            .iter()
            .map(|(difference, since)| SaDifference {
                difference: *difference,
                text: self.difference_words(difference),
                age: now.since(*since),
            })
            .collect();
        let doubtful: usize = self.records.tables.values().map(|t| t.doubtful.len()).sum();
        let known = self.records.differences.len() + self.records.more;
        (rows, self.records.more, doubtful.saturating_sub(known))
    }

    fn known_name(&self, node: NodeId) -> String {
        match self.name(node) {
            "" => node.to_string(),
            name => name.to_owned(),
        }
    }

    /// The name of a node that only the SA may know.
    fn name_in_sa(&self, node: NodeId, lid: u16) -> String {
        let known = self.known_name(node);
        if known != node.to_string() {
            return known;
        }
        self.sa_records(SaTable::Nodes)
            .filter_map(|bytes| NodeRecord::from_bytes(bytes).ok())
            .find(|r| r.lid() == lid)
            .map(|r| crate::fabric::names::clean(r.description().bytes()))
            .filter(|name| !name.is_empty())
            .map_or(known, |name| format!("{name} ({node})"))
    }

    fn difference_words(&self, difference: &Difference) -> String {
        let port = |key: PortKey| format!("{}[{}]", self.known_name(key.node), key.port);
        let state = |code: u8| PortState::new(code).to_string();
        let sm = |guid: Guid| self.sm_name(guid.0);
        match *difference {
            Difference::NodeUnseen { node, lid } => format!(
                "the SA has {} at LID {lid}, discovery did not find it",
                self.name_in_sa(node, lid)
            ),
            Difference::NodeUnknown { node } => format!(
                "discovery found {}, the SA does not have it",
                self.known_name(node)
            ),
            Difference::PortLid {
                port: key,
                sa,
                seen,
            } => {
                format!("{}: LID {seen}, the SA has {sa}", port(key))
            }
            Difference::LinkUnseen {
                from,
                to,
                to_lid,
                to_port,
            } => {
                let to = match to {
                    Some(to) => port(to),
                    None => format!("LID {to_lid} port {to_port}"),
                };
                format!(
                    "the SA has a link {} - {to}, discovery did not find it",
                    port(from)
                )
            }
            Difference::LinkUnknown { from, to } => format!(
                "discovery found the link {} - {}, the SA does not have it",
                port(from),
                port(to)
            ),
            Difference::PortState {
                port: key,
                sa,
                seen,
            } => format!("{}: {}, the SA has {}", port(key), state(seen), state(sa)),
            Difference::Field {
                table,
                port: key,
                field,
                sa,
                seen,
            } => {
                let (sa, seen) = (table.words(field, sa), table.words(field, seen));
                let place = match key.port {
                    0 if table != SaTable::Ports => self.known_name(key.node),
                    _ => port(key),
                };
                format!("{place}: {field} {seen}, the SA has {sa}")
            }
            Difference::Description { node } => {
                let name = |bytes: &[u8]| crate::fabric::names::clean(bytes);
                let known = self.topology.node(node).and_then(|n| n.description);
                let own = known.map_or_else(String::new, |d| name(d.bytes()));
                let told = self
                    .sa_records(SaTable::Nodes)
                    .filter_map(|bytes| NodeRecord::from_bytes(bytes).ok())
                    .find(|r| r.node_info().node_guid() == node.guid.0)
                    .map_or_else(String::new, |r| name(r.description().bytes()));
                format!("{node} calls itself {own:?}, the SA has {told:?}")
            }
            Difference::SmPriority { guid, sa, seen } => {
                format!("SM at {} has priority {seen}, the SA has {sa}", sm(guid))
            }
            Difference::SmUnseen { guid } => {
                format!("the SA has an SM at {}, which does not answer", sm(guid))
            }
            Difference::SmUnknown { guid } => {
                format!("an SM answers at {}, the SA does not have it", sm(guid))
            }
            Difference::SmState { guid, sa, seen } => format!(
                "SM at {} says {}, the SA has {}",
                sm(guid),
                SmState::new(seen),
                SmState::new(sa)
            ),
        }
    }
}
