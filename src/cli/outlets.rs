//! Where a session goes besides the screen: a recording, and those who watch.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::headless::QUEUE;
use super::{Failure, complain};
use crate::config::{Common, Recording, Sharing};
use crate::event::SharedBatch;
use crate::record::{
    self, Anonymizer, Audience, Destination, Existing, Limits, Options, Outputs, Wanted,
};
use crate::watch::{self, Server, WatchError};

/// How long a disk may take for the end of a recording.
const PATIENCE: Duration = Duration::from_secs(10);

/// The encoders of a session: one, whose bytes go to the recording and to the viewers alike. Only
/// a recording with keys, or without names, has bytes and an encoder of its own.
#[derive(Debug, Default)]
pub struct Outlets {
    /// What the engine feeds; whoever takes it must drop it at the session's end.
    pub encoder: Option<Sender<SharedBatch>>,
    recording: Option<record::Handle>,
    viewing: Option<record::Handle>,
    server: Option<Server>,
    alarm: Alarm,
}

/// Says that a recording stopped to whoever puts that into the stream, who is there only after
/// the recorder.
#[derive(Clone, Default)]
struct Alarm(Arc<Mutex<Wire>>);

#[derive(Default)]
struct Wire {
    tell: Option<Box<dyn Fn(String) + Send>>,
    text: Option<String>,
}

impl std::fmt::Debug for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Alarm")
    }
}

impl Alarm {
    fn change(&self, change: impl FnOnce(&mut Wire)) {
        let mut wire = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut wire);
        let Wire { tell, text } = &mut *wire;
        if let Some(tell) = tell
            && let Some(text) = text.take()
        {
            tell(text);
        }
    }
}

impl Outlets {
    /// What is recorded and shared beside a console or a report.
    pub fn beside(common: &Common, host: &str) -> Result<Outlets, Failure> {
        let to = common.recording.record.as_deref();
        let limits = Limits::default();
        Outlets::open(&common.recording, &common.sharing, to, limits, host)
    }

    /// Starts what the options ask for.
    pub fn open(
        recording: &Recording,
        sharing: &Sharing,
        to: Option<&Path>,
        limits: Limits,
        host: &str,
    ) -> Result<Outlets, Failure> {
        if to.is_none() {
            refuse_without_file(recording)?;
        }
        if sharing.socket.is_none() && sharing.socket_group.is_some() {
            return Err(Failure::Usage(
                "--socket-group needs --socket: nobody can watch without one".into(),
            ));
        }
        let mut outlets = Outlets::default();
        let mut server = None;
        if let Some(path) = &sharing.socket {
            let path = path.clone().unwrap_or_else(watch::default_path);
            let mut config = watch::Config::new(path, host);
            config.group.clone_from(&sharing.socket_group);
            server = Some(Server::start(config).map_err(watching)?);
        }
        let audience = |server: &Server| Box::new(server.publisher()) as Box<dyn Audience>;
        let same = !recording.keep_keys && !recording.anonymize;
        if let Some(path) = to {
            let alarm = outlets.alarm.clone();
            let outputs = Outputs {
                recording: Some(wanted(recording, path, limits)?),
                audience: server.as_ref().filter(|_| same).map(audience),
                alarm: Some(Box::new(move |text| {
                    alarm.change(|wire| wire.text = Some(text.to_owned()));
                })),
            };
            let (tx, handle) = start_outputs(recording, outputs)?;
            outlets.encoder = Some(tx);
            outlets.recording = Some(handle);
        }
        if let Some(server) = server {
            if to.is_none() || !same {
                let outputs = Outputs {
                    audience: Some(audience(&server)),
                    ..Outputs::default()
                };
                let (tx, rx) = bounded(QUEUE);
                let handle = record::start_outputs(outputs, Options::default(), rx)
                    .map_err(|error| Failure::Trouble(error.to_string()))?;
                outlets.viewing = Some(handle);
                outlets.encoder = Some(match outlets.encoder.take() {
                    Some(recorder) => both(tx, recorder)?,
                    None => tx,
                });
            }
            outlets.server = Some(server);
        }
        Ok(outlets)
    }

    /// Where the session can be watched.
    pub fn socket(&self) -> Option<&Path> {
        self.server.as_ref().map(Server::path)
    }

    /// From here on `tell` is told, once, when the recording stops early.
    pub fn arm(&self, tell: impl Fn(String) + Send + 'static) {
        self.alarm.change(|wire| wire.tell = Some(Box::new(tell)));
    }

    /// The recording ended by itself: it is as large as it may be, or the disk is full.
    pub fn is_recorded(&self) -> bool {
        let over = |handle: &record::Handle| !handle.progress().running;
        self.recording.as_ref().is_some_and(over)
    }

    /// Closes everything, once the engine has ended. Takes a bounded time, whatever the disk
    /// and the viewers do.
    pub fn finish(self) -> Result<(), Failure> {
        self.finish_within(PATIENCE)
    }

    /// The same where the engine did not end: what it may still send is not waited for.
    pub fn finish_now(self) -> Result<(), Failure> {
        self.finish_within(Duration::ZERO)
    }

    fn finish_within(mut self, patience: Duration) -> Result<(), Failure> {
        drop(self.encoder.take());
        if let Some(viewing) = self.viewing.take() {
            viewing.finish_within(patience);
        }
        let recorded = self.recording.take().map(|r| r.finish_within(patience));
        if let Some(server) = self.server.take() {
            server.stop();
        }
        if recorded.as_ref().is_some_and(|r| r.full) {
            complain("the recording reached its --max-size");
        }
        match recorded.and_then(|r| r.error) {
            Some(error) => Err(Failure::Trouble(error)),
            None => Ok(()),
        }
    }
}

/// What goes to `first` and to `second`. Neither is waited for: one that has no room finds a gap
/// in the numbers.
fn both(
    first: Sender<SharedBatch>,
    second: Sender<SharedBatch>,
) -> Result<Sender<SharedBatch>, Failure> {
    let (tx, rx) = bounded::<SharedBatch>(QUEUE);
    thread::Builder::new()
        .name("splitter".into())
        .spawn(move || {
            for batch in rx {
                let _ = first.try_send(Arc::clone(&batch));
                let _ = second.try_send(batch);
            }
        })
        .map_err(|e| Failure::io("cannot start the splitter's thread", &e))?;
    Ok(tx)
}

/// Trouble with a socket, or the user's mistake.
pub fn watching(error: WatchError) -> Failure {
    match error.is_usage() {
        true => Failure::Usage(error.to_string()),
        false => Failure::Trouble(error.to_string()),
    }
}

fn refuse_without_file(recording: &Recording) -> Result<(), Failure> {
    for (given, name) in [
        (recording.force, "--force"),
        (recording.append, "--append"),
        (recording.keep_keys, "--keep-keys"),
        (recording.anonymize, "--anonymize"),
    ] {
        if given {
            return Err(Failure::Usage(format!(
                "{name} belongs to a recording: add --record FILE"
            )));
        }
    }
    Ok(())
}

/// What the options say of a recording to `path`.
fn wanted(recording: &Recording, path: &Path, limits: Limits) -> Result<Wanted, Failure> {
    let to = Destination::from_arg(path);
    if to == Destination::Stdout {
        refuse_terminal()?;
    }
    let existing = match (recording.force, recording.append) {
        (true, _) => Existing::Overwrite,
        (_, true) => Existing::Append,
        _ => Existing::Keep,
    };
    // A file that may not grow further is an error of the recording, not the program's end.
    let noted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGXFSZ, noted)
        .map_err(|e| Failure::io("cannot watch for signals", &e))?;
    Ok(Wanted {
        to,
        existing,
        limits,
    })
}

/// Starts a recorder, behind an anonymizer if one is asked for.
pub fn start(
    recording: &Recording,
    path: &Path,
    limits: Limits,
) -> Result<(Sender<SharedBatch>, record::Handle), Failure> {
    let outputs = Outputs {
        recording: Some(wanted(recording, path, limits)?),
        ..Outputs::default()
    };
    start_outputs(recording, outputs)
}

fn start_outputs(
    recording: &Recording,
    outputs: Outputs,
) -> Result<(Sender<SharedBatch>, record::Handle), Failure> {
    let options = Options {
        keep_keys: recording.keep_keys,
    };
    let (tx, rx) = bounded(QUEUE);
    let rx = match recording.anonymize {
        true => anonymized(rx)?,
        false => rx,
    };
    let handle = record::start_outputs(outputs, options, rx)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((tx, handle))
}

/// The same batches without what tells whose fabric it is.
fn anonymized(from: Receiver<SharedBatch>) -> Result<Receiver<SharedBatch>, Failure> {
    let (tx, rx) = bounded(QUEUE);
    // Different each time, so that two recordings cannot be laid side by side.
    let mut anonymizer = Anonymizer::new(RandomState::new().hash_one(0));
    thread::Builder::new()
        .name("anonymizer".into())
        .spawn(move || {
            for batch in from {
                let mut batch = Arc::unwrap_or_clone(batch);
                for event in &mut batch.events {
                    anonymizer.event(event);
                }
                if tx.send(Arc::new(batch)).is_err() {
                    return;
                }
            }
        })
        .map_err(|e| Failure::io("cannot start the anonymizer's thread", &e))?;
    Ok(rx)
}

/// Binary bytes are nothing for a terminal.
pub fn refuse_terminal() -> Result<(), Failure> {
    if rustix::termios::isatty(rustix::stdio::stdout()) {
        return Err(Failure::Usage(
            "a recording is nothing for a terminal: redirect standard output to a file or pipe"
                .into(),
        ));
    }
    Ok(())
}
