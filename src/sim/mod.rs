//! A simulated fabric behind [`MadPort`](crate::port::MadPort).

pub mod device;
pub mod fabric;
pub mod generate;
pub mod netfile;
mod rng;

pub use fabric::{Fabric, NodeSpec, PortSpec};
pub use generate::{default_fabric, fat_tree};
