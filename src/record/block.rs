//! pcapng blocks, as far as a recording needs them: section header, interface, enhanced packet.
//! Written little-endian; reading is [`super::reader`]'s.

/// Section Header Block.
pub const SHB: u32 = 0x0A0D_0D0A;
/// Its byte-order magic.
pub const MAGIC: u32 = 0x1A2B_3C4D;
/// Interface Description Block.
pub const IDB: u32 = 1;
/// Simple Packet Block: no time, so of no use here.
pub const SPB: u32 = 3;
/// Enhanced Packet Block.
pub const EPB: u32 = 6;

/// Option codes.
pub mod option {
    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;
    pub const IF_NAME: u16 = 2;
    pub const EPB_FLAGS: u16 = 2;
    pub const IF_DESCRIPTION: u16 = 3;
    pub const SHB_USERAPPL: u16 = 4;
    pub const EPB_DROPCOUNT: u16 = 4;
    pub const EPB_PACKETID: u16 = 5;
    pub const IF_TSRESOL: u16 = 9;
    pub const IF_TSOFFSET: u16 = 14;
}

/// Appends a block whose body `fill` writes.
fn put_block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    fill(out);
    pad(out, start);
    let len = (out.len() - start + 4) as u32;
    out.extend_from_slice(&len.to_le_bytes());
    if let Some(at) = out.get_mut(start + 4..start + 8) {
        at.copy_from_slice(&len.to_le_bytes());
    }
}

/// Fills up to a multiple of four from `start`.
fn pad(out: &mut Vec<u8>, start: usize) {
    let len = out.len() - start;
    out.resize(start + len.next_multiple_of(4), 0);
}

fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    let start = out.len();
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, start);
}

/// Appends a section header.
pub fn put_section(out: &mut Vec<u8>, comment: &str, application: &str) {
    put_block(out, SHB, |out| {
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&1u16.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        // Section length: not known.
        out.extend_from_slice(&(-1i64).to_le_bytes());
        put_option(out, option::COMMENT, comment.as_bytes());
        put_option(out, option::SHB_USERAPPL, application.as_bytes());
        put_option(out, option::END, &[]);
    });
}

/// Appends an interface with times in nanoseconds.
pub fn put_interface(out: &mut Vec<u8>, link: u16, name: &str, description: &str) {
    put_block(out, IDB, |out| {
        out.extend_from_slice(&link.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        // No limit of length.
        out.extend_from_slice(&0u32.to_le_bytes());
        put_option(out, option::IF_NAME, name.as_bytes());
        put_option(out, option::IF_DESCRIPTION, description.as_bytes());
        put_option(out, option::IF_TSRESOL, &[9]);
        put_option(out, option::END, &[]);
    });
}

/// The options of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketOptions {
    /// epb_flags: 1 inbound, 2 outbound.
    pub flags: Option<u32>,
    /// epb_dropcount.
    pub dropped: Option<u64>,
    /// epb_packetid.
    pub id: Option<u64>,
}

/// Appends a packet: `fill` writes its bytes, `len` of them.
pub fn put_packet(
    out: &mut Vec<u8>,
    interface: u32,
    nanos: u64,
    len: usize,
    options: PacketOptions,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    put_block(out, EPB, |out| {
        let start = out.len();
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&((nanos >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(nanos as u32).to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        fill(out);
        debug_assert_eq!(out.len() - start - 20, len);
        pad(out, start);
        let PacketOptions { flags, dropped, id } = options;
        if let Some(flags) = flags {
            put_option(out, option::EPB_FLAGS, &flags.to_le_bytes());
        }
        if let Some(dropped) = dropped {
            put_option(out, option::EPB_DROPCOUNT, &dropped.to_le_bytes());
        }
        if let Some(id) = id {
            put_option(out, option::EPB_PACKETID, &id.to_le_bytes());
        }
        if flags.is_some() || dropped.is_some() || id.is_some() {
            put_option(out, option::END, &[]);
        }
    });
}
