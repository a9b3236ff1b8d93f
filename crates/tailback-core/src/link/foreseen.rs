//! A tail-drop FIFO at a fixed rate: when a packet joins it, all of its future is known.
//!
//! Law: it begins to be sent when the one before it ends, at f, and arrives at f + 8L/C + D. So it goes straight into
//! the pipe with its due time, behind those that still wait, and nothing is moved from queue to serialiser to pipe.
//! The last `queued.packets` entries of the pipe wait; the one before them, if `step` is set, is being sent.
//!
//! A wire that loses draws once a packet, in the order of departures, which here is the order of joining. So a packet's
//! fate is drawn when it joins; the packet is lost when it departs, as everywhere else. A wire that holds packets back
//! (jitter, reordering) knows their order only when they depart, and has a `serial` link.
//!
//! Everybody else asks the queue at each departure (`serial`); a test holds the two side by side.

use std::collections::VecDeque;

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
    /// Bytes of that packet; 0 if there is none.
    sending: u32,
    /// When all that is held now has been sent.
    free_at: Time,
    /// Packets that have joined, as far as a wire draws for them, and the numbers of those that it will lose.
    joined: u64,
    lost: VecDeque<u64>,
}

impl Foreseen {
    pub fn new(limit: TailDrop, serialiser: Serialiser) -> Self {
        Foreseen {
            limit,
            serialiser,
            step: Time::NEVER,
            sending: 0,
            free_at: Time::ZERO,
            joined: 0,
            lost: VecDeque::new(),
        }
    }

    /// Is a departure due by `now`?
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.step <= now
    }

    /// The transmission of the first that waits begins.
    #[inline]
    fn begin_next(&mut self, of: &mut Interface, at: Time, watch: &mut impl Watch) {
        let (due, packet) = of.pipe[of.pipe.len() - of.queued.packets as usize];
        of.queued.packets -= 1;
        of.queued.bytes -= Bytes::from(packet.bytes);
        of.note_wait(&packet, at.since(packet.enqueued));
        watch.on_dequeue(at, &packet, of.queued);
        let transmission = due.since(at + of.delay);
        of.busy += transmission;
        self.step = at + transmission;
        self.sending = packet.bytes;
    }

    /// Draw the fate of the packet that joins.
    #[inline]
    fn draw(&mut self, of: &mut Interface, bytes: u32) {
        if let Some(wire) = &mut of.wire {
            if wire.loses_next(bytes) {
                self.lost.push_back(self.joined);
            }
            self.joined += 1;
        }
    }

    /// Is the packet being sent lost once it has departed?
    #[inline]
    fn loses(&self, of: &Interface) -> bool {
        self.lost.front().is_some_and(|number| *number + 1 + u64::from(of.queued.packets) == self.joined)
    }

    /// The packet being sent departs, and is lost.
    #[cold]
    fn lose(&mut self, of: &mut Interface, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.lost.pop_front();
        let place = of.pipe.len() - of.queued.packets as usize - 1;
        let (_, packet) = of.pipe.remove(place).expect("the packet being sent");
        of.pipe_bytes -= Bytes::from(packet.bytes);
        of.lose(packet, at, fate, watch);
    }
}

impl Serve for Foreseen {
    #[inline(always)]
    fn push(&mut self, of: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        if !self.limit.accepts(of.queued, self.sending, packet.bytes) {
            return of.drop(packet, DropReason::QueueFull, now, fate, watch);
        }
        let transmission = self.serialiser.time_for(packet.bytes);
        let bytes = Bytes::from(packet.bytes);
        of.pipe_bytes += bytes;
        if self.step == Time::NEVER {
            // It joins an empty queue and leaves it at once.
            watch.on_enqueue(now, &packet, Backlog { packets: 1, bytes });
            watch.on_dequeue(now, &packet, of.queued);
            self.free_at = now + transmission;
            of.busy += transmission;
            self.step = self.free_at;
            self.sending = packet.bytes;
        } else {
            of.queued.packets += 1;
            of.queued.bytes += bytes;
            of.note_growth();
            watch.on_enqueue(now, &packet, of.queued);
            self.free_at += transmission;
        }
        let due = self.free_at + of.delay;
        self.draw(of, packet.bytes);
        of.pipe.push_back((due, packet));
    }

    #[inline(always)]
    fn catch_up(&mut self, of: &mut Interface, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if self.loses(of) {
                self.lose(of, at, fate, watch);
            }
            if of.queued.packets == 0 {
                self.step = Time::NEVER;
                self.sending = 0;
            } else {
                self.begin_next(of, at, watch);
            }
        }
    }

    /// Nothing that is under way will be lost, so what comes first stays first.
    #[inline]
    fn keeps_wake(&self, of: &Interface) -> bool {
        of.is_under_way() && self.lost.is_empty()
    }

    /// All of it is in the pipe.
    fn between(&self) -> Backlog {
        Backlog::default()
    }

    fn in_service(&self, _of: &Interface) -> u32 {
        self.sending
    }

    #[inline(always)]
    fn resident(&self, of: &Interface) -> Backlog {
        Backlog { packets: of.pipe.len() as u32, bytes: of.pipe_bytes }
    }

    fn held_integral(&self, of: &Interface) -> u128 {
        let waiting = of.pipe.range(of.pipe.len() - of.queued.packets as usize..);
        let weight =
            |packet: &Packet| u128::from(packet.bytes) * u128::from(of.now.since(packet.enqueued).as_ps());
        of.noted() + waiting.map(|(_, packet)| weight(packet)).sum::<u128>()
    }

    fn busy(&self, of: &Interface) -> Duration {
        if self.step == Time::NEVER { of.busy } else { of.busy.saturating_sub(self.step.since(of.now)) }
    }
}
