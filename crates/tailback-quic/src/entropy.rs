//! Randomness that a stack takes from nowhere in particular.

use std::panic::resume_unwind;
use std::thread;

/// Make something in a thread of its own, whose generator starts fresh and takes its seed from here.
pub fn with_entropy<T: Send>(seed: u64, make: impl FnOnce() -> T + Send) -> T {
    let seeded = || {
        getrandom::seed(seed);
        make()
    };
    thread::scope(|scope| scope.spawn(seeded).join()).unwrap_or_else(|panic| resume_unwind(panic))
}
