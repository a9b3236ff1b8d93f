//! What each lost packet shows about the flight in which it was sent, and the undo of that.
//!
//! Source: draft-ietf-ccwg-bbr-06 sections 5.5.10.2 and 5.5.11.

use super::{Mode, State, UNBOUNDED};
use crate::cc::{Control, Loss, Phase};
use crate::time::{Bytes, Time};

/// State of a packet at its transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub at: Time,
    pub end: u64,
    /// Bytes in flight, including this packet.
    pub in_flight: Bytes,
    /// Bytes lost on the connection before this packet was sent.
    pub lost: Bytes,
    pub app_limited: bool,
}

/// For a packet that was delivered or lost: the flight in which it was sent, and the bytes lost since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    pub in_flight: Bytes,
    pub lost: Bytes,
}

/// State of the model when a loss recovery began, and the mode that the recovery ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    pub mode: Option<Mode>,
    bw_lo: u64,
    inflight_lo: Bytes,
    inflight_hi: Bytes,
}

impl State {
    /// Looks up `newest`, the delivered packet that was sent last. The ACK's rate sample is of that packet.
    pub(super) fn look_up(&mut self, newest: (Time, u64)) {
        if let Some(sent) = self.find(newest.0, newest.1) {
            self.latest = Latest { in_flight: sent.in_flight, lost: self.lost - sent.lost };
        }
    }

    fn find(&self, at: Time, end: u64) -> Option<Sent> {
        let first = self.sent.partition_point(|sent| sent.at < at);
        self.sent.range(first..).take_while(|sent| sent.at == at).find(|sent| sent.end == end).copied()
    }

    /// Whether more than the loss threshold (2 %) of a packet's flight was lost after it was sent.
    pub(super) fn is_too_high(&self, of: Latest) -> bool {
        u128::from(of.lost) * 1_000_000 > u128::from(of.in_flight) * u128::from(self.loss_ppm)
    }

    pub(super) fn take_loss(&mut self, loss: &Loss, now: Time, control: &mut Control) {
        let sent = self.find(loss.sent, loss.end);
        self.lost += loss.bytes;
        if !std::mem::replace(&mut self.loss_in_round, true) {
            // The loss round begins with its first loss.
            self.loss_round = self.delivered;
            self.lost_ranges = 0;
        }
        self.save(control);
        let start = loss.end - loss.bytes;
        self.lost_ranges += u32::from(start != self.lost_end || self.lost_ranges == 0);
        self.lost_end = loss.end;
        let Some(sent) = sent.filter(|_| self.probe_samples) else { return };
        let of = Latest { in_flight: sent.in_flight, lost: self.lost - sent.lost };
        if !self.is_too_high(of) {
            return;
        }
        self.was_too_high = true;
        self.probe_samples = false;
        if !sent.app_limited {
            let least = self.target_inflight(control) * self.beta_percent / 100;
            self.inflight_hi = self.inflight_at_loss(of, loss.bytes).max(least);
        }
        if self.mode == Mode::Up {
            self.undo.mode = Some(Mode::Up);
            self.begin_down(now);
        }
    }

    /// The flight at which losses reached the threshold: within the packet of which `bytes` were lost.
    pub(super) fn inflight_at_loss(&self, of: Latest, bytes: Bytes) -> Bytes {
        let before = of.in_flight.saturating_sub(bytes);
        let lost_before = of.lost.saturating_sub(bytes);
        let allowed = (u128::from(before) * u128::from(self.loss_ppm) / 1_000_000) as u64;
        let rest = u128::from(allowed.saturating_sub(lost_before));
        before + (rest * 1_000_000 / u128::from(1_000_000 - self.loss_ppm)) as u64
    }

    /// Saves the model at the beginning of a loss recovery, once per recovery.
    pub(super) fn save(&mut self, control: &Control) {
        self.save_window(control);
        if std::mem::replace(&mut self.is_saved, true) {
            return;
        }
        self.undo = Undo {
            mode: None,
            bw_lo: self.bw_lo,
            inflight_lo: self.inflight_lo,
            inflight_hi: self.inflight_hi,
        };
    }

    /// Undoes the reaction to a recovery in which nothing was lost.
    pub(super) fn undo_loss(&mut self, control: &mut Control) {
        self.restore_window(control);
        self.loss_in_round = false;
        self.reset_full(0);
        self.bw_lo = self.bw_lo.max(self.undo.bw_lo);
        self.inflight_lo = self.inflight_lo.max(self.undo.inflight_lo);
        self.inflight_hi = self.inflight_hi.max(self.undo.inflight_hi);
        let mode = self.undo.mode.take().filter(|mode| *mode != self.mode);
        if mode == Some(Mode::Startup) {
            self.full = false;
        }
        match mode {
            _ if self.mode == Mode::ProbeRtt => {}
            Some(Mode::Startup) => self.mode = Mode::Startup,
            Some(Mode::Up) => self.begin_refill(),
            _ => {}
        }
    }

    pub(super) fn save_window(&mut self, control: &Control) {
        let is_clean = self.previous < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if is_clean { control.cwnd } else { self.prior_window.max(control.cwnd) };
    }

    pub(super) fn restore_window(&self, control: &mut Control) {
        control.cwnd = control.cwnd.max(self.prior_window);
    }

    /// Loss ends Startup: the flight that was delivered in the last round is safe.
    pub(super) fn end_startup_by_loss(&mut self, control: &Control) {
        self.undo.mode = Some(Mode::Startup);
        self.full = true;
        self.inflight_hi = self.bdp(100, control).max(self.inflight_latest);
        debug_assert!(self.inflight_hi < UNBOUNDED);
    }
}
