//! Round trips of a NodeInfo request through this crate and through libibumad, on the same
//! simulator: ibsim with its shim, at the same node.
//!
//! The two run in processes of their own, since the shim follows the header layout of the
//! process. Needs ibsim, the shim and libibumad; says so where they are missing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench measures and reports"
)]

#[allow(dead_code, reason = "shared with the tests")]
#[path = "../tests/foreign/fabric.rs"]
mod fabric;

use std::ffi::{c_char, c_int, c_void};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use fabric::{Fabric, Library, program, shim};
use umad::{Address, Buffer, Port, Recv, Registration, Reply, Select};

/// How many requests are in flight: alone, and as a sweep has them.
const IN_FLIGHT: [u8; 2] = [1, 64];

/// NodeInfo of the neighbour on port 1, by directed route.
fn request(tid: u8) -> [u8; 256] {
    let mut m = [0; 256];
    m[..4].copy_from_slice(&[1, 0x81, 1, 1]);
    m[7] = 1;
    m[15] = tid;
    m[17] = 0x11;
    m[32..36].fill(0xff);
    m[129] = 1;
    m
}

fn measure(criterion: &mut Criterion, name: &str, mut round: impl FnMut(u8)) {
    let mut group = criterion.benchmark_group("round_trips");
    group.measurement_time(Duration::from_secs(5));
    for n in IN_FLIGHT {
        group.throughput(Throughput::Elements(n.into()));
        group.bench_function(format!("{name}/{n}_in_flight"), |b| b.iter(|| round(n)));
    }
    group.finish();
    // The wall clock also measures the simulator and everything else on the machine.
    for n in IN_FLIGHT {
        let rounds = 2_000 / u64::from(n);
        // The least of twenty: what disturbs only adds to it.
        let each = (0..20).map(|_| {
            let before = cpu_time();
            for _ in 0..rounds {
                round(n);
            }
            (cpu_time() - before) / (rounds * u64::from(n))
        });
        let each = each.min().unwrap();
        std::fs::write(home().join(format!("{name}-{n}-cpu")), each.to_string()).unwrap();
    }
}

/// Processor time that this thread has used, in ns.
fn cpu_time() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock is written to a live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

fn ours(criterion: &mut Criterion) {
    let port = Port::open(&Select::any()).unwrap();
    let agent = port.register(&Registration::client(0x81)).unwrap();
    let reply = Reply::within(Duration::from_secs(1));
    let mut buffer = Buffer::new();
    measure(criterion, "umad", |n| {
        for tid in 0..n {
            let mad = request(tid);
            port.send(agent.id(), &Address::directed(), &mad, reply)
                .unwrap();
        }
        for _ in 0..n {
            loop {
                assert!(port.poll(Some(Duration::from_secs(1))).unwrap());
                match port.recv(&mut buffer).unwrap() {
                    Recv::Mad { mad, .. } => {
                        black_box(mad);
                        break;
                    }
                    // The shim says ready a little early.
                    Recv::Empty => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    });
}

/// The C library's functions, found in the process: the shim is linked to it.
fn symbol<F: Copy>(name: &std::ffi::CStr) -> F {
    // SAFETY: looks a name up; the result is only used as the type that <infiniband/umad.h>
    // gives it.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!at.is_null(), "{name:?}");
    assert_eq!(size_of::<F>(), size_of_val(&at));
    // SAFETY: a function's address, as large as F.
    unsafe { std::mem::transmute_copy(&at) }
}

fn c_library(criterion: &mut Criterion) {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
    type Register = unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut i64) -> c_int;
    type SetAddr = unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, c_int) -> c_int;
    type Send = unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int;
    type Receive = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int;
    let open: Open = symbol(c"umad_open_port");
    let register: Register = symbol(c"umad_register");
    let set_addr: SetAddr = symbol(c"umad_set_addr");
    let send: Send = symbol(c"umad_send");
    let receive: Receive = symbol(c"umad_recv");
    // SAFETY: as the manual pages ask: null is the default port, and a client has no mask.
    let (fd, agent) = unsafe {
        let fd = open(std::ptr::null(), 0);
        (fd, register(fd, 0x81, 1, 0, std::ptr::null_mut()))
    };
    assert!(fd >= 0 && agent >= 0);
    let mut out = [0u64; 40];
    let mut back = [0u64; 40];
    measure(criterion, "libibumad", |n| {
        for tid in 0..n {
            let umad = out.as_mut_ptr().cast::<u8>();
            // SAFETY: the buffer holds a header of 64 bytes and a MAD of 256.
            unsafe {
                let mad = request(tid);
                umad.add(64).copy_from_nonoverlapping(mad.as_ptr(), 256);
                set_addr(umad.cast(), 0xffff, 0, 0, 0);
                assert_eq!(send(fd, agent, umad.cast(), 256, 1000, 0), 0);
            }
        }
        for _ in 0..n {
            loop {
                let mut length = 256;
                let umad = back.as_mut_ptr().cast();
                // SAFETY: as above.
                let rc = unsafe { receive(fd, umad, &raw mut length, 1000) };
                if rc == -libc::EAGAIN {
                    continue;
                }
                assert_eq!(rc, agent);
                black_box(&back);
                break;
            }
        }
    });
}

/// Where criterion keeps its results.
fn home() -> PathBuf {
    let me = std::env::current_exe().unwrap();
    let target = me.ancestors().find(|p| p.ends_with("target")).unwrap();
    target.join("criterion")
}

/// Median time that criterion found, in ns.
fn median(name: &str, n: u8) -> Option<f64> {
    let file = format!("round_trips/{name}_{n}_in_flight/new/estimates.json");
    let text = std::fs::read_to_string(home().join(file)).ok()?;
    let text = &text[text.find("\"median\":")?..];
    let at = text.find("\"point_estimate\":")? + 17;
    text[at..].split(',').next()?.parse().ok()
}

fn main() {
    match std::env::var("UMAD_BENCH_SIDE").as_deref() {
        Ok(side) => {
            let mut criterion = Criterion::default().configure_from_args();
            match side {
                "umad" => ours(&mut criterion),
                _ => c_library(&mut criterion),
            }
            criterion.final_summary();
            // Without unloading: the shim's thread may still be at work.
            std::process::exit(0);
        }
        Err(_) => {
            if shim().is_none() || program("ibsim").is_none() {
                println!("missing: ibsim-utils, libumad2sim0");
                return;
            }
            let fabric = Fabric::bare();
            let me = std::env::current_exe().unwrap();
            for side in ["libibumad", "umad"] {
                let status = fabric
                    .command(Library::C, &me)
                    .args(std::env::args_os().skip(1))
                    .env("CRITERION_HOME", home())
                    .env("UMAD_BENCH_SIDE", side)
                    .stdout(std::process::Stdio::inherit())
                    .status()
                    .unwrap();
                assert!(status.success());
            }
            for n in IN_FLIGHT {
                if let (Some(c), Some(ours)) = (median("libibumad", n), median("umad", n)) {
                    let ratio = ours / c;
                    println!("{n} in flight: umad takes {ratio:.3} of libibumad's time");
                }
                let cpu = |name| {
                    let file = home().join(format!("{name}-{n}-cpu"));
                    std::fs::read_to_string(file).ok()?.parse::<f64>().ok()
                };
                if let (Some(c), Some(ours)) = (cpu("libibumad"), cpu("umad")) {
                    println!(
                        "  processor time of a round trip: {ours} ns, libibumad {c} ns: {:.3}",
                        ours / c
                    );
                }
            }
        }
    }
}
