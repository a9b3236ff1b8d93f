//! SFQ: stochastic fairness queueing, a byte-based round robin over hashed flows.

use std::collections::VecDeque;

use super::parts::{Line, bucket_of};
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

const CARD: Card = Card {
    name: "sfq",
    title: "Stochastic fairness queueing",
    law: "every flow with packets may send `quantum` bytes a round. When full, the flow with most packets \
          loses its newest (or, with `drop` head, its oldest). At most `active_flows` flows have packets: the arrival of \
          one more is dropped",
    source: "P. McKenney, \"Stochastic Fairness Queueing\", INFOCOM 1990; constants, charges and ties of Linux 6.1 \
          sch_sfq.c",
    differs: &[
        "The hash takes flow, direction and connection by number, of connections eight bits",
        "The hash is not perturbed again during a run (Linux: `perturb`, off by default)",
        "No RED of each flow (Linux: `redflowlimit`, off by default)",
    ],
    live_twin: Some("linux:sfq"),
    params: &[
        ParamSpec::whole("limit_packets", "packets", 127, (1, 1 << 31), "Most packets held."),
        ParamSpec::whole("depth", "packets", 127, (1, 1 << 31), "Most packets held of one flow."),
        ParamSpec::whole("flows", "", 1024, (1, 65_536), "Hash buckets (Linux: divisor)."),
        ParamSpec::whole(
            "active_flows",
            "",
            128,
            (1, 65_408),
            "Most flows that have packets (Linux: flows); the limit is at most `depth` packets of each.",
        ),
        ParamSpec::size("quantum", 1514, (1, 1 << 20), "Bytes a flow may send a round."),
        ParamSpec::size(
            "header",
            14,
            (0, 256),
            "Link-layer header that the round counts for each packet beside its IP bytes (Ethernet: 14).",
        ),
        ParamSpec::choice("drop", &["tail", "head"], "Which end of the longest flow a full queue drops."),
    ],
};

#[derive(Clone, Debug, Default)]
struct Flow {
    line: Line,
    allotment: i64,
    /// Value of `Sfq::changes` when the flow reached its current length.
    changed: u64,
}

/// SFQ.
#[derive(Clone, Debug)]
pub struct Sfq {
    flows: Vec<Flow>,
    /// Backlogged flows, next in turn first.
    round: VecDeque<u32>,
    perturbation: u64,
    quantum: i64,
    header: i64,
    /// Number of changes of any flow's length so far.
    changes: u64,
    limit: u32,
    depth: u32,
    active_flows: usize,
    drops_head: bool,
    held: Backlog,
}

impl Registered for Sfq {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { isolates: "flows", kernels: &["sfq"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let [limit, depth, buckets] = ["limit_packets", "depth", "flows"].map(|name| given.whole(name));
        // The kernel bounds its flows by a limit that is given, but not by its own.
        let most = given.given_whole("limit_packets").unwrap_or(u64::MAX).min(buckets);
        let active = given.whole("active_flows").min(most);
        Ok(Sfq {
            flows: vec![Flow::default(); given.whole("flows") as usize],
            round: VecDeque::new(),
            perturbation: around.seed,
            quantum: given.whole("quantum") as i64,
            header: given.whole("header") as i64,
            changes: 0,
            limit: limit.min(depth * active) as u32,
            depth: depth as u32,
            active_flows: active as usize,
            drops_head: given.choice("drop") == "head",
            held: Backlog::default(),
        })
    }
}

impl QueueDiscipline for Sfq {
    fn enqueue(&mut self, packet: Packet, _now: Time, fate: &mut Fate) {
        let bucket = bucket_of(&packet, self.perturbation, self.flows.len() as u32);
        if self.flows[bucket as usize].line.len() >= self.depth {
            if !self.drops_head {
                fate.drop(packet, DropReason::QueueFull);
                return;
            }
            self.shed(bucket, fate);
        }
        let flow = &mut self.flows[bucket as usize];
        if flow.line.is_empty() {
            if self.round.len() >= self.active_flows {
                fate.drop(packet, DropReason::QueueFull);
                return;
            }
            flow.allotment = self.quantum;
            self.round.push_back(bucket);
        }
        flow.line.push(packet);
        flow.changed = self.changes;
        self.changes += 1;
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        if self.held.packets > self.limit {
            let longest = self.longest();
            self.shed(longest, fate);
        }
    }

    fn dequeue(&mut self, _now: Time, _fate: &mut Fate) -> Option<Packet> {
        loop {
            let bucket = *self.round.front()?;
            let flow = &mut self.flows[bucket as usize];
            if flow.allotment <= 0 {
                flow.allotment += self.quantum;
                self.round.rotate_left(1);
                continue;
            }
            let packet = flow.line.pop().expect("only flows with packets are in the round");
            flow.allotment -= i64::from(packet.bytes) + self.header;
            flow.changed = self.changes;
            self.changes += 1;
            if flow.line.is_empty() {
                self.round.pop_front();
            }
            self.held.packets -= 1;
            self.held.bytes -= Bytes::from(packet.bytes);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

impl Sfq {
    /// The flow to drop from: the longest, and among equals the one that reached this length last, like `sfq_link`. If
    /// every flow holds one packet, it is the next in turn (`sfq_drop`).
    fn longest(&self) -> u32 {
        let key = |&bucket: &u32| {
            let flow = &self.flows[bucket as usize];
            (flow.line.len(), flow.changed)
        };
        let longest = self.round.iter().copied().max_by_key(key).expect("a full queue has a flow");
        if self.flows[longest as usize].line.len() == 1 { self.round[0] } else { longest }
    }

    #[cold]
    fn shed(&mut self, bucket: u32, fate: &mut Fate) {
        let line = &mut self.flows[bucket as usize].line;
        let victim = if self.drops_head { line.pop() } else { line.pop_tail() };
        let victim = victim.expect("the longest flow has a packet");
        self.flows[bucket as usize].changed = self.changes;
        self.changes += 1;
        self.held.packets -= 1;
        self.held.bytes -= Bytes::from(victim.bytes);
        if self.flows[bucket as usize].line.is_empty() {
            self.round.retain(|&listed| listed != bucket);
        }
        fate.drop(victim, DropReason::Overlimit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::scenario::{Params, Value};

    fn sfq(limit: u32) -> Sfq {
        let params = Params::from([("limit_packets".into(), Value::Number(f64::from(limit)))]);
        let given = Checked::new(&Sfq::CARD, &params, "q").unwrap();
        Sfq::new(&given, &Surroundings::of_seed(1)).unwrap()
    }

    fn fill(queue: &mut Sfq, flows: &[u32], fate: &mut Fate) {
        for (slot, &flow) in flows.iter().enumerate() {
            let packet = Packet {
                slot: slot as u32,
                flow: FlowId(flow),
                bytes: 1500,
                ecn: Ecn::NotEct,
                hop: 0,
                is_reverse: false,
                conversation: 0,
                enqueued: Time::ZERO,
            };
            queue.enqueue(packet, Time::ZERO, fate);
        }
    }

    #[test]
    fn a_quantum_is_one_full_packet_with_its_header() {
        let (mut queue, mut fate) = (sfq(127), Fate::default());
        fill(&mut queue, &[0, 0, 1], &mut fate);
        let left: Vec<u32> =
            std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut fate)).map(|packet| packet.flow.0).collect();
        assert_eq!(left, [0, 1, 0]);
    }

    #[test]
    fn the_129th_flow_with_packets_finds_no_place() {
        let (mut queue, mut fate) = (sfq(1000), Fate::default());
        let flows: Vec<u32> = (0..400).collect();
        fill(&mut queue, &flows, &mut fate);
        // Flows that share a bucket are one.
        let mut held: Vec<u32> = flows.clone();
        held.retain(|&flow| fate.drops.iter().all(|(packet, _)| packet.flow.0 != flow));
        assert_eq!((queue.round.len(), held.len() as u32), (128, queue.held.packets));
        let first_lost = fate.drops[0].0.flow.0;
        assert!(first_lost >= 128, "{first_lost}");
        // One that leaves makes place for another.
        while queue.round.len() == 128 {
            queue.dequeue(Time::ZERO, &mut fate).unwrap();
        }
        let dropped = fate.drops.len();
        fill(&mut queue, &[first_lost], &mut fate);
        assert_eq!((fate.drops.len(), queue.round.len()), (dropped, 128));
    }

    #[test]
    fn of_two_longest_the_last_to_grow_loses_its_newest() {
        let (mut queue, mut fate) = (sfq(3), Fate::default());
        // The arrival makes flow 1 as long as flow 0, which is first in the round.
        fill(&mut queue, &[0, 0, 1, 1], &mut fate);
        assert_eq!((fate.drops.len(), fate.drops[0].0.slot), (1, 3));
        // With one packet each, the next in turn goes: flow 0's. A limit that is given lets no such flow in.
        for (limit, lost) in [(None, 0), (Some(2), 2)] {
            let params = limit.map(|limit| ("limit_packets".into(), Value::Number(limit.into())));
            let params = params.into_iter().collect::<Params>();
            let given = Checked::new(&Sfq::CARD, &params, "q").unwrap();
            let mut queue = Sfq::new(&given, &Surroundings::of_seed(1)).unwrap();
            let mut fate = Fate::default();
            queue.limit = 2;
            fill(&mut queue, &[0, 1, 2], &mut fate);
            assert_eq!((fate.drops.len(), fate.drops[0].0.slot), (1, lost));
        }
    }
}
