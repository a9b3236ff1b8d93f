//! CUBIC: the window is a cubic function of the time since the last congestion, flat where that happened.
//!
//! Law: W(t) = C·(t − K)³ + W_max, K = ∛((W_max − w₀)/C); congestion w ← β·w, W_max ← w, or less than w if
//! w fell short of the W_max before (fast convergence); never below what Reno would reach.
//! Source: Ha, Rhee and Xu, SIGOPS OSR 42(5), 2008; RFC 9438; Linux `tcp_cubic` of 6.x and of 2.6.25 (v2.1).
//!
//! Differs from the source:
//! - `linux`, `linux-2.6.25`: whole segments, 1/1024 s, jiffies; the target is truncated to whole segments, so
//!   the plateau is longer than the curve's.
//! - `linux`: before the first loss at least one segment per 20 (5 % a round trip).
//! - `linux-2.6.25`: β 819/1024, C 410/1024, increments clamped to 16 segments per 100 ms above W_max, 2 % a
//!   round trip before the first loss, everything divided by the delayed-ACK ratio.
//! - The cube root is exact where Linux interpolates a table (error 0.2 %).
//! - `rfc9438`: a spurious reduction restores W_max; the curve through it and the restored window is then the
//!   old one. Slow start has no limit of 8 segments an ACK.
//!
//! Live twin: Linux `cubic`.

use super::parts::clock::{Ticks, span_us};
use super::parts::decrease::landing;
use super::parts::growth::{Fraction, Growth, credit};
use super::parts::hystart::{Flavour, HyStart};
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange, Resume};
use crate::math;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

/// CUBIC's memory.
#[derive(Clone, Debug)]
pub struct Cubic {
    law: Law,
    hystart: HyStart,
    growth: Growth,
}

#[derive(Clone, Debug)]
enum Law {
    Linux(Linux),
    Rfc9438(Rfc9438),
}

impl Registered for Cubic {
    const CARD: Card = Card {
        name: "cubic",
        title: "CUBIC",
        law: "w = C(t-K)^3 + Wmax, K = cbrt((Wmax-w0)/C); on congestion w = b w, Wmax = w or less",
        source: "Ha, Rhee and Xu, SIGOPS OSR 42(5) 2008; RFC 9438; Linux tcp_cubic",
        differs: &[
            "linux, linux-2.6.25: whole segments and jiffies; the truncated target lengthens the plateau",
            "linux: at least 5 % a round trip before the first loss",
            "linux-2.6.25 (v2.1): increment clamp above Wmax, 2 % a round trip before the first loss",
            "exact cube root where Linux interpolates a table",
            "rfc9438: undo restores Wmax only; no limit of 8 segments an ACK in slow start",
        ],
        live_twin: Some("linux:cubic"),
        params: &[
            ParamSpec::choice(
                "variant",
                &["linux", "linux-2.6.25", "rfc9438"],
                "Linux 6.x, Linux 2.6.22 to 2.6.25 (v2.1), or the RFC in real arithmetic.",
            ),
            ParamSpec::number("beta", "", 0.7, (0.1, 0.95), "Share of the window kept on congestion.")
                .depends("linux 717/1024, linux-2.6.25 819/1024, rfc9438 0.7"),
            ParamSpec::number("c", "segments/s3", 0.4, (0.001, 10.0), "Steepness of the curve.")
                .depends("linux and linux-2.6.25 410/1024, rfc9438 0.4"),
            ParamSpec::flag("fast_convergence", true, "Yield bandwidth when the window fell short of Wmax."),
            ParamSpec::flag("tcp_friendliness", true, "Never grow slower than Reno would."),
            ParamSpec::choice("hystart", Flavour::CHOICES, "What ends slow start besides loss.")
                .depends("linux hystart, linux-2.6.25 off, rfc9438 hystart++"),
            ParamSpec::whole("hz", "Hz", 250, (100, 10_000), "Timer ticks a second (Linux variants)."),
        ],
    };

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let variant = given.choice("variant");
        let default_hystart = match variant {
            "linux" => "hystart",
            "rfc9438" => "hystart++",
            _ => "off",
        };
        let hystart = HyStart::new(Flavour::named(given.given_choice("hystart").unwrap_or(default_hystart)));
        let law = match variant {
            "rfc9438" => Law::Rfc9438(Rfc9438::new(given)),
            _ => Law::Linux(Linux::new(given, variant == "linux")),
        };
        Ok(Cubic { law, hystart, growth: Growth::default() })
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let mut in_slow_start = ack.in_slow_start;
        match &mut self.law {
            Law::Linux(law) => {
                law.count_ack_ratio(ack);
                if law.takes_delay(ack) && self.hystart.ends_slow_start(ack, law.delay_min, control) {
                    in_slow_start = false;
                }
            }
            Law::Rfc9438(_) => {
                let delay_min = span_us(ack.rtt_min);
                if self.hystart.ends_slow_start(ack, delay_min, control) {
                    in_slow_start = false;
                }
            }
        }
        if !ack.may_grow {
            return;
        }
        let mut segments = credit(ack);
        if in_slow_start {
            segments = self.hystart.grow(&mut self.growth, ack, control);
            if segments == 0 {
                return;
            }
        }
        match &mut self.law {
            Law::Linux(law) => {
                let needed = law.update(ack.now, control.cwnd_segments(), segments);
                self.growth.additive(ack, control, needed, segments);
            }
            Law::Rfc9438(law) => law.grow(ack, control),
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        if congestion.is_repeated_timeout() {
            return;
        }
        match &mut self.law {
            Law::Linux(law) => control.ssthresh = law.reduce(control),
            Law::Rfc9438(law) => control.ssthresh = law.reduce(congestion, control),
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        if change.to != Phase::Loss {
            return;
        }
        self.hystart.restart(change.snd_nxt);
        match &mut self.law {
            Law::Linux(law) => law.forget(),
            Law::Rfc9438(law) => law.forget(),
        }
    }

    fn on_undo(&mut self, _now: Time, _control: &mut Control) {
        if let Law::Rfc9438(law) = &mut self.law {
            law.w_max = law.w_max_before;
            law.epoch_start = Time::NEVER;
        }
    }

    fn on_resume(&mut self, resume: &Resume, _control: &mut Control) {
        let (now, idle) = (resume.now, resume.idle);
        // The epoch must not run on while nothing is sent, or it ends in a burst (RFC 9438 section 4.2).
        match &mut self.law {
            Law::Linux(law) if law.is_current => {
                let idle = (idle.as_us() * u64::from(law.ticks.hz) / 1_000_000) as u32;
                let now = law.ticks.at(now);
                law.epoch_start = law.epoch_start.map(|start| start.saturating_add(idle).min(now));
            }
            // v2.1 lets the epoch run on.
            Law::Linux(_) => {}
            Law::Rfc9438(law) if law.epoch_start != Time::NEVER => {
                law.epoch_start = (law.epoch_start + idle).min(now);
            }
            Law::Rfc9438(_) => {}
        }
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        let (w_max, k, reno) = match &self.law {
            Law::Linux(law) => {
                (f64::from(law.last_max), f64::from(law.k) / 1024.0, f64::from(law.reno_window))
            }
            Law::Rfc9438(law) => (law.w_max, law.k, law.w_est),
        };
        out.push(("w_max", w_max));
        out.push(("k_s", k));
        out.push(("w_reno", reno));
    }
}

/// The kernel's whole numbers: windows in segments, K and t in 1/1024 s, epochs in jiffies.
#[derive(Clone, Debug)]
struct Linux {
    /// 6.x; otherwise 2.6.25.
    is_current: bool,
    fast_convergence: bool,
    friendliness: bool,
    /// A loss has happened since the state was last forgotten.
    has_lost: bool,
    /// β in 1/1024.
    beta: u16,
    /// C in 1/10240: `bic_scale`, 41.
    scale: u16,
    /// v2.1: segments an ACK covers, in 1/16.
    ack_ratio: u16,
    ticks: Ticks,
    /// Segments acknowledged per step of the window.
    needed: u32,
    last_max: u32,
    last_window: u32,
    last_time: u32,
    origin: u32,
    k: u32,
    /// Microseconds; 0 before the first sample.
    delay_min: u32,
    epoch_start: Option<u32>,
    acked: u32,
    reno_window: u32,
}

/// v2.1: segments an ACK covers at the start, 2.0 in 1/16.
const ACK_RATIO: u16 = 32;
/// v2.1: at most this many segments per 100 ms above the origin.
const MAX_INCREMENT: u64 = 16;

impl Linux {
    fn new(given: &Checked<'_>, is_current: bool) -> Self {
        let of_1024 = |share: f64| (share * 1024.0 + 0.5) as u16;
        let beta = if is_current { 717 } else { 819 };
        Linux {
            is_current,
            fast_convergence: given.flag("fast_convergence"),
            friendliness: given.flag("tcp_friendliness"),
            has_lost: false,
            beta: given.given_number("beta").map_or(beta, of_1024),
            scale: given.given_number("c").map_or(41, |c| of_1024(c / 10.0).max(1)),
            ack_ratio: ACK_RATIO,
            ticks: Ticks { hz: given.whole("hz") as u32 },
            needed: 1,
            last_max: 0,
            last_window: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            delay_min: 0,
            epoch_start: None,
            acked: 0,
            reno_window: 0,
        }
    }

    /// Take the RTT sample of this ACK, unless there is none or it falls into the first second of an epoch,
    /// when the queue of the last one may still be there.
    fn takes_delay(&mut self, ack: &Ack) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        let now = self.ticks.at(ack.now);
        if self.epoch_start.is_some_and(|start| now.wrapping_sub(start) < self.ticks.hz) {
            return false;
        }
        let delay = span_us(rtt);
        if self.delay_min == 0 || delay < self.delay_min {
            self.delay_min = delay;
        }
        true
    }

    fn count_ack_ratio(&mut self, ack: &Ack) {
        if self.is_current || ack.phase != Phase::Open || ack.newly_acked == 0 {
            return;
        }
        // Delivered, not covered: the ACK that ends recovery covers a window and would say it came for all of it.
        let delivered = ack.delivered_segments.min(1_000) as u16;
        self.ack_ratio = self.ack_ratio - self.ack_ratio / 16 + delivered;
    }

    /// Segments to be acknowledged per step of the window, now.
    fn update(&mut self, now: Time, window: u64, segments: u64) -> u64 {
        let now = self.ticks.at(now);
        let window = window as u32;
        self.acked += segments as u32;
        let since = now.wrapping_sub(self.last_time);
        if self.last_window == window && since <= self.ticks.hz / 32 {
            return u64::from(self.needed);
        }
        // The current kernel looks at the curve once a jiffy.
        let same_jiffy = self.is_current && self.epoch_start.is_some() && since == 0;
        if !same_jiffy {
            self.last_window = window;
            self.last_time = now;
            let start = match self.epoch_start {
                Some(start) => start,
                None => self.begin_epoch(now, window, segments as u32),
            };
            self.needed = self.follow_curve(now.wrapping_sub(start), window);
        }
        if self.friendliness {
            self.befriend(window);
        }
        if self.is_current {
            self.needed = self.needed.max(2);
        } else {
            self.needed = (u64::from(self.needed) * 16 / u64::from(self.ack_ratio.max(1))).max(1) as u32;
        }
        u64::from(self.needed)
    }

    fn begin_epoch(&mut self, now: u32, window: u32, segments: u32) -> u32 {
        self.epoch_start = Some(now);
        self.acked = segments;
        self.reno_window = window;
        if self.last_max <= window {
            self.k = 0;
            self.origin = window;
        } else {
            self.k = k_1024(u64::from(self.last_max - window), self.scale);
            self.origin = self.last_max;
        }
        now
    }

    fn follow_curve(&self, elapsed: u32, window: u32) -> u32 {
        let delay = self.ticks.span(Duration::from_us(u64::from(self.delay_min)));
        let t = (u64::from(elapsed) + u64::from(delay)) * 1024 / u64::from(self.ticks.hz);
        let target = curve(t, u64::from(self.k), u64::from(self.origin), self.scale);
        let window = u64::from(window);
        let mut needed = if target > window { window / (target - window) } else { 100 * window };
        if !self.is_current {
            if delay > 0 && t >= u64::from(self.k) {
                // `delay` is in jiffies; the kernel's 8 cancels against its eighths of a jiffy.
                let least = window * u64::from(self.ticks.hz) / (10 * MAX_INCREMENT * u64::from(delay));
                needed = needed.max(least);
            }
            if !self.has_lost {
                needed = 50;
            }
        } else if self.last_max == 0 {
            needed = needed.min(20);
        }
        needed as u32
    }

    /// Reno's window, by the same count of segments, is a lower bound.
    fn befriend(&mut self, window: u32) {
        let beta = u32::from(self.beta);
        let scale = 8 * (1024 + beta) / 3 / (1024 - beta);
        let price = ((u64::from(window) * u64::from(scale)) >> 3).max(1) as u32;
        // One division where the kernel loops: at most one credit stays above the price.
        if self.acked > price {
            let steps = (self.acked - 1) / price;
            self.acked -= steps * price;
            self.reno_window += steps;
        }
        if self.reno_window > window {
            self.needed = self.needed.min(window / (self.reno_window - window));
        }
    }

    fn reduce(&mut self, control: &Control) -> u64 {
        let window = control.cwnd_segments();
        let beta = u64::from(self.beta);
        self.epoch_start = None;
        self.has_lost = true;
        let yields = self.fast_convergence && window < u64::from(self.last_max);
        self.last_max = if yields { window * (1024 + beta) / 2048 } else { window } as u32;
        landing(window * beta / 1024, control.mss)
    }

    /// A timeout clears everything.
    fn forget(&mut self) {
        *self = Linux {
            has_lost: false,
            ack_ratio: ACK_RATIO,
            needed: 1,
            last_max: 0,
            last_window: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            delay_min: 0,
            epoch_start: None,
            acked: 0,
            reno_window: 0,
            ..*self
        };
    }
}

/// K in 1/1024 s for a climb of `segments`: ∛(segments·2⁴⁰/(10·scale)).
fn k_1024(segments: u64, scale: u16) -> u32 {
    let factor = (1_u64 << 40) / (10 * u64::from(scale));
    cube_root(factor.saturating_mul(segments)) as u32
}

/// W(t) in whole segments; the cubic part is truncated before it is added or subtracted.
fn curve(t: u64, k: u64, origin: u64, scale: u16) -> u64 {
    let offset = u128::from(t.abs_diff(k));
    let delta = ((10 * u128::from(scale) * offset * offset * offset) >> 40) as u64;
    if t < k { origin.saturating_sub(delta) } else { origin + delta.min(u64::from(u32::MAX)) }
}

/// ⌊∛x⌋ by the real root, corrected to the exact whole one.
fn cube_root(x: u64) -> u64 {
    let mut root = math::cbrt(x as f64) as u64;
    let cube = |r: u64| u128::from(r) * u128::from(r) * u128::from(r);
    while cube(root) > u128::from(x) {
        root -= 1;
    }
    while cube(root + 1) <= u128::from(x) {
        root += 1;
    }
    root
}

/// RFC 9438 in real arithmetic; windows in segments, times in seconds.
#[derive(Clone, Debug)]
struct Rfc9438 {
    fast_convergence: bool,
    friendliness: bool,
    /// β and C in millionths.
    beta_ppm: u32,
    c_ppm: u32,
    w_max: f64,
    w_max_before: f64,
    k: f64,
    w_est: f64,
    /// Window before the last reduction.
    prior: f64,
    /// [`Time::NEVER`] between a reduction and the first ACK of congestion avoidance.
    epoch_start: Time,
    fraction: Fraction,
}

impl Rfc9438 {
    fn new(given: &Checked<'_>) -> Self {
        let ppm = |name: &str, default: f64| (given.given_number(name).unwrap_or(default) * 1e6 + 0.5) as u32;
        Rfc9438 {
            fast_convergence: given.flag("fast_convergence"),
            friendliness: given.flag("tcp_friendliness"),
            beta_ppm: ppm("beta", 0.7),
            c_ppm: ppm("c", 0.4),
            w_max: 0.0,
            w_max_before: 0.0,
            k: 0.0,
            w_est: 0.0,
            prior: 0.0,
            epoch_start: Time::NEVER,
            fraction: Fraction::default(),
        }
    }

    fn beta(&self) -> f64 {
        f64::from(self.beta_ppm) / 1e6
    }

    fn window_at(&self, t: f64) -> f64 {
        let offset = t - self.k;
        f64::from(self.c_ppm) / 1e6 * offset * offset * offset + self.w_max
    }

    fn grow(&mut self, ack: &Ack, control: &mut Control) {
        let mss = f64::from(control.mss);
        let window = control.cwnd as f64 / mss + self.fraction.held();
        let acked = ack.newly_acked as f64 / mss;
        if self.epoch_start == Time::NEVER {
            self.begin_epoch(ack.now, window);
        }
        let t = ack.now.since(self.epoch_start).as_secs_f64();
        // Section 4.3: Reno's slope with our β until the window before the reduction is reached, then 1.
        let beta = self.beta();
        let alpha = if self.w_est < self.prior { 3.0 * (1.0 - beta) / (1.0 + beta) } else { 1.0 };
        self.w_est += alpha * acked / window;
        let step = if self.friendliness && self.window_at(t) < self.w_est {
            (self.w_est - window).max(0.0)
        } else {
            // Section 4.2: the target one RTT ahead, at most half a window more.
            let target = self.window_at(t + ack.srtt.as_secs_f64()).clamp(window, 1.5 * window);
            (target - window) / window * acked
        };
        self.fraction.add(control, step, 1);
    }

    fn begin_epoch(&mut self, now: Time, window: f64) {
        self.epoch_start = now;
        self.w_est = window;
        if self.w_max <= window {
            self.w_max = window;
            self.k = 0.0;
        } else {
            self.k = math::cbrt((self.w_max - window) / (f64::from(self.c_ppm) / 1e6));
        }
    }

    fn reduce(&mut self, congestion: &Congestion, control: &Control) -> u64 {
        let window = control.cwnd as f64 / f64::from(control.mss);
        let beta = self.beta();
        self.w_max_before = self.w_max;
        let yields = self.fast_convergence && window < self.w_max;
        self.w_max = if yields { window * (1.0 + beta) / 2.0 } else { window };
        self.prior = window;
        self.epoch_start = Time::NEVER;
        self.fraction.clear();
        // Section 4.6: a share of the flight, which a sender limited by the application has less of.
        let flight = congestion.flight().max(congestion.in_flight).min(control.cwnd);
        let share = flight as f64 * beta / f64::from(control.mss);
        landing(share as u64, control.mss)
    }

    /// Section 4.8: after a timeout the window at the end of slow start is W_max.
    fn forget(&mut self) {
        self.w_max = 0.0;
        self.k = 0.0;
        self.epoch_start = Time::NEVER;
        self.fraction.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::fixture::{Lab, MSS, build, named};
    use crate::cc::{Counting, Signal};
    use crate::scenario::Value;

    /// W(t) at 0, 0.5, 1, 2, 3, 4, 5, 6, 8, 10 s after a loss at W_max, C = 0.4 (ideal arithmetic).
    const TABLE: [(f64, f64, f64, [f64; 10]); 4] = [
        (0.8, 100.0, 3.6840, [80.00, 87.09, 92.27, 98.09, 99.87, 100.01, 100.91, 104.97, 132.16, 200.78]),
        (0.7, 100.0, 4.2172, [70.00, 79.46, 86.68, 95.64, 99.28, 100.00, 100.19, 102.27, 121.65, 177.35]),
        (
            0.8,
            133.33,
            4.0548,
            [106.66, 115.36, 121.93, 129.86, 132.86, 133.33, 133.67, 136.27, 157.89, 217.39],
        ),
        (
            0.7,
            133.33,
            4.6416,
            [93.33, 104.91, 114.01, 125.96, 131.56, 133.22, 133.35, 134.33, 148.48, 194.87],
        ),
    ];
    const TIMES: [f64; 10] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

    #[test]
    fn the_curve_has_the_tabulated_values() {
        for (beta, w_max, k, row) in TABLE {
            let pairs = [("variant", named("rfc9438")), ("beta", Value::Number(beta))];
            let Law::Rfc9438(mut law) = build::<Cubic>(&pairs).law else { unreachable!() };
            law.w_max = w_max;
            law.begin_epoch(Time::ZERO, beta * w_max);
            assert!((law.k - k).abs() < 6e-5, "{} for {k}", law.k);
            for (t, expected) in TIMES.into_iter().zip(row) {
                assert!((law.window_at(t) - expected).abs() < 0.011, "{t}: {}", law.window_at(t));
            }
        }
    }

    #[test]
    fn the_kernel_curve_is_the_curve_within_a_segment() {
        for (beta, w_max, k, row) in TABLE {
            let origin = w_max as u64;
            let climb = origin - (beta * w_max) as u64;
            let kernel_k = k_1024(climb, 41);
            assert!((f64::from(kernel_k) / 1024.0 - k).abs() < 0.04, "{kernel_k}");
            for (t, expected) in TIMES.into_iter().zip(row) {
                let target = curve((t * 1024.0) as u64, u64::from(kernel_k), origin, 41);
                assert!((target as f64 - expected).abs() < 1.7, "{t}: {target} for {expected}");
            }
        }
    }

    #[test]
    fn cube_roots_are_exact() {
        for x in [0, 1, 7, 8, 26, 27, 999_999, 1_000_000, u64::MAX] {
            let root = u128::from(cube_root(x));
            assert!(root * root * root <= u128::from(x) && u128::from(x) < (root + 1).pow(3), "{x}");
        }
    }

    fn linux(variant: &str) -> Cubic {
        build(&[("variant", named(variant)), ("hystart", named("off"))])
    }

    fn kernel(cubic: &Cubic) -> &Linux {
        let Law::Linux(law) = &cubic.law else { unreachable!() };
        law
    }

    #[test]
    fn each_era_keeps_its_share() {
        for (variant, kept) in [("linux", 93), ("linux-2.6.25", 106), ("rfc9438", 93)] {
            let mut lab = Lab::avoiding(133, Counting::PerSegment);
            linux(variant).on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            assert_eq!(lab.control.ssthresh_segments(), kept, "{variant}");
        }
    }

    #[test]
    fn one_segment_short_of_w_max_is_enough_for_fast_convergence() {
        // 2.6.25: ⌊132·1843/2048⌋ = 118; 6.x: ⌊132·1741/2048⌋ = 112.
        for (variant, yielded) in [("linux-2.6.25", 118), ("linux", 112)] {
            for (window, expected) in [(133, 133), (132, yielded)] {
                let mut cubic = linux(variant);
                let mut lab = Lab::avoiding(133, Counting::PerSegment);
                cubic.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
                lab.control.cwnd = window * u64::from(MSS);
                cubic.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
                assert_eq!(kernel(&cubic).last_max, expected, "{variant}");
            }
        }
    }

    #[test]
    fn growth_before_the_first_loss_is_five_percent_in_6_x_and_two_in_2_6_25() {
        // At an RTT so short that the curve does not move, and Reno does not either.
        for (variant, counting, low, high) in [
            ("linux", Counting::PerSegment, 104, 106),
            // 50·16/32 = 25 ACKs at first, towards 50 as the ACK ratio goes from 2 to 1.
            ("linux-2.6.25", Counting::PerAck, 101, 104),
        ] {
            let mut cubic = linux(variant);
            let mut lab = Lab::avoiding(100, counting);
            lab.rtt = Duration::from_ms(10);
            lab.round(&mut cubic);
            assert!((low..=high).contains(&lab.window()), "{variant}: {}", lab.window());
        }
    }

    #[test]
    fn the_epoch_starts_with_the_first_ack_after_recovery() {
        let mut cubic = linux("linux");
        let mut lab = Lab::avoiding(133, Counting::PerSegment);
        lab.lose(&mut cubic);
        assert_eq!(kernel(&cubic).epoch_start, None);
        lab.now += Duration::from_ms(500);
        let ack = lab.ack(1);
        cubic.on_ack(&ack, &mut lab.control);
        let law = kernel(&cubic);
        assert_eq!(law.epoch_start, Some(law.ticks.at(lab.now)));
        // ∛(40·2⁴⁰/410) = 4752/1024 = 4.64 s.
        assert_eq!((law.origin, law.k), (133, 4751));
    }

    #[test]
    fn the_window_follows_the_curve_to_the_plateau_and_beyond() {
        for (variant, counting) in [
            ("linux", Counting::PerSegment),
            ("linux-2.6.25", Counting::PerAck),
            ("rfc9438", Counting::PerSegment),
        ] {
            let mut cubic = linux(variant);
            let mut lab = Lab::avoiding(400, counting);
            lab.lose(&mut cubic);
            let start = lab.now;
            let low = lab.window() as f64;
            let k = math::cbrt((400.0 - low) / 0.4004);
            while lab.now.since(start).as_secs_f64() < k + 2.0 {
                lab.round(&mut cubic);
                let t = lab.now.since(start).as_secs_f64();
                let ideal = 400.0 + 0.4 * (t - k) * (t - k) * (t - k);
                // Reno at this RTT adds at most 0.53 segments a round trip.
                let reno = low + 5.3 * t;
                let window = lab.window() as f64;
                assert!(window <= ideal.max(reno) + 12.0, "{variant} at {t}: {window} over {ideal}");
                assert!(window >= ideal - 12.0, "{variant} at {t}: {window} under {ideal}");
            }
        }
    }

    #[test]
    fn increments_above_the_origin_are_clamped_in_2_6_25() {
        let mut cubic = linux("linux-2.6.25");
        let Law::Linux(law) = &mut cubic.law else { unreachable!() };
        law.has_lost = true;
        law.origin = 100;
        law.delay_min = 80_000;
        // 10 s past K the curve wants hundreds: ⌊w·250/(160·20)⌋ = 7 segments a step, 12.8 steps a window.
        assert_eq!(law.follow_curve(2_500, 100), 7);
    }

    #[test]
    fn a_timeout_clears_everything() {
        let mut cubic = linux("linux");
        let mut lab = Lab::avoiding(133, Counting::PerSegment);
        lab.round(&mut cubic);
        cubic.on_congestion(&lab.congestion(Signal::Timeout { first: true }), &mut lab.control);
        lab.change(Phase::Loss, &mut cubic);
        assert_eq!((kernel(&cubic).last_max, kernel(&cubic).delay_min), (0, 0));
        assert_eq!(lab.control.ssthresh_segments(), 97);
    }

    #[test]
    fn hystart_ends_slow_start_halfway_through_the_third_round_as_in_6_1() {
        // 10 Mbit/s, 80 ms, an ACK every 1.2 ms: round trips of 10, 20, 40. Each ACK sends two segments, so the
        // k-th of a round waits k·0.6 ms. HyStart's rounds begin in the middle of ours, where the wait is
        // already 15 ms, and nine samples later it is judged too long.
        let mut cubic = build::<Cubic>(&[]);
        let mut lab = Lab::new(10, Counting::PerSegment);
        let mut start = Time::from_ms(500);
        while lab.control.ssthresh == Control::UNLIMITED {
            start += Duration::from_ms(80);
            lab.now = start;
            for k in 0..lab.window() {
                lab.rtt = Duration::from_ms(80) + Duration::from_us(600) * k;
                let ack = lab.ack(1);
                cubic.on_ack(&ack, &mut lab.control);
                lab.now += Duration::from_us(1_200);
            }
        }
        assert!((71..=76).contains(&lab.control.ssthresh_segments()), "{}", lab.control.ssthresh_segments());
        // And then 5 % a round trip.
        let before = lab.window();
        lab.round(&mut cubic);
        assert!((3..=5).contains(&(lab.window() - before)), "{before} to {}", lab.window());
    }

    #[test]
    fn idle_time_does_not_count_in_6_x_and_rfc_9438() {
        for variant in ["linux", "linux-2.6.25"] {
            let mut cubic = linux(variant);
            let mut lab = Lab::avoiding(133, Counting::PerSegment);
            lab.lose(&mut cubic);
            lab.round(&mut cubic);
            let start = kernel(&cubic).epoch_start.unwrap();
            lab.now += Duration::from_secs(8);
            let resume = Resume { now: lab.now, idle: Duration::from_secs(8), app_limited: true };
            cubic.on_resume(&resume, &mut lab.control);
            let moved = kernel(&cubic).epoch_start.unwrap() - start;
            assert_eq!(moved, if variant == "linux" { 2000 } else { 0 });
        }
    }

    #[test]
    fn rfc_9438_grows_like_reno_where_the_curve_is_flatter() {
        // Short RTT: α = 0.5294 until the old window is reached, 1 from there.
        let mut cubic = linux("rfc9438");
        let mut lab = Lab::avoiding(20, Counting::PerSegment);
        lab.rtt = Duration::from_ms(4);
        lab.lose(&mut cubic);
        let windows = lab.windows(&mut cubic, 30);
        assert_eq!(windows[0], 14);
        let to_prior = windows.iter().position(|window| *window >= 20).unwrap();
        // (20 − 14)/0.5294 = 11.3 round trips.
        assert!((11..=13).contains(&to_prior), "{to_prior}");
        assert!((8..=11).contains(&(windows[to_prior + 10] - 20)));
    }
}
