//! How many events a second the model folds: sweeps of counters over a fabric, sent and answered.

#![allow(clippy::unwrap_used)] // a bench has nobody to report to
#![allow(clippy::print_stdout, missing_docs)]

mod common;

use std::hint::black_box;

use common::{PORTS, Stream, found, resident, sick_sweep, sweep, sweep_with};
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

/// The same 1,000 sick ports, an alert open at each and rising, in fabrics of three sizes of which
/// every port has an open alert: an event costs what it costs, however many there are.
fn alerts(c: &mut Criterion) {
    let mut group = c.benchmark_group("fold with alerts");
    let sick = 25;
    group.sample_size(10);
    group.throughput(Throughput::Elements(2 * sick * u64::from(PORTS) + 1));
    for nodes in [25, 250, 2_500] {
        let mut stream = Stream::default();
        let mut model = Model::new();
        for event in found(&mut stream, 1..=nodes) {
            model.apply(&event);
        }
        for round in 1..=2 {
            for event in sick_sweep(&mut stream, 1..=nodes, round) {
                model.apply(&event);
            }
        }
        let ports = nodes * u64::from(PORTS);
        assert_eq!(model.alert_counts().all() as u64, ports);
        let mut round = 2;
        group.bench_function(format!("{ports} ports, all of them with an alert"), |b| {
            b.iter_batched(
                || {
                    round += 1;
                    sick_sweep(&mut stream, 1..=sick, round)
                },
                |events| {
                    for event in &events {
                        model.apply(event);
                    }
                    black_box(model.alert_counts());
                    events
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Says what a model of 100,000 ports takes, with counters and histories (24 samples a port):
/// a fabric without errors, and one of which every port has new ones in each sweep.
fn memory(_: &mut Criterion) {
    // The first one is kept, so that the second one does not take its place.
    let _clean = memory_with("no errors", &|_| 0);
    memory_with("errors at each port", &|round| round as u16);
}

fn memory_with(what: &str, errors: &dyn Fn(u32) -> u16) -> Model {
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
            for event in sweep_with(&mut stream, node..=node, round, errors(round)) {
                model.apply(&event);
            }
        }
    }
    let now = model.last();
    let mib = resident().saturating_sub(before) / 1024 / 1024;
    let rows = model.ports(now).len();
    println!("memory: {rows} ports, {what}, in {mib} MiB");
    model
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

criterion_group!(benches, memory, fold, alerts, views);
criterion_main!(benches);
