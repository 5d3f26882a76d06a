//! Subnet administration: queries, tables, subscriptions.

use super::*;
use crate::mad::{
    Gid, InformInfo, InformInfoRecord, LftRecord, LinkRecord, McMemberRecord, NodeRecord, Notice,
    PathRecord, PortInfoRecord, ReportedNotice, SaStatus, ServiceRecord, SmInfoRecord, Status,
    component, records,
};
use std::time::Duration;

impl Client {
    fn sa(&mut self, method: Method, id: u16, mask: u64, fill: &[u8]) -> Mad {
        let tid = self.tid();
        let mut mad = Mad::sa(method, id, 0, mask, tid);
        mad.set_data_bytes(fill);
        let lid = self.port.local(self.now).unwrap().sm_lid;
        self.ask(Address::gmp(lid, 0, 0), mad).expect("no answer")
    }

    fn table<R: Attribute>(&mut self, mask: u64, query: &R) -> Vec<R> {
        let reply = self.sa(Method::GetTable, R::ID, mask, query.bytes());
        assert!(reply.status().is_ok(), "{reply}");
        records(&reply.view()).collect()
    }

    pub fn subscribe(&mut self, on: bool) {
        let inform = InformInfo::all_generic(on);
        let reply = self.sa(Method::Set, InformInfo::ID, 0, inform.bytes());
        assert!(reply.status().is_ok());
    }

    /// The notices that came in reports, which are acknowledged.
    pub fn notices(&mut self) -> Vec<Notice> {
        let reports: Vec<Mad> = std::mem::take(&mut self.unasked);
        let sm_lid = self.port.local(self.now).unwrap().sm_lid;
        reports
            .iter()
            .map(|mad| {
                assert_eq!(mad.method(), Method::Report);
                let out = Outgoing {
                    addr: Address::gmp(sm_lid, 0, 0),
                    mad: Mad::report_resp(&mad.view()),
                    timeout_ms: 0,
                };
                self.port.send(self.now, &out).unwrap();
                ReportedNotice::from_bytes(mad.data()).unwrap().notice()
            })
            .collect()
    }
}

#[test]
fn a_table_comes_as_the_kernel_reassembles_it() {
    let mut client = Client::healthy(default_fabric());
    let reply = client.sa(Method::GetTable, NodeRecord::ID, 0, &[]);
    let bytes = reply.bytes();
    // 80 nodes, one of them with two ports; 112 bytes each (108, to the next multiple of 8).
    assert_eq!(bytes.len(), 56 + 81 * 112);
    assert_eq!(u16::from_be_bytes([bytes[44], bytes[45]]), 14);
    // RMPP version 1, type DATA, flags active and first, status 0, segment 1.
    assert_eq!(&bytes[24..26], &[1, 1]);
    assert_eq!((bytes[26] & 7, bytes[27]), (3, 0));
    assert_eq!(&bytes[28..32], &[0, 0, 0, 1]);
    // PayloadLength: the data and 20 bytes of SA header in each of 46 segments of 200 bytes.
    let payload = u32::from_be_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]);
    assert_eq!(payload, 81 * 112 + 46 * 20);
    // A short table is shorter than a MAD.
    let mut query = SmInfoRecord::new();
    query.set_lid(client.lid_of("mgmt2", 1));
    let reply = client.sa(
        Method::GetTable,
        SmInfoRecord::ID,
        component::SM_LID,
        query.bytes(),
    );
    assert_eq!((reply.len(), reply.bytes()[26] & 7), (56 + 32, 7));
}

#[test]
fn tables_agree_with_the_description() {
    let fabric = default_fabric();
    let mut client = Client::healthy(fabric.clone());
    let nodes: Vec<NodeRecord> = client.table(0, &NodeRecord::new());
    let mut guids: Vec<u64> = nodes.iter().map(|r| r.node_info().node_guid()).collect();
    guids.dedup();
    assert_eq!(
        guids,
        fabric.nodes.iter().map(|n| n.guid).collect::<Vec<_>>()
    );
    let links: Vec<LinkRecord> = client.table(0, &LinkRecord::new());
    assert_eq!(links.len(), fabric.connected_ends());
    let ports: Vec<PortInfoRecord> = client.table(0, &PortInfoRecord::new());
    // A switch's ports with port 0, and adapters' ports with a link.
    let switch_ports: usize = fabric
        .nodes
        .iter()
        .filter(|n| n.kind == crate::fabric::NodeKind::Switch)
        .map(|n| n.ports.len())
        .sum();
    assert_eq!(ports.len(), switch_ports + 69);
    assert_eq!(client.table(0, &ServiceRecord::new()).len(), 1);
    assert_eq!(client.table(0, &McMemberRecord::new()).len(), 69);
}

#[test]
fn a_component_mask_picks_records() {
    let mut client = Client::healthy(default_fabric());
    let lid = client.lid_of("leaf03", 0);
    let mut query = PortInfoRecord::new();
    query.set_lid(lid).set_port(33);
    let mask = component::PORT_LID | component::PORT_NUM;
    let found = client.table(mask, &query);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].lid(), found[0].port()), (lid, 33));
    assert_eq!(client.table(component::PORT_LID, &query).len(), 41);
    let mut query = LftRecord::new();
    query.set_lid(lid).set_block(1);
    let mask = component::LFT_LID | component::LFT_BLOCK;
    let table = client.table(mask, &query);
    let direct: crate::mad::LinearForwardingTable = {
        let tid = client.tid();
        let mad = Mad::smp_lid(Method::Get, 0x19, 1, tid);
        let reply = client.ask(Address::smp(lid), mad).unwrap();
        Attribute::parse(&reply.view()).unwrap()
    };
    assert_eq!(table[0].table(), direct);
}

#[test]
fn get_wants_exactly_one_record() {
    let mut client = Client::healthy(default_fabric());
    let status = |client: &mut Client, mask, query: &NodeRecord| {
        client
            .sa(Method::Get, NodeRecord::ID, mask, query.bytes())
            .status()
    };
    let mut query = NodeRecord::new();
    let many = status(&mut client, 0, &query);
    assert_eq!(many, Status::sa(SaStatus::TooManyRecords));
    query.set_lid(0xBEEF);
    let none = status(&mut client, component::NODE_LID, &query);
    assert_eq!(none, Status::sa(SaStatus::NoRecords));
    // A table without records is no error; its offset is 0.
    let reply = client.sa(
        Method::GetTable,
        NodeRecord::ID,
        component::NODE_LID,
        query.bytes(),
    );
    assert!(reply.status().is_ok());
    assert_eq!((reply.len(), reply.attribute_offset()), (56, 0));
    query.set_lid(client.lid_of("oss1", 1));
    let reply = client.sa(
        Method::Get,
        NodeRecord::ID,
        component::NODE_LID,
        query.bytes(),
    );
    let record = NodeRecord::parse(&reply.view()).unwrap();
    assert_eq!(record.description().text(), "oss1 mlx5_0");
    // A host without an SM: its kernel answers.
    let tid = client.tid();
    let mad = Mad::sa(Method::Get, NodeRecord::ID, 0, 0, tid);
    let lid = client.lid_of("oss1", 1);
    let reply = client.ask(Address::gmp(lid, 0, 0), mad).unwrap();
    assert_eq!(reply.status(), Status(0x000c));
}

#[test]
fn a_path_has_the_rate_of_its_slowest_link() {
    let mut client = Client::healthy(default_fabric());
    let own = client.port.local(Stamp::ZERO).unwrap();
    let mut query = PathRecord::new();
    query
        .set_sgid(Gid::new(own.gid_prefix, own.port_guid))
        .set_dlid(client.lid_of("old1", 1))
        .set_numb_path(1);
    let mask = component::PATH_SGID | component::PATH_DLID | component::PATH_NUMB_PATH;
    let reply = client.sa(Method::Get, PathRecord::ID, mask, query.bytes());
    let path = PathRecord::parse(&reply.view()).unwrap();
    // old1 has a 4x QDR link: 40 Gb/s.
    assert_eq!(path.rate().to_string(), "40 Gb/s");
    assert_eq!((path.slid(), path.sl(), path.pkey()), (own.lid, 0, 0xFFFF));
    // All paths from us: one for each LID there is.
    let all: Vec<PathRecord> = client.table(component::PATH_SGID, &query);
    assert_eq!(all.len(), 81);
}

#[test]
fn subscribers_hear_of_links_and_of_who_comes_and_goes() {
    let mut client = Client::healthy(default_fabric());
    client.subscribe(true);
    let found: Vec<InformInfoRecord> = client.table(0, &InformInfoRecord::new());
    assert_eq!(found.len(), 1);
    let host = default_fabric().key("cn002", 1).unwrap();
    client.port.act(client.now, Action::LinkDown(host));
    client.wait(client.now + Duration::from_millis(200));
    let notices = client.notices();
    let numbers: Vec<u16> = notices.iter().map(Notice::trap_number).collect();
    // The switch's trap 128 at once, 65 (GID out of service) from the SM's sweep.
    assert_eq!(numbers, [128, 65]);
    let leaf = client.lid_of("leaf01", 0);
    assert_eq!(notices[0].issuer_lid(), leaf);
    assert_eq!(notices[0].details()[..2], leaf.to_be_bytes());
    let gid = Gid::new(0xfe80_0000_0000_0000, host.node.guid.0 + 1);
    assert_eq!(notices[1].details()[6..22], gid.0);
    client.port.act(client.now, Action::LinkUp(host));
    client.wait(client.now + Duration::from_millis(200));
    let numbers: Vec<u16> = client.notices().iter().map(Notice::trap_number).collect();
    assert_eq!(numbers, [128, 64]);
    client.subscribe(false);
    client.port.act(client.now, Action::LinkDown(host));
    client.wait(client.now + Duration::from_millis(200));
    assert_eq!(client.notices().len(), 0);
}

#[test]
fn a_report_is_repeated_until_it_is_acknowledged() {
    let mut client = Client::healthy(default_fabric());
    client.subscribe(true);
    let node = default_fabric().key("cn002", 1).unwrap().node;
    let describe = |text: &[u8]| Action::Describe {
        node,
        description: text.to_vec(),
    };
    client.port.act(client.now, describe(b"a"));
    client.wait(client.now + Duration::from_secs(10));
    // Once, and three times more.
    assert_eq!(client.unasked.len(), 4);
    assert!(
        client
            .unasked
            .iter()
            .all(|m| m.tid() == client.unasked[0].tid())
    );
    client.unasked.clear();
    client.port.act(client.now, describe(b"b"));
    client.wait(client.now + Duration::from_millis(100));
    assert_eq!(client.notices().len(), 1);
    client.wait(client.now + Duration::from_secs(10));
    assert_eq!(client.unasked.len(), 0);
}
