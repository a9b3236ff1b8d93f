//! The condition language of `[expect]` and its verdicts: parsed by `tailback-scenario`, judged by `tailback-measures`.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailback_measures::run::keys;
use tailback_measures::verdict;
use tailback_scenario::condition::{self, Metrics};

/// The known metrics, each with what `[instruments]` lacks for it (empty if nothing).
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

/// A parsed condition.
#[pyclass(frozen, module = "tailback._core")]
pub struct ReadCondition(condition::Condition);

#[pymethods]
impl ReadCondition {
    /// The condition as written.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// "<", "<=", ">", ">=" or "in".
    #[getter]
    fn relation(&self) -> &'static str {
        self.0.relation.text()
    }

    /// The metrics it uses.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }

    /// Whether it compares with the baseline's run.
    #[getter]
    fn needs_baseline(&self) -> bool {
        self.0.needs_baseline()
    }

    /// Whether its left side refers to the baseline's run.
    #[getter]
    fn left_needs_baseline(&self) -> bool {
        self.0.left_needs_baseline()
    }

    /// The left side, then the bounds, from values by name; missing values are NaN.
    fn sides(&self, run: HashMap<String, f64>, baseline: HashMap<String, f64>) -> Vec<f64> {
        let of = |values: &HashMap<String, f64>, name: &str| values.get(name).copied().unwrap_or(f64::NAN);
        self.0.sides(&|name| of(&run, name), &|name| of(&baseline, name))
    }
}

/// Parses a condition; a `ValueError` has the position, the problem and the fix.
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

/// The verdict on a condition from its sides, one row per seed, and the index of the row that violates it most.
#[pyfunction]
pub fn condition_judge(relation: &str, sides: Vec<Vec<f64>>, confidence: f64) -> (&'static str, usize) {
    (verdict::judge(relation, &sides, confidence).word(), verdict::worst(relation, &sides))
}

/// On which side of zero margins lie; `tailback.judge.side` documents it.
#[pyfunction]
pub fn side_of_zero(margins: Vec<f64>, ratios: Vec<f64>, confidence: f64, at_zero: i32) -> i32 {
    verdict::side(&margins, &ratios, confidence, at_zero)
}
