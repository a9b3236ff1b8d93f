//! Round-trip time and the retransmission timeout, three ways.
//!
//! Sources: RFC 6298 section 2; Linux `tcp_rtt_estimator` (2.6.25 to 6.x: one-sided gain and a floor on the
//! variation instead of on the timeout); FreeBSD 7 `tcp_xmit_timer` (200 ms slop added after the minimum).

use std::slice::from_ref;

use prefetch_index::prefetch_index;

use crate::params::words;
use crate::time::Duration;

words! {
    /// Which rule turns samples into a timeout.
    pub enum RtoRule {
        /// RTO = max(SRTT + 4·RTTVAR, minimum), RFC 6298.
        Rfc6298 = "rfc6298",
        /// RTO = SRTT + max(4·mdev over the last RTT, minimum): the minimum floors the variation.
        Linux = "linux",
        /// RTO = max(SRTT + 4·RTTVAR, 30 ms) + minimum.
        FreeBsd = "freebsd",
    }
}

/// The estimator of one sender.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    rule: RtoRule,
    minimum: Duration,
    maximum: Duration,
    tick: Duration,
    srtt: Duration,
    variation: Duration,
    // Linux only: the largest mdev since `round_end` was set.
    mdev: Duration,
    mdev_max: Duration,
    round_end: u64,
    min: Duration,
    last: Duration,
    initial: Duration,
    backoff: u32,
    samples: u32,
    // A timeout remembered from an earlier connection, until the first sample of data; zero: none.
    recalled: Duration,
}

impl RttEstimator {
    /// `tick` is the granularity of samples (zero: exact).
    pub fn new(
        rule: RtoRule,
        initial: Duration,
        minimum: Duration,
        maximum: Duration,
        tick: Duration,
    ) -> Self {
        RttEstimator {
            rule,
            minimum,
            maximum,
            tick,
            srtt: Duration::ZERO,
            variation: Duration::ZERO,
            mdev: Duration::ZERO,
            mdev_max: Duration::ZERO,
            round_end: 0,
            min: Duration::MAX,
            last: Duration::ZERO,
            initial,
            backoff: 0,
            samples: 0,
            recalled: Duration::ZERO,
        }
    }

    /// See [`super::endpoint::Endpoint::fetch`].
    #[inline]
    pub fn fetch(&self) {
        prefetch_index(from_ref(&self.srtt), 0);
        prefetch_index(from_ref(&self.min), 0);
    }

    /// A sample as the stack's clock would read it.
    pub fn quantise(&self, sample: Duration) -> Duration {
        if self.tick.is_zero() {
            return sample;
        }
        // At least one tick: both systems treat a zero sample as one.
        let ticks = (sample.as_ps() / self.tick.as_ps()).max(1);
        self.tick * ticks
    }

    /// Take a sample. `latest` is that of the latest segment the ACK is for, and enters the minimum: it does not hold a
    /// delayed ACK's wait (Linux `ca_rtt_us`). `snd_una` and `snd_nxt` after the ACK tell the Linux rule where a round ends.
    pub fn on_sample(&mut self, sample: Duration, latest: Duration, snd_una: u64, snd_nxt: u64) {
        self.last = sample;
        self.samples = self.samples.saturating_add(1);
        self.recalled = Duration::ZERO;
        self.min = self.min.min(latest);
        match self.rule {
            RtoRule::Linux => self.on_sample_linux(sample, snd_una, snd_nxt),
            RtoRule::Rfc6298 | RtoRule::FreeBsd => self.on_sample_standard(sample),
        }
        self.backoff = 0;
    }

    fn on_sample_standard(&mut self, sample: Duration) {
        if self.srtt.is_zero() {
            self.srtt = sample;
            self.variation = sample / 2;
            return;
        }
        // RFC 6298 (2.3): the variation uses the old SRTT.
        let error = self.srtt.abs_diff(sample);
        self.variation = (self.variation * 3 + error) / 4;
        self.srtt = (self.srtt * 7 + sample) / 8;
    }

    fn on_sample_linux(&mut self, sample: Duration, snd_una: u64, snd_nxt: u64) {
        if self.srtt.is_zero() {
            self.srtt = sample;
            self.mdev = sample / 2;
            self.variation = (sample / 2).max(self.minimum / 4);
            self.mdev_max = self.variation;
            self.round_end = snd_nxt;
            return;
        }
        let error = self.srtt.abs_diff(sample);
        // A falling RTT must not inflate the timeout: its excess over mdev counts an eighth.
        if error > self.mdev {
            let excess = error - self.mdev;
            let gain = if sample < self.srtt { 32 } else { 4 };
            self.mdev += excess / gain;
        } else {
            self.mdev = self.mdev.saturating_sub((self.mdev - error) / 4);
        }
        self.srtt = (self.srtt * 7 + sample) / 8;
        if self.mdev > self.mdev_max {
            self.mdev_max = self.mdev;
            self.variation = self.variation.max(self.mdev_max);
        }
        if snd_una > self.round_end {
            if self.mdev_max < self.variation {
                self.variation = self.variation.saturating_sub((self.variation - self.mdev_max) / 4);
            }
            self.round_end = snd_nxt;
            self.mdev_max = self.minimum / 4;
        }
    }

    /// The timeout now, with back-off.
    pub fn timeout(&self) -> Duration {
        let base = if !self.recalled.is_zero() {
            self.recalled
        } else if self.srtt.is_zero() {
            self.initial
        } else {
            match self.rule {
                RtoRule::Rfc6298 => (self.srtt + self.variation * 4).max(self.minimum),
                RtoRule::Linux => self.srtt + self.variation * 4,
                // hz/33 = 30 ms is FreeBSD's floor before the slop is added.
                RtoRule::FreeBsd => {
                    (self.srtt + self.variation * 4).max(Duration::from_ms(30)) + self.minimum
                }
            }
        };
        let factor = 1u64 << self.backoff.min(16);
        Duration::from_ps(base.as_ps().saturating_mul(factor)).min(self.maximum)
    }

    /// Begin, or go on, with what an earlier connection has measured. `round_end` as in [`Self::on_sample`].
    pub fn recall(&mut self, srtt: Duration, variation: Duration, round_end: u64) {
        self.srtt = srtt;
        self.mdev = variation;
        self.variation = match self.rule {
            RtoRule::Linux => variation.max(self.minimum / 4),
            RtoRule::Rfc6298 | RtoRule::FreeBsd => variation,
        };
        self.mdev_max = self.variation;
        self.round_end = round_end;
    }
    /// Only the timeout until the first sample follows what an earlier connection has measured, as if `srtt` were
    /// the first sample.
    pub fn recall_timeout(&mut self, srtt: Duration) {
        self.recalled = srtt + (srtt * 2).max(self.minimum);
    }
    /// The timer expired: double.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }
    /// The handshake lost a segment and gave no sample: at least 3 s (RFC 6298 section 5.7).
    pub fn fall_back(&mut self) {
        self.initial = self.initial.max(Duration::from_secs(3));
    }
    /// Consecutive expiries.
    pub fn backoffs(&self) -> u32 {
        self.backoff
    }
    /// Samples taken.
    pub fn samples(&self) -> u32 {
        self.samples
    }
    /// Mean deviation: the part of the timeout that is multiplied by four, without Linux's floor.
    pub fn deviation(&self) -> Duration {
        match self.rule {
            RtoRule::Linux => self.mdev,
            RtoRule::Rfc6298 | RtoRule::FreeBsd => self.variation,
        }
    }
    /// Smoothed RTT; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        self.srtt
    }
    /// Smallest sample; [`Duration::MAX`] before the first.
    pub fn min(&self) -> Duration {
        self.min
    }
    /// Latest sample; zero before the first.
    pub fn last(&self) -> Duration {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rule: RtoRule, minimum_ms: u64) -> Vec<f64> {
        let mut rtt = RttEstimator::new(
            rule,
            Duration::from_secs(3),
            Duration::from_ms(minimum_ms),
            Duration::from_secs(120),
            Duration::ZERO,
        );
        [100, 120, 80, 100]
            .into_iter()
            .map(|ms| {
                rtt.on_sample(Duration::from_ms(ms), Duration::from_ms(ms), 0, 1);
                rtt.timeout().as_secs_f64() * 1e3
            })
            .collect()
    }

    #[test]
    fn rfc6298_worked_by_hand() {
        for (got, want) in samples(RtoRule::Rfc6298, 0).iter().zip([300.0, 272.5, 249.6875, 212.5391]) {
            assert!((got - want).abs() < 1e-3, "{got} {want}");
        }
        assert_eq!(samples(RtoRule::Rfc6298, 1000), vec![1000.0; 4]);
    }

    #[test]
    fn freebsd_adds_its_slop_after_the_minimum() {
        for (got, want) in samples(RtoRule::FreeBsd, 200).iter().zip([500.0, 472.5, 449.6875, 412.5391]) {
            assert!((got - want).abs() < 1e-3, "{got} {want}");
        }
    }

    #[test]
    fn linux_floors_the_variation() {
        for (sample, want) in [(100, 300), (50, 250), (4, 204)] {
            let mut rtt = RttEstimator::new(
                RtoRule::Linux,
                Duration::from_secs(1),
                Duration::from_ms(200),
                Duration::from_secs(120),
                Duration::ZERO,
            );
            rtt.on_sample(Duration::from_ms(sample), Duration::from_ms(sample), 0, 1);
            assert_eq!(rtt.timeout(), Duration::from_ms(want));
        }
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum() {
        let mut rtt = RttEstimator::new(
            RtoRule::Rfc6298,
            Duration::from_secs(1),
            Duration::from_secs(1),
            Duration::from_secs(60),
            Duration::ZERO,
        );
        let seconds: Vec<u64> = (0..8)
            .map(|_| {
                let timeout = rtt.timeout().as_ms() / 1000;
                rtt.back_off();
                timeout
            })
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
