//! Vegas: keep between α and β segments of one's own in the queue.

use super::parts::decrease::{freebsd_half, half, landing};
use super::parts::ertt::{Ertt, UNIT};
use super::parts::growth::Growth;
use super::parts::round::RoundRtt;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume, Signal};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "vegas",
    title: "TCP Vegas",
    law: "diff = w·(rtt − base)/base; each round trip w ← w + 1 if diff < α, w − 1 if diff > β; slow start \
          ends when diff > γ; loss halves",
    source: "Brakmo, O'Malley and Peterson, SIGCOMM 1994; Linux `tcp_vegas` of 6.x and 2.6.25; FreeBSD 9.3 \
          `cc_vegas` with its helper `h_ertt`",
    differs: &[
        "`linux`: smallest RTT of the round trip, slow start every round trip; Reno outside the Open state \
              and in round trips with two samples or fewer; grows although the window is not used. `linux-2.6.25` \
              divides by the RTT instead of the base, with the window a round trip ago",
        "`freebsd`: RTTs of its helper `h_ertt`, whole bytes per unit of its clock, one segment \
              timed a round trip, slow start every other one; no base from delayed ACKs",
    ],
    live_twin: Some("linux:vegas"),
    params: &[
        ParamSpec::choice("variant", &["linux", "linux-2.6.25", "freebsd"], "Whose arithmetic."),
        ParamSpec::whole("alpha", "segments", 2, (1, 1_000), "Grow below this many in the queue.")
            .depends("linux, linux-2.6.25 2; freebsd 1"),
        ParamSpec::whole("beta", "segments", 4, (1, 1_000), "Shrink above this many in the queue.")
            .depends("linux, linux-2.6.25 4; freebsd 3"),
        ParamSpec::whole("gamma", "segments", 1, (1, 1_000), "Leave slow start above this many."),
        UNIT,
    ],
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Linux,
    Linux2625,
    FreeBsd,
}

/// Vegas' state.
#[derive(Clone, Debug)]
pub struct Vegas {
    variant: Variant,
    /// Linux: in the Open state. FreeBSD: this round trip slow starts.
    active: bool,
    alpha: u32,
    beta: u32,
    gamma: u32,
    /// Segments in the queue at the last look.
    diff: u32,
    round: RoundRtt,
    /// Window in bytes when the round trip began.
    old_window: Bytes,
    /// FreeBSD's RTTs.
    ertt: Ertt,
    growth: Growth,
}

impl Registered for Vegas {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let (variant, alpha, beta) = match given.choice("variant") {
            "freebsd" => (Variant::FreeBsd, 1, 3),
            "linux-2.6.25" => (Variant::Linux2625, 2, 4),
            _ => (Variant::Linux, 2, 4),
        };
        let alpha = given.given_whole("alpha").unwrap_or(alpha) as u32;
        let beta = given.given_whole("beta").unwrap_or(beta) as u32;
        if alpha > beta {
            return Err(given.refuse("alpha", "is larger than beta", "Give alpha at most beta"));
        }
        Ok(Vegas {
            variant,
            active: true,
            alpha,
            beta,
            gamma: given.whole("gamma") as u32,
            diff: 0,
            round: RoundRtt::default(),
            old_window: 0,
            ertt: Ertt::new(given.time(UNIT.name)),
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Vegas {
    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        if self.variant != Variant::FreeBsd {
            self.round.sample(ack);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if self.variant == Variant::FreeBsd {
            self.ertt.sample(ack);
            if ack.advances() {
                self.freebsd(ack, control);
            }
            return;
        }
        if !ack.advances() && !ack.may_grow {
            return;
        }
        if !self.active {
            self.reno(ack, control);
            return;
        }
        if !self.round.is_over(ack) {
            if ack.in_slow_start && grows(ack) {
                self.growth.slow_start(ack, control);
            }
            return;
        }
        if self.round.samples <= 2 {
            self.reno(ack, control);
        } else {
            self.judge(ack, control);
        }
        self.old_window = control.cwnd;
        self.round.begin(ack.snd_nxt);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        control.ssthresh = match self.variant {
            Variant::FreeBsd => {
                let half = freebsd_half(congestion, control);
                if congestion.signal == Signal::Loss {
                    self.active = control.cwnd < half;
                }
                half
            }
            _ if congestion.is_repeated_timeout() => control.ssthresh,
            _ => half(control),
        };
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if self.variant == Variant::FreeBsd {
            return;
        }
        self.active = change.to == Phase::Open;
        if self.active {
            self.round.begin(change.snd_nxt);
        }
    }

    fn on_resume(&mut self, resume: &Resume, _control: &mut Control) {
        // Linux `tcp_vegas_cwnd_event`: as after idleness, so that a window of two segments, acknowledged together, soon
        // takes the queue for the path.
        if self.variant != Variant::FreeBsd {
            self.round.forget();
            self.round.begin(resume.snd_nxt);
            self.active = true;
        }
    }

    fn on_idle_restart(&mut self, _now: Time, _idle: Duration, _control: &mut Control) {
        // The path may have changed: forget its base.
        self.round.forget();
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        Some(control.ssthresh / 2)
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("diff", f64::from(self.diff)));
        let base_s = match self.variant {
            Variant::FreeBsd => f64::from(self.ertt.least) * self.ertt.unit_ms() / 1e3,
            _ => f64::from(self.round.base_us) / 1e6,
        };
        out.push(("base_rtt_s", base_s));
    }
}

impl Vegas {
    fn reno(&mut self, ack: &Ack, control: &mut Control) {
        if ack.may_grow {
            self.growth.reno(ack, control);
        }
    }

    /// Linux, once a round trip.
    fn judge(&mut self, ack: &Ack, control: &mut Control) {
        let mss = u64::from(control.mss);
        let window = control.cwnd_segments();
        let RoundRtt { base_us: base, min_us: rtt, .. } = self.round;
        // In halves of a segment where the old kernel computes in them.
        let (unit, diff, target) = if self.variant == Variant::Linux {
            (1, self.round.excess(window, base), window * u64::from(base) / u64::from(rtt))
        } else {
            let old = self.old_window / mss;
            let doubled = old * u64::from(base) * 2 / u64::from(rtt);
            (2, 2 * old - doubled.min(2 * old), doubled / 2)
        };
        self.diff = (diff / unit) as u32;
        let above = |limit: u32| diff > u64::from(limit) * unit;
        if ack.in_slow_start {
            if above(self.gamma) {
                // Down to what the path holds, but one more.
                control.cwnd = control.cwnd.min((target + 1) * mss);
                control.ssthresh = match self.variant {
                    Variant::Linux => control.ssthresh.min(control.cwnd),
                    _ => landing(0, control.mss),
                };
            } else if grows(ack) {
                self.growth.slow_start(ack, control);
            }
        } else if above(self.beta) {
            control.cwnd = control.cwnd.saturating_sub(mss);
            if self.variant == Variant::Linux {
                control.ssthresh = control.ssthresh.min(control.cwnd);
            }
        } else if diff < u64::from(self.alpha) * unit && grows(ack) {
            control.cwnd += mss;
        }
        control.cwnd = control.cwnd.max(landing(0, control.mss));
        if self.variant == Variant::Linux {
            // A window above ssthresh raises it to 3/4 of itself (`tcp_current_ssthresh`).
            let window = control.cwnd_segments();
            control.ssthresh = control.ssthresh.max(landing(window / 2 + window / 4, control.mss));
        }
    }

    /// FreeBSD, once a round trip: what was sent from the marked segment on is the rate.
    fn freebsd(&mut self, ack: &Ack, control: &mut Control) {
        let mss = u64::from(control.mss);
        if let Some(rtt) = self.ertt.marked(ack).filter(|_| self.ertt.least > 0) {
            let sent = ack.snd_nxt - ack.snd_una + mss.min(ack.newly_acked);
            let (base, rtt) = (u64::from(self.ertt.least), u64::from(rtt));
            self.diff = freebsd_diff(control.cwnd, base, sent, rtt, mss) as u32;
            self.step_freebsd(ack, control);
        }
        if self.active && ack.may_grow {
            // The whole of NewReno: what slow start leaves above ssthresh grows on as in avoidance.
            let in_slow_start = control.cwnd <= control.ssthresh;
            self.growth.reno(&Ack { in_slow_start, ..*ack }, control);
        }
    }

    fn step_freebsd(&mut self, ack: &Ack, control: &mut Control) {
        let mss = u64::from(control.mss);
        if self.diff < self.alpha {
            if ack.in_slow_start {
                self.active = !self.active;
            } else {
                self.active = false;
                if ack.may_grow {
                    control.cwnd += mss;
                }
            }
        } else if self.diff > self.beta {
            self.active = false;
            control.cwnd = control.cwnd.saturating_sub(mss).max(landing(0, control.mss));
            control.ssthresh = control.ssthresh.min(control.cwnd);
        }
    }
}

/// Linux's Vegas grows also while the window is not what limits the sender: in slow start, and by one a round trip.
fn grows(ack: &Ack) -> bool {
    ack.may_grow || !ack.cwnd_limited && ack.advances()
}

/// (expected − actual)·base in segments, every division whole; zero if more was sent than expected. RTTs in whatever unit.
fn freebsd_diff(window: Bytes, base: u64, sent: Bytes, rtt: u64, mss: u64) -> u64 {
    let expected = window / base;
    let actual = sent / rtt;
    expected.saturating_sub(actual) * base / mss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::{Lab, build, named};

    #[test]
    fn new_and_old_diff_differ_by_what_they_divide_by() {
        // w 20, base 100, rtt 120: old 3.33, new 4.0.
        for (variant, expected) in [("linux", 4), ("linux-2.6.25", 3)] {
            let mut vegas = build::<Vegas>(&[("variant", named(variant))]);
            let mut lab = Lab::avoiding(20, Counting::PerSegment);
            vegas.old_window = lab.control.cwnd;
            vegas.round = RoundRtt { end: 0, base_us: 100_000, min_us: 120_000, samples: 9 };
            let ack = lab.ack(1);
            vegas.judge(&ack, &mut lab.control);
            assert_eq!(vegas.diff, expected, "{variant}");
        }
    }

    #[test]
    fn linux_forgets_the_base_when_it_sends_with_nothing_in_flight() {
        let resume = Resume { now: Time::from_ms(5), idle: Duration::ZERO, app_limited: false, snd_nxt: 0 };
        for variant in ["linux", "linux-2.6.25"] {
            let mut vegas = build::<Vegas>(&[("variant", named(variant))]);
            let mut lab = Lab::avoiding(2, Counting::PerSegment);
            vegas.round.take(5_000);
            vegas.on_resume(&resume, &mut lab.control);
            vegas.round.sample(&Ack { rtt: Some(Duration::from_ms(200)), ..lab.ack(1) });
            assert_eq!(vegas.round.base_us, 200_001, "{variant}");
        }
    }

    #[test]
    fn freebsd_divides_bytes_by_milliseconds() {
        // mss 1448, w 10, base 4 ms, rtt 5 ms: (3620 − 2896)·4/1448 = 2.
        assert_eq!(freebsd_diff(14_480, 4, 14_480, 5, 1448), 2);
        // A 4 ms path under 10 ms ticks reads 1 and 11 ms.
        assert_eq!(freebsd_diff(14_480, 1, 14_480, 11, 1448), 9);
    }

    #[test]
    fn the_window_settles_between_alpha_and_beta_in_the_queue() {
        for variant in ["linux", "linux-2.6.25"] {
            // 50 segments fill the path of 100 ms; each beyond adds 2 ms.
            for start in [40, 80] {
                let mut vegas = build::<Vegas>(&[("variant", named(variant))]);
                let mut lab = Lab::avoiding(start, Counting::PerSegment);
                vegas.round.base_us = 100_001;
                for _ in 0..60 {
                    lab.rtt = Duration::from_ms(100 + 2 * lab.window().saturating_sub(50));
                    lab.round(&mut vegas);
                }
                assert!((51..=55).contains(&lab.window()), "{variant} from {start}: {}", lab.window());
            }
        }
    }

    #[test]
    fn slow_start_ends_above_gamma_at_the_target() {
        let mut vegas = build::<Vegas>(&[]);
        let mut lab = Lab::new(60, Counting::PerSegment);
        vegas.round = RoundRtt { end: 0, base_us: 100_000, min_us: 110_000, samples: 9 };
        let ack = lab.ack(1);
        vegas.judge(&ack, &mut lab.control);
        // ⌊60·100/110⌋ + 1.
        assert_eq!((lab.window(), lab.control.ssthresh_segments()), (55, 55));
    }

    #[test]
    fn linux_grows_a_window_that_is_not_used() {
        let unused = |ack: Ack| Ack { cwnd_limited: false, may_grow: false, ..ack };
        let mut vegas = build::<Vegas>(&[]);
        let mut lab = Lab::new(10, Counting::PerSegment);
        vegas.round.end = u64::MAX;
        for _ in 0..10 {
            let ack = unused(lab.ack(1));
            vegas.on_ack(&ack, &mut lab.control);
        }
        assert_eq!(lab.window(), 20, "slow start");
        let mut lab = Lab::avoiding(10, Counting::PerSegment);
        vegas.round = RoundRtt { end: 0, base_us: 100_001, min_us: 100_001, samples: 9 };
        let ack = unused(lab.ack(1));
        vegas.on_ack(&ack, &mut lab.control);
        assert_eq!(lab.window(), 11, "by one a round trip");
    }

    #[test]
    fn freebsd_slow_starts_every_other_round_trip() {
        let mut vegas = build::<Vegas>(&[("variant", named("freebsd"))]);
        let mut lab = Lab::new(4, Counting::Bytes { limit: 2 });
        let windows = lab.windows(&mut vegas, 8);
        let doublings = windows.windows(2).filter(|pair| pair[1] >= 2 * pair[0] - 2).count();
        let pauses = windows.windows(2).filter(|pair| pair[1] <= pair[0] + 2).count();
        assert!(doublings >= 3 && pauses >= 3, "{windows:?}");
    }

    #[test]
    fn a_coarse_clock_stops_freebsd_only_from_eight_segments_on() {
        // 5 ms under 10 ms ticks: every second marked segment reads two ticks, and half the window is missing.
        for (window, diff) in [(6, 3), (7, 3), (8, 4)] {
            assert_eq!(freebsd_diff(window * 1448, 1, window * 1448, 2, 1448), diff);
        }
    }

    #[test]
    fn freebsd_holds_one_to_three_segments_in_the_queue() {
        // 50 segments fill the path of 100 ms; each beyond adds 2 ms.
        for start in [45, 70] {
            let mut vegas = build::<Vegas>(&[("variant", named("freebsd"))]);
            let mut lab = Lab::avoiding(start, Counting::Bytes { limit: 2 });
            vegas.ertt.least = 101;
            for _ in 0..60 {
                lab.rtt = Duration::from_ms(100 + 2 * lab.window().saturating_sub(50));
                lab.round(&mut vegas);
            }
            assert!((51..=55).contains(&lab.window()), "from {start}: {}", lab.window());
        }
    }

    #[test]
    fn contradictory_bounds_are_refused() {
        let params = [("alpha", 5.0), ("beta", 3.0)]
            .map(|(name, value)| (name.to_string(), crate::scenario::Value::Number(value)))
            .into();
        let error = crate::cc::registry::build("vegas", &params, "flows[0].tcp", 1).unwrap_err();
        assert_eq!(error.field, "flows[0].tcp.cc_params.alpha");
    }
}
