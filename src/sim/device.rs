//! What devices of each generation can do: speeds, capability masks, optional counters.

use crate::fabric::{LinkSpeed, NodeKind};
use crate::mad::{ClassCaps, ClassCaps2, PortCaps, PortCaps2};

/// Mellanox's vendor id.
pub const VENDOR: u32 = 0x2c9;

/// A generation of devices, named after the fastest link it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// InfiniHost, InfiniScale III: no 64-bit counters.
    Ddr,
    /// ConnectX-2, InfiniScale IV: the first four 64-bit counters.
    Qdr,
    /// ConnectX-3, SwitchX: FDR and FDR10.
    Fdr,
    /// ConnectX-4 and -5, Switch-IB: 64-bit error counters, PortInfoExtended.
    Edr,
    /// ConnectX-6, Quantum: RS-FEC, 2x links.
    Hdr,
    /// ConnectX-7, Quantum-2.
    Ndr,
    /// ConnectX-8, Quantum-3.
    Xdr,
}

use Generation::{Ddr, Edr, Fdr, Hdr, Ndr, Qdr, Xdr};

/// Device ids of each generation, the usual one first: adapters, then switches.
const DEVICES: &[(Generation, &[u16], &[u16])] = &[
    (Ddr, &[0x6282, 0x6274, 0x5a44], &[0xb924]),
    (Qdr, &[0x673c, 0x6732, 0x634a, 0x1002], &[0xbd36]),
    (Fdr, &[0x1003, 0x1007, 0x1011], &[0xc738]),
    (
        Edr,
        &[0x1017, 0x1013, 0x1015, 0x1019, 0xa2d2],
        &[0xcb20, 0xcf08],
    ),
    (Hdr, &[0x101b, 0x101d, 0x101f, 0xa2d6, 0xcf09], &[0xd2f0]),
    (Ndr, &[0x1021, 0xa2dc], &[0xd2f2]),
    (Xdr, &[0x1023], &[0xd2f4]),
];

impl Generation {
    /// The generation of a device id, if it is a known one.
    pub fn of_device(id: u16) -> Option<Generation> {
        DEVICES
            .iter()
            .find(|(_, cas, switches)| cas.contains(&id) || switches.contains(&id))
            .map(|d| d.0)
    }

    /// The oldest generation that can run a link at this speed.
    pub fn for_speed(speed: LinkSpeed) -> Generation {
        match speed {
            LinkSpeed::Unknown | LinkSpeed::Sdr | LinkSpeed::Ddr => Ddr,
            LinkSpeed::Qdr => Qdr,
            LinkSpeed::Fdr10 | LinkSpeed::Fdr => Fdr,
            LinkSpeed::Edr => Edr,
            LinkSpeed::Hdr => Hdr,
            LinkSpeed::Ndr => Ndr,
            LinkSpeed::Xdr => Xdr,
        }
    }

    /// The fastest link.
    pub fn speed(self) -> LinkSpeed {
        match self {
            Ddr => LinkSpeed::Ddr,
            Qdr => LinkSpeed::Qdr,
            Fdr => LinkSpeed::Fdr,
            Edr => LinkSpeed::Edr,
            Hdr => LinkSpeed::Hdr,
            Ndr => LinkSpeed::Ndr,
            Xdr => LinkSpeed::Xdr,
        }
    }

    /// The usual device id.
    pub fn device(self, kind: NodeKind) -> u16 {
        DEVICES
            .iter()
            .find(|d| d.0 == self)
            .and_then(|(_, cas, switches)| match kind {
                NodeKind::Switch => switches.first(),
                _ => cas.first(),
            })
            .copied()
            .unwrap_or(0)
    }

    /// CapabilityMask of PerfMgt's ClassPortInfo and its second mask.
    pub fn perf_caps(self, kind: NodeKind) -> (ClassCaps, ClassCaps2) {
        let mut caps = match self {
            Ddr => ClassCaps(0),
            Qdr => ClassCaps::EXT_WIDTH_NO_IETF | ClassCaps::XMIT_WAIT,
            _ => ClassCaps::EXT_WIDTH | ClassCaps::XMIT_WAIT,
        };
        if kind == NodeKind::Switch && self >= Qdr {
            caps = caps | ClassCaps::ALL_PORT_SELECT;
        }
        if kind != NodeKind::Switch && self >= Edr {
            caps = caps | ClassCaps::QP1_DROPPED;
        }
        if self >= Hdr {
            caps = caps | ClassCaps::RS_FEC;
        }
        let mut caps2 = ClassCaps2(0);
        if self >= Edr {
            caps = caps | ClassCaps::CAP_MASK2;
            caps2 = ClassCaps2::ADDITIONAL_EXT;
        }
        (caps, caps2)
    }

    /// Both capability masks of PortInfo; a switch has them at port 0.
    pub fn port_caps(self, kind: NodeKind) -> (PortCaps, PortCaps2) {
        let mut caps = PortCaps::TRAP
            | PortCaps::SL_MAPPING
            | PortCaps::SYSTEM_IMAGE_GUID
            | PortCaps::CLIENT_REREGISTER;
        if kind == NodeKind::Switch {
            caps = caps | PortCaps::CAP_MASK_NOTICE | PortCaps::MCAST_FDB_TOP;
        } else {
            caps = caps | PortCaps::AUTO_MIGRATION | PortCaps::COM_MGT;
        }
        let mut caps2 = PortCaps2(0);
        if self >= Fdr {
            caps = caps | PortCaps::EXT_SPEEDS | PortCaps::OTHER_LOCAL_CHANGES;
        }
        if self >= Edr {
            caps = caps | PortCaps::CAP_MASK2;
            caps2 = caps2 | PortCaps2::PORT_INFO_EXTENDED | PortCaps2::SET_NODE_DESCRIPTION;
        }
        if self >= Hdr {
            caps2 = caps2 | PortCaps2::LINK_WIDTH_2X | PortCaps2::HDR;
        }
        if self >= Ndr {
            caps2 = caps2 | PortCaps2::NDR;
        }
        if self >= Xdr {
            caps2 = caps2 | PortCaps2::EXT_SPEEDS2 | PortCaps2::XDR;
        }
        (caps, caps2)
    }
}

/// The codes that PortInfo has for a speed: basic, extended, second extended, FDR10.
///
/// As devices do, the basic speed stays at QDR while an extended one is active.
pub fn speed_codes(speed: LinkSpeed) -> (u8, u8, u8, bool) {
    match speed {
        LinkSpeed::Unknown => (8, 0, 0, false),
        LinkSpeed::Sdr => (1, 0, 0, false),
        LinkSpeed::Ddr => (2, 0, 0, false),
        LinkSpeed::Qdr => (4, 0, 0, false),
        LinkSpeed::Fdr10 => (4, 0, 0, true),
        LinkSpeed::Fdr => (4, 1, 0, false),
        LinkSpeed::Edr => (4, 2, 0, false),
        LinkSpeed::Hdr => (4, 4, 0, false),
        LinkSpeed::Ndr => (4, 8, 0, false),
        LinkSpeed::Xdr => (4, 0, 1, false),
    }
}

/// The masks of all speeds up to a fastest one: basic, extended, second extended, FDR10.
pub fn speed_masks(best: LinkSpeed) -> (u8, u8, u8, bool) {
    let basic = match best {
        LinkSpeed::Unknown => 8,
        LinkSpeed::Sdr => 1,
        LinkSpeed::Ddr => 3,
        _ => 7,
    };
    let ext = match best {
        LinkSpeed::Fdr => 1,
        LinkSpeed::Edr => 3,
        LinkSpeed::Hdr => 7,
        LinkSpeed::Ndr | LinkSpeed::Xdr => 15,
        _ => 0,
    };
    let fdr10 = matches!(best, LinkSpeed::Fdr10 | LinkSpeed::Fdr);
    (basic, ext, u8::from(best == LinkSpeed::Xdr), fdr10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_codes_read_back_as_the_speed() {
        // fabric::LinkSpeed decodes them by the specification's table.
        for speed in LinkSpeed::KNOWN.into_iter().chain([LinkSpeed::Unknown]) {
            let (basic, ext, ext2, fdr10) = speed_codes(speed);
            assert_eq!(LinkSpeed::from_codes(basic, ext, ext2, fdr10), speed);
        }
    }

    #[test]
    fn an_old_switch_has_no_wide_counters_and_a_new_one_has_all() {
        let (caps, _) = Generation::Ddr.perf_caps(NodeKind::Switch);
        assert!(!caps.has(ClassCaps::EXT_WIDTH) && !caps.has(ClassCaps::EXT_WIDTH_NO_IETF));
        let (caps, caps2) = Generation::Ndr.perf_caps(NodeKind::Switch);
        assert!(caps.has(ClassCaps::EXT_WIDTH | ClassCaps::ALL_PORT_SELECT));
        assert!(caps2.has(ClassCaps2::ADDITIONAL_EXT));
        // 0xd2f2 is Quantum-2 in the PCI and OpenSM device tables.
        assert_eq!(Generation::of_device(0xd2f2), Some(Generation::Ndr));
    }
}
