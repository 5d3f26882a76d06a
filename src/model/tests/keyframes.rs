//! Purity, gaps and keyframes; and whatever bytes may come.

use proptest::prelude::*;

use super::*;
use crate::event::{Known, Malformed};
use crate::report::{self, Format};

fn everything(model: &Model) -> String {
    let now = model.last();
    let mut all = String::new();
    for format in [Format::Text, Format::Json] {
        for report in [
            report::ports,
            report::nodes,
            report::timeouts,
            report::events,
        ] {
            all += &report(model, now, format);
        }
    }
    all + &report::topology(model, now) + &format!("{}", model.revision())
}

fn busy_session() -> Session {
    let mut s = Session::fabric();
    s.latency = Duration::from_micros(150);
    for round in 1..=4u16 {
        s.at(f64::from(round) * 5.0);
        for k in [key(LOCAL, 1), key(SWITCH, 1), key(SWITCH, 2), key(HOST, 1)] {
            let mut c = PortCounters::new();
            c.set_symbol_error(round * 3)
                .set_xmit_data(u32::from(round) * 1000);
            s.narrow(k, &c);
        }
        s.tick();
    }
    s.silence(
        Target::port(key(HOST, 1), 1),
        Mad::perf_port(PortCounters::ID, 1, 0),
        1,
        false,
    );
    s.port_info(key(SWITCH, 2), &down());
    s
}

#[test]
fn folding_the_same_events_twice_gives_the_same_bytes() {
    let s = busy_session();
    assert_eq!(everything(&s.model), everything(&s.replayed()));
}

#[test]
fn a_gap_in_the_numbers_is_counted_once() {
    let mut s = Session::fabric();
    let mut event = s.events.last().unwrap().clone();
    event.seq += 11;
    event.what = What::Dropped { count: 10 };
    s.model.apply(&event);
    assert_eq!(s.model.header(s.now).dropped, 10);
    event.seq += 3;
    event.what = What::Tick;
    s.model.apply(&event);
    assert_eq!(s.model.header(s.now).dropped, 12);
}

pub(super) fn known(s: &Session, at: u64) -> Vec<Event> {
    // The exchanges of the session, as an encoder would keep them.
    let mut sent = std::collections::BTreeMap::new();
    let mut list = Vec::new();
    for event in &s.events {
        match &event.what {
            What::Sent(x) => {
                sent.insert(x.mad.tid_low(), x.clone());
            }
            What::Received(r) => {
                let x = &sent[&r.mad.tid_low()];
                list.push(Event {
                    seq: 5_000,
                    at: Stamp::from_secs(at),
                    what: What::Known(Box::new(Known {
                        at: event.at,
                        target: x.target,
                        request: x.mad.clone(),
                        addr: x.addr,
                        reply: r.mad.clone(),
                    })),
                });
            }
            _ => {}
        }
    }
    list
}

#[test]
fn a_viewer_that_joins_late_sees_what_a_keyframe_says() {
    let mut s = Session::fabric();
    s.at(5.0).narrow(key(HOST, 1), &PortCounters::new());
    let mut late = Model::new();
    for event in known(&s, 100) {
        late.apply(&event);
    }
    let now = Stamp::from_secs(5);
    assert_eq!(late.ports(now).len(), 5);
    assert_eq!(
        late.port(key(HOST, 1), now).unwrap().errors,
        super::super::Num::Is(0)
    );
    assert_eq!(late.topology().digest(), s.model.topology().digest());
    assert!(late.log().is_empty());
}

#[test]
fn a_keyframe_in_a_session_that_was_followed_changes_nothing() {
    let mut s = busy_session();
    let frames = known(&s, 30);
    s.at(30.0);
    let before = report::ports(&s.model, s.now, Format::Json);
    for event in frames {
        s.event(event.what);
    }
    assert_eq!(report::ports(&s.model, s.now, Format::Json), before);
}

#[test]
fn the_engines_picture_is_compared_at_a_discoverys_end() {
    let mut s = Session::fabric();
    let end = |digest| {
        What::SweepEnded(SweepEnded {
            kind: SweepKind::Discovery,
            number: 1,
            answered: 0,
            failed: 0,
            skipped: 0,
            digest,
        })
    };
    let right = s.model.topology().digest();
    s.event(end(right));
    assert_eq!(s.model.digests_differ(), 0);
    s.event(end(right ^ 1));
    assert_eq!(s.model.digests_differ(), 1);
    assert!(
        s.texts()
            .contains(&"after discovery 1 the fabric shown differs from the engine's")
    );
}

#[test]
fn revision_stands_still_when_nothing_can_be_seen() {
    let mut s = Session::fabric();
    s.at(1.0).tick();
    s.at(2.0).tick();
    let before = s.model.revision();
    s.at(3.0).tick();
    assert_eq!(s.model.revision(), before);
    s.narrow(key(HOST, 1), &PortCounters::new());
    assert!(s.model.revision() > before);
}

fn any_target() -> impl Strategy<Value = Target> {
    let node = prop_oneof![Just(LOCAL), Just(SWITCH), Just(HOST), 0..4u64].prop_map(NodeId::new);
    (
        proptest::option::of(node),
        any::<u8>(),
        any::<bool>(),
        0..4u8,
    )
        .prop_map(|(node, port, via, at)| Target {
            node,
            port: port % 5,
            via: via.then_some(key(SWITCH, at)),
            generation: 1,
        })
}

/// A MAD of a class and attribute that mean something, with any other bytes.
fn any_mad() -> impl Strategy<Value = Mad> {
    let classes = prop_oneof![Just(1u8), Just(0x81), Just(3), Just(4), any::<u8>()];
    let attributes = prop_oneof![
        Just(1u16),
        Just(2),
        Just(0x10),
        Just(0x11),
        Just(0x12),
        Just(0x15),
        Just(0x1D),
        Just(0x20),
        Just(0x33),
        Just(0xFF90),
        any::<u16>()
    ];
    let methods = prop_oneof![Just(0x81u8), Just(0x92), Just(5), Just(6), any::<u8>()];
    let bytes = proptest::collection::vec(any::<u8>(), 24..400);
    (classes, attributes, methods, 0..6u32, any::<bool>(), bytes).prop_map(
        |(class, attribute, method, tid, ok, mut bytes)| {
            bytes[1] = class;
            bytes[3] = method;
            if ok {
                bytes[4..6].fill(0);
            }
            bytes[8..12].fill(0);
            bytes[12..16].copy_from_slice(&tid.to_be_bytes());
            bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
            Mad::from_bytes(&bytes).unwrap()
        },
    )
}

fn any_what() -> impl Strategy<Value = What> {
    prop_oneof![
        6 => (any_target(), any_mad(), 0..4u8).prop_map(|(target, mad, attempt)| {
            let addr = Address::smp(1);
            What::Sent(Sent { addr, target, attempt, timeout_ms: 1000, mad })
        }),
        6 => any_mad().prop_map(|mad| What::Received(Received { addr: Address::smp(1), mad })),
        1 => (any_target(), any::<u32>(), any::<bool>()).prop_map(|(target, n, last)| {
            What::TimedOut(TimedOut {
                tid: n % 6, target, class: n as u8, attribute: n as u16, modifier: n,
                attempt: 1, last, waited_ns: u64::from(n),
                how: crate::event::HowLate::default(),
            })
        }),
        1 => Just(What::Tick),
        1 => any::<u32>().prop_map(|n| What::SweepEnded(SweepEnded {
            kind: SweepKind::Discovery, number: n, answered: n, failed: n, skipped: 0,
            digest: u64::from(n),
        })),
        1 => any::<u32>().prop_map(|n| What::SweepBegan(SweepBegan {
            kind: SweepKind::Discovery, number: n, expected: n, generation: n,
        })),
        1 => (any_target(), any_mad(), any_mad()).prop_map(|(target, request, reply)| {
            let addr = Address::smp(1);
            What::Known(Box::new(Known { at: Stamp(5), target, request, addr, reply }))
        }),
        1 => ".*".prop_map(|why| What::Malformed(Box::new(Malformed { len: 0, why, head: vec![] }))),
        1 => any::<u64>().prop_map(|count| What::Dropped { count: count >> 32 }),
        1 => any::<i64>().prop_map(|wall| What::ClockStep { wall }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_and_no_order_of_events_panic(
        whats in proptest::collection::vec((any_what(), any::<u64>(), any::<u64>()), 0..120),
        fabric: bool,
    ) {
        let mut s = if fabric { Session::fabric() } else { Session::new() };
        for (what, at, seq) in whats {
            let event = Event { seq: seq % 1000, at: Stamp(at >> (seq % 60)), what };
            s.model.apply(&event);
        }
        let all = everything(&s.model);
        // Whatever came in, nothing of it can act on a terminal.
        prop_assert!(!all.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        for now in [Stamp::ZERO, Stamp(u64::MAX)] {
            let _ = s.model.header(now);
            let _ = s.model.traffic(now);
            let _ = s.model.totals(now);
            let _ = s.model.in_flight(now);
            for k in [key(SWITCH, 0), key(HOST, 1)] {
                let _ = s.model.detail(k, now);
            }
        }
    }
}
