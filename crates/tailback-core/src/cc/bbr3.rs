//! BBR version 3: BBR that reacts to losses, probes for bandwidth less often, and leaves headroom.
//!
//! All state is boxed, as in `bbr`.
//!
//! Live twin: none in mainline kernels; Google's `bbr` v3 branch.

mod cycle;
mod losses;
mod model;
#[cfg(test)]
mod tests;
mod window;

use losses::{Latest, Sent, Undo};
use window::pacing;

use std::collections::VecDeque;

use super::parts::clock::span_us;
use super::parts::maximum::WindowedMax;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Departure, Fates, Phase, PhaseChange, Resume};
use crate::params::{Card, Checked, ParamSpec, ms, s};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "bbr3",
    title: "BBR v3",
    law: "bw = min(max_bw, bw_lo), w = gain·bw·min_rtt within inflight_hi and inflight_lo. More than 2 % lost \
          of the flight at a packet's sending, while probing, set inflight_hi to that flight. Other losses \
          lower bw_lo and inflight_lo to 0.7 of themselves. Probing every 2 to 3 s: DOWN 0.9, CRUISE 1, REFILL \
          1, UP 1.25, which ends at inflight_hi if the last UP lost too much. Every 5 s half a window for 200 \
          ms",
    source: "draft-ietf-ccwg-bbr-06 (July 2026), sections 4 and 5",
    differs: &[
        "Where the draft and Google's BBR v3 for Linux (the public patch for 6.12) part, the draft is \
              followed. Drain's gain 0.5 (patch 0.35) and at most three rounds of it, DOWN's 0.90 (0.91). The \
              plateau is looked for at round starts only, and aggregation remembered for 10 rounds without a \
              bound of 100 ms",
        "None of the patch's ECN response, of its protective load balancing or of its fast ACKs",
        "Startup's six loss ranges are counted over the round that begins with the first loss, as in the patch, since \
              the draft leaves it open",
        "inflight in the test that ends a cautious UP is that before the ACK, as the sender fills the window only \
              after it",
        "What a spurious recovery gives back is saved once, as it begins, as in the patch, and not again at \
              the first loss of each round. After a pause the aggregation begins at nothing, as in the patch",
        "Rates are of payload",
    ],
    live_twin: None,
    params: &[
        ParamSpec::share("beta", 0.7, (0.1, 0.99), "Share kept of the short-term bounds at loss."),
        ParamSpec::share("headroom", 0.15, (0.0, 0.9), "Share of inflight_hi left free while cruising."),
        ParamSpec::share("loss_threshold", 0.02, (0.0001, 0.5), "Loss that means too much in flight."),
        ParamSpec::time("rtt_window", s(10), (ms(500), s(1000)), "How long min_rtt is believed.")
            .in_seconds(),
        ParamSpec::time("probe_rtt_interval", s(5), (ms(500), s(1000)), "How often min_rtt is probed for.")
            .in_seconds(),
    ],
};

/// Gains in per cent: pacing and window of each state.
const STARTUP: (u64, u64) = (277, 200);
const DRAIN: (u64, u64) = (50, 200);
const DOWN: (u64, u64) = (90, 200);
const CRUISE: (u64, u64) = (100, 200);
const REFILL: (u64, u64) = (100, 200);
const UP: (u64, u64) = (125, 225);
const PROBE_RTT: (u64, u64) = (100, 50);
/// Minimum cwnd in segments.
const MIN_PIPE: u64 = 4;
/// Startup ends if the rate grows by less than a quarter for three rounds.
const FULL_GROWTH_PERCENT: u64 = 125;
const FULL_ROUNDS: u8 = 3;
/// Startup also ends if a round exceeds the loss threshold with this many lost ranges.
const FULL_LOSSES: u32 = 6;
/// Length of the aggregation filter in rounds: in Startup, and later.
const EXTRA_ROUNDS: (u32, u32) = (1, 10);
/// Maximum length of Drain in rounds.
const DRAIN_ROUNDS: u32 = 3;
/// Maximum rounds between probes: a Reno flow of that window would have grown by as much.
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

/// State of the ACKs with respect to a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acks {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// BBRv3's state.
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
    has_seen_rtt: bool,
    /// Losses now are of packets sent while probing, and have not been responded to.
    probe_samples: bool,
    /// Whether the last UP lost too much, and whether this one ended early for that reason.
    was_too_high: bool,
    was_cautious: bool,
    probe_rtt_round_done: bool,
    round_start: bool,
    loss_round_start: bool,
    loss_in_round: bool,
    /// Number of ranges lost in the current loss round, and the end of the last one.
    lost_ranges: u32,
    lost_end: u64,
    /// Packets sent and not yet acknowledged, in order of time.
    sent: VecDeque<Sent>,
    /// State at the delivered packet that was sent last.
    latest: Latest,
    undo: Undo,
    is_saved: bool,
    /// Bytes lost and delivered over the connection.
    lost: Bytes,
    delivered: Bytes,
    initial_window: Bytes,
    rounds: u32,
    drain_end: u32,
    next_round: Bytes,
    loss_round: Bytes,
    full_bandwidth: u64,
    /// Maximum rate of this probing cycle and of the previous one.
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
    extra: WindowedMax,
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
    const CARD: Card = CARD;

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
            has_seen_rtt: false,
            probe_samples: false,
            was_too_high: false,
            was_cautious: false,
            probe_rtt_round_done: false,
            round_start: false,
            loss_round_start: false,
            loss_in_round: false,
            lost_ranges: 0,
            lost_end: 0,
            sent: VecDeque::new(),
            latest: Latest::default(),
            undo: Undo::default(),
            is_saved: false,
            lost: 0,
            delivered: 0,
            initial_window: 0,
            rounds: 0,
            drain_end: 0,
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
            extra: WindowedMax::default(),
            epoch_at: Time::ZERO,
            epoch_acked: 0,
            beta_percent: (given.number("beta") * 100.0 + 0.5) as u64,
            headroom_percent: (given.number("headroom") * 100.0 + 0.5) as u64,
            loss_ppm: (given.number("loss_threshold") * 1e6 + 0.5) as u64,
            rtt_window: given.time("rtt_window"),
            probe_rtt_interval: given.time("probe_rtt_interval"),
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
        state.initial_window = control.cwnd;
        if let Some(srtt) = srtt {
            state.rtt_us = span_us(srtt);
            state.probe_rtt_us = state.rtt_us;
            state.has_seen_rtt = true;
        }
        let rtt = srtt.unwrap_or(Duration::from_ms(1));
        control.pacing = Some(pacing(Rate::from_bytes_over(control.cwnd, rtt).as_bps(), STARTUP.0));
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let state = &mut *self.state;
        state.delivered = ack.delivered;
        state.measure(ack);
        state.adapt_lower_bounds(control);
        state.measure_aggregation(ack, control);
        state.check_full(ack);
        state.check_startup_and_drain(ack, control);
        state.advance_cycle(ack, control);
        state.measure_rtt(ack, control);
        if state.loss_round_start {
            state.bw_latest = ack.delivery_rate().map_or(0, Rate::as_bps);
            state.inflight_latest = ack.delivered - ack.prior_delivered;
            state.lost_ranges = 0;
        }
        state.set_pacing(ack, control);
        state.set_window(ack, control);
    }

    fn follows_packets(&self) -> bool {
        true
    }

    fn on_sent(&mut self, departure: &Departure, _control: &mut Control) {
        let state = &mut *self.state;
        state.sent.push_back(Sent {
            at: departure.now,
            end: departure.end,
            in_flight: departure.in_flight,
            lost: state.lost,
            app_limited: departure.app_limited,
        });
    }

    fn on_fates(&mut self, fates: &Fates<'_>, control: &mut Control) {
        let state = &mut *self.state;
        if let Some(ack) = fates.ack {
            state.delivered = ack.delivered;
        }
        for lost in fates.lost {
            state.take_loss(lost, fates.now, control);
        }
        state.look_up(fates.newest);
        while state.sent.front().is_some_and(|packet| packet.end <= fates.snd_una) {
            state.sent.pop_front();
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let state = &mut *self.state;
        state.save(control);
        if congestion.is_timeout() {
            state.previous = Phase::Loss;
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if change.to == Phase::Loss {
            self.state.previous = Phase::Loss;
        }
        self.state.is_saved &= change.to >= Phase::Cwr;
    }

    fn on_undo(&mut self, _now: Time, control: &mut Control) {
        self.state.undo_loss(control);
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
            state.pace(100, control);
        } else if state.mode == Mode::ProbeRtt {
            state.end_probe_rtt(now, control);
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
}
