//! A made-up fabric as rows: every state that a screen must tell, in a few dozen ports.

use std::time::Duration;

use fabtop::event::{Severity, SweepKind};
use fabtop::fabric::{LinkSpeed, LinkWidth, NodeId, NodeKind, PortKey};
use fabtop::mad::FecMode;
use fabtop::model::view::{
    AlertCounts, AlertRow, CounterView, DestinationRow, DetailGroup, DetailRow, EndDetail,
    FailureKind, FailureView, FecView, Finding, Flags, HeaderView, InFlightRow, LogLine, PeerView,
    PortDetail, PortRow, SmView, SubnetSize, SweepView, TotalsView, TrafficRow, Wanted,
};
use fabtop::model::{Baseline, Ber, Num, Part};
use fabtop::port::{Agent, AgentReport, LocalPort, Stamp};
use fabtop::tui::Facts;

/// 2024-05-17 14:03:07 UTC.
pub const WALL: i64 = 1_715_954_587_000_000_000;
/// The moment at which screens are drawn.
pub const NOW: Stamp = Stamp::from_secs(100);

#[derive(Clone, Debug)]
pub struct Fixture {
    pub revision: u64,
    pub closed: Option<String>,
    pub simulated: bool,
    pub gone: Option<(Duration, String)>,
    pub dropped: u64,
    pub malformed: u64,
    pub local: Option<LocalPort>,
    pub agents: Vec<AgentReport>,
    pub size: SubnetSize,
    pub ports: Vec<PortRow<'static>>,
    pub traffic: Vec<TrafficRow<'static>>,
    pub in_flight: Vec<InFlightRow<'static>>,
    pub destinations: Vec<DestinationRow<'static>>,
    pub log: Vec<LogLine>,
    pub alerts: Vec<AlertRow<'static>>,
    pub findings: Vec<Finding>,
    pub names: Vec<(NodeId, &'static str)>,
}

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn guid(n: u64) -> NodeId {
    NodeId::new(0x0002_c903_00a0_0000 + n)
}

impl Fixture {
    /// Nothing was read yet.
    pub fn empty() -> Fixture {
        Fixture {
            revision: 0,
            closed: None,
            simulated: false,
            gone: None,
            dropped: 0,
            malformed: 0,
            local: None,
            agents: Vec::new(),
            size: SubnetSize::default(),
            ports: Vec::new(),
            traffic: Vec::new(),
            in_flight: Vec::new(),
            destinations: Vec::new(),
            log: Vec::new(),
            alerts: Vec::new(),
            findings: Vec::new(),
            names: Vec::new(),
        }
    }

    /// A fabric of `leaves` leaf switches with `hosts` hosts each and two spines, healthy.
    pub fn healthy(leaves: u64, hosts: u8) -> Fixture {
        let mut f = Fixture::empty();
        f.revision = 1;
        f.local = Some(LocalPort {
            ca: "mlx5_0".into(),
            port: 1,
            node_guid: guid(0).guid.0,
            port_guid: guid(0).guid.0,
            gid_prefix: 0xfe80_0000_0000_0000,
            lid: 12,
            lmc: 0,
            sm_lid: 1,
            sm_sl: 0,
            state: 4,
            cap_mask: 0,
            pkey_index: Some(0),
            pkey_limited: false,
            pkeys: vec![0xFFFF],
        });
        for leaf in 0..leaves {
            let leaf_id = guid(1000 + leaf);
            let leaf_name = leak(format!("leaf-{:02}", leaf + 1));
            f.names.push((leaf_id, leaf_name));
            for host in 0..hosts {
                let n = leaf * u64::from(hosts) + u64::from(host) + 1;
                let host_id = guid(n);
                let host_name = leak(format!("node{n:05} mlx5_0"));
                f.names.push((host_id, host_name));
                f.link(
                    (leaf_id.port(host + 1), leaf_name, NodeKind::Switch),
                    (host_id.port(1), host_name, NodeKind::Ca),
                    n,
                );
            }
            for spine in 0..2u8 {
                let spine_id = guid(2000 + u64::from(spine));
                let spine_name = leak(format!("spine-{}", spine + 1));
                f.link(
                    (leaf_id.port(hosts + spine + 1), leaf_name, NodeKind::Switch),
                    (
                        spine_id.port(u8::try_from(leaf).unwrap() + 1),
                        spine_name,
                        NodeKind::Switch,
                    ),
                    7 * (leaf + 1) + u64::from(spine),
                );
            }
        }
        f.size = SubnetSize {
            aggregators: 0,
            switches: usize::try_from(leaves).unwrap() + 2,
            cas: usize::try_from(leaves).unwrap() * usize::from(hosts),
            routers: 0,
            links: f.ports.len() / 2,
            ports: f.ports.len(),
            connected: f.ports.len(),
            missing: 0,
            protected: 0,
        };
        f
    }

    fn link(
        &mut self,
        a: (PortKey, &'static str, NodeKind),
        b: (PortKey, &'static str, NodeKind),
        n: u64,
    ) {
        for ((key, name, kind), (peer, peer_name, _)) in [(a, b), (b, a)] {
            let tx = (n * 7919 % 100) as f64 * 1.7e9;
            let rx = (n * 104_729 % 100) as f64 * 0.9e9;
            let (tx, rx) = if kind == NodeKind::Ca {
                (rx, tx)
            } else {
                (tx, rx)
            };
            let peer = Some(PeerView {
                key: peer,
                name: peer_name,
                former: false,
            });
            self.ports.push(PortRow {
                told: None,
                elsewhere: false,
                key,
                name,
                kind,
                state: Some(4),
                phys: Some(5),
                width: Some(LinkWidth::X4),
                speed: Some(LinkSpeed::Hdr),
                peer,
                lid: Some(u16::try_from(key.node.guid.0 & 0xfff).unwrap()),
                errors: Num::Is(0),
                errors_per_s: Num::Is(0.0),
                flags: Flags::default(),
                protected: false,
                age: Some(secs(2)),
                state_age: Some(secs(2)),
                counters_age: Some(secs(2)),
                stale: false,
            });
            self.traffic.push(TrafficRow {
                key,
                name,
                kind,
                peer,
                tx_bps: Num::Is(tx),
                rx_bps: Num::Is(rx),
                capacity_bps: Some(200e9),
                tx_pps: Num::Is(tx / 32_768.0),
                rx_pps: Num::Is(rx / 32_768.0),
                tx_packet: Num::Is(4096.0),
                rx_packet: Num::Is(4096.0),
                tx_multicast: Num::Is(0.0),
                rx_multicast: Num::Is((n % 7) as f64 / 1000.0),
                wait: Num::Is((n % 5) as f64 / 100.0),
                history: (0..24u64)
                    .map(|i| ((n + i) * 31 % 90) as f32 / 100.0)
                    .collect(),
                age: Some(secs(2)),
                stale: false,
            });
            if kind == NodeKind::Ca || key.port == 1 {
                self.destinations.push(DestinationRow {
                    node: Some(key.node),
                    name,
                    lid: u16::try_from(key.node.guid.0 & 0xfff).unwrap(),
                    sent: 40 + n,
                    answered: 40 + n,
                    retried: 0,
                    timed_out: 0,
                    in_flight: 0,
                    p50: Some(Duration::from_micros(80 + n)),
                    p99: Some(Duration::from_micros(400 + 3 * n)),
                    max: Some(Duration::from_micros(900 + 9 * n)),
                    failure: None,
                    back_off: None,
                    missing: None,
                });
            }
        }
    }

    /// The same with everything that can be wrong.
    pub fn sick() -> Fixture {
        let mut f = Fixture::healthy(4, 6);
        f.simulated = true;
        f.size.missing = 1;
        f.malformed = 2;
        {
            let p = &mut f.ports;
            p[0].errors = Num::Is(1_284);
            p[0].errors_per_s = Num::Is(12.4);
            p[0].flags.errors = true;
            p[2].width = Some(LinkWidth::X1);
            p[2].flags.below_best = true;
            p[3].width = Some(LinkWidth::X1);
            p[3].flags.below_best = true;
            // A host that does not answer: its numbers are old.
            p[5].flags.no_answer = true;
            p[5].stale = true;
            p[5].age = Some(secs(75));
            p[5].errors = Num::Stale(3);
            p[5].errors_per_s = Num::Unknown;
            // A pulled cable.
            for i in [6, 7] {
                p[i].state = Some(1);
                p[i].phys = Some(2);
                p[i].width = None;
                p[i].speed = None;
                p[i].flags.down = true;
                p[i].peer.as_mut().unwrap().former = true;
            }
            p[7].flags.unreachable = true;
            p[8].errors = Num::AtLeast(65_535);
            p[8].flags.errors = true;
            p[8].flags.saturated = true;
            p[9].errors_per_s = Num::Reset;
            p[10].state = Some(2);
            p[10].flags.not_active = true;
            p[12].name = "node\u{1b}[31m\u{7}evil\u{202e}";
            p[14].name = "节点-七号 mlx5_0";
            p[16].state = None;
            p[16].phys = None;
            p[16].width = None;
            p[16].speed = None;
            p[16].peer = None;
            p[16].lid = None;
            p[16].errors = Num::Unknown;
            p[16].errors_per_s = Num::Unknown;
            p[16].age = None;
            p[18].speed = Some(LinkSpeed::Fdr10);
        }
        {
            let t = &mut f.traffic;
            t[0].tx_bps = Num::Is(197.4e9);
            t[0].wait = Num::Is(0.42);
            t[2].tx_bps = Num::Reset;
            t[2].rx_bps = Num::Reset;
            t[5].stale = true;
            t[5].age = Some(secs(75));
            t[5].tx_bps = Num::Stale(t[5].tx_bps.get().unwrap());
            t[5].rx_bps = Num::Stale(t[5].rx_bps.get().unwrap());
            t[6].tx_bps = Num::Unknown;
            t[6].rx_bps = Num::Unknown;
            t[6].tx_pps = Num::Unknown;
            t[6].rx_pps = Num::Unknown;
            t[6].wait = Num::Unknown;
            t[6].history = vec![f32::NAN; 24];
            t[8].history.truncate(5);
            t[9].capacity_bps = None;
        }
        let dead = f.ports[5].key.node;
        let slow = f.ports[9].key.node;
        for d in &mut f.destinations {
            if d.node == Some(dead) {
                d.timed_out = 12;
                d.retried = 8;
                d.sent += 12;
                d.in_flight = 1;
                d.failure = Some(FailureView {
                    kind: FailureKind::NoAnswer,
                    detail: "",
                    attribute: "PortCounters",
                    age: secs(7),
                });
                d.back_off = Some((4, secs(13)));
            } else if d.node == Some(slow) {
                d.p50 = Some(Duration::from_millis(140));
                d.p99 = Some(Duration::from_millis(810));
                d.max = Some(Duration::from_millis(1_950));
                d.retried = 2;
                d.timed_out = 2;
                d.failure = Some(FailureView {
                    kind: FailureKind::Busy,
                    detail: "the node asks to try again",
                    attribute: "PortInfo",
                    age: secs(95),
                });
            }
        }
        f.destinations.push(DestinationRow {
            node: None,
            name: "SA",
            lid: 1,
            sent: 9,
            answered: 8,
            retried: 0,
            timed_out: 0,
            in_flight: 0,
            p50: Some(Duration::from_micros(300)),
            p99: Some(Duration::from_micros(1_400)),
            max: Some(Duration::from_micros(1_400)),
            failure: Some(FailureView {
                kind: FailureKind::Unsupported,
                detail: "",
                attribute: "InformInfo",
                age: secs(90),
            }),
            back_off: None,
            missing: None,
        });
        for (i, age) in [940, 310, 8].into_iter().enumerate() {
            f.in_flight.push(InFlightRow {
                tid: 0x1a2b + u32::try_from(i).unwrap(),
                who: f.destinations[i].name,
                node: f.destinations[i].node,
                port: 1,
                class: if i == 1 { 0x81 } else { 0x04 },
                attribute: if i == 1 { 0x15 } else { 0x12 },
                modifier: 1,
                attempt: if i == 0 { 3 } else { 1 },
                overdue: false,
                age: Duration::from_millis(age),
            });
        }
        let line = |first, last, count, severity, about, text: &str| LogLine {
            first: Stamp::from_secs(first),
            last: Stamp::from_secs(last),
            count,
            severity,
            about,
            text: text.into(),
        };
        let key = |i: usize| Some(f.ports[i].key);
        f.log = vec![
            line(1, 1, 1, Severity::Info, None, "session opened on umad0"),
            line(
                3,
                3,
                1,
                Severity::Info,
                None,
                "discovery found 6 switches and 24 CAs",
            ),
            line(
                40,
                92,
                17,
                Severity::Warning,
                key(0),
                "SymbolErrorCounter rises",
            ),
            line(55, 55, 1, Severity::Critical, key(6), "link went down"),
            line(
                93,
                93,
                1,
                Severity::Warning,
                key(5),
                "does not answer: 4 requests failed in a row",
            ),
            line(
                97,
                97,
                1,
                Severity::Info,
                None,
                "bookmark: \u{1b}]0;evil\u{7}",
            ),
        ];
        let alert = |id, kind, severity, about: Option<usize>, opened, seen, text: &str| AlertRow {
            id,
            kind,
            severity,
            about: about.map(|i| f.ports[i].key),
            name: about.map(|i| f.ports[i].name),
            opened: Stamp::from_secs(opened),
            seen: Stamp::from_secs(seen),
            cleared: None,
            times: 1,
            text: text.into(),
        };
        let mut flap = alert(
            4,
            "LinkDownedCounter",
            Severity::Warning,
            Some(3),
            12,
            30,
            "link flaps: LinkDownedCounter rose by 3 within 15 min, limit 2",
        );
        flap.cleared = Some(Stamp::from_secs(80));
        flap.times = 4;
        f.alerts = vec![
            alert(
                1,
                "link_down",
                Severity::Critical,
                Some(6),
                55,
                85,
                "link to spine1[3] is down",
            ),
            alert(
                2,
                "SymbolErrorCounter",
                Severity::Warning,
                Some(0),
                40,
                92,
                "SymbolErrorCounter rose by 412 within 1 h, limit 10",
            ),
            alert(
                3,
                "sa_silent",
                Severity::Info,
                None,
                60,
                60,
                "the subnet administration (SA) does not answer",
            ),
            flap,
        ];
        f.findings = vec![Finding {
            suspect: "suspect the cable or leaf0[1]'s transmitter, then spine0[1]'s receiver"
                .into(),
            why: "spine0[1] counts 412 SymbolErrorCounter, leaf0[1] counts none".into(),
        }];
        f.agents.push(AgentReport {
            agent: Agent::SubnAdm,
            refused: Some("EPERM: Operation not permitted".into()),
            reports: false,
        });
        f
    }
}

impl Facts for Fixture {
    fn revision(&self) -> u64 {
        self.revision
    }
    fn closed(&self) -> Option<&str> {
        self.closed.as_deref()
    }
    fn name(&self, node: NodeId) -> &str {
        self.names
            .iter()
            .find(|(id, _)| *id == node)
            .map(|(_, name)| *name)
            .or_else(|| Some(self.ports.iter().find(|r| r.key.node == node)?.name))
            .unwrap_or("")
    }
    fn header(&self, now: Stamp) -> HeaderView<'_> {
        let known = self.local.is_some();
        let sweep = |kind, age: u64| SweepView {
            kind,
            number: 3,
            running: false,
            done: 60,
            expected: 60,
            age: secs(age),
            took: Some(Duration::from_millis(310)),
            failed: u32::from(self.simulated && kind == SweepKind::Counters),
        };
        HeaderView {
            source: if self.simulated {
                "SIMULATED default".into()
            } else {
                "umad0".into()
            },
            simulated: self.simulated,
            host: "login1",
            local: self.local.as_ref(),
            gone: self.gone.as_ref().map(|(d, w)| (*d, w.as_str())),
            sm: known.then_some(SmView {
                silent: false,
                lid: 1,
                guid: 0x0002_c903_00a0_0001,
                priority: 5,
                state: 3,
                activity: 812,
                age: secs(4),
            }),
            size: self.size,
            sweeps: match known {
                true => vec![
                    sweep(SweepKind::Discovery, 90),
                    sweep(SweepKind::States, 12),
                    sweep(SweepKind::Counters, 2),
                ],
                false => Vec::new(),
            },
            mads_per_s: if known {
                Num::Is(1_234.0)
            } else {
                Num::Unknown
            },
            smp_in_flight: (if known { 2 } else { 0 }, 8),
            gmp_in_flight: (if known { 14 } else { 0 }, 64),
            overdue: 0,
            smp_rate: (if known { Num::Is(120.0) } else { Num::Unknown }, 5_000),
            gmp_rate: (
                if known {
                    Num::Is(1_114.0)
                } else {
                    Num::Unknown
                },
                20_000,
            ),
            alerts: {
                let count = |s| {
                    let open = self.alerts.iter().filter(|a| a.cleared.is_none());
                    open.filter(|a| a.severity == s).count()
                };
                AlertCounts {
                    critical: count(Severity::Critical),
                    warning: count(Severity::Warning),
                    info: count(Severity::Info),
                }
            },
            unrecorded: None,
            dropped: self.dropped,
            malformed: self.malformed,
            refused: self.agents.iter().collect(),
            stretched: None,
            uptime: now.since(Stamp::ZERO),
            wall: WALL,
        }
    }
    fn ports(&self, _: Option<&Baseline>, _: Stamp) -> Vec<PortRow<'_>> {
        self.ports.clone()
    }
    fn port_count(&self) -> usize {
        self.ports.len()
    }
    fn port_list(&self) -> Vec<PortKey> {
        let mut list: Vec<_> = self.ports.iter().map(|r| r.key).collect();
        list.sort_unstable();
        list
    }
    fn layout(&self) -> u64 {
        self.revision
    }
    fn changed(&self, _: NodeId) -> u64 {
        self.revision
    }
    fn shape(&self, _: NodeId) -> u64 {
        self.revision
    }
    fn port(&self, key: PortKey, _: Option<&Baseline>, _: Stamp) -> Option<PortRow<'_>> {
        self.ports.iter().find(|r| r.key == key).cloned()
    }
    fn each_port<'m>(
        &'m self,
        node: NodeId,
        _: Option<&Baseline>,
        _: Stamp,
        _: Wanted,
        each: &mut dyn FnMut(PortRow<'m>),
    ) {
        let mut rows: Vec<_> = self.ports.iter().filter(|r| r.key.node == node).collect();
        rows.sort_by_key(|r| r.key);
        rows.into_iter().for_each(|r| each(r.clone()));
    }
    fn each_traffic<'m>(
        &'m self,
        node: NodeId,
        _: Stamp,
        _: Wanted,
        each: &mut dyn FnMut(TrafficRow<'m>),
    ) {
        let mut rows: Vec<_> = self.traffic.iter().filter(|r| r.key.node == node).collect();
        rows.sort_by_key(|r| r.key);
        rows.into_iter().for_each(|r| each(r.clone()));
    }
    fn traffic_of(&self, key: PortKey, _: Stamp) -> Option<TrafficRow<'_>> {
        self.traffic.iter().find(|r| r.key == key).cloned()
    }
    fn totals_of(&self, _: NodeId, _: Stamp) -> Part {
        Part::default()
    }
    fn traffic(&self, _: Stamp) -> Vec<TrafficRow<'_>> {
        self.traffic.clone()
    }
    fn totals(&self, _: Stamp) -> TotalsView {
        if self.traffic.is_empty() {
            return TotalsView::default();
        }
        TotalsView {
            injected_bps: Num::Is(1.234e12),
            delivered_bps: Num::Is(1.229e12),
            injected_pps: Num::Is(37.6e6),
            delivered_pps: Num::Is(37.5e6),
            busiest: Num::Is(0.987),
            busiest_port: Some(self.traffic[0].key),
            counted: if self.simulated { (23, 24) } else { (24, 24) },
        }
    }
    fn in_flight(&self, _: Stamp) -> Vec<InFlightRow<'_>> {
        self.in_flight.clone()
    }
    fn destinations(&self, _: Stamp) -> Vec<DestinationRow<'_>> {
        self.destinations.clone()
    }
    fn alerts(&self) -> Vec<AlertRow<'_>> {
        self.alerts.clone()
    }
    fn suspicion(&self, alert: &AlertRow<'_>) -> Option<String> {
        (alert.kind == "SymbolErrorCounter").then(|| self.findings[0].suspect.clone())
    }
    fn log(&self) -> impl Iterator<Item = &LogLine> {
        self.log.iter()
    }
    fn latest(&self) -> Option<&LogLine> {
        self.log.last()
    }
    fn wall(&self, at: Stamp) -> i64 {
        WALL - i64::try_from(NOW.since(at).as_nanos()).unwrap()
    }
    fn interval(&self) -> Duration {
        secs(5)
    }
    fn baseline(&self, now: Stamp) -> Baseline {
        Baseline::nothing_at(now)
    }
    fn detail(&self, key: PortKey, _: Option<&Baseline>, _: Stamp) -> Option<PortDetail<'_>> {
        let end = |key: PortKey| {
            let row = self.ports.iter().find(|r| r.key == key)?;
            let traffic = self.traffic.iter().find(|r| r.key == key)?;
            let counter = |name, value, since, rate, unit, error| CounterView {
                name,
                value,
                since,
                rate,
                unit,
                error,
            };
            Some(EndDetail {
                best: row
                    .flags
                    .below_best
                    .then_some((LinkWidth::X4, LinkSpeed::Hdr)),
                row: row.clone(),
                traffic: traffic.clone(),
                node: vec![
                    ("Node GUID", key.node.to_string()),
                    ("Device", "0x1017 rev 0".into()),
                    ("Route", "0,1,3".into()),
                ],
                port_info: vec![
                    ("LID", row.lid.map_or("-".into(), |l| l.to_string())),
                    ("MasterSMLID", "1".into()),
                    ("CapabilityMask", "0x2651e848".into()),
                    ("NeighborMTU", "4096".into()),
                    ("VLCap", "VL0-3".into()),
                ],
                counters: vec![
                    counter(
                        "SymbolErrorCounter",
                        row.errors,
                        row.errors,
                        row.errors_per_s,
                        "",
                        true,
                    ),
                    counter(
                        "LinkDownedCounter",
                        Num::AtLeast(255),
                        Num::Is(0),
                        Num::Is(0.0),
                        "",
                        true,
                    ),
                    counter(
                        "PortXmitData",
                        Num::Is(123_456_789_012_345),
                        Num::Is(9_876_543_210),
                        Num::Is(3.4e9),
                        "words",
                        false,
                    ),
                    counter(
                        "PortRcvData",
                        Num::Is(18_446_744_073_709_551_615),
                        Num::Reset,
                        Num::Reset,
                        "words",
                        false,
                    ),
                    counter(
                        "PortXmitWait",
                        Num::Unknown,
                        Num::Unknown,
                        Num::Unknown,
                        "ticks",
                        false,
                    ),
                ],
                fec: Some(FecView {
                    mode: Some(FecMode::Rs),
                    counters: vec![
                        counter(
                            "PortFECCorrectableBlockCtr",
                            Num::Is(81_234),
                            Num::Is(240),
                            Num::Is(8.0),
                            "",
                            false,
                        ),
                        counter(
                            "PortFECUncorrectableBlockCtr",
                            Num::Is(0),
                            Num::Is(0),
                            Num::Is(0.0),
                            "",
                            true,
                        ),
                        counter(
                            "PortFECCorrectedSymbolCtr",
                            Num::Is(86_311),
                            Num::Is(255),
                            Num::Is(8.5),
                            "",
                            false,
                        ),
                    ],
                    // 30 s and 10 min of 4x HDR at 212.5 Gb/s.
                    raw: Ber::of(Num::Is(255), 6.375e12),
                    effective: Ber::of(Num::Is(0), 6.375e12),
                    raw_since: Ber::of(Num::Is(5_100), 1.275e14),
                    effective_since: Ber::of(Num::Is(0), 1.275e14),
                    span: secs(30),
                    observed: secs(600),
                    age: Some(secs(12)),
                    stale: false,
                }),
                details: vec![
                    DetailGroup {
                        attribute: "PortXmitDiscardDetails",
                        title: "Transmit discards by cause",
                        missing: None,
                        age: Some(secs(2)),
                        stale: false,
                        rows: vec![DetailRow {
                            name: "PortInactiveDiscards".into(),
                            label: "port was not active".into(),
                            value: Num::Is(12),
                            rate: Num::Is(0.4),
                            unit: "packets",
                        }],
                    },
                    DetailGroup {
                        attribute: "PortVLXmitWaitCounters",
                        title: "Waited to transmit per VL",
                        missing: None,
                        age: Some(secs(2)),
                        stale: false,
                        rows: (0..16)
                            .map(|vl| DetailRow {
                                name: format!("PortVLXmitWait{vl}"),
                                label: format!("VL{vl}"),
                                value: match vl {
                                    0 => Num::AtLeast(65_535),
                                    1 => Num::Is(700),
                                    _ => Num::Is(0),
                                },
                                rate: match vl {
                                    0 => Num::Unknown,
                                    _ => Num::Is(0.0),
                                },
                                unit: "ticks",
                            })
                            .collect(),
                    },
                    DetailGroup {
                        attribute: "PortFlowCtlCounters",
                        title: "Flow control",
                        missing: Some("method and attribute not supported".into()),
                        age: None,
                        stale: false,
                        rows: Vec::new(),
                    },
                ],
                port_info_age: row.age,
                counters_age: row.age,
            })
        };
        let near = end(key)?;
        let far = near.row.peer.and_then(|p| end(p.key));
        Some(PortDetail {
            near,
            far,
            findings: self.findings.clone(),
        })
    }
}
