#![doc = include_str!("../README.md")]
//!
//! Measures have the same names as in sweeps and `[expect]`: [`Result::measures`] lists them. Only this crate's interface
//! is stable; the crates `tailback-core`, `-scenario` and `-measures` below it may change with any version.
#![forbid(unsafe_code)]

mod error;
mod expect;
mod result;
mod scenario;

pub use error::{Error, Problem};
pub use expect::{Interval, Judged, Tested, Verdict, test};
pub use result::{Column, Result, Table};
pub use scenario::{Builder, Scenario, Value};

/// Runs a scenario in the simulator to its end. An error if it exceeds the limits of a run, or would never end.
///
/// ```
/// let text = "duration = '2s'\n[dumbbell]\nrate = '5mbit'\nrtt = '20ms'\n[[flow]]\nname = 'a'";
/// let result = tailback::run(&tailback::Scenario::from_toml(text)?)?;
/// assert!(result.measure("utilisation")? > 0.9);
/// # Ok::<(), tailback::Error>(())
/// ```
pub fn run(scenario: &Scenario) -> std::result::Result<Result, Error> {
    result::of(scenario)
}
