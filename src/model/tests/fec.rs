//! Alerts of forward error correction: bit error rates, and counters at their maximum.

use super::super::{Counter, Num};
use super::optional::{fec, fec_mode, hdr, host, rs, speeds};
use super::*;
use crate::event::Severity;
use crate::mad::{FecMode, PortExtendedSpeeds};

/// Severity, text and whether it is open of the alerts of this kind.
fn alerts(s: &Session, kind: &str) -> Vec<(crate::event::Severity, String, bool)> {
    let rows = s.model.alerts();
    let of_kind = rows.iter().filter(|a| a.kind == kind);
    of_kind
        .map(|a| (a.severity, a.text.clone(), a.cleared.is_none()))
        .collect()
}

#[test]
fn corrected_errors_of_a_healthy_link_are_no_alert_and_cost_nothing() {
    let mut s = Session::fabric();
    hdr(&mut s, FecMode::Rs);
    // 4 lanes of 53.125 Gb/s carry 6.375e12 bits in 30 s: 63,750 errors are 1e-8.
    for n in 0..120u32 {
        s.at(10.0 + 30.0 * f64::from(n)).tick();
        speeds(&mut s, &rs(1_000 + 63_750 * n, 7));
    }
    assert_eq!(fec(&s).raw.to_string(), "1.0e-8");
    assert_eq!(s.model.alert_counts().all(), 0);
    assert!(s.model.alerts.limits.windows.is_empty());
}

#[test]
fn a_bit_error_rate_above_its_limit_is_an_alert_until_half_of_it_is_undercut() {
    use crate::event::Severity::{Critical, Warning};
    let mut s = Session::fabric();
    fec_mode(&mut s, FecMode::Rs);
    s.at(10.0);
    speeds(&mut s, &rs(1_000, 7));
    // 10 minutes of 4x EDR carry 6.1875e13 bits, so the limit of RS(528,514), 9.6e-6, is 594
    // million errors. From 70 s on there are 99 million in 30 s (3.2e-5): the seventh sample
    // makes 693 million, 1.12e-5 of all.
    let mut symbols = 1_000;
    for n in 1..=7 {
        assert_eq!(alerts(&s, "RawBER"), []);
        symbols += 99_000_000;
        s.at(40.0 + 30.0 * f64::from(n)).tick();
        speeds(&mut s, &rs(symbols, 7));
    }
    let words = "RawBER is 1.1e-5 within 10 min, limit 9.6e-6";
    assert_eq!(alerts(&s, "RawBER"), [(Warning, words.to_owned(), true)]);
    let rows = s.model.alerts();
    let row = rows.iter().find(|a| a.kind == "RawBER").unwrap();
    assert_eq!(
        (row.about, row.opened),
        (Some(host()), Stamp::from_secs(250))
    );
    assert_eq!(
        s.model.suspicion(row).unwrap(),
        "suspect the cable, its connectors or leaf[2]'s transmitter"
    );
    drop(rows);
    // Ten minutes have twelve parts of 50 s. When the one that began at 150 s is left, at 750 s,
    // two samples (1.98e8) are within, which is below half of the limit; before that, four.
    for sec in 251..=800 {
        s.at(f64::from(sec)).tick();
        if sec % 30 == 10 {
            symbols += 63_750;
            speeds(&mut s, &rs(symbols, 7));
        }
    }
    let rows = s.model.alerts();
    let row = rows.iter().find(|a| a.kind == "RawBER").unwrap();
    assert_eq!(row.cleared, Some(Stamp::from_secs(750)));
    drop(rows);
    // 150 blocks lost in 10 minutes: 2.4e-12 or more. That there are more than 100 is an alert as well.
    s.at(820.0);
    speeds(&mut s, &rs(symbols, 157));
    let words = "EffectiveBER is at least 2.4e-12 within 10 min, limit 1e-12";
    assert_eq!(
        alerts(&s, "EffectiveBER"),
        [(Warning, words.to_owned(), true)]
    );
    let words = "PortFECUncorrectableBlockCtr rose by 150 within 1 h, limit 100";
    assert_eq!(
        alerts(&s, "PortFECUncorrectableBlockCtr"),
        [(Critical, words.to_owned(), true)]
    );
    // The link goes down: a link that carries nothing has no rate.
    s.at(830.0).port_info(host(), &down());
    for sec in 831..=900 {
        s.at(f64::from(sec)).tick();
    }
    assert!(alerts(&s, "EffectiveBER").iter().all(|(.., open)| !open));
}

/// 4x HDR carries 6.375e12 bits in 30 s; 1.275e9 errors are 2e-4, above the 1.4e-4 that
/// RS(544,514) is trusted with, and fill 32 bits within 101 s.
#[test]
fn a_rate_that_fills_its_counter_sooner_than_its_time_is_told_of_what_was_counted() {
    let mut s = Session::fabric();
    hdr(&mut s, FecMode::Rs);
    for (secs, symbols) in [(10.0, 0), (40.0, 1_275_000_000), (70.0, 2_550_000_000)] {
        s.at(secs).tick();
        speeds(&mut s, &rs(symbols, 0));
        // As seen so far, a part of ten minutes.
        assert_eq!(s.model.alert_counts().all(), 0);
    }
    for (secs, symbols) in [(100.0, 3_825_000_000), (130.0, u32::MAX), (160.0, u32::MAX)] {
        s.at(secs).tick();
        speeds(&mut s, &rs(symbols, 0));
    }
    // 4,294,967,295 in the 120 s that it took at most: 2.55e13 bits.
    let words = "RawBER is at least 1.7e-4 within 10 min, limit 1.4e-4";
    assert_eq!(
        alerts(&s, "RawBER"),
        [(Severity::Warning, words.to_owned(), true)]
    );
    let words = "PortFECCorrectedSymbolCtr is at its maximum: new errors cannot be seen";
    let pegged = alerts(&s, "pegged");
    assert!(
        pegged.contains(&(Severity::Info, words.to_owned(), true)),
        "{pegged:?}"
    );
    // What was seen leaves its ten minutes; what cannot be seen stays.
    for sec in 161..=800 {
        s.at(f64::from(sec)).tick();
    }
    assert!(alerts(&s, "RawBER").iter().all(|(.., open)| !open));
    assert_eq!(alerts(&s, "pegged").len(), 2);
    // Somebody resets the counters.
    s.at(801.0);
    speeds(&mut s, &rs(5, 0));
    assert!(alerts(&s, "pegged").iter().all(|(.., open)| !open));
    assert_eq!(s.model.alert_counts().all(), 0);
}

#[test]
fn a_counter_of_lost_blocks_at_its_maximum_is_graver_than_one_of_repaired_ones() {
    let mut s = Session::fabric();
    hdr(&mut s, FecMode::Rs);
    // Full before anybody looked: no news, but nothing can be seen either.
    s.at(10.0);
    speeds(&mut s, &rs(7, u32::MAX));
    let words = "PortFECUncorrectableBlockCtr is at its maximum: new errors cannot be seen";
    assert_eq!(
        alerts(&s, "pegged"),
        [(Severity::Info, words.to_owned(), true)]
    );
    // It stays as long as it is read so, and is told of once.
    s.at(40.0);
    speeds(&mut s, &rs(8, u32::MAX));
    let told = |s: &Session| s.texts().iter().filter(|t| t.contains(words)).count();
    assert_eq!((alerts(&s, "pegged").len(), told(&s)), (1, 1));
    s.at(70.0);
    speeds(&mut s, &rs(9, 0));
    assert!(alerts(&s, "pegged").iter().all(|(.., open)| !open));
    // Filled while somebody looks, all ones in one sample.
    s.at(100.0);
    speeds(&mut s, &rs(9, u32::MAX));
    assert_eq!(
        alerts(&s, "pegged"),
        [(Severity::Warning, words.to_owned(), true)]
    );
    assert_eq!(fec(&s).counters[1].value, Num::AtLeast(u64::from(u32::MAX)));
}

#[test]
fn lanes_that_are_full_are_told_of_by_the_rate_that_they_make() {
    // Without FEC, 16 bits a lane; the port's own three counters say nothing.
    let mut s = Session::fabric();
    fec_mode(&mut s, FecMode::None);
    for (secs, n) in [(10.0, 0), (20.0, u16::MAX)] {
        let mut c = PortExtendedSpeeds::new();
        c.set_error_detection(std::array::from_fn(|i| if i == 2 { n } else { 0 }));
        s.at(secs);
        speeds(&mut s, &c);
    }
    let of = |name: &str| {
        format!("the lane counters behind {name} are at their maximum: new errors cannot be seen")
    };
    let told = alerts(&s, "pegged");
    assert_eq!(
        told,
        [
            (Severity::Warning, of("EffectiveBER"), true),
            (Severity::Info, of("RawBER"), true)
        ]
    );
    s.at(30.0);
    speeds(&mut s, &PortExtendedSpeeds::new());
    assert!(alerts(&s, "pegged").iter().all(|(.., open)| !open));
    // A mode that nobody told: whose errors these would be is not known.
    let mut s = Session::fabric();
    let mut c = PortExtendedSpeeds::new();
    c.set_error_detection([u16::MAX; 12]);
    s.at(10.0);
    speeds(&mut s, &c);
    assert_eq!(alerts(&s, "pegged"), []);
}

#[test]
fn who_joins_sees_the_same_rates_of_full_counters() {
    let mut s = Session::fabric();
    hdr(&mut s, FecMode::Rs);
    for (secs, symbols) in [
        (10.0, 0),
        (40.0, 1_275_000_000),
        (70.0, 2_550_000_000),
        (100.0, 3_825_000_000),
        (130.0, u32::MAX),
    ] {
        s.at(secs).tick();
        speeds(&mut s, &rs(symbols, 0));
    }
    let mut windows = Vec::new();
    s.model.ledger(&mut |l| windows.extend(l.windows));
    let of_raw = windows.iter().find(|w| w.counter == "RawBER").unwrap();
    // In parts of 50 s: the samples at 40 s; 70 s; 100 s and 130 s.
    assert!(of_raw.pegged && of_raw.held);
    assert_eq!(of_raw.spans.iter().sum::<u32>(), 120_000);
    let text = serde_json::to_string(of_raw).unwrap();
    let back: crate::event::ledger::WindowLedger = serde_json::from_str(&text).unwrap();
    assert_eq!(&back, of_raw);
    // One of an older recording has neither.
    let mut like: serde_json::Value = serde_json::from_str(&text).unwrap();
    let object = like.as_object_mut().unwrap();
    assert!(object.remove("spans").is_some() && object.remove("pegged").is_some());
    let back: crate::event::ledger::WindowLedger = serde_json::from_value(like).unwrap();
    assert!(!back.pegged && back.spans.is_empty());
}

#[test]
fn the_same_rate_is_an_alert_with_one_code_and_none_with_a_stronger_one() {
    // 3e-5 of what 4 lanes carry in 30 s: 6.375e12 bits at HDR, 3.09375e12 at EDR.
    for (hdr_link, per_sample, open) in [(true, 191_250_000, 0), (false, 92_812_500, 1)] {
        let mut s = Session::fabric();
        match hdr_link {
            true => hdr(&mut s, FecMode::Rs),
            false => fec_mode(&mut s, FecMode::Rs),
        }
        for n in 0..20u32 {
            s.at(10.0 + 30.0 * f64::from(n)).tick();
            speeds(&mut s, &rs(per_sample * n, 0));
        }
        assert_eq!(fec(&s).raw.to_string(), "3.0e-5");
        assert_eq!(alerts(&s, "RawBER").len(), open, "HDR: {hdr_link}");
        assert_eq!(s.model.alert_counts().all(), open);
    }
}

#[test]
fn without_fec_a_rate_is_judged_once() {
    // 1.03125e12 bits of 4x EDR in 10 s; 90 errors in each of seven samples are 630 within ten
    // minutes of 6.1875e13 bits: 1.0e-11.
    let mut s = Session::fabric();
    fec_mode(&mut s, FecMode::None);
    for n in 0..8u16 {
        let mut c = PortExtendedSpeeds::new();
        c.set_error_detection(std::array::from_fn(|i| if i < 3 { 30 * n } else { 0 }));
        s.at(10.0 + 10.0 * f64::from(n)).tick();
        speeds(&mut s, &c);
    }
    assert_eq!(alerts(&s, "RawBER"), []);
    let words = "EffectiveBER is at least 1.0e-11 within 10 min, limit 1e-12";
    assert_eq!(
        alerts(&s, "EffectiveBER"),
        [(Severity::Warning, words.to_owned(), true)]
    );
}

#[test]
fn what_is_full_reads_back_as_a_keyframe_writes_it() {
    use crate::model::alerts::{Kind, Watched};
    let all = Counter::ALL.map(Watched::Of).into_iter();
    for watched in all.chain(Watched::OTHERS) {
        for kind in [Kind::Pegged(watched), Kind::Counter(watched)] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }
    // As older recordings have it.
    let old = "pegged/SymbolErrorCounter".parse();
    assert_eq!(old, Ok(Kind::Pegged(Watched::Of(Counter::SymbolError))));
}
