//! Code points: enumerations and bit masks of the wire, open to values that
//! this program does not know.
//!
//! An unknown value is kept as it came, so that encoding gives back the same
//! bits, and it is shown as unknown: never rounded to a neighbour.

/// Declares an enumeration of a byte- or word-wide field that keeps values it
/// does not know in `Unknown`.
///
/// The trailing `else "text"` replaces the usual `unknown (0x..)`.
macro_rules! open {
    (
        $(#[$doc:meta])*
        pub enum $name:ident($repr:ty) {
            $( $(#[$vdoc:meta])* $variant:ident = $code:literal => $text:literal, )*
        }
        $(else $other:literal)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[$vdoc])* $variant, )*
            /// A value without a name, as it came.
            Unknown($repr),
        }

        impl $name {
            /// Every value that has a name.
            pub const KNOWN: &'static [$name] = &[$( $name::$variant, )*];

            /// The value for a code on the wire.
            #[inline]
            pub const fn new(code: $repr) -> Self {
                match code {
                    $( $code => $name::$variant, )*
                    other => $name::Unknown(other),
                }
            }

            /// The code on the wire.
            #[inline]
            pub const fn code(self) -> $repr {
                match self {
                    $( $name::$variant => $code, )*
                    $name::Unknown(other) => other,
                }
            }

            /// The field's word for it, or `None` for a value without a name.
            pub const fn word(self) -> Option<&'static str> {
                match self {
                    $( $name::$variant => Some($text), )*
                    $name::Unknown(_) => None,
                }
            }

            fn show(raw: u64, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Cut to the field's width on reading, so nothing is lost here.
                std::fmt::Display::fmt(&Self::new(raw as $repr), f)
            }
        }

        impl From<$repr> for $name {
            fn from(code: $repr) -> Self {
                Self::new(code)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.word() {
                    Some(word) => f.pad(word),
                    None => open!(@other self, f $(, $other)?),
                }
            }
        }

        impl $crate::mad::attr::FieldType for $name {
            const BITS: usize = <$repr>::BITS as usize;
            const SHOW: $crate::mad::field::Show = $crate::mad::field::Show::Coded($name::show);
            #[inline(always)]
            fn read(bytes: &[u8], bit: usize, width: usize) -> Self {
                Self::new($crate::mad::attr::get_bits(bytes, bit, width) as $repr)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8], bit: usize, width: usize) {
                $crate::mad::attr::put_bits(bytes, bit, width, u64::from(self.code()));
            }
        }
    };
    (@other $self:ident, $f:ident) => {
        write!($f, "unknown ({:#x})", $self.code())
    };
    (@other $self:ident, $f:ident, $other:literal) => {
        $f.pad($other)
    };
}

/// Declares a set of bits with a name each.
macro_rules! mask {
    (
        $(#[$doc:meta])*
        pub struct $name:ident($repr:ty), $sep:literal {
            $( $(#[$vdoc:meta])* $bit:ident = $code:literal => $text:literal, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $repr);

        impl $name {
            $( $(#[$vdoc])* pub const $bit: $name = $name($code); )*

            /// The bits that have a name, lowest first.
            pub const NAMES: &'static [($repr, &'static str)] = &[$( ($code, $text), )*];

            /// Whether every bit of `other` is set.
            #[inline]
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits that both have.
            #[inline]
            pub const fn and(self, other: $name) -> $name {
                $name(self.0 & other.0)
            }

            /// The names of the set bits, then the rest in hex, if any.
            pub fn words(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit == *bit).map(|(_, word)| *word)
            }

            fn show(raw: u64, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&$name(raw as $repr), f)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut rest = self.0;
                let mut first = true;
                for (bit, word) in Self::NAMES {
                    if self.0 & bit == *bit {
                        rest &= !bit;
                        write!(f, "{}{word}", if first { "" } else { $sep })?;
                        first = false;
                    }
                }
                if rest != 0 {
                    write!(f, "{}unknown ({rest:#x})", if first { "" } else { $sep })?;
                } else if first {
                    f.write_str("none")?;
                }
                Ok(())
            }
        }

        impl $crate::mad::attr::FieldType for $name {
            const BITS: usize = <$repr>::BITS as usize;
            const SHOW: $crate::mad::field::Show = $crate::mad::field::Show::Coded($name::show);
            #[inline(always)]
            fn read(bytes: &[u8], bit: usize, width: usize) -> Self {
                $name($crate::mad::attr::get_bits(bytes, bit, width) as $repr)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8], bit: usize, width: usize) {
                $crate::mad::attr::put_bits(bytes, bit, width, u64::from(self.0));
            }
        }
    };
}

pub(crate) use {mask, open};

open! {
    /// Management class (spec 13.4.4), byte 1 of every MAD.
    pub enum MgmtClass(u8) {
        SubnLid = 0x01 => "SubnLID",
        SubnAdm = 0x03 => "SubnAdm",
        Perf = 0x04 => "Perf",
        BoardMgt = 0x05 => "BM",
        DevMgt = 0x06 => "DevMgt",
        ComMgt = 0x07 => "ComMgt",
        Snmp = 0x08 => "SNMP",
        DevAdm = 0x10 => "DevAdm",
        BootMgt = 0x11 => "BootMgt",
        Bis = 0x12 => "BIS",
        CongCtrl = 0x21 => "CongCtrl",
        SubnDirected = 0x81 => "SubnDirected",
    }
}

impl MgmtClass {
    /// Subnet management: travels on QP0 and VL15.
    pub const fn is_smp(self) -> bool {
        matches!(self, MgmtClass::SubnLid | MgmtClass::SubnDirected)
    }

    /// Vendor range 1 (0x09–0x0F), or range 2 (0x30–0x4F) with an OUI and RMPP.
    pub const fn vendor_range(self) -> Option<u8> {
        match self.code() {
            0x09..=0x0f => Some(1),
            0x30..=0x4f => Some(2),
            _ => None,
        }
    }

    /// The class version this program speaks.
    pub const fn version(self) -> u8 {
        match self {
            MgmtClass::SubnAdm | MgmtClass::ComMgt | MgmtClass::CongCtrl => 2,
            _ => 1,
        }
    }
}

open! {
    /// Method (spec 13.4.5), byte 3 of every MAD; bit 7 marks a response.
    pub enum Method(u8) {
        Get = 0x01 => "Get",
        Set = 0x02 => "Set",
        Send = 0x03 => "Send",
        Trap = 0x05 => "Trap",
        Report = 0x06 => "Report",
        TrapRepress = 0x07 => "TrapRepress",
        GetTable = 0x12 => "GetTable",
        GetTraceTable = 0x13 => "GetTraceTable",
        GetMulti = 0x14 => "GetMulti",
        Delete = 0x15 => "Delete",
        GetResp = 0x81 => "GetResp",
        ReportResp = 0x86 => "ReportResp",
        GetTableResp = 0x92 => "GetTableResp",
        GetMultiResp = 0x94 => "GetMultiResp",
        DeleteResp = 0x95 => "DeleteResp",
    }
}

impl Method {
    /// A response, and TrapRepress, which is one in all but its bit.
    pub const fn is_response(self) -> bool {
        self.code() & 0x80 != 0 || matches!(self, Method::TrapRepress)
    }

    /// The method that answers this one.
    pub const fn response(self) -> Method {
        match self {
            Method::Set => Method::GetResp,
            Method::Trap => Method::TrapRepress,
            Method::GetTraceTable => Method::GetTableResp,
            other => Method::new(other.code() | 0x80),
        }
    }
}

open! {
    /// NodeInfo.NodeType.
    pub enum NodeType(u8) {
        Ca = 1 => "CA",
        Switch = 2 => "Switch",
        Router = 3 => "Router",
    }
}

open! {
    /// PortInfo.PortState: the logical state.
    pub enum PortState(u8) {
        /// In a Set: leave as it is.
        NoChange = 0 => "NoChange",
        Down = 1 => "Down",
        Init = 2 => "Init",
        Armed = 3 => "Armed",
        Active = 4 => "Active",
        ActiveDefer = 5 => "ActDefer",
    }
}

open! {
    /// PortInfo.PortPhysicalState and LinkDownDefaultState.
    pub enum PhysState(u8) {
        NoChange = 0 => "NoChange",
        Sleep = 1 => "Sleep",
        Polling = 2 => "Polling",
        Disabled = 3 => "Disabled",
        Training = 4 => "Training",
        LinkUp = 5 => "LinkUp",
        Recovery = 6 => "Recovery",
        PhyTest = 7 => "PhyTest",
    }
}

open! {
    /// PortInfo.LinkWidthActive.
    pub enum LinkWidth(u8) {
        X1 = 1 => "1x",
        X4 = 2 => "4x",
        X8 = 4 => "8x",
        X12 = 8 => "12x",
        X2 = 16 => "2x",
    }
    else "???"
}

impl LinkWidth {
    /// Number of lanes, or `None` for a code without a name.
    pub const fn lanes(self) -> Option<u8> {
        match self {
            LinkWidth::X1 => Some(1),
            LinkWidth::X2 => Some(2),
            LinkWidth::X4 => Some(4),
            LinkWidth::X8 => Some(8),
            LinkWidth::X12 => Some(12),
            LinkWidth::Unknown(_) => None,
        }
    }
}

mask! {
    /// PortInfo.LinkWidthSupported and LinkWidthEnabled.
    pub struct LinkWidths(u8), " or " {
        X1 = 1 => "1x",
        X4 = 2 => "4x",
        X8 = 4 => "8x",
        X12 = 8 => "12x",
        X2 = 16 => "2x",
    }
}

open! {
    /// PortInfo.LinkSpeedActive; 0 means that the extended field holds it.
    pub enum LinkSpeed(u8) {
        Extended = 0 => "extended",
        Sdr = 1 => "SDR",
        Ddr = 2 => "DDR",
        Qdr = 4 => "QDR",
    }
    else "???"
}

mask! {
    /// PortInfo.LinkSpeedSupported and LinkSpeedEnabled.
    pub struct LinkSpeeds(u8), " or " {
        SDR = 1 => "SDR",
        DDR = 2 => "DDR",
        QDR = 4 => "QDR",
    }
}

open! {
    /// PortInfo.LinkSpeedExtActive.
    pub enum LinkSpeedExt(u8) {
        None = 0 => "none",
        Fdr = 1 => "FDR",
        Edr = 2 => "EDR",
        Hdr = 4 => "HDR",
        Ndr = 8 => "NDR",
    }
    else "???"
}

mask! {
    /// PortInfo.LinkSpeedExtSupported and LinkSpeedExtEnabled (there 30 means
    /// that extended speeds are disabled, see [`LinkSpeedsExt::is_disabled`]).
    pub struct LinkSpeedsExt(u8), " or " {
        FDR = 1 => "FDR",
        EDR = 2 => "EDR",
        HDR = 4 => "HDR",
        NDR = 8 => "NDR",
    }
}

impl LinkSpeedsExt {
    /// LinkSpeedExtEnabled's code for "extended link speeds disabled".
    pub const fn is_disabled(self) -> bool {
        self.0 == 30
    }
}

open! {
    /// PortInfo.LinkSpeedExtActive2, valid with CapabilityMask2's ExtSpeeds2.
    pub enum LinkSpeedExt2(u8) {
        None = 0 => "none",
        Xdr = 1 => "XDR",
    }
    else "???"
}

mask! {
    /// PortInfo.LinkSpeedExtSupported2 and LinkSpeedExtEnabled2.
    pub struct LinkSpeedsExt2(u8), " or " {
        XDR = 1 => "XDR",
    }
}

mask! {
    /// Speeds of the Mellanox ExtendedPortInfo.
    pub struct MlnxSpeeds(u8), " or " {
        FDR10 = 1 => "FDR10",
    }
}

open! {
    /// SMInfo.SMState.
    pub enum SmState(u8) {
        NotActive = 0 => "NotActive",
        Discovering = 1 => "Discovering",
        Standby = 2 => "Standby",
        Master = 3 => "Master",
    }
}

open! {
    /// MTU code of PortInfo and of SA records.
    pub enum Mtu(u8) {
        B256 = 1 => "256",
        B512 = 2 => "512",
        B1024 = 3 => "1024",
        B2048 = 4 => "2048",
        B4096 = 5 => "4096",
    }
}

impl Mtu {
    /// Octets, or `None` for a code without a meaning.
    pub const fn octets(self) -> Option<u16> {
        match self.code() {
            code @ 1..=5 => Some(128 << code),
            _ => None,
        }
    }
}

open! {
    /// VLCap and OperationalVLs: how many data VLs.
    pub enum Vls(u8) {
        NoChange = 0 => "NoChange",
        Vl0 = 1 => "VL0",
        Vl0To1 = 2 => "VL0-1",
        Vl0To3 = 3 => "VL0-3",
        Vl0To7 = 4 => "VL0-7",
        Vl0To14 = 5 => "VL0-14",
    }
}

open! {
    /// PortInfoExtended.FECModeActive.
    pub enum FecMode(u16) {
        None = 0 => "none",
        FireCode = 1 => "FireCode",
        Rs = 2 => "RS-FEC",
        LlRs = 3 => "LL-RS-FEC",
        Rs2 = 4 => "RS-FEC2",
    }
}

open! {
    /// Notice.Type.
    pub enum NoticeType(u8) {
        Fatal = 0 => "fatal",
        Urgent = 1 => "urgent",
        Security = 2 => "security",
        SubnMgmt = 3 => "SM",
        Info = 4 => "info",
        Empty = 0x7f => "empty",
    }
}

open! {
    /// Notice.ProducerType of a generic notice.
    pub enum ProducerType(u32) {
        Ca = 1 => "CA",
        Switch = 2 => "Switch",
        Router = 3 => "Router",
        ClassMgr = 4 => "SM",
        All = 0xff_ffff => "all",
    }
}

open! {
    /// How an SA query reads an MTU, rate or lifetime.
    pub enum Selector(u8) {
        Greater = 0 => ">",
        Less = 1 => "<",
        Exactly = 2 => "=",
        Largest = 3 => "largest",
    }
}

open! {
    /// Rate code of PathRecord and MCMemberRecord: signalled Gb/s of the link.
    pub enum Rate(u8) {
        G2_5 = 2 => "2.5 Gb/s",
        G10 = 3 => "10 Gb/s",
        G30 = 4 => "30 Gb/s",
        G5 = 5 => "5 Gb/s",
        G20 = 6 => "20 Gb/s",
        G40 = 7 => "40 Gb/s",
        G60 = 8 => "60 Gb/s",
        G80 = 9 => "80 Gb/s",
        G120 = 10 => "120 Gb/s",
        G14 = 11 => "14 Gb/s",
        G56 = 12 => "56 Gb/s",
        G112 = 13 => "112 Gb/s",
        G168 = 14 => "168 Gb/s",
        G25 = 15 => "25 Gb/s",
        G100 = 16 => "100 Gb/s",
        G200 = 17 => "200 Gb/s",
        G300 = 18 => "300 Gb/s",
        G28 = 19 => "28 Gb/s",
        G50 = 20 => "50 Gb/s",
        G400 = 21 => "400 Gb/s",
        G600 = 22 => "600 Gb/s",
        G800 = 23 => "800 Gb/s",
        G1200 = 24 => "1200 Gb/s",
    }
}

mask! {
    /// MCMemberRecord.JoinState.
    pub struct JoinState(u8), ", " {
        FULL = 1 => "full",
        NON = 2 => "non",
        SEND_ONLY_NON = 4 => "send-only non",
        SEND_ONLY_FULL = 8 => "send-only full",
    }
}

mask! {
    /// PortInfo.CapabilityMask.
    pub struct PortCaps(u32), ", " {
        IS_SM = 0x2 => "IsSM",
        NOTICE = 0x4 => "IsNoticeSupported",
        TRAP = 0x8 => "IsTrapSupported",
        OPTIONAL_IPD = 0x10 => "IsOptionalIPDSupported",
        AUTO_MIGRATION = 0x20 => "IsAutomaticMigrationSupported",
        SL_MAPPING = 0x40 => "IsSLMappingSupported",
        MKEY_NVRAM = 0x80 => "IsMKeyNVRAM",
        PKEY_NVRAM = 0x100 => "IsPKeyNVRAM",
        LED_INFO = 0x200 => "IsLedInfoSupported",
        SM_DISABLED = 0x400 => "IsSMdisabled",
        SYSTEM_IMAGE_GUID = 0x800 => "IsSystemImageGUIDSupported",
        PKEY_SWITCH_TRAP = 0x1000 => "IsPkeySwitchExternalPortTrapSupported",
        CABLE_INFO = 0x2000 => "IsCableInfoSupported",
        EXT_SPEEDS = 0x4000 => "IsExtendedSpeedsSupported",
        CAP_MASK2 = 0x8000 => "IsCapabilityMask2Supported",
        COM_MGT = 0x1_0000 => "IsCommunicationManagementSupported",
        SNMP = 0x2_0000 => "IsSNMPTunnelingSupported",
        REINIT = 0x4_0000 => "IsReinitSupported",
        DEV_MGT = 0x8_0000 => "IsDeviceManagementSupported",
        VENDOR_CLASS = 0x10_0000 => "IsVendorClassSupported",
        DR_NOTICE = 0x20_0000 => "IsDRNoticeSupported",
        CAP_MASK_NOTICE = 0x40_0000 => "IsCapabilityMaskNoticeSupported",
        BOOT_MGT = 0x80_0000 => "IsBootManagementSupported",
        LINK_ROUND_TRIP = 0x100_0000 => "IsLinkRoundTripLatencySupported",
        CLIENT_REREGISTER = 0x200_0000 => "IsClientReregistrationSupported",
        OTHER_LOCAL_CHANGES = 0x400_0000 => "IsOtherLocalChangesNoticeSupported",
        SPEED_WIDTH_PAIRS = 0x800_0000 => "IsLinkSpeedWidthPairsTableSupported",
        VENDOR_MADS = 0x1000_0000 => "IsVendorSpecificMadsTableSupported",
        MCAST_PKEY_TRAP_SUPPRESSION = 0x2000_0000 => "IsMcastPkeyTrapSuppressionSupported",
        MCAST_FDB_TOP = 0x4000_0000 => "IsMulticastFDBTopSupported",
        HIERARCHY_INFO = 0x8000_0000 => "IsHierarchyInfoSupported",
    }
}

mask! {
    /// PortInfo.CapabilityMask2.
    pub struct PortCaps2(u16), ", " {
        SET_NODE_DESCRIPTION = 0x1 => "IsSetNodeDescriptionSupported",
        PORT_INFO_EXTENDED = 0x2 => "IsPortInfoExtendedSupported",
        VIRTUALIZATION = 0x4 => "IsVirtualizationSupported",
        SWITCH_PORT_STATE_TABLE = 0x8 => "IsSwitchPortStateTableSupported",
        LINK_WIDTH_2X = 0x10 => "IsLinkWidth2xSupported",
        HDR = 0x20 => "IsLinkSpeedHDRSupported",
        MKEY_PROTECT_BITS_EXT = 0x40 => "IsMKeyProtectBitsExtSupported",
        ENHANCED_TRAP128 = 0x80 => "IsEnhancedTrap128Supported",
        PARTITION_TOP = 0x100 => "IsPartitionTopSupported",
        ENHANCED_QOS_ARBITER = 0x200 => "IsEnhancedQoSArbiterSupported",
        NDR = 0x400 => "IsLinkSpeedNDRSupported",
        EXT_SPEEDS2 = 0x800 => "IsExtendedSpeeds2Supported",
        XDR = 0x1000 => "IsLinkSpeedXDRSupported",
    }
}

mask! {
    /// ClassPortInfo.CapabilityMask: the low byte is common to all classes, the
    /// rest is named here as the PerfMgt class uses it.
    pub struct ClassCaps(u16), ", " {
        TRAP = 0x1 => "Trap",
        NOTICE = 0x2 => "Get/Set(Notice)",
        CAP_MASK2 = 0x4 => "CapMask2",
        ALL_PORT_SELECT = 0x100 => "AllPortSelect",
        EXT_WIDTH = 0x200 => "ExtendedWidth",
        EXT_WIDTH_NO_IETF = 0x400 => "ExtendedWidthNoIETF",
        SAMPLES_ONLY = 0x800 => "SamplesOnly",
        XMIT_WAIT = 0x1000 => "XmitWait",
        LIMITED_PKEY_MC = 0x2000 => "InhibitLimitedPkeyMcastConstraintErrors",
        RS_FEC = 0x4000 => "RSFECModeCounters",
        QP1_DROPPED = 0x8000 => "QP1Dropped",
    }
}

mask! {
    /// ClassPortInfo.CapabilityMask2 (27 bits) as the PerfMgt class uses it.
    pub struct ClassCaps2(u32), ", " {
        PM_KEY = 0x1 => "PM_Key",
        ADDITIONAL_EXT = 0x2 => "AdditionalPortCountersExtended",
    }
}

mask! {
    /// Change flags of trap 144.
    pub struct LocalChanges(u16), ", " {
        NODE_DESCRIPTION = 0x1 => "NodeDescription",
        LINK_WIDTH_ENABLED = 0x2 => "LinkWidthEnabled",
        LINK_SPEED_ENABLED = 0x4 => "LinkSpeedEnabled",
        SM_PRIORITY = 0x8 => "SM priority",
        HIERARCHY_INFO = 0x10 => "HierarchyInfo",
        CAP_MASK2 = 0x20 => "CapabilityMask2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_codes_keep_their_value_and_say_so() {
        assert_eq!(NodeType::new(9).code(), 9);
        assert_eq!(NodeType::new(9).to_string(), "unknown (0x9)");
        assert_eq!(LinkSpeedExt::new(3).to_string(), "???");
        for code in 0..=255 {
            assert_eq!(Method::new(code).code(), code);
            assert_eq!(MgmtClass::new(code).code(), code);
        }
    }

    #[test]
    fn masks_name_their_bits_and_keep_the_rest() {
        assert_eq!(LinkWidths(3).to_string(), "1x or 4x");
        assert_eq!(LinkWidths(0).to_string(), "none");
        assert_eq!(LinkSpeeds(0x9).to_string(), "SDR or unknown (0x8)");
        assert!(PortCaps(0x4002).has(PortCaps::EXT_SPEEDS));
        assert!(!PortCaps(0x4000).has(PortCaps::IS_SM));
    }

    #[test]
    fn methods_are_answered_as_the_spec_pairs_them() {
        // Spec 13.4.5: Get and Set are answered by GetResp, Trap by TrapRepress.
        assert_eq!(Method::Get.response(), Method::GetResp);
        assert_eq!(Method::Set.response(), Method::GetResp);
        assert_eq!(Method::GetTable.response(), Method::GetTableResp);
        assert_eq!(Method::Report.response(), Method::ReportResp);
        assert_eq!(Method::Trap.response(), Method::TrapRepress);
        assert_eq!(Method::Delete.response(), Method::DeleteResp);
    }

    #[test]
    fn mtu_codes_are_powers_of_two_from_256() {
        let sizes: Vec<_> = (0..=6).map(|code| Mtu::new(code).octets()).collect();
        let want = [
            None,
            Some(256),
            Some(512),
            Some(1024),
            Some(2048),
            Some(4096),
            None,
        ];
        assert_eq!(sizes, want);
    }
}
