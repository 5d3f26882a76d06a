//! Replies compared with ibsim's: captured with `smpdump` from ibsim 0.10 that ran
//! `assets/fabrics/built-in.net` with opensm.

use super::*;
use crate::mad::{NodeInfo, PortInfo};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|d| d as u8)
        .collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// A client attached where ibsim attaches its first one: at the file's first node.
fn client() -> Client {
    let (fabric, problems) = netfile::parse(include_str!("../../../assets/fabrics/built-in.net"));
    assert_eq!(problems, []);
    let options = SimOptions {
        local: Some(("spine01".into(), 0)),
        ..SimOptions::healthy()
    };
    Client::new(fabric, options)
}

fn agree(ours: &[u8], theirs: &str, at: &[std::ops::Range<usize>]) {
    let theirs = bytes(theirs);
    assert_eq!(theirs.len(), 64);
    for range in at {
        assert_eq!(
            ours[range.clone()],
            theirs[range.clone()],
            "bytes {range:?}"
        );
    }
}

/// All but PartitionCap and Revision, which ibsim makes up.
#[test]
fn node_info_is_ibsims() {
    let known = [0..28, 30..32, 36..40];
    let mut client = client();
    let switch = client.get(&[1], NodeInfo::ID, 0).unwrap();
    agree(
        switch.data(),
        "0101 0228 0002 c903 00a0 0140 0002 c903 00a0 0140 0002 c903 00a0 0140 0008 d2f0
         0000 00a1 2100 02c9 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000",
        &known,
    );
    let host = client.get(&[1, 1], NodeInfo::ID, 0).unwrap();
    agree(
        host.data(),
        "0101 0101 0002 c903 00b0 0050 0002 c903 00b0 0050 0002 c903 00b0 0051 0040 101b
         0000 00a1 0100 02c9 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000",
        &known,
    );
}

/// LID, the port the MAD came in by, active width, states, speeds and extended speeds. What a
/// device supports beyond that, MTU and VLs are each simulator's own choice.
#[test]
fn port_info_of_live_ports_is_ibsims() {
    let known = [16..18, 28..29, 31..36, 62..64];
    let mut client = client();
    let uplink = client.get(&[1], PortInfo::ID, 33).unwrap();
    agree(
        uplink.data(),
        "0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 2103 1f02
         7452 0047 4040 0008 0804 f240 0000 0000 0000 0000 0000 0000 0000 0000 0000 4707",
        &known,
    );
    let host = client.get(&[1, 1], PortInfo::ID, 1).unwrap();
    agree(
        host.data(),
        "0000 0000 0000 0000 fe80 0000 0000 0000 000a 0001 0050 c048 0000 0ff9 0103 1f02
         7452 0047 4040 0008 0804 e040 0000 0000 0000 201f 0000 0000 0000 0000 0030 4707",
        &known,
    );
    // The default subnet's prefix stands in an adapter's PortInfo.
    assert_eq!(host.data()[8..16], [0xfe, 0x80, 0, 0, 0, 0, 0, 0]);
}
