//! Measures of a run. Each measure has one row in [`rows`] and one function here, which the Python package, the
//! explorer and Rust programs all call: the same run yields the same number everywhere.
//!
//! The functions take plain numbers and columns, so they work on tables of the engine, of a kernel run and of a stored
//! file.
//!
//! [`verdict`] judges the numbers of several seeds. [`run`] computes measures from a run's tables, by the names that
//! sweeps and `[expect]` use.
//!
//! ```
//! use tailback_measures::quantile::quantiles;
//! use tailback_measures::sharing::jain;
//! use tailback_measures::verdict::{Verdict, judge};
//!
//! assert_eq!(jain(&[2.0, 2.0, 2.0]), 1.0);
//! assert_eq!(quantiles(vec![30.0, 10.0, 20.0], &[0.5]), [20.0]);
//! // Three seeds' delays, each beside its bound.
//! let sides = [20.1, 20.4, 19.8].map(|delay| vec![delay, 30.0]);
//! assert_eq!(judge("<", &sides, 0.95), Verdict::Passed);
//! ```

pub mod columns;
pub mod flow;
pub mod operators;
pub mod people;
pub mod quantile;
pub mod queue;
pub mod rows;
pub mod run;
pub mod sharing;
pub mod verdict;
pub mod voice;
