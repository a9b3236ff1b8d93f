use std::collections::HashMap;

use tailback_core::engine::Simulation;
use tailback_core::scenario as engine;
use tailback_scenario::node::{self, Node};
use tailback_scenario::part::{Form, Kind as _};
use tailback_scenario::problem::Problem as Found;
use tailback_scenario::resolve::{self, Nothing};
use tailback_scenario::schema::Expect;
use tailback_scenario::text;

use crate::error::{Error, Problem};

/// A path, its queues, its flows, a duration and a seed, checked: it can be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub(crate) engine: engine::Scenario,
    pub(crate) expect: Option<Expect>,
    toml: String,
}

impl Scenario {
    /// Read a scenario file's text. Files that it names cannot be read here: give traces and schedules as lists.
    pub fn from_toml(toml: &str) -> Result<Scenario, Error> {
        let node = node::from_toml(toml).map_err(|error| {
            let fault = error.fault("TOML");
            let (message, fix) = (fault.problem, fault.fix);
            Error::of(vec![Problem { field: String::new(), message, fix, at: error.at }])
        })?;
        Scenario::of(&node, &node.places(toml).into_iter().collect())
    }

    /// Begin a scenario of one bottleneck: its rate (`"10mbit"`), the round-trip time without queues (`"40ms"`), and how
    /// long it runs (`"10s"`).
    pub fn dumbbell(rate: &str, rtt: &str, duration: &str) -> Builder {
        Builder::default().set("duration", duration).set("dumbbell.rate", rate).set("dumbbell.rtt", rtt)
    }

    /// The same scenario with another seed.
    pub fn with_seed(&self, seed: u64) -> Scenario {
        let mut node = node::from_toml(&self.toml).expect("what was written reads");
        put(&mut node, &["seed"], seed.into());
        Scenario::of(&node, &HashMap::new()).expect("a seed changes nothing that is checked")
    }

    /// The scenario as a file holds it, in normal form.
    pub fn to_toml(&self) -> &str {
        &self.toml
    }

    /// The seed of its random draws.
    pub fn seed(&self) -> u64 {
        self.engine.seed
    }

    /// How long it runs, in simulated seconds.
    pub fn duration_s(&self) -> f64 {
        self.engine.duration_ps as f64 / 1e12
    }

    fn of(node: &Node, places: &HashMap<String, (usize, usize)>) -> Result<Scenario, Error> {
        let located = |found: Vec<Found>| {
            Error::of(found.into_iter().map(|problem| located(problem, places)).collect())
        };
        let scenario = resolve::read(node, &Nothing).map_err(located)?;
        let resolved = resolve::resolve(&scenario, &Nothing).map_err(located)?;
        let engine: engine::Scenario = serde_json::from_str(&text::to_json(&resolved.description))
            .expect("the engine reads what is resolved for it");
        if let Err(error) = Simulation::build(&engine) {
            let problem = resolved.translate(&error.field, &error.value, &error.problem, &error.fix);
            return Err(located(vec![problem]));
        }
        Ok(Scenario { engine, toml: text::to_toml(&scenario.write(Form::Short)), expect: scenario.expect })
    }
}

/// A problem with the place of the nearest enclosing field that has one.
fn located(problem: Found, places: &HashMap<String, (usize, usize)>) -> Problem {
    let mut path = problem.field.as_str();
    let mut at = None;
    while !path.is_empty() && at.is_none() {
        at = places.get(path).copied();
        path = &path[..path.rfind(['.', '[']).unwrap_or(0)];
    }
    Problem { field: problem.field, message: problem.problem, fix: problem.fix, at }
}

/// What a field of a scenario holds: text (`"40ms"`), a number, a switch, or a list of them.
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

/// A scenario that is being written; [`Builder::build`] checks all of it.
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
    /// Set any field outside the flows by its place in a scenario file: `set("dumbbell.queue", "codel")`.
    pub fn set(mut self, field: &str, value: impl Into<Value>) -> Builder {
        put(&mut self.fields, &field.split('.').collect::<Vec<_>>(), value.into().0);
        self
    }

    /// Add a flow of this name; a field is as in `[[flow]]`: `("cc", "cubic")`, `("bytes", "1MB")`, `("start", "2s")`.
    pub fn flow<V: Into<Value> + Clone>(mut self, name: &str, fields: &[(&str, V)]) -> Builder {
        let mut flow = Node::table(vec![("name".into(), name.into())]);
        for (field, value) in fields {
            put(&mut flow, &field.split('.').collect::<Vec<_>>(), value.clone().into().0);
        }
        self.flows.push(flow);
        self
    }

    /// The scenario, or all that is wrong with it.
    pub fn build(self) -> Result<Scenario, Error> {
        let mut node = self.fields;
        if !self.flows.is_empty() {
            put(&mut node, &["flow"], self.flows.into());
        }
        Scenario::of(&node, &HashMap::new())
    }
}

/// Set what stands at a path of tables, and make tables that are not there.
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
    put(&mut rows[at].1, rest, value);
}
