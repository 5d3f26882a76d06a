//! Any bytes may be sent and anything may happen: nothing panics, and every request that is
//! waited for ends as a reply or a timeout.

use proptest::prelude::*;

use super::*;
use crate::fabric::{LinkSpeed, PortKey};
use crate::mad::LinkWidth;
use std::time::Duration;

/// A port of the built-in fabric, or one that is not there.
fn port() -> impl Strategy<Value = PortKey> {
    (0..81usize, 0..66u8).prop_map(|(node, port)| {
        let fabric = default_fabric();
        fabric.id(node).unwrap_or_default().port(port)
    })
}

fn action() -> impl Strategy<Value = Action> {
    let width = (0..32u8).prop_map(LinkWidth::new);
    prop_oneof![
        port().prop_map(Action::LinkDown),
        port().prop_map(Action::LinkUp),
        port().prop_map(|port| Action::Flap {
            port,
            down: Duration::ZERO,
            up: Duration::from_millis(3),
            times: 5,
        }),
        port().prop_map(|p| Action::Kill(p.node)),
        port().prop_map(|p| Action::Revive(p.node)),
        port().prop_map(|p| Action::PowerOff(p.node)),
        port().prop_map(|p| Action::PowerOn(p.node)),
        (port(), width).prop_map(|(port, width)| Action::Width { port, width }),
        port().prop_map(|port| Action::Speed {
            port,
            speed: LinkSpeed::Unknown,
        }),
        (port(), any::<f64>()).prop_map(|(port, per_second)| Action::Errors {
            port,
            counter: Counter::RcvErrors,
            per_second,
        }),
        (port(), any::<u64>()).prop_map(|(port, by)| Action::Count {
            port,
            counter: Counter::XmitData,
            by,
        }),
        port().prop_map(Action::ResetCounters),
        (port(), any::<u16>()).prop_map(|(port, lid)| Action::SetLid { port, lid }),
        (port(), any::<u64>()).prop_map(|(p, guid)| Action::Replace { node: p.node, guid }),
        (port(), any::<u16>()).prop_map(|(port, trap)| Action::TrapFlood {
            port,
            trap,
            per_second: 1_000_000,
            count: 20,
        }),
        (port(), any::<u64>(), any::<u8>()).prop_map(|(p, m_key, bits)| Action::Protect {
            node: p.node,
            m_key,
            bits,
        }),
        Just(Action::SmFailover),
        Just(Action::SmRestart),
        Just(Action::SmHang),
        Just(Action::SmUsurp),
        Just(Action::SmResume),
    ]
}

/// A MAD of one of our classes with bytes of any kind after the first four.
fn mad() -> impl Strategy<Value = (Vec<u8>, u16)> {
    (
        prop_oneof![
            Just([1, 0x81, 1, 1]),
            Just([1, 0x01, 1, 1]),
            Just([1, 0x01, 1, 2]),
            Just([1, 0x04, 1, 1]),
            Just([1, 0x04, 1, 2]),
            Just([1, 0x03, 2, 1]),
            Just([1, 0x03, 2, 2]),
            Just([1, 0x03, 2, 0x12]),
            any::<[u8; 4]>()
        ],
        // Attribute ids of the usual range, and few modifiers beyond port numbers.
        prop_oneof![0..0x40u16, any::<u16>()],
        prop_oneof![0..70u32, any::<u32>()],
        proptest::collection::vec(any::<u8>(), 256),
        prop_oneof![0..90u16, any::<u16>()],
    )
        .prop_map(|(head, id, modifier, mut bytes, lid)| {
            bytes[..4].copy_from_slice(&head);
            bytes[16..18].copy_from_slice(&id.to_be_bytes());
            bytes[20..24].copy_from_slice(&modifier.to_be_bytes());
            if head[1] == 0x81 {
                // A way into the fabric, as far as the bytes give one.
                bytes[6] = 0;
                bytes[7] %= 5;
                bytes[32..36].fill(0xFF);
                for b in &mut bytes[129..134] {
                    *b = 1 + *b % 40;
                }
                bytes[129] = 1;
            }
            (bytes, lid)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_sent_and_happens_every_request_comes_to_an_end(
        steps in proptest::collection::vec((mad(), proptest::option::of(action())), 1..30),
        loss in prop_oneof![Just(0.0), 0.0..1.0],
    ) {
        let options = SimOptions { loss, ..SimOptions::default() };
        let mut client = Client::new(default_fabric(), options);
        client.subscribe_blindly();
        let mut expected = 0usize;
        for ((bytes, lid), action) in steps {
            if let Some(action) = action {
                client.port.act(client.now, action);
            }
            let mad = Mad::from_bytes(&bytes).unwrap();
            let class = mad.class();
            let addr = match class {
                crate::mad::MgmtClass::SubnDirected => Address::directed(),
                crate::mad::MgmtClass::SubnLid => Address::smp(lid),
                _ => Address::gmp(lid, 0, 0),
            };
            // The local agent's silence is never reported.
            let local = class == crate::mad::MgmtClass::SubnDirected && mad.view().hop_count() == 0;
            let waited_for = !mad.is_response() && !local;
            if client.send(addr, mad).is_ok() && waited_for {
                expected += 1;
            }
            client.now = client.now + Duration::from_millis(7);
        }
        let end = client.now + Duration::from_secs(5);
        let mut ended = 0usize;
        while client.now < end {
            match client.port.recv(client.now).unwrap() {
                Some(Arrival::Mad { mad, .. }) if mad.is_response() => ended += 1,
                Some(Arrival::Mad { .. }) => {}
                Some(_) => ended += 1,
                None => match client.port.due() {
                    Some(due) => client.now = client.now.max(due),
                    None => break,
                },
            }
        }
        prop_assert!(ended >= expected, "{ended} of {expected}");
        prop_assert_eq!(client.port.in_flight(), 0);
    }
}

impl Client {
    /// Subscribes to everything without waiting for the answer.
    fn subscribe_blindly(&mut self) {
        let inform = crate::mad::InformInfo::all_generic(true);
        let mut mad = Mad::sa(Method::Set, 0x03, 0, 0, u64::from(u32::MAX));
        mad.set_data(&inform);
        let lid = self.port.local(self.now).unwrap().sm_lid;
        let out = Outgoing {
            addr: Address::gmp(lid, 0, 0),
            mad,
            timeout_ms: 0,
        };
        self.port.send(self.now, &out).unwrap();
    }
}
