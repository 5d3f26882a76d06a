//! The console in a real pseudo-terminal: how it begins, what it writes, and that the terminal
//! is given back whatever ends it.
//!
//! This program runs itself again as the console under test (`--console HOW`), over the
//! built-in simulator, so that a panic of a worker can be asked for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)] // a test may fail by panicking

mod pty;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use pty::{Console, How, Mortal};
use rustix::process::Signal;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("--console") => {
            return pty::child::run(args.next().as_deref().unwrap_or("plain"));
        }
        Some("--host") => pty::host(),
        _ => {}
    }
    let trial = |name: &str, test: fn() -> Result<(), Failed>| Trial::test(name, test);
    let trials = vec![
        trial("starts_shows_every_pane_and_quits", panes),
        trial(
            "asks_the_terminal_nothing_and_leaves_the_mouse_alone",
            manners,
        ),
        trial("every_frame_is_one_synchronized_update", frames),
        trial("a_quiet_session_writes_nothing", quiet),
        trial("resizing_at_random_breaks_nothing", resize),
        trial("sigterm_gives_the_terminal_back", sigterm),
        trial("sighup_gives_the_terminal_back", sighup),
        trial(
            "a_panic_in_a_worker_gives_the_terminal_back_and_is_told",
            panic_in_worker,
        ),
        trial(
            "a_panic_of_the_loop_gives_the_terminal_back",
            panic_in_model,
        ),
        trial("an_engine_that_ends_is_told", engine_ends),
        trial("stopping_and_going_on_keeps_the_terminal_right", suspend),
        trial("a_dead_terminal_ends_it_even_with_sighup_ignored", dead),
        trial(
            "a_terminal_that_reads_nothing_cannot_hold_up_the_way_out",
            stalled,
        ),
        trial("paste_is_no_row_of_commands", paste),
        trial("a_flood_of_keys_leaves_none_unread", flood),
        trial(
            "standard_output_that_is_no_terminal_is_a_users_mistake",
            no_terminal,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn panes() -> Result<(), Failed> {
    let mut c = Console::start(How::Plain, 80, 24);
    c.wait_for("Errors");
    c.wait_for("SIMULATED");
    c.wait_for("Active");
    c.keys("2");
    c.wait_for("TX bit/s");
    c.keys("3");
    c.wait_for("Destination");
    c.keys("1");
    c.wait_for("Peer[port]");
    c.keys("/zzzzz");
    c.wait_for("No row passes the filter");
    c.keys("\x1b");
    c.wait_for("rows");
    c.keys(">");
    c.wait_for("sort Err/s");
    c.keys("\r");
    c.wait_for("This end");
    c.keys("q");
    c.wait_for("Peer[port]");
    c.keys("e");
    c.wait_for("Event log");
    c.keys("?");
    c.wait_for("Keys");
    c.keys("\x1b");
    c.wait_for("Event log");
    c.resize(40, 12);
    c.wait_for("Event log");
    c.resize(80, 24);
    c.wait_for("Severity");
    c.keys("q");
    c.wait_for("Peer[port]");
    c.keys("q");
    let end = c.wait();
    end.expect_code(0)?;
    end.expect_restored()?;
    end.expect_stderr("")
}

fn manners() -> Result<(), Failed> {
    // Nobody answers anything in this terminal; the first frame comes all the same.
    let mut c = Console::start(How::Plain, 80, 24);
    c.wait_for("Ports");
    c.keys("23e?qqq1\r\x1b");
    c.wait_for("Peer[port]");
    c.keys("q");
    let end = c.wait();
    end.expect_code(0)?;
    // Cursor position, device attributes, colours, keyboard protocol, mouse modes.
    for asked in [
        "\x1b[6n",
        "\x1b[5n",
        "\x1b[c",
        "\x1b[>c",
        "\x1b[>q",
        "\x1b]10;?",
        "\x1b]11;?",
        "\x1b[?u",
        "\x1b[?1000h",
        "\x1b[?1002h",
        "\x1b[?1003h",
        "\x1b[?1006h",
    ] {
        if end.wrote(asked.as_bytes()) {
            return Err(format!("wrote {asked:?}").into());
        }
    }
    Ok(())
}

fn frames() -> Result<(), Failed> {
    let mut c = Console::start(How::Plain, 80, 24);
    c.wait_for("Active");
    c.keys("2");
    c.wait_for("TX bit/s");
    c.keys("q");
    let end = c.wait();
    let begins = end.count(b"\x1b[?2026h");
    let ends = end.count(b"\x1b[?2026l");
    // The way out ends an update too, in case one was cut short.
    if begins < 2 || ends != begins + 1 {
        return Err(format!("{begins} updates begun, {ends} ended").into());
    }
    // Every frame but the first ones clears nothing.
    if end.count(b"\x1b[2J") > 2 {
        return Err("the screen was cleared again and again".into());
    }
    Ok(())
}

fn quiet() -> Result<(), Failed> {
    let mut c = Console::start(How::Quiet, 80, 24);
    c.wait_for("SIMULATED");
    // Whatever was still to be drawn is drawn.
    c.wait_for_ticks(2);
    let before = c.written();
    // It looks at the model again and again, and writes not a byte.
    c.wait_for_ticks(3);
    let after = c.written();
    c.keys("q");
    c.wait().expect_code(0)?;
    if after != before {
        return Err(format!("{} bytes for nothing", after - before).into());
    }
    Ok(())
}

fn resize() -> Result<(), Failed> {
    let mut c = Console::start(How::Plain, 80, 24);
    c.wait_for("Active");
    let mut n: u32 = 7;
    for i in 0..60 {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (w, h) = ((n >> 8) % 200, (n >> 20) % 60);
        c.resize(w as u16, h as u16);
        c.keys(["1", "2", "3", "e", "?", "\x1b", "\r", "p"][i % 8]);
    }
    c.keys("1");
    c.resize(80, 24);
    c.wait_for("Peer[port]");
    c.keys("q");
    let end = c.wait();
    end.expect_code(0)?;
    end.expect_restored()
}

fn sigterm() -> Result<(), Failed> {
    let c = Console::start(How::Plain, 80, 24);
    c.wait_for("Active");
    c.signal(Signal::TERM);
    let end = c.wait();
    end.expect_code(1)?;
    end.expect_restored()?;
    end.expect_stderr("ended by SIGTERM\n")
}

fn sighup() -> Result<(), Failed> {
    let c = Console::start(How::Plain, 80, 24);
    c.wait_for("Active");
    c.signal(Signal::HUP);
    let end = c.wait();
    end.expect_code(1)?;
    end.expect_restored()?;
    end.expect_stderr("ended by SIGHUP\n")
}

fn panic_in_worker() -> Result<(), Failed> {
    let mut c = Console::start(How::PanicInWorker, 80, 24);
    c.wait_for("Ports");
    // The bookmark key makes this console's worker panic.
    c.keys("b");
    let end = c.wait();
    end.expect_code(1)?;
    end.expect_restored()?;
    end.expect_in_stderr("the worker broke")?;
    end.expect_in_stderr("internal error")
}

fn panic_in_model() -> Result<(), Failed> {
    let c = Console::start(How::PanicInLoop, 80, 24);
    let end = c.wait();
    // Rust's own code for a panic of the main thread.
    end.expect_code(101)?;
    end.expect_restored()?;
    end.expect_in_stderr("the clock broke")
}

fn engine_ends() -> Result<(), Failed> {
    let c = Console::start(How::EngineEnds, 80, 24);
    let end = c.wait();
    end.expect_code(1)?;
    end.expect_restored()?;
    end.expect_in_stderr("the session ended: the engine stopped")
}

fn suspend() -> Result<(), Failed> {
    let mut c = Console::start(How::Plain, 80, 24);
    c.wait_for("Active");
    c.signal(Signal::TSTP);
    c.wait_until_stopped();
    c.expect_restored_now()?;
    c.signal(Signal::CONT);
    c.wait_for_new("Ports");
    c.expect_raw_now()?;
    c.keys("q");
    let end = c.wait();
    end.expect_code(0)?;
    end.expect_restored()
}

fn dead() -> Result<(), Failed> {
    let mut terminal = Mortal::start();
    terminal.wait_until_up();
    let (code, stderr) = terminal.kill();
    if code != "1\n" || stderr != "the terminal is gone (hung up)\n" {
        return Err(format!("code {code:?}, standard error {stderr:?}").into());
    }
    Ok(())
}

fn stalled() -> Result<(), Failed> {
    let mut c = Console::start(How::Plain, 200, 50);
    c.wait_for("Active");
    c.stop_reading();
    // Full redraws, far more than the kernel's 64 KiB between the two ends.
    for _ in 0..20 {
        c.keys("\x0c");
        std::thread::sleep(Duration::from_millis(110));
    }
    c.signal(Signal::TERM);
    c.wait_for_exit();
    let end = c.wait();
    end.expect_code(1)?;
    end.expect_stderr("ended by SIGTERM\n")
}

fn paste() -> Result<(), Failed> {
    let mut c = Console::start(How::Plain, 80, 24);
    c.wait_for("Active");
    c.keys("\x1b[200~q3e\x1b[201~");
    c.keys("/");
    c.keys("\x1b[200~zz\x07y\x1b[201~");
    c.wait_for("/zzy");
    // Esc and a letter that come together would be Alt and that letter.
    c.keys("\x1b");
    c.wait_for("next pane");
    c.keys("q");
    c.wait().expect_code(0)
}

fn flood() -> Result<(), Failed> {
    let mut c = Console::start(How::Plain, 80, 24);
    c.wait_for("Active");
    // Nothing follows that could wake a reader which took only a part: the last key is seen.
    c.keys(&format!("{}e", "j".repeat(3000)));
    c.wait_for("Event log");
    // A paste longer than any of the buffers on its way.
    c.keys(&format!(
        "1/\x1b[200~{}\x1b[201~",
        "paste\u{202e}\x07 ".repeat(20_000)
    ));
    c.keys("\x15\r?");
    c.wait_for("Keys");
    c.keys("qq");
    let end = c.wait();
    end.expect_code(0)?;
    end.expect_restored()?;
    end.expect_stderr("")
}

fn no_terminal() -> Result<(), Failed> {
    let out = std::process::Command::new(std::env::current_exe()?)
        .args(["--console", "plain"])
        .output()?;
    if out.status.code() != Some(2) || !out.stdout.is_empty() {
        return Err(format!("{out:?}").into());
    }
    Ok(())
}
