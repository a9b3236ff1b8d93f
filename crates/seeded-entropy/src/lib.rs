//! Replaces the crate getrandom, so that a stack that draws from its thread's generator behaves the same in every run
//! of a scenario. In a thread with a seed, the numbers come from the seed. In any other thread they come from the
//! standard library's source of hash map keys.
//!
//! It implements only the part of getrandom 0.4 that the workspace's crates use. It is not suitable for secrets, of
//! which tailback has none.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on, seeds this thread's random numbers.
pub fn seed(seed: u64) {
    SEED.set(Some(seed));
}

/// Never occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no entropy")
    }
}

impl std::error::Error for Error {}

fn next() -> u64 {
    match SEED.get() {
        // SplitMix64 (Steele, Lea, Flood 2014).
        Some(state) => {
            let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            SEED.set(Some(state));
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }
        None => RandomState::new().build_hasher().finish(),
    }
}

/// Fills `bytes` with random bytes.
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&next().to_le_bytes()[..part.len()]);
    }
    Ok(())
}

/// A random number.
pub fn u32() -> Result<u32, Error> {
    Ok(next() as u32)
}

/// A random number.
pub fn u64() -> Result<u64, Error> {
    Ok(next())
}

#[cfg(feature = "sys_rng")]
pub use rand_core;

/// The same as a generator type.
#[cfg(feature = "sys_rng")]
#[derive(Clone, Copy, Debug, Default)]
pub struct SysRng;

#[cfg(feature = "sys_rng")]
impl rand_core::TryRng for SysRng {
    type Error = Error;
    fn try_next_u32(&mut self) -> Result<u32, Error> {
        u32()
    }
    fn try_next_u64(&mut self) -> Result<u64, Error> {
        u64()
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        fill(bytes)
    }
}

#[cfg(feature = "sys_rng")]
impl rand_core::TryCryptoRng for SysRng {}
