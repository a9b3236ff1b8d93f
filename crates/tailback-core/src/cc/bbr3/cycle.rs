//! The bandwidth probing cycle DOWN, CRUISE, REFILL and UP, and the bounds that it adapts.
//!
//! Source: draft-ietf-ccwg-bbr-06 sections 5.3.3 and 5.5.10.2.

use super::{Acks, Mode, RENO_ROUNDS, State, UNBOUNDED};
use crate::cc::{Ack, Control};
use crate::time::{Bytes, Duration, Rate, Time};

impl State {
    pub(super) fn begin_down(&mut self, now: Time) {
        self.mode = Mode::Down;
        self.acks = Acks::ProbeStopping;
        self.loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
        self.up_price = UNBOUNDED;
        self.rounds_since_probe = self.stream.below(2);
        self.probe_wait = Duration::from_secs(2) + Duration::from_us(self.stream.below(1_000_001));
        self.cycle_at = now;
        self.begin_round();
    }

    pub(super) fn begin_refill(&mut self) {
        self.mode = Mode::Refill;
        self.acks = Acks::Refilling;
        self.reset_lower_bounds();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.was_cautious = false;
        self.begin_round();
    }

    pub(super) fn begin_up(&mut self, ack: &Ack, control: &Control) {
        self.mode = Mode::Up;
        self.acks = Acks::ProbeStarting;
        self.probe_samples = true;
        self.reset_full(ack.delivery_rate().map_or(0, Rate::as_bps));
        self.begin_round();
        self.raise_slope(control);
    }

    pub(super) fn advance_cycle(&mut self, ack: &Ack, control: &Control) {
        if !self.full {
            return;
        }
        if self.adapt_long_term(ack, control) {
            return;
        }
        let mode = self.mode;
        match mode {
            Mode::Down | Mode::Cruise if self.is_time_to_probe(ack, control) => self.begin_refill(),
            Mode::Down if self.is_time_to_cruise(ack, control) => self.mode = Mode::Cruise,
            // A whole round at the estimate fills the path before the probe sends more.
            Mode::Refill if self.round_start => self.begin_up(ack, control),
            Mode::Up if self.is_time_to_go_down(ack, control) => {
                self.was_too_high = false;
                self.begin_down(ack.now);
            }
            _ => {}
        }
    }

    /// After an UP that lost too much, the next one stops at the bound. Otherwise a plateau of the rate ends UP; the
    /// rate says nothing while the bound limits the flight.
    fn is_time_to_go_down(&mut self, ack: &Ack, control: &Control) -> bool {
        if self.was_too_high && ack.prior_in_flight + u64::from(control.mss) > self.inflight_hi {
            self.was_cautious = true;
            return true;
        }
        if ack.window_full && self.reaches_bound(control) {
            self.reset_full(ack.delivery_rate().map_or(0, Rate::as_bps));
            return false;
        }
        self.full_now
    }

    /// Whether cwnd has reached inflight_hi, in whole segments.
    fn reaches_bound(&self, control: &Control) -> bool {
        self.inflight_hi < control.cwnd + u64::from(control.mss)
    }

    /// The estimated BDP, unless congestion has reduced the window.
    pub(super) fn target_inflight(&self, control: &Control) -> Bytes {
        self.bdp(100, control).min(control.cwnd)
    }

    fn is_time_to_probe(&self, ack: &Ack, control: &Control) -> bool {
        let window = self.target_inflight(control) / u64::from(control.mss);
        ack.now.since(self.cycle_at) > self.probe_wait
            || self.rounds_since_probe >= window.clamp(1, RENO_ROUNDS)
    }

    fn is_time_to_cruise(&self, ack: &Ack, control: &Control) -> bool {
        let path = self.quantised(self.bdp_at(self.max_bandwidth(), 100, control), control);
        ack.in_flight <= self.with_headroom(control.mss) && ack.in_flight <= path
    }

    /// Tracks a probe by the ACKs for it, and raises inflight_hi. Returns true if another phase begins.
    pub(super) fn adapt_long_term(&mut self, ack: &Ack, control: &Control) -> bool {
        if self.round_start && self.acks == Acks::ProbeStarting {
            self.acks = Acks::ProbeFeedback;
        }
        if self.round_start && self.acks == Acks::ProbeStopping {
            // Later losses are not of packets that the probe sent.
            self.probe_samples = false;
            self.acks = Acks::Init;
            if self.is_probe_bw() && !ack.app_limited {
                // The maximum of this cycle becomes that of the previous one.
                self.bandwidth = [0, self.bandwidth[0]];
            }
            if self.is_probe_bw() && self.was_cautious && !self.was_too_high {
                // A round has passed since the cautious probe without excessive loss.
                self.begin_refill();
                return true;
            }
        }
        if self.inflight_hi == UNBOUNDED || self.is_too_high(self.latest) {
            return false;
        }
        self.inflight_hi = self.inflight_hi.max(self.latest.in_flight);
        if self.mode == Mode::Up {
            self.probe_upward(ack, control);
        }
        false
    }

    /// Raises the bound while it limits the flight; the slope doubles each round.
    fn probe_upward(&mut self, ack: &Ack, control: &Control) {
        if !ack.window_full || !self.reaches_bound(control) {
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
