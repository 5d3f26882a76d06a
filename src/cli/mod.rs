//! Arguments, exit codes, and the wiring of rooms for each command.
//!
//! This room must hold no logic of its own: it opens what the command names, connects the rooms,
//! and turns their outcome into an exit code.

mod collect;
mod console;
mod fabric;
mod headless;
mod names;
mod options;
mod outlets;
mod replay;
mod signals;
mod subject;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use crate::config::{Command, PaletteArg, Screen};
use crate::tui::{Depth, Options};

/// How a command ends when it does not end well.
#[derive(Debug)]
pub enum Failure {
    /// The user's mistake: one sentence that says what to do. Exit code 2.
    Usage(String),
    /// Trouble with the fabric, the device or the machine: the cause. Exit code 1.
    Trouble(String),
    /// Alerts are open, and a script wants to know. Exit code 1, and nothing more to say.
    Alerts,
    /// Ended by a signal, after everything was put in order. Exit code 128 + its number.
    Signal(i32),
}

impl Failure {
    /// Trouble with an action, and its cause.
    fn io(what: impl std::fmt::Display, error: &io::Error) -> Failure {
        Failure::Trouble(format!("{what}: {error}"))
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Trouble(_) | Failure::Alerts => 1,
            Failure::Signal(number) => 128u8.saturating_add(u8::try_from(*number).unwrap_or(0)),
        }
    }
}

/// Runs the program with the process's arguments.
pub fn run() -> ExitCode {
    let (cli, refused) = match options::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version go to standard output with code 0, mistakes to standard error
            // with code 2; a closed pipe is no error in either case.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if let Some(failure) = refused {
        if let Failure::Usage(text) = &failure {
            complain(text);
        }
        return ExitCode::from(failure.code());
    }
    let outcome = match &cli.command {
        None => console::live(&cli),
        Some(Command::Report(report)) => headless::report(&cli.common, report),
        Some(Command::Record(args)) => collect::record(&cli.common, args),
        Some(Command::Serve(args)) => collect::serve(&cli.common, args),
        Some(Command::Watch(args)) => watch::watch(&cli, args),
        Some(Command::Stream(args)) => watch::stream(args),
        Some(Command::Replay(args)) => replay::replay(&cli, args),
        Some(Command::Anonymize(args)) => replay::anonymize(&cli, args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match &failure {
                Failure::Usage(text) | Failure::Trouble(text) => complain(text),
                Failure::Alerts => {}
                Failure::Signal(number) => complain(&format!(
                    "ended by {}",
                    signal_hook::low_level::signal_name(*number).unwrap_or("a signal")
                )),
            }
            let scripted = matches!(&cli.command, Some(Command::Report(r)) if r.exit_code);
            match failure {
                // 1 means alerts there, as for ibqueryerrors.
                Failure::Trouble(_) if scripted => ExitCode::from(3),
                failure => ExitCode::from(failure.code()),
            }
        }
    }
}

/// What the command line says of the screen.
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

/// Says something on standard error. Nobody may be reading it.
fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "fabtop: {text}");
}

/// Writes to standard output. A reader that went away is no error.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("cannot write to standard output", &error))
        }
        _ => Ok(()),
    }
}
