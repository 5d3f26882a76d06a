//! Numbers that look random and depend on nothing but a seed.

/// One round of splitmix64: a well mixed function of its argument.
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of numbers from a seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed ^ 0xfab0_0000))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        unit(self.next())
    }

    /// True with this probability. Draws only if it can matter, so that an unused fault does not
    /// shift the numbers of all others.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }
}

/// A hash as a number from 0 up to but not including 1.
pub fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

/// Sine and cosine of an angle in turns, from additions and multiplications alone, so that a
/// seed gives the same counters on every machine. Good to 1e-10.
pub fn sin_cos_turns(turns: f64) -> (f64, f64) {
    let x = turns - turns.floor();
    let quadrant = (x * 4.0 + 0.5).floor();
    // Between -1/8 and 1/8 of a turn, as an angle.
    let y = (x - quadrant * 0.25) * std::f64::consts::TAU;
    let y2 = y * y;
    let sin = y
        * (1.0
            + y2 * (-1.0 / 6.0
                + y2 * (1.0 / 120.0
                    + y2 * (-1.0 / 5040.0 + y2 * (1.0 / 362_880.0 - y2 / 39_916_800.0)))));
    let cos = 1.0
        + y2 * (-0.5
            + y2 * (1.0 / 24.0
                + y2 * (-1.0 / 720.0
                    + y2 * (1.0 / 40_320.0 + y2 * (-1.0 / 3_628_800.0 + y2 / 479_001_600.0)))));
    match quadrant as u8 & 3 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_sine_is_the_platforms() {
        for i in -1000..1000 {
            let turns = f64::from(i) * 0.0173;
            let (sin, cos) = sin_cos_turns(turns);
            let want = (turns * std::f64::consts::TAU).sin_cos();
            assert!((sin - want.0).abs() < 1e-10, "{turns}: {sin} {want:?}");
            assert!((cos - want.1).abs() < 1e-10, "{turns}: {cos} {want:?}");
        }
    }
}
