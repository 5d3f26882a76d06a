//! What `ibnetdiscover` prints, read for comparison: nodes, and both ends of every link.

use std::collections::BTreeMap;

/// A node: its kind's letter (`S`, `H`, `R`), description and number of ports.
pub type Node = (char, String, u32);

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub peer: u64,
    pub peer_port: u32,
    /// LID of the port here; of a switch, of its port 0.
    pub lid: u32,
    pub peer_lid: u32,
    /// `4xSDR`
    pub rate: String,
}

/// A subnet as ibnetdiscover prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnet {
    pub nodes: BTreeMap<u64, Node>,
    pub ends: BTreeMap<(u64, u32), End>,
}

impl Subnet {
    /// Reads the text: blocks that begin with a line such as
    /// `Switch 6 "S-0000000000200003" # "leaf003" base port 0 lid 6 lmc 0`, then a line a port:
    /// `[1] "H-0000000000100018"[1](100019) # "node00012 mlx5_0" lid 19 4xSDR`, or at an adapter
    /// `[1](100019) "S-0000000000200003"[1] # lid 19 lmc 0 "leaf003" lid 6 4xSDR`.
    pub fn parse(text: &str) -> Subnet {
        let mut subnet = Subnet::default();
        let mut here = (0, 0);
        for line in text.lines() {
            let quoted: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            if let Some(port) = line.strip_prefix('[') {
                let port = leading(port);
                let (peer, rest) = line.split_once(quoted[0]).unwrap();
                let own_lid = word_after(rest, "# lid ").unwrap_or(here.1);
                assert!(!peer.is_empty());
                let lids = rest.rsplit_once(" lid ").unwrap().1;
                let end = End {
                    peer: guid(quoted[0]).1,
                    peer_port: leading(rest.split_once('[').unwrap().1),
                    lid: own_lid,
                    peer_lid: leading(lids),
                    rate: lids.split_whitespace().nth(1).unwrap_or("").to_owned(),
                };
                subnet.ends.insert((here.0, port), end);
            } else if quoted.len() == 2 && !line.starts_with('#') {
                let (kind, id) = guid(quoted[0]);
                let ports = line.split_whitespace().nth(1).unwrap().parse().unwrap();
                let node = (kind, quoted[1].to_owned(), ports);
                subnet.nodes.insert(id, node);
                here = (id, word_after(line, " lid ").unwrap_or(0));
            }
        }
        subnet
    }
}

/// `S-0000000000200003`
fn guid(text: &str) -> (char, u64) {
    let (kind, hex) = text.split_once('-').unwrap();
    (
        kind.chars().next().unwrap(),
        u64::from_str_radix(hex, 16).unwrap(),
    )
}

fn leading(text: &str) -> u32 {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().unwrap()
}

fn word_after(text: &str, mark: &str) -> Option<u32> {
    Some(leading(text.split_once(mark)?.1))
}
