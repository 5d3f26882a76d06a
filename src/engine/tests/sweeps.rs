//! Discovery, counters, port states.

use super::fabric::{star, tree};
use super::*;
use crate::command::Command;
use crate::event::Severity;
use crate::fabric::NodeId;
use crate::mad::{Attribute, MgmtClass};
use crate::mad::{ClassPortInfo, NodeInfo, PortCounters, PortCountersExtended, PortInfo};

#[test]
fn the_stream_opens_with_the_session_the_agents_and_the_port() {
    let mut bench = Bench::new(star(2));
    bench.run_ms(100);
    let first: Vec<&What> = bench.events.iter().take(6).map(|e| &e.what).collect();
    assert!(matches!(
        first[..],
        [
            What::Opened(_),
            What::Agent(_),
            What::Agent(_),
            What::Agent(_),
            What::Agent(_),
            What::LocalPort(_)
        ]
    ));
}

#[test]
fn discovery_finds_every_node_and_asks_each_link_once() {
    let mut bench = Bench::new(tree(2, 4, 3));
    bench.run_ms(200);
    let topology = bench.engine.topology();
    // 2 spines, 4 leaves, 12 hosts.
    assert_eq!(topology.len(), 18);
    assert!(
        topology
            .nodes()
            .all(|n| n.present && n.description.is_some())
    );
    // 12 host links and 8 between switches, seen from both ends.
    let linked: usize = topology
        .nodes()
        .map(|n| n.ports.iter().filter(|p| p.peer.is_some()).count())
        .sum();
    assert_eq!(linked, 40);
    let fabric = bench.fabric.get();
    let count = |id: u16| {
        fabric
            .sent
            .iter()
            .filter(|(_, o)| o.mad.class().is_smp() && o.mad.attr_id() == id)
            .count()
    };
    // The local node and each of 20 links once, and not once more from the other end.
    assert_eq!(count(NodeInfo::ID), 21);
    // 12 hosts with one port, 2 spines with 0 to 4, 4 leaves with 0 to 5.
    assert_eq!(count(PortInfo::ID), 12 + 2 * 5 + 4 * 6);
}

#[test]
fn counters_are_read_each_interval_and_only_where_there_is_a_link() {
    let fabric = star(3);
    fabric.get().unlink((0, 3));
    let mut bench = Bench::new(fabric);
    bench.run_ms(10_500);
    assert_eq!(bench.ended(SweepKind::Counters).len(), 3);
    let fabric = bench.fabric.get();
    let asked: std::collections::BTreeSet<(u16, u8)> = fabric
        .sent
        .iter()
        .filter(|(_, o)| o.mad.class() == MgmtClass::Perf && o.mad.attr_id() == PortCounters::ID)
        .map(|(_, o)| (o.addr.lid, o.mad.data()[1]))
        .collect();
    // Switch LID 1 with ports 1 and 2; hosts LID 2 and 3; not the host without a link.
    assert_eq!(asked, [(1, 1), (1, 2), (2, 1), (3, 1)].into());
    let count = |id: u16| {
        let mads = fabric.sent.iter().map(|(_, o)| &o.mad);
        mads.filter(|m| m.class() == MgmtClass::Perf && m.attr_id() == id)
            .count()
    };
    // Capabilities once a node; both attributes, since the errors are not 64 bits wide.
    assert_eq!(count(ClassPortInfo::ID), 3);
    assert_eq!(count(PortCounters::ID), 3 * 4);
    assert_eq!(count(PortCountersExtended::ID), 3 * 4);
}

#[test]
fn samples_of_a_port_are_one_interval_apart() {
    let mut bench = Bench::new(tree(2, 4, 3));
    bench.run_ms(21_000);
    let mut times: BTreeMap<(u16, u8), Vec<Stamp>> = BTreeMap::new();
    for (at, out) in &bench.fabric.get().sent {
        if out.mad.class() == MgmtClass::Perf && out.mad.attr_id() == PortCountersExtended::ID {
            let key = (out.addr.lid, out.mad.data()[1]);
            times.entry(key).or_default().push(*at);
        }
    }
    assert_eq!(times.len(), 40);
    for list in times.values() {
        // The first sweep asks for capabilities too; from then on the order is the same.
        for pair in list[1..].windows(2) {
            let gap = pair[1].since(pair[0]);
            assert!(
                gap.abs_diff(5 * SECOND) < Duration::from_millis(5),
                "{gap:?} between two samples"
            );
        }
    }
}

#[test]
fn nodes_without_wide_counters_are_read_narrow() {
    let fabric = star(2);
    fabric.get().nodes[0].caps = 0;
    fabric.get().nodes[2].caps = 0x0200;
    let mut bench = Bench::new(fabric);
    bench.run_ms(1_000);
    let fabric = bench.fabric.get();
    let wide: std::collections::BTreeSet<u16> = fabric
        .sent
        .iter()
        .filter(|(_, o)| {
            o.mad.class() == MgmtClass::Perf && o.mad.attr_id() == PortCountersExtended::ID
        })
        .map(|(_, o)| o.addr.lid)
        .collect();
    assert_eq!(wide, [2, 3].into());
}

#[test]
fn a_pulled_cable_is_seen_within_a_sweep_and_its_return_too() {
    let mut config = Config::default();
    config.settings.sweep_interval_ns = 2_000_000_000;
    config.subscribe = false;
    let mut bench = Bench::with(star(4), config);
    bench.run_ms(1_000);
    let host = NodeId::new(0x1003);
    assert!(bench.engine.topology().node(host).unwrap().present);
    bench.fabric.get().unlink((0, 3));
    bench.run_ms(3_500);
    let port = bench
        .engine
        .topology()
        .port(NodeId::new(0x100).port(3))
        .unwrap();
    assert_eq!(port.state(), Some(1));
    assert_eq!(port.last_peer, Some(host.port(1)));
    assert!(!bench.engine.topology().node(host).unwrap().present);
    let before = bench.fabric.get().sent.len();
    bench.run_ms(4_900);
    let fabric = bench.fabric.clone();
    assert!(
        fabric.get().sent[before..]
            .iter()
            .all(|(_, o)| o.addr.lid != 4),
        "a host that cannot be reached is not asked"
    );
    fabric.get().link((0, 3), (3, 1));
    bench.run_ms(7_500);
    assert!(bench.engine.topology().node(host).unwrap().present);
    let peer = bench.engine.topology().port(host.port(1)).unwrap().peer;
    assert_eq!(peer, Some(NodeId::new(0x100).port(3)));
    // 3.5 s later its counters are read again.
    let before = bench.fabric.get().sent.len();
    bench.run_ms(11_000);
    let fabric = bench.fabric.get();
    let again = &fabric.sent[before..];
    assert!(
        again
            .iter()
            .any(|(_, o)| o.mad.class() == MgmtClass::Perf && o.addr.lid == 4)
    );
}

#[test]
fn another_host_behind_the_same_port_replaces_the_first() {
    let mut config = Config::default();
    config.settings.discovery_interval_ns = 20_000_000_000;
    let mut bench = Bench::with(star(3), config);
    bench.run_ms(1_000);
    {
        let mut fabric = bench.fabric.get();
        fabric.unlink((0, 2));
        let other = fabric.host(0x2002);
        fabric.link((0, 2), (other, 1));
    }
    bench.run_ms(25_000);
    let topology = bench.engine.topology();
    assert!(!topology.node(NodeId::new(0x1002)).unwrap().present);
    assert!(topology.node(NodeId::new(0x2002)).unwrap().present);
}

#[test]
fn a_command_discovers_again_and_another_counts_again() {
    let mut bench = Bench::new(star(3));
    bench.run_ms(1_000);
    bench.engine.command(Command::Rediscover);
    bench.engine.command(Command::ReadCounters);
    bench.run_ms(2_000);
    assert_eq!(bench.ended(SweepKind::Discovery).len(), 2);
    assert_eq!(bench.ended(SweepKind::Counters).len(), 2);
}

#[test]
fn port_states_go_by_lid_and_by_route_where_there_is_no_sm() {
    for (sm, class) in [(2, MgmtClass::SubnLid), (0, MgmtClass::SubnDirected)] {
        let fabric = star(3);
        fabric.get().sm_lid = sm;
        let mut bench = Bench::new(fabric);
        bench.run_ms(29_000);
        let before = bench.fabric.get().sent.len();
        bench.run_ms(31_000);
        let fabric = bench.fabric.get();
        let classes: std::collections::BTreeSet<_> = fabric.sent[before..]
            .iter()
            .map(|(_, o)| &o.mad)
            .filter(|m| m.attr_id() == PortInfo::ID && m.class().is_smp())
            // The local node's own port needs no LID.
            .filter(|m| !m.initial_path().is_empty() || m.class() == MgmtClass::SubnLid)
            .map(|m| m.class().code())
            .collect();
        assert_eq!(classes, [class.code()].into(), "SM LID {sm}");
    }
}

#[test]
fn without_the_directed_route_agent_the_engine_says_that_it_cannot_discover() {
    let fabric = star(2);
    fabric.get().refused = vec![crate::port::Agent::SmpDirected, crate::port::Agent::SmpLid];
    let mut bench = Bench::new(fabric);
    bench.run_ms(3_000);
    assert!(bench.events.iter().any(|e| matches!(
        e.what,
        What::Note {
            severity: Severity::Critical,
            ..
        }
    )));
    assert!(
        bench
            .fabric
            .get()
            .sent
            .iter()
            .all(|(_, o)| !o.mad.class().is_smp())
    );
}

/// Field report 26: one class is refused; the others go on, and nothing is sent by the one.
#[test]
fn field_report_26_without_one_agent_the_rest_works() {
    use crate::port::Agent;
    for (agent, kept) in [
        (Agent::Perf, [0x01, 0x03, 0x81].as_slice()),
        (Agent::SubnAdm, &[0x01, 0x04, 0x81]),
        (Agent::SmpLid, &[0x03, 0x04, 0x81]),
    ] {
        let fabric = star(3);
        fabric.get().refused = vec![agent];
        let mut bench = Bench::new(fabric);
        bench.run_ms(40_000);
        assert!(bench.engine.topology().nodes().all(|n| n.present));
        let fabric = bench.fabric.get();
        let classes = fabric.classes();
        assert_eq!(classes, kept.iter().copied().collect(), "{agent:?}");
        // States are swept, by whichever way there is.
        let states = fabric
            .sent
            .iter()
            .filter(|(at, o)| *at > Stamp::from_secs(29) && o.mad.attr_id() == PortInfo::ID);
        assert!(states.count() > 0, "{agent:?}");
        if agent != Agent::Perf {
            assert!(bench.ended(SweepKind::Counters).len() >= 7, "{agent:?}");
        }
    }
}

#[test]
fn a_host_with_the_limited_key_asks_switches_only_and_says_so() {
    let mut bench = Bench::new(star(3));
    bench.run_ms(1);
    let mut local = bench.engine.port().local(Stamp::ZERO).unwrap();
    local.pkey_limited = true;
    let mut core = super::super::Core::new(Config::default(), bench.engine.port().source());
    core.handle(
        Stamp::ZERO,
        super::super::Input::Agents(bench.engine.port().agents()),
    );
    core.handle(Stamp::ZERO, super::super::Input::Local(local));
    let mut said = false;
    while let Some(output) = core.poll(Stamp::ZERO) {
        let super::super::Output::Events = output else {
            continue;
        };
        for event in core.events() {
            if let What::Note { text, .. } = event.what {
                said |= text.contains("limited");
            }
        }
    }
    assert!(said);
}

/// Field report 7: sampling every second needs no rediscovery every second.
#[test]
fn field_report_07_counters_and_topology_are_read_at_their_own_intervals() {
    let mut config = Config::default();
    config.settings.interval_ns = 1_000_000_000;
    let mut bench = Bench::with(tree(2, 4, 3), config);
    bench.run_ms(25_500);
    assert_eq!(bench.ended(SweepKind::Discovery).len(), 1);
    assert!(bench.ended(SweepKind::Counters).len() >= 25);
    let fabric = bench.fabric.get();
    let later = fabric
        .sent
        .iter()
        .filter(|(at, _)| *at > Stamp::from_secs(1));
    let topology = later.filter(|(_, o)| o.mad.attr_id() == NodeInfo::ID && o.mad.class().is_smp());
    assert_eq!(topology.count(), 0);
}

/// Field report 22: the P_Key index was fixed at 0, so that SA and PMA could not be reached in a
/// management partition.
#[test]
fn field_report_22_gmps_carry_the_index_of_the_default_key_and_smps_index_0() {
    let fabric = star(3);
    fabric.get().pkey_index = 5;
    let mut bench = Bench::new(fabric);
    bench.run_ms(6_000);
    let fabric = bench.fabric.get();
    let mut seen = std::collections::BTreeSet::new();
    for (_, out) in &fabric.sent {
        let class = out.mad.class();
        seen.insert((class.code(), out.addr.pkey_index));
    }
    assert_eq!(
        seen,
        [(0x01, 0), (0x03, 5), (0x04, 5), (0x81, 0)].into(),
        "class and index"
    );
}
