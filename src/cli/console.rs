//! The console on a live session.

use std::time::Instant;

use crossbeam_channel::bounded;

use super::headless::{GRACE, QUEUE};
use super::outlets::Outlets;
use super::watch::shown;
use super::{Failure, fabric};
use crate::command::Command;
use crate::config::{Cli, SimTime};
use crate::engine::{self, Sinks};
use crate::port::Stamp;
use crate::tui::{self, Mode, Source};

/// `fabtop`: the console over this host's port, a simulated one, or ibsim's.
pub fn live(cli: &Cli) -> Result<(), Failure> {
    let common = &cli.common;
    if common.sim_time == SimTime::Fast {
        return Err(Failure::Usage(
            "--sim-time fast is for `fabtop report`: nobody could read a console that fast".into(),
        ));
    }
    let settings = fabric::settings(common)?;
    let config = fabric::config(common, settings)?;
    let port = fabric::open(common)?;
    let mut outlets = Outlets::beside(common, &config.host)?;
    let (tx, rx) = bounded(QUEUE);
    let zero = Instant::now();
    let sinks = Sinks {
        model: Some(tx),
        encoder: outlets.encoder.take(),
    };
    let handle = engine::start(port, config, sinks)
        .map_err(|e| Failure::io("cannot start the engine's thread", &e))?;
    let source = Source::Live {
        batches: rx,
        clock: Box::new(move || {
            Stamp(u64::try_from(zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
        }),
    };
    outlets.arm(handle.commander.on_recording_stopped());
    super::names::follow(common, handle.commander.clone());
    let commander = handle.commander.clone();
    let mode = Mode::Live(Box::new(move |command| {
        commander.send(command);
    }));
    let outcome = tui::run(source, mode, super::options(&cli.screen));
    // Whatever ended the screen: withdraw the subscription and close the recording. Neither a
    // host that does not answer nor a device that hangs holds that up.
    handle.commander.send(Command::Quit);
    let Some(joined) = handle.join_within(GRACE) else {
        outlets.finish_now()?;
        return shown(outcome);
    };
    outlets.finish()?;
    match outcome {
        // What ended the engine is the cause; the screen only saw its events end.
        Ok(_) | Err(tui::Error::Ended(_)) if joined.is_err() => joined.map_err(Failure::Trouble),
        outcome => shown(outcome),
    }
}
