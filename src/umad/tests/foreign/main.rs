//! Foreign programs on our library, and our library in a foreign simulator.
//!
//! The clients of libibumad (infiniband-diags, opensm) run under ibsim on the C library and on
//! this package's C face, preloaded: their outputs have to be equal. A small C program does the
//! same with what they do not call; another one tests the versioned drop-in library. Our own
//! cases run in a process inside the simulator.
//!
//! What is missing here is listed as ignored, with the reason; with FABTOP_REQUIRE_FOREIGN=1 it
//! fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

#[path = "../common/capi.rs"]
mod capi;
mod fabric;
mod sim_cases;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::{Arc, OnceLock};

use capi::{built, compile, drop_in};
use fabric::{Fabric, Library, finish, program, shim};
use libtest_mimic::{Arguments, Failed, Trial};

fn ours() -> PathBuf {
    built().join("libumad.so")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines that may differ between two runs on the same library: process numbers, times, what
/// counts by itself.
fn stable(output: &Output) -> Vec<String> {
    let lines = format!(
        "status {:?}\n{}{}",
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr)
    );
    lines
        .lines()
        .filter(|l| !l.contains("sim_connect: attached"))
        .map(|line| {
            if line.starts_with("# Topology file: generated") {
                return "# Topology file".to_owned();
            }
            // Moved by every MAD, the query's own too.
            for counter in ["XmitData", "RcvData", "XmitPkts", "RcvPkts"] {
                if line.contains(counter) {
                    return counter.to_owned();
                }
            }
            let line = strip_number(line, "ibwarn: [");
            strip_number(&line, "activity count ")
        })
        .collect()
}

fn strip_number(line: &str, before: &str) -> String {
    match line.find(before) {
        Some(at) => {
            let (head, tail) = line.split_at(at + before.len());
            let tail = tail.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{head}N{tail}")
        }
        None => line.to_owned(),
    }
}

/// Equal, and not empty: (what the C library gave, what ours gave).
fn same(c: &[String], ours: &[String], least: usize) -> Result<(), Failed> {
    if c.len() < least {
        return Err(format!("only {} lines: {c:?}", c.len()).into());
    }
    let differing = c.iter().zip(ours).find(|(a, b)| a != b);
    match differing {
        Some((a, b)) => Err(format!("C library: {a}\nours:      {b}").into()),
        None if c.len() != ours.len() => {
            let (a, b) = (c.len(), ours.len());
            Err(format!("{a} lines of the C library, {b} of ours: {ours:?}").into())
        }
        None => Ok(()),
    }
}

/// A client, its arguments, and how many lines it prints at least. Tables of more than one
/// record are beyond ibsim, which has no RMPP: what is asked for is single records.
const CLIENTS: &[(&str, &[&str], usize)] = &[
    ("ibstat", &[], 15),
    ("ibstat", &["-l"], 2),
    ("ibstat", &["-p"], 2),
    ("ibstat", &["ibsim0", "1"], 10),
    ("ibnetdiscover", &[], 40),
    ("ibnetdiscover", &["-p"], 8),
    ("perfquery", &[], 15),
    ("perfquery", &["2", "1"], 15),
    ("perfquery", &["-x", "3", "5"], 10),
    ("perfquery", &["-G", "0x10003", "1"], 15),
    ("saquery", &[], 10),
    ("saquery", &["3"], 10),
    ("saquery", &["--src-to-dst", "1:3"], 8),
    ("saquery", &["-c"], 8),
    ("saquery", &["-s"], 8),
    ("smpquery", &["nodeinfo", "1"], 12),
    ("smpquery", &["-D", "nodeinfo", "0,1,5,2"], 12),
    ("smpquery", &["portinfo", "3", "1"], 30),
    ("smpquery", &["nodedesc", "4"], 2),
    ("smpquery", &["switchinfo", "2"], 10),
    ("smpquery", &["pkeys", "1", "1"], 3),
    // Nothing is plugged in there: fails with a timeout.
    ("smpquery", &["-D", "nodeinfo", "0,1,3"], 2),
    ("sminfo", &[], 2),
    ("sminfo", &["1"], 2),
];

/// What ends up in the records' last bytes is whatever was in the shim's memory.
fn without_tail(name: &str, mut lines: Vec<String>) -> Vec<String> {
    if name == "saquery" {
        lines.retain(|l| {
            !["dlid..", "slid..", "tclass.."]
                .iter()
                .any(|f| l.contains(f))
        });
    }
    lines
}

fn client(fabric: &Fabric, name: &str, args: &[&str], least: usize) -> Result<(), Failed> {
    let ours = ours();
    let run = |library| {
        let output = finish(fabric.command(library, name).args(args));
        without_tail(name, stable(&output))
    };
    let c = run(Library::C);
    same(&c, &run(Library::Ours(&ours)), least)
}

/// opensm brings the same subnet up: the same LIDs, routes and neighbours, on a fresh fabric
/// each.
fn opensm() -> Result<(), Failed> {
    let ours = ours();
    let run = |library| {
        let fabric = Fabric::bare();
        let mut command = fabric.command(library, "opensm");
        command.args(["-o", "-D", "0x43", "-f", "log"]);
        let dir = command.get_current_dir().unwrap().to_owned();
        let output = finish(&mut command);
        let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        let mut lines = vec![
            format!("status {:?}", output.status.code()),
            format!("up: {}", log.contains("SUBNET UP")),
            format!("errors: {}", log.matches(" ERR ").count()),
        ];
        // Written when the subnet is up: what opensm learned, and what it set.
        for file in [
            "opensm-subnet.lst",
            "opensm-lfts.dump",
            "guid2lid",
            "neighbors",
        ] {
            let dump = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
            lines.extend(dump.lines().map(str::to_owned));
        }
        lines
    };
    let c = run(Library::C);
    if c[..3] != ["status Some(0)", "up: true", "errors: 0"] {
        return Err(format!("{:?}", &c[..3]).into());
    }
    same(&c, &run(Library::Ours(&ours)), 40)
}

/// Everything else that the C header declares.
fn contract(fabric: &Fabric) -> Result<(), Failed> {
    let program = compile("foreign/contract.c", &["-libumad".as_ref()]);
    let ours = ours();
    let run = |library| stable(&finish(&mut fabric.command(library, &program)));
    let c = run(Library::C);
    same(&c, &run(Library::Ours(&ours)), 1500)
}

/// The versions that the distribution's library lacks, and that a program which asks for
/// versioned symbols runs on the drop-in library, shim and all.
fn versions(fabric: &Fabric) -> Result<(), Failed> {
    let dir = drop_in();
    let library = dir.join("libibumad.so.3");
    let program = compile(
        "foreign/versions.c",
        &[library.as_os_str(), "-ldl".as_ref()],
    );
    let mut command = fabric.command(Library::C, &program);
    let output = finish(command.env("LD_LIBRARY_PATH", dir));
    let got = text(&output.stdout);
    // One device that is both sides; ENODEV is 19. A port given by number is looked at, on a
    // device with one port that one is used.
    let want = "open_smi_port 1\n\
        pairs 1 smi 'ibsim0' 0 gsi 'ibsim0' 0\n\
        pairs 1 smi '' 0 gsi '' 0\n\
        pairs 1 smi '' 0 gsi '' 0\n\
        by name 0 smi 'ibsim0' 1 gsi 'ibsim0' 1\n\
        any 0 smi 'ibsim0' 1 gsi 'ibsim0' 1\n\
        nowhere -19 smi '' 0 gsi '' 0\n\
        port 9 -19 smi '' 0 gsi '' 0\n\
        null -1\n\
        grh_net 1 1\n\
        umad_open_port@IBUMAD_1.0 yes\n\
        umad_get_ca_device_list@IBUMAD_1.1 yes\n\
        umad_sort_ca_device_list@IBUMAD_1.2 yes\n\
        umad_open_smi_port@IBUMAD_1.3 yes\n\
        umad_get_smi_gsi_pairs@IBUMAD_1.4 yes\n\
        umad_get_smi_gsi_pair_by_ca_name@IBUMAD_1.4 yes\n\
        umad_open_smi_port@IBUMAD_1.0 no\n";
    if got != want {
        return Err(format!("{got}\n{}", text(&output.stderr)).into());
    }
    let mut command = fabric.command(Library::C, "ibnetdiscover");
    let on_ours = stable(&finish(command.env("LD_LIBRARY_PATH", dir)));
    let on_c = stable(&finish(&mut fabric.command(Library::C, "ibnetdiscover")));
    same(&on_c, &on_ours, 40)
}

/// Symbols of a library, as `nm` shows them with their versions.
fn symbols(library: &Path) -> Vec<String> {
    let out = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .unwrap();
    let out = text(&out.stdout);
    let names = out.lines().filter_map(|l| l.split_whitespace().nth(2));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.retain(|n| n.contains("umad_"));
    names.sort();
    names
}

/// All 42 symbols of today's library with their versions: the 39 of the distribution's library
/// as that one has them, and those of 1.3 and 1.4.
fn exported() -> Result<(), Failed> {
    let shim = shim().unwrap();
    let system = shim.parent().unwrap().parent().unwrap();
    let theirs = symbols(&system.join("libibumad.so.3"));
    let mine = symbols(&drop_in().join("libibumad.so.3"));
    if let Some(lacking) = theirs.iter().find(|s| !mine.contains(s)) {
        return Err(format!("{lacking} is missing").into());
    }
    let mut more: Vec<&str> = mine.iter().map(String::as_str).collect();
    more.retain(|s| !s.ends_with("@IBUMAD_1.0"));
    let want = [
        "umad_free_ca_device_list@@IBUMAD_1.1",
        "umad_get_ca_device_list@@IBUMAD_1.1",
        "umad_get_smi_gsi_pair_by_ca_name@@IBUMAD_1.4",
        "umad_get_smi_gsi_pairs@@IBUMAD_1.4",
        "umad_open_smi_port@@IBUMAD_1.3",
        "umad_set_grh_net@@UMAD_EXTRA",
        "umad_sort_ca_device_list@@IBUMAD_1.2",
    ];
    if more != want || mine.len() != 43 {
        return Err(format!("{} symbols, beyond 1.0: {more:?}", mine.len()).into());
    }
    // The preloaded one has the same names, without versions.
    let names = mine.iter().filter_map(|s| s.split('@').next());
    let mut unversioned: Vec<&str> = names.collect();
    unversioned.sort_unstable();
    if symbols(&ours()) != unversioned {
        return Err("the preloadable library has other symbols".into());
    }
    Ok(())
}

fn in_simulator(fabric: &Fabric, case: &str) -> Result<(), Failed> {
    let me = std::env::current_exe().unwrap();
    let mut command = fabric.command(Library::C, me);
    let output = finish(command.args(["--in-simulator", case]));
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{:?}: {}", output.status, text(&output.stderr)).into())
}

type Test = Box<dyn FnOnce() -> Result<(), Failed> + Send>;
type OnFabric = Box<dyn FnOnce(&Fabric) -> Result<(), Failed> + Send>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--in-simulator") {
        return sim_cases::run(&args.next().unwrap_or_default());
    }
    let args = Arguments::from_args();
    let required = std::env::var_os("FABTOP_REQUIRE_FOREIGN").is_some_and(|v| v == "1");
    let trial = |name: String, needs: &[&str], test: Test| {
        let mut missing: Vec<&str> = needs.to_vec();
        missing.retain(|p| program(p).is_none());
        if shim().is_none() {
            missing.push("libumad2sim0");
        }
        let missing = missing.join(", ");
        let absent = !missing.is_empty();
        let kind = if absent {
            format!("missing: {missing}")
        } else {
            "foreign".to_owned()
        };
        Trial::test(name, move || match absent {
            true => Err(format!("missing: {missing}").into()),
            false => test(),
        })
        .with_kind(kind)
        .with_ignored_flag(absent && !required)
    };
    // One fabric for all that leaves it as it is. ibsim serves ten programs at a time.
    let shared: Arc<OnceLock<Fabric>> = Arc::default();
    let with = |test: OnFabric| {
        let shared = Arc::clone(&shared);
        Box::new(move || test(shared.get_or_init(Fabric::managed))) as Test
    };
    let base = ["ibsim", "opensm"];
    let mut trials = Vec::new();
    for &(name, args, least) in CLIENTS {
        let title = format!("{name} {}", args.join(" ")).trim().to_owned();
        let test = with(Box::new(move |f| client(f, name, args, least)));
        trials.push(trial(title, &[base[0], base[1], name], test));
    }
    trials.push(trial("opensm".into(), &base, Box::new(opensm)));
    let needs = [base[0], base[1], "cc"];
    let test = with(Box::new(contract));
    trials.push(trial("contract".into(), &needs, test));
    let needs = [base[0], base[1], "cc", "ibnetdiscover"];
    let test = with(Box::new(versions));
    trials.push(trial("symbol_versions".into(), &needs, test));
    trials.push(trial(
        "exported_symbols".into(),
        &["cc", "nm"],
        Box::new(exported),
    ));
    for &(name, _) in sim_cases::ALL {
        let test = with(Box::new(move |f| in_simulator(f, name)));
        trials.push(trial(name.into(), &base, test));
    }
    let mut args = args;
    // More would not fit into one ibsim, together with opensm.
    args.test_threads = Some(args.test_threads.unwrap_or(2).min(4));
    let conclusion = libtest_mimic::run(&args, trials);
    if let Some(lock) = Arc::into_inner(shared) {
        drop(lock.into_inner());
    }
    conclusion.exit_code()
}
