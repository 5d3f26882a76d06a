//! Identity: GUIDs, LIDs, nodes, ports and directed routes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A 64-bit globally unique identifier (EUI-64). Shown as `0x%016x`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that names no GUID, node or port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: {text:?}")]
pub struct BadId {
    what: &'static str,
    text: String,
}

impl FromStr for Guid {
    type Err = BadId;
    fn from_str(s: &str) -> Result<Guid, BadId> {
        let bad = || BadId {
            what: "GUID",
            text: s.chars().take(40).collect(),
        };
        let hex = s
            .strip_prefix("0x")
            .or_else(|| s.strip_prefix("0X"))
            .ok_or_else(bad)?;
        u64::from_str_radix(hex, 16).map(Guid).map_err(|_| bad())
    }
}

/// A local identifier: 1–0xBFFF unicast, 0xC000–0xFFFE multicast.
pub type Lid = u16;

/// A node's identity: its GUID, and which of several nodes that (wrongly) share it.
///
/// `twin` is 0 but for duplicates, which occur with badly flashed adapters.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// Node GUID.
    pub guid: Guid,
    /// 0, or the number of this one among nodes that share the GUID.
    pub twin: u8,
}

impl NodeId {
    /// The (first) node with this GUID.
    pub const fn new(guid: u64) -> NodeId {
        NodeId {
            guid: Guid(guid),
            twin: 0,
        }
    }

    /// A port of this node.
    pub const fn port(self, port: u8) -> PortKey {
        PortKey { node: self, port }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.guid)?;
        if self.twin != 0 {
            write!(f, "#{}", self.twin)?;
        }
        Ok(())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NodeId {
    type Err = BadId;
    fn from_str(s: &str) -> Result<NodeId, BadId> {
        let (guid, twin) = s.split_once('#').unwrap_or((s, "0"));
        Ok(NodeId {
            guid: guid.parse()?,
            twin: twin.parse().map_err(|_| BadId {
                what: "node",
                text: s.chars().take(40).collect(),
            })?,
        })
    }
}

/// A port's identity: node and port number. Shown as `GUID[port]`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// The node.
    pub node: NodeId,
    /// Port number; 0 is a switch's management port.
    pub port: u8,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.node, self.port)
    }
}

impl fmt::Debug for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PortKey {
    type Err = BadId;
    fn from_str(s: &str) -> Result<PortKey, BadId> {
        let bad = || BadId {
            what: "port",
            text: s.chars().take(40).collect(),
        };
        let (node, port) = s
            .strip_suffix(']')
            .and_then(|s| s.split_once('['))
            .ok_or_else(bad)?;
        Ok(PortKey {
            node: node.parse()?,
            port: port.parse().map_err(|_| bad())?,
        })
    }
}

macro_rules! as_text {
    ($($t:ty),*) => {$(
        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<$t, D::Error> {
                let s = std::borrow::Cow::<'de, str>::deserialize(d)?;
                s.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
as_text!(Guid, NodeId, PortKey, DrPath);

/// What a node is (NodeInfo.NodeType).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum NodeKind {
    /// Not known yet, or a code that the specification does not name.
    #[default]
    Unknown,
    /// Channel adapter.
    Ca,
    /// Switch.
    Switch,
    /// Router.
    Router,
    /// Aggregation node of SHARP: by NodeType a channel adapter, inside a switch. Only shown;
    /// see [`Topology::shown_kind`](super::Topology::shown_kind).
    Aggregation,
}

impl NodeKind {
    /// From NodeInfo.NodeType.
    pub const fn from_code(code: u8) -> NodeKind {
        match code {
            1 => NodeKind::Ca,
            2 => NodeKind::Switch,
            3 => NodeKind::Router,
            _ => NodeKind::Unknown,
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NodeKind::Unknown => "??",
            NodeKind::Ca => "CA",
            NodeKind::Switch => "SW",
            NodeKind::Router => "RT",
            NodeKind::Aggregation => "AN",
        })
    }
}

/// A directed route from the local node: the port to leave by at each hop.
///
/// Empty means the local node itself. At most [`DrPath::MAX`] hops. Shown as `0,1,20`
/// with the leading 0 that the classic tools print.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DrPath {
    len: u8,
    hops: [u8; DrPath::MAX],
}

impl DrPath {
    /// The most hops that a directed-route SMP can carry.
    pub const MAX: usize = 63;

    /// The local node.
    pub const LOCAL: DrPath = DrPath {
        len: 0,
        hops: [0; DrPath::MAX],
    };

    /// A route of the given hops; `None` if there are more than [`DrPath::MAX`].
    pub fn new(hops: &[u8]) -> Option<DrPath> {
        let mut path = DrPath::LOCAL;
        path.hops.get_mut(..hops.len())?.copy_from_slice(hops);
        path.len = u8::try_from(hops.len()).ok()?;
        Some(path)
    }

    /// One hop further; `None` if the route is full.
    pub fn then(&self, port: u8) -> Option<DrPath> {
        let mut path = *self;
        *path.hops.get_mut(usize::from(self.len))? = port;
        path.len += 1;
        Some(path)
    }

    /// The ports to leave by, in order.
    pub fn hops(&self) -> &[u8] {
        self.hops.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Number of hops.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// True for the local node.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Display for DrPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0")?;
        for hop in self.hops() {
            write!(f, ",{hop}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DrPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DrPath {
    type Err = BadId;
    fn from_str(s: &str) -> Result<DrPath, BadId> {
        let bad = || BadId {
            what: "directed route",
            text: s.chars().take(40).collect(),
        };
        let mut hops = s.split(',').map(|h| h.trim().parse::<u8>());
        if !matches!(hops.next(), Some(Ok(0))) {
            return Err(bad());
        }
        let hops: Vec<u8> = hops.collect::<Result<_, _>>().map_err(|_| bad())?;
        DrPath::new(&hops).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_the_classic_tools_do_and_read_back() {
        // ibnetdiscover prints port GUIDs as 0x%016x.
        let key = NodeId::new(0x0002_c903_0000_00f1).port(7);
        assert_eq!(key.to_string(), "0x0002c903000000f1[7]");
        assert_eq!(key.to_string().parse::<PortKey>(), Ok(key));
        let twin = NodeId {
            guid: Guid(1),
            twin: 2,
        };
        assert_eq!(twin.to_string(), "0x0000000000000001#2");
        assert_eq!("0x0000000000000001#2".parse::<NodeId>(), Ok(twin));
        assert!("2c9".parse::<Guid>().is_err());
    }

    #[test]
    fn a_directed_route_holds_63_hops_and_no_more() {
        let mut path = DrPath::LOCAL;
        for hop in 1..=63 {
            path = path.then(hop).unwrap();
        }
        assert_eq!(path.len(), 63);
        assert!(path.then(1).is_none());
        assert_eq!("0,1,3".parse::<DrPath>().unwrap().hops(), &[1, 3]);
        assert_eq!(path.to_string().parse::<DrPath>(), Ok(path));
        assert!("1,3".parse::<DrPath>().is_err());
    }
}
