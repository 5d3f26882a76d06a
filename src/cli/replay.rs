//! The console on a recording, and what else reads recordings. Nothing here has a port, or a
//! way to send a command.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::watch::{pipe, shown};
use super::{Failure, complain, outlets};
use crate::config::{AnonymizeArgs, Cli, Recording, ReplayArgs};
use crate::event::Batch;
use crate::model::Model;
use crate::port::Stamp;
use crate::record::replay::{self, Files, Index, Moment, PlayOptions, ReplayError, SeekTo, Tape};
use crate::record::{Limits, Reader};
use crate::tui::{self, Mode, Source};

fn mistake(error: ReplayError) -> Failure {
    match error {
        ReplayError::Thread(_) => Failure::Trouble(error.to_string()),
        error => Failure::Usage(error.to_string()),
    }
}

/// `fabtop replay`.
pub fn replay(cli: &Cli, args: &ReplayArgs) -> Result<(), Failure> {
    if args.follow {
        return follow(cli, args);
    }
    let options = PlayOptions {
        at: args.at,
        until: args.until,
        speed: args.speed,
        paused: args.paused,
        skip_idle: args.skip_idle,
    };
    let (transport, feed) =
        replay::play(&args.files, options, replay::by_model).map_err(mistake)?;
    let name = match args.files.as_slice() {
        [one] => name_of(one),
        several => format!("{} files", several.len()),
    };
    let mode = Mode::Replay {
        transport: transport.clone(),
        name,
    };
    let outcome = tui::run(Source::Fed(feed), mode, super::options(&cli.screen));
    for problem in transport.problems() {
        complain(&problem);
    }
    shown(outcome)
}

fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "standard input".into();
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A stream as it comes.
fn follow(cli: &Cli, args: &ReplayArgs) -> Result<(), Failure> {
    let [path] = args.files.as_slice() else {
        return Err(Failure::Usage(
            "--follow takes one file, or - for standard input".into(),
        ));
    };
    if path.as_os_str() == "-" {
        // The header names the collecting host, as the stream tells it.
        return pipe(cli, io::stdin(), "");
    }
    let cannot = |error: &io::Error| {
        Failure::Usage(format!(
            "cannot read the recording {}: {error}",
            path.display()
        ))
    };
    let file = File::open(path).map_err(|e| cannot(&e))?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(cannot(&io::ErrorKind::IsADirectory.into()));
    }
    pipe(cli, Growing(file), &name_of(path))
}

/// A file that has no end yet.
struct Growing(File);

impl Read for Growing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf)? {
                0 if !buf.is_empty() => std::thread::sleep(Duration::from_millis(200)),
                n => return Ok(n),
            }
        }
    }
}

/// The model that a recording leads to, at its end or as of `at`, and the time there.
pub fn read(path: &Path, at: Option<SeekTo>) -> Result<(Model, Stamp), Failure> {
    let paths = [PathBuf::from(path)];
    let mut files = Files::open(&paths).map_err(mistake)?;
    let until = at.map(|at| moment(&files, at)).transpose()?;
    let folded = replay::fold(&mut files, until);
    for problem in files.problems() {
        complain(&problem);
    }
    folded.ok_or_else(|| {
        Failure::Usage(format!(
            "{} holds nothing up to then: give a later --at",
            path.display()
        ))
    })
}

/// The moment that `at` means.
fn moment(files: &Files, at: SeekTo) -> Result<Moment, Failure> {
    let (Some(start), Some(mut again)) = (files.start(), files.again()) else {
        return Err(Failure::Usage(
            "--at needs a file: what comes through a pipe has no known beginning or end".into(),
        ));
    };
    let mut index = Index::new(Some(start));
    if matches!(at, SeekTo::Percent(_) | SeekTo::End(_)) {
        match again.look_through().end {
            Some(end) => index.reach(end),
            None => {
                while let Some(played) = again.next() {
                    index.reach(played.moment);
                }
            }
        }
    }
    let (start, end) = (index.start().unwrap_or(start), index.end());
    Ok(match at {
        SeekTo::Start(after) => start.after(after),
        SeekTo::End(before) => end.before(before),
        SeekTo::Percent(percent) => {
            start.after(end.since(start).mul_f64((percent / 100.0).clamp(0.0, 1.0)))
        }
        SeekTo::Wall(wall) => Moment(u64::try_from(wall).unwrap_or(0)),
        SeekTo::Moment(moment) => moment,
        SeekTo::By(_) => start,
    })
}

/// `fabtop anonymize`.
pub fn anonymize(cli: &Cli, args: &AnonymizeArgs) -> Result<(), Failure> {
    let cannot = |error: &io::Error| {
        Failure::Usage(format!(
            "cannot read the recording {}: {error}",
            args.input.display()
        ))
    };
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    if same(&args.input, &args.output) {
        return Err(Failure::Usage(
            "IN and OUT are the same file: name another OUT".into(),
        ));
    }
    // The writer would refuse it, too, and offer what a copy cannot do.
    if !cli.common.recording.force && args.output.exists() {
        return Err(Failure::Usage(format!(
            "{} exists: use --force to overwrite it, or another name",
            args.output.display()
        )));
    }
    let input: Box<dyn Read> = match args.input.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(&args.input).map_err(|e| cannot(&e))?),
    };
    let mut reader = Reader::new(input);
    let first = reader.next().ok_or_else(|| {
        Failure::Usage(format!(
            "{} holds no event that can be read: name a recording",
            args.input.display()
        ))
    })?;
    let recording = Recording {
        record: None,
        force: cli.common.recording.force,
        append: false,
        keep_keys: false,
        anonymize: true,
    };
    let (tx, handle) = outlets::start(&recording, &args.output, Limits::default())?;
    let mut events = vec![first];
    loop {
        let next = reader.next();
        let end = next.is_none();
        events.extend(next);
        if (end || events.len() >= Batch::MAX) && !events.is_empty() {
            let events = std::mem::take(&mut events);
            // Closed: the writer says why when it is asked.
            if tx.send(Arc::new(Batch { events })).is_err() {
                break;
            }
        }
        if end {
            break;
        }
    }
    drop(tx);
    for problem in reader.problems().list() {
        complain(&format!("{}: {problem}", args.input.display()));
    }
    match handle.finish().error {
        Some(error) => Err(Failure::Trouble(format!(
            "the recording stopped early: {error}"
        ))),
        None => Ok(()),
    }
}
