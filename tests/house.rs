//! The rooms of the house import one another in one direction only. This test reads every
//! `crate::ROOM` path in `src/` (tests of a room excepted) and holds it to the order that
//! `src/lib.rs` documents.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms by storey: a room may import from lower storeys, never from its own or a higher one.
const STOREYS: &[&[&str]] = &[
    &["mad"],
    &["port"],
    &["fabric"],
    &["event"],
    &["command"],
    &["sim", "engine", "model"],
    &["record"],
    &["watch", "report", "export", "tui"],
    &["config"],
    &["cli"],
    &["main"],
];

fn storey(room: &str) -> usize {
    STOREYS
        .iter()
        .position(|rooms| rooms.contains(&room))
        .unwrap_or_else(|| panic!("room {room} has no storey: add it to the order"))
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                rust_files(&path, out);
            }
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            out.push(path);
        }
    }
}

/// `src/model/view.rs` is in room `model`, `src/event.rs` in `event`.
fn room_of(path: &Path, src: &Path) -> String {
    let first = path.strip_prefix(src).unwrap().components().next().unwrap();
    let name = first.as_os_str().to_str().unwrap();
    name.trim_end_matches(".rs").to_owned()
}

/// The text before the file's unit tests, without comments.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    code.lines()
        .map(|l| l.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every `ROOM` of `crate::ROOM…`, `crate::{ROOM…, ROOM…}` or `fabtop::ROOM…` in `code`.
fn imports_of(code: &str) -> Vec<String> {
    let ident = |s: &str| -> String {
        s.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let mut found = Vec::new();
    for prefix in ["crate::", "fabtop::"] {
        for (at, _) in code.match_indices(prefix) {
            if code[..at].ends_with('$') {
                continue; // a macro's own path
            }
            let rest = &code[at + prefix.len()..];
            if let Some(list) = rest.strip_prefix('{') {
                let mut depth = 0;
                let mut item = String::new();
                for c in list.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            found.push(ident(item.trim()));
                            item.clear();
                            continue;
                        }
                        _ => {}
                    }
                    item.push(c);
                }
                found.push(ident(item.trim()));
            } else {
                found.push(ident(rest));
            }
        }
    }
    found.retain(|room| !room.is_empty());
    found
}

#[test]
fn imports_run_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut seen = 0;
    for path in files {
        let room = room_of(&path, &src);
        if room == "umad" || room == "lib" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for import in imports_of(&code_of(&text)) {
            if import == room || import == "Cli" {
                continue;
            }
            seen += 1;
            if storey(&import) >= storey(&room) {
                wrong
                    .entry(path.display().to_string())
                    .or_default()
                    .push(import);
            }
        }
    }
    assert!(seen > 12, "the reader of imports found only {seen}");
    assert!(wrong.is_empty(), "imports against the order: {wrong:#?}");
}

#[test]
fn the_reader_of_imports_reads_every_form() {
    let code =
        "use crate::mad::Mad;\nuse crate::{event::{What, Event}, port};\nlet x: crate::tui::Y;";
    let mut found = imports_of(code);
    found.sort();
    assert_eq!(found, ["event", "mad", "port", "tui"]);
}

#[test]
fn replay_and_watch_cannot_reach_a_port() {
    // Read-only is a type: what feeds a replayed or watched session must not even import the
    // engine or the umad package.
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for place in [
        "record",
        "watch",
        "model",
        "report",
        "tui",
        "cli/outlets.rs",
        "cli/replay.rs",
        "cli/watch.rs",
    ] {
        let place = src.join(place);
        let mut files = Vec::new();
        if place.is_dir() {
            rust_files(&place, &mut files);
        } else if place.exists() {
            files.push(place);
        }
        for path in files {
            let code = code_of(&fs::read_to_string(&path).unwrap());
            let imports = imports_of(&code);
            assert!(
                !imports.iter().any(|i| i == "engine" || i == "sim") && !code.contains("umad::"),
                "{} reaches for a port",
                path.display()
            );
        }
    }
}
