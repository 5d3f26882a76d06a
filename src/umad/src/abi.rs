//! The kernel's binary interface: the header in front of every MAD, and the registration
//! requests. Nothing here touches a device.

use std::fmt;
use std::time::Duration;

/// Bytes of a MAD that is not a reassembled RMPP message.
pub const MAD_SIZE: usize = 256;

/// Largest header of any layout.
pub(crate) const MAX_HEADER: usize = 64;

/// Q_Key of QP1.
pub const QP1_QKEY: u32 = 0x8001_0000;

/// Where the data of a class begins, behind its RMPP and own header; `None` where the class
/// cannot do RMPP.
fn rmpp_data_offset(class: u8) -> Option<usize> {
    match class {
        0x03 => Some(56),
        0x06 | 0x10 | 0x12 => Some(64),
        0x30..=0x4f => Some(40),
        _ => None,
    }
}

/// How many bytes of this MAD have to be written, the missing ones as zeros.
///
/// The kernel takes less than a whole MAD, but some versions (before 6.1.165, 6.6.128, 6.12.75)
/// corrupt memory when even the headers of the class are not all there. So a MAD is always sent
/// whole. The length of an RMPP message (Active bit set) means something to its receiver and is
/// kept, but never below those headers.
pub(crate) fn padded_len(mad: &[u8]) -> usize {
    let active = mad.get(26).is_some_and(|flags| flags & 1 != 0);
    let class = mad.get(1).copied().unwrap_or(0);
    match rmpp_data_offset(class) {
        Some(offset) if active => mad.len().max(offset),
        _ => mad.len().max(MAD_SIZE),
    }
}

/// Which header a file carries in front of each MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// 56 bytes: no P_Key index. What a file speaks before ENABLE_PKEY, and what simulators that
    /// stand in for the device speak.
    Old,
    /// 64 bytes, with the P_Key index.
    New,
}

impl Layout {
    /// Header length in bytes.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Old => 56,
            Self::New => 64,
        }
    }
}

/// Number of an agent within its file (0–31), as the kernel assigns it: the lowest free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(pub u32);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Global route header of a packet, in host order except the GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grh {
    /// The remote GID as on the wire.
    pub gid: [u8; 16],
    /// Index of the local GID that is the source.
    pub gid_index: u8,
    /// Hop limit; management uses 255.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Grh {
    /// A route to `gid` from local GID 0 with hop limit 255.
    pub const fn to(gid: [u8; 16]) -> Self {
        Self {
            gid,
            gid_index: 0,
            hop_limit: 255,
            traffic_class: 0,
            flow_label: 0,
        }
    }
}

/// The remote end of a packet, in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// Remote queue pair: 0 or 1.
    pub qpn: u32,
    /// Q_Key. 0 in what is received; the kernel ignores it in what is sent and uses the queue
    /// pair's own.
    pub qkey: u32,
    /// Remote LID; 0xFFFF for a purely directed route.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Path bits: the low LMC bits of the local LID that the packet used.
    pub path_bits: u8,
    /// Index into the local P_Key table. Not carried by [`Layout::Old`].
    pub pkey_index: u16,
    /// Global route header, where the packet has one. RoCE ports require it.
    pub grh: Option<Grh>,
}

impl Address {
    /// The permissive LID: "here", as directed routes use it.
    pub const PERMISSIVE_LID: u16 = 0xFFFF;

    /// QP0 of a LID: for LID-routed subnet management packets.
    pub const fn smp(lid: u16) -> Self {
        Self {
            qpn: 0,
            qkey: 0,
            lid,
            sl: 0,
            path_bits: 0,
            pkey_index: 0,
            grh: None,
        }
    }

    /// QP0 along a directed route: the route is in the MAD, the LID is the permissive one.
    pub const fn directed() -> Self {
        Self::smp(Self::PERMISSIVE_LID)
    }

    /// QP1 of a LID: for general management packets.
    pub const fn gmp(lid: u16, sl: u8, pkey_index: u16) -> Self {
        Self {
            qpn: 1,
            qkey: QP1_QKEY,
            lid,
            sl,
            path_bits: 0,
            pkey_index,
            grh: None,
        }
    }
}

/// The header in front of a MAD, in host order.
///
/// Offsets: id 0, status 4, timeout 8, retries 12, length 16 (host order); qpn 20, qkey 24,
/// lid 28 (big-endian); sl 30, path bits 31, GRH present 32, GID index 33, hop limit 34, traffic
/// class 35, GID 36, flow label 52 (big-endian); P_Key index 56 (host order, new layout only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Agent number.
    pub agent_id: u32,
    /// 0, or the errno of a failed send (ETIMEDOUT).
    pub status: u32,
    /// Milliseconds the kernel waits for a reply; 0 in what is received.
    pub timeout_ms: u32,
    /// How often the kernel sends again; 0 in what is received.
    pub retries: u32,
    /// On receive: header plus MAD in bytes.
    pub length: u32,
    /// The remote end.
    pub addr: Address,
}

#[cfg(feature = "capi")]
pub(crate) const ADDR_OFFSET: usize = 20;

fn take<const N: usize>(buf: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = buf.get(at..at + N) {
        out.copy_from_slice(from);
    }
    out
}

fn byte(buf: &[u8], at: usize) -> u8 {
    buf.get(at).copied().unwrap_or(0)
}

impl Header {
    /// Reads a header. Bytes that are missing count as zero.
    pub fn decode(layout: Layout, b: &[u8]) -> Self {
        Self {
            agent_id: u32::from_ne_bytes(take(b, 0)),
            status: u32::from_ne_bytes(take(b, 4)),
            timeout_ms: u32::from_ne_bytes(take(b, 8)),
            retries: u32::from_ne_bytes(take(b, 12)),
            length: u32::from_ne_bytes(take(b, 16)),
            addr: Address {
                qpn: u32::from_be_bytes(take(b, 20)),
                qkey: u32::from_be_bytes(take(b, 24)),
                lid: u16::from_be_bytes(take(b, 28)),
                sl: byte(b, 30),
                path_bits: byte(b, 31),
                pkey_index: match layout {
                    Layout::Old => 0,
                    Layout::New => u16::from_ne_bytes(take(b, 56)),
                },
                grh: (byte(b, 32) != 0).then(|| Grh {
                    gid: take(b, 36),
                    gid_index: byte(b, 33),
                    hop_limit: byte(b, 34),
                    traffic_class: byte(b, 35),
                    flow_label: u32::from_be_bytes(take(b, 52)),
                }),
            },
        }
    }

    /// The header as the kernel reads it; the first `layout.header_len()` bytes count.
    pub fn encode(&self, layout: Layout) -> [u8; MAX_HEADER] {
        let mut b = [0; MAX_HEADER];
        b[0..4].copy_from_slice(&self.agent_id.to_ne_bytes());
        b[4..8].copy_from_slice(&self.status.to_ne_bytes());
        b[8..12].copy_from_slice(&self.timeout_ms.to_ne_bytes());
        b[12..16].copy_from_slice(&self.retries.to_ne_bytes());
        b[16..20].copy_from_slice(&self.length.to_ne_bytes());
        b[20..24].copy_from_slice(&self.addr.qpn.to_be_bytes());
        b[24..28].copy_from_slice(&self.addr.qkey.to_be_bytes());
        b[28..30].copy_from_slice(&self.addr.lid.to_be_bytes());
        b[30] = self.addr.sl;
        b[31] = self.addr.path_bits;
        if let Some(g) = &self.addr.grh {
            b[32] = 1;
            b[33] = g.gid_index;
            b[34] = g.hop_limit;
            b[35] = g.traffic_class;
            b[36..52].copy_from_slice(&g.gid);
            b[52..56].copy_from_slice(&g.flow_label.to_be_bytes());
        }
        if layout == Layout::New {
            b[56..58].copy_from_slice(&self.addr.pkey_index.to_ne_bytes());
        }
        b
    }
}

/// Methods for which an agent wants to receive requests: bit *m* is method *m*.
///
/// Kept as one 128-bit number and laid out for each request by this crate, so that word size and
/// byte order cannot be got wrong. The empty mask makes a client that receives only replies.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MethodMask(u128);

impl MethodMask {
    /// No method: a client.
    pub const NONE: Self = Self(0);

    /// The given methods (0–127; the response bit is ignored).
    pub const fn of(methods: &[u8]) -> Self {
        let mut mask = 0;
        let mut i = 0;
        while i < methods.len() {
            mask |= 1u128 << (methods[i] & 0x7f);
            i += 1;
        }
        Self(mask)
    }

    /// This mask and one method more.
    #[must_use]
    pub const fn with(self, method: u8) -> Self {
        Self(self.0 | 1u128 << (method & 0x7f))
    }

    /// Whether the method is in the mask.
    pub const fn contains(self, method: u8) -> bool {
        method < 128 && self.0 >> method & 1 == 1
    }

    /// Whether no method is in the mask.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The methods, ascending.
    pub fn methods(self) -> impl Iterator<Item = u8> {
        (0..128u8).filter(move |&m| self.contains(m))
    }

    /// The mask whose bit *m* is method *m*.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The mask as a number whose bit *m* is method *m*.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// As the old request holds it: native longs, lowest first. A 32-bit process under a 64-bit
    /// kernel passes four words, which the kernel joins low word first.
    pub(crate) fn to_longs(self) -> [u8; 16] {
        let mut out = [0; 16];
        let size = size_of::<libc::c_long>();
        for (i, chunk) in out.chunks_mut(size).enumerate() {
            let word = self.0 >> (i * size * 8);
            // Truncation is the point: each chunk takes the word at its position.
            #[allow(clippy::cast_possible_truncation)]
            if size == 8 {
                chunk.copy_from_slice(&(word as u64).to_ne_bytes());
            } else {
                chunk.copy_from_slice(&(word as u32).to_ne_bytes());
            }
        }
        out
    }

    #[cfg(feature = "capi")]
    pub(crate) fn from_longs(longs: &[u8; 16]) -> Self {
        let size = size_of::<libc::c_long>();
        let mut bits = 0u128;
        for (i, chunk) in longs.chunks(size).enumerate() {
            let word = if size == 8 {
                u128::from(u64::from_ne_bytes(take(chunk, 0)))
            } else {
                u128::from(u32::from_ne_bytes(take(chunk, 0)))
            };
            bits |= word << (i * size * 8);
        }
        Self(bits)
    }

    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn to_u64s(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }
}

impl fmt::Debug for MethodMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.methods()).finish()
    }
}

/// What is expected after a send, and for how long the kernel waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: for replies and for what is sent unasked. A request sent so gets no reply: the
    /// kernel discards it. (A reply sent with a timeout would later yield a timeout that never
    /// was.)
    None,
    /// A reply within so many milliseconds of each try; after `retries` tries more without one,
    /// the send comes back as [`Recv::TimedOut`](crate::Recv::TimedOut).
    Within {
        /// Milliseconds for each try. 0 counts as 1, because 0 would mean no reply at all.
        timeout_ms: u32,
        /// Tries after the first.
        retries: u32,
    },
    /// A reply, waited for without end.
    Forever,
}

impl Reply {
    /// A reply within `timeout`, one try. Rounded up to whole milliseconds.
    pub fn within(timeout: Duration) -> Self {
        Self::Within {
            timeout_ms: u32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX),
            retries: 0,
        }
    }

    /// (timeout, retries) as the kernel reads them. A set top bit means forever.
    pub(crate) fn to_fields(self) -> (u32, u32) {
        match self {
            Self::None => (0, 0),
            Self::Within {
                timeout_ms,
                retries,
            } => (timeout_ms.clamp(1, i32::MAX.cast_unsigned()), retries),
            Self::Forever => (u32::MAX, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captured from the kernel (soft-RoCE, new layout): a received MAD's header, see the
    /// offsets in the header's description.
    #[test]
    fn header_offsets() {
        let mut raw = [0u8; 64];
        raw[0..4].copy_from_slice(&3u32.to_ne_bytes());
        raw[4..8].copy_from_slice(&110u32.to_ne_bytes());
        raw[16..20].copy_from_slice(&320u32.to_ne_bytes());
        raw[20..24].copy_from_slice(&[0, 0, 0, 1]);
        raw[24..28].copy_from_slice(&[0x80, 1, 0, 0]);
        raw[28..30].copy_from_slice(&[0x12, 0x34]);
        raw[30] = 5;
        raw[31] = 2;
        raw[32] = 1;
        raw[33] = 7;
        raw[34] = 64;
        raw[35] = 9;
        raw[36] = 0xfe;
        raw[37] = 0x80;
        raw[52..56].copy_from_slice(&[0, 1, 2, 3]);
        raw[56..58].copy_from_slice(&11u16.to_ne_bytes());
        let h = Header::decode(Layout::New, &raw);
        assert_eq!(h.agent_id, 3);
        assert_eq!(h.status, 110);
        assert_eq!(h.length, 320);
        assert_eq!(h.addr.qpn, 1);
        assert_eq!(h.addr.qkey, QP1_QKEY);
        assert_eq!(h.addr.lid, 0x1234);
        assert_eq!((h.addr.sl, h.addr.path_bits), (5, 2));
        assert_eq!(h.addr.pkey_index, 11);
        let g = h.addr.grh.unwrap();
        assert_eq!((g.gid_index, g.hop_limit, g.traffic_class), (7, 64, 9));
        assert_eq!(g.flow_label, 0x0001_0203);
        assert_eq!(g.gid[..2], [0xfe, 0x80]);
        assert_eq!(h.encode(Layout::New), raw);
        assert_eq!(Header::decode(Layout::Old, &raw).addr.pkey_index, 0);
        assert_eq!(h.encode(Layout::Old)[56..], [0; 8]);
    }

    #[test]
    fn short_header_is_zero() {
        assert_eq!(Header::decode(Layout::New, &[]), Header::default());
    }

    #[test]
    #[cfg(all(target_endian = "little", target_pointer_width = "64"))]
    fn mask_layout() {
        // Method 1 is bit 1 of the first long, 64 is bit 0 of the second, 127 its top bit.
        let m = MethodMask::of(&[1, 64, 127]);
        let want = [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80];
        assert_eq!(m.to_longs(), want);
        assert_eq!(m.to_u64s(), [2, 0x8000_0000_0000_0001]);
        assert_eq!(m.methods().collect::<Vec<_>>(), [1, 64, 127]);
        assert!(m.contains(64) && !m.contains(65) && !m.contains(200));
        // The response bit is not part of a method's number here.
        assert_eq!(MethodMask::of(&[0x81]), MethodMask::of(&[1]));
    }

    #[test]
    fn never_shorter_than_is_safe() {
        assert_eq!(padded_len(&[]), 256);
        assert_eq!(padded_len(&[1; 24]), 256);
        assert_eq!(padded_len(&[0; 300]), 300);
        let mut sa = [0; 100];
        sa[1] = 0x03;
        assert_eq!(padded_len(&sa), 256, "no RMPP");
        sa[26] = 1;
        assert_eq!(padded_len(&sa), 100);
        assert_eq!(padded_len(&sa[..30]), 56, "headers of the SA");
        sa[1] = 0x30;
        assert_eq!(padded_len(&sa[..30]), 40, "headers of a vendor class");
        sa[1] = 0x04;
        assert_eq!(padded_len(&sa), 256, "not an RMPP class");
    }

    #[test]
    fn timeouts() {
        assert_eq!(Reply::None.to_fields(), (0, 0));
        assert_eq!(Reply::within(Duration::from_micros(1)).to_fields(), (1, 0));
        assert_eq!(Reply::within(Duration::ZERO).to_fields(), (1, 0));
        assert_eq!(
            Reply::within(Duration::from_micros(2001)).to_fields(),
            (3, 0)
        );
        // Beyond 31 bits would be read as "forever".
        assert_eq!(
            Reply::within(Duration::from_secs(1 << 40)).to_fields(),
            (0x7fff_ffff, 0)
        );
        assert_eq!(Reply::Forever.to_fields(), (0xffff_ffff, 0));
    }
}
