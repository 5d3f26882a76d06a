//! The optional counters of performance management, in groups and in words.
//!
//! One row an attribute; what its fields are called, count and measure comes from the
//! attribute's own declaration.

use super::*;

/// An optional attribute of performance management that belongs to one port.
#[derive(Clone, Copy, Debug)]
pub struct Optional {
    /// The attribute ID.
    pub id: u16,
    /// What it tells, in words.
    pub title: &'static str,
    /// Only switches have it.
    pub switch_only: bool,
    /// What is known of the attribute.
    pub info: AttributeInfo,
}

const fn of<A: Attribute>(title: &'static str) -> Optional {
    Optional {
        id: A::ID,
        title,
        switch_only: false,
        info: A::INFO,
    }
}

const fn of_switches<A: Attribute>(title: &'static str) -> Optional {
    Optional {
        switch_only: true,
        ..of::<A>(title)
    }
}

/// All of them, in the order in which they are shown.
pub const OPTIONAL: &[Optional] = &[
    of::<PortRcvErrorDetails>("Receive errors by cause"),
    of::<PortXmitDiscardDetails>("Transmit discards by cause"),
    of::<PortFlowCtlCounters>("Flow control"),
    of::<PortOpRcvCounters>("Received by opcode (0)"),
    of::<PortVlOpPackets>("Packets per VL (opcode 0)"),
    of::<PortVlOpData>("Data per VL (opcode 0)"),
    of::<PortVlXmitFlowCtlUpdateErrors>("Flow control update errors per VL"),
    of::<PortVlXmitWait>("Waited to transmit per VL"),
    of_switches::<SwPortVlCongestion>("Congestion per VL"),
    of::<PortRcvConCtrl>("Congestion notifications received"),
    of::<PortSlRcvFecn>("FECNs received per SL"),
    of::<PortSlRcvBecn>("BECNs received per SL"),
    of::<PortXmitConCtrl>("Held back by congestion control"),
    of::<PortVlXmitTimeCong>("Held back by congestion control per VL"),
    of::<PortXmitDataSl>("Data transmitted per SL"),
    of::<PortRcvDataSl>("Data received per SL"),
];

/// The row of an attribute.
pub fn optional(id: u16) -> Option<&'static Optional> {
    OPTIONAL.iter().find(|o| o.id == id)
}

/// Names of counters in words, as far as the attribute's name leaves room for doubt.
const LABELS: &[(&str, &str)] = &[
    ("PortLocalPhysicalErrors", "physical errors on this link"),
    ("PortMalformedPktErrors", "malformed packets"),
    ("PortBufferOverrunErrors", "buffer overruns"),
    ("PortDLIDMappingErrors", "no way to the destination LID"),
    ("PortVLMappingErrors", "VL not in use"),
    ("PortLoopingErrors", "looping packets"),
    ("PortInactiveDiscards", "port was not active"),
    ("PortNeighborMTUDiscards", "longer than the neighbour's MTU"),
    (
        "PortSwLifetimeLimitDiscards",
        "lifetime limit in the switch",
    ),
    (
        "PortSwHOQLifetimeLimitDiscards",
        "too long at the head of the queue",
    ),
    ("PortOpRcvPkts", "packets"),
    ("PortOpRcvData", "data"),
    ("PortXmitFlowPkts", "flow control packets sent"),
    ("PortRcvFlowPkts", "flow control packets received"),
    ("PortPktRcvFECN", "FECN"),
    ("PortPktRcvBECN", "BECN"),
    ("PortXmitTimeCong", "time held back"),
    ("PortVLOpPackets", "VL"),
    ("PortVLOpData", "VL"),
    ("PortVLXmitFlowCtlUpdateErrors", "VL"),
    ("PortVLXmitWait", "VL"),
    ("SWPortVLCongestion", "VL"),
    ("PortVLXmitTimeCong", "VL"),
    ("PortSLRcvFECN", "SL"),
    ("PortSLRcvBECN", "SL"),
    ("XmtDataSL", "SL"),
    ("RcvDataSL", "SL"),
];

/// A counter's name in words; its own name where there are none.
pub fn label(field: &str) -> &str {
    LABELS
        .iter()
        .find(|(name, _)| *name == field)
        .map_or(field, |(_, label)| label)
}

/// A field that only says what was asked for.
pub fn is_selector(field: &Field) -> bool {
    matches!(field.name, "PortSelect" | "CounterSelect" | "OpCode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_every_optional_attribute_has_words() {
        for optional in OPTIONAL {
            assert_eq!(optional.info.family, Family::Perf);
            let mut counters = 0;
            for field in optional.info.fields.iter().filter(|f| !is_selector(f)) {
                assert_ne!(label(field.name), field.name, "{}", optional.info.name);
                counters += 1;
            }
            assert!(counters > 0);
        }
        assert_eq!(OPTIONAL.len(), 16);
        assert_eq!(label("Whatever"), "Whatever");
    }
}
