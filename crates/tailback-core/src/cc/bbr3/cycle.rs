//! The cycle of probing for bandwidth, DOWN, CRUISE, REFILL and UP, and the bounds that it moves.
//!
//! Source: draft-ietf-ccwg-bbr, ProbeBW.

use super::{Acks, Mode, RENO_ROUNDS, State, UNBOUNDED};
use crate::cc::{Ack, Control};
use crate::time::{Duration, Rate};

impl State {
    pub(super) fn begin_down(&mut self, ack: &Ack) {
        self.mode = Mode::Down;
        self.acks = Acks::ProbeStopping;
        self.loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
        self.up_price = UNBOUNDED;
        self.rounds_since_probe = self.stream.below(2);
        self.probe_wait = Duration::from_secs(2) + Duration::from_us(self.stream.below(1_000_001));
        self.cycle_at = ack.now;
        self.begin_round(ack);
    }

    fn begin_refill(&mut self, ack: &Ack) {
        self.mode = Mode::Refill;
        self.acks = Acks::Refilling;
        self.reset_lower_bounds();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.begin_round(ack);
    }

    pub(super) fn begin_up(&mut self, ack: &Ack, control: &Control) {
        self.mode = Mode::Up;
        self.acks = Acks::ProbeStarting;
        self.probe_samples = true;
        self.reset_full(ack.delivery_rate().map_or(0, Rate::as_bps));
        self.cycle_at = ack.now;
        self.begin_round(ack);
        self.raise_slope(control);
    }

    pub(super) fn advance_cycle(&mut self, ack: &Ack, control: &Control) {
        if !self.full {
            return;
        }
        self.adapt_upper_bounds(ack, control);
        match self.mode {
            Mode::Down | Mode::Cruise if self.is_time_to_probe(ack, control) => self.begin_refill(ack),
            Mode::Down if self.is_time_to_cruise(ack, control) => self.mode = Mode::Cruise,
            // A whole round at the estimate fills the path before the probe adds to it.
            Mode::Refill if self.round_start => self.begin_up(ack, control),
            Mode::Up => {
                if ack.cwnd_limited && control.cwnd >= self.inflight_hi {
                    self.reset_full(ack.delivery_rate().map_or(0, Rate::as_bps));
                } else if self.full_now {
                    self.begin_down(ack);
                }
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, ack: &Ack, control: &Control) -> bool {
        let window = self.bdp(100, control.mss).min(control.cwnd) / u64::from(control.mss);
        ack.now.since(self.cycle_at) > self.probe_wait
            || self.rounds_since_probe >= window.clamp(1, RENO_ROUNDS)
    }

    fn is_time_to_cruise(&self, ack: &Ack, control: &Control) -> bool {
        ack.in_flight <= self.with_headroom(control.mss) && ack.in_flight <= self.inflight(100, control.mss)
    }

    fn adapt_upper_bounds(&mut self, ack: &Ack, control: &Control) {
        if self.round_start && self.acks == Acks::ProbeStarting {
            self.acks = Acks::ProbeFeedback;
        }
        if self.round_start && self.acks == Acks::ProbeStopping {
            self.acks = Acks::Init;
            if self.is_probe_bw() && !ack.app_limited {
                // The cycle's maximum ages by one.
                self.bandwidth = [0, self.bandwidth[0]];
            }
        }
        if ack.lost_segments > 0 && self.is_too_high(ack) {
            if std::mem::take(&mut self.probe_samples) {
                if !ack.app_limited {
                    let least = self.bdp(100, control.mss).min(control.cwnd) * self.beta_percent / 100;
                    self.inflight_hi = ack.prior_in_flight.max(least);
                }
                if self.mode == Mode::Up {
                    self.begin_down(ack);
                }
            }
            return;
        }
        if self.inflight_hi == UNBOUNDED {
            return;
        }
        if self.lost_bytes == 0 {
            self.inflight_hi = self.inflight_hi.max(ack.prior_in_flight);
        }
        if self.mode == Mode::Up {
            self.probe_upward(ack, control);
        }
    }

    /// While the bound is what limits: raise it, twice as fast each round.
    fn probe_upward(&mut self, ack: &Ack, control: &Control) {
        if !ack.cwnd_limited || control.cwnd < self.inflight_hi {
            return;
        }
        let mss = u64::from(control.mss);
        self.up_acked += u64::from(ack.delivered_segments) * mss;
        if self.up_acked >= self.up_price {
            let steps = self.up_acked / self.up_price;
            self.up_acked -= steps * self.up_price;
            self.inflight_hi += steps * mss;
        }
        if self.round_start {
            self.raise_slope(control);
        }
    }

    fn raise_slope(&mut self, control: &Control) {
        let growth = 1_u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_price = (control.cwnd / growth).max(u64::from(control.mss));
    }
}
