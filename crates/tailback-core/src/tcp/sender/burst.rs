//! How much leaves the host at once: pacing by the stack, bursts of segmentation offload, and the bound on the
//! host's own queue.
//!
//! Sources: Linux `tcp_tso_should_defer`, `tcp_tso_autosize`, `tcp_update_pacing_rate`, `tcp_small_queue_check`.
//!
//! Differs from the sources: the queue of the first link on the route stands for qdisc and device together, and
//! its bytes for the memory they take; the device holds no ring of its own. Links that hold packets for processing
//! jitter stand before it and empty at once, so with them there is nothing to bound.

use super::Sender;
use crate::cc::{CongestionControl, Phase};
use crate::time::{Bytes, Duration, Rate, Time};

/// sk_pacing_shift: bursts and the host's queue are worth 1/1024 s.
const SHARE_OF_SECOND: u64 = 1024;
/// The largest segment to offload, tcp_tso_rtt_log and the RTT exponent beyond which it adds nothing.
const LARGEST_OFFLOAD: Bytes = 65_536;
const RTT_LOG: u32 = 9;
/// TCP_INIT_CWND.
const UNPACED: u64 = 10;
/// Deferral only goes on from a transmission no longer ago than this.
const RECENT: Duration = Duration::from_ms(1);

impl Sender {
    /// The algorithm's own pacing rate, or what Linux works out for all of them: 200 % of cwnd/srtt in slow start
    /// and 120 % after.
    fn likely_rate(&self) -> Rate {
        self.control.pacing.unwrap_or_else(|| {
            let srtt = self.rtt.srtt().max(Duration::from_us(1));
            let per_cent = if self.control.cwnd < self.control.ssthresh / 2 { 200 } else { 120 };
            let window = self.control.cwnd.max(self.board.outstanding());
            Rate::from_bytes_over(window * per_cent / 100, srtt)
        })
    }

    /// The rate segments leave at, if the stack paces what its algorithm does not. The first ten leave at once
    /// (`tcp_update_skb_after_send`).
    #[cold]
    pub(super) fn stack_pacing(&self) -> Option<Rate> {
        let is_first = self.count.segments_sent < UNPACED;
        (!is_first && !self.algorithm.owns_window()).then(|| self.likely_rate())
    }

    /// Bytes of a millisecond at that rate.
    fn paced_bytes(&self) -> Bytes {
        self.likely_rate().as_bps() / 8 / SHARE_OF_SECOND
    }

    /// The most segments of one burst.
    fn burst_segments(&self) -> u64 {
        let most = u64::from(self.stack.burst_segments);
        if !self.stack.burst_autosize {
            return most;
        }
        // Near hosts get longer bursts: twice as many for each half of a millisecond less (since 5.18).
        let halvings = (self.rtt.min().as_ps() / 1_000_000) >> RTT_LOG;
        let near = if halvings < 32 { LARGEST_OFFLOAD >> halvings } else { 0 };
        let bytes = (self.paced_bytes() + near).min(LARGEST_OFFLOAD);
        (bytes / u64::from(self.control.mss)).max(2).min(most)
    }

    /// Linux `tcp_tso_should_defer`: a burst waits until it is whole or a third of the window is free. But not in
    /// recovery, which paces the sending already; not for an ACK more than half a round trip away; and not if
    /// nothing was sent in the last millisecond, as what is saved up would make a burst of its own.
    #[cold]
    pub(super) fn defers(&mut self, available: Bytes, now: Time) -> bool {
        if self.burst_left > 0 {
            self.burst_left -= 1;
            return false;
        }
        let mss = u64::from(self.control.mss);
        let room = self.control.cwnd.saturating_sub(self.in_flight()).min(available);
        let burst = self.burst_segments();
        let is_enough = room >= (burst * mss).min(self.control.cwnd / 3) || available <= room;
        let is_ack_near = self.board.head_sent().is_some_and(|sent| now.since(sent) >= self.rtt.srtt() / 2);
        let is_recent = now.since(self.last_sent) <= RECENT;
        if !is_enough && is_recent && is_ack_near && self.phase < Phase::Recovery {
            return true;
        }
        self.burst_left = (room / mss).min(burst).saturating_sub(1);
        false
    }

    /// Does the host's queue hold as much of ours as it may? One burst may always wait there, so that sending
    /// does not hang on the report alone.
    #[cold]
    pub(super) fn has_queued_enough(&mut self) -> bool {
        let burst = self.burst_segments();
        let two_bursts = 2 * burst * u64::from(self.control.mss);
        let most = self.stack.small_queue.unwrap_or(Bytes::MAX);
        let limit = two_bursts.max(self.paced_bytes()).min(most);
        self.waits_for_queue = self.queued > limit && u64::from(self.board.segments_out()) > burst;
        self.waits_for_queue
    }

    /// The host's link took `bytes` of ours.
    pub fn on_queued(&mut self, bytes: Bytes) {
        self.queued += bytes;
    }

    /// The host's link has sent, or dropped, `bytes` of ours. True: sending has waited for it.
    pub fn on_unqueued(&mut self, bytes: Bytes) -> bool {
        self.queued = self.queued.saturating_sub(bytes);
        self.waits_for_queue
    }

    /// Bytes of ours in the queue of the host's link, if the stack looks at it.
    pub fn queued(&self) -> Bytes {
        self.queued
    }
}
