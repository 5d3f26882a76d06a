//! A pseudo-terminal with a console in it.

pub mod child;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

/// How long a condition is waited for. Far above what it takes: a limit, not a measurement.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a condition outside this process is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What kind of console is run.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Plain,
    Quiet,
    PanicInWorker,
    PanicInLoop,
    EngineEnds,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::Plain => "plain",
            How::Quiet => "quiet",
            How::PanicInWorker => "panic-worker",
            How::PanicInLoop => "panic-loop",
            How::EngineEnds => "engine-ends",
        }
    }
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    ended: bool,
    held: bool,
}

/// A console in a pseudo-terminal.
pub struct Console {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    before: String,
    dir: tempfile::TempDir,
}

/// How a console ended.
pub struct End {
    code: u32,
    stderr: String,
    bytes: Vec<u8>,
    screen: vt100::Screen,
    before: String,
    after: String,
}

fn size(cols: u16, rows: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

fn command(script: &str, how: &str, dir: &std::path::Path) -> CommandBuilder {
    let mut command = CommandBuilder::new("sh");
    command.args([
        "-c",
        script,
        std::env::current_exe().unwrap().to_str().unwrap(),
        how,
    ]);
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    command.env_remove("LC_ALL");
    command.env_remove("NO_COLOR");
    command.env("RUST_BACKTRACE", "0");
    command.env("SCRATCH", dir);
    command
}

impl Console {
    pub fn start(how: How, cols: u16, rows: u16) -> Console {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"exec "$0" --console "$1" 2>"$SCRATCH/stderr""#;
        let command = command(script, how.name(), dir.path());
        Console::spawn(command, dir, cols, rows)
    }

    /// The program itself with these arguments.
    #[allow(dead_code)] // not every test that shares this file starts it
    pub fn program(args: &[&str], cols: u16, rows: u16) -> Console {
        Console::program_in(&[], args, cols, rows)
    }

    /// The program itself, run by another one.
    #[allow(dead_code)] // as above
    pub fn program_in(by: &[&str], args: &[&str], cols: u16, rows: u16) -> Console {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"shift; exec "$@" 2>"$SCRATCH/stderr""#;
        let mut command = command(script, "", dir.path());
        command.env("TZ", "UTC");
        command.args(by);
        command.arg(env!("CARGO_BIN_EXE_fabtop"));
        command.args(args);
        Console::spawn(command, dir, cols, rows)
    }

    fn spawn(command: CommandBuilder, dir: tempfile::TempDir, cols: u16, rows: u16) -> Console {
        let pair = native_pty_system().openpty(size(cols, rows)).unwrap();
        let before = format!("{:?}", pair.master.get_termios().unwrap());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let seen = Arc::new((
            Mutex::new(Seen {
                parser: vt100::Parser::new(rows, cols, 0),
                bytes: Vec::new(),
                ended: false,
                held: false,
            }),
            Condvar::new(),
        ));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buf = [0; 4096];
            loop {
                let n = reader.read(&mut buf).unwrap_or(0);
                let (lock, changed) = &*shared;
                let mut seen = lock.lock().unwrap();
                seen.parser.process(&buf[..n]);
                seen.bytes.extend_from_slice(&buf[..n]);
                seen.ended |= n == 0;
                changed.notify_all();
                if n == 0 {
                    return;
                }
                while seen.held {
                    seen = changed.wait(seen).unwrap();
                }
            }
        });
        Console {
            writer: pair.master.take_writer().unwrap(),
            master: pair.master,
            child,
            seen,
            before,
            dir,
        }
    }

    fn until(&self, what: &str, done: impl Fn(&Seen) -> bool) {
        let (lock, changed) = &*self.seen;
        let seen = lock.lock().unwrap();
        let (seen, waited) = changed
            .wait_timeout_while(seen, PATIENCE, |s| !done(s))
            .unwrap();
        assert!(
            !waited.timed_out(),
            "waited in vain for {what}; the screen shows\n{}\nand standard error\n{}",
            seen.parser.screen().contents(),
            std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default(),
        );
    }

    /// Waits until the screen shows `text`.
    pub fn wait_for(&self, text: &str) {
        self.until(text, |s| s.parser.screen().contents().contains(text));
    }

    /// Waits until the screen was drawn anew and shows `text`.
    pub fn wait_for_new(&self, text: &str) {
        let entered = |bytes: &[u8]| bytes.windows(8).filter(|w| w == b"\x1b[?1049h").count();
        self.until("a new screen", |s| entered(&s.bytes) >= 2);
        self.wait_for(text);
    }

    pub fn keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// What the screen shows now.
    #[allow(dead_code)] // as above
    pub fn screen(&self) -> String {
        self.seen.0.lock().unwrap().parser.screen().contents()
    }

    pub fn resize(&mut self, cols: u16, rows: u16) {
        // A terminal emulator cannot have no cell at all; the console's own is told the truth.
        let (lock, _) = &*self.seen;
        let mut seen = lock.lock().unwrap();
        seen.parser.screen_mut().set_size(rows.max(1), cols.max(1));
        drop(seen);
        self.master.resize(size(cols, rows)).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.process_id().unwrap()).unwrap()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn written(&self) -> usize {
        self.seen.0.lock().unwrap().bytes.len()
    }

    /// Waits until the console looked at its clock `n` times more.
    pub fn wait_for_ticks(&self, n: usize) {
        let ticks = || std::fs::metadata(self.dir.path().join("ticks")).map_or(0, |m| m.len());
        let from = ticks();
        let begin = Instant::now();
        while ticks() < from + n as u64 {
            assert!(begin.elapsed() < PATIENCE, "the console draws nothing");
            std::thread::sleep(LOOK);
        }
    }

    /// Reads no more of what the console writes.
    pub fn stop_reading(&self) {
        self.seen.0.lock().unwrap().held = true;
    }

    fn resume_reading(&self) {
        let (lock, changed) = &*self.seen;
        lock.lock().unwrap().held = false;
        changed.notify_all();
    }

    pub fn wait_until_stopped(&self) {
        let stat = format!("/proc/{}/stat", self.pid().as_raw_nonzero());
        let begin = Instant::now();
        loop {
            let text = std::fs::read_to_string(&stat).unwrap();
            // The state comes after the name in parentheses.
            if text
                .rsplit(')')
                .next()
                .unwrap()
                .trim_start()
                .starts_with('T')
            {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "not stopped: {text}");
            std::thread::sleep(LOOK);
        }
    }

    fn termios(&self) -> String {
        format!("{:?}", self.master.get_termios().unwrap())
    }

    pub fn expect_restored_now(&self) -> Result<(), Failed> {
        self.until("the main screen", |s| !s.parser.screen().alternate_screen());
        same(&self.before, &self.termios())
    }

    pub fn expect_raw_now(&self) -> Result<(), Failed> {
        match self.termios() == self.before {
            true => Err("the terminal is not raw".into()),
            false => Ok(()),
        }
    }

    /// Waits for the end of the program, not of what it wrote.
    pub fn wait_for_exit(&mut self) -> u32 {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for the end.
    pub fn wait(mut self) -> End {
        let code = self.wait_for_exit();
        self.resume_reading();
        self.until("the last byte", |s| s.ended);
        let after = self.termios();
        let seen = self.seen.0.lock().unwrap();
        End {
            code,
            stderr: std::fs::read_to_string(self.dir.path().join("stderr")).unwrap(),
            bytes: seen.bytes.clone(),
            screen: seen.parser.screen().clone(),
            before: self.before.clone(),
            after,
        }
    }
}

fn same(before: &str, after: &str) -> Result<(), Failed> {
    match before == after {
        true => Ok(()),
        false => Err(format!("terminal settings before:\n{before}\nafter:\n{after}").into()),
    }
}

impl End {
    pub fn expect_code(&self, code: u32) -> Result<(), Failed> {
        match self.code == code {
            true => Ok(()),
            false => Err(format!(
                "exit code {} instead of {code}; standard error:\n{}",
                self.code, self.stderr
            )
            .into()),
        }
    }

    pub fn expect_restored(&self) -> Result<(), Failed> {
        same(&self.before, &self.after)?;
        let s = &self.screen;
        if s.alternate_screen() || s.hide_cursor() || s.bracketed_paste() {
            return Err("the screen was not given back".into());
        }
        Ok(())
    }

    pub fn expect_stderr(&self, text: &str) -> Result<(), Failed> {
        match self.stderr == text {
            true => Ok(()),
            false => Err(format!("standard error: {:?}", self.stderr).into()),
        }
    }

    pub fn expect_in_stderr(&self, text: &str) -> Result<(), Failed> {
        match self.stderr.contains(text) {
            true => Ok(()),
            false => Err(format!("standard error: {:?}", self.stderr).into()),
        }
    }

    pub fn wrote(&self, what: &[u8]) -> bool {
        self.count(what) > 0
    }

    pub fn count(&self, what: &[u8]) -> usize {
        self.bytes
            .windows(what.len())
            .filter(|w| *w == what)
            .count()
    }
}

/// A console whose terminal can die: the terminal belongs to a process that can be killed.
pub struct Mortal {
    host: std::process::Child,
    dir: tempfile::TempDir,
}

impl Mortal {
    pub fn start() -> Mortal {
        let dir = tempfile::tempdir().unwrap();
        let host = Command::new(std::env::current_exe().unwrap())
            .arg("--host")
            .env("SCRATCH", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Mortal { host, dir }
    }

    /// Waits until the console is up.
    pub fn wait_until_up(&mut self) {
        let mut byte = [0];
        self.host
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut byte)
            .unwrap();
    }

    /// Kills the terminal; returns the console's exit code and standard error.
    pub fn kill(mut self) -> (String, String) {
        self.host.kill().unwrap();
        self.host.wait().unwrap();
        let code = self.dir.path().join("code");
        let begin = Instant::now();
        while !code.exists() {
            assert!(begin.elapsed() < PATIENCE, "it outlives its terminal");
            std::thread::sleep(LOOK);
        }
        let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        (text(code), text(self.dir.path().join("stderr")))
    }
}

/// The terminal of a [`Mortal`]: opens it, runs the console in it, says when it is up, waits to
/// be killed. The session's leader ignores SIGHUP and so alone keeps it from the console.
pub fn host() -> ! {
    let dir = PathBuf::from(std::env::var_os("SCRATCH").unwrap());
    let pair = native_pty_system().openpty(size(80, 24)).unwrap();
    let script = r#"trap "" HUP
"$0" --console "$1" 2>"$SCRATCH/stderr"
echo $? >"$SCRATCH/code.part"; mv "$SCRATCH/code.part" "$SCRATCH/code""#;
    pair.slave
        .spawn_command(command(script, "plain", &dir))
        .unwrap();
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut parser = vt100::Parser::new(24, 80, 0);
    let mut buf = [0; 4096];
    let mut up = false;
    loop {
        let n = reader.read(&mut buf).unwrap();
        parser.process(&buf[..n]);
        if !up && parser.screen().contents().contains("Active") {
            up = true;
            std::io::stdout().write_all(b"u").unwrap();
            std::io::stdout().flush().unwrap();
        }
    }
}
