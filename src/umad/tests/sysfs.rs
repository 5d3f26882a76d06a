//! Enumeration, tolerance and the choice of a default, on trees of files made here. The rules
//! are those of the umad man pages; the values are what kernels print.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use umad::{Errno, Error, IsSm, LinkLayer, NodeType, PortState, Select, Sysfs};

struct Tree(TempDir);

#[derive(Clone, Copy)]
struct P {
    number: u8,
    state: &'static str,
    phys: &'static str,
    layer: Option<&'static str>,
    cap: u32,
    guid: u64,
}

const ACTIVE: P = P {
    number: 1,
    state: "4: ACTIVE",
    phys: "5: LinkUp",
    layer: Some("InfiniBand"),
    cap: 0x2651_e848,
    guid: 0x0002_c903_00a0_1b2d,
};

const INIT: P = P {
    state: "2: INIT",
    ..ACTIVE
};

const DOWN: P = P {
    state: "1: DOWN",
    phys: "2: Polling",
    ..ACTIVE
};

const DISABLED: P = P {
    state: "1: DOWN",
    phys: "3: Disabled",
    ..ACTIVE
};

const ROCE: P = P {
    layer: Some("Ethernet"),
    ..ACTIVE
};

impl Tree {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.0.path())
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.0.path().join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    fn device(&self, name: &str, node_type: &str, ports: &[P]) {
        let dir = format!("sys/class/infiniband/{name}");
        self.put(&format!("{dir}/node_type"), node_type);
        self.put(&format!("{dir}/node_guid"), "0002:c903:00a0:1b2c\n");
        self.put(&format!("{dir}/sys_image_guid"), "0002:c903:00a0:1b2f\n");
        self.put(&format!("{dir}/fw_ver"), "20.31.1014\n");
        self.put(&format!("{dir}/hw_rev"), "0\n");
        self.put(&format!("{dir}/hca_type"), "MT4123\n");
        for p in ports {
            let dir = format!("{dir}/ports/{}", p.number);
            self.put(&format!("{dir}/lid"), "0x1f\n");
            self.put(&format!("{dir}/lid_mask_count"), "2\n");
            self.put(&format!("{dir}/sm_lid"), "0x1\n");
            self.put(&format!("{dir}/sm_sl"), "3\n");
            self.put(&format!("{dir}/state"), &format!("{}\n", p.state));
            self.put(&format!("{dir}/phys_state"), &format!("{}\n", p.phys));
            self.put(&format!("{dir}/rate"), "100 Gb/sec (4X EDR)\n");
            self.put(&format!("{dir}/cap_mask"), &format!("{:#010x}\n", p.cap));
            if let Some(layer) = p.layer {
                self.put(&format!("{dir}/link_layer"), &format!("{layer}\n"));
            }
            let g = p.guid;
            let gid = format!(
                "fe80:0000:0000:0000:{:04x}:{:04x}:{:04x}:{:04x}\n",
                g >> 48,
                g >> 32 & 0xffff,
                g >> 16 & 0xffff,
                g & 0xffff
            );
            self.put(&format!("{dir}/gids/0"), &gid);
            self.put(
                &format!("{dir}/gids/1"),
                "0000:0000:0000:0000:0000:0000:0000:0000\n",
            );
            self.put(
                &format!("{dir}/gids/2"),
                "fec0:0000:0000:0000:0000:0000:0000:0001\n",
            );
            self.put(&format!("{dir}/pkeys/0"), "0x8001\n");
            self.put(&format!("{dir}/pkeys/1"), "0x7fff\n");
            self.put(&format!("{dir}/pkeys/2"), "0x0000\n");
        }
    }

    fn umad(&self, number: u32, ca: &str, port: u8) {
        self.put("sys/class/infiniband_mad/abi_version", "5\n");
        let dir = format!("sys/class/infiniband_mad/umad{number}");
        self.put(&format!("{dir}/ibdev"), &format!("{ca}\n"));
        self.put(&format!("{dir}/port"), &format!("{port}\n"));
    }
}

#[test]
fn everything_of_a_port() {
    let t = Tree::new();
    t.device("mlx5_0", "1: CA\n", &[ACTIVE]);
    let ca = t.sysfs().ca("mlx5_0").unwrap();
    assert_eq!(ca.faults, []);
    assert_eq!(ca.node_type, Some(NodeType::Ca));
    assert_eq!(ca.fw_ver.as_deref(), Some("20.31.1014"));
    assert_eq!(ca.ca_type.as_deref(), Some("MT4123"));
    assert_eq!(ca.hw_ver.as_deref(), Some("0"));
    assert_eq!(ca.node_guid, Some(0x0002_c903_00a0_1b2c));
    assert_eq!(ca.sys_image_guid, Some(0x0002_c903_00a0_1b2f));
    assert_eq!(ca.port_guids(), [0, 0x0002_c903_00a0_1b2d]);
    let p = ca.port(1).unwrap();
    assert_eq!(p.faults, []);
    assert_eq!((p.lid, p.lmc), (Some(31), Some(2)));
    assert_eq!((p.sm_lid, p.sm_sl), (Some(1), Some(3)));
    assert_eq!(p.state, Some(PortState::ACTIVE));
    assert_eq!(p.phys_state.unwrap().to_string(), "LinkUp");
    assert_eq!(p.rate_mbps, Some(100_000));
    assert_eq!(p.rate_text.as_deref(), Some("100 Gb/sec (4X EDR)"));
    assert_eq!(p.cap_mask, Some(0x2651_e848));
    assert_eq!(p.link_layer, Some(LinkLayer::InfiniBand));
    assert_eq!(p.gid_prefix(), Some(0xfe80_0000_0000_0000));
    assert_eq!(p.port_guid(), Some(0x0002_c903_00a0_1b2d));
    assert_eq!(p.pkeys, [Some(0x8001), Some(0x7fff), Some(0)]);
    let gids = t.sysfs().gids("mlx5_0", 1).unwrap();
    let indices: Vec<u16> = gids.iter().map(|g| g.index).collect();
    assert_eq!(indices, [0, 2]);
}

#[test]
fn default_partition() {
    let t = Tree::new();
    t.device("a", "1: CA\n", &[ACTIVE]);
    let limited = t.sysfs().port("a", 1).unwrap();
    assert_eq!(limited.default_pkey_index(), Some(1));
    t.put("sys/class/infiniband/a/ports/1/pkeys/9", "0xffff\n");
    let full = t.sysfs().port("a", 1).unwrap();
    assert_eq!(full.default_pkey_index(), Some(9));
    assert_eq!(full.pkeys[5], None);
    t.put("sys/class/infiniband/a/ports/1/pkeys/9", "0x8002\n");
    t.put("sys/class/infiniband/a/ports/1/pkeys/1", "0x0000\n");
    assert_eq!(t.sysfs().port("a", 1).unwrap().default_pkey_index(), None);
}

#[test]
fn one_bad_attribute_marks_only_itself() {
    let t = Tree::new();
    t.device("a", "1: CA\n", &[ACTIVE, P { number: 2, ..INIT }]);
    t.device("b", "1: CA\n", &[ACTIVE]);
    let a = "sys/class/infiniband/a";
    t.remove(&format!("{a}/ports/1/rate"));
    t.put(&format!("{a}/ports/1/gids/0"), "nonsense\n");
    t.put(&format!("{a}/ports/1/lid"), "0x12345\n");
    t.put(&format!("{a}/node_guid"), "\n");
    t.put(&format!("{a}/ports/x/lid"), "0x1\n");
    t.remove(&format!("{a}/hca_type"));
    let cas = t.sysfs().cas().unwrap();
    assert_eq!(cas.len(), 2);
    let ca = &cas[0];
    let bad: Vec<_> = ca
        .faults
        .iter()
        .map(|f| (f.path.file_name().unwrap().to_str().unwrap(), f.errno))
        .collect();
    assert_eq!(bad, [("node_guid", Errno::EIO), ("x", Errno::EIO)]);
    assert_eq!(ca.ca_type, None);
    let p = ca.port(1).unwrap();
    assert_eq!((p.lid, p.rate_mbps, p.gid), (None, None, None));
    assert_eq!((p.sm_lid, p.state), (Some(1), Some(PortState::ACTIVE)));
    let bad: Vec<_> = p
        .faults
        .iter()
        .map(|f| (f.path.strip_prefix(t.0.path()).unwrap(), f.errno))
        .collect();
    let under = |name: &str| Path::new(a).join("ports/1").join(name);
    assert_eq!(
        bad,
        [
            (under("rate").as_path(), Errno::ENOENT),
            (under("lid").as_path(), Errno::EIO),
            (under("gids/0").as_path(), Errno::EIO)
        ]
    );
    assert_eq!(ca.port(2).unwrap().faults, []);
    assert_eq!(cas[1].faults, []);
}

#[test]
fn nothing_there() {
    let t = Tree::new();
    assert_eq!(t.sysfs().ca_names().unwrap(), Vec::<String>::new());
    let e = t.sysfs().resolve(&Select::any()).unwrap_err();
    assert!(matches!(e, Error::NoDevice { .. }), "{e}");
    let e = t.sysfs().resolve(&Select::ca("mlx5_0")).unwrap_err();
    assert!(matches!(e, Error::NoDevice { .. }), "{e}");
    assert!(e.to_string().contains("no InfiniBand device"), "{e}");
}

#[test]
fn names() {
    let t = Tree::new();
    t.device("mlx5_1", "1: CA\n", &[ACTIVE]);
    t.device("a_name_longer_than_nineteen", "1: CA\n", &[ACTIVE]);
    t.device(
        "sw",
        "2: switch\n",
        &[P {
            number: 0,
            ..ACTIVE
        }],
    );
    t.device("iw", "4: RNIC\n", &[ROCE]);
    let names = t.sysfs().ca_names().unwrap();
    assert_eq!(names, ["a_name_longer_than_nineteen", "mlx5_1", "sw"]);
    for bad in ["", ".", "..", "../infiniband", "mlx5_1/ports"] {
        assert!(t.sysfs().ca(bad).is_err(), "{bad:?}");
    }
    let e = t.sysfs().ca("mlx4_0").unwrap_err().to_string();
    assert!(e.contains("mlx4_0") && e.contains("mlx5_1"), "{e}");
}

#[test]
fn names_are_no_way_to_hide_a_device() {
    let t = Tree::new();
    t.device("a", "1: CA\n", &[ACTIVE]);
    t.remove("sys/class/infiniband/a/node_type");
    assert_eq!(t.sysfs().ca_names().unwrap(), ["a"]);
}

fn selected(t: &Tree, select: &Select) -> Option<(String, u8)> {
    t.sysfs().select(select).ok()
}

/// Rules of `umad_open_port(3)` for port 0.
#[test]
fn best_port_of_a_device() {
    let pick = |ports: &[P]| {
        let t = Tree::new();
        let numbered: Vec<P> = (1..)
            .zip(ports)
            .map(|(number, p)| P { number, ..*p })
            .collect();
        t.device("a", "1: CA\n", &numbered);
        selected(&t, &Select::ca("a")).map(|(_, port)| port)
    };
    assert_eq!(pick(&[INIT, ACTIVE]), Some(2), "active before up");
    assert_eq!(pick(&[DOWN, INIT]), Some(2), "up before down");
    assert_eq!(pick(&[DISABLED, DOWN]), Some(2), "down before disabled");
    assert_eq!(pick(&[DISABLED]), None);
    assert_eq!(pick(&[ROCE, INIT]), Some(2), "never Ethernet");
    assert_eq!(pick(&[ROCE]), None);
    let no_layer = P {
        layer: None,
        ..ACTIVE
    };
    assert_eq!(
        pick(&[no_layer]),
        Some(1),
        "old kernels know only InfiniBand"
    );
}

#[test]
fn smi_only() {
    let t = Tree::new();
    let gsi = P {
        cap: ACTIVE.cap | 1 << 10,
        ..ACTIVE
    };
    t.device("a", "1: CA\n", &[gsi, P { number: 2, ..INIT }]);
    let any = Select::ca("a");
    assert_eq!(selected(&t, &any), Some(("a".into(), 1)));
    assert_eq!(selected(&t, &any.with_smi()), Some(("a".into(), 2)));
}

#[test]
fn best_device() {
    let t = Tree::new();
    t.device("a", "1: CA\n", &[INIT]);
    t.device("b", "1: CA\n", &[ROCE]);
    t.device(
        "c",
        "1: CA\n",
        &[
            DOWN,
            P {
                number: 2,
                ..ACTIVE
            },
        ],
    );
    assert_eq!(selected(&t, &Select::any()), Some(("c".into(), 2)));
    // Without a name the port is a filter.
    let first = Select {
        port: Some(1),
        ..Select::any()
    };
    let (_, port) = selected(&t, &first).unwrap();
    assert_eq!(port, 1);
    // With a name it is taken unchecked.
    let unchecked = Select::exact("nowhere", 7);
    assert_eq!(selected(&t, &unchecked), Some(("nowhere".into(), 7)));
    // A switch is managed through port 0.
    t.device("d", "2: switch\n", &[P { number: 0, ..INIT }]);
    assert_eq!(selected(&t, &Select::ca("d")), Some(("d".into(), 0)));
}

/// A host whose only ports are Ethernet, or which has one of each: the wrong port was picked, or
/// the message was cryptic.
#[test]
fn field_report_12_the_infiniband_port_is_chosen_and_with_none_one_line_says_so() {
    // Only Ethernet, on one device or on several.
    let t = Tree::new();
    t.device("mlx5_0", "1: CA\n", &[ROCE, P { number: 2, ..ROCE }]);
    t.device("mlx5_1", "1: CA\n", &[ROCE]);
    for select in [Select::any(), Select::ca("mlx5_0")] {
        let e = t.sysfs().resolve(&select).unwrap_err();
        assert!(matches!(e, Error::OnlyEthernet { .. }), "{e}");
        let text = e.to_string();
        assert!(text.contains("only Ethernet"), "{text}");
        assert!(text.contains("mlx5_0/2 (Ethernet)"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
    // One of each, the Ethernet one first, up, and in front in every order: on one device ...
    let t = Tree::new();
    t.device("mlx5_0", "1: CA\n", &[ROCE, P { number: 2, ..INIT }]);
    assert_eq!(selected(&t, &Select::any()), Some(("mlx5_0".into(), 2)));
    // ... and on two. Even a port that is down is a better one than one of another kind.
    let t = Tree::new();
    t.device("mlx5_0", "1: CA\n", &[ROCE]);
    t.device("mlx5_1", "1: CA\n", &[DOWN]);
    assert_eq!(selected(&t, &Select::any()), Some(("mlx5_1".into(), 1)));
}

#[test]
fn umad_devices_of_ports() {
    let t = Tree::new();
    t.device(
        "a",
        "1: CA\n",
        &[
            ACTIVE,
            P {
                number: 2,
                ..ACTIVE
            },
        ],
    );
    let e = t.sysfs().resolve(&Select::any()).unwrap_err();
    assert!(matches!(e, Error::NoUmad { .. }), "{e}");
    assert!(e.to_string().contains("modprobe ib_umad"), "{e}");
    t.umad(0, "a", 1);
    // Beyond the 64 that older libraries probe, and the 192 of today's.
    t.umad(191, "a", 2);
    t.umad(1000, "b", 1);
    let id = t.sysfs().resolve(&Select::exact("a", 2)).unwrap();
    assert_eq!((id.ca.as_str(), id.port, id.umad), ("a", 2, 191));
    let path = IsSm::path(&t.sysfs(), &Select::exact("a", 2)).unwrap();
    assert!(path.ends_with("dev/infiniband/issm191"));
    let far = t.sysfs().umad_device("b", 1).unwrap();
    assert_eq!(far.number, 1000);
    let e = t.sysfs().resolve(&Select::exact("a", 3)).unwrap_err();
    assert!(matches!(e, Error::UnknownPort { .. }), "{e}");
    t.remove("sys/class/infiniband_mad/umad0");
    let e = t.sysfs().resolve(&Select::exact("a", 1)).unwrap_err();
    assert!(matches!(e, Error::NoUmadForPort { .. }), "{e}");
    t.put("sys/class/infiniband_mad/abi_version", "4\n");
    let e = t.sysfs().resolve(&Select::any()).unwrap_err();
    assert!(matches!(e, Error::AbiVersion { .. }), "{e}");
}

#[test]
fn permission_denied_names_owner_mode_and_cures() {
    use std::os::unix::fs::PermissionsExt;
    let t = Tree::new();
    t.device("a", "1: CA\n", &[ACTIVE]);
    t.umad(0, "a", 1);
    let e = umad::Port::open_in(&t.sysfs(), &Select::any()).unwrap_err();
    assert!(matches!(e, Error::Open { .. }), "{e}");
    assert!(e.to_string().contains("ENOENT"), "{e}");
    t.put("dev/infiniband/umad0", "");
    let path = t.0.path().join("dev/infiniband/umad0");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    // Root may open anything, so the sentence is made from the parts.
    let access = umad::Access::of(&path);
    assert_eq!(access.as_ref().unwrap().mode, 0o600);
    let e = Error::Permission {
        path,
        errno: Errno::EACCES,
        access: Some(umad::Access {
            owner: "root".into(),
            group: "root".into(),
            mode: 0o600,
        }),
    };
    let text = e.to_string();
    for part in ["umad0", "EACCES", "root:root", "0600", "sudo", "udev rule"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn refusals_name_the_class() {
    let e = Error::Register {
        device: "mlx5_0/1".into(),
        class: 0x81,
        version: 1,
        methods: umad::MethodMask::NONE,
        errno: Errno::EPROTONOSUPPORT,
        supported_flags: None,
    };
    let text = e.to_string();
    for part in ["mlx5_0/1", "0x81", "Subn", "EPROTONOSUPPORT", "QP0"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

const PLANE: P = P {
    guid: 0x0002_c903_0000_0001,
    ..ACTIVE
};

const PLANE_GSI: P = P {
    cap: ACTIVE.cap | 1 << 10,
    ..PLANE
};

#[test]
fn field_report_20_pairs_of_planarized_devices() {
    let t = Tree::new();
    t.device("mlx5_0", "1: CA\n", &[PLANE_GSI]);
    t.device("smi0", "1: CA\n", &[PLANE]);
    let lone = P { guid: 7, ..ACTIVE };
    t.device("mlx5_9", "1: CA\n", &[lone]);
    let lone_gsi = P {
        guid: 8,
        cap: 1 << 10,
        ..ACTIVE
    };
    t.device("xgsi", "1: CA\n", &[lone_gsi]);
    let no_guid = P { guid: 0, ..ACTIVE };
    t.device("zero", "1: CA\n", &[no_guid]);
    let pairs = t.sysfs().smi_gsi_pairs().unwrap();
    let names: Vec<_> = pairs
        .iter()
        .map(|p| (p.smi.as_deref(), p.gsi.as_deref()))
        .collect();
    assert_eq!(
        names,
        [
            (Some("smi0"), Some("mlx5_0")),
            (Some("mlx5_9"), Some("mlx5_9")),
            (None, Some("xgsi")),
        ]
    );
    assert!(!pairs[0].is_one_device() && pairs[1].is_one_device());

    // Either name finds the pair; each side gets a port of its own.
    for name in ["smi0", "mlx5_0"] {
        let pair = t.sysfs().smi_gsi_pair(Some(name), None, true).unwrap();
        assert_eq!(pair.smi.as_deref(), Some("smi0"));
        assert_eq!((pair.smi_port, pair.gsi_port), (Some(1), Some(1)));
        assert_eq!(pair.smi_select().unwrap().ca.as_deref(), Some("smi0"));
        assert_eq!(pair.gsi_select().unwrap().ca.as_deref(), Some("mlx5_0"));
    }
    let first = t.sysfs().smi_gsi_pair(None, None, false).unwrap();
    assert_eq!(first.gsi.as_deref(), Some("mlx5_0"));
    // A pair without subnet management is passed over only where that is needed.
    assert!(t.sysfs().smi_gsi_pair(Some("xgsi"), None, true).is_err());
    let gsi = t.sysfs().smi_gsi_pair(Some("xgsi"), None, false).unwrap();
    assert_eq!((gsi.smi_port, gsi.gsi_port), (None, Some(1)));
    assert!(
        t.sysfs()
            .smi_gsi_pair(Some("smi0"), Some(9), false)
            .is_err()
    );
    assert!(t.sysfs().smi_gsi_pair(Some("none"), None, false).is_err());
}

#[test]
fn preferred_ports_of_pairs() {
    let t = Tree::new();
    let two = |a: P, b: P| [a, P { number: 2, ..b }];
    t.device(
        "gsi",
        "1: CA\n",
        &two(
            P {
                state: "1: DOWN",
                ..PLANE_GSI
            },
            PLANE_GSI,
        ),
    );
    t.device(
        "smi",
        "1: CA\n",
        &two(
            PLANE,
            P {
                state: "1: DOWN",
                ..PLANE
            },
        ),
    );
    // Without a port each side gets its own first that is not down.
    let pair = t.sysfs().smi_gsi_pair(None, None, true).unwrap();
    assert_eq!((pair.smi_port, pair.gsi_port), (Some(1), Some(2)));
    // A given port of the SMI side that is down is refused, unless the device is named.
    assert!(t.sysfs().smi_gsi_pair(None, Some(2), true).is_err());
    let pair = t.sysfs().smi_gsi_pair(Some("smi"), Some(2), true).unwrap();
    assert_eq!((pair.smi_port, pair.gsi_port), (Some(2), Some(2)));
    let pair = t.sysfs().smi_gsi_pair(Some("gsi"), Some(1), true).unwrap();
    assert_eq!((pair.smi_port, pair.gsi_port), (Some(1), Some(1)));
}

#[test]
fn field_report_24_as_many_devices_as_the_interface_allows() {
    let t = Tree::new();
    // 128 devices with 192 ports: every second one has two.
    let mut umads = Vec::new();
    for i in 0..128u64 {
        let port = |number: u8| P {
            number,
            guid: 0x1000 + 2 * i + u64::from(number),
            ..ACTIVE
        };
        let name = format!("mlx5_{i}");
        let ports = if i % 2 == 0 { 1..=1 } else { 1..=2 };
        let all: Vec<P> = ports.clone().map(port).collect();
        t.device(&name, "1: CA\n", &all);
        umads.extend(ports.map(|number| (name.clone(), number)));
    }
    assert_eq!(umads.len(), 192);
    for (number, (name, port)) in (0..).zip(&umads) {
        t.umad(number, name, *port);
    }
    assert_eq!(t.sysfs().cas().unwrap().len(), 128);
    assert_eq!(t.sysfs().smi_gsi_pairs().unwrap().len(), 128);
    // Each port is found, by the device file that is its own.
    for (number, (name, port)) in (0..).zip(&umads) {
        let id = t.sysfs().resolve(&Select::exact(name, *port)).unwrap();
        assert_eq!((id.ca.as_str(), id.port, id.umad), (&**name, *port, number));
    }
}
