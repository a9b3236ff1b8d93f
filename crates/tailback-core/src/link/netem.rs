//! Jitter as in Linux's netem: each packet's delay is drawn independently, so packets overtake each other.
//!
//! Law: a packet that leaves at t arrives at t + max(0, D + x), D being the link's delay. With σ the `jitter` in nanoseconds and r
//! a random number of 32 bits, x is
//! - uniform: (r mod 2σ) − σ, from −σ to below σ, standard deviation σ/√3;
//! - by a table of 4096 values of 1/8192 (`normal`, `pareto`): σ × table[r mod 4096], rounded to whole nanoseconds. The tables hold
//!   quantiles, cut at ±4: of the normal distribution with mean 0 and deviation 1; of (p^(−1/3) − 3/2)·4/3 with p uniform in
//!   (0, 1], Pareto's with exponent 3.
//!
//! With a correlation of c, r = (1 − c)·(a new number) + c·(the last r), in 32 bits. The law takes r modulo 2σ or 4096,
//! that is, its low bits, in which almost nothing of the last r is left unless 2σ is near 2³² ns = 4.3 s. So netem's
//! delays are almost uncorrelated whatever c is, and so are these.
//!
//! Source: Linux 6.1 net/sched/sch_netem.c (`tabledist`, `get_crandom`); iproute2 netem/, the programs that write `normal.dist` and
//! `pareto.dist`; tc-netem(8), delay.
//!
//! Differs from the source:
//! - The random numbers are this run's.
//! - netem's own `limit` of 1000 packets does not exist; netem's `rate`, which makes it keep packets in order, is the
//!   link's rate here.

use std::sync::Arc;

use crate::math;
use crate::rng::Stream;
use crate::scenario::{Distribution, NetemSpec};
use crate::time::{Duration, Time};

/// Number of values in a table.
const SIZE: usize = 4096;
/// The table value that represents one jitter.
const SCALE: i64 = 8192;
/// The largest jitter that netem takes: its field is a signed integer of 32 bits, in nanoseconds.
pub const LARGEST: Duration = Duration::from_ns(i32::MAX as u64);

/// Delays drawn independently per packet.
#[derive(Clone, Debug)]
pub struct NetemJitter {
    /// Standard deviation in nanoseconds.
    sigma: i64,
    table: Option<Arc<[i16]>>,
    /// Correlation: share of the last number in the next, in units of 2⁻³²; zero: none.
    rho: u64,
    last: u64,
    stream: Stream,
}

impl NetemJitter {
    /// Builds the jitter of `spec`, drawing from `stream`.
    pub fn new(spec: &NetemSpec, mut stream: Stream) -> Self {
        let table = match spec.distribution {
            Distribution::Uniform => None,
            Distribution::Normal => Some(normal()),
            Distribution::Pareto => Some(pareto()),
        };
        // tc encodes a share as a 32-bit number; the kernel adds one.
        let share = (spec.correlation * f64::from(u32::MAX)).round() as u64;
        let rho = if share == 0 { 0 } else { share + 1 };
        let last = stream.bits() >> 32;
        NetemJitter { sigma: (spec.jitter_ps / 1000) as i64, table, rho, last, stream }
    }

    fn random(&mut self) -> u64 {
        let value = self.stream.bits() >> 32;
        if self.rho == 0 {
            return value;
        }
        let mixed = u128::from(value) * ((1 << 32) - u128::from(self.rho))
            + u128::from(self.last) * u128::from(self.rho);
        self.last = (mixed >> 32) as u64;
        self.last
    }

    /// Draws the next deviation from the link's delay, in nanoseconds.
    fn deviation(&mut self) -> i64 {
        let random = self.random() as i64;
        match &self.table {
            None => random % (2 * self.sigma) - self.sigma,
            Some(table) => {
                let quantile = i64::from(table[random as usize % SIZE]);
                let rest = self.sigma % SCALE * quantile;
                let half = if rest >= 0 { SCALE / 2 } else { -SCALE / 2 };
                (rest + half) / SCALE + self.sigma / SCALE * quantile
            }
        }
    }

    /// Arrival of a packet that left at `at` and would arrive at `due` without jitter.
    pub fn arrival(&mut self, at: Time, due: Time) -> Time {
        let deviation = self.deviation();
        let span = Duration::from_ns(deviation.unsigned_abs());
        if deviation >= 0 { due + span } else { at + due.since(at).saturating_sub(span) }
    }
}

/// A table value, limited to sixteen bits.
fn cut(value: f64) -> i16 {
    (value * SCALE as f64).round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16
}

fn pareto() -> Arc<[i16]> {
    let place = |index: usize| (SIZE - index) as f64 / SIZE as f64;
    (0..SIZE).map(|index| cut((1.0 / math::cbrt(place(index)) - 1.5) * 4.0 / 3.0)).collect()
}

/// Step width of the program that writes `normal.dist` along the distribution.
const STEP: f64 = 0.000_05;
/// Start of the distribution in the program that writes `normal.dist`.
const FIRST: f64 = -10.0;

fn normal() -> Arc<[i16]> {
    // Quantiles increase, so Newton's iteration for each starts at the previous one.
    let mut x = -4.5;
    (0..SIZE)
        .map(|index| {
            // The eighth: the program counts in quarters of an entry, and takes the last step that rounds to one.
            let p = (index as f64 + 0.125) / SIZE as f64;
            for _ in 0..100 {
                let density = math::exp(-0.5 * x * x) / (2.0 * std::f64::consts::PI).sqrt();
                let step = (probability_below(x, density) - p) / density;
                // In the tails the tangent overshoots the solution.
                x -= step.clamp(-0.5, 0.5);
                if step.abs() < 1e-9 {
                    break;
                }
            }
            cut(((x - FIRST) / STEP).floor() * STEP + FIRST)
        })
        .collect()
}

/// Φ(x), by its series ½ + φ(x)·(x + x³/3 + x⁵/15 + …), whose terms have one sign.
fn probability_below(x: f64, density: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    let mut odd = 1.0;
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + density * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jitter(distribution: Distribution, jitter_ms: u64, correlation: f64) -> NetemJitter {
        let spec = NetemSpec { jitter_ps: Duration::from_ms(jitter_ms).as_ps(), distribution, correlation };
        NetemJitter::new(&spec, Stream::named(1, "jitter"))
    }

    fn deviations(of: &mut NetemJitter, n: usize) -> Vec<f64> {
        (0..n).map(|_| of.deviation() as f64 / of.sigma as f64).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / values.len() as f64;
        (mean, square.sqrt())
    }

    /// Correlation of each value with the next.
    fn autocorrelation(values: &[f64]) -> f64 {
        let (mean, deviation) = moments(values);
        let products = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
        products.sum::<f64>() / (values.len() - 1) as f64 / (deviation * deviation)
    }

    #[test]
    fn tables_are_those_of_iproute2() {
        // First, last and some values between of normal.dist and pareto.dist as Debian ships them.
        let (normal, pareto) = (normal(), pareto());
        assert_eq!(normal[..5], [-32768, -28307, -26871, -25967, -25298]);
        assert_eq!(normal[4091..], [24888, 25450, 26164, 27159, 28858]);
        assert_eq!(normal[2046..2050], [-9, -5, 0, 5]);
        assert_eq!(pareto[..5], [-5461, -5460, -5460, -5459, -5458]);
        assert_eq!(pareto[4095], 32767);
        // All of them: their sum, and the sum of each times its place.
        let sums = |table: &[i16]| {
            let values = (1..).zip(table).map(|(place, value)| (i64::from(*value), place));
            values.fold((0, 0), |(sum, by_place), (value, place)| (sum + value, by_place + place * value))
        };
        assert_eq!(sums(&normal), (-26_163, 38_718_192_955));
        assert_eq!(sums(&pareto), (-1_123_786, 22_904_699_865));
    }

    #[test]
    fn deviations_have_the_moments_of_their_distribution() {
        let n = 200_000;
        // Mean and deviation by theory or from the table; the mean of n draws is known to deviation/√n: five of them.
        let of_table = |table: Arc<[i16]>| {
            let values: Vec<f64> = table.iter().map(|value| f64::from(*value) / SCALE as f64).collect();
            moments(&values)
        };
        for (distribution, (mean, deviation)) in [
            (Distribution::Uniform, (0.0, 1.0 / 3f64.sqrt())),
            (Distribution::Normal, of_table(normal())),
            (Distribution::Pareto, of_table(pareto())),
        ] {
            let values = deviations(&mut jitter(distribution, 10, 0.0), n);
            let (seen_mean, seen_deviation) = moments(&values);
            assert!((seen_mean - mean).abs() < 5.0 * deviation / (n as f64).sqrt(), "{distribution:?}");
            assert!((seen_deviation / deviation - 1.0).abs() < 0.02, "{distribution:?}");
        }
        let (mean, deviation) = of_table(normal());
        assert!(mean.abs() < 1e-3 && (deviation - 1.0).abs() < 1e-3, "{mean} {deviation}");
    }

    #[test]
    fn uniform_deviations_stay_within_the_jitter() {
        let values = deviations(&mut jitter(Distribution::Uniform, 10, 0.0), 100_000);
        assert!(values.iter().all(|x| (-1.0..1.0).contains(x)));
        // A tenth of them in each tenth: √(n·0.1·0.9) = 95, five of them.
        for tenth in 0..10 {
            let low = -1.0 + 0.2 * f64::from(tenth);
            let count = values.iter().filter(|x| (low..low + 0.2).contains(*x)).count();
            assert!(count.abs_diff(10_000) < 475, "{tenth}: {count}");
        }
    }

    #[test]
    fn a_packet_never_arrives_before_it_leaves() {
        let mut jitter = jitter(Distribution::Normal, 10, 0.0);
        let (at, due) = (Time::from_ms(100), Time::from_ms(105));
        let arrivals: Vec<Time> = (0..10_000).map(|_| jitter.arrival(at, due)).collect();
        assert!(arrivals.iter().all(|arrival| *arrival >= at));
        // Those drawn half a jitter or more below the mean: Φ(−½) = 0.3085, √(n p q) = 46.
        let at_once = arrivals.iter().filter(|arrival| **arrival == at).count();
        assert!(at_once.abs_diff(3085) < 230, "{at_once}");
    }

    #[test]
    fn a_correlation_reaches_the_delays_only_where_the_jitter_fills_the_number() {
        // 2σ is 4 s, nearly all of 2³² ns: a mixture of two numbers, as c says.
        let wide = deviations(&mut jitter(Distribution::Uniform, 2_147, 0.5), 100_000);
        assert!((autocorrelation(&wide) - 0.5).abs() < 0.05, "{}", autocorrelation(&wide));
        // 10 ms, and any table: low bits only. 1/√n = 0.003, five of them.
        for (distribution, ms) in [(Distribution::Uniform, 10), (Distribution::Normal, 2_147)] {
            let narrow = deviations(&mut jitter(distribution, ms, 0.5), 100_000);
            assert!(autocorrelation(&narrow).abs() < 0.016, "{}", autocorrelation(&narrow));
        }
    }
}
