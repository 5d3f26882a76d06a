//! Where the SA is wrong, field by field: what is compared, and when it is told.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "common/bench.rs"]
mod bench;

use bench::Bench;
use fabtop::event::What;
use fabtop::fabric::sa::{Difference, SaTable};
use fabtop::mad::{
    Attribute, Fields, Mad, Method, NodeRecord, PortInfo, PortInfoRecord, SwitchInfoRecord,
};
use fabtop::port::Stamp;
use fabtop::sim::{SimOptions, default_fabric};

const GET_TABLE: u8 = 0x12;

/// Bytes of records in which the SA is wrong, by the specification's layout of each attribute
/// after the four bytes of its record ID, and what is to be said of them.
#[test]
fn every_kind_of_wrong_record_is_told_and_only_after_the_node_was_asked_again() {
    let fabric = default_fabric();
    let mut bench = Bench::new(fabric.clone(), SimOptions::healthy());
    bench.run(Stamp::from_secs(4));
    let (host, leaf) = (bench.key("cn003", 1), bench.key("leaf02", 0));
    let (host_lid, leaf_lid) = (bench.lid(host), bench.lid(leaf));
    let sm = bench.lid(bench.key("mgmt2", 1));
    let options = SimOptions {
        sa_errs: vec![
            // NodeInfo: Revision at 32. NodeDescription's third letter.
            (0x11, host_lid, 4 + 32 + 3),
            (0x11, host_lid, 44 + 2),
            // SwitchInfo: LinearFDBTop at 6, DefaultPort at 8, LifeTimeValue (and with it two
            // more) in 11, of which bit 0 is the optimized SLtoVL mapping's.
            (0x14, leaf_lid, 4 + 7),
            (0x14, leaf_lid, 4 + 8),
            (0x14, leaf_lid, 4 + 11),
            // SMInfo: priority and state share byte 20; the GUID is not touched.
            (0x18, sm, 4 + 20),
            // PortInfo: CapabilityMask at 20, LMC in the low bits of 34, NeighborMTU and SM SL
            // in 36, HOQLife in 42; violations at 44 are no difference.
            (0x12, host_lid, 4 + 23),
            (0x12, host_lid, 4 + 34),
            (0x12, host_lid, 4 + 36),
            (0x12, host_lid, 4 + 42),
            (0x12, host_lid, 4 + 45),
        ],
        ..SimOptions::healthy()
    };
    let mut bench = Bench::new(fabric, options);
    bench.run(Stamp::from_secs(20));
    let (list, more, doubtful) = bench.model.sa_differences(bench.engine.now());
    assert_eq!((more, doubtful), (0, 0), "{list:#?}");
    let told: Vec<&str> = list.iter().map(|d| d.text.as_str()).collect();
    let id = host.node;
    let description =
        format!("{id} calls itself \"cn003 mlx5_0\", the SA has \"cn\u{31}03 mlx5_0\"");
    for text in [
        "cn003 mlx5_0: Revision 0x00000000, the SA has 0x00000001",
        description.as_str(),
        "leaf02: DefaultPort 0, the SA has 1",
        "leaf02: OptimizedSLtoVLMappingProgramming 0, the SA has 1",
        "SM at mgmt2 mlx5_0 says Standby, the SA has Master",
        "cn003 mlx5_0[1]: LMC 0, the SA has 1",
        "cn003 mlx5_0[1]: MasterSMSL 0, the SA has 1",
        "cn003 mlx5_0[1]: HOQLife 18, the SA has 19",
    ] {
        assert!(told.contains(&text), "{text}:\n{told:#?}");
        assert_eq!(bench.log(text), [text]);
    }
    let begins = |text: &str| told.iter().filter(|t| t.starts_with(text)).count();
    assert_eq!(begins("leaf02: LinearFDBTop "), 1, "{told:#?}");
    assert_eq!(begins("cn003 mlx5_0[1]: CapabilityMask "), 1, "{told:#?}");
    assert_eq!(told.len(), 10, "{told:#?}");
    // Each was asked again between the two readings of its table.
    let mut tables = 0;
    let mut asked = Vec::new();
    for event in &bench.events {
        let What::Sent(s) = &event.what else { continue };
        if s.mad.attr_id() == 0x12 && s.mad.method().code() == GET_TABLE {
            tables += 1;
        }
        if tables == 1 && s.mad.class().is_smp() && s.target.node == Some(id) {
            asked.push(s.mad.attr_id());
        }
    }
    assert!(tables >= 2);
    assert!(asked.contains(&PortInfo::ID), "{asked:x?}");
}

/// Both see the same, field by field: what is compared is what is not left out on purpose.
#[test]
fn every_field_of_an_attribute_is_compared_or_left_out_on_purpose() {
    let mut bench = Bench::new(default_fabric(), SimOptions::healthy());
    bench.run(Stamp::from_secs(12));
    let (host, leaf) = (bench.key("cn003", 1), bench.key("leaf02", 0));
    let lid = |key| bench.lid(key);
    // By field, whether a record with another value in it differs.
    let compared = |table: SaTable, lid: u16, port: Option<u8>| -> Vec<(String, bool)> {
        let record = bench
            .model
            .sa_records(table)
            .find(|r| r[..2] == lid.to_be_bytes() && port.is_none_or(|p| r[2] == p))
            .unwrap();
        let mut all = Vec::new();
        // Behind the record's own ID, which names another one if it is changed.
        for field in Fields::new(table.fields(), record).skip(match table {
            SaTable::Ports => 3,
            _ => 1,
        }) {
            let last = match field.name().as_ref() {
                // Its first letter: behind its end nothing is read.
                "NodeDescription" => 44 * 8 + 7,
                _ => 4 * 8 + field.field.bit + field.field.width - 1,
            };
            let mut changed = record.to_vec();
            changed[last / 8] ^= 0x80 >> (last % 8);
            let found = differ(&bench, table, &changed);
            all.push((field.name().into_owned(), !found.is_empty()));
        }
        all
    };
    let left_out = |all: Vec<(String, bool)>| -> Vec<String> {
        assert!(all.iter().any(|(_, compared)| *compared));
        all.into_iter()
            .filter(|(_, c)| !c)
            .map(|(n, _)| n)
            .collect()
    };
    // A NodeRecord's LocalPortNum says which port it is about; none of the rest is left out.
    let node = left_out(compared(SaTable::Nodes, lid(host), None));
    assert_eq!(node, ["LocalPortNum"]);
    let switch = left_out(compared(SaTable::Switches, lid(leaf), None));
    assert_eq!(switch, ["PortStateChange"]);
    let port = left_out(compared(SaTable::Ports, lid(host), Some(1)));
    let moment = [
        "M_Key",
        "DiagCode",
        "LocalPortNum",
        "M_KeyViolations",
        "P_KeyViolations",
        "Q_KeyViolations",
        "ClientReregister",
        "MaxCreditHint",
        "LinkRoundTripLatency",
    ];
    assert_eq!(port, moment);
}

/// What a table of this one record differs in.
fn differ(bench: &Bench, table: SaTable, record: &[u8]) -> Vec<Difference> {
    let request = Mad::sa(Method::GetTable, table.id(), 0, 0, 1);
    let reply = match table {
        SaTable::Nodes => one::<NodeRecord>(&request, record),
        SaTable::Switches => one::<SwitchInfoRecord>(&request, record),
        _ => one::<PortInfoRecord>(&request, record),
    };
    let found = fabtop::fabric::sa::differences(bench.model.topology(), &[], table, &reply);
    let unknown = |d: &Difference| matches!(d, Difference::NodeUnknown { .. });
    found.into_iter().filter(|d| !unknown(d)).collect()
}

fn one<R: Attribute>(request: &Mad, record: &[u8]) -> Mad {
    Mad::reply_table(&request.view(), &[R::from_bytes(record).unwrap()])
}
