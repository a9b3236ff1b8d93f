//! A radio bearer with transmission time intervals: blocks, HARQ, and acknowledged-mode RLC.
//!
//! Law: time is divided into intervals. Block k takes as many bits as the radio allows from the backlog at its start,
//! and arrives at its end. A block with errors is repeated after a fixed time, up to a number of transmissions, and
//! then by RLC after its status report. A repetition occupies the interval in which it is sent. Packets are reassembled
//! from blocks and delivered in order.
//!
//! Source: 3GPP TS 25.308 (HSDPA), TS 25.322 (RLC), TS 25.321 (MAC); Holma and Toskala, "HSDPA/HSUPA for UMTS"
//! (2006), chapters 2 and 4.

use std::collections::BTreeSet;

use crate::packet::Packet;
use crate::rng::Stream;
use crate::time::{Duration, Time};

/// Parameters for repeating blocks with errors.
#[derive(Clone, Debug)]
pub struct Repeats {
    /// Error probability of a block's first transmission.
    pub first: f64,
    /// Error probability of a repetition.
    pub again: f64,
    /// Intervals from a transmission to its repetition.
    pub distance: u64,
    /// Number of HARQ transmissions before RLC takes over.
    pub tries: u64,
    /// Intervals from the last HARQ transmission to RLC's retransmission.
    pub status: u64,
    /// Number of RLC transmissions before a block is given up.
    pub rlc_tries: u64,
}

/// A bearer in one direction.
#[derive(Clone, Debug)]
pub struct Bearer {
    interval: Duration,
    repeats: Repeats,
    errors: Stream,
    /// The next interval that may carry a new block, and the later ones occupied by repetitions.
    next: u64,
    taken: BTreeSet<u64>,
    /// The current block: its start, bits of room left, arrival, and whether it is lost.
    began: Time,
    room: u64,
    arrives: Time,
    is_lost: bool,
    /// The packet being served: its arrival, and whether it is lost.
    packet_arrives: Time,
    packet_is_lost: bool,
}

impl Bearer {
    /// An idle bearer.
    pub fn new(interval: Duration, repeats: Repeats, errors: Stream) -> Self {
        Bearer {
            interval,
            repeats,
            errors,
            next: 0,
            taken: BTreeSet::new(),
            began: Time::ZERO,
            room: 0,
            arrives: Time::ZERO,
            is_lost: false,
            packet_arrives: Time::ZERO,
            packet_is_lost: false,
        }
    }

    /// As [`crate::capacity::Pace::serve`]. `bits_in` returns the size in bits of an interval's block, and is called in
    /// order of time.
    pub fn serve(
        &mut self,
        at: Time,
        packet: &Packet,
        continues: bool,
        mut bits_in: impl FnMut(u64) -> u64,
    ) -> Time {
        // A block holds only data that was queued when it began.
        if !continues || packet.enqueued > self.began {
            self.room = 0;
            self.next = self.next.max(at.as_ps().div_ceil(self.interval.as_ps()));
        }
        let mut need = 8 * u64::from(packet.bytes);
        (self.packet_arrives, self.packet_is_lost) = (Time::ZERO, false);
        loop {
            if self.room > 0 {
                let used = need.min(self.room);
                (need, self.room) = (need - used, self.room - used);
                self.packet_arrives = self.packet_arrives.max(self.arrives);
                self.packet_is_lost |= self.is_lost;
            }
            if need == 0 {
                return self.began + self.interval;
            }
            self.open(&mut bits_in);
        }
    }

    /// Delay from `at` until the packet just served is complete; `None` if RLC has given it up.
    pub fn detour(&self, at: Time) -> Option<Duration> {
        (!self.packet_is_lost).then(|| self.packet_arrives.since(at))
    }

    /// Begins the next block.
    fn open(&mut self, bits_in: &mut impl FnMut(u64) -> u64) {
        let number = self.next;
        self.next += 1;
        while self.taken.first().is_some_and(|taken| *taken < number) {
            self.taken.pop_first();
        }
        self.began = self.start_of(number);
        let bits = bits_in(number);
        self.room = if self.taken.contains(&number) { 0 } else { bits };
        if self.room > 0 {
            self.send(number);
        }
    }

    /// Draws the repetitions of the block of interval `number`, and its arrival.
    fn send(&mut self, number: u64) {
        let Repeats { first, again, distance, tries, status, rlc_tries } = self.repeats;
        let (mut sent, mut error) = (number, first);
        for _ in 0..rlc_tries {
            for attempt in 1..=tries {
                if !self.errors.chance(error) {
                    self.arrives = self.start_of(sent + 1);
                    self.is_lost = false;
                    return;
                }
                error = again;
                sent = self.take(sent + if attempt < tries { distance } else { status });
            }
        }
        self.is_lost = true;
    }

    /// Reserves the first interval from `number` on that no repetition occupies.
    fn take(&mut self, mut number: u64) -> u64 {
        while !self.taken.insert(number) {
            number += 1;
        }
        number
    }

    fn start_of(&self, number: u64) -> Time {
        Time::from_ps(number * self.interval.as_ps())
    }
}
