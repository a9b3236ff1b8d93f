//! Hybla: a path with a long RTT grows as fast, in segments per second, as a reference path of 25 ms.

use super::parts::clock::span_us;
use super::parts::decrease::half;
use super::parts::growth::Growth;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange};
use crate::params::{Card, Checked, ParamSpec, ms, s};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "hybla",
    title: "TCP Hybla",
    law: "ρ = max(RTT/RTT₀, 1); slow start w ← w + 2^ρ − 1 an ACK; avoidance w ← w + ρ²/w; loss halves",
    source: "Caini and Firrincieli, Int. J. Satellite Communications and Networking 22(5), 2004; Linux \
          `tcp_hybla`",
    differs: &[
        "As in Linux: ρ counts in eighths, from the smallest smoothed RTT, and 1 for ever without the \
              handshake's; 2^ρ from a table in 1/128, capped at ρ = 16. The initial window is ⌊ρ⌋ whatever the \
              stack's; credit per ACK, whatever it covers; Reno outside Open",
        "`linux-2.6.25`: growth stops for good above 128·ρ² segments",
    ],
    live_twin: Some("linux:hybla"),
    params: &[
        ParamSpec::choice("variant", &["linux", "linux-2.6.25"], "Whether large windows stop growing."),
        ParamSpec::time("rtt0", ms(25), (ms(1), s(1)), "The reference path's RTT."),
    ],
};

/// 2^(i/8) in 1/128.
const POWERS: [u32; 8] = [128, 139, 152, 165, 181, 197, 215, 234];
/// Increments are in 1/128.
const ONE: u32 = 128;
/// Linux limits the window to this many segments.
const CLAMP: u64 = 65_535;

/// Hybla's state.
#[derive(Clone, Debug)]
pub struct Hybla {
    rtt0_us: u32,
    stalls: bool,
    active: bool,
    /// ρ in eighths.
    rho_8: u32,
    /// Minimum smoothed RTT; stays zero without a handshake sample, as in Linux.
    rtt_min_us: u32,
    /// Fraction of a segment, in 1/128.
    cents: u32,
    /// Number of ACKs since the last step, for windows above 128·ρ².
    credit: u32,
    growth: Growth,
}

impl Registered for Hybla {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Hybla {
            rtt0_us: given.time("rtt0").as_us() as u32,
            stalls: given.choice("variant") == "linux-2.6.25",
            active: true,
            rho_8: 8,
            rtt_min_us: 0,
            cents: 0,
            credit: 0,
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Hybla {
    fn on_established(&mut self, _now: Time, srtt: Option<Duration>, control: &mut Control) {
        if let Some(srtt) = srtt {
            self.measure(span_us(srtt));
        }
        control.cwnd = u64::from(self.rho_8 / 8) * u64::from(control.mss);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let srtt_us = span_us(ack.srtt);
        // Evaluated when Linux runs the growth rule, whether or not the window is full.
        if ack.advances() && srtt_us < self.rtt_min_us {
            self.measure(srtt_us);
        }
        if !ack.may_grow {
            return;
        }
        if !self.active {
            self.growth.reno(ack, control);
            return;
        }
        // Hybla's own test, independent of the stack's: below ssthresh, not at it.
        let in_slow_start = control.cwnd < control.ssthresh;
        let window = control.cwnd_segments() as u32;
        let increment =
            if in_slow_start { slow_start_step(self.rho_8) } else { avoidance_step(self.rho_8, window) };
        if !in_slow_start && increment < ONE {
            self.credit += 1;
        }
        let mut steps = u64::from(increment / ONE);
        self.cents += increment % ONE;
        if self.cents >= ONE {
            self.cents -= ONE;
            self.credit = 0;
            steps += 1;
        }
        if increment == 0 && !self.stalls && self.credit >= window {
            self.credit = 0;
            steps += 1;
        }
        let mss = u64::from(control.mss);
        let limit = if in_slow_start { control.ssthresh.min(CLAMP * mss) } else { CLAMP * mss };
        control.cwnd = (control.cwnd + steps * mss).min(limit);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        self.credit = 0;
        if !congestion.is_repeated_timeout() {
            control.ssthresh = half(control);
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        self.active = change.to == Phase::Open;
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        Some(control.ssthresh / 2)
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("rho", f64::from(self.rho_8) / 8.0));
    }
}

impl Hybla {
    fn measure(&mut self, srtt_us: u32) {
        self.rho_8 = ((u64::from(srtt_us) * 8 / u64::from(self.rtt0_us)) as u32).max(8);
        self.rtt_min_us = srtt_us;
    }
}

/// 2^ρ − 1 in 1/128.
fn slow_start_step(rho_8: u32) -> u32 {
    (POWERS[(rho_8 % 8) as usize] << (rho_8 / 8).min(16)) - ONE
}

/// ⌊128·ρ²/w⌋.
fn avoidance_step(rho_8: u32, window: u32) -> u32 {
    // ρ² in 1/128 is twice ρ² in 1/64.
    (2 * u64::from(rho_8) * u64::from(rho_8) / u64::from(window.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::{Lab, build, named};

    fn with_rtt(ms: u64, variant: &str) -> Hybla {
        let mut hybla = build::<Hybla>(&[("variant", named(variant))]);
        hybla.measure((ms * 1_000) as u32);
        hybla
    }

    #[test]
    fn steps_have_the_tabulated_values() {
        // RTT, slow-start increment an ACK in Linux.
        for (ms, step) in [(10, 1.0), (25, 1.0), (50, 3.0), (54, 3.344), (100, 15.0), (130, 33.75)] {
            let found = f64::from(slow_start_step(with_rtt(ms, "linux").rho_8)) / 128.0;
            assert!((found - step).abs() < 5e-4, "{ms} ms: {found}");
        }
        // ρ² in avoidance, in eighths of ρ: 50 ms 4, 100 ms 16.
        for (ms, squared) in [(25, 1), (50, 4), (100, 16), (250, 100)] {
            assert_eq!(avoidance_step(with_rtt(ms, "linux").rho_8, 1), squared * 128);
        }
    }

    #[test]
    fn the_initial_window_is_rho() {
        for (ms, window) in [(10, 1), (54, 2), (80, 3), (130, 5)] {
            let mut hybla = build::<Hybla>(&[]);
            let mut lab = Lab::new(10, Counting::PerSegment);
            hybla.on_established(lab.now, Some(Duration::from_ms(ms)), &mut lab.control);
            assert_eq!(lab.window(), window, "{ms} ms");
        }
    }

    #[test]
    fn without_the_handshakes_sample_rho_stays_1() {
        let mut hybla = build::<Hybla>(&[]);
        let mut lab = Lab::new(10, Counting::PerSegment);
        hybla.on_established(lab.now, None, &mut lab.control);
        lab.rtt = Duration::from_ms(100);
        lab.round(&mut hybla);
        assert_eq!(hybla.rho_8, 8);
    }

    #[test]
    fn the_smallest_rtt_is_looked_for_where_the_window_may_grow() {
        let mut hybla = with_rtt(100, "linux");
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        lab.rtt = Duration::from_ms(75);
        for (phase, rho_8) in [(Phase::Recovery, 32), (Phase::Open, 24)] {
            lab.phase = phase;
            let ack = lab.ack(1);
            hybla.on_ack(&ack, &mut lab.control);
            assert_eq!(hybla.rho_8, rho_8, "{phase:?}");
        }
    }

    #[test]
    fn avoidance_grows_by_rho_squared_a_round_trip() {
        let mut hybla = with_rtt(100, "linux");
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        lab.round(&mut hybla);
        // ⌊128·16/100⌋ = 20/128 an ACK, falling as the window grows.
        assert!((113..=116).contains(&lab.window()), "{}", lab.window());
    }

    #[test]
    fn growth_stops_above_128_rho_squared_in_2_6_25_only() {
        for (variant, grown) in [("linux", 9), ("linux-2.6.25", 0)] {
            let mut hybla = with_rtt(25, variant);
            let mut lab = Lab::avoiding(200, Counting::PerSegment);
            lab.rtt = Duration::from_ms(25);
            (0..10).for_each(|_| lab.round(&mut hybla));
            let found = lab.window() - 200;
            assert!((grown..=grown + 1).contains(&found), "{variant}: {found}");
        }
    }

    #[test]
    fn slow_start_stops_at_ssthresh() {
        let mut hybla = with_rtt(130, "linux");
        let mut lab = Lab::new(50, Counting::PerSegment);
        lab.rtt = Duration::from_ms(130);
        lab.control.ssthresh = 60_000;
        let ack = lab.ack(1);
        hybla.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
        assert_eq!(lab.window(), 60);
    }
}
