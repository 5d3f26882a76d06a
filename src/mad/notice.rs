//! Notices decoded: what each generic trap says, and vendor notices as they
//! came.
//!
//! Words here know no names of nodes: rooms that have a topology put LIDs and
//! GIDs into context.

use std::fmt;

use super::attr::{Attribute, FieldType};
use super::{
    Gid, LocalChanges, MadView, Malformed, Method, MgmtClass, Notice, NoticeType, PathRecord,
    PortCaps, PortCaps2, ProducerType, ReportedNotice, component,
};

/// What a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trap {
    /// 64: an end port can be reached.
    GidInService { gid: Gid },
    /// 65: an end port can no longer be reached.
    GidOutOfService { gid: Gid },
    /// 66.
    McastGroupCreated { mgid: Gid },
    /// 67.
    McastGroupDeleted { mgid: Gid },
    /// 68: paths are no longer valid (UnPath).
    UnPath(PathNotice),
    /// 69: paths were recomputed (RePath).
    RePath(PathNotice),
    /// 128: a link of this switch changed state. Which one must be asked.
    LinkStateChanged { lid: u16 },
    /// 129: LocalLinkIntegrityErrors passed its threshold.
    LocalLinkIntegrity { lid: u16, port: u8 },
    /// 130: ExcessiveBufferOverrunErrors passed its threshold.
    BufferOverrun { lid: u16, port: u8 },
    /// 131: the link partner's flow control updates stopped.
    FlowControlWatchdog { lid: u16, port: u8 },
    /// 144: a port's capabilities or its node's description changed.
    LocalChange {
        lid: u16,
        cap_mask: PortCaps,
        cap_mask2: PortCaps2,
        /// The flags below are valid.
        other: bool,
        changes: LocalChanges,
    },
    /// 145.
    SystemImageGuidChanged { lid: u16, guid: u64 },
    /// 256: an SMP with a wrong M_Key. The key is left out: it is secret.
    BadMKey {
        lid: u16,
        dr_slid: u16,
        method: Method,
        attr_id: u16,
        attr_mod: u32,
        /// Directed route: hops, cut at 30.
        hops: u8,
        truncated: bool,
        return_path: [u8; 30],
    },
    /// 257: a packet with a wrong P_Key.
    BadPKey(KeyViolation),
    /// 258: a packet with a wrong Q_Key.
    BadQKey(KeyViolation),
    /// 259: a packet with a wrong P_Key, seen by a switch.
    SwitchBadPKey {
        violation: KeyViolation,
        valid: u16,
        switch_lid: u16,
        port: u8,
    },
    /// A trap number without a decoder here.
    OtherGeneric { number: u16 },
    /// Not generic: the details are in [`Notice::details`].
    Vendor { vendor_id: u32, device_id: u16 },
}

/// Which paths trap 68 or 69 is about.
///
/// The notice's details hold the component mask and the flag; what the components are follows
/// behind the notice, as a PathRecord, in the SA's reports only (spec 14.2.5.1; Wireshark's
/// dissector reads the same).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNotice {
    /// Which components of the record count: [`component`]. The paths that agree in them are
    /// meant.
    pub comp_mask: u64,
    /// New paths will be told: nobody need ask for them.
    pub wait_for_repath: bool,
    /// The record, if it came along.
    pub path: Option<PathRecord>,
}

impl PathNotice {
    /// Where the paths begin and end: a GID, else a LID, as far as the mask says that they count.
    pub fn ends(&self) -> [(Option<Gid>, Option<u16>); 2] {
        let Some(path) = self.path else {
            return [(None, None); 2];
        };
        let gid = |bit: u64, gid: Gid| (self.comp_mask & bit != 0).then_some(gid);
        let lid = |bit: u64, lid: u16| (self.comp_mask & bit != 0).then_some(lid);
        [
            (
                gid(component::PATH_SGID, path.sgid()),
                lid(component::PATH_SLID, path.slid()),
            ),
            (
                gid(component::PATH_DGID, path.dgid()),
                lid(component::PATH_DLID, path.dlid()),
            ),
        ]
    }

    /// It says something of the paths beside that they are meant.
    pub fn names_any(&self) -> bool {
        self.ends() != [(None, None); 2] || self.pkey().is_some()
    }

    /// The partition, if it counts.
    pub fn pkey(&self) -> Option<u16> {
        self.path
            .filter(|_| self.comp_mask & component::PATH_PKEY != 0)
            .map(|path| path.pkey())
    }
}

impl fmt::Display for PathNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, (gid, lid)) in ["from", "to"].into_iter().zip(self.ends()) {
            match (gid, lid) {
                (Some(gid), _) => write!(f, " {word} {gid}")?,
                (None, Some(lid)) => write!(f, " {word} LID {lid}")?,
                (None, None) => {}
            }
        }
        if let Some(pkey) = self.pkey() {
            write!(f, " P_Key {pkey:#06x}")?;
        }
        Ok(())
    }
}

/// A packet that a key kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyViolation {
    /// The P_Key or Q_Key in the packet.
    pub key: u32,
    /// Source.
    pub lid1: u16,
    /// Destination.
    pub lid2: u16,
    /// Service level.
    pub sl: u8,
    /// Source queue pair.
    pub qp1: u32,
    /// Destination queue pair.
    pub qp2: u32,
    /// Source, if the packet had a GRH.
    pub gid1: Gid,
    /// Destination, if the packet had a GRH.
    pub gid2: Gid,
}

impl Trap {
    /// Decodes the details of a notice.
    pub fn of(notice: &Notice) -> Trap {
        let bytes = notice.bytes();
        // Offsets in the notice; the details begin at 10 (spec 14.2.5.1).
        let u8_at = |at: usize| u8::read(bytes, at * 8, 8);
        let u16_at = |at: usize| u16::read(bytes, at * 8, 16);
        let u32_at = |at: usize| u32::read(bytes, at * 8, 32);
        let u24_at = |at: usize| u32::read(bytes, at * 8, 24);
        let gid_at = |at: usize| Gid::read(bytes, at * 8, 128);
        if !notice.is_generic() {
            return Trap::Vendor {
                vendor_id: notice.producer_type().code(),
                device_id: notice.trap_number(),
            };
        }
        let (lid, port) = (u16_at(12), u8_at(14));
        match notice.trap_number() {
            64 => Trap::GidInService { gid: gid_at(16) },
            65 => Trap::GidOutOfService { gid: gid_at(16) },
            66 => Trap::McastGroupCreated { mgid: gid_at(16) },
            67 => Trap::McastGroupDeleted { mgid: gid_at(16) },
            number @ (68 | 69) => {
                let paths = PathNotice {
                    comp_mask: u64::read(bytes, 10 * 8, 64),
                    wait_for_repath: u8_at(18) & 0x80 != 0,
                    path: None,
                };
                if number == 68 {
                    Trap::UnPath(paths)
                } else {
                    Trap::RePath(paths)
                }
            }
            128 => Trap::LinkStateChanged { lid: u16_at(10) },
            129 => Trap::LocalLinkIntegrity { lid, port },
            130 => Trap::BufferOverrun { lid, port },
            131 => Trap::FlowControlWatchdog { lid, port },
            144 => Trap::LocalChange {
                lid,
                cap_mask: PortCaps(u32_at(16)),
                cap_mask2: PortCaps2(u16_at(22)),
                other: u8_at(15) & 1 != 0,
                changes: LocalChanges(u16_at(20)),
            },
            145 => Trap::SystemImageGuidChanged {
                lid,
                guid: u64::read(bytes, 16 * 8, 64),
            },
            256 => {
                let flags = u8_at(33);
                Trap::BadMKey {
                    lid,
                    dr_slid: u16_at(14),
                    method: Method::new(u8_at(16)),
                    attr_id: u16_at(18),
                    attr_mod: u32_at(20),
                    hops: if flags & 0x80 != 0 { flags & 0x3f } else { 0 },
                    truncated: flags & 0x40 != 0,
                    return_path: <[u8; 30]>::read(bytes, 34 * 8, 30 * 8),
                }
            }
            number @ (257 | 258) => {
                let violation = KeyViolation {
                    key: u32_at(16),
                    lid1: u16_at(12),
                    lid2: u16_at(14),
                    sl: u8_at(20) >> 4,
                    qp1: u24_at(21),
                    qp2: u24_at(25),
                    gid1: gid_at(28),
                    gid2: gid_at(44),
                };
                if number == 257 {
                    Trap::BadPKey(violation)
                } else {
                    Trap::BadQKey(violation)
                }
            }
            259 => Trap::SwitchBadPKey {
                violation: KeyViolation {
                    key: u16_at(16).into(),
                    lid1: u16_at(12),
                    lid2: u16_at(14),
                    sl: u8_at(18) >> 4,
                    qp1: u24_at(19),
                    qp2: u24_at(23),
                    gid1: gid_at(26),
                    gid2: gid_at(42),
                },
                valid: u16_at(10),
                switch_lid: u16_at(58),
                port: u8_at(60),
            },
            number => Trap::OtherGeneric { number },
        }
    }

    /// The LID that the notice is about, where it names one.
    pub fn lid(&self) -> Option<u16> {
        match *self {
            Trap::LinkStateChanged { lid }
            | Trap::LocalLinkIntegrity { lid, .. }
            | Trap::BufferOverrun { lid, .. }
            | Trap::FlowControlWatchdog { lid, .. }
            | Trap::LocalChange { lid, .. }
            | Trap::SystemImageGuidChanged { lid, .. } => Some(lid),
            Trap::SwitchBadPKey { switch_lid, .. } => Some(switch_lid),
            _ => None,
        }
    }

    /// The port that the notice is about, where it names one.
    pub fn port(&self) -> Option<u8> {
        match *self {
            Trap::LocalLinkIntegrity { port, .. }
            | Trap::BufferOverrun { port, .. }
            | Trap::FlowControlWatchdog { port, .. }
            | Trap::SwitchBadPKey { port, .. } => Some(port),
            _ => None,
        }
    }

    /// The GID that the notice is about, where it names one.
    pub fn gid(&self) -> Option<Gid> {
        match *self {
            Trap::GidInService { gid } | Trap::GidOutOfService { gid } => Some(gid),
            Trap::McastGroupCreated { mgid } | Trap::McastGroupDeleted { mgid } => Some(mgid),
            _ => None,
        }
    }
}

impl fmt::Display for KeyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyViolation {
            key,
            lid1,
            lid2,
            sl,
            qp1,
            qp2,
            ..
        } = self;
        write!(
            f,
            "{key:#x} from LID {lid1} QP {qp1:#x} to LID {lid2} QP {qp2:#x} SL {sl}"
        )
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trap::GidInService { gid } => write!(f, "GID {gid} in service"),
            Trap::GidOutOfService { gid } => write!(f, "GID {gid} out of service"),
            Trap::McastGroupCreated { mgid } => write!(f, "multicast group {mgid} created"),
            Trap::McastGroupDeleted { mgid } => write!(f, "multicast group {mgid} deleted"),
            Trap::UnPath(paths) => write!(f, "paths no longer valid{paths}"),
            Trap::RePath(paths) => write!(f, "paths recomputed{paths}"),
            Trap::LinkStateChanged { lid } => write!(f, "link state changed at switch LID {lid}"),
            Trap::LocalLinkIntegrity { lid, port } => {
                write!(f, "local link integrity errors at LID {lid} port {port}")
            }
            Trap::BufferOverrun { lid, port } => {
                write!(f, "excessive buffer overruns at LID {lid} port {port}")
            }
            Trap::FlowControlWatchdog { lid, port } => {
                write!(f, "flow control watchdog expired at LID {lid} port {port}")
            }
            Trap::LocalChange {
                lid,
                cap_mask,
                other,
                changes,
                ..
            } => {
                write!(f, "local change at LID {lid}: ")?;
                if *other {
                    write!(f, "{changes}")
                } else {
                    write!(f, "CapabilityMask {:#010x}", cap_mask.0)
                }
            }
            Trap::SystemImageGuidChanged { lid, guid } => {
                write!(f, "SystemImageGUID of LID {lid} is now {guid:#018x}")
            }
            Trap::BadMKey {
                lid,
                method,
                attr_id,
                attr_mod,
                ..
            } => {
                let name = super::names::attribute(MgmtClass::SubnLid, *attr_id);
                write!(
                    f,
                    "bad M_Key from LID {lid}: {method}({name}) modifier {attr_mod:#x}"
                )
            }
            Trap::BadPKey(violation) => write!(f, "bad P_Key {violation}"),
            Trap::BadQKey(violation) => write!(f, "bad Q_Key {violation}"),
            Trap::SwitchBadPKey {
                violation,
                switch_lid,
                port,
                ..
            } => {
                write!(
                    f,
                    "bad P_Key {violation}, at switch LID {switch_lid} port {port}"
                )
            }
            Trap::OtherGeneric { number } => write!(f, "trap {number}"),
            Trap::Vendor {
                vendor_id,
                device_id,
            } => {
                write!(f, "vendor {vendor_id:#08x} notice {device_id:#x}")
            }
        }
    }
}

/// A notice as a MAD carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The notice.
    pub notice: Notice,
    /// Of the port that raised it: only the SA's reports tell.
    pub issuer_gid: Option<Gid>,
    /// What follows behind the notice about paths: only the SA's reports have it.
    pub path: Option<PathRecord>,
}

impl Received {
    /// Reads Trap, Report and TrapRepress of any class.
    pub fn parse(mad: &MadView<'_>) -> Result<Received, Malformed> {
        if mad.class() == MgmtClass::SubnAdm {
            let reported = ReportedNotice::parse(mad)?;
            let (notice, gid) = (reported.notice(), reported.issuer_gid());
            let behind = mad.data().get(ReportedNotice::INFO.len..);
            let about_paths = notice.is_generic() && matches!(notice.trap_number(), 68 | 69);
            return Ok(Received {
                notice,
                issuer_gid: Some(gid),
                path: behind
                    .filter(|_| about_paths)
                    .and_then(|bytes| PathRecord::from_bytes(bytes).ok()),
            });
        }
        Notice::parse(mad).map(|notice| Received {
            notice,
            issuer_gid: None,
            path: None,
        })
    }

    /// What it says.
    pub fn trap(&self) -> Trap {
        let mut trap = Trap::of(&self.notice);
        if let Trap::UnPath(paths) | Trap::RePath(paths) = &mut trap {
            paths.path = self.path;
        }
        trap
    }
}

impl Notice {
    /// A generic notice, its details empty.
    pub fn generic(kind: NoticeType, producer: ProducerType, trap: u16, issuer_lid: u16) -> Notice {
        let mut notice = Notice::new();
        notice
            .set_is_generic(true)
            .set_notice_type(kind)
            .set_producer_type(producer)
            .set_trap_number(trap)
            .set_issuer_lid(issuer_lid);
        notice
    }

    /// The notice that encodes this trap, for simulators. `None` for those
    /// whose meaning is not in the fields here.
    pub fn from_trap(trap: &Trap, issuer_lid: u16) -> Option<Notice> {
        use NoticeType::{Info, SubnMgmt, Urgent};
        let mut details = [0; 54];
        let mut put = |at: usize, from: &[u8]| {
            for (to, from) in details.iter_mut().skip(at - 10).zip(from) {
                *to = *from;
            }
        };
        let (number, kind, producer) = match *trap {
            Trap::GidInService { gid } => {
                put(16, &gid.0);
                (64, SubnMgmt, ProducerType::ClassMgr)
            }
            Trap::GidOutOfService { gid } => {
                put(16, &gid.0);
                (65, SubnMgmt, ProducerType::ClassMgr)
            }
            Trap::McastGroupCreated { mgid } => {
                put(16, &mgid.0);
                (66, SubnMgmt, ProducerType::ClassMgr)
            }
            Trap::McastGroupDeleted { mgid } => {
                put(16, &mgid.0);
                (67, SubnMgmt, ProducerType::ClassMgr)
            }
            Trap::LinkStateChanged { lid } => {
                put(10, &lid.to_be_bytes());
                (128, Urgent, ProducerType::Switch)
            }
            Trap::LocalLinkIntegrity { lid, port }
            | Trap::BufferOverrun { lid, port }
            | Trap::FlowControlWatchdog { lid, port } => {
                put(12, &lid.to_be_bytes());
                put(14, &[port]);
                let number = match trap {
                    Trap::LocalLinkIntegrity { .. } => 129,
                    Trap::BufferOverrun { .. } => 130,
                    _ => 131,
                };
                (number, Urgent, ProducerType::Ca)
            }
            Trap::LocalChange {
                lid,
                cap_mask,
                cap_mask2,
                other,
                changes,
            } => {
                put(12, &lid.to_be_bytes());
                put(15, &[other.into()]);
                put(16, &cap_mask.0.to_be_bytes());
                put(20, &changes.0.to_be_bytes());
                put(22, &cap_mask2.0.to_be_bytes());
                (144, Info, ProducerType::Ca)
            }
            Trap::SystemImageGuidChanged { lid, guid } => {
                put(12, &lid.to_be_bytes());
                put(16, &guid.to_be_bytes());
                (145, Info, ProducerType::Ca)
            }
            _ => return None,
        };
        let mut notice = Notice::generic(kind, producer, number, issuer_lid);
        notice.set_details(details);
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
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
        let at =
            "bad P_Key 0x8001 from LID 9 QP 0x48 to LID 10 QP 0x49 SL 3, at switch LID 20 port 5";
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
}
