//! Runs a scenario on this machine's own kernel, if it is Linux.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tailback_core::probe::Tables;
use tailback_live::demands::{self, Manner};
use tailback_live::{LiveError as Failure, doctor, lease, run, sys};

use crate::faults::{Cancelled, caught, scenario_error};
use crate::run::{Cancel, parse, stacks};
use crate::tables::to_python;

create_exception!(
    tailback._core,
    LiveError,
    PyRuntimeError,
    "A live run that failed while it was under way; everything it made is gone."
);

/// Why a live run ended early: an error of the run, or an exception in Python.
pub enum Ended {
    Live(Failure),
    Python(PyErr),
}

impl From<Failure> for Ended {
    fn from(error: Failure) -> Self {
        Ended::Live(error)
    }
}

impl From<Ended> for PyErr {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Python(error) => error,
            Ended::Live(Failure::Refused(error)) => scenario_error(error),
            Ended::Live(Failure::Failed(what)) => LiveError::new_err(what),
            Ended::Live(Failure::Cancelled) => Cancelled::new_err("the run was cancelled"),
        }
    }
}

/// Raises `ScenarioError` unless the scenario (JSON) can be run live on this machine. Programs find other files in the
/// folder `here`; `twins` uses our twins even of what the kernel has itself. `candidates` are source texts of BPF
/// congestion controls by the names that the scenario uses.
#[pyfunction]
#[pyo3(signature = (json, here=".".into(), twins=false, candidates=None))]
pub fn live_check(
    py: Python<'_>,
    json: &str,
    here: PathBuf,
    twins: bool,
    candidates: Option<BTreeMap<String, String>>,
) -> PyResult<()> {
    py.detach(|| {
        let scenario = parse(json)?;
        let (candidates, stacks) = (candidates.as_ref(), stacks());
        let manner = Manner { here: &here, twins, candidates, stacks: Some(&stacks), ..Manner::default() };
        demands::plan(&scenario, &manner).map(drop).map_err(|error| Ended::from(error).into())
    })
}

/// Runs the scenario (JSON) live and returns its tables like `run`, plus `emulator` and `captures`. Output files of
/// programs are under `_files`, bytes by name; the author of each flow's congestion controls is under `_controls`.
/// `in_front` is a program flow, by number, and the command that replaces its client with this process's input and
/// output; the run ends with it. The other arguments are as for `live_check`.
#[pyfunction]
#[pyo3(signature = (json, cancel=None, progress=None, here=".".into(), twins=false, candidates=None, in_front=None))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn live_run<'py>(
    py: Python<'py>,
    json: &str,
    cancel: Option<&Bound<'py, Cancel>>,
    progress: Option<Py<PyAny>>,
    here: PathBuf,
    twins: bool,
    candidates: Option<BTreeMap<String, String>>,
    in_front: Option<(usize, Vec<String>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let is_cancelled: Arc<AtomicBool> = cancel.map(|token| token.get().flag()).unwrap_or_default();
    let visit = |fraction: f64| {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(Ended::Live(Failure::Cancelled));
        }
        let visited = Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &progress {
                progress.call1(py, (fraction,))?;
            }
            Ok(())
        });
        visited.map_err(Ended::Python)
    };
    let had_terminal = in_front.is_some() && sys::has_terminal();
    let outcome = py.detach(|| {
        let scenario = parse(json)?;
        let (candidates, stacks) = (candidates.as_ref(), stacks());
        let in_front = in_front.as_ref().map(|(flow, words)| (*flow, &words[..]));
        let manner =
            Manner { here: &here, twins, candidates, stacks: Some(&stacks), in_front, ..Manner::default() };
        let ran = caught(|| run::run_as(&scenario, &manner, visit));
        if had_terminal {
            sys::take_terminal();
        }
        match ran {
            Ok(ended) => ended.map_err(PyErr::from),
            Err(unwound) => Err(unwound.into_exception(None, scenario.seed)),
        }
    })?;
    let recorded =
        Tables { tables: outcome.tables, internals_names: outcome.internals_names, warnings: outcome.notes };
    let all = to_python(py, recorded)?;
    let files = PyDict::new(py);
    for (name, bytes) in outcome.files {
        files.set_item(name, PyBytes::new(py, &bytes))?;
    }
    all.set_item("_files", files)?;
    all.set_item("_controls", outcome.controls)?;
    Ok(all)
}

/// What this machine can run live, as JSON; timer lateness is measured for this many seconds.
#[pyfunction]
pub fn live_doctor(py: Python<'_>, seconds: f64) -> String {
    py.detach(|| {
        doctor::as_json(&doctor::examine(Duration::from_secs_f64(seconds.clamp(0.0, 60.0)))).to_string()
    })
}

/// Removes what dead live runs have left; returns descriptions of what was removed.
#[pyfunction]
pub fn live_clean(py: Python<'_>) -> PyResult<Vec<String>> {
    py.detach(lease::clean).map_err(PyErr::from)
}
