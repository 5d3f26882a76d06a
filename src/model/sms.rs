//! Subnet managers: what each says of itself, and what changed.

use std::time::Duration;

use super::log::Kind;
use super::state::{Pending, Slot, Sm};
use super::{Model, Num};
use crate::event::Severity;
use crate::fabric::sa::SeenSm;
use crate::fabric::{Guid, PortKey};
use crate::mad::{Attribute, Mad, SmInfo, SmState};
use crate::port::Stamp;

/// An SM whose activity count stands still for this long is stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// A master's word holds this long: until then, another one that says so too is a second master
/// and not its successor. Both are asked at least every ten seconds.
const WORD_HOLDS: Duration = Duration::from_secs(25);

/// What an SM said is compared with the SA's list for this long.
const COMPARED: Duration = Duration::from_secs(60);

/// A subnet manager.
#[derive(Clone, Debug)]
pub struct SmRow<'m> {
    /// Its port GUID.
    pub guid: u64,
    /// The port where it runs, if that is known.
    pub key: Option<PortKey>,
    /// That node's name; empty if it is not known.
    pub name: &'m str,
    /// Its LID; 0 if it has none.
    pub lid: u16,
    /// 0–15.
    pub priority: u8,
    /// SMInfo state code; `None` if it never answered and only the SA lists it.
    pub state: Option<u8>,
    /// Its activity count.
    pub activity: Option<u32>,
    /// Counts a second between its last two answers.
    pub activity_per_s: Num<f64>,
    /// It is stalled: since when its activity count stands still.
    pub still: Option<Duration>,
    /// The local port names it as its SM.
    pub ours: bool,
    /// How long it has been in its state, with its priority and LID.
    pub changed: Option<Duration>,
    /// Since when it does not answer.
    pub silent: Option<Duration>,
    /// Age of its last answer.
    pub age: Option<Duration>,
    /// State code in the SA's list, if it is there.
    pub listed: Option<u8>,
}

impl SmRow<'_> {
    /// The state in the specification's words.
    pub fn state_name(&self) -> String {
        self.state.map_or_else(
            || "never answered".to_owned(),
            |state| SmState::new(state).to_string(),
        )
    }

    /// It says that it is master, and answers.
    pub fn is_master(&self) -> bool {
        self.state == Some(MASTER) && self.silent.is_none()
    }
}

/// SMInfo's state codes.
const MASTER: u8 = 3;

impl Model {
    /// An SMInfo came.
    pub(super) fn sm_info(&mut self, at: Stamp, pending: &Pending, mad: &Mad) {
        let Ok(info) = SmInfo::parse(&mad.view()) else {
            return;
        };
        if !mad.status().is_ok() {
            return;
        }
        let guid = info.guid();
        let lid = if pending.request.path.is_none() {
            pending.request.lid
        } else {
            self.sm_key(guid)
                .and_then(|key| self.topology.node(key.node)?.lid(key.port))
                .unwrap_or(0)
        };
        let name = self.sm_name(guid);
        let before = self.sms.get(&guid).copied();
        let mut now = Sm {
            lid,
            priority: info.priority(),
            state: info.state().code(),
            activity: info.act_count(),
            at,
            still_since: at,
            told: false,
            displaced: before.and_then(|b| b.displaced),
            first: at,
            changed: at,
            silent: None,
            rate: None,
        };
        if let Some(old) = before {
            now.first = old.first;
            if (old.state, old.priority, old.lid) == (now.state, now.priority, now.lid) {
                now.changed = old.changed;
            }
            let secs = at.since(old.at).as_secs_f32();
            let counts = now.activity.checked_sub(old.activity);
            now.rate = counts.filter(|_| secs > 0.0).map(|n| n as f32 / secs);
        }
        self.sms.insert(guid, now);
        if let Some(before) = before {
            self.compare_sm(at, guid, &name, before, now);
        }
        self.judge_sm(at, guid);
        self.choose_master(at, guid, before);
    }

    /// Whether an SM that spoke is the master, another one's successor, or one of two.
    fn choose_master(&mut self, at: Stamp, guid: u64, before: Option<Sm>) {
        let Some(&sm) = self.sms.get(&guid) else {
            return;
        };
        let ours = self.local.as_ref().is_some_and(|l| l.sm_lid == sm.lid);
        if sm.state != MASTER && !(ours && self.master.is_none()) {
            return;
        }
        let old = match self.master {
            Some(old) if old != guid => old,
            _ => {
                self.master = Some(guid);
                return;
            }
        };
        let other = self.sms.get(&old).copied();
        let claims = other.is_some_and(|o| {
            o.state == MASTER && o.silent.is_none() && at.since(o.at) <= WORD_HOLDS
        });
        // Its word that it is master came after the other's last one, and before, and the
        // other's between them.
        let again = before.is_some_and(|b| b.state == MASTER && other.is_some_and(|o| o.at > b.at));
        if claims && again {
            let mut names = [self.sm_name(old), self.sm_name(guid)];
            names.sort();
            let [a, b] = names;
            let text = format!("two master SMs: {a} and {b}");
            self.say(at, Kind::Sm, Severity::Critical, text);
            if ours {
                self.master = Some(guid);
            }
            return;
        }
        if claims && !ours {
            // Either the other one is about to say that it is no more, or there are two.
            return;
        }
        self.master = Some(guid);
        let (from, to) = (self.sm_name(old), self.sm_name(guid));
        let text = format!("SM moved from {from} to {to} (LID {})", sm.lid);
        self.say(at, Kind::Sm, Severity::Critical, text);
        if let Some(old) = self.sms.get_mut(&old) {
            old.displaced = Some(at);
        }
        self.judge_failover(at);
    }

    /// An SM did not answer.
    pub(super) fn sm_silent(&mut self, at: Stamp, pending: &Pending) {
        let lid = pending.request.lid;
        let target = pending.request.target.key();
        let ours = self.local.as_ref().is_none_or(|l| l.sm_lid == lid);
        let key_of = |guid: &u64| self.port_guids.get(guid).copied();
        let silent: Vec<u64> = self
            .sms
            .iter()
            .filter(|(guid, sm)| match key_of(guid) {
                Some(key) if target.is_some() => target == Some(key),
                _ => sm.lid == lid && pending.request.path.is_none(),
            })
            .map(|(guid, _)| *guid)
            .collect();
        for guid in silent {
            if let Some(sm) = self.sms.get_mut(&guid) {
                sm.silent.get_or_insert(at);
            }
        }
        if ours {
            self.judge_silence(at, Slot::Sm);
            self.say(at, Kind::Timeout, Severity::Warning, "SM does not answer");
        }
    }

    /// The port of an SM, where it is known.
    fn sm_key(&self, guid: u64) -> Option<PortKey> {
        self.port_guids.get(&guid).copied()
    }

    pub(super) fn sm_name(&self, guid: u64) -> String {
        match self.sm_key(guid) {
            Some(key) => self.name(key.node).to_owned(),
            None => Guid(guid).to_string(),
        }
    }

    fn compare_sm(&mut self, at: Stamp, guid: u64, name: &str, old: Sm, new: Sm) {
        let mut tell = |severity, text: String| self.say(at, Kind::Sm, severity, text);
        if old.lid != new.lid {
            tell(
                Severity::Warning,
                format!("SM {name}: LID {} -> {}", old.lid, new.lid),
            );
        }
        if old.state != new.state {
            let state = SmState::new;
            let text = format!("SM {name}: {} -> {}", state(old.state), state(new.state));
            tell(Severity::Warning, text);
        }
        if old.priority != new.priority {
            let text = format!("SM {name}: priority {} -> {}", old.priority, new.priority);
            tell(Severity::Info, text);
        }
        let still = old.activity == new.activity;
        let since = if still { old.still_since } else { at };
        let stalled = still && at.since(since) >= STALLED_AFTER;
        if new.activity < old.activity {
            tell(Severity::Warning, format!("SM {name} restarted"));
        } else if stalled && !old.told {
            let text = format!(
                "SM {name}: its activity count stands still at {}",
                new.activity
            );
            tell(Severity::Critical, text);
        } else if !still && old.told {
            tell(Severity::Info, format!("SM {name} is active again"));
        }
        if let Some(sm) = self.sms.get_mut(&guid) {
            sm.still_since = since;
            sm.told = still && (old.told || stalled);
        }
    }

    /// What the SMs say of themselves, for the comparison with the SA's list.
    pub(super) fn seen_sms(&self, at: Stamp) -> Vec<SeenSm> {
        self.sms
            .iter()
            .filter(|(guid, sm)| {
                let gone = self
                    .sm_key(**guid)
                    .and_then(|key| self.topology.node(key.node))
                    .is_some_and(|node| !node.present);
                sm.silent.is_none() && !gone && at.since(sm.at) <= COMPARED
            })
            .map(|(guid, sm)| SeenSm {
                guid: *guid,
                state: sm.state,
                priority: sm.priority,
            })
            .collect()
    }

    /// Every subnet manager that was found: masters first, then by priority.
    pub fn subnet_managers(&self, now: Stamp) -> Vec<SmRow<'_>> {
        let listed = self.listed_sms();
        let mut rows: Vec<SmRow<'_>> = self
            .sms
            .iter()
            .map(|(guid, sm)| {
                let key = self.sm_key(*guid);
                SmRow {
                    guid: *guid,
                    key,
                    name: key.map_or("", |key| self.name(key.node)),
                    lid: sm.lid,
                    priority: sm.priority,
                    state: Some(sm.state),
                    activity: Some(sm.activity),
                    activity_per_s: sm.rate.map_or(Num::Unknown, |r| Num::Is(f64::from(r))),
                    still: sm.told.then(|| now.since(sm.still_since)),
                    ours: self.local.as_ref().is_some_and(|l| l.sm_lid == sm.lid),
                    changed: Some(now.since(sm.changed)),
                    silent: sm.silent.map(|at| now.since(at)),
                    age: Some(now.since(sm.at)),
                    listed: listed.get(guid).map(|(state, ..)| *state),
                }
            })
            .collect();
        // Those that only the SA knows.
        for (guid, (state, lid, priority)) in &listed {
            if !self.sms.contains_key(guid) {
                let key = self.sm_key(*guid);
                rows.push(SmRow {
                    guid: *guid,
                    key,
                    name: key.map_or("", |key| self.name(key.node)),
                    lid: *lid,
                    priority: *priority,
                    state: None,
                    activity: None,
                    activity_per_s: Num::Unknown,
                    still: None,
                    ours: false,
                    changed: None,
                    silent: None,
                    age: None,
                    listed: Some(*state),
                });
            }
        }
        rows.sort_by_key(|r| (!r.is_master(), std::cmp::Reverse(r.priority), r.guid));
        rows
    }
}
