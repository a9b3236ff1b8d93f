//! quinn-proto, in the version of Cargo.toml, under the suite: `cargo run --release --example quinn`.
//!
//! To test a change of quinn, copy this folder to `tests/` of a crate that depends on your quinn-proto. The adapter is
//! the one that tailback itself uses, except that nothing replaces getrandom here. BBR draws the start of its cycle
//! from its thread's generator, so `repeats/bbr` reports that two runs differ.

// The adapter's files refer to the interface as `tailback_core`.
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
