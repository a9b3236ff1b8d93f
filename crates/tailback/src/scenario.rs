use std::collections::HashMap;
use std::sync::Arc;

use tailback_core::cc::external::Makers;
use tailback_core::engine::Simulation;
use tailback_core::foreign::Stacks;
use tailback_core::scenario as engine;
use tailback_scenario::node::{self, Node};
use tailback_scenario::part::{Form, Kind as _};
use tailback_scenario::problem::Problem as Found;
use tailback_scenario::resolve::{self, Nothing};
use tailback_scenario::schema::Expect;
use tailback_scenario::text;

use crate::error::{Error, Problem};

/// A checked scenario that can be run: a path with queues, flows, a duration and a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub(crate) engine: engine::Scenario,
    pub(crate) expect: Option<Expect>,
    pub(crate) hosted: Hosted,
    toml: String,
}

/// The stacks that a scenario's flows may use. Two sets are equal if they hold the same objects under the same names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosted(pub Stacks);

impl PartialEq for Hosted {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().all(|(name, stack)| other.0.get(name).is_some_and(|it| Arc::ptr_eq(it, stack)))
    }
}

impl Scenario {
    /// Parses the text of a scenario file. Files that it refers to cannot be read here: pass traces and schedules as
    /// lists.
    pub fn from_toml(toml: &str) -> Result<Scenario, Error> {
        Scenario::hosting(toml, &Stacks::new())
    }

    /// Like [`Scenario::from_toml`], with third-party stacks for a flow's `transport`; the crate `tailback-bench`
    /// provides such stacks.
    pub fn hosting(toml: &str, stacks: &Stacks) -> Result<Scenario, Error> {
        let node = node::from_toml(toml).map_err(|error| {
            let fault = error.fault("TOML");
            let (message, fix) = (fault.problem, fault.fix);
            Error::of(vec![Problem { field: String::new(), message, fix, at: error.at }])
        })?;
        Scenario::of(&node, &node.places(toml).into_iter().collect(), stacks)
    }

    /// Begins a scenario with one bottleneck: its rate (`"10mbit"`), the round-trip time with empty queues (`"40ms"`),
    /// and the duration (`"10s"`).
    pub fn dumbbell(rate: &str, rtt: &str, duration: &str) -> Builder {
        Builder::default().set("duration", duration).set("dumbbell.rate", rate).set("dumbbell.rtt", rtt)
    }

    /// The same scenario with another seed.
    pub fn with_seed(&self, seed: u64) -> Scenario {
        let mut node = node::from_toml(&self.toml).expect("what was written reads");
        put(&mut node, &["seed"], seed.into());
        Scenario::of(&node, &HashMap::new(), &self.hosted.0).expect("a seed changes nothing that is checked")
    }

    /// The same scenario with a transport from `stacks` and one of its congestion controls for the subject: every flow
    /// called `subject` or `subject-…`, as in a suite. Returns an error if there is no such flow.
    pub fn with_subject(&self, transport: &str, cc: &str, stacks: &Stacks) -> Result<Scenario, Error> {
        let mut node = node::from_toml(&self.toml).expect("what was written reads");
        let mut subjects: Vec<&mut Node> =
            flows(&mut node).iter_mut().filter(|flow| is_subject(flow)).collect();
        for flow in &mut subjects {
            let node::Value::Table(rows) = &mut flow.value else { continue };
            rows.retain(|(field, _)| field != "stack" && field != "receiver_stack");
            put(flow, &["transport"], transport.into());
            put(flow, &["cc"], cc.into());
        }
        if subjects.is_empty() {
            let fix = "Call the flow that is judged \"subject\".";
            return Err(Error::one("flow", "there is no flow called subject", fix));
        }
        Scenario::of(&node, &HashMap::new(), stacks)
    }

    /// The same scenario, judged with exactly this many seeds, at least two; without `[expect]` nothing changes.
    pub fn with_seeds(&self, seeds: u64) -> Scenario {
        let mut out = self.clone();
        if let Some(expect) = &mut out.expect {
            (expect.least.0, expect.most.0) = (seeds, seeds);
        }
        out
    }

    /// The scenario as a TOML file in normal form.
    pub fn to_toml(&self) -> &str {
        &self.toml
    }

    /// The seed of its random draws.
    pub fn seed(&self) -> u64 {
        self.engine.seed
    }

    /// Duration in simulated seconds.
    pub fn duration_s(&self) -> f64 {
        self.engine.duration_ps as f64 / 1e12
    }

    fn of(node: &Node, places: &HashMap<String, (usize, usize)>, stacks: &Stacks) -> Result<Scenario, Error> {
        let located = |found: Vec<Found>| {
            Error::of(found.into_iter().map(|problem| located(problem, places)).collect())
        };
        let scenario = resolve::read(node, &Nothing).map_err(located)?;
        let resolved = resolve::resolve(&scenario, &Nothing).map_err(located)?;
        let engine: engine::Scenario = serde_json::from_str(&text::to_json(&resolved.description))
            .expect("the engine reads what is resolved for it");
        if let Err(error) = Simulation::build_hosting(&engine, &Makers::new(), stacks) {
            let problem = resolved.translate(&error.field, &error.value, &error.problem, &error.fix);
            return Err(located(vec![problem]));
        }
        let toml = text::to_toml(&scenario.write(Form::Short));
        Ok(Scenario { engine, toml, expect: scenario.expect, hosted: Hosted(stacks.clone()) })
    }
}

/// A problem with the position of the nearest enclosing field that has one.
fn located(problem: Found, places: &HashMap<String, (usize, usize)>) -> Problem {
    let mut path = problem.field.as_str();
    let mut at = None;
    while !path.is_empty() && at.is_none() {
        at = places.get(path).copied();
        path = &path[..path.rfind(['.', '[']).unwrap_or(0)];
    }
    Problem { field: problem.field, message: problem.problem, fix: problem.fix, at }
}

/// The value of a scenario field: text (`"40ms"`), a number, a boolean, or a list of these.
#[derive(Clone, Debug, PartialEq)]
pub struct Value(node::Value);

macro_rules! from {
    ($($kind:ty),+) => {
        $(impl From<$kind> for Value {
            fn from(it: $kind) -> Self {
                Value(it.into())
            }
        })+
    };
}
from!(&str, String, u64, f64, bool);

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Value(items.into_iter().map(|item| Node::from(item.into().0)).collect::<Vec<Node>>().into())
    }
}

/// A scenario under construction; [`Builder::build`] checks it.
#[derive(Clone, Debug)]
pub struct Builder {
    fields: Node,
    flows: Vec<Node>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { fields: Node::table(Vec::new()), flows: Vec::new() }
    }
}

impl Builder {
    /// Sets any field outside the flows, by its path in a scenario file: `set("dumbbell.queue", "codel")`.
    pub fn set(mut self, field: &str, value: impl Into<Value>) -> Builder {
        put(&mut self.fields, &field.split('.').collect::<Vec<_>>(), value.into().0);
        self
    }

    /// Adds a flow with this name; fields are as in `[[flow]]`: `("cc", "cubic")`, `("bytes", "1MB")`, `("start",
    /// "2s")`.
    pub fn flow<V: Into<Value> + Clone>(mut self, name: &str, fields: &[(&str, V)]) -> Builder {
        let mut flow = Node::table(vec![("name".into(), name.into())]);
        for (field, value) in fields {
            put(&mut flow, &field.split('.').collect::<Vec<_>>(), value.clone().into().0);
        }
        self.flows.push(flow);
        self
    }

    /// The checked scenario, or all problems with it.
    pub fn build(self) -> Result<Scenario, Error> {
        let mut node = self.fields;
        if !self.flows.is_empty() {
            put(&mut node, &["flow"], self.flows.into());
        }
        Scenario::of(&node, &HashMap::new(), &Stacks::new())
    }
}

/// The flows of an unparsed scenario.
fn flows(node: &mut Node) -> &mut [Node] {
    let node::Value::Table(rows) = &mut node.value else { return &mut [] };
    match rows.iter_mut().find(|(key, _)| key == "flow") {
        Some((_, Node { value: node::Value::List(flows), .. })) => flows,
        _ => &mut [],
    }
}

/// Whether a suite's candidate replaces this flow.
fn is_subject(flow: &Node) -> bool {
    let name = flow.get("name").and_then(Node::as_text).unwrap_or_default();
    name == "subject" || name.starts_with("subject-")
}

/// Sets the value at a path of tables, and creates missing tables. A text on the way is the short form of a table, as in
/// Python's `Scenario.with_`: a queue's limit or discipline, else a name.
fn put(node: &mut Node, path: &[&str], value: node::Value) {
    let [key, rest @ ..] = path else { return node.value = value };
    if !matches!(node.value, node::Value::Table(_)) {
        node.value = node::Value::Table(Vec::new());
    }
    let node::Value::Table(rows) = &mut node.value else { unreachable!("it was made a table") };
    let at = rows.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
        rows.push(((*key).into(), node::Value::Null.into()));
        rows.len() - 1
    });
    let below = &mut rows[at].1;
    if let (node::Value::Text(short), [_, ..]) = (&below.value, rest) {
        let is_queue = key.ends_with("queue") || *key == "inner";
        let number = short.trim_start_matches([' ', '+', '-', '.']);
        let field = match () {
            () if *key == "netem_jitter" => "jitter",
            () if !is_queue => "name",
            () if number.starts_with(|first: char| first.is_ascii_digit()) => "limit",
            () => "discipline",
        };
        below.value = node::Value::Table(vec![(field.into(), below.value.clone().into())]);
    }
    put(below, rest, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_below_a_short_form_keeps_what_that_said() {
        let path = || Scenario::dumbbell("10mbit", "40ms", "1s").flow("a", &[("cc", "cubic")]);
        for (short, field, value, long) in [
            ("codel", "limit", "90packets", [("limit", "90packets"), ("discipline", "codel")]),
            ("2bdp", "discipline", "codel", [("limit", "2bdp"), ("discipline", "codel")]),
        ] {
            let set = path().set("dumbbell.queue", short).set(&format!("dumbbell.queue.{field}"), value);
            let written =
                long.iter().fold(path(), |it, (key, value)| it.set(&format!("dumbbell.queue.{key}"), *value));
            assert_eq!(set.build().expect("valid"), written.build().expect("valid"));
        }
    }
}
