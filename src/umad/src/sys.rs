//! The few system calls this crate makes, wrapped once.
//!
//! They go through `libc` by their plain names (`open`, `read`, `write`, `poll`, `ioctl`,
//! `opendir`), never through `std`: simulators preloaded into a process replace exactly these
//! symbols, and `std` uses others (`open64`, `statx`). File descriptors stay plain integers,
//! closed by `close`: a simulator hands out numbers that the kernel does not know, and `OwnedFd`
//! aborts on those.

use std::ffi::{CStr, CString, c_int, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::errno::Errno;

/// A file descriptor as a plain number.
pub(crate) type Fd = c_int;

/// The value of `errno` after a failed call.
pub(crate) fn errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[cfg(feature = "capi")]
pub(crate) fn set_errno(e: Errno) {
    // SAFETY: glibc and musl return a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = e.0 };
}

// C programs cancel threads that wait in these calls (pthread_cancel), and glibc unwinds the
// stack then, through this crate's frames when they run on its C face. The libc crate declares
// them as never unwinding.
unsafe extern "C-unwind" {
    #[link_name = "read"]
    fn c_read(fd: c_int, buf: *mut c_void, len: usize) -> isize;
    #[link_name = "write"]
    fn c_write(fd: c_int, buf: *const c_void, len: usize) -> isize;
    #[link_name = "poll"]
    fn c_poll(fds: *mut libc::pollfd, n: libc::nfds_t, timeout_ms: c_int) -> c_int;
}

fn c_path(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))
}

/// `open(2)`; close-on-exec is always added.
pub(crate) fn open(path: &Path, flags: c_int) -> Result<Fd, Errno> {
    let path = c_path(path)?;
    // SAFETY: `path` is a NUL-terminated string that lives through the call; without O_CREAT no
    // third argument is read.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    // A simulator out of descriptors returns -1 with errno 0.
    if fd < 0 { Err(errno()) } else { Ok(fd) }
}

/// `close(2)`. Its result carries nothing that a caller could act on.
pub(crate) fn close(fd: Fd) {
    // SAFETY: no memory is passed; the number comes from `open` or `eventfd` and is closed once.
    unsafe { libc::close(fd) };
}

/// `read(2)`. A simulator returns a negative errno from an empty read instead of -1 with errno;
/// both become the same error.
pub(crate) fn read(fd: Fd, buf: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: pointer and length are those of one live, writable slice.
    unsafe { read_raw(fd, buf.as_mut_ptr(), buf.len()) }
}

/// The same into memory that need not be initialized.
///
/// # Safety
///
/// `buf` points to `len` writable bytes that nothing else uses during the call.
pub(crate) unsafe fn read_raw(fd: Fd, buf: *mut u8, len: usize) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    let n = unsafe { c_read(fd, buf.cast::<c_void>(), len) };
    match n {
        -1 => Err(errno()),
        n if n < 0 => Err(Errno(c_int::try_from(-n).unwrap_or(libc::EIO))),
        // Never more than was asked for, whatever a replaced `read` claims.
        n => Ok(usize::try_from(n).unwrap_or(0).min(len)),
    }
}

/// `write(2)`.
pub(crate) fn write(fd: Fd, buf: &[u8]) -> Result<usize, Errno> {
    // SAFETY: pointer and length are those of one live slice.
    let n = unsafe { c_write(fd, buf.as_ptr().cast::<c_void>(), buf.len()) };
    usize::try_from(n).map_err(|_| errno())
}

/// `poll(2)`: `Ok` is the number of entries with events. Does not restart after a signal.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout_ms: c_int) -> Result<usize, Errno> {
    let n = libc::nfds_t::try_from(fds.len()).unwrap_or(0);
    // SAFETY: pointer and count are those of one live, writable slice of pollfd.
    let rc = unsafe { c_poll(fds.as_mut_ptr(), n, timeout_ms) };
    usize::try_from(rc).map_err(|_| errno())
}

/// Numbers of the four user_mad requests (magic 0x1b), as this architecture encodes direction
/// and size.
pub(crate) mod request {
    use super::c_ulong;

    #[cfg(any(
        target_arch = "powerpc",
        target_arch = "powerpc64",
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "sparc",
        target_arch = "sparc64"
    ))]
    const fn code(read: bool, write: bool, nr: c_ulong, size: usize) -> c_ulong {
        let dir: c_ulong = match (read, write) {
            (false, false) => 1,
            (true, false) => 2,
            (false, true) => 4,
            (true, true) => 6,
        };
        dir << 29 | (size as c_ulong) << 16 | 0x1b << 8 | nr
    }

    #[cfg(not(any(
        target_arch = "powerpc",
        target_arch = "powerpc64",
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "sparc",
        target_arch = "sparc64"
    )))]
    const fn code(read: bool, write: bool, nr: c_ulong, size: usize) -> c_ulong {
        let dir = (read as c_ulong) << 1 | write as c_ulong;
        dir << 30 | (size as c_ulong) << 16 | 0x1b << 8 | nr
    }

    pub(crate) const REGISTER_AGENT: c_ulong = code(true, true, 1, 28);
    pub(crate) const UNREGISTER_AGENT: c_ulong = code(false, true, 2, 4);
    pub(crate) const ENABLE_PKEY: c_ulong = code(false, false, 3, 0);
    pub(crate) const REGISTER_AGENT2: c_ulong = code(true, true, 4, 40);

    #[cfg(test)]
    mod tests {
        /// The numbers that `strace` prints for libibumad's calls on x86-64.
        #[test]
        #[cfg(target_arch = "x86_64")]
        fn numbers() {
            assert_eq!(super::REGISTER_AGENT, 0xC01C_1B01);
            assert_eq!(super::UNREGISTER_AGENT, 0x4004_1B02);
            assert_eq!(super::ENABLE_PKEY, 0x0000_1B03);
            assert_eq!(super::REGISTER_AGENT2, 0xC028_1B04);
        }
    }
}

/// Structures that the user_mad requests read and write. Alignment 8 suits every variant.
#[repr(C, align(8))]
pub(crate) struct Arg<const N: usize>(pub(crate) [u8; N]);

/// `ioctl(2)` with an argument block of at least the size that the request's number states.
pub(crate) fn ioctl<const N: usize>(
    fd: Fd,
    request: c_ulong,
    arg: &mut Arg<N>,
) -> Result<(), Errno> {
    // The request number carries the size that the kernel will copy.
    debug_assert!(N >= (request as usize >> 16) & 0x1fff);
    // SAFETY: `arg` is a live, writable, aligned block; the four user_mad requests copy at most
    // the size in their number, which is N.
    let rc = unsafe { libc::ioctl(fd, request as _, arg.0.as_mut_ptr().cast::<c_void>()) };
    if rc < 0 { Err(errno()) } else { Ok(()) }
}

/// `ioctl(2)` without an argument.
pub(crate) fn ioctl_none(fd: Fd, request: c_ulong) -> Result<(), Errno> {
    // SAFETY: ENABLE_PKEY takes no argument; a null pointer is passed for replacements of
    // `ioctl` that read one.
    let rc = unsafe { libc::ioctl(fd, request as _, std::ptr::null_mut::<c_void>()) };
    if rc < 0 { Err(errno()) } else { Ok(()) }
}

/// Whether the kernel knows this number as an open file. A preloaded simulator hands out numbers
/// that only its own replacements understand, and it does not replace `fcntl`.
pub(crate) fn is_kernel_fd(fd: Fd) -> bool {
    // SAFETY: F_GETFD takes no further argument and changes nothing.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0
}

/// A non-blocking eventfd.
pub(crate) fn eventfd() -> Result<Fd, Errno> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 { Err(errno()) } else { Ok(fd) }
}

/// Names in a directory except `.` and `..`, in the order in which the system gives them.
/// Names that are not UTF-8 are left out: no device has one.
pub(crate) fn list_dir(path: &Path) -> Result<Vec<String>, Errno> {
    let c = c_path(path)?;
    // SAFETY: `c` is a NUL-terminated string that lives through the call.
    let dir = unsafe { libc::opendir(c.as_ptr()) };
    if dir.is_null() {
        return Err(errno());
    }
    let mut names = Vec::new();
    loop {
        // SAFETY: `dir` is an open stream that only this function uses.
        let entry = unsafe { libc::readdir(dir) };
        if entry.is_null() {
            break;
        }
        // SAFETY: a non-null entry is valid until the next call on the same stream, and its
        // name is NUL-terminated.
        let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
        if let Ok(name) = name.to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    // SAFETY: `dir` came from opendir and is closed once.
    unsafe { libc::closedir(dir) };
    Ok(names)
}
