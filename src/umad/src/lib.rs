//! The Linux kernel's userspace MAD interface (user_mad), and all that libibumad does, as a safe
//! Rust API. No C library is needed.

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
