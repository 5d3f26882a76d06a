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
use fabtop::event::What;
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::record::Reader;
use fabtop::record::replay::{ByModel, Index, Moment, Observer, PlayState, Position, Speed};
use fabtop::sim::{SimOptions, SimPort, default_fabric};
use fabtop::tui::{App, Clock, Depth, Kind, Link, Look, Replay, Told, Watched};
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

/// Compares a picture with the committed one, or draws it anew.
fn check(name: &str, title: &str, buf: &Buffer) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("screenshots");
    let picture = screens::svg::svg(buf, title);
    let path = dir.join(format!("{name}.svg"));
    if std::env::var_os("FABTOP_UPDATE_SCREENSHOTS").is_some() {
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(&path, picture).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == picture,
        "{} is not what the console shows now: look at it after \
         FABTOP_UPDATE_SCREENSHOTS=1 cargo test --test screenshots",
        path.display()
    );
}

/// The console after some keys.
fn screen(kind: Kind, told: Told, model: &Model, now: Stamp, keys: &str) -> Buffer {
    let mut app = App::new(kind, Look::new(Depth::True), Clock::utc());
    app.told = told;
    let mut buf = Buffer::empty(Rect::new(0, 0, 120, 34));
    app.draw(model, now, &mut buf);
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            c => KeyCode::Char(c),
        };
        app.key(&KeyEvent::new(code, KeyModifiers::NONE), model, now);
        buf.reset();
        app.draw(model, now, &mut buf);
    }
    buf
}

#[test]
fn the_pictures_are_current() {
    let model = session();
    for (name, title, keys) in [
        ("ports", "fabtop: the Ports pane", "1"),
        ("traffic", "fabtop: the Traffic pane", "2"),
        ("timeouts", "fabtop: the Timeouts pane", "3"),
        ("alerts", "fabtop: the Alerts pane", "4"),
        ("detail", "fabtop: a port in detail", "1\n"),
    ] {
        let buf = screen(Kind::Live, Told::Live, &model, AT, keys);
        check(name, title, &buf);
    }
}

/// The demo recording, as the README tells a newcomer to replay it, while the link flaps.
#[test]
fn the_picture_of_a_replay_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/incident.pcapng.zst");
    let at = Duration::from_secs(150);
    let mut model = Model::new();
    let mut observer = ByModel::new();
    let mut index = Index::default();
    let mut anchor = 0;
    for event in Reader::new(std::fs::File::open(&path).unwrap()) {
        if let What::Opened(opened) = &event.what {
            anchor = u64::try_from(opened.wall).unwrap();
        }
        let moment = Moment(anchor + event.at.0);
        index.reach(moment);
        if let Some((kind, text)) = observer.observe(&event) {
            index.add(moment, kind, &text);
        }
        if event.at.since(Stamp::ZERO) <= at {
            model.apply(&event);
        }
    }
    index.finish();
    let start = index.start().unwrap();
    let position = Position {
        moment: start.after(at),
        at: Stamp::ZERO + at,
        start,
        end: index.end(),
        end_known: true,
        marks: index.revision(),
        state: PlayState::Playing,
        speed: Speed::times(10.0),
        skip_idle: false,
        can_rewind: true,
        message: None,
    };
    let told = Told::Replay(Box::new(Replay {
        name: "incident.pcapng.zst".into(),
        position: Some(position),
        marks: index.marks().to_vec(),
        problems: 0,
    }));
    let buf = screen(Kind::Replay, told, &model, Stamp::ZERO + at, "1");
    check("replay", "fabtop: the demo recording replayed", &buf);
}

#[test]
fn the_picture_of_a_watched_session_is_current() {
    let told = Told::Watch(Watched {
        whose: "login1".into(),
        link: Link::Connected,
        lag: Some(Duration::from_millis(300)),
    });
    let buf = screen(Kind::Watch, told, &session(), AT, "2");
    check("watch", "fabtop: another one's session watched", &buf);
}
