//! The reliable multi-packet protocol (spec 13.6): messages of the SA that do
//! not fit one MAD.

use super::attr::{get_bits, put_bits};
use super::values::{mask, open};
use super::{Mad, MadView, MgmtClass};

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
const SA_HEAD: usize = 20;

impl Header {
    /// The first segment's header of a message with that many data bytes.
    pub fn whole(data: usize) -> Header {
        let segments = data.div_ceil(SEGMENT_DATA).max(1);
        let flags = Flags::ACTIVE | Flags::FIRST;
        Header {
            version: 1,
            kind: Type::Data,
            resp_time: 0x1f,
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
