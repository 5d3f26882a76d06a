//! Fabrics that are not behind this host's InfiniBand device.

pub mod ibsim;
