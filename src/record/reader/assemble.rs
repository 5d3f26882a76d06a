//! Packets to events: the table of targets, long MADs, texts in parts, numbers and times.

use std::collections::{HashMap, VecDeque};

use super::super::encode::{KEYFRAME_BIT, MAX_ENTRIES};
use super::super::frame::{Direction, Framed};
use super::super::wire::{
    Body, Entry, FORMAT, Frame, KnownMeta, MadMeta, Part, Section, Targets, from_hex,
};
use super::guess::Guesser;
use super::source::Packet;
use super::{Problems, Stats};
use crate::event::{Event, Known, Received, Sent, What};
use crate::fabric::Target;
use crate::mad::{MAD_LEN, Mad, MadView, Method, MgmtClass, data_offset};
use crate::port::{Address, Stamp};

/// Longest text that is put together from parts.
const MAX_TEXT: usize = 64 << 20;
/// Longest MAD that is put together from segments.
const MAX_MAD: usize = 64 << 20;

/// What a MAD's packet told beside its bytes.
#[derive(Clone, Copy, Debug)]
struct Envelope {
    offset: u64,
    nanos: u64,
    direction: Direction,
    /// As the frame has it.
    addr: Address,
    /// epb_packetid, where it is a recording's.
    id: u64,
}

/// A MAD that comes in segments.
#[derive(Debug)]
struct Message {
    envelope: Envelope,
    tid: u32,
    len: usize,
    /// Its own RMPP header, which the segments do not show.
    header: Vec<u8>,
    bytes: Vec<u8>,
}

/// A known exchange: two MADs follow.
#[derive(Debug)]
struct HalfKnown {
    /// Number and time, if it is an event of the stream and no part of a keyframe.
    meta: Option<KnownMeta>,
    request: Option<(Mad, Address, Target)>,
}

#[derive(Debug, Default)]
pub struct Assembler {
    pub problems: Problems,
    pub stats: Stats,
    pub out: VecDeque<Event>,
    /// What the section said of itself. Without it numbers and times are made up.
    section: Option<Section>,
    entries: HashMap<(u32, u32), Entry>,
    generation: u32,
    next_seq: u64,
    meta: Option<MadMeta>,
    message: Option<Box<Message>>,
    text: String,
    parts: u32,
    known: Option<HalfKnown>,
    keyframe: Within,
    /// Something of the stream was yielded: keyframes say nothing new.
    begun: bool,
    guesser: Option<Box<Guesser>>,
}

/// Where reading is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Stream,
    /// In a keyframe that is not needed.
    Skipped,
    /// In a keyframe that reading begins with.
    Applied,
}

impl Assembler {
    /// What a section leaves unfinished is named; nothing of it holds for the next one.
    pub fn end_section(&mut self, offset: u64) {
        self.drop_message();
        if self.known.take().is_some() {
            self.problems
                .add(offset, "a known exchange lacks its reply".into());
        }
        self.keyframe = Within::Stream;
        self.guesser = None;
        self.section = None;
        self.entries.clear();
        self.meta = None;
        self.text.clear();
        self.parts = 0;
    }

    fn drop_message(&mut self) {
        if let Some(message) = self.message.take() {
            let what = "a long MAD lacks some of its segments";
            self.problems.add(message.envelope.offset, what.into());
        }
    }

    /// Takes a JSON text.
    pub fn json(&mut self, packet: &Packet<'_>, text: &[u8]) {
        let Ok(frame) = serde_json::from_slice::<Frame>(text) else {
            self.stats.unknown += 1;
            return;
        };
        let seq = frame.seq;
        if !packet.keyframe {
            // Its end was lost.
            self.keyframe = Within::Stream;
        }
        let what = match (self.keyframe, frame.body.into_what()) {
            (_, Err(own)) => return self.own(packet, own),
            (Within::Stream, Ok(_)) if packet.keyframe => {
                self.stats.keyframe += 1;
                return;
            }
            (Within::Skipped, Ok(_)) => {
                self.stats.keyframe += 1;
                return;
            }
            (Within::Applied, Ok(what)) => {
                let at = Stamp(packet.nanos.wrapping_sub(self.anchor()));
                self.repeat(at, what);
                return;
            }
            (Within::Stream, Ok(what)) => what,
        };
        let at = match &self.section {
            Some(section) => Stamp(packet.nanos.wrapping_sub(section.anchor as u64)),
            None => {
                let guesser = Self::guesser(&mut self.guesser, packet.source);
                let at = guesser.time(packet.nanos);
                guesser.advance(at, false, &mut self.next_seq, &mut self.out);
                at
            }
        };
        if let What::SweepBegan(sweep) = &what {
            self.generation = sweep.generation;
        }
        // Numbers of a file that lost its beginning start anew, so that they agree with those
        // of the events made up.
        let seq = seq.filter(|_| self.section.is_some());
        self.emit(seq, at, what);
    }

    /// What the section's packets count their time from.
    fn anchor(&self) -> u64 {
        self.section.as_ref().map_or(0, |s| s.anchor as u64)
    }

    /// Yields what a keyframe tells: it has the number of what follows it.
    fn repeat(&mut self, at: Stamp, what: What) {
        let seq = self.next_seq;
        self.out.push_back(Event { seq, at, what });
    }

    fn emit(&mut self, seq: Option<u64>, at: Stamp, what: What) {
        self.begun = true;
        let seq = seq.unwrap_or(self.next_seq);
        self.next_seq = seq.wrapping_add(1);
        self.out.push_back(Event { seq, at, what });
    }

    /// Takes a frame that the recording wrote for itself.
    fn own(&mut self, packet: &Packet<'_>, body: Body) {
        match body {
            Body::Section(section) => {
                if section.format > FORMAT {
                    let what = format!(
                        "written by {} in format {}: what is new in it is skipped",
                        section.version, section.format
                    );
                    self.problems.add(packet.offset, what);
                }
                self.generation = section.generation;
                self.next_seq = section.seq;
                self.section = Some(section);
            }
            Body::Targets(_) if self.keyframe == Within::Skipped => self.stats.keyframe += 1,
            Body::Targets(Targets { session, entries }) => {
                for entry in entries {
                    if entry.id > MAX_ENTRIES && entry.id & KEYFRAME_BIT == 0 {
                        self.stats.unknown += 1;
                    } else if self.entries.len() < 2 * MAX_ENTRIES as usize {
                        self.entries.insert((session, entry.id), entry);
                    }
                }
            }
            Body::Next(seq) => self.next_seq = seq,
            Body::Mad(meta) => {
                // A keyframe's is skipped with it.
                let kept = self.known.is_some() || self.keyframe == Within::Applied;
                if !packet.keyframe || kept {
                    self.meta = Some(meta);
                }
            }
            Body::Known(meta) => {
                self.known = Some(HalfKnown {
                    meta: Some(meta),
                    request: None,
                });
            }
            Body::Part(part) => self.part(packet, &part),
            Body::Keyframe(keyframe) => {
                self.stats.keyframe += 1;
                self.known = None;
                self.keyframe = Within::Skipped;
                // A file that lost its beginning becomes whole here.
                if !self.begun || self.section.is_none() {
                    self.guesser = None;
                    self.keyframe = Within::Applied;
                    self.generation = keyframe.section.generation;
                    self.next_seq = keyframe.section.seq;
                    self.section = Some(keyframe.section);
                }
            }
            Body::KeyframeEnd { .. } => {
                self.begun |= self.keyframe == Within::Applied;
                self.keyframe = Within::Stream;
            }
            _ => self.stats.unknown += 1,
        }
    }

    fn part(&mut self, packet: &Packet<'_>, part: &Part) {
        if part.index == 0 {
            self.text.clear();
            self.parts = 0;
        }
        if part.index != self.parts || self.text.len() + part.text.len() > MAX_TEXT {
            let what = "a long event lacks some of its parts, or is too long".to_owned();
            self.problems.add(packet.offset, what);
            self.text.clear();
            self.parts = 0;
            return;
        }
        self.text.push_str(&part.text);
        self.parts += 1;
        if self.parts == part.of {
            self.parts = 0;
            let text = std::mem::take(&mut self.text);
            self.json(packet, text.as_bytes());
        }
    }

    /// Takes a MAD's packet: a whole MAD, or a segment of one.
    pub fn packet(&mut self, packet: &Packet<'_>, framed: &Framed<'_>) {
        let keyframe = packet.keyframe || packet.id.is_some_and(|id| id as u32 & KEYFRAME_BIT != 0);
        if !keyframe {
            self.keyframe = Within::Stream;
        } else if self.known.is_none() {
            if self.keyframe != Within::Applied {
                self.stats.keyframe += 1;
                return;
            }
            self.known = Some(HalfKnown {
                meta: None,
                request: None,
            });
        }
        let Ok(view) = MadView::new(framed.mad) else {
            return;
        };
        // Other programs may number packets as they like.
        let ours = self.section.is_some() || packet.source.is_some();
        let direction = packet.direction.unwrap_or_else(|| usual_direction(&view));
        let envelope = Envelope {
            offset: packet.offset,
            nanos: packet.nanos,
            direction,
            addr: framed.address(direction),
            id: packet.id.filter(|_| ours).unwrap_or(0),
        };
        let tid = view.tid_low();
        if let Some(message) = &mut self.message {
            if message.tid == tid && message.envelope.direction == direction {
                let head = data_offset(MgmtClass::SubnAdm);
                let room = message.len - message.bytes.len();
                let data = framed.mad.get(head..).unwrap_or_default();
                message.bytes.extend(data.iter().take(room));
                self.finish_message();
                return;
            }
            self.drop_message();
        }
        match self.meta.take() {
            Some(meta) if meta.tid == tid => self.with_meta(envelope, framed.mad, meta),
            meta => {
                if meta.is_some() {
                    let what = "the MAD that a length was given for is missing";
                    self.problems.add(packet.offset, what.into());
                }
                self.plain(packet, envelope, framed);
            }
        }
    }

    /// A MAD of which the recording said nothing beside its frame.
    fn plain(&mut self, packet: &Packet<'_>, envelope: Envelope, framed: &Framed<'_>) {
        let Ok(mad) = Mad::from_bytes(framed.mad) else {
            return;
        };
        if self.section.is_some() {
            self.mad(envelope, mad);
            return;
        }
        if !framed.is_plausible() {
            self.stats.other += 1;
            return;
        }
        let guesser = Self::guesser(&mut self.guesser, packet.source);
        match guesser.reassemble(envelope.addr.lid, &mad) {
            Ok(Some(mad)) => self.mad(envelope, mad),
            Ok(None) => {}
            Err(why) => self.problems.add(packet.offset, why),
        }
    }

    fn with_meta(&mut self, envelope: Envelope, bytes: &[u8; MAD_LEN], meta: MadMeta) {
        let mut bytes = bytes.to_vec();
        if let Some(header) = meta.rmpp {
            let (Some(header), MAD_LEN..=MAX_MAD) = (from_hex(&header), meta.len) else {
                let what = format!("a MAD of {} bytes is skipped", meta.len);
                self.problems.add(envelope.offset, what);
                return;
            };
            self.message = Some(Box::new(Message {
                envelope,
                tid: meta.tid,
                len: meta.len,
                header,
                bytes,
            }));
            self.finish_message();
            return;
        }
        if let Some(rest) = meta.rest.as_deref().and_then(from_hex) {
            bytes.extend_from_slice(&rest);
        }
        bytes.truncate(meta.len);
        match Mad::from_bytes(&bytes) {
            Ok(mad) => self.mad(envelope, mad),
            Err(e) => self.problems.add(envelope.offset, e.to_string()),
        }
    }

    /// Yields the message once all of it is there.
    fn finish_message(&mut self) {
        let Some(message) = self.message.take_if(|m| m.bytes.len() >= m.len) else {
            return;
        };
        let Message {
            envelope,
            header,
            mut bytes,
            ..
        } = *message;
        for (to, from) in bytes.iter_mut().skip(24).zip(header.iter().take(12)) {
            *to = *from;
        }
        if let Ok(mad) = Mad::from_bytes(&bytes) {
            self.mad(envelope, mad);
        }
    }

    /// A whole MAD.
    fn mad(&mut self, envelope: Envelope, mad: Mad) {
        let id = envelope.id;
        let session = (id >> 32) as u32;
        let entry = self.entries.get(&(session, id as u32 & 0xFF_FFFF));
        let addr = entry.map_or(envelope.addr, |e| e.apply(envelope.addr));
        let told = entry.map(|e| {
            let target = Target {
                node: e.node,
                port: e.port,
                via: e.via,
                generation: e.generation.unwrap_or(self.generation),
            };
            (target, e.timeout)
        });
        if let Some(known) = self.known.take() {
            self.known_half(known, &envelope, addr, told.map(|t| t.0), mad);
            return;
        }
        let at = match &self.section {
            Some(section) => Stamp(envelope.nanos.wrapping_sub(section.anchor as u64)),
            None => {
                let guesser = Self::guesser(&mut self.guesser, None);
                let at = guesser.time(envelope.nanos);
                guesser.advance(at, true, &mut self.next_seq, &mut self.out);
                at
            }
        };
        self.stats.mads += 1;
        if told.is_none() && self.guesser.is_none() && envelope.direction == Direction::Outbound {
            // From here on; what was answered before is not known to it.
            Self::guesser(&mut self.guesser, None);
        }
        let what = match envelope.direction {
            Direction::Inbound => {
                if let Some(guesser) = &mut self.guesser {
                    guesser.received(at, &mad);
                }
                What::Received(Received { addr, mad })
            }
            Direction::Outbound => {
                let (target, timeout_ms, attempt) = match (told, &mut self.guesser) {
                    (Some((target, timeout)), _) => (target, timeout, (id >> 24) as u8),
                    (None, Some(guesser)) => {
                        self.stats.guessed += 1;
                        let asks = !mad.is_response() && mad.method() != Method::TrapRepress;
                        let attempt = if id != 0 {
                            (id >> 24) as u8
                        } else {
                            u8::from(asks)
                        };
                        let timeout = if asks { guesser.timeout_ms() } else { 0 };
                        (guesser.target(&mad, addr.lid), timeout, attempt)
                    }
                    (None, None) => (Target::default(), 0, 0),
                };
                if let Some(guesser) = &mut self.guesser {
                    guesser.sent(at, &mad, addr.lid, target);
                }
                What::Sent(Sent {
                    addr,
                    target,
                    attempt,
                    timeout_ms,
                    mad,
                })
            }
        };
        self.emit(None, at, what);
    }

    fn known_half(
        &mut self,
        mut known: HalfKnown,
        envelope: &Envelope,
        addr: Address,
        target: Option<Target>,
        mad: Mad,
    ) {
        let Some((request, addr, target)) = known.request.take() else {
            known.request = Some((mad, addr, target.unwrap_or_default()));
            self.known = Some(known);
            return;
        };
        let at = Stamp(envelope.nanos.wrapping_sub(self.anchor()));
        let what = What::Known(Box::new(Known {
            at,
            target,
            request,
            addr,
            reply: mad,
        }));
        match known.meta {
            Some(meta) => self.emit(Some(meta.seq), Stamp(meta.at), what),
            None => self.repeat(at, what),
        }
    }

    fn guesser<'a>(
        slot: &'a mut Option<Box<Guesser>>,
        source: Option<&crate::port::Source>,
    ) -> &'a mut Guesser {
        slot.get_or_insert_with(|| Box::new(Guesser::new(source.cloned())))
    }
}

/// Which way a MAD goes for the one who captured it, if nobody said: a monitor asks.
fn usual_direction(mad: &MadView<'_>) -> Direction {
    let answers_report = matches!(mad.method(), Method::ReportResp | Method::TrapRepress);
    let told = matches!(mad.method(), Method::Trap | Method::Report);
    if answers_report || !mad.is_response() && !told {
        Direction::Outbound
    } else {
        Direction::Inbound
    }
}
