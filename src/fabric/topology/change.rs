//! What a reply may change.

use super::Doubt;
use crate::fabric::{Lid, NodeId, PortKey};

/// One thing that a reply changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node was seen for the first time.
    NodeAppeared(NodeId),
    /// A node that was missing answers again.
    NodeReturned(NodeId),
    /// A node cannot be reached any more.
    NodeMissing(NodeId),
    /// A node was forgotten after a long absence.
    NodeForgotten(NodeId),
    /// A node's description changed.
    Described(NodeId),
    /// Another node answers where this one was expected.
    Replaced {
        /// Who was expected.
        expected: NodeId,
        /// Who answered.
        found: NodeId,
    },
    /// A port's state changed; `from` is `None` when it was read for the first time.
    PortState {
        /// The port.
        port: PortKey,
        /// Code before.
        from: Option<u8>,
        /// Code now.
        to: u8,
    },
    /// Width or speed of a port that stayed up changed.
    LinkRate {
        /// The port.
        port: PortKey,
    },
    /// A port's LID changed, from one that was set.
    Lid {
        /// The port.
        port: PortKey,
        /// Before.
        from: Lid,
        /// Now.
        to: Lid,
    },
    /// A link was found.
    LinkFound(PortKey, PortKey),
    /// A link is gone.
    LinkLost(PortKey, PortKey),
    /// What is sent to this port's LID reaches another: its LID is another one by now.
    Elsewhere(PortKey),
    /// Somebody answers with a GUID that seems to be another's: this tells whether it is so.
    Doubt(Doubt),
    /// Two nodes share a GUID.
    Duplicate {
        /// The one that was known.
        first: NodeId,
        /// The one that was found.
        second: NodeId,
    },
    /// A node is protected by an M_Key and not asked any more; or it may be asked again.
    Guarded(NodeId, bool),
    /// More nodes or ports are there than a subnet can have, and not taken in. Told once a
    /// discovery.
    Full,
}

/// What a reply changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In the order in which they follow from one another.
    pub list: Vec<Change>,
    /// The node that answered, where the exchange tells.
    pub who: Option<NodeId>,
}
