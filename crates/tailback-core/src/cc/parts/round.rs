//! RTTs round trip by round trip, as Vegas and its relatives (Veno, YeAH) keep them.

use super::clock::span_us;
use crate::cc::Ack;

/// No sample yet.
const NONE: u32 = u32::MAX / 2;

/// The smallest RTT of all, and of the current round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundRtt {
    /// The round trip ends when this byte is acknowledged.
    pub end: u64,
    /// Smallest RTT ever, in microseconds.
    pub base_us: u32,
    /// Smallest RTT of this round trip, in microseconds.
    pub min_us: u32,
    /// RTT samples in this round trip.
    pub samples: u32,
}

impl Default for RoundRtt {
    fn default() -> Self {
        RoundRtt { end: 0, base_us: NONE, min_us: NONE, samples: 0 }
    }
}

impl RoundRtt {
    /// Take this ACK's sample, if it has one. The kernels add a microsecond so that zero cannot occur.
    pub fn sample(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.take(span_us(rtt) + 1);
        }
    }
    /// Take a sample in microseconds, which is not zero.
    pub fn take(&mut self, rtt_us: u32) {
        self.base_us = self.base_us.min(rtt_us);
        self.min_us = self.min_us.min(rtt_us);
        self.samples += 1;
    }
    /// Has the round trip ended with this ACK?
    pub fn is_over(&self, ack: &Ack) -> bool {
        ack.snd_una > self.end
    }
    /// The path may be another one: forget its RTTs.
    pub fn forget(&mut self) {
        *self = RoundRtt { end: self.end, ..RoundRtt::default() };
    }
    /// Begin another round trip, which ends when `snd_nxt` is acknowledged.
    pub fn begin(&mut self, snd_nxt: u64) {
        self.end = snd_nxt;
        self.min_us = NONE;
        self.samples = 0;
    }
    /// Segments beyond what the path holds empty, at `window`: w·(rtt − base)/by, where `by` is the base RTT
    /// (Vegas since 2.6.28) or the current one.
    pub fn excess(&self, window: u64, by_us: u32) -> u64 {
        window * u64::from(self.min_us.saturating_sub(self.base_us)) / u64::from(by_us.max(1))
    }
}
