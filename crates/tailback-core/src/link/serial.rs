//! Packets one after the other: any queue, at a rate, on a timer, or at a varying rate.
//!
//! The queue is asked at each departure. Quantised departures follow dummynet (`pace`). For a changing rate, a recorded
//! trace or a private medium, a [`Pacer`] replaces the serialiser.

use super::api::Watch;
use super::interface::Interface;
use super::pace::{Serialiser, Ticks};
use super::pacer::{Crossing, Pacer};
use super::serve::Serve;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::time::{Bytes, Duration, Time};

/// Source of departure times.
#[derive(Clone, Debug)]
pub enum Clock {
    /// A fixed rate.
    Exact,
    /// A fixed rate on a timer.
    Ticks(Ticks),
    /// A varying rate.
    Paced(Box<Pacer>),
}

/// A serialiser that takes packets from the queue.
#[derive(Clone, Debug)]
pub struct Serial {
    serialiser: Serialiser,
    clock: Clock,
    /// The packet being transmitted.
    serving: Option<Packet>,
    /// When the current transmission ends, or when a shaper may have a packet ready.
    step: Time,
}

impl Serial {
    pub fn new(serialiser: Serialiser, clock: Clock) -> Self {
        Serial { serialiser, clock, serving: None, step: Time::NEVER }
    }

    /// The last bit of `packet` left at `at`: puts it onto the wire.
    #[inline(always)]
    fn depart(
        &mut self,
        of: &mut Interface,
        packet: Packet,
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        of.on_departure(&packet, watch);
        let due = match &mut self.clock {
            Clock::Exact => at + of.delay,
            Clock::Ticks(ticks) => ticks.due(at),
            Clock::Paced(pacer) => {
                of.busy += at.since(pacer.began());
                match pacer.cross(at, of.delay) {
                    Crossing::Arrives(due) => due,
                    Crossing::Lost => return of.lose(packet, at, fate, watch),
                }
            }
        };
        of.send(packet, at, due, fate, watch);
    }

    /// Called when the queue may have a packet that it did not have before.
    pub fn look_again(&mut self, of: &mut Interface, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        if self.serving.is_none() {
            self.serve(of, now, fate, watch);
        }
        of.note_backlog(now);
    }

    /// The serialiser is free at `at`: takes the next packet, if the queue returns one.
    #[inline]
    fn serve(&mut self, of: &mut Interface, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let Some(packet) = of.take_to_send(at, fate, watch) else {
            self.step = if of.queued.packets == 0 { Time::NEVER } else { retry_at(of, at) };
            return;
        };
        let transmission = self.serialiser.time_for(packet.bytes);
        self.step = match &mut self.clock {
            Clock::Exact => {
                of.busy += transmission;
                at + transmission
            }
            Clock::Ticks(ticks) => {
                of.busy += transmission;
                ticks.depart_at(at, self.serialiser.framed(packet.bytes), self.serialiser.rate)
            }
            Clock::Paced(pacer) => pacer.serve(at, &packet, self.step == Time::NEVER, of.queued),
        };
        self.serving = Some(packet);
    }
}

impl Serve for Serial {
    #[inline(always)]
    fn push(&mut self, of: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        of.enqueue(packet, now, fate, watch);
        if self.serving.is_none() {
            self.serve(of, now, fate, watch);
        }
        of.note_backlog(now);
    }

    #[inline(always)]
    fn catch_up(&mut self, of: &mut Interface, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if let Some(packet) = self.serving.take() {
                self.depart(of, packet, at, fate, watch);
            }
            self.serve(of, at, fate, watch);
            of.note_backlog(at);
        }
    }

    #[inline(always)]
    fn next_wake(&self, of: &Interface, _arrival: Time) -> Time {
        match of.pipe.front() {
            // Later departures arrive later, unless packets are held back.
            Some(&(due, _)) if !of.is_reordering() && !of.reports => due,
            Some(&(due, _)) => due.min(self.step),
            // A shaper or a lossy wire may still postpone this; the host then asks again.
            None if self.step == Time::NEVER => Time::NEVER,
            None => match self.clock {
                Clock::Exact if !of.reports && !of.may_be_early() => self.step + of.delay,
                Clock::Exact | Clock::Ticks(_) | Clock::Paced(_) => self.step,
            },
        }
    }

    #[inline]
    fn between(&self) -> Backlog {
        Backlog {
            packets: u32::from(self.serving.is_some()),
            bytes: self.serving.map_or(0, |packet| Bytes::from(packet.bytes)),
        }
    }

    fn busy(&self, of: &Interface) -> Duration {
        match (self.serving, &self.clock) {
            (None, _) => of.busy,
            (Some(_), Clock::Paced(pacer)) => of.busy + of.now.since(pacer.began()),
            (Some(packet), Clock::Exact | Clock::Ticks(_)) => {
                let left = self.step.since(of.now).min(self.serialiser.time_for(packet.bytes));
                of.busy.saturating_sub(left)
            }
        }
    }
}

/// When a queue that holds packets but returned none may return one.
#[cold]
pub(super) fn retry_at(of: &Interface, at: Time) -> Time {
    let ready = of.queue.ready_at(at).unwrap_or(at);
    assert!(ready > at, "link {}: its queue holds packets, gives none and names no later time", of.name);
    ready
}
