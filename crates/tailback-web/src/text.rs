//! A scenario as text: read, checked, written, and what a run of it will come to.

use std::collections::HashMap;

use serde_json::{Value, json};
use tailback_core::engine::{Expected, Simulation};
use tailback_core::scenario::{self as engine, ScenarioError};
use tailback_scenario::node::{self, Node};
use tailback_scenario::part::{Form, Kind, Names, Positive, Span, Whole};
use tailback_scenario::problem::{Fault, Problem};
use tailback_scenario::resolve::{self, Nothing, Resolved};
use tailback_scenario::schema::{Instruments, Scenario};
use tailback_scenario::text;

/// Picoseconds between polls that pictures need at the least.
const SHORTEST_INTERVAL: u64 = 1_000_000_000;
/// Polls of a run that is recorded for pictures, about: three a pixel of a wide screen.
const POLLS: u64 = 6_000;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Where, as the file spells it; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub fix: String,
    /// Line and column, from one.
    pub at: Option<(usize, usize)>,
}

impl Said {
    /// As the page reads it.
    pub fn json(&self) -> Value {
        let mut out = json!({ "path": self.path, "message": self.message });
        if !self.fix.is_empty() {
            out["fix"] = json!(self.fix);
        }
        if let Some((line, column)) = self.at {
            out["line"] = json!(line);
            out["column"] = json!(column);
        }
        out
    }
}

/// All that is wrong, as a list that the page reads.
pub fn listed(all: &[Said]) -> Value {
    all.iter().map(Said::json).collect()
}

/// What a text says, before it is the engine's.
pub struct Text {
    /// The scenario.
    pub scenario: Scenario,
    places: HashMap<String, (usize, usize)>,
}

/// A scenario that can be run.
pub struct Ready {
    /// In the engine's form.
    pub engine: engine::Scenario,
    /// As written in normal form.
    pub toml: String,
    /// The same as JSON.
    pub json: Value,
}

impl Text {
    /// The scenario that TOML text holds, or all that is wrong with it.
    pub fn read(toml: &str) -> Result<Text, Vec<Said>> {
        Text::of(node::from_toml(toml), toml, "TOML")
    }

    /// The same of JSON.
    pub fn from_json(json: &str) -> Result<Text, Vec<Said>> {
        Text::of(node::from_json(json), json, "JSON")
    }

    fn of(node: Result<Node, node::SyntaxError>, text: &str, format: &str) -> Result<Text, Vec<Said>> {
        let node = node.map_err(|error| {
            let Fault { problem, fix } = error.fault(format);
            vec![Said { path: String::new(), message: problem, fix, at: error.at }]
        })?;
        let places: HashMap<_, _> = node.places(text).into_iter().collect();
        match resolve::read(&node, &Nothing) {
            Ok(scenario) => Ok(Text { scenario, places }),
            Err(problems) => Err(problems.into_iter().map(|problem| located(problem, &places)).collect()),
        }
    }

    /// Record what pictures show, unless the scenario says what to record of it.
    pub fn record_for_pictures(&mut self) {
        let duration = self.scenario.duration.0.0;
        let wanted = &mut self.scenario.instruments;
        let is_off = |names: &Names| matches!(names, Names::Of(names) if names.is_empty());
        if is_off(&wanted.polls) && is_off(&wanted.queue_polls) && is_off(&wanted.segments) {
            let whole = (duration / POLLS).max(SHORTEST_INTERVAL) / SHORTEST_INTERVAL * SHORTEST_INTERVAL;
            wanted.poll_interval = Positive(Span(whole));
        }
        let drops = is_off(&wanted.queues);
        let Instruments { polls, queue_polls, requests, echoes, .. } = wanted;
        for names in [polls, queue_polls, requests, echoes] {
            if is_off(names) {
                *names = Names::All;
            }
        }
        if drops && is_off(&wanted.drops) {
            wanted.drops = Names::All;
        }
    }

    /// Record the packets of flows over UDP, whose delay nothing else tells, unless packets are recorded already.
    fn record_datagrams(&mut self) -> Result<(), Vec<Said>> {
        let is_off = matches!(&self.scenario.instruments.packets, Names::Of(names) if names.is_empty());
        if is_off {
            let (engine, _) = self.resolve()?;
            let over_udp = engine.flows.iter().filter(|flow| flow.tcp.is_none());
            self.scenario.instruments.packets = Names::Of(over_udp.map(|flow| flow.name.clone()).collect());
        }
        Ok(())
    }

    /// The engine's form.
    fn resolve(&self) -> Result<(engine::Scenario, Resolved), Vec<Said>> {
        let resolved =
            resolve::resolve(&self.scenario, &Nothing).map_err(|problems| self.located(problems))?;
        let form = text::to_json(&resolved.description);
        let engine = serde_json::from_str(&form).map_err(|error| {
            vec![Said { path: String::new(), message: error.to_string(), fix: String::new(), at: None }]
        })?;
        Ok((engine, resolved))
    }

    /// The engine's form with a seed, recording what pictures need if `pictures`.
    pub fn ready(mut self, seed: Option<u64>, pictures: bool) -> Result<Ready, Vec<Said>> {
        if let Some(seed) = seed {
            self.scenario.seed = Whole(seed);
        }
        if pictures {
            self.record_for_pictures();
            self.record_datagrams()?;
        }
        let (engine, _) = self.resolve()?;
        let (json, toml) = self.written();
        Ok(Ready { engine, toml, json })
    }

    /// The normal form, as JSON and as TOML.
    pub fn written(&self) -> (Value, String) {
        let short = self.scenario.write(Form::Short);
        let json = serde_json::from_str(&text::to_json(&short)).expect("what was written reads");
        (json, text::to_toml(&short))
    }

    /// What is wrong that only the engine knows.
    pub fn complaints(&self) -> Vec<Said> {
        self.expected().err().unwrap_or_default()
    }

    /// What a run will come to.
    pub fn expected(&self) -> Result<Expected, Vec<Said>> {
        let (engine, resolved) = self.resolve()?;
        Simulation::build(&engine)
            .and_then(|_| Simulation::expected(&engine))
            .map_err(|error| self.translated(&resolved, &error))
    }

    /// An engine, ready to run.
    pub fn simulation(&self) -> Result<Simulation, Vec<Said>> {
        let (engine, resolved) = self.resolve()?;
        Simulation::build(&engine).map_err(|error| self.translated(&resolved, &error))
    }

    fn translated(&self, resolved: &Resolved, error: &ScenarioError) -> Vec<Said> {
        self.located(vec![resolved.translate(&error.field, &error.value, &error.problem, &error.fix)])
    }

    fn located(&self, problems: Vec<Problem>) -> Vec<Said> {
        problems.into_iter().map(|problem| located(problem, &self.places)).collect()
    }
}

/// A problem with the place of the nearest enclosing path that has one.
fn located(problem: Problem, places: &HashMap<String, (usize, usize)>) -> Said {
    let mut path = problem.field.as_str();
    let mut at = None;
    while !path.is_empty() && at.is_none() {
        at = places.get(path).copied();
        path = &path[..path.rfind(['.', '[']).unwrap_or(0)];
    }
    Said { path: problem.field, message: problem.problem, fix: problem.fix, at }
}

/// All that is wrong with TOML text.
pub fn check(toml: &str) -> Vec<Said> {
    Text::read(toml).map_or_else(|said| said, |text| text.complaints())
}
