//! Which counters a port has, how they are called, and what they count.

/// Declares the counters, each once: its name here, perfquery's, and its unit.
macro_rules! counters {
    ($($name:ident, $text:literal, $unit:literal;)*) => {
        /// A counter of a port, in the order in which perfquery prints them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // the names are perfquery's, see `Counter::name`
        pub enum Counter {
            $($name,)*
        }

        /// How many counters there are.
        pub const COUNTERS: usize = [$($text),*].len();

        impl Counter {
            /// All of them.
            pub const ALL: [Counter; COUNTERS] = [$(Counter::$name),*];

            /// perfquery's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Counter::$name => $text,)*
                }
            }

            /// `words` (4 octets, whatever the link's width), `packets`, `ticks`, or empty for
            /// events.
            pub const fn unit(self) -> &'static str {
                match self {
                    $(Counter::$name => $unit,)*
                }
            }
        }
    };
}

counters! {
    SymbolError, "SymbolErrorCounter", "";
    LinkErrorRecovery, "LinkErrorRecoveryCounter", "";
    LinkDowned, "LinkDownedCounter", "";
    RcvErrors, "PortRcvErrors", "";
    RcvRemotePhysicalErrors, "PortRcvRemotePhysicalErrors", "";
    RcvSwitchRelayErrors, "PortRcvSwitchRelayErrors", "";
    XmitDiscards, "PortXmitDiscards", "";
    XmitConstraintErrors, "PortXmitConstraintErrors", "";
    RcvConstraintErrors, "PortRcvConstraintErrors", "";
    LocalLinkIntegrity, "LocalLinkIntegrityErrors", "";
    ExcessiveBufferOverrun, "ExcessiveBufferOverrunErrors", "";
    Qp1Dropped, "QP1Dropped", "";
    Vl15Dropped, "VL15Dropped", "";
    XmitData, "PortXmitData", "words";
    RcvData, "PortRcvData", "words";
    XmitPkts, "PortXmitPkts", "packets";
    RcvPkts, "PortRcvPkts", "packets";
    XmitWait, "PortXmitWait", "ticks";
    UnicastXmitPkts, "PortUnicastXmitPkts", "packets";
    UnicastRcvPkts, "PortUnicastRcvPkts", "packets";
    MulticastXmitPkts, "PortMulticastXmitPkts", "packets";
    MulticastRcvPkts, "PortMulticastRcvPkts", "packets";
}

impl Counter {
    /// The counter of this (perfquery's) name.
    pub fn from_name(name: &str) -> Option<Counter> {
        Counter::ALL.into_iter().find(|c| c.name() == name)
    }

    /// It counts something that should not happen.
    pub const fn is_error(self) -> bool {
        (self as u8) < Counter::XmitData as u8
    }

    /// It is part of a port's error sum. PortRcvSwitchRelayErrors is not: a switch counts a
    /// multicast packet there that would have to leave by the port it came in by, which a healthy
    /// fabric does all day; the classic tools suppress it likewise.
    pub const fn is_summed(self) -> bool {
        self.is_error() && !matches!(self, Counter::RcvSwitchRelayErrors)
    }

    /// The set of this one alone.
    pub const fn bit(self) -> Set {
        1 << self as u8
    }
}

/// A set of counters: bit n is [`Counter::ALL`]'s n.
pub type Set = u32;
