//! Queue disciplines: one a file, one row each in the registry below.
//!
//! A queue holds packet descriptors, never payloads, and reads no clock. It reports drops and marks through [`Fate`];
//! the link checks after every call that arrived = delivered + dropped + resident.

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

/// Drops and marks by a queue or link during one call.
#[derive(Default, Debug)]
pub struct Fate {
    /// Packets dropped, oldest first.
    pub drops: Vec<(Packet, DropReason)>,
    /// Packets marked CE; they are still queued, or were returned.
    pub marks: Vec<Packet>,
}

impl Fate {
    /// Records a drop.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.drops.push((packet, reason));
    }
    /// Records a CE mark.
    pub fn mark(&mut self, packet: Packet) {
        self.marks.push(packet);
    }
    /// Whether nothing was dropped or marked.
    pub fn is_empty(&self) -> bool {
        self.drops.is_empty() && self.marks.is_empty()
    }
    /// Clears the lists and keeps their memory.
    pub fn clear(&mut self) {
        self.drops.clear();
        self.marks.clear();
    }
}

/// Backlog of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets.
    pub packets: u32,
    /// IP bytes.
    pub bytes: Bytes,
}

/// A queue discipline.
pub trait QueueDiscipline {
    /// Offers `packet` at `now`, which must equal its `enqueued` field. Drops, of this packet or of others, are
    /// reported to `fate`.
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate);
    /// Takes the next packet to send at `now`.
    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet>;
    /// The current backlog, without the packet being transmitted.
    fn backlog(&self) -> Backlog;
    /// For a shaper: the earliest time at which `dequeue` may return a held packet. `None`: at any time.
    fn ready_at(&self, _now: Time) -> Option<Time> {
        None
    }
    /// The packet that `dequeue` would return, if known in advance; a queue that decides at its head does not know it.
    fn head(&self) -> Option<&Packet> {
        None
    }
    /// Whether it knows its head whenever it has one. A shaper around it then looks at the head, as Linux's `peek`, and
    /// never asks the empty queue for a packet.
    fn is_peeked(&self) -> bool {
        false
    }
    /// The link reports the bytes of the packet being transmitted (0: none). Only a queue whose limit counts them needs
    /// this.
    fn on_service(&mut self, _bytes: u32) {}
    /// For an empty queue: whether enqueuing and at once dequeuing `packet` would leave it unchanged. The link then
    /// skips both.
    fn lets_pass(&self, _packet: &Packet) -> bool {
        false
    }
    /// Whether it reads acknowledgements. If so, [`Self::show_ack`] precedes the enqueue of each packet that has one.
    fn reads_acks(&self) -> bool {
        false
    }
    /// Announces the acknowledgement of `packet`, which will be enqueued next.
    fn show_ack(&mut self, _packet: &Packet, _ack: Acknowledgement) {}
    /// Whether `dequeue` leaves an empty queue unchanged.
    fn rests_when_empty(&self) -> bool {
        false
    }
}

/// An error if `queue`, which `spec` at `field` (such as `links[0].queue`) describes, drops a packet of `bytes` even
/// when empty: no packet of that size would ever pass. A copy of `queue` is tested.
pub fn refuse_too_small(
    queue: &registry::Queue,
    spec: &QueueSpec,
    field: &str,
    bytes: u32,
) -> Result<(), ScenarioError> {
    // An external queue cannot be tested, because its state cannot be copied.
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
    // Either the inner queue is too small, or the bucket.
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
