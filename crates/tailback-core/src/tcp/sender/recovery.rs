//! Loss recovery: its phases, and the window at the beginning and the end of each.
//!
//! Sources: RFC 6582, RFC 6675 section 5, RFC 3168 section 6.1.2; Linux 2.6.25 and 6.x, FreeBSD 7.3.

use super::acks::News;
use super::reduction::Descent;
use super::undo::Restored;
use super::{CongestionEvent, CongestionEventKind, Sender, frto};
use crate::cc::{Congestion, CongestionControl, Phase, PhaseChange, Signal};
use crate::tcp::scoreboard::Delivery;
use crate::tcp::segment::Segment;
use crate::tcp::stack::{Detection, FrtoResponse, Reduction};
use crate::time::{Bytes, Time};

impl Sender {
    /// Advances the recovery state for an ACK. Returns true if a reduction was undone.
    pub(super) fn step_state(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        lost: u32,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) -> bool {
        // Linux up to 3.9 runs no other undo check while F-RTO is active.
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
            // CWR leaves with the first new segment, so the phase lasts until that segment is acknowledged.
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
                self.enter_recovery(false, now, events);
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

    /// Linux 6 `tcp_fastretrans_alert`: ends phases that are complete, undoes spurious ones, detects losses, then
    /// begins new phases. Returns the number of segments newly lost.
    pub(super) fn step_by_rack(
        &mut self,
        segment: &Segment,
        delivery: &Delivery,
        news: &News,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) -> u32 {
        let newly_acked = news.newly_acked;
        let advances = newly_acked > 0;
        if news.is_marked && self.trouble.undo.is_armed {
            self.trouble.undo.gives_back = false;
        }
        match self.phase {
            // CWR leaves with the first new segment, so the phase lasts until that segment is acknowledged.
            Phase::Cwr if self.snd_una > self.recover => self.leave_recovery(now, events),
            Phase::Recovery if self.snd_una >= self.recover && advances => {
                match self.is_undoable(segment, newly_acked) {
                    true => {
                        self.restore(Phase::Open, Restored { unmarks: false, completes: true }, now, events)
                    }
                    false => self.leave_recovery(now, events),
                }
            }
            _ => {}
        }
        let lost = match self.phase {
            Phase::Recovery => return self.step_recovery(segment, newly_acked, now, events),
            Phase::Loss => {
                self.step_loss(segment, delivery, news, now, events);
                let repairs = self.board.retransmitted_segments();
                let lost = self.detect(now, advances);
                let repairs_are_lost = self.board.retransmitted_segments() < repairs;
                if self.phase == Phase::Loss && !repairs_are_lost {
                    return lost;
                }
                lost
            }
            phase => {
                if phase <= Phase::Disorder && self.is_explained() {
                    self.undo_by_duplicates(phase, now, events);
                }
                self.detect(now, advances)
            }
        };
        if self.is_recovery_due(lost) {
            self.enter_recovery(news.is_marked, now, events);
            return lost;
        }
        self.forget_retransmissions();
        // An echo in the ACK that ends a reduction begins the next one (`tcp_try_to_open`).
        if news.is_marked {
            self.on_echo(now, events);
        }
        if self.phase != Phase::Cwr {
            let phase = self.undisturbed_phase();
            if phase != self.phase {
                self.set_phase(phase, now);
            }
        }
        lost
    }

    /// An ACK during Recovery. Returns the number of segments newly lost.
    fn step_recovery(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) -> u32 {
        if self.trouble.undo.is_armed && self.is_answered_by_original(segment, newly_acked) {
            self.note_lateness(newly_acked);
            // While retransmissions are in flight nothing is undone, and nothing more is marked lost
            // (`tcp_try_undo_partial`).
            if self.board.retransmitted_segments() > 0 {
                self.output.holds_repairs = true;
                return 0;
            }
            self.forget_earlier_retransmissions();
            let to = self.undisturbed_phase_without_losses();
            self.restore(to, Restored { unmarks: true, completes: false }, now, events);
        }
        if self.is_explained() {
            let to = self.undisturbed_phase();
            self.undo_by_duplicates(to, now, events);
        }
        let lost = self.detect(now, newly_acked > 0);
        if self.phase != Phase::Recovery && self.is_recovery_due(lost) {
            self.enter_recovery(false, now, events);
        }
        self.forget_retransmissions();
        lost
    }

    /// An ACK after a timeout (`tcp_process_loss`).
    fn step_loss(
        &mut self,
        segment: &Segment,
        delivery: &Delivery,
        news: &News,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) {
        let advances = news.newly_acked > 0;
        let is_left_to_frto = self.is_in_frto() && self.stack.frto_response == FrtoResponse::Halve;
        if advances && !is_left_to_frto && self.is_undoable(segment, news.newly_acked) {
            return self.restore(Phase::Open, Restored { unmarks: true, completes: false }, now, events);
        }
        if self.is_in_frto() {
            let is_duplicate = news.is_duplicate && !news.reports_duplicate;
            self.judge_timeout(delivery, news.newly_acked, is_duplicate, now, events);
        }
        if self.phase == Phase::Loss && self.snd_una >= self.recover && advances {
            self.departed = 0;
            self.reordering.on_recovered();
            self.set_phase(Phase::Open, now);
        }
    }

    /// Disorder if something is SACKed, lost or retransmitted, else Open (Linux `tcp_try_keep_open`).
    pub(super) fn undisturbed_phase(&self) -> Phase {
        match self.board.lost_segments() {
            0 => self.undisturbed_phase_without_losses(),
            _ => Phase::Disorder,
        }
    }

    fn undisturbed_phase_without_losses(&self) -> Phase {
        match self.board.sacked_segments() > 0 || self.departed > 0 || self.awaits_retransmissions() {
            true => Phase::Disorder,
            false => Phase::Open,
        }
    }

    /// Linux `tcp_time_to_recover`: whether a segment is lost, found now or during the previous recovery.
    fn is_recovery_due(&self, lost: u32) -> bool {
        lost > 0 || self.stack.sack && self.board.lost_segments() > 0
    }

    /// Only FreeBSD also detects losses by duplicate ACKs after a timeout, and then repairs them with its ramp. ns-2's
    /// Sack1 waits until everything sent before the timeout is acknowledged (`recover_`).
    pub(super) fn finds_losses_after_timeout(&self) -> bool {
        self.stack.sack && self.stack.reduction == Reduction::FreeBsd
    }

    /// Whether the last recovery found a loss among the segments that it sent. That loss belongs to a new window and
    /// justifies another reduction. RFC 6675 section 5 step C; Linux `tcp_time_to_recover`: `lost_out`.
    fn is_loss_proven(&self) -> bool {
        let by_scoreboard =
            matches!(self.stack.detection, Detection::Rfc6675 | Detection::Fack | Detection::Rack);
        by_scoreboard && self.stack.sack && self.board.lost_segments() > 0
    }

    pub(super) fn set_phase(&mut self, to: Phase, now: Time) {
        self.change_phase(to, false, now);
    }

    /// As [`Self::set_phase`]; `completes`: the change ends a reduction.
    pub(super) fn change_phase(&mut self, to: Phase, completes: bool, now: Time) {
        let from = std::mem::replace(&mut self.phase, to);
        if to != Phase::Loss {
            self.frto = frto::Step::Idle;
        }
        let change = PhaseChange {
            now,
            from,
            to,
            completes,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt: self.rtt.srtt(),
            delivered: self.board.delivered(),
            delivered_at: self.board.delivered_at(),
            lost: self.board.lost(),
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
        self.begin_descent(signal, now);
    }

    /// As [`Self::begin_reduction`], without arming the undo (Linux `tcp_init_cwnd_reduction`).
    pub(super) fn begin_descent(&mut self, signal: Signal, now: Time) {
        self.probe.end = 0;
        self.recover = self.snd_nxt;
        self.begin_repair();
        self.owe_cwr();
        self.trouble.descent = Descent::from_window(self.control.cwnd);
        self.congestion(signal, now);
    }

    /// RFC 3168 section 6.1.2: CWR reports a reduction of any cause. AccECN uses its bit for the counter.
    pub(super) fn owe_cwr(&mut self) {
        self.owes_cwr = self.stack.speaks_ecn() && !self.stack.counts_marks();
    }

    fn begin_repair(&mut self) {
        self.rescued = false;
        // ns-2 `dupack_action`: the segments behind the duplicate ACKs have left; the first retransmission is not
        // counted.
        self.trouble.pipe =
            i64::from(self.board.segments_out()) - i64::from(self.stack.duplicate_threshold) - 1;
    }

    /// Begins fast recovery. `is_marked`: the ACK that shows the loss also echoes a mark.
    pub(super) fn enter_recovery(&mut self, is_marked: bool, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        let was_reducing = self.phase == Phase::Cwr;
        if was_reducing {
            self.repair_within_reduction(now, events);
        } else {
            self.forget_earlier_retransmissions();
            self.begin_reduction(Signal::Loss, now);
            // The mark requires the reduction even if the loss turns out to be spurious (Linux `tcp_enter_recovery`).
            self.trouble.undo.gives_back = !is_marked;
        }
        self.count.recoveries += 1;
        if !self.algorithm.owns_window() {
            match self.reduction() {
                // RFC 6675 section 5 step 4.2, RFC 6582 step 2: the window falls at once.
                Reduction::Immediate => self.control.cwnd = self.control.ssthresh,
                // FreeBSD 7.3: one segment, so that only the first hole is retransmitted now.
                Reduction::FreeBsd => self.control.cwnd = u64::from(self.control.mss),
                Reduction::RateHalving | Reduction::AtEnd | Reduction::Prr => {}
            }
        }
        // The first retransmission is sent regardless of the window (RFC 5681 section 3.2 step 3). With PRR that is the step
        // of a reduction that has sent nothing yet (Linux `tcp_cwnd_reduction`); within an older one it waits its turn.
        let waits = was_reducing && self.reduction() == Reduction::Prr && !self.algorithm.owns_window();
        self.may_force = !waits;
        self.set_phase(Phase::Recovery, now);
        self.record(CongestionEventKind::RecoveryEntered, now, before, events);
    }

    /// A loss in a window that a mark has already reduced: it is retransmitted without a second reduction (RFC 3168
    /// section 6.1.2; Linux `tcp_enter_recovery`; FreeBSD's algorithms in congestion recovery). The current reduction
    /// continues.
    fn repair_within_reduction(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        // With PRR, Linux also keeps the end of the reduction (`tcp_init_cwnd_reduction`).
        if self.reduction() != Reduction::Prr {
            self.recover = self.snd_nxt;
        }
        self.begin_repair();
        if self.stack.detection == Detection::Rack {
            self.forget_earlier_retransmissions();
            self.arm_undo();
            self.trouble.undo.gives_back = false;
        }
        self.record(CongestionEventKind::CwrLeft, now, self.control.cwnd, events);
    }

    pub(super) fn on_echo(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        // RFC 3168 section 6.1.2: once per window of data.
        if self.phase < Phase::Cwr {
            self.enter_reduction(now, events);
        }
    }

    /// Begins a reduction without loss: after an ECN echo, or at the algorithm's request.
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
                // RFC 6582 section 3.2 step 3, first option: avoids a burst at the end of recovery.
                Reduction::Immediate => {
                    let flight = self.board.in_flight().max(mss) + mss;
                    self.control.cwnd = self.control.ssthresh.min(flight);
                }
                // FreeBSD 7.3: the outstanding data plus one segment, if less than ssthresh is outstanding.
                Reduction::FreeBsd => {
                    let flight = self.snd_nxt - self.snd_una;
                    self.control.cwnd = match flight < self.control.ssthresh {
                        true => flight + mss,
                        false => self.control.ssthresh,
                    };
                }
                // Linux 2.6.25: never raises the window here; slow start makes up the difference.
                Reduction::RateHalving | Reduction::AtEnd => {
                    self.control.cwnd = self.control.cwnd.min(self.control.ssthresh);
                }
                Reduction::Prr => self.control.cwnd = self.control.ssthresh,
            }
            self.moderate();
        }
        self.departed = 0;
        if self.phase != Phase::Cwr || self.stack.detection != Detection::Rack {
            self.reordering.on_recovered();
        }
        let kind = match self.phase {
            Phase::Cwr => CongestionEventKind::CwrLeft,
            _ => CongestionEventKind::RecoveryLeft,
        };
        self.change_phase(Phase::Open, true, now);
        self.keep_floor();
        self.record(kind, now, before, events);
    }
}
