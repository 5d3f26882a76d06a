//! What can go wrong, with the call, the device, the class and the errno's name, and the cure
//! where there is one.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::abi::MethodMask;
use crate::errno::Errno;

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Who owns a device file and who may open it, for the sentence that explains a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Owner's name, or number if it has none.
    pub owner: String,
    /// Group's name, or number if it has none.
    pub group: String,
    /// Permission bits.
    pub mode: u32,
}

impl Access {
    /// Reads owner and mode of a file; `None` where it cannot be looked at.
    pub fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let m = std::fs::metadata(path).ok()?;
        Some(Self {
            owner: name_of("/etc/passwd", m.uid()),
            group: name_of("/etc/group", m.gid()),
            mode: m.mode() & 0o7777,
        })
    }
}

fn name_of(table: &str, id: u32) -> String {
    let text = std::fs::read_to_string(table).unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| id.to_string())
}

/// An error of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The host has no InfiniBand device at all.
    NoDevice {
        /// Directory that lists devices.
        path: PathBuf,
    },
    /// No device has this name.
    UnknownDevice {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The device has no such port.
    UnknownPort {
        /// Device name.
        device: String,
        /// The port asked for.
        port: u8,
        /// Ports that exist.
        known: Vec<u8>,
    },
    /// Devices exist, but every port is Ethernet (RoCE) or another link layer without a subnet.
    OnlyEthernet {
        /// `device/port (link layer)` of each.
        ports: Vec<String>,
    },
    /// Devices exist, but no port can be used.
    NoUsablePort {
        /// `device/port: why not` of each.
        ports: Vec<String>,
    },
    /// The umad interface is not there: the kernel module is not loaded.
    NoUmad {
        /// The file that was missing.
        path: PathBuf,
        /// Why it could not be read.
        errno: Errno,
    },
    /// The kernel speaks an older version of the interface than this crate.
    AbiVersion {
        /// What the kernel says.
        found: String,
    },
    /// No umad device belongs to this port.
    NoUmadForPort {
        /// Device name.
        device: String,
        /// Port number.
        port: u8,
    },
    /// A device file may not be opened by this user.
    Permission {
        /// The file.
        path: PathBuf,
        /// EACCES or EPERM.
        errno: Errno,
        /// Who may.
        access: Option<Access>,
    },
    /// A device file could not be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// Another process holds the file (`issmN` has one owner at a time).
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// An attribute in sysfs could not be read or makes no sense.
    Sysfs {
        /// The file or directory.
        path: PathBuf,
        /// Why; EIO stands for a value that cannot be understood.
        errno: Errno,
    },
    /// A class could not be registered.
    Register {
        /// `device/port`.
        device: String,
        /// Management class.
        class: u8,
        /// Class version.
        version: u8,
        /// Methods asked for.
        methods: MethodMask,
        /// Why.
        errno: Errno,
        /// For EINVAL with flags: the flags that the kernel knows, as it reported them.
        supported_flags: Option<u32>,
    },
    /// An agent could not be unregistered: the kernel does not know it.
    Unregister {
        /// `device/port`.
        device: String,
        /// Agent number.
        agent: u32,
        /// Why.
        errno: Errno,
    },
    /// A MAD could not be sent.
    Send {
        /// `device/port`.
        device: String,
        /// Agent number.
        agent: u32,
        /// Management class in the MAD.
        class: u8,
        /// Why.
        errno: Errno,
    },
    /// A receive buffer cannot hold even one MAD.
    BufferTooSmall {
        /// MAD bytes the buffer holds.
        capacity: usize,
    },
    /// Another call failed.
    Call {
        /// `device/port`.
        device: String,
        /// System call.
        call: &'static str,
        /// Why.
        errno: Errno,
    },
    /// The device was removed under the open file. Close it; the port can be opened again when
    /// it returns.
    DeviceRemoved {
        /// `device/port`.
        device: String,
        /// System call that noticed.
        call: &'static str,
    },
}

impl Error {
    /// The error number behind this error, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::NoUmad { errno, .. }
            | Self::Permission { errno, .. }
            | Self::Open { errno, .. }
            | Self::Sysfs { errno, .. }
            | Self::Register { errno, .. }
            | Self::Unregister { errno, .. }
            | Self::Send { errno, .. }
            | Self::Call { errno, .. } => Some(*errno),
            Self::Busy { .. } => Some(Errno::EAGAIN),
            Self::BufferTooSmall { .. } => Some(Errno::EINVAL),
            Self::NoDevice { .. }
            | Self::UnknownDevice { .. }
            | Self::UnknownPort { .. }
            | Self::OnlyEthernet { .. }
            | Self::NoUsablePort { .. } => Some(Errno::ENODEV),
            Self::NoUmadForPort { .. } => Some(Errno::EINVAL),
            Self::AbiVersion { .. } => Some(Errno::EOPNOTSUPP),
            Self::DeviceRemoved { .. } => Some(Errno::EIO),
        }
    }

    /// Whether the device went away under an open port.
    pub fn is_device_removed(&self) -> bool {
        matches!(self, Self::DeviceRemoved { .. })
    }

    /// Whether a wait was cut short by a signal.
    pub fn is_interrupted(&self) -> bool {
        self.errno() == Some(Errno::EINTR)
    }
}

impl std::error::Error for Error {}

/// Why the kernel refused a registration, as far as the request tells.
fn register_cause(
    errno: Errno,
    class: u8,
    methods: MethodMask,
    flags: Option<u32>,
) -> Option<String> {
    let smp = matches!(class, 0x01 | 0x81);
    Some(match errno {
        Errno::EPROTONOSUPPORT if smp => {
            "this port has no QP0 (an Ethernet port, or one whose subnet management \
             belongs to another device): use the SMI port of the device"
                .to_owned()
        }
        Errno::EPROTONOSUPPORT => "this port has no QP1".to_owned(),
        Errno::ENOMEM => "32 agents are registered on this file already, or 8 OUIs \
                          of this vendor class on the port: unregister one, or open the port again"
            .to_owned(),
        Errno::EACCES => "a security policy (SELinux) forbids it: allow the subnet management \
                          interface for this domain"
            .to_owned(),
        Errno::EINVAL => match flags {
            Some(known) => format!("the kernel knows only the flags {known:#x}"),
            None if !methods.is_empty() => {
                "another program on this host receives one of these methods (a subnet \
                 manager, srptools, ibacm): stop it, or register without methods"
                    .to_owned()
            }
            None => "the kernel does not accept this class, class version, OUI or RMPP \
                     version"
                .to_owned(),
        },
        _ => return None,
    })
}

/// Why a send was refused, as far as the error number tells.
fn send_cause(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::EINVAL => {
            "an equal request is still in flight, the address lacks a GRH that the \
             port needs, or the MAD does not fit the agent"
        }
        Errno::EIO => "the agent is not registered on this file",
        Errno::ETIMEDOUT => "the address could not be resolved",
        Errno(libc::ENODATA) => "the local GID index is not in use",
        _ => return None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice { path } => write!(
                f,
                "this host has no InfiniBand device ({} is missing or empty): check that the \
                 adapter is in the machine (lspci) and its driver is loaded (for example: \
                 modprobe mlx5_ib)",
                path.display()
            ),
            Self::UnknownDevice { name, known } => write!(
                f,
                "no InfiniBand device is named {name}; there is {}",
                list(known)
            ),
            Self::UnknownPort {
                device,
                port,
                known,
            } => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                write!(f, "{device} has no port {port}; it has {}", list(&known))
            }
            Self::OnlyEthernet { ports } => write!(
                f,
                "only Ethernet ports here, no InfiniBand port: {}. An Ethernet (RoCE) port has no \
                 subnet to manage; if the adapter can do both, set its port type to InfiniBand",
                list(ports)
            ),
            Self::NoUsablePort { ports } => {
                write!(f, "no port can be used: {}", list(ports))
            }
            Self::NoUmad { path, errno } => write!(
                f,
                "the kernel's umad interface is not there ({}: {errno}): load it with \
                 modprobe ib_umad",
                path.display()
            ),
            Self::AbiVersion { found } => write!(
                f,
                "the kernel's umad interface has version {found}; version 5 or later is needed"
            ),
            Self::NoUmadForPort { device, port } => write!(
                f,
                "no umad device belongs to port {port} of {device}: check the port's number, and \
                 that the device is visible in this network namespace (rdma system)"
            ),
            Self::Permission {
                path,
                errno,
                access,
            } => {
                write!(f, "open {}: {errno}", path.display())?;
                if let Some(a) = access {
                    write!(
                        f,
                        "; it belongs to {}:{} with mode {:04o}",
                        a.owner, a.group, a.mode
                    )?;
                }
                if *errno == Errno::EPERM {
                    return f.write_str(
                        ". The device may belong to another RDMA network namespace: run there, \
                         or as root outside",
                    );
                }
                f.write_str(
                    ". Either run as root (sudo), or let a group in with a udev rule, in \
                     /etc/udev/rules.d/90-umad.rules: \
                     KERNEL==\"umad*\", SUBSYSTEM==\"infiniband_mad\", GROUP=\"rdma\", \
                     MODE=\"0660\" (then: udevadm trigger --subsystem-match=infiniband_mad, and \
                     join the group)",
                )
            }
            Self::Open { path, errno } => {
                write!(f, "open {}: {errno}", path.display())?;
                match *errno {
                    Errno::ENOENT => f.write_str(
                        "; the device file is missing: check that udev (or the container) creates \
                         /dev/infiniband",
                    ),
                    Errno(libc::ENXIO) => f.write_str("; the device was removed"),
                    _ => Ok(()),
                }
            }
            Self::Busy { path } => write!(
                f,
                "open {}: EAGAIN: another subnet manager on this port holds it",
                path.display()
            ),
            Self::Sysfs { path, errno } => write!(f, "read {}: {errno}", path.display()),
            Self::Register {
                device,
                class,
                version,
                methods,
                errno,
                supported_flags,
            } => {
                write!(
                    f,
                    "{device}: register class {class:#04x} ({}) version {version}",
                    crate::strings::class(*class)
                )?;
                if !methods.is_empty() {
                    write!(f, " with methods {methods:?}")?;
                }
                write!(f, ": {errno}")?;
                match register_cause(*errno, *class, *methods, *supported_flags) {
                    Some(cause) => write!(f, ": {cause}"),
                    None => Ok(()),
                }
            }
            Self::Unregister {
                device,
                agent,
                errno,
            } => write!(f, "{device}: unregister agent {agent}: {errno}"),
            Self::Send {
                device,
                agent,
                class,
                errno,
            } => {
                write!(
                    f,
                    "{device}: send class {class:#04x} ({}) by agent {agent}: {errno}",
                    crate::strings::class(*class)
                )?;
                match send_cause(*errno) {
                    Some(cause) => write!(f, ": {cause}"),
                    None => Ok(()),
                }
            }
            Self::BufferTooSmall { capacity } => write!(
                f,
                "a receive buffer of {capacity} bytes cannot hold a MAD of 256 bytes"
            ),
            Self::Call {
                device,
                call,
                errno,
            } => write!(f, "{device}: {call}: {errno}"),
            Self::DeviceRemoved { device, call } => {
                write!(f, "{device}: device removed (noticed by {call})")
            }
        }
    }
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field report 26: a kernel refused the registration of one class, and the message said
    /// neither which nor why.
    #[test]
    fn field_report_26_a_refused_registration_names_class_methods_and_errno() {
        let told = |methods: &[u8], errno| {
            Error::Register {
                device: "umad0 (mlx5_0 port 1)".to_owned(),
                class: 0x81,
                version: 1,
                methods: MethodMask::of(methods),
                errno,
                supported_flags: None,
            }
            .to_string()
        };
        // Trap is method 5, Report 6.
        let text = told(&[5, 6], Errno::EINVAL);
        for words in ["umad0 (mlx5_0 port 1)", "class 0x81", "5, 6", "EINVAL"] {
            assert!(text.contains(words), "{words:?} in {text}");
        }
        let text = told(&[], Errno::ENOMEM);
        assert!(!text.contains("methods {"), "{text}");
        assert!(text.contains("ENOMEM"), "{text}");
    }
}
