//! Verdicts from measurements over several seeds; conditions, dossiers and Rust programs all use this code.

use tailback_core::math;

/// An estimate with its confidence interval. A single value has no interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub estimate: f64,
    /// The lower end; NaN for a single value.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The mean of independent finite values, with Student's confidence interval.
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

/// The confidence interval of the mean log ratio allows a fifth of the error probability of the mean's interval.
pub const RATIO_ERROR: f64 = 0.2;

/// On which side of zero the margins of runs lie: 1 the good side, -1 the bad side, 0 undecided at this confidence.
///
/// A margin says how far a run, or a pair of runs with one seed, lies on the good side. Three criteria decide; the second
/// and third need at least three margins, all on one side:
///
/// 1. The confidence interval of their mean (Student's t) lies on one side.
/// 2. The sign test: if half of all runs exceed a bound, `n` runs lie on one side of it with probability 2 / 2^n, which
///    is below 5 % from six runs on. It assumes no distribution, and applies to the median.
/// 3. The confidence interval of the mean logarithm of `ratios` (above 1 on the good side) excludes 1. This suits counts,
///    times and rates, which differ by factors: 600, 1,300 and 2,450 packets where 6 are allowed vary widely about their
///    mean, but little compared with a factor of hundreds. `RATIO_ERROR` makes this criterion stricter, so that it adds
///    little to the probability of a wrong verdict.
///
/// Near a bound, criteria 2 and 3 rarely decide a sample that criterion 1 leaves open (Python's tests draw such samples):
/// they serve for values far beyond it. `at_zero` is the side of a margin of exactly zero. With a margin that is not finite
/// the result is undecided; criterion 3 needs as many `ratios` as margins, all positive.
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

/// Quantile above one half of Student's distribution with an integer number of degrees of freedom.
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

/// Halves the angle three times and sums the series, so that all machines agree.
fn arctangent(x: f64) -> f64 {
    let halved = (0..4).fold(x, |x, _| x / (1.0 + (1.0 + x * x).sqrt()));
    let square = halved * halved;
    let series = (0..20).rev().fold(0.0, |sum, k| 1.0 / (2.0 * k as f64 + 1.0) - square * sum);
    16.0 * halved * series
}

/// The possible verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The condition holds.
    Passed,
    /// Undecided with the available seeds.
    Undecided,
    /// The condition does not hold.
    Failed,
}

impl Verdict {
    /// The printed word, also used by Python's `Verdict`.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Undecided => "undecided",
            Verdict::Failed => "failed",
        }
    }
}

/// How far the left side of a condition lies on the good side of its bounds, for one seed. `values` are the left side
/// and the bounds; `relation` is written as in the condition.
pub fn margin(relation: &str, values: &[f64]) -> f64 {
    let (above, below) = (values[0] - values[1], values[values.len() - 1] - values[0]);
    match relation {
        ">" | ">=" => above,
        "in" => above.min(below),
        _ => below,
    }
}

/// Index of the first row of `sides` that contains NaN; otherwise of the row that violates the condition most, or
/// satisfies it by the least.
pub fn worst(relation: &str, sides: &[Vec<f64>]) -> usize {
    let missing = sides.iter().position(|values| !values.iter().all(|value| value.is_finite()));
    let least = || {
        let margins = sides.iter().map(|values| margin(relation, values)).enumerate();
        margins.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place)
    };
    missing.unwrap_or_else(least)
}

/// The verdict on a condition, whose `sides` are the left side and the bounds by seed; `relation` is written as in the
/// condition. NaN fails: omitting it would hide the worst case.
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
    // Judge each bound separately: the mean may lie safely between two bounds while single seeds are on either side.
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
        // Six seeds on one side decide, however widely they vary.
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
        // A bound of zero has no ratio.
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
