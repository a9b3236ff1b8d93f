//! The tail loss probe. A loss at the end of a flight causes no duplicate ACKs, so the probe sends a segment to provoke
//! an ACK.
//!
//! Source: RFC 8985 section 7; Linux `tcp_schedule_loss_probe`, `tcp_send_loss_probe`, `tcp_process_tlp_ack`.

use super::timers::{TIMEOUT_MIN, Waits};
use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase, Signal};
use crate::tcp::segment::{Outgoing, Segment};
use crate::time::{Bytes, Time};

/// The outstanding probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TailLossProbe {
    /// The probe ends when this offset is acknowledged; zero: there is none.
    pub end: u64,
    /// Whether it retransmits the last segment rather than sending new data.
    pub is_repeated: bool,
    /// Whether the current ACK reports it as a duplicate.
    pub is_needless: bool,
}

impl Sender {
    /// Arms the probe (RFC 8985 section 7.2, with Linux's allowance for a lone segment's delayed ACK). It is never
    /// later than the retransmission timeout, which it replaces. That timeout runs from now if `is_progress`, else from
    /// the head's transmission (Linux `tcp_schedule_loss_probe`). Returns false if no probe is armed.
    pub(super) fn arm_probe(&mut self, now: Time, is_progress: bool) -> bool {
        if !self.stack.tail_loss_probe
            || !self.stack.sack
            || !matches!(self.phase, Phase::Open | Phase::Cwr)
            || self.board.is_empty()
        {
            return false;
        }
        let allowance = match self.board.segments_out() {
            1 => self.stack.rto_minimum,
            _ => TIMEOUT_MIN,
        };
        let wait = match self.rtt.srtt().is_zero() {
            true => self.stack.rto_initial,
            false => self.rtt.srtt() * 2 + allowance,
        };
        let timeout = if is_progress { self.timeout() } else { self.head_wait(now) };
        let wait = if timeout.is_zero() { wait } else { wait.min(timeout) };
        self.timer.arm(Waits::Probe, now, wait + self.pacing_wait(now));
        true
    }

    /// New data was sent: restarts the wait for the probe, unless that data is itself a probe.
    pub(super) fn on_new_data_sent(&mut self, now: Time) {
        if !self.arm_probe(now, false) && self.timer.runs_for(Waits::Probe) {
            self.rearm_rto(now);
        }
    }

    #[cold]
    pub(super) fn send_probe(&mut self, now: Time) -> Option<Outgoing> {
        if !self.probe.is_repeated {
            if let Some(segment) = self.send_new_apart(now, true) {
                self.probe.end = self.snd_nxt;
                return Some(segment);
            }
        }
        let (range, is_fin) = self.board.last()?;
        if !self.is_repeatable(range) {
            self.probe.end = 0;
            return None;
        }
        self.probe.is_repeated = true;
        self.board.on_probe(now, self.snd_nxt);
        self.count.segments_retransmitted += 1;
        Some(self.compose(range, is_fin, true, now))
    }

    /// Processes the ACK of a probe. A D-SACK of the probe, or an ACK of nothing new, shows that the original had
    /// arrived too (RFC 8985 section 7.4.2). An ACK beyond the probe shows that it repaired a loss.
    pub(super) fn settle_probe(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        sacked_segments: u32,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) {
        let is_needless = std::mem::take(&mut self.probe.is_needless);
        if self.probe.end == 0 || self.snd_una < self.probe.end || segment.ack < self.snd_una {
            return;
        }
        if !self.probe.is_repeated || is_needless {
            self.probe.end = 0;
        } else if self.snd_una > self.probe.end {
            self.answer_repaired_loss(now, events);
        } else if newly_acked == 0 && sacked_segments == 0 {
            self.probe.end = 0;
        }
        // Otherwise the ACK covers the probe or the original: a later ACK decides.
    }

    /// The probe repaired a loss: enters CWR and leaves it at once, whatever the state (Linux `tcp_process_tlp_ack`).
    #[cold]
    fn answer_repaired_loss(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        let before = self.control.cwnd;
        if self.trouble.undo.is_armed {
            self.trouble.undo.cwnd = before;
        }
        self.begin_descent(Signal::Ecn, now);
        self.set_phase(Phase::Cwr, now);
        if !self.algorithm.owns_window() {
            self.control.cwnd = self.control.ssthresh;
        }
        self.record(CongestionEventKind::RecoveryEntered, now, before, events);
        let entered = self.control.cwnd;
        self.change_phase(self.undisturbed_phase(), true, now);
        self.keep_floor();
        self.record(CongestionEventKind::RecoveryLeft, now, entered, events);
        self.count.recoveries += 1;
    }
}
