//! How many events a second the model folds: sweeps of counters over a fabric, sent and answered.

#![allow(clippy::unwrap_used)] // a bench has nobody to report to
#![allow(clippy::print_stdout, missing_docs)]

mod common;

use std::hint::black_box;

use common::{PORTS, Stream, found, sweep};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fabtop::model::Model;

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
