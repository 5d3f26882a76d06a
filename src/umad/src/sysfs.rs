//! Finds devices and ports: reads sysfs and nothing else. Opens no device.

use std::path::{Path, PathBuf};

use crate::ca::{Ca, CaPort, Fault, LinkLayer, NodeType, PhysState, PortState};
use crate::errno::Errno;
use crate::error::{Error, Result};
use crate::sys;

/// Where the kernel shows its devices. The root is `/` except in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysfs {
    infiniband: PathBuf,
    mad: PathBuf,
    dev: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::system()
    }
}

/// A umad device and the port that it serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UmadDevice {
    /// The N of `umadN` and `issmN`.
    pub number: u32,
    /// Device name.
    pub ca: String,
    /// Port number.
    pub port: u8,
}

/// A GID of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gid {
    /// Its index in the port's table.
    pub index: u16,
    /// The GID as on the wire.
    pub raw: [u8; 16],
}

/// Oldest version of the interface that this crate speaks.
pub const ABI_VERSION: u32 = 5;

impl Sysfs {
    /// This host's.
    pub fn system() -> Self {
        Self::at(Path::new("/"))
    }

    /// A tree laid out as `ROOT/sys/class/infiniband`, `ROOT/sys/class/infiniband_mad` and
    /// `ROOT/dev/infiniband`.
    pub fn at(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        Self {
            infiniband: root.join("sys/class/infiniband"),
            mad: root.join("sys/class/infiniband_mad"),
            dev: root.join("dev/infiniband"),
        }
    }

    /// Path of a umad device file.
    pub fn umad_path(&self, number: u32) -> PathBuf {
        self.dev.join(format!("umad{number}"))
    }

    /// Path of an issm device file. Not checked to exist: newer kernels create it only for ports
    /// with a subnet management interface.
    pub fn issm_path(&self, number: u32) -> PathBuf {
        self.dev.join(format!("issm{number}"))
    }

    /// Version of the kernel's umad interface; an error if the interface is not there or too
    /// old. Asked anew each time: the module may have been loaded meanwhile.
    pub fn abi_version(&self) -> Result<u32> {
        let path = self.mad.join("abi_version");
        let text = match read(&path) {
            Ok(text) => text,
            Err(errno) => return Err(Error::NoUmad { path, errno }),
        };
        match u32::try_from(number(&text)) {
            Ok(v) if v >= ABI_VERSION => Ok(v),
            _ => Err(Error::AbiVersion { found: text }),
        }
    }

    /// Names of the devices that umad serves, in the order in which the system gives them: the
    /// order in which a default is chosen. Empty where there is none. A device whose node type
    /// cannot be read is listed: its ports tell more.
    pub fn ca_names_unsorted(&self) -> Result<Vec<String>> {
        match sys::list_dir(&self.infiniband) {
            Ok(mut names) => {
                names.retain(|name| self.is_infiniband_type(name));
                Ok(names)
            }
            Err(Errno::ENOENT) => Ok(Vec::new()),
            Err(errno) => Err(Error::Sysfs {
                path: self.infiniband.clone(),
                errno,
            }),
        }
    }

    /// Names of the devices that umad serves, in byte order.
    pub fn ca_names(&self) -> Result<Vec<String>> {
        let mut names = self.ca_names_unsorted()?;
        names.sort_unstable();
        Ok(names)
    }

    fn is_infiniband_type(&self, name: &str) -> bool {
        match read(&self.infiniband.join(name).join("node_type")) {
            Ok(text) => NodeType::from_number(to_u32(&text)).is_infiniband(),
            Err(_) => true,
        }
    }

    /// All devices, in byte order of their names, each with what can be read of it.
    pub fn cas(&self) -> Result<Vec<Ca>> {
        self.ca_names()?.iter().map(|n| self.ca(n)).collect()
    }

    /// One device. Fails only where no device has that name.
    pub fn ca(&self, name: &str) -> Result<Ca> {
        let dir = self.infiniband.join(name);
        // A name is one component: never a way out of the directory.
        let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        if !plain || sys::list_dir(&dir).is_err() {
            return Err(self.unknown_device(name));
        }
        let mut faults = Vec::new();
        let mut ca = Ca {
            name: name.to_owned(),
            node_type: attribute(&dir, "node_type", &mut faults, |t| {
                Some(NodeType::from_number(to_u32(t)))
            }),
            // Not every driver has these; their absence is no fault.
            fw_ver: read(&dir.join("fw_ver")).ok(),
            hw_ver: read(&dir.join("hw_rev")).ok(),
            ca_type: read(&dir.join("hca_type")).ok(),
            node_guid: attribute(&dir, "node_guid", &mut faults, guid),
            sys_image_guid: attribute(&dir, "sys_image_guid", &mut faults, guid),
            ..Ca::default()
        };
        let ports = dir.join("ports");
        match sys::list_dir(&ports) {
            Ok(names) => {
                let mut numbers = Vec::new();
                for port in names {
                    match port.parse::<u8>() {
                        Ok(n) => numbers.push(n),
                        Err(_) => faults.push(Fault {
                            path: ports.join(port),
                            errno: Errno::EIO,
                        }),
                    }
                }
                numbers.sort_unstable();
                ca.ports = numbers
                    .into_iter()
                    .map(|n| self.read_port(name, n))
                    .collect();
            }
            Err(errno) => faults.push(Fault { path: ports, errno }),
        }
        ca.faults = faults;
        Ok(ca)
    }

    fn unknown_device(&self, name: &str) -> Error {
        match self.ca_names() {
            Ok(known) if known.is_empty() => self.no_device(),
            Ok(known) => Error::UnknownDevice {
                name: name.to_owned(),
                known,
            },
            Err(e) => e,
        }
    }

    pub(crate) fn no_device(&self) -> Error {
        Error::NoDevice {
            path: self.infiniband.clone(),
        }
    }

    fn port_dir(&self, ca: &str, port: u8) -> PathBuf {
        self.infiniband
            .join(ca)
            .join("ports")
            .join(port.to_string())
    }

    /// One port, read anew.
    pub fn port(&self, ca: &str, port: u8) -> Result<CaPort> {
        let ca = self.ca(ca)?;
        let known = ca.ports.iter().map(|p| p.number).collect();
        ca.ports
            .into_iter()
            .find(|p| p.number == port)
            .ok_or(Error::UnknownPort {
                device: ca.name,
                port,
                known,
            })
    }

    /// One port without its P_Key table, which is most of the files: what to look at often. What
    /// cannot be read is `None`, all of it where there is no such port.
    pub fn port_state(&self, ca: &str, number: u8) -> CaPort {
        let dir = self.port_dir(ca, number);
        let mut faults = Vec::new();
        let f = &mut faults;
        let lid = |t: &str| u16::try_from(to_u32(t)).ok();
        let small = |t: &str| u8::try_from(to_u32(t)).ok();
        let rate_text = attribute(&dir, "rate", f, |t| Some(t.to_owned()));
        let mut port = CaPort {
            ca: ca.to_owned(),
            number,
            lid: attribute(&dir, "lid", f, lid),
            lmc: attribute(&dir, "lid_mask_count", f, small),
            sm_lid: attribute(&dir, "sm_lid", f, lid),
            sm_sl: attribute(&dir, "sm_sl", f, small),
            state: attribute(&dir, "state", f, |t| Some(PortState(to_u32(t)))),
            phys_state: attribute(&dir, "phys_state", f, |t| Some(PhysState(to_u32(t)))),
            rate_mbps: rate_text.as_deref().and_then(mbps),
            rate_text,
            cap_mask: attribute(&dir, "cap_mask", f, |t| Some(to_u32(t))),
            link_layer: link_layer(&dir),
            gid: attribute(&dir, "gids/0", f, gid),
            ..CaPort::default()
        };
        port.faults = faults;
        port
    }

    fn read_port(&self, ca: &str, number: u8) -> CaPort {
        let mut port = self.port_state(ca, number);
        let f = &mut port.faults;
        let pkeys = self.port_dir(ca, number).join("pkeys");
        match sys::list_dir(&pkeys) {
            Ok(names) => {
                for name in names {
                    // A table has at most 65,536 entries; other names are none of them.
                    let Ok(at) = name.parse::<u16>() else {
                        continue;
                    };
                    let value = attribute(&pkeys, &name, f, |t| u16::try_from(to_u32(t)).ok());
                    let at = usize::from(at);
                    if port.pkeys.len() <= at {
                        port.pkeys.resize(at + 1, None);
                    }
                    port.pkeys[at] = value;
                }
            }
            Err(errno) => f.push(Fault { path: pkeys, errno }),
        }
        port
    }

    /// The GIDs of a port that are in use (not all zero), by ascending index.
    pub fn gids(&self, ca: &str, port: u8) -> Result<Vec<Gid>> {
        let dir = self.port_dir(ca, port).join("gids");
        let names = sys::list_dir(&dir).map_err(|errno| Error::Sysfs {
            path: dir.clone(),
            errno,
        })?;
        let mut gids: Vec<Gid> = names
            .iter()
            .filter_map(|name| {
                let index = name.parse().ok()?;
                // Unused entries of an Ethernet port refuse to be read.
                let raw = gid(&read(&dir.join(name)).ok()?)?;
                (raw != [0; 16]).then_some(Gid { index, raw })
            })
            .collect();
        gids.sort_unstable_by_key(|g| g.index);
        Ok(gids)
    }

    /// All umad devices, by number. One that vanishes while being read is left out.
    pub fn umad_devices(&self) -> Result<Vec<UmadDevice>> {
        let names = match sys::list_dir(&self.mad) {
            Ok(names) => names,
            Err(errno) => {
                return Err(Error::NoUmad {
                    path: self.mad.clone(),
                    errno,
                });
            }
        };
        let mut devices: Vec<UmadDevice> = names
            .iter()
            .filter_map(|name| {
                let number = name.strip_prefix("umad")?.parse().ok()?;
                let dir = self.mad.join(name);
                let ca = read(&dir.join("ibdev")).ok()?;
                let port = read(&dir.join("port")).ok()?;
                Some(UmadDevice {
                    number,
                    ca,
                    port: u8::try_from(to_u32(&port)).ok()?,
                })
            })
            .collect();
        devices.sort_unstable_by_key(|d| d.number);
        Ok(devices)
    }

    /// The umad device of a port.
    pub fn umad_device(&self, ca: &str, port: u8) -> Result<UmadDevice> {
        self.umad_devices()?
            .into_iter()
            .find(|d| d.ca == ca && d.port == port)
            .ok_or_else(|| Error::NoUmadForPort {
                device: ca.to_owned(),
                port,
            })
    }
}

/// The first line or lines of a file, by one read, without the last newline. Surrounding blanks
/// are not part of any attribute.
fn read(path: &Path) -> std::result::Result<String, Errno> {
    let fd = sys::open(path, libc::O_RDONLY)?;
    let mut buf = [0; 4096];
    let got = sys::read(fd, &mut buf);
    sys::close(fd);
    let text = String::from_utf8_lossy(&buf[..got?]);
    Ok(text.trim_matches(['\n', ' ', '\t', '\0']).to_owned())
}

fn attribute<T>(
    dir: &Path,
    name: &str,
    faults: &mut Vec<Fault>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let path = dir.join(name);
    let got = read(&path).and_then(|text| parse(&text).ok_or(Errno::EIO));
    match got {
        Ok(value) => Some(value),
        Err(errno) => {
            tracing::debug!(path = %path.display(), ?errno, "unreadable attribute");
            faults.push(Fault { path, errno });
            None
        }
    }
}

/// The leading number of a text as C reads it with base 0: `0x` hexadecimal, a leading 0 octal,
/// and 0 where there is none. `4: ACTIVE` is 4.
fn number(text: &str) -> u64 {
    let text = text.trim_start();
    let (digits, radix) = if let Some(hex) = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .filter(|h| h.starts_with(|c: char| c.is_ascii_hexdigit()))
    {
        (hex, 16)
    } else if text.starts_with('0') {
        (text, 8)
    } else {
        (text, 10)
    };
    digits
        .chars()
        .map_while(|c| c.to_digit(radix))
        .fold(0u64, |n, d| {
            n.saturating_mul(u64::from(radix)).saturating_add(d.into())
        })
}

fn to_u32(text: &str) -> u32 {
    u32::try_from(number(text)).unwrap_or(u32::MAX)
}

/// `2.5 Gb/sec (1X SDR)` is 2500.
fn mbps(text: &str) -> Option<u32> {
    let digits = text
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u32 = whole.parse().ok()?;
    let thousandths = fraction
        .bytes()
        .map(|b| u32::from(b - b'0'))
        .chain(std::iter::repeat(0))
        .take(3)
        .fold(0, |n, d| n * 10 + d);
    whole.checked_mul(1000)?.checked_add(thousandths)
}

/// Groups of up to four hexadecimal digits between colons, exactly N of them.
fn groups<const N: usize>(text: &str) -> Option<[u16; N]> {
    let mut out = [0; N];
    let mut parts = text.split(':');
    for g in &mut out {
        let part = parts.next()?;
        if !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        *g = u16::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(out)
}

fn guid(text: &str) -> Option<u64> {
    let g = groups::<4>(text)?;
    Some(g.iter().fold(0, |n, &x| n << 16 | u64::from(x)))
}

fn gid(text: &str) -> Option<[u8; 16]> {
    let g = groups::<8>(text)?;
    let mut out = [0; 16];
    for (to, from) in out.chunks_exact_mut(2).zip(g) {
        to.copy_from_slice(&from.to_be_bytes());
    }
    Some(out)
}

/// A kernel without this file knows only InfiniBand, so its absence is no fault.
fn link_layer(dir: &Path) -> Option<LinkLayer> {
    Some(match read(&dir.join("link_layer")).ok()?.as_str() {
        "InfiniBand" | "IB" => LinkLayer::InfiniBand,
        "Ethernet" => LinkLayer::Ethernet,
        other => LinkLayer::Other(other.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `strtoul` with base 0 reads what kernels print.
    #[test]
    fn numbers() {
        assert_eq!(number("4: ACTIVE"), 4);
        assert_eq!(number("2.5 Gb/sec (1X SDR)"), 2);
        assert_eq!(number("0x1f"), 0x1f);
        assert_eq!(number("0X1F"), 0x1f);
        assert_eq!(number("010"), 8);
        assert_eq!(number("0xzz"), 0);
        assert_eq!(number("garbage"), 0);
        assert_eq!(number(""), 0);
        assert_eq!(number("99999999999999999999999"), u64::MAX);
    }

    #[test]
    fn rates() {
        assert_eq!(mbps("2.5 Gb/sec (1X SDR)"), Some(2500));
        assert_eq!(mbps("100 Gb/sec (4X EDR)"), Some(100_000));
        assert_eq!(mbps("14.0625 Gb/sec"), Some(14_062));
        assert_eq!(mbps("fast"), None);
        assert_eq!(mbps(""), None);
        assert_eq!(mbps("9999999999 Gb/sec"), None);
    }

    #[test]
    fn identifiers() {
        assert_eq!(guid("0002:c903:00a0:1b2c"), Some(0x0002_c903_00a0_1b2c));
        assert_eq!(guid("0002:c903:00a0"), None);
        assert_eq!(guid("0002:c903:00a0:1b2c:0"), None);
        assert_eq!(guid("0002:c903:+0a0:1b2c"), None);
        let g = gid("fe80:0000:0000:0000:0002:c903:00a0:1b2d").unwrap();
        assert_eq!(g[..2], [0xfe, 0x80]);
        assert_eq!(g[14..], [0x1b, 0x2d]);
    }
}
