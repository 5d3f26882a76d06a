//! The frame that Wireshark sees around one MAD: link type 252 tags, LRH, GRH, BTH, DETH, MAD,
//! CRCs (InfiniBand Architecture Specification, volume 1, chapters 7 to 9).
//!
//! Only what the umad header told goes in; the CRCs are zero, since nobody saw them.

use crate::mad::MAD_LEN;
use crate::port::{Address, Grh, LocalPort, PERMISSIVE_LID, QP1_QKEY};

/// `LINKTYPE_WIRESHARK_UPPER_PDU`: tags that name a dissector, then that dissector's bytes.
pub const LINK_UPPER_PDU: u16 = 252;
/// `LINKTYPE_ERF`, as `ibdump` writes it.
pub const LINK_ERF: u16 = 197;
/// ERF record type of InfiniBand.
const ERF_INFINIBAND: u8 = 21;

/// Tag 12 of link type 252: the dissector's name.
const TAG_DISSECTOR: u16 = 12;
/// Tags before an InfiniBand packet: its dissector's name, then the end tag.
const INFINIBAND: &[u8; 20] = b"\x00\x0c\x00\x0cinfiniband\x00\x00\x00\x00\x00\x00";
/// Tags before a JSON text.
pub const JSON: &[u8; 12] = b"\x00\x0c\x00\x04json\x00\x00\x00\x00";

const LRH: usize = 8;
const GRH: usize = 40;
const BTH: usize = 12;
const DETH: usize = 8;
const ICRC: usize = 4;
const VCRC: usize = 2;
/// UD Send Only: how every MAD travels.
const UD_SEND_ONLY: u8 = 0x64;
/// GRH.NxtHdr: an IBA transport follows.
const IBA_TRANSPORT: u8 = 0x1B;

/// Which way a MAD went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To this host: epb_flags 1.
    Inbound,
    /// From this host: epb_flags 2.
    Outbound,
}

/// What the frames say of the own port.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    lid: u16,
    gid: [u8; 16],
    pkey: u16,
}

impl Default for Own {
    fn default() -> Own {
        Own {
            lid: 0,
            gid: [0; 16],
            pkey: 0xFFFF,
        }
    }
}

impl Own {
    /// As the local port's device describes it.
    pub fn of(port: &LocalPort) -> Own {
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&port.gid_prefix.to_be_bytes());
        gid[8..].copy_from_slice(&port.port_guid.to_be_bytes());
        Own {
            lid: port.lid,
            gid,
            pkey: if port.pkey_limited { 0x7FFF } else { 0xFFFF },
        }
    }
}

/// Length of the frame of a MAD to or from `addr`.
pub fn mad_frame_len(addr: &Address) -> usize {
    let grh = if addr.grh.is_some() { GRH } else { 0 };
    INFINIBAND.len() + LRH + grh + BTH + DETH + MAD_LEN + ICRC + VCRC
}

/// Appends the frame of one MAD of up to 256 bytes; a shorter one is filled with zeros.
pub fn put_mad(out: &mut Vec<u8>, own: &Own, direction: Direction, addr: &Address, mad: &[u8]) {
    let qp0 = addr.qpn == 0;
    let sent = direction == Direction::Outbound;
    let own_lid = if addr.lid == PERMISSIVE_LID {
        PERMISSIVE_LID
    } else {
        own.lid | u16::from(addr.path_bits)
    };
    let (slid, dlid) = if sent {
        (own_lid, addr.lid)
    } else {
        (addr.lid, own_lid)
    };
    let grh = addr.grh.as_ref();
    let words = (LRH + grh.map_or(0, |_| GRH) + BTH + DETH + MAD_LEN + ICRC) / 4;

    out.extend_from_slice(INFINIBAND);
    out.push(if qp0 { 15 << 4 } else { 0 });
    out.push((addr.sl & 0xF) << 4 | if grh.is_some() { 3 } else { 2 });
    out.extend_from_slice(&dlid.to_be_bytes());
    out.extend_from_slice(&(words as u16).to_be_bytes());
    out.extend_from_slice(&slid.to_be_bytes());

    if let Some(grh) = grh {
        let version_class_flow =
            6 << 28 | u32::from(grh.traffic_class) << 20 | (grh.flow_label & 0xF_FFFF);
        out.extend_from_slice(&version_class_flow.to_be_bytes());
        out.extend_from_slice(&((BTH + DETH + MAD_LEN + ICRC) as u16).to_be_bytes());
        out.push(IBA_TRANSPORT);
        out.push(grh.hop_limit);
        let (from, to) = if sent {
            (&own.gid, &grh.gid)
        } else {
            (&grh.gid, &own.gid)
        };
        out.extend_from_slice(from);
        out.extend_from_slice(to);
    }

    let own_qp = u32::from(!qp0);
    let (source_qp, dest_qp) = if sent {
        (own_qp, addr.qpn)
    } else {
        (addr.qpn, own_qp)
    };
    let pkey = if qp0 { 0xFFFF } else { own.pkey };
    out.extend_from_slice(&[UD_SEND_ONLY, 0]);
    out.extend_from_slice(&pkey.to_be_bytes());
    out.extend_from_slice(&(dest_qp & 0xFF_FFFF).to_be_bytes());
    out.extend_from_slice(&[0; 4]);

    out.extend_from_slice(&natural_qkey(qp0).to_be_bytes());
    out.extend_from_slice(&(source_qp & 0xFF_FFFF).to_be_bytes());

    let mad = mad.get(..MAD_LEN).unwrap_or(mad);
    out.extend_from_slice(mad);
    out.resize(out.len() + (MAD_LEN - mad.len()) + ICRC + VCRC, 0);
}

/// The Q_Key that MADs of a queue pair carry: 0 on QP0, the well-known one elsewhere.
fn natural_qkey(qp0: bool) -> u32 {
    if qp0 { 0 } else { QP1_QKEY }
}

/// What kind of payload a packet of link type 252 holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A packet from its LRH on.
    Infiniband(&'a [u8]),
    /// A JSON text.
    Json(&'a [u8]),
    /// Another dissector's bytes, or tags that make no sense.
    Other,
}

/// What a captured packet holds, by its link type.
pub fn payload(link: u16, data: &[u8]) -> Payload<'_> {
    match link {
        LINK_UPPER_PDU => upper_pdu(data),
        LINK_ERF => erf(data).map_or(Payload::Other, Payload::Infiniband),
        _ => Payload::Other,
    }
}

fn upper_pdu(data: &[u8]) -> Payload<'_> {
    let mut rest = data;
    let mut name: &[u8] = &[];
    while let Some((head, tail)) = rest.split_first_chunk::<4>() {
        let tag = u16::from_be_bytes([head[0], head[1]]);
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if tag == 0 {
            // The name is padded with zeros to a multiple of four.
            let end = name.iter().rposition(|b| *b != 0).map_or(0, |p| p + 1);
            return match name.get(..end).unwrap_or_default() {
                b"infiniband" => Payload::Infiniband(tail),
                b"json" => Payload::Json(tail),
                _ => Payload::Other,
            };
        }
        let Some(value) = tail.get(..len) else {
            return Payload::Other;
        };
        if tag == TAG_DISSECTOR {
            name = value;
        }
        rest = tail.get(len..).unwrap_or_default();
    }
    Payload::Other
}

/// The bytes behind an ERF header of InfiniBand: 16 bytes, then extension headers of 8, each of
/// which says in its top bit whether another follows.
fn erf(data: &[u8]) -> Option<&[u8]> {
    let kind = *data.get(8)?;
    if kind & 0x7F != ERF_INFINIBAND {
        return None;
    }
    let mut more = kind & 0x80 != 0;
    let mut at = 16;
    while more {
        more = data.get(at)? & 0x80 != 0;
        at += 8;
    }
    data.get(at..)
}

/// A MAD as its frame shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    slid: u16,
    dlid: u16,
    sl: u8,
    dest_qp: u32,
    source_qp: u32,
    qkey: u32,
    grh: Option<FramedGrh>,
    /// The MAD.
    pub mad: &'a [u8; MAD_LEN],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FramedGrh {
    sgid: [u8; 16],
    dgid: [u8; 16],
    hop_limit: u8,
    traffic_class: u8,
    flow_label: u32,
}

/// Why a packet is no MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMad {
    /// It is another kind of packet, or of another queue pair.
    Other,
    /// It ends before its MAD does.
    Cut,
}

/// Reads a packet from its LRH on.
pub fn parse(data: &[u8]) -> Result<Framed<'_>, NoMad> {
    let (lrh, rest) = data.split_first_chunk::<LRH>().ok_or(NoMad::Cut)?;
    let be16 = |hi: u8, lo: u8| u16::from_be_bytes([hi, lo]);
    let be24 = |b: &[u8]| b.iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
    let (grh, rest) = match lrh[1] & 3 {
        2 => (None, rest),
        3 => {
            let (g, rest) = rest.split_first_chunk::<GRH>().ok_or(NoMad::Cut)?;
            if g[6] != IBA_TRANSPORT {
                return Err(NoMad::Other);
            }
            let mut sgid = [0; 16];
            let mut dgid = [0; 16];
            sgid.copy_from_slice(&g[8..24]);
            dgid.copy_from_slice(&g[24..40]);
            let head = be24(&g[..4]);
            let grh = FramedGrh {
                sgid,
                dgid,
                hop_limit: g[7],
                traffic_class: (head >> 20) as u8,
                flow_label: head & 0xF_FFFF,
            };
            (Some(grh), rest)
        }
        // Raw packets.
        _ => return Err(NoMad::Other),
    };
    let (bth, rest) = rest.split_first_chunk::<BTH>().ok_or(NoMad::Cut)?;
    if bth[0] != UD_SEND_ONLY {
        return Err(NoMad::Other);
    }
    let (deth, rest) = rest.split_first_chunk::<DETH>().ok_or(NoMad::Cut)?;
    let dest_qp = be24(&bth[5..8]);
    let source_qp = be24(&deth[5..8]);
    // A redirected GMP has an end elsewhere, but one end of a MAD is QP0 or QP1.
    if dest_qp > 1 && source_qp > 1 {
        return Err(NoMad::Other);
    }
    let mad = rest.first_chunk::<MAD_LEN>().ok_or(NoMad::Cut)?;
    Ok(Framed {
        slid: be16(lrh[6], lrh[7]),
        dlid: be16(lrh[2], lrh[3]),
        sl: lrh[1] >> 4,
        dest_qp,
        source_qp,
        qkey: be24(&deth[..4]),
        grh,
        mad,
    })
}

impl Framed<'_> {
    /// BaseVersion 1 is the only one there is: anything else behind QP0 or QP1 is no MAD.
    pub fn is_plausible(&self) -> bool {
        self.mad[0] == 1
    }

    /// The remote end, as far as the frame tells: P_Key index, path bits and GID index are 0.
    pub fn address(&self, direction: Direction) -> Address {
        let sent = direction == Direction::Outbound;
        Address {
            lid: if sent { self.dlid } else { self.slid },
            qpn: if sent { self.dest_qp } else { self.source_qp },
            qkey: self.qkey,
            sl: self.sl,
            path_bits: 0,
            pkey_index: 0,
            grh: self.grh.map(|g| Grh {
                gid: if sent { g.dgid } else { g.sgid },
                gid_index: 0,
                hop_limit: g.hop_limit,
                traffic_class: g.traffic_class,
                flow_label: g.flow_label,
            }),
        }
    }
}

/// What [`Framed::address`] will say of a MAD that [`put_mad`] framed.
pub fn address_in_frame(addr: &Address) -> Address {
    let qpn = addr.qpn & 0xFF_FFFF;
    Address {
        lid: addr.lid,
        qpn,
        qkey: natural_qkey(addr.qpn == 0),
        sl: addr.sl & 0xF,
        path_bits: 0,
        pkey_index: 0,
        grh: addr.grh.map(|g| Grh {
            gid_index: 0,
            flow_label: g.flow_label & 0xF_FFFF,
            ..g
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        Own {
            lid: 0x0010,
            gid: [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xC9, 3, 0, 0, 0, 0xF1],
            pkey: 0xFFFF,
        }
    }

    fn frame(direction: Direction, addr: &Address) -> Vec<u8> {
        let mut out = Vec::new();
        put_mad(&mut out, &own(), direction, addr, &[1; 256]);
        assert_eq!(out.len(), mad_frame_len(addr));
        out
    }

    // Expected bytes by hand from the specification: LRH 7.7, GRH 8.3, BTH 9.2, DETH 9.3.2.

    #[test]
    fn a_sent_gmp_without_a_global_route() {
        let addr = Address {
            path_bits: 1,
            ..Address::gmp(0x0123, 2, 0)
        };
        let out = frame(Direction::Outbound, &addr);
        assert_eq!(&out[..20], b"\0\x0c\0\x0cinfiniband\0\0\0\0\0\0");
        // VL 0, version 0; SL 2, LNH 2 (IBA local); DLID; 72 words; SLID with path bit 1.
        assert_eq!(out[20..28], [0x00, 0x22, 0x01, 0x23, 0x00, 72, 0x00, 0x11]);
        // UD Send Only; no pad, transport version 0; P_Key; destination QP1; PSN 0.
        assert_eq!(out[28..40], [0x64, 0, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0]);
        // The well-known Q_Key; source QP1.
        assert_eq!(out[40..48], [0x80, 0x01, 0, 0, 0, 0, 0, 1]);
        assert_eq!(out[48..304], [1; 256]);
        assert_eq!(out[304..], [0; 6]);
    }

    #[test]
    fn a_received_directed_smp() {
        let out = frame(Direction::Inbound, &Address::directed());
        // VL 15; SL 0, LNH 2; both LIDs permissive.
        assert_eq!(out[20..28], [0xF0, 0x02, 0xFF, 0xFF, 0x00, 72, 0xFF, 0xFF]);
        assert_eq!(out[28..40], [0x64, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(out[40..48], [0; 8]);
    }

    #[test]
    fn a_received_gmp_with_a_global_route() {
        let addr = Address {
            grh: Some(Grh {
                gid: [0x20; 16],
                gid_index: 0,
                hop_limit: 64,
                traffic_class: 0xAB,
                flow_label: 0xC_DEF0,
            }),
            ..Address::gmp(0x0123, 0, 0)
        };
        let out = frame(Direction::Inbound, &addr);
        // LNH 3 (IBA global); 82 words; from the remote LID to the own one.
        assert_eq!(out[20..28], [0x00, 0x03, 0x00, 0x10, 0x00, 82, 0x01, 0x23]);
        // IPVer 6, traffic class, flow label; 280 bytes from BTH to ICRC; next header; hops.
        assert_eq!(out[28..36], [0x6A, 0xBC, 0xDE, 0xF0, 0x01, 0x18, 0x1B, 64]);
        assert_eq!(out[36..52], [0x20; 16]);
        assert_eq!(out[52..68], own().gid);
        assert_eq!(out[68], 0x64);
    }

    #[test]
    fn erf_headers_are_skipped_with_their_extensions() {
        // Type 21 with one extension header (bit 7), which has no successor.
        let mut data = vec![0; 24];
        data[8] = 0x80 | 21;
        data.push(0x77);
        assert_eq!(payload(LINK_ERF, &data), Payload::Infiniband(&[0x77]));
        data[8] = 21;
        data.truncate(16);
        assert_eq!(payload(LINK_ERF, &data), Payload::Infiniband(&[]));
        data[8] = 2;
        assert_eq!(payload(LINK_ERF, &data), Payload::Other, "Ethernet");
        assert_eq!(payload(1, &data), Payload::Other, "another link type");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_not(data in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            for link in [LINK_UPPER_PDU, LINK_ERF] {
                if let Payload::Infiniband(bytes) = payload(link, &data) {
                    let _ = parse(bytes);
                }
            }
            let _ = parse(&data);
        }
    }
}
