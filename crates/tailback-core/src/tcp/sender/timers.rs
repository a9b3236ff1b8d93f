//! The sender's timers: retransmission timeout, tail loss probe, RACK's reordering timer.
//!
//! Sources: RFC 6298, RFC 8985 section 7.

use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase, Signal};
use crate::tcp::stack::{Detection, Reduction, Undo};
use crate::time::{Duration, Time};

/// When they expire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    /// The retransmission timeout, or the persist timer.
    pub rto_at: Time,
    pub probe_at: Time,
    pub reorder_at: Time,
    /// The ACK in hand restarts the wait.
    pub restarts: bool,
}

impl Default for Timers {
    fn default() -> Self {
        let never = Time::NEVER;
        Timers { rto_at: never, probe_at: never, reorder_at: never, restarts: false }
    }
}

impl Sender {
    /// The earliest instant at which [`Self::on_timer`] or sending has something to do.
    pub fn next_wake(&self) -> Time {
        self.timers.rto_at.min(self.timers.probe_at).min(self.timers.reorder_at).min(self.pacing.wake_at)
    }

    /// Linux has one timer for the three: whatever is armed takes the place of the others.
    pub(super) fn arm_rto(&mut self, now: Time) {
        self.arm_rto_after(self.timeout(), now);
    }

    fn arm_rto_after(&mut self, wait: Duration, now: Time) {
        self.timers.probe_at = Time::NEVER;
        self.timers.reorder_at = Time::NEVER;
        self.timers.rto_at = match self.board.is_empty() {
            true => Time::NEVER,
            false => self.stack.expiry(now, wait + self.pacing_wait(now)),
        };
    }

    pub(super) fn has_timer(&self) -> bool {
        self.timers.rto_at.min(self.timers.probe_at).min(self.timers.reorder_at) != Time::NEVER
    }

    /// Linux `tcp_set_xmit_timer`: the probe's timer, or else the retransmission timer.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.arm_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Linux `tcp_rearm_rto`: instead of another timer, what is left of the head's timeout.
    pub(super) fn rearm_rto(&mut self, now: Time) {
        match self.timers.probe_at.min(self.timers.reorder_at) {
            Time::NEVER => self.arm_rto(now),
            _ => self.arm_rto_after(self.head_wait(now).max(Duration::from_us(1)), now),
        }
    }

    /// What is left of the timeout since the head was sent (Linux `tcp_rto_delta_us`); zero: it is past.
    pub(super) fn head_wait(&self, now: Time) -> Duration {
        let sent = self.board.head_sent().unwrap_or(now);
        (sent + self.timeout()).since(now)
    }

    /// RACK has `wait` to go until the last of what may be only late is lost. Linux `tcp_rack_mark_lost` adds
    /// TCP_TIMEOUT_MIN, two jiffies, and waits no longer than the timeout.
    pub(super) fn arm_reorder(&mut self, wait: Duration, now: Time) {
        let tick = self.stack.timer_tick;
        let wait = (Time::ZERO + wait).ceil_to(tick).since(Time::ZERO) + tick * 2;
        self.timers.reorder_at = self.stack.expiry(now, wait.min(self.timeout()));
        self.timers.rto_at = Time::NEVER;
        self.timers.probe_at = Time::NEVER;
    }

    /// RFC 6582 section 4: only the first partial ACK restarts the timer, so that many losses in a window end in
    /// slow start after a timeout instead of one repair a round trip.
    pub(super) fn is_impatient(&mut self) -> bool {
        if self.phase != Phase::Recovery || self.snd_una >= self.recover {
            self.partial_acks = 0;
            return false;
        }
        self.partial_acks += 1;
        self.stack.impatient && self.partial_acks > 1
    }

    /// Timers. Returns true if something was due.
    pub fn on_timer(&mut self, now: Time, events: &mut Vec<CongestionEvent>) -> bool {
        let mut acted = false;
        if now >= self.timers.reorder_at {
            acted = true;
            let lost = self.detect_rack(now).0;
            if self.is_followed && lost > 0 {
                self.tell_fates(now, None);
            }
            if lost > 0 && self.phase < Phase::Recovery {
                self.enter_recovery(now, events);
                if self.stack.reduction == Reduction::Prr && !self.algorithm.owns_window() {
                    // Linux `tcp_rack_reo_timeout` counts one segment as delivered.
                    self.reduce_proportionally(u64::from(self.control.mss), 0, lost);
                }
            }
            self.rearm_rto(now);
        }
        if now >= self.timers.probe_at {
            acted = true;
            if self.probe.end != 0 {
                self.rearm_rto(now); // One probe at a time.
            } else {
                self.probe.end = self.snd_nxt.max(1);
                // Sent by `next_segment`: new data if there is any, else the last segment again.
                self.probe.is_repeated =
                    !(self.snd_nxt < self.write_end && self.snd_nxt < self.peer.right_edge);
                self.may_force = true;
                // The probe comes first; the timeout waits for what it brings (RFC 8985 section 7.3).
                self.arm_rto(now);
            }
        }
        if now >= self.timers.rto_at {
            acted = true;
            match self.board.is_empty() {
                true => self.on_persist_timer(),
                false => self.on_timeout(now, events),
            }
        }
        acted
    }

    pub(super) fn on_timeout(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        let first = self.is_new_episode();
        self.count.timeouts += 1;
        self.begin_frto();
        self.forget_reordering();
        if first {
            self.trouble.timeout_una = self.snd_una;
            self.begin_reduction(Signal::Timeout { first }, now);
        } else {
            self.congestion(Signal::Timeout { first }, now);
        }
        // BSD: only a first timeout can be a bad retransmit.
        self.trouble.undo.bad_until = match self.rtt.backoffs() {
            0 if self.stack.undo == Undo::BadRetransmit => now + self.rtt.srtt() / 2,
            _ => Time::ZERO,
        };
        // RFC 6582 section 4, RFC 2018 section 8: the receiver may have reneged, so BSD forgets its SACKs.
        let forget = !self.stack.sack || self.stack.detection == Detection::DuplicateAcks;
        match self.stack.detection {
            // Linux 6 leaves alone what was sent less than a round trip ago.
            Detection::Rack if self.stack.sack => self.board.mark_stale(now),
            _ => self.board.mark_all(forget),
        };
        if self.is_followed {
            self.tell_fates(now, None);
        }
        self.departed = 0;
        self.duplicate_acks = 0;
        self.recover = self.snd_nxt;
        self.probe.end = 0;
        let mss = u64::from(self.control.mss);
        if !self.algorithm.owns_window() {
            self.control.cwnd = self.board.in_flight() + mss;
        }
        self.set_phase(Phase::Loss, now);
        self.rtt.back_off();
        self.arm_rto(now);
        self.may_force = true;
        self.record(CongestionEventKind::Timeout, now, before, events);
    }

    /// Linux `tcp_enter_loss`: the degree was overestimated if losses were not found in time. Since 3.12 only if
    /// there were duplicates enough to find them by the usual threshold.
    fn forget_reordering(&mut self) {
        let usual = self.stack.duplicate_threshold;
        let has_enough = self.phase <= Phase::Disorder && self.board.sacked_segments() >= usual;
        if self.stack.detection != Detection::Rack || has_enough {
            self.reordering.degree = self.reordering.degree.min(usual);
        }
    }

    /// RFC 5681 section 3.1: ssthresh only the first time the same data times out. Linux also takes a timeout
    /// within Recovery or CWR for a part of that episode (`tcp_enter_loss`).
    fn is_new_episode(&self) -> bool {
        match self.stack.reduction {
            Reduction::RateHalving | Reduction::AtEnd | Reduction::Prr => {
                self.phase < Phase::Cwr || self.snd_una >= self.recover
            }
            Reduction::Immediate | Reduction::FreeBsd => {
                self.trouble.timeout_una != self.snd_una || self.phase != Phase::Loss
            }
        }
    }
}
