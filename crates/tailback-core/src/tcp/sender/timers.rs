//! The sender's timers: retransmission timeout, tail loss probe, RACK's reordering timer, pacing.
//!
//! Sources: RFC 6298, RFC 8985 section 7.

use super::{Note, NoteKind, Sender};
use crate::cc::{CongestionControl, Phase, Signal};
use crate::tcp::segment::Segment;
use crate::tcp::stack::{Detection, Reduction, Undo};
use crate::time::{Bytes, Duration, Time};

impl Sender {
    /// The earliest instant at which [`Self::on_timer`] or sending has something to do.
    pub fn next_wake(&self) -> Time {
        self.rto_at.min(self.probe_at).min(self.reorder_at).min(self.pace_wake)
    }

    /// Linux has one timer for the three: whatever is armed takes the place of the others.
    pub(super) fn arm_rto(&mut self, now: Time) {
        self.arm_rto_after(self.rtt.timeout(), now);
    }

    fn arm_rto_after(&mut self, wait: Duration, now: Time) {
        self.probe_at = Time::NEVER;
        self.reorder_at = Time::NEVER;
        self.rto_at = match self.board.is_empty() {
            true => Time::NEVER,
            false => self.stack.expiry(now, wait + self.pacing_wait(now)),
        };
    }

    pub(super) fn has_timer(&self) -> bool {
        self.rto_at.min(self.probe_at).min(self.reorder_at) != Time::NEVER
    }

    /// Linux `tcp_set_xmit_timer`: the probe's timer, or else the retransmission timer.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.arm_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Linux `tcp_rearm_rto`: instead of another timer, what is left of the head's timeout.
    fn rearm_rto(&mut self, now: Time) {
        match self.probe_at.min(self.reorder_at) {
            Time::NEVER => self.arm_rto(now),
            _ => self.arm_rto_after(self.head_wait(now).max(Duration::from_us(1)), now),
        }
    }

    /// What is left of the timeout since the head was sent (Linux `tcp_rto_delta_us`); zero: it is past.
    fn head_wait(&self, now: Time) -> Duration {
        let sent = self.board.head_sent().unwrap_or(now);
        (sent + self.rtt.timeout()).since(now)
    }

    /// Linux `tcp_pacing_delay`: what pacing holds back has its time yet to come.
    fn pacing_wait(&self, now: Time) -> Duration {
        self.pace_at.since(now)
    }

    /// RACK has `wait` to go until the last of what may be only late is lost. Linux `tcp_rack_mark_lost` adds
    /// TCP_TIMEOUT_MIN, two jiffies, and waits no longer than the timeout.
    pub(super) fn arm_reorder(&mut self, wait: Duration, now: Time) {
        let tick = self.stack.timer_tick;
        let wait = (Time::ZERO + wait).ceil_to(tick).since(Time::ZERO) + tick * 2;
        self.reorder_at = self.stack.expiry(now, wait.min(self.rtt.timeout()));
        self.rto_at = Time::NEVER;
        self.probe_at = Time::NEVER;
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

    /// RFC 8985 section 7.2, with Linux's allowance for a lone segment's delayed ACK; never after the
    /// retransmission timeout, which it then replaces: `is_progress` says that it begins now, else it runs since the
    /// head was sent (Linux `tcp_schedule_loss_probe`). False: no probe.
    fn arm_probe(&mut self, now: Time, is_progress: bool) -> bool {
        if !self.stack.tail_loss_probe
            || !self.stack.sack
            || !matches!(self.phase, Phase::Open | Phase::Cwr)
            || self.board.is_empty()
        {
            return false;
        }
        let allowance = match self.board.segments_out() {
            1 => self.stack.rto_minimum,
            _ => self.stack.timer_tick * 2, // TCP_TIMEOUT_MIN
        };
        let wait = match self.rtt.srtt().is_zero() {
            true => self.stack.rto_initial,
            false => self.rtt.srtt() * 2 + allowance,
        };
        let timeout = if is_progress { self.rtt.timeout() } else { self.head_wait(now) };
        let wait = if timeout.is_zero() { wait } else { wait.min(timeout) };
        self.probe_at = self.stack.expiry(now, wait + self.pacing_wait(now));
        self.rto_at = Time::NEVER;
        self.reorder_at = Time::NEVER;
        true
    }

    /// New data has left: the probe waits for it. Only the probe's own does not begin another wait.
    pub(super) fn on_new_data_sent(&mut self, now: Time) {
        if !self.arm_probe(now, false) && self.probe_at != Time::NEVER {
            self.rearm_rto(now);
        }
    }

    /// When the next one may leave, now that `bytes` of payload do. Linux `tcp_update_skb_after_send`: up to half
    /// of their own time is forgiven to what leaves late.
    #[inline(never)]
    pub(super) fn charge_pacing(&mut self, bytes: Bytes, now: Time) {
        let rate = match self.control.pacing {
            None if self.stack.pacing => self.stack_pacing(),
            rate => rate,
        };
        let Some(rate) = rate.filter(|rate| rate.as_bps() > 0 && bytes > 0) else { return };
        let span = rate.time_for(bytes);
        let credit = now.since(self.pace_at).min(span / 2);
        self.pace_at = self.pace_at.max(now) + span.saturating_sub(credit);
    }

    /// Timers. Returns true if something was due.
    pub fn on_timer(&mut self, now: Time, notes: &mut Vec<Note>) -> bool {
        let mut acted = false;
        if now >= self.reorder_at {
            acted = true;
            let lost = self.detect_rack(now).0;
            if lost > 0 && self.phase < Phase::Recovery {
                self.enter_recovery(now, notes);
                if self.stack.reduction == Reduction::Prr && !self.algorithm.owns_window() {
                    // Linux `tcp_rack_reo_timeout` counts one segment as delivered.
                    self.reduce_proportionally(u64::from(self.control.mss), 0, lost);
                }
            }
            self.rearm_rto(now);
        }
        if now >= self.probe_at {
            acted = true;
            if self.probe_end != 0 {
                self.rearm_rto(now); // One probe at a time.
            } else {
                self.probe_end = self.snd_nxt.max(1);
                // Sent by `next_segment`: new data if there is any, else the last segment again.
                self.probe_repeated = !(self.snd_nxt < self.write_end && self.snd_nxt < self.right_edge);
                self.may_force = true;
                // The probe comes first; the timeout waits for what it brings (RFC 8985 section 7.3).
                self.arm_rto(now);
            }
        }
        if now >= self.rto_at {
            acted = true;
            match self.board.is_empty() {
                true => self.on_persist_timer(),
                false => self.on_timeout(now, notes),
            }
        }
        acted
    }

    pub(super) fn on_timeout(&mut self, now: Time, notes: &mut Vec<Note>) {
        let before = self.control.cwnd;
        let first = self.is_new_episode();
        self.count.timeouts += 1;
        self.begin_frto();
        self.forget_reordering();
        if first {
            self.timeout_una = self.snd_una;
            self.begin_reduction(Signal::Timeout { first }, now);
        } else {
            self.congestion(Signal::Timeout { first }, now);
        }
        // BSD: only a first timeout can be a bad retransmit.
        self.undo.bad_until = match self.rtt.backoffs() {
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
        self.departed = 0;
        self.duplicate_acks = 0;
        self.recover = self.snd_nxt;
        self.probe_end = 0;
        let mss = u64::from(self.control.mss);
        if !self.algorithm.owns_window() {
            self.control.cwnd = self.board.in_flight() + mss;
        }
        self.set_phase(Phase::Loss, now);
        self.rtt.back_off();
        self.arm_rto(now);
        self.may_force = true;
        self.note(NoteKind::Timeout, now, before, notes);
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
                self.timeout_una != self.snd_una || self.phase != Phase::Loss
            }
        }
    }

    /// A probe's ACK. If the probe itself repaired the loss, congestion is answered once; a D-SACK, or an ACK
    /// of nothing new, says that the original had arrived too (RFC 8985 section 7.4.2).
    pub(super) fn settle_probe(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        now: Time,
        notes: &mut Vec<Note>,
    ) {
        if self.probe_end == 0 || self.snd_una < self.probe_end {
            return;
        }
        let has_arrived_twice = segment.is_dsack || newly_acked == 0 && segment.sack_count == 0;
        let repaired = self.probe_repeated && !has_arrived_twice && self.snd_una > self.probe_end;
        if self.probe_repeated && !has_arrived_twice && !repaired {
            return; // The ACK of the probe or of the original: what follows will tell.
        }
        self.probe_end = 0;
        if repaired && self.phase == Phase::Open {
            let before = self.control.cwnd;
            self.begin_reduction(Signal::Loss, now);
            self.undo.is_armed = false;
            if !self.algorithm.owns_window() {
                self.control.cwnd = self.control.ssthresh;
            }
            self.note(NoteKind::RecoveryEntered, now, before, notes);
            self.note(NoteKind::RecoveryLeft, now, self.control.cwnd, notes);
            self.count.recoveries += 1;
        }
    }
}
