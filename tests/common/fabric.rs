//! Fabrics for foreign simulators, as net files.

use std::fmt::Write;

/// A two-level fat tree: every leaf switch has hosts below and a link to every spine above.
#[derive(Clone, Copy, Debug)]
pub struct FatTree {
    pub leaves: usize,
    pub hosts_per_leaf: usize,
    pub spines: usize,
}

impl FatTree {
    /// 16 hosts, 4 leaves, 2 spines: enough for everything that is not about size.
    pub const SMALL: FatTree = FatTree {
        leaves: 4,
        hosts_per_leaf: 4,
        spines: 2,
    };
    /// 648 hosts below 36 leaves and 18 spines of 36 ports: 702 nodes, 2,592 connected ports.
    pub const LARGE: FatTree = FatTree {
        leaves: 36,
        hosts_per_leaf: 18,
        spines: 18,
    };
    /// 1,600 hosts below 80 leaves and 20 spines: 1,700 nodes, 6,400 connected ports.
    pub const HUGE: FatTree = FatTree {
        leaves: 80,
        hosts_per_leaf: 20,
        spines: 20,
    };

    /// The node id of a host.
    pub fn host(number: usize) -> String {
        format!("node{number:05} mlx5_0")
    }

    /// The net file: every link is named from both of its ends, the first host comes first.
    pub fn net(self) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            let _ = writeln!(out, "{text}");
        };
        for host in 0..self.leaves * self.hosts_per_leaf {
            let (leaf, below) = (host / self.hosts_per_leaf, host % self.hosts_per_leaf);
            line(format!("Hca 1 \"{}\"", FatTree::host(host)));
            line(format!("[1] \"leaf{leaf:03}\"[{}]", below + 1));
            line(String::new());
        }
        for leaf in 0..self.leaves {
            let ports = self.hosts_per_leaf + self.spines;
            line(format!("Switch {ports} \"leaf{leaf:03}\""));
            for below in 0..self.hosts_per_leaf {
                let host = FatTree::host(leaf * self.hosts_per_leaf + below);
                line(format!("[{}] \"{host}\"[1]", below + 1));
            }
            for spine in 0..self.spines {
                let port = self.hosts_per_leaf + spine + 1;
                line(format!("[{port}] \"spine{spine:03}\"[{}]", leaf + 1));
            }
            line(String::new());
        }
        for spine in 0..self.spines {
            line(format!("Switch {} \"spine{spine:03}\"", self.leaves));
            for leaf in 0..self.leaves {
                let port = self.hosts_per_leaf + spine + 1;
                line(format!("[{}] \"leaf{leaf:03}\"[{port}]", leaf + 1));
            }
            line(String::new());
        }
        out
    }
}
