//! What a node is called: the name map's name, else its cleaned description, else its GUID.
//!
//! Two nodes of one name are told apart by the end of their GUIDs, so that a row, a filter and a
//! log line each mean one node.

use std::collections::{BTreeMap, BTreeSet};

use crate::fabric::{Guid, NodeId};

/// Nodes that share a base name.
#[derive(Clone, Debug, Default)]
struct Group {
    members: BTreeSet<NodeId>,
    /// Hexadecimal digits of the GUID that tell them apart.
    digits: u32,
    tails: BTreeSet<(u64, u8)>,
}

fn tail(id: NodeId, digits: u32) -> (u64, u8) {
    let mask = u64::MAX >> (64 - 4 * digits.clamp(1, 16));
    (id.guid.0 & mask, id.twin)
}

/// All names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    map: BTreeMap<Guid, String>,
    groups: BTreeMap<String, Group>,
}

/// Names to be written anew: whose, and what.
pub type Renamed = Vec<(NodeId, String)>;

impl Names {
    /// Uses another name map; names already given must be set again.
    pub fn set_map(&mut self, map: &BTreeMap<Guid, String>) {
        self.map = map
            .iter()
            .map(|(guid, name)| (*guid, crate::fabric::names::clean_str(name)))
            .collect();
    }

    /// The name without what tells twins apart.
    pub fn base(&self, id: NodeId, description: Option<&[u8]>) -> String {
        if let Some(name) = self.map.get(&id.guid) {
            return name.clone();
        }
        let text = description
            .map(crate::fabric::names::clean)
            .unwrap_or_default();
        if text.trim().is_empty() {
            id.to_string()
        } else {
            text
        }
    }

    /// Gives a node a base name (taking `old` from it) and says which shown names follow.
    pub fn assign(&mut self, id: NodeId, old: Option<&str>, base: &str) -> Renamed {
        let mut renamed = Vec::new();
        if let Some(old) = old {
            if old == base {
                return renamed;
            }
            renamed = self.remove(id, old);
        }
        let group = self.groups.entry(base.to_owned()).or_default();
        group.members.insert(id);
        if group.members.len() == 1 {
            renamed.push((id, base.to_owned()));
            return renamed;
        }
        let first_twin = group.members.len() == 2;
        if first_twin {
            group.digits = 4;
            group.tails.clear();
        }
        let clash = !first_twin && !group.tails.insert(tail(id, group.digits));
        if first_twin || clash {
            // Everyone is named anew, with as many digits as it takes.
            loop {
                group.tails = group
                    .members
                    .iter()
                    .map(|m| tail(*m, group.digits))
                    .collect();
                if group.tails.len() == group.members.len() || group.digits >= 16 {
                    break;
                }
                group.digits += 4;
            }
            renamed.extend(
                group
                    .members
                    .iter()
                    .map(|m| (*m, shown(base, *m, group.digits))),
            );
        } else {
            renamed.push((id, shown(base, id, group.digits)));
        }
        renamed
    }

    /// A node is gone: its twin may get its plain name back.
    pub fn remove(&mut self, id: NodeId, base: &str) -> Renamed {
        let mut renamed = Vec::new();
        if let Some(group) = self.groups.get_mut(base) {
            group.members.remove(&id);
            let digits = group.digits;
            group.tails.remove(&tail(id, digits));
            match (group.members.len(), group.members.first()) {
                (1, Some(last)) => renamed.push((*last, base.to_owned())),
                (0, _) => {
                    self.groups.remove(base);
                }
                _ => {}
            }
        }
        renamed
    }
}

fn shown(base: &str, id: NodeId, digits: u32) -> String {
    let (end, twin) = tail(id, digits);
    let digits = digits as usize;
    if twin == 0 {
        format!("{base} (..{end:0digits$x})")
    } else {
        format!("{base} (..{end:0digits$x}#{twin})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(shown: &mut BTreeMap<u64, String>, renamed: Renamed) {
        for (id, name) in renamed {
            shown.insert(id.guid.0, name);
        }
    }

    #[test]
    fn twin_names_are_told_apart_by_the_end_of_the_guid() {
        let mut names = Names::default();
        let mut shown = BTreeMap::new();
        for guid in [0xa_0001, 0xa_0002] {
            apply(&mut shown, names.assign(NodeId::new(guid), None, "leaf"));
        }
        assert_eq!(shown[&0xa_0001], "leaf (..0001)");
        assert_eq!(shown[&0xa_0002], "leaf (..0002)");
        // Four digits are no longer enough: everyone gets eight.
        apply(
            &mut shown,
            names.assign(NodeId::new(0xb_0001), None, "leaf"),
        );
        assert_eq!(shown[&0xa_0002], "leaf (..000a0002)");
        assert_eq!(shown[&0xb_0001], "leaf (..000b0001)");
        // The last one of the name is plain again.
        apply(&mut shown, names.remove(NodeId::new(0xa_0001), "leaf"));
        apply(
            &mut shown,
            names.assign(NodeId::new(0xa_0002), Some("leaf"), "spine"),
        );
        assert_eq!(shown[&0xa_0002], "spine");
        assert_eq!(shown[&0xb_0001], "leaf");
    }

    #[test]
    fn the_map_beats_the_description_and_the_guid_stands_in_for_both() {
        let mut names = Names::default();
        names.set_map(&BTreeMap::from([(Guid(1), "top\u{1b}".to_owned())]));
        assert_eq!(names.base(NodeId::new(1), Some(b"desc")), "top\\x1b");
        assert_eq!(names.base(NodeId::new(2), Some(b"desc\0\0")), "desc");
        assert_eq!(
            names.base(NodeId::new(3), Some(&[0; 64])),
            "0x0000000000000003"
        );
        assert_eq!(names.base(NodeId::new(3), None), "0x0000000000000003");
    }
}
