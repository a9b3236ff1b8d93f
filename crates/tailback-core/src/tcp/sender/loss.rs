//! Finding losses: duplicate ACKs, SACK, forward acknowledgement, and time (RACK).
//!
//! Sources: RFC 6582 section 3.2 (NewReno), RFC 6675 section 4, Mathis & Mahdavi 1996 (FACK), RFC 8985 (RACK).

use super::Sender;
use crate::cc::Phase;
use crate::tcp::stack::Detection;
use crate::time::{Duration, Time};

impl Sender {
    /// Without SACK every duplicate ACK means one segment left the network (RFC 6582 inflates cwnd instead).
    pub(super) fn count_departures(&mut self, is_duplicate: bool, acked_segments: u32) {
        if is_duplicate {
            let most = self.board.segments_out().saturating_sub(1);
            self.departed = (self.departed + 1).min(most);
        } else if acked_segments > 0 {
            // A partial ACK covers the retransmission and what had departed above it.
            self.departed = self.departed.saturating_sub(acked_segments.saturating_sub(1));
            self.departed = self.departed.min(self.board.segments_out().saturating_sub(1));
        }
    }

    /// Find losses; returns segments newly taken for lost.
    pub(super) fn detect(&mut self, now: Time, advanced: bool) -> u32 {
        self.reorder_at = Time::NEVER;
        if self.board.is_empty() {
            return 0;
        }
        let threshold = self.stack.duplicate_threshold;
        let in_recovery = matches!(self.phase, Phase::Recovery | Phase::Loss);
        match self.stack.detection {
            Detection::Rack => {
                let (lost, due) = self.board.mark_by_rack(now, self.reordering_window());
                self.reorder_at = due.unwrap_or(Time::NEVER);
                lost
            }
            Detection::Fack => {
                let triggered = self.board.forward_segments() > u64::from(threshold);
                if triggered || in_recovery {
                    self.board.mark_by_fack(threshold, self.control.mss)
                } else {
                    0
                }
            }
            Detection::Rfc6675 => {
                let marked = self.board.mark_by_sacked_above(threshold);
                if marked == 0 && self.duplicate_acks >= threshold && self.phase < Phase::Cwr {
                    return self.board.mark_head();
                }
                marked
            }
            Detection::DuplicateAcks => {
                let triggered = self.duplicate_acks >= threshold;
                if self.phase == Phase::Recovery {
                    match (self.stack.sack, advanced) {
                        (true, _) => self.board.mark_holes(),
                        // RFC 6582 section 3.2 step 5: a partial ACK exposes the next hole.
                        (false, true) if self.snd_una < self.recover => self.board.mark_head(),
                        (false, _) => 0,
                    }
                } else if triggered && self.phase < Phase::Recovery && self.may_recover_again() {
                    match self.stack.sack {
                        true => self.board.mark_holes(),
                        false => self.board.mark_head(),
                    }
                } else {
                    0
                }
            }
        }
    }

    /// Without SACK the duplicate ACKs of what a timeout sent twice look like a loss: RFC 6582 section 3.2 step 2
    /// wants an ACK for more than `recover` first. With SACK they carry nothing new.
    fn may_recover_again(&self) -> bool {
        self.recover == 0 || self.snd_una > self.recover || self.stack.sack && self.snd_una == self.recover
    }

    /// RFC 8985 section 6.2 step 4, as Linux does it: none while nothing was ever reordered and loss is
    /// likely, a quarter of the minimum RTT (at most SRTT/8) otherwise.
    pub(super) fn reordering_window(&self) -> Duration {
        let in_recovery = matches!(self.phase, Phase::Recovery | Phase::Loss);
        let enough = self.board.sacked_segments() >= self.stack.duplicate_threshold;
        if !self.reordering_seen && (in_recovery || enough) {
            return Duration::ZERO;
        }
        if self.rtt.min() == Duration::MAX {
            return Duration::ZERO;
        }
        (self.rtt.min() / 4).min(self.rtt.srtt() / 8)
    }
}
