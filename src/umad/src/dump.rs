//! The C library's debug text of a header and an address.

use std::fmt::Write;

use crate::abi::{Address, Grh, Header};

/// As `umad_addr_dump` words an address: three lines. The flow label is shown as the C library
/// shows it: its network-order bytes read as a number of this machine.
pub fn address(a: &Address) -> String {
    let none = Grh {
        hop_limit: 0,
        ..Grh::to([0; 16])
    };
    fields(a, u8::from(a.grh.is_some()), &a.grh.unwrap_or(none))
}

/// The same, with a route header that may be there and yet not count.
pub(crate) fn fields(a: &Address, grh_present: u8, g: &Grh) -> String {
    let mut text = format!(
        "qpn {} qkey 0x{:x} lid {} sl {}\n\
         grh_present {grh_present} gid_index {} hop_limit {} traffic_class {} \
         flow_label 0x{:x} pkey_index 0x{:x}\nGid 0x",
        a.qpn,
        a.qkey,
        a.lid,
        a.sl,
        g.gid_index,
        g.hop_limit,
        g.traffic_class,
        g.flow_label.to_be(),
        a.pkey_index,
    );
    for byte in g.gid {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// As `umad_dump` words a header before its address: one line.
pub fn header(h: &Header) -> String {
    format!(
        "agent id {} status {:x} timeout {}",
        h.agent_id, h.status, h.timeout_ms
    )
}

/// As `umad_dump` words a header: agent, status, timeout, then the address.
pub fn buffer(h: &Header) -> String {
    format!("{}\n{}", header(h), address(&h.addr))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text printed by the C library for the same header (the parts after its prefix).
    #[test]
    fn as_the_c_library_words_it() {
        let mut gid = [0; 16];
        gid[0] = 0xfe;
        gid[15] = 0x1a;
        let h = Header {
            agent_id: 2,
            status: 110,
            timeout_ms: 250,
            retries: 0,
            length: 0,
            addr: Address {
                qpn: 1,
                qkey: 0x8001_0000,
                lid: 12,
                sl: 3,
                path_bits: 0,
                pkey_index: 10,
                grh: Some(Grh {
                    gid,
                    gid_index: 1,
                    hop_limit: 64,
                    traffic_class: 5,
                    flow_label: 0x12,
                }),
            },
        };
        let flow = if cfg!(target_endian = "little") {
            "0x12000000"
        } else {
            "0x12"
        };
        assert_eq!(
            buffer(&h),
            format!(
                "agent id 2 status 6e timeout 250\n\
                 qpn 1 qkey 0x80010000 lid 12 sl 3\n\
                 grh_present 1 gid_index 1 hop_limit 64 traffic_class 5 flow_label {flow} \
                 pkey_index 0xa\nGid 0xfe00000000000000000000000000001a"
            )
        );
    }
}
