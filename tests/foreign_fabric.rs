//! Whole sessions on ibsim's fabric, by the native client: what the model shows must be what
//! ibnetdiscover and perfquery say, and what ibsim's console does to the fabric must be seen.
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

mod common;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use common::client::number;
use common::fabric::FatTree;
use common::foreign::{DIAGS, IBSIM, Need, OPENSM, main as run, trial};
use common::ibsim::{IbsimFabric, Options, dotted};
use common::netdiscover::{End, Subnet};
use common::session::{Session, config};
use fabtop::event::SweepKind;
use fabtop::fabric::NodeKind;
use fabtop::model::Num;
use fabtop::model::view::FailureKind;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any test: that loop does not come round again.
const NEVER: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let all = [IBSIM, OPENSM, DIAGS, Need::Shim];
    run(vec![
        trial("discovery_equals_ibnetdiscovers", &all, discovery),
        trial("error_counters_equal_perfquerys", &all, counters),
        trial("unlinked_host_goes_and_comes_back", &all, unlink),
        trial("silent_host_and_only_it_times_out", &all, silent_host),
        trial("report_of_trap_128_rereads_the_switch", &all, trap),
        trial(
            "ended_server_is_told_and_its_return_too",
            &[IBSIM],
            server_ends,
        ),
    ])
}

fn small() -> IbsimFabric {
    IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: true })
}

/// What the model shows, in ibnetdiscover's terms.
fn subnet(session: &Session) -> Subnet {
    let mut subnet = Subnet::default();
    for node in session.model.topology().nodes() {
        let kind = match node.kind {
            NodeKind::Switch => 'S',
            NodeKind::Ca | NodeKind::Aggregation => 'H',
            NodeKind::Router => 'R',
            NodeKind::Unknown => '?',
        };
        let ports = node.external_ports().count() as u32;
        let name = session.model.name(node.id).to_owned();
        subnet.nodes.insert(node.id.guid.0, (kind, name, ports));
    }
    let rows = session.model.ports(session.now());
    let lids: BTreeMap<_, _> = rows.iter().map(|r| (r.key, r.lid)).collect();
    for row in &rows {
        let (Some(peer), Some(lid)) = (&row.peer, row.lid) else {
            continue;
        };
        let words = |width: Option<_>, speed: Option<_>| format!("{}{}", show(width), show(speed));
        let end = End {
            peer: peer.key.node.guid.0,
            peer_port: u32::from(peer.key.port),
            lid: u32::from(lid),
            peer_lid: u32::from(lids[&peer.key].unwrap()),
            rate: words(
                row.width.map(|w| w.to_string()),
                row.speed.map(|s| s.to_string()),
            ),
        };
        let key = (row.key.node.guid.0, u32::from(row.key.port));
        subnet.ends.insert(key, end);
    }
    subnet
}

fn show(text: Option<String>) -> String {
    text.unwrap_or_else(|| "?".to_owned())
}

/// Shown on the fat tree of 648 hosts: 702 nodes, 2,592 connected port ends.
fn discovery() {
    let fabric = IbsimFabric::start(&FatTree::LARGE.net(), Options { sm: true });
    let host = FatTree::host(300);
    let text = fabric.tool(&host, "ibnetdiscover", &[]);
    let theirs = Subnet::parse(&text);
    assert_eq!((theirs.nodes.len(), theirs.ends.len()), (702, 2_592));
    let port = fabric.attach(&host, false);
    let mut session = Session::start(port, config(NEVER, NEVER));
    session.until("the first discovery", |s| s.model.is_discovered());
    let ours = subnet(&session);
    assert_eq!(ours.nodes, theirs.nodes);
    for (key, end) in &theirs.ends {
        assert_eq!(ours.ends.get(key), Some(end), "{key:x?}");
    }
    assert_eq!(ours.ends.len(), theirs.ends.len());
    let size = session.model.header(session.now()).size;
    assert_eq!((size.cas, size.switches, size.links), (648, 54, 1_296));
    assert_eq!((size.connected, size.missing), (2_592, 0));
}

const SET: &[(&str, u8, &str, u64)] = &[
    ("leaf000", 1, "SymbolErrorCounter", 65_535),
    ("leaf001", 5, "PortXmitDiscards", 12),
    ("spine001", 3, "LinkDownedCounter", 255),
    ("node00007 mlx5_0", 1, "PortRcvErrors", 999),
    ("node00007 mlx5_0", 1, "VL15Dropped", 4),
    ("node00012 mlx5_0", 1, "LocalLinkIntegrityErrors", 9),
];

fn counters() {
    let mut fabric = small();
    for (node, port, name, value) in SET {
        let line = format!("PerformanceSet \"{node}\"[{port}] PortCounters.{name}={value}");
        fabric.console(&line);
    }
    let host = FatTree::host(3);
    let mut session = Session::start(fabric.attach(&host, false), config(SECOND, NEVER));
    session.until("counters", |s| s.sweeps(SweepKind::Counters) > 0);
    let mut set = 0;
    for row in session.model.ports(session.now()) {
        if row.peer.is_none() {
            continue;
        }
        let (lid, port) = (row.lid.unwrap().to_string(), row.key.port.to_string());
        let text = fabric.tool(&host, "perfquery", &[&lid, &port]);
        for name in [
            "SymbolErrorCounter",
            "LinkErrorRecoveryCounter",
            "LinkDownedCounter",
            "PortRcvErrors",
            "PortRcvRemotePhysicalErrors",
            "PortRcvSwitchRelayErrors",
            "PortXmitDiscards",
            "PortXmitConstraintErrors",
            "PortRcvConstraintErrors",
            "LocalLinkIntegrityErrors",
            "ExcessiveBufferOverrunErrors",
            "VL15Dropped",
        ] {
            let theirs = number(&dotted(&text, name));
            let ours = session.counter(row.key, name);
            assert_eq!(ours.get(), Some(theirs), "{} {port} {name}", row.name);
            set += u64::from(theirs > 0);
        }
    }
    assert_eq!(set, SET.len() as u64, "what was set was seen");
    let pegged = session.key("leaf000", 1);
    assert_eq!(
        session.counter(pegged, "SymbolErrorCounter"),
        Num::AtLeast(65_535)
    );
}

fn unlink() {
    let mut fabric = small();
    let port = fabric.attach(&FatTree::host(14), false);
    let mut session = Session::start(port, config(SECOND, SECOND));
    session.until("the first discovery", |s| s.model.is_discovered());
    // Host 6 is below leaf 1, port 3.
    let (leaf, host) = (
        session.key("leaf001", 3),
        session.key("node00006 mlx5_0", 1),
    );
    assert_eq!(session.row(leaf).peer.unwrap().key, host);
    fabric.console("Unlink \"node00006 mlx5_0\"[1]");
    session.until("the switch's side to go down", |s| {
        let row = s.row(leaf);
        row.state == Some(1) && row.flags.down && row.peer.is_some_and(|p| p.former)
    });
    assert!(session.logged("node00006"), "{}", session.log());
    session.until("the host to be unreachable", |s| {
        s.row(host).flags.unreachable
    });
    // It is not asked every interval: two more sweeps send it nothing.
    let sent = |s: &Session| s.destination(host).map_or(0, |d| d.sent);
    let before = sent(&session);
    session.whole_sweep(SweepKind::States);
    assert_eq!(sent(&session), before);
    assert!(session.row(host).flags.unreachable);

    fabric.console("ReLink \"node00006 mlx5_0\"[1]");
    session.until("the host's return", |s| {
        let (near, far) = (s.row(leaf), s.row(host));
        near.state == Some(4) && far.state == Some(4) && !far.flags.unreachable
    });
    let row = session.row(leaf);
    assert_eq!(row.peer.map(|p| (p.key, p.former)), Some((host, false)));
}

fn silent_host() {
    let mut fabric = small();
    let port = fabric.attach(&FatTree::host(0), false);
    let mut session = Session::start(port, config(SECOND, SECOND));
    session.until("counters", |s| s.sweeps(SweepKind::Counters) > 0);
    let host = session.key("node00005 mlx5_0", 1);
    fabric.console("Error \"node00005 mlx5_0\"[1] 100");
    session.until("its timeouts", |s| {
        s.destination(host)
            .is_some_and(|d| d.failure.is_some() && d.back_off.is_some())
    });
    session.whole_sweep(SweepKind::Counters);
    session.whole_sweep(SweepKind::States);
    let now = session.now();
    for row in session.model.destinations(now) {
        if row.node == Some(host.node) {
            assert_eq!(row.failure.unwrap().kind, FailureKind::NoAnswer);
        } else if let Some(failure) = row.failure {
            // ibsim has no such attribute at any port; it is asked for once.
            assert_eq!(failure.attribute, "PortSamplesControl", "{}", row.name);
            assert_eq!((row.timed_out, row.back_off), (1, None), "{}", row.name);
        }
    }
    // All others stay fresh.
    for row in session.model.ports(now) {
        if row.key.node != host.node {
            assert!(!row.stale && !row.flags.no_answer, "{row:?}");
        }
    }
    // Its retries are paced: back-offs grow beyond two sweeps, and in one nothing is sent to it.
    let mut began = None;
    session.until("a back-off of two sweeps", |s| {
        let row = s.destination(host).unwrap();
        let Some((failures, left)) = row.back_off else {
            return false;
        };
        let sweeps = s.sweeps(SweepKind::Counters);
        match began {
            _ if left.is_zero() => false,
            Some((f, sent, first)) if f == failures => {
                assert_eq!(row.sent, sent);
                sweeps >= first + 2
            }
            _ => {
                began = Some((failures, row.sent, sweeps));
                false
            }
        }
    });

    fabric.console("Error \"node00005 mlx5_0\"[1] 0");
    session.until("its recovery", |s| {
        s.destination(host).is_some_and(|d| d.back_off.is_none()) && !s.row(host).flags.no_answer
    });
}

/// Both loops never come round: only the notice can make the change seen.
fn trap() {
    let mut fabric = small();
    let port = fabric.attach(&FatTree::host(13), true);
    let mut config = config(NEVER, NEVER);
    config.answer_sminfo = true;
    let mut session = Session::start(port, config);
    session.until("the first discovery and the subscription", |s| {
        s.model.is_discovered() && s.sweeps(SweepKind::Counters) > 0
    });
    let leaf = session.key("leaf000", 2);
    assert_eq!(session.row(leaf).state, Some(4));
    fabric.console("Unlink \"node00001 mlx5_0\"[1]");
    session.until("the notice", |s| s.logged("128"));
    session.until("the switch read again", |s| s.row(leaf).state == Some(1));
    let seen = session.model.log().len();
    fabric.console("ReLink \"node00001 mlx5_0\"[1]");
    session.until("another notice", |s| {
        let lines = s.model.log().iter();
        lines.skip(seen).any(|l| l.text.contains("128")) || s.row(leaf).state != Some(1)
    });
    // opensm sweeps on and makes the link Active, which raises no trap: a client of its sees it.
    let text = fabric.tool(
        &FatTree::host(0),
        "smpquery",
        &["-D", "portinfo", "0,1", "2"],
    );
    let mut state = dotted(&text, "LinkState");
    common::ibsim::wait_for("the link to be Active", || {
        let text = fabric.tool(
            &FatTree::host(0),
            "smpquery",
            &["-D", "portinfo", "0,1", "2"],
        );
        state = dotted(&text, "LinkState");
        state == "Active"
    });
}

fn server_ends() {
    let mut fabric = IbsimFabric::start(&FatTree::SMALL.net(), Options { sm: false });
    let port = fabric.attach(&FatTree::host(0), false);
    let mut session = Session::start(port, config(SECOND, SECOND));
    session.until("the first discovery", |s| s.model.is_discovered());
    fabric.kill();
    session.until("the loss of the server", |s| {
        s.model.header(s.now()).gone.is_some()
    });
    fabric.restart();
    session.until("its return", |s| s.model.header(s.now()).gone.is_none());
    let before = session.sweeps(SweepKind::Counters);
    session.until("counters again", |s| s.sweeps(SweepKind::Counters) > before);
}
