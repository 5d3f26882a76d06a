//! Every subnet manager that a port says runs there: the master is asked by the LID that the
//! local port names (see `sa`), the others here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::core::Core;
use super::job::{Ask, By, Done, Job, Who};
use crate::event::{ReadingEnded, Topic};
use crate::fabric::sa::SeenSm;
use crate::fabric::{NodeKind, PortKey};
use crate::mad::{Attribute, Mad, PortCaps, SmInfo};
use crate::port::Stamp;

/// How often the SMs that are not ours are asked how they are.
const SM_INFO: Duration = Duration::from_secs(10);
/// One that did not answer for this long is none.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The subnet managers.
#[derive(Debug, Default)]
pub(super) struct Sms {
    /// When they are asked next; `None` before they are known.
    next: Option<Stamp>,
    /// Questions that are not over.
    open: u32,
    /// What each one last said, and when.
    seen: BTreeMap<u64, (SeenSm, Stamp)>,
    /// Somebody waits for the answers.
    reading: Option<ReadingEnded>,
}

impl Core {
    pub(super) fn sms_deadline(&self) -> Option<Stamp> {
        self.sms.next
    }

    /// A discovery ended, or what the SMs say is in doubt: they are asked at once.
    pub(super) fn ask_sms_soon(&mut self) {
        if self.config.sa {
            self.sms.next = Some(self.now);
        }
    }

    pub(super) fn run_sms(&mut self) {
        if self.sms.next.is_none_or(|at| at > self.now) {
            return;
        }
        self.sms.next = Some(self.now + SM_INFO);
        let ours = self.sm_lid();
        self.ask_sms(|lid| lid.is_none() || lid != ours);
    }

    /// Asks every SM, and says when all have answered.
    pub(super) fn read_sms(&mut self) {
        self.sms.reading = Some(ReadingEnded::default());
        self.ask_sms(|_| true);
        self.end_sms();
    }

    fn ask_sms(&mut self, wanted: impl Fn(Option<u16>) -> bool) {
        let ports: Vec<PortKey> = self
            .topology
            .nodes()
            .filter(|node| node.present)
            .flat_map(|node| {
                let ports = match node.kind {
                    NodeKind::Switch => 0..=0,
                    _ => 1..=u8::try_from(node.ports.len().saturating_sub(1)).unwrap_or(u8::MAX),
                };
                ports.map(move |port| (node, port))
            })
            .filter(|(node, port)| {
                let info = node.port(*port).and_then(|p| p.info.as_ref());
                info.is_some_and(|i| i.cap_mask().has(PortCaps::IS_SM)) && wanted(node.lid(*port))
            })
            .map(|(node, port)| node.id.port(port))
            .collect();
        self.sms.open += u32::try_from(ports.len()).unwrap_or(0);
        for key in ports {
            let job = Job::new(Ask::SmInfoAt(key.port), Who::Node(key.node));
            self.enqueue(job.by(By::Lid).attempts(1));
        }
    }

    /// A question to an SM is over.
    pub(super) fn sm_answered(&mut self, key: Option<PortKey>, done: Done) {
        // A failure is told as dropped, since it says nothing about the node.
        if done != Done::Answered
            && let Some(guid) = key.and_then(|key| self.topology.port(key)?.guid)
        {
            self.sm_silent(guid.0);
        }
        self.sms.open = self.sms.open.saturating_sub(1);
        if let Some(ended) = &mut self.sms.reading {
            match done {
                Done::Answered => ended.answered += 1,
                Done::Failed | Done::Dropped => ended.failed += 1,
            }
        }
        self.end_sms();
    }

    fn end_sms(&mut self) {
        if self.sms.open == 0
            && let Some(ended) = self.sms.reading.take()
        {
            self.reading_ended(Topic::Sms, ended);
        }
    }

    /// An SM told of itself.
    pub(super) fn sm_seen(&mut self, mad: &Mad) {
        if let Ok(info) = SmInfo::from_bytes(mad.data()) {
            let seen = SeenSm {
                guid: info.guid(),
                state: info.state().code(),
                priority: info.priority(),
            };
            self.sms.seen.insert(seen.guid, (seen, self.now));
        }
    }

    /// An SM did not answer: what it said before does not hold.
    pub(super) fn sm_silent(&mut self, guid: u64) {
        self.sms.seen.remove(&guid);
    }

    /// Those that answered lately, and whose nodes are there.
    pub(super) fn seen_sms(&mut self) -> Vec<SeenSm> {
        let now = self.now;
        let gone: BTreeSet<u64> = self
            .topology
            .nodes()
            .filter(|node| !node.present)
            .flat_map(|node| node.ports.iter().filter_map(|p| Some(p.guid?.0)))
            .collect();
        let there = |guid: &u64, at: Stamp| now.since(at) <= FORGOTTEN && !gone.contains(guid);
        self.sms.seen.retain(|guid, (_, at)| there(guid, *at));
        self.sms.seen.values().map(|(sm, _)| *sm).collect()
    }

    /// Nothing comes back any more.
    pub(super) fn drop_sms(&mut self) {
        self.sms.open = 0;
        self.end_sms();
        self.sms = Sms::default();
    }
}
