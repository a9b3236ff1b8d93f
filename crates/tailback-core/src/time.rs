//! Time in integer picoseconds, rates in bits per second.
//!
//! `now` is always an argument: nothing in this crate reads a clock. Picoseconds keep every
//! serialisation time at the common rates exact (one byte at 100 Gbit/s is 80 ps) and still reach 213 days.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// Bytes on the wire at the IP layer (no link framing unless a link says so).
pub type Bytes = u64;

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// An instant: picoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time(u64);

/// A span of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Duration(u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Rate(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// The instant `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Time(ps)
    }
    /// The instant `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Self {
        Time(ns * 1_000)
    }
    /// The instant `us` microseconds after the start.
    pub const fn from_us(us: u64) -> Self {
        Time(us * 1_000_000)
    }
    /// The instant `ms` milliseconds after the start.
    pub const fn from_ms(ms: u64) -> Self {
        Time(ms * 1_000_000_000)
    }
    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds since the start, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }
    /// Whole microseconds since the start, rounded down.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_SECOND as f64
    }
    /// Time elapsed since `earlier`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// The next multiple of `tick` at or after this instant.
    pub const fn ceil_to(self, tick: Duration) -> Time {
        if tick.0 == 0 {
            return self;
        }
        Time(self.0.div_ceil(tick.0) * tick.0)
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);
    /// Longer than any run.
    pub const MAX: Duration = Duration(u64::MAX);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Duration(ps)
    }
    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Duration(ns * 1_000)
    }
    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Duration(us * 1_000_000)
    }
    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Duration(ms * 1_000_000_000)
    }
    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Duration(s * PS_PER_SECOND)
    }
    /// `s` seconds, rounded to the nearest picosecond; negative or NaN becomes zero.
    pub fn from_secs_f64(s: f64) -> Self {
        if s > 0.0 { Duration((s * PS_PER_SECOND as f64 + 0.5) as u64) } else { Duration(0) }
    }
    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Whole microseconds, rounded down.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Whole milliseconds, rounded down.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000_000_000
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_SECOND as f64
    }
    /// True for no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The difference, zero if `other` is longer.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// |self − other|.
    pub const fn abs_diff(self, other: Duration) -> Duration {
        Duration(self.0.abs_diff(other.0))
    }
}

impl Rate {
    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Rate(bps)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Transmission time of `bytes` at this rate, rounded down to a picosecond.
    pub const fn time_for(self, bytes: Bytes) -> Duration {
        // 8 · 10¹² · bytes overflows a u64 above 2.3 MB: more than any packet, but less than some backlogs.
        Duration((bytes as u128 * 8 * PS_PER_SECOND as u128 / self.0 as u128) as u64)
    }
    /// Bytes that fit into `span` at this rate, rounded down.
    pub const fn bytes_in(self, span: Duration) -> Bytes {
        (self.0 as u128 * span.0 as u128 / (8 * PS_PER_SECOND as u128)) as u64
    }
    /// The rate that carries `bytes` in `span`; zero for an empty span.
    pub const fn from_bytes_over(bytes: Bytes, span: Duration) -> Rate {
        if span.0 == 0 {
            return Rate(0);
        }
        Rate((bytes as u128 * 8 * PS_PER_SECOND as u128 / span.0 as u128) as u64)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0 + span.0)
    }
}
impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        self.0 += span.0;
    }
}
impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0 + other.0)
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        self.0 += other.0;
    }
}
impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0 - other.0)
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, times: u64) -> Duration {
        Duration(self.0 * times)
    }
}
impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, parts: u64) -> Duration {
        Duration(self.0 / parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_is_exact_at_common_rates() {
        assert_eq!(Rate::from_bps(10_000_000).time_for(1500), Duration::from_us(1200));
        assert_eq!(Rate::from_bps(1_000_000_000).time_for(1), Duration::from_ns(8));
        assert_eq!(Rate::from_bps(10_000_000).bytes_in(Duration::from_ms(80)), 100_000);
    }

    #[test]
    fn ticks_round_up() {
        let tick = Duration::from_ms(1);
        assert_eq!(Time::from_us(1200).ceil_to(tick), Time::from_ms(2));
        assert_eq!(Time::from_ms(2).ceil_to(tick), Time::from_ms(2));
        assert_eq!(Time::from_us(7).ceil_to(Duration::ZERO), Time::from_us(7));
    }
}
