//! What a recording costs: time an event, bytes a MAD.
//!
//! `cargo bench --bench record` prints the sizes first; they are of a fabric in steady state:
//! 2,592 ports read every five seconds, their counters moving.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement prints its result"
)]

mod common;

use std::hint::black_box;

use common::{Stream, found, resident, sweep};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fabtop::event::*;
use fabtop::fabric::{NodeId, Target};
use fabtop::mad::{Attribute, Mad, PortCountersExtended};
use fabtop::port::*;
use fabtop::record::{Encoder, Ledger, Options, Reader};

/// A generator of numbers, good enough for traffic (Knuth's MMIX constants).
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }
}

const PORTS: usize = 2592;
const HOSTS: usize = 648;

/// `seconds` of steady state: a fifth of the ports each second, one request and one reply each.
fn steady(seconds: u64, busy: bool) -> Vec<Event> {
    let mut rng = Lcg(7);
    let mut events = Vec::new();
    let push = |events: &mut Vec<Event>, at: u64, what: What| {
        events.push(Event {
            seq: events.len() as u64,
            at: Stamp(at),
            what,
        });
    };
    push(
        &mut events,
        0,
        What::Opened(Box::new(Opened {
            version: "0.1.0".into(),
            source: Source::Simulated {
                fabric: "steady".into(),
            },
            wall: 1_764_453_600_000_000_000,
            host: "bench".into(),
            settings: Settings::default(),
        })),
    );
    let mut counters = vec![[0u64; 4]; PORTS];
    let mut tid = 0u32;
    for second in 0..seconds {
        let share = PORTS / 5;
        let first = (second as usize % 5) * share;
        for i in 0..share {
            let port = first + i;
            // Hosts have one port, switches the others.
            let (node, lid, number) = if port < HOSTS {
                (0x0002_c903_0010_0000 + 16 * port as u64, port as u16 + 1, 1)
            } else {
                let rest = port - HOSTS;
                let switch = rest / 36;
                (
                    0x0002_c902_0040_0000 + 16 * switch as u64,
                    (HOSTS + switch) as u16 + 1,
                    (rest % 36) as u8 + 1,
                )
            };
            let at = second * 1_000_000_000
                + i as u64 * (900_000_000 / share as u64)
                + rng.below(50_000);
            tid += 1;
            let get = Mad::perf_port(PortCountersExtended::ID, number, u64::from(tid));
            let mut reply = PortCountersExtended::new();
            if busy {
                for (n, c) in counters[port].iter_mut().enumerate() {
                    *c += rng.below(if n < 2 { 5_000_000_000 } else { 20_000_000 });
                }
            }
            let [tx, rx, txp, rxp] = counters[port];
            reply
                .set_port_select(number)
                .set_xmit_data(tx)
                .set_rcv_data(rx)
                .set_xmit_pkts(txp)
                .set_rcv_pkts(rxp)
                .set_unicast_xmit_pkts(txp)
                .set_unicast_rcv_pkts(rxp);
            let mut answer = Mad::reply(&get.view(), &reply);
            // The kernel puts its agent's number into the upper half.
            answer.set_tid(0x0000_0004_0000_0000 | u64::from(tid));
            push(
                &mut events,
                at,
                What::Sent(Sent {
                    addr: Address::gmp(lid, 0, 0),
                    target: Target::port(NodeId::new(node).port(number), 1),
                    attempt: 1,
                    timeout_ms: 1000,
                    mad: get,
                }),
            );
            let mut from = Address::gmp(lid, 0, 0);
            from.qkey = 0;
            push(
                &mut events,
                at + 8_000 + rng.below(4_000),
                What::Received(Received {
                    addr: from,
                    mad: answer,
                }),
            );
        }
        push(&mut events, (second + 1) * 1_000_000_000, What::Tick);
        push(
            &mut events,
            (second + 1) * 1_000_000_000,
            What::Pace(Box::default()),
        );
    }
    events
}

/// Bytes as they are, and in independent zstd frames of a second each.
fn sizes(name: &str, events: &[Event]) {
    let mut encoder = Encoder::new(Options::default());
    let mut second = 0;
    let (mut plain, mut packed, mut first_plain, mut first_packed) = (0, 0, 0, 0);
    let mut chunk = Vec::new();
    let (mut mads, mut first_mads) = (0, 0);
    for batch in events.chunks(256) {
        encoder.encode(batch, &mut chunk);
        let now = batch.last().map_or(0, |e| e.at.0 / 1_000_000_000);
        if now != second {
            second = now;
            plain += chunk.len();
            // As the writer does with less than a MiB a second.
            packed += zstd::bulk::compress(&chunk, 9).unwrap().len();
            chunk.clear();
            mads = encoder.mads();
            // The table of targets is told in the first round.
            if second == 5 {
                (first_plain, first_packed, first_mads) = (plain, packed, mads);
            }
        }
    }
    let steady = (mads - first_mads) as f64;
    println!(
        "{name}: {:.0} bytes a MAD, {:.1} compressed ({:.1} in the first round)",
        (plain - first_plain) as f64 / steady,
        (packed - first_packed) as f64 / steady,
        first_packed as f64 / first_mads as f64,
    );
}

fn cost(c: &mut Criterion) {
    let busy = steady(30, true);
    sizes("busy fabric", &busy);
    sizes("idle fabric", &steady(30, false));

    let mut group = c.benchmark_group("record");
    group.throughput(Throughput::Elements(busy.len() as u64));
    let mut out = Vec::new();
    group.bench_function("encode", |b| {
        b.iter(|| {
            out.clear();
            let mut encoder = Encoder::new(Options::default());
            for batch in busy.chunks(Batch::MAX) {
                encoder.encode(batch, &mut out);
            }
            black_box(out.len())
        });
    });
    group.bench_function("read", |b| {
        b.iter(|| black_box(Reader::new(&out[..]).count()));
    });
    group.finish();

    // What a second of this fabric costs a recorder beyond the encoding.
    let second = out.get(..out.len() / 30).unwrap_or_default();
    let mut group = c.benchmark_group("compress a second of 1,036 MADs");
    group.throughput(Throughput::Bytes(second.len() as u64));
    for level in [3, 9] {
        group.bench_function(format!("level {level}"), |b| {
            b.iter(|| black_box(zstd::bulk::compress(second, level).unwrap().len()));
        });
    }
    group.finish();
}

/// What the encoder's thread spends beside encoding: the ledger, and in it a model of its own.
fn ledger(c: &mut Criterion) {
    let busy = steady(30, true);
    let mut group = c.benchmark_group("the encoder's thread");
    group.throughput(Throughput::Elements(busy.len() as u64));
    group.bench_function("ledger alone", |b| {
        b.iter(|| {
            let mut ledger = Ledger::new();
            for event in &busy {
                ledger.observe(event);
            }
            black_box(ledger.len())
        });
    });
    let mut out = Vec::new();
    group.bench_function("encode, with ledger", |b| {
        b.iter(|| {
            out.clear();
            let mut ledger = Ledger::new();
            let mut encoder = Encoder::new(Options::default());
            for batch in busy.chunks(Batch::MAX) {
                for event in batch {
                    ledger.observe(event);
                }
                encoder.encode(batch, &mut out);
            }
            black_box((out.len(), ledger.len()))
        });
    });
    group.finish();
}

/// Says what the ledger of 100,000 ports takes, and how large its keyframe is.
fn memory(_: &mut Criterion) {
    let mut stream = Stream::default();
    let mut ledger = Ledger::new();
    let before = resident();
    for node in 1..=2_500 {
        for event in found(&mut stream, node..=node) {
            ledger.observe(&event);
        }
    }
    for round in 1..=3 {
        for node in 1..=2_500 {
            for event in sweep(&mut stream, node..=node, round) {
                ledger.observe(&event);
            }
        }
    }
    let mib = resident().saturating_sub(before) / 1024 / 1024;
    let mut encoder = Encoder::new(Options::default());
    let (mut out, mut size) = (Vec::new(), 0);
    ledger.keyframe(0, &mut |events| {
        out.clear();
        encoder.encode(events, &mut out);
        size += out.len();
    });
    let keyframe = size / 1024 / 1024;
    println!("ledger: 100,000 ports in {mib} MiB, a keyframe of {keyframe} MiB");
}

criterion_group!(benches, memory, cost, ledger);
criterion_main!(benches);
