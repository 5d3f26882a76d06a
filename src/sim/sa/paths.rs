//! PathRecords: made on demand from the forwarding tables.

use crate::fabric::{LinkSpeed, LinkWidth, NodeKind};
use crate::mad::{Attribute, Gid, Mad, Method, Mtu, PathRecord, Rate, Selector, component};
use crate::sim::sma::GID_PREFIX;
use crate::sim::world::{NONE, World};

impl World {
    pub(super) fn path_records(&mut self, query: &Mad, give: &mut dyn FnMut(PathRecord)) {
        let Ok(wish) = PathRecord::from_bytes(query.data()) else {
            return;
        };
        let mask = query.component_mask();
        let has = |bits: u64| mask & bits != 0;
        // Paths are reversible, of the default partition and of service level 0.
        if has(component::PATH_PKEY) && wish.pkey() & 0x7FFF != 0x7FFF
            || has(component::PATH_SL) && wish.sl() != 0
        {
            return;
        }
        let from = self.path_ends(
            has(component::PATH_SGID).then(|| wish.sgid()),
            has(component::PATH_SLID).then(|| wish.slid()),
        );
        let to = self.path_ends(
            has(component::PATH_DGID).then(|| wish.dgid()),
            has(component::PATH_DLID).then(|| wish.dlid()),
        );
        let all = |world: &World| -> Vec<(u32, u16)> {
            (0u32..)
                .zip(&world.ports)
                .filter(|(_, p)| p.lid != 0 && p.is_up())
                .map(|(i, p)| (i, p.lid))
                .collect()
        };
        // A query that names no source asks for paths from us, as nobody wants all pairs.
        let from = from.unwrap_or_else(|| {
            self.end_port(self.local.0, self.local_number())
                .and_then(|p| Some((self.port_index(p.node, p.number)?, p.lid)))
                .into_iter()
                .collect()
        });
        let to = to.unwrap_or_else(|| all(self));
        let single = query.method() == Method::Get;
        for &(source, slid) in &from {
            for &(target, dlid) in &to {
                if let Some(record) = self.path(source, slid, target, dlid) {
                    give(record);
                    if single {
                        return;
                    }
                }
            }
        }
    }

    /// The ports that a GID and LID name; `None` if the query names neither.
    fn path_ends(&self, gid: Option<Gid>, lid: Option<u16>) -> Option<Vec<(u32, u16)>> {
        if gid.is_none() && lid.is_none() {
            return None;
        }
        let by_gid = |gid: Gid| {
            (0u32..)
                .zip(&self.ports)
                .find(|(_, p)| p.lid != 0 && Gid::new(GID_PREFIX, p.guid) == gid)
                .map(|(i, p)| (i, p.lid))
        };
        let found = match (gid, lid) {
            (gid, Some(lid)) => self
                .by_lid
                .get(usize::from(lid))
                .filter(|p| **p != NONE)
                .map(|p| (*p, lid))
                .filter(|found| gid.is_none_or(|g| by_gid(g).map(|b| b.0) == Some(found.0))),
            (Some(gid), None) => by_gid(gid),
            (None, None) => None,
        };
        Some(found.into_iter().collect())
    }

    fn path(&mut self, source: u32, slid: u16, target: u32, dlid: u16) -> Option<PathRecord> {
        let mut links = Vec::new();
        self.route(source, dlid, true, |port| links.push(port))?;
        let rates = links.iter().filter_map(|p| self.ports.get(*p as usize));
        let slowest = rates
            .map(|p| (p.width, p.speed))
            .min_by(|a, b| gbps(*a).total_cmp(&gbps(*b)));
        let guid = |port: u32| self.ports.get(port as usize).map_or(0, |p| p.guid);
        let is_switch = |port: u32| {
            self.ports
                .get(port as usize)
                .and_then(|p| self.nodes.get(p.node as usize))
                .is_some_and(|n| n.kind == NodeKind::Switch)
        };
        let mtu = if is_switch(source) && is_switch(target) {
            Mtu::B2048
        } else {
            Mtu::B4096
        };
        let mut record = PathRecord::new();
        record
            .set_dgid(Gid::new(GID_PREFIX, guid(target)))
            .set_sgid(Gid::new(GID_PREFIX, guid(source)))
            .set_dlid(dlid)
            .set_slid(slid)
            .set_reversible(true)
            .set_numb_path(1)
            .set_pkey(0xFFFF)
            .set_sl(0)
            .set_mtu_selector(Selector::Exactly)
            .set_mtu(mtu)
            .set_rate_selector(Selector::Exactly)
            .set_rate(slowest.map_or(Rate::G10, |(w, s)| rate(w, s)))
            .set_life_selector(Selector::Exactly)
            .set_life(18);
        Some(record)
    }
}

fn gbps((width, speed): (LinkWidth, LinkSpeed)) -> f64 {
    crate::fabric::effective_gbps(width, speed).unwrap_or(0.0)
}

/// The rate code of a link: signalled Gb/s.
fn rate(width: LinkWidth, speed: LinkSpeed) -> Rate {
    let lanes = width.lanes().unwrap_or(4);
    match (lanes, speed) {
        (1, LinkSpeed::Sdr) => Rate::G2_5,
        (1, LinkSpeed::Ddr) => Rate::G5,
        (1, LinkSpeed::Qdr | LinkSpeed::Fdr10) | (4, LinkSpeed::Sdr) => Rate::G10,
        (1, LinkSpeed::Fdr) => Rate::G14,
        (1, LinkSpeed::Edr) => Rate::G25,
        (1, LinkSpeed::Hdr) | (2, LinkSpeed::Edr) => Rate::G50,
        (1, LinkSpeed::Ndr) | (2, LinkSpeed::Hdr) | (4, LinkSpeed::Edr) => Rate::G100,
        (2, LinkSpeed::Fdr) => Rate::G28,
        (4, LinkSpeed::Ddr) => Rate::G20,
        (4, LinkSpeed::Qdr | LinkSpeed::Fdr10) => Rate::G40,
        (4, LinkSpeed::Fdr) => Rate::G56,
        (4, LinkSpeed::Hdr) | (2, LinkSpeed::Ndr) | (1, LinkSpeed::Xdr) => Rate::G200,
        (4, LinkSpeed::Ndr) | (2, LinkSpeed::Xdr) => Rate::G400,
        (4, LinkSpeed::Xdr) => Rate::G800,
        (12, LinkSpeed::Sdr) => Rate::G30,
        (12, LinkSpeed::Ddr) => Rate::G60,
        (12, LinkSpeed::Qdr | LinkSpeed::Fdr10) => Rate::G120,
        (12, LinkSpeed::Fdr) => Rate::G168,
        (12, LinkSpeed::Edr) => Rate::G300,
        (12, LinkSpeed::Hdr) => Rate::G600,
        (12, LinkSpeed::Ndr) => Rate::G1200,
        _ => Rate::G10,
    }
}
