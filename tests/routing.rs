//! Forwarding tables read on demand, and what is told of them: paths, whole tables, who is
//! reached by a port.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "common/bench.rs"]
mod bench;

use std::collections::BTreeSet;
use std::time::Duration;

use bench::{Bench, sent};
use fabtop::event::{ReadingEnded, Topic, What};
use fabtop::fabric::{NodeId, NodeKind, PortKey};
use fabtop::model::Model;
use fabtop::model::view::PathView;
use fabtop::port::Stamp;
use fabtop::record::Ledger;
use fabtop::report::{self, Format};
use fabtop::sim::{Action, Script, SimOptions, default_fabric, fat_tree};

const LFT: u16 = 0x0019;

fn settled(mut bench: Bench) -> Bench {
    bench.run(Stamp::from_secs(4));
    bench
}

#[test]
fn a_path_costs_one_block_a_switch_and_nothing_while_it_is_fresh() {
    let mut bench = settled(Bench::new(default_fabric(), SimOptions::healthy()));
    let from = bench.key("cn001", 1);
    let to = bench.key("cn030", 1);
    let lid = bench.lid(to);
    let topic = Topic::Path { from, lid };
    let (events, ended) = bench.read(topic.clone());
    let path = bench.model.path(from, lid, bench.engine.now());
    assert!(path.arrives, "{}", path.end);
    let switches = path.hops.iter().filter(|h| h.kind == NodeKind::Switch);
    let switches: BTreeSet<_> = switches.map(|h| h.node).collect();
    // leaf, spine, leaf: by the fabric's plan no two leaves are linked.
    assert_eq!(switches.len(), 3);
    assert_eq!(path.hops.last().unwrap().node, to.node);
    let blocks: Vec<_> = sent(&events)
        .into_iter()
        .filter(|(_, _, id, _)| *id == LFT)
        .collect();
    assert_eq!(blocks.len(), 3);
    // LID-routed Gets of the block that holds the LID, and no other.
    let block = u32::from(lid / 64);
    assert!(blocks.iter().all(|b| *b == (0x01, 0x01, LFT, block)));
    let answered = ReadingEnded {
        answered: 3,
        failed: 0,
    };
    assert_eq!(ended, answered);
    // Each hop carries what the Ports and Traffic panes say of its port.
    for hop in path.hops.iter().filter(|h| h.leaves.is_some()) {
        let (row, traffic) = hop.out.as_ref().unwrap();
        assert_eq!((row.key.node, Some(row.key.port)), (hop.node, hop.leaves));
        assert!(traffic.capacity_bps.is_some());
    }
    let (events, _) = bench.read(topic.clone());
    assert!(sent(&events).iter().all(|(_, _, id, _)| *id != LFT));
    // After half a minute it is read again.
    let later = Stamp(bench.engine.now().0) + Duration::from_secs(31);
    bench.run(later);
    let (events, _) = bench.read(topic);
    let again = sent(&events).into_iter().filter(|(_, _, id, _)| *id == LFT);
    assert_eq!(again.count(), 3);
}

#[test]
fn a_path_is_what_independent_tables_say_for_every_pair() {
    // Read whole tables, then ask for paths: none needs another block, all arrive.
    let mut bench = settled(Bench::new(fat_tree(4, 4, 2, 1), SimOptions::healthy()));
    let switches: Vec<_> = bench
        .model
        .topology()
        .nodes()
        .filter(|n| n.kind == NodeKind::Switch)
        .map(|n| n.id)
        .collect();
    assert_eq!(switches.len(), 6);
    for switch in switches {
        let (_, ended) = bench.read(Topic::Table { switch });
        assert_eq!(ended.failed, 0);
    }
    let now = bench.engine.now();
    let topology = bench.model.topology();
    let ends: Vec<_> = topology
        .nodes()
        .filter(|n| n.kind != NodeKind::Switch)
        .filter_map(|n| Some((n.id.port(1), n.lid(1)?)))
        .collect();
    assert_eq!(ends.len(), 16);
    for (from, _) in &ends {
        for (to, lid) in &ends {
            let path = bench.model.path(*from, *lid, now);
            assert!(path.arrives, "{from} to {to}: {}", path.end);
            // Consecutive hops are two ends of one cable.
            for pair in path.hops.windows(2) {
                let out = pair[0].node.port(pair[0].leaves.unwrap());
                let into = pair[1].node.port(pair[1].enters.unwrap());
                assert_eq!(topology.port(out).unwrap().peer, Some(into));
            }
        }
    }
}

#[test]
fn with_lmc_each_lid_of_a_port_has_a_path_of_its_own() {
    let options = SimOptions {
        lmc: 2,
        ..SimOptions::healthy()
    };
    let mut bench = settled(Bench::new(fat_tree(4, 4, 4, 1), options));
    let model = &bench.model;
    let hosts: Vec<_> = model
        .topology()
        .nodes()
        .filter(|n| n.kind != NodeKind::Switch)
        .map(|n| n.id)
        .collect();
    let name = model.name(*hosts.last().unwrap()).to_owned();
    let place = model.find(&name).unwrap();
    let to = model.end_port(place).unwrap();
    let from = hosts[0].port(1);
    let lids: Vec<u16> = (0..4u8)
        .map(|bits| model.path_lid(place, to, Some(bits)).unwrap())
        .collect();
    // The base LID by default; no fifth LID.
    assert_eq!(model.path_lid(place, to, None), Ok(lids[0]));
    let error = model.path_lid(place, to, Some(4)).unwrap_err();
    assert!(error.contains("4 LIDs (LMC 2)"), "{error}");
    let mut spines = BTreeSet::new();
    for lid in lids {
        bench.read(Topic::Path { from, lid });
        let path = bench.model.path(from, lid, bench.engine.now());
        assert!(path.arrives, "{}", path.end);
        assert_eq!(path.to.unwrap().0, to);
        spines.insert(path.hops[2].node);
    }
    // The simulator spreads LIDs over equal ways: four spines, four LIDs.
    assert_eq!(spines.len(), 4);
}

#[test]
fn every_lid_is_reached_by_exactly_one_port_of_a_switch() {
    let mut bench = settled(Bench::new(default_fabric(), SimOptions::healthy()));
    let leaf = bench.key("leaf03", 0).node;
    let (events, ended) = bench.read(Topic::Table { switch: leaf });
    let now = bench.engine.now();
    let top = bench.model.routes(leaf, now).unwrap().top.unwrap();
    let blocks = usize::from(top / 64) + 1;
    let read = sent(&events).into_iter().filter(|(_, _, id, _)| *id == LFT);
    assert_eq!(read.count(), blocks);
    // SwitchInfo, which says how far the table goes, and the blocks.
    assert_eq!(ended.answered as usize, blocks + 1);
    let ports = bench.model.topology().node(leaf).unwrap().ports.len();
    let mut seen = BTreeSet::new();
    for port in 0..ports {
        let uses = bench.model.uses(leaf.port(port as u8), now).unwrap();
        assert_eq!(uses.note, None);
        assert_eq!(uses.read, (blocks, blocks));
        for to in &uses.destinations {
            for lid in &to.lids {
                assert!(seen.insert(*lid), "LID {lid} leaves by two ports");
                assert_eq!(bench.model.topology().by_lid(*lid), to.key);
            }
        }
        // What hangs at a port of the leaf is all that is reached by it.
        let peer = uses.peer.map(|(key, _)| key);
        let host =
            peer.filter(|k| bench.model.topology().node(k.node).unwrap().kind != NodeKind::Switch);
        if let Some(host) = host {
            let keys: Vec<_> = uses.destinations.iter().map(|d| d.key).collect();
            assert_eq!(keys, [Some(host)]);
        }
    }
    let with_lid: usize = bench
        .model
        .topology()
        .nodes()
        .map(|n| match n.kind {
            NodeKind::Switch => 1,
            _ => n.external_ports().filter(|p| n.lid(*p).is_some()).count(),
        })
        .sum();
    assert_eq!(seen.len(), with_lid);
    let host = bench.key("cn001", 1);
    let uses = bench.model.uses(host, now).unwrap();
    assert!(uses.note.unwrap().contains("is no switch"));
}

#[test]
fn a_pulled_cable_makes_tables_outdated_and_they_are_read_again() {
    let fabric = default_fabric();
    let leaf = fabric.key("leaf01", 33).unwrap();
    let script = Script::new().at(Stamp::from_secs(10), Action::LinkDown(leaf));
    let mut bench = settled(Bench::scripted(fabric, script));
    let from = bench.key("cn001", 1);
    // A LID that goes by spine01, behind leaf01's port 33.
    let (_, _) = bench.read(Topic::Table { switch: leaf.node });
    let uses = bench.model.uses(leaf, bench.engine.now()).unwrap();
    let lid = uses
        .destinations
        .iter()
        .find(|d| d.key.unwrap().port != 0)
        .map(|d| d.lids[0])
        .unwrap();
    let topic = Topic::Path { from, lid };
    bench.read(topic.clone());
    let before = bench.model.path(from, lid, bench.engine.now());
    assert!(before.arrives && !before.outdated);
    assert_eq!(before.hops[1].leaves, Some(33));
    bench.run(Stamp::from_secs(14));
    // The link is known to be gone; the tables are of before.
    let path = bench.model.path(from, lid, bench.engine.now());
    assert!(path.outdated);
    assert!(
        path.end.contains("black hole: leaf01 port 33 has no link"),
        "{}",
        path.end
    );
    let (events, _) = bench.read(topic);
    assert!(sent(&events).iter().any(|(_, _, id, _)| *id == LFT));
    let path = bench.model.path(from, lid, bench.engine.now());
    assert!(path.arrives && !path.outdated, "{}", path.end);
    assert_ne!(path.hops[1].leaves, Some(33));
}

#[test]
fn a_switch_that_does_not_answer_is_named_where_the_path_stops() {
    let fabric = default_fabric();
    let spines: Vec<_> = (1..=4)
        .map(|n| fabric.key(&format!("spine0{n}"), 0).unwrap().node)
        .collect();
    // The SA, which would tell in its stead, is silent too.
    let mut script = Script::new().at(Stamp::from_secs(5), Action::SmHang);
    for spine in &spines {
        script = script.at(Stamp::from_secs(5), Action::Kill(*spine));
    }
    let mut bench = Bench::scripted(fabric, script);
    bench.run(Stamp::from_secs(6));
    let from = bench.key("cn001", 1);
    let lid = bench.lid(bench.key("cn030", 1));
    let (_, ended) = bench.read(Topic::Path { from, lid });
    // The leaf answers, the spine and the SA do not.
    assert_eq!((ended.answered, ended.failed), (1, 2));
    let path = bench.model.path(from, lid, bench.engine.now());
    assert!(!path.arrives);
    let last = path.hops.last().unwrap();
    assert!(spines.contains(&last.node));
    let expected = format!(
        "the table of {} was not read; it does not answer, and the SA did not tell it",
        last.name
    );
    assert_eq!(path.end, expected);
}

#[test]
fn names_guids_and_lids_all_find_a_port_and_two_of_a_name_are_an_error() {
    let bench = settled(Bench::new(default_fabric(), SimOptions::healthy()));
    let model = &bench.model;
    let host = bench.key("cn001", 1);
    let lid = bench.lid(host);
    let node = model.topology().node(host.node).unwrap();
    let guid = node.port(1).unwrap().guid.unwrap();
    for text in [
        "cn001 mlx5_0",
        "cn001",
        "cn001[1]",
        "cn001 mlx5_0:1",
        &host.node.to_string(),
        &format!("{}:1", host.node),
        &guid.to_string(),
        &lid.to_string(),
    ] {
        let place = model.find(text).unwrap();
        assert_eq!(model.end_port(place), Ok(host), "{text}");
    }
    for (text, why) in [
        ("cn999", "no node is called \"cn999\""),
        ("65000", "has LID 65000"),
        ("0xdead", "no node is called \"0xdead\""),
        ("cn001[9]", "has no port 9"),
        ("", "no node is called"),
        (
            "Mellanox",
            "4 nodes are called \"Mellanox\": name one by its GUID: 0x",
        ),
    ] {
        let error = model.find(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    // A host with two ports has to be asked about one of them.
    let mds = model.find("mds1").unwrap();
    let error = model.end_port(mds).unwrap_err();
    assert!(error.contains("has 2 ports: name one"), "{error}");
    assert!(model.end_port(model.find("mds1[2]").unwrap()).is_ok());
    let error = model
        .end_port(model.find("leaf01[3]").unwrap())
        .unwrap_err();
    assert!(error.contains("at its port 0"), "{error}");
}

#[test]
fn whole_tables_of_all_switches_are_read_within_the_budget() {
    use fabtop::engine::Config;
    use fabtop::event::What;

    let mut config = Config::default();
    // 50 a second over any 100 ms: five in each.
    config.settings.smp.rate = 50;
    let mut bench = Bench::with(fat_tree(6, 6, 3, 1), SimOptions::healthy(), config);
    bench.run(Stamp::from_secs(30));
    let from = bench.events.len();
    let switches: Vec<_> = bench
        .model
        .topology()
        .nodes()
        .filter(|n| n.kind == NodeKind::Switch)
        .map(|n| n.id)
        .collect();
    for switch in &switches {
        bench
            .engine
            .command(fabtop::command::Command::Read(Topic::Table {
                switch: *switch,
            }));
    }
    bench.run(Stamp::from_secs(40));
    let now = bench.engine.now();
    for switch in &switches {
        let routes = bench.model.routes(*switch, now).unwrap();
        assert_eq!((routes.read, routes.rows.len()), ((1, 1), 36 + 9));
    }
    let smps: Vec<Stamp> = bench.events[from..]
        .iter()
        .filter(|e| matches!(&e.what, What::Sent(s) if s.mad.class().is_smp()))
        .map(|e| e.at)
        .collect();
    assert!(smps.len() >= 18, "{}", smps.len());
    for window in smps.windows(6) {
        let span = window[5].since(window[0]);
        assert!(span >= Duration::from_millis(100), "six SMPs in {span:?}");
    }
}

/// A switch in the midst of the path, as the SA tells its table; what is asked of the switch.
fn by_the_sas_word(action: impl Fn(NodeId) -> Action) -> (Bench, NodeId, PortKey, u16) {
    let fabric = fat_tree(4, 4, 2, 1);
    let mut plain = settled(Bench::new(fabric.clone(), SimOptions::healthy()));
    let hosts: Vec<_> = plain
        .model
        .topology()
        .nodes()
        .filter(|n| n.kind != NodeKind::Switch)
        .map(|n| n.id.port(1))
        .collect();
    let (from, to) = (hosts[0], hosts[15]);
    let lid = plain.lid(to);
    plain.read(Topic::Path { from, lid });
    let path = plain.model.path(from, lid, plain.engine.now());
    let spine = path.hops[2].node;
    let script = Script::new().at(Stamp::from_secs(5), action(spine));
    let mut bench = Bench::scripted(fabric, script);
    bench.run(Stamp::from_secs(6));
    let (_, ended) = bench.read(Topic::Path { from, lid });
    let now = bench.engine.now();
    let told = bench.model.path(from, lid, now);
    assert!(told.arrives, "{} {ended:?}", told.end);
    let way = |path: &PathView<'_>| -> Vec<_> {
        let hops = path.hops.iter();
        hops.map(|h| (h.node, h.enters, h.leaves)).collect()
    };
    assert_eq!(way(&told), way(&path));
    let by_sa: Vec<bool> = told.hops.iter().map(|h| h.told).collect();
    assert_eq!(by_sa, [false, false, true, false, false]);
    let text = report::path(&bench.model, now, from, lid, Format::Text);
    assert!(text.contains("table from the SA"), "{text}");
    (bench, spine, from, lid)
}

#[test]
fn the_table_of_a_protected_switch_is_the_sas_and_it_is_not_asked() {
    let (mut bench, spine, from, lid) = by_the_sas_word(|node| Action::Protect {
        node,
        m_key: 0x5ec2_e75e_c2e7_5ec2,
        bits: 2,
    });
    assert!(bench.model.topology().node(spine).unwrap().guarded);
    // Whole tables and who uses a port, too. Only the SA is asked now.
    let begun = bench.events.len();
    let (_, ended) = bench.read(Topic::Table { switch: spine });
    assert_eq!(ended.failed, 0);
    let smps = bench.events[begun..].iter().filter(|e| match &e.what {
        What::Sent(s) => s.mad.class().is_smp() && s.target.node == Some(spine),
        _ => false,
    });
    assert_eq!(smps.count(), 0);
    let now = bench.engine.now();
    let routes = bench.model.routes(spine, now).unwrap();
    // 16 hosts and 6 switches; the spine itself by port 0.
    assert_eq!((routes.rows.len(), routes.told), (22, true));
    assert_eq!(routes.read.0, routes.read.1);
    let uses = bench.model.uses(spine.port(1), now).unwrap();
    assert!(uses.told && uses.lids > 0 && uses.note.is_none());
    for format in [Format::Text, Format::Json] {
        let text = report::routes(&bench.model, now, spine, format).unwrap();
        let word = ["from the SA", "\"table_from\":\"sa\""];
        assert!(word.iter().any(|w| text.contains(w)), "{text}");
    }
    // One who joins is told the same.
    let mut ledger = Ledger::new();
    bench.events.iter().for_each(|e| ledger.observe(e));
    let mut joined = Model::new();
    let next = bench.events.last().unwrap().seq + 1;
    ledger.keyframe(next, &mut |events| {
        events.iter().for_each(|e| joined.apply(e))
    });
    let hops = |model: &Model| -> Vec<_> {
        let path = model.path(from, lid, now);
        path.hops
            .iter()
            .map(|h| (h.node, h.leaves, h.told))
            .collect()
    };
    assert_eq!(hops(&joined), hops(&bench.model));
    let there = joined.routes(spine, now).unwrap();
    assert_eq!((there.rows.len(), there.told), (22, true));
}

#[test]
fn the_table_of_a_silent_switch_is_the_sas() {
    by_the_sas_word(Action::Kill);
}

#[test]
fn without_an_sa_a_protected_switchs_table_is_not_known_and_says_why() {
    let script = Script::new()
        .at(
            Stamp::from_secs(5),
            Action::Protect {
                node: default_fabric().key("leaf02", 0).unwrap().node,
                m_key: 7,
                bits: 2,
            },
        )
        .at(Stamp::from_secs(5), Action::SmHang);
    let mut bench = Bench::scripted(default_fabric(), script);
    bench.run(Stamp::from_secs(6));
    let from = bench.key("leaf02", 0);
    let lid = bench.lid(bench.key("cn030", 1));
    bench.read(Topic::Path { from, lid });
    // The silence, and then the word of the trap.
    bench.read(Topic::Path { from, lid });
    let path = bench.model.path(from, lid, bench.engine.now());
    assert!(!path.known);
    let why = "the table of leaf02 was not read; it is protected by an M_Key, and the SA did not \
               tell it";
    assert!(
        path.end == why || path.end.contains("does not answer"),
        "{}",
        path.end
    );
}

#[test]
fn a_path_to_whom_only_the_sa_knows_is_followed_as_far_as_it_was_seen() {
    // Dead from the beginning: discovery finds its link, and nobody at its end.
    let fabric = default_fabric();
    let dead = fabric.key("cn012", 1).unwrap();
    let mut plain = settled(Bench::new(fabric.clone(), SimOptions::healthy()));
    let lid = plain.lid(dead);
    let from = plain.key("cn030", 1);
    plain.read(Topic::Path { from, lid });
    let whole = plain.model.path(from, lid, plain.engine.now());
    let script = Script::new().at(Stamp::ZERO, Action::Kill(dead.node));
    let mut bench = Bench::scripted(fabric, script);
    bench.run(Stamp::from_secs(15));
    let model = &bench.model;
    assert!(model.topology().node(dead.node).is_none());
    assert!(model.is_unseen("cn012") && !model.is_unseen("cn030"));
    let port_guid = format!("{:#x}", dead.node.guid.0 + 1);
    for text in [
        "cn012",
        "cn012 mlx5_0",
        &dead.node.to_string(),
        &port_guid,
        &lid.to_string(),
    ] {
        assert_eq!(model.find_in_sa(text), Ok(lid), "{text}");
    }
    let nobody = model.find_in_sa("4711").unwrap_err();
    assert!(nobody.contains("no node is called \"4711\""), "{nobody}");
    bench.read(Topic::Path { from, lid });
    let now = bench.engine.now();
    let path = bench.model.path(from, lid, now);
    let way = |path: &PathView<'_>| -> Vec<_> {
        let hops = path.hops.iter();
        hops.map(|h| (h.node, h.enters, h.leaves)).collect()
    };
    // As with it alive, but for its own end.
    let seen = way(&whole);
    assert_eq!(way(&path), seen[..seen.len() - 1]);
    assert!(path.arrives && path.known && path.to.is_none());
    assert_eq!(path.to_in_sa.as_deref(), Some("cn012 mlx5_0"));
    let beyond = path.beyond.as_ref().unwrap();
    assert_eq!((beyond.lid, beyond.port, beyond.is_end), (lid, 1, true));
    let text = report::path(&bench.model, now, from, lid, Format::Text);
    for part in ["which only the SA knows", "not seen", "as the SA tells it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = report::path(&bench.model, now, from, lid, Format::Json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["path"]["beyond"]["from"], "sa");
    assert_eq!(json["path"]["to_in_sa"], "cn012 mlx5_0");
}
