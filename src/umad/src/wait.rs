//! Waiting for ports and for a wake-up from another thread at once.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::port::Port;
use crate::sys::{self, Fd};

/// Most ports of one [`wait`].
pub const MAX_WAIT: usize = 16;

/// How long a simulator's port may hold up the notice of anything else.
const SLICE_MS: i32 = 10;

#[derive(Debug)]
struct Event(Fd);

impl Drop for Event {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// Ends another thread's [`wait`]. Clones wake the same one; a wake-up before the wait is kept.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<Event>,
}

impl Waker {
    /// A waker, not yet woken.
    pub fn new() -> Result<Self> {
        match sys::eventfd() {
            Ok(fd) => Ok(Self {
                event: Arc::new(Event(fd)),
            }),
            Err(errno) => Err(Error::Call {
                device: "waker".to_owned(),
                call: "eventfd",
                errno,
            }),
        }
    }

    /// Wakes the waiting thread, or the next one to wait.
    pub fn wake(&self) {
        // Fails only when the count is full: then a wake-up is pending already.
        let _ = sys::write(self.event.0, &1u64.to_ne_bytes());
    }

    fn take(&self) -> bool {
        let mut count = [0; 8];
        sys::read(self.event.0, &mut count).is_ok()
    }

    fn pollfd(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.event.0,
            events: libc::POLLIN,
            revents: 0,
        }
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    ports: u16,
    removed: u16,
    /// The waker was woken; the wake-up is used up.
    pub woken: bool,
}

impl Ready {
    /// Whether the port at this place of the slice has something to receive. A simulator may say
    /// so with nothing there.
    pub fn port(&self, index: usize) -> bool {
        index < MAX_WAIT && self.ports >> index & 1 == 1
    }

    /// Whether the device of the port at this place was removed.
    pub fn removed(&self, index: usize) -> bool {
        index < MAX_WAIT && self.removed >> index & 1 == 1
    }

    /// Whether the time passed and nothing happened.
    pub fn is_timeout(&self) -> bool {
        *self == Self::default()
    }
}

/// A wait's end. The clock is read once at first, and again only if a signal cut the wait short.
pub(crate) struct Deadline {
    timeout: Option<Duration>,
    end: Option<Instant>,
    fresh: bool,
}

impl Deadline {
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        let ahead = timeout.filter(|t| !t.is_zero());
        Self {
            timeout,
            // Further than the clock reaches is no end.
            end: ahead.and_then(|t| Instant::now().checked_add(t)),
            fresh: true,
        }
    }

    /// Milliseconds left, rounded up so that a wait never ends early; -1 for no end.
    pub(crate) fn millis(&mut self) -> i32 {
        let left = match (self.timeout, self.end) {
            (None, _) => return -1,
            (Some(all), _) if self.fresh => all,
            (Some(_), Some(end)) => end.saturating_duration_since(Instant::now()),
            (Some(all), None) => all,
        };
        self.fresh = false;
        i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    }
}

/// Waits until one of the ports has something to receive, a device is removed, the waker is
/// woken, or the time passes (`None`: no end). Goes on after a signal, within the same time.
/// At most [`MAX_WAIT`] ports; does not allocate.
///
/// Ports of a simulator are polled alone in slices of at most 10 ms, since its `poll` serves
/// only one of them and nothing else in the same call.
pub fn wait(ports: &[&Port], waker: Option<&Waker>, timeout: Option<Duration>) -> Result<Ready> {
    if ports.len() > MAX_WAIT {
        return Err(Error::Call {
            device: format!("{} ports", ports.len()),
            call: "poll",
            errno: crate::Errno::EINVAL,
        });
    }
    let mut deadline = Deadline::after(timeout);
    if ports.iter().any(|p| p.is_simulated()) {
        return wait_simulated(ports, waker, deadline);
    }
    let none = libc::pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    };
    let mut fds = [none; MAX_WAIT + 1];
    for (fd, port) in fds.iter_mut().zip(ports) {
        *fd = port.pollfd();
    }
    let mut used = ports.len();
    if let Some(waker) = waker {
        fds[used] = waker.pollfd();
        used += 1;
    }
    loop {
        match sys::poll(&mut fds[..used], deadline.millis()) {
            Err(crate::Errno::EINTR) => {}
            Err(errno) => {
                return Err(Error::Call {
                    device: ports
                        .first()
                        .map_or_else(String::new, |p| p.id().to_string()),
                    call: "poll",
                    errno,
                });
            }
            Ok(_) => break,
        }
    }
    let mut ready = Ready::default();
    for (i, fd) in fds[..ports.len()].iter().enumerate() {
        if is_gone(fd) {
            ready.removed |= 1 << i;
        } else if fd.revents != 0 {
            ready.ports |= 1 << i;
        }
    }
    ready.woken = waker.is_some_and(|w| fds[ports.len()].revents != 0 && w.take());
    Ok(ready)
}

/// Waits for another kind of descriptor, such as a socket, in the same way: until it is readable,
/// the waker is woken, or the time passes. True if the descriptor is readable or has failed.
pub fn wait_fd(
    fd: BorrowedFd<'_>,
    waker: Option<&Waker>,
    timeout: Option<Duration>,
) -> Result<bool> {
    let mut deadline = Deadline::after(timeout);
    let own = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = [
        own,
        waker.map_or(libc::pollfd { fd: -1, ..own }, Waker::pollfd),
    ];
    loop {
        match sys::poll(&mut fds, deadline.millis()) {
            Err(crate::Errno::EINTR) => {}
            Err(errno) => {
                return Err(Error::Call {
                    device: format!("descriptor {}", fd.as_raw_fd()),
                    call: "poll",
                    errno,
                });
            }
            Ok(_) => break,
        }
    }
    if fds[1].revents != 0 {
        let _ = waker.is_some_and(Waker::take);
    }
    Ok(fds[0].revents != 0)
}

/// After removal only POLLERR is reported.
pub(crate) fn is_gone(fd: &libc::pollfd) -> bool {
    fd.revents & (libc::POLLERR | libc::POLLHUP) != 0
}

fn wait_simulated(ports: &[&Port], waker: Option<&Waker>, mut deadline: Deadline) -> Result<Ready> {
    let mut ready = Ready::default();
    loop {
        for (i, port) in ports.iter().enumerate() {
            let left = deadline.millis();
            let slice = if left < 0 {
                SLICE_MS
            } else {
                left.min(SLICE_MS)
            };
            // Several share the slice; once one is ready nobody waits any more.
            let n = i32::try_from(ports.len()).unwrap_or(1);
            let each = match ready.is_timeout() {
                true => (slice / n).max(slice.min(1)),
                false => 0,
            };
            match port.poll_once(each) {
                Ok(true) => ready.ports |= 1 << i,
                Ok(false) => {}
                Err(e) if e.is_interrupted() => {}
                Err(e) if e.is_device_removed() => ready.removed |= 1 << i,
                Err(e) => return Err(e),
            }
        }
        ready.woken = waker.is_some_and(Waker::take);
        if !ready.is_timeout() || deadline.millis() == 0 {
            return Ok(ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_and_waker() {
        use std::os::fd::AsFd;
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let waker = Waker::new().unwrap();
        let now = Some(Duration::ZERO);
        assert!(!wait_fd(near.as_fd(), Some(&waker), now).unwrap());
        waker.wake();
        assert!(!wait_fd(near.as_fd(), Some(&waker), None).unwrap());
        far.send(&[1]).unwrap();
        assert!(wait_fd(near.as_fd(), Some(&waker), None).unwrap());
        assert!(wait_fd(near.as_fd(), None, None).unwrap());
    }

    #[test]
    fn waker_wakes_once() {
        let waker = Waker::new().unwrap();
        let other = waker.clone();
        std::thread::spawn(move || other.wake()).join().unwrap();
        assert!(wait(&[], Some(&waker), None).unwrap().woken);
        let none = wait(&[], Some(&waker), Some(Duration::ZERO)).unwrap();
        assert!(none.is_timeout());
        // Two wake-ups before a wait are one.
        waker.wake();
        waker.wake();
        assert!(wait(&[], Some(&waker), None).unwrap().woken);
        assert!(!wait(&[], Some(&waker), Some(Duration::ZERO)).unwrap().woken);
    }
}
