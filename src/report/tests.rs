//! Tests of the reports. The topology text is what `ibnetdiscover` (infiniband-diags 44.0)
//! printed of the same fabric under ibsim.

use std::time::Duration;

use super::*;
use crate::event::{SweepBegan, SweepEnded, SweepKind, What};
use crate::fabric::Target;
use crate::mad::{
    Attribute, ClassCaps, ClassCaps2, LinkSpeed, LinkSpeedExt, Mad, Method, NodeInfo, NodeType,
    PortCaps, PortCounters, PortCountersExtended, PortInfo, SmInfo, SmState,
};
use crate::model::tests::{HOST, LOCAL, SWITCH, Session, down, edr, key};
use crate::port::Stamp;

/// Field report 19: what of a partial fabric is missing, behind which port, why, since when.
#[test]
fn field_report_19_what_is_missing_is_listed_with_its_reason() {
    let mut s = Session::fabric();
    let now = s.now;
    assert!(missing(&s.model, now, Format::Text).contains("nothing is missing"));
    // Each attempt waits for a second: given up at 13 s.
    s.at(10.0);
    let ask = Mad::smp_lid(Method::Get, PortInfo::ID, 1, 0);
    for attempt in 1..=3 {
        s.silence(
            Target::port(key(HOST, 1), 1),
            ask.clone(),
            attempt,
            attempt == 3,
        );
    }
    // The switch's third port comes up, and nobody behind it answers: given up at 61 s.
    s.at(60.0).port_info(key(SWITCH, 3), &edr(0));
    let text = missing(&s.model, s.now, Format::Text);
    assert!(
        text.lines().any(|l| l.contains("leaf[3]  not asked yet")),
        "{text}"
    );
    let who = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1, 3], 0).unwrap();
    s.silence(Target::beyond(key(SWITCH, 3), 1), who, 1, true);
    s.at(73.0).tick();
    let text = missing(&s.model, s.now, Format::Text);
    let rows: Vec<&str> = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .skip(1)
        .collect();
    let want = [
        "node7 mlx5_0  0x0000000000000011  leaf[2]  does not answer: no answer to PortInfo              60.0",
        "unknown       —                   leaf[3]  somebody does not answer: no answer to NodeInfo     12.0",
    ];
    assert_eq!(rows, want, "{text}");
    let value: serde_json::Value =
        serde_json::from_str(&missing(&s.model, s.now, Format::Json)).unwrap();
    let rows = value["missing"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["name"], "node7 mlx5_0");
    assert_eq!(rows[0]["behind"]["port"], 2);
    assert_eq!(rows[0]["failure"]["attribute"], "PortInfo");
    assert_eq!(rows[1]["name"], serde_json::Value::Null);
    assert_eq!(rows[1]["since_s"], 12.0);
    // Replayed, the same bytes.
    assert_eq!(missing(&s.replayed(), s.now, Format::Text), text);
    // It answers, and the port goes down: nothing is missing.
    s.port_info(key(HOST, 1), &edr(3));
    s.port_info(key(SWITCH, 3), &down());
    assert!(missing(&s.model, s.now, Format::Text).contains("nothing is missing"));
}

#[test]
fn wall_time_is_told_in_utc() {
    // date -u -d @1795990606, @951782400 and @-1.
    assert_eq!(iso(1_795_990_606_123_000_000), "2026-11-29T22:16:46.123Z");
    assert_eq!(civil(1_795_990_606_000_000_000).6, 0, "a Sunday");
    assert_eq!(iso(951_782_400_000_000_000), "2000-02-29T00:00:00.000Z");
    assert_eq!(iso(-1), "1969-12-31T23:59:59.999Z");
}

/// Captured: `ibnetdiscover` at node 0x10 of a fabric of one switch and two hosts.
const IBNETDISCOVER: &str = "#
# Topology file: generated on Sun Nov 29 22:16:46 2026
#
# Initiated from node 0000000000000010 port 0000000000000011

vendid=0x2c9
devid=0xc738
sysimgguid=0x20
switchguid=0x20(20)
Switch\t3 \"S-0000000000000020\"\t\t# \"leaf\" base port 0 lid 2 lmc 0
[1]\t\"H-0000000000000010\"[1](11) \t\t# \"login1 mlx5_0\" lid 1 4xSDR
[2]\t\"H-0000000000000011\"[1](12) \t\t# \"node7 mlx5_0\" lid 3 4xSDR

vendid=0x0
devid=0xc738
sysimgguid=0x11
caguid=0x11
Ca\t1 \"H-0000000000000011\"\t\t# \"node7 mlx5_0\"
[1](12) \t\"S-0000000000000020\"[2]\t\t# lid 3 lmc 0 \"leaf\" lid 2 4xSDR

vendid=0x0
devid=0xc738
sysimgguid=0x10
caguid=0x10
Ca\t1 \"H-0000000000000010\"\t\t# \"login1 mlx5_0\"
[1](11) \t\"S-0000000000000020\"[1]\t\t# lid 1 lmc 0 \"leaf\" lid 2 4xSDR
";

fn found(s: &mut Session, via: Option<crate::fabric::PortKey>, guid: u64, name: &str) {
    let switch = guid == SWITCH;
    let mut info = NodeInfo::new();
    info.set_node_type(if switch {
        NodeType::Switch
    } else {
        NodeType::Ca
    })
    .set_num_ports(if switch { 3 } else { 1 })
    .set_system_image_guid(guid)
    .set_node_guid(guid)
    .set_port_guid(if switch { guid } else { guid + 1 })
    .set_device_id(0xC738)
    .set_vendor_id(if switch { 0x2C9 } else { 0 })
    .set_local_port(1);
    s.node_info(via, &info);
    s.describe(guid, name);
}

fn sdr(lid: u16) -> PortInfo {
    let mut info = edr(lid);
    info.set_cap_mask(PortCaps(0))
        .set_link_speed_active(LinkSpeed::Sdr)
        .set_link_speed_ext_active(LinkSpeedExt::None);
    info
}

#[test]
fn the_topology_text_is_ibnetdiscovers() {
    let mut s = Session::new();
    s.discovery(1, |s| {
        found(s, None, LOCAL, "login1 mlx5_0");
        s.port_info(key(LOCAL, 1), &sdr(1));
        found(s, Some(key(LOCAL, 1)), SWITCH, "leaf");
        s.port_info(key(SWITCH, 0), &sdr(2));
        s.port_info(key(SWITCH, 1), &sdr(0));
        s.port_info(key(SWITCH, 2), &sdr(0));
        s.port_info(key(SWITCH, 3), &down());
        found(s, Some(key(SWITCH, 2)), HOST, "node7 mlx5_0");
        s.port_info(key(HOST, 1), &sdr(3));
    });
    assert_eq!(topology(&s.model, Stamp::ZERO), IBNETDISCOVER);
}

fn session() -> Session {
    let mut s = Session::fabric();
    s.latency = Duration::from_micros(200);
    let mut sm = SmInfo::new();
    sm.set_guid(HOST << 8 | 1)
        .set_priority(14)
        .set_state(SmState::Master);
    let ask = Mad::smp_lid(Method::Get, SmInfo::ID, 0, 0);
    s.exchange(Target::port(key(HOST, 1), 1), ask, &sm);
    s.caps(key(HOST, 1), ClassCaps::EXT_WIDTH, ClassCaps2(0));
    for (secs, n) in [(5.0, 0u32), (10.0, 1)] {
        let mut wide = PortCountersExtended::new();
        wide.set_xmit_data(u64::from(n) * 5_000_000)
            .set_xmit_pkts(u64::from(n) * 100);
        let mut narrow = PortCounters::new();
        narrow
            .set_symbol_error(10 + 5 * n as u16)
            .set_link_downed(255);
        s.at(secs).wide(key(HOST, 1), &wide);
        s.narrow(key(HOST, 1), &narrow);
        s.narrow(key(SWITCH, 1), &PortCounters::new());
    }
    s.silence(
        Target::port(key(SWITCH, 2), 1),
        Mad::perf_port(PortCounters::ID, 2, 0),
        1,
        true,
    );
    s.port_info(key(SWITCH, 3), &edr(0));
    s.port_info(key(SWITCH, 3), &down());
    s
}

#[test]
fn reports_as_text() {
    let s = session();
    let now = s.model.last();
    insta::assert_snapshot!("ports", ports(&s.model, now, Format::Text));
    insta::assert_snapshot!("nodes", nodes(&s.model, now, Format::Text));
    insta::assert_snapshot!("timeouts", timeouts(&s.model, now, Format::Text));
    insta::assert_snapshot!("events", events(&s.model, now, Format::Text));
}

#[test]
fn sweeps_tell_how_long_they_took_and_what_failed() {
    let mut s = session();
    s.at(20.0);
    s.event(What::SweepBegan(SweepBegan {
        kind: SweepKind::Counters,
        number: 3,
        expected: 2,
        generation: 1,
    }));
    s.at(20.25);
    s.event(What::SweepEnded(SweepEnded {
        kind: SweepKind::Counters,
        number: 3,
        answered: 1,
        failed: 1,
        skipped: 0,
        digest: 0,
    }));
    let now = s.model.last();
    let all: serde_json::Value =
        serde_json::from_str(&sweeps(&s.model, now, Format::Json)).unwrap();
    let last = all["sweeps"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["kind"], &last["number"]),
        (&"counters".into(), &3.into())
    );
    assert_eq!(
        (&last["took_s"], &last["failed"]),
        (&0.25.into(), &1.into())
    );
    assert_eq!(last["running"], false);
    let text = sweeps(&s.model, now, Format::Text);
    let line = text.lines().last().unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["counters", "3", "0", "1", "0.250000"], "{text}");
    // Every request of the session was counted, whatever became of it.
    let sent = s
        .model
        .destinations(now)
        .iter()
        .map(|d| d.sent)
        .sum::<u64>();
    assert!(sent > 0 && text.contains(&format!("# {sent} MADs sent\n")));
}

#[test]
fn json_reads_back_and_says_what_each_number_is() {
    let s = session();
    let now = s.model.last();
    let text = ports(&s.model, now, Format::Json);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all["simulated"], true);
    assert_eq!(all["sm"]["priority"], 14);
    let rows = all["ports"].as_array().unwrap();
    // In order of name: leaf, login1, node7.
    let order: Vec<_> = rows
        .iter()
        .map(|r| (r["name"].as_str().unwrap(), r["port"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        order,
        [
            ("leaf", 1),
            ("leaf", 2),
            ("leaf", 3),
            ("login1 mlx5_0", 1),
            ("node7 mlx5_0", 1)
        ]
    );
    let host = &rows[4];
    assert_eq!(host["guid"], "0x0000000000000011");
    assert_eq!(host["peer"]["guid"], "0x0000000000000020");
    let counters = &host["counters"];
    assert_eq!(counters["SymbolErrorCounter"], 15);
    assert_eq!(counters["PortXmitData"], 5_000_000);
    assert_eq!(counters["LinkDownedCounter"]["value"], 255);
    assert_eq!(counters["LinkDownedCounter"]["state"], "saturated");
    assert!(counters["PortXmitWait"].is_null());
    // 15 - 10 in 5 s; 5,000,000 words of 32 bits in 5 s.
    assert_eq!(host["increments"]["SymbolErrorCounter"], 5);
    assert_eq!(host["per_s"]["SymbolErrorCounter"], 1.0);
    assert_eq!(host["tx_bits_per_s"], 32e6);
    // Of two readings at different times the older one is "the" age.
    let ages = ["age_s", "state_age_s", "counters_age_s"].map(|k| host[k].as_f64().unwrap());
    assert!(
        ages[1] != ages[2] && ages[0] == ages[1].max(ages[2]),
        "{ages:?}"
    );
    assert_eq!(host["tx_share"], 32e6 / 100e9);
    assert_eq!(host["peer"]["former"], false);
    assert_eq!(rows[2]["flags"], serde_json::json!(["no_answer", "down"]));
    for report in [nodes, timeouts, events] {
        let text = report(&s.model, now, Format::Json);
        assert!(
            serde_json::from_str::<serde_json::Value>(&text).is_ok(),
            "{text}"
        );
    }
}

#[test]
fn bit_error_rates_and_optional_counters_are_in_the_json() {
    use crate::mad::{
        FecMode, PortExtendedSpeeds, PortFlowCtlCounters, PortInfoExtended, PortRcvErrorDetails,
        Status,
    };
    let mut s = Session::fabric();
    let host = key(HOST, 1);
    let target = Target::port(host, 1);
    let mut mode = PortInfoExtended::new();
    mode.set_cap_mask(1).set_fec_mode_active(FecMode::Rs);
    let ask = Mad::smp_lid(Method::Get, PortInfoExtended::ID, 1, 0);
    s.exchange(target, ask, &mode);
    for (secs, symbols) in [(10.0, 0), (20.0, 165)] {
        let mut c = PortExtendedSpeeds::new();
        c.set_corrected_symbols(symbols);
        s.at(secs);
        s.exchange(target, Mad::perf_port(PortExtendedSpeeds::ID, 1, 0), &c);
    }
    let mut causes = PortRcvErrorDetails::new();
    causes.set_looping(3).set_vl_mapping(0xFFFF);
    s.exchange(
        target,
        Mad::perf_port(PortRcvErrorDetails::ID, 1, 0),
        &causes,
    );
    let ask = Mad::perf_port(PortFlowCtlCounters::ID, 1, 0);
    s.refuse(target, ask, Status::UNSUPPORTED_ATTRIBUTE);
    let text = ports(&s.model, s.now, Format::Json);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let row = |guid: &str| {
        let rows = all["ports"].as_array().unwrap();
        rows.iter().find(|r| r["guid"] == guid).unwrap().clone()
    };
    let port = row("0x0000000000000011");
    let fec = &port["fec"];
    assert_eq!(fec["mode"], "RS-FEC");
    assert_eq!(fec["counters"]["PortFECCorrectedSymbolCtr"], 165);
    // 4x EDR: 4 * 25.78125 Gb/s for 10 s are 1.03125e12 bits; 165 of them are 1.6e-10.
    let raw = fec["raw_ber"].as_f64().unwrap();
    assert!((raw / 1.6e-10 - 1.0).abs() < 1e-9, "{raw}");
    assert_eq!(fec["effective_ber"]["state"], "below");
    let limit = fec["effective_ber"]["value"].as_f64().unwrap();
    assert!((limit * 1.031_25e12 - 1.0).abs() < 1e-9, "{limit}");
    assert_eq!(fec["interval_s"], 10.0);
    let details = &port["details"];
    assert_eq!(details["PortRcvErrorDetails"]["PortLoopingErrors"], 3);
    let pegged = serde_json::json!({"value": 65535, "state": "saturated"});
    assert_eq!(
        details["PortRcvErrorDetails"]["PortVLMappingErrors"],
        pegged
    );
    assert_eq!(
        details["PortFlowCtlCounters"]["missing"],
        "method and attribute not supported"
    );
    // A port that nobody asked or looked at says nothing, and no zeros.
    let other = row("0x0000000000000010");
    assert!(other["fec"].is_null() && other.get("details").is_none());
    assert!(other["tx_packet_bytes"].is_null());
}

#[test]
fn both_ends_of_a_link_tell_the_same_diagnosis_in_the_json() {
    let mut s = Session::fabric();
    let (leaf, host) = (key(SWITCH, 2), key(HOST, 1));
    let mut counters = PortCounters::new();
    s.at(10.0).narrow(leaf, &counters);
    s.narrow(host, &counters);
    counters.set_symbol_error(40).set_rcv_errors(3);
    s.at(20.0).narrow(leaf, &counters);
    s.narrow(host, &PortCounters::new());
    let text = ports(&s.model, s.now, Format::Json);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let told: Vec<(String, u64, &serde_json::Value)> = all["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            let name = r["name"].as_str().unwrap().to_owned();
            (name, r["port"].as_u64().unwrap(), &r["diagnosis"])
        })
        .collect();
    let words = serde_json::json!([
        "Suspect the cable or node7 mlx5_0[1]'s transmitter, then leaf[2]'s receiver: leaf[2] \
         counts 40 SymbolErrorCounter, 3 PortRcvErrors, node7 mlx5_0[1] counts none."
    ]);
    // Of every other port there is nothing to say, which is an empty list and not a missing one.
    let nothing = serde_json::json!([]);
    for (name, port, diagnosis) in told {
        let ours = matches!((name.as_str(), port), ("leaf", 2) | ("node7 mlx5_0", 1));
        let want = if ours { &words } else { &nothing };
        assert_eq!(diagnosis, want, "{name} {port}");
    }
}
