//! Attributes of the subnet management class (spec 14.2.5).

use super::attr::{FieldType, attribute};
use super::values::*;

attribute! {
    /// What a node is (spec 14.2.5.3).
    Smp NodeInfo = 0x0011, "NodeInfo", len 40 {
        base_version, set_base_version: u8 = 0, "BaseVersion";
        class_version, set_class_version: u8 = 1, "ClassVersion";
        node_type, set_node_type: NodeType = 2, "NodeType";
        /// External ports; a switch has port 0 besides.
        num_ports, set_num_ports: u8 = 3, "NumPorts";
        system_image_guid, set_system_image_guid: u64 = 4, "SystemImageGUID", hex;
        node_guid, set_node_guid: u64 = 12, "NodeGUID", hex;
        /// Of the port the SMP came in by; of a switch, of port 0.
        port_guid, set_port_guid: u64 = 20, "PortGUID", hex;
        partition_cap, set_partition_cap: u16 = 28, "PartitionCap";
        device_id, set_device_id: u16 = 30, "DeviceID", hex;
        revision, set_revision: u32 = 32, "Revision", hex;
        /// The port the SMP came in by.
        local_port, set_local_port: u8 = 36, "LocalPortNum";
        vendor_id, set_vendor_id: u32 = 37[0..24], "VendorID", hex;
    }
}

attribute! {
    /// A node's text (spec 14.2.5.2): any bytes, not NUL-terminated.
    Smp NodeDescription = 0x0010, "NodeDescription", len 64 {
        description, set_description: [u8; 64] = 0, "NodeDescription", text;
    }
}

impl NodeDescription {
    /// From text, cut to 64 bytes.
    pub fn from_text(text: &str) -> Self {
        let mut bytes = [0; 64];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        NodeDescription(bytes)
    }

    /// The text made harmless for a terminal, see [`super::text`].
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        super::text(&self.0)
    }
}

attribute! {
    /// What a switch is and how it forwards (spec 14.2.5.4).
    Smp SwitchInfo = 0x0012, "SwitchInfo", len 20 {
        linear_fdb_cap, set_linear_fdb_cap: u16 = 0, "LinearFDBCap";
        random_fdb_cap, set_random_fdb_cap: u16 = 2, "RandomFDBCap";
        multicast_fdb_cap, set_multicast_fdb_cap: u16 = 4, "MulticastFDBCap";
        /// The highest LID in the linear forwarding table.
        linear_fdb_top, set_linear_fdb_top: u16 = 6, "LinearFDBTop";
        default_port, set_default_port: u8 = 8, "DefaultPort";
        default_mcast_primary_port, set_default_mcast_primary_port: u8
            = 9, "DefaultMulticastPrimaryPort";
        default_mcast_not_primary_port, set_default_mcast_not_primary_port: u8
            = 10, "DefaultMulticastNotPrimaryPort";
        life_time, set_life_time: u8 = 11[0..5], "LifeTimeValue";
        port_state_change, set_port_state_change: bool = 11[5..6], "PortStateChange";
        optimized_sl2vl, set_optimized_sl2vl: u8 = 11[6..8], "OptimizedSLtoVLMappingProgramming";
        lids_per_port, set_lids_per_port: u16 = 12, "LIDsPerPort";
        partition_enforcement_cap, set_partition_enforcement_cap: u16
            = 14, "PartitionEnforcementCap";
        inbound_enforcement, set_inbound_enforcement: bool = 16[0..1], "InboundEnforcementCap";
        outbound_enforcement, set_outbound_enforcement: bool = 16[1..2], "OutboundEnforcementCap";
        filter_raw_inbound, set_filter_raw_inbound: bool = 16[2..3], "FilterRawInboundCap";
        filter_raw_outbound, set_filter_raw_outbound: bool = 16[3..4], "FilterRawOutboundCap";
        /// Port 0 has a link partner inside and counters of its own.
        enhanced_port0, set_enhanced_port0: bool = 16[4..5], "EnhancedPort0";
        multicast_fdb_top, set_multicast_fdb_top: u16 = 18, "MulticastFDBTop", hex;
    }
}

attribute! {
    /// A subnet manager (spec 14.2.5.13).
    Smp SmInfo = 0x0020, "SMInfo", len 21 {
        guid, set_guid: u64 = 0, "GUID", hex;
        sm_key, set_sm_key: u64 = 8, "SM_Key", hex, secret;
        /// Rises while the SM lives.
        act_count, set_act_count: u32 = 16, "ActCount";
        priority, set_priority: u8 = 20[0..4], "Priority";
        state, set_state: SmState = 20[4..8], "SMState";
    }
}

attribute! {
    /// Eight GUIDs of a port; the modifier is the block (spec 14.2.5.5).
    Smp GuidInfo = 0x0014, "GUIDInfo", len 64 {
        guids, set_guids: [u64; 8] = 0, "GUID", hex;
    }
}

attribute! {
    /// 32 partition keys; the modifier is the block, and for a switch the port
    /// in its high half (spec 14.2.5.7).
    Smp PKeyTable = 0x0016, "P_KeyTable", len 64 {
        pkeys, set_pkeys: [u16; 32] = 0, "P_Key", hex;
    }
}

attribute! {
    /// The virtual lane for each service level (spec 14.2.5.8).
    Smp SlToVl = 0x0017, "SLtoVLMappingTable", len 8 {
        vls, set_vls: [u8; 16] = 0[0..64], "SL";
    }
}

attribute! {
    /// 32 pairs of virtual lane and weight (spec 14.2.5.9): see
    /// [`VlArbitration::entry`].
    Smp VlArbitration = 0x0018, "VLArbitrationTable", len 64 {
        pairs, set_pairs: [u16; 32] = 0, "VLWeight", hex;
    }
}

impl VlArbitration {
    /// The virtual lane and its weight in 64-byte units.
    pub fn entry(&self, index: usize) -> Option<(u8, u8)> {
        let pair = self.pairs().get(index).copied()?;
        Some(((pair >> 8) as u8 & 0xf, pair as u8))
    }
}

attribute! {
    /// The exit ports of 64 LIDs; the modifier is the block (spec 14.2.5.10).
    /// 255 means no route.
    Smp LinearForwardingTable = 0x0019, "LinearForwardingTable", len 64 {
        ports, set_ports: [u8; 64] = 0, "Port";
    }
}

attribute! {
    /// 16 of the port bits of 32 multicast LIDs; the modifier is the position
    /// of the port group (top 4 bits) and the block (low 9) (spec 14.2.5.12).
    Smp MulticastForwardingTable = 0x001B, "MulticastForwardingTable", len 64 {
        port_masks, set_port_masks: [u16; 32] = 0, "PortMask", hex;
    }
}

attribute! {
    /// Forward error correction (spec 14.2.5.20); asked for only where
    /// CapabilityMask2 has [`PortCaps2::PORT_INFO_EXTENDED`].
    Smp PortInfoExtended = 0x0033, "PortInfoExtended", len 64 {
        /// Bit 0: the FEC modes are valid.
        cap_mask, set_cap_mask: u32 = 0, "CapMask", hex;
        fec_mode_active, set_fec_mode_active: FecMode = 4, "FECModeActive";
        fdr_fec_supported, set_fdr_fec_supported: u16 = 6, "FDRFECModeSupported", hex;
        fdr_fec_enabled, set_fdr_fec_enabled: u16 = 8, "FDRFECModeEnabled", hex;
        edr_fec_supported, set_edr_fec_supported: u16 = 10, "EDRFECModeSupported", hex;
        edr_fec_enabled, set_edr_fec_enabled: u16 = 12, "EDRFECModeEnabled", hex;
        hdr_fec_supported, set_hdr_fec_supported: u16 = 14, "HDRFECModeSupported", hex;
        hdr_fec_enabled, set_hdr_fec_enabled: u16 = 16, "HDRFECModeEnabled", hex;
        ndr_fec_supported, set_ndr_fec_supported: u16 = 18, "NDRFECModeSupported", hex;
        ndr_fec_enabled, set_ndr_fec_enabled: u16 = 20, "NDRFECModeEnabled", hex;
    }
}

attribute! {
    /// Mellanox's ExtendedPortInfo: FDR10.
    Smp MlnxExtPortInfo = 0xFF90, "MlnxExtendedPortInfo", len 64 {
        state_change_enable, set_state_change_enable: u8 = 3, "StateChangeEnable", hex;
        speed_supported, set_speed_supported: MlnxSpeeds = 7, "LinkSpeedSupported";
        speed_enabled, set_speed_enabled: MlnxSpeeds = 11, "LinkSpeedEnabled";
        speed_active, set_speed_active: MlnxSpeeds = 15, "LinkSpeedActive";
    }
}
