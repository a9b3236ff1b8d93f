//! Kernel clocks: time in ticks of 1/hz (jiffies), and spans rounded as the kernels round them.

use crate::time::{Duration, Time};

/// A timer interrupt of `hz` ticks a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// Ticks a second.
    pub hz: u32,
}

impl Ticks {
    /// Ticks since the start. 32 bits reach 198 days at 250 Hz.
    pub fn at(self, now: Time) -> u32 {
        (now.as_us() * u64::from(self.hz) / 1_000_000) as u32
    }
    /// A measured span in ticks, rounded up: a span that is not zero is at least one tick.
    pub fn span(self, span: Duration) -> u32 {
        (span.as_us() * u64::from(self.hz)).div_ceil(1_000_000) as u32
    }
}

/// Microseconds since the start in 32 bits; differences survive the wrap after 71 minutes.
pub fn us32(now: Time) -> u32 {
    now.as_us() as u32
}

/// A span in whole microseconds, at least one so that zero can mean "none yet".
pub fn span_us(span: Duration) -> u32 {
    span.as_us().clamp(1, u64::from(u32::MAX / 2)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_round_down_and_spans_round_up() {
        let jiffies = Ticks { hz: 250 };
        assert_eq!(jiffies.at(Time::from_us(7_999)), 1);
        assert_eq!(jiffies.span(Duration::from_us(80_001)), 21);
        assert_eq!(jiffies.span(Duration::from_ms(80)), 20);
        assert_eq!(jiffies.span(Duration::ZERO), 0);
    }
}
