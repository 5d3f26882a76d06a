//! Forwarding tables, read on demand: the blocks that decide on one path, or a whole table.
//!
//! A path is read hop by hop, since only a switch's entry says which switch is next. A block
//! that was read lately, and since when no link came or went, is not asked for again. Of a switch
//! that is protected or does not answer, the SA is asked.

use std::collections::BTreeSet;
use std::time::Duration;

use super::core::Core;
use super::job::{Ask, By, Done, Job, Who};
use crate::event::{ReadingEnded, Topic};
use crate::fabric::routes::{BLOCK, End, Entry, Tables, walk};
use crate::fabric::{Changes, Lid, NodeId, NodeKind, PortKey, Request};
use crate::mad::Mad;
use crate::port::Stamp;

/// A block that is not older needs not be read again.
const FRESH: Duration = Duration::from_secs(30);

/// What is asked of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    /// How far its table goes.
    Info,
    /// A block of it.
    Block(u16),
}

/// Of which switch, whether the SA is asked in its stead, and what.
type Asked = (NodeId, bool, Question);

/// A reading under way.
#[derive(Debug)]
struct Read {
    topic: Topic,
    asked: BTreeSet<Asked>,
    open: BTreeSet<Asked>,
    /// They did not answer.
    silent: BTreeSet<NodeId>,
    ended: ReadingEnded,
}

/// The tables, and what is being read of them.
#[derive(Debug, Default)]
pub(super) struct Routes {
    tables: Tables,
    reads: Vec<Read>,
    /// Something came: the readings may go on.
    dirty: bool,
}

impl Routes {
    pub(super) fn learn(&mut self, at: Stamp, request: &Request, reply: &Mad, changes: &Changes) {
        self.tables.learn(at, request, reply);
        self.tables.note(at, changes);
    }
}

impl Core {
    /// Begins to read what a path or a table needs.
    pub(super) fn read_routes(&mut self, topic: Topic) {
        self.routes.dirty = true;
        if self.routes.reads.iter().all(|read| read.topic != topic) {
            self.routes.reads.push(Read {
                topic,
                asked: BTreeSet::new(),
                open: BTreeSet::new(),
                silent: BTreeSet::new(),
                ended: ReadingEnded::default(),
            });
        }
    }

    /// Nothing comes back any more.
    pub(super) fn drop_routes(&mut self) {
        for read in std::mem::take(&mut self.routes.reads) {
            self.reading_ended(read.topic, read.ended);
        }
    }

    /// A question to a node about its forwarding is over.
    pub(super) fn route_answered(&mut self, node: Option<NodeId>, ask: Ask, done: Done) {
        let (of, told, question) = match (ask, node) {
            (Ask::ToldLft(of, block), _) => (of, true, Question::Block(block)),
            (Ask::ToldSwitch(of), _) => (of, true, Question::Info),
            (Ask::Lft(block), Some(of)) => (of, false, Question::Block(block)),
            (_, Some(of)) => (of, false, Question::Info),
            (_, None) => return,
        };
        for read in &mut self.routes.reads {
            if read.open.remove(&(of, told, question)) {
                match done {
                    Done::Answered => read.ended.answered += 1,
                    Done::Failed | Done::Dropped => {
                        read.ended.failed += 1;
                        if !told {
                            read.silent.insert(of);
                        }
                    }
                }
                self.routes.dirty = true;
            }
        }
    }

    /// Lets the readings go on.
    pub(super) fn run_routes(&mut self) {
        while std::mem::take(&mut self.routes.dirty) {
            let mut at = 0;
            while let Some(read) = self.routes.reads.get(at) {
                let next = match &read.topic {
                    _ if !read.open.is_empty() => {
                        at += 1;
                        continue;
                    }
                    Topic::Path { from, lid } => self.next_of_path(read, *from, *lid),
                    Topic::Table { switch } => self.next_of_table(read, *switch),
                    Topic::Sa { .. } | Topic::Sms => Vec::new(),
                };
                if next.is_empty() {
                    let read = self.routes.reads.remove(at);
                    self.reading_ended(read.topic, read.ended);
                    continue;
                }
                if let Some(read) = self.routes.reads.get_mut(at) {
                    read.asked.extend(&next);
                    read.open.extend(&next);
                }
                for (node, told, question) in next {
                    let job = match (told, question) {
                        (false, Question::Info) => Job::new(Ask::SwitchInfo, Who::Node(node)),
                        (false, Question::Block(n)) => Job::new(Ask::Lft(n), Who::Node(node)),
                        (true, Question::Info) => Job::new(Ask::ToldSwitch(node), Who::Sm),
                        (true, Question::Block(n)) => Job::new(Ask::ToldLft(node, n), Who::Sm),
                    };
                    self.enqueue(job.by(By::Lid));
                }
                at += 1;
            }
        }
    }

    fn is_fresh(&self, read: Stamp) -> bool {
        self.now.since(read) <= FRESH && read >= self.routes.tables.changed()
    }

    /// The SA is to be asked for what this switch says; `None` if it is not, and the switch does
    /// not answer.
    fn by_sa(&self, read: &Read, node: NodeId) -> Option<bool> {
        let guarded = self.topology.node(node).is_some_and(|n| n.guarded);
        if !guarded && !read.silent.contains(&node) {
            return Some(false);
        }
        (self.config.sa && self.sa_lid().is_some()).then_some(true)
    }

    fn next_of_path(&self, read: &Read, from: PortKey, lid: Lid) -> Vec<Asked> {
        let block = Question::Block(lid / BLOCK);
        let entry = |node: NodeId, lid: Lid| -> Option<Entry> {
            let entry = self.routes.tables.entry(node, lid)?;
            let asked = [false, true].map(|told| read.asked.contains(&(node, told, block)));
            (asked.contains(&true) || self.is_fresh(entry.read)).then_some(entry)
        };
        let path = walk(&self.topology, from, lid, entry);
        let Some(last) = path.last() else {
            return Vec::new();
        };
        let question = match path.end {
            End::Unread => block,
            // A table may have grown since it was last asked how large it is.
            End::AboveTop(_) => Question::Info,
            _ => return Vec::new(),
        };
        let Some(told) = self.by_sa(read, last.node) else {
            return Vec::new();
        };
        let next = (last.node, told, question);
        if read.asked.contains(&next) {
            return Vec::new();
        }
        vec![next]
    }

    fn next_of_table(&self, read: &Read, switch: NodeId) -> Vec<Asked> {
        let Some(node) = self
            .topology
            .node(switch)
            .filter(|n| n.kind == NodeKind::Switch)
        else {
            return Vec::new();
        };
        let Some(told) = self.by_sa(read, switch) else {
            return Vec::new();
        };
        if !read.asked.contains(&(switch, told, Question::Info)) {
            return vec![(switch, told, Question::Info)];
        }
        let Some(info) = node.switch.as_ref().filter(|s| s.linear_fdb_cap() > 0) else {
            return Vec::new();
        };
        (0..=info
            .linear_fdb_top()
            .min(crate::fabric::routes::UNICAST_END - 1)
            / BLOCK)
            .filter(|block| {
                let known = self.routes.tables.read(switch, *block);
                !known.is_some_and(|at| self.is_fresh(at))
            })
            .map(|block| (switch, told, Question::Block(block)))
            .filter(|next| !read.asked.contains(next))
            .collect()
    }
}
