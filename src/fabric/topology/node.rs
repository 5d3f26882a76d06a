//! A node and its ports, as they told of themselves.

use crate::fabric::{DrPath, Guid, Lid, LinkSpeed, LinkWidth, NodeId, NodeKind, PortKey};
use crate::mad::{
    MlnxExtPortInfo, MlnxSpeeds, NodeDescription, NodeInfo, PortCaps, PortCaps2, PortInfo,
    SwitchInfo,
};

/// A switch, adapter or router.
#[derive(Clone, Debug)]
pub struct Node {
    /// Identity.
    pub id: NodeId,
    /// CA, switch, router.
    pub kind: NodeKind,
    /// NodeInfo, as last answered.
    pub info: NodeInfo,
    /// Description, once read.
    pub description: Option<NodeDescription>,
    /// SwitchInfo of a switch, once read.
    pub switch: Option<SwitchInfo>,
    /// Ports by number. Slot 0 is a switch's management port and unused on other nodes.
    pub ports: Vec<Port>,
    /// The shortest known directed route to it.
    pub route: DrPath,
    /// The port by which that route enters it.
    pub entry: u8,
    /// Generation in which that route was last proven by an answer.
    pub proven: u32,
    /// Generation in which it last answered.
    pub seen: u32,
    /// It can be reached, as far as known: false once its last link went down or a full
    /// discovery did not find it.
    pub present: bool,
    /// An M_Key protects it: it is not asked, and what is known of it is what the SA tells.
    pub guarded: bool,
}

/// A port of a node.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// PortInfo, as last answered.
    pub info: Option<PortInfo>,
    /// Mellanox ExtendedPortInfo (FDR10), where asked.
    pub vendor: Option<Box<MlnxExtPortInfo>>,
    /// Port GUID, where NodeInfo told it.
    pub guid: Option<Guid>,
    /// The other end of the link.
    pub peer: Option<PortKey>,
    /// The other end before the link went.
    pub last_peer: Option<PortKey>,
}

impl Port {
    /// PortState code; `None` if the port was never read.
    pub fn state(&self) -> Option<u8> {
        self.info.as_ref().map(|i| i.port_state().code())
    }

    /// True if the port has a link (Init, Armed or Active).
    pub fn is_up(&self) -> bool {
        matches!(self.state(), Some(2..=4))
    }

    /// Active width; `None` while the port is down or unread: its fields are garbage then.
    pub fn width(&self) -> Option<LinkWidth> {
        self.is_up().then_some(())?;
        Some(self.info.as_ref()?.link_width_active())
    }

    /// FDR10 bit of the vendor's attribute.
    fn fdr10(&self) -> bool {
        self.vendor
            .as_ref()
            .is_some_and(|v| v.speed_active().has(MlnxSpeeds::FDR10))
    }
}

impl Node {
    /// A node that was found at `entry`, by this route.
    pub(super) fn found(
        id: NodeId,
        info: NodeInfo,
        (route, entry): (DrPath, u8),
        generation: u32,
    ) -> Node {
        Node {
            id,
            kind: NodeKind::from_code(info.node_type().code()),
            info,
            description: None,
            switch: None,
            ports: Vec::new(),
            route,
            entry,
            proven: generation,
            seen: generation,
            present: true,
            guarded: false,
        }
    }

    /// Takes in a NodeInfo that came in answer at `entry`: it says which port that is.
    pub(super) fn informed(&mut self, info: NodeInfo, entry: u8) {
        self.info = info;
        self.kind = NodeKind::from_code(info.node_type().code());
        let ports = usize::from(info.num_ports()) + 1;
        self.ports.resize_with(ports, Port::default);
        let switch = self.kind == NodeKind::Switch;
        let slot = if switch { 0 } else { usize::from(entry) };
        if let Some(port) = self.ports.get_mut(slot) {
            port.guid = Some(Guid(info.port_guid()));
        }
    }

    /// A port of this node.
    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.get(usize::from(number))
    }

    /// The numbers of its external ports: 1 to NumPorts.
    pub fn external_ports(&self) -> impl Iterator<Item = u8> + use<> {
        1..=u8::try_from(self.ports.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    /// The port whose capability masks speak for `port`: port 0 of a switch, else itself.
    fn mask_port(&self, port: u8) -> Option<&Port> {
        self.port(if self.kind == NodeKind::Switch {
            0
        } else {
            port
        })
    }

    /// CapabilityMask and CapabilityMask2 that hold for `port`: a switch keeps both at port 0.
    pub fn capability_masks(&self, port: u8) -> Option<(PortCaps, PortCaps2)> {
        let info = self.mask_port(port)?.info.as_ref()?;
        let mask = info.cap_mask();
        let mask2 = if mask.has(PortCaps::CAP_MASK2) {
            info.cap_mask2()
        } else {
            PortCaps2(0)
        };
        Some((mask, mask2))
    }

    /// Active speed of a port; `None` while it is down or unread.
    pub fn speed(&self, port: u8) -> Option<LinkSpeed> {
        let p = self.port(port)?;
        p.is_up().then_some(())?;
        let info = p.info.as_ref()?;
        let (mask, mask2) = self
            .capability_masks(port)
            .unwrap_or((PortCaps(0), PortCaps2(0)));
        let ext = if mask.has(PortCaps::EXT_SPEEDS) {
            info.link_speed_ext_active().code()
        } else {
            0
        };
        let ext2 = if mask2.has(PortCaps2::EXT_SPEEDS2) {
            info.link_speed_ext_active2().code()
        } else {
            0
        };
        Some(LinkSpeed::from_codes(
            info.link_speed_active().code(),
            ext,
            ext2,
            p.fdr10(),
        ))
    }

    /// The LID by which `port` is reached: a switch has one, at port 0. `None` if none is set.
    pub fn lid(&self, port: u8) -> Option<Lid> {
        let lid = self.mask_port(port)?.info.as_ref()?.lid();
        (lid != 0 && lid < 0xC000).then_some(lid)
    }

    /// First and last LID of each of its ports in this subnet: a switch has one port that counts.
    pub fn lids(&self) -> impl Iterator<Item = (Lid, Lid)> {
        let ports = match self.kind {
            NodeKind::Switch => 0..=0,
            _ => 1..=u8::try_from(self.ports.len().saturating_sub(1)).unwrap_or(u8::MAX),
        };
        let subnet = ports.filter(|p| self.is_in_subnet(*p));
        subnet.filter_map(|p| self.lids_of(p))
    }

    /// First and last LID by which `port` is reached, as its LMC has it.
    pub fn lids_of(&self, port: u8) -> Option<(Lid, Lid)> {
        let lid = self.lid(port)?;
        let lmc = self.mask_port(port)?.info.as_ref()?.lmc();
        Some((lid, lid.saturating_add((1 << lmc) - 1)))
    }

    /// A LID by which the node can be asked anything: port 0's, or that of an active port, first
    /// the one by which it was found.
    pub fn any_lid(&self) -> Option<Lid> {
        if self.kind == NodeKind::Switch {
            return self.lid(0);
        }
        std::iter::once(self.entry)
            .chain(self.external_ports())
            .filter(|p| self.is_in_subnet(*p))
            .filter(|p| self.port(*p).is_some_and(|p| p.state() == Some(4)))
            .find_map(|p| self.lid(p))
    }

    /// The port belongs to the subnet that was discovered: it is the one by which the node was
    /// found, or its link's other end is known. Other ports of an adapter may be plugged into
    /// another subnet, where other nodes have the same LIDs.
    pub fn is_in_subnet(&self, port: u8) -> bool {
        self.kind == NodeKind::Switch
            || port == self.entry
            || self.port(port).is_some_and(|p| p.peer.is_some())
    }

    /// The LID by which the counters of `port` are asked: its own, or if that is of another
    /// subnet, one by which the node is reached.
    pub fn asking_lid(&self, port: u8) -> Option<Lid> {
        if self.is_in_subnet(port) {
            self.lid(port)
        } else {
            self.any_lid()
        }
    }

    /// The switch has an enhanced port 0, which has counters of its own.
    pub fn has_enhanced_port0(&self) -> bool {
        self.switch.as_ref().is_some_and(|s| s.enhanced_port0())
    }
}
