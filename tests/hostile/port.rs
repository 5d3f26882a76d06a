//! A port behind which nobody can be trusted: the simulated fabric, with what comes from it
//! changed, put off, repeated, redirected and added to.

use std::collections::VecDeque;
use std::time::Duration;

use fabtop::mad::{Mad, Method, MgmtClass, Status};
use fabtop::port::*;
use fabtop::sim::SimPort;

/// xorshift64: an attack is repeated by its seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.roll() >> 11) % n
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.roll() as u8;
        }
    }
}

/// Descriptions that must never be shown as they are.
pub const NAMES: [&[u8]; 10] = [
    b"\x1b[2J\x1b[31m\x1b]0;owned\x07\x1b[?1049l",
    b"\x9b31m\x90q\x9c\x84\x85",
    "a\u{202e}gnp.exe\u{2066}\u{2069}\u{200b}\u{feff}b".as_bytes(),
    &[0xFF; 64],
    b"\r\n\n\ttwo\nlines\r\x08\x08\x0b\x0c",
    "e\u{301}\u{301}\u{301}\u{301}\u{301} \u{1f468}\u{200d}\u{1f469} \u{fe0f}\u{e0041}".as_bytes(),
    "\u{4e2d}\u{6587}\u{540d}\u{79f0}\u{4e2d}\u{6587}\u{540d}\u{79f0}\u{4e2d}\u{6587}".as_bytes(),
    b"\"},{\"a\":\"\\u0000\\",
    b"\x00hidden",
    "\u{2028}\u{2029}\u{85}\u{ad}\u{34f}\u{180e}\u{115f}\u{3164}\u{ffa0}\u{17b4}".as_bytes(),
];

/// What is done, one bit each.
pub mod attack {
    pub const NODE: u32 = 1 << 0;
    pub const PORT: u32 = 1 << 1;
    pub const NAME: u32 = 1 << 2;
    pub const TABLES: u32 = 1 << 3;
    pub const COUNTERS: u32 = 1 << 4;
    pub const SA: u32 = 1 << 5;
    pub const TWICE: u32 = 1 << 6;
    pub const LATE: u32 = 1 << 7;
    pub const MISDIRECTED: u32 = 1 << 8;
    pub const NOTICES: u32 = 1 << 9;
    pub const NOISE: u32 = 1 << 10;
    pub const STATUS: u32 = 1 << 11;
    pub const GARBAGE: u32 = 1 << 12;
    pub const CHANGING: u32 = 1 << 13;
    pub const CONTRADICTING: u32 = NODE | PORT | MISDIRECTED | GARBAGE | CHANGING;
    pub const ALL: u32 = (1 << 14) - 1;
}

pub struct Hostile {
    pub inner: SimPort,
    pub dice: Dice,
    pub attacks: u32,
    /// One reply in so many is attacked.
    pub one_in: u64,
    held: VecDeque<(Stamp, Arrival)>,
    next_noise: Stamp,
}

const NODE_DESCRIPTION: u16 = 0x10;
const NODE_INFO: u16 = 0x11;
const SWITCH_INFO: u16 = 0x12;
const PORT_INFO: u16 = 0x15;

impl Hostile {
    pub fn new(inner: SimPort, seed: u64, attacks: u32, one_in: u64) -> Hostile {
        Hostile {
            inner,
            dice: Dice(seed | 1),
            attacks,
            one_in,
            held: VecDeque::new(),
            next_noise: Stamp::from_secs(1),
        }
    }

    fn does(&mut self, attack: u32) -> bool {
        self.attacks & attack != 0 && self.dice.below(self.one_in) == 0
    }

    fn hold(&mut self, at: Stamp, arrival: Arrival) {
        let place = self.held.partition_point(|(other, _)| *other <= at);
        self.held.insert(place, (at, arrival));
    }

    fn odd_guid(&mut self) -> u64 {
        let any = self.dice.roll();
        self.dice
            .pick(&[0, 1, u64::MAX, 0x0002_c903_0000_0001, any])
    }

    fn spoil(&mut self, mad: &mut Mad) {
        let smp = mad.class().is_smp();
        match (mad.class(), mad.attr_id()) {
            (_, NODE_INFO) if smp && self.does(attack::NODE) => {
                let which = self.dice.below(5);
                let guid = self.odd_guid();
                let number = self.dice.pick(&[0, 1, 2, 36, 64, 254, 255]);
                let kind = self.dice.pick(&[0, 1, 2, 3, 4, 0xFF]);
                let data = &mut mad.bytes_mut()[64..];
                match which {
                    0 => data[12..20].copy_from_slice(&guid.to_be_bytes()),
                    1 => data[3] = number,
                    2 => data[2] = kind,
                    3 => data[36] = number,
                    _ => {
                        data[20..28].copy_from_slice(&guid.to_be_bytes());
                        data[3] = number;
                        data[2] = kind;
                    }
                }
            }
            (_, NODE_INFO) if smp && self.does(attack::CHANGING) && self.dice.below(8) == 0 => {
                let guid = self.dice.roll();
                mad.bytes_mut()[64 + 12..64 + 20].copy_from_slice(&guid.to_be_bytes());
            }
            (_, NODE_DESCRIPTION) if smp && self.does(attack::NAME) => {
                let name = self.dice.pick(&NAMES);
                let mut bytes = [0; 64];
                let n = name.len().min(64);
                bytes[..n].copy_from_slice(&name[..n]);
                if self.dice.below(4) == 0 {
                    self.dice.fill(&mut bytes);
                }
                mad.bytes_mut()[64..128].copy_from_slice(&bytes);
            }
            (_, PORT_INFO) if smp && self.does(attack::PORT) => {
                let lid = self.dice.pick(&[0u16, 1, 2, 3, 0xBFFF, 0xC000, 0xFFFF]);
                let from = self.dice.below(60) as usize;
                let value = self.dice.roll() as u8;
                let data = &mut mad.bytes_mut()[64..];
                match value % 4 {
                    0 => data[16..18].copy_from_slice(&lid.to_be_bytes()),
                    1 => data[18..20].copy_from_slice(&lid.to_be_bytes()),
                    2 => data[34] = value,
                    _ => data[from] = value,
                }
                if value % 16 == 9 {
                    self.dice.fill(&mut mad.bytes_mut()[64..128]);
                }
            }
            (_, SWITCH_INFO | 0x14 | 0x16..=0x1B | 0x20) if smp && self.does(attack::TABLES) => {
                self.dice.fill(&mut mad.bytes_mut()[64..128]);
            }
            (MgmtClass::Perf, _) if self.does(attack::COUNTERS) => {
                let port = self.dice.pick(&[0, 1, 2, 37, 0xFE, 0xFF]);
                if self.dice.below(2) == 0 {
                    self.dice.fill(&mut mad.bytes_mut()[64..]);
                } else {
                    mad.bytes_mut()[65] = port;
                }
            }
            (MgmtClass::SubnAdm, _) if self.does(attack::SA) => self.spoil_table(mad),
            _ => {}
        }
        if self.does(attack::STATUS) {
            let status = self
                .dice
                .pick(&[0, 1, 4, 8, 0xC, 0x1C, 0x100, 0x300, 0x7FFF, 0xFFFF]);
            mad.set_status(Status(status));
        }
        if self.does(attack::GARBAGE) {
            let tid = mad.tid();
            let head: Vec<u8> = mad.bytes()[..4].to_vec();
            let keep = self.dice.below(2) == 0;
            let from = if keep { 64 } else { 4 };
            let bytes = mad.bytes_mut();
            if bytes.len() > from {
                let (_, rest) = bytes.split_at_mut(from);
                self.dice.fill(rest);
            }
            mad.bytes_mut()[..4].copy_from_slice(&head);
            mad.set_tid(tid);
        }
    }

    /// A table that lies about itself: length of its records, length of all, segments.
    fn spoil_table(&mut self, mad: &mut Mad) {
        let n = self
            .dice
            .pick(&[24usize, 36, 56, 57, 100, 256, 5_000, 200_000]);
        let mut bytes = mad.bytes().to_vec();
        match self.dice.below(4) {
            0 => bytes.resize(n, 0xFF),
            1 if bytes.len() >= 56 => {
                let offset = self.dice.pick(&[0u16, 1, 2, 7, 0x7FFF, 0xFFFF]);
                bytes[44..46].copy_from_slice(&offset.to_be_bytes());
            }
            2 if bytes.len() >= 56 => {
                // Version, type, flags, status, segment number, payload length.
                self.dice.fill(&mut bytes[24..36]);
                bytes[24] = 1;
                bytes[25] = self.dice.below(6) as u8;
            }
            _ => {
                bytes.resize(n.max(56), 0);
                self.dice.fill(&mut bytes[56..]);
            }
        }
        if let Ok(changed) = Mad::from_bytes(&bytes) {
            *mad = changed;
        }
    }

    fn noise(&mut self, now: Stamp) {
        self.next_noise = now + Duration::from_millis(20);
        let addr = Address::gmp(self.dice.roll() as u16, 1, 0);
        if self.attacks & attack::NOTICES != 0 {
            for _ in 0..self.dice.below(6) {
                let mut bytes = [0; 256];
                self.dice.fill(&mut bytes[64..]);
                let class = self.dice.pick(&[0x01, 0x81, 0x03, 0x04]);
                let method = self.dice.pick(&[0x05, 0x06, 0x07, 0x01, 0x81, 0x02]);
                bytes[..4].copy_from_slice(&[1, class, if class == 3 { 2 } else { 1 }, method]);
                bytes[17] = 2;
                let trap = self
                    .dice
                    .pick(&[64u16, 65, 66, 67, 128, 129, 144, 256, 259, 7]);
                let data = if class == 3 { 56 } else { 64 };
                let generic = self.dice.below(3) > 0;
                bytes[data] = if generic { 0x80 } else { 0 } | (self.dice.roll() as u8 & 0x7F);
                bytes[data + 4..data + 6].copy_from_slice(&trap.to_be_bytes());
                bytes[8..16].copy_from_slice(&self.dice.roll().to_be_bytes());
                let n = self.dice.pick(&[256, 256, 256, 24, 60, 120]);
                self.hold(
                    now,
                    Arrival::Mad {
                        addr,
                        mad: Mad::from_bytes(&bytes[..n]).unwrap(),
                    },
                );
            }
        }
        if self.attacks & attack::NOISE != 0 {
            let mut bytes = vec![0; self.dice.pick(&[24, 63, 256, 256, 300, 5_000])];
            self.dice.fill(&mut bytes);
            let mad = Mad::from_bytes(&bytes).unwrap();
            self.hold(now, Arrival::Mad { addr, mad });
            let malformed = Arrival::Malformed {
                len: usize::MAX,
                why: "\x1b[31mnonsense\n".to_owned(),
                head: bytes[..24].to_vec(),
            };
            self.hold(now, malformed);
            let tid = self.dice.roll() as u32;
            let class = self.dice.pick(&[0x81, 1, 3, 4, 0xEE]);
            self.hold(
                now,
                Arrival::Unanswered {
                    tid,
                    class,
                    errno: -7,
                },
            );
        }
    }
}

impl MadPort for Hostile {
    fn source(&self) -> Source {
        self.inner.source()
    }

    fn agents(&self) -> Vec<AgentReport> {
        self.inner.agents()
    }

    fn local(&mut self, now: Stamp) -> Result<LocalPort, PortError> {
        self.inner.local(now)
    }

    fn send(&mut self, now: Stamp, out: &Outgoing) -> Result<(), PortError> {
        self.inner.send(now, out)
    }

    fn recv(&mut self, now: Stamp) -> Result<Option<Arrival>, PortError> {
        if self.attacks & (attack::NOISE | attack::NOTICES) != 0 && now >= self.next_noise {
            self.noise(now);
        }
        if self.held.front().is_some_and(|(at, _)| *at <= now) {
            return Ok(self.held.pop_front().map(|(_, arrival)| arrival));
        }
        let Some(arrival) = self.inner.recv(now)? else {
            return Ok(None);
        };
        let Arrival::Mad { mut addr, mut mad } = arrival else {
            return Ok(Some(arrival));
        };
        if mad.is_response() {
            self.spoil(&mut mad);
        }
        if self.does(attack::MISDIRECTED) {
            match self.dice.below(5) {
                0 => addr.lid = self.dice.roll() as u16,
                1 => drop(mad.set_tid(mad.tid() ^ 1)),
                2 => drop(mad.set_attr_id(self.dice.below(0x40) as u16)),
                3 => drop(mad.set_attr_mod(self.dice.roll() as u32)),
                _ => drop(mad.set_method(Method::new(self.dice.roll() as u8))),
            }
        }
        if self.does(attack::TWICE) {
            let at = now + Duration::from_micros(self.dice.below(5_000_000));
            let again = mad.clone();
            self.hold(at, Arrival::Mad { addr, mad: again });
        }
        if self.does(attack::LATE) {
            let at = now + Duration::from_millis(self.dice.below(8_000));
            self.hold(at, Arrival::Mad { addr, mad });
            return self.recv(now);
        }
        Ok(Some(Arrival::Mad { addr, mad }))
    }

    fn due(&self) -> Option<Stamp> {
        let noisy = self.attacks & (attack::NOISE | attack::NOTICES) != 0;
        [
            self.inner.due(),
            self.held.front().map(|(at, _)| *at),
            noisy.then_some(self.next_noise),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn reopen(&mut self) -> Result<(), PortError> {
        self.inner.reopen()
    }
}
