//! Links below their best, one by one and as a whole fabric. Expectations are counted by hand.

use super::*;
use crate::event::Severity;
use crate::fabric::thresholds::{Suppress, Thresholds};
use crate::report::{self, Format};

/// Hosts of the fabric, at ports 1 to 24 of its only switch.
const HOSTS: u8 = 24;

fn host(port: u8) -> PortKey {
    key(0x100 + u64::from(port), 1)
}

/// A port that can do NDR and runs at this.
fn ndr(lid: u16, speed: LinkSpeedExt) -> PortInfo {
    let mut info = edr(lid);
    info.set_link_speed_ext_supported(LinkSpeedsExt(0xF))
        .set_link_speed_ext_active(speed);
    info
}

/// Both ends of a host's link are read.
fn read(s: &mut Session, port: u8, info: &dyn Fn(u16) -> PortInfo) {
    s.port_info(key(SWITCH, port), &info(0));
    s.port_info(host(port), &info(10 + u16::from(port)));
}

fn hdr(lid: u16) -> PortInfo {
    ndr(lid, LinkSpeedExt::Hdr)
}

fn best(lid: u16) -> PortInfo {
    ndr(lid, LinkSpeedExt::Ndr)
}

/// A switch with 24 hosts, discovered; what each link runs at is told by its port.
fn fabric(info: impl Fn(u8, u16) -> PortInfo) -> Session {
    let mut s = Session::new();
    s.discovery(1, |s| {
        let name = |port: u8| format!("node{port}");
        s.appear(None, 0x101, NodeType::Ca, 1, 1, &name(1));
        s.port_info(host(1), &info(1, 11));
        s.appear(Some(host(1)), SWITCH, NodeType::Switch, HOSTS, 1, "leaf");
        s.port_info(key(SWITCH, 0), &edr(2));
        for port in 1..=HOSTS {
            s.port_info(key(SWITCH, port), &info(port, 0));
            if port > 1 {
                let guid = 0x100 + u64::from(port);
                let via = Some(key(SWITCH, port));
                s.appear(via, guid, NodeType::Ca, 1, 1, &name(port));
                s.port_info(host(port), &info(port, 10 + u16::from(port)));
            }
            assert_eq!(open(s), [], "nothing is told before the sweep has ended");
        }
    });
    s
}

/// Another sweep over the ports, in which these changed.
fn states(s: &mut Session, secs: f64, changed: impl IntoIterator<Item = (u8, PortInfo)>) {
    s.at(secs);
    s.event(What::SweepBegan(SweepBegan {
        kind: SweepKind::States,
        number: 1,
        expected: 0,
        generation: 1,
    }));
    for (port, info) in changed {
        read(s, port, &|lid| {
            let mut info = info;
            info.set_lid(lid);
            info
        });
    }
    s.event(What::SweepEnded(SweepEnded {
        kind: SweepKind::States,
        number: 1,
        answered: 0,
        failed: 0,
        skipped: 0,
        digest: 0,
    }));
}

/// Open alerts: whom they are about, how grave they are, what they say.
fn open(s: &Session) -> Vec<(Option<PortKey>, Severity, String)> {
    let alerts = s.model.alerts().into_iter();
    alerts
        .filter(|a| a.cleared.is_none())
        .inspect(|a| assert_eq!(a.kind, "below_best"))
        .map(|a| (a.about, a.severity, a.text))
        .collect()
}

fn most(severity: Severity, n: usize) -> (Option<PortKey>, Severity, String) {
    let text = format!("{n} of 24 links run at 4x HDR, where both ends can do 4x NDR");
    (None, severity, text)
}

/// The alert of a host's link, which is at the switch: its GUID is the lower one.
fn single(port: u8, runs: &str) -> (Option<PortKey>, Severity, String) {
    let text = format!("link runs at {runs}, both ends can do 4x NDR");
    (Some(key(SWITCH, port)), Severity::Warning, text)
}

#[test]
fn a_fabric_with_cables_of_the_generation_before_is_one_alert() {
    // 21 links at HDR, one at EDR, one at 1x HDR, one at its best.
    let s = fabric(|port, lid| match port {
        3 => ndr(lid, LinkSpeedExt::Edr),
        4 => {
            let mut narrow = hdr(lid);
            narrow.set_link_width_active(LinkWidth::X1);
            narrow
        }
        5 => best(lid),
        _ => hdr(lid),
    });
    let want = [
        single(3, "4x EDR"),
        single(4, "1x HDR"),
        most(Severity::Info, 21),
    ];
    assert_eq!(open(&s), want);
    // Every port's flag still says it, and the report has the same as the screen.
    let flagged = s
        .model
        .ports(s.now)
        .iter()
        .filter(|r| r.flags.below_best)
        .count();
    assert_eq!(flagged, 2 * 23);
    let text = report::alerts(&s.model, s.now, Format::Text);
    assert_eq!(text.matches("both ends can do").count(), 3, "{text}");
    let told = s.texts().iter().filter(|t| t.contains("alert: ")).count();
    assert_eq!(told, 3);
    // Nothing was cleared to get there.
    assert_eq!(s.model.alerts().len(), 3);
}

#[test]
fn fifteen_links_or_half_of_them_are_told_one_by_one() {
    let s = fabric(|port, lid| if port <= 15 { hdr(lid) } else { best(lid) });
    assert_eq!(open(&s).len(), 15);
    let s = fabric(|port, lid| if port <= 16 { hdr(lid) } else { best(lid) });
    assert_eq!(open(&s), [most(Severity::Info, 16)]);
}

#[test]
fn it_opens_and_clears_with_a_sweeps_end_and_not_at_each_link() {
    let mut s = fabric(|_, lid| best(lid));
    assert_eq!(open(&s), []);
    // One link after the other falls back: each is told of, until they are most.
    states(&mut s, 30.0, (1..=12).map(|port| (port, hdr(0))));
    let singles: Vec<_> = (1..=12).map(|port| single(port, "4x HDR")).collect();
    assert_eq!(open(&s), singles);
    states(&mut s, 60.0, (13..=16).map(|port| (port, hdr(0))));
    // It became so while somebody looked.
    assert_eq!(open(&s), [most(Severity::Warning, 16)]);
    // 11 are less than half of 24 and more than a third: it stays, with another number.
    states(&mut s, 90.0, (1..=5).map(|port| (port, best(0))));
    assert_eq!(open(&s), [most(Severity::Warning, 11)]);
    // 8 are a third: those that are left are told of one by one.
    states(&mut s, 120.0, (6..=8).map(|port| (port, best(0))));
    let singles: Vec<_> = (9..=16).map(|port| single(port, "4x HDR")).collect();
    assert_eq!(open(&s), singles);
    states(&mut s, 150.0, (9..=16).map(|port| (port, best(0))));
    assert_eq!(open(&s), []);
    let log = s.texts();
    let tells = |what: &str| log.contains(&what);
    assert!(tells(
        "alert: 16 of 24 links run at 4x HDR, where both ends can do 4x NDR"
    ));
    assert!(
        tells("alert cleared: most links below their best"),
        "{log:?}"
    );
}

#[test]
fn a_link_that_differs_and_does_so_no_more_has_no_alert_of_its_own() {
    let mut s = fabric(|_, lid| hdr(lid));
    assert_eq!(open(&s), [most(Severity::Info, 24)]);
    states(&mut s, 30.0, [(7, ndr(0, LinkSpeedExt::Fdr))]);
    assert_eq!(open(&s), [single(7, "4x FDR"), most(Severity::Info, 23)]);
    states(&mut s, 60.0, [(7, hdr(0))]);
    assert_eq!(open(&s), [most(Severity::Info, 24)]);
    // A link that is down is none that is below its best, nor one at all.
    s.at(90.0).port_info(key(SWITCH, 9), &down());
    let text = "23 of 23 links run at 4x HDR, where both ends can do 4x NDR";
    let alerts = s.model.alerts();
    assert!(alerts.iter().any(|a| a.text == text), "{alerts:?}");
}

#[test]
fn cables_of_another_generation_take_its_place() {
    let mut s = fabric(|_, lid| hdr(lid));
    states(
        &mut s,
        30.0,
        (1..=20).map(|port| (port, ndr(0, LinkSpeedExt::Edr))),
    );
    let text = "20 of 24 links run at 4x EDR, where both ends can do 4x NDR".to_owned();
    let mut want = vec![(None, Severity::Warning, text)];
    want.extend((21..=24).map(|port| single(port, "4x HDR")));
    let mut got = open(&s);
    got.sort();
    assert_eq!(got, want);
}

#[test]
fn who_wants_to_hear_nothing_of_it_hears_nothing() {
    let mut s = fabric(|_, lid| hdr(lid));
    let thresholds = Thresholds {
        suppress: vec![Suppress {
            name: "below_best".to_owned(),
            node: None,
            port: None,
        }],
        ..Thresholds::default()
    };
    let settings = |thresholds| {
        What::Settings(Box::new(Settings {
            thresholds,
            ..Settings::default()
        }))
    };
    s.at(10.0).event(settings(thresholds));
    assert_eq!(open(&s), []);
    states(&mut s, 30.0, (1..=24).map(|port| (port, hdr(0))));
    assert_eq!(open(&s), []);
    s.at(40.0).event(settings(Thresholds::default()));
    states(&mut s, 60.0, (1..=24).map(|port| (port, hdr(0))));
    assert_eq!(open(&s), [most(Severity::Warning, 24)]);
}

#[test]
fn who_joins_is_told_the_same_and_goes_on_the_same() {
    let mut s = fabric(|port, lid| match port {
        3 => ndr(lid, LinkSpeedExt::Edr),
        _ => hdr(lid),
    });
    states(&mut s, 30.0, (20..=24).map(|port| (port, best(0))));
    let split = s.events.len();
    let mut joined = Model::new();
    for event in super::keyframes::known(&s, 31) {
        joined.apply(&event);
    }
    assert_eq!(joined.alerts(), []);
    s.model.ledger(&mut |ledger| {
        joined.apply(&Event {
            seq: 5_000,
            at: Stamp::from_secs(31),
            what: What::Ledger(Box::new(ledger)),
        });
    });
    let shown = |model: &Model| format!("{:?}", model.alerts());
    assert_eq!(shown(&joined), shown(&s.model));
    // It opens, folds and clears as for who was there all the time.
    let mut done = split;
    for (secs, ports) in [(60.0, 5..=12), (90.0, 13..=19), (120.0, 1..=4)] {
        states(&mut s, secs, ports.map(|port| (port, best(0))));
        s.events[done..].iter().for_each(|e| joined.apply(e));
        done = s.events.len();
        assert_eq!(shown(&joined), shown(&s.model), "{secs}");
    }
    assert_eq!(open(&s), []);
    assert_eq!(shown(&s.replayed()), shown(&s.model));
}
