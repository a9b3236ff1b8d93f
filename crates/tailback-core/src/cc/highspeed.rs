//! HighSpeed TCP: above 38 segments, the larger the window, the faster it grows and the less it is cut.

use super::parts::decrease::landing;
use super::parts::growth::{Fraction, Growth};
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control};
use crate::math;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::Bytes;

const CARD: Card = Card {
    name: "highspeed",
    title: "HighSpeed TCP",
    law: "w ← w + a(w)/w an ACK, w ← (1 − b(w))·w on congestion; b falls from 0.5 at 38 segments to 0.1 at \
          83000 with ln w, a(w) = w²·p(w)·2b/(2 − b) with p(w) = 0.078/w^1.2",
    source: "RFC 3649 section 5 and appendix B; limited slow start RFC 3742; Linux `tcp_highspeed`",
    differs: &[
        "`linux`: b in 1/256, a whole from the table; credit a(w) per ACK, so delayed ACKs halve the slope",
        "`rfc3649`: the analytic a and b, per segment acknowledged",
    ],
    live_twin: Some("linux:highspeed"),
    params: &[
        ParamSpec::choice("variant", &["linux", "rfc3649"], "The kernel's table or the RFC's formulas."),
        ParamSpec::whole(
            "max_ssthresh",
            "segments",
            0,
            (0, 1_000_000),
            "Limited slow start (RFC 3742) above this window; 0 is off, ns-2's scripts use 100.",
        ),
    ],
};

/// RFC 3649 appendix B: row i has the largest window for which a = i + 1, and its b in 1/256.
const TABLE: [(u32, u32); 72] = [
    (38, 128),
    (118, 112),
    (221, 104),
    (347, 98),
    (495, 93),
    (663, 89),
    (851, 86),
    (1058, 83),
    (1284, 81),
    (1529, 78),
    (1793, 76),
    (2076, 74),
    (2378, 72),
    (2699, 71),
    (3039, 69),
    (3399, 68),
    (3778, 66),
    (4177, 65),
    (4596, 64),
    (5036, 62),
    (5497, 61),
    (5979, 60),
    (6483, 59),
    (7009, 58),
    (7558, 57),
    (8130, 56),
    (8726, 55),
    (9346, 54),
    (9991, 53),
    (10661, 52),
    (11358, 52),
    (12082, 51),
    (12834, 50),
    (13614, 49),
    (14424, 48),
    (15265, 48),
    (16137, 47),
    (17042, 46),
    (17981, 45),
    (18955, 45),
    (19965, 44),
    (21013, 43),
    (22101, 43),
    (23230, 42),
    (24402, 41),
    (25618, 41),
    (26881, 40),
    (28193, 39),
    (29557, 39),
    (30975, 38),
    (32450, 38),
    (33986, 37),
    (35586, 36),
    (37253, 36),
    (38992, 35),
    (40808, 35),
    (42707, 34),
    (44694, 33),
    (46776, 33),
    (48961, 32),
    (51258, 32),
    (53677, 31),
    (56230, 30),
    (58932, 30),
    (61799, 29),
    (64851, 28),
    (68113, 28),
    (71617, 27),
    (75401, 26),
    (79517, 26),
    (84035, 25),
    (89053, 24),
];

/// HighSpeed TCP's state.
#[derive(Clone, Debug)]
pub struct HighSpeed {
    is_analytic: bool,
    max_ssthresh: u32,
    /// Current row of the table, updated at each ACK.
    row: u32,
    credit: u32,
    growth: Growth,
    fraction: Fraction,
}

impl Registered for HighSpeed {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(HighSpeed {
            is_analytic: given.choice("variant") == "rfc3649",
            max_ssthresh: given.whole("max_ssthresh") as u32,
            row: 0,
            credit: 0,
            growth: Growth::default(),
            fraction: Fraction::default(),
        })
    }
}

impl CongestionControl for HighSpeed {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.may_grow {
            return;
        }
        if ack.in_slow_start {
            self.growth.limited_slow_start(ack, control, u64::from(self.max_ssthresh));
            return;
        }
        let window = control.cwnd_segments();
        if self.is_analytic {
            let acked = ack.newly_acked as f64 / f64::from(control.mss);
            self.fraction.add(control, increase(window as f64) * acked / window as f64, 1);
            return;
        }
        self.find_row(window);
        self.credit += self.row + 1;
        if u64::from(self.credit) >= window {
            self.credit -= window as u32;
            control.cwnd += u64::from(control.mss);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        self.fraction.clear();
        self.credit = 0;
        if congestion.is_repeated_timeout() {
            return;
        }
        let window = control.cwnd_segments();
        let kept = if self.is_analytic {
            (window as f64 * (1.0 - decrease(window as f64))) as u64
        } else {
            window - window * u64::from(TABLE[self.row as usize].1) / 256
        };
        control.ssthresh = landing(kept, control.mss);
    }

    fn recovery_floor(&self, control: &Control) -> Option<Bytes> {
        Some(control.ssthresh / 2)
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("a", f64::from(self.row + 1)));
        out.push(("b", f64::from(TABLE[self.row as usize].1) / 256.0));
    }
}

impl HighSpeed {
    fn find_row(&mut self, window: u64) {
        while window > u64::from(TABLE[self.row as usize].0) && (self.row as usize) < TABLE.len() - 1 {
            self.row += 1;
        }
        while self.row > 0 && window <= u64::from(TABLE[self.row as usize - 1].0) {
            self.row -= 1;
        }
    }
}

/// RFC 3649 section 5: b(w).
fn decrease(window: f64) -> f64 {
    if window <= 38.0 {
        return 0.5;
    }
    let span = math::ln(83_000.0) - math::ln(38.0);
    0.5 - 0.4 * (math::ln(window) - math::ln(38.0)) / span
}

/// RFC 3649 section 5: a(w), never below Reno's.
fn increase(window: f64) -> f64 {
    if window <= 38.0 {
        return 1.0;
    }
    let b = decrease(window);
    let p = 0.078 / math::powf(window, 1.2);
    (window * window * p * 2.0 * b / (2.0 - b)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, build, named};
    use crate::cc::{Counting, Signal};

    #[test]
    fn the_formulas_have_the_rfc_values() {
        let rows = [
            (50.0, 0.4857, 1.144),
            (100.0, 0.4497, 1.801),
            (118.0, 0.4411, 2.006),
            (500.0, 0.3659, 5.04),
            (1000.0, 0.3299, 7.74),
            (5000.0, 0.2462, 19.93),
            (10_000.0, 0.2101, 29.02),
            (50_000.0, 0.1264, 60.43),
            (83_000.0, 0.1, 70.7),
        ];
        for (window, b, a) in rows {
            assert!((decrease(window) - b).abs() < 6e-5, "b({window}) {}", decrease(window));
            assert!((increase(window) / a - 1.0).abs() < 2e-3, "a({window}) {}", increase(window));
        }
        assert_eq!((decrease(38.0), increase(38.0)), (0.5, 1.0));
    }

    #[test]
    fn the_table_is_the_formula() {
        for (row, pair) in TABLE.windows(2).enumerate() {
            let (upper, b) = pair[0];
            // At its upper end, row i (a = i + 1) reaches the next whole a of the formula.
            let a = increase(f64::from(upper));
            assert!((a - (row as f64 + 1.0)).abs() < 0.03 * a + 0.06, "row {row}: a({upper}) = {a}");
            assert!((decrease(f64::from(upper)) * 256.0 - f64::from(b)).abs() < 3.0, "row {row}");
            assert!(pair[1].0 > upper && pair[1].1 <= b);
        }
    }

    #[test]
    fn small_windows_are_reno_and_larger_ones_step_by_rows() {
        for (window, grown, kept) in [(30, 1, 15), (100, 2, 57), (400, 5, 255), (1000, 8, 676)] {
            let mut algorithm = build::<HighSpeed>(&[]);
            let mut lab = Lab::avoiding(window, Counting::PerSegment);
            lab.round(&mut algorithm);
            // The window grows during the round, so a step may fall into the next.
            let gained = lab.window() - window;
            assert!(gained == grown || gained + 1 == grown, "{window}: {gained}");
            lab.control.cwnd = window * 1000;
            algorithm.find_row(window);
            algorithm.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            assert_eq!(lab.control.ssthresh_segments(), kept, "{window}");
        }
    }

    #[test]
    fn the_kernel_credits_acks_not_segments() {
        let mut algorithm = build::<HighSpeed>(&[]);
        let mut lab = Lab::avoiding(100, Counting::PerSegment);
        lab.per_ack = 2;
        lab.round(&mut algorithm);
        assert_eq!(lab.window(), 101, "50 ACKs of 2 credits");
        let mut analytic = build::<HighSpeed>(&[("variant", named("rfc3649"))]);
        let mut lab = Lab::avoiding(1000, Counting::PerSegment);
        lab.per_ack = 2;
        lab.round(&mut analytic);
        assert_eq!(lab.window(), 1007, "a(1000) = 7.74");
    }
}
