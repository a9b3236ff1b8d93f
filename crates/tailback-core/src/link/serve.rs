//! What a link asks of whatever serves its queue. `of` is the link's interface, already at the time of the call.

use super::api::Watch;
use super::interface::Interface;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate};
use crate::time::{Duration, Time};

/// A service. The defaults are those of one that acts only when something outside the link says so.
pub trait Serve {
    /// Do what is due until `now`.
    #[inline(always)]
    fn catch_up(&mut self, _of: &mut Interface, _now: Time, _fate: &mut Fate, _watch: &mut impl Watch) {}
    /// `packet` comes in; it waits in the queue until it is taken.
    #[inline(always)]
    fn push(&mut self, of: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        of.enqueue(packet, now, fate, watch);
        of.note_backlog(now);
    }
    /// Does whatever comes in arrive after something that is under way already? Then it does not move the next wake.
    #[inline(always)]
    fn keeps_wake(&self, of: &Interface) -> bool {
        of.is_under_way() && of.wire.is_none()
    }
    /// When the link must be advanced next; `arrival`: what [`Interface::next_arrival`] says.
    #[inline(always)]
    fn next_wake(&self, _of: &Interface, arrival: Time) -> Time {
        arrival
    }
    /// What is neither in the queue nor in the pipe.
    fn between(&self) -> Backlog;
    /// Bytes being transmitted, all of a packet until its last bit has left; 0 if idle.
    #[inline]
    fn in_service(&self, _of: &Interface) -> u32 {
        self.between().bytes as u32
    }
    /// What is in the link.
    #[inline(always)]
    fn resident(&self, of: &Interface) -> Backlog {
        let (queued, between) = (of.queued, self.between());
        Backlog {
            packets: queued.packets + between.packets + of.pipe.len() as u32,
            bytes: queued.bytes + between.bytes + of.pipe_bytes,
        }
    }
    /// The sum of bytes × picoseconds that the queue has held until the last call.
    fn held_integral(&self, of: &Interface) -> u128 {
        of.noted()
    }
    /// How long it has transmitted until the last call.
    fn busy(&self, of: &Interface) -> Duration {
        of.busy
    }
}
