//! quinn-proto under the suite, of the version that Cargo.toml says: `cargo run --release --example quinn`.
//!
//! To use it for a change of quinn, copy this folder to `tests/` of a crate whose quinn-proto is yours. The adapter is the
//! one that tailback uses itself, but for randomness: nothing stands in for getrandom here. BBR draws the start of its
//! cycle from its thread's generator, and so `repeats/bbr` finds that two runs differ.

// The adapter's files call the seam by the name of the crate that it lies in.
extern crate tailback_bench as tailback_core;

use std::process::ExitCode;

use tailback_bench::{bench, clock};

mod entropy;
mod null;
mod quinn;

fn main() -> ExitCode {
    bench!("quinn", quinn::Quinn)
        .known("transport/jitter/bbr", "its window follows a bandwidth that jitter inflates")
        .known("transport/alone/bbr", "its pacer does not know BBR's rate: 8 % of the packets are lost")
        .known("transport/codel/bbr", "BBR version 1 does not heed losses")
        .known(
            "transport/tenfold-fall/bbr",
            "it keeps its rate for ten round trips, and each loses nine in ten packets",
        )
        .known("transport/beside-cubic/bbr", "two bandwidth-delay products in flight leave CUBIC none")
        .known("repeats/bbr", "it draws the start of its cycle from its thread's generator")
        .main()
}
