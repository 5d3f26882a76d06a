//! What is found, and what is opened.

use super::*;

pub fn enumeration() {
    let sysfs = Sysfs::system();
    assert!(sysfs.abi_version().unwrap() >= 5);
    assert_eq!(sysfs.ca_names().unwrap(), ["rxe0", "rxe1"]);
    let ca = sysfs.ca("rxe0").unwrap();
    assert_eq!(ca.faults, []);
    assert_eq!(ca.fw_ver.as_deref(), Some(""));
    assert_eq!(ca.ca_type, None);
    assert!(!ca.is_simulated());
    // Made from the Ethernet address 02:00:00:00:00:01 by the EUI-64 rule.
    assert_eq!(ca.node_guid, Some(0x0000_00ff_fe00_0001));
    let p = ca.port(1).unwrap();
    assert_eq!(p.faults, []);
    assert_eq!(p.link_layer, Some(LinkLayer::Ethernet));
    assert_eq!((p.lid, p.state), (Some(0), Some(PortState::ACTIVE)));
    assert_eq!(p.default_pkey_index(), Some(0));
    assert_eq!(p.gid_prefix(), Some(0xfe80_0000_0000_0000));
    let devices = sysfs.umad_devices().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!(sysfs.umad_device("rxe1", 1).unwrap().port, 1);
}

pub fn default_port() {
    let e = Port::open(&Select::any()).unwrap_err();
    assert!(matches!(e, Error::OnlyEthernet { .. }), "{e}");
    let e = Port::open(&Select::exact("rxe0", 2)).unwrap_err();
    assert!(matches!(e, Error::UnknownPort { .. }), "{e}");
    let e = Port::open(&Select::exact("mlx5_0", 1)).unwrap_err();
    assert!(matches!(e, Error::UnknownDevice { .. }), "{e}");
}

pub fn open() {
    let p = port(0);
    assert_eq!(p.layout(), Layout::New);
    assert!(!p.is_simulated());
    // SAFETY: asks for a flag of an open file.
    let flags = unsafe { libc::fcntl(p.fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    let second = port(0);
    assert_ne!(p.fd(), second.fd());
    assert!(!p.poll(Some(Duration::ZERO)).unwrap());
    let mut buffer = Buffer::new();
    assert_eq!(p.recv(&mut buffer).unwrap(), Recv::Empty);
    let fd = p.fd();
    p.close();
    // SAFETY: as above; the number is closed now.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, -1);
}

/// What a user sees who is not root: all that is needed to help oneself.
pub fn permission_denied() {
    use std::os::unix::process::CommandExt;
    let out = Command::new("/proc/self/exe")
        .arg("--open-port")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let parts = [
        "/dev/infiniband/umad",
        "EACCES",
        "root:root",
        "mode 0600",
        "sudo",
        "udev rule",
    ];
    for part in parts {
        assert!(said.contains(part), "{part} in {said}");
    }
}

/// The C face, by a program of its own. What it prints is what the manual pages promise.
pub fn c_face() {
    // Not there without a C compiler outside, where this case is ignored then.
    let out = Command::new("/bin/c_face").output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let want = "size 56\n\
        open 1 1 size 64\n\
        default -19\n\
        flags 22 known 1\n\
        user rmpp 0 id 0\n\
        unregister 0\n\
        again -1 errno 22\n\
        no QP0 -1 errno 93\n\
        server 0, the same again -1 errno 22\n\
        client 0 oui 1\n\
        send 0\n\
        poll 0\n\
        small -28 needs 3936\n\
        whole 0 length 3936 status 0 pkey 0 same 1\n\
        grh 1\n\
        timed out 0 status 110 length 24\n\
        nothing -11 errno 11\n\
        nothing in time -110 errno 110\n\
        no grh -5 errno 22\n\
        close 0 0\n";
    assert_eq!(said, want, "{}", String::from_utf8_lossy(&out.stderr));
}
