//! A scenario as text: reading, checking, writing, and estimating its run.

use std::collections::HashMap;

use serde_json::{Value, json};
use tailback_core::engine::Simulation;
use tailback_core::scenario::{self as engine, ScenarioError};
use tailback_scenario::node::{self, Node};
use tailback_scenario::part::{Form, Kind, Names, Positive, Span, Whole};
use tailback_scenario::problem::{Fault, Problem};
use tailback_scenario::resolve::{self, Nothing, Resolved};
use tailback_scenario::schema::{Flow, Instruments, Scenario};
use tailback_scenario::text;

/// Shortest poll interval for pictures, in picoseconds.
const SHORTEST_INTERVAL: u64 = 1_000_000_000;
/// Approximate number of polls in a run for pictures: three per pixel of a wide screen.
const POLLS: u64 = 6_000;

/// Number of flows that a browser tab can set up in a fraction of a second.
const MOST_FLOWS: u64 = 20_000;

/// A problem in a text, with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The field as spelt in a scenario file; empty for the scenario as a unit.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub fix: String,
    /// Line and column, counted from one.
    pub at: Option<(usize, usize)>,
}

impl Said {
    /// As JSON for the page.
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

/// All problems as a JSON list for the page.
pub fn listed(all: &[Said]) -> Value {
    all.iter().map(Said::json).collect()
}

/// A parsed scenario, before its conversion to the engine's form.
pub struct Text {
    /// The scenario.
    pub scenario: Scenario,
    places: HashMap<String, (usize, usize)>,
}

/// A scenario ready to run.
pub struct Ready {
    /// In the engine's form.
    pub engine: engine::Scenario,
    /// As TOML in normal form.
    pub toml: String,
    /// As JSON in normal form.
    pub json: Value,
}

impl Text {
    /// Parses TOML text; returns the scenario or all problems.
    pub fn read(toml: &str) -> Result<Text, Vec<Said>> {
        Text::of(node::from_toml(toml), toml, "TOML")
    }

    /// Parses JSON text; returns the scenario or all problems.
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
            Ok(scenario) => {
                let text = Text { scenario, places };
                text.demand_few_flows()?;
                Ok(text)
            }
            Err(problems) => Err(problems.into_iter().map(|problem| located(problem, &places)).collect()),
        }
    }

    /// Limits the number of flows: they are set up before the first event, and the tab is blocked meanwhile.
    fn demand_few_flows(&self) -> Result<(), Vec<Said>> {
        let count = |flow: &Flow| flow.count.as_ref().map_or(1, |count| count.0);
        let flows: u64 = self.scenario.flow.iter().map(count).sum();
        if flows <= MOST_FLOWS {
            return Ok(());
        }
        let most =
            (0..self.scenario.flow.len()).max_by_key(|at| count(&self.scenario.flow[*at])).unwrap_or(0);
        let path = format!("flow[{most}].count");
        let message = format!("{flows} flows are more than the {MOST_FLOWS} that a tab can lay out");
        let fix = "Write a smaller count, or run the scenario outside the browser: tailback run".into();
        let at = self.places.get(&path).copied();
        Err(vec![Said { path, message, fix, at }])
    }

    /// Records only what pictures show, in the period that the scenario names. The choice of recorded rows does not
    /// affect any packet.
    fn record_for_pictures(&mut self) {
        let duration = self.scenario.duration.0.0;
        let given = std::mem::replace(&mut self.scenario.instruments, Instruments::off());
        self.scenario.expect = None;
        let wanted = &mut self.scenario.instruments;
        (wanted.from, wanted.until) = (given.from, given.until);
        let whole = (duration / POLLS).max(SHORTEST_INTERVAL) / SHORTEST_INTERVAL * SHORTEST_INTERVAL;
        wanted.poll_interval = Positive(Span(whole));
        let Instruments { polls, queue_polls, requests, echoes, drops, .. } = wanted;
        for names in [polls, queue_polls, requests, echoes, drops] {
            *names = Names::All;
        }
    }

    /// Whether the scenario itself records or expects something. Pictures ignore that, but problems with it are still
    /// reported.
    fn says_what_to_record(&self) -> bool {
        self.scenario.instruments != Instruments::off() || self.scenario.expect.is_some()
    }

    /// Converts to the engine's form.
    fn resolve(&self) -> Result<(engine::Scenario, Resolved), Vec<Said>> {
        let resolved =
            resolve::resolve(&self.scenario, &Nothing).map_err(|problems| self.located(problems))?;
        let form = text::to_json(&resolved.description);
        let engine = serde_json::from_str(&form).map_err(|error| {
            vec![Said { path: String::new(), message: error.to_string(), fix: String::new(), at: None }]
        })?;
        Ok((engine, resolved))
    }

    /// The engine's form with a seed; with `pictures`, records only what pictures need.
    pub fn ready(mut self, seed: Option<u64>, pictures: bool) -> Result<Ready, Vec<Said>> {
        if let Some(seed) = seed {
            self.scenario.seed = Whole(seed);
        }
        if pictures {
            if self.says_what_to_record() {
                self.complaints()?;
            }
            self.record_for_pictures();
        }
        let (mut engine, _) = self.resolve()?;
        if pictures {
            // For flows over UDP, only packet rows show the delay.
            let over_udp = engine.flows.iter().filter(|flow| flow.tcp.is_none());
            engine.instruments.packets = over_udp.map(|flow| flow.name.clone()).collect();
            self.scenario.instruments.packets = Names::Of(engine.instruments.packets.clone());
        }
        let (json, toml) = self.written();
        Ok(Ready { engine, toml, json })
    }

    /// The normal form as JSON and as TOML.
    pub fn written(&self) -> (Value, String) {
        let short = self.scenario.write(Form::Short);
        let json = serde_json::from_str(&text::to_json(&short)).expect("what was written reads");
        (json, text::to_toml(&short))
    }

    /// Problems that only the engine detects.
    pub fn complaints(&self) -> Result<(), Vec<Said>> {
        let (engine, resolved) = self.resolve()?;
        let built = Simulation::build(&engine);
        built.map(drop).map_err(|error| self.translated(&resolved, &error))
    }

    fn translated(&self, resolved: &Resolved, error: &ScenarioError) -> Vec<Said> {
        self.located(vec![resolved.translate(&error.field, &error.value, &error.problem, &error.fix)])
    }

    fn located(&self, problems: Vec<Problem>) -> Vec<Said> {
        problems.into_iter().map(|problem| located(problem, &self.places)).collect()
    }
}

/// A problem with the position of the nearest enclosing path that has one.
fn located(problem: Problem, places: &HashMap<String, (usize, usize)>) -> Said {
    let mut path = problem.field.as_str();
    let mut at = None;
    while !path.is_empty() && at.is_none() {
        at = places.get(path).copied();
        path = &path[..path.rfind(['.', '[']).unwrap_or(0)];
    }
    Said { path: problem.field, message: problem.problem, fix: problem.fix, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "
duration = \"9s\"
[dumbbell]
rate = \"10mbit\"
rtt = \"40ms\"
[[flow]]
name = \"downloads\"
count = 2
[[flow]]
app = \"voip\"
[[flow]]
app = \"ping\"
";
    const RECORDS: &str = "
[instruments]
segments = \"all\"
from = \"2s\"
until = \"3s\"
[expect]
conditions = [\"downloads-1.goodput_mbps > 1\"]
";

    #[test]
    fn more_flows_than_a_tab_lays_out_are_refused_at_once_with_their_place() {
        let flow = |count: u64| format!("[[flow]]\nname = \"f{count}\"\ncount = {count}\n");
        let path = "duration = \"1s\"\n[dumbbell]\nrate = \"10mbit\"\nrtt = \"40ms\"\n";
        let text = format!("{path}{}{}{}", flow(5), flow(10_000), flow(9_999));
        let said = Text::read(&text).err().expect("too many");
        assert_eq!((said.len(), said[0].path.as_str(), said[0].at), (1, "flow[1].count", Some((10, 9))));
        assert!(
            said[0].message.contains("20004 flows") && said[0].message.contains("20000"),
            "{}",
            said[0].message
        );
        assert!(Text::read(&format!("{path}{}", flow(10_000))).is_ok());
        assert!(Text::read(&format!("{path}{}", flow(1_000_000_000))).is_err());
    }

    #[test]
    fn a_picture_differs_only_in_what_is_recorded_and_what_is_written_down_of_it_runs_the_same() {
        for text in [SCENARIO.to_string(), format!("{SCENARIO}{RECORDS}")] {
            let picture = Text::read(&text).and_then(|text| text.ready(Some(7), true)).unwrap();
            let again = Text::read(&picture.toml).and_then(|text| text.ready(None, false)).unwrap();
            assert_eq!(picture.engine, again.engine);
            let written = Text::read(&text).and_then(|text| text.ready(Some(7), false)).unwrap();
            let instruments = picture.engine.instruments.clone();
            assert_eq!(picture.engine, engine::Scenario { instruments, ..written.engine });
        }
    }

    #[test]
    fn a_picture_records_what_it_needs_in_the_stretch_of_time_that_is_asked_for() {
        let recorded = |more: &str| {
            let text = format!("{SCENARIO}{more}");
            Text::read(&text).and_then(|text| text.ready(None, true)).unwrap().engine.instruments
        };
        let found = recorded(RECORDS);
        assert_eq!(found.segments, Vec::<String>::new());
        assert_eq!(found.packets, ["voip", "ping"]);
        assert_eq!(found.polls, ["downloads-1", "downloads-2"]);
        assert_eq!((found.from_ps, found.until_ps), (2_000_000_000_000, Some(3_000_000_000_000)));
        assert_eq!((recorded("").from_ps, recorded("").until_ps), (0, None));
    }

    #[test]
    fn what_is_wrong_with_what_a_picture_leaves_out_is_said() {
        let wrong = format!("{SCENARIO}[instruments]\nsegments = [\"missing\"]\n");
        let said = Text::read(&wrong).and_then(|text| text.ready(None, true)).err().unwrap();
        assert_eq!(said[0].path, "instruments.segments[0]");
        assert!(said[0].at.is_some());
    }
}
