//! How many events a second the model folds: sweeps of counters over a fabric, sent and answered.

#![allow(clippy::unwrap_used)] // a bench has nobody to report to
#![allow(clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::ops::RangeInclusive;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fabtop::event::{Event, Received, Sent, What};
use fabtop::fabric::{NodeId, Target};
use fabtop::mad::{
    Attribute, ClassCaps, ClassPortInfo, LinkSpeedExt, LinkWidth, Mad, Method, NodeInfo, NodeType,
    PortCaps, PortCounters, PortCountersExtended, PortInfo, PortState,
};
use fabtop::model::Model;
use fabtop::port::{Address, Stamp};

const PORTS: u8 = 40;

#[derive(Default)]
struct Stream {
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

    fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// The events that make some nodes known.
fn found(stream: &mut Stream, nodes: RangeInclusive<u64>) -> Vec<Event> {
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

/// One sweep of both counter attributes over all ports of some nodes.
fn sweep(stream: &mut Stream, nodes: RangeInclusive<u64>, round: u32) -> Vec<Event> {
    let at = Stamp::from_secs(u64::from(round) * 5);
    for guid in nodes {
        for port in 1..=PORTS {
            let target = Target::port(NodeId::new(guid).port(port), 1);
            let mut wide = PortCountersExtended::new();
            wide.set_xmit_data(u64::from(round) * 1_000_000)
                .set_rcv_data(u64::from(round) * 700_000);
            stream.exchange(
                at,
                target,
                Mad::perf_port(PortCountersExtended::ID, port, 0),
                &wide,
            );
            let mut narrow = PortCounters::new();
            narrow.set_symbol_error(round as u16);
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

fn fold(c: &mut Criterion) {
    let mut group = c.benchmark_group("fold");
    for nodes in [10, 500, 2_500] {
        let mut stream = Stream::default();
        let start = found(&mut stream, 1..=nodes);
        let mut model = Model::new();
        for event in start {
            model.apply(&event);
        }
        let mut round = 0;
        let events = 4 * nodes * u64::from(PORTS);
        group.sample_size(10);
        group.throughput(Throughput::Elements(events));
        group.bench_function(
            format!("counters of {} ports", nodes * u64::from(PORTS)),
            |b| {
                b.iter_batched(
                    || {
                        round += 1;
                        sweep(&mut stream, 1..=nodes, round)
                    },
                    |events| {
                        for event in &events {
                            model.apply(event);
                        }
                        black_box(model.revision());
                        events
                    },
                    BatchSize::PerIteration,
                );
            },
        );
    }
    group.finish();
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Says what a model of 100,000 ports takes, with counters and histories (24 samples a port).
fn memory(_: &mut Criterion) {
    let mut stream = Stream::default();
    let mut model = Model::new();
    let before = resident();
    for node in 1..=2_500 {
        for event in found(&mut stream, node..=node) {
            model.apply(&event);
        }
    }
    for round in 1..=3 {
        for node in 1..=2_500 {
            for event in sweep(&mut stream, node..=node, round) {
                model.apply(&event);
            }
        }
    }
    let now = model.last();
    let mib = resident().saturating_sub(before) / 1024 / 1024;
    let rows = model.ports(now).len();
    println!("memory: {rows} ports in {mib} MiB");
}

/// What a screen asks for at each frame.
fn views(c: &mut Criterion) {
    let mut stream = Stream::default();
    let mut model = Model::new();
    let nodes = 1..=2_500;
    for event in found(&mut stream, nodes.clone())
        .iter()
        .chain(&sweep(&mut stream, nodes.clone(), 1))
        .chain(&sweep(&mut stream, nodes, 2))
    {
        model.apply(event);
    }
    let now = model.last();
    let mut group = c.benchmark_group("views of 100,000 ports");
    group.sample_size(10);
    group.bench_function("ports", |b| b.iter(|| black_box(model.ports(now).len())));
    group.bench_function("traffic", |b| {
        b.iter(|| black_box(model.traffic(now).len()))
    });
    group.bench_function("totals", |b| b.iter(|| black_box(model.totals(now))));
    group.bench_function("header", |b| b.iter(|| black_box(model.header(now).size)));
    group.finish();
}

criterion_group!(benches, memory, fold, views);
criterion_main!(benches);
