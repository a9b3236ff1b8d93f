//! First in, first out with a limit: drop-tail or drop-head.
//!
//! `in_service` sets whether n and b include the packet being transmitted. In FreeBSD 7's dummynet the head stays
//! queued until its transmission ends; in Linux the device has already taken it.
//!
//! With `offload` = N a burst waits as one packet of up to N segments (Linux GSO: the stack passes a burst down in one
//! piece, which is segmented below the queue). A burst is what one connection sends at one instant: segments of equal
//! length, except that the last may be shorter. It counts as one in n until its first segment leaves, and is accepted
//! or dropped whole; b counts the bytes that wait. Backlogs are reported in segments.

use std::collections::VecDeque;

use super::parts::Line;
use super::registry::{Registered, Surroundings, Traits};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

const CARD: Card = Card {
    name: "fifo",
    title: "FIFO drop-tail",
    law: "An arrival of L bytes that finds n packets of b bytes is accepted, by `accept`. `fits`: if n < \
          limit_packets and b + L ≤ limit_bytes (Linux pfifo, bfifo). `below`: if n < limit_packets and b ≤ \
          limit_bytes, so the queue may exceed its bytes by one packet (FreeBSD dummynet). `ns2`: if n + 1 < \
          limit_packets and b + L < limit_bytes (ns-2.35 DropTail: one packet less than it says)",
    source: "Linux 5.10 net/sched/sch_fifo.c; FreeBSD 7.3 sys/netinet/ip_dummynet.c; ns-2.35 \
          queue/drop-tail.cc",
    differs: &["No limit unless one is given; Linux takes the device's txqueuelen, dummynet 50 packets"],
    live_twin: Some("linux:bfifo"),
    params: &[
        ParamSpec::whole("limit_packets", "packets", 0, (1, 1 << 31), "Most packets held.")
            .depends("no limit"),
        ParamSpec::size("limit_bytes", 0, (1, 1 << 40), "Most bytes held.").depends("no limit"),
        ParamSpec::choice(
            "accept",
            &["fits", "below", "ns2"],
            "An arrival must fit (Linux), or find the queue not above its limit (dummynet), or ns-2's rule.",
        ),
        ParamSpec::choice(
            "in_service",
            &["not-counted", "counted"],
            "Whether the packet being transmitted counts against the limit (dummynet before FreeBSD 8: yes).",
        ),
        ParamSpec::choice(
            "drop",
            &["tail", "head"],
            "Which end a full queue drops: the arrival, or the oldest until the arrival fits.",
        ),
        ParamSpec::whole(
            "offload",
            "segments",
            1,
            (1, 1 << 16),
            "A burst waits, and is dropped, as one packet of up to this many segments (Linux GSO); 1: none does.",
        ),
    ],
};

/// The comparison that decides whether a packet is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Accept {
    Fits,
    Below,
    Ns2,
}

/// The drop-tail rule of a FIFO.
#[derive(Clone, Copy, Debug)]
pub struct TailDrop {
    limit_packets: u32,
    limit_bytes: Bytes,
    accept: Accept,
    counts_service: bool,
}

impl TailDrop {
    /// Whether `arrival` bytes are accepted with a backlog of `held` and `in_service` bytes being transmitted.
    #[inline]
    pub(crate) fn accepts(&self, held: Backlog, in_service: u32, arrival: u32) -> bool {
        let in_service = if self.counts_service { in_service } else { 0 };
        let n = held.packets + u32::from(in_service > 0);
        let b = held.bytes + Bytes::from(in_service);
        let arrival = Bytes::from(arrival);
        match self.accept {
            Accept::Fits => n < self.limit_packets && b + arrival <= self.limit_bytes,
            Accept::Below => n < self.limit_packets && b <= self.limit_bytes,
            Accept::Ns2 => n + 1 < self.limit_packets && b + arrival < self.limit_bytes,
        }
    }
}

impl TailDrop {
    /// Whether an accepted burst may grow by `arrival` bytes, with `held` bytes waiting. Packets were counted at its
    /// start.
    fn accepts_more(&self, held: Bytes, in_service: u32, arrival: u32) -> bool {
        let in_service = if self.counts_service { in_service } else { 0 };
        let after = held + Bytes::from(in_service) + Bytes::from(arrival);
        match self.accept {
            Accept::Fits => after <= self.limit_bytes,
            Accept::Below => true,
            Accept::Ns2 => after < self.limit_bytes,
        }
    }
}

/// The burst that is currently arriving.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Its most recent segment.
    last: Packet,
    segments: u32,
    /// A short segment has ended the burst.
    is_over: bool,
    is_dropped: bool,
}

impl Burst {
    /// Whether `packet` is the next segment of this burst, which has at most `most` segments.
    fn is_joined_by(&self, packet: &Packet, most: u32) -> bool {
        let sender = |packet: &Packet| (packet.flow, packet.is_reverse, packet.conversation, packet.enqueued);
        let is_room = self.segments < most && !self.is_over;
        is_room && sender(&self.last) == sender(packet) && packet.bytes <= self.last.bytes
    }
}

/// State of offload: bursts that wait as one packet each.
#[derive(Clone, Debug)]
struct Offload {
    /// Maximum segments of a burst.
    most: u32,
    arriving: Option<Burst>,
    /// Number of waiting segments of each burst.
    waiting: VecDeque<u32>,
    /// Whether the first segment of the burst at the head has left.
    head_begun: bool,
}

impl Offload {
    fn new(most: u32) -> Self {
        Offload { most, arriving: None, waiting: VecDeque::new(), head_begun: false }
    }

    /// Number of bursts of which no segment has left.
    fn packets(&self) -> u32 {
        self.waiting.len() as u32 - u32::from(self.head_begun)
    }

    fn enqueue(
        &mut self,
        packet: Packet,
        line: &mut Line,
        limit: &TailDrop,
        in_service: u32,
        fate: &mut Fate,
    ) {
        let burst = match &mut self.arriving {
            Some(burst) if burst.is_joined_by(&packet, self.most) => {
                burst.segments += 1;
                burst.is_over = packet.bytes < burst.last.bytes;
                burst.last = packet;
                if !burst.is_dropped && !limit.accepts_more(line.bytes(), in_service, packet.bytes) {
                    burst.is_dropped = true;
                    self.drop_last(line, fate);
                }
                self.arriving.expect("a burst arrives")
            }
            _ => {
                let held = Backlog { packets: self.packets(), bytes: line.bytes() };
                let is_dropped = !limit.accepts(held, in_service, packet.bytes);
                let burst = Burst { last: packet, segments: 1, is_over: false, is_dropped };
                if !is_dropped {
                    self.waiting.push_back(0);
                }
                *self.arriving.insert(burst)
            }
        };
        if burst.is_dropped {
            return fate.drop(packet, DropReason::QueueFull);
        }
        if self.waiting.is_empty() {
            // All earlier segments of the burst have left at this same instant.
            self.waiting.push_back(0);
            self.head_begun = true;
        }
        *self.waiting.back_mut().expect("a burst waits") += 1;
        line.push(packet);
    }

    /// Drops the waiting segments of the arriving burst, oldest first.
    fn drop_last(&mut self, line: &mut Line, fate: &mut Fate) {
        let segments = self.waiting.pop_back().unwrap_or(0);
        self.head_begun &= !self.waiting.is_empty();
        let start = fate.drops.len();
        for _ in 0..segments {
            fate.drop(line.pop_tail().expect("it waits"), DropReason::QueueFull);
        }
        fate.drops[start..].reverse();
    }

    /// Removes a segment that has left from the head.
    fn leave(&mut self) {
        let left = self.waiting.front_mut().expect("its burst waits");
        *left -= 1;
        self.head_begun = *left > 0;
        if *left == 0 {
            self.waiting.pop_front();
        }
    }
}

/// A FIFO.
#[derive(Clone, Debug)]
pub struct Fifo {
    line: Line,
    limit: TailDrop,
    drops_head: bool,
    /// Offload; `None`: every segment is a packet.
    offload: Option<Box<Offload>>,
    /// Bytes being transmitted.
    in_service: u32,
}

impl Registered for Fifo {
    const CARD: Card = CARD;
    const TRAITS: Traits = Traits { kernels: &["pfifo", "bfifo"], ..Traits::NONE };

    fn new(given: &Checked<'_>, _around: &Surroundings<'_>) -> Result<Self, ScenarioError> {
        let limit = TailDrop {
            limit_packets: given.given_whole("limit_packets").map_or(u32::MAX, |n| n as u32),
            limit_bytes: given.given_whole("limit_bytes").unwrap_or(Bytes::MAX / 2),
            accept: match given.choice("accept") {
                "below" => Accept::Below,
                "ns2" => Accept::Ns2,
                _ => Accept::Fits,
            },
            counts_service: given.choice("in_service") == "counted",
        };
        let drops_head = given.choice("drop") == "head";
        let most = given.whole("offload") as u32;
        if drops_head && most > 1 {
            let problem = "what a queue with drop = \"head\" drops is not a burst here";
            return Err(given.refuse("offload", problem, "Leave offload out, or drop at the tail"));
        }
        let offload = (most > 1).then(|| Box::new(Offload::new(most)));
        Ok(Fifo { line: Line::default(), limit, drops_head, offload, in_service: 0 })
    }
}

impl QueueDiscipline for Fifo {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Time, fate: &mut Fate) {
        if let Some(offload) = &mut self.offload {
            return offload.enqueue(packet, &mut self.line, &self.limit, self.in_service, fate);
        }
        let has_room = self.accepts(packet.bytes) || (self.drops_head && self.make_room(packet.bytes, fate));
        if !has_room {
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        self.line.push(packet);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _fate: &mut Fate) -> Option<Packet> {
        let packet = self.line.pop();
        if let (Some(offload), Some(_)) = (&mut self.offload, &packet) {
            offload.leave();
        }
        packet
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.line.backlog()
    }

    fn head(&self) -> Option<&Packet> {
        self.line.head()
    }

    #[inline]
    fn on_service(&mut self, bytes: u32) {
        self.in_service = bytes;
    }
}

impl Fifo {
    /// Its drop-tail rule, if it only ever drops at the tail; the queue then need not be asked at each departure.
    pub(crate) fn tail_drop(&self) -> Option<TailDrop> {
        (!self.drops_head && self.offload.is_none()).then_some(self.limit)
    }

    #[inline]
    fn accepts(&self, arrival: u32) -> bool {
        self.limit.accepts(self.line.backlog(), self.in_service, arrival)
    }

    /// Drops from the head until `arrival` is acceptable. Returns false, having dropped nothing, if even an empty queue
    /// would not accept it.
    fn make_room(&mut self, arrival: u32, fate: &mut Fate) -> bool {
        let empty = Fifo { line: Line::default(), offload: None, ..*self };
        if !empty.accepts(arrival) {
            return false;
        }
        while !self.accepts(arrival) {
            let oldest = self.line.pop().expect("an empty queue accepts");
            fate.drop(oldest, DropReason::Overlimit);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Host, Link, Watch};
    use crate::packet::{Ecn, FlowId};
    use crate::scenario::{LinkSpec, Params, QueueSpec, Value};
    use proptest::prelude::*;

    #[derive(Default)]
    struct Far(Vec<u32>);
    impl Watch for Far {}
    impl Host for Far {
        fn deliver(&mut self, _due: Time, packet: Packet) {
            self.0.push(packet.slot);
        }
        fn duplicate(&mut self, _packet: &Packet) -> Packet {
            unreachable!("the wire is plain")
        }
    }

    /// Slots that arrived and those that were dropped, of packets of (instant in µs, flow, bytes) numbered as they come,
    /// at 12 Mbit/s: 1500 B take 1 ms. The link checks after every call that no packet got lost.
    fn through(params: &[(&str, f64)], packets: &[(u64, u32, u32)]) -> (Vec<u32>, Vec<u32>) {
        let params: Params =
            params.iter().map(|(name, value)| (name.to_string(), Value::Number(*value))).collect();
        let queue = QueueSpec { discipline: "fifo".into(), params, ..Default::default() };
        let spec = LinkSpec { rate_bps: Some(12_000_000), queue, ..LinkSpec::default() };
        let mut link = Link::build(&spec, 0, 1).unwrap();
        let (mut far, mut fate) = (Far::default(), Fate::default());
        for (slot, &(us, flow, bytes)) in (0..).zip(packets) {
            let packet = Packet {
                slot,
                flow: FlowId(flow),
                bytes,
                ecn: Ecn::NotEct,
                hop: 0,
                is_reverse: false,
                conversation: 0,
                enqueued: Time::ZERO,
            };
            link.push(packet, Time::from_us(us), &mut fate, &mut far);
        }
        link.advance(Time::from_ms(1_000_000), &mut fate, &mut far);
        (far.0, fate.drops.iter().map(|(packet, _)| packet.slot).collect())
    }

    /// Bursts of `segments` full packets each, a microsecond apart.
    fn bursts(number: u32, segments: u32) -> Vec<(u64, u32, u32)> {
        (0..number * segments).map(|slot| (u64::from(slot / segments), 0, 1500)).collect()
    }

    #[test]
    fn a_queue_of_k_packets_holds_k_bursts_and_drops_whole_ones() {
        // One burst leaves at once, three wait, the fifth and sixth are dropped, with all of their nine segments.
        let (arrived, dropped) = through(&[("limit_packets", 3.0), ("offload", 9.0)], &bursts(6, 9));
        assert_eq!(arrived, (0..36).collect::<Vec<_>>());
        assert_eq!(dropped, (36..54).collect::<Vec<_>>());
        // Without offload three segments wait behind the one that is being sent.
        let (arrived, _) = through(&[("limit_packets", 3.0)], &bursts(6, 9));
        assert_eq!(arrived, [0, 1, 2, 3]);
    }

    #[test]
    fn a_burst_that_does_not_fit_into_the_bytes_is_dropped_whole() {
        // The first burst leaves 2 × 1500 B behind, the second fits into 9000 B with them, the third does not.
        let (arrived, dropped) = through(&[("limit_bytes", 9000.0), ("offload", 9.0)], &bursts(3, 3));
        assert_eq!(arrived, [0, 1, 2, 3, 4, 5]);
        assert_eq!(dropped, [6, 7, 8]);
    }

    #[test]
    fn a_burst_ends_at_a_short_segment_at_its_most_and_at_another_flow() {
        let one = |packets: &[(u64, u32, u32)]| {
            let first = (0, 9, 1500);
            let all: Vec<_> = std::iter::once(first).chain(packets.iter().copied()).collect();
            through(&[("limit_packets", 1.0), ("offload", 3.0)], &all).1
        };
        let full = (1, 0, 1500);
        assert_eq!(one(&[full, full, full]), []);
        assert_eq!(one(&[full, full, full, full]), [4]);
        assert_eq!(one(&[full, (1, 0, 700), (1, 0, 700)]), [3]);
        assert_eq!(one(&[full, (1, 1, 1500)]), [2]);
        assert_eq!(one(&[full, (2, 0, 1500)]), [2]);
    }

    proptest! {
        #[test]
        fn every_packet_arrives_or_is_dropped_and_no_burst_is_torn(
            lengths in prop::collection::vec((0u64..4000, 1u32..12), 1..60),
            limit in 1u32..8,
        ) {
            let mut at = 0;
            let mut packets = Vec::new();
            let mut ends = Vec::new();
            for (wait, segments) in lengths {
                at += wait + 1;
                packets.extend((0..segments).map(|_| (at, 0, 1500)));
                ends.push(packets.len() as u32);
            }
            let (arrived, dropped) = through(&[("limit_packets", f64::from(limit)), ("offload", 11.0)], &packets);
            prop_assert_eq!(arrived.len() + dropped.len(), packets.len());
            let mut start = 0;
            for end in ends {
                let lost = dropped.iter().filter(|slot| (start..end).contains(*slot)).count() as u32;
                prop_assert!(lost == 0 || lost == end - start);
                start = end;
            }
        }

        #[test]
        fn bursts_of_one_are_packets(
            times in prop::collection::vec((0u64..1500, 0u32..3, 40u32..1500), 1..80),
            limit in 1u32..8,
        ) {
            let mut at = 0;
            let packets: Vec<_> = times.iter().map(|&(wait, flow, bytes)| { at += wait + 1; (at, flow, bytes) }).collect();
            let limit = ("limit_packets", f64::from(limit));
            prop_assert_eq!(through(&[limit, ("offload", 64.0)], &packets), through(&[limit], &packets));
        }
    }
}
