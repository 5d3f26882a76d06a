//! The player in virtual time, and the whole of it on files.

use super::*;
use crate::event::{Batch, Event, Opened, Settings, SweepEnded, SweepKind, What};
use crate::port::Source;
use crate::record::{Encoder, Ledger, Options};
use std::io::Write;

const SEC: u64 = 1_000_000_000;
/// When the test session opened.
const WALL: u64 = 1_700_000_000 * SEC;

fn opened(host: &str) -> What {
    What::Opened(Box::new(Opened {
        version: "test".into(),
        source: Source::Simulated {
            fabric: "test".into(),
        },
        wall: WALL as i64,
        host: host.into(),
        settings: Settings::default(),
    }))
}

/// Opened at 0, a tick each second to 60; a bookmark at 20 s and 40 s, a gap notice at 30 s, a
/// sweep that ends at 10.5 s.
fn session() -> Vec<Event> {
    let mut events = vec![(0, opened("a"))];
    for second in 1..=60u64 {
        events.push((second * SEC, What::Tick));
        if second == 20 || second == 40 {
            let text = format!("mark {second}").into();
            events.push((second * SEC, What::Mark { text }));
        }
        if second == 30 {
            events.push((second * SEC, What::Dropped { count: 3 }));
        }
        if second == 10 {
            events.push((
                second * SEC + SEC / 2,
                What::SweepEnded(SweepEnded {
                    kind: SweepKind::Counters,
                    number: 1,
                    answered: 0,
                    failed: 0,
                    skipped: 0,
                    digest: 0,
                }),
            ));
        }
    }
    (0..)
        .zip(events)
        .map(|(seq, (at, what))| Event {
            seq,
            at: Stamp(at),
            what,
        })
        .collect()
}

/// A tape of events.
struct Events {
    all: Vec<Event>,
    at: usize,
    piped: bool,
    fresh: bool,
}

impl Tape for Events {
    fn next(&mut self) -> Option<Played> {
        let event = self.all.get(self.at)?.clone();
        self.at += 1;
        Some(Played {
            moment: Moment(WALL + event.at.0),
            event,
            fresh: std::mem::take(&mut self.fresh),
        })
    }
    fn rewind(&mut self, _: Moment) -> bool {
        self.at = 0;
        self.fresh = true;
        !self.piped
    }
    fn can_rewind(&self) -> bool {
        !self.piped
    }
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

fn tape(piped: bool) -> Events {
    Events {
        all: session(),
        at: 0,
        piped,
        fresh: true,
    }
}

/// A player in virtual time, and the model of a screen that folds what it is fed.
struct Rig {
    player: Player,
    now: Duration,
    /// Numbers of the events folded since the last reset.
    shown: Vec<u64>,
    resets: u32,
    ends: u32,
    position: Option<Position>,
}

impl Rig {
    fn new(piped: bool) -> Rig {
        Rig::of(session(), piped)
    }

    fn of(all: Vec<Event>, piped: bool) -> Rig {
        let tape = |piped| Events {
            all: all.clone(),
            ..tape(piped)
        };
        let index = Arc::new(Mutex::new(Index::new((!piped).then_some(Moment(WALL)))));
        if !piped {
            scan(
                tape(false),
                Box::new(ByEvent),
                &index,
                &AtomicBool::new(false),
            );
        }
        let tape = Box::new(tape(piped));
        Rig {
            player: Player::new(tape, Box::new(ByEvent), index, Duration::ZERO, Speed::REAL),
            now: Duration::ZERO,
            shown: Vec::new(),
            resets: 0,
            ends: 0,
            position: None,
        }
    }

    fn take(&mut self, out: VecDeque<Feed>) {
        for item in out {
            match item {
                Feed::Batch(batch) => self.shown.extend(batch.events.iter().map(|e| e.seq)),
                Feed::Reset => {
                    self.shown.clear();
                    self.resets += 1;
                }
                Feed::Position(position) => self.position = Some(*position),
                Feed::End { .. } => self.ends += 1,
            }
        }
    }

    /// Lets the player do all that it does without time passing.
    fn settle(&mut self) -> Wait {
        loop {
            let mut out = VecDeque::new();
            let wait = self.player.advance(self.now, &mut out);
            self.take(out);
            if wait != Wait::Now {
                return wait;
            }
        }
    }

    /// Lets `secs` seconds pass as a driver would, waking when told.
    fn run(&mut self, secs: f64) {
        let end = self.now + Duration::from_secs_f64(secs);
        loop {
            match self.settle() {
                Wait::Until(at) if at <= end => self.now = at,
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    fn tell(&mut self, command: Command) {
        let mut out = VecDeque::new();
        self.player.command(self.now, command, &mut out);
        self.take(out);
        self.settle();
    }

    fn position(&self) -> &Position {
        self.position.as_ref().unwrap()
    }

    /// Seconds into the session.
    fn at(&self) -> f64 {
        self.position().at.as_secs_f64()
    }

    /// What is shown must always be the session's events from the first one on.
    fn shown(&self) -> usize {
        assert!(self.shown.iter().copied().eq(0..self.shown.len() as u64));
        self.shown.len()
    }
}

/// How many events of the session are at or before `secs`.
fn until(secs: f64) -> usize {
    session()
        .iter()
        .filter(|e| e.at.as_secs_f64() <= secs)
        .count()
}

#[test]
fn events_come_when_they_came() {
    let mut rig = Rig::new(false);
    rig.run(0.0);
    assert_eq!(rig.shown(), 1);
    rig.run(9.9);
    // Ticks 1 to 9 after the opening.
    assert_eq!(rig.shown(), 10);
    rig.tell(Command::Speed(Speed::times(10.0)));
    rig.run(1.0);
    assert_eq!(rig.shown(), until(19.9));
    rig.tell(Command::Toggle);
    rig.run(1000.0);
    assert_eq!(rig.shown(), until(19.9));
    assert_eq!(rig.position().state, PlayState::Paused);
    rig.tell(Command::Toggle);
    rig.run(3.0);
    assert_eq!(rig.shown(), until(49.9));
    rig.run(30.0);
    assert_eq!(rig.shown(), session().len());
    assert_eq!((rig.ends, rig.resets), (1, 0));
    assert_eq!(rig.position().state, PlayState::Ended);
    assert!((rig.at() - 60.0).abs() < 1e-6);
}

#[test]
fn a_step_shows_one_event_or_one_sweep_and_stops() {
    let mut rig = Rig::new(false);
    rig.run(2.5);
    rig.tell(Command::StepEvent);
    assert_eq!(rig.shown(), 4);
    assert_eq!(rig.position().state, PlayState::Paused);
    rig.run(5.0);
    assert_eq!(rig.shown(), 4);
    rig.tell(Command::StepSweep);
    assert_eq!(rig.shown(), until(10.5));
    assert!((rig.at() - 10.5).abs() < 1e-6);
    // None follows: everything is shown.
    rig.tell(Command::StepSweep);
    assert_eq!(rig.position().state, PlayState::Ended);
}

#[test]
fn a_replay_that_begins_paused_shows_the_first_discovery() {
    let mut rig = Rig::new(false);
    rig.player.begin_paused(rig.now);
    rig.run(5.0);
    // There is none; nobody looks for it too far into a recording.
    assert_eq!(rig.shown(), until(10.0));
    assert_eq!(rig.position().state, PlayState::Paused);
    assert!((rig.at() - 10.0).abs() < 1e-6);
    rig.tell(Command::StepSweep);
    assert_eq!(rig.shown(), until(10.5));

    let mut all = session();
    all.retain(|e| e.at.as_secs_f64() < 2.0 || e.at.as_secs_f64() > 10.2);
    for event in &mut all[2..] {
        event.at.0 -= 9 * SEC;
    }
    let What::SweepEnded(sweep) = &mut all[2].what else {
        panic!("{:?}", all[2])
    };
    sweep.kind = SweepKind::Discovery;
    let mut rig = Rig::of(all, false);
    rig.player.begin_paused(rig.now);
    rig.run(5.0);
    assert_eq!(rig.shown.len(), 3);
    assert!((rig.at() - 1.5).abs() < 1e-6);
    // Played on, it goes on from there.
    rig.tell(Command::Toggle);
    rig.run(1.0);
    assert!((rig.at() - 2.5).abs() < 1e-6);
}

#[test]
fn seeking_back_begins_anew_and_forward_goes_on() {
    let mut rig = Rig::new(false);
    rig.run(5.0);
    rig.tell(Command::Seek(SeekTo::Start(Duration::from_secs(45))));
    assert_eq!((rig.shown(), rig.resets), (until(45.0), 0));
    assert_eq!(rig.position().state, PlayState::Playing);
    rig.tell(Command::Seek(SeekTo::Percent(25.0)));
    assert_eq!((rig.shown(), rig.resets), (until(15.0), 1));
    rig.run(1.0);
    assert_eq!(rig.shown(), until(16.0));
    rig.tell(Command::Seek(SeekTo::By(-6_000_000_000)));
    assert_eq!((rig.shown(), rig.resets), (until(10.0), 2));
    rig.tell(Command::Seek(SeekTo::End(Duration::from_secs(1))));
    assert_eq!(rig.shown(), until(59.0));
    let wall = (WALL + 7 * SEC) as i64;
    rig.tell(Command::Seek(SeekTo::Wall(wall)));
    assert_eq!(rig.shown(), until(7.0));
    // Beyond either end is that end.
    rig.tell(Command::Seek(SeekTo::Wall(0)));
    assert_eq!(rig.shown(), 1);
    rig.tell(Command::Seek(SeekTo::Start(Duration::from_secs(10_000))));
    rig.run(0.2);
    assert_eq!(rig.shown(), session().len());
}

#[test]
fn marks_are_gone_to_in_both_directions() {
    let mut rig = Rig::new(false);
    rig.run(1.0);
    rig.tell(Command::Pause(true));
    rig.tell(Command::Next(MarkKind::Bookmark));
    assert_eq!(rig.shown(), until(20.0));
    rig.tell(Command::Next(MarkKind::Alert));
    assert_eq!(rig.shown(), until(30.0));
    rig.tell(Command::Next(MarkKind::Event));
    assert_eq!(rig.shown(), until(40.0));
    rig.tell(Command::Next(MarkKind::Bookmark));
    assert_eq!(rig.position().message.as_deref(), Some("no later bookmark"));
    rig.tell(Command::Previous(MarkKind::Bookmark));
    assert_eq!((rig.shown(), rig.resets), (until(20.0), 1));
    rig.tell(Command::Previous(MarkKind::Alert));
    assert_eq!(rig.position().message.as_deref(), Some("no earlier alert"));
    // Own bookmarks count like recorded ones.
    rig.tell(Command::Seek(SeekTo::Start(Duration::from_secs(33))));
    rig.tell(Command::Bookmark("here".into()));
    rig.tell(Command::Seek(SeekTo::Start(Duration::from_secs(50))));
    rig.tell(Command::Previous(MarkKind::Bookmark));
    rig.tell(Command::Previous(MarkKind::Bookmark));
    assert!((rig.at() - 33.0).abs() < 1e-6);
}

#[test]
fn previous_twice_moves_on_while_it_plays() {
    let mut rig = Rig::new(false);
    rig.run(41.5);
    rig.tell(Command::Previous(MarkKind::Event));
    assert!((rig.at() - 40.0).abs() < 1e-6, "at {}", rig.at());
    rig.run(0.3);
    rig.tell(Command::Previous(MarkKind::Event));
    assert!((rig.at() - 30.0).abs() < 1e-6, "at {}", rig.at());
}

#[test]
fn idle_stretches_are_passed_over_but_folded() {
    let mut rig = Rig::new(false);
    rig.tell(Command::SkipIdle(true));
    // The opening, then nothing until the bookmark at 20: from 18 on at its own pace.
    rig.run(1.5);
    let at = rig.at();
    assert!((18.0..20.5).contains(&at), "at {at}");
    assert_eq!(rig.shown(), until(at));
    rig.run(100.0);
    assert_eq!(rig.shown(), session().len());
}

#[test]
fn it_plays_no_further_than_asked() {
    let mut rig = Rig::new(false);
    rig.player
        .set_until(Some(SeekTo::Start(Duration::from_secs(12))));
    rig.tell(Command::Speed(Speed::Max));
    assert_eq!(rig.shown(), until(12.0));
    assert_eq!((rig.ends, rig.position().state), (1, PlayState::Ended));
    // Playing again begins at the beginning.
    rig.tell(Command::Speed(Speed::REAL));
    rig.tell(Command::Toggle);
    assert_eq!((rig.shown(), rig.resets), (1, 1));
}

#[test]
fn at_full_speed_no_time_passes() {
    let mut rig = Rig::new(false);
    rig.tell(Command::Speed(Speed::Max));
    assert_eq!(rig.shown(), session().len());
    assert_eq!(rig.now, Duration::ZERO);
}

#[test]
fn a_pipe_plays_forward_only_and_says_so() {
    let mut rig = Rig::new(true);
    rig.run(10.2);
    assert_eq!(rig.shown(), until(10.2));
    rig.tell(Command::Seek(SeekTo::Start(Duration::from_secs(2))));
    assert!(rig.position().message.as_ref().unwrap().contains("pipe"));
    assert_eq!((rig.shown(), rig.resets), (until(10.2), 0));
    rig.tell(Command::Seek(SeekTo::Percent(50.0)));
    assert!(rig.position().message.as_ref().unwrap().contains("pipe"));
    // Without an index the next mark is looked for by playing on.
    rig.tell(Command::Next(MarkKind::Alert));
    assert_eq!(rig.shown(), until(30.0));
    rig.tell(Command::Next(MarkKind::Alert));
    assert_eq!(rig.position().message.as_deref(), Some("no later alert"));
    assert_eq!(rig.shown(), session().len());
}

#[test]
fn a_seek_waits_for_the_extent_if_it_must() {
    let mut rig = Rig::new(false);
    let index = Arc::new(Mutex::new(Index::new(Some(Moment(WALL)))));
    rig.player = Player::new(
        Box::new(tape(false)),
        Box::new(ByEvent),
        Arc::clone(&index),
        Duration::ZERO,
        Speed::REAL,
    );
    rig.tell(Command::Seek(SeekTo::Percent(50.0)));
    assert_eq!(rig.position().state, PlayState::Seeking);
    scan(
        tape(false),
        Box::new(ByEvent),
        &index,
        &AtomicBool::new(false),
    );
    rig.run(0.2);
    assert_eq!(rig.shown(), until(30.2));
    assert_eq!(rig.position().state, PlayState::Playing);
}

#[test]
fn places_parse() {
    let at = |text: &str| text.parse::<SeekTo>().unwrap();
    assert_eq!(at("50%"), SeekTo::Percent(50.0));
    assert_eq!(at("1h30m"), SeekTo::Start(Duration::from_secs(5400)));
    assert_eq!(at("+90s"), SeekTo::Start(Duration::from_secs(90)));
    assert_eq!(at("-5m"), SeekTo::End(Duration::from_secs(300)));
    // date -u -d 2023-11-14T22:13:20Z +%s
    assert_eq!(at("2023-11-14T22:13:20Z"), SeekTo::Wall(WALL as i64));
    assert_eq!(at("2023-11-14 22:13:20"), SeekTo::Wall(WALL as i64));
    for wrong in ["", "101%", "x%", "yesterday", "--5m", "1970"] {
        assert!(wrong.parse::<SeekTo>().is_err(), "{wrong}");
    }
}

fn write(dir: &std::path::Path, name: &str, events: &[Event]) -> PathBuf {
    let mut bytes = Vec::new();
    Encoder::new(Options::default()).encode(events, &mut bytes);
    let path = dir.join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(&bytes)
        .unwrap();
    path
}

fn as_fast_as_possible() -> PlayOptions {
    PlayOptions {
        speed: Speed::Max,
        ..PlayOptions::default()
    }
}

#[test]
fn files_play_in_order_of_time_and_sessions_begin_anew() {
    let dir = tempfile::tempdir().unwrap();
    let first = session();
    let mut second = session();
    second[0].what = opened("b");
    let What::Opened(o) = &mut second[0].what else {
        panic!()
    };
    o.wall += 3600 * SEC as i64;
    let (a, b) = first.split_at(30);
    let paths = [
        write(dir.path(), "later", &second),
        write(dir.path(), "a", a),
    ];
    // The middle part belongs to the first session.
    let mut rest = Encoder::new(Options::default());
    let mut bytes = Vec::new();
    rest.encode(a, &mut bytes);
    bytes.clear();
    rest.begin_section();
    rest.encode(b, &mut bytes);
    std::fs::OpenOptions::new()
        .append(true)
        .open(&paths[1])
        .unwrap()
        .write_all(&bytes)
        .unwrap();

    let (transport, feed) = play(&paths, as_fast_as_possible(), || Box::new(ByEvent)).unwrap();
    let mut events = Vec::new();
    let mut resets = Vec::new();
    for item in &feed {
        match item {
            Feed::Batch(batch) => events.extend(batch.events.clone()),
            Feed::Reset => resets.push(events.len()),
            Feed::Position(_) => {}
            Feed::End { .. } => break,
        }
    }
    let all: Vec<Event> = first.iter().chain(&second).cloned().collect();
    assert_eq!(events, all);
    assert_eq!(resets, [first.len()]);

    // Played again from the middle of the second session: the first one is not read.
    let hour = Duration::from_secs(3600);
    let to = SeekTo::Start(hour + Duration::from_secs(30));
    transport.send(Command::Pause(true));
    transport.send(Command::Seek(to));
    let mut seqs = Vec::new();
    for item in &feed {
        match item {
            Feed::Reset => seqs.clear(),
            Feed::Batch(batch) => seqs.extend(batch.events.iter().map(|e| e.seq)),
            Feed::Position(p) if p.state == PlayState::Paused && !seqs.is_empty() => {
                assert_eq!(p.at, Stamp::from_secs(30));
                break;
            }
            _ => {}
        }
    }
    assert!(seqs.iter().copied().eq(0..until(30.0) as u64));
    assert_eq!(transport.problems(), Vec::<String>::new());
    // Found by another thread.
    while !transport.marks().iter().any(|m| &*m.text == "mark 20") {
        thread::yield_now();
    }
}

/// The session with keyframes before its events at `keys` seconds; `true` begins another file
/// there.
fn with_keyframes(keys: &[(u64, bool)]) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(Options::default());
    let mut ledger = Ledger::new();
    let mut files = vec![Vec::new()];
    for event in session() {
        let key = keys.iter().find(|k| event.at == Stamp::from_secs(k.0));
        if let (Some((_, another)), What::Tick) = (key, &event.what) {
            if *another {
                encoder.begin_section();
                files.push(Vec::new());
            }
            let out = files.last_mut().unwrap();
            encoder.keyframe(event.seq, event.at, &ledger, out);
        }
        encoder.encode(std::slice::from_ref(&event), files.last_mut().unwrap());
        ledger.observe(&event);
    }
    files
}

fn rest(files: &mut Files) -> Vec<Event> {
    std::iter::from_fn(|| files.next().map(|p| p.event)).collect()
}

#[test]
fn reading_begins_with_the_last_keyframe_before() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = with_keyframes(&[(20, false), (40, false)]);
    let path = dir.path().join("a");
    std::fs::write(&path, &bytes[0]).unwrap();
    let mut files = Files::open(&[path]).unwrap();
    files.set_budget(0);
    let look = files.look_through();
    assert_eq!(look.end, Some(Moment(WALL + 60 * SEC)));
    assert!(!look.marked, "it is not compressed");
    // Read from the beginning, keyframes are no part of the stream.
    assert_eq!(rest(&mut files), session());
    for (to, from) in [(45, 40), (40, 40), (39, 20), (60, 40)] {
        assert!(files.rewind(Moment(WALL + to * SEC)));
        let events = rest(&mut files);
        let tick = |e: &Event| e.at >= Stamp::from_secs(from) && e.what == What::Tick;
        let session = session();
        let live = session.iter().position(tick).unwrap();
        let repeated = events.len() - (session.len() - live);
        // What the ledger repeats is from before.
        assert!(matches!(events[0].what, What::Opened(_)), "to {to}");
        assert!(
            events[..repeated]
                .iter()
                .all(|e| e.at < Stamp::from_secs(from))
        );
        assert_eq!(events[repeated..], session[live..], "to {to}");
    }
    // Before the first keyframe, everything is read.
    assert!(files.rewind(Moment(WALL + 19 * SEC)));
    assert_eq!(rest(&mut files), session());
    // Far ahead, reading begins anew with a keyframe.
    files.rewind(Moment(WALL));
    files.next();
    assert!(files.is_behind(Moment(WALL + 50 * SEC)));
    assert!(!files.is_behind(Moment(WALL + 10 * SEC)));
}

#[test]
fn rotated_files_are_one_recording_and_each_replays_alone() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = with_keyframes(&[(20, true), (40, true)]);
    // In an order that says nothing.
    let paths: Vec<PathBuf> = [(2, "a"), (0, "b"), (1, "c")]
        .into_iter()
        .map(|(number, name): (usize, _)| {
            let path = dir.path().join(name);
            std::fs::write(&path, &bytes[number]).unwrap();
            path
        })
        .collect();
    let mut files = Files::open(&paths).unwrap();
    assert_eq!(files.start(), Some(Moment(WALL)));
    assert_eq!(rest(&mut files), session());
    files.set_budget(0);
    files.look_through();
    assert!(files.rewind(Moment(WALL + 45 * SEC)));
    let events = rest(&mut files);
    assert!(matches!(events[0].what, What::Opened(_)));
    assert!(events.len() < until(60.0) - until(39.0) + 5);
    assert_eq!(events.last(), session().last());

    let mut alone = Files::open(&paths[2..]).unwrap();
    let events = rest(&mut alone);
    assert!(matches!(events[0].what, What::Opened(_)));
    assert_eq!(events.last().unwrap().at, Stamp::from_secs(39));
}

#[test]
fn what_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = |paths: &[PathBuf]| Files::open(paths).err().unwrap().to_string();
    assert!(error(std::slice::from_ref(&missing)).contains("missing"));
    assert!(error(&[dir.path().to_owned()]).contains("cannot read"));
    let junk = dir.path().join("junk");
    std::fs::write(&junk, [b'x'; 5000]).unwrap();
    assert!(error(&[junk]).contains("holds no event"));
    assert!(error(&["-".into(), missing]).contains("standard input"));
    assert!(error(&[]).contains("no recording"));

    // Torn in the last block: everything before it is played, and the loss is named.
    let path = write(dir.path(), "torn", &session());
    let len = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(len - 3).unwrap();
    let (transport, feed) = play(&[path], as_fast_as_possible(), || Box::new(ByEvent)).unwrap();
    let mut count = 0;
    for item in &feed {
        match item {
            Feed::Batch(batch) => count += batch.events.len(),
            Feed::End { .. } => break,
            _ => {}
        }
    }
    assert_eq!(count, session().len() - 1);
    for item in &feed {
        if matches!(item, Feed::Position(p) if p.state == PlayState::Ended) {
            break;
        }
    }
    assert_eq!(transport.problems().len(), 1, "{:?}", transport.problems());
}

#[test]
fn a_screen_that_goes_away_ends_the_replay() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a", &session());
    let (transport, feed) = play(&[path], PlayOptions::default(), || Box::new(ByEvent)).unwrap();
    assert!(matches!(feed.recv(), Ok(Feed::Batch(_))));
    drop(feed);
    // Commands are taken until the thread notices, then nobody is left to take them.
    while transport.commands.send(Command::StepEvent).is_ok() {
        thread::yield_now();
    }
}

#[test]
fn batches_stay_within_their_size() {
    let mut rig = Rig::new(false);
    let mut out = VecDeque::new();
    rig.player
        .command(Duration::ZERO, Command::Speed(Speed::Max), &mut out);
    rig.player.advance(Duration::ZERO, &mut out);
    let largest = out.iter().map(|item| match item {
        Feed::Batch(batch) => batch.events.len(),
        _ => 0,
    });
    assert!(largest.max().unwrap() <= Batch::MAX);
}
