//! Undoing a reduction that turns out to be spurious.
//!
//! Sources: RFC 3522 (Eifel detection), RFC 2883 and RFC 3708 (D-SACK), RFC 4015 (response), Linux
//! `tcp_try_undo_*`, BSD's bad-retransmit window.

use super::{Note, NoteKind, Sender};
use crate::cc::{CongestionControl, Phase};
use crate::tcp::segment::Segment;
use crate::tcp::stack::Undo;
use crate::time::{Bytes, Time};

/// What was before the reduction, and the evidence gathered since.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndoState {
    /// A reduction can still be undone.
    pub is_armed: bool,
    pub cwnd: Bytes,
    pub ssthresh: Bytes,
    /// When the episode's first retransmission left.
    pub first_retransmission: Time,
    /// Retransmissions of the episode less the duplicates reported.
    pub unexplained: i64,
    // The episode's retransmissions lie between these offsets.
    start: u64,
    end: u64,
    /// BSD: until then an ACK proves the timeout spurious.
    pub bad_until: Time,
    // BSD: the phase that the timeout struck in, and where that was to end.
    phase: Phase,
    recover: u64,
}

impl Default for UndoState {
    fn default() -> Self {
        UndoState {
            is_armed: false,
            cwnd: 0,
            ssthresh: 0,
            first_retransmission: Time::NEVER,
            unexplained: 0,
            start: 0,
            end: 0,
            bad_until: Time::ZERO,
            phase: Phase::Open,
            recover: 0,
        }
    }
}

impl Sender {
    /// A reduction begins: remember what may have to be restored.
    pub(super) fn arm_undo(&mut self) {
        self.undo = UndoState {
            is_armed: self.stack.undo == Undo::Full,
            cwnd: self.control.cwnd,
            ssthresh: self.control.ssthresh,
            start: self.snd_una,
            end: self.snd_nxt,
            phase: self.phase,
            recover: self.recover,
            ..UndoState::default()
        };
    }

    /// The ACK reports a duplicate; only one of this episode's retransmissions explains one of them.
    pub(super) fn count_duplicate(&mut self, segment: &Segment) {
        self.reordering.on_duplicate(self.snd_una, self.snd_nxt);
        let block = segment.sack[0];
        if self.stack.reordering_limit.is_some() && block.start >= self.snd_una {
            if let Some(distance) = self.board.duplicate_distance(block) {
                self.reordering.on_late(distance, self.stack.reordering_limit);
            }
        }
        if self.undo.is_armed && block.start >= self.undo.start && block.end <= self.undo.end {
            self.undo.unexplained -= 1;
        }
    }

    /// Is there anything to undo, or to decide about it?
    #[inline]
    pub(super) fn may_undo(&self, is_dsack: bool) -> bool {
        is_dsack || self.phase >= Phase::Recovery
    }

    /// Eifel: the ACK echoes a timestamp older than the first retransmission, so the original arrived.
    /// D-SACK: every retransmission was reported as a duplicate. BSD: the ACK of a first timeout came within
    /// half a smoothed RTT. Returns true if the window is as before.
    pub(super) fn try_undo(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        now: Time,
        notes: &mut Vec<Note>,
    ) -> bool {
        if !self.undo.is_armed {
            return self.try_undo_bad_retransmit(newly_acked, now, notes);
        }
        if self.undo.first_retransmission == Time::NEVER {
            return false;
        }
        let by_timestamp = self.phase >= Phase::Recovery
            && self.stack.timestamps
            && newly_acked > 0
            && segment.ts_ecr != Time::NEVER
            && segment.ts_ecr < self.undo.first_retransmission;
        // Also after recovery has ended: the last duplicate is reported a moment later.
        let by_duplicates = segment.is_dsack && self.undo.unexplained <= 0;
        if !by_timestamp && !by_duplicates {
            return false;
        }
        if by_timestamp {
            self.note_lateness(newly_acked);
        }
        self.restore(Phase::Open, now, notes);
        true
    }

    /// The original of what was retransmitted came after all. Linux `tcp_try_undo_partial`: late by what is
    /// SACKed above it and what it brought with it; a full acknowledgement shows only that something was late.
    fn note_lateness(&mut self, newly_acked: Bytes) {
        let is_partial = self.phase == Phase::Recovery && self.snd_una < self.recover;
        let acked = newly_acked.div_ceil(u64::from(self.control.mss));
        match self.stack.reordering_limit {
            Some(_) if !is_partial => self.reordering.seen = true,
            limit => self.reordering.on_late(self.board.forward_segments() + acked, limit),
        }
    }

    fn try_undo_bad_retransmit(&mut self, newly_acked: Bytes, now: Time, notes: &mut Vec<Note>) -> bool {
        if newly_acked == 0 || self.phase != Phase::Loss {
            return false;
        }
        // Only the first ACK after the timeout can tell.
        let bad_until = std::mem::replace(&mut self.undo.bad_until, Time::ZERO);
        if now >= bad_until {
            return false;
        }
        self.return_to_reduction(now, notes);
        true
    }

    /// FreeBSD `snd_recover_prev`, `TF_WASFRECOVERY`, `TF_WASCRECOVERY`: the timeout was for nothing, but what was
    /// lost before it still is. An ACK that covers that recovery ends it at once, and leaves the window.
    fn return_to_reduction(&mut self, now: Time, notes: &mut Vec<Note>) {
        self.recover = self.undo.recover;
        let to = match self.undo.phase {
            Phase::Recovery if self.snd_una < self.recover => Phase::Recovery,
            Phase::Cwr => Phase::Cwr,
            _ => Phase::Open,
        };
        self.restore(to, now, notes);
        if to == Phase::Recovery {
            // The timeout made the sender forget the holes; this ACK's SACK tells of them.
            self.detect(now, false);
        }
    }

    /// Nothing is taken for lost, and the window is as before the reduction.
    pub(super) fn restore(&mut self, to: Phase, now: Time, notes: &mut Vec<Note>) {
        let before = self.control.cwnd;
        self.board.unmark();
        self.control.cwnd = self.control.cwnd.max(self.undo.cwnd);
        self.control.ssthresh = self.control.ssthresh.max(self.undo.ssthresh);
        self.algorithm.on_undo(now, &mut self.control);
        self.undo.is_armed = false;
        self.count.undos += 1;
        self.departed = 0;
        if self.phase != to {
            self.set_phase(to, now);
        }
        self.note(NoteKind::Undo, now, before, notes);
    }
}
