#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bench;
mod case;
/// Conversions between the run's time and the standard library's.
pub mod clock;
mod page;
mod watch;

pub use bench::{Bench, Outcome, Verdict};
pub use tailback_core::foreign::{Endpoint, Flight, Progress, Setup, Stack, State, UDP_HEADERS};
pub use tailback_core::packet::Ecn;
pub use tailback_core::time::{Duration, Rate, Time};
pub use tailback_core::{foreign, packet, rng, time};

#[doc(hidden)]
pub use insta;

/// The environment variable with the folder for `cargo tailback`'s pages.
#[doc(hidden)]
pub const PAGES: &str = "TAILBACK_PAGES";

/// A bench for a named stack: `bench!("mine", Mine)`. Folders and snapshots are relative to the caller's crate.
#[macro_export]
macro_rules! bench {
    ($name:expr, $stack:expr $(,)?) => {
        $crate::Bench::new($name, $stack).at(env!("CARGO_MANIFEST_DIR"), |folder, name, text| {
            $crate::insta::with_settings!(
                { snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true },
                { $crate::insta::assert_snapshot!(name, text) }
            );
        })
    };
}
