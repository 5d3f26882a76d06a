//! Global identifiers.

use std::fmt;
use std::net::Ipv6Addr;

/// A 128-bit GID: subnet prefix and GUID, or a multicast group. Displayed in
/// the notation of IPv6, as the usual tools do.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// From the subnet prefix and the port's GUID.
    #[inline]
    pub const fn new(prefix: u64, guid: u64) -> Self {
        Gid(((prefix as u128) << 64 | guid as u128).to_be_bytes())
    }

    /// The upper half.
    #[inline]
    pub const fn prefix(self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    /// The lower half.
    #[inline]
    pub const fn guid(self) -> u64 {
        u128::from_be_bytes(self.0) as u64
    }

    /// A multicast group's (0xFF…).
    pub const fn is_multicast(self) -> bool {
        self.0[0] == 0xff
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
