//! RED: drop arrivals with a probability that rises with the averaged queue; gentle and adaptive.
//!
//! With min = max, weight 1 and ECN it is the step of DCTCP (RFC 8257 section 3.1): every arrival at min or more is
//! marked.

use super::parts::Line;
use super::registry::{Registered, Surroundings};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::math;
use crate::packet::{Ecn, Packet};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "red",
    title: "RED",
    law: "avg ← (1 − w)·avg + w·q at each arrival; p_b = max_p·(avg − min)/(max − min); an arrival is \
          dropped with p_a = p_b/(1 − count·p_b), count being the arrivals since the last drop. Gentle: from \
          max to 2·max p_b rises on to 1. Adaptive: every half second max_p moves to hold avg in the middle \
          fifth between min and max",
    source: "S. Floyd and V. Jacobson, \"Random Early Detection Gateways for Congestion Avoidance\", \
          IEEE/ACM ToN 1(4), 1993; S. Floyd, R. Gummadi and S. Shenker, \"Adaptive RED\", 2001; variants' \
          defaults from ns-2.35 and ns-3.27",
    differs: &[
        "Decay while idle starts when the last packet leaves the queue, not the link",
        "The adaptive step is taken at the first arrival after each half second, as in ns-2.35",
    ],
    live_twin: Some("linux:red"),
    params: &[
        ParamSpec::choice(
            "variant",
            &["floyd", "adaptive", "ns-3.27"],
            "Whose defaults: Floyd's recommendations, Adaptive RED with automatic thresholds (ns-2.35), or ns-3.27.",
        ),
        ParamSpec::choice("unit", &["packets", "bytes"], "What the average, min and max count."),
        ParamSpec::number("min", "unit", 5.0, (0.0, 1e12), "Average from which packets are dropped.")
            .depends("5 packets; adaptive max(5, rate x target/2) packets"),
        ParamSpec::number("max", "unit", 15.0, (0.0, 1e12), "Average at which max_p is reached.")
            .depends("3 min; equal to min it is a step"),
        ParamSpec::number("weight", "", 0.002, (1e-9, 1.0), "Weight of a new sample in the average.")
            .depends("0.002; adaptive 1 - exp(-1/C), C in packets a second"),
        ParamSpec::number("max_p", "", 0.1, (0.0, 1.0), "Drop probability at max.")
            .depends("0.1; ns-3.27 0.02"),
        ParamSpec::flag("gentle", true, "Let the probability rise to 1 at 2 max instead of jumping at max.")
            .depends("on; off if min = max"),
        ParamSpec::flag("adaptive", false, "Move max_p to hold the average.").depends("variant adaptive: on"),
        ParamSpec::number(
            "target_ms",
            "ms",
            5.0,
            (0.001, 10_000.0),
            "Delay that automatic thresholds aim at.",
        ),
        ParamSpec::whole(
            "mean_packet",
            "B",
            500,
            (1, 65_536),
            "Typical packet, for automatic values, idle decay and bytes.",
        ),
        ParamSpec::flag("ecn", false, "Mark ECN-capable packets instead of dropping them."),
        ParamSpec::flag("harddrop", false, "From max on drop ECN-capable packets too (RFC 3168 section 7).")
            .depends("off, as in Linux; ns-3.27 on"),
        ParamSpec::whole("limit_packets", "packets", 0, (1, 1 << 31), "Most packets held.")
            .depends("none; ns-3.27 25"),
        ParamSpec::whole("limit_bytes", "B", 0, (1, 1 << 40), "Most bytes held.").depends("none"),
    ],
};

/// Adaptive RED: time between adaptations of max_p.
const ADAPT_EVERY: Duration = Duration::from_ms(500);
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
    /// Time one mean packet takes on the link; zero if its rate is not known.
    packet_time: Duration,
    limit_packets: u32,
    limit_bytes: Bytes,
}

impl Registered for Red {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, around: &Surroundings) -> Result<Self, ScenarioError> {
        let variant = given.choice("variant");
        let in_bytes = given.choice("unit") == "bytes";
        let mean_packet = given.whole("mean_packet");
        let scale = if in_bytes { mean_packet as f64 } else { 1.0 };
        let packet_time = around.rate.map_or(Duration::ZERO, |rate| rate.time_for(mean_packet));
        // Packets a second the link carries.
        let capacity = around.rate.map(|rate| rate.as_bps() as f64 / (8.0 * mean_packet as f64));
        let (min, weight) = match (variant, capacity) {
            ("adaptive", Some(capacity)) => {
                let target = given.number("target_ms") / 1000.0;
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
        let law = Law {
            in_bytes,
            min,
            max,
            weight: given.given_number("weight").unwrap_or(weight),
            max_p: given.given_number("max_p").unwrap_or(if variant == "ns-3.27" { 0.02 } else { 0.1 }),
            is_gentle: given.given_flag("gentle").unwrap_or(min < max),
            is_adaptive: given.given_flag("adaptive").unwrap_or(variant == "adaptive"),
            marks: given.flag("ecn"),
            drops_above_max: given.given_flag("harddrop").unwrap_or(variant == "ns-3.27"),
            mean_packet: mean_packet as f64,
            packet_time,
            limit_packets: given
                .given_whole("limit_packets")
                .map_or(if variant == "ns-3.27" { 25 } else { u32::MAX }, |n| n as u32),
            limit_bytes: given.given_whole("limit_bytes").unwrap_or(Bytes::MAX),
        };
        Ok(Red {
            line: Line::default(),
            law,
            average: 0.0,
            count: -1,
            idle_since: Some(Time::ZERO),
            adapted: Time::ZERO,
            random: Stream::named(around.seed, "red"),
        })
    }
}

impl QueueDiscipline for Red {
    fn enqueue(&mut self, mut packet: Packet, now: Time, fate: &mut Fate) {
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
        let packet = self.line.pop()?;
        if self.line.is_empty() {
            self.idle_since = Some(now);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.line.backlog()
    }

    fn head(&self) -> Option<&Packet> {
        self.line.head()
    }
}

impl Red {
    fn update_average(&mut self, now: Time) {
        let law = &self.law;
        match self.idle_since {
            Some(since) if !law.packet_time.is_zero() => {
                // As if m typical packets had found an empty queue.
                let m = now.since(since).as_secs_f64() / law.packet_time.as_secs_f64();
                self.average *= math::powf(1.0 - law.weight, m);
                self.idle_since = Some(now);
            }
            _ => (),
        }
        let queue = if law.in_bytes { self.line.bytes() as f64 } else { f64::from(self.line.len()) };
        self.average += law.weight * (queue - self.average);
    }

    /// Is this arrival one to drop or mark?
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

    /// Adaptive RED: additive increase, multiplicative decrease of max_p towards the middle fifth.
    fn adapt(&mut self, average: f64) {
        let span = self.max - self.min;
        if average < self.min + 0.4 * span && self.max_p > MAX_P_RANGE.0 {
            self.max_p *= FALL;
        } else if average > self.min + 0.6 * span && self.max_p < MAX_P_RANGE.1 {
            self.max_p += (self.max_p / 4.0).min(0.01);
        }
    }
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
    use crate::time::Rate;

    fn red(pairs: &[(&str, Value)], rate: Option<Rate>) -> Red {
        let params: Params = pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let given = Checked::new(&Red::CARD, &params, "q").unwrap();
        Red::new(&given, &Surroundings { rate, seed: 1 }).unwrap()
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

    #[test]
    fn thresholds_in_the_wrong_order_are_refused() {
        let params = Params::from([("max".to_string(), Value::Number(4.0))]);
        let given = Checked::new(&Red::CARD, &params, "q").unwrap();
        let error = Red::new(&given, &Surroundings { rate: None, seed: 1 }).unwrap_err();
        assert_eq!(error.field, "q.max");
    }
}
