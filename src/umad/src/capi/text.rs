//! Names, and the debug text.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::layout::{MadAddr, UserMad};
use super::mad::umad_get_mad_addr;
use super::{DEBUG, current_layout, say};
use crate::abi::{Address, Grh, Header, Layout};
use crate::{dump, strings};

/// A constant text as a C string. The texts are few and constant, so each is kept once, forever.
fn c_text(text: &'static str) -> *const c_char {
    static KEPT: Mutex<BTreeMap<&'static str, &'static CStr>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.entry(text)
        .or_insert_with(|| Box::leak(CString::new(text).unwrap_or_default().into_boxed_c_str()))
        .as_ptr()
}

/// Name of a class.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_class_str(mgmt_class: u8) -> *const c_char {
    c_text(strings::class(mgmt_class))
}

/// Name of a method.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_method_str(mgmt_class: u8, method: u8) -> *const c_char {
    c_text(strings::method(mgmt_class, method))
}

/// Name of an attribute, number in network order.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_attribute_str(mgmt_class: u8, attr_id: u16) -> *const c_char {
    c_text(strings::attribute(mgmt_class, u16::from_be(attr_id)))
}

/// Name of a status, in network order.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_common_mad_status_str(status: u16) -> *const c_char {
    c_text(strings::common_status(u16::from_be(status)))
}

/// Name of a status of subnet administration, in network order.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_sa_mad_status_str(status: u16) -> *const c_char {
    c_text(strings::sa_status(u16::from_be(status)))
}

/// Sets the level if it is not negative, and returns it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_debug(level: c_int) -> c_int {
    if level >= 0 {
        DEBUG.store(level, Ordering::Relaxed);
    }
    DEBUG.load(Ordering::Relaxed)
}

/// The text of an address, all its fields, whether or not they count.
///
/// # Safety
///
/// `addr` points to an address, of which fields up to the flow label are read, and the P_Key
/// index in the new layout.
unsafe fn address(addr: *const MadAddr) -> String {
    // SAFETY: as the caller promises.
    unsafe {
        let a = Address {
            qpn: u32::from_be((*addr).qpn),
            qkey: u32::from_be((*addr).qkey),
            lid: u16::from_be((*addr).lid),
            sl: (*addr).sl,
            path_bits: (*addr).path_bits,
            pkey_index: match current_layout() {
                Layout::Old => 0,
                Layout::New => (*addr).pkey_index,
            },
            grh: None,
        };
        let grh = Grh {
            gid: (*addr).gid,
            gid_index: (*addr).gid_index,
            hop_limit: (*addr).hop_limit,
            traffic_class: (*addr).traffic_class,
            flow_label: u32::from_be((*addr).flow_label),
        };
        dump::fields(&a, (*addr).grh_present, &grh)
    }
}

/// Prints an address to stderr.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_addr_dump(addr: *const MadAddr) {
    // SAFETY: the caller passes an address.
    let text = unsafe { address(addr) };
    say(i32::MIN, "umad_addr_dump", &text);
}

/// Prints a header and its address to stderr.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_dump(umad: *mut c_void) {
    // SAFETY: the caller passes a umad buffer.
    let (h, addr) = unsafe {
        let head = umad.cast::<UserMad>();
        let h = Header {
            agent_id: (*head).agent_id,
            status: (*head).status,
            timeout_ms: (*head).timeout_ms,
            ..Header::default()
        };
        (h, address(umad_get_mad_addr(umad)))
    };
    say(i32::MIN, "umad_dump", &dump::header(&h));
    say(i32::MIN, "umad_addr_dump", &addr);
}
