//! Errors of a live run.

use std::fmt;
use std::io;

use tailback_core::scenario::ScenarioError;

/// Why a run has no result.
#[derive(Debug)]
pub enum LiveError {
    /// The kernel or this machine cannot do what the scenario asks; nothing was created.
    Refused(ScenarioError),
    /// The run failed after it began; everything it created has been removed.
    Failed(String),
    /// The caller cancelled the run.
    Cancelled,
}

impl LiveError {
    /// Makes a refusal.
    pub fn refuse(
        field: impl Into<String>,
        value: impl fmt::Display,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        LiveError::Refused(ScenarioError {
            field: field.into(),
            value: value.to_string(),
            problem: problem.into(),
            fix: fix.into(),
        })
    }
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveError::Refused(error) => error.fmt(f),
            LiveError::Failed(what) => f.write_str(what),
            LiveError::Cancelled => f.write_str("the run was cancelled"),
        }
    }
}

impl std::error::Error for LiveError {}

impl From<ScenarioError> for LiveError {
    fn from(error: ScenarioError) -> Self {
        LiveError::Refused(error)
    }
}

/// Adds the current operation to a system call's error.
pub trait Doing<T> {
    /// Adds `what`, such as "making a TUN device".
    fn doing(self, what: &str) -> Result<T, LiveError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: &str) -> Result<T, LiveError> {
        self.map_err(|error| LiveError::Failed(format!("{what}: {error}")))
    }
}
