//! The records of the SM's database: what could be reached at its last sweep.

use crate::fabric::NodeKind;
use crate::mad::{
    Gid, InformInfoRecord, JoinState, LftRecord, LinkRecord, Mad, McMemberRecord, Mtu,
    NodeDescription, NodeRecord, PKeyTableRecord, PortInfoRecord, Rate, Selector, ServiceRecord,
    SmInfoRecord, SwitchInfoRecord,
};
use crate::sim::sma::GID_PREFIX;
use crate::sim::world::{Landing, World};

/// The group that every port of a partition joins: IPoIB broadcast.
const BROADCAST: Gid = Gid([
    0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
]);
/// The service that a subnet administration registers for itself.
const SA_SERVICE: u64 = 0x0100_0000_0000_0002;

impl World {
    /// End ports with a LID whose link is up: node, port number, flat index.
    fn end_ports(&self) -> Vec<(u32, u8, u32)> {
        (0u32..)
            .zip(self.ports.iter().zip(&self.subnet))
            .filter(|(_, (p, reached))| p.lid != 0 && p.is_up() && **reached)
            .map(|(i, (p, _))| (p.node, p.number, i))
            .collect()
    }

    fn at(node: u32, port: u8) -> Landing {
        Landing {
            node,
            port,
            hops: 0,
        }
    }

    pub(super) fn node_records(&mut self, _: &Mad, give: &mut dyn FnMut(NodeRecord)) {
        for (node, port, index) in self.end_ports() {
            let mut record = NodeRecord::new();
            let mut text = NodeDescription::new();
            if let Some(n) = self.nodes.get(node as usize) {
                text.set_description(n.description);
            }
            record
                .set_lid(self.lid_of(index))
                .set_node_info(self.node_info(Self::at(node, port)))
                .set_description(text);
            give(record);
        }
    }

    pub(super) fn lid_of(&self, index: u32) -> u16 {
        self.ports.get(index as usize).map_or(0, |p| p.lid)
    }

    pub(super) fn port_records(&mut self, _: &Mad, give: &mut dyn FnMut(PortInfoRecord)) {
        for (node, number, index) in self.end_ports() {
            let switch = number == 0;
            let count = self
                .nodes
                .get(node as usize)
                .filter(|_| switch)
                .map_or(number, |n| n.num_ports);
            for port in number..=count {
                // The SM's keys let it read everything, but it shows no M_Key.
                if let Some(info) = self.port_info(Self::at(node, number), port, 0) {
                    let mut info = info;
                    info.set_m_key(0);
                    let mut record = PortInfoRecord::new();
                    record
                        .set_lid(self.lid_of(index))
                        .set_port(port)
                        .set_port_info(info);
                    give(record);
                }
            }
        }
    }

    pub(super) fn switch_records(&mut self, _: &Mad, give: &mut dyn FnMut(SwitchInfoRecord)) {
        for (node, port, index) in self.end_ports() {
            if let Some(n) = self.nodes.get(node as usize).filter(|_| port == 0) {
                let mut record = SwitchInfoRecord::new();
                record
                    .set_lid(self.lid_of(index))
                    .set_switch_info(self.switch_info(n));
                give(record);
            }
        }
    }

    pub(super) fn lft_records(&mut self, query: &Mad, give: &mut dyn FnMut(LftRecord)) {
        // Tables are large: make only those asked for.
        let wanted = LftRecordQuery::of(query);
        for (node, port, index) in self.end_ports() {
            let lid = self.lid_of(index);
            if port != 0 || wanted.lid.is_some_and(|l| l != lid) {
                continue;
            }
            for block in 0..=self.routes.top() / 64 {
                if wanted.block.is_some_and(|b| b != block) {
                    continue;
                }
                if let Some(table) = self.forwarding_block(node, u32::from(block)) {
                    let mut record = LftRecord::new();
                    record.set_lid(lid).set_block(block).set_table(table);
                    give(record);
                }
            }
        }
    }

    pub(super) fn sm_records(&mut self, _: &Mad, give: &mut dyn FnMut(SmInfoRecord)) {
        for instance in &self.sm.instances {
            let lid = self.lid_of(instance.port);
            if let Some(info) = self.sm.info_at(instance.node, self.now) {
                let mut record = SmInfoRecord::new();
                record.set_lid(lid).set_sm_info(info);
                give(record);
            }
        }
    }

    pub(super) fn link_records(&mut self, _: &Mad, give: &mut dyn FnMut(LinkRecord)) {
        for (port, reached) in self.ports.iter().zip(&self.subnet) {
            let up = port.is_up() && *reached;
            let Some(peer) = self.ports.get(port.peer as usize).filter(|_| up) else {
                continue;
            };
            let lid = |node, number| self.end_port(node, number).map_or(0, |p| p.lid);
            let mut record = LinkRecord::new();
            record
                .set_from_lid(lid(port.node, port.number))
                .set_from_port(port.number)
                .set_to_port(peer.number)
                .set_to_lid(lid(peer.node, peer.number));
            give(record);
        }
    }

    pub(super) fn service_records(&mut self, _: &Mad, give: &mut dyn FnMut(ServiceRecord)) {
        let Some(port) = self
            .sm
            .master
            .and_then(|m| self.sm.instances.get(m))
            .and_then(|i| self.ports.get(i.port as usize))
        else {
            return;
        };
        let mut name = [0; 64];
        for (to, from) in name.iter_mut().zip(b"SIMULATED.SA") {
            *to = *from;
        }
        let mut record = ServiceRecord::new();
        record
            .set_service_id(SA_SERVICE)
            .set_service_gid(Gid::new(GID_PREFIX, port.guid))
            .set_pkey(0xFFFF)
            .set_lease(u32::MAX)
            .set_service_name(name);
        give(record);
    }

    pub(super) fn pkey_records(&mut self, _: &Mad, give: &mut dyn FnMut(PKeyTableRecord)) {
        for (node, port, index) in self.end_ports() {
            let mut record = PKeyTableRecord::new();
            record
                .set_lid(self.lid_of(index))
                .set_port(port)
                .set_table(self.pkey_table(node, 0));
            give(record);
        }
    }

    pub(super) fn member_records(&mut self, _: &Mad, give: &mut dyn FnMut(McMemberRecord)) {
        for (node, _, index) in self.end_ports() {
            let Some(port) = self.ports.get(index as usize) else {
                continue;
            };
            if self
                .nodes
                .get(node as usize)
                .is_none_or(|n| n.kind == NodeKind::Switch)
            {
                continue;
            }
            let mut record = McMemberRecord::new();
            record
                .set_mgid(BROADCAST)
                .set_port_gid(Gid::new(GID_PREFIX, port.guid))
                .set_qkey(0x0B1B)
                .set_mlid(0xC000)
                .set_mtu_selector(Selector::Exactly)
                .set_mtu(Mtu::B2048)
                .set_pkey(0xFFFF)
                .set_rate_selector(Selector::Exactly)
                .set_rate(Rate::G10)
                .set_life_selector(Selector::Exactly)
                .set_life(18)
                .set_scope(2)
                .set_join_state(JoinState::FULL);
            give(record);
        }
    }

    pub(super) fn inform_records(&mut self, _: &Mad, give: &mut dyn FnMut(InformInfoRecord)) {
        for (number, s) in (0u16..).zip(&self.sm.subscriptions) {
            let mut record = InformInfoRecord::new();
            record
                .set_subscriber_gid(s.gid)
                .set_subscriber_enum(number)
                .set_inform_info(s.inform);
            give(record);
        }
    }
}

/// What a query for forwarding tables names.
struct LftRecordQuery {
    lid: Option<u16>,
    block: Option<u16>,
}

impl LftRecordQuery {
    fn of(query: &Mad) -> LftRecordQuery {
        use crate::mad::{Attribute, component};
        let mask = query.component_mask();
        let record = LftRecord::from_bytes(query.data()).unwrap_or_default();
        LftRecordQuery {
            lid: (mask & component::LFT_LID != 0).then(|| record.lid()),
            block: (mask & component::LFT_BLOCK != 0).then(|| record.block()),
        }
    }
}
