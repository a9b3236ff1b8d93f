//! Errors for Python.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};

create_exception!(
    tailback._core,
    ScenarioError,
    PyValueError,
    "A scenario that cannot be run: `args` is (field, value, problem, fix)."
);
create_exception!(
    tailback._core,
    EngineError,
    PyRuntimeError,
    "A broken invariant in the engine; the text carries the seed."
);
create_exception!(tailback._core, Cancelled, PyException, "The run was cancelled through its `Cancel`.");
