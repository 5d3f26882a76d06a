//! An ibsim of our own with opensm in it, and programs run inside.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub const NET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/small.net");
/// Where programs are attached, unless said otherwise.
pub const HOST: &str = "host a";

const PATIENCE: Duration = Duration::from_secs(60);

/// The shim that stands in for the kernel, if it is installed.
pub fn shim() -> Option<PathBuf> {
    let of_arch = std::fs::read_dir("/usr/lib").ok()?;
    of_arch
        .filter_map(|d| Some(d.ok()?.path().join("umad2sim/libumad2sim.so")))
        .find(|p| p.exists())
}

/// A program in PATH or in the administrator's directories.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(name))
        .find(|p| p.exists())
}

pub struct Fabric {
    dir: TempDir,
    socket: String,
    sim: Child,
    sm: Option<Child>,
}

impl Fabric {
    /// Starts ibsim, without a subnet manager.
    pub fn bare() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = TempDir::new().unwrap();
        let socket = format!("umad{}.{n}", std::process::id());
        // Its console stays open: at the end of input it would spin.
        let sim = Command::new(program("ibsim").unwrap())
            .args(["-s", NET])
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let fabric = Self {
            dir,
            socket,
            sim,
            sm: None,
        };
        until(|| {
            let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
            sockets.contains(&fabric.socket)
        });
        fabric
    }

    /// Starts ibsim and opensm, and waits until the subnet is up.
    pub fn managed() -> Self {
        let mut fabric = Self::bare();
        let log = fabric.dir.path().join("sm.log");
        let command = &mut fabric.command(Library::C, "opensm");
        // -d2 writes the log as it comes.
        fabric.sm = Some(command.args(["-d2", "-f"]).arg(&log).spawn().unwrap());
        until(|| std::fs::read_to_string(&log).is_ok_and(|t| t.contains("SUBNET UP")));
        fabric
    }

    /// A program in a directory of its own, on the C library or on ours.
    pub fn command(&self, library: Library, name: impl AsRef<OsStr>) -> Command {
        let name = name.as_ref();
        let path = program(&name.to_string_lossy()).unwrap_or_else(|| name.into());
        let mut command = Command::new(path);
        let dir = TempDir::new_in(self.dir.path()).unwrap().keep();
        let shim = shim().unwrap();
        let mut preload = shim.into_os_string();
        if let Library::Ours(ours) = library {
            let mut both = ours.as_os_str().to_owned();
            both.push(" ");
            both.push(&preload);
            preload = both;
        }
        command
            .current_dir(&dir)
            .env("LD_PRELOAD", preload)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("SIM_HOST", HOST)
            .env("OSM_TMP_DIR", &dir)
            .env("OSM_CACHE_DIR", &dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        for child in self.sm.iter_mut().chain([&mut self.sim]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[derive(Clone, Copy)]
pub enum Library<'a> {
    C,
    Ours(&'a Path),
}

/// Runs a command to its end, which comes in time.
pub fn finish(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE).is_err() {
            // SAFETY: our own child, which has not been waited for yet.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
            return true;
        }
        false
    });
    let out = child.wait_with_output().unwrap();
    let _ = done.send(());
    assert!(!watch.join().unwrap(), "hangs: {shown}");
    out
}

/// Waits for a condition.
pub fn until(mut what: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}
