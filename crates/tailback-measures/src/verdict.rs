//! From what runs measured, seed by seed, to a verdict: the one judge of conditions, dossiers and Rust programs.

use tailback_core::math;

/// An estimate and the interval that holds the true value with the given confidence. No ends from one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub estimate: f64,
    /// The lower end; NaN of one value.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The mean of independent values that are finite, with Student's interval.
pub fn mean(values: &[f64], confidence: f64) -> Interval {
    let data: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let n = data.len() as f64;
    let estimate = data.iter().sum::<f64>() / n;
    if data.len() < 2 {
        return Interval { estimate, low: f64::NAN, high: f64::NAN };
    }
    if data.iter().all(|value| *value == data[0]) {
        return Interval { estimate: data[0], low: data[0], high: data[0] };
    }
    let squares: f64 = data.iter().map(|value| (value - estimate) * (value - estimate)).sum();
    let half = student(0.5 + confidence / 2.0, data.len() - 1) * (squares / (n - 1.0) / n).sqrt();
    Interval { estimate, low: estimate - half, high: estimate + half }
}

/// The interval of the ratios' mean logarithm leaves a fifth of the error that the interval of the mean may make.
pub const RATIO_ERROR: f64 = 0.2;

/// On which side of zero runs lie: 1 the good one, -1 the bad one, 0 not known with this confidence.
///
/// `margins` are how far each run, or pair of runs with one seed, lies on the good side. They decide in three ways, of
/// which the second and third need at least three margins, all on one side:
///
/// 1. The interval of their mean (Student's t) lies on one side.
/// 2. The sign test: `n` runs at a bound that half of all runs exceed lie on one side with a probability of 2 / 2^n,
///    which is below 5 % from six runs on. It assumes no distribution, and is of the median.
/// 3. The interval of the mean logarithm of `ratios` (above 1 on the good side) does not hold 1. For counts, times and
///    rates, which differ by factors: three seeds of 600, 1,300 and 2,450 packets where 6 are allowed spread widely about
///    their mean and little beside the factor of hundreds. Its confidence is higher, by `RATIO_ERROR`, so that a third
///    way of being right adds little to the chance of being wrong.
///
/// Near a bound the further ways decide hardly a sample that the first leaves open (Python's tests draw them): they are
/// for what is far beyond it. `at_zero` is the side of a margin of exactly nothing. Margins that are not finite count as
/// nothing known; so do `ratios` that are fewer than the margins, or not all above zero.
pub fn side(margins: &[f64], ratios: &[f64], confidence: f64, at_zero: i32) -> i32 {
    if !margins.iter().all(|margin| margin.is_finite()) {
        return 0;
    }
    let found = mean(margins, confidence);
    if found.low > 0.0 || (found.low == 0.0 && at_zero > 0) {
        return 1;
    }
    if found.high < 0.0 || (found.high == 0.0 && at_zero < 0) {
        return -1;
    }
    let sign = |margin: &f64| if *margin == 0.0 { at_zero } else { margin.signum() as i32 };
    let Some(first) = margins.first().map(sign) else { return 0 };
    if margins.len() < 3 || !margins.iter().all(|margin| sign(margin) == first) {
        return 0;
    }
    if 2.0 * 0.5_f64.powi(margins.len() as i32) <= 1.0 - confidence {
        return first;
    }
    if ratios.len() == margins.len() && ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0) {
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| math::ln(*ratio)).collect();
        let strict = mean(&logarithms, 1.0 - RATIO_ERROR * (1.0 - confidence));
        if strict.low > 0.0 || strict.high < 0.0 {
            return if strict.low > 0.0 { 1 } else { -1 };
        }
    }
    0
}

/// Quantile of Student's distribution with a whole number of degrees of freedom, above one half.
pub fn student(share: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while within(high, freedom) < 2.0 * share - 1.0 && high < 1e300 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if within(middle, freedom) < 2.0 * share - 1.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The probability between `-t` and `t`: Abramowitz and Stegun, 26.7.3 and 26.7.4, finite sums.
fn within(t: f64, freedom: usize) -> f64 {
    let n = freedom as f64;
    let squared = n / (n + t * t);
    let (cosine, sine) = (squared.sqrt(), t / (n + t * t).sqrt());
    if freedom % 2 == 0 {
        let (mut term, mut sum) = (1.0, 1.0);
        for k in (2..freedom).step_by(2) {
            term *= squared * (k as f64 - 1.0) / k as f64;
            sum += term;
        }
        return sine * sum;
    }
    let (mut term, mut sum) = (cosine, if freedom > 1 { cosine } else { 0.0 });
    for k in (3..freedom).step_by(2) {
        term *= squared * (k as f64 - 1.0) / k as f64;
        sum += term;
    }
    2.0 / std::f64::consts::PI * (arctangent(t / n.sqrt()) + sine * sum)
}

/// By three halvings of the angle and the series, so that every machine agrees.
fn arctangent(x: f64) -> f64 {
    let halved = (0..4).fold(x, |x, _| x / (1.0 + (1.0 + x * x).sqrt()));
    let square = halved * halved;
    let series = (0..20).rev().fold(0.0, |sum, k| 1.0 / (2.0 * k as f64 + 1.0) - square * sum);
    16.0 * halved * series
}

/// What a verdict may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The condition holds.
    Passed,
    /// Not known with the seeds there are.
    Undecided,
    /// It does not hold.
    Failed,
}

impl Verdict {
    /// The word that is printed, and that Python's `Verdict` has.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Undecided => "undecided",
            Verdict::Failed => "failed",
        }
    }
}

/// How far the left side of a condition lies on the good side of its bounds, of one seed. `values` are the left side
/// and the bounds, `relation` as it is written.
pub fn margin(relation: &str, values: &[f64]) -> f64 {
    let (above, below) = (values[0] - values[1], values[values.len() - 1] - values[0]);
    match relation {
        ">" | ">=" => above,
        "in" => above.min(below),
        _ => below,
    }
}

/// The first row of `sides` with a number that does not exist, else the row that is furthest from where the condition
/// holds.
pub fn worst(relation: &str, sides: &[Vec<f64>]) -> usize {
    let missing = sides.iter().position(|values| !values.iter().all(|value| value.is_finite()));
    let least = || {
        let margins = sides.iter().map(|values| margin(relation, values)).enumerate();
        margins.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place)
    };
    missing.unwrap_or_else(least)
}

/// The verdict on a condition of which `sides` are the left side and the bounds, by seed; `relation` as it is written.
/// A number that does not exist fails: left out it would hide the worst.
pub fn judge(relation: &str, sides: &[Vec<f64>], confidence: f64) -> Verdict {
    if sides.iter().flatten().any(|value| !value.is_finite()) {
        return Verdict::Failed;
    }
    let at_zero = if matches!(relation, "<" | ">") { -1 } else { 1 };
    let verdict = |relation: &str| {
        let margins: Vec<f64> = sides.iter().map(|values| margin(relation, values)).collect();
        match side(&margins, &[], confidence, at_zero) {
            1 => Verdict::Passed,
            -1 => Verdict::Failed,
            _ => Verdict::Undecided,
        }
    };
    // Each bound by itself: a mean may lie safely between two bounds of which single seeds are on either side.
    if relation == "in" { verdict(">=").max(verdict("<=")) } else { verdict(relation) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        for (share, freedom, expected) in [
            (0.975, 1, 12.706_204_736_432_095),
            (0.975, 2, 4.302_652_729_911_275),
            (0.975, 4, 2.776_445_105_197_799),
            (0.995, 9, 3.249_835_541_592_121),
            (0.975, 49, 2.009_575_237_129_239),
        ] {
            assert!(
                (student(share, freedom) - expected).abs() < 1e-9,
                "{share} {freedom} {}",
                student(share, freedom)
            );
        }
    }

    #[test]
    fn verdicts_need_seeds_that_agree() {
        let sides =
            |left: &[f64], bound: f64| left.iter().map(|value| vec![*value, bound]).collect::<Vec<_>>();
        assert_eq!(judge("<", &sides(&[9.0, 11.0], 50.0), 0.95), Verdict::Passed);
        assert_eq!(judge("<", &sides(&[9.0, 11.0], 10.0), 0.95), Verdict::Undecided);
        assert_eq!(judge(">", &sides(&[10.0, 10.0], 10.0), 0.95), Verdict::Failed);
        assert_eq!(judge(">=", &sides(&[10.0, 10.0], 10.0), 0.95), Verdict::Passed);
        assert_eq!(judge("<", &sides(&[9.0, f64::NAN], 50.0), 0.95), Verdict::Failed);
        // Six seeds on one side, however they spread.
        let spread = sides(&[1.0, 1.0, 1.0, 1.0, 1.0, 1e6], 0.5);
        assert_eq!(judge(">", &spread[..5], 0.95), Verdict::Passed);
        assert_eq!(judge(">", &spread, 0.95), Verdict::Passed);
        let inside: Vec<Vec<f64>> = [1.0, 1.1, 0.9].iter().map(|value| vec![*value, 0.5, 2.0]).collect();
        assert_eq!(judge("in", &inside, 0.95), Verdict::Passed);
    }

    #[test]
    fn factors_decide_what_spreads_too_widely_for_a_mean() {
        let packets = [600.0, 1300.0, 2450.0];
        let margins = packets.map(|count| 6.0 - count);
        assert_eq!(side(&margins, &[], 0.95, 1), 0);
        assert_eq!(side(&margins, &packets.map(|count| 6.0 / count), 0.95, 1), -1);
        // Below a bound of nothing there is no factor.
        assert_eq!(side(&margins, &[0.01, 0.01, 0.0], 0.95, 1), 0);
    }

    #[test]
    fn the_worst_seed_is_one_without_a_number_else_the_nearest_to_failing() {
        let sides = |left: &[f64]| left.iter().map(|value| vec![*value, 1.0, 3.0]).collect::<Vec<_>>();
        assert_eq!(worst("in", &sides(&[2.0, 2.9, 1.3])), 1);
        assert_eq!(worst(">", &sides(&[2.0, 2.9, 1.3])), 2);
        assert_eq!(worst("<", &sides(&[2.0, 2.0, 2.0])), 0);
        assert_eq!(worst("<", &sides(&[9.0, 2.0, f64::NAN])), 2);
        assert_eq!(worst(">", &sides(&[0.0, f64::INFINITY])), 1);
    }
}
