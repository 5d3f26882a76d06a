use super::super::{Mad, Status};
use super::*;

/// A generic notice from the head "type, producer, trap, issuer, count" and
/// details as hex, the rest zero.
fn notice(head: &str, details: &str) -> Notice {
    let hex: String = [head, details].concat().split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    assert!(bytes.len() <= 64);
    bytes.resize(64, 0);
    Notice::from_bytes(&bytes).unwrap()
}

#[test]
fn trap_128_names_the_switch() {
    // Urgent, generic, from a switch: 0x81; LID 0x0012 twice.
    let notice = notice("81 000002 0080 0012 8001", "0012");
    assert!(notice.is_generic() && notice.toggle());
    assert_eq!(notice.notice_type(), NoticeType::Urgent);
    assert_eq!(notice.producer_type(), ProducerType::Switch);
    assert_eq!((notice.issuer_lid(), notice.count()), (0x12, 1));
    assert_eq!(Trap::of(&notice), Trap::LinkStateChanged { lid: 0x12 });
    assert_eq!(
        Trap::of(&notice).to_string(),
        "link state changed at switch LID 18"
    );
}

#[test]
fn traps_129_to_131_name_lid_and_port() {
    for (number, words) in [
        ("0081", "local link integrity errors at LID 18 port 7"),
        ("0082", "excessive buffer overruns at LID 18 port 7"),
        ("0083", "flow control watchdog expired at LID 18 port 7"),
    ] {
        let head = format!("81 000001 {number} 0012 0000");
        let trap = Trap::of(&notice(&head, "0000 0012 07"));
        assert_eq!(trap.to_string(), words);
        assert_eq!((trap.lid(), trap.port()), (Some(18), Some(7)));
    }
}

#[test]
fn traps_64_to_67_name_a_gid() {
    let gid = "fe80000000000000 0002c90300001234";
    for (number, words) in [
        ("0040", "GID fe80::2:c903:0:1234 in service"),
        ("0041", "GID fe80::2:c903:0:1234 out of service"),
        ("0042", "multicast group fe80::2:c903:0:1234 created"),
        ("0043", "multicast group fe80::2:c903:0:1234 deleted"),
    ] {
        let head = format!("83 000004 {number} 0001 0000");
        let trap = Trap::of(&notice(&head, &format!("000000000000 {gid}")));
        assert_eq!(trap.to_string(), words);
        assert_eq!(trap.gid().unwrap().guid(), 0x2c90300001234);
    }
    for number in ["0044", "0045"] {
        let trap = Trap::of(&notice(&format!("83 000004 {number} 0001 0000"), ""));
        assert!(matches!(trap, Trap::UnPath(_) | Trap::RePath(_)));
    }
}

/// Notice: type 3, producer 4, trap 68, issuer LID 1. Details: the component mask at byte 10,
/// the flag in the first bit of byte 18. IssuerGID at 64, PathRecord at 80: DGID at its byte
/// 8, SGID at 24, DLID at 40, SLID at 42, P_Key at 50.
#[test]
fn traps_68_and_69_say_which_paths_in_what_follows() {
    let mut data = [0u8; 200];
    let mut put = |at: usize, hex: &str| {
        let digits: String = hex.split_whitespace().collect();
        for (i, pair) in digits.as_bytes().chunks(2).enumerate() {
            let byte = std::str::from_utf8(pair).unwrap();
            data[at + i] = u8::from_str_radix(byte, 16).unwrap();
        }
    };
    put(0, "83 000004 0044 0001 0000");
    // DGID is component 2, SLID 5, P_Key 13.
    put(10, "0000000000002024 80");
    put(64, "fe80000000000000 0002c90300000001");
    put(80 + 8, "fe80000000000000 0002c90300001234");
    put(80 + 24, "fe80000000000000 0002c90300005678");
    put(80 + 40, "0011 0012");
    put(80 + 50, "8001");
    let read = |data: &[u8]| {
        let mut mad = Mad::sa(Method::Report, Notice::ID, 0, 0, 1);
        mad.set_data_bytes(data);
        Received::parse(&mad.view()).unwrap().trap()
    };
    let trap = read(&data);
    let Trap::UnPath(paths) = trap else {
        panic!("{trap:?}");
    };
    assert_eq!((paths.comp_mask, paths.wait_for_repath), (0x2024, true));
    let [from, to] = paths.ends();
    assert_eq!(from, (None, Some(0x12)));
    assert_eq!((to.0.unwrap().guid(), to.1), (0x2c90300001234, None));
    assert_eq!(
        trap.to_string(),
        "paths no longer valid from LID 18 to fe80::2:c903:0:1234 P_Key 0x8001"
    );
    // Trap 69, of every path: nothing of the record counts.
    data[5] = 69;
    data[10..19].fill(0);
    assert_eq!(read(&data).to_string(), "paths recomputed");
}

#[test]
fn trap_144_and_145_say_what_changed() {
    // LID @12, other-changes bit @15, CapabilityMask @16, flags @20.
    let head = "84 000001 0090 0005 0000";
    let trap = Trap::of(&notice(head, "0000 0005 00 01 02510868 0001 0000"));
    assert_eq!(trap.to_string(), "local change at LID 5: NodeDescription");
    let trap = Trap::of(&notice(head, "0000 0005 00 00 0251086a 0000 0000"));
    assert_eq!(
        trap.to_string(),
        "local change at LID 5: CapabilityMask 0x0251086a"
    );
    let Trap::LocalChange { cap_mask, .. } = trap else {
        panic!()
    };
    assert!(cap_mask.has(PortCaps::IS_SM));
    let trap = notice(
        "84 000001 0091 0005 0000",
        "0000 0005 0000 0002c90300005678",
    );
    let words = "SystemImageGUID of LID 5 is now 0x0002c90300005678";
    assert_eq!(Trap::of(&trap).to_string(), words);
}

#[test]
fn key_violations_name_both_ends_but_never_an_m_key() {
    // 256: LID @12, DrSLID, method @16, attribute @18, modifier @20, key @24.
    let details = "0000 0009 0000 01 00 0015 00000003 1122334455667788 00 c2 0105";
    let trap = Trap::of(&notice("82 000001 0100 0009 0000", details));
    assert_eq!(
        trap.to_string(),
        "bad M_Key from LID 9: Get(PortInfo) modifier 0x3"
    );
    let Trap::BadMKey {
        hops,
        truncated,
        return_path,
        ..
    } = trap
    else {
        panic!()
    };
    assert_eq!(
        (hops, truncated, &return_path[..2]),
        (2, true, &[1u8, 5][..])
    );
    assert!(!format!("{trap:?}").contains("1122334455667788"));
    // 257: LIDs @12, @14, key @16, SL in @20, QPs @21, @25.
    let details = "0000 0009 000a 00008001 30 000048 00 000049";
    let trap = Trap::of(&notice("82 000001 0101 0009 0000", details));
    let words = "bad P_Key 0x8001 from LID 9 QP 0x48 to LID 10 QP 0x49 SL 3";
    assert_eq!(trap.to_string(), words);
    let trap = Trap::of(&notice("82 000001 0102 0009 0000", details));
    assert!(matches!(trap, Trap::BadQKey(_)));
    // 259: valid bits, LIDs, key u16 @16, SL in @18, QPs @19 and @23, GIDs
    // @26 and @42, switch LID @58, port @60.
    let details = [
        "0003 0009 000a 8001 30 000048 00 000049",
        &"00".repeat(32),
        "0014 05",
    ]
    .concat();
    let trap = Trap::of(&notice("82 000002 0103 0014 0000", &details));
    let at = "bad P_Key 0x8001 from LID 9 QP 0x48 to LID 10 QP 0x49 SL 3, at switch LID 20 port 5";
    assert_eq!(trap.to_string(), at);
}

#[test]
fn vendor_and_unknown_notices_are_kept() {
    let vendor = notice("04 0002c9 1234 0001 0000", "deadbeef");
    let trap = Trap::of(&vendor);
    assert_eq!(
        trap,
        Trap::Vendor {
            vendor_id: 0x2c9,
            device_id: 0x1234
        }
    );
    assert_eq!(vendor.details()[..4], [0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(trap.to_string(), "vendor 0x0002c9 notice 0x1234");
    let other = notice("84 000001 1000 0001 0000", "");
    assert_eq!(Trap::of(&other).to_string(), "trap 4096");
}

#[test]
fn a_report_tells_the_issuer_and_a_trap_does_not() {
    let notice = notice("81 000002 0080 0012 0000", "0012");
    let gid = Gid::new(0xfe80 << 48, 0x1234);
    let mut reported = ReportedNotice::new();
    reported.set_notice(notice).set_issuer_gid(gid);
    let mut report = Mad::sa(Method::Report, Notice::ID, 0, 0, 5);
    report.set_data(&reported);
    // SA data at 56, the GID 64 bytes later.
    assert_eq!(report.bytes()[120..122], [0xfe, 0x80]);
    let got = Received::parse(&report.view()).unwrap();
    assert_eq!((got.notice, got.issuer_gid), (notice, Some(gid)));

    let resp = Mad::report_resp(&report.view());
    assert_eq!(
        (resp.method(), resp.status(), resp.tid()),
        (Method::ReportResp, Status::OK, 5)
    );
    assert_eq!(resp.data(), report.data());

    let mut trap = Mad::smp_lid(Method::Trap, Notice::ID, 0, 6);
    trap.set_data(&notice);
    let got = Received::parse(&trap.view()).unwrap();
    assert_eq!(
        (got.trap(), got.issuer_gid),
        (Trap::LinkStateChanged { lid: 18 }, None)
    );
}

proptest::proptest! {
    #[test]
    fn any_notice_decodes(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 64),
        number in proptest::sample::select(vec![
            64u16, 65, 66, 67, 68, 69, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259, 7,
        ]),
        generic: bool,
    ) {
        let mut notice = Notice::from_bytes(&bytes).unwrap();
        notice.set_trap_number(number).set_is_generic(generic);
        let trap = Trap::of(&notice);
        assert!(!trap.to_string().is_empty());
        if let Some(again) = Notice::from_trap(&trap, 1) {
            assert_eq!(Trap::of(&again), trap);
        }
    }
}
