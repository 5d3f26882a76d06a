//! What comes in: replies are matched, learned from and followed up; the rest is sorted.

use std::time::Duration;

use super::core::Core;
use super::job::{Ask, Done, Job, Lane, Who};
use super::nodes::{Pma, Redirect};
use super::table::{Pending, Stage};
use crate::event::{Malformed, Received, Severity, What};
use crate::fabric::{Changes, NodeId};
use crate::mad::{Attribute, ClassPortInfo, Mad, MgmtClass, PathRecord, StatusCode};
use crate::port::{Address, Arrival};

/// How often "busy" is taken for an answer before the request counts as failed.
const BUSY_MOST: u8 = 10;

/// Asked of subnet administration, which takes as long as its work takes.
pub(super) const fn is_sa(ask: Ask) -> bool {
    matches!(
        ask,
        Ask::Inform(_)
            | Ask::Path(_)
            | Ask::PathGid(_)
            | Ask::Table(_)
            | Ask::Told(_)
            | Ask::ToldLft(..)
            | Ask::ToldSwitch(_)
    )
}

fn is_unsupported(mad: &Mad) -> bool {
    matches!(
        mad.status().code(),
        StatusCode::UnsupportedMethod | StatusCode::UnsupportedAttribute
    )
}

impl Core {
    pub(super) fn arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Mad { addr, mad } => match self.table.answered(&mad) {
                Some(pending) => self.answered(pending, addr, mad),
                None => self.unsolicited(addr, mad),
            },
            Arrival::Unanswered { tid, class, .. } => {
                if let Some(pending) = self.table.unanswered(tid, class) {
                    self.unanswered(tid, pending);
                }
            }
            Arrival::Malformed { len, why, head } => {
                if self.admit_unsolicited() {
                    self.emit(What::Malformed(Box::new(Malformed { len, why, head })));
                }
            }
        }
    }

    fn answered(&mut self, pending: Pending, addr: Address, mut mad: Mad) {
        self.hide_key(&mut mad);
        let Pending {
            mut job,
            request,
            sent,
            stage,
            ..
        } = pending;
        let (took, timeout) = (self.now.since(sent), self.timeout());
        let share = self.share(job.lane());
        if stage == Stage::Window {
            share.over(&job);
        }
        let timely = !is_sa(job.ask);
        if timely {
            share.answered(took, job.attempt > 1, timeout);
            if stage != Stage::Window {
                share.late();
            }
        }
        let needless = self.end_other_attempts(&job, stage);
        job.id = 0;
        let changes = self.topology.learn(&request, &mad);
        // NodeInfo says who answered; where another one answers, the node asked is not back.
        let who = match job.ask {
            Ask::NodeInfo => changes.who,
            _ => job.node(),
        };
        if timely {
            self.took(job.lane(), who, took, needless);
        }
        self.routes.learn(self.now, &request, &mad, &changes);
        self.emit(What::Received(Received {
            addr,
            mad: mad.clone(),
        }));
        // A discovery that ended without this answer is followed up by a rediscovery.
        if job.run.is_some_and(|run| !self.loops.is_current(run)) {
            job.run = None;
        }
        if self.is_closing() {
            self.finish(job, Done::Answered);
            return;
        }
        let status = mad.status();
        if let (true, Ask::Table(table)) = (status.is_busy(), job.ask) {
            self.table_busy(table);
            self.finish(job, Done::Answered);
            return;
        }
        if status.is_busy() {
            self.busy(job);
            return;
        }
        if status.is_redirect() && self.redirect(job, &mad) {
            return;
        }
        let returned = who.is_some_and(|id| self.is_well(id, job.lane()));
        self.follow(&job, &mad, &changes);
        if returned && job.lane() == Lane::Smp {
            self.walk_again(who);
        }
        self.finish(job, Done::Answered);
    }

    /// An answer took this long; it came after a further attempt had left if that was `needless`.
    fn took(&mut self, lane: Lane, who: Option<NodeId>, took: Duration, needless: bool) {
        if needless {
            self.share(lane).floor.needless();
        }
        if let Some(id) = who {
            let seat = self.nodes.of(id).seat(lane);
            seat.rtt.sample(took);
            if needless {
                seat.patience = seat.patience.max(took);
            }
        }
    }

    /// The agent is busy: that is an answer, and the question is put again later.
    fn busy(&mut self, mut job: Job) {
        job.busy += 1;
        if let Some(id) = job.node() {
            self.nodes.of(id).seat(job.lane()).troubled = false;
        }
        if job.busy >= BUSY_MOST {
            self.finish(job, Done::Failed);
            return;
        }
        let resp_time = match job.lane() {
            Lane::Smp => job
                .node()
                .and_then(|id| self.topology.node(id))
                .and_then(|node| node.port(node.entry)?.info.as_ref())
                .map(|info| info.resp_time_value()),
            Lane::Gmp => job
                .node()
                .and_then(|id| self.nodes.get(&id))
                .and_then(|node| node.resp_time),
        };
        // Busier and busier agents are asked later and later.
        let at = self.busy_until(resp_time) + Duration::from_millis(10) * u32::from(job.busy - 1);
        self.delay(job, at);
    }

    /// Follows a redirection once. False if there is none to follow.
    fn redirect(&mut self, mut job: Job, mad: &Mad) -> bool {
        let (Some(id), MgmtClass::Perf, false) = (job.node(), mad.class(), job.redirected) else {
            return false;
        };
        let Ok(info) = ClassPortInfo::from_bytes(mad.data()) else {
            return false;
        };
        let pkey = info.redirect_pkey();
        if !self.is_our_partition(id, pkey) {
            return false;
        }
        // LID 0 means a GID to resolve (spec 13.4.8.1).
        if info.redirect_lid() == 0 && info.redirect_qp() != 0 {
            self.resolve(id, &info);
            return false;
        }
        if !(1..0xC000).contains(&info.redirect_lid()) || info.redirect_qp() == 0 {
            return false;
        }
        self.nodes.of(id).redirect = Some(Redirect {
            lid: info.redirect_lid(),
            qpn: info.redirect_qp(),
            qkey: info.redirect_qkey(),
            sl: info.redirect_sl(),
            pkey,
        });
        job.redirected = true;
        job.attempt = 1;
        self.share(job.lane()).push(job);
        true
    }

    /// Whoever is redirected must use the P_Key that the redirection names: any other would count
    /// as a violation there. It has to be in the local port's table.
    fn is_our_partition(&mut self, id: NodeId, pkey: u16) -> bool {
        let ours = self.pkey_index_for(pkey).is_some();
        let told = &mut self.nodes.of(id).foreign_pkey;
        if !ours && !std::mem::replace(told, true) {
            self.note(
                Severity::Warning,
                Some(id),
                format!(
                    "its performance management redirects to partition {pkey:#06x}, whose key \
                     this port does not have: its counters cannot be read"
                ),
            );
        }
        ours
    }

    /// A performance agent redirects to a GID: the SA is asked for the way there, once.
    fn resolve(&mut self, id: NodeId, info: &ClassPortInfo) {
        let node = self.nodes.of(id);
        let to = (
            info.redirect_gid(),
            info.redirect_qp(),
            info.redirect_qkey(),
            info.redirect_pkey(),
        );
        if node.redirect_gid == Some(to) {
            return;
        }
        node.redirect_gid = Some(to);
        if self.sa_lid().is_some() {
            self.enqueue(Job::new(Ask::PathGid(id), Who::Sm));
        } else {
            self.not_resolved(id);
        }
    }

    fn not_resolved(&mut self, id: NodeId) {
        if let Some((gid, ..)) = self.nodes.get(&id).and_then(|n| n.redirect_gid) {
            self.note(
                Severity::Warning,
                Some(id),
                format!(
                    "its performance management is at the GID {gid}, to which the SA tells no \
                     path: its counters cannot be read"
                ),
            );
        }
    }

    /// The SA told the way to the GID of a redirection, or that there is none.
    fn redirect_resolved(&mut self, id: NodeId, mad: &Mad, ok: bool) {
        let record = PathRecord::from_bytes(mad.data()).ok();
        let record = record.filter(|r| ok && (1..0xC000).contains(&r.dlid()));
        let to = self.nodes.get(&id).and_then(|n| n.redirect_gid);
        let (Some(record), Some((_, qpn, qkey, pkey))) = (record, to) else {
            return self.not_resolved(id);
        };
        let node = self.nodes.of(id);
        // What it said of itself it said before it could be asked.
        node.forget_pma();
        node.redirect = Some(Redirect {
            lid: record.dlid(),
            qpn,
            qkey,
            sl: record.sl(),
            pkey,
        });
    }

    /// Index of the local key by which GMPs reach a member of a partition with this key. The
    /// default partition's, and 0, which is no key, mean the one that all others take.
    pub(super) fn pkey_index_for(&self, pkey: u16) -> Option<u16> {
        let local = self.local.as_ref()?;
        match pkey & 0x7FFF {
            0 | 0x7FFF => Some(local.pkey_index.unwrap_or(0)),
            _ => local.pkey_index_for(pkey),
        }
    }

    /// What an answer leads to.
    fn follow(&mut self, job: &Job, mad: &Mad, changes: &Changes) {
        let ok = mad.status().is_ok();
        self.note_changes(changes);
        match (job.ask, job.who) {
            (Ask::NodeInfo, _) if ok => self.met(job, changes),
            (Ask::PortInfo(port), Who::Node(id)) => self.port_read(job, id, port, ok, changes),
            (Ask::SmInfo, _) if ok => self.sm_info(mad),
            (Ask::PerfCaps, Who::Node(id)) => {
                let info = ClassPortInfo::from_bytes(mad.data()).ok().filter(|_| ok);
                let node = self.nodes.of(id);
                // An agent that will not tell is taken to have the basic counters only.
                node.pma = Pma::Known {
                    caps: info.map(|i| i.cap_mask()).unwrap_or_default(),
                    caps2: info.map(|i| i.cap_mask2()).unwrap_or_default(),
                };
                node.resp_time = info.map(|i| i.resp_time_value());
            }
            (Ask::AllPorts, Who::Node(id)) => self.sum_read(id, mad),
            (Ask::Counters(port), Who::Node(id)) => self.errors_read(job, id, port, mad),
            (Ask::Speeds(_) | Ask::Detail(..), Who::Node(id)) if is_unsupported(mad) => {
                self.refused(id, job.ask);
            }
            (Ask::Inform(subscribe), _) => self.informed(subscribe, mad),
            (Ask::Path(id), _) => self.path_told(id, mad),
            (Ask::PathGid(id), _) => self.redirect_resolved(id, mad, ok),
            (Ask::Told(step), _) => self.told(job, step, ok, changes.who),
            (Ask::Table(table), _) => self.table_told(table, mad),
            (Ask::SmInfoAt(_), _) if ok => self.sm_seen(mad),
            _ => {}
        }
    }
}
