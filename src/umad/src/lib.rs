//! The Linux kernel's userspace MAD interface.
