//! Where a session goes besides the screen: a recording, and those who watch.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::Failure;
use super::headless::QUEUE;
use crate::config::{Recording, Sharing};
use crate::event::SharedBatch;
use crate::record::{self, Anonymizer, Destination, Existing, Limits, Options};
use crate::watch::{self, Caster, Server, WatchError};

/// The encoders of a session.
#[derive(Debug, Default)]
pub struct Outlets {
    /// What the engine feeds; whoever takes it must drop it at the session's end.
    pub encoder: Option<Sender<SharedBatch>>,
    caster: Option<JoinHandle<()>>,
    server: Option<Server>,
    recording: Option<record::Handle>,
}

impl Outlets {
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
        if let Some(path) = to {
            let (tx, handle) = start(recording, path, limits)?;
            outlets.encoder = Some(tx);
            outlets.recording = Some(handle);
        }
        if let Some(path) = &sharing.socket {
            let path = path.clone().unwrap_or_else(watch::default_path);
            let mut config = watch::Config::new(path, host);
            config.group.clone_from(&sharing.socket_group);
            let server = Server::start(config).map_err(watching)?;
            let options = Options { keep_keys: false };
            let caster = Caster::new(server.publisher(), options);
            let (tx, rx) = bounded(QUEUE);
            let recorder = outlets.encoder.replace(tx);
            let thread = thread::Builder::new()
                .name("encoder".into())
                .spawn(move || caster.run(&rx, recorder.as_ref()))
                .map_err(|e| Failure::io("cannot start the encoder's thread", &e))?;
            outlets.caster = Some(thread);
            outlets.server = Some(server);
        }
        Ok(outlets)
    }

    /// Where the session can be watched.
    pub fn socket(&self) -> Option<&Path> {
        self.server.as_ref().map(Server::path)
    }

    /// The recording ended by itself: it is as large as it may be, or the disk is full.
    pub fn is_recorded(&self) -> bool {
        let over = |handle: &record::Handle| !handle.progress().running;
        self.recording.as_ref().is_some_and(over)
    }

    /// Closes everything, once the engine has ended.
    pub fn finish(mut self) -> Result<(), Failure> {
        drop(self.encoder.take());
        if let Some(caster) = self.caster.take()
            && caster.join().is_err()
        {
            return Err(Failure::Trouble(
                "internal error: the encoder failed".into(),
            ));
        }
        if let Some(server) = self.server.take() {
            server.stop();
        }
        match self.recording.take().and_then(|r| r.finish().error) {
            Some(error) => Err(Failure::Trouble(format!(
                "the recording stopped early: {error}"
            ))),
            None => Ok(()),
        }
    }
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

/// Starts a recorder, behind an anonymizer if one is asked for.
pub fn start(
    recording: &Recording,
    path: &Path,
    limits: Limits,
) -> Result<(Sender<SharedBatch>, record::Handle), Failure> {
    let to = Destination::from_arg(path);
    if to == Destination::Stdout {
        refuse_terminal()?;
    }
    let existing = match (recording.force, recording.append) {
        (true, _) => Existing::Overwrite,
        (_, true) => Existing::Append,
        _ => Existing::Keep,
    };
    let options = Options {
        keep_keys: recording.keep_keys,
    };
    let (tx, rx) = bounded(QUEUE);
    let rx = match recording.anonymize {
        true => anonymized(rx)?,
        false => rx,
    };
    let handle = record::start_limited(&to, existing, options, limits, rx)
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
