//! Which port is meant when the user does not say, or says only half: libibumad's rules, with
//! one difference: an Ethernet port is never chosen (the C library's last resort can), and no
//! made-up `mthca0` stands in where nothing fits.

use crate::ca::{Ca, CaPort, NodeType, PhysState, PortState};
use crate::error::{Error, Result};
use crate::sysfs::{Sysfs, UmadDevice};

/// Which port to use. The default is: the first device with an active port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Select {
    /// Device name; `None` for any.
    pub ca: Option<String>,
    /// Port number; `None` for the best one of the device. With a device name it is taken
    /// unchecked, without one it is a filter.
    pub port: Option<u8>,
    /// Only ports with a subnet management interface (QP0).
    pub smi: bool,
}

impl Select {
    /// Any device, any port.
    pub fn any() -> Self {
        Self::default()
    }

    /// A device's best port.
    pub fn ca(name: impl Into<String>) -> Self {
        Self {
            ca: Some(name.into()),
            ..Self::default()
        }
    }

    /// Exactly this port.
    pub fn exact(name: impl Into<String>, port: u8) -> Self {
        Self {
            ca: Some(name.into()),
            port: Some(port),
            smi: false,
        }
    }

    /// The same, but only ports with a subnet management interface.
    #[must_use]
    pub fn with_smi(mut self) -> Self {
        self.smi = true;
        self
    }
}

/// A port, resolved: device name, port number and the umad device that serves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortId {
    /// Device name.
    pub ca: String,
    /// Port number.
    pub port: u8,
    /// The N of `umadN` and `issmN`.
    pub umad: u32,
}

impl std::fmt::Display for PortId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ca, self.port)
    }
}

impl From<UmadDevice> for PortId {
    fn from(d: UmadDevice) -> Self {
        Self {
            ca: d.ca,
            port: d.port,
            umad: d.number,
        }
    }
}

/// How well a port fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Active(u8),
    Acceptable(u8),
}

fn refused(p: &CaPort, smi: bool) -> Option<String> {
    if !p.is_infiniband() {
        return Some(
            p.link_layer
                .as_ref()
                .map_or_else(|| "unknown link layer".to_owned(), ToString::to_string),
        );
    }
    if smi && p.is_sm_disabled() {
        return Some("no subnet management interface".to_owned());
    }
    if p.state != Some(PortState::ACTIVE) && p.phys_state == Some(PhysState::DISABLED) {
        return Some("disabled".to_owned());
    }
    None
}

/// The port of a device that the rules choose.
fn choose(ca: &Ca, wanted: Option<u8>, smi: bool) -> Option<Fit> {
    if ca.node_type == Some(NodeType::Switch) {
        return Some(Fit::Active(0));
    }
    let fits = |p: &&CaPort| refused(p, smi).is_none();
    let fit = |p: &CaPort| match p.state {
        Some(PortState::ACTIVE) => Fit::Active(p.number),
        _ => Fit::Acceptable(p.number),
    };
    match wanted {
        Some(n) if n != 0 => ca.port(n).filter(fits).map(fit),
        _ => {
            let mut usable = ca.ports.iter().filter(fits);
            let active = usable.find(|p| p.state == Some(PortState::ACTIVE));
            let up = || {
                let mut usable = ca.ports.iter().filter(fits);
                usable.find(|p| p.phys_state == Some(PhysState::LINK_UP))
            };
            let first = || ca.ports.iter().find(fits);
            active.or_else(up).or_else(first).map(fit)
        }
    }
}

/// Why no port of these devices was chosen, as the error to show.
fn explain(cas: &[Ca], wanted: Option<u8>, smi: bool) -> Error {
    let mut ports = Vec::new();
    let mut only_ethernet = true;
    for ca in cas {
        if ca.ports.is_empty() {
            only_ethernet = false;
            ports.push(format!("{}: no readable port", ca.name));
        }
        for p in &ca.ports {
            let name = format!("{}/{}", ca.name, p.number);
            if wanted.is_some_and(|w| w != 0 && w != p.number) {
                continue;
            }
            if !p.is_infiniband() {
                let layer = refused(p, false).unwrap_or_default();
                ports.push(format!("{name} ({layer})"));
                continue;
            }
            only_ethernet = false;
            if let Some(why) = refused(p, smi) {
                ports.push(format!("{name}: {why}"));
            }
        }
    }
    if only_ethernet && !ports.is_empty() {
        Error::OnlyEthernet { ports }
    } else {
        if ports.is_empty() {
            ports.extend(wanted.map(|w| format!("no device has a port {w}")));
        }
        Error::NoUsablePort { ports }
    }
}

impl Sysfs {
    /// Device name and port number that a selection means.
    ///
    /// A name with a port is taken as it is. A name alone: the device's first active port, else
    /// the first whose link is up, else the first that is not disabled. Nothing: the first
    /// device (in the order in which the system lists them) with an active port, else the first
    /// with an acceptable one.
    pub fn select(&self, select: &Select) -> Result<(String, u8)> {
        if let Some(name) = &select.ca {
            if let Some(port) = select.port.filter(|&p| p != 0) {
                return Ok((name.clone(), port));
            }
            let ca = self.ca(name)?;
            return match choose(&ca, None, select.smi) {
                Some(Fit::Active(port) | Fit::Acceptable(port)) => Ok((ca.name, port)),
                None => Err(explain(&[ca], None, select.smi)),
            };
        }
        let mut cas = Vec::new();
        let mut acceptable = None;
        for name in self.ca_names_unsorted()? {
            // A device may vanish while it is being read.
            let Ok(ca) = self.ca(&name) else { continue };
            match choose(&ca, select.port, select.smi) {
                Some(Fit::Active(port)) => return Ok((name, port)),
                Some(Fit::Acceptable(port)) if acceptable.is_none() => {
                    acceptable = Some((name, port));
                }
                _ => {}
            }
            cas.push(ca);
        }
        match acceptable {
            Some(found) => Ok(found),
            None if cas.is_empty() => Err(self.no_device()),
            None => Err(explain(&cas, select.port, select.smi)),
        }
    }

    /// The port that a selection means, with its umad device.
    ///
    /// Nothing to use is told before anything missing for its use: a host without a device gets
    /// that answer, whether or not the umad module is loaded.
    pub fn resolve(&self, select: &Select) -> Result<PortId> {
        let (ca, port) = self.select(select)?;
        self.abi_version()?;
        match self.umad_device(&ca, port) {
            Ok(device) => Ok(device.into()),
            // A wrong name or number is a better answer than a missing umad device.
            Err(e @ Error::NoUmadForPort { .. }) => {
                self.port(&ca, port)?;
                Err(e)
            }
            Err(e) => Err(e),
        }
    }
}
