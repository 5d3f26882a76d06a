//! What a fabric can hold: ports 0, routers, several subnets, split ports, aggregation nodes,
//! nodes that move, merge, split and change their addresses. Over the simulator.

use super::*;
use crate::command::Command;
use crate::fabric::{Guid, LinkWidth, NodeId, NodeKind};
use crate::mad::{Attribute, MgmtClass, PortInfo};
use crate::model::Model;
use crate::sim::{
    Action, Control, Faults, Script, SimOptions, SimPort, SmAt, default_fabric, netfile,
};

/// An engine over the simulator, and a model that must agree with it.
pub(super) struct Session {
    pub(super) engine: Virtual,
    pub(super) control: Control,
    pub(super) model: Model,
    pub(super) events: Vec<Event>,
}

impl Session {
    fn new(text: &str, options: SimOptions) -> Session {
        let (fabric, problems) = netfile::parse(text);
        assert!(problems.is_empty(), "{problems:?}");
        Session::over(SimPort::new(fabric, options).unwrap(), Config::default())
    }

    pub(super) fn over(port: SimPort, config: Config) -> Session {
        let control = port.control();
        Session {
            engine: Virtual::new(Box::new(port), config),
            control,
            model: Model::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn run_to(&mut self, secs: u64) {
        let (model, events) = (&mut self.model, &mut self.events);
        self.engine.run_until(Stamp::from_secs(secs), &mut |batch| {
            for event in &batch.events {
                model.apply(event);
                if let What::SweepEnded(s) = event.what {
                    assert_eq!(model.topology().digest(), s.digest, "{s:?}");
                }
                events.push(event.clone());
            }
        });
    }

    fn notes(&self) -> Vec<String> {
        let notes = self.events.iter().filter_map(|e| match &e.what {
            What::Note { text, .. } => Some(text.to_string()),
            _ => None,
        });
        notes.collect()
    }

    fn timeouts(&self) -> usize {
        let timed_out = |e: &&Event| matches!(e.what, What::TimedOut(_));
        self.events.iter().filter(timed_out).count()
    }

    /// Ports of a node whose counters were asked for, by LID.
    fn counted(&self, guid: u64) -> std::collections::BTreeSet<(u8, u16)> {
        let node = NodeId::new(guid);
        let asked = self.events.iter().filter_map(|e| match &e.what {
            What::Sent(s)
                if s.mad.class() == MgmtClass::Perf
                    && s.target.node == Some(node)
                    && s.mad.attr_id() == crate::mad::PortCountersExtended::ID =>
            {
                Some((s.target.port, s.addr.lid))
            }
            _ => None,
        });
        asked.collect()
    }
}

fn quiet() -> SimOptions {
    SimOptions {
        load: 0.0,
        faults: Faults::None,
        ..SimOptions::default()
    }
}

/// A switch with a base port 0 and one with an enhanced one, a router, a host with both ports on
/// this subnet and one with its second port on another, and a split port.
const MIXED: &str = r##"
Hca 1 "H-0000000000000a01" # "here mlx5_0"
[1] "S-0000000000000b01"[1]

Hca 1 "H-0000000000000a02" # "mgmt1 mlx5_0"
[1] "S-0000000000000b01"[2]

devid=0xd2f0
Switch 10 "S-0000000000000b01" # "base" base port 0
[1] "H-0000000000000a01"[1]
[2] "H-0000000000000a02"[1]
[3] "H-0000000000000a03"[1]
[4] "H-0000000000000a04"[1]
[5] "S-0000000000000b02"[5]
[6] "S-0000000000000b02"[6]
[7] "R-0000000000000c01"[1]
[8] "H-0000000000000a05"[1] # "split mlx5_0" lid 0 2xHDR

devid=0xd2f0
Switch 10 "S-0000000000000b02" # "enhanced" enhanced port 0
[3] "H-0000000000000a03"[2]
[5] "S-0000000000000b01"[5]
[6] "S-0000000000000b01"[6]

devid=0x101b
Hca 2 "H-0000000000000a03" # "both mlx5_0"
[1] "S-0000000000000b01"[3]
[2] "S-0000000000000b02"[3]

devid=0x101b
Hca 2 "H-0000000000000a04" # "two subnets mlx5_0"
[1] "S-0000000000000b01"[4]
[2] "S-0000000000000d01"[1]

devid=0x101b
Hca 1 "H-0000000000000a05" # "split mlx5_0"
[1] "S-0000000000000b01"[8] # lid 0 lmc 0 "base" lid 0 2xHDR

devid=0xd2f0
Switch 4 "S-0000000000000d01" # "other subnet" base port 0
[1] "H-0000000000000a04"[2]

devid=0x101b
Rt 2 "R-0000000000000c01" # "router"
[1] "S-0000000000000b01"[7]
"##;

#[test]
fn ports_0_routers_split_ports_and_adapters_of_two_ports_are_what_they_are() {
    let mut session = Session::new(MIXED, quiet());
    session.run_to(12);
    let topology = session.model.topology();
    // The other subnet is behind a host, which passes nothing on.
    assert_eq!(topology.len(), 8);
    assert!(topology.node(NodeId::new(0xd01)).is_none());
    let kind = |guid| topology.node(NodeId::new(guid)).unwrap().kind;
    assert_eq!(
        (kind(0xb01), kind(0xc01), kind(0xa03)),
        (NodeKind::Switch, NodeKind::Router, NodeKind::Ca)
    );
    // Only an enhanced port 0 has counters, and a row.
    let ports = |guid| -> Vec<u8> { session.counted(guid).iter().map(|(p, _)| *p).collect() };
    assert!(!ports(0xb01).contains(&0) && ports(0xb02).contains(&0));
    let now = session.model.last();
    let rows = session.model.ports(now);
    let row0 = |guid| rows.iter().any(|r| r.key == NodeId::new(guid).port(0));
    assert!(!row0(0xb01) && row0(0xb02));
    // Both links between the two switches, and both ports of the host, each with a LID.
    let peer = |guid, port| topology.port(NodeId::new(guid).port(port)).unwrap().peer;
    assert_eq!(peer(0xb01, 5), Some(NodeId::new(0xb02).port(5)));
    assert_eq!(peer(0xb01, 6), Some(NodeId::new(0xb02).port(6)));
    assert_eq!(peer(0xa03, 2), Some(NodeId::new(0xb02).port(3)));
    let both = topology.node(NodeId::new(0xa03)).unwrap();
    let (one, two) = (both.lid(1).unwrap(), both.lid(2).unwrap());
    assert_ne!(one, two);
    assert_eq!(session.counted(0xa03), [(1, one), (2, two)].into());
    // A split port runs at 2x.
    let width = topology.port(NodeId::new(0xb01).port(8)).unwrap().width();
    assert_eq!(width, Some(LinkWidth::X2));
    assert_eq!(session.timeouts(), 0);
}

#[test]
fn a_port_on_another_subnet_is_shown_and_its_lid_is_not_ours() {
    let mut session = Session::new(MIXED, quiet());
    session.run_to(60);
    let topology = session.model.topology();
    let id = NodeId::new(0xa04);
    let node = topology.node(id).unwrap();
    assert_eq!(node.port(2).unwrap().state(), Some(4));
    assert_eq!(node.port(2).unwrap().peer, None);
    // Its counters are read by way of the first port.
    let one = node.lid(1).unwrap();
    assert_eq!(session.counted(0xa04), [(1, one), (2, one)].into());
    assert_eq!(session.timeouts(), 0);
    assert!(!node.is_in_subnet(2));
}

#[test]
fn aggregation_nodes_are_told_from_hosts_by_what_they_are() {
    // The built-in fabric has four of device id 53001 behind its spines.
    let port = SimPort::new(default_fabric(), SimOptions::healthy()).unwrap();
    let mut session = Session::over(port, Config::default());
    session.run_to(8);
    let now = session.model.last();
    let size = session.model.header(now).size;
    assert_eq!((size.aggregators, size.cas), (4, 80 - 12 - 4));
    let rows = session.model.ports(now);
    let shown = rows.iter().filter(|r| r.kind == NodeKind::Aggregation);
    assert_eq!(shown.count(), 4);
    // A host that calls itself so is none; a part of its switch is one by whatever name.
    let text = MIXED
        .replace(
            "\"both mlx5_0\"",
            "\"Mellanox Technologies Aggregation Node\"",
        )
        .replace(
            "devid=0x101b\nHca 1 \"H-0000000000000a05\"",
            "devid=0x1021\nsysimgguid=0xb01\nHca 1 \"H-0000000000000a05\"",
        )
        .replacen(
            "devid=0xd2f0\nSwitch",
            "devid=0xd2f0\nsysimgguid=0xb01\nSwitch",
            1,
        );
    let mut session = Session::new(&text, quiet());
    session.run_to(3);
    let topology = session.model.topology();
    let kind = |guid| topology.shown_kind(topology.node(NodeId::new(guid)).unwrap());
    assert_eq!(
        (kind(0xa03), kind(0xa05)),
        (NodeKind::Ca, NodeKind::Aggregation)
    );
}

#[test]
fn a_fabric_that_splits_and_merges_is_followed() {
    let mut session = Session::new(MIXED, quiet());
    session.run_to(5);
    let (a, b) = (NodeId::new(0xb01).port(5), NodeId::new(0xb01).port(6));
    let host = NodeId::new(0xa03).port(2);
    // Split: all three ways to the second switch go.
    for port in [a, b, host] {
        session.control.act(Action::LinkDown(port));
    }
    session.run_to(8);
    let gone = session.model.topology().node(NodeId::new(0xb02)).unwrap();
    assert!(!gone.present);
    assert!(
        session
            .model
            .topology()
            .node(NodeId::new(0xa03))
            .unwrap()
            .present
    );
    // Merge: it is back, with all its links, by the SM's notice or the next sweep.
    for port in [a, b, host] {
        session.control.act(Action::LinkUp(port));
    }
    session.run_to(45);
    let topology = session.model.topology();
    assert!(topology.node(NodeId::new(0xb02)).unwrap().present);
    for port in [a, b, host] {
        assert!(topology.port(port).unwrap().peer.is_some(), "{port}");
    }
    let log: Vec<_> = session.model.log().iter().map(|l| l.text.clone()).collect();
    assert!(
        log.iter()
            .any(|t| t == "enhanced cannot be reached any more"),
        "{log:?}"
    );
    assert!(log.iter().any(|t| t == "enhanced is back"), "{log:?}");
}

#[test]
fn a_lid_that_changes_is_followed_and_one_that_moves_names_its_new_owner() {
    let mut session = Session::new(MIXED, quiet());
    session.run_to(5);
    let (one, two) = (NodeId::new(0xa03), NodeId::new(0xa05));
    let lid = |s: &Session, id: NodeId| s.model.topology().node(id).unwrap().lid(1).unwrap();
    let (before, other) = (lid(&session, one), lid(&session, two));
    // The second takes the first one's LID, which gets a new one: what is sent to the old LID
    // at the next sweep of port states, the second answers.
    session.control.act(Action::SetLid {
        port: one.port(1),
        lid: 900,
    });
    session.control.act(Action::SetLid {
        port: two.port(1),
        lid: before,
    });
    session.run_to(40);
    assert_eq!((lid(&session, one), lid(&session, two)), (900, before));
    assert_ne!(other, before);
    let topology = session.model.topology();
    assert_eq!(topology.by_lid(900), Some(one.port(1)));
    assert_eq!(topology.by_lid(before), Some(two.port(1)));
    // Whose states they are was never confused: both links still lead where they led.
    for (port, id) in [(3, one), (8, two)] {
        assert_eq!(
            topology.port(NodeId::new(0xb01).port(port)).unwrap().peer,
            Some(id.port(1))
        );
    }
}

#[test]
fn a_lid_mask_gives_a_port_several_lids() {
    let mut session = Session::new(MIXED, SimOptions { lmc: 2, ..quiet() });
    session.run_to(12);
    let topology = session.model.topology();
    let host = NodeId::new(0xa03);
    let base = topology.node(host).unwrap().lid(1).unwrap();
    assert_eq!(base % 4, 0);
    for lid in base..base + 4 {
        assert_eq!(topology.by_lid(lid), Some(host.port(1)));
    }
    assert_ne!(topology.by_lid(base + 4), Some(host.port(1)));
    assert_eq!(session.timeouts(), 0);
}

#[test]
fn without_an_sm_the_subnet_is_read_by_directed_route_and_what_is_not_possible_is_said() {
    let mut session = Session::new(
        MIXED,
        SimOptions {
            sm: SmAt::Nowhere,
            ..quiet()
        },
    );
    session.run_to(40);
    assert_eq!(session.model.topology().len(), 8);
    assert!(
        session
            .notes()
            .iter()
            .any(|n| n.contains("counters, which need LIDs, cannot be read")),
        "{:?}",
        session.notes()
    );
    for event in &session.events {
        if let What::Sent(s) = &event.what {
            assert_eq!(s.mad.class(), MgmtClass::SubnDirected);
        }
    }
}

#[test]
fn with_the_limited_key_switches_only_are_asked_for_counters() {
    let mut session = Session::new(
        MIXED,
        SimOptions {
            limited_pkey: true,
            ..quiet()
        },
    );
    session.run_to(12);
    assert!(
        session
            .notes()
            .iter()
            .any(|n| n.contains("counters are read from switches only"))
    );
    let now = session.model.last();
    assert!(session.model.header(now).local.unwrap().pkey_limited);
    for event in &session.events {
        if let What::Sent(s) = &event.what
            && s.mad.class() == MgmtClass::Perf
        {
            let node = session
                .model
                .topology()
                .node(s.target.node.unwrap())
                .unwrap();
            assert_eq!(node.kind, NodeKind::Switch);
        }
    }
    assert!(!session.counted(0xb01).is_empty());
}

/// Twelve seconds of a port that has these keys beside the default one, with an adapter whose
/// performance agent redirects to its second port, in the partition of `names`. And that port's
/// LID.
fn redirected_to_partition(keys: &[u16], names: u16) -> (Session, u16) {
    let node = NodeId::new(0xa03);
    let mut before = Session::new(MIXED, quiet());
    before.run_to(2);
    let topology = before.model.topology();
    let to = topology.node(node).unwrap().lid(2).unwrap();
    let act = Action::Redirect {
        node,
        to: Some((to, names)),
    };
    let options = SimOptions {
        pkeys: keys.to_vec(),
        faults: Faults::Script(Script::new().at(Stamp::ZERO, act)),
        ..quiet()
    };
    let mut session = Session::new(MIXED, options);
    session.run_to(12);
    (session, to)
}

#[test]
fn a_redirection_to_a_partition_that_this_port_is_in_is_followed_with_its_key() {
    // At which index: full members talk to all, limited ones (top bit 0) to full ones.
    for (keys, names, index) in [
        (&[0, 0x8005][..], 0x8005, 2),
        (&[0x8005], 0x0005, 1),
        (&[0x0005], 0x8005, 1),
        (&[0x0005, 0x8005], 0x8005, 2),
    ] {
        let (session, to) = redirected_to_partition(keys, names);
        let mut indices = std::collections::BTreeSet::new();
        for event in &session.events {
            if let What::Sent(s) = &event.what
                && s.mad.class() == MgmtClass::Perf
            {
                indices.insert((s.addr.lid == to, s.addr.pkey_index));
            }
        }
        // The others are asked in the default partition, as ever. A wrong key would be met with
        // silence there.
        assert_eq!(indices, [(true, index), (false, 0)].into());
        assert_eq!(session.counted(0xa03), [(1, to), (2, to)].into());
        assert_eq!(session.timeouts(), 0);
        assert!(session.notes().iter().all(|n| !n.contains("partition")));
    }
}

#[test]
fn a_redirection_to_a_partition_that_this_port_is_not_in_is_said_once() {
    // None, another one, and one of limited members, who do not talk to each other.
    for (keys, names) in [(&[][..], 0x8005), (&[0x8006], 0x8005), (&[0x0005], 0x0005)] {
        let (session, to) = redirected_to_partition(keys, names);
        let told = session.notes();
        let told: Vec<_> = told.iter().filter(|n| n.contains("partition")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("{names:#06x}")), "{told:?}");
        assert!(session.counted(0xa03).is_empty());
        // Nothing goes to that port but what is asked of the port itself, and that as ever.
        for event in &session.events {
            if let What::Sent(s) = &event.what
                && s.mad.class() == MgmtClass::Perf
            {
                assert!(s.addr.lid != to || s.target.port == 2);
                assert_eq!(s.addr.pkey_index, 0);
            }
        }
    }
}

#[test]
fn field_report_20_a_planarized_host_sends_no_smp_by_lid() {
    let mut bench = Bench::new(super::fabric::star(3));
    bench.fabric.get().sm_disabled = true;
    bench.run_ms(40_000);
    let fabric = bench.fabric.get();
    let classes = fabric.classes();
    // Directed routes, the SA and the performance agents; states at 30 s by route as well.
    assert_eq!(classes, [0x81, 0x03, 0x04].into());
    let states = fabric
        .sent
        .iter()
        .filter(|(at, o)| *at > Stamp::from_secs(29) && o.mad.attr_id() == PortInfo::ID);
    assert!(states.count() > 0);
}

#[test]
fn a_local_node_that_is_silent_makes_nobody_missing() {
    let mut bench = Bench::new(super::fabric::star(4));
    bench.run_ms(1_000);
    bench.fabric.get().script = Some(Box::new(|at, out| {
        let local = out.mad.class() == MgmtClass::SubnDirected && out.mad.initial_path().is_empty();
        if local && at < Stamp::from_millis(5_000) {
            super::fabric::Fate::Timeout
        } else {
            super::fabric::Fate::Answer
        }
    }));
    bench.engine.command(Command::Rediscover);
    bench.run_ms(4_000);
    assert_eq!(bench.ended(SweepKind::Discovery).len(), 2);
    assert!(bench.engine.topology().nodes().all(|n| n.present));
    // And it is tried again soon.
    bench.run_ms(9_000);
    let ended = bench.ended(SweepKind::Discovery);
    assert_eq!((ended.len(), ended[2].1.failed), (3, 0));
}

#[test]
fn a_question_beyond_a_port_counts_to_the_node_that_is_known_to_be_there() {
    let mut bench = Bench::new(super::fabric::tree(4, 6, 4));
    bench.fabric.get().latency = Duration::from_millis(3);
    bench.run_ms(2_000);
    bench.engine.command(Command::Rediscover);
    bench.run_ms(4_000);
    // Links are known now: one SMP to a node, whoever it is put as.
    let topology = bench.engine.topology().clone();
    let mut flight: BTreeMap<u32, NodeId> = BTreeMap::new();
    for event in bench
        .events
        .iter()
        .filter(|e| e.at >= Stamp::from_millis(2_000))
    {
        match &event.what {
            What::Sent(s) if s.mad.class().is_smp() => {
                let beyond = s.target.via.and_then(|via| topology.port(via)?.peer);
                if let Some(node) = s.target.node.or(beyond.map(|p| p.node)) {
                    let same = flight.values().filter(|n| **n == node).count();
                    assert_eq!(same, 0, "a second SMP to {node}");
                    flight.insert(s.mad.tid_low(), node);
                }
            }
            What::Received(r) => {
                flight.remove(&r.mad.tid_low());
            }
            _ => {}
        }
    }
}

#[test]
fn names_that_are_read_again_are_shown_and_logged() {
    let port = SimPort::new(netfile::parse(MIXED).0, quiet()).unwrap();
    let mut session = Session::over(port, Config::default());
    session.run_to(3);
    session.engine.command(Command::Names {
        names: Some([(Guid(0xa03), "renamed".to_owned())].into()),
        problems: vec!["map:7: the name is missing".into()],
    });
    session.run_to(4);
    assert_eq!(session.model.name(NodeId::new(0xa03)), "renamed");
    let log: Vec<_> = session
        .model
        .log()
        .iter()
        .map(|l| l.text.as_str())
        .collect();
    assert!(log.contains(&"node name map read again: 1 name"), "{log:?}");
    assert!(log.contains(&"map:7: the name is missing"), "{log:?}");
    // The same again is no news; a file that is gone takes no name away.
    let before = session.events.len();
    session.engine.command(Command::Names {
        names: None,
        problems: vec![],
    });
    session.engine.command(Command::Names {
        names: Some([(Guid(0xa03), "renamed".to_owned())].into()),
        problems: vec![],
    });
    session.run_to(4);
    let settings = |e: &&Event| matches!(e.what, What::Settings(_));
    assert_eq!(session.events[before..].iter().filter(settings).count(), 0);
    let _ = Script::new();
}
