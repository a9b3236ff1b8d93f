//! Converts a scenario to the engine's form, and maps the engine's errors back to the scenario.

mod flows;
mod graph;
mod instruments;
mod links;

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;

use tailback_core::params::{Card, Kind, ParamSpec, Spelling};
use tailback_core::traffic::{self, Application, Rows, Transport};

use crate::csv;
use crate::har;
use crate::instead;
use crate::node::{Node, Value, literal};
use crate::part::{Form, Kind as _, Name, Params, Reader};
use crate::presets;
use crate::problem::{Fault, Problem, choices, fault};
use crate::quantity::{Quantity, begins_with_number, from_unit, to_unit};
use crate::schema::{Flow, Scenario};
use crate::table;

pub use graph::fewest_hops;
use graph::{Graph, hops_of};

/// Version of the engine's form.
const FORMAT: u64 = 1;

/// Access to things outside a description that it may name.
pub trait Host {
    /// Reads a trace file: times in milliseconds.
    fn trace(&self, file: &str) -> Result<Vec<u64>, Fault>;
    /// Reads a file of changes over time.
    fn schedule(&self, file: &str) -> Result<String, Fault>;
    /// Reads a HAR file.
    fn page(&self, file: &str) -> Result<String, Fault>;
    /// Whether an algorithm is external to the engine.
    fn own(&self, algorithm: &str) -> Own;
    /// Checks a pattern for a program's output; an error if it cannot find anything.
    fn pattern(&self, pattern: &str) -> Result<(), Fault>;
}

/// A host's answer about an algorithm's name.
#[derive(Clone, Debug, PartialEq)]
pub enum Own {
    /// Unknown to the host: the engine must know it.
    Unknown,
    /// The host provides it.
    Known,
    /// The host provides it, but it is unusable.
    Refused(Fault),
}

/// A host that accepts every name, for checking only the form of a description.
struct Anything;

impl Host for Anything {
    fn trace(&self, _: &str) -> Result<Vec<u64>, Fault> {
        Ok(Vec::new())
    }
    fn schedule(&self, _: &str) -> Result<String, Fault> {
        Ok(csv::SMALLEST.into())
    }
    fn page(&self, _: &str) -> Result<String, Fault> {
        Ok(har::SMALLEST.into())
    }
    fn own(&self, _: &str) -> Own {
        Own::Known
    }
    fn pattern(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

/// Maps an engine error (path, value, problem, fix) back to the user's field.
pub fn translate(scenario: &Scenario, [path, value, problem, fix]: [&str; 4]) -> Problem {
    match resolve(scenario, &Anything) {
        Ok(resolved) => resolved.translate(path, value, problem, fix),
        Err(_) => Problem::engine(path, value, problem, fix),
    }
}

/// A host that provides nothing.
pub struct Nothing;

impl Host for Nothing {
    fn trace(&self, _: &str) -> Result<Vec<u64>, Fault> {
        Err(fault("files cannot be read here", "Give the instants as a list"))
    }
    fn schedule(&self, _: &str) -> Result<String, Fault> {
        Err(fault("files cannot be read here", "Give the steps as a list"))
    }
    fn page(&self, _: &str) -> Result<String, Fault> {
        Err(fault("files cannot be read here", "Give the objects"))
    }
    fn own(&self, _: &str) -> Own {
        Own::Unknown
    }
    fn pattern(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

/// A scenario in the engine's form.
pub struct Resolved {
    /// The description itself, as stored with a result.
    pub description: Node,
    /// Path in the scenario for each path in the engine's form.
    places: BTreeMap<String, String>,
    /// The scenario as written in a file.
    written: Node,
}

impl Resolved {
    /// Maps an engine error about `path` back to the user's field.
    pub fn translate(&self, path: &str, value: &str, problem: &str, fix: &str) -> Problem {
        let (mut head, mut rest) = (path, "");
        while !head.is_empty() && !self.places.contains_key(head) {
            let cut = head.rfind(['.', '[']).unwrap_or(0);
            (head, rest) = (&head[..cut], &path[cut..]);
        }
        let mut place = match self.places.get(head) {
            Some(place) if !head.is_empty() => format!("{place}{rest}"),
            _ => path.into(),
        };
        for unit in ["_ps", "_bps"] {
            place = place.strip_suffix(unit).unwrap_or(&place).into();
        }
        let place = place.trim_start_matches('.');
        let parent = &place[..place.rfind('.').unwrap_or(0)];
        // `queue = "1bdp"` contains no limit_bytes.
        let is_short = self.written.look_up(place).is_none()
            && self.written.look_up(parent).is_some_and(|node| node.as_text().is_some());
        let place = if is_short { parent } else { place };
        let given = literal(value);
        Problem::new(place, Some(self.written.look_up(place).unwrap_or(&given)), fault(problem, fix))
    }
}

/// Reads the scenario of a description, or returns all errors that can be judged.
pub fn read(node: &Node, host: &dyn Host) -> Result<Scenario, Vec<Problem>> {
    let mut reader = Reader::default();
    let scenario = Scenario::read(node, &mut reader);
    if reader.problems.is_empty() {
        return Ok(scenario.expect("what has no problem reads"));
    }
    let more = scenario.and_then(|scenario| resolve(&scenario, host).err()).unwrap_or_default();
    let more: Vec<Problem> = more.into_iter().filter(|problem| !reader.is_guessed(&problem.field)).collect();
    Err([reader.problems, more].concat())
}

/// Converts a scenario to the engine's form, or returns all errors.
pub fn resolve(scenario: &Scenario, host: &dyn Host) -> Result<Resolved, Vec<Problem>> {
    check_count(scenario)?;
    let (expanded, refused) = expand(scenario)?;
    let written = expanded.write(Form::Short);
    let listed = Listed::new(&expanded);
    let mut resolver = Resolver::new(&listed, written, host);
    let description = resolver.describe();
    if refused.is_empty() && resolver.problems.is_empty() {
        return Ok(Resolved { description, places: resolver.places, written: resolver.written });
    }
    // A dumbbell's queue applies to two links; its errors are reported once.
    let mut seen = HashSet::new();
    resolver.problems.retain(|problem| seen.insert(problem.to_string()));
    Err([refused, resolver.problems].concat())
}

/// Limit on the flows of a scenario; each takes about 6 kB before it sends anything.
const MOST_FLOWS: u64 = 100_000;
/// Limit on the links in all routes together.
const MOST_HOPS: usize = 10_000_000;

/// An error if there are more flows than a run can hold, before they are expanded.
fn check_count(scenario: &Scenario) -> Result<(), Vec<Problem>> {
    let mut sum = 0;
    for (number, flow) in scenario.flow.iter().enumerate() {
        let count = flow.count.map_or(1, |count| count.0);
        sum += count * if flow.two_way { 2 } else { 1 };
        if sum > MOST_FLOWS {
            let problem = format!("with it there are {sum} flows, and a run has at most {MOST_FLOWS}");
            let fix = "Lower count, or have an application open several connections, as web and transfers do";
            let place = format!("flow[{number}].count");
            return Err(vec![Problem::new(&place, Some(&Node::from(count)), fault(problem, fix))]);
        }
    }
    Ok(())
}

/// Expands the preset of a scenario; returns errors in its options, which then take their defaults.
fn expand(scenario: &Scenario) -> Result<(Scenario, Vec<Problem>), Vec<Problem>> {
    let (mut trial, mut refused) = (scenario.clone(), Vec::new());
    loop {
        let found = match presets::expand(&trial) {
            Ok(expanded) => return Ok((expanded, refused)),
            Err(found) => found,
        };
        let is_refused = |key: &str| found.iter().any(|problem| problem.field == format!("path.{key}"));
        let options = trial.path.as_mut().map(|path| &mut path.params.0);
        let before = options.as_ref().map_or(0, |options| options.len());
        let left = options.map_or(0, |options| {
            options.retain(|(key, _)| !is_refused(key));
            options.len()
        });
        refused.extend(found);
        if left == before {
            return Err(refused);
        }
    }
}

/// Names of a scenario's flows and links, in the order of the engine's tables, and names of its entries for flows.
pub fn names(scenario: &Scenario) -> Result<[Vec<String>; 3], Vec<Problem>> {
    check_count(scenario)?;
    let scenario = &presets::expand(scenario)?;
    let listed = Listed::new(scenario);
    let links = hops_of(&listed).into_iter().map(|hop| hop.name).collect();
    Ok([listed.names(), links, flow_names(scenario)])
}

/// A scenario without preset, in which every flow is listed individually under its name.
struct Listed {
    scenario: Scenario,
    /// The entry of each flow, and whether it is the second of a two-way flow.
    written: Vec<(usize, bool)>,
}

impl Listed {
    fn new(scenario: &Scenario) -> Self {
        let (mut flows, mut written) = (Vec::new(), Vec::new());
        for (number, (flow, name)) in scenario.flow.iter().zip(flow_names(scenario)).enumerate() {
            for (name, is_back) in each_of(flow, &name) {
                let turned = if is_back { turned(scenario, flow) } else { flow.clone() };
                flows.push(Flow { name: Some(Name(name)), ..turned });
                written.push((number, is_back));
            }
        }
        Listed { scenario: Scenario { flow: flows, ..scenario.clone() }, written }
    }

    fn names(&self) -> Vec<String> {
        self.scenario.flow.iter().flat_map(|flow| flow.name.clone()).map(|name| name.0).collect()
    }

    /// Path of a flow's entry.
    fn place(&self, number: usize) -> String {
        format!("flow[{}]", self.written[number].0)
    }

    fn is_back(&self, number: usize) -> bool {
        self.written[number].1
    }
}

/// The flows of an entry called `name`: their names, and whether they run in reverse.
fn each_of(flow: &Flow, name: &str) -> Vec<(String, bool)> {
    let names = match flow.count {
        None => vec![name.to_string()],
        Some(count) => (1..=count.0).map(|number| format!("{name}-{number}")).collect(),
    };
    let ways = |name: String| {
        let back = flow.two_way.then(|| (format!("{name}.back"), true));
        std::iter::once((name, false)).chain(back)
    };
    names.into_iter().flat_map(ways).collect()
}

/// The same flow in the reverse direction.
fn turned(scenario: &Scenario, flow: &Flow) -> Flow {
    let [from, to] = match scenario.dumbbell {
        Some(_) => presets::ends(flow).map(|node| Some(Name(node))),
        None => [flow.from.clone(), flow.to.clone()],
    };
    Flow {
        from: to,
        to: from,
        route: flow.back_route.clone(),
        back_route: flow.route.clone(),
        ..flow.clone()
    }
}

/// Names of the entries for flows, given or generated, in order.
fn flow_names(scenario: &Scenario) -> Vec<String> {
    let given = scenario.flow.iter().filter_map(|flow| flow.name.as_deref().map(|name| (flow, name)));
    let given: HashSet<String> = given
        .flat_map(|(flow, name)| each_of(flow, name).into_iter().map(|(name, _)| name).chain([name.into()]))
        .collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unnamed: BTreeMap<&str, usize> = BTreeMap::new();
    for flow in scenario.flow.iter().filter(|flow| flow.name.is_none()) {
        *unnamed.entry(&flow.app).or_default() += 1;
    }
    let name = |flow: &Flow, count: &mut usize| {
        let alone = unnamed.get(&*flow.app.0) == Some(&1);
        if alone && !given.contains(&*flow.app) {
            return flow.app.0.clone();
        }
        loop {
            *count += 1;
            let numbered = format!("{}-{count}", &*flow.app);
            if !given.contains(&numbered) {
                return numbered;
            }
        }
    };
    let named = scenario.flow.iter().map(|flow| match &flow.name {
        Some(given) => given.0.clone(),
        None => name(flow, count.entry(&flow.app).or_default()),
    });
    named.collect()
}

/// Properties of an application that a description depends on.
struct App {
    card: &'static Card,
    sends_datagrams: bool,
    rows: Rows,
}

/// The simulator's applications, then those that run only live.
fn applications() -> &'static [App] {
    static APPS: OnceLock<Vec<App>> = OnceLock::new();
    static PROGRAMS: Card = traffic::exec::CARD;
    APPS.get_or_init(|| {
        let simulated = traffic::registry::samples().map(|(card, app)| App {
            card,
            sends_datagrams: app.transport() == Transport::Udp,
            rows: app.rows(),
        });
        simulated.chain([App { card: &PROGRAMS, sends_datagrams: false, rows: Rows::None }]).collect()
    })
}

/// The names of all applications, in registry order.
pub fn application_names() -> Vec<&'static str> {
    applications().iter().map(|app| app.card.name).collect()
}

fn application(name: &str) -> Option<&'static App> {
    applications().iter().find(|app| app.card.name == name)
}

/// Whether the application uses UDP. An unknown application counts as TCP; its name is reported elsewhere.
fn sends_datagrams(name: &str) -> bool {
    application(name).is_some_and(|app| app.sends_datagrams)
}

/// State of a conversion to the engine's form: its errors, and the path of each element in the scenario.
struct Resolver<'a> {
    listed: &'a Listed,
    scenario: &'a Scenario,
    host: &'a dyn Host,
    /// The scenario as written in a file.
    written: Node,
    problems: Vec<Problem>,
    places: BTreeMap<String, String>,
}

impl<'a> Resolver<'a> {
    fn new(listed: &'a Listed, written: Node, host: &'a dyn Host) -> Self {
        let places = BTreeMap::from([("duration_ps".into(), "duration".into())]);
        let scenario = &listed.scenario;
        Resolver { listed, scenario, host, written, problems: Vec::new(), places }
    }

    fn describe(&mut self) -> Node {
        let scenario = self.scenario;
        if scenario.dumbbell.is_none() && scenario.link.is_empty() {
            let fix = "Add a [dumbbell] table, [[link]] entries, or [path] with a preset";
            self.problem("", fault("there is no path", fix));
        }
        if scenario.dumbbell.is_some() && !scenario.link.is_empty() {
            self.problem(
                "link",
                fault("a dumbbell already describes the path", "Remove [dumbbell] or the links"),
            );
        }
        if scenario.flow.is_empty() {
            self.problem("flow", fault("there are no flows", "Add for example [[flow]] with app = \"bulk\""));
        }
        let graph = Graph::new(self);
        let nodes = graph.nodes(self);
        let routes = graph.all_routes(self, &nodes);
        let links = links::describe(self, &graph, &routes);
        let flows = flows::describe(self, &graph, &routes);
        let mut randomness = table! {
            "start_spread_ps" => scenario.randomness.start_spread.0,
            "processing_jitter_ps" => scenario.randomness.processing_jitter.0,
        };
        // Omitted if zero, so that the names of stored runs do not change.
        if scenario.randomness.access_spread.0 > 0 {
            randomness.put("access_spread_ps", scenario.randomness.access_spread.0);
        }
        table! {
            "format" => FORMAT,
            "name" => scenario.name.0.as_str(),
            "seed" => scenario.seed.0,
            "duration_ps" => scenario.duration.0.0,
            "nodes" => nodes.as_slice(),
            "links" => links,
            "flows" => flows,
            "randomness" => randomness,
            "instruments" => instruments::describe(self, &graph, &nodes),
        }
    }

    /// Records an error at a path of the scenario, with the value there.
    fn problem(&mut self, place: &str, fault: Fault) {
        self.problems.push(Problem::new(place, self.written.look_up(place), fault));
    }

    /// The same, with another value.
    fn problem_with(&mut self, place: &str, value: &Node, fault: Fault) {
        self.problems.push(Problem::new(place, Some(value), fault));
    }

    fn place(&mut self, path: impl Into<String>, place: impl Into<String>) {
        self.places.insert(path.into(), place.into());
    }

    /// Reports an unknown name, and suggests the nearest known one.
    fn unknown(&mut self, name: &str, known: &[&str], place: &str, what: &str, listed: &str) {
        let instead = match listed {
            "queues" => instead::of_queue(name),
            "apps" => instead::of_application(name),
            "links" if name == "none" => Some("Remove medium for a link that transmits at its rate".into()),
            _ => None,
        };
        let instead = instead.map_or(String::new(), |instead| format!("{instead}. "));
        let fix = format!("{instead}{} (`tailback list {listed}`)", choices(name, known));
        self.problem_with(place, &name.into(), fault(format!("there is no {what} called {name}"), fix));
    }

    fn card(
        &mut self,
        name: &str,
        cards: impl Iterator<Item = &'static Card> + Clone,
        place: &str,
        words: [&str; 2],
    ) -> Option<&'static Card> {
        let found = cards.clone().find(|card| card.name == name);
        if found.is_none() {
            let known: Vec<&str> = cards.map(|card| card.name).collect();
            self.unknown(name, &known, place, words[0], words[1]);
        }
        found
    }

    /// Adds a parameter to `out` under the engine's key, in the engine's unit.
    fn param(&mut self, card: &Card, key: &str, value: &Node, place: &str, out: &mut Params) {
        let Some((spec, spelling)) = card.spelled(key) else {
            let fix = if card.params.is_empty() {
                "It has no parameters: remove it".into()
            } else {
                let spelled: Vec<&str> = card.params.iter().map(as_written).collect();
                choices(key, &spelled)
            };
            self.problem_with(place, value, fault(format!("{} has no parameter {key}", card.name), fix));
            return;
        };
        match engines(spec, spelling, value) {
            Ok(number) => set(out, &spec.key(), number),
            Err(found) => self.problem_with(place, value, found),
        }
    }
}

fn set(params: &mut Params, name: &str, value: Node) {
    match params.0.iter_mut().find(|(key, _)| key == name) {
        Some(row) => row.1 = value,
        None => params.0.push((name.into(), value)),
    }
}

/// Converts a parameter to the base unit of its kind; other values stay, and the engine refuses them.
fn engines(spec: &ParamSpec, spelling: Spelling, value: &Node) -> Result<Node, Fault> {
    let is_word = matches!(spec.kind, Kind::Choice | Kind::Text);
    match (spec.kind, value.as_text().filter(|text| !is_word && begins_with_number(text))) {
        (Kind::Time, Some(text)) => Quantity::Time.read(text).map(Node::from),
        (Kind::Rate, Some(text)) => Quantity::Rate.read(text).map(Node::from),
        (Kind::Size, Some(text)) => Quantity::Bytes.read(text).map(Node::from),
        (_, Some(text)) => to_unit(text, spec.unit).map(Node::from),
        // `status = 3` means what `status = "3"` does.
        (Kind::Text, None) if matches!(value.value, Value::Whole(_) | Value::Number(_)) => {
            Ok(value.value.text().as_str().into())
        }
        (Kind::Time, None) if spelling == Spelling::Plain => from_unit(value, spec.unit),
        (_, None) => Ok(value.clone()),
    }
}

/// The name of a parameter as users write it: without the suffix for a unit of time or rate, because the value states
/// it ("10ms"). Suffixes that name what is counted stay: `limit_packets` is not `limit_bytes`.
pub fn as_written(spec: &ParamSpec) -> &'static str {
    let is_counted = matches!(spec.unit, "B" | "packets" | "segments");
    let stem = spec.name.rsplit_once('_').map(|(stem, _)| stem);
    stem.filter(|stem| !is_counted && spec.spelling(stem).is_some()).unwrap_or(spec.name)
}

/// A text, or null.
fn optional(text: Option<&str>) -> Node {
    text.map_or(Value::Null.into(), Node::from)
}
