//! fq: hashed flows served by deficit round robin, each paced at a rate of its own.

use super::parts::Line;
use super::registry::{Registered, Surroundings, Traits};
use super::rotation::Rotation;
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "fq",
    title: "Fair queue with pacing",
    law: "every flow with packets sends until its credit is spent, and gets `quantum` bytes more a round. One that was \
          empty goes ahead of the others, with `initial_quantum` bytes the first time and at least `quantum` after \
          40 ms without packets. With `maxrate` a flow whose credit is spent by a packet of L bytes \
          rests for max(L, quantum)/maxrate, less what it came late after its last rest, at most by half. A flow with `flow_limit` packets drops arrivals, and so does a full queue",
    source: "tc-fq(8); Linux 6.1 sch_fq.c",
    differs: &[
        "Pacing by socket is done where it is known, in the sender: its stack's `pacing`",
        "The hash takes flow, direction and connection by number, of connections eight bits, instead of the socket",
        "No `horizon`, no `ce_threshold`, no `low_rate_threshold`",
    ],
    live_twin: Some("linux:fq"),
    params: &[
        ParamSpec::whole(
            "flows",
            "",
            1024,
            (1, 65_536),
            "Hash buckets (Linux: buckets of a hash without collisions).",
        ),
        ParamSpec::size("quantum", 3028, (1, 1 << 20), "Bytes a flow may send a round: two full packets."),
        ParamSpec::size("initial_quantum", 15_140, (1, 1 << 20), "Bytes at once for a new flow."),
        ParamSpec::size(
            "header",
            14,
            (0, 256),
            "Link-layer header that is counted for each packet beside its IP bytes (Ethernet: 14).",
        ),
        ParamSpec::whole("flow_limit", "packets", 100, (1, 1 << 31), "Most packets held of one flow."),
        ParamSpec::whole("limit_packets", "packets", 10_000, (1, 1 << 31), "Most packets held."),
        ParamSpec::rate("maxrate", 0, (1, 1_000_000_000_000_000), "Most that one flow may send.")
            .depends("no bound"),
    ],
};

/// Time after which an empty flow has at least a quantum again (`refill_delay`).
const REFILL: Duration = Duration::from_ms(40);

#[derive(Clone, Debug, Default)]
struct Flow {
    line: Line,
    /// When the flow last left the rotation; `None` for a new one.
    since: Option<Time>,
    /// When pacing allows its next packet.
    next: Time,
}

/// fq.
#[derive(Clone, Debug)]
pub struct Fq {
    flows: Rotation<Flow>,
    /// Backlogged flows that pacing holds back.
    resting: Vec<u32>,
    initial: i64,
    header: i64,
    flow_limit: u32,
    limit: u32,
    rate: Option<Rate>,
    held: Backlog,
}

impl Registered for Fq {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { is_shaper: true, isolates: "flows", kernels: &["fq"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let flows = vec![Flow::default(); given.whole("flows") as usize];
        let [quantum, header] = ["quantum", "header"].map(|name| given.whole(name) as i64);
        Ok(Fq {
            flows: Rotation::new(flows.into_iter(), around.seed, quantum, header),
            resting: Vec::new(),
            initial: given.whole("initial_quantum") as i64,
            header,
            flow_limit: given.whole("flow_limit") as u32,
            limit: given.whole("limit_packets") as u32,
            rate: given.given_rate("maxrate"),
            held: Backlog::default(),
        })
    }
}

impl QueueDiscipline for Fq {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let bucket = self.flows.bucket_of(&packet);
        let flow = self.flows.queue_mut(bucket);
        if self.held.packets >= self.limit || flow.line.len() >= self.flow_limit {
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        flow.line.push(packet);
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        let (initial, quantum) = (self.initial, self.flows.quantum());
        self.flows.join(bucket, |flow, credit| match flow.since {
            None => initial,
            Some(since) if now.since(since) > REFILL => credit.max(quantum),
            Some(_) => credit,
        });
    }

    fn dequeue(&mut self, now: Time, _fate: &mut Fate) -> Option<Packet> {
        // An empty queue is not asked, so a flow that became empty leaves the rotation when another has a packet.
        if self.held.packets == 0 {
            return None;
        }
        self.wake(now);
        loop {
            let bucket = self.flows.turn()?;
            let flow = self.flows.queue_mut(bucket);
            if flow.next > now && !flow.line.is_empty() {
                let bucket = self.flows.put_aside();
                self.resting.push(bucket);
                continue;
            }
            let Some(packet) = flow.line.pop() else {
                if self.flows.leave() {
                    self.flows.queue_mut(bucket).since = Some(now);
                }
                continue;
            };
            let credit = self.flows.charge(bucket, packet.bytes);
            if let Some(rate) = self.rate
                && credit <= 0
            {
                let length = i64::from(packet.bytes) + self.header;
                let rest = rate.time_for(length.max(self.flows.quantum()) as Bytes);
                let flow = self.flows.queue_mut(bucket);
                // Lateness shortens the next wait, so that other flows and timers do not lower the flow's rate.
                let late = if flow.next == Time::ZERO { Duration::ZERO } else { now.since(flow.next) };
                flow.next = now + (rest - late.min(rest / 2));
            }
            self.held.packets -= 1;
            self.held.bytes -= Bytes::from(packet.bytes);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.held
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        self.rate?;
        let listed = self.flows.listed().chain(self.resting.iter().copied());
        listed
            .map(|bucket| self.flows.queue(bucket))
            .filter(|flow| !flow.line.is_empty())
            .map(|flow| flow.next.max(now))
            .min()
    }
}

impl Fq {
    /// Moves flows that pacing holds back no longer to the end of the rotation.
    fn wake(&mut self, now: Time) {
        let flows = &mut self.flows;
        self.resting.retain(|&bucket| {
            let rests = flows.queue(bucket).next > now;
            if !rests {
                flows.bring_back(bucket);
            }
            rests
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::scenario::{Params, Value};

    fn fq(params: &[(&str, f64)]) -> Fq {
        let params: Params =
            params.iter().map(|(key, value)| (key.to_string(), Value::Number(*value))).collect();
        let given = Checked::new(&Fq::CARD, &params, "q").unwrap();
        Fq::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn fill(queue: &mut Fq, flows: impl IntoIterator<Item = u32>, fate: &mut Fate) {
        for (slot, flow) in flows.into_iter().enumerate() {
            queue.enqueue(packet(slot as u32, flow), Time::ZERO, fate);
        }
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

    #[test]
    fn a_flow_has_ten_packets_at_once_and_then_two_a_round() {
        let (mut queue, mut fate) = (fq(&[]), Fate::default());
        fill(&mut queue, (0..60).map(|slot| u32::from(slot >= 30)), &mut fate);
        let left: Vec<u32> =
            std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut fate)).map(|packet| packet.flow.0).collect();
        assert_eq!(left[..10], [0; 10]);
        assert_eq!(left[10..20], [1; 10]);
        assert_eq!(left[20..28], [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(left.len(), 60);
    }

    #[test]
    fn a_flow_that_was_silent_has_one_quantum_and_not_ten_packets() {
        // Of the ten packets' credit one is left, and one is spent after a shorter silence.
        for (silence_ms, at_once) in [(40, 1), (41, 2)] {
            let (mut queue, mut fate) = (fq(&[]), Fate::default());
            fill(&mut queue, [0; 9], &mut fate);
            while queue.dequeue(Time::ZERO, &mut fate).is_some() {}
            // The other flow's packet lets the first one leave the rotation.
            fill(&mut queue, [1], &mut fate);
            while queue.dequeue(Time::ZERO, &mut fate).is_some() {}
            let later = Time::ZERO + Duration::from_ms(silence_ms);
            for flow in [0, 0, 0, 0, 0, 2, 2, 2] {
                queue.enqueue(packet(0, flow), later, &mut fate);
            }
            let left: Vec<u32> =
                std::iter::from_fn(|| queue.dequeue(later, &mut fate)).map(|packet| packet.flow.0).collect();
            let first = left.iter().take_while(|&&flow| flow == 0).count();
            assert_eq!((first, left[first..first + 3].to_vec()), (at_once, vec![2; 3]), "{silence_ms} ms");
        }
    }

    #[test]
    fn a_flow_is_limited_and_the_others_are_not() {
        let (mut queue, mut fate) = (fq(&[("flow_limit", 3.0)]), Fate::default());
        fill(&mut queue, [0, 0, 0, 0, 1], &mut fate);
        assert_eq!(fate.drops.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_flow_is_held_to_its_rate() {
        // 12.112 Mbit/s: two packets of 1514 bytes in 2 ms.
        let (mut queue, mut fate) =
            (fq(&[("maxrate_bps", 12.112e6), ("initial_quantum", 3028.0)]), Fate::default());
        fill(&mut queue, [0; 6], &mut fate);
        let (mut now, mut times) = (Time::ZERO, Vec::new());
        while queue.backlog().packets > 0 {
            now = queue.ready_at(now).unwrap();
            while queue.dequeue(now, &mut fate).is_some() {
                times.push(now);
            }
        }
        let at = |ms| Time::ZERO + Duration::from_ms(ms);
        assert_eq!(times, [at(0), at(0), at(2), at(2), at(4), at(4)]);
    }
}
