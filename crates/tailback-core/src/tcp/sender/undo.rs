//! Undoing a reduction that turns out to be spurious.

use super::{Note, NoteKind, Sender};
use crate::cc::{CongestionControl, Phase};
use crate::tcp::segment::Segment;
use crate::time::{Bytes, Time};

impl Sender {
    /// Eifel: the ACK echoes a timestamp older than the first retransmission, so the original arrived
    /// (RFC 3522); or every retransmission was reported as a duplicate (RFC 2883, RFC 3708).
    pub(super) fn try_undo(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        now: Time,
        notes: &mut Vec<Note>,
    ) -> bool {
        if !self.undo_armed {
            return false;
        }
        let by_timestamp = self.stack.timestamps
            && newly_acked > 0
            && segment.ts_ecr != Time::NEVER
            && segment.ts_ecr < self.first_retransmission
            && self.first_retransmission != Time::NEVER;
        let by_duplicates = segment.is_dsack
            && self.first_retransmission != Time::NEVER
            && self.undo_retransmissions <= 0
            && self.board.retransmitted() == 0;
        if !by_timestamp && !by_duplicates {
            return false;
        }
        let before = self.control.cwnd;
        self.board.unmark();
        self.control.cwnd = self.control.cwnd.max(self.undo_cwnd);
        self.control.ssthresh = self.control.ssthresh.max(self.undo_ssthresh);
        self.algorithm.on_undo(now, &mut self.control);
        self.undo_armed = false;
        self.reordering_seen = true;
        self.count.undos += 1;
        self.departed = 0;
        self.set_phase(Phase::Open, now);
        self.note(NoteKind::Undo, now, before, notes);
        true
    }
}
