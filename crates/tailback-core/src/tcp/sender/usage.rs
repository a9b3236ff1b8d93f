//! How much of the window is used: when it may grow, and what idleness does to it.
//!
//! Sources: RFC 2861, Linux `tcp_cwnd_validate` and `tcp_cwnd_restart`, FreeBSD.

use super::Sender;
use crate::cc::{CongestionControl, Phase};
use crate::tcp::stack::{GrowthGate, IdleRestart};
use crate::time::{Bytes, Time};

/// How much of the window was used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// It was full at some time in this round.
    pub is_full: bool,
    /// The most that was out in this round.
    most_out: Bytes,
    /// The round ends when this offset is acknowledged.
    pub round_end: u64,
    /// Window validation: the most that was out since the window last limited the sender.
    used: Bytes,
    /// When the window last limited the sender, or an ACK last ran the algorithm's growth (Linux `snd_cwnd_stamp`).
    pub used_since: Time,
}

impl Sender {
    pub(super) fn is_in_slow_start(&self) -> bool {
        self.control.is_in_slow_start(self.stack.slow_start_at_equality)
    }

    pub(super) fn is_cwnd_limited(&self, in_flight: Bytes) -> bool {
        match self.stack.growth_gate {
            GrowthGate::Always => true,
            GrowthGate::WindowFull => self.is_window_full(in_flight),
            GrowthGate::BelowSendWindow => self.control.cwnd <= self.send_window(),
            GrowthGate::RecentlyFull => {
                self.usage.is_full || (self.is_in_slow_start() && self.control.cwnd < 2 * self.usage.most_out)
            }
        }
    }

    /// Linux 6 `tcp_cwnd_validate`: remember how much of the window was used, the strongest evidence of a round.
    pub(super) fn on_window_used(&mut self, now: Time) {
        let out = self.board.outstanding();
        let in_flight = self.in_flight();
        let is_full = self.bursts.waits || self.is_window_full(in_flight);
        if self.snd_una >= self.usage.round_end
            || is_full
            || (!self.usage.is_full && out > self.usage.most_out)
        {
            self.usage.is_full = is_full;
            self.usage.most_out = out;
            self.usage.round_end = self.snd_nxt;
        }
        if self.stack.window_validation {
            let is_limited = match self.stack.growth_gate {
                // With what this sending has added to the evidence.
                GrowthGate::RecentlyFull => self.is_cwnd_limited(in_flight),
                _ => is_full,
            };
            self.validate_window(out, is_limited, now);
        }
    }

    /// No whole segment more fits.
    #[inline]
    pub(super) fn is_window_full(&self, in_flight: Bytes) -> bool {
        in_flight + u64::from(self.control.mss) > self.control.cwnd
    }

    /// RFC 2861 as Linux does it (`tcp_cwnd_validate`, `tcp_cwnd_application_limited`): after a timeout without an ACK
    /// that lets the window grow, the window goes halfway down to what was used. It must not have been full, for want
    /// of data and not of buffer.
    fn validate_window(&mut self, out: Bytes, is_limited: bool, now: Time) {
        if is_limited {
            self.usage.used = 0;
            self.usage.used_since = now;
            return;
        }
        self.usage.used = self.usage.used.max(out);
        let is_starved = self.buffered_end() >= self.write_end;
        let unused = now.since(self.usage.used_since);
        // The minimum first: no timeout is shorter, and most calls end here.
        if unused < self.stack.rto_minimum || unused < self.timeout() || self.algorithm.owns_window() {
            return;
        }
        if self.phase == Phase::Open && is_starved {
            let mss = u64::from(self.control.mss);
            let used = self.usage.used.max(u64::from(self.stack.restart_window) * mss);
            if used < self.control.cwnd {
                self.control.ssthresh = self.current_ssthresh();
                self.control.cwnd = self.whole_segments((self.control.cwnd + used) / 2);
            }
            self.usage.used = 0;
        }
        self.usage.used_since = now;
    }

    /// Slow start may go back to three quarters of the window given up (Linux `tcp_current_ssthresh`): half and a quarter,
    /// each in whole segments. During a reduction ssthresh is where the window is going, and stays.
    pub(super) fn current_ssthresh(&self) -> Bytes {
        if matches!(self.phase, Phase::Cwr | Phase::Recovery) {
            return self.control.ssthresh;
        }
        let segments = self.control.cwnd_segments();
        self.control.ssthresh.max((segments / 2 + segments / 4) * u64::from(self.control.mss))
    }

    pub(super) fn whole_segments(&self, bytes: Bytes) -> Bytes {
        let mss = u64::from(self.control.mss);
        (bytes / mss * mss).max(mss)
    }

    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.output.last_sent);
        let timeout = self.timeout();
        if self.snd_nxt == 0 || idle <= timeout || self.algorithm.owns_window() {
            return;
        }
        let restart = u64::from(self.stack.restart_window) * u64::from(self.control.mss);
        let restart = restart.min(self.control.cwnd);
        if self.stack.idle_restart == IdleRestart::Keep {
            return;
        }
        // The algorithm still sees the old window (Linux `tcp_cwnd_restart`).
        self.algorithm.on_idle_restart(now, idle, &mut self.control);
        match self.stack.idle_restart {
            IdleRestart::Keep => {}
            IdleRestart::Restart => self.control.cwnd = restart,
            IdleRestart::Halve => {
                self.control.ssthresh = self.current_ssthresh();
                let mut remaining = idle.saturating_sub(timeout);
                while !remaining.is_zero() && self.control.cwnd > restart {
                    self.control.cwnd /= 2;
                    remaining = remaining.saturating_sub(timeout);
                }
                self.control.cwnd = self.whole_segments(self.control.cwnd.max(restart));
            }
        }
        self.usage.used = 0;
        self.usage.used_since = now;
    }
}
