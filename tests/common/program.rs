//! The program itself, run as people do.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fabtop::event::Event;
use fabtop::record::Reader;
use rustix::process::{Pid, Signal, kill_process};

/// How long a condition is waited for. Far above what it takes: a limit, not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition outside this process is looked at.
pub const LOOK: Duration = Duration::from_millis(20);

pub fn fabtop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabtop"));
    command.args(args).stdin(Stdio::null());
    command
}

pub fn run(args: &[&str]) -> Output {
    fabtop(args).output().unwrap()
}

/// What a command printed that must succeed and complain of nothing.
pub fn out(args: &[&str]) -> Vec<u8> {
    let output = run(args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complaint.is_empty(),
        "{args:?}: {complaint}"
    );
    output.stdout
}

/// One sentence on standard error, and the exit code.
pub fn fails(args: &[&str], code: i32, says: &str) {
    let output = run(args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {complaint}");
    assert!(complaint.contains(says), "{args:?}: {complaint}");
    if let Some(sentence) = complaint.strip_prefix("fabtop: ") {
        assert_eq!(sentence.lines().count(), 1, "{complaint}");
    }
    assert!(output.stdout.is_empty());
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(LOOK);
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A child that does not outlive its test.
pub struct Running(pub Child);

impl Running {
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Its exit code, once it has ended.
    pub fn end(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A collector on the simulator, listening.
pub fn serve(socket: &Path, more: &[&str]) -> Running {
    let args = ["serve", "--sim", "--socket", text(socket)];
    let child = fabtop(&args)
        .args(more)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the socket", || socket.exists());
    Running(child)
}

/// A viewer that writes what it gets to a file.
pub fn stream(socket: &Path, to: &Path) -> Running {
    let child = fabtop(&["stream", text(socket)])
        .stdout(File::create(to).unwrap())
        .spawn()
        .unwrap();
    Running(child)
}

pub fn events(path: &Path) -> Vec<Event> {
    Reader::new(File::open(path).unwrap()).collect()
}

/// The events of a stream after its keyframe, whose own all have the number of what follows.
pub fn live(path: &Path) -> BTreeMap<u64, Event> {
    let all = events(path);
    let first = all.first().map_or(0, |e| e.seq);
    let later = all.into_iter().filter(|e| e.seq > first);
    later.map(|e| (e.seq, e)).collect()
}
