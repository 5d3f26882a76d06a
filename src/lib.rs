//! fabtop.
pub mod mad;
