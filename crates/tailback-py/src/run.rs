//! Checks and runs one scenario.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tailback_core::cc::external::Makers;
use tailback_core::engine::Simulation;
use tailback_core::foreign::Stacks;
use tailback_core::probe::Tables;
use tailback_core::scenario::{self, Scenario};
use tailback_core::traffic::exec;

use crate::faults::{Cancelled, caught, place_of_panic, scenario_error};
use crate::own::{Beyond, makers};
use crate::tables::{columns, to_python};

/// Events, packets and rows between checks of the cancel flag: some ten milliseconds of work.
const EVENTS_A_LOOK: u64 = 200_000;
/// Interval between returns to Python for signals and progress. Ten per second look smooth at negligible cost.
const BETWEEN_VISITS: Duration = Duration::from_millis(100);

/// Stops a run from another thread.
#[pyclass(frozen, module = "tailback._core")]
#[derive(Default)]
pub struct Cancel {
    is_set: Arc<AtomicBool>,
}

impl Cancel {
    /// The flag itself, for code that reads it without Python.
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
    /// Cancels every run that it was passed to.
    fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }
    /// Whether `set` has been called.
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }
}

/// Raises `ScenarioError` unless the scenario (JSON) can be run; `live` also allows what only a kernel can run.
#[pyfunction]
#[pyo3(signature = (json, algorithms=None, live=false))]
pub fn check(py: Python<'_>, json: &str, algorithms: Option<&Bound<'_, PyDict>>, live: bool) -> PyResult<()> {
    let beyond = makers(algorithms)?;
    py.detach(|| {
        let mut scenario = parse(json)?;
        if live {
            scenario = exec::stand_in(&scenario).map_err(scenario_error)?;
        }
        build(&scenario, &beyond).map(drop)
    })
}

/// Options of a run.
struct RunOptions {
    is_cancelled: Arc<AtomicBool>,
    progress: Option<Py<PyAny>>,
    /// Receives rows during the run: called with a table's name, its next columns, and the names of `internals`.
    sink: Option<Py<PyAny>>,
    /// Ends the run, as if its duration were over, after this many events, packets and rows.
    most: Option<u64>,
    /// Refuses a run that takes longer than this many seconds of real time.
    most_wall_s: Option<f64>,
}

impl RunOptions {
    fn visit(&self, fraction: f64) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, (fraction,))?;
            }
            Ok(())
        })
    }

    fn demand_time(&self, begun: Instant, simulation: &Simulation) -> PyResult<()> {
        let Some(most) = self.most_wall_s.filter(|most| begun.elapsed().as_secs_f64() > *most) else {
            return Ok(());
        };
        Err(scenario_error(scenario::ScenarioError {
            field: "duration_ps".into(),
            value: "too long".into(),
            problem: format!(
                "after {most} s of this machine's time the run was at {:.6} s of simulated time",
                simulation.now().as_secs_f64()
            ),
            fix: "Shorten duration, lower rates or the number of flows, or allow more time (--most-wall)."
                .into(),
        }))
    }

    fn hand_over(&self, simulation: &mut Simulation) -> PyResult<()> {
        let Some(sink) = &self.sink else { return Ok(()) };
        let groups = simulation.take_groups();
        if groups.is_empty() {
            return Ok(());
        }
        let names = simulation.internals_names().to_vec();
        Python::attach(|py| {
            for group in groups {
                let name = group.name;
                sink.call1(py, (name, columns(py, group)?, &names))?;
            }
            Ok(())
        })
    }
}

/// Runs the scenario (JSON) and returns its tables: `{table: {column: array}}`, without the rows that `sink` received.
/// A run that takes more than `most_wall_s` seconds of real time raises `ScenarioError`.
#[pyfunction]
#[pyo3(signature = (json, cancel=None, progress=None, algorithms=None, sink=None, most=None, most_wall_s=None))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn run<'py>(
    py: Python<'py>,
    json: &str,
    cancel: Option<&Bound<'py, Cancel>>,
    progress: Option<Py<PyAny>>,
    algorithms: Option<&Bound<'py, PyDict>>,
    sink: Option<Py<PyAny>>,
    most: Option<u64>,
    most_wall_s: Option<f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let beyond = makers(algorithms)?;
    let is_cancelled = cancel.map(|token| Arc::clone(&token.get().is_set)).unwrap_or_default();
    let options = RunOptions { is_cancelled, progress, sink, most, most_wall_s };
    let tables = py.detach(|| simulate(&parse(json)?, &beyond, &options))?;
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

/// The stacks in this build besides tailback's TCP.
pub fn stacks() -> Stacks {
    #[cfg(feature = "quic")]
    return tailback_quic::stacks();
    #[cfg(not(feature = "quic"))]
    Stacks::new()
}

/// Congestion controllers of other stacks that this build offers without their stack.
pub fn controllers() -> Makers {
    #[cfg(feature = "quic")]
    return tailback_quic::controllers();
    #[cfg(not(feature = "quic"))]
    Makers::new()
}

fn build(scenario: &Scenario, beyond: &Beyond) -> PyResult<Simulation> {
    match caught(|| Simulation::build_queueing(scenario, &beyond.makers, &beyond.stacks, &beyond.queues)) {
        Ok(built) => built.map_err(scenario_error),
        Err(unwound) => Err(unwound.into_exception(None, scenario.seed)),
    }
}

/// Returns memory to the system after a run, however it ended. A connection of s2n-quic reserves 6.3 MB and writes to a
/// hundredth of it, and the next run writes elsewhere: without this, a process grew by 40 kB per connection.
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        tailback_live::sys::give_back_memory();
    }
}

/// Runs to the end without Python, except for the callbacks in `options`, whose error ends the run.
fn simulate(scenario: &Scenario, beyond: &Beyond, options: &RunOptions) -> PyResult<Tables> {
    let has_foreign =
        |flow: &scenario::FlowSpec| flow.tcp.as_ref().is_some_and(|tcp| tcp.transport.is_some());
    // Dropped after the simulation.
    let _give_back = scenario.flows.iter().any(has_foreign).then_some(GiveBack);
    let mut simulation = build(scenario, beyond)?;
    let (begun, mut visited) = (Instant::now(), Instant::now());
    let mut left = options.most.unwrap_or(u64::MAX);
    while left > 0 {
        if options.is_cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled::new_err("the run was cancelled"));
        }
        let share = EVENTS_A_LOOK.min(left);
        left -= share;
        let outcome = caught(|| simulation.run_events(share))
            .map_err(|unwound| unwound.into_exception(Some(simulation.now().as_secs_f64()), scenario.seed))?;
        if let Some(place) = place_of_panic() {
            simulation.name_panic(&place);
        }
        let is_over = outcome.map_err(|error| scenario_error(*error))?;
        simulation.check_rows().map_err(scenario_error)?;
        if is_over {
            break;
        }
        options.demand_time(begun, &simulation)?;
        options.hand_over(&mut simulation)?;
        if visited.elapsed() >= BETWEEN_VISITS {
            options.visit(simulation.now().as_ps() as f64 / scenario.duration_ps as f64)?;
            visited = Instant::now();
        }
    }
    options.hand_over(&mut simulation)?;
    let end = simulation.now().as_secs_f64();
    let tables =
        caught(|| simulation.finish()).map_err(|unwound| unwound.into_exception(Some(end), scenario.seed))?;
    options.visit(1.0)?;
    Ok(tables)
}
