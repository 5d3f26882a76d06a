//! One of everything that a fabric can hold (`assets/fabrics/museum.net`): what an operator sees
//! of each, in the reports and on the screen.
//!
//! Expected values are the topology file's own lines, and the facts of the specification.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "common/bench.rs"]
mod bench;

use bench::Bench;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::report::{self, Format};
use fabtop::sim::{SimOptions, netfile};
use fabtop::tui::{App, Clock, Depth, Kind, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const MUSEUM: &str = include_str!("../assets/fabrics/museum.net");

/// The museum, with further `# sim …` comments, after this many seconds.
fn museum(comments: &str, secs: u64) -> Bench {
    let text = format!("{comments}{MUSEUM}");
    let (fabric, problems) = netfile::parse(&text);
    assert_eq!(problems, []);
    let mut options = SimOptions::default();
    assert_eq!(netfile::scenario(&text, &fabric, &mut options), []);
    let mut bench = Bench::new(fabric, options);
    bench.run(Stamp::from_secs(secs));
    bench
}

/// The words of the first line of a report that begins with these words.
fn row(report: &str, start: &str) -> String {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = report.lines().map(squeezed);
    let found = lines.find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no line {start:?} in\n{report}"))
}

fn ports(bench: &Bench) -> String {
    report::ports(&bench.model, bench.model.last(), Format::Text)
}

fn nodes(bench: &Bench) -> String {
    report::nodes(&bench.model, bench.model.last(), Format::Text)
}

fn alerts(bench: &Bench) -> String {
    report::alerts(&bench.model, bench.model.last(), Format::Text)
}

fn missing(bench: &Bench) -> String {
    report::missing(&bench.model, bench.model.last(), Format::Text)
}

/// The console after some keys, as text.
fn screen(bench: &Bench, keys: &str) -> String {
    let (w, h) = (160, 90);
    let mut app: App<Model> = App::new(Kind::Live, Look::new(Depth::Mono), Clock::utc());
    let mut buf = Buffer::empty(Rect::new(0, 0, w, h));
    let now = bench.engine.now();
    app.draw(&bench.model, now, &mut buf);
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            c => KeyCode::Char(c),
        };
        app.key(&KeyEvent::new(code, KeyModifiers::NONE), &bench.model, now);
        buf.reset();
        app.draw(&bench.model, now, &mut buf);
    }
    let mut out = String::new();
    for y in 0..h {
        let line: String = (0..w).map(|x| buf[(x, y)].symbol()).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[test]
fn every_node_is_shown_as_what_it_is() {
    let bench = museum("", 30);
    let nodes = nodes(&bench);
    for (start, status) in [
        ("core1 SW 0x0002c90300a00010 1 72 9", "ok"),
        ("router to site B RT 0x0002c90300d00010 12 2 1", "ok"),
        // By what they are, whatever they are called.
        (
            "Mellanox Technologies Aggregation Node AN 0x0002c90300a00018 13 1 1",
            "ok",
        ),
        ("renamed by its owner AN 0x0002c90300a00028 17 1 1", "ok"),
        // Both ports of one adapter, each with a LID; a port with four of them.
        ("bonded mlx5_0 CA 0x0002c90300c00060 18,19 2 2", "ok"),
        ("manylids mlx5_0 CA 0x0002c90300c000c0 28-31 1 1", "ok"),
        ("locked mlx5_0 CA 0x0002c90300c000b0 24 1 1", "protected"),
        // Both of one GUID.
        ("cloned mlx5_0 CA 0x0002c90300c00140 35 1 1", "ok"),
        ("clone mlx5_0 CA 0x0002c90300c00140#1 36 1 1", "ok"),
        ("twin switch A SW 0x0002c90300a00050 5 18 2", "ok"),
        ("twin switch B SW 0x0002c90300a00050#1 6 18 2", "ok"),
    ] {
        let line = row(&nodes, start);
        assert!(line.ends_with(status), "{line}");
    }
    assert!(nodes.contains(
        "# 6 switches, 21 adapters, 2 aggregation nodes, 1 router, 33 links, 66 of 283 ports \
         connected, 0 nodes missing, 1 protected by an M_Key, nobody known behind 1 port with a \
         link\n"
    ));
    // The switch behind a host is not in this subnet, by nobody's word.
    assert!(!nodes.contains("other subnet"), "{nodes}");
    assert!(bench.log("other subnet").is_empty());
}

#[test]
fn every_link_is_shown_at_what_it_runs_at() {
    let bench = museum("", 30);
    let ports = ports(&bench);
    for start in [
        // Several links between two nodes, at XDR.
        "core1 1 Active LinkUp 1 4x XDR core2[1]",
        "core1 2 Active LinkUp 1 4x XDR core2[2]",
        // Enhanced port 0 has a row, a base one (edge2) none.
        "core1 0 Active LinkUp 1",
        "core2 11 Active LinkUp 2 2x XDR split01 mlx5_0[1]",
        "core2 12 Active LinkUp 2 2x XDR split02 mlx5_0[1]",
        "core1 11 Active LinkUp 1 4x NDR mgmt1 mlx5_0[1]",
        "edge1 4 Active LinkUp 3 2x HDR half mlx5_0[1]",
        "edge2 4 Active LinkUp 4 4x EDR cloned mlx5_0[1]",
        "edge2 1 Active LinkUp 4 4x FDR10 ten mlx4_0[1]",
        "edge2 2 Active LinkUp 4 4x ??? odd HCA-1[1]",
        "edge2 3 Active LinkUp 4 4x DDR old HCA-1[1]",
        "twin switch A 17 Active LinkUp 5 4x FDR core1[5]",
        "twin switch B 17 Active LinkUp 6 4x FDR core2[5]",
        "bonded mlx5_0 1 Active LinkUp 18 4x HDR edge1[1]",
        "bonded mlx5_0 2 Active LinkUp 19 4x HDR edge1[2]",
        "gateway mlx5_0 1 Active LinkUp 20 4x HDR edge1[3]",
        "gateway mlx5_0 2 Active LinkUp 8 4x HDR none in this subnet",
        "edge1 9 Active LinkUp 3 4x HDR SA: dead mlx5_0",
        "edge1 7 Active LinkUp 3 4x HDR locked mlx5_0[1]",
    ] {
        row(&ports, start);
    }
    assert!(
        !ports
            .lines()
            .any(|l| l.starts_with("edge2     ") && l.contains(" 0  Active"))
    );
    // What asks for a look, and nothing else: split and unknown links are at their best.
    let flagged = |flag: &str| -> Vec<String> {
        let lines = ports.lines().filter(|l| l.ends_with(flag));
        lines
            .map(|l| {
                let words: Vec<&str> = l.split_whitespace().collect();
                let port = words.iter().position(|w| *w == "Active").unwrap() - 1;
                format!("{} {}", words[0], words[port])
            })
            .collect()
    };
    assert_eq!(
        flagged("below_best"),
        [
            "edge1 5", "edge1 6", "edge2 1", "narrow 1", "slowed 1", "ten 1"
        ]
    );
    assert_eq!(
        flagged("ends_differ"),
        ["core1 1", "core1 2", "core2 1", "core2 2"]
    );
    assert_eq!(flagged("no_answer"), ["edge1 9"]);
    assert_eq!(flagged("protected"), ["locked 1"]);
    // The same words in the Ports pane.
    let shown = screen(&bench, "1") + &screen(&bench, "/gateway\n");
    for words in [
        "none in this subnet",
        "SA: dead mlx5_0",
        "ends differ",
        "4x FDR10",
    ] {
        assert!(shown.contains(words), "{words:?} in\n{shown}");
    }
}

#[test]
fn what_is_wrong_is_an_alert_and_what_is_missing_has_a_reason() {
    let bench = museum("", 30);
    let alerts = alerts(&bench);
    for words in [
        "clone mlx5_0  another node has the same GUID 0x0002c90300c00140",
        "twin switch B another node has the same GUID 0x0002c90300a00050",
        "edge1[9]      the other end, dead mlx5_0 as the SA has it, does not answer",
        "edge1[6]      link runs at 4x EDR, both ends can do 4x HDR",
        "edge1[5]      link runs at 1x HDR, both ends can do 4x HDR",
        "edge2[1]      link runs at 4x FDR10, both ends can do 4x FDR",
        "the ends of the link do not agree on virtual lanes: VL0-1 here, VL0-3 at core2[2]",
        "the ends of the link do not agree on MTU: 2048 here, 4096 at core2[1]",
    ] {
        assert!(alerts.contains(words), "{words:?} in\n{alerts}");
    }
    assert!(!alerts.contains("locked"), "{alerts}");
    let missing = missing(&bench);
    let locked = row(&missing, "locked mlx5_0 0x0002c90300c000b0 edge1[7]");
    assert!(locked.contains("protected by an M_Key, not asked"));
    assert!(locked.contains("M_Key protection 2"), "{locked}");
    let dead = row(&missing, "dead mlx5_0 0x0002c90300c000d0 edge1[9]");
    assert!(dead.contains("no answer to NodeInfo"), "{dead}");
    // Whoever is silent on purpose is no failing destination.
    let timeouts = screen(&bench, "3");
    assert!(timeouts.contains("beyond edge1[9]"), "{timeouts}");
    assert!(!timeouts.contains("beyond edge1[7]"), "{timeouts}");
}

#[test]
fn a_port_in_detail_says_what_its_rows_have_no_room_for() {
    let bench = museum("", 30);
    for (filter, words) in [
        ("clone adapter", "Same GUID"),
        ("manylids adapter", "28 to 31"),
        ("renamed aggregation", "aggregation node (SHARP), no host"),
        (
            "gateway none",
            "none in this subnet: it may be plugged into another one",
        ),
        ("locked adapter", "protected by an M_Key: told by the SA,"),
        // FEC by generation: FireCode at FDR, RS from EDR on.
        ("FDR core1 5", "FireCode"),
        ("half adapter", "RS-FEC"),
        ("narrow adapter", "1x HDR, both ends can do 4x HDR"),
    ] {
        let shown = screen(&bench, &format!("/{filter}\n\n"));
        assert!(shown.contains("Port detail"), "{filter}: {shown}");
        assert!(shown.contains(words), "{words:?} in\n{shown}");
    }
}

#[test]
fn replaced_moved_split_and_merged_are_told() {
    let bench = museum("", 200);
    for words in [
        "swapped mlx5_0 (..00e0) cannot be reached any more",
        "swapped mlx5_0 (..f000) appeared",
        "link found: edge1[10] - swapped mlx5_0 (..f000)[1]",
        "moved mlx5_0[1]: LID 27 -> 900",
        "edge2 cannot be reached any more",
        "edge2 is back",
        "link found: core1[4] - edge2[35]",
    ] {
        // The log tells with the names of that moment.
        let plain = words.replace(" (..00e0)", "");
        assert!(
            !bench.log(words).is_empty() || !bench.log(&plain).is_empty(),
            "{words:?} in {:?}",
            bench.log("")
        );
    }
    // The one that was replaced is missed, its successor is there.
    let nodes = nodes(&bench);
    assert!(row(&nodes, "swapped mlx5_0 (..00e0)").ends_with("unreachable"));
    assert!(row(&nodes, "swapped mlx5_0 (..f000)").ends_with("ok"));
    // While it was split off, its hosts were missing, with it.
    let bench = museum("", 90);
    let missing = missing(&bench);
    for name in ["edge2", "cloned mlx5_0", "clone mlx5_0", "odd HCA-1"] {
        let line = row(&missing, name);
        assert!(line.contains("cannot be reached"), "{line}");
    }
}

#[test]
fn a_planarized_host_reads_the_same_fabric_and_says_what_it_is() {
    let (bench, plain) = (museum("# sim planarized\n", 30), museum("", 30));
    let without_head = |text: String| -> Vec<String> {
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(without_head(nodes(&bench)), without_head(nodes(&plain)));
    assert!(nodes(&bench).contains("# agent SubnLID 0x01 refused: a planarized adapter has no"));
    let shown = screen(&bench, "1");
    assert!(
        shown
            .lines()
            .next()
            .unwrap()
            .contains("planarized: directed routes")
    );
    assert!(!shown.contains("No agent for"), "{shown}");
}

#[test]
fn a_host_with_the_limited_key_says_that_it_asks_switches_only() {
    let bench = museum("# sim pkey limited\n", 30);
    assert!(ports(&bench).contains("# limited P_Key: counters of switches only"));
    // A switch's counters are there, a host's are unknown and not 0.
    let ports = ports(&bench);
    assert!(row(&ports, "edge1 1 Active").contains("bonded mlx5_0[1] 0 0"));
    assert!(row(&ports, "bonded mlx5_0 1 Active").contains("edge1[1] — —"));
    let shown = screen(&bench, "1");
    assert!(
        shown
            .lines()
            .next()
            .unwrap()
            .contains("limited P_Key: switches only")
    );
}

#[test]
fn a_host_without_an_sm_says_that_there_are_no_counters() {
    let bench = museum("# sim sm nowhere\n", 30);
    let ports = ports(&bench);
    assert!(ports.contains("# no subnet manager: directed routes only, and no counters"));
    // All the same nodes, but the one that only the SA would tell of.
    assert!(ports.contains("# 6 switches, 20 adapters, 2 aggregation nodes, 1 router"));
    assert!(
        row(&ports, "edge1 1 Init LinkUp — 4x HDR bonded mlx5_0[1] — —").contains("not_active")
    );
    assert!(
        screen(&bench, "1").contains("No subnet manager is known to the local port")
            || screen(&bench, "1").contains("only directed-route SMPs get through")
    );
}
