//! The two messages that ibsim and its clients exchange, as bytes.
//!
//! Control messages hold native integers; a data message holds the integers of a umad header
//! as they stand there, that is big-endian, each in a native 32-bit slot.

use crate::mad::{MAD_LEN, Mad, MgmtClass};
use crate::port::{Address, PERMISSIVE_LID, QP1_QKEY};

/// Length of a control message.
pub(super) const CTL_LEN: usize = 80;
/// Length of a data message.
pub(super) const DATA_LEN: usize = 288;
/// Payload of a control message.
pub(super) const CTL_DATA: usize = 64;
/// Longest name of a node to attach at; one more byte ends it.
pub(super) const MAX_NODE_NAME: usize = 31;

const MAGIC: u32 = 0xdead_beef;

/// What a control message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ctl {
    Connect = 1,
    Disconnect = 2,
    NodeInfo = 7,
    PortInfo = 8,
    Pkeys = 10,
}

/// A control message's bytes.
pub(super) fn encode_ctl(slot: u32, ctl: Ctl, len: usize, data: &[u8]) -> [u8; CTL_LEN] {
    let mut raw = [0; CTL_LEN];
    let len = u32::try_from(len.min(CTL_DATA)).unwrap_or(0);
    for (at, word) in [MAGIC, slot, ctl as u32, len].into_iter().enumerate() {
        put_ne32(&mut raw, at * 4, word);
    }
    for (to, from) in raw.iter_mut().skip(16).zip(data) {
        *to = *from;
    }
    raw
}

/// The answer to a control message: `Some(Err(()))` if the server refused it, `None` if these
/// bytes are no answer to it.
pub(super) fn decode_ctl(raw: &[u8], asked: Ctl) -> Option<Result<[u8; CTL_DATA], ()>> {
    let raw: &[u8; CTL_LEN] = raw.try_into().ok()?;
    if ne32(raw, 0) != MAGIC {
        return None;
    }
    match ne32(raw, 8) {
        0 => Some(Err(())),
        t if t == asked as u32 => {
            let mut data = [0; CTL_DATA];
            for (to, from) in data.iter_mut().zip(raw.iter().skip(16)) {
                *to = *from;
            }
            Some(Ok(data))
        }
        _ => None,
    }
}

/// The data of a CONNECT: who we are, whether we take the IsSM role, and where to attach.
pub(super) fn encode_connect(id: u32, issm: bool, node: &str) -> [u8; CTL_DATA] {
    let mut data = [0; CTL_DATA];
    put_ne32(&mut data, 0, id);
    put_ne32(&mut data, 8, u32::from(issm));
    for (to, from) in data
        .iter_mut()
        .skip(12)
        .zip(node.bytes().take(MAX_NODE_NAME))
    {
        *to = from;
    }
    data
}

/// The slot and the node that a CONNECT's answer names.
pub(super) fn decode_connect(data: &[u8; CTL_DATA]) -> (u32, String) {
    let name = data.get(12..12 + 32).unwrap_or_default();
    let name = name.split(|&b| b == 0).next().unwrap_or_default();
    (ne32(data, 0), String::from_utf8_lossy(name).into_owned())
}

/// A received data message.
pub(super) struct Data {
    /// 0, or the errno with which the fabric gave the MAD back: 110, ETIMEDOUT.
    pub(super) status: u32,
    pub(super) from: Address,
    pub(super) mad: Mad,
}

/// A data message's bytes: `mad` is cut at 256 bytes or filled up with zeros.
pub(super) fn encode_data(slot: u32, to: &Address, mad: &Mad) -> [u8; DATA_LEN] {
    let mut raw = [0; DATA_LEN];
    put_ne32(&mut raw, 0, u32::from(to.lid.to_be()));
    // A LID-routed MAD's source is the server's to fill in.
    if to.lid == PERMISSIVE_LID {
        put_ne32(&mut raw, 4, u32::from(PERMISSIVE_LID));
    }
    put_ne32(&mut raw, 8, to.qpn.to_be());
    let own_qpn = u32::from(!mad.class().is_smp());
    put_ne32(&mut raw, 12, own_qpn.to_be());
    for (to, from) in raw.iter_mut().skip(24).zip((MAD_LEN as u64).to_be_bytes()) {
        *to = from;
    }
    for (to, from) in raw.iter_mut().skip(32).zip(mad.bytes()) {
        *to = *from;
    }
    if mad.is_response() {
        // A response on a directed route begins at the far end; ibsim wants it at the near one.
        if mad.class() == MgmtClass::SubnDirected {
            for pointer in raw.iter_mut().skip(32 + 6).take(1) {
                *pointer = 0;
            }
        }
    } else {
        // Replies find their way back by these bits; those of a response are the asker's.
        let slot = (slot as u16).to_be_bytes();
        for (to, from) in raw.iter_mut().skip(32 + 8).zip(slot) {
            *to = from;
        }
    }
    raw
}

/// Reads a data message.
///
/// # Errors
/// In words, why these bytes are none.
pub(super) fn decode_data(raw: &[u8]) -> Result<Data, String> {
    let raw: &[u8; DATA_LEN] = raw
        .try_into()
        .map_err(|_| format!("an ibsim message has {DATA_LEN} bytes, not {}", raw.len()))?;
    let mut len = [0; 8];
    for (to, from) in len.iter_mut().zip(raw.iter().skip(24)) {
        *to = *from;
    }
    // Senders that leave the length out mean all of it.
    let len = match usize::try_from(u64::from_be_bytes(len)) {
        Ok(n @ 24..MAD_LEN) => n,
        _ => MAD_LEN,
    };
    let bytes = raw.get(32..32 + len).unwrap_or_default();
    let mad = Mad::from_bytes(bytes).map_err(|e| e.to_string())?;
    let lid = u16::from_be(ne32(raw, 4) as u16);
    let qpn = u32::from_be(ne32(raw, 12));
    Ok(Data {
        status: u32::from_be(ne32(raw, 16)),
        from: Address {
            qpn,
            qkey: if qpn == 0 { 0 } else { QP1_QKEY },
            ..Address::smp(lid)
        },
        mad,
    })
}

fn ne32(raw: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    for (to, from) in word.iter_mut().zip(raw.iter().skip(at)) {
        *to = *from;
    }
    u32::from_ne_bytes(word)
}

fn put_ne32(raw: &mut [u8], at: usize, value: u32) {
    for (to, from) in raw.iter_mut().skip(at).zip(value.to_ne_bytes()) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mad::{Method, Status};

    /// Offsets and byte order as the protocol states them: the LID's two bytes first, QPs and
    /// status big-endian, the slot in the top 16 bits of the TID.
    #[test]
    fn data_layout() {
        let mad = Mad::perf_port(0x12, 3, 0x1111_2222_3333_4444);
        let raw = encode_data(7, &Address::gmp(0x0102, 0, 0), &mad);
        assert_eq!(raw[0..4], [1, 2, 0, 0]);
        assert_eq!(raw[4..8], [0; 4]);
        assert_eq!(raw[8..12], [0, 0, 0, 1]);
        assert_eq!(raw[12..16], [0, 0, 0, 1]);
        assert_eq!(raw[16..24], [0; 8]);
        assert_eq!(raw[24..32], [0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(raw[32], 1);
        assert_eq!(raw[33], MgmtClass::Perf.code());
        assert_eq!(raw[40..48], [0, 7, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44]);

        let mad = Mad::smp_dr(Method::Get, 0x11, 0, &[1], 9).unwrap();
        let raw = encode_data(0, &Address::directed(), &mad);
        assert_eq!(raw[0..8], [0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);
        assert_eq!(raw[8..16], [0; 8]);
    }

    #[test]
    fn a_response_keeps_the_askers_tid() {
        let ask = Mad::smp_lid(Method::Get, 0x20, 0, 0x0003_0000_0000_0001);
        let answer = Mad::response_to(&ask.view(), Status::OK);
        let raw = encode_data(7, &Address::smp(1), &answer);
        assert_eq!(raw[40..48], [0, 3, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_directed_response_starts_with_pointer_0() {
        let ask = Mad::smp_dr(Method::Get, 0x20, 0, &[1, 2], 1).unwrap();
        let mut answer = Mad::response_to(&ask.view(), Status::OK);
        answer.set_hop_pointer(3);
        let raw = encode_data(7, &Address::directed(), &answer);
        assert_eq!(raw[32 + 6..32 + 8], [0, 2]);
    }

    #[test]
    fn undeliverable_is_told() {
        let mad = Mad::smp_lid(Method::Get, 0x11, 0, 5);
        let mut raw = encode_data(1, &Address::smp(9), &mad);
        raw[16..20].copy_from_slice(&[0, 0, 0, 110]);
        let data = decode_data(&raw).unwrap();
        assert_eq!(data.status, 110);
        assert_eq!(data.mad.tid_low(), 5);
    }

    proptest! {
        #[test]
        fn any_bytes(raw in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode_ctl(&raw, Ctl::Connect);
            prop_assert_eq!(decode_data(&raw).is_ok(), raw.len() == DATA_LEN);
        }

        #[test]
        fn any_message(raw in proptest::array::uniform32(any::<[u8; 9]>())) {
            let data = decode_data(raw.as_flattened());
            prop_assert!(data.is_ok_and(|d| (24..=256).contains(&d.mad.len())));
        }

        #[test]
        fn any_connect(raw in any::<[u8; 32]>()) {
            let mut data = [0; CTL_DATA];
            data[12..44].copy_from_slice(&raw);
            decode_connect(&data);
        }
    }
}
