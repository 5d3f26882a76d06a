//! The console on another program's session. Nothing here has a port, or a way to send a
//! command.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_channel::Receiver;

use super::Failure;
use super::outlets::{refuse_terminal, watching};
use crate::config::{Cli, StreamArgs, WatchArgs};
use crate::record::replay::Feed;
use crate::tui::{self, Link, Mode, Source, Watched};
use crate::watch::{self, State, Viewer};

/// `fabtop watch`.
pub fn watch(cli: &Cli, args: &WatchArgs) -> Result<(), Failure> {
    let path = socket(args.path.as_ref());
    let (viewer, feed) = Viewer::connect(&path).map_err(watching)?;
    let mut options = super::options(&cli.screen);
    options.can_suspend = !args.restricted;
    show(viewer, feed, "", options)
}

/// `fabtop stream`.
pub fn stream(args: &StreamArgs) -> Result<(), Failure> {
    refuse_terminal()?;
    // No buffer: what happened is to be seen at once.
    let out = rustix::io::dup(rustix::stdio::stdout()).map_err(io::Error::from);
    let out = out.map_err(|e| Failure::io("cannot write to standard output", &e))?;
    watch::stream(&socket(args.path.as_ref()), &mut std::fs::File::from(out)).map_err(watching)
}

/// A session that comes as bytes of a recording.
pub fn pipe(cli: &Cli, input: impl Read + Send + 'static, name: &str) -> Result<(), Failure> {
    let (viewer, feed) = Viewer::read(input).map_err(watching)?;
    show(viewer, feed, name, super::options(&cli.screen))
}

fn socket(named: Option<&PathBuf>) -> PathBuf {
    named.cloned().unwrap_or_else(watch::find)
}

fn show(
    viewer: Viewer,
    feed: Receiver<Feed>,
    name: &str,
    options: tui::Options,
) -> Result<(), Failure> {
    let name = name.to_owned();
    let mode = Mode::Watch(Box::new(move || {
        let status = viewer.status();
        let link = match &status.state {
            State::Connected => Link::Connected,
            State::Reconnecting { why } => Link::Reconnecting(why.clone()),
            State::Ended { why } => Link::Ended(why.clone()),
        };
        let whose = match status.host.as_str() {
            "" => &name,
            host => host,
        };
        Watched {
            whose: whose.to_owned(),
            link,
            lag: status.lag(wall()),
        }
    }));
    shown(tui::run(Source::Fed(feed), mode, options))
}

/// Wall time, nanoseconds since the Unix epoch.
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// How a console ended, as this program's end.
pub fn shown(outcome: Result<tui::Exit, tui::Error>) -> Result<(), Failure> {
    match outcome {
        Ok(_) => Ok(()),
        Err(tui::Error::NotATerminal) => Err(Failure::Usage(tui::Error::NotATerminal.to_string())),
        Err(tui::Error::Signal(number)) => Err(Failure::Signal(number)),
        Err(error) => Err(Failure::Trouble(error.to_string())),
    }
}
