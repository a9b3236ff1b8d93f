//! Any queue at a fixed rate with a wire that does nothing: a packet taken from the queue goes straight into the pipe.
//!
//! The queue is asked at each departure, as in a `serial` link. A packet that begins to be sent at s arrives at s +
//! 8L/C + D, whatever else happens. So it goes straight into the pipe, whose last entry is the packet being sent.
//! A packet that finds the link idle skips the queue if the queue allows it, and an empty queue is not asked if that
//! would change nothing. A test compares this link with a `serial` one.

use super::api::Watch;
use super::interface::Interface;
use super::pace::Serialiser;
use super::serial::retry_at;
use super::serve::Serve;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::time::{Bytes, Duration, Time};

/// A serialiser at a fixed rate that takes packets from the queue.
#[derive(Clone, Debug)]
pub struct Steady {
    pub serialiser: Serialiser,
    /// Bytes of the packet being sent; 0 if idle.
    sending: u32,
    /// When the current transmission ends, or when a shaper may have a packet ready; [`Time::NEVER`] if idle.
    step: Time,
    /// The empty queue need not be asked.
    rests: bool,
}

impl Steady {
    pub fn new(serialiser: Serialiser, queue: &impl QueueDiscipline) -> Self {
        Steady { serialiser, sending: 0, step: Time::NEVER, rests: queue.rests_when_empty() }
    }

    /// Begins to send `packet` at `at`.
    #[inline(always)]
    fn send(&mut self, of: &mut Interface, packet: Packet, at: Time) {
        let transmission = self.serialiser.time_for(packet.bytes);
        of.busy += transmission;
        self.step = at + transmission;
        self.sending = packet.bytes;
        of.pipe_bytes += Bytes::from(packet.bytes);
        of.pipe.push_back((self.step + of.delay, packet));
    }

    /// The serialiser is free at `at`: takes the next packet, if the queue returns one.
    #[inline(always)]
    fn serve(&mut self, of: &mut Interface, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        match of.take_to_send(at, fate, watch) {
            Some(packet) => self.send(of, packet, at),
            None => {
                self.sending = 0;
                self.step = if of.queued.packets == 0 { Time::NEVER } else { retry_at(of, at) };
            }
        }
    }
}

impl Serve for Steady {
    #[inline(always)]
    fn push(&mut self, of: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        // The link is idle, not only waiting for a shaper.
        if self.step == Time::NEVER && of.queue.lets_pass(&packet) {
            watch.on_enqueue(now, &packet, Backlog { packets: 1, bytes: Bytes::from(packet.bytes) });
            watch.on_dequeue(now, &packet, Backlog::default());
            return self.send(of, packet, now);
        }
        of.enqueue(packet, now, fate, watch);
        if self.sending == 0 {
            self.serve(of, now, fate, watch);
        }
        of.note_backlog(now);
    }

    #[inline(always)]
    fn catch_up(&mut self, of: &mut Interface, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if self.rests && of.queued.packets == 0 {
                self.sending = 0;
                self.step = Time::NEVER;
                return;
            }
            self.serve(of, at, fate, watch);
            of.note_backlog(at);
        }
    }

    #[inline(always)]
    fn next_wake(&self, of: &Interface, arrival: Time) -> Time {
        // With an empty pipe, a shaper may have a packet ready at the next step.
        if arrival == Time::NEVER && self.step != Time::NEVER { self.step + of.delay } else { arrival }
    }

    /// Nothing: packets that have left the queue are in the pipe.
    fn between(&self) -> Backlog {
        Backlog::default()
    }

    fn in_service(&self, _of: &Interface) -> u32 {
        self.sending
    }

    fn busy(&self, of: &Interface) -> Duration {
        if self.sending == 0 { of.busy } else { of.busy.saturating_sub(self.step.since(of.now)) }
    }
}
