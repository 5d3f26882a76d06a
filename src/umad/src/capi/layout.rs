//! The structures of <infiniband/umad.h>.

use std::ffi::{c_char, c_int, c_uint};

use crate::ca::{Ca, CaPort};

pub(super) const NAME_LEN: usize = 20;
pub(super) const MAX_PORTS: usize = 10;

#[repr(C)]
pub struct UmadPort {
    pub(super) ca_name: [c_char; NAME_LEN],
    pub(super) portnum: c_int,
    pub(super) base_lid: c_uint,
    pub(super) lmc: c_uint,
    pub(super) sm_lid: c_uint,
    pub(super) sm_sl: c_uint,
    pub(super) state: c_uint,
    pub(super) phys_state: c_uint,
    pub(super) rate: c_uint,
    /// Big-endian, as the next two.
    pub(super) capmask: u32,
    pub(super) gid_prefix: u64,
    pub(super) port_guid: u64,
    pub(super) pkeys_size: c_uint,
    pub(super) pkeys: *mut u16,
    pub(super) link_layer: [c_char; NAME_LEN],
}

#[repr(C)]
pub struct UmadCa {
    pub(super) ca_name: [c_char; NAME_LEN],
    pub(super) node_type: c_uint,
    pub(super) numports: c_int,
    pub(super) fw_ver: [c_char; 20],
    pub(super) ca_type: [c_char; 40],
    pub(super) hw_ver: [c_char; 20],
    /// Big-endian, as the next one.
    pub(super) node_guid: u64,
    pub(super) system_guid: u64,
    pub(super) ports: [*mut UmadPort; MAX_PORTS],
}

#[repr(C)]
pub struct UmadCaPair {
    pub(super) smi_name: [c_char; NAME_LEN],
    pub(super) smi_preferred_port: u32,
    pub(super) gsi_name: [c_char; NAME_LEN],
    pub(super) gsi_preferred_port: u32,
}

#[repr(C)]
pub struct UmadDeviceNode {
    pub(super) next: *mut UmadDeviceNode,
    pub(super) ca_name: *const c_char,
}

#[repr(C)]
pub struct UmadRegAttr {
    pub(super) mgmt_class: u8,
    pub(super) mgmt_class_version: u8,
    pub(super) flags: u32,
    pub(super) method_mask: [u64; 2],
    pub(super) oui: u32,
    pub(super) rmpp_version: u8,
}

/// `ib_mad_addr_t`: 44 bytes, of which a file of the old layout has the first 36.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MadAddr {
    pub(super) qpn: u32,
    pub(super) qkey: u32,
    pub(super) lid: u16,
    pub(super) sl: u8,
    pub(super) path_bits: u8,
    pub(super) grh_present: u8,
    pub(super) gid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) gid: [u8; 16],
    pub(super) flow_label: u32,
    pub(super) pkey_index: u16,
    pub(super) reserved: [u8; 6],
}

/// `ib_user_mad_t` without its data.
#[repr(C)]
pub struct UserMad {
    pub(super) agent_id: u32,
    pub(super) status: u32,
    pub(super) timeout_ms: u32,
    pub(super) retries: u32,
    pub(super) length: u32,
    pub(super) addr: MadAddr,
}

const _: () = {
    assert!(size_of::<MadAddr>() == 44);
    assert!(size_of::<UserMad>() == 64);
    assert!(size_of::<UmadCaPair>() == 48);
    assert!(size_of::<UmadRegAttr>() == 32);
};

/// Text as a fixed field: cut to fit, NUL-terminated.
pub(super) fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text.bytes().take(N - 1)) {
        *to = from.cast_signed() as c_char;
    }
    out
}

/// A zeroed block of the C heap, to be released by `free`.
pub(super) fn allocate<T>(count: usize) -> *mut T {
    // SAFETY: no memory is passed; a null result is the caller's to check.
    unsafe { libc::calloc(count.max(1), size_of::<T>()).cast() }
}

/// The C form of a port; `None` where an attribute that C programs rely on cannot be read, or
/// without memory. The rate is not one of them: the kernel refuses it for an unknown width.
pub(super) fn port(p: &CaPort) -> Option<UmadPort> {
    let pkeys = allocate::<u16>(p.pkeys.len());
    if pkeys.is_null() || p.pkeys.is_empty() {
        // SAFETY: null or from calloc just now.
        unsafe { libc::free(pkeys.cast()) };
        return None;
    }
    let made = (|| {
        Some(UmadPort {
            ca_name: field(&p.ca),
            portnum: p.number.into(),
            base_lid: p.lid?.into(),
            lmc: p.lmc?.into(),
            sm_lid: p.sm_lid?.into(),
            sm_sl: p.sm_sl?.into(),
            state: p.state?.0,
            phys_state: p.phys_state?.0,
            rate: p.rate_mbps.unwrap_or(0) / 1000,
            capmask: p.cap_mask?.to_be(),
            gid_prefix: p.gid_prefix()?.to_be(),
            port_guid: p.port_guid()?.to_be(),
            pkeys_size: c_uint::try_from(p.pkeys.len()).ok()?,
            pkeys,
            link_layer: match &p.link_layer {
                Some(l) => field(&l.to_string()),
                None => field("IB"),
            },
        })
    })();
    if made.is_none() {
        // SAFETY: from calloc above, and not handed out.
        unsafe { libc::free(pkeys.cast()) };
        return None;
    }
    for (i, pkey) in p.pkeys.iter().enumerate() {
        // SAFETY: the block has room for `p.pkeys.len()` entries.
        unsafe { pkeys.add(i).write(pkey.unwrap_or(0)) };
    }
    made
}

/// The C form of a device without its ports; `None` where a required attribute cannot be read.
pub(super) fn ca(c: &Ca) -> Option<UmadCa> {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    Some(UmadCa {
        ca_name: field(&c.name),
        node_type: c.node_type?.number(),
        numports: c.ports.last().map_or(0, |p| p.number.into()),
        fw_ver: field(&text(&c.fw_ver)),
        ca_type: field(&text(&c.ca_type)),
        hw_ver: field(&text(&c.hw_ver)),
        node_guid: c.node_guid?.to_be(),
        system_guid: c.sys_image_guid?.to_be(),
        ports: [std::ptr::null_mut(); MAX_PORTS],
    })
}
