//! pfifo_fast: three FIFOs in order of priority.

use super::dscp;
use super::parts::Line;
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

const CARD: Card = Card {
    name: "pfifo_fast",
    title: "Three bands by priority",
    law: "a packet joins the band of its DSCP's lower bits: with bit 4 and without bit 2 the first, with bit 2 alone \
          the third, else the second. A band drops arrivals once `limit_packets` slots are taken, one by each packet \
          until it has left. From 32 slots on up to 15 packets more that have left keep theirs: slots become free \
          16 at a time, and at the ring's end. The first band that holds packets sends",
    source: "tc-pfifo_fast(8) and tc-prio(8), tables of TOS and priority; Linux 6.1 sch_generic.c and ptr_ring.h on a \
          machine of 64-byte cache lines",
    differs: &[
        "A packet has no DSCP here: `dscp` says which flows' packets carry which, in both directions",
        "No SO_PRIORITY: the band follows from the DSCP alone",
    ],
    live_twin: Some("linux:pfifo_fast"),
    params: &[
        ParamSpec::whole(
            "limit_packets",
            "packets",
            1000,
            (1, 1 << 31),
            "Slots of each band, and so the most packets it holds (Linux: the device's txqueuelen).",
        ),
        dscp::PARAM,
    ],
};

/// A band: a ring of slots that are freed in batches.
#[derive(Clone, Debug, Default)]
struct Band {
    line: Line,
    /// Slots of departed packets that are not freed yet.
    stale: u32,
    /// Ring position of the next departure.
    place: u32,
}

/// Number of slots freed at once: two cache lines of pointers.
const BATCH: u32 = 16;

impl Band {
    fn is_full(&self, slots: u32) -> bool {
        self.line.len() + self.stale >= slots
    }

    fn pop(&mut self, slots: u32) -> Option<Packet> {
        let packet = self.line.pop()?;
        // A small ring frees each slot at once.
        let batch = if BATCH > slots / 2 { 1 } else { BATCH };
        self.stale += 1;
        self.place += 1;
        if self.stale >= batch || self.place >= slots {
            self.stale = 0;
        }
        self.place %= slots;
        Some(packet)
    }
}

/// pfifo_fast.
#[derive(Clone, Debug)]
pub struct PfifoFast {
    bands: [Band; 3],
    /// Band by flow number.
    band_of: Vec<u8>,
    limit: u32,
}

impl Registered for PfifoFast {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { kernels: &["pfifo_fast"], ..Traits::NONE };

    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let marks = dscp::of_flows(given, around.context.flows)?;
        Ok(PfifoFast {
            bands: Default::default(),
            band_of: marks.into_iter().map(dscp::band).collect(),
            limit: given.whole("limit_packets") as u32,
        })
    }
}

impl QueueDiscipline for PfifoFast {
    fn enqueue(&mut self, packet: Packet, _now: Time, fate: &mut Fate) {
        let band = self.band_of.get(packet.flow.0 as usize).copied().unwrap_or(dscp::band(0));
        let band = &mut self.bands[usize::from(band)];
        if band.is_full(self.limit) {
            fate.drop(packet, DropReason::QueueFull);
        } else {
            band.line.push(packet);
        }
    }

    fn dequeue(&mut self, _now: Time, _fate: &mut Fate) -> Option<Packet> {
        self.bands.iter_mut().find_map(|band| band.pop(self.limit))
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.bands.iter().map(|band| band.line.len()).sum(),
            bytes: self.bands.iter().map(|band| band.line.bytes()).sum::<Bytes>(),
        }
    }

    fn head(&self) -> Option<&Packet> {
        self.bands.iter().find_map(|band| band.line.head())
    }

    fn rests_when_empty(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};
    use crate::queue::dscp::{self, named};

    #[test]
    fn bands_are_those_of_the_tables() {
        // tc-prio(8): no bit is best effort, minimize delay interactive, maximize throughput bulk, both a mixture.
        let of = |word: &str| dscp::band(named(word).unwrap());
        assert_eq!([of("be"), of("cs1"), of("cs6")], [1, 1, 1]);
        assert_eq!([of("af12"), of("va"), of("4")], [0, 0, 0]);
        assert_eq!([of("af11"), of("af41"), of("2")], [2, 2, 2]);
        assert_eq!([of("ef"), of("af13"), of("af43")], [1, 1, 1]);
    }

    #[test]
    fn slots_become_free_sixteen_at_a_time_and_at_the_rings_end() {
        let packet = |slot| Packet {
            slot,
            flow: FlowId(0),
            bytes: 1500,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: false,
            conversation: 0,
            enqueued: Time::ZERO,
        };
        // 40 slots, full; after each departure as many arrivals as get in.
        let mut queue = PfifoFast { bands: Default::default(), band_of: vec![0], limit: 40 };
        let (mut fate, mut next) = (Fate::default(), 0);
        let mut fill = |queue: &mut PfifoFast| {
            let before = queue.backlog().packets;
            loop {
                queue.enqueue(packet(next), Time::ZERO, &mut fate);
                next += 1;
                if !fate.is_empty() {
                    fate.clear();
                    return queue.backlog().packets - before;
                }
            }
        };
        assert_eq!(fill(&mut queue), 40);
        let got: Vec<u32> = (0..56)
            .map(|_| {
                queue.dequeue(Time::ZERO, &mut Fate::default());
                fill(&mut queue)
            })
            .collect();
        let filled: Vec<usize> = (0..56).filter(|&at| got[at] > 0).collect();
        assert_eq!(filled, [15, 31, 39, 55]);
        assert_eq!([got[15], got[31], got[39], got[55]], [16, 16, 8, 16]);
    }

    #[test]
    fn the_first_band_goes_first_and_each_has_its_own_limit() {
        let mut queue = PfifoFast { bands: Default::default(), band_of: vec![2, 1, 0], limit: 2 };
        let mut fate = Fate::default();
        for slot in 0..9 {
            let packet = Packet {
                slot,
                flow: FlowId(slot % 3),
                bytes: 1500,
                ecn: Ecn::NotEct,
                hop: 0,
                is_reverse: false,
                conversation: 0,
                enqueued: Time::ZERO,
            };
            queue.enqueue(packet, Time::ZERO, &mut fate);
        }
        assert_eq!(queue.backlog(), Backlog { packets: 6, bytes: 9000 });
        assert_eq!(fate.drops.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [6, 7, 8]);
        let left: Vec<u32> =
            std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut fate)).map(|packet| packet.slot).collect();
        assert_eq!(left, [2, 5, 1, 4, 0, 3]);
    }
}
