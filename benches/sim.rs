//! What one MAD costs in the simulator: sent, answered and taken, 64 in flight, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fabtop::mad::{Attribute, Mad, Method, NodeInfo, PortCountersExtended};
use fabtop::port::{Address, MadPort, Outgoing, Stamp};
use fabtop::sim::{SimOptions, SimPort, default_fabric, fat_tree};

/// MADs in one measurement.
const MADS: u64 = 10_000;

struct Load {
    port: SimPort,
    now: Stamp,
    tid: u64,
    lids: u64,
}

impl Load {
    fn run(&mut self, make: fn(u16, u64) -> (Address, Mad)) {
        let last = self.tid + MADS;
        let mut done = self.tid;
        while done < last {
            while self.tid < last && self.tid - done < 64 {
                let (addr, mad) = make(1 + (self.tid % self.lids) as u16, self.tid);
                let out = Outgoing {
                    addr,
                    mad,
                    timeout_ms: 1000,
                };
                self.port.send(self.now, &out).unwrap();
                self.tid += 1;
            }
            match self.port.recv(self.now).unwrap() {
                Some(_) => done += 1,
                None => self.now = self.now.max(self.port.due().unwrap()),
            }
        }
    }
}

fn node_info(lid: u16, tid: u64) -> (Address, Mad) {
    (
        Address::smp(lid),
        Mad::smp_lid(Method::Get, NodeInfo::ID, 0, tid),
    )
}

fn counters(lid: u16, tid: u64) -> (Address, Mad) {
    (
        Address::gmp(lid, 0, 0),
        Mad::perf_port(PortCountersExtended::ID, 1, tid),
    )
}

fn mads(c: &mut Criterion) {
    for (name, fabric) in [
        ("80 nodes", default_fabric()),
        ("12,400 nodes", fat_tree(240, 50, 160, 1)),
    ] {
        // Every node of these has a LID, counted from 1.
        let lids = fabric.nodes.len() as u64;
        let port = SimPort::new(fabric, SimOptions::healthy()).unwrap();
        let mut load = Load {
            port,
            now: Stamp::ZERO,
            tid: 0,
            lids,
        };
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(MADS)).sample_size(10);
        group.bench_function("NodeInfo", |b| b.iter(|| load.run(node_info)));
        group.bench_function("PortCountersExtended", |b| b.iter(|| load.run(counters)));
        group.finish();
    }
}

fn start(c: &mut Criterion) {
    let fabric = fat_tree(240, 50, 160, 1);
    let mut group = c.benchmark_group("start");
    group.sample_size(10);
    group.bench_function("12,400 nodes", |b| {
        b.iter(|| SimPort::new(fabric.clone(), SimOptions::healthy()).unwrap());
    });
    group.finish();
}

criterion_group!(benches, mads, start);
criterion_main!(benches);
