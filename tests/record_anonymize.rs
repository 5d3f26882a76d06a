//! An anonymized session tells nothing of the site, and replays as the same fabric.

#![allow(clippy::unwrap_used, reason = "a test")]

mod events;

use events::{HOST, SWITCH, Script, events, opened};
use fabtop::event::*;
use fabtop::fabric::{NodeId, Target};
use fabtop::mad::{
    Attribute, LinearForwardingTable, Mad, Method, NodeDescription, Notice, PortInfo, PortState,
};
use fabtop::model::Model;
use fabtop::port::*;
use fabtop::record::{Anonymizer, Encoder, Options};
use proptest::prelude::*;

const SECRET_NAME: &str = "secretsite-login1 HCA-1";

fn smp(s: &mut Script, path: &[u8], target: Target, id: u16, modifier: u32) -> Mad {
    let get = Mad::smp_dr(Method::Get, id, modifier, path, 0).unwrap();
    s.ask(Address::directed(), target, get)
}

fn session() -> Vec<Event> {
    let mut s = Script::new();
    s.discover();
    let host = NodeId::new(HOST);
    let get = smp(
        &mut s,
        &[1, 2],
        Target::node(host, 0),
        NodeDescription::ID,
        0,
    );
    let name = NodeDescription::from_text(SECRET_NAME);
    s.answer(Address::directed(), Mad::reply(&get.view(), &name));
    for (node, path, port, lid) in [
        (SWITCH, &[1][..], 0, 0x1234),
        (SWITCH, &[1], 2, 0),
        (HOST, &[1, 2], 1, 0x1239),
    ] {
        let target = Target::port(NodeId::new(node).port(port as u8), 0);
        let get = smp(&mut s, path, target, PortInfo::ID, port);
        let mut info = PortInfo::new();
        info.set_port_state(PortState::Active)
            .set_lid(lid)
            .set_sm_lid(0x1234)
            .set_m_key(0x0BAD_C0DE_0BAD_C0DE)
            .set_gid_prefix(0xFE80_0000_0000_0000);
        s.answer(Address::directed(), Mad::reply(&get.view(), &info));
    }
    s.counters(HOST, 1, 0x1239, 1000);
    // Trap 128: the switch with LID 0x1234.
    let mut trap = Mad::smp_lid(Method::Trap, Notice::ID, 0, 5);
    trap.set_data_bytes(&[0x81, 0, 0, 2, 0, 128, 0x12, 0x34, 0, 0, 0x12, 0x34]);
    s.answer(Address::smp(0x1234), trap);
    s.push(What::Note {
        severity: Severity::Warning,
        node: Some(host),
        text: format!("{host} ({SECRET_NAME}) at LID 4665 does not answer").into(),
    });
    s.push(What::Mark {
        text: "ask Jane".into(),
    });
    s.push(What::Closed { why: "end".into() });
    s.events
}

fn anonymized(mut events: Vec<Event>) -> Vec<Event> {
    let mut anonymizer = Anonymizer::new(3);
    events.iter_mut().for_each(|e| anonymizer.event(e));
    events
}

fn fold(events: &[Event]) -> Model {
    let mut model = Model::new();
    events.iter().for_each(|e| model.apply(e));
    model
}

#[test]
fn nothing_of_the_site_is_left() {
    let mut bytes = Vec::new();
    let events = anonymized(session());
    Encoder::new(Options { keep_keys: true }).encode(&events, &mut bytes);
    let holds = |what: &[u8]| bytes.windows(what.len()).any(|w| w == what);
    for guid in [HOST, HOST + 1, SWITCH, SWITCH + 1, 0x0002_c903_0000_00f0] {
        assert!(!holds(&guid.to_be_bytes()), "{guid:#x}");
        assert!(
            !holds(format!("{guid:016x}").as_bytes()),
            "{guid:#x} as text"
        );
    }
    assert!(!holds(b"secretsite") && !holds(b"Jane") && !holds(b"login1"));
    assert!(!holds(&[0x0B, 0xAD, 0xC0, 0xDE]), "a key");
    // LIDs 0x1234 and 0x1239 (4665).
    assert!(!holds(&[0x12, 0x34]) && !holds(&[0x12, 0x39]) && !holds(b"4665"));
    assert!(holds(b"host-0001"));
}

#[test]
fn it_replays_as_a_fabric_of_the_same_shape() {
    let (before, after) = (fold(&session()), fold(&anonymized(session())));
    let shape = |model: &Model| {
        let mut shape: Vec<_> = model
            .topology()
            .nodes()
            .map(|n| {
                let links: Vec<_> = n.ports.iter().map(|p| p.peer.map(|k| k.port)).collect();
                let states: Vec<_> = n.ports.iter().map(|p| p.state()).collect();
                (n.kind, links, states, n.route)
            })
            .collect();
        shape.sort_by_key(|(.., route)| route.hops().to_vec());
        shape
    };
    assert_eq!(shape(&before), shape(&after));
    let lid_of = |model: &Model, lid| model.topology().by_lid(lid).map(|k| k.port);
    let host = after
        .topology()
        .nodes()
        .find(|n| n.route.len() == 2)
        .unwrap();
    let lid = host.lid(1).unwrap();
    assert_ne!(lid, 0x1239);
    assert_eq!(lid_of(&after, lid), lid_of(&before, 0x1239));
    assert_eq!(host.description.unwrap().text(), "host-0001");
}

#[test]
fn forwarding_tables_follow_their_lids() {
    let mut s = Script::new();
    let get = smp(&mut s, &[1], Target::local(0), LinearForwardingTable::ID, 2);
    let mut reply = Mad::response_to(&get.view(), fabtop::mad::Status::OK);
    // Block 2: LID 128 + i leaves by port i.
    let ports: Vec<u8> = (0..64).collect();
    reply.set_data_bytes(&ports);
    s.answer(Address::directed(), reply);
    // And a packet to LID 131, to see what became of it.
    s.answer(Address::smp(131), get);
    let after = anonymized(s.events);
    let received = |e: &Event| match &e.what {
        What::Received(r) => r.clone(),
        other => panic!("{other:?}"),
    };
    let (table, packet) = (received(&after[3]), received(&after[4]));
    let lid = packet.addr.lid;
    assert_ne!(lid, 131);
    assert_eq!(table.mad.data()[usize::from(lid - 128)], 3);
    // Still a table: each port once.
    let mut ports = table.mad.data().to_vec();
    ports.sort_unstable();
    assert_eq!(ports, (0..64).collect::<Vec<u8>>());
}

#[test]
fn the_opening_keeps_what_is_needed() {
    let event = Event {
        seq: 0,
        at: Stamp::ZERO,
        what: What::Opened(Box::new(opened())),
    };
    let after = anonymized(vec![event]);
    let What::Opened(after) = &after[0].what else {
        panic!("{after:?}");
    };
    assert!(after.source.is_simulated());
    assert_eq!(after.wall, opened().wall);
}

proptest! {
    #[test]
    fn any_event_can_be_anonymized(list in events(40)) {
        let n = list.len();
        let after = anonymized(list.clone());
        prop_assert_eq!(after.len(), n);
        for (a, b) in list.iter().zip(&after) {
            prop_assert_eq!((a.seq, a.at), (b.seq, b.at));
            prop_assert_eq!(std::mem::discriminant(&a.what), std::mem::discriminant(&b.what));
        }
    }
}
