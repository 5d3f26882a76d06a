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

#[path = "../common/capi.rs"]
mod capi;
mod cases;

use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use capi::compile;
use libtest_mimic::{Arguments, Trial};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/run");

const LIBRARY: &str = "libibumad.so.3";

/// The case that needs a C compiler and the C header.
const C_FACE: &str = "c_face";

fn has_c() -> bool {
    let compiles = Command::new("cc")
        .args(["-fsyntax-only", "-include", "infiniband/umad.h"])
        .args(["-x", "c", "/dev/null"])
        .output();
    compiles.is_ok_and(|out| out.status.success())
}

/// What one boot said: the console's text.
fn boot(console: &OnceLock<String>) -> &str {
    console.get_or_init(|| {
        let me = std::env::current_exe().expect("own path");
        let mut script = Command::new(SCRIPT);
        if has_c() {
            let library = capi::drop_in();
            let program = compile("kernel/c_face.c", &[library.join(LIBRARY).as_os_str()]);
            script.arg("--add").arg(program);
            script.env("LD_LIBRARY_PATH", library);
        }
        let out = script
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
    if std::env::args().nth(1).as_deref() == Some("--open-port") {
        return cases::open_port();
    }
    let args = Arguments::from_args();
    let missing = Command::new(SCRIPT).arg("--missing").output();
    let missing = match missing {
        Ok(out) => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        Err(e) => e.to_string(),
    };
    let required = std::env::var_os("FABTOP_REQUIRE_FOREIGN").is_some_and(|v| v == "1");
    let console = Arc::new(OnceLock::new());
    let trials = cases::ALL.iter().map(|&(name, _)| {
        let console = Arc::clone(&console);
        let mut missing = missing.clone();
        if name == C_FACE && !has_c() {
            missing.push_str(" cc infiniband/umad.h");
        }
        let ignored = !missing.is_empty() && !required;
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
