//! How many bit errors before correction a link's forward error correction can be trusted with.
//!
//! A Reed-Solomon code repairs up to `t` symbols of ten bits in a block, whatever is wrong in
//! them, and nothing beyond. Near its limit a little more noise is the difference between no
//! lost block in years and one a minute, so the limit says when to look at the cable.
//!
//! | code | where | t | trusted up to |
//! |--|--|--|--|
//! | RS(528,514) | "RS-FEC" up to EDR, one bit a symbol time | 7 | 9.6e-6 |
//! | RS(544,514) | "RS-FEC" from HDR on, PAM4 | 15 | 1.4e-4 |
//! | RS(271,257) | "LL-RS-FEC", low latency | 7 | 1.6e-5 |
//! | (2112,2080) | "FireCode" | a burst of 11 bits | 2e-8 |
//!
//! - The first two are the standard's own alarm: a receiver that does not mark what it cannot
//!   repair gives the link up once more than 417 symbols of 8,192 blocks are wrong with
//!   RS(528,514), 6,380 with RS(544,514) (IEEE 802.3, 91.5.3.3; the same numbers in Intel's
//!   F-tile and E-tile manuals, register `rsfec_lane_cfg`). 417 / (8192 · 5280 bits) = 9.6e-6 and
//!   6380 / (8192 · 5440) = 1.4e-4. With errors that come singly either means one lost block in
//!   two to three years of a 4x link.
//! - What the standard wants of an optical receiver is far above: 5e-5 (clause 95, 100GBASE-SR4)
//!   and 2.4e-4 (clause 124, 400GBASE-DR4), which already cost an EDR link a block each two
//!   minutes and an HDR link one in nine hours.
//! - No public number was found for RS(271,257): 1.6e-5 is the rate that costs as few blocks.
//! - FireCode repairs one burst a block. 2e-8 leaves 1e-12: two errors in the same 2,112 bits.
//!
//! Which mode has which code: `mlxlink`'s names for them (NVIDIA, mstflint).

use super::LinkSpeed;
use crate::mad::FecMode;

/// Bit errors before correction, by bits, that a link of this speed is trusted with in this mode
/// (`None`: it was not told). Nothing for a link without FEC, where every error counts, and where
/// the code is not known.
pub fn trusted_ber(mode: Option<FecMode>, speed: Option<LinkSpeed>) -> Option<f64> {
    const RS_528: f64 = 9.6e-6;
    const RS_544: f64 = 1.4e-4;
    const RS_271: f64 = 1.6e-5;
    const FIRE_CODE: f64 = 2e-8;
    let pam4 = speed? >= LinkSpeed::Hdr;
    match mode {
        Some(FecMode::Rs) if !pam4 => Some(RS_528),
        Some(FecMode::Rs | FecMode::Rs2) if pam4 => Some(RS_544),
        Some(FecMode::LlRs) => Some(RS_271),
        Some(FecMode::FireCode) => Some(FIRE_CODE),
        // PAM4 does not work without, and this is what every device has.
        None if pam4 => Some(RS_544),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of blocks of `n` symbols that have more than `t` wrong ones, if each of their
    /// bits is wrong with this probability: the binomial distribution's tail, term by term.
    fn lost(n: i32, t: i32, ber: f64) -> f64 {
        let p = 1.0 - (1.0 - ber).powi(10);
        let mut term = (1.0 - p).powi(n);
        let mut sum = 0.0;
        for k in 1..=t + 40 {
            term *= f64::from(n - k + 1) / f64::from(k) * p / (1.0 - p);
            if k > t {
                sum += term;
            }
        }
        sum
    }

    /// Years of 365.25 days until a link of four such lanes loses a block.
    fn years(n: i32, t: i32, ber: f64, lane_gbps: f64) -> f64 {
        let blocks_per_s = 4.0 * lane_gbps * 1e9 / (f64::from(n) * 10.0);
        1.0 / (lost(n, t, ber) * blocks_per_s) / 31_557_600.0
    }

    #[test]
    fn the_limits_of_reed_solomon_codes_are_the_standards_own() {
        let edr = trusted_ber(Some(FecMode::Rs), Some(LinkSpeed::Edr)).unwrap();
        let hdr = trusted_ber(Some(FecMode::Rs), Some(LinkSpeed::Hdr)).unwrap();
        // 417 of 8192 * 528 symbols are 9.64e-5, of ten bits each; 6380 of 8192 * 544 are 1.43e-3.
        assert!((edr / 9.64e-6 - 1.0).abs() < 0.01, "{edr}");
        assert!((hdr / 1.43e-4 - 1.0).abs() < 0.03, "{hdr}");
        // NDR and XDR carry the same code; so does a mode that was not told.
        for speed in [LinkSpeed::Ndr, LinkSpeed::Xdr] {
            assert_eq!(trusted_ber(Some(FecMode::Rs2), Some(speed)), Some(hdr));
            assert_eq!(trusted_ber(None, Some(speed)), Some(hdr));
        }
    }

    #[test]
    fn a_link_at_its_limit_loses_a_block_in_years_and_one_far_above_it_in_hours() {
        // The standard's optical receivers, as a check of the calculation: at 5e-5 one block in
        // 2.3e9 is lost (whose 8 wrong bits of 5,280 are 6.7e-13 of all), at 2.4e-4 one in 1.2e12.
        assert!((lost(528, 7, 5e-5) / 4.4e-10 - 1.0).abs() < 0.01);
        assert!((lost(544, 15, 2.4e-4) / 8.15e-13 - 1.0).abs() < 0.01);
        let ll = trusted_ber(Some(FecMode::LlRs), Some(LinkSpeed::Hdr)).unwrap();
        for (n, t, ber, lane) in [
            (528, 7, 9.6e-6, 25.78125),
            (544, 15, 1.4e-4, 53.125),
            (544, 15, 1.4e-4, 106.25),
            (271, 7, ll, 25.78125),
            (271, 7, ll, 53.125),
        ] {
            let years = years(n, t, ber, lane);
            assert!((1.0..5.0).contains(&years), "RS({n}) at {ber}: {years}");
        }
        // Ten times the limit.
        assert!(years(528, 7, 9.6e-5, 25.78125) * 8766.0 < 0.01);
    }

    #[test]
    fn no_limit_is_made_up() {
        // Without FEC every error counts; EDR may or may not have it; no speed, no code.
        assert_eq!(trusted_ber(Some(FecMode::None), Some(LinkSpeed::Edr)), None);
        assert_eq!(trusted_ber(None, Some(LinkSpeed::Edr)), None);
        assert_eq!(trusted_ber(Some(FecMode::Rs), None), None);
        assert_eq!(
            trusted_ber(Some(FecMode::new(9)), Some(LinkSpeed::Ndr)),
            None
        );
        // Two errors in 2,112 bits: 2112 * b * b errors a bit are left, 8.4e-13.
        let fire = trusted_ber(Some(FecMode::FireCode), Some(LinkSpeed::Fdr)).unwrap();
        assert!((2112.0 * fire * fire / 8.45e-13 - 1.0).abs() < 0.01);
    }
}
