//! A bench as users run it: without libtest, with a folder, snapshots and known failures.
#![allow(missing_docs)]

use std::process::ExitCode;

use tailback_bench::bench;

mod common;

fn main() -> ExitCode {
    bench!("window", common::Window(common::Fault::Nothing))
        .without_suite()
        .folder("tests/paths")
        .snapshots("tests/snapshots")
        .seeds(2)
        .known("tests/paths/narrow/fixed", "a window that never changes fills any queue")
        .main()
}
