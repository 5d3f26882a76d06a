//! The Linux kernel's userspace MAD interface (user_mad), and all that libibumad does, as a safe
//! Rust API. No C library is needed.
//!
//! A MAD (management datagram) is a packet of 256 bytes by which an InfiniBand fabric is
//! discovered, configured and watched. The kernel passes them through `/dev/infiniband/umadN`,
//! one file for each port. This crate finds ports, opens them, registers agents for management
//! classes, sends, receives and waits. It knows nothing of what is in a MAD beyond the fields
//! that the kernel itself looks at.
//!
//! ```no_run
//! use std::time::Duration;
//! use umad::{Address, Buffer, Port, Recv, Registration, Reply, Select};
//!
//! # fn main() -> umad::Result<()> {
//! let port = Port::open(&Select::any())?;
//! let agent = port.register(&Registration::client(0x81))?;
//! // NodeInfo of the port itself: a directed route of no hops.
//! let mut mad = [0; 256];
//! mad[..4].copy_from_slice(&[1, 0x81, 1, 1]);
//! mad[17] = 0x11;
//! mad[32..36].fill(0xff);
//! let reply = Reply::within(Duration::from_secs(1));
//! port.send(agent.id(), &Address::directed(), &mad, reply)?;
//! let mut buffer = Buffer::new();
//! if port.poll(Some(Duration::from_secs(2)))? {
//!     match port.recv(&mut buffer)? {
//!         Recv::Mad { mad, .. } => println!("{:02x?}", &mad[64..104]),
//!         Recv::TimedOut { tid, .. } => println!("nobody answered {tid:#x}"),
//!         Recv::Empty | Recv::TooSmall { .. } => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What to know of the kernel
//!
//! - A request's transaction ID comes back with another upper half: match on the low 32 bits.
//! - Send replies, and what is sent unasked, with [`Reply::None`], requests with a timeout. A
//!   request sent with `Reply::None` never gets its reply.
//! - Nothing is reported for failed sends, aborted RMPP and cancelled requests: keep a deadline
//!   of your own besides the kernel's.
//! - A request may not be repeated before the kernel has finished with the first one (EINVAL):
//!   use a fresh transaction ID, or the kernel's retries.
//! - A blocked read is never woken by the removal of the device. Files here are non-blocking;
//!   wait with [`wait`] or [`Port::poll`], which notice it ([`Error::DeviceRemoved`]). Drop the
//!   port then, and open it again when [`Sysfs::resolve`] finds it.
//! - An RMPP reply has to arrive as a whole within the request's timeout.
//!
//! # Conformance
//!
//! What libibumad (rdma-core, 42 functions) does, what does it here, and where the two differ.
//! "Kernel", "simulator" and "files" name the tests that hold it: `tests/kernel` (a real kernel
//! in qemu), `tests/foreign` (ibsim, and the C library's own clients) and `tests/sysfs.rs`.
//!
//! | C | here | differences | tests |
//! |--|--|--|--|
//! | `umad_init`, `umad_done` | nothing | nothing is global: no state, no lock, no verdict kept for the process | |
//! | `umad_get_cas_names` | [`Sysfs::ca_names`] | byte order, not the locale's; names of any length; empty where there is none (C: a made-up `mthca0`) | files, kernel |
//! | `umad_get_ca_device_list`, `umad_free_ca_device_list` | [`Sysfs::ca_names_unsorted`] | a `Vec`; a device of unreadable type is listed | files |
//! | `umad_sort_ca_device_list` | [`Sysfs::ca_names`] | | files |
//! | `umad_get_ca`, `umad_release_ca` | [`Sysfs::ca`], [`Sysfs::cas`] | what cannot be read is `None` and named in [`Ca::faults`], and fails nothing else (C: one bad file fails the device); ports 0 to 255 (C: 0 to 9) | files, kernel, simulator |
//! | `umad_get_port`, `umad_release_port` | [`Sysfs::port`], [`Sysfs::port_state`] | as above; rate in Mbit/s and as text; P_Keys at their index even where some are missing | files, kernel |
//! | `umad_get_ca_portguids` | [`Ca::port_guids`] | | files |
//! | (none) | [`Sysfs::gids`] | all GIDs in use with their index | files, kernel |
//! | (none) | [`CaPort::pkey_index`], [`CaPort::default_pkey_index`] | | files, simulator |
//! | `umad_get_issm_path` | [`IsSm::path`], [`Sysfs::issm_path`] | | files, kernel |
//! | (open the path oneself) | [`IsSm`] | a guard; non-blocking, or waiting for its turn | kernel |
//! | `umad_get_smi_gsi_pairs` | [`Sysfs::smi_gsi_pairs`] | | files |
//! | `umad_get_smi_gsi_pair_by_ca_name` | [`Sysfs::smi_gsi_pair`], [`CaPair::smi_select`], [`CaPair::gsi_select`] | no device is an error (C: 0 and an empty pair); the partner's port is looked for on the partner (C: on the named device); any port number (C: 10 and more overrun an array) | files |
//! | `umad_open_port` | [`Port::open`], [`Sysfs::select`], [`Sysfs::resolve`] | an Ethernet port is never the default (C's last resort takes one), nor `mthca0`; any number of umad devices (C: 64, later 192); close-on-exec; errors say what is missing and what helps | files, kernel, simulator |
//! | `umad_open_smi_port` | [`Select::with_smi`] | | files, simulator |
//! | `umad_close_port` | drop, [`Port::close`] | | kernel |
//! | `umad_get_fd` | [`Port::fd`] | | kernel |
//! | `umad_register` | [`Port::register`], [`Registration::client`] | an [`Agent`] unregisters itself; errors keep their errno (C: all EPERM) | kernel, simulator |
//! | `umad_register_oui` | [`Registration::vendor`] | OUI as a number | kernel |
//! | `umad_register2` | [`Port::register`], [`Rmpp::User`] | the flags the kernel knows are in the error, as the man page promises (C: 0); an OUI beyond 24 bits is refused for every class (C: cut for some) | kernel |
//! | `umad_unregister` | drop of [`Agent`], [`Port::unregister`] | | kernel |
//! | method mask (`long[]`) | [`MethodMask`] | one 128-bit number, laid out for each request | kernel |
//! | `umad_send` | [`Port::send`], [`Port::send_buffer`] | timeout and retries are a [`Reply`]; never fewer bytes than old kernels bear; status and length are set | kernel, simulator |
//! | `umad_recv` | [`Port::recv`], [`Port::recv_growing`] | never waits; a timed-out send is [`Recv::TimedOut`] (C: success with a status); a small buffer is [`Recv::TooSmall`] with the size, and nothing is lost; EIO of a removed device is told from others | kernel, simulator |
//! | `umad_poll` | [`Port::poll`], [`Port::poll_once`], [`wait`] | `poll` goes on after a signal (C: EIO), `poll_once` does not; removal is an error (C: "ready"); `wait` takes several ports and a [`Waker`] | kernel, simulator |
//! | `umad_size` | [`Layout::header_len`], [`Port::layout`] | a property of the port (C: of the process) | kernel |
//! | `umad_alloc`, `umad_free` | [`Buffer`] | grows on demand | kernel |
//! | `umad_get_mad` | [`Buffer::mad`], [`Buffer::mad_mut`] | | kernel |
//! | `umad_get_mad_addr` | [`Buffer::address`], [`Buffer::address_mut`] | in host order | unit |
//! | `umad_set_addr`, `umad_set_addr_net` | [`Buffer::set_addr`], [`Buffer::set_addr_net`] | | unit |
//! | `umad_set_grh` | [`Buffer::set_grh`] | takes over the GID index (C: forgets it) | unit, kernel |
//! | `umad_set_grh_net` | [`Buffer::set_grh_net`] | exists (C: declared, never defined) | unit |
//! | `umad_set_pkey`, `umad_get_pkey` | [`Buffer::set_pkey_index`], [`Buffer::pkey_index`] | | unit |
//! | `umad_status` | [`Buffer::status`], [`Recv::TimedOut`] | | kernel |
//! | `umad_dump`, `umad_addr_dump` | [`dump`], `Display` of [`Buffer`] | text, for any place (C: stderr) | unit, simulator |
//! | `umad_debug` | the [tracing](https://docs.rs/tracing) span `umad` of each port | events at debug and trace level (C: levels 1 and 2, to stderr) | |
//! | `umad_class_str`, `umad_method_str`, `umad_attribute_str` | [`strings::class`], [`strings::method`], [`strings::attribute`] | `CongestionManagement` and `<unknown>` are spelled right | unit, simulator |
//! | `umad_common_mad_status_str`, `umad_sa_mad_status_str` | [`strings::common_status`], [`strings::sa_status`], [`strings::dr_status`] | reserved codes are no success; directed-route statuses lose their direction bit | unit, simulator |
//!
//! # Simulators
//!
//! A preloaded simulator (ibsim's `libumad2sim`) replaces the plain libc calls, and this crate
//! uses exactly those, so programs run on it unchanged. It is recognized by descriptors that the
//! kernel does not know ([`Port::is_simulated`]). Its limits then hold: at most 256 requests in
//! flight, a class belongs to the file that registered it last, no RMPP, no P_Keys, and the bytes
//! of a MAD beyond the 232nd are not delivered (they are zero here).
//!
//! # The C face
//!
//! The feature `capi` exports the C functions, so that existing programs run on this crate:
//!
//! ```sh
//! cargo rustc --release -p umad --lib --features capi --crate-type cdylib
//! LD_PRELOAD=target/release/libumad.so ibnetdiscover
//! ```
//!
//! `capi/link-libibumad` links a drop-in `libibumad.so.3` with the C library's symbol versions.

#![warn(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod abi;
mod agent;
mod buffer;
mod ca;
#[cfg(feature = "capi")]
mod capi;
pub mod dump;
mod errno;
mod error;
mod issm;
mod pairs;
mod port;
mod select;
pub mod strings;
mod sys;
mod sysfs;
mod wait;

pub use abi::{Address, AgentId, Grh, Header, Layout, MAD_SIZE, MethodMask, QP1_QKEY, Reply};
pub use agent::{Registration, Rmpp};
pub use buffer::Buffer;
pub use ca::{
    CAP_IS_SM, CAP_IS_SM_DISABLED, Ca, CaPort, Fault, LinkLayer, NodeType, PhysState, PortState,
};
pub use errno::Errno;
pub use error::{Access, Error, Result};
pub use issm::IsSm;
pub use pairs::{CaPair, MAX_DEVICES, MAX_PORTS};
pub use port::{Agent, Port, Recv};
pub use select::{PortId, Select};
pub use sysfs::{ABI_VERSION, Gid, Sysfs, UmadDevice};
pub use wait::{MAX_WAIT, Ready, Waker, wait, wait_fd};

/// The registration requests as the kernel takes them, unchecked. For tests of the kernel's own
/// rules, most of which [`Registration`] cannot break.
#[doc(hidden)]
pub mod raw {
    pub use crate::agent::{RawRegistration, register_any, register_v1, register_v2};
}
