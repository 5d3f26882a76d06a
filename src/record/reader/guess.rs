//! What a recording without its event frames, or another program's capture, does not say:
//! the opening, the seconds, and whom a MAD was meant for.

use std::collections::{HashMap, VecDeque};

use crate::event::{Event, Opened, Settings, Severity, What};
use crate::fabric::{DrPath, NodeId, Request, Target, Topology};
use crate::mad::rmpp::{Outcome, Reassembler};
use crate::mad::{Attribute, Mad, MgmtClass, NodeInfo};
use crate::port::{Source, Stamp};

const SECOND: u64 = 1_000_000_000;
/// A pause of more seconds than this is jumped over with one tick.
const MAX_TICKS: u64 = 3600;
/// Paths and requests that are remembered; beyond that the memory begins anew.
const MAX_KNOWN: usize = 1 << 17;

/// Stands in for a node that neither path nor LID tells.
const NOBODY: NodeId = NodeId::new(0);

#[derive(Debug)]
pub struct Guesser {
    source: Option<Source>,
    anchor: Option<u64>,
    /// Whole seconds that were ticked.
    ticked: u64,
    opened: bool,
    ticks: bool,
    topology: Topology,
    paths: HashMap<DrPath, NodeId>,
    pending: HashMap<(u32, u8), Request>,
    segments: Segments,
}

/// [`Reassembler`] has no `Debug`.
struct Segments(Reassembler);

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segments({:?})", self.0.pending())
    }
}

impl Guesser {
    pub fn new(source: Option<Source>) -> Guesser {
        Guesser {
            source,
            anchor: None,
            ticked: 0,
            opened: false,
            ticks: true,
            topology: Topology::new(),
            paths: HashMap::new(),
            pending: HashMap::new(),
            segments: Segments(Reassembler::default()),
        }
    }

    /// Time since the first packet.
    pub fn time(&mut self, nanos: u64) -> Stamp {
        let anchor = *self.anchor.get_or_insert(nanos);
        Stamp(nanos.saturating_sub(anchor))
    }

    /// The timeout that a sent MAD is shown with.
    pub fn timeout_ms(&self) -> u32 {
        Settings::default().timeout_ms
    }

    /// Makes up what must come before an event at `at`: the opening, and the seconds unless
    /// the recording's own are there.
    pub fn advance(&mut self, at: Stamp, mad: bool, next: &mut u64, out: &mut VecDeque<Event>) {
        let mut emit = |at, what| {
            out.push_back(Event {
                seq: *next,
                at,
                what,
            });
            *next = next.wrapping_add(1);
        };
        if !self.opened {
            self.opened = true;
            let source = self.source.take().unwrap_or_else(|| Source::Umad {
                device: "unknown device (capture)".to_owned(),
                shim: false,
            });
            emit(
                at,
                What::Opened(Box::new(Opened {
                    version: "unknown".to_owned(),
                    source,
                    wall: self.anchor.unwrap_or(0) as i64,
                    host: String::new(),
                    settings: Settings::default(),
                })),
            );
            let text = "no events of a recorder in this file: targets are guessed by path and LID";
            emit(
                at,
                What::Note {
                    severity: Severity::Warning,
                    node: None,
                    text: text.into(),
                },
            );
        }
        // The recording's own seconds are there.
        self.ticks &= mad;
        let second = at.0 / SECOND;
        if self.ticks && second > self.ticked {
            let first = self.ticked.max(second.saturating_sub(MAX_TICKS)) + 1;
            for tick in first..=second {
                emit(Stamp(tick * SECOND), What::Tick);
            }
        }
        self.ticked = self.ticked.max(second);
    }

    /// Puts the segments of a message together.
    pub fn reassemble(&mut self, lid: u16, mad: &Mad) -> Result<Option<Mad>, String> {
        match self.segments.0.push(lid.into(), &mad.view()) {
            Ok(Outcome::Whole(mad)) => Ok(Some(mad)),
            Ok(Outcome::More) => Ok(None),
            // Acknowledgements and the like are the transport's business.
            Ok(Outcome::Control(_)) => Ok(None),
            Err(why) => Err(why.to_string()),
        }
    }

    /// Whom a MAD was meant for, as far as its path or LID tells.
    pub fn target(&self, mad: &Mad, lid: u16) -> Target {
        let asks_port = (mad.attr_mod() & 0xFF) as u8;
        match mad.class() {
            MgmtClass::SubnDirected => {
                let path = mad.initial_path();
                if mad.attr_id() == NodeInfo::ID {
                    return self.beyond(path);
                }
                let node = DrPath::new(path).and_then(|p| self.paths.get(&p));
                of_smp(node.copied(), mad.attr_id(), asks_port)
            }
            MgmtClass::SubnLid => {
                let node = self.topology.by_lid(lid).map(|key| key.node);
                of_smp(node, mad.attr_id(), asks_port)
            }
            MgmtClass::Perf => {
                let node = self.topology.by_lid(lid).map_or(NOBODY, |key| key.node);
                // PortSelect is byte 1 of every attribute but ClassPortInfo.
                let port = match mad.attr_id() {
                    0x01 => 0,
                    _ => mad.data().get(1).copied().unwrap_or(0),
                };
                Target::port(node.port(port), 0)
            }
            _ => Target::node(self.topology.by_lid(lid).map_or(NOBODY, |key| key.node), 0),
        }
    }

    /// Discovery's question: who stands at the end of `path`?
    fn beyond(&self, path: &[u8]) -> Target {
        let Some((hop, before)) = path.split_last() else {
            return Target::local(0);
        };
        let parent = DrPath::new(before).and_then(|p| self.paths.get(&p));
        match parent {
            Some(parent) => Target::beyond(parent.port(*hop), 0),
            None => {
                let known = DrPath::new(path).and_then(|p| self.paths.get(&p));
                Target::node(known.copied().unwrap_or(NOBODY), 0)
            }
        }
    }

    /// Remembers a request, for its reply.
    pub fn sent(&mut self, _at: Stamp, mad: &Mad, lid: u16, target: Target) {
        if mad.is_response() {
            return;
        }
        if self.pending.len() >= MAX_KNOWN {
            self.pending.clear();
        }
        let request = Request::of(mad, lid, target);
        self.pending
            .insert((mad.tid_low(), mad.class().code()), request);
    }

    /// Learns from a reply.
    pub fn received(&mut self, _at: Stamp, mad: &Mad) {
        let key = (mad.tid_low(), mad.class().code());
        let Some(request) = self.pending.remove(&key) else {
            return;
        };
        let changes = self.topology.learn(&request, mad);
        if request.attribute == NodeInfo::ID
            && let (Some(path), Some(node)) = (request.path, changes.who)
        {
            if self.paths.len() >= MAX_KNOWN {
                self.paths.clear();
            }
            self.paths.insert(path, node);
        }
    }
}

/// The target of an SMP: the modifier names a port where the attribute is a port's.
fn of_smp(node: Option<NodeId>, attribute: u16, modifier: u8) -> Target {
    let node = node.unwrap_or(NOBODY);
    // PortInfo, PortInfoExtended, Mellanox ExtendedPortInfo.
    let of_port = matches!(attribute, 0x15 | 0x33 | 0xFF90);
    Target::port(node.port(if of_port { modifier } else { 0 }), 0)
}
