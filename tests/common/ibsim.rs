//! A fabric of ibsim's, with opensm as its subnet manager if wanted, that ends with the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fabtop::sim::ibsim::{IbsimPort, Server};
use tempfile::TempDir;

use super::foreign::{find_program, find_shim};

/// Beyond this a foreign program counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How to start a fabric.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Start opensm, at the net file's first node, and wait until the subnet is up.
    pub sm: bool,
}

/// A running ibsim and, if wanted, opensm.
pub struct IbsimFabric {
    dir: TempDir,
    server: Server,
    sim: Sim,
    sm: Option<Child>,
}

/// The server itself.
struct Sim {
    child: Child,
    stdin: ChildStdin,
    output: Arc<Text>,
}

/// What a program has printed so far.
#[derive(Default)]
struct Text {
    text: Mutex<String>,
    grew: Condvar,
}

impl Text {
    fn collect(self: &Arc<Self>, mut from: impl Read + Send + 'static) {
        let to = Arc::clone(self);
        thread::spawn(move || {
            let mut raw = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut raw) {
                let mut text = to.text.lock().unwrap();
                text.push_str(&String::from_utf8_lossy(&raw[..n]));
                to.grew.notify_all();
            }
        });
    }

    /// Waits until what was printed from `start` on holds a prompt; returns that part.
    fn until_prompt(&self, start: usize) -> Option<String> {
        let prompt = |text: &mut String| !text[start..].contains("> ");
        let text = self.text.lock().unwrap();
        let (text, out) = self
            .grew
            .wait_timeout_while(text, PATIENCE, prompt)
            .unwrap();
        (!out.timed_out()).then(|| text[start..].to_owned())
    }

    fn len(&self) -> usize {
        self.text.lock().unwrap().len()
    }
}

/// Waits until `done`, asking every 10 ms.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A command that is killed when the thread that started it ends, however it ends.
fn tied(program: &Path) -> Command {
    match find_program("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// A number that, with the ten that follow it, nobody uses at this moment.
fn free_udp_ports() -> u16 {
    for _ in 0..100 {
        let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = probe.local_addr().unwrap().port();
        let free = |p| UdpSocket::bind(("127.0.0.1", p)).is_ok();
        if port < 65_000 && (port + 1..=port + 10).all(free) {
            return port;
        }
    }
    panic!("no eleven UDP ports in a row are free");
}

impl Sim {
    fn start(dir: &Path, server: &Server) -> Sim {
        let mut command = tied(&find_program("ibsim").unwrap());
        command.args(["-s", "-N", "20000", "-S", "2000", "-P", "200000"]);
        match server {
            Server::Local { base } => command.env("IBSIM_SOCKNAME", base),
            Server::Remote { port, .. } => command.args(["-r", "-l", &port.to_string()]),
        };
        let errors = dir.join("ibsim.err");
        let mut child = command
            .arg(dir.join("fabric.net"))
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let output = Arc::new(Text::default());
        output.collect(child.stdout.take().unwrap());
        let stdin = child.stdin.take().unwrap();
        let up = output.until_prompt(0);
        let mut sim = Sim {
            child,
            stdin,
            output,
        };
        if up.is_none() {
            panic!("ibsim shows no prompt: {}", read_lossy(&errors));
        }
        // The first prompt comes before the sockets are bound, the answer to a command after.
        sim.console("#");
        sim
    }

    fn console(&mut self, line: &str) -> String {
        let start = self.output.len();
        writeln!(self.stdin, "{line}").unwrap();
        let text = self.output.until_prompt(start);
        text.unwrap_or_else(|| panic!("ibsim's console hangs after {line:?}"))
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lossy(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

impl IbsimFabric {
    /// Starts ibsim with this net file's text and waits until it, and opensm if wanted, is up.
    /// The first node of the text is opensm's and every client's default.
    pub fn start(net: &str, options: Options) -> IbsimFabric {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = format!("fabtop-test-{}-{number}", std::process::id());
        let mut fabric = IbsimFabric::start_at(net, Server::Local { base });
        if options.sm {
            fabric.start_sm();
        }
        fabric
    }

    /// Starts ibsim as a UDP server on this host.
    pub fn start_udp(net: &str) -> IbsimFabric {
        let host = "127.0.0.1".to_owned();
        IbsimFabric::start_at(
            net,
            Server::Remote {
                host,
                port: free_udp_ports(),
            },
        )
    }

    fn start_at(net: &str, server: Server) -> IbsimFabric {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("fabric.net"), net).unwrap();
        let sim = Sim::start(dir.path(), &server);
        IbsimFabric {
            dir,
            server,
            sim,
            sm: None,
        }
    }

    /// Starts ibsim again after [`IbsimFabric::kill`], with the same net file and name.
    pub fn restart(&mut self) {
        self.sim = Sim::start(self.dir.path(), &self.server);
    }

    /// The server's socket name.
    pub fn name(&self) -> &str {
        match &self.server {
            Server::Local { base } => base,
            Server::Remote { .. } => panic!("a UDP server has no socket name"),
        }
    }

    fn start_sm(&mut self) {
        let log = self.dir.path().join("osm.log");
        let out = File::create(self.dir.path().join("osm.out")).unwrap();
        let child = tied(&find_program("opensm").unwrap())
            .args(["-d2", "-f"])
            .arg(&log)
            .env("IBSIM_SOCKNAME", self.name())
            .env("LD_PRELOAD", find_shim().unwrap())
            .env("OSM_CACHE_DIR", self.dir.path())
            .env("OSM_TMP_DIR", self.dir.path())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        self.sm = Some(child);
        wait_for("opensm's SUBNET UP", || self.sweeps() > 0);
    }

    /// How often opensm has said that the subnet is up: once a sweep that changed something.
    pub fn sweeps(&self) -> usize {
        self.log("osm.log").matches("SUBNET UP").count()
    }

    fn log(&self, name: &str) -> String {
        read_lossy(&self.dir.path().join(name))
    }

    /// Types a line into ibsim's console; returns what it printed.
    pub fn console(&mut self, line: &str) -> String {
        assert!(line.len() < 127, "ibsim reads lines of up to 126 bytes");
        self.sim.console(line)
    }

    /// Where the server listens.
    pub fn server(&self) -> Server {
        self.server.clone()
    }

    /// A native client, attached at `node`.
    pub fn attach(&self, node: &str, issm: bool) -> IbsimPort {
        IbsimPort::attach_to(self.server(), Some(node), issm).unwrap()
    }

    /// A directory that lives as long as the fabric.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Ends ibsim at once, as a crash would.
    pub fn kill(&mut self) {
        self.sim.child.kill().unwrap();
        self.sim.child.wait().unwrap();
    }

    /// A command with the environment of a native client.
    pub fn native(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("IBSIM_SOCKNAME", self.name())
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// A command with the shim preloaded, attached at `node`.
    pub fn shimmed(&self, program: impl AsRef<std::ffi::OsStr>, node: &str) -> Command {
        let mut command = self.native(program);
        command
            .env("LD_PRELOAD", find_shim().unwrap())
            .env("SIM_HOST", node);
        command
    }

    /// Output of a foreign tool that runs at `node`.
    pub fn tool(&self, node: &str, program: &str, args: &[&str]) -> String {
        let output = self
            .shimmed(find_program(program).unwrap(), node)
            .args(args)
            .output()
            .unwrap();
        text_of(program, &output)
    }
}

/// What a program printed; it must have succeeded.
pub fn text_of(program: &str, output: &Output) -> String {
    assert!(
        output.status.success(),
        "{program}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The value of a line `Name:....value` as infiniband-diags print them.
pub fn dotted(text: &str, name: &str) -> String {
    let line = BufReader::new(text.as_bytes())
        .lines()
        .map_while(Result::ok)
        .find(|l| l.split(':').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in:\n{text}"));
    let (_, value) = line.split_once(':').unwrap();
    value.trim_start_matches('.').trim().to_owned()
}

#[allow(clippy::print_stderr, reason = "a failed test shows what there is")]
impl Drop for IbsimFabric {
    fn drop(&mut self) {
        if thread::panicking() {
            let state = self.sim.child.try_wait();
            let log = self.log("ibsim.err");
            eprintln!("ibsim ({state:?}, None if it runs) said: {log}");
        }
        // opensm first: without a server its shim would try for ever.
        if let Some(child) = &mut self.sm {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
