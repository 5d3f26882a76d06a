//! Whom only the SA knows: found by name, GUID or LID as an end of a path.

use super::Model;
use super::sa::SaOutcome;
use crate::fabric::routes::UNICAST_END;
use crate::fabric::sa::SaTable;
use crate::fabric::{Guid, Lid, NodeId, PortKey, names};
use crate::mad::{Attribute, LinkRecord, NodeRecord};

/// A port that only the SA knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaPort {
    /// Its node.
    pub node: NodeId,
    /// Its GUID.
    pub guid: Guid,
    /// Its LID.
    pub lid: Lid,
    /// Its node's name; may be empty.
    pub name: String,
}

impl Model {
    /// Ports that the SA told of, and that discovery did not find.
    pub(super) fn only_in_sa(&self) -> impl Iterator<Item = SaPort> + '_ {
        let table = self
            .sa_records(SaTable::Nodes)
            .filter_map(|bytes| NodeRecord::from_bytes(bytes).ok())
            .map(|r| (r.node_info(), r.description(), r.lid()));
        let single = self
            .topology
            .all_told()
            .filter_map(|(_, told)| told.node.map(|(info, name)| (info, name, told.lid)));
        table
            .chain(single)
            .map(|(info, name, lid)| SaPort {
                node: NodeId::new(info.node_guid()),
                guid: Guid(info.port_guid()),
                lid,
                name: names::clean(name.bytes()),
            })
            .filter(|port| port.lid != 0 && self.topology.by_lid(port.lid).is_none())
    }

    /// The SA's table of nodes was read as a whole.
    fn is_whole(&self) -> bool {
        let mut tables = self.sa_tables(self.last()).into_iter();
        tables.any(|t| t.table == SaTable::Nodes && t.outcome == Some(SaOutcome::Whole))
    }

    /// LID and port at the other end of a link, as the SA has it.
    pub(super) fn other_end_in_sa(&self, via: PortKey) -> Option<(Lid, u8)> {
        if let Some(told) = self.topology.told(via).filter(|told| told.lid != 0) {
            return Some((told.lid, told.port));
        }
        let lid = self.topology.node(via.node)?.lid(via.port)?;
        self.sa_records(SaTable::Links)
            .filter_map(|bytes| LinkRecord::from_bytes(bytes).ok())
            .find(|r| r.from_lid() == lid && r.from_port() == via.port)
            .map(|r| (r.to_lid(), r.to_port()))
    }

    /// The LID of a port that only the SA knows, by its node's name or the first word of it, a
    /// GUID, or itself.
    ///
    /// # Errors
    /// A sentence for the user: the SA knows nobody of that name either, or several.
    pub fn find_in_sa(&self, text: &str) -> Result<Lid, String> {
        let text = text.trim();
        let guid = text
            .strip_prefix("0x")
            .and_then(|_| text.parse::<Guid>().ok());
        let lid = text.parse::<Lid>().ok();
        let mut found: Vec<SaPort> = self
            .only_in_sa()
            .filter(|port| match (guid, lid) {
                (Some(guid), _) => port.guid == guid || port.node.guid == guid,
                (_, Some(lid)) => port.lid == lid,
                _ => port.name == text || port.name.split(' ').next() == Some(text),
            })
            .collect();
        found.sort_by_key(|port| port.lid);
        found.dedup_by_key(|port| port.lid);
        match found.as_slice() {
            [one] => Ok(one.lid),
            // Where the SA's table did not come whole, who has a LID cannot be known.
            [] if lid.is_some_and(|l| (1..UNICAST_END).contains(&l)) && !self.is_whole() => {
                Ok(lid.unwrap_or_default())
            }
            [] => Err(format!(
                "no node is called {text:?}, neither as discovery found them nor in the SA's \
                 records: give a name, 0xGUID or LID as `fabtop report nodes` or `fabtop report \
                 sa nodes` lists them"
            )),
            several => {
                let all: Vec<String> = several.iter().map(|p| p.lid.to_string()).collect();
                Err(format!(
                    "the SA knows {} ports of {text:?}: name one by its LID: {}",
                    several.len(),
                    all.join(", ")
                ))
            }
        }
    }
}
