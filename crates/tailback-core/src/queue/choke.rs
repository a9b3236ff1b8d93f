//! CHOKe: RED that compares each arrival with a packet drawn from the queue, and drops both if they are of one flow.

use super::parts::Line;
use super::red::IdleTable;
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::{Ecn, Packet};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Rate, Time};

const CARD: Card = Card {
    name: "choke",
    title: "CHOKe",
    law: "avg ← (1 − w)·avg + w·q at each arrival, q in packets. At min or less the arrival is admitted. Above min one \
          of the q packets that wait is drawn; if it is of the arrival's flow both are dropped. Otherwise the arrival \
          is dropped with RED's probability, at p_b = max_p·(avg − min)/(max − min), and always above max",
    source: "R. Pan, B. Prabhakar and K. Psounis, \"CHOKe: A Stateless Active Queue Management Scheme for Approximating \
          Fair Bandwidth Allocation\", INFOCOM 2000, section II; RED's arithmetic and the limit's default of Linux 6.1 \
          red.h and sch_choke.c; max_p of S. Floyd and V. Jacobson, IEEE/ACM ToN 1(4), 1993",
    differs: &[
        "A flow is a connection and a direction, by number (Linux: addresses and ports)",
        "The packet drawn is uniform over those that wait; Linux draws a place, up to three times if the packet there \
              is gone, and then takes the head",
        "One random number decides each gap, as in Linux: an arrival is dropped once k·⌊avg − min⌋ ≥ ⌊u·(max − min)/max_p⌋, \
              where k counts the arrivals since the last drop",
        "Idle time begins when an empty queue is asked for a packet; after it the average falls by a table of halvings",
        "A sample is compared with the average's whole packets, as in Linux, so the average lies half a packet above \
              the mean queue",
        "No hard drop of ECN-capable packets above max, which Linux has as a flag",
    ],
    live_twin: Some("linux:choke"),
    params: &[
        ParamSpec::whole("min", "packets", 5, (1, 131_071), "Average up to which every arrival is admitted."),
        ParamSpec::whole("max", "packets", 15, (1, 131_071), "Average above which every arrival is dropped.")
            .depends("3 min"),
        ParamSpec::number("weight", "", 1.0 / 512.0, (1e-9, 1.0), "Weight of a new sample in the average."),
        ParamSpec::share("max_p", 0.02, (0.0, 1.0), "RED's drop probability at max."),
        ParamSpec::size(
            "mean_packet",
            1000,
            (1, 65_536),
            "Typical packet, by which the average decays while idle.",
        ),
        ParamSpec::flag(
            "idle_decay",
            true,
            "Let the average decay while idle; off as in a class of Linux's HTB, which never asks an empty queue.",
        ),
        ParamSpec::flag(
            "ecn",
            false,
            "Mark ECN-capable packets where RED would drop them; a pair of one flow is dropped.",
        ),
        ParamSpec::whole("limit_packets", "packets", 60, (1, 131_071), "Most packets held.").depends("4 max"),
    ],
};

/// CHOKe.
#[derive(Clone, Debug)]
pub struct Choke {
    line: Line,
    law: Law,
    /// Averaged queue in packets.
    average: f64,
    /// Arrivals since RED's last drop while the average is between min and max; −1 otherwise.
    count: i64,
    /// Random number that determines the current gap.
    drawn: f64,
    idle_since: Option<Time>,
    random: Stream,
}

#[derive(Clone, Debug)]
struct Law {
    min: f64,
    max: f64,
    weight: f64,
    max_p: f64,
    marks: bool,
    limit: u32,
    /// Decay of the average over idle time; `None`: no decay.
    idle: Option<Box<IdleTable>>,
}

/// Decision about an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Admit,
    /// Drop it together with the waiting packet at this position, which is of its flow.
    Pair(usize),
    /// Drop or mark it.
    Signal,
}

impl Registered for Choke {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { kernels: &["choke"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let min = given.whole("min");
        let max = given.given_whole("max").unwrap_or(3 * min);
        if max < min {
            return Err(given.refuse("max", &format!("max is below min = {min}"), "Give max at least min"));
        }
        let weight = given.number("weight");
        // tc's default if the rate is unknown.
        let bytes_a_second = around.rate.map_or(10_000_000, Rate::as_bps) as f64 / 8.0;
        let table = || Box::new(IdleTable::new(weight, given.whole("mean_packet") as f64, bytes_a_second));
        let idle = given.flag("idle_decay").then(table);
        let law = Law {
            min: min as f64,
            max: max as f64,
            weight,
            max_p: given.number("max_p"),
            marks: given.flag("ecn"),
            limit: given.given_whole("limit_packets").unwrap_or(4 * max).min(u64::from(u32::MAX)) as u32,
            idle,
        };
        Ok(Choke {
            line: Line::default(),
            average: 0.0,
            count: -1,
            drawn: 0.0,
            idle_since: law.idle.is_some().then_some(Time::ZERO),
            random: Stream::named(around.seed, "choke"),
            law,
        })
    }
}

impl QueueDiscipline for Choke {
    fn enqueue(&mut self, mut packet: Packet, now: Time, fate: &mut Fate) {
        self.update_average(now);
        match self.choose(&packet) {
            Choice::Pair(place) => {
                let waiting = self.line.remove(place).expect("the packet drawn waits");
                fate.drop(waiting, DropReason::Aqm);
                fate.drop(packet, DropReason::Aqm);
            }
            Choice::Signal if !(self.law.marks && packet.ecn.is_capable()) => {
                fate.drop(packet, DropReason::Aqm);
            }
            choice => {
                if choice == Choice::Signal {
                    packet.ecn = Ecn::Ce;
                    fate.mark(packet);
                }
                if self.line.len() < self.law.limit {
                    self.line.push(packet);
                } else {
                    fate.drop(packet, DropReason::QueueFull);
                }
            }
        }
        // The device polls the queue after every arrival.
        if self.line.is_empty() {
            self.begin_idle(now);
        }
    }

    fn dequeue(&mut self, now: Time, _fate: &mut Fate) -> Option<Packet> {
        let packet = self.line.pop();
        if packet.is_none() {
            self.begin_idle(now);
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

impl Choke {
    fn begin_idle(&mut self, now: Time) {
        if self.law.idle.is_some() && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
    }

    /// Lowers the average by the idle-time table, without a sample.
    fn update_average(&mut self, now: Time) {
        match (self.idle_since.take(), &self.law.idle) {
            (Some(since), Some(table)) => self.average = table.decay(self.average, now.since(since)),
            _ => self.average += self.law.weight * (f64::from(self.line.len()) - self.average.floor()),
        }
    }

    fn choose(&mut self, packet: &Packet) -> Choice {
        if self.average <= self.law.min {
            self.count = -1;
            return Choice::Admit;
        }
        if let Some(place) = self.draw_of_its_flow(packet) {
            return Choice::Pair(place);
        }
        if self.average > self.law.max {
            self.count = -1;
            return Choice::Signal;
        }
        self.count += 1;
        if self.count > 0 && self.count as f64 * (self.average - self.law.min).floor() >= self.gap() {
            self.count = 0;
            self.drawn = self.random.uniform();
            return Choice::Signal;
        }
        if self.count == 0 {
            self.drawn = self.random.uniform();
        }
        Choice::Admit
    }

    /// Length of the current gap: ⌊u·(max − min)/max_p⌋.
    fn gap(&self) -> f64 {
        (self.drawn * (self.law.max - self.law.min) / self.law.max_p).floor()
    }

    /// Draws a waiting packet at random; returns its position if it is of the arrival's flow.
    fn draw_of_its_flow(&mut self, arrival: &Packet) -> Option<usize> {
        if self.line.is_empty() {
            return None;
        }
        let place = self.random.below(u64::from(self.line.len())) as usize;
        let flow = |packet: &Packet| (packet.flow, packet.is_reverse, packet.conversation);
        (flow(self.line.get(place)?) == flow(arrival)).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;
    use crate::scenario::{Params, Value};

    fn choke(pairs: &[(&str, f64)]) -> Choke {
        let params: Params =
            pairs.iter().map(|(name, value)| (name.to_string(), Value::Number(*value))).collect();
        let given = Checked::new(&Choke::CARD, &params, "q").unwrap();
        Choke::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn packet(slot: u32, flow: u32) -> Packet {
        Packet {
            slot,
            flow: FlowId(flow),
            bytes: 1500,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        }
    }

    /// A queue of ten packets, `of_flow_0` of them of flow 0, the rest of flow 1, whose average stays at `average`.
    fn filled(of_flow_0: u32, average: f64) -> Choke {
        let mut queue = choke(&[("weight", 1e-9)]);
        let mut fate = Fate::default();
        for slot in 0..10 {
            queue.enqueue(packet(slot, u32::from(slot >= of_flow_0)), Time::ZERO, &mut fate);
        }
        assert!(fate.is_empty());
        queue.average = average;
        queue
    }

    #[test]
    fn an_arrival_is_dropped_with_a_packet_drawn_of_its_flow() {
        let (mut queue, mut fate) = (filled(10, 6.0), Fate::default());
        queue.enqueue(packet(10, 0), Time::ZERO, &mut fate);
        let dropped: Vec<u32> = fate.drops.iter().map(|(packet, _)| packet.slot).collect();
        assert_eq!((dropped.len(), dropped[1], queue.line.len()), (2, 10, 9));
        assert!(fate.drops.iter().all(|(_, reason)| *reason == DropReason::Aqm));
        // Another connection of the flow, and the other direction, are others.
        for other in
            [Packet { conversation: 1, ..packet(11, 0) }, Packet { is_reverse: true, ..packet(11, 0) }]
        {
            let (mut queue, mut fate) = (filled(10, 6.0), Fate::default());
            queue.enqueue(other, Time::ZERO, &mut fate);
            assert_eq!((fate.drops.len(), queue.line.len()), (0, 11));
        }
    }

    #[test]
    fn a_flow_is_hit_in_proportion_to_what_it_has_in_the_queue() {
        let mut queue = filled(7, 6.0);
        let hits = (0..10_000).filter(|_| queue.draw_of_its_flow(&packet(10, 0)).is_some()).count();
        // 0.7 of them, standard deviation 46; four of them.
        assert!((6_816..=7_184).contains(&hits), "{hits}");
    }

    #[test]
    fn at_min_all_are_admitted_and_above_max_none() {
        for (average, is_admitted) in [(5.0, true), (15.1, false)] {
            let (mut queue, mut fate) = (filled(10, average), Fate::default());
            queue.law.weight = 0.0;
            queue.enqueue(packet(10, 2), Time::ZERO, &mut fate);
            assert_eq!(fate.is_empty(), is_admitted, "{average}");
        }
    }

    #[test]
    fn between_the_thresholds_gaps_are_reds() {
        // p_b = 0.02·5/10 = 1/100: a gap is uniform on 1..=100, of 50.5, apart from the pairs, of which there are none here.
        let mut queue = filled(10, 10.0);
        let (mut drops, n) = (0, 200_000);
        for _ in 0..n {
            drops += u32::from(queue.choose(&packet(10, 2)) == Choice::Signal);
        }
        let mean = f64::from(n) / f64::from(drops);
        // Standard deviation of the mean 28.9/√3960 = 0.46; four of them.
        assert!((mean - 50.5).abs() < 1.84, "{mean}");
    }

    #[test]
    fn max_below_min_is_refused() {
        let params = Params::from([("max".to_string(), Value::Number(4.0))]);
        let given = Checked::new(&Choke::CARD, &params, "q").unwrap();
        assert_eq!(Choke::new(&given, &Surroundings::of_seed(1)).unwrap_err().field, "q.max");
    }
}
