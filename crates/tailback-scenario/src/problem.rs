//! What is wrong with a description: where, what was found, what is wrong, what would be right.

use std::fmt;

use crate::node::{Node, Value};

/// What is wrong with one value and what would be right, before anybody says where.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub fix: String,
}

/// A [`Fault`] of these words.
pub fn fault(problem: impl Into<String>, fix: impl Into<String>) -> Fault {
    Fault { problem: problem.into(), fix: fix.into() }
}

/// One thing that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Where, as the scenario file spells it: `flow[0].cc`; empty for the scenario as a whole.
    pub field: String,
    /// What was found there: a single value, or nothing.
    pub value: Option<Value>,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right: a sentence.
    pub fix: String,
}

impl Problem {
    /// A fault at a place, with what stands there.
    pub fn new(field: impl Into<String>, value: Option<&Node>, fault: Fault) -> Self {
        let value = value.map(|node| node.value.clone()).filter(Value::is_single);
        let fix = format!("{}.", fault.fix.trim_end_matches('.'));
        Problem { field: field.into(), value, problem: fault.problem, fix }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.field.is_empty() { "scenario" } else { &self.field };
        let value = self.value.as_ref().map_or(String::new(), |value| format!(" = {}", value.text()));
        write!(f, "{place}{value}: {}. {}", self.problem, self.fix)
    }
}

/// The known name that `name` was probably meant to be: the one with the most in common (Ratcliff and Obershelp 1988),
/// if that is half of both.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-").chars().collect::<Vec<char>>();
    let wanted = plain(name);
    let score = |candidate: &str| {
        let candidate = plain(candidate);
        let letters = (candidate.len() + wanted.len()) as f64;
        if letters == 0.0 { 1.0 } else { 2.0 * common(&candidate, &wanted) as f64 / letters }
    };
    let mut best: Option<(f64, Vec<char>, &str)> = None;
    for candidate in known {
        let rank = (score(candidate), plain(candidate), *candidate);
        let is_better = best.as_ref().is_none_or(|best| (rank.0, &rank.1) >= (best.0, &best.1));
        if rank.0 >= 0.5 && is_better {
            best = Some(rank);
        }
    }
    best.map(|(_, _, name)| name)
}

/// Letters in the longest common block and, left and right of it, in the next ones.
fn common(a: &[char], b: &[char]) -> usize {
    let (mut start_a, mut start_b, mut longest) = (0, 0, 0);
    let mut ends = vec![0; b.len() + 1];
    for (i, letter) in a.iter().enumerate() {
        for j in (0..b.len()).rev() {
            ends[j + 1] = if *letter == b[j] { ends[j] + 1 } else { 0 };
        }
        for (j, length) in ends.iter().enumerate() {
            if *length > longest {
                (start_a, start_b, longest) = (i + 1 - length, j - length, *length);
            }
        }
    }
    if longest == 0 {
        return 0;
    }
    longest + common(&a[..start_a], &b[..start_b]) + common(&a[start_a + longest..], &b[start_b + longest..])
}

/// `Did you mean "cubic"? `, or nothing.
pub fn hint(name: &str, known: &[&str]) -> String {
    nearest(name, known).map_or(String::new(), |close| format!("Did you mean \"{close}\"? "))
}

/// What there is instead of an unknown name.
pub fn choices(name: &str, known: &[&str]) -> String {
    let shown = &known[..known.len().min(40)];
    if known.is_empty() {
        return "There are none".into();
    }
    format!("{}There are: {}", hint(name, known), shown.join(", "))
}
