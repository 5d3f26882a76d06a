//! Subnet administration: the SM's database, asked by queries.

mod components;
mod paths;
mod records;

use super::flight::{Verdict, finish, nanos};
use super::sm::Subscription;
use super::sma::GID_PREFIX;
use super::world::{Landing, World};
use crate::mad::{
    Attribute, ClassPortInfo, Gid, InformInfo, InformInfoRecord, LftRecord, LinkRecord, Mad,
    McMemberRecord, Method, MgmtClass, NodeRecord, PKeyTableRecord, PathRecord, PortInfoRecord,
    SaStatus, ServiceRecord, SmInfoRecord, Status, SwitchInfoRecord, data_offset,
};
use components::Component;

/// Time that the SA takes for one record, ns.
const RECORD: u64 = 100;
/// Data bytes of an RMPP segment.
const SEGMENT: usize = 200;
/// No answer is larger than this.
const LARGEST: usize = 64 << 20;

impl World {
    pub fn answer_sa(&mut self, landing: Landing, mad: &mut Mad) -> Verdict {
        let (method, id) = (mad.method(), mad.attr_id());
        let here = self.sm.master_node() == Some(landing.node);
        if method == Method::ReportResp && here {
            self.acknowledged(mad.tid_low());
            return Verdict::Silence;
        }
        if method.is_response() || method == Method::Report {
            return Verdict::Silence;
        }
        if !here {
            // A kernel answers what no process of its host wants.
            return finish(mad, Status::UNSUPPORTED_ATTRIBUTE);
        }
        let key = mad.sm_key();
        if !self.sm_awake() || (key != 0 && key != self.options.sm_key) {
            return Verdict::Silence;
        }
        match (method, id) {
            (Method::Get, ClassPortInfo::ID) => {
                let mut info = ClassPortInfo::new();
                // Optional records, reports, and multipath are what opensm announces too.
                info.set_base_version(1)
                    .set_class_version(MgmtClass::SubnAdm.version())
                    .set_resp_time_value(14);
                super::flight::finish_with(mad, &info)
            }
            (Method::Set, InformInfo::ID) => self.subscribe(mad),
            (Method::Get | Method::GetTable, _) => self.query(mad),
            _ => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
        }
    }

    fn subscribe(&mut self, mad: &mut Mad) -> Verdict {
        let Ok(inform) = InformInfo::from_bytes(mad.data()) else {
            return Verdict::Silence;
        };
        let Some(port) = self.end_port(self.local.0, self.local_number()) else {
            return Verdict::Silence;
        };
        let (lid, gid) = (port.lid, Gid::new(GID_PREFIX, port.guid));
        // Two subscriptions are the same if all but the wish to have them is.
        let plain = |mut i: InformInfo| *i.set_subscribe(0).set_resp_time_value(0);
        self.sm
            .subscriptions
            .retain(|s| s.lid != lid || plain(s.inform) != plain(inform));
        match inform.subscribe() {
            0 => {}
            1 => self
                .sm
                .subscriptions
                .push(Subscription { lid, gid, inform }),
            _ => return finish(mad, Status::sa(SaStatus::BadRequest)),
        }
        finish(mad, Status::OK)
    }

    fn query(&mut self, mad: &mut Mad) -> Verdict {
        if mad.sm_key() == 0 && self.options.sa_trusts.contains(&mad.attr_id()) {
            return finish(mad, Status::sa(SaStatus::Denied));
        }
        match mad.attr_id() {
            NodeRecord::ID => self.reply(mad, components::NODE, World::node_records),
            PortInfoRecord::ID => self.reply(mad, components::PORT, World::port_records),
            SwitchInfoRecord::ID => self.reply(mad, components::SWITCH, World::switch_records),
            LftRecord::ID => self.reply(mad, components::LFT, World::lft_records),
            SmInfoRecord::ID => self.reply(mad, components::SM, World::sm_records),
            LinkRecord::ID => self.reply(mad, components::LINK, World::link_records),
            ServiceRecord::ID => self.reply(mad, components::SERVICE, World::service_records),
            PKeyTableRecord::ID => self.reply(mad, components::PKEY, World::pkey_records),
            McMemberRecord::ID => self.reply(mad, components::MEMBER, World::member_records),
            InformInfoRecord::ID => self.reply(mad, components::INFORM, World::inform_records),
            PathRecord::ID => self.reply(mad, &[], World::path_records),
            _ => finish(mad, Status::UNSUPPORTED_ATTRIBUTE),
        }
    }

    /// Answers with those records that agree with the query in every component it names.
    fn reply<R: Attribute>(
        &mut self,
        mad: &mut Mad,
        components: &[Component],
        make: fn(&mut World, &Mad, &mut dyn FnMut(R)),
    ) -> Verdict {
        let mask = mad.component_mask();
        let asked: Vec<Component> = components
            .iter()
            .enumerate()
            .filter(|(bit, _)| mask >> bit & 1 != 0)
            .map(|(_, c)| *c)
            .collect();
        let table = mad.method() == Method::GetTable;
        let most = LARGEST / R::LEN.max(1);
        let mut found: Vec<R> = Vec::new();
        let mut seen = 0u64;
        let query = mad.data().to_vec();
        let errs = self.options.sa_errs.clone();
        make(self, mad, &mut |record: R| {
            seen += 1;
            let record = with_errors(&errs, record);
            let fits = asked.iter().all(|c| c.agree(&query, record.bytes()));
            if fits && found.len() <= most {
                found.push(record);
            }
        });
        let time = seen * RECORD;
        if found.len() > most {
            return finish(mad, Status::sa(SaStatus::NoResources));
        }
        let data = match (table, found.as_slice()) {
            (true, records) => {
                let reply = Mad::reply_table(&mad.view(), records);
                let bytes = reply.bytes().len() - data_offset(MgmtClass::SubnAdm);
                *mad = reply;
                bytes
            }
            (false, [record]) => {
                mad.set_data(record);
                mad.set_attribute_offset((R::LEN.div_ceil(8)) as u16);
                finish(mad, Status::OK);
                R::LEN
            }
            (false, []) => {
                return finish(mad, Status::sa(SaStatus::NoRecords));
            }
            (false, _) => {
                return finish(mad, Status::sa(SaStatus::TooManyRecords));
            }
        };
        let segments = data.div_ceil(SEGMENT).saturating_sub(1) as u64;
        Verdict::Reply(time + segments * nanos(self.options.segment))
    }
}

/// A record with the bits that the SA has wrong.
fn with_errors<R: Attribute>(errs: &[(u16, u16, usize)], record: R) -> R {
    if errs.is_empty() {
        return record;
    }
    let mut bytes = record.bytes().to_vec();
    let lid = bytes.first_chunk().map(|lid| u16::from_be_bytes(*lid));
    for (id, of, byte) in errs {
        if let (true, Some(byte)) = (*id == R::ID && lid == Some(*of), bytes.get_mut(*byte)) {
            *byte ^= 1;
        }
    }
    R::from_bytes(&bytes).unwrap_or(record)
}
