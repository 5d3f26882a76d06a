//! Is a link slower than both of its ends could be?
//!
//! Both ends say what they support; the best that both support is what the link should run at.
//! Whether a field is valid at all is told by capability masks, and those of a switch live at its
//! port 0: judged by the port's own masks, healthy links would be flagged.

use std::fmt;
use std::str::FromStr;

use super::{LinkSpeed, LinkWidth, Node, PortKey, Topology, widest};
use crate::mad::{LinkSpeedsExt2, LinkWidths, MlnxSpeeds, PortCaps, PortCaps2};

/// What one end of a link supports, as far as its masks say that the fields are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ability {
    /// LinkWidthSupported.
    pub widths: u8,
    /// LinkSpeedSupported.
    pub basic: u8,
    /// The vendor's FDR10.
    pub fdr10: bool,
    /// LinkSpeedExtSupported.
    pub ext: u8,
    /// LinkSpeedExtSupported2.
    pub ext2: u8,
}

impl Ability {
    /// What `port` of `node` supports; `None` before its PortInfo was read.
    pub fn of(node: &Node, port: u8) -> Option<Ability> {
        let p = node.port(port)?;
        let info = p.info.as_ref()?;
        let (mask, mask2) = node.capability_masks(port)?;
        Some(Ability {
            widths: info.link_width_supported().0,
            basic: info.link_speed_supported().0,
            fdr10: p
                .vendor
                .as_ref()
                .is_some_and(|v| v.speed_supported().has(MlnxSpeeds::FDR10)),
            ext: if mask.has(PortCaps::EXT_SPEEDS) {
                info.link_speed_ext_supported().0
            } else {
                0
            },
            ext2: if mask2.has(PortCaps2::EXT_SPEEDS2) {
                info.link_speed_ext_supported2().0
            } else {
                0
            },
        })
    }

    /// What both ends support.
    pub const fn and(self, other: Ability) -> Ability {
        Ability {
            widths: self.widths & other.widths,
            basic: self.basic & other.basic,
            fdr10: self.fdr10 && other.fdr10,
            ext: self.ext & other.ext,
            ext2: self.ext2 & other.ext2,
        }
    }

    /// The widest supported width.
    pub fn width(self) -> Option<LinkWidth> {
        widest(LinkWidths(self.widths))
    }

    /// The fastest supported speed: extended ones first, then FDR10, then the basic ones. Bits
    /// without a name do not count.
    pub fn speed(self) -> Option<LinkSpeed> {
        if self.ext2 & LinkSpeedsExt2::XDR.0 != 0 {
            return Some(LinkSpeed::Xdr);
        }
        let ext = [
            (8, LinkSpeed::Ndr),
            (4, LinkSpeed::Hdr),
            (2, LinkSpeed::Edr),
            (1, LinkSpeed::Fdr),
        ];
        let basic = [
            (4, LinkSpeed::Qdr),
            (2, LinkSpeed::Ddr),
            (1, LinkSpeed::Sdr),
        ];
        let highest = |mask: u8, table: &[(u8, LinkSpeed)]| {
            table.iter().find(|(bit, _)| mask & bit != 0).map(|t| t.1)
        };
        highest(self.ext, &ext)
            .or(self.fdr10.then_some(LinkSpeed::Fdr10))
            .or_else(|| highest(self.basic, &basic))
    }
}

/// What a link could be and is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// The width that both ends support, if the active one is less.
    pub width: Option<LinkWidth>,
    /// The speed that both ends support, if the active one is less.
    pub speed: Option<LinkSpeed>,
}

impl Below {
    /// Compares what is active with what both ends can do. Unknown codes are never "below".
    pub fn of(width: LinkWidth, speed: LinkSpeed, both: Ability) -> Below {
        Below {
            width: both
                .width()
                .filter(|best| width.lanes().is_some() && best.lanes() > width.lanes()),
            speed: both
                .speed()
                .filter(|best| speed != LinkSpeed::Unknown && *best > speed),
        }
    }

    /// True if either is below its best.
    pub const fn any(&self) -> bool {
        self.width.is_some() || self.speed.is_some()
    }
}

/// What a link runs at, and what both of its ends could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shortfall {
    /// Active width.
    pub width: LinkWidth,
    /// Active speed.
    pub speed: LinkSpeed,
    /// The width that it could have.
    pub best_width: LinkWidth,
    /// The speed that it could have.
    pub best_speed: LinkSpeed,
}

/// As a keyframe has it.
impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortfall {
            width,
            speed,
            best_width,
            best_speed,
        } = self;
        write!(f, "{width}/{speed}/{best_width}/{best_speed}")
    }
}

impl FromStr for Shortfall {
    type Err = ();

    fn from_str(text: &str) -> Result<Shortfall, ()> {
        let mut parts = text.split('/');
        let mut pair = || {
            let (width, speed) = (parts.next()?, parts.next()?);
            let known = LinkWidth::KNOWN.iter();
            let width = known.copied().find(|w| w.word() == Some(width))?;
            Some((width, LinkSpeed::from_name(speed)?))
        };
        let (width, speed) = pair().ok_or(())?;
        let (best_width, best_speed) = pair().ok_or(())?;
        Ok(Shortfall {
            width,
            speed,
            best_width,
            best_speed,
        })
    }
}

/// A port's link, as it runs and as it could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The other end, if both ends are up.
    pub peer: Option<PortKey>,
    /// What this end says that the link is below.
    pub below: Option<Shortfall>,
}

/// The link at a port of `near`; nothing below its best if it is down, or an end is unknown.
pub fn link_of(topology: &Topology, near: &Node, port: u8) -> Link {
    let mut link = Link::default();
    let mut look = || {
        let own = near.port(port).filter(|p| p.is_up())?;
        let peer = own.peer?;
        let far = topology.node(peer.node)?;
        if far.port(peer.port)?.is_up() {
            link.peer = Some(peer);
        }
        let both = Ability::of(near, port)?.and(Ability::of(far, peer.port)?);
        let (width, speed) = (own.width()?, near.speed(port)?);
        let below = Below::of(width, speed, both);
        below.any().then(|| Shortfall {
            width,
            speed,
            best_width: below.width.unwrap_or(width),
            best_speed: below.speed.unwrap_or(speed),
        })
    };
    let below = look();
    Link { below, ..link }
}

/// What the link at `key` could be and is not; nothing if it is down, or an end is unknown.
pub fn below_best(topology: &Topology, key: PortKey) -> Below {
    let link = topology
        .node(key.node)
        .map(|near| link_of(topology, near, key.port));
    link.and_then(|l| l.below)
        .map_or_else(Below::default, |s| Below {
            width: Some(s.best_width).filter(|best| *best != s.width),
            speed: Some(s.best_speed).filter(|best| *best != s.speed),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NDR_4X: Ability = Ability {
        widths: 0x13, // 1x, 4x, 2x
        basic: 7,
        fdr10: false,
        ext: 0xF,
        ext2: 0,
    };

    #[test]
    fn a_link_at_its_best_is_not_flagged() {
        let both = NDR_4X.and(NDR_4X);
        assert_eq!(
            Below::of(LinkWidth::X4, LinkSpeed::Ndr, both),
            Below::default()
        );
    }

    #[test]
    fn the_weaker_end_sets_the_best() {
        // An EDR adapter (FDR and EDR, 1x and 4x) on an NDR switch: EDR is all there can be.
        let edr = Ability {
            widths: 3,
            ext: 3,
            ..NDR_4X
        };
        let both = NDR_4X.and(edr);
        assert!(!Below::of(LinkWidth::X4, LinkSpeed::Edr, both).any());
        let below = Below::of(LinkWidth::X1, LinkSpeed::Qdr, both);
        assert_eq!(
            (below.width, below.speed),
            (Some(LinkWidth::X4), Some(LinkSpeed::Edr))
        );
    }

    #[test]
    fn two_lanes_are_below_four_though_their_bit_is_higher() {
        assert_eq!(
            Below::of(LinkWidth::X2, LinkSpeed::Ndr, NDR_4X).width,
            Some(LinkWidth::X4)
        );
    }

    #[test]
    fn fdr10_counts_above_qdr_and_only_if_both_ends_have_it() {
        let qdr = Ability {
            widths: 3,
            basic: 7,
            fdr10: true,
            ext: 0,
            ext2: 0,
        };
        assert_eq!(
            Below::of(LinkWidth::X4, LinkSpeed::Qdr, qdr).speed,
            Some(LinkSpeed::Fdr10)
        );
        let one = qdr.and(Ability {
            fdr10: false,
            ..qdr
        });
        assert!(!Below::of(LinkWidth::X4, LinkSpeed::Qdr, one).any());
        // An extended speed is checked first.
        assert_eq!(Ability { ext: 1, ..qdr }.speed(), Some(LinkSpeed::Fdr));
    }

    #[test]
    fn xdr_is_a_mask_of_its_own() {
        assert_eq!(Ability { ext2: 1, ..NDR_4X }.speed(), Some(LinkSpeed::Xdr));
    }

    #[test]
    fn unknown_codes_are_never_below() {
        assert!(!Below::of(LinkWidth::Unknown(3), LinkSpeed::Unknown, NDR_4X).any());
        assert_eq!(
            Ability {
                ext: 0x10,
                basic: 8,
                ..Ability::default()
            }
            .speed(),
            None
        );
    }

    #[test]
    fn a_shortfall_is_read_back_as_it_was_written() {
        let hdr = Shortfall {
            width: LinkWidth::X4,
            speed: LinkSpeed::Hdr,
            best_width: LinkWidth::X12,
            best_speed: LinkSpeed::Ndr,
        };
        assert_eq!(hdr.to_string(), "4x/HDR/12x/NDR");
        assert_eq!("4x/HDR/12x/NDR".parse(), Ok(hdr));
        for text in [
            "",
            "4x",
            "4x/HDR",
            "4x/HDR/12x",
            "3x/HDR/4x/NDR",
            "4x/???/4x/NDR",
        ] {
            assert_eq!(text.parse::<Shortfall>(), Err(()), "{text}");
        }
    }
}
