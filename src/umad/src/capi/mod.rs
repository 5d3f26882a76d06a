//! The C face: the `umad_*` symbols of libibumad.so.3 over this crate, so that existing programs
//! run on it unchanged. The contract is the C header and the man pages.
//!
//! Where it differs from the C library:
//! - files are close-on-exec;
//! - a MAD shorter than 256 bytes is sent padded (see [`Port::send`](crate::Port::send));
//! - one port that cannot be read is left out of `umad_get_ca` instead of failing it;
//! - `umad_get_cas_names` returns 0 where there is no device, not a made-up `mthca0`;
//! - the default port is never an Ethernet port;
//! - `umad_register2` returns in `flags` what the kernel knows, as its man page promises;
//! - `umad_recv` leaves `*length` alone except after success and ENOSPC;
//! - `umad_set_grh_net` exists;
//! - names of classes, methods and statuses are spelled right.
//!
//! Functions are `C-unwind`: programs such as opensm cancel threads that wait in them.

#![allow(
    clippy::missing_safety_doc,
    reason = "the C manual pages say what each function expects"
)]

mod device;
mod layout;
mod mad;
mod text;

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::abi::Layout;
use crate::errno::Errno;

/// Level of `umad_debug`.
static DEBUG: AtomicI32 = AtomicI32::new(0);

/// Whether the last port opened has the new layout: in the C interface that is a property of
/// the process. Before any port is opened it is the old one.
static NEW_LAYOUT: AtomicBool = AtomicBool::new(false);

fn current_layout() -> Layout {
    if NEW_LAYOUT.load(Ordering::Relaxed) {
        Layout::New
    } else {
        Layout::Old
    }
}

fn set_layout(layout: Layout) {
    NEW_LAYOUT.store(layout == Layout::New, Ordering::Relaxed);
}

/// A negative errno, which is also left in `errno`.
fn fail(errno: Errno) -> c_int {
    crate::sys::set_errno(errno);
    -errno.0
}

/// A name given by the caller; `None` for a null pointer, and for what is not UTF-8, which no
/// device is called.
///
/// # Safety
///
/// `name` is null or points to a NUL-terminated string that lives as long as the result is used.
unsafe fn name<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, and NUL-terminated as the caller of the C function promises.
    let text = unsafe { CStr::from_ptr(name) };
    Some(text.to_str().unwrap_or("\u{fffd}"))
}

/// Prints a line as the C library does, above the given level of `umad_debug`.
fn say(level: i32, function: &str, text: &str) {
    if DEBUG.load(Ordering::Relaxed) >= level {
        #[allow(clippy::print_stderr, reason = "what umad_debug promises")]
        {
            eprintln!("ibwarn: [{}] {function}: {text}", std::process::id());
        }
    }
}
