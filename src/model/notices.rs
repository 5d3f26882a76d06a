//! What comes unasked: traps and reports, in words with names and ports.

use super::Model;
use super::log::Kind;
use crate::event::{Received, Severity};
use crate::fabric::PortKey;
use crate::mad::notice::{self, KeyViolation, PathNotice, Trap};
use crate::mad::{
    Attribute, Gid, LocalChanges, Method, MgmtClass, Notice, NoticeType, PortCaps, PortCaps2,
};
use crate::port::Stamp;

fn hex<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// What changed beside the capability mask.
fn local_changes(changes: LocalChanges, cap_mask2: PortCaps2) -> String {
    let mut text = changes.to_string();
    if changes.has(LocalChanges::CAP_MASK2) {
        text += &format!(" is now {:#06x}", cap_mask2.0);
    }
    text
}

impl Model {
    pub(super) fn unsolicited(&mut self, at: Stamp, received: &Received) -> bool {
        let mad = &received.mad;
        let noticed = matches!(mad.method(), Method::Trap | Method::Report)
            && matches!(
                mad.class(),
                MgmtClass::SubnAdm
                    | MgmtClass::SubnLid
                    | MgmtClass::SubnDirected
                    | MgmtClass::BoardMgt
                    | MgmtClass::CongCtrl
            );
        if !noticed || mad.attr_id() != Notice::ID {
            return false;
        }
        let Ok(got) = notice::Received::parse(&mad.view()) else {
            return false;
        };
        let (about, text) = self.notice_words(&got);
        let severity = match (got.notice.notice_type(), got.trap()) {
            // Links come and go by the state of their ports, which says how grave it is.
            (_, Trap::LinkStateChanged { .. }) => Severity::Info,
            (NoticeType::Fatal | NoticeType::Urgent | NoticeType::Security, _) => Severity::Warning,
            _ => Severity::Info,
        };
        self.log.add(at, Kind::Notice, severity, about, text);
        true
    }

    /// A port by its LID, for sentences, and its key.
    fn by_lid(&self, lid: u16) -> (String, Option<PortKey>) {
        match self.topology.by_lid(lid) {
            Some(key) => (format!("{} (LID {lid})", self.end_name(key)), Some(key)),
            None => (format!("LID {lid}"), None),
        }
    }

    /// A switch's LID and GID are those of the whole switch, an adapter's of a port of it.
    fn end_name(&self, key: PortKey) -> String {
        match key.port {
            0 => self.name(key.node).to_owned(),
            _ => self.port_name(key),
        }
    }

    fn by_lid_port(&self, lid: u16, port: u8) -> (String, Option<PortKey>) {
        match self.topology.by_lid(lid) {
            Some(key) => {
                let key = key.node.port(port);
                (format!("{} (LID {lid})", self.port_name(key)), Some(key))
            }
            None => (format!("LID {lid} port {port}"), None),
        }
    }

    fn by_gid(&self, gid: Gid) -> (String, Option<PortKey>) {
        match self.port_guids.get(&gid.guid()) {
            Some(key) => (format!("{} ({gid})", self.end_name(*key)), Some(*key)),
            None => (gid.to_string(), None),
        }
    }

    fn violation_words(&self, what: &str, v: &KeyViolation) -> String {
        let (from, to) = (self.by_lid(v.lid1).0, self.by_lid(v.lid2).0);
        format!(
            "bad {what} {:#x} from {from} QP {:#x} to {to} QP {:#x}",
            v.key, v.qp1, v.qp2
        )
    }

    /// Which paths, and the port at their end, or at their beginning.
    fn path_words(&self, paths: &PathNotice) -> (String, Option<PortKey>) {
        let mut text = "paths".to_owned();
        let mut about = None;
        for (word, (gid, lid)) in ["from", "to"].into_iter().zip(paths.ends()) {
            let end = match (gid, lid) {
                (Some(gid), _) => Some(self.by_gid(gid)),
                (None, Some(lid)) => Some(self.by_lid(lid)),
                (None, None) => None,
            };
            if let Some((who, key)) = end {
                text += &format!(" {word} {who}");
                about = key.or(about);
            }
        }
        if let Some(pkey) = paths.pkey() {
            text += &format!(" of partition {pkey:#06x}");
        }
        (text, about)
    }

    /// A capability mask, and which of its bits are new or gone as far as the last one is known.
    fn new_capabilities(&self, key: Option<PortKey>, new: PortCaps) -> String {
        let mut text = format!("CapabilityMask {:#010x}", new.0);
        let known = key.and_then(|key| self.topology.port(key)?.info.as_ref());
        let Some(old) = known.map(|info| info.cap_mask()) else {
            return text;
        };
        let (came, went) = (PortCaps(new.0 & !old.0), PortCaps(old.0 & !new.0));
        for (bits, word) in [(came, "now"), (went, "no longer")] {
            if bits.0 != 0 {
                text += &format!(", {word} {bits}");
            }
        }
        text
    }

    fn notice_words(&self, got: &notice::Received) -> (Option<PortKey>, String) {
        let number = got.notice.trap_number();
        let issuer = || {
            let gid = got.issuer_gid.filter(|gid| gid.guid() != 0);
            match gid.and_then(|gid| self.port_guids.get(&gid.guid())) {
                Some(key) => (self.end_name(*key), Some(*key)),
                None => self.by_lid(got.notice.issuer_lid()),
            }
        };
        let (about, words) = match got.trap() {
            Trap::GidInService { gid } => {
                let (who, key) = self.by_gid(gid);
                (key, format!("{who} is in service"))
            }
            Trap::GidOutOfService { gid } => {
                let (who, key) = self.by_gid(gid);
                (key, format!("{who} is out of service"))
            }
            Trap::LinkStateChanged { lid } => {
                let (who, key) = self.by_lid(lid);
                (key, format!("link state changed at {who}"))
            }
            Trap::LocalLinkIntegrity { lid, port } => {
                let (who, key) = self.by_lid_port(lid, port);
                (key, format!("local link integrity errors at {who}"))
            }
            Trap::BufferOverrun { lid, port } => {
                let (who, key) = self.by_lid_port(lid, port);
                (key, format!("excessive buffer overruns at {who}"))
            }
            Trap::FlowControlWatchdog { lid, port } => {
                let (who, key) = self.by_lid_port(lid, port);
                (key, format!("flow control watchdog expired at {who}"))
            }
            Trap::LocalChange {
                lid,
                cap_mask,
                cap_mask2,
                other,
                changes,
            } => {
                let (who, key) = self.by_lid(lid);
                let what = if other {
                    local_changes(changes, cap_mask2)
                } else {
                    self.new_capabilities(key, cap_mask)
                };
                (key, format!("local change at {who}: {what}"))
            }
            Trap::SystemImageGuidChanged { lid, guid } => {
                let (who, key) = self.by_lid(lid);
                (key, format!("SystemImageGUID of {who} is now {guid:#018x}"))
            }
            Trap::BadMKey {
                lid,
                method,
                attr_id,
                attr_mod,
                ..
            } => {
                let (asker, _) = self.by_lid(lid);
                let (who, key) = issuer();
                let what = crate::mad::names::attribute_or_number(MgmtClass::SubnLid, attr_id);
                let text = format!(
                    "bad M_Key at {who} from {asker}: {method}({what}) modifier {attr_mod:#x}"
                );
                (key, text)
            }
            Trap::BadPKey(v) => {
                let (who, key) = issuer();
                (
                    key,
                    format!("{} seen by {who}", self.violation_words("P_Key", &v)),
                )
            }
            Trap::BadQKey(v) => {
                let (who, key) = issuer();
                (
                    key,
                    format!("{} seen by {who}", self.violation_words("Q_Key", &v)),
                )
            }
            Trap::SwitchBadPKey {
                violation,
                switch_lid,
                port,
                ..
            } => {
                let (who, key) = self.by_lid_port(switch_lid, port);
                (
                    key,
                    format!("{} at {who}", self.violation_words("P_Key", &violation)),
                )
            }
            Trap::UnPath(paths) if paths.names_any() => {
                let (which, key) = self.path_words(&paths);
                let more = match paths.wait_for_repath {
                    true => ": new ones will be told",
                    false => "",
                };
                (key, format!("{which} are no longer valid{more}"))
            }
            Trap::RePath(paths) if paths.names_any() => {
                let (which, key) = self.path_words(&paths);
                (key, format!("{which} were computed anew"))
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
                let (asker, _) = self.by_lid(lid);
                let (who, key) = issuer();
                let what = crate::mad::names::attribute_or_number(class, attr_id);
                let text = format!(
                    "bad {} at {who} from {asker} QP {qp:#x}: {method}({what}) modifier \
                     {attr_mod:#x}",
                    notice::class_key(class)
                );
                (key, text)
            }
            Trap::Board {
                len,
                kind,
                modifier,
            } => {
                let (who, key) = issuer();
                let words = notice::board_words(kind, modifier);
                // Behind length, type and modifier.
                let data = got.notice.details();
                let data = data.iter().skip(5).take(usize::from(len));
                let text = format!("board management of {who}: {words}: {}", hex(data));
                (key, text)
            }
            Trap::Vendor {
                vendor_id,
                device_id,
            } => {
                let (who, key) = issuer();
                let details = got.notice.details();
                let text = format!(
                    "vendor notice {vendor_id:#08x}/{device_id:#x} from {who}: {}",
                    hex(details.iter())
                );
                return (key, text);
            }
            other => {
                let (who, key) = issuer();
                (key, format!("{other} from {who}"))
            }
        };
        (about, format!("notice {number}: {words}"))
    }
}
