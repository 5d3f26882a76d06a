//! The master subnet manager and its administration: SMInfo, the subscription for notices,
//! service levels. Its tables are the business of `records`, other SMs that of `sms`.
//!
//! The one Set that the engine sends unasked is the subscription. It is made only if Reports
//! reach us: otherwise another process on this host holds it, and the SA would take our
//! withdrawal for its.

use std::collections::VecDeque;
use std::time::Duration;

use super::core::Core;
use super::job::{Ask, Job, Who};
use crate::event::Severity;
use crate::fabric::{NodeId, PortKey};
use crate::mad::{Attribute, Mad, MgmtClass, PathRecord, SmInfo};
use crate::port::{Agent, Source, Stamp};

/// How often the SM is asked how it is.
const SM_INFO: Duration = Duration::from_secs(5);
/// How often the subscription is renewed: a restarted SM forgets it without a word.
const RENEW: Duration = Duration::from_secs(60);
/// After a refused or unanswered subscription.
const RENEW_FAILED: Duration = Duration::from_secs(10);
/// Destinations whose SL is asked before all are.
const SL_SAMPLES: usize = 16;

/// What is known of the SM and SA, and what is being asked.
#[derive(Debug, Default)]
pub(super) struct Sa {
    /// GUID and activity count of the last SMInfo.
    seen: Option<(u64, u32)>,
    next_info: Option<Stamp>,
    next_inform: Option<Stamp>,
    asking_info: bool,
    asking_inform: bool,
    asking_path: bool,
    pub(super) subscribed: bool,
    /// The subscription is being withdrawn.
    pub(super) withdrawing: bool,
    /// The last refusal was said.
    complained: bool,
    /// Destinations whose SL is to be asked.
    paths: VecDeque<NodeId>,
    /// Asked or planned: with this SM, a sample or all of them.
    sampled: bool,
    all_paths: bool,
    /// They came as one table.
    whole: bool,
}

impl Sa {
    /// A request to the SM or SA is over.
    pub(super) fn over(&mut self, ask: Ask) {
        match ask {
            Ask::SmInfo => self.asking_info = false,
            Ask::Inform(_) => self.asking_inform = false,
            Ask::Path(_) => self.asking_path = false,
            _ => {}
        }
    }

    /// Nothing comes back any more.
    pub(super) fn drop_requests(&mut self) {
        *self = Sa::default();
    }
}

impl Core {
    /// The SM's LID, if it can be asked by SMP.
    pub(super) fn sm_lid(&self) -> Option<u16> {
        let local = self.local.as_ref().filter(|_| self.can_route_by_lid())?;
        Some(local.sm_lid)
    }

    /// The SM's LID, if its SA can be asked.
    pub(super) fn sa_lid(&self) -> Option<u16> {
        let local = self.local.as_ref()?;
        let usable = self.has_agent(Agent::SubnAdm) && local.lid != 0 && local.state == 4;
        (usable && local.sm_lid != 0).then_some(local.sm_lid)
    }

    pub(super) fn sa_deadline(&self) -> Option<Stamp> {
        let sa = &self.sa;
        let mut at = None;
        let mut sooner = |t: Option<Stamp>| {
            at = match (at, t) {
                (Some(a), Some(b)) => Some(std::cmp::min::<Stamp>(a, b)),
                (a, b) => a.or(b),
            }
        };
        if !sa.asking_info {
            sooner(sa.next_info);
        }
        if !sa.asking_inform {
            sooner(sa.next_inform);
        }
        at
    }

    /// The SM or the way to it is another: subscription, SLs and counts begin anew.
    pub(super) fn sm_changed(&mut self) {
        let sa = &mut self.sa;
        sa.seen = None;
        sa.subscribed = false;
        sa.complained = false;
        sa.next_info = Some(self.now);
        sa.next_inform = Some(self.now);
        sa.paths.clear();
        sa.sampled = false;
        sa.all_paths = false;
        sa.whole = false;
        for node in self.nodes.values_mut() {
            node.sl = None;
        }
        self.records_begin_anew();
        if self.is_compared() {
            self.compare_with_sa();
            self.ask_sms_soon();
        }
    }

    pub(super) fn run_sa(&mut self) {
        if self.sa.next_info.is_none() {
            self.sa.next_info = Some(self.now);
            self.sa.next_inform = Some(self.now);
        }
        if !self.sa.asking_info && self.sa.next_info.is_some_and(|at| at <= self.now) {
            self.sa.next_info = Some(self.now + SM_INFO);
            if self.config.sa {
                self.read_own_port();
                if self.sm_lid().is_some() {
                    self.sa.asking_info = true;
                    self.enqueue(Job::new(Ask::SmInfo, Who::Sm).attempts(1));
                }
            }
        }
        if !self.sa.asking_inform && self.sa.next_inform.is_some_and(|at| at <= self.now) {
            self.sa.next_inform = Some(self.now + RENEW);
            if self.config.subscribe && self.gets_reports() && self.sa_lid().is_some() {
                self.sa.asking_inform = true;
                self.enqueue(Job::new(Ask::Inform(true), Who::Sm).urgent());
            }
        }
        if self.sa_lid().is_none() {
            return;
        }
        if !self.sa.asking_path
            && let Some(id) = self.sa.paths.pop_front()
        {
            self.sa.asking_path = true;
            self.enqueue(Job::new(Ask::Path(id), Who::Sm));
        }
    }

    /// Under the shim the device's files never change: the port itself knows its LID and SM.
    fn read_own_port(&mut self) {
        if let (Source::Umad { shim: true, .. }, Some(key)) = (&self.source, self.topology.local())
        {
            let port = match self.topology.node(key.node) {
                Some(node) if node.kind == crate::fabric::NodeKind::Switch => 0,
                _ => key.port,
            };
            self.enqueue(Job::new(Ask::PortInfo(port), Who::Node(key.node)));
        }
    }

    /// PortInfo of the local port came.
    pub(super) fn local_port_read(&mut self, key: PortKey) {
        if !matches!(self.source, Source::Umad { shim: true, .. }) {
            return;
        }
        let (Some(local), Some(info)) = (
            self.local.clone(),
            self.topology.port(key).and_then(|p| p.info.as_ref()),
        ) else {
            return;
        };
        let mut port = local;
        port.lid = info.lid();
        port.lmc = info.lmc();
        port.sm_lid = info.sm_lid();
        port.sm_sl = info.sm_sl();
        port.state = info.port_state().code();
        self.set_local(port);
    }

    pub(super) fn sm_info(&mut self, mad: &Mad) {
        let Ok(info) = SmInfo::from_bytes(mad.data()) else {
            return;
        };
        self.sm_seen(mad);
        let now = (info.guid(), info.act_count());
        let old = self.sa.seen.replace(now);
        // Another SM on the same LID, or the same one restarted: it has forgotten us.
        if old.is_some_and(|(guid, count)| guid != now.0 || now.1 < count) {
            self.sm_changed();
            self.sa.seen = Some(now);
            self.sa.next_info = Some(self.now + SM_INFO);
        }
    }

    pub(super) fn informed(&mut self, subscribe: bool, mad: &Mad) {
        let status = mad.status();
        if !subscribe {
            self.sa.subscribed = false;
        } else if status.is_ok() {
            self.sa.subscribed = true;
            self.sa.complained = false;
        } else {
            self.sa.next_inform = Some(self.now + RENEW_FAILED);
            let why = status.words(MgmtClass::SubnAdm).to_string();
            self.not_subscribed(&why);
        }
    }

    fn not_subscribed(&mut self, why: &str) {
        self.sa.subscribed = false;
        if !std::mem::replace(&mut self.sa.complained, true) {
            self.note(
                Severity::Warning,
                None,
                format!("no notices: the SA did not take the subscription ({why})"),
            );
        }
    }

    /// A request to the SM or SA was not answered at all.
    pub(super) fn sa_failed(&mut self, ask: Ask) {
        match ask {
            Ask::Inform(true) => {
                self.sa.next_inform = Some(self.now + RENEW_FAILED);
                self.not_subscribed("no answer");
            }
            Ask::SmInfo => {
                if let Some((guid, _)) = self.sa.seen {
                    self.sm_silent(guid);
                }
            }
            // A busy SA drops requests silently; it is not asked for one path after another.
            Ask::Path(_) => self.sa.paths.clear(),
            _ => {}
        }
    }

    /// Learns the service level of every destination: from one table of all paths from here.
    pub(super) fn learn_service_levels(&mut self) {
        if self.sa.sampled || !self.config.sa || self.sa_lid().is_none() {
            return;
        }
        self.sa.sampled = true;
        if !self.want_paths() {
            self.sample_paths();
        }
    }

    /// The table of paths came.
    pub(super) fn all_paths_known(&mut self) {
        self.sa.whole = true;
        self.sa.all_paths = true;
        self.sa.paths.clear();
    }

    /// A full discovery ended: new nodes have paths too, and routes may be others.
    pub(super) fn discovery_over(&mut self) {
        self.compare_with_sa();
        self.ask_sms_soon();
        if self.sa.whole {
            self.want_paths();
        }
    }

    /// Where the table of paths cannot be had: asks for some destinations; for all, once one
    /// has another level than the default.
    ///
    /// A level that no sample shows is missed then: only SAs without RMPP (a simulator's) and
    /// those that refuse the table are asked like this, and one question for each of thousands
    /// of nodes would be a burden on the second kind.
    pub(super) fn sample_paths(&mut self) {
        if self.sa.all_paths {
            return;
        }
        let present: Vec<NodeId> = self
            .topology
            .nodes()
            .filter(|n| n.present)
            .map(|n| n.id)
            .collect();
        let step = present.len().div_ceil(SL_SAMPLES).max(1);
        self.sa.paths = present.into_iter().step_by(step).collect();
    }

    pub(super) fn path_told(&mut self, id: NodeId, mad: &Mad) {
        if !mad.status().is_ok() {
            return;
        }
        let Ok(record) = PathRecord::from_bytes(mad.data()) else {
            return;
        };
        let lid = self.topology.node(id).and_then(|n| n.any_lid());
        if lid != Some(record.dlid()) {
            return;
        }
        let sl = record.sl();
        self.nodes.of(id).sl = Some(sl);
        if sl != 0 && !std::mem::replace(&mut self.sa.all_paths, true) {
            let known = &self.nodes;
            self.sa.paths = self
                .topology
                .nodes()
                .filter(|n| n.present && known.get(&n.id).is_none_or(|k| k.sl.is_none()))
                .map(|n| n.id)
                .collect();
        }
    }
}
