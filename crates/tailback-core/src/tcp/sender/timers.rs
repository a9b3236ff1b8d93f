//! The sender's timers: retransmission timeout, tail loss probe, RACK's reordering timer.
//!
//! Sources: RFC 6298, RFC 8985 section 7.

use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase, Signal};
use crate::tcp::stack::{Detection, Reduction, Stack, Undo};
use crate::time::{Duration, Time};

/// Linux `TCP_TIMEOUT_MIN_US`, which RACK's wait and the probe's add before they are rounded up to jiffies. Until 6.1.59
/// and 6.5 it was two jiffies, added after.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_ms(2);

/// Which of them runs. Linux has one timer for the three (`icsk_pending`): whatever is armed takes the place of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// For the retransmission timeout, or the persist timer.
    Timeout,
    Probe,
    /// For what RACK takes for late, not lost.
    Reordering,
}

/// The timer, by what it was set with: an ACK that lets something go sets it twice, nearly always to a later time than
/// the end's next wake. So when exactly it expires (see [`Stack::expiry`]) is worked out when a caller needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    /// When it was set; [`Time::NEVER`]: it does not run.
    since: Time,
    wait: Duration,
    waits: Waits,
    /// The ACK in hand restarts the wait.
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
    /// It expires then, or a little later.
    #[inline(always)]
    fn at_least(&self) -> Time {
        self.since + self.wait
    }
    fn at(&self, stack: &Stack) -> Time {
        if self.runs() { stack.expiry(self.since, self.wait) } else { Time::NEVER }
    }
}

impl Sender {
    /// The earliest instant at which [`Self::on_timer`] or sending has something to do.
    pub fn next_wake(&self) -> Time {
        self.timer.at(&self.stack).min(self.pacing.wake_at)
    }

    /// That instant, or one before it that is found sooner.
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

    /// Linux `tcp_set_xmit_timer`: the probe's timer, or else the retransmission timer.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.arm_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Linux `tcp_rearm_rto`: instead of another timer, what is left of the head's timeout.
    pub(super) fn rearm_rto(&mut self, now: Time) {
        match self.timer.runs() && self.timer.waits != Waits::Timeout {
            false => self.arm_rto(now),
            true => self.arm_rto_after(self.head_wait(now).max(Duration::from_us(1)), now),
        }
    }

    /// What is left of the timeout since the head was sent (Linux `tcp_rto_delta_us`); zero: it is past.
    pub(super) fn head_wait(&self, now: Time) -> Duration {
        let sent = self.board.head_sent().unwrap_or(now);
        (sent + self.timeout()).since(now)
    }

    /// RACK has `wait` to go until the last of what may be only late is lost. Linux `tcp_rack_mark_lost` adds
    /// [`TIMEOUT_MIN`], and waits no longer than the timeout.
    pub(super) fn arm_reorder(&mut self, wait: Duration, now: Time) {
        self.timer.arm(Waits::Reordering, now, (wait + TIMEOUT_MIN).min(self.timeout()));
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

    /// The timer. Returns true if it was due.
    pub fn on_timer(&mut self, now: Time, events: &mut Vec<CongestionEvent>) -> bool {
        if now < self.timer.at(&self.stack) {
            return false;
        }
        match self.timer.waits {
            Waits::Reordering => self.on_reorder_timer(now, events),
            // One probe at a time.
            Waits::Probe if self.probe.end != 0 => self.rearm_rto(now),
            Waits::Probe => {
                self.probe.end = self.snd_nxt.max(1);
                // Sent by `next_segment`: new data if there is any, else the last segment again.
                self.probe.is_repeated =
                    !(self.snd_nxt < self.write_end && self.snd_nxt < self.peer.right_edge);
                self.may_force = true;
                // The probe comes first; the timeout waits for what it brings (RFC 8985 section 7.3).
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
        // Linux 6 counts what is retransmitted and in flight after the marking.
        let marks_first = self.stack.detection == Detection::Rack;
        if marks_first {
            self.mark_timed_out(now);
        }
        match first {
            true => self.begin_reduction(Signal::Timeout { first }, now),
            false => self.congestion(Signal::Timeout { first }, now),
        }
        // BSD: only a first timeout can be a bad retransmit.
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
        // One segment may go, also where the algorithm owns the window, until it sets it again (Linux `tcp_enter_loss`).
        self.control.cwnd = self.board.in_flight() + u64::from(self.control.mss);
        self.set_phase(Phase::Loss, now);
        self.rtt.back_off();
        self.arm_rto(now);
        self.may_force = true;
        self.record(CongestionEventKind::Timeout, now, before, events);
    }

    fn mark_timed_out(&mut self, now: Time) {
        // RFC 6582 section 4, RFC 2018 section 8: the receiver may have reneged, so BSD forgets its SACKs.
        let forget = !self.stack.sack || self.stack.detection == Detection::DuplicateAcks;
        match self.stack.detection {
            // Linux 6 leaves alone what was sent less than a round trip ago.
            Detection::Rack if self.stack.sack => self.board.mark_stale(now),
            _ => self.board.mark_all(forget),
        };
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

    /// RFC 5681 section 3.1: ssthresh only the first time the same data times out. For Linux a timeout within Recovery or
    /// CWR is a part of that episode, but one after progress in Loss is not (`tcp_enter_loss`).
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
