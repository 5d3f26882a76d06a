//! What is checked in a process of our own inside the simulator: this crate's Rust API against
//! the shim, which replaces the system calls and has rules of its own.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use umad::{
    Address, Agent, Buffer, Layout, MethodMask, Port, PortState, Recv, Registration, Reply, Select,
    Sysfs, Waker, wait,
};

pub const ALL: &[(&str, fn())] = &[
    ("sim_enumeration", enumeration),
    ("sim_classes_and_answers", classes),
    ("sim_dead_path_times_out", dead_path),
    ("sim_many_in_flight", in_flight),
    ("sim_wait", waiting),
    ("sim_no_allocation_per_mad", allocations),
    ("sim_port_let_go_with_replies_outstanding", let_go),
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

pub fn run(name: &str) -> ExitCode {
    match ALL.iter().find(|(n, _)| *n == name) {
        Some((_, case)) => {
            case();
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

fn enumeration() {
    let sysfs = Sysfs::system();
    assert_eq!(sysfs.ca_names().unwrap(), ["ibsim0"]);
    let ca = sysfs.ca("ibsim0").unwrap();
    assert!(ca.is_simulated());
    assert_eq!(ca.faults, []);
    // As the net file has it: caguid, and the port's.
    assert_eq!(ca.node_guid, Some(0x10001));
    let p = ca.port(1).unwrap();
    assert_eq!(p.faults, []);
    assert_eq!(p.link_layer, None, "the simulator does not say");
    assert!(p.is_infiniband());
    assert_eq!(p.state, Some(PortState::ACTIVE));
    assert_eq!(p.sm_lid, Some(1), "opensm is at the first node");
    assert_eq!(p.default_pkey_index(), Some(0));
    let id = sysfs.resolve(&Select::any().with_smi()).unwrap();
    assert_eq!((id.ca.as_str(), id.port, id.umad), ("ibsim0", 1, 0));
}

fn open() -> Port {
    let p = Port::open(&Select::any()).unwrap();
    assert!(p.is_simulated());
    assert_eq!(p.layout(), Layout::Old);
    p
}

/// A Get by a directed route over these ports.
fn directed(attribute: u8, tid: u8, route: &[u8]) -> [u8; 256] {
    let mut m = [0; 256];
    m[..4].copy_from_slice(&[1, 0x81, 1, 1]);
    m[7] = u8::try_from(route.len()).unwrap();
    m[15] = tid;
    m[17] = attribute;
    m[32..36].fill(0xff);
    m[129..129 + route.len()].copy_from_slice(route);
    m
}

const NODE_INFO: u8 = 0x11;
const SOON: Reply = Reply::Within {
    timeout_ms: 1000,
    retries: 0,
};

fn answer<'a>(p: &Port, buffer: &'a mut Buffer) -> Recv<'a> {
    let ready = wait(&[p], None, Some(Duration::from_secs(20))).unwrap();
    assert!(ready.port(0));
    p.recv(buffer).unwrap()
}

fn node_guid(mad: &[u8]) -> u64 {
    mad[76..84].iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

fn classes() {
    let p = open();
    let agents: Vec<Agent> = [0x81, 0x01, 0x04]
        .map(|class| p.register(&Registration::client(class)).unwrap())
        .into();
    // Reports from subnet administration.
    let sa = Registration::client(0x03).receiving(&[0x06]);
    assert_eq!(sa.methods, MethodMask::of(&[6]));
    let _sa = p.register(&sa).unwrap();
    let mut buffer = Buffer::new();
    assert_eq!(p.recv(&mut buffer).unwrap(), Recv::Empty);
    assert!(!p.poll(Some(Duration::ZERO)).unwrap());

    let own = directed(NODE_INFO, 1, &[]);
    p.send(agents[0].id(), &Address::directed(), &own, SOON)
        .unwrap();
    match answer(&p, &mut buffer) {
        Recv::Mad { agent, mad, .. } => {
            assert_eq!(agent, agents[0].id());
            assert_eq!((mad.len(), mad[3], mad[15]), (256, 0x81, 1));
            assert_eq!(node_guid(mad), 0x10001);
            assert_eq!(mad[232..], [0; 24], "not what was in the shim's memory");
        }
        other => panic!("{other:?}"),
    }
    // The far leaf, by LID, through its switch's answer to a directed route.
    let far = directed(0x15, 2, &[1, 5]);
    p.send(agents[0].id(), &Address::directed(), &far, SOON)
        .unwrap();
    let lid = match answer(&p, &mut buffer) {
        Recv::Mad { mad, .. } => u16::from_be_bytes([mad[80], mad[81]]),
        other => panic!("{other:?}"),
    };
    let mut by_lid = directed(NODE_INFO, 3, &[]);
    by_lid[1] = 0x01;
    by_lid[32..36].fill(0);
    p.send(agents[1].id(), &Address::smp(lid), &by_lid, SOON)
        .unwrap();
    match answer(&p, &mut buffer) {
        Recv::Mad { agent, mad, from } => {
            assert_eq!(agent, agents[1].id());
            assert_eq!(from.lid, lid);
            assert_eq!(node_guid(mad), 0x20002);
        }
        other => panic!("{other:?}"),
    }
    // Its counters: PortCounters of port 1.
    let mut counters = [0; 256];
    counters[..4].copy_from_slice(&[1, 0x04, 1, 1]);
    counters[15] = 4;
    counters[17] = 0x12;
    counters[65] = 1;
    let pkey = Sysfs::system().port("ibsim0", 1).unwrap();
    let to = Address::gmp(lid, 0, pkey.default_pkey_index().unwrap());
    p.send(agents[2].id(), &to, &counters, SOON).unwrap();
    match answer(&p, &mut buffer) {
        Recv::Mad { agent, mad, .. } => {
            assert_eq!(agent, agents[2].id());
            assert_eq!((mad[1], mad[3], mad[65]), (0x04, 0x81, 1));
        }
        other => panic!("{other:?}"),
    }
}

fn dead_path() {
    let p = open();
    let agent = p.register(&Registration::client(0x81)).unwrap();
    // Nothing is plugged into port 3 of the first leaf.
    let request = directed(NODE_INFO, 9, &[1, 3]);
    p.send(agent.id(), &Address::directed(), &request, SOON)
        .unwrap();
    let mut buffer = Buffer::new();
    match answer(&p, &mut buffer) {
        Recv::TimedOut {
            agent: a,
            to,
            tid,
            errno,
            ..
        } => {
            assert_eq!(a, agent.id());
            assert_eq!(to.lid, 0xffff);
            assert_eq!(tid & 0xffff_ffff, 9);
            assert_eq!(errno, umad::Errno::ETIMEDOUT);
        }
        other => panic!("{other:?}"),
    }
}

fn in_flight() {
    let p = open();
    let agent = p.register(&Registration::client(0x81)).unwrap();
    let mut buffer = Buffer::new();
    for _ in 0..20 {
        for tid in 0..100 {
            let request = directed(NODE_INFO, tid, &[1]);
            p.send(agent.id(), &Address::directed(), &request, SOON)
                .unwrap();
        }
        let mut seen = [false; 100];
        for _ in 0..100 {
            match answer(&p, &mut buffer) {
                Recv::Mad { mad, .. } => seen[usize::from(mad[15])] = true,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, [true; 100]);
    }
}

fn waiting() {
    let p = open();
    let _agent = p.register(&Registration::client(0x81)).unwrap();
    let waker = Waker::new().unwrap();
    // The time passes: never early.
    let time = Duration::from_millis(35);
    let start = Instant::now();
    assert!(wait(&[&p], Some(&waker), Some(time)).unwrap().is_timeout());
    assert!(start.elapsed() >= time);
    // Another thread's wake-up ends a wait without end, though the shim's poll ignores it.
    let other = waker.clone();
    let thread = std::thread::spawn(move || other.wake());
    let ready = wait(&[&p], Some(&waker), None).unwrap();
    thread.join().unwrap();
    assert!(ready.woken && !ready.port(0) && !ready.removed(0));
}

fn allocations() {
    let p = open();
    let agent = p.register(&Registration::client(0x81)).unwrap();
    let mut buffer = Buffer::new();
    let mut before = 0;
    for n in 0..400 {
        if n == 100 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        let request = directed(NODE_INFO, u8::try_from(n % 200).unwrap(), &[1]);
        p.send(agent.id(), &Address::directed(), &request, SOON)
            .unwrap();
        assert!(matches!(answer(&p, &mut buffer), Recv::Mad { .. }));
    }
    // The shim itself takes memory from C's heap, which is not counted.
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}

fn let_go() {
    // The shim's thread crashes on a reply whose agent is gone, so it must not go.
    for _ in 0..5 {
        let p = open();
        let agent = p.register(&Registration::client(0x81)).unwrap();
        for tid in 0..50 {
            let request = directed(NODE_INFO, tid, &[1, 5, 1]);
            p.send(agent.id(), &Address::directed(), &request, SOON)
                .unwrap();
        }
        drop(agent);
        drop(p);
    }
    // Long enough for the replies: another port gets its own answer after them.
    let p = open();
    let agent = p.register(&Registration::client(0x01)).unwrap();
    let mut request = directed(NODE_INFO, 1, &[]);
    request[1] = 0x01;
    request[32..36].fill(0);
    let lid = Sysfs::system().port("ibsim0", 1).unwrap().lid.unwrap();
    p.send(agent.id(), &Address::smp(lid), &request, SOON)
        .unwrap();
    let mut buffer = Buffer::new();
    assert!(matches!(answer(&p, &mut buffer), Recv::Mad { .. }));
}
