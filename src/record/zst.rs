//! Compressed recordings: independent zstd frames, each followed by a skippable frame that says
//! what is in it, so that seeking needs no inflating.
//!
//! A zstd frame holds whole pcapng blocks. The skippable frame is never the first of a file:
//! Wireshark would not recognise that.

use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// First bytes of a zstd frame (RFC 8878, 3.1.1).
pub const MAGIC: [u8; 4] = 0xFD2F_B528u32.to_le_bytes();
/// First bytes of our skippable frames (RFC 8878, 3.1.2: 0x184D2A50 to 0x184D2A5F).
const SKIPPABLE: [u8; 4] = 0x184D_2A5Fu32.to_le_bytes();

/// Levels for little and for much at once: a tenth smaller where time is no matter, and quick
/// (hundreds of MB/s) where it is.
const THOROUGH: i32 = 9;
const QUICK: i32 = 3;
/// From so many bytes a second on there is much.
const MUCH: usize = 1 << 20;
/// The largest window that a reader allocates for: 2^25 bytes.
const WINDOW_LOG: u32 = 25;
/// So many frames share one list, which a reader jumps over in one step.
const GROUP: usize = 64;
/// Version of the skippable frames: since 2 they hold every mark.
pub const VERSION: u32 = 2;
/// Longest text of a skippable frame that is read.
const MAX_TEXT: u32 = 1 << 20;

/// A moment worth a mark on a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMark {
    /// Nanoseconds since the Unix epoch.
    pub wall: u64,
    /// What kind it is: `event`, `alert` or `bookmark`.
    pub kind: String,
    /// In words. Part of it may come from the fabric.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl IndexMark {
    /// The most characters of its text.
    pub(super) const TEXT: usize = 80;

    fn rank(&self) -> u8 {
        match self.kind.as_str() {
            "bookmark" => 2,
            "alert" => 1,
            _ => 0,
        }
    }
}

/// What one frame holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Length of the zstd frame.
    pub packed: u32,
    /// Length of its content.
    pub plain: u32,
    /// Wall time of its first event, in the recording's terms.
    pub from: u64,
    /// Of its last one.
    pub to: u64,
    /// It begins with a keyframe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub key: bool,
    /// Events worth a mark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<IndexMark>,
    /// Length of the skippable frame itself, in lists of groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub index: u32,
}

impl Entry {
    /// The most marks of a frame: a list of [`GROUP`] frames must stay below [`MAX_TEXT`].
    const MARKS: usize = 32;

    /// Adds a mark; where there are too many, the least grave ones go.
    pub fn mark(&mut self, mark: IndexMark) {
        if self.marks.len() >= Entry::MARKS {
            let least = self.marks.iter().position(|m| m.rank() < mark.rank());
            let Some(least) = least else { return };
            self.marks.remove(least);
        }
        self.marks.push(mark);
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants a reference
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The text of a skippable frame.
#[derive(Debug, Serialize, Deserialize)]
struct Text {
    /// [`VERSION`].
    fabtop: u32,
    #[serde(flatten)]
    entry: Entry,
    /// The frames before, back to the last list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    group: Vec<Entry>,
}

/// Makes frames.
pub struct Packer {
    thorough: zstd::bulk::Compressor<'static>,
    quick: zstd::bulk::Compressor<'static>,
    group: Vec<Entry>,
}

impl Packer {
    pub fn new() -> io::Result<Packer> {
        let compressor = |level| {
            let mut compressor = zstd::bulk::Compressor::new(level)?;
            compressor.include_checksum(true)?;
            io::Result::Ok(compressor)
        };
        Ok(Packer {
            thorough: compressor(THOROUGH)?,
            quick: compressor(QUICK)?,
            group: Vec::new(),
        })
    }

    /// A new file begins.
    pub fn restart(&mut self) {
        self.group.clear();
    }

    /// Appends a frame of `plain`, and the one that describes it.
    pub fn pack(&mut self, plain: &[u8], mut entry: Entry, out: &mut Vec<u8>) -> io::Result<()> {
        let compressor = if plain.len() < MUCH {
            &mut self.thorough
        } else {
            &mut self.quick
        };
        let packed = compressor.compress(plain)?;
        out.extend_from_slice(&packed);
        entry.packed = length(packed.len())?;
        entry.plain = length(plain.len())?;
        let group = if self.group.len() >= GROUP {
            std::mem::take(&mut self.group)
        } else {
            Vec::new()
        };
        let text = Text {
            fabtop: VERSION,
            entry,
            group,
        };
        let json = serde_json::to_vec(&text)?;
        // The whole frame's length ends it, so that a file is read from its end.
        let content = length(json.len() + 4)?;
        let whole = content.saturating_add(8);
        out.extend_from_slice(&SKIPPABLE);
        out.extend_from_slice(&content.to_le_bytes());
        out.extend_from_slice(&json);
        out.extend_from_slice(&whole.to_le_bytes());
        self.group.push(Entry {
            index: whole,
            ..text.entry
        });
        Ok(())
    }
}

fn length(len: usize) -> io::Result<u32> {
    u32::try_from(len).map_err(|_| io::Error::other("a frame of more than 4 GiB"))
}

/// A frame's place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub offset: u64,
    pub entry: Entry,
}

/// Shows all frames of a file, last to first, read from its end; false if they do not lead back
/// to its beginning, as after a crash, or in another program's file.
pub fn index(
    file: &mut (impl Read + Seek),
    each: &mut impl FnMut(Placed, u32),
) -> io::Result<bool> {
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let Some(text) = text_before(file, end)? else {
            return Ok(false);
        };
        let version = text.fabtop;
        for mut entry in std::iter::once(text.entry).chain(text.group.into_iter().rev()) {
            let len = u64::from(entry.packed) + u64::from(entry.index);
            let offset = end.checked_sub(len).filter(|_| entry.index > 0);
            let Some(offset) = offset else {
                return Ok(false);
            };
            end = offset;
            entry.index = 0;
            each(Placed { offset, entry }, version);
        }
    }
    Ok(true)
}

/// The skippable frame that ends at `end`; its own length becomes `entry.index`.
fn text_before(file: &mut (impl Read + Seek), end: u64) -> io::Result<Option<Text>> {
    let mut tail = [0; 4];
    if end < 12 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(end - 4))?;
    file.read_exact(&mut tail)?;
    let whole = u32::from_le_bytes(tail);
    if !(12..MAX_TEXT).contains(&whole) || u64::from(whole) > end {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(end - u64::from(whole)))?;
    let mut frame = vec![0; whole as usize];
    file.read_exact(&mut frame)?;
    Ok(parse_text(&frame))
}

fn parse_text(frame: &[u8]) -> Option<Text> {
    let rest = frame.strip_prefix(&SKIPPABLE)?;
    let (size, content) = rest.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*size) as usize != content.len() {
        return None;
    }
    let (json, _) = content.split_last_chunk::<4>()?;
    let mut text: Text = serde_json::from_slice(json).ok()?;
    text.entry.index = u32::try_from(frame.len()).ok()?;
    Some(text)
}

/// Where the last whole frame of a file ends.
pub fn whole_length(file: &mut (impl Read + Seek)) -> io::Result<u64> {
    Ok(walk(file, &mut |_, _| {})?.0)
}

/// Shows the frames of a file, first to last, as far as they describe themselves; found without
/// its end. False if there are others, but for a last one that a crash cut off.
pub fn scan(file: &mut (impl Read + Seek), each: &mut impl FnMut(Placed, u32)) -> io::Result<bool> {
    Ok(walk(file, each)?.1)
}

/// Passes over all whole frames: where the last one ends, and whether each before it was
/// described.
fn walk(
    file: &mut (impl Read + Seek),
    each: &mut impl FnMut(Placed, u32),
) -> io::Result<(u64, bool)> {
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut walk = Walk {
        file: io::BufReader::with_capacity(1 << 16, file),
        at: 0,
        len,
    };
    let (mut whole, mut before, mut described) = (0, None, true);
    while let Some(text) = walk.frame()? {
        match text {
            Some(mut text) => {
                text.entry.index = 0;
                if let Some(offset) = before.take() {
                    let entry = text.entry;
                    each(Placed { offset, entry }, text.fabtop);
                }
            }
            // The one before has no description.
            None => described &= before.replace(whole).is_none(),
        }
        whole = walk.at;
    }
    Ok((whole, described))
}

struct Walk<F: Read + Seek> {
    file: io::BufReader<F>,
    at: u64,
    len: u64,
}

impl<F: Read + Seek> Walk<F> {
    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        if self.len - self.at < N as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(Some(bytes))
    }

    fn pass(&mut self, n: u32) -> io::Result<Option<()>> {
        if self.len - self.at < u64::from(n) {
            return Ok(None);
        }
        self.file.seek_relative(i64::from(n))?;
        self.at += u64::from(n);
        Ok(Some(()))
    }

    /// Passes over one frame: its text, if it is one of ours that describes another; `None` if
    /// there is no whole one.
    fn frame(&mut self) -> io::Result<Option<Option<Text>>> {
        let Some(magic) = self.take::<4>()? else {
            return Ok(None);
        };
        if magic[1..] == SKIPPABLE[1..] && magic[0] & 0xF0 == 0x50 {
            let Some(size) = self.take::<4>()? else {
                return Ok(None);
            };
            let len = u32::from_le_bytes(size);
            if magic != SKIPPABLE || len > MAX_TEXT || self.len - self.at < u64::from(len) {
                return Ok(self.pass(len)?.map(|()| None));
            }
            let mut frame = [magic, size].concat();
            frame.resize(8 + len as usize, 0);
            self.file
                .read_exact(frame.get_mut(8..).unwrap_or_default())?;
            self.at += u64::from(len);
            return Ok(Some(parse_text(&frame)));
        }
        if magic != MAGIC {
            return Ok(None);
        }
        Ok(self.data_frame()?.map(|()| None))
    }

    /// The rest of a zstd frame (RFC 8878, 3.1.1).
    fn data_frame(&mut self) -> io::Result<Option<()>> {
        let Some([descriptor]) = self.take::<1>()? else {
            return Ok(None);
        };
        let single = descriptor & 0x20 != 0;
        let content_size = match descriptor >> 6 {
            0 => u32::from(single),
            n => 1 << n,
        };
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        if self
            .pass(u32::from(!single) + dictionary + content_size)?
            .is_none()
        {
            return Ok(None);
        }
        loop {
            let Some([a, b, c]) = self.take::<3>()? else {
                return Ok(None);
            };
            let head = u32::from_le_bytes([a, b, c, 0]);
            // A run-length block holds one byte, whatever it becomes.
            let size = if (head >> 1) & 3 == 1 { 1 } else { head >> 3 };
            if self.pass(size)?.is_none() {
                return Ok(None);
            }
            if head & 1 != 0 {
                break;
            }
        }
        self.pass(if descriptor & 4 != 0 { 4 } else { 0 })
    }
}

/// Bytes that are inflated if they are zstd, and passed on if not.
///
/// A damaged frame is an error of kind [`io::ErrorKind::InvalidData`], after which reading goes
/// on with the next frame.
pub struct Inflate<R> {
    input: R,
    buf: Vec<u8>,
    start: usize,
    /// Offset of `buf[0]` in the input.
    base: u64,
    eof: bool,
    state: State,
}

enum State {
    Unknown,
    Plain,
    /// Within a frame, or between two.
    Zstd {
        decoder: Decoder<'static>,
        within: bool,
    },
    /// Looking for the next frame.
    Lost,
}

impl<R> std::fmt::Debug for Inflate<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inflate at byte {}", self.base + self.start as u64)
    }
}

const READ: usize = 64 << 10;

fn decoder() -> io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
    Ok(decoder)
}

impl<R: Read> Inflate<R> {
    pub fn new(input: R) -> Inflate<R> {
        Inflate {
            input,
            buf: Vec::new(),
            start: 0,
            base: 0,
            eof: false,
            state: State::Unknown,
        }
    }

    fn rest(&self) -> &[u8] {
        self.buf.get(self.start..).unwrap_or_default()
    }

    /// Reads on; the input's errors are passed up.
    fn fill(&mut self) -> io::Result<()> {
        self.buf.drain(..self.start);
        self.base += self.start as u64;
        self.start = 0;
        let old = self.buf.len();
        self.buf.resize(old + READ, 0);
        let got = self.input.read(self.buf.get_mut(old..).unwrap_or_default());
        self.buf
            .truncate(old + got.as_ref().map_or(0, |n| (*n).min(READ)));
        self.eof = got? == 0;
        Ok(())
    }

    fn recognise(&mut self) -> io::Result<()> {
        while self.rest().len() < 4 && !self.eof {
            self.fill()?;
        }
        self.state = if self.rest().starts_with(&MAGIC) {
            State::Zstd {
                decoder: decoder()?,
                within: false,
            }
        } else {
            State::Plain
        };
        Ok(())
    }

    /// Looks for the next frame; at the end of the input there is none.
    fn find_frame(&mut self) -> io::Result<()> {
        loop {
            let found = self.rest().windows(4).position(|w| w == MAGIC);
            if let Some(at) = found {
                self.start += at;
                self.state = State::Zstd {
                    decoder: decoder()?,
                    within: false,
                };
                return Ok(());
            }
            // The magic number may lie across two reads.
            self.start += self.rest().len().saturating_sub(3);
            if self.eof {
                self.start = self.buf.len();
                self.state = State::Plain;
                return Ok(());
            }
            self.fill()?;
        }
    }

    fn damaged(&mut self, what: &str) -> io::Error {
        let at = self.base + self.start as u64;
        self.state = State::Lost;
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{what} at byte {at} of the compressed file"),
        )
    }
}

impl<R: Read> Read for Inflate<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.state {
                State::Unknown => self.recognise()?,
                State::Lost => self.find_frame()?,
                State::Plain => {
                    let rest = self.rest();
                    if rest.is_empty() {
                        return if self.eof {
                            Ok(0)
                        } else {
                            self.input.read(out)
                        };
                    }
                    let n = rest.len().min(out.len());
                    for (to, from) in out.iter_mut().zip(rest) {
                        *to = *from;
                    }
                    self.start += n;
                    return Ok(n);
                }
                State::Zstd { decoder, within } => {
                    let input = self.buf.get(self.start..).unwrap_or_default();
                    if input.is_empty() && self.eof {
                        let torn = *within;
                        return if torn {
                            Err(self.damaged("the last zstd frame is torn"))
                        } else {
                            Ok(0)
                        };
                    }
                    let ran = decoder.run_on_buffers(input, out);
                    match ran {
                        Ok(status) => {
                            if status.bytes_read + status.bytes_written > 0 {
                                *within = status.remaining != 0;
                            }
                            self.start += status.bytes_read;
                            if status.bytes_written > 0 {
                                return Ok(status.bytes_written);
                            }
                            if self.rest().is_empty() && !self.eof {
                                self.fill()?;
                            }
                        }
                        Err(e) => {
                            let what = format!("a zstd frame is damaged ({e})");
                            let error = self.damaged(&what);
                            // Not to find the same one again.
                            self.start = (self.start + 1).min(self.buf.len());
                            return Err(error);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn file(frames: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut packer = Packer::new().unwrap();
        let (mut out, mut parts) = (Vec::new(), Vec::new());
        for n in 0..frames {
            let plain = format!("frame {n} ").repeat(n + 1).into_bytes();
            let entry = Entry {
                from: n as u64,
                to: n as u64 + 1,
                key: n % 7 == 3,
                ..Entry::default()
            };
            packer.pack(&plain, entry, &mut out).unwrap();
            parts.push(plain);
        }
        (out, parts)
    }

    fn inflate(bytes: &[u8]) -> (Vec<u8>, Vec<String>) {
        let mut inflate = Inflate::new(bytes);
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let mut buf = [0; 1000];
        loop {
            match inflate.read(&mut buf) {
                Ok(0) => return (out, errors),
                Ok(n) => out.extend_from_slice(&buf[..n]),
                Err(e) => {
                    assert_eq!(e.kind(), io::ErrorKind::InvalidData);
                    errors.push(e.to_string());
                }
            }
        }
    }

    /// All frames by the index, if it leads to all of them.
    fn indexed(bytes: &[u8]) -> Option<Vec<Placed>> {
        let mut list = Vec::new();
        let all = index(&mut Cursor::new(bytes), &mut |placed, _| list.push(placed));
        list.reverse();
        all.unwrap().then_some(list)
    }

    fn scanned(bytes: &[u8]) -> Vec<Placed> {
        let mut list = Vec::new();
        scan(&mut Cursor::new(bytes), &mut |placed, _| list.push(placed)).unwrap();
        list
    }

    #[test]
    fn frames_are_plain_zstd_that_any_decoder_reads() {
        let (bytes, parts) = file(5);
        assert_eq!(zstd::decode_all(&bytes[..]).unwrap(), parts.concat());
        // RFC 8878: the first frame is no skippable one, the second is one.
        assert_eq!(bytes[..4], [0x28, 0xB5, 0x2F, 0xFD]);
        let walk = indexed(&bytes).unwrap();
        let after = walk[0].entry.packed as usize;
        assert_eq!(bytes[after..after + 4], [0x5F, 0x2A, 0x4D, 0x18]);
    }

    #[test]
    fn the_index_leads_from_the_end_to_every_frame() {
        // Lists of 64 frames are jumped over: enough for two of them and a rest.
        let (bytes, parts) = file(150);
        let placed = indexed(&bytes).unwrap();
        assert_eq!(placed.len(), 150);
        for (n, (p, part)) in placed.iter().zip(&parts).enumerate() {
            let from = p.offset as usize;
            let frame = &bytes[from..from + p.entry.packed as usize];
            assert_eq!(&zstd::decode_all(frame).unwrap(), part);
            assert_eq!(p.entry.plain as usize, part.len());
            assert_eq!((p.entry.from, p.entry.key), (n as u64, n % 7 == 3));
        }
        // Found from the beginning, too.
        assert_eq!(scanned(&bytes), placed);
    }

    #[test]
    fn a_torn_file_is_found_from_its_beginning() {
        let (bytes, _) = file(10);
        let placed = indexed(&bytes).unwrap();
        let last = placed[9].offset as usize;
        for cut in [last + 1, last + 20, bytes.len() - 1] {
            let torn = &bytes[..cut];
            assert_eq!(indexed(torn), None);
            let found = scanned(torn);
            assert_eq!(found[..], placed[..9]);
        }
        let whole = whole_length(&mut Cursor::new(&bytes[..last + 5])).unwrap();
        assert_eq!(whole, last as u64);
    }

    #[test]
    fn a_damaged_frame_is_named_and_passed_over() {
        let (mut bytes, parts) = file(20);
        let placed = indexed(&bytes).unwrap();
        // Its blocks' header: past magic, descriptor and content size.
        let at = placed[10].offset as usize + 6;
        bytes[at..at + 3].fill(0xFF);
        let (out, errors) = inflate(&bytes);
        assert_eq!(errors.len(), 1, "{errors:?}");
        let end = parts[11..].concat();
        assert!(out.starts_with(&parts[..10].concat()) && out.ends_with(&end));
    }

    #[test]
    fn other_bytes_pass_unchanged() {
        for plain in [&b""[..], b"abc", b"no zstd at all"] {
            assert_eq!(inflate(plain), (plain.to_vec(), vec![]));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_inflated_or_named(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), zstd: bool) {
            if zstd {
                bytes.splice(0..0, MAGIC);
            }
            inflate(&bytes);
            indexed(&bytes);
            let whole = whole_length(&mut Cursor::new(&bytes)).unwrap();
            prop_assert!(whole <= bytes.len() as u64);
        }

        #[test]
        fn flipped_bits_are_survived(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let (mut bytes, _) = file(70);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            inflate(&bytes);
            indexed(&bytes);
            scanned(&bytes);
        }
    }
}
