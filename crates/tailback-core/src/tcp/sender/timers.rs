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

    pub(super) fn arm_rto(&mut self, now: Time) {
        self.rto_at = if self.board.is_empty() { Time::NEVER } else { self.rtt.deadline(now) };
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
    /// retransmission timeout, which it then replaces.
    pub(super) fn arm_probe(&mut self, now: Time) {
        self.probe_at = Time::NEVER;
        if !self.stack.tail_loss_probe
            || !self.stack.sack
            || !matches!(self.phase, Phase::Open | Phase::Cwr)
            || self.board.is_empty()
            || self.probe_end != 0
            || self.rtt.srtt().is_zero()
        {
            return;
        }
        let mut wait = self.rtt.srtt() * 2;
        wait += match self.board.segments_out() {
            1 => self.stack.rto_minimum,
            _ => Duration::from_ms(8), // two jiffies at HZ = 250
        };
        self.probe_at = (now + wait).min(self.rto_at);
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
            self.reorder_at = Time::NEVER;
            acted = true;
            let lost = self.detect(now, false);
            if lost > 0 && self.phase < Phase::Recovery {
                self.enter_recovery(now, notes);
                if self.stack.reduction == Reduction::Prr && !self.algorithm.owns_window() {
                    // Linux `tcp_rack_reo_timeout` counts one segment as delivered.
                    self.reduce_proportionally(u64::from(self.control.mss), 0, lost);
                }
            }
        }
        if now >= self.probe_at {
            self.probe_at = Time::NEVER;
            acted = true;
            self.probe_end = self.snd_nxt.max(1);
            // Sent by `next_segment`: new data if there is any, else the last segment again.
            self.probe_repeated = !(self.snd_nxt < self.write_end && self.snd_nxt < self.right_edge);
            self.may_force = true;
            // The probe comes first; the timeout waits for what it brings (RFC 8985 section 7.3).
            self.arm_rto(now);
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
        self.probe_at = Time::NEVER;
        let mss = u64::from(self.control.mss);
        if !self.algorithm.owns_window() {
            self.control.cwnd = self.board.in_flight() + mss;
        }
        self.set_phase(Phase::Loss, now);
        self.rtt.back_off();
        self.rto_at = self.rtt.deadline(now);
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
