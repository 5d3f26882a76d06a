//! A client of an ibsim server, as a port: fabtop attaches to a node of ibsim's fabric without
//! the preloaded shim.
//!
//! The protocol: abstract unix datagram sockets (or UDP), one pair for control and one for MADs;
//! the server gives each client one of ten slots. It gives a MAD that it cannot deliver back at
//! once. It never says that it ended: a refused send is what tells.
//!
//! This room must never be reached unless asked for by name. The deadlines of MADs come from the
//! [`Stamp`]s of the calls; the host's clock only bounds the wait for a control answer.

mod socket;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use crate::mad::{Attribute, MAD_LEN, Mad, NodeInfo, NodeType, PKeyTable, PortInfo};
use crate::port::{
    Address, Agent, AgentReport, Arrival, LocalPort, MadPort, Outgoing, Pending, PortError, Source,
    Stamp, Waker,
};

pub use socket::Server;
use socket::Socket;
use wire::Ctl;

/// How long an answer on the control socket is waited for in all. A server that is there
/// answers within microseconds, unless its console has it wait.
const CTL_PATIENCE: Duration = Duration::from_secs(2);

/// How long a slot is waited for. A server that finds the asker gone when it comes to connect it
/// ends itself, so giving up early on one that is merely slow would take the fabric down.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long leaving may take.
const BYE_PATIENCE: Duration = Duration::from_millis(200);

/// How long one blocking call on the control socket may take before MADs are drained again.
const CTL_SLICE: Duration = Duration::from_millis(20);

/// One attachment to a server: sockets and slot.
#[derive(Debug)]
struct Link {
    ctl: Socket,
    data: Socket,
    slot: u32,
    /// Where the server attached us.
    node: String,
}

/// A port of a node of ibsim's fabric.
#[derive(Debug)]
pub struct IbsimPort {
    server: Server,
    /// The node asked for; empty for the server's default.
    wanted: String,
    issm: bool,
    link: Option<Link>,
    node_info: NodeInfo,
    pending: Pending,
    /// Drained while something else was waited for.
    backlog: VecDeque<Arrival>,
}

impl IbsimPort {
    /// Attaches to the server that the environment names ([`Server::from_env`]), at the node of
    /// this name (its id in the net file, or its description), else at the file's first.
    ///
    /// With `issm` the port takes the IsSM role of that node in the server's eyes, without which
    /// ibsim delivers nothing unasked, not even the Reports that were subscribed to. It sets no
    /// capability bit, so a subnet manager has no reason to ask for its SMInfo; should one do so,
    /// that Get arrives like everything else.
    ///
    /// # Errors
    /// In one sentence: no server, no such node, its IsSM role or every client slot taken.
    pub fn attach(node: Option<&str>, issm: bool) -> Result<IbsimPort, PortError> {
        let server = Server::from_env().map_err(PortError::Mistake)?;
        IbsimPort::attach_to(server, node, issm)
    }

    /// Attaches to this server. See [`IbsimPort::attach`].
    ///
    /// # Errors
    /// As [`IbsimPort::attach`].
    pub fn attach_to(
        server: Server,
        node: Option<&str>,
        issm: bool,
    ) -> Result<IbsimPort, PortError> {
        let wanted = node.unwrap_or_default();
        if wanted.len() > wire::MAX_NODE_NAME || wanted.contains('\0') {
            return Err(PortError::Mistake(format!(
                "{wanted:?} cannot name a node for ibsim: it takes at most {} bytes",
                wire::MAX_NODE_NAME
            )));
        }
        let mut port = IbsimPort {
            server,
            wanted: wanted.to_owned(),
            issm,
            link: None,
            node_info: NodeInfo::new(),
            pending: Pending::new(Pending::IBSIM_LIMIT),
            backlog: VecDeque::new(),
        };
        port.open()?;
        Ok(port)
    }

    /// The node attached at, by its id in the server's net file.
    pub fn node(&self) -> &str {
        self.link.as_ref().map_or("", |link| &link.node)
    }

    fn open(&mut self) -> Result<(), PortError> {
        self.close();
        let link = Link::open(&self.server, &self.wanted, self.issm)?;
        self.link = Some(link);
        let data = self.ctl(Ctl::NodeInfo, 0)?;
        self.node_info = NodeInfo::from_bytes(&data).map_err(|e| self.trouble(&e.to_string()))?;
        Ok(())
    }

    fn close(&mut self) {
        if let Some(link) = self.link.take() {
            link.disconnect();
        }
        self.pending.clear();
        self.backlog.clear();
    }

    fn device(&self) -> String {
        format!("ibsim {}", self.server)
    }

    fn gone(&self) -> PortError {
        PortError::Gone {
            device: self.device(),
        }
    }

    fn trouble(&self, what: &str) -> PortError {
        PortError::Other(format!("{}: {what}", self.device()))
    }

    /// A question on the control socket. MADs that come meanwhile are kept: the server is one
    /// thread, and while our socket is full it does nothing but try to write to it.
    fn ctl(&mut self, ctl: Ctl, arg: u8) -> Result<[u8; wire::CTL_DATA], PortError> {
        let Some(link) = &self.link else {
            return Err(self.gone());
        };
        let mut drained = VecDeque::new();
        let answer = link.ask(ctl, &[arg], CTL_PATIENCE, || {
            while let Ok(Some(data)) = link.receive() {
                drained.push_back(data);
            }
        });
        for data in drained {
            if let Some(arrival) = self.arrived(data) {
                self.backlog.push_back(arrival);
            }
        }
        match answer {
            Ok(Ok(data)) => Ok(data),
            Ok(Err(())) => Err(self.trouble("the server refuses this client")),
            Err(e) => Err(self.failed("recv", 0, &e)),
        }
    }

    /// What a failed call means: the server is gone, or trouble.
    fn failed(&mut self, call: &'static str, class: u8, e: &io::Error) -> PortError {
        if is_gone(e) {
            self.close();
            return self.gone();
        }
        PortError::Call {
            device: self.device(),
            call,
            class,
            errno: e.to_string(),
        }
    }

    /// What a datagram means to the rooms above; `None` if nothing.
    fn arrived(&mut self, data: Result<wire::Data, (Vec<u8>, String)>) -> Option<Arrival> {
        let data = match data {
            Ok(data) => data,
            Err((raw, why)) => {
                let head = raw.iter().take(64).copied().collect();
                return Some(Arrival::Malformed {
                    len: raw.len(),
                    why,
                    head,
                });
            }
        };
        let (mad, addr) = (data.mad, data.from);
        let tid = mad.tid_low();
        if data.status != 0 {
            // Our own request or response, come back. A response is expected by nobody here.
            if mad.is_response() {
                return None;
            }
            self.pending.settled(tid);
            return Some(Arrival::Unanswered {
                tid,
                class: mad.class().code(),
                errno: i32::try_from(data.status).unwrap_or(i32::MAX),
            });
        }
        if mad.is_response() {
            self.pending.settled(tid);
        }
        Some(Arrival::Mad { addr, mad })
    }
}

impl MadPort for IbsimPort {
    fn source(&self) -> Source {
        Source::Ibsim {
            server: self.server.to_string(),
        }
    }

    fn agents(&self) -> Vec<AgentReport> {
        let report = |agent| AgentReport {
            agent,
            refused: None,
            reports: agent == Agent::SubnAdm && self.issm,
        };
        Agent::ALL.map(report).to_vec()
    }

    fn local(&mut self, _now: Stamp) -> Result<LocalPort, PortError> {
        let info = self.ctl(Ctl::PortInfo, 0)?;
        let pkeys = self.ctl(Ctl::Pkeys, 0)?;
        let info = PortInfo::from_bytes(&info).map_err(|e| self.trouble(&e.to_string()))?;
        let pkeys = PKeyTable::from_bytes(&pkeys).map_err(|e| self.trouble(&e.to_string()))?;
        let node_guid = self.node_info.node_guid();
        // ibsim numbers a CA's port GUIDs after its node GUID; a switch has but one.
        let port = match self.node_info.node_type() {
            NodeType::Switch => 0,
            _ => info.local_port(),
        };
        let at = |key| pkeys.pkeys().iter().position(|&k| k == key);
        let (full, limited) = (at(0xFFFF), at(0x7FFF));
        Ok(LocalPort {
            ca: self.node().to_owned(),
            port,
            node_guid,
            port_guid: node_guid.wrapping_add(u64::from(port)),
            gid_prefix: info.gid_prefix(),
            lid: info.lid(),
            lmc: info.lmc(),
            sm_lid: info.sm_lid(),
            sm_sl: info.sm_sl(),
            state: info.port_state().code(),
            cap_mask: info.cap_mask().0,
            pkey_index: full.or(limited).and_then(|i| u16::try_from(i).ok()),
            pkey_limited: full.is_none() && limited.is_some(),
            pkeys: LocalPort::pkeys(pkeys.pkeys()),
        })
    }

    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError> {
        let Some(link) = &self.link else {
            return Err(self.gone());
        };
        if out.mad.len() > MAD_LEN {
            return Err(PortError::Other(format!(
                "ibsim carries MADs of {MAD_LEN} bytes, not a message of {}",
                out.mad.len()
            )));
        }
        let class = out.mad.class().code();
        if out.timeout_ms > 0 && self.pending.is_full() {
            return Err(PortError::WouldBlock);
        }
        if !Pending::ibsim_bears(&out.mad) {
            self.pending.sent(out.mad.tid_low(), class, now);
            return Ok(());
        }
        match link.send(&out.addr, &out.mad) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(PortError::WouldBlock),
            Err(e) => return Err(self.failed("send", class, &e)),
        }
        if out.timeout_ms > 0 {
            let deadline = now + Duration::from_millis(u64::from(out.timeout_ms));
            self.pending.sent(out.mad.tid_low(), class, deadline);
        }
        Ok(())
    }

    fn recv(&mut self, now: Stamp) -> Result<Option<Arrival>, PortError> {
        if let Some(arrival) = self.backlog.pop_front() {
            return Ok(Some(arrival));
        }
        loop {
            let Some(link) = &self.link else {
                return Err(self.gone());
            };
            match link.receive() {
                Ok(Some(data)) => {
                    if let Some(arrival) = self.arrived(data) {
                        return Ok(Some(arrival));
                    }
                }
                Ok(None) => return Ok(self.pending.expired(now)),
                Err(e) => return Err(self.failed("recv", 0, &e)),
            }
        }
    }

    fn due(&self) -> Option<Stamp> {
        if !self.backlog.is_empty() {
            return Some(Stamp::ZERO);
        }
        self.pending.due()
    }

    fn fd(&self) -> Option<RawFd> {
        self.link.as_ref().map(|link| link.data.fd())
    }

    fn wait(&mut self, waker: &Waker, timeout: Duration) -> Result<(), PortError> {
        if !self.backlog.is_empty() {
            return Ok(());
        }
        let waited = match &self.link {
            Some(link) => umad::wait_fd(link.data.as_fd(), Some(waker), Some(timeout)).map(|_| ()),
            // Nothing to wait for until it is opened again.
            None => umad::wait(&[], Some(waker), Some(timeout)).map(|_| ()),
        };
        waited.map_err(|e| PortError::Other(e.to_string()))
    }

    fn reopen(&mut self) -> Result<(), PortError> {
        self.open()
    }
}

impl Drop for IbsimPort {
    fn drop(&mut self) {
        self.close();
    }
}

impl Link {
    fn open(server: &Server, node: &str, issm: bool) -> Result<Link, PortError> {
        let other = |why: String| PortError::Other(format!("ibsim server {server}: {why}"));
        let absent = |e: &io::Error| {
            let cure = match server {
                Server::Local { .. } => "start ibsim first, or set IBSIM_SOCKNAME to its name",
                Server::Remote { .. } => "check IBSIM_SERVER_NAME and IBSIM_SERVER_PORT",
            };
            other(format!("no answer ({e}); {cure}"))
        };
        let (ctl, data, id) = server.bind().map_err(|e| absent(&e))?;
        let ready = ctl
            .set_timeout(CTL_SLICE)
            .and_then(|()| data.set_nonblocking());
        ready.map_err(|e| other(e.to_string()))?;
        let mut link = Link {
            ctl,
            data,
            slot: 0,
            node: String::new(),
        };
        match link.connect(id, node, issm) {
            Ok(true) => {}
            Ok(false) => return Err(link.why_refused(server, id, node, issm)),
            Err(e) => {
                if is_transient(&e) {
                    // The question is still in the server's queue: what it will connect to must
                    // be there then.
                    std::mem::forget(link);
                }
                return Err(absent(&e));
            }
        }
        if let Err(e) = server.connect_data(&link.data, link.slot) {
            link.disconnect();
            return Err(absent(&e));
        }
        Ok(link)
    }

    /// Asks for a slot; false if the server refuses.
    fn connect(&mut self, id: u32, node: &str, issm: bool) -> io::Result<bool> {
        let ask = wire::encode_connect(id, issm, node);
        let Ok(answer) = self.ask(Ctl::Connect, &ask, CONNECT_PATIENCE, || {})? else {
            return Ok(false);
        };
        (self.slot, self.node) = wire::decode_connect(&answer);
        Ok(true)
    }

    /// The server says only no: what it takes instead tells why.
    fn why_refused(&mut self, server: &Server, id: u32, node: &str, issm: bool) -> PortError {
        let mut takes = |node: &str| {
            let yes = self.connect(id, node, false).unwrap_or(false);
            if yes {
                self.disconnect();
            }
            yes
        };
        if issm && takes(node) {
            let node = match node {
                "" => "its first node".to_owned(),
                node => format!("{node:?}"),
            };
            return PortError::Mistake(format!(
                "ibsim server {server}: another client holds the IsSM role of {node}; attach at \
                 another node"
            ));
        }
        if !node.is_empty() && takes("") {
            return PortError::Mistake(format!(
                "ibsim server {server}: its fabric has no node {node:?}"
            ));
        }
        PortError::Other(format!(
            "ibsim server {server}: all ten of its client slots are taken; end another client"
        ))
    }

    fn disconnect(&self) {
        // Nobody is left to tell if this fails; the server finds out by itself.
        let _ = self.ask(Ctl::Disconnect, &[], BYE_PATIENCE, || {
            while let Ok(Some(_)) = self.receive() {}
        });
    }

    /// One question and its answer; `drain` is called between the slices of the wait.
    fn ask(
        &self,
        ctl: Ctl,
        arg: &[u8],
        patience: Duration,
        mut drain: impl FnMut(),
    ) -> io::Result<Result<[u8; wire::CTL_DATA], ()>> {
        let until = Instant::now() + patience;
        let ask = wire::encode_ctl(self.slot, ctl, wire::CTL_DATA, arg);
        let mut sent = false;
        let mut raw = [0; wire::CTL_LEN + 1];
        loop {
            let step = match sent {
                false => self.ctl.send(&ask).map(|_| None),
                true => self.ctl.recv(&mut raw).map(Some),
            };
            match step {
                Ok(None) => sent = true,
                Ok(Some(len)) => {
                    let raw = raw.get(..len).unwrap_or_default();
                    if let Some(answer) = wire::decode_ctl(raw, ctl) {
                        return Ok(answer);
                    }
                }
                Err(e) if is_transient(&e) => drain(),
                Err(e) => return Err(e),
            }
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn send(&self, to: &Address, mad: &Mad) -> io::Result<()> {
        let raw = wire::encode_data(self.slot, to, mad);
        loop {
            match self.data.send(&raw) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(|_| ()),
            }
        }
    }

    /// The next datagram: read, or its bytes and what is wrong with them.
    #[allow(clippy::type_complexity)] // one call site apart
    fn receive(&self) -> io::Result<Option<Result<wire::Data, (Vec<u8>, String)>>> {
        let mut raw = [0; wire::DATA_LEN + 1];
        loop {
            match self.data.recv(&mut raw) {
                Ok(len) => {
                    let raw = raw.get(..len).unwrap_or_default();
                    return Ok(Some(
                        wire::decode_data(raw).map_err(|why| (raw.to_vec(), why)),
                    ));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }
}

fn is_transient(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// What a socket says once its server has ended.
fn is_gone(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotFound
    )
}
