//! The IsSM capability of a port.

use std::path::PathBuf;

use crate::error::Result;
use crate::select::{PortId, Select};
use crate::sys::{self, Fd};
use crate::sysfs::Sysfs;

/// While this lives, the port tells the fabric that a subnet manager runs on it (PortInfo bit
/// IsSM). One process at a time holds it.
///
/// Under a simulator set it only after the agents are registered: requests arrive at once.
#[derive(Debug)]
pub struct IsSm {
    fd: Fd,
    path: PathBuf,
}

impl IsSm {
    /// Sets the capability. If another process holds it, that is [`Error::Busy`].
    ///
    /// [`Error::Busy`]: crate::Error::Busy
    pub fn try_set(sysfs: &Sysfs, port: &PortId) -> Result<Self> {
        Self::open(sysfs, port, libc::O_RDONLY | libc::O_NONBLOCK)
    }

    /// Sets the capability, waiting until no other process holds it. A signal ends the wait
    /// with EINTR.
    pub fn set(sysfs: &Sysfs, port: &PortId) -> Result<Self> {
        Self::open(sysfs, port, libc::O_RDONLY)
    }

    fn open(sysfs: &Sysfs, port: &PortId, flags: i32) -> Result<Self> {
        let path = sysfs.issm_path(port.umad);
        let fd = crate::port::open_device(&path, flags)?;
        tracing::debug!(%port, path = %path.display(), "IsSM set");
        Ok(Self { fd, path })
    }

    /// Path of the device file that a selection means (`umad_get_issm_path`).
    pub fn path(sysfs: &Sysfs, select: &Select) -> Result<PathBuf> {
        Ok(sysfs.issm_path(sysfs.resolve(select)?.umad))
    }
}

impl Drop for IsSm {
    fn drop(&mut self) {
        tracing::debug!(path = %self.path.display(), "IsSM cleared");
        sys::close(self.fd);
    }
}
