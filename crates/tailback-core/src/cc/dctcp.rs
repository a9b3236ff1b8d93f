//! DCTCP: reduces in proportion to the fraction of marked bytes.

use super::parts::decrease::{half, landing};
use super::parts::growth::Growth;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Signal};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::Bytes;

const CARD: Card = Card {
    name: "dctcp",
    title: "DCTCP",
    law: "α ← (1 − g)·α + g·F each window, F the marked share; w ← w·(1 − α/2) at most once a window; loss \
          halves",
    source: "RFC 8257 section 3.3; Linux `tcp_dctcp` (6.1)",
    differs: &[
        "As in Linux, α in 1/1024 and g a power of two; an α below 1/g is zero after a window without marks",
        "As in Linux, F is of segments acknowledged or SACKed, each with the echo of the ACK that reports it, where \
              the RFC counts bytes acknowledged",
        "As in Linux, SYNs, retransmissions and ACKs without data are ECN capable too, which RFC 3168 forbids: \
              a queue marks them where it would drop them",
    ],
    live_twin: Some("linux:dctcp"),
    params: &[
        ParamSpec::whole("shift_g", "", 4, (1, 10), "g = 2^-shift_g."),
        ParamSpec::share("initial_alpha", 1.0, (0.0, 1.0), "Alpha before the first window."),
    ],
};

/// α = 1.
const ONE: u32 = 1024;

/// DCTCP's state.
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// g = 2^−shift.
    shift: u32,
    /// α in 1/1024.
    alpha: u32,
    /// Offset whose acknowledgement ends the observation window.
    end: u64,
    delivered: Bytes,
    marked: Bytes,
    growth: Growth,
}

impl Registered for Dctcp {
    const CARD: Card = CARD;

    const SCALABLE_RESPONSE: bool = true;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Dctcp {
            shift: given.whole("shift_g") as u32,
            alpha: (given.number("initial_alpha") * f64::from(ONE)) as u32,
            end: 0,
            delivered: 0,
            marked: 0,
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Dctcp {
    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        // Bytes delivered now, by SACK or cumulatively, count with the echo of the ACK that reports them.
        self.delivered += u64::from(ack.delivered_segments) * u64::from(ack.mss);
        self.marked += ack.marked;
        if ack.snd_una >= self.end {
            self.close_window(ack.snd_nxt);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if ack.may_grow {
            self.growth.reno(ack, control);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        control.ssthresh = match congestion.signal {
            Signal::Ecn => {
                let window = control.cwnd_segments();
                landing(window - window * u64::from(self.alpha) / (2 * u64::from(ONE)), control.mss)
            }
            _ => half(control),
        };
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut Control) {
        // A loss also halves a window that marks have already reduced (Linux `dctcp_react_to_loss`).
        if (change.from, change.to) == (Phase::Cwr, Phase::Recovery) {
            control.ssthresh = half(control);
        }
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("alpha", f64::from(self.alpha) / f64::from(ONE)));
    }
}

impl Dctcp {
    fn close_window(&mut self, snd_nxt: u64) {
        // As in Linux (`dctcp_update_alpha`): α becomes zero once g·α rounds to zero.
        let decay = self.alpha >> self.shift;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        if self.marked > 0 {
            let share = (self.marked << (10 - self.shift)) / self.delivered.max(1);
            self.alpha = (self.alpha + share as u32).min(ONE);
        }
        self.delivered = 0;
        self.marked = 0;
        self.end = snd_nxt;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::{Lab, build};

    #[test]
    fn alpha_follows_the_marked_share() {
        let mut dctcp = build::<Dctcp>(&[]);
        let expected = [(0.0, 0.9375), (0.0, 0.87891), (0.5, 0.85522), (0.5, 0.83302), (1.0, 0.84346)];
        for (share, alpha) in expected {
            dctcp.delivered = 100_000;
            dctcp.marked = (share * 1e5) as u64;
            dctcp.close_window(0);
            // Whole 1/1024, rounded down at each of up to five steps.
            assert!((f64::from(dctcp.alpha) / 1024.0 - alpha).abs() < 4.0 / 1024.0, "{}", dctcp.alpha);
        }
    }

    #[test]
    fn marks_cut_by_half_of_alpha_and_loss_by_half() {
        for (signal, kept) in [(Signal::Ecn, 75), (Signal::Loss, 50)] {
            let mut dctcp = build::<Dctcp>(&[]);
            dctcp.alpha = 512;
            let mut lab = Lab::avoiding(100, Counting::PerSegment);
            dctcp.on_congestion(&lab.congestion(signal), &mut lab.control);
            assert_eq!(lab.control.ssthresh_segments(), kept);
        }
    }

    #[test]
    fn a_segment_counts_when_it_is_sacked_with_the_echo_of_that_ack() {
        // A window of ten, eight of them SACKed, two of these by ACKs that echo a mark. The ACK that repairs the hole covers
        // all ten, echoes a mark and delivers two.
        let mut dctcp = build::<Dctcp>(&[]);
        let mut lab = Lab::avoiding(10, Counting::PerSegment);
        let first = lab.ack(1);
        dctcp.on_sample(&first, &mut lab.control);
        for n in 0..8 {
            let marked = if n < 2 { 1_000 } else { 0 };
            let sacked =
                Ack { newly_acked: 0, newly_acked_segments: 0, delivered_segments: 1, marked, ..first };
            dctcp.on_sample(&Ack { snd_una: 0, ..sacked }, &mut lab.control);
        }
        let last = Ack { delivered_segments: 2, marked: 2_000, ..lab.ack(10) };
        dctcp.on_sample(&last, &mut lab.control);
        // 1024 − 64 at the first ACK; 960 − 60 and 4/10 of 64 at the last.
        assert_eq!(dctcp.alpha, 925);
    }

    #[test]
    fn a_pause_does_not_forget_marks() {
        let mut dctcp = build::<Dctcp>(&[]);
        let mut lab = Lab::avoiding(10, Counting::PerSegment);
        (dctcp.delivered, dctcp.marked) = (10_000, 5_000);
        dctcp.on_idle_restart(lab.now, crate::time::Duration::from_secs(2), &mut lab.control);
        assert_eq!((dctcp.delivered, dctcp.marked), (10_000, 5_000));
    }

    #[test]
    fn alpha_dies_out_without_marks() {
        let mut dctcp = build::<Dctcp>(&[]);
        for (before, after) in [(16, 15), (15, 0)] {
            dctcp.alpha = before;
            dctcp.close_window(0);
            assert_eq!(dctcp.alpha, after);
        }
        dctcp.alpha = ONE;
        (0..200).for_each(|_| dctcp.close_window(0));
        assert_eq!(dctcp.alpha, 0);
    }
}
