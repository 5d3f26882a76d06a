//! The whole of it over real sockets. Nothing here waits for a time to pass: only for what must
//! become true.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::*;
use crate::event::{Batch, Event, Opened, Settings, SharedBatch, What};
use crate::port::{Source, Stamp};
use crate::record::replay::Feed;
use crate::record::{Handle, Options, Outputs, Reader, start_outputs};

struct House {
    _dir: tempfile::TempDir,
    path: PathBuf,
    server: Server,
    encoder: Handle,
    events: Sender<SharedBatch>,
    next: u64,
}

impl House {
    fn new(limits: Limits) -> House {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s/x.sock");
        House::at(dir, path, limits)
    }

    fn at(dir: tempfile::TempDir, path: PathBuf, limits: Limits) -> House {
        let server = Server::start(Config {
            limits,
            ..Config::new(path.clone(), "collector-host")
        })
        .unwrap();
        let (events, batches) = bounded(0);
        let outputs = Outputs {
            audience: Some(Box::new(server.publisher())),
            ..Outputs::default()
        };
        let encoder = start_outputs(outputs, Options::default(), batches).unwrap();
        let mut house = House {
            _dir: dir,
            path,
            server,
            encoder,
            events,
            next: 0,
        };
        house.cast(What::Opened(Box::new(Opened {
            version: "test".into(),
            source: Source::Simulated {
                fabric: "test".into(),
            },
            wall: 1_700_000_000_000_000_000,
            host: "collector-host".into(),
            settings: Settings::default(),
        })));
        house
    }

    fn cast(&mut self, what: What) {
        let event = Event {
            seq: self.next,
            at: Stamp::from_millis(self.next * 10),
            what,
        };
        self.next += 1;
        // Nothing waits in this channel: once the empty one is taken, the other one is done.
        for events in [vec![event], Vec::new()] {
            let batch = std::sync::Arc::new(Batch { events });
            self.events.send(batch).unwrap();
        }
    }

    /// Lets the encoder end, and then the server. Gives back what another house needs.
    fn stop(self) -> (tempfile::TempDir, PathBuf) {
        drop(self.events);
        self.encoder.finish();
        self.server.stop();
        (self._dir, self.path)
    }

    /// One event of some size.
    fn mark(&mut self, size: usize) {
        self.cast(What::Mark {
            text: "m".repeat(size).into(),
        });
    }

    fn watch(&self) -> (Viewer, Receiver<Feed>) {
        Viewer::connect(&self.path).unwrap()
    }

    fn dial(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        // A test that fails should end, too.
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    }

    /// A viewer that took part in the handshake.
    fn greeted(&self) -> UnixStream {
        let mut stream = self.dial();
        assert!(line(&mut stream).starts_with("fabtop watch 1 "));
        stream.write_all(b"fabtop watch 1 0.0.0\n").unwrap();
        assert_eq!(line(&mut stream), "ok");
        stream
    }
}

fn line(from: &mut UnixStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read_exact(&mut byte).is_ok() && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Waits until it is true.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the peer closed, without anything more to read.
fn closed(stream: &mut UnixStream) -> bool {
    !matches!(stream.read(&mut [0; 4096]), Ok(n) if n > 0)
}

/// Takes events from a feed up to live event `seq`: those of a keyframe have the number of the
/// one that follows it.
fn events(fed: &Receiver<Feed>, seq: u64) -> Vec<Event> {
    let last = |e: &Event| e.seq == seq && !matches!(e.what, What::Opened(_));
    let mut all = Vec::new();
    loop {
        match fed.recv_timeout(Duration::from_secs(60)).unwrap() {
            Feed::Batch(batch) => {
                all.extend(batch.events.clone());
                if batch.events.iter().any(last) {
                    return all;
                }
            }
            Feed::Reset => all.clear(),
            other => panic!("{other:?} after {} events", all.len()),
        }
    }
}

fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|e| e.seq).collect()
}

#[test]
fn viewers_get_a_keyframe_and_what_follows() {
    let mut house = House::new(Limits::default());
    house.cast(What::Tick);
    let (viewer, fed) = house.watch();
    until("one viewer", || house.server.viewers() == 1);
    house.mark(5);
    house.cast(What::Tick);
    let got = events(&fed, 3);
    // What opened the session comes first although it is long past, with the next one's number.
    assert_eq!(seqs(&got), [2, 2, 3]);
    assert!(matches!(&got[0].what, What::Opened(o) if o.version == "test"));
    assert_eq!(got[0].at, Stamp::ZERO);
    assert!(matches!(&got[1].what, What::Mark { .. }));
    let status = viewer.status().clone();
    assert_eq!((status.host.as_str(), status.lost), ("collector-host", 0));
    // The newest event was at 30 ms; 1 s after the session opened it is 970 ms old.
    let lag = status.lag(1_700_000_001_000_000_000);
    assert_eq!(lag, Some(Duration::from_millis(970)));

    // A second one joins; the first reads on without a gap.
    let (_second, also) = house.watch();
    until("two viewers", || house.server.viewers() == 2);
    house.mark(1);
    house.cast(What::Tick);
    assert_eq!(seqs(&events(&fed, 5)), [4, 5]);
    assert_eq!(seqs(&events(&also, 5)), [4, 4, 5]);
    drop(viewer);
    until("one went", || house.server.viewers() == 1);
}

#[test]
fn a_stopped_viewer_slows_nobody_and_learns_what_it_lost() {
    let limits = Limits {
        bounds: Bounds {
            chunks: 16,
            bytes: 1 << 20,
            ..Bounds::default()
        },
        ..Limits::default()
    };
    let mut house = House::new(limits);
    let mut stopped = house.greeted();
    let (_viewer, fed) = house.watch();
    until("two viewers", || house.server.viewers() == 2);
    // Far beyond what the queue and the socket's buffers hold; the quick viewer takes each one
    // before the next is sent, so that it can never fall behind.
    for _ in 0..100 {
        house.mark(60_000);
        let seq = house.next - 1;
        events(&fed, seq);
    }
    let last = house.next;
    // Now it reads again, in the background so that the collector can go on.
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let shared = std::sync::Arc::clone(&heard);
    let reading = std::thread::spawn(move || {
        let mut chunk = vec![0; 1 << 16];
        while let Ok(n @ 1..) = stopped.read(&mut chunk) {
            shared.lock().unwrap().extend_from_slice(&chunk[..n]);
        }
    });
    // It is told of the gap once it has taken what was on its way.
    until("it catches up", || {
        house.cast(What::Tick);
        let heard = heard.lock().unwrap();
        Reader::new(&heard[..]).any(|e| matches!(e.what, What::Dropped { .. }))
    });
    let end = house.next;
    house.stop();
    reading.join().unwrap();
    let bytes = heard.lock().unwrap().clone();
    let mut reader = Reader::new(&bytes[..]);
    let got: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    let gaps: Vec<&Event> = got
        .iter()
        .filter(|e| matches!(e.what, What::Dropped { .. }))
        .collect();
    assert_eq!(gaps.len(), 1);
    let What::Dropped { count } = gaps[0].what else {
        unreachable!()
    };
    // Everything was either received or counted, and the stream is whole after the gap.
    let live = got
        .iter()
        .filter(|e| matches!(e.what, What::Mark { .. } | What::Tick))
        .count() as u64;
    // The opening came before it joined.
    assert_eq!(live + count, end - 1);
    assert!(count > 0 && gaps[0].seq >= last);
    assert_eq!(got.last().unwrap().seq, end - 1);
    let after = got.iter().position(|e| e.seq == gaps[0].seq).unwrap();
    assert!(matches!(got[after + 1].what, What::Opened(_)));
}

#[test]
fn whoever_says_anything_but_hello_is_closed() {
    let house = House::new(Limits::default());
    let long = [b'x'; 5000];
    let hellos: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0\xff\xfe\n",
        b"\n",
        b"fabtop watch\n",
        b"fabtop watch one 0.1.0\n",
        b"fabtop watch 1 0.1.0\nquit\n",
        &long,
    ];
    for hello in hellos {
        let mut stream = house.dial();
        line(&mut stream);
        // It may be closed before all is written.
        let _ = stream.write_all(hello);
        assert!(closed(&mut stream), "{:?}", String::from_utf8_lossy(hello));
    }
    // After the hello nothing is listened to.
    let mut stream = house.greeted();
    until("it watches", || house.server.viewers() == 1);
    stream.write_all(b"x").unwrap();
    assert!(closed(&mut stream));
    until("it is gone", || house.server.viewers() == 0);
}

#[test]
fn half_a_hello_and_a_sudden_close_leave_nothing_behind() {
    let limits = Limits {
        hello: Duration::from_millis(50),
        ..Limits::default()
    };
    let mut house = House::new(limits);
    let mut half = house.dial();
    line(&mut half);
    half.write_all(b"fabtop wa").unwrap();
    let mut silent = house.dial();
    line(&mut silent);
    // Both run into the time limit.
    assert!(closed(&mut half) && closed(&mut silent));
    for n in 0..50 {
        let stream = house.dial();
        if n % 3 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        drop(stream);
    }
    let (_viewer, fed) = house.watch();
    until("only the viewer", || house.server.viewers() == 1);
    house.mark(1);
    assert_eq!(events(&fed, 1).len(), 2);
}

#[test]
fn floods_of_connections_are_bounded_and_told() {
    let limits = Limits {
        bounds: Bounds {
            viewers: 2,
            ..Bounds::default()
        },
        connections: 4,
        accepts_per_s: 1_000_000,
        ..Limits::default()
    };
    let mut house = House::new(limits);
    let (_a, fed) = house.watch();
    let _b = house.greeted();
    // A third viewer is told that there are too many.
    let error = Viewer::connect(&house.path).unwrap_err().to_string();
    assert!(error.contains("too many viewers"), "{error}");
    // Two that say nothing fill the rest; then nobody gets beyond the door.
    let mut silent = Vec::new();
    until("the house is full", || {
        let mut stream = house.dial();
        let first = line(&mut stream);
        if first.starts_with("error: too many connections") {
            return true;
        }
        silent.push(stream);
        assert!(silent.len() <= 4);
        false
    });
    for _ in 0..200 {
        drop(house.dial());
    }
    house.mark(1);
    assert_eq!(events(&fed, 1).len(), 2);
    // Room again.
    drop(silent);
    drop(_b);
    until("a place is free", || Viewer::connect(&house.path).is_ok());
}

#[test]
fn a_viewer_that_takes_nothing_for_too_long_is_closed() {
    let limits = Limits {
        stall: Duration::from_millis(20),
        ..Limits::default()
    };
    let mut house = House::new(limits);
    let _stopped = house.greeted();
    until("it watches", || house.server.viewers() == 1);
    until("it is given up", || {
        house.mark(60_000);
        house.server.viewers() == 0
    });
}

#[test]
fn another_version_is_one_clear_sentence_on_either_side() {
    let house = House::new(Limits::default());
    let mut stream = house.dial();
    line(&mut stream);
    stream.write_all(b"fabtop watch 9 7.7.7\n").unwrap();
    let said = line(&mut stream);
    assert!(
        said.starts_with("error: the viewer is fabtop 7.7.7"),
        "{said}"
    );
    assert!(closed(&mut stream));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let answer = |text: &'static [u8]| {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| Viewer::connect(&path).unwrap_err().to_string());
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(text).unwrap();
            drop(peer);
            asked.join().unwrap()
        })
    };
    let said = answer(b"fabtop watch 9 7.7.7 host\x1b[31m\n");
    assert!(
        said.contains("use the same version on both sides"),
        "{said}"
    );
    assert!(said.contains("7.7.7") && !said.contains('\x1b'), "{said}");
    assert!(answer(b"SSH-2.0-OpenSSH\r\n").contains("no fabtop collector"));
    // Neither escape sequences nor what turns a line round.
    let said = answer("error: no\x1b[2J ro\u{202e}om\n".as_bytes());
    assert!(said.contains("refused: no\\x1b[2J ro\\u{202e}om"), "{said}");
    assert!(answer(&[b'x'; 300]).contains("no hello"));
    drop(listener);
    let nobody = Viewer::connect(&path).unwrap_err().to_string();
    assert!(nobody.contains("no collector listens"), "{nobody}");
    assert!(nobody.contains("fabtop serve"), "{nobody}");
}

#[test]
fn a_viewer_survives_a_restart_of_the_collector() {
    let house = House::new(Limits::default());
    let (viewer, fed) = house.watch();
    until("it watches", || house.server.viewers() == 1);
    let (dir, path) = house.stop();
    assert!(!path.exists());
    until("it says so", || {
        matches!(viewer.status().state, State::Reconnecting { .. })
    });
    let mut again = House::at(dir, path, Limits::default());
    until("it is back", || again.server.viewers() == 1);
    again.mark(1);
    // A new model begins before the new session's first event.
    let mut resets = 0;
    let mut seen: Vec<Event> = Vec::new();
    while !seen.iter().any(|e| matches!(e.what, What::Mark { .. })) {
        match fed.recv_timeout(Duration::from_secs(60)).unwrap() {
            Feed::Reset => {
                resets += 1;
                seen.clear();
            }
            Feed::Batch(batch) => seen.extend(batch.events.clone()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((resets, seen.len()), (1, 2));
    assert!(matches!(seen[0].what, What::Opened(_)));
    let status = viewer.status().clone();
    assert_eq!((status.state, status.reconnects), (State::Connected, 1));
}

#[test]
fn a_copied_stream_is_read_as_it_comes() {
    let mut house = House::new(Limits::default());
    let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let path = house.path.clone();
    let copying = std::thread::spawn(move || {
        let mut writer = writer;
        stream(&path, &mut writer)
    });
    let (viewer, fed) = Viewer::read(reader).unwrap();
    until("it watches", || house.server.viewers() == 1);
    house.mark(1);
    // One event is handed on although more could follow.
    assert_eq!(events(&fed, 1).len(), 2);
    house.cast(What::Tick);
    assert_eq!(seqs(&events(&fed, 2)), [2]);
    house.stop();
    copying.join().unwrap().unwrap();
    assert!(matches!(fed.recv().unwrap(), Feed::End { .. }));
    assert!(matches!(viewer.status().state, State::Ended { .. }));
}

#[test]
fn a_reader_that_goes_away_ends_a_copy_without_an_error() {
    let mut house = House::new(Limits::default());
    let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let path = house.path.clone();
    let copying = std::thread::spawn(move || {
        let mut writer = writer;
        stream(&path, &mut writer)
    });
    until("it watches", || house.server.viewers() == 1);
    drop(reader);
    until("it ends", || {
        house.mark(1000);
        copying.is_finished()
    });
    copying.join().unwrap().unwrap();
    let missing = house.path.with_extension("other");
    assert!(stream(&missing, &mut Vec::new()).is_err());
}

#[test]
fn what_is_no_recording_ends_a_pipe_and_nothing_else() {
    let (viewer, fed) = Viewer::read(&b"what is this?\n"[..]).unwrap();
    assert!(matches!(fed.recv().unwrap(), Feed::End { .. }));
    until("it is counted", || viewer.status().problems > 0);
}

#[test]
fn hellos_are_read_back_and_cleaned() {
    let hello = Hello::ours("no de\x1b[1m01\n");
    assert_eq!(hello.host, "node[1m01");
    let line = hello.line();
    assert_eq!(Hello::parse(line.trim_end().as_bytes()), Some(hello));
    assert!(line.len() < MAX_LINE);
    assert!(Hello::ours(&"h".repeat(500)).line().len() < MAX_LINE);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_no_trouble_as_a_hello(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
    ) {
        let _ = Hello::parse(&bytes);
        let mut line = b"fabtop watch ".to_vec();
        line.extend(&bytes);
        if let Some(hello) = Hello::parse(&line) {
            proptest::prop_assert!(hello.host.len() <= 64 && hello.version.len() <= 64);
        }
    }
}
