//! Collecting without a screen and without a model: for a file, for viewers, or both.

use std::path::Path;
use std::time::{Duration, Instant};

use super::headless::GRACE;
use super::outlets::Outlets;
use super::signals::Signals;
use super::{Failure, complain, fabric};
use crate::command::Command;
use crate::config::{Common, RecordArgs, ServeArgs, Sharing, SimTime};
use crate::engine::{self, Sinks, Virtual};
use crate::port::Stamp;
use crate::record::Limits;

/// How often signals, the time and the recording are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// `fabtop record`.
pub fn record(common: &Common, args: &RecordArgs) -> Result<(), Failure> {
    if common.recording.record.is_some() {
        return Err(Failure::Usage(
            "`fabtop record` takes its FILE without --record: name one file".into(),
        ));
    }
    let limits = Limits {
        max_size: args.max_size,
        keep: args.rotate,
    };
    let file = Some(args.file.as_path());
    collect(common, &common.sharing, file, limits, args.time, true)
}

/// `fabtop serve`.
pub fn serve(common: &Common, args: &ServeArgs) -> Result<(), Failure> {
    let sharing = Sharing {
        socket: Some(common.sharing.socket.clone().flatten()),
        socket_group: common.sharing.socket_group.clone(),
    };
    let to = common.recording.record.as_deref();
    collect(common, &sharing, to, Limits::default(), args.time, false)
}

/// Collects until it is time to stop; `recording` means that the file is what it is for, so
/// that its end is the session's.
fn collect(
    common: &Common,
    sharing: &Sharing,
    to: Option<&Path>,
    limits: Limits,
    time: Option<Duration>,
    recording: bool,
) -> Result<(), Failure> {
    let fast = common.sim_time == SimTime::Fast;
    if fast && time.is_none() {
        return Err(Failure::Usage(
            "--sim-time fast needs --for TIME: nothing else would end it".into(),
        ));
    }
    if fast && sharing.socket.is_some() {
        return Err(Failure::Usage(
            "nobody could watch a session in --sim-time fast: record it, and replay that".into(),
        ));
    }
    let config = fabric::config(common, fabric::settings(common)?)?;
    let port = fabric::open(common)?;
    let signals = Signals::watch().map_err(|e| Failure::io("cannot watch for signals", &e))?;
    let mut outlets = Outlets::open(&common.recording, sharing, to, limits, &config.host)?;
    let encoder = outlets.encoder.take();
    let ended = if fast {
        let mut engine = Virtual::new(port, config);
        let end = Stamp::ZERO + time.unwrap_or_default();
        let mut sink = |batch| {
            if let Some(encoder) = &encoder {
                // Virtual time waits for the encoder: nothing need be lost.
                let _ = encoder.send(batch);
            }
        };
        while engine.now() < end && !engine.is_finished() && signals.seen().is_none() {
            let next = engine.now() + Duration::from_millis(100);
            engine.run_until(next.min(end), &mut sink);
            if recording && outlets.is_recorded() {
                break;
            }
        }
        engine.command(Command::Quit);
        let end = engine.now() + GRACE;
        engine.run_until(end, &mut sink);
        // The recorder ends when nobody can send it anything any more.
        drop(encoder);
        signals.seen()
    } else {
        let sinks = Sinks {
            model: None,
            encoder,
        };
        let handle = engine::start(port, config, sinks)
            .map_err(|e| Failure::io("cannot start the engine's thread", &e))?;
        super::names::follow(common, handle.commander.clone());
        outlets.arm(handle.commander.on_recording_stopped());
        if let Some(path) = outlets.socket() {
            complain(&format!("listening on {}", path.display()));
        }
        let began = Instant::now();
        let mut ended = None;
        while !(handle.is_finished() || recording && outlets.is_recorded()) {
            ended = signals.seen();
            let left = time.map_or(LOOK, |time| time.saturating_sub(began.elapsed()));
            if ended.is_some() || left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
        let by_itself = handle.is_finished();
        handle.commander.send(Command::Quit);
        match handle.join_within(GRACE) {
            Some(joined) => joined.map_err(Failure::Trouble)?,
            None => return outlets.finish_now(),
        }
        if by_itself {
            outlets.finish()?;
            return Err(Failure::Trouble("the session ended by itself".into()));
        }
        ended
    };
    outlets.finish()?;
    match ended {
        // Without --for a signal is how it ends.
        Some(signal) if time.is_some() => Err(Failure::Signal(signal)),
        _ => Ok(()),
    }
}
