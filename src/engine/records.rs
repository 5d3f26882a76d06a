//! Tables of the SA: one at a time, with time enough for its size, and with pauses where the SA
//! is busy or silent.
//!
//! After each full discovery those tables are read that are compared with what it saw. What
//! differs is not said at once: a link may have come between the two. The ports concerned are
//! asked again, then the table; the model tells of what both readings show.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::core::Core;
use super::job::{Ask, By, Done, Job, Who};
use crate::event::{ReadingEnded, Severity, Topic};
use crate::fabric::sa::{Difference, Reread, SaTable, differences};
use crate::fabric::{NodeId, NodeKind};
use crate::mad::{Mad, PathRecord, is_whole_table, records};
use crate::port::Stamp;

/// Time for a table: the least, what each kilobyte of it adds, and the most.
const TABLE_LEAST: Duration = Duration::from_secs(4);
const TABLE_PER_KB: Duration = Duration::from_millis(10);
const TABLE_MOST: Duration = Duration::from_secs(38);
/// The table of ports is read unasked up to this many ports.
const PORTS_UNASKED: usize = 8_192;
/// How long after a difference the table is read again: time to ask the ports concerned.
const RECHECK: Duration = Duration::from_secs(5);
/// How often a table is read again, where each reading shows something new.
const AGAIN_MOST: u8 = 3;
/// What is asked again for one table: the rest waits for the next discovery, which asks all.
const RECHECKED: usize = 256;
/// The first pause of a busy SA, and after silence; each doubles up to the longest.
const BUSY: Duration = Duration::from_secs(1);
const SILENT: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How often "busy" is taken for an answer before the table counts as failed.
const BUSY_MOST: u32 = 6;

/// A reading that somebody waits for.
#[derive(Debug)]
struct Read {
    topic: Topic,
    left: BTreeSet<SaTable>,
    ended: ReadingEnded,
}

/// The tables that are wanted.
#[derive(Debug, Default)]
pub(super) struct Records {
    queue: VecDeque<SaTable>,
    asking: bool,
    /// None is asked for before.
    not_before: Stamp,
    busy: u32,
    silent: u32,
    /// A question with the SM_Key was not answered: the next is put without it.
    unkeyed: bool,
    /// That one was answered, which was said: the key is not this SA's.
    key_ignored: bool,
    /// This SA's tables do not come whole: there is no RMPP between us.
    cut: bool,
    /// Tables that differed, and when they are read again.
    rechecks: BTreeMap<SaTable, Stamp>,
    /// Tables of which the next reading is such a second one: how often they were read again,
    /// and what the reading before showed.
    second: BTreeMap<SaTable, (u8, BTreeSet<Difference>)>,
    /// What two readings showed.
    confirmed: BTreeSet<Difference>,
    /// A full discovery ended: there is something to compare with.
    discovered: bool,
    reads: Vec<Read>,
}

fn pause(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(LONGEST_PAUSE)
}

impl Core {
    pub(super) fn records_deadline(&self) -> Option<Stamp> {
        let it = &self.records;
        let queued = (!it.asking && !it.queue.is_empty()).then_some(it.not_before);
        let recheck = it.rechecks.values().min().copied();
        match (queued, recheck) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Another SM: what was found out about the old one's SA does not hold.
    pub(super) fn records_begin_anew(&mut self) {
        let it = &mut self.records;
        it.not_before = self.now;
        it.busy = 0;
        it.silent = 0;
        it.cut = false;
        it.unkeyed = false;
        it.key_ignored = false;
        it.second.clear();
    }

    /// Nothing comes back any more.
    pub(super) fn drop_records(&mut self) {
        let reads = std::mem::take(&mut self.records.reads);
        self.records = Records::default();
        for read in reads {
            self.reading_ended(read.topic, read.ended);
        }
    }

    fn want(&mut self, table: SaTable) {
        if !self.records.queue.contains(&table) {
            self.records.queue.push_back(table);
        }
    }

    /// A full discovery ended: time to compare with what the SA knows.
    pub(super) fn compare_with_sa(&mut self) {
        self.records.discovered = true;
        if !self.config.sa || self.records.cut || self.sa_lid().is_none() {
            return;
        }
        let ports: usize = self.topology.nodes().map(|n| n.ports.len()).sum();
        for table in SaTable::COMPARED {
            if table != SaTable::Ports || ports <= PORTS_UNASKED {
                self.want(table);
            }
        }
    }

    /// Tables were compared before.
    pub(super) fn is_compared(&self) -> bool {
        self.records.discovered
    }

    /// The table of paths from here, for the service levels. False if it cannot be had.
    pub(super) fn want_paths(&mut self) -> bool {
        if self.records.cut {
            return false;
        }
        self.want(SaTable::Paths);
        true
    }

    /// Reads these tables, whether they come whole or not.
    pub(super) fn read_records(&mut self, tables: Vec<SaTable>) {
        let left: BTreeSet<SaTable> = tables.iter().copied().collect();
        for table in &left {
            // One that is about to be read a second time is in good hands.
            if !self.records.rechecks.contains_key(table) {
                self.want(*table);
            }
        }
        self.records.reads.push(Read {
            topic: Topic::Sa { tables },
            left,
            ended: ReadingEnded::default(),
        });
        self.end_reads();
    }

    fn end_reads(&mut self) {
        let (over, open): (Vec<Read>, Vec<Read>) = std::mem::take(&mut self.records.reads)
            .into_iter()
            .partition(|read| read.left.is_empty());
        self.records.reads = open;
        for read in over {
            self.reading_ended(read.topic, read.ended);
        }
    }

    pub(super) fn run_records(&mut self) {
        if self.sa_lid().is_none() {
            self.records.queue.clear();
            self.records.rechecks.clear();
            if !self.records.reads.is_empty() {
                for read in &mut self.records.reads {
                    let left = std::mem::take(&mut read.left);
                    read.ended.failed += u32::try_from(left.len()).unwrap_or(u32::MAX);
                }
                self.end_reads();
            }
            return;
        }
        let now = self.now;
        let due: Vec<SaTable> = self
            .records
            .rechecks
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(table, _)| *table)
            .collect();
        for table in due {
            self.records.rechecks.remove(&table);
            self.want(table);
        }
        if !self.records.asking
            && self.records.not_before <= now
            && let Some(table) = self.records.queue.pop_front()
        {
            self.records.asking = true;
            self.enqueue(Job::new(Ask::Table(table), Who::Sm).attempts(1));
        }
    }

    /// How long a table may take, by what it will hold.
    pub(super) fn table_timeout(&self, table: SaTable) -> Duration {
        let nodes = self.topology.nodes();
        let is_switch = |kind| kind == NodeKind::Switch;
        let rows: usize = match table {
            SaTable::Ports | SaTable::Links | SaTable::Pkeys => nodes.map(|n| n.ports.len()).sum(),
            SaTable::Switches => nodes.filter(|n| is_switch(n.kind)).count(),
            SaTable::Lft => nodes
                .filter_map(|n| n.switch.as_ref())
                .map(|s| usize::from(s.linear_fdb_top() / 64) + 1)
                .sum(),
            _ => nodes.count(),
        };
        let bytes = rows * table.info().len;
        let kilobytes = u32::try_from(bytes.div_ceil(1_000)).unwrap_or(u32::MAX);
        TABLE_LEAST
            .saturating_add(TABLE_PER_KB.saturating_mul(kilobytes))
            .min(TABLE_MOST)
            .max(self.timeout())
    }

    /// The SA is busy: the table waits its turn again, and longer each time.
    pub(super) fn table_busy(&mut self, table: SaTable) {
        let it = &mut self.records;
        it.not_before = self.now + pause(BUSY, it.busy);
        it.busy += 1;
        if it.busy < BUSY_MOST {
            it.queue.push_front(table);
        } else {
            it.busy = 0;
            self.table_ended(table, false);
        }
    }

    /// The question for a table is over, whatever came of it.
    pub(super) fn table_over(&mut self, table: SaTable, done: Done) {
        self.records.asking = false;
        let keyed = self.config.sm_key.is_some();
        if done == Done::Answered {
            if keyed && self.records.unkeyed && !self.records.key_ignored {
                self.records.key_ignored = true;
                let text = "the SA does not answer who gives it this SM_Key: it is asked without";
                self.note(Severity::Warning, None, text.to_owned());
            }
            return;
        }
        let it = &mut self.records;
        it.not_before = self.now + pause(SILENT, it.silent);
        it.silent += 1;
        if keyed && !it.key_ignored {
            it.unkeyed = !it.unkeyed;
            if it.unkeyed {
                it.queue.push_front(table);
                return;
            }
        }
        self.table_ended(table, false);
    }

    /// Questions for tables do not get the SM_Key: it seems to be another SA's.
    pub(super) fn is_key_ignored(&self) -> bool {
        self.records.unkeyed
    }

    /// What was wanted of a table is done, or cannot be.
    fn table_ended(&mut self, table: SaTable, ok: bool) {
        self.records.second.remove(&table);
        if table == SaTable::Paths && !ok {
            self.sample_paths();
        }
        for read in &mut self.records.reads {
            if read.left.remove(&table) {
                match ok {
                    true => read.ended.answered += 1,
                    false => read.ended.failed += 1,
                }
            }
        }
        self.end_reads();
    }

    /// A table came, or the SA said why it does not.
    pub(super) fn table_told(&mut self, table: SaTable, mad: &Mad) {
        self.records.busy = 0;
        self.records.silent = 0;
        if !mad.status().is_ok() {
            self.table_ended(table, false);
            return;
        }
        if !is_whole_table(mad) {
            // Those that nobody waits for would come cut just as well.
            self.records.cut = true;
            let reads = &self.records.reads;
            let awaited = |t: &SaTable| reads.iter().any(|read| read.left.contains(t));
            let (keep, drop): (_, VecDeque<SaTable>) = std::mem::take(&mut self.records.queue)
                .into_iter()
                .partition(awaited);
            self.records.queue = keep;
            self.table_ended(table, false);
            for other in drop {
                self.table_ended(other, false);
            }
            return;
        }
        if table == SaTable::Paths {
            self.paths_told(mad);
        }
        if !self.records.discovered {
            self.table_ended(table, true);
            return;
        }
        let sms = self.seen_sms();
        let found = differences(&self.topology, &sms, table, mad);
        let news: BTreeSet<Difference> =
            found.difference(&self.records.confirmed).copied().collect();
        let (again, before) = self.records.second.remove(&table).unwrap_or_default();
        if news.is_subset(&before) || again >= AGAIN_MOST {
            self.records.confirmed.retain(|d| d.table() != table);
            self.records.confirmed.extend(found);
            self.table_ended(table, true);
            return;
        }
        self.records.rechecks.insert(table, self.now + RECHECK);
        self.ask_again(table, &news);
        self.records.second.insert(table, (again + 1, news));
    }

    /// Asks those again of whom the SA says something else.
    fn ask_again(&mut self, table: SaTable, news: &BTreeSet<Difference>) {
        if table == SaTable::Sms {
            self.ask_sms_soon();
            return;
        }
        let asked: BTreeSet<Reread> = news.iter().filter_map(Difference::reread).collect();
        let run = self.open_rediscovery();
        for reread in asked.into_iter().take(RECHECKED) {
            let (ask, node) = match reread {
                Reread::Node(id) => (Ask::NodeInfo, id),
                Reread::Description(id) => (Ask::NodeDescription, id),
                Reread::Switch(id) => (Ask::SwitchInfo, id),
                Reread::Port(key) => {
                    let port = self.number_to_ask(key.node, key.port);
                    (Ask::PortInfo(port), key.node)
                }
            };
            let job = Job::new(ask, Who::Node(node)).by(By::Lid);
            self.enqueue(job.run(Some(run)));
        }
        self.count(Some(run), Done::Dropped);
    }

    /// Port 0 of an adapter means the adapter: the port by which it is reached.
    fn number_to_ask(&self, id: NodeId, port: u8) -> u8 {
        match self.topology.node(id) {
            Some(node) if port == 0 && node.kind != NodeKind::Switch => node.entry,
            _ => port,
        }
    }

    /// Every path from here, with its service level.
    fn paths_told(&mut self, mad: &Mad) {
        for record in records::<PathRecord>(&mad.view()) {
            let key = self.topology.by_lid(record.dlid());
            let Some(id) = key.map(|key| key.node) else {
                continue;
            };
            let asked = self.topology.node(id).and_then(|n| n.any_lid());
            if asked == Some(record.dlid()) {
                self.nodes.of(id).sl = Some(record.sl());
            }
        }
        self.all_paths_known();
    }
}
