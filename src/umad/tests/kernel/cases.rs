//! What is checked inside the guest. Expected errors are those that the kernel documents in its
//! sources (user_mad.c, mad.c) and that libibumad's own tests check.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use umad::raw::{RawRegistration, register_any, register_v1, register_v2};
use umad::{
    Address, AgentId, Buffer, CAP_IS_SM, Errno, Error, Grh, IsSm, Layout, LinkLayer, MethodMask,
    Port, PortState, Recv, Registration, Reply, Rmpp, Select, Sysfs, Waker, wait,
};

type Case = (&'static str, fn());

/// In the order in which they run; the last ones remove a device.
pub const ALL: &[Case] = &[
    ("enumeration", enumeration),
    ("default_port_is_not_ethernet", default_port),
    ("open", open),
    ("register_classes_without_qp0", register_qp0),
    ("register_rules", register_rules),
    ("register_method_conflicts", register_conflicts),
    ("register_vendor_ouis", register_ouis),
    ("register_flags", register_flags),
    ("register_agent_numbers", register_numbers),
    ("register_as_libibumads_tests_do", register_like_libibumad),
    ("enable_pkey_rules", enable_pkey),
    ("unregister_on_drop", unregister_on_drop),
    ("round_trip", round_trip),
    ("short_mads_are_padded", short_mads),
    ("timeouts", timeouts),
    (
        "timeout_record_stays_for_a_bigger_read",
        timeout_record_stays,
    ),
    ("reply_with_a_timeout_times_out", reply_with_timeout),
    ("nobody_registered", nobody_registered),
    ("unsolicited_by_method_mask", unsolicited),
    ("duplicate_tid", duplicate_tid),
    ("send_errors", send_errors),
    ("two_agents_on_one_file", two_agents_one_file),
    ("two_agents_on_two_files", two_agents_two_files),
    ("unregister_with_sends_outstanding", unregister_outstanding),
    ("rmpp_256", || rmpp(256)),
    ("rmpp_300", || rmpp(300)),
    ("rmpp_4000", || rmpp(4000)),
    ("rmpp_60000", || rmpp(60_000)),
    ("rmpp_shorter_than_a_mad", || rmpp(100)),
    ("rmpp_unacknowledged_times_out", rmpp_unacknowledged),
    ("user_rmpp", user_rmpp),
    ("poll_and_signals", signals),
    ("wait_is_woken", wait_is_woken),
    ("issm", issm),
    ("no_allocation_per_mad", no_allocation),
    ("descriptors_are_constant", descriptors),
    ("removal_and_return", removal),
];

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Memory) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static PANIC: Mutex<String> = Mutex::new(String::new());

pub fn run() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " | ");
        let mut said = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        *said = text;
    }));
    let mut failed = false;
    for (name, case) in ALL {
        let start = Instant::now();
        match catch_unwind(AssertUnwindSafe(case)) {
            Ok(()) => println!("CASE {name} ok"),
            Err(_) => {
                failed = true;
                let said = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
                println!("CASE {name} FAILED {said}");
            }
        }
        println!("     {name}: {} ms", start.elapsed().as_millis());
    }
    ExitCode::from(u8::from(failed))
}

// Vendor range 1: no OUI, no RMPP, and no driver that answers it first.
const CLASS: u8 = 0x0a;
const GET: u8 = 0x01;
const SET: u8 = 0x02;
const GET_RESP: u8 = 0x81;
const SECOND: Duration = Duration::from_secs(1);

fn port(n: u8) -> Port {
    Port::open(&Select::exact(format!("rxe{n}"), 1)).unwrap()
}

/// QP1 of the other device, by its link-local GID: soft-RoCE needs a GRH.
fn address_of(n: u8) -> Address {
    let gids = Sysfs::system().gids(&format!("rxe{n}"), 1).unwrap();
    assert_eq!(gids[0].index, 0);
    Address {
        grh: Some(Grh::to(gids[0].raw)),
        ..Address::gmp(0, 0, 0)
    }
}

fn mad(class: u8, version: u8, method: u8, tid: u64) -> [u8; 256] {
    let mut m = [0; 256];
    m[..4].copy_from_slice(&[1, class, version, method]);
    m[8..16].copy_from_slice(&tid.to_be_bytes());
    m[17] = 0x10;
    m
}

#[derive(Debug, PartialEq)]
enum Got {
    Mad(AgentId, Address, Vec<u8>),
    TimedOut(AgentId, Address, u64, Errno, usize),
    Nothing,
}

fn receive_within(p: &Port, time: Duration) -> Got {
    let deadline = Instant::now() + time;
    let mut buffer = Buffer::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !p.poll(Some(left)).unwrap() {
            return Got::Nothing;
        }
        match p.recv_growing(&mut buffer).unwrap() {
            Recv::Mad { agent, from, mad } => return Got::Mad(agent, from, mad.to_vec()),
            Recv::TimedOut {
                agent,
                to,
                tid,
                errno,
                mad,
            } => return Got::TimedOut(agent, to, tid, errno, mad.len()),
            Recv::Empty => {}
            Recv::TooSmall { .. } => panic!("the buffer grows"),
        }
    }
}

fn receive(p: &Port) -> Got {
    receive_within(p, Duration::from_secs(10))
}

fn receive_mad(p: &Port) -> (AgentId, Address, Vec<u8>) {
    match receive(p) {
        Got::Mad(agent, from, mad) => (agent, from, mad),
        other => panic!("no MAD but {other:?}"),
    }
}

fn low(tid: u64) -> u32 {
    u32::try_from(tid & 0xffff_ffff).unwrap()
}

fn enumeration() {
    let sysfs = Sysfs::system();
    assert!(sysfs.abi_version().unwrap() >= 5);
    assert_eq!(sysfs.ca_names().unwrap(), ["rxe0", "rxe1"]);
    let ca = sysfs.ca("rxe0").unwrap();
    assert_eq!(ca.faults, []);
    assert_eq!(ca.fw_ver.as_deref(), Some(""));
    assert_eq!(ca.ca_type, None);
    assert!(!ca.is_simulated());
    // Made from the Ethernet address 02:00:00:00:00:01 by the EUI-64 rule.
    assert_eq!(ca.node_guid, Some(0x0000_00ff_fe00_0001));
    let p = ca.port(1).unwrap();
    assert_eq!(p.faults, []);
    assert_eq!(p.link_layer, Some(LinkLayer::Ethernet));
    assert_eq!((p.lid, p.state), (Some(0), Some(PortState::ACTIVE)));
    assert_eq!(p.default_pkey_index(), Some(0));
    assert_eq!(p.gid_prefix(), Some(0xfe80_0000_0000_0000));
    let devices = sysfs.umad_devices().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!(sysfs.umad_device("rxe1", 1).unwrap().port, 1);
}

fn default_port() {
    let e = Port::open(&Select::any()).unwrap_err();
    assert!(matches!(e, Error::OnlyEthernet { .. }), "{e}");
    let e = Port::open(&Select::exact("rxe0", 2)).unwrap_err();
    assert!(matches!(e, Error::UnknownPort { .. }), "{e}");
    let e = Port::open(&Select::exact("mlx5_0", 1)).unwrap_err();
    assert!(matches!(e, Error::UnknownDevice { .. }), "{e}");
}

fn open() {
    let p = port(0);
    assert_eq!(p.layout(), Layout::New);
    assert!(!p.is_simulated());
    // SAFETY: asks for a flag of an open file.
    let flags = unsafe { libc::fcntl(p.fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    let second = port(0);
    assert_ne!(p.fd(), second.fd());
    assert!(!p.poll(Some(Duration::ZERO)).unwrap());
    let mut buffer = Buffer::new();
    assert_eq!(p.recv(&mut buffer).unwrap(), Recv::Empty);
    let fd = p.fd();
    p.close();
    // SAFETY: as above; the number is closed now.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, -1);
}

fn refused(p: &Port, r: &Registration) -> Errno {
    match p.register(r) {
        Err(Error::Register { errno, class, .. }) => {
            assert_eq!(class, r.class);
            errno
        }
        other => panic!("{r:?}: {other:?}"),
    }
}

fn register_qp0() {
    let p = port(0);
    for class in [0x01, 0x81] {
        let e = p.register(&Registration::client(class)).unwrap_err();
        assert_eq!(e.errno(), Some(Errno::EPROTONOSUPPORT));
        assert!(e.to_string().contains("no QP0"), "{e}");
    }
}

const fn raw(qpn: u8, class: u8, version: u8) -> RawRegistration {
    RawRegistration {
        qpn,
        class,
        version,
        methods: MethodMask::NONE,
        rmpp_version: 0,
        oui: 0,
        flags: 0,
    }
}

fn register_rules() {
    let p = port(0);
    let both = |r: &RawRegistration| {
        let v1 = register_v1(p.fd(), r).unwrap_err();
        let v2 = register_v2(p.fd(), r).unwrap_err().0;
        assert_eq!(v1, v2, "{r:?}");
        v1
    };
    assert_eq!(both(&raw(2, 0x04, 1)), Errno::EINVAL, "queue pair 2");
    assert_eq!(both(&raw(1, 0x01, 1)), Errno::EINVAL, "SMPs on QP1");
    assert_eq!(both(&raw(1, 0x81, 1)), Errno::EINVAL, "SMPs on QP1");
    assert_eq!(both(&raw(1, 0x50, 1)), Errno::EINVAL, "class 80");
    // Class and version are looked at only where methods are asked for.
    let served = |class, version| RawRegistration {
        methods: MethodMask::of(&[GET]),
        ..raw(1, class, version)
    };
    assert_eq!(both(&served(0x50, 1)), Errno::EINVAL, "class 80");
    assert_eq!(both(&served(0x04, 0x83)), Errno::EINVAL, "version");
    assert_eq!(both(&served(0x30, 1)), Errno::EINVAL, "no OUI");
    let rmpp = |rmpp_version, class| RawRegistration {
        rmpp_version,
        ..raw(1, class, 1)
    };
    assert_eq!(both(&rmpp(2, 0x03)), Errno::EINVAL, "RMPP version 2");
    assert_eq!(both(&rmpp(1, 0x04)), Errno::EINVAL, "class without RMPP");
    for class in [0x03, 0x06, 0x10, 0x12] {
        let id = register_any(p.fd(), &rmpp(1, class)).unwrap();
        p.unregister(AgentId(id)).unwrap();
    }
    // SAFETY: an unknown request reads nothing.
    let rc = unsafe { libc::ioctl(p.fd(), 0x1b7f, 0) };
    assert_eq!(
        (rc, std::io::Error::last_os_error().raw_os_error()),
        (-1, Some(libc::ENOTTY))
    );
    for id in [7, 31, 32, 5000] {
        let e = p.unregister(AgentId(id)).unwrap_err();
        assert_eq!(e.errno(), Some(Errno::EINVAL));
    }
}

fn register_conflicts() {
    let (a, b, other) = (port(0), port(0), port(1));
    let get = Registration::client(CLASS).receiving(&[GET]);
    let held = a.register(&get).unwrap();
    assert_eq!(refused(&a, &get), Errno::EINVAL, "same file");
    assert_eq!(refused(&b, &get), Errno::EINVAL, "another file");
    let overlapping = get.receiving(&[SET, GET]);
    assert_eq!(refused(&b, &overlapping), Errno::EINVAL);
    let e = b.register(&get).unwrap_err().to_string();
    assert!(e.contains("another program"), "{e}");
    // Another method, another version, another port, or no method: no conflict.
    let _set = b.register(&get.receiving(&[SET])).unwrap();
    let _v2 = b.register(&get.version(2)).unwrap();
    let _port = other.register(&get).unwrap();
    let _client = b.register(&Registration::client(CLASS)).unwrap();
    drop(held);
    let _again = b.register(&get).unwrap();
}

fn register_ouis() {
    let p = port(0);
    let vendor = |oui| Registration::vendor(0x30, oui).receiving(&[GET]);
    assert_eq!(refused(&p, &vendor(0)), Errno::EINVAL);
    assert_eq!(refused(&p, &vendor(0x0100_066a)), Errno::EINVAL, "25 bits");
    let mut held: Vec<_> = (1..=8)
        .map(|oui| p.register(&vendor(oui)).unwrap())
        .collect();
    assert_eq!(refused(&p, &vendor(3)), Errno::EINVAL, "same OUI");
    assert_eq!(refused(&p, &vendor(9)), Errno::ENOMEM, "the ninth OUI");
    held.pop();
    let _ninth = p.register(&vendor(9)).unwrap();
}

fn register_flags() {
    let p = port(0);
    let bad = RawRegistration {
        flags: 0x8000_0000,
        ..raw(1, 0x03, 2)
    };
    // The kernel writes back what it knows.
    assert_eq!(register_v2(p.fd(), &bad), Err((Errno::EINVAL, 1)));
    assert_eq!(register_any(p.fd(), &bad), Err((Errno::EINVAL, 1)));
    let user = Registration::client(0x03).rmpp(Rmpp::User);
    let _user = p.register(&user).unwrap();
    let no_class = Registration::client(0).rmpp(Rmpp::User);
    assert_eq!(refused(&p, &no_class), Errno::EINVAL);
}

fn register_numbers() {
    let p = port(0);
    let client = Registration::client(CLASS);
    let mut agents: Vec<_> = (0..32).map(|_| p.register(&client).unwrap()).collect();
    let numbers: Vec<u32> = agents.iter().map(|a| a.id().0).collect();
    assert_eq!(numbers, (0..32).collect::<Vec<u32>>());
    assert_eq!(refused(&p, &client), Errno::ENOMEM, "the 33rd");
    drop(agents.remove(7));
    drop(agents.remove(3));
    let lowest = p.register(&client).unwrap();
    assert_eq!(lowest.id(), AgentId(3), "the lowest free number");
}

/// The cases of rdma-core's libibumad/tests/umad_register2.c and umad_reg2_compat.c, on a port
/// of our own.
fn register_like_libibumad() {
    let p = port(0);
    let methods = MethodMask::of(&[1, 63, 64]);
    let app = RawRegistration {
        methods,
        ..raw(1, 0x2f, 1)
    };
    let vendor = RawRegistration {
        methods,
        oui: 0x0000_066a,
        ..raw(1, 0x4f, 1)
    };
    type Call = fn(i32, &RawRegistration) -> Result<u32, Errno>;
    let old: Call = register_v1;
    let new: Call = |fd, r| register_v2(fd, r).map_err(|(e, _)| e);
    let fallback: Call = |fd, r| register_any(fd, r).map_err(|(e, _)| e);
    for call in [old, new, fallback] {
        for r in [&app, &vendor] {
            let id = call(p.fd(), r).unwrap();
            assert_eq!(call(p.fd(), r), Err(Errno::EINVAL), "the same again");
            p.unregister(AgentId(id)).unwrap();
        }
        let rmpp2 = RawRegistration {
            rmpp_version: 2,
            ..vendor
        };
        assert_eq!(call(p.fd(), &rmpp2), Err(Errno::EINVAL));
    }
    let flags = RawRegistration {
        flags: 0x8000_0000,
        ..vendor
    };
    assert_eq!(new(p.fd(), &flags), Err(Errno::EINVAL));
    let wide = RawRegistration {
        oui: 0x0100_066a,
        ..vendor
    };
    assert_eq!(new(p.fd(), &wide), Err(Errno::EINVAL));
    let user = RawRegistration {
        rmpp_version: 1,
        flags: 1,
        ..vendor
    };
    let id = new(p.fd(), &user).unwrap();
    p.unregister(AgentId(id)).unwrap();
}

const ENABLE_PKEY: libc::c_ulong = 0x1b03;

fn enable_pkey() {
    let p = port(0);
    let enable = || {
        // SAFETY: the request takes no argument.
        let rc = unsafe { libc::ioctl(p.fd(), ENABLE_PKEY, 0) };
        if rc == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error().raw_os_error().unwrap())
        }
    };
    assert_eq!(enable(), Ok(()), "a second time");
    let _agent = p.register(&Registration::client(CLASS)).unwrap();
    assert_eq!(enable(), Err(libc::EINVAL), "after a registration");
    // A file that may only be read can register.
    let path = Sysfs::system().umad_path(p.id().umad);
    let read_only = std::fs::File::open(path).unwrap();
    use std::os::fd::AsRawFd;
    assert_eq!(register_v1(read_only.as_raw_fd(), &raw(1, CLASS, 1)), Ok(0));
}

fn unregister_on_drop() {
    let p = port(0);
    let get = Registration::client(CLASS).receiving(&[GET]);
    for _ in 0..3 {
        drop(p.register(&get).unwrap());
    }
    let id = p.register(&get).unwrap().leak();
    assert_eq!(refused(&p, &get), Errno::EINVAL, "leaked: still registered");
    p.unregister(id).unwrap();
    // An agent that outlives its port is harmless.
    let agent = p.register(&get).unwrap();
    p.close();
    drop(agent);
    drop(port(0).register(&get).unwrap());
}

fn round_trip() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let mut request = mad(CLASS, 1, GET, 0x1111_2222_3333_4444);
    request[255] = 0xa5;
    let to = address_of(1);
    client
        .send(asker.id(), &to, &request, Reply::within(SECOND * 5))
        .unwrap();
    let (agent, from, got) = receive_mad(&server);
    assert_eq!(agent, answerer.id());
    assert_eq!(got.len(), 256);
    assert_eq!(got[255], 0xa5);
    // The upper half is the agent's number in the kernel, the lower half the sender's.
    assert_ne!(got[8..12], request[8..12]);
    assert_eq!(got[12..16], request[12..16]);
    assert_eq!(
        (from.qpn, from.qkey, from.lid, from.pkey_index),
        (1, 0, 0, 0)
    );
    let back = from.grh.unwrap();
    assert_eq!(back.gid, Sysfs::system().gids("rxe0", 1).unwrap()[0].raw);
    // Answered through a buffer, to the address as it came.
    let mut buffer = Buffer::new();
    buffer.set_mad(&got);
    buffer.mad_mut()[3] = GET_RESP;
    *buffer.address_mut() = Address {
        qkey: umad::QP1_QKEY,
        ..from
    };
    server
        .send_buffer(answerer.id(), &mut buffer, 256, Reply::None)
        .unwrap();
    let (agent, _, got) = receive_mad(&client);
    assert_eq!(agent, asker.id());
    assert_eq!((got[3], got[255]), (GET_RESP, 0xa5));
    assert_eq!(got[12..16], request[12..16]);
    assert_eq!(receive_within(&client, Duration::ZERO), Got::Nothing);
}

fn short_mads() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let _answerer = server.register(&get).unwrap();
    let to = address_of(1);
    let mut request = mad(CLASS, 1, GET, 1);
    request.fill(0xff);
    request[..4].copy_from_slice(&[1, CLASS, 1, GET]);
    // 24 bytes would be refused by the kernel, or worse.
    client
        .send(asker.id(), &to, &request[..24], Reply::None)
        .unwrap();
    let (_, _, got) = receive_mad(&server);
    assert_eq!(got.len(), 256);
    assert_eq!(got[24..], [0; 232]);
    let mut buffer = Buffer::new();
    buffer.set_mad(&request);
    *buffer.address_mut() = to;
    client
        .send_buffer(asker.id(), &mut buffer, 30, Reply::None)
        .unwrap();
    let (_, _, got) = receive_mad(&server);
    assert_eq!((got.len(), got[29]), (256, 0xff));
    assert_eq!(got[30..], [0; 226]);
}

/// A server that receives and stays silent, so that requests time out.
fn silent_server() -> (Port, umad::Agent) {
    let server = port(1);
    let get = Registration::client(CLASS).receiving(&[GET]);
    let agent = server.register(&get).unwrap();
    (server, agent)
}

fn timeouts() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let (server, _agent) = silent_server();
    let to = Address {
        sl: 3,
        ..address_of(1)
    };
    for (tid, retries) in [(0xaaaa_bbbb_0000_0001, 0), (0xaaaa_bbbb_0000_0002, 2)] {
        let start = Instant::now();
        let reply = Reply::Within {
            timeout_ms: 200,
            retries,
        };
        let request = mad(CLASS, 1, GET, tid);
        client.send(asker.id(), &to, &request, reply).unwrap();
        let Got::TimedOut(agent, address, got, errno, len) = receive(&client) else {
            panic!("no timeout");
        };
        let least = Duration::from_millis(200) * (retries + 1);
        assert!(start.elapsed() >= least, "{:?}", start.elapsed());
        assert_eq!(agent, asker.id());
        assert_eq!(address, to, "the address as it was sent to");
        assert_eq!(low(got), low(tid));
        assert_ne!(got >> 32, tid >> 32);
        assert_eq!((errno, len), (Errno::ETIMEDOUT, 24));
        // Every try reached the other side.
        for _ in 0..=retries {
            let (_, _, seen) = receive_mad(&server);
            assert_eq!(seen[12..16], request[12..16]);
        }
        assert_eq!(receive_within(&server, Duration::ZERO), Got::Nothing);
    }
    // Without an end: nothing comes back until the agent goes.
    let request = mad(CLASS, 1, GET, 9);
    client
        .send(asker.id(), &to, &request, Reply::Forever)
        .unwrap();
    receive_mad(&server);
    let soon = Duration::from_millis(300);
    assert_eq!(receive_within(&client, soon), Got::Nothing);
}

fn timeout_record_stays() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let request = mad(CLASS, 1, GET, 5);
    let reply = Reply::within(Duration::from_millis(50));
    client
        .send(asker.id(), &address_of(1), &request, reply)
        .unwrap();
    assert!(client.poll(Some(SECOND * 5)).unwrap());
    let mut small = [0u8; 87];
    // SAFETY: reads into a live array of the stated length.
    let n = unsafe { libc::read(client.fd(), small.as_mut_ptr().cast(), small.len()) };
    assert_eq!(
        (n, std::io::Error::last_os_error().raw_os_error()),
        (-1, Some(libc::EINVAL))
    );
    assert!(matches!(receive(&client), Got::TimedOut(..)), "still there");
}

fn reply_with_timeout() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let request = mad(CLASS, 1, GET, 6);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 5),
        )
        .unwrap();
    let (_, from, mut got) = receive_mad(&server);
    got[3] = GET_RESP;
    let bogus = Reply::within(Duration::from_millis(50));
    server.send(answerer.id(), &from, &got, bogus).unwrap();
    receive_mad(&client);
    // Delivered, and yet reported: why replies are sent with Reply::None.
    assert!(matches!(receive(&server), Got::TimedOut(..)));
}

fn nobody_registered() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let request = mad(CLASS, 1, GET, 77);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 5),
        )
        .unwrap();
    let (_, _, got) = receive_mad(&client);
    assert_eq!(got[3], GET_RESP);
    assert_eq!(u16::from_be_bytes([got[4], got[5]]), 0x000c);
}

fn unsolicited() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let set = Registration::client(CLASS).receiving(&[SET, 0x3f, 0x40]);
    let setter = server.register(&set).unwrap();
    let reader = server.register(&set.receiving(&[0x11])).unwrap();
    let to = address_of(1);
    for (method, agent) in [
        (SET, &setter),
        (0x3f, &setter),
        (0x40, &setter),
        (0x11, &reader),
    ] {
        let request = mad(CLASS, 1, method, u64::from(method));
        client.send(asker.id(), &to, &request, Reply::None).unwrap();
        let (got, _, seen) = receive_mad(&server);
        assert_eq!((got, seen[3]), (agent.id(), method));
    }
    // Not in any mask, no Get or Set: dropped. The next one in the mask shows that it is gone.
    let dropped = mad(CLASS, 1, 0x41, 1);
    client.send(asker.id(), &to, &dropped, Reply::None).unwrap();
    let seen = mad(CLASS, 1, SET, 2);
    client.send(asker.id(), &to, &seen, Reply::None).unwrap();
    assert_eq!(receive_mad(&server).2[3], SET);
}

fn send_error(p: &Port, agent: AgentId, to: &Address, mad: &[u8], reply: Reply) -> Errno {
    match p.send(agent, to, mad, reply) {
        Err(Error::Send { errno, class, .. }) => {
            assert_eq!(class, mad.get(1).copied().unwrap_or(0));
            errno
        }
        other => panic!("{other:?}"),
    }
}

fn duplicate_tid() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let to = address_of(1);
    let reply = Reply::within(Duration::from_millis(300));
    let request = mad(CLASS, 1, GET, 0x55);
    client.send(asker.id(), &to, &request, reply).unwrap();
    // The upper half is the kernel's, so it does not make a difference.
    let same = mad(CLASS, 1, GET, 0x9999_0000_0000_0055);
    let e = send_error(&client, asker.id(), &to, &same, reply);
    assert_eq!(e, Errno::EINVAL);
    let fresh = mad(CLASS, 1, GET, 0x56);
    client.send(asker.id(), &to, &fresh, reply).unwrap();
    assert!(matches!(receive(&client), Got::TimedOut(..)));
    assert!(matches!(receive(&client), Got::TimedOut(..)));
    // Free again once it came back.
    client.send(asker.id(), &to, &request, reply).unwrap();
}

fn send_errors() {
    let p = port(0);
    let agent = p.register(&Registration::client(CLASS)).unwrap().leak();
    let to = address_of(1);
    let request = mad(CLASS, 1, GET, 1);
    let none = Reply::None;
    let no_grh = Address { grh: None, ..to };
    assert_eq!(
        send_error(&p, agent, &no_grh, &request, none),
        Errno::EINVAL
    );
    let bad_index = Address {
        grh: to.grh.map(|g| Grh {
            gid_index: 200,
            ..g
        }),
        ..to
    };
    let e = send_error(&p, agent, &bad_index, &request, none);
    assert_eq!(e, Errno(libc::ENODATA));
    let unknown = send_error(&p, AgentId(31), &to, &request, none);
    assert_eq!(unknown, Errno::EIO, "and yet the device is there");
    let beyond = send_error(&p, AgentId(32), &to, &request, none);
    assert_eq!(beyond, Errno::EINVAL);
    // Without RMPP a MAD has 256 bytes at most.
    let mut long = vec![0; 257];
    long[..256].copy_from_slice(&request);
    assert_eq!(send_error(&p, agent, &to, &long, none), Errno::EINVAL);
    // An agent with kernel RMPP sends only classes that can do RMPP.
    let sa = p.register(&Registration::client(0x03)).unwrap();
    assert_eq!(send_error(&p, sa.id(), &to, &request, none), Errno::EINVAL);
    p.unregister(agent).unwrap();
}

fn two_agents_one_file() {
    let client = port(0);
    let a = client.register(&Registration::client(CLASS)).unwrap();
    let b = client.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let to = address_of(1);
    let reply = Reply::within(Duration::from_millis(100));
    let request = mad(CLASS, 1, GET, 0x77);
    // The same TID twice is no duplicate between agents.
    client.send(a.id(), &to, &request, reply).unwrap();
    client.send(b.id(), &to, &request, reply).unwrap();
    let mut back = Vec::new();
    for _ in 0..2 {
        match receive(&client) {
            Got::TimedOut(agent, _, tid, ..) => back.push((agent, low(tid), tid >> 32)),
            other => panic!("{other:?}"),
        }
    }
    back.sort_unstable();
    assert_eq!((back[0].0, back[1].0), (a.id(), b.id()));
    assert_eq!((back[0].1, back[1].1), (0x77, 0x77));
    assert_ne!(back[0].2, back[1].2, "each its own upper half");
}

fn two_agents_two_files() {
    let (one, two, server) = (port(0), port(0), port(1));
    let a = one.register(&Registration::client(CLASS)).unwrap();
    let b = two.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let to = address_of(1);
    for (n, client, agent) in [(1u8, &one, &a), (2, &two, &b)] {
        let mut request = mad(CLASS, 1, GET, 0x42);
        request[200] = n;
        client
            .send(agent.id(), &to, &request, Reply::within(SECOND * 5))
            .unwrap();
    }
    for _ in 0..2 {
        let (_, from, mut got) = receive_mad(&server);
        got[3] = GET_RESP;
        server
            .send(answerer.id(), &from, &got, Reply::None)
            .unwrap();
    }
    assert_eq!(receive_mad(&one).2[200], 1);
    assert_eq!(receive_mad(&two).2[200], 2);
    assert_eq!(receive_within(&one, Duration::ZERO), Got::Nothing);
    assert_eq!(receive_within(&two, Duration::ZERO), Got::Nothing);
}

fn unregister_outstanding() {
    let client = port(0);
    let (server, _agent) = silent_server();
    let to = address_of(1);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    for tid in 0..20 {
        let request = mad(CLASS, 1, GET, tid);
        client
            .send(
                asker.id(),
                &to,
                &request,
                Reply::within(Duration::from_millis(100)),
            )
            .unwrap();
    }
    drop(asker);
    let soon = Duration::from_millis(300);
    assert_eq!(
        receive_within(&client, soon),
        Got::Nothing,
        "cancelled silently"
    );
    for _ in 0..20 {
        receive_mad(&server);
    }
    // The file is as good as new.
    let again = client.register(&Registration::client(CLASS)).unwrap();
    let request = mad(CLASS, 1, GET, 99);
    let reply = Reply::within(Duration::from_millis(50));
    client.send(again.id(), &to, &request, reply).unwrap();
    assert!(matches!(receive(&client), Got::TimedOut(..)));
}

const SA: u8 = 0x03;
const GET_MULTI: u8 = 0x14;
const RMPP_ACTIVE: usize = 26;

/// An SA message whose data tell their place.
fn message(method: u8, tid: u64, len: usize) -> Vec<u8> {
    let mut m = vec![0; len.max(56)];
    m[..4].copy_from_slice(&[1, SA, 2, method]);
    m[8..16].copy_from_slice(&tid.to_be_bytes());
    m[RMPP_ACTIVE] = 1;
    for (i, byte) in m.iter_mut().enumerate().skip(56) {
        *byte = u8::try_from(i % 251).unwrap();
    }
    m
}

fn rmpp(len: usize) {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(SA)).unwrap();
    let sa = Registration::client(SA).receiving(&[GET_MULTI]);
    let answerer = server.register(&sa).unwrap();
    let request = message(GET_MULTI, 0x1234, len);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 20),
        )
        .unwrap();
    let check = |p: &Port, method: u8| {
        assert!(p.poll(Some(SECOND * 20)).unwrap());
        let mut buffer = Buffer::new();
        if len > 256 {
            // Twice: nothing is lost by a buffer that is too small.
            for _ in 0..2 {
                let got = p.recv(&mut buffer).unwrap();
                assert_eq!(got, Recv::TooSmall { needed: len });
            }
            buffer.ensure(len);
        }
        match p.recv(&mut buffer).unwrap() {
            Recv::Mad { from, mad, .. } => {
                assert_eq!(mad.len(), len);
                assert_eq!(mad[3], method);
                assert_eq!(mad[12..16], request[12..16]);
                assert!(mad[56..] == request[56..], "the data");
                (from, mad[8..12].to_vec())
            }
            other => panic!("{other:?}"),
        }
    };
    let (from, upper) = check(&server, GET_MULTI);
    let mut answer = request.clone();
    answer[3] = GET_MULTI | 0x80;
    // A reply carries the whole TID of its request, with the kernel's upper half.
    answer[8..12].copy_from_slice(&upper);
    server
        .send(answerer.id(), &from, &answer, Reply::None)
        .unwrap();
    check(&client, GET_MULTI | 0x80);
}

fn rmpp_unacknowledged() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(SA)).unwrap();
    // An agent without RMPP acknowledges nothing.
    let sa = Registration::client(SA)
        .rmpp(Rmpp::None)
        .receiving(&[GET_MULTI]);
    let _answerer = server.register(&sa).unwrap();
    let request = message(GET_MULTI, 7, 4000);
    let reply = Reply::within(Duration::from_millis(200));
    client
        .send(asker.id(), &address_of(1), &request, reply)
        .unwrap();
    let (_, _, segment) = receive_mad(&server);
    assert_eq!(segment.len(), 256);
    // RMPP version 1, type 1 (data), flags first and active, segment 1.
    assert_eq!((segment[24], segment[25], segment[26] & 7), (1, 1, 3));
    assert_eq!(segment[28..32], [0, 0, 0, 1]);
    match receive(&client) {
        Got::TimedOut(agent, _, tid, errno, _) => {
            assert_eq!((agent, low(tid), errno), (asker.id(), 7, Errno::ETIMEDOUT));
        }
        other => panic!("{other:?}"),
    }
}

fn user_rmpp() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(SA)).unwrap();
    let sa = Registration::client(SA)
        .rmpp(Rmpp::User)
        .receiving(&[GET_MULTI]);
    let answerer = server.register(&sa).unwrap();
    let request = message(GET_MULTI, 8, 300);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 5),
        )
        .unwrap();
    let (_, from, first) = receive_mad(&server);
    assert_eq!((first.len(), first[25], first[26] & 7), (256, 1, 3));
    // Acknowledge segment 1 ourselves, allowing two: type 2, window in the last word.
    let mut ack = first.clone();
    ack[3] = GET_MULTI | 0x80;
    ack[25] = 2;
    ack[26] = 1;
    ack[28..32].copy_from_slice(&[0, 0, 0, 1]);
    ack[32..36].copy_from_slice(&[0, 0, 0, 2]);
    ack[36..].fill(0);
    let ack = |segment: u8| {
        let mut ack = ack.clone();
        ack[31] = segment;
        server
            .send(answerer.id(), &from, &ack, Reply::None)
            .unwrap();
    };
    ack(1);
    let (_, _, second) = loop {
        let got = receive_mad(&server);
        if got.2[31] != 1 {
            break got;
        }
    };
    // Last segment: flags last and active; 20 bytes of class header and 44 of data.
    assert_eq!((second[25], second[26] & 7, second[31]), (1, 5, 2));
    assert_eq!(second[32..36], [0, 0, 0, 20 + 44]);
    assert_eq!(second[56..100], request[256..300]);
    ack(2);
    // Our answer, one segment long, goes out as it is.
    let mut answer = second.clone();
    answer[3] = GET_MULTI | 0x80;
    answer[25..36].copy_from_slice(&[1, 7, 0, 0, 0, 0, 1, 0, 0, 0, 24]);
    server
        .send(answerer.id(), &from, &answer, Reply::None)
        .unwrap();
    let (agent, _, got) = receive_mad(&client);
    assert_eq!(agent, asker.id());
    assert_eq!(got.len(), 36 + 24);
    assert_eq!(got[56..60], request[256..260]);
}

extern "C" fn on_signal(_: libc::c_int) {}

fn interrupt_every(ms: i64) {
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: ms * 1000,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: a handler that does nothing, and a timer given by reference.
    unsafe {
        let handler = on_signal as extern "C" fn(libc::c_int);
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

fn signals() {
    let p = port(0);
    interrupt_every(20);
    let e = p.poll_once(10_000).unwrap_err();
    assert!(e.is_interrupted(), "{e}");
    assert!(e.to_string().contains("EINTR"), "{e}");
    let start = Instant::now();
    let long = Duration::from_millis(200);
    assert!(!p.poll(Some(long)).unwrap());
    assert!(start.elapsed() >= long, "goes on after a signal");
    let start = Instant::now();
    assert!(wait(&[&p], None, Some(long)).unwrap().is_timeout());
    assert!(start.elapsed() >= long);
    interrupt_every(0);
    // Without an end, too: a timed-out send ends it.
    let asker = p.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let request = mad(CLASS, 1, GET, 1);
    let reply = Reply::within(Duration::from_millis(50));
    p.send(asker.id(), &address_of(1), &request, reply).unwrap();
    assert!(p.poll(None).unwrap());
}

fn wait_is_woken() {
    let (a, b) = (port(0), port(1));
    let waker = Waker::new().unwrap();
    let other = waker.clone();
    let thread = std::thread::spawn(move || other.wake());
    let ready = wait(&[&a, &b], Some(&waker), None).unwrap();
    thread.join().unwrap();
    assert!(ready.woken && !ready.port(0) && !ready.port(1));
    let asker = a.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let _answerer = b.register(&get).unwrap();
    let request = mad(CLASS, 1, GET, 1);
    a.send(asker.id(), &address_of(1), &request, Reply::None)
        .unwrap();
    let ready = wait(&[&a, &b], Some(&waker), Some(SECOND * 10)).unwrap();
    assert!(ready.port(1) && !ready.port(0) && !ready.woken);
}

fn is_sm() -> bool {
    let p = Sysfs::system().port("rxe0", 1).unwrap();
    p.cap_mask.unwrap() & CAP_IS_SM != 0
}

fn issm() {
    let sysfs = Sysfs::system();
    let id = sysfs.resolve(&Select::exact("rxe0", 1)).unwrap();
    if !sysfs.issm_path(id.umad).exists() {
        // Newer kernels have none for ports without QP0.
        let e = IsSm::try_set(&sysfs, &id).unwrap_err();
        assert!(matches!(e, Error::Open { .. }), "{e}");
        return;
    }
    assert!(!is_sm());
    let held = IsSm::try_set(&sysfs, &id).unwrap();
    assert!(is_sm());
    let e = IsSm::try_set(&sysfs, &id).unwrap_err();
    assert!(matches!(e, Error::Busy { .. }), "{e}");
    // A blocking one waits for its turn: whichever way the threads run, it gets it.
    let (sysfs2, id2) = (sysfs.clone(), id.clone());
    let second = std::thread::spawn(move || IsSm::set(&sysfs2, &id2));
    drop(held);
    let second = second.join().unwrap().unwrap();
    assert!(is_sm());
    drop(second);
    assert!(!is_sm());
}

fn no_allocation() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let to = address_of(1);
    let mut buffer = Buffer::new();
    let mut before = 0;
    for n in 0..600u64 {
        // The first rounds warm up whatever is made once.
        if n == 100 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        let request = mad(CLASS, 1, GET, n);
        client
            .send(asker.id(), &to, &request, Reply::within(SECOND * 5))
            .unwrap();
        assert!(server.poll(None).unwrap());
        let Recv::Mad { from, mad, .. } = server.recv(&mut buffer).unwrap() else {
            panic!("no request");
        };
        let mut answer = [0; 256];
        answer.copy_from_slice(mad);
        answer[3] = GET_RESP;
        server
            .send(answerer.id(), &from, &answer, Reply::None)
            .unwrap();
        assert!(wait(&[&client], None, None).unwrap().port(0));
        assert!(matches!(
            client.recv_growing(&mut buffer).unwrap(),
            Recv::Mad { .. }
        ));
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn descriptors() {
    let before = open_descriptors();
    let id = Sysfs::system().resolve(&Select::exact("rxe0", 1)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    for _ in 0..10_000 {
        let p = Port::open_id(&Sysfs::system(), id.clone()).unwrap();
        // Conflicts if an earlier one were still there.
        let agent = p.register(&get).unwrap();
        drop(agent);
        let agent = p.register(&get).unwrap();
        assert_eq!(agent.id(), AgentId(0));
    }
    assert_eq!(open_descriptors(), before);
    let p = port(0);
    let with_port = open_descriptors();
    for _ in 0..10_000 {
        assert_eq!(p.register(&get).unwrap().id(), AgentId(0));
    }
    assert_eq!(open_descriptors(), with_port);
    for _ in 0..100 {
        drop(Waker::new().unwrap());
        Sysfs::system().cas().unwrap();
        Port::open(&Select::any()).unwrap_err();
    }
    assert_eq!(open_descriptors(), with_port);
}

fn rdma(args: &[&str]) {
    let status = Command::new("/bin/rdma").args(args).status().unwrap();
    assert!(status.success(), "rdma {args:?}");
}

fn removal() {
    let p = port(1);
    let agent = p.register(&Registration::client(CLASS)).unwrap();
    let waker = Waker::new().unwrap();
    let waiting = waker.clone();
    std::thread::scope(|scope| {
        let p = &p;
        let blocked = scope.spawn(move || {
            waiting.wake();
            assert!(wait(&[], Some(&waiting), None).unwrap().woken);
            wait(&[p], Some(&waiting), None).unwrap()
        });
        let polling = scope.spawn(move || p.poll(None));
        // Let both be in poll: their state in /proc says sleeping.
        until_asleep(2);
        rdma(&["link", "delete", "rxe1"]);
        let ready = blocked.join().unwrap();
        assert!(ready.removed(0) && !ready.port(0) && !ready.woken);
        let e = polling.join().unwrap().unwrap_err();
        assert!(e.is_device_removed(), "{e}");
    });
    let mut buffer = Buffer::new();
    let removed = |e: Error, call: &str| {
        assert!(e.is_device_removed(), "{e}");
        assert_eq!(
            e.to_string(),
            format!("rxe1/1: device removed (noticed by {call})")
        );
    };
    removed(p.recv(&mut buffer).unwrap_err(), "read");
    let request = mad(CLASS, 1, GET, 1);
    let to = Address::gmp(0, 0, 0);
    let sent = p.send(agent.id(), &to, &request, Reply::None);
    removed(sent.unwrap_err(), "write");
    let again = p.register(&Registration::client(CLASS));
    removed(again.unwrap_err(), "ioctl");
    removed(p.poll(Some(Duration::ZERO)).unwrap_err(), "poll");
    let e = Port::open(&Select::exact("rxe1", 1)).unwrap_err();
    assert!(matches!(e, Error::UnknownDevice { .. }), "{e}");
    drop(agent);
    p.close();
    // It returns, and can be opened and used again.
    rdma(&["link", "add", "rxe1", "type", "rxe", "netdev", "v1"]);
    let deadline = Instant::now() + SECOND * 20;
    let gid = |sysfs: &Sysfs| sysfs.gids("rxe1", 1).is_ok_and(|g| !g.is_empty());
    while !gid(&Sysfs::system()) {
        assert!(Instant::now() < deadline, "the device does not return");
        std::thread::yield_now();
    }
    round_trip();
}

/// Waits until all threads of this process but the main one sleep, in their poll.
fn until_asleep(others: usize) {
    let me = std::process::id().to_string();
    loop {
        let asleep = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| {
                let task = task.ok()?;
                let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
                let state = stat.rsplit(')').next()?.trim_start().chars().next();
                (task.file_name().to_str() != Some(&me) && state == Some('S')).then_some(())
            })
            .count();
        if asleep == others {
            return;
        }
        std::thread::yield_now();
    }
}
