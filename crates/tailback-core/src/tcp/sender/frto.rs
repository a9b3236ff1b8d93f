//! F-RTO: detects a spurious retransmission timeout.
//!
//! After the head is retransmitted, the first ACK that advances makes the sender send new data instead of further
//! retransmissions. If a later ACK covers data that was sent only once and before the timeout, the originals had
//! arrived and nothing was lost. Duplicate ACKs mean that something was lost.
//!
//! Sources: RFC 5682 section 2 (basic) and section 3 (with SACK); Linux `tcp_process_loss` since 3.10, which takes
//! such evidence from the first ACK on, and `tcp_process_frto` before; RFC 4015 (response).
//!
//! Differs from the sources: up to 3.9 Linux marks nothing lost before F-RTO has decided; here the flight is
//! marked at the timeout and unmarked again, which sends the same segments.

use super::reduction::Descent;
use super::undo::Restored;
use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase};
use crate::tcp::scoreboard::Delivery;
use crate::tcp::segment::Outgoing;
use crate::tcp::stack::{Detection, Frto, FrtoResponse};
use crate::time::{Bytes, Time};

/// State of F-RTO.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Step {
    /// Inactive.
    #[default]
    Idle,
    /// The head was retransmitted; F-RTO waits for its ACK (RFC 5682 step 2).
    Head,
    /// New data was sent; F-RTO waits for its ACK (step 3).
    NewData,
    /// Retransmissions continue, and proof of a spurious timeout still counts: Linux since 3.10, after an ACK that
    /// advances without such proof.
    Repairs,
}

impl Sender {
    pub(super) fn is_in_frto(&self) -> bool {
        self.frto != Step::Idle
    }

    /// Called at a timeout. F-RTO does not begin within fast recovery, because it would confuse that recovery's
    /// retransmissions with its own (RFC 5682 section 2.1), unless the head has timed out before.
    pub(super) fn begin_frto(&mut self) {
        let has_expired = match self.stack.detection {
            // `icsk_retransmits`: the timer has expired since the cumulative ACK last advanced.
            Detection::Rack => self.trouble.timeout_una == self.snd_una,
            _ => self.rtt.backoffs() > 0,
        };
        let applies = self.phase < Phase::Recovery || has_expired;
        self.frto = if self.stack.frto != Frto::Off && applies { Step::Head } else { Step::Idle };
    }

    #[cold]
    pub(super) fn judge_timeout(
        &mut self,
        delivery: &Delivery,
        newly_acked: Bytes,
        is_duplicate: bool,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) {
        let has_sack = self.stack.sack && self.stack.frto != Frto::Basic;
        // Without SACK, the ACK of the retransmission may also cover data above it that had arrived.
        let is_original = delivery.original_end <= self.recover;
        let proves = is_original && (has_sack || newly_acked > 0 && !delivery.acked_retransmission);
        if proves && (self.frto == Step::NewData || self.stack.frto == Frto::AtOnce) {
            return self.on_spurious(now, events);
        }
        match self.frto {
            Step::Head if newly_acked > 0 => {
                let may_probe = self.snd_una < self.recover && self.has_new_to_send();
                self.frto = if may_probe { Step::NewData } else { Step::Idle };
            }
            Step::NewData | Step::Repairs if self.is_patient() => {
                if is_duplicate || delivery.sacked_segments > 0 {
                    self.frto = Step::Idle;
                } else if newly_acked > 0 {
                    self.frto = Step::Repairs;
                }
            }
            // With SACK, duplicate ACKs only update the scoreboard (RFC 5682 section 3.1 step 2).
            Step::Head if is_duplicate && !has_sack => self.frto = Step::Idle,
            Step::NewData if newly_acked > 0 || is_duplicate || delivery.sacked_segments > 0 => {
                self.frto = Step::Idle;
                // RFC 5682 step 3a; Linux since 3.10 leaves the window unchanged.
                if self.stack.frto != Frto::AtOnce && !self.algorithm.owns_window() {
                    self.control.cwnd = self.control.cwnd.min(3 * u64::from(self.control.mss));
                }
            }
            _ => {}
        }
    }

    /// Whether proof counts until evidence contradicts it. RACK meanwhile finds real losses by time.
    fn is_patient(&self) -> bool {
        self.stack.frto == Frto::AtOnce
            && self.stack.detection == Detection::Rack
            && self.stack.frto_response == FrtoResponse::Undo
    }

    /// RFC 5682 step 2b: sends up to two new segments. If there is nothing to send after all, normal retransmission
    /// resumes.
    #[cold]
    pub(super) fn send_for_frto(&mut self, now: Time) -> Option<Outgoing> {
        let sent = self.snd_nxt - self.recover;
        if sent >= 2 * u64::from(self.control.mss) {
            return None;
        }
        let new = self.send_new_apart(now, false);
        if new.is_none() && sent == 0 {
            self.frto = Step::Idle;
        }
        new
    }

    fn has_new_to_send(&self) -> bool {
        let limit = self.buffered_end().min(self.peer.right_edge);
        limit > self.snd_nxt
    }

    fn on_spurious(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        self.frto = Step::Idle;
        match self.stack.frto_response {
            FrtoResponse::Undo => {
                self.restore(Phase::Open, Restored { unmarks: true, completes: false }, now, events);
            }
            FrtoResponse::Halve => self.halve_after_all(now, events),
        }
    }

    /// Linux `tcp_ratehalving_spur_to_response`: nothing was lost, but rate halving brings the flight down to the
    /// ssthresh that the timeout has set.
    fn halve_after_all(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        self.board.unmark();
        self.departed = 0;
        self.trouble.undo.is_armed = false;
        if !self.algorithm.owns_window() {
            self.control.cwnd = self.board.in_flight() + u64::from(self.control.mss);
        }
        self.trouble.descent = Descent::from_window(self.control.cwnd);
        self.recover = self.snd_nxt;
        self.set_phase(Phase::Cwr, now);
        self.record(CongestionEventKind::CwrEntered, now, before, events);
    }
}
