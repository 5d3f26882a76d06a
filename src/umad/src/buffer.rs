//! A buffer for one MAD or one long message, with its header.
//!
//! The MAD starts at a fixed place and the header, of either layout, ends there: the buffer is
//! independent of the layout, and header and MAD are contiguous, as the device wants them.

use std::fmt;

use crate::abi::{Address, AgentId, Grh, Header, Layout, MAD_SIZE, MAX_HEADER, Reply, padded_len};
use crate::dump;
use crate::errno::Errno;
use crate::error::{Error, Result};

/// A MAD, or a whole RMPP message, with its header.
#[derive(Clone, PartialEq, Eq)]
pub struct Buffer {
    header: Header,
    /// MAX_HEADER bytes of which the last are the header, then the MAD.
    raw: Vec<u8>,
    len: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl Buffer {
    /// A buffer for one MAD of 256 bytes.
    pub fn new() -> Self {
        Self::with_capacity(MAD_SIZE)
    }

    /// A buffer for `capacity` MAD bytes, at least 256.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            header: Header::default(),
            raw: vec![0; MAX_HEADER + capacity.max(MAD_SIZE)],
            len: MAD_SIZE,
        }
    }

    /// MAD bytes that fit.
    pub fn capacity(&self) -> usize {
        self.raw.len() - MAX_HEADER
    }

    /// Grows the buffer to `capacity` MAD bytes if it is smaller.
    pub fn ensure(&mut self, capacity: usize) {
        if self.capacity() < capacity {
            self.raw.resize(MAX_HEADER + capacity, 0);
        }
    }

    /// MAD bytes in use: 256 at first, then what was received last.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no MAD byte is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the number of MAD bytes in use, growing the buffer if needed.
    pub fn set_len(&mut self, len: usize) {
        self.ensure(len);
        self.len = len;
    }

    /// The MAD bytes in use.
    pub fn mad(&self) -> &[u8] {
        &self.raw[MAX_HEADER..MAX_HEADER + self.len]
    }

    /// The MAD bytes in use, to be written.
    pub fn mad_mut(&mut self) -> &mut [u8] {
        &mut self.raw[MAX_HEADER..MAX_HEADER + self.len]
    }

    /// Puts a MAD in, growing the buffer if needed.
    pub fn set_mad(&mut self, mad: &[u8]) {
        self.set_len(mad.len());
        self.mad_mut().copy_from_slice(mad);
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// 0, or the errno of a failed send.
    pub fn status(&self) -> u32 {
        self.header.status
    }

    /// The remote address.
    pub fn address(&self) -> &Address {
        &self.header.addr
    }

    /// The remote address, to be set.
    pub fn address_mut(&mut self) -> &mut Address {
        &mut self.header.addr
    }

    /// Sets the address from values in host order; path bits, GRH and P_Key index stay.
    pub fn set_addr(&mut self, lid: u16, qpn: u32, sl: u8, qkey: u32) {
        let addr = &mut self.header.addr;
        (addr.lid, addr.qpn, addr.sl, addr.qkey) = (lid, qpn, sl, qkey);
    }

    /// Sets the address from values in network order; path bits, GRH and P_Key index stay.
    pub fn set_addr_net(&mut self, lid: u16, qpn: u32, sl: u8, qkey: u32) {
        self.set_addr(u16::from_be(lid), u32::from_be(qpn), sl, u32::from_be(qkey));
    }

    /// Sets or removes the global route header; its flow label is in host order. The index of
    /// the local GID is taken over, which the C library forgets.
    pub fn set_grh(&mut self, grh: Option<Grh>) {
        self.header.addr.grh = grh;
    }

    /// Sets or removes the global route header; its flow label is in network order. (The C
    /// library declares this function and never defines it.)
    pub fn set_grh_net(&mut self, grh: Option<Grh>) {
        self.header.addr.grh = grh.map(|g| Grh {
            flow_label: u32::from_be(g.flow_label),
            ..g
        });
    }

    /// Index into the local P_Key table. [`Layout::Old`] does not carry it: 0 is received, and
    /// 0 is used in sending.
    pub fn pkey_index(&self) -> u16 {
        self.header.addr.pkey_index
    }

    /// Sets the index into the local P_Key table.
    pub fn set_pkey_index(&mut self, index: u16) {
        self.header.addr.pkey_index = index;
    }

    /// Header and MAD as they go into one `write`.
    pub(crate) fn prepare(
        &mut self,
        layout: Layout,
        agent: AgentId,
        len: usize,
        reply: Reply,
    ) -> Result<&[u8]> {
        if len > self.capacity() {
            return Err(Error::BufferTooSmall {
                capacity: self.capacity(),
            });
        }
        let total = padded_len(&self.raw[MAX_HEADER..MAX_HEADER + len]);
        self.raw[MAX_HEADER + len..MAX_HEADER + total.max(len)].fill(0);
        let start = MAX_HEADER - layout.header_len();
        let (timeout_ms, retries) = reply.to_fields();
        self.header = Header {
            agent_id: agent.0,
            status: 0,
            timeout_ms,
            retries,
            length: u32::try_from(layout.header_len() + total).unwrap_or(u32::MAX),
            addr: self.header.addr,
        };
        let head = self.header.encode(layout);
        self.raw[start..MAX_HEADER].copy_from_slice(&head[..layout.header_len()]);
        Ok(&self.raw[start..MAX_HEADER + total])
    }

    /// Lets `read` fill header and MAD. `Ok` is the number of MAD bytes, `None` if not even a
    /// header came. The header is taken over after success and after ENOSPC, when the device has
    /// stored it too.
    pub(crate) fn receive(
        &mut self,
        layout: Layout,
        read: impl FnOnce(&mut [u8]) -> std::result::Result<usize, Errno>,
    ) -> std::result::Result<Option<usize>, Errno> {
        let start = MAX_HEADER - layout.header_len();
        let got = read(&mut self.raw[start..]);
        if matches!(got, Ok(_) | Err(Errno::ENOSPC)) {
            self.header = Header::decode(layout, &self.raw[start..MAX_HEADER]);
        }
        let len = got?.checked_sub(layout.header_len());
        self.len = len.unwrap_or(0);
        Ok(len)
    }
}

/// The text of the C library's `umad_dump`, without the process number in front.
impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&dump::buffer(&self.header))
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("header", &self.header)
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRH: Grh = Grh {
        gid: [0xfe; 16],
        gid_index: 3,
        hop_limit: 64,
        traffic_class: 5,
        flow_label: 0x0001_0203,
    };

    fn sent(buffer: &mut Buffer, layout: Layout, len: usize) -> Vec<u8> {
        let packet = buffer.prepare(layout, AgentId(2), len, Reply::None);
        packet.unwrap().to_vec()
    }

    /// Bytes at their places in the kernel's header.
    #[test]
    fn set_and_sent() {
        let mut b = Buffer::new();
        b.mad_mut().fill(0xaa);
        b.set_addr(0x1234, 1, 3, 0x8001_0000);
        b.set_grh(Some(GRH));
        b.set_pkey_index(0x0102);
        let raw = sent(&mut b, Layout::New, 256);
        assert_eq!(raw.len(), 64 + 256);
        assert_eq!(raw[20..31], [0, 0, 0, 1, 0x80, 1, 0, 0, 0x12, 0x34, 3]);
        assert_eq!(raw[32..36], [1, 3, 64, 5]);
        assert_eq!(raw[52..56], [0, 1, 2, 3]);
        assert_eq!(raw[56..58], 0x0102u16.to_ne_bytes());
        assert_eq!(raw[64..], [0xaa; 256]);
        let raw = sent(&mut b, Layout::Old, 256);
        assert_eq!((raw.len(), raw[56]), (56 + 256, 0xaa));
        // Shorter: whole, and zero where nothing was given.
        let raw = sent(&mut b, Layout::Old, 30);
        assert_eq!((raw.len(), raw[56 + 29]), (56 + 256, 0xaa));
        assert_eq!(raw[56 + 30..], [0; 226]);
        b.set_grh(None);
        assert_eq!(sent(&mut b, Layout::Old, 256)[32], 0);
    }

    #[test]
    fn network_order() {
        let mut b = Buffer::new();
        b.set_addr_net(
            u16::from_ne_bytes([0x12, 0x34]),
            u32::from_ne_bytes([0, 0, 0, 1]),
            3,
            u32::from_ne_bytes([0x80, 1, 0, 0]),
        );
        b.set_grh_net(Some(Grh {
            flow_label: u32::from_ne_bytes([0, 1, 2, 3]),
            ..GRH
        }));
        let raw = sent(&mut b, Layout::New, 256);
        assert_eq!(raw[20..31], [0, 0, 0, 1, 0x80, 1, 0, 0, 0x12, 0x34, 3]);
        assert_eq!(raw[52..56], [0, 1, 2, 3]);
        assert_eq!(b.address().grh, Some(GRH));
    }

    #[test]
    fn received() {
        let mut b = Buffer::new();
        let got = b.receive(Layout::Old, |raw| {
            assert_eq!(raw.len(), 56 + 256);
            raw[4..8].copy_from_slice(&110u32.to_ne_bytes());
            raw[56] = 7;
            Ok(56 + 24)
        });
        assert_eq!(got, Ok(Some(24)));
        assert_eq!((b.status(), b.len(), b.mad()[0]), (110, 24, 7));
        // Not even a header, or nothing at all: no bytes in use.
        assert_eq!(b.receive(Layout::Old, |_| Ok(3)), Ok(None));
        assert!(b.is_empty());
        let none = b.receive(Layout::New, |_| Err(Errno::EAGAIN));
        assert_eq!(none, Err(Errno::EAGAIN));
    }

    #[test]
    fn grows() {
        let mut b = Buffer::with_capacity(1);
        assert_eq!(b.capacity(), 256);
        b.set_mad(&[1; 300]);
        assert_eq!((b.len(), b.capacity()), (300, 300));
        let none = Reply::None;
        assert!(b.prepare(Layout::New, AgentId(0), 301, none).is_err());
        assert_eq!(sent(&mut b, Layout::New, 300).len(), 364);
    }
}
