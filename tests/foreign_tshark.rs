//! Recordings as Wireshark sees them, and what Wireshark's own tools leave of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test; its harness is not the standard one"
)]

mod events;
#[path = "common/foreign.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod foreign;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use events::{HOST, SWITCH, Script, node_table};
use fabtop::event::*;
use fabtop::fabric::{NodeId, Target};
use fabtop::mad::notice::{Received as Heard, Trap};
use fabtop::mad::{
    Attribute, LocalChanges, Mad, Method, MgmtClass, Notice, PortCaps, PortInfo, PortState,
};
use fabtop::port::*;
use fabtop::record::{Destination, Encoder, Existing, Options, Reader, start};
use foreign::Need;
use tempfile::TempDir;

const TSHARK: Need = Need::Program("tshark", "tshark");
const EDITCAP: Need = Need::Program("editcap", "wireshark-common");
const MERGECAP: Need = Need::Program("mergecap", "wireshark-common");

fn main() -> ExitCode {
    foreign::main(vec![
        foreign::trial("every_mad_dissects", &[TSHARK], every_mad_dissects),
        foreign::trial("json_frames_dissect", &[TSHARK], json_frames_dissect),
        foreign::trial(
            "editcap_keeps_everything",
            &[EDITCAP],
            editcap_keeps_everything,
        ),
        foreign::trial(
            "mergecap_keeps_targets",
            &[MERGECAP],
            mergecap_keeps_targets,
        ),
        foreign::trial("tshark_opens_zst", &[TSHARK], tshark_opens_zst),
        foreign::trial(
            "filtered_recordings_replay",
            &[TSHARK],
            filtered_recordings_replay,
        ),
        foreign::trial("classic_pcap_replays", &[EDITCAP], classic_pcap_replays),
        foreign::trial(
            "every_generic_trap_is_dissected_alike",
            &[TSHARK],
            every_generic_trap_is_dissected_alike,
        ),
    ])
}

/// A session with everything that the checks count.
fn session() -> Vec<Event> {
    let mut s = Script::new();
    s.push(What::SweepBegan(SweepBegan {
        kind: SweepKind::Discovery,
        number: 1,
        expected: 0,
        generation: 1,
    }));
    s.discover();
    for (node, port, state) in [
        (SWITCH, 0, PortState::Active),
        (SWITCH, 1, PortState::Active),
        (SWITCH, 2, PortState::Active),
        (SWITCH, 3, PortState::Down),
        (HOST, 1, PortState::Active),
    ] {
        let path: &[u8] = if node == SWITCH { &[1] } else { &[1, 2] };
        let get = Mad::smp_dr(Method::Get, PortInfo::ID, port, path, 0).unwrap();
        let target = Target::port(NodeId::new(node).port(port as u8), 1);
        let get = s.ask(Address::directed(), target, get);
        let mut info = PortInfo::new();
        info.set_port_state(state)
            .set_m_key(0x1234)
            .set_lid(if node == HOST { 9 } else { 7 });
        s.answer(Address::directed(), Mad::reply(&get.view(), &info));
    }
    for i in 0..20 {
        s.counters(SWITCH, 2, 7, i * 1_000_000);
        s.counters(HOST, 1, 9, i * 500_000);
    }
    // 5 records of 112 bytes: 560 bytes of data, three segments.
    s.answer(Address::gmp(1, 0, 0), node_table(5));
    // Trap 128 in a report of the SA: generic, type 1, producer switch, issuer LID 7.
    let mut report = Mad::sa(Method::Report, 0x02, 0, 0, 0x99);
    report.set_data_bytes(&[0x81, 0, 0, 2, 0, 128, 0, 7, 0, 0, 0, 7]);
    s.answer(Address::gmp(1, 0, 0), report.clone());
    let mut resp = report;
    resp.set_method(Method::ReportResp);
    s.push(What::Sent(Sent {
        addr: Address::gmp(1, 0, 0),
        target: Target::default(),
        attempt: 0,
        timeout_ms: 0,
        mad: resp,
    }));
    let global = Address {
        grh: Some(Grh {
            gid: [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xC9, 3, 0, 0, 1, 1],
            gid_index: 0,
            hop_limit: 64,
            traffic_class: 3,
            flow_label: 0x1_2345,
        }),
        ..Address::gmp(9, 1, 0)
    };
    let mut late = Mad::perf_port(0x1D, 1, 0x55);
    late.set_method(Method::GetResp);
    s.answer(global, late);
    s.push(What::TimedOut(TimedOut {
        tid: 0x1001,
        target: Target::node(NodeId::new(HOST), 1),
        class: MgmtClass::SubnDirected.code(),
        attribute: 0x11,
        modifier: 0,
        attempt: 3,
        last: true,
        waited_ns: 1_000_000_000,
        how: fabtop::event::HowLate::default(),
    }));
    s.push(What::Mark {
        text: "\u{1b}[31m\"quoted\" \\ ünïcode \u{0}".into(),
    });
    s.push(What::Tick);
    s.push(What::Closed { why: "q".into() });
    s.events
}

fn encode(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(Options { keep_keys: true }).encode(events, &mut out);
    out
}

fn recorded(events: &[Event]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    std::fs::write(&path, encode(events)).unwrap();
    (dir, path)
}

fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {err}");
    String::from_utf8(out.stdout).unwrap()
}

/// Frames that a display filter matches.
fn count(path: &Path, filter: &str) -> usize {
    let path = path.to_str().unwrap();
    run(
        "tshark",
        &[
            "-r",
            path,
            "-Y",
            filter,
            "-T",
            "fields",
            "-e",
            "frame.number",
        ],
    )
    .lines()
    .count()
}

fn read(path: &Path) -> Vec<Event> {
    let mut reader = Reader::new(std::fs::File::open(path).unwrap());
    let events = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    events
}

/// What a person would see: neither a field nor the summary says malformed.
fn assert_sound(path: &Path) {
    assert_eq!(count(path, "_ws.malformed"), 0);
    let summary = run("tshark", &["-r", path.to_str().unwrap()]);
    assert!(!summary.contains("Malformed"), "{summary}");
}

fn every_mad_dissects() {
    let events = session();
    let (_dir, path) = recorded(&events);
    assert_sound(&path);
    let sent = events
        .iter()
        .filter(|e| matches!(e.what, What::Sent(_)))
        .count();
    let received = events
        .iter()
        .filter(|e| matches!(e.what, What::Received(_)))
        .count();
    // The table comes as three segments.
    let packets = sent + received + 2;
    assert_eq!(count(&path, "frame.interface_name == \"mad\""), packets);
    assert_eq!(count(&path, "infiniband.mad"), packets);
    assert_eq!(count(&path, "frame.packet_flags_direction == 2"), sent);
    assert_eq!(
        count(&path, "frame.packet_flags_direction == 1"),
        received + 2
    );
    assert_eq!(count(&path, "infiniband.portinfo.portstate == 4"), 4);
    assert_eq!(count(&path, "infiniband.rmpp.rmpptype == 1"), 3);
    assert_eq!(count(&path, "infiniband.rmpp.segmentnumber == 3"), 1);
    // Report and its acknowledgement.
    assert_eq!(
        count(&path, "infiniband.notice.trapnumberdeviceid == 128"),
        2
    );
    assert_eq!(count(&path, "infiniband.grh.hoplmt == 64"), 1);
    assert_eq!(
        count(
            &path,
            "infiniband.lrh.slid == 9 && infiniband.deth.srcqp == 1"
        ),
        21
    );
}

fn json_frames_dissect() {
    let events = session();
    let (_dir, path) = recorded(&events);
    let no_mads = events
        .iter()
        .filter(|e| !matches!(e.what, What::Sent(_) | What::Received(_)))
        .count();
    assert_eq!(
        count(
            &path,
            "json && json.key == \"seq\" && !(json.key == \"section\")"
        ),
        no_mads
    );
    assert_eq!(count(&path, "json.key == \"timed_out\""), 1);
    assert_eq!(
        count(&path, "frame.interface_name == \"events\" && !json"),
        0
    );
    // Escape sequences reach nobody's terminal through the file.
    let raw = std::fs::read(&path).unwrap();
    assert!(!raw.windows(3).any(|w| w == b"\x1b[3"));
}

fn editcap_keeps_everything() {
    let events = session();
    let (dir, path) = recorded(&events);
    let out = dir.path().join("b.pcapng");
    run("editcap", &[path.to_str().unwrap(), out.to_str().unwrap()]);
    assert_eq!(read(&out), events);
}

fn mergecap_keeps_targets() {
    let events = session();
    // A second collector, whose session began an hour later elsewhere.
    let mut later = session();
    let What::Opened(opened) = &mut later[0].what else {
        panic!("an opening");
    };
    opened.wall += 3600 * 1_000_000_000;
    opened.host = "login2".into();
    for event in &mut later {
        if let What::Sent(sent) = &mut event.what {
            sent.target.port ^= 0x40;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let [a, b, out] = ["a", "b", "c"].map(|name| dir.path().join(name));
    std::fs::write(&a, encode(&events)).unwrap();
    std::fs::write(&b, encode(&later)).unwrap();
    let path = |p: &Path| p.to_str().unwrap().to_owned();
    // Given in the wrong order: it sorts by time.
    run("mergecap", &["-w", &path(&out), &path(&b), &path(&a)]);
    assert_eq!(read(&out), [events, later].concat());
}

fn filtered_recordings_replay() {
    let events = session();
    let (dir, path) = recorded(&events);
    let out = dir.path().join("b.pcapng");
    let mads = ["-Y", "infiniband.mad", "-w", out.to_str().unwrap()];
    run(
        "tshark",
        &[&["-r", path.to_str().unwrap()], &mads[..]].concat(),
    );
    let mut reader = Reader::new(std::fs::File::open(&out).unwrap());
    let back: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.problems().list(), &[]);
    // A simulated session still says so.
    let What::Opened(opened) = &back[0].what else {
        panic!("{:?}", back[0]);
    };
    assert!(opened.source.is_simulated());
    let note = |e: &Event| matches!(&e.what, What::Note { text, .. } if text.contains("guessed"));
    assert!(note(&back[1]));
    let mads = |events: &[Event]| -> Vec<What> {
        let mads = events.iter().map(|e| e.what.clone());
        mads.filter(|w| matches!(w, What::Sent(_) | What::Received(_)))
            .collect()
    };
    let (truth, guess) = (mads(&events), mads(&back));
    assert_eq!(truth.len(), guess.len());
    for (truth, guess) in truth.iter().zip(&guess) {
        match (truth, guess) {
            (What::Received(a), What::Received(b)) => assert_eq!(a.mad, b.mad),
            (What::Sent(a), What::Sent(b)) => {
                assert_eq!(a.mad, b.mad);
                assert_eq!(a.attempt, b.attempt);
                // Path and LID tell the same node here, since nothing was recabled.
                if a.mad.class() != MgmtClass::SubnAdm {
                    let target = Target {
                        generation: 0,
                        ..a.target
                    };
                    assert_eq!(target, b.target, "{}", a.mad);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        reader.stats().guessed as usize,
        truth.iter().filter(|w| matches!(w, What::Sent(_))).count()
    );
}

fn classic_pcap_replays() {
    let events = session();
    let (dir, path) = recorded(&events);
    let out = dir.path().join("b.pcap");
    run(
        "editcap",
        &[
            "-F",
            "nsecpcap",
            path.to_str().unwrap(),
            out.to_str().unwrap(),
        ],
    );
    let back = read(&out);
    // All are there, in the recording's own words: only pcapng's packet ids are gone.
    let sent = |events: &[Event]| {
        events
            .iter()
            .filter(|e| matches!(e.what, What::Sent(_)))
            .count()
    };
    assert_eq!(back.len(), events.len());
    assert_eq!(sent(&back), sent(&events));
    assert_eq!(back.last(), events.last());
}

/// A compressed recording with keyframes, as tshark sees it: the same MADs on the first interface,
/// and those of keyframes apart.
fn tshark_opens_zst() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng.zst");
    let mut s = Script::new();
    s.discover();
    for round in 1..=70 {
        s.now = round * 5_000_000_000;
        s.counters(HOST, 1, 9, round);
        for port in 1..=8 {
            s.counters(SWITCH, port, 7, round);
        }
    }
    let (tx, rx) = crossbeam_channel::unbounded();
    for batch in s.events.chunks(100) {
        let events = batch.to_vec();
        tx.send(std::sync::Arc::new(Batch { events })).unwrap();
    }
    drop(tx);
    let to = Destination::File(path.clone());
    let progress = start(&to, Existing::Keep, Options::default(), rx)
        .unwrap()
        .finish();
    assert_eq!(progress.error, None);
    assert_sound(&path);
    // Three NodeInfos and 9 counters a round, asked and answered.
    assert_eq!(
        count(&path, "frame.interface_name == \"mad\" && infiniband.mad"),
        6 + 70 * 18
    );
    // A keyframe after five minutes: the last reply to each of the 12 questions.
    assert_eq!(
        count(
            &path,
            "frame.interface_name == \"keyframe\" && infiniband.mad"
        ),
        24
    );
    assert_eq!(count(&path, "json.key == \"keyframe\""), 1);
    // Several frames, the first no skippable one (RFC 8878): the file begins with zstd's magic.
    let raw = std::fs::read(&path).unwrap();
    assert!(raw.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]));
    assert!(raw.windows(4).any(|w| w == [0x5F, 0x2A, 0x4D, 0x18]));
}

/// Reports of the SA with every generic trap, whose details are all different bytes: what
/// Wireshark finds in a field is what we find. (Of 259 it finds nothing.)
fn every_generic_trap_is_dissected_alike() {
    let numbers = [
        64u16, 65, 66, 67, 68, 69, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259,
    ];
    let mut s = Script::new();
    let mut traps = Vec::new();
    for number in numbers {
        let mut bytes = [0u8; 80];
        bytes[0] = 0x81;
        bytes[4..6].copy_from_slice(&number.to_be_bytes());
        for (at, byte) in bytes.iter_mut().enumerate().take(64).skip(10) {
            *byte = 0x80 | at as u8;
        }
        let mut report = Mad::sa(Method::Report, Notice::ID, 0, 0, 0x99);
        report.set_data_bytes(&bytes);
        traps.push(Heard::parse(&report.view()).unwrap().trap());
        s.answer(Address::gmp(1, 0, 0), report);
    }
    let (_dir, path) = recorded(&s.events);
    let dissected = trap_fields(&path);
    let text = |number: u16, name: &str| -> String {
        let row = &dissected[&number.to_string()];
        let at = TRAP_FIELDS.iter().position(|f| *f == name).unwrap();
        row[at].clone()
    };
    let field = |number: u16, name: &str| -> u64 {
        let text = text(number, name);
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        }
        .unwrap_or_else(|_| panic!("{number} {name}: {text:?}"))
    };
    for (number, trap) in numbers.into_iter().zip(traps) {
        let same = |name: &str, ours: u64| assert_eq!(field(number, name), ours, "{number} {name}");
        match trap {
            Trap::GidInService { gid } | Trap::GidOutOfService { gid } => {
                assert_eq!(text(number, "gidaddr"), gid.to_string());
            }
            Trap::McastGroupCreated { mgid } | Trap::McastGroupDeleted { mgid } => {
                assert_eq!(text(number, "gidaddr"), mgid.to_string());
            }
            Trap::UnPath(paths) | Trap::RePath(paths) => {
                same("comp_mask", paths.comp_mask);
                same("wait_for_repath", u64::from(paths.wait_for_repath));
            }
            Trap::LinkStateChanged { lid } => same("lidaddr", lid.into()),
            Trap::LocalLinkIntegrity { lid, port }
            | Trap::BufferOverrun { lid, port }
            | Trap::FlowControlWatchdog { lid, port } => {
                same("lidaddr", lid.into());
                same("portno", port.into());
            }
            Trap::LocalChange {
                lid,
                cap_mask: PortCaps(mask),
                other,
                changes,
                ..
            } => {
                same("lidaddr", lid.into());
                same("otherlocalchanges", u64::from(other));
                same("capabilitymask", mask.into());
                for (name, bit) in [
                    ("linkspeecenabledchange", LocalChanges::LINK_SPEED_ENABLED),
                    ("linkwidthenabledchange", LocalChanges::LINK_WIDTH_ENABLED),
                    ("nodedescriptionchange", LocalChanges::NODE_DESCRIPTION),
                ] {
                    same(name, u64::from(changes.has(bit)));
                }
            }
            Trap::SystemImageGuidChanged { lid, guid } => {
                same("lidaddr", lid.into());
                same("systemimageguid", guid);
            }
            Trap::BadMKey {
                lid,
                dr_slid,
                method,
                attr_id,
                attr_mod,
                truncated,
                ..
            } => {
                same("lidaddr", lid.into());
                same("drslid", dr_slid.into());
                same("method", method.code().into());
                same("attributeid", attr_id.into());
                same("attributemodifier", attr_mod.into());
                same("drpathtruncated", u64::from(truncated));
            }
            Trap::BadPKey(v) | Trap::BadQKey(v) => {
                same("lidaddr1", v.lid1.into());
                same("lidaddr2", v.lid2.into());
                same("key", v.key.into());
                same("sl", v.sl.into());
                same("qp1", v.qp1.into());
                same("qp2", v.qp2.into());
            }
            // Its dissector takes the two bytes of valid fields for an address of sixteen and gives
            // the trap up; opensm's header has the layout.
            Trap::SwitchBadPKey { .. } => {}
            other => panic!("{number}: {other:?}"),
        }
    }
}

/// Wireshark's names of what traps hold, spelt as it does.
const TRAP_FIELDS: [&str; 24] = [
    "gidaddr",
    "comp_mask",
    "wait_for_repath",
    "lidaddr",
    "portno",
    "otherlocalchanges",
    "capabilitymask",
    "linkspeecenabledchange",
    "linkwidthenabledchange",
    "nodedescriptionchange",
    "systemimageguid",
    "drslid",
    "method",
    "attributeid",
    "attributemodifier",
    "drnotice",
    "drpathtruncated",
    "drhopcount",
    "lidaddr1",
    "lidaddr2",
    "key",
    "sl",
    "qp1",
    "qp2",
];

/// Of each trap number, the values of those fields.
fn trap_fields(path: &Path) -> BTreeMap<String, Vec<String>> {
    let mut args = vec!["-r", path.to_str().unwrap(), "-T", "fields"];
    let number = "infiniband.notice.trapnumberdeviceid";
    let names: Vec<String> = TRAP_FIELDS.map(|f| format!("infiniband.trap.{f}")).to_vec();
    args.extend(["-Y", number, "-e", number]);
    for name in &names {
        args.extend(["-e", name]);
    }
    let text = run("tshark", &args);
    text.lines()
        .map(|line| {
            let mut cells = line.split('\t').map(str::to_owned);
            let number = cells.next().unwrap();
            let digits = number.trim_start_matches("0x");
            let number = u16::from_str_radix(digits, 16).unwrap();
            (number.to_string(), cells.collect())
        })
        .collect()
}
