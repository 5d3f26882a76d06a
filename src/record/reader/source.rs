//! Bytes to packets: pcapng and pcap, however damaged.
//!
//! Memory is bounded by [`MAX_BLOCK`]; what cannot be read is named with its offset, and reading
//! goes on at the next block that makes sense.

use std::io::Read;

use super::super::block::{EPB, IDB, SHB, SPB, option};
use super::super::encode::KEYFRAMES;
use super::super::frame::{Direction, LINK_UPPER_PDU};
use super::super::zst::Inflate;
use super::Problems;

/// Longest block that is taken for one.
pub const MAX_BLOCK: usize = 16 << 20;
/// How much is read at a time.
const READ: usize = 256 << 10;
/// Most interfaces of a section that are remembered.
const MAX_INTERFACES: usize = 4096;

/// One captured packet.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Where its block begins.
    pub offset: u64,
    /// Link type.
    pub link: u16,
    /// It lies on the interface of keyframes.
    pub keyframe: bool,
    /// Nanoseconds since the Unix epoch.
    pub nanos: u64,
    /// Which way it went, if said.
    pub direction: Option<Direction>,
    /// epb_packetid.
    pub id: Option<u64>,
    /// What stands behind the port, if the interface says so.
    pub source: Option<&'a crate::port::Source>,
    /// Its bytes.
    pub data: &'a [u8],
}

/// What a file holds, in order.
#[derive(Debug)]
pub enum Item<'a> {
    /// A section begins: nothing said before holds any more.
    Section {
        /// Where its header lies.
        offset: u64,
    },
    /// A packet.
    Packet(Packet<'a>),
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u16,
    keyframe: bool,
    resolution: Resolution,
    /// if_tsoffset, seconds.
    offset: i64,
}

/// How long a unit of a time stamp is.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    /// 10^-n seconds.
    Decimal(u32),
    /// 2^-n seconds.
    Binary(u32),
}

impl Interface {
    /// As a recording's own interfaces are.
    const RECORDING: Interface = Interface {
        link: LINK_UPPER_PDU,
        keyframe: false,
        resolution: Resolution::Decimal(9),
        offset: 0,
    };

    fn nanos(&self, raw: u64) -> u64 {
        let raw = u128::from(raw);
        let nanos = match self.resolution {
            Resolution::Decimal(9) if self.offset == 0 => return raw as u64,
            Resolution::Decimal(n) if n <= 9 => raw * 10u128.pow(9 - n),
            Resolution::Decimal(n) => raw / 10u128.checked_pow(n - 9).unwrap_or(u128::MAX),
            Resolution::Binary(n) => (raw * 1_000_000_000).checked_shr(n).unwrap_or(0),
        };
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let nanos = nanos.saturating_add(i128::from(self.offset) * 1_000_000_000);
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Nothing read yet.
    Unknown,
    Pcapng,
    Pcap {
        nanos: bool,
        link: u16,
    },
}

/// The packets of a byte stream.
#[derive(Debug)]
pub struct Source<R> {
    input: Inflate<R>,
    buf: Vec<u8>,
    start: usize,
    /// Offset of `buf[0]` in the input.
    base: u64,
    eof: bool,
    big_endian: bool,
    format: Format,
    interfaces: Vec<Interface>,
    /// What the MAD interface's description says of the port.
    described: Option<crate::port::Source>,
    /// Where the last whole block ended.
    whole: u64,
    /// What ended the reading early.
    failed: Option<std::io::Error>,
}

impl<R: Read> Source<R> {
    pub fn new(input: R) -> Source<R> {
        Source {
            input: Inflate::new(input),
            buf: Vec::new(),
            start: 0,
            base: 0,
            eof: false,
            big_endian: false,
            format: Format::Unknown,
            interfaces: Vec::new(),
            described: None,
            whole: 0,
            failed: None,
        }
    }

    /// Reads from the midst of a recording, at the beginning of a block.
    pub fn resume(input: R, offset: u64) -> Source<R> {
        let mut source = Source::new(input);
        source.base = offset;
        source.format = Format::Pcapng;
        // What the blocks of its interfaces would have said.
        source.interfaces = (0..3)
            .map(|number| Interface {
                keyframe: number == KEYFRAMES,
                ..Interface::RECORDING
            })
            .collect();
        source
    }

    /// What ended the reading early, if it was no end of the input.
    pub fn take_error(&mut self) -> Option<std::io::Error> {
        self.failed.take()
    }

    /// Where the last whole block ended.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    fn rest(&self) -> &[u8] {
        self.buf.get(self.start..).unwrap_or_default()
    }

    /// Reads until `len` bytes are there or the input ends; says whether they are.
    fn fill(&mut self, len: usize, problems: &mut Problems) -> bool {
        while self.buf.len() - self.start < len && !self.eof {
            if self.start > READ {
                self.buf.drain(..self.start);
                self.base += self.start as u64;
                self.start = 0;
            }
            let old = self.buf.len();
            self.buf.resize(old + READ, 0);
            let got = self.input.read(self.buf.get_mut(old..).unwrap_or_default());
            let n = match got {
                Ok(n) => n.min(READ),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {
                    self.buf.truncate(old);
                    continue;
                }
                // Damage to a compressed file; the rest of it follows.
                Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                    problems.add(self.base + old as u64, e.to_string());
                    self.buf.truncate(old);
                    continue;
                }
                Err(e) => {
                    problems.add(self.base + old as u64, format!("reading failed: {e}"));
                    self.failed = Some(e);
                    0
                }
            };
            self.buf.truncate(old + n);
            self.eof = n == 0;
        }
        self.buf.len() - self.start >= len
    }

    fn skip(&mut self, len: usize) {
        self.start = self.start.saturating_add(len).min(self.buf.len());
    }

    fn u32_at(&self, at: usize) -> u32 {
        let bytes = self.rest().get(at..).and_then(|b| b.first_chunk::<4>());
        let bytes = bytes.copied().unwrap_or_default();
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    /// The next packet or section; `None` at the end of what can be read.
    pub fn next(&mut self, problems: &mut Problems) -> Option<Item<'_>> {
        if self.format == Format::Unknown {
            self.recognise(problems);
        }
        let found = match self.format {
            Format::Pcap { nanos, link } => self.next_record(nanos, link, problems),
            _ => self.next_block(problems),
        }?;
        match found {
            Found::Section { offset } => Some(Item::Section { offset }),
            Found::Packet { head, at, len } => {
                let data = self.buf.get(at..at + len).unwrap_or_default();
                Some(Item::Packet(Packet {
                    offset: head.offset,
                    link: head.link,
                    keyframe: head.keyframe,
                    nanos: head.nanos,
                    direction: head.direction,
                    id: head.id,
                    source: self.described.as_ref(),
                    data,
                }))
            }
        }
    }

    /// Looks for the magic number of pcap; everything else is pcapng.
    fn recognise(&mut self, problems: &mut Problems) {
        self.format = Format::Pcapng;
        if !self.fill(24, problems) {
            return;
        }
        for big_endian in [false, true] {
            self.big_endian = big_endian;
            let nanos = match self.u32_at(0) {
                0xA1B2_C3D4 => false,
                0xA1B2_3C4D => true,
                _ => continue,
            };
            // The upper half may tell the length of a frame check sequence.
            let link = self.u32_at(20) as u16;
            self.format = Format::Pcap { nanos, link };
            self.skip(24);
            return;
        }
        self.big_endian = false;
    }

    fn next_record(&mut self, nanos: bool, link: u16, problems: &mut Problems) -> Option<Found> {
        if !self.fill(16, problems) {
            if !self.rest().is_empty() {
                problems.add(
                    self.offset(),
                    "the file ends within a packet's header".into(),
                );
                self.skip(usize::MAX);
            }
            return None;
        }
        let offset = self.offset();
        let (secs, frac, len) = (self.u32_at(0), self.u32_at(4), self.u32_at(8) as usize);
        if len > MAX_BLOCK {
            // Nothing in this format tells where the next packet begins.
            problems.add(
                offset,
                format!("a packet of {len} bytes: the rest is skipped"),
            );
            self.skip(usize::MAX);
            self.eof = true;
            return None;
        }
        if !self.fill(16 + len, problems) {
            problems.add(offset, "the file ends within a packet".into());
            self.skip(usize::MAX);
            return None;
        }
        let at = self.start + 16;
        self.skip(16 + len);
        let frac = u64::from(frac) * if nanos { 1 } else { 1000 };
        Some(Found::Packet {
            head: Head {
                offset,
                link,
                keyframe: false,
                nanos: u64::from(secs) * 1_000_000_000 + frac,
                direction: None,
                id: None,
            },
            at,
            len,
        })
    }

    fn next_block(&mut self, problems: &mut Problems) -> Option<Found> {
        loop {
            let offset = self.offset();
            let Some((kind, len)) = self.block(problems) else {
                if self.rest().is_empty() {
                    return None;
                }
                if !self.resync(offset, problems) {
                    return None;
                }
                continue;
            };
            let at = self.start;
            let found = match kind {
                SHB => {
                    self.interfaces.clear();
                    self.described = None;
                    Some(Found::Section { offset })
                }
                IDB => {
                    self.interface(len, offset, problems);
                    None
                }
                EPB => self.packet(len, offset, problems),
                SPB => {
                    problems.add(offset, "a packet without a time is skipped".into());
                    None
                }
                // Name resolution, statistics, custom and future blocks.
                _ => None,
            };
            self.start = at;
            self.skip(len);
            self.whole = self.offset();
            if found.is_some() {
                return found;
            }
        }
    }

    /// Type and length of the block at hand, if it is whole and makes sense.
    fn block(&mut self, problems: &mut Problems) -> Option<(u32, usize)> {
        if !self.fill(12, problems) {
            return None;
        }
        if self.u32_at(0) == SHB {
            // It alone tells the byte order of what follows.
            self.big_endian = match self.rest().get(8..12)? {
                [0x1A, 0x2B, 0x3C, 0x4D] => true,
                [0x4D, 0x3C, 0x2B, 0x1A] => false,
                _ => return None,
            };
        }
        let (kind, len) = (self.u32_at(0), self.u32_at(4) as usize);
        let least = match kind {
            SHB => 28,
            IDB => 20,
            EPB => 32,
            _ => 12,
        };
        if len < least || len % 4 != 0 || len > MAX_BLOCK || !self.fill(len, problems) {
            return None;
        }
        (self.u32_at(len - 4) as usize == len).then_some((kind, len))
    }

    /// Skips to the next block that makes sense; says whether there is one.
    fn resync(&mut self, from: u64, problems: &mut Problems) -> bool {
        let order = self.big_endian;
        loop {
            self.skip(1);
            if !self.fill(12, problems) {
                let left = self.offset() - from + self.rest().len() as u64;
                problems.add(from, format!("the last {left} bytes are no whole block"));
                self.skip(usize::MAX);
                return false;
            }
            // Only kinds that a stray zero or small number is not taken for.
            if !matches!(self.u32_at(0), SHB | IDB | EPB) {
                continue;
            }
            if self.block(problems).is_some() {
                let skipped = self.offset() - from;
                problems.add(from, format!("{skipped} bytes are no block"));
                return true;
            }
            self.big_endian = order;
        }
    }

    fn interface(&mut self, len: usize, offset: u64, problems: &mut Problems) {
        if self.interfaces.len() >= MAX_INTERFACES {
            problems.add(offset, "too many interfaces".into());
            return;
        }
        let link = self.u16_at(8);
        let mut interface = Interface {
            link,
            keyframe: false,
            resolution: Resolution::Decimal(6),
            offset: 0,
        };
        let mut source = self.described.take();
        self.options(16, len - 4, |this, code, value| match code {
            option::IF_NAME => {
                interface.keyframe = value == super::super::encode::KEYFRAME_NAME.as_bytes();
            }
            option::IF_DESCRIPTION => {
                let text = String::from_utf8_lossy(value);
                source = source.take().or(super::super::encode::described(&text));
            }
            option::IF_TSRESOL => {
                if let Some(r) = value.first() {
                    let exponent = u32::from(r & 0x7F);
                    interface.resolution = if r & 0x80 == 0 {
                        Resolution::Decimal(exponent)
                    } else {
                        Resolution::Binary(exponent)
                    };
                }
            }
            option::IF_TSOFFSET => {
                if let Some(bytes) = value.first_chunk::<8>() {
                    interface.offset = if this.big_endian {
                        i64::from_be_bytes(*bytes)
                    } else {
                        i64::from_le_bytes(*bytes)
                    };
                }
            }
            _ => {}
        });
        self.interfaces.push(interface);
        self.described = source;
    }

    fn u16_at(&self, at: usize) -> u16 {
        let bytes = self.rest().get(at..).and_then(|b| b.first_chunk::<2>());
        let bytes = bytes.copied().unwrap_or_default();
        if self.big_endian {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        }
    }

    /// Calls `each` with the options that lie between `at` and `end` of the block at hand.
    fn options(&self, mut at: usize, end: usize, mut each: impl FnMut(&Self, u16, &[u8])) {
        while at + 4 <= end {
            let (code, len) = (self.u16_at(at), usize::from(self.u16_at(at + 2)));
            if code == option::END || at + 4 + len > end {
                return;
            }
            each(
                self,
                code,
                self.rest().get(at + 4..at + 4 + len).unwrap_or_default(),
            );
            at += 4 + len.next_multiple_of(4);
        }
    }

    fn packet(&mut self, len: usize, offset: u64, problems: &mut Problems) -> Option<Found> {
        let number = self.u32_at(8) as usize;
        let raw = u64::from(self.u32_at(12)) << 32 | u64::from(self.u32_at(16));
        let captured = self.u32_at(20) as usize;
        if captured > len - 32 {
            problems.add(
                offset,
                "a packet that is longer than its block is skipped".into(),
            );
            return None;
        }
        let known = self.interfaces.get(number).copied();
        // Where an interface's block was damaged, its packets still show their tags.
        let tagged = self.rest().get(28..30) == Some(&[0, 12]);
        let guessed = Interface {
            keyframe: number == KEYFRAMES as usize,
            ..Interface::RECORDING
        };
        let Some(interface) = known.or_else(|| tagged.then_some(guessed)) else {
            problems.add(
                offset,
                format!("a packet of the unknown interface {number} is skipped"),
            );
            return None;
        };
        let mut head = Head {
            offset,
            link: interface.link,
            keyframe: interface.keyframe,
            nanos: interface.nanos(raw),
            direction: None,
            id: None,
        };
        let options = 28 + captured.next_multiple_of(4);
        self.options(options, len - 4, |this, code, value| match code {
            option::EPB_FLAGS => {
                let flags = value.first_chunk::<4>().copied().unwrap_or_default();
                let flags = if this.big_endian {
                    u32::from_be_bytes(flags)
                } else {
                    u32::from_le_bytes(flags)
                };
                head.direction = match flags & 3 {
                    1 => Some(Direction::Inbound),
                    2 => Some(Direction::Outbound),
                    _ => None,
                };
            }
            option::EPB_PACKETID => {
                head.id = value.first_chunk::<8>().map(|id| {
                    if this.big_endian {
                        u64::from_be_bytes(*id)
                    } else {
                        u64::from_le_bytes(*id)
                    }
                });
            }
            _ => {}
        });
        Some(Found::Packet {
            head,
            at: self.start + 28,
            len: captured,
        })
    }
}

/// A packet's place in the buffer: borrowing it is the last step.
enum Found {
    Section { offset: u64 },
    Packet { head: Head, at: usize, len: usize },
}

struct Head {
    offset: u64,
    link: u16,
    keyframe: bool,
    nanos: u64,
    direction: Option<Direction>,
    id: Option<u64>,
}
