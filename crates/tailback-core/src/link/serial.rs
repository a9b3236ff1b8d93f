//! One packet after the other: any queue, at a rate, on a timer, or at a pace that varies.
//!
//! The queue is asked at each departure. Quantised departures follow dummynet (`pace`); a rate that changes, a recorded
//! trace or a medium of one station puts a [`Pacer`] in the serialiser's place.

use super::api::Watch;
use super::interface::Interface;
use super::pace::{Serialiser, Ticks};
use super::pacer::{Crossing, Pacer};
use crate::packet::Packet;
use crate::queue::{Backlog, Fate, QueueDiscipline};
use crate::time::{Bytes, Duration, Time};

/// What sets the pace of departures.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The rate alone.
    Exact,
    /// The rate, on a timer.
    Ticks(Ticks),
    /// Something that varies.
    Paced(Box<Pacer>),
}

/// A serialiser that takes packets from the queue.
#[derive(Clone, Debug)]
pub struct Serial {
    serialiser: Serialiser,
    clock: Clock,
    /// The packet being transmitted.
    serving: Option<Packet>,
    /// When the serialiser next does something: finishes, or may find a shaping queue ready.
    step: Time,
}

impl Serial {
    pub fn new(serialiser: Serialiser, clock: Clock) -> Self {
        Serial { serialiser, clock, serving: None, step: Time::NEVER }
    }

    #[inline(always)]
    pub fn push(&mut self, to: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = to.now;
        to.enqueue(packet, now, fate, watch);
        if self.serving.is_none() {
            self.serve(to, now, fate, watch);
        }
        to.note_backlog(now);
    }

    /// Do what is due until `now`.
    #[inline(always)]
    pub fn catch_up(&mut self, to: &mut Interface, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        while self.step <= now {
            let at = self.step;
            if let Some(packet) = self.serving.take() {
                self.depart(to, packet, at, fate, watch);
            }
            self.serve(to, at, fate, watch);
            to.note_backlog(at);
        }
    }

    /// The last bit of `packet` left at `at`: onto the wire.
    #[inline]
    fn depart(
        &mut self,
        to: &mut Interface,
        packet: Packet,
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        to.on_departure(&packet, watch);
        let due = match &mut self.clock {
            Clock::Exact => at + to.delay,
            Clock::Ticks(ticks) => ticks.due(at),
            Clock::Paced(pacer) => {
                to.busy += at.since(pacer.began());
                match pacer.cross(at, to.delay) {
                    Crossing::Arrives(due) => due,
                    Crossing::Lost => return to.lose(packet, at, fate, watch),
                }
            }
        };
        to.send(packet, at, due, fate, watch);
    }

    /// The serialiser is free at `at`: take the next packet, if the queue gives one.
    #[inline]
    fn serve(&mut self, to: &mut Interface, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let Some(packet) = to.take(at, fate, watch) else {
            to.queue.on_service(0);
            self.step = if to.queued.packets == 0 { Time::NEVER } else { retry_at(to, at) };
            return;
        };
        to.queue.on_service(packet.bytes);
        let transmission = self.serialiser.time_for(packet.bytes);
        self.step = match &mut self.clock {
            Clock::Exact => {
                to.busy += transmission;
                at + transmission
            }
            Clock::Ticks(ticks) => {
                to.busy += transmission;
                ticks.depart_at(at, packet.bytes, self.serialiser.rate)
            }
            Clock::Paced(pacer) => pacer.serve(at, &packet, self.step == Time::NEVER),
        };
        self.serving = Some(packet);
    }

    /// When the link must be advanced next.
    #[inline]
    pub fn next_wake(&self, of: &Interface) -> Time {
        match of.pipe.front() {
            // What departs later arrives later, unless some are held back.
            Some(&(due, _)) if !of.is_reordering() && !of.reports => due,
            Some(&(due, _)) => due.min(self.step),
            // A shaping queue or a lossy wire may yet postpone this; then it is asked again.
            None if self.step == Time::NEVER => Time::NEVER,
            None => match self.clock {
                Clock::Exact if !of.reports => self.step + of.delay,
                Clock::Exact | Clock::Ticks(_) | Clock::Paced(_) => self.step,
            },
        }
    }

    /// The packet being transmitted.
    #[inline]
    pub fn sending(&self) -> Backlog {
        Backlog {
            packets: u32::from(self.serving.is_some()),
            bytes: self.serving.map_or(0, |packet| Bytes::from(packet.bytes)),
        }
    }

    /// How long it has transmitted until the last call.
    pub fn busy(&self, of: &Interface) -> Duration {
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

/// When a queue that holds packets and gave none may give one.
#[cold]
fn retry_at(to: &Interface, at: Time) -> Time {
    let ready = to.queue.ready_at(at).unwrap_or(at);
    assert!(ready > at, "link {}: its queue holds packets, gives none and names no later time", to.name);
    ready
}
