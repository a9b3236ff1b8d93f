//! Reno congestion control: the window grows by one segment a round trip and halves on congestion.

use super::parts::decrease::{freebsd_half, half, landing};
use super::parts::growth::Growth;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::Bytes;

const CARD: Card = Card {
    name: "reno",
    title: "NewReno",
    law: "slow start w ← w + 1 an ACK; congestion avoidance w ← w + 1 a round trip; congestion s ← w/2",
    source: "RFC 5681 section 3.1; as Linux `reno` and FreeBSD `newreno` do it. What NewReno (RFC 6582) adds \
          is recovery, which is the stack's",
    differs: &[
        "Linux and FreeBSD halve cwnd (FreeBSD: min(cwnd, send window)), RFC 5681 halves the flight; \
              `variant` says",
    ],
    live_twin: Some("linux:reno"),
    params: &[
        ParamSpec::choice(
            "variant",
            &["linux", "freebsd", "rfc5681"],
            "What is halved: cwnd, min(cwnd, send window), or the flight.",
        ),
        ParamSpec::whole(
            "max_ssthresh",
            "segments",
            0,
            (0, 1_000_000),
            "Limited slow start (RFC 3742) above this window; 0 is off, the RFC recommends 100.",
        ),
    ],
};

/// Which quantity a loss halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Linux,
    FreeBsd,
    Rfc5681,
}

/// Reno's state.
#[derive(Clone, Debug)]
pub struct Reno {
    variant: Variant,
    max_ssthresh: u32,
    growth: Growth,
}

impl Registered for Reno {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let variant = match given.choice("variant") {
            "freebsd" => Variant::FreeBsd,
            "rfc5681" => Variant::Rfc5681,
            _ => Variant::Linux,
        };
        let max_ssthresh = given.whole("max_ssthresh") as u32;
        Ok(Reno { variant, max_ssthresh, growth: Growth::default() })
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.may_grow {
            return;
        }
        if ack.in_slow_start && self.max_ssthresh > 0 {
            self.growth.limited_slow_start(ack, control, u64::from(self.max_ssthresh));
            return;
        }
        self.growth.reno(ack, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        control.ssthresh = match self.variant {
            // FreeBSD recomputes at every timeout, so the second one in a row lands at the floor.
            Variant::FreeBsd => freebsd_half(congestion, control),
            _ if congestion.is_repeated_timeout() => control.ssthresh,
            Variant::Linux => half(control),
            Variant::Rfc5681 => {
                // RFC 5681 equation 4, in bytes.
                (congestion.flight() / 2).max(landing(0, control.mss))
            }
        };
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        // Linux 2.6 rate halving may go on to ssthresh/2 for this module.
        Some(control.ssthresh / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, MSS, build, named};
    use crate::cc::{Counting, Signal};

    #[test]
    fn each_variant_halves_what_its_system_halves() {
        let mut lab = Lab::avoiding(25, Counting::PerSegment);
        lab.snd_nxt = lab.snd_una + 23_500;
        let landing = |variant: &str, send_window: u64| {
            let mut control = lab.control;
            let congestion = Congestion { send_window, ..lab.congestion(Signal::Loss) };
            build::<Reno>(&[("variant", named(variant))]).on_congestion(&congestion, &mut control);
            control.ssthresh
        };
        assert_eq!(landing("linux", 9_000), 12_000);
        assert_eq!(landing("freebsd", u64::MAX / 8), 12_000);
        assert_eq!(landing("freebsd", 9_000), 4_000);
        assert_eq!(landing("rfc5681", 9_000), 11_750);
    }

    #[test]
    fn two_segments_are_the_floor() {
        for variant in ["linux", "freebsd", "rfc5681"] {
            let mut lab = Lab::avoiding(3, Counting::PerSegment);
            let congestion = lab.congestion(Signal::Loss);
            build::<Reno>(&[("variant", named(variant))]).on_congestion(&congestion, &mut lab.control);
            assert_eq!(lab.control.ssthresh, 2 * u64::from(MSS), "{variant}");
        }
    }

    #[test]
    fn a_repeated_timeout_leaves_ssthresh_alone_except_in_freebsd() {
        for (variant, expected) in [("linux", 20), ("rfc5681", 20), ("freebsd", 2)] {
            let mut reno = build::<Reno>(&[("variant", named(variant))]);
            let mut lab = Lab::avoiding(40, Counting::PerSegment);
            lab.snd_nxt = lab.snd_una + lab.control.cwnd;
            reno.on_congestion(&lab.congestion(Signal::Timeout { first: true }), &mut lab.control);
            lab.control.cwnd = u64::from(MSS);
            reno.on_congestion(&lab.congestion(Signal::Timeout { first: false }), &mut lab.control);
            assert_eq!(lab.control.ssthresh_segments(), expected, "{variant}");
        }
    }
}
