//! The reliable multi-packet protocol (spec 13.6): messages of the SA that do
//! not fit one MAD.

use super::attr::{get_bits, put_bits};
use super::values::{mask, open};
use super::{Mad, MadView, Method, MgmtClass};

open! {
    /// RMPPType.
    pub enum Type(u8) {
        None = 0 => "none",
        Data = 1 => "DATA",
        Ack = 2 => "ACK",
        Stop = 3 => "STOP",
        Abort = 4 => "ABORT",
    }
}

open! {
    /// RMPPStatus of STOP and ABORT.
    pub enum RmppStatus(u8) {
        Ok = 0 => "ok",
        ResourcesExhausted = 1 => "resources exhausted",
        TooLong = 118 => "total time too long",
        BadLength = 119 => "inconsistent last and payload length",
        BadSegment = 120 => "inconsistent first and segment number",
        BadType = 121 => "bad RMPP type",
        NewWindowTooSmall = 122 => "new window last too small",
        SegmentTooBig = 123 => "segment number too big",
        BadStatus = 124 => "bad status",
        BadVersion = 125 => "unsupported version",
        TooManyRetries = 126 => "too many retries",
        Unspecified = 127 => "unspecified",
    }
}

mask! {
    /// RMPPFlags.
    pub struct Flags(u8), "+" {
        ACTIVE = 1 => "active",
        FIRST = 2 => "first",
        LAST = 4 => "last",
    }
}

/// Bytes 24–35 of an SA MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// 1 where RMPP is used.
    pub version: u8,
    /// What the packet is.
    pub kind: Type,
    /// 0x1F: no time given.
    pub resp_time: u8,
    /// Active, first, last.
    pub flags: Flags,
    /// Reason of a STOP or ABORT.
    pub status: RmppStatus,
    /// Segment number, from 1.
    pub segment: u32,
    /// PayloadLength of DATA, NewWindowLast of ACK.
    pub length: u32,
}

impl Header {
    /// The header of a MAD whose class has one.
    pub fn of(mad: &MadView<'_>) -> Option<Header> {
        let class = mad.class();
        if class != MgmtClass::SubnAdm && class.vendor_range() != Some(2) {
            return None;
        }
        let at = |byte: usize, width| get_bits(mad.bytes(), byte * 8, width);
        Some(Header {
            version: at(24, 8) as u8,
            kind: Type::new(at(25, 8) as u8),
            resp_time: at(26, 5) as u8,
            flags: Flags(at(26, 8) as u8 & 7),
            status: RmppStatus::new(at(27, 8) as u8),
            segment: at(28, 32) as u32,
            length: at(32, 32) as u32,
        })
    }

    /// A data segment that is part of a multi-packet message.
    pub fn is_active_data(&self) -> bool {
        self.flags.has(Flags::ACTIVE) && self.kind == Type::Data
    }

    /// Writes it to an SA MAD.
    pub fn put(&self, mad: &mut Mad) {
        let bytes = mad.bytes_mut();
        put_bits(bytes, 24 * 8, 8, self.version.into());
        put_bits(bytes, 25 * 8, 8, self.kind.code().into());
        put_bits(bytes, 26 * 8, 5, self.resp_time.into());
        put_bits(bytes, 26 * 8 + 5, 3, self.flags.0.into());
        put_bits(bytes, 27 * 8, 8, self.status.code().into());
        put_bits(bytes, 28 * 8, 32, self.segment.into());
        put_bits(bytes, 32 * 8, 32, self.length.into());
    }
}

/// Data bytes a segment carries.
pub const SEGMENT_DATA: usize = 200;
/// Bytes of the SA header that PayloadLength counts besides the data.
pub(crate) const SA_HEAD: usize = 20;

impl Header {
    /// The first segment's header of a message with that many data bytes.
    pub fn whole(data: usize) -> Header {
        let segments = data.div_ceil(SEGMENT_DATA).max(1);
        let flags = Flags::ACTIVE | Flags::FIRST;
        Header {
            version: 1,
            kind: Type::Data,
            resp_time: 0,
            flags: if segments == 1 {
                flags | Flags::LAST
            } else {
                flags
            },
            status: RmppStatus::Ok,
            segment: 1,
            length: u32::try_from(data + SA_HEAD * segments).unwrap_or(u32::MAX),
        }
    }
}

/// The segments of an SA message: 256-byte MADs, each with the message's
/// headers and 200 bytes of its data.
///
/// PayloadLength is the total with every segment's SA header in the first one,
/// and the rest with its own in the last. A message that used no RMPP and fits
/// one MAD comes back alone and unchanged but for its length.
pub fn split(message: &MadView<'_>) -> impl Iterator<Item = Mad> {
    let bytes = message.bytes();
    let data = message.data();
    let whole = Header::whole(data.len());
    let segments = data.len().div_ceil(SEGMENT_DATA).max(1);
    let used = segments > 1
        || message.method() == Method::GetTableResp
        || message.rmpp().is_some_and(|header| header.is_active_data());
    let used = used && message.class() == MgmtClass::SubnAdm;
    let header = bytes
        .get(..super::data_offset(message.class()))
        .unwrap_or(bytes);
    (0..if used { segments } else { 1 }).map(move |n| {
        let chunk = data.chunks(SEGMENT_DATA).nth(n).unwrap_or_default();
        let mut whole_mad = [0; super::MAD_LEN];
        let from = header.iter().chain(if used { chunk } else { data });
        for (to, from) in whole_mad.iter_mut().zip(from) {
            *to = *from;
        }
        let mut mad = Mad::boxed_or_inline(whole_mad.to_vec());
        if used {
            let first = n == 0;
            let last = n + 1 == segments;
            let mut flags = Flags::ACTIVE;
            if first {
                flags = flags | Flags::FIRST;
            }
            if last {
                flags = flags | Flags::LAST;
            }
            let length = match (first, last) {
                (true, _) => whole.length,
                (_, true) => (chunk.len() + SA_HEAD) as u32,
                _ => 0,
            };
            Header {
                flags,
                segment: n as u32 + 1,
                length,
                ..whole
            }
            .put(&mut mad);
        }
        mad
    })
}

/// Why a segment was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No first segment of this message was seen.
    #[error("segment {segment} of a message whose start was not seen")]
    NoStart {
        /// Its number.
        segment: u32,
    },
    /// Too far ahead of what is there, or number 0.
    #[error("segment {segment} is out of the window after {have}")]
    OutOfWindow {
        /// Its number.
        segment: u32,
        /// Last segment before which none is missing.
        have: u32,
    },
    /// The message grew beyond the limit and was given up.
    #[error("message of more than {limit} bytes given up")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

/// What became of a MAD given to a [`Reassembler`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "returned once a MAD and taken apart at once"
)]
pub enum Outcome {
    /// It is whole: itself, or the message it completed.
    Whole(Mad),
    /// It is kept; more segments must follow.
    More,
    /// ACK, STOP or ABORT: no data. STOP and ABORT end their message.
    Control(Header),
}

struct Partial {
    key: (u64, u32),
    touched: u64,
    /// Headers and data without a gap.
    bytes: Vec<u8>,
    /// The last segment in `bytes`.
    have: u32,
    /// Segments that came before their turn.
    ahead: std::collections::BTreeMap<u32, (Box<[u8]>, bool)>,
}

impl Partial {
    fn size(&self) -> usize {
        self.bytes.len() + self.ahead.len() * SEGMENT_DATA
    }
}

/// Puts segments together, for recordings and for ports that hand over raw
/// ones. Segments may repeat and may come before their turn.
///
/// Memory is bounded by a number of messages and of bytes in each; the message
/// that waited longest for a segment gives way.
pub struct Reassembler {
    partial: Vec<Partial>,
    max_messages: usize,
    max_bytes: usize,
    clock: u64,
}

/// How far ahead of the gapless part a segment may be: the usual RMPP window.
const WINDOW: u32 = 64;

impl Default for Reassembler {
    /// 16 messages of up to 64 MiB.
    fn default() -> Self {
        Reassembler::new(16, 64 << 20)
    }
}

impl Reassembler {
    /// Keeps at most `max_messages` unfinished messages of `max_bytes` each.
    pub fn new(max_messages: usize, max_bytes: usize) -> Self {
        Reassembler {
            partial: Vec::new(),
            max_messages: max_messages.max(1),
            max_bytes,
            clock: 0,
        }
    }

    /// Messages that wait for segments, and their bytes.
    pub fn pending(&self) -> (usize, usize) {
        (
            self.partial.len(),
            self.partial.iter().map(Partial::size).sum(),
        )
    }

    /// Takes a MAD. `source` tells senders apart (a LID); within one the low
    /// half of the transaction ID does.
    pub fn push(&mut self, source: u64, mad: &MadView<'_>) -> Result<Outcome, Refused> {
        let key = (source, mad.tid_low());
        let Some(header) = mad.rmpp().filter(|_| mad.class() == MgmtClass::SubnAdm) else {
            return Ok(Outcome::Whole(mad.to_mad()));
        };
        // Longer than a segment: a port that reassembles has been at work.
        if !header.flags.has(Flags::ACTIVE) || mad.len() > super::MAD_LEN {
            return Ok(Outcome::Whole(mad.to_mad()));
        }
        match header.kind {
            Type::Data => {}
            Type::Stop | Type::Abort => {
                self.partial.retain(|partial| partial.key != key);
                return Ok(Outcome::Control(header));
            }
            _ => return Ok(Outcome::Control(header)),
        }
        let last = header.flags.has(Flags::LAST);
        let mut data = mad.data();
        if last {
            // A first segment that is also the last counts one SA header too.
            let valid = (header.length as usize).saturating_sub(SA_HEAD);
            data = data.get(..valid).unwrap_or(data);
        }
        self.clock += 1;
        let clock = self.clock;
        if header.segment == 1 && header.flags.has(Flags::FIRST) {
            self.start(key, mad);
        }
        let Some(partial) = self.partial.iter_mut().find(|partial| partial.key == key) else {
            return Err(Refused::NoStart {
                segment: header.segment,
            });
        };
        partial.touched = clock;
        let (segment, have) = (header.segment, partial.have);
        if segment == 0 || segment > have.saturating_add(WINDOW) {
            return Err(Refused::OutOfWindow { segment, have });
        }
        if segment > have {
            partial.ahead.insert(segment, (data.into(), last));
        }
        let mut done = false;
        while let Some((data, last)) = partial.ahead.remove(&(partial.have.saturating_add(1))) {
            partial.have += 1;
            partial.bytes.extend_from_slice(&data);
            done |= last;
        }
        if partial.size() > self.max_bytes {
            self.partial.retain(|partial| partial.key != key);
            return Err(Refused::TooLong {
                limit: self.max_bytes,
            });
        }
        if !done {
            return Ok(Outcome::More);
        }
        let at = self.partial.iter().position(|partial| partial.key == key);
        let bytes = at
            .map(|at| self.partial.swap_remove(at).bytes)
            .unwrap_or_default();
        Ok(Outcome::Whole(Mad::boxed_or_inline(bytes)))
    }

    /// Opens a message with its headers, unless that segment is a repetition.
    fn start(&mut self, key: (u64, u32), mad: &MadView<'_>) {
        let head = super::data_offset(MgmtClass::SubnAdm);
        if let Some(at) = self.partial.iter().position(|partial| partial.key == key) {
            let known = self
                .partial
                .get(at)
                .and_then(|partial| partial.bytes.get(head..));
            let data = mad.data();
            if known.is_some_and(|known| known.iter().zip(data).all(|(a, b)| a == b)) {
                return;
            }
            // Another message under the same transaction ID: the old one is dead.
            self.partial.swap_remove(at);
        }
        if self.partial.len() >= self.max_messages {
            let oldest = self
                .partial
                .iter()
                .enumerate()
                .min_by_key(|(_, partial)| partial.touched);
            if let Some((at, _)) = oldest {
                self.partial.swap_remove(at);
            }
        }
        let mut bytes = vec![0; head];
        for (to, from) in bytes.iter_mut().zip(mad.bytes()) {
            *to = *from;
        }
        let touched = self.clock;
        self.partial.push(Partial {
            key,
            touched,
            bytes,
            have: 0,
            ahead: Default::default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attribute, LinkRecord, NodeRecord, records};
    use super::*;

    fn table(count: u16) -> Mad {
        let request = Mad::sa(Method::GetTable, LinkRecord::ID, 0, 0, 0x77);
        let links: Vec<_> = (0..count)
            .map(|n| {
                let mut link = LinkRecord::new();
                link.set_from_lid(n).set_to_lid(n + 1);
                link
            })
            .collect();
        Mad::reply_table(&request.view(), &links)
    }

    fn header(mad: &Mad) -> (u8, u32, u32) {
        let header = mad.rmpp().unwrap();
        (header.flags.0, header.segment, header.length)
    }

    #[test]
    fn segments_carry_the_flags_and_lengths_of_the_spec() {
        // 60 link records of 8 bytes: 480 bytes of data, segments of 200, 200,
        // 80. First: total plus three SA headers of 20; last: 80 + 20.
        let segments: Vec<_> = split(&table(60).view()).collect();
        let headers: Vec<_> = segments.iter().map(header).collect();
        assert_eq!(headers, [(3, 1, 540), (1, 2, 0), (5, 3, 100)]);
        assert!(segments.iter().all(|segment| segment.len() == 256));
        // One segment is first and last: 16 + 20.
        let one: Vec<_> = split(&table(2).view()).map(|mad| header(&mad)).collect();
        assert_eq!(one, [(7, 1, 36)]);
        // No record: the SA header alone.
        let none: Vec<_> = split(&table(0).view()).map(|mad| header(&mad)).collect();
        assert_eq!(none, [(7, 1, 20)]);
    }

    #[test]
    fn what_uses_no_rmpp_is_left_alone() {
        let mut get = Mad::perf_port(0x12, 3, 9);
        get.set_attr_mod(5);
        assert_eq!(split(&get.view()).collect::<Vec<_>>(), [get.clone()]);
        let got = Reassembler::default().push(1, &get.view());
        assert_eq!(got, Ok(Outcome::Whole(get)));
    }

    fn reassemble(segments: impl IntoIterator<Item = Mad>) -> Vec<Result<Outcome, Refused>> {
        let mut reassembler = Reassembler::default();
        segments
            .into_iter()
            .map(|mad| reassembler.push(4, &mad.view()))
            .collect()
    }

    #[test]
    fn segments_in_any_order_and_repeated_make_the_message() {
        let message = table(60);
        let s: Vec<_> = split(&message.view()).collect();
        let order = [&s[0], &s[2], &s[0], &s[2], &s[1]];
        let got = reassemble(order.map(Clone::clone));
        assert_eq!(got[..4], [const { Ok(Outcome::More) }; 4]);
        let Ok(Outcome::Whole(whole)) = &got[4] else {
            panic!("{got:?}")
        };
        assert_eq!(whole.bytes(), message.bytes());
        let lids: Vec<_> = records::<LinkRecord>(&whole.view())
            .map(|link| link.from_lid())
            .collect();
        assert_eq!(lids, (0..60).collect::<Vec<_>>());
    }

    #[test]
    fn a_stray_segment_is_refused_with_its_reason() {
        let s: Vec<_> = split(&table(60).view()).collect();
        assert_eq!(
            reassemble([s[1].clone()]),
            [Err(Refused::NoStart { segment: 2 })]
        );
        let mut far = s[1].clone();
        Header {
            segment: 1000,
            ..far.rmpp().unwrap()
        }
        .put(&mut far);
        let got = reassemble([s[0].clone(), far]);
        assert_eq!(
            got[1],
            Err(Refused::OutOfWindow {
                segment: 1000,
                have: 1
            })
        );
    }

    #[test]
    fn an_abort_ends_its_message() {
        let s: Vec<_> = split(&table(60).view()).collect();
        let mut abort = s[0].clone();
        Header {
            kind: Type::Abort,
            ..abort.rmpp().unwrap()
        }
        .put(&mut abort);
        let mut reassembler = Reassembler::default();
        reassembler.push(4, &s[0].view()).unwrap();
        assert!(matches!(
            reassembler.push(4, &abort.view()),
            Ok(Outcome::Control(_))
        ));
        assert_eq!(reassembler.pending(), (0, 0));
    }

    #[test]
    fn memory_is_bounded_in_messages_and_bytes() {
        let s: Vec<_> = split(&table(60).view()).collect();
        let mut reassembler = Reassembler::new(2, 300);
        for source in 0..100 {
            reassembler.push(source, &s[0].view()).unwrap();
        }
        // 56 bytes of headers and 200 of data each.
        assert_eq!(reassembler.pending(), (2, 512));
        let long = reassembler.push(99, &s[1].view());
        assert_eq!(long, Err(Refused::TooLong { limit: 300 }));
        assert_eq!(reassembler.pending(), (1, 256));
    }

    proptest::proptest! {
        #[test]
        fn any_segments_are_survived(
            mads in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 24..300), 0..20)
        ) {
            let mut reassembler = Reassembler::new(4, 10_000);
            for mut bytes in mads {
                // Often enough a data segment of the SA with a small number.
                if bytes[0] & 1 == 0 && bytes.len() > 40 {
                    bytes[1] = 3;
                    let tid = bytes[12] & 1;
                    bytes[12..16].fill(tid);
                    bytes[25] = 1;
                    bytes[26] |= 1;
                    bytes[28..31].fill(0);
                    bytes[31] &= 3;
                }
                let view = MadView::new(&bytes).unwrap();
                let _ = reassembler.push(u64::from(bytes[5] & 1), &view);
                let _ = view.to_string();
                proptest::prop_assert!(split(&view).count() >= 1);
                let _ = records::<NodeRecord>(&view).count();
                let (messages, bytes) = reassembler.pending();
                proptest::prop_assert!(messages <= 4 && bytes <= 40_000);
            }
        }
    }
}
