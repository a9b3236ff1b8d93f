//! PackMime-HTTP: start times of web sessions, and the sizes of their requests and responses.
//!
//! Law, at r sessions a second (logistic λ(z) = eᶻ/(1 + eᶻ)):
//! - gaps are Weibull with shape λ(0.352 + 0.388·log₂ r) and mean 1/r, correlated through a Gaussian series of
//!   long memory (d = 0.33) with a share λ(0.333 + 0.414·log₂ r) of white noise;
//! - responses alternate in runs between cache validations (some 150 B) and downloads (heavy tail, index 1.23);
//!   a run lasts ⌈Weibull⌉ responses, shapes λ(0.718 + 0.357·log₂ r) and λ(1.293 + 0.316·log₂ r), scales 0.775
//!   and 3.11;
//! - requests follow a two-part curve through a Gaussian series (d = 0.31, noise λ(0.123 + 0.494·log₂ r));
//! - servers think for 1/max(10, Weibull(0.63, 305)) s.
//!
//! Source: Cao, Cleveland, Gao, Jeffay, Smith, Weigle, "Stochastic models for generating synthetic HTTP source
//! traffic", INFOCOM 2004, with the parameters of the authors' generator for ns-2.
//!
//! Differs from the source: the fitted size curves are reduced to the knots that keep them within 1 B or 2 % (mean
//! sizes change by at most 0.3 %). Memory covers 256 lags instead of 1000 and 5000. Each connection has one exchange
//! (no persistent connections), the source's default.

use super::draws::{Curve, LongMemory, ln_gamma, logistic, normal_upper, weibull, weibull_exceeded_by};
use crate::math;
use crate::rng::Stream;
use crate::time::{Bytes, Duration};

/// Bytes of a cache validation, by probability.
const VALIDATION: Curve = Curve(&[
    (0.0001, 4.64),
    (0.0203, 40.80),
    (0.0304, 53.01),
    (0.0405, 61.47),
    (0.0708, 69.69),
    (0.1011, 74.81),
    (0.1314, 93.57),
    (0.1617, 104.58),
    (0.2021, 112.75),
    (0.2627, 120.48),
    (0.6061, 150.49),
    (0.6566, 157.29),
    (0.6869, 165.02),
    (0.707, 172.70),
    (0.7576, 200.64),
    (0.8081, 214.42),
    (0.8788, 239.95),
    (0.9293, 261.54),
    (0.9596, 268.49),
    (1.0000, 272.23),
]);
/// log₂ of a download's bytes, as a function of log₂ of the probability that it is larger.
const DOWNLOAD: Curve = Curve(&[
    (-18.179, 25.877),
    (-5.694, 15.739),
    (-5.143, 15.378),
    (-4.959, 15.300),
    (-4.225, 15.098),
    (-4.041, 15.004),
    (-3.674, 14.693),
    (-2.940, 13.925),
    (-2.205, 13.344),
    (-2.022, 13.148),
    (-1.838, 12.900),
    (-1.654, 12.601),
    (-1.471, 12.251),
    (-1.287, 11.854),
    (-1.103, 11.413),
    (-0.736, 10.410),
    (-0.369, 9.289),
    (-0.002, 8.108),
]);
/// Bytes of the smaller half of the requests, as a function of the probability within that half.
const SMALL_REQUEST: Curve = Curve(&[
    (0.0000, 50.98),
    (0.0101, 93.82),
    (0.0202, 123.30),
    (0.0404, 168.81),
    (0.0505, 184.26),
    (0.0606, 193.95),
    (0.0909, 210.07),
    (0.1010, 217.62),
    (0.1313, 245.27),
    (0.1414, 253.06),
    (0.1616, 265.16),
    (0.1818, 273.75),
    (0.3333, 318.04),
    (0.3839, 329.99),
    (0.4344, 339.90),
    (0.5657, 360.71),
    (1.0000, 421.79),
]);
/// log₂ of the bytes of the larger half, as a function of log₂ of the probability, within it, that it is larger.
const LARGE_REQUEST: Curve = Curve(&[
    (-17.779, 19.758),
    (-3.598, 10.209),
    (-3.060, 9.935),
    (-2.342, 9.769),
    (-1.983, 9.647),
    (-0.906, 8.955),
    (-0.547, 8.827),
    (-0.008, 8.728),
]);
/// Limit on the size of objects, 1 TB: the tail's index sets none.
const LARGEST_LOG2: f64 = 40.0;
/// Limit on the server's processing time.
const SLOWEST_S: f64 = 0.1;

fn bytes_of(log2: f64) -> f64 {
    math::exp(log2.min(LARGEST_LOG2) * std::f64::consts::LN_2)
}

fn download(upper: f64) -> f64 {
    bytes_of(DOWNLOAD.at(math::log2(upper)))
}

fn large_request(upper: f64) -> f64 {
    bytes_of(LARGE_REQUEST.at(math::log2(upper)))
}

/// Mean of min(size, cap) for a curve over its upper-tail probability: integrates in log₂ p by the midpoint rule, down
/// to 2⁻⁵³, the smallest probability that a draw can have.
fn mean_below(size: fn(f64) -> f64, cap: f64) -> f64 {
    const STEP: f64 = 0.01;
    let steps = (53.0 / STEP) as u32;
    let at = |step: u32| {
        let upper = math::exp(-(f64::from(step) + 0.5) * STEP * std::f64::consts::LN_2);
        size(upper).min(cap) * upper
    };
    (0..steps).map(at).sum::<f64>() * STEP * std::f64::consts::LN_2
}

/// Mean of ⌈Weibull⌉: Σ P(X > n) over n = 0, 1, 2 …
fn mean_run(shape: f64, scale: f64) -> f64 {
    (0..).map(|n| math::exp(-math::powf(f64::from(n) / scale, shape))).take_while(|tail| *tail > 1e-12).sum()
}

/// A drawn session.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Session {
    /// Request payload, at least 1.
    pub request: Bytes,
    /// Response payload.
    pub response: Bytes,
    /// Server's processing time.
    pub thinks: Duration,
}

/// Generates sessions.
#[derive(Clone, Debug)]
pub struct PackMime {
    gap_shape: f64,
    gap_scale: f64,
    run_shapes: [f64; 2],
    is_download: bool,
    run: u64,
    // None: independent draws.
    memory: Option<Box<[LongMemory; 2]>>,
    cap: f64,
    // Each quantity has its own stream, so that a change of one model does not affect the others' draws.
    gaps: Stream,
    requests: Stream,
    responses: Stream,
    thinking: Stream,
}

const RUN_SCALES: [f64; 2] = [0.775, 3.11];

fn run_shapes(octaves: f64) -> [f64; 2] {
    [logistic(0.718 + 0.357 * octaves), logistic(1.293 + 0.316 * octaves)]
}

impl PackMime {
    /// Generates `rate` sessions per second; responses are cut to `cap` bytes.
    pub fn new(rate: f64, is_correlated: bool, cap: Option<Bytes>, seed: u64) -> Self {
        let octaves = math::log2(rate);
        let gap_shape = logistic(0.352 + 0.388 * octaves);
        let (mut gaps, mut requests) = (Stream::named(seed, "gaps"), Stream::named(seed, "requests"));
        let memory = is_correlated.then(|| {
            Box::new([
                LongMemory::new(0.33, logistic(0.333 + 0.414 * octaves), &mut gaps),
                LongMemory::new(0.31, logistic(0.123 + 0.494 * octaves), &mut requests),
            ])
        });
        PackMime {
            gap_shape,
            gap_scale: 1.0 / (rate * math::exp(ln_gamma(1.0 + 1.0 / gap_shape))),
            run_shapes: run_shapes(octaves),
            is_download: false,
            run: 0,
            memory,
            cap: cap.map_or(f64::INFINITY, |cap| cap as f64),
            gaps,
            requests,
            responses: Stream::named(seed, "responses"),
            thinking: Stream::named(seed, "thinking"),
        }
    }

    /// Mean payload of a request and of a response at this rate.
    pub fn means(rate: f64, cap: Option<Bytes>) -> (f64, f64) {
        let cap = cap.map_or(f64::INFINITY, |cap| cap as f64);
        let shapes = run_shapes(math::log2(rate));
        let [validations, downloads] = [0, 1].map(|state| mean_run(shapes[state], RUN_SCALES[state]));
        let share = downloads / (downloads + validations);
        let mean_over = |curve: Curve| {
            (0..10_000).map(|step| curve.at((f64::from(step) + 0.5) / 10_000.0)).sum::<f64>() / 10_000.0
        };
        let small = mean_over(VALIDATION).min(cap);
        let request = 0.5 * (mean_over(SMALL_REQUEST) + mean_below(large_request, f64::INFINITY));
        (request, share * mean_below(download, cap) + (1.0 - share) * small)
    }

    /// Draws the time until the next session begins.
    pub fn gap(&mut self) -> Duration {
        let upper = match &mut self.memory {
            Some(memory) => normal_upper(memory[0].draw(&mut self.gaps)).max(f64::MIN_POSITIVE),
            None => 1.0 - self.gaps.uniform(),
        };
        Duration::from_secs_f64(weibull_exceeded_by(upper, self.gap_shape, self.gap_scale))
    }

    /// Draws the next session.
    pub fn session(&mut self) -> Session {
        Session { request: self.request(), response: self.response(), thinks: self.thinks() }
    }

    fn request(&mut self) -> Bytes {
        let upper = match &mut self.memory {
            Some(memory) => normal_upper(memory[1].draw(&mut self.requests)).max(f64::MIN_POSITIVE),
            None => 1.0 - self.requests.uniform(),
        };
        let bytes =
            if upper < 0.5 { large_request(2.0 * upper) } else { SMALL_REQUEST.at(2.0 * (1.0 - upper)) };
        (bytes as Bytes).max(1)
    }

    fn response(&mut self) -> Bytes {
        if self.run == 0 {
            self.is_download = !self.is_download;
            let state = usize::from(self.is_download);
            let length = weibull(&mut self.responses, self.run_shapes[state], RUN_SCALES[state]);
            self.run = (length.ceil() as u64).max(1);
        }
        self.run -= 1;
        let upper = 1.0 - self.responses.uniform();
        let bytes = if self.is_download { download(upper) } else { VALIDATION.at(upper) };
        bytes.min(self.cap) as Bytes
    }

    fn thinks(&mut self) -> Duration {
        let speed = weibull(&mut self.thinking, 0.63, 305.0);
        Duration::from_secs_f64((1.0 / speed).min(SLOWEST_S))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantile(sorted: &[u64], q: f64) -> f64 {
        sorted[(q * (sorted.len() - 1) as f64) as usize] as f64
    }

    #[test]
    fn gaps_have_the_rate_and_the_weibull_shape() {
        for (rate, shape, scale) in [(125.0, 0.9550, 7.837e-3), (4000.0, 0.9933, 2.493e-4)] {
            for is_correlated in [false, true] {
                let mut source = PackMime::new(rate, is_correlated, None, 1);
                assert!(
                    (source.gap_shape - shape).abs() < 1e-4 && (source.gap_scale / scale - 1.0).abs() < 1e-3
                );
                let n = 200_000;
                let gaps: Vec<f64> = (0..n).map(|_| source.gap().as_secs_f64()).collect();
                let mean = gaps.iter().sum::<f64>() / f64::from(n);
                // Independent: four standard errors are 0.9 %; the memory's share (4 % at 125/s) adds as much.
                assert!((mean * rate - 1.0).abs() < 0.02, "{rate} {is_correlated}: {mean}");
                let beyond = gaps.iter().filter(|gap| **gap > 2.0 * scale).count() as f64 / f64::from(n);
                assert!((beyond - math::exp(-math::powf(2.0, shape))).abs() < 0.005, "{beyond}");
            }
        }
    }

    #[test]
    fn response_sizes_have_the_published_quantiles() {
        let mut source = PackMime::new(1000.0, true, None, 1);
        let mut by_state = [Vec::new(), Vec::new()];
        for _ in 0..1_000_000 {
            let bytes = source.response();
            by_state[usize::from(source.is_download)].push(bytes);
        }
        let [mut small, mut large] = by_state;
        small.sort_unstable();
        large.sort_unstable();
        let share = large.len() as f64 / 1e6;
        assert!((share - 0.725).abs() < 0.005, "{share}");
        for (q, bytes) in [(0.1, 74.0), (0.25, 118.0), (0.5, 140.0), (0.75, 197.0), (0.9, 249.0)] {
            assert!((quantile(&small, q) - bytes).abs() <= 3.0, "{q}: {}", quantile(&small, q));
        }
        for (q, bytes) in
            [(0.1, 386.0), (0.25, 691.0), (0.5, 2258.0), (0.75, 8895.0), (0.9, 20311.0), (0.99, 93108.0)]
        {
            assert!((quantile(&large, q) / bytes - 1.0).abs() < 0.03, "{q}: {}", quantile(&large, q));
        }
    }

    #[test]
    fn means_agree_with_the_model_and_with_the_draws() {
        let (request, response) = PackMime::means(4000.0, None);
        assert!((request / 584.0 - 1.0).abs() < 0.01, "{request}");
        assert!((response / 8644.0 - 1.0).abs() < 0.01, "{response}");
        // Cut at 1 MB the variance is finite: 0.725·9539 + 0.275·152 B, standard deviation some 35 kB.
        let (_, capped) = PackMime::means(4000.0, Some(1_000_000));
        assert!((capped / 6957.0 - 1.0).abs() < 0.01, "{capped}");
        let mut source = PackMime::new(4000.0, true, Some(1_000_000), 1);
        let n = 1_000_000;
        let drawn = (0..n).map(|_| source.response() as f64).sum::<f64>() / f64::from(n);
        assert!((drawn / capped - 1.0).abs() < 0.02, "{drawn} {capped}");
        let drawn = (0..n).map(|_| source.request() as f64).sum::<f64>() / f64::from(n);
        assert!((drawn / request - 1.0).abs() < 0.02, "{drawn} {request}");
    }

    #[test]
    fn servers_think_a_tenth_of_a_second_at_most() {
        let mut source = PackMime::new(10.0, false, None, 1);
        let thinking: Vec<Duration> = (0..10_000).map(|_| source.thinks()).collect();
        assert_eq!(thinking.iter().max().copied(), Some(Duration::from_ms(100)));
        let mut sorted = thinking;
        sorted.sort();
        // The median of Weibull(0.63, 305) is 305·(ln 2)^(1/0.63) = 170.5 a second.
        assert!((sorted[5000].as_secs_f64() * 170.5 - 1.0).abs() < 0.08, "{:?}", sorted[5000]);
    }

    #[test]
    fn absurd_rates_still_give_sessions() {
        for rate in [0.1, 1e6] {
            let mut source = PackMime::new(rate, true, Some(0), 1);
            for _ in 0..1000 {
                source.gap();
                assert_eq!(source.session().response, 0);
            }
        }
    }
}
