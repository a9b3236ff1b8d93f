//! PIE: drops arrivals with a probability that a proportional-integral controller steers to a target delay.

use super::parts::{Line, Period};
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::{Ecn, Packet};
use crate::params::{Card, Checked, ParamSpec, ms, s, us};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "pie",
    title: "PIE",
    law: "every `t_update`: p += α(q − target) + β(q − q_old), in smaller steps while p is small",
    source: "RFC 8033 section 4 and 5; variant linux: Linux 6.1 sch_pie.c",
    differs: &[
        "The delay q is the sojourn time of the last packet sent, zero when the queue is empty (RFC 8033 \
              section 5.2 allows it, Linux does it since 5.6); the departure-rate estimator is left out, for \
              ns-3.27 too",
        "`variant` linux at HZ 250: an update comes every `t_update` rounded up to ticks of 4 ms and one tick more \
              (20 ms for 15); the burst is spent by the time between departures, not between updates; p is not \
              bounded by 1 and does not decay while packets wait; a mark at the accumulated bound does not reset \
              what has accumulated; arrivals are spared by the last departure's delay",
        "Linux begins its updates half a second after the queue was made; here it was made before the run began",
    ],
    live_twin: Some("linux:pie"),
    params: &[
        ParamSpec::choice("variant", &["rfc8033", "linux", "ns-3.27"], "Whose defaults."),
        ParamSpec::time("target", ms(15), (us(1), s(10)), "Delay to hold.").depends("15; ns-3.27 20"),
        ParamSpec::time("t_update", ms(15), (us(100), s(10)), "Time between updates of p.")
            .depends("15, which linux makes 20; ns-3.27 30"),
        ParamSpec::number("alpha", "1/s", 0.125, (0.0, 100.0), "Weight of the distance to the target."),
        ParamSpec::number("beta", "1/s", 1.25, (0.0, 100.0), "Weight of the change of delay."),
        ParamSpec::time("max_burst", ms(150), (ms(0), s(100)), "Burst let through untouched.")
            .depends("150; ns-3.27 100"),
        ParamSpec::whole("limit_packets", "packets", 1000, (1, 1 << 31), "Most packets held.")
            .depends("1000 (Linux); ns-3.27 25"),
        ParamSpec::size("mtu", 1500, (1, 65_536), "No drops while less than two of these are queued."),
        ParamSpec::flag(
            "ecn",
            false,
            "Mark ECN-capable packets instead of dropping them while p is at most 0.1.",
        ),
    ],
};

/// PIE.
#[derive(Clone, Debug)]
pub struct Pie {
    line: Line,
    law: Law,
    probability: f64,
    /// Drop probability accumulated since the last drop, for derandomisation.
    accumulated: f64,
    burst_left: Duration,
    delay: Duration,
    delay_old: Duration,
    /// Linux: time of the last departure, from which the burst allowance is spent; `None` since PIE was at rest.
    departed: Option<Time>,
    updates: Period,
    random: Stream,
}

#[derive(Clone, Debug)]
struct Law {
    target: Duration,
    alpha: f64,
    beta: f64,
    t_update: Duration,
    max_burst: Duration,
    limit: u32,
    mtu: Bytes,
    marks: bool,
    /// Uses sch_pie.c since Linux 5.6 where it differs from RFC 8033.
    is_linux: bool,
}

/// RFC 8033 section 5.5: no drop before this much probability has accumulated.
const ACCUMULATED_MIN: f64 = 0.85;
/// RFC 8033 section 5.5: always a drop once this much probability has accumulated.
const ACCUMULATED_MAX: f64 = 8.5;
/// RFC 8033 section 5.1: ECN marks replace drops only up to this probability.
const MARK_BELOW: f64 = 0.1;
/// Timer tick of Linux at HZ 250.
const TICK: Duration = Duration::from_ms(4);
/// Probability at which Linux's 64-bit value overflows (MAX_PROB is 2⁵⁶ − 1; `pie_calculate_probability`).
const OVERFLOW: f64 = 256.0;
/// RFC 8033 section 4.2: above this delay p rises by 2 % per update regardless of the controller.
const HIGH_DELAY: Duration = Duration::from_ms(250);

/// Update period in Linux: `usecs_to_jiffies` rounds up, and a timer fires one tick after its time.
fn linux_period(asked: Duration) -> Duration {
    TICK * (asked.as_ps().div_ceil(TICK.as_ps()) + 1)
}

impl Registered for Pie {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { kernels: &["pie"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let is_ns3 = given.choice("variant") == "ns-3.27";
        let is_linux = given.choice("variant") == "linux";
        let (target, t_update, burst, limit) = if is_ns3 { (20, 30, 100, 25) } else { (15, 15, 150, 1000) };
        let time = |name: &str, default: u64| given.given_time(name).unwrap_or(ms(default));
        let mut t_update = time("t_update", t_update);
        if is_linux {
            t_update = linux_period(t_update);
        }
        let law = Law {
            target: time("target", target),
            alpha: given.number("alpha"),
            beta: given.number("beta"),
            t_update,
            max_burst: time("max_burst", burst),
            limit: given.given_whole("limit_packets").map_or(limit, |n| n as u32),
            mtu: given.whole("mtu"),
            marks: given.flag("ecn"),
            is_linux,
        };
        Ok(Pie::of(law, around.seed))
    }
}

impl QueueDiscipline for Pie {
    fn enqueue(&mut self, mut packet: Packet, now: Time, fate: &mut Fate) {
        self.catch_up(now);
        if self.line.len() >= self.law.limit {
            self.accumulated = 0.0;
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        if self.chooses() {
            if !(self.law.marks && packet.ecn.is_capable() && self.probability <= MARK_BELOW) {
                self.accumulated = 0.0;
                fate.drop(packet, DropReason::Aqm);
                return;
            }
            packet.ecn = Ecn::Ce;
            fate.mark(packet);
        }
        self.line.push(packet);
    }

    fn dequeue(&mut self, now: Time, _fate: &mut Fate) -> Option<Packet> {
        self.catch_up(now);
        let packet = self.line.pop()?;
        self.delay = if self.line.is_empty() { Duration::ZERO } else { now.since(packet.enqueued) };
        if self.law.is_linux {
            // pie_process_dequeue.
            let gap = self.departed.replace(now).map_or(Duration::ZERO, |before| now.since(before));
            self.burst_left = self.burst_left.saturating_sub(gap);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.line.backlog()
    }
}

impl Pie {
    fn of(law: Law, seed: u64) -> Self {
        Pie {
            line: Line::default(),
            probability: 0.0,
            accumulated: 0.0,
            burst_left: law.max_burst,
            delay: Duration::ZERO,
            delay_old: Duration::ZERO,
            departed: None,
            updates: Period::new(law.t_update),
            random: Stream::named(seed, "pie"),
            law,
        }
    }

    /// Linux's PIE for the queue of one flow, without a limit of its own. Parameters: `target`, `t_update`, `alpha`,
    /// `beta` and `ecn`.
    pub(super) fn of_flow(given: &Checked<'_>, seed: u64) -> Self {
        let law = Law {
            target: given.time("target"),
            alpha: given.number("alpha"),
            beta: given.number("beta"),
            t_update: linux_period(given.time("t_update")),
            max_burst: Duration::from_ms(150),
            limit: u32::MAX,
            mtu: 1500,
            marks: given.flag("ecn"),
            is_linux: true,
        };
        Pie::of(law, seed)
    }

    /// A packet of this queue was dropped for another reason: probability accumulates from zero again.
    pub(super) fn forget_accumulated(&mut self) {
        self.accumulated = 0.0;
    }

    /// Whether to drop or mark the next arrival.
    fn chooses(&mut self) -> bool {
        let delay = if self.law.is_linux { self.delay } else { self.delay_old };
        let is_light = delay < self.law.target / 2 && self.probability < 0.2;
        if !self.burst_left.is_zero() || is_light || self.line.bytes() < 2 * self.law.mtu {
            return false;
        }
        self.accumulated = if self.probability > 0.0 { self.accumulated + self.probability } else { 0.0 };
        if self.accumulated < ACCUMULATED_MIN {
            return false;
        }
        if self.accumulated >= ACCUMULATED_MAX {
            // Linux resets the sum here only if the packet is dropped, so from now on it marks every ECN-capable
            // packet.
            if !self.law.is_linux {
                self.accumulated = 0.0;
            }
            return true;
        }
        let chosen = self.random.chance(self.probability);
        if chosen {
            self.accumulated = 0.0;
        }
        chosen
    }

    #[inline]
    fn catch_up(&mut self, now: Time) {
        while self.updates.due(now).is_some() {
            self.update();
            let is_at_rest = self.probability == 0.0 && self.delay.is_zero() && self.delay_old.is_zero();
            if is_at_rest && self.burst_left == self.law.max_burst && self.departed.is_none() {
                self.updates.skip(now);
            }
        }
    }

    fn update(&mut self) {
        let law = &self.law;
        if !law.is_linux {
            self.burst_left = self.burst_left.saturating_sub(law.t_update);
        }
        let holds = !self.line.is_empty();
        self.probability = law.next_probability(self.probability, self.delay, self.delay_old, holds);
        let is_calm = self.delay < law.target / 2 && self.delay_old < law.target / 2;
        self.delay_old = self.delay;
        if self.probability == 0.0 && is_calm {
            self.burst_left = law.max_burst;
            self.accumulated = 0.0;
            self.departed = None;
        }
    }
}

impl Law {
    /// The probability after an update; `holds`: the queue has packets.
    fn next_probability(&self, p: f64, delay: Duration, delay_old: Duration, holds: bool) -> f64 {
        let (q, q_old, target) = (delay.as_secs_f64(), delay_old.as_secs_f64(), self.target.as_secs_f64());
        // RFC 8033 section 4.2 and 5: smaller p, smaller steps.
        let shrink = match p {
            p if p < 1e-6 => 2048.0,
            p if p < 1e-5 => 512.0,
            p if p < 1e-4 => 128.0,
            p if p < 1e-3 => 32.0,
            p if p < 1e-2 => 8.0,
            p if p < 1e-1 => 2.0,
            _ => 1.0,
        };
        let mut step = (self.alpha * (q - target) + self.beta * (q - q_old)) / shrink;
        if p >= 0.1 && step > 0.02 {
            step = 0.02;
        }
        if delay > HIGH_DELAY {
            step += 0.02;
        }
        let mut p = p + step;
        if self.is_linux {
            p = if p < OVERFLOW { p.max(0.0) } else { 1.0 };
        }
        if delay.is_zero() && delay_old.is_zero() && !(self.is_linux && holds) {
            p *= 1.0 - 1.0 / 64.0;
        }
        if self.is_linux { p } else { p.clamp(0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Params, Value};

    fn pie() -> Pie {
        pie_of("rfc8033")
    }

    fn pie_of(variant: &str) -> Pie {
        let params = Params::from([("variant".into(), Value::Name(variant.into()))]);
        let given = Checked::new(&Pie::CARD, &params, "q").unwrap();
        Pie::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    #[track_caller]
    fn assert_probability(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} against {expected}");
    }

    #[test]
    fn one_update_is_the_controllers_sum() {
        let law = pie().law;
        let ms = Duration::from_ms;
        // 0.125 · 10 ms + 1.25 · 5 ms = 0.0075.
        assert_probability(law.next_probability(0.2, ms(25), ms(20), true), 0.2075);
        assert_probability(law.next_probability(0.05, ms(25), ms(20), true), 0.05 + 0.0075 / 2.0);
        assert_probability(law.next_probability(0.005, ms(25), ms(20), true), 0.005 + 0.0075 / 8.0);
        assert_probability(law.next_probability(0.0, ms(25), ms(20), true), 0.0075 / 2048.0);
    }

    #[test]
    fn steps_are_bounded_above_ten_percent_and_pushed_at_high_delay() {
        let law = pie().law;
        let ms = Duration::from_ms;
        assert_probability(law.next_probability(0.2, ms(200), ms(100), true), 0.22);
        assert_probability(law.next_probability(0.2, ms(300), ms(300), true), 0.2 + 0.02 + 0.02);
        assert_probability(law.next_probability(0.99, ms(300), ms(300), true), 1.0);
    }

    #[test]
    fn probability_decays_when_idle() {
        let law = pie().law;
        // The integral term still pulls by α·target before the decay applies.
        let expected = (0.5 - 0.125 * 0.015) * (1.0 - 1.0 / 64.0);
        assert_probability(law.next_probability(0.5, Duration::ZERO, Duration::ZERO, false), expected);
    }

    fn fill(pie: &mut Pie) {
        let packet = Packet {
            slot: 0,
            flow: crate::packet::FlowId(0),
            bytes: 1500,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        };
        (0..4).for_each(|_| pie.line.push(packet));
    }

    #[test]
    fn arrivals_are_spared_by_the_last_update_and_in_linux_by_the_last_departure() {
        let (short, long) = (Duration::from_ms(2), Duration::from_ms(20));
        for (variant, now, at_update, is_spared) in [
            ("rfc8033", short, long, false),
            ("rfc8033", long, short, true),
            ("linux", short, long, true),
            ("linux", long, short, false),
        ] {
            let mut pie = pie_of(variant);
            fill(&mut pie);
            // At the accumulated bound every packet that is not spared is dropped.
            (pie.burst_left, pie.probability, pie.accumulated) = (Duration::ZERO, 0.1, ACCUMULATED_MAX);
            (pie.delay, pie.delay_old) = (now, at_update);
            assert_eq!(pie.chooses(), !is_spared, "{variant}, {now:?} and {at_update:?}");
        }
    }

    #[test]
    fn drops_are_spread_by_accumulation() {
        let mut pie = pie();
        (pie.burst_left, pie.delay_old, pie.probability) = (Duration::ZERO, Duration::from_ms(20), 0.1);
        fill(&mut pie);
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..20_000 {
            gap += 1;
            if pie.chooses() {
                gaps.push(gap);
                gap = 0;
            }
        }
        // Nine arrivals to accumulate 0.85, forced at the 85th: 9 + a geometric wait of mean 10, less one.
        assert!(gaps.iter().all(|gap| (9..=85).contains(gap)));
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((17.0..19.0).contains(&mean), "{mean}");
    }

    #[test]
    fn linux_updates_every_five_ticks() {
        let mut pie = pie_of("linux");
        (pie.probability, pie.delay, pie.delay_old) = (0.3, Duration::from_ms(30), Duration::from_ms(30));
        let mut updates = Vec::new();
        for ms in 0..70 {
            let before = pie.probability;
            pie.catch_up(Time::from_ms(ms));
            if pie.probability != before {
                updates.push(ms);
            }
        }
        assert_eq!(updates, [20, 40, 60]);
    }

    #[test]
    fn linux_spends_the_burst_between_departures_and_the_rfc_between_updates() {
        for (variant, left_ms) in [("rfc8033", 90), ("linux", 110)] {
            let (mut pie, mut fate) = (pie_of(variant), Fate::default());
            pie.probability = 0.1;
            fill(&mut pie);
            pie.dequeue(Time::from_ms(30), &mut fate);
            pie.dequeue(Time::from_ms(70), &mut fate);
            assert_eq!(pie.burst_left, Duration::from_ms(left_ms), "{variant}");
        }
    }

    #[test]
    fn linux_bounds_p_at_its_overflow_and_does_not_decay_it_while_packets_wait() {
        let law = pie_of("linux").law;
        let ms = Duration::from_ms;
        assert_probability(law.next_probability(0.99, ms(300), ms(300), true), 1.03);
        assert_probability(law.next_probability(255.99, ms(300), ms(300), true), 1.0);
        assert_eq!(law.next_probability(1e-9, ms(0), ms(300), true), 0.0);
        let undecayed = 0.5 - 0.125 * 0.015;
        assert_probability(law.next_probability(0.5, ms(0), ms(0), true), undecayed);
        assert_probability(law.next_probability(0.5, ms(0), ms(0), false), undecayed * (1.0 - 1.0 / 64.0));
    }

    #[test]
    fn linux_marks_every_capable_packet_from_the_accumulated_bound_until_it_drops_one() {
        for (variant, marks) in [("rfc8033", 1), ("linux", 3)] {
            let mut pie = pie_of(variant);
            let mut fate = Fate::default();
            fill(&mut pie);
            pie.law.marks = true;
            (pie.burst_left, pie.probability) = (Duration::ZERO, 0.1);
            (pie.delay, pie.delay_old) = (Duration::from_ms(20), Duration::from_ms(20));
            pie.accumulated = ACCUMULATED_MAX;
            for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::Ect0] {
                let packet = Packet { ecn, ..*pie.line.head().unwrap() };
                pie.enqueue(packet, Time::ZERO, &mut fate);
            }
            assert_eq!((fate.marks.len(), fate.drops.len()), (marks, usize::from(variant == "linux")));
        }
    }

    #[test]
    fn updates_are_made_at_their_due_times_however_late() {
        let (mut early, mut late) = (pie(), pie());
        for pie in [&mut early, &mut late] {
            (pie.probability, pie.delay, pie.delay_old) = (0.3, Duration::from_ms(30), Duration::from_ms(20));
        }
        for t in 0..1000 {
            early.catch_up(Time::from_us(t * 997));
        }
        early.catch_up(Time::from_ms(1000));
        late.catch_up(Time::from_ms(1000));
        assert_eq!(early.probability, late.probability);
        assert_eq!(early.burst_left, late.burst_left);
    }
}
