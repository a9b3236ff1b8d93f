//! The shaper, and the choice of the next tin.

use super::Cake;
use crate::packet::Packet;
use crate::time::{Bytes, Duration, Rate, Time};

/// Virtual clock of the shaper.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    pub rate: Rate,
    pub next: Time,
    /// A second clock at two thirds of the rate that ignores drops, so that `ingress` cannot stop the queue altogether.
    pub failsafe: Time,
}

impl Shaper {
    /// A packet arrives at the empty discipline: the shaper starts without debt.
    pub fn begin(&mut self, now: Time) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }
}

impl Cake {
    /// When the shaper allows the next packet; `None` without a shaper.
    pub(super) fn ready(&self) -> Option<Time> {
        self.shaper.as_ref().map(|shaper| shaper.next.min(shaper.failsafe))
    }

    /// Size of a packet as the shaper counts it.
    pub(super) fn counted(&self, packet: &Packet) -> Bytes {
        Bytes::from(self.framing.bytes(packet.bytes))
    }

    /// Selects the tin to send. With a shaper: the due tin of highest priority, else the one that is due first.
    /// Without: deficit round robin.
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

    /// Advances the clocks of the shaper and of tin `number` by this many bytes.
    pub(super) fn advance(&mut self, number: usize, bytes: Bytes, is_dropped: bool, now: Time) {
        let Some(shaper) = &mut self.shaper else { return };
        let time = shaper.rate.time_for(bytes);
        shaper.next += time;
        if !is_dropped {
            shaper.failsafe = shaper.failsafe + time + Duration::from_ps(time.as_ps() / 2);
        }
        let tin = &mut self.tins[number];
        let own = tin.rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
        // A late tin may catch up; a tin ahead of its rate waits at least for this packet.
        tin.next = if tin.next < now { tin.next + own } else { tin.next.max(now + own) };
    }
}
