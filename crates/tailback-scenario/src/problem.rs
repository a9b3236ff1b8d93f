//! Errors in a description: the path, the value found, the problem, and the fix.

use std::fmt;

pub use tailback_core::params::nearest;

use crate::node::{Node, Value, literal};

/// A problem with a value and its fix, without the path.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What is wrong.
    pub problem: String,
    /// The fix.
    pub fix: String,
}

/// Builds a [`Fault`].
pub fn fault(problem: impl Into<String>, fix: impl Into<String>) -> Fault {
    Fault { problem: problem.into(), fix: fix.into() }
}

/// An error in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Path, as in the scenario file: `flow[0].cc`; empty for the scenario as a whole.
    pub field: String,
    /// The value found: a single value, or `None`.
    pub value: Option<Value>,
    /// What is wrong with it.
    pub problem: String,
    /// The fix, as a sentence.
    pub fix: String,
}

impl Problem {
    /// A fault at a path, with the value found there.
    pub fn new(field: impl Into<String>, value: Option<&Node>, fault: Fault) -> Self {
        let value = value.map(|node| node.value.clone()).filter(Value::is_single);
        let end = if fault.fix.ends_with(['.', '?']) { "" } else { "." };
        let fix = format!("{}{end}", fault.fix);
        Problem { field: field.into(), value, problem: fault.problem, fix }
    }
}

impl Problem {
    /// An engine error, unchanged: its path is in the engine's form of the scenario.
    pub fn engine(path: &str, value: &str, problem: &str, fix: &str) -> Self {
        Problem::new(path, Some(&literal(value)), fault(problem, fix))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.field.is_empty() { "scenario" } else { &self.field };
        let value = self.value.as_ref().map_or(String::new(), |value| format!(" = {}", value.text()));
        write!(f, "{place}{value}: {}. {}", self.problem, self.fix)
    }
}

/// `Did you mean "cubic"? `, or an empty text.
pub fn hint(name: &str, known: &[&str]) -> String {
    nearest(name, known).map_or(String::new(), |close| format!("Did you mean \"{close}\"? "))
}

/// Lists the valid choices for an unknown name.
pub fn choices(name: &str, known: &[&str]) -> String {
    let shown = &known[..known.len().min(40)];
    if known.is_empty() {
        return "There are none".into();
    }
    // Of a flow with `count` there are NAME-1, NAME-2 and so on.
    let hint = match known.contains(&format!("{name}-1").as_str()) {
        true => format!("count makes several of {name}: name each. "),
        false => hint(name, known),
    };
    format!("{hint}There are: {}", shown.join(", "))
}
