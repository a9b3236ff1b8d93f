//! Congestion controls in BPF sources and Rust crates, and queues in crates, compiled natively: the other side of
//! `tailback_bpf`, where that is Linux.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailback_bpf::{NativeMaker, NativeQueueMaker, QueueLibrary, Source, guard};
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

/// What the queue in a compiled crate says of itself, made with these parameters (JSON): a line for each thing. Runs its
/// code; `ValueError` says for people what is wrong.
#[pyfunction]
pub fn native_queue_about(path: PathBuf, params: &str, rate_bps: Option<u64>) -> PyResult<String> {
    let params = params_of(params)?;
    let about = QueueLibrary::open(&path).and_then(|library| library.about(&params, rate_bps));
    about.map_err(PyValueError::new_err)
}

fn params_of(json: &str) -> PyResult<Params> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A compiled candidate, as one of `run`'s algorithms: by the parameters (JSON) of each, its libraries. A crate with a
/// queue has one library for all parameters.
#[pyclass(frozen, module = "tailback._core")]
pub struct NativeAlgorithm {
    libraries: Vec<(Params, PathBuf)>,
    queue: Option<PathBuf>,
}

impl NativeAlgorithm {
    /// Its maker, under the name that scenarios use, if flows name it.
    pub fn maker(&self, name: &str) -> Option<NativeMaker> {
        (!self.libraries.is_empty()).then(|| NativeMaker::new(name, self.libraries.clone()))
    }

    /// The maker of its queues, if links name it.
    pub fn queue_maker(&self) -> Option<NativeQueueMaker> {
        self.queue.clone().map(NativeQueueMaker::new)
    }
}

#[pymethods]
impl NativeAlgorithm {
    #[new]
    #[pyo3(signature = (libraries, queue=None))]
    fn new(libraries: Vec<(String, PathBuf)>, queue: Option<PathBuf>) -> PyResult<Self> {
        let read = |(params, path): (String, PathBuf)| Ok((params_of(&params)?, path));
        Ok(NativeAlgorithm { libraries: libraries.into_iter().map(read).collect::<PyResult<_>>()?, queue })
    }
    /// Open each of its libraries, which runs their code; `ValueError` says for people what is wrong with one.
    fn demand_sound(&self) -> PyResult<()> {
        let open = |(params, path): &(Params, PathBuf)| tailback_bpf::Library::open(path, params).map(drop);
        self.libraries.iter().try_for_each(open).map_err(PyValueError::new_err)
    }
}
