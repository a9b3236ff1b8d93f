//! FQ-CoDel: flows hashed into queues, served by deficit round robin with new flows first, CoDel in each.

use std::collections::VecDeque;

use super::codel::{Law, State, Variant};
use super::parts::{Line, bucket_of};
use super::registry::{Registered, Surroundings};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
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
        "`variant` linux: packets shed by overload count as CoDel drops of their flow, and the quantum is an IP \
              packet of 1500 bytes, as Linux counts a device's header in both; ns-3.27: no ECN",
    ],
    live_twin: Some("linux:fq_codel"),
    params: &[
        ParamSpec::choice(
            "variant",
            &["rfc8290", "linux", "ns-3.27"],
            "Whose CoDel, and what overload does to it.",
        ),
        ParamSpec::whole("flows", "", 1024, (1, 65_536), "Hash buckets."),
        ParamSpec::whole("quantum", "B", 1514, (1, 1 << 20), "IP bytes a queue may send a round.")
            .depends("1514; linux 1500"),
        ParamSpec::whole("limit_packets", "packets", 10_240, (1, 1 << 31), "Most packets held."),
        ParamSpec::whole("memory_limit", "B", 32 << 20, (1, 1 << 40), "Most bytes held."),
        ParamSpec::whole("drop_batch", "packets", 64, (1, 65_536), "Most packets shed at once when full."),
        ParamSpec::number("target_ms", "ms", 5.0, (0.001, 10_000.0), "Acceptable standing delay."),
        ParamSpec::number("interval_ms", "ms", 100.0, (0.01, 100_000.0), "A worst-case round-trip time."),
        ParamSpec::whole(
            "mtu",
            "B",
            1514,
            (1, 65_536),
            "No drops while a flow has no more than this behind its head.",
        ),
        ParamSpec::flag("ecn", true, "Mark ECN-capable packets instead of dropping them."),
        ParamSpec::number(
            "ce_threshold_ms",
            "ms",
            0.0,
            (0.0, 10_000.0),
            "Mark every capable packet above this delay.",
        )
        .depends("off"),
    ],
};

/// One bucket.
#[derive(Clone, Debug, Default)]
struct Flow {
    line: Line,
    state: State,
    deficit: i64,
    /// In one of the two lists.
    is_listed: bool,
}

/// FQ-CoDel.
#[derive(Clone, Debug)]
pub struct FqCodel {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    law: Law,
    variant: Variant,
    perturbation: u64,
    quantum: i64,
    limit: u32,
    memory_limit: Bytes,
    drop_batch: u32,
    held: Backlog,
}

impl Registered for FqCodel {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, around: &Surroundings) -> Result<Self, ScenarioError> {
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
        let mut law = Law::new(variant, given);
        if variant == Variant::Ns3 {
            law = law.without_marks();
        }
        Ok(FqCodel {
            flows: vec![Flow::default(); given.whole("flows") as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            law,
            variant,
            perturbation: around.seed,
            quantum: given.given_whole("quantum").unwrap_or(match variant {
                Variant::Linux => 1500,
                Variant::Rfc | Variant::Ns3 => 1514,
            }) as i64,
            limit: given.whole("limit_packets") as u32,
            memory_limit: given.whole("memory_limit"),
            drop_batch: given.whole("drop_batch") as u32,
            held: Backlog::default(),
        })
    }
}

impl QueueDiscipline for FqCodel {
    fn enqueue(&mut self, packet: Packet, _now: Time, fate: &mut Fate) {
        let bucket = bucket_of(&packet, self.perturbation, self.flows.len() as u32);
        let flow = &mut self.flows[bucket as usize];
        flow.line.push(packet);
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.deficit = self.quantum;
            self.new.push_back(bucket);
        }
        if self.held.packets > self.limit || self.held.bytes > self.memory_limit {
            self.shed(fate);
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let bucket = *list.front()?;
            let flow = &mut self.flows[bucket as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(bucket);
                continue;
            }
            let before = flow.line.backlog();
            let packet = self.law.dequeue(&mut flow.state, &mut flow.line, now, fate);
            let after = flow.line.backlog();
            self.held.packets -= before.packets - after.packets;
            self.held.bytes -= before.bytes - after.bytes;
            if let Some(packet) = packet {
                flow.deficit -= i64::from(packet.bytes);
                return Some(packet);
            }
            list.pop_front();
            if is_new && !self.old.is_empty() {
                // An emptied new flow passes once through the old ones, or it could starve them: RFC 8290
                // section 4.2.
                self.old.push_back(bucket);
            } else {
                flow.is_listed = false;
            }
        }
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

impl FqCodel {
    /// Drop from the head of the fattest flow: half its bytes, at most a batch.
    #[cold]
    fn shed(&mut self, fate: &mut Fate) {
        let listed = self.new.iter().chain(&self.old).copied();
        // The lowest bucket wins a tie, as it does for a scan over all of them.
        let fattest = listed
            .max_by_key(|&bucket| (self.flows[bucket as usize].line.bytes(), std::cmp::Reverse(bucket)))
            .expect("a full queue has a flow");
        let flow = &mut self.flows[fattest as usize];
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

    fn left(variant: &str) -> Vec<u32> {
        let params = Params::from([("variant".into(), Value::Name(variant.into()))]);
        let given = Checked::new(&FqCodel::CARD, &params, "q").unwrap();
        let mut queue = FqCodel::new(&given, &Surroundings { rate: None, seed: 1 }).unwrap();
        let mut fate = Fate::default();
        for (flow, bytes) in [(0, 1500), (0, 1500), (1, 200)] {
            let packet = Packet {
                slot: 0,
                flow: FlowId(flow),
                bytes,
                ecn: Ecn::NotEct,
                hop: 0,
                is_reverse: false,
                conversation: 0,
                enqueued: Time::ZERO,
            };
            queue.enqueue(packet, Time::ZERO, &mut fate);
        }
        std::iter::from_fn(|| queue.dequeue(Time::from_us(1), &mut fate))
            .map(|packet| packet.flow.0)
            .collect()
    }

    #[test]
    fn a_quantum_is_one_full_packet_in_linux_and_goes_on_to_a_second_by_the_rfcs_number() {
        assert_eq!(left("linux"), [0, 1, 0]);
        // 1514 bytes are a packet with its Ethernet header, of which a packet here has none: 14 are left.
        assert_eq!(left("rfc8290"), [0, 0, 1]);
    }
}
