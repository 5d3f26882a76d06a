//! What a frame costs with many ports: the console must stay below 5 ms, at 5,000 rows and at
//! 100,000.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

mod common;
#[path = "../tests/screens/fixture.rs"]
#[allow(dead_code)] // shared with the tests of the screens
mod fixture;

use std::time::{Duration, Instant};

use common::{Stream, found, sweep};
use criterion::{Criterion, criterion_group, criterion_main};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::event::{Event, What};
use fabtop::model::Model;
use fabtop::tui::{App, Clock, Depth, Kind, Look};
use fixture::{Fixture, NOW};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

fn frames(c: &mut Criterion) {
    // 100 leaves with 23 hosts and 2 uplinks: 5,000 port ends.
    let mut facts = Fixture::healthy(100, 23);
    for (name, keys) in [
        ("ports", "1"),
        ("traffic", "2"),
        ("timeouts", "3"),
        ("filter", "1/leaf"),
    ] {
        let mut app = App::new(Kind::Live, Look::new(Depth::True), Clock::utc());
        let mut buf = Buffer::empty(Rect::new(0, 0, 200, 50));
        for key in keys.chars() {
            app.key(
                &KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE),
                &facts,
                NOW,
            );
            app.draw(&facts, NOW, &mut buf);
        }
        c.bench_function(&format!("frame of new data, {name}"), |b| {
            b.iter(|| {
                facts.revision += 1;
                buf.reset();
                app.draw(&facts, NOW, &mut buf);
            });
        });
        c.bench_function(&format!("frame of a key, {name}"), |b| {
            b.iter(|| {
                buf.reset();
                app.draw(&facts, NOW, &mut buf);
            });
        });
    }
}

/// 100,000 ports in a model of a session, a fifth of which changed since the last frame: what a
/// second does where counters are read every 5 s. The terminal's part is not in it.
fn large(c: &mut Criterion) {
    const NODES: u64 = 2_500;
    let mut stream = Stream::default();
    let mut model = Model::new();
    for events in [
        found(&mut stream, 1..=NODES),
        sweep(&mut stream, 1..=NODES, 1),
        sweep(&mut stream, 1..=NODES, 2),
    ] {
        events.iter().for_each(|e| model.apply(e));
    }
    let mut round = 2;
    for (name, keys) in [
        ("ports", "1"),
        ("ports by errors", "1<"),
        ("traffic", "2"),
        ("filtered ports", "1/0x00000000000001\n"),
    ] {
        let mut app = App::new(Kind::Live, Look::new(Depth::True), Clock::utc());
        let mut buf = Buffer::empty(Rect::new(0, 0, 200, 50));
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                c => KeyCode::Char(c),
            };
            let now = model.last();
            app.key(&KeyEvent::new(code, KeyModifiers::NONE), &model, now);
            app.draw(&model, now, &mut buf);
        }
        let mut group = c.benchmark_group(format!("{name} of 100,000"));
        group.sample_size(20);
        let mut part = 0;
        group.bench_function("frame of new data", |b| {
            b.iter_custom(|times| {
                let mut took = Duration::ZERO;
                for _ in 0..times {
                    round += u32::from(part == 0);
                    let nodes = part * NODES / 5 + 1..=(part + 1) * NODES / 5;
                    part = (part + 1) % 5;
                    let events = sweep(&mut stream, nodes, round);
                    events.iter().for_each(|e| model.apply(e));
                    // As every second: the header's counts are worked out then.
                    let (seq, at) = (stream.next_seq(), model.last());
                    let what = What::Tick;
                    model.apply(&Event { seq, at, what });
                    let now = model.last();
                    buf.reset();
                    let begun = Instant::now();
                    app.draw(&model, now, &mut buf);
                    took += begun.elapsed();
                }
                took
            });
        });
        group.bench_function("frame of a key", |b| {
            let now = model.last();
            b.iter(|| {
                buf.reset();
                app.draw(&model, now, &mut buf);
            });
        });
        group.bench_function("first frame", |b| {
            let now = model.last();
            b.iter(|| {
                app.renewed();
                buf.reset();
                app.draw(&model, now, &mut buf);
            });
        });
        group.finish();
    }
}

criterion_group!(benches, frames, large);
criterion_main!(benches);
