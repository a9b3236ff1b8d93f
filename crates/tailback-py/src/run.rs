//! Checking and running one scenario.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tailback_core::cc::external::Makers;
use tailback_core::engine::Simulation;
use tailback_core::probe::Tables;
use tailback_core::scenario::{self, Scenario};
use tailback_core::traffic::exec;

use crate::faults::{Cancelled, Unwound, caught, scenario_error};
use crate::own::makers;
use crate::tables::to_python;

/// Events between two looks at the cancel flag: some ten milliseconds of work.
const EVENTS_A_LOOK: u64 = 200_000;
/// Between two visits to Python for signals and progress. Ten a second look smooth and cost nothing.
const BETWEEN_VISITS: Duration = Duration::from_millis(100);

/// Stops a run from another thread.
#[pyclass(frozen, module = "tailback._core")]
#[derive(Default)]
pub struct Cancel {
    is_set: Arc<AtomicBool>,
}

impl Cancel {
    /// The flag itself, for whoever looks at it without Python.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_set)
    }
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Cancel::default()
    }
    /// Cancel every run this was given to.
    fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }
    /// Has `set` been called?
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }
}

/// Raise `ScenarioError` unless the scenario (JSON) can be run; `live` allows what only a kernel can run.
#[pyfunction]
#[pyo3(signature = (json, algorithms=None, live=false))]
pub fn check(py: Python<'_>, json: &str, algorithms: Option<&Bound<'_, PyDict>>, live: bool) -> PyResult<()> {
    let makers = makers(algorithms)?;
    py.detach(|| {
        let mut scenario = parse(json)?;
        if live {
            scenario = exec::stand_in(&scenario).map_err(scenario_error)?;
        }
        build(&scenario, &makers).map(drop)
    })
}

/// Run the scenario (JSON) and return its tables: `{table: {column: array}}`.
#[pyfunction]
#[pyo3(signature = (json, cancel=None, progress=None, algorithms=None))]
pub fn run<'py>(
    py: Python<'py>,
    json: &str,
    cancel: Option<&Bound<'py, Cancel>>,
    progress: Option<Py<PyAny>>,
    algorithms: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let makers = makers(algorithms)?;
    let is_cancelled = cancel.map(|token| Arc::clone(&token.get().is_set)).unwrap_or_default();
    let visit = |fraction: f64| {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &progress {
                progress.call1(py, (fraction,))?;
            }
            Ok(())
        })
    };
    let tables = py.detach(|| simulate(&parse(json)?, &makers, &is_cancelled, visit))?;
    to_python(py, tables)
}

pub fn parse(json: &str) -> PyResult<Scenario> {
    serde_json::from_str(json).map_err(|error| {
        scenario_error(scenario::ScenarioError {
            field: String::new(),
            value: format!("line {}, column {}", error.line(), error.column()),
            problem: format!("the description cannot be read: {error}"),
            fix: "Give a resolved scenario in the form of tailback-core's scenario.rs.".into(),
        })
    })
}

fn build(scenario: &Scenario, makers: &Makers) -> PyResult<Simulation> {
    match caught(|| Simulation::build_with(scenario, makers)) {
        Ok(built) => built.map_err(scenario_error),
        Err(unwound) => Err(unwound.into_exception(None, scenario.seed)),
    }
}

/// The whole run, away from Python but for `visit(fraction)`, which may end it by an error.
fn simulate(
    scenario: &Scenario,
    makers: &Makers,
    is_cancelled: &AtomicBool,
    visit: impl Fn(f64) -> PyResult<()>,
) -> PyResult<Tables> {
    let mut simulation = build(scenario, makers)?;
    let mut visited = Instant::now();
    loop {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled::new_err("the run was cancelled"));
        }
        let outcome = match caught(|| simulation.run_events(EVENTS_A_LOOK)) {
            Ok(outcome) => outcome.map_err(|error| Unwound::Panic(error.to_string())),
            Err(unwound) => Err(unwound),
        };
        match outcome {
            Ok(true) => break,
            Ok(false) => {}
            Err(unwound) => {
                return Err(unwound.into_exception(Some(simulation.now().as_secs_f64()), scenario.seed));
            }
        }
        if visited.elapsed() >= BETWEEN_VISITS {
            visit(simulation.now().as_ps() as f64 / scenario.duration_ps as f64)?;
            visited = Instant::now();
        }
    }
    let end = simulation.now().as_secs_f64();
    let tables =
        caught(|| simulation.finish()).map_err(|unwound| unwound.into_exception(Some(end), scenario.seed))?;
    visit(1.0)?;
    Ok(tables)
}
