//! Whom a MAD is meant for.
//!
//! Most replies do not say who they are: a path or a LID names another node after recabling.
//! So each sent MAD is kept with its [`Target`], and a reply is attributed through its request.

use serde::{Deserialize, Serialize};

use super::{DrPath, NodeId, PortKey};
use crate::mad::{Mad, MgmtClass};

/// The node and port that a request was meant for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The node; `None` while discovery asks who stands behind `via`.
    pub node: Option<NodeId>,
    /// The port that is asked about; 0 if the question is about the node.
    pub port: u8,
    /// Discovery's question "who is there?": the known port whose other end is asked.
    /// `None` with no node either means the local node.
    pub via: Option<PortKey>,
    /// The topology's generation when the request was made.
    pub generation: u32,
}

impl Target {
    /// A question about a node.
    pub const fn node(node: NodeId, generation: u32) -> Target {
        Target {
            node: Some(node),
            port: 0,
            via: None,
            generation,
        }
    }

    /// A question about a port of a node.
    pub const fn port(key: PortKey, generation: u32) -> Target {
        Target {
            node: Some(key.node),
            port: key.port,
            via: None,
            generation,
        }
    }

    /// The question who stands at the other end of `via`.
    pub const fn beyond(via: PortKey, generation: u32) -> Target {
        Target {
            node: None,
            port: 0,
            via: Some(via),
            generation,
        }
    }

    /// The question who the local node is.
    pub const fn local(generation: u32) -> Target {
        Target {
            node: None,
            port: 0,
            via: None,
            generation,
        }
    }

    /// The port asked about, if the node is known.
    pub fn key(&self) -> Option<PortKey> {
        self.node.map(|n| n.port(self.port))
    }
}

/// What was asked, of whom, and by which way: what a reply needs to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whom it was meant for.
    pub target: Target,
    /// Management class.
    pub class: u8,
    /// Method.
    pub method: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// The directed route taken; `None` for a LID-routed MAD.
    pub path: Option<DrPath>,
    /// The LID it went to; 0xFFFF for a directed route.
    pub lid: u16,
}

impl Request {
    /// The request that `mad`, sent to `lid`, makes.
    pub fn of(mad: &Mad, lid: u16, target: Target) -> Request {
        let view = mad.view();
        Request {
            target,
            class: view.class().code(),
            method: view.method().code(),
            attribute: view.attr_id(),
            modifier: view.attr_mod(),
            path: (view.class() == MgmtClass::SubnDirected)
                .then(|| DrPath::new(view.initial_path()))
                .flatten(),
            lid,
        }
    }

    /// True if `reply` can be the answer to this request: same class and attribute, and a
    /// response. (The transaction id was what found the request.)
    pub fn is_answered_by(&self, reply: &Mad) -> bool {
        let view = reply.view();
        view.is_response() && view.class().code() == self.class && view.attr_id() == self.attribute
    }
}
