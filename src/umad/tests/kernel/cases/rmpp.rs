//! Long messages: by the kernel's RMPP, and by our own.

use super::*;

const SA: u8 = 0x03;
const GET_MULTI: u8 = 0x14;
const RMPP_ACTIVE: usize = 26;

/// An SA message whose data tell their place.
fn message(method: u8, tid: u64, len: usize) -> Vec<u8> {
    let mut m = vec![0; len.max(56)];
    m[..4].copy_from_slice(&[1, SA, 2, method]);
    m[8..16].copy_from_slice(&tid.to_be_bytes());
    m[RMPP_ACTIVE] = 1;
    for (i, byte) in m.iter_mut().enumerate().skip(56) {
        *byte = u8::try_from(i % 251).unwrap();
    }
    m
}

pub fn rmpp(len: usize) {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(SA)).unwrap();
    let sa = Registration::client(SA).receiving(&[GET_MULTI]);
    let answerer = server.register(&sa).unwrap();
    let request = message(GET_MULTI, 0x1234, len);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 20),
        )
        .unwrap();
    let check = |p: &Port, method: u8| {
        assert!(p.poll(Some(SECOND * 20)).unwrap());
        let mut buffer = Buffer::new();
        if len > 256 {
            // Twice: nothing is lost by a buffer that is too small.
            for _ in 0..2 {
                let got = p.recv(&mut buffer).unwrap();
                assert_eq!(got, Recv::TooSmall { needed: len });
            }
            buffer.ensure(len);
        }
        match p.recv(&mut buffer).unwrap() {
            Recv::Mad { from, mad, .. } => {
                assert_eq!(mad.len(), len);
                assert_eq!(mad[3], method);
                assert_eq!(mad[12..16], request[12..16]);
                assert!(mad[56..] == request[56..], "the data");
                (from, mad[8..12].to_vec())
            }
            other => panic!("{other:?}"),
        }
    };
    let (from, upper) = check(&server, GET_MULTI);
    let mut answer = request.clone();
    answer[3] = GET_MULTI | 0x80;
    // A reply carries the whole TID of its request, with the kernel's upper half.
    answer[8..12].copy_from_slice(&upper);
    server
        .send(answerer.id(), &from, &answer, Reply::None)
        .unwrap();
    check(&client, GET_MULTI | 0x80);
}

pub fn rmpp_unacknowledged() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(SA)).unwrap();
    // An agent without RMPP acknowledges nothing.
    let sa = Registration::client(SA)
        .rmpp(Rmpp::None)
        .receiving(&[GET_MULTI]);
    let _answerer = server.register(&sa).unwrap();
    let request = message(GET_MULTI, 7, 4000);
    let reply = Reply::within(Duration::from_millis(200));
    client
        .send(asker.id(), &address_of(1), &request, reply)
        .unwrap();
    let (_, _, segment) = receive_mad(&server);
    assert_eq!(segment.len(), 256);
    // RMPP version 1, type 1 (data), flags first and active, segment 1.
    assert_eq!((segment[24], segment[25], segment[26] & 7), (1, 1, 3));
    assert_eq!(segment[28..32], [0, 0, 0, 1]);
    match receive(&client) {
        Got::TimedOut(agent, _, tid, errno, _) => {
            assert_eq!((agent, low(tid), errno), (asker.id(), 7, Errno::ETIMEDOUT));
        }
        other => panic!("{other:?}"),
    }
}

pub fn user_rmpp() {
    let (client, server) = (port(0), port(1));
    let asker = client.register(&Registration::client(SA)).unwrap();
    let sa = Registration::client(SA)
        .rmpp(Rmpp::User)
        .receiving(&[GET_MULTI]);
    let answerer = server.register(&sa).unwrap();
    let request = message(GET_MULTI, 8, 300);
    client
        .send(
            asker.id(),
            &address_of(1),
            &request,
            Reply::within(SECOND * 5),
        )
        .unwrap();
    let (_, from, first) = receive_mad(&server);
    assert_eq!((first.len(), first[25], first[26] & 7), (256, 1, 3));
    // Acknowledge segment 1 ourselves, allowing two: type 2, window in the last word.
    let mut ack = first.clone();
    ack[3] = GET_MULTI | 0x80;
    ack[25] = 2;
    ack[26] = 1;
    ack[28..32].copy_from_slice(&[0, 0, 0, 1]);
    ack[32..36].copy_from_slice(&[0, 0, 0, 2]);
    ack[36..].fill(0);
    let ack = |segment: u8| {
        let mut ack = ack.clone();
        ack[31] = segment;
        server
            .send(answerer.id(), &from, &ack, Reply::None)
            .unwrap();
    };
    ack(1);
    let (_, _, second) = loop {
        let got = receive_mad(&server);
        if got.2[31] != 1 {
            break got;
        }
    };
    // Last segment: flags last and active; 20 bytes of class header and 44 of data.
    assert_eq!((second[25], second[26] & 7, second[31]), (1, 5, 2));
    assert_eq!(second[32..36], [0, 0, 0, 20 + 44]);
    assert_eq!(second[56..100], request[256..300]);
    ack(2);
    // Our answer, one segment long, goes out as it is.
    let mut answer = second.clone();
    answer[3] = GET_MULTI | 0x80;
    answer[25..36].copy_from_slice(&[1, 7, 0, 0, 0, 0, 1, 0, 0, 0, 24]);
    server
        .send(answerer.id(), &from, &answer, Reply::None)
        .unwrap();
    let (agent, _, got) = receive_mad(&client);
    assert_eq!(agent, asker.id());
    assert_eq!(got.len(), 36 + 24);
    assert_eq!(got[56..60], request[256..260]);
}
