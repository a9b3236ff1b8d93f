//! FQ-CoDel: flows hashed into queues, served by deficit round robin with new flows first, each with its own CoDel.

use super::codel::{Law, State, Variant, Waiting};
use super::parts::Line;
use super::registry::{Registered, Surroundings, Traits};
use super::rotation::Rotation;
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec, ms, s, us};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

const CARD: Card = Card {
    name: "fq_codel",
    title: "FQ-CoDel",
    law: "every queue with packets gets `quantum` bytes a round; a queue that was empty goes ahead of the \
          others for its first quantum. A full queue sheds from the head of the flow with most bytes",
    source: "RFC 8290 section 4; Linux 5.10 sch_fq_codel.c",
    differs: &[
        "`memory_limit` counts IP bytes, not socket-buffer memory",
        "The hash takes flow, direction and connection by number, of connections eight bits, instead of \
              addresses and ports",
        "`variant` rfc8290 follows the RFC's text, in which CoDel sees its own flow's queue: a flow keeps two packets \
              without drops, however many flows there are. Linux, the RFC's own implementation, compares `mtu` \
              with what all flows hold together; `variant` linux does so",
        "`variant` linux: packets shed by overload count as CoDel drops of their flow, and a turn is charged the \
              Ethernet header of each packet, as in Linux; ns-3.27: no ECN",
    ],
    live_twin: Some("linux:fq_codel"),
    params: &[
        ParamSpec::choice(
            "variant",
            &["rfc8290", "linux", "ns-3.27"],
            "Whose CoDel, and what overload does to it.",
        ),
        ParamSpec::whole("flows", "", 1024, (1, 65_536), "Hash buckets."),
        ParamSpec::size("quantum", 1514, (1, 1 << 20), "Bytes a queue may send a round."),
        ParamSpec::size(
            "header",
            0,
            (0, 256),
            "Link-layer header that the round counts for each packet beside its IP bytes.",
        )
        .depends("0; linux 14 (Ethernet)"),
        ParamSpec::whole("limit_packets", "packets", 10_240, (1, 1 << 31), "Most packets held."),
        ParamSpec::size("memory_limit", 32 << 20, (1, 1 << 40), "Most bytes held."),
        ParamSpec::whole("drop_batch", "packets", 64, (1, 65_536), "Most packets shed at once when full."),
        ParamSpec::time("target", ms(5), (us(1), s(10)), "Acceptable standing delay."),
        ParamSpec::time("interval", ms(100), (us(10), s(100)), "A worst-case round-trip time."),
        ParamSpec::size(
            "mtu",
            1514,
            (1, 65_536),
            "No drops while a flow has no more IP bytes than this behind its head; linux: while all flows together have \
             no more.",
        )
        .depends("1514; linux 1500"),
        ParamSpec::flag("ecn", true, "Mark ECN-capable packets instead of dropping them."),
        ParamSpec::time(
            "ce_threshold", ms(0), (ms(0), s(10)),
            "Mark every capable packet above this delay.",
        )
        .depends("off"),
    ],
};

/// Queue of one hash bucket.
#[derive(Clone, Debug, Default)]
struct Flow {
    line: Line,
    state: State,
}

/// FQ-CoDel.
#[derive(Clone, Debug)]
pub struct FqCodel {
    flows: Rotation<Flow>,
    law: Law,
    variant: Variant,
    limit: u32,
    memory_limit: Bytes,
    drop_batch: u32,
    held: Backlog,
}

impl Registered for FqCodel {
    const CARD: Card = CARD;
    const TRAITS: Traits =
        Traits { isolates: "flows", drops_at_head: true, kernels: &["fq_codel"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let variant = match given.choice("variant") {
            "linux" => Variant::Linux,
            "ns-3.27" => Variant::Ns3,
            _ => Variant::Rfc,
        };
        if variant == Variant::Ns3 && given.given_flag("ecn") == Some(true) {
            return Err(given.refuse(
                "ecn",
                "ns-3.27 has no ECN here",
                "Choose another variant, or set ecn = false",
            ));
        }
        // Linux includes the Ethernet header in the backlog and in the MTU. Without the header a full packet is exactly
        // one MTU.
        let mtu = given.given_whole("mtu").unwrap_or(if variant == Variant::Linux { 1500 } else { 1514 });
        let mut law = Law::new(variant, mtu, given);
        if variant == Variant::Ns3 {
            law = law.without_marks();
        }
        let flows = vec![Flow::default(); given.whole("flows") as usize];
        // Linux charges qdisc_pkt_len, which includes the Ethernet header (`fq_codel_dequeue`).
        let header = given.given_whole("header").unwrap_or(if variant == Variant::Linux { 14 } else { 0 });
        let quantum = given.whole("quantum") as i64;
        Ok(FqCodel {
            flows: Rotation::new(flows.into_iter(), around.seed, quantum, header as i64),
            law,
            variant,
            limit: given.whole("limit_packets") as u32,
            memory_limit: given.whole("memory_limit"),
            drop_batch: given.whole("drop_batch") as u32,
            held: Backlog::default(),
        })
    }
}

impl QueueDiscipline for FqCodel {
    fn enqueue(&mut self, packet: Packet, _now: Time, fate: &mut Fate) {
        let bucket = self.flows.bucket_of(&packet);
        self.flows.queue_mut(bucket).line.push(packet);
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        let quantum = self.flows.quantum();
        self.flows.join(bucket, |_, _| quantum);
        if self.held.packets > self.limit || self.held.bytes > self.memory_limit {
            self.shed(fate);
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        loop {
            let bucket = self.flows.turn()?;
            let flow = self.flows.queue_mut(bucket);
            let before = flow.line.backlog();
            // Linux passes CoDel the backlog of the whole discipline (`__fq_codel_dequeue`); the RFC uses the flow's
            // own.
            let elsewhere = if self.variant == Variant::Linux { self.held.bytes - before.bytes } else { 0 };
            let packet =
                self.law.dequeue(&mut flow.state, Waiting { line: &mut flow.line, elsewhere }, now, fate);
            let after = flow.line.backlog();
            self.held.packets -= before.packets - after.packets;
            self.held.bytes -= before.bytes - after.bytes;
            if let Some(packet) = packet {
                self.flows.charge(bucket, packet.bytes);
                return Some(packet);
            }
            self.flows.leave();
        }
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

impl FqCodel {
    /// Drops from the head of the flow with the most bytes: half of them, at most a batch of packets.
    #[cold]
    fn shed(&mut self, fate: &mut Fate) {
        // The lowest bucket wins a tie, as in a linear scan.
        let key = |&bucket: &u32| (self.flows.queue(bucket).line.bytes(), std::cmp::Reverse(bucket));
        let fattest = self.flows.listed().max_by_key(key).expect("a full queue has a flow");
        let flow = self.flows.queue_mut(fattest);
        let half = flow.line.bytes() / 2;
        let (mut packets, mut bytes) = (0, 0);
        loop {
            let oldest = flow.line.pop().expect("less than half is gone");
            packets += 1;
            bytes += Bytes::from(oldest.bytes);
            fate.drop(oldest, DropReason::Overlimit);
            if packets == self.drop_batch || bytes >= half {
                break;
            }
        }
        if self.variant == Variant::Linux {
            flow.state.count_overload(packets);
        }
        self.held.packets -= packets;
        self.held.bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::scenario::{Params, Value};

    fn queue(variant: &str) -> FqCodel {
        let params = Params::from([("variant".into(), Value::Name(variant.into()))]);
        let given = Checked::new(&FqCodel::CARD, &params, "q").unwrap();
        FqCodel::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn packet(flow: u32, bytes: u32, enqueued: Time) -> Packet {
        Packet {
            slot: 0,
            flow: FlowId(flow),
            bytes,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued,
        }
    }

    fn left(variant: &str) -> Vec<u32> {
        let (mut queue, mut fate) = (queue(variant), Fate::default());
        for (flow, bytes) in [(0, 1500), (0, 1500), (1, 200)] {
            queue.enqueue(packet(flow, bytes, Time::ZERO), Time::ZERO, &mut fate);
        }
        std::iter::from_fn(|| queue.dequeue(Time::from_us(1), &mut fate))
            .map(|packet| packet.flow.0)
            .collect()
    }

    #[test]
    fn a_quantum_is_one_full_packet_in_linux_and_goes_on_to_a_second_by_the_rfcs_number() {
        assert_eq!(left("linux"), [0, 1, 0]);
        // 1514 bytes are a packet with its Ethernet header, which is not counted here: 14 are left.
        assert_eq!(left("rfc8290"), [0, 0, 1]);
    }

    /// Packets dropped of `flows` flows, each of which always holds two packets that have waited 10 ms, in 300 ms.
    fn drops_of_pairs(variant: &str, flows: u32) -> usize {
        let (mut queue, mut fate) = (queue(variant), Fate::default());
        for ms in 10..310 {
            let (now, then) = (Time::from_ms(ms), Time::from_ms(ms - 10));
            for flow in 0..flows {
                let bucket = queue.flows.bucket_of(&packet(flow, 1500, then));
                while queue.flows.queue(bucket).line.len() < 2 {
                    queue.enqueue(packet(flow, 1500, then), then, &mut fate);
                }
            }
            queue.dequeue(now, &mut fate).expect("never empty");
        }
        fate.drops.len()
    }

    #[test]
    fn linux_asks_whether_all_flows_hold_an_mtu_and_the_rfc_whether_one_does() {
        assert_eq!(drops_of_pairs("rfc8290", 4), 0);
        assert!(drops_of_pairs("linux", 4) >= 4, "{}", drops_of_pairs("linux", 4));
        // One packet behind the head and no other flow: both rest.
        assert_eq!(drops_of_pairs("linux", 1), 0);
    }
}
