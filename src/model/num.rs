//! Numbers that know their state.
//!
//! Reset, saturated, unknown and stale are states of a number, not numbers: a screen or a report
//! can never take one for a zero.

use serde::{Deserialize, Serialize};

/// A number with its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Num<T> {
    /// Never read, or the node does not have it.
    #[default]
    Unknown,
    /// As read within the last two intervals.
    Is(T),
    /// The counter is pegged at its maximum: the truth is this or more.
    AtLeast(T),
    /// Somebody reset the counter since the last sample: nothing can be said of the change.
    Reset,
    /// As last read, which is more than two intervals ago.
    Stale(T),
}

/// So many of something, in words: `1 switch`, `2 switches`.
pub fn so_many(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

impl<T: Copy> Num<T> {
    /// The number, if there is one: known, pegged or stale.
    pub fn get(self) -> Option<T> {
        match self {
            Num::Is(v) | Num::AtLeast(v) | Num::Stale(v) => Some(v),
            Num::Unknown | Num::Reset => None,
        }
    }

    /// The number, if it is current and exact.
    pub fn current(self) -> Option<T> {
        match self {
            Num::Is(v) => Some(v),
            _ => None,
        }
    }

    /// The same state with another number.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Num<U> {
        match self {
            Num::Unknown => Num::Unknown,
            Num::Reset => Num::Reset,
            Num::Is(v) => Num::Is(f(v)),
            Num::AtLeast(v) => Num::AtLeast(f(v)),
            Num::Stale(v) => Num::Stale(f(v)),
        }
    }

    /// The same number, marked as stale if `old`.
    pub fn aged(self, old: bool) -> Num<T> {
        match self {
            Num::Is(v) if old => Num::Stale(v),
            other => other,
        }
    }
}
