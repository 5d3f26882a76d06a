//! The engine over the built-in simulator, folded by the model: both must know the same
//! topology at the end of every sweep, whatever goes wrong in the fabric.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

use fabtop::engine::{Config, Virtual};
use fabtop::event::{SweepKind, What};
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::sim::{SimOptions, SimPort, default_fabric};

#[test]
fn engine_and_model_agree_at_the_end_of_every_sweep() {
    for (loss, seed) in [(0.0, 1), (0.01, 2), (0.05, 3)] {
        let options = SimOptions {
            loss,
            seed,
            ..SimOptions::default()
        };
        let port = SimPort::new(default_fabric(), options).unwrap();
        let mut config = Config::default();
        config.settings.discovery_interval_ns = 60_000_000_000;
        let mut engine = Virtual::new(Box::new(port), config);
        let mut model = Model::new();
        let mut ended = 0;
        let mut discovered = 0;
        engine.run_until(Stamp::from_secs(300), &mut |batch| {
            for event in &batch.events {
                model.apply(event);
                if let What::SweepEnded(sweep) = event.what {
                    let digest = model.topology().digest();
                    assert_eq!(digest, sweep.digest, "loss {loss}: {sweep:?}");
                    ended += 1;
                    discovered += u32::from(sweep.kind == SweepKind::Discovery);
                }
            }
        });
        // Five minutes: counters every 5 s, states every 30 s, discovery every minute.
        assert!(ended > 60, "{ended} sweeps");
        assert!(discovered >= 5, "{discovered} discoveries");
        assert!(engine.topology().len() > 70);
        // Nobody resets a counter there, flapping links included: a line that says so is wrong.
        let resets = model.log().iter().filter(|l| l.text.contains("reset"));
        assert_eq!(resets.map(|l| l.text.as_str()).collect::<Vec<_>>(), [""; 0]);
    }
}

#[test]
fn the_same_seed_gives_the_same_stream() {
    let stream = || {
        let port = SimPort::new(default_fabric(), SimOptions::default()).unwrap();
        let mut engine = Virtual::new(Box::new(port), Config::default());
        let mut text = Vec::new();
        engine.run_until(Stamp::from_secs(45), &mut |batch| {
            for event in &batch.events {
                text.push(format!("{event:?}"));
            }
        });
        text
    };
    let (a, b) = (stream(), stream());
    assert!(a.len() > 1_000);
    assert!(a == b);
}
