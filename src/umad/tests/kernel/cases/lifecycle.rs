//! Waiting, IsSM, allocations, descriptors, and a device that goes and returns.

use super::*;

extern "C" fn on_signal(_: libc::c_int) {}

fn interrupt_every(ms: i64) {
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: ms * 1000,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: a handler that does nothing, and a timer given by reference.
    unsafe {
        let handler = on_signal as extern "C" fn(libc::c_int);
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

pub fn signals() {
    let p = port(0);
    interrupt_every(20);
    let e = p.poll_once(10_000).unwrap_err();
    assert!(e.is_interrupted(), "{e}");
    assert!(e.to_string().contains("EINTR"), "{e}");
    let start = Instant::now();
    let long = Duration::from_millis(200);
    assert!(!p.poll(Some(long)).unwrap());
    assert!(start.elapsed() >= long, "goes on after a signal");
    let start = Instant::now();
    assert!(wait(&[&p], None, Some(long)).unwrap().is_timeout());
    assert!(start.elapsed() >= long);
    interrupt_every(0);
    // Without an end, too: a timed-out send ends it.
    let asker = p.register(&Registration::client(CLASS)).unwrap();
    let (_server, _agent) = silent_server();
    let request = mad(CLASS, 1, GET, 1);
    let reply = Reply::within(Duration::from_millis(50));
    p.send(asker.id(), &address_of(1), &request, reply).unwrap();
    assert!(p.poll(None).unwrap());
}

pub fn wait_is_woken() {
    let (a, b) = (port(0), port(1));
    let waker = Waker::new().unwrap();
    let other = waker.clone();
    let thread = std::thread::spawn(move || other.wake());
    let ready = wait(&[&a, &b], Some(&waker), None).unwrap();
    thread.join().unwrap();
    assert!(ready.woken && !ready.port(0) && !ready.port(1));
    let asker = a.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let _answerer = b.register(&get).unwrap();
    let request = mad(CLASS, 1, GET, 1);
    a.send(asker.id(), &address_of(1), &request, Reply::None)
        .unwrap();
    let ready = wait(&[&a, &b], Some(&waker), Some(SECOND * 10)).unwrap();
    assert!(ready.port(1) && !ready.port(0) && !ready.woken);
}

fn is_sm() -> bool {
    let p = Sysfs::system().port("rxe0", 1).unwrap();
    p.cap_mask.unwrap() & CAP_IS_SM != 0
}

pub fn issm() {
    let sysfs = Sysfs::system();
    let id = sysfs.resolve(&Select::exact("rxe0", 1)).unwrap();
    if !sysfs.issm_path(id.umad).exists() {
        // Newer kernels have none for ports without QP0.
        let e = IsSm::try_set(&sysfs, &id).unwrap_err();
        assert!(matches!(e, Error::Open { .. }), "{e}");
        return;
    }
    assert!(!is_sm());
    let held = IsSm::try_set(&sysfs, &id).unwrap();
    assert!(is_sm());
    let e = IsSm::try_set(&sysfs, &id).unwrap_err();
    assert!(matches!(e, Error::Busy { .. }), "{e}");
    // A blocking one waits for its turn: whichever way the threads run, it gets it.
    let (sysfs2, id2) = (sysfs.clone(), id.clone());
    let second = std::thread::spawn(move || IsSm::set(&sysfs2, &id2));
    drop(held);
    let second = second.join().unwrap().unwrap();
    assert!(is_sm());
    drop(second);
    assert!(!is_sm());
}

pub fn no_allocation() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(CLASS)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    let answerer = server.register(&get).unwrap();
    let to = address_of(1);
    let mut buffer = Buffer::new();
    let mut before = 0;
    for n in 0..600u64 {
        // The first rounds warm up whatever is made once.
        if n == 100 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        let request = mad(CLASS, 1, GET, n);
        client
            .send(asker.id(), &to, &request, Reply::within(SECOND * 5))
            .unwrap();
        assert!(server.poll(None).unwrap());
        let Recv::Mad { from, mad, .. } = server.recv(&mut buffer).unwrap() else {
            panic!("no request");
        };
        let mut answer = [0; 256];
        answer.copy_from_slice(mad);
        answer[3] = GET_RESP;
        server
            .send(answerer.id(), &from, &answer, Reply::None)
            .unwrap();
        assert!(wait(&[&client], None, None).unwrap().port(0));
        assert!(matches!(
            client.recv_growing(&mut buffer).unwrap(),
            Recv::Mad { .. }
        ));
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

pub fn descriptors() {
    let before = open_descriptors();
    let id = Sysfs::system().resolve(&Select::exact("rxe0", 1)).unwrap();
    let get = Registration::client(CLASS).receiving(&[GET]);
    for _ in 0..10_000 {
        let p = Port::open_id(&Sysfs::system(), id.clone()).unwrap();
        // Conflicts if an earlier one were still there.
        let agent = p.register(&get).unwrap();
        drop(agent);
        let agent = p.register(&get).unwrap();
        assert_eq!(agent.id(), AgentId(0));
    }
    assert_eq!(open_descriptors(), before);
    let p = port(0);
    let with_port = open_descriptors();
    for _ in 0..10_000 {
        assert_eq!(p.register(&get).unwrap().id(), AgentId(0));
    }
    assert_eq!(open_descriptors(), with_port);
    for _ in 0..100 {
        drop(Waker::new().unwrap());
        Sysfs::system().cas().unwrap();
        Port::open(&Select::any()).unwrap_err();
    }
    assert_eq!(open_descriptors(), with_port);
}

fn rdma(args: &[&str]) {
    let status = Command::new("/bin/rdma").args(args).status().unwrap();
    assert!(status.success(), "rdma {args:?}");
}

pub fn removal() {
    let p = port(1);
    let agent = p.register(&Registration::client(CLASS)).unwrap();
    let waker = Waker::new().unwrap();
    let waiting = waker.clone();
    std::thread::scope(|scope| {
        let p = &p;
        let blocked = scope.spawn(move || {
            waiting.wake();
            assert!(wait(&[], Some(&waiting), None).unwrap().woken);
            wait(&[p], Some(&waiting), None).unwrap()
        });
        let polling = scope.spawn(move || p.poll(None));
        // Let both be in poll: their state in /proc says sleeping.
        until_asleep(2);
        rdma(&["link", "delete", "rxe1"]);
        let ready = blocked.join().unwrap();
        assert!(ready.removed(0) && !ready.port(0) && !ready.woken);
        let e = polling.join().unwrap().unwrap_err();
        assert!(e.is_device_removed(), "{e}");
    });
    let mut buffer = Buffer::new();
    let removed = |e: Error, call: &str| {
        assert!(e.is_device_removed(), "{e}");
        assert_eq!(
            e.to_string(),
            format!("rxe1/1: device removed (noticed by {call})")
        );
    };
    removed(p.recv(&mut buffer).unwrap_err(), "read");
    let request = mad(CLASS, 1, GET, 1);
    let to = Address::gmp(0, 0, 0);
    let sent = p.send(agent.id(), &to, &request, Reply::None);
    removed(sent.unwrap_err(), "write");
    let again = p.register(&Registration::client(CLASS));
    removed(again.unwrap_err(), "ioctl");
    removed(p.poll(Some(Duration::ZERO)).unwrap_err(), "poll");
    let e = Port::open(&Select::exact("rxe1", 1)).unwrap_err();
    assert!(matches!(e, Error::UnknownDevice { .. }), "{e}");
    drop(agent);
    p.close();
    // It returns, and can be opened and used again.
    rdma(&["link", "add", "rxe1", "type", "rxe", "netdev", "v1"]);
    let deadline = Instant::now() + SECOND * 20;
    let gid = |sysfs: &Sysfs| sysfs.gids("rxe1", 1).is_ok_and(|g| !g.is_empty());
    while !gid(&Sysfs::system()) {
        assert!(Instant::now() < deadline, "the device does not return");
        std::thread::yield_now();
    }
    super::traffic::round_trip();
}

/// Waits until all threads of this process but the main one sleep, in their poll.
fn until_asleep(others: usize) {
    let me = std::process::id().to_string();
    loop {
        let asleep = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| {
                let task = task.ok()?;
                let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
                let state = stat.rsplit(')').next()?.trim_start().chars().next();
                (task.file_name().to_str() != Some(&me) && state == Some('S')).then_some(())
            })
            .count();
        if asleep == others {
            return;
        }
        std::thread::yield_now();
    }
}
