//! A tail-drop FIFO at a fixed rate: when a packet joins it, all of its future is known.
//!
//! Law: it begins to be sent when the one before it ends, at f, and arrives at f + 8L/C + D. So it goes straight into
//! the pipe with its due time, behind those that still wait, and nothing is moved from queue to serialiser to pipe.
//! The last `queued.packets` entries of the pipe wait; the one before them, if `step` is set, is being sent.
//!
//! Everybody else asks the queue at each departure (`serial`); a test holds the two side by side.

use super::api::Watch;
use super::interface::Interface;
use super::pace::Serialiser;
use crate::packet::Packet;
use crate::queue::fifo::TailDrop;
use crate::queue::{DropReason, Fate};
use crate::time::{Bytes, Duration, Time};

/// A serialiser that knows each departure on arrival; the interface's queue stays empty.
#[derive(Clone, Debug)]
pub struct Foreseen {
    limit: TailDrop,
    pub serialiser: Serialiser,
    /// When the packet being sent has been; [`Time::NEVER`] if none is.
    step: Time,
    /// When all that is held now has been sent.
    free_at: Time,
}

impl Foreseen {
    pub fn new(limit: TailDrop, serialiser: Serialiser) -> Self {
        Foreseen { limit, serialiser, step: Time::NEVER, free_at: Time::ZERO }
    }

    #[inline(always)]
    pub fn push(&mut self, to: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = to.now;
        if !self.limit.accepts(to.queued, self.sending(to), packet.bytes) {
            return to.drop(packet, DropReason::QueueFull, now, fate, watch);
        }
        let transmission = self.serialiser.time_for(packet.bytes);
        let bytes = Bytes::from(packet.bytes);
        to.pipe_bytes += bytes;
        to.queued.packets += 1;
        to.queued.bytes += bytes;
        watch.on_enqueue(now, &packet, to.queued);
        if self.step == Time::NEVER {
            self.free_at = now + transmission;
            to.pipe.push_back((self.free_at + to.delay, packet));
            self.begin_next(to, now, watch);
        } else {
            self.free_at += transmission;
            to.pipe.push_back((self.free_at + to.delay, packet));
            to.note_backlog(now);
        }
    }

    /// Do what is due until `now`.
    #[inline(always)]
    pub fn catch_up(&mut self, to: &mut Interface, now: Time, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if to.queued.packets == 0 {
                self.step = Time::NEVER;
            } else {
                self.begin_next(to, at, watch);
                to.note_backlog(at);
            }
        }
    }

    /// The transmission of the first that waits begins.
    #[inline]
    fn begin_next(&mut self, to: &mut Interface, at: Time, watch: &mut impl Watch) {
        let (due, packet) = to.pipe[to.pipe.len() - to.queued.packets as usize];
        to.queued.packets -= 1;
        to.queued.bytes -= Bytes::from(packet.bytes);
        watch.on_dequeue(at, &packet, to.queued);
        let transmission = due.since(at + to.delay);
        to.busy += transmission;
        self.step = at + transmission;
    }

    /// Bytes of the packet being sent; 0 if none is.
    #[inline]
    pub fn sending(&self, of: &Interface) -> u32 {
        if self.step == Time::NEVER {
            return 0;
        }
        of.pipe[of.pipe.len() - of.queued.packets as usize - 1].1.bytes
    }

    /// How long it has transmitted until the last call.
    pub fn busy(&self, of: &Interface) -> Duration {
        if self.step == Time::NEVER { of.busy } else { of.busy.saturating_sub(self.step.since(of.now)) }
    }
}
