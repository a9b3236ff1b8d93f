//! Measures of a run. Each has one row in [`rows`] and one function here, which the Python package, the explorer and a
//! Rust program call: the same run gives the same number everywhere.
//!
//! The functions take plain numbers and columns, so they serve tables of the engine, of a kernel and of a stored file.
//!
//! [`run`] computes them from a run's tables, by the names that sweeps and `[expect]` use.

pub mod columns;
pub mod flow;
pub mod operators;
pub mod people;
pub mod quantile;
pub mod rows;
pub mod run;
pub mod sharing;
pub mod voice;
