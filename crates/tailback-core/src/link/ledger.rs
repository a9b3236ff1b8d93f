//! What a link counts, and the check that no packet was lost on the way.

use super::{Clock, Link, LinkCount};
use crate::queue::Backlog;
use crate::time::{Bytes, Duration, Rate, Time};

impl Link {
    /// The name its scenario gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does a packet take time to cross it? Else it is infinitely fast, and of no length.
    pub(crate) fn takes_time(&self) -> bool {
        let has_delay = match &self.clock {
            Clock::Ticks(ticks) => ticks.has_delay(),
            Clock::Exact | Clock::Paced(_) => !self.delay.is_zero(),
        };
        let is_jittery = self.wire.as_ref().is_some_and(|wire| wire.has_jitter());
        self.serialiser.is_some() || !self.is_plain || has_delay || is_jittery
    }

    /// What it has done so far.
    pub fn count(&self) -> &LinkCount {
        &self.count
    }

    /// What the queue holds; the packet being transmitted is not in it.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        self.queued
    }

    /// Bytes of the packet being transmitted, all of it until its last bit has left; 0 if idle.
    pub fn in_service(&self) -> u32 {
        match &self.outlet {
            None if self.foreseen.is_some() => self.sending(),
            None => self.serving.map_or(0, |packet| packet.bytes),
            Some(outlet) => outlet.in_air().bytes as u32,
        }
    }

    /// What is in the queue, being transmitted, or under way.
    pub fn resident(&self) -> Backlog {
        if self.foreseen.is_some() {
            return Backlog { packets: self.pipe.len() as u32, bytes: self.pipe_bytes };
        }
        let queued = self.queued;
        let mut sent = Backlog {
            packets: u32::from(self.serving.is_some()),
            bytes: self.serving.map_or(0, |packet| Bytes::from(packet.bytes)),
        };
        if !self.is_plain {
            sent = self.elsewhere(sent);
        }
        Backlog {
            packets: queued.packets + sent.packets + self.pipe.len() as u32,
            bytes: queued.bytes + sent.bytes + self.pipe_bytes,
        }
    }

    /// What is in the air, or in a tunnel and in the hands of its process.
    #[cold]
    fn elsewhere(&self, held: Backlog) -> Backlog {
        match (&self.outlet, &self.tunnel) {
            (Some(outlet), _) => outlet.in_air(),
            (None, Some(tunnel)) => {
                let inside = tunnel.inside();
                Backlog { packets: held.packets + inside.packets, bytes: held.bytes + inside.bytes }
            }
            (None, None) => held,
        }
    }

    /// How long it has transmitted until the last call.
    pub fn busy(&self) -> Duration {
        if let Some(tunnel) = &self.tunnel {
            return self.blocked(tunnel);
        }
        if self.foreseen.is_some() && self.step != Time::NEVER {
            return self.busy.saturating_sub(self.step.since(self.now));
        }
        match (self.serving, &self.serialiser) {
            (Some(_), _) if self.is_paced() => self.busy + self.now.since(self.began()),
            (Some(packet), Some(serialiser)) => {
                let left = self.step.since(self.now).min(serialiser.time_for(packet.bytes));
                self.busy.saturating_sub(left)
            }
            _ => self.busy,
        }
    }

    /// The queue's bytes averaged over the time until the last call; 0 before any time has passed.
    pub fn backlog_mean(&self) -> f64 {
        let integral =
            self.held_integral + self.held as u128 * self.now.since(self.held_since).as_ps() as u128;
        let span = self.now.as_ps();
        if span == 0 { 0.0 } else { integral as f64 / span as f64 }
    }

    /// The most bytes the queue has held.
    pub fn backlog_max(&self) -> Bytes {
        self.held_max
    }

    /// The rate it has alone, on average; `None`: it has no rate of its own.
    pub fn nominal(&self) -> Option<Rate> {
        self.serialiser.as_ref().map(|serialiser| serialiser.rate)
    }

    #[inline]
    pub(crate) fn note_backlog(&mut self, at: Time) {
        let held = self.queued.bytes;
        if held != self.held {
            self.held_integral += self.held as u128 * at.since(self.held_since).as_ps() as u128;
            self.held_since = at;
            self.held = held;
            self.held_max = self.held_max.max(held);
        }
    }

    /// Conservation: what came in went out, was dropped, or is here.
    #[inline(always)]
    pub(crate) fn check(&self) {
        let resident = self.resident();
        let count = &self.count;
        let (came, went) = (count.arrived + count.duplicated, count.delivered + count.dropped);
        let came_bytes = count.arrived_bytes + count.duplicated_bytes;
        let went_bytes = count.delivered_bytes + count.dropped_bytes;
        if came != went + u64::from(resident.packets) || came_bytes != went_bytes + resident.bytes {
            self.not_conserved();
        }
    }

    #[cold]
    fn not_conserved(&self) -> ! {
        panic!("link {}: packets not conserved: {:?}, resident {:?}", self.name, self.count, self.resident());
    }
}
