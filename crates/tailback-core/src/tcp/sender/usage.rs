//! Use of the congestion window: when it may grow, and how idle time reduces it.
//!
//! Sources: RFC 2861, Linux `tcp_cwnd_validate` and `tcp_cwnd_restart`, FreeBSD.

use super::Sender;
use crate::cc::{CongestionControl, Phase};
use crate::tcp::stack::{GrowthGate, IdleRestart};
use crate::time::{Bytes, Time};

/// How much of the window is used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Whether the window was full at some time in this round.
    pub is_full: bool,
    /// Peak of outstanding bytes in this round.
    most_out: Bytes,
    /// Offset whose acknowledgement ends the round.
    pub round_end: u64,
    /// Window validation: peak of outstanding bytes since the window last limited the sender.
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

    /// Linux 6 `tcp_cwnd_validate`: records the use of the window; per round the strongest evidence counts.
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
                // Including the evidence just recorded.
                GrowthGate::RecentlyFull => self.is_cwnd_limited(in_flight),
                _ => is_full,
            };
            self.validate_window(out, is_limited, now);
        }
    }

    /// Whether the window has no room for another full segment.
    #[inline]
    pub(super) fn is_window_full(&self, in_flight: Bytes) -> bool {
        in_flight + u64::from(self.control.mss) > self.control.cwnd
    }

    /// RFC 2861 as in Linux (`tcp_cwnd_validate`, `tcp_cwnd_application_limited`): after an RTO without an ACK that
    /// lets the window grow, the window is reduced halfway to the part that was used. This applies only if the sender
    /// lacked data, not buffer space.
    fn validate_window(&mut self, out: Bytes, is_limited: bool, now: Time) {
        if is_limited {
            self.usage.used = 0;
            self.usage.used_since = now;
            return;
        }
        self.usage.used = self.usage.used.max(out);
        let is_starved = self.buffered_end() >= self.write_end;
        let unused = now.since(self.usage.used_since);
        // The minimum is checked first: no timeout is shorter, and most calls return here.
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

    /// ssthresh, or three quarters of the current window if that is more (Linux `tcp_current_ssthresh`): a half plus a
    /// quarter, each in whole segments. During a reduction ssthresh is the target and stays.
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
        // The algorithm is called before the window changes (Linux `tcp_cwnd_restart`).
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
