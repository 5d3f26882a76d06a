//! What is recorded comes back as it was.
#![allow(clippy::unwrap_used, reason = "a test")]

mod events;

use events::*;
use fabtop::event::*;
use fabtop::mad::{Attribute, Mad, Method, PortInfo, secrets};
use fabtop::port::*;
use fabtop::record::{Encoder, Options, Reader};
use proptest::prelude::*;

fn keep() -> Options {
    Options { keep_keys: true }
}

fn encode(options: Options, events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(options).encode(events, &mut out);
    out
}

fn read(bytes: &[u8]) -> (Vec<Event>, Reader<&[u8]>) {
    let mut reader = Reader::new(bytes);
    let events = reader.by_ref().collect();
    (events, reader)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_stream_comes_back_whole(list in events(40), cut in 1usize..7) {
        // In batches, as it will be given.
        let mut encoder = Encoder::new(keep());
        let mut bytes = Vec::new();
        for batch in list.chunks(cut) {
            encoder.encode(batch, &mut bytes);
        }
        let (back, reader) = read(&bytes);
        prop_assert_eq!(reader.problems().list(), &[]);
        prop_assert_eq!(back, list);
    }

    #[test]
    fn without_keys_only_keys_are_missing(list in events(20)) {
        let bytes = encode(Options::default(), &list);
        let (back, reader) = read(&bytes);
        prop_assert_eq!(reader.problems().list(), &[]);
        prop_assert_eq!(back.len(), list.len());
        for (mut event, back) in list.into_iter().zip(back) {
            match &mut event.what {
                What::Sent(s) => { secrets::blank(&mut s.mad); }
                What::Received(r) => { secrets::blank(&mut r.mad); }
                What::Known(k) => {
                    secrets::blank(&mut k.request);
                    secrets::blank(&mut k.reply);
                }
                What::Malformed(m) => {
                    for (i, byte) in m.head.iter_mut().enumerate() {
                        if (24..32).contains(&i) || (36..44).contains(&i) {
                            *byte = 0;
                        }
                    }
                }
                _ => {}
            }
            prop_assert_eq!(event, back);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        read(&bytes);
    }

    #[test]
    fn a_cut_recording_gives_all_before_the_cut(list in events(20), at in any::<prop::sample::Index>()) {
        let bytes = encode(keep(), &list);
        let at = at.index(bytes.len() + 1);
        let (back, reader) = read(&bytes[..at]);
        prop_assert!(list.starts_with(&back));
        prop_assert_eq!(at == bytes.len(), back.len() == list.len() && reader.problems().count() == 0);
    }

    #[test]
    fn flipped_bits_cost_what_they_hit(
        list in events(20),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
    ) {
        let mut bytes = encode(keep(), &list);
        if !bytes.is_empty() {
            for (at, bit) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
        }
        let (back, _) = read(&bytes);
        // Made-up seconds and the note about them aside, damage adds nothing; a long MAD may
        // come as its segments of 200 bytes.
        let packets = |mad: &Mad| if mad.len() <= 256 { 1 } else { mad.len().div_ceil(200) };
        let count = |events: &[Event]| -> usize {
            let size = |what: &What| match what {
                What::Tick | What::Note { .. } | What::Opened(_) => 0,
                What::Sent(Sent { mad, .. }) | What::Received(Received { mad, .. }) => packets(mad),
                What::Known(k) => packets(&k.request) + packets(&k.reply),
                _ => 1,
            };
            events.iter().map(|e| size(&e.what)).sum()
        };
        prop_assert!(count(&back) <= count(&list));
    }
}

#[test]
fn damage_in_the_middle_costs_one_packet() {
    let mut script = Script::new();
    script.discover();
    for i in 0..50 {
        script.counters(SWITCH, 2, 7, i * 1000);
    }
    let bytes = encode(keep(), &script.events);
    // The length of the block that holds the answer of round 20.
    let whole = read(&bytes).0;
    assert_eq!(whole, script.events);
    let blocks = blocks(&bytes);
    let (offset, _) = blocks[blocks.len() - 40];
    let mut damaged = bytes.clone();
    damaged[offset + 7] = 0x7F;
    let (back, reader) = read(&damaged);
    assert_eq!(back.len(), script.events.len() - 1);
    let problem = &reader.problems().list()[0];
    assert_eq!(problem.offset, offset as u64);
    assert_eq!(reader.problems().count(), 1, "{:?}", reader.problems());
}

/// Offset and type of each block, read as the pcapng specification has it.
fn blocks(bytes: &[u8]) -> Vec<(usize, u32)> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut list = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        list.push((at, word(at)));
        at += word(at + 4) as usize;
    }
    list
}

#[test]
fn concatenated_recordings_are_read_one_after_the_other() {
    let mut script = Script::new();
    script.counters(SWITCH, 2, 7, 1000);
    let one = encode(keep(), &script.events);
    let mut two = one.clone();
    // A torn tail in between: the last packet of the first lacks its end.
    two.truncate(two.len() - 10);
    two.extend(&one);
    let (back, reader) = read(&two);
    let n = script.events.len();
    assert_eq!(back.len(), 2 * n - 1);
    assert_eq!(back[n - 1..], script.events);
    assert_eq!(reader.problems().count(), 1);
    assert_eq!(reader.stats().sections, 2);
}

#[test]
fn a_section_of_the_other_byte_order_reads_the_same() {
    let mut script = Script::new();
    script.discover();
    script.counters(HOST, 1, 9, 5);
    let bytes = swap(&encode(keep(), &script.events));
    let (back, reader) = read(&bytes);
    assert_eq!(reader.problems().list(), &[]);
    assert_eq!(back, script.events);
}

/// The same section as a big-endian machine would have written it.
fn swap(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut turn = |at: usize, len: usize| out[at..at + len].reverse();
    let half = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 0;
    while at < bytes.len() {
        let (kind, len) = (word(at), word(at + 4) as usize);
        turn(at, 4);
        turn(at + 4, 4);
        turn(at + len - 4, 4);
        let mut option = match kind {
            0x0A0D_0D0A => {
                turn(at + 8, 4);
                turn(at + 12, 2);
                turn(at + 14, 2);
                turn(at + 16, 8);
                at + 24
            }
            1 => {
                turn(at + 8, 2);
                turn(at + 12, 4);
                at + 16
            }
            _ => {
                for field in 0..5 {
                    turn(at + 8 + 4 * field, 4);
                }
                at + 28 + (word(at + 20) as usize).next_multiple_of(4)
            }
        };
        while option + 4 <= at + len - 4 {
            let (code, n) = (half(option), usize::from(half(option + 2)));
            turn(option, 2);
            turn(option + 2, 2);
            // Of packets: flags, drop count and id are numbers.
            if kind == 6 && matches!(code, 2 | 4 | 5) {
                turn(option + 4, n);
            }
            option += 4 + n.next_multiple_of(4);
        }
        at += len;
    }
    out
}

#[test]
fn an_event_too_long_for_a_frame_comes_in_parts() {
    let mut script = Script::new();
    let mut settings = Settings::default();
    for i in 0..10_000 {
        let name = format!("\"quoted\" \\ and ünïcode {i}");
        settings.names.insert(fabtop::fabric::Guid(i), name);
    }
    script.push(What::Settings(Box::new(settings)));
    let bytes = encode(keep(), &script.events);
    // tshark gives up on a file with a packet of more than 262,144 bytes.
    let lengths: Vec<usize> = blocks(&bytes).windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert!(lengths.iter().all(|len| *len < 262_144));
    assert_eq!(read(&bytes).0, script.events);
}

#[test]
fn gigantic_lengths_take_no_memory() {
    let mut script = Script::new();
    script.discover();
    let good = encode(keep(), &script.events);
    let mut bytes = good.clone();
    // A block that claims 4 GB, then the same recording again.
    bytes.extend([6, 0, 0, 0, 0xFC, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
    bytes.extend(&good);
    let (back, reader) = read(&bytes);
    assert_eq!(back.len(), 2 * script.events.len());
    assert_eq!(reader.problems().list()[0].offset, good.len() as u64);
}

#[test]
fn keys_are_blanked_unless_kept() {
    let mut script = Script::new();
    let mut get = Mad::smp_lid(Method::Get, PortInfo::ID, 1, 0);
    get.set_m_key(0x1122_3344_5566_7788);
    let sent = script.ask(Address::smp(7), Default::default(), get);
    let mut info = PortInfo::new();
    info.set_m_key(0x1122_3344_5566_7788);
    script.answer(Address::smp(7), Mad::reply(&sent.view(), &info));
    let key = 0x1122_3344_5566_7788u64.to_be_bytes();
    let holds = |bytes: &[u8]| bytes.windows(8).filter(|w| *w == key).count();
    assert_eq!(holds(&encode(keep(), &script.events)), 3);
    assert_eq!(holds(&encode(Options::default(), &script.events)), 0);
}

#[test]
fn a_capture_of_another_program_gives_its_mads() {
    let mut script = Script::new();
    script.discover();
    script.counters(HOST, 1, 9, 5);
    let recorded = encode(keep(), &script.events);
    // As ibdump writes it: classic pcap, nanoseconds, link type 197; each packet with an ERF
    // header of 16 bytes, type 21 at byte 8, before its LRH.
    let mut pcap = Vec::new();
    for word in [0xA1B2_3C4Du32, 0x0004_0002, 0, 0, 65_535, 197] {
        pcap.extend(word.to_le_bytes());
    }
    let mut put = |secs: u32, kind: u8, packet: &[u8]| {
        let len = packet.len() as u32 + 16;
        for word in [secs, 0, len, len] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend([0; 8]);
        pcap.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        pcap.extend(packet);
    };
    let mut secs = 100;
    for (at, kind) in blocks(&recorded) {
        // Packets of the first interface, behind the 20 bytes of link type 252's tags.
        if kind == 6 && recorded[at + 8] == 0 {
            put(secs, 21, &recorded[at + 28 + 20..at + 28 + 310]);
            secs += 1;
        }
    }
    // Ethernet in ERF; a packet cut short; an RC packet (opcode 4).
    put(secs, 2, &[0; 60]);
    put(secs, 21, &[0, 2, 0, 1, 0, 72, 0, 2, 0x64, 0]);
    let mut rc = vec![0, 2, 0, 1, 0, 72, 0, 2, 4];
    rc.resize(300, 0);
    put(secs, 21, &rc);

    let (back, reader) = read(&pcap);
    assert_eq!(reader.problems().list(), &[]);
    let stats = reader.stats();
    assert_eq!(
        (stats.mads, stats.other, stats.cut, stats.guessed),
        (8, 2, 1, 4)
    );
    let mads = |events: &[Event]| -> Vec<Mad> {
        let mads = events.iter().filter_map(|e| match &e.what {
            What::Sent(s) => Some(s.mad.clone()),
            What::Received(r) => Some(r.mad.clone()),
            _ => None,
        });
        mads.collect()
    };
    assert_eq!(mads(&back), mads(&script.events));
    // One a second, from the first packet on: seven seconds passed.
    let ticks = back.iter().filter(|e| e.what == What::Tick).count();
    assert_eq!(ticks, 7);
    let numbers: Vec<u64> = back.iter().map(|e| e.seq).collect();
    assert_eq!(numbers, (0..back.len() as u64).collect::<Vec<_>>());
}
