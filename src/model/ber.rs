//! Bit error rates, in the link's words: `1.2e-12`, or `<7e-15` where none was seen.
//!
//! A rate is errors over bits carried: the link's signalling rate (per lane, before any coding),
//! times its lanes, times the time between two samples. A link always carries bits, idle or
//! not, so this is what the wire did, and not what was asked of it.
//!
//! - The *raw* rate, before correction. With RS-FEC every corrected symbol (10 bits) was counted
//!   that had a wrong bit, so one error a symbol: PortFECCorrectedSymbolCtr, or the sum over the
//!   lanes where the device counts only there. With FireCode one error a corrected block. Without
//!   FEC the errors that each lane detects.
//! - The *effective* rate, after correction: what could not be repaired, one error an
//!   uncorrectable block. It is a lower bound, and shown as one ("at least"), since such a block
//!   has more than one wrong bit: at least 8 with RS(528,514), 16 with RS(544,514).
//! - No error in n bits is no rate of zero: it is below one in n, and shown so.
//!
//! Sources: the counters of PortExtendedSpeedsCounters (InfiniBand Architecture Specification,
//! volume 1, 16.1.4.12); RS(528,514) and RS(544,514) with 10-bit symbols (IEEE 802.3 clauses 91
//! and 119, which InfiniBand's RS-FEC follows); the rate as errors by bits transferred (NVIDIA,
//! ibdiagnet user manual, "Bit Error Rate").

use std::fmt;

use super::Num;

/// A bit error rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Ber {
    /// Not known: not read twice, not counted, or reset in between.
    #[default]
    Unknown,
    /// So many errors a bit.
    Is(f64),
    /// This or more: a counter was pegged, or what was counted has several errors each.
    AtLeast(f64),
    /// No error in as many bits as make this the limit.
    Below(f64),
}

impl Ber {
    /// Of errors counted while `bits` were carried.
    pub fn of(errors: Num<u64>, bits: f64) -> Ber {
        if !(bits.is_finite() && bits >= 1.0) {
            return Ber::Unknown;
        }
        match errors {
            Num::Is(0) | Num::Stale(0) => Ber::Below(1.0 / bits),
            Num::Is(n) | Num::Stale(n) => Ber::Is(n as f64 / bits),
            Num::AtLeast(n) if n > 0 => Ber::AtLeast(n as f64 / bits),
            Num::AtLeast(_) | Num::Unknown | Num::Reset => Ber::Unknown,
        }
    }

    /// The number, and what it is: `at_least`, `below`, or nothing.
    pub fn get(self) -> Option<(f64, &'static str)> {
        match self {
            Ber::Unknown => None,
            Ber::Is(v) => Some((v, "")),
            Ber::AtLeast(v) => Some((v, "at_least")),
            Ber::Below(v) => Some((v, "below")),
        }
    }
}

/// As an operator says it; nothing for an unknown one.
impl fmt::Display for Ber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Ber::Unknown => Ok(()),
            Ber::Is(v) => write!(f, "{v:.1e}"),
            Ber::AtLeast(v) => write!(f, ">={v:.1e}"),
            // Rounded up, or it would promise more than was seen.
            Ber::Below(v) => {
                let power = v.log10().floor();
                let digit = (v / 10f64.powf(power) - 1e-9).ceil();
                match digit >= 10.0 {
                    true => write!(f, "<1e{}", power + 1.0),
                    false => write!(f, "<{digit}e{power}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_by_bits() {
        // 255 errors in 10 s of 4x HDR: 4 * 53.125e9 bit/s * 10 s = 2.125e12 bits; 1.2e-10.
        assert_eq!(Ber::of(Num::Is(255), 2.125e12).to_string(), "1.2e-10");
        assert_eq!(
            Ber::of(Num::AtLeast(255), 2.125e12).to_string(),
            ">=1.2e-10"
        );
        assert_eq!(Ber::of(Num::Reset, 2.125e12), Ber::Unknown);
        assert_eq!(Ber::of(Num::Unknown, 2.125e12).to_string(), "");
        assert_eq!(Ber::of(Num::Is(7), 0.0), Ber::Unknown);
        assert_eq!(Ber::of(Num::Is(7), f64::NAN), Ber::Unknown);
    }

    #[test]
    fn no_error_is_below_a_bound_and_never_zero() {
        // 1 / 2.125e12 = 4.7e-13, rounded up.
        assert_eq!(Ber::of(Num::Is(0), 2.125e12).to_string(), "<5e-13");
        assert_eq!(Ber::of(Num::Is(0), 1e15).to_string(), "<1e-15");
        assert_eq!(Ber::of(Num::Is(0), 1.04e15).to_string(), "<1e-15");
        assert_eq!(Ber::of(Num::Is(0), 0.96e15).to_string(), "<2e-15");
    }
}
