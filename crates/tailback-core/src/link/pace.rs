//! Transmission times: at a rate, or on a timer.

use crate::framing::Framing;
use crate::time::{Bytes, Duration, Rate, Time};

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// A serialiser at a fixed rate.
#[derive(Clone, Debug)]
pub(super) struct Serialiser {
    pub rate: Rate,
    framing: Framing,
    /// Picoseconds per IP byte if that is a whole number, as at all common rates; 0 otherwise, and with framing.
    per_byte: u64,
}

impl Serialiser {
    pub fn new(rate: Rate, framing: Framing) -> Self {
        let byte = 8 * PS_PER_SECOND;
        let is_whole = framing.is_plain() && byte % rate.as_bps() == 0;
        Serialiser { rate, framing, per_byte: if is_whole { byte / rate.as_bps() } else { 0 } }
    }

    /// Bytes that a packet occupies on the line.
    pub fn framed(&self, bytes: u32) -> u32 {
        self.framing.bytes(bytes)
    }

    #[inline]
    pub fn time_for(&self, bytes: u32) -> Duration {
        if self.per_byte > 0 {
            Duration::from_ps(u64::from(bytes) * self.per_byte)
        } else {
            self.rate.time_for(Bytes::from(self.framed(bytes)))
        }
    }
}

/// Clock and credit of dummynet.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    hz: u64,
    delay: u64,
    /// Unspent credit in bits·hz, dummynet's unit, so that nothing is rounded.
    credit: u64,
    /// Tick and time of the last departure or arrival.
    tick: u64,
    at: Time,
}

impl Ticks {
    pub fn new(hz: u32, delay: Duration) -> Self {
        let hz = u64::from(hz);
        Ticks { hz, delay: tick_of(delay.as_ps(), hz), credit: 0, tick: 0, at: Time::ZERO }
    }

    /// A packet enters an infinitely fast pipe at `now`.
    pub fn arrive(&mut self, now: Time) {
        self.tick = tick_of(now.as_ps(), self.hz);
    }

    /// Departure of a packet of `bytes` whose transmission may begin at `start`.
    pub fn depart_at(&mut self, start: Time, bytes: u32, bandwidth: Rate) -> Time {
        if start != self.at {
            let tick = tick_of(start.as_ps(), self.hz);
            if tick > self.tick {
                // The pipe was idle since an earlier tick: it accumulates no credit.
                (self.tick, self.credit) = (tick, 0);
            }
        }
        let bandwidth = bandwidth.as_bps();
        let need = 8 * u64::from(bytes) * self.hz;
        let wait = need.saturating_sub(self.credit).div_ceil(bandwidth);
        self.credit = self.credit + wait * bandwidth - need;
        self.tick += wait;
        // Leftover credit may cover the packet at once, in the middle of a tick.
        self.at = start.max(self.time_of(self.tick));
        self.at
    }

    /// Whether the delay is at least one tick.
    pub fn has_delay(&self) -> bool {
        self.delay > 0
    }

    /// Arrival of a packet that left at `at`, in the current tick.
    pub fn due(&self, at: Time) -> Time {
        at.max(self.time_of(self.tick + self.delay))
    }

    /// First picosecond of a tick.
    fn time_of(&self, tick: u64) -> Time {
        Time::from_ps((u128::from(tick) * u128::from(PS_PER_SECOND)).div_ceil(u128::from(self.hz)) as u64)
    }
}

/// The tick that contains a time.
fn tick_of(ps: u64, hz: u64) -> u64 {
    (u128::from(ps) * u128::from(hz) / u128::from(PS_PER_SECOND)) as u64
}
