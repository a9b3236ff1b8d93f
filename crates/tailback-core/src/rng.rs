//! Named random streams.
//!
//! A stream depends only on the run's seed and its own name, not on other streams, the order of draws or the number of
//! threads. Adding a flow therefore does not change other flows' numbers.
//!
//! The generator is xoshiro256++ 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS
//! 47(4), 2021); SplitMix64 fills its state, as the authors recommend. FNV-1a (Fowler, Noll and Vo) combines seed and
//! name. All three are implemented here, so that no update of a dependency can change a result.

use crate::math;
use crate::time::Duration;

/// A stream of random numbers: 32 bytes, copied by `clone`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    state: [u64; 4],
}

impl Stream {
    /// The stream called `name` in the run with this seed.
    pub fn named(seed: u64, name: &str) -> Self {
        Self::named_by(seed, [name])
    }

    /// As [`Self::named`], with the name in pieces.
    pub(crate) fn named_by<const N: usize>(seed: u64, name: [&str; N]) -> Self {
        // FNV-1a, 64 bit: offset basis and prime as published.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in seed.to_le_bytes().into_iter().chain(name.into_iter().flat_map(str::bytes)) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        // SplitMix64 never yields four zeros in a row, the one state xoshiro256++ cannot leave.
        let mut state = [0; 4];
        for word in &mut state {
            hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = hash;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *word = z ^ (z >> 31);
        }
        Stream { state }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), in steps of 2⁻⁵³.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability; 0 never, 1 always.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// As [`Self::chance`], for draws per packet.
    #[inline]
    pub fn hits(&mut self, odds: Odds) -> bool {
        self.bits() >> 11 < odds.0
    }

    /// Uniform in 0..n, without bias (Lemire, "Fast random integer generation in an interval", 2019).
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0) has no answer");
        let mut product = u128::from(self.bits()) * u128::from(n);
        if (product as u64) < n {
            // 2⁶⁴ mod n of the 2⁶⁴ values must be rejected, to avoid bias.
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(self.bits()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform between zero and `span`, both included; no draw when `span` is zero.
    #[inline]
    pub fn duration_up_to(&mut self, span: Duration) -> Duration {
        if span.is_zero() {
            return Duration::ZERO;
        }
        Duration::from_ps(match span.as_ps().checked_add(1) {
            Some(n) => self.below(n),
            None => self.bits(),
        })
    }

    /// Exponential with this mean, by inversion.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 − u lies in (0, 1], so the logarithm is finite.
        -mean * math::ln(1.0 - self.uniform())
    }
}

/// A probability in steps of [`Stream::uniform`]: the number of values out of 2⁵³ that hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Odds(u64);

impl Odds {
    /// The odds of a probability between 0 and 1: the number of values of [`Stream::uniform`] below it.
    pub fn of(probability: f64) -> Self {
        // Exact, because only the exponent changes.
        let steps = probability * (1u64 << 53) as f64;
        let whole = steps as u64;
        Odds(whole + u64::from((whole as f64) < steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_gives_the_published_sequence() {
        // State 1, 2, 3, 4: first outputs of the authors' reference generator.
        let mut stream = Stream { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| stream.bits()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn streams_depend_on_seed_and_name_only() {
        let mut lone = Stream::named(7, "flow/voip/start");
        let mut other = Stream::named(7, "flow/bulk/start");
        let mut again = Stream::named(7, "flow/voip/start");
        let mut reseeded = Stream::named(8, "flow/voip/start");
        let numbers: Vec<u64> = (0..100).map(|_| lone.bits()).collect();
        let interleaved: Vec<u64> = (0..100)
            .map(|_| {
                other.bits();
                again.bits()
            })
            .collect();
        assert_eq!(numbers, interleaved);
        assert_ne!(numbers[0], other.bits());
        assert_ne!(numbers[0], reseeded.bits());
    }

    #[test]
    fn a_name_pins_its_numbers() {
        // Golden: results on disk replay only while this holds.
        let mut stream = Stream::named(1, "link/down/loss");
        assert_eq!([stream.bits(), stream.bits()], [7_746_335_094_316_379_544, 7_769_778_068_692_592_656]);
        assert_eq!(Stream::named_by(1, ["link/", "down", "/loss"]), Stream::named(1, "link/down/loss"));
    }

    #[test]
    fn uniform_and_below_are_flat() {
        let mut stream = Stream::named(1, "flat");
        let mut sum = 0.0;
        let mut counts = [0u32; 10];
        let n = 100_000;
        for _ in 0..n {
            let u = stream.uniform();
            assert!((0.0..1.0).contains(&u));
            sum += u;
            counts[stream.below(10) as usize] += 1;
        }
        // Mean of n uniforms: standard deviation 1/√(12 n) = 0.0009; four of them.
        assert!((sum / f64::from(n) - 0.5).abs() < 0.0037);
        // χ² with 9 degrees of freedom exceeds 27.9 once in a thousand.
        let expected = f64::from(n) / 10.0;
        let chi2: f64 =
            counts.iter().map(|&c| (f64::from(c) - expected) * (f64::from(c) - expected) / expected).sum();
        assert!(chi2 < 27.9, "{chi2}");
    }

    #[test]
    fn odds_are_the_chance_that_they_stand_for() {
        let cut = 1.0 / (1u64 << 53) as f64;
        for p in [0.0, 1e-300, cut, 1.5 * cut, 1e-6, 0.01, 0.1, 1.0 / 3.0, 0.5, 1.0 - cut, 1.0] {
            let mut streams = [Stream::named(1, "odds"), Stream::named(1, "odds")];
            let odds = Odds::of(p);
            for _ in 0..1_000 {
                let [one, other] = &mut streams;
                assert_eq!(one.hits(odds), other.chance(p), "{p}");
            }
            // Just at the bound as well: the last number that hits, and the first that does not.
            let below = |number: u64| number as f64 * cut < p;
            assert!((odds.0 == 0 || below(odds.0 - 1)) && (odds.0 == 1 << 53 || !below(odds.0)), "{p}");
        }
    }

    #[test]
    fn chance_zero_never_and_one_always() {
        let mut stream = Stream::named(1, "chance");
        assert!((0..10_000).all(|_| !stream.chance(0.0)));
        assert!((0..10_000).all(|_| stream.chance(1.0)));
    }

    #[test]
    fn exponential_has_its_mean_and_its_median() {
        let mut stream = Stream::named(3, "exponential");
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| stream.exponential(4.0)).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let below_median = draws.iter().filter(|&&x| x < 4.0 * std::f64::consts::LN_2).count();
        // Standard errors: 4/√n = 0.009 and ½/√n = 0.0011; four of each.
        assert!((mean - 4.0).abs() < 0.036, "{mean}");
        assert!((below_median as f64 / f64::from(n) - 0.5).abs() < 0.0045);
    }

    #[test]
    fn durations_stay_within_their_span() {
        let mut stream = Stream::named(3, "durations");
        let span = Duration::from_ps(3);
        let mut seen = [false; 4];
        for _ in 0..200 {
            seen[stream.duration_up_to(span).as_ps() as usize] = true;
        }
        assert_eq!(seen, [true; 4]);
        let untouched = stream.clone();
        assert_eq!(stream.duration_up_to(Duration::ZERO), Duration::ZERO);
        assert_eq!(stream, untouched);
    }
}
