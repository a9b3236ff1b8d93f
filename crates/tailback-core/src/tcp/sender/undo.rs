//! Undoes reductions that turn out to be spurious.
//!
//! Sources: RFC 3522 (Eifel detection), RFC 2883 and RFC 3708 (D-SACK), RFC 4015 (response), Linux
//! `tcp_try_undo_*`, BSD's bad-retransmit window.

use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase};
use crate::tcp::scoreboard::{Delivery, reads_before};
use crate::tcp::segment::{Range, Segment};
use crate::tcp::stack::{Detection, Undo};
use crate::time::{Bytes, Time};

/// State before the reduction, and the evidence since.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct UndoState {
    /// Whether a reduction can still be undone.
    pub is_armed: bool,
    /// Whether an undo restores cwnd and ssthresh: not if a mark requires the reduction as well (Linux
    /// `prior_ssthresh`).
    pub gives_back: bool,
    pub cwnd: Bytes,
    pub ssthresh: Bytes,
    /// Retransmissions in flight during the episode, less the duplicates reported; −1: none yet.
    pub unexplained: i64,
    // Range of offsets of the episode's retransmissions.
    start: u64,
    end: u64,
    /// BSD: an ACK before this time proves the timeout spurious.
    pub bad_until: Time,
    // BSD: the phase in which the timeout occurred, and the end of that phase.
    phase: Phase,
    recover: u64,
}

/// Parameters of an undo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restored {
    /// Segments marked lost count as in flight again.
    pub unmarks: bool,
    /// The undo also ends the recovery, see [`crate::cc::PhaseChange::completes`].
    pub completes: bool,
}

impl UndoState {
    /// No reduction so far.
    pub const NONE: UndoState = UndoState {
        is_armed: false,
        gives_back: true,
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
    /// A reduction begins: saves the state to restore. Retransmissions of the last episode may still be in flight, and
    /// their ACKs must not undo this reduction, so `first_retransmission` stays.
    pub(super) fn arm_undo(&mut self) {
        self.trouble.undo = UndoState {
            is_armed: self.stack.undo == Undo::Full,
            gives_back: true,
            cwnd: self.control.cwnd,
            ssthresh: match self.stack.undo {
                Undo::Full => self.current_ssthresh(),
                _ => self.control.ssthresh,
            },
            start: self.snd_una,
            end: self.snd_nxt,
            phase: self.phase,
            recover: self.recover,
            unexplained: match self.board.retransmitted_segments() + u32::from(self.has_probe_out()) {
                0 => -1, // Nothing to be explained yet.
                out => i64::from(out),
            },
            bad_until: Time::ZERO,
        };
    }

    /// Whether a probe's retransmission is outstanding; the scoreboard does not count it (Linux `tcp_init_undo`).
    fn has_probe_out(&self) -> bool {
        self.stack.detection == Detection::Rack && self.probe.end != 0 && self.probe.is_repeated
    }

    /// Linux `tcp_try_keep_open`: whether retransmissions in flight keep the sender from state Open.
    pub(super) fn awaits_retransmissions(&self) -> bool {
        self.stack.undo == Undo::Full && self.board.has_retransmissions()
    }

    /// A recovery begins: unless earlier retransmissions are in flight, its own first one becomes the oldest (Linux
    /// `tcp_retrans_stamp_cleanup`).
    pub(super) fn forget_earlier_retransmissions(&mut self) {
        if self.stack.detection == Detection::Rack && !self.board.has_retransmissions() {
            self.first_retransmission = Time::NEVER;
        }
    }

    /// With no retransmission in flight, the next one becomes the oldest (Linux `tcp_any_retrans_done`).
    pub(super) fn forget_retransmissions(&mut self) {
        if self.phase < Phase::Recovery && !self.board.has_retransmissions() {
            self.first_retransmission = Time::NEVER;
        }
    }

    /// Evaluates a D-SACK for RACK and for the undo. Returns false if more duplicates were reported than segments
    /// retransmitted: the network must have duplicated some (Linux `tcp_dsack_seen`).
    #[cold]
    pub(super) fn take_duplicate(&mut self, segment: &Segment, delivery: &mut Delivery, now: Time) -> bool {
        let block = segment.sack[0];
        let bytes = block.end - block.start;
        let segments = bytes.div_ceil(u64::from(self.control.mss)) as u32;
        let is_probes = segments == 1 && self.probe.end == block.end;
        self.probe.is_needless = is_probes;
        let mut is_reordering = true;
        if self.stack.detection == Detection::Rack {
            self.trouble.duplicates += u64::from(segments);
            if self.trouble.duplicates > self.count.segments_retransmitted {
                return false;
            }
            // A needless retransmission also counts as delivered.
            self.board.deliver_again(segments, bytes, delivery, now);
            // RACK's window reacts to reordering only: a duplicate of a loss probe is no evidence of it.
            is_reordering = self.reordering.seen && !is_probes;
        }
        self.count_duplicate(block, segments, is_reordering);
        true
    }

    /// Counts a duplicate as explained if it is one of this episode's retransmissions.
    fn count_duplicate(&mut self, block: Range, segments: u32, is_reordering: bool) {
        if is_reordering {
            self.reordering.on_duplicate(self.snd_una, self.snd_nxt);
        }
        if self.stack.reordering_limit.is_some() && block.start >= self.snd_una {
            if let Some(distance) = self.board.duplicate_distance(block) {
                self.reordering.on_late(distance, self.stack.reordering_limit);
            }
        }
        // Linux 6 (`tcp_check_dsack`, `tcp_sacktag_one`) also counts what was sent and repeated during the episode.
        let is_ours = match self.stack.detection {
            Detection::Rack => block.end > self.trouble.undo.start,
            _ => block.start >= self.trouble.undo.start && block.end <= self.trouble.undo.end,
        };
        if self.trouble.undo.is_armed && is_ours && self.trouble.undo.unexplained > 0 {
            self.trouble.undo.unexplained = (self.trouble.undo.unexplained - i64::from(segments)).max(0);
        }
    }

    /// Whether there may be something to undo.
    #[inline]
    pub(super) fn may_undo(&self, is_dsack: bool) -> bool {
        is_dsack || self.phase >= Phase::Recovery
    }

    /// Eifel: the ACK echoes a timestamp older than the first retransmission, so the original arrived.
    /// D-SACK: every retransmission was reported as a duplicate. BSD: the ACK after a first timeout came within half a
    /// smoothed RTT. Returns true if the reduction was undone.
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
        // This also applies after recovery, because the last duplicate is reported a little later.
        let by_duplicates = segment.is_dsack && self.trouble.undo.unexplained == 0;
        if !by_timestamp && !by_duplicates {
            return false;
        }
        if by_timestamp {
            self.note_lateness(newly_acked);
        }
        self.restore(Phase::Open, Restored { unmarks: true, completes: false }, now, events);
        true
    }

    /// Whether every retransmission of the episode was reported as a duplicate.
    pub(super) fn is_explained(&self) -> bool {
        self.trouble.undo.is_armed && self.trouble.undo.unexplained == 0
    }

    /// Linux 6 `tcp_may_undo`.
    pub(super) fn is_undoable(&self, segment: &Segment, newly_acked: Bytes) -> bool {
        self.trouble.undo.is_armed
            && (self.trouble.undo.unexplained == 0 || self.is_answered_by_original(segment, newly_acked))
    }

    /// Linux 6 `tcp_try_undo_dsack`: segments marked lost stay marked.
    #[cold]
    pub(super) fn undo_by_duplicates(&mut self, to: Phase, now: Time, events: &mut Vec<CongestionEvent>) {
        self.reordering.on_undone();
        self.restore(to, Restored { unmarks: false, completes: false }, now, events);
    }

    /// Whether the ACK shows that the original arrived: it echoes a timestamp older than the first retransmission.
    pub(super) fn is_answered_by_original(&self, segment: &Segment, newly_acked: Bytes) -> bool {
        if self.phase < Phase::Recovery || newly_acked == 0 {
            return false;
        }
        if self.first_retransmission == Time::NEVER {
            // Nothing has been retransmitted yet (Linux `tcp_packet_delayed` since 6.1.129).
            return self.stack.detection == Detection::Rack
                && (self.stack.sack || self.snd_una < self.recover);
        }
        self.stack.timestamps
            && segment.ts_ecr != Time::NEVER
            && reads_before(segment.ts_ecr, self.first_retransmission, self.stack.timestamp_tick)
    }

    /// Records how late a retransmitted segment's original arrived. Linux `tcp_try_undo_partial`: late by the segments
    /// SACKed above it plus those newly acknowledged; `tcp_try_undo_recovery` records no reordering.
    pub(super) fn note_lateness(&mut self, newly_acked: Bytes) {
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
        // Only the first ACK after the timeout can show it.
        let bad_until = std::mem::replace(&mut self.trouble.undo.bad_until, Time::ZERO);
        if now >= bad_until {
            return false;
        }
        self.return_to_reduction(now, events);
        true
    }

    /// FreeBSD `snd_recover_prev`, `TF_WASFRECOVERY`, `TF_WASCRECOVERY`: the timeout was spurious, but segments lost
    /// before it are still lost. An ACK that covers the earlier recovery ends it at once and leaves the window
    /// unchanged.
    fn return_to_reduction(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        self.recover = self.trouble.undo.recover;
        let to = match self.trouble.undo.phase {
            Phase::Recovery if self.snd_una < self.recover => Phase::Recovery,
            Phase::Cwr => Phase::Cwr,
            _ => Phase::Open,
        };
        self.restore(to, Restored { unmarks: true, completes: false }, now, events);
        if to == Phase::Recovery {
            // The timeout discarded the holes; this ACK's SACK blocks report them again.
            self.detect(now, false);
        }
    }

    /// Undoes the reduction: restores cwnd and ssthresh, unless a mark requires them, and enters phase `to`.
    pub(super) fn restore(
        &mut self,
        to: Phase,
        restored: Restored,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) {
        let before = self.control.cwnd;
        if restored.unmarks {
            self.board.unmark();
        }
        if self.stack.detection == Detection::Rack {
            // Linux `tcp_undo_cwnd_reduction`: RACK checks the flight again.
            self.board.renew_rack_news();
        }
        if self.trouble.undo.gives_back {
            if self.stack.detection == Detection::Rack && self.trouble.undo.ssthresh > self.control.ssthresh {
                // Linux `tcp_ecn_withdraw_cwr`.
                self.owes_cwr = false;
            }
            self.control.cwnd = self.control.cwnd.max(self.trouble.undo.cwnd);
            self.control.ssthresh = self.control.ssthresh.max(self.trouble.undo.ssthresh);
            self.algorithm.on_undo(now, &mut self.control);
        }
        self.trouble.undo.is_armed = false;
        self.count.undos += 1;
        self.departed = 0;
        if self.phase != to {
            self.change_phase(to, restored.completes, now);
        }
        self.record(CongestionEventKind::Undo, now, before, events);
    }
}
