//! The native ibsim client against ibsim, opensm and infiniband-diags.
//!
//! What smpquery, perfquery, saquery and opensm say of the same fabric is what must be read.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use common::client::{Client, get_dr, number};
use common::fabric::FatTree;
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options, PATIENCE, dotted, text_of, wait_for};
use fabtop::mad::{
    Attribute, ClassPortInfo, InformInfo, Mad, Method, MgmtClass, NodeDescription, NodeInfo,
    PathRecord, PortCounters, PortInfo, ReportedNotice, SmInfo, SmState, component,
};
use fabtop::port::{Address, Agent, Arrival, MadPort, Outgoing, PortError, Source, Stamp};
use fabtop::sim::ibsim::{IbsimPort, Server};

fn main() -> ExitCode {
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![
        trial("node_info_equals_smpquerys", &all, node_info),
        trial("local_port_equals_smpquerys", &all, local_port),
        trial("error_counters_equal_perfquerys", &all, error_counters),
        trial("path_record_equals_saquerys", &all, path_record),
        trial("unknown_attribute_comes_back_at_once", &[IBSIM], unknown),
        trial("silence_ends_at_the_deadline", &[IBSIM], silence),
        trial("more_than_256_in_flight_is_refused", &[IBSIM], window),
        trial("many_in_flight_all_answered", &[IBSIM], many),
        trial("get_sminfo_reaches_the_issm_client", &all, sm_info),
        trial("opensm_survives_unknown_counters", &all, survival),
        trial("trap_128_arrives_as_report", &all, reports),
        trial("no_server_is_told", &[], no_server),
        trial("unknown_node_is_told", &[IBSIM], no_node),
        trial("taken_sm_role_is_told", &[IBSIM], role_taken),
        trial("full_server_is_told_and_slots_return", &[IBSIM], full),
        trial("ended_server_is_gone_and_returns", &[IBSIM], gone),
        trial("udp_server", &[IBSIM], udp),
    ])
}

fn small(sm: bool) -> IbsimFabric {
    IbsimFabric::start(&FatTree::SMALL.net(), Options { sm })
}

fn node_info() {
    let fabric = small(true);
    let host = FatTree::host(9);
    let mut client = Client::new(fabric.attach(&host, false));
    assert_eq!(client.port.node(), host);
    for (path, dr) in [
        (&[][..], "0"),
        (&[1], "0,1"),
        (&[1, 5], "0,1,5"),
        (&[1, 6, 4, 3], "0,1,6,4,3"),
    ] {
        let reply = client.ask(Address::directed(), get_dr(NodeInfo::ID, 0, path));
        let ours = NodeInfo::parse(&reply.view()).unwrap();
        let text = fabric.tool(&host, "smpquery", &["-D", "nodeinfo", dr]);
        let theirs = |name| number(&dotted(&text, name));
        assert_eq!(ours.node_guid(), theirs("Guid"));
        assert_eq!(ours.port_guid(), theirs("PortGuid"));
        assert_eq!(ours.system_image_guid(), theirs("SystemGuid"));
        assert_eq!(u64::from(ours.num_ports()), theirs("NumPorts"));
        assert_eq!(u64::from(ours.local_port()), theirs("LocalPort"));
        assert_eq!(u64::from(ours.partition_cap()), theirs("PartCap"));
        assert_eq!(u64::from(ours.revision()), theirs("Revision"));

        let reply = client.ask(Address::directed(), get_dr(NodeDescription::ID, 0, path));
        let ours = NodeDescription::parse(&reply.view()).unwrap();
        let text = fabric.tool(&host, "smpquery", &["-D", "nodedesc", dr]);
        assert_eq!(ours.text(), dotted(&text, "Node Description"));
    }
    // The same host by its LID: a LID-routed SMP goes through the switches' tables.
    let text = fabric.tool(&host, "smpquery", &["-D", "portinfo", "0,1,6,4,3", "1"]);
    let lid = u16::try_from(number(&dotted(&text, "Lid"))).unwrap();
    let reply = client.ask(
        Address::smp(lid),
        Mad::smp_lid(Method::Get, PortInfo::ID, 1, 0),
    );
    assert_eq!(PortInfo::parse(&reply.view()).unwrap().lid(), lid);
}

fn local_port() {
    let fabric = small(true);
    let host = FatTree::host(6);
    let mut client = Client::new(fabric.attach(&host, false));
    let ours = client.local();
    let port = fabric.tool(&host, "smpquery", &["-D", "portinfo", "0", "1"]);
    let node = fabric.tool(&host, "smpquery", &["-D", "nodeinfo", "0"]);
    let keys = fabric.tool(&host, "smpquery", &["-D", "pkeys", "0", "1"]);
    let theirs = |name| number(&dotted(&port, name));
    assert_eq!(ours.ca, host);
    assert_eq!(ours.port, 1);
    assert_eq!(ours.node_guid, number(&dotted(&node, "Guid")));
    assert_eq!(ours.port_guid, number(&dotted(&node, "PortGuid")));
    assert_eq!(ours.gid_prefix, theirs("GidPrefix"));
    assert_eq!(u64::from(ours.lid), theirs("Lid"));
    assert_eq!(u64::from(ours.sm_lid), theirs("SMLid"));
    assert_eq!(u64::from(ours.sm_sl), theirs("SMSL"));
    assert_eq!(u64::from(ours.lmc), theirs("LMC"));
    assert_eq!(u64::from(ours.cap_mask), theirs("CapMask"));
    assert_eq!((ours.state, &*dotted(&port, "LinkState")), (4, "Active"));
    assert!(keys.contains("0: 0xffff"), "{keys}");
    assert_eq!((ours.pkey_index, ours.pkey_limited), (Some(0), false));
    assert!(client.port.agents().iter().all(|a| a.refused.is_none()));
    assert!(client.port.agents().iter().all(|a| !a.reports));
    assert!(matches!(client.port.source(), Source::Ibsim { .. }));

    // A switch has its LID at port 0, and one GUID.
    let mut switch = Client::new(fabric.attach("leaf002", false));
    let ours = switch.local();
    let node = fabric.tool("leaf002", "smpquery", &["-D", "nodeinfo", "0"]);
    let port = fabric.tool("leaf002", "smpquery", &["-D", "portinfo", "0", "0"]);
    assert_eq!(ours.port, 0);
    assert_eq!(ours.port_guid, number(&dotted(&node, "PortGuid")));
    assert_eq!(u64::from(ours.lid), number(&dotted(&port, "Lid")));
}

fn error_counters() {
    let mut fabric = small(true);
    let host = FatTree::host(0);
    for (field, value) in [
        ("SymbolErrorCounter", 65_535),
        ("LinkErrorRecoveryCounter", 17),
        ("PortRcvErrors", 1_234),
        ("VL15Dropped", 3),
        ("ExcessiveBufferOverrunErrors", 15),
    ] {
        let line = format!("PerformanceSet \"leaf001\"[2] PortCounters.{field}={value}");
        fabric.console(&line);
    }
    let path = [1, 5, 2];
    let mut client = Client::new(fabric.attach(&host, false));
    let reply = client.ask(Address::directed(), get_dr(PortInfo::ID, 0, &path));
    let lid = PortInfo::parse(&reply.view()).unwrap().lid();
    let local = client.local();
    let to = Address::gmp(lid, 0, local.pkey_index.unwrap());
    let reply = client.ask(to, Mad::perf_port(PortCounters::ID, 2, 0));
    let ours = PortCounters::parse(&reply.view()).unwrap();
    let text = fabric.tool(&host, "perfquery", &[&lid.to_string(), "2"]);
    let theirs = |name| number(&dotted(&text, name));
    assert_eq!(theirs("SymbolErrorCounter"), 65_535, "{text}");
    assert_eq!(u64::from(ours.symbol_error()), theirs("SymbolErrorCounter"));
    let recovery = theirs("LinkErrorRecoveryCounter");
    assert_eq!(u64::from(ours.link_error_recovery()), recovery);
    assert_eq!(u64::from(ours.link_downed()), theirs("LinkDownedCounter"));
    assert_eq!(u64::from(ours.rcv_errors()), theirs("PortRcvErrors"));
    assert_eq!(u64::from(ours.vl15_dropped()), theirs("VL15Dropped"));
    let overruns = theirs("ExcessiveBufferOverrunErrors");
    assert_eq!(u64::from(ours.excessive_buffer_overrun()), overruns);
}

fn path_record() {
    let fabric = small(true);
    let host = FatTree::host(3);
    let mut client = Client::new(fabric.attach(&host, false));
    let (local, sa) = (client.local(), client.sa());
    // The path to the host where opensm runs, whose LID is the SM's.
    let mut ask = PathRecord::new();
    ask.set_slid(local.lid)
        .set_dlid(local.sm_lid)
        .set_numb_path(1);
    let mask = component::PATH_SLID | component::PATH_DLID | component::PATH_NUMB_PATH;
    let mut mad = Mad::sa(Method::Get, PathRecord::ID, 0, mask, 0);
    mad.set_data(&ask);
    let reply = client.ask(sa, mad);
    assert!(reply.status().is_ok(), "{reply}");
    let ours = PathRecord::parse(&reply.view()).unwrap();
    let (slid, dlid) = (local.lid.to_string(), local.sm_lid.to_string());
    let text = fabric.tool(&host, "saquery", &["-p", "--slid", &slid, "--dlid", &dlid]);
    let theirs = |name: &str| {
        let line = text.lines().find(|l| l.trim().starts_with(name)).unwrap();
        number(line.trim().trim_start_matches(name).trim_matches('.'))
    };
    assert_eq!(u64::from(ours.slid()), theirs("slid"));
    assert_eq!(u64::from(ours.dlid()), theirs("dlid"));
    assert_eq!(u64::from(ours.sl()), theirs("sl."));
    assert_eq!(u64::from(ours.mtu().code()), theirs("mtu") & 0x3f);
    assert_eq!(u64::from(ours.rate().code()), theirs("rate") & 0x3f);
}

/// ibsim gives a MAD that it cannot answer back with status 110, and does so long before any
/// timeout: the deadline here would not come within the test's patience.
fn unknown() {
    let fabric = small(false);
    let mut client = Client::new(fabric.attach(&FatTree::host(1), false));
    let tid = client.send(Address::directed(), get_dr(0x00FE, 0, &[1]), u32::MAX);
    let back = client.await_arrival("the MAD's return", |_| true);
    let Arrival::Unanswered {
        tid: t,
        class,
        errno,
    } = back
    else {
        panic!("{back:?}");
    };
    assert_eq!((t, class, errno), (tid, 0x81, 110));
    assert_eq!(client.port.due(), None);
}

/// A MAD for an IsSM client that stays silent is lost without a word: the port's own deadline
/// reports it. Time is an argument, so none passes here.
fn silence() {
    let fabric = small(false);
    let silent = fabric.attach("leaf000", true);
    let mut client = Client::new(fabric.attach(&FatTree::host(0), false));
    let sent = client.now();
    let mad = get_dr(0x0020, 0, &[1]);
    let tid = client.send(Address::directed(), mad, 500);
    let due = client.port.due().unwrap();
    assert!(due >= sent + Duration::from_millis(500));
    assert!(client.port.recv(sent).unwrap().is_none());
    let late = client.port.recv(due).unwrap();
    let Some(Arrival::Unanswered {
        tid: t,
        class,
        errno,
    }) = late
    else {
        panic!("{late:?}");
    };
    assert_eq!((t, class, errno), (tid, 0x81, 110));
    assert!(client.port.recv(due).unwrap().is_none());
    drop(silent);
}

fn window() {
    let fabric = small(false);
    let _silent = fabric.attach("leaf000", true);
    let mut client = Client::new(fabric.attach(&FatTree::host(0), false));
    let start = Instant::now();
    let mut sent = 0u32;
    // The server takes some while to read; until 256 are out, a full socket is no refusal.
    let refused = loop {
        let out = Outgoing {
            addr: Address::directed(),
            mad: Mad::smp_dr(Method::Get, 0x0020, 0, &[1], u64::from(sent)).unwrap(),
            timeout_ms: 1_000,
        };
        match client.port.send(Stamp::ZERO, &out) {
            Ok(()) => sent += 1,
            Err(PortError::WouldBlock) if sent < 256 => {
                assert!(start.elapsed() < PATIENCE);
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => break e,
        }
    };
    assert_eq!((sent, refused), (256, PortError::WouldBlock));
    // Their time over, all are reported and there is room again.
    let mut lost = 0;
    while let Some(arrival) = client.port.recv(Stamp::from_secs(1)).unwrap() {
        assert!(matches!(arrival, Arrival::Unanswered { .. }));
        lost += 1;
    }
    assert_eq!(lost, 256);
}

/// 20,000 MADs with up to 256 in flight, control questions among them: nothing lost, nothing
/// stuck.
fn many() {
    const ALL: u32 = 20_000;
    let fabric = small(false);
    let mut client = Client::new(fabric.attach(&FatTree::host(0), false));
    let start = Instant::now();
    let (mut sent, mut seen) = (0u32, vec![false; ALL as usize]);
    let mut answered = 0;
    while answered < ALL {
        assert!(start.elapsed() < PATIENCE, "{answered} of {sent} answered");
        while sent < ALL {
            let out = Outgoing {
                addr: Address::directed(),
                mad: Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1, 5], u64::from(sent)).unwrap(),
                timeout_ms: 600_000,
            };
            match client.port.send(client.now(), &out) {
                Ok(()) => sent += 1,
                Err(PortError::WouldBlock) => break,
                Err(e) => panic!("{e}"),
            }
            if sent.is_multiple_of(1_000) {
                client.local();
            }
        }
        while let Some(arrival) = client.port.recv(client.now()).unwrap() {
            let Arrival::Mad { mad, .. } = arrival else {
                panic!("{arrival:?}");
            };
            let at = mad.tid_low() as usize;
            assert!(!seen[at], "answered twice");
            seen[at] = true;
            answered += 1;
        }
    }
}

/// `sminfo` reads what the IsSM client answers, by LID and by directed route.
fn sm_info() {
    let fabric = small(true);
    let mut client = Client::new(fabric.attach(&FatTree::host(7), true));
    let local = client.local();
    let mut info = SmInfo::new();
    info.set_guid(local.port_guid)
        .set_act_count(9)
        .set_state(SmState::NotActive);
    // From host 2, on leaf 0, to host 7, on leaf 1.
    for to in [&[&*local.lid.to_string()][..], &["-D", "0,1,5,2,4"]] {
        let sminfo = common::foreign::find_program("sminfo").unwrap();
        let tool = fabric
            .shimmed(sminfo, &FatTree::host(2))
            .args(to)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = client.await_arrival("Get(SMInfo)", |_| true);
        let Arrival::Mad { addr, mad } = ask else {
            panic!("{ask:?}");
        };
        assert_eq!((mad.method(), mad.attr_id()), (Method::Get, SmInfo::ID));
        let mut answer = Mad::reply(&mad.view(), &info);
        if mad.class() == MgmtClass::SubnDirected {
            // As the kernel wants it: a response begins at the far end of its route.
            answer.set_hop_pointer(mad.hop_count() + 1);
        }
        let out = Outgoing {
            addr,
            mad: answer,
            timeout_ms: 0,
        };
        client.port.send(client.now(), &out).unwrap();
        let text = text_of("sminfo", &tool.wait_with_output().unwrap());
        assert!(text.contains("SMINFO_NOTACT"), "{text}");
        let guid = format!("sm guid {:#x}, activity count 9", local.port_guid);
        assert!(text.contains(&guid), "{text}");
    }
}

/// PortSamplesControl of the port where opensm runs: ibsim would hand it to opensm's preloaded
/// library, which crashes on it.
fn survival() {
    let fabric = small(true);
    let mut client = Client::new(fabric.attach(&FatTree::host(11), false));
    let sa = client.sa();
    let tid = client.send(sa, Mad::perf_port(0x10, 1, 0), 60_000);
    let back = client.await_arrival("the MAD's return", |_| true);
    let Arrival::Unanswered {
        tid: t,
        class,
        errno,
    } = back
    else {
        panic!("{back:?}");
    };
    assert_eq!((t, class, errno), (tid, 0x04, 110));
    // The SA still answers.
    client.ask(sa, Mad::sa(Method::Get, ClassPortInfo::ID, 0, 0, 0));
}

/// The subscription to notices at opensm's SA; opensm forwards the switch's trap 128 as a Report
/// and goes on sweeping.
fn reports() {
    let mut fabric = small(true);
    let mut client = Client::new(fabric.attach(&FatTree::host(15), true));
    assert!(
        client
            .port
            .agents()
            .iter()
            .any(|a| a.agent == Agent::SubnAdm && a.reports)
    );
    let sa = client.sa();
    let mut mad = Mad::sa(Method::Set, InformInfo::ID, 0, 0, 0);
    mad.set_data(&InformInfo::all_generic(true));
    let reply = client.ask(sa, mad);
    assert!(reply.status().is_ok(), "{reply}");

    let path = [1, 5, 1];
    let reply = client.ask(Address::directed(), get_dr(PortInfo::ID, 0, &path));
    let leaf0 = PortInfo::parse(&reply.view()).unwrap().lid();
    for line in ["Unlink \"leaf000\"[3]", "ReLink \"leaf000\"[3]"] {
        fabric.console(line);
        let report = client.await_arrival("a Report of trap 128", |a| match a {
            Arrival::Mad { mad, .. } => {
                mad.class() == MgmtClass::SubnAdm
                    && mad.method() == Method::Report
                    && ReportedNotice::parse(&mad.view())
                        .is_ok_and(|n| n.notice().trap_number() == 128)
            }
            _ => false,
        });
        let Arrival::Mad { addr, mad } = report else {
            unreachable!()
        };
        let notice = ReportedNotice::parse(&mad.view()).unwrap().notice();
        assert_eq!(notice.issuer_lid(), leaf0);
        assert_eq!(addr.lid, sa.lid);
        let answer = Outgoing {
            addr,
            mad: Mad::report_resp(&mad.view()),
            timeout_ms: 0,
        };
        client.port.send(client.now(), &answer).unwrap();
    }
    // The link that came back is made Active again: opensm sweeps on.
    wait_for("the link to become Active", || {
        let reply = client.ask(Address::directed(), get_dr(PortInfo::ID, 3, &[1, 5, 1]));
        let info = PortInfo::parse(&reply.view()).unwrap();
        info.port_state().code() == 4
    });
}

fn refusal(result: Result<IbsimPort, PortError>) -> String {
    match result {
        Ok(port) => panic!("attached at {:?}", port.node()),
        Err(e) => e.to_string(),
    }
}

fn no_server() {
    let server = Server::Local {
        base: "fabtop-test-nobody".to_owned(),
    };
    let text = refusal(IbsimPort::attach_to(server, None, false));
    assert!(text.contains("fabtop-test-nobody"), "{text}");
    assert!(text.contains("start ibsim first"), "{text}");
}

fn no_node() {
    let fabric = small(false);
    let text = refusal(IbsimPort::attach_to(
        fabric.server(),
        Some("nowhere"),
        false,
    ));
    assert!(
        text.ends_with("its fabric has no node \"nowhere\""),
        "{text}"
    );
    let text = refusal(IbsimPort::attach_to(fabric.server(), Some("nowhere"), true));
    assert!(
        text.ends_with("its fabric has no node \"nowhere\""),
        "{text}"
    );
    let long = "a name of more than thirty-one bytes";
    let text = refusal(IbsimPort::attach_to(fabric.server(), Some(long), false));
    assert!(text.contains("at most 31 bytes"), "{text}");
}

fn role_taken() {
    let fabric = small(false);
    let host = FatTree::host(4);
    let _first = fabric.attach(&host, true);
    let text = refusal(IbsimPort::attach_to(fabric.server(), Some(&host), true));
    assert!(
        text.contains("another client holds the IsSM role"),
        "{text}"
    );
    // Without the role there is room at that node.
    fabric.attach(&host, false);
}

fn full() {
    let fabric = small(false);
    let mut all: Vec<IbsimPort> = (0..10)
        .map(|n| fabric.attach(&FatTree::host(n), false))
        .collect();
    for node in [None, Some("leaf000"), Some("nowhere")] {
        let text = refusal(IbsimPort::attach_to(fabric.server(), node, false));
        assert!(
            text.contains("all ten of its client slots are taken"),
            "{text}"
        );
    }
    all.pop();
    let mut client = Client::new(fabric.attach("leaf000", false));
    let reply = client.ask(Address::directed(), get_dr(NodeDescription::ID, 0, &[]));
    let text = NodeDescription::parse(&reply.view()).unwrap();
    assert_eq!(text.text(), "leaf000");
}

fn gone() {
    let mut fabric = small(false);
    let mut client = Client::new(fabric.attach(&FatTree::host(0), false));
    fabric.kill();
    let gone = |result: Result<(), PortError>| matches!(result, Err(PortError::Gone { .. }));
    let out = Outgoing {
        addr: Address::directed(),
        mad: get_dr(NodeInfo::ID, 0, &[]),
        timeout_ms: 100,
    };
    assert!(gone(client.port.send(Stamp::ZERO, &out)));
    assert!(gone(client.port.recv(Stamp::ZERO).map(|_| ())));
    assert!(gone(client.port.local(Stamp::ZERO).map(|_| ())));
    assert_eq!(client.port.fd(), None);
    assert!(client.port.reopen().is_err());
    fabric.restart();
    client.port.reopen().unwrap();
    client.ask(Address::directed(), get_dr(NodeInfo::ID, 0, &[]));
}

fn udp() {
    let fabric = IbsimFabric::start_udp(&FatTree::SMALL.net());
    let host = FatTree::host(2);
    let mut client = Client::new(fabric.attach(&host, false));
    let reply = client.ask(Address::directed(), get_dr(NodeDescription::ID, 0, &[]));
    let text = NodeDescription::parse(&reply.view()).unwrap();
    assert_eq!(text.text(), host);
    assert_eq!(client.local().port, 1);
}
