//! The real kernel: boots one in qemu with two soft-RoCE ports (see `run` beside this file) and
//! runs this same program inside, once; each case there is a test here.
//!
//! Where qemu or another program is missing the cases are listed as ignored, with the reason;
//! with FABTOP_REQUIRE_FOREIGN=1 they fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may fail, and the guest reports over its console"
)]

mod cases;

use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Trial};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/run");

/// What one boot said: the console's text.
fn boot(console: &OnceLock<String>) -> &str {
    console.get_or_init(|| {
        let me = std::env::current_exe().expect("own path");
        let out = Command::new(SCRIPT)
            .arg(me)
            .arg("--in-guest")
            .output()
            .expect("the script starts");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        if std::env::var_os("UMAD_KERNEL_LOG").is_some() {
            println!("{text}");
        }
        format!("{text}\n{}", String::from_utf8_lossy(&out.stderr))
    })
}

fn outcome(name: &str, console: &str) -> Result<(), String> {
    let wanted = format!("CASE {name} ");
    let line = console.lines().find_map(|l| l.strip_prefix(&wanted));
    match line {
        Some("ok") => Ok(()),
        Some(other) => Err(other.to_owned()),
        None => Err(format!("the guest did not get there:\n{console}")),
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--in-guest") {
        return cases::run();
    }
    let args = Arguments::from_args();
    let missing = Command::new(SCRIPT).arg("--missing").output();
    let missing = match missing {
        Ok(out) => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        Err(e) => e.to_string(),
    };
    let required = std::env::var_os("FABTOP_REQUIRE_FOREIGN").is_some_and(|v| v == "1");
    let ignored = !missing.is_empty() && !required;
    let console = Arc::new(OnceLock::new());
    let trials = cases::ALL.iter().map(|&(name, _)| {
        let console = Arc::clone(&console);
        let missing = missing.clone();
        let kind = if ignored {
            format!("missing: {missing}")
        } else {
            "kernel".to_owned()
        };
        Trial::test(name, move || {
            if !missing.is_empty() {
                return Err(format!("missing: {missing}").into());
            }
            outcome(name, boot(&console)).map_err(Into::into)
        })
        .with_kind(kind)
        .with_ignored_flag(ignored)
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}
