//! LEDBAT: a background transfer that keeps the queueing delay at a target and yields to other flows.
//!
//! Cost: an ACK takes twice NewReno's instructions and up to six times its time. Each sample is written to two tables
//! of delays, whose minima are needed at once.

use super::parts::clock::span_us;
use super::parts::decrease::{half, landing};
use super::parts::growth::{Fraction, Growth};
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control};
use crate::params::{Card, Checked, ParamSpec, ms, s};
use crate::scenario::ScenarioError;

const CARD: Card = Card {
    name: "ledbat",
    title: "LEDBAT",
    law: "w ← w + GAIN·(TARGET − queueing delay)/TARGET·acked/w an ACK; loss halves, once a round trip",
    source: "RFC 6817 section 2.4",
    differs: &[
        "The delay is the round trip's, not the one-way delay of timestamps: a queue on the way back counts \
              too",
        "The base history keeps ten one-minute minima as recommended; the current delay is the least of the \
              last four samples",
        "The RFC has no slow start; `slow_start` adds one, until the delay reaches 3/4 of the target",
    ],
    live_twin: None,
    params: &[
        ParamSpec::time("target", ms(100), (ms(1), s(1)), "Queueing delay to hold; at most 100 in the RFC."),
        ParamSpec::number("gain", "", 1.0, (0.01, 16.0), "Segments a round trip at zero queueing delay."),
        ParamSpec::flag("slow_start", false, "Begin with slow start; the RFC has none."),
    ],
};

/// BASE_HISTORY: minutes.
const MINUTES: usize = 10;
/// CURRENT_FILTER: samples.
const SAMPLES: usize = 4;
/// ALLOWED_INCREASE: number of segments by which the window may exceed the flight.
const ALLOWED_INCREASE: u64 = 1;
/// No sample yet.
const NONE: u32 = u32::MAX;

/// LEDBAT's state.
#[derive(Clone, Debug)]
pub struct Ledbat {
    target_us: u32,
    gain: f32,
    slow_start: bool,
    next_sample: u8,
    /// The minute of the first entry of `base`.
    minute: u32,
    /// Minimum delay of this minute and of the nine before, newest first.
    base: [u32; MINUTES],
    current: [u32; SAMPLES],
    fraction: Fraction,
    growth: Growth,
}

impl Registered for Ledbat {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Ledbat {
            target_us: given.time("target").as_us() as u32,
            gain: given.number("gain") as f32,
            slow_start: given.flag("slow_start"),
            next_sample: 0,
            minute: 0,
            base: [NONE; MINUTES],
            current: [NONE; SAMPLES],
            fraction: Fraction::default(),
            growth: Growth::default(),
        })
    }
}

impl CongestionControl for Ledbat {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if let Some(rtt) = ack.rtt {
            self.sample(span_us(rtt), (ack.now.as_us() / 60_000_000) as u32);
        }
        if !ack.advances() {
            return;
        }
        let Some(queueing_us) = self.queueing_us() else { return };
        if self.slow_start && ack.in_slow_start && queueing_us < self.target_us / 4 * 3 {
            if ack.may_grow {
                self.growth.slow_start(ack, control);
            }
            return;
        }
        self.slow_start = false;
        let mss = f64::from(control.mss);
        let acked = ack.newly_acked as f64 / mss;
        // The law over a common denominator: a division costs more than the rest.
        let off_target = f64::from(self.target_us) - f64::from(queueing_us);
        let step = f64::from(self.gain) * off_target * ack.newly_acked as f64
            / (f64::from(self.target_us) * control.cwnd as f64);
        if step > 0.0 && !ack.may_grow {
            return;
        }
        // Far above the target the law would take more than the whole window.
        self.fraction.add(control, step.max(-acked), 2);
        let allowed = ack.prior_in_flight + ALLOWED_INCREASE * u64::from(control.mss);
        control.cwnd = control.cwnd.min(allowed).max(landing(0, control.mss));
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.growth.clear();
        self.fraction.clear();
        self.slow_start &= !congestion.is_timeout();
        if !congestion.is_repeated_timeout() {
            control.ssthresh = half(control);
        }
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.push(("queueing_s", self.queueing_us().map_or(f64::NAN, |us| f64::from(us) / 1e6)));
    }
}

impl Ledbat {
    fn sample(&mut self, delay_us: u32, minute: u32) {
        self.current[usize::from(self.next_sample)] = delay_us;
        self.next_sample = (self.next_sample + 1) % SAMPLES as u8;
        let passed = (minute - self.minute) as usize;
        if passed > 0 {
            self.base.rotate_right(passed.min(MINUTES));
            self.base[..passed.min(MINUTES)].fill(NONE);
            self.minute = minute;
        }
        self.base[0] = self.base[0].min(delay_us);
    }

    fn queueing_us(&self) -> Option<u32> {
        let least = |delays: &[u32]| delays.iter().copied().min().filter(|delay| *delay != NONE);
        Some(least(&self.current)?.saturating_sub(least(&self.base)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Counting;
    use crate::cc::fixture::{Lab, build};
    use crate::time::Duration;

    #[test]
    fn the_queue_is_held_at_the_target() {
        // 50 segments fill 100 ms; each beyond adds 2 ms: 50 more are 100 ms.
        for start in [20, 180] {
            let mut ledbat = build::<Ledbat>(&[]);
            ledbat.sample(100_000, 0);
            let mut lab = Lab::avoiding(start, Counting::PerSegment);
            for _ in 0..600 {
                lab.rtt = Duration::from_ms(100 + 2 * lab.window().saturating_sub(50));
                lab.now = crate::time::Time::from_ms(1000);
                lab.round(&mut ledbat);
            }
            assert!((96..=101).contains(&lab.window()), "from {start}: {}", lab.window());
        }
    }

    #[test]
    fn an_empty_queue_grows_by_the_gain() {
        let mut ledbat = build::<Ledbat>(&[]);
        let mut lab = Lab::avoiding(20, Counting::PerSegment);
        let windows = lab.windows(&mut ledbat, 11);
        assert!((29..=30).contains(&windows[10]), "{windows:?}");
    }

    #[test]
    fn the_base_forgets_after_ten_minutes() {
        let mut ledbat = build::<Ledbat>(&[]);
        ledbat.sample(50_000, 0);
        (0..4).for_each(|_| ledbat.sample(80_000, 9));
        assert_eq!(ledbat.queueing_us(), Some(30_000));
        ledbat.sample(80_000, 10);
        assert_eq!(ledbat.queueing_us(), Some(0));
    }
}
