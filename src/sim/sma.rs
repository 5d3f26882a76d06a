//! What a node's subnet management agent answers.

use super::device::{VENDOR, speed_codes, speed_masks};
use super::flight::{Verdict, finish, finish_with};
use super::world::{DISABLED, Due, LINK_UP, Landing, Node, POLLING, Port, World};
use crate::fabric::{LinkSpeed, NodeKind};
use crate::mad::{
    Attribute, FecMode, GuidInfo, LinearForwardingTable, LinkSpeed as SpeedCode, LinkSpeedExt,
    LinkSpeedExt2, LinkSpeeds, LinkSpeedsExt, LinkSpeedsExt2, LinkWidth, LinkWidths, Mad, Method,
    MlnxExtPortInfo, MlnxSpeeds, Mtu, MulticastForwardingTable, NodeDescription, NodeInfo,
    NodeType, PKeyTable, PhysState, PortCaps, PortCaps2, PortInfo, PortInfoExtended, PortState,
    SlToVl, SmInfo, Status, SwitchInfo, VlArbitration, Vls,
};

/// Prefix of the default subnet.
pub const GID_PREFIX: u64 = 0xfe80_0000_0000_0000;
/// VendorDiag and LedInfo, which have no declaration of their own.
const VENDOR_DIAG: u16 = 0x0030;
const LED_INFO: u16 = 0x0031;

impl World {
    pub fn answer_smp(&mut self, landing: Landing, mad: &mut Mad) -> Verdict {
        let (method, id, modifier) = (mad.method(), mad.attr_id(), mad.attr_mod());
        if method.is_response() || method == Method::Trap {
            return Verdict::Silence;
        }
        if !matches!(method, Method::Get | Method::Set) {
            return finish(mad, Status::UNSUPPORTED_METHOD);
        }
        if !self.key_fits(landing, mad) {
            return Verdict::Silence;
        }
        if method == Method::Set {
            return self.set_smp(landing, mad);
        }
        let Some(node) = self.nodes.get(landing.node as usize) else {
            return Verdict::Silence;
        };
        let switch = node.kind == NodeKind::Switch;
        let port = (modifier & 0xFF) as u8;
        match id {
            NodeDescription::ID => {
                let mut text = NodeDescription::new();
                text.set_description(node.description);
                finish_with(mad, &text)
            }
            NodeInfo::ID => finish_with(mad, &self.node_info(landing)),
            SwitchInfo::ID if switch => finish_with(mad, &self.switch_info(node)),
            GuidInfo::ID => {
                let mut info = GuidInfo::new();
                if modifier == 0 {
                    let guid = self
                        .end_port(landing.node, landing.port)
                        .map_or(0, |p| p.guid);
                    info.set_guids([guid, 0, 0, 0, 0, 0, 0, 0]);
                }
                finish_with(mad, &info)
            }
            PortInfo::ID => match self.port_info(landing, port, mad.m_key()) {
                Some(info) => finish_with(mad, &info),
                None => finish(mad, Status::BAD_VALUE),
            },
            PKeyTable::ID => {
                let block = modifier & 0xFFFF;
                finish_with(mad, &self.pkey_table(landing.node, block as u16))
            }
            SlToVl::ID => {
                let mut map = SlToVl::new();
                let mut vls = [0; 16];
                for (sl, vl) in (0u8..).zip(vls.iter_mut()) {
                    *vl = sl % 4;
                }
                map.set_vls(vls);
                finish_with(mad, &map)
            }
            VlArbitration::ID => {
                let mut table = VlArbitration::new();
                let mut pairs = [0; 32];
                for (vl, pair) in (0u16..4).zip(pairs.iter_mut()) {
                    *pair = vl << 8 | 64;
                }
                table.set_pairs(pairs);
                finish_with(mad, &table)
            }
            LinearForwardingTable::ID if switch => {
                let node = landing.node;
                match self.forwarding_block(node, modifier) {
                    Some(table) => finish_with(mad, &table),
                    None => finish(mad, Status::BAD_VALUE),
                }
            }
            MulticastForwardingTable::ID if switch => {
                finish_with(mad, &MulticastForwardingTable::new())
            }
            SmInfo::ID => match self.sm.info_at(landing.node, self.now) {
                Some(info) => finish_with(mad, &info),
                None => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
            },
            PortInfoExtended::ID => match self.port_info_extended(landing, port) {
                Some(info) => finish_with(mad, &info),
                None => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
            },
            MlnxExtPortInfo::ID => match self.mlnx_port_info(landing, port) {
                Some(info) => finish_with(mad, &info),
                None => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
            },
            VENDOR_DIAG => {
                mad.set_data_bytes(&[0; 64]);
                finish(mad, Status::OK)
            }
            LED_INFO => {
                let led = u8::from(node.led) << 7;
                mad.set_data_bytes(&[led]);
                finish(mad, Status::OK)
            }
            _ => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
        }
    }

    /// Sets that a simulated node obeys: a port's states and the LED.
    fn set_smp(&mut self, landing: Landing, mad: &mut Mad) -> Verdict {
        let port = (mad.attr_mod() & 0xFF) as u8;
        match mad.attr_id() {
            PortInfo::ID => {
                let Some(index) = self.asked_port(landing, port) else {
                    return finish(mad, Status::BAD_VALUE);
                };
                let Ok(wish) = PortInfo::from_bytes(mad.data()) else {
                    return Verdict::Silence;
                };
                let disable = wish.phys_state() == PhysState::Disabled;
                let enable = wish.phys_state() == PhysState::Polling;
                let bounce = wish.port_state() == PortState::Down;
                if disable || enable || bounce {
                    self.set_link(index, false);
                    let own = self.ports.get_mut(index as usize);
                    let peer = own.map_or(super::world::NONE, |p| {
                        p.phys = if disable { DISABLED } else { POLLING };
                        p.peer
                    });
                    let peer_on = self
                        .ports
                        .get(peer as usize)
                        .is_some_and(|p| p.phys != DISABLED);
                    if !disable && peer_on {
                        self.set_link(index, true);
                    }
                }
                match self.port_info(landing, port, mad.m_key()) {
                    Some(info) => finish_with(mad, &info),
                    None => finish(mad, Status::BAD_VALUE),
                }
            }
            LED_INFO => {
                let on = mad.data().first().is_some_and(|b| b & 0x80 != 0);
                if let Some(node) = self.nodes.get_mut(landing.node as usize) {
                    node.led = on;
                }
                finish(mad, Status::OK)
            }
            _ => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
        }
    }

    /// Whether a node's M_Key lets a request through. If not, the violation is counted and the
    /// SM hears of it.
    fn key_fits(&mut self, landing: Landing, mad: &Mad) -> bool {
        let Some(node) = self.nodes.get(landing.node as usize) else {
            return false;
        };
        let guarded = mad.method() == Method::Set || node.protect >= 2;
        if node.m_key == 0 || node.m_key == mad.m_key() || !guarded {
            let fits = node.m_key == mad.m_key();
            if fits && let Some(node) = self.nodes.get_mut(landing.node as usize) {
                // The manager is alive: the countdown stops.
                node.lease_ends = None;
            }
            return true;
        }
        let switch = node.kind == NodeKind::Switch;
        let port = if switch { 0 } else { landing.port };
        let end = self.now + u64::from(node.lease) * 1_000_000_000;
        if let Some(node) = self.nodes.get_mut(landing.node as usize)
            && node.lease != 0
            && node.lease_ends.is_none()
        {
            node.lease_ends = Some(end);
            self.schedule(end, Due::Lease(landing.node));
        }
        if let Some(index) = self.port_index(landing.node, port)
            && let Some(p) = self.ports.get_mut(index as usize)
        {
            p.m_key_violations = p.m_key_violations.saturating_add(1);
        }
        self.send_key_trap(landing, mad);
        false
    }

    /// The lease of an M_Key ends, if it still runs: the node is protected no more.
    pub fn lease_over(&mut self, node: u32) {
        let now = self.now;
        if let Some(node) = self.nodes.get_mut(node as usize)
            && node.lease_ends.is_some_and(|end| end <= now)
        {
            node.lease_ends = None;
            node.protect = 0;
        }
    }

    /// The port that a modifier names: on an adapter 0 means the port that the MAD came in by.
    fn asked_port(&self, landing: Landing, port: u8) -> Option<u32> {
        let node = self.nodes.get(landing.node as usize)?;
        let number = if port == 0 && node.kind != NodeKind::Switch {
            landing.port
        } else {
            port
        };
        self.port_index(landing.node, number)
    }

    pub fn node_info(&self, landing: Landing) -> NodeInfo {
        let mut info = NodeInfo::new();
        let Some(node) = self.nodes.get(landing.node as usize) else {
            return info;
        };
        info.set_base_version(1)
            .set_class_version(1)
            .set_node_type(match node.kind {
                NodeKind::Switch => NodeType::Switch,
                NodeKind::Router => NodeType::Router,
                _ => NodeType::Ca,
            })
            .set_num_ports(node.num_ports)
            .set_system_image_guid(node.system_guid)
            .set_node_guid(node.guid)
            .set_port_guid(
                self.end_port(landing.node, landing.port)
                    .map_or(node.guid, |p| p.guid),
            )
            .set_partition_cap(32)
            .set_device_id(node.device)
            .set_revision(0)
            .set_local_port(landing.port)
            .set_vendor_id(node.vendor);
        info
    }

    pub fn switch_info(&self, node: &Node) -> SwitchInfo {
        let mut info = SwitchInfo::new();
        info.set_linear_fdb_cap(0xC000)
            .set_multicast_fdb_cap(0x1000)
            .set_linear_fdb_top(self.routes.top())
            .set_life_time(18)
            .set_port_state_change(node.port_state_change)
            .set_partition_enforcement_cap(32)
            .set_enhanced_port0(node.enhanced_port0)
            .set_multicast_fdb_top(0xBFFF);
        info
    }

    pub fn pkey_table(&self, node: u32, block: u16) -> PKeyTable {
        let mut table = PKeyTable::new();
        if block == 0 {
            let mut pkeys = [0; 32];
            let others = match node == self.local.0 {
                true => self.options.pkeys.as_slice(),
                false => &[],
            };
            let keys = std::iter::once(self.default_pkey(node)).chain(others.iter().copied());
            for (at, key) in pkeys.iter_mut().zip(keys) {
                *at = key;
            }
            table.set_pkeys(pkeys);
        }
        table
    }

    fn default_pkey(&self, node: u32) -> u16 {
        if self.is_limited(node) {
            0x7FFF
        } else {
            0xFFFF
        }
    }

    /// The P_Key table of our port.
    pub fn local_pkeys(&self) -> impl Iterator<Item = u16> {
        let first = self.default_pkey(self.local.0);
        std::iter::once(first).chain(self.options.pkeys.iter().copied())
    }

    /// In a partition of limited members, only the SM's node and switches are full ones.
    pub fn is_limited(&self, node: u32) -> bool {
        self.options.limited_pkey
            && self
                .nodes
                .get(node as usize)
                .is_some_and(|n| n.kind != NodeKind::Switch)
            && self.sm.master_node() != Some(node)
    }

    pub fn forwarding_block(&mut self, node: u32, block: u32) -> Option<LinearForwardingTable> {
        let switch = self.nodes.get(node as usize)?.switch;
        let first = block.checked_mul(64).filter(|l| *l < 0xC000)?;
        let mut ports = [super::route::NO_ROUTE; 64];
        for (lid, port) in (first as u16..).zip(ports.iter_mut()) {
            *port = self.routes.next(switch, lid);
        }
        let mut table = LinearForwardingTable::new();
        table.set_ports(ports);
        Some(table)
    }

    /// PortInfo of a node's port as asked through another one of its ports.
    pub fn port_info(&self, landing: Landing, number: u8, m_key: u64) -> Option<PortInfo> {
        let index = self.asked_port(landing, number)?;
        let port = self.ports.get(index as usize)?;
        let node = self.nodes.get(port.node as usize)?;
        let switch = node.kind == NodeKind::Switch;
        let mut info = PortInfo::new();
        // A switch keeps what concerns the node at its port 0.
        if !switch || port.number == 0 {
            self.fill_end_port(&mut info, node, port, m_key);
        }
        info.set_local_port(landing.port);
        let inner = switch && port.number == 0;
        self.fill_link(&mut info, node, port, inner);
        Some(info)
    }

    fn fill_end_port(&self, info: &mut PortInfo, node: &Node, port: &Port, m_key: u64) {
        let (mut caps, caps2) = node.generation.port_caps(node.kind);
        if self.sm.runs_at(port.node) {
            caps = caps | PortCaps::IS_SM;
        }
        let shown = node.m_key == m_key || node.protect == 0;
        info.set_m_key(if shown { node.m_key } else { 0 })
            .set_m_key_protect(node.protect)
            .set_m_key_lease_period(node.lease)
            .set_gid_prefix(GID_PREFIX)
            .set_lid(port.lid)
            .set_lmc(port.lmc)
            .set_sm_lid(if port.lid == 0 { 0 } else { self.sm.lid() })
            .set_cap_mask(caps)
            .set_m_key_violations(port.m_key_violations)
            .set_p_key_violations(port.p_key_violations)
            .set_guid_cap(if node.kind == NodeKind::Switch { 1 } else { 8 })
            .set_subnet_timeout(18)
            .set_resp_time_value(16);
        if caps.has(PortCaps::CAP_MASK2) {
            info.set_cap_mask2(caps2);
        }
    }

    fn fill_link(&self, info: &mut PortInfo, node: &Node, port: &Port, inner: bool) {
        let (basic, ext, ext2, _) = speed_masks(port.best);
        let xdr = node
            .generation
            .port_caps(node.kind)
            .1
            .has(PortCaps2::EXT_SPEEDS2);
        info.set_link_width_supported(LinkWidths(port.widths))
            .set_link_width_enabled(LinkWidths(port.widths))
            .set_link_speed_supported(LinkSpeeds(basic))
            .set_link_speed_enabled(LinkSpeeds(basic))
            .set_link_speed_ext_supported(LinkSpeedsExt(ext))
            .set_link_speed_ext_enabled(LinkSpeedsExt(ext))
            .set_link_down_default(PhysState::Polling)
            .set_port_state(PortState::new(port.state))
            .set_phys_state(PhysState::new(port.phys))
            .set_mtu_cap(Mtu::B4096)
            .set_vl_cap(Vls::Vl0To3)
            .set_vl_arb_high_cap(8)
            .set_vl_arb_low_cap(8)
            .set_hoq_life(18)
            .set_local_phy_errors(8)
            .set_overrun_errors(8);
        if xdr {
            info.set_link_speed_ext_supported2(LinkSpeedsExt2(ext2))
                .set_link_speed_ext_enabled2(LinkSpeedsExt2(ext2));
        }
        if port.phys != LINK_UP && !inner {
            // What real ports leave there while they are down.
            info.set_link_width_active(LinkWidth::X4)
                .set_link_speed_active(SpeedCode::Sdr);
            return;
        }
        let (basic, ext, ext2, _) = speed_codes(port.speed);
        info.set_link_width_active(port.width)
            .set_link_speed_active(SpeedCode::new(basic))
            .set_link_speed_ext_active(LinkSpeedExt::new(ext))
            .set_neighbor_mtu(port.mtu)
            .set_operational_vls(port.vls);
        if xdr {
            info.set_link_speed_ext_active2(LinkSpeedExt2::new(ext2));
        }
    }

    fn port_info_extended(&self, landing: Landing, number: u8) -> Option<PortInfoExtended> {
        let port = self.ports.get(self.asked_port(landing, number)? as usize)?;
        let node = self.nodes.get(port.node as usize)?;
        let (_, caps2) = node.generation.port_caps(node.kind);
        if !caps2.has(PortCaps2::PORT_INFO_EXTENDED) {
            return None;
        }
        let mut info = PortInfoExtended::new();
        info.set_cap_mask(1);
        let fastest = node.generation.speed();
        info.set_fdr_fec_supported(1).set_fdr_fec_enabled(1);
        info.set_edr_fec_supported(2).set_edr_fec_enabled(2);
        if fastest >= LinkSpeed::Hdr {
            info.set_hdr_fec_supported(2).set_hdr_fec_enabled(2);
        }
        if fastest >= LinkSpeed::Ndr {
            info.set_ndr_fec_supported(2).set_ndr_fec_enabled(2);
        }
        if port.is_up() {
            info.set_fec_mode_active(match port.speed {
                LinkSpeed::Fdr => FecMode::FireCode,
                s if s >= LinkSpeed::Edr => FecMode::Rs,
                _ => FecMode::None,
            });
        }
        Some(info)
    }

    fn mlnx_port_info(&self, landing: Landing, number: u8) -> Option<MlnxExtPortInfo> {
        let port = self.ports.get(self.asked_port(landing, number)? as usize)?;
        let node = self.nodes.get(port.node as usize)?;
        if node.vendor != VENDOR || node.generation < super::device::Generation::Fdr {
            return None;
        }
        let fdr10 = |yes: bool| MlnxSpeeds(u8::from(yes));
        let mut info = MlnxExtPortInfo::new();
        info.set_speed_supported(fdr10(true))
            .set_speed_enabled(fdr10(true))
            .set_speed_active(fdr10(port.is_up() && port.speed == LinkSpeed::Fdr10));
        Some(info)
    }
}
