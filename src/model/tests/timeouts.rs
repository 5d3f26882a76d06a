//! Destinations: who answers, and how well.

use super::super::view::FailureKind;
use super::*;
use crate::event::{BackOff, Pace, SendFailed};

fn ask() -> Mad {
    Mad::smp_lid(Method::Get, PortInfo::ID, 1, 0)
}

/// Field report 1: a dead host is listed as unresponsive; the others are not touched.
#[test]
fn field_report_01_a_dead_host_is_listed_and_only_it() {
    let mut s = Session::fabric();
    let target = Target::port(key(HOST, 1), 1);
    s.at(10.0);
    for attempt in 1..=3 {
        s.silence(target, ask(), attempt, attempt == 3);
    }
    let until = Some(Stamp::from_secs(23));
    s.event(What::BackOff(BackOff {
        node: NodeId::new(HOST),
        failures: 1,
        until,
    }));
    let rows = s.model.destinations(s.now);
    let host = rows.iter().find(|r| r.name == "node7 mlx5_0").unwrap();
    // Two answered before: NodeDescription and PortInfo, and the NodeInfo that found it.
    assert_eq!(
        (host.sent, host.answered, host.retried, host.timed_out),
        (6, 3, 2, 3)
    );
    let failure = host.failure.as_ref().unwrap();
    assert_eq!(
        (failure.kind, failure.attribute),
        (FailureKind::NoAnswer, "PortInfo")
    );
    assert_eq!(failure.age, Duration::ZERO);
    assert_eq!(host.back_off, Some((1, Duration::from_secs(10))));
    assert!(rows.iter().filter(|r| r.timed_out > 0).count() == 1);
    assert!(s.model.port(key(HOST, 1), s.now).unwrap().flags.no_answer);
    assert!(!s.model.port(key(SWITCH, 1), s.now).unwrap().flags.no_answer);
    // It answers again.
    s.at(30.0).port_info(key(HOST, 1), &edr(3));
    s.event(What::BackOff(BackOff {
        node: NodeId::new(HOST),
        failures: 0,
        until: None,
    }));
    assert!(!s.model.port(key(HOST, 1), s.now).unwrap().flags.no_answer);
    let texts = s.texts();
    assert!(texts.ends_with(&["node7 mlx5_0 does not answer", "node7 mlx5_0 answers again"]));
}

/// Field report 13: the first reply is lost, the retry is answered.
#[test]
fn field_report_13_a_retry_that_succeeds_is_counted_and_no_failure() {
    let mut s = Session::fabric();
    let target = Target::port(key(HOST, 1), 1);
    s.silence(target, ask(), 1, false);
    assert!(!s.model.port(key(HOST, 1), s.now).unwrap().flags.no_answer);
    let sent = s.ask(target, ask(), 2);
    s.receive(Mad::reply(&sent.view(), &edr(3)));
    let rows = s.model.destinations(s.now);
    let host = rows.iter().find(|r| r.name == "node7 mlx5_0").unwrap();
    assert_eq!((host.retried, host.timed_out, host.answered), (1, 1, 4));
}

#[test]
fn latency_is_from_sending_to_arrival() {
    let mut s = Session::fabric();
    s.latency = Duration::from_micros(100);
    s.port_info(key(HOST, 1), &edr(3));
    let rows = s.model.destinations(s.now);
    let host = rows.iter().find(|r| r.name == "node7 mlx5_0").unwrap();
    assert_eq!(host.max, Some(Duration::from_micros(100)));
}

#[test]
fn statuses_are_failures_in_words_and_still_answers() {
    let mut s = Session::fabric();
    let target = Target::port(key(HOST, 1), 1);
    for (status, kind, detail) in [
        (Status::BUSY, FailureKind::Busy, "busy"),
        (
            Status::UNSUPPORTED_ATTRIBUTE,
            FailureKind::Unsupported,
            "method and attribute not supported",
        ),
        (Status::BAD_VALUE, FailureKind::BadStatus, "bad value"),
        // ibsim's answer to what it does not know: status 110.
        (
            Status(110),
            FailureKind::Unsupported,
            "redirect, method and attribute not supported, unknown (0x0060)",
        ),
    ] {
        s.refuse(target, ask(), status);
        let rows = s.model.destinations(s.now);
        let host = rows.iter().find(|r| r.name == "node7 mlx5_0").unwrap();
        let failure = host.failure.as_ref().unwrap();
        assert_eq!((failure.kind, failure.detail), (kind, detail));
        assert_eq!(host.timed_out, 0);
    }
    assert!(!s.model.port(key(HOST, 1), s.now).unwrap().flags.no_answer);
}

#[test]
fn the_sa_and_unexplored_ports_are_destinations_of_their_own() {
    let mut s = Session::fabric();
    let query = Mad::sa(Method::Get, 0x35, 0, 0, 0);
    s.silence(Target::default(), query, 1, true);
    let who = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1, 3], 0).unwrap();
    s.silence(Target::beyond(key(SWITCH, 3), 1), who, 1, true);
    let sm = Mad::smp_lid(Method::Get, crate::mad::SmInfo::ID, 0, 0);
    s.silence(Target::default(), sm, 1, true);
    let rows = s.model.destinations(s.now);
    for (row, name) in rows.iter().zip(["SA", "SM"]) {
        assert_eq!((row.name, row.node, row.timed_out), (name, None, 1));
    }
    assert!(s.model.port(key(SWITCH, 3), s.now).unwrap().flags.no_answer);
    assert!(!s.model.port(key(SWITCH, 1), s.now).unwrap().flags.no_answer);
    assert!(s.model.answers(NodeId::new(SWITCH)));
    let last = rows.last().unwrap();
    assert_eq!(
        (last.name, last.node, last.sent, last.timed_out),
        ("beyond leaf[3]", None, 1, 1)
    );
    assert!(s.texts().contains(&"no answer from beyond leaf[3]"));
    // The node that answers there takes over what was counted.
    s.appear(
        Some(key(SWITCH, 3)),
        0x12,
        NodeType::Ca,
        1,
        1,
        "node8 mlx5_0",
    );
    let rows = s.model.destinations(s.now);
    assert!(!rows.iter().any(|r| r.name.starts_with("beyond")));
    let new = rows.iter().find(|r| r.name == "node8 mlx5_0").unwrap();
    assert_eq!((new.sent, new.answered, new.timed_out), (3, 2, 1));
}

#[test]
fn what_is_in_flight_has_an_age_and_leaves_when_it_is_answered() {
    let mut s = Session::fabric();
    s.at(10.0);
    let first = s.ask(Target::port(key(HOST, 1), 1), ask(), 1);
    s.at(10.5).ask(
        Target::port(key(SWITCH, 1), 1),
        Mad::perf_port(0x12, 1, 0),
        2,
    );
    s.at(11.0);
    let rows = s.model.in_flight(s.now);
    let got: Vec<_> = rows
        .iter()
        .map(|r| (r.who, r.attempt, r.age.as_millis()))
        .collect();
    assert_eq!(got, [("node7 mlx5_0", 1, 1000), ("leaf", 2, 500)]);
    let header = s.model.header(s.now);
    assert_eq!(
        (header.smp_in_flight, header.gmp_in_flight),
        ((1, 8), (1, 64))
    );
    s.receive(Mad::reply(&first.view(), &edr(3)));
    assert_eq!(s.model.in_flight(s.now).len(), 1);
    s.event(What::DeviceGone {
        why: "mlx5_0: device removed".into(),
    });
    assert!(s.model.in_flight(s.now).is_empty());
    assert!(s.model.header(s.now).gone.is_some());
}

#[test]
fn a_send_error_is_a_failure_with_its_errno() {
    let mut s = Session::fabric();
    s.event(What::SendFailed(Box::new(SendFailed {
        tid: 999,
        target: Target::port(key(HOST, 1), 1),
        class: 1,
        attribute: PortInfo::ID,
        modifier: 1,
        attempt: 1,
        last: true,
        why: "write: ENODEV".to_owned(),
    })));
    let rows = s.model.destinations(s.now);
    let host = rows.iter().find(|r| r.name == "node7 mlx5_0").unwrap();
    let failure = host.failure.as_ref().unwrap();
    assert_eq!(
        (failure.kind, failure.detail),
        (FailureKind::SendError, "write: ENODEV")
    );
    assert_eq!(host.timed_out, 0);
}

#[test]
fn a_reply_without_its_request_teaches_nothing() {
    let mut s = Session::fabric();
    let digest = s.model.topology().digest();
    let mut stray = Mad::smp_lid(Method::Get, PortInfo::ID, 1, 0);
    stray.set_tid(0xDEAD);
    s.receive(Mad::reply(&stray.view(), &down()));
    // The right TID, but another attribute.
    let sent = s.ask(Target::port(key(HOST, 1), 1), ask(), 1);
    let mut other = Mad::smp_lid(Method::Get, NodeInfo::ID, 0, 0);
    other.set_tid(sent.tid());
    s.receive(Mad::reply(&other.view(), &NodeInfo::new()));
    assert_eq!(s.model.topology().digest(), digest);
    assert_eq!(s.model.in_flight(s.now).len(), 1);
}

#[test]
fn rates_of_mads_are_per_second_between_ticks() {
    let mut s = Session::fabric();
    s.at(1.0).tick();
    for _ in 0..30 {
        s.narrow(key(HOST, 1), &PortCounters::new());
    }
    s.port_info(key(HOST, 1), &edr(3));
    s.at(3.0).tick();
    let header = s.model.header(s.now);
    // 30 GMPs and one SMP in two seconds.
    assert_eq!(header.gmp_rate.0.get(), Some(15.0));
    assert_eq!(header.smp_rate.0.get(), Some(0.5));
    assert_eq!(header.mads_per_s.get(), Some(15.5));
}

#[test]
fn a_stretched_interval_is_said_and_staleness_goes_by_it() {
    let mut s = Session::fabric();
    s.at(5.0).narrow(key(HOST, 1), &PortCounters::new());
    let pace = Pace {
        interval_ns: 12_000_000_000,
        ..Pace::default()
    };
    s.event(What::Pace(Box::new(pace)));
    let header = s.model.header(s.now);
    assert_eq!(
        header.stretched,
        Some((SweepKind::Counters, Duration::from_secs(7)))
    );
    // Two intervals of twelve seconds.
    let stale = |at| {
        s.model
            .port(key(HOST, 1), Stamp::from_secs(at))
            .unwrap()
            .stale
    };
    assert!(!stale(29) && stale(30));
}
