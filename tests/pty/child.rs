//! The console under test, as a program.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use fabtop::command::Command;
use fabtop::engine::{self, Config, Sinks};
use fabtop::event::{Batch, Event, Opened, Settings, SharedBatch, What};
use fabtop::port::{self, Stamp};
use fabtop::sim::{SimOptions, SimPort, default_fabric};
use fabtop::tui::{self, Mode, Options, Source};

pub fn run(how: &str) -> ExitCode {
    let (tx, batches) = bounded(1024);
    let zero = Instant::now();
    let real = move || Stamp::ZERO + zero.elapsed();
    let mut clock: Box<dyn Fn() -> Stamp> = Box::new(real);
    let mode = match how {
        "plain" => {
            let settings = Settings {
                interval_ns: 1_000_000_000,
                ..Settings::default()
            };
            let config = Config {
                settings,
                ..Config::default()
            };
            let sim = SimPort::new(default_fabric(), SimOptions::default()).unwrap();
            let sinks = Sinks {
                model: Some(tx),
                encoder: None,
            };
            let engine = engine::start(Box::new(sim), config, sinks).unwrap();
            let commander = engine.commander.clone();
            Mode::Live(Box::new(move |command| {
                commander.send(command);
            }))
        }
        "quiet" => {
            // Time passes, nothing happens; each look at the clock is a frame.
            let path = std::env::var_os("SCRATCH").unwrap();
            let ticks = std::path::Path::new(&path).join("ticks");
            let file = std::fs::File::create(ticks).unwrap();
            clock = Box::new(move || {
                (&file).write_all(b".").unwrap();
                real()
            });
            tx.send(opened()).unwrap();
            keep(tx)
        }
        "panic-worker" => {
            tx.send(opened()).unwrap();
            let (ask, asked) = bounded::<()>(1);
            std::thread::Builder::new()
                .name("worker".into())
                .spawn(move || {
                    asked.recv().unwrap();
                    let _tx = tx;
                    panic!("the worker broke");
                })
                .unwrap();
            Mode::Live(Box::new(move |command| {
                if matches!(command, Command::Mark(_)) {
                    ask.send(()).unwrap();
                }
            }))
        }
        "panic-loop" => {
            clock = Box::new(move || {
                assert!(
                    zero.elapsed() < Duration::from_millis(300),
                    "the clock broke"
                );
                real()
            });
            keep(tx)
        }
        "engine-ends" => {
            tx.send(opened()).unwrap();
            drop(tx);
            Mode::Live(Box::new(|_| {}))
        }
        other => panic!("unknown console {other:?}"),
    };
    let mut options = Options::from_env();
    options.clock = tui::Clock::utc();
    match tui::run(Source::Live { batches, clock }, mode, options) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the terminal that the test reads: a failed write shows there.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(if matches!(error, tui::Error::NotATerminal) {
                2
            } else {
                1
            })
        }
    }
}

/// A live session whose engine never says anything more.
fn keep(tx: Sender<SharedBatch>) -> Mode {
    Mode::Live(Box::new(move |_| {
        let _ = &tx;
    }))
}

fn opened() -> SharedBatch {
    Arc::new(Batch {
        events: vec![Event {
            seq: 0,
            at: Stamp::ZERO,
            what: What::Opened(Box::new(Opened {
                version: "0".into(),
                source: port::Source::Simulated {
                    fabric: "default".into(),
                },
                wall: 1_715_954_587_000_000_000,
                host: "test".into(),
                settings: Settings::default(),
            })),
        }],
    })
}
