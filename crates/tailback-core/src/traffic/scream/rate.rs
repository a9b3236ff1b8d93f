//! SCReAM's media rate control: the target rate of the encoder (RFC 8298 section 4.1.3).

use std::collections::VecDeque;

use super::super::media::keep_latest;
use super::window::Window;
use crate::time::{Duration, Time};

// Section 4.1.1.1.
const INTERVAL: Duration = Duration::from_ms(200);
const INTERVAL_S: f64 = 0.2;
const BETA_R: f64 = 0.9;
const PRE_CONGESTION_GUARD: f64 = 0.1;
const QUEUE_FACTOR: f64 = 1.0;
const QUEUE_DELAY: f64 = 0.02;
const QUEUE_SCALE: f64 = 0.95;
const LEAST_SCALE: f64 = 0.2;
/// Number of samples of the media rate's median: twelve seconds, because the RFC requires more than ten.
const RATES: usize = 60;

/// Bytes that the encoder produced, that were sent and that have arrived.
#[derive(Clone, Debug)]
pub struct MediaRate {
    bounds_bps: [f64; 2],
    ramp_up: f64,
    pub target_bps: f64,
    last_max: f64,
    /// Bytes queued at the sender.
    queue: u64,
    // Bytes since the last adjustment.
    produced: u64,
    sent: u64,
    acked: u64,
    produced_bps: VecDeque<f64>,
    adjusted: Time,
}

impl MediaRate {
    pub fn new(bounds_bps: [f64; 2], ramp_up: f64) -> Self {
        MediaRate {
            bounds_bps,
            ramp_up,
            target_bps: bounds_bps[0],
            last_max: 1.0,
            queue: 0,
            produced: 0,
            sent: 0,
            acked: 0,
            produced_bps: VecDeque::new(),
            adjusted: Time::ZERO,
        }
    }

    pub fn restart(&mut self, now: Time) {
        *self = MediaRate { adjusted: now, ..MediaRate::new(self.bounds_bps, self.ramp_up) };
    }

    pub fn on_produced(&mut self, bytes: u32) {
        self.queue += u64::from(bytes);
        self.produced += u64::from(bytes);
    }

    pub fn on_sent(&mut self, bytes: u32) {
        self.queue = self.queue.saturating_sub(u64::from(bytes));
        self.sent += u64::from(bytes);
    }

    pub fn on_acked(&mut self, bytes: u64) {
        self.acked += bytes;
    }

    pub fn on_discarded(&mut self) {
        self.queue = 0;
    }

    /// The window was reduced: reduces the rate too, to keep the sender's queue short.
    pub fn on_congestion(&mut self) {
        // BETA_R for a loss equals BETA_ECN for a mark.
        self.on_inflection();
        self.target_bps = (BETA_R * self.target_bps).max(self.bounds_bps[0]);
    }

    /// Marks the current rate as an inflection point, near which the rate grows slowly.
    pub fn on_inflection(&mut self) {
        self.last_max = self.target_bps;
    }

    /// Adjusts the rate if 200 ms have passed.
    pub fn adjust(&mut self, window: &Window, now: Time) {
        let passed = now.since(self.adjusted);
        if passed < INTERVAL {
            return;
        }
        self.adjusted = now;
        let bps = |bytes: u64| 8.0 * bytes as f64 / passed.as_secs_f64();
        let current = bps(self.sent).max(bps(self.acked));
        let produced = bps(self.produced);
        (self.sent, self.acked, self.produced) = (0, 0, 0);
        keep_latest(&mut self.produced_bps, produced, RATES);
        self.change(window, current);
        let limit = current.max(produced).max(median(&self.produced_bps)) * (2.0 - window.trend_memory);
        self.target_bps = self.target_bps.min(limit).clamp(self.bounds_bps[0], self.bounds_bps[1]);
    }

    fn change(&mut self, window: &Window, current: f64) {
        let distance = 4.0 * (self.target_bps - self.last_max) / self.last_max;
        let scale = (distance * distance).clamp(LEAST_SCALE, 1.0);
        let most = self.ramp_up.min(self.target_bps / 2.0) * INTERVAL_S;
        if window.is_fast {
            self.target_bps += scale * most;
            return;
        }
        // The RFC subtracts bits from bits per second, so a queue of one second stops all growth.
        let queue = 8.0 * self.queue as f64;
        let change = current * (1.0 - PRE_CONGESTION_GUARD * window.trend) - QUEUE_FACTOR * queue;
        self.target_bps += if change > 0.0 { (scale * change).min(most) } else { change };
        if queue > QUEUE_DELAY * current {
            self.target_bps *= QUEUE_SCALE;
        }
    }
}

fn median(values: &VecDeque<f64>) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_ms(ms)
    }

    /// Rates after each 200 ms in which all that is produced leaves and arrives.
    fn rates(rate: &mut MediaRate, window: &Window, from_ms: u64, count: u64) -> Vec<f64> {
        let one = |n: u64| {
            let bytes = (rate.target_bps / 40.0) as u32;
            rate.on_produced(bytes);
            rate.on_sent(bytes);
            rate.on_acked(u64::from(bytes));
            rate.adjust(window, at(from_ms + 200 * n));
            rate.target_bps
        };
        (1..=count).map(one).collect()
    }

    #[test]
    fn it_ramps_up_by_half_of_itself_a_second_and_then_by_the_ramp() {
        let window = Window::new(1000.0, 0.1, false);
        let mut rate = MediaRate::new([150_000.0, 10_000_000.0], 200_000.0);
        let found = rates(&mut rate, &window, 0, 40);
        // A tenth of itself each 200 ms up to 400 kbit/s, then 40 kbit/s.
        assert!((found[0] - 165_000.0).abs() < 1.0 && (found[1] - 181_500.0).abs() < 1.0, "{found:?}");
        assert!(
            found.windows(2).skip(15).all(|pair| (pair[1] - pair[0] - 40_000.0).abs() < 1.0),
            "{found:?}"
        );
    }

    #[test]
    fn a_loss_takes_a_tenth_and_near_the_last_rate_it_grows_at_a_fifth_of_the_ramp() {
        let window = Window::new(1000.0, 0.1, false);
        let mut rate = MediaRate::new([150_000.0, 10_000_000.0], 200_000.0);
        rate.target_bps = 1_000_000.0;
        rate.on_congestion();
        assert!((rate.target_bps - 900_000.0).abs() < 1e-6);
        // (4·0.1)² = 0.16 of the ramp, but a fifth at least.
        let found = rates(&mut rate, &window, 0, 1);
        assert!((found[0] - 908_000.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn a_queue_of_more_than_20_ms_takes_a_twentieth() {
        let mut window = Window::new(1000.0, 0.1, false);
        window.is_fast = false;
        let after = |waiting: u32| {
            let mut rate = MediaRate::new([150_000.0, 10_000_000.0], 200_000.0);
            rate.target_bps = 1_000_000.0;
            rate.on_produced(25_000 + waiting);
            rate.on_sent(25_000);
            rate.adjust(&window, at(200));
            rate.target_bps
        };
        // A megabit a second, of which 20 ms are 2500 bytes.
        assert!((after(2_500) - 1_040_000.0).abs() < 1.0);
        assert!((after(2_501) - 988_000.0).abs() < 1.0);
    }
}
