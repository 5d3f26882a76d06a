use proptest::prelude::*;

use super::*;
use crate::sim::generate::{default_fabric, fat_tree};

/// Shaped like what ibnetdiscover prints of a fabric of mixed age: names with quotes, number
/// signs, brackets and double spaces, an unknown speed, a router, a line cut short, a link to a
/// node that is not in the file.
const REAL: &str = r##"#
# Topology file: generated on Thu Jan  1 00:00:00 2026
#
# Initiated from node 0002c90300001000 port 0002c90300001001

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x2c9030000a003
switchguid=0x2c9030000a000(2c9030000a000)
Switch	40 "S-0002c9030000a000"		# "rack "A" #1 [top]  sw" enhanced port 0 lid 7 lmc 0
[40]	"S-0002c9030000b000"[1]		# "old - sw" lid 9 4xEDR
[3]	"R-0002c90300003000"[1](2c90300003001) 		# "rt "1"" lid 12 4x ???
[2]	"H-0002c90300002000"[2](2c90300002002) 		# "n2 mlx5_1" lid 5 2xHDR
[1]	"H-0002c90300001000"[1](2c90300001001) 		# "n1 # "x" lid 99" lid 4 4xHDR

vendid=0x2c9
devid=0xcb20
switchguid=0x2c9030000b000(2c9030000b000)
Switch	36 "S-0002c9030000b000"		# "old - sw" base port 0 lid 9 lmc 0
[1]	"S-0002c9030000a000"[40]		# "rack "A" #1 [top]  sw" lid 7 4xEDR
[9]	"H-00000000deadbeef"[1](deadbef0) 		# "gone" lid 0 4xSDR
[10]	"H-0002c9

vendid=0x2c9
devid=0x101b
sysimgguid=0x2c90300001000
caguid=0x2c90300001000
Ca	1 "H-0002c90300001000"		# "n1 # "x" lid 99"
[1](2c90300001001) 	"S-0002c9030000a000"[1]		# lid 4 lmc 0 "rack "A" #1 [top]  sw" lid 7 4xHDR

caguid=0x2c90300002000
Ca	2 "H-0002c90300002000"		# "n2 mlx5_1"
[2](2c90300002002) 	"S-0002c9030000a000"[2]		# lid 5 lmc 1 "rack "A" #1 [top]  sw" lid 7 2xHDR

rtguid=0x2c90300003000
Rt	1 "R-0002c90300003000"		# "rt "1""
[1](2c90300003001) 	"S-0002c9030000a000"[3]		# lid 12 lmc 0 "rack "A" #1 [top]  sw" lid 7 4x ???
"##;

#[test]
fn what_ibnetdiscover_prints_of_a_real_fabric_loads() {
    let (fabric, problems) = parse(REAL);
    assert_eq!(fabric.nodes.len(), 5);
    let a = &fabric.nodes[0];
    assert_eq!(a.name(), "rack \"A\" #1 [top]  sw");
    assert_eq!(
        (a.guid, a.system_guid),
        (0x0002_c903_0000_a000, 0x0002_c903_0000_a003)
    );
    assert_eq!((a.num_ports(), a.ports[0].lid), (40, 7));
    assert!(a.enhanced_port0 && !fabric.nodes[1].enhanced_port0);
    let n1 = &fabric.nodes[2];
    assert_eq!(n1.name(), "n1 # \"x\" lid 99");
    assert_eq!(
        (n1.ports[1].lid, n1.ports[1].guid),
        (4, 0x0002_c903_0000_1001)
    );
    assert_eq!(n1.ports[1].speed, LinkSpeed::Hdr);
    let n2 = &fabric.nodes[3].ports[2];
    assert_eq!(
        (n2.width, n2.lmc, n2.peer),
        (LinkWidth::X2, 1, Some((0, 2)))
    );
    assert_eq!(fabric.nodes[4].kind, NodeKind::Router);
    assert_eq!(a.ports[3].speed, LinkSpeed::Unknown);
    // An EDR switch under an HDR one: the link runs at EDR, which is the best both can do.
    assert_eq!(a.ports[40].speed, LinkSpeed::Edr);
    assert_eq!(fabric.nodes[1].ports[1].best, LinkSpeed::Edr);
    assert_eq!(fabric.origin, Some((2, 1)));
    let lines: Vec<usize> = problems.iter().map(|p| p.line).collect();
    assert_eq!(lines, [21, 22], "{problems:?}");
}

#[test]
fn an_ibsim_net_file_loads_and_each_bad_line_is_named() {
    let text = "speed=4\nSwitch 8 \"sw 1\"\n[1] \"h1\"[1] w=1 s=2\n[2] \"h1\"[2]\n[9] \"h1\"[1]\n\
                [3] \"h2\"[1]\n\nHca 2 \"h1\"\n[1] \"sw 1\"[1]\n[2] \"sw 1\"[2]\n\
                do Unlink \"h1\"\ninclude other.net\nHca 1 \"h2\"\nwhat is this\n\
                Hca 300 \"x\"\nHca 1 \"h1\"\n[1] \"sw 1\"[4]\n";
    let (fabric, problems) = parse(text);
    assert_eq!(fabric.nodes.len(), 3);
    let h1 = &fabric.nodes[1];
    assert_eq!(h1.name(), "h1");
    assert_eq!(
        (h1.ports[1].width, h1.ports[1].speed),
        (LinkWidth::X1, LinkSpeed::Ddr)
    );
    assert_eq!(h1.ports[2].speed, LinkSpeed::Qdr);
    // One-ended, reported and still plugged in.
    assert_eq!(fabric.nodes[2].ports[1].peer, Some((0, 3)));
    let lines: Vec<usize> = problems.iter().map(|p| p.line).collect();
    assert_eq!(lines, [5, 6, 11, 12, 14, 15, 16], "{problems:?}");
}

#[test]
fn a_printed_fabric_reads_back_with_the_same_links() {
    for mut fabric in [default_fabric(), fat_tree(4, 4, 2, 2)] {
        fabric.assign_lids(0);
        let (again, problems) = parse(&print(&fabric));
        assert_eq!(problems, []);
        assert_eq!(again.nodes.len(), fabric.nodes.len());
        assert_eq!(again.origin, fabric.origin);
        for (a, b) in fabric.nodes.iter().zip(&again.nodes) {
            assert_eq!((a.guid, &a.description), (b.guid, &b.description));
            assert_eq!(
                (a.vendor, a.device, a.generation),
                (b.vendor, b.device, b.generation)
            );
            for (p, q) in a.ports.iter().zip(&b.ports) {
                assert_eq!((p.guid, p.peer, p.lid), (q.guid, q.peer, q.lid));
                if p.peer.is_some() {
                    assert_eq!(
                        (p.speed, p.width, p.best),
                        (q.speed, q.width, q.best),
                        "{}",
                        a.name()
                    );
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "\\PC*") {
        let (fabric, _) = parse(&text);
        let _ = print(&fabric);
    }

    /// Lines made of the pieces that real ones have, in any order.
    #[test]
    fn any_mixture_of_real_pieces_is_read_without_panic(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("Switch 4 "), Just("Hca\t2 "), Just("\"a\""), Just("\"b"), Just("["),
                Just("]"), Just("[1]"), Just("(2c9)"), Just("("), Just(" # "), Just("\n"),
                Just(" lid 65536"), Just(" lmc 9 "), Just("4x"), Just("???"), Just("12xNDR"),
                Just("w=255 "), Just("devid=0x"), Just("switchguid=0xffffffffffffffff(1"),
                Just("é"), Just("Initiated from node 1 port 2"), Just("1"), Just("=")
            ],
            0..60,
        )
    ) {
        let (mut fabric, _) = parse(&pieces.concat());
        fabric.assign_lids(7);
        // Cables have two ends, each other's.
        for (i, node) in fabric.nodes.iter().enumerate() {
            for (n, port) in node.ports.iter().enumerate() {
                if let Some(peer) = port.peer {
                    prop_assert_eq!(fabric.port(peer).unwrap().peer, Some((i, n as u8)));
                }
            }
        }
    }
}

/// The sample files are the generators' own, so that they can be made anew:
/// `FABTOP_BLESS=1 cargo test sample_files`.
#[test]
fn the_sample_files_are_what_the_generators_print() {
    let mut built_in = default_fabric();
    built_in.assign_lids(0);
    for (name, fabric) in [
        ("built-in.net", built_in),
        ("fat-tree-16.net", fat_tree(4, 4, 2, 1)),
        ("fat-tree-648.net", fat_tree(36, 18, 18, 1)),
    ] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("assets/fabrics")
            .join(name);
        if std::env::var_os("FABTOP_BLESS").is_some() {
            std::fs::write(&path, print(&fabric)).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, print(&fabric), "{name}");
        assert_eq!(parse(&text).1, []);
    }
}

#[test]
fn a_comment_protects_the_next_node_and_is_printed_again() {
    let text = "# m_key 0x1234 protect 2 lease 30
Hca 1 \"H-0000000000000a01\"
[1] \"S-0000000000000b01\"[1]

# m_key is no setting here
Switch 4 \"S-0000000000000b01\"
[1] \"H-0000000000000a01\"[1]
";
    let (fabric, problems) = parse(text);
    assert_eq!(problems, []);
    let of = |i: usize| {
        let node = &fabric.nodes[i];
        (node.m_key, node.protect, node.lease)
    };
    assert_eq!((of(0), of(1)), ((0x1234, 2, 30), (0, 0, 0)));
    let (again, _) = parse(&print(&fabric));
    assert_eq!(again.nodes[0].m_key, 0x1234);
    assert_eq!((again.nodes[0].protect, again.nodes[0].lease), (2, 30));
}
