//! BIC: binary search for the window at which loss last occurred, then slow probing beyond it.

use super::parts::clock::Ticks;
use super::parts::decrease::landing;
use super::parts::growth::{Growth, credit};
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;

const CARD: Card = Card {
    name: "bic",
    title: "BIC",
    law: "below W_max each round trip goes 1/4 of the way, at most 16 segments and at least 0.2. Above it the \
          increase mirrors that; w ← 0.8·w on congestion, W_max lowered when w fell short of it",
    source: "Xu, Harfoush and Rhee, INFOCOM 2004; Linux `tcp_bic`",
    differs: &[
        "Linux's step is 1/4 of the distance (B = 4), the paper's 1/2; growth is divided by the delayed-ACK \
              ratio, which current kernels apply although they count segments: delayed ACKs double the slope",
    ],
    live_twin: Some("linux:bic"),
    params: &[
        ParamSpec::number("beta", "", 819.0 / 1024.0, (0.1, 0.95), "Share of the window kept."),
        ParamSpec::flag("fast_convergence", true, "Lower Wmax when the window fell short of it."),
        ParamSpec::whole("low_window", "segments", 14, (0, 10_000), "Reno below this window."),
        ParamSpec::whole("max_increment", "segments", 16, (1, 10_000), "Largest step a round trip."),
        ParamSpec::whole("smooth_part", "", 20, (1, 1_000), "Round trips to cover the last 4 segments."),
        ParamSpec::whole("hz", "Hz", 250, (100, 10_000), "Timer ticks a second."),
    ],
};

/// Steps are 1/4 of the distance.
const B: u32 = 4;
/// Initial number of segments per ACK, 2.0 in 1/16.
const ACK_RATIO: u32 = 32;

/// BIC's state.
#[derive(Clone, Debug)]
pub struct Bic {
    fast_convergence: bool,
    /// β in 1/1024.
    beta: u32,
    low_window: u32,
    max_increment: u32,
    smooth_part: u32,
    ticks: Ticks,
    needed: u32,
    last_max: u32,
    last_window: u32,
    last_time: u32,
    /// Average number of segments per ACK, in 1/16.
    ack_ratio: u32,
    growth: Growth,
}

impl Registered for Bic {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Bic {
            fast_convergence: given.flag("fast_convergence"),
            beta: (given.number("beta") * 1024.0 + 0.5) as u32,
            low_window: given.whole("low_window") as u32,
            max_increment: given.whole("max_increment") as u32,
            smooth_part: given.whole("smooth_part") as u32,
            ticks: Ticks { hz: given.whole("hz") as u32 },
            needed: 1,
            last_max: 0,
            last_window: 0,
            last_time: 0,
            ack_ratio: ACK_RATIO,
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Bic {
    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        if ack.phase == Phase::Open {
            self.ack_ratio = self.ack_ratio - self.ack_ratio / 16 + ack.newly_acked_segments.min(1_000);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.may_grow {
            return;
        }
        let mut segments = credit(ack);
        if ack.in_slow_start {
            segments = self.growth.slow_start(ack, control);
            if segments == 0 {
                return;
            }
        }
        let now = self.ticks.at(ack.now);
        let window = control.cwnd_segments() as u32;
        if self.last_window != window || now.wrapping_sub(self.last_time) > self.ticks.hz / 32 {
            self.last_window = window;
            self.last_time = now;
            self.needed = self.needed_at(window);
        }
        self.growth.additive(ack, control, u64::from(self.needed), segments);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        let window = control.cwnd_segments();
        let beta = u64::from(self.beta);
        let yields = self.fast_convergence && window < u64::from(self.last_max);
        self.last_max = if yields { window * (1024 + beta) / 2048 } else { window } as u32;
        let kept = if window <= u64::from(self.low_window) { window / 2 } else { window * beta / 1024 };
        control.ssthresh = landing(kept, control.mss);
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if change.to == Phase::Loss {
            // A timeout clears everything.
            self.needed = 1;
            self.last_max = 0;
            self.last_window = 0;
            self.last_time = 0;
            self.ack_ratio = ACK_RATIO;
        }
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("w_max", f64::from(self.last_max)));
        out.push(("ack_ratio", f64::from(self.ack_ratio) / 16.0));
    }
}

impl Bic {
    /// Number of acknowledged segments per step of the window.
    fn needed_at(&self, window: u32) -> u32 {
        if window <= self.low_window {
            return window;
        }
        let smooth = window * self.smooth_part / B;
        let linear = window / self.max_increment;
        let mut needed = if window < self.last_max {
            match (self.last_max - window) / B {
                distance if distance > self.max_increment => linear,
                0 | 1 => smooth,
                distance => window / distance,
            }
        } else if window < self.last_max + B {
            smooth
        } else if window < self.last_max + self.max_increment * (B - 1) {
            window * (B - 1) / (window - self.last_max)
        } else {
            linear
        };
        if self.last_max == 0 {
            // Before the first loss: at least 5 % per round trip.
            needed = needed.min(20);
        }
        (needed * 16 / self.ack_ratio.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, build};
    use crate::cc::{Counting, Signal};

    fn bic(last_max: u32) -> Bic {
        let mut bic = build::<Bic>(&[]);
        bic.last_max = last_max;
        bic.ack_ratio = 16;
        bic
    }

    #[test]
    fn the_search_has_its_five_regions() {
        let bic = bic(200);
        // Distance/4 over 16: 16 a round trip. 160: 10 a round trip. 197: 0.2 a round trip.
        assert_eq!(bic.needed_at(100), 100 / 16);
        assert_eq!(bic.needed_at(160), 16);
        assert_eq!(bic.needed_at(197), 197 * 5);
        // Above: 0.2, then (w − W_max)/3, then 16.
        assert_eq!(bic.needed_at(203), 203 * 5);
        assert_eq!(bic.needed_at(215), 43);
        assert_eq!(bic.needed_at(248), 248 / 16);
        assert_eq!(bic.needed_at(14), 14);
    }

    #[test]
    fn before_the_first_loss_at_least_five_percent() {
        assert_eq!(bic(0).needed_at(500), 20);
        assert_eq!(bic(0).needed_at(100), 6);
    }

    #[test]
    fn four_fifths_are_kept_and_half_below_the_low_window() {
        for (window, kept) in [(139, 111), (14, 7)] {
            let mut lab = Lab::avoiding(window, Counting::PerSegment);
            bic(0).on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            assert_eq!(lab.control.ssthresh_segments(), kept);
        }
    }

    #[test]
    fn delayed_acks_double_the_slope() {
        let grown = |per_ack: u32| {
            let mut bic = bic(1_000);
            bic.ack_ratio = 16 * per_ack;
            let mut lab = Lab::avoiding(320, Counting::PerSegment);
            lab.per_ack = per_ack;
            lab.round(&mut bic);
            lab.window() - 320
        };
        assert!((15..=16).contains(&grown(1)), "{}", grown(1));
        assert!((30..=33).contains(&grown(2)), "{}", grown(2));
    }

    #[test]
    fn the_ack_that_ends_recovery_does_not_count_as_delayed() {
        let mut bic = bic(1_000);
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        lab.change(Phase::Recovery, &mut bic);
        bic.on_sample(&lab.ack(100), &mut lab.control);
        assert_eq!(bic.ack_ratio, 16);
        lab.change(Phase::Open, &mut bic);
        bic.on_sample(&lab.ack(17), &mut lab.control);
        assert_eq!(bic.ack_ratio, 32);
    }
}
