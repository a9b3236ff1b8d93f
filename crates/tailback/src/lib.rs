#![doc = include_str!("../README.md")]
//!
//! Names of measures are those of sweeps and `[expect]`: [`Result::measures`] lists them. This surface is what stays; the
//! crates `tailback-core`, `-scenario` and `-measures` that it is built on may change with any version.
#![forbid(unsafe_code)]

mod error;
mod expect;
mod result;
mod scenario;

pub use error::{Error, Problem};
pub use expect::{Interval, Judged, Tested, Verdict, test};
pub use result::{Column, Result, Table};
pub use scenario::{Builder, Scenario, Value};

/// Run a scenario in the simulator, to its end. An error if the scenario asks more than a run may hold, or would never end.
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
