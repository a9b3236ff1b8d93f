//! The kernel's CUBIC in integers: Linux 6.x, and 2.6.25 (v2.1).

use crate::cc::parts::clock::{Ticks, span_us};
use crate::cc::parts::decrease::landing;
use crate::cc::{Ack, Control, Phase};
use crate::math;
use crate::params::Checked;
use crate::time::{Duration, Time};

/// The kernel's integers: windows in segments, K and t in 1/1024 s, epochs in jiffies.
#[derive(Clone, Debug)]
pub(super) struct Linux {
    /// Linux 6.x rather than 2.6.25.
    pub(super) is_current: bool,
    pub(super) fast_convergence: bool,
    pub(super) friendliness: bool,
    /// Whether a loss has occurred since the state was last reset.
    pub(super) has_lost: bool,
    /// β in 1/1024.
    pub(super) beta: u16,
    /// C in 1/10240: `bic_scale`, 41.
    pub(super) scale: u16,
    /// v2.1: average number of segments per ACK, in 1/16.
    pub(super) ack_ratio: u16,
    pub(super) ticks: Ticks,
    /// Number of acknowledged segments per step of the window.
    pub(super) needed: u32,
    pub(super) last_max: u32,
    pub(super) last_window: u32,
    pub(super) last_time: u32,
    pub(super) origin: u32,
    pub(super) k: u32,
    /// Minimum RTT in microseconds; 0 before the first sample.
    pub(super) delay_min: u32,
    pub(super) epoch_start: Option<u32>,
    pub(super) acked: u32,
    pub(super) reno_window: u32,
}

/// v2.1: initial number of segments per ACK, 2.0 in 1/16.
const ACK_RATIO: u16 = 32;
/// v2.1: maximum growth in segments per 100 ms above the origin.
const MAX_INCREMENT: u64 = 16;

impl Linux {
    pub(super) fn new(given: &Checked<'_>, is_current: bool) -> Self {
        let of_1024 = |share: f64| (share * 1024.0 + 0.5) as u16;
        let beta = if is_current { 717 } else { 819 };
        Linux {
            is_current,
            fast_convergence: given.flag("fast_convergence"),
            friendliness: given.flag("tcp_friendliness"),
            has_lost: false,
            beta: given.given_number("beta").map_or(beta, of_1024),
            scale: given.given_number("c").map_or(41, |c| of_1024(c / 10.0).max(1)),
            ack_ratio: ACK_RATIO,
            ticks: Ticks { hz: given.given_whole("hz").unwrap_or(250) as u32 },
            needed: 1,
            last_max: 0,
            last_window: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            delay_min: 0,
            epoch_start: None,
            acked: 0,
            reno_window: 0,
        }
    }

    /// Takes the RTT sample of this ACK, if there is one. Samples in the first second of an epoch are ignored, because
    /// the queue of the previous epoch may still be there.
    pub(super) fn takes_delay(&mut self, ack: &Ack) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        let now = self.ticks.at(ack.now);
        if self.epoch_start.is_some_and(|start| now.wrapping_sub(start) < self.ticks.hz) {
            return false;
        }
        let delay = span_us(rtt);
        if self.delay_min == 0 || delay < self.delay_min {
            self.delay_min = delay;
        }
        true
    }

    pub(super) fn count_ack_ratio(&mut self, ack: &Ack) {
        if self.is_current || ack.phase != Phase::Open || ack.newly_acked == 0 {
            return;
        }
        let covered = ack.newly_acked_segments.min(1_000) as u16;
        self.ack_ratio = self.ack_ratio - self.ack_ratio / 16 + covered;
    }

    /// Number of acknowledged segments per step of the window, at `now`.
    pub(super) fn update(&mut self, now: Time, window: u64, segments: u64) -> u64 {
        let now = self.ticks.at(now);
        let window = window as u32;
        self.acked += segments as u32;
        let since = now.wrapping_sub(self.last_time);
        if self.last_window == window && since <= self.ticks.hz / 32 {
            return u64::from(self.needed);
        }
        // The current kernel evaluates the curve at most once per jiffy.
        let same_jiffy = self.is_current && self.epoch_start.is_some() && since == 0;
        if !same_jiffy {
            self.last_window = window;
            self.last_time = now;
            let start = match self.epoch_start {
                Some(start) => start,
                None => self.begin_epoch(now, window, segments as u32),
            };
            self.needed = self.follow_curve(now.wrapping_sub(start), window);
        }
        if self.friendliness {
            self.keep_up_with_reno(window);
        }
        if self.is_current {
            self.needed = self.needed.max(2);
        } else {
            self.needed = (u64::from(self.needed) * 16 / u64::from(self.ack_ratio.max(1))).max(1) as u32;
        }
        u64::from(self.needed)
    }

    pub(super) fn begin_epoch(&mut self, now: u32, window: u32, segments: u32) -> u32 {
        self.epoch_start = Some(now);
        self.acked = segments;
        self.reno_window = window;
        if self.last_max <= window {
            self.k = 0;
            self.origin = window;
        } else {
            self.k = k_1024(u64::from(self.last_max - window), self.scale);
            self.origin = self.last_max;
        }
        now
    }

    pub(super) fn follow_curve(&self, elapsed: u32, window: u32) -> u32 {
        let delay = self.ticks.span(Duration::from_us(u64::from(self.delay_min)));
        let t = (u64::from(elapsed) + u64::from(delay)) * 1024 / u64::from(self.ticks.hz);
        let target = curve(t, u64::from(self.k), u64::from(self.origin), self.scale);
        let window = u64::from(window);
        let mut needed = if target > window { window / (target - window) } else { 100 * window };
        if !self.is_current {
            if delay > 0 && t >= u64::from(self.k) {
                // `delay` is in jiffies; the kernel's 8 cancels against its eighths of a jiffy.
                let least = window * u64::from(self.ticks.hz) / (10 * MAX_INCREMENT * u64::from(delay));
                needed = needed.max(least);
            }
            if !self.has_lost {
                needed = 50;
            }
        } else if self.last_max == 0 {
            needed = needed.min(20);
        }
        needed as u32
    }

    /// Uses Reno's window, counted in the same segments, as a lower bound.
    pub(super) fn keep_up_with_reno(&mut self, window: u32) {
        let beta = u32::from(self.beta);
        let scale = 8 * (1024 + beta) / 3 / (1024 - beta);
        let price = ((u64::from(window) * u64::from(scale)) >> 3).max(1) as u32;
        // A single division instead of the kernel's loop: at most one credit above the price remains.
        if self.acked > price {
            let steps = (self.acked - 1) / price;
            self.acked -= steps * price;
            self.reno_window += steps;
        }
        if self.reno_window > window {
            self.needed = self.needed.min(window / (self.reno_window - window));
        }
    }

    pub(super) fn reduce(&mut self, control: &Control) -> u64 {
        let window = control.cwnd_segments();
        let beta = u64::from(self.beta);
        self.epoch_start = None;
        self.has_lost = true;
        let yields = self.fast_convergence && window < u64::from(self.last_max);
        self.last_max = if yields { window * (1024 + beta) / 2048 } else { window } as u32;
        landing(window * beta / 1024, control.mss)
    }

    /// Resets the state after a timeout.
    pub(super) fn forget(&mut self) {
        *self = Linux {
            has_lost: false,
            ack_ratio: ACK_RATIO,
            needed: 1,
            last_max: 0,
            last_window: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            delay_min: 0,
            epoch_start: None,
            acked: 0,
            reno_window: 0,
            ..*self
        };
    }
}

/// K in 1/1024 s for an increase of `segments`: ∛(segments·2⁴⁰/(10·scale)).
pub(super) fn k_1024(segments: u64, scale: u16) -> u32 {
    let factor = (1_u64 << 40) / (10 * u64::from(scale));
    cube_root(factor.saturating_mul(segments)) as u32
}

/// W(t) in whole segments; the cubic part is truncated before it is added or subtracted.
pub(super) fn curve(t: u64, k: u64, origin: u64, scale: u16) -> u64 {
    let offset = u128::from(t.abs_diff(k));
    let delta = ((10 * u128::from(scale) * offset * offset * offset) >> 40) as u64;
    if t < k { origin.saturating_sub(delta) } else { origin + delta.min(u64::from(u32::MAX)) }
}

/// ⌊∛x⌋ from the floating-point root, corrected to the exact integer.
pub(super) fn cube_root(x: u64) -> u64 {
    let mut root = math::cbrt(x as f64) as u64;
    let cube = |r: u64| u128::from(r) * u128::from(r) * u128::from(r);
    while cube(root) > u128::from(x) {
        root -= 1;
    }
    while cube(root + 1) <= u128::from(x) {
        root += 1;
    }
    root
}
