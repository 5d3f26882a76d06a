//! The loop: batches into the model, keys into the screen, frames out, and every way to end.

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, after, never, select};
use crossterm::event::{Event, KeyEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};

use super::app::{Act, App};
use super::guard::{self, Guard};
use super::input::{self, Control, Inputs};
use super::output::Output;
use super::told::{Replay, Told};
use super::{Error, Exit, Mode, Options, Source};
use crate::command::Command;
use crate::event::SharedBatch;
use crate::fabric::PortKey;
use crate::model::Model;
use crate::port::Stamp;
use crate::record::replay::{Feed, PlayState, Position};

/// The least time between two frames that a key asked for.
const INPUT_GAP: Duration = Duration::from_millis(100);
/// How long a port must be looked at before its optional counters are read.
const DWELL: Duration = Duration::from_millis(300);
/// How often a frame is tried again while the terminal takes none.
const RETRY: Duration = Duration::from_millis(50);
/// How often ages are looked at.
const TICK: Duration = Duration::from_secs(1);
/// The longest that batches are folded before keys are looked at.
const FOLD: Duration = Duration::from_millis(30);
/// How long the engine may take to withdraw its subscription at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs the console until it is left.
///
/// # Errors
/// Standard output is no terminal, the terminal went away, a signal ended the program, a thread
/// panicked, or the session ended by itself.
pub fn run(source: Source, mode: Mode, options: Options) -> Result<Exit, Error> {
    if !rustix::termios::isatty(rustix::stdio::stdout()) {
        return Err(Error::NotATerminal);
    }
    let inputs = input::listen()?;
    let guard = Guard::new(inputs.alarm.clone())?;
    let output = Output::start(inputs.alarm.clone())?;
    let (batches, feed, clock) = match source {
        Source::Live { batches, clock } => (batches, never(), Some(clock)),
        Source::Fed(feed) => (never(), feed, None),
    };
    // A session's leader, as under sshd without a shell, has nothing to go back to.
    let alone = rustix::process::getsid(None).ok() == Some(rustix::process::getpid());
    let mut app = App::new(mode.kind(), options.look, options.clock.clone());
    app.can_suspend = options.can_suspend && !alone;
    let mut console = Console {
        app,
        model: Model::new(),
        coming: None,
        batches,
        feed,
        clock,
        position: None,
        mode,
        refresh: options.refresh,
        can_suspend: options.can_suspend,
        stopped: false,
        guard,
        output,
        due: Some(Instant::now()),
        last_frame: None,
        focus: Focus::default(),
    };
    let end = console.run(&inputs);
    console.guard.leave();
    if end.is_ok() {
        console.farewell();
    }
    end
}

struct Console {
    app: App<Model>,
    model: Model,
    /// What a replay folds on its way elsewhere; shown once it is there.
    coming: Option<Model>,
    batches: Receiver<SharedBatch>,
    feed: Receiver<Feed>,
    /// `None` where the time comes with the events.
    clock: Option<Box<dyn Fn() -> Stamp>>,
    position: Option<Box<Position>>,
    mode: Mode,
    refresh: Duration,
    can_suspend: bool,
    /// We stopped ourselves, and the SIGCONT that ended it is still to come.
    stopped: bool,
    guard: Guard,
    output: Output,
    /// When the next frame is to be drawn, if one is.
    due: Option<Instant>,
    last_frame: Option<Instant>,
    focus: Focus,
}

/// The port that the engine reads in full, and the one that it shall.
#[derive(Debug, Default)]
struct Focus {
    told: Option<PortKey>,
    wanted: Option<PortKey>,
    /// When the engine is told, if nothing else is looked at by then.
    at: Option<Instant>,
}

impl Focus {
    /// What is looked at now. What the engine is to be told, once it is time.
    fn look(&mut self, at: Option<PortKey>, now: Instant) -> Option<Command> {
        if self.wanted != at {
            self.wanted = at;
            self.at = Some(now + DWELL);
        }
        self.at.filter(|due| *due <= now)?;
        self.at = None;
        if self.told == self.wanted {
            return None;
        }
        self.told = self.wanted;
        Some(Command::Focus(self.told))
    }
}

impl Console {
    fn run(&mut self, inputs: &Inputs) -> Result<Exit, Error> {
        let mut tick = Instant::now() + TICK;
        loop {
            let now = Instant::now();
            if now >= tick {
                tick = now + TICK;
                self.want_frame(self.refresh);
            }
            if self.due.is_some_and(|due| due <= now) {
                self.frame()?;
            }
            if let Mode::Live(send) = &self.mode
                && let Some(command) = self.focus.look(self.app.looked_at(), now)
            {
                send(command);
            }
            let wake = self.due.map_or(tick, |due| due.min(tick));
            let wake = self.focus.at.map_or(wake, |at| at.min(wake));
            let timeout = after(wake.saturating_duration_since(Instant::now()));
            select! {
                recv(inputs.control) -> control => if let Ok(control) = control {
                    self.control(control)?;
                },
                recv(inputs.events) -> event => match event {
                    Ok(event) => {
                        if let Some(exit) = self.event(&event)? {
                            return Ok(exit);
                        }
                        while let Ok(event) = inputs.events.try_recv() {
                            if let Some(exit) = self.event(&event)? {
                                return Ok(exit);
                            }
                        }
                    }
                    Err(_) => return Err(Error::HungUp),
                },
                recv(self.batches) -> batch => match batch {
                    Ok(batch) => self.fold(&batch),
                    Err(_) => self.stream_ended()?,
                },
                recv(self.feed) -> item => match item {
                    Ok(item) => self.take(item),
                    Err(_) => self.stream_ended()?,
                },
                recv(timeout) -> _ => {}
            }
        }
    }

    /// Asks for a frame, at least `gap` after the last one.
    fn want_frame(&mut self, gap: Duration) {
        let now = Instant::now();
        let at = self.last_frame.map_or(now, |last| (last + gap).max(now));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn frame(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.output.is_busy() {
            self.due = Some(now + RETRY);
            return Ok(());
        }
        self.due = None;
        self.last_frame = Some(now);
        let (width, height) = size();
        let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
        let stamp = self.now();
        self.tell();
        if let Mode::Live(send) = &self.mode
            && let Some(command) = self.app.refresh(&self.model, stamp)
        {
            send(command);
        }
        self.app.draw(&self.model, stamp, &mut buf);
        self.output.show(buf)?;
        Ok(())
    }

    fn fold(&mut self, batch: &SharedBatch) {
        let before = self.model.revision();
        let until = Instant::now() + FOLD;
        for event in &batch.events {
            self.model.apply(event);
        }
        while Instant::now() < until {
            let Ok(batch) = self.batches.try_recv() else {
                break;
            };
            for event in &batch.events {
                self.model.apply(event);
            }
        }
        if self.model.revision() != before {
            self.want_frame(self.refresh);
        }
    }

    /// The session's time.
    fn now(&self) -> Stamp {
        let told = match (&self.clock, &self.position) {
            (Some(clock), _) => clock(),
            // On its way elsewhere: what is shown stays as of when it left.
            (None, Some(position)) if self.coming.is_none() => position.at,
            _ => Stamp::ZERO,
        };
        told.max(self.model.last())
    }

    /// Tells the screen how the session stands.
    fn tell(&mut self) {
        match &self.mode {
            Mode::Live(_) => {}
            Mode::Watch(watched) => self.app.told = Told::Watch(watched()),
            Mode::Replay { transport, name } => {
                let position = self.position.as_deref().cloned();
                // Marks are many and seldom change.
                let marks = match std::mem::take(&mut self.app.told) {
                    Told::Replay(was)
                        if was.position.as_ref().map(|p| p.marks)
                            == position.as_ref().map(|p| p.marks) =>
                    {
                        was.marks
                    }
                    _ => transport.marks(),
                };
                self.app.told = Told::Replay(Box::new(Replay {
                    name: name.clone(),
                    position,
                    marks,
                    problems: transport.problems().len(),
                }));
            }
        }
    }

    /// Takes what a replay or a collector feeds.
    fn take(&mut self, first: Feed) {
        let until = Instant::now() + FOLD;
        let mut changed = false;
        let mut next = Some(first);
        while let Some(item) = next {
            match item {
                Feed::Batch(batch) => {
                    let model = self.coming.as_mut().unwrap_or(&mut self.model);
                    let before = model.revision();
                    for event in &batch.events {
                        model.apply(event);
                    }
                    changed |= model.revision() != before;
                }
                Feed::Reset if matches!(self.mode, Mode::Replay { .. }) => {
                    self.coming = Some(Model::new());
                }
                Feed::Reset => {
                    self.show(Model::new());
                    changed = true;
                }
                Feed::Position(position) => {
                    if position.state != PlayState::Seeking
                        && let Some(model) = self.coming.take()
                    {
                        self.show(model);
                    }
                    self.position = Some(position);
                    changed = true;
                }
                Feed::End { .. } => changed = true,
            }
            next = match Instant::now() < until {
                true => self.feed.try_recv().ok(),
                false => None,
            };
        }
        if changed {
            self.want_frame(self.refresh);
        }
    }

    /// Shows another model. What the operator chose stays: rows are known by their keys.
    fn show(&mut self, model: Model) {
        self.model = model;
        self.app.renewed();
    }

    fn stream_ended(&mut self) -> Result<(), Error> {
        self.batches = never();
        self.feed = never();
        if let Some(message) = guard::panicked() {
            return Err(Error::Panicked(message));
        }
        if matches!(self.mode, Mode::Live(_)) {
            let why = self.model.closed().unwrap_or("the engine stopped");
            return Err(Error::Ended(why.to_owned()));
        }
        self.want_frame(self.refresh);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<Option<Exit>, Error> {
        let now = self.now();
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let act = self.app.key(key, &self.model, now);
                self.want_frame(INPUT_GAP);
                match act {
                    None => {}
                    Some(Act::Quit) => return Ok(Some(Exit::Quit)),
                    Some(Act::Suspend) => self.ask_to_stop(),
                    Some(Act::Redraw) => self.output.forget(),
                    Some(Act::Copy) => self.copy()?,
                    Some(Act::Send(command)) => {
                        if let Mode::Live(send) = &self.mode {
                            send(command);
                        }
                    }
                    Some(Act::Play(command)) => {
                        if let Mode::Replay { transport, .. } = &self.mode {
                            transport.send(command);
                        }
                    }
                }
            }
            Event::Paste(text) => {
                self.app.paste(text);
                self.want_frame(INPUT_GAP);
            }
            Event::Resize(..) => self.resized(),
            _ => {}
        }
        Ok(None)
    }

    fn copy(&mut self) -> Result<(), Error> {
        let text = self.app.selected_text(self.output.shown());
        match text {
            Some(text) if !self.output.is_busy() => {
                self.output.copy(&text)?;
                self.app.say("Sent to the terminal's clipboard.");
            }
            _ => self.app.say("Nothing to copy."),
        }
        Ok(())
    }

    fn control(&mut self, control: Control) -> Result<(), Error> {
        match control {
            Control::HungUp => Err(Error::HungUp),
            Control::Panicked => Err(Error::Panicked(guard::panicked().unwrap_or_default())),
            Control::Signal(signal @ (SIGTERM | SIGHUP | SIGINT | SIGQUIT)) => {
                Err(Error::Signal(signal))
            }
            Control::Signal(SIGTSTP) => self.stop(),
            // The answer to our own stop, which was seen to already.
            Control::Signal(SIGCONT) if std::mem::take(&mut self.stopped) => Ok(()),
            Control::Signal(SIGCONT) => {
                // Whoever stopped us may have changed the terminal since.
                self.guard.leave();
                self.resume()
            }
            Control::Signal(SIGWINCH) => {
                self.resized();
                Ok(())
            }
            Control::Signal(_) => Ok(()),
        }
    }

    /// The terminal moved what it showed about, even if it is as large as before by now.
    fn resized(&mut self) {
        self.output.forget();
        self.want_frame(INPUT_GAP);
    }

    /// The key for suspending stops the whole job, as the terminal would.
    fn ask_to_stop(&mut self) {
        if !self.app.can_suspend {
            self.app.say("There is no shell to go back to.");
        } else {
            let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        }
    }

    fn stop(&mut self) -> Result<(), Error> {
        if !self.can_suspend {
            return Ok(());
        }
        self.guard.leave();
        self.stopped = true;
        signal_hook::low_level::emulate_default_handler(SIGTSTP).map_err(Error::Io)?;
        self.resume()
    }

    fn resume(&mut self) -> Result<(), Error> {
        self.guard.enter()?;
        self.output.forget();
        self.due = Some(Instant::now());
        Ok(())
    }

    /// Lets the engine withdraw what it asked of the fabric. The terminal is given back before.
    fn farewell(&mut self) {
        let Mode::Live(send) = &self.mode else { return };
        send(Command::Quit);
        let until = Instant::now() + FAREWELL;
        loop {
            match self.batches.recv_deadline(until) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// The terminal's size; 80×24 where it does not say.
fn size() -> (u16, u16) {
    let or = |n: u16, else_: u16, most: u16| if n == 0 { else_ } else { n.min(most) };
    match rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) => (or(size.ws_col, 80, 1000), or(size.ws_row, 24, 1000)),
        Err(_) => (80, 24),
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        match e.raw_os_error() {
            Some(libc::EIO | libc::EPIPE) => Error::HungUp,
            _ => Error::Io(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::NodeId;

    #[test]
    fn the_engine_is_told_of_a_port_once_it_was_looked_at_for_a_while() {
        let key = |port| Some(NodeId::new(1).port(port));
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut focus = Focus::default();
        assert!(focus.look(None, at(0)).is_none());
        assert!(focus.look(key(1), at(100)).is_none());
        // On to the next one before the time is over.
        assert!(focus.look(key(2), at(300)).is_none());
        assert!(focus.look(key(2), at(500)).is_none());
        let told = focus.look(key(2), at(600));
        assert!(matches!(told, Some(Command::Focus(port)) if port == key(2)));
        assert!(focus.look(key(2), at(2_000)).is_none(), "once");
        // Away and back again within the time: nothing to tell.
        assert!(focus.look(None, at(2_100)).is_none());
        assert!(focus.look(key(2), at(2_200)).is_none());
        assert!(focus.look(key(2), at(2_600)).is_none());
        assert!(focus.look(None, at(3_000)).is_none());
        let told = focus.look(None, at(3_300));
        assert!(matches!(told, Some(Command::Focus(None))));
    }
}
