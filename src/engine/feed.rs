//! What both drivers do between a port and the core.

use super::core::{Core, Input, Output};
use crate::port::{MadPort, PortError, Stamp};

/// Tells the core of a port that was just opened.
pub(super) fn open(core: &mut Core, port: &mut dyn MadPort, now: Stamp) {
    core.handle(now, Input::Agents(port.agents()));
    read_local(core, port, now);
}

fn read_local(core: &mut Core, port: &mut dyn MadPort, now: Stamp) {
    match port.local(now) {
        Ok(local) => core.handle(now, Input::Local(local)),
        Err(error @ PortError::Gone { .. }) => core.handle(now, Input::Gone(error.to_string())),
        // Reading it again comes in a second anyway.
        Err(error) => tracing::debug!(%error, "local port not read"),
    }
}

/// Hands the core what the port received, at most `most` arrivals. Returns how many there were.
pub(super) fn receive(core: &mut Core, port: &mut dyn MadPort, now: Stamp, most: usize) -> usize {
    let mut count = 0;
    while count < most && !core.is_waiting_for_device() {
        match port.recv(now) {
            Ok(Some(arrival)) => core.handle(now, Input::Arrival(arrival)),
            Ok(None) => break,
            Err(PortError::WouldBlock) => break,
            Err(error @ PortError::Gone { .. }) => {
                core.handle(now, Input::Gone(error.to_string()));
                break;
            }
            Err(error) => {
                tracing::warn!(%error, "receive failed");
                break;
            }
        }
        count += 1;
    }
    count
}

/// Does what the core wants of the port.
pub(super) fn act(core: &mut Core, port: &mut dyn MadPort, now: Stamp, output: Output) {
    match output {
        Output::Send => {
            let Some(out) = core.outgoing() else {
                return;
            };
            if let Err(error) = port.send(now, out) {
                let input = Input::SendFailed {
                    tid: out.mad.tid_low(),
                    class: out.mad.class().code(),
                    error,
                };
                core.handle(now, input);
            }
        }
        Output::ReadLocal => read_local(core, port, now),
        Output::Reopen => match port.reopen() {
            Ok(()) => {
                core.handle(now, Input::Back);
                open(core, port, now);
            }
            Err(error) => core.handle(now, Input::Gone(error.to_string())),
        },
        Output::Events | Output::Finished => {}
    }
}
