//! A simulated fabric behind [`MadPort`](crate::port::MadPort): the agents of every node
//! (SMA, PMA), a subnet manager with its administration, moving traffic, latency, loss, and
//! faults on purpose.
//!
//! It answers as real devices and the kernel do, silence included, so that nothing else in the
//! house needs to know that a fabric is not real. Screens must know:
//! [`Source::Simulated`](crate::port::Source::Simulated) says so.
//!
//! This room must never be reachable unless asked for by name, and never has a clock, a thread
//! or a file of its own: time comes with each call, and equal calls give equal answers.
//!
//! Costs are lazy. Counters are functions of time, forwarding tables are computed entry by
//! entry when used, and nothing happens each second: 100,000 idle ports cost their memory.
//!
//! - [`fabric`]: the description; [`generate`] and [`netfile`] make some.
//! - `world`: the fabric as it is now, ways through it, what is due.
//! - `flight`: MADs on their way, and the kernel at our end.
//! - `sma`, `pma`, `sm`, `sa`: who answers.
//! - `traffic`, `counters`: what ports count.
//! - [`ibsim`]: a client of an ibsim server, a fabric that another program simulates.
//! - [`script`]: what can go wrong; `act`: how.

mod act;
mod counters;
pub mod device;
pub mod fabric;
mod flight;
pub mod generate;
pub mod ibsim;
pub mod netfile;
pub mod options;
mod pma;
mod port;
mod rng;
mod route;
mod sa;
pub mod script;
mod sm;
mod sma;
mod traffic;
mod world;

pub use fabric::{Fabric, NodeSpec, PortSpec};
pub use generate::{default_fabric, fat_tree};
pub use options::{Faults, SimOptions, SmAt, Undeliverable};
pub use port::{Control, SimPort};
pub use script::{Action, Counter, DefaultFaults, Script, Step};
pub use world::SimError;

#[cfg(test)]
mod tests;
