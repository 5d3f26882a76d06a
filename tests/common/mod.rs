//! What several test programs share: fabrics of foreign simulators, and tests that are shown as
//! ignored, with the reason, where a foreign program is missing.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(
    clippy::unwrap_used,
    reason = "a test; its harness is not the standard one"
)]

pub mod client;
pub mod fabric;
pub mod foreign;
pub mod ibsim;
pub mod netdiscover;
pub mod session;
