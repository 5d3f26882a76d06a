//! Tables of very many ports make no row without need: they must show what small ones show.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

mod screens {
    #![allow(dead_code)] // shared with the tests of the screens
    pub mod fixture;
}

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::engine::{Config, Virtual};
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::sim::{SimOptions, SimPort, default_fabric};
use fabtop::tui::{App, Clock, Depth, Facts, Kind, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use screens::fixture::{Fixture, NOW};

fn app<F: Facts>(large: bool) -> App<F> {
    let mut app = App::new(Kind::Live, Look::new(Depth::Mono), Clock::utc());
    app.large_above = if large { 0 } else { usize::MAX };
    app
}

fn press<F: Facts>(app: &mut App<F>, facts: &F, now: Stamp, code: KeyCode) {
    app.key(&KeyEvent::new(code, KeyModifiers::NONE), facts, now);
}

fn frame<F: Facts>(app: &mut App<F>, facts: &F, now: Stamp, height: u16) -> Vec<String> {
    let mut buf = Buffer::empty(Rect::new(0, 0, 220, height));
    app.draw(facts, now, &mut buf);
    (0..height)
        .map(|y| (0..220).map(|x| buf[(x, y)].symbol()).collect())
        .collect()
}

/// The lines that differ, but for blanks: columns of large tables only grow. The line of totals,
/// which a fixture has not in parts, is left out.
fn differ(a: &[String], b: &[String]) -> Vec<(String, String)> {
    let words = |l: &String| l.split_whitespace().collect::<Vec<_>>().join(" ");
    let pairs = a.iter().map(words).zip(b.iter().map(words));
    pairs
        .filter(|(a, b)| a != b && !a.contains("adapter ports"))
        .collect()
}

#[test]
fn a_large_table_is_sorted_and_filtered_like_a_small_one() {
    let mut facts = Fixture::sick();
    // Its rows try names of their own; those of a fabric's node are all the same.
    let named = facts.clone();
    let name = |key: fabtop::fabric::PortKey| {
        let row = named.ports.iter().find(|r| r.key.node == key.node);
        row.map_or("", |r| r.name)
    };
    for row in &mut facts.ports {
        row.name = name(row.key);
        row.peer.iter_mut().for_each(|p| p.name = name(p.key));
    }
    for row in &mut facts.traffic {
        row.name = name(row.key);
        row.peer.iter_mut().for_each(|p| p.name = name(p.key));
    }
    facts.names.clear();
    // All rows are in sight: so many lines.
    let height = 200;
    for pane in ['1', '2'] {
        let (mut small, mut large) = (app(false), app(true));
        press(&mut small, &facts, NOW, KeyCode::Char(pane));
        press(&mut large, &facts, NOW, KeyCode::Char(pane));
        let compare = |small: &mut App<Fixture>, large: &mut App<Fixture>, what: &str| {
            let (a, b) = (
                frame(small, &facts, NOW, height),
                frame(large, &facts, NOW, height),
            );
            let differ = differ(&a, &b);
            assert!(differ.is_empty(), "pane {pane}, {what}: {differ:#?}");
        };
        compare(&mut small, &mut large, "at first");
        for column in 0..15 {
            for key in ['r', '>'] {
                press(&mut small, &facts, NOW, KeyCode::Char(key));
                press(&mut large, &facts, NOW, KeyCode::Char(key));
                compare(&mut small, &mut large, &format!("column {column} {key}"));
            }
        }
        for key in "/leaf !3".chars() {
            press(&mut small, &facts, NOW, KeyCode::Char(key));
            press(&mut large, &facts, NOW, KeyCode::Char(key));
            compare(&mut small, &mut large, "filter");
        }
        for key in [
            KeyCode::Enter,
            KeyCode::Down,
            KeyCode::PageDown,
            KeyCode::End,
        ] {
            press(&mut small, &facts, NOW, key);
            press(&mut large, &facts, NOW, key);
            compare(&mut small, &mut large, "moves");
        }
    }
}

/// A session with every fault of the simulator: what is kept from frame to frame must be what
/// would be made anew.
#[test]
fn what_is_kept_from_frame_to_frame_is_what_is_there() {
    let options = SimOptions {
        loss: 0.01,
        ..SimOptions::default()
    };
    let port = SimPort::new(default_fabric(), options).unwrap();
    let mut config = Config::default();
    config.settings.discovery_interval_ns = 40_000_000_000;
    let mut engine = Virtual::new(Box::new(port), config);
    let mut model = Model::new();
    let keys = [
        "1",
        "2",
        "1/errors",
        "1/!active",
        "1<<",
        "1/node r",
        "2/leaf !stale",
    ];
    let open = |model: &Model, large: bool, keys: &str| {
        let mut app = app(large);
        let now = model.last();
        for key in keys.chars() {
            press(&mut app, model, now, KeyCode::Char(key));
            if !key.is_alphabetic() {
                frame(&mut app, model, now, 40);
            }
        }
        if keys.contains('/') {
            press(&mut app, model, now, KeyCode::Enter);
        }
        app
    };
    let mut kept: Vec<App<Model>> = keys.iter().map(|k| open(&model, true, k)).collect();
    let (mut rows, mut frames) = (0, 0);
    for second in (1..110).step_by(3) {
        engine.run_until(Stamp::from_secs(second), &mut |batch| {
            batch.events.iter().for_each(|e| model.apply(e));
        });
        let now = model.last();
        for (pane, kept) in keys.into_iter().zip(&mut kept) {
            let mut fresh = open(&model, true, pane);
            let mut small = open(&model, false, pane);
            // Higher than the fabric has ports, so that every row is in sight.
            let height = 500;
            let kept = frame(kept, &model, now, height);
            assert_eq!(kept.len(), usize::from(height));
            let fresh = frame(&mut fresh, &model, now, height);
            let differ = differ(&kept, &fresh);
            assert!(
                differ.is_empty(),
                "keys {pane} after {second} s: {differ:#?}"
            );
            let small = frame(&mut small, &model, now, height);
            rows = rows.max(small.iter().filter(|l| l.contains("leaf")).count());
            frames += 1;
        }
    }
    assert_eq!(frames, keys.len() * 37);
    assert!(rows > 100, "{rows}");
}
