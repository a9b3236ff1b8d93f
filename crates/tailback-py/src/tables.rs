//! Recorded columns as NumPy arrays. The arrays take over the vectors' memory without copying.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tailback_core::probe::{Column, Table, Tables};

/// `{table: {column: array}}`; `_names` has the text for coded columns and the run's warnings.
pub fn to_python(py: Python<'_>, recorded: Tables) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for table in recorded.tables {
        let name = table.name;
        all.set_item(name, columns(py, table)?)?;
    }
    let names = PyDict::new(py);
    names.set_item("internals_names", PyList::new(py, recorded.internals_names)?)?;
    names.set_item("warnings", PyList::new(py, recorded.warnings)?)?;
    all.set_item("_names", names)?;
    Ok(all)
}

/// `{column: array}`.
pub fn columns(py: Python<'_>, table: Table) -> PyResult<Bound<'_, PyDict>> {
    let columns = PyDict::new(py);
    for (name, column) in table.columns {
        columns.set_item(name, array(py, column))?;
    }
    Ok(columns)
}

fn array(py: Python<'_>, column: Column) -> Bound<'_, PyAny> {
    match column {
        Column::F64(values) => PyArray1::from_vec(py, values).into_any(),
        Column::U64(values) => PyArray1::from_vec(py, values).into_any(),
        Column::U32(values) => PyArray1::from_vec(py, values).into_any(),
        Column::U16(values) => PyArray1::from_vec(py, values).into_any(),
        Column::U8(values) => PyArray1::from_vec(py, values).into_any(),
        Column::Bool(values) => PyArray1::from_vec(py, values).into_any(),
    }
}
