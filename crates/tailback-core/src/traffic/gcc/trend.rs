//! GCC's packet groups, the trend of their delay, and the overuse detector.

use std::collections::VecDeque;

use super::super::media::{Arrival, keep_latest};
use crate::time::Time;

// Groups, in milliseconds.
const BURST: f64 = 5.0;
const LONGEST_BURST: f64 = 100.0;

// The trend and its detector, in milliseconds.
const SMOOTHING: f64 = 0.9;
const WINDOW: usize = 20;
const GAIN: f64 = 4.0;
const MOST_GROUPS: u32 = 60;
const OVERUSE_TIME: f64 = 10.0;
const SPIKE: f64 = 15.0;
const LONGEST_UPDATE: f64 = 100.0;
const THRESHOLDS: (f64, f64) = (6.0, 600.0);

/// Packets that were sent together, or that arrived together after waiting for the same event.
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    first_at: Time,
    last_at: Time,
}

/// The current group and the previous one.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    current: Option<Group>,
    previous: Option<Group>,
}

impl Groups {
    /// Adds a packet, in order of arrival. If it begins a new group, returns the differences of the completed group
    /// from the one before it in departure and in arrival (ms), and its arrival time.
    pub fn add(&mut self, packet: &Arrival) -> Option<(f64, f64, Time)> {
        let fresh = Group {
            first_sent: packet.sent,
            last_sent: packet.sent,
            first_at: packet.at,
            last_at: packet.at,
        };
        let Some(current) = &mut self.current else {
            self.current = Some(fresh);
            return None;
        };
        if packet.sent < current.first_sent {
            return None; // It was overtaken.
        }
        if current.takes(packet) {
            current.last_sent = current.last_sent.max(packet.sent);
            current.last_at = packet.at;
            return None;
        }
        let done = *current;
        self.current = Some(fresh);
        let previous = self.previous.replace(done)?;
        Some((ms(done.last_sent, previous.last_sent), ms(done.last_at, previous.last_at), done.last_at))
    }
}

impl Group {
    fn takes(&self, packet: &Arrival) -> bool {
        let gap = ms(packet.at, self.last_at);
        let is_burst = gap - ms(packet.sent, self.last_sent) < 0.0
            && gap <= BURST
            && ms(packet.at, self.first_at) < LONGEST_BURST;
        is_burst || ms(packet.sent, self.first_sent) <= BURST
    }
}

/// Difference in milliseconds; negative if `later` is before `earlier`.
pub fn ms(later: Time, earlier: Time) -> f64 {
    if later >= earlier {
        later.since(earlier).as_secs_f64() * 1e3
    } else {
        -earlier.since(later).as_secs_f64() * 1e3
    }
}

/// State of the path according to the trend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usage {
    /// Underuse: queues drain.
    Under,
    /// Normal: the delay is constant.
    Normal,
    /// Overuse: queues grow.
    Over,
}

/// Delay trend and overuse threshold.
#[derive(Clone, Debug)]
pub struct Detector {
    first_threshold: f64,
    k_up: f64,
    k_down: f64,
    groups: u32,
    first_at: Time,
    /// Accumulated delay variation, and its exponential average.
    delay: f64,
    smoothed: f64,
    /// Arrival time and smoothed delay of the last groups.
    points: VecDeque<(f64, f64)>,
    slope: f64,
    threshold: f64,
    updated: Time,
    /// Time and number of groups for which the trend has exceeded its threshold.
    over_for: Option<f64>,
    overs: u32,
    pub usage: Usage,
}

impl Detector {
    pub fn new(first_threshold: f64, k_up: f64, k_down: f64) -> Self {
        Detector {
            first_threshold,
            k_up,
            k_down,
            groups: 0,
            first_at: Time::NEVER,
            delay: 0.0,
            smoothed: 0.0,
            points: VecDeque::new(),
            slope: 0.0,
            threshold: first_threshold,
            updated: Time::NEVER,
            over_for: None,
            overs: 0,
            usage: Usage::Normal,
        }
    }

    pub fn restarted(&self) -> Self {
        Detector::new(self.first_threshold, self.k_up, self.k_down)
    }

    /// Takes a group, with its differences in departure and arrival from the previous group.
    pub fn on_group(&mut self, sent_ms: f64, arrived_ms: f64, at: Time) {
        if self.groups == 0 {
            (self.first_at, self.updated) = (at, at);
        }
        self.groups = (self.groups + 1).min(MOST_GROUPS);
        self.delay += arrived_ms - sent_ms;
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * self.delay;
        keep_latest(&mut self.points, (ms(at, self.first_at), self.smoothed), WINDOW);
        let slope = if self.points.len() == WINDOW {
            slope_of(&self.points).unwrap_or(self.slope)
        } else {
            self.slope
        };
        if self.groups < 2 {
            return;
        }
        let trend = GAIN * slope * f64::from(self.groups);
        self.judge(trend, slope >= self.slope, sent_ms);
        self.slope = slope;
        self.adapt(trend, at);
    }

    fn judge(&mut self, trend: f64, rises: bool, sent_ms: f64) {
        if trend <= self.threshold {
            (self.over_for, self.overs) = (None, 0);
            self.usage = if trend < -self.threshold { Usage::Under } else { Usage::Normal };
            return;
        }
        // Assumes that the trend has exceeded the threshold for half of the time since the previous group.
        let over_for = self.over_for.map_or(sent_ms / 2.0, |time| time + sent_ms);
        (self.over_for, self.overs) = (Some(over_for), self.overs + 1);
        if over_for > OVERUSE_TIME && self.overs > 1 && rises {
            (self.over_for, self.overs) = (Some(0.0), 0);
            self.usage = Usage::Over;
        }
    }

    fn adapt(&mut self, trend: f64, at: Time) {
        let passed = ms(at, self.updated).min(LONGEST_UPDATE);
        self.updated = at;
        let beyond = trend.abs() - self.threshold;
        // A spike, as when a path suddenly becomes slower, must not raise the threshold.
        if beyond > SPIKE {
            return;
        }
        let k = if beyond < 0.0 { self.k_down } else { self.k_up };
        self.threshold = (self.threshold + k * beyond * passed).clamp(THRESHOLDS.0, THRESHOLDS.1);
    }
}

/// Slope of the least-squares line; `None` if all points are at one time.
fn slope_of(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let across: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let along: f64 = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    (along > 0.0).then(|| across / along)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_near, at_ms, packet};
    use super::*;
    use crate::math;

    fn detector() -> Detector {
        Detector::new(12.5, 0.01, 0.00018)
    }

    #[test]
    fn what_leaves_within_5_ms_or_arrives_in_a_burst_is_one_group() {
        let mut groups = Groups::default();
        // Left at 0 and 5, arrived at 50 and 58: a group.
        assert_eq!(groups.add(&packet(0, 0.0, 50.0)), None);
        assert_eq!(groups.add(&packet(1, 5.0, 58.0)), None);
        // Left at 20, arrived at 70: the next one; the first has none before it.
        assert_eq!(groups.add(&packet(2, 20.0, 70.0)), None);
        // Left 10 ms later and arrived 4 ms later: waited together with the last packet.
        assert_eq!(groups.add(&packet(3, 30.0, 74.0)), None);
        // One that was overtaken is ignored.
        assert_eq!(groups.add(&packet(4, 10.0, 75.0)), None);
        // From the last packets of the first group, 5 and 58, to those of the second, 30 and 74.
        let (sent, arrived, at) = groups.add(&packet(5, 60.0, 110.0)).expect("the second group is complete");
        assert_near(sent, 25.0);
        assert_near(arrived, 16.0);
        assert_eq!(at, at_ms(74.0));
    }

    #[test]
    fn a_burst_ends_after_100_ms() {
        let mut groups = Groups::default();
        groups.add(&packet(0, 0.0, 500.0));
        // An outage of 500 ms: packets sent 20 ms apart arrive 4 ms apart. The 26th comes 100 ms after the first.
        let ends: Vec<u32> = (1..40)
            .filter(|n| {
                groups.add(&packet(u64::from(*n), 20.0 * f64::from(*n), 500.0 + 4.0 * f64::from(*n)));
                groups.current.expect("there is a group").last_sent == at_ms(20.0 * f64::from(*n))
                    && groups.current.expect("there is a group").first_sent == at_ms(20.0 * f64::from(*n))
            })
            .collect();
        assert_eq!(ends, [25]);
    }

    /// Groups leave 10 ms and arrive 11 ms after one another: n ms of delay after n groups, smoothed n − 9·(1 − 0.9ⁿ).
    #[test]
    fn the_trend_is_the_slope_of_twenty_smoothed_delays() {
        let mut detector = detector();
        for n in 1..=19 {
            detector.on_group(10.0, 11.0, at_ms(11.0 * f64::from(n)));
            assert_eq!(detector.slope, 0.0);
        }
        assert_near(detector.smoothed, 19.0 - 9.0 * (1.0 - math::powf(0.9, 19.0)));
        detector.on_group(10.0, 11.0, at_ms(220.0));
        assert_near(detector.slope, 0.059_120_939_723);
        // In the end the delay grows 1 ms in 11: T = 240/11 = 21.8 ms.
        for n in 21..=400 {
            detector.on_group(10.0, 11.0, at_ms(11.0 * f64::from(n)));
        }
        assert_near(detector.slope, 1.0 / 11.0);
        assert_eq!(detector.groups, 60);
    }

    #[test]
    fn overuse_takes_two_groups_and_more_than_10_ms_and_a_trend_that_does_not_fall() {
        let usages = |sent_ms: f64, rises: [bool; 4]| {
            let mut detector = detector();
            rises.map(|rises| {
                detector.judge(13.0, rises, sent_ms);
                detector.usage
            })
        };
        use Usage::{Normal, Over};
        // 5 ms above it, then 15; it stays overuse while the trend is above.
        assert_eq!(usages(10.0, [true; 4]), [Normal, Over, Over, Over]);
        // 15 ms above it after the first group: still two groups.
        assert_eq!(usages(30.0, [true; 4]), [Normal, Over, Over, Over]);
        // 3, 9 and 15 ms.
        assert_eq!(usages(6.0, [true; 4]), [Normal, Normal, Over, Over]);
        assert_eq!(usages(10.0, [true, false, false, true]), [Normal, Normal, Normal, Over]);
        let mut detector = detector();
        detector.judge(-13.0, false, 10.0);
        assert_eq!(detector.usage, Usage::Under);
        detector.judge(-12.0, true, 10.0);
        assert_eq!(detector.usage, Normal);
    }

    #[test]
    fn the_threshold_rises_and_falls_by_its_gains_and_ignores_spikes() {
        let adapted = |trend: f64, after_ms: f64| {
            let mut detector = detector();
            detector.updated = at_ms(0.0);
            detector.adapt(trend, at_ms(after_ms));
            detector.threshold
        };
        // 12.5 + 0.01·(20 − 12.5)·10
        assert_near(adapted(20.0, 10.0), 13.25);
        assert_near(adapted(-20.0, 10.0), 13.25);
        // 12.5 + 0.00018·(2.5 − 12.5)·10
        assert_near(adapted(2.5, 10.0), 12.482);
        // At most 100 ms count: 12.5 + 0.01·7.5·100.
        assert_near(adapted(20.0, 1000.0), 20.0);
        assert_near(adapted(27.6, 10.0), 12.5);
        let mut low = detector();
        low.updated = at_ms(0.0);
        for n in 1..=10_000 {
            low.adapt(0.0, at_ms(10.0 * f64::from(n)));
        }
        assert_eq!(low.threshold, 6.0);
    }
}
