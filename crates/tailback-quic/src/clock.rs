//! Conversions between the run's time and the standard library's.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tailback_core::time::Time;

/// Time zero. Stacks use only differences of instants, so the choice does not matter.
fn base() -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

/// The instant that stands for a time of the run, rounded down to nanoseconds.
pub fn instant(now: Time) -> Instant {
    base() + Duration::from_nanos(now.as_ns())
}

/// The run's time at an instant; [`Time::NEVER`] for `None`.
pub fn time(instant: Option<Instant>) -> Time {
    let since = |instant: Instant| instant.saturating_duration_since(base()).as_nanos();
    let ns = |instant| u64::try_from(since(instant)).unwrap_or(u64::MAX);
    instant.map_or(Time::NEVER, |instant| Time::from_ps(ns(instant).saturating_mul(1_000)))
}

/// A duration in the core's type.
pub fn span(span: Duration) -> tailback_core::time::Duration {
    let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    tailback_core::time::Duration::from_ps(ns.saturating_mul(1_000))
}
