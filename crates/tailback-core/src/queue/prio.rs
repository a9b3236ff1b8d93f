//! prio: bands in order of priority.

use super::bands::{self, Banded, Bands};
use super::dscp;
use super::registry::{Queue, Registered, Surroundings};
use super::{Backlog, Fate, QueueDiscipline};
use crate::packet::{Acknowledgement, Packet};
use crate::params::{Card, Checked};
use crate::scenario::{BandSpec, ScenarioError};
use crate::time::Time;

const CARD: Card = Card {
    name: "prio",
    title: "Bands by priority",
    law: "a packet joins the first band that names its flow or its DSCP, otherwise the last. The first band that has \
          a packet to send sends it. Without `bands` there are Linux's three, by the DSCP's lower bits as pfifo_fast \
          has them",
    source: "tc-prio(8); Linux 6.1 sch_prio.c",
    differs: &[
        "Filters are the bands' lists of flows and DSCPs: no ports, as a flow's name stands for them",
        "A packet has no DSCP here: `dscp` says which flows' packets carry which, in both directions",
    ],
    live_twin: Some("linux:prio"),
    params: &[bands::LIMIT, dscp::PARAM],
};

/// prio.
#[derive(Clone, Debug)]
pub struct Prio {
    bands: Bands,
}

impl Registered for Prio {
    const CARD: Card = CARD;

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let marks = dscp::of_flows(given, around.context.flows)?;
        let of_flow = marks.into_iter().map(|mark| usize::from(dscp::band(mark))).collect();
        Ok(Prio { bands: Bands::plain(3, of_flow, given, around)? })
    }
}

impl Banded for Prio {
    const TAKES_SHAPERS: bool = true;

    fn put_bands(&mut self, bands: Bands, _spec: &[BandSpec]) {
        self.bands = bands;
    }

    fn bands(&self) -> &[Queue] {
        &self.bands.queues
    }
}

impl Prio {
    fn waiting(&self) -> impl Iterator<Item = &Queue> {
        self.bands.queues.iter().filter(|queue| queue.backlog().packets > 0)
    }
}

impl QueueDiscipline for Prio {
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        let band = self.bands.of(&packet);
        self.bands.queues[band].enqueue(packet, now, fate);
    }

    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        self.bands.queues.iter_mut().find_map(|queue| queue.dequeue(now, fate))
    }

    fn backlog(&self) -> Backlog {
        self.bands.backlog()
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        // A band without a shaper is always ready, and so returns `None`.
        self.waiting().map(|queue| queue.ready_at(now)).min().flatten()
    }

    fn head(&self) -> Option<&Packet> {
        if self.bands.queues.iter().any(Queue::holds_back) {
            return None;
        }
        self.waiting().next().and_then(QueueDiscipline::head)
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
