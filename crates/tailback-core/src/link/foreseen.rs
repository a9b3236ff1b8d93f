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
use super::serve::Serve;
use crate::packet::Packet;
use crate::queue::fifo::TailDrop;
use crate::queue::{Backlog, DropReason, Fate};
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

    /// The transmission of the first that waits begins.
    #[inline]
    fn begin_next(&mut self, of: &mut Interface, at: Time, watch: &mut impl Watch) {
        let (due, packet) = of.pipe[of.pipe.len() - of.queued.packets as usize];
        of.queued.packets -= 1;
        of.queued.bytes -= Bytes::from(packet.bytes);
        watch.on_dequeue(at, &packet, of.queued);
        let transmission = due.since(at + of.delay);
        of.busy += transmission;
        self.step = at + transmission;
    }

    /// Bytes of the packet being sent; 0 if none is.
    #[inline]
    fn sending(&self, of: &Interface) -> u32 {
        if self.step == Time::NEVER {
            return 0;
        }
        of.pipe[of.pipe.len() - of.queued.packets as usize - 1].1.bytes
    }
}

impl Serve for Foreseen {
    #[inline(always)]
    fn push(&mut self, of: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        if !self.limit.accepts(of.queued, self.sending(of), packet.bytes) {
            return of.drop(packet, DropReason::QueueFull, now, fate, watch);
        }
        let transmission = self.serialiser.time_for(packet.bytes);
        let bytes = Bytes::from(packet.bytes);
        of.pipe_bytes += bytes;
        of.queued.packets += 1;
        of.queued.bytes += bytes;
        watch.on_enqueue(now, &packet, of.queued);
        if self.step == Time::NEVER {
            self.free_at = now + transmission;
            of.pipe.push_back((self.free_at + of.delay, packet));
            self.begin_next(of, now, watch);
        } else {
            self.free_at += transmission;
            of.pipe.push_back((self.free_at + of.delay, packet));
            of.note_backlog(now);
        }
    }

    #[inline(always)]
    fn catch_up(&mut self, of: &mut Interface, now: Time, _fate: &mut Fate, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if of.queued.packets == 0 {
                self.step = Time::NEVER;
            } else {
                self.begin_next(of, at, watch);
                of.note_backlog(at);
            }
        }
    }

    /// All of it is in the pipe.
    fn between(&self) -> Backlog {
        Backlog::default()
    }

    fn in_service(&self, of: &Interface) -> u32 {
        self.sending(of)
    }

    #[inline(always)]
    fn resident(&self, of: &Interface) -> Backlog {
        Backlog { packets: of.pipe.len() as u32, bytes: of.pipe_bytes }
    }

    fn busy(&self, of: &Interface) -> Duration {
        if self.step == Time::NEVER { of.busy } else { of.busy.saturating_sub(self.step.since(of.now)) }
    }
}
