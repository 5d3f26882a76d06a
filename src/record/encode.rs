//! Events to bytes: a pcapng stream that Wireshark opens and [`super::Reader`] reads back whole.

use std::collections::HashMap;

use super::block::{self, PacketOptions};
use super::frame::{self, Direction, LINK_UPPER_PDU, Own};
use super::ledger::Ledger;
use super::wire::{
    Body, Entry, FORMAT, Frame, Keyframe, KnownMeta, MadMeta, Part, Section, Targets, to_hex,
};
use crate::event::{Event, Known, What};
use crate::fabric::Target;
use crate::mad::{MAD_LEN, Mad, MgmtClass, rmpp, secrets};
use crate::port::{Address, Source, Stamp};

/// Interfaces of a recording, in this order.
pub(super) const MADS: u32 = 0;
pub(super) const EVENTS: u32 = 1;
pub(super) const KEYFRAMES: u32 = 2;
/// Name of the interface whose MADs are no part of the stream.
pub(super) const KEYFRAME_NAME: &str = "keyframe";

/// Packet ids name table entries by their low 24 bits; this one marks what a keyframe repeats.
pub(super) const KEYFRAME_BIT: u32 = 1 << 23;
/// A table that grew to this many entries is begun anew, so that memory has a bound.
pub(super) const MAX_ENTRIES: u32 = 1 << 20;

/// tshark gives up on a file with a packet above 262,144 bytes. A text is cut well below,
/// since quoting it inside another JSON text can double it.
const MAX_TEXT: usize = 100_000;
/// Events whose table entries share a frame.
const CHUNK: usize = 256;

/// Who writes.
const APPLICATION: &str = concat!("fabtop ", env!("CARGO_PKG_VERSION"));

/// How to record.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keep M_Keys, SM_Keys and their like instead of blanking them.
    pub keep_keys: bool,
}

/// The encoder: a state machine without I/O.
///
/// What it is given comes back from the reader as it was, `seq`, time and all, but for keys.
#[derive(Debug)]
pub struct Encoder {
    options: Options,
    own: Own,
    session: Option<u32>,
    anchor: i64,
    /// Description of the MAD interface: what stands behind the port.
    mads_of: String,
    open: bool,
    next_seq: u64,
    generation: u32,
    table: Table,
    mads: u64,
    events: u64,
}

/// Entries that packet ids refer to.
#[derive(Debug, Default)]
struct Table {
    /// Marks ids of this table.
    bit: u32,
    ids: HashMap<Entry, u32>,
    /// Entries that no frame has told yet.
    fresh: Vec<Entry>,
}

impl Table {
    fn id(&mut self, entry: Entry) -> u32 {
        if let Some(id) = self.ids.get(&entry) {
            return *id;
        }
        if self.ids.len() as u32 >= MAX_ENTRIES {
            self.ids.clear();
        }
        // Entry 0 is never used: id 0 of a foreign file means nothing.
        let id = (self.ids.len() as u32 + 1) | self.bit;
        self.ids.insert(entry.clone(), id);
        self.fresh.push(Entry { id, ..entry });
        id
    }

    /// All entries, by id.
    fn all(&self) -> Vec<Entry> {
        let entry = |(entry, id): (&Entry, &u32)| Entry {
            id: *id,
            ..entry.clone()
        };
        let mut all: Vec<Entry> = self.ids.iter().map(entry).collect();
        all.sort_by_key(|e| e.id);
        all
    }
}

impl Encoder {
    /// An encoder at the beginning of a file.
    pub fn new(options: Options) -> Encoder {
        Encoder {
            options,
            own: Own::default(),
            session: None,
            anchor: 0,
            mads_of: "MADs".to_owned(),
            open: false,
            next_seq: 0,
            generation: 0,
            table: Table::default(),
            mads: 0,
            events: 0,
        }
    }

    /// MADs encoded so far.
    pub fn mads(&self) -> u64 {
        self.mads
    }

    /// Events encoded so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What comes next begins another file, or follows something else: it starts with a section
    /// header, and nothing in it refers to what was written before.
    pub fn begin_section(&mut self) {
        self.open = false;
        self.table = Table::default();
    }

    /// Appends the events' bytes to `out`: whole blocks only.
    pub fn encode(&mut self, events: &[Event], out: &mut Vec<u8>) {
        let mut body = Vec::new();
        for chunk in events.chunks(CHUNK) {
            let Some(first) = chunk.first() else {
                continue;
            };
            if !self.open {
                self.opened(first);
                self.section(first.seq, first.at, out);
            }
            for event in chunk {
                self.event(event, &mut body);
            }
            // Told before they are used, and with the first user's time, so that tools which
            // sort by time keep that order.
            self.tell_targets(out, EVENTS, first.at);
            out.append(&mut body);
        }
    }

    /// Takes events that nobody is to get. What comes next begins with a section.
    pub fn skip(&mut self, events: &[Event]) {
        self.begin_section();
        for event in events {
            self.opened(event);
            self.learn(&event.what);
        }
    }

    /// What the session's opening says of everything after it.
    fn opened(&mut self, event: &Event) {
        if let What::Opened(opened) = &event.what {
            self.anchor = opened.wall;
            let host = opened.host.bytes().map(u64::from);
            let words = [opened.wall as u64, event.seq].into_iter().chain(host);
            self.session = Some(fnv(words));
            self.mads_of = describe(&opened.source);
        }
    }

    fn learn(&mut self, what: &What) {
        match what {
            What::LocalPort(port) => self.own = Own::of(port),
            What::SweepBegan(sweep) => self.generation = sweep.generation,
            _ => {}
        }
    }

    /// Tells the table's new entries.
    fn tell_targets(&mut self, out: &mut Vec<u8>, interface: u32, at: Stamp) {
        if !self.table.fresh.is_empty() {
            let fresh = Body::Targets(Targets {
                session: self.session.unwrap_or(0),
                entries: std::mem::take(&mut self.table.fresh),
            });
            self.json(out, interface, at, None, fresh, PacketOptions::default());
        }
    }

    /// Appends a keyframe: `events` bring a new model to the present, which is `at`; the stream
    /// goes on with number `next`. Nothing that follows refers to what was written before.
    ///
    /// Behind [`Encoder::begin_section`] it makes the new file replay alone.
    pub fn keyframe(&mut self, next: u64, at: Stamp, ledger: &Ledger, out: &mut Vec<u8>) {
        if !self.open {
            self.section(next, at, out);
        }
        let begin = Body::Keyframe(Box::new(Keyframe {
            section: self.section_frame(next),
            at: at.0,
        }));
        self.json(out, KEYFRAMES, at, None, begin, PacketOptions::default());
        self.table = Table {
            bit: KEYFRAME_BIT,
            ..Table::default()
        };
        // The sweeps that it repeats do not change what later targets mean.
        let (generation, own) = (self.generation, self.own);
        let mut count = 0;
        let mut body = Vec::new();
        ledger.keyframe(next, &mut |events| {
            count += events.len() as u64;
            for event in events {
                match &event.what {
                    What::Known(known) => self.known(&mut body, known),
                    what => {
                        if let Some(frame) = Body::of(what) {
                            let options = PacketOptions::default();
                            self.json(&mut body, KEYFRAMES, event.at, Some(next), frame, options);
                        }
                    }
                }
            }
            self.tell_targets(out, KEYFRAMES, at);
            out.append(&mut body);
        });
        (self.generation, self.own) = (generation, own);
        let end = Body::KeyframeEnd { events: count };
        self.json(out, KEYFRAMES, at, None, end, PacketOptions::default());
        self.table = Table::default();
    }

    /// Begins another file before event `next`: a section and a keyframe, so that it replays
    /// alone. For others who get the bytes nothing but what refers to the table begins anew.
    pub fn next_file(&mut self, next: u64, at: Stamp, ledger: &Ledger, out: &mut Vec<u8>) {
        let goes_on = self.next_seq;
        self.section(next, at, out);
        self.keyframe(next, at, ledger, out);
        // Who reads on must find the numbers as they were.
        self.next_seq = goes_on;
    }

    /// What somebody who comes late must be told before the bytes that follow: a section that
    /// brings a new model to the present, which is `at`, and what those bytes refer to. They
    /// themselves stay as they are, for all others. In pieces of whole blocks.
    pub fn beginning(&self, next: u64, at: Stamp, ledger: &Ledger, emit: &mut dyn FnMut(Vec<u8>)) {
        let mut aside = Encoder {
            mads_of: self.mads_of.clone(),
            options: self.options.clone(),
            table: Table::default(),
            open: false,
            ..*self
        };
        ledger.keyframe(next, &mut |events| {
            let mut bytes = Vec::new();
            aside.encode(events, &mut bytes);
            emit(bytes);
        });
        if !self.open {
            // A section follows anyway.
            return;
        }
        let mut bytes = Vec::new();
        if !aside.open {
            aside.section(next, at, &mut bytes);
        }
        // From here on numbers, generation and table are those of the bytes that follow.
        let section = Body::Section(self.section_frame(self.next_seq));
        self.json(
            &mut bytes,
            EVENTS,
            at,
            None,
            section,
            PacketOptions::default(),
        );
        for entries in self.table.all().chunks(CHUNK) {
            let told = Body::Targets(Targets {
                session: self.session.unwrap_or(0),
                entries: entries.to_vec(),
            });
            self.json(&mut bytes, EVENTS, at, None, told, PacketOptions::default());
        }
        emit(bytes);
    }

    /// Wall time of a moment, as packets have it.
    pub fn wall(&self, at: Stamp) -> u64 {
        self.time(at)
    }

    fn section_frame(&self, seq: u64) -> Section {
        Section {
            format: FORMAT,
            version: APPLICATION.to_owned(),
            session: self.session.unwrap_or(0),
            anchor: self.anchor,
            seq,
            generation: self.generation,
            keys: self.options.keep_keys,
        }
    }

    fn section(&mut self, seq: u64, at: Stamp, out: &mut Vec<u8>) {
        self.session.get_or_insert_with(|| fnv([seq, at.0]));
        self.open = true;
        self.next_seq = seq;
        block::put_section(
            out,
            &format!("fabtop recording, format {FORMAT}"),
            APPLICATION,
        );
        for (name, description) in [
            ("mad", self.mads_of.as_str()),
            ("events", "What is no MAD, as JSON"),
            (
                KEYFRAME_NAME,
                "MADs from before, for seeking; no part of the stream",
            ),
        ] {
            block::put_interface(out, LINK_UPPER_PDU, name, description);
        }
        let section = Body::Section(self.section_frame(seq));
        self.json(out, EVENTS, at, None, section, PacketOptions::default());
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        self.events += 1;
        let at = event.at;
        match &event.what {
            What::Sent(sent) => {
                self.follow(event, out);
                let entry = self.sent_entry(&sent.target, sent.timeout_ms, &sent.addr);
                let id = self.table.id(entry) | u32::from(sent.attempt) << 24;
                self.mads += 1;
                let to = Packet {
                    interface: MADS,
                    at,
                    direction: Direction::Outbound,
                    id,
                    addr: &sent.addr,
                };
                self.mad(out, to, &sent.mad);
            }
            What::Received(received) => {
                self.follow(event, out);
                let id = self.table.id(address_entry(&received.addr));
                self.mads += 1;
                let to = Packet {
                    interface: MADS,
                    at,
                    direction: Direction::Inbound,
                    id,
                    addr: &received.addr,
                };
                self.mad(out, to, &received.mad);
            }
            What::Known(known) => {
                let meta = Body::Known(KnownMeta {
                    seq: event.seq,
                    at: at.0,
                });
                self.next_seq = event.seq.wrapping_add(1);
                self.json(out, KEYFRAMES, at, None, meta, PacketOptions::default());
                self.known(out, known);
            }
            what => {
                let mut options = PacketOptions::default();
                self.learn(what);
                if let What::Dropped { count } = what {
                    options.dropped = Some(*count);
                }
                let Some(mut body) = Body::of(what) else {
                    return;
                };
                if let Body::Malformed(malformed) = &mut body
                    && !self.options.keep_keys
                {
                    // Where keys would be if it were a MAD: M_Key, SM_Key.
                    for range in [24..32, 36..44] {
                        let end = malformed.head.len();
                        malformed.head[range.start.min(end)..range.end.min(end)].fill(0);
                    }
                }
                self.next_seq = event.seq.wrapping_add(1);
                self.json(out, EVENTS, at, Some(event.seq), body, options);
            }
        }
    }

    /// MADs take the number after the one before: says so if that is not so.
    fn follow(&mut self, event: &Event, out: &mut Vec<u8>) {
        if event.seq != self.next_seq {
            let next = Body::Next(event.seq);
            self.json(out, EVENTS, event.at, None, next, PacketOptions::default());
        }
        self.next_seq = event.seq.wrapping_add(1);
    }

    fn known(&mut self, out: &mut Vec<u8>, known: &Known) {
        let request = self.sent_entry(&known.target, 0, &known.addr);
        let id = self.table.id(request);
        let mut to = Packet {
            interface: KEYFRAMES,
            at: known.at,
            direction: Direction::Outbound,
            id,
            addr: &known.addr,
        };
        self.mad(out, to, &known.request);
        to.direction = Direction::Inbound;
        self.mad(out, to, &known.reply);
    }

    fn sent_entry(&self, target: &Target, timeout: u32, addr: &Address) -> Entry {
        Entry {
            node: target.node,
            port: target.port,
            via: target.via,
            generation: (target.generation != self.generation).then_some(target.generation),
            timeout,
            ..address_entry(addr)
        }
    }

    /// One MAD, blanked, as its frame or its segments' frames.
    fn mad(&mut self, out: &mut Vec<u8>, to: Packet<'_>, mad: &Mad) {
        let blanked = (!self.options.keep_keys).then(|| {
            let mut mad = mad.clone();
            secrets::blank(&mut mad);
            mad
        });
        let mad = blanked.as_ref().unwrap_or(mad);
        let bytes = mad.bytes();
        if bytes.len() == MAD_LEN {
            self.packet(out, to, bytes);
            return;
        }
        let segments = bytes.len() > MAD_LEN && mad.class() == MgmtClass::SubnAdm;
        let meta = Body::Mad(MadMeta {
            tid: mad.tid_low(),
            len: bytes.len(),
            rmpp: segments.then(|| to_hex(bytes.get(24..36).unwrap_or_default())),
            rest: bytes
                .get(MAD_LEN..)
                .filter(|rest| !segments && !rest.is_empty())
                .map(to_hex),
        });
        let events = if to.interface == MADS {
            EVENTS
        } else {
            to.interface
        };
        self.json(out, events, to.at, None, meta, PacketOptions::default());
        if segments {
            for segment in rmpp::split(&mad.view()) {
                self.packet(out, to, segment.bytes());
            }
        } else {
            self.packet(out, to, bytes);
        }
    }

    fn packet(&self, out: &mut Vec<u8>, to: Packet<'_>, bytes: &[u8]) {
        let options = PacketOptions {
            flags: Some(match to.direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            }),
            id: Some(u64::from(self.session.unwrap_or(0)) << 32 | u64::from(to.id)),
            dropped: None,
        };
        let len = frame::mad_frame_len(to.addr);
        block::put_packet(out, to.interface, self.time(to.at), len, options, |out| {
            frame::put_mad(out, &self.own, to.direction, to.addr, bytes);
        });
    }

    /// Packets carry wall time as it was at the opening, run on monotonically: a clock step is
    /// an event of its own and turns no packet's time back.
    fn time(&self, at: Stamp) -> u64 {
        (self.anchor as u64).wrapping_add(at.0)
    }

    fn json(
        &self,
        out: &mut Vec<u8>,
        interface: u32,
        at: Stamp,
        seq: Option<u64>,
        body: Body,
        options: PacketOptions,
    ) {
        // Strings, numbers and maps with text keys: nothing here can fail to serialize.
        let text = serde_json::to_string(&Frame { seq, body }).unwrap_or_default();
        if text.len() <= MAX_TEXT {
            self.text(out, interface, at, &text, options);
            return;
        }
        let parts = pieces(&text, MAX_TEXT);
        let of = parts.len() as u32;
        for (index, part) in (0u32..).zip(parts) {
            let body = Body::Part(Part {
                index,
                of,
                text: part.to_owned(),
            });
            let text = serde_json::to_string(&Frame { seq: None, body }).unwrap_or_default();
            self.text(out, interface, at, &text, options);
        }
    }

    fn text(
        &self,
        out: &mut Vec<u8>,
        interface: u32,
        at: Stamp,
        text: &str,
        options: PacketOptions,
    ) {
        let len = frame::JSON.len() + text.len();
        block::put_packet(out, interface, self.time(at), len, options, |out| {
            out.extend_from_slice(frame::JSON);
            out.extend_from_slice(text.as_bytes());
        });
    }
}

/// Where a MAD's packets go.
#[derive(Clone, Copy)]
struct Packet<'a> {
    interface: u32,
    at: Stamp,
    direction: Direction,
    id: u32,
    addr: &'a Address,
}

/// What of an address its frame does not say.
fn address_entry(addr: &Address) -> Entry {
    let framed = frame::address_in_frame(addr);
    let mut entry = Entry {
        qkey: (addr.qkey != framed.qkey).then_some(addr.qkey),
        path_bits: addr.path_bits,
        pkey_index: addr.pkey_index,
        gid_index: addr.grh.map_or(0, |g| g.gid_index),
        ..Entry::default()
    };
    if entry.apply(framed) != *addr {
        entry = Entry {
            address: Some(Box::new(*addr)),
            ..Entry::default()
        };
    }
    entry
}

impl Entry {
    /// The address that the frame and this entry together mean.
    pub fn apply(&self, framed: Address) -> Address {
        if let Some(address) = &self.address {
            return **address;
        }
        Address {
            qkey: self.qkey.unwrap_or(framed.qkey),
            path_bits: self.path_bits,
            pkey_index: self.pkey_index,
            grh: framed.grh.map(|g| crate::port::Grh {
                gid_index: self.gid_index,
                ..g
            }),
            ..framed
        }
    }
}

/// How an interface's description names a source. It survives filters that take all events, and
/// a simulated fabric must never pass for a real one.
fn describe(source: &Source) -> String {
    match source {
        Source::Umad { device, .. } => format!("{UMAD}{device}"),
        Source::Ibsim { server } => format!("{IBSIM}{server}"),
        Source::Simulated { fabric } => format!("{SIMULATED}{fabric}"),
    }
}

/// The source that a description names.
pub(super) fn described(text: &str) -> Option<Source> {
    // The more special one first.
    if let Some(server) = text.strip_prefix(IBSIM) {
        return Some(Source::Ibsim {
            server: server.to_owned(),
        });
    }
    if let Some(device) = text.strip_prefix(UMAD) {
        return Some(Source::Umad {
            device: device.to_owned(),
            shim: false,
        });
    }
    text.strip_prefix(SIMULATED)
        .map(|fabric| Source::Simulated {
            fabric: fabric.to_owned(),
        })
}

const UMAD: &str = "MADs of ";
const IBSIM: &str = "MADs of ibsim server ";
const SIMULATED: &str = "SIMULATED MADs of ";

/// Cuts a text into pieces of at most `max` bytes, between characters.
fn pieces(mut text: &str, max: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    while text.len() > max {
        let end = (0..=max).rev().find(|at| text.is_char_boundary(*at));
        let (part, rest) = text.split_at(end.unwrap_or(max));
        parts.push(part);
        text = rest;
    }
    parts.push(text);
    parts
}

/// FNV-1a, folded to 32 bits: tells sessions in a merged file apart.
fn fnv(words: impl IntoIterator<Item = u64>) -> u32 {
    let hash = words
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
    (hash ^ hash >> 32) as u32
}
