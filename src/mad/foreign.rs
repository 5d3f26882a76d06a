//! Our decoding held against other programs': libibmad's dump functions over
//! arbitrary bytes, and captures of the usual tools talking to ibsim and
//! opensm, with what those tools printed.

use super::*;

/// A case of a test data file: name, bytes, printed lines.
struct Case<'a> {
    name: &'a str,
    bytes: Vec<u8>,
    lines: Vec<(&'a str, &'a str)>,
}

fn cases(file: &str) -> Vec<Case<'_>> {
    let body = file.split_once("\n> ").unwrap().1;
    body.split("\n> ")
        .map(|text| {
            let mut lines = text.lines();
            let name = lines.next().unwrap();
            let hex = lines.next().unwrap().as_bytes();
            let byte =
                |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            let bytes = hex.chunks(2).map(byte).collect();
            // "Name:......value"
            let lines = lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name, value.trim_start_matches('.').trim_end()))
                .collect();
            Case { name, bytes, lines }
        })
        .collect()
}

fn captured(name: &str) -> Mad {
    let cases = cases(include_str!("testdata/captured.txt"));
    let case = cases.iter().find(|case| case.name == name).unwrap();
    Mad::from_bytes(&case.bytes).unwrap()
}

/// The tools' spelling of a field, where it is not the spec's.
const ALIASES: &[(&str, &str)] = &[
    ("BaseVers", "BaseVersion"),
    ("ClassVers", "ClassVersion"),
    ("SystemGuid", "SystemImageGUID"),
    ("Guid", "NodeGUID"),
    ("PortGuid", "PortGUID"),
    ("PartCap", "PartitionCap"),
    ("DevId", "DeviceID"),
    ("LocalPort", "LocalPortNum"),
    ("VendorId", "VendorID"),
    ("Mkey", "M_Key"),
    ("Lid", "LID"),
    ("SMLid", "MasterSMLID"),
    ("CapMask", "CapabilityMask"),
    ("MkeyLeasePeriod", "M_KeyLeasePeriod"),
    ("LinkState", "PortState"),
    ("PhysLinkState", "PortPhysicalState"),
    ("LinkDownDefState", "LinkDownDefaultState"),
    ("ProtectBits", "M_KeyProtectBits"),
    ("SMSL", "MasterSMSL"),
    ("VLArbHighCap", "VLArbitrationHighCap"),
    ("VLArbLowCap", "VLArbitrationLowCap"),
    ("InitReply", "InitTypeReply"),
    ("MtuCap", "MTUCap"),
    ("HoqLife", "HOQLife"),
    ("OperVLs", "OperationalVLs"),
    ("PartEnforceInb", "PartitionEnforcementInbound"),
    ("PartEnforceOutb", "PartitionEnforcementOutbound"),
    ("FilterRawInb", "FilterRawInbound"),
    ("FilterRawOutb", "FilterRawOutbound"),
    ("MkeyViolations", "M_KeyViolations"),
    ("PkeyViolations", "P_KeyViolations"),
    ("QkeyViolations", "Q_KeyViolations"),
    ("GuidCap", "GUIDCap"),
    ("SubnetTimeout", "SubnetTimeOut"),
    ("RespTimeVal", "RespTimeValue"),
    ("LocalPhysErr", "LocalPhyErrors"),
    ("OverrunErr", "OverrunErrors"),
    ("RoundTrip", "LinkRoundTripLatency"),
    ("LinearFdbCap", "LinearFDBCap"),
    ("RandomFdbCap", "RandomFDBCap"),
    ("McastFdbCap", "MulticastFDBCap"),
    ("LinearFdbTop", "LinearFDBTop"),
    ("DefPort", "DefaultPort"),
    ("DefMcastPrimPort", "DefaultMulticastPrimaryPort"),
    ("DefMcastNotPrimPort", "DefaultMulticastNotPrimaryPort"),
    ("LifeTime", "LifeTimeValue"),
    ("StateChange", "PortStateChange"),
    ("OptSLtoVLMapping", "OptimizedSLtoVLMappingProgramming"),
    ("LidsPerPort", "LIDsPerPort"),
    ("PartEnforceCap", "PartitionEnforcementCap"),
    ("InboundPartEnf", "InboundEnforcementCap"),
    ("OutboundPartEnf", "OutboundEnforcementCap"),
    ("FilterRawInbound", "FilterRawInboundCap"),
    ("FilterRawOutbound", "FilterRawOutboundCap"),
    ("RedirectPKey", "RedirectP_Key"),
    ("RedirectQKey", "RedirectQ_Key"),
    ("TrapPKey", "TrapP_Key"),
    ("TrapQKey", "TrapQ_Key"),
];

/// Fields that libibmad reads from other fields' bytes.
const THEIR_MISTAKES: &[(&str, &str)] = &[
    ("PortCounters", "QP1Dropped"),
    ("PortInfoExtended", "HDRFECModeSupported"),
    ("PortInfoExtended", "HDRFECModeEnabled"),
    ("PortInfoExtended", "NDRFECModeSupported"),
    ("PortInfoExtended", "NDRFECModeEnabled"),
];

/// The tools' words in ours.
fn in_our_words(text: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("106.25 Gbps", "NDR"),
        ("53.125 Gbps", "HDR"),
        ("25.78125 Gbps", "EDR"),
        ("14.0625 Gbps", "FDR"),
        ("10.0 Gbps", "QDR"),
        ("5.0 Gbps", "DDR"),
        ("2.5 Gbps", "SDR"),
        ("No Extended Speed", "none"),
        ("Channel Adapter", "CA"),
        ("Initialize", "Init"),
        ("X", "x"),
    ];
    WORDS.iter().fold(text.to_owned(), |text, (theirs, ours)| {
        text.replace(theirs, ours)
    })
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn same(theirs: &str, ours: &Value<'_>) -> bool {
    if let Some((_, raw)) = theirs.trim_end_matches(['?', ')']).rsplit_once('(') {
        // "?(14)", "12X or undefined (200)": the raw number in parentheses.
        return number(raw) == ours.number();
    }
    match ours {
        Value::Gid(gid) => format!("{:032x}", u128::from_be_bytes(gid.0)) == theirs,
        // A code may be printed as a number of the tool's or as the value's.
        Value::Coded(raw, _) => {
            in_our_words(theirs) == ours.to_string() || number(theirs) == Some(*raw)
        }
        _ => number(theirs) == ours.number(),
    }
}

/// Every line that the tool printed is a field of ours with the same value.
/// Returns how many.
fn compare(info: &AttributeInfo, bytes: &[u8], lines: &[(&str, &str)]) -> usize {
    let ours: Vec<_> = Fields::new(info.fields, bytes).collect();
    let mut compared = 0;
    for (theirs, printed) in lines {
        let spelled = |name: &str| ours.iter().find(|field| field.name() == name);
        let alias = ALIASES.iter().find(|(alias, _)| alias == theirs);
        let found = spelled(theirs).or_else(|| spelled(alias?.1));
        let found = found.unwrap_or_else(|| panic!("{}: no field for {theirs}", info.name));
        let mistake = THEIR_MISTAKES.contains(&(info.name, found.field.name));
        let hidden = *printed == "<not displayed>";
        if !hidden {
            let same = same(printed, &found.reveal());
            assert_eq!(
                same,
                !mistake,
                "{} {}: theirs {printed}, ours {:?}",
                info.name,
                found.name(),
                found.reveal()
            );
        }
        compared += 1;
    }
    compared
}

#[test]
fn arbitrary_bytes_decode_as_libibmad_does() {
    let mut compared = 0;
    for case in cases(include_str!("testdata/libibmad.txt")) {
        let rs_fec = case.name.ends_with("RS-FEC");
        let name = case.name.trim_end_matches(" RS-FEC");
        let mut infos = registry::ALL.iter().filter(|info| info.name == name);
        let info = if rs_fec {
            infos.next_back()
        } else {
            infos.next()
        };
        compared += compare(info.unwrap(), &case.bytes, &case.lines);
    }
    assert_eq!(compared, LINES_OF_LIBIBMAD);
}

/// `grep -c '^[A-Za-z0-9_]*:\.'` over the file.
const LINES_OF_LIBIBMAD: usize = 460;

#[test]
fn captured_replies_decode_as_the_tools_printed_them() {
    let cases = cases(include_str!("testdata/captured.txt"));
    let printed = cases.iter().filter(|case| !case.lines.is_empty());
    let mut seen = Vec::new();
    for case in printed {
        let mad = MadView::new(&case.bytes).unwrap();
        assert!(mad.is_response() && mad.status().is_ok(), "{}", case.name);
        let info = registry::find(mad.class(), mad.attr_id()).unwrap();
        // ibsim keeps no QP1Dropped: there even libibmad is right.
        let lines: Vec<_> = case
            .lines
            .iter()
            .copied()
            .filter(|(name, _)| *name != "QP1Dropped")
            .collect();
        compare(info, mad.data(), &lines);
        seen.push((case.name, case.lines.len()));
    }
    let want = [
        ("ni", 12),
        ("si", 18),
        ("pi", 51),
        ("pi0", 51),
        ("pc1", 21),
        ("px", 10),
    ];
    assert_eq!(seen, want);
}

#[test]
fn a_directed_route_reply_is_read_with_its_header() {
    let mad = captured("ni");
    assert_eq!(mad.class(), MgmtClass::SubnDirected);
    assert_eq!(mad.method(), Method::GetResp);
    assert!(mad.is_returning());
    assert_eq!(mad.status(), Status::OK);
    assert_eq!((mad.hop_pointer(), mad.hop_count()), (0, 1));
    assert_eq!((mad.dr_slid(), mad.dr_dlid()), (0xffff, 0xffff));
    assert_eq!(mad.initial_path(), [1]);
    let info = NodeInfo::parse(&mad.view()).unwrap();
    assert_eq!(info.node_type(), NodeType::Switch);
    assert_eq!(info.node_guid(), 0x200000);
}

#[test]
fn text_and_tables_are_read() {
    let description = NodeDescription::parse(&captured("nd").view()).unwrap();
    assert_eq!(description.text(), "node00000 mlx5_0");
    let pkeys = PKeyTable::parse(&captured("pk").view()).unwrap().pkeys();
    assert_eq!((pkeys[0], pkeys[1]), (0xffff, 0));
    // smpquery sl2vl: 0 to 14, and 7 for SL 15.
    let vls = SlToVl::parse(&captured("sl").view()).unwrap().vls();
    assert_eq!(vls, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7]);
    // smpquery vlarb, the table printed last: weight 4 for VL 0, else 0.
    let arbitration = VlArbitration::parse(&captured("vl").view()).unwrap();
    let entries: Vec<_> = (0..8).filter_map(|i| arbitration.entry(i)).collect();
    assert_eq!(
        entries,
        [
            (0, 4),
            (1, 0),
            (2, 0),
            (3, 0),
            (4, 0),
            (5, 0),
            (6, 0),
            (7, 0)
        ]
    );
    let sm = SmInfo::parse(&captured("smi").view()).unwrap();
    // sminfo: guid 0x100003, activity count 284, priority 0, state 3 MASTER.
    assert_eq!((sm.guid(), sm.act_count()), (0x100003, 284));
    assert_eq!((sm.priority(), sm.state()), (0, SmState::Master));
}

/// The one record of a reply of the SA.
fn record<R: Attribute>(name: &str) -> R {
    let mad = captured(name);
    let found: Vec<R> = records(&mad.view()).collect();
    assert_eq!(found.len(), 1, "{name}");
    found.into_iter().next().unwrap()
}

#[test]
fn sa_records_decode_as_saquery_printed_them() {
    let node: NodeRecord = record("nr");
    assert_eq!(node.lid(), 1);
    assert_eq!(node.node_info().node_type(), NodeType::Ca);
    assert_eq!(node.node_info().node_guid(), 0x100002);
    assert_eq!(node.node_info().port_guid(), 0x100003);
    assert_eq!(node.node_info().partition_cap(), 0x40);
    assert_eq!(node.description().text(), "node00001 mlx5_0");

    let port: PortInfoRecord = record("pir");
    assert_eq!((port.lid(), port.port()), (1, 1));
    let info = port.port_info();
    assert_eq!(info.cap_mask(), PortCaps(0x50c04a));
    assert_eq!(info.port_state(), PortState::Active);
    assert_eq!(
        info.link_width_supported().to_string(),
        "1x or 4x or 8x or 12x or 2x"
    );
    assert_eq!(info.m_key_lease_period(), 4089);
    assert_eq!(info.cap_mask2(), PortCaps2(0x30));
    assert_eq!(info.neighbor_mtu(), Mtu::B2048);

    let path: PathRecord = record("pr");
    assert_eq!(path.dgid().to_string(), "fe80::20:0");
    assert_eq!(path.sgid().to_string(), "fe80::10:3");
    assert_eq!((path.dlid(), path.slid(), path.pkey()), (2, 1, 0xffff));
    // saquery: num_path_revers 0x80, mtu 0x83, rate 0x83, pkt_life 0x92.
    assert_eq!((path.reversible(), path.numb_path()), (true, 0));
    assert_eq!(
        (path.mtu_selector(), path.mtu()),
        (Selector::Exactly, Mtu::B1024)
    );
    assert_eq!(
        (path.rate_selector(), path.rate()),
        (Selector::Exactly, Rate::G10)
    );
    assert_eq!(
        (path.life_selector(), path.life()),
        (Selector::Exactly, 0x12)
    );

    let link: LinkRecord = record("lr");
    assert_eq!((link.from_lid(), link.from_port()), (1, 1));
    assert_eq!((link.to_port(), link.to_lid()), (2, 2));

    let group: McMemberRecord = record("mcr");
    assert_eq!(group.mgid().to_string(), "ff12:401b:ffff::ffff:ffff");
    assert_eq!(
        (group.qkey(), group.mlid(), group.pkey()),
        (0xb1b, 0xc000, 0xffff)
    );
    assert_eq!((group.mtu(), group.rate()), (Mtu::B2048, Rate::G10));
    assert_eq!((group.scope(), group.join_state()), (2, JoinState(0)));

    let sm: SmInfoRecord = record("smir");
    assert_eq!((sm.lid(), sm.sm_info().guid()), (1, 0x100003));
    assert_eq!(
        (sm.sm_info().act_count(), sm.sm_info().state()),
        (285, SmState::Master)
    );

    let block: LftRecord = record("lft");
    assert_eq!((block.lid(), block.block()), (2, 0));
    let ports = block.table().ports();
    assert_eq!(
        ports[..16],
        [255, 2, 0, 1, 3, 3, 3, 3, 3, 4, 4, 3, 4, 3, 4, 255]
    );
}

#[test]
fn a_table_of_offset_zero_holds_nothing_whatever_its_bytes_are() {
    let mad = captured("iir");
    assert_eq!(mad.method(), Method::GetTableResp);
    assert_eq!((mad.attribute_offset(), mad.len()), (0, 56));
    assert_eq!(records::<InformInfoRecord>(&mad.view()).count(), 0);
    // A port that pads to 256 bytes leaves junk behind.
    let padded = [mad.bytes(), &[0xa5; 200]].concat();
    let mad = Mad::from_bytes(&padded).unwrap();
    assert_eq!(records::<InformInfoRecord>(&mad.view()).count(), 0);
}
