//! Notices in words that know no names of nodes.

use std::fmt;

use super::{KeyViolation, PathNotice, Trap};
use crate::mad::MgmtClass;

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
                let name = crate::mad::names::attribute_or_number(MgmtClass::SubnLid, *attr_id);
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
            Trap::BadClassKey {
                class,
                lid,
                method,
                attr_id,
                attr_mod,
                qp,
                ..
            } => {
                let name = crate::mad::names::attribute_or_number(*class, *attr_id);
                write!(
                    f,
                    "bad {} from LID {lid} QP {qp:#x}: {method}({name}) modifier {attr_mod:#x}",
                    class_key(*class)
                )
            }
            Trap::Board {
                len,
                kind,
                modifier,
            } => {
                write!(f, "board management: {}", board_words(*kind, *modifier))?;
                write!(f, ", {len} bytes")
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

/// The key that MADs of this class carry.
pub const fn class_key(class: MgmtClass) -> &'static str {
    match class {
        MgmtClass::BoardMgt => "B_Key",
        MgmtClass::CongCtrl => "CC_Key",
        _ => "key",
    }
}

/// Who of a board sent a BMTrap.
pub fn board_words(kind: u8, modifier: u32) -> String {
    let who = match kind {
        0 => "MME (module)",
        1 => "OEM MME (module)",
        2 => "CME RTR (chassis)",
        3 => "WRE",
        4 => "CME (chassis)",
        5 => "OEM CME (chassis)",
        _ => return format!("type {kind:#x} modifier {modifier:#x}"),
    };
    format!("{who} modifier {modifier:#x}")
}
