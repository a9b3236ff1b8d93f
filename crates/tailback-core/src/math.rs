//! exp, ln, log₂, powers and cube roots with identical results on every machine.
//!
//! The standard library uses the platform's C library, whose results differ in the last bit between platforms. These
//! functions use only IEEE 754 addition, subtraction, multiplication, division and exact bit operations, which round
//! identically everywhere; a golden hash pins their results. Relative errors stay below 10⁻¹⁵, a few units in the last
//! place (10⁻¹⁴ for powers at the ends of the exponent range).
//!
//! Method: textbook range reduction to a short interval, then the Taylor series of the function itself, taken
//! until the next term vanishes in double precision; powers carry the logarithm in two doubles
//! (T. J. Dekker, "A floating-point technique for extending the available precision", 1971).

/// ln 2, its first 32 bits: k·LN_2_HIGH is exact for any binary exponent k.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
/// ln 2 − LN_2_HIGH.
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// eˣ. Above 709.78 infinite, below −745.13 zero.
pub fn exp(x: f64) -> f64 {
    exp_of_sum(x, 0.0)
}

/// e^(x + small), where `small` is the part of the exponent that does not fit into x.
fn exp_of_sum(x: f64, small: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 710.0 {
        return f64::INFINITY;
    }
    if x < -746.0 {
        return 0.0;
    }
    // x = k·ln 2 + r with |r| ≤ ½ ln 2.
    let k = round_to_integer(x * std::f64::consts::LOG2_E);
    let r = (x - k as f64 * LN_2_HIGH) - k as f64 * LN_2_LOW + small;
    // r¹⁴/14! < 5·10⁻¹⁸. The leading 1 + r is added last, where it costs the least.
    const INVERSE_FACTORIALS: [f64; 12] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
    ];
    let tail = INVERSE_FACTORIALS.iter().fold(0.0, |sum, &c| sum * r + c);
    scale(1.0 + (r + r * r * tail), k)
}

/// Natural logarithm; NaN below zero, −∞ at zero.
pub fn ln(x: f64) -> f64 {
    match special_logarithm(x) {
        Some(answer) => answer,
        None => {
            let (high, low) = ln_in_two(x);
            high + low
        }
    }
}

/// Logarithm to base 2; exact for powers of two.
pub fn log2(x: f64) -> f64 {
    match special_logarithm(x) {
        Some(answer) => answer,
        None => {
            let (m, k) = mantissa_and_exponent(x);
            let (high, low) = ln_of_mantissa(m);
            k as f64 + (high + low) * std::f64::consts::LOG2_E
        }
    }
}

/// xʸ for x ≥ 0; NaN for negative x, whatever y is (no law needs it).
pub fn powf(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 || x.is_infinite() || y.is_infinite() {
        let grows = (x > 1.0) == (y > 0.0);
        return if grows { f64::INFINITY } else { 0.0 };
    }
    let (high, low) = ln_in_two(x);
    if (y * high).abs() > 800.0 {
        return if y * high > 0.0 { f64::INFINITY } else { 0.0 };
    }
    let (product, error) = exact_product(y, high);
    exp_of_sum(product, error + y * low)
}

/// Cube root, of negative numbers too.
pub fn cbrt(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let (m, k) = mantissa_and_exponent(x.abs());
    let thirds = k.div_euclid(3);
    let a = scale(m, k.rem_euclid(3));
    // a lies in [0.7, 5.7): start within 15 %, then Halley's iteration, which cubes the error each time.
    let mut t = 0.65 + 0.22 * a;
    for _ in 0..4 {
        let cube = t * t * t;
        t *= (cube + 2.0 * a) / (2.0 * cube + a);
    }
    // One Newton step from there leaves only its own rounding.
    t -= (t * t * t - a) / (3.0 * t * t);
    let root = scale(t, thirds);
    if x < 0.0 { -root } else { root }
}

fn special_logarithm(x: f64) -> Option<f64> {
    if x.is_nan() || x < 0.0 {
        Some(f64::NAN)
    } else if x == 0.0 {
        Some(f64::NEG_INFINITY)
    } else if x.is_infinite() {
        Some(x)
    } else {
        None
    }
}

/// ln x as the sum of two doubles, with a relative error of about 2⁻⁵⁹.
fn ln_in_two(x: f64) -> (f64, f64) {
    let (m, k) = mantissa_and_exponent(x);
    let (high, low) = ln_of_mantissa(m);
    let k = k as f64;
    let big = k * LN_2_HIGH;
    let (sum, error) = if k == 0.0 { (high, 0.0) } else { exact_sum(big, high) };
    (sum, error + (low + k * LN_2_LOW))
}

/// ln m for m in [√½, √2): 2 artanh(s) = 2(s + s³/3 + s⁵/5 + …) with s = (m − 1)/(m + 1), |s| < 0.172.
fn ln_of_mantissa(m: f64) -> (f64, f64) {
    let numerator = m - 1.0;
    let (denominator, denominator_error) = exact_sum(m, 1.0);
    let s = numerator / denominator;
    // What the division rounded away, recovered to first order.
    let (product, product_error) = exact_product(s, denominator);
    let s_low = ((numerator - product) - product_error - s * denominator_error) / denominator;
    let s2 = s * s;
    // s²⁴/25 < 2·10⁻²⁰: the series ends there.
    const ODD_INVERSES: [f64; 11] = [
        1.0 / 23.0,
        1.0 / 21.0,
        1.0 / 19.0,
        1.0 / 17.0,
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        1.0 / 5.0,
        1.0 / 3.0,
    ];
    let series = ODD_INVERSES.iter().fold(0.0, |sum, &c| sum * s2 + c);
    let (high, error) = exact_sum(2.0 * s, 2.0 * s * s2 * series);
    (high, error + 2.0 * s_low)
}

/// x = m·2ᵏ with m in [√½, √2), for positive finite x.
fn mantissa_and_exponent(x: f64) -> (f64, i64) {
    // A subnormal has no leading one; lift it by 2⁵⁴ first.
    let (x, lifted) = if x < f64::MIN_POSITIVE { (x * (1u64 << 54) as f64, 54) } else { (x, 0) };
    let bits = x.to_bits();
    let k = ((bits >> 52) & 0x7ff) as i64 - 1023 - lifted;
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m < std::f64::consts::SQRT_2 { (m, k) } else { (m * 0.5, k + 1) }
}

/// x·2ᵏ, rounded once where the result is subnormal.
fn scale(x: f64, k: i64) -> f64 {
    let power = |k: i64| f64::from_bits(((k + 1023) as u64) << 52);
    match k {
        -1022..=1023 => x * power(k),
        1024.. => x * power(1023) * power((k - 1023).min(1023)),
        // The first factor is exact, so only the second rounds.
        _ => x * power(-969) * power((k + 969).max(-1022)),
    }
}

/// a + b exactly, as rounded sum and error (Knuth).
fn exact_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_seen = sum - a;
    (sum, (a - (sum - b_seen)) + (b - b_seen))
}

/// a·b exactly, as rounded product and error (Dekker); both well inside the exponent range.
fn exact_product(a: f64, b: f64) -> (f64, f64) {
    let split = |x: f64| {
        let c = x * 134_217_729.0; // 2²⁷ + 1
        let high = c - (c - x);
        (high, x - high)
    };
    let product = a * b;
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    (product, ((ah * bh - product) + ah * bl + al * bh) + al * bl)
}

/// The nearest integer, halves away from zero.
fn round_to_integer(x: f64) -> i64 {
    (if x < 0.0 { x - 0.5 } else { x + 0.5 }) as i64
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the platform's functions are what ours are compared with")]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Positive numbers of every size a simulation meets, with many near one.
    fn sweep(n: usize) -> Vec<f64> {
        let mut stream = Stream::named(1, "math/sweep");
        (0..n)
            .map(|i| match i % 4 {
                0 => 1.0 + (stream.uniform() - 0.5) * 1e-3,
                1 => stream.uniform() * 10.0,
                2 => scale(1.0 + stream.uniform(), stream.below(120) as i64 - 60),
                _ => scale(1.0 + stream.uniform(), stream.below(2000) as i64 - 1000),
            })
            .collect()
    }

    #[track_caller]
    fn assert_within(bound: f64, ours: f64, theirs: f64, what: &str, x: f64) {
        let error = if ours == theirs { 0.0 } else { ((ours - theirs) / theirs).abs() };
        assert!(error < bound, "{what}({x:e}): {ours:e} against {theirs:e}, off by {error:e}");
    }

    #[track_caller]
    fn assert_close(ours: f64, theirs: f64, what: &str, x: f64) {
        assert_within(1e-15, ours, theirs, what, x);
    }

    #[test]
    fn agrees_with_the_platform_to_the_last_bits() {
        let mut exponents = Stream::named(1, "math/exponents");
        for x in sweep(100_000) {
            assert_close(ln(x), x.ln(), "ln", x);
            assert_close(log2(x), x.log2(), "log2", x);
            assert_close(cbrt(x), x.cbrt(), "cbrt", x);
            assert_close(cbrt(-x), -x.cbrt(), "cbrt", -x);
            let e = (exponents.uniform() - 0.5) * 1400.0;
            assert_close(exp(e), e.exp(), "exp", e);
            let small = (exponents.uniform() - 0.5) * 2.0;
            assert_close(exp(small), small.exp(), "exp", small);
            // Any exponent that keeps the result inside the normal range.
            let y = (exponents.uniform() - 0.5) * 1380.0 / x.ln();
            if y.is_finite() {
                assert_within(1e-14, powf(x, y), x.powf(y), "powf", x);
            }
            let y = (exponents.uniform() - 0.5) * 2.0;
            assert_close(powf(x, y), x.powf(y), "powf", x);
        }
    }

    #[test]
    fn edges_are_defined() {
        assert_eq!(
            [exp(0.0), ln(1.0), powf(5.0, 0.0), powf(1.0, 1e300), cbrt(0.0)],
            [1.0, 0.0, 1.0, 1.0, 0.0]
        );
        assert_eq!([exp(800.0), exp(-800.0), ln(0.0)], [f64::INFINITY, 0.0, f64::NEG_INFINITY]);
        assert_eq!(
            [powf(0.0, 2.0), powf(0.0, -2.0), powf(2.0, 2000.0), powf(2.0, -2000.0)],
            [0.0, f64::INFINITY, f64::INFINITY, 0.0]
        );
        assert_eq!([powf(0.5, f64::INFINITY), powf(0.5, f64::NEG_INFINITY)], [0.0, f64::INFINITY]);
        assert!(
            ln(-1.0).is_nan()
                && exp(f64::NAN).is_nan()
                && powf(-2.0, 2.0).is_nan()
                && cbrt(f64::NAN).is_nan()
        );
        assert_eq!(exp(709.7), 709.7f64.exp());
        assert_eq!(
            [ln(5e-324), cbrt(8.0), cbrt(27e9), log2(1024.0), log2(5e-324)],
            [5e-324f64.ln(), 2.0, 3000.0, 10.0, -1074.0]
        );
        assert_eq!(exp(-740.0), (-740.0f64).exp());
    }

    #[test]
    fn every_bit_is_pinned() {
        // Golden: FNV-1a over the bits of all results; the same on every machine and compiler.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for x in sweep(10_000) {
            for result in [ln(x), log2(x), cbrt(x), exp(ln(x) * 0.5), powf(x, 0.75), powf(x, -0.8)] {
                hash = (hash ^ result.to_bits()).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        assert_eq!(hash, 3_858_928_353_649_690_488);
    }
}
