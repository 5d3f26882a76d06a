//! What a port costs, from 1,000 to 100,000 of them: engine and model, a discovery and a counter
//! sweep, on fat trees of one shape in virtual time. Flat is good; then what it all takes in
//! memory.
//!
//! The simulator stands behind the discovery, and its time is left out of it. Afterwards a stub
//! answers counter requests, at the cost of making a MAD, so that a sweep is the engine's own.
//! Time is CPU time of the thread.

#![allow(clippy::unwrap_used)] // a bench has nobody to report to
#![allow(clippy::print_stdout, missing_docs)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fabtop::engine::{Config, Virtual};
use fabtop::event::SharedBatch;
use fabtop::mad::{Attribute, Mad, MgmtClass, PortCounters, PortCountersExtended};
use fabtop::model::Model;
use fabtop::port::{AgentReport, Arrival, LocalPort, MadPort, Outgoing, PortError, Source, Stamp};
use fabtop::sim::{Fabric, SimOptions, SimPort, fat_tree};
use nix::time::{ClockId, clock_gettime};

const INTERVAL: Duration = Duration::from_secs(5);

/// Fat trees of one shape: leaves, hosts a leaf, spines.
const SIZES: [(usize, usize, usize); 3] = [(24, 5, 16), (76, 16, 50), (240, 50, 160)];

fn fabric(size: (usize, usize, usize)) -> Fabric {
    fat_tree(size.0, size.1, size.2, 1)
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    Duration::from(time)
}

/// How long the stub takes to answer.
const LATENCY: Duration = Duration::from_micros(60);

/// The simulator, then a stub.
struct Port {
    sim: SimPort,
    spent: Duration,
    stub: bool,
    replies: VecDeque<(Stamp, Arrival)>,
    told: Arc<Shared>,
}

/// What the bench tells the port and the other way round.
#[derive(Default)]
struct Shared {
    stub: AtomicBool,
    sim_ns: AtomicU64,
}

impl Port {
    fn time<T>(&mut self, f: impl FnOnce(&mut SimPort) -> T) -> T {
        let began = cpu();
        let out = f(&mut self.sim);
        self.spent += cpu() - began;
        self.told
            .sim_ns
            .store(self.spent.as_nanos() as u64, Relaxed);
        out
    }

    /// Counters that move.
    fn answer(&mut self, now: Stamp, out: &Outgoing) {
        let moved = now.0 / 1_000;
        let mad = match out.mad.attr_id() {
            PortCountersExtended::ID => {
                let mut wide = PortCountersExtended::new();
                wide.set_xmit_data(moved).set_rcv_data(moved);
                wide.set_xmit_pkts(moved / 64).set_rcv_pkts(moved / 64);
                Mad::reply(&out.mad.view(), &wide)
            }
            _ => Mad::reply(&out.mad.view(), &PortCounters::new()),
        };
        let addr = out.addr;
        self.replies
            .push_back((now + LATENCY, Arrival::Mad { addr, mad }));
    }
}

impl MadPort for Port {
    fn source(&self) -> Source {
        self.sim.source()
    }
    fn agents(&self) -> Vec<AgentReport> {
        self.sim.agents()
    }
    fn local(&mut self, now: Stamp) -> Result<LocalPort, PortError> {
        self.time(|p| p.local(now))
    }
    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError> {
        self.stub = self.told.stub.load(Relaxed);
        if self.stub && out.mad.class() == MgmtClass::Perf {
            self.answer(now, out);
            return Ok(());
        }
        self.time(|p| p.send(now, out))
    }
    fn recv(&mut self, now: Stamp) -> Result<Option<Arrival>, PortError> {
        match self.replies.front() {
            Some((at, _)) if *at <= now => Ok(self.replies.pop_front().map(|r| r.1)),
            _ if self.stub && self.sim.due().is_none_or(|due| due > now) => Ok(None),
            _ => self.time(|p| p.recv(now)),
        }
    }
    fn due(&self) -> Option<Stamp> {
        let ours = self.replies.front().map(|r| r.0);
        [ours, self.sim.due()].into_iter().flatten().min()
    }
    fn reopen(&mut self) -> Result<(), PortError> {
        self.sim.reopen()
    }
}

/// CPU time by part.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    engine: Duration,
    model: Duration,
    events: usize,
}

struct Bench {
    engine: Virtual,
    told: Arc<Shared>,
    model: Model,
    ports: u64,
    discovery: Cost,
    /// Resident memory of fabric and simulator, bytes.
    before: u64,
}

impl Bench {
    /// A fabric that was discovered and whose counters were read once.
    fn new(fabric: Fabric) -> Bench {
        let ports = fabric.nodes.iter().flat_map(|n| &n.ports);
        let ports = ports.filter(|p| p.peer.is_some()).count() as u64;
        let told = Arc::new(Shared::default());
        let port = Port {
            sim: SimPort::new(fabric, SimOptions::healthy()).unwrap(),
            spent: Duration::ZERO,
            stub: false,
            replies: VecDeque::new(),
            told: Arc::clone(&told),
        };
        let before = resident();
        let mut config = Config::default();
        let never = 1_000_000_000_000_000;
        config.settings.interval_ns = INTERVAL.as_nanos() as u64;
        config.settings.sweep_interval_ns = never;
        config.settings.discovery_interval_ns = never;
        config.settings.smp.in_flight = 64;
        config.settings.smp.rate = 0;
        config.settings.gmp.rate = 0;
        let mut bench = Bench {
            engine: Virtual::new(Box::new(port), config),
            told,
            model: Model::new(),
            ports,
            discovery: Cost::default(),
            before,
        };
        // What nodes can do is asked together with the discovery; then a sweep an interval.
        bench.discovery = bench.run();
        assert!(
            bench.model.is_discovered(),
            "not discovered in one interval"
        );
        bench.run();
        bench.told.stub.store(true, Relaxed);
        bench.run();
        bench
    }

    /// One interval: one counter sweep.
    fn run(&mut self) -> Cost {
        let end = self.engine.now() + INTERVAL;
        let sim = self.told.sim_ns.load(Relaxed);
        let began = cpu();
        let mut cost = Cost::default();
        let model = &mut self.model;
        self.engine.run_until(end, &mut |batch: SharedBatch| {
            let began = cpu();
            for event in &batch.events {
                model.apply(event);
            }
            cost.events += batch.events.len();
            cost.model += cpu() - began;
        });
        let sim = Duration::from_nanos(self.told.sim_ns.load(Relaxed) - sim);
        cost.engine = (cpu() - began).saturating_sub(cost.model + sim);
        cost
    }

    fn per_port(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.ports as f64
    }
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn scale(c: &mut Criterion) {
    let mut table = Vec::new();
    for size in SIZES {
        let mut bench = Bench::new(fabric(size));
        let name = format!("{} ports", bench.ports);
        let mut group = c.benchmark_group("counter sweep");
        group
            .sample_size(10)
            .throughput(Throughput::Elements(bench.ports));
        group.bench_function(format!("engine, {name}"), |b| {
            b.iter_custom(|n| (0..n).map(|_| bench.run().engine).sum());
        });
        group.bench_function(format!("model, {name}"), |b| {
            b.iter_custom(|n| (0..n).map(|_| bench.run().model).sum());
        });
        group.finish();
        // Histories of two minutes are full after 24 sweeps.
        let mut all: Vec<Cost> = (0..24).map(|_| bench.run()).collect();
        all.sort_by_key(|c| c.engine);
        let median = all.get(12).copied().unwrap_or_default();
        let memory = resident().saturating_sub(bench.before);
        table.push((
            bench.ports,
            median,
            memory,
            [
                bench.per_port(median.engine),
                bench.per_port(median.model),
                bench.per_port(bench.discovery.engine),
                bench.per_port(bench.discovery.model),
            ],
        ));
    }
    println!(
        "ns a port         sweep: engine   model   discovery: engine   model     events   MiB"
    );
    let first = table.first().map_or([f64::NAN; 4], |t| t.3);
    for (ports, cost, memory, costs) in &table {
        let [engine, model, find, learn] = *costs;
        println!(
            "{ports:>7} ports {engine:>17.0} {model:>7.0} {find:>19.0} {learn:>7.0} {:>10} {:>5}",
            cost.events,
            memory / 1024 / 1024
        );
        let ratio: Vec<_> = costs
            .iter()
            .zip(first)
            .map(|(a, b)| format!("{:.2}", a / b))
            .collect();
        println!("        of the first: {}", ratio.join(", "));
    }
}

criterion_group!(benches, scale);
criterion_main!(benches);
