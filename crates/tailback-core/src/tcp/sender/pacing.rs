//! Pacing: the algorithm's rate, or the stack's own, and when the next segment may leave.
//!
//! Law: a burst of `bytes` holds the next one back for bytes/rate, less what it left late itself, at most half. The
//! first nine data segments of a connection hold nothing back, whether its stack or its algorithm paces.
//! Source: Linux 6.1 `tcp_update_pacing_rate`, `tcp_update_skb_after_send`, `tcp_pacing_delay`.
//!
//! Differs from the source: the rate is that of the moment; Linux keeps the rate of the latest ACK, which differs until
//! the first ACK after an idle restart.

use super::Sender;
use crate::cc::CongestionControl;
use crate::time::{Bytes, Duration, Rate, Time};

/// Data segments sent, with those just leaving, from which on pacing begins (Linux `tcp_update_skb_after_send`, as
/// the queue fq has it: TCP_INIT_CWND).
const UNPACED: u64 = 10;

/// When what is paced may leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// The next segment, not before.
    pub next_at: Time,
    /// The wake that waits for it.
    pub wake_at: Time,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing { next_at: Time::ZERO, wake_at: Time::NEVER }
    }
}

impl Sender {
    /// Linux `tcp_pacing_delay`: what pacing holds back has its time yet to come.
    pub(super) fn pacing_wait(&self, now: Time) -> Duration {
        self.pacing.next_at.since(now)
    }

    /// When the next one may leave, now that `bytes` of payload do, with which `segments` were sent. Linux
    /// `tcp_update_skb_after_send`: up to half of their own time is forgiven to what leaves late.
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

    /// Bytes a second at the pacing rate: the algorithm's own, or what Linux works out for all of them.
    pub(super) fn rate_bytes(&self) -> u64 {
        self.control.pacing.map_or_else(|| self.window_rate(), |rate| rate.as_bps() / 8)
    }

    /// The rate segments leave at, if the stack paces what its algorithm does not.
    #[cold]
    pub(super) fn stack_pacing(&self) -> Option<Rate> {
        (!self.algorithm.owns_window()).then(|| Rate::from_bps(self.rate_bytes().saturating_mul(8)))
    }

    /// Linux `tcp_update_pacing_rate`: the window a smoothed round trip, times 2 in slow start and 1.2 later.
    fn window_rate(&self) -> u64 {
        self.window_a_million().checked_div(self.rtt.srtt().as_us()).unwrap_or(u64::MAX)
    }

    /// Is that rate at least this? As it rounds down, without a division.
    #[inline]
    pub(super) fn has_window_rate(&self, bytes: Bytes) -> bool {
        bytes.saturating_mul(self.rtt.srtt().as_us()) <= self.window_a_million()
    }

    /// What leaves in a million smoothed round trips.
    #[inline]
    fn window_a_million(&self) -> Bytes {
        let percent = if self.control.cwnd < self.control.ssthresh / 2 { 200 } else { 120 };
        self.control.cwnd.max(self.board.outstanding()).saturating_mul(10_000 * percent)
    }
}
