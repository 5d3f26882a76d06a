//! The status of a reply: bits common to all classes, and the class's own.

use std::fmt;

use super::MgmtClass;
use super::values::open;

open! {
    /// Bits 2–4 of the status (spec 13.4.7).
    pub enum StatusCode(u8) {
        Ok = 0 => "ok",
        BadVersion = 1 => "bad class or base version",
        UnsupportedMethod = 2 => "method not supported",
        UnsupportedAttribute = 3 => "method and attribute not supported",
        BadValue = 7 => "bad value",
    }
}

open! {
    /// High byte of the status of the subnet administration (spec 15.2.3).
    pub enum SaStatus(u8) {
        Ok = 0 => "ok",
        NoResources = 1 => "no resources",
        BadRequest = 2 => "bad request",
        NoRecords = 3 => "no records",
        TooManyRecords = 4 => "too many records",
        BadGid = 5 => "bad GID",
        InsufficientComponents = 6 => "insufficient components",
        Denied = 7 => "request denied",
        PrioritySuggested = 8 => "priority suggested",
    }
}

/// Bytes 4–5 of a MAD; of a directed-route SMP without the direction bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub u16);

impl Status {
    /// No error, not busy, no redirection.
    pub const OK: Status = Status(0);
    /// The agent discarded the request and may be asked again later.
    pub const BUSY: Status = Status(1);
    /// ClassPortInfo's redirect fields say where to ask.
    pub const REDIRECT: Status = Status(2);
    /// Class or base version not supported.
    pub const BAD_VERSION: Status = Status(1 << 2);
    /// Method not supported.
    pub const UNSUPPORTED_METHOD: Status = Status(2 << 2);
    /// Method/attribute combination not supported.
    pub const UNSUPPORTED_ATTRIBUTE: Status = Status(3 << 2);
    /// A field of the attribute or modifier has an invalid value.
    pub const BAD_VALUE: Status = Status(7 << 2);

    /// From a status of the subnet administration.
    pub const fn sa(status: SaStatus) -> Status {
        Status((status.code() as u16) << 8)
    }

    /// All bits clear.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Bit 0.
    pub const fn is_busy(self) -> bool {
        self.0 & 1 != 0
    }

    /// Bit 1.
    pub const fn is_redirect(self) -> bool {
        self.0 & 2 != 0
    }

    /// Bits 2–4.
    pub const fn code(self) -> StatusCode {
        StatusCode::new((self.0 >> 2) as u8 & 7)
    }

    /// The high byte, as the subnet administration uses it.
    pub const fn sa_status(self) -> SaStatus {
        SaStatus::new((self.0 >> 8) as u8)
    }

    /// The status in words, with the class's own part where it is known.
    pub const fn words(self, class: MgmtClass) -> StatusWords {
        StatusWords {
            status: self,
            class,
        }
    }
}

/// A status that prints in words.
#[derive(Clone, Copy)]
pub struct StatusWords {
    status: Status,
    class: MgmtClass,
}

impl fmt::Display for StatusWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status(raw) = self.status;
        if raw == 0 {
            return f.pad("ok");
        }
        let mut sep = "";
        let mut part = |f: &mut fmt::Formatter<'_>, words: &dyn fmt::Display| {
            write!(f, "{sep}{words}")?;
            sep = ", ";
            Ok(())
        };
        if self.status.is_busy() {
            part(f, &"busy")?;
        }
        if self.status.is_redirect() {
            part(f, &"redirect")?;
        }
        if self.status.code() != StatusCode::Ok {
            part(f, &self.status.code())?;
        }
        let mut rest = raw & 0x00e0;
        if self.class == MgmtClass::SubnAdm && raw >> 8 != 0 {
            part(f, &self.status.sa_status())?;
        } else {
            rest |= raw & 0xff00;
        }
        if rest != 0 {
            part(f, &format_args!("unknown ({rest:#06x})"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(raw: u16, class: MgmtClass) -> String {
        Status(raw).words(class).to_string()
    }

    #[test]
    fn every_part_of_a_status_is_said() {
        assert_eq!(words(0, MgmtClass::Perf), "ok");
        assert_eq!(words(1, MgmtClass::Perf), "busy");
        assert_eq!(
            words(0x000c, MgmtClass::SubnLid),
            "method and attribute not supported"
        );
        assert_eq!(words(0x0300, MgmtClass::SubnAdm), "no records");
        assert_eq!(words(0x0300, MgmtClass::Perf), "unknown (0x0300)");
        assert_eq!(
            words(0x0700 | 2, MgmtClass::SubnAdm),
            "redirect, request denied"
        );
        assert_eq!(
            words(0x0030, MgmtClass::Perf),
            "unknown (0x4), unknown (0x0020)"
        );
        // ibsim answers what it does not know with status 110.
        assert_eq!(
            words(110, MgmtClass::SubnLid),
            "redirect, method and attribute not supported, unknown (0x0060)"
        );
    }
}
