//! Link width and speed: codes, names, and the effective data rate.
//!
//! Codes are PortInfo's (InfiniBand Architecture Specification, volume 1, 14.2.5.6).
//! An unknown code shows as `???`, never as a guess.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::mad::LinkWidth;
use crate::mad::LinkWidths;

/// The widest of a set of widths (LinkWidthSupported), by lanes: 2x is the highest bit of the
/// mask, not the most lanes.
pub fn widest(widths: LinkWidths) -> Option<LinkWidth> {
    LinkWidth::KNOWN
        .iter()
        .copied()
        .filter(|w| widths.0 & w.code() != 0)
        .max_by_key(|w| w.lanes())
}

/// An active link speed, per lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkSpeed {
    /// A combination of codes that names no speed.
    Unknown,
    /// 2.5 Gb/s signalling.
    Sdr,
    /// 5 Gb/s.
    Ddr,
    /// 10 Gb/s, 8b/10b.
    Qdr,
    /// 10.3 Gb/s, 64b/66b (vendor extension).
    Fdr10,
    /// 14.1 Gb/s.
    Fdr,
    /// 25.8 Gb/s.
    Edr,
    /// 53.1 Gb/s.
    Hdr,
    /// 106.3 Gb/s.
    Ndr,
    /// 212.5 Gb/s.
    Xdr,
}

impl LinkSpeed {
    /// From the active codes of PortInfo: LinkSpeedActive, LinkSpeedExtActive,
    /// LinkSpeedExtActive2 (0 where not supported) and the FDR10 bit.
    pub const fn from_codes(basic: u8, ext: u8, ext2: u8, fdr10: bool) -> LinkSpeed {
        match (ext2, ext) {
            (1, _) => LinkSpeed::Xdr,
            (0, 1) => LinkSpeed::Fdr,
            (0, 2) => LinkSpeed::Edr,
            (0, 4) => LinkSpeed::Hdr,
            (0, 8) => LinkSpeed::Ndr,
            (0, 0) => match basic {
                1 => LinkSpeed::Sdr,
                2 => LinkSpeed::Ddr,
                4 if fdr10 => LinkSpeed::Fdr10,
                4 => LinkSpeed::Qdr,
                _ => LinkSpeed::Unknown,
            },
            _ => LinkSpeed::Unknown,
        }
    }

    /// What one lane carries on the wire in Gbit/s, before any coding is taken off; `None` if
    /// unknown (InfiniBand Architecture Specification, volume 2, chapter 5; PAM4 from HDR on:
    /// two bits a symbol).
    pub const fn signalling_gbps(self) -> Option<f64> {
        match self {
            LinkSpeed::Unknown => None,
            LinkSpeed::Sdr => Some(2.5),
            LinkSpeed::Ddr => Some(5.0),
            LinkSpeed::Qdr => Some(10.0),
            LinkSpeed::Fdr10 => Some(10.3125),
            LinkSpeed::Fdr => Some(14.0625),
            LinkSpeed::Edr => Some(25.78125),
            LinkSpeed::Hdr => Some(53.125),
            LinkSpeed::Ndr => Some(106.25),
            LinkSpeed::Xdr => Some(212.5),
        }
    }

    /// Effective data rate of one lane in Gbit/s, after line coding; `None` if unknown.
    pub const fn lane_gbps(self) -> Option<f64> {
        match self {
            LinkSpeed::Unknown => None,
            LinkSpeed::Sdr => Some(2.0),
            LinkSpeed::Ddr => Some(4.0),
            LinkSpeed::Qdr => Some(8.0),
            LinkSpeed::Fdr10 => Some(10.0),
            // 14.0625 Gbaud x 64/66.
            LinkSpeed::Fdr => Some(13.64),
            LinkSpeed::Edr => Some(25.0),
            LinkSpeed::Hdr => Some(50.0),
            LinkSpeed::Ndr => Some(100.0),
            LinkSpeed::Xdr => Some(200.0),
        }
    }
}

impl LinkSpeed {
    /// Every speed that has a name.
    pub const KNOWN: [LinkSpeed; 9] = [
        LinkSpeed::Sdr,
        LinkSpeed::Ddr,
        LinkSpeed::Qdr,
        LinkSpeed::Fdr10,
        LinkSpeed::Fdr,
        LinkSpeed::Edr,
        LinkSpeed::Hdr,
        LinkSpeed::Ndr,
        LinkSpeed::Xdr,
    ];

    /// The speed of this name.
    pub fn from_name(name: &str) -> Option<LinkSpeed> {
        LinkSpeed::KNOWN.into_iter().find(|s| s.name() == name)
    }

    /// Its name; `???` if it has none.
    pub const fn name(self) -> &'static str {
        match self {
            LinkSpeed::Unknown => "???",
            LinkSpeed::Sdr => "SDR",
            LinkSpeed::Ddr => "DDR",
            LinkSpeed::Qdr => "QDR",
            LinkSpeed::Fdr10 => "FDR10",
            LinkSpeed::Fdr => "FDR",
            LinkSpeed::Edr => "EDR",
            LinkSpeed::Hdr => "HDR",
            LinkSpeed::Ndr => "NDR",
            LinkSpeed::Xdr => "XDR",
        }
    }
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Effective data rate of a link in Gbit/s, one direction; `None` if a code is unknown.
pub fn effective_gbps(width: LinkWidth, speed: LinkSpeed) -> Option<f64> {
    Some(f64::from(width.lanes()?) * speed.lane_gbps()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_follow_the_specification_and_never_guess() {
        assert_eq!(LinkSpeed::from_codes(4, 0, 0, false), LinkSpeed::Qdr);
        assert_eq!(LinkSpeed::from_codes(4, 0, 0, true), LinkSpeed::Fdr10);
        // SpeedActive stays at QDR while the extended code names the speed.
        assert_eq!(LinkSpeed::from_codes(4, 8, 0, false), LinkSpeed::Ndr);
        assert_eq!(LinkSpeed::from_codes(0, 8, 1, false), LinkSpeed::Xdr);
        assert_eq!(LinkSpeed::from_codes(4, 16, 0, false).to_string(), "???");
        assert_eq!(LinkSpeed::from_codes(8, 0, 0, false).to_string(), "???");
    }

    #[test]
    fn a_4x_hdr_link_carries_200_gbit() {
        // HDR InfiniBand is sold as 200 Gb/s at 4x; 2x HDR as 100 Gb/s.
        assert_eq!(effective_gbps(LinkWidth::X4, LinkSpeed::Hdr), Some(200.0));
        assert_eq!(effective_gbps(LinkWidth::X2, LinkSpeed::Hdr), Some(100.0));
        assert_eq!(effective_gbps(LinkWidth::new(3), LinkSpeed::Hdr), None);
    }

    #[test]
    fn two_lanes_are_code_16_and_the_best_width_goes_by_lanes() {
        assert_eq!(LinkWidth::new(16), LinkWidth::X2);
        // 1x, 2x and 4x supported: code 16 is the largest number, 4x the most lanes.
        assert_eq!(widest(LinkWidths(0x13)), Some(LinkWidth::X4));
        assert_eq!(widest(LinkWidths(0)), None);
    }
}
