//! Error numbers by name.

use std::fmt;

/// An error number of the system; shown by its name (`ENOMEM`) with its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Self = Self(libc::EPERM);
    /// No such file or directory.
    pub const ENOENT: Self = Self(libc::ENOENT);
    /// Interrupted by a signal.
    pub const EINTR: Self = Self(libc::EINTR);
    /// Input/output error.
    pub const EIO: Self = Self(libc::EIO);
    /// Nothing to read now.
    pub const EAGAIN: Self = Self(libc::EAGAIN);
    /// Out of memory or of slots.
    pub const ENOMEM: Self = Self(libc::ENOMEM);
    /// Permission denied.
    pub const EACCES: Self = Self(libc::EACCES);
    /// Invalid argument.
    pub const EINVAL: Self = Self(libc::EINVAL);
    /// Request unknown to the device.
    pub const ENOTTY: Self = Self(libc::ENOTTY);
    /// No room: the buffer is too small.
    pub const ENOSPC: Self = Self(libc::ENOSPC);
    /// The other side is gone.
    pub const EPIPE: Self = Self(libc::EPIPE);
    /// No such device.
    pub const ENODEV: Self = Self(libc::ENODEV);
    /// Protocol not supported: the port has no such queue pair.
    pub const EPROTONOSUPPORT: Self = Self(libc::EPROTONOSUPPORT);
    /// Operation not supported.
    pub const EOPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    /// Timed out.
    pub const ETIMEDOUT: Self = Self(libc::ETIMEDOUT);

    /// The symbolic name, such as `ENOMEM`; `None` for a number this crate does not know.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            libc::EPERM => "EPERM",
            libc::ENOENT => "ENOENT",
            libc::EINTR => "EINTR",
            libc::EIO => "EIO",
            libc::ENXIO => "ENXIO",
            libc::EBADF => "EBADF",
            libc::EAGAIN => "EAGAIN",
            libc::ENOMEM => "ENOMEM",
            libc::EACCES => "EACCES",
            libc::EFAULT => "EFAULT",
            libc::EBUSY => "EBUSY",
            libc::EEXIST => "EEXIST",
            libc::ENODEV => "ENODEV",
            libc::ENOTDIR => "ENOTDIR",
            libc::EISDIR => "EISDIR",
            libc::EINVAL => "EINVAL",
            libc::ENFILE => "ENFILE",
            libc::EMFILE => "EMFILE",
            libc::ENOTTY => "ENOTTY",
            libc::ENOSPC => "ENOSPC",
            libc::EROFS => "EROFS",
            libc::EPIPE => "EPIPE",
            libc::ERANGE => "ERANGE",
            libc::ELOOP => "ELOOP",
            libc::ENAMETOOLONG => "ENAMETOOLONG",
            libc::ENOSYS => "ENOSYS",
            libc::ENODATA => "ENODATA",
            libc::EPROTO => "EPROTO",
            libc::EOVERFLOW => "EOVERFLOW",
            libc::EMSGSIZE => "EMSGSIZE",
            libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
            libc::ENETDOWN => "ENETDOWN",
            libc::ENETUNREACH => "ENETUNREACH",
            libc::ECONNRESET => "ECONNRESET",
            libc::ENOBUFS => "ENOBUFS",
            libc::ETIMEDOUT => "ETIMEDOUT",
            libc::ECONNREFUSED => "ECONNREFUSED",
            libc::EHOSTUNREACH => "EHOSTUNREACH",
            libc::ECANCELED => "ECANCELED",
            libc::ESTALE => "ESTALE",
            _ => return None,
        })
    }

    fn meaning(self) -> String {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        match text.find(" (os error") {
            Some(at) => text[..at].to_owned(),
            None => text,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.meaning()),
            None if self.0 == 0 => f.write_str("no error number"),
            None => write!(f, "errno {} ({})", self.0, self.meaning()),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl From<Errno> for std::io::Error {
    fn from(e: Errno) -> Self {
        Self::from_raw_os_error(e.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_name_and_meaning() {
        assert_eq!(Errno::ENOMEM.to_string(), "ENOMEM (Cannot allocate memory)");
        assert_eq!(Errno(0).to_string(), "no error number");
        assert!(Errno(100_000).to_string().starts_with("errno 100000"));
    }
}
