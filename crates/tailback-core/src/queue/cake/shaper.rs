//! The shaper's clocks, and which tin sends.

use super::Cake;
use crate::packet::Packet;
use crate::time::{Bytes, Duration, Rate, Time};

/// The shaper's clock.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    pub rate: Rate,
    pub next: Time,
    /// At two thirds of the rate and without what is dropped: `ingress` never stops the queue altogether.
    pub failsafe: Time,
}

impl Shaper {
    /// A packet comes to an empty discipline at `now`: it owes nothing from before.
    pub fn begin(&mut self, now: Time) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }
}

impl Cake {
    /// When the shaper lets the next packet through; `None`: there is no shaper.
    pub(super) fn ready(&self) -> Option<Time> {
        self.shaper.as_ref().map(|shaper| shaper.next.min(shaper.failsafe))
    }

    /// Bytes that the shaper counts for a packet.
    pub(super) fn counted(&self, packet: &Packet) -> Bytes {
        Bytes::from(self.framing.bytes(packet.bytes))
    }

    /// The tin that sends: shaped, of those due the one of highest priority, else the one that is due first. Without a
    /// shaper they take turns by deficit.
    pub(super) fn choose_tin(&mut self, now: Time) {
        if self.shaper.is_none() {
            loop {
                let tin = &mut self.tins[self.current];
                if tin.deficit >= 0 && !tin.is_idle() {
                    return;
                }
                if tin.deficit <= 0 {
                    tin.deficit += tin.tin_quantum;
                }
                self.current = (self.current + 1) % self.tins.len();
            }
        }
        let mut soonest = None;
        for (number, tin) in self.tins.iter().enumerate() {
            if !tin.is_idle() && (tin.next <= now || soonest.is_none_or(|soonest| tin.next <= soonest)) {
                soonest = Some(tin.next);
                self.current = number;
            }
        }
    }

    /// The clocks of the shaper and of tin `number` after this many bytes.
    pub(super) fn advance(&mut self, number: usize, bytes: Bytes, is_dropped: bool, now: Time) {
        let Some(shaper) = &mut self.shaper else { return };
        let time = shaper.rate.time_for(bytes);
        shaper.next += time;
        if !is_dropped {
            shaper.failsafe = shaper.failsafe + time + Duration::from_ps(time.as_ps() / 2);
        }
        let tin = &mut self.tins[number];
        let own = tin.rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
        // A tin that was late catches up; one that was early is never owed more than this packet.
        tin.next = if tin.next < now { tin.next + own } else { tin.next.max(now + own) };
    }
}
