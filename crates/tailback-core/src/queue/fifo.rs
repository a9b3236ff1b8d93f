//! First in, first out, with a limit: drop-tail or drop-head.
//!
//! Law: an arrival of L bytes that finds n packets of b bytes is accepted
//! - `fits`: if n < limit_packets and b + L ≤ limit_bytes (Linux pfifo, bfifo);
//! - `below`: if n < limit_packets and b ≤ limit_bytes, so the queue may exceed its bytes by one packet
//!   (FreeBSD dummynet);
//! - `ns2`: if n + 1 < limit_packets and b + L < limit_bytes (ns-2.35 DropTail: one packet less than it says).
//!
//! `in_service` says whether n and b include the packet being transmitted: in FreeBSD 7's dummynet the head stays
//! queued until its transmission time is over, in Linux the device has taken it.
//!
//! Source: Linux 5.10 net/sched/sch_fifo.c; FreeBSD 7.3 sys/netinet/ip_dummynet.c; ns-2.35 queue/drop-tail.cc.
//! Live twin: Linux `pfifo`, `bfifo`, `pfifo_head_drop`.

use super::parts::Line;
use super::registry::{Place, Registered};
use super::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

/// Which comparison decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Accept {
    Fits,
    Below,
    Ns2,
}

/// What a FIFO takes at its tail.
#[derive(Clone, Copy, Debug)]
pub struct TailDrop {
    limit_packets: u32,
    limit_bytes: Bytes,
    accept: Accept,
    counts_service: bool,
}

impl TailDrop {
    /// Is there room for `arrival` bytes where `held` waits and `in_service` bytes are being transmitted?
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

/// A FIFO.
#[derive(Clone, Debug)]
pub struct Fifo {
    line: Line,
    limit: TailDrop,
    drops_head: bool,
    /// Bytes being transmitted.
    in_service: u32,
}

impl Registered for Fifo {
    const CARD: Card = Card {
        name: "fifo",
        title: "FIFO drop-tail",
        law: "accept if the backlog is below the limit",
        source: "Linux 5.10 sch_fifo.c; FreeBSD 7.3 ip_dummynet.c; ns-2.35 drop-tail.cc",
        differs: &["No limit unless one is given; Linux takes the device's txqueuelen, dummynet 50 packets"],
        live_twin: Some("linux:bfifo"),
        params: &[
            ParamSpec::whole("limit_packets", "packets", 0, (1, 1 << 31), "Most packets held.")
                .depends("no limit"),
            ParamSpec::whole("limit_bytes", "B", 0, (1, 1 << 40), "Most bytes held.").depends("no limit"),
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
        ],
    };

    fn new(given: &Checked<'_>, _place: &Place) -> Result<Self, ScenarioError> {
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
        Ok(Fifo { line: Line::default(), limit, drops_head: given.choice("drop") == "head", in_service: 0 })
    }
}

impl QueueDiscipline for Fifo {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Time, fate: &mut Fate) {
        let has_room = self.accepts(packet.bytes) || (self.drops_head && self.make_room(packet.bytes, fate));
        if !has_room {
            fate.drop(packet, DropReason::QueueFull);
            return;
        }
        self.line.push(packet);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _fate: &mut Fate) -> Option<Packet> {
        self.line.pop()
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
    /// Its rule, if it only ever drops at the tail: then it need not be asked what leaves.
    pub(crate) fn tail_drop(&self) -> Option<TailDrop> {
        (!self.drops_head).then_some(self.limit)
    }

    #[inline]
    fn accepts(&self, arrival: u32) -> bool {
        self.limit.accepts(self.line.backlog(), self.in_service, arrival)
    }

    /// Drop from the head until `arrival` is acceptable; false if even an empty queue would not take it, and
    /// then nothing was dropped.
    fn make_room(&mut self, arrival: u32, fate: &mut Fate) -> bool {
        let empty = Fifo { line: Line::default(), ..*self };
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
