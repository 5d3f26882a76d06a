//! Pages of routing and subnet management over a simulated session: as committed, at any size,
//! and with the keys that lead there.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "common/bench.rs"]
mod bench;

use bench::Bench;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::command::Command;
use fabtop::event::Topic;
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::sim::{Action, Faults, Script, SimOptions, default_fabric};
use fabtop::tui::{Act, App, Clock, Depth, Kind, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

struct Screen {
    bench: Bench,
    app: App<Model>,
}

impl Screen {
    /// A session with something to tell: a dead host that the SA knows, a second master, a table
    /// that the SA refuses.
    fn new(kind: Kind) -> Screen {
        let fabric = default_fabric();
        let dead = fabric.key("cn012", 1).unwrap();
        let script = Script::new()
            .at(Stamp::ZERO, Action::Kill(dead.node))
            .at(Stamp::from_secs(12), Action::SmUsurp);
        let options = SimOptions {
            faults: Faults::Script(script),
            sa_trusts: vec![0x0033],
            ..SimOptions::healthy()
        };
        let mut bench = Bench::new(fabric, options);
        bench.run(Stamp::from_secs(60));
        bench.read(Topic::Sa {
            tables: vec![fabtop::fabric::sa::SaTable::Pkeys],
        });
        let mut look = Look::from_env(|_| None);
        look.depth = Depth::Mono;
        Screen {
            bench,
            app: App::new(kind, look, Clock::utc()),
        }
    }

    fn draw(&mut self, w: u16, h: u16) -> Buffer {
        let mut buf = Buffer::empty(Rect::new(0, 0, w, h));
        let now = self.bench.engine.now();
        self.app.draw(&self.bench.model, now, &mut buf);
        buf
    }

    /// Presses keys; what they ask of the engine is done.
    fn press(&mut self, keys: &str) -> Vec<Topic> {
        let mut asked = Vec::new();
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            let now = self.bench.engine.now();
            let event = KeyEvent::new(code, KeyModifiers::NONE);
            if let Some(Act::Send(Command::Read(topic))) =
                self.app.key(&event, &self.bench.model, now)
            {
                self.bench.read(topic.clone());
                asked.push(topic);
            }
            self.draw(80, 24);
        }
        asked
    }

    fn text(&mut self, w: u16, h: u16) -> String {
        let buf = self.draw(w, h);
        let mut out = String::new();
        for y in 0..h {
            let line: String = (0..w).map(|x| buf[(x, y)].symbol()).collect();
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Keys to each page, from the Ports pane.
const PATH: &str = "\u{1b}\u{1b}/cn001\nf\u{1b}/cn030\nt";
const USES: &str = "\u{1b}\u{1b}/leaf03 spine02\nu";
const SA: &str = "\u{1b}\u{1b}s";

#[test]
fn pages_look_as_committed() {
    let mut screen = Screen::new(Kind::Live);
    screen.draw(80, 24);
    for (name, keys) in [("path", PATH), ("uses", USES), ("sa", SA)] {
        screen.press(keys);
        for (w, h) in [(40, 12), (80, 24), (120, 40)] {
            let text = screen.text(w, h);
            insta::assert_snapshot!(format!("{name}_{w}x{h}"), text);
        }
    }
}

#[test]
fn keys_read_what_they_show_in_a_live_session_only() {
    let mut screen = Screen::new(Kind::Live);
    screen.draw(80, 24);
    let from = screen.bench.key("cn001", 1);
    let to = screen.bench.key("cn030", 1);
    let lid = screen.bench.lid(to);
    let path = Topic::Path { from, lid };
    assert_eq!(screen.press(PATH), std::slice::from_ref(&path));
    assert!(screen.text(120, 40).contains("Arrives, over 3 switches"));
    // Fresh tables are not asked for again by themselves, old ones are, while they are in sight.
    let now = screen.bench.engine.now();
    assert!(screen.app.refresh(&screen.bench.model, now).is_none());
    let later = Stamp(now.0 + 40_000_000_000);
    screen.bench.run(later);
    let again = screen.app.refresh(&screen.bench.model, later);
    assert!(matches!(again, Some(Command::Read(topic)) if topic == path));
    // Asked for just now: not once more with the next frame.
    assert!(screen.app.refresh(&screen.bench.model, later).is_none());
    assert_eq!(screen.press("R"), [path]);
    let leaf = screen.bench.key("leaf03", 0).node;
    assert_eq!(screen.press(USES), [Topic::Table { switch: leaf }]);
    assert_eq!(screen.press(SA), []);
    let Some(Topic::Sa { tables }) = screen.press("R").pop() else {
        panic!("R on the SA's page reads its tables");
    };
    assert_eq!(tables.len(), 11);
    for kind in [Kind::Replay, Kind::Watch] {
        let mut screen = Screen::new(kind);
        screen.draw(80, 24);
        for keys in [PATH, USES, SA, "R"] {
            assert_eq!(screen.press(keys), [], "{kind:?}");
        }
    }
}

#[test]
fn no_size_breaks_a_page() {
    let mut screen = Screen::new(Kind::Live);
    screen.draw(80, 24);
    for keys in [PATH, USES, SA] {
        screen.press(keys);
        for w in 0..=14 {
            for h in 0..=14 {
                screen.draw(w, h);
            }
        }
        for (w, h) in [(30, 200), (300, 3), (77, 25), (76, 25)] {
            screen.draw(w, h);
        }
    }
}

#[test]
fn a_port_without_a_lid_is_no_end_of_a_path() {
    let mut screen = Screen::new(Kind::Live);
    screen.draw(80, 24);
    // leaf02's port to the dead host is a switch's port: its path begins at port 0.
    screen.press("/leaf02\nf");
    assert!(
        screen
            .text(120, 40)
            .contains("Path from leaf02 port 0; press t")
    );
}
