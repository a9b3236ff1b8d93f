//! SCReAM's congestion window, and the queueing delay that it follows (RFC 8298 section 4.1.2).

use std::collections::VecDeque;

use super::super::media::keep_latest;
use super::flight::Acked;
use crate::time::{Duration, Time};

// Section 4.1.1.1.
const HIGHEST_TARGET: f64 = 0.4;
/// Unit of normalised delays, QDELAY_TARGET_LO.
const NORM: f64 = 0.1;
const WEIGHT: f64 = 0.1;
const TREND_THRESHOLD: f64 = 0.2;
const TREND_LOW: f64 = 0.2;
const RESUME: Duration = Duration::from_ms(5_000);
const LEAST: f64 = 3_000.0;
const HEAD_ROOM: f64 = 1.1;
const BETA_LOSS: f64 = 0.8;
const BETA_ECN: f64 = 0.9;
const LEAST_PACE: f64 = 50_000.0;

// Section 4.1.2: samples of the trend.
const SAMPLE: Duration = Duration::from_ms(50);
const SAMPLES: usize = 20;
const MEMORY: f64 = 0.99;
// Section 4.1.2.3: samples of the competing flows' compensation.
const LONG: usize = 200;
const SHORT: usize = 50;
const STEADY: f64 = 0.2;
const FREQUENT_LOSSES: f64 = 0.002;
/// Weight of a round trip in the average loss frequency: our choice.
const LOSS_WEIGHT: f64 = 0.01;
// Section 4.1.2.2: window validation considers the last five seconds.
const SLICE: Duration = Duration::from_ms(1_000);
const SLICES: usize = 5;
/// RFC 6298's weight for the smoothed RTT.
const RTT_WEIGHT: f64 = 0.125;
/// RFC 6817 section 3.4.2: the base delay is the minimum over the minima of ten minutes.
const MINUTE: Duration = Duration::from_ms(60_000);
const MINUTES: usize = 10;

/// Congestion signal in a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    Loss,
    Mark,
}

/// State of the window.
#[derive(Clone, Debug)]
pub struct Window {
    mss: f64,
    lowest_target: f64,
    compensates: bool,
    pub bytes: f64,
    /// Fast increase: no sign of congestion so far, or for five seconds.
    pub is_fast: bool,
    pub trend: f64,
    pub trend_memory: f64,
    target: f64,
    delay: f64,
    srtt: Option<f64>,
    base: VecDeque<f64>,
    minute: Time,
    // State of the delay trend.
    fractions: VecDeque<f64>,
    mean_fraction: f64,
    sampled: Time,
    uncalm: Time,
    // State of the compensation for competing flows.
    norms: VecDeque<f64>,
    losses: f64,
    has_lost: bool,
    counted: Time,
    reacted: Option<Time>,
    // Peak bytes in flight in each of the last seconds, newest last.
    most: VecDeque<u64>,
    slice: Time,
}

impl Window {
    pub fn new(mss: f64, target: f64, compensates: bool) -> Self {
        Window {
            mss,
            lowest_target: target,
            compensates,
            bytes: LEAST,
            is_fast: true,
            trend: 0.0,
            trend_memory: 0.0,
            target,
            delay: 0.0,
            srtt: None,
            base: VecDeque::new(),
            minute: Time::ZERO,
            fractions: VecDeque::from([0.0; SAMPLES]),
            mean_fraction: 0.0,
            sampled: Time::ZERO,
            uncalm: Time::ZERO,
            norms: VecDeque::new(),
            losses: 0.0,
            has_lost: false,
            counted: Time::ZERO,
            reacted: None,
            most: VecDeque::from([0]),
            slice: Time::ZERO,
        }
    }

    pub fn restart(&mut self, now: Time) {
        *self = Window::new(self.mss, self.lowest_target, self.compensates);
        (self.minute, self.sampled, self.uncalm, self.counted, self.slice) = (now, now, now, now, now);
    }

    /// Section 4.1.2.5: bytes that may be sent.
    pub fn room(&self, in_flight: u64) -> f64 {
        let more = if self.delay <= self.target { self.mss } else { 0.0 };
        self.bytes + more - in_flight as f64
    }

    /// Section 4.1.2.6: seconds from a packet of this size to the next one.
    pub fn pace(&self, bytes: u32) -> f64 {
        self.srtt.map_or(0.0, |srtt| 8.0 * f64::from(bytes) / (8.0 * self.bytes / srtt).max(LEAST_PACE))
    }

    pub fn on_sent(&mut self, in_flight: u64, now: Time) {
        while self.slice + SLICE <= now {
            self.slice += SLICE;
            keep_latest(&mut self.most, in_flight, SLICES);
        }
        let newest = self.most.back_mut().expect("there is a newest second");
        *newest = (*newest).max(in_flight);
    }

    /// Processes a report; returns the congestion signal to which the window reacted, if any.
    pub fn on_acked(
        &mut self,
        acked: &Acked,
        in_flight: u64,
        congestion: Option<Congestion>,
        now: Time,
    ) -> Option<Congestion> {
        self.sample(now);
        self.delay = acked.delay - self.base_delay(acked.delay, now);
        let srtt = self.srtt.map_or(acked.rtt, |srtt| srtt + RTT_WEIGHT * (acked.rtt - srtt));
        self.srtt = Some(srtt);
        let may_react = self.reacted.is_none_or(|last| now.since(last).as_secs_f64() >= srtt);
        let reaction = congestion.filter(|_| may_react);
        match reaction {
            Some(congestion) => self.shrink(congestion, now),
            None => self.update(acked.bytes, in_flight),
        }
        self.count_losses(reaction == Some(Congestion::Loss), srtt, now);
        if self.compensates {
            self.adjust_target();
        }
        if self.trend >= TREND_LOW {
            self.uncalm = now;
        }
        if now.since(self.uncalm) >= RESUME {
            self.is_fast = true;
        }
        reaction
    }

    fn base_delay(&mut self, delay: f64, now: Time) -> f64 {
        if self.base.is_empty() || self.minute + MINUTE <= now {
            self.minute = now;
            keep_latest(&mut self.base, delay, MINUTES);
        }
        let newest = self.base.back_mut().expect("there is a newest minute");
        *newest = newest.min(delay);
        self.base.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn shrink(&mut self, congestion: Congestion, now: Time) {
        let factor = if congestion == Congestion::Loss { BETA_LOSS } else { BETA_ECN };
        self.bytes = LEAST.max(factor * self.bytes);
        (self.is_fast, self.reacted, self.uncalm) = (false, Some(now), now);
    }

    fn update(&mut self, acked: u64, in_flight: u64) {
        let (acked, in_flight) = (acked as f64, in_flight as f64);
        if self.is_fast && self.trend < TREND_THRESHOLD {
            if 1.5 * in_flight + acked > self.bytes {
                self.bytes += acked;
            }
            return;
        }
        self.is_fast = false;
        let off_target = (self.target - self.delay) / self.target;
        let is_idle = 1.25 * in_flight + acked <= self.bytes;
        if off_target < 0.0 || !is_idle {
            self.bytes += off_target * acked * self.mss / self.bytes;
        }
        let most = self.most.iter().copied().max().unwrap_or(0) as f64;
        self.bytes = self.bytes.min(HEAD_ROOM * most).max(LEAST);
    }

    /// Takes the delay samples that are due, and updates the trend.
    fn sample(&mut self, now: Time) {
        while self.sampled + SAMPLE <= now {
            self.sampled += SAMPLE;
            let fraction = self.delay / self.target;
            self.mean_fraction += WEIGHT * (fraction - self.mean_fraction);
            keep_latest(&mut self.fractions, fraction, SAMPLES);
            self.trend = (prediction(&self.fractions) * self.mean_fraction).clamp(0.0, 1.0);
            self.trend_memory = (MEMORY * self.trend_memory).max(self.trend);
        }
    }

    fn count_losses(&mut self, is_lost: bool, srtt: f64, now: Time) {
        self.has_lost |= is_lost;
        if now.since(self.counted).as_secs_f64() >= srtt {
            self.losses += LOSS_WEIGHT * (f64::from(u8::from(self.has_lost)) - self.losses);
            (self.has_lost, self.counted) = (false, now);
        }
    }

    /// Section 4.1.2.3: raises the target next to flows that fill the queue, where a fixed target would starve.
    fn adjust_target(&mut self) {
        keep_latest(&mut self.norms, self.delay / NORM, LONG);
        let (_, variance) = moments(self.norms.iter());
        let (mean, _) = moments(self.norms.iter().rev().take(SHORT));
        let fresh = NORM * (mean + variance.sqrt());
        self.target = if self.losses > FREQUENT_LOSSES {
            1.5 * fresh
        } else if variance < STEADY {
            fresh
        } else if fresh < self.lowest_target {
            fresh.max(0.5 * self.target)
        } else {
            0.9 * self.target
        };
        self.target = self.target.min(HIGHEST_TARGET).max(self.lowest_target);
    }
}

/// Autocorrelation at a lag of one sample, without the mean: positive while the samples rise or fall steadily.
fn prediction(samples: &VecDeque<f64>) -> f64 {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let lag = |k: usize| -> f64 {
        samples.iter().zip(samples.iter().skip(k)).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    let power = lag(0);
    if power > 0.0 { lag(1) / power } else { 0.0 }
}

/// Mean and variance.
fn moments<'a>(values: impl Iterator<Item = &'a f64>) -> (f64, f64) {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    let mean = sum / count;
    (mean, (squares / count - mean * mean).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_ms(ms)
    }

    fn acked(bytes: u64, delay_ms: f64) -> Acked {
        Acked { bytes, rtt: 0.1, delay: 1e-3 * delay_ms, is_lost: false }
    }

    /// A window of 20 kB that is in use, after the fast increase, on a path of 50 ms.
    fn settled(in_flight: u64) -> Window {
        let mut window = Window::new(1000.0, 0.1, false);
        window.on_acked(&acked(0, 50.0), 0, None, at(10));
        window.on_sent(in_flight, at(10));
        (window.bytes, window.is_fast) = (20_000.0, false);
        window
    }

    #[test]
    fn it_follows_the_distance_from_the_target_as_ledbat_does() {
        for (delay_ms, expected) in
            [(50.0, 20_050.0), (100.0, 20_025.0), (150.0, 20_000.0), (250.0, 19_950.0)]
        {
            let mut window = settled(20_000);
            // 1000 B acknowledged: (1 − q/T)·1000·1000/20000.
            window.on_acked(&acked(1000, delay_ms), 19_000, None, at(20));
            assert!((window.bytes - expected).abs() < 1e-6, "{delay_ms} ms: {}", window.bytes);
        }
    }

    #[test]
    fn it_does_not_grow_while_it_is_not_used_and_stays_near_what_was_in_flight() {
        let mut window = settled(20_000);
        window.on_acked(&acked(1000, 50.0), 15_200, None, at(20));
        assert_eq!(window.bytes, 20_000.0);
        window.on_acked(&acked(1000, 50.0), 15_201, None, at(30));
        assert!(window.bytes > 20_000.0);
        let mut idle = settled(10_000);
        idle.on_acked(&acked(1000, 50.0), 9_000, None, at(20));
        assert!((idle.bytes - 11_000.0).abs() < 1e-6);
        // Five seconds later they are forgotten.
        idle.on_sent(4_000, at(6_500));
        idle.on_acked(&acked(1000, 50.0), 3_000, None, at(6_510));
        assert!((idle.bytes - 4_400.0).abs() < 1e-6, "{}", idle.bytes);
    }

    #[test]
    fn a_loss_takes_a_fifth_and_a_mark_a_tenth_once_a_round_trip() {
        let mut window = settled(20_000);
        let mut react = |congestion, ms| {
            window.on_acked(&acked(0, 150.0), 20_000, Some(congestion), at(ms)).map(|_| window.bytes)
        };
        assert_eq!(react(Congestion::Loss, 20), Some(16_000.0));
        assert_eq!(react(Congestion::Loss, 119), None);
        assert_eq!(react(Congestion::Mark, 120), Some(14_400.0));
        for ms in 1..30 {
            react(Congestion::Loss, 120 + 200 * ms);
        }
        assert_eq!(window.bytes, LEAST);
    }

    #[test]
    fn a_rising_delay_ends_the_fast_increase_and_five_calm_seconds_resume_it() {
        let mut window = Window::new(1000.0, 0.1, false);
        let mut now = 0;
        let mut step = |window: &mut Window, delay_ms: f64| {
            now += 50;
            window.on_sent(10_000, at(now));
            window.on_acked(&acked(1000, delay_ms), 9_000, None, at(now));
        };
        for _ in 0..5 {
            step(&mut window, 50.0);
        }
        assert!(window.is_fast && window.bytes == 8_000.0);
        // 5 ms more each time: a fast increase ends before the target of 100 ms is reached.
        let steps = (1..20).take_while(|n| {
            step(&mut window, 50.0 + 5.0 * f64::from(*n));
            window.is_fast
        });
        let steps = steps.count();
        assert!((5..19).contains(&steps), "{steps}");
        for _ in 0..300 {
            step(&mut window, 50.0);
        }
        assert!(window.is_fast);
    }

    #[test]
    fn the_target_rises_beside_a_standing_queue_and_falls_after_it() {
        let mut window = Window::new(1000.0, 0.1, true);
        let mut now = 0;
        let mut steps = |window: &mut Window, count: u32, delay_ms: f64| {
            for _ in 0..count {
                now += 20;
                window.on_acked(&acked(1000, delay_ms), 9_000, None, at(now));
            }
        };
        steps(&mut window, 10, 50.0);
        assert_eq!(window.target, 0.1);
        steps(&mut window, 400, 350.0);
        assert!((window.target - 0.3).abs() < 1e-9, "{}", window.target);
        steps(&mut window, 400, 950.0);
        assert_eq!(window.target, HIGHEST_TARGET);
        steps(&mut window, 400, 50.0);
        assert_eq!(window.target, 0.1);
    }

    #[test]
    fn the_window_gives_room_and_pace() {
        let mut window = settled(20_000);
        assert_eq!(window.room(19_000), 2_000.0);
        // 20 kB a round trip of 100 ms: a kilobyte each 5 ms.
        assert!((window.pace(1000) - 0.005).abs() < 1e-9);
        window.on_acked(&acked(0, 151.0), 20_000, None, at(20));
        assert!(window.room(19_000) <= 1_000.0);
    }
}
