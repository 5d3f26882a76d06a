//! Names of classes, methods, attributes and statuses, as libibumad words them, with its
//! mistakes corrected: `CongestionManagement` (there `CongestionManagment`), `<unknown>` for an
//! unknown method (there without the closing bracket), and the reserved status codes 4 to 6,
//! which it reads as success, are `Reserved status code`.

/// What is shown for a number without a name.
pub const UNKNOWN: &str = "<unknown>";

/// Name of a management class (`umad_class_str`).
pub fn class(class: u8) -> &'static str {
    match class {
        0x01 | 0x81 => "Subn",
        0x03 => "SubnAdm",
        0x04 => "Perf",
        0x05 => "BM",
        0x06 => "DevMgt",
        0x07 => "ComMgt",
        0x08 => "SNMP",
        0x10 => "DevAdm",
        0x11 => "BootMgt",
        0x12 => "BIS",
        0x21 => "CongestionManagement",
        0x09..=0x0f | 0x30..=0x4f => "Vendor",
        0x13..=0x2f => "Application",
        _ => UNKNOWN,
    }
}

/// Name of a method (`umad_method_str`); class 0x03 has methods of its own.
pub fn method(class: u8, method: u8) -> &'static str {
    match (class, method) {
        (0x03, 0x12) => "GetTable",
        (0x03, 0x92) => "GetTableResp",
        (0x03, 0x13) => "GetTraceTable",
        (0x03, 0x14) => "GetMulti",
        (0x03, 0x94) => "GetMultiResp",
        (0x03, 0x15) => "Delete",
        (0x03, 0x95) => "DeleteResp",
        (_, 0x01) => "Get",
        (_, 0x02) => "Set",
        (_, 0x81) => "GetResp",
        (_, 0x03) => "Send",
        (_, 0x05) => "Trap",
        (_, 0x06) => "Report",
        (_, 0x86) => "ReportResp",
        (_, 0x07) => "TrapRepress",
        _ => UNKNOWN,
    }
}

/// Name of an attribute (`umad_attribute_str`), number in host order.
pub fn attribute(class: u8, attribute: u16) -> &'static str {
    let own = match class {
        0x01 | 0x81 => subn_attribute(attribute),
        0x03 => sa_attribute(attribute),
        0x07 => cm_attribute(attribute),
        _ => None,
    };
    own.unwrap_or(match attribute {
        0x0001 => "Class Port Info",
        0x0002 => "Notice",
        0x0003 => "Inform Info",
        _ => UNKNOWN,
    })
}

fn subn_attribute(attribute: u16) -> Option<&'static str> {
    Some(match attribute {
        0x0010 => "NodeDescription",
        0x0011 => "NodeInfo",
        0x0012 => "SwitchInfo",
        0x0014 => "GUIDInfo",
        0x0015 => "PortInfo",
        0x0016 => "P_KeyTable",
        0x0017 => "SLtoVLMappingTable",
        0x0018 => "VLArbitrationTable",
        0x0019 => "LinearForwardingTable",
        0x001a => "RandomForwardingTable",
        0x001b => "MulticastForwardingTable",
        0x001c => "LinkSpeedWidthPairsTable",
        0x001d => "VendorSpecificMadsTable",
        0x001e => "HierarchyInfo",
        0x0020 => "SMInfo",
        0x0030 => "VendorDiag",
        0x0031 => "LedInfo",
        0x0032 => "CableInfo",
        0x0033 => "PortInfoExtended",
        _ => return None,
    })
}

fn sa_attribute(attribute: u16) -> Option<&'static str> {
    Some(match attribute {
        0x0011 => "NodeRecord",
        0x0012 => "PortInfoRecord",
        0x0013 => "SLtoVLMappingTableRecord",
        0x0014 => "SwitchInfoRecord",
        0x0015 => "LinearForwardingTableRecord",
        0x0016 => "RandomForwardingTableRecord",
        0x0017 => "MulticastForwardingTableRecord",
        0x0018 => "SMInfoRecord",
        0x0019 => "LinkSpeedWidthPairsTableRecord",
        0x00f3 => "InformInfoRecord",
        0x0020 => "LinkRecord",
        0x0030 => "GuidInfoRecord",
        0x0031 => "ServiceRecord",
        0x0033 => "P_KeyTableRecord",
        0x0035 => "PathRecord",
        0x0036 => "VLArbitrationTableRecord",
        0x0038 => "MCMemberRecord",
        0x0039 => "TraceRecord",
        0x003a => "MultiPathRecord",
        0x003b => "ServiceAssociationRecord",
        0x003c => "HierarchyInfoRecord",
        0x003d => "CableInfoRecord",
        0x003e => "PortInfoExtendedRecord",
        _ => return None,
    })
}

fn cm_attribute(attribute: u16) -> Option<&'static str> {
    Some(match attribute {
        0x0010 => "ConnectRequest",
        0x0011 => "MsgRcptAck",
        0x0012 => "ConnectReject",
        0x0013 => "ConnectReply",
        0x0014 => "ReadyToUse",
        0x0015 => "DisconnectRequest",
        0x0016 => "DisconnectReply",
        0x0017 => "ServiceIDResReq",
        0x0018 => "ServiceIDResReqResp",
        0x0019 => "LoadAlternatePath",
        0x001a => "AlternatePathResponse",
        0x001b => "SuggestAlternatePath",
        0x001c => "SuggestPathResponse",
        _ => return None,
    })
}

/// The status bits common to all classes (`umad_common_mad_status_str`), host order. Busy is
/// named before a redirect, and that before the field codes.
pub fn common_status(status: u16) -> &'static str {
    if status & 0x0001 != 0 {
        return "Busy";
    }
    if status & 0x0002 != 0 {
        return "Redirection required";
    }
    match (status >> 2) & 7 {
        0 => "Success",
        1 => "Bad Version",
        2 => "Method not supported",
        3 => "Method/Attribute combo not supported",
        7 => "Invalid attribute/modifier field",
        _ => "Reserved status code",
    }
}

/// The status of subnet administration (`umad_sa_mad_status_str`), host order: the high byte.
pub fn sa_status(status: u16) -> &'static str {
    match status >> 8 {
        0 => "Success",
        1 => "No Resources",
        2 => "Request Invalid",
        3 => "No Records",
        4 => "Too Many Records",
        5 => "Invalid GID",
        6 => "Insufficient Components",
        7 => "Request Denied",
        8 => "Priority Suggested",
        _ => "Undefined Error",
    }
}

/// The status of a directed-route packet, host order: bit 15 is the direction and no status.
pub fn dr_status(status: u16) -> &'static str {
    common_status(status & 0x7fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words from the C library's output, except where the module says otherwise.
    #[test]
    fn words() {
        assert_eq!(class(0x81), "Subn");
        assert_eq!(class(0x10), "DevAdm");
        assert_eq!(class(0x2f), "Application");
        assert_eq!(class(0x30), "Vendor");
        assert_eq!(class(0x09), "Vendor");
        assert_eq!(class(0x21), "CongestionManagement");
        assert_eq!(class(0x50), UNKNOWN);
        assert_eq!(class(0), UNKNOWN);
        assert_eq!(method(3, 0x92), "GetTableResp");
        assert_eq!(method(4, 0x92), UNKNOWN);
        assert_eq!(method(3, 0x01), "Get");
        assert_eq!(attribute(0x81, 0x15), "PortInfo");
        assert_eq!(attribute(0x03, 0x35), "PathRecord");
        assert_eq!(attribute(0x03, 0x01), "Class Port Info");
        assert_eq!(attribute(0x07, 0x13), "ConnectReply");
        assert_eq!(attribute(0x04, 0x12), UNKNOWN);
        assert_eq!(common_status(0x0003), "Busy");
        assert_eq!(common_status(0x0002), "Redirection required");
        assert_eq!(
            common_status(0x000c),
            "Method/Attribute combo not supported"
        );
        assert_eq!(common_status(0x001c), "Invalid attribute/modifier field");
        assert_eq!(common_status(0x0010), "Reserved status code");
        assert_eq!(sa_status(0x0300), "No Records");
        assert_eq!(sa_status(0x0900), "Undefined Error");
        assert_eq!(dr_status(0x8000), "Success");
    }
}
