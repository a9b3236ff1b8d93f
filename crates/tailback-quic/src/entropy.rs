//! Control over the random numbers that a stack draws from its thread's generator.

use std::panic::resume_unwind;
use std::thread;

/// Calls `make` in a thread of its own, whose generator is seeded with `seed`.
pub fn with_entropy<T: Send>(seed: u64, make: impl FnOnce() -> T + Send) -> T {
    let seeded = || {
        getrandom::seed(seed);
        make()
    };
    thread::scope(|scope| scope.spawn(seeded).join()).unwrap_or_else(|panic| resume_unwind(panic))
}
