//! The error counters of PortCounters as one value to compare: what the sum over all ports of a
//! node (PortSelect 255) is good for.
//!
//! The sum saturates like every counter, so it tells nothing while one of its fields is pegged.
//! PortRcvSwitchRelayErrors is left out: a healthy switch counts it all day, whenever a
//! multicast packet would have to leave by the port it came in by. Who takes an unchanged sum
//! for unchanged ports must not take that counter for unchanged.

use super::PortCounters;

/// How many counters are compared.
const FIELDS: usize = 12;

/// What each of them stops at (spec 16.1.3.5).
const MOST: [u32; FIELDS] = [
    0xFFFF,
    0xFF,
    0xFF,
    0xFFFF,
    0xFFFF,
    0xFFFF,
    0xFF,
    0xFF,
    0xF,
    0xF,
    0xFFFF_FFFF,
    0xFFFF_FFFF,
];

/// The error counters and XmitWait of one reading of PortCounters: of a port, or of all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts([u32; FIELDS]);

impl ErrorCounts {
    /// Those of a reading.
    pub fn of(c: &PortCounters) -> ErrorCounts {
        ErrorCounts([
            c.symbol_error().into(),
            c.link_error_recovery().into(),
            c.link_downed().into(),
            c.rcv_errors().into(),
            c.rcv_remote_physical_errors().into(),
            c.xmit_discards().into(),
            c.xmit_constraint_errors().into(),
            c.rcv_constraint_errors().into(),
            c.local_link_integrity().into(),
            c.excessive_buffer_overrun().into(),
            // Both at once: they peg at values of their own, see `is_pegged`.
            u32::from(c.qp1_dropped()) << 16 | u32::from(c.vl15_dropped()),
            c.xmit_wait(),
        ])
    }

    /// A counter stands at the end of its range: what happens from here on does not show.
    pub fn is_pegged(&self) -> bool {
        self.0
            .iter()
            .zip(MOST)
            .enumerate()
            .any(|(i, (value, most))| match i {
                10 => value >> 16 == 0xFFFF || value & 0xFFFF == 0xFFFF,
                _ => *value == most,
            })
    }

    /// A counter of one port is above the sum over all ports. Where the sum was read first, that
    /// may be news in between.
    pub fn exceeds(&self, sum: &ErrorCounts) -> bool {
        self.0
            .iter()
            .zip(&sum.0)
            .enumerate()
            .any(|(i, (own, sum))| match i {
                10 => own >> 16 > sum >> 16 || own & 0xFFFF > sum & 0xFFFF,
                _ => own > sum,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_pegs_at_the_width_of_its_field() {
        assert!(!ErrorCounts::of(&PortCounters::new()).is_pegged());
        let pegs = |set: fn(&mut PortCounters)| {
            let mut c = PortCounters::new();
            set(&mut c);
            ErrorCounts::of(&c).is_pegged()
        };
        // 16, 8, 4 and 32 bits wide (spec 16.1.3.5).
        assert!(pegs(|c| {
            c.set_symbol_error(0xFFFF);
        }));
        assert!(!pegs(|c| {
            c.set_symbol_error(0xFFFE);
        }));
        assert!(pegs(|c| {
            c.set_link_downed(0xFF);
        }));
        assert!(pegs(|c| {
            c.set_local_link_integrity(0xF);
        }));
        assert!(pegs(|c| {
            c.set_vl15_dropped(0xFFFF);
        }));
        assert!(pegs(|c| {
            c.set_qp1_dropped(0xFFFF);
        }));
        assert!(pegs(|c| {
            c.set_xmit_wait(0xFFFF_FFFF);
        }));
        // Data and relay errors are not compared.
        let mut c = PortCounters::new();
        c.set_xmit_data(7).set_rcv_switch_relay_errors(0xFFFF);
        assert_eq!(ErrorCounts::of(&c), ErrorCounts::default());
    }

    #[test]
    fn a_port_cannot_have_more_than_all_ports() {
        let mut sum = PortCounters::new();
        sum.set_rcv_errors(5).set_vl15_dropped(1);
        let mut port = PortCounters::new();
        port.set_rcv_errors(5);
        let exceeds =
            |p: &PortCounters, s: &PortCounters| ErrorCounts::of(p).exceeds(&ErrorCounts::of(s));
        assert!(!exceeds(&port, &sum));
        port.set_qp1_dropped(1);
        assert!(exceeds(&port, &sum));
    }
}
