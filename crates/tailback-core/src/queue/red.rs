//! RED: drops arrivals with a probability that rises with the average queue length; gentle and adaptive modes.
//!
//! With min = max, weight 1 and ECN it is DCTCP's step marking (RFC 8257 section 3.1): every arrival at a queue of min
//! or more is marked.

use super::parts::Line;
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::math;
use crate::packet::{Ecn, Packet};
use crate::params::{Card, Checked, ParamSpec, ms, s, us};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "red",
    title: "RED",
    law: "avg ← (1 − w)·avg + w·q at each arrival; p_b = max_p·(avg − min)/(max − min); an arrival is \
          dropped with p_a = p_b/(1 − count·p_b), count being the arrivals since the last drop. Gentle: from \
          max to 2·max p_b rises on to 1. Adaptive: every half second max_p moves to hold avg in the middle \
          fifth between min and max",
    source: "S. Floyd and V. Jacobson, \"Random Early Detection Gateways for Congestion Avoidance\", \
          IEEE/ACM ToN 1(4), 1993; S. Floyd, R. Gummadi and S. Shenker, \"Adaptive RED\", 2001; variants' \
          defaults from ns-2.35 and ns-3.27; variant linux: Linux 6.1 red.h and sch_red.c",
    differs: &[
        "Decay while idle starts when the last packet leaves the queue, not the link",
        "The adaptive step is taken at the first arrival after each half second, as in ns-2.35; linux: at each half \
              second",
        "`variant` linux: everything counts bytes with the Ethernet header; p_b does not depend on a packet's size; \
              from max on every arrival is dropped (no gentle); one random number decides each gap, which is \
              uniform on 1..1/p_b; idle time begins when an empty queue is asked for a packet; after it the \
              average falls by a table of halvings, without another sample. The table is in powers of 1/2, as the \
              kernel reads it, where tc writes natural logarithms: with tc's own an idle average falls by the power \
              0.69 of that",
    ],
    live_twin: Some("linux:red"),
    params: &[
        ParamSpec::choice(
            "variant",
            &["floyd", "adaptive", "ns-3.27", "linux"],
            "Whose defaults: Floyd's recommendations, Adaptive RED with automatic thresholds (ns-2.35), ns-3.27, or \
             Linux, whose arithmetic comes with it.",
        ),
        ParamSpec::choice(
            "unit",
            &["packets", "bytes"],
            "What the average, min and max count; linux: bytes.",
        ),
        ParamSpec::number("min", "unit", 5.0, (0.0, 1e12), "Average from which packets are dropped.")
            .depends("5 packets; adaptive max(5, rate x target/2) packets"),
        ParamSpec::number("max", "unit", 15.0, (0.0, 1e12), "Average at which max_p is reached.")
            .depends("3 min; equal to min it is a step"),
        ParamSpec::number("weight", "", 0.002, (1e-9, 1.0), "Weight of a new sample in the average.")
            .depends("0.002; adaptive 1 - exp(-1/C), C in packets a second"),
        ParamSpec::share("max_p", 0.1, (0.0, 1.0), "Drop probability at max.").depends("0.1; ns-3.27 0.02"),
        ParamSpec::flag("gentle", true, "Let the probability rise to 1 at 2 max instead of jumping at max.")
            .depends("on; off if min = max, and in linux"),
        ParamSpec::flag("adaptive", false, "Move max_p to hold the average.").depends("variant adaptive: on"),
        ParamSpec::time("target", ms(5), (us(1), s(10)), "Delay that automatic thresholds aim at."),
        ParamSpec::size(
            "mean_packet",
            500,
            (1, 65_536),
            "Typical packet, for automatic values, idle decay and bytes.",
        ),
        ParamSpec::flag(
            "idle_decay",
            true,
            "Let the average decay while idle; off as in a class of Linux's HTB, which never asks an empty queue. In a \
             `token_bucket` the variant linux does not decay.",
        ),
        ParamSpec::flag("ecn", false, "Mark ECN-capable packets instead of dropping them."),
        ParamSpec::flag("harddrop", false, "From max on drop ECN-capable packets too (RFC 3168 section 7).")
            .depends("off, as in Linux; ns-3.27 on"),
        ParamSpec::whole("limit_packets", "packets", 0, (1, 1 << 31), "Most packets held.")
            .depends("none; ns-3.27 25"),
        ParamSpec::size("limit_bytes", 0, (1, 1 << 40), "Most bytes held.").depends("none"),
    ],
};

/// Adaptive RED: time between adaptations of max_p.
const ADAPT_EVERY: Duration = Duration::from_ms(500);
/// The same in Linux: HZ/2 is 125 ticks at HZ 250, and the timer wheel ends such waits at every eighth tick.
const LINUX_ADAPTS_EVERY: Duration = Duration::from_ms(512);
/// Adaptive RED: bounds of max_p.
const MAX_P_RANGE: (f64, f64) = (0.01, 0.5);
/// Adaptive RED: the factor by which max_p falls.
const FALL: f64 = 0.9;

/// RED.
#[derive(Clone, Debug)]
pub struct Red {
    line: Line,
    law: Law,
    /// Averaged queue, in packets or bytes.
    average: f64,
    /// Arrivals since the last drop, while the average is above `min`; −1 below.
    count: i64,
    idle_since: Option<Time>,
    adapted: Time,
    /// Linux: random number that determines the current gap.
    drawn: f64,
    random: Stream,
}

#[derive(Clone, Debug)]
struct Law {
    in_bytes: bool,
    min: f64,
    max: f64,
    weight: f64,
    max_p: f64,
    is_gentle: bool,
    is_adaptive: bool,
    marks: bool,
    drops_above_max: bool,
    mean_packet: f64,
    /// Transmission time of a mean packet; zero if the link's rate is unknown.
    packet_time: Duration,
    limit_packets: u32,
    limit_bytes: Bytes,
    decays_when_idle: bool,
    /// Linux's arithmetic, with its decay of the average over idle time.
    linux: Option<Box<IdleTable>>,
}

/// Decay of Linux's average over idle time: entry i is for i·2^scale µs and holds the number of halvings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleTable {
    /// Binary logarithm of the microseconds per entry.
    pub scale: u8,
    /// Number of halvings of the average, by entry.
    pub halvings: [u8; 256],
}

/// Bytes of the Ethernet header, which Linux counts in every packet (qdisc_pkt_len).
const HEADER: Bytes = 14;

impl IdleTable {
    /// Models one update with `weight` for each packet of `mean` bytes that the idle link could have sent.
    pub fn new(weight: f64, mean: f64, bytes_a_second: f64) -> Self {
        const TICK_S: f64 = 1e-6;
        let packet_ticks = mean / bytes_a_second / TICK_S;
        let halvings_a_tick = -math::log2(1.0 - weight) / packet_ticks;
        // Chosen so that the last entry means 31 halvings: almost nothing is left.
        let scale = math::log2(31.0 / halvings_a_tick / 255.0).floor().clamp(0.0, 31.0);
        let step = math::powf(2.0, scale) * halvings_a_tick;
        let mut halvings: [u8; 256] =
            std::array::from_fn(|place| (place as f64 * step).min(31.0).round() as u8);
        halvings[255] = 31;
        IdleTable { scale: scale as u8, halvings }
    }

    /// The average after `idle`: halved by the table, or reduced linearly within its first entry
    /// (red_calc_qavg_from_idle_time).
    pub(super) fn decay(&self, average: f64, idle: Duration) -> f64 {
        let us = (idle.as_ps() / 1_000_000).min(255 << self.scale);
        match self.halvings[(us >> self.scale) as usize] {
            0 => (average - average * us as f64 / (1u64 << self.scale) as f64).max(average / 2.0),
            halvings => average / (1u64 << halvings) as f64,
        }
    }
}

impl Registered for Red {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { kernels: &["red"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let variant = given.choice("variant");
        let is_linux = variant == "linux";
        if is_linux && given.given_choice("unit") == Some("packets") {
            return Err(given.refuse("unit", "Linux's RED counts bytes", "Give min and max in bytes"));
        }
        if is_linux && given.given_flag("gentle") == Some(true) {
            return Err(given.refuse("gentle", "Linux's RED drops all above max", "Give gentle = false"));
        }
        let in_bytes = is_linux || given.choice("unit") == "bytes";
        let mean_packet = given.whole("mean_packet");
        let scale = if in_bytes { mean_packet as f64 } else { 1.0 };
        let packet_time = around.rate.map_or(Duration::ZERO, |rate| rate.time_for(mean_packet));
        // Packets per second that the link can carry.
        let capacity = around.rate.map(|rate| rate.as_bps() as f64 / (8.0 * mean_packet as f64));
        let (min, weight) = match (variant, capacity) {
            ("adaptive", Some(capacity)) => {
                let target = given.time("target").as_secs_f64();
                ((capacity * target / 2.0).max(5.0), 1.0 - math::exp(-1.0 / capacity))
            }
            _ => (5.0, 0.002),
        };
        let min = given.given_number("min").unwrap_or(min * scale);
        let max = given.given_number("max").unwrap_or(3.0 * min);
        if min > max {
            let fix = "Give max of about three times min, or equal to it for a step";
            return Err(given.refuse("max", "must not be below min", fix));
        }
        let mut weight = given.given_number("weight").unwrap_or(weight);
        if is_linux {
            // The kernel uses a shift, so 0.002 becomes 1/512.
            weight = math::powf(2.0, math::log2(weight).round().clamp(-31.0, -1.0));
        }
        // tc's default if the rate is unknown.
        let bytes_a_second = around.rate.map_or(10_000_000, Rate::as_bps) as f64 / 8.0;
        let law = Law {
            in_bytes,
            min,
            max,
            weight,
            max_p: given.given_number("max_p").unwrap_or(if variant == "ns-3.27" { 0.02 } else { 0.1 }),
            is_gentle: given.given_flag("gentle").unwrap_or(min < max && !is_linux),
            is_adaptive: given.given_flag("adaptive").unwrap_or(variant == "adaptive"),
            marks: given.flag("ecn"),
            drops_above_max: given.given_flag("harddrop").unwrap_or(variant == "ns-3.27"),
            mean_packet: mean_packet as f64,
            packet_time,
            limit_packets: given
                .given_whole("limit_packets")
                .map_or(if variant == "ns-3.27" { 25 } else { u32::MAX }, |n| n as u32),
            limit_bytes: given.given_whole("limit_bytes").unwrap_or(Bytes::MAX),
            decays_when_idle: given.flag("idle_decay"),
            linux: is_linux.then(|| Box::new(IdleTable::new(weight, mean_packet as f64, bytes_a_second))),
        };
        Ok(Red {
            line: Line::default(),
            average: 0.0,
            count: -1,
            idle_since: law.decays_when_idle.then_some(Time::ZERO),
            drawn: 0.0,
            adapted: Time::ZERO,
            random: Stream::named(around.seed, "red"),
            law,
        })
    }
}

impl QueueDiscipline for Red {
    fn enqueue(&mut self, mut packet: Packet, now: Time, fate: &mut Fate) {
        if self.law.linux.is_some() {
            self.enqueue_linux(packet, now, fate);
            return;
        }
        self.update_average(now);
        if self.law.is_adaptive && now.since(self.adapted) >= ADAPT_EVERY {
            self.adapted = now;
            self.law.adapt(self.average);
        }
        let fits = self.line.bytes() + Bytes::from(packet.bytes) <= self.law.limit_bytes;
        if self.line.len() >= self.law.limit_packets || !fits {
            self.count = 0;
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        if self.chooses(packet.bytes) {
            let may_mark = self.average < self.law.max || !self.law.drops_above_max;
            if !(self.law.marks && packet.ecn.is_capable() && may_mark) {
                fate.drop(packet, DropReason::Aqm);
                return;
            }
            packet.ecn = Ecn::Ce;
            fate.mark(packet);
        }
        self.line.push(packet);
        self.idle_since = None;
    }

    fn dequeue(&mut self, now: Time, _fate: &mut Fate) -> Option<Packet> {
        let packet = self.line.pop();
        let is_idle = if self.law.linux.is_some() { packet.is_none() } else { self.line.is_empty() };
        if is_idle && self.idle_since.is_none() && self.law.decays_when_idle {
            self.idle_since = Some(now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.line.backlog()
    }

    fn head(&self) -> Option<&Packet> {
        self.line.head()
    }

    fn is_peeked(&self) -> bool {
        true
    }
}

impl Red {
    fn update_average(&mut self, now: Time) {
        let law = &self.law;
        match self.idle_since {
            Some(since) if !law.packet_time.is_zero() => {
                // The average decays as if m typical packets had found an empty queue.
                let m = now.since(since).as_secs_f64() / law.packet_time.as_secs_f64();
                self.average *= math::powf(1.0 - law.weight, m);
                self.idle_since = Some(now);
            }
            _ => (),
        }
        let queue = if law.in_bytes { self.line.bytes() as f64 } else { f64::from(self.line.len()) };
        self.average += law.weight * (queue - self.average);
    }

    /// Whether to drop or mark this arrival.
    fn chooses(&mut self, bytes: u32) -> bool {
        let p_b = self.law.base_probability(self.average);
        if p_b <= 0.0 {
            self.count = -1;
            return false;
        }
        if p_b >= 1.0 {
            self.count = 0;
            return true;
        }
        self.count += 1;
        let p_b = if self.law.in_bytes { p_b * f64::from(bytes) / self.law.mean_packet } else { p_b };
        let chosen = p_b >= 1.0 || self.random.chance(spread(p_b, self.count));
        if chosen {
            self.count = 0;
        }
        chosen
    }
}

impl Law {
    fn base_probability(&self, average: f64) -> f64 {
        if average < self.min {
            0.0
        } else if average < self.max {
            self.max_p * (average - self.min) / (self.max - self.min)
        } else if self.is_gentle && average < 2.0 * self.max {
            self.max_p + (1.0 - self.max_p) * (average - self.max) / self.max
        } else {
            1.0
        }
    }

    /// Adaptive RED: AIMD of max_p, to keep the average in the middle fifth between the thresholds.
    fn adapt(&mut self, average: f64) {
        let span = self.max - self.min;
        if average < self.min + 0.4 * span && self.max_p > MAX_P_RANGE.0 {
            self.max_p *= FALL;
        } else if average > self.min + 0.6 * span && self.max_p < MAX_P_RANGE.1 {
            self.max_p += (self.max_p / 4.0).min(0.01);
        }
    }
}

impl Red {
    /// `red_enqueue`: RED decides before the limit does; drops at the limit do not count as RED's.
    fn enqueue_linux(&mut self, mut packet: Packet, now: Time, fate: &mut Fate) {
        self.adapt_linux(now);
        self.update_average_linux(now);
        let verdict = self.choose_linux();
        let may_mark = match verdict {
            Choice::Pass => false,
            Choice::Early => self.law.marks,
            Choice::Forced => self.law.marks && !self.law.drops_above_max,
        };
        let is_marked = may_mark && packet.ecn.is_capable();
        let fits = self.backlog_linux() + Bytes::from(packet.bytes) + HEADER <= self.law.limit_bytes
            && self.line.len() < self.law.limit_packets;
        if is_marked {
            packet.ecn = Ecn::Ce;
            fate.mark(packet);
        }
        if verdict == Choice::Pass || is_marked {
            if fits {
                self.line.push(packet);
                return;
            }
            fate.drop(packet, DropReason::QueueFull);
        } else {
            fate.drop(packet, DropReason::Aqm);
        }
        // The device polls the queue after every arrival.
        if self.line.is_empty() && self.law.decays_when_idle {
            self.idle_since = Some(now);
        }
    }

    /// `red_calc_qavg`: lowers the average by the idle-time table, without a sample.
    fn update_average_linux(&mut self, now: Time) {
        let table = self.law.linux.as_ref().expect("the variant has a table");
        match self.idle_since.take() {
            Some(since) => self.average = table.decay(self.average, now.since(since)),
            None => self.average += self.law.weight * (self.backlog_linux() as f64 - self.average),
        }
    }

    /// `red_action`: a random number drawn once determines the length of the gap.
    fn choose_linux(&mut self) -> Choice {
        let law = &self.law;
        if self.average < law.min {
            self.count = -1;
            return Choice::Pass;
        }
        if self.average >= law.max {
            self.count = -1;
            return Choice::Forced;
        }
        self.count += 1;
        let p_b = law.base_probability(self.average);
        let is_due = self.count > 0 && self.count as f64 * p_b >= self.drawn;
        if self.count == 0 || is_due {
            self.drawn = self.random.uniform();
        }
        if is_due {
            self.count = 0;
            return Choice::Early;
        }
        Choice::Pass
    }

    /// `red_adaptative_algo`, at each expiry of its timer that has passed; idle time counts.
    fn adapt_linux(&mut self, now: Time) {
        while self.law.is_adaptive && now.since(self.adapted) >= LINUX_ADAPTS_EVERY {
            self.adapted += LINUX_ADAPTS_EVERY;
            let table = self.law.linux.as_ref().expect("the variant has a table");
            let average = match self.idle_since {
                Some(since) if since < self.adapted => table.decay(self.average, self.adapted.since(since)),
                _ => self.average,
            };
            self.law.adapt(average);
        }
    }

    fn backlog_linux(&self) -> Bytes {
        self.line.bytes() + HEADER * Bytes::from(self.line.len())
    }
}

/// Decision of Linux's RED about an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Pass,
    /// Between the thresholds.
    Early,
    /// At max or above.
    Forced,
}

/// p_a = p_b/(1 − count·p_b): makes the gaps between drops uniform, not geometric.
fn spread(p_b: f64, count: i64) -> f64 {
    let rest = 1.0 - count as f64 * p_b;
    if rest <= p_b { 1.0 } else { p_b / rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Params, Value};

    fn red(pairs: &[(&str, Value)], rate: Option<Rate>) -> Red {
        let params: Params = pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let given = Checked::new(&Red::CARD, &params, "q").unwrap();
        Red::new(&given, &Surroundings { rate, ..Surroundings::of_seed(1) }).unwrap()
    }

    #[track_caller]
    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1e-6), "{found} against {expected}");
    }

    #[test]
    fn probability_follows_the_average() {
        let law = red(&[], None).law;
        assert_eq!(law.base_probability(4.99), 0.0);
        assert_close(law.base_probability(10.0), 0.05);
        assert_close(law.base_probability(22.5), 0.55);
        assert_eq!(law.base_probability(30.0), 1.0);
        let ns3 = red(&[("variant", Value::Name("ns-3.27".into()))], None).law;
        assert_close(ns3.base_probability(10.0), 0.01);
        let abrupt = red(&[("gentle", Value::Flag(false))], None).law;
        assert_eq!(abrupt.base_probability(15.0), 1.0);
    }

    #[test]
    fn probability_rises_with_the_count() {
        assert_close(spread(0.05, 10), 0.1);
        assert_close(spread(0.01, 10), 0.01 / 0.9);
        assert_eq!(spread(0.05, 20), 1.0);
    }

    #[test]
    fn gaps_between_drops_are_uniform() {
        let mut red = red(&[], None);
        red.average = 10.0;
        let (mut gaps, mut gap) = (Vec::new(), 0u32);
        for _ in 0..200_000 {
            gap += 1;
            if red.chooses(1500) {
                gaps.push(gap);
                gap = 0;
            }
        }
        // p_b = 0.05. The published pseudocode counts the arrival it decides on, so a gap is uniform on
        // 1..=1/p_b − 1 = 19: mean 10. (Only the first after a quiet time may be 20.)
        gaps.remove(0);
        let n = gaps.len() as f64;
        assert!(gaps.iter().all(|gap| (1..=19).contains(gap)));
        let mean = gaps.iter().map(|&gap| f64::from(gap)).sum::<f64>() / n;
        // Standard deviation of the mean 5.5/√20000 = 0.039; four of them.
        assert!((mean - 10.0).abs() < 0.156, "{mean}");
        let ones = gaps.iter().filter(|&&gap| gap == 1).count() as f64 / n;
        assert!((ones - 1.0 / 19.0).abs() < 0.0064, "{ones}");
    }

    #[test]
    fn adaptive_red_sets_its_thresholds_from_the_rate() {
        // 10 Mbit/s, 500 B: 2500 packets a second; 5 ms/2 of them are 6.25.
        let law = red(&[("variant", Value::Name("adaptive".into()))], Some(Rate::from_bps(10_000_000))).law;
        assert_close(law.min, 6.25);
        assert_close(law.max, 18.75);
        assert_close(law.weight, 1.0 - math::exp(-1.0 / 2500.0));
        assert!(law.is_adaptive);
    }

    #[test]
    fn max_p_moves_towards_the_middle_and_stays_in_bounds() {
        let mut law = red(&[], None).law;
        law.adapt(14.0);
        assert_close(law.max_p, 0.11);
        law.adapt(10.0);
        assert_close(law.max_p, 0.11);
        law.adapt(6.0);
        assert_close(law.max_p, 0.099);
        law.max_p = 0.02;
        law.adapt(14.0);
        assert_close(law.max_p, 0.025);
        (0..200).for_each(|_| law.adapt(14.0));
        assert!((0.5..0.52).contains(&law.max_p));
        (0..200).for_each(|_| law.adapt(0.0));
        assert!((0.009..0.0101).contains(&law.max_p));
    }

    #[test]
    fn average_decays_while_idle() {
        let mut red = red(&[("weight", Value::Number(0.01))], Some(Rate::from_bps(4_000_000)));
        // 500 B at 4 Mbit/s are 1 ms: 100 ms idle are 100 packets, then one sample of an empty queue.
        (red.average, red.idle_since) = (10.0, Some(Time::from_ms(50)));
        red.update_average(Time::from_ms(150));
        assert_close(red.average, 10.0 * math::powf(0.99, 101.0));
    }

    fn linux(pairs: &[(&str, Value)]) -> Red {
        let named = ("variant", Value::Name("linux".into()));
        red(&[&[named], pairs].concat(), Some(Rate::from_bps(8_000_000)))
    }

    fn packet() -> Packet {
        Packet {
            slot: 0,
            flow: crate::packet::FlowId(0),
            bytes: 1500,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        }
    }

    #[test]
    fn linux_draws_one_number_for_a_gap_and_does_not_weigh_packets_by_their_size() {
        // Thresholds 2500 and 7500 bytes: p_b = 0.05 at 5000.
        let mut red = linux(&[]);
        red.average = 5000.0;
        let (mut gaps, mut gap) = (Vec::new(), 0u32);
        for _ in 0..200_000 {
            gap += 1;
            if red.choose_linux() == Choice::Early {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps.remove(0);
        let n = gaps.len() as f64;
        assert!(gaps.iter().all(|gap| (1..=20).contains(gap)));
        let mean = gaps.iter().map(|&gap| f64::from(gap)).sum::<f64>() / n;
        // Uniform on 1..=20: mean 10.5, standard deviation of the mean 5.8/√19000 = 0.042; four of them.
        assert!((mean - 10.5).abs() < 0.168, "{mean}");
    }

    #[test]
    fn linux_drops_every_arrival_from_max_on() {
        let mut red = linux(&[]);
        red.average = 7499.0;
        assert_ne!(red.choose_linux(), Choice::Forced);
        red.average = 7500.0;
        assert!((0..100).all(|_| red.choose_linux() == Choice::Forced));
        assert_eq!(red.count, -1);
    }

    #[test]
    fn linux_averages_bytes_with_their_headers_in_powers_of_one_half() {
        let (mut red, mut fate) = (linux(&[]), Fate::default());
        assert_close(red.law.weight, 1.0 / 512.0);
        red.enqueue(packet(), Time::ZERO, &mut fate);
        red.enqueue(packet(), Time::ZERO, &mut fate);
        assert_close(red.average, 1514.0 / 512.0);
    }

    #[test]
    fn linux_idles_from_when_an_empty_queue_is_asked_and_then_takes_no_sample() {
        let (mut red, mut fate) = (linux(&[]), Fate::default());
        // 500 B at 1 Mbyte/s are 0.5 ms, half of what is there goes in 354.5 of them: 177.3 ms.
        red.enqueue(packet(), Time::ZERO, &mut fate);
        red.average = 2000.0;
        red.dequeue(Time::ZERO, &mut fate);
        assert_eq!(red.idle_since, None);
        red.dequeue(Time::from_ms(2), &mut fate);
        assert_eq!(red.idle_since, Some(Time::from_ms(2)));
        red.enqueue(packet(), Time::from_ms(2 + 355), &mut fate);
        assert_close(red.average, 500.0);
        let mut never = linux(&[("idle_decay", Value::Flag(false))]);
        never.average = 2000.0;
        never.dequeue(Time::ZERO, &mut fate);
        never.enqueue(packet(), Time::from_ms(355), &mut fate);
        assert_close(never.average, 2000.0 * 511.0 / 512.0);
    }

    #[test]
    fn linux_counts_bytes_and_is_not_gentle() {
        for (name, value) in [("unit", Value::Name("packets".into())), ("gentle", Value::Flag(true))] {
            let params = Params::from([
                ("variant".to_string(), Value::Name("linux".into())),
                (name.to_string(), value),
            ]);
            let given = Checked::new(&Red::CARD, &params, "q").unwrap();
            let error = Red::new(&given, &Surroundings::of_seed(1)).unwrap_err();
            assert_eq!(error.field, format!("q.{name}"));
        }
    }

    #[test]
    fn an_idle_average_is_halved_as_often_as_packets_could_have_been_sent() {
        // 1000 B at 1 Mbyte/s last 1 ms; a weight of 1/512 halves in 354.5 of them.
        let table = IdleTable::new(1.0 / 512.0, 1000.0, 1e6);
        let step_s = 1e-6 * f64::from(table.scale).exp2();
        for (place, halvings) in table.halvings.iter().enumerate().take(255) {
            let expected = (place as f64 * step_s / 1e-3 / 354.545).min(31.0);
            assert!(
                (f64::from(*halvings) - expected).abs() <= 0.51,
                "{place}: {halvings} against {expected}"
            );
        }
        assert!(table.halvings[254] >= 15);
    }
    #[test]
    fn thresholds_in_the_wrong_order_are_refused() {
        let params = Params::from([("max".to_string(), Value::Number(4.0))]);
        let given = Checked::new(&Red::CARD, &params, "q").unwrap();
        let error = Red::new(&given, &Surroundings::of_seed(1)).unwrap_err();
        assert_eq!(error.field, "q.max");
    }
}
