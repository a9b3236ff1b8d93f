//! The sender's timers: retransmission timeout, tail loss probe, RACK's reordering timer, pacing.
//!
//! Sources: RFC 6298, RFC 8985 section 7.

use super::{Note, NoteKind, Sender};
use crate::cc::{CongestionControl, Phase, Signal};
use crate::tcp::segment::Segment;
use crate::tcp::stack::Detection;
use crate::time::{Duration, Time};

impl Sender {
    /// The earliest instant at which [`Self::on_timer`] or sending has something to do.
    pub fn next_wake(&self) -> Time {
        let pace = if self.control.pacing.is_some() && self.pace_at > self.last_sent && self.wants_to_send() {
            self.pace_at
        } else {
            Time::NEVER
        };
        self.rto_at.min(self.probe_at).min(self.reorder_at).min(pace)
    }

    pub(super) fn wants_to_send(&self) -> bool {
        self.board.has_repairs() || self.snd_nxt < self.write_end
    }

    pub(super) fn arm_rto(&mut self, now: Time) {
        self.rto_at = if self.board.is_empty() { Time::NEVER } else { self.rtt.deadline(now) };
    }

    /// RFC 8985 section 7.2, with Linux's allowance for a lone segment's delayed ACK.
    pub(super) fn arm_probe(&mut self, now: Time) {
        self.probe_at = Time::NEVER;
        if !self.stack.tail_loss_probe
            || self.phase != Phase::Open
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
        let at = now + wait;
        if at < self.rto_at {
            self.probe_at = at;
        }
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
            }
        }
        if now >= self.probe_at {
            self.probe_at = Time::NEVER;
            acted = true;
            self.probe_end = self.snd_nxt.max(1);
            // Sent by `next_segment`: new data if there is any, else the last segment again.
            self.probe_repeated = !(self.snd_nxt < self.write_end && self.snd_nxt < self.right_edge);
            self.may_force = true;
        }
        if now >= self.rto_at {
            acted = true;
            self.on_timeout(now, notes);
        }
        acted
    }

    pub(super) fn on_timeout(&mut self, now: Time, notes: &mut Vec<Note>) {
        let before = self.control.cwnd;
        let first = self.timeout_una != self.snd_una || self.phase != Phase::Loss;
        self.count.timeouts += 1;
        // RFC 5681 section 3.1: ssthresh only the first time the same data times out.
        if first {
            self.timeout_una = self.snd_una;
            self.begin_reduction(Signal::Timeout { first }, now);
        } else {
            self.congestion(Signal::Timeout { first }, now);
        }
        let forget = !self.stack.sack || self.stack.detection == Detection::DuplicateAcks;
        self.board.mark_all(forget);
        self.departed = 0;
        self.duplicate_acks = 0;
        self.recover = self.snd_nxt;
        self.probe_end = 0;
        self.probe_at = Time::NEVER;
        self.control.cwnd = u64::from(self.control.mss);
        self.set_phase(Phase::Loss, now);
        self.rtt.back_off();
        self.rto_at = self.rtt.deadline(now);
        self.may_force = true;
        self.note(NoteKind::Timeout, now, before, notes);
    }

    /// A probe's ACK: if the probe itself repaired the loss, congestion is answered once (RFC 8985 7.4.2).
    pub(super) fn settle_probe(&mut self, segment: &Segment, now: Time, notes: &mut Vec<Note>) {
        if self.probe_end == 0 || self.snd_una < self.probe_end {
            return;
        }
        let repaired = self.probe_repeated && !segment.is_dsack;
        self.probe_end = 0;
        if repaired && self.phase == Phase::Open {
            let before = self.control.cwnd;
            self.begin_reduction(Signal::Loss, now);
            self.undo_armed = false;
            if !self.algorithm.owns_window() {
                self.control.cwnd = self.control.ssthresh;
            }
            self.note(NoteKind::RecoveryEntered, now, before, notes);
            self.note(NoteKind::RecoveryLeft, now, self.control.cwnd, notes);
            self.count.recoveries += 1;
        }
    }
}
