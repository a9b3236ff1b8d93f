//! noq-proto under the suite, of the version that Cargo.toml says: `cargo run --release --example noq`.
//!
//! As `quinn` beside it: copy the folder to `tests/` of a crate whose noq-proto is yours.

// The adapter's files call the seam by the name of the crate that it lies in.
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
