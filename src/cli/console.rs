//! The console on a live session.

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use super::headless::{QUEUE, start_recording};
use super::{Failure, fabric};
use crate::command::Command;
use crate::config::{Cli, PaletteArg, Screen, SimTime};
use crate::engine::{self, Sinks};
use crate::port::Stamp;
use crate::tui::{self, Depth, Mode, Options, Source};

/// `fabtop`: the console over this host's port, a simulated one, or ibsim's.
pub fn live(cli: &Cli) -> Result<(), Failure> {
    let common = &cli.common;
    if common.sim_time == SimTime::Fast {
        return Err(Failure::Usage(
            "--sim-time fast is for `fabtop report`: nobody could read a console that fast".into(),
        ));
    }
    let settings = fabric::settings(common)?;
    let config = fabric::config(common, settings);
    let port = fabric::open(common)?;
    let recorder = common
        .record
        .as_deref()
        .map(|path| start_recording(common, path))
        .transpose()?;
    let (encoder, recording) = recorder.unzip();
    let (tx, rx) = bounded(QUEUE);
    let zero = Instant::now();
    let sinks = Sinks {
        model: Some(tx),
        encoder,
    };
    let handle = engine::start(port, config, sinks)
        .map_err(|e| Failure::io("cannot start the engine's thread", &e))?;
    let source = Source {
        batches: rx,
        clock: Box::new(move || {
            Stamp(u64::try_from(zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
        }),
    };
    let commander = handle.commander.clone();
    let mode = Mode::Live(Box::new(move |command| {
        commander.send(command);
    }));
    let outcome = tui::run(source, mode, options(&cli.screen));
    // Whatever ended the screen: withdraw the subscription and close the recording.
    handle.commander.send(Command::Quit);
    let joined = handle.join();
    if let Some(recording) = recording
        && let Some(error) = recording.finish().error
    {
        return Err(Failure::Trouble(format!(
            "the recording stopped early: {error}"
        )));
    }
    match outcome {
        // What ended the engine is the cause; the screen only saw its events end.
        Ok(_) | Err(tui::Error::Ended(_)) if joined.is_err() => joined.map_err(Failure::Trouble),
        Ok(_) => Ok(()),
        Err(tui::Error::NotATerminal) => Err(Failure::Usage(tui::Error::NotATerminal.to_string())),
        Err(tui::Error::Signal(number)) => Err(Failure::Signal(number)),
        Err(error) => Err(Failure::Trouble(error.to_string())),
    }
}

fn options(screen: &Screen) -> Options {
    let mut options = Options::from_env();
    options.refresh = Duration::from_secs(1) / u32::from(screen.fps.max(1));
    if let Some(palette) = screen.palette {
        options.look.depth = match palette {
            PaletteArg::Mono => Depth::Mono,
            PaletteArg::Ansi16 => Depth::Ansi16,
            PaletteArg::Ansi256 => Depth::Ansi256,
            PaletteArg::Truecolor => Depth::True,
        };
    }
    options
}
