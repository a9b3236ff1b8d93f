//! The scenario schema for Python: takes and returns objects, and raises faults as `tailback.errors` defines them.

use std::cell::RefCell;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use tailback_core::framing::{Framing, LinkLayer};
use tailback_scenario::node::{self, Node, Value};
use tailback_scenario::part::{self, Form, Kind};
use tailback_scenario::problem::{self, Fault, Problem, fault};
use tailback_scenario::quantity::{self, Counts, Quantity, Size};
use tailback_scenario::resolve::{self, Host, Own, Resolved};
use tailback_scenario::schema::{self as parts, Scenario};
use tailback_scenario::{csv, document, har, presets, text, unresolve};

/// Converts a Python object to a node.
fn node_of(object: &Bound<'_, PyAny>) -> PyResult<Node> {
    let rows = |items: Bound<'_, PyList>| -> PyResult<Node> {
        let row = |item: Bound<'_, PyAny>| {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            Ok((key.str()?.to_string(), node_of(&value)?))
        };
        Ok(Node::table(items.iter().map(row).collect::<PyResult<_>>()?))
    };
    if object.is_none() {
        return Ok(Value::Null.into());
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(text.to_str()?.into());
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if let Ok(number) = object.cast_exact::<PyInt>() {
        let huge = || Value::Number(number.extract().unwrap_or(f64::INFINITY));
        return Ok(number.extract::<i128>().map_or_else(|_| huge(), Value::Whole).into());
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return Ok(number.value().into());
    }
    if let Ok(table) = object.cast::<PyDict>() {
        return rows(table.items());
    }
    let list = |object: &Bound<'_, PyAny>| -> PyResult<Node> {
        let items = object.try_iter()?.map(|item| node_of(&item?)).collect::<PyResult<Vec<Node>>>()?;
        Ok(items.into())
    };
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return list(object);
    }
    // A scenario part has its table, a quantity its text, a path its name.
    for (attribute, is_text) in [("_full", false), ("_kind", true), ("__fspath__", true)] {
        if let Some(found) = object.getattr_opt(attribute)? {
            return if is_text { Ok(object.str()?.to_string().into()) } else { node_of(&found) };
        }
    }
    if let Ok(table) = object.cast::<PyMapping>() {
        return rows(table.items()?);
    }
    if let Ok(number) = object.cast::<PyInt>() {
        return Ok(number.extract::<i128>().map_or(Value::Other(number.to_string()), Value::Whole).into());
    }
    if object.hasattr("__iter__")? {
        return list(object);
    }
    Ok(Value::Other(object.str()?.to_string()).into())
}

/// Converts a value to a Python object.
fn object_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Whole(number) => number.into_pyobject(py)?.into_any(),
        Value::Number(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) | Value::Other(text) => text.into_pyobject(py)?.into_any(),
        Value::List(items) => {
            let list = PyList::empty(py);
            items.iter().try_for_each(|item| list.append(object_of(py, &item.value)?))?;
            list.into_any()
        }
        Value::Table(rows) => {
            let table = PyDict::new(py);
            rows.iter().try_for_each(|(key, node)| table.set_item(key, object_of(py, &node.value)?))?;
            table.into_any()
        }
    })
}

/// Converts a problem to `tailback.errors.Problem`.
fn problem_object<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyAny>> {
    let value = object_of(py, problem.value.as_ref().unwrap_or(&Value::Null))?;
    let row = (&problem.field, value, &problem.problem, &problem.fix);
    py.import("tailback.errors")?.getattr("Problem")?.call1(row)
}

fn refusal(py: Python<'_>, problems: &[Problem]) -> PyErr {
    let raised = || {
        let list = PyList::empty(py);
        problems.iter().try_for_each(|problem| list.append(problem_object(py, problem)?))?;
        py.import("tailback.errors")?.getattr("ScenarioError")?.call1((list,))
    };
    raised().map_or_else(|error| error, PyErr::from_value)
}

fn unit_error(py: Python<'_>, fault: &Fault) -> PyErr {
    let raised = py.import("tailback.errors").and_then(|errors| errors.getattr("UnitError"));
    raised.and_then(|it| it.call1((&fault.problem, &fault.fix))).map_or_else(|error| error, PyErr::from_value)
}

fn scenario_of(object: &Bound<'_, PyAny>) -> PyResult<Scenario> {
    let node = node_of(object)?;
    part::read(&node, "").map_err(|problems| refusal(object.py(), &problems))
}

/// A part of a scenario by its name, with every field, or as a file would contain it (`short`).
#[pyfunction]
pub fn scenario_part<'py>(
    py: Python<'py>,
    part: &str,
    given: &Bound<'py, PyAny>,
    short: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let form = if short { Form::Short } else { Form::Full };
    let node = node_of(given)?;
    let read = match part {
        "Scenario" => {
            let host = Unasked { py, failed: RefCell::new(None) };
            let read = resolve::read(&node, &host);
            host.failed.take().map_or(Ok(()), Err)?;
            read.map(|scenario| scenario.write(form))
        }
        _ => parts::read_part(part, &node, form),
    };
    object_of(py, &read.map_err(|problems| refusal(py, &problems))?.value)
}

/// The contents of TOML text, with line and column of each position; a `ValueError` has message, line and column.
#[pyfunction]
pub fn toml_read<'py>(py: Python<'py>, text: &str) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
    let node = node::from_toml(text).map_err(|error| {
        let (line, column) = error.at.map_or((None, None), |(line, column)| (Some(line), Some(column)));
        PyValueError::new_err((error.message, line, column))
    })?;
    let places = PyDict::new(py);
    for (place, at) in node.places(text) {
        places.set_item(place, at)?;
    }
    Ok((object_of(py, &node.value)?, places))
}

/// A scenario as TOML text.
#[pyfunction]
pub fn scenario_toml(scenario: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(text::to_toml(&scenario_of(scenario)?.write(Form::Short)))
}

/// The scenario with its preset expanded and every field set.
#[pyfunction]
pub fn scenario_expand<'py>(py: Python<'py>, scenario: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let expanded = presets::expand(&scenario_of(scenario)?).map_err(|problems| refusal(py, &problems))?;
    object_of(py, &expanded.write(Form::Full).value)
}

/// Names of flows and links, in the order of the engine's tables, and of the flow entries as listed.
#[pyfunction]
pub fn scenario_names(py: Python<'_>, scenario: &Bound<'_, PyAny>) -> PyResult<[Vec<String>; 3]> {
    resolve::names(&scenario_of(scenario)?).map_err(|problems| refusal(py, &problems))
}

/// Stands in for external data if a scenario cannot be run: the user's algorithms by name, and favourable values for
/// the rest.
struct Unasked<'py> {
    py: Python<'py>,
    /// Any other exception.
    failed: RefCell<Option<PyErr>>,
}

impl Host for Unasked<'_> {
    fn trace(&self, _: &str) -> Result<Vec<u64>, Fault> {
        Ok(Vec::new())
    }
    fn schedule(&self, _: &str) -> Result<String, Fault> {
        Ok(csv::SMALLEST.into())
    }
    fn page(&self, _: &str) -> Result<String, Fault> {
        Ok(har::SMALLEST.into())
    }
    fn own(&self, algorithm: &str) -> Own {
        if crate::run::controllers().contains_key(algorithm) {
            return Own::Known;
        }
        let is_known = || {
            let algorithms = self.py.import("tailback.algorithms")?;
            let is_reference = algorithms.call_method1("is_reference", (algorithm,))?.extract::<bool>()?;
            Ok(is_reference || algorithms.call_method0("factories")?.contains(algorithm)?)
        };
        match is_known() {
            Ok(false) => Own::Unknown,
            Ok(true) => Own::Known,
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                Own::Known
            }
        }
    }
    fn pattern(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

/// Requests external data from Python: each method returns the data or raises an error with `problem` and `fix`.
struct Asked<'py> {
    host: Bound<'py, PyAny>,
    /// Any other exception.
    failed: RefCell<Option<PyErr>>,
}

impl<'py> Asked<'py> {
    fn new(host: &Bound<'py, PyAny>) -> Self {
        Asked { host: host.clone(), failed: RefCell::new(None) }
    }

    fn ask<T: FromPyObjectOwned<'py>>(&self, method: &str, text: &str) -> Result<T, Fault> {
        let answer = self.host.call_method1(method, (text,));
        answer.and_then(|answer| answer.extract::<T>().map_err(Into::into)).map_err(|error| {
            let raised = error.value(self.host.py());
            let word = |name: &str| raised.getattr(name).and_then(|it| it.extract::<String>());
            match (word("problem"), word("fix")) {
                (Ok(problem), Ok(fix)) => fault(problem, fix),
                _ => {
                    self.failed.borrow_mut().get_or_insert(error);
                    fault("could not be read", "")
                }
            }
        })
    }

    fn resolve(&self, scenario: &Scenario) -> PyResult<Resolved> {
        let resolved = resolve::resolve(scenario, self);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        resolved.map_err(|problems| refusal(self.host.py(), &problems))
    }
}

impl Host for Asked<'_> {
    fn trace(&self, file: &str) -> Result<Vec<u64>, Fault> {
        self.ask("trace", file)
    }
    fn schedule(&self, file: &str) -> Result<String, Fault> {
        self.ask("schedule", file)
    }
    fn page(&self, file: &str) -> Result<String, Fault> {
        self.ask("page", file)
    }
    fn own(&self, algorithm: &str) -> Own {
        if crate::run::controllers().contains_key(algorithm) {
            return Own::Known;
        }
        match self.ask("own", algorithm) {
            Ok(true) => Own::Known,
            Ok(false) => Own::Unknown,
            Err(fault) => Own::Refused(fault),
        }
    }
    fn pattern(&self, pattern: &str) -> Result<(), Fault> {
        self.ask::<bool>("pattern", pattern).map(drop)
    }
}

/// The engine's form of a scenario; `host` provides external data.
#[pyfunction]
pub fn scenario_resolve<'py>(
    scenario: &Bound<'py, PyAny>,
    host: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let resolved = Asked::new(host).resolve(&scenario_of(scenario)?)?;
    object_of(host.py(), &resolved.description.value)
}

/// Maps an engine error back to the user's field.
#[pyfunction]
pub fn scenario_translate<'py>(
    scenario: &Bound<'py, PyAny>,
    path: &str,
    value: &str,
    problem: &str,
    fix: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let said = resolve::translate(&scenario_of(scenario)?, [path, value, problem, fix]);
    problem_object(scenario.py(), &said)
}

/// An engine error, unchanged, that refers to the engine's form of a scenario.
#[pyfunction]
pub fn engine_problem<'py>(
    py: Python<'py>,
    path: &str,
    value: &str,
    problem: &str,
    fix: &str,
) -> PyResult<Bound<'py, PyAny>> {
    problem_object(py, &Problem::engine(path, value, problem, fix))
}

/// The general network of a resolved description, as a file would contain it.
#[pyfunction]
pub fn scenario_unresolve<'py>(resolved: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object_of(resolved.py(), &unresolve::unresolve(&node_of(resolved)?).value)
}

/// Converts text or an integer to base units: picoseconds for a "time", bits per second for a "rate", "bytes".
#[pyfunction]
pub fn quantity_read(kind: &str, given: &Bound<'_, PyAny>) -> PyResult<u64> {
    let kind = kind_named(kind)?;
    let node = node_of(given)?;
    let read = node.as_text().map_or_else(|| kind.whole(&node.value), |text| kind.read(text));
    read.map_err(|fault| unit_error(given.py(), &fault))
}

/// Formats base units for people.
#[pyfunction]
pub fn quantity_text(kind: &str, value: u64) -> PyResult<String> {
    Ok(kind_named(kind)?.text(value))
}

fn kind_named(name: &str) -> PyResult<Quantity> {
    Quantity::named(name).ok_or_else(|| PyValueError::new_err(format!("there is no quantity {name}")))
}

/// Parses a queue size: its digits as an integer, the number of decimals, the unit, and its normal form.
#[pyfunction]
pub fn size_read(given: &Bound<'_, PyAny>) -> PyResult<(u128, u32, &'static str, String)> {
    let size = Size::field(&node_of(given)?).map_err(|fault| unit_error(given.py(), &fault))?;
    let unit = match size.counts {
        Counts::Bytes => "bytes",
        Counts::Packets => "packets",
        Counts::Time => "time",
        Counts::Bdp => "bdp",
    };
    Ok((size.amount, size.digits, unit, size.to_string()))
}

/// Bytes of a queue size at a rate (bit/s) and round-trip time (ps).
#[pyfunction]
pub fn size_in_bytes(py: Python<'_>, size: &str, rate: u64, rtt: u64) -> PyResult<u64> {
    let bytes = Size::read(size).map(|size| size.in_bytes(rate, rtt));
    let packets = || fault("a number of packets has no size in bytes", "Give bytes or bdp");
    bytes.and_then(|bytes| bytes.ok_or_else(packets)).map_err(|fault| unit_error(py, &fault))
}

/// Converts a quantity to a plain number in `unit`.
#[pyfunction]
pub fn to_unit(py: Python<'_>, text: &str, unit: &str) -> PyResult<f64> {
    quantity::to_unit(text, unit).map_err(|fault| unit_error(py, &fault))
}

/// The known name most similar to a misspelt one.
#[pyfunction]
pub fn nearest(name: &str, known: Vec<String>) -> Option<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    problem::nearest(name, &known).map(String::from)
}

/// The indices of the links on the shortest route, for a flow without a route; links are given by their ends. Empty if
/// there is no route.
#[pyfunction]
pub fn fewest_hops(links: Vec<(String, String)>, start: &str, end: &str) -> Vec<usize> {
    let numbered = links.iter().enumerate().map(|(number, (from, to))| (number, [&**from, &**to]));
    resolve::fewest_hops(numbered, start, end).unwrap_or_default()
}

/// Bytes that an IP packet occupies on a link with this framing.
#[pyfunction]
pub fn framed_bytes(ip: u32, overhead: i32, mpu: u32, linklayer: &str) -> PyResult<u32> {
    let linklayer = LinkLayer::named(linklayer)
        .ok_or_else(|| PyValueError::new_err(format!("there is no link layer {linklayer}")))?;
    Ok(Framing { overhead, mpu, linklayer }.bytes(ip))
}

/// Every part with its fields, every preset with its options, and the JSON Schema of scenario files.
#[pyfunction]
pub fn schema(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    object_of(py, &document::everything().value)
}
