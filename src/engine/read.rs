//! Reading on demand: what an operator asks for and no sweep does. Each reading begins and ends
//! with an event, so that whoever waits for it, live or in a replay, knows when it is done.

use super::core::Core;
use crate::event::{Reading, ReadingEnded, Topic, What};

impl Core {
    /// Reads what no sweep asks for.
    pub(super) fn read(&mut self, topic: Topic) {
        if self.is_closing() {
            return;
        }
        self.emit(What::Reading(Box::new(Reading {
            topic: topic.clone(),
            ended: None,
        })));
        match topic {
            _ if !self.is_live() => self.reading_ended(topic, ReadingEnded::default()),
            Topic::Path { .. } | Topic::Table { .. } => self.read_routes(topic),
            Topic::Sa { tables } => self.read_records(tables),
            Topic::Sms => self.read_sms(),
        }
    }

    pub(super) fn reading_ended(&mut self, topic: Topic, ended: ReadingEnded) {
        self.emit(What::Reading(Box::new(Reading {
            topic,
            ended: Some(ended),
        })));
    }
}
