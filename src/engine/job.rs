//! What the engine asks, of whom, and for which sweep: small values that wait in queues.
//!
//! A job holds no MAD: route, LID and transaction id are chosen when it is sent, from what the
//! topology knows by then.

use super::guard::Step;
use crate::event::SweepKind;
use crate::fabric::sa::SaTable;
use crate::fabric::{NodeId, PortKey};

/// The two kinds of MADs that have a budget each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Subnet management packets: QP0, VL15.
    Smp = 0,
    /// General MADs: QP1.
    Gmp = 1,
}

impl Lane {
    pub(super) const ALL: [Lane; 2] = [Lane::Smp, Lane::Gmp];
}

/// The question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    NodeInfo,
    NodeDescription,
    SwitchInfo,
    PortInfo(u8),
    /// Mellanox ExtendedPortInfo.
    Fdr10(u8),
    /// PortInfoExtended.
    Fec(u8),
    SmInfo,
    /// PerfMgt ClassPortInfo.
    PerfCaps,
    Counters(u8),
    CountersExt(u8),
    /// PortCounters summed over all ports of a node.
    AllPorts,
    /// PortExtendedSpeedsCounters, for what FEC repairs.
    Speeds(u8),
    /// An optional attribute of performance management, for the port that is looked at.
    Detail(u16, u8),
    /// PortSamplesControl, for the tick of XmitWait.
    Tick(u8),
    /// Set(InformInfo): subscribe, or withdraw.
    Inform(bool),
    /// PathRecord to a node, for its SL.
    Path(NodeId),
    /// What the SA tells of somebody who does not.
    Told(Step),
    /// PathRecord to the GID that a node's performance agent redirects to.
    PathGid(NodeId),
    /// A whole table of the SA.
    Table(SaTable),
    /// SMInfo of a port of a node, by its LID.
    SmInfoAt(u8),
    /// A block of a linear forwarding table.
    Lft(u16),
    /// The same of a switch that does not tell it, as the SA has it.
    ToldLft(NodeId, u16),
    /// SwitchInfo of such a switch.
    ToldSwitch(NodeId),
}

impl Ask {
    pub(super) const fn lane(self) -> Lane {
        match self {
            Ask::NodeInfo
            | Ask::NodeDescription
            | Ask::SwitchInfo
            | Ask::PortInfo(_)
            | Ask::Fdr10(_)
            | Ask::Fec(_)
            | Ask::SmInfo
            | Ask::SmInfoAt(_)
            | Ask::Lft(_) => Lane::Smp,
            _ => Lane::Gmp,
        }
    }

    /// A node that does not answer this may still be well: some agents stay silent instead of
    /// saying "unsupported".
    pub(super) const fn optional(self) -> bool {
        matches!(
            self,
            Ask::Fdr10(_)
                | Ask::Fec(_)
                | Ask::Tick(_)
                | Ask::AllPorts
                | Ask::Speeds(_)
                | Ask::Detail(..)
                | Ask::SmInfoAt(_)
        )
    }
}

/// Whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The local node, before its GUID is known.
    Local,
    /// A known node.
    Node(NodeId),
    /// Whoever is at the other end of this port.
    Beyond(PortKey),
    /// The subnet manager, by its LID.
    Sm,
}

/// How an SMP travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// By directed route.
    Route,
    /// By LID where that works, else by directed route.
    Lid,
}

/// A sweep in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunId {
    pub(super) kind: SweepKind,
    pub(super) number: u32,
}

/// One question that waits, is on its way, or waits for its next attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) ask: Ask,
    pub(super) who: Who,
    pub(super) by: By,
    /// The sweep that it counts for.
    pub(super) run: Option<RunId>,
    /// The node whose share of the budget it uses, once it was admitted.
    pub(super) seat: Option<NodeId>,
    /// Names it once it was sent more than once; else 0.
    pub(super) id: u64,
    /// The attempt to come, from 1.
    pub(super) attempt: u8,
    /// Attempts that it has in all; 0 = as set.
    pub(super) attempts: u8,
    /// Times that the answer was "busy".
    pub(super) busy: u8,
    /// Goes before others.
    pub(super) urgent: bool,
    /// Asks a node that backs off whether it is back.
    pub(super) probe: bool,
    /// Follows a redirection.
    pub(super) redirected: bool,
    /// Belongs to the first reading of a node, which leads to further questions.
    pub(super) walk: bool,
}

impl Job {
    pub(super) const fn new(ask: Ask, who: Who) -> Job {
        Job {
            ask,
            who,
            by: By::Route,
            run: None,
            seat: None,
            id: 0,
            attempt: 1,
            attempts: 0,
            busy: 0,
            urgent: false,
            probe: false,
            redirected: false,
            walk: false,
        }
    }

    pub(super) const fn by(mut self, by: By) -> Job {
        self.by = by;
        self
    }

    pub(super) const fn run(mut self, run: Option<RunId>) -> Job {
        self.run = run;
        self
    }

    pub(super) const fn walking(mut self) -> Job {
        self.walk = true;
        self
    }

    pub(super) const fn urgent(mut self) -> Job {
        self.urgent = true;
        self
    }

    pub(super) const fn probe(mut self) -> Job {
        self.probe = true;
        self.attempts = 1;
        self
    }

    pub(super) const fn attempts(mut self, attempts: u8) -> Job {
        self.attempts = attempts;
        self
    }

    pub(super) const fn lane(&self) -> Lane {
        self.ask.lane()
    }

    /// The node that it is put to, if that is known.
    pub(super) const fn node(&self) -> Option<NodeId> {
        match self.who {
            Who::Node(id) => Some(id),
            _ => None,
        }
    }
}

/// How a job came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// Answered, whatever the status.
    Answered,
    /// Every attempt failed.
    Failed,
    /// Not needed any more.
    Dropped,
}
