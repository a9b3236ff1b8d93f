//! Compound TCP: Reno's window plus a delay window that grows fast on an empty path and shrinks when a queue builds.

use super::parts::decrease::{half, landing};
use super::parts::growth::{Fraction, Growth, credit};
use super::parts::round::RoundRtt;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control};
use crate::math;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "compound",
    title: "Compound TCP",
    law: "win = cwnd + dwnd; cwnd ← cwnd + 1/win an ACK. Each round trip, with Δ = win·(rtt − base)/rtt: \
          dwnd ← dwnd + max(α·win^k − 1, 0) if Δ < γ, else max(dwnd − ζ·Δ, 0). Loss: win ← (1 − β)·win, dwnd \
          what remains beyond cwnd/2",
    source: "Tan, Song, Zhang and Sridharan, INFOCOM 2006, section III; draft-sridharan-tcpm-ctcp-02",
    differs: &[
        "ζ is 1; the paper gives no number",
        "The sum is what the stack reduces, so after recovery dwnd is what of it still fits under cwnd",
        "`gamma_tuning`: γ ← (1 − λ)γ + λ·¾Δ at loss, within [5, 30]; λ 0.8 (ports differ)",
        "`ns2`: the increase is ⌊⌊win³⌋^¼⌋/8 in whole segments, without the low-window threshold; on loss \
              the loss window takes all that is left and the delay window begins at 0. Its delay window \
              moves in slow start too; ours does not",
    ],
    live_twin: None,
    params: &[
        ParamSpec::choice("variant", &["paper", "ns2"], "Real arithmetic, or the ns-2.35 module's."),
        ParamSpec::number("alpha", "", 0.125, (0.001, 10.0), "Scale of the delay window's growth."),
        ParamSpec::share("beta", 0.5, (0.05, 0.95), "Share given up on loss."),
        ParamSpec::number("k", "", 0.75, (0.1, 1.0), "Exponent of the delay window's growth."),
        ParamSpec::number("gamma", "segments", 30.0, (1.0, 10_000.0), "Backlog at which dwnd retreats."),
        ParamSpec::number("zeta", "", 1.0, (0.01, 100.0), "Speed of the retreat."),
        ParamSpec::whole("low_window", "segments", 41, (0, 10_000), "No delay window below this.")
            .depends("paper 41 (drafts 38), ns2 0"),
        ParamSpec::flag("gamma_tuning", false, "Tune gamma at each loss, as the drafts do."),
        ParamSpec::choice("increase", &["win", "cwnd"], "Loss window += 1/win (paper) or 1/cwnd."),
    ],
};

/// γ-tuning: weight of the new sample, and γ's range.
const LAMBDA: f32 = 0.8;
const GAMMA_RANGE: (f32, f32) = (5.0, 30.0);

/// Compound TCP's state.
#[derive(Clone, Debug)]
pub struct Compound {
    alpha: f32,
    beta: f32,
    k: f32,
    gamma: f32,
    zeta: f32,
    low_window: u32,
    is_ns2: bool,
    per_cwnd: bool,
    tunes: bool,
    /// Δ at the last evaluation.
    backlog: f32,
    /// The delay window, in segments; the loss window is the rest of cwnd.
    dwnd: f64,
    round: RoundRtt,
    fraction: Fraction,
    growth: Growth,
}

impl Registered for Compound {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let is_ns2 = given.choice("variant") == "ns2";
        let real = |name: &str| given.number(name) as f32;
        Ok(Compound {
            alpha: real("alpha"),
            beta: real("beta"),
            k: real("k"),
            gamma: real("gamma"),
            zeta: real("zeta"),
            low_window: given.given_whole("low_window").unwrap_or(if is_ns2 { 0 } else { 41 }) as u32,
            is_ns2,
            per_cwnd: given.choice("increase") == "cwnd",
            tunes: given.flag("gamma_tuning"),
            backlog: 0.0,
            dwnd: 0.0,
            round: RoundRtt::default(),
            fraction: Fraction::default(),
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Compound {
    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        self.round.sample(ack);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.advances() {
            return;
        }
        if ack.may_grow {
            if ack.in_slow_start {
                self.growth.slow_start(ack, control);
            } else {
                let win = control.cwnd as f64 / f64::from(control.mss);
                self.dwnd = self.dwnd.min(win - 1.0);
                let divisor = if self.per_cwnd { win - self.dwnd } else { win };
                self.fraction.add(control, credit(ack) as f64 / divisor, 1);
            }
        }
        if self.round.is_over(ack) {
            if self.round.samples > 2 && !ack.in_slow_start {
                self.judge(ack.may_grow, control);
            }
            self.round.begin(ack.snd_nxt);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        self.fraction.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        if congestion.is_timeout() {
            self.dwnd = 0.0;
            control.ssthresh = half(control);
            return;
        }
        if self.tunes {
            let sample = 0.75 * self.backlog;
            let tuned = (1.0 - LAMBDA) * self.gamma + LAMBDA * sample;
            self.gamma = tuned.clamp(GAMMA_RANGE.0, GAMMA_RANGE.1);
        }
        let win = control.cwnd as f64 / f64::from(control.mss);
        let kept = win * (1.0 - f64::from(self.beta));
        let loss_window = win - self.dwnd.min(win);
        // One of the two windows exceeds half their sum, and ns-2's module then assigns the whole sum to the loss
        // window.
        self.dwnd = if self.is_ns2 { 0.0 } else { (kept - loss_window / 2.0).max(0.0) };
        control.ssthresh = landing(kept as u64, control.mss);
    }

    fn on_idle_restart(&mut self, _now: Time, _idle: Duration, _control: &mut Control) {
        self.round.forget();
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("dwnd", self.dwnd));
        out.push(("backlog", f64::from(self.backlog)));
        out.push(("gamma", f64::from(self.gamma)));
    }
}

impl Compound {
    /// Grows or shrinks the delay window, once per round trip.
    fn judge(&mut self, may_grow: bool, control: &mut Control) {
        let win = control.cwnd as f64 / f64::from(control.mss);
        let RoundRtt { base_us, min_us, .. } = self.round;
        let backlog = win * f64::from(min_us - base_us) / f64::from(min_us);
        self.backlog = backlog as f32;
        let before = self.dwnd.min(win - 1.0).max(0.0);
        self.dwnd = if self.backlog >= self.gamma {
            (before - f64::from(self.zeta) * backlog).max(0.0)
        } else if may_grow && win >= f64::from(self.low_window) {
            before + (self.step(win) - 1.0).max(0.0)
        } else {
            before
        };
        self.fraction.add(control, self.dwnd - before, 2);
    }

    /// α·win^k.
    fn step(&self, win: f64) -> f64 {
        let step = f64::from(self.alpha) * math::powf(win, f64::from(self.k));
        if self.is_ns2 { step as u64 as f64 } else { step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::Signal;
    use crate::cc::fixture::{Lab, build, named};

    #[test]
    fn the_step_has_the_papers_values() {
        let compound = build::<Compound>(&[]);
        let rows =
            [(16.0, 1.0), (41.0, 2.025), (100.0, 3.953), (1000.0, 22.23), (5000.0, 74.3), (12_500.0, 147.8)];
        for (win, step) in rows {
            assert!((compound.step(win) / step - 1.0).abs() < 1e-3, "{win}: {}", compound.step(win));
        }
        let ns2 = build::<Compound>(&[("variant", named("ns2"))]);
        for (win, step) in [(17.0, 1.0), (42.0, 2.0), (100.0, 3.0), (1000.0, 22.0)] {
            assert_eq!(ns2.step(win), step);
        }
    }

    #[test]
    fn an_empty_path_is_filled_as_the_binomial_says() {
        // From 41: 100 in 21 round trips, 500 in 72, 1000 in 101.
        let mut compound = build::<Compound>(&[]);
        let mut lab = Lab::avoiding(41, Counting::PerSegment);
        let windows = lab.windows(&mut compound, 110);
        for (window, rounds) in [(100, 21), (500, 72), (1000, 101)] {
            let found = windows.iter().position(|win| *win >= window).unwrap();
            assert!(found.abs_diff(rounds) <= 3, "{window} after {found}");
        }
    }

    #[test]
    fn loss_halves_the_sum_and_dwnd_takes_what_cwnd_leaves() {
        let mut compound = build::<Compound>(&[]);
        compound.dwnd = 140.0;
        let mut lab = Lab::avoiding(200, Counting::PerSegment);
        compound.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!((lab.control.ssthresh_segments(), compound.dwnd), (100, 70.0));
    }

    #[test]
    fn the_loss_window_of_ns2_takes_all_that_a_loss_leaves() {
        let mut compound = build::<Compound>(&[("variant", named("ns2"))]);
        compound.dwnd = 140.0;
        let mut lab = Lab::avoiding(200, Counting::PerSegment);
        compound.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!((lab.control.ssthresh_segments(), compound.dwnd), (100, 0.0));
    }

    #[test]
    fn a_backlog_of_gamma_makes_the_delay_window_retreat() {
        // base 120 ms, rtt 125 ms, win 1000: Δ = 40.
        let mut compound = build::<Compound>(&[]);
        compound.dwnd = 500.0;
        compound.round = RoundRtt { end: 0, base_us: 120_000, min_us: 125_000, samples: 9 };
        let mut lab = Lab::avoiding(1000, Counting::PerSegment);
        compound.judge(true, &mut lab.control);
        assert_eq!((lab.window(), compound.dwnd), (960, 460.0));
    }

    #[test]
    fn tuning_follows_the_backlog_at_loss() {
        let mut compound = build::<Compound>(&[("gamma_tuning", crate::scenario::Value::Flag(true))]);
        compound.backlog = 20.0;
        let mut lab = Lab::avoiding(200, Counting::PerSegment);
        compound.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        // 0.2·30 + 0.8·15.
        assert!((compound.gamma - 18.0).abs() < 1e-4);
    }
}
