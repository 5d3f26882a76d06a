//! Routing, subnet managers and single SA records as infiniband-diags tell them, under ibsim and
//! opensm: `sminfo`, `saquery`, `ibtracert`, `ibroute`, `dump_fts`.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use common::client::{Client, number};
use common::fabric::FatTree;
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options, text_of};
use common::session::{Session, config};
use fabtop::engine::Key;
use fabtop::event::{SweepKind, Topic};
use fabtop::fabric::sa::SaTable;
use fabtop::fabric::{NodeKind, PortKey};
use fabtop::mad::{
    Attribute, Gid, InformInfoRecord, LftRecord, LinkRecord, Mad, McMemberRecord, Method,
    NodeRecord, PKeyTableRecord, PortInfoRecord, ServiceRecord, SmInfoRecord, SwitchInfoRecord,
    component, records,
};
use fabtop::model::view::SaOutcome;
use fabtop::report::{self, Format};

fn main() -> ExitCode {
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![
        trial("report_sms_equals_sminfo", &all, sm_info),
        trial("single_records_equal_saquerys", &all, single_records),
        trial("paths_equal_ibtracerts", &all, paths),
        trial("tables_of_all_switches_equal_ibroutes", &all, tables),
        trial("tables_of_all_switches_equal_dump_fts", &all, dumps),
        trial("a_registered_service_equals_saquerys", &all, services),
        trial("our_subscription_equals_saquerys", &all, subscription),
        trial("p_key_tables_with_the_sm_key_equal_saquerys", &all, trusted),
        trial("what_opensm_refuses_is_shown_as_refused", &all, refused),
        trial("a_table_without_rmpp_is_shown_as_cut", &all, cut),
    ])
}

/// 16 leaves with 2 hosts each and 8 spines: 24 switches.
const FABRIC: FatTree = FatTree {
    leaves: 16,
    hosts_per_leaf: 2,
    spines: 8,
};

fn fabric() -> IbsimFabric {
    IbsimFabric::start(&FABRIC.net(), Options { sm: true })
}

/// A session at a host that has discovered the fabric.
fn session(fabric: &IbsimFabric, host: usize) -> Session {
    let port = fabric.attach(&FatTree::host(host), false);
    let second = Duration::from_secs(1);
    let mut session = Session::start(port, config(second, 5 * second));
    session.until("discovery", |s| s.sweeps(SweepKind::Discovery) > 0);
    session
}

/// The program's standard output.
fn fabtop(fabric: &IbsimFabric, host: &str, args: &[&str]) -> serde_json::Value {
    let output = fabric
        .native(env!("CARGO_BIN_EXE_fabtop"))
        .args(["--ibsim", host, "--no-subscribe", "report"])
        .args(args)
        .arg("--json")
        .output()
        .unwrap();
    serde_json::from_str(&text_of("fabtop", &output)).unwrap()
}

fn sm_info() {
    let fabric = fabric();
    let host = FatTree::host(3);
    let theirs = || {
        let text = fabric.tool(&host, "sminfo", &[]);
        // sminfo: sm lid 1 sm guid 0x100001, activity count 412 priority 0 state 3 SMINFO_MASTER
        let after = |word: &str| {
            let (_, rest) = text.split_once(word).unwrap();
            let digits = rest.trim_start().split([',', ' ']).next().unwrap();
            number(digits)
        };
        [" lid", "guid", "count", "priority", "state"].map(after)
    };
    let before = theirs();
    let ours = fabtop(&fabric, &host, &["sms"]);
    let after = theirs();
    let sms = ours["sms"].as_array().unwrap();
    assert_eq!(sms.len(), 1, "{ours}");
    let sm = &sms[0];
    assert_eq!(sm["lid"], before[0]);
    assert_eq!(sm["guid"], format!("{:#018x}", before[1]));
    let activity = sm["activity"].as_u64().unwrap();
    assert!(
        (before[2]..=after[2]).contains(&activity),
        "{before:?} {activity} {after:?}"
    );
    assert_eq!(sm["priority"], before[3]);
    assert_eq!((before[4], &sm["state"]), (3, &"Master".into()));
}

/// The values of a saquery dump by name: `name....value`, `name:....value`.
fn dump(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.trim().split_once("..")?;
            let value = value.trim_start_matches('.').to_owned();
            Some((name.trim_end_matches(':').to_lowercase(), value))
        })
        .collect()
}

fn single_records() {
    let fabric = fabric();
    let host = FatTree::host(3);
    let mut client = Client::new(fabric.attach(&host, false));
    let (local, sa) = (client.local(), client.sa());
    let lid = local.sm_lid;
    let mut get = |id: u16, mask: u64, query: &[u8]| {
        let mut mad = Mad::sa(Method::Get, id, 0, mask, 0);
        mad.set_data_bytes(query);
        let reply = client.ask(sa, mad);
        assert!(reply.status().is_ok(), "{reply}");
        reply
    };
    let saquery = |args: &[&str]| dump(&fabric.tool(&host, "saquery", args));
    let text = lid.to_string();

    let mut query = NodeRecord::new();
    query.set_lid(lid);
    let reply = get(NodeRecord::ID, component::NODE_LID, query.bytes());
    let ours = NodeRecord::from_bytes(reply.data()).unwrap();
    let theirs = saquery(&["NR", &text]);
    let of = |name: &str| number(&theirs[name]);
    let info = ours.node_info();
    assert_eq!(u64::from(ours.lid()), of("lid"));
    assert_eq!(info.node_guid(), of("node_guid"));
    assert_eq!(info.port_guid(), of("port_guid"));
    assert_eq!(info.system_image_guid(), of("sys_guid"));
    assert_eq!(u64::from(info.num_ports()), of("num_ports"));
    assert_eq!(u64::from(info.partition_cap()), of("partition_cap"));
    assert_eq!(u64::from(info.revision()), of("revision"));
    assert_eq!(u64::from(info.local_port()), of("port_num"));
    assert_eq!(ours.description().text(), theirs["nodedescription"]);

    let mut query = PortInfoRecord::new();
    query.set_lid(lid).set_port(1);
    let mask = component::PORT_LID | component::PORT_NUM;
    let reply = get(PortInfoRecord::ID, mask, query.bytes());
    let ours = PortInfoRecord::from_bytes(reply.data()).unwrap();
    let theirs = saquery(&["PIR", &format!("{lid}/1")]);
    let of = |name: &str| number(&theirs[name]);
    let info = ours.port_info();
    assert_eq!(u64::from(ours.lid()), of("endportlid"));
    assert_eq!(u64::from(ours.port()), of("portnum"));
    assert_eq!(info.gid_prefix(), of("gidprefix"));
    assert_eq!(u64::from(info.sm_lid()), of("smlid"));
    assert_eq!(u64::from(info.cap_mask().0), of("capmask"));
    assert_eq!(u64::from(info.m_key_lease_period()), of("mkeyleaseperiod"));
    assert_eq!(
        theirs["linkwidthactive"],
        info.link_width_active().to_string().to_uppercase()
    );

    // A switch: the leaf of the first host, by the link that the SA has.
    let mut query = LinkRecord::new();
    query.set_from_lid(lid).set_from_port(1);
    let reply = get(LinkRecord::ID, 0b11, query.bytes());
    let ours = LinkRecord::from_bytes(reply.data()).unwrap();
    let theirs = saquery(&["LR", &format!("{lid}/1")]);
    let of = |name: &str| number(&theirs[name]);
    assert_eq!(u64::from(ours.from_lid()), of("fromlid"));
    assert_eq!(u64::from(ours.from_port()), of("fromport"));
    assert_eq!(u64::from(ours.to_port()), of("toport"));
    assert_eq!(u64::from(ours.to_lid()), of("tolid"));
    let leaf = ours.to_lid();

    let mut query = SwitchInfoRecord::new();
    query.set_lid(leaf);
    let reply = get(SwitchInfoRecord::ID, 1, query.bytes());
    let ours = SwitchInfoRecord::from_bytes(reply.data()).unwrap();
    let theirs = saquery(&["SWIR", &leaf.to_string()]);
    let of = |name: &str| number(&theirs[name]);
    let info = ours.switch_info();
    assert_eq!(u64::from(info.linear_fdb_cap()), of("linearfdbcap"));
    assert_eq!(u64::from(info.linear_fdb_top()), of("linearfdbtop"));
    assert_eq!(u64::from(info.multicast_fdb_cap()), of("multicastfdbcap"));
    assert_eq!(
        u64::from(info.partition_enforcement_cap()),
        of("partitionenforcementcap")
    );

    let mut query = LftRecord::new();
    query.set_lid(leaf).set_block(0);
    let mask = component::LFT_LID | component::LFT_BLOCK;
    let reply = get(LftRecord::ID, mask, query.bytes());
    let ours = LftRecord::from_bytes(reply.data()).unwrap();
    let text = fabric.tool(&host, "saquery", &["LFTR", &format!("{leaf}/0")]);
    let theirs: Vec<(u16, u8)> = text
        .lines()
        .filter_map(|line| {
            let (lid, port) = line.trim().split_once('\t')?;
            Some((lid.parse().ok()?, port.parse().ok()?))
        })
        .collect();
    assert_eq!(theirs.len(), 64);
    let table = ours.table().ports();
    for (lid, port) in theirs {
        assert_eq!(table[usize::from(lid)], port, "LID {lid}");
    }

    let mut query = SmInfoRecord::new();
    query.set_lid(lid);
    let reply = get(SmInfoRecord::ID, component::SM_LID, query.bytes());
    let ours = SmInfoRecord::from_bytes(reply.data()).unwrap().sm_info();
    let theirs = saquery(&["SMIR", &lid.to_string()]);
    let of = |name: &str| number(&theirs[name]);
    assert_eq!(ours.guid(), of("guid"));
    assert_eq!(u64::from(ours.priority()), of("priority"));
    assert_eq!(u64::from(ours.state().code()), of("smstate"));

    // The one group that opensm makes by itself: IPoIB broadcast.
    let mut query = McMemberRecord::new();
    let mgid = 0xff12_401b_ffff_0000;
    query.set_mgid(fabtop::mad::Gid::new(mgid, 0xffff_ffff));
    let reply = get(McMemberRecord::ID, component::MC_MGID, query.bytes());
    let ours = McMemberRecord::from_bytes(reply.data()).unwrap();
    let theirs = saquery(&["MCMR", "--mgid", "ff12:401b:ffff::ffff:ffff"]);
    let of = |name: &str| number(&theirs[name]);
    assert_eq!(u64::from(ours.qkey()), of("qkey"));
    assert_eq!(u64::from(ours.mlid()), of("mlid"));
    assert_eq!(u64::from(ours.mtu().code()), of("mtu") & 0x3f);
    assert_eq!(u64::from(ours.rate().code()), of("rate") & 0x3f);
    assert_eq!(u64::from(ours.scope()), of("scope"));
}

/// `ibtracert`'s hops: node GUID of those in between and at the end is the port's, which it
/// prints; so ports in and out, in order, and the LIDs.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    /// Leaves by, enters at, LID of who is entered.
    steps: Vec<(u64, u64, u64)>,
    names: Vec<String>,
}

fn their_trace(text: &str) -> Trace {
    let mut trace = Trace {
        steps: Vec::new(),
        names: Vec::new(),
    };
    for line in text.lines() {
        // [6] -> switch port {0x0000000000200005}[1] lid 9-9 "spine001"
        let Some((out, rest)) = line.strip_prefix('[').and_then(|l| l.split_once("] -> ")) else {
            continue;
        };
        let (_, rest) = rest.split_once("}[").unwrap();
        let (into, rest) = rest.split_once("] lid ").unwrap();
        let (lid, rest) = rest.split_once('-').unwrap();
        let (_, name) = rest.split_once('"').unwrap();
        trace.steps.push((number(out), number(into), number(lid)));
        trace.names.push(name.trim_end_matches('"').to_owned());
    }
    trace
}

fn our_trace(path: &serde_json::Value) -> Trace {
    let hops = path["hops"].as_array().unwrap();
    let mut trace = Trace {
        steps: Vec::new(),
        names: Vec::new(),
    };
    for pair in hops.windows(2) {
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let (out, into) = (number(&pair[0]["out"]), number(&pair[1]["in"]));
        trace.steps.push((out, into, number(&pair[1]["lid"])));
        trace
            .names
            .push(pair[1]["name"].as_str().unwrap().to_owned());
    }
    trace
}

fn paths() {
    let fabric = fabric();
    let host = FatTree::host(5);
    let mut traced = 0;
    let session = session(&fabric, 9);
    let lid = |name: &str| {
        let place = session.model.find(name).unwrap();
        let key = session.model.end_port(place).unwrap();
        let node = session.model.topology().node(key.node).unwrap();
        node.lid(key.port).unwrap().to_string()
    };
    let h = FatTree::host;
    let leaf = |n: usize| format!("leaf{n:03}");
    for (from, to) in [
        (h(0), h(31)),
        (h(31), h(0)),
        (h(0), h(1)),
        (h(7), h(22)),
        (h(12), h(3)),
        (h(5), leaf(9)),
        (h(5), "spine003".to_owned()),
        (leaf(2), h(20)),
        ("spine001".to_owned(), h(17)),
        (leaf(1), leaf(15)),
        ("spine000".to_owned(), "spine007".to_owned()),
        (h(9), h(10)),
    ] {
        let theirs = fabric.tool(&host, "ibtracert", &[&lid(&from), &lid(&to)]);
        let ours = fabtop(&fabric, &host, &["path", &from, &to]);
        assert_eq!(ours["path"]["arrives"], true, "{ours}");
        let theirs = their_trace(&theirs);
        assert_eq!(our_trace(&ours), theirs, "{from} to {to}");
        traced += theirs.steps.len();
    }
    assert!(traced > 30, "{traced} steps");
}

/// Lines of a table as the tools print them: `0x0001 005 : (Channel Adapter portguid …: '…')`.
fn entries(text: &str) -> Vec<String> {
    let is_entry = |line: &&str| line.starts_with("0x") && line.contains(" : ");
    text.lines().filter(is_entry).map(str::to_owned).collect()
}

fn switches(session: &Session) -> Vec<PortKey> {
    let topology = session.model.topology();
    let all = topology.nodes().filter(|n| n.kind == NodeKind::Switch);
    all.map(|n| n.id.port(0)).collect()
}

fn our_table(session: &mut Session, switch: PortKey) -> Vec<String> {
    let ended = session.read(Topic::Table {
        switch: switch.node,
    });
    assert_eq!(ended.failed, 0);
    let text = report::routes(&session.model, session.now(), switch.node, Format::Text);
    let text = text.unwrap();
    assert!(!text.contains("NOT COMPLETE"), "{text}");
    entries(&text)
}

fn tables() {
    let fabric = fabric();
    let mut session = session(&fabric, 9);
    let all = switches(&session);
    assert_eq!(all.len(), 24);
    for switch in all {
        let node = session.model.topology().node(switch.node).unwrap();
        let lid = node.lid(0).unwrap().to_string();
        let theirs = entries(&fabric.tool(&FatTree::host(5), "ibroute", &[&lid]));
        // 32 hosts and 24 switches.
        assert_eq!(theirs.len(), 56);
        assert_eq!(our_table(&mut session, switch), theirs, "LID {lid}");
    }
}

fn dumps() {
    let fabric = fabric();
    let mut session = session(&fabric, 9);
    let text = fabric.tool(&FatTree::host(5), "dump_fts", &[]);
    let mut theirs: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for part in text.split("Unicast lids").skip(1) {
        let (_, guid) = part.split_once(" guid ").unwrap();
        let guid = number(guid.split(' ').next().unwrap());
        theirs.insert(guid, entries(part));
    }
    assert_eq!(theirs.len(), 24, "{text}");
    for switch in switches(&session) {
        let ours = our_table(&mut session, switch);
        assert_eq!(ours, theirs[&switch.node.guid.0], "{switch}");
    }
}

/// A service that the test registers by itself: opensm holds no other.
fn services() {
    let fabric = fabric();
    let host = FatTree::host(3);
    let mut client = Client::new(fabric.attach(&host, false));
    let (local, sa) = (client.local(), client.sa());
    let mut name = [0; 64];
    name[..12].copy_from_slice(b"fabtop.test!");
    let mut service = ServiceRecord::new();
    service
        .set_service_id(0x0123_4567_89ab_cdef)
        .set_service_gid(Gid::new(local.gid_prefix, local.port_guid))
        .set_pkey(0xffff)
        .set_lease(600)
        .set_key([0x5e; 16])
        .set_service_name(name)
        .set_data8([8; 16])
        .set_data16([0x1616; 8])
        .set_data32([0x3232_3232, 2, 3, 4])
        .set_data64([0x6464, 7]);
    // Every component of the record: ID, GID, P_Key, reserved, lease, key, name, 30 of data.
    let mask = (1 << 37) - 1;
    let mut mad = Mad::sa(Method::Set, ServiceRecord::ID, 0, mask, 0);
    mad.set_data(&service);
    let reply = client.ask(sa, mad);
    assert!(reply.status().is_ok(), "{reply}");
    drop(client);

    let mut session = session(&fabric, 9);
    let records = short(&mut session, SaTable::Services);
    assert_eq!(records.len(), 1);
    let ours = ServiceRecord::from_bytes(&records[0]).unwrap();
    let theirs = dump(&fabric.tool(&host, "saquery", &["SR"]));
    let of = |name: &str| number(&theirs[name]);
    assert_eq!(ours.service_id(), of("serviceid"));
    assert_eq!(ours.service_id(), 0x0123_4567_89ab_cdef);
    assert_eq!(ours.service_gid().to_string(), theirs["servicegid"]);
    assert_eq!(u64::from(ours.pkey()), of("servicep_key"));
    // It runs down while both are asked.
    let lease = u64::from(ours.lease());
    let their_lease = of("servicelease");
    assert!((1..=600).contains(&lease) && lease.abs_diff(their_lease) <= 60);
    assert_eq!(
        "fabtop.test!",
        theirs["servicename"].trim_matches(|c| c == '"' || c == '\'')
    );
    let fields: BTreeMap<String, String> = ours
        .fields()
        .map(|f| (f.name().into_owned(), f.value().to_string()))
        .collect();
    assert_eq!(fields["ServiceName"], "fabtop.test!");
    let datum = |name: &str, at: usize| of(&format!("servicedata{name}.{at}"));
    for (at, value) in (1..).zip(ours.data8()) {
        assert_eq!(u64::from(value), datum("8", at));
    }
    for (at, value) in (1..).zip(ours.data16()) {
        assert_eq!(u64::from(value), datum("16", at));
    }
    for (at, value) in (1..).zip(ours.data32()) {
        assert_eq!(u64::from(value), datum("32", at));
    }
    // Of a reply of 232 bytes opensm's shim hands 224 to ibsim: both get something else as the
    // last of the data.
    assert_eq!(ours.data64()[0], datum("64", 1));
    assert_eq!(datum("64", 1), 0x6464);
}

/// The records of a table that fits a MAD. opensm leaves RMPP to the kernel, and ibsim is none:
/// the reply's RMPP header is not filled in, so that it does not count as whole.
fn short(session: &mut Session, table: SaTable) -> Vec<Vec<u8>> {
    let tables = vec![table];
    session.read(Topic::Sa { tables });
    let views = session.model.sa_tables(session.now());
    let view = views.iter().find(|t| t.table == table).unwrap();
    assert_eq!(view.outcome, Some(SaOutcome::Cut));
    let records = session.model.sa_records(table);
    records.map(<[u8]>::to_vec).collect()
}

/// What opensm holds of the one subscription that there is: ours.
fn subscription() {
    let fabric = fabric();
    // ibsim hands notices to those who hold IsSM of their port, and to nobody else.
    let port = fabric.attach(&FatTree::host(9), true);
    let second = Duration::from_secs(1);
    let mut config = config(second, 5 * second);
    config.answer_sminfo = true;
    let mut session = Session::start(port, config);
    session.until("discovery", |s| s.sweeps(SweepKind::Discovery) > 0);
    let records = short(&mut session, SaTable::Subscriptions);
    assert_eq!(records.len(), 1);
    let ours = InformInfoRecord::from_bytes(&records[0]).unwrap();
    let text = fabric.tool(&FatTree::host(5), "saquery", &["-K", "IIR"]);
    let theirs = dump(&text);
    let of = |name: &str| number(&theirs[name]);
    let info = ours.inform_info();
    assert_eq!(ours.subscriber_gid().to_string(), theirs["subscribergid"]);
    assert_eq!(u64::from(ours.subscriber_enum()), of("subscriberenum"));
    assert_eq!(info.gid().to_string(), theirs["gid"]);
    assert_eq!(
        u64::from(info.lid_range_begin()),
        of("lid_range_begin"),
        "{text}"
    );
    assert_eq!(u64::from(info.lid_range_end()), of("lid_range_end"));
    assert_eq!(u64::from(info.subscribe()), of("subscribe"));
    assert_eq!(u64::from(info.trap_number()), of("trap_num"));
    assert_eq!(u64::from(info.qpn()), of("qpn"));
}

/// opensm's SM_Key where nobody chose another.
const SM_KEY: &str = "1";

/// opensm shows P_Key tables only to those who know its SM_Key, and answers nothing at all where
/// it is wrong.
fn trusted() {
    let fabric = fabric();
    let host = FatTree::host(3);
    let second = Duration::from_secs(1);
    let keyed = |key: u64| {
        let port = fabric.attach(&FatTree::host(9), false);
        let mut config = config(second, 5 * second);
        config.sm_key = Key::new(key);
        let mut session = Session::start(port, config);
        session.until("discovery", |s| s.sweeps(SweepKind::Discovery) > 0);
        let tables = vec![SaTable::Pkeys];
        session.read(Topic::Sa { tables });
        let views = session.model.sa_tables(session.now());
        let view = views.into_iter().find(|t| t.table == SaTable::Pkeys);
        (session, view.unwrap())
    };
    let (session, view) = keyed(1);
    // ibsim passes the first 200 bytes on: two records of 72.
    assert_eq!((view.outcome, view.count), (Some(SaOutcome::Cut), Some(2)));
    let text = fabric.tool(&host, "saquery", &["--smkey", SM_KEY, "PKTR"]);
    let theirs: Vec<(u64, u64, u64, Vec<u64>)> = text
        .split("PKeyTableRecord dump:")
        .skip(1)
        .map(|part| {
            let fields = dump(part);
            let keys = part.split_once("PKey Table:").unwrap().1;
            let keys = keys.split_whitespace().map(number).collect();
            let of = |name: &str| number(&fields[name]);
            (of("lid"), of("port"), of("block"), keys)
        })
        .collect();
    let ours: Vec<_> = session
        .model
        .sa_records(SaTable::Pkeys)
        .map(|bytes| {
            let record = PKeyTableRecord::from_bytes(bytes).unwrap();
            let keys = record.table().pkeys().map(u64::from).to_vec();
            let place = [record.lid(), u16::from(record.port()), record.block()];
            let [lid, port, block] = place.map(u64::from);
            (lid, port, block, keys)
        })
        .collect();
    assert_eq!(ours, theirs);
    assert_eq!(ours[0].3[0], 0xffff);
    drop(session);

    // A single one.
    let mut client = Client::new(fabric.attach(&host, false));
    let (lid, sa) = (client.local().lid, client.sa());
    let mut query = PKeyTableRecord::new();
    query.set_lid(lid).set_port(1).set_block(0);
    let mut mad = Mad::sa(Method::GetTable, PKeyTableRecord::ID, 0, 0b111, 0);
    mad.set_data(&query).set_sm_key(1);
    let reply = client.ask(sa, mad);
    assert!(reply.status().is_ok(), "{reply}");
    let ours: Vec<PKeyTableRecord> = records(&reply.view()).collect();
    drop(client);
    let place = format!("{lid}/1/0");
    let text = fabric.tool(&host, "saquery", &["--smkey", SM_KEY, "PKTR", &place]);
    let theirs = text.split_once("PKey Table:").unwrap().1;
    let theirs: Vec<u64> = theirs.split_whitespace().map(number).collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].table().pkeys().map(u64::from).to_vec(), theirs);

    let (_, view) = keyed(2);
    let told = "refused: bad request (the SM_Key given may not be its own)";
    assert_eq!((view.status().as_str(), view.count), (told, None));
}

/// opensm shows P_Key tables only to those who know its SM_Key: saquery says the same.
fn refused() {
    let fabric = fabric();
    let mut session = session(&fabric, 9);
    let ended = session.read(Topic::Sa {
        tables: vec![SaTable::Pkeys],
    });
    assert_eq!((ended.answered, ended.failed), (0, 1));
    let tables = session.model.sa_tables(session.now());
    let table = tables.iter().find(|t| t.table == SaTable::Pkeys).unwrap();
    assert!(
        matches!(&table.outcome, Some(SaOutcome::Refused(why)) if why == "bad request"),
        "{table:?}"
    );
    assert!(table.status().contains("--sm-key-file"), "{table:?}");
    assert_eq!(table.count, None);
    let output = fabric
        .shimmed(
            common::foreign::find_program("saquery").unwrap(),
            &FatTree::host(5),
        )
        .args(["PKTR"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("SA_ERR_REQ_INVALID"), "{text}");
}

/// ibsim passes 256 bytes of an SA reply on and knows no RMPP: what came is not taken for all.
fn cut() {
    let fabric = fabric();
    let mut session = session(&fabric, 9);
    let ended = session.read(Topic::Sa {
        tables: vec![SaTable::Nodes],
    });
    assert_eq!((ended.answered, ended.failed), (0, 1));
    let tables = session.model.sa_tables(session.now());
    let table = tables.iter().find(|t| t.table == SaTable::Nodes).unwrap();
    assert_eq!(table.outcome, Some(SaOutcome::Cut));
    // 200 bytes hold one NodeRecord of 112.
    assert_eq!(table.count, Some(1));
    let (differences, more, doubtful) = session.model.sa_differences(session.now());
    assert_eq!((differences.len(), more, doubtful), (0, 0, 0));
}
