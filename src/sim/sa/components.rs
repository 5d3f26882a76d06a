//! Which bits of a record each bit of a component mask means.
//!
//! Component n of a record's table in the specification (15.2.5) is bit n of the mask; reserved
//! components count too.

/// A run of bits: first bit and width.
#[derive(Clone, Copy, Debug)]
pub struct Component(u16, u16);

impl Component {
    /// Whether query and record have the same bits there.
    pub fn agree(&self, query: &[u8], record: &[u8]) -> bool {
        let bit = |bytes: &[u8], at: u16| {
            bytes
                .get(usize::from(at / 8))
                .is_some_and(|b| b >> (7 - at % 8) & 1 != 0)
        };
        (self.0..self.0 + self.1).all(|at| bit(query, at) == bit(record, at))
    }
}

const fn c(first: u16, width: u16) -> Component {
    Component(first, width)
}

pub const NODE: &[Component] = &[
    c(0, 16),    // LID
    c(16, 0),    // reserved
    c(32, 8),    // BaseVersion
    c(40, 8),    // ClassVersion
    c(48, 8),    // NodeType
    c(56, 8),    // NumPorts
    c(64, 64),   // SystemImageGUID
    c(128, 64),  // NodeGUID
    c(192, 64),  // PortGUID
    c(256, 16),  // PartitionCap
    c(272, 16),  // DeviceID
    c(288, 32),  // Revision
    c(320, 8),   // LocalPortNum
    c(328, 24),  // VendorID
    c(352, 512), // NodeDescription
];

pub const PORT: &[Component] = &[
    c(0, 16),   // EndportLID
    c(16, 8),   // PortNum
    c(24, 0),   // options
    c(32, 64),  // M_Key
    c(96, 64),  // GidPrefix
    c(160, 16), // LID
    c(176, 16), // MasterSMLID
    c(192, 32), // CapabilityMask
    c(224, 16), // DiagCode
    c(240, 16), // M_KeyLeasePeriod
    c(256, 8),  // LocalPortNum
    c(264, 8),  // LinkWidthEnabled
    c(272, 8),  // LinkWidthSupported
    c(280, 8),  // LinkWidthActive
    c(288, 4),  // LinkSpeedSupported
    c(292, 4),  // PortState
    c(296, 4),  // PortPhysicalState
    c(300, 4),  // LinkDownDefaultState
    c(304, 2),  // M_KeyProtectBits
    c(309, 3),  // LMC
    c(312, 4),  // LinkSpeedActive
    c(316, 4),  // LinkSpeedEnabled
    c(320, 4),  // NeighborMTU
    c(324, 4),  // MasterSMSL
    c(328, 4),  // VLCap
];

pub const SWITCH: &[Component] = &[c(0, 16)];

pub const LFT: &[Component] = &[c(0, 16), c(16, 16)];

pub const SM: &[Component] = &[
    c(0, 16),   // LID
    c(16, 0),   // reserved
    c(32, 64),  // GUID
    c(96, 0),   // SM_Key: never compared
    c(160, 32), // ActCount
    c(192, 4),  // Priority
    c(196, 4),  // SMState
];

pub const LINK: &[Component] = &[
    c(0, 16),  // FromLID
    c(16, 8),  // FromPort
    c(24, 8),  // ToPort
    c(32, 16), // ToLID
];

pub const SERVICE: &[Component] = &[
    c(0, 64),    // ServiceID
    c(64, 128),  // ServiceGID
    c(192, 16),  // ServiceP_Key
    c(224, 32),  // ServiceLease
    c(256, 0),   // ServiceKey: never compared
    c(384, 512), // ServiceName
];

pub const PKEY: &[Component] = &[
    c(0, 16),  // LID
    c(16, 16), // BlockNum
    c(32, 8),  // PortNum
];

pub const MEMBER: &[Component] = &[
    c(0, 128),   // MGID
    c(128, 128), // PortGID
    c(256, 32),  // Q_Key
    c(288, 16),  // MLID
    c(304, 0),   // MTUSelector
    c(306, 6),   // MTU
    c(312, 8),   // TClass
    c(320, 16),  // P_Key
    c(336, 0),   // RateSelector
    c(338, 6),   // Rate
    c(344, 0),   // PacketLifeTimeSelector
    c(346, 6),   // PacketLifeTime
    c(352, 4),   // SL
    c(356, 20),  // FlowLabel
    c(376, 8),   // HopLimit
    c(384, 4),   // Scope
    c(388, 4),   // JoinState
    c(392, 1),   // ProxyJoin
];

pub const INFORM: &[Component] = &[c(0, 128), c(128, 16)];
