//! What a link asks of its host, and what it counts.

use crate::packet::{Acknowledgement, Packet};
use crate::queue::{Backlog, DropReason};
use crate::time::{Bytes, Duration, Time};

/// The longest delay a link may have; more is a mistake of units.
pub const LONGEST_DELAY: Duration = Duration::from_secs(86_400);
/// The fastest rate a link may have: a thousand times today's fastest port.
pub const FASTEST: u64 = 1_000_000_000_000_000;

/// Sees what happens in a link's queue, at the time it happens; every method defaults to nothing and then costs
/// nothing. `backlog` is what the queue holds after the event.
pub trait Watch {
    /// What follows happens at link number `link`: said by a channel, which works for several.
    #[inline]
    fn turn_to(&mut self, _link: u32) {}
    /// `packet` joined the queue.
    #[inline]
    fn on_enqueue(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// `packet` left the queue and its transmission began.
    #[inline]
    fn on_dequeue(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// The last bit of `packet` left the serialiser, at a link that reports departures.
    #[inline]
    fn on_departure(&mut self, _packet: &Packet) {}
    /// `packet` was dropped, from the queue, on arrival at it, or on the wire.
    #[inline]
    fn on_drop(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog, _reason: DropReason) {}
    /// The wire damaged `packet`, which goes on.
    fn on_damage(&mut self, _packet: &Packet) {}
    /// `packet` was marked CE.
    #[inline]
    fn on_mark(&mut self, _at: Time, _packet: &Packet, _backlog: Backlog) {}
    /// What `packet` acknowledges: asked by a wire or a queue that handles acknowledgements. `None`: it is no TCP, or a SYN.
    fn acknowledgement(&self, _packet: &Packet) -> Option<Acknowledgement> {
        None
    }
}

/// A watch that records nothing.
impl Watch for () {}

/// Owns what packets carry, and takes those that arrive.
pub trait Host: Watch {
    /// `packet` arrived at the far end at `due`.
    fn deliver(&mut self, due: Time, packet: Packet);
    /// The wire doubled `packet`: give its copy a slot of its own.
    fn duplicate(&mut self, packet: &Packet) -> Packet;
}

/// What a link has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCount {
    /// Packets pushed.
    pub arrived: u64,
    /// Bytes of packets pushed.
    pub arrived_bytes: Bytes,
    /// Packets that came out at the far end.
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
    /// Copies the wire made.
    pub duplicated: u64,
    /// Bytes of copies made.
    pub duplicated_bytes: Bytes,
}
