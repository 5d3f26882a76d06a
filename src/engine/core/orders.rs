//! What the operator orders, the end of the session included.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Core, Output};
use crate::command::Command;
use crate::engine::job::{Ask, Job, Lane, Who};
use crate::event::{Severity, What};
use crate::fabric::Guid;
use crate::port::Stamp;

/// Bad lines of a node name map that are told one by one.
const NAME_PROBLEMS: usize = 5;
/// How long what is on its way may still come in once the end was asked for.
const LINGER: Duration = Duration::from_millis(200);
/// How long the SA may take to withdraw the subscription then.
const WITHDRAW: Duration = Duration::from_secs(1);

impl Core {
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Rediscover => {
                self.trust_again();
                self.loops.discover_at(self.now);
            }
            Command::ReadCounters => self.loops.count_at(self.now),
            Command::Read(topic) => self.read(topic),
            Command::Focus(port) => self.focus_on(port),
            Command::Settings(settings) => {
                self.loops.set(&settings, self.now);
                self.share(Lane::Smp).set(settings.smp);
                self.share(Lane::Gmp).set(settings.gmp);
                self.config.settings = (*settings).clone();
                self.emit(What::Settings(settings));
                self.emit_pace();
            }
            Command::Names { names, problems } => self.names_read(names, problems),
            Command::Mark(text) => self.emit(What::Mark { text: text.into() }),
            Command::Act(text) => self.emit(What::Act { text: text.into() }),
            Command::RecordingStopped(why) => {
                self.emit(What::RecordingStopped { why: why.into() });
            }
            Command::Quit => self.quit(),
        }
    }

    /// The node name map changed. Names of lines that are of no use any more are gone; where
    /// the file is, all of them stay.
    fn names_read(&mut self, names: Option<BTreeMap<Guid, String>>, problems: Vec<String>) {
        let count = problems.len();
        for text in problems.into_iter().take(NAME_PROBLEMS) {
            self.note(Severity::Warning, None, text);
        }
        if let Some(more) = count.checked_sub(NAME_PROBLEMS + 1) {
            let text = format!("node name map: {} more lines are of no use", more + 1);
            self.note(Severity::Warning, None, text);
        }
        if let Some(names) = names.filter(|names| *names != self.config.settings.names) {
            self.config.settings.names = names;
            let settings = Box::new(self.config.settings.clone());
            self.emit(What::Settings(settings));
        }
    }

    pub(super) fn quit(&mut self) {
        if self.closing.is_some() {
            return;
        }
        // What is on its way may still come in; what waits is forgotten.
        for share in &mut self.shares {
            share.ready.iter_mut().for_each(VecDeque::clear);
        }
        self.replies.iter_mut().for_each(VecDeque::clear);
        self.delayed.clear();
        self.end_superseded();
        self.loops.abort();
        for node in self.nodes.values_mut() {
            node.forget_waiting();
        }
        self.parked = 0;
        self.lingers = self.now + LINGER;
        self.closing = Some(self.now + WITHDRAW);
        if self.gone.is_none() && self.sa.subscribed {
            self.sa.withdrawing = true;
            let job = Job::new(Ask::Inform(false), Who::Sm).attempts(1).urgent();
            self.share(Lane::Gmp).push(job);
        }
    }

    /// Ends the session once nothing is on its way any more, or at the latest now.
    pub(super) fn close(&mut self, by: Stamp) {
        let idle = self.table.is_empty()
            && self.departure.is_none()
            && self.shares.iter().all(|share| share.waiting() == 0);
        // Hosts that are dead must not hold up the end.
        let lingered = self.now >= self.lingers && !self.sa.withdrawing;
        if idle || lingered || self.now >= by || self.gone.is_some() {
            self.emit(What::Closed {
                why: "asked to quit".into(),
            });
            self.push(Output::Finished);
            self.finished = true;
        }
    }
}
