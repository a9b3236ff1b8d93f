//! TCP-Illinois: loss triggers decreases; the queueing delay determines the rate of growth and the depth of decreases.

use super::parts::clock::span_us;
use super::parts::decrease::landing;
use super::parts::growth::Growth;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::Bytes;

const CARD: Card = Card {
    name: "illinois",
    title: "TCP-Illinois",
    law: "d_a the mean and d_m the largest queueing delay. α = 10 for d_a ≤ d_m/100, else falling as κ₁/(κ₂ + \
          d_a) to 0.3. β goes from 1/8 at d_a = d_m/10 to 1/2 at 0.8·d_m. w ← w + α/w an ACK, w ← (1 − β)·w on \
          loss",
    source: "Liu, Başar and Srikant, Performance Evaluation 65(6–7), 2008; Linux `tcp_illinois`",
    differs: &[
        "As in Linux, α in 1/128 (0.3 is 38/128) and β in 1/64, once a round trip; below 15 segments it is \
              Reno",
        "`linux-2.6.22` keeps β·w on loss instead of (1 − β)·w",
    ],
    live_twin: Some("linux:illinois"),
    params: &[
        ParamSpec::choice("variant", &["linux", "linux-2.6.22"], "With or without the defect in the cut."),
        ParamSpec::whole("window_threshold", "segments", 15, (1, 10_000), "Reno below this window."),
        ParamSpec::whole("theta", "round trips", 5, (1, 100), "Low-delay rounds before alpha is largest."),
    ],
};

/// α in 1/128.
const ALPHA_MIN: u64 = 38;
const ALPHA_ONE: u32 = 128;
const ALPHA_MAX: u64 = 1280;
/// β in 1/64.
const BETA_MIN: u64 = 8;
const BETA_MAX: u64 = 32;
/// Upper bound on RTTs, as in Linux, so that sums do not overflow.
const RTT_LIMIT_US: u32 = u32::MAX / 1280;

/// TCP-Illinois' state.
#[derive(Clone, Debug)]
pub struct Illinois {
    keeps_beta: bool,
    /// Whether the delay has risen above the low zone.
    has_risen: bool,
    /// Number of round trips in the low zone since then.
    low_rounds: u8,
    theta: u8,
    window_threshold: u32,
    alpha: u32,
    beta: u32,
    base_rtt: u32,
    max_rtt: u32,
    samples: u32,
    sum: u64,
    end: u64,
    credit: u32,
    growth: Growth,
}

impl Registered for Illinois {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Illinois {
            keeps_beta: given.choice("variant") == "linux-2.6.22",
            has_risen: false,
            low_rounds: 0,
            theta: given.whole("theta") as u8,
            window_threshold: given.whole("window_threshold") as u32,
            alpha: ALPHA_MAX as u32,
            beta: BETA_MAX as u32,
            base_rtt: u32::MAX,
            max_rtt: 0,
            samples: 0,
            sum: 0,
            end: 0,
            credit: 0,
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Illinois {
    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        if let Some(rtt) = ack.rtt {
            let rtt_us = span_us(rtt).min(RTT_LIMIT_US);
            self.base_rtt = self.base_rtt.min(rtt_us);
            self.max_rtt = self.max_rtt.max(rtt_us);
            self.samples += 1;
            self.sum += u64::from(rtt_us);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if ack.advances() && ack.snd_una > self.end {
            self.adapt(control);
            self.begin_round(ack.snd_nxt);
        }
        if !ack.may_grow {
            return;
        }
        if ack.in_slow_start {
            self.growth.slow_start(ack, control);
            return;
        }
        // As in `pkts_acked`, including earlier SACKed segments: the ACK that ends a recovery counts a whole window.
        self.credit += ack.newly_acked_segments;
        let steps = u64::from(self.credit) * u64::from(self.alpha) / u64::from(ALPHA_ONE);
        let window = control.cwnd_segments();
        if steps >= window {
            control.cwnd += steps / window * u64::from(control.mss);
            self.credit = 0;
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        self.credit = 0;
        if congestion.is_repeated_timeout() {
            return;
        }
        let window = control.cwnd_segments();
        let share = window * u64::from(self.beta) / 64;
        control.ssthresh = landing(if self.keeps_beta { share } else { window - share }, control.mss);
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if change.to == Phase::Loss {
            self.alpha = ALPHA_ONE;
            self.beta = BETA_MAX as u32;
            self.low_rounds = 0;
            self.has_risen = false;
            self.begin_round(change.snd_nxt);
        }
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        Some(control.ssthresh / 2)
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("alpha", f64::from(self.alpha) / f64::from(ALPHA_ONE)));
        out.push(("beta", f64::from(self.beta) / 64.0));
    }
}

impl Illinois {
    fn begin_round(&mut self, snd_nxt: u64) {
        self.end = snd_nxt;
        self.samples = 0;
        self.sum = 0;
    }

    fn adapt(&mut self, control: &Control) {
        if control.cwnd_segments() < u64::from(self.window_threshold) {
            self.alpha = ALPHA_ONE;
            self.beta = BETA_MAX as u32;
        } else if self.samples > 0 {
            let largest = u64::from(self.max_rtt - self.base_rtt);
            let mean = (self.sum / u64::from(self.samples)).saturating_sub(u64::from(self.base_rtt));
            self.alpha = self.alpha_at(mean, largest);
            self.beta = beta_at(mean, largest);
        }
    }

    fn alpha_at(&mut self, mean: u64, largest: u64) -> u32 {
        if mean <= largest / 100 {
            if !self.has_risen {
                return ALPHA_MAX as u32;
            }
            self.low_rounds += 1;
            if self.low_rounds < self.theta {
                return self.alpha;
            }
            self.low_rounds = 0;
            self.has_risen = false;
            return ALPHA_MAX as u32;
        }
        self.has_risen = true;
        alpha_above(mean, largest)
    }
}

/// κ₁/(κ₂ + d_a) above the low zone, in 1/128.
fn alpha_above(mean: u64, largest: u64) -> u32 {
    let low = largest / 100;
    let (mean, largest) = (mean - low, largest - low);
    (largest * ALPHA_MAX / (largest + mean * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN)) as u32
}

/// β in 1/64.
fn beta_at(mean: u64, largest: u64) -> u32 {
    let (low, high) = (largest / 10, largest * 8 / 10);
    if mean <= low {
        return BETA_MIN as u32;
    }
    if mean >= high || high <= low {
        return BETA_MAX as u32;
    }
    // Linear between the two thresholds, written so that no term is negative.
    ((BETA_MIN * (high - mean) + BETA_MAX * (mean - low)) / (high - low)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, build, named};
    use crate::cc::{Counting, Signal};

    #[test]
    fn alpha_and_beta_follow_the_delay() {
        // d_m = 1: d_a, α, β of the paper's formulas; 38/128 for 0.3 costs α up to 1 %.
        let rows = [
            (0.05, 4.336, 0.125),
            (0.1, 2.538, 0.125),
            (0.25, 1.131, 0.2054),
            (0.5, 0.588, 0.3393),
            (0.8, 0.373, 0.5),
            (1.0, 0.3, 0.5),
        ];
        for (mean, alpha, beta) in rows {
            let mean = (mean * 1e6) as u64;
            let found = f64::from(alpha_above(mean, 1_000_000)) / 128.0;
            assert!((found - alpha).abs() < 0.01 * alpha + 1.0 / 128.0, "α({mean}) {found}");
            let found = f64::from(beta_at(mean, 1_000_000)) / 64.0;
            assert!(found <= beta && found > beta - 1.0 / 64.0, "β({mean}) {found}");
        }
    }

    #[test]
    fn an_ack_counts_what_was_sacked_before() {
        let mut illinois = build::<Illinois>(&[]);
        let mut lab = Lab::avoiding(60, Counting::PerSegment);
        let ack = Ack { newly_acked_segments: 60, delivered_segments: 1, ..lab.ack(1) };
        illinois.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
        // Ten a round trip, and this is a round trip's worth.
        assert_eq!(lab.control.cwnd_segments(), 70);
    }

    #[test]
    fn alpha_returns_to_its_largest_after_five_low_rounds() {
        let mut illinois = build::<Illinois>(&[]);
        assert_eq!(illinois.alpha_at(0, 1000), 1280);
        illinois.alpha = illinois.alpha_at(500, 1000);
        let low = illinois.alpha;
        let alphas: Vec<u32> = (0..6)
            .map(|_| {
                illinois.alpha = illinois.alpha_at(0, 1000);
                illinois.alpha
            })
            .collect();
        assert_eq!(alphas, [low, low, low, low, 1280, 1280]);
    }

    #[test]
    fn small_windows_are_reno() {
        let mut illinois = build::<Illinois>(&[]);
        let mut lab = Lab::avoiding(10, Counting::PerSegment);
        assert_eq!(lab.windows(&mut illinois, 4), [10, 11, 12, 13]);
    }

    #[test]
    fn the_2_6_22_defect_keeps_beta_instead_of_the_rest() {
        for (variant, kept) in [("linux", 88), ("linux-2.6.22", 12)] {
            let mut illinois = build::<Illinois>(&[("variant", named(variant))]);
            illinois.beta = BETA_MIN as u32;
            let mut lab = Lab::avoiding(100, Counting::PerSegment);
            illinois.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            assert_eq!(lab.control.ssthresh_segments(), kept);
        }
    }
}
