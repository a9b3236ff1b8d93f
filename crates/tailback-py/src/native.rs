//! Congestion controls in BPF sources and Rust crates, compiled natively: the other side of `tailback_bpf`, where that
//! is Linux.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailback_bpf::{NativeMaker, Source, guard};
use tailback_core::scenario::Params;

/// Compile a BPF source natively and return the library's bytes; `ValueError` says for people what is wrong.
#[pyfunction]
pub fn bpf_library(
    py: Python<'_>,
    name: String,
    text: String,
    defines: BTreeMap<String, String>,
) -> PyResult<Vec<u8>> {
    let source = Source { name, text, defines: defines.into_iter().collect() };
    py.detach(|| source.library()).map_err(PyValueError::new_err)
}

/// From now on this process says how it ends if a candidate is at fault (`tailback-fault` on standard error).
#[pyfunction]
pub fn bpf_guard() {
    guard::install();
}

/// A compiled candidate, as one of `run`'s algorithms: by the parameters (JSON) of each, its libraries.
#[pyclass(frozen, module = "tailback._core")]
pub struct NativeAlgorithm {
    libraries: Vec<(Params, PathBuf)>,
}

impl NativeAlgorithm {
    /// Its maker, under the name that scenarios use.
    pub fn maker(&self, name: &str) -> NativeMaker {
        NativeMaker::new(name, self.libraries.clone())
    }
}

#[pymethods]
impl NativeAlgorithm {
    #[new]
    fn new(libraries: Vec<(String, PathBuf)>) -> PyResult<Self> {
        let read = |(params, path): (String, PathBuf)| match serde_json::from_str(&params) {
            Ok(params) => Ok((params, path)),
            Err(error) => Err(PyValueError::new_err(error.to_string())),
        };
        Ok(NativeAlgorithm { libraries: libraries.into_iter().map(read).collect::<PyResult<_>>()? })
    }
    /// Open each of its libraries, which runs their code; `ValueError` says for people what is wrong with one.
    fn demand_sound(&self) -> PyResult<()> {
        let open = |(params, path): &(Params, PathBuf)| tailback_bpf::Library::open(path, params).map(drop);
        self.libraries.iter().try_for_each(open).map_err(PyValueError::new_err)
    }
}
