//! Every screen at every size: text and styles as committed, no panic at any size, and nothing
//! in a cell that could steer a terminal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)] // a test may fail by panicking

mod screens {
    pub mod fixture;
}

use std::fmt::Write as _;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::record::replay::{
    Command as Playing, Mark, MarkKind, Moment, PlayState, Position, SeekTo, Speed,
};
use fabtop::tui::{Act, App, Clock, Depth, Kind, Link, Look, Replay, Told, Watched};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use screens::fixture::{Fixture, NOW, WALL};

const SIZES: [(u16, u16); 4] = [(40, 12), (80, 24), (120, 40), (200, 50)];

fn app(look: Look) -> App<Fixture> {
    App::new(Kind::Live, look, Clock::utc())
}

fn press(app: &mut App<Fixture>, facts: &Fixture, keys: &str) -> Option<Act> {
    let mut last = None;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        last = app.key(&KeyEvent::new(code, KeyModifiers::NONE), facts, NOW);
        // A frame between two keys, as in life.
        draw(app, facts, 80, 24);
    }
    last
}

fn draw(app: &mut App<Fixture>, facts: &Fixture, w: u16, h: u16) -> Buffer {
    let mut buf = Buffer::empty(Rect::new(0, 0, w, h));
    app.draw(facts, NOW, &mut buf);
    buf
}

fn text(buf: &Buffer) -> String {
    let mut out = String::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut skip = false;
        for x in buf.area.left()..buf.area.right() {
            let symbol = buf[(x, y)].symbol();
            if !std::mem::take(&mut skip) {
                line.push_str(symbol);
                skip = symbol
                    .chars()
                    .any(|c| ('\u{1100}'..='\u{ffef}').contains(&c) && c > '\u{2e80}');
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// One letter a style; the legend follows.
fn styles(buf: &Buffer) -> String {
    let mut legend: Vec<(Color, Color, Modifier)> = Vec::new();
    let mut out = String::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        for x in buf.area.left()..buf.area.right() {
            let c = &buf[(x, y)];
            let style = (c.fg, c.bg, c.modifier);
            if style == (Color::Reset, Color::Reset, Modifier::empty()) {
                line.push('.');
                continue;
            }
            let at = legend.iter().position(|s| *s == style).unwrap_or_else(|| {
                legend.push(style);
                legend.len() - 1
            });
            line.push(char::from(b'a' + u8::try_from(at).unwrap()));
        }
        out.push_str(line.trim_end_matches('.'));
        out.push('\n');
    }
    for (i, (fg, bg, modifier)) in legend.iter().enumerate() {
        let letter = char::from(b'a' + u8::try_from(i).unwrap());
        let _ = writeln!(out, "{letter} = {fg} on {bg} {modifier:?}");
    }
    out
}

/// The screens: name and the keys that lead there.
const SCREENS: [(&str, &str); 9] = [
    ("ports", ""),
    ("traffic", "2"),
    ("timeouts", "3"),
    ("alerts", "4"),
    ("log", "e"),
    ("detail", "\n"),
    ("help", "?"),
    ("filter", "/leaf !down"),
    ("paused", "p"),
];

#[test]
fn every_screen_looks_as_committed() {
    let facts = Fixture::sick();
    for (name, keys) in SCREENS {
        for (w, h) in SIZES {
            let mut app = app(Look::new(Depth::Ansi16));
            draw(&mut app, &facts, 80, 24);
            press(&mut app, &facts, keys);
            let buf = draw(&mut app, &facts, w, h);
            let both = format!("{}\n{}", text(&buf), styles(&buf));
            insta::assert_snapshot!(format!("{name}_{w}x{h}"), both);
        }
    }
}

#[test]
fn the_first_and_the_healthy_screen_look_as_committed() {
    for (name, facts) in [
        ("empty", Fixture::empty()),
        ("healthy", Fixture::healthy(4, 6)),
    ] {
        for (w, h) in SIZES {
            let mut app = app(Look::new(Depth::Ansi16));
            let buf = draw(&mut app, &facts, w, h);
            insta::assert_snapshot!(format!("{name}_{w}x{h}"), text(&buf));
        }
    }
}

/// A recording of ten minutes, a third of it played; nothing of it depends on a real one.
fn replay(state: PlayState) -> Told {
    let at = |secs: u64| Moment(u64::try_from(WALL).unwrap() + secs * 1_000_000_000);
    let mark = |secs, kind, text: &str| Mark {
        at: at(secs),
        kind,
        text: text.into(),
    };
    Told::Replay(Box::new(Replay {
        name: "incident.pcapng.zst".into(),
        position: Some(Position {
            moment: at(200),
            at: NOW,
            start: at(0),
            end: at(600),
            end_known: true,
            marks: 1,
            state,
            speed: Speed::times(10.0),
            skip_idle: state == PlayState::Playing,
            can_rewind: true,
            message: (state == PlayState::Ended).then(|| "no later alert".to_owned()),
        }),
        marks: vec![
            mark(5, MarkKind::Event, "SM changed"),
            mark(120, MarkKind::Bookmark, "look here"),
            mark(200, MarkKind::Alert, "under the cursor"),
            mark(300, MarkKind::Event, "beside a graver one"),
            mark(300, MarkKind::Alert, "link down"),
            mark(600, MarkKind::Event, "session closed"),
        ],
        problems: usize::from(state == PlayState::Ended),
    }))
}

fn watched(link: Link, lag: u64) -> Told {
    Told::Watch(Watched {
        whose: "login1".into(),
        link,
        lag: Some(std::time::Duration::from_secs(lag)),
    })
}

#[test]
fn replay_and_watch_look_as_committed() {
    let facts = Fixture::sick();
    let gone = "no collector listens on /run/fabtop/fabtop.sock: start one".to_owned();
    let screens = [
        ("replay", Kind::Replay, replay(PlayState::Playing), ""),
        (
            "replay_paused",
            Kind::Replay,
            replay(PlayState::Paused),
            "2",
        ),
        ("replay_ended", Kind::Replay, replay(PlayState::Ended), "e"),
        (
            "replay_goto",
            Kind::Replay,
            replay(PlayState::Seeking),
            "g12:30",
        ),
        ("replay_help", Kind::Replay, replay(PlayState::Playing), "?"),
        ("watch", Kind::Watch, watched(Link::Connected, 1), ""),
        ("watch_late", Kind::Watch, watched(Link::Connected, 75), "3"),
        (
            "watch_lost",
            Kind::Watch,
            watched(Link::Reconnecting(gone), 9),
            "",
        ),
        ("watch_help", Kind::Watch, watched(Link::Connected, 0), "?"),
    ];
    for (name, kind, told, keys) in screens {
        for (w, h) in [(80, 24), (120, 40)] {
            let mut app = App::new(kind, Look::new(Depth::Ansi16), Clock::utc());
            app.told = told.clone();
            draw(&mut app, &facts, 80, 24);
            press(&mut app, &facts, keys);
            let buf = draw(&mut app, &facts, w, h);
            let both = format!("{}\n{}", text(&buf), styles(&buf));
            insta::assert_snapshot!(format!("{name}_{w}x{h}"), both);
        }
    }
}

#[test]
fn no_size_breaks_a_replay_or_a_watched_session() {
    let facts = Fixture::sick();
    for (kind, told) in [
        (Kind::Replay, replay(PlayState::Ended)),
        (Kind::Watch, watched(Link::Ended("over".into()), 9)),
    ] {
        let mut app = App::new(kind, Look::new(Depth::Mono).in_ascii(), Clock::utc());
        app.told = told;
        for w in (0..=14).chain([80]) {
            for h in 0..=20 {
                let buf = draw(&mut app, &facts, w, h);
                is_harmless(&buf);
                assert!(buf.content().iter().all(|c| c.symbol().is_ascii()));
            }
        }
    }
}

#[test]
fn the_keys_of_a_replay_ask_its_player_and_nobody_else() {
    let facts = Fixture::sick();
    let mut app = App::new(Kind::Replay, Look::new(Depth::Mono), Clock::utc());
    app.told = replay(PlayState::Playing);
    let second = 1_000_000_000;
    for (keys, asked) in [
        (" ", Playing::Toggle),
        (".", Playing::StepEvent),
        (",", Playing::StepSweep),
        ("+", Playing::Faster),
        ("-", Playing::Slower),
        ("}", Playing::Seek(SeekTo::By(60 * second))),
        ("n", Playing::Next(MarkKind::Event)),
        ("N", Playing::Previous(MarkKind::Event)),
        ("a", Playing::Next(MarkKind::Alert)),
        ("A", Playing::Previous(MarkKind::Alert)),
        ("m", Playing::Next(MarkKind::Bookmark)),
        ("M", Playing::Previous(MarkKind::Bookmark)),
        // It is on in this replay.
        ("i", Playing::SkipIdle(false)),
        ("g+5m\n", Playing::Seek(SeekTo::By(300 * second))),
        ("g40%\n", Playing::Seek(SeekTo::Percent(40.0))),
        // 14:03:07 is when it begins.
        ("g14:04\n", Playing::Seek(SeekTo::Wall(WALL + 53 * second))),
    ] {
        match press(&mut app, &facts, keys) {
            Some(Act::Play(command)) => assert_eq!(command, asked, "{keys:?}"),
            other => panic!("{keys:?}: {other:?}"),
        }
    }
    // What is typed there is no command, and a mistake is told.
    assert!(press(&mut app, &facts, "gq\n").is_none());
    let shown = text(&draw(&mut app, &facts, 80, 24));
    assert!(shown.contains("`q` is no place here"), "{shown}");
    // The live console's keys for the engine mean nothing here.
    assert!(press(&mut app, &facts, "cD").is_none());
}

fn is_harmless(buf: &Buffer) {
    for cell in buf.content() {
        for c in cell.symbol().chars() {
            let bad = c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
            assert!(!bad, "{c:?} in a cell");
        }
    }
}

#[test]
fn no_size_breaks_any_screen() {
    let facts = Fixture::sick();
    for (_, keys) in SCREENS {
        let mut app = app(Look::new(Depth::True));
        draw(&mut app, &facts, 80, 24);
        press(&mut app, &facts, keys);
        for w in 0..=12 {
            for h in 0..=12 {
                is_harmless(&draw(&mut app, &facts, w, h));
            }
        }
    }
}

fn any_key() -> impl Strategy<Value = KeyEvent> {
    let code = prop_oneof![
        any::<char>().prop_map(KeyCode::Char),
        proptest::sample::select("123 \t?/<>rpejkgGbcDyqn".chars().collect::<Vec<_>>())
            .prop_map(KeyCode::Char),
        proptest::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Backspace,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Tab,
            KeyCode::BackTab,
        ]),
    ];
    let modifiers = proptest::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::SHIFT,
        KeyModifiers::CONTROL,
    ]);
    (code, modifiers).prop_map(|(code, modifiers)| KeyEvent::new(code, modifiers))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_keys_and_no_resizing_break_anything(
        steps in proptest::collection::vec((any_key(), 0u16..210, 0u16..60, 0usize..3), 1..40),
    ) {
        let all = [Fixture::sick(), Fixture::empty(), Fixture::healthy(2, 3)];
        let mut app = app(Look::new(Depth::Ansi256));
        for (i, (key, w, h, which)) in steps.into_iter().enumerate() {
            let mut facts = all[which].clone();
            facts.revision = i as u64;
            app.key(&key, &facts, NOW);
            is_harmless(&draw(&mut app, &facts, w, h));
        }
    }

    #[test]
    fn any_name_is_shown_harmless(name in any::<String>(), w in 1u16..100) {
        let mut facts = Fixture::healthy(1, 2);
        let name: &'static str = screens::fixture::leak(name);
        for row in &mut facts.ports {
            row.name = name;
            row.peer.as_mut().unwrap().name = name;
        }
        is_harmless(&draw(&mut app(Look::new(Depth::Mono)), &facts, w, 24));
    }
}

#[test]
fn the_filter_narrows_while_it_is_typed_and_esc_forgets_it() {
    let facts = Fixture::sick();
    let mut app = app(Look::new(Depth::Mono));
    draw(&mut app, &facts, 80, 24);
    press(&mut app, &facts, "/leaf-02");
    let shown = text(&draw(&mut app, &facts, 80, 24));
    // 8 ports of leaf-02, 6 of its hosts, 2 of the spines.
    assert!(shown.contains("16 of 64"), "{shown}");
    // q is a letter here.
    press(&mut app, &facts, "q");
    assert!(text(&draw(&mut app, &facts, 80, 24)).contains("No row passes the filter."));
    press(&mut app, &facts, "\u{1b}");
    let shown = text(&draw(&mut app, &facts, 80, 24));
    assert!(shown.contains("64 rows"), "{shown}");
    assert!(!shown.contains("leaf-02q"));
}

#[test]
fn a_held_view_stays_and_says_so_while_the_model_goes_on() {
    let facts = Fixture::healthy(2, 3);
    let mut app = app(Look::new(Depth::Mono));
    draw(&mut app, &facts, 80, 24);
    press(&mut app, &facts, "p");
    let mut later = Fixture::sick();
    later.revision = 99;
    let shown = text(&draw(&mut app, &later, 80, 24));
    assert!(shown.contains("PAUSED"), "{shown}");
    assert!(!shown.contains("unreach"), "{shown}");
    // The header is not held: it says what is wrong now.
    assert!(shown.contains("1 missing"), "{shown}");
    press(&mut app, &later, "p");
    let shown = text(&draw(&mut app, &later, 80, 24));
    assert!(
        !shown.contains("PAUSED") && shown.contains("unreach"),
        "{shown}"
    );
}

#[test]
fn errors_are_counted_from_a_chosen_moment_on_and_the_header_says_so() {
    let facts = Fixture::sick();
    let mut app = app(Look::new(Depth::Mono));
    // Live, the stream is told; nothing else is asked of anybody.
    let act = press(&mut app, &facts, "z");
    assert!(
        matches!(&act, Some(Act::Send(fabtop::command::Command::Act(text))) if text.contains("errors")),
        "{act:?}"
    );
    for (w, h) in SIZES {
        let shown = text(&draw(&mut app, &facts, w, h));
        assert!(shown.contains("errors since 14:03:07"), "{w}x{h}: {shown}");
    }
    // In a port's detail too.
    press(&mut app, &facts, "\n");
    assert!(text(&draw(&mut app, &facts, 80, 24)).contains("errors since"));
    press(&mut app, &facts, "Z");
    assert!(!text(&draw(&mut app, &facts, 80, 24)).contains("errors since"));
    // Another moment of a recording begins anew, and says so.
    let mut app = App::new(Kind::Replay, Look::new(Depth::Mono), Clock::utc());
    assert!(press(&mut app, &facts, "z").is_none());
    app.renewed();
    let shown = text(&draw(&mut app, &facts, 80, 24));
    assert!(
        !shown.contains("errors since") && shown.contains("from the beginning"),
        "{shown}"
    );
}

#[test]
fn simulated_is_said_at_any_useful_width() {
    let facts = Fixture::sick();
    for w in [20, 40, 80, 200] {
        let mut app = app(Look::new(Depth::Mono));
        let shown = text(&draw(&mut app, &facts, w, 12));
        assert!(
            shown.lines().next().unwrap().contains("SIMULATED"),
            "{shown}"
        );
    }
}

#[test]
fn an_unchanged_model_gives_an_unchanged_screen_while_time_passes() {
    let facts = Fixture::healthy(4, 6);
    for (_, keys) in SCREENS.iter().filter(|(name, _)| *name != "paused") {
        let mut app = app(Look::new(Depth::True));
        draw(&mut app, &facts, 80, 24);
        press(&mut app, &facts, keys);
        let first = draw(&mut app, &facts, 80, 24);
        let mut later = Buffer::empty(first.area);
        app.draw(&facts, NOW + std::time::Duration::from_secs(3), &mut later);
        assert!(first == later, "{keys:?}");
    }
}

#[test]
fn mono_draws_no_colour_and_ascii_nothing_else() {
    let mut facts = Fixture::sick();
    facts.ports[14].name = "节点-七号 mlx5_0";
    for (_, keys) in SCREENS {
        let mut app = app(Look::new(Depth::Mono).in_ascii());
        draw(&mut app, &facts, 120, 40);
        press(&mut app, &facts, keys);
        for cell in draw(&mut app, &facts, 120, 40).content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
            assert!(cell.symbol().is_ascii(), "{:?}", cell.symbol());
        }
    }
}

#[test]
fn an_alert_is_acknowledged_opened_and_filtered() {
    let mut facts = Fixture::sick();
    let mut app = app(Look::new(Depth::Mono));
    let lines = |buf: &Buffer| -> Vec<String> {
        let text = text(buf);
        let rows = text.lines().skip_while(|l| !l.contains(" Opened "));
        rows.skip(1).take(4).map(str::to_owned).collect()
    };
    press(&mut app, &facts, "4");
    let buf = draw(&mut app, &facts, 120, 30);
    assert!(text(&buf).contains("3 alerts: 1 critical"));
    // The gravest first, the cleared one last; state and severity in words.
    let rows = lines(&buf);
    for (row, words) in rows.iter().zip([
        "CRITICAL  open",
        "warning   open",
        "info      open",
        "warning   cleared",
    ]) {
        assert!(row.contains(words), "{row}");
    }
    // Known: below the others, and said in the header.
    press(&mut app, &facts, "a");
    let buf = draw(&mut app, &facts, 120, 30);
    assert!(text(&buf).contains("3 alerts: 1 critical, 1 known"));
    assert!(lines(&buf)[2].contains("CRITICAL  known"));
    // It opens again: it is not known any more.
    facts.alerts[0].times += 1;
    facts.revision += 1;
    let buf = draw(&mut app, &facts, 120, 30);
    assert!(lines(&buf)[0].contains("CRITICAL  open"));
    // Graver than when it was acknowledged: not known any more either.
    press(&mut app, &facts, "ga");
    draw(&mut app, &facts, 120, 30);
    press(&mut app, &facts, "ga");
    let buf = draw(&mut app, &facts, 120, 30);
    assert!(text(&buf).contains("3 alerts: 1 critical, 2 known"));
    facts.alerts[1].severity = fabtop::event::Severity::Critical;
    facts.revision += 1;
    let buf = draw(&mut app, &facts, 120, 30);
    assert!(text(&buf).contains("3 alerts: 2 critical, 1 known"));
    assert!(lines(&buf)[0].contains("CRITICAL  open"));
    // To its port.
    press(&mut app, &facts, "g\n");
    let buf = draw(&mut app, &facts, 120, 30);
    assert!(text(&buf).contains("Port detail"));
    press(&mut app, &facts, "q/flap");
    let buf = draw(&mut app, &facts, 120, 30);
    assert!(text(&buf).contains("1 of 4"));
}

#[test]
fn quitting_leaves_what_is_open_first() {
    let facts = Fixture::sick();
    let mut app = app(Look::new(Depth::Mono));
    draw(&mut app, &facts, 80, 24);
    assert!(press(&mut app, &facts, "e?").is_none());
    assert!(press(&mut app, &facts, "q").is_none());
    assert!(press(&mut app, &facts, "q").is_none());
    assert!(matches!(press(&mut app, &facts, "q"), Some(Act::Quit)));
}

#[test]
fn a_copied_row_names_its_port() {
    let facts = Fixture::healthy(1, 2);
    let mut app = app(Look::new(Depth::Mono));
    let frame = draw(&mut app, &facts, 120, 24);
    let copied = app.selected_text(&frame).unwrap();
    assert!(copied.starts_with("leaf-01 "), "{copied}");
    assert!(copied.ends_with("0x0002c90300a003e8[1]"), "{copied}");
}
