//! What is checked inside the guest. Expected errors are those that the kernel documents in its
//! sources (user_mad.c, mad.c) and that libibumad's own tests check.

mod devices;
mod lifecycle;
mod registration;
mod rmpp;
mod traffic;

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
    ("enumeration", devices::enumeration),
    ("default_port_is_not_ethernet", devices::default_port),
    ("open", devices::open),
    ("permission_denied", devices::permission_denied),
    ("c_face", devices::c_face),
    ("register_classes_without_qp0", registration::register_qp0),
    ("register_rules", registration::register_rules),
    (
        "register_method_conflicts",
        registration::register_conflicts,
    ),
    ("register_vendor_ouis", registration::register_ouis),
    ("register_flags", registration::register_flags),
    ("register_agent_numbers", registration::register_numbers),
    (
        "register_as_libibumads_tests_do",
        registration::register_like_libibumad,
    ),
    ("enable_pkey_rules", registration::enable_pkey),
    ("unregister_on_drop", registration::unregister_on_drop),
    ("round_trip", traffic::round_trip),
    ("short_mads_are_padded", traffic::short_mads),
    ("timeouts", traffic::timeouts),
    (
        "timeout_record_stays_for_a_bigger_read",
        traffic::timeout_record_stays,
    ),
    (
        "reply_with_a_timeout_times_out",
        traffic::reply_with_timeout,
    ),
    ("nobody_registered", traffic::nobody_registered),
    ("unsolicited_by_method_mask", traffic::unsolicited),
    ("duplicate_tid", traffic::duplicate_tid),
    ("send_errors", traffic::send_errors),
    ("two_agents_on_one_file", traffic::two_agents_one_file),
    ("two_agents_on_two_files", traffic::two_agents_two_files),
    (
        "unregister_with_sends_outstanding",
        traffic::unregister_outstanding,
    ),
    ("rmpp_256", || rmpp::rmpp(256)),
    ("rmpp_300", || rmpp::rmpp(300)),
    ("rmpp_4000", || rmpp::rmpp(4000)),
    ("rmpp_60000", || rmpp::rmpp(60_000)),
    ("rmpp_shorter_than_a_mad", || rmpp::rmpp(100)),
    ("rmpp_unacknowledged_times_out", rmpp::rmpp_unacknowledged),
    ("user_rmpp", rmpp::user_rmpp),
    ("poll_and_signals", lifecycle::signals),
    ("wait_is_woken", lifecycle::wait_is_woken),
    ("issm", lifecycle::issm),
    ("no_allocation_per_mad", lifecycle::no_allocation),
    ("descriptors_are_constant", lifecycle::descriptors),
    ("removal_and_return", lifecycle::removal),
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

/// Opens a port, as whatever user runs this, and says what happens.
pub fn open_port() -> ExitCode {
    match Port::open(&Select::exact("rxe0", 1)) {
        Ok(_) => println!("opened"),
        Err(e) => println!("{e}"),
    }
    ExitCode::SUCCESS
}

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

/// A server that receives and stays silent, so that requests time out.
fn silent_server() -> (Port, umad::Agent) {
    let server = port(1);
    let get = Registration::client(CLASS).receiving(&[GET]);
    let agent = server.register(&get).unwrap();
    (server, agent)
}
