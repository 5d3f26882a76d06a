//! The kernel's umad device as a port.
//!
//! One device carries everything, or, on a planarized adapter, two of them: SMPs leave by the
//! device that has QP0, GMPs by the other. The four agents are registered once; a class that the
//! kernel refuses is reported and done without.
//!
//! Where a preloaded simulator stands in for the kernel it times nothing out and must not hold
//! more than 256 requests: then this adapter does both.

use std::fmt;
use std::os::fd::RawFd;
use std::time::Duration;

use ::umad::{
    AgentId, Buffer, CaPort, Errno, Error, Port, PortId, Recv, Registration, Reply, Select, Sysfs,
};

use super::{
    Address, Agent, AgentReport, Arrival, Grh, LocalPort, MadPort, NO_LID_ROUTED_SMPS, Outgoing,
    Pending, PortError, QP1_QKEY, Source, Stamp, Waker,
};
use crate::mad::{Mad, Method, MgmtClass};

/// A buffer that grew beyond this for one long message is given back after it.
const KEEP_BUFFER: usize = 64 << 10;

/// How often at least the P_Key table is read again, in calls of [`MadPort::local`].
const PKEYS_EVERY: u32 = 32;

/// The longest block in poll where only one descriptor is served: a wake-up is seen after it.
const SHIM_POLL: Duration = Duration::from_millis(10);

/// One opened device.
struct Side {
    port: Port,
    device: String,
    agents: Vec<(Agent, AgentId)>,
}

/// A port of an InfiniBand device in this host.
pub struct UmadPort {
    sysfs: Sysfs,
    /// What to open again: the device and port found at first.
    id: PortId,
    /// The device for GMPs and, unless there is a second, SMPs. Empty once the device is gone.
    sides: Vec<Side>,
    reports: Vec<AgentReport>,
    node_guid: u64,
    buffer: Buffer,
    /// Only where a simulator stands in for the kernel.
    pending: Option<Pending>,
    last: Option<CaPort>,
    reads: u32,
}

impl fmt::Debug for UmadPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UmadPort")
            .field("id", &self.id)
            .field("reports", &self.reports)
            .finish_non_exhaustive()
    }
}

impl UmadPort {
    /// Opens a port of this host and registers the agents: this device's and port, or the
    /// default that libibumad's rules choose (the first device with an active port).
    ///
    /// # Errors
    /// In one sentence, with the cure: no InfiniBand device, only Ethernet ports, no permission,
    /// no such device or port. A class that cannot be registered is no error: see
    /// [`MadPort::agents`].
    pub fn open(ca: Option<&str>, port: Option<u8>) -> Result<UmadPort, PortError> {
        UmadPort::open_in(Sysfs::system(), ca, port)
    }

    /// The same under a given sysfs.
    ///
    /// # Errors
    /// As [`UmadPort::open`].
    pub fn open_in(
        sysfs: Sysfs,
        ca: Option<&str>,
        port: Option<u8>,
    ) -> Result<UmadPort, PortError> {
        let select = Select {
            ca: ca.map(str::to_owned),
            port,
            smi: false,
        };
        let id = sysfs.resolve(&select).map_err(other)?;
        let mut this = UmadPort {
            sysfs,
            id,
            sides: Vec::new(),
            reports: Vec::new(),
            node_guid: 0,
            buffer: Buffer::new(),
            pending: None,
            last: None,
            reads: 0,
        };
        this.open_sides()?;
        Ok(this)
    }

    fn open_sides(&mut self) -> Result<(), PortError> {
        self.close();
        let (gsi, smi) = devices(&self.sysfs, &self.id)?;
        let mut sides = vec![Side::open(&self.sysfs, gsi)?];
        if let Some(smi) = smi {
            sides.push(Side::open(&self.sysfs, smi)?);
        }
        self.reports = register(&mut sides)?;
        let simulated = sides.iter().any(|side| side.port.is_simulated());
        self.pending = simulated.then(|| Pending::new(Pending::IBSIM_LIMIT));
        // The node is the one that answers SMPs.
        let node = sides.last().map(|side| self.sysfs.ca(&side.port.id().ca));
        self.node_guid = node
            .and_then(Result::ok)
            .and_then(|ca| ca.node_guid)
            .unwrap_or(0);
        self.sides = sides;
        Ok(())
    }

    fn close(&mut self) {
        self.sides.clear();
        self.last = None;
        self.reads = 0;
        if let Some(pending) = &mut self.pending {
            pending.clear();
        }
    }

    fn device(&self) -> String {
        match self.sides.first() {
            Some(side) => side.device.clone(),
            None => self.id.to_string(),
        }
    }

    fn gone(&mut self) -> PortError {
        let device = self.device();
        self.close();
        PortError::Gone { device }
    }

    fn failed(&mut self, call: &'static str, class: u8, error: &Error) -> PortError {
        if error.is_device_removed() {
            return self.gone();
        }
        let errno = match error.errno() {
            Some(errno) => errno.to_string(),
            None => error.to_string(),
        };
        PortError::Call {
            device: self.device(),
            call,
            class,
            errno,
        }
    }

    /// What a receive call found on one side.
    fn receive(&mut self, side: usize) -> Result<Option<Arrival>, PortError> {
        let Some(open) = self.sides.get(side) else {
            return Ok(None);
        };
        let got = open.port.recv_growing(&mut self.buffer);
        let arrival = match got {
            Ok(Recv::Empty | Recv::TooSmall { .. }) => return Ok(None),
            Ok(Recv::Mad { from, mad, .. }) => match Mad::from_bytes(mad) {
                Ok(mad) => {
                    if let Some(pending) = &mut self.pending
                        && mad.is_response()
                    {
                        pending.settled(mad.tid_low());
                    }
                    Arrival::Mad {
                        addr: from_umad(&from),
                        mad,
                    }
                }
                Err(why) => malformed(mad, why.to_string()),
            },
            Ok(Recv::TimedOut {
                tid, errno, mad, ..
            }) => match mad.get(1) {
                Some(&class) => {
                    let tid = tid as u32;
                    if let Some(pending) = &mut self.pending {
                        pending.settled(tid);
                    }
                    Arrival::Unanswered {
                        tid,
                        class,
                        errno: errno.0,
                    }
                }
                None => malformed(mad, "a timeout without its MAD".to_owned()),
            },
            Err(e) => return Err(self.failed("read", 0, &e)),
        };
        if self.buffer.capacity() > KEEP_BUFFER {
            self.buffer = Buffer::new();
        }
        Ok(Some(arrival))
    }

    /// The state files of the port, with its P_Keys from before unless something else changed or
    /// they are old.
    fn read_local(&mut self) -> CaPort {
        let (ca, number) = match self.sides.first() {
            Some(side) => (side.port.id().ca.clone(), side.port.id().port),
            None => (self.id.ca.clone(), self.id.port),
        };
        let mut port = self.sysfs.port_state(&ca, number);
        let same = |old: &&CaPort| {
            (old.lid, old.lmc, old.sm_lid, old.state, old.gid)
                == (port.lid, port.lmc, port.sm_lid, port.state, port.gid)
        };
        let fresh = !self.reads.is_multiple_of(PKEYS_EVERY);
        self.reads = self.reads.wrapping_add(1);
        match self.last.as_ref().filter(same).filter(|_| fresh) {
            Some(old) => port.pkeys.clone_from(&old.pkeys),
            None => {
                if let Ok(full) = self.sysfs.port(&ca, number) {
                    port = full;
                }
            }
        }
        self.last = Some(port.clone());
        port
    }
}

impl Side {
    fn open(sysfs: &Sysfs, id: PortId) -> Result<Side, PortError> {
        let device = sysfs.umad_path(id.umad);
        let device = format!("{} ({id})", device.display());
        let port = Port::open_id(sysfs, id).map_err(other)?;
        Ok(Side {
            port,
            device,
            agents: Vec::new(),
        })
    }

    fn agent(&self, agent: Agent) -> Option<AgentId> {
        let found = self.agents.iter().find(|(a, _)| *a == agent);
        found.map(|(_, id)| *id)
    }
}

/// Registers every agent on its side; what was refused is in the reports.
fn register(sides: &mut [Side]) -> Result<Vec<AgentReport>, PortError> {
    let planarized = sides.len() > 1;
    let mut reports = Vec::new();
    for agent in Agent::ALL {
        let smp = matches!(agent, Agent::SmpDirected | Agent::SmpLid);
        if planarized && agent == Agent::SmpLid {
            reports.push(AgentReport {
                agent,
                refused: Some(NO_LID_ROUTED_SMPS.to_owned()),
                reports: false,
            });
            continue;
        }
        let at = usize::from(planarized && smp);
        let Some(side) = sides.get_mut(at) else {
            continue;
        };
        let (result, reports_taken) = side.register(agent);
        let refused = match result {
            Ok(id) => {
                side.agents.push((agent, id));
                None
            }
            Err(e) if e.is_device_removed() => {
                return Err(PortError::Gone {
                    device: side.device.clone(),
                });
            }
            Err(e) => Some(e.to_string()),
        };
        reports.push(AgentReport {
            agent,
            // ibsim hands what comes unasked to the holder of the IsSM role only.
            reports: reports_taken && refused.is_none() && !side.port.is_simulated(),
            refused,
        });
    }
    Ok(reports)
}

impl Side {
    /// Registers one agent; with it, whether Reports come to it.
    fn register(&self, agent: Agent) -> (::umad::Result<AgentId>, bool) {
        let client = Registration::client(agent.class());
        let register = |r: &Registration| self.port.register(r).map(::umad::Agent::leak);
        if agent != Agent::SubnAdm {
            return (register(&client), false);
        }
        // Ownership of a method is exclusive: another monitor on this port may have it.
        match register(&client.receiving(&[Method::Report.code()])) {
            Err(e) if !e.is_device_removed() => {
                tracing::info!(error = %e, "no Reports");
                (register(&client), false)
            }
            other => (other, true),
        }
    }
}

impl MadPort for UmadPort {
    fn source(&self) -> Source {
        Source::Umad {
            device: self.device(),
            shim: self.pending.is_some(),
        }
    }

    fn agents(&self) -> Vec<AgentReport> {
        self.reports.clone()
    }

    fn local(&mut self, _now: Stamp) -> Result<LocalPort, PortError> {
        if self.sides.is_empty() {
            return Err(self.gone());
        }
        let port = self.read_local();
        let Some(state) = port.state else {
            // The files went away, or the driver cannot say: the descriptor knows which.
            let fault = port.faults.first();
            let why = fault.map_or_else(
                || "its state cannot be read".to_owned(),
                |f| format!("{}: {}", f.path.display(), f.errno),
            );
            return Err(PortError::Call {
                device: self.device(),
                call: "read sysfs",
                class: 0,
                errno: why,
            });
        };
        // Directed routes begin at the port that SMPs leave by.
        let smi = self.sides.last().map_or(port.number, |s| s.port.id().port);
        Ok(local_port(&port, self.node_guid, smi, state.0))
    }

    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError> {
        if self.sides.is_empty() {
            return Err(self.gone());
        }
        let class = out.mad.class().code();
        let Some((side, id)) = Agent::for_class(class)
            .and_then(|agent| self.sides.iter().find_map(|s| Some((s, s.agent(agent)?))))
        else {
            let report = self.reports.iter().find(|r| r.agent.class() == class);
            let why = report.and_then(|r| r.refused.clone());
            return Err(PortError::NoAgent {
                class,
                why: why.unwrap_or_else(|| "it is not one that fabtop uses".to_owned()),
            });
        };
        let expects = out.timeout_ms > 0;
        if expects && self.pending.as_ref().is_some_and(Pending::is_full) {
            return Err(PortError::WouldBlock);
        }
        if let Some(pending) = &mut self.pending
            && !Pending::ibsim_bears(&out.mad)
        {
            pending.sent(out.mad.tid_low(), class, now);
            return Ok(());
        }
        let timeout = Duration::from_millis(u64::from(out.timeout_ms));
        let reply = match expects {
            true => Reply::within(timeout),
            false => Reply::None,
        };
        let mut turned = None;
        if self.pending.is_some()
            && out.mad.class() == MgmtClass::SubnDirected
            && out.mad.is_response()
        {
            // The kernel wants such a response to begin at the far end of its route, ibsim
            // at the near one.
            turned.insert(out.mad.clone()).set_hop_pointer(0);
        }
        let bytes = turned.as_ref().unwrap_or(&out.mad).bytes();
        match side.port.send(id, &to_umad(&out.addr), bytes, reply) {
            Ok(()) => {}
            Err(e) if e.errno() == Some(Errno::EAGAIN) => return Err(PortError::WouldBlock),
            Err(e) => return Err(self.failed("write", class, &e)),
        }
        if let Some(pending) = &mut self.pending
            && expects
        {
            pending.sent(out.mad.tid_low(), class, now + timeout);
        }
        Ok(())
    }

    fn recv(&mut self, now: Stamp) -> Result<Option<Arrival>, PortError> {
        if self.sides.is_empty() {
            return Err(self.gone());
        }
        for side in 0..self.sides.len() {
            if let Some(arrival) = self.receive(side)? {
                return Ok(Some(arrival));
            }
        }
        Ok(self.pending.as_mut().and_then(|p| p.expired(now)))
    }

    fn due(&self) -> Option<Stamp> {
        self.pending.as_ref().and_then(Pending::due)
    }

    fn fd(&self) -> Option<RawFd> {
        self.sides.first().map(|side| side.port.fd())
    }

    fn poll_limit(&self) -> Option<Duration> {
        self.pending.is_some().then_some(SHIM_POLL)
    }

    fn wait(&mut self, waker: &Waker, timeout: Duration) -> Result<(), PortError> {
        let ports: Vec<&Port> = self.sides.iter().map(|side| &side.port).collect();
        match ::umad::wait(&ports, Some(waker), Some(timeout)) {
            Ok(ready) if (0..ports.len()).any(|i| ready.removed(i)) => Err(self.gone()),
            Ok(_) => Ok(()),
            Err(e) => Err(self.failed("poll", 0, &e)),
        }
    }

    fn reopen(&mut self) -> Result<(), PortError> {
        self.open_sides()
    }
}

/// The device for GMPs, and a second for SMPs where the adapter is planarized.
fn devices(sysfs: &Sysfs, id: &PortId) -> Result<(PortId, Option<PortId>), PortError> {
    let pair = sysfs.smi_gsi_pair(Some(&id.ca), Some(id.port), false);
    if let Ok(pair) = pair
        && !pair.is_one_device()
        && let (Some(smi), Some(gsi)) = (pair.smi_select(), pair.gsi_select())
    {
        let gsi = sysfs.resolve(&gsi).map_err(other)?;
        let smi = sysfs.resolve(&smi).map_err(other)?;
        return Ok((gsi, Some(smi)));
    }
    let same = Select::exact(&*id.ca, id.port);
    Ok((sysfs.resolve(&same).map_err(other)?, None))
}

fn local_port(port: &CaPort, node_guid: u64, number: u8, state: u32) -> LocalPort {
    let full = port.pkey_index(0xFFFF);
    let limited = port.pkey_index(0x7FFF);
    LocalPort {
        ca: port.ca.clone(),
        port: number,
        node_guid,
        port_guid: port.port_guid().unwrap_or(0),
        gid_prefix: port.gid_prefix().unwrap_or(0),
        lid: port.lid.unwrap_or(0),
        lmc: port.lmc.unwrap_or(0),
        sm_lid: port.sm_lid.unwrap_or(0),
        sm_sl: port.sm_sl.unwrap_or(0),
        state: u8::try_from(state).unwrap_or(u8::MAX),
        cap_mask: port.cap_mask.unwrap_or(0),
        pkey_index: full.or(limited),
        pkey_limited: full.is_none() && limited.is_some(),
        pkeys: LocalPort::pkeys(port.pkeys.iter().map(|key| key.unwrap_or(0))),
    }
}

fn malformed(bytes: &[u8], why: String) -> Arrival {
    Arrival::Malformed {
        len: bytes.len(),
        why,
        head: bytes.iter().take(64).copied().collect(),
    }
}

fn other(error: Error) -> PortError {
    let text = error.to_string();
    match error {
        Error::UnknownDevice { .. } | Error::UnknownPort { .. } => PortError::Mistake(text),
        _ => PortError::Other(text),
    }
}

fn to_umad(a: &Address) -> ::umad::Address {
    ::umad::Address {
        qpn: a.qpn,
        qkey: a.qkey,
        lid: a.lid,
        sl: a.sl,
        path_bits: a.path_bits,
        pkey_index: a.pkey_index,
        grh: a.grh.map(|g| ::umad::Grh {
            gid: g.gid,
            gid_index: g.gid_index,
            hop_limit: g.hop_limit,
            traffic_class: g.traffic_class,
            flow_label: g.flow_label,
        }),
    }
}

/// The kernel gives no Q_Key with what it received; one is needed to answer.
fn from_umad(a: &::umad::Address) -> Address {
    Address {
        lid: a.lid,
        qpn: a.qpn,
        qkey: match (a.qpn, a.qkey) {
            (0, _) => 0,
            (_, 0) => QP1_QKEY,
            (_, qkey) => qkey,
        },
        sl: a.sl,
        path_bits: a.path_bits,
        pkey_index: a.pkey_index,
        grh: a.grh.map(|g| Grh {
            gid: g.gid,
            gid_index: g.gid_index,
            hop_limit: g.hop_limit,
            traffic_class: g.traffic_class,
            flow_label: g.flow_label,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A one-port device as the kernel shows it.
    fn device(root: &Path, umad: u8, name: &str, cap_mask: &str, guid: &str) {
        let dir = format!("sys/class/infiniband/{name}");
        put(root, &format!("{dir}/node_type"), "1: CA\n");
        put(root, &format!("{dir}/node_guid"), "0002:c903:00a0:1b2c\n");
        let port = format!("{dir}/ports/1");
        for (file, text) in [
            ("lid", "0x1f\n"),
            ("lid_mask_count", "2\n"),
            ("sm_lid", "0x3\n"),
            ("sm_sl", "1\n"),
            ("state", "4: ACTIVE\n"),
            ("phys_state", "5: LinkUp\n"),
            ("link_layer", "InfiniBand\n"),
            ("cap_mask", cap_mask),
            ("gids/0", guid),
            ("pkeys/0", "0x8001\n"),
            ("pkeys/1", "0x7fff\n"),
        ] {
            put(root, &format!("{port}/{file}"), text);
        }
        let class = format!("sys/class/infiniband_mad/umad{umad}");
        put(root, &format!("{class}/ibdev"), name);
        put(root, &format!("{class}/port"), "1\n");
        put(root, "sys/class/infiniband_mad/abi_version", "5\n");
    }

    const GUID: &str = "fe80:0000:0000:0000:0002:c903:00a0:1b2d\n";

    /// Two devices of one port GUID, of which one has IsSMdisabled (bit 10): SMPs by the other,
    /// whichever was asked for.
    #[test]
    fn field_report_20_planarized_devices_are_used_together() {
        let dir = TempDir::new().unwrap();
        device(dir.path(), 0, "mlx5_0", "0x00000400\n", GUID);
        device(dir.path(), 1, "smi1", "0x00000000\n", GUID);
        let sysfs = Sysfs::at(dir.path());
        for name in ["mlx5_0", "smi1"] {
            let id = sysfs.resolve(&Select::exact(name, 1)).unwrap();
            let (gsi, smi) = devices(&sysfs, &id).unwrap();
            assert_eq!((&*gsi.ca, gsi.umad), ("mlx5_0", 0));
            assert_eq!(smi.map(|s| (s.ca, s.umad)), Some(("smi1".to_owned(), 1)));
        }
    }

    #[test]
    fn an_ordinary_device_is_used_alone() {
        let dir = TempDir::new().unwrap();
        device(dir.path(), 0, "mlx5_0", "0x00000000\n", GUID);
        let other = GUID.replace("1b2d", "1b3d");
        device(dir.path(), 1, "mlx5_1", "0x00000000\n", &other);
        let sysfs = Sysfs::at(dir.path());
        let id = sysfs.resolve(&Select::exact("mlx5_1", 1)).unwrap();
        assert_eq!(devices(&sysfs, &id).unwrap(), (id, None));
    }

    #[test]
    fn a_port_of_limited_members() {
        let dir = TempDir::new().unwrap();
        device(dir.path(), 0, "mlx5_0", "0x2651e848\n", GUID);
        let port = Sysfs::at(dir.path()).port("mlx5_0", 1).unwrap();
        let expected = LocalPort {
            ca: "mlx5_0".to_owned(),
            port: 1,
            node_guid: 0x0002_c903_00a0_1b2c,
            port_guid: 0x0002_c903_00a0_1b2d,
            gid_prefix: 0xfe80_0000_0000_0000,
            lid: 0x1f,
            lmc: 2,
            sm_lid: 3,
            sm_sl: 1,
            state: 4,
            cap_mask: 0x2651_e848,
            pkey_index: Some(1),
            pkey_limited: true,
            pkeys: vec![0x8001, 0x7FFF],
        };
        assert_eq!(local_port(&port, expected.node_guid, 1, 4), expected);
    }

    /// The device's file cannot be opened as one: the sentence names it.
    #[test]
    fn no_device_is_told() {
        let dir = TempDir::new().unwrap();
        let sysfs = Sysfs::at(dir.path());
        let error = UmadPort::open_in(sysfs.clone(), None, None).unwrap_err();
        assert!(
            error.to_string().contains("no InfiniBand device"),
            "{error}"
        );
        device(dir.path(), 0, "mlx5_0", "0x00000000\n", GUID);
        let error = UmadPort::open_in(sysfs, None, None).unwrap_err();
        assert!(
            error.to_string().contains("dev/infiniband/umad0"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn addresses_go_both_ways(
            lid: u16, sl in 0u8..16, path_bits: u8, pkey_index: u16, gid: [u8; 16],
            gid_index: u8, flow_label in 0u32..1 << 20, routed: bool,
        ) {
            let grh = Grh { gid, gid_index, hop_limit: 64, traffic_class: 3, flow_label };
            let address = Address {
                path_bits,
                grh: routed.then_some(grh),
                ..Address::gmp(lid, sl, pkey_index)
            };
            prop_assert_eq!(from_umad(&to_umad(&address)), address);
        }
    }
}
