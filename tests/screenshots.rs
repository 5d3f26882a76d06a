//! The pictures in `screenshots/`: the built-in simulator in virtual time, the same every time.
//!
//! `FABTOP_UPDATE_SCREENSHOTS=1 cargo test --test screenshots` draws them anew.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

mod screens {
    pub mod svg;
}

use std::path::Path;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::engine::{Config, Virtual};
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::sim::{SimOptions, SimPort, default_fabric};
use fabtop::tui::{App, Clock, Depth, Kind, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Long enough for the default faults to show, a full sparkline and some back-off.
const AT: Stamp = Stamp::from_secs(150);

fn session() -> Model {
    let sim = SimPort::new(default_fabric(), SimOptions::default()).unwrap();
    let config = Config {
        // 2024-05-17 14:00:37 UTC.
        wall: 1_715_954_437_000_000_000,
        host: "login1".into(),
        tid_seed: 1,
        ..Config::default()
    };
    let mut engine = Virtual::new(Box::new(sim), config);
    let mut model = Model::new();
    engine.run_until(AT, &mut |batch| {
        for event in &batch.events {
            model.apply(event);
        }
    });
    model
}

#[test]
fn the_pictures_are_current() {
    let model = session();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("screenshots");
    let update = std::env::var_os("FABTOP_UPDATE_SCREENSHOTS").is_some();
    for (name, title, keys) in [
        ("ports", "fabtop: the Ports pane", "1"),
        ("traffic", "fabtop: the Traffic pane", "2"),
        ("timeouts", "fabtop: the Timeouts pane", "3"),
        ("detail", "fabtop: a port in detail", "1\n"),
    ] {
        let mut app = App::new(Kind::Live, Look::new(Depth::True), Clock::utc());
        let mut buf = Buffer::empty(Rect::new(0, 0, 120, 34));
        app.draw(&model, AT, &mut buf);
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                c => KeyCode::Char(c),
            };
            app.key(&KeyEvent::new(code, KeyModifiers::NONE), &model, AT);
            buf.reset();
            app.draw(&model, AT + Duration::ZERO, &mut buf);
        }
        let picture = screens::svg::svg(&buf, title);
        let path = dir.join(format!("{name}.svg"));
        if update {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(&path, picture).unwrap();
            continue;
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == picture,
            "{} is not what the console shows now: look at it after \
             FABTOP_UPDATE_SCREENSHOTS=1 cargo test --test screenshots",
            path.display()
        );
    }
}
