//! The language of `[expect]` and its verdicts: what `tailback-scenario` reads and `tailback-measures` judges.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailback_measures::run::keys;
use tailback_measures::verdict;
use tailback_scenario::condition::{self, Metrics};

/// The known metrics, each with what `[instruments]` lacks for it, or nothing.
struct Known(Vec<(String, String)>, HashMap<String, usize>);

impl Metrics for Known {
    fn lacks(&self, name: &str) -> Option<String> {
        self.1.get(name).map(|at| self.0[*at].1.clone())
    }

    fn unit(&self, name: &str) -> &'static str {
        keys::unit(name)
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// A condition that was read.
#[pyclass(frozen, module = "tailback._core")]
pub struct ReadCondition(condition::Condition);

#[pymethods]
impl ReadCondition {
    /// As it is written.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// "<", "<=", ">", ">=" or "in".
    #[getter]
    fn relation(&self) -> &'static str {
        self.0.relation.text()
    }

    /// The metrics in it.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }

    /// Does it compare with the baseline's run?
    #[getter]
    fn needs_baseline(&self) -> bool {
        self.0.needs_baseline()
    }

    /// Is its left side of the baseline's run?
    #[getter]
    fn left_needs_baseline(&self) -> bool {
        self.0.left_needs_baseline()
    }

    /// The left side, then the bounds, of values by name; what is not there is NaN.
    fn sides(&self, run: HashMap<String, f64>, baseline: HashMap<String, f64>) -> Vec<f64> {
        let of = |values: &HashMap<String, f64>, name: &str| values.get(name).copied().unwrap_or(f64::NAN);
        self.0.sides(&|name| of(&run, name), &|name| of(&baseline, name))
    }
}

/// Read a condition; a `ValueError` with the character, what is wrong and what would be right.
#[pyfunction]
pub fn condition_read(
    text: &str,
    metrics: Vec<(String, String)>,
    baseline: bool,
    window: bool,
) -> PyResult<ReadCondition> {
    let places = metrics.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
    let found = condition::Condition::parse(text, &Known(metrics, places), baseline, window);
    found.map(ReadCondition).map_err(|error| PyValueError::new_err((error.at, error.problem, error.fix)))
}

/// The verdict on the sides of a condition, a row a seed, and the row that is furthest from where it holds.
#[pyfunction]
pub fn condition_judge(relation: &str, sides: Vec<Vec<f64>>, confidence: f64) -> (&'static str, usize) {
    (verdict::judge(relation, &sides, confidence).word(), verdict::worst(relation, &sides))
}

/// On which side of zero runs lie; `tailback.judge.side` documents it.
#[pyfunction]
pub fn side_of_zero(margins: Vec<f64>, ratios: Vec<f64>, confidence: f64, at_zero: i32) -> i32 {
    verdict::side(&margins, &ratios, confidence, at_zero)
}
