//! A tail-drop FIFO at a fixed rate: the departure of every packet is known when it joins.
//!
//! Law: transmission begins when that of the previous packet ends, at f, and the packet arrives at f + 8L/C + D. So it
//! goes straight into the pipe with its due time, behind those that still wait; nothing moves from queue to serialiser
//! to pipe.
//! The last `queued.packets` entries of the pipe wait; if `step` is set, the entry before them is being sent.
//!
//! A lossy wire draws once per packet in order of departure, which here is the order of joining. So a packet's fate is
//! drawn when it joins, and the packet is lost when it departs, as in other services. A wire that delays packets
//! individually (jitter, reordering) knows their order only when they depart, so it needs a `serial` link.
//!
//! All other links ask the queue at each departure (`serial`); a test compares the two.

use std::collections::VecDeque;

use super::api::Watch;
use super::interface::Interface;
use super::pace::Serialiser;
use super::serve::Serve;
use crate::packet::Packet;
use crate::queue::fifo::TailDrop;
use crate::queue::{Backlog, DropReason, Fate};
use crate::time::{Bytes, Duration, Time};

/// A serialiser that computes each departure on arrival; the interface's queue stays empty.
#[derive(Clone, Debug)]
pub struct Foreseen {
    limit: TailDrop,
    pub serialiser: Serialiser,
    /// When the current transmission ends; [`Time::NEVER`] if idle.
    step: Time,
    /// Bytes of the packet being sent; 0 if idle.
    sending: u32,
    /// When everything now in the link will have been sent.
    free_at: Time,
    /// Number of packets drawn for by the wire, and the numbers of those that it will lose.
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

    /// Whether a departure is due by `now`.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.step <= now
    }

    /// Begins to send the first waiting packet.
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

    /// Draws the fate of the packet that joins.
    #[inline]
    fn draw(&mut self, of: &mut Interface, bytes: u32) {
        if let Some(wire) = &mut of.wire {
            if wire.loses_next(bytes) {
                self.lost.push_back(self.joined);
            }
            self.joined += 1;
        }
    }

    /// Whether the packet being sent will be lost when it departs.
    #[inline]
    fn loses(&self, of: &Interface) -> bool {
        self.lost.front().is_some_and(|number| *number + 1 + u64::from(of.queued.packets) == self.joined)
    }

    /// Loses the packet being sent as it departs.
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
            // It finds the queue empty, so it joins and leaves at once.
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

    /// If no packet in the pipe will be lost, the first arrival stays the same.
    #[inline]
    fn keeps_wake(&self, of: &Interface) -> bool {
        of.is_under_way() && self.lost.is_empty()
    }

    /// Nothing: all packets are in the pipe.
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
