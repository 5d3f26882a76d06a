//! Tests that need programs of others. Where one is missing the test is listed as ignored with
//! the reason; with `FABTOP_REQUIRE_FOREIGN=1` it fails instead.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Something that must be installed.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// A program, and the Debian package that has it.
    Program(&'static str, &'static str),
    /// The preloadable library that gives a process ibsim's fabric as a umad device.
    Shim,
}

/// ibsim itself.
pub const IBSIM: Need = Need::Program("ibsim", "ibsim-utils");
/// The subnet manager.
pub const OPENSM: Need = Need::Program("opensm", "opensm");
/// `perfquery`, `smpquery`, `ibnetdiscover` and others come together.
pub const DIAGS: Need = Need::Program("smpquery", "infiniband-diags");

impl Need {
    /// Why it is not there, `None` if it is.
    pub fn missing(self) -> Option<String> {
        match self {
            Need::Program(name, package) => find_program(name)
                .is_none()
                .then(|| format!("{name} is missing (package {package})")),
            Need::Shim => find_shim()
                .is_none()
                .then(|| "libumad2sim.so is missing (package libumad2sim0)".to_owned()),
        }
    }
}

/// The path of a program, looked for where Debian puts any.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// The path of ibsim's preloadable library.
pub fn find_shim() -> Option<PathBuf> {
    let lib = |dir: &Path| {
        let file = dir.join("umad2sim/libumad2sim.so");
        file.is_file().then_some(file)
    };
    ["/usr/lib", "/usr/lib64", "/usr/local/lib"]
        .into_iter()
        .find_map(|top| {
            let top = Path::new(top);
            lib(top).or_else(|| {
                let dirs = std::fs::read_dir(top).ok()?;
                dirs.flatten().find_map(|dir| lib(&dir.path()))
            })
        })
}

/// A test that needs `needs`.
pub fn trial(name: &str, needs: &[Need], test: fn()) -> Trial {
    let missing: Vec<String> = needs.iter().filter_map(|n| n.missing()).collect();
    let missing = (!missing.is_empty()).then(|| missing.join(", "));
    trial_unless(missing, name, test)
}

/// A test that cannot run for the reason given, if there is one.
pub fn trial_unless(
    missing: Option<String>,
    name: &str,
    test: impl FnOnce() + Send + 'static,
) -> Trial {
    let Some(why) = missing else {
        return Trial::test(name, move || run(test));
    };
    let required = env::var_os("FABTOP_REQUIRE_FOREIGN").is_some_and(|v| v == "1");
    let fails = format!("FABTOP_REQUIRE_FOREIGN=1, but {why}");
    Trial::test(name, move || Err(Failed::from(fails)))
        .with_kind(why)
        .with_ignored_flag(!required)
}

fn run(test: impl FnOnce()) -> Result<(), Failed> {
    catch_unwind(AssertUnwindSafe(test)).map_err(|cause| {
        let text = cause
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| cause.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Failed::from(text.unwrap_or_else(|| "panicked".to_owned()))
    })
}

/// Runs the tests as `cargo test` expects. A simulated fabric is some processes, so only a few
/// tests run at once unless told otherwise.
pub fn main(trials: Vec<Trial>) -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads = args.test_threads.or(Some(3));
    libtest_mimic::run(&args, trials).exit_code()
}
