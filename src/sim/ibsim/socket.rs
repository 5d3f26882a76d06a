//! Where an ibsim server listens, and datagram sockets to it: abstract unix names, or UDP to
//! another host.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fmt, process};

const DEFAULT_BASE: &str = "sim";
const DEFAULT_UDP_PORT: u16 = 7070;

/// Where an ibsim server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// On this host, under the base name of its abstract unix sockets.
    Local {
        /// `sim` unless `IBSIM_SOCKNAME` says otherwise.
        base: String,
    },
    /// On a host by UDP.
    Remote {
        /// Name or IPv4 address.
        host: String,
        /// Port of its control socket; clients' data sockets follow it.
        port: u16,
    },
}

impl Server {
    /// The server that the environment names, as ibsim's own clients read it:
    /// `IBSIM_SERVER_NAME` and `IBSIM_SERVER_PORT` (7070) for UDP, else `IBSIM_SOCKNAME`.
    ///
    /// # Errors
    /// In words, if `IBSIM_SERVER_PORT` is no usable port number.
    pub fn from_env() -> Result<Server, String> {
        Server::from_vars(|name| env::var(name).ok())
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Server, String> {
        let set = |name: &str| var(name).filter(|value| !value.is_empty());
        let Some(host) = set("IBSIM_SERVER_NAME") else {
            let base = set("IBSIM_SOCKNAME").unwrap_or_else(|| DEFAULT_BASE.to_owned());
            return Ok(Server::Local { base });
        };
        let port = match set("IBSIM_SERVER_PORT") {
            None => DEFAULT_UDP_PORT,
            // Ten data sockets follow the control socket's number.
            Some(text) => match text.trim().parse() {
                Ok(port @ 1..=65_525) => port,
                _ => {
                    return Err(format!(
                        "IBSIM_SERVER_PORT is {text:?}: it must be a port number from 1 to 65525"
                    ));
                }
            },
        };
        Ok(Server::Remote { host, port })
    }

    /// Binds a client's control and data sockets and connects the former. Returns with them the
    /// number by which the server finds the data socket.
    pub(super) fn bind(&self) -> io::Result<(Socket, Socket, u32)> {
        match self {
            Server::Local { base } => {
                let (ctl, data, id) = bind_local(base)?;
                ctl.connect_addr(&abstract_name(base, "ctl")?)?;
                Ok((Socket::Local(ctl), Socket::Local(data), id))
            }
            Server::Remote { .. } => {
                let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
                let (ctl, data) = (bind()?, bind()?);
                ctl.connect(self.udp_addr(0)?)?;
                let id = u32::from(data.local_addr()?.port());
                Ok((Socket::Remote(ctl), Socket::Remote(data), id))
            }
        }
    }

    /// Connects a bound data socket to a slot of the server.
    pub(super) fn connect_data(&self, data: &Socket, slot: u32) -> io::Result<()> {
        match (self, data) {
            (Server::Local { base }, Socket::Local(data)) => {
                data.connect_addr(&abstract_name(base, &format!("out{slot}"))?)
            }
            (_, Socket::Remote(data)) => {
                let slot = u16::try_from(slot).unwrap_or(u16::MAX);
                data.connect(self.udp_addr(slot.saturating_add(1))?)
            }
            (Server::Remote { .. }, Socket::Local(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn udp_addr(&self, offset: u16) -> io::Result<SocketAddr> {
        let Server::Remote { host, port } = self else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        (host.as_str(), port.saturating_add(offset))
            .to_socket_addrs()?
            .find(SocketAddr::is_ipv4)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it has no IPv4 address"))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Local { base } => f.write_str(base),
            Server::Remote { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// `BASE:NAME` and one more NUL, which ibsim counts into the address.
fn abstract_name(base: &str, name: &str) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("{base}:{name}\0"))
}

/// ibsim's own clients take their process number. Several ports in one process need several
/// numbers, so later ones lie above every process number (at most 2^22).
fn bind_local(base: &str) -> io::Result<(UnixDatagram, UnixDatagram, u32)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const STEP: u32 = 1 << 22;
    const TRIES: u32 = 511;
    let pid = process::id() % STEP;
    let mut last = io::ErrorKind::AddrInUse.into();
    for _ in 0..TRIES {
        // Below 2^31: the server prints it as a signed number.
        let id = pid + STEP * (NEXT.fetch_add(1, Ordering::Relaxed) % TRIES);
        let ctl = UnixDatagram::bind_addr(&abstract_name(base, &format!("ctl{id}"))?);
        let data = UnixDatagram::bind_addr(&abstract_name(base, &format!("in{id}"))?);
        match (ctl, data) {
            (Ok(ctl), Ok(data)) => return Ok((ctl, data, id)),
            (Err(e), _) | (_, Err(e)) if e.kind() == io::ErrorKind::AddrInUse => last = e,
            (Err(e), _) | (_, Err(e)) => return Err(e),
        }
    }
    Err(last)
}

/// A datagram socket of either kind.
#[derive(Debug)]
pub(super) enum Socket {
    Local(UnixDatagram),
    Remote(UdpSocket),
}

impl Socket {
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Local(s) => s.send(bytes),
            Socket::Remote(s) => s.send(bytes),
        }
    }

    pub(super) fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Local(s) => s.recv(bytes),
            Socket::Remote(s) => s.recv(bytes),
        }
    }

    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Socket::Local(s) => s.set_nonblocking(true),
            Socket::Remote(s) => s.set_nonblocking(true),
        }
    }

    /// How long sending and receiving may block.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Socket::Local(s) => {
                s.set_read_timeout(Some(timeout))?;
                s.set_write_timeout(Some(timeout))
            }
            Socket::Remote(s) => {
                s.set_read_timeout(Some(timeout))?;
                s.set_write_timeout(Some(timeout))
            }
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Local(s) => s.as_fd(),
            Socket::Remote(s) => s.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(vars: &[(&str, &str)]) -> Result<Server, String> {
        Server::from_vars(|name| {
            let found = vars.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// As ibsim's own clients read their environment.
    #[test]
    fn environment() {
        let local = |base: &str| {
            Ok(Server::Local {
                base: base.to_owned(),
            })
        };
        let remote = |port| {
            Ok(Server::Remote {
                host: "h".to_owned(),
                port,
            })
        };
        assert_eq!(from(&[]), local("sim"));
        assert_eq!(from(&[("IBSIM_SOCKNAME", "x")]), local("x"));
        assert_eq!(from(&[("IBSIM_SERVER_NAME", "")]), local("sim"));
        assert_eq!(from(&[("IBSIM_SERVER_NAME", "h")]), remote(7070));
        let port = |p| from(&[("IBSIM_SERVER_NAME", "h"), ("IBSIM_SERVER_PORT", p)]);
        assert_eq!(port("8000"), remote(8000));
        assert!(port("many").is_err());
        assert!(port("65530").is_err());
    }
}
