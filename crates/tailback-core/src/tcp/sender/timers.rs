//! The sender's timers: retransmission timeout, tail loss probe, RACK's reordering timer.
//!
//! Sources: RFC 6298, RFC 8985 section 7.

use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase, Signal};
use crate::tcp::stack::{Detection, Reduction, Stack, Undo};
use crate::time::{Duration, Time};

/// Linux `TCP_TIMEOUT_MIN_US`, added to the timeouts of RACK and of the loss probe before rounding up to jiffies. Until
/// 6.1.59 and 6.5 it was two jiffies, added after rounding.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_ms(2);

/// The purpose for which the timer runs. Linux has one timer for all three (`icsk_pending`): arming one replaces the
/// others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// Retransmission timeout, or persist timer.
    Timeout,
    Probe,
    /// RACK's reordering timeout, for segments that may be late rather than lost.
    Reordering,
}

/// The timer, stored as the values it was set with. An ACK that lets data leave sets it twice, nearly always to a later
/// time than the end's next wake. So the exact expiry (see [`Stack::expiry`]) is computed only on demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    /// When the timer was set; [`Time::NEVER`]: it is not running.
    since: Time,
    wait: Duration,
    waits: Waits,
    /// Whether the current ACK restarts the timer.
    pub restarts: bool,
}

impl Default for Timer {
    fn default() -> Self {
        Timer { since: Time::NEVER, wait: Duration::ZERO, waits: Waits::Timeout, restarts: false }
    }
}

impl Timer {
    #[inline]
    pub fn arm(&mut self, waits: Waits, now: Time, wait: Duration) {
        (self.since, self.wait, self.waits) = (now, wait, waits);
    }
    pub fn stop(&mut self) {
        (self.since, self.wait) = (Time::NEVER, Duration::ZERO);
    }
    pub fn runs(&self) -> bool {
        self.since != Time::NEVER
    }
    pub fn runs_for(&self, waits: Waits) -> bool {
        self.runs() && self.waits == waits
    }
    /// A lower bound on the expiry.
    #[inline(always)]
    fn at_least(&self) -> Time {
        self.since + self.wait
    }
    fn at(&self, stack: &Stack) -> Time {
        if self.runs() { stack.expiry(self.since, self.wait) } else { Time::NEVER }
    }
}

impl Sender {
    /// The earliest time at which [`Self::on_timer`] or pacing has something to do.
    pub fn next_wake(&self) -> Time {
        self.timer.at(&self.stack).min(self.pacing.wake_at)
    }

    /// A lower bound on [`Self::next_wake`] that is cheaper to compute.
    #[inline(always)]
    pub fn next_wake_at_least(&self) -> Time {
        self.timer.at_least().min(self.pacing.wake_at)
    }

    pub(super) fn arm_rto(&mut self, now: Time) {
        self.arm_rto_after(self.timeout(), now);
    }

    fn arm_rto_after(&mut self, wait: Duration, now: Time) {
        match self.board.is_empty() {
            true => self.timer.stop(),
            false => self.timer.arm(Waits::Timeout, now, wait + self.pacing_wait(now)),
        }
    }

    /// Linux `tcp_set_xmit_timer`: arms the loss probe if one applies, else the retransmission timer.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.arm_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Linux `tcp_rearm_rto`: replaces another timer by the rest of the head's timeout.
    pub(super) fn rearm_rto(&mut self, now: Time) {
        match self.timer.runs() && self.timer.waits != Waits::Timeout {
            false => self.arm_rto(now),
            true => self.arm_rto_after(self.head_wait(now).max(Duration::from_us(1)), now),
        }
    }

    /// Rest of the timeout since the head was sent (Linux `tcp_rto_delta_us`); zero if it has passed.
    pub(super) fn head_wait(&self, now: Time) -> Duration {
        let sent = self.board.head_sent().unwrap_or(now);
        (sent + self.rtt.timeout_in_ticks(&self.stack)).since(now)
    }

    /// Arms RACK's reordering timer: after `wait` the last undecided segment will be lost. Linux `tcp_rack_mark_lost`
    /// adds [`TIMEOUT_MIN`] and limits the wait to the RTO.
    pub(super) fn arm_reorder(&mut self, wait: Duration, now: Time) {
        self.timer.arm(Waits::Reordering, now, (wait + TIMEOUT_MIN).min(self.timeout()));
    }

    /// RFC 6582 section 4 ("impatient"): only the first partial ACK restarts the timer. Many losses in a window then
    /// end in slow start after a timeout, instead of one retransmission per round trip.
    pub(super) fn is_impatient(&mut self) -> bool {
        if self.phase != Phase::Recovery || self.snd_una >= self.recover {
            self.partial_acks = 0;
            return false;
        }
        self.partial_acks += 1;
        self.stack.impatient && self.partial_acks > 1
    }

    /// Handles the timer. Returns true if it was due.
    pub fn on_timer(&mut self, now: Time, events: &mut Vec<CongestionEvent>) -> bool {
        if now < self.timer.at(&self.stack) {
            return false;
        }
        match self.timer.waits {
            Waits::Reordering => self.on_reorder_timer(now, events),
            // Only one probe is outstanding at a time.
            Waits::Probe if self.probe.end != 0 => self.rearm_rto(now),
            Waits::Probe => {
                self.probe.end = self.snd_nxt.max(1);
                // Sent by `next_segment`: new data if there is any, else the last segment again.
                self.probe.is_repeated =
                    !(self.snd_nxt < self.write_end && self.snd_nxt < self.peer.right_edge);
                self.may_force = true;
                // The timeout runs again after the probe (RFC 8985 section 7.3).
                self.arm_rto(now);
            }
            Waits::Timeout if self.board.is_empty() => self.on_persist_timer(),
            Waits::Timeout => self.on_timeout(now, events),
        }
        true
    }

    fn on_reorder_timer(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let lost = self.detect_rack(now).0;
        if self.is_followed && lost > 0 {
            self.report_fates(now, None);
        }
        if lost > 0 && self.phase != Phase::Recovery {
            self.enter_recovery(false, now, events);
            if self.stack.reduction == Reduction::Prr && !self.algorithm.owns_window() {
                // Linux `tcp_rack_reo_timeout` counts one segment as delivered.
                self.reduce_proportionally(u64::from(self.control.mss), 0, lost);
            }
        }
        self.rearm_rto(now);
    }

    pub(super) fn on_timeout(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        let first = self.is_new_episode();
        self.count.timeouts += 1;
        self.begin_frto();
        self.forget_reordering();
        self.trouble.timeout_una = self.snd_una;
        // Linux 6 marks losses first, so that retransmissions in flight are counted afterwards.
        let marks_first = self.stack.detection == Detection::Rack;
        if marks_first {
            self.mark_timed_out(now);
        }
        match first {
            true => self.begin_reduction(Signal::Timeout { first }, now),
            false => self.congestion(Signal::Timeout { first }, now),
        }
        if marks_first {
            // Linux `tcp_enter_loss`: every timeout, also of data that timed out before.
            self.owe_cwr();
        }
        // BSD: only the first timeout can be recognised as a bad retransmit.
        self.trouble.undo.bad_until = match self.rtt.backoffs() {
            0 if self.stack.undo == Undo::BadRetransmit => now + self.rtt.srtt() / 2,
            _ => Time::ZERO,
        };
        if !marks_first {
            self.mark_timed_out(now);
        }
        if self.is_followed {
            self.report_fates(now, None);
        }
        self.departed = 0;
        self.duplicate_acks = 0;
        self.recover = self.snd_nxt;
        self.probe.end = 0;
        // One segment may be sent, even if the algorithm owns the window and has not set it yet (Linux
        // `tcp_enter_loss`).
        self.control.cwnd = self.board.in_flight() + u64::from(self.control.mss);
        self.set_phase(Phase::Loss, now);
        self.rtt.back_off();
        self.arm_rto(now);
        self.may_force = true;
        self.record(CongestionEventKind::Timeout, now, before, events);
    }

    fn mark_timed_out(&mut self, now: Time) {
        // RFC 6582 section 4, RFC 2018 section 8: the receiver may have reneged, so BSD discards its SACKs.
        let forget = !self.stack.sack || self.stack.detection == Detection::DuplicateAcks;
        match self.stack.detection {
            // Linux 6 does not mark segments sent less than a round trip ago.
            Detection::Rack if self.stack.sack => self.board.mark_stale(now),
            _ => self.board.mark_all(forget),
        };
    }

    /// Linux `tcp_enter_loss`: losses were not found in time, so the reordering degree was too high. Since 3.12 only if
    /// there were enough duplicates to find them with the default threshold.
    fn forget_reordering(&mut self) {
        let usual = self.stack.duplicate_threshold;
        let has_enough = self.phase <= Phase::Disorder && self.board.sacked_segments() >= usual;
        if self.stack.detection != Detection::Rack || has_enough {
            self.reordering.degree = self.reordering.degree.min(usual);
        }
    }

    /// RFC 5681 section 3.1: ssthresh is reduced only at the first timeout of the same data. In Linux a timeout within
    /// Recovery or CWR belongs to that episode, but one after progress in Loss does not (`tcp_enter_loss`).
    fn is_new_episode(&self) -> bool {
        match self.stack.reduction {
            Reduction::RateHalving | Reduction::AtEnd | Reduction::Prr => {
                self.phase < Phase::Cwr
                    || self.snd_una >= self.recover
                    || self.stack.detection == Detection::Rack
                        && self.phase == Phase::Loss
                        && self.trouble.timeout_una != self.snd_una
            }
            Reduction::Immediate | Reduction::FreeBsd => {
                self.trouble.timeout_una != self.snd_una || self.phase != Phase::Loss
            }
        }
    }
}
