//! What sysfs says of a channel adapter and its ports, as plain values.
//!
//! A value is `None` where its file is missing, unreadable or makes no sense; the reason is in
//! `faults`. One bad attribute, port or device never hides another.

use std::fmt;
use std::path::PathBuf;

use crate::errno::Errno;

/// A file that could not be read or understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file or directory.
    pub path: PathBuf,
    /// Why; EIO stands for a value that cannot be understood.
    pub errno: Errno,
}

/// Kind of node, as sysfs numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeType {
    /// 1: a channel adapter (RoCE devices too).
    Ca,
    /// 2: a switch, managed through its port 0.
    Switch,
    /// 3: a router.
    Router,
    /// Anything else: iWARP, usNIC.
    Other(u32),
}

impl NodeType {
    pub(crate) fn from_number(n: u32) -> Self {
        match n {
            1 => Self::Ca,
            2 => Self::Switch,
            3 => Self::Router,
            n => Self::Other(n),
        }
    }

    /// As sysfs numbers it.
    pub fn number(self) -> u32 {
        match self {
            Self::Ca => 1,
            Self::Switch => 2,
            Self::Router => 3,
            Self::Other(n) => n,
        }
    }

    /// Whether this is a kind that umad serves.
    pub fn is_infiniband(self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// Logical state of a port (PortInfo.PortState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortState(pub u32);

impl PortState {
    /// No link, or not configured.
    pub const DOWN: Self = Self(1);
    /// Link up; the subnet manager has not configured it.
    pub const INIT: Self = Self(2);
    /// Configured, not yet carrying data.
    pub const ARMED: Self = Self(3);
    /// In use.
    pub const ACTIVE: Self = Self(4);
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("Down"),
            2 => f.write_str("Init"),
            3 => f.write_str("Armed"),
            4 => f.write_str("Active"),
            5 => f.write_str("ActiveDefer"),
            n => write!(f, "{n}"),
        }
    }
}

/// Physical state of a port (PortInfo.PortPhysicalState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhysState(pub u32);

impl PhysState {
    /// Switched off.
    pub const DISABLED: Self = Self(3);
    /// Link trained.
    pub const LINK_UP: Self = Self(5);
}

impl fmt::Display for PhysState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("Sleep"),
            2 => f.write_str("Polling"),
            3 => f.write_str("Disabled"),
            4 => f.write_str("PortConfigurationTraining"),
            5 => f.write_str("LinkUp"),
            6 => f.write_str("LinkErrorRecovery"),
            7 => f.write_str("PhyTest"),
            n => write!(f, "{n}"),
        }
    }
}

/// What a port's link is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
    /// Anything else, as the kernel words it.
    Other(String),
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InfiniBand => f.write_str("InfiniBand"),
            Self::Ethernet => f.write_str("Ethernet"),
            Self::Other(s) => f.write_str(s),
        }
    }
}

/// PortInfo.CapabilityMask bit 1: a subnet manager runs on this port.
pub const CAP_IS_SM: u32 = 1 << 1;
/// PortInfo.CapabilityMask bit 10: subnet management is disabled on this port.
pub const CAP_IS_SM_DISABLED: u32 = 1 << 10;

/// A channel adapter, switch or router in this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ca {
    /// Device name, such as `mlx5_0`.
    pub name: String,
    /// Kind of node.
    pub node_type: Option<NodeType>,
    /// Firmware version.
    pub fw_ver: Option<String>,
    /// Device type (`hca_type`).
    pub ca_type: Option<String>,
    /// Hardware revision.
    pub hw_ver: Option<String>,
    /// Node GUID.
    pub node_guid: Option<u64>,
    /// System image GUID.
    pub sys_image_guid: Option<u64>,
    /// Ports by ascending number: from 1 on a channel adapter, only 0 on a switch.
    pub ports: Vec<CaPort>,
    /// What could not be read of the device itself.
    pub faults: Vec<Fault>,
}

impl Ca {
    /// The port of that number.
    pub fn port(&self, number: u8) -> Option<&CaPort> {
        self.ports.iter().find(|p| p.number == number)
    }

    /// Port GUIDs by port number, from 0 to the highest port; 0 where there is none.
    pub fn port_guids(&self) -> Vec<u64> {
        let mut guids = Vec::new();
        for p in &self.ports {
            let at = usize::from(p.number);
            if guids.len() <= at {
                guids.resize(at + 1, 0);
            }
            guids[at] = p.port_guid().unwrap_or(0);
        }
        guids
    }

    /// Whether this is a simulator's device, not the kernel's.
    pub fn is_simulated(&self) -> bool {
        self.ca_type.as_deref() == Some("simulator") || self.name.starts_with("ibsim")
    }
}

/// A port of a device in this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaPort {
    /// Device name.
    pub ca: String,
    /// Port number.
    pub number: u8,
    /// LID (0 before a subnet manager gave one, and on Ethernet).
    pub lid: Option<u16>,
    /// Number of low LID bits that vary.
    pub lmc: Option<u8>,
    /// LID of the subnet manager.
    pub sm_lid: Option<u16>,
    /// Service level towards the subnet manager.
    pub sm_sl: Option<u8>,
    /// Logical state.
    pub state: Option<PortState>,
    /// Physical state.
    pub phys_state: Option<PhysState>,
    /// Rate in Mbit/s, such as 2500 or 100000.
    pub rate_mbps: Option<u32>,
    /// Rate as the kernel words it, such as `100 Gb/sec (4X EDR)`.
    pub rate_text: Option<String>,
    /// PortInfo.CapabilityMask.
    pub cap_mask: Option<u32>,
    /// What the link is; `None` where the kernel does not say, which means InfiniBand.
    pub link_layer: Option<LinkLayer>,
    /// GID 0: subnet prefix and port GUID.
    pub gid: Option<[u8; 16]>,
    /// P_Key table; an entry that could not be read is `None`.
    pub pkeys: Vec<Option<u16>>,
    /// What could not be read.
    pub faults: Vec<Fault>,
}

impl CaPort {
    /// Subnet prefix: the upper half of GID 0.
    pub fn gid_prefix(&self) -> Option<u64> {
        self.gid.map(|g| be64(&g, 0))
    }

    /// Port GUID: the lower half of GID 0.
    pub fn port_guid(&self) -> Option<u64> {
        self.gid.map(|g| be64(&g, 8))
    }

    /// Whether the link is InfiniBand.
    pub fn is_infiniband(&self) -> bool {
        matches!(self.link_layer, None | Some(LinkLayer::InfiniBand))
    }

    /// Whether the port has no subnet management interface (QP0).
    pub fn is_sm_disabled(&self) -> bool {
        self.cap_mask.is_some_and(|m| m & CAP_IS_SM_DISABLED != 0)
    }

    /// Index of a P_Key in the table.
    pub fn pkey_index(&self, pkey: u16) -> Option<u16> {
        let at = self.pkeys.iter().position(|&k| k == Some(pkey))?;
        u16::try_from(at).ok()
    }

    /// Index of the default partition, which management packets use: as full member (0xFFFF),
    /// else as limited member (0x7FFF). `None` where the port is in neither.
    pub fn default_pkey_index(&self) -> Option<u16> {
        self.pkey_index(0xffff).or_else(|| self.pkey_index(0x7fff))
    }
}

fn be64(gid: &[u8; 16], at: usize) -> u64 {
    gid[at..at + 8]
        .iter()
        .fold(0, |n, &b| n << 8 | u64::from(b))
}
