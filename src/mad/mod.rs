//! The wire codec: management datagrams (MADs), their headers, attributes,
//! RMPP and notices.
//!
//! Pure functions over bytes. This room never does I/O, never reads a clock
//! and never panics, whatever the bytes: a length is checked once, when a
//! [`Mad`], [`MadView`] or attribute is made, and no access after that can
//! fail. Unknown codes are kept and shown as unknown.
//!
//! An attribute is declared once, by the `attribute!` macro in [`attr`]; its
//! accessors, encoder, field list and fuzz test all come from there.
//!
//! ```
//! use fabtop::mad::{Attribute, Mad, MadView, Method, NodeInfo, NodeType};
//!
//! // Ask the node behind port 1, then behind its port 7, what it is ...
//! let request = Mad::smp_dr(Method::Get, NodeInfo::ID, 0, &[1, 7], 0x1234)?;
//! assert_eq!(request.to_string(), "SubnDirected Get(NodeInfo) mod 0x0 tid 0x1234 path 0,1,7");
//!
//! // ... answer as a switch would ...
//! let mut info = NodeInfo::new();
//! info.set_node_type(NodeType::Switch).set_num_ports(36).set_node_guid(0x2c90000000001);
//! let reply = Mad::reply(&request.view(), &info);
//!
//! // ... and read that, as it comes from a port.
//! let view = MadView::new(reply.bytes())?;
//! assert_eq!(view.tid_low(), 0x1234);
//! let info = NodeInfo::parse(&view)?;
//! assert_eq!((info.node_type(), info.num_ports()), (NodeType::Switch, 36));
//! for field in info.fields() {
//!     println!("{} = {}", field.name(), field.value());
//! }
//! # Ok::<(), fabtop::mad::Malformed>(())
//! ```

pub mod attr;
mod build;
mod clean;
mod common;
pub mod details;
mod field;
#[cfg(test)]
mod foreign;
mod gid;
mod header;
pub mod names;
pub mod notice;
mod perf;
mod port_info;
pub mod registry;
pub mod rmpp;
mod sa;
pub mod secrets;
mod smp;
mod status;
mod sums;
mod values;

pub use attr::{Attribute, AttributeInfo, Family};
pub use clean::{clean, clean_str, text};
pub use common::*;
pub(crate) use field::Show;
pub use field::{Field, FieldValue, Fields, Value};
pub use gid::Gid;
pub use header::{HEADER_LEN, MAD_LEN, MAX_HOPS, Mad, MadView, data_offset};
pub use perf::*;
pub use port_info::*;
pub use sa::*;
pub use smp::*;
pub use status::{SaStatus, Status, StatusCode, StatusWords};
pub use sums::ErrorCounts;
pub use values::*;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the thing has.
    #[error("{what} needs {need} bytes, got {have}")]
    Short {
        /// What was to be read.
        what: &'static str,
        /// Bytes it takes.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// Class or attribute ID are another attribute's.
    #[error("expected {want}, got {class} attribute {id:#06x}")]
    OtherAttribute {
        /// The attribute that was expected.
        want: &'static str,
        /// The MAD's class.
        class: MgmtClass,
        /// The MAD's attribute ID.
        id: u16,
    },
    /// A directed route has at most 63 hops.
    #[error("a directed route has at most 63 hops, not {hops}")]
    PathTooLong {
        /// Hops asked for.
        hops: usize,
    },
}
