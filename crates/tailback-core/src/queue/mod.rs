//! Queue disciplines: one a file, one row each in the registry below.
//!
//! A queue owns tickets, never payloads, and reads no clock. It reports what it does to packets through
//! [`Fate`]; the link checks that arrived = delivered + dropped + resident after every call.

pub mod bands;
pub mod cake;
pub mod choke;
pub mod codel;
pub mod drr;
pub mod dscp;
pub mod dualpi2;
pub mod external;
pub mod fifo;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod outside;
pub mod parts;
pub mod pfifo_fast;
pub mod pie;
pub mod prio;
pub mod red;
pub mod registry;
mod rotation;
pub mod sfq;
pub mod token_bucket;

use crate::packet::{Acknowledgement, Ecn, FlowId, Packet};
use crate::scenario::{QueueSpec, ScenarioError, Value};
use crate::time::{Bytes, Time};

crate::labels! {
    /// Why a packet was dropped.
    pub enum DropReason {
        /// The queue's limit (packets or bytes) was reached: tail drop.
        QueueFull = 0 => "queue-full",
        /// Dropped from the head or middle to make room.
        Overlimit = 1 => "overlimit",
        /// An active queue management decision.
        Aqm = 2 => "aqm",
        /// Lost on the wire by a random-loss model.
        Wire = 3 => "wire",
        /// It exceeded the policer in front of the queue.
        Policer = 4 => "policer",
        /// An acknowledgement that a later one replaced, on a wire that thins them or in CAKE.
        Thinned = 5 => "thinned",
    }
}

/// What a queue or link did to packets during one call, beyond delivering them.
#[derive(Default, Debug)]
pub struct Fate {
    /// Packets dropped, oldest first.
    pub drops: Vec<(Packet, DropReason)>,
    /// Packets marked CE (they stay in the queue or were returned).
    pub marks: Vec<Packet>,
}

impl Fate {
    /// Report a drop.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.drops.push((packet, reason));
    }
    /// Report a CE mark.
    pub fn mark(&mut self, packet: Packet) {
        self.marks.push(packet);
    }
    /// Whether nothing was dropped or marked.
    pub fn is_empty(&self) -> bool {
        self.drops.is_empty() && self.marks.is_empty()
    }
    /// Forget everything reported, keeping the memory.
    pub fn clear(&mut self) {
        self.drops.clear();
        self.marks.clear();
    }
}

/// How much a queue holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets.
    pub packets: u32,
    /// IP bytes.
    pub bytes: Bytes,
}

/// A queue discipline.
pub trait QueueDiscipline {
    /// Offer `packet` at `now` (its `enqueued` field is already `now`). Whatever is dropped, be it this
    /// packet or another, is reported to `fate`.
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate);
    /// Take the next packet to send at `now`.
    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet>;
    /// What is held now (the packet being transmitted is not).
    fn backlog(&self) -> Backlog;
    /// For a shaping queue: when `dequeue` may next succeed although it holds packets. `None`: whenever
    /// it holds any.
    fn ready_at(&self, _now: Time) -> Option<Time> {
        None
    }
    /// The packet `dequeue` would give, if the queue knows it without giving it: one that decides at the head does not.
    fn head(&self) -> Option<&Packet> {
        None
    }
    /// The link reports to the queue which bytes are being transmitted (0 = none). Only a queue whose limit
    /// counts the packet in service cares.
    fn on_service(&mut self, _bytes: u32) {}
    /// While nothing is held: would `packet`, dequeued as soon as it is enqueued, leave the queue as it was? Then neither is done.
    fn lets_pass(&self, _packet: &Packet) -> bool {
        false
    }
    /// Does it look at acknowledgements? Then [`Self::show_ack`] precedes the enqueue of each packet that has one.
    fn reads_acks(&self) -> bool {
        false
    }
    /// `packet`, which comes next, acknowledges this.
    fn show_ack(&mut self, _packet: &Packet, _ack: Acknowledgement) {}
    /// Does `dequeue` change nothing while nothing is held?
    fn rests_when_empty(&self) -> bool {
        false
    }
}

/// An error if `queue`, which `spec` at `field` (such as `links[0].queue`) describes, would drop a packet of `bytes`
/// even when empty: then a flow of such packets never gets one through. `queue` is asked as a copy.
pub fn refuse_too_small(
    queue: &registry::Queue,
    spec: &QueueSpec,
    field: &str,
    bytes: u32,
) -> Result<(), ScenarioError> {
    // A queue of the caller's own takes what it takes: its state cannot be copied to ask.
    if matches!(queue, registry::Queue::Hosted(_)) {
        return Ok(());
    }
    if !spec.bands.is_empty() {
        let all = spec.bands.iter().zip(queue.bands()).enumerate();
        let own = all.filter_map(|(number, (band, queue))| Some((number, band.queue.as_ref()?, queue)));
        for (number, spec, queue) in own {
            refuse_too_small(queue, spec, &format!("{field}.bands[{number}].queue"), bytes)?;
        }
        return Ok(());
    }
    let (mut empty, mut fate) = (queue.clone(), Fate::default());
    let packet = Packet {
        slot: 0,
        flow: FlowId(0),
        bytes,
        ecn: Ecn::NotEct,
        hop: 0,
        is_reverse: false,
        conversation: 0,
        enqueued: Time::ZERO,
    };
    empty.enqueue(packet, Time::ZERO, &mut fate);
    if fate.drops.is_empty() {
        return Ok(());
    }
    let named = |spec: &QueueSpec| {
        ["limit_bytes", "burst", "limit_packets"].into_iter().find(|name| spec.params.contains_key(*name))
    };
    let inner =
        spec.inner.as_deref().and_then(|inner| Some((inner, format!("{field}.inner"), named(inner)?)));
    let outer = named(spec).map(|name| (spec, field.to_string(), name));
    // The queue inside has no room, unless it is the bucket that is too small.
    let takes = |value: &Value| matches!(value, Value::Number(burst) if *burst >= f64::from(bytes));
    let guilty = if spec.params.get("burst").is_none_or(takes) { inner.or(outer) } else { outer.or(inner) };
    let value = guilty.as_ref().map_or_else(String::new, |(spec, _, name)| spec.params[*name].to_string());
    Err(ScenarioError {
        field: guilty.map_or_else(|| field.to_string(), |(_, at, name)| format!("{at}.params.{name}")),
        value,
        problem: format!("a packet of {bytes} bytes is dropped even by the empty queue"),
        fix: format!(
            "Give at least {bytes} bytes, or accept = \"below\", which takes a packet of any size when empty"
        ),
    })
}
