use std::fmt;

use tailback_core::scenario::ScenarioError;

/// All problems found in the input.
#[derive(Clone, PartialEq)]
pub struct Error {
    problems: Vec<Problem>,
}

/// A problem found in a scenario.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// The field, as spelt in a scenario file: `flow[0].cc`; empty for the scenario as a unit.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it: a sentence.
    pub fix: String,
    /// Line and column in the text, counted from 1.
    pub at: Option<(usize, usize)>,
}

impl Error {
    /// The problems, in the order of the text.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub(crate) fn of(problems: Vec<Problem>) -> Self {
        Error { problems }
    }

    pub(crate) fn one(field: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Error::of(vec![Problem { field: field.into(), message: message.into(), fix: fix.into(), at: None }])
    }

    pub(crate) fn engine(error: ScenarioError) -> Self {
        Error::one(&error.field, error.problem, error.fix)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.at {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}. {}", self.message, self.fix)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The same text as `Display`, because `main` and `unwrap` print `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}
