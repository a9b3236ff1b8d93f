//! Compiles congestion controls and queues from BPF sources and Rust crates natively: the Python interface of
//! `tailback_bpf`, on Linux.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailback_bpf::{Kind, NativeMaker, NativeQueueMaker, QueueLibrary, Source, guard};
use tailback_core::scenario::Params;

/// Compiles a BPF source natively, as a queue or a congestion control, and returns the library's bytes; a `ValueError`
/// describes what is wrong.
#[pyfunction]
#[pyo3(signature = (name, text, defines, is_queue=false))]
pub fn bpf_library(
    py: Python<'_>,
    name: String,
    text: String,
    defines: BTreeMap<String, String>,
    is_queue: bool,
) -> PyResult<Vec<u8>> {
    let source = Source { name, text, defines: defines.into_iter().collect() };
    let kind = if is_queue { Kind::Queue } else { Kind::Control };
    py.detach(|| source.library(kind)).map_err(PyValueError::new_err)
}

/// Compiles a queue's BPF source for a kernel, under the kernel name `id`; a `ValueError` describes what is wrong.
#[pyfunction]
pub fn bpf_queue_object(
    py: Python<'_>,
    name: String,
    text: String,
    defines: BTreeMap<String, String>,
    id: String,
) -> PyResult<Vec<u8>> {
    let source = Source { name, text, defines: defines.into_iter().collect() };
    py.detach(|| source.object(&id, Kind::Queue)).map_err(PyValueError::new_err)
}

/// Whether this BPF source text is a queue.
#[pyfunction]
pub fn bpf_is_queue(text: String) -> bool {
    Source { name: String::new(), text, defines: Vec::new() }.kind() == Kind::Queue
}

/// From now on this process reports (`tailback-fault` on standard error) if a candidate's fault ends it.
#[pyfunction]
pub fn bpf_guard() {
    guard::install();
}

/// The description of the queue in a compiled library, made with these parameters (JSON): one line per item. Runs the
/// library's code; a `ValueError` describes what is wrong.
#[pyfunction]
pub fn native_queue_about(path: PathBuf, params: &str, rate_bps: Option<u64>) -> PyResult<String> {
    let params = params_of(params)?;
    let about = QueueLibrary::open(&path).and_then(|library| library.about(&params, rate_bps));
    about.map_err(PyValueError::new_err)
}

fn params_of(json: &str) -> PyResult<Params> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A compiled candidate, as one of `run`'s algorithms: its libraries by the parameters (JSON) of each, and whether
/// flows and links name it.
#[pyclass(frozen, module = "tailback._core")]
pub struct NativeAlgorithm {
    libraries: Vec<(Params, PathBuf)>,
    queues: Vec<(Params, PathBuf)>,
}

impl NativeAlgorithm {
    /// The maker of its congestion control, under its name in scenarios, if flows name it.
    pub fn maker(&self, name: &str) -> Option<NativeMaker> {
        (!self.libraries.is_empty()).then(|| NativeMaker::new(name, self.libraries.clone()))
    }

    /// The maker of its queues, if links name it.
    pub fn queue_maker(&self) -> Option<NativeQueueMaker> {
        (!self.queues.is_empty()).then(|| NativeQueueMaker::new(self.queues.clone()))
    }
}

#[pymethods]
impl NativeAlgorithm {
    #[new]
    #[pyo3(signature = (libraries, queues=Vec::new()))]
    fn new(libraries: Vec<(String, PathBuf)>, queues: Vec<(String, PathBuf)>) -> PyResult<Self> {
        let read = |(params, path): (String, PathBuf)| Ok((params_of(&params)?, path));
        let all = |rows: Vec<_>| rows.into_iter().map(read).collect::<PyResult<_>>();
        Ok(NativeAlgorithm { libraries: all(libraries)?, queues: all(queues)? })
    }
    /// Opens each of its libraries, which runs their code; a `ValueError` describes what is wrong with one.
    fn demand_sound(&self) -> PyResult<()> {
        let open = |(params, path): &(Params, PathBuf)| tailback_bpf::Library::open(path, params).map(drop);
        self.libraries.iter().try_for_each(open).map_err(PyValueError::new_err)
    }
}
