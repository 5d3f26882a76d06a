//! A fabric in which nobody can be trusted: whatever comes from the wire, nothing panics, the
//! engine and the model know the same, budgets hold, memory is bounded, what was recorded reads
//! back, and no screen or report holds anything that acts on a terminal.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

#[path = "hostile/port.rs"]
mod port;

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::command::Command;
use fabtop::engine::{Config, Key, Virtual};
use fabtop::event::{Event, Topic, What};
use fabtop::fabric::sa::SaTable;
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::record::{Encoder, Ledger, Options, Reader};
use fabtop::report::{self, Format};
use fabtop::sim::{SimOptions, SimPort, fat_tree};
use fabtop::tui::{App, Clock, Depth, Kind, Look};
use port::{Hostile, attack};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// An M_Key that would be found if it were anywhere.
const KEY: u64 = 0x5ec2_e75e_c2e7_ca11;

/// A quiet minute takes some 1,500; nodes that are made up cost their share.
const MOST: usize = 60_000;

struct Session {
    engine: Virtual,
    model: Model,
    ledger: Ledger,
    events: Vec<Event>,
    attacks: u32,
}

impl Session {
    fn new(seed: u64, attacks: u32, one_in: u64) -> Session {
        let options = SimOptions {
            seed,
            ..SimOptions::healthy()
        };
        let sim = SimPort::new(fat_tree(3, 3, 2, 1), options).unwrap();
        let mut config = Config::default();
        config.settings.discovery_interval_ns = 15_000_000_000;
        config.settings.sweep_interval_ns = 7_000_000_000;
        config.m_key = Key::new(KEY);
        Session {
            engine: Virtual::new(Box::new(Hostile::new(sim, seed, attacks, one_in)), config),
            model: Model::new(),
            ledger: Ledger::new(),
            events: Vec::new(),
            attacks,
        }
    }

    fn run(&mut self, secs: u64) {
        let Session {
            engine,
            model,
            ledger,
            events,
            ..
        } = self;
        engine.run_until(Stamp::from_secs(secs), &mut |batch| {
            for event in &batch.events {
                model.apply(event);
                ledger.observe(event);
                if let What::SweepEnded(ended) = &event.what {
                    assert_eq!(model.topology().digest(), ended.digest, "{ended:?}");
                }
            }
            events.extend(batch.events.iter().cloned());
        });
    }

    /// Asks for everything that is read on demand.
    fn ask(&mut self) {
        self.engine.command(Command::Read(Topic::Sa {
            tables: SaTable::ALL.to_vec(),
        }));
        self.engine.command(Command::Read(Topic::Sms));
        let ports = self.model.port_list();
        let lid = 7;
        for key in ports.iter().step_by(1 + ports.len() / 5) {
            let from = *key;
            self.engine
                .command(Command::Read(Topic::Path { from, lid }));
            let switch = key.node;
            self.engine.command(Command::Read(Topic::Table { switch }));
        }
    }

    fn reports(&self) -> Vec<(&'static str, Format, String)> {
        let (model, now) = (&self.model, self.model.last());
        let mut all = vec![("topology", Format::Text, report::topology(model, now))];
        let ports = model.port_list();
        for format in [Format::Text, Format::Json] {
            for (name, text) in [
                ("ports", report::ports(model, now, format)),
                ("nodes", report::nodes(model, now, format)),
                ("timeouts", report::timeouts(model, now, format)),
                ("events", report::events(model, now, format)),
                ("alerts", report::alerts(model, now, format)),
                ("sweeps", report::sweeps(model, now, format)),
                ("sms", report::sms(model, now, format)),
                ("sa", report::sa(model, now, None, format)),
            ] {
                all.push((name, format, text));
            }
            for table in SaTable::ALL {
                all.push(("table", format, report::sa(model, now, Some(table), format)));
            }
            for key in ports.iter().step_by(1 + ports.len() / 8) {
                let lid = 7;
                all.push(("path", format, report::path(model, now, *key, lid, format)));
                let routes = report::routes(model, now, key.node, format);
                all.extend(routes.map(|text| ("routes", format, text)));
                let uses = report::uses(model, now, *key, format);
                all.extend(uses.map(|text| ("uses", format, text)));
            }
        }
        all
    }

    fn check(&self) {
        self.check_budgets();
        for (name, format, text) in self.reports() {
            harmless(name, &text);
            if format == Format::Json {
                let read = serde_json::from_str::<serde_json::Value>(&text);
                assert!(read.is_ok(), "{name}: {read:?}\n{text}");
            }
        }
        self.check_recording();
        self.check_screens();
    }

    /// No window of 100 ms holds more than a tenth of the rate, and no more is in flight than
    /// may be.
    fn check_budgets(&self) {
        let settings = self.model.settings();
        let mut times: [Vec<Stamp>; 2] = Default::default();
        for event in &self.events {
            match &event.what {
                What::Sent(s) => times[usize::from(s.mad.class().is_smp())].push(event.at),
                What::Pace(pace) => {
                    assert!(pace.smp_in_flight <= settings.smp.in_flight, "{pace:?}");
                    assert!(pace.gmp_in_flight <= settings.gmp.in_flight, "{pace:?}");
                }
                _ => {}
            }
        }
        for (times, rate) in times.iter().zip([settings.gmp.rate, settings.smp.rate]) {
            let most = rate as usize / 10;
            for pair in times.windows(most + 1) {
                let took = pair[most].since(pair[0]);
                assert!(took >= Duration::from_millis(100), "{most} in {took:?}");
            }
        }
    }

    /// What is recorded reads back as it was, without the key, and a viewer who joins knows the
    /// same topology.
    fn check_recording(&self) {
        let mut bytes = Vec::new();
        Encoder::new(Options::default()).encode(&self.events, &mut bytes);
        let mut reader = Reader::new(&bytes[..]);
        let back: Vec<Event> = reader.by_ref().collect();
        assert_eq!(reader.problems().list(), &[]);
        assert_eq!(back.len(), self.events.len());
        let mut replayed = Model::new();
        back.iter().for_each(|event| replayed.apply(event));
        let replayed = Session {
            engine: Session::new(1, 0, 1).engine,
            model: replayed,
            ledger: Ledger::new(),
            events: Vec::new(),
            attacks: 0,
        };
        for ((name, _, live), (_, _, again)) in self.reports().iter().zip(replayed.reports()) {
            if *live != again {
                let differ: Vec<_> = live
                    .lines()
                    .zip(again.lines())
                    .filter(|(a, b)| a != b)
                    .take(3)
                    .collect();
                panic!("{name} replayed: {differ:#?}");
            }
        }
        let mut keyframe = Vec::new();
        let mut encoder = Encoder::new(Options::default());
        let next = self.events.last().map_or(0, |event| event.seq + 1);
        self.ledger
            .keyframe(next, &mut |events| encoder.encode(events, &mut keyframe));
        let mut reader = Reader::new(&keyframe[..]);
        let mut joined = Model::new();
        reader.by_ref().for_each(|event| joined.apply(&event));
        assert_eq!(reader.problems().list(), &[]);
        // Where the fabric contradicts itself, what is known depends on the order of the answers,
        // of which a keyframe has the last of each kind.
        if self.attacks & attack::CONTRADICTING == 0 {
            let (joined, whole) = (joined.topology().digest(), self.model.topology().digest());
            assert_eq!(joined, whole, "attacks {:#x}", self.attacks);
        }
        for bytes in [&bytes, &keyframe] {
            for key in [KEY.to_be_bytes(), KEY.to_le_bytes()] {
                assert!(!bytes.windows(8).any(|w| w == key), "a key was recorded");
            }
            let text = String::from_utf8_lossy(bytes).to_lowercase();
            assert!(!text.contains("5ec2e75ec2e7ca11"), "a key was recorded");
            assert!(!text.contains(&KEY.to_string()), "a key was recorded");
        }
    }

    fn check_screens(&self) {
        for depth in [Depth::Mono, Depth::Ansi16] {
            let mut look = Look::new(depth);
            if depth == Depth::Mono {
                look = Look::from_env(|_| None);
            }
            let mut app: App<Model> = App::new(Kind::Live, look, Clock::utc());
            let now = self.model.last();
            for keys in [
                "", "\n", "jj\n", "2", "\n", "3", "\n", "4", "j\n", "G\n", "e", "G", "\n", "1s",
                "jjj", "1jft", "1jjt", "1u", "jju", "1/x\n", "?",
            ] {
                for key in keys.chars() {
                    let code = match key {
                        '\n' => KeyCode::Enter,
                        c => KeyCode::Char(c),
                    };
                    let event = KeyEvent::new(code, KeyModifiers::NONE);
                    app.key(&event, &self.model, now);
                    let mut buf = Buffer::empty(Rect::new(0, 0, 80, 24));
                    app.draw(&self.model, now, &mut buf);
                }
                for (w, h) in [(80, 24), (200, 100), (33, 9), (7, 3)] {
                    let mut buf = Buffer::empty(Rect::new(0, 0, w, h));
                    app.draw(&self.model, now, &mut buf);
                    aligned(&buf, keys);
                }
            }
        }
    }
}

/// Nothing in it acts on a terminal, hides itself or reorders a line.
fn harmless(name: &str, text: &str) {
    // The topology's own columns are set apart by tabs, as other tools expect them.
    let apart: &[char] = if name == "topology" {
        &['\n', '\t']
    } else {
        &['\n']
    };
    for line in text.split(apart) {
        let clean = fabtop::mad::clean_str(line);
        assert_eq!(clean, line, "{name}");
    }
}

/// Each cell takes the columns that it says it takes.
fn aligned(buf: &Buffer, keys: &str) {
    for y in buf.area.top()..buf.area.bottom() {
        let mut x = buf.area.left();
        while x < buf.area.right() {
            let symbol = buf[(x, y)].symbol();
            assert_eq!(fabtop::mad::clean_str(symbol), symbol, "after {keys:?}");
            let width = u16::try_from(symbol.width()).unwrap();
            assert!((1..=2).contains(&width), "{symbol:?} after {keys:?}");
            for half in x + 1..x + width {
                assert!(half < buf.area.right(), "{symbol:?} is cut, after {keys:?}");
                assert_eq!(buf[(half, y)].symbol(), " ", "after {keys:?}");
            }
            x += width;
        }
    }
}

fn survive(seed: u64, attacks: u32, one_in: u64) {
    let mut session = Session::new(seed, attacks, one_in);
    session.run(4);
    session.ask();
    session.run(60);
    // Three leaves, two spines and nine hosts: no answer makes a storm of questions.
    let sent = session.events.iter();
    let sent = sent.filter(|e| matches!(e.what, What::Sent(_))).count();
    assert!(sent < MOST, "{sent} questions in a minute");
    session.check();
}

/// How often the random attacks are made; more with FABTOP_ATTACKS.
fn cases() -> u32 {
    let asked = std::env::var("FABTOP_ATTACKS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_attack_is_survived(
        seed: u64,
        attacks in 0..=attack::ALL,
        one_in in prop_oneof![Just(1u64), Just(3), Just(20)],
    ) {
        survive(seed, attacks, one_in);
    }
}

#[test]
fn each_kind_of_attack_alone_is_survived() {
    for bit in 0..attack::ALL.count_ones() {
        for one_in in [1, 4] {
            survive(u64::from(bit) * 7 + 3, 1 << bit, one_in);
        }
    }
}
