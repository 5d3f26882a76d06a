//! The adapter to the umad device, with ibsim's preloaded library in the kernel's place.
//!
//! A preloaded library cannot be put under a process that runs: each test starts this program
//! again with it, and that inner run is the test.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use common::client::{Client, get_dr, number};
use common::fabric::FatTree;
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options, dotted, text_of};
use fabtop::mad::{
    Attribute, Mad, Method, MgmtClass, NodeDescription, NodeInfo, PathRecord, PortCounters,
    PortInfo, component,
};
use fabtop::port::{
    Address, Arrival, MadPort, Outgoing, PortError, Source, Stamp, UmadPort, Waker,
};

/// Names the inner test to run.
const INNER: &str = "FABTOP_TEST_INNER";

fn main() -> ExitCode {
    if let Ok(name) = env::var(INNER) {
        match &*name {
            "describe" => describe(),
            "ask" => ask(),
            "limits" => limits(),
            _ => panic!("no inner test {name}"),
        }
        return ExitCode::SUCCESS;
    }
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![
        trial("local_port_equals_smpquerys", &all, local_port),
        // The library that others preload and the simulator behind it run in our CI.
        trial(
            "field_report_25_the_simulator_answers_through_its_library",
            &all,
            answers,
        ),
        trial(
            "at_most_256_in_flight_and_own_deadlines",
            &[IBSIM, Need::Shim],
            || {
                inner(&small(false), "limits", &[]);
            },
        ),
    ])
}

fn small(sm: bool) -> IbsimFabric {
    IbsimFabric::start(&FatTree::SMALL.net(), Options { sm })
}

/// The host where the inner tests run.
fn host() -> String {
    FatTree::host(5)
}

fn inner(fabric: &IbsimFabric, test: &str, env: &[(&str, &str)]) -> String {
    let output = fabric
        .shimmed(env::current_exe().unwrap(), &host())
        .env(INNER, test)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    text_of(test, &output)
}

fn client() -> Client<UmadPort> {
    Client::new(UmadPort::open(None, None).unwrap())
}

fn local_port() {
    let fabric = small(true);
    let ours = inner(&fabric, "describe", &[]);
    let port = fabric.tool(&host(), "smpquery", &["-D", "portinfo", "0", "1"]);
    let node = fabric.tool(&host(), "smpquery", &["-D", "nodeinfo", "0"]);
    for (name, theirs) in [
        ("node_guid", dotted(&node, "Guid")),
        ("port_guid", dotted(&node, "PortGuid")),
        ("gid_prefix", dotted(&port, "GidPrefix")),
        ("lid", dotted(&port, "Lid")),
        ("sm_lid", dotted(&port, "SMLid")),
        ("sm_sl", dotted(&port, "SMSL")),
        ("lmc", dotted(&port, "LMC")),
        ("cap_mask", dotted(&port, "CapMask")),
        ("port", "1".to_owned()),
        ("state", "4".to_owned()),
        ("pkey_index", "0".to_owned()),
    ] {
        assert_eq!(number(&dotted(&ours, name)), number(&theirs), "{name}");
    }
    assert_eq!(dotted(&ours, "ca"), "ibsim0");
}

/// Inner: prints the local port.
#[allow(clippy::print_stdout, reason = "the outer run reads it")]
fn describe() {
    let mut client = client();
    let local = client.local();
    println!("ca:{}\nport:{}\nlid:{}", local.ca, local.port, local.lid);
    println!(
        "node_guid:{}\nport_guid:{}",
        local.node_guid, local.port_guid
    );
    println!("gid_prefix:{}\nlmc:{}", local.gid_prefix, local.lmc);
    println!("sm_lid:{}\nsm_sl:{}", local.sm_lid, local.sm_sl);
    println!("state:{}\ncap_mask:{}", local.state, local.cap_mask);
    println!("pkey_index:{}", local.pkey_index.unwrap());
    // A second look gives the same, from the files that change.
    assert_eq!(client.local(), local);
    let Source::Umad { device, shim } = client.port.source() else {
        panic!("{:?}", client.port.source());
    };
    assert_eq!((&*device, shim), ("/dev/infiniband/umad0 (ibsim0/1)", true));
    let agents = client.port.agents();
    assert_eq!(agents.len(), 4);
    for report in agents {
        assert_eq!(report.refused, None);
        assert!(!report.reports, "ibsim delivers none here");
    }
}

fn answers() {
    let mut fabric = small(true);
    fabric.console("PerformanceSet \"leaf000\"[1] PortCounters.SymbolErrorCounter=77");
    let text = fabric.tool(&host(), "smpquery", &["-D", "nodeinfo", "0,1,5,1"]);
    inner(&fabric, "ask", &[("LEAF_GUID", &dotted(&text, "Guid"))]);
}

/// Inner: each of the four agents asks something.
fn ask() {
    let guid = number(&env::var("LEAF_GUID").unwrap());
    let mut client = client();
    let path = [1, 5, 1];
    let reply = client.ask(Address::directed(), get_dr(NodeInfo::ID, 0, &path));
    assert_eq!(NodeInfo::parse(&reply.view()).unwrap().node_guid(), guid);
    let reply = client.ask(Address::directed(), get_dr(NodeDescription::ID, 0, &path));
    let text = NodeDescription::parse(&reply.view()).unwrap();
    assert_eq!(text.text(), "leaf000");
    let reply = client.ask(Address::directed(), get_dr(PortInfo::ID, 0, &path));
    let lid = PortInfo::parse(&reply.view()).unwrap().lid();
    let reply = client.ask(
        Address::smp(lid),
        Mad::smp_lid(Method::Get, NodeInfo::ID, 0, 0),
    );
    assert_eq!(NodeInfo::parse(&reply.view()).unwrap().node_guid(), guid);

    let local = client.local();
    let to = Address::gmp(lid, 0, local.pkey_index.unwrap());
    let reply = client.ask(to, Mad::perf_port(PortCounters::ID, 1, 0));
    let counters = PortCounters::parse(&reply.view()).unwrap();
    assert_eq!(counters.symbol_error(), 77);

    let mut query = PathRecord::new();
    query
        .set_slid(local.lid)
        .set_dlid(local.sm_lid)
        .set_numb_path(1);
    let mask = component::PATH_SLID | component::PATH_DLID | component::PATH_NUMB_PATH;
    let mut mad = Mad::sa(Method::Get, PathRecord::ID, 0, mask, 0);
    mad.set_data(&query);
    let sa = client.sa();
    let reply = client.ask(sa, mad);
    let path = PathRecord::parse(&reply.view()).unwrap();
    assert!(reply.status().is_ok());
    assert_eq!((path.slid(), path.dlid()), (local.lid, local.sm_lid));

    // What ibsim cannot answer comes back at once, as the kernel's timeout would later.
    let tid = client.send(Address::directed(), get_dr(0x00FE, 0, &[1]), u32::MAX);
    let back = client.await_arrival("the MAD's return", |_| true);
    assert!(matches!(back, Arrival::Unanswered { tid: t, class: 0x81, errno: 110 } if t == tid));

    let mut strange = Mad::perf(Method::Get, 1, 0, 1);
    strange.set_class(MgmtClass::new(0x0A));
    let strange = Outgoing {
        addr: to,
        mad: strange,
        timeout_ms: 100,
    };
    let refused = client.port.send(Stamp::ZERO, &strange);
    assert!(matches!(
        refused,
        Err(PortError::NoAgent { class: 0x0A, .. })
    ));
}

/// Inner: nothing is read until the port refuses to send more.
fn limits() {
    let mut client = client();
    let waker = Waker::new().unwrap();
    let (mut sent, mut back) = (0u32, 0u32);
    let refused = loop {
        let out = Outgoing {
            addr: Address::directed(),
            mad: Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1], u64::from(sent)).unwrap(),
            timeout_ms: 1_000,
        };
        match client.port.send(Stamp::ZERO, &out) {
            Ok(()) => sent += 1,
            Err(e) => break e,
        }
    };
    assert_eq!((sent, refused), (256, PortError::WouldBlock));
    assert_eq!(client.port.due(), Some(Stamp::from_secs(1)));
    assert_eq!(client.port.poll_limit(), Some(Duration::from_millis(10)));
    while back < sent {
        client.port.wait(&waker, Duration::from_secs(10)).unwrap();
        while let Some(arrival) = client.port.recv(Stamp::ZERO).unwrap() {
            assert!(matches!(arrival, Arrival::Mad { .. }), "{arrival:?}");
            back += 1;
        }
    }
    assert_eq!(client.port.due(), None);
}
