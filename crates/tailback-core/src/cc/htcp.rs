//! H-TCP: growth accelerates with the time since the last congestion event, and the decrease matches the queue.

#[cfg(test)]
mod tests;

use super::parts::clock::{Ticks, span_us};
use super::parts::decrease::{freebsd_half, landing};
use super::parts::growth::{Fraction, Growth};
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Counting, Phase, PhaseChange};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "htcp",
    title: "H-TCP",
    law: "α(Δ) = 1 for Δ ≤ 1 s, then 1 + 10(Δ − 1) + ((Δ − 1)/2)²; w ← w + α'/w an ACK; w ← β·w on \
          congestion, β = RTTmin/RTTmax within [0.5, 0.8], α' = 2(1 − β)·α",
    source: "Leith and Shorten, PFLDnet 2004; draft-leith-tcp-htcp-06; Linux `tcp_htcp`; FreeBSD `cc_htcp`",
    differs: &[
        "`linux`: 1/128 fixed point, RTTs and Δ in jiffies, α steps by whole numbers and only at increments, \
              at most one segment an ACK, 2(1 − β) also during the first second",
        "`linux-2.6.25`: as `linux`, but every return to Open restarts Δ (fixed in 2.6.28)",
        "`freebsd`: smoothed RTT after 8 samples, whole α, NewReno while α is 1, Δ runs from the start of \
              recovery",
    ],
    live_twin: Some("linux:htcp"),
    params: &[
        ParamSpec::choice(
            "variant",
            &["linux", "linux-2.6.25", "linux-2.6.22", "freebsd", "freebsd-9", "draft"],
            "Arithmetic and defaults; linux-2.6.22 takes the smoothed RTT past slow start only; freebsd is the 2008 patch's intent, freebsd-9 has the maxRTT slip.",
        ),
        ParamSpec::flag("adaptive_backoff", true, "Cut by RTTmin/RTTmax instead of one half.")
            .depends("off for freebsd and freebsd-9, else on"),
        ParamSpec::flag("bandwidth_switch", true, "Cut by half when throughput changed by over 20 %.")
            .depends("off for freebsd and freebsd-9, else on"),
        ParamSpec::flag("rtt_scaling", true, "Scale alpha by RTT/100 ms.")
            .depends("on for the linux variants, else off"),
        ParamSpec::choice(
            "clock_restart",
            &["event", "open", "recovery-start"],
            "What restarts the clock: end of recovery, every return to Open, or start of recovery.",
        )
        .depends(
            "linux and draft event, linux-2.6.25 and linux-2.6.22 open, freebsd and freebsd-9 recovery-start",
        ),
        ParamSpec::flag("maxrtt_slip", false, "FreeBSD 9 divides the whole sum by 100 when RTTmax fades.")
            .depends("on for freebsd-9, else off"),
        ParamSpec::whole("hz", "Hz", 250, (100, 10_000), "Timer ticks a second.")
            .depends("250; 1000 for freebsd, freebsd-9 and draft"),
    ],
};

/// β and α in 1/128 (Linux).
const ONE: u32 = 128;
/// 0.5.
const BETA_MIN: u32 = 64;
/// 0.797, the source's 0.8.
const BETA_MAX: u32 = 102;
/// The same limits in FreeBSD's 1/256.
const FREEBSD_BETA: (u32, u32) = (128, 204);
/// Number of updates from which FreeBSD uses the smoothed RTT.
const FREEBSD_RTT_UPDATES: u8 = 8;
/// Reference RTT of RTT scaling.
const REFERENCE_RTT_US: u32 = 100_000;
/// β differs from 0.5 only above this RTT (Linux), in whole ticks, rounded up as `msecs_to_jiffies` does: 3 at 250 Hz.
const SHORT_RTT: Duration = Duration::from_ms(10);
/// Maximum rise of RTTmax per sample (Linux), rounded likewise.
const RTT_MAX_STEP: Duration = Duration::from_ms(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arithmetic {
    Linux,
    FreeBsd,
    Draft,
}

/// When the epoch Δ restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restart {
    /// At every transition to Open, with or without a congestion event before it.
    Open,
    /// When a congestion event begins, and again on returning to Open.
    Event,
    /// When a congestion event begins.
    RecoveryStart,
}

/// State that an undo restores.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    last_congestion: u32,
    rtt_max: u32,
    old_rate_max: u32,
}

/// H-TCP's state. Spans in ticks under Linux, in microseconds otherwise.
#[derive(Clone, Debug)]
pub struct Htcp {
    arithmetic: Arithmetic,
    restart: Restart,
    adaptive_backoff: bool,
    bandwidth_switch: bool,
    rtt_scaling: bool,
    slip: bool,
    /// Linux 2.6.22: uses the smoothed RTT, and ignores RTTs of slow start.
    is_smoothed: bool,
    /// Whether β may follow the RTTs; set one event after the throughput has settled.
    ratio_mode: bool,
    /// Whether a congestion event has occurred since the last Open.
    pending: bool,
    rtt_updates: u8,
    ticks: Ticks,
    /// Linux: α in 1/128. FreeBSD: α as an integer.
    alpha: u32,
    /// Linux: β in 1/128. FreeBSD and draft: β in 1/256.
    beta: u32,
    /// Time of the last congestion event in ticks.
    last_congestion: u32,
    rtt_min: u32,
    rtt_max: u32,
    undo: Undo,
    /// Segments delivered since the last update of the rate estimate.
    counted: u32,
    counted_since: u32,
    rate: u32,
    rate_max: u32,
    old_rate_max: u32,
    credit: u32,
    /// Linux: segments that the latest ACK in Open covered; 1 once counted.
    covered: u32,
    growth: Growth,
    fraction: Fraction,
}

impl Registered for Htcp {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let variant = given.choice("variant");
        let arithmetic = match variant {
            "freebsd" | "freebsd-9" => Arithmetic::FreeBsd,
            "draft" => Arithmetic::Draft,
            _ => Arithmetic::Linux,
        };
        let is_freebsd = arithmetic == Arithmetic::FreeBsd;
        let is_linux = arithmetic == Arithmetic::Linux;
        let restart = match (given.given_choice("clock_restart"), variant) {
            (Some("open"), _) | (None, "linux-2.6.25" | "linux-2.6.22") => Restart::Open,
            (Some("recovery-start"), _) | (None, "freebsd" | "freebsd-9") => Restart::RecoveryStart,
            _ => Restart::Event,
        };
        let slip = given.given_flag("maxrtt_slip").unwrap_or(variant == "freebsd-9");
        let hz = given.given_whole("hz").unwrap_or(if is_linux { 250 } else { 1000 }) as u32;
        Ok(Htcp {
            arithmetic,
            restart,
            adaptive_backoff: given.given_flag("adaptive_backoff").unwrap_or(!is_freebsd),
            bandwidth_switch: given.given_flag("bandwidth_switch").unwrap_or(!is_freebsd),
            rtt_scaling: given.given_flag("rtt_scaling").unwrap_or(is_linux),
            slip,
            is_smoothed: variant == "linux-2.6.22",
            ratio_mode: false,
            pending: false,
            rtt_updates: 0,
            ticks: Ticks { hz },
            alpha: if is_linux { ONE } else { 1 },
            beta: if is_linux { BETA_MIN } else { FREEBSD_BETA.0 },
            last_congestion: 0,
            rtt_min: 0,
            rtt_max: 0,
            undo: Undo::default(),
            counted: 0,
            counted_since: 0,
            rate: 0,
            rate_max: 0,
            old_rate_max: 0,
            credit: 0,
            covered: 1,
            growth: Growth::default(),
            fraction: Fraction::default(),
        })
    }
}

impl CongestionControl for Htcp {
    fn on_established(&mut self, now: Time, _srtt: Option<Duration>, _control: &mut Control) {
        self.last_congestion = self.ticks.at(now);
        self.counted_since = self.last_congestion;
    }

    fn on_sample(&mut self, ack: &Ack, control: &mut Control) {
        if self.arithmetic != Arithmetic::Linux {
            return;
        }
        if ack.phase == Phase::Open {
            self.covered = ack.newly_acked_segments;
        }
        if !self.is_smoothed {
            self.measure_rtt(ack);
        }
        if self.bandwidth_switch {
            self.measure_rate(ack, ack.newly_acked_segments, control);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let is_linux = self.arithmetic == Arithmetic::Linux;
        if self.is_smoothed || !is_linux {
            self.measure_rtt(ack);
        }
        if self.bandwidth_switch && !is_linux {
            self.measure_rate(ack, ack.delivered_segments, control);
        }
        if !ack.may_grow {
            return;
        }
        if ack.in_slow_start {
            self.growth.slow_start(ack, control);
            return;
        }
        match self.arithmetic {
            Arithmetic::Linux => self.grow_linux(ack, control),
            Arithmetic::FreeBsd => self.grow_freebsd(ack, control),
            Arithmetic::Draft => self.grow_draft(ack, control),
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        self.credit = 0;
        if self.arithmetic == Arithmetic::FreeBsd && congestion.is_timeout() {
            // The generic code halves the window; only a repeated timeout restarts the clock.
            if congestion.is_repeated_timeout() {
                self.last_congestion = self.ticks.at(congestion.now);
            }
            control.ssthresh = freebsd_half(congestion, control);
            return;
        }
        if congestion.is_repeated_timeout() {
            return;
        }
        let before = self.kept_for_undo();
        if self.slip {
            // FreeBSD 9: RTTmax decays before β is computed from it, and decays too much.
            let spread = u64::from(self.rtt_max.saturating_sub(self.rtt_min));
            self.rtt_max = ((u64::from(self.rtt_min) + spread * 95) / 100) as u32;
        }
        self.update_beta(control);
        let kept = if self.arithmetic == Arithmetic::Linux { ONE } else { 256 };
        control.ssthresh =
            landing(control.cwnd_segments() * u64::from(self.beta) / u64::from(kept), control.mss);
        if !self.slip && self.rtt_max > self.rtt_min {
            self.rtt_max = self.rtt_min + (u64::from(self.rtt_max - self.rtt_min) * 95 / 100) as u32;
        }
        // α keeps the last epoch's value until the first increment after it: it is computed before Δ restarts.
        self.update_alpha(self.ticks.at(congestion.now));
        if self.arithmetic != Arithmetic::Linux {
            self.restart_clock(before, congestion.now);
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if self.arithmetic == Arithmetic::Linux && change.to >= Phase::Cwr {
            // Linux `htcp_reset` runs at every such change, including CWR to Recovery and a repeated timeout, and uses
            // the values that the reduction has already changed.
            self.restart_clock(self.kept_for_undo(), change.now);
        }
        let restarts = match self.restart {
            Restart::Open => true,
            Restart::Event => self.pending,
            Restart::RecoveryStart => false,
        };
        if change.to == Phase::Open {
            if restarts {
                self.last_congestion = self.ticks.at(change.now);
            }
            self.pending = false;
        }
    }

    fn on_undo(&mut self, _now: Time, _control: &mut Control) {
        if self.pending {
            self.last_congestion = self.undo.last_congestion;
            self.rtt_max = self.undo.rtt_max;
            self.old_rate_max = self.undo.old_rate_max;
            self.pending = false;
        }
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        let one = f64::from(ONE);
        let (alpha, beta) = match self.arithmetic {
            Arithmetic::Linux => (f64::from(self.alpha) / one, f64::from(self.beta) / one),
            _ => (f64::from(self.alpha), f64::from(self.beta) / 256.0),
        };
        let second = match self.arithmetic {
            Arithmetic::Linux => f64::from(self.ticks.hz),
            _ => 1e6,
        };
        out.push(("alpha", alpha));
        out.push(("beta", beta));
        out.push(("rtt_min_s", f64::from(self.rtt_min) / second));
        out.push(("rtt_max_s", f64::from(self.rtt_max) / second));
        out.push(("last_congestion_s", f64::from(self.last_congestion) / f64::from(self.ticks.hz)));
    }
}

impl Htcp {
    fn kept_for_undo(&self) -> Undo {
        Undo { last_congestion: self.last_congestion, rtt_max: self.rtt_max, old_rate_max: self.old_rate_max }
    }

    /// Restarts Δ at a congestion event.
    fn restart_clock(&mut self, undo: Undo, now: Time) {
        self.undo = undo;
        self.pending = true;
        self.last_congestion = self.ticks.at(now);
    }

    fn measure_rtt(&mut self, ack: &Ack) {
        let Some(rtt) = ack.rtt else { return };
        if self.arithmetic == Arithmetic::FreeBsd {
            if self.rtt_updates < FREEBSD_RTT_UPDATES {
                self.rtt_updates += 1;
                return;
            }
            let srtt = span_us(ack.srtt);
            self.rtt_min = if self.rtt_min == 0 { srtt } else { self.rtt_min.min(srtt) };
            self.rtt_max = self.rtt_max.max(srtt);
            return;
        }
        if self.is_smoothed && (ack.in_slow_start || !ack.may_grow) {
            return;
        }
        let rtt = if self.is_smoothed { ack.srtt } else { rtt };
        let (sample, step) = match self.arithmetic {
            Arithmetic::Linux => (self.ticks.span(rtt), self.ticks.span(RTT_MAX_STEP)),
            _ => (span_us(rtt), u32::MAX / 4),
        };
        if self.rtt_min == 0 || sample < self.rtt_min {
            self.rtt_min = sample;
        }
        if ack.phase == Phase::Open {
            self.rtt_max = self.rtt_max.max(self.rtt_min);
            if sample > self.rtt_max && sample <= self.rtt_max + step {
                self.rtt_max = sample;
            }
        }
    }

    /// Updates the throughput in segments per second, smoothed over round trips, and its maximum since the last event.
    fn measure_rate(&mut self, ack: &Ack, segments: u32, control: &Control) {
        let now = self.ticks.at(ack.now);
        if !matches!(ack.phase, Phase::Open | Phase::Disorder) {
            self.counted = 0;
            self.counted_since = now;
            return;
        }
        self.counted += segments;
        let elapsed = now.wrapping_sub(self.counted_since);
        let step = match self.arithmetic {
            Arithmetic::Linux => (self.alpha / ONE).max(1),
            _ => self.alpha.max(1),
        };
        let round = self.rtt_min_ticks();
        // Linux computes cwnd − α in 32 bits; while α is larger it wraps, and no count reaches it.
        let is_within = self.arithmetic != Arithmetic::Linux || u64::from(step) <= control.cwnd_segments();
        let due = is_within && u64::from(self.counted) + u64::from(step) >= control.cwnd_segments();
        if !due || round == 0 || elapsed < round {
            return;
        }
        let current = (u64::from(self.counted) * u64::from(self.ticks.hz) / u64::from(elapsed)) as u32;
        let smoothed = (3 * u64::from(self.rate) + u64::from(current)) / 4;
        // The first round trips after an event are not representative.
        if now.wrapping_sub(self.last_congestion) / round <= 3 {
            self.rate = current;
            self.rate_max = current;
        } else {
            self.rate = smoothed as u32;
            self.rate_max = self.rate_max.max(self.rate);
        }
        self.counted = 0;
        self.counted_since = now;
    }

    fn rtt_min_ticks(&self) -> u32 {
        match self.arithmetic {
            Arithmetic::Linux => self.rtt_min,
            _ => (u64::from(self.rtt_min) * u64::from(self.ticks.hz) / 1_000_000) as u32,
        }
    }

    fn update_beta(&mut self, control: &Control) {
        let (low, high, one) = match self.arithmetic {
            Arithmetic::Linux => (BETA_MIN, BETA_MAX, ONE),
            _ => (FREEBSD_BETA.0, FREEBSD_BETA.1, 256),
        };
        if self.bandwidth_switch {
            let (new, old) = (u64::from(self.rate_max), u64::from(self.old_rate_max));
            self.old_rate_max = self.rate_max;
            if !(4 * old..=6 * old).contains(&(5 * new)) {
                self.beta = low;
                self.ratio_mode = false;
                return;
            }
        }
        let measured = match self.arithmetic {
            // The first event after the throughput has settled still halves the window.
            Arithmetic::Linux => {
                let ready = self.ratio_mode && self.rtt_min > self.ticks.span(SHORT_RTT);
                self.ratio_mode = true;
                ready
            }
            // The first congestion event has no epoch before it.
            _ => control.ssthresh < Control::UNLIMITED,
        };
        self.beta = if self.adaptive_backoff && measured && self.rtt_max > 0 {
            (u64::from(self.rtt_min) * u64::from(one) / u64::from(self.rtt_max))
                .clamp(u64::from(low), u64::from(high)) as u32
        } else {
            low
        };
    }

    fn update_alpha(&mut self, now: u32) {
        let elapsed = now.wrapping_sub(self.last_congestion);
        self.alpha = match self.arithmetic {
            Arithmetic::Linux => {
                let scale_rtt = if self.rtt_scaling { self.rtt_min } else { 0 };
                linux_alpha(elapsed, self.ticks.hz, scale_rtt, self.beta)
            }
            _ => freebsd_alpha(elapsed, self.ticks.hz),
        };
    }

    fn grow_linux(&mut self, ack: &Ack, control: &mut Control) {
        if u64::from(self.credit) * u64::from(self.alpha) / u64::from(ONE) >= control.cwnd_segments() {
            control.cwnd += u64::from(control.mss);
            self.credit = 0;
            self.update_alpha(self.ticks.at(ack.now));
        } else {
            self.credit += self.covered;
        }
        self.covered = 1;
    }

    fn grow_freebsd(&mut self, ack: &Ack, control: &mut Control) {
        self.update_alpha(self.ticks.at(ack.now));
        let mut alpha = self.alpha;
        if alpha > 1 {
            if self.adaptive_backoff {
                alpha = (2 * u64::from(256 - self.beta) * u64::from(alpha) / 256).max(1) as u32;
            }
            if self.rtt_scaling {
                let share = u64::from(span_us(ack.srtt)) * 256 / u64::from(REFERENCE_RTT_US);
                alpha = (share.clamp(26, 512) * u64::from(alpha) / 256).max(1) as u32;
            }
        }
        self.alpha = alpha;
        let mss = u64::from(control.mss);
        if alpha == 1 {
            self.growth.avoid(ack, control, 1);
        } else if let Counting::Bytes { .. } = ack.counting {
            self.credit += ack.newly_acked as u32;
            if u64::from(self.credit) >= control.cwnd {
                self.credit -= control.cwnd as u32;
                control.cwnd += u64::from(alpha) * mss;
            }
        } else {
            control.cwnd += (u64::from(alpha) * 256 / control.cwnd_segments().max(1)) * mss / 256;
        }
    }

    fn grow_draft(&mut self, ack: &Ack, control: &mut Control) {
        let elapsed = self.ticks.at(ack.now).wrapping_sub(self.last_congestion);
        let mut alpha = draft_alpha(f64::from(elapsed) / f64::from(self.ticks.hz));
        self.alpha = alpha as u32;
        if self.rtt_scaling {
            alpha *= (ack.srtt.as_secs_f64() / 0.1).clamp(0.1, 2.0);
        }
        if self.adaptive_backoff {
            alpha *= 2.0 * (1.0 - f64::from(self.beta) / 256.0);
        }
        let acked = ack.newly_acked as f64 / f64::from(control.mss);
        let window = control.cwnd as f64 / f64::from(control.mss);
        self.fraction.add(control, alpha * acked / window, 1);
    }
}

/// Linux: α in 1/128 after `elapsed` ticks; `scale_rtt` (ticks) zero for no RTT scaling.
fn linux_alpha(elapsed: u32, hz: u32, scale_rtt: u32, beta: u32) -> u32 {
    let (elapsed, hz) = (u64::from(elapsed), u64::from(hz));
    let mut factor = 1;
    if elapsed > hz {
        let beyond = elapsed - hz;
        factor = 1 + (10 * beyond + (beyond / 2) * (beyond / 2) / hz) / hz;
    }
    if scale_rtt > 0 {
        let scale = (8 * hz / (10 * u64::from(scale_rtt))).clamp(4, 80);
        factor = (8 * factor / scale).max(1);
    }
    (2 * factor * u64::from(ONE - beta)).clamp(1, u64::from(u32::MAX)) as u32
}

/// FreeBSD: whole α after `elapsed` ticks; the quadratic term is (whole seconds)·(Δ/4).
fn freebsd_alpha(elapsed: u32, hz: u32) -> u32 {
    if elapsed <= hz {
        return 1;
    }
    let (beyond, hz) = (u64::from(elapsed - hz), u64::from(hz));
    ((16 + 160 * beyond / hz + (beyond / hz) * (16 * beyond / (4 * hz))) / 16) as u32
}

/// The draft's α after `elapsed` seconds.
fn draft_alpha(elapsed: f64) -> f64 {
    let beyond = elapsed - 1.0;
    if beyond <= 0.0 { 1.0 } else { 1.0 + 10.0 * beyond + beyond * beyond / 4.0 }
}
