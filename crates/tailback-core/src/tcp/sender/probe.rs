//! The tail loss probe: what is lost at the end of a flight brings no duplicate ACKs, so something is sent to provoke them.
//!
//! Source: RFC 8985 section 7; Linux `tcp_schedule_loss_probe`, `tcp_send_loss_probe`, `tcp_process_tlp_ack`.

use super::timers::Waits;
use super::{CongestionEvent, CongestionEventKind, Sender};
use crate::cc::{CongestionControl, Phase, Signal};
use crate::tcp::segment::{Outgoing, Segment};
use crate::time::{Bytes, Time};

/// The probe under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TailLossProbe {
    /// It is over when this offset is acknowledged; zero: none is under way.
    pub end: u64,
    /// It sends the last segment again, and not new data.
    pub is_repeated: bool,
}

impl Sender {
    /// RFC 8985 section 7.2, with Linux's allowance for a lone segment's delayed ACK; never after the
    /// retransmission timeout, which it then replaces: `is_progress` says that it begins now, else it runs since the
    /// head was sent (Linux `tcp_schedule_loss_probe`). False: no probe.
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
            _ => self.stack.timer_tick * 2, // TCP_TIMEOUT_MIN
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

    /// New data has left: the probe waits for it. Only the probe's own does not begin another wait.
    pub(super) fn on_new_data_sent(&mut self, now: Time) {
        if !self.arm_probe(now, false) && self.timer.runs_for(Waits::Probe) {
            self.rearm_rto(now);
        }
    }

    #[cold]
    pub(super) fn send_probe(&mut self, now: Time) -> Option<Outgoing> {
        if !self.probe.is_repeated {
            if let Some(segment) = self.send_new_apart(now, true) {
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

    /// A probe's ACK. If the probe itself repaired the loss, congestion is answered once; a D-SACK, or an ACK
    /// of nothing new, says that the original had arrived too (RFC 8985 section 7.4.2).
    pub(super) fn settle_probe(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) {
        if self.probe.end == 0 || self.snd_una < self.probe.end {
            return;
        }
        let has_arrived_twice = segment.is_dsack || newly_acked == 0 && segment.sack_count == 0;
        let repaired = self.probe.is_repeated && !has_arrived_twice && self.snd_una > self.probe.end;
        if self.probe.is_repeated && !has_arrived_twice && !repaired {
            return; // The ACK of the probe or of the original: what follows will tell.
        }
        self.probe.end = 0;
        if repaired && self.phase == Phase::Open {
            let before = self.control.cwnd;
            self.begin_reduction(Signal::Loss, now);
            self.trouble.undo.is_armed = false;
            if !self.algorithm.owns_window() {
                self.control.cwnd = self.control.ssthresh;
            }
            self.record(CongestionEventKind::RecoveryEntered, now, before, events);
            self.record(CongestionEventKind::RecoveryLeft, now, self.control.cwnd, events);
            self.count.recoveries += 1;
        }
    }
}
