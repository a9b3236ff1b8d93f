//! CDG: backs off, with a probability, when the RTT rises from one round trip to the next.

#[cfg(test)]
mod tests;

use super::parts::clock::{span_us, us32};
use super::parts::decrease::{freebsd_half, landing};
use super::parts::ertt::{Ertt, UNIT};
use super::parts::growth::Growth;
use super::registry::Registered;
use super::{Ack, Congestion, CongestionControl, Control, Phase, PhaseChange};
use crate::math;
use crate::params::{Card, Checked, ParamSpec, ms, s, us};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "cdg",
    title: "CAIA Delay-Gradient",
    law: "g_min and g_max are the changes of the smallest and largest RTT of a round trip, averaged over 8; \
          with probability 1 − e^(−g/G) w ← 0.7·w. Increase and loss are Reno's, but a shadow window remembers \
          what delay backoffs gave up, and a loss with an empty queue costs nothing (loss tolerance)",
    source: "Hayes and Armitage, IFIP Networking 2011 (LNCS 6641); FreeBSD `cc_cdg` 0.1; Linux `tcp_cdg`",
    differs: &[
        "`linux`: microseconds, the 8-entry sums instead of averages, backoff through the CWR state, no loss \
              tolerance unless asked for, HyStart, shadow window reduced to half before it is used. The end \
              that answers a handshake has a sample of it too, which Linux takes at the other end only",
        "`freebsd`: RTTs of its helper `h_ertt`, so gradients and G count its clock's units; the \
              exponential itself where the module has a table; never below two segments, as in the patch of \
              2011",
    ],
    live_twin: Some("linux:cdg"),
    params: &[
        ParamSpec::choice("variant", &["linux", "freebsd"], "Whose rules; freebsd is CDG v0.1."),
        ParamSpec::share("backoff_beta", 0.7, (0.1, 1.0), "Share kept on a delay backoff.")
            .depends("linux 724/1024, freebsd 0.7"),
        ParamSpec::share("loss_beta", 0.5, (0.1, 1.0), "Share kept on loss."),
        ParamSpec::time("scale", ms(3), (us(50), s(1)), "G: gradient of 63 % backoff probability.")
            .depends("linux 1000/(42*8) = 2.976, freebsd 3 ticks"),
        UNIT,
        ParamSpec::flag("shadow", true, "Loss uses the shadow window."),
        ParamSpec::flag("tolerance", true, "Ignore loss unless the queue is judged full.")
            .depends("linux off, freebsd on"),
        ParamSpec::flag("hystart", true, "End slow start as HyStart does.").depends("linux on, freebsd off"),
        ParamSpec::whole("ineffectual", "", 5, (0, 1_000), "Backoffs without effect before they pause."),
        ParamSpec::whole("hold", "round trips", 5, (0, 1_000), "How long they pause (freebsd)."),
        ParamSpec::whole(
            "alpha_inc",
            "round trips",
            0,
            (0, 1_000),
            "Increment +1 every this many; 0 never (freebsd).",
        ),
    ],
};

/// Number of round trips in the average.
const WINDOW: usize = 8;
/// A fall of the RTT sum by more than this (µs) shows that a backoff had an effect (Linux).
const EFFECT_US: i32 = 32;
/// Maximum gap in µs between the ACKs of a train (Linux CDG's HyStart).
const TRAIN_GAP_US: u32 = 3_000;
/// Lower bound on the delay threshold of its HyStart, in µs.
const HYSTART_FLOOR_US: u32 = 125;
/// Limit on the number of single-segment ACKs suspected of being delayed.
const DELACKS: u8 = 5;

/// State of the queue according to the gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    Unknown,
    NotFull,
    Full,
    /// A delay backoff is in progress (Linux).
    Backoff,
}

/// Minimum and maximum RTT of a round trip, or their changes; in µs, or in FreeBSD's units; zero: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct MinMax {
    min: i32,
    max: i32,
}

/// CDG's state. All but the end of the round trip is rarely used, so all of it is boxed.
#[derive(Clone, Debug)]
pub struct Cdg {
    state: Box<State>,
}

#[derive(Clone, Debug)]
struct State {
    is_freebsd: bool,
    use_shadow: bool,
    use_tolerance: bool,
    hystart: bool,
    wants: bool,
    /// Whether the gradient window has been filled once.
    filled: bool,
    queue: Queue,
    tail: u8,
    doubted: u8,
    samples: u8,
    /// Number of backoffs without effect.
    ineffectual: u32,
    consecutive_limit: u32,
    hold: u32,
    alpha_inc: u32,
    /// Number of round trips since the increment last grew (FreeBSD).
    rounds: u32,
    increment: u32,
    backoff_beta: f64,
    loss_beta: f64,
    /// G, in ms per round trip.
    scale_ms: f64,
    /// FreeBSD's RTTs, and the end of the round trip of its last delay backoff.
    ertt: Ertt,
    backoff_end: u64,
    /// Shadow window in segments.
    shadow: u64,
    end: u64,
    round: MinMax,
    before: MinMax,
    sum: MinMax,
    ring: [MinMax; WINDOW],
    delay_min: u32,
    last_ack: u32,
    round_start: u32,
    growth: Growth,
    stream: Stream,
}

impl Registered for Cdg {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let is_freebsd = given.choice("variant") == "freebsd";
        let ertt = Ertt::new(given.time(UNIT.name));
        let scale = if is_freebsd { 3.0 * ertt.unit_ms() } else { 1_000.0 / (42.0 * WINDOW as f64) };
        let beta = if is_freebsd { 0.7 } else { 724.0 / 1024.0 };
        let state = State {
            is_freebsd,
            use_shadow: given.flag("shadow"),
            use_tolerance: given.given_flag("tolerance").unwrap_or(is_freebsd),
            hystart: given.given_flag("hystart").unwrap_or(!is_freebsd),
            wants: false,
            filled: false,
            queue: Queue::Unknown,
            tail: 0,
            doubted: 0,
            samples: 0,
            ineffectual: 0,
            consecutive_limit: given.whole("ineffectual") as u32,
            hold: given.whole("hold") as u32,
            alpha_inc: given.whole("alpha_inc") as u32,
            rounds: 0,
            increment: 1,
            backoff_beta: given.given_number("backoff_beta").unwrap_or(beta),
            loss_beta: given.number("loss_beta"),
            scale_ms: given.given_time("scale").map_or(scale, |scale| scale.as_ps() as f64 / 1e9),
            ertt,
            backoff_end: 0,
            shadow: 0,
            end: 0,
            round: MinMax::default(),
            before: MinMax::default(),
            sum: MinMax::default(),
            ring: [MinMax::default(); WINDOW],
            delay_min: 0,
            last_ack: 0,
            round_start: 0,
            growth: Growth::default(),
            stream: Stream::named(seed, "cdg"),
        };
        Ok(Cdg { state: Box::new(state) })
    }
}

impl CongestionControl for Cdg {
    fn on_established(&mut self, _now: Time, srtt: Option<Duration>, control: &mut Control) {
        if !self.state.is_freebsd {
            // Linux calls `pkts_acked` for the SYN too. Its minimum is lower than that of full segments. So the first
            // gradients of the minimum are positive and small, and those of the maximum are not used.
            if let Some(rtt_us) = srtt.map(|rtt| span_us(rtt) as i32) {
                self.state.round = MinMax { min: rtt_us, max: rtt_us };
            }
        }
        self.state.shadow = control.cwnd_segments();
    }

    fn on_sample(&mut self, ack: &Ack, _control: &mut Control) {
        if !self.state.is_freebsd {
            self.state.sample(ack);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let state = &mut *self.state;
        if state.is_freebsd {
            state.sample(ack);
        }
        if !ack.advances() && (state.is_freebsd || !ack.may_grow) {
            return;
        }
        if state.is_freebsd {
            state.freebsd(ack, control);
        } else {
            state.linux(ack, control);
        }
    }

    fn wants_reduction(&self) -> bool {
        self.state.wants
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let state = &mut *self.state;
        state.growth.clear();
        state.wants = false;
        if state.is_freebsd {
            control.ssthresh = state.freebsd_landing(congestion, control);
        } else if !congestion.is_repeated_timeout() {
            control.ssthresh = state.linux_landing(control);
        }
    }

    fn on_phase(&mut self, change: &PhaseChange, _control: &mut Control) {
        let state = &mut *self.state;
        // Not if another reduction follows at once.
        if change.completes && !state.is_freebsd {
            // The reduction itself is not a gradient: a new round trip begins after the sample of the ACK that ended
            // it.
            state.queue = Queue::Unknown;
            state.end = change.snd_nxt;
            state.before = std::mem::take(&mut state.round);
        }
    }

    fn on_idle_restart(&mut self, _now: Time, _idle: Duration, control: &mut Control) {
        let state = &mut *self.state;
        if state.is_freebsd {
            return;
        }
        state.ring = [MinMax::default(); WINDOW];
        state.sum = MinMax::default();
        state.round = MinMax::default();
        state.before = MinMax::default();
        state.filled = false;
        state.tail = 0;
        state.queue = Queue::Unknown;
        (state.delay_min, state.ineffectual, state.doubted) = (0, 0, 0);
        (state.samples, state.last_ack, state.round_start) = (0, 0, 0);
        state.shadow = control.cwnd_segments();
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        let per_ms = WINDOW as f64 / self.state.unit_ms();
        out.push(("gradient_min_ms", f64::from(self.state.sum.min) / per_ms));
        out.push(("gradient_max_ms", f64::from(self.state.sum.max) / per_ms));
        out.push(("shadow", self.state.shadow as f64));
        out.push(("ineffectual", f64::from(self.state.ineffectual)));
    }
}

impl State {
    fn sample(&mut self, ack: &Ack) {
        let rtt = match self.is_freebsd {
            true => self.sample_freebsd(ack),
            false => self.sample_linux(ack),
        };
        if let Some(rtt) = rtt {
            self.round.min = if self.round.min == 0 { rtt } else { self.round.min.min(rtt) };
            self.round.max = self.round.max.max(rtt);
        }
    }

    fn sample_linux(&mut self, ack: &Ack) -> Option<i32> {
        let rtt_us = span_us(ack.rtt?) as i32;
        // A single-segment ACK after ACKs of two may have been delayed, so it counts only if its RTT is lower. While
        // data is SACKed, ACKs are not delayed.
        let may_wait = matches!(ack.phase, Phase::Open | Phase::Cwr);
        if may_wait && ack.newly_acked_segments == 1 && self.doubted > 0 {
            self.round.min = self.round.min.min(rtt_us);
            self.doubted -= 1;
            return None;
        }
        if may_wait && ack.newly_acked_segments > 1 && self.doubted < DELACKS {
            self.doubted += 1;
        }
        Some(rtt_us)
    }

    /// The module uses the helper's latest sample on every ACK, new or not.
    fn sample_freebsd(&mut self, ack: &Ack) -> Option<i32> {
        self.ertt.sample(ack);
        (self.ertt.latest > 0).then_some(self.ertt.latest as i32)
    }

    /// Adds this round trip's change to the gradient window; returns it and updates the sums.
    fn gradient(&mut self) -> MinMax {
        let change = MinMax { min: self.round.min - self.before.min, max: self.round.max - self.before.max };
        let oldest = std::mem::replace(&mut self.ring[usize::from(self.tail)], change);
        self.sum.min += change.min - oldest.min;
        self.sum.max += change.max - oldest.max;
        self.tail = (self.tail + 1) % WINDOW as u8;
        change
    }

    /// Whether to back off, with probability 1 − e^(−g/G); g in µs (FreeBSD: units) per round trip.
    fn backs_off(&mut self, gradient: f64) -> bool {
        self.stream.uniform() < backoff_probability(gradient * self.unit_ms(), self.scale_ms)
    }

    /// Milliseconds per unit of RTT.
    fn unit_ms(&self) -> f64 {
        if self.is_freebsd { self.ertt.unit_ms() } else { 1e-3 }
    }

    fn linux(&mut self, ack: &Ack, control: &mut Control) {
        self.wants = false;
        if ack.in_slow_start && self.hystart {
            self.watch_slow_start(ack, control);
        }
        if ack.snd_una > self.end && self.round.max > 0 {
            let gradient = if self.before.max > 0 { self.linux_gradient() } else { 0 };
            self.end = ack.snd_nxt;
            self.before = std::mem::take(&mut self.round);
            self.last_ack = 0;
            self.samples = 0;
            if gradient > 0 && self.linux_backs_off(gradient, control) {
                return;
            }
        }
        let window = control.cwnd_segments();
        if !ack.may_grow {
            self.shadow = self.shadow.min(window);
            return;
        }
        let in_slow_start = ack.in_slow_start && control.cwnd < control.ssthresh;
        self.growth.reno(&Ack { in_slow_start, ..*ack }, control);
        self.shadow += control.cwnd_segments() - window;
    }

    /// Sum of gradients over eight round trips, extrapolated while there are fewer.
    fn linux_gradient(&mut self) -> i32 {
        self.gradient();
        let MinMax { min, max } = self.sum;
        let mut gradient = if min > 0 { min } else { max };
        if !self.filled {
            if self.tail == 0 {
                self.filled = true;
            } else {
                gradient = (i64::from(gradient) * WINDOW as i64 / i64::from(self.tail)) as i32;
            }
        }
        if min <= -EFFECT_US || max <= -EFFECT_US {
            self.ineffectual = 0;
        }
        if self.use_tolerance {
            // Changes below 1/32 ms over the window are noise.
            let (min, max) = ((min + 32).div_euclid(64), (max + 32).div_euclid(64));
            if min > 0 && max <= 0 {
                self.queue = Queue::Full;
            } else if (min > 0 && max > 0) || max < 0 {
                self.queue = Queue::NotFull;
            }
        }
        gradient
    }

    fn linux_backs_off(&mut self, sum_us: i32, control: &Control) -> bool {
        if !self.backs_off(f64::from(sum_us) / WINDOW as f64) {
            return false;
        }
        if self.consecutive_limit > 0 {
            self.ineffectual += 1;
            if self.ineffectual > self.consecutive_limit {
                return false;
            }
        }
        self.shadow = self.shadow.max(control.cwnd_segments());
        self.queue = Queue::Backoff;
        self.wants = true;
        true
    }

    fn linux_landing(&mut self, control: &Control) -> Bytes {
        let window = control.cwnd_segments();
        if self.queue == Queue::Backoff {
            return landing((window as f64 * self.backoff_beta) as u64, control.mss);
        }
        if self.queue == Queue::NotFull && self.use_tolerance {
            return landing(window, control.mss);
        }
        self.shadow = (self.shadow / 2).min(window);
        let kept = (window as f64 * self.loss_beta) as u64;
        landing(if self.use_shadow { kept.max(self.shadow) } else { kept }, control.mss)
    }

    fn watch_slow_start(&mut self, ack: &Ack, control: &mut Control) {
        let least = self.round.min as u32;
        // Zero means no sample: a round trip may begin with an ACK suspected of being delayed.
        self.delay_min = match (self.delay_min, least) {
            (0, _) => least,
            (_, 0) => self.delay_min,
            (known, _) => known.min(least),
        };
        if self.delay_min == 0 {
            return;
        }
        let now = us32(ack.now);
        if self.last_ack == 0 || !ack.cwnd_limited {
            self.last_ack = now;
            self.round_start = now;
        } else if now.wrapping_sub(self.last_ack) < TRAIN_GAP_US {
            self.last_ack = now;
            if now.wrapping_sub(self.round_start) > (self.delay_min / 2).max(HYSTART_FLOOR_US) {
                control.ssthresh = control.cwnd.max(landing(0, control.mss));
                return;
            }
        }
        if self.samples < 8 {
            self.samples += 1;
        } else if least > (self.delay_min + self.delay_min / 8).max(HYSTART_FLOOR_US) {
            control.ssthresh = control.cwnd.max(landing(0, control.mss));
        }
    }

    fn freebsd(&mut self, ack: &Ack, control: &mut Control) {
        let is_measured = self.ertt.marked(ack).is_some();
        let mut is_congested = false;
        if is_measured {
            is_congested = self.before.max > 0 && self.freebsd_round(ack.in_slow_start);
            self.before = std::mem::take(&mut self.round);
        }
        if is_congested {
            self.freebsd_answer(ack, control);
            return;
        }
        if !ack.may_grow {
            return;
        }
        // Up to ssthresh the window grows by one segment per ACK, however the stack counts.
        let in_slow_start = control.cwnd <= control.ssthresh;
        if in_slow_start {
            self.reset_increment();
        }
        let (segments, reno) = match (in_slow_start, is_measured) {
            (true, _) => (1, 1),
            (false, true) => (self.freebsd_increment(), 1),
            (false, false) => (0, 0),
        };
        control.cwnd += u64::from(segments) * u64::from(control.mss);
        if self.shadow > 0 {
            self.shadow += reno;
        }
    }

    /// Evaluates a round trip; true if it shows congestion.
    fn freebsd_round(&mut self, in_slow_start: bool) -> bool {
        let change = self.gradient();
        let MinMax { min, max } = self.sum;
        self.queue = match (min.signum(), max.signum()) {
            (1, -1 | 0) => Queue::Full,
            (0, -1) => {
                self.shadow = 0;
                Queue::NotFull
            }
            (1, 1) | (-1, -1) => Queue::NotFull,
            _ => self.queue,
        };
        if min < 0 || max < 0 {
            self.ineffectual = 0;
        }
        let average = |sum: i32| f64::from(sum) / WINDOW as f64;
        let gradient = if in_slow_start && change.min > 0 {
            f64::from(change.min)
        } else if min > 0 {
            average(min)
        } else if in_slow_start && change.max > 0 {
            f64::from(change.max)
        } else if max > 0 {
            average(max)
        } else {
            return false;
        };
        self.backs_off(gradient)
    }

    /// Congestion: backs off, unless too many backoffs had no effect; then it neither backs off nor grows.
    fn freebsd_answer(&mut self, ack: &Ack, control: &mut Control) {
        self.ineffectual += 1;
        if ack.snd_una < self.backoff_end {
            return;
        }
        if self.consecutive_limit == 0 || self.ineffectual <= self.consecutive_limit {
            self.freebsd_back_off(control);
            self.backoff_end = ack.snd_nxt;
        } else if self.ineffectual >= self.consecutive_limit + self.hold {
            self.ineffectual = 0;
        }
        // The effect shows in the round trip after the next; until then there is no gradient.
        self.before = MinMax::default();
        self.shadow = self.shadow.max(control.cwnd_segments());
    }

    fn freebsd_back_off(&mut self, control: &mut Control) {
        let kept = (control.cwnd as f64 * self.backoff_beta) as u64;
        control.cwnd = kept.max(landing(0, control.mss)).min(control.cwnd);
        control.ssthresh = control.cwnd.max(landing(0, control.mss));
        self.reset_increment();
    }

    fn reset_increment(&mut self) {
        self.increment = 1;
        self.rounds = 0;
    }

    fn freebsd_increment(&mut self) -> u32 {
        self.rounds += 1;
        if self.alpha_inc > 0 && self.rounds >= self.alpha_inc {
            self.rounds = 0;
            self.increment += 1;
        }
        self.increment
    }

    fn freebsd_landing(&mut self, congestion: &Congestion, control: &Control) -> Bytes {
        use super::Signal;
        if congestion.signal != Signal::Loss {
            return freebsd_half(congestion, control);
        }
        let window = control.cwnd_segments();
        let is_answered = congestion.snd_una < self.backoff_end;
        if self.use_tolerance && (is_answered || self.queue == Queue::NotFull) {
            return landing(window, control.mss);
        }
        self.reset_increment();
        self.shadow /= 2;
        let kept = (window as f64 * self.loss_beta) as u64;
        landing(if self.use_shadow { kept.max(self.shadow) } else { kept }, control.mss)
    }
}

/// 1 − e^(−g/G) for a positive gradient, both in ms per round trip; 1 above 5·G.
fn backoff_probability(gradient_ms: f64, scale_ms: f64) -> f64 {
    if gradient_ms > 5.0 * scale_ms { 1.0 } else { 1.0 - math::exp(-gradient_ms.max(0.0) / scale_ms) }
}
