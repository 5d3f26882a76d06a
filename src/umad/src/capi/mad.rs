//! Agents, sending and receiving.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::Ordering;

use super::layout::{MadAddr, UmadRegAttr, UserMad};
use super::{DEBUG, current_layout, fail, say};
use crate::abi::{ADDR_OFFSET, Layout, MAX_HEADER, MethodMask, padded_len};
use crate::agent::{DEFAULT_OUI, RawRegistration, register_any, register_v1};
use crate::errno::Errno;
use crate::sys;

/// Bytes in front of the MAD, as the last port opened has it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_size() -> usize {
    current_layout().header_len()
}

/// The MAD behind the header.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_mad(umad: *mut c_void) -> *mut c_void {
    umad.cast::<u8>().wrapping_add(umad_size()).cast()
}

/// The status field: 0 or an errno.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_status(umad: *mut c_void) -> c_int {
    // SAFETY: the caller passes a umad buffer.
    unsafe { (*umad.cast::<UserMad>()).status }.cast_signed()
}

/// The address within the header.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_mad_addr(umad: *mut c_void) -> *mut MadAddr {
    umad.cast::<u8>().wrapping_add(ADDR_OFFSET).cast()
}

/// Sets the GRH from an address, by copying its fields; `flow` converts the flow label. The
/// index of the local GID is left alone, as the man page has it.
///
/// # Safety
///
/// `umad` points to a umad buffer, `from` is null or points to an address.
unsafe fn set_grh(umad: *mut c_void, from: *const MadAddr, flow: fn(u32) -> u32) -> c_int {
    // SAFETY: as the caller promises; fields up to the flow label exist in both layouts, and
    // only those are touched.
    unsafe {
        let addr = umad_get_mad_addr(umad);
        if from.is_null() {
            (*addr).grh_present = 0;
            return 0;
        }
        (*addr).grh_present = 1;
        (*addr).gid = (*from).gid;
        (*addr).hop_limit = (*from).hop_limit;
        (*addr).traffic_class = (*from).traffic_class;
        (*addr).flow_label = flow((*from).flow_label);
    }
    0
}

/// Sets or clears the GRH; the flow label is in host order.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_set_grh(umad: *mut c_void, mad_addr: *const MadAddr) -> c_int {
    // SAFETY: the caller passes a umad buffer, and null or an address.
    unsafe { set_grh(umad, mad_addr, u32::to_be) }
}

/// Sets or clears the GRH; the flow label is in network order.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_set_grh_net(
    umad: *mut c_void,
    mad_addr: *const MadAddr,
) -> c_int {
    // SAFETY: the caller passes a umad buffer, and null or an address.
    unsafe { set_grh(umad, mad_addr, |flow| flow) }
}

/// Sets the address from values in network order.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_set_addr_net(
    umad: *mut c_void,
    dlid: u16,
    dqp: u32,
    sl: c_int,
    qkey: u32,
) -> c_int {
    // SAFETY: the caller passes a umad buffer.
    unsafe {
        let addr = umad_get_mad_addr(umad);
        (*addr).qpn = dqp;
        (*addr).lid = dlid;
        (*addr).qkey = qkey;
        (*addr).sl = sl as u8;
    }
    0
}

/// Sets the address from values in host order.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_set_addr(
    umad: *mut c_void,
    dlid: c_int,
    dqp: c_int,
    sl: c_int,
    qkey: c_int,
) -> c_int {
    let (qpn, key) = (dqp.cast_unsigned().to_be(), qkey.cast_unsigned().to_be());
    // SAFETY: the caller passes a umad buffer.
    unsafe { umad_set_addr_net(umad, (dlid as u16).to_be(), qpn, sl, key) }
}

/// Sets the P_Key index; nothing in the old layout.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_set_pkey(umad: *mut c_void, pkey_index: c_int) -> c_int {
    if current_layout() == Layout::New {
        // SAFETY: the caller passes a umad buffer, of the new layout.
        unsafe { (*umad_get_mad_addr(umad)).pkey_index = pkey_index as u16 };
    }
    0
}

/// The P_Key index; 0 in the old layout.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_pkey(umad: *mut c_void) -> c_int {
    match current_layout() {
        Layout::Old => 0,
        // SAFETY: the caller passes a umad buffer, of the new layout.
        Layout::New => unsafe { (*umad_get_mad_addr(umad)).pkey_index.into() },
    }
}

/// Sends the first `length` MAD bytes. 0, or -EIO with the cause in errno.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_send(
    fd: c_int,
    agentid: c_int,
    umad: *mut c_void,
    length: c_int,
    timeout_ms: c_int,
    retries: c_int,
) -> c_int {
    let Ok(length) = usize::try_from(length) else {
        fail(Errno::EINVAL);
        return -Errno::EIO.0;
    };
    let header = umad_size();
    // SAFETY: the caller passes a umad buffer of at least header and `length` bytes, not used
    // elsewhere during the call.
    let packet = unsafe {
        let head = umad.cast::<UserMad>();
        (*head).agent_id = agentid.cast_unsigned();
        (*head).timeout_ms = timeout_ms.cast_unsigned();
        (*head).retries = retries.cast_unsigned();
        std::slice::from_raw_parts(umad.cast::<u8>(), header + length)
    };
    if DEBUG.load(Ordering::Relaxed) > 1 {
        // SAFETY: as above.
        unsafe { super::text::umad_dump(umad) };
    }
    let wanted = header + padded_len(&packet[header..]);
    let written = if wanted == packet.len() {
        sys::write(fd, packet)
    } else {
        // Shorter than 256 bytes, and so is the padded copy.
        let mut padded = [0; MAX_HEADER + 256];
        padded[..packet.len()].copy_from_slice(packet);
        sys::write(fd, &padded[..wanted])
    };
    match written {
        Ok(n) if n == wanted => 0,
        Ok(_) => {
            sys::set_errno(Errno::EIO);
            -Errno::EIO.0
        }
        Err(errno) => {
            sys::set_errno(errno);
            say(1, "umad_send", &format!("fd {fd} agent {agentid}: {errno}"));
            -Errno::EIO.0
        }
    }
}

/// One `poll`: `Ok(false)` after the timeout.
fn poll_fd(fd: c_int, timeout_ms: c_int) -> Result<bool, Errno> {
    let mut fds = [libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }];
    sys::poll(&mut fds, timeout_ms).map(|n| n > 0)
}

/// Receives into a buffer with room for `*length` MAD bytes. The agent's number, or a negative
/// errno; after ENOSPC `*length` is what is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_recv(
    fd: c_int,
    umad: *mut c_void,
    length: *mut c_int,
    timeout_ms: c_int,
) -> c_int {
    if umad.is_null() || length.is_null() {
        return fail(Errno::EINVAL);
    }
    if timeout_ms != 0 {
        match poll_fd(fd, timeout_ms) {
            Ok(true) => {}
            Ok(false) => return fail(Errno::ETIMEDOUT),
            Err(errno) => {
                sys::set_errno(errno);
                return -Errno::EIO.0;
            }
        }
    }
    let header = umad_size();
    // SAFETY: `length` is not null; it states the buffer's room behind the header.
    let room = usize::try_from(unsafe { *length }).unwrap_or(0);
    let store = |n: usize| {
        let n = c_int::try_from(n).unwrap_or(c_int::MAX);
        // SAFETY: as above.
        unsafe { *length = n };
    };
    // SAFETY: the caller's buffer has header and `room` bytes, not used elsewhere meanwhile.
    match unsafe { sys::read_raw(fd, umad.cast(), header + room) } {
        Ok(n) => {
            store(n.saturating_sub(header));
            // SAFETY: the caller's buffer begins with a header.
            let agent = unsafe { (*umad.cast::<UserMad>()).agent_id };
            agent.cast_signed()
        }
        Err(errno) => {
            if errno == Errno::ENOSPC {
                // SAFETY: as above; the kernel has stored the header.
                let full = unsafe { (*umad.cast::<UserMad>()).length };
                store((full as usize).saturating_sub(header));
            }
            fail(errno)
        }
    }
}

/// Waits for something to receive: 0, -ETIMEDOUT or -EIO.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_poll(fd: c_int, timeout_ms: c_int) -> c_int {
    match poll_fd(fd, timeout_ms) {
        Ok(true) => 0,
        Ok(false) => -Errno::ETIMEDOUT.0,
        Err(errno) => {
            sys::set_errno(errno);
            -Errno::EIO.0
        }
    }
}

/// # Safety
///
/// `mask` is null or points to 16 bytes.
unsafe fn methods(mask: *const c_long) -> MethodMask {
    if mask.is_null() {
        return MethodMask::NONE;
    }
    // SAFETY: not null, so it points to an array of 16 bytes; unaligned ones are fine.
    MethodMask::from_longs(&unsafe { mask.cast::<[u8; 16]>().read_unaligned() })
}

fn register(fd: c_int, r: &RawRegistration) -> c_int {
    let result = register_v1(fd, r);
    say(1, "umad_register", &format!("fd {fd} {r:?}: {result:?}"));
    match result {
        Ok(id) => id.cast_signed(),
        Err(errno) => {
            sys::set_errno(errno);
            -Errno::EPERM.0
        }
    }
}

/// Registers an agent: its number, or -EPERM with the cause in errno.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_register(
    fd: c_int,
    mgmt_class: c_int,
    mgmt_version: c_int,
    rmpp_version: u8,
    method_mask: *const c_long,
) -> c_int {
    let r = RawRegistration {
        qpn: u8::from(!matches!(mgmt_class, 0x01 | 0x81)),
        class: mgmt_class as u8,
        version: mgmt_version as u8,
        // SAFETY: the caller passes null or a mask.
        methods: unsafe { methods(method_mask) },
        rmpp_version,
        oui: DEFAULT_OUI,
        flags: 0,
    };
    register(fd, &r)
}

/// Registers an agent of a vendor class with an OUI in wire order.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_register_oui(
    fd: c_int,
    mgmt_class: c_int,
    rmpp_version: u8,
    oui: *const [u8; 3],
    method_mask: *const c_long,
) -> c_int {
    if !(0x30..=0x4f).contains(&mgmt_class) {
        return fail(Errno::EINVAL);
    }
    // SAFETY: the caller passes three bytes.
    let [a, b, c] = unsafe { *oui };
    let r = RawRegistration {
        qpn: 1,
        class: mgmt_class as u8,
        version: 1,
        // SAFETY: the caller passes null or a mask.
        methods: unsafe { methods(method_mask) },
        rmpp_version,
        oui: u32::from_be_bytes([0, a, b, c]),
        flags: 0,
    };
    register(fd, &r)
}

/// Registers an agent: 0, or a positive errno with the flags that the kernel knows in `flags`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_register2(
    port_fd: c_int,
    attr: *mut UmadRegAttr,
    agent_id: *mut u32,
) -> c_int {
    if attr.is_null() || agent_id.is_null() {
        return Errno::EINVAL.0;
    }
    // SAFETY: not null; the caller passes a live structure of its own.
    let attr = unsafe { &mut *attr };
    let vendor = (0x30..=0x4f).contains(&attr.mgmt_class);
    if vendor && (attr.oui == 0 || attr.oui >> 24 != 0) {
        return Errno::EINVAL.0;
    }
    let [low, high] = attr.method_mask;
    let r = RawRegistration {
        qpn: u8::from(!matches!(attr.mgmt_class, 0x01 | 0x81)),
        class: attr.mgmt_class,
        version: attr.mgmt_class_version,
        methods: MethodMask::from_bits(u128::from(high) << 64 | u128::from(low)),
        rmpp_version: attr.rmpp_version,
        // Ignored for other classes.
        oui: if vendor { attr.oui } else { 0 },
        flags: attr.flags,
    };
    let result = register_any(port_fd, &r);
    say(
        1,
        "umad_register2",
        &format!("fd {port_fd} {r:?}: {result:?}"),
    );
    match result {
        Ok(id) => {
            // SAFETY: not null; the caller passes room for one.
            unsafe { agent_id.write(id) };
            0
        }
        Err((errno, known)) => {
            attr.flags = if errno == Errno::ENOTTY { 0 } else { known };
            sys::set_errno(errno);
            errno.0
        }
    }
}

/// Unregisters an agent: 0, or -1 with the cause in errno.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_unregister(fd: c_int, agentid: c_int) -> c_int {
    let mut arg = sys::Arg(agentid.cast_unsigned().to_ne_bytes());
    match sys::ioctl(fd, sys::request::UNREGISTER_AGENT, &mut arg) {
        Ok(()) => 0,
        Err(errno) => {
            sys::set_errno(errno);
            -1
        }
    }
}
