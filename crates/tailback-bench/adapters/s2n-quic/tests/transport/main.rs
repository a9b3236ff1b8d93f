//! s2n-quic under the suite `transport`: `cargo test --release`. To test a change of s2n-quic, copy this folder to
//! `tests/` of a crate that depends on your s2n-quic-transport.

// The adapter's files refer to the interface as `tailback_core`.
extern crate tailback_bench as tailback_core;

use tailback_bench::bench;

mod null;
mod s2n;

fn main() -> std::process::ExitCode {
    bench!("s2n-quic", s2n::S2n).main()
}
