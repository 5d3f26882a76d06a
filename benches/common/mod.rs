//! A session made by hand for benches: nodes of 40 ports, pairs of them linked, and sweeps of
//! their counters.

use std::ops::RangeInclusive;

use fabtop::event::{Event, Received, Sent, What};
use fabtop::fabric::{NodeId, Target};
use fabtop::mad::{
    Attribute, ClassCaps, ClassPortInfo, LinkSpeedExt, LinkWidth, Mad, Method, NodeInfo, NodeType,
    PortCaps, PortCounters, PortCountersExtended, PortInfo, PortState,
};
use fabtop::port::{Address, Stamp};

/// Ports of a node.
pub const PORTS: u8 = 40;

/// Events under construction.
#[derive(Default)]
pub struct Stream {
    events: Vec<Event>,
    seq: u64,
    tid: u64,
}

impl Stream {
    fn exchange<A: Attribute>(&mut self, at: Stamp, target: Target, mut ask: Mad, answer: &A) {
        self.tid += 1;
        ask.set_tid(self.tid);
        let reply = Mad::reply(&ask.view(), answer);
        let addr = Address::gmp(5, 0, 0);
        let sent = What::Sent(Sent {
            addr,
            target,
            attempt: 1,
            timeout_ms: 1000,
            mad: ask,
        });
        let received = What::Received(Received { addr, mad: reply });
        for (what, later) in [(sent, 0), (received, 10_000)] {
            self.events.push(Event {
                seq: self.seq,
                at: Stamp(at.0 + later),
                what,
            });
            self.seq += 1;
        }
    }

    /// The number of an event of another kind.
    #[allow(dead_code)] // not every bench makes one
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq - 1
    }

    /// What there is.
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// The events that make some nodes known.
pub fn found(stream: &mut Stream, nodes: RangeInclusive<u64>) -> Vec<Event> {
    for guid in nodes {
        let mut info = NodeInfo::new();
        info.set_node_type(NodeType::Switch)
            .set_num_ports(PORTS)
            .set_node_guid(guid);
        let ask = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[], 0).unwrap();
        stream.exchange(Stamp::ZERO, Target::local(1), ask, &info);
        let mut caps = ClassPortInfo::new();
        caps.set_cap_mask(ClassCaps::EXT_WIDTH | ClassCaps::XMIT_WAIT);
        let target = Target::node(NodeId::new(guid), 1);
        let ask = Mad::perf(Method::Get, ClassPortInfo::ID, 0, 0);
        stream.exchange(Stamp::ZERO, target, ask, &caps);
        let mut up = PortInfo::new();
        up.set_port_state(PortState::Active)
            .set_cap_mask(PortCaps::EXT_SPEEDS)
            .set_link_width_active(LinkWidth::X4)
            .set_link_speed_ext_active(LinkSpeedExt::Edr);
        let ask = Mad::smp_lid(Method::Get, PortInfo::ID, 0, 0);
        let port0 = Target::port(NodeId::new(guid).port(0), 1);
        stream.exchange(Stamp::ZERO, port0, ask, &up);
        for port in 1..=PORTS {
            let ask = Mad::smp_lid(Method::Get, PortInfo::ID, u32::from(port), 0);
            let target = Target::port(NodeId::new(guid).port(port), 1);
            stream.exchange(Stamp::ZERO, target, ask, &up);
            // Each port of an even switch leads to the same port of the odd one before it.
            if guid % 2 == 0 {
                info.set_local_port(port);
                let via = Target::beyond(NodeId::new(guid - 1).port(port), 1);
                let ask = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], 0).unwrap();
                stream.exchange(Stamp::ZERO, via, ask, &info);
            }
        }
    }
    stream.take()
}

/// Resident memory of this process, bytes.
#[allow(dead_code)] // not every bench measures it
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// One sweep of the 32-bit counters over all ports of some nodes, each with 20 new symbol errors:
/// twice what the default limit allows an hour. A tick ends it.
#[allow(dead_code)] // not every bench has sick links
pub fn sick_sweep(stream: &mut Stream, nodes: RangeInclusive<u64>, round: u32) -> Vec<Event> {
    let at = Stamp::from_secs(u64::from(round) * 5);
    for guid in nodes {
        for port in 1..=PORTS {
            let mut narrow = PortCounters::new();
            // A 16-bit counter; what is pegged counts no more.
            narrow.set_symbol_error(u16::try_from(round * 20 % 65_000).unwrap());
            stream.exchange(
                at,
                Target::port(NodeId::new(guid).port(port), 1),
                Mad::perf_port(PortCounters::ID, port, 0),
                &narrow,
            );
        }
    }
    let seq = stream.next_seq();
    stream.events.push(Event {
        seq,
        at: Stamp(at.0 + 1_000_000),
        what: What::Tick,
    });
    stream.take()
}

/// One sweep of both counter attributes over all ports of some nodes, each with a symbol error a
/// round.
#[allow(dead_code)] // not every bench has errors
pub fn sweep(stream: &mut Stream, nodes: RangeInclusive<u64>, round: u32) -> Vec<Event> {
    sweep_with(stream, nodes, round, round as u16)
}

/// The same with so many symbol errors at each port.
pub fn sweep_with(
    stream: &mut Stream,
    nodes: RangeInclusive<u64>,
    round: u32,
    errors: u16,
) -> Vec<Event> {
    let at = Stamp::from_secs(u64::from(round) * 5);
    for guid in nodes {
        for port in 1..=PORTS {
            let target = Target::port(NodeId::new(guid).port(port), 1);
            let mut wide = PortCountersExtended::new();
            // Each link at its own rate, from round to round another one.
            let share = (guid * 31 + u64::from(port) * 17 + u64::from(round) * 7) % 1_000;
            wide.set_xmit_data(u64::from(round) * 10_000_000 + share * 5_000)
                .set_rcv_data(u64::from(round) * 7_000_000 + share * 3_000);
            stream.exchange(
                at,
                target,
                Mad::perf_port(PortCountersExtended::ID, port, 0),
                &wide,
            );
            let mut narrow = PortCounters::new();
            narrow.set_symbol_error(errors);
            stream.exchange(
                at,
                target,
                Mad::perf_port(PortCounters::ID, port, 0),
                &narrow,
            );
        }
    }
    stream.take()
}
