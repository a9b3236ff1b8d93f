//! SFQ: stochastic fairness, hashed flows in a round robin of bytes.

use std::collections::VecDeque;

use super::parts::{Line, bucket_of};
use super::registry::{Registered, Surroundings};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

const CARD: Card = Card {
    name: "sfq",
    title: "Stochastic fairness queueing",
    law: "every flow with packets may send `quantum` bytes a round. When full, the flow with most packets \
          loses its newest (or, with `drop` head, its oldest)",
    source: "P. McKenney, \"Stochastic Fairness Queueing\", INFOCOM 1990; constants of Linux 5.10 sch_sfq.c",
    differs: &[
        "The hash takes flow, direction and connection by number, of connections eight bits",
        "The hash is not perturbed again during a run (Linux: `perturb`, off by default)",
        "Linux rounds allotments to 8 bytes; here bytes are exact",
    ],
    live_twin: Some("linux:sfq"),
    params: &[
        ParamSpec::whole("limit_packets", "packets", 127, (1, 1 << 31), "Most packets held."),
        ParamSpec::whole("depth", "packets", 127, (1, 1 << 31), "Most packets held of one flow."),
        ParamSpec::whole("flows", "", 1024, (1, 65_536), "Hash buckets (Linux: divisor)."),
        ParamSpec::whole("quantum", "B", 1514, (1, 1 << 20), "Bytes a flow may send a round."),
        ParamSpec::choice("drop", &["tail", "head"], "Which end of the longest flow a full queue drops."),
    ],
};

#[derive(Clone, Debug, Default)]
struct Flow {
    line: Line,
    allotment: i64,
}

/// SFQ.
#[derive(Clone, Debug)]
pub struct Sfq {
    flows: Vec<Flow>,
    /// Flows with packets, next in turn first.
    round: VecDeque<u32>,
    perturbation: u64,
    quantum: i64,
    limit: u32,
    depth: u32,
    drops_head: bool,
    held: Backlog,
}

impl Registered for Sfq {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, around: &Surroundings) -> Result<Self, ScenarioError> {
        Ok(Sfq {
            flows: vec![Flow::default(); given.whole("flows") as usize],
            round: VecDeque::new(),
            perturbation: around.seed,
            quantum: given.whole("quantum") as i64,
            limit: given.whole("limit_packets") as u32,
            depth: given.whole("depth") as u32,
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
            flow.allotment = self.quantum;
            self.round.push_back(bucket);
        }
        flow.line.push(packet);
        self.held.packets += 1;
        self.held.bytes += Bytes::from(packet.bytes);
        if self.held.packets > self.limit {
            // The first in the round wins a tie.
            let longest = (self.round.iter().rev().copied())
                .max_by_key(|&bucket| self.flows[bucket as usize].line.len())
                .expect("a full queue has a flow");
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
            flow.allotment -= i64::from(packet.bytes);
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
    #[cold]
    fn shed(&mut self, bucket: u32, fate: &mut Fate) {
        let line = &mut self.flows[bucket as usize].line;
        let victim = if self.drops_head { line.pop() } else { line.pop_tail() };
        let victim = victim.expect("the longest flow has a packet");
        self.held.packets -= 1;
        self.held.bytes -= Bytes::from(victim.bytes);
        if line.is_empty() {
            self.round.retain(|&listed| listed != bucket);
        }
        fate.drop(victim, DropReason::Overlimit);
    }
}
