//! Nodes that share a GUID, and what only looks like it, over the simulator.

use super::*;
use crate::fabric::{NodeId, NodeKind};
use crate::model::Model;
use crate::record::Ledger;
use crate::sim::{Action, Faults, Script, SimOptions, SimPort, netfile};

struct Seen {
    model: Model,
    engine: Virtual,
    joined: Model,
}

/// Runs a session over a topology file; engine, model and whoever joins at the end agree.
fn run(text: &str, script: Script, secs: u64) -> Seen {
    let (fabric, problems) = netfile::parse(text);
    assert!(problems.is_empty(), "{problems:?}");
    let options = SimOptions {
        load: 0.0,
        faults: Faults::Script(script),
        ..SimOptions::default()
    };
    let port = SimPort::new(fabric, options).unwrap();
    let mut engine = Virtual::new(Box::new(port), Config::default());
    let (mut model, mut ledger) = (Model::new(), Ledger::new());
    let mut next = 0;
    engine.run_until(Stamp::from_secs(secs), &mut |batch| {
        for event in &batch.events {
            model.apply(event);
            ledger.observe(event);
            next = event.seq + 1;
            if let What::SweepEnded(s) = event.what {
                assert_eq!(model.topology().digest(), s.digest, "{s:?}");
            }
        }
    });
    let mut joined = Model::new();
    ledger.keyframe(next, &mut |events| {
        for event in events {
            joined.apply(event);
        }
    });
    Seen {
        model,
        engine,
        joined,
    }
}

impl Seen {
    fn ids(&self) -> Vec<String> {
        let ids = |m: &Model| -> Vec<String> {
            let present = m.topology().nodes().filter(|n| n.present);
            present.map(|n| n.id.to_string()).collect()
        };
        let own = ids(&self.model);
        assert_eq!(own, ids(&self.joined), "whoever joins sees the same nodes");
        assert_eq!(
            self.engine.topology().digest(),
            self.model.topology().digest()
        );
        own
    }

    fn duplicates(&self) -> Vec<String> {
        let lines = self.model.log().iter().map(|l| l.text.clone());
        let told: Vec<String> = lines
            .filter(|t| t.starts_with("two nodes have the GUID"))
            .collect();
        // Each is an alert, for whoever joins as well.
        for model in [&self.model, &self.joined] {
            let alerts = model.alerts();
            let open = alerts.iter().filter(|a| a.kind == "duplicate_guid");
            assert_eq!(open.count(), told.len(), "{told:?}");
        }
        told
    }
}

const TWO_HOSTS: &str = r##"
Hca 1 "H-0000000000000a01" # "here mlx5_0"
[1] "S-0000000000000b01"[1]

Hca 1 "H-0000000000000a02" # "mgmt1 mlx5_0"
[1] "S-0000000000000b01"[2]

Switch 6 "S-0000000000000b01" # "leaf" base port 0
[1] "H-0000000000000a01"[1]
[2] "H-0000000000000a02"[1]
[3] "H-0000000000000a03"[1]
[4] "H-0000000000000a04"[1]

caguid=0xa03
Hca 1 "H-0000000000000a03" # "flashed mlx5_0"
[1] "S-0000000000000b01"[3]

caguid=0xa03
Hca 1 "H-0000000000000a04" # "twin mlx5_0"
[1] "S-0000000000000b01"[4]
"##;

#[test]
fn two_adapters_of_one_guid_are_reported_and_kept_apart() {
    let seen = run(TWO_HOSTS, Script::new(), 10);
    assert_eq!(
        seen.ids(),
        [
            "0x0000000000000a01",
            "0x0000000000000a02",
            "0x0000000000000a03",
            "0x0000000000000a03#1",
            "0x0000000000000b01",
        ]
    );
    let duplicates = seen.duplicates();
    assert_eq!(duplicates.len(), 1, "{duplicates:?}");
    assert!(duplicates[0].contains("leaf[3]") && duplicates[0].contains("leaf[4]"));
    // Each has its own description, link and LID.
    let leaf = NodeId::new(0xb01);
    let mut lids = std::collections::BTreeSet::new();
    let mut names = std::collections::BTreeSet::new();
    for port in [3, 4] {
        let peer = seen
            .model
            .topology()
            .port(leaf.port(port))
            .unwrap()
            .peer
            .unwrap();
        let node = seen.model.topology().node(peer.node).unwrap();
        lids.insert(node.lid(1).unwrap());
        names.insert(seen.model.name(peer.node).to_owned());
        assert!(
            seen.model
                .counters(peer, seen.model.last())
                .iter()
                .any(|c| c.value.get().is_some())
        );
    }
    assert_eq!(lids.len(), 2);
    assert_eq!(
        names,
        ["flashed mlx5_0".to_owned(), "twin mlx5_0".to_owned()].into()
    );
    // Further discoveries find nothing new.
    let later = run(TWO_HOSTS, Script::new(), 1_300);
    assert_eq!((later.ids(), later.duplicates().len()), (seen.ids(), 1));
}

const TWO_SWITCHES: &str = r##"
Hca 1 "H-0000000000000a01" # "here mlx5_0"
[1] "S-0000000000000b01"[1]

Hca 1 "H-0000000000000a02" # "mgmt1 mlx5_0"
[1] "S-0000000000000b01"[2]

Switch 8 "S-0000000000000b01" # "root" base port 0
[1] "H-0000000000000a01"[1]
[2] "H-0000000000000a02"[1]
[3] "S-0000000000000b02"[7]
[4] "S-0000000000000b03"[7]
[5] "S-0000000000000b02"[8]
[6] "S-0000000000000b03"[8]

switchguid=0xb02
Switch 8 "S-0000000000000b02" # "left" base port 0
[1] "H-0000000000000a11"[1]
[7] "S-0000000000000b01"[3]
[8] "S-0000000000000b01"[5]

switchguid=0xb02
Switch 8 "S-0000000000000b03" # "right" base port 0
[1] "H-0000000000000a21"[1]
[2] "H-0000000000000a22"[1]
[7] "S-0000000000000b01"[4]
[8] "S-0000000000000b01"[6]

Hca 1 "H-0000000000000a11" # "left1 mlx5_0"
[1] "S-0000000000000b02"[1]

Hca 1 "H-0000000000000a21" # "right1 mlx5_0"
[1] "S-0000000000000b03"[1]

Hca 1 "H-0000000000000a22" # "right2 mlx5_0"
[1] "S-0000000000000b03"[2]
"##;

#[test]
fn two_switches_of_one_guid_are_kept_apart_with_all_that_is_behind_them() {
    let seen = run(TWO_SWITCHES, Script::new(), 40);
    assert_eq!(seen.ids().len(), 8, "{:?}", seen.ids());
    assert_eq!(seen.duplicates().len(), 1);
    let topology = seen.model.topology();
    let root = NodeId::new(0xb01);
    let peer = |port| topology.port(root.port(port)).unwrap().peer.unwrap().node;
    // Both links of each lead to the same one.
    assert_eq!(peer(3), peer(5));
    assert_eq!(peer(4), peer(6));
    assert_ne!(peer(3), peer(4));
    let hosts = |id: NodeId| {
        let node = topology.node(id).unwrap();
        let peers = node.external_ports().filter_map(|p| node.port(p)?.peer);
        let mut hosts: Vec<u64> = peers
            .filter(|p| topology.node(p.node).unwrap().kind == NodeKind::Ca)
            .map(|p| p.node.guid.0)
            .collect();
        hosts.sort_unstable();
        hosts
    };
    assert_eq!(hosts(peer(3)), [0xa11]);
    assert_eq!(hosts(peer(4)), [0xa21, 0xa22]);
}

/// The same with one of each GUID: what is reached by several ways is no twin.
#[test]
fn several_links_between_two_switches_make_no_twin() {
    let text = TWO_SWITCHES.replacen("switchguid=0xb02\n", "", 2);
    let seen = run(&text, Script::new(), 40);
    assert_eq!(seen.ids().len(), 8);
    assert!(seen.duplicates().is_empty());
    assert!(seen.model.topology().nodes().all(|n| n.id.twin == 0));
}

#[test]
fn a_host_that_is_plugged_in_elsewhere_was_moved_and_is_no_twin() {
    // The twin's place is down at first; then the first one's, with the same GUID behind the
    // other port: to us it is the same host, moved.
    let (first, second) = (
        NodeId::new(0xa03),
        NodeId {
            twin: 1,
            ..NodeId::new(0xa03)
        },
    );
    let script = Script::new()
        .at(Stamp::ZERO, Action::LinkDown(second.port(1)))
        .at(Stamp::from_secs(20), Action::LinkDown(first.port(1)))
        .at(Stamp::from_secs(20), Action::LinkUp(second.port(1)));
    let seen = run(TWO_HOSTS, script, 700);
    assert!(seen.duplicates().is_empty(), "{:?}", seen.duplicates());
    assert_eq!(seen.ids().len(), 4);
    let leaf = NodeId::new(0xb01);
    let peer = seen.model.topology().port(leaf.port(4)).unwrap().peer;
    assert_eq!(peer, Some(first.port(1)));
}

/// Two hosts with one LID, as when two subnets are joined: each reading of one contradicts the
/// other. That is asked again a few times, not as fast as the budget allows.
#[test]
fn two_nodes_with_one_lid_are_not_asked_for_ever() {
    let mut fabric = crate::sim::default_fabric();
    fabric.assign_lids(0);
    let (one, two) = (
        fabric.key("cn001", 1).unwrap(),
        fabric.key("cn002", 1).unwrap(),
    );
    let lid = fabric.port((fabric.find("cn001").unwrap(), 1)).unwrap().lid;
    let script = Script::new().at(Stamp::from_secs(20), Action::SetLid { port: two, lid });
    let options = SimOptions {
        faults: Faults::Script(script),
        ..SimOptions::healthy()
    };
    let port = SimPort::new(fabric, options).unwrap();
    let mut config = Config::default();
    config.settings.discovery_interval_ns = 10_000_000_000;
    let mut engine = Virtual::new(Box::new(port), config);
    let mut asked = 0;
    engine.run_until(Stamp::from_secs(60), &mut |batch| {
        let sent = batch.events.iter().filter(|e| {
            matches!(&e.what, What::Sent(s) if s.mad.attr_id() == 0x15
                && s.target.node.is_some_and(|n| n == one.node || n == two.node))
        });
        asked += sent.count();
    });
    let lids = [one, two].map(|key| engine.topology().node(key.node).unwrap().lid(1));
    assert_eq!(lids, [Some(lid); 2]);
    // Six discoveries and two sweeps of states for each of the two, and eight doubts of each in
    // ten seconds, of which there are four times ten.
    assert!(asked <= 2 * (6 + 2 + 4 * 8 + 8), "asked {asked} times");
}

/// The second switch has its uplinks where the first one, which is nearer and known by then, has
/// hosts: no route leads back through a host, so the first one's own ports are asked.
const OVER_HOSTS: &str = r##"
Hca 1 "H-0000000000000a01" # "here mlx5_0"
[1] "S-0000000000000b01"[1]

Hca 1 "H-0000000000000a02" # "mgmt1 mlx5_0"
[1] "S-0000000000000b01"[2]

Switch 8 "S-0000000000000b01" # "root" base port 0
[1] "H-0000000000000a01"[1]
[2] "H-0000000000000a02"[1]
[3] "S-0000000000000b02"[5]
[4] "S-0000000000000b04"[1]

Switch 8 "S-0000000000000b04" # "near" base port 0
[1] "S-0000000000000b01"[4]
[2] "S-0000000000000b05"[1]

Switch 8 "S-0000000000000b05" # "far" base port 0
[1] "S-0000000000000b04"[2]
[2] "S-0000000000000b03"[7]
[3] "S-0000000000000b03"[8]

switchguid=0xb02
Switch 8 "S-0000000000000b02" # "left" base port 0
[5] "S-0000000000000b01"[3]
[7] "H-0000000000000a11"[1]
[8] "H-0000000000000a12"[1]

switchguid=0xb02
Switch 8 "S-0000000000000b03" # "right" base port 0
[7] "S-0000000000000b05"[2]
[8] "S-0000000000000b05"[3]

Hca 1 "H-0000000000000a11" # "left1 mlx5_0"
[1] "S-0000000000000b02"[7]

Hca 1 "H-0000000000000a12" # "left2 mlx5_0"
[1] "S-0000000000000b02"[8]
"##;

const LEFT: NodeId = NodeId::new(0xb02);
const RIGHT: NodeId = NodeId { twin: 1, ..LEFT };

#[test]
fn a_second_switch_is_seen_where_its_uplinks_are_the_first_ones_host_ports() {
    let seen = run(OVER_HOSTS, Script::new(), 20);
    assert_eq!(seen.ids().len(), 9, "{:?}", seen.ids());
    assert_eq!(seen.duplicates().len(), 1, "{:?}", seen.duplicates());
    let topology = seen.model.topology();
    let peer = |key| topology.port(key).unwrap().peer;
    let far = NodeId::new(0xb05);
    assert_eq!(peer(NodeId::new(0xb01).port(3)), Some(LEFT.port(5)));
    assert_eq!(peer(far.port(2)), Some(RIGHT.port(7)));
    assert_eq!(peer(far.port(3)), Some(RIGHT.port(8)));
    // The hosts are where they are.
    for (port, host) in [(7, 0xa11), (8, 0xa12)] {
        assert_eq!(peer(LEFT.port(port)), Some(NodeId::new(host).port(1)));
    }
}

/// A switch that is pulled and plugged in there, by the ports at which it had hosts: it was moved.
#[test]
fn a_switch_that_is_moved_to_its_host_ports_is_no_twin() {
    let mut script = Script::new();
    for port in [7, 8] {
        script = script.at(Stamp::ZERO, Action::LinkDown(RIGHT.port(port)));
        script = script.at(Stamp::from_secs(20), Action::LinkUp(RIGHT.port(port)));
    }
    for port in [5, 7, 8] {
        script = script.at(Stamp::from_secs(20), Action::LinkDown(LEFT.port(port)));
    }
    let seen = run(OVER_HOSTS, script, 700);
    assert!(seen.duplicates().is_empty(), "{:?}", seen.duplicates());
    let peer = seen
        .model
        .topology()
        .port(NodeId::new(0xb05).port(2))
        .unwrap()
        .peer;
    assert_eq!(peer, Some(LEFT.port(7)));
}

/// While a host of the first switch is silent, its link is neither confirmed nor given up.
#[test]
fn a_silent_host_leaves_a_second_switch_in_doubt_and_keeps_its_place() {
    let hosts = [NodeId::new(0xa11), NodeId::new(0xa12)];
    let mut script = Script::new();
    for port in [7, 8] {
        script = script.at(Stamp::ZERO, Action::LinkDown(RIGHT.port(port)));
        script = script.at(Stamp::from_secs(20), Action::LinkUp(RIGHT.port(port)));
    }
    for host in hosts {
        script = script.at(Stamp::from_secs(15), Action::Kill(host));
        script = script.at(Stamp::from_secs(700), Action::Revive(host));
    }
    let seen = run(OVER_HOSTS, script.clone(), 690);
    let topology = seen.model.topology();
    for (port, host) in [(7, hosts[0]), (8, hosts[1])] {
        let peer = topology.port(LEFT.port(port)).unwrap().peer;
        assert_eq!(peer, Some(host.port(1)));
    }
    // Once they answer, it is clear that there are two.
    let seen = run(OVER_HOSTS, script, 1_400);
    assert_eq!(seen.duplicates().len(), 1, "{:?}", seen.duplicates());
}
