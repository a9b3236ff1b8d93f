//! What a run in a virtual machine needs of this one: its BPF programs, compiled here because a guest has no compiler.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tailback_live::LiveError;
use tailback_live::demands::Kernel;
use tailback_live::recipe::Recipe;
use tailback_live::run;

use crate::live::Ended;
use crate::run::{parse, stacks};

/// The BPF programs of a run of the scenario (JSON) on a kernel with these congestion controls and `hz` ticks a second,
/// as pairs of a file's name and its contents; `twins` as for `live_run`. Raises `ScenarioError` for what no guest of
/// this kernel can do.
#[pyfunction]
pub fn vm_programs<'py>(
    py: Python<'py>,
    json: &str,
    controls: Vec<String>,
    hz: u64,
    twins: bool,
) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
    let compile = |recipe: &Recipe| -> Result<_, LiveError> { Ok((recipe.key(), recipe.compile()?)) };
    let objects = py.detach(|| -> PyResult<Vec<(String, Vec<u8>)>> {
        let scenario = parse(json)?;
        let compiled = run::recipes(&scenario, twins, &Kernel { controls, hz }, &stacks())
            .and_then(|recipes| recipes.iter().map(compile).collect());
        compiled.map_err(|error| Ended::from(error).into())
    })?;
    Ok(objects.into_iter().map(|(key, object)| (key, PyBytes::new(py, &object))).collect())
}
