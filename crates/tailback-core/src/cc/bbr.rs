//! BBR version 1: sends at the measured bottleneck rate, with at most twice the BDP in flight.
//!
//! All state is boxed: a BBR flow keeps more state than an ACK-clocked one, and reads most of it at each ACK.

#[cfg(test)]
mod tests;

use super::parts::clock::span_us;
use super::parts::maximum::WindowedMax;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume};
use crate::params::{Card, Checked, ParamSpec, ms, s};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "bbr",
    title: "BBR v1",
    law: "BtlBw = largest delivery rate of 10 rounds, RTprop = smallest RTT of 10 s; pacing = gain·BtlBw, w = \
          gain·BtlBw·RTprop. Gains: 2.89 in Startup, 0.34 in Drain, then 1.25, 0.75 and six times 1 in turn. \
          Every 10 s w = 4 for 200 ms",
    source: "Cardwell, Cheng, Gunn, Yeganeh and Jacobson, ACM Queue 14(5), 2016; Linux `tcp_bbr` (6.1)",
    differs: &[
        "Rates are in bits per second of payload where the kernel counts packets. It is the same for full \
              segments. The kernel counts a smaller write as a full segment, so that its rate and its pacing \
              are higher by the segment's size over the payload's",
        "The ten seconds and the fifth of one are exact; the kernel counts them in ticks, a probe lasts up to \
              two more",
    ],
    live_twin: Some("linux:bbr"),
    params: &[
        ParamSpec::number("window_gain", "", 2.0, (1.0, 10.0), "Window in empty-path windows."),
        ParamSpec::time("rtt_window", s(10), (ms(500), s(1000)), "How long RTprop is believed.").in_seconds(),
        ParamSpec::time("probe_rtt", ms(200), (ms(1), s(10)), "How long RTprop is probed for."),
        ParamSpec::flag("policer_detection", true, "Recognise token-bucket policers."),
    ],
};

/// Gains are in 1/256.
const ONE: u64 = 256;
/// 2/ln 2.
const HIGH_GAIN: u64 = 739;
/// Inverse of `HIGH_GAIN`.
const DRAIN_GAIN: u64 = 88;
/// ProbeBW's gains: one round trip above, one below, six at the estimate.
const CYCLE: [u64; 8] = [320, 192, ONE, ONE, ONE, ONE, ONE, ONE];
/// Length of the bandwidth filter in rounds.
const BW_ROUNDS: u32 = 10;
/// Minimum cwnd in segments.
const MIN_WINDOW: u64 = 4;
/// Startup ends when the rate has not grown by a quarter for three rounds.
const FULL_GROWTH: u64 = 320;
const FULL_ROUNDS: u8 = 3;
/// Pacing stays 1 % below the estimate.
const PACING_MARGIN: u64 = 99;
/// ACK aggregation: rounds per slot of the filter, and the limit on a burst.
const EXTRA_ROUNDS: u8 = 5;
const EXTRA_LIMIT_US: u64 = 100_000;
/// Policer detection: minimum and maximum length of an interval in rounds, and how many rounds the result is used.
const POLICER_ROUNDS: (u32, u32) = (4, 16);
const POLICER_HOLD: u32 = 48;
/// An interval is lossy above a ratio of 50/256. Two rates agree if they differ by at most 1/8 or 4 kbit/s.
const POLICER_LOSS: u64 = 50;
const POLICER_DIFFERENCE_BPS: u64 = 4_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// BBR's state.
#[derive(Clone, Debug)]
pub struct Bbr {
    state: Box<State>,
}

#[derive(Clone, Debug)]
struct State {
    mode: Mode,
    previous: Phase,
    packet_conservation: bool,
    idle_restart: bool,
    has_seen_rtt: bool,
    round_start: bool,
    probe_rtt_round_done: bool,
    full: bool,
    full_rounds: u8,
    cycle: u8,
    pacing_gain: u64,
    window_gain: u64,
    bandwidth: WindowedMax,
    rounds: u32,
    next_round: Bytes,
    full_bandwidth: u64,
    /// Zero until the first sample.
    rtt_us: u32,
    rtt_at: Time,
    probe_rtt_us: u64,
    rtt_window: Duration,
    probe_rtt_until: Option<Time>,
    cycle_at: Time,
    prior_window: u64,
    extra: [u64; 2],
    extra_slot: usize,
    extra_rounds: u8,
    epoch_at: Time,
    epoch_acked: u64,
    policer: Policer,
    stream: Stream,
}

/// Long-term sampling: detects a token bucket, which passes bursts and then drops.
#[derive(Clone, Copy, Debug, Default)]
struct Policer {
    enabled: bool,
    sampling: bool,
    in_use: bool,
    rounds: u32,
    bandwidth: u64,
    delivered: Bytes,
    lost: Bytes,
    at: Time,
}

/// Totals of the connection at the time of its latest delivery.
#[derive(Clone, Copy, Debug)]
struct Totals {
    at: Time,
    delivered: Bytes,
    lost: Bytes,
}

impl Registered for Bbr {
    const CARD: Card = CARD;

    const COST: &'static str = "each ACK is a sample of the path; window and pacing follow from products and quotients of 128 bits, which no rate or RTT overflows";

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let state = State {
            mode: Mode::Startup,
            previous: Phase::Open,
            packet_conservation: false,
            idle_restart: false,
            has_seen_rtt: false,
            round_start: false,
            probe_rtt_round_done: false,
            full: false,
            full_rounds: 0,
            cycle: 0,
            pacing_gain: HIGH_GAIN,
            window_gain: (given.number("window_gain") * ONE as f64) as u64,
            bandwidth: WindowedMax::default(),
            rounds: 0,
            next_round: 0,
            full_bandwidth: 0,
            rtt_us: 0,
            rtt_at: Time::ZERO,
            probe_rtt_us: given.time("probe_rtt").as_us(),
            rtt_window: given.time("rtt_window"),
            probe_rtt_until: None,
            cycle_at: Time::ZERO,
            prior_window: 0,
            extra: [0; 2],
            extra_slot: 0,
            extra_rounds: 0,
            epoch_at: Time::ZERO,
            epoch_acked: 0,
            policer: Policer { enabled: given.flag("policer_detection"), ..Policer::default() },
            stream: Stream::named(seed, "bbr"),
        };
        Ok(Bbr { state: Box::new(state) })
    }
}

impl CongestionControl for Bbr {
    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut Control) {
        let state = &mut *self.state;
        state.rtt_at = now;
        state.cycle_at = now;
        state.epoch_at = now;
        if let Some(srtt) = srtt {
            state.rtt_us = span_us(srtt);
            state.has_seen_rtt = true;
        }
        // Before any sample: the initial window per handshake RTT, or per millisecond.
        let rtt = srtt.unwrap_or(Duration::from_ms(1));
        control.pacing = Some(pacing(Rate::from_bytes_over(control.cwnd, rtt).as_bps(), HIGH_GAIN));
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let state = &mut *self.state;
        state.measure_bandwidth(ack);
        state.measure_aggregation(ack, control);
        state.advance_cycle(ack, control);
        state.check_full(ack);
        state.check_drain(ack, control);
        state.measure_rtt(ack, control);
        let window_gain = state.set_gains();
        state.set_pacing(ack, control);
        state.set_window(window_gain, ack, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.state.save_window(control);
        if congestion.is_timeout() {
            self.state.previous = Phase::Loss;
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if change.to == Phase::Loss {
            let state = &mut *self.state;
            state.previous = Phase::Loss;
            state.full_bandwidth = 0;
            state.round_start = true;
            // A timeout counts as a loss, and may begin or end an interval.
            let PhaseChange { delivered, delivered_at, lost, .. } = *change;
            state.sample_policer(1, false, Totals { at: delivered_at, delivered, lost });
        }
    }

    fn on_undo(&mut self, _now: Time, _control: &mut Control) {
        let state = &mut *self.state;
        state.full_bandwidth = 0;
        state.full_rounds = 0;
        state.policer.reset();
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
        match state.mode {
            // After a pause, pacing restarts at the estimate, without a burst.
            Mode::ProbeBw => control.pacing = Some(pacing(state.estimate(), ONE)),
            // The pause itself was the RTT probe.
            Mode::ProbeRtt => state.end_probe_rtt(now, control),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("bandwidth_bps", self.state.estimate() as f64));
        out.push(("rtt_min_s", f64::from(self.state.rtt_us) / 1e6));
        out.push(("mode", f64::from(self.state.mode as u8)));
        out.push(("pacing_gain", self.state.pacing_gain as f64 / ONE as f64));
    }
}

impl State {
    fn estimate(&self) -> u64 {
        if self.policer.in_use { self.policer.bandwidth } else { self.bandwidth.get() }
    }

    fn measure_bandwidth(&mut self, ack: &Ack) {
        self.round_start = false;
        let Some(rate) = ack.delivery_rate() else { return };
        if ack.prior_delivered >= self.next_round {
            self.next_round = ack.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        let totals = Totals { at: ack.now, delivered: ack.delivered, lost: ack.lost };
        self.sample_policer(ack.lost_segments, ack.app_limited, totals);
        let bps = rate.as_bps();
        if !ack.app_limited || bps >= self.bandwidth.get() {
            self.bandwidth.update(BW_ROUNDS, self.rounds, bps);
        }
    }

    fn sample_policer(&mut self, losses: u32, app_limited: bool, totals: Totals) {
        let policer = &mut self.policer;
        if !policer.enabled {
            return;
        }
        if policer.in_use {
            if self.mode == Mode::ProbeBw && self.round_start {
                policer.rounds += 1;
                if policer.rounds >= POLICER_HOLD {
                    policer.reset();
                    self.begin_probe_bw(totals.at);
                }
            }
            return;
        }
        if !policer.sampling {
            if losses == 0 {
                return;
            }
            policer.begin(totals);
            policer.sampling = true;
        }
        if app_limited {
            policer.reset();
            return;
        }
        policer.rounds += u32::from(self.round_start);
        if policer.rounds < POLICER_ROUNDS.0 {
            return;
        }
        if policer.rounds > POLICER_ROUNDS.1 {
            policer.reset();
            return;
        }
        let delivered = totals.delivered - policer.delivered;
        let lost = totals.lost - policer.lost;
        if losses == 0 || delivered == 0 || lost * 256 < POLICER_LOSS * delivered {
            return;
        }
        let span = totals.at.since(policer.at);
        if span.as_ms() == 0 {
            return;
        }
        let bandwidth = Rate::from_bytes_over(delivered, span).as_bps();
        let difference = bandwidth.abs_diff(policer.bandwidth);
        let agrees = difference * 8 <= policer.bandwidth || difference <= POLICER_DIFFERENCE_BPS;
        if policer.bandwidth > 0 && agrees {
            policer.bandwidth = (bandwidth + policer.bandwidth) / 2;
            policer.in_use = true;
            policer.rounds = 0;
            return;
        }
        policer.bandwidth = bandwidth;
        policer.begin(totals);
    }

    /// Measures ACK aggregation: by how much an ACK delivers more than expected, which the window must cover.
    fn measure_aggregation(&mut self, ack: &Ack, control: &Control) {
        if ack.delivered_segments == 0 || ack.delivery.is_none() {
            return;
        }
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= EXTRA_ROUNDS {
                self.extra_rounds = 0;
                self.extra_slot = 1 - self.extra_slot;
                self.extra[self.extra_slot] = 0;
            }
        }
        let mss = u64::from(control.mss);
        let acked = u64::from(ack.delivered_segments);
        let mut expected = Rate::from_bps(self.estimate()).bytes_in(ack.now.since(self.epoch_at)) / mss;
        if self.epoch_acked <= expected || self.epoch_acked + acked >= 1 << 20 {
            self.epoch_acked = 0;
            self.epoch_at = ack.now;
            expected = 0;
        }
        self.epoch_acked += acked;
        let extra = (self.epoch_acked - expected.min(self.epoch_acked)).min(control.cwnd_segments());
        self.extra[self.extra_slot] = self.extra[self.extra_slot].max(extra);
    }

    fn advance_cycle(&mut self, ack: &Ack, control: &Control) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let gain = if self.policer.in_use { ONE } else { CYCLE[usize::from(self.cycle)] };
        let is_long = ack.now.since(self.cycle_at).as_us() > u64::from(self.rtt_us);
        let in_flight = self.in_network(ack.prior_in_flight, ack, control);
        let is_over = if gain > ONE {
            is_long && (ack.lost_segments > 0 || in_flight >= self.inflight(gain, control))
        } else if gain < ONE {
            is_long || in_flight <= self.inflight(ONE, control)
        } else {
            is_long
        };
        if is_over {
            self.cycle = (self.cycle + 1) % CYCLE.len() as u8;
            self.cycle_at = ack.now;
        }
    }

    /// Segments in the network when the next segment departs: those delivered until then have left, and with a gain
    /// above one the next burst counts. Linux `bbr_packets_in_net_at_edt`.
    fn in_network(&self, in_flight: Bytes, ack: &Ack, control: &Control) -> u64 {
        let mss = u64::from(control.mss);
        let pacing_bps = control.pacing.map_or(0, Rate::as_bps);
        let next = if self.pacing_gain > ONE { burst_segments(pacing_bps, control.mss) } else { 0 };
        let wait = Duration::from_us(ack.departs.since(ack.now).as_us());
        let delivered = Rate::from_bps(self.estimate()).bytes_in(wait) / mss;
        (in_flight / mss + next).saturating_sub(delivered)
    }

    fn check_full(&mut self, ack: &Ack) {
        if self.full || !self.round_start || ack.app_limited {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth >= self.full_bandwidth * FULL_GROWTH / ONE {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, ack: &Ack, control: &mut Control) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            control.ssthresh = self.inflight(ONE, control).max(2) * u64::from(control.mss);
        }
        let in_flight = self.in_network(ack.in_flight, ack, control);
        if self.mode == Mode::Drain && in_flight <= self.inflight(ONE, control) {
            self.begin_probe_bw(ack.now);
        }
    }

    fn begin_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        // Any phase but the one with a gain below 1.
        let drawn = 7 - self.stream.below(7) as u8;
        self.cycle = (drawn + 1) % CYCLE.len() as u8;
        self.cycle_at = now;
    }

    fn measure_rtt(&mut self, ack: &Ack, control: &mut Control) {
        let expired = ack.now.since(self.rtt_at) > self.rtt_window;
        if let Some(rtt) = ack.rtt {
            let rtt_us = span_us(rtt);
            if self.rtt_us == 0 || rtt_us < self.rtt_us || expired && !ack.is_delayed {
                self.rtt_us = rtt_us;
                self.rtt_at = ack.now;
            }
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(control);
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            // The delivery rate of four segments per round trip does not measure the path.
            control.self_limited = true;
            match self.probe_rtt_until {
                None if ack.in_flight <= MIN_WINDOW * u64::from(control.mss) => {
                    self.probe_rtt_until = Some(ack.now + Duration::from_us(self.probe_rtt_us));
                    self.probe_rtt_round_done = false;
                    self.next_round = ack.delivered;
                }
                None => {}
                Some(_) => {
                    self.probe_rtt_round_done |= self.round_start;
                    if self.probe_rtt_round_done {
                        self.end_probe_rtt(ack.now, control);
                    }
                }
            }
        }
        if ack.delivered_segments > 0 {
            self.idle_restart = false;
        }
    }

    /// Ends ProbeRTT if its time is over.
    fn end_probe_rtt(&mut self, now: Time, control: &mut Control) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.rtt_at = now;
        control.cwnd = control.cwnd.max(self.prior_window * u64::from(control.mss));
        if self.full {
            self.begin_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Sets the mode's pacing gain; returns its window gain.
    fn set_gains(&mut self) -> u64 {
        let (pacing, window) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.in_use => (ONE, self.window_gain),
            Mode::ProbeBw => (CYCLE[usize::from(self.cycle)], self.window_gain),
            Mode::ProbeRtt => (ONE, ONE),
        };
        self.pacing_gain = pacing;
        window
    }

    fn set_pacing(&mut self, ack: &Ack, control: &mut Control) {
        if !self.has_seen_rtt && !ack.srtt.is_zero() {
            self.has_seen_rtt = true;
            control.pacing = Some(pacing(Rate::from_bytes_over(control.cwnd, ack.srtt).as_bps(), HIGH_GAIN));
        }
        let rate = pacing(self.estimate(), self.pacing_gain);
        // Until the pipe is full, a lower sample does not reduce Startup's rate.
        if self.full || control.pacing.is_none_or(|current| rate > current) {
            control.pacing = Some(rate);
        }
    }

    /// BDP times gain, in segments, rounded up.
    fn bdp(&self, gain: u64, mss: u32) -> u64 {
        if self.rtt_us == 0 {
            // No RTT sample yet: the kernel's initial window.
            return 10;
        }
        let bits = u128::from(self.estimate()) * u128::from(self.rtt_us) * u128::from(gain);
        bits.div_ceil(8 * 1_000_000 * u128::from(ONE) * u128::from(mss)) as u64
    }

    /// Adds three bursts, rounds up to an even number, and adds two segments while probing.
    fn budget(&self, window: u64, pacing_bps: u64, mss: u32) -> u64 {
        let window = window + 3 * burst_segments(pacing_bps, mss);
        let window = window.next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle == 0 { window + 2 } else { window }
    }

    /// Inflight limit for this gain, with bursts at the current pacing rate.
    fn inflight(&self, gain: u64, control: &Control) -> u64 {
        let pacing_bps = control.pacing.map_or(0, Rate::as_bps);
        self.budget(self.bdp(gain, control.mss), pacing_bps, control.mss)
    }

    fn set_window(&mut self, gain: u64, ack: &Ack, control: &mut Control) {
        let mss = u64::from(control.mss);
        let acked = u64::from(ack.delivered_segments);
        let mut window = control.cwnd_segments();
        if acked > 0 {
            let conserves = self.recover_or_restore(ack, acked, &mut window, mss);
            if !conserves {
                let mut target = self.bdp(gain, control.mss);
                if self.full {
                    let most = Rate::from_bps(self.estimate()).bytes_in(Duration::from_us(EXTRA_LIMIT_US));
                    target += self.extra[0].max(self.extra[1]).min(most / mss);
                }
                let pacing_bps = control.pacing.map_or(0, Rate::as_bps);
                target = self.budget(target, pacing_bps, control.mss);
                if self.full {
                    window = (window + acked).min(target);
                } else if window < target || ack.delivered < 10 * mss {
                    window += acked;
                }
                window = window.max(MIN_WINDOW);
            }
        }
        if self.mode == Mode::ProbeRtt {
            window = window.min(MIN_WINDOW);
        }
        control.cwnd = window.max(1) * mss;
    }

    /// In the first round of recovery, one segment is sent per delivered segment; afterwards the old window is
    /// restored.
    fn recover_or_restore(&mut self, ack: &Ack, acked: u64, window: &mut u64, mss: u64) -> bool {
        let in_flight = ack.in_flight.div_ceil(mss);
        *window = window.saturating_sub(u64::from(ack.lost_segments)).max(1);
        if ack.phase == Phase::Recovery && self.previous != Phase::Recovery {
            self.packet_conservation = true;
            self.next_round = ack.delivered;
            *window = in_flight + acked;
        } else if self.previous >= Phase::Recovery && ack.phase < Phase::Recovery {
            *window = (*window).max(self.prior_window);
            self.packet_conservation = false;
        }
        self.previous = ack.phase;
        if self.packet_conservation {
            *window = (*window).max(in_flight + acked);
        }
        self.packet_conservation
    }

    fn save_window(&mut self, control: &Control) {
        let window = control.cwnd_segments();
        let is_clean = self.previous < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if is_clean { window } else { self.prior_window.max(window) };
    }
}

impl Policer {
    fn reset(&mut self) {
        *self = Policer { enabled: self.enabled, ..Policer::default() };
    }
    fn begin(&mut self, totals: Totals) {
        self.rounds = 0;
        (self.at, self.delivered, self.lost) = (totals.at, totals.delivered, totals.lost);
    }
}

/// Pacing rate: gain·estimate less the margin; never zero.
fn pacing(estimate_bps: u64, gain: u64) -> Rate {
    let bps =
        u128::from(estimate_bps) * u128::from(gain) * u128::from(PACING_MARGIN) / (u128::from(ONE) * 100);
    Rate::from_bps((bps as u64).max(1_000))
}

/// Segments that Linux sends at once at this pacing rate: about a millisecond's worth.
fn burst_segments(pacing_bps: u64, mss: u32) -> u64 {
    const SLOW_BPS: u64 = 1_200_000;
    let least = if pacing_bps < SLOW_BPS { 1 } else { 2 };
    // Linux's limit on a burst: 64 KiB less the room for headers.
    const MOST: u64 = 65_215;
    let bytes = (pacing_bps / 8) >> 10;
    (bytes.min(MOST) / u64::from(mss)).clamp(least, 127)
}
