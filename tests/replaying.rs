//! `fabtop replay` and its kin as people run them: from pipes, of other programs' captures, over
//! idle stretches; and the door of a collector.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

#[path = "common/program.rs"]
#[allow(dead_code)] // each test program uses a part
mod program;
#[allow(dead_code)] // shared with another test program
mod pty;

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use program::*;
use pty::Console;
use rustix::process::Signal;

fn record(dir: &Path, name: &str, more: &[&str]) -> PathBuf {
    let file = dir.join(name);
    let mut args = vec!["record", text(&file), "--sim-time", "fast"];
    args.extend(more);
    out(&args);
    file
}

/// A console in which the shell runs `script`, with the program as `$FABTOP`'s stand-in `$0`.
fn shell(script: &str, file: &Path) -> Console {
    // The program's own path and its one argument come behind.
    Console::program_in(&["sh", "-c", script], &[text(file)], 100, 30)
}

#[test]
fn a_stream_is_drawn_on_another_host_while_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s.sock");
    let mut collector = serve(&socket, &[]);
    // As `ssh HOST fabtop stream | fabtop replay --follow -`.
    let mut console = shell("\"$0\" stream \"$1\" | \"$0\" replay --follow -", &socket);
    console.wait_for("WATCHING");
    console.wait_for("lag <2s");
    console.wait_for("Active");
    console.keys("2");
    console.wait_for("TX bit/s");
    collector.signal(Signal::TERM);
    assert_eq!(collector.end(), Some(0));
    console.wait_for("Watching ended: the stream ended");
    console.keys("q");
    let end = console.wait();
    end.expect_code(0).unwrap();
    end.expect_restored().unwrap();
}

#[test]
fn a_recording_that_grows_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.pcapng");
    let args = ["record", text(&file), "--sim", "--interval", "1s"];
    let recorder = fabtop(&args)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut recorder = Running(recorder);
    until("the file", || file.metadata().is_ok_and(|m| m.len() > 0));
    let mut console = Console::program(&["replay", "--follow", text(&file)], 100, 30);
    console.wait_for("a.pcapng");
    console.wait_for("leaf01");
    recorder.signal(Signal::TERM);
    assert_eq!(recorder.end(), Some(0));
    console.wait_for("Session ended");
    console.keys("q");
    console.wait().expect_code(0).unwrap();
}

#[test]
fn a_pipe_is_replayed_and_keys_still_come_from_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let file = record(dir.path(), "a.pcapng.zst", &["--sim", "--for", "60s"]);
    let mut console = shell("cat \"$1\" | \"$0\" replay --paused -", &file);
    console.wait_for("REPLAY");
    console.wait_for("standard input");
    console.wait_for("leaf01");
    // There is no way back in a pipe, nor a known end.
    console.keys("g50%\r");
    console.wait_for("what comes through a pipe has no known end");
    console.keys("\x1b[C");
    console.wait_for(" 0:1");
    console.keys("\x1b[D");
    console.wait_for("cannot be played again");
    console.keys("q");
    let end = console.wait();
    end.expect_code(0).unwrap();
    end.expect_restored().unwrap();
}

#[test]
fn idle_stretches_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let net = dir.path().join("two.net");
    let text_of =
        "caguid=0x1\nHca 1 \"a\"\n[1] \"s\"[1]\n\nswitchguid=0x2\nSwitch 2 \"s\"\n[1] \"a\"[1]\n";
    std::fs::write(&net, text_of).unwrap();
    // Nothing happens in this fabric. At 20 times real time an hour takes three minutes, which is
    // beyond the patience of this test.
    let more = ["--sim", text(&net), "--for", "1h", "--interval", "10s"];
    let file = record(dir.path(), "a.pcapng.zst", &more);
    let args = ["replay", "--skip-idle", "--speed", "20", text(&file)];
    let mut console = Console::program(&args, 120, 30);
    console.wait_for("skip idle");
    console.wait_for("ended    20×  1:00:00 of 1:00:00  100%");
    console.keys("i");
    console.keys("q");
    console.wait().expect_code(0).unwrap();
}

/// Blocks of a little-endian pcapng file.
fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let mut list = Vec::new();
    let mut rest = bytes;
    while rest.len() >= 12 {
        let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let (block, after) = rest.split_at(len);
        list.push(block);
        rest = after;
    }
    list
}

/// A block's type; of a packet also its interface.
fn kind(block: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    (word(0), word(8))
}

#[test]
fn captures_of_other_programs_replay_and_give_reports() {
    let dir = tempfile::tempdir().unwrap();
    let file = record(dir.path(), "a.pcapng", &["--sim", "--for", "30s"]);
    let recorded = std::fs::read(&file).unwrap();
    let all = blocks(&recorded);
    // Packets of the first interface: MADs, without anything that fabtop says of them.
    let mads: Vec<&[u8]> = all.iter().copied().filter(|b| kind(b) == (6, 0)).collect();
    assert!(mads.len() > 1000);

    // As a filter leaves it: link type 252, in pcapng, the other interfaces empty.
    let filtered: Vec<&[u8]> = all
        .iter()
        .copied()
        .filter(|b| kind(b).0 != 6 || kind(b).1 == 0)
        .collect();
    let pcapng = dir.path().join("filtered.pcapng");
    std::fs::write(&pcapng, filtered.concat()).unwrap();

    // As ibdump writes it: classic pcap, nanoseconds, link type 197, each packet from its LRH on
    // behind an ERF header of 16 bytes with type 21; and one packet of Ethernet.
    let mut bytes = Vec::new();
    for word in [0xA1B2_3C4Du32, 0x0004_0002, 0, 0, 65_535, 197] {
        bytes.extend(word.to_le_bytes());
    }
    let mut put = |nanos: u64, kind: u8, packet: &[u8]| {
        let len = packet.len() as u32 + 16;
        let (secs, frac) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        for word in [secs as u32, frac as u32, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 8]);
        bytes.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(packet);
    };
    for block in &mads {
        let word = |at: usize| u64::from(u32::from_le_bytes(block[at..at + 4].try_into().unwrap()));
        let nanos = word(12) << 32 | word(16);
        let len = word(20) as usize;
        // Behind the 20 bytes of link type 252's tags.
        put(nanos, 21, &block[28 + 20..28 + len]);
    }
    put(0, 2, &[0; 60]);
    let pcap = dir.path().join("erf.pcap");
    std::fs::write(&pcap, &bytes).unwrap();

    let names = |file: &Path| -> Vec<String> {
        let report = out(&["report", "nodes", "--from", text(file), "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&report).unwrap();
        let nodes = json["nodes"].as_array().unwrap().iter();
        nodes
            .map(|n| format!("{} {} {}", n["guid"], n["name"], n["lid"]))
            .collect()
    };
    let own = names(&file);
    assert!(own.len() > 50, "{own:?}");
    for capture in [&pcapng, &pcap] {
        let got = names(capture);
        assert!(
            got == own,
            "{}: {got:?} instead of {own:?}",
            capture.display()
        );
        let mut console = Console::program(&["replay", "--at", "50%", text(capture)], 120, 30);
        console.wait_for("REPLAY");
        console.wait_for("leaf01");
        // What is guessed is said to be.
        console.keys("e");
        console.wait_for("guess");
        console.keys("qq");
        console.wait().expect_code(0).unwrap();
    }
}

#[test]
fn a_collectors_group_may_watch_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("shared/s.sock");
    // nobody's group on Debian, which no user of a test belongs to.
    let args = ["--socket-group", "65534"];
    if nix::unistd::geteuid().is_root() {
        let mut collector = serve(&socket, &args);
        for (path, mode) in [(socket.as_path(), 0o660), (socket.parent().unwrap(), 0o750)] {
            let about = path.symlink_metadata().unwrap();
            assert_eq!((about.gid(), about.mode() & 0o777), (65534, mode));
        }
        collector.signal(Signal::TERM);
        assert_eq!(collector.end(), Some(0));
    } else {
        let socket = text(&socket);
        let mut serve = vec!["serve", "--sim", "--socket", socket];
        serve.extend(args);
        fails(&serve, 1, "cannot listen on");
    }
    let socket = dir.path().join("other.sock");
    let unknown = [
        "serve",
        "--sim",
        "--socket",
        text(&socket),
        "--socket-group",
        "no such",
    ];
    fails(&unknown, 2, "there is no group");
}

#[test]
fn another_version_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answering = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(b"fabtop watch 9 7.7.7 login1\n").unwrap();
        }
    });
    for command in ["watch", "stream"] {
        let output = run(&[command, text(&socket)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let expected = format!(
            "fabtop: the collector on login1 is fabtop 7.7.7 (watch protocol 9), this is fabtop {} \
             (protocol 1): use the same version on both sides\n",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(said, expected);
    }
    answering.join().unwrap();
}

#[test]
fn fifty_viewers_and_a_flood_of_strangers_break_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s.sock");
    let mut collector = serve(&socket, &["--interval", "100ms"]);
    let first = dir.path().join("first");
    let mut before = stream(&socket, &first);
    until("events before", || live(&first).len() > 100);
    let line = |stream: &mut UnixStream| {
        let mut line = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|n| n > 0) && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    };
    let mut viewers = Vec::new();
    for n in 0..50 {
        // Strangers between them: silence, garbage, half a hello, a sudden close.
        let mut stranger = UnixStream::connect(&socket).unwrap();
        let _ = match n % 4 {
            0 => Ok(()),
            1 => stranger.write_all(&[0xA5; 3000]),
            2 => stranger.write_all(b"fabtop wat"),
            _ => stranger.shutdown(std::net::Shutdown::Both),
        };
        if n % 4 != 0 {
            drop(stranger);
        } else if n < 40 {
            viewers.push(stranger);
        }
        let mut viewer = UnixStream::connect(&socket).unwrap();
        assert!(line(&mut viewer).starts_with("fabtop watch 1 "));
        viewer.write_all(b"fabtop watch 1 0.0.0\n").unwrap();
        assert_eq!(line(&mut viewer), "ok");
        let mut start = [0; 4];
        viewer.read_exact(&mut start).unwrap();
        // Each begins with a section header.
        assert_eq!(start, [0x0A, 0x0D, 0x0D, 0x0A]);
        viewers.push(viewer);
    }
    // None of them reads on. The one that was there before still gets everything.
    let had = live(&first).len();
    until("events after", || live(&first).len() > had + 1000);
    let all = live(&first);
    let (from, to) = (all.keys().next().unwrap(), all.keys().last().unwrap());
    assert_eq!(all.len() as u64, to - from + 1);
    collector.signal(Signal::TERM);
    assert_eq!(collector.end(), Some(0));
    assert_eq!(before.end(), Some(0));
}

#[test]
fn a_restricted_viewer_can_neither_leave_files_nor_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (socket, home) = (at("s.sock"), at("home"));
    std::fs::create_dir(&home).unwrap();
    let collector = serve(&socket, &[]);
    // Whatever it could write to lies in a place of its own.
    let script = "cd \"$HOME\" && exec \"$0\" watch --restricted \"$1\"";
    let home_is = format!("HOME={}", home.display());
    let dirs =
        ["CONFIG", "STATE", "CACHE", "DATA"].map(|d| format!("XDG_{d}_HOME={}", home.display()));
    let mut by = vec!["env", &home_is];
    by.extend(dirs.iter().map(String::as_str));
    by.extend(["sh", "-c", script]);
    let mut viewer = Console::program_in(&by, &[text(&socket)], 120, 60);
    viewer.wait_for("WATCHING");
    viewer.wait_for("Active");
    viewer.keys("?");
    viewer.wait_for("Keys");
    // The whole help, from its first to its last line.
    let mut help = viewer.screen();
    viewer.keys("G");
    viewer.wait_for("not active");
    help += &viewer.screen();
    for word in [
        "Ctrl-Z",
        "suspend",
        "bookmark",
        "read all counters",
        "discover the whole",
    ] {
        assert!(!help.contains(word), "{word} in\n{help}");
    }
    viewer.keys("q");
    // Every key that there is, but for those that leave.
    for key in ('!'..='~').filter(|k| !"q?".contains(*k)) {
        viewer.keys(&key.to_string());
        viewer.keys("\x1b");
        std::thread::sleep(LOOK);
    }
    viewer.keys("\x1a\x1a");
    viewer.wait_for("There is no shell to go back to.");
    viewer.keys("\x03");
    viewer.wait().expect_code(0).unwrap();
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
    drop(collector);
}
