//! Checking and running one scenario.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// Stops a run from another thread.
#[pyclass(frozen, module = "tailback._core")]
#[derive(Default)]
pub struct Cancel {
    is_set: Arc<AtomicBool>,
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
