//! The keys that an operator may give: of no use to anybody in events, recordings or on screens,
//! and in none of them.

use std::fmt;

use super::core::Core;
use super::job::Ask;
use crate::mad::{Mad, secrets};

/// A key, which nothing prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// A key. 0 is no key.
    pub fn new(key: u64) -> Option<Key> {
        (key != 0).then_some(Key(key))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Core {
    /// Puts the M_Key into an SMP, and the SM_Key into a question for a whole table of the SA.
    ///
    /// An SA may ignore whoever gives a wrong SM_Key (opensm does). So what works without it does
    /// not get it: the subscription, service levels, what the SA is asked of a node that is
    /// silent. A table shows more with it: the SA keeps some from those whom it does not trust,
    /// and records of partitions that are not ours.
    pub(super) fn sign(&self, ask: Ask, mad: &mut Mad) {
        if let Some(Key(key)) = self.config.m_key
            && mad.class().is_smp()
        {
            mad.set_m_key(key);
        }
        if let (Some(Key(key)), Ask::Table(_)) = (self.config.sm_key, ask)
            && !self.is_key_ignored()
        {
            mad.set_sm_key(key);
        }
    }

    /// Takes out of a MAD what no event may tell.
    pub(super) fn hide_key(&self, mad: &mut Mad) {
        if self.config.m_key.is_some() || self.config.sm_key.is_some() {
            secrets::blank(mad);
        }
    }
}
