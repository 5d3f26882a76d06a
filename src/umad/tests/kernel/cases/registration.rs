//! Rules of registration, and the kernel's errno for each.

use super::*;

fn refused(p: &Port, r: &Registration) -> Errno {
    match p.register(r) {
        Err(Error::Register { errno, class, .. }) => {
            assert_eq!(class, r.class);
            errno
        }
        other => panic!("{r:?}: {other:?}"),
    }
}

pub fn register_qp0() {
    let p = port(0);
    for class in [0x01, 0x81] {
        let e = p.register(&Registration::client(class)).unwrap_err();
        assert_eq!(e.errno(), Some(Errno::EPROTONOSUPPORT));
        assert!(e.to_string().contains("no QP0"), "{e}");
    }
}

const fn raw(qpn: u8, class: u8, version: u8) -> RawRegistration {
    RawRegistration {
        qpn,
        class,
        version,
        methods: MethodMask::NONE,
        rmpp_version: 0,
        oui: 0,
        flags: 0,
    }
}

pub fn register_rules() {
    let p = port(0);
    let both = |r: &RawRegistration| {
        let v1 = register_v1(p.fd(), r).unwrap_err();
        let v2 = register_v2(p.fd(), r).unwrap_err().0;
        assert_eq!(v1, v2, "{r:?}");
        v1
    };
    assert_eq!(both(&raw(2, 0x04, 1)), Errno::EINVAL, "queue pair 2");
    assert_eq!(both(&raw(1, 0x01, 1)), Errno::EINVAL, "SMPs on QP1");
    assert_eq!(both(&raw(1, 0x81, 1)), Errno::EINVAL, "SMPs on QP1");
    assert_eq!(both(&raw(1, 0x50, 1)), Errno::EINVAL, "class 80");
    // Class and version are looked at only where methods are asked for.
    let served = |class, version| RawRegistration {
        methods: MethodMask::of(&[GET]),
        ..raw(1, class, version)
    };
    assert_eq!(both(&served(0x50, 1)), Errno::EINVAL, "class 80");
    assert_eq!(both(&served(0x04, 0x83)), Errno::EINVAL, "version");
    assert_eq!(both(&served(0x30, 1)), Errno::EINVAL, "no OUI");
    let rmpp = |rmpp_version, class| RawRegistration {
        rmpp_version,
        ..raw(1, class, 1)
    };
    assert_eq!(both(&rmpp(2, 0x03)), Errno::EINVAL, "RMPP version 2");
    assert_eq!(both(&rmpp(1, 0x04)), Errno::EINVAL, "class without RMPP");
    for class in [0x03, 0x06, 0x10, 0x12] {
        let id = register_any(p.fd(), &rmpp(1, class)).unwrap();
        p.unregister(AgentId(id)).unwrap();
    }
    // SAFETY: an unknown request reads nothing.
    let rc = unsafe { libc::ioctl(p.fd(), 0x1b7f, 0) };
    assert_eq!(
        (rc, std::io::Error::last_os_error().raw_os_error()),
        (-1, Some(libc::ENOTTY))
    );
    for id in [7, 31, 32, 5000] {
        let e = p.unregister(AgentId(id)).unwrap_err();
        assert_eq!(e.errno(), Some(Errno::EINVAL));
    }
}

pub fn register_conflicts() {
    let (a, b, other) = (port(0), port(0), port(1));
    let get = Registration::client(CLASS).receiving(&[GET]);
    let held = a.register(&get).unwrap();
    assert_eq!(refused(&a, &get), Errno::EINVAL, "same file");
    assert_eq!(refused(&b, &get), Errno::EINVAL, "another file");
    let overlapping = get.receiving(&[SET, GET]);
    assert_eq!(refused(&b, &overlapping), Errno::EINVAL);
    let e = b.register(&get).unwrap_err().to_string();
    assert!(e.contains("another program"), "{e}");
    // Another method, another version, another port, or no method: no conflict.
    let _set = b.register(&get.receiving(&[SET])).unwrap();
    let _v2 = b.register(&get.version(2)).unwrap();
    let _port = other.register(&get).unwrap();
    let _client = b.register(&Registration::client(CLASS)).unwrap();
    drop(held);
    let _again = b.register(&get).unwrap();
}

pub fn register_ouis() {
    let p = port(0);
    let vendor = |oui| Registration::vendor(0x30, oui).receiving(&[GET]);
    assert_eq!(refused(&p, &vendor(0)), Errno::EINVAL);
    assert_eq!(refused(&p, &vendor(0x0100_066a)), Errno::EINVAL, "25 bits");
    let mut held: Vec<_> = (1..=8)
        .map(|oui| p.register(&vendor(oui)).unwrap())
        .collect();
    assert_eq!(refused(&p, &vendor(3)), Errno::EINVAL, "same OUI");
    assert_eq!(refused(&p, &vendor(9)), Errno::ENOMEM, "the ninth OUI");
    held.pop();
    let _ninth = p.register(&vendor(9)).unwrap();
}

pub fn register_flags() {
    let p = port(0);
    let bad = RawRegistration {
        flags: 0x8000_0000,
        ..raw(1, 0x03, 2)
    };
    // The kernel writes back what it knows.
    assert_eq!(register_v2(p.fd(), &bad), Err((Errno::EINVAL, 1)));
    assert_eq!(register_any(p.fd(), &bad), Err((Errno::EINVAL, 1)));
    let user = Registration::client(0x03).rmpp(Rmpp::User);
    let _user = p.register(&user).unwrap();
    let no_class = Registration::client(0).rmpp(Rmpp::User);
    assert_eq!(refused(&p, &no_class), Errno::EINVAL);
}

pub fn register_numbers() {
    let p = port(0);
    let client = Registration::client(CLASS);
    let mut agents: Vec<_> = (0..32).map(|_| p.register(&client).unwrap()).collect();
    let numbers: Vec<u32> = agents.iter().map(|a| a.id().0).collect();
    assert_eq!(numbers, (0..32).collect::<Vec<u32>>());
    assert_eq!(refused(&p, &client), Errno::ENOMEM, "the 33rd");
    drop(agents.remove(7));
    drop(agents.remove(3));
    let lowest = p.register(&client).unwrap();
    assert_eq!(lowest.id(), AgentId(3), "the lowest free number");
}

/// The cases of rdma-core's libibumad/tests/umad_register2.c and umad_reg2_compat.c, on a port
/// of our own.
pub fn register_like_libibumad() {
    let p = port(0);
    let methods = MethodMask::of(&[1, 63, 64]);
    let app = RawRegistration {
        methods,
        ..raw(1, 0x2f, 1)
    };
    let vendor = RawRegistration {
        methods,
        oui: 0x0000_066a,
        ..raw(1, 0x4f, 1)
    };
    type Call = fn(i32, &RawRegistration) -> Result<u32, Errno>;
    let old: Call = register_v1;
    let new: Call = |fd, r| register_v2(fd, r).map_err(|(e, _)| e);
    let fallback: Call = |fd, r| register_any(fd, r).map_err(|(e, _)| e);
    for call in [old, new, fallback] {
        for r in [&app, &vendor] {
            let id = call(p.fd(), r).unwrap();
            assert_eq!(call(p.fd(), r), Err(Errno::EINVAL), "the same again");
            p.unregister(AgentId(id)).unwrap();
        }
        let rmpp2 = RawRegistration {
            rmpp_version: 2,
            ..vendor
        };
        assert_eq!(call(p.fd(), &rmpp2), Err(Errno::EINVAL));
    }
    let flags = RawRegistration {
        flags: 0x8000_0000,
        ..vendor
    };
    assert_eq!(new(p.fd(), &flags), Err(Errno::EINVAL));
    let wide = RawRegistration {
        oui: 0x0100_066a,
        ..vendor
    };
    assert_eq!(new(p.fd(), &wide), Err(Errno::EINVAL));
    let user = RawRegistration {
        rmpp_version: 1,
        flags: 1,
        ..vendor
    };
    let id = new(p.fd(), &user).unwrap();
    p.unregister(AgentId(id)).unwrap();
}

const ENABLE_PKEY: libc::c_ulong = 0x1b03;

pub fn enable_pkey() {
    let p = port(0);
    let enable = || {
        // SAFETY: the request takes no argument.
        let rc = unsafe { libc::ioctl(p.fd(), ENABLE_PKEY, 0) };
        if rc == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error().raw_os_error().unwrap())
        }
    };
    assert_eq!(enable(), Ok(()), "a second time");
    let _agent = p.register(&Registration::client(CLASS)).unwrap();
    assert_eq!(enable(), Err(libc::EINVAL), "after a registration");
    // A file that may only be read can register.
    let path = Sysfs::system().umad_path(p.id().umad);
    let read_only = std::fs::File::open(path).unwrap();
    use std::os::fd::AsRawFd;
    assert_eq!(register_v1(read_only.as_raw_fd(), &raw(1, CLASS, 1)), Ok(0));
}

pub fn unregister_on_drop() {
    let p = port(0);
    let get = Registration::client(CLASS).receiving(&[GET]);
    for _ in 0..3 {
        drop(p.register(&get).unwrap());
    }
    let id = p.register(&get).unwrap().leak();
    assert_eq!(refused(&p, &get), Errno::EINVAL, "leaked: still registered");
    p.unregister(id).unwrap();
    // An agent that outlives its port is harmless.
    let agent = p.register(&get).unwrap();
    p.close();
    drop(agent);
    drop(port(0).register(&get).unwrap());
}
