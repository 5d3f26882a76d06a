//! Moving traffic: flows between hosts, summed over the links that they take.
//!
//! Each flow's rate is a constant plus a few waves. All flows share the waves' periods, so the
//! sum over a link is again a constant and one wave of each period, and a counter is the
//! integral of that in closed form: reading one costs a few multiplications, and a second
//! without reads costs nothing. A leaf's uplinks carry exactly what its hosts send through them.

use std::cell::Cell;

use super::rng::{mix, sin_cos_turns, unit};
use super::script::Counter;
use super::world::{ACTIVE, NONE, World};
use crate::fabric::{LinkSpeed, LinkWidth, NodeKind, effective_gbps};

/// Periods of the waves in seconds: neither is a multiple of another.
const PERIODS: [f64; 4] = [13.0, 47.0, 211.0, 3_600.0];
/// Their heights as shares of the mean. Together below 1, so that no rate is negative.
const HEIGHTS: [f64; 4] = [0.12, 0.18, 0.16, 0.20];
const WAVES: usize = PERIODS.len();
/// Flows that start at each host.
const FLOWS: u64 = 2;
/// Mean load above which the flows on a link are throttled, so that no crest exceeds the link.
const FULL: f64 = 0.6;
/// Multicast packets a second on every active link, each way, and their words.
const MULTICAST: f64 = 12.0;
const MULTICAST_WORDS: f64 = 30.0;

/// A constant and two components of each wave.
type Shape = [f64; 1 + 2 * WAVES];

/// What a port sends, and has sent and received up to the last change of flows.
#[derive(Default)]
pub struct PortTraffic {
    words: Shape,
    packets: Shape,
    /// Ticks of XmitWait for each word.
    wait: f64,
    sent: Sums,
    received: Sums,
    waited: f64,
    multicast: f64,
    /// Multicast flows since the last change: the state may be another already when what was
    /// carried until then is added up.
    multicasting: bool,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    words: f64,
    packets: f64,
}

struct Flow {
    from: u32,
    to: u16,
    words: f64,
    packet_words: f64,
    phases: [f64; WAVES],
    /// Ports that it leaves by; empty while there is no way.
    path: Vec<u32>,
}

/// All flows.
#[derive(Default)]
pub struct Traffic {
    flows: Vec<Flow>,
    /// When the shapes were last changed, and the integrals of the waves up to then.
    since: u64,
    basis: Shape,
    /// The integrals since then, for the moment last asked about: a port's counters are asked
    /// for all at once.
    step: Cell<Option<(u64, Shape)>>,
}

impl Traffic {
    fn step(&self, now: u64) -> Shape {
        match self.step.get() {
            Some((at, step)) if at == now => step,
            _ => {
                let step = difference(&basis(now), &self.basis);
                self.step.set(Some((now, step)));
                step
            }
        }
    }
}

/// Integrals of the constant and of the waves' components from 0 to `now`.
fn basis(now: u64) -> Shape {
    let seconds = now as f64 / 1e9;
    let mut basis = [seconds; 1 + 2 * WAVES];
    for (k, period) in PERIODS.iter().enumerate() {
        let (sin, cos) = sin_cos_turns(seconds / period);
        let scale = period / std::f64::consts::TAU;
        basis[1 + 2 * k] = sin * scale;
        basis[2 + 2 * k] = -cos * scale;
    }
    basis
}

fn dot(shape: &Shape, basis: &Shape) -> f64 {
    shape.iter().zip(basis).map(|(a, b)| a * b).sum()
}

fn difference(a: &Shape, b: &Shape) -> Shape {
    let mut d = *a;
    for (d, b) in d.iter_mut().zip(b) {
        *d -= b;
    }
    d
}

/// Words a second that a link can carry.
fn capacity(width: LinkWidth, speed: LinkSpeed) -> f64 {
    effective_gbps(width, speed).unwrap_or(2.0) * 1e9 / 32.0
}

impl World {
    /// Makes the flows and lets every port have carried its own since it was started.
    pub fn start_traffic(&mut self) {
        let ends: Vec<u32> = (0u32..)
            .zip(&self.ports)
            .filter(|(_, p)| p.lid != 0 && p.peer != NONE)
            .filter(|(_, p)| {
                self.nodes
                    .get(p.node as usize)
                    .is_some_and(|n| n.kind != NodeKind::Switch)
            })
            .map(|(i, _)| i)
            .collect();
        let mut flows = Vec::new();
        if self.options.load > 0.0 && ends.len() > 1 {
            for &from in &ends {
                for n in 0..FLOWS {
                    if let Some(flow) = self.make_flow(&ends, from, n) {
                        flows.push(flow);
                    }
                }
            }
        }
        self.traffic.flows = flows;
        self.find_ways(true);
        self.shape();
        self.traffic.basis = basis(0);
        self.traffic.step.set(None);
        self.age();
    }

    fn make_flow(&self, ends: &[u32], from: u32, number: u64) -> Option<Flow> {
        let port = self.ports.get(from as usize)?;
        let hash = mix(self.options.seed ^ port.guid ^ number << 56);
        let mut to = *ends.get((hash % ends.len() as u64) as usize)?;
        if to == from {
            to = *ends.get((hash.wrapping_add(1) % ends.len() as u64) as usize)?;
        }
        let packets = [1024.0, 1024.0, 512.0, 64.0, 16.0];
        let hash = mix(hash);
        let packet_words = *packets.get((hash % 5) as usize)?;
        let mut phases = [0.0; WAVES];
        for (k, phase) in phases.iter_mut().enumerate() {
            *phase = unit(mix(hash ^ k as u64));
        }
        // Loads differ widely between hosts, the mean is what was asked for.
        let share = self.options.load * 2.0 * unit(mix(hash ^ 0x10ad)) / FLOWS as f64;
        Some(Flow {
            from,
            to: self.ports.get(to as usize)?.lid,
            words: capacity(port.width, port.speed) * share.min(0.5),
            packet_words,
            phases,
            path: Vec::new(),
        })
    }

    /// Every port with a link has had its present traffic since its node was started.
    fn age(&mut self) {
        for index in 0..self.ports.len() {
            let Some((seconds, peer)) = self.ports.get(index).and_then(|p| {
                let uptime = self.nodes.get(p.node as usize)?.uptime;
                Some((uptime as f64 / 1e9, p.peer))
            }) else {
                continue;
            };
            let other = self
                .ports
                .get(peer as usize)
                .map(|p| (p.traffic.words[0], p.traffic.packets[0]));
            let Some((received_words, received_packets)) = other else {
                continue;
            };
            if let Some(p) = self.ports.get_mut(index) {
                let t = &mut p.traffic;
                t.sent = Sums {
                    words: t.words[0] * seconds,
                    packets: t.packets[0] * seconds,
                };
                t.received = Sums {
                    words: received_words * seconds,
                    packets: received_packets * seconds,
                };
                t.waited = t.sent.words * t.wait;
                t.multicast = MULTICAST * seconds;
            }
            // Narrow registers were reset just now: else they would all be pegged.
            for counter in [
                Counter::XmitData,
                Counter::RcvData,
                Counter::XmitPkts,
                Counter::RcvPkts,
                Counter::XmitWait,
            ] {
                self.write_counter(index as u32, counter, super::counters::Set::Narrow, 0);
            }
        }
    }

    /// Looks for ways for the flows: for all, or for those that have none.
    fn find_ways(&mut self, all: bool) {
        let mut flows = std::mem::take(&mut self.traffic.flows);
        for flow in &mut flows {
            if all || flow.path.is_empty() {
                flow.path.clear();
                let path = &mut flow.path;
                if self
                    .route(flow.from, flow.to, true, |port| path.push(port))
                    .is_none()
                {
                    flow.path.clear();
                }
            }
        }
        self.traffic.flows = flows;
    }

    /// The SM has made new routes: flows take them.
    pub fn reroute_traffic(&mut self) {
        self.settle();
        self.find_ways(true);
        self.shape();
    }

    /// Links changed: flows over dead ones stop until there are new routes.
    pub fn replan_traffic(&mut self) {
        self.settle();
        let ports = &self.ports;
        for flow in &mut self.traffic.flows {
            let alive = |p: &u32| ports.get(*p as usize).is_some_and(|p| p.state == ACTIVE);
            if !flow.path.iter().all(alive) {
                flow.path.clear();
            }
        }
        self.shape();
    }

    /// Adds up what ports carried since the last change.
    fn settle(&mut self) {
        let step = self.traffic.step(self.now);
        let carried: Vec<Sums> = self
            .ports
            .iter()
            .map(|p| Sums {
                words: dot(&p.traffic.words, &step),
                packets: dot(&p.traffic.packets, &step),
            })
            .collect();
        for (port, sent) in self.ports.iter_mut().zip(&carried) {
            let t = &mut port.traffic;
            t.sent.words += sent.words;
            t.sent.packets += sent.packets;
            t.waited += sent.words * t.wait;
            if let Some(received) = carried.get(port.peer as usize) {
                t.received.words += received.words;
                t.received.packets += received.packets;
            }
            if port.traffic.multicasting {
                port.traffic.multicast += MULTICAST * step[0];
            }
        }
        self.traffic.basis = basis(self.now);
        self.traffic.since = self.now;
        self.traffic.step.set(None);
    }

    /// Sums the flows over the links.
    fn shape(&mut self) {
        for port in &mut self.ports {
            port.traffic.words = Shape::default();
            port.traffic.packets = Shape::default();
            port.traffic.multicasting = port.state == ACTIVE;
        }
        // First the mean loads, to see which links are too full.
        let mut load = vec![0.0; self.ports.len()];
        for flow in &self.traffic.flows {
            for port in &flow.path {
                if let Some(sum) = load.get_mut(*port as usize) {
                    *sum += flow.words;
                }
            }
        }
        let throttle: Vec<f64> = self
            .ports
            .iter()
            .zip(&load)
            .map(|(p, load)| (FULL * capacity(p.width, p.speed) / load).min(1.0))
            .collect();
        for flow in &self.traffic.flows {
            let share = flow
                .path
                .iter()
                .filter_map(|p| throttle.get(*p as usize))
                .fold(1.0f64, |a, b| a.min(*b));
            let words = flow.words * share;
            let mut shape = [words; 1 + 2 * WAVES];
            for (k, phase) in flow.phases.iter().enumerate() {
                let (sin, cos) = sin_cos_turns(*phase);
                shape[1 + 2 * k] = words * HEIGHTS[k] * cos;
                shape[2 + 2 * k] = words * HEIGHTS[k] * sin;
            }
            for port in &flow.path {
                if let Some(p) = self.ports.get_mut(*port as usize) {
                    for (k, value) in shape.iter().enumerate() {
                        p.traffic.words[k] += value;
                        p.traffic.packets[k] += value / flow.packet_words;
                    }
                }
            }
        }
        for (port, wanted) in self.ports.iter_mut().zip(&load) {
            let capacity = capacity(port.width, port.speed);
            // What was held back waits, and a busy link makes packets wait as well.
            let used = port.traffic.words[0] / capacity;
            let crowded = (used - 0.35).max(0.0);
            let held_back = (wanted / capacity - FULL).clamp(0.0, 1.0);
            let share = 4.0 * crowded * crowded + 0.4 * held_back;
            port.traffic.wait = if used > 0.0 {
                share.min(0.9) / used
            } else {
                0.0
            };
        }
    }

    /// The traffic's part of a counter.
    pub fn traffic_total(&self, port: u32, counter: Counter) -> f64 {
        let Some(p) = self.ports.get(port as usize) else {
            return 0.0;
        };
        let step = || self.traffic.step(self.now);
        let multicast = || {
            let seconds = self.now.saturating_sub(self.traffic.since) as f64 / 1e9;
            let active = if p.traffic.multicasting {
                MULTICAST
            } else {
                0.0
            };
            // Whole packets, so that all counters agree on how many there were.
            (p.traffic.multicast + active * seconds).floor()
        };
        let peer = || self.ports.get(p.peer as usize);
        match counter {
            Counter::XmitData => {
                (p.traffic.sent.words + dot(&p.traffic.words, &step())).floor()
                    + multicast() * MULTICAST_WORDS
            }
            Counter::XmitPkts => {
                (p.traffic.sent.packets + dot(&p.traffic.packets, &step())).floor() + multicast()
            }
            Counter::RcvData => {
                let now = peer().map_or(0.0, |peer| dot(&peer.traffic.words, &step()));
                (p.traffic.received.words + now).floor() + multicast() * MULTICAST_WORDS
            }
            Counter::RcvPkts => {
                let now = peer().map_or(0.0, |peer| dot(&peer.traffic.packets, &step()));
                (p.traffic.received.packets + now).floor() + multicast()
            }
            Counter::XmitWait => p.traffic.waited + p.traffic.wait * dot(&p.traffic.words, &step()),
            Counter::MulticastXmitPkts | Counter::MulticastRcvPkts => multicast(),
            _ => 0.0,
        }
    }
}
