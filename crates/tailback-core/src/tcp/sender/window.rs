//! How much of the window is used: when it may grow, and what idleness does to it.

use super::Sender;
use crate::cc::CongestionControl;
use crate::tcp::stack::{GrowthGate, Reduction};
use crate::time::{Bytes, Time};

impl Sender {
    pub(super) fn is_in_slow_start(&self) -> bool {
        match self.stack.slow_start_at_equality {
            true => self.control.cwnd <= self.control.ssthresh,
            false => self.control.cwnd < self.control.ssthresh,
        }
    }

    pub(super) fn is_cwnd_limited(&self, in_flight: Bytes) -> bool {
        match self.stack.growth_gate {
            GrowthGate::Always => true,
            GrowthGate::WindowFull => in_flight + u64::from(self.control.mss) > self.control.cwnd,
            GrowthGate::RecentlyFull => {
                if self.is_in_slow_start() {
                    self.control.cwnd < 2 * self.most_out
                } else {
                    self.window_full
                }
            }
        }
    }

    pub(super) fn keep_floor(&mut self) {
        self.control.cwnd = self.control.cwnd.max(u64::from(self.control.mss));
    }

    /// Linux 6 `tcp_cwnd_validate`: remember how much of the window was used, the strongest evidence of a round.
    pub(super) fn on_window_used(&mut self) {
        let out = self.board.outstanding();
        let is_full = self.in_flight() + u64::from(self.control.mss) > self.control.cwnd;
        if self.snd_una >= self.usage_end || is_full || (!self.window_full && out > self.most_out) {
            self.window_full = is_full;
            self.most_out = out;
            self.usage_end = self.snd_nxt;
        }
    }

    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.last_sent);
        if self.snd_nxt == 0 || !self.stack.idle_restart || idle <= self.rtt.timeout() {
            return;
        }
        let initial = u64::from(self.stack.initial_window) * u64::from(self.control.mss);
        let restart = initial.min(self.control.cwnd);
        let mut remaining = idle.saturating_sub(self.rtt.timeout());
        match self.stack.reduction {
            // Linux halves once for every timeout of idleness.
            Reduction::RateHalving | Reduction::Prr => loop {
                self.control.cwnd = (self.control.cwnd / 2).max(restart);
                if remaining < self.rtt.timeout() || self.control.cwnd == restart {
                    break;
                }
                remaining = remaining.saturating_sub(self.rtt.timeout());
            },
            Reduction::Immediate | Reduction::FreeBsd => self.control.cwnd = restart,
        }
        let mss = u64::from(self.control.mss);
        self.control.cwnd = (self.control.cwnd / mss * mss).max(mss);
        self.algorithm.on_idle_restart(now, idle, &mut self.control);
    }
}
