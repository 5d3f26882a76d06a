//! Asks the local port for its NodeInfo by a directed route of no hops and prints the answer.
//!
//! usage: nodeinfo [DEVICE [PORT]]

use std::process::ExitCode;
use std::time::Duration;

use umad::{Address, Buffer, Port, Recv, Registration, Reply, Select, Sysfs, Waker, wait};

#[allow(clippy::print_stdout, reason = "an example shows what it does")]
fn run() -> umad::Result<()> {
    let mut args = std::env::args().skip(1);
    let select = Select {
        ca: args.next(),
        port: args.next().and_then(|p| p.parse().ok()),
        smi: true,
    };
    let sysfs = Sysfs::system();
    for ca in sysfs.cas()? {
        for p in &ca.ports {
            println!(
                "{}/{}: {:?} LID {:?} SM LID {:?} rate {:?} default P_Key at {:?}, {} faults",
                ca.name,
                p.number,
                p.state,
                p.lid,
                p.sm_lid,
                p.rate_text,
                p.default_pkey_index(),
                p.faults.len()
            );
        }
    }
    let port = Port::open_in(&sysfs, &select)?;
    println!(
        "opened {} ({:?}, simulated: {})",
        port.id(),
        port.layout(),
        port.is_simulated()
    );
    let agent = port.register(&Registration::client(0x81))?;
    let mut mad = [0; 256];
    // Base version 1, class 0x81, class version 1, Get; TID 0x4711; attribute NodeInfo; both
    // directed-route LIDs permissive.
    mad[..4].copy_from_slice(&[1, 0x81, 1, 1]);
    mad[14..16].copy_from_slice(&[0x47, 0x11]);
    mad[16..18].copy_from_slice(&[0, 0x11]);
    mad[32..36].fill(0xff);
    let reply = Reply::within(Duration::from_secs(1));
    port.send(agent.id(), &Address::directed(), &mad, reply)?;
    let waker = Waker::new()?;
    let mut buffer = Buffer::new();
    loop {
        let ready = wait(&[&port], Some(&waker), Some(Duration::from_secs(5)))?;
        if ready.is_timeout() {
            println!("no answer at all");
            return Ok(());
        }
        match port.recv(&mut buffer)? {
            Recv::Mad { mad, .. } => {
                println!("NodeInfo: {:02x?}", &mad[64..104]);
                return Ok(());
            }
            Recv::TimedOut { tid, errno, .. } => {
                println!("TID {tid:#x}: {errno}");
                return Ok(());
            }
            Recv::Empty | Recv::TooSmall { .. } => {}
        }
    }
}

#[allow(clippy::print_stderr, reason = "an example shows what it does")]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
