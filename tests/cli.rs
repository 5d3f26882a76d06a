//! The program as a script meets it: arguments, exit codes, and reports of a simulated session in
//! virtual time, which takes no wall time.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail by panicking

use std::fs;
use std::io::Read;
use std::process::{Command, Output, Stdio};

fn fabtop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabtop"));
    command
        .args(args)
        .env_remove("NODE_NAME_MAP")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    fabtop(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A mistake: exit code 2, one sentence that holds all of `says`, nothing on standard output.
fn mistake(args: &[&str], says: &[&str]) {
    let output = run(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    assert!(output.stdout.is_empty(), "{args:?} printed");
    for word in says {
        assert!(
            text.contains(word),
            "{args:?} does not say {word:?}: {text}"
        );
    }
}

const FAST: &[&str] = &["--sim", "--sim-time", "fast"];

fn fast<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().chain(FAST).copied().collect()
}

/// A file that is something else altogether gets ten lines and a count, not a screenful.
#[test]
fn a_wrong_file_is_not_complained_of_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wrong");
    std::fs::write(&file, "nonsense\n".repeat(400)).unwrap();
    let file = file.to_str().unwrap();
    for option in ["--thresholds", "--node-name-map"] {
        let out = run(&fast(&["report", "sweeps", option, file]));
        assert!(out.status.success());
        let text = stderr(&out);
        assert_eq!(text.lines().count(), 11, "{text}");
        assert!(text.contains("390 more lines"), "{text}");
    }
}

#[test]
fn mistakes_get_a_sentence_and_exit_code_2() {
    mistake(
        &["report", "ports", "--for", "banana", "--sim"],
        &["banana"],
    );
    mistake(
        &["report", "ports", "--for", "0s", "--sim"],
        &["--for", "1s"],
    );
    mistake(&["report", "portz"], &["portz", "ports"]);
    mistake(&["--interval", "1ms"], &["100ms"]);
    mistake(
        &["report", "ports", "--sim", "/nonexistent.net"],
        &["/nonexistent.net", "No such file"],
    );
    mistake(
        &["report", "ports", "--from", "/nonexistent.pcapng"],
        &["/nonexistent.pcapng"],
    );
    mistake(
        &[
            "report",
            "ports",
            "--node-name-map",
            "/nonexistent.map",
            "--sim",
        ],
        &["/nonexistent.map"],
    );
    mistake(&["report", "ports", "--sim-time", "fast"], &["--sim"]);
    mistake(
        &["report", "ports", "--sim", "--smp-in-flight", "200"],
        &["--smp-in-flight 200", "--gmp-in-flight 64", "256"],
    );
    mistake(
        &["report", "ports", "--format", "ibnetdiscover", "--sim"],
        &["topology"],
    );
}

#[test]
fn the_console_needs_a_terminal_and_says_what_to_use_instead() {
    let output = run(&["--sim"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("fabtop report"));
}

#[test]
fn without_a_device_the_cause_is_named_with_exit_code_1() {
    if std::path::Path::new("/sys/class/infiniband").exists() {
        return; // there may be a device here: the sentence is tested on a made-up tree too
    }
    let output = run(&["report", "nodes"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("InfiniBand"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn equal_seeds_give_equal_reports_and_every_port_has_its_row() {
    let args = fast(&["report", "ports", "--for", "30s", "--json", "--seed", "5"]);
    let (a, b) = (run(&args), run(&args));
    assert!(a.status.success(), "{}", stderr(&a));
    assert_eq!(stdout(&a), stdout(&b));
    let report: serde_json::Value = serde_json::from_str(&stdout(&a)).unwrap();
    // Enhanced switch ports 0 have rows too; the file does not list them.
    let ports = report["ports"].as_array().unwrap();
    let external = ports.iter().filter(|p| p["port"] != 0).count();
    // The built-in fabric's cables are listed in its file, one line a port end, and each of its
    // switches has as many external ports as its `Switch N` line says.
    let net = include_str!("../assets/fabrics/built-in.net");
    let expected: usize = net
        .lines()
        .filter_map(|l| {
            let mut words = l.split_whitespace();
            let kind = words.next()?;
            matches!(kind, "Switch" | "Hca" | "Ca")
                .then(|| words.next()?.parse::<usize>().ok())
                .flatten()
        })
        .sum();
    // The dead host is never met, so its one port is the only one without a row.
    assert_eq!(external, expected - 1);
}

#[test]
fn a_recorded_session_gives_the_same_reports_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["ports", "nodes", "timeouts", "topology"] {
        let file = dir.path().join(format!("{kind}.pcapng"));
        let file = file.to_str().unwrap();
        for json in [false, true] {
            let mut live = vec!["report", kind, "--for", "45s", "--record", file, "--force"];
            let mut replay = vec!["report", kind, "--from", file];
            if json && kind != "topology" {
                live.push("--json");
                replay.push("--json");
            }
            let live = run(&fast(&live));
            assert!(live.status.success(), "{}", stderr(&live));
            let replayed = run(&replay);
            assert!(replayed.status.success(), "{}", stderr(&replayed));
            assert!(live.stdout.len() > 500, "{kind} is nearly empty");
            assert_eq!(stdout(&live), stdout(&replayed), "{kind}, json {json}");
        }
    }
}

#[test]
fn a_path_tells_its_load_unless_it_is_asked_once() {
    let loads = |more: &[&str]| -> Vec<serde_json::Value> {
        let mut args = vec!["report", "path", "cn001", "cn030", "--json"];
        args.extend(more);
        let out = fabtop(&fast(&args)).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let hops = json["hops"].as_array().unwrap();
        let leave = hops.iter().filter(|h| !h["out"].is_null());
        leave.map(|h| h["tx_bits_per_s"].clone()).collect()
    };
    let known = loads(&[]);
    assert!(known.len() > 2, "{known:?}");
    assert!(known.iter().all(|load| load.is_number()), "{known:?}");
    let once = loads(&["--once"]);
    assert_eq!(once.len(), known.len());
    assert!(once.iter().all(|load| load.is_null()), "{once:?}");
}

#[test]
fn a_recorded_session_gives_the_same_paths_tables_sms_and_sa_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let subjects: [(&[&str], &str); 6] = [
        (&["path", "cn002", "leaf05"], "arrives, over 3 switches"),
        (&["routes", "leaf01"], "valid lids dumped"),
        (
            &["uses", "leaf01", "34"],
            "# reached by leaf01[34] (to spine02[1])",
        ),
        (&["sms"], "Standby"),
        (&["sa"], "PortInfoRecord"),
        (&["sa", "services"], "ServiceID 0x0100000000000002"),
    ];
    for (number, (words, says)) in subjects.into_iter().enumerate() {
        let file = dir.path().join(format!("{number}.pcapng.zst"));
        let file = file.to_str().unwrap();
        for json in [false, true] {
            let mut live = vec!["report"];
            live.extend(words);
            let mut replay = live.clone();
            live.extend(["--record", file, "--force"]);
            replay.extend(["--from", file]);
            if json {
                live.push("--json");
                replay.push("--json");
            }
            let live = run(&fast(&live));
            assert!(live.status.success(), "{}", stderr(&live));
            let text = stdout(&live);
            assert!(json || text.contains(says), "{words:?}: {text}");
            let replayed = run(&replay);
            assert!(replayed.status.success(), "{}", stderr(&replayed));
            assert_eq!(text, stdout(&replayed), "{words:?}, json {json}");
            if json {
                let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(parsed["simulated"], true);
            }
        }
    }
}

#[test]
fn a_subject_that_is_not_there_is_a_mistake_with_a_sentence() {
    for (words, says) in [
        (&["path", "cn001"][..], "say `fabtop report path FROM TO`"),
        (&["path", "cn001", "cn999"], "no node is called \"cn999\""),
        (&["path", "cn001", "mds1"], "has 2 ports: name one"),
        (&["path", "cn001", "cn002", "--path-bits", "1"], "LMC 0"),
        (&["routes"], "say `fabtop report routes SWITCH`"),
        (&["routes", "cn001"], "is no switch"),
        (&["uses", "leaf01"], "name a port of leaf01"),
        (&["uses", "leaf01", "99"], "leaf01 has no port 99"),
        (
            &["sa", "bananas"],
            "the SA has no table \"bananas\": name one of nodes",
        ),
        (&["nodes", "cn001"], "this report takes no name"),
        (
            &["sms", "--path-bits", "1"],
            "--path-bits belongs to `report path`",
        ),
    ] {
        let mut args = vec!["report"];
        args.extend(words);
        mistake(&fast(&args), &[says]);
    }
}

#[test]
fn a_recording_is_not_overwritten_unless_forced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kept.pcapng");
    fs::write(&path, b"precious").unwrap();
    let file = path.to_str().unwrap();
    mistake(
        &fast(&["report", "nodes", "--for", "1s", "--record", file]),
        &[file, "--force"],
    );
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = fabtop(&fast(&["report", "ports", "--for", "5s", "--json"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
    assert_eq!(text, "");
}

#[test]
fn bad_lines_of_a_topology_file_are_named_and_do_not_end_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("odd.net");
    fs::write(
        &path,
        "Hca 1 \"a\"\n[1] \"s\"[1]\n\nSwitch 2 \"s\"\n[1] \"a\"[1]\nbanana split\n",
    )
    .unwrap();
    let file = path.to_str().unwrap();
    let output = run(&[
        "report",
        "nodes",
        "--for",
        "2s",
        "--sim",
        file,
        "--sim-time",
        "fast",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("odd.net:6:"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("\na "));
}

#[test]
fn names_come_from_the_map_and_its_bad_lines_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let net = dir.path().join("two.net");
    fs::write(
        &net,
        "caguid=0x1\nHca 1 \"a\"\n[1] \"s\"[1]\n\nswitchguid=0x2\nSwitch 2 \"s\"\n[1] \"a\"[1]\n",
    )
    .unwrap();
    let map = dir.path().join("map");
    fs::write(&map, "0x2 \"core switch\"\nnonsense\n").unwrap();
    let output = run(&[
        "report",
        "nodes",
        "--for",
        "2s",
        "--sim",
        net.to_str().unwrap(),
        "--sim-time",
        "fast",
        "--node-name-map",
        map.to_str().unwrap(),
    ]);
    assert!(stderr(&output).contains("map:2:"), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("core switch"),
        "{}",
        stdout(&output)
    );
}

/// The simulated incident's alerts: which, where, and how a script tells.
#[test]
fn alerts_are_reported_with_exit_codes_for_scripts() {
    let args = fast(&["report", "alerts", "--for", "3min"]);
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("SymbolErrorCounter rose by"), "{text}");
    assert!(text.contains("suspect the cable or spine"), "{text}");
    assert!(
        text.contains("link flaps: LinkDownedCounter rose by"),
        "{text}"
    );
    assert!(text.contains("## Summary: "), "{text}");

    let coded: Vec<&str> = args.iter().copied().chain(["--exit-code"]).collect();
    let output = run(&coded);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), text);
    assert_eq!(stderr(&output), "");
    let quiet: Vec<&str> = coded.iter().copied().chain(["--suppress", "*"]).collect();
    let output = run(&quiet);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("## Summary: 0 alerts open"));
    // Trouble is told apart from alerts.
    let output = run(&["report", "alerts", "--exit-code", "--from", "/nonexistent"]);
    assert!(matches!(output.status.code(), Some(2 | 3)));

    let json: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let json: serde_json::Value = serde_json::from_str(&stdout(&run(&json))).unwrap();
    let alerts = json["alerts"].as_array().unwrap();
    let symbol = alerts
        .iter()
        .find(|a| a["alert"] == "SymbolErrorCounter")
        .unwrap();
    assert_eq!(symbol["state"], "open");
    assert!(symbol["suspect"].as_str().unwrap().starts_with("suspect"));
    assert!(!symbol["diagnosis"].as_array().unwrap().is_empty());
}

#[test]
fn thresholds_come_from_a_file_and_its_bad_lines_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("error_thresholds");
    fs::write(&file, "SymbolErrorCounter=1000000\nPortRcvErrors=many\n").unwrap();
    let path = file.to_str().unwrap();
    let args = fast(&["report", "alerts", "--for", "1min", "--thresholds", path]);
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0));
    let complaint = stderr(&output);
    assert!(complaint.contains(&format!("{path}:2: ")) && complaint.contains("many"));
    assert!(!stdout(&output).contains("SymbolErrorCounter rose"));
    // The bad line leaves the limits of that counter as they are.
    assert!(stdout(&output).contains("PortRcvErrors rose by"));

    mistake(
        &fast(&["report", "alerts", "--thresholds", "/nonexistent/file"]),
        &["/nonexistent/file", "No such file"],
    );
    mistake(
        &fast(&["report", "alerts", "--suppress", "NoSuchAlert"]),
        &["NoSuchAlert", "link_down"],
    );
    mistake(
        &["replay", "x.pcapng", "--thresholds", path],
        &["--thresholds has no use here"],
    );
    mistake(
        &["report", "alerts", "--from", "x.pcapng", "--suppress", "*"],
        &["--from"],
    );
    mistake(
        &fast(&["report", "ports", "--exit-code"]),
        &["report alerts"],
    );
}

#[test]
fn help_and_version_go_to_standard_output() {
    for flag in ["--help", "-h", "--version"] {
        let output = run(&[flag]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("fabtop"));
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn a_key_that_is_none_is_refused_and_never_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    fs::write(&file, "0xsecret\n").unwrap();
    let file = file.to_str().unwrap();
    for args in [
        ["--m-key", "0xsecret"],
        ["--m-key-file", file],
        ["--m-key-file", "/nonexistent/key"],
        ["--sm-key", "0xsecret"],
        ["--sm-key-file", file],
        ["--sm-key-file", "/nonexistent/key"],
    ] {
        let args = fast(&["report", "nodes", "--once", args[0], args[1]]);
        mistake(&args, &["key"]);
        assert!(!stderr(&run(&args)).contains("secret"));
    }
    // A good one goes into the SMPs and nothing is said of it.
    fs::write(file, "0x5ec2e75ec2e75ec2\n").unwrap();
    let output = run(&fast(&["report", "nodes", "--once", "--m-key-file", file]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains("5ec2e7"));
    // One into the questions for tables; the simulator's SM has 1, and does not answer others.
    fs::write(file, "1\n").unwrap();
    let sa = |file| run(&fast(&["report", "sa", "nodes", "--sm-key-file", file]));
    assert!(stdout(&sa(file)).contains("difference"));
    fs::write(file, "0x5ec2e75ec2e75ec2\n").unwrap();
    let text = stdout(&sa(file));
    assert!(text.contains("whole") && !text.contains("5ec2e7"), "{text}");
}

#[test]
fn a_path_leads_to_whom_only_the_sa_knows() {
    // The simulator's default script has cn013 dead from the beginning.
    let output = run(&fast(&["report", "path", "cn001", "cn013", "--once"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("cn013 mlx5_0 LID"), "{text}");
    assert!(text.contains("where discovery found nobody"), "{text}");
    mistake(
        &fast(&["report", "path", "cn001", "cn999", "--once"]),
        &["nor in the SA's records", "cn999"],
    );
}

#[test]
fn field_report_19_a_report_says_what_is_missing() {
    let output = run(&fast(&["report", "missing", "--once", "--json"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(value["missing"].is_array());
    // The demo's script kills hosts: at the end of its recording some are out of reach.
    let demo = "assets/recordings/incident.pcapng.zst";
    let output = run(&["report", "missing", "--from", demo, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    for row in value["missing"].as_array().unwrap() {
        assert!(
            row["why"].is_string() && row["since_s"].is_number(),
            "{row}"
        );
        assert!(row["behind"]["port"].is_number(), "{row}");
    }
}
