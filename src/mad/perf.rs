//! Attributes of the performance management class (spec 16.1.3, 16.1.4 and the
//! annexes that added optional counters).
//!
//! Data counters count octets divided by 4 at every link width. Counters
//! saturate at the width of their field and never wrap.

use super::attr::{FieldType, attribute};

attribute! {
    /// The counters every port has (spec 16.1.3.5).
    Perf PortCounters = 0x0012, "PortCounters", len 44 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        symbol_error, set_symbol_error: u16 = 4, "SymbolErrorCounter";
        link_error_recovery, set_link_error_recovery: u8 = 6, "LinkErrorRecoveryCounter";
        link_downed, set_link_downed: u8 = 7, "LinkDownedCounter";
        rcv_errors, set_rcv_errors: u16 = 8, "PortRcvErrors", packets;
        rcv_remote_physical_errors, set_rcv_remote_physical_errors: u16
            = 10, "PortRcvRemotePhysicalErrors", packets;
        rcv_switch_relay_errors, set_rcv_switch_relay_errors: u16
            = 12, "PortRcvSwitchRelayErrors", packets;
        xmit_discards, set_xmit_discards: u16 = 14, "PortXmitDiscards", packets;
        xmit_constraint_errors, set_xmit_constraint_errors: u8
            = 16, "PortXmitConstraintErrors", packets;
        rcv_constraint_errors, set_rcv_constraint_errors: u8
            = 17, "PortRcvConstraintErrors", packets;
        counter_select2, set_counter_select2: u8 = 18, "CounterSelect2", hex;
        local_link_integrity, set_local_link_integrity: u8
            = 19[0..4], "LocalLinkIntegrityErrors";
        excessive_buffer_overrun, set_excessive_buffer_overrun: u8
            = 19[4..8], "ExcessiveBufferOverrunErrors";
        qp1_dropped, set_qp1_dropped: u16 = 20, "QP1Dropped", packets;
        vl15_dropped, set_vl15_dropped: u16 = 22, "VL15Dropped", packets;
        xmit_data, set_xmit_data: u32 = 24, "PortXmitData", words;
        rcv_data, set_rcv_data: u32 = 28, "PortRcvData", words;
        xmit_pkts, set_xmit_pkts: u32 = 32, "PortXmitPkts", packets;
        rcv_pkts, set_rcv_pkts: u32 = 36, "PortRcvPkts", packets;
        /// Valid with [`super::ClassCaps::XMIT_WAIT`].
        xmit_wait, set_xmit_wait: u32 = 40, "PortXmitWait", ticks;
    }
}

attribute! {
    /// The 64-bit counters (spec 16.1.4.11). Data and packets are valid with
    /// ExtendedWidth or ExtendedWidthNoIETF, unicast and multicast with the
    /// first only, all from `SymbolErrorCounter` on with
    /// [`super::ClassCaps2::ADDITIONAL_EXT`].
    Perf PortCountersExtended = 0x001D, "PortCountersExtended", len 184 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        counter_select2, set_counter_select2: u32 = 4, "CounterSelect2", hex;
        xmit_data, set_xmit_data: u64 = 8, "PortXmitData", words;
        rcv_data, set_rcv_data: u64 = 16, "PortRcvData", words;
        xmit_pkts, set_xmit_pkts: u64 = 24, "PortXmitPkts", packets;
        rcv_pkts, set_rcv_pkts: u64 = 32, "PortRcvPkts", packets;
        unicast_xmit_pkts, set_unicast_xmit_pkts: u64 = 40, "PortUnicastXmitPkts", packets;
        unicast_rcv_pkts, set_unicast_rcv_pkts: u64 = 48, "PortUnicastRcvPkts", packets;
        multicast_xmit_pkts, set_multicast_xmit_pkts: u64 = 56, "PortMulticastXmitPkts", packets;
        multicast_rcv_pkts, set_multicast_rcv_pkts: u64 = 64, "PortMulticastRcvPkts", packets;
        symbol_error, set_symbol_error: u64 = 72, "SymbolErrorCounter";
        link_error_recovery, set_link_error_recovery: u64 = 80, "LinkErrorRecoveryCounter";
        link_downed, set_link_downed: u64 = 88, "LinkDownedCounter";
        rcv_errors, set_rcv_errors: u64 = 96, "PortRcvErrors", packets;
        rcv_remote_physical_errors, set_rcv_remote_physical_errors: u64
            = 104, "PortRcvRemotePhysicalErrors", packets;
        rcv_switch_relay_errors, set_rcv_switch_relay_errors: u64
            = 112, "PortRcvSwitchRelayErrors", packets;
        xmit_discards, set_xmit_discards: u64 = 120, "PortXmitDiscards", packets;
        xmit_constraint_errors, set_xmit_constraint_errors: u64
            = 128, "PortXmitConstraintErrors", packets;
        rcv_constraint_errors, set_rcv_constraint_errors: u64
            = 136, "PortRcvConstraintErrors", packets;
        local_link_integrity, set_local_link_integrity: u64 = 144, "LocalLinkIntegrityErrors";
        excessive_buffer_overrun, set_excessive_buffer_overrun: u64
            = 152, "ExcessiveBufferOverrunErrors";
        vl15_dropped, set_vl15_dropped: u64 = 160, "VL15Dropped", packets;
        xmit_wait, set_xmit_wait: u64 = 168, "PortXmitWait", ticks;
        qp1_dropped, set_qp1_dropped: u64 = 176, "QP1Dropped", packets;
    }
}

attribute! {
    /// Sampling (spec 16.1.3.2); here for `Tick`, the unit of XmitWait.
    ///
    /// OptionMask is not used to decide which optional attributes to ask for. Its bits name
    /// counters that can be sampled, which need not be those that can be read, and no public header
    /// has their table; and agents leave it zero that do have options: Linux's `qib` fills PortSamplesControl without it while it
    /// serves PortCountersExtended and XmitWait. Believing it would hide counters for good, where
    /// asking once costs one MAD an attribute, and only of a port that somebody looks at.
    Perf PortSamplesControl = 0x0010, "PortSamplesControl", len 80 {
        op_code, set_op_code: u8 = 0, "OpCode", hex;
        port_select, set_port_select: u8 = 1, "PortSelect";
        /// Units of the link's byte time: 0 is the finest.
        tick, set_tick: u8 = 2, "Tick", hex;
        counter_width, set_counter_width: u8 = 3[5..8], "CounterWidth";
        counter_mask0, set_counter_mask0: u8 = 4[2..5], "CounterMask0", hex;
        counter_masks1to9, set_counter_masks1to9: u32 = 4[5..32], "CounterMasks1to9", hex;
        counter_masks10to14, set_counter_masks10to14: u16 = 8[1..16], "CounterMasks10to14", hex;
        sample_mechanisms, set_sample_mechanisms: u8 = 10, "SampleMechanisms";
        sample_status, set_sample_status: u8 = 11[6..8], "SampleStatus";
        option_mask, set_option_mask: u64 = 12, "OptionMask", hex;
        vendor_mask, set_vendor_mask: u64 = 20, "VendorMask", hex;
        sample_start, set_sample_start: u32 = 28, "SampleStart";
        sample_interval, set_sample_interval: u32 = 32, "SampleInterval";
        tag, set_tag: u16 = 36, "Tag", hex;
        counter_select, set_counter_select: [u16; 15] = 38, "CounterSelect", hex;
        samples_only_option_mask, set_samples_only_option_mask: u64
            = 72, "SamplesOnlyOptionMask", hex;
    }
}

attribute! {
    /// Why received packets were in error (spec 16.1.4.1).
    Perf PortRcvErrorDetails = 0x0015, "PortRcvErrorDetails", len 16 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        local_physical, set_local_physical: u16 = 4, "PortLocalPhysicalErrors", packets;
        malformed_pkt, set_malformed_pkt: u16 = 6, "PortMalformedPktErrors", packets;
        buffer_overrun, set_buffer_overrun: u16 = 8, "PortBufferOverrunErrors", packets;
        dlid_mapping, set_dlid_mapping: u16 = 10, "PortDLIDMappingErrors", packets;
        vl_mapping, set_vl_mapping: u16 = 12, "PortVLMappingErrors", packets;
        looping, set_looping: u16 = 14, "PortLoopingErrors", packets;
    }
}

attribute! {
    /// Why packets to send were discarded (spec 16.1.4.2).
    Perf PortXmitDiscardDetails = 0x0016, "PortXmitDiscardDetails", len 12 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        inactive, set_inactive: u16 = 4, "PortInactiveDiscards", packets;
        neighbor_mtu, set_neighbor_mtu: u16 = 6, "PortNeighborMTUDiscards", packets;
        sw_lifetime_limit, set_sw_lifetime_limit: u16
            = 8, "PortSwLifetimeLimitDiscards", packets;
        sw_hoq_lifetime_limit, set_sw_hoq_lifetime_limit: u16
            = 10, "PortSwHOQLifetimeLimitDiscards", packets;
    }
}

attribute! {
    /// Packets and data received of one opcode (spec 16.1.4.3).
    Perf PortOpRcvCounters = 0x0017, "PortOpRcvCounters", len 12 {
        op_code, set_op_code: u8 = 0, "OpCode", hex;
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        rcv_pkts, set_rcv_pkts: u32 = 4, "PortOpRcvPkts", packets;
        rcv_data, set_rcv_data: u32 = 8, "PortOpRcvData", words;
    }
}

attribute! {
    /// Flow control packets (spec 16.1.4.4).
    Perf PortFlowCtlCounters = 0x0018, "PortFlowCtlCounters", len 12 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        xmit_flow_pkts, set_xmit_flow_pkts: u32 = 4, "PortXmitFlowPkts", packets;
        rcv_flow_pkts, set_rcv_flow_pkts: u32 = 8, "PortRcvFlowPkts", packets;
    }
}

attribute! {
    /// Packets of one opcode per VL (spec 16.1.4.5).
    Perf PortVlOpPackets = 0x0019, "PortVLOpPackets", len 36 {
        op_code, set_op_code: u8 = 0, "OpCode", hex;
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        packets, set_packets: [u16; 16] = 4, "PortVLOpPackets", packets;
    }
}

attribute! {
    /// Data of one opcode per VL (spec 16.1.4.6).
    Perf PortVlOpData = 0x001A, "PortVLOpData", len 68 {
        op_code, set_op_code: u8 = 0, "OpCode", hex;
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        data, set_data: [u32; 16] = 4, "PortVLOpData", words;
    }
}

attribute! {
    /// Flow control update errors per VL, two bits each (spec 16.1.4.7).
    Perf PortVlXmitFlowCtlUpdateErrors = 0x001B, "PortVLXmitFlowCtlUpdateErrors", len 8 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        errors, set_errors: [u8; 16] = 4[0..32], "PortVLXmitFlowCtlUpdateErrors";
    }
}

attribute! {
    /// XmitWait per VL (spec 16.1.4.8).
    Perf PortVlXmitWait = 0x001C, "PortVLXmitWaitCounters", len 36 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        wait, set_wait: [u16; 16] = 4, "PortVLXmitWait", ticks;
    }
}

attribute! {
    /// Physical layer counters of extended speeds without RS-FEC
    /// (spec 16.1.4.12).
    Perf PortExtendedSpeeds = 0x001F, "PortExtendedSpeedsCounters", len 152 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u64 = 8, "CounterSelect", hex;
        sync_header_errors, set_sync_header_errors: u16 = 16, "SyncHeaderErrorCounter";
        unknown_blocks, set_unknown_blocks: u16 = 18, "UnknownBlockCounter";
        error_detection, set_error_detection: [u16; 12] = 20, "ErrorDetectionCounterLane";
        fec_correctable, set_fec_correctable: [u32; 12] = 44, "FECCorrectableBlockCtrLane";
        fec_uncorrectable, set_fec_uncorrectable: [u32; 12] = 92, "FECUncorrectableBlockCtrLane";
        correctable_blocks, set_correctable_blocks: u32 = 140, "PortFECCorrectableBlockCtr";
        uncorrectable_blocks, set_uncorrectable_blocks: u32 = 144, "PortFECUncorrectableBlockCtr";
        corrected_symbols, set_corrected_symbols: u32 = 148, "PortFECCorrectedSymbolCtr";
    }
}

attribute! {
    /// The same attribute as [`PortExtendedSpeeds`] as a port with RS-FEC
    /// active fills it: symbols per lane, blocks per port.
    Perf PortExtendedSpeedsRsFec = 0x001F, "PortExtendedSpeedsCounters", len 152 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u64 = 8, "CounterSelect", hex;
        sync_header_errors, set_sync_header_errors: u16 = 16, "SyncHeaderErrorCounter";
        unknown_blocks, set_unknown_blocks: u16 = 18, "UnknownBlockCounter";
        fec_correctable_symbols, set_fec_correctable_symbols: [u32; 12]
            = 44, "FECCorrectableSymbolCtrLane";
        correctable_blocks, set_correctable_blocks: u32 = 140, "PortFECCorrectableBlockCtr";
        uncorrectable_blocks, set_uncorrectable_blocks: u32 = 144, "PortFECUncorrectableBlockCtr";
        corrected_symbols, set_corrected_symbols: u32 = 148, "PortFECCorrectedSymbolCtr";
    }
}

attribute! {
    /// Congestion seen by a switch port per VL (annex A10).
    Perf SwPortVlCongestion = 0x0030, "SwPortVLCongestion", len 36 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        congestion, set_congestion: [u16; 16] = 4, "SWPortVLCongestion";
    }
}

attribute! {
    /// Congestion notifications received (annex A10).
    Perf PortRcvConCtrl = 0x0031, "PortRcvConCtrl", len 12 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        fecn, set_fecn: u32 = 4, "PortPktRcvFECN", packets;
        becn, set_becn: u32 = 8, "PortPktRcvBECN", packets;
    }
}

attribute! {
    /// FECNs received per SL (annex A10).
    Perf PortSlRcvFecn = 0x0032, "PortSLRcvFECN", len 68 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        fecn, set_fecn: [u32; 16] = 4, "PortSLRcvFECN", packets;
    }
}

attribute! {
    /// BECNs received per SL (annex A10).
    Perf PortSlRcvBecn = 0x0033, "PortSLRcvBECN", len 68 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        becn, set_becn: [u32; 16] = 4, "PortSLRcvBECN", packets;
    }
}

attribute! {
    /// Time the port was held back by congestion control (annex A10).
    Perf PortXmitConCtrl = 0x0034, "PortXmitConCtrl", len 8 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        time_cong, set_time_cong: u32 = 4, "PortXmitTimeCong", ticks;
    }
}

attribute! {
    /// The same per VL (annex A10); VL15 has none.
    Perf PortVlXmitTimeCong = 0x0035, "PortVLXmitTimeCong", len 64 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        time_cong, set_time_cong: [u32; 15] = 4, "PortVLXmitTimeCong", ticks;
    }
}

attribute! {
    /// Data sent per SL.
    Perf PortXmitDataSl = 0x0036, "PortXmitDataSL", len 68 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        data, set_data: [u32; 16] = 4, "XmtDataSL", words;
    }
}

attribute! {
    /// Data received per SL.
    Perf PortRcvDataSl = 0x0037, "PortRcvDataSL", len 68 {
        port_select, set_port_select: u8 = 1, "PortSelect";
        counter_select, set_counter_select: u16 = 2, "CounterSelect", hex;
        data, set_data: [u32; 16] = 4, "RcvDataSL", words;
    }
}
