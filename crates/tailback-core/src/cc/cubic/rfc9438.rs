//! CUBIC as specified in RFC 9438.

use crate::cc::parts::decrease::landing;
use crate::cc::parts::growth::Fraction;
use crate::cc::{Ack, Congestion, Control};
use crate::math;
use crate::params::Checked;
use crate::time::Time;

/// RFC 9438 in real arithmetic; windows in segments, times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Rfc9438 {
    pub(super) fast_convergence: bool,
    pub(super) friendliness: bool,
    /// β and C in millionths.
    pub(super) beta_ppm: u32,
    pub(super) c_ppm: u32,
    pub(super) w_max: f64,
    pub(super) w_max_before: f64,
    pub(super) k: f64,
    pub(super) w_est: f64,
    /// Window before the last reduction.
    pub(super) prior: f64,
    /// [`Time::NEVER`] between a reduction and the first ACK of congestion avoidance.
    pub(super) epoch_start: Time,
    pub(super) fraction: Fraction,
}

impl Rfc9438 {
    pub(super) fn new(given: &Checked<'_>) -> Self {
        let ppm = |name: &str, default: f64| (given.given_number(name).unwrap_or(default) * 1e6 + 0.5) as u32;
        Rfc9438 {
            fast_convergence: given.flag("fast_convergence"),
            friendliness: given.flag("tcp_friendliness"),
            beta_ppm: ppm("beta", 0.7),
            c_ppm: ppm("c", 0.4),
            w_max: 0.0,
            w_max_before: 0.0,
            k: 0.0,
            w_est: 0.0,
            prior: 0.0,
            epoch_start: Time::NEVER,
            fraction: Fraction::default(),
        }
    }

    pub(super) fn beta(&self) -> f64 {
        f64::from(self.beta_ppm) / 1e6
    }

    pub(super) fn window_at(&self, t: f64) -> f64 {
        let offset = t - self.k;
        f64::from(self.c_ppm) / 1e6 * offset * offset * offset + self.w_max
    }

    pub(super) fn grow(&mut self, ack: &Ack, control: &mut Control) {
        let mss = f64::from(control.mss);
        let window = control.cwnd as f64 / mss + self.fraction.held();
        let acked = ack.newly_acked as f64 / mss;
        if self.epoch_start == Time::NEVER {
            self.begin_epoch(ack.now, window);
        }
        let t = ack.now.since(self.epoch_start).as_secs_f64();
        // Section 4.3: Reno's slope for our β until the previous window is reached, then slope 1.
        let beta = self.beta();
        let alpha = if self.w_est < self.prior { 3.0 * (1.0 - beta) / (1.0 + beta) } else { 1.0 };
        self.w_est += alpha * acked / window;
        let step = if self.friendliness && self.window_at(t) < self.w_est {
            (self.w_est - window).max(0.0)
        } else {
            // Section 4.2: the target one RTT ahead, at most 1.5 times the window.
            let target = self.window_at(t + ack.srtt.as_secs_f64()).clamp(window, 1.5 * window);
            (target - window) / window * acked
        };
        self.fraction.add(control, step, 1);
    }

    pub(super) fn begin_epoch(&mut self, now: Time, window: f64) {
        self.epoch_start = now;
        self.w_est = window;
        if self.w_max <= window {
            self.w_max = window;
            self.k = 0.0;
        } else {
            self.k = math::cbrt((self.w_max - window) / (f64::from(self.c_ppm) / 1e6));
        }
    }

    pub(super) fn reduce(&mut self, congestion: &Congestion, control: &Control) -> u64 {
        let window = control.cwnd as f64 / f64::from(control.mss);
        let beta = self.beta();
        self.w_max_before = self.w_max;
        let yields = self.fast_convergence && window < self.w_max;
        self.w_max = if yields { window * (1.0 + beta) / 2.0 } else { window };
        self.prior = window;
        self.epoch_start = Time::NEVER;
        self.fraction.clear();
        // Section 4.6: a fraction of the flight, which is less than the window for an application-limited sender.
        let flight = congestion.flight().max(congestion.in_flight).min(control.cwnd);
        let share = flight as f64 * beta / f64::from(control.mss);
        landing(share as u64, control.mss)
    }

    /// Section 4.8: after a timeout, the window at the end of slow start becomes W_max.
    pub(super) fn forget(&mut self) {
        self.w_max = 0.0;
        self.k = 0.0;
        self.epoch_start = Time::NEVER;
        self.fraction.clear();
    }
}
