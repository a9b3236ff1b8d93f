//! Round-trip time and retransmission timeout, by three rules.
//!
//! Sources: RFC 6298 section 2; Linux `tcp_rtt_estimator` (2.6.25 to 6.x: one-sided gain and a floor on the
//! variation instead of on the timeout); FreeBSD 7 `tcp_xmit_timer` (200 ms slop added after the minimum).

use std::slice::from_ref;

use prefetch_index::prefetch_index;

use crate::params::words;
use crate::tcp::stack::Stack;
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

/// The timeout after a handshake that lost a segment (RFC 6298 section 5.7).
const FALL_BACK: Duration = Duration::from_secs(3);

/// RTT estimator of one sender. Parameters are read from its stack.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct RttEstimator {
    srtt: Duration,
    min: Duration,
    // Linux only: the mean deviation, and its maximum since `round_end` was set.
    mdev: Duration,
    mdev_max: Duration,
    variation: Duration,
    round_end: u64,
    last: Duration,
    // A timeout remembered from an earlier connection, until the first sample of data; zero: none.
    recalled: Duration,
    samples: u32,
    backoff: u32,
    has_fallen_back: bool,
}

impl Default for RttEstimator {
    fn default() -> Self {
        RttEstimator {
            srtt: Duration::ZERO,
            min: Duration::MAX,
            mdev: Duration::ZERO,
            mdev_max: Duration::ZERO,
            variation: Duration::ZERO,
            round_end: 0,
            last: Duration::ZERO,
            recalled: Duration::ZERO,
            samples: 0,
            backoff: 0,
            has_fallen_back: false,
        }
    }
}

impl RttEstimator {
    /// See [`super::endpoint::Endpoint::fetch`].
    #[inline]
    pub fn fetch(&self) {
        prefetch_index(from_ref(&self.samples), 0);
    }

    /// Takes a sample. `latest` is the RTT of the latest segment that the ACK covers; only it enters the minimum,
    /// because it excludes a delayed ACK's wait (Linux `ca_rtt_us`). `snd_una` and `snd_nxt` after the ACK mark the end
    /// of a round for the Linux rule.
    #[inline(always)]
    pub fn on_sample(
        &mut self,
        stack: &Stack,
        sample: Duration,
        latest: Duration,
        snd_una: u64,
        snd_nxt: u64,
    ) {
        self.last = sample;
        self.samples = self.samples.saturating_add(1);
        self.recalled = Duration::ZERO;
        self.min = self.min.min(latest);
        match stack.rto_rule {
            RtoRule::Linux => self.on_sample_linux(stack, sample, snd_una, snd_nxt),
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

    fn on_sample_linux(&mut self, stack: &Stack, sample: Duration, snd_una: u64, snd_nxt: u64) {
        if self.srtt.is_zero() {
            self.srtt = sample;
            self.mdev = sample / 2;
            self.variation = (sample / 2).max(stack.rto_minimum / 4);
            self.mdev_max = self.variation;
            self.round_end = snd_nxt;
            return;
        }
        let error = self.srtt.abs_diff(sample);
        // A falling RTT must not inflate the timeout: only an eighth of the excess over mdev counts.
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
            self.mdev_max = stack.rto_minimum / 4;
        }
    }

    /// The timeout now, with back-off.
    pub fn timeout(&self, stack: &Stack) -> Duration {
        let base = self.timeout_at_first(stack);
        // A timer rounds up to ticks by itself.
        if self.backoff == 0 {
            return base.min(stack.rto_maximum);
        }
        let factor = 1u64 << self.backoff.min(16);
        Duration::from_ps(in_ticks(base, stack).as_ps().saturating_mul(factor)).min(stack.rto_maximum)
    }

    /// The timeout as Linux keeps it (`icsk_rto`): in whole ticks, which back-off doubles and from which the age of the
    /// head is subtracted.
    pub fn timeout_in_ticks(&self, stack: &Stack) -> Duration {
        in_ticks(self.timeout(stack), stack)
    }

    fn timeout_at_first(&self, stack: &Stack) -> Duration {
        if !self.recalled.is_zero() {
            self.recalled
        } else if self.srtt.is_zero() {
            let least = if self.has_fallen_back { FALL_BACK } else { Duration::ZERO };
            stack.rto_initial.max(least)
        } else {
            match stack.rto_rule {
                RtoRule::Rfc6298 => (self.srtt + self.variation * 4).max(stack.rto_minimum),
                RtoRule::Linux => self.srtt + self.variation * 4,
                // hz/33 = 30 ms is FreeBSD's floor before the slop is added.
                RtoRule::FreeBsd => {
                    (self.srtt + self.variation * 4).max(Duration::from_ms(30)) + stack.rto_minimum
                }
            }
        }
    }

    /// Initialises or updates the estimate with what an earlier connection has measured. `round_end` as in
    /// [`Self::on_sample`].
    pub fn recall(&mut self, stack: &Stack, srtt: Duration, variation: Duration, round_end: u64) {
        self.srtt = srtt;
        self.mdev = variation;
        self.variation = match stack.rto_rule {
            RtoRule::Linux => variation.max(stack.rto_minimum / 4),
            RtoRule::Rfc6298 | RtoRule::FreeBsd => variation,
        };
        self.mdev_max = self.variation;
        self.round_end = round_end;
    }
    /// Uses an earlier connection's measurement only for the timeout until the first sample, as if `srtt` were the
    /// first sample.
    pub fn recall_timeout(&mut self, stack: &Stack, srtt: Duration) {
        self.recalled = srtt + (srtt * 2).max(stack.rto_minimum);
    }
    /// The timer expired: doubles the timeout.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }
    /// The handshake lost a segment and gave no sample: the timeout is at least 3 s.
    pub fn fall_back(&mut self) {
        self.has_fallen_back = true;
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
    pub fn deviation(&self, stack: &Stack) -> Duration {
        match stack.rto_rule {
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

/// Rounded up to the stack's timer ticks, for Linux.
fn in_ticks(wait: Duration, stack: &Stack) -> Duration {
    match (stack.rto_rule, stack.timer_tick.as_ps()) {
        (RtoRule::Linux, tick @ 1..) => Duration::from_ps(wait.as_ps().div_ceil(tick) * tick),
        _ => wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(rule: RtoRule, initial_ms: u64, minimum_ms: u64, maximum_ms: u64) -> Stack {
        Stack {
            rto_rule: rule,
            rto_initial: Duration::from_ms(initial_ms),
            rto_minimum: Duration::from_ms(minimum_ms),
            rto_maximum: Duration::from_ms(maximum_ms),
            ..Stack::named("linux", "stack").expect("a profile")
        }
    }

    fn samples(rule: RtoRule, minimum_ms: u64) -> Vec<f64> {
        let mut rtt = RttEstimator::default();
        let stack = stack(rule, 3_000, minimum_ms, 120_000);
        [100, 120, 80, 100]
            .into_iter()
            .map(|ms| {
                rtt.on_sample(&stack, Duration::from_ms(ms), Duration::from_ms(ms), 0, 1);
                rtt.timeout(&stack).as_secs_f64() * 1e3
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
            let mut rtt = RttEstimator::default();
            let stack = stack(RtoRule::Linux, 1_000, 200, 120_000);
            rtt.on_sample(&stack, Duration::from_ms(sample), Duration::from_ms(sample), 0, 1);
            assert_eq!(rtt.timeout(&stack), Duration::from_ms(want));
        }
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum() {
        let mut rtt = RttEstimator::default();
        let stack = stack(RtoRule::Rfc6298, 1_000, 1_000, 60_000);
        let seconds: Vec<u64> = (0..8)
            .map(|_| {
                let timeout = rtt.timeout(&stack).as_ms() / 1000;
                rtt.back_off();
                timeout
            })
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
