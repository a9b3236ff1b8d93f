//! Distributions for traffic models, based on a uniform stream.

use crate::math;
use crate::rng::Stream;

/// e^z/(1 + e^z).
pub fn logistic(z: f64) -> f64 {
    1.0 / (1.0 + math::exp(-z))
}

/// ln Γ(x) for x > 0: Stirling's series after lifting x above 10, where its first omitted term is below 10⁻¹³.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 10.0 {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse
        * (1.0 / 12.0
            - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    const HALF_LN_TAU: f64 = 0.918_938_533_204_672_7;
    (x - 0.5) * math::ln(x) - x + HALF_LN_TAU + series - math::ln(product)
}

/// Weibull with this shape and scale, from the probability of exceeding it.
pub fn weibull_exceeded_by(upper: f64, shape: f64, scale: f64) -> f64 {
    scale * math::powf(-math::ln(upper), 1.0 / shape)
}

/// Weibull with this shape and scale.
pub fn weibull(stream: &mut Stream, shape: f64, scale: f64) -> f64 {
    weibull_exceeded_by(1.0 - stream.uniform(), shape, scale)
}

/// Gamma with this shape, at least one, and scale one: Marsaglia and Tsang, ACM TOMS 26(3), 2000.
pub fn gamma(stream: &mut Stream, normal: &mut Normal, shape: f64) -> f64 {
    assert!(shape >= 1.0, "their method is for shapes from one on");
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let z = normal.draw(stream);
        let root = 1.0 + c * z;
        let v = root * root * root;
        if v > 0.0 && math::ln(1.0 - stream.uniform()) < 0.5 * z * z + d - d * v + d * math::ln(v) {
            return d * v;
        }
    }
}

/// The probability that a standard normal exceeds x, to about 10⁻¹⁵ absolutely and 10⁻¹² relatively.
pub fn normal_upper(x: f64) -> f64 {
    const INVERSE_SQRT_TAU: f64 = 0.398_942_280_401_432_7;
    let density = INVERSE_SQRT_TAU * math::exp(-0.5 * x * x);
    if x.abs() < 3.0 {
        // Φ(x) = ½ + φ(x)·(x + x³/3 + x⁵/(3·5) + …).
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term.abs() > 1e-17 {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // Laplace's continued fraction, from the inside out; 60 levels are plenty beyond 3.
    let far = x.abs();
    let fraction = (1..=60).rev().fold(far, |inner, level| far + f64::from(level) / inner);
    let tail = density / fraction;
    if x > 0.0 { tail } else { 1.0 - tail }
}

/// Standard normal numbers, by Marsaglia's polar method: logarithm and square root only.
#[derive(Clone, Debug, Default)]
pub struct Normal {
    spare: Option<f64>,
}

impl Normal {
    /// Draws the next value.
    pub fn draw(&mut self, stream: &mut Stream) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (a, b) = (2.0 * stream.uniform() - 1.0, 2.0 * stream.uniform() - 1.0);
            let square = a * a + b * b;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * math::ln(square) / square).sqrt();
                self.spare = Some(b * factor);
                return a * factor;
            }
        }
    }
}

/// A curve through points by straight lines, the first and last of them continued beyond their ends.
#[derive(Clone, Copy, Debug)]
pub struct Curve(pub &'static [(f64, f64)]);

impl Curve {
    /// Its value at x.
    pub fn at(&self, x: f64) -> f64 {
        let after = self.0.partition_point(|(knot, _)| *knot <= x).clamp(1, self.0.len() - 1);
        let ((x0, y0), (x1, y1)) = (self.0[after - 1], self.0[after]);
        y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    }
}

/// Number of lags in [`LongMemory`].
const LAGS: usize = 256;

/// Standard normal numbers with long memory: fractional ARIMA(0, d, 0), each number added to the previous one, plus
/// white noise, scaled to variance 1.
///
/// Law: xₜ = Σ φⱼ·xₜ₋ⱼ + εₜ with φ by the Durbin–Levinson recursion, exact up to lag 256; yₜ = xₜ + xₜ₋₁.
/// Source: Hosking, "Modeling Persistence in Hydrological Time Series Using Fractional Differencing", Water
/// Resources Research 20(12), 1984; Cao et al., INFOCOM 2004.
#[derive(Clone, Debug)]
pub struct LongMemory {
    // φ from the longest lag to the shortest, to run along `past`.
    weights: Box<[f64; LAGS]>,
    // The last LAGS numbers stored twice, so that every window of them is contiguous.
    past: Vec<f64>,
    at: usize,
    innovation: f64,
    scale: f64,
    noise: f64,
    normal: Normal,
}

impl LongMemory {
    /// `d`: memory parameter in (0, ½); `noise_share`: share of white noise in the variance.
    pub fn new(d: f64, noise_share: f64, stream: &mut Stream) -> Self {
        let mut normal = Normal::default();
        let mut phi = vec![0.0; LAGS + 1];
        let mut x = vec![normal.draw(stream)];
        let mut variance = 1.0;
        for t in 1..=LAGS {
            let last = d / (t as f64 - d);
            let before = phi.clone();
            for j in 1..t {
                phi[j] = before[j] - last * before[t - j];
            }
            phi[t] = last;
            variance *= 1.0 - last * last;
            let mean: f64 = (1..=t).map(|j| phi[j] * x[t - j]).sum();
            x.push(mean + f64::sqrt(variance) * normal.draw(stream));
        }
        let past: Vec<f64> = x[1..].iter().chain(&x[1..]).copied().collect();
        LongMemory {
            weights: Box::new(std::array::from_fn(|place| phi[LAGS - place])),
            past,
            at: 0,
            innovation: variance.sqrt(),
            // Var(xₜ + xₜ₋₁) = 2 + 2ρ₁ with ρ₁ = d/(1 − d).
            scale: ((1.0 - noise_share) / (2.0 + 2.0 * d / (1.0 - d))).sqrt(),
            noise: noise_share.sqrt(),
            normal,
        }
    }

    /// Draws the next value.
    pub fn draw(&mut self, stream: &mut Stream) -> f64 {
        let window = &self.past[self.at..self.at + LAGS];
        let sums = four_sums(&self.weights, window.try_into().expect("a window of all lags"));
        let before = window[LAGS - 1];
        let x = (sums[0] + sums[1]) + (sums[2] + sums[3]) + self.innovation * self.normal.draw(stream);
        (self.past[self.at], self.past[self.at + LAGS]) = (x, x);
        self.at = (self.at + 1) % LAGS;
        self.scale * (x + before) + self.noise * self.normal.draw(stream)
    }
}

/// Dot product in four parallel sums. The order of additions is fixed, and the processor need not wait for each. Arrays
/// of known length let the compiler add two numbers at a time without bounds checks.
#[inline]
fn four_sums(weights: &[f64; LAGS], past: &[f64; LAGS]) -> [f64; 4] {
    let mut sums = [0.0; 4];
    // Sixteen products per iteration, because the loop overhead is a quarter of the products' cost.
    for first in (0..LAGS).step_by(16) {
        for four in (first..first + 16).step_by(4) {
            for lane in 0..4 {
                sums[lane] += weights[four + lane] * past[four + lane];
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_sums_are_those_of_one_number_after_the_other() {
        let mut stream = Stream::named(1, "sums");
        let mut numbers = || std::array::from_fn::<f64, LAGS, _>(|_| stream.uniform() - 0.5);
        let (weights, past) = (numbers(), numbers());
        let lane =
            |lane: usize| (lane..LAGS).step_by(4).fold(0.0, |sum, place| sum + weights[place] * past[place]);
        assert_eq!(four_sums(&weights, &past).map(f64::to_bits), [0, 1, 2, 3].map(|it| lane(it).to_bits()));
    }

    #[test]
    fn gamma_and_normal_have_their_known_values() {
        assert!((ln_gamma(1.0)).abs() < 1e-13);
        assert!((ln_gamma(0.5) - 0.572_364_942_924_700_1).abs() < 1e-13);
        assert!((ln_gamma(11.0) - math::ln(3_628_800.0)).abs() < 1e-12);
        for (x, upper) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931_457_05),
            (2.999_999_9, 0.001_349_898_474_8),
            (3.0, 0.001_349_898_031_630_094_5),
            (6.0, 9.865_876_450_376_98e-10),
            (-2.0, 0.977_249_868_051_820_8),
            (-4.0, 0.999_968_328_758_166_9),
        ] {
            assert!((normal_upper(x) / upper - 1.0).abs() < 1e-9, "{x}: {} {upper}", normal_upper(x));
        }
    }

    #[test]
    fn curves_go_on_straight_beyond_their_ends() {
        let curve = Curve(&[(0.0, 1.0), (1.0, 3.0), (2.0, 4.0)]);
        assert_eq!(
            [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 4.0].map(|x| curve.at(x)),
            [-1.0, 1.0, 2.0, 3.0, 3.5, 4.0, 6.0]
        );
    }

    #[test]
    fn long_memory_has_unit_variance_and_remembers() {
        let (d, noise) = (0.33, 0.2);
        let mut stream = Stream::named(1, "memory");
        let n = 200_000;
        let mut memory = LongMemory::new(d, noise, &mut stream);
        let draws: Vec<f64> = (0..n).map(|_| memory.draw(&mut stream)).collect();
        let covariance =
            |lag: usize| (0..n - lag).map(|t| draws[t] * draws[t + lag]).sum::<f64>() / (n - lag) as f64;
        // ρ of fractional noise by its recursion; of the sums of neighbours by addition.
        let mut rho = vec![1.0];
        for k in 1..40 {
            rho.push(rho[k - 1] * (k as f64 - 1.0 + d) / (k as f64 - d));
        }
        let summed =
            |lag: usize| (2.0 * rho[lag] + rho[lag.abs_diff(1)] + rho[lag + 1]) / (2.0 + 2.0 * rho[1]);
        // Long memory makes averages converge as n^(d − ½), so a wide but telling margin.
        assert!((covariance(0) - 1.0).abs() < 0.06, "{}", covariance(0));
        for lag in [1, 5, 30] {
            let expected = (1.0 - noise) * summed(lag);
            assert!((covariance(lag) - expected).abs() < 0.06, "lag {lag}: {} {expected}", covariance(lag));
            assert!(expected > 0.1);
        }
    }

    #[test]
    fn gamma_has_its_mean_and_variance() {
        let mut stream = Stream::named(1, "gamma");
        let (mut normal, n) = (Normal::default(), 200_000);
        for shape in [1.0, 1.85, 3.22] {
            let draws: Vec<f64> = (0..n).map(|_| gamma(&mut stream, &mut normal, shape)).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(n);
            // Four standard errors: of the mean 0.9 % at shape 1, of the variance 2.6 %.
            assert!((mean / shape - 1.0).abs() < 0.01, "{shape}: {mean}");
            assert!((variance / shape - 1.0).abs() < 0.03, "{shape}: {variance}");
        }
    }

    #[test]
    fn weibull_has_its_mean() {
        let mut stream = Stream::named(1, "weibull");
        let (shape, n) = (0.63, 400_000);
        let mean = (0..n).map(|_| weibull(&mut stream, shape, 305.0)).sum::<f64>() / f64::from(n);
        let expected = 305.0 * math::exp(ln_gamma(1.0 + 1.0 / shape));
        // Coefficient of variation 1.66: four standard errors are 1.1 %.
        assert!((mean / expected - 1.0).abs() < 0.011, "{mean} {expected}");
    }
}
