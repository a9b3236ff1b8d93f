//! Python exceptions for errors and for panics.
//!
//! A panic in the engine means that an assumption of the model failed. It must not end the interpreter, and the
//! exception must have what is needed to reproduce it: the location, the time and the seed.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tailback_core::queue::external::QueueFault;

use crate::own::Fault;

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
create_exception!(
    tailback._core,
    AlgorithmError,
    PyException,
    "An algorithm written in Python raised: `args` is (algorithm, hook, simulated seconds, what); its cause is what."
);
create_exception!(tailback._core, Cancelled, PyException, "The run was cancelled through its `Cancel`.");

/// A scenario error of the core as an exception.
pub fn scenario_error(error: tailback_core::scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err((error.field, error.value, error.problem, error.fix))
}

/// A failure of the engine as an exception.
pub fn engine_error(what: impl Display, seed: u64) -> PyErr {
    EngineError::new_err(format!(
        "{what} (seed {seed}). This is a fault in tailback, not in the scenario; please report it with the \
         scenario, its seed and the version."
    ))
}

thread_local! {
    /// Whether this thread is inside [`caught`].
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    /// File and line of the panic caught last.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the engine's panics off standard error, where they would disturb a progress bar: [`caught`] reports them.
/// Panics of other threads are printed as before.
pub fn install_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if IS_GUARDED.get() {
            PLACE.set(info.location().map(ToString::to_string));
        } else {
            previous(info);
        }
    }));
}

/// Where the core caught a stack's panic in this thread since the last call.
pub fn place_of_panic() -> Option<String> {
    PLACE.take()
}

/// How `work` ended if it did not return.
pub enum Unwound {
    /// A panic: its message with its location.
    Panic(String),
    /// A fault of an algorithm written in Python.
    Fault(Box<Fault>),
}

impl Unwound {
    /// The exception; `at_s` is the simulated time, if there is one.
    pub fn into_exception(self, at_s: Option<f64>, seed: u64) -> PyErr {
        match self {
            Unwound::Panic(text) => match at_s {
                Some(at_s) => engine_error(format!("after {at_s} s: {text}"), seed),
                None => engine_error(text, seed),
            },
            Unwound::Fault(fault) => fault.into_exception(at_s.unwrap_or_default()),
        }
    }
}

/// What `work` returns, or how it unwound.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Unwound> {
    IS_GUARDED.set(true);
    // The caller drops everything that `work` was changing, and never uses it again.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(false);
    let outcome = outcome.map_err(|payload| {
        #[cfg(target_os = "linux")]
        let payload = match payload.downcast::<tailback_bpf::Fault>() {
            Ok(fault) => Box::new(Fault::from(*fault)) as Box<dyn Any + Send>,
            Err(payload) => payload,
        };
        let payload = match payload.downcast::<QueueFault>() {
            Ok(fault) => Box::new(Fault::from(*fault)) as Box<dyn Any + Send>,
            Err(payload) => payload,
        };
        #[cfg(feature = "quic")]
        let payload = match payload.downcast::<tailback_quic::ControllerFault>() {
            Ok(mut fault) => {
                if let Some(place) = PLACE.take() {
                    fault.what = format!("{} at {place}", fault.what);
                }
                Box::new(Fault::from(*fault)) as Box<dyn Any + Send>
            }
            Err(payload) => payload,
        };
        payload
    });
    outcome.map_err(|payload| match payload.downcast::<Fault>() {
        Ok(fault) => Unwound::Fault(fault),
        Err(payload) => {
            let place = PLACE.take().unwrap_or_else(|| "an unknown place".into());
            Unwound::Panic(format!("broken invariant: {} at {place}", message(payload.as_ref())))
        }
    })
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
