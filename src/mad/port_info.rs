//! PortInfo (spec 14.2.5.6), the attribute that most others stand beside.

use super::attr::{FieldType, attribute};
use super::values::*;

attribute! {
    /// A port: addresses, state, link width and speed, limits.
    ///
    /// The SMP's attribute modifier names the port asked for, `LocalPortNum`
    /// the one the SMP came in by. While the port is down everything but the
    /// two states may be garbage.
    Smp PortInfo = 0x0015, "PortInfo", len 64 {
        m_key, set_m_key: u64 = 0, "M_Key", hex, secret;
        gid_prefix, set_gid_prefix: u64 = 8, "GidPrefix", hex;
        lid, set_lid: u16 = 16, "LID";
        sm_lid, set_sm_lid: u16 = 18, "MasterSMLID";
        cap_mask, set_cap_mask: PortCaps = 20, "CapabilityMask";
        diag_code, set_diag_code: u16 = 24, "DiagCode", hex;
        m_key_lease_period, set_m_key_lease_period: u16 = 26, "M_KeyLeasePeriod";
        local_port, set_local_port: u8 = 28, "LocalPortNum";
        link_width_enabled, set_link_width_enabled: LinkWidths = 29, "LinkWidthEnabled";
        link_width_supported, set_link_width_supported: LinkWidths = 30, "LinkWidthSupported";
        link_width_active, set_link_width_active: LinkWidth = 31, "LinkWidthActive";
        link_speed_supported, set_link_speed_supported: LinkSpeeds
            = 32[0..4], "LinkSpeedSupported";
        port_state, set_port_state: PortState = 32[4..8], "PortState";
        phys_state, set_phys_state: PhysState = 33[0..4], "PortPhysicalState";
        link_down_default, set_link_down_default: PhysState = 33[4..8], "LinkDownDefaultState";
        /// 2 and 3 protect Get too: without the key there is no answer.
        m_key_protect, set_m_key_protect: u8 = 34[0..2], "M_KeyProtectBits";
        lmc, set_lmc: u8 = 34[5..8], "LMC";
        link_speed_active, set_link_speed_active: LinkSpeed = 35[0..4], "LinkSpeedActive";
        link_speed_enabled, set_link_speed_enabled: LinkSpeeds = 35[4..8], "LinkSpeedEnabled";
        neighbor_mtu, set_neighbor_mtu: Mtu = 36[0..4], "NeighborMTU";
        sm_sl, set_sm_sl: u8 = 36[4..8], "MasterSMSL";
        vl_cap, set_vl_cap: Vls = 37[0..4], "VLCap";
        init_type, set_init_type: u8 = 37[4..8], "InitType", hex;
        vl_high_limit, set_vl_high_limit: u8 = 38, "VLHighLimit";
        vl_arb_high_cap, set_vl_arb_high_cap: u8 = 39, "VLArbitrationHighCap";
        vl_arb_low_cap, set_vl_arb_low_cap: u8 = 40, "VLArbitrationLowCap";
        init_type_reply, set_init_type_reply: u8 = 41[0..4], "InitTypeReply", hex;
        mtu_cap, set_mtu_cap: Mtu = 41[4..8], "MTUCap";
        vl_stall_count, set_vl_stall_count: u8 = 42[0..3], "VLStallCount";
        hoq_life, set_hoq_life: u8 = 42[3..8], "HOQLife";
        operational_vls, set_operational_vls: Vls = 43[0..4], "OperationalVLs";
        partition_enforce_in, set_partition_enforce_in: bool
            = 43[4..5], "PartitionEnforcementInbound";
        partition_enforce_out, set_partition_enforce_out: bool
            = 43[5..6], "PartitionEnforcementOutbound";
        filter_raw_in, set_filter_raw_in: bool = 43[6..7], "FilterRawInbound";
        filter_raw_out, set_filter_raw_out: bool = 43[7..8], "FilterRawOutbound";
        m_key_violations, set_m_key_violations: u16 = 44, "M_KeyViolations";
        p_key_violations, set_p_key_violations: u16 = 46, "P_KeyViolations";
        q_key_violations, set_q_key_violations: u16 = 48, "Q_KeyViolations";
        guid_cap, set_guid_cap: u8 = 50, "GUIDCap";
        client_reregister, set_client_reregister: bool = 51[0..1], "ClientReregister";
        mcast_pkey_trap_suppression, set_mcast_pkey_trap_suppression: u8
            = 51[1..3], "McastPkeyTrapSuppressionEnabled";
        subnet_timeout, set_subnet_timeout: u8 = 51[3..8], "SubnetTimeOut";
        resp_time_value, set_resp_time_value: u8 = 52[3..8], "RespTimeValue";
        local_phy_errors, set_local_phy_errors: u8 = 53[0..4], "LocalPhyErrors";
        overrun_errors, set_overrun_errors: u8 = 53[4..8], "OverrunErrors";
        max_credit_hint, set_max_credit_hint: u16 = 54, "MaxCreditHint";
        /// Valid, like the two after it, with [`PortCaps2::EXT_SPEEDS2`].
        link_speed_ext_active2, set_link_speed_ext_active2: LinkSpeedExt2
            = 56[1..3], "LinkSpeedExtActive2";
        link_speed_ext_supported2, set_link_speed_ext_supported2: LinkSpeedsExt2
            = 56[3..5], "LinkSpeedExtSupported2";
        link_speed_ext_enabled2, set_link_speed_ext_enabled2: LinkSpeedsExt2
            = 56[5..8], "LinkSpeedExtEnabled2";
        link_round_trip_latency, set_link_round_trip_latency: u32
            = 57[0..24], "LinkRoundTripLatency";
        cap_mask2, set_cap_mask2: PortCaps2 = 60, "CapabilityMask2";
        link_speed_ext_active, set_link_speed_ext_active: LinkSpeedExt
            = 62[0..4], "LinkSpeedExtActive";
        link_speed_ext_supported, set_link_speed_ext_supported: LinkSpeedsExt
            = 62[4..8], "LinkSpeedExtSupported";
        link_speed_ext_enabled, set_link_speed_ext_enabled: LinkSpeedsExt
            = 63[3..8], "LinkSpeedExtEnabled";
    }
}
