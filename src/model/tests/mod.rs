//! Tests of the fold: sessions built by hand, expectations calculated by hand.
//!
//! Tests named after field reports say which failure of other tools they guard against.

mod alerts;
mod counters;
mod fec;
mod keyframes;
mod links;
mod log;
mod optional;
mod ports;
mod timeouts;

use std::time::Duration;

use super::Model;
use crate::event::{
    Event, Opened, Received, Sent, Settings, SweepBegan, SweepEnded, SweepKind, TimedOut, What,
};
use crate::fabric::{NodeId, PortKey, Target};
use crate::mad::{
    Attribute, ClassCaps, ClassCaps2, ClassPortInfo, LinkSpeed, LinkSpeedExt, LinkSpeeds,
    LinkSpeedsExt, LinkWidth, LinkWidths, Mad, Method, NodeDescription, NodeInfo, NodeType,
    PhysState, PortCaps, PortCounters, PortCountersExtended, PortInfo, PortState, Status,
    SwitchInfo,
};
use crate::port::{Address, Source, Stamp};

/// A session under construction: every event is folded at once and kept for replays.
pub(crate) struct Session {
    pub model: Model,
    pub events: Vec<Event>,
    pub now: Stamp,
    tid: u32,
    /// What a reply takes, half of it each way.
    pub latency: Duration,
}

pub(crate) const LOCAL: u64 = 0x10;
pub(crate) const SWITCH: u64 = 0x20;
pub(crate) const HOST: u64 = 0x11;

pub(crate) fn key(guid: u64, port: u8) -> PortKey {
    NodeId::new(guid).port(port)
}

/// An answered PortInfo of a healthy 4x EDR port that could not be better.
pub(crate) fn edr(lid: u16) -> PortInfo {
    let mut info = PortInfo::new();
    info.set_lid(lid)
        .set_cap_mask(PortCaps::EXT_SPEEDS)
        .set_port_state(PortState::Active)
        .set_phys_state(PhysState::LinkUp)
        .set_link_width_supported(LinkWidths(3))
        .set_link_width_active(LinkWidth::X4)
        .set_link_speed_supported(LinkSpeeds(7))
        .set_link_speed_active(LinkSpeed::Qdr)
        .set_link_speed_ext_supported(LinkSpeedsExt(3))
        .set_link_speed_ext_active(LinkSpeedExt::Edr);
    info
}

/// A PortInfo of a port without a cable; the rest is the garbage that some devices leave there.
pub(crate) fn down() -> PortInfo {
    let mut info = edr(0xBEEF);
    info.set_port_state(PortState::Down)
        .set_phys_state(PhysState::Polling);
    info
}

fn class_port_info(mask: ClassCaps, mask2: ClassCaps2) -> ClassPortInfo {
    let mut info = ClassPortInfo::new();
    info.set_cap_mask(mask).set_cap_mask2(mask2);
    info
}

impl Session {
    pub fn new() -> Session {
        let mut session = Session {
            model: Model::new(),
            events: Vec::new(),
            now: Stamp::ZERO,
            tid: 0,
            latency: Duration::ZERO,
        };
        session.event(What::Opened(Box::new(Opened {
            version: "0.0.0".to_owned(),
            source: Source::Simulated {
                fabric: "by hand".to_owned(),
            },
            // 2026-11-29T22:16:46Z
            wall: 1_795_990_606_000_000_000,
            host: "login1".to_owned(),
            settings: Settings::default(),
        })));
        session
    }

    /// A discovered fabric: local host and another one at ports 1 and 2 of a switch of three.
    pub fn fabric() -> Session {
        let mut s = Session::new();
        s.discovery(1, |s| {
            s.appear(None, LOCAL, NodeType::Ca, 1, 1, "login1 mlx5_0");
            s.port_info(key(LOCAL, 1), &edr(1));
            s.appear(Some(key(LOCAL, 1)), SWITCH, NodeType::Switch, 3, 1, "leaf");
            s.port_info(key(SWITCH, 0), &edr(2));
            s.port_info(key(SWITCH, 1), &edr(0));
            s.port_info(key(SWITCH, 2), &edr(0));
            s.port_info(key(SWITCH, 3), &down());
            s.appear(
                Some(key(SWITCH, 2)),
                HOST,
                NodeType::Ca,
                1,
                1,
                "node7 mlx5_0",
            );
            s.port_info(key(HOST, 1), &edr(3));
        });
        s
    }

    pub fn event(&mut self, what: What) {
        let event = Event {
            seq: self.events.len() as u64,
            at: self.now,
            what,
        };
        self.model.apply(&event);
        self.events.push(event);
    }

    pub fn at(&mut self, secs: f64) -> &mut Session {
        self.now = Stamp((secs * 1e9) as u64);
        self
    }

    pub fn discovery(&mut self, number: u32, walk: impl FnOnce(&mut Session)) {
        self.event(What::SweepBegan(SweepBegan {
            kind: SweepKind::Discovery,
            number,
            expected: 0,
            generation: number,
        }));
        walk(self);
        self.event(What::SweepEnded(SweepEnded {
            kind: SweepKind::Discovery,
            number,
            answered: 0,
            failed: 0,
            skipped: 0,
            digest: 0,
        }));
    }

    /// Sends a request; gives it back with its TID.
    pub fn ask(&mut self, target: Target, mut mad: Mad, attempt: u8) -> Mad {
        self.tid += 1;
        mad.set_tid(u64::from(self.tid));
        let addr = match mad.class().code() {
            0x81 => Address::directed(),
            0x01 => Address::smp(7),
            _ => Address::gmp(7, 0, 0),
        };
        self.event(What::Sent(Sent {
            addr,
            target,
            attempt,
            timeout_ms: 1000,
            mad: mad.clone(),
        }));
        mad
    }

    pub fn receive(&mut self, mad: Mad) {
        self.event(What::Received(Received {
            addr: Address::gmp(7, 0, 0),
            mad,
        }));
    }

    /// Asks and is answered, `latency` later.
    pub fn exchange<A: Attribute>(&mut self, target: Target, request: Mad, answer: &A) {
        let sent = self.ask(target, request, 1);
        self.now = self.now + self.latency;
        self.receive(Mad::reply(&sent.view(), answer));
    }

    /// Asks and is refused with a status.
    pub fn refuse(&mut self, target: Target, request: Mad, status: Status) {
        let sent = self.ask(target, request, 1);
        self.now = self.now + self.latency;
        self.receive(Mad::response_to(&sent.view(), status));
    }

    /// Asks and is not answered.
    pub fn silence(&mut self, target: Target, request: Mad, attempt: u8, last: bool) {
        let sent = self.ask(target, request, attempt);
        self.now = self.now + Duration::from_secs(1);
        self.event(What::TimedOut(TimedOut {
            tid: sent.tid_low(),
            target,
            class: sent.class().code(),
            attribute: sent.attr_id(),
            modifier: sent.attr_mod(),
            attempt,
            last,
            waited_ns: 1_000_000_000,
            how: crate::event::HowLate::default(),
        }));
    }

    fn generation(&self) -> u32 {
        self.model.topology().generation()
    }

    pub fn node_info(&mut self, via: Option<PortKey>, info: &NodeInfo) {
        let generation = self.generation();
        let (target, path): (_, &[u8]) = match via {
            Some(via) => (Target::beyond(via, generation), &[1, 2]),
            None => (Target::local(generation), &[]),
        };
        let ask = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, path, 0).unwrap();
        self.exchange(target, ask, info);
    }

    /// A node is found: NodeInfo, NodeDescription and for a switch SwitchInfo.
    pub fn appear(
        &mut self,
        via: Option<PortKey>,
        guid: u64,
        kind: NodeType,
        ports: u8,
        entry: u8,
        name: &str,
    ) {
        let mut info = NodeInfo::new();
        info.set_node_type(kind)
            .set_num_ports(ports)
            .set_system_image_guid(guid)
            .set_node_guid(guid)
            .set_port_guid(guid << 8 | u64::from(entry))
            .set_local_port(entry);
        self.node_info(via, &info);
        self.describe(guid, name);
        if kind == NodeType::Switch {
            let target = Target::node(NodeId::new(guid), self.generation());
            let ask = Mad::smp_dr(Method::Get, SwitchInfo::ID, 0, &[1], 0).unwrap();
            self.exchange(target, ask, &SwitchInfo::new());
        }
    }

    pub fn describe(&mut self, guid: u64, name: &str) {
        let target = Target::node(NodeId::new(guid), self.generation());
        let ask = Mad::smp_dr(Method::Get, NodeDescription::ID, 0, &[1], 0).unwrap();
        self.exchange(target, ask, &NodeDescription::from_text(name));
    }

    pub fn port_info(&mut self, key: PortKey, info: &PortInfo) {
        let target = Target::port(key, self.generation());
        let ask = Mad::smp_lid(Method::Get, PortInfo::ID, u32::from(key.port) | 1 << 31, 0);
        self.exchange(target, ask, info);
    }

    pub fn caps(&mut self, key: PortKey, mask: ClassCaps, mask2: ClassCaps2) {
        let target = Target::port(key, self.generation());
        let ask = Mad::perf(Method::Get, ClassPortInfo::ID, 0, 0);
        self.exchange(target, ask, &class_port_info(mask, mask2));
    }

    pub fn narrow(&mut self, key: PortKey, counters: &PortCounters) {
        let target = Target::port(key, self.generation());
        self.exchange(
            target,
            Mad::perf_port(PortCounters::ID, key.port, 0),
            counters,
        );
    }

    pub fn wide(&mut self, key: PortKey, counters: &PortCountersExtended) {
        let target = Target::port(key, self.generation());
        let ask = Mad::perf_port(PortCountersExtended::ID, key.port, 0);
        self.exchange(target, ask, counters);
    }

    pub fn tick(&mut self) {
        self.event(What::Tick);
    }

    pub fn texts(&self) -> Vec<&str> {
        self.model.log().iter().map(|l| l.text.as_str()).collect()
    }

    /// The same events folded again.
    pub fn replayed(&self) -> Model {
        let mut model = Model::new();
        for event in &self.events {
            model.apply(event);
        }
        model
    }
}

/// A counter of a port by perfquery's name.
pub(crate) fn counter(s: &Session, key: PortKey, name: &str) -> super::view::CounterView {
    s.model
        .counters(key, s.now)
        .into_iter()
        .find(|c| c.name == name)
        .unwrap()
}
