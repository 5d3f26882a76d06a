//! The simulated port.

use super::fabric::Fabric;
use super::options::{Faults, SimOptions};
use super::script::{Action, DefaultFaults, Script};
use super::sm::sm_nodes;
use super::sma::GID_PREFIX;
use super::world::{Due, SimError, World};
use crate::fabric::{NodeKind, PortKey};
use crate::mad::PortCaps;
use crate::port::{
    Agent, AgentReport, Arrival, LocalPort, MadPort, NO_LID_ROUTED_SMPS, Outgoing, PortError,
    Source, Stamp,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A port of a simulated fabric.
///
/// It has no clock: time is the `now` of its calls, and must not go back (an earlier one counts
/// as the latest seen). [`MadPort::due`] says when something will happen next; that may be
/// something inside the fabric, so that `recv` at that time finds nothing and `due` then names a
/// later time. Whether `now` follows a real clock or jumps from one due time to the next makes
/// no difference to what happens.
pub struct SimPort {
    world: World,
    ready: VecDeque<Arrival>,
    faults: DefaultFaults,
    wishes: Arc<Wishes>,
}

/// What other threads want to happen.
#[derive(Default)]
struct Wishes {
    any: AtomicBool,
    list: Mutex<Vec<Action>>,
}

/// Lets things happen in a simulation whose port somebody else holds.
#[derive(Clone)]
pub struct Control(Arc<Wishes>);

impl Control {
    /// Lets something happen at the next call that the port gets.
    pub fn act(&self, action: Action) {
        let mut list = self.0.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(action);
        self.0.any.store(true, Ordering::Release);
    }
}

impl SimPort {
    /// Starts a simulation at time zero.
    ///
    /// # Errors
    /// The fabric is empty, or has no such port as we should be attached at.
    pub fn new(fabric: Fabric, options: SimOptions) -> Result<SimPort, SimError> {
        let faults = options.faults.clone();
        let description = fabric.clone();
        let mut world = World::new(fabric, options)?;
        let local = world.local.0 as usize;
        let mut chosen = DefaultFaults::default();
        let script = match faults {
            Faults::None => Script::new(),
            Faults::Script(script) => script,
            Faults::Default => {
                let mut spare = sm_nodes(&description, local);
                spare.push(local);
                chosen = DefaultFaults::choose(&description, &spare);
                chosen.script()
            }
        };
        for step in script.steps {
            world.plan(step.at.0, step.action);
        }
        Ok(SimPort {
            world,
            ready: VecDeque::new(),
            faults: chosen,
            wishes: Arc::default(),
        })
    }

    /// The default faults in force.
    pub fn default_faults(&self) -> &DefaultFaults {
        &self.faults
    }

    /// Lets something happen at `now`.
    pub fn act(&mut self, now: Stamp, action: Action) {
        self.advance(now);
        self.world.act(action);
    }

    /// Lets things happen later. Steps whose time has passed happen at once.
    pub fn run_script(&mut self, script: Script) {
        for step in script.steps {
            self.world.plan(step.at.0, step.action);
        }
    }

    /// A handle by which to let things happen while the engine holds the port.
    pub fn control(&self) -> Control {
        Control(Arc::clone(&self.wishes))
    }

    /// The port that we are attached at.
    pub fn attached_at(&self) -> PortKey {
        let (node, _) = self.world.local;
        let guid = self.world.nodes.get(node as usize).map_or(0, |n| n.guid);
        crate::fabric::NodeId::new(guid).port(self.world.local_number())
    }

    /// Requests whose answer or timeout is still to come.
    pub fn in_flight(&self) -> usize {
        self.world.flights.pending()
    }

    /// Lets everything happen that is due by `now`.
    fn advance(&mut self, now: Stamp) {
        while let Some(due) = self.world.take_due(now.0) {
            if let Some(arrival) = self.happen(due) {
                self.ready.push_back(arrival);
            }
        }
        self.world.now = self.world.now.max(now.0);
        self.grant();
        if self.world.gone {
            self.ready.clear();
        }
    }

    /// Does what [`Control`] handles asked for.
    fn grant(&mut self) {
        if !self.wishes.any.swap(false, Ordering::Acquire) {
            return;
        }
        let list = {
            let mut list = self.wishes.list.lock();
            let list = list.as_deref_mut();
            list.map(std::mem::take).unwrap_or_default()
        };
        for action in list {
            self.world.act(action);
        }
    }

    fn happen(&mut self, due: Due) -> Option<Arrival> {
        let world = &mut self.world;
        match due {
            Due::Process(slot) => world.process(slot),
            Due::Deliver(slot) => return world.arrival(slot, true),
            Due::Unanswered(slot) => return world.arrival(slot, false),
            Due::Act(number) => world.act_planned(number),
            Due::Flap(number) => world.flap(number),
            Due::Flood(number) => world.flood(number),
            Due::Trap(slot) => world.trap_arrived(slot),
            Due::Sweep => world.sweep(),
            Due::Resend(tid) => world.resend(tid),
            Due::Lease(node) => world.lease_over(node),
        }
        None
    }

    fn gone(&self) -> PortError {
        PortError::Gone {
            device: self.world.device(),
        }
    }
}

impl MadPort for SimPort {
    fn source(&self) -> Source {
        Source::Simulated {
            fabric: self.world.name.clone(),
        }
    }

    fn agents(&self) -> Vec<AgentReport> {
        let taken = self.world.options.reports_taken;
        let planarized = self.world.options.planarized;
        Agent::ALL
            .iter()
            .map(|&agent| AgentReport {
                agent,
                refused: (planarized && agent == Agent::SmpLid)
                    .then(|| NO_LID_ROUTED_SMPS.to_owned()),
                reports: agent == Agent::SubnAdm && !taken,
            })
            .collect()
    }

    fn local(&mut self, now: Stamp) -> Result<LocalPort, PortError> {
        self.advance(now);
        if self.world.gone {
            return Err(self.gone());
        }
        let world = &self.world;
        let number = world.local_number();
        let (Some(node), Some(port), Some(end)) = (
            world.nodes.get(world.local.0 as usize),
            world.ports.get(world.local.1 as usize),
            world.end_port(world.local.0, number),
        ) else {
            return Err(PortError::Other("no such port".into()));
        };
        let (mut caps, _) = node.generation.port_caps(node.kind);
        if world.sm.runs_at(world.local.0) {
            caps = caps | PortCaps::IS_SM;
        }
        if world.options.planarized {
            caps = caps | PortCaps::SM_DISABLED;
        }
        let limited = world.is_limited(world.local.0);
        Ok(LocalPort {
            ca: if node.kind == NodeKind::Switch {
                "switch0".into()
            } else {
                "mlx5_0".into()
            },
            port: number,
            node_guid: node.guid,
            port_guid: end.guid,
            gid_prefix: GID_PREFIX,
            lid: end.lid,
            lmc: end.lmc,
            sm_lid: if end.lid == 0 { 0 } else { world.sm.lid() },
            sm_sl: 0,
            state: port.state,
            cap_mask: caps.0,
            pkey_index: Some(0),
            pkey_limited: limited,
            pkeys: LocalPort::pkeys(world.local_pkeys()),
        })
    }

    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError> {
        self.advance(now);
        self.world.launch(out)
    }

    fn recv(&mut self, now: Stamp) -> Result<Option<Arrival>, PortError> {
        if !self.world.gone
            && let Some(arrival) = self.ready.pop_front()
        {
            return Ok(Some(arrival));
        }
        while let Some(due) = self.world.take_due(now.0) {
            if let Some(arrival) = self.happen(due) {
                return Ok(Some(arrival));
            }
        }
        self.world.now = self.world.now.max(now.0);
        self.grant();
        if self.world.gone {
            self.ready.clear();
            return Err(self.gone());
        }
        Ok(None)
    }

    fn due(&self) -> Option<Stamp> {
        if !self.ready.is_empty() {
            return Some(Stamp(self.world.now));
        }
        self.world.next_due().map(Stamp)
    }

    fn reopen(&mut self) -> Result<(), PortError> {
        if self.world.gone && !self.world.back {
            return Err(self.gone());
        }
        self.world.gone = false;
        self.world.back = false;
        Ok(())
    }
}

#[cfg(test)]
impl SimPort {
    /// A port's LID, for tests that would otherwise have to discover it.
    pub(super) fn lid(&self, key: PortKey) -> u16 {
        let index = self.world.find_port(key).unwrap();
        self.world.ports[index as usize].lid
    }
}
