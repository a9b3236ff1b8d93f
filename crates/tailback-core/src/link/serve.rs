//! The interface of a link's service. `of` is the link's interface, already set to the time of the call.

use super::api::Watch;
use super::interface::Interface;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate};
use crate::time::{Duration, Time};

/// A service. The defaults are for one that acts only when something outside the link triggers it.
pub trait Serve {
    /// Performs everything due up to `now`.
    #[inline(always)]
    fn catch_up(&mut self, _of: &mut Interface, _now: Time, _fate: &mut Fate, _watch: &mut impl Watch) {}
    /// Adds `packet`; it waits in the queue until the service takes it.
    #[inline(always)]
    fn push(&mut self, of: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        of.enqueue(packet, now, fate, watch);
        of.note_backlog(now);
    }
    /// Whether every new packet arrives after one that is already in the pipe, so that the next wake stays.
    #[inline(always)]
    fn keeps_wake(&self, of: &Interface) -> bool {
        of.is_under_way() && of.wire.is_none()
    }
    /// When the link must be advanced next; `arrival` is [`Interface::next_arrival`].
    #[inline(always)]
    fn next_wake(&self, _of: &Interface, arrival: Time) -> Time {
        arrival
    }
    /// Packets that are neither in the queue nor in the pipe.
    fn between(&self) -> Backlog;
    /// Bytes of the packet being transmitted, all of it until its last bit has left; 0 if idle.
    #[inline]
    fn in_service(&self, _of: &Interface) -> u32 {
        self.between().bytes as u32
    }
    /// All packets in the link.
    #[inline(always)]
    fn resident(&self, of: &Interface) -> Backlog {
        let (queued, between) = (of.queued, self.between());
        Backlog {
            packets: queued.packets + between.packets + of.pipe.len() as u32,
            bytes: queued.bytes + between.bytes + of.pipe_bytes,
        }
    }
    /// The queue's backlog integrated over time in bytes × picoseconds, up to the last call.
    fn held_integral(&self, of: &Interface) -> u128 {
        of.noted()
    }
    /// Total transmission time up to the last call.
    fn busy(&self, of: &Interface) -> Duration {
        of.busy
    }
}
