//! What a frame costs with many ports: the console must stay below 5 ms at 5,000 rows.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

#[path = "../tests/screens/fixture.rs"]
#[allow(dead_code)] // shared with the tests of the screens
mod fixture;

use criterion::{Criterion, criterion_group, criterion_main};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
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

criterion_group!(benches, frames);
criterion_main!(benches);
