//! What of the fabric is missing, and why: nodes that cannot be reached, that do not answer or
//! that an M_Key protects, and ports behind which somebody does not say who it is.

use std::borrow::Cow;

use super::Model;
use super::state::{Destination, Failure};
use super::view::{Absence, FailureView, MissingRow};
use crate::fabric::{Node, NodeId, NodeKind, PortKey};
use crate::mad::{Attribute, MgmtClass, names};
use crate::port::Stamp;

impl Failure {
    /// The same for a view.
    pub(super) fn view(&self, now: Stamp) -> FailureView<'_> {
        FailureView {
            kind: self.kind,
            detail: match &self.detail {
                Cow::Borrowed(words) => words,
                Cow::Owned(words) => words,
            },
            attribute: names::attribute(MgmtClass::new(self.class), self.attribute),
            age: now.since(self.at),
        }
    }
}

impl Destination {
    /// Since when it cannot be reached, is not asked or does not answer: whichever began first.
    pub(super) fn since(&self) -> Option<Stamp> {
        match (self.away, self.silent) {
            (Some(away), Some(silent)) => Some(away.min(silent)),
            (away, silent) => away.or(silent),
        }
    }
}

impl Model {
    /// Why a node is missing; `None` if it is there and answers.
    fn absence(&self, node: &Node) -> Option<Absence> {
        let dest = self.data(node.id).map(|data| &data.dest);
        if !node.present {
            Some(Absence::Unreachable)
        } else if node.guarded {
            Some(Absence::Protected)
        } else if dest.is_some_and(Destination::does_not_answer) {
            Some(Absence::Silent)
        } else {
            None
        }
    }

    /// The same by its identity.
    pub(super) fn absence_of(&self, id: NodeId) -> Option<Absence> {
        self.absence(self.topology.node(id)?)
    }

    /// The port behind which a node is or was.
    fn port_before(&self, node: &Node) -> Option<PortKey> {
        let entry = node.port(node.entry)?;
        entry.peer.or(entry.last_peer)
    }

    /// What the SA says of whoever is behind a port.
    fn sa_says(&self, via: PortKey) -> Option<String> {
        let told = self.topology.told(via)?;
        let mut words = match told.node {
            Some((info, description)) => format!(
                "{} ({})",
                crate::fabric::names::clean(description.bytes()),
                NodeId::new(info.node_guid())
            ),
            None => "nothing of its name".to_owned(),
        };
        if told.lid != 0 {
            words.push_str(&format!(", LID {}", told.lid));
        }
        match told.protect {
            Some(0) | None => {}
            Some(level) => words.push_str(&format!(", M_Key protection {level}")),
        }
        Some(words)
    }

    /// Everybody who is missing: nodes in order of GUID, then ports behind which somebody is
    /// unknown, in order of GUID and port.
    pub fn missing(&self, now: Stamp) -> Vec<MissingRow<'_>> {
        let mut rows = Vec::new();
        let mut told_of = std::collections::BTreeSet::new();
        for node in self.topology.nodes() {
            let Some(why) = self.absence(node) else {
                continue;
            };
            let data = self.data(node.id);
            let behind = self.port_before(node);
            told_of.extend(behind);
            let beyond = self.unexplored.get(&behind).map(|(_, dest)| dest);
            let own = data.map(|data| &data.dest);
            let failure = own
                .and_then(|dest| dest.failure.as_ref())
                .or(beyond.and_then(|dest| dest.failure.as_ref()));
            let since = own
                .and_then(Destination::since)
                .or(beyond.and_then(Destination::since));
            rows.push(MissingRow {
                node: Some(node.id),
                who: data.map(|data| Cow::Borrowed(data.name.as_str())),
                behind,
                behind_name: behind.map(|via| self.port_name(via)),
                why,
                failure: failure.map(|f| f.view(now)),
                since: since.map(|at| now.since(at)),
                sa_says: behind.and_then(|via| self.sa_says(via)),
            });
        }
        for (via, (_, dest)) in &self.unexplored {
            let there = match via {
                // A port whose link is gone since has nobody behind it.
                Some(via) => {
                    !told_of.contains(via) && self.topology.port(*via).is_some_and(|p| p.is_up())
                }
                None => true,
            };
            if there && dest.does_not_answer() {
                told_of.extend(*via);
                rows.push(self.unknown_row(*via, Absence::SilentBehind, Some(dest), now));
            }
        }
        for via in self.unasked() {
            if !told_of.contains(&via) {
                rows.push(self.unknown_row(Some(via), Absence::NotAsked, None, now));
            }
        }
        rows
    }

    /// Ports of switches with a link of whose other end nothing is known.
    fn unasked(&self) -> impl Iterator<Item = PortKey> {
        self.topology
            .nodes()
            .filter(|node| node.present && node.kind == NodeKind::Switch)
            .flat_map(|node| {
                node.external_ports()
                    .filter(|number| {
                        node.port(*number)
                            .is_some_and(|p| p.is_up() && p.peer.is_none())
                    })
                    .map(|number| node.id.port(number))
            })
    }

    fn unknown_row<'m>(
        &'m self,
        via: Option<PortKey>,
        why: Absence,
        dest: Option<&'m Destination>,
        now: Stamp,
    ) -> MissingRow<'m> {
        let told = via.and_then(|via| self.topology.told(via));
        let who = match via {
            None => Some(Cow::Borrowed("local node")),
            Some(_) => told.and_then(|told| told.node).map(|(_, description)| {
                Cow::Owned(crate::fabric::names::clean(description.bytes()))
            }),
        };
        MissingRow {
            node: told.and_then(|told| told.id()),
            who,
            behind: via,
            behind_name: via.map(|via| self.port_name(via)),
            why,
            failure: dest.and_then(|d| d.failure.as_ref()).map(|f| f.view(now)),
            since: dest.and_then(Destination::since).map(|at| now.since(at)),
            sa_says: via.and_then(|via| self.sa_says(via)),
        }
    }
}
