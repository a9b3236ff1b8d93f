//! noq-proto, in the version of Cargo.toml, under the suite: `cargo run --release --example noq`.
//!
//! To test a change of noq, copy this folder to `tests/` of a crate that depends on your noq-proto; see also the
//! example `quinn`.

// The adapter's files refer to the interface as `tailback_core`.
extern crate tailback_bench as tailback_core;

use std::process::ExitCode;

use tailback_bench::{bench, clock};

mod entropy;
mod noq;
mod null;

fn main() -> ExitCode {
    bench!("noq", noq::Noq)
        .known("transport/alone/bbr3", "its window ends short of the path: 16.7 of 20 Mbit/s")
        .known("repeats/bbr3", "it draws from its thread's generator")
        .main()
}
