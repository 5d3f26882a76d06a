//! Records of the subnet administration class (spec 15.2.5) and the walk over
//! a table of them.

use super::attr::{Attribute, FieldType, attribute};
use super::port_info::PortInfo;
use super::rmpp;
use super::values::*;
use super::{Gid, InformInfo, Mad, MadView, NodeDescription, NodeInfo, SmInfo, SwitchInfo};
use super::{LinearForwardingTable, PKeyTable};

attribute! {
    /// A node as the SA knows it: one record a port (of a switch: port 0).
    Sa NodeRecord = 0x0011, "NodeRecord", len 108 {
        lid, set_lid: u16 = 0, "LID";
        node_info, set_node_info: NodeInfo = 4, "NodeInfo";
        description, set_description: NodeDescription = 44, "NodeDescription";
    }
}

attribute! {
    /// A port as the SA knows it.
    Sa PortInfoRecord = 0x0012, "PortInfoRecord", len 68 {
        lid, set_lid: u16 = 0, "EndportLID";
        port, set_port: u8 = 2, "PortNum";
        options, set_options: u8 = 3, "Options", hex;
        port_info, set_port_info: PortInfo = 4, "PortInfo";
    }
}

attribute! {
    /// A switch as the SA knows it.
    Sa SwitchInfoRecord = 0x0014, "SwitchInfoRecord", len 24 {
        lid, set_lid: u16 = 0, "LID";
        switch_info, set_switch_info: SwitchInfo = 4, "SwitchInfo";
    }
}

attribute! {
    /// A block of a switch's linear forwarding table.
    Sa LftRecord = 0x0015, "LinearForwardingTableRecord", len 72 {
        lid, set_lid: u16 = 0, "LID";
        block, set_block: u16 = 2, "BlockNum";
        table, set_table: LinearForwardingTable = 8, "LinearForwardingTable";
    }
}

attribute! {
    /// A subnet manager as the SA knows it.
    Sa SmInfoRecord = 0x0018, "SMInfoRecord", len 25 {
        lid, set_lid: u16 = 0, "LID";
        sm_info, set_sm_info: SmInfo = 4, "SMInfo";
    }
}

attribute! {
    /// A subscription as the SA holds it.
    Sa InformInfoRecord = 0x00F3, "InformInfoRecord", len 60 {
        subscriber_gid, set_subscriber_gid: Gid = 0, "SubscriberGID";
        subscriber_enum, set_subscriber_enum: u16 = 16, "Enum";
        inform_info, set_inform_info: InformInfo = 24, "InformInfo";
    }
}

attribute! {
    /// A link, once from each end.
    Sa LinkRecord = 0x0020, "LinkRecord", len 6 {
        from_lid, set_from_lid: u16 = 0, "FromLID";
        from_port, set_from_port: u8 = 2, "FromPort";
        to_port, set_to_port: u8 = 3, "ToPort";
        to_lid, set_to_lid: u16 = 4, "ToLID";
    }
}

attribute! {
    /// A service that registered itself.
    Sa ServiceRecord = 0x0031, "ServiceRecord", len 176 {
        service_id, set_service_id: u64 = 0, "ServiceID", hex;
        service_gid, set_service_gid: Gid = 8, "ServiceGID";
        pkey, set_pkey: u16 = 24, "ServiceP_Key", hex;
        lease, set_lease: u32 = 28, "ServiceLease", hex;
        key, set_key: [u8; 16] = 32, "ServiceKey", raw, secret;
        service_name, set_service_name: [u8; 64] = 48, "ServiceName", text;
        data8, set_data8: [u8; 16] = 112, "ServiceData8.", hex;
        data16, set_data16: [u16; 8] = 128, "ServiceData16.", hex;
        data32, set_data32: [u32; 4] = 144, "ServiceData32.", hex;
        data64, set_data64: [u64; 2] = 160, "ServiceData64.", hex;
    }
}

attribute! {
    /// A block of a port's P_Key table.
    Sa PKeyTableRecord = 0x0033, "P_KeyTableRecord", len 72 {
        lid, set_lid: u16 = 0, "LID";
        block, set_block: u16 = 2, "BlockNum";
        port, set_port: u8 = 4, "PortNum";
        table, set_table: PKeyTable = 8, "P_KeyTable";
    }
}

attribute! {
    /// A path between two ports.
    Sa PathRecord = 0x0035, "PathRecord", len 64 {
        service_id, set_service_id: u64 = 0, "ServiceID", hex;
        dgid, set_dgid: Gid = 8, "DGID";
        sgid, set_sgid: Gid = 24, "SGID";
        dlid, set_dlid: u16 = 40, "DLID";
        slid, set_slid: u16 = 42, "SLID";
        raw_traffic, set_raw_traffic: bool = 44[0..1], "RawTraffic";
        flow_label, set_flow_label: u32 = 44[4..24], "FlowLabel", hex;
        hop_limit, set_hop_limit: u8 = 47, "HopLimit";
        tclass, set_tclass: u8 = 48, "TClass", hex;
        reversible, set_reversible: bool = 49[0..1], "Reversible";
        numb_path, set_numb_path: u8 = 49[1..8], "NumbPath";
        pkey, set_pkey: u16 = 50, "P_Key", hex;
        qos_class, set_qos_class: u16 = 52[0..12], "QoSClass", hex;
        sl, set_sl: u8 = 52[12..16], "SL";
        mtu_selector, set_mtu_selector: Selector = 54[0..2], "MTUSelector";
        mtu, set_mtu: Mtu = 54[2..8], "MTU";
        rate_selector, set_rate_selector: Selector = 55[0..2], "RateSelector";
        rate, set_rate: Rate = 55[2..8], "Rate";
        life_selector, set_life_selector: Selector = 56[0..2], "PacketLifeTimeSelector";
        /// 4.096 µs · 2^n.
        life, set_life: u8 = 56[2..8], "PacketLifeTime";
        preference, set_preference: u8 = 57, "Preference";
    }
}

attribute! {
    /// A port's membership in a multicast group, or the group.
    Sa McMemberRecord = 0x0038, "MCMemberRecord", len 52 {
        mgid, set_mgid: Gid = 0, "MGID";
        port_gid, set_port_gid: Gid = 16, "PortGID";
        qkey, set_qkey: u32 = 32, "Q_Key", hex;
        mlid, set_mlid: u16 = 36, "MLID", hex;
        mtu_selector, set_mtu_selector: Selector = 38[0..2], "MTUSelector";
        mtu, set_mtu: Mtu = 38[2..8], "MTU";
        tclass, set_tclass: u8 = 39, "TClass", hex;
        pkey, set_pkey: u16 = 40, "P_Key", hex;
        rate_selector, set_rate_selector: Selector = 42[0..2], "RateSelector";
        rate, set_rate: Rate = 42[2..8], "Rate";
        life_selector, set_life_selector: Selector = 43[0..2], "PacketLifeTimeSelector";
        life, set_life: u8 = 43[2..8], "PacketLifeTime";
        sl, set_sl: u8 = 44[0..4], "SL";
        flow_label, set_flow_label: u32 = 44[4..24], "FlowLabel", hex;
        hop_limit, set_hop_limit: u8 = 47, "HopLimit";
        scope, set_scope: u8 = 48[0..4], "Scope", hex;
        join_state, set_join_state: JoinState = 48[4..8], "JoinState";
        proxy_join, set_proxy_join: bool = 49[0..1], "ProxyJoin";
    }
}

/// Component mask bits: component n of a record's table in the spec is bit n.
pub mod component {
    /// LinkRecord.FromLID.
    pub const LINK_FROM_LID: u64 = 1 << 0;
    /// LinkRecord.FromPort.
    pub const LINK_FROM_PORT: u64 = 1 << 1;
    /// NodeRecord.LID.
    pub const NODE_LID: u64 = 1 << 0;
    /// PathRecord.DGID.
    pub const PATH_DGID: u64 = 1 << 2;
    /// PathRecord.SGID.
    pub const PATH_SGID: u64 = 1 << 3;
    /// PathRecord.DLID.
    pub const PATH_DLID: u64 = 1 << 4;
    /// PathRecord.SLID.
    pub const PATH_SLID: u64 = 1 << 5;
    /// PathRecord.Reversible.
    pub const PATH_REVERSIBLE: u64 = 1 << 11;
    /// PathRecord.NumbPath.
    pub const PATH_NUMB_PATH: u64 = 1 << 12;
    /// PathRecord.P_Key.
    pub const PATH_PKEY: u64 = 1 << 13;
    /// PathRecord.SL.
    pub const PATH_SL: u64 = 1 << 15;
    /// PortInfoRecord.EndportLID.
    pub const PORT_LID: u64 = 1 << 0;
    /// PortInfoRecord.PortNum.
    pub const PORT_NUM: u64 = 1 << 1;
    /// SMInfoRecord.LID.
    pub const SM_LID: u64 = 1 << 0;
    /// SwitchInfoRecord.LID.
    pub const SWITCH_LID: u64 = 1 << 0;
    /// LinearForwardingTableRecord.LID.
    pub const LFT_LID: u64 = 1 << 0;
    /// LinearForwardingTableRecord.BlockNum.
    pub const LFT_BLOCK: u64 = 1 << 1;
    /// MCMemberRecord.MGID.
    pub const MC_MGID: u64 = 1 << 0;
}

/// The records of an SA reply, as bytes: one every AttributeOffset · 8 bytes.
///
/// Offset 0 means none, or, where the reply is no table, one. Bytes at the end
/// that do not make a whole record are left out.
pub fn raw_records<'a>(mad: &MadView<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let mut data = mad.data();
    // A raw segment that is the whole message: only its payload counts.
    let alone = rmpp::Flags::ACTIVE | rmpp::Flags::FIRST | rmpp::Flags::LAST;
    if let Some(header) = mad.rmpp().filter(|header| header.flags == alone) {
        let valid = (header.length as usize).saturating_sub(rmpp::SA_HEAD);
        data = data.get(..valid).unwrap_or(data);
    }
    let step = usize::from(mad.attribute_offset()) * 8;
    let table = mad.method() == Method::GetTableResp;
    let (chunk, data) = match step {
        0 if table => (1, &[][..]),
        0 => (data.len().max(1), data),
        // A reply that is no table holds one record, whatever follows it.
        _ if !table => (step, data.get(..step).unwrap_or(data)),
        _ => (step, data),
    };
    data.chunks(chunk)
}

/// The records of an SA reply. A last one that is cut short is left out; so is
/// everything if the reply carries another attribute.
pub fn records<'a, R: Attribute>(mad: &MadView<'a>) -> impl Iterator<Item = R> + use<'a, R> {
    let ours = mad.class() == MgmtClass::SubnAdm && mad.attr_id() == R::ID;
    raw_records(mad)
        .take_while(move |_| ours)
        .map_while(|bytes| R::from_bytes(bytes).ok())
}

/// A table came as a whole: as one segment that is first and last, or joined from several.
///
/// A simulator without RMPP cuts the message at one MAD and leaves its header unfinished.
pub fn is_whole_table(mad: &Mad) -> bool {
    let Some(header) = mad.rmpp() else {
        return false;
    };
    if !header.is_active_data() || !header.flags.has(rmpp::Flags::FIRST) || header.segment != 1 {
        return false;
    }
    if mad.attribute_offset() == 0 {
        // No record: only the SA header is there.
        return header.flags.has(rmpp::Flags::LAST) && header.length as usize <= rmpp::SA_HEAD;
    }
    // PayloadLength of the first segment is that of the whole message, with 20 bytes of SA
    // header for every segment of 200 bytes (spec 13.6.2.1).
    let data = mad.data().len();
    let length = header.length as usize;
    header.flags.has(rmpp::Flags::LAST) || data + 20 * length.div_ceil(220) >= length
}
