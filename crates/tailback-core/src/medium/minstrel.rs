//! Minstrel rate control: uses the rate with the highest recent throughput, and occasionally probes another.
//!
//! Law: every 100 ms the fraction p of frames delivered at a rate since the last update enters a moving average with
//! weight 1/4. A rate's throughput is min(p, 0.9)/t, where t is the time of a frame with its part of the overhead;
//! below p = 0.1 it is 0. Transmissions use the rate of highest throughput, after two consecutive failures the second,
//! and after four the one of highest delivery probability. One transmission in ten is a probe: a single frame at
//! another rate. A rate slower than the most probable one is probed only every 20th time.
//!
//! Source: Linux 5.10 rc80211_minstrel_ht.c (averages, the limit of 90 %, slower rates skipped 20 times), and ath9k
//! xmit.c (a probe is one frame alone). Xia, Hart and Fu, "Evaluation of the Minstrel rate adaptation algorithm in IEEE
//! 802.11g WLANs", ICC 2013.

use crate::rng::Stream;
use crate::time::{Duration, Time};

/// Interval between updates of the averages.
const INTERVAL: Duration = Duration::from_ms(100);
/// Weight of the newest fraction in the average: 1 − EWMA_LEVEL/EWMA_DIV, 32 of 128.
const NEWEST: f64 = 0.25;
/// Transmissions per probe: the 10 % of Minstrel's documentation.
const PROBE_EVERY: u32 = 10;
/// How often the probe of a rate slower than the most probable one is skipped.
const SKIPS: u32 = 20;
/// Frame size in bytes for comparing rates: AVG_PKT_SIZE.
const TYPICAL: f64 = 1200.0;
/// Consecutive failures before the next rate of the chain is used.
const TRIES_EACH: u32 = 2;

#[derive(Clone, Copy, Default, Debug)]
struct Record {
    attempts: u32,
    successes: u32,
    probability: f64,
    is_known: bool,
    skipped: u32,
}

/// Rate control of a link.
#[derive(Clone, Debug)]
pub struct Minstrel {
    mbps: Vec<f64>,
    overhead_us: f64,
    records: Vec<Record>,
    /// Rates with the highest and second-highest throughput, and with the highest delivery probability.
    best: usize,
    second: usize,
    surest: usize,
    looks_at: Time,
    tries: u32,
    failures: u32,
    /// Average number of frames per transmission.
    frames: f64,
    stream: Stream,
}

impl Minstrel {
    /// Chooses between rates of `mbps`, slowest first, and begins with rate `first`. A transmission costs `overhead_us`
    /// in addition to its frames.
    pub fn new(mbps: Vec<f64>, overhead_us: f64, first: usize, stream: Stream) -> Self {
        Minstrel {
            records: vec![Record::default(); mbps.len()],
            mbps,
            overhead_us,
            best: first,
            second: first,
            surest: 0,
            looks_at: Time::ZERO + INTERVAL,
            tries: 0,
            failures: 0,
            frames: 1.0,
            stream,
        }
    }

    /// The rate of a transmission that begins at `at`, and whether it is a probe.
    pub fn choose(&mut self, at: Time) -> (usize, bool) {
        if at >= self.looks_at {
            self.look();
            self.looks_at = at + INTERVAL;
        }
        self.tries += 1;
        if self.tries >= PROBE_EVERY {
            self.tries = 0;
            if let Some(rate) = self.probe() {
                return (rate, true);
            }
        }
        let chain = [self.best, self.second, self.surest];
        (chain[((self.failures / TRIES_EACH) as usize).min(2)], false)
    }

    /// Draws a rate to probe, if the drawn one is worth it.
    fn probe(&mut self) -> Option<usize> {
        let rate = self.stream.below(self.mbps.len() as u64) as usize;
        let record = &mut self.records[rate];
        // The second-best rate may still be unknown.
        if rate == self.best || rate == self.second && record.is_known {
            return None;
        }
        if record.is_known && self.mbps[rate] < self.mbps[self.surest] {
            record.skipped += 1;
            if record.skipped < SKIPS {
                return None;
            }
            record.skipped = 0;
        }
        Some(rate)
    }

    /// Records that a transmission at `rate` carried `attempts` frames, of which `successes` arrived.
    pub fn learn(&mut self, rate: usize, attempts: u32, successes: u32, is_probe: bool) {
        let record = &mut self.records[rate];
        record.attempts += attempts;
        record.successes += successes;
        if !is_probe {
            self.failures = if successes > 0 { 0 } else { self.failures + 1 };
            self.frames += NEWEST * (f64::from(attempts) - self.frames);
        }
    }

    fn throughput(&self, rate: usize) -> f64 {
        let probability = self.records[rate].probability;
        if probability < 0.1 {
            return 0.0;
        }
        probability.min(0.9) / (self.overhead_us / self.frames + 8.0 * TYPICAL / self.mbps[rate])
    }

    fn look(&mut self) {
        for record in &mut self.records {
            if record.attempts > 0 {
                let share = f64::from(record.successes) / f64::from(record.attempts);
                let newest = if record.is_known { NEWEST } else { 1.0 };
                record.probability += newest * (share - record.probability);
                (record.is_known, record.attempts, record.successes) = (true, 0, 0);
            }
        }
        let mut order: Vec<(f64, usize)> =
            (0..self.mbps.len()).map(|rate| (self.throughput(rate), rate)).collect();
        // At equal throughput the slower rate comes first, because it has fewer errors.
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        if order[0].0 == 0.0 {
            // Nothing has been delivered recently.
            (self.best, self.second, self.surest) = (self.surest, 0, 0);
            return;
        }
        (self.best, self.second) = (order[0].1, order[1].1);
        let sure = order.iter().find(|(_, rate)| self.records[*rate].probability >= 0.95);
        self.surest = sure
            .unwrap_or_else(|| {
                let by_probability = |a: &&(f64, usize), b: &&(f64, usize)| {
                    self.records[a.1].probability.total_cmp(&self.records[b.1].probability)
                };
                order.iter().max_by(by_probability).expect("there are rates")
            })
            .1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 8] = [6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0];

    /// Tries of 16 frames each 2 ms, of which a rate's share arrives; tries by rate in the last 5 s of 10.
    fn tried(shares: [f64; 8]) -> ([u32; 8], u32) {
        let mut minstrel = Minstrel::new(RATES.to_vec(), 150.0, 7, Stream::named(1, "probes"));
        let mut luck = Stream::named(1, "luck");
        let (mut tries, mut probes) = ([0; 8], 0);
        for number in 0..5000u64 {
            let (rate, is_probe) = minstrel.choose(Time::from_ms(2 * number));
            let frames = if is_probe { 1 } else { 16 };
            let arrived = (0..frames).filter(|_| luck.chance(shares[rate])).count() as u32;
            minstrel.learn(rate, frames, arrived, is_probe);
            if number >= 2500 {
                tries[rate] += u32::from(!is_probe);
                probes += u32::from(is_probe);
            }
        }
        (tries, probes)
    }

    #[test]
    fn it_settles_on_the_rate_that_carries_most() {
        // 39 × 0.98 beats 52 × 0.5 and 26 × 1.
        let (tries, probes) = tried([1.0, 1.0, 1.0, 1.0, 0.98, 0.5, 0.0, 0.0]);
        assert!(tries[4] > 2200 && probes < 250, "{tries:?} {probes}");
        // 52 × 0.8 beats 39: loss alone is no reason to slow down.
        let (tries, _) = tried([1.0, 1.0, 1.0, 1.0, 1.0, 0.85, 0.0, 0.0]);
        assert!(tries[5] > 2200, "{tries:?}");
    }

    #[test]
    fn it_returns_from_a_start_at_which_nothing_arrives() {
        let (tries, _) = tried([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(tries[1] > 2200, "{tries:?}");
    }
}
