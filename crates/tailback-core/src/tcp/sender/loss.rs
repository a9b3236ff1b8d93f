//! Loss detection by duplicate ACKs, SACK, forward acknowledgement, and time (RACK).
//!
//! Sources: RFC 6582 section 3.2 (NewReno), RFC 6675 section 4, Mathis & Mahdavi 1996 (FACK), RFC 8985 (RACK).

use super::Sender;
use crate::cc::Phase;
use crate::tcp::stack::Detection;
use crate::time::{Duration, Time};

/// RFC 8985 section 6.2 step 4: number of recoveries for which a widened reordering window lasts.
const WINDOW_PERSISTS: u8 = 16;

/// What the sender has learnt about reordering on the path: RACK's window (RFC 8985 section 5.2), and the degree for
/// detection by duplicate ACKs (Linux `tp->reordering`). The degree is how many later segments may arrive before a
/// segment counts as lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    /// A never-retransmitted segment was delivered below an earlier delivery.
    pub seen: bool,
    // Reordering window in quarters of the minimum RTT, and number of recoveries until it narrows again.
    quarters: u8,
    persists: u8,
    // End of the current round: further D-SACKs before it is acknowledged do not widen the window again.
    round_end: u64,
    /// Number of duplicate ACKs, or of segments SACKed above, that indicates a loss.
    pub degree: u32,
    /// Whether the degree was raised: Linux then disables FACK for the rest of the connection.
    pub has_grown: bool,
}

impl Reordering {
    pub fn new(degree: u32) -> Self {
        Reordering { seen: false, quarters: 1, persists: 0, round_end: 0, degree, has_grown: false }
    }

    /// A never-retransmitted segment arrived `late_by` segments late (Linux `tcp_update_reordering`). Without a `limit`
    /// the degree stays constant, and any late segment counts as reordering.
    #[cold]
    pub fn on_late(&mut self, late_by: u64, limit: Option<u32>) {
        self.seen = true;
        match limit {
            Some(limit) if late_by > u64::from(self.degree) => {
                self.degree = late_by.min(u64::from(limit)) as u32;
                self.has_grown = true;
            }
            Some(_) => {}
            None => self.has_grown = true,
        }
    }

    /// A D-SACK reports a needless retransmission: widens the window, once per round trip.
    pub fn on_duplicate(&mut self, snd_una: u64, snd_nxt: u64) {
        if snd_una >= self.round_end {
            self.round_end = snd_nxt;
            self.quarters = self.quarters.saturating_add(1);
            self.persists = WINDOW_PERSISTS;
        }
    }

    /// D-SACKs undid a recovery: the window lasts for one more recovery (Linux `tcp_try_undo_dsack`).
    pub fn on_undone(&mut self) {
        self.persists = (self.persists + 1).min(WINDOW_PERSISTS);
    }

    /// A recovery has ended.
    pub fn on_recovered(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.quarters = 1;
        }
    }
}

impl Sender {
    /// Without SACK, every duplicate ACK means that one segment left the network (RFC 6582 inflates cwnd instead).
    /// Returns the number of segments delivered now. An ACK that advances does not count again those that duplicate
    /// ACKs had counted (Linux `tcp_add_reno_sack`, `tcp_remove_reno_sacks`).
    pub(super) fn count_departures(&mut self, is_duplicate: bool, acked_segments: u32) -> u32 {
        let before = self.departed;
        if self.phase == Phase::Loss {
            // The timeout marked everything lost; later duplicate ACKs answer segments that it no longer counts.
            self.departed = 0;
        } else if is_duplicate {
            let most = self.board.segments_out().saturating_sub(1);
            if self.departed >= most && self.stack.reordering_limit.is_some() {
                // Linux `tcp_check_reno_reordering`: more duplicate ACKs than segments above the missing one.
                self.reordering.on_late(u64::from(most) + 1, self.stack.reordering_limit);
            }
            self.departed = (self.departed + 1).min(most);
        } else if acked_segments > 0 {
            // A partial ACK covers the retransmission and the segments above it that had arrived.
            self.departed = self.departed.saturating_sub(acked_segments.saturating_sub(1));
            self.departed = self.departed.min(self.board.segments_out().saturating_sub(1));
        }
        match (is_duplicate, acked_segments) {
            (true, _) => self.departed.saturating_sub(before),
            (false, 0) => 0,
            (false, acked) => acked.saturating_sub(before).max(1),
        }
    }

    /// Detects losses; returns the number of segments newly declared lost.
    pub(super) fn detect(&mut self, now: Time, advanced: bool) -> u32 {
        if self.board.is_empty() {
            return 0;
        }
        if !self.stack.sack {
            return self.detect_newreno(advanced);
        }
        match self.stack.detection {
            // Without a new delivery RACK has nothing to do.
            Detection::Rack if !self.board.take_rack_news() => 0,
            Detection::Rack => {
                let (lost, wait) = self.detect_rack(now);
                if let Some(wait) = wait {
                    self.arm_reorder(wait, now);
                    self.timer.restarts = false;
                }
                lost
            }
            Detection::Fack if !self.reordering.has_grown => self.detect_fack(),
            // Linux replaces FACK by RFC 6675 once reordering has raised the degree.
            Detection::Fack | Detection::Rfc6675 => self.detect_rfc6675(),
            Detection::DuplicateAcks => self.detect_holes(),
        }
    }

    /// Runs RACK: the number of segments newly lost, and the time until the last undecided one will be lost.
    pub(super) fn detect_rack(&mut self, now: Time) -> (u32, Option<Duration>) {
        let (lost, due) = self.board.mark_by_rack(now, self.reordering_window());
        (lost, due.map(|due| due.since(now)))
    }

    /// RFC 6582 section 3.2: the head is lost at the third duplicate ACK (step 2), and again at each partial ACK (step
    /// 3). No new episode begins before everything sent until the last one is acknowledged (step 1).
    fn detect_newreno(&mut self, advanced: bool) -> u32 {
        if self.phase == Phase::Recovery {
            let is_partial = advanced && self.snd_una < self.recover;
            self.may_force |= is_partial;
            return if is_partial { self.board.mark_head() } else { 0 };
        }
        let is_fresh = self.snd_una > self.recover || self.recover == 0;
        if self.duplicate_acks >= self.reordering.degree && self.phase < Phase::Recovery && is_fresh {
            return self.board.mark_head();
        }
        0
    }

    fn detect_fack(&mut self) -> u32 {
        let threshold = self.reordering.degree;
        let triggered = self.board.forward_segments() > u64::from(threshold);
        if triggered || self.phase >= Phase::Recovery {
            self.board.mark_by_fack(threshold, self.control.mss)
        } else {
            0
        }
    }

    fn detect_rfc6675(&mut self) -> u32 {
        let threshold = self.reordering.degree;
        let marked = self.board.mark_by_sacked_above(threshold);
        // RFC 6675 section 5: DupThresh duplicate ACKs suffice, whatever they SACK.
        let is_enough = self.duplicate_acks >= threshold || self.is_window_too_small(threshold);
        if marked == 0 && is_enough && self.phase < Phase::Recovery {
            return self.board.mark_head();
        }
        marked
    }

    /// Linux `tcp_time_to_recover`: a window no larger than the degree cannot cause that many duplicate ACKs. So half
    /// of the window suffices if nothing more may be sent.
    fn is_window_too_small(&self, threshold: u32) -> bool {
        let out = self.board.segments_out();
        threshold > self.stack.duplicate_threshold
            && out <= threshold
            && self.board.sacked_segments() >= (out / 2).max(self.stack.duplicate_threshold)
            && !self.may_send(u64::from(self.control.mss))
    }

    /// FreeBSD: after the third duplicate ACK, every hole below the highest SACK is lost. With SACK, `tcp_input.c`
    /// checks only whether recovery is already in progress; without SACK, `recover` guards against a second one (RFC
    /// 6582).
    fn detect_holes(&mut self) -> u32 {
        let may_begin = match self.finds_losses_after_timeout() {
            true => self.phase != Phase::Recovery,
            false => self.phase < Phase::Recovery && self.snd_una >= self.recover,
        };
        let triggered = self.duplicate_acks >= self.stack.duplicate_threshold && may_begin;
        if self.phase != Phase::Recovery && !triggered {
            return 0;
        }
        let marked = match self.phase {
            // After the timeout, SACKs have reported the holes again; what the timeout retransmitted there is
            // retransmitted once more.
            Phase::Loss => self.board.mark_holes_again(),
            _ => self.board.mark_holes(),
        };
        // Duplicate ACKs without new SACKs still mean that the head is lost.
        if marked == 0 && triggered { self.board.mark_head() } else { marked }
    }

    /// RFC 8985 section 6.2 step 4, as in Linux: zero while no reordering was ever seen and loss is likely. Otherwise
    /// quarters of the minimum RTT, at most SRTT.
    fn reordering_window(&self) -> Duration {
        let in_recovery = matches!(self.phase, Phase::Recovery | Phase::Loss);
        let enough = self.board.sacked_segments() >= self.reordering.degree;
        if !self.reordering.seen && (in_recovery || enough) {
            return Duration::ZERO;
        }
        if self.rtt.min() == Duration::MAX {
            return Duration::ZERO;
        }
        (self.rtt.min() / 4 * u64::from(self.reordering.quarters)).min(self.rtt.srtt())
    }
}
