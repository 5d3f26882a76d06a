//! What comes unasked: Reports of the SA, traps, requests to an SM that we are not.
//!
//! Every Report is acknowledged at once, also while it is not recorded: a flood costs bounded
//! memory, one line a second and as many re-reads as there are switches.

use super::core::{Core, Reply};
use super::job::Lane;
use crate::event::{Received, What};
use crate::fabric::{NodeKind, Target};
use crate::mad::notice::{self, Trap};
use crate::mad::{Attribute, Mad, Method, MgmtClass, Notice, SmInfo, SmState};
use crate::port::{Address, Outgoing};

/// Acknowledgements that wait for the rate; the SA repeats what is not acknowledged.
const REPLIES: usize = 1024;

impl Core {
    pub(super) fn unsolicited(&mut self, addr: Address, mut mad: Mad) {
        self.hide_key(&mut mad);
        let admitted = self.admit_unsolicited();
        if admitted {
            self.emit(What::Received(Received {
                addr,
                mad: mad.clone(),
            }));
        }
        if self.is_closing() || self.is_gone() {
            return;
        }
        let notice = mad.attr_id() == Notice::ID;
        match (mad.class(), mad.method()) {
            (MgmtClass::SubnAdm, Method::Report) if notice => {
                let reply = Mad::report_resp(&mad.view());
                self.reply(Lane::Gmp, addr, reply, admitted);
                self.noticed(&mad);
            }
            (MgmtClass::SubnLid | MgmtClass::SubnDirected, Method::Trap) if notice => {
                self.noticed(&mad);
            }
            (MgmtClass::SubnLid | MgmtClass::SubnDirected, Method::Get)
                if mad.attr_id() == SmInfo::ID && self.config.answer_sminfo =>
            {
                let mut info = SmInfo::new();
                info.set_guid(self.local.as_ref().map_or(0, |l| l.port_guid))
                    .set_state(SmState::NotActive);
                let mut reply = Mad::reply(&mad.view(), &info);
                if mad.class() == MgmtClass::SubnDirected {
                    // A response starts at the far end of its route.
                    let hops = mad.hop_count();
                    reply.set_hop_pointer(hops.saturating_add(1));
                }
                self.reply(Lane::Smp, addr, reply, admitted);
            }
            _ => {}
        }
    }

    fn reply(&mut self, lane: Lane, addr: Address, mad: Mad, record: bool) {
        let generation = self.topology.generation();
        let target = self.topology.by_lid(addr.lid).map_or(
            Target {
                generation,
                ..Target::default()
            },
            |key| Target::port(key, generation),
        );
        if let Some(queue) = self.replies.get_mut(lane as usize)
            && queue.len() < REPLIES
        {
            queue.push_back(Reply {
                out: Outgoing {
                    addr,
                    mad,
                    timeout_ms: 0,
                },
                target,
                record,
            });
        }
    }

    /// Acts on a notice. Whatever it names must be known; it is only a reason to ask.
    fn noticed(&mut self, mad: &Mad) {
        let Ok(received) = notice::Received::parse(&mad.view()) else {
            return;
        };
        let trap = received.trap();
        self.bad_key(&received);
        let node = trap
            .lid()
            .and_then(|lid| self.topology.by_lid(lid))
            .map(|key| key.node);
        match (trap, node) {
            (Trap::LinkStateChanged { .. }, Some(id)) => {
                let switch = self
                    .topology
                    .node(id)
                    .is_some_and(|n| n.kind == NodeKind::Switch);
                if switch {
                    self.reread(id);
                }
            }
            (Trap::LocalChange { .. }, Some(id)) => {
                self.describe_again(id);
                self.local_change(id);
            }
            (Trap::SystemImageGuidChanged { .. }, Some(id)) => self.describe_again(id),
            _ => {}
        }
    }
}
