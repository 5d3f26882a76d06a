//! An open port: register agents, send, receive, poll.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::abi::{Address, AgentId, Header, Layout, MAD_SIZE, MAX_HEADER, Reply, padded_len};
use crate::agent::{RawRegistration, Registration, register_any};
use crate::buffer::Buffer;
use crate::errno::Errno;
use crate::error::{Access, Error, Result};
use crate::select::{PortId, Select};
use crate::sys::{self, Fd};
use crate::sysfs::Sysfs;
use crate::wait::{Deadline, is_gone};

/// Bytes of header and MAD that a simulator fills, whatever it claims to have read.
const SIMULATED_PACKET: usize = 288;

/// What a receive call found, while the buffer is still the caller's.
#[derive(Clone, Copy)]
enum Got {
    Nothing,
    Mad,
    TooSmall { needed: usize },
}

/// Opens a umad device and settles its layout: (descriptor, layout, simulated).
pub(crate) fn open_fd(sysfs: &Sysfs, umad: u32) -> Result<(Fd, Layout, bool)> {
    let abi = sysfs.abi_version()?;
    let fd = open_device(&sysfs.umad_path(umad), libc::O_RDWR | libc::O_NONBLOCK)?;
    let simulated = !sys::is_kernel_fd(fd);
    // A simulator accepts ENABLE_PKEY and changes nothing.
    let layout = if simulated {
        Layout::Old
    } else if abi > crate::sysfs::ABI_VERSION
        || sys::ioctl_none(fd, sys::request::ENABLE_PKEY).is_ok()
    {
        Layout::New
    } else {
        Layout::Old
    };
    Ok((fd, layout, simulated))
}

/// Opens a device file, and explains a refusal.
pub(crate) fn open_device(path: &Path, flags: i32) -> Result<Fd> {
    let path = || path.to_owned();
    sys::open(&path(), flags).map_err(|errno| match errno {
        Errno::EACCES | Errno::EPERM => Error::Permission {
            path: path(),
            errno,
            access: Access::of(&path()),
        },
        Errno::EAGAIN => Error::Busy { path: path() },
        errno => Error::Open {
            path: path(),
            errno,
        },
    })
}

#[derive(Debug)]
struct Inner {
    fd: Fd,
    id: PortId,
    layout: Layout,
    simulated: bool,
    /// Holds every call on this port.
    span: tracing::Span,
    /// Under a simulator: requests whose reply or timeout has not been read yet.
    outstanding: AtomicU32,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.may_let_go() {
            sys::close(self.fd);
        }
    }
}

impl Inner {
    /// A simulator's receiving thread crashes on a reply that has no agent any more; better to
    /// keep the number until the process ends.
    fn may_let_go(&self) -> bool {
        !self.simulated || self.outstanding.load(Ordering::Relaxed) == 0
    }

    fn unregister(&self, agent: AgentId) -> std::result::Result<(), Errno> {
        let mut arg = sys::Arg([0; 4]);
        arg.0 = agent.0.to_ne_bytes();
        sys::ioctl(self.fd, sys::request::UNREGISTER_AGENT, &mut arg)
    }
}

/// An open umad device: one port of one InfiniBand device.
///
/// Calls take `&self` and the kernel orders them, so a port may be shared between threads. The
/// file is close-on-exec and non-blocking. Dropping the port closes it, which unregisters its
/// agents and forgets, without a word, what is still in flight.
#[derive(Debug)]
pub struct Port {
    inner: Arc<Inner>,
}

/// An agent that unregisters itself when dropped, unless its port was closed before.
#[derive(Debug)]
pub struct Agent {
    id: AgentId,
    port: Weak<Inner>,
}

impl Agent {
    /// Its number within the port.
    pub fn id(&self) -> AgentId {
        self.id
    }

    /// Keeps the agent registered until the port is closed.
    pub fn leak(mut self) -> AgentId {
        self.port = Weak::new();
        self.id
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(port) = self.port.upgrade()
            && port.may_let_go()
            && let Err(errno) = port.unregister(self.id)
        {
            let _span = port.span.enter();
            tracing::debug!(agent = self.id.0, ?errno, "unregister");
        }
    }
}

/// What a receive call found.
#[derive(Debug, PartialEq, Eq)]
pub enum Recv<'a> {
    /// Nothing is there now.
    Empty,
    /// A MAD, or with kernel RMPP a whole message, which can be shorter than 256 bytes.
    Mad {
        /// The agent it is for.
        agent: AgentId,
        /// Where it came from.
        from: Address,
        /// Its bytes.
        mad: &'a [u8],
    },
    /// A send of ours got no reply in time, on any try.
    TimedOut {
        /// The agent that sent.
        agent: AgentId,
        /// The address as it was sent to.
        to: Address,
        /// Transaction ID; the kernel replaces its upper half, so only the low 32 bits are the
        /// sender's.
        tid: u64,
        /// ETIMEDOUT.
        errno: Errno,
        /// What the kernel gives back of the MAD: its first 24 bytes.
        mad: &'a [u8],
    },
    /// The next message is longer than the buffer. It stays queued: receive it again with a
    /// buffer for `needed` MAD bytes (see [`Buffer::ensure`]).
    TooSmall {
        /// MAD bytes that the message has.
        needed: usize,
    },
}

impl Port {
    /// Opens the port that a selection means on this host.
    pub fn open(select: &Select) -> Result<Self> {
        Self::open_in(&Sysfs::system(), select)
    }

    /// Opens the port that a selection means under a sysfs.
    pub fn open_in(sysfs: &Sysfs, select: &Select) -> Result<Self> {
        let id = sysfs.resolve(select)?;
        Self::open_id(sysfs, id)
    }

    /// Opens a resolved port. Any number of files may be open on one port.
    pub fn open_id(sysfs: &Sysfs, id: PortId) -> Result<Self> {
        let span = tracing::debug_span!("umad", port = %id, umad = id.umad);
        let entered = span.enter();
        let (fd, layout, simulated) = open_fd(sysfs, id.umad)?;
        tracing::debug!(fd, ?layout, simulated, "opened");
        drop(entered);
        Ok(Self {
            inner: Arc::new(Inner {
                fd,
                id,
                layout,
                simulated,
                span,
                outstanding: AtomicU32::new(0),
            }),
        })
    }

    /// Device, port and umad number.
    pub fn id(&self) -> &PortId {
        &self.inner.id
    }

    /// The file descriptor, for use in other event loops. Not for reading or writing. Under a
    /// simulator it is no number that the kernel knows: use [`wait`](crate::wait).
    pub fn fd(&self) -> i32 {
        self.inner.fd
    }

    /// The header that this file carries in front of each MAD.
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// Whether a preloaded simulator stands in for the kernel. Then at most 256 requests may be
    /// in flight, no long messages pass, and a class belongs to the file that registered it last.
    pub fn is_simulated(&self) -> bool {
        self.inner.simulated
    }

    /// Closes the file. The same as dropping it.
    pub fn close(self) {}

    fn name(&self) -> String {
        self.inner.id.to_string()
    }

    /// EIO and EPIPE have two meanings; a look at the file tells.
    fn is_removed(&self) -> bool {
        let mut fds = [self.pollfd()];
        matches!(sys::poll(&mut fds, 0), Ok(1)) && is_gone(&fds[0])
    }

    fn failed(&self, call: &'static str, errno: Errno) -> Error {
        if matches!(errno, Errno::EIO | Errno::EPIPE | Errno::ENODEV) && self.is_removed() {
            tracing::debug!(call, "device removed");
            return Error::DeviceRemoved {
                device: self.name(),
                call,
            };
        }
        Error::Call {
            device: self.name(),
            call,
            errno,
        }
    }

    /// Registers an agent; it unregisters itself when dropped.
    pub fn register(&self, registration: &Registration) -> Result<Agent> {
        let _span = self.inner.span.enter();
        let raw = RawRegistration::from(registration);
        let result = register_any(self.inner.fd, &raw);
        tracing::debug!(
            class = raw.class, version = raw.version,
            methods = ?raw.methods, ?result, "register"
        );
        match result {
            Ok(id) => Ok(Agent {
                id: AgentId(id),
                port: Arc::downgrade(&self.inner),
            }),
            Err((errno, known)) => match self.failed("ioctl", errno) {
                gone @ Error::DeviceRemoved { .. } => Err(gone),
                _ => Err(Error::Register {
                    device: self.name(),
                    class: raw.class,
                    version: raw.version,
                    methods: raw.methods,
                    errno,
                    supported_flags: (errno == Errno::EINVAL
                        && raw.flags != 0
                        && known & raw.flags != raw.flags)
                        .then_some(known),
                }),
            },
        }
    }

    /// Unregisters an agent by its number; sends in flight are cancelled silently. For agents
    /// that were [leaked](Agent::leak).
    pub fn unregister(&self, agent: AgentId) -> Result<()> {
        let _span = self.inner.span.enter();
        tracing::debug!(agent = agent.0, "unregister");
        self.inner
            .unregister(agent)
            .map_err(|errno| Error::Unregister {
                device: self.name(),
                agent: agent.0,
                errno,
            })
    }

    /// Sends one MAD, or with kernel RMPP a whole message.
    ///
    /// The kernel replaces the upper 32 bits of a request's transaction ID, so match replies on
    /// the lower ones. Shorter MADs are padded with zeros to 256 bytes, since some kernels corrupt
    /// memory on shorter ones; only an RMPP message keeps its length down to the start of its
    /// class's data, because that length is what the receiver sees. Allocates only for a message
    /// beyond 256 bytes.
    pub fn send(&self, agent: AgentId, to: &Address, mad: &[u8], reply: Reply) -> Result<()> {
        let header = self.inner.layout.header_len();
        let head = self.header(agent, to, padded_len(mad), reply);
        if mad.len() <= MAD_SIZE {
            let mut packet = [0; MAX_HEADER + MAD_SIZE];
            packet[..MAX_HEADER].copy_from_slice(&head);
            packet[header..header + mad.len()].copy_from_slice(mad);
            self.write(agent, &packet[..header + padded_len(mad)], reply)
        } else {
            let mut packet = Vec::with_capacity(header + mad.len());
            packet.extend_from_slice(&head[..header]);
            packet.extend_from_slice(mad);
            self.write(agent, &packet, reply)
        }
    }

    fn header(&self, agent: AgentId, to: &Address, len: usize, reply: Reply) -> [u8; MAX_HEADER] {
        let (timeout_ms, retries) = reply.to_fields();
        let total = self.inner.layout.header_len() + len;
        Header {
            agent_id: agent.0,
            status: 0,
            timeout_ms,
            retries,
            length: u32::try_from(total).unwrap_or(u32::MAX),
            addr: *to,
        }
        .encode(self.inner.layout)
    }

    /// Sends the first `len` bytes of a buffer's MAD to the buffer's address, without a copy.
    /// Padded as in [`send`](Self::send).
    pub fn send_buffer(
        &self,
        agent: AgentId,
        buffer: &mut Buffer,
        len: usize,
        reply: Reply,
    ) -> Result<()> {
        let packet = buffer.prepare(self.inner.layout, agent, len, reply)?;
        self.write(agent, packet, reply)
    }

    fn write(&self, agent: AgentId, packet: &[u8], reply: Reply) -> Result<()> {
        let _span = self.inner.span.enter();
        let class = packet
            .get(self.inner.layout.header_len() + 1)
            .copied()
            .unwrap_or(0);
        // Counted before the write: the reply may be read by another thread at once.
        let expects = self.inner.simulated && reply != Reply::None;
        if expects {
            self.inner.outstanding.fetch_add(1, Ordering::Relaxed);
        }
        let errno = match sys::write(self.inner.fd, packet) {
            Ok(n) if n == packet.len() => {
                tracing::trace!(agent = agent.0, class, n, "sent");
                return Ok(());
            }
            Ok(_) => Errno::EIO,
            Err(errno) => errno,
        };
        if expects {
            self.settled();
        }
        tracing::debug!(agent = agent.0, class, ?errno, "send failed");
        Err(match self.failed("write", errno) {
            Error::Call { device, errno, .. } => Error::Send {
                device,
                agent: agent.0,
                class,
                errno,
            },
            other => other,
        })
    }

    fn settled(&self) {
        let _ = self
            .inner
            .outstanding
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    }

    /// Receives what is there, without waiting and without allocating.
    pub fn recv<'a>(&self, buffer: &'a mut Buffer) -> Result<Recv<'a>> {
        let got = self.receive(buffer)?;
        Ok(Self::view(buffer, got))
    }

    /// As [`recv`](Self::recv), growing the buffer where a message needs it.
    pub fn recv_growing<'a>(&self, buffer: &'a mut Buffer) -> Result<Recv<'a>> {
        // Another thread may take the message and leave a longer one: ask until it fits.
        let got = loop {
            match self.receive(buffer)? {
                Got::TooSmall { needed } => buffer.ensure(needed),
                got => break got,
            }
        };
        Ok(Self::view(buffer, got))
    }

    fn view(buffer: &Buffer, got: Got) -> Recv<'_> {
        let agent = AgentId(buffer.header().agent_id);
        let mad = buffer.mad();
        match got {
            Got::Nothing => Recv::Empty,
            Got::TooSmall { needed } => Recv::TooSmall { needed },
            Got::Mad if buffer.status() == 0 => Recv::Mad {
                agent,
                from: *buffer.address(),
                mad,
            },
            Got::Mad => {
                let mut tid = [0; 8];
                if let Some(bytes) = mad.get(8..16) {
                    tid.copy_from_slice(bytes);
                }
                Recv::TimedOut {
                    agent,
                    to: *buffer.address(),
                    tid: u64::from_be_bytes(tid),
                    errno: Errno(buffer.status().cast_signed()),
                    mad,
                }
            }
        }
    }

    fn receive(&self, buffer: &mut Buffer) -> Result<Got> {
        let _span = self.inner.span.enter();
        let layout = self.inner.layout;
        let got = match buffer.receive(layout, |raw| sys::read(self.inner.fd, raw)) {
            Ok(Some(_)) => Got::Mad,
            // The kernel never delivers less than a header; what stands in for it said nothing.
            Ok(None) | Err(Errno::EAGAIN) => return Ok(Got::Nothing),
            Err(Errno::ENOSPC) => {
                let length = buffer.header().length as usize;
                let needed = length.saturating_sub(layout.header_len());
                // A length that fits was not the trouble: without growth there is no end.
                if needed <= buffer.capacity() {
                    return Err(self.failed("read", Errno::ENOSPC));
                }
                tracing::trace!(needed, "buffer too small");
                return Ok(Got::TooSmall { needed });
            }
            Err(errno) => return Err(self.failed("read", errno)),
        };
        if self.inner.simulated {
            // A simulator's packet ends early: the rest is whatever was in its memory.
            let end = SIMULATED_PACKET - layout.header_len();
            if let Some(rest) = buffer.mad_mut().get_mut(end..) {
                rest.fill(0);
            }
        }
        let response = buffer.mad().get(3).is_some_and(|m| m & 0x80 != 0);
        if self.inner.simulated && (response || buffer.status() != 0) {
            self.settled();
        }
        tracing::trace!(
            agent = buffer.header().agent_id,
            status = buffer.status(),
            len = buffer.len(),
            "received"
        );
        Ok(got)
    }

    /// Waits until something can be received: `true`, or `false` after `timeout` (`None`: no
    /// end). Goes on after a signal, within the same timeout. A simulator may say `true` with
    /// nothing there.
    pub fn poll(&self, timeout: Option<Duration>) -> Result<bool> {
        let mut deadline = Deadline::after(timeout);
        loop {
            match self.poll_once(deadline.millis()) {
                Err(e) if e.is_interrupted() => {}
                other => return other,
            }
        }
    }

    /// One `poll(2)`, which a signal interrupts (EINTR).
    pub fn poll_once(&self, timeout_ms: i32) -> Result<bool> {
        let _span = self.inner.span.enter();
        let mut fds = [self.pollfd()];
        match sys::poll(&mut fds, timeout_ms) {
            Ok(0) => Ok(false),
            Ok(_) if is_gone(&fds[0]) => Err(Error::DeviceRemoved {
                device: self.name(),
                call: "poll",
            }),
            Ok(_) => Ok(true),
            Err(errno) => Err(self.failed("poll", errno)),
        }
    }

    pub(crate) fn pollfd(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.inner.fd,
            events: libc::POLLIN,
            revents: 0,
        }
    }
}

/// Ports, agents and wakers go between threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Port>();
    shared::<Agent>();
    shared::<crate::Waker>();
};
