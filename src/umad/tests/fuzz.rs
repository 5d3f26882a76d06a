//! Arbitrary bytes from the device and from sysfs: nothing panics, nothing is read out of range.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;

use proptest::prelude::*;
use umad::{Buffer, Header, Layout, Select, Sysfs, dump};

proptest! {
    #[test]
    fn header(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        for layout in [Layout::Old, Layout::New] {
            let header = Header::decode(layout, &bytes);
            let mut buffer = Buffer::new();
            *buffer.address_mut() = header.addr;
            prop_assert_eq!(buffer.to_string().lines().count(), 4);
            prop_assert_eq!(dump::address(&header.addr).lines().count(), 3);
            // What was read is written again, as far as the kernel defines it: reserved bytes
            // are zero, a GRH is 1 or nothing.
            let again = Header::decode(layout, &header.encode(layout));
            prop_assert_eq!(again, header);
        }
    }

    #[test]
    fn strings(class in any::<u8>(), method in any::<u8>(), number in any::<u16>()) {
        for text in [
            umad::strings::class(class),
            umad::strings::method(class, method),
            umad::strings::attribute(class, number),
            umad::strings::common_status(number),
            umad::strings::sa_status(number),
            umad::strings::dr_status(number),
        ] {
            prop_assert!(!text.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One file of the tree holds anything at all; its name may be anything that a file can have.
    #[test]
    fn sysfs(
        which in 0usize..19,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        name in "[^/\0]{1,12}",
    ) {
        let dir = tempfile::TempDir::new().unwrap();
        let device = "sys/class/infiniband/a";
        let port = "sys/class/infiniband/a/ports/1";
        let umad = "sys/class/infiniband_mad";
        let files = [
            format!("{device}/node_type"),
            format!("{device}/node_guid"),
            format!("{device}/fw_ver"),
            format!("{device}/hca_type"),
            format!("{port}/lid"),
            format!("{port}/lid_mask_count"),
            format!("{port}/sm_sl"),
            format!("{port}/state"),
            format!("{port}/phys_state"),
            format!("{port}/rate"),
            format!("{port}/cap_mask"),
            format!("{port}/link_layer"),
            format!("{port}/gids/0"),
            format!("{port}/pkeys/0"),
            format!("{port}/pkeys/x{name}"),
            format!("{device}/ports/x{name}/lid"),
            format!("{umad}/abi_version"),
            format!("{umad}/umad0/ibdev"),
            format!("{umad}/umad0/port"),
        ];
        for (i, file) in files.iter().enumerate() {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let content: &[u8] = if i == which { &bytes } else { b"1" };
            fs::write(path, content).unwrap();
        }
        let sysfs = Sysfs::at(dir.path());
        let ca = sysfs.ca("a").unwrap();
        prop_assert_eq!(ca.ports.len(), 1);
        prop_assert!(ca.ports[0].pkeys.len() <= 1);
        let _ = sysfs.cas();
        let _ = sysfs.gids("a", 1);
        let _ = sysfs.smi_gsi_pairs();
        let _ = sysfs.smi_gsi_pair(None, None, true);
        if let Err(e) = sysfs.resolve(&Select::any()) {
            prop_assert!(!e.to_string().is_empty());
        }
    }
}
