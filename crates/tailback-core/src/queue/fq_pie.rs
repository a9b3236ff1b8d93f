//! FQ-PIE: hashed flows served by deficit round robin, each with its own PIE.

use super::pie::Pie;
use super::registry::{Registered, Surroundings, Traits};
use super::rotation::Rotation;
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec, ms, s, us};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

const CARD: Card = Card {
    name: "fq_pie",
    title: "FQ-PIE",
    law: "every queue with packets gets `quantum` bytes a round; a queue that was empty goes ahead of the others for its \
          first quantum. Each queue drops arrivals with a probability of its own, which PIE steers to `target`; a \
          full discipline drops arrivals",
    source: "tc-fq_pie(8); RFC 8033; RFC 8290 section 4; Linux 6.1 sch_fq_pie.c",
    differs: &[
        "The hash takes flow, direction and connection by number, of connections eight bits, instead of addresses and \
              ports",
        "`memory_limit` drops, and counts IP bytes; Linux's counts socket-buffer memory and how often it was exceeded, \
              and drops nothing",
        "PIE's law is that of `pie` with `variant` linux, updates of all queues at one time",
    ],
    live_twin: Some("linux:fq_pie"),
    params: &[
        ParamSpec::whole("flows", "", 1024, (1, 65_536), "Hash buckets."),
        ParamSpec::size("quantum", 1514, (1, 1 << 20), "Bytes a queue may send a round."),
        ParamSpec::size(
            "header",
            14,
            (0, 256),
            "Link-layer header that the round counts for each packet beside its IP bytes (Ethernet: 14).",
        ),
        ParamSpec::whole("limit_packets", "packets", 10_240, (1, 1 << 31), "Most packets held."),
        ParamSpec::size("memory_limit", 32 << 20, (1, 1 << 40), "Most bytes held."),
        ParamSpec::time("target", ms(15), (us(1), s(10)), "Delay to hold in each queue."),
        ParamSpec::time(
            "t_update",
            ms(15),
            (us(100), s(10)),
            "Time between updates of p; Linux makes 15 to 20.",
        ),
        ParamSpec::number("alpha", "1/s", 0.125, (0.0, 100.0), "Weight of the distance to the target."),
        ParamSpec::number("beta", "1/s", 1.25, (0.0, 100.0), "Weight of the change of delay."),
        ParamSpec::flag(
            "ecn",
            false,
            "Mark ECN-capable packets instead of dropping them while p is at most 0.1.",
        ),
    ],
};

/// FQ-PIE.
#[derive(Clone, Debug)]
pub struct FqPie {
    flows: Rotation<Pie>,
    limit: u32,
    memory_limit: Bytes,
    held: Backlog,
}

impl Registered for FqPie {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { isolates: "flows", kernels: &["fq_pie"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let pie = |bucket: u64| Pie::of_flow(given, around.seed.wrapping_add(bucket));
        let [quantum, header] = ["quantum", "header"].map(|name| given.whole(name) as i64);
        Ok(FqPie {
            flows: Rotation::new((0..given.whole("flows")).map(pie), around.seed, quantum, header),
            limit: given.whole("limit_packets") as u32,
            memory_limit: given.whole("memory_limit"),
            held: Backlog::default(),
        })
    }
}

impl QueueDiscipline for FqPie {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let bytes = Bytes::from(packet.bytes);
        let bucket = self.flows.bucket_of(&packet);
        let pie = self.flows.queue_mut(bucket);
        if self.held.packets >= self.limit || self.held.bytes + bytes > self.memory_limit {
            pie.forget_accumulated();
            fate.drop(packet, DropReason::Overlimit);
            return;
        }
        let before = pie.backlog().packets;
        pie.enqueue(packet, now, fate);
        if pie.backlog().packets == before {
            return;
        }
        self.held.packets += 1;
        self.held.bytes += bytes;
        let quantum = self.flows.quantum();
        self.flows.join(bucket, |_, _| quantum);
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        loop {
            let bucket = self.flows.turn()?;
            if let Some(packet) = self.flows.queue_mut(bucket).dequeue(now, fate) {
                self.flows.charge(bucket, packet.bytes);
                self.held.packets -= 1;
                self.held.bytes -= Bytes::from(packet.bytes);
                return Some(packet);
            }
            self.flows.leave();
        }
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::scenario::{Params, Value};
    use crate::time::Duration;

    fn fq_pie(params: &[(&str, f64)]) -> FqPie {
        let params: Params =
            params.iter().map(|(key, value)| (key.to_string(), Value::Number(*value))).collect();
        let given = Checked::new(&FqPie::CARD, &params, "q").unwrap();
        FqPie::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn packet(slot: u32, flow: u32, enqueued: Time) -> Packet {
        Packet {
            slot,
            flow: FlowId(flow),
            bytes: 1500,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued,
        }
    }

    #[test]
    fn flows_take_turns_and_a_full_discipline_drops_arrivals() {
        let (mut queue, mut fate) = (fq_pie(&[("limit_packets", 5.0)]), Fate::default());
        for (slot, flow) in [0, 0, 0, 1, 1, 1].into_iter().enumerate() {
            queue.enqueue(packet(slot as u32, flow, Time::ZERO), Time::ZERO, &mut fate);
        }
        assert_eq!(fate.drops.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [5]);
        let left: Vec<u32> =
            std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut fate)).map(|packet| packet.flow.0).collect();
        assert_eq!(left, [0, 1, 0, 1, 0]);
        assert_eq!(queue.backlog(), Backlog::default());
    }

    #[test]
    fn only_the_flow_that_is_late_is_dropped_from() {
        // Flow 0 sends twice what it gets for five seconds; flow 1 a packet every 20 ms.
        let (mut queue, mut fate) = (fq_pie(&[]), Fate::default());
        for step in 0..5000u32 {
            let now = Time::ZERO + Duration::from_ms(u64::from(step));
            for _ in 0..2 {
                queue.enqueue(packet(step, 0, now), now, &mut fate);
            }
            if step % 20 == 0 {
                queue.enqueue(packet(step, 1, now), now, &mut fate);
            }
            queue.dequeue(now, &mut fate);
        }
        assert!(fate.drops.len() > 100);
        assert!(fate.drops.iter().all(|(packet, reason)| packet.flow.0 == 0 && *reason == DropReason::Aqm));
    }
}
