//! What several test programs share: fabrics of foreign simulators, and tests that are shown as
//! ignored, with the reason, where a foreign program is missing.
#![allow(dead_code)] // each test program uses a part

pub mod fabric;
pub mod foreign;
pub mod ibsim;
