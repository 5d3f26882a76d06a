//! Subnet administration: its tables, their comparison with discovery, its manners, and the SMs.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "common/bench.rs"]
mod bench;

use std::time::Duration;

use bench::{Bench, sent};
use fabtop::command::Command;
use fabtop::engine::{Config, Key};
use fabtop::event::{Topic, What};
use fabtop::fabric::NodeKind;
use fabtop::fabric::sa::{Difference, SaTable};
use fabtop::mad::Attribute;
use fabtop::mad::{LftRecord, PathRecord, PortInfoRecord, SmInfo};
use fabtop::model::view::{SaOutcome, SaTableView};
use fabtop::port::Stamp;
use fabtop::sim::{Action, Faults, Script, SimOptions, default_fabric, fat_tree};

const GET_TABLE: u8 = 0x12;

fn table(bench: &Bench, table: SaTable) -> SaTableView {
    let now = bench.engine.now();
    let views = bench.model.sa_tables(now);
    views.into_iter().find(|v| v.table == table).unwrap()
}

fn differences(bench: &Bench) -> Vec<Difference> {
    let (list, more, _) = bench.model.sa_differences(bench.engine.now());
    assert_eq!(more, 0);
    list.into_iter().map(|d| d.difference).collect()
}

/// Times at which tables were asked for and came, from one table's question to its answer.
fn table_times(bench: &Bench) -> Vec<(Stamp, Stamp)> {
    let mut out = Vec::new();
    let mut asked = None;
    for event in &bench.events {
        match &event.what {
            What::Sent(s) if s.mad.method().code() == GET_TABLE => {
                assert!(asked.is_none(), "two tables at a time");
                asked = Some((s.mad.tid_low(), event.at));
            }
            What::Received(r) if asked.is_some_and(|(tid, _)| r.mad.tid_low() == tid) => {
                out.push((asked.take().unwrap().1, event.at));
            }
            What::TimedOut(t) if asked.is_some_and(|(tid, _)| t.tid == tid) => {
                out.push((asked.take().unwrap().1, event.at));
            }
            _ => {}
        }
    }
    out
}

#[test]
fn every_table_comes_whole_and_a_healthy_fabric_differs_in_nothing() {
    let mut bench = Bench::new(default_fabric(), SimOptions::healthy());
    bench.run(Stamp::from_secs(4));
    let tables = SaTable::ALL.to_vec();
    let (_, ended) = bench.read(Topic::Sa { tables });
    assert_eq!((ended.answered, ended.failed), (11, 0));
    for which in SaTable::ALL {
        let view = table(&bench, which);
        assert_eq!(view.outcome, Some(SaOutcome::Whole), "{which:?}");
        let counted = bench.model.sa_records(which).count();
        assert_eq!(view.count, Some(counted), "{which:?}");
    }
    assert_eq!(differences(&bench), []);
    assert_eq!(bench.log("the SA"), [""; 0]);
    // One LFT block a switch and 64 LIDs; one PortInfoRecord a port, port 0 of switches included.
    let topology = bench.model.topology();
    let switches = topology.nodes().filter(|n| n.kind == NodeKind::Switch);
    let lids = switches.map(|n| n.switch.as_ref().unwrap().linear_fdb_top());
    let blocks: usize = lids.map(|top| usize::from(top / 64) + 1).sum();
    assert_eq!(table(&bench, SaTable::Lft).count, Some(blocks));
    let record = bench.model.sa_records(SaTable::Lft).next().unwrap();
    assert!(LftRecord::from_bytes(record).unwrap().lid() > 0);
    // Nobody subscribed but we.
    assert_eq!(table(&bench, SaTable::Subscriptions).count, Some(1));
    // What it holds is what was asked for, and only by Gets but for the subscription.
    let asked = sent(&bench.events);
    assert!(
        asked
            .iter()
            .all(|(class, method, ..)| *method != 2 || *class == 3)
    );
    table_times(&bench);
}

#[test]
fn a_table_of_any_size_comes_in_one_piece_and_has_time_for_it() {
    // 1,152 hosts under 64 leaves and 32 spines: 4 blocks of LIDs... as many ports as a real
    // island has.
    let mut bench = Bench::new(fat_tree(64, 18, 18, 1), SimOptions::healthy());
    bench.run(Stamp::from_secs(8));
    let (events, ended) = bench.read(Topic::Sa {
        tables: vec![SaTable::Ports],
    });
    assert_eq!((ended.answered, ended.failed), (1, 0));
    let ports: usize = bench
        .model
        .topology()
        .nodes()
        .map(|n| match n.kind {
            NodeKind::Switch => n.ports.len(),
            _ => 1,
        })
        .sum();
    assert_eq!(table(&bench, SaTable::Ports).count, Some(ports));
    // 68 bytes each, more than the kernel's first segment by far.
    assert!(ports * PortInfoRecord::LEN > 200_000, "{ports}");
    let timeout = events.iter().find_map(|e| match &e.what {
        What::Sent(s) if s.mad.attr_id() == PortInfoRecord::ID => Some(s.timeout_ms),
        _ => None,
    });
    // 4 s and 10 ms for each kilobyte.
    let size = 10 * (ports * PortInfoRecord::LEN) as u32 / 1_000;
    let timeout = timeout.unwrap();
    assert!(
        (4_000 + size..=4_000 + size + 1_000).contains(&timeout),
        "{timeout}"
    );
}

#[test]
fn service_levels_come_from_one_table_of_paths() {
    let mut bench = Bench::new(default_fabric(), SimOptions::healthy());
    bench.run(Stamp::from_secs(12));
    let paths: Vec<_> = sent(&bench.events)
        .into_iter()
        .filter(|(class, _, id, _)| (*class, *id) == (3, PathRecord::ID))
        .collect();
    assert_eq!(paths, [(3, GET_TABLE, PathRecord::ID, 0)]);
    // One path to each port that has a LID: 67 adapters, two of them with two ports, 12 switches.
    assert_eq!(table(&bench, SaTable::Paths).count, Some(67 + 2 + 12));
}

#[test]
fn a_refused_table_is_shown_as_refused_and_not_as_empty() {
    let options = SimOptions {
        sa_trusts: vec![SaTable::Pkeys.id()],
        ..SimOptions::healthy()
    };
    let mut bench = Bench::new(default_fabric(), options);
    bench.run(Stamp::from_secs(4));
    let (_, ended) = bench.read(Topic::Sa {
        tables: vec![SaTable::Pkeys, SaTable::Services],
    });
    assert_eq!((ended.answered, ended.failed), (1, 1));
    let view = table(&bench, SaTable::Pkeys);
    let refused = SaOutcome::Refused("request denied".into());
    assert_eq!((view.outcome, view.count), (Some(refused), None));
    let now = bench.engine.now();
    let text = fabtop::report::sa(
        &bench.model,
        now,
        Some(SaTable::Pkeys),
        fabtop::report::Format::Text,
    );
    assert!(text.contains("refused: request denied"), "{text}");
    // The others are not the worse for it.
    assert_eq!(
        table(&bench, SaTable::Services).outcome,
        Some(SaOutcome::Whole)
    );
}

/// Unlikely to come about by chance.
const SM_KEY: u64 = 0x5ec2_e75e_c2e7_5ec2;

/// A session at an SA that shows P_Key tables to those who know its key, with this one.
fn trusted(key: Option<u64>) -> Bench {
    let options = SimOptions {
        sa_trusts: vec![SaTable::Pkeys.id()],
        sm_key: SM_KEY,
        ..SimOptions::healthy()
    };
    let config = Config {
        sm_key: key.and_then(Key::new),
        ..Config::default()
    };
    let mut bench = Bench::with(default_fabric(), options, config);
    bench.run(Stamp::from_secs(15));
    let tables = vec![SaTable::Pkeys];
    bench.read(Topic::Sa { tables });
    bench
}

#[test]
fn trusted_records_are_read_with_the_sm_key_which_no_event_holds() {
    let bench = trusted(Some(SM_KEY));
    let view = table(&bench, SaTable::Pkeys);
    assert_eq!(view.outcome, Some(SaOutcome::Whole));
    assert_eq!((view.count, view.advice), (Some(67 + 2 + 12), None));
    // The comparison is made with it as without.
    assert_eq!(
        table(&bench, SaTable::Nodes).outcome,
        Some(SaOutcome::Whole)
    );
    assert_eq!(differences(&bench), []);
    let key = SM_KEY.to_be_bytes();
    let mut seen = 0;
    for event in &bench.events {
        let mad = match &event.what {
            What::Sent(s) => &s.mad,
            What::Received(r) => &r.mad,
            _ => continue,
        };
        seen += usize::from(mad.class().code() == 3);
        let part = |w: &[u8]| key.windows(3).any(|k| k == w);
        assert!(!mad.bytes().windows(3).any(part), "{mad}");
    }
    assert!(seen > 10, "{seen}");
    let all = format!("{:?}{:?}", bench.events, Key::new(SM_KEY));
    assert!(!all.contains(&SM_KEY.to_string()) && !all.contains("5ec2e75e"));
}

#[test]
fn a_wrong_sm_key_costs_one_question_and_is_told() {
    let bench = trusted(Some(SM_KEY + 1));
    let status = table(&bench, SaTable::Pkeys).status();
    let told = "refused: request denied (the SM_Key given may not be its own)";
    assert_eq!(status, told);
    let log = bench.log("SM_Key");
    assert_eq!(
        log,
        ["the SA does not answer who gives it this SM_Key: it is asked without"]
    );
    // Everything else is as it would be without a key.
    assert_eq!(
        table(&bench, SaTable::Nodes).outcome,
        Some(SaOutcome::Whole)
    );
    let silent = bench
        .events
        .iter()
        .filter(|e| matches!(&e.what, What::TimedOut(t) if t.class == 3));
    assert_eq!(silent.count(), 1);
}

#[test]
fn without_the_sm_key_a_refusal_says_what_to_do() {
    let bench = trusted(None);
    let status = table(&bench, SaTable::Pkeys).status();
    let told = "refused: request denied (it may want its SM_Key: see --sm-key-file)";
    assert_eq!(status, told);
    let now = bench.engine.now();
    let text = fabtop::report::sa(&bench.model, now, None, fabtop::report::Format::Text);
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_busy_sa_is_left_alone_longer_and_longer() {
    let fabric = default_fabric();
    let sm = fabric.key("mgmt1", 1).unwrap().node;
    let script = Script::new()
        .at(
            Stamp::from_secs(15),
            Action::Busy {
                node: sm,
                share: 1.0,
            },
        )
        .at(
            Stamp::from_secs(30),
            Action::Busy {
                node: sm,
                share: 0.0,
            },
        );
    let mut bench = Bench::scripted(fabric, script);
    // What is read after a discovery is over by then.
    bench.run(Stamp::from_secs(16));
    let begun = bench.engine.now();
    let (_, ended) = bench.read(Topic::Sa {
        tables: vec![SaTable::Groups],
    });
    assert_eq!((ended.answered, ended.failed), (1, 0));
    let asked: Vec<Stamp> = table_times(&bench)
        .into_iter()
        .map(|(asked, _)| asked)
        .filter(|at| *at >= begun)
        .collect();
    // At once, then after pauses of 1, 2, 4 and 8 s.
    let pauses: Vec<u64> = asked
        .windows(2)
        .map(|w| w[1].since(w[0]).as_secs_f64().round() as u64)
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8]);
}

#[test]
fn a_silent_sa_fails_a_table_and_is_not_asked_again_at_once() {
    let script = Script::new().at(Stamp::from_secs(5), Action::SmHang);
    let mut bench = Bench::scripted(default_fabric(), script);
    bench.run(Stamp::from_secs(6));
    let begun = bench.engine.now();
    let (_, ended) = bench.read(Topic::Sa {
        tables: vec![SaTable::Groups, SaTable::Services],
    });
    assert_eq!((ended.answered, ended.failed), (0, 2));
    assert_eq!(
        table(&bench, SaTable::Groups).outcome,
        Some(SaOutcome::NoAnswer)
    );
    let times = table_times(&bench);
    let [.., (first, gave_up), (second, _)] = times.as_slice() else {
        panic!("{times:?}");
    };
    assert!(*first >= begun);
    // One question each, with time enough for a table, and five seconds of peace between them.
    assert!(gave_up.since(*first) >= Duration::from_secs(4));
    assert!(second.since(*gave_up) >= Duration::from_secs(5));
}

#[test]
fn a_difference_that_is_only_a_race_is_never_told() {
    // Without notices we look at ports every 30 s; the SM hears of a pulled cable at once. Its
    // tables are read in between.
    let fabric = default_fabric();
    let cable = fabric.key("leaf02", 33).unwrap();
    let script = Script::new().at(Stamp::from_secs(10), Action::LinkDown(cable));
    let options = SimOptions {
        faults: Faults::Script(script),
        ..SimOptions::healthy()
    };
    let config = Config {
        subscribe: false,
        ..Config::default()
    };
    let mut bench = Bench::with(fabric, options, config);
    bench.run(Stamp::from_secs(11));
    let tables = SaTable::COMPARED.to_vec();
    bench.engine.command(Command::Read(Topic::Sa { tables }));
    bench.run(Stamp::from_secs(12));
    // The link and its ends, as far as they were not asked again meanwhile: seen once, not told.
    let doubtful = bench.model.sa_differences(bench.engine.now()).2;
    assert!((1..=3).contains(&doubtful), "{doubtful}");
    assert_eq!(differences(&bench), []);
    bench.run(Stamp::from_secs(25));
    // The ports were asked again and agree.
    assert_eq!(bench.model.sa_differences(bench.engine.now()).2, 0);
    assert_eq!(differences(&bench), []);
    assert_eq!(bench.log("the SA"), [""; 0]);
    assert_eq!(bench.log("link lost").len(), 1);
}

#[test]
fn what_the_sa_and_discovery_tell_apart_is_told_once() {
    // A host whose management is dead from the beginning: its link is up, the SM knows it of old.
    let fabric = default_fabric();
    let host = fabric.key("cn001", 1).unwrap();
    let script = Script::new()
        .at(Stamp::ZERO, Action::Kill(host.node))
        .at(Stamp::from_secs(100), Action::Revive(host.node));
    let mut bench = Bench::scripted(fabric, script);
    bench.engine.command(Command::Rediscover);
    bench.run(Stamp::from_secs(60));
    bench.engine.command(Command::Rediscover);
    bench.run(Stamp::from_secs(90));
    let found = differences(&bench);
    let node = found.iter().find_map(|d| match d {
        Difference::NodeUnseen { node, lid } => Some((*node, *lid)),
        _ => None,
    });
    let (node, lid) = node.unwrap();
    assert_eq!(node, host.node);
    let port = fabric_peer(&bench, host);
    assert!(found.contains(&Difference::LinkUnseen {
        from: port,
        to: None,
        to_lid: lid,
        to_port: 1,
    }));
    assert_eq!(found.len(), 2, "{found:?}");
    // Two readings confirmed it, later ones do not repeat it.
    let lines: Vec<_> = bench
        .model
        .log()
        .iter()
        .filter(|l| l.text.starts_with("the SA has"))
        .map(|l| l.count)
        .collect();
    assert_eq!(lines, [1, 1]);
    let text = bench.log("the SA has a link");
    let name = bench.model.name(port.node);
    let expected = format!(
        "the SA has a link {name}[{}] - LID {lid} port 1, discovery did not find it",
        port.port
    );
    assert_eq!(text, [expected]);
    // It answers again: the difference is gone with the next comparison.
    bench.run(Stamp::from_secs(101));
    bench.engine.command(Command::Rediscover);
    bench.run(Stamp::from_secs(120));
    assert_eq!(differences(&bench), []);
}

fn fabric_peer(bench: &Bench, key: fabtop::fabric::PortKey) -> fabtop::fabric::PortKey {
    let node = bench
        .fabric
        .nodes
        .iter()
        .position(|n| n.guid == key.node.guid.0);
    let (peer, port) = bench
        .fabric
        .port((node.unwrap(), key.port))
        .unwrap()
        .peer
        .unwrap();
    bench.fabric.id(peer).unwrap().port(port)
}

#[test]
fn every_sm_is_found_with_priority_state_and_activity() {
    let mut bench = Bench::new(default_fabric(), SimOptions::healthy());
    bench.run(Stamp::from_secs(30));
    let now = bench.engine.now();
    let rows = bench.model.subnet_managers(now);
    let seen: Vec<_> = rows
        .iter()
        .map(|r| (r.name, r.priority, r.state_name(), r.ours, r.listed))
        .collect();
    // The simulator's: priority 14 on mgmt1, 8 on mgmt2, ten counts a second.
    assert_eq!(
        seen,
        [
            ("mgmt1 mlx5_0", 14, "Master".to_owned(), true, Some(3)),
            ("mgmt2 mlx5_0", 8, "Standby".to_owned(), false, Some(2)),
        ]
    );
    for row in &rows {
        let rate = row.activity_per_s.get().unwrap();
        assert!((9.0..=11.0).contains(&rate), "{rate}");
        assert_eq!((row.silent, row.still), (None, None));
        assert!(row.age.unwrap() <= Duration::from_secs(10));
    }
    // The master by the LID that the port names, the other by its own LID, none by a Set.
    let asked = sent(&bench.events)
        .into_iter()
        .filter(|(class, _, id, _)| (*class, *id) == (1, SmInfo::ID));
    assert!(asked.clone().count() < 30 / 5 + 30 / 10 + 4);
    assert!({ asked }.all(|(_, method, ..)| method == 1));
}

#[test]
fn two_masters_are_told_and_both_stay_visible() {
    let script = Script::new().at(Stamp::from_secs(10), Action::SmUsurp);
    let mut bench = Bench::scripted(default_fabric(), script);
    bench.run(Stamp::from_secs(60));
    let rows = bench.model.subnet_managers(bench.engine.now());
    assert_eq!(rows.iter().filter(|r| r.is_master()).count(), 2);
    let told = bench.log("two master SMs");
    assert_eq!(told, ["two master SMs: mgmt1 mlx5_0 and mgmt2 mlx5_0"]);
    // It did not move: the port's SM is the one it was.
    assert_eq!(bench.log("SM moved"), [""; 0]);
    let header = bench.model.header(bench.engine.now());
    assert_eq!(header.sm.unwrap().priority, 14);
    // The SA lists it as standby: that differs, once it is confirmed.
    let text = fabtop::report::sms(
        &bench.model,
        bench.engine.now(),
        fabtop::report::Format::Text,
    );
    assert!(text.contains("2 MASTERS"), "{text}");
}

#[test]
fn after_a_failover_subscription_and_service_levels_follow_and_nothing_is_told_twice() {
    let script = Script::new().at(Stamp::from_secs(10), Action::SmFailover);
    let mut bench = Bench::scripted(default_fabric(), script);
    bench.run(Stamp::from_secs(90));
    let moved = bench.log("SM moved");
    assert_eq!(moved.len(), 1, "{moved:?}");
    assert!(moved[0].starts_with("SM moved from mgmt1 mlx5_0 to mgmt2 mlx5_0"));
    assert_eq!(bench.log("two master"), [""; 0]);
    let rows = bench.model.subnet_managers(bench.engine.now());
    let master: Vec<_> = rows
        .iter()
        .filter(|r| r.is_master())
        .map(|r| r.name)
        .collect();
    assert_eq!(master, ["mgmt2 mlx5_0"]);
    let lid = bench.lid(bench.key("mgmt2", 1));
    // Subscribed at the new one, and its paths asked for.
    for (method, id) in [(0x02, 0x0003), (GET_TABLE, PathRecord::ID)] {
        let there = bench.events.iter().any(|e| match &e.what {
            What::Sent(s) => {
                e.at > Stamp::from_secs(10)
                    && s.addr.lid == lid
                    && (s.mad.method().code(), s.mad.attr_id()) == (method, id)
            }
            _ => false,
        });
        assert!(there, "{id:#x}");
    }
    let confirmed = differences(&bench);
    let of_sms = confirmed.iter().filter(|d| d.table() == SaTable::Sms);
    assert_eq!(of_sms.count(), 0, "{confirmed:?}");
}

#[test]
fn an_sm_restarted_on_the_same_lid_is_subscribed_to_and_asked_for_paths_again() {
    let script = Script::new().at(Stamp::from_secs(20), Action::SmRestart);
    let mut bench = Bench::scripted(default_fabric(), script);
    bench.run(Stamp::from_secs(40));
    let after = |method: u8, id: u16| {
        bench
            .events
            .iter()
            .filter(|e| e.at > Stamp::from_secs(20))
            .filter(|e| match &e.what {
                What::Sent(s) => (s.mad.method().code(), s.mad.attr_id()) == (method, id),
                _ => false,
            })
            .count()
    };
    assert_eq!(after(0x02, 0x0003), 1);
    assert_eq!(after(GET_TABLE, PathRecord::ID), 1);
    assert_eq!(bench.log("restarted"), ["SM mgmt1 mlx5_0 restarted"]);
}

#[test]
fn a_hung_sm_is_stalled_and_silence_of_its_sa_is_not_its_end() {
    let script = Script::new()
        .at(Stamp::from_secs(10), Action::SmHang)
        .at(Stamp::from_secs(80), Action::SmResume);
    let mut bench = Bench::scripted(default_fabric(), script);
    bench.run(Stamp::from_secs(60));
    let rows = bench.model.subnet_managers(bench.engine.now());
    let master = rows.iter().find(|r| r.ours).unwrap();
    assert!(master.still.is_some_and(|d| d > Duration::from_secs(30)));
    bench.run(Stamp::from_secs(100));
    let rows = bench.model.subnet_managers(bench.engine.now());
    assert_eq!(rows.iter().find(|r| r.ours).unwrap().still, None);
}

#[test]
fn the_same_seed_and_faults_give_no_false_differences_in_ten_minutes() {
    let options = SimOptions {
        faults: Faults::None,
        loss: 0.01,
        ..SimOptions::default()
    };
    let mut bench = Bench::new(default_fabric(), options);
    bench.run(Stamp::from_secs(620));
    assert_eq!(differences(&bench), []);
    assert_eq!(bench.log("the SA has"), [""; 0]);
}

#[test]
fn a_viewer_who_joins_sees_the_same_sms_tables_differences_and_paths() {
    use fabtop::model::Model;
    use fabtop::record::{Encoder, Ledger, Options, Reader};
    use fabtop::report::{Format, sa, sms};

    // With a difference to show: a host that was dead from the beginning.
    let fabric = default_fabric();
    let host = fabric.key("cn001", 1).unwrap();
    let script = Script::new().at(Stamp::ZERO, Action::Kill(host.node));
    let options = SimOptions {
        faults: Faults::Script(script),
        sa_trusts: vec![SaTable::Pkeys.id()],
        ..SimOptions::healthy()
    };
    let mut bench = Bench::new(fabric, options);
    bench.run(Stamp::from_secs(15));
    let from = bench.key("cn002", 1);
    let lid = bench.lid(bench.key("cn030", 1));
    bench.read(Topic::Path { from, lid });
    bench.read(Topic::Sa {
        tables: vec![SaTable::Pkeys, SaTable::Groups],
    });
    bench.run(Stamp::from_secs(20));
    let mut ledger = Ledger::new();
    bench.events.iter().for_each(|e| ledger.observe(e));
    let mut encoder = Encoder::new(Options::default());
    let mut bytes = Vec::new();
    let next = bench.events.last().unwrap().seq + 1;
    ledger.keyframe(next, &mut |events| {
        encoder.encode(events, &mut bytes);
    });
    let mut reader = Reader::new(&bytes[..]);
    let mut joined = Model::new();
    reader.by_ref().for_each(|e| joined.apply(&e));
    assert_eq!(reader.problems().list(), &[]);
    let now = bench.engine.now();
    // Rates need two samples, which a keyframe does not hold; the way is the same.
    let whole = &bench.model;
    let way = |model: &Model| {
        let path = model.path(from, lid, now);
        let hops: Vec<_> = path
            .hops
            .iter()
            .map(|h| (h.node, h.enters, h.leaves, h.age))
            .collect();
        (hops, path.end, path.age)
    };
    assert!(whole.path(from, lid, now).arrives);
    assert_eq!(way(&joined), way(whole));
    let tables = |model: &Model| -> Vec<String> {
        model
            .sa_tables(now)
            .iter()
            .map(|t| format!("{t:?}"))
            .collect()
    };
    assert_eq!(tables(&joined), tables(whole));
    let texts = |model: &Model| -> Vec<String> {
        let (list, ..) = model.sa_differences(now);
        list.into_iter().map(|d| d.text).collect()
    };
    assert_eq!(texts(whole).len(), 2);
    assert_eq!(texts(&joined), texts(whole));
    let seen = |model: &Model| -> Vec<_> {
        let rows = model.subnet_managers(now);
        rows.iter()
            .map(|r| {
                (
                    r.guid, r.lid, r.priority, r.state, r.activity, r.age, r.listed,
                )
            })
            .collect()
    };
    assert_eq!(seen(&joined), seen(whole));
    assert!(sms(&joined, now, Format::Json).contains("\"Standby\""));
    assert!(sa(&joined, now, Some(SaTable::Groups), Format::Text).contains("MGID"));
}
