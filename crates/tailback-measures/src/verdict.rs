//! From what a condition's two sides were, seed by seed, to a verdict: Student's interval of the mean, and the sign test.

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

/// On which side of zero runs lie: 1 the good one, -1 the bad one, 0 not known with this confidence.
///
/// `margins` are how far each run, or pair of runs with one seed, lies on the good side. They decide in two ways:
///
/// 1. The interval of their mean lies on one side.
/// 2. The sign test: all of them lie on one side, which at a bound that half of all runs exceed has a probability of
///    2 / 2^n. It assumes no distribution, and is of the median.
///
/// `at_zero` is the side of a margin of exactly nothing. Margins that are not finite count as nothing known.
pub fn side(margins: &[f64], confidence: f64, at_zero: i32) -> i32 {
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
    let agree = margins.len() >= 3 && margins.iter().all(|margin| sign(margin) == first);
    if agree && 2.0 * 0.5_f64.powi(margins.len() as i32) <= 1.0 - confidence { first } else { 0 }
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

/// The verdict on a condition of which `sides` are the left side and the bounds, by seed; `relation` as it is written.
/// A number that does not exist fails: left out it would hide the worst.
pub fn judge(relation: &str, sides: &[Vec<f64>], confidence: f64) -> Verdict {
    if sides.iter().flatten().any(|value| !value.is_finite()) {
        return Verdict::Failed;
    }
    let at_zero = if matches!(relation, "<" | ">") { -1 } else { 1 };
    let verdict = |margin: &dyn Fn(&[f64]) -> f64| {
        let margins: Vec<f64> = sides.iter().map(|values| margin(values)).collect();
        match side(&margins, confidence, at_zero) {
            1 => Verdict::Passed,
            -1 => Verdict::Failed,
            _ => Verdict::Undecided,
        }
    };
    let lower = || verdict(&|values| values[0] - values[1]);
    let upper = || verdict(&|values| values[values.len() - 1] - values[0]);
    match relation {
        ">" | ">=" => lower(),
        "in" => lower().max(upper()),
        _ => upper(),
    }
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
}
