//! s2n-quic under the suite `transport`: `cargo test --release`. To use it for a change of s2n-quic, copy this folder to `tests/`
//! of a crate whose s2n-quic-transport is yours.

// The adapter's files call the seam by the name of the crate that it lies in.
extern crate tailback_bench as tailback_core;

use tailback_bench::bench;

mod null;
mod s2n;

fn main() -> std::process::ExitCode {
    bench!("s2n-quic", s2n::S2n).main()
}
