//! Scalable TCP: every ACK raises the window by the same amount, so recovery time does not depend on the rate.

use super::parts::decrease::landing;
use super::parts::growth::{Growth, credit};
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::Bytes;

const CARD: Card = Card {
    name: "scalable",
    title: "Scalable TCP",
    law: "w ← w + 0.01 an ACK; w ← w − w/8 on congestion; below 100 segments (Linux) it is Reno's increase",
    source: "Kelly, Computer Communication Review 33(2), 2003; Linux `tcp_scalable`",
    differs: &[
        "`linux`: one segment per min(w, 100) acknowledged, where the paper goes over to Reno below 16 \
              segments",
        "`linux-2.6.25`: min(w, 50), to make up for delayed ACKs; with an ACK a segment it grows twice as \
              fast",
    ],
    live_twin: Some("linux:scalable"),
    params: &[
        ParamSpec::choice("variant", &["linux", "linux-2.6.25"], "Sets the default of interval."),
        ParamSpec::whole("interval", "segments", 100, (1, 10_000), "Acknowledged segments per step.")
            .depends("linux 100, linux-2.6.25 50"),
    ],
};

/// Scalable TCP's state.
#[derive(Clone, Debug)]
pub struct Scalable {
    /// Segments acknowledged per step of the window, at most.
    interval: u32,
    growth: Growth,
}

impl Registered for Scalable {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let default = if given.choice("variant") == "linux" { 100 } else { 50 };
        let interval = given.given_whole("interval").unwrap_or(default) as u32;
        Ok(Scalable { interval, growth: Growth::default() })
    }
}

impl CongestionControl for Scalable {
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
        let needed = control.cwnd_segments().min(u64::from(self.interval));
        self.growth.additive(ack, control, needed, segments);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        let window = control.cwnd_segments();
        control.ssthresh = landing(window - window / 8, control.mss);
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        Some(control.ssthresh / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, build, named};
    use crate::cc::{Counting, Signal};

    #[test]
    fn doubling_takes_seventy_round_trips_at_any_size() {
        // ln 2/ln 1.01 = 69.7.
        for window in [1_000, 16_000] {
            let mut lab = Lab::avoiding(window, Counting::PerSegment);
            let mut scalable = build::<Scalable>(&[]);
            let rounds = (1..200).find(|_| {
                lab.round(&mut scalable);
                lab.window() >= 2 * window
            });
            assert!((69..=71).contains(&rounds.unwrap()), "{rounds:?}");
        }
    }

    #[test]
    fn a_loss_is_made_good_in_fourteen_round_trips_at_any_size() {
        // −ln(7/8)/ln 1.01 = 13.42.
        for window in [2_000, 20_000] {
            let mut lab = Lab::avoiding(window, Counting::PerSegment);
            let mut scalable = build::<Scalable>(&[]);
            lab.lose(&mut scalable);
            assert_eq!(lab.window(), window - window / 8);
            let rounds = (1..100).find(|_| {
                lab.round(&mut scalable);
                lab.window() >= window
            });
            assert!((13..=15).contains(&rounds.unwrap()), "{rounds:?}");
        }
    }

    #[test]
    fn linux_2_6_25_needs_51_acks_a_step() {
        let mut scalable = build::<Scalable>(&[("variant", named("linux-2.6.25"))]);
        let mut lab = Lab::avoiding(510, Counting::PerAck);
        lab.round(&mut scalable);
        assert_eq!(lab.window(), 520);
    }

    #[test]
    fn the_kernel_truths_cut_is_134_to_118() {
        let mut lab = Lab::avoiding(134, Counting::PerSegment);
        build::<Scalable>(&[]).on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        assert_eq!(lab.control.ssthresh_segments(), 118);
    }
}
