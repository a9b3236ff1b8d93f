//! FreeBSD 9's CUBIC: bytes and ticks, fractions of eight bits, one step per window of acknowledged bytes.
//!
//! Source: FreeBSD 9.3 `cc_cubic`, after draft-rhee-tcpm-cubic-02.
//!
//! Differs from the source: ssthresh is at least two segments, the window one, and the curve does not overflow.

use crate::cc::parts::clock::Ticks;
use crate::cc::parts::decrease::{freebsd_half, landing};
use crate::cc::parts::growth::{Growth, credit};
use crate::cc::{Ack, Congestion, Control, Counting, Phase, PhaseChange, Signal};
use crate::params::Checked;
use crate::time::{Bytes, Time};

/// β, in 1/256: "~0.8".
const BETA: u16 = 204;
/// 1 − β, in 1/256: "~0.2"; one less than 256 − β.
const LOST: u16 = 51;
/// C, in 1/256: "~0.4".
const C: u16 = 102;
/// Number of samples from which the smoothed RTT is used.
const SAMPLES: u8 = 8;

/// FreeBSD's state.
#[derive(Clone, Debug)]
pub(super) struct FreeBsd {
    fast_convergence: bool,
    friendliness: bool,
    samples: u8,
    beta: u16,
    lost: u16,
    c: u16,
    ticks: Ticks,
    /// Number of congestion events so far; the first halves the window.
    events: u32,
    /// K in 1/256 s.
    pub(super) k: i64,
    pub(super) w_max: Bytes,
    w_max_before: Bytes,
    /// Minimum smoothed RTT in ticks; 0 before the first.
    rtt_min: u32,
    /// Mean of the smoothed RTT over the last epoch, in ticks.
    rtt_mean: u32,
    srtt_sum: u64,
    srtt_count: u64,
    /// End of the last recovery, or time of the last timeout, in ticks.
    since: u32,
    /// Bytes acknowledged since the last step (RFC 3465).
    acked: Bytes,
    mss: u32,
}

impl FreeBsd {
    pub(super) fn new(given: &Checked<'_>) -> Self {
        let of_256 = |share: f64| (share * 256.0 + 0.5) as u16;
        let beta = given.given_number("beta").map(of_256);
        FreeBsd {
            fast_convergence: given.flag("fast_convergence"),
            friendliness: given.flag("tcp_friendliness"),
            samples: 0,
            beta: beta.unwrap_or(BETA),
            lost: beta.map_or(LOST, |beta| 256 - beta),
            c: given.given_number("c").map_or(C, |c| of_256(c).max(1)),
            ticks: Ticks { hz: given.given_whole("hz").unwrap_or(1000) as u32 },
            events: 0,
            k: 0,
            w_max: 0,
            w_max_before: 0,
            rtt_min: 0,
            rtt_mean: 1,
            srtt_sum: 0,
            srtt_count: 0,
            since: 0,
            acked: 0,
            mss: 1,
        }
    }

    pub(super) fn on_established(&mut self, now: Time, control: &Control) {
        self.w_max = control.cwnd;
        self.mss = control.mss;
        self.since = self.ticks.at(now);
    }

    /// Takes the smoothed RTT, in whole ticks, at every ACK.
    pub(super) fn sample(&mut self, ack: &Ack) {
        self.samples = self.samples.saturating_add(u8::from(ack.rtt.is_some())).min(SAMPLES);
        if self.samples < SAMPLES {
            return;
        }
        let srtt = self.ticks.span(ack.srtt);
        if self.rtt_min == 0 || srtt < self.rtt_min {
            self.rtt_min = srtt.max(1);
            self.rtt_mean = self.rtt_mean.max(self.rtt_min);
        }
        self.srtt_sum += u64::from(srtt);
        self.srtt_count += 1;
    }

    /// Congestion avoidance.
    pub(super) fn grow(&mut self, ack: &Ack, control: &mut Control, growth: &mut Growth) {
        if self.rtt_min == 0 {
            growth.avoid(ack, control, credit(ack));
            return;
        }
        if !self.is_step_due(ack, control) {
            return;
        }
        let t = self.ticks.at(ack.now).wrapping_sub(self.since);
        let friendly = if self.friendliness { self.friendly(t, control.mss) } else { 0 };
        let target = self.curve(t + self.rtt_mean, control.mss);
        if target < friendly {
            control.cwnd = friendly.max(u64::from(control.mss));
        } else if control.cwnd < target {
            control.cwnd = match ack.counting {
                Counting::Bytes { .. } => target,
                // Without RFC 3465, every ACK covers its share of the distance.
                _ => control.cwnd + (target - control.cwnd) * u64::from(control.mss) / control.cwnd,
            };
        }
        if self.events == 0 {
            self.w_max = self.w_max.max(control.cwnd);
        }
    }

    /// Whether a step is due: with RFC 3465 the window moves once per acknowledged window.
    fn is_step_due(&mut self, ack: &Ack, control: &Control) -> bool {
        let Counting::Bytes { limit } = ack.counting else { return true };
        self.acked += ack.newly_acked.min(u64::from(limit) * u64::from(control.mss));
        let is_due = self.acked >= control.cwnd;
        if is_due {
            self.acked -= control.cwnd;
        }
        is_due
    }

    /// W(t), `ticks` after the last recovery.
    pub(super) fn curve(&self, ticks: u32, mss: u32) -> Bytes {
        let hz = i64::from(self.ticks.hz);
        let offset = i128::from(((i64::from(ticks) << 8) - self.k * hz) / hz);
        let climb = (offset * offset * offset * i128::from(self.c) * i128::from(mss)) >> 32;
        let window = climb.clamp(-(1 << 60), 1 << 60) as i64 + self.w_max as i64;
        window.max(0) as u64
    }

    /// Meant as β·W_max + 3(1 − β)/(1 + β)·t/RTT. The product is computed in 32 bits, which overflow after 75 ms at
    /// 1000 Hz, so the second term never reaches half a segment.
    fn friendly(&self, ticks: u32, mss: u32) -> Bytes {
        let lost = u32::from(self.lost);
        let product = (3 * lost).wrapping_mul(ticks).wrapping_mul(mss).wrapping_mul(256);
        (self.w_max * u64::from(self.beta) + u64::from(product / (512 - lost) / self.rtt_mean)) >> 8
    }

    /// The window after a congestion event.
    pub(super) fn reduce(&mut self, congestion: &Congestion, control: &Control) -> Bytes {
        self.acked = 0;
        if let Signal::Timeout { first } = congestion.signal {
            // The first may be spurious, but each restarts the clock.
            self.events += u32::from(!first);
            self.since = self.ticks.at(congestion.now);
            return freebsd_half(congestion, control);
        }
        if congestion.signal == Signal::Ecn {
            self.since = self.ticks.at(congestion.now);
        }
        let kept = if self.events == 0 { 128 } else { u64::from(self.beta) };
        self.events += 1;
        self.w_max_before = self.w_max;
        self.w_max = control.cwnd;
        ((control.cwnd * kept) >> 8).max(landing(0, control.mss))
    }

    /// Recovery has ended, and the stack has set the window.
    pub(super) fn recovered(&mut self, change: &PhaseChange, control: &mut Control) {
        let beta = u64::from(self.beta);
        if self.fast_convergence && self.w_max < self.w_max_before {
            self.w_max = (self.w_max * (128 + beta / 2)) >> 8;
        }
        // After convergence this is less than ssthresh, so slow start makes up the difference.
        if change.from == Phase::Recovery && change.snd_nxt - change.snd_una >= control.ssthresh {
            control.cwnd = ((self.w_max * beta) >> 8).max(u64::from(control.mss));
        }
        self.since = self.ticks.at(change.now);
        if self.srtt_count > 0 && self.srtt_sum >= self.srtt_count {
            self.rtt_mean = (self.srtt_sum / self.srtt_count) as u32;
        }
        (self.srtt_sum, self.srtt_count) = (0, 0);
        self.k = self.k_256(self.w_max / u64::from(control.mss));
    }

    /// W_max in segments, K in seconds, and the start of the friendly window in segments.
    pub(super) fn internals(&self) -> (f64, f64, f64) {
        let w_max = self.w_max as f64 / f64::from(self.mss);
        (w_max, self.k as f64 / 256.0, w_max * f64::from(self.beta) / 256.0)
    }

    /// K = ∛((1 − β)·W_max/C) in 1/256 s: scaled by eighths into (1/8, 1], where a parabola approximates the root.
    fn k_256(&self, segments: u64) -> i64 {
        let mut cube = ((segments * u64::from(self.lost)) << 8) / u64::from(self.c);
        let mut doublings = 0;
        while cube >= 256 {
            cube >>= 3;
            doublings += 1;
        }
        // 0.381 + 1.072·x − 0.469·x²
        let root = 98 + ((cube * 275) >> 8) - ((cube * cube * 120) >> 16);
        (root << doublings) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cubic, Law};
    use super::*;
    use crate::cc::CongestionControl;
    use crate::cc::fixture::{Lab, MSS, build, named};
    use crate::time::Duration;

    fn cubic() -> Cubic {
        build(&[("variant", named("freebsd"))])
    }

    fn law(cubic: &mut Cubic) -> &mut FreeBsd {
        let Law::FreeBsd(law) = &mut cubic.law else { unreachable!() };
        law
    }

    #[test]
    fn k_is_the_cube_root_as_far_as_a_parabola_and_eight_bits_go() {
        // W_max 100: 12800/64 = 200; 98 + 214 − 73 = 239; ·4. W_max 133: 17024/512 = 33; 98 + 35 − 1 = 132; ·8.
        let mut cubic = cubic();
        for (w_max, k, ideal) in [(100, 956, 3.6840), (133, 1056, 4.0514)] {
            let found = law(&mut cubic).k_256(w_max);
            assert_eq!(found, k);
            assert!((found as f64 / 256.0 / ideal - 1.0).abs() < 0.02, "{found}");
        }
    }

    #[test]
    fn the_curve_has_the_tabulated_values_within_its_bits() {
        // β 0.8, W_max 100: 80.00 at once, 98.09 after 2 s, 104.97 after 6 s, 132.16 after 8 s.
        let mut cubic = cubic();
        let law = law(&mut cubic);
        (law.w_max, law.k) = (100 * u64::from(MSS), (3.6840 * 256.0) as i64);
        for (seconds, expected) in [(0, 80.00), (2, 98.09), (6, 104.97), (8, 132.16)] {
            let found = law.curve(seconds * 1000, MSS) as f64 / f64::from(MSS);
            assert!((found / expected - 1.0).abs() < 0.01, "{seconds}: {found}");
        }
    }

    #[test]
    fn the_first_loss_halves_and_later_ones_keep_four_fifths() {
        let mut cubic = cubic();
        let mut lab = Lab::avoiding(100, Counting::Bytes { limit: 2 });
        for kept in [50_000, 79_687] {
            lab.control.cwnd = 100_000;
            cubic.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
            assert_eq!(lab.control.ssthresh, kept);
        }
    }

    #[test]
    fn after_convergence_the_window_lands_below_ssthresh() {
        let mut cubic = cubic();
        let mut lab = Lab::avoiding(100, Counting::Bytes { limit: 2 });
        law(&mut cubic).events = 1;
        law(&mut cubic).w_max = 120_000;
        cubic.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
        lab.control.cwnd = lab.control.ssthresh;
        let change = PhaseChange {
            now: lab.now,
            from: Phase::Recovery,
            to: Phase::Open,
            completes: true,
            snd_una: 0,
            snd_nxt: 100_000,
            srtt: lab.rtt,
            delivered: 100_000,
            delivered_at: lab.now,
            lost: 0,
        };
        cubic.on_phase(&change, &mut lab.control);
        // 100 000·230/256 = 89 843; ·204/256 = 71 593.
        assert_eq!((law(&mut cubic).w_max, lab.control.cwnd, lab.control.ssthresh), (89_843, 71_593, 79_687));
    }

    #[test]
    fn the_window_moves_once_for_every_window_acknowledged() {
        let mut cubic = cubic();
        let mut lab = Lab::avoiding(100, Counting::Bytes { limit: 2 });
        lab.lose(&mut cubic);
        lab.round(&mut cubic);
        lab.now += Duration::from_secs(6);
        let before = lab.control.cwnd;
        let moves = (0..200)
            .filter(|_| {
                let was = lab.control.cwnd;
                let ack = lab.ack(1);
                cubic.on_plain_ack(&mut ack.clone(), lab.inclusive, &mut lab.control);
                lab.control.cwnd != was
            })
            .count();
        assert!(lab.control.cwnd > before && (1..=3).contains(&moves), "{moves}");
    }

    #[test]
    fn the_friendly_window_hardly_leaves_its_start() {
        let mut cubic = cubic();
        let law = law(&mut cubic);
        (law.w_max, law.rtt_mean) = (100_000, 100);
        for ticks in [0, 50, 500, 5_000, 50_000] {
            let found = law.friendly(ticks, 1448);
            assert!((79_687..80_060).contains(&found), "{ticks}: {found}");
        }
    }
}
