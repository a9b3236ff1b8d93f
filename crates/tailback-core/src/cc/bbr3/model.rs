//! The model of the path: rounds, bandwidth, losses, aggregation, and whether the pipe is full.
//!
//! Source: draft-ietf-ccwg-bbr-06 sections 5.3.1, 5.3.2 and 5.5.

use super::{
    DRAIN_ROUNDS, EXTRA_ROUNDS, FULL_GROWTH_PERCENT, FULL_LOSSES, FULL_ROUNDS, Mode, State, UNBOUNDED,
};
use crate::cc::{Ack, Control, Phase};
use crate::time::Rate;

impl State {
    /// Updates rounds, delivery signals, bandwidth and losses.
    pub(super) fn measure(&mut self, ack: &Ack) {
        self.round_start = false;
        self.loss_round_start = false;
        let Some(rate) = ack.delivery_rate() else { return };
        if ack.prior_delivered >= self.next_round {
            self.begin_round();
            self.rounds += 1;
            self.round_start = true;
            self.rounds_since_probe += 1;
        }
        let bps = rate.as_bps();
        self.bw_latest = self.bw_latest.max(bps);
        self.inflight_latest = self.inflight_latest.max(ack.delivered - ack.prior_delivered);
        if ack.prior_delivered >= self.loss_round {
            self.loss_round = ack.delivered;
            self.loss_round_start = true;
        }
        if !ack.app_limited || bps >= self.max_bandwidth() {
            self.bandwidth[0] = self.bandwidth[0].max(bps);
        }
    }

    pub(super) fn begin_round(&mut self) {
        self.next_round = self.delivered;
    }

    /// Lowers the short-term bounds for losses outside a probe, once per round.
    pub(super) fn adapt_lower_bounds(&mut self, control: &Control) {
        if !self.loss_round_start {
            return;
        }
        if std::mem::take(&mut self.loss_in_round) && !self.is_probing() {
            let bandwidth = if self.bw_lo == UNBOUNDED { self.max_bandwidth() } else { self.bw_lo };
            let inflight = if self.inflight_lo == UNBOUNDED { control.cwnd } else { self.inflight_lo };
            self.bw_lo = self.bw_latest.max(bandwidth / 100 * self.beta_percent);
            self.inflight_lo = self.inflight_latest.max(inflight * self.beta_percent / 100);
        }
    }

    pub(super) fn reset_lower_bounds(&mut self) {
        self.bw_lo = UNBOUNDED;
        self.inflight_lo = UNBOUNDED;
    }

    pub(super) fn measure_aggregation(&mut self, ack: &Ack, control: &Control) {
        if ack.delivered_segments == 0 || ack.delivery.is_none() {
            return;
        }
        let acked = u64::from(ack.delivered_segments) * u64::from(control.mss);
        let mut expected = Rate::from_bps(self.estimate()).bytes_in(ack.now.since(self.epoch_at));
        if self.epoch_acked <= expected {
            self.epoch_acked = 0;
            self.epoch_at = ack.now;
            expected = 0;
        }
        self.epoch_acked += acked;
        let extra = (self.epoch_acked - expected.min(self.epoch_acked)).min(control.cwnd);
        let window = if self.full { EXTRA_ROUNDS.1 } else { EXTRA_ROUNDS.0 };
        self.extra.update(window, self.rounds, extra);
    }

    pub(super) fn reset_full(&mut self, bandwidth: u64) {
        self.full_bandwidth = bandwidth;
        self.full_rounds = 0;
        self.full_now = false;
    }

    pub(super) fn check_full(&mut self, ack: &Ack) {
        let Some(rate) = ack.delivery_rate() else { return };
        if self.full_now || !self.round_start || ack.app_limited {
            return;
        }
        if rate.as_bps() >= self.full_bandwidth * FULL_GROWTH_PERCENT / 100 {
            self.reset_full(rate.as_bps());
            return;
        }
        self.full_rounds += 1;
        self.full_now = self.full_rounds >= FULL_ROUNDS;
        self.full |= self.full_now;
    }

    pub(super) fn check_startup_and_drain(&mut self, ack: &Ack, control: &Control) {
        if self.mode == Mode::Startup {
            // A loss round begins with its first loss, so a whole round of recovery has passed.
            let is_lossy = self.lost_ranges >= FULL_LOSSES && self.is_too_high(self.latest);
            if is_lossy && ack.phase == Phase::Recovery && self.loss_round_start {
                self.end_startup_by_loss(control);
            }
            if self.full {
                self.mode = Mode::Drain;
                self.drain_end = self.rounds + DRAIN_ROUNDS;
            }
        }
        let is_drained = ack.in_flight <= self.inflight(100, control) || self.rounds > self.drain_end;
        if self.mode == Mode::Drain && is_drained {
            self.begin_down(ack.now);
        }
    }
}
