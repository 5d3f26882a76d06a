//! A fabric as text, in the form that `ibnetdiscover` prints and ibsim reads.

use std::fmt::Write;

use crate::fabric::{LinkWidth, NodeKind};
use crate::sim::fabric::{Fabric, NodeSpec};

/// Prints a fabric as a topology file, which [`super::parse`] reads back and ibsim takes.
///
/// Ports without a cable are not in such a file, nor is what a link could do beyond what it
/// does; control characters in names become question marks.
pub fn print(fabric: &Fabric) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_fabric(&mut out, fabric);
    out
}

fn write_fabric(out: &mut String, fabric: &Fabric) -> std::fmt::Result {
    if let Some((node, port)) = fabric.origin
        && let (Some(n), Some(p)) = (fabric.nodes.get(node), fabric.port((node, port)))
    {
        writeln!(
            out,
            "#\n# Topology file: {}\n#\n# Initiated from node {:016x} port {:016x}",
            clean(&fabric.name),
            n.guid,
            p.guid
        )?;
    }
    for (index, node) in fabric.nodes.iter().enumerate() {
        write_node(out, fabric, index, node)?;
    }
    Ok(())
}

fn write_node(
    out: &mut String,
    fabric: &Fabric,
    index: usize,
    node: &NodeSpec,
) -> std::fmt::Result {
    let switch = node.kind == NodeKind::Switch;
    if node.m_key != 0 {
        write!(
            out,
            "\n# m_key {:#x} protect {} lease {}",
            node.m_key, node.protect, node.lease
        )?;
    }
    writeln!(out, "\nvendid={:#x}\ndevid={:#x}", node.vendor, node.device)?;
    writeln!(out, "sysimgguid={:#x}", node.system_guid)?;
    let (word, key) = match node.kind {
        NodeKind::Switch => ("Switch", "switchguid"),
        NodeKind::Router => ("Rt", "rtguid"),
        _ => ("Ca", "caguid"),
    };
    write!(out, "{key}={:#x}", node.guid)?;
    let port0 = node.ports.first();
    if let (true, Some(port)) = (switch, port0) {
        write!(out, "({:x})", port.guid)?;
    }
    write!(
        out,
        "\n{word}\t{} \"{}\"\t\t# \"{}\"",
        node.num_ports(),
        id(node),
        clean(&node.name())
    )?;
    if let (true, Some(port)) = (switch, port0) {
        let kind = if node.enhanced_port0 {
            "enhanced"
        } else {
            "base"
        };
        write!(out, " {kind} port 0 lid {} lmc {}", port.lid, port.lmc)?;
    }
    out.push('\n');
    for number in 1..=node.num_ports() {
        let Some(port) = fabric.port((index, number)) else {
            continue;
        };
        let Some(other) = port.peer else { continue };
        let (Some(peer), Some(peer_port)) = (fabric.nodes.get(other.0), fabric.port(other)) else {
            continue;
        };
        write!(out, "[{number}]")?;
        if !switch {
            write!(out, "({:x}) ", port.guid)?;
        }
        write!(out, "\t\"{}\"[{}]", id(peer), other.1)?;
        if peer.kind != NodeKind::Switch {
            write!(out, "({:x}) ", peer_port.guid)?;
        }
        out.push_str("\t\t# ");
        if !switch {
            write!(out, "lid {} lmc {} ", port.lid, port.lmc)?;
        }
        let lid = match peer.kind {
            NodeKind::Switch => peer.ports.first().map_or(0, |p| p.lid),
            _ => peer_port.lid,
        };
        write!(out, "\"{}\" lid {lid} ", clean(&peer.name()))?;
        let width = match port.width {
            LinkWidth::Unknown(_) => "4x".to_owned(),
            known => known.to_string(),
        };
        writeln!(out, "{width}{}", port.speed)?;
    }
    Ok(())
}

fn id(node: &NodeSpec) -> String {
    let letter = match node.kind {
        NodeKind::Switch => 'S',
        NodeKind::Router => 'R',
        _ => 'H',
    };
    format!("{letter}-{:016x}", node.guid)
}

fn clean(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
