//! Which counters a port has, and how they are called.

/// A counter of a port, in the order in which perfquery prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names are perfquery's, see `Counter::name`
pub enum Counter {
    SymbolError,
    LinkErrorRecovery,
    LinkDowned,
    RcvErrors,
    RcvRemotePhysicalErrors,
    RcvSwitchRelayErrors,
    XmitDiscards,
    XmitConstraintErrors,
    RcvConstraintErrors,
    LocalLinkIntegrity,
    ExcessiveBufferOverrun,
    Qp1Dropped,
    Vl15Dropped,
    XmitData,
    RcvData,
    XmitPkts,
    RcvPkts,
    XmitWait,
    UnicastXmitPkts,
    UnicastRcvPkts,
    MulticastXmitPkts,
    MulticastRcvPkts,
}

/// How many counters there are.
pub const COUNTERS: usize = 22;

impl Counter {
    /// All of them.
    pub const ALL: [Counter; COUNTERS] = {
        use Counter::*;
        [
            SymbolError,
            LinkErrorRecovery,
            LinkDowned,
            RcvErrors,
            RcvRemotePhysicalErrors,
            RcvSwitchRelayErrors,
            XmitDiscards,
            XmitConstraintErrors,
            RcvConstraintErrors,
            LocalLinkIntegrity,
            ExcessiveBufferOverrun,
            Qp1Dropped,
            Vl15Dropped,
            XmitData,
            RcvData,
            XmitPkts,
            RcvPkts,
            XmitWait,
            UnicastXmitPkts,
            UnicastRcvPkts,
            MulticastXmitPkts,
            MulticastRcvPkts,
        ]
    };

    /// perfquery's name.
    pub const fn name(self) -> &'static str {
        match self {
            Counter::SymbolError => "SymbolErrorCounter",
            Counter::LinkErrorRecovery => "LinkErrorRecoveryCounter",
            Counter::LinkDowned => "LinkDownedCounter",
            Counter::RcvErrors => "PortRcvErrors",
            Counter::RcvRemotePhysicalErrors => "PortRcvRemotePhysicalErrors",
            Counter::RcvSwitchRelayErrors => "PortRcvSwitchRelayErrors",
            Counter::XmitDiscards => "PortXmitDiscards",
            Counter::XmitConstraintErrors => "PortXmitConstraintErrors",
            Counter::RcvConstraintErrors => "PortRcvConstraintErrors",
            Counter::LocalLinkIntegrity => "LocalLinkIntegrityErrors",
            Counter::ExcessiveBufferOverrun => "ExcessiveBufferOverrunErrors",
            Counter::Qp1Dropped => "QP1Dropped",
            Counter::Vl15Dropped => "VL15Dropped",
            Counter::XmitData => "PortXmitData",
            Counter::RcvData => "PortRcvData",
            Counter::XmitPkts => "PortXmitPkts",
            Counter::RcvPkts => "PortRcvPkts",
            Counter::XmitWait => "PortXmitWait",
            Counter::UnicastXmitPkts => "PortUnicastXmitPkts",
            Counter::UnicastRcvPkts => "PortUnicastRcvPkts",
            Counter::MulticastXmitPkts => "PortMulticastXmitPkts",
            Counter::MulticastRcvPkts => "PortMulticastRcvPkts",
        }
    }

    /// The counter of this (perfquery's) name.
    pub fn from_name(name: &str) -> Option<Counter> {
        Counter::ALL.into_iter().find(|c| c.name() == name)
    }

    /// `words` (4 octets, whatever the link's width), `packets`, `ticks`, or empty for events.
    pub const fn unit(self) -> &'static str {
        match self {
            Counter::XmitData | Counter::RcvData => "words",
            Counter::XmitPkts
            | Counter::RcvPkts
            | Counter::UnicastXmitPkts
            | Counter::UnicastRcvPkts
            | Counter::MulticastXmitPkts
            | Counter::MulticastRcvPkts => "packets",
            Counter::XmitWait => "ticks",
            _ => "",
        }
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
