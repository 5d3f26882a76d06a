//! How long discovery takes, against the bound that latency and the window allow.
//!
//! The bound: every request that a discovery needs takes its latency, and no more than W of them
//! are in flight, so it cannot take less than the sum of latencies divided by W. The latency of
//! an SMP is worked out here from its hops, 50 µs each there and back, and the 20 µs that the
//! simulated management processors take. Losses and dead nodes add nothing to the bound.
//!
//! Each SMP is lost with a probability of 1 %, whether it asks or answers. What is lost is asked
//! again after 5 ms; a dead neighbour after 5 and 10 ms more, and after another 10 ms discovery
//! does not wait for it any longer. With 64 in flight the bound is 60 ms, so that these 25 ms fit
//! in twice of it wherever in the discovery a dead node is met. A request that is lost on each of
//! its attempts (1 in 120,000 here, as the settings allow three) is none that any bound covers.

use std::collections::BTreeSet;

use super::*;
use crate::command::Command;
use crate::fabric::NodeKind;
use crate::model::Model;
use crate::sim::{Action, Faults, Script, SimOptions, SimPort, fat_tree};

const HOP: Duration = Duration::from_micros(50);
const NODE: Duration = Duration::from_micros(20);

struct Measured {
    took: Duration,
    /// Until the last node, link and port that lives was known.
    known: Duration,
    bound: Duration,
    nodes: usize,
    expected: usize,
    sent: usize,
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.took.as_secs_f64() / self.bound.as_secs_f64()
    }
}

/// Discovers a fat tree of 1,700 nodes and 3,200 links: 80 leaves with 20 hosts, 20 spines.
fn discover(window: u16, loss: f64, dead: bool, seed: u64) -> Measured {
    let fabric = fat_tree(80, 20, 20, 1);
    let local = fabric.hosts().next().unwrap();
    let mut script = Script::new();
    let mut killed: BTreeSet<usize> = BTreeSet::new();
    if dead {
        // Every 50th node: 2 %. Neither ours nor the switch that we are plugged into.
        let ours = fabric.nodes[local].ports[1].peer.unwrap().0;
        for node in (7..fabric.nodes.len()).step_by(50) {
            if node != local && node != ours {
                killed.insert(node);
                let id = fabric.id(node).unwrap();
                script = script.at(Stamp::ZERO, Action::Kill(id));
            }
        }
        assert!(killed.len() * 50 >= fabric.nodes.len() - 50);
    }
    // Whoever has a living leaf and lives himself can be found.
    let expected = (0..fabric.nodes.len())
        .filter(|n| !killed.contains(n))
        .filter(|n| {
            let node = &fabric.nodes[*n];
            node.kind == NodeKind::Switch || !killed.contains(&node.ports[1].peer.unwrap().0)
        })
        .count();
    let options = SimOptions {
        hop: HOP,
        node: NODE,
        jitter: 0.0,
        load: 0.0,
        // Each way.
        loss,
        faults: Faults::Script(script),
        seed,
        ..SimOptions::default()
    };
    let port = SimPort::new(fabric, options).unwrap();
    let mut config = Config {
        counters: false,
        states: false,
        sa: false,
        subscribe: false,
        ..Config::default()
    };
    config.settings.smp = crate::event::Budget {
        in_flight: window,
        per_node: 1,
        rate: 0,
    };
    let mut engine = Virtual::new(Box::new(port), config);
    let mut model = Model::new();
    // By transaction: what is asked of whom, and how long an answer takes.
    let mut pending = BTreeMap::new();
    let mut answered = BTreeSet::new();
    let mut sum = Duration::ZERO;
    let (mut sent, mut took, mut began) = (0, None, Stamp::ZERO);
    let mut known = Stamp::ZERO;
    engine.run_until(Stamp::from_secs(20), &mut |batch| {
        for event in &batch.events {
            model.apply(event);
            match &event.what {
                What::SweepBegan(s) if s.kind == SweepKind::Discovery => began = event.at,
                What::Sent(s) => {
                    sent += usize::from(took.is_none());
                    let hops = s.mad.initial_path().len() as u32;
                    let key = (
                        s.target.node,
                        s.target.via,
                        s.mad.attr_id(),
                        s.mad.attr_mod(),
                    );
                    pending.insert(s.mad.tid_low(), (key, HOP * hops * 2 + NODE));
                }
                // What only a discovery asks, whether it has ended or not: a port's FEC is none
                // of it.
                What::Received(r) if r.mad.attr_id() != 0x33 => {
                    let it = pending.remove(&r.mad.tid_low());
                    if let Some((key, latency)) = it
                        && answered.insert(key)
                    {
                        sum += latency;
                        known = event.at;
                    }
                }
                What::SweepEnded(s) if s.kind == SweepKind::Discovery => {
                    took = Some(event.at.since(began));
                    assert_eq!(model.topology().digest(), s.digest);
                }
                _ => {}
            }
        }
    });
    engine.command(Command::Quit);
    let measured = Measured {
        took: took.unwrap(),
        known: known.since(began),
        bound: sum / u32::from(window),
        nodes: model.topology().nodes().filter(|n| n.present).count(),
        expected,
        sent,
    };
    println!(
        "W {window} loss {loss} dead {dead}: known after {:?}, ended after {:?} of {:?}, ratios \
         {:.3} and {:.3}, {} MADs, {} nodes",
        measured.known,
        measured.took,
        measured.bound,
        measured.known.as_secs_f64() / measured.bound.as_secs_f64(),
        measured.ratio(),
        measured.sent,
        measured.nodes
    );
    measured
}

#[test]
fn discovery_is_within_1_3_of_the_bound() {
    for window in [2, 8, 32, 64] {
        let it = discover(window, 0.0, false, 1);
        assert_eq!(it.nodes, 1_700);
        assert!(it.ratio() <= 1.3, "window {window}: {}", it.ratio());
    }
}

#[test]
fn with_one_percent_lost_and_two_percent_dead_discovery_is_within_twice_the_bound() {
    for window in [2, 8, 32, 64] {
        for seed in [1, 2] {
            let it = discover(window, 0.01, true, seed);
            assert_eq!(it.nodes, it.expected);
            // Everything that lives is known, and then the sweep ends as well.
            assert!(it.known <= it.took, "window {window}: {:?}", it.known);
            assert!(it.ratio() <= 2.0, "window {window}: {}", it.ratio());
        }
    }
}

#[test]
fn the_fec_is_asked_once_a_port_when_discovery_is_over() {
    let fabric = fat_tree(4, 2, 2, 1);
    let linked = |n: &crate::sim::NodeSpec| n.ports.iter().filter(|p| p.peer.is_some()).count();
    let ends: usize = fabric.nodes.iter().map(linked).sum();
    let options = SimOptions {
        load: 0.0,
        faults: Faults::Script(Script::new()),
        ..SimOptions::default()
    };
    let port = SimPort::new(fabric, options).unwrap();
    let mut engine = Virtual::new(Box::new(port), Config::default());
    let (mut over, mut asked) = (false, BTreeSet::new());
    let mut count = 0;
    engine.run_until(Stamp::from_secs(20), &mut |batch| {
        for event in &batch.events {
            match &event.what {
                What::SweepEnded(s) if s.kind == SweepKind::Discovery => over = true,
                // The attribute PortInfoExtended.
                What::Sent(s) if s.mad.class().is_smp() && s.mad.attr_id() == 0x33 => {
                    assert!(over, "asked while discovery was under way");
                    asked.insert((s.target.node, s.target.port));
                    count += 1;
                }
                _ => {}
            }
        }
    });
    assert_eq!((asked.len(), count), (ends, ends));
}
