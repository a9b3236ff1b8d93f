//! The one clock of a run: CLOCK_MONOTONIC, counted from the run's start. Emulator, applications and the BPF log
//! all read it, so their rows need no alignment.

use tailback_core::time::{Duration, Time};

use crate::sys;

/// Nanoseconds since some time before the machine started.
pub fn monotonic_ns() -> u64 {
    sys::monotonic_ns()
}

/// A run's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    /// Time zero is `ahead` from now, so that everything can be in place by then.
    pub fn starting_in(ahead: Duration) -> Self {
        Clock { start_ns: monotonic_ns() + ahead.as_ps() / 1_000 }
    }
    /// The time now; zero before the start.
    pub fn now(self) -> Time {
        self.at(monotonic_ns())
    }
    /// The time at this reading of the machine's clock; zero before the start.
    pub fn at(self, monotonic_ns: u64) -> Time {
        Time::from_ns(monotonic_ns.saturating_sub(self.start_ns))
    }
    /// The machine's clock at this time.
    pub fn ns(self, time: Time) -> u64 {
        self.start_ns.saturating_add(time.as_ns())
    }
    /// Sleep until time zero. Before it [`Clock::now`] stands at zero: what was done then would be earlier than its stamp.
    pub fn await_start(self) {
        std::thread::sleep(self.until(Time::ZERO));
    }
    /// How long to wait until `time`, by now; zero if it is past.
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
