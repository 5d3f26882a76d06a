//! Messages longer than one MAD, as the segments that travelled (specification 13.6).
//!
//! A port hands up a whole message: the header of its first segment, then all data. The wire,
//! and so a recording that Wireshark opens, knows segments of 256 bytes.

use crate::mad::{MAD_LEN, Mad, MadView, MgmtClass, data_offset};

/// Where the RMPP header lies in a MAD.
const HEADER: std::ops::Range<usize> = 24..36;
/// Bytes that PayloadLength counts start here.
const COUNTED: usize = 36;

const DATA: u8 = 1;
const ACTIVE: u8 = 1;
const FIRST: u8 = 2;
const LAST: u8 = 4;

/// Longest message that is put together: far above any table of a real subnet.
pub const MAX_MESSAGE: usize = 64 << 20;

/// Length of the header before the data of a class with RMPP; `None` for other classes.
fn head_len(class: MgmtClass) -> Option<usize> {
    (class == MgmtClass::SubnAdm || class.vendor_range() == Some(2)).then(|| data_offset(class))
}

/// The segments of a message that is longer than a MAD; `None` if its class has no RMPP.
pub fn split(message: &[u8]) -> Option<impl Iterator<Item = [u8; MAD_LEN]> + '_> {
    let class = MgmtClass::new(*message.get(1)?);
    let head_len = head_len(class)?;
    let (head, data) = message.split_at_checked(head_len)?;
    let room = MAD_LEN - head_len;
    let count = data.len().div_ceil(room).max(1);
    let per_segment = head_len - COUNTED;
    Some((0..count).map(move |index| {
        let mut mad = [0; MAD_LEN];
        let chunk = data.chunks(room).nth(index).unwrap_or_default();
        let (first, last) = (index == 0, index + 1 == count);
        // The first one announces the whole, the last one how much of it is its own.
        let payload = match (first, last) {
            (true, _) => data.len() + per_segment * count,
            (false, true) => chunk.len() + per_segment,
            (false, false) => 0,
        };
        let flags = ACTIVE | if first { FIRST } else { 0 } | if last { LAST } else { 0 };
        for (to, from) in mad.iter_mut().zip(head.iter().chain(chunk)) {
            *to = *from;
        }
        put_header(&mut mad, flags, index as u32 + 1, payload as u32);
        mad
    }))
}

fn put_header(mad: &mut [u8; MAD_LEN], flags: u8, segment: u32, payload: u32) {
    mad[24] = 1;
    mad[25] = DATA;
    mad[26] = mad[26] & 0xF8 | flags;
    mad[27] = 0;
    mad[28..32].copy_from_slice(&segment.to_be_bytes());
    mad[32..36].copy_from_slice(&payload.to_be_bytes());
}

/// The RMPP header of a message, if its first segment would show another one.
pub fn odd_header(message: &[u8]) -> Option<[u8; 12]> {
    let first = split(message)?.next()?;
    let header = message.get(HEADER)?;
    (first.get(HEADER)? != header).then(|| header.try_into().ok())?
}

/// A message on its way back from segments.
#[derive(Debug)]
pub struct Joiner {
    bytes: Vec<u8>,
    head_len: usize,
    next: u32,
}

/// What a segment did to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// More are to come.
    Partial,
    /// It was the last one.
    Whole,
    /// It does not belong here: another number than the next.
    Stray,
    /// It came before.
    Repeated,
}

/// What distinguishes messages that are on their way at the same time.
pub fn key(mad: &MadView<'_>) -> (u8, u64) {
    (mad.class().code(), mad.tid())
}

impl Joiner {
    /// Begins with a first segment of several; `None` for any other MAD.
    pub fn begin(mad: &[u8; MAD_LEN]) -> Option<Joiner> {
        let head_len = head_len(MgmtClass::new(mad[1]))?;
        let opens = mad[25] == DATA && mad[26] & 7 == ACTIVE | FIRST && segment(mad) == 1;
        opens.then(|| Joiner {
            bytes: mad.to_vec(),
            head_len,
            next: 2,
        })
    }

    /// Whether `mad` is a data segment beyond the first.
    pub fn continues(mad: &[u8; MAD_LEN]) -> bool {
        head_len(MgmtClass::new(mad[1])).is_some()
            && mad[25] == DATA
            && mad[26] & (ACTIVE | FIRST) == ACTIVE
    }

    /// Adds the next segment.
    pub fn add(&mut self, mad: &[u8; MAD_LEN]) -> Joined {
        let number = segment(mad);
        if number < self.next {
            return Joined::Repeated;
        }
        if number != self.next || self.bytes.len() > MAX_MESSAGE {
            return Joined::Stray;
        }
        self.next += 1;
        let data = mad.get(self.head_len..).unwrap_or_default();
        if mad[26] & LAST == 0 {
            self.bytes.extend_from_slice(data);
            return Joined::Partial;
        }
        let payload = u32::from_be_bytes([mad[32], mad[33], mad[34], mad[35]]) as usize;
        let own = payload.saturating_sub(self.head_len - COUNTED);
        self.bytes
            .extend_from_slice(data.get(..own).unwrap_or(data));
        Joined::Whole
    }

    /// The message: the first segment's header, then all data.
    pub fn finish(self) -> Option<Mad> {
        Mad::from_bytes(&self.bytes).ok()
    }
}

fn segment(mad: &[u8; MAD_LEN]) -> u32 {
    u32::from_be_bytes([mad[28], mad[29], mad[30], mad[31]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Header of an SA GetTableResp, then `len` bytes of data.
    fn message(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; 56];
        bytes[..4].copy_from_slice(&[1, 3, 2, 0x92]);
        bytes.extend((0..len).map(|i| i as u8 | 1));
        bytes
    }

    #[test]
    fn segments_have_the_flags_and_lengths_of_the_specification() {
        // 500 bytes = 200 + 200 + 100; each segment adds the 20 bytes of the SA header.
        let segments: Vec<_> = split(&message(500)).unwrap().collect();
        let heads: Vec<_> = segments.iter().map(|s| s[24..36].to_vec()).collect();
        assert_eq!(
            heads,
            [
                vec![1, 1, 3, 0, 0, 0, 0, 1, 0, 0, 0x02, 0x30],
                vec![1, 1, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0],
                vec![1, 1, 5, 0, 0, 0, 0, 3, 0, 0, 0, 120],
            ]
        );
        assert_eq!(segments[1][56], 201, "data byte 200 opens the second one");
        assert!(segments[2][156..].iter().all(|b| *b == 0));
    }

    #[test]
    fn a_class_without_rmpp_has_no_segments() {
        let mut perf = message(500);
        perf[1] = 4;
        assert!(split(&perf).is_none());
    }

    proptest! {
        #[test]
        fn what_was_split_joins_again(len in 201usize..3000) {
            let mut whole = message(len);
            let first = split(&whole).unwrap().next().unwrap();
            whole[24..36].copy_from_slice(&first[24..36]);
            prop_assert_eq!(odd_header(&whole), None);
            let mut segments = split(&whole).unwrap();
            let mut joiner = Joiner::begin(&segments.next().unwrap()).unwrap();
            let results: Vec<_> = segments.map(|s| joiner.add(&s)).collect();
            prop_assert_eq!(results.last(), Some(&Joined::Whole));
            let mad = joiner.finish().unwrap();
            prop_assert_eq!(mad.bytes(), &whole[..]);
        }

        #[test]
        fn any_segments_join_to_something_or_nothing(
            segments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 256), 1..5),
        ) {
            let mut segments = segments.iter().map(|s| {
                let mut s: [u8; 256] = s.clone().try_into().unwrap();
                s[1] = 3;
                s[25] = 1;
                s
            });
            let mut first = segments.next().unwrap();
            first[26] = 3;
            first[28..32].copy_from_slice(&[0, 0, 0, 1]);
            let mut joiner = Joiner::begin(&first).unwrap();
            for segment in segments {
                joiner.add(&segment);
            }
            prop_assert!(joiner.finish().is_some());
        }
    }
}
