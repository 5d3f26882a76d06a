//! Recordings back to events.
//!
//! Tolerant: what is readable is yielded, the rest is named with its offset ([`Problem`]);
//! memory is bounded by the fabric, not by the file. Files whose event frames were filtered
//! out, and captures of other programs, give what their MADs tell: the rest is guessed, and an
//! event says so.

mod assemble;
mod guess;
mod source;

use std::io::Read;

use super::frame::{self, NoMad, Payload};
use crate::event::{Batch, Event};
use assemble::Assembler;
use source::{Item, Packet, Source};

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the (uncompressed) input.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

/// The first problems met, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
    count: u64,
}

impl Problems {
    /// The most that are kept.
    pub const KEPT: usize = 200;

    fn add(&mut self, offset: u64, what: String) {
        self.count += 1;
        if self.list.len() < Self::KEPT {
            self.list.push(Problem { offset, what });
        }
    }

    /// The first [`Problems::KEPT`].
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// What was met on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events yielded.
    pub events: u64,
    /// MADs of the stream; an RMPP message counts once.
    pub mads: u64,
    /// Packets of keyframes that were skipped: all but the one that reading begins with.
    pub keyframe: u64,
    /// Packets that are no MADs.
    pub other: u64,
    /// Packets cut short by the capture.
    pub cut: u64,
    /// JSON frames of another program or a later version.
    pub unknown: u64,
    /// Sent MADs whose target was guessed by path or LID.
    pub guessed: u64,
    /// Section headers.
    pub sections: u64,
}

/// Reads a recording or capture as events, in the order in which they were recorded.
///
/// An iterator that ends at the end of what can be read; look at [`Reader::problems`] then.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    assembler: Assembler,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads from `input`, which need not be buffered.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            source: Source::new(input),
            assembler: Assembler::default(),
            ended: false,
        }
    }

    /// Reads from the midst of a recording on: from where a keyframe's first block is.
    pub(super) fn resume(input: R, offset: u64) -> Reader<R> {
        Reader {
            source: Source::resume(input, offset),
            assembler: Assembler::default(),
            ended: false,
        }
    }

    /// What could not be read so far.
    pub fn problems(&self) -> &Problems {
        &self.assembler.problems
    }

    /// What was met so far.
    pub fn stats(&self) -> Stats {
        self.assembler.stats
    }

    /// How far the input was read, in bytes.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The next events, at most [`Batch::MAX`]; `None` at the end.
    pub fn next_batch(&mut self) -> Option<Batch> {
        let mut events = Vec::with_capacity(Batch::MAX);
        while events.len() < Batch::MAX {
            match self.next() {
                Some(event) => events.push(event),
                None => break,
            }
        }
        (!events.is_empty()).then_some(Batch { events })
    }

    /// Takes one packet or section header.
    fn step(&mut self) {
        let assembler = &mut self.assembler;
        let packet = match self.source.next(&mut assembler.problems) {
            Some(Item::Packet(packet)) => packet,
            Some(Item::Section { offset }) => {
                assembler.stats.sections += 1;
                assembler.end_section(offset);
                return;
            }
            None => {
                assembler.end_section(self.source.offset());
                self.ended = true;
                return;
            }
        };
        match frame::payload(packet.link, packet.data) {
            Payload::Json(text) => assembler.json(&packet, text),
            Payload::Infiniband(bytes) => match frame::parse(bytes) {
                Ok(framed) => assembler.packet(&packet, &framed),
                Err(NoMad::Other) => assembler.stats.other += 1,
                Err(NoMad::Cut) => assembler.stats.cut += 1,
            },
            Payload::Other => assembler.stats.other += 1,
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.assembler.out.pop_front() {
                self.assembler.stats.events += 1;
                return Some(event);
            }
            if self.ended {
                return None;
            }
            self.step();
        }
    }
}

/// Where the last whole block of `input` ends.
pub(super) fn whole_length(input: impl Read) -> std::io::Result<u64> {
    let mut source = Source::new(input);
    let mut problems = Problems::default();
    while source.next(&mut problems).is_some() {}
    source.take_error().map_or(Ok(source.whole()), Err)
}

/// Shows every packet of `input`.
pub(super) fn each_packet(
    input: impl Read,
    problems: &mut Problems,
    mut each: impl FnMut(&Packet<'_>),
) {
    let mut source = Source::new(input);
    while let Some(item) = source.next(problems) {
        if let Item::Packet(packet) = item {
            each(&packet);
        }
    }
}
