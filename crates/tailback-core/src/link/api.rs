//! The interface between a link and its host, and the link's counters.

use crate::packet::{Acknowledgement, Packet};
use crate::queue::{Backlog, DropReason};
use crate::time::{Bytes, Duration, Time};

/// Limit on a link's delay; a longer one is a mistake of units.
pub const LONGEST_DELAY: Duration = Duration::from_secs(86_400);
/// Limit on a link's rate: a thousand times today's fastest port.
pub const FASTEST: u64 = 1_000_000_000_000_000;

/// Observes the events in a link's queue, at the times when they happen. Every method is empty by default and then
/// costs nothing. `backlog` is the backlog after the event.
pub trait Watch {
    /// The following events are of link number `link`. A channel calls this, because it serves several links.
    #[inline]
    fn turn_to(&mut self, _link: u32) {}
    /// `packet` joined the queue.
    #[inline]
    fn on_enqueue(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// `packet` left the queue and its transmission began.
    #[inline]
    fn on_dequeue(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// The last bit of `packet` left the serialiser; only links that report departures call this.
    #[inline]
    fn on_departure(&mut self, _packet: &Packet) {}
    /// `packet` was dropped: from the queue, on arrival at it, or on the wire.
    #[inline]
    fn on_drop(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog, _reason: DropReason) {}
    /// The wire damaged `packet`, which continues.
    fn on_damage(&mut self, _packet: &Packet) {}
    /// `packet` was marked CE.
    #[inline]
    fn on_mark(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// The acknowledgement in `packet`, for a wire or a queue that handles ACKs. `None` if it is not TCP, or is a SYN.
    fn acknowledgement(&self, _packet: &Packet) -> Option<Acknowledgement> {
        None
    }
}

/// A watch that records nothing.
impl Watch for () {}

/// Owns the contents of packets, and receives those that arrive.
pub trait Host: Watch {
    /// `packet` arrived at the far end at `due`.
    fn deliver(&mut self, due: Time, packet: Packet);
    /// The wire duplicated `packet`: gives the copy a slot of its own.
    fn duplicate(&mut self, packet: &Packet) -> Packet;
}

/// Counters of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCount {
    /// Packets that entered the link.
    pub arrived: u64,
    /// Bytes of packets that entered the link.
    pub arrived_bytes: Bytes,
    /// Packets that arrived at the far end.
    pub delivered: u64,
    /// Bytes of packets delivered.
    pub delivered_bytes: Bytes,
    /// Packets dropped by the queue or lost on the wire.
    pub dropped: u64,
    /// Bytes of packets dropped.
    pub dropped_bytes: Bytes,
    /// Packets marked CE.
    pub marked: u64,
    /// Bytes of packets marked.
    pub marked_bytes: Bytes,
    /// Copies that the wire made.
    pub duplicated: u64,
    /// Bytes of those copies.
    pub duplicated_bytes: Bytes,
}
