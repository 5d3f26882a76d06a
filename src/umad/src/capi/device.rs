//! Devices and ports.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use super::layout::{
    MAX_PORTS, NAME_LEN, UmadCa, UmadCaPair, UmadDeviceNode, UmadPort, allocate, ca as c_ca, field,
    port as c_port,
};
use super::{fail, name, say};
use crate::ca::Ca;
use crate::errno::Errno;
use crate::error::Error;
use crate::pairs::CaPair;
use crate::select::Select;
use crate::sys;
use crate::sysfs::Sysfs;

/// Does nothing: there is nothing global.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_init() -> c_int {
    0
}

/// Does nothing: there is nothing global.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_done() -> c_int {
    0
}

/// Device names of fewer than 20 characters, in byte order; -1 on errors.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_cas_names(
    cas: *mut [c_char; NAME_LEN],
    max: c_int,
) -> c_int {
    let names = match Sysfs::system().ca_names() {
        Ok(names) => names,
        Err(e) => {
            fail(e.errno().unwrap_or(Errno::EIO));
            return -1;
        }
    };
    let mut count = 0;
    let max = usize::try_from(max).unwrap_or(0);
    for name in names.iter().filter(|n| n.len() < NAME_LEN).take(max) {
        // SAFETY: the caller's array has `max` entries, and `count` stays below.
        unsafe { cas.add(count).write(field(name)) };
        count += 1;
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// What the C functions return for an error of ours.
fn code(e: &Error) -> c_int {
    fail(match e {
        Error::NoUmadForPort { .. } | Error::UnknownPort { .. } => Errno::EINVAL,
        Error::NoUmad { .. } | Error::AbiVersion { .. } => Errno::EOPNOTSUPP,
        e if e.errno() == Some(Errno::ENODEV) => Errno::ENODEV,
        e => e.errno().unwrap_or(Errno::EIO),
    })
}

/// A selection as the C functions take it: null for any device, 0 for any port.
///
/// # Safety
///
/// As for [`name`].
unsafe fn select(ca_name: *const c_char, portnum: c_int, smi: bool) -> Select {
    Select {
        // SAFETY: as the caller promises.
        ca: unsafe { name(ca_name) }.map(str::to_owned),
        port: u8::try_from(portnum).ok().filter(|&p| p != 0),
        smi,
    }
}

/// A device by name, or the default one.
///
/// # Safety
///
/// As for [`name`].
unsafe fn find(ca_name: *const c_char) -> Result<Ca, Error> {
    let sysfs = Sysfs::system();
    // SAFETY: as the caller promises.
    match unsafe { name(ca_name) } {
        Some(name) => sysfs.ca(name),
        None => sysfs.ca(&sysfs.select(&Select::any())?.0),
    }
}

/// Fills `ca`; to be released by `umad_release_ca`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_ca(ca_name: *const c_char, ca: *mut UmadCa) -> c_int {
    // SAFETY: the caller passes null or a string.
    let found = match unsafe { find(ca_name) } {
        Ok(found) => found,
        Err(e) => return code(&e),
    };
    say(1, "umad_get_ca", &found.name);
    let Some(mut out) = c_ca(&found) else {
        return fail(first_fault(&found));
    };
    let mut any = false;
    for p in &found.ports {
        let at = usize::from(p.number);
        let block = allocate::<UmadPort>(1);
        match c_port(p) {
            Some(port) if at < MAX_PORTS && !block.is_null() => {
                // SAFETY: a block of this size from calloc.
                unsafe { block.write(port) };
                out.ports[at] = block;
                any = true;
            }
            other => {
                // SAFETY: both null or from calloc, and not handed out.
                unsafe {
                    libc::free(block.cast());
                    libc::free(other.map_or(ptr::null_mut(), |p| p.pkeys).cast());
                }
            }
        }
    }
    out.numports = out.numports.min(MAX_PORTS as c_int - 1);
    if !any {
        return fail(if found.ports.is_empty() {
            first_fault(&found)
        } else {
            Errno::EIO
        });
    }
    // SAFETY: the caller passes room for one.
    unsafe { ca.write(out) };
    0
}

fn first_fault(ca: &Ca) -> Errno {
    ca.faults.first().map_or(Errno::EIO, |f| f.errno)
}

/// Releases what `umad_get_ca` filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_release_ca(ca: *mut UmadCa) -> c_int {
    if ca.is_null() {
        return -Errno::ENODEV.0;
    }
    // SAFETY: not null; filled by umad_get_ca and not used elsewhere meanwhile.
    let ca = unsafe { &mut *ca };
    for port in &mut ca.ports {
        if !port.is_null() {
            // SAFETY: allocated by umad_get_ca, released once: the pointer is cleared.
            unsafe {
                umad_release_port(*port);
                libc::free((*port).cast());
            }
            *port = ptr::null_mut();
        }
    }
    0
}

/// Fills `port`; to be released by `umad_release_port`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_port(
    ca_name: *const c_char,
    portnum: c_int,
    port: *mut UmadPort,
) -> c_int {
    let sysfs = Sysfs::system();
    // SAFETY: the caller passes null or a string.
    let wanted = unsafe { select(ca_name, portnum, false) };
    let found = sysfs.select(&wanted).and_then(|(ca, n)| sysfs.port(&ca, n));
    match found {
        Ok(p) => match c_port(&p) {
            Some(p) => {
                // SAFETY: the caller passes room for one.
                unsafe { port.write(p) };
                0
            }
            None => fail(Errno::EIO),
        },
        // A port that does not exist is one that cannot be read.
        Err(Error::UnknownPort { .. }) => fail(Errno::EIO),
        Err(e) => code(&e),
    }
}

/// Releases what `umad_get_port` filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_release_port(port: *mut UmadPort) -> c_int {
    if port.is_null() {
        return -Errno::ENODEV.0;
    }
    // SAFETY: not null; the table came from calloc and is released once: the pointer is cleared.
    unsafe {
        libc::free((*port).pkeys.cast());
        (*port).pkeys = ptr::null_mut();
        (*port).pkeys_size = 0;
    }
    0
}

/// Port GUIDs by port number, big-endian.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_ca_portguids(
    ca_name: *const c_char,
    portguids: *mut u64,
    max: c_int,
) -> c_int {
    // SAFETY: the caller passes null or a string.
    let guids = match unsafe { find(ca_name) } {
        Ok(ca) if !ca.ports.is_empty() => ca.port_guids(),
        Ok(_) => return -1,
        Err(e) => return code(&e),
    };
    if portguids.is_null() {
        return 0;
    }
    if guids.len() > usize::try_from(max).unwrap_or(0) {
        return fail(Errno::ENOMEM);
    }
    for (i, guid) in guids.iter().enumerate() {
        // SAFETY: the caller's array has `max` entries, not fewer than there are GUIDs.
        unsafe { portguids.add(i).write(guid.to_be()) };
    }
    c_int::try_from(guids.len()).unwrap_or(c_int::MAX)
}

/// Path of the issm device of a port, cut to `max` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_issm_path(
    ca_name: *const c_char,
    portnum: c_int,
    path: *mut c_char,
    max: c_int,
) -> c_int {
    let sysfs = Sysfs::system();
    // SAFETY: the caller passes null or a string.
    let wanted = unsafe { select(ca_name, portnum, false) };
    let found = match sysfs.select(&wanted) {
        Ok((ca, n)) => sysfs.umad_device(&ca, n),
        Err(e) => return code(&e),
    };
    let Ok(device) = found else {
        return fail(Errno::EINVAL);
    };
    let text = sysfs.issm_path(device.number).display().to_string();
    let Some(room) = usize::try_from(max).ok().filter(|&m| m > 0) else {
        return fail(Errno::EINVAL);
    };
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: the caller's array has `max` bytes; the text and its NUL fit.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), path.cast(), bytes.len());
        path.add(bytes.len()).write(0);
    }
    0
}

/// # Safety
///
/// As for [`name`].
unsafe fn open(ca_name: *const c_char, portnum: c_int, smi: bool) -> c_int {
    let sysfs = Sysfs::system();
    if let Err(e) = sysfs.abi_version() {
        return code(&e);
    }
    // SAFETY: as the caller promises.
    let wanted = unsafe { select(ca_name, portnum, smi) };
    let (ca, n) = match sysfs.select(&wanted) {
        Ok(found) => found,
        Err(e) => return code(&e),
    };
    let Ok(device) = sysfs.umad_device(&ca, n) else {
        return fail(Errno::EINVAL);
    };
    match crate::port::open_fd(&sysfs, device.number) {
        Ok((fd, layout, _)) => {
            super::set_layout(layout);
            say(1, "umad_open_port", &format!("{ca} port {n}: fd {fd}"));
            fd
        }
        Err(e) => {
            say(1, "umad_open_port", &e.to_string());
            // The cause stays in errno.
            sys::set_errno(e.errno().unwrap_or(Errno::EIO));
            -Errno::EIO.0
        }
    }
}

/// A descriptor, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_open_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    // SAFETY: the caller passes null or a string.
    unsafe { open(ca_name, portnum, false) }
}

/// As `umad_open_port`, but the default is a port with a subnet management interface.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_open_smi_port(
    ca_name: *const c_char,
    portnum: c_int,
) -> c_int {
    // SAFETY: the caller passes null or a string.
    unsafe { open(ca_name, portnum, true) }
}

/// Closes the descriptor.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_close_port(portid: c_int) -> c_int {
    say(1, "umad_close_port", &format!("fd {portid}"));
    sys::close(portid);
    0
}

/// The descriptor is the handle.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_get_fd(portid: c_int) -> c_int {
    portid
}

/// Devices in the order in which the system lists them; null with errno 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_get_ca_device_list() -> *mut UmadDeviceNode {
    let names = match Sysfs::system().ca_names_unsorted() {
        Ok(names) => names,
        Err(e) => {
            fail(e.errno().unwrap_or(Errno::EIO));
            return ptr::null_mut();
        }
    };
    let mut head = ptr::null_mut();
    for name in names.iter().rev() {
        // Name and node in one block, as programs that free nodes one by one expect.
        let Ok(text) = CString::new(name.as_str()) else {
            continue;
        };
        let bytes = text.as_bytes_with_nul();
        let size = size_of::<UmadDeviceNode>() + bytes.len();
        let node = allocate::<u8>(size).cast::<UmadDeviceNode>();
        if node.is_null() {
            // SAFETY: the list so far is ours.
            unsafe { umad_free_ca_device_list(head) };
            fail(Errno::ENOMEM);
            return ptr::null_mut();
        }
        // SAFETY: the block has room for the node and, behind it, for the name; calloc aligns
        // it for any type.
        unsafe {
            let at = node.add(1).cast::<u8>();
            ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            node.write(UmadDeviceNode {
                next: head,
                ca_name: at.cast(),
            });
        }
        head = node;
    }
    sys::set_errno(Errno(0));
    head
}

/// Releases a list.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_free_ca_device_list(head: *mut UmadDeviceNode) {
    let mut node = head;
    while !node.is_null() {
        // SAFETY: a node of a list from umad_get_ca_device_list, released once.
        unsafe {
            let next = (*node).next;
            libc::free(node.cast::<c_void>());
            node = next;
        }
    }
}

/// Sorts a list by byte order of the names. `size` is its length, or 0 to count; returns 0 or a
/// positive errno.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_sort_ca_device_list(
    head: *mut *mut UmadDeviceNode,
    size: usize,
) -> c_int {
    let mut nodes = Vec::new();
    // SAFETY: the caller passes a pointer to a list's head.
    let mut node = unsafe { *head };
    while !node.is_null() && (size == 0 || nodes.len() <= size) {
        nodes.push(node);
        // SAFETY: a node of the list.
        node = unsafe { (*node).next };
    }
    if size == 1 || nodes.len() < 2 && size == 0 {
        return 0;
    }
    if size != 0 && (nodes.len() != size || !node.is_null()) {
        return Errno::EINVAL.0;
    }
    // SAFETY: each node has a NUL-terminated name.
    nodes.sort_by_key(|&n| unsafe { std::ffi::CStr::from_ptr((*n).ca_name) });
    let mut next = ptr::null_mut();
    for &node in nodes.iter().rev() {
        // SAFETY: nodes of the list, each relinked once.
        unsafe { (*node).next = next };
        next = node;
    }
    // SAFETY: as above.
    unsafe { *head = next };
    0
}

fn pair(p: &CaPair) -> UmadCaPair {
    let name = |n: &Option<String>| field(n.as_deref().unwrap_or(""));
    UmadCaPair {
        smi_name: name(&p.smi),
        smi_preferred_port: p.smi_port.unwrap_or(0).into(),
        gsi_name: name(&p.gsi),
        gsi_preferred_port: p.gsi_port.unwrap_or(0).into(),
    }
}

/// Pairs of devices, at most `max`; the rest of the array is zeroed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_smi_gsi_pairs(cas: *mut UmadCaPair, max: usize) -> c_int {
    let pairs = Sysfs::system().smi_gsi_pairs().unwrap_or_default();
    for i in 0..max {
        let entry = pairs.get(i).cloned().unwrap_or_default();
        // SAFETY: the caller's array has `max` entries.
        unsafe { cas.add(i).write(pair(&entry)) };
    }
    c_int::try_from(pairs.len().min(max)).unwrap_or(c_int::MAX)
}

/// The pair that a device belongs to. Without any device at all: 0 and an empty pair, as the C
/// library does.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_get_smi_gsi_pair_by_ca_name(
    devname: *const c_char,
    portnum: u8,
    ca_pair: *mut UmadCaPair,
    enforce_smi: c_uint,
) -> c_int {
    if ca_pair.is_null() {
        return -1;
    }
    // SAFETY: the caller passes null or a string.
    let name = unsafe { name(devname) };
    let found = Sysfs::system().smi_gsi_pair(name, Some(portnum), enforce_smi != 0);
    let (result, found) = match found {
        Ok(found) => (0, found),
        Err(Error::NoDevice { .. }) => (0, CaPair::default()),
        Err(_) => (fail(Errno::ENODEV), CaPair::default()),
    };
    // SAFETY: not null; the caller passes room for one.
    unsafe { ca_pair.write(pair(&found)) };
    result
}
