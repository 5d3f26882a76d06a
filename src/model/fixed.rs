//! Hash maps that behave the same in every run.
//!
//! The standard hasher is seeded at random, so a map's order would differ between a live session
//! and its replay. This one has no seed. Keys come from the fabric, so an attacker could make
//! keys collide; the maps here are either bounded (requests in flight) or as large as the fabric.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map without a random seed.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// A multiplicative hash over words: a rotation, an exclusive or and a product a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);

impl Mix {
    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for Mix {
    #[inline]
    fn finish(&self) -> u64 {
        // The table takes its index from the low bits, the product mixes into the high ones.
        self.0 ^ self.0 >> 32
    }
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(0u64, |acc, b| acc << 8 | u64::from(*b));
            self.word(word ^ (chunk.len() as u64) << 56);
        }
    }
    #[inline]
    fn write_u8(&mut self, v: u8) {
        self.word(u64::from(v));
    }
    #[inline]
    fn write_u16(&mut self, v: u16) {
        self.word(u64::from(v));
    }
    #[inline]
    fn write_u32(&mut self, v: u32) {
        self.word(u64::from(v));
    }
    #[inline]
    fn write_u64(&mut self, v: u64) {
        self.word(v);
    }
    #[inline]
    fn write_usize(&mut self, v: usize) {
        self.word(v as u64);
    }
}
