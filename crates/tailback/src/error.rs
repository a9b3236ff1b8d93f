use std::fmt;

use tailback_core::scenario::ScenarioError;

/// What is wrong, all of it as far as it can be judged.
#[derive(Clone, PartialEq)]
pub struct Error {
    problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// Where, as a scenario file spells it: `flow[0].cc`; empty for the whole.
    pub field: String,
    /// What is wrong there.
    pub message: String,
    /// What would be right: a sentence.
    pub fix: String,
    /// Line and column in the text, from 1.
    pub at: Option<(usize, usize)>,
}

impl Error {
    /// What is wrong, in the order of the text.
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

/// As for people: what `main` and `unwrap` print of it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}
