//! Undoing a reduction that turns out to be spurious.
//!
//! Sources: RFC 3522 (Eifel detection), RFC 2883 and RFC 3708 (D-SACK), RFC 4015 (response), Linux
//! `tcp_try_undo_*`, BSD's bad-retransmit window.

use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase};
use crate::tcp::scoreboard::reads_before;
use crate::tcp::segment::Segment;
use crate::tcp::stack::{Detection, Undo};
use crate::time::{Bytes, Time};

/// What was before the reduction, and the evidence gathered since.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct UndoState {
    /// A reduction can still be undone.
    pub is_armed: bool,
    pub cwnd: Bytes,
    pub ssthresh: Bytes,
    /// Retransmissions in flight during the episode less the duplicates reported.
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

impl UndoState {
    /// Nothing was reduced yet.
    pub const NONE: UndoState = UndoState {
        is_armed: false,
        cwnd: 0,
        ssthresh: 0,
        unexplained: -1,
        start: 0,
        end: 0,
        bad_until: Time::ZERO,
        phase: Phase::Open,
        recover: 0,
    };
}

impl Sender {
    /// A reduction begins: remember what may have to be restored. What the last episode has retransmitted may still be out,
    /// and an ACK of it undoes nothing here: `first_retransmission` stays.
    pub(super) fn arm_undo(&mut self) {
        self.trouble.undo = UndoState {
            is_armed: self.stack.undo == Undo::Full,
            cwnd: self.control.cwnd,
            ssthresh: self.control.ssthresh,
            start: self.snd_una,
            end: self.snd_nxt,
            phase: self.phase,
            recover: self.recover,
            unexplained: match self.board.retransmitted_segments() {
                0 => -1, // Nothing to be explained yet.
                out => i64::from(out),
            },
            bad_until: Time::ZERO,
        };
    }

    /// Linux `tcp_try_keep_open`: while retransmissions are out the sender is not undisturbed.
    pub(super) fn awaits_retransmissions(&self) -> bool {
        self.stack.undo == Undo::Full && self.board.has_retransmissions()
    }

    /// Nothing retransmitted is out any more, so what is sent again next is the first (Linux `tcp_any_retrans_done`).
    pub(super) fn forget_retransmissions(&mut self) {
        if self.phase < Phase::Recovery && !self.board.has_retransmissions() {
            self.first_retransmission = Time::NEVER;
        }
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
        let is_ours = block.start >= self.trouble.undo.start && block.end <= self.trouble.undo.end;
        if self.trouble.undo.is_armed && is_ours && self.trouble.undo.unexplained > 0 {
            self.trouble.undo.unexplained -= 1;
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
        events: &mut Vec<CongestionEvent>,
    ) -> bool {
        if !self.trouble.undo.is_armed {
            return self.try_undo_bad_retransmit(newly_acked, now, events);
        }
        let by_timestamp = self.is_answered_by_original(segment, newly_acked);
        // Also after recovery has ended: the last duplicate is reported a moment later.
        let by_duplicates = segment.is_dsack && self.trouble.undo.unexplained == 0;
        if !by_timestamp && !by_duplicates {
            return false;
        }
        if by_timestamp {
            self.note_lateness(newly_acked);
        }
        self.restore(Phase::Open, now, events);
        true
    }

    /// The ACK echoes a timestamp older than the first retransmission.
    fn is_answered_by_original(&self, segment: &Segment, newly_acked: Bytes) -> bool {
        self.phase >= Phase::Recovery
            && self.stack.timestamps
            && newly_acked > 0
            && segment.ts_ecr != Time::NEVER
            && self.first_retransmission != Time::NEVER
            && reads_before(segment.ts_ecr, self.first_retransmission, self.stack.timestamp_tick)
    }

    /// A partial ACK shows that the original had arrived, but retransmissions are out: Linux `tcp_try_undo_partial`
    /// since 3.11 then neither undoes nor takes more for lost. The acknowledgement is already taken.
    #[inline]
    pub(super) fn holds_judgement(&self, segment: &Segment, newly_acked: Bytes) -> bool {
        self.phase == Phase::Recovery
            && self.trouble.undo.is_armed
            && self.stack.detection == Detection::Rack
            && self.snd_una < self.recover
            && self.board.retransmitted() > 0
            && self.is_answered_by_original(segment, newly_acked)
    }

    /// The original of what was retransmitted came after all. Linux `tcp_try_undo_partial`: late by what is
    /// SACKed above it and what it brought with it; `tcp_try_undo_recovery` learns nothing of reordering.
    fn note_lateness(&mut self, newly_acked: Bytes) {
        let is_partial = self.phase == Phase::Recovery && self.snd_una < self.recover;
        let acked = newly_acked.div_ceil(u64::from(self.control.mss));
        if is_partial || self.stack.reordering_limit.is_none() {
            self.reordering.on_late(self.board.forward_segments() + acked, self.stack.reordering_limit);
        }
    }

    fn try_undo_bad_retransmit(
        &mut self,
        newly_acked: Bytes,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) -> bool {
        if newly_acked == 0 || self.phase != Phase::Loss {
            return false;
        }
        // Only the first ACK after the timeout can tell.
        let bad_until = std::mem::replace(&mut self.trouble.undo.bad_until, Time::ZERO);
        if now >= bad_until {
            return false;
        }
        self.return_to_reduction(now, events);
        true
    }

    /// FreeBSD `snd_recover_prev`, `TF_WASFRECOVERY`, `TF_WASCRECOVERY`: the timeout was for nothing, but what was
    /// lost before it still is. An ACK that covers that recovery ends it at once, and leaves the window.
    fn return_to_reduction(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        self.recover = self.trouble.undo.recover;
        let to = match self.trouble.undo.phase {
            Phase::Recovery if self.snd_una < self.recover => Phase::Recovery,
            Phase::Cwr => Phase::Cwr,
            _ => Phase::Open,
        };
        self.restore(to, now, events);
        if to == Phase::Recovery {
            // The timeout made the sender forget the holes; this ACK's SACK tells of them.
            self.detect(now, false);
        }
    }

    /// Nothing is taken for lost, and the window is as before the reduction.
    pub(super) fn restore(&mut self, to: Phase, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        self.board.unmark();
        self.control.cwnd = self.control.cwnd.max(self.trouble.undo.cwnd);
        self.control.ssthresh = self.control.ssthresh.max(self.trouble.undo.ssthresh);
        self.algorithm.on_undo(now, &mut self.control);
        self.trouble.undo.is_armed = false;
        self.count.undos += 1;
        self.departed = 0;
        if self.phase != to {
            self.set_phase(to, now);
        }
        self.record(CongestionEventKind::Undo, now, before, events);
    }
}
