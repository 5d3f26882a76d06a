//! The pictures in `screenshots/`: the built-in simulator in virtual time, the same every time.
//!
//! `FABTOP_UPDATE_SCREENSHOTS=1 cargo test --test screenshots` draws them anew.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "common/bench.rs"]
mod bench;

mod screens {
    pub mod svg;
}

use std::path::Path;
use std::time::Duration;

use bench::Bench;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::command::Command;
use fabtop::engine::Config;
use fabtop::event::What;
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::record::Reader;
use fabtop::record::replay::{ByModel, Index, Moment, Observer, PlayState, Position, Speed};
use fabtop::sim::{SimOptions, default_fabric};
use fabtop::tui::{Act, App, Clock, Depth, Kind, Link, Look, Replay, Told, Watched};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Long enough for the default faults to show, a full sparkline and some back-off.
const AT: Stamp = Stamp::from_secs(150);

fn session() -> Bench {
    let config = Config {
        // 2024-05-17 14:00:37 UTC.
        wall: 1_715_954_437_000_000_000,
        host: "login1".into(),
        tid_seed: 1,
        ..Config::default()
    };
    let mut bench = Bench::with(default_fabric(), SimOptions::default(), config);
    bench.run(AT);
    bench
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

fn press(app: &mut App<Model>, key: char, model: &Model, now: Stamp) -> Option<Act> {
    let code = match key {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        c => KeyCode::Char(c),
    };
    app.key(&KeyEvent::new(code, KeyModifiers::NONE), model, now)
}

/// The console after some keys.
fn screen(kind: Kind, told: Told, model: &Model, now: Stamp, keys: &str) -> Buffer {
    let mut app = App::new(kind, Look::new(Depth::True), Clock::utc());
    app.told = told;
    let mut buf = Buffer::empty(Rect::new(0, 0, 120, 34));
    app.draw(model, now, &mut buf);
    for key in keys.chars() {
        press(&mut app, key, model, now);
        buf.reset();
        app.draw(model, now, &mut buf);
    }
    buf
}

/// The live console after some keys, whose questions are asked and answered.
fn page(bench: &mut Bench, keys: &str) -> Buffer {
    let mut app = App::new(Kind::Live, Look::new(Depth::True), Clock::utc());
    let mut buf = Buffer::empty(Rect::new(0, 0, 120, 34));
    app.draw(&bench.model, bench.engine.now(), &mut buf);
    for key in keys.chars() {
        let now = bench.engine.now();
        if let Some(Act::Send(Command::Read(topic))) = press(&mut app, key, &bench.model, now) {
            bench.read(topic);
        }
        buf.reset();
        app.draw(&bench.model, bench.engine.now(), &mut buf);
    }
    buf
}

#[test]
fn the_pictures_are_current() {
    let mut bench = session();
    for (name, title, keys) in [
        ("ports", "fabtop: the Ports pane", "1"),
        ("traffic", "fabtop: the Traffic pane", "2"),
        ("timeouts", "fabtop: the Timeouts pane", "3"),
        ("alerts", "fabtop: the Alerts pane", "4"),
        ("detail", "fabtop: a port in detail", "1\n"),
    ] {
        let buf = screen(Kind::Live, Told::Live, &bench.model, AT, keys);
        check(name, title, &buf);
    }
    // Pages that ask the fabric for what they show; every table of the SA once.
    page(&mut bench, "sR");
    for (name, title, keys) in [
        (
            "path",
            "fabtop: a path, hop by hop",
            "/cn001\nf\u{1b}/cn030\nt",
        ),
        (
            "uses",
            "fabtop: who is reached by a port",
            "/leaf03 spine02\nu",
        ),
        ("sa", "fabtop: subnet managers and the SA", "s"),
    ] {
        let buf = page(&mut bench, keys);
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
    let buf = screen(Kind::Watch, told, &session().model, AT, "2");
    check("watch", "fabtop: another one's session watched", &buf);
}
