//! What an agent registers for, and the two requests that do it.

use crate::abi::MethodMask;
use crate::errno::Errno;
use crate::sys::{self, Fd};

/// How an agent is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Management class.
    pub class: u8,
    /// Class version: 2 for subnet administration and congestion control, else 1.
    pub version: u8,
    /// Methods whose requests the agent receives.
    pub methods: MethodMask,
    /// Who cuts long messages into segments and joins them.
    pub rmpp: Rmpp,
    /// Vendor's OUI, 24 bits: needed for classes 0x30 to 0x4F, ignored for others.
    pub oui: u32,
}

/// Who does the Reliable Multi-Packet Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rmpp {
    /// Nobody: every MAD is passed as it is.
    #[default]
    None,
    /// The kernel: whole messages are sent and received.
    Kernel,
    /// The program: segments are passed as they are, but the class counts as an RMPP class.
    User,
}

/// OUI that libibumad registers with where none is given (00:14:05).
pub(crate) const DEFAULT_OUI: u32 = 0x00_1405;

const FLAG_USER_RMPP: u32 = 1;

impl Registration {
    /// A client of a class: sends requests, receives their replies. Class version and RMPP are
    /// those usual for the class.
    pub const fn client(class: u8) -> Self {
        Self {
            class,
            version: match class {
                0x03 | 0x21 => 2,
                _ => 1,
            },
            methods: MethodMask::NONE,
            rmpp: match class {
                0x03 => Rmpp::Kernel,
                _ => Rmpp::None,
            },
            oui: DEFAULT_OUI,
        }
    }

    /// A client of a vendor class with its OUI.
    pub const fn vendor(class: u8, oui: u32) -> Self {
        let mut r = Self::client(class);
        r.oui = oui;
        r
    }

    /// The same, also receiving requests with these methods.
    #[must_use]
    pub const fn receiving(mut self, methods: &[u8]) -> Self {
        self.methods = MethodMask::of(methods);
        self
    }

    /// The same with this class version.
    #[must_use]
    pub const fn version(mut self, version: u8) -> Self {
        self.version = version;
        self
    }

    /// The same with this handling of RMPP.
    #[must_use]
    pub const fn rmpp(mut self, rmpp: Rmpp) -> Self {
        self.rmpp = rmpp;
        self
    }

    /// QP0 for the subnet management classes, else QP1.
    pub const fn qpn(&self) -> u8 {
        match self.class {
            0x01 | 0x81 => 0,
            _ => 1,
        }
    }
}

/// A registration as the request carries it, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub struct RawRegistration {
    pub qpn: u8,
    pub class: u8,
    pub version: u8,
    pub methods: MethodMask,
    pub rmpp_version: u8,
    pub oui: u32,
    pub flags: u32,
}

impl From<&Registration> for RawRegistration {
    fn from(r: &Registration) -> Self {
        Self {
            qpn: r.qpn(),
            class: r.class,
            version: r.version,
            methods: r.methods,
            rmpp_version: u8::from(r.rmpp != Rmpp::None),
            // The kernel checks the OUI only where the class has one.
            oui: r.oui,
            flags: match r.rmpp {
                Rmpp::User => FLAG_USER_RMPP,
                _ => 0,
            },
        }
    }
}

/// The old request: 28 bytes, no flags.
pub fn register_v1(fd: Fd, r: &RawRegistration) -> std::result::Result<u32, Errno> {
    let mut arg = sys::Arg([0; 28]);
    arg.0[4..20].copy_from_slice(&r.methods.to_longs());
    arg.0[20] = r.qpn;
    arg.0[21] = r.class;
    arg.0[22] = r.version;
    arg.0[23..26].copy_from_slice(&r.oui.to_be_bytes()[1..]);
    arg.0[26] = r.rmpp_version;
    sys::ioctl(fd, sys::request::REGISTER_AGENT, &mut arg)?;
    Ok(word(&arg.0, 0))
}

/// The newer request: 40 bytes. On EINVAL the kernel writes the flags it knows, if those were
/// the trouble.
pub fn register_v2(fd: Fd, r: &RawRegistration) -> std::result::Result<u32, (Errno, u32)> {
    let mut arg = sys::Arg([0; 40]);
    arg.0[4..8].copy_from_slice(&u32::from(r.qpn).to_ne_bytes());
    arg.0[8] = r.class;
    arg.0[9] = r.version;
    arg.0[12..16].copy_from_slice(&r.flags.to_ne_bytes());
    let [low, high] = r.methods.to_u64s();
    arg.0[16..24].copy_from_slice(&low.to_ne_bytes());
    arg.0[24..32].copy_from_slice(&high.to_ne_bytes());
    arg.0[32..36].copy_from_slice(&r.oui.to_ne_bytes());
    arg.0[36] = r.rmpp_version;
    sys::ioctl(fd, sys::request::REGISTER_AGENT2, &mut arg).map_err(|e| (e, word(&arg.0, 12)))?;
    Ok(word(&arg.0, 0))
}

/// The newer request, and the old one where the kernel does not know the newer (or a stand-in
/// for it refuses it) and no flags are asked for. An OUI of more than 24 bits is never passed to
/// the old one, which would register another OUI.
pub fn register_any(fd: Fd, r: &RawRegistration) -> std::result::Result<u32, (Errno, u32)> {
    match register_v2(fd, r) {
        Err((Errno::ENOTTY | Errno::EINVAL, known)) if r.flags == 0 && r.oui >> 24 == 0 => {
            register_v1(fd, r).map_err(|e| (e, known))
        }
        other => other,
    }
}

fn word(b: &[u8], at: usize) -> u32 {
    let mut w = [0; 4];
    w.copy_from_slice(&b[at..at + 4]);
    u32::from_ne_bytes(w)
}
