//! drr: bands served by deficit round robin.

use std::collections::VecDeque;

use super::bands::{self, Banded, Bands};
use super::dscp;
use super::registry::{Queue, Registered, Surroundings, Traits};
use super::{Backlog, Fate, QueueDiscipline};
use crate::packet::{Acknowledgement, Packet};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::{BandSpec, ScenarioError};
use crate::time::{Bytes, Time};

const CARD: Card = Card {
    name: "drr",
    title: "Bands that take turns by bytes",
    law: "a packet joins the first band that names its flow or its DSCP, otherwise the last. A band that begins to \
          hold packets joins the end of the round with a credit of one quantum. The band at the head sends while its \
          next packet is within its credit; otherwise it gains a quantum and goes to the end. Without `bands` each \
          flow has one",
    source: "Shreedhar and Varghese 1995; tc-drr(8); Linux 6.1 sch_drr.c",
    differs: &[
        "Packets are counted without the 14 bytes of an Ethernet header, and so is the quantum: 1500 bytes for \
         Linux's 1514",
        "A band whose queue drops its last packets as its turn comes leaves the round; Linux ends the turn of all",
        "A packet has no DSCP here: `dscp` says which flows' packets carry which, in both directions",
    ],
    live_twin: Some("linux:drr"),
    params: &[
        ParamSpec::size(
            "quantum",
            1500,
            (1, 1 << 31),
            "Bytes that a band gains a round; a band may state its own.",
        ),
        bands::LIMIT,
        dscp::PARAM,
    ],
};

/// State of a band in the round.
#[derive(Clone, Debug)]
struct Turn {
    quantum: Bytes,
    credit: Bytes,
    /// A packet taken from a queue that decides at its head, waiting for credit.
    held: Option<Packet>,
}

/// drr.
#[derive(Clone, Debug)]
pub struct Drr {
    bands: Bands,
    turns: Vec<Turn>,
    /// Backlogged bands in the order of their turns.
    round: VecDeque<usize>,
    quantum: Bytes,
}

impl Registered for Drr {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { isolates: "flows", ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        dscp::of_flows(given, around.context.flows)?;
        let flows = around.context.flows.len().max(1);
        let bands = Bands::plain(flows, (0..flows).collect(), given, around)?;
        let mut queue = Drr {
            bands: bands.clone(),
            turns: Vec::new(),
            round: VecDeque::new(),
            quantum: given.whole("quantum"),
        };
        queue.put_bands(bands, &[]);
        Ok(queue)
    }
}

impl Banded for Drr {
    const TAKES_SHAPERS: bool = false;

    fn put_bands(&mut self, bands: Bands, spec: &[BandSpec]) {
        let own = |number: usize| spec.get(number).and_then(|band| band.quantum).unwrap_or(self.quantum);
        self.turns = (0..bands.queues.len())
            .map(|number| Turn { quantum: own(number), credit: 0, held: None })
            .collect();
        self.bands = bands;
    }

    fn bands(&self) -> &[Queue] {
        &self.bands.queues
    }
}

impl QueueDiscipline for Drr {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let band = self.bands.of(&packet);
        let begins = bands::enqueue_noting_first(&mut self.bands.queues[band], packet, now, fate);
        if begins && self.turns[band].held.is_none() {
            self.turns[band].credit = self.turns[band].quantum;
            self.round.push_back(band);
        }
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        loop {
            let band = *self.round.front()?;
            let (queue, turn) = (&mut self.bands.queues[band], &mut self.turns[band]);
            if turn.held.is_none() && queue.head().is_none() {
                turn.held = queue.dequeue(now, fate);
            }
            let Some(next) = turn.held.as_ref().or_else(|| queue.head()) else {
                self.round.pop_front();
                continue;
            };
            let bytes = bands::length(next);
            if bytes > turn.credit {
                turn.credit += turn.quantum;
                self.round.rotate_left(1);
                continue;
            }
            turn.credit -= bytes;
            let packet = turn.held.take().or_else(|| queue.dequeue(now, fate));
            if queue.backlog().packets == 0 {
                self.round.pop_front();
            }
            return packet;
        }
    }

    fn backlog(&self) -> Backlog {
        let mut all = self.bands.backlog();
        for packet in self.turns.iter().filter_map(|turn| turn.held.as_ref()) {
            all.packets += 1;
            all.bytes += bands::length(packet);
        }
        all
    }

    fn reads_acks(&self) -> bool {
        self.bands.read_acks()
    }

    fn show_ack(&mut self, packet: &Packet, ack: Acknowledgement) {
        self.bands.show_ack(packet, ack);
    }

    fn rests_when_empty(&self) -> bool {
        self.bands.rest_when_empty()
    }
}
