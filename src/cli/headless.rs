//! Commands without a screen: collect, then print.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::outlets::Outlets;
use super::signals::Signals;
use super::subject::{Readings, Subject};
use super::{Failure, fabric, print, replay};
use crate::command::Command;
use crate::config::{Common, ReportArgs, ReportKind, SimTime};
use crate::engine::{self, Sinks, Virtual};
use crate::event::{SharedBatch, SweepKind, What};
use crate::model::Model;
use crate::port::Stamp;
use crate::report::{self, Format};

/// Batches that may wait for the model, and for the encoder.
pub const QUEUE: usize = 1024;

/// How long ending a session may take before it is given up.
pub const GRACE: Duration = Duration::from_secs(5);

/// When to stop collecting.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// After this long.
    Time(Duration),
    /// After the first full discovery, and so many counter sweeps.
    Swept { counters: u32 },
}

/// Watches the stream for the moment to stop.
struct Stop {
    until: Until,
    discovered: bool,
    /// Counter sweeps that ended after the discovery.
    counted: u32,
    /// What counters are to tell of the subject is known before the last sweep ended.
    loaded: bool,
    readings: Readings,
    /// A rediscovery waits for what a discovery did not wait for.
    following: bool,
}

impl Stop {
    fn new(until: Until, subject: Option<Subject>) -> Stop {
        Stop {
            until,
            discovered: false,
            counted: 0,
            loaded: false,
            readings: Readings::new(subject),
            following: false,
        }
    }

    /// What the engine is to read next, beside its sweeps.
    fn wants(&mut self, model: &Model) -> Option<Command> {
        if !self.discovered {
            return None;
        }
        let next = self.readings.next(model).map(Command::Read);
        self.loaded = self.readings.are_done() && self.readings.are_loaded(model);
        next
    }

    fn see(&mut self, batch: &SharedBatch) {
        for event in &batch.events {
            match &event.what {
                What::SweepBegan(sweep) if sweep.kind == SweepKind::Rediscovery => {
                    self.following = true;
                }
                What::SweepEnded(sweep) => match sweep.kind {
                    SweepKind::Discovery => self.discovered = true,
                    SweepKind::Counters if self.discovered => self.counted += 1,
                    SweepKind::Rediscovery => self.following = false,
                    _ => {}
                },
                What::Reading(reading) if reading.ended.is_some() => {
                    self.readings.ended(&reading.topic);
                }
                _ => {}
            }
        }
    }

    fn reached(&self, elapsed: Duration) -> bool {
        match self.until {
            Until::Time(time) => elapsed >= time,
            Until::Swept { counters } => {
                self.discovered
                    && !self.following
                    && (self.counted >= counters || self.loaded)
                    && self.readings.are_done()
            }
        }
    }
}

/// `fabtop report`.
pub fn report(common: &Common, args: &ReportArgs) -> Result<(), Failure> {
    let format = if args.json {
        Format::Json
    } else {
        Format::Text
    };
    if args.format.is_some() && args.kind != ReportKind::Topology {
        return Err(Failure::Usage(
            "--format belongs to `report topology`; use --json for JSON".into(),
        ));
    }
    if args.json && args.kind == ReportKind::Topology {
        return Err(Failure::Usage(
            "`report topology` is text as ibnetdiscover prints it; `report ports --json` has every \
             port with its peer"
                .into(),
        ));
    }
    if args.exit_code && args.kind != ReportKind::Alerts {
        return Err(Failure::Usage(
            "--exit-code belongs to `report alerts`".into(),
        ));
    }
    let subject = Subject::of(args)?;
    let (model, now, ended) = match &args.from {
        Some(path) => {
            let (model, now) = replay::read(path, args.at)?;
            (model, now, None)
        }
        None => {
            let (model, ended) = collect(common, args, subject.clone())?;
            let now = model.last();
            (model, now, ended)
        }
    };
    // The process ends with it, and taking a big one apart takes longer than printing it.
    let model = std::mem::ManuallyDrop::new(model);
    if let Some(subject) = subject {
        let (text, wrong) = subject.report(&model, now, format)?;
        print(&text)?;
        return match (ended, wrong) {
            (Some(signal), _) => Err(Failure::Signal(signal)),
            (None, Some(wrong)) => Err(Failure::Trouble(wrong)),
            (None, None) => Ok(()),
        };
    }
    let text = match args.kind {
        ReportKind::Ports => report::ports(&model, now, format),
        ReportKind::Nodes => report::nodes(&model, now, format),
        ReportKind::Timeouts => report::timeouts(&model, now, format),
        ReportKind::Missing => report::missing(&model, now, format),
        ReportKind::Topology => report::topology(&model, now),
        ReportKind::Alerts => report::alerts(&model, now, format),
        ReportKind::Events => report::events(&model, now, format),
        _ => report::sweeps(&model, now, format),
    };
    print(&text)?;
    match ended {
        Some(signal) => Err(Failure::Signal(signal)),
        None if args.exit_code && report::any_grave(&model) => Err(Failure::Alerts),
        None => Ok(()),
    }
}

/// The report is about more than the topology.
fn reads_counters(kind: ReportKind) -> bool {
    matches!(
        kind,
        ReportKind::Ports | ReportKind::Sweeps | ReportKind::Alerts | ReportKind::Events
    )
}

/// How many sweeps of counters a report waits for. A path's load takes two: rates come from two
/// readings.
fn counter_sweeps(args: &ReportArgs) -> u32 {
    match args.kind {
        kind if reads_counters(kind) => 1,
        ReportKind::Path if !args.once => 2,
        _ => 0,
    }
}

/// Runs a session until it is time to stop. Also says which signal ended it, if one did.
fn collect(
    common: &Common,
    args: &ReportArgs,
    subject: Option<Subject>,
) -> Result<(Model, Option<i32>), Failure> {
    let until = match args.time {
        Some(time) => Until::Time(time),
        None => Until::Swept {
            counters: counter_sweeps(args),
        },
    };
    let settings = fabric::settings(common)?;
    let mut config = fabric::config(common, settings)?;
    if matches!(until, Until::Swept { .. }) && !reads_counters(args.kind) {
        // One look at the topology: nothing else is asked, but for a path's load.
        config.counters = counter_sweeps(args) > 0;
        config.states = false;
        // The SA may know the names of those who do not answer.
        config.sa =
            args.kind == ReportKind::Missing || subject.as_ref().is_some_and(Subject::asks_sa);
        config.subscribe = false;
    }
    let port = fabric::open(common)?;
    let signals = Signals::watch().map_err(|e| Failure::io("cannot watch for signals", &e))?;
    if common.sim_time == SimTime::Fast && common.sharing.socket.is_some() {
        return Err(Failure::Usage(
            "nobody could watch a session in --sim-time fast: record it, and replay that".into(),
        ));
    }
    let mut outlets = Outlets::beside(common, &config.host)?;
    let encoder = outlets.encoder.take();
    let mut stop = Stop::new(until, subject);
    let outcome = if common.sim_time == SimTime::Fast {
        Ok(in_virtual_time(port, config, &mut stop, encoder, &signals))
    } else {
        in_real_time(port, config, &mut stop, (encoder, &outlets), &signals)
    };
    outlets.finish()?;
    match stop.readings.failure() {
        Some(failure) => Err(failure),
        None => outcome,
    }
}

fn in_real_time(
    port: Box<dyn crate::port::MadPort>,
    config: engine::Config,
    stop: &mut Stop,
    (encoder, outlets): (Option<Sender<SharedBatch>>, &Outlets),
    signals: &Signals,
) -> Result<(Model, Option<i32>), Failure> {
    let (tx, rx) = bounded(QUEUE);
    let sinks = Sinks {
        model: Some(tx),
        encoder,
    };
    let handle = engine::start(port, config, sinks)
        .map_err(|e| Failure::io("cannot start the engine's thread", &e))?;
    outlets.arm(handle.commander.on_recording_stopped());
    let mut model = Model::new();
    let began = Instant::now();
    let mut quitting: Option<Instant> = None;
    let mut ended = None;
    loop {
        match rx.recv_timeout(Duration::from_millis(20)) {
            Ok(batch) => {
                for event in &batch.events {
                    model.apply(event);
                }
                stop.see(&batch);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        match quitting {
            None => {
                if let Some(command) = stop.wants(&model) {
                    handle.commander.send(command);
                }
                ended = signals.seen();
                if ended.is_some() || stop.reached(began.elapsed()) {
                    handle.commander.send(Command::Quit);
                    quitting = Some(Instant::now());
                }
            }
            Some(since) if since.elapsed() > GRACE => break,
            Some(_) => {}
        }
    }
    drop(rx);
    if let Some(joined) = handle.join_within(GRACE) {
        joined.map_err(Failure::Trouble)?;
    }
    if quitting.is_none() {
        let why = model.closed().unwrap_or("for no reason given").to_owned();
        return Err(Failure::Trouble(format!("the session ended: {why}")));
    }
    Ok((model, ended))
}

fn in_virtual_time(
    port: Box<dyn crate::port::MadPort>,
    config: engine::Config,
    stop: &mut Stop,
    encoder: Option<Sender<SharedBatch>>,
    signals: &Signals,
) -> (Model, Option<i32>) {
    const STEP: Duration = Duration::from_millis(100);
    let mut engine = Virtual::new(port, config);
    let mut model = Model::new();
    let mut ended = None;
    let sink = |batch: SharedBatch, model: &mut Model, stop: &mut Stop| {
        for event in &batch.events {
            model.apply(event);
        }
        stop.see(&batch);
        if let Some(encoder) = &encoder {
            // Virtual time waits for the encoder: nothing need be lost.
            let _ = encoder.send(batch);
        }
    };
    while !engine.is_finished() && ended.is_none() && !stop.reached(engine.now().since(Stamp::ZERO))
    {
        let next = match stop.until {
            Until::Time(time) => (engine.now() + STEP).min(Stamp::ZERO + time),
            Until::Swept { .. } => engine.now() + STEP,
        };
        engine.run_until(next, &mut |batch| sink(batch, &mut model, stop));
        if let Some(command) = stop.wants(&model) {
            engine.command(command);
        }
        ended = signals.seen();
    }
    engine.command(Command::Quit);
    let limit = engine.now() + GRACE;
    engine.run_until(limit, &mut |batch| sink(batch, &mut model, stop));
    (model, ended)
}
