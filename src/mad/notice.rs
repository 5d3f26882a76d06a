//! Notices decoded: where each generic trap has what, and vendor notices as they came.
//!
//! Offsets are bytes of the notice; its details begin at 10. The layouts are those of the
//! specification's table of traps (volume 1, 13.4.8.2 the notice, 14.2.5.1 subnet management) and
//! were compared with what others publish of them: opensm's `ib_types.h` (`ib_mad_notice_attr_t`:
//! 64 to 67, 128 to 131, 144, 145, 256 to 259, and the keys of board management and congestion
//! control), Linux's `qib_mad.h` (129 to 131, 144, 145, 256 to 258), Intel's `ib_bm.h` (board
//! management). All agree. Of 68 and 69 Wireshark's dissector alone has a layout, which was
//! compared with it (`tests/foreign_tshark.rs`); no SM that is known sends them.
//!
//! | trap | details |
//! |--|--|
//! | 64-67 | GID 16 |
//! | 68, 69 | component mask u64 10, WaitForRepath 18 bit 7; a PathRecord behind the reported notice |
//! | 128 | LID 10 |
//! | 129-131 | LID 12, port 14 |
//! | 144 | LID 12, OtherLocalChanges 15 bit 0, CapabilityMask 16, flags 20, CapabilityMask2 22 |
//! | 145 | LID 12, SystemImageGUID 16 |
//! | 256 | LID 12, DrSLID 14, method 16, attribute 18, modifier 20, M_Key 24, flags and hops 33, path 34 |
//! | 257, 258 | LIDs 12 and 14, key 16, SL 20, QPs 21 and 25, GIDs 28 and 44 |
//! | 259 | valid fields 10, LIDs 12 and 14, P_Key 16, SL 18, QPs 19 and 23, GIDs 26 and 42, switch LID 58, port 60 |
//! | BM 259 | LID 10, method 12, attribute 14, modifier 16, QP 21, B_Key 24, GID 32 |
//! | BM 260 | length 10, type 11, modifier 12 (24 bits), data 15 |
//! | CC 0 | LID 10, method 12, attribute 14, modifier 18, QP 23, CC_Key 26, GID 34 |
//!
//! `words` has them in words that know no names of nodes: rooms that have a topology put LIDs and
//! GIDs into context.

mod words;

pub use words::{board_words, class_key};

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
    /// Board management 259, congestion control 0: a MAD of that class with a wrong B_Key or
    /// CC_Key. The key is left out.
    BadClassKey {
        class: MgmtClass,
        lid: u16,
        method: Method,
        attr_id: u16,
        attr_mod: u32,
        qp: u32,
        gid: Gid,
    },
    /// Board management 260 (BMTrap): what the module's or the chassis' management tells. The
    /// data are in [`Notice::details`], from byte 5 on.
    Board { len: u8, kind: u8, modifier: u32 },
    /// A trap number without a decoder here.
    OtherGeneric { number: u16 },
    /// Not generic: the details are in [`Notice::details`].
    Vendor { vendor_id: u32, device_id: u16 },
}

/// Which paths trap 68 or 69 is about.
///
/// The notice's details hold the component mask and the flag; what the components are follows
/// behind the notice, as a PathRecord, in the SA's reports only.
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

    /// The same of a notice of this class: other classes than subnet management have traps of
    /// their own.
    pub fn of_class(class: MgmtClass, notice: &Notice) -> Trap {
        let bytes = notice.bytes();
        let u16_at = |at: usize| u16::read(bytes, at * 8, 16);
        let u24_at = |at: usize| u32::read(bytes, at * 8, 24);
        let bad_key = |modifier: usize, qp: usize, gid: usize| Trap::BadClassKey {
            class,
            lid: u16_at(10),
            method: Method::new(u8::read(bytes, 12 * 8, 8)),
            attr_id: u16_at(14),
            attr_mod: u32::read(bytes, modifier * 8, 32),
            qp: u24_at(qp),
            gid: Gid::read(bytes, gid * 8, 128),
        };
        match (class, notice.trap_number()) {
            _ if !notice.is_generic() => Trap::of(notice),
            (MgmtClass::BoardMgt, 259) => bad_key(16, 21, 32),
            (MgmtClass::BoardMgt, 260) => Trap::Board {
                len: u8::read(bytes, 10 * 8, 8),
                kind: u8::read(bytes, 11 * 8, 8),
                modifier: u24_at(12),
            },
            (MgmtClass::CongCtrl, 0) => bad_key(18, 23, 34),
            (MgmtClass::SubnAdm | MgmtClass::SubnLid | MgmtClass::SubnDirected, _) => {
                Trap::of(notice)
            }
            (_, number) => Trap::OtherGeneric { number },
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

/// A notice as a MAD carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The class of the MAD.
    pub class: MgmtClass,
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
                class: mad.class(),
                notice,
                issuer_gid: Some(gid),
                path: behind
                    .filter(|_| about_paths)
                    .and_then(|bytes| PathRecord::from_bytes(bytes).ok()),
            });
        }
        Notice::parse(mad).map(|notice| Received {
            class: mad.class(),
            notice,
            issuer_gid: None,
            path: None,
        })
    }

    /// What it says.
    pub fn trap(&self) -> Trap {
        let mut trap = Trap::of_class(self.class, &self.notice);
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
mod tests;
