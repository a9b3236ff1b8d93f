//! BBR version 3: BBR that believes losses, probes for more only now and then, and leaves headroom.
//!
//! Law: bw = min(max_bw, bw_lo), w = gain·bw·min_rtt within inflight_hi and inflight_lo; a lossy round (over 2 %)
//! while probing sets inflight_hi, losses otherwise lower bw_lo and inflight_lo to 0.7 of themselves; probing
//! every 2 to 3 s: DOWN 0.9, CRUISE 1, REFILL 1, UP 1.25; every 5 s half a window for 200 ms.
//! Source: draft-ietf-ccwg-bbr, as of August 2026, sections 4 and 5 of the algorithm; gains as printed there.
//!
//! Differs from the source:
//! - A round's losses are judged against the flight before the ACK, where the draft keeps the flight at each
//!   packet's sending; ACKs that report losses stand for discontiguous loss ranges.
//! - Rates are of payload.
//!
//! Live twin: none in mainline kernels; Google's `bbr` v3 branch.
//!
//! All of the state is boxed, as in `bbr`.
//!
//! Cost: five times NewReno's an ACK, for the reasons given for `bbr`.

#[cfg(test)]
mod tests;

use super::parts::clock::span_us;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

/// Gains in per cent: pacing and window of each state.
const STARTUP: (u64, u64) = (277, 200);
const DRAIN: (u64, u64) = (50, 200);
const DOWN: (u64, u64) = (90, 200);
const CRUISE: (u64, u64) = (100, 200);
const REFILL: (u64, u64) = (100, 200);
const UP: (u64, u64) = (125, 225);
const PROBE_RTT: (u64, u64) = (100, 50);
/// Segments in flight at least.
const MIN_PIPE: u64 = 4;
/// Startup is full without a quarter more for three rounds.
const FULL_GROWTH_PERCENT: u64 = 125;
const FULL_ROUNDS: u8 = 3;
/// Or with this many lossy ACKs in a round above the loss threshold.
const FULL_LOSSES: u32 = 6;
/// Rounds the aggregation filter remembers, in two halves.
const EXTRA_ROUNDS: u8 = 5;
/// Probing waits for at most this many rounds: a Reno flow of that window would have grown by as much.
const RENO_ROUNDS: u64 = 63;
/// No bound.
const UNBOUNDED: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// What the ACKs now arriving tell about a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acks {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// BBRv3's memory.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    state: Box<State>,
}

#[derive(Clone, Debug)]
struct State {
    mode: Mode,
    acks: Acks,
    previous: Phase,
    full: bool,
    full_now: bool,
    full_rounds: u8,
    idle_restart: bool,
    packet_conservation: bool,
    probe_samples: bool,
    probe_rtt_round_done: bool,
    round_start: bool,
    loss_round_start: bool,
    loss_in_round: bool,
    /// Lossy ACKs and lost bytes of the current loss round.
    lossy_acks: u32,
    lost_bytes: Bytes,
    next_round: Bytes,
    loss_round: Bytes,
    full_bandwidth: u64,
    /// Largest rate of this probing cycle and of the last.
    bandwidth: [u64; 2],
    bw_latest: u64,
    bw_lo: u64,
    inflight_latest: Bytes,
    inflight_hi: Bytes,
    inflight_lo: Bytes,
    up_rounds: u32,
    up_acked: Bytes,
    up_price: Bytes,
    rounds_since_probe: u64,
    probe_wait: Duration,
    cycle_at: Time,
    rtt_us: u32,
    rtt_at: Time,
    probe_rtt_us: u32,
    probe_rtt_at: Time,
    probe_rtt_until: Option<Time>,
    prior_window: Bytes,
    extra: [Bytes; 2],
    extra_rounds: u8,
    epoch_at: Time,
    epoch_acked: Bytes,
    beta_percent: u64,
    headroom_percent: u64,
    loss_ppm: u64,
    rtt_window: Duration,
    probe_rtt_interval: Duration,
    stream: Stream,
}

impl Registered for Bbr3 {
    const CARD: Card = Card {
        name: "bbr3",
        title: "BBR v3",
        law: "bw = min(max_bw, bw_lo), w = gain bw min_rtt within inflight_hi and inflight_lo; over 2 % loss ends a \
              probe, loss otherwise keeps 0.7; gains 0.9, 1, 1, 1.25",
        source: "draft-ietf-ccwg-bbr (snapshot of August 2026)",
        differs: &[
            "a round's losses against the flight before the ACK, not at each packet's sending",
            "lossy ACKs stand for loss ranges",
        ],
        live_twin: None,
        params: &[
            ParamSpec::number("beta", "", 0.7, (0.1, 0.99), "Share kept of the short-term bounds at loss."),
            ParamSpec::number(
                "headroom",
                "",
                0.15,
                (0.0, 0.9),
                "Share of inflight_hi left free while cruising.",
            ),
            ParamSpec::number(
                "loss_threshold",
                "",
                0.02,
                (0.0001, 0.5),
                "Loss that means too much in flight.",
            ),
            ParamSpec::number("rtt_window", "s", 10.0, (0.5, 1_000.0), "How long min_rtt is believed."),
            ParamSpec::number(
                "probe_rtt_interval",
                "s",
                5.0,
                (0.5, 1_000.0),
                "How often min_rtt is probed for.",
            ),
        ],
    };

    const COST: &'static str =
        "as bbr: each ACK is a sample of the path, and window and pacing follow from it in 128 bits";

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let state = State {
            mode: Mode::Startup,
            acks: Acks::Init,
            previous: Phase::Open,
            full: false,
            full_now: false,
            full_rounds: 0,
            idle_restart: false,
            packet_conservation: false,
            probe_samples: false,
            probe_rtt_round_done: false,
            round_start: false,
            loss_round_start: false,
            loss_in_round: false,
            lossy_acks: 0,
            lost_bytes: 0,
            next_round: 0,
            loss_round: 0,
            full_bandwidth: 0,
            bandwidth: [0; 2],
            bw_latest: 0,
            bw_lo: UNBOUNDED,
            inflight_latest: 0,
            inflight_hi: UNBOUNDED,
            inflight_lo: UNBOUNDED,
            up_rounds: 0,
            up_acked: 0,
            up_price: UNBOUNDED,
            rounds_since_probe: 0,
            probe_wait: Duration::from_secs(2),
            cycle_at: Time::ZERO,
            rtt_us: u32::MAX,
            rtt_at: Time::ZERO,
            probe_rtt_us: u32::MAX,
            probe_rtt_at: Time::ZERO,
            probe_rtt_until: None,
            prior_window: 0,
            extra: [0; 2],
            extra_rounds: 0,
            epoch_at: Time::ZERO,
            epoch_acked: 0,
            beta_percent: (given.number("beta") * 100.0 + 0.5) as u64,
            headroom_percent: (given.number("headroom") * 100.0 + 0.5) as u64,
            loss_ppm: (given.number("loss_threshold") * 1e6 + 0.5) as u64,
            rtt_window: Duration::from_secs_f64(given.number("rtt_window")),
            probe_rtt_interval: Duration::from_secs_f64(given.number("probe_rtt_interval")),
            stream: Stream::named(seed, "bbr3"),
        };
        Ok(Bbr3 { state: Box::new(state) })
    }
}

impl CongestionControl for Bbr3 {
    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut Control) {
        let state = &mut *self.state;
        state.rtt_at = now;
        state.probe_rtt_at = now;
        state.cycle_at = now;
        state.epoch_at = now;
        if let Some(srtt) = srtt {
            state.rtt_us = span_us(srtt);
            state.probe_rtt_us = state.rtt_us;
        }
        let rtt = srtt.unwrap_or(Duration::from_ms(1));
        control.pacing = Some(pacing(Rate::from_bytes_over(control.cwnd, rtt).as_bps(), STARTUP.0));
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let state = &mut *self.state;
        let mss = u64::from(control.mss);
        state.measure(ack);
        state.adapt_lower_bounds(control);
        state.measure_aggregation(ack, control);
        state.check_full(ack);
        state.check_startup_and_drain(ack, control);
        state.advance_cycle(ack, control);
        state.measure_rtt(ack, control);
        if state.loss_round_start {
            state.bw_latest = ack.delivery_rate.map_or(0, Rate::as_bps);
            state.inflight_latest = ack.delivered - ack.prior_delivered;
            state.lossy_acks = 0;
            state.lost_bytes = 0;
        }
        state.set_pacing(control);
        state.set_window(ack, control, mss);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let state = &mut *self.state;
        state.save_window(control);
        if congestion.is_timeout() {
            state.previous = Phase::Loss;
            control.cwnd = u64::from(control.mss);
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if change.to == Phase::Loss {
            self.state.previous = Phase::Loss;
        }
    }

    fn on_undo(&mut self, _now: Time, _control: &mut Control) {
        // What was not lost was no evidence: drop the short-term bounds.
        self.state.reset_lower_bounds();
        self.state.reset_full(0);
    }

    fn on_resume(&mut self, resume: &Resume, control: &mut Control) {
        if !resume.app_limited {
            return;
        }
        let now = resume.now;
        let state = &mut *self.state;
        state.idle_restart = true;
        state.epoch_at = now;
        state.epoch_acked = 0;
        if state.is_probe_bw() {
            control.pacing = Some(pacing(state.estimate(), 100));
        }
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        let bound = |bound: u64| if bound == UNBOUNDED { f64::NAN } else { bound as f64 };
        out.push(("bandwidth_bps", self.state.estimate() as f64));
        out.push(("rtt_min_s", f64::from(self.state.rtt_us) / 1e6));
        out.push(("mode", f64::from(self.state.mode as u8)));
        out.push(("inflight_hi", bound(self.state.inflight_hi)));
        out.push(("inflight_lo", bound(self.state.inflight_lo)));
    }
}

impl State {
    fn max_bandwidth(&self) -> u64 {
        self.bandwidth[0].max(self.bandwidth[1])
    }
    fn estimate(&self) -> u64 {
        self.max_bandwidth().min(self.bw_lo)
    }
    fn is_probe_bw(&self) -> bool {
        matches!(self.mode, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }
    fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up)
    }
    fn gains(&self) -> (u64, u64) {
        match self.mode {
            Mode::Startup => STARTUP,
            Mode::Drain => DRAIN,
            Mode::Down => DOWN,
            Mode::Cruise => CRUISE,
            Mode::Refill => REFILL,
            Mode::Up => UP,
            Mode::ProbeRtt => PROBE_RTT,
        }
    }

    /// Rounds, delivery signals, bandwidth, losses.
    fn measure(&mut self, ack: &Ack) {
        self.round_start = false;
        self.loss_round_start = false;
        if ack.lost_segments > 0 {
            self.loss_in_round = true;
            self.lossy_acks += 1;
            self.lost_bytes += u64::from(ack.lost_segments) * u64::from(ack.mss);
        }
        let Some(rate) = ack.delivery_rate else { return };
        if ack.prior_delivered >= self.next_round {
            self.begin_round(ack);
            self.round_start = true;
            self.rounds_since_probe += 1;
            self.packet_conservation = false;
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

    fn begin_round(&mut self, ack: &Ack) {
        self.next_round = ack.delivered;
    }

    /// Once a round: losses outside a probe lower the short-term bounds.
    fn adapt_lower_bounds(&mut self, control: &Control) {
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

    fn reset_lower_bounds(&mut self) {
        self.bw_lo = UNBOUNDED;
        self.inflight_lo = UNBOUNDED;
    }

    fn measure_aggregation(&mut self, ack: &Ack, control: &Control) {
        if ack.delivered_segments == 0 || ack.delivery_rate.is_none() {
            return;
        }
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= EXTRA_ROUNDS {
                self.extra_rounds = 0;
                self.extra = [0, self.extra[0]];
            }
        }
        let acked = u64::from(ack.delivered_segments) * u64::from(control.mss);
        let mut expected = Rate::from_bps(self.estimate()).bytes_in(ack.now.since(self.epoch_at));
        if self.epoch_acked <= expected {
            self.epoch_acked = 0;
            self.epoch_at = ack.now;
            expected = 0;
        }
        self.epoch_acked += acked;
        self.extra[0] =
            self.extra[0].max((self.epoch_acked - expected.min(self.epoch_acked)).min(control.cwnd));
    }

    fn reset_full(&mut self, bandwidth: u64) {
        self.full_bandwidth = bandwidth;
        self.full_rounds = 0;
        self.full_now = false;
    }

    fn check_full(&mut self, ack: &Ack) {
        let Some(rate) = ack.delivery_rate else { return };
        if self.full_now || ack.app_limited {
            return;
        }
        if rate.as_bps() >= self.full_bandwidth * FULL_GROWTH_PERCENT / 100 {
            self.reset_full(rate.as_bps());
            return;
        }
        if self.round_start {
            self.full_rounds += 1;
            self.full_now = self.full_rounds >= FULL_ROUNDS;
            self.full |= self.full_now;
        }
    }

    fn check_startup_and_drain(&mut self, ack: &Ack, control: &Control) {
        if self.mode == Mode::Startup {
            let lossy = self.lossy_acks >= FULL_LOSSES && self.is_too_high(ack);
            if lossy && ack.phase == Phase::Recovery && self.round_start {
                self.full = true;
                self.inflight_hi = self.bdp(100, control.mss).max(self.inflight_latest);
            }
            if self.full {
                self.mode = Mode::Drain;
            }
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.inflight(100, control.mss) {
            self.begin_down(ack);
        }
    }

    fn is_too_high(&self, ack: &Ack) -> bool {
        u128::from(self.lost_bytes) * 1_000_000 > u128::from(ack.prior_in_flight) * u128::from(self.loss_ppm)
    }

    fn begin_down(&mut self, ack: &Ack) {
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

    fn begin_up(&mut self, ack: &Ack, control: &Control) {
        self.mode = Mode::Up;
        self.acks = Acks::ProbeStarting;
        self.probe_samples = true;
        self.reset_full(ack.delivery_rate.map_or(0, Rate::as_bps));
        self.cycle_at = ack.now;
        self.begin_round(ack);
        self.raise_slope(control);
    }

    fn advance_cycle(&mut self, ack: &Ack, control: &Control) {
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
                    self.reset_full(ack.delivery_rate.map_or(0, Rate::as_bps));
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

    fn measure_rtt(&mut self, ack: &Ack, control: &mut Control) {
        let probe_expired = ack.now.since(self.probe_rtt_at) > self.probe_rtt_interval;
        if let Some(rtt) = ack.rtt {
            let rtt_us = span_us(rtt);
            if rtt_us < self.probe_rtt_us || probe_expired {
                self.probe_rtt_us = rtt_us;
                self.probe_rtt_at = ack.now;
            }
            if self.probe_rtt_us < self.rtt_us || ack.now.since(self.rtt_at) > self.rtt_window {
                self.rtt_us = self.probe_rtt_us;
                self.rtt_at = self.probe_rtt_at;
            }
        }
        if self.mode != Mode::ProbeRtt && probe_expired && !self.idle_restart {
            self.save_window(control);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_until = None;
            self.acks = Acks::ProbeStopping;
            self.begin_round(ack);
        }
        if self.mode == Mode::ProbeRtt {
            self.handle_probe_rtt(ack, control);
        }
        if ack.delivered_segments > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, ack: &Ack, control: &mut Control) {
        match self.probe_rtt_until {
            None if ack.in_flight <= self.probe_rtt_window(control.mss) => {
                self.probe_rtt_until = Some(ack.now + Duration::from_ms(200));
                self.probe_rtt_round_done = false;
                self.begin_round(ack);
            }
            None => {}
            Some(until) => {
                self.probe_rtt_round_done |= self.round_start;
                if !self.probe_rtt_round_done || ack.now <= until {
                    return;
                }
                self.probe_rtt_at = ack.now;
                control.cwnd = control.cwnd.max(self.prior_window);
                self.reset_lower_bounds();
                if self.full {
                    self.begin_down(ack);
                    self.mode = Mode::Cruise;
                } else {
                    self.mode = Mode::Startup;
                }
            }
        }
    }

    fn probe_rtt_window(&self, mss: u32) -> Bytes {
        self.bdp(PROBE_RTT.1, mss).max(MIN_PIPE * u64::from(mss))
    }

    /// inflight_hi less the headroom left to others.
    fn with_headroom(&self, mss: u32) -> Bytes {
        if self.inflight_hi == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = (self.inflight_hi * self.headroom_percent / 100).max(u64::from(mss));
        self.inflight_hi.saturating_sub(headroom).max(MIN_PIPE * u64::from(mss))
    }

    /// bw·min_rtt times gain.
    fn bdp(&self, gain_percent: u64, mss: u32) -> Bytes {
        if self.rtt_us == u32::MAX {
            return 10 * u64::from(mss);
        }
        let bits = u128::from(self.estimate()) * u128::from(self.rtt_us) * u128::from(gain_percent);
        (bits / 800_000_000) as u64
    }

    /// What may be in flight at this gain: room for three bursts, and two segments more while probing.
    fn inflight(&self, gain_percent: u64, mss: u32) -> Bytes {
        let burst = (self.estimate() / 8 / 1_000).clamp(2 * u64::from(mss), 65_536);
        let least = (3 * burst).max(MIN_PIPE * u64::from(mss));
        let inflight = self.bdp(gain_percent, mss).max(least);
        if self.mode == Mode::Up { inflight + 2 * u64::from(mss) } else { inflight }
    }

    fn set_pacing(&self, control: &mut Control) {
        let rate = pacing(self.estimate(), self.gains().0);
        if self.full || control.pacing.is_none_or(|current| rate > current) {
            control.pacing = Some(rate);
        }
    }

    fn set_window(&mut self, ack: &Ack, control: &mut Control, mss: u64) {
        let acked = u64::from(ack.delivered_segments) * mss;
        let mut window = control.cwnd;
        if acked > 0 && !self.recovers(ack, acked, &mut window, mss) {
            let most = self.inflight(self.gains().1, control.mss) + self.extra[0].max(self.extra[1]);
            if self.full {
                window = (window + acked).min(most);
            } else if window < most || ack.delivered < 10 * mss {
                window += acked;
            }
            window = window.max(MIN_PIPE * mss);
        }
        if self.mode == Mode::ProbeRtt {
            window = window.min(self.probe_rtt_window(control.mss));
        }
        let bound = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.inflight_hi,
            Mode::Cruise | Mode::ProbeRtt => self.with_headroom(control.mss),
            Mode::Startup | Mode::Drain => UNBOUNDED,
        };
        let bound = bound.min(self.inflight_lo).max(MIN_PIPE * mss);
        // Whole segments, at least one.
        control.cwnd = (window.min(bound) / mss).max(1) * mss;
    }

    /// The first round of recovery conserves packets; afterwards the old window returns.
    fn recovers(&mut self, ack: &Ack, acked: Bytes, window: &mut Bytes, mss: u64) -> bool {
        *window = window.saturating_sub(u64::from(ack.lost_segments) * mss).max(mss);
        if ack.phase == Phase::Recovery && self.previous != Phase::Recovery {
            self.packet_conservation = true;
            self.begin_round(ack);
            *window = ack.in_flight + acked;
        } else if self.previous >= Phase::Recovery && ack.phase < Phase::Recovery {
            self.packet_conservation = false;
            *window = (*window).max(self.prior_window);
        }
        self.previous = ack.phase;
        if self.packet_conservation {
            *window = (*window).max(ack.in_flight + acked);
        }
        self.packet_conservation
    }

    fn save_window(&mut self, control: &Control) {
        let is_clean = self.previous < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if is_clean { control.cwnd } else { self.prior_window.max(control.cwnd) };
    }
}

/// gain·estimate less 1 %; never nothing.
fn pacing(estimate_bps: u64, gain_percent: u64) -> Rate {
    let bps = u128::from(estimate_bps) * u128::from(gain_percent) * 99 / 10_000;
    Rate::from_bps((bps as u64).max(1_000))
}
