//! Recovery: its phases, and where the window is when one begins and ends.
//!
//! Sources: RFC 6582, RFC 6675 section 5, RFC 3168 section 6.1.2; Linux 2.6.25 and 6.x, FreeBSD 7.3.

use super::reduction::Descent;
use super::{CongestionEvent, CongestionEventKind, Sender, frto};
use crate::cc::{Congestion, CongestionControl, Phase, PhaseChange, Signal};
use crate::tcp::segment::Segment;
use crate::tcp::stack::{Detection, FrtoResponse, Reduction};
use crate::time::{Bytes, Time};

impl Sender {
    /// Returns true if a reduction was undone.
    pub(super) fn step_state(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        lost: u32,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) -> bool {
        // Linux up to 3.9 asks nothing else while F-RTO is at work.
        let is_left_to_frto = self.is_in_frto() && self.stack.frto_response == FrtoResponse::Halve;
        if !is_left_to_frto
            && self.may_undo(segment.is_dsack)
            && self.try_undo(segment, newly_acked, now, events)
        {
            return true;
        }
        match self.phase {
            Phase::Recovery if self.snd_una >= self.recover && newly_acked > 0 => {
                self.leave_recovery(now, events);
            }
            // The CWR bit leaves with the first new segment: held until that one is acknowledged.
            Phase::Cwr if self.snd_una > self.recover => self.leave_recovery(now, events),
            Phase::Loss if self.snd_una >= self.recover && newly_acked > 0 => {
                self.departed = 0;
                self.reordering.on_recovered();
                self.set_phase(Phase::Open, now);
            }
            _ => {}
        }
        let finds = self.finds_losses_after_timeout();
        if self.phase < Phase::Recovery || self.phase == Phase::Loss && finds && lost > 0 {
            if lost > 0 || self.is_loss_proven() {
                self.enter_recovery(now, events);
            } else if self.phase != Phase::Cwr {
                let is_disturbed =
                    self.board.sacked_segments() > 0 || self.departed > 0 || self.awaits_retransmissions();
                let phase = if is_disturbed { Phase::Disorder } else { Phase::Open };
                if phase != self.phase {
                    self.set_phase(phase, now);
                }
                if is_disturbed {
                    self.moderate();
                }
            }
        }
        false
    }

    /// FreeBSD alone finds losses by duplicates after a timeout, too, and then repairs them by its ramp. ns-2's Sack1
    /// waits until what was sent before the timeout is acknowledged (`recover_`).
    pub(super) fn finds_losses_after_timeout(&self) -> bool {
        self.stack.sack && self.stack.reduction == Reduction::FreeBsd
    }

    /// Something sent during the last recovery was lost too, which that recovery has found out: another window's
    /// loss, and another reduction. RFC 6675 section 5 step C; Linux `tcp_time_to_recover`: `lost_out`.
    fn is_loss_proven(&self) -> bool {
        let by_scoreboard =
            matches!(self.stack.detection, Detection::Rfc6675 | Detection::Fack | Detection::Rack);
        by_scoreboard && self.stack.sack && self.board.lost_segments() > 0
    }

    pub(super) fn set_phase(&mut self, to: Phase, now: Time) {
        let from = std::mem::replace(&mut self.phase, to);
        if to != Phase::Loss {
            self.frto = frto::Step::Idle;
        }
        let change = PhaseChange {
            now,
            from,
            to,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt: self.rtt.srtt(),
        };
        self.algorithm.on_phase(&change, &mut self.control);
    }

    pub(super) fn congestion(&mut self, signal: Signal, now: Time) {
        let congestion = Congestion {
            now,
            signal,
            mss: self.control.mss,
            in_flight: self.in_flight(),
            send_window: self.send_window(),
            srtt: self.rtt.srtt(),
            rtt_min: self.rtt.min(),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        };
        self.algorithm.on_congestion(&congestion, &mut self.control);
    }

    pub(super) fn begin_reduction(&mut self, signal: Signal, now: Time) {
        self.arm_undo();
        self.recover = self.snd_nxt;
        self.begin_repair();
        // RFC 3168 section 6.1.2: CWR tells of a reduction for whatever reason. AccECN needs its bit for the count.
        self.owes_cwr = self.stack.speaks_ecn() && !self.stack.counts_marks();
        self.trouble.descent = Descent::from_window(self.control.cwnd);
        self.congestion(signal, now);
    }

    fn begin_repair(&mut self) {
        self.rescued = false;
        // ns-2 `dupack_action`: what the duplicates stood for has left; the first retransmission is not counted.
        self.trouble.pipe =
            i64::from(self.board.segments_out()) - i64::from(self.stack.duplicate_threshold) - 1;
    }

    pub(super) fn enter_recovery(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        if self.phase == Phase::Cwr {
            self.repair_within_reduction(now, events);
        } else {
            self.begin_reduction(Signal::Loss, now);
        }
        self.count.recoveries += 1;
        self.probe.end = 0;
        if !self.algorithm.owns_window() {
            match self.reduction() {
                // RFC 6675 section 5 step 4.2, RFC 6582 step 2: no gradual descent.
                Reduction::Immediate => self.control.cwnd = self.control.ssthresh,
                // FreeBSD 7.3: one segment, so only the first hole leaves now.
                Reduction::FreeBsd => self.control.cwnd = u64::from(self.control.mss),
                Reduction::RateHalving | Reduction::AtEnd | Reduction::Prr => {}
            }
        }
        // The first retransmission leaves whatever the window says (RFC 5681 section 3.2 step 3).
        self.may_force = true;
        self.set_phase(Phase::Recovery, now);
        self.record(CongestionEventKind::RecoveryEntered, now, before, events);
    }

    /// A loss in a window that a mark has reduced already: it is repaired, and nothing is reduced again (RFC 3168 section
    /// 6.1.2; Linux `tcp_enter_recovery`; FreeBSD's algorithms in congestion recovery). The descent goes on.
    fn repair_within_reduction(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        // Where PRR is at work Linux keeps the end of the reduction, too (`tcp_init_cwnd_reduction`).
        if self.reduction() != Reduction::Prr {
            self.recover = self.snd_nxt;
        }
        self.begin_repair();
        self.record(CongestionEventKind::CwrLeft, now, self.control.cwnd, events);
    }

    pub(super) fn on_echo(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        // RFC 3168 section 6.1.2: once per window of data.
        if self.phase < Phase::Cwr {
            self.enter_reduction(now, events);
        }
    }

    /// Reduce although nothing was lost: after an ECN echo, or because the algorithm wants it.
    pub(super) fn enter_reduction(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        self.begin_reduction(Signal::Ecn, now);
        self.trouble.undo.is_armed = false;
        if !self.algorithm.owns_window()
            && matches!(self.stack.reduction, Reduction::Immediate | Reduction::FreeBsd)
        {
            self.control.cwnd = self.control.ssthresh;
        }
        self.set_phase(Phase::Cwr, now);
        self.record(CongestionEventKind::CwrEntered, now, before, events);
    }

    pub(super) fn leave_recovery(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        let mss = u64::from(self.control.mss);
        if !self.algorithm.owns_window() {
            match self.reduction() {
                Reduction::Immediate if self.stack.sack => self.control.cwnd = self.control.ssthresh,
                // RFC 6582 section 3.2 step 3, first option: no burst after leaving.
                Reduction::Immediate => {
                    let flight = self.board.in_flight().max(mss) + mss;
                    self.control.cwnd = self.control.ssthresh.min(flight);
                }
                // FreeBSD 7.3: whatever is outstanding plus one segment, if that is less than ssthresh.
                Reduction::FreeBsd => {
                    let flight = self.snd_nxt - self.snd_una;
                    self.control.cwnd = match flight < self.control.ssthresh {
                        true => flight + mss,
                        false => self.control.ssthresh,
                    };
                }
                // Linux 2.6.25: never raised here; slow start closes what is missing.
                Reduction::RateHalving | Reduction::AtEnd => {
                    self.control.cwnd = self.control.cwnd.min(self.control.ssthresh);
                }
                Reduction::Prr => self.control.cwnd = self.control.ssthresh,
            }
            self.moderate();
        }
        self.departed = 0;
        self.reordering.on_recovered();
        let kind = match self.phase {
            Phase::Cwr => CongestionEventKind::CwrLeft,
            _ => CongestionEventKind::RecoveryLeft,
        };
        self.set_phase(Phase::Open, now);
        self.keep_floor();
        self.record(kind, now, before, events);
    }
}
