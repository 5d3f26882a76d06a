//! fabtop.
