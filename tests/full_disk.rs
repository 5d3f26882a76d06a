//! A disk that is full: a tmpfs of a few hundred kilobytes in a mount namespace of its own.
//!
//! What is recorded there ends; nothing else does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test; its harness is not the standard one"
)]

#[path = "common/foreign.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod foreign;
#[allow(dead_code, reason = "shared with another test program")]
mod pty;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use pty::Console;
use rustix::process::{Pid, Signal, kill_process};

const FABTOP: &str = env!("CARGO_BIN_EXE_fabtop");
/// How long a condition is waited for: a limit, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// An hour of the simulated fabric in virtual time: more than any of these limits holds.
const AN_HOUR: [&str; 7] = [
    "--sim",
    "--sim-time",
    "fast",
    "--interval",
    "1s",
    "--for",
    "1h",
];

fn main() -> ExitCode {
    let missing = namespace().err();
    let trial = |name, test: fn()| foreign::trial_unless(missing.clone(), name, test);
    foreign::main(vec![
        trial("a_full_disk_ends_record_with_its_cause", record),
        trial(
            "a_full_disk_is_an_alert_in_the_console_and_for_its_viewers",
            console,
        ),
        trial("a_full_disk_does_not_end_a_collector", serve),
        foreign::trial(
            "a_limit_of_file_size_ends_the_recording_and_not_the_program",
            &[],
            limit,
        ),
    ])
}

/// What runs a command with a full disk's worth of tmpfs at `$DISK`, or why that cannot be.
fn namespace() -> Result<&'static str, String> {
    let works = |flags: &str| {
        let mount = "mount -t tmpfs -o size=64k none /tmp";
        let status = Command::new("unshare")
            .args([flags, "sh", "-c", mount])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|s| s.success())
    };
    ["-m", "-rm"]
        .into_iter()
        .find(|flags| works(flags))
        .ok_or_else(|| "no tmpfs can be mounted (unshare -rm of util-linux)".to_owned())
}

/// The words before a command that is to run with `disk` as a file system of `size`.
fn small_disk(disk: &Path, size: &str, then: &str) -> Vec<String> {
    let mount = format!("mount -t tmpfs -o size={size} none '{}'", disk.display());
    let script = format!("{mount} || exit 99; \"$@\"; code=$?; {then} exit $code");
    let words = ["unshare", namespace().unwrap(), "sh", "-c", &script, "sh"];
    words.map(str::to_owned).to_vec()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn record() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, report) = (dir.path().join("disk"), dir.path().join("report"));
    std::fs::create_dir(&disk).unwrap();
    for name in ["a.pcapng", "a.pcapng.zst"] {
        let file = disk.join(name);
        // Its file system is gone with the namespace: what is on it is read before.
        let read = format!(
            "'{FABTOP}' report nodes --from '{}' >'{}';",
            file.display(),
            report.display()
        );
        let out = Command::new("unshare")
            .args(&small_disk(&disk, "800k", &read)[1..])
            .args([FABTOP, "record"])
            .arg(&file)
            .args(AN_HOUR)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        let first = said.lines().next().unwrap_or_default();
        let cause = "fabtop: recording stopped: disk full (ENOSPC); the last ";
        assert!(first.starts_with(cause), "{said}");
        // Sound: it is read without a complaint, and holds what the discovery found.
        assert_eq!(said.lines().count(), 1, "{said}");
        let nodes = std::fs::read_to_string(&report).unwrap();
        assert!(nodes.contains("leaf01"), "{nodes}");
    }
}

fn console() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let (file, socket) = (disk.join("a.pcapng"), dir.path().join("s.sock"));
    let by = small_disk(&disk, "600k", "");
    let by: Vec<&str> = by.iter().map(String::as_str).collect();
    let args = [
        "--sim",
        "--interval",
        "1s",
        "--record",
        file.to_str().unwrap(),
        "--socket",
        socket.to_str().unwrap(),
    ];
    let mut console = Console::program_in(&by, &args, 120, 30);
    // The header says so while everything else goes on.
    console.wait_for("! Recording stopped: disk full (ENOSPC)");
    console.keys("e");
    console.wait_for("Event log");
    console.wait_for("recording stopped: disk full");
    console.keys("q2");
    console.wait_for("TX bit/s");
    // Whoever comes now is told, too.
    let mut viewer = Console::program(&["watch", socket.to_str().unwrap()], 120, 30);
    viewer.wait_for("! Recording stopped: disk full (ENOSPC)");
    viewer.wait_for("lag <2s");
    viewer.keys("q");
    viewer.wait().expect_code(0).unwrap();
    console.keys("q");
    let end = console.wait();
    end.expect_code(1).unwrap();
    end.expect_restored().unwrap();
    end.expect_in_stderr("fabtop: recording stopped: disk full (ENOSPC)")
        .unwrap();
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let (file, socket) = (disk.join("a.pcapng"), dir.path().join("s.sock"));
    let mut by = small_disk(&disk, "200k", "");
    // The collector itself gets the signal below.
    by[4] = by[4].replace("\"$@\"; code=$?;", "exec \"$@\";");
    let mut collector = Command::new("unshare");
    collector
        .args(&by[1..])
        .args([FABTOP, "serve", "--sim", "--interval", "1s", "--record"])
        .arg(&file)
        .arg("--socket")
        .arg(&socket)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut collector = Running(collector.spawn().unwrap());
    until("the socket", || socket.exists());
    let viewer = Console::program(&["watch", socket.to_str().unwrap()], 120, 30);
    viewer.wait_for("! Recording stopped: disk full (ENOSPC)");
    // It still collects.
    viewer.wait_for("lag <2s");
    assert!(collector.0.try_wait().unwrap().is_none());
    let pid = Pid::from_raw(i32::try_from(collector.0.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    until("its end", || collector.0.try_wait().unwrap().is_some());
    assert_eq!(collector.0.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    let mut errors = collector.0.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
    assert!(
        said.contains("recording stopped: disk full (ENOSPC)"),
        "{said}"
    );
}

/// RLIMIT_FSIZE kills by SIGXFSZ unless a program sees to it.
fn limit() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.pcapng");
    let out = Command::new("sh")
        .args(["-c", "ulimit -f 2000; exec \"$@\"", "sh", FABTOP, "record"])
        .arg(&file)
        .args(AN_HOUR)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the file may not grow further (EFBIG)"),
        "{said}"
    );
    let read = Command::new(FABTOP)
        .args(["report", "nodes", "--from"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(read.status.success() && read.stderr.is_empty());
}
