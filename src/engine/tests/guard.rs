//! Nodes that an M_Key protects (spec 14.2.4), over the simulator.

use super::kinds::Session;
use super::*;
use crate::command::Command;
use crate::engine::Key;
use crate::mad::{Attribute, MgmtClass, NodeInfo, PortInfo};
use crate::model::Model;
use crate::sim::{Action, Faults, NodeSpec, Script, SimOptions, SimPort, netfile};

const KEY: u64 = 0x5ec2_e75e_c2e7_5ec2;

/// Two switches in a row: two hosts at the first, and behind the second a protected one and one
/// that is not. `protect` stands before the node that is protected.
fn netfile_with(host: &str, switch: &str) -> String {
    format!(
        "Hca 1 \"H-0000000000000a01\" # \"here mlx5_0\"
[1] \"S-0000000000000b01\"[1]

Hca 1 \"H-0000000000000a02\" # \"mgmt1 mlx5_0\"
[1] \"S-0000000000000b01\"[2]

Switch 4 \"S-0000000000000b01\" # \"near\" base port 0
[1] \"H-0000000000000a01\"[1]
[2] \"H-0000000000000a02\"[1]
[3] \"S-0000000000000b02\"[3]

{switch}
Switch 4 \"S-0000000000000b02\" # \"far\" base port 0
[1] \"H-0000000000000a03\"[1]
[2] \"H-0000000000000a04\"[1]
[3] \"S-0000000000000b01\"[3]

{host}
Hca 1 \"H-0000000000000a03\" # \"shut mlx5_0\"
[1] \"S-0000000000000b02\"[1]

Hca 1 \"H-0000000000000a04\" # \"open mlx5_0\"
[1] \"S-0000000000000b02\"[2]
"
    )
}

impl Session {
    fn guarded(text: &str, key: Option<u64>, script: Script) -> Session {
        let (fabric, problems) = netfile::parse(text);
        assert!(problems.is_empty(), "{problems:?}");
        let options = SimOptions {
            load: 0.0,
            faults: Faults::Script(script),
            ..SimOptions::default()
        };
        let config = Config {
            m_key: key.and_then(Key::new),
            ..Config::default()
        };
        Session::over(SimPort::new(fabric, options).unwrap(), config)
    }

    /// SMPs whose target is this node, or who stands at the end of `behind`, since a time.
    fn smps(&self, node: u64, behind: (u64, u8), since: u64) -> usize {
        let id = crate::fabric::NodeId::new(node);
        let via = crate::fabric::NodeId::new(behind.0).port(behind.1);
        self.events
            .iter()
            .filter(|e| e.at >= Stamp::from_secs(since))
            .filter(|e| match &e.what {
                What::Sent(s) => {
                    s.mad.class().is_smp()
                        && (s.target.node == Some(id) || s.target.via == Some(via))
                }
                _ => false,
            })
            .count()
    }

    fn log(&self) -> Vec<String> {
        self.model.log().iter().map(|l| l.text.clone()).collect()
    }
}

fn protect(node: u64, bits: u8) -> Action {
    Action::Protect {
        node: crate::fabric::NodeId::new(node),
        m_key: KEY,
        bits,
    }
}

#[test]
fn a_node_that_is_protected_from_the_start_is_asked_once_and_the_sa_stands_in() {
    let text = netfile_with("# m_key 0x5ec2e75ec2e75ec2 protect 2", "");
    let mut session = Session::guarded(&text, None, Script::new());
    session.run_to(10);
    // One NodeInfo by discovery: then the trap, or the silence and the SA, told.
    assert_eq!(session.smps(0xa03, (0xb02, 1), 0), 1);
    let id = crate::fabric::NodeId::new(0xa03);
    let node = session.model.topology().node(id).unwrap();
    assert!(node.guarded && node.present);
    assert_eq!(session.model.name(id), "shut mlx5_0");
    let port = node.port(1).unwrap();
    assert_eq!(port.state(), Some(4));
    assert_eq!(port.peer, Some(crate::fabric::NodeId::new(0xb02).port(1)));
    let row = session
        .model
        .port(id.port(1), Stamp::from_secs(10))
        .unwrap();
    assert!(row.protected && !row.flags.any());
    assert!(
        session
            .log()
            .iter()
            .any(|l| l.contains("shut mlx5_0 is protected by an M_Key"))
    );
    // Its counters have no such key.
    let counted = session.events.iter().any(|e| {
        matches!(&e.what, What::Received(r)
            if r.mad.class() == MgmtClass::Perf && Some(r.addr.lid) == node.lid(1))
    });
    assert!(counted);
    // Discoveries go by, and it is there and left alone.
    session.run_to(1_300);
    assert_eq!(session.smps(0xa03, (0xb02, 1), 10), 0);
    let node = session.model.topology().node(id).unwrap();
    assert!(node.guarded && node.present);
    // The operator asks for it: one more question, and the same answer.
    session.engine.command(Command::Rediscover);
    session.run_to(1_310);
    assert_eq!(session.smps(0xa03, (0xb02, 1), 1_300), 1);
    assert!(session.model.topology().node(id).unwrap().guarded);
}

#[test]
fn a_node_that_becomes_protected_is_left_alone_after_its_first_silence() {
    let script = Script::new().at(Stamp::from_secs(5), protect(0xa04, 3));
    let mut session = Session::guarded(&netfile_with("", ""), None, script);
    session.run_to(4);
    let id = crate::fabric::NodeId::new(0xa04);
    assert!(!session.model.topology().node(id).unwrap().guarded);
    session.run_to(200);
    // The port states at 30 s meet the silence; the trap has named the node by then.
    assert_eq!(session.smps(0xa04, (0xb02, 2), 5), 1);
    let node = session.model.topology().node(id).unwrap();
    assert!(node.guarded && node.present);
    let told = session
        .events
        .iter()
        .filter(|e| matches!(e.what, What::Guarded(_)));
    assert_eq!(told.count(), 1);
    assert!(session.model.answers(id), "protected is not silent");
}

#[test]
fn who_is_behind_a_protected_switch_is_found_all_the_same() {
    let text = netfile_with("", "# m_key 0x5ec2e75ec2e75ec2 protect 2");
    let mut session = Session::guarded(&text, None, Script::new());
    session.run_to(10);
    let topology = session.model.topology();
    let far = topology.node(crate::fabric::NodeId::new(0xb02)).unwrap();
    assert!(far.guarded);
    for guid in [0xa03, 0xa04] {
        let host = topology.node(crate::fabric::NodeId::new(guid)).unwrap();
        assert!(host.present && !host.guarded && host.description.is_some());
    }
    assert_eq!(topology.len(), 6);
}

#[test]
fn with_the_key_everybody_answers_and_no_event_holds_it() {
    let text = netfile_with("# m_key 0x5ec2e75ec2e75ec2 protect 3", "");
    let mut session = Session::guarded(&text, Some(KEY), Script::new());
    session.run_to(40);
    let id = crate::fabric::NodeId::new(0xa03);
    let node = session.model.topology().node(id).unwrap();
    assert!(!node.guarded && node.description.is_some());
    assert!(session.smps(0xa03, (0xb02, 1), 0) >= 3);
    let key = KEY.to_be_bytes();
    for event in &session.events {
        let mad = match &event.what {
            What::Sent(s) => &s.mad,
            What::Received(r) => &r.mad,
            _ => continue,
        };
        assert!(
            !mad.bytes()
                .windows(4)
                .any(|w| key.windows(4).any(|k| k == w)),
            "{mad}"
        );
    }
    assert!(!format!("{:?}", session.events).contains(&KEY.to_string()));
    assert!(
        !format!(
            "{:?}",
            Config {
                m_key: Key::new(KEY),
                ..Config::default()
            }
        )
        .contains(&KEY.to_string())
    );
}

#[test]
fn the_key_is_in_the_smps_on_the_wire_and_in_nothing_else() {
    let fabric = super::fabric::star(2);
    let config = Config {
        m_key: Key::new(KEY),
        ..Config::default()
    };
    let mut bench = Bench::with(fabric, config);
    bench.run_ms(2_000);
    let fabric = bench.fabric.get();
    assert!(
        fabric
            .sent
            .iter()
            .any(|(_, o)| o.mad.attr_id() == NodeInfo::ID)
    );
    for (_, out) in &fabric.sent {
        // Bytes 24 to 31 of an SMP (spec 14.2.1.1).
        let holds = out.mad.bytes()[24..32] == KEY.to_be_bytes();
        assert_eq!(holds, out.mad.class().is_smp());
    }
}

#[test]
fn protection_that_a_lease_ends_is_found_gone_by_the_sa() {
    let script = Script::new().at(Stamp::from_secs(5), protect(0xa04, 2)).at(
        Stamp::from_secs(5),
        Action::Lease {
            node: crate::fabric::NodeId::new(0xa04),
            seconds: 60,
        },
    );
    let mut session = Session::guarded(&netfile_with("", ""), None, script);
    session.run_to(60);
    let id = crate::fabric::NodeId::new(0xa04);
    assert!(session.model.topology().node(id).unwrap().guarded);
    // Our question at 30 s began the lease. The next discovery asks the SA, which sees that the
    // protection is over.
    session.run_to(620);
    let node = session.model.topology().node(id).unwrap();
    assert!(!node.guarded && node.present);
    assert!(session.smps(0xa04, (0xb02, 2), 600) > 0);
    let info = node.port(1).unwrap().info.unwrap();
    assert_eq!((info.m_key_protect(), info.m_key_violations()), (0, 1));
}

#[test]
fn whoever_is_silent_is_named_by_the_sa() {
    let script = Script::new().at(Stamp::ZERO, Action::Kill(crate::fabric::NodeId::new(0xa03)));
    let mut session = Session::guarded(&netfile_with("", ""), None, script);
    session.run_to(10);
    let via = crate::fabric::NodeId::new(0xb02).port(1);
    let told = session.model.topology().told(via).unwrap();
    assert_eq!(told.id(), Some(crate::fabric::NodeId::new(0xa03)));
    // It is not protected, so nothing stands in for it.
    assert_eq!(
        session
            .model
            .topology()
            .node(told.id().unwrap())
            .map(|n| n.id),
        None
    );
    // Three attempts, as for any dead node, and three questions to the SA.
    let asked = session.events.iter().filter(|e| {
        matches!(&e.what, What::Sent(s)
        if s.target.via == Some(via) && s.mad.class() == MgmtClass::SubnAdm)
    });
    assert_eq!(asked.count(), 3);
    let _ = (PortInfo::ID, NodeSpec::num_ports, &session.control);
}

/// Field report 19: a partial fabric is shown as partial, with the reason for each part.
#[test]
fn field_report_19_every_gap_has_a_reason_and_a_beginning() {
    use crate::fabric::NodeId;
    use crate::model::view::{Absence, FailureKind};
    let script = Script::new()
        .at(Stamp::ZERO, Action::Kill(NodeId::new(0xa03)))
        .at(Stamp::from_secs(5), protect(0xa02, 3))
        .at(Stamp::from_secs(100), Action::Kill(NodeId::new(0xa04)));
    let mut session = Session::guarded(&netfile_with("", ""), None, script);
    session.run_to(20);
    let rows = session.model.missing(Stamp::from_secs(20));
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!(row.why, Absence::SilentBehind);
    // Nobody but the SA knows it.
    assert_eq!(row.node, Some(NodeId::new(0xa03)));
    assert_eq!(row.who.as_deref(), Some("shut mlx5_0"));
    assert_eq!(row.behind_name.as_deref(), Some("far[1]"));
    let failure = row.failure.as_ref().unwrap();
    assert_eq!(
        (failure.kind, failure.attribute),
        (FailureKind::NoAnswer, "NodeInfo")
    );
    // It was given up within the first seconds.
    assert!(row.since.unwrap() > Duration::from_secs(14), "{row:?}");
    let says = row.sa_says.as_ref().unwrap();
    assert!(
        says.starts_with("shut mlx5_0 (0x0000000000000a03), LID "),
        "{says}"
    );
    // The port states at 30 s meet the key; those at 120 s the host that died at 100 s.
    session.run_to(200);
    let at = Stamp::from_secs(200);
    let rows = session.model.missing(at);
    assert_eq!(rows.len(), 3, "{rows:?}");
    let of = |guid: u64| {
        let id = Some(NodeId::new(guid));
        rows.iter().find(|r| r.node == id).unwrap()
    };
    assert_eq!(of(0xa02).why, Absence::Protected);
    let since = of(0xa02).since.unwrap().as_secs();
    assert!((160..=170).contains(&since), "{since}");
    assert_eq!(of(0xa04).why, Absence::Silent);
    let since = of(0xa04).since.unwrap().as_secs();
    assert!((70..100).contains(&since), "{since}");
    assert_eq!(session.model.header(at).size.protected, 1);
    // The discovery at 600 s does not find it, and its silence began no later for that.
    session.run_to(640);
    let rows = session.model.missing(Stamp::from_secs(640));
    let id = Some(NodeId::new(0xa04));
    let gone = rows.iter().find(|r| r.node == id).unwrap();
    assert_eq!(gone.why, Absence::Unreachable);
    assert_eq!(gone.behind_name.as_deref(), Some("far[2]"));
    assert!(gone.since.unwrap().as_secs() > 500);
    // Whoever joins now is told the same.
    let (mut ledger, mut joined) = (crate::record::Ledger::new(), Model::new());
    let mut next = 0;
    for event in &session.events {
        ledger.observe(event);
        next = event.seq + 1;
    }
    ledger.keyframe(next, &mut |events| {
        for event in events {
            joined.apply(event);
        }
    });
    let told = |model: &Model| {
        let rows = model.missing(Stamp::from_secs(640));
        let shut = rows.iter().find(|r| r.why == Absence::Protected).unwrap();
        (rows.len(), shut.node, shut.behind, shut.since)
    };
    assert_eq!(told(&joined), told(&session.model));
}
