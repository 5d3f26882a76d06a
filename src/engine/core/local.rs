//! The local port, its agents and its device: what becomes of them, and what follows from it.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Core, Output};
use crate::event::{Severity, What};
use crate::port::{Agent, AgentReport, LocalPort};

/// How often a removed device is looked for.
const REOPEN: Duration = Duration::from_secs(1);

impl Core {
    pub(super) fn registered(&mut self, reports: Vec<AgentReport>) {
        for report in reports {
            if self.agents.get(&report.agent) != Some(&report) {
                self.agents.insert(report.agent, report.clone());
                self.emit(What::Agent(Box::new(report)));
            }
        }
    }

    pub(super) fn local_read(&mut self, port: LocalPort) {
        if self.read.as_ref() == Some(&port) {
            return;
        }
        self.read = Some(port.clone());
        self.set_local(port);
    }

    /// The local port is known to be like this.
    pub(in crate::engine) fn set_local(&mut self, port: LocalPort) {
        if self.local.as_ref() == Some(&port) {
            return;
        }
        let old = self.local.replace(port.clone());
        self.emit(What::LocalPort(Box::new(port.clone())));
        if self.gone.is_some() || self.closing.is_some() {
            return;
        }
        if port.pkey_limited && old.as_ref().is_none_or(|old| !old.pkey_limited) {
            self.note(
                Severity::Warning,
                None,
                "this port has only the limited key of the default partition: counters are \
                 read from switches only, since hosts would count a P_Key violation"
                    .into(),
            );
        }
        let unmanaged = |p: &LocalPort| p.lid == 0 || p.sm_lid == 0;
        if unmanaged(&port) && old.as_ref().is_none_or(|old| !unmanaged(old)) {
            self.note(
                Severity::Warning,
                None,
                "no subnet manager has given this port a LID: the subnet is read by directed \
                 route only, and counters, which need LIDs, cannot be read"
                    .into(),
            );
        }
        let Some(old) = old else {
            if self.has_agent(Agent::SmpDirected) {
                self.loops.discover_at(self.now);
            } else {
                self.note(
                    Severity::Critical,
                    None,
                    "no agent for directed-route SMPs: the subnet cannot be discovered".into(),
                );
            }
            return;
        };
        if (old.sm_lid, old.sm_sl) != (port.sm_lid, port.sm_sl) {
            self.sm_changed();
        }
        if (old.lid, old.lmc, old.gid_prefix, old.pkey_index)
            != (port.lid, port.lmc, port.gid_prefix, port.pkey_index)
        {
            self.sm_changed();
        }
        if (old.state, old.lid, old.gid_prefix) != (port.state, port.lid, port.gid_prefix) {
            // Another subnet may be behind the cable now.
            self.loops.discover_at(self.now);
        }
    }

    pub(super) fn device_gone(&mut self, why: String) {
        self.next_reopen = Some(self.now + REOPEN);
        if self.gone.as_ref() == Some(&why) {
            return;
        }
        let first = self.gone.is_none();
        self.gone = Some(why.clone());
        self.emit(What::DeviceGone { why: why.into() });
        if first {
            self.drop_all();
        }
    }

    pub(super) fn device_back(&mut self) {
        if self.gone.take().is_none() {
            return;
        }
        self.next_reopen = None;
        self.emit(What::DeviceBack);
        self.read = None;
        self.loops.discover_at(self.now);
        self.sm_changed();
        self.push(Output::ReadLocal);
    }

    /// Ends everything that waits or is on its way, without a word on each.
    pub(in crate::engine) fn drop_all(&mut self) {
        self.table.clear();
        for share in &mut self.shares {
            share.in_flight = 0;
            share.retrying = 0;
            share.ready.iter_mut().for_each(VecDeque::clear);
        }
        self.replies.iter_mut().for_each(VecDeque::clear);
        self.delayed.clear();
        self.probes.clear();
        self.rereads.clear();
        self.fec_later.clear();
        self.rechecks.clear();
        self.probing.clear();
        self.beyond.clear();
        self.parked = 0;
        self.loops.abort();
        self.sa.drop_requests();
        self.drop_records();
        self.drop_routes();
        self.drop_sms();
        self.drop_strangers();
        if let Some(focus) = &mut self.focus {
            focus.open = 0;
        }
        for node in self.nodes.values_mut() {
            node.drop_requests();
        }
    }
}
