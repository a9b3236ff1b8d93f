//! The extension module `tailback._core`, thin over `tailback-core`.

mod faults;
mod registry;
mod run;

use pyo3::prelude::*;

/// The compiled core of tailback.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::faults::{Cancelled, EngineError, ScenarioError};
    #[pymodule_export]
    use crate::run::Cancel;

    use super::*;

    /// Version of the compiled core.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Everything the engine knows by name, as JSON.
    #[pyfunction]
    fn registry() -> String {
        crate::registry::as_json().to_string()
    }
}
