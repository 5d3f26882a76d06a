//! What a node's performance management agent answers.

use super::counters::{ALL, Set};
use super::device::Generation;
use super::flight::{Verdict, finish, finish_with};
use super::script::Counter;
use super::world::{Landing, World};
use crate::fabric::{LinkSpeed, NodeKind};
use crate::mad::{
    Attribute, ClassCaps, ClassCaps2, ClassPortInfo, Mad, Method, PortCounters,
    PortCountersExtended, PortExtendedSpeeds, PortExtendedSpeedsRsFec, PortFlowCtlCounters,
    PortRcvConCtrl, PortRcvDataSl, PortRcvErrorDetails, PortSamplesControl, PortVlXmitWait,
    PortXmitConCtrl, PortXmitDataSl, PortXmitDiscardDetails, Status, SwPortVlCongestion,
};
use crate::port::QP1_QKEY;

/// PortSelect for all ports at once.
const ALL_PORTS: u8 = 255;

/// The counters that one question is about: one port's, or the sum over all ports.
struct Asked {
    ports: std::ops::Range<u32>,
}

impl Asked {
    fn count(&self, world: &World, counter: Counter, set: Set) -> u64 {
        self.ports
            .clone()
            .map(|p| world.count(p, counter, set))
            .fold(0, u64::saturating_add)
    }
}

fn cut(value: u64, most: u64) -> u64 {
    value.min(most)
}

impl World {
    pub fn answer_perf(
        &mut self,
        landing: Landing,
        lid: u16,
        pkey_index: u16,
        mad: &mut Mad,
    ) -> Verdict {
        let (method, id) = (mad.method(), mad.attr_id());
        if method.is_response() {
            return Verdict::Silence;
        }
        if !matches!(method, Method::Get | Method::Set) {
            return finish(mad, Status::UNSUPPORTED_METHOD);
        }
        let Some(node) = self.nodes.get(landing.node as usize) else {
            return Verdict::Silence;
        };
        // Two limited members of a partition may not talk to each other.
        if landing.hops > 0 && self.is_limited(self.local.0) && self.is_limited(landing.node) {
            return self.refuse_pkey(landing);
        }
        let (generation, kind) = (node.generation, node.kind);
        let caps = generation.perf_caps(kind);
        if let Some((to, pkey)) = node.redirect
            && to == lid
        {
            let own = self.local_pkeys().nth(usize::from(pkey_index));
            let same = |own: u16| (own ^ pkey) & 0x7FFF == 0 && (own | pkey) & 0x8000 != 0;
            if !own.is_some_and(same) {
                return self.refuse_pkey(landing);
            }
        } else if let Some((to, pkey)) = node.redirect {
            let mut info = class_port_info(caps);
            info.set_redirect_lid(to)
                .set_redirect_pkey(pkey)
                .set_redirect_qp(1)
                .set_redirect_qkey(QP1_QKEY);
            mad.set_data(&info);
            return finish(mad, Status::REDIRECT);
        }
        if id == ClassPortInfo::ID {
            if method == Method::Set {
                return finish(mad, Status::OK);
            }
            return finish_with(mad, &class_port_info(caps));
        }
        let select = mad.data().get(1).copied().unwrap_or(0);
        let Some(asked) = self.asked(landing, select, caps.0) else {
            return finish(mad, Status::BAD_VALUE);
        };
        if method == Method::Set {
            match id {
                PortCounters::ID => self.write_narrow(&asked, mad),
                PortCountersExtended::ID if wide(caps.0) => self.write_wide(&asked, mad),
                PortSamplesControl::ID => {}
                _ => return finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
            }
        }
        match id {
            PortCounters::ID => finish_with(mad, &self.port_counters(&asked, select, caps)),
            PortCountersExtended::ID if wide(caps.0) => {
                finish_with(mad, &self.port_counters_extended(&asked, select, caps))
            }
            PortSamplesControl::ID => {
                let mut control = PortSamplesControl::new();
                control.set_port_select(select).set_tick(0);
                finish_with(mad, &control)
            }
            PortRcvErrorDetails::ID if generation >= Generation::Fdr => {
                let errors = asked.count(self, Counter::RcvErrors, Set::Narrow);
                let overrun = asked.count(self, Counter::ExcessiveBufferOverrunErrors, Set::Narrow);
                let mut details = PortRcvErrorDetails::new();
                details
                    .set_port_select(select)
                    .set_local_physical(cut(errors, 0xFFFF) as u16)
                    .set_buffer_overrun(cut(overrun, 0xFFFF) as u16);
                finish_with(mad, &details)
            }
            PortXmitDiscardDetails::ID if generation >= Generation::Fdr => {
                let discards = asked.count(self, Counter::XmitDiscards, Set::Narrow);
                let mut details = PortXmitDiscardDetails::new();
                details
                    .set_port_select(select)
                    .set_inactive(cut(discards.div_ceil(4), 0xFFFF) as u16)
                    .set_sw_hoq_lifetime_limit(cut(discards - discards.div_ceil(4), 0xFFFF) as u16);
                finish_with(mad, &details)
            }
            PortFlowCtlCounters::ID if generation >= Generation::Edr => {
                let mut counters = PortFlowCtlCounters::new();
                let sent = asked.count(self, Counter::XmitPkts, Set::Narrow) / 3;
                let received = asked.count(self, Counter::RcvPkts, Set::Narrow) / 3;
                counters
                    .set_port_select(select)
                    .set_xmit_flow_pkts(cut(sent, 0xFFFF_FFFF) as u32)
                    .set_rcv_flow_pkts(cut(received, 0xFFFF_FFFF) as u32);
                finish_with(mad, &counters)
            }
            PortVlXmitWait::ID if generation >= Generation::Fdr => {
                let mut counters = PortVlXmitWait::new();
                let mut vls = [0; 16];
                if let Some(vl0) = vls.first_mut() {
                    *vl0 = cut(asked.count(self, Counter::XmitWait, Set::Narrow), 0xFFFF) as u16;
                }
                counters.set_port_select(select).set_wait(vls);
                finish_with(mad, &counters)
            }
            // Congestion control is off in this fabric: it has the counters, and they are 0.
            PortRcvConCtrl::ID if generation >= Generation::Edr => {
                let mut counters = PortRcvConCtrl::new();
                counters.set_port_select(select);
                finish_with(mad, &counters)
            }
            PortXmitConCtrl::ID if generation >= Generation::Edr => {
                let mut counters = PortXmitConCtrl::new();
                counters.set_port_select(select);
                finish_with(mad, &counters)
            }
            SwPortVlCongestion::ID if generation >= Generation::Edr && kind == NodeKind::Switch => {
                let mut counters = SwPortVlCongestion::new();
                counters.set_port_select(select);
                finish_with(mad, &counters)
            }
            PortXmitDataSl::ID if generation >= Generation::Fdr => {
                let mut counters = PortXmitDataSl::new();
                let sl0 = asked.count(self, Counter::XmitData, Set::Narrow);
                counters.set_port_select(select).set_data(first(sl0));
                finish_with(mad, &counters)
            }
            PortRcvDataSl::ID if generation >= Generation::Fdr => {
                let mut counters = PortRcvDataSl::new();
                let sl0 = asked.count(self, Counter::RcvData, Set::Narrow);
                counters.set_port_select(select).set_data(first(sl0));
                finish_with(mad, &counters)
            }
            PortExtendedSpeeds::ID if generation >= Generation::Fdr => {
                finish_with(mad, &self.extended_speeds(&asked, select))
            }
            _ => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
        }
    }

    /// Which ports a PortSelect means. Port 0 of a switch has counters only if it is an
    /// enhanced one.
    fn asked(&self, landing: Landing, select: u8, caps: ClassCaps) -> Option<Asked> {
        let node = self.nodes.get(landing.node as usize)?;
        let first = node.first;
        if select == ALL_PORTS {
            let all = first + 1..first + 1 + u32::from(node.num_ports);
            return caps
                .has(ClassCaps::ALL_PORT_SELECT)
                .then_some(Asked { ports: all });
        }
        let has_zero = node.kind == NodeKind::Switch && node.enhanced_port0;
        if select > node.num_ports || select == 0 && !has_zero {
            return None;
        }
        let at = first + u32::from(select);
        Some(Asked { ports: at..at + 1 })
    }

    fn port_counters(
        &self,
        asked: &Asked,
        select: u8,
        (caps, _): (ClassCaps, ClassCaps2),
    ) -> PortCounters {
        let get = |counter, most: u64| cut(asked.count(self, counter, Set::Narrow), most);
        let mut c = PortCounters::new();
        c.set_port_select(select)
            .set_symbol_error(get(Counter::SymbolError, 0xFFFF) as u16)
            .set_link_error_recovery(get(Counter::LinkErrorRecovery, 0xFF) as u8)
            .set_link_downed(get(Counter::LinkDowned, 0xFF) as u8)
            .set_rcv_errors(get(Counter::RcvErrors, 0xFFFF) as u16)
            .set_rcv_remote_physical_errors(get(Counter::RcvRemotePhysicalErrors, 0xFFFF) as u16)
            .set_rcv_switch_relay_errors(get(Counter::RcvSwitchRelayErrors, 0xFFFF) as u16)
            .set_xmit_discards(get(Counter::XmitDiscards, 0xFFFF) as u16)
            .set_xmit_constraint_errors(get(Counter::XmitConstraintErrors, 0xFF) as u8)
            .set_rcv_constraint_errors(get(Counter::RcvConstraintErrors, 0xFF) as u8)
            .set_local_link_integrity(get(Counter::LocalLinkIntegrityErrors, 0xF) as u8)
            .set_excessive_buffer_overrun(get(Counter::ExcessiveBufferOverrunErrors, 0xF) as u8)
            .set_vl15_dropped(get(Counter::Vl15Dropped, 0xFFFF) as u16)
            .set_xmit_data(get(Counter::XmitData, 0xFFFF_FFFF) as u32)
            .set_rcv_data(get(Counter::RcvData, 0xFFFF_FFFF) as u32)
            .set_xmit_pkts(get(Counter::XmitPkts, 0xFFFF_FFFF) as u32)
            .set_rcv_pkts(get(Counter::RcvPkts, 0xFFFF_FFFF) as u32);
        if caps.has(ClassCaps::QP1_DROPPED) {
            c.set_qp1_dropped(get(Counter::Qp1Dropped, 0xFFFF) as u16);
        }
        if caps.has(ClassCaps::XMIT_WAIT) {
            c.set_xmit_wait(get(Counter::XmitWait, 0xFFFF_FFFF) as u32);
        }
        c
    }

    fn port_counters_extended(
        &self,
        asked: &Asked,
        select: u8,
        (caps, caps2): (ClassCaps, ClassCaps2),
    ) -> PortCountersExtended {
        let get = |counter| asked.count(self, counter, Set::Wide);
        let mut c = PortCountersExtended::new();
        let (sent, received) = (get(Counter::XmitPkts), get(Counter::RcvPkts));
        c.set_port_select(select)
            .set_xmit_data(get(Counter::XmitData))
            .set_rcv_data(get(Counter::RcvData))
            .set_xmit_pkts(sent)
            .set_rcv_pkts(received);
        if caps.has(ClassCaps::EXT_WIDTH) {
            let out = get(Counter::MulticastXmitPkts);
            let inward = get(Counter::MulticastRcvPkts);
            c.set_multicast_xmit_pkts(out)
                .set_multicast_rcv_pkts(inward)
                .set_unicast_xmit_pkts(sent.saturating_sub(out))
                .set_unicast_rcv_pkts(received.saturating_sub(inward));
        }
        if caps2.has(ClassCaps2::ADDITIONAL_EXT) {
            c.set_symbol_error(get(Counter::SymbolError))
                .set_link_error_recovery(get(Counter::LinkErrorRecovery))
                .set_link_downed(get(Counter::LinkDowned))
                .set_rcv_errors(get(Counter::RcvErrors))
                .set_rcv_remote_physical_errors(get(Counter::RcvRemotePhysicalErrors))
                .set_rcv_switch_relay_errors(get(Counter::RcvSwitchRelayErrors))
                .set_xmit_discards(get(Counter::XmitDiscards))
                .set_xmit_constraint_errors(get(Counter::XmitConstraintErrors))
                .set_rcv_constraint_errors(get(Counter::RcvConstraintErrors))
                .set_local_link_integrity(get(Counter::LocalLinkIntegrityErrors))
                .set_excessive_buffer_overrun(get(Counter::ExcessiveBufferOverrunErrors))
                .set_vl15_dropped(get(Counter::Vl15Dropped))
                .set_xmit_wait(get(Counter::XmitWait))
                .set_qp1_dropped(get(Counter::Qp1Dropped));
        }
        c
    }

    /// With RS-FEC, symbols by lane; without, blocks by port alone.
    fn extended_speeds(&self, asked: &Asked, select: u8) -> PortExtendedSpeedsRsFec {
        let mut c = PortExtendedSpeedsRsFec::new();
        let get = |counter| cut(asked.count(self, counter, Set::Narrow), 0xFFFF_FFFF) as u32;
        let blocks = get(Counter::FecCorrectable);
        c.set_port_select(select)
            .set_correctable_blocks(blocks)
            .set_uncorrectable_blocks(get(Counter::FecUncorrectable));
        let port = self.ports.get(asked.ports.start as usize);
        if let Some(port) = port.filter(|p| p.speed >= LinkSpeed::Hdr) {
            // A repaired block has one wrong symbol as a rule, and one in 16 has two.
            let symbols = u64::from(blocks) + u64::from(blocks) / 16;
            let symbols = cut(symbols, 0xFFFF_FFFF) as u32;
            let lanes = u32::from(port.width.lanes().unwrap_or(1).clamp(1, 12));
            let mut by_lane = [0; 12];
            for (lane, count) in (0..lanes).zip(&mut by_lane) {
                // Evenly, what is left over on the first.
                *count = symbols / lanes + if lane == 0 { symbols % lanes } else { 0 };
            }
            c.set_corrected_symbols(symbols)
                .set_fec_correctable_symbols(by_lane);
        }
        c
    }

    /// Set(PortCounters): the selected counters take the given values.
    fn write_narrow(&mut self, asked: &Asked, mad: &Mad) {
        let Ok(wish) = PortCounters::from_bytes(mad.data()) else {
            return;
        };
        // The bits of CounterSelect in their order (spec 16.1.3.5).
        let values: [(Counter, u64); 16] = [
            (Counter::SymbolError, wish.symbol_error().into()),
            (
                Counter::LinkErrorRecovery,
                wish.link_error_recovery().into(),
            ),
            (Counter::LinkDowned, wish.link_downed().into()),
            (Counter::RcvErrors, wish.rcv_errors().into()),
            (
                Counter::RcvRemotePhysicalErrors,
                wish.rcv_remote_physical_errors().into(),
            ),
            (
                Counter::RcvSwitchRelayErrors,
                wish.rcv_switch_relay_errors().into(),
            ),
            (Counter::XmitDiscards, wish.xmit_discards().into()),
            (
                Counter::XmitConstraintErrors,
                wish.xmit_constraint_errors().into(),
            ),
            (
                Counter::RcvConstraintErrors,
                wish.rcv_constraint_errors().into(),
            ),
            (
                Counter::LocalLinkIntegrityErrors,
                wish.local_link_integrity().into(),
            ),
            (
                Counter::ExcessiveBufferOverrunErrors,
                wish.excessive_buffer_overrun().into(),
            ),
            (Counter::Vl15Dropped, wish.vl15_dropped().into()),
            (Counter::XmitData, wish.xmit_data().into()),
            (Counter::RcvData, wish.rcv_data().into()),
            (Counter::XmitPkts, wish.xmit_pkts().into()),
            (Counter::RcvPkts, wish.rcv_pkts().into()),
        ];
        for port in asked.ports.clone() {
            for (bit, (counter, value)) in values.iter().enumerate() {
                if wish.counter_select() >> bit & 1 != 0 {
                    self.write_counter(port, *counter, Set::Narrow, *value);
                }
            }
            if wish.counter_select2() & 1 != 0 {
                let wait = wish.xmit_wait().into();
                self.write_counter(port, Counter::XmitWait, Set::Narrow, wait);
            }
        }
    }

    /// Set(PortCountersExtended): the selected counters take the given values.
    fn write_wide(&mut self, asked: &Asked, mad: &Mad) {
        let Ok(wish) = PortCountersExtended::from_bytes(mad.data()) else {
            return;
        };
        let data = [
            (0, Counter::XmitData, wish.xmit_data()),
            (1, Counter::RcvData, wish.rcv_data()),
            (2, Counter::XmitPkts, wish.xmit_pkts()),
            (3, Counter::RcvPkts, wish.rcv_pkts()),
            (6, Counter::MulticastXmitPkts, wish.multicast_xmit_pkts()),
            (7, Counter::MulticastRcvPkts, wish.multicast_rcv_pkts()),
        ];
        // CounterSelect2 goes by the order of the fields.
        let errors = [
            (Counter::SymbolError, wish.symbol_error()),
            (Counter::LinkErrorRecovery, wish.link_error_recovery()),
            (Counter::LinkDowned, wish.link_downed()),
            (Counter::RcvErrors, wish.rcv_errors()),
            (
                Counter::RcvRemotePhysicalErrors,
                wish.rcv_remote_physical_errors(),
            ),
            (
                Counter::RcvSwitchRelayErrors,
                wish.rcv_switch_relay_errors(),
            ),
            (Counter::XmitDiscards, wish.xmit_discards()),
            (Counter::XmitConstraintErrors, wish.xmit_constraint_errors()),
            (Counter::RcvConstraintErrors, wish.rcv_constraint_errors()),
            (
                Counter::LocalLinkIntegrityErrors,
                wish.local_link_integrity(),
            ),
            (
                Counter::ExcessiveBufferOverrunErrors,
                wish.excessive_buffer_overrun(),
            ),
            (Counter::Vl15Dropped, wish.vl15_dropped()),
            (Counter::XmitWait, wish.xmit_wait()),
            (Counter::Qp1Dropped, wish.qp1_dropped()),
        ];
        for port in asked.ports.clone() {
            for (bit, counter, value) in data {
                if wish.counter_select() >> bit & 1 != 0 {
                    self.write_counter(port, counter, Set::Wide, value);
                }
            }
            for (bit, (counter, value)) in errors.iter().enumerate() {
                if wish.counter_select2() >> bit & 1 != 0 {
                    self.write_counter(port, *counter, Set::Wide, *value);
                }
            }
        }
    }

    /// Somebody resets everything that a port counts.
    pub fn reset_counters(&mut self, port: u32) {
        for counter in ALL {
            self.write_counter(port, counter, Set::Narrow, 0);
            self.write_counter(port, counter, Set::Wide, 0);
        }
    }

    fn refuse_pkey(&mut self, landing: Landing) -> Verdict {
        if let Some(index) = self.port_index(landing.node, landing.port)
            && let Some(port) = self.ports.get_mut(index as usize)
        {
            port.p_key_violations = port.p_key_violations.saturating_add(1);
        }
        self.send_trap(landing.node, landing.port, 257);
        Verdict::Silence
    }
}

fn wide(caps: ClassCaps) -> bool {
    caps.has(ClassCaps::EXT_WIDTH) || caps.has(ClassCaps::EXT_WIDTH_NO_IETF)
}

/// All of it on service level 0.
fn first(value: u64) -> [u32; 16] {
    let mut values = [0; 16];
    if let Some(first) = values.first_mut() {
        *first = cut(value, 0xFFFF_FFFF) as u32;
    }
    values
}

fn class_port_info((caps, caps2): (ClassCaps, ClassCaps2)) -> ClassPortInfo {
    let mut info = ClassPortInfo::new();
    info.set_base_version(1)
        .set_class_version(1)
        .set_cap_mask(caps)
        .set_cap_mask2(caps2)
        // 4.096 µs · 2^8: one millisecond.
        .set_resp_time_value(8);
    info
}
