//! The port that somebody looks at: its optional counters, and its other end's, each interval.
//!
//! Which optional attributes a node has is told by no capability that all devices fill in: each
//! is asked for once, and not again once a node refused it or stayed silent. (PortSamplesControl's
//! OptionMask is none either, see [`crate::mad::PortSamplesControl`].) One round waits for
//! the last one's end, so that a slow agent is asked more slowly and never more at once.

use super::core::Core;
use super::job::{Ask, Job, Who};
use crate::fabric::{NodeKind, PortKey};
use crate::mad::details::OPTIONAL;
use crate::mad::{Attribute, PortExtendedSpeeds};
use crate::port::{Agent, Stamp};

/// What ibsim has.
const IN_IBSIM: std::ops::RangeInclusive<u16> = 0x15..=0x1C;
/// Silence twice in a row is taken for "unsupported".
const ATTEMPTS: u8 = 2;

/// A port that somebody looks at.
#[derive(Debug)]
pub(super) struct Focus {
    key: PortKey,
    /// When its counters are read again.
    pub(super) next: Stamp,
    /// Requests of the last round that are not over.
    pub(super) open: u32,
}

impl Core {
    /// Somebody looks at this port from now on, or at none.
    pub(super) fn focus_on(&mut self, port: Option<PortKey>) {
        let open = self.focus.as_ref().map_or(0, |f| f.open);
        if self.focus.as_ref().map(|f| f.key) == port {
            return;
        }
        self.focus = port.map(|key| Focus {
            key,
            next: self.now,
            open,
        });
    }

    pub(super) fn focus_answered(&mut self) {
        if let Some(focus) = &mut self.focus {
            focus.open = focus.open.saturating_sub(1);
        }
    }

    /// Asks for the optional counters if they are due.
    pub(super) fn run_focus(&mut self) {
        let (now, interval) = (self.now, self.settings().interval());
        let Some(focus) = &mut self.focus else {
            return;
        };
        if focus.next > now {
            return;
        }
        focus.next = now + interval.max(std::time::Duration::from_millis(10));
        let (key, open) = (focus.key, focus.open);
        if open > 0 || !self.has_agent(Agent::Perf) || !self.config.counters {
            return;
        }
        let peer = self.topology.port(key).and_then(|p| p.peer);
        for key in std::iter::once(key).chain(peer) {
            self.ask_details(key);
        }
    }

    fn ask_details(&mut self, key: PortKey) {
        let limited = self.local.as_ref().is_some_and(|l| l.pkey_limited);
        let ibsim = self.is_ibsim();
        let Some(node) = self.topology.node(key.node) else {
            return;
        };
        let switch = node.kind == NodeKind::Switch;
        let has_counters = key.port != 0 || node.has_enhanced_port0();
        if !node.present || !has_counters || limited && !switch {
            return;
        }
        let state = self.nodes.of(key.node);
        let fec = state.pma.fec() && key.port != 0;
        let wanted: Vec<u16> = OPTIONAL
            .iter()
            .filter(|d| switch || !d.switch_only)
            .filter(|d| !ibsim || IN_IBSIM.contains(&d.id))
            .map(|d| d.id)
            .chain((fec && !ibsim).then_some(PortExtendedSpeeds::ID))
            .filter(|id| !state.refused.contains(id))
            .collect();
        for id in wanted {
            if let Some(focus) = &mut self.focus {
                focus.open += 1;
            }
            let job = Job::new(Ask::Detail(id, key.port), Who::Node(key.node));
            self.enqueue(job.attempts(ATTEMPTS));
        }
    }
}
