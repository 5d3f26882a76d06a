//! Attributes that several classes share: ClassPortInfo, Notice (spec 13.4.8)
//! and the SA's InformInfo.

use super::Gid;
use super::attr::{FieldType, attribute};
use super::values::*;

attribute! {
    /// What a class of a port can do, where it wants its MADs (redirection) and
    /// its traps (spec 13.4.8.1).
    Any ClassPortInfo = 0x0001, "ClassPortInfo", len 72 {
        base_version, set_base_version: u8 = 0, "BaseVersion";
        class_version, set_class_version: u8 = 1, "ClassVersion";
        cap_mask, set_cap_mask: ClassCaps = 2, "CapabilityMask";
        cap_mask2, set_cap_mask2: ClassCaps2 = 4[0..27], "CapabilityMask2";
        /// 4.096 µs · 2^n.
        resp_time_value, set_resp_time_value: u8 = 7[3..8], "RespTimeValue";
        redirect_gid, set_redirect_gid: Gid = 8, "RedirectGID";
        redirect_tc, set_redirect_tc: u8 = 24, "RedirectTC", hex;
        redirect_sl, set_redirect_sl: u8 = 25[0..4], "RedirectSL";
        redirect_fl, set_redirect_fl: u32 = 25[4..24], "RedirectFL", hex;
        redirect_lid, set_redirect_lid: u16 = 28, "RedirectLID";
        redirect_pkey, set_redirect_pkey: u16 = 30, "RedirectP_Key", hex;
        redirect_qp, set_redirect_qp: u32 = 33[0..24], "RedirectQP", hex;
        redirect_qkey, set_redirect_qkey: u32 = 36, "RedirectQ_Key", hex;
        trap_gid, set_trap_gid: Gid = 40, "TrapGID";
        trap_tc, set_trap_tc: u8 = 56, "TrapTC", hex;
        trap_sl, set_trap_sl: u8 = 57[0..4], "TrapSL";
        trap_fl, set_trap_fl: u32 = 57[4..24], "TrapFL", hex;
        trap_lid, set_trap_lid: u16 = 60, "TrapLID";
        trap_pkey, set_trap_pkey: u16 = 62, "TrapP_Key", hex;
        trap_hl, set_trap_hl: u8 = 64, "TrapHL";
        trap_qp, set_trap_qp: u32 = 65[0..24], "TrapQP", hex;
        trap_qkey, set_trap_qkey: u32 = 68, "TrapQ_Key", hex;
    }
}

attribute! {
    /// A notice (spec 13.4.8.2): what happened, where. Its details are decoded
    /// by [`Trap`](super::notice::Trap).
    Any Notice = 0x0002, "Notice", len 64 {
        is_generic, set_is_generic: bool = 0[0..1], "IsGeneric";
        notice_type, set_notice_type: NoticeType = 0[1..8], "Type";
        /// The vendor's id where the notice is not generic.
        producer_type, set_producer_type: ProducerType = 1[0..24], "ProducerType";
        /// The vendor's device id where the notice is not generic.
        trap_number, set_trap_number: u16 = 4, "TrapNumber";
        issuer_lid, set_issuer_lid: u16 = 6, "IssuerLID";
        toggle, set_toggle: bool = 8[0..1], "NoticeToggle";
        count, set_count: u16 = 8[1..16], "NoticeCount";
        /// May hold the M_Key of a trap 256.
        details, set_details: [u8; 54] = 10, "DataDetails", raw, secret;
    }
}

attribute! {
    /// A notice as the SA forwards it: with the issuer's GID (spec 15.2.5.4).
    Sa ReportedNotice = 0x0002, "Notice", len 80 {
        notice, set_notice: Notice = 0, "Notice";
        issuer_gid, set_issuer_gid: Gid = 64, "IssuerGID";
    }
}

attribute! {
    /// A subscription to notices (spec 13.4.8.3).
    Sa InformInfo = 0x0003, "InformInfo", len 36 {
        gid, set_gid: Gid = 0, "GID";
        /// 0xFFFF: from any LID.
        lid_range_begin, set_lid_range_begin: u16 = 16, "LIDRangeBegin", hex;
        lid_range_end, set_lid_range_end: u16 = 18, "LIDRangeEnd", hex;
        is_generic, set_is_generic: u8 = 22, "IsGeneric";
        /// 1 subscribes, 0 unsubscribes.
        subscribe, set_subscribe: u8 = 23, "Subscribe";
        /// 0xFFFF: all.
        notice_type, set_notice_type: u16 = 24, "Type", hex;
        /// 0xFFFF: all.
        trap_number, set_trap_number: u16 = 26, "TrapNumber";
        qpn, set_qpn: u32 = 28[0..24], "QPN", hex;
        resp_time_value, set_resp_time_value: u8 = 31[3..8], "RespTimeValue";
        producer_type, set_producer_type: ProducerType = 33[0..24], "ProducerType";
    }
}

impl InformInfo {
    /// A subscription to every generic notice of every port, or its end.
    pub fn all_generic(subscribe: bool) -> Self {
        let mut info = InformInfo::new();
        info.set_lid_range_begin(0xffff)
            .set_is_generic(1)
            .set_subscribe(u8::from(subscribe))
            .set_notice_type(0xffff)
            .set_trap_number(0xffff)
            .set_qpn(1)
            .set_producer_type(ProducerType::All);
        info
    }
}
