//! Sending and receiving: replies, timeouts, errors, agents.

use super::*;

pub fn round_trip() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let mut request = mad(CLASS, 1, GET, 0x1111_2222_3333_4444);
    request[255] = 0xa5;
    let to = address_of(1);
    client
        .send(asker.id(), &to, &request, Reply::within(SECOND * 5))
        .unwrap();
    let (agent, from, got) = receive_mad(&server);
    assert_eq!(agent, answerer.id());
    assert_eq!(got.len(), 256);
    assert_eq!(got[255], 0xa5);
    // The upper half is the agent's number in the kernel, the lower half the sender's.
    assert_ne!(got[8..12], request[8..12]);
    assert_eq!(got[12..16], request[12..16]);
    assert_eq!(
        (from.qpn, from.qkey, from.lid, from.pkey_index),
        (1, 0, 0, 0)
    );
    let back = from.grh.unwrap();
    assert_eq!(back.gid, Sysfs::system().gids("rxe0", 1).unwrap()[0].raw);
    // Answered through a buffer, to the address as it came.
    let mut buffer = Buffer::new();
    buffer.set_mad(&got);
    buffer.mad_mut()[3] = GET_RESP;
    *buffer.address_mut() = Address {
        qkey: umad::QP1_QKEY,
        ..from
    };
    server
        .send_buffer(answerer.id(), &mut buffer, 256, Reply::None)
        .unwrap();
    let (agent, _, got) = receive_mad(&client);
    assert_eq!(agent, asker.id());
    assert_eq!((got[3], got[255]), (GET_RESP, 0xa5));
    assert_eq!(got[12..16], request[12..16]);
    assert_eq!(receive_within(&client, Duration::ZERO), Got::Nothing);
}

pub fn short_mads() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let _answerer = server.register(&get).unwrap();
    let to = address_of(1);
    let mut request = mad(CLASS, 1, GET, 1);
    request.fill(0xff);
    request[..4].copy_from_slice(&[1, CLASS, 1, GET]);
    // 24 bytes would be refused by the kernel, or worse.
    client
        .send(asker.id(), &to, &request[..24], Reply::None)
        .unwrap();
    let (_, _, got) = receive_mad(&server);
    assert_eq!(got.len(), 256);
    assert_eq!(got[24..], [0; 232]);
    let mut buffer = Buffer::new();
    buffer.set_mad(&request);
    *buffer.address_mut() = to;
    client
        .send_buffer(asker.id(), &mut buffer, 30, Reply::None)
        .unwrap();
    let (_, _, got) = receive_mad(&server);
    assert_eq!((got.len(), got[29]), (256, 0xff));
    assert_eq!(got[30..], [0; 226]);
}

pub fn timeouts() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let (server, _agent) = silent_server();
    let to = Address {
        sl: 3,
        ..address_of(1)
    };
    for (tid, retries) in [(0xaaaa_bbbb_0000_0001, 0), (0xaaaa_bbbb_0000_0002, 2)] {
        let start = Instant::now();
        let reply = Reply::Within {
            timeout_ms: 200,
            retries,
        };
        let request = mad(CLASS, 1, GET, tid);
        client.send(asker.id(), &to, &request, reply).unwrap();
        let Got::TimedOut(agent, address, got, errno, len) = receive(&client) else {
            panic!("no timeout");
        };
        let least = Duration::from_millis(200) * (retries + 1);
        assert!(start.elapsed() >= least, "{:?}", start.elapsed());
        assert_eq!(agent, asker.id());
        assert_eq!(address, to, "the address as it was sent to");
        assert_eq!(low(got), low(tid));
        assert_ne!(got >> 32, tid >> 32);
        assert_eq!((errno, len), (Errno::ETIMEDOUT, 24));
        // Every try reached the other side.
        for _ in 0..=retries {
            let (_, _, seen) = receive_mad(&server);
            assert_eq!(seen[12..16], request[12..16]);
        }
        assert_eq!(receive_within(&server, Duration::ZERO), Got::Nothing);
    }
    // Without an end: nothing comes back until the agent goes.
    let request = mad(CLASS, 1, GET, 9);
    client
        .send(asker.id(), &to, &request, Reply::Forever)
        .unwrap();
    receive_mad(&server);
    let soon = Duration::from_millis(300);
    assert_eq!(receive_within(&client, soon), Got::Nothing);
}

pub fn timeout_record_stays() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let request = mad(CLASS, 1, GET, 5);
    let reply = Reply::within(Duration::from_millis(50));
    client
        .send(asker.id(), &address_of(1), &request, reply)
        .unwrap();
    assert!(client.poll(Some(SECOND * 5)).unwrap());
    let mut small = [0u8; 87];
    // SAFETY: reads into a live array of the stated length.
    let n = unsafe { libc::read(client.fd(), small.as_mut_ptr().cast(), small.len()) };
    assert_eq!(
        (n, std::io::Error::last_os_error().raw_os_error()),
        (-1, Some(libc::EINVAL))
    );
    assert!(matches!(receive(&client), Got::TimedOut(..)), "still there");
}

pub fn reply_with_timeout() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let request = mad(CLASS, 1, GET, 6);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 5),
        )
        .unwrap();
    let (_, from, mut got) = receive_mad(&server);
    got[3] = GET_RESP;
    let bogus = Reply::within(Duration::from_millis(50));
    server.send(answerer.id(), &from, &got, bogus).unwrap();
    receive_mad(&client);
    // Delivered, and yet reported: why replies are sent with Reply::None.
    assert!(matches!(receive(&server), Got::TimedOut(..)));
}

pub fn nobody_registered() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let request = mad(CLASS, 1, GET, 77);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 5),
        )
        .unwrap();
    let (_, _, got) = receive_mad(&client);
    assert_eq!(got[3], GET_RESP);
    assert_eq!(u16::from_be_bytes([got[4], got[5]]), 0x000c);
}

pub fn unsolicited() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let set = Registration::client(CLASS).receiving(&[SET, 0x3f, 0x40]);
    let setter = server.register(&set).unwrap();
    let reader = server.register(&set.receiving(&[0x11])).unwrap();
    let to = address_of(1);
    for (method, agent) in [
        (SET, &setter),
        (0x3f, &setter),
        (0x40, &setter),
        (0x11, &reader),
    ] {
        let request = mad(CLASS, 1, method, u64::from(method));
        client.send(asker.id(), &to, &request, Reply::None).unwrap();
        let (got, _, seen) = receive_mad(&server);
        assert_eq!((got, seen[3]), (agent.id(), method));
    }
    // Not in any mask, no Get or Set: dropped. The next one in the mask shows that it is gone.
    let dropped = mad(CLASS, 1, 0x41, 1);
    client.send(asker.id(), &to, &dropped, Reply::None).unwrap();
    let seen = mad(CLASS, 1, SET, 2);
    client.send(asker.id(), &to, &seen, Reply::None).unwrap();
    assert_eq!(receive_mad(&server).2[3], SET);
}

fn send_error(p: &Port, agent: AgentId, to: &Address, mad: &[u8], reply: Reply) -> Errno {
    match p.send(agent, to, mad, reply) {
        Err(Error::Send { errno, class, .. }) => {
            assert_eq!(class, mad.get(1).copied().unwrap_or(0));
            errno
        }
        other => panic!("{other:?}"),
    }
}

pub fn duplicate_tid() {
    let client = port(0);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let to = address_of(1);
    let reply = Reply::within(Duration::from_millis(300));
    let request = mad(CLASS, 1, GET, 0x55);
    client.send(asker.id(), &to, &request, reply).unwrap();
    // The upper half is the kernel's, so it does not make a difference.
    let same = mad(CLASS, 1, GET, 0x9999_0000_0000_0055);
    let e = send_error(&client, asker.id(), &to, &same, reply);
    assert_eq!(e, Errno::EINVAL);
    let fresh = mad(CLASS, 1, GET, 0x56);
    client.send(asker.id(), &to, &fresh, reply).unwrap();
    assert!(matches!(receive(&client), Got::TimedOut(..)));
    assert!(matches!(receive(&client), Got::TimedOut(..)));
    // Free again once it came back.
    client.send(asker.id(), &to, &request, reply).unwrap();
}

pub fn send_errors() {
    let p = port(0);
    let agent = p.register(&Registration::client(CLASS)).unwrap().leak();
    let to = address_of(1);
    let request = mad(CLASS, 1, GET, 1);
    let none = Reply::None;
    let no_grh = Address { grh: None, ..to };
    assert_eq!(
        send_error(&p, agent, &no_grh, &request, none),
        Errno::EINVAL
    );
    let bad_index = Address {
        grh: to.grh.map(|g| Grh {
            gid_index: 200,
            ..g
        }),
        ..to
    };
    let e = send_error(&p, agent, &bad_index, &request, none);
    assert_eq!(e, Errno(libc::ENODATA));
    let unknown = send_error(&p, AgentId(31), &to, &request, none);
    assert_eq!(unknown, Errno::EIO, "and yet the device is there");
    let beyond = send_error(&p, AgentId(32), &to, &request, none);
    assert_eq!(beyond, Errno::EINVAL);
    // Without RMPP a MAD has 256 bytes at most.
    let mut long = vec![0; 257];
    long[..256].copy_from_slice(&request);
    assert_eq!(send_error(&p, agent, &to, &long, none), Errno::EINVAL);
    // An agent with kernel RMPP sends only classes that can do RMPP.
    let sa = p.register(&Registration::client(0x03)).unwrap();
    assert_eq!(send_error(&p, sa.id(), &to, &request, none), Errno::EINVAL);
    p.unregister(agent).unwrap();
}

pub fn two_agents_one_file() {
    let client = port(0);
    let a = client.register(&Registration::client(CLASS)).unwrap();
    let b = client.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let to = address_of(1);
    let reply = Reply::within(Duration::from_millis(100));
    let request = mad(CLASS, 1, GET, 0x77);
    // The same TID twice is no duplicate between agents.
    client.send(a.id(), &to, &request, reply).unwrap();
    client.send(b.id(), &to, &request, reply).unwrap();
    let mut back = Vec::new();
    for _ in 0..2 {
        match receive(&client) {
            Got::TimedOut(agent, _, tid, ..) => back.push((agent, low(tid), tid >> 32)),
            other => panic!("{other:?}"),
        }
    }
    back.sort_unstable();
    assert_eq!((back[0].0, back[1].0), (a.id(), b.id()));
    assert_eq!((back[0].1, back[1].1), (0x77, 0x77));
    assert_ne!(back[0].2, back[1].2, "each its own upper half");
}

pub fn two_agents_two_files() {
    let (one, two, server) = (port(0), port(0), port(1));
    let a = one.register(&Registration::client(CLASS)).unwrap();
    let b = two.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let to = address_of(1);
    for (n, client, agent) in [(1u8, &one, &a), (2, &two, &b)] {
        let mut request = mad(CLASS, 1, GET, 0x42);
        request[200] = n;
        client
            .send(agent.id(), &to, &request, Reply::within(SECOND * 5))
            .unwrap();
    }
    for _ in 0..2 {
        let (_, from, mut got) = receive_mad(&server);
        got[3] = GET_RESP;
        server
            .send(answerer.id(), &from, &got, Reply::None)
            .unwrap();
    }
    assert_eq!(receive_mad(&one).2[200], 1);
    assert_eq!(receive_mad(&two).2[200], 2);
    assert_eq!(receive_within(&one, Duration::ZERO), Got::Nothing);
    assert_eq!(receive_within(&two, Duration::ZERO), Got::Nothing);
}

pub fn unregister_outstanding() {
    let client = port(0);
    let (server, _agent) = silent_server();
    let to = address_of(1);
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    for tid in 0..20 {
        let request = mad(CLASS, 1, GET, tid);
        client
            .send(
                asker.id(),
                &to,
                &request,
                Reply::within(Duration::from_millis(100)),
            )
            .unwrap();
    }
    drop(asker);
    let soon = Duration::from_millis(300);
    assert_eq!(
        receive_within(&client, soon),
        Got::Nothing,
        "cancelled silently"
    );
    for _ in 0..20 {
        receive_mad(&server);
    }
    // The file is as good as new.
    let again = client.register(&Registration::client(CLASS)).unwrap();
    let request = mad(CLASS, 1, GET, 99);
    let reply = Reply::within(Duration::from_millis(50));
    client.send(again.id(), &to, &request, reply).unwrap();
    assert!(matches!(receive(&client), Got::TimedOut(..)));
}
