//! The parts from which a network is built, and the errors for a bad scenario.

use super::foreign::Foreign;
use super::network::flow::Flow;
use crate::link::Link;
use crate::link::channel::Channel;
use crate::scenario::ScenarioError;
use crate::time::Time;

/// A network before its first event.
pub struct Parts {
    pub links: Vec<Link>,
    /// Media that some links share.
    pub channels: Vec<Channel>,
    /// How many of `links` the scenario names; the rest hold packets for processing jitter.
    pub named_links: usize,
    pub flows: Vec<Flow>,
    /// Flows of foreign stacks.
    pub foreign: Vec<Foreign>,
    pub end: Time,
    /// Settings that are allowed but probably unintended.
    pub warnings: Vec<String>,
}

pub fn refuse(
    field: impl Into<String>,
    value: impl ToString,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> ScenarioError {
    ScenarioError { field: field.into(), value: value.to_string(), problem: problem.into(), fix: fix.into() }
}
