//! Views of the model: rows for panes and reports, computed on demand.

use std::time::Duration;

use super::counters::{Counter, Mark};
use super::perf::tick_seconds;
use super::state::{Destination, NodeData, PortData, Slot, Sweep};
use super::view::{
    Absence, DestinationRow, Flags, HeaderView, InFlightRow, PeerView, PortRow, SmView, SweepView,
    TrafficRow, Wanted,
};
use super::{Baseline, Model, Num};
use crate::event::SweepKind;
use crate::fabric::{Node, Port, PortKey};
use crate::mad::{PhysState, PortState};
use crate::port::{Source, Stamp};

const SWEEPS: [SweepKind; 4] = [
    SweepKind::Discovery,
    SweepKind::Rediscovery,
    SweepKind::States,
    SweepKind::Counters,
];

/// What stands behind a port, in words.
fn source_words(source: &Source) -> String {
    match source {
        Source::Umad { device, shim } => {
            // The device may be followed by the adapter and port that it belongs to.
            let (path, rest) = device.split_at(device.find(' ').unwrap_or(device.len()));
            let name = path.rsplit('/').next().unwrap_or(path);
            let name = format!("{name}{rest}");
            format!("{name}{}", if *shim { " (ibsim shim)" } else { "" })
        }
        Source::Ibsim { server } => format!("ibsim {server}"),
        Source::Simulated { fabric } => format!("SIMULATED {fabric}"),
    }
}

/// A port with all that is known of it.
pub(super) struct Seen<'m> {
    pub(super) key: PortKey,
    pub(super) node: &'m Node,
    pub(super) port: &'m Port,
    pub(super) data: &'m NodeData,
    pub(super) own: Option<&'m PortData>,
}

impl Seen<'_> {
    /// It has traffic: a link, whoever is at its other end, or it is a switch's own port.
    fn has_traffic(&self) -> bool {
        self.port.is_up()
    }

    /// Nobody in this subnet is at the other end of its link.
    fn is_elsewhere(&self) -> bool {
        self.port.is_up() && !self.node.is_in_subnet(self.key.port)
    }
}

impl Model {
    /// The header's facts.
    pub fn header(&self, now: Stamp) -> HeaderView<'_> {
        let opened = self.opened.as_deref();
        let sum = |a: Num<f64>, b: Num<f64>| match (a.get(), b.get()) {
            (Some(a), Some(b)) => Num::Is(a + b),
            _ => Num::Unknown,
        };
        let stretched = [
            (
                SweepKind::Counters,
                self.settings.interval(),
                self.interval(),
            ),
            (
                SweepKind::States,
                self.settings.sweep_interval(),
                self.sweep_interval(),
            ),
        ]
        .into_iter()
        .find(|(_, set, used)| used > set)
        .map(|(kind, set, used)| (kind, used - set));
        // What takes longer than usual leaves its place before it is asked again: beyond the
        // budget only such are out.
        let within = |out: usize, budget: u16| out.min(usize::from(budget.max(1)));
        let smps = within(self.smps_out, self.settings.smp.in_flight);
        let gmps = within(self.gmps_out, self.settings.gmp.in_flight);
        HeaderView {
            source: opened.map_or_else(String::new, |o| source_words(&o.source)),
            simulated: opened.is_some_and(|o| o.source.is_simulated()),
            host: opened.map_or("", |o| o.host.as_str()),
            local: self.local.as_deref(),
            gone: self
                .gone
                .as_ref()
                .map(|(since, why)| (now.since(*since), &**why)),
            sm: self.sm_view(now),
            size: self.size.unwrap_or_else(|| self.count_size()),
            sweeps: self.sweep_views(now),
            mads_per_s: sum(self.beat.smp_rate, self.beat.gmp_rate),
            smp_in_flight: (smps, self.settings.smp.in_flight),
            gmp_in_flight: (gmps, self.settings.gmp.in_flight),
            overdue: self.pending.len().saturating_sub(smps + gmps),
            smp_rate: (self.beat.smp_rate, self.settings.smp.rate),
            gmp_rate: (self.beat.gmp_rate, self.settings.gmp.rate),
            unrecorded: self.unrecorded.as_deref(),
            alerts: self.alert_counts(),
            dropped: self.dropped,
            malformed: self.malformed,
            refused: self.agents.iter().filter(|a| a.refused.is_some()).collect(),
            stretched,
            uptime: now.since(Stamp::ZERO),
            wall: self.wall(now),
        }
    }

    fn sm_view(&self, now: Stamp) -> Option<SmView> {
        let guid = self.master?;
        let sm = self.sms.get(&guid)?;
        Some(SmView {
            lid: sm.lid,
            guid,
            priority: sm.priority,
            state: sm.state,
            activity: sm.activity,
            age: now.since(sm.at),
            silent: self.alerts.is_open(&(None, super::alerts::Kind::SmSilent)),
        })
    }

    fn sweep_views(&self, now: Stamp) -> Vec<SweepView> {
        let view = |(kind, s): (SweepKind, &Sweep)| {
            let (began, number, expected) = match (s.began, s.ended) {
                (Some(began), _) => began,
                (None, Some((at, number))) => (at, number, 0),
                (None, None) => return None,
            };
            let since = match s.ended {
                Some((ended, _)) if !s.running => ended,
                _ => began,
            };
            Some(SweepView {
                kind,
                number,
                running: s.running,
                done: if expected > 0 {
                    s.done.min(expected)
                } else {
                    s.done
                },
                expected,
                age: now.since(since),
                took: s.took_ns.map(Duration::from_nanos),
                failed: s.failed,
            })
        };
        SWEEPS
            .into_iter()
            .zip(&self.sweeps)
            .filter_map(view)
            .collect()
    }

    /// Every port that a row is about: external ports of every node, and a switch's port 0 if it
    /// is enhanced and so has counters. In order of GUID and port.
    fn seen(&self) -> impl Iterator<Item = Seen<'_>> {
        self.topology
            .nodes()
            .flat_map(move |node| self.seen_of(node))
    }

    /// The same of one node.
    pub(super) fn seen_of<'m>(&'m self, node: &'m Node) -> impl Iterator<Item = Seen<'m>> {
        let data = self.data(node.id);
        let first = if node.has_enhanced_port0() { 0 } else { 1 };
        (first..node.ports.len()).filter_map(move |number| {
            let data = data?;
            let number = u8::try_from(number).ok()?;
            Some(Seen {
                key: node.id.port(number),
                node,
                port: node.port(number)?,
                data,
                own: data.port(number),
            })
        })
    }

    pub(super) fn look(&self, key: PortKey) -> Option<Seen<'_>> {
        let node = self.topology.node(key.node)?;
        let data = self.data(key.node)?;
        Some(Seen {
            key,
            node,
            port: node.port(key.port)?,
            data,
            own: data.port(key.port),
        })
    }

    /// Every external port of every node, and enhanced port 0 of switches; in order of GUID and
    /// port number.
    pub fn ports(&self, now: Stamp) -> Vec<PortRow<'_>> {
        self.ports_since(None, now)
    }

    /// The same, errors counted from a baseline on.
    pub fn ports_since<'m>(&'m self, from: Option<&Baseline>, now: Stamp) -> Vec<PortRow<'m>> {
        let row = |s: Seen<'m>| self.port_row(&s, from, now, Wanted::ALL);
        self.seen().map(row).collect()
    }

    /// One row of [`Model::ports`].
    pub fn port(&self, key: PortKey, now: Stamp) -> Option<PortRow<'_>> {
        self.port_since(key, None, now)
    }

    /// One row of [`Model::ports_since`].
    pub fn port_since(
        &self,
        key: PortKey,
        from: Option<&Baseline>,
        now: Stamp,
    ) -> Option<PortRow<'_>> {
        Some(self.port_row(&self.look(key)?, from, now, Wanted::ALL))
    }

    /// One row of [`Model::traffic`]; `None` for a port without a link.
    pub fn traffic_of(&self, key: PortKey, now: Stamp) -> Option<TrafficRow<'_>> {
        let seen = self.look(key).filter(Seen::has_traffic)?;
        Some(self.traffic_row(&seen, now, Wanted::ALL))
    }

    /// The rows of [`Model::ports_since`] that one node has, one after the other, as far as they
    /// are wanted.
    pub fn each_port<'m>(
        &'m self,
        node: crate::fabric::NodeId,
        from: Option<&Baseline>,
        now: Stamp,
        want: Wanted,
        each: &mut dyn FnMut(PortRow<'m>),
    ) {
        if let Some(node) = self.topology.node(node) {
            self.seen_of(node)
                .for_each(|s| each(self.port_row(&s, from, now, want)));
        }
    }

    /// The rows of [`Model::traffic`] that one node has, as far as they are wanted.
    pub fn each_traffic<'m>(
        &'m self,
        node: crate::fabric::NodeId,
        now: Stamp,
        want: Wanted,
        each: &mut dyn FnMut(TrafficRow<'m>),
    ) {
        if let Some(node) = self.topology.node(node) {
            self.seen_of(node)
                .filter(Seen::has_traffic)
                .for_each(|s| each(self.traffic_row(&s, now, want)));
        }
    }

    /// Which ports [`Model::ports`] has rows for, in their order.
    pub fn port_list(&self) -> Vec<PortKey> {
        self.seen().map(|s| s.key).collect()
    }

    /// How many there are, at most.
    pub fn port_count(&self) -> usize {
        self.topology.nodes().map(|n| n.ports.len()).sum()
    }

    fn flags(&self, s: &Seen<'_>, mark: Option<&Mark>) -> Flags {
        let state = s.port.state();
        let down = state == Some(PortState::Down.code());
        let had_link = s.own.is_some_and(|p| p.had_link) || s.port.last_peer.is_some();
        // A cable with somebody at its other end: the physical layer is past polling.
        let cabled = s.port.info.as_ref().is_some_and(|i| {
            matches!(
                i.phys_state(),
                PhysState::Training | PhysState::LinkUp | PhysState::Recovery
            )
        });
        let counters = s.own.and_then(|p| p.counters.as_deref());
        Flags {
            unreachable: !s.node.present,
            no_answer: s.node.present
                && (s.data.dest.does_not_answer() || self.is_silent_beyond(s.key)),
            down: down && (had_link || cabled),
            errors: counters.is_some_and(|c| c.has_errors(mark)),
            below_best: s.port.is_up() && s.own.is_some_and(|p| p.below.is_some()),
            disagree: s.port.is_up() && self.ends_disagree(s.key),
            saturated: counters.is_some_and(|c| c.is_saturated()),
            not_active: matches!(
                s.port.info.as_ref().map(|i| i.port_state()),
                Some(PortState::Init | PortState::Armed)
            ),
        }
    }

    /// Whoever is at the other end of this port does not say who it is. One that an M_Key
    /// protects is not asked.
    fn is_silent_beyond(&self, key: PortKey) -> bool {
        let beyond = self.unexplored.get(&Some(key));
        beyond.is_some_and(|(_, dest)| dest.does_not_answer()) && !self.is_guarded_behind(key)
    }

    /// An M_Key protects who is at the other end: that it is silent is as it should be.
    pub(super) fn is_guarded_behind(&self, key: PortKey) -> bool {
        let peer = self.topology.port(key).and_then(|p| p.peer);
        let node = peer.and_then(|peer| self.topology.node(peer.node));
        node.is_some_and(|n| n.guarded)
    }

    /// Who the SA says is at the silent end of this port's link.
    fn told_peer(&self, key: PortKey) -> Option<String> {
        if !self.is_silent_beyond(key) {
            return None;
        }
        let (_, description) = self.topology.told(key)?.node?;
        Some(crate::fabric::names::clean(crate::mad::Attribute::bytes(
            &description,
        )))
    }

    /// False if a node's last request failed for good.
    pub fn answers(&self, node: crate::fabric::NodeId) -> bool {
        self.data(node).is_none_or(|n| !n.dest.does_not_answer())
    }

    fn peer_view(&self, port: &Port, named: bool) -> Option<PeerView<'_>> {
        let (key, former) = match (port.peer, port.last_peer) {
            (Some(peer), _) => (peer, false),
            (None, last) => (last?, true),
        };
        Some(PeerView {
            key,
            name: if named { self.name(key.node) } else { "" },
            former,
        })
    }

    fn port_row<'m>(
        &'m self,
        s: &Seen<'m>,
        from: Option<&Baseline>,
        now: Stamp,
        want: Wanted,
    ) -> PortRow<'m> {
        let mark = from.and_then(|b| b.mark(s.key));
        let up = s.port.is_up();
        let limit = self.interval().saturating_mul(2);
        let counters = s.own.and_then(|p| p.counters.as_deref());
        let info_age = s.own.and_then(|p| p.info_at).map(|at| now.since(at));
        // A port without a link is not asked for its counters.
        let counters_age = counters
            .filter(|_| up && want.age)
            .and_then(|c| c.read_at())
            .map(|at| now.since(at));
        let errors = counters.filter(|_| want.errors);
        let error_rate = counters.filter(|_| want.error_rate);
        let stale = info_age.is_some_and(|a| a > self.sweep_interval().saturating_mul(2))
            || counters_age.is_some_and(|a| a > limit);
        PortRow {
            key: s.key,
            name: &s.data.name,
            kind: match want.link {
                true => self.topology.shown_kind(s.node),
                false => s.node.kind,
            },
            state: s.port.state(),
            phys: s.port.info.as_ref().map(|i| i.phys_state().code()),
            width: s.port.width().filter(|_| want.link),
            speed: want.link.then(|| s.node.speed(s.key.port)).flatten(),
            peer: want
                .link
                .then(|| self.peer_view(s.port, want.names))
                .flatten(),
            told: want.link.then(|| self.told_peer(s.key)).flatten(),
            elsewhere: self.discovered && s.is_elsewhere(),
            lid: want.link.then(|| s.node.lid(s.key.port)).flatten(),
            errors: errors.map_or(Num::Unknown, |c| c.errors(mark, now, limit)),
            errors_per_s: error_rate.map_or(Num::Unknown, |c| c.errors_per_s(now, limit)),
            flags: self.flags(s, mark),
            protected: s.node.guarded,
            age: info_age.max(counters_age),
            state_age: info_age,
            counters_age,
            stale,
        }
    }

    /// Ports with a link, in order of GUID and port number.
    pub fn traffic(&self, now: Stamp) -> Vec<TrafficRow<'_>> {
        self.seen()
            .filter(Seen::has_traffic)
            .map(|s| self.traffic_row(&s, now, Wanted::ALL))
            .collect()
    }

    fn traffic_row<'m>(&'m self, s: &Seen<'m>, now: Stamp, want: Wanted) -> TrafficRow<'m> {
        let limit = self.interval().saturating_mul(2);
        let counters = s.own.and_then(|p| p.counters.as_deref());
        let rate = |c| counters.map_or(Num::Unknown, |n| n.rate(c, now, limit));
        // Data counters count words of four octets, whatever the link's width.
        let bits = |words: f64| words * 32.0;
        let packets = counters.filter(|_| want.packets);
        let packet_rate = |c| packets.map_or(Num::Unknown, |n| n.rate(c, now, limit));
        let age = counters.and_then(|c| c.data_at()).map(|at| now.since(at));
        let capacity = s.own.map_or(0.0, |p| p.capacity_bps);
        let ratio = |part, whole, unit| match want.packets {
            true => per_packet(rate(part), rate(whole), unit),
            false => Num::Unknown,
        };
        TrafficRow {
            key: s.key,
            name: &s.data.name,
            kind: match want.link {
                true => self.topology.shown_kind(s.node),
                false => s.node.kind,
            },
            peer: want
                .link
                .then(|| self.peer_view(s.port, want.names))
                .flatten(),
            tx_bps: rate(Counter::XmitData).map(bits),
            rx_bps: rate(Counter::RcvData).map(bits),
            capacity_bps: (capacity > 0.0).then_some(capacity),
            tx_pps: packet_rate(Counter::XmitPkts),
            rx_pps: packet_rate(Counter::RcvPkts),
            tx_packet: ratio(Counter::XmitData, Counter::XmitPkts, 4.0),
            rx_packet: ratio(Counter::RcvData, Counter::RcvPkts, 4.0),
            tx_multicast: ratio(Counter::MulticastXmitPkts, Counter::XmitPkts, 1.0),
            rx_multicast: ratio(Counter::MulticastRcvPkts, Counter::RcvPkts, 1.0),
            wait: match want.packets {
                true => wait_share(s, rate(Counter::XmitWait)),
                false => Num::Unknown,
            },
            history: s
                .own
                .and_then(|p| p.history.as_ref())
                .filter(|_| want.history)
                .map_or_else(Vec::new, |h| h.utilisation(now)),
            age,
            stale: age.is_some_and(|a| a > limit),
        }
    }

    /// Requests in flight, oldest first.
    pub fn in_flight(&self, now: Stamp) -> Vec<InFlightRow<'_>> {
        let mut all: Vec<_> = self.pending.iter().collect();
        all.sort_unstable_by_key(|(tid, p)| (p.at, **tid));
        all.into_iter()
            .map(|(tid, p)| InFlightRow {
                tid: *tid,
                who: match p.slot {
                    Slot::Node(i) => self.nodes.get(i as usize).map_or("", |n| n.name.as_str()),
                    Slot::Sa => "SA",
                    Slot::Sm => "SM",
                    Slot::Unexplored(_) => p.who.as_deref().unwrap_or_default(),
                },
                node: p.request.target.node,
                port: p.request.target.port,
                class: p.request.class,
                attribute: p.request.attribute,
                modifier: p.request.modifier,
                attempt: p.attempt,
                overdue: p.overdue,
                age: now.since(p.at),
            })
            .collect()
    }

    /// Every destination that was asked anything: the SA and the SM first, then nodes in order of GUID, then
    /// ports whose other end did not answer.
    pub fn destinations(&self, now: Stamp) -> Vec<DestinationRow<'_>> {
        let mut out = vec![0u32; self.nodes.len()];
        let (mut sa_out, mut sm_out) = (0, 0);
        let mut beyond = std::collections::BTreeMap::<Option<PortKey>, u32>::new();
        for p in self.pending.values() {
            match p.slot {
                Slot::Node(i) => {
                    if let Some(n) = out.get_mut(i as usize) {
                        *n += 1;
                    }
                }
                Slot::Sa => sa_out += 1,
                Slot::Sm => sm_out += 1,
                Slot::Unexplored(via) => *beyond.entry(via).or_default() += 1,
            }
        }
        let row = |node, name, dest, in_flight, why| {
            destination_row(node, name, dest, in_flight, why, now)
        };
        let mut rows = Vec::new();
        for (name, dest, out) in [("SA", &self.sa, sa_out), ("SM", &self.sm, sm_out)] {
            if dest.sent > 0 {
                rows.push(row(None, name, dest, out, None));
            }
        }
        let mut order: Vec<_> = self
            .nodes
            .iter()
            .zip(out)
            .filter(|(n, _)| n.dest.sent > 0 || n.dest.failure.is_some() || n.dest.away.is_some())
            .collect();
        order.sort_unstable_by_key(|(n, _)| n.id);
        rows.extend(order.into_iter().map(|(n, out)| {
            let why = self.absence_of(n.id);
            row(Some(n.id), n.name.as_str(), &n.dest, out, why)
        }));
        rows.extend(self.unexplored.iter().map(|(via, (name, dest))| {
            let out = beyond.get(via).copied().unwrap_or(0);
            let why = dest.does_not_answer().then_some(Absence::SilentBehind);
            row(None, name.as_str(), dest, out, why)
        }));
        rows
    }

    pub(super) fn seen_port(
        &self,
        key: PortKey,
        from: Option<&Baseline>,
        now: Stamp,
    ) -> Option<(PortRow<'_>, TrafficRow<'_>)> {
        let seen = self.look(key)?;
        Some((
            self.port_row(&seen, from, now, Wanted::ALL),
            self.traffic_row(&seen, now, Wanted::ALL),
        ))
    }
}

fn destination_row<'m>(
    node: Option<crate::fabric::NodeId>,
    name: &'m str,
    dest: &'m Destination,
    in_flight: u32,
    why: Option<Absence>,
    now: Stamp,
) -> DestinationRow<'m> {
    let latency = dest.latency.as_deref();
    DestinationRow {
        node,
        name,
        lid: if dest.lid == crate::port::PERMISSIVE_LID {
            0
        } else {
            dest.lid
        },
        sent: dest.sent,
        answered: dest.answered,
        retried: dest.retried,
        timed_out: dest.timed_out,
        in_flight,
        p50: latency.and_then(|l| l.percentile(50)),
        p99: latency.and_then(|l| l.percentile(99)),
        max: latency.and_then(|l| l.max()),
        failure: dest.failure.as_ref().map(|f| f.view(now)),
        back_off: dest
            .back_off
            .map(|(failures, until)| (failures, until.since(now))),
        missing: why.map(|why| (why, dest.since().map(|at| now.since(at)))),
    }
}

/// How much of something a packet has on average, from both rates over the same interval.
fn per_packet(part: Num<f64>, packets: Num<f64>, unit: f64) -> Num<f64> {
    match (part, packets) {
        (Num::Reset, _) | (_, Num::Reset) => Num::Reset,
        (_, Num::Is(n) | Num::Stale(n)) if n <= 0.0 => Num::Unknown,
        (Num::Is(part), Num::Is(n)) => Num::Is(part * unit / n),
        (Num::Is(part) | Num::Stale(part), Num::Is(n) | Num::Stale(n)) => {
            Num::Stale(part * unit / n)
        }
        _ => Num::Unknown,
    }
}

/// Share of time that a port wanted to send and could not, from its XmitWait ticks a second.
pub(super) fn wait_share(s: &Seen<'_>, ticks_per_s: Num<f64>) -> Num<f64> {
    let own = s.own.map_or((0.0, 0.0), |p| (p.lane_bps, p.capacity_bps));
    match tick_seconds(s.data.tick, s.node.info.device_id(), own.0, own.1) {
        // Rounding at both ends of the interval may give slightly more than all of it.
        Some(tick) => ticks_per_s.map(|n| (n * tick).min(1.0)),
        None => Num::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_called_by_its_file_and_its_adapter() {
        let words = |device: &str, shim| {
            source_words(&Source::Umad {
                device: device.to_owned(),
                shim,
            })
        };
        // As the umad adapter names it: the slash of port 1 is no path's.
        assert_eq!(
            words("/dev/infiniband/umad0 (mlx5_0/1)", false),
            "umad0 (mlx5_0/1)"
        );
        assert_eq!(words("/dev/infiniband/umad3", true), "umad3 (ibsim shim)");
    }
}
