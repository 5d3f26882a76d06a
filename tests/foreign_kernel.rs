//! The adapter to the umad device on a real kernel: Debian's, in a virtual machine with two
//! soft-RoCE ports at the ends of one cable (see `src/umad/tests/kernel/run`). These ports have
//! no QP0, so SMPs are refused there; everything of QP1 is real.
//!
//! The machine is booted once and runs this same program inside; each case there is a test here.
//!
//! `saquery` runs there too, against the built-in SA's answers: with a small library before it
//! (`tests/kernel/grh.c`) that gives it an SM's LID and each MAD a GRH, both of which soft-RoCE
//! lacks and saquery has no option for.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::env;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use common::foreign::{find_program, main as run, trial_unless};
use fabtop::mad::{Mad, Method, MgmtClass, Status};
use fabtop::port::{
    Address, Agent, Arrival, Grh, MadPort, Outgoing, PortError, Source, Stamp, UmadPort, Waker,
};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/umad/tests/kernel/run");

/// The argument that says: this is the machine inside.
const IN_GUEST: &str = "--in-guest";

const CASES: &[(&str, fn())] = &[
    ("only_ethernet_is_told", only_ethernet),
    ("unknown_names_are_told", unknown_names),
    ("smp_classes_are_refused_the_rest_works", agents),
    ("one_monitor_a_port_gets_reports", reports_are_exclusive),
    ("a_report_and_its_answer", round_trip),
    ("silence_is_reported_by_the_kernel", silence),
    ("an_unowned_class_answers_unsupported", unowned),
    ("a_long_message_arrives_whole", long_message),
    ("sa_tables_come_whole_over_the_kernels_rmpp", sa_tables),
    (SAQUERY, saquery_tables),
    ("a_removed_device_is_gone_and_returns", removal),
];

/// Needs more than the machine.
const SAQUERY: &str = "saquery_reads_whole_tables_over_the_kernels_rmpp";

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some(IN_GUEST) {
        return guest();
    }
    let missing = Command::new(SCRIPT).arg("--missing").output();
    let missing = match missing {
        Ok(out) => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        Err(e) => e.to_string(),
    };
    let missing = (!missing.is_empty()).then(|| format!("missing: {missing}"));
    let console = Arc::new(OnceLock::new());
    let trials = CASES.iter().map(|&(name, _)| {
        let console = Arc::clone(&console);
        let missing = match name {
            SAQUERY => missing.clone().or_else(saquery_missing),
            _ => missing.clone(),
        };
        trial_unless(missing, name, move || {
            outcome(name, console.get_or_init(boot));
        })
    });
    run(trials.collect())
}

/// What keeps saquery from running in the machine.
fn saquery_missing() -> Option<String> {
    let tools = [("saquery", "infiniband-diags"), ("cc", "gcc")];
    let missing = tools
        .into_iter()
        .find(|(tool, _)| find_program(tool).is_none());
    missing.map(|(tool, package)| format!("{tool} is missing (package {package})"))
}

/// saquery and what goes before it, where both can be had.
fn with_saquery(command: &mut Command, dir: &Path) {
    if saquery_missing().is_some() {
        return;
    }
    let library = dir.join("grh.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/grh.c");
    let mut cc = Command::new("cc");
    let status = cc
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl");
    assert!(status.status().unwrap().success());
    for file in [find_program("saquery").unwrap(), library] {
        command.arg("--add").arg(file);
    }
}

fn boot() -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(SCRIPT);
    with_saquery(&mut command, dir.path());
    let out = command
        .arg(env::current_exe().unwrap())
        .arg(IN_GUEST)
        .output()
        .unwrap();
    [out.stdout, out.stderr]
        .map(|raw| String::from_utf8_lossy(&raw).into_owned())
        .join("\n")
}

fn outcome(name: &str, console: &str) {
    let wanted = format!("CASE {name} ");
    match console.lines().find_map(|l| l.strip_prefix(&wanted)) {
        Some("ok") => {}
        Some(other) => panic!("{other}\n{console}"),
        None => panic!("the guest did not get there:\n{console}"),
    }
}

#[allow(clippy::print_stdout, reason = "the host reads the guest's console")]
fn guest() -> ExitCode {
    for (name, case) in CASES {
        if *name == SAQUERY && !Path::new("/bin/saquery").exists() {
            continue;
        }
        let result = catch_unwind(case);
        let word = if result.is_ok() { "ok" } else { "failed" };
        println!("CASE {name} {word}");
    }
    ExitCode::SUCCESS
}

fn open(number: u8) -> UmadPort {
    UmadPort::open(Some(&format!("rxe{number}")), Some(1)).unwrap()
}

/// Soft-RoCE wants a GRH; GID 0 is the link-local address, made of the cable end's MAC address
/// 02:00:00:00:00:0N (the `run` script sets it; EUI-64 inverts bit 1 of the first byte).
fn address(number: u8) -> Address {
    let end = number + 1;
    Address {
        grh: Some(Grh {
            gid: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, end],
            gid_index: 0,
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
        }),
        ..Address::gmp(0, 0, 0)
    }
}

fn report(tid: u64) -> Mad {
    Mad::sa(Method::Report, 0x0002, 0, 0, tid)
}

fn send(port: &mut UmadPort, addr: Address, mad: Mad, timeout_ms: u32) {
    let out = Outgoing {
        addr,
        mad,
        timeout_ms,
    };
    port.send(Stamp::ZERO, &out).unwrap();
}

/// The next arrival, waited for by the port's own means.
fn next(port: &mut UmadPort) -> Arrival {
    let waker = Waker::new().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(arrival) = port.recv(Stamp::ZERO).unwrap() {
            return arrival;
        }
        assert!(Instant::now() < until, "nothing arrives");
        port.wait(&waker, Duration::from_secs(30)).unwrap();
    }
}

fn next_mad(port: &mut UmadPort) -> (Address, Mad) {
    match next(port) {
        Arrival::Mad { addr, mad } => (addr, mad),
        other => panic!("{other:?}"),
    }
}

fn only_ethernet() {
    let error = UmadPort::open(None, None).unwrap_err().to_string();
    assert!(error.contains("only Ethernet ports here"), "{error}");
    assert!(error.contains("rxe0/1"), "{error}");
}

fn unknown_names() {
    let error = UmadPort::open(Some("mlx5_0"), None).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("mlx5_0") && text.contains("rxe0"), "{text}");
    let error = UmadPort::open(Some("rxe0"), Some(7)).unwrap_err();
    assert!(error.to_string().contains("no port 7"), "{error}");
}

fn agents() {
    let mut port = open(0);
    for report in port.agents() {
        let refused = report.refused.unwrap_or_default();
        match report.agent {
            Agent::SmpDirected | Agent::SmpLid => {
                assert!(refused.contains("EPROTONOSUPPORT"), "{refused}");
            }
            Agent::SubnAdm | Agent::Perf => assert_eq!(refused, ""),
        }
        assert_eq!(report.reports, report.agent == Agent::SubnAdm);
    }
    let out = Outgoing {
        addr: Address::directed(),
        mad: Mad::smp_dr(Method::Get, 0x11, 0, &[], 1).unwrap(),
        timeout_ms: 100,
    };
    match port.send(Stamp::ZERO, &out) {
        Err(PortError::NoAgent { class: 0x81, why }) => {
            assert!(why.contains("EPROTONOSUPPORT"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    let local = port.local(Stamp::ZERO).unwrap();
    assert_eq!((&*local.ca, local.port, local.state), ("rxe0", 1, 4));
    assert_eq!(local.gid_prefix, 0xfe80 << 48);
    assert_eq!((local.pkey_index, local.pkey_limited), (Some(0), false));
    assert_eq!(port.local(Stamp::ZERO).unwrap(), local);
    let Source::Umad { device, shim } = port.source() else {
        panic!("{:?}", port.source());
    };
    assert!(device.starts_with("/dev/infiniband/umad"), "{device}");
    assert!(!shim && port.poll_limit().is_none());
}

fn reports_are_exclusive() {
    let sa = |port: &UmadPort| {
        let mut all = port.agents().into_iter();
        all.find(|r| r.agent == Agent::SubnAdm).unwrap()
    };
    let first = open(0);
    let second = open(0);
    assert!(sa(&first).reports);
    assert_eq!(sa(&second).refused, None);
    assert!(!sa(&second).reports);
    drop((first, second));
    assert!(sa(&open(0)).reports);
}

fn round_trip() {
    let (mut near, mut far) = (open(0), open(1));
    send(&mut near, address(1), report(0x1111_2222_3333_4444), 10_000);
    let (from, asked) = next_mad(&mut far);
    assert_eq!(asked.method(), Method::Report);
    assert_eq!(asked.tid_low(), 0x3333_4444);
    assert_eq!((from.qpn, from.qkey), (1, 0x8001_0000));
    // What came can be answered to where it came from.
    let grh = from.grh.unwrap();
    assert_eq!(grh.gid, address(0).grh.unwrap().gid);
    let mut answer = Mad::report_resp(&asked.view());
    answer.set_status(Status(0x1c));
    let to = Address {
        grh: Some(Grh {
            gid_index: 0,
            ..grh
        }),
        ..from
    };
    send(&mut far, to, answer, 0);
    let (_, got) = next_mad(&mut near);
    assert_eq!(got.method(), Method::ReportResp);
    assert_eq!(got.tid_low(), 0x3333_4444);
    assert_eq!(got.status(), Status(0x1c));
}

fn silence() {
    let (mut near, _far) = (open(0), open(1));
    send(&mut near, address(1), report(77), 50);
    match next(&mut near) {
        Arrival::Unanswered { tid, class, errno } => {
            assert_eq!((tid, class, errno), (77, 0x03, 110));
        }
        other => panic!("{other:?}"),
    }
}

/// A Get that nobody owns is answered by the kernel: status 0x000C.
fn unowned() {
    let (mut near, _far) = (open(0), open(1));
    send(&mut near, address(1), Mad::perf_port(0x12, 1, 5), 10_000);
    let (_, got) = next_mad(&mut near);
    assert_eq!(got.class(), MgmtClass::Perf);
    assert_eq!((got.tid_low(), got.status()), (5, Status(0x000c)));
}

/// An answer of 4,000 bytes goes through the kernel's RMPP in both directions.
fn long_message() {
    let (mut near, mut far) = (open(0), open(1));
    for len in [300, 4_000, 100_000] {
        send(&mut near, address(1), report(len as u64), 20_000);
        let (from, asked) = next_mad(&mut far);
        let mut bytes: Vec<u8> = (0..len).map(|n: usize| (n % 251) as u8).collect();
        bytes[..56].copy_from_slice(&asked.bytes()[..56]);
        bytes[3] = 0x86;
        // RMPP version 1, type data, active.
        bytes[24..27].copy_from_slice(&[1, 1, 1]);
        let answer = Mad::from_bytes(&bytes).unwrap();
        let to = Address {
            grh: Some(Grh {
                gid_index: 0,
                ..from.grh.unwrap()
            }),
            ..from
        };
        send(&mut far, to, answer, 0);
        let (_, got) = next_mad(&mut near);
        assert_eq!(got.len(), len);
        assert_eq!(got.bytes()[56..], bytes[56..]);
    }
}

/// Whole tables of the built-in simulator's SA, asked for at one end of the cable and answered at
/// the other: segments, windows and acknowledgements are the kernel's.
/// What the simulator answers, in its own time.
fn answer(sim: &mut fabtop::sim::SimPort, now: &mut Stamp, ask: &Mad) -> Mad {
    let out = Outgoing {
        addr: Address::gmp(sim.local(*now).unwrap().sm_lid, 0, 0),
        mad: ask.clone(),
        timeout_ms: 60_000,
    };
    sim.send(*now, &out).unwrap();
    loop {
        match sim.recv(*now).unwrap() {
            Some(Arrival::Mad { mad, .. }) if mad.tid_low() == ask.tid_low() => return mad,
            Some(_) => {}
            None => *now = sim.due().unwrap(),
        }
    }
}

fn sa_tables() {
    use fabtop::fabric::sa::SaTable;
    use fabtop::mad::{is_whole_table, raw_records};
    use fabtop::sim::{SimOptions, SimPort, default_fabric};
    use umad::{Buffer, Recv, Registration, Reply};

    let mut near = open(0);
    let far = umad::Port::open(&umad::Select::exact("rxe1", 1)).unwrap();
    let get_table = Method::GetTable.code();
    let sa = Registration::client(0x03).receiving(&[get_table]);
    let agent = far.register(&sa).unwrap();
    let mut sim = SimPort::new(default_fabric(), SimOptions::healthy()).unwrap();
    let mut now = Stamp::ZERO;
    let mut largest = 0;
    for (number, table) in SaTable::ALL.into_iter().enumerate() {
        let tid = 0x700 + number as u64;
        let ask = Mad::sa(Method::GetTable, table.id(), 0, 0, tid);
        let reply = answer(&mut sim, &mut now, &ask);
        send(&mut near, address(1), ask, 20_000);
        assert!(far.poll(Some(Duration::from_secs(20))).unwrap());
        let mut buffer = Buffer::new();
        let (from, upper) = match far.recv(&mut buffer).unwrap() {
            Recv::Mad { from, mad, .. } => (from, mad[8..12].to_vec()),
            other => panic!("{other:?}"),
        };
        let mut bytes = reply.bytes().to_vec();
        bytes[8..12].copy_from_slice(&upper);
        far.send(agent.id(), &from, &bytes, Reply::None).unwrap();
        let (_, got) = next_mad(&mut near);
        assert!(is_whole_table(&got), "{}: {got}", table.name());
        let (ours, theirs) = (got.view(), reply.view());
        assert!(
            raw_records(&ours).eq(raw_records(&theirs)),
            "{}",
            table.name()
        );
        largest = largest.max(got.len());
    }
    // PortInfoRecords of some 600 ports: 200 segments and more.
    assert!(largest > 40_000, "{largest}");
}

/// What the installed saquery prints for a table that the built-in SA answers, over the kernel's
/// RMPP on both sides.
fn saquery(
    far: &umad::Port,
    agent: umad::AgentId,
    sim: &mut fabtop::sim::SimPort,
    now: &mut Stamp,
    table: &str,
) -> String {
    use std::io::Read;
    use umad::{Buffer, Recv, Reply};

    let mut child = Command::new("/bin/saquery")
        .args(["-C", "rxe0", "-P", "1", "-t", "20000", table])
        .env("LD_PRELOAD", "/bin/grh.so")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(far.poll(Some(Duration::from_secs(20))).unwrap(), "{table}");
    let mut buffer = Buffer::new();
    let (from, asked) = match far.recv(&mut buffer).unwrap() {
        Recv::Mad { from, mad, .. } => (from, Mad::from_bytes(mad).unwrap()),
        other => panic!("{other:?}"),
    };
    let reply = answer(sim, now, &asked);
    let mut bytes = reply.bytes().to_vec();
    bytes[8..12].copy_from_slice(&asked.bytes()[8..12]);
    far.send(agent, &from, &bytes, Reply::None).unwrap();
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{table}: {text}");
    text
}

/// Its records: the values by name of each.
fn records_of(text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let parts = text.split("Record dump:").skip(1);
    parts
        .map(|part| {
            let lines = part.lines().filter_map(|l| l.trim().split_once(".."));
            lines
                .map(|(name, value)| {
                    let name = name.trim_end_matches(':').to_lowercase();
                    (name, value.trim_start_matches('.').to_owned())
                })
                .collect()
        })
        .collect()
}

fn saquery_tables() {
    use fabtop::fabric::sa::SaTable;
    use fabtop::mad::{Attribute, LinkRecord, NodeRecord, PortInfoRecord, records};
    use fabtop::sim::{SimOptions, SimPort, default_fabric};
    use umad::Registration;

    let far = umad::Port::open(&umad::Select::exact("rxe1", 1)).unwrap();
    let get_table = Method::GetTable.code();
    let sa = Registration::client(0x03).receiving(&[get_table]);
    let agent = far.register(&sa).unwrap();
    let mut sim = SimPort::new(default_fabric(), SimOptions::healthy()).unwrap();
    let mut now = Stamp::ZERO;
    // What our own decoder makes of the same tables.
    let ours = |table: SaTable| {
        let mut sim = SimPort::new(default_fabric(), SimOptions::healthy()).unwrap();
        let ask = Mad::sa(Method::GetTable, table.id(), 0, 0, 0x900);
        answer(&mut sim, &mut Stamp(0), &ask)
    };
    let number = common::client::number;
    let mut ask = |table: &str| records_of(&saquery(&far, agent.id(), &mut sim, &mut now, table));

    let theirs: Vec<(u64, u64, u64, String)> = ask("NR")
        .iter()
        .map(|r| {
            let of = |name: &str| number(&r[name]);
            let name = r["nodedescription"].clone();
            (of("lid"), of("node_guid"), of("port_guid"), name)
        })
        .collect();
    let reply = ours(SaTable::Nodes);
    let nodes: Vec<_> = records::<NodeRecord>(&reply.view())
        .map(|r| {
            let info = r.node_info();
            let name = r.description().text().to_string();
            (u64::from(r.lid()), info.node_guid(), info.port_guid(), name)
        })
        .collect();
    assert_eq!(theirs, nodes);
    // 67 adapters, two of them with two ports, and 12 switches: 81 records of 112 bytes.
    assert_eq!(theirs.len(), 81);

    let theirs: Vec<[u64; 4]> = ask("LR")
        .iter()
        .map(|r| ["fromlid", "fromport", "toport", "tolid"].map(|name| number(&r[name])))
        .collect();
    let reply = ours(SaTable::Links);
    let links: Vec<[u64; 4]> = records::<LinkRecord>(&reply.view())
        .map(|r| {
            let (from, to) = (u64::from(r.from_lid()), u64::from(r.to_lid()));
            [from, u64::from(r.from_port()), u64::from(r.to_port()), to]
        })
        .collect();
    assert_eq!(theirs, links);
    assert!(theirs.len() > 150, "{}", theirs.len());

    let theirs: Vec<[u64; 5]> = ask("PIR")
        .iter()
        .map(|r| ["endportlid", "portnum", "lid", "smlid", "capmask"].map(|name| number(&r[name])))
        .collect();
    let reply = ours(SaTable::Ports);
    let ports: Vec<[u64; 5]> = records::<PortInfoRecord>(&reply.view())
        .map(|r| {
            let info = r.port_info();
            let lids = [r.lid(), u16::from(r.port()), info.lid(), info.sm_lid()];
            let [end, port, lid, sm] = lids.map(u64::from);
            [end, port, lid, sm, u64::from(info.cap_mask().0)]
        })
        .collect();
    assert_eq!(theirs, ports);
    // Over 200 segments.
    assert!(
        theirs.len() * PortInfoRecord::LEN > 40_000,
        "{}",
        theirs.len()
    );
}

fn rdma(args: &[&str]) {
    let status = Command::new("/bin/rdma").args(args).status().unwrap();
    assert!(status.success(), "rdma {args:?}");
}

fn removal() {
    let mut port = open(1);
    rdma(&["link", "delete", "rxe1"]);
    let gone = |result: Result<(), PortError>| match result {
        Err(PortError::Gone { device }) => assert!(device.contains("rxe1/1"), "{device}"),
        other => panic!("{other:?}"),
    };
    let waker = Waker::new().unwrap();
    gone(port.wait(&waker, Duration::from_secs(30)));
    gone(port.recv(Stamp::ZERO).map(|_| ()));
    gone(port.local(Stamp::ZERO).map(|_| ()));
    let out = Outgoing {
        addr: address(0),
        mad: report(1),
        timeout_ms: 100,
    };
    gone(port.send(Stamp::ZERO, &out));
    assert!(port.reopen().is_err());
    rdma(&["link", "add", "rxe1", "type", "rxe", "netdev", "v1"]);
    let until = Instant::now() + Duration::from_secs(30);
    while port.reopen().is_err() || port.local(Stamp::ZERO).map(|l| l.state) != Ok(4) {
        assert!(Instant::now() < until, "the device does not return");
        std::thread::yield_now();
    }
    // The write itself finds that a device is gone, too.
    rdma(&["link", "delete", "rxe1"]);
    gone(port.send(Stamp::ZERO, &out));
    rdma(&["link", "add", "rxe1", "type", "rxe", "netdev", "v1"]);
}
