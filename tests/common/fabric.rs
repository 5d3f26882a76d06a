//! Fabrics for foreign simulators, as net files.

use std::fmt::Write;

/// Two switches and five hosts whose links run at different widths and speeds. `w`, `s` and `e`
/// are masks of the widths, speeds and extended speeds that a port has enabled.
pub const UNEVEN: &str = r#"width=3
speed=7
extspeed=3
Switch 8 "sw1"
[1] "h1"[1] #w=1 s=7
[2] "h2"[1] #w=2 s=1 e=0
[3] "sw2"[3]
[4] "h4"[1] # w=3 e=2
[5] "h5"[1]

Switch 4 "sw2"
[1] "h3"[1]
[3] "sw1"[3]

Hca 1 "h3"
[1] "sw2"[1]

Hca 1 "h1"
[1] "sw1"[1] #w=1 s=7

Hca 1 "h2"
[1] "sw1"[2] #w=2 s=1 e=0

Hca 1 "h4"
[1] "sw1"[4] # w=3 e=2

extspeed=1
Hca 1 "h5"
[1] "sw1"[5]
"#;

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
