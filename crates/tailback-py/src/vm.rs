//! Prepares a run in a virtual machine: compiles its BPF programs here, because a guest has no compiler.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tailback_live::demands::{Kernel, Manner};
use tailback_live::run;

use crate::live::Ended;
use crate::run::{parse, stacks};

/// Compiles the BPF programs for a run of the scenario (JSON) on a kernel with this release (`uname -r`), these
/// congestion controls and timer frequency `hz`. Returns pairs of a file name and its contents; the other arguments are
/// as for `live_run`. Raises `ScenarioError` for what no guest with this kernel can do.
#[pyfunction]
pub fn vm_programs<'py>(
    py: Python<'py>,
    json: &str,
    controls: Vec<String>,
    hz: u64,
    release: &str,
    twins: bool,
    candidates: BTreeMap<String, String>,
) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
    let kernel = Kernel { controls, hz, release: Kernel::release(release) };
    let objects = py.detach(|| -> PyResult<Vec<(String, Vec<u8>)>> {
        let scenario = parse(json)?;
        let (stacks, candidates) = (stacks(), Some(&candidates));
        let manner = Manner { twins, candidates, stacks: Some(&stacks), ..Manner::default() };
        run::programs(&scenario, &kernel, &manner).map_err(|error| Ended::from(error).into())
    })?;
    Ok(objects.into_iter().map(|(key, object)| (key, PyBytes::new(py, &object))).collect())
}
