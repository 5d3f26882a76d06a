//! Events for tests: arbitrary ones, and a small session written by hand.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use fabtop::event::*;
use fabtop::fabric::sa::SaTable;
use fabtop::fabric::thresholds::{Over, Rule, Suppress, Thresholds};
use fabtop::fabric::{Guid, NodeId, PortKey, Target};
use fabtop::mad::{Attribute, Mad, Method, MgmtClass, NodeInfo, NodeType, PortCountersExtended};
use fabtop::port::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn node() -> impl Strategy<Value = NodeId> {
    (
        prop_oneof![0u64..8, any::<u64>()],
        prop_oneof![Just(0u8), any::<u8>()],
    )
        .prop_map(|(guid, twin)| NodeId {
            guid: Guid(guid),
            twin,
        })
}

fn key() -> impl Strategy<Value = PortKey> {
    (node(), any::<u8>()).prop_map(|(node, port)| PortKey { node, port })
}

fn target() -> impl Strategy<Value = Target> {
    (option::of(node()), any::<u8>(), option::of(key()), 0u32..3).prop_map(
        |(node, port, via, generation)| Target {
            node,
            port,
            via,
            generation,
        },
    )
}

fn address() -> impl Strategy<Value = Address> {
    let grh = (
        any::<[u8; 16]>(),
        any::<u8>(),
        any::<u8>(),
        any::<u8>(),
        any::<u32>(),
    )
        .prop_map(
            |(gid, gid_index, hop_limit, traffic_class, flow_label)| Grh {
                gid,
                gid_index,
                hop_limit,
                traffic_class,
                flow_label,
            },
        );
    let free = (
        any::<u16>(),
        any::<u32>(),
        any::<u32>(),
        any::<u8>(),
        any::<u8>(),
        any::<u16>(),
        option::of(grh),
    )
        .prop_map(|(lid, qpn, qkey, sl, path_bits, pkey_index, grh)| Address {
            lid,
            qpn,
            qkey,
            sl,
            path_bits,
            pkey_index,
            grh,
        });
    prop_oneof![
        Just(Address::directed()),
        any::<u16>().prop_map(Address::smp),
        (any::<u16>(), 0u8..16, any::<u16>()).prop_map(|(l, s, p)| Address::gmp(l, s, p)),
        free,
    ]
}

/// MADs of any length from 24 bytes on, often of a class that has RMPP.
fn mad() -> impl Strategy<Value = Mad> {
    let class = prop_oneof![
        Just(0x81u8),
        Just(1),
        Just(3),
        Just(4),
        Just(0x0A),
        Just(0x32),
        any::<u8>()
    ];
    let len = prop_oneof![4 => Just(256usize), 1 => 24usize..256, 1 => 257usize..1500];
    (len, class, any::<u64>()).prop_flat_map(|(len, class, tid)| {
        vec(any::<u8>(), len).prop_map(move |mut bytes| {
            bytes[1] = class;
            bytes[8..16].copy_from_slice(&tid.to_be_bytes());
            Mad::from_bytes(&bytes).unwrap()
        })
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,40}", Just("\u{1b}[31m\"\\\u{0}\u{7f}".to_owned())]
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    let over = prop_oneof![
        Just(Over::Value),
        any::<u64>().prop_map(Over::Window),
        any::<u64>().prop_map(Over::Share),
        any::<u64>().prop_map(Over::Rate),
    ];
    let severity = prop_oneof![
        Just(Severity::Info),
        Just(Severity::Warning),
        Just(Severity::Critical)
    ];
    let rule =
        (text(), any::<u64>(), over, severity).prop_map(|(counter, limit, over, severity)| Rule {
            counter,
            limit,
            over,
            severity,
        });
    let suppress = (text(), option::of(node()), any::<Option<u8>>())
        .prop_map(|(name, node, port)| Suppress { name, node, port });
    (vec(rule, 0..4), any::<bool>(), vec(suppress, 0..3)).prop_map(
        |(rules, whole_values, suppress)| Thresholds {
            rules,
            whole_values,
            suppress,
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        any::<[u64; 3]>(),
        any::<[u16; 4]>(),
        any::<[u32; 3]>(),
        any::<u8>(),
        vec((any::<u64>(), text()), 0..4),
        thresholds(),
    )
        .prop_map(
            |(intervals, windows, rates, attempts, names, thresholds)| Settings {
                interval_ns: intervals[0],
                sweep_interval_ns: intervals[1],
                discovery_interval_ns: intervals[2],
                smp: Budget {
                    in_flight: windows[0],
                    per_node: windows[1],
                    rate: rates[0],
                },
                gmp: Budget {
                    in_flight: windows[2],
                    per_node: windows[3],
                    rate: rates[1],
                },
                timeout_ms: rates[2],
                attempts,
                names: names.into_iter().map(|(g, n)| (Guid(g), n)).collect(),
                thresholds,
                sm_key: attempts & 1 != 0,
            },
        )
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        (text(), any::<bool>()).prop_map(|(device, shim)| Source::Umad { device, shim }),
        text().prop_map(|server| Source::Ibsim { server }),
        text().prop_map(|fabric| Source::Simulated { fabric }),
    ]
}

fn local_port() -> impl Strategy<Value = LocalPort> {
    (
        text(),
        any::<[u64; 3]>(),
        any::<[u16; 2]>(),
        any::<[u8; 4]>(),
        any::<u32>(),
        any::<bool>(),
    )
        .prop_map(|(ca, guids, lids, bytes, cap_mask, limited)| LocalPort {
            ca,
            port: bytes[0],
            node_guid: guids[0],
            port_guid: guids[1],
            gid_prefix: guids[2],
            lid: lids[0],
            lmc: bytes[1],
            sm_lid: lids[1],
            sm_sl: bytes[2],
            state: bytes[3],
            cap_mask,
            pkey_index: limited.then_some(lids[0]),
            pkey_limited: limited,
            pkeys: LocalPort::pkeys(lids),
        })
}

fn kind() -> impl Strategy<Value = SweepKind> {
    prop_oneof![
        Just(SweepKind::Discovery),
        Just(SweepKind::Rediscovery),
        Just(SweepKind::States),
        Just(SweepKind::Counters),
    ]
}

/// Any event; numbers and times too.
pub fn what() -> impl Strategy<Value = What> {
    let sent = (address(), target(), any::<u8>(), 0u32..3, mad()).prop_map(
        |(addr, target, attempt, timeout_ms, mad)| {
            What::Sent(Sent {
                addr,
                target,
                attempt,
                timeout_ms,
                mad,
            })
        },
    );
    let received =
        (address(), mad()).prop_map(|(addr, mad)| What::Received(Received { addr, mad }));
    let known = (any::<u64>(), target(), mad(), address(), mad()).prop_map(
        |(at, target, request, addr, reply)| {
            What::Known(Box::new(Known {
                at: Stamp(at),
                target,
                request,
                addr,
                reply,
            }))
        },
    );
    let numbers = || {
        (
            any::<[u32; 4]>(),
            any::<u8>(),
            any::<u16>(),
            any::<bool>(),
            any::<u64>(),
        )
    };
    let rest = prop_oneof![
        (text(), source(), any::<i64>(), text(), settings()).prop_map(
            |(version, source, wall, host, settings)| What::Opened(Box::new(Opened {
                version,
                source,
                wall,
                host,
                settings
            }))
        ),
        (0usize..4, option::of(text()), any::<bool>()).prop_map(|(agent, refused, reports)| {
            What::Agent(Box::new(AgentReport {
                agent: Agent::ALL[agent],
                refused,
                reports,
            }))
        }),
        (numbers(), target(), text()).prop_map(|((n, class, attribute, last, _), target, why)| {
            What::SendFailed(Box::new(SendFailed {
                tid: n[0],
                target,
                class,
                attribute,
                modifier: n[1],
                attempt: class,
                last,
                why,
            }))
        }),
        (numbers(), target()).prop_map(|((n, class, attribute, last, waited_ns), target)| {
            What::TimedOut(TimedOut {
                tid: n[0],
                target,
                class,
                attribute,
                modifier: n[1],
                attempt: class,
                last,
                waited_ns,
                how: fabtop::event::HowLate::default(),
            })
        }),
        (any::<usize>(), text(), vec(any::<u8>(), 0..=64)).prop_map(|(len, why, head)| {
            What::Malformed(Box::new(Malformed { len, why, head }))
        }),
        local_port().prop_map(|p| What::LocalPort(Box::new(p))),
        text().prop_map(|why| What::DeviceGone { why: why.into() }),
        Just(What::DeviceBack),
        (node(), any::<bool>()).prop_map(|(node, guarded)| {
            What::Guarded(fabtop::event::Guarded { node, guarded })
        }),
        (node(), any::<u32>(), option::of(any::<u64>())).prop_map(|(node, failures, until)| {
            What::BackOff(BackOff {
                node,
                failures,
                until: until.map(Stamp),
            })
        }),
        (numbers(), any::<[u16; 3]>()).prop_map(|((n, _, smp_in_flight, held, interval_ns), w)| {
            What::Pace(Box::new(Pace {
                smp_in_flight,
                gmp_in_flight: w[0],
                smp_window: w[1],
                gmp_window: w[2],
                waiting: n[0],
                interval_ns,
                sweep_interval_ns: interval_ns.rotate_left(7),
                held,
            }))
        }),
        (kind(), any::<[u32; 2]>(), 0u32..3).prop_map(|(kind, n, generation)| {
            What::SweepBegan(SweepBegan {
                kind,
                number: n[0],
                expected: n[1],
                generation,
            })
        }),
        (kind(), numbers()).prop_map(|(kind, (n, _, _, _, digest))| {
            What::SweepEnded(SweepEnded {
                kind,
                number: n[0],
                answered: n[1],
                failed: n[2],
                skipped: n[3],
                digest,
            })
        }),
        Just(What::Tick),
        any::<i64>().prop_map(|wall| What::ClockStep { wall }),
        settings().prop_map(|s| What::Settings(Box::new(s))),
        text().prop_map(|t| What::Mark { text: t.into() }),
        text().prop_map(|t| What::Act { text: t.into() }),
        any::<u64>().prop_map(|count| What::Dropped { count }),
        (0u8..3, option::of(node()), text()).prop_map(|(s, node, text)| What::Note {
            severity: [Severity::Info, Severity::Warning, Severity::Critical][usize::from(s)],
            node,
            text: text.into(),
        }),
        (
            prop_oneof![
                (node(), any::<u8>(), any::<u16>()).prop_map(|(node, port, lid)| Topic::Path {
                    from: node.port(port),
                    lid,
                }),
                node().prop_map(|switch| Topic::Table { switch }),
                vec(0usize..SaTable::ALL.len(), 0..4).prop_map(|some| Topic::Sa {
                    tables: some.into_iter().map(|i| SaTable::ALL[i]).collect(),
                }),
                Just(Topic::Sms),
            ],
            option::of((any::<u32>(), any::<u32>())),
        )
            .prop_map(|(topic, ended)| What::Reading(Box::new(Reading {
                topic,
                ended: ended.map(|(answered, failed)| ReadingEnded { answered, failed }),
            }))),
        text().prop_map(|t| What::Closed { why: t.into() }),
    ];
    prop_oneof![3 => sent, 3 => received, 1 => known, 4 => rest]
}

/// A stream whose numbers mostly follow one another.
pub fn events(max: usize) -> impl Strategy<Value = Vec<Event>> {
    let step = prop_oneof![8 => Just(1u64), 1 => 0u64..1000, 1 => any::<u64>()];
    let pause = prop_oneof![8 => 0u64..1_000_000, 1 => any::<u64>()];
    vec((step, pause, what()), 0..max).prop_map(|list| {
        let (mut seq, mut at) = (0u64, 0u64);
        list.into_iter()
            .map(|(step, pause, what)| {
                let event = Event {
                    seq,
                    at: Stamp(at),
                    what,
                };
                seq = seq.wrapping_add(step);
                at = at.wrapping_add(pause);
                event
            })
            .collect()
    })
}

/// The opening that the sessions by hand begin with.
pub fn opened() -> Opened {
    Opened {
        version: "0.1.0".into(),
        source: Source::Simulated {
            fabric: "by hand".into(),
        },
        // 2025-11-29 22:00:00 UTC.
        wall: 1_764_453_600_000_000_000,
        host: "login1".into(),
        settings: Settings::default(),
    }
}

/// The local port of the sessions by hand: LID 5.
pub fn local() -> LocalPort {
    LocalPort {
        ca: "mlx5_0".into(),
        port: 1,
        node_guid: 0x0002_c903_0000_00f0,
        port_guid: 0x0002_c903_0000_00f1,
        gid_prefix: 0xfe80_0000_0000_0000,
        lid: 5,
        lmc: 0,
        sm_lid: 1,
        sm_sl: 0,
        state: 4,
        cap_mask: 0,
        pkey_index: Some(0),
        pkey_limited: false,
        pkeys: vec![0xFFFF, 0, 0x8001],
    }
}

/// Numbers events and spreads them in time.
pub struct Script {
    pub events: Vec<Event>,
    pub now: u64,
    tid: u64,
}

impl Script {
    pub fn new() -> Script {
        let mut script = Script {
            events: Vec::new(),
            now: 0,
            tid: 0x1000,
        };
        script.push(What::Opened(Box::new(opened())));
        script.push(What::LocalPort(Box::new(local())));
        script
    }

    pub fn push(&mut self, what: What) {
        self.events.push(Event {
            seq: self.events.len() as u64,
            at: Stamp(self.now),
            what,
        });
        self.now += 10_000;
    }

    pub fn ask(&mut self, addr: Address, target: Target, mut mad: Mad) -> Mad {
        self.tid += 1;
        mad.set_tid(self.tid);
        self.push(What::Sent(Sent {
            addr,
            target,
            attempt: 1,
            timeout_ms: 1000,
            mad: mad.clone(),
        }));
        mad
    }

    pub fn answer(&mut self, mut addr: Address, mad: Mad) {
        // The kernel tells no Q_Key of what it received.
        addr.qkey = 0;
        self.push(What::Received(Received { addr, mad }));
    }

    /// Discovers the local node, the switch behind it and the host behind the switch's port 2.
    pub fn discover(&mut self) {
        type Hop<'a> = (&'a [u8], Option<PortKey>, u64, NodeType, u8);
        let hops: [Hop<'_>; 3] = [
            (&[], None, 0x0002_c903_0000_00f0, NodeType::Ca, 1),
            (
                &[1],
                Some(NodeId::new(0x0002_c903_0000_00f0).port(1)),
                SWITCH,
                NodeType::Switch,
                1,
            ),
            (
                &[1, 2],
                Some(NodeId::new(SWITCH).port(2)),
                HOST,
                NodeType::Ca,
                1,
            ),
        ];
        for (path, via, guid, kind, entry) in hops {
            let target = via.map_or(Target::local(0), |via| Target::beyond(via, 0));
            let get = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, path, 0).unwrap();
            let get = self.ask(Address::directed(), target, get);
            let mut info = NodeInfo::new();
            info.set_node_type(kind)
                .set_node_guid(guid)
                .set_port_guid(guid + 1)
                .set_num_ports(if kind == NodeType::Switch { 36 } else { 1 })
                .set_local_port(entry);
            let reply = Mad::reply(&get.view(), &info);
            self.answer(Address::directed(), reply);
        }
    }

    /// Reads the counters of `port` of the node with LID `lid`.
    pub fn counters(&mut self, node: u64, port: u8, lid: u16, data: u64) {
        let get = Mad::perf_port(PortCountersExtended::ID, port, 0);
        let get = self.ask(
            Address::gmp(lid, 0, 0),
            Target::port(NodeId::new(node).port(port), 0),
            get,
        );
        let mut counters = PortCountersExtended::new();
        counters
            .set_port_select(port)
            .set_xmit_data(data)
            .set_rcv_data(data / 3)
            .set_xmit_pkts(data / 100)
            .set_rcv_pkts(data / 300);
        let reply = Mad::reply(&get.view(), &counters);
        self.answer(Address::gmp(lid, 0, 0), reply);
    }
}

/// A switch of the sessions by hand.
pub const SWITCH: u64 = 0x0002_c902_0000_0010;
/// A host behind its port 2.
pub const HOST: u64 = 0x0002_c903_0000_0100;

/// An SA answer of `records` records of 112 bytes (NodeRecord's).
pub fn node_table(records: usize) -> Mad {
    let mut bytes = vec![0; 56 + 112 * records];
    bytes[0..4].copy_from_slice(&[1, MgmtClass::SubnAdm.code(), 2, Method::GetTableResp.code()]);
    bytes[8..16].copy_from_slice(&0x77u64.to_be_bytes());
    bytes[16..18].copy_from_slice(&0x11u16.to_be_bytes());
    // RMPP: version 1, DATA, first and active; AttributeOffset 14 * 8 bytes.
    bytes[24..27].copy_from_slice(&[1, 1, 3]);
    bytes[28..32].copy_from_slice(&1u32.to_be_bytes());
    // PayloadLength of the first segment: all data, and 20 header bytes a segment.
    let segments = (112 * records).div_ceil(200);
    let payload = (112 * records + 20 * segments) as u32;
    bytes[32..36].copy_from_slice(&payload.to_be_bytes());
    bytes[44..46].copy_from_slice(&14u16.to_be_bytes());
    for (i, record) in bytes[56..].chunks_mut(112).enumerate() {
        record[0..2].copy_from_slice(&(i as u16 + 1).to_be_bytes());
    }
    Mad::from_bytes(&bytes).unwrap()
}
