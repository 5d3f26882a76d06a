//! What actions do to the fabric.

use std::time::Duration;

use super::flight::nanos;
use super::script::Action;
use super::world::{Due, Flapping, Flooding, NONE, World};
use crate::fabric::{Guid, NodeId, NodeKind};

impl World {
    /// Puts an action on the agenda.
    pub fn plan(&mut self, at: u64, action: Action) {
        self.actions.push(Some(action));
        let number = (self.actions.len() - 1) as u32;
        self.schedule(at.max(self.now), Due::Act(number));
    }

    /// The time of a planned action has come.
    pub fn act_planned(&mut self, number: u32) {
        let action = self.actions.get_mut(number as usize).and_then(Option::take);
        if let Some(action) = action {
            self.act(action);
        }
    }

    /// Does it now.
    pub fn act(&mut self, action: Action) {
        let now = self.now;
        match action {
            Action::LinkDown(key) => {
                if let Some(port) = self.find_port(key) {
                    self.set_link(port, false);
                }
            }
            Action::LinkUp(key) => {
                if let Some(port) = self.find_port(key) {
                    self.set_link(port, true);
                }
            }
            Action::Flap {
                port,
                down,
                up,
                times,
            } => {
                let Some(port) = self.find_port(port) else {
                    return;
                };
                // Never so fast that time would stand still.
                let at_least = |d: Duration| nanos(d).max(1_000_000);
                self.flapping.push(Flapping {
                    port,
                    down: at_least(down),
                    up: at_least(up),
                    left: (times != 0).then(|| times.saturating_mul(2)),
                    is_down: false,
                });
                let number = (self.flapping.len() - 1) as u32;
                self.schedule(now, Due::Flap(number));
            }
            Action::Kill(id) => self.with_node(id, |n| n.dead = true),
            Action::Revive(id) => {
                self.with_node(id, |n| n.dead = false);
                self.plan_sweep();
            }
            Action::PowerOff(id) => self.power(id, false),
            Action::PowerOn(id) => self.power(id, true),
            Action::Slow { node, extra } => self.with_node(node, |n| n.extra = nanos(extra)),
            Action::Busy { node, share } => self.with_node(node, |n| n.busy = share),
            Action::Drop { node, share } => self.with_node(node, |n| n.drop = share),
            Action::Errors {
                port,
                counter,
                per_second,
            } => {
                if let Some(p) = self.port_mut(port) {
                    p.counters.rise(counter, per_second, now);
                }
            }
            Action::Count { port, counter, by } => {
                if let Some(p) = self.port_mut(port) {
                    p.counters.add(counter, by, now);
                }
            }
            Action::Width { port, width } => {
                if let Some(port) = self.find_port(port) {
                    self.set_rate(port, Some(width), None);
                }
            }
            Action::Speed { port, speed } => {
                if let Some(port) = self.find_port(port) {
                    self.set_rate(port, None, Some(speed));
                }
            }
            Action::Mtu { port, mtu } => {
                if let Some(p) = self.port_mut(port) {
                    p.mtu = mtu;
                }
            }
            Action::Lanes { port, vls } => {
                if let Some(p) = self.port_mut(port) {
                    p.vls = vls;
                }
            }
            Action::ResetCounters(key) => {
                if let Some(port) = self.find_port(key) {
                    self.reset_counters(port);
                }
            }
            Action::SmFailover => self.fail_over(),
            Action::SmRestart => self.restart_sm(),
            Action::SmHang => self.hang_sm(true),
            Action::SmUsurp => self.usurp(),
            Action::SmResume => self.hang_sm(false),
            Action::SetLid { port, lid } => self.set_lid(port, lid),
            Action::Describe { node, description } => {
                let mut text = [0; 64];
                for (to, from) in text.iter_mut().zip(description) {
                    *to = from;
                }
                self.with_node(node, |n| n.description = text);
                if let Some(&index) = self.by_id.get(&node) {
                    self.send_trap(index, 1, 144);
                }
            }
            Action::TrapFlood {
                port,
                trap,
                per_second,
                count,
            } => {
                if let (Some(port), 1..) = (self.find_port(port), per_second) {
                    self.flooding.push(Flooding {
                        port,
                        trap,
                        every: (1_000_000_000 / u64::from(per_second)).max(1),
                        left: count,
                    });
                    let number = (self.flooding.len() - 1) as u32;
                    self.schedule(now, Due::Flood(number));
                }
            }
            Action::Replace { node, guid } => self.replace(node, guid),
            Action::Protect { node, m_key, bits } => self.with_node(node, |n| {
                n.m_key = m_key;
                n.protect = if m_key == 0 { 0 } else { bits & 3 };
            }),
            Action::Lease { node, seconds } => self.with_node(node, |n| {
                n.lease = seconds;
                n.lease_ends = None;
            }),
            Action::Redirect { node, to } => self.with_node(node, |n| n.redirect = to),
            Action::DeviceGone => {
                self.gone = true;
                self.back = false;
                self.drop_flights();
            }
            Action::DeviceBack => self.back = true,
        }
    }

    fn with_node(&mut self, id: NodeId, change: impl FnOnce(&mut super::world::Node)) {
        let index = self.by_id.get(&id).copied().unwrap_or(NONE);
        if let Some(node) = self.nodes.get_mut(index as usize) {
            change(node);
        }
    }

    fn port_mut(&mut self, key: crate::fabric::PortKey) -> Option<&mut super::world::Port> {
        let index = self.find_port(key)?;
        self.ports.get_mut(index as usize)
    }

    fn power(&mut self, id: NodeId, on: bool) {
        let Some(&index) = self.by_id.get(&id) else {
            return;
        };
        self.with_node(id, |n| n.off = !on);
        let Some(node) = self.nodes.get(index as usize) else {
            return;
        };
        for port in node.first + 1..=node.first + u32::from(node.num_ports) {
            self.set_link(port, on);
        }
    }

    fn set_lid(&mut self, key: crate::fabric::PortKey, lid: u16) {
        if lid == 0 || lid >= 0xC000 {
            return;
        }
        if let Some(port) = self.port_mut(key) {
            port.lid = lid;
            port.lmc = 0;
        }
        self.index_lids();
        self.find_master_lid();
        self.reroute();
        self.reroute_traffic();
    }

    /// Another node with the same ports and cables: its links went down and came up meanwhile.
    fn replace(&mut self, id: NodeId, guid: u64) {
        let Some(&index) = self.by_id.get(&id) else {
            return;
        };
        self.power(id, false);
        let other = NodeId {
            guid: Guid(guid),
            twin: 0,
        };
        self.by_id.remove(&id);
        self.by_id.insert(other, index);
        let now = self.now;
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        node.guid = guid;
        node.system_guid = guid;
        node.dead = false;
        node.uptime = 0;
        let switch = node.kind == NodeKind::Switch;
        let range = node.first..=node.first + u32::from(node.num_ports);
        for (number, port) in (0u64..).zip(range) {
            if let Some(p) = self.ports.get_mut(port as usize) {
                p.guid = if switch {
                    guid
                } else {
                    guid.wrapping_add(number)
                };
                if !switch {
                    p.lid = 0;
                }
                p.counters = super::counters::Counters::default();
                p.traffic = super::traffic::PortTraffic::default();
            }
        }
        debug_assert!(self.now == now);
        self.index_lids();
        self.power(other, true);
    }

    /// A flapping link changes.
    pub fn flap(&mut self, number: u32) {
        let now = self.now;
        let Some(flap) = self.flapping.get_mut(number as usize) else {
            return;
        };
        flap.is_down = !flap.is_down;
        let (port, is_down) = (flap.port, flap.is_down);
        let next = now + if is_down { flap.down } else { flap.up };
        let more = match &mut flap.left {
            Some(left) => {
                *left = left.saturating_sub(1);
                *left > 0
            }
            None => true,
        };
        if more {
            self.schedule(next, Due::Flap(number));
        }
        self.set_link(port, !is_down);
    }

    /// The next trap of a flood.
    pub fn flood(&mut self, number: u32) {
        let now = self.now;
        let Some(flood) = self.flooding.get_mut(number as usize) else {
            return;
        };
        if flood.left == 0 {
            return;
        }
        flood.left -= 1;
        let (port, trap, every) = (flood.port, flood.trap, flood.every);
        if flood.left > 0 {
            self.schedule(now + every, Due::Flood(number));
        }
        if let Some((node, number)) = self.ports.get(port as usize).map(|p| (p.node, p.number)) {
            self.send_trap(node, number, trap);
        }
    }
}
