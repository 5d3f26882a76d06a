//! Topology files: ibsim's net files and what `ibnetdiscover` prints of real fabrics.
//!
//! Neither format has a grammar, so reading is forgiving: a line that is not understood, a
//! link that only one end knows, a node that is there twice are reported with their line and
//! the rest is used. A comment `# m_key 0x1234 protect 2 lease 30` before a node protects it,
//! and `# sim …` comments say more ([`scenario`]). `include` and `do` of ibsim are reported too:
//! this room reads no files and runs no commands.

mod line;
mod print;
mod scenario;

use std::collections::HashMap;

use super::device::Generation;
use super::fabric::{Fabric, MAX_PORTS, NodeSpec};
use crate::fabric::{LinkSpeed, LinkWidth, NodeKind, widest};
use crate::mad::LinkWidths;
use line::{Header, Line, PortLine, Sticky};
pub use print::print;
pub use scenario::scenario;

/// A line that could not be used, or not wholly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProblem {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl std::fmt::Display for LineProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// Width and speed of links that a file says nothing about.
const DEFAULT_SPEED: LinkSpeed = LinkSpeed::Hdr;

/// One end of a link as its line tells it.
struct End {
    line: usize,
    port: PortLine,
}

/// What is gathered before links can be made.
#[derive(Default)]
struct Reader {
    problems: Vec<LineProblem>,
    nodes: Vec<(Header, Sticky)>,
    ends: Vec<HashMap<u8, End>>,
    ids: HashMap<String, usize>,
    origin: Option<(u64, u64)>,
}

/// Reads a topology file.
pub fn parse(text: &str) -> (Fabric, Vec<LineProblem>) {
    let mut reader = Reader::default();
    reader.read(text);
    let fabric = reader.build();
    let mut problems = reader.problems;
    problems.sort_by_key(|p| p.line);
    (fabric, problems)
}

impl Reader {
    fn problem(&mut self, line: usize, why: impl Into<String>) {
        self.problems.push(LineProblem {
            line,
            why: why.into(),
        });
    }

    fn read(&mut self, text: &str) {
        let mut sticky = Sticky::default();
        // The node that port lines belong to; none after a header that was refused.
        let mut current: Option<usize> = None;
        let mut skipping = false;
        for (number, raw) in (1..).zip(text.lines()) {
            match line::read(raw, &mut sticky) {
                Ok(Line::Nothing) => {}
                Ok(Line::Origin(node, port)) => self.origin = Some((node, port)),
                Ok(Line::Node(header)) => {
                    skipping = false;
                    if self.ids.contains_key(&header.id) {
                        self.problem(number, format!("node {:?} is there twice", header.id));
                        current = None;
                        skipping = true;
                        continue;
                    }
                    let index = self.nodes.len();
                    self.ids.insert(header.id.clone(), index);
                    self.nodes.push((header, sticky.clone()));
                    self.ends.push(HashMap::new());
                    sticky.node_done();
                    current = Some(index);
                }
                Ok(Line::Port(port)) => match current {
                    Some(node) => self.port(number, node, port),
                    None if skipping => {}
                    None => self.problem(number, "a port line before any node"),
                },
                Err(why) => self.problem(number, why),
            }
        }
    }

    fn port(&mut self, line: usize, node: usize, port: PortLine) {
        let Some(ports) = self.nodes.get(node).map(|n| n.0.ports) else {
            return;
        };
        if port.number == 0 || port.number > ports {
            let why = format!("port {} of a node with {ports} ports", port.number);
            return self.problem(line, why);
        }
        let Some(ends) = self.ends.get_mut(node) else {
            return;
        };
        if ends.contains_key(&port.number) {
            let why = format!("port {} is there twice", port.number);
            return self.problem(line, why);
        }
        ends.insert(port.number, End { line, port });
    }

    fn build(&mut self) -> Fabric {
        let mut fabric = Fabric::new("file");
        let nodes = std::mem::take(&mut self.nodes);
        let ends = std::mem::take(&mut self.ends);
        let mut made_up = MadeUp::default();
        for ((header, sticky), ends) in nodes.iter().zip(&ends) {
            fabric.nodes.push(node(header, sticky, ends, &mut made_up));
        }
        for (index, node_ends) in ends.iter().enumerate() {
            let mut numbers: Vec<u8> = node_ends.keys().copied().collect();
            numbers.sort_unstable();
            for number in numbers {
                if let Some(end) = node_ends.get(&number) {
                    self.link(&mut fabric, &ends, (index, number), end);
                }
            }
        }
        fabric.origin = self.origin.and_then(|(guid, port_guid)| {
            let index = fabric.nodes.iter().position(|n| n.guid == guid)?;
            let node = fabric.nodes.get(index)?;
            let port = node.ports.iter().rposition(|p| p.guid == port_guid)?;
            let switch = node.kind == NodeKind::Switch;
            Some((index, if switch { 0 } else { u8::try_from(port).ok()? }))
        });
        fabric
    }

    /// Plugs in what one end's line says, if the other end does not contradict.
    fn link(
        &mut self,
        fabric: &mut Fabric,
        ends: &[HashMap<u8, End>],
        here: (usize, u8),
        end: &End,
    ) {
        let line = end.line;
        let Some(&peer) = self.ids.get(&end.port.peer) else {
            let why = format!("the other end {:?} is not in the file", end.port.peer);
            return self.problem(line, why);
        };
        let there = (peer, end.port.peer_port);
        if fabric.port(there).is_none() || there.1 == 0 || there == here {
            let why = format!("{:?} has no port {} to plug in", end.port.peer, there.1);
            return self.problem(line, why);
        }
        let back = ends.get(peer).and_then(|e| e.get(&there.1));
        let agreed = back.is_some_and(|b| {
            self.ids.get(&b.port.peer) == Some(&here.0) && b.port.peer_port == here.1
        });
        if fabric.port(here).is_some_and(|p| p.peer == Some(there)) {
            return; // the other end's line has plugged it in
        }
        match back {
            Some(back) if !agreed => {
                let why = format!("line {} says something else of the other end", back.line);
                return self.problem(line, why);
            }
            None => self.problem(line, "only this end knows of the link"),
            Some(_) => {}
        }
        if fabric.connect(here, there).is_err() {
            return self.problem(line, "the port at the other end is taken");
        }
        let both = || {
            [Some(&end.port), back.map(|b| &b.port)]
                .into_iter()
                .flatten()
        };
        let negotiated = fabric.port(here).map_or(DEFAULT_SPEED, |p| p.speed);
        let speed = both().filter_map(|p| p.speed).min().unwrap_or(negotiated);
        // Of two widths the narrower one is what both ends can have.
        let width = both()
            .filter_map(|p| p.width)
            .min_by_key(|w| w.lanes())
            .unwrap_or(LinkWidth::X4);
        fabric.set_link(here, width, speed);
        for end in [here, there] {
            if let Some(port) = fabric.port_mut(end) {
                port.widths = supported(port.widths, width);
            }
        }
        // The other end's line tells of itself; where there is none, this one has to do.
        let other_is_switch = fabric
            .nodes
            .get(there.0)
            .is_none_or(|n| n.kind == NodeKind::Switch);
        if let (None, false, Some(spec)) = (back, other_is_switch, fabric.port_mut(there)) {
            spec.guid = end.port.peer_guid.unwrap_or(spec.guid);
            spec.lid = end.port.peer_lid.unwrap_or(0);
        }
        for (told, own) in [(Some(&end.port), here), (back.map(|b| &b.port), there)] {
            if let (Some(told), Some(spec)) = (told, fabric.port_mut(own)) {
                spec.guid = told.guid.unwrap_or(spec.guid);
                spec.lid = told.lid.unwrap_or(0);
                spec.lmc = told.lmc;
            }
        }
    }
}

/// The widths a port supports, given that it runs at `width`: a port found at 2x or 8x is a
/// split or wide one, a port found at 1x is a 4x one below its best.
fn supported(mask: u8, width: LinkWidth) -> u8 {
    match width {
        LinkWidth::X2 => 0x11,
        LinkWidth::X8 => mask | 0x04,
        LinkWidth::X12 => mask | 0x08,
        _ => mask,
    }
}

/// GUIDs for nodes whose file gives none.
struct MadeUp {
    switch: u64,
    ca: u64,
}

impl Default for MadeUp {
    fn default() -> MadeUp {
        MadeUp {
            switch: 0x20_0000,
            ca: 0x10_0000,
        }
    }
}

fn node(
    header: &Header,
    sticky: &Sticky,
    ends: &HashMap<u8, End>,
    made_up: &mut MadeUp,
) -> NodeSpec {
    let kind = header.kind;
    let ports = header.ports.min(MAX_PORTS);
    let guid = sticky.guid.or_else(|| header.guid()).unwrap_or_else(|| {
        // The same numbers as ibsim makes up, so that its output can be compared.
        let next = if kind == NodeKind::Switch {
            &mut made_up.switch
        } else {
            &mut made_up.ca
        };
        let guid = *next;
        *next += if kind == NodeKind::Switch {
            1
        } else {
            u64::from(ports) + 1
        };
        guid
    });
    let fastest = ends
        .values()
        .filter_map(|e| e.port.speed)
        .chain(sticky.speed)
        .max();
    let device = sticky.device.unwrap_or(0);
    // A device whose links are faster than others of its kind is of a newer generation.
    let generation = match (Generation::of_device(device), fastest) {
        (Some(known), Some(speed)) => known.max(Generation::for_speed(speed)),
        (Some(known), None) => known,
        (None, speed) => Generation::for_speed(speed.unwrap_or(DEFAULT_SPEED)),
    };
    let mut spec = NodeSpec::new(kind, guid, "", generation, ports);
    spec.description = header
        .description
        .as_ref()
        .unwrap_or(&header.id)
        .as_bytes()
        .to_vec();
    spec.enhanced_port0 = header.enhanced;
    if let Some(key) = sticky.m_key {
        spec.m_key = key.m_key;
        spec.protect = key.protect;
        spec.lease = key.lease;
    }
    if let Some(device) = sticky.device {
        spec.device = device;
    }
    if let Some(vendor) = sticky.vendor {
        spec.vendor = vendor;
    }
    if let Some(system) = sticky.system_guid {
        spec.system_guid = system;
    }
    if let (NodeKind::Switch, Some(port)) = (kind, spec.ports.first_mut()) {
        port.lid = header.lid;
        if let Some(guid) = sticky.port_guid {
            port.guid = guid;
        }
    }
    let switch_guid = sticky.port_guid.filter(|_| kind == NodeKind::Switch);
    for port in &mut spec.ports {
        if let Some(guid) = switch_guid {
            port.guid = guid;
        }
        if let Some(widths) = sticky.widths {
            port.widths = widths;
            port.width = widest(LinkWidths(widths)).unwrap_or(LinkWidth::X4);
        }
        if let Some(speed) = sticky.speed {
            port.best = speed;
            port.speed = speed;
        }
        // What a link runs at, its ports can do.
        port.best = port
            .best
            .max(fastest.unwrap_or(port.best).min(generation.speed()));
    }
    for (number, end) in ends {
        if let (Some(port), Some(speed)) =
            (spec.ports.get_mut(usize::from(*number)), end.port.speed)
        {
            port.best = port.best.max(speed);
        }
    }
    spec
}

#[cfg(test)]
mod tests;
