//! SMI/GSI pairs of planarized devices: one physical port shown as several devices of equal port
//! GUID, of which one has the subnet management interface (QP0) and another the general one
//! (QP1). On ordinary devices both names are the same.

use crate::ca::{Ca, NodeType, PortState};
use crate::error::{Error, Result};
use crate::select::Select;
use crate::sysfs::Sysfs;

/// Most devices that pairs are formed of, and most ports.
pub const MAX_DEVICES: usize = 128;
/// Most pairs.
pub const MAX_PORTS: usize = 192;

/// The devices through which one physical port is managed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CaPair {
    /// Device with the subnet management interface.
    pub smi: Option<String>,
    /// Its port to use.
    pub smi_port: Option<u8>,
    /// Device with the general services interface.
    pub gsi: Option<String>,
    /// Its port to use.
    pub gsi_port: Option<u8>,
}

impl CaPair {
    /// Selects the port for subnet management packets, if there is one.
    pub fn smi_select(&self) -> Option<Select> {
        Some(Select {
            ca: Some(self.smi.clone()?),
            port: self.smi_port,
            smi: true,
        })
    }

    /// Selects the port for general management packets, if there is one.
    pub fn gsi_select(&self) -> Option<Select> {
        Some(Select {
            ca: Some(self.gsi.clone()?),
            port: self.gsi_port,
            smi: false,
        })
    }

    /// Whether one device serves both.
    pub fn is_one_device(&self) -> bool {
        self.smi == self.gsi
    }
}

/// Pairs in the order of their first device's name. Only a device's first port with a GUID
/// counts. A GUID on several ports: the device without subnet management is the GSI side, the
/// other the SMI side. A GUID on one port: the device is both, or only GSI without subnet
/// management.
fn pair_up(cas: &[Ca]) -> Vec<CaPair> {
    let cas = &cas[..cas.len().min(MAX_DEVICES)];
    let guids = cas.iter().flat_map(|c| &c.ports).filter_map(guid_of);
    let guids: Vec<u64> = guids.collect();
    let mut pairs: Vec<(u64, CaPair)> = Vec::new();
    for ca in cas {
        let first = ca.ports.iter().find_map(|p| Some((p, guid_of(p)?)));
        let Some((port, guid)) = first else { continue };
        let at = match pairs.iter().position(|(g, _)| *g == guid) {
            Some(at) => at,
            None if pairs.len() >= MAX_PORTS => continue,
            None => {
                pairs.push((guid, CaPair::default()));
                pairs.len() - 1
            }
        };
        let pair = &mut pairs[at].1;
        let planarized = guids.iter().filter(|&&g| g == guid).count() > 1;
        let name = Some(ca.name.clone());
        match (planarized, port.is_sm_disabled()) {
            (_, true) => pair.gsi = name,
            (true, false) => pair.smi = name,
            (false, false) => (pair.smi, pair.gsi) = (name.clone(), name),
        }
    }
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

fn guid_of(p: &crate::CaPort) -> Option<u64> {
    p.port_guid().filter(|&g| g != 0)
}

fn is_up(ca: &Ca, port: u8) -> bool {
    ca.port(port)
        .and_then(|p| p.state)
        .is_some_and(|s| s > PortState::DOWN)
}

fn first_up(ca: &Ca) -> Option<u8> {
    ca.ports.iter().map(|p| p.number).find(|&n| is_up(ca, n))
}

impl Sysfs {
    /// All pairs of this host (`umad_get_smi_gsi_pairs`), without preferred ports.
    pub fn smi_gsi_pairs(&self) -> Result<Vec<CaPair>> {
        Ok(pair_up(&self.readable_cas()?))
    }

    fn readable_cas(&self) -> Result<Vec<Ca>> {
        let names = self.ca_names()?;
        // A device may vanish while it is being read.
        Ok(names.iter().filter_map(|n| self.ca(n).ok()).collect())
    }

    /// The pair that a device belongs to, whichever side its name is
    /// (`umad_get_smi_gsi_pair_by_ca_name`); without a name the first one that can be used.
    ///
    /// The named side gets `port`, or its first port that is not down; a given port must not be
    /// down unless the device is named too. A device with one port uses that one whatever is
    /// given. The other side gets its own first port that is not down (the C library looks for
    /// it on the named device). With `smi` a pair without subnet management is passed over.
    pub fn smi_gsi_pair(&self, name: Option<&str>, port: Option<u8>, smi: bool) -> Result<CaPair> {
        let cas = self.readable_cas()?;
        if cas.is_empty() {
            return Err(self.no_device());
        }
        let find = |name: &Option<String>| cas.iter().find(|c| Some(&c.name) == name.as_ref());
        for mut pair in pair_up(&cas) {
            if (smi && pair.smi.is_none()) || pair.gsi.is_none() {
                continue;
            }
            let named = |side: &Option<String>| side.as_deref() == name;
            if name.is_some() && !named(&pair.gsi) && !named(&pair.smi) {
                continue;
            }
            // Without a name the SMI side is meant, if there is one.
            let by_gsi = match name {
                Some(_) => named(&pair.gsi),
                None => pair.smi.is_none(),
            };
            let (mine, other) = match by_gsi {
                true => (find(&pair.gsi), find(&pair.smi)),
                false => (find(&pair.smi), find(&pair.gsi)),
            };
            let Some(mine) = mine else { continue };
            let Some((mine_port, other_port)) = prefer(mine, other, name.is_some(), port) else {
                continue;
            };
            (pair.smi_port, pair.gsi_port) = match by_gsi {
                true => (other_port, Some(mine_port)),
                false => (Some(mine_port), other_port),
            };
            return Ok(pair);
        }
        if let Some(name) = name
            && !cas.iter().any(|c| c.name == name)
        {
            self.ca(name)?;
        }
        Err(Error::NoUsablePort {
            ports: cas
                .iter()
                .map(|c| format!("{}: no port of an SMI/GSI pair that is up", c.name))
                .collect(),
        })
    }
}

/// The ports to use of the device that is meant and of its partner, if both can be had.
fn prefer(
    mine: &Ca,
    other: Option<&Ca>,
    named: bool,
    wanted: Option<u8>,
) -> Option<(u8, Option<u8>)> {
    let wanted = wanted.filter(|&p| p != 0);
    if wanted.is_some_and(|p| mine.port(p).is_none()) {
        return None;
    }
    let given = match &mine.ports[..] {
        [only] => Some(only.number),
        _ if mine.node_type == Some(NodeType::Switch) => Some(0),
        _ => wanted,
    };
    let mine_port = match given {
        Some(p) if named || is_up(mine, p) => p,
        Some(_) => return None,
        None => first_up(mine)?,
    };
    let Some(other) = other else {
        return Some((mine_port, None));
    };
    if other.name == mine.name {
        return Some((mine_port, Some(mine_port)));
    }
    match first_up(other) {
        None if !named || given.is_none() => None,
        other_port => Some((mine_port, other_port)),
    }
}
