//! Pacing: the rate of the algorithm or of the stack, and when the next segment may leave.
//!
//! Law: a burst of `bytes` delays the next one by bytes/rate, less its own lateness, of which at most half of that time
//! counts. The first nine data segments of a connection delay nothing, whether the stack or the algorithm paces.
//! Source: Linux 6.1 `tcp_update_pacing_rate`, `tcp_update_skb_after_send`, `tcp_pacing_delay`.
//!
//! Differs from the source: the current rate applies. Linux keeps the rate of the latest ACK, which differs until the
//! first ACK after an idle restart.

use super::Sender;
use crate::cc::CongestionControl;
use crate::time::{Bytes, Duration, Rate, Time};

/// Number of data segments sent, including the current ones, from which pacing applies (Linux
/// `tcp_update_skb_after_send`; TCP_INIT_CWND, as in the queue fq).
const UNPACED: u64 = 10;

/// Times of pacing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// The next segment may not leave earlier.
    pub next_at: Time,
    /// The wake armed for `next_at`, or [`Time::NEVER`].
    pub wake_at: Time,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing { next_at: Time::ZERO, wake_at: Time::NEVER }
    }
}

impl Sender {
    /// Linux `tcp_pacing_delay`: time until pacing allows the next segment.
    pub(super) fn pacing_wait(&self, now: Time) -> Duration {
        self.pacing.next_at.since(now)
    }

    /// Computes when the next segment may leave after `bytes` of payload leave now, as a part of `segments` sent in
    /// all. Linux `tcp_update_skb_after_send`: lateness is credited up to half of the burst's own time.
    #[inline(never)]
    pub(super) fn charge_pacing(&mut self, bytes: Bytes, segments: u64, now: Time) {
        if segments < UNPACED {
            return;
        }
        let rate = match self.control.pacing {
            None if self.stack.pacing => self.stack_pacing(),
            rate => rate,
        };
        let Some(rate) = rate.filter(|rate| rate.as_bps() > 0 && bytes > 0) else { return };
        let span = rate.time_for(bytes);
        let credit = now.since(self.pacing.next_at).min(span / 2);
        self.pacing.next_at = self.pacing.next_at.max(now) + span.saturating_sub(credit);
    }

    /// Pacing rate in bytes per second: the algorithm's, or else Linux's default.
    pub(super) fn rate_bytes(&self) -> u64 {
        self.control.pacing.map_or_else(|| self.window_rate(), |rate| rate.as_bps() / 8)
    }

    /// The pacing rate if the stack paces an algorithm that does not pace itself.
    #[cold]
    pub(super) fn stack_pacing(&self) -> Option<Rate> {
        (!self.algorithm.owns_window()).then(|| Rate::from_bps(self.rate_bytes().saturating_mul(8)))
    }

    /// Linux `tcp_update_pacing_rate`: a multiple of cwnd per srtt, 200 % below half of ssthresh and 120 % above.
    fn window_rate(&self) -> u64 {
        self.window_a_million().checked_div(self.rtt.srtt().as_us()).unwrap_or(u64::MAX)
    }

    /// Whether [`Self::window_rate`] is at least `bytes` per second, computed without a division.
    #[inline]
    pub(super) fn has_window_rate(&self, bytes: Bytes) -> bool {
        bytes.saturating_mul(self.rtt.srtt().as_us()) <= self.window_a_million()
    }

    /// Bytes that the default rate sends in a million smoothed RTTs.
    #[inline]
    fn window_a_million(&self) -> Bytes {
        // Half of ssthresh in whole segments, without a division.
        let twice = 2 * self.control.cwnd + u64::from(self.control.mss);
        let percent = if twice < self.control.ssthresh { 200 } else { 120 };
        self.control.cwnd.max(self.board.outstanding()).saturating_mul(10_000 * percent)
    }
}
