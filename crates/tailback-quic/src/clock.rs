//! The run's time as the standard library's instants.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tailback_core::time::Time;

/// Time zero. Stacks use differences only, so which instant it is changes nothing.
fn base() -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

/// That time of the run. Instants have nanoseconds; what is beyond is cut off.
pub fn instant(now: Time) -> Instant {
    base() + Duration::from_nanos(now.as_ns())
}

/// The run's time at an instant, or never.
pub fn time(instant: Option<Instant>) -> Time {
    let since = |instant: Instant| instant.saturating_duration_since(base()).as_nanos();
    let ns = |instant| u64::try_from(since(instant)).unwrap_or(u64::MAX);
    instant.map_or(Time::NEVER, |instant| Time::from_ps(ns(instant).saturating_mul(1_000)))
}

/// A span as the core counts it.
pub fn span(span: Duration) -> tailback_core::time::Duration {
    let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    tailback_core::time::Duration::from_ps(ns.saturating_mul(1_000))
}
