//! The one clock of a run: CLOCK_MONOTONIC, counted from the run's start. The emulator, the applications and the BPF
//! log all read it, so their rows need no alignment.

use tailback_core::time::{Duration, Time};

use crate::sys;

/// The machine's CLOCK_MONOTONIC, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    sys::monotonic_ns()
}

/// A run's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    /// A clock whose time zero is `ahead` from now, to leave time for preparation.
    pub fn starting_in(ahead: Duration) -> Self {
        Clock { start_ns: monotonic_ns() + ahead.as_ps() / 1_000 }
    }
    /// The current time; zero before the start.
    pub fn now(self) -> Time {
        self.at(monotonic_ns())
    }
    /// The run's time at a reading of the machine's clock; zero before the start.
    pub fn at(self, monotonic_ns: u64) -> Time {
        Time::from_ns(monotonic_ns.saturating_sub(self.start_ns))
    }
    /// The machine's clock reading at a time of the run.
    pub fn ns(self, time: Time) -> u64 {
        self.start_ns.saturating_add(time.as_ns())
    }
    /// Sleeps until time zero. Until then [`Clock::now`] returns zero, so that anything done earlier would have too
    /// late a stamp.
    pub fn await_start(self) {
        std::thread::sleep(self.until(Time::ZERO));
    }
    /// How long to wait until `time`, from now; zero if it is past.
    pub fn until(self, time: Time) -> std::time::Duration {
        std::time::Duration::from_nanos(self.ns(time).saturating_sub(monotonic_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_starts_at_the_start_and_runs() {
        let clock = Clock::starting_in(Duration::from_ms(5));
        assert_eq!(clock.now(), Time::ZERO);
        std::thread::sleep(clock.until(Time::from_ms(1)));
        assert!(clock.now() >= Time::from_ms(1));
        assert!(clock.until(Time::ZERO).is_zero());
    }

    #[test]
    fn nothing_waits_for_the_start_in_vain() {
        let clock = Clock::starting_in(Duration::from_ms(5));
        clock.await_start();
        assert!(monotonic_ns() >= clock.ns(Time::ZERO));
    }
}
