//! The vocabulary of the field: GUIDs, LIDs, ports, link widths and speeds, directed routes,
//! names, and the [`Topology`] that both the engine and the model learn from MADs.
//!
//! This room must never read a clock, or any file but one it is given.

pub mod best;
mod fec;
mod ids;
mod link;
pub mod names;
pub mod routes;
pub mod sa;
mod severity;
mod target;
pub mod thresholds;
pub mod topology;

pub use fec::trusted_ber;
pub use ids::{DrPath, Guid, Lid, NodeId, NodeKind, PortKey};
pub use link::{LinkSpeed, LinkWidth, effective_gbps, widest};
pub use severity::Severity;
pub use target::{Request, Target};
pub use topology::{Change, Changes, Node, Port, Topology};
